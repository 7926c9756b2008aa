//! Recent invalidations, which refuse fills that began earlier.
//!
//! Each shard keeps the last invalidation of each primary key hash. When the table is full, it is cleared and the
//! shard's *horizon* rises to the present, which refuses every fill of the shard that began before. That costs a few
//! fills, never a wrong answer.
//!
//! Limits: [`REMEMBERED_MAX`] primaries a shard.

use crate::index::key::{KeyHash, NumberMap};
use crate::sequence::Sequence;

/// The most invalidations remembered in a shard; a further one clears the table and raises the horizon.
pub(crate) const REMEMBERED_MAX: usize = 1024;

#[derive(Debug, Default)]
pub(crate) struct Invalidations {
    last: NumberMap<u64, Sequence>,
    horizon: Sequence,
}

impl Invalidations {
    /// Was `primary` invalidated after `began`, or may it have been?
    pub(crate) fn since(&self, primary: KeyHash, began: Sequence) -> bool {
        began < self.horizon || self.is_known_since(primary, began)
    }

    /// Is an invalidation of `primary` after `began` remembered? In doubt no.
    pub(crate) fn is_known_since(&self, primary: KeyHash, began: Sequence) -> bool {
        self.last.get(&primary.0).is_some_and(|&last| last > began)
    }

    pub(crate) fn note(&mut self, primary: KeyHash, sequence: Sequence) {
        if self.last.len() >= REMEMBERED_MAX && !self.last.contains_key(&primary.0) {
            self.last.clear();
            self.horizon = sequence;
        }
        self.last.insert(primary.0, sequence);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_fills_that_began_earlier_are_refused() {
        let mut table = Invalidations::default();
        table.note(KeyHash(1), 5);
        assert!(table.since(KeyHash(1), 4));
        assert!(!table.since(KeyHash(1), 5));
        assert!(!table.since(KeyHash(2), 4));
    }

    #[test]
    fn a_full_table_refuses_rather_than_forgets() {
        let mut table = Invalidations::default();
        for n in 1..=REMEMBERED_MAX as u64 + 1 {
            table.note(KeyHash(n), n);
        }
        assert!(table.last.len() <= REMEMBERED_MAX);
        assert!(
            table.since(KeyHash(1), 0),
            "its entry is gone, but the horizon is not"
        );
        assert!(table.since(KeyHash(999_999), 1000));
        assert!(!table.since(KeyHash(1), REMEMBERED_MAX as u64 + 1));
    }
}
