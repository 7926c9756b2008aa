//! The heaviest names of a stream, in bounded memory.
//!
//! A table of names and what was counted of each. When it is full, the lighter half goes, and `lost` remembers how heavy the heaviest of
//! those could have been. A name that comes (again) afterwards may have had that much before, so its true weight is at most
//! `lost` above what was counted. Every name whose weight is above `lost` is in the table.
//!
//! Not known here: what is named.   Limits: [`KEPT_MAX`] names after a clearing, twice that before; [`NAME_BYTES_MAX`].

use std::collections::HashMap;

/// Names that stay when the table is cleared.
const KEPT_MAX: usize = 1000;
/// Longer names are cut, and counted together if they begin the same.
const NAME_BYTES_MAX: usize = 256;

/// What is counted of a name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) requests: u64,
    pub(crate) hits: u64,
    pub(crate) misses: u64,
    pub(crate) bytes: u64,
    pub(crate) hit_bytes: u64,
}

impl Tally {
    fn add(&mut self, other: &Tally) {
        self.requests += other.requests;
        self.hits += other.hits;
        self.misses += other.misses;
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.hit_bytes = self.hit_bytes.saturating_add(other.hit_bytes);
    }
}

/// The table.
pub(crate) struct Heavy {
    weight: fn(&Tally) -> u64,
    names: HashMap<Box<[u8]>, Counted>,
    lost: u64,
}

#[derive(Default)]
struct Counted {
    tally: Tally,
    /// What it may have weighed before it came (again).
    before: u64,
}

impl Heavy {
    /// An empty one, for names that weigh so much.
    pub(crate) fn by(weight: fn(&Tally) -> u64) -> Heavy {
        Heavy {
            weight,
            names: HashMap::new(),
            lost: 0,
        }
    }

    /// Counts.
    pub(crate) fn add(&mut self, name: &[u8], tally: &Tally) {
        let name = &name[..name.len().min(NAME_BYTES_MAX)];
        if let Some(counted) = self.names.get_mut(name) {
            counted.tally.add(tally);
            return;
        }
        let counted = Counted {
            tally: *tally,
            before: self.lost,
        };
        self.names.insert(name.into(), counted);
        if self.names.len() >= 2 * KEPT_MAX {
            self.clear();
        }
    }

    /// The lighter half goes.
    fn clear(&mut self) {
        let weight = self.weight;
        let bound = |counted: &Counted| weight(&counted.tally).saturating_add(counted.before);
        let mut bounds: Vec<u64> = self.names.values().map(bound).collect();
        let middle = bounds.len() - KEPT_MAX;
        let (_, &mut limit, _) = bounds.select_nth_unstable(middle);
        self.names.retain(|_, counted| bound(counted) > limit);
        self.lost = limit;
    }

    /// The heaviest, heaviest first, at most so many; and how much too low their weights may be, at most.
    pub(crate) fn heaviest(&self, most: usize) -> (Vec<(&[u8], Tally)>, u64) {
        let mut all: Vec<(&[u8], Tally)> = (self.names.iter())
            .map(|(name, counted)| (&**name, counted.tally))
            .filter(|(_, tally)| (self.weight)(tally) > 0)
            .collect();
        all.sort_by(|a, b| {
            (self.weight)(&b.1)
                .cmp(&(self.weight)(&a.1))
                .then(a.0.cmp(b.0))
        });
        all.truncate(most);
        (all, self.lost)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Tally = Tally {
        requests: 1,
        hits: 0,
        misses: 0,
        bytes: 0,
        hit_bytes: 0,
    };

    #[test]
    fn the_heaviest_come_first_and_ties_by_name() {
        let mut heavy = Heavy::by(|tally| tally.requests);
        for name in ["b", "a", "c", "c", "a", "c", "d"] {
            heavy.add(name.as_bytes(), &ONE);
        }
        let (found, lost) = heavy.heaviest(3);
        let found: Vec<_> = found.iter().map(|(n, t)| (n[0], t.requests)).collect();
        assert_eq!((found, lost), (vec![(b'c', 3), (b'a', 2), (b'b', 1)], 0));
    }

    #[test]
    fn memory_is_bounded_and_what_is_heavy_stays() {
        let mut heavy = Heavy::by(|tally| tally.requests);
        for i in 0..100_000u32 {
            heavy.add(format!("once {i}").as_bytes(), &ONE);
            if i % 10 == 0 {
                heavy.add(b"often", &ONE);
            }
            assert!(heavy.names.len() < 2 * KEPT_MAX);
        }
        let (found, lost) = heavy.heaviest(1);
        let (name, tally) = found[0];
        assert_eq!(name, b"often");
        // Never too high, and too low by no more than is said.
        assert!(tally.requests <= 10_000 && tally.requests + lost >= 10_000);
    }

    #[test]
    fn names_of_one_weight_do_not_hold_the_table_up() {
        let mut heavy = Heavy::by(|tally| tally.bytes);
        for i in 0..10_000u32 {
            heavy.add(&i.to_le_bytes(), &ONE);
        }
        assert!(heavy.names.len() < 2 * KEPT_MAX);
        // Nothing weighs anything.
        assert!(heavy.heaviest(5).0.is_empty());
    }
}
