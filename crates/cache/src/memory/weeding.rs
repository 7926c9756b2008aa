//! Purges by pattern, and the walk through memory that removes the objects they match.
//!
//! A purge is noted (`purged`), and an object is compared with it when it is asked for. So that purges do not stay noted for ever, each
//! purge, and each worker once a second, compares the next [`SWEPT_AT_ONCE`] objects. At the end of a walk through all objects, the
//! purges from before its beginning are dropped. With n thousand objects a walk takes at most n purges, so about 2n are noted at most.
//!
//! Not known here: how an object is compared.

use std::sync::PoisonError;

use httpcache::UnixMillis;
use store::KeyHash;

use super::{MemoryTier, SWEPT_AT_ONCE};

/// How many objects are compared under one hold of a shard's lock.
const UNDER_ONE_LOCK: usize = 128;

/// How far objects were compared with purges by pattern.
#[derive(Default)]
pub(super) struct Walk {
    /// The epoch at the beginning of the walk; 0: no walk is under way.
    upto: u64,
    shard: usize,
    slot: usize,
}

impl MemoryTier {
    /// Makes stale the object with this primary hash and all its variants.
    pub fn doubt_variants(&self, primary: KeyHash, now: UnixMillis) {
        while !self.purged.note_resource(primary, now) {
            self.weed();
        }
        self.weed();
    }

    /// From now on, objects that match a purge by pattern (`predicate`) are not served any more or, if the purge is soft, are stale. The
    /// cost does not depend on the number of objects.
    ///
    /// Call it after the purge was recorded, so that [`MemoryTier::insert`] refuses objects that come meanwhile.
    pub fn purge(&self, kind: u8, pattern: &[u8], now: UnixMillis) {
        while !self.purged.note(kind, pattern, now) {
            self.weed();
        }
        self.weed();
    }

    /// Compares the next [`SWEPT_AT_ONCE`] objects with the purges by pattern. When all objects were compared with a purge, it is dropped.
    /// True: there is more to compare.
    pub fn weed(&self) -> bool {
        let mut walk = self.walk.lock().unwrap_or_else(PoisonError::into_inner);
        if walk.upto == 0 {
            if self.purged.is_empty() {
                return false;
            }
            // Objects inserted from now on have at least this epoch.
            walk.upto = self.purged.epoch();
        }
        let mut left = SWEPT_AT_ONCE;
        while left > 0 && walk.shard < self.shards.len() {
            let shard = &self.shards[walk.shard];
            let mut shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            let end = shard.slots.len().min(walk.slot + left.min(UNDER_ONE_LOCK));
            for slot in walk.slot..end {
                self.compare(&mut shard, slot as u32);
            }
            left -= end.saturating_sub(walk.slot);
            walk.slot = end;
            if end >= shard.slots.len() {
                (walk.shard, walk.slot) = (walk.shard + 1, 0);
            }
        }
        if walk.shard == self.shards.len() {
            self.purged.prune(walk.upto);
            *walk = Walk::default();
        }
        !self.purged.is_empty()
    }
}
