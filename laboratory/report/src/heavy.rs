//! The heaviest names of a stream, in bounded memory.
//!
//! A table of names with their tallies. When it is full, the lighter half is removed, and `lost` records the largest possible weight of
//! a removed name. A name that comes (again) later may have had that weight before, so its true weight is at most `lost` more than
//! its tally. Every name whose weight is above `lost` is in the table.
//!
//! Not known here: what the names are of.   Limits: [`KEPT_MAX`] names after a clearing, twice that before; [`NAME_BYTES_MAX`].

use std::collections::HashMap;

/// Names that are kept when the table is cleared.
const KEPT_MAX: usize = 1000;
/// Longer names are cut off; those with the same beginning are counted together.
const NAME_BYTES_MAX: usize = 256;

/// The counts of a name.
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

/// The table of names.
pub(crate) struct Heavy {
    weight: fn(&Tally) -> u64,
    names: HashMap<Box<[u8]>, Counted>,
    lost: u64,
}

#[derive(Default)]
struct Counted {
    tally: Tally,
    /// The largest weight that the name may have had before it was (again) added.
    before: u64,
}

impl Heavy {
    /// An empty table; `weight` gives the weight of a tally.
    pub(crate) fn by(weight: fn(&Tally) -> u64) -> Heavy {
        Heavy {
            weight,
            names: HashMap::new(),
            lost: 0,
        }
    }

    /// Adds to the tally of a name.
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

    /// Removes the lighter half.
    fn clear(&mut self) {
        let weight = self.weight;
        let bound = |counted: &Counted| weight(&counted.tally).saturating_add(counted.before);
        let mut bounds: Vec<u64> = self.names.values().map(bound).collect();
        let middle = bounds.len() - KEPT_MAX;
        let (_, &mut limit, _) = bounds.select_nth_unstable(middle);
        self.names.retain(|_, counted| bound(counted) > limit);
        self.lost = limit;
    }

    /// At most `most` of the heaviest names, heaviest first; and the largest amount by which their weights may be too low.
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
        // Never too high, and too low by at most `lost`.
        assert!(tally.requests <= 10_000 && tally.requests + lost >= 10_000);
    }

    #[test]
    fn names_of_one_weight_do_not_hold_the_table_up() {
        let mut heavy = Heavy::by(|tally| tally.bytes);
        for i in 0..10_000u32 {
            heavy.add(&i.to_le_bytes(), &ONE);
        }
        assert!(heavy.names.len() < 2 * KEPT_MAX);
        // All weights are 0.
        assert!(heavy.heaviest(5).0.is_empty());
    }
}
