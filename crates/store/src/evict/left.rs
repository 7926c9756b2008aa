//! Remembers records that left the index while their bytes may still be on the disk, where a start after a crash
//! could find them.
//!
//! The invalidation by an unsafe method must survive a crash, so it is logged, which takes a flush. If nothing of its
//! URI is or was stored, nothing can come back, and the flush is saved. This file answers *was*:
//!
//! | a record leaves the index | remembered until |
//! |---|---|
//! | replaced | (not at all: its successor has the same name) |
//! | swept | its region is noted |
//! | a marker that has aged | (not at all: of its variants nothing is left on the disk) |
//! | otherwise: invalidated, not readable, its write failed, weeded; a marker that had to make room | every region was opened since |
//!
//! A record is remembered by its *name*: the bits of its key's hash that the index knows. Two keys with one name
//! count as one, as in the index. Invalidated records are remembered too, because the log has the key that was asked
//! for, while the record that left may belong to another key with the same name. A name is added under the lock of
//! the record's shard, so a thread that finds the record gone finds the name. The names go into the checkpoint of a
//! clean stop (unless a write was under way, or a part found no room there). After any other stop the content of the
//! disk is unknown, so every key counts as remembered until every region was opened since.
//!
//! In doubt the answer is yes. With an ordered policy it is always yes, because regions are never noted.
//! Limits: [`NAMES_MAX`] names in each of three sets; beyond that, every key counts as remembered.
//! Source: docs/decisions/0030.

use crate::index::pieces::Short;
use crate::sequence::Sequence;
use std::collections::BTreeSet;

/// Names in one set.
const NAMES_MAX: usize = 1 << 16;

/// The bits of a hash that the index knows.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Name(u64);

impl Name {
    /// `segment` counts through all shards.
    pub(crate) fn new(segment: usize, short: Short) -> Self {
        Self((segment as u64) << Short::BITS | u64::from(short.number()))
    }
}

/// Names, and whether all names count.
#[derive(Debug, Default)]
struct Names {
    names: BTreeSet<Name>,
    all: bool,
    /// The sequence at which the last name was added.
    last: Sequence,
}

impl Names {
    fn add(&mut self, name: Name, now: Sequence) {
        self.last = now;
        if self.names.len() < NAMES_MAX {
            self.names.insert(name);
        } else {
            self.all = true;
        }
    }

    fn has(&self, name: Name) -> bool {
        self.all || self.names.contains(&name)
    }
}

/// See the head of this file.
#[derive(Debug, Default)]
pub(crate) struct Left {
    newer: Names,
    older: Names,
    /// From regions that are not noted yet.
    swept: Names,
}

impl Left {
    /// The content of the disk is unknown.
    pub(crate) fn all(now: Sequence) -> Self {
        let mut left = Self::default();
        left.newer.all = true;
        left.newer.last = now;
        left
    }

    pub(crate) fn has(&self, name: Name) -> bool {
        self.newer.has(name) || self.older.has(name) || self.swept.has(name)
    }

    pub(crate) fn add(&mut self, name: Name, now: Sequence) {
        self.newer.add(name, now);
    }

    pub(crate) fn add_swept(&mut self, name: Name) {
        self.swept.add(name, 0);
    }

    /// All swept regions are noted.
    pub(crate) fn swept_is_noted(&mut self) {
        self.swept = Names::default();
    }

    /// All regions were opened after `oldest`.
    pub(crate) fn all_opened_since(&mut self, oldest: Sequence) {
        if oldest > self.older.last {
            self.older = std::mem::take(&mut self.newer);
        }
        if oldest > self.older.last {
            self.older = Names::default();
        }
    }

    /// The encoded names, for the checkpoint of a clean stop. `None` if every key counts.
    pub(crate) fn encode(&self) -> Option<Vec<u8>> {
        let sets = [&self.newer, &self.older, &self.swept];
        if sets.iter().any(|set| set.all) {
            return None;
        }
        let names = sets.into_iter().flat_map(|set| &set.names);
        Some(names.flat_map(|name| name.0.to_le_bytes()).collect())
    }

    /// Reads what [`Self::encode`] wrote; `now` is the sequence of the start.
    pub(crate) fn decode(bytes: &[u8], now: Sequence) -> Self {
        let mut left = Self::default();
        let (names, _) = bytes.as_chunks::<8>();
        for name in names {
            left.add(Name(u64::from_le_bytes(*name)), now);
        }
        left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(n: u64) -> Name {
        Name(n)
    }

    #[test]
    fn a_name_is_forgotten_when_every_region_was_opened_since() {
        let mut left = Left::default();
        left.add(name(1), 10);
        left.all_opened_since(5);
        assert!(left.has(name(1)) && !left.has(name(2)));
        left.add(name(2), 20);
        left.all_opened_since(15);
        assert!(!left.has(name(1)) && left.has(name(2)));
        left.all_opened_since(21);
        assert!(!left.has(name(1)) && !left.has(name(2)));
    }

    #[test]
    fn a_full_set_says_yes_to_all() {
        let mut left = Left::default();
        for n in 0..=NAMES_MAX as u64 {
            left.add_swept(name(n));
        }
        assert!(left.has(name(u64::MAX)));
        assert_eq!(left.encode(), None);
        left.swept_is_noted();
        assert!(!left.has(name(1)));
    }

    #[test]
    fn what_is_remembered_comes_back() {
        let mut left = Left::default();
        left.add(name(1), 10);
        left.add_swept(name(2));
        let back = Left::decode(&left.encode().unwrap(), 50);
        assert!(back.has(name(1)) && back.has(name(2)) && !back.has(name(3)));
        assert!(Left::all(1).has(name(9)));
    }
}
