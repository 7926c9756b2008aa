//! The order of records, for the policies that need one.
//!
//! The index has no room for links. An ordered policy gets a book beside it: a slot for each record
//! with its full hash, found by the record's first chunk. That costs some 60 bytes a record and lets the policy
//! choose the victim.
//!
//! Invariant, checked by `audit`: B1 slots in use, policy and table by first chunk agree.

use crate::index::key::{KeyHash, NumberMap};
use extent::{Chunk, Extent};
use replacement::{Policy, PolicyKind, Selected};

#[derive(Clone, Copy, Debug)]
struct Noted {
    hash: KeyHash,
    first: Chunk,
    /// The time of the last use, in uses of the whole store.
    stamp: u64,
}

#[derive(Debug)]
pub(crate) struct Book {
    policy: Selected,
    slots: Vec<Noted>,
    vacant: Vec<u32>,
    by_first: NumberMap<u32, u32>,
}

impl Book {
    pub(crate) fn new(kind: PolicyKind) -> Self {
        Self {
            policy: kind.build(),
            slots: Vec::new(),
            vacant: Vec::new(),
            by_first: NumberMap::default(),
        }
    }

    /// Does the policy admit an object of that many bytes?
    pub(crate) fn admits(&self, bytes: u64) -> bool {
        self.policy.admits(bytes)
    }

    pub(crate) fn insert(&mut self, hash: KeyHash, extent: Extent, bytes: u64, stamp: u64) {
        let noted = Noted {
            hash,
            first: extent.first,
            stamp,
        };
        let slot = self.vacant.pop().unwrap_or(self.slots.len() as u32);
        match self.slots.get_mut(slot as usize) {
            Some(place) => *place = noted,
            None => self.slots.push(noted),
        }
        let before = self.by_first.insert(extent.first.0, slot);
        assert!(before.is_none(), "two records at {extent} break B1");
        self.policy.insert(slot, bytes, hash.0);
    }

    pub(crate) fn touch(&mut self, first: Chunk, stamp: u64) {
        if let Some(&slot) = self.by_first.get(&first.0) {
            self.slots[slot as usize].stamp = stamp;
            self.policy.touch(slot);
        }
    }

    pub(crate) fn remove(&mut self, first: Chunk) {
        if let Some(slot) = self.by_first.remove(&first.0) {
            self.policy.remove(slot);
            self.vacant.push(slot);
        }
    }

    /// Removes and returns the record to evict next. The caller drops it from the index.
    pub(crate) fn victim(&mut self) -> Option<(KeyHash, Chunk)> {
        let slot = self.policy.victim()?;
        let Noted { hash, first, .. } = self.slots[slot as usize];
        self.by_first.remove(&first.0);
        self.vacant.push(slot);
        Some((hash, first))
    }

    /// The least recently used record and the time of its last use, if the policy is an exact order of use.
    pub(crate) fn coldest(&self) -> Option<(KeyHash, u64)> {
        let slot = match &self.policy {
            Selected::Lru(lru) => lru.coldest()?,
            Selected::LruThreshold(lru) => lru.coldest()?,
            _ => return None,
        };
        let noted = self.slots[slot as usize];
        Some((noted.hash, noted.stamp))
    }

    /// Is the policy an exact order of use, so that shards can be compared?
    pub(crate) fn is_order_of_use(&self) -> bool {
        matches!(self.policy, Selected::Lru(_) | Selected::LruThreshold(_))
    }

    pub(crate) fn len(&self) -> usize {
        self.by_first.len()
    }

    pub(crate) fn hash_of(&self, first: Chunk) -> Option<KeyHash> {
        let slot = self.by_first.get(&first.0)?;
        Some(self.slots[*slot as usize].hash)
    }

    /// Hash, first chunk and last use of every record, longest unused first.
    pub(crate) fn in_order_of_use(&self) -> Vec<(u64, KeyHash, Chunk)> {
        let mut all: Vec<_> = self
            .by_first
            .values()
            .map(|&slot| {
                let noted = self.slots[slot as usize];
                (noted.stamp, noted.hash, noted.first)
            })
            .collect();
        all.sort_unstable();
        all
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.slots.capacity() * (size_of::<Noted>() + 8)
            + self.vacant.capacity() * 4
            + self.by_first.capacity() * 9
    }

    pub(crate) fn audit(&self) -> Result<(), String> {
        self.policy.audit()?;
        if self.policy.len() != self.by_first.len()
            || self.slots.len() != self.by_first.len() + self.vacant.len()
        {
            return Err(format!(
                "B1: {} in the policy, {} by place, {} slots, {} vacant",
                self.policy.len(),
                self.by_first.len(),
                self.slots.len(),
                self.vacant.len()
            ));
        }
        Ok(())
    }
}
