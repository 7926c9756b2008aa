//! How the variants of a resource are found: the markers of a store.
//!
//! Not known here: how a marker lies in the index (`marker`), how it outlasts a process (`marker/lasting`).

use crate::evict::left::Name;
use crate::index::carried::Carried;
use crate::index::key::KeyHash;
use crate::index::lists::LIST_BYTES_MAX;
use crate::index::marker::Marker;
use crate::mistakes::Mistake;
use crate::sequence::Sequence;
use crate::store::Store;
use std::cmp::Ordering;

impl Store {
    /// How to find the variants of a primary key, if it has any.
    pub fn marker(&self, primary: KeyHash) -> Option<Marker> {
        let mut shard = self.shard(self.shard_of(primary));
        shard.index.marker(primary).map(|(marker, _)| marker)
    }

    /// The marker of a primary key with that list: the present one, or, if its list is another or there is none,
    /// a new one with a new salt, which puts all variants stored so far, and what was stored without one, out of reach. None if the primary
    /// was invalidated since `began`, the list is longer than [`LIST_BYTES_MAX`], or there are too many different lists: then nothing
    /// is to be stored.
    pub fn set_marker(&self, primary: KeyHash, list: &[u8], began: Sequence) -> Option<Marker> {
        let number = self.shard_of(primary);
        let segments = self.limits.segments;
        let mut shard = self.shard(number);
        if list.len() > LIST_BYTES_MAX || !shard.admits(primary, began) {
            return None;
        }
        // What was stored without a marker lies in its place.
        if shard.has(primary) {
            let (_, freed) = shard.kill(primary);
            self.queue_freed(freed);
            self.has_left(primary);
        }
        let leaves = |segment, short| {
            self.name_has_left(Name::new(number * segments + segment, short));
        };
        let Ok((marker, is_new)) = shard.index.set_marker(primary, list, leaves) else {
            self.counters.lists_refused.add(1);
            return None;
        };
        if is_new && self.is_scanning() {
            shard.fresh.add(self.name_of(primary));
        }
        Some(marker)
    }

    /// How often there was no room for one more list.
    pub fn lists_refused(&self) -> u64 {
        self.counters.lists_refused.get()
    }

    /// The marker of that salt with another list, which leads to what was stored with the one before as well. None if there is no such
    /// marker any more, or the list is too long, or there are too many different lists. A crash may bring back the one before.
    pub fn resume_marker(&self, primary: KeyHash, salt: u64, list: &[u8]) -> Option<Marker> {
        let mut shard = self.shard(self.shard_of(primary));
        if list.len() > LIST_BYTES_MAX {
            return None;
        }
        shard.index.resume_marker(primary, salt, list)
    }

    /// What the record of a variant is to carry; None: there is no marker any more, so it could not be reached.
    pub(crate) fn carried(&self, primary: KeyHash) -> Option<Vec<u8>> {
        let mut shard = self.shard(self.shard_of(primary));
        let (Marker { salt, list }, root) = shard.index.marker(primary)?;
        let carried = Carried {
            salt,
            root,
            list: &list,
        };
        Some(carried.encode())
    }

    /// Nothing that was stored under that salt is to be reached.
    pub(crate) fn give_up_salt(&self, primary: KeyHash, salt: u64) {
        let mut shard = self.shard(self.shard_of(primary));
        let present = shard.index.marker(primary);
        if present.is_some_and(|(marker, _)| marker.salt == salt) {
            shard.index.drop_marker(primary, false);
        }
    }

    /// A scan has found the record of a variant, alive and not in the checkpoint. False: it cannot be reached.
    pub(crate) fn variant_found(
        &self,
        primary: KeyHash,
        began: Sequence,
        carried: &Carried<'_>,
        age: Option<Ordering>,
    ) -> bool {
        let careless = self.limits.mistakes.make(Mistake::IgnoreBegan);
        let mut shard = self.shard(self.shard_of(primary));
        // It may have been purged since the scan asked.
        if shard.invalidations.since(primary, began) && !careless {
            return false;
        }
        let name = self.name_of(primary);
        if shard.fresh.has(name) {
            return false;
        }
        if shard.has(primary) {
            let (_, freed) = shard.kill(primary);
            self.queue_freed(freed);
        }
        let age = age.filter(|_| !self.limits.mistakes.make(Mistake::HighestSalt));
        shard.index.found_marker(primary, carried, age)
    }
}
