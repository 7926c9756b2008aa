//! Purges by pattern that objects in memory are still to be compared with.
//!
//! Memory may hold a million objects, so a purge of a prefix or a tag does not search for the objects it matches. It is noted here, as in
//! a store ([`store::Predicates`]), and gets the next *epoch*. Each object records the epoch up to which it was compared. If that is the
//! newest epoch, a hit needs no comparison. Otherwise the object is compared with the purges since, before it is served ([`super::memory`]).
//!
//! When all objects were compared with the purges of an epoch, these are dropped. Each purge, and each worker once a second, compares
//! some objects, so purges do not pile up, and purged objects do not stay in memory for long.
//!
//! Limits: 32 MiB of patterns (the limit of a store). Beyond it the next purge compares objects until there is room.
//! Not known here: shards, which objects were compared.

use std::sync::{
    PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
    atomic::{AtomicU64, Ordering},
};

use httpcache::UnixMillis;
use store::{KeyHash, Manner, Met, Predicates};

use super::{object::Object, predicate};

/// The kind that makes stale a resource with all its variants. Its pattern is [`word_of`] the primary hash.
const SOFT_RESOURCE: u8 = u8::MAX;

/// The purges, and their newest epoch. Each hit reads the epoch, so it has a cache line of its own, away from other threads' writes.
#[repr(align(128))]
pub(super) struct Purged {
    epoch: AtomicU64,
    table: RwLock<Table>,
}

struct Table {
    /// Their sequences are epochs.
    predicates: Predicates,
    /// When the newest purge came.
    newest: UnixMillis,
}

impl Purged {
    pub(super) fn new() -> Purged {
        Purged {
            epoch: AtomicU64::new(0),
            table: RwLock::new(Table {
                predicates: Predicates::new(manner, words, usize::MAX),
                newest: UnixMillis(0),
            }),
        }
    }

    fn table(&self) -> RwLockReadGuard<'_, Table> {
        self.table.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn table_mut(&self) -> RwLockWriteGuard<'_, Table> {
        self.table.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// The newest epoch.
    #[inline]
    pub(super) fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    /// Notes a purge that comes now. False: there is no room for it.
    pub(super) fn note(&self, kind: u8, pattern: &[u8], now: UnixMillis) -> bool {
        let mut table = self.table_mut();
        let next = self.epoch() + 1;
        if table.predicates.note(kind, pattern, next).is_err() {
            return false;
        }
        table.newest = now;
        // The epoch is stored after the purge, so that a thread that sees the epoch finds the purge.
        self.epoch.store(next, Ordering::Release);
        true
    }

    /// Notes a soft purge of this resource and its variants. False: there is no room for it.
    pub(super) fn note_resource(&self, primary: KeyHash, now: UnixMillis) -> bool {
        self.note(SOFT_RESOURCE, &word_of(primary.0.to_le_bytes()), now)
    }

    /// Whether the purges since an epoch match an object; and the time of the newest purge, from which a soft-purged object is stale.
    #[cold]
    pub(super) fn meet(&self, since: u64, object: &Object) -> (Met, UnixMillis) {
        let meta = [&object.primary.0.to_le_bytes()[..], &object.head].concat();
        let table = self.table();
        let met = table.predicates.meet(since, &object.key, &meta);
        (met, table.newest)
    }

    /// Drops the purges up to an epoch. Every object must have been compared with them.
    pub(super) fn prune(&self, upto: u64) {
        self.table_mut().predicates.prune(upto);
    }

    /// How many purges are noted.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.table().predicates.len()
    }

    /// Is no purge noted?
    pub(super) fn is_empty(&self) -> bool {
        self.table().predicates.is_empty()
    }
}

fn manner(kind: u8) -> Manner {
    match kind {
        SOFT_RESOURCE => Manner {
            about: store::About::Word,
            soft: true,
        },
        kind => predicate::manner(kind),
    }
}

/// The word for a primary hash. It begins with LF, which no tag contains.
fn word_of(primary: [u8; 8]) -> [u8; 9] {
    let mut word = [b'\n'; 9];
    word[1..].copy_from_slice(&primary);
    word
}

/// Passes the primary hash and the tags of an object to `each`. `meta` is the hash, followed by the head.
fn words(meta: &[u8], each: &mut dyn FnMut(&[u8])) {
    if let Some((primary, head)) = meta.split_first_chunk() {
        each(&word_of(*primary));
        predicate::words_of_head(head, each);
    }
}
