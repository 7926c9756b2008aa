//! The identities of recently evicted objects.
//!
//! A ring holds the fingerprints of the last evictions in order. Each has a serial number, which gives its place in the
//! ring; a table maps a fingerprint to its latest serial number. When a place leaves the ring, its table
//! entry is removed, unless the fingerprint was noted again since. A ghost whose object comes back leaves the table;
//! its place in the ring stays until later notes push it out.
//!
//! ```text
//!   ring    first = 40:  b  a  c  a         table  b -> 40,  c -> 42,  a -> 43
//! ```
//!
//! Two objects with the same 32-bit fingerprint are confused; one of them is then treated slightly too well.
//!
//! Invariants, checked by `audit`: every table entry leads to its own fingerprint in the ring.
//!
//! Memory: about 4 + 20 bytes a ghost. Limits: `ghosts_max` of `note`, 2^31 at most.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, DefaultHasher};

/// With more ghosts serial numbers would be ambiguous.
const GHOSTS_MAX: usize = 1 << 31;

/// The last evictions.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ghosts {
    ring: VecDeque<u32>,
    /// The serial number of the ring's first place; serial numbers wrap.
    first: u32,
    /// Hashed with fixed keys, so that equal runs use equal memory. Iterated by `audit` only.
    serials: HashMap<u32, u32, BuildHasherDefault<DefaultHasher>>,
}

fn fingerprint(id: u64) -> u32 {
    (id ^ (id >> 32)) as u32
}

impl Ghosts {
    /// Notes an eviction; the last `ghosts_max` notes are kept.
    pub(crate) fn note(&mut self, id: u64, ghosts_max: usize) {
        let ghosts_max = ghosts_max.min(GHOSTS_MAX);
        let fingerprint = fingerprint(id);
        let serial = self.first.wrapping_add(self.ring.len() as u32);
        self.ring.push_back(fingerprint);
        self.serials.insert(fingerprint, serial);
        while self.ring.len() > ghosts_max {
            if let Some(gone) = self.ring.pop_front() {
                if self.serials.get(&gone) == Some(&self.first) {
                    self.serials.remove(&gone);
                }
                self.first = self.first.wrapping_add(1);
            }
        }
    }

    /// Removes an object that comes back; true if it was among the ghosts.
    pub(crate) fn revive(&mut self, id: u64) -> bool {
        self.serials.remove(&fingerprint(id)).is_some()
    }

    /// Places in the ring.
    pub(crate) fn len(&self) -> usize {
        self.ring.len()
    }

    /// Bytes of memory held. The table's share is an estimate: it is at most 7/8 full.
    pub(crate) fn memory_bytes(&self) -> usize {
        let table = self.serials.capacity() * 8 / 7;
        self.ring.capacity() * size_of::<u32>() + table * (size_of::<(u32, u32)>() + 1)
    }

    /// Checks every invariant; the error says which one is broken.
    pub(crate) fn audit(&self) -> Result<(), String> {
        let astray = self.serials.iter().find(|&(fingerprint, serial)| {
            let place = serial.wrapping_sub(self.first) as usize;
            self.ring.get(place) != Some(fingerprint)
        });
        match astray {
            Some((fingerprint, _)) => Err(format!("ghost {fingerprint:08x} is not in the ring")),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_ones_are_remembered() {
        let mut ghosts = Ghosts::default();
        (1..=5).for_each(|id| ghosts.note(id, 3));
        ghosts.audit().unwrap();
        assert_eq!(
            [1, 2, 3, 5].map(|id| ghosts.revive(id)),
            [false, false, true, true]
        );
        assert!(!ghosts.revive(5));
    }

    #[test]
    fn noting_again_renews() {
        let mut ghosts = Ghosts::default();
        [1, 2, 1, 3, 4]
            .into_iter()
            .for_each(|id| ghosts.note(id, 3));
        ghosts.audit().unwrap();
        assert_eq!([1, 2].map(|id| ghosts.revive(id)), [true, false]);
    }

    #[test]
    fn fewer_may_be_kept_at_any_time() {
        let mut ghosts = Ghosts::default();
        (0..100).for_each(|id| ghosts.note(id, 100));
        ghosts.note(100, 2);
        ghosts.audit().unwrap();
        assert_eq!(ghosts.len(), 2);
        ghosts.note(101, 0);
        assert!(ghosts.len() == 0 && !ghosts.revive(101));
    }
}
