//! Finds the variants of a resource by the markers of a store.
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

    /// The primary's marker with that list. If there is no marker or its list differs, a new marker with a new salt puts all
    /// variants stored so far, and a record stored without a marker, out of reach. `None` if the primary was invalidated since `began`, the
    /// list is longer than [`LIST_BYTES_MAX`], or there are too many different lists: then the response must not be stored.
    pub fn set_marker(&self, primary: KeyHash, list: &[u8], began: Sequence) -> Option<Marker> {
        let number = self.shard_of(primary);
        let segments = self.limits.segments;
        let mut shard = self.shard(number);
        if list.len() > LIST_BYTES_MAX || !shard.admits(primary, began) {
            return None;
        }
        // A record that was stored without a marker lies in the marker's place.
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

    /// Gives the marker of that salt another list; variants stored with the previous list stay in reach. `None` if there is no such
    /// marker any more, the list is too long, or there are too many different lists. A crash may bring back the previous list.
    pub fn resume_marker(&self, primary: KeyHash, salt: u64, list: &[u8]) -> Option<Marker> {
        let mut shard = self.shard(self.shard_of(primary));
        if list.len() > LIST_BYTES_MAX {
            return None;
        }
        shard.index.resume_marker(primary, salt, list)
    }

    /// The marker as the record of a variant carries it; `None` if there is none any more, so that the variant could not be reached.
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

    /// Puts everything that was stored under that salt out of reach.
    pub(crate) fn give_up_salt(&self, primary: KeyHash, salt: u64) {
        let mut shard = self.shard(self.shard_of(primary));
        let present = shard.index.marker(primary);
        if present.is_some_and(|(marker, _)| marker.salt == salt) {
            shard.index.drop_marker(primary, false);
        }
    }

    /// A scan has found the record of a variant, alive and not in the checkpoint. False if the variant cannot be reached.
    pub(crate) fn variant_found(
        &self,
        primary: KeyHash,
        began: Sequence,
        carried: &Carried<'_>,
        age: Option<Ordering>,
    ) -> bool {
        let careless = self.limits.mistakes.make(Mistake::IgnoreBegan);
        let mut shard = self.shard(self.shard_of(primary));
        // The primary may have been purged since the scan checked that.
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
