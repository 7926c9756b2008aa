//! Concurrency: how many intervals are open at a time, from their begins and ends.
//!
//! Two ways of counting give two numbers. *Exact* weighs each number by how long it lasted. The *grid* of paper 001 divides the slot into
//! pieces of 2 ms and counts how many intervals touch each piece, so that an interval of 60 us counts as 2 ms.
//!
//! Not known here: what the intervals are.   Limits: a slot of at most [`SLOT_US_MAX`]; instants within it fit 32 bits.

use std::collections::BTreeMap;

use crate::model::Spread;
use crate::values::nearest_rank;

/// The grid of the paper.
//= paper 001 section 6.6.3   the measurements are done using 2 msec intervals
pub(crate) const GRID_US: u64 = 2000;
/// One hour.
pub(crate) const SLOT_US_MAX: u64 = 3_600_000_000;
const _: () = assert!(SLOT_US_MAX <= u32::MAX as u64);

/// The intervals that touch a slot: both ends, relative to the slot's start and cut at its borders.
#[derive(Clone, Debug, Default)]
pub(crate) struct Intervals {
    starts: Vec<u32>,
    ends: Vec<u32>,
}

impl Intervals {
    /// Adds an interval. `start <= end <= SLOT_US_MAX`.
    pub(crate) fn push(&mut self, start: u64, end: u64) {
        assert!(
            start <= end && end <= SLOT_US_MAX,
            "{start}..{end} is no piece of a slot"
        );
        self.starts.push(start as u32);
        self.ends.push(end as u32);
    }

    /// Number of intervals.
    pub(crate) fn len(&self) -> usize {
        self.starts.len()
    }

    /// Removes all intervals, and keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.starts.clear();
        self.ends.clear();
    }

    /// The intervals of several kinds together.
    pub(crate) fn union<'a>(parts: impl IntoIterator<Item = &'a Intervals>) -> Intervals {
        let mut all = Intervals::default();
        for part in parts {
            all.starts.extend_from_slice(&part.starts);
            all.ends.extend_from_slice(&part.ends);
        }
        all
    }

    /// Exact: how long each number lasted, microseconds. By the grid: in how many pieces each number was reached.
    pub(crate) fn levels(&mut self, slot_us: u64) -> [Levels; 2] {
        self.starts.sort_unstable();
        self.ends.sort_unstable();
        let pieces = slot_us.div_ceil(GRID_US).max(1);
        // An end on a border belongs to the piece before it. Both functions are monotonic, so the order stays.
        let first = |start: u32| (u64::from(start) / GRID_US).min(pieces - 1);
        let behind = |end: u32| (u64::from(end).saturating_sub(1) / GRID_US).min(pieces - 1) + 1;
        [
            self.sweep(slot_us, u64::from, u64::from),
            self.sweep(pieces, first, behind),
        ]
    }

    /// Sweeps over starts and ends, both sorted and mapped to another scale, from 0 to `length`.
    fn sweep(&self, length: u64, start: impl Fn(u32) -> u64, end: impl Fn(u32) -> u64) -> Levels {
        let mut levels = Levels::default();
        let (mut begun, mut ended, mut now) = (0, 0, 0);
        while ended < self.ends.len() {
            // At the same instant, intervals end before others begin, but none ends before it has begun.
            let goes = end(self.ends[ended]);
            let comes = self.starts.get(begun).map(|&came| start(came));
            let coming = comes.filter(|&comes| comes < goes || begun == ended);
            let at = coming.unwrap_or(goes).max(now);
            levels.add((begun - ended) as u32, at - now);
            now = at;
            match coming {
                Some(_) => begun += 1,
                None => ended += 1,
            }
        }
        levels.add(0, length - now);
        levels
    }
}

/// For each number of open intervals: how long it lasted, in microseconds or pieces of the grid.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Levels(BTreeMap<u32, u64>);

impl Levels {
    fn add(&mut self, level: u32, weight: u64) {
        if weight > 0 {
            *self.0.entry(level).or_default() += weight;
        }
    }

    /// Adds the levels of another time.
    pub(crate) fn extend(&mut self, other: &Levels) {
        for (&level, &weight) in &other.0 {
            self.add(level, weight);
        }
    }

    /// Subtracts time that the source does not cover; it was counted as time with no open interval.
    pub(crate) fn leave_out(&mut self, weight: u64) {
        if let Some(none) = self.0.get_mut(&0) {
            *none = none.saturating_sub(weight);
            if *none == 0 {
                self.0.remove(&0);
            }
        }
    }

    fn weight(&self) -> u64 {
        self.0.values().sum()
    }

    /// The share of the time with at least one, 0 to 1.
    pub(crate) fn busy(&self) -> f64 {
        let all = self.weight().max(1);
        (all - self.0.get(&0).copied().unwrap_or(0).min(all)) as f64 / all as f64
    }

    /// The sum of numbers, each times how long it lasted.
    pub(crate) fn sum(&self) -> f64 {
        let product = |(&level, &weight): (&u32, &u64)| f64::from(level) * weight as f64;
        self.0.iter().map(product).sum()
    }

    /// Percentiles of the number; `None` if no time passed.
    pub(crate) fn spread(&self) -> Option<Spread> {
        let all = self.weight();
        let at = |percent| {
            let rank = nearest_rank(percent, all);
            let mut up_to = 0;
            for (&level, &weight) in &self.0 {
                up_to += weight;
                if up_to >= rank {
                    return f64::from(level);
                }
            }
            0.0
        };
        (all > 0).then(|| Spread {
            p25: at(25),
            p50: at(50),
            p75: at(75),
            p90: at(90),
            p95: at(95),
            p99: at(99),
            mean: self.sum() / all as f64,
            max: at(100),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn intervals(pairs: &[(u64, u64)]) -> Intervals {
        let mut all = Intervals::default();
        pairs.iter().for_each(|&(start, end)| all.push(start, end));
        all
    }

    fn exact(pairs: &[(u64, u64)], slot_us: u64) -> Levels {
        let [exact, _] = intervals(pairs).levels(slot_us);
        exact
    }

    fn grid(pairs: &[(u64, u64)], slot_us: u64) -> Levels {
        let [_, grid] = intervals(pairs).levels(slot_us);
        grid
    }

    #[test]
    fn two_ways_of_counting_differ() {
        // 60 us in a slot of 10 ms.
        let one = [(4_000, 4_060)];
        assert_eq!(grid(&one, 10_000).busy(), 0.2);
        assert_eq!(exact(&one, 10_000).busy(), 0.006);
        // Two intervals that overlap for 1 ms.
        let two = [(0, 3_000), (2_000, 4_000)];
        assert_eq!(
            grid(&two, 10_000).0,
            BTreeMap::from([(0, 3), (1, 1), (2, 1)])
        );
        let levels = exact(&two, 10_000);
        assert_eq!(
            levels.0,
            BTreeMap::from([(0, 6_000), (1, 3_000), (2, 1_000)])
        );
        assert_eq!(levels.spread().unwrap().mean, 0.5);
        // One ends when the other begins: never two.
        assert_eq!(exact(&[(0, 5), (5, 10)], 10).0, BTreeMap::from([(1, 10)]));
        // Intervals of length 0 are seen only by the grid.
        let point = [(10, 10), (10, 10)];
        assert_eq!(exact(&point, 2_000).busy(), 0.0);
        assert_eq!(grid(&point, 2_000).spread().unwrap().max, 2.0);
        // An end on a border of the grid.
        assert_eq!(grid(&[(0, 2_000)], 4_000).busy(), 0.5);
    }

    proptest! {
        #[test]
        fn exact_and_grid_are_as_a_slow_count(
            pairs in proptest::collection::vec((0..40u64, 0..40u64), 0..20),
            step in prop_oneof![Just(1u64), Just(700)],
        ) {
            let slot = 40 * step;
            let pairs: Vec<_> = (pairs.iter()).map(|&(a, b)| (a.min(b) * step, a.max(b) * step)).collect();
            // At a border of the grid, an interval of length 0 counts for the piece that begins there; leave those out.
            let lasting: Vec<_> = pairs.iter().filter(|(start, end)| start < end).copied().collect();
            let mut slow = Levels::default();
            for piece in 0..slot.div_ceil(GRID_US) {
                let (from, to) = (piece * GRID_US, (piece + 1) * GRID_US);
                let there = lasting.iter().filter(|&&(start, end)| start < to && end > from);
                slow.add(there.count() as u32, 1);
            }
            prop_assert_eq!(grid(&lasting, slot), slow);
            let mut slow = Levels::default();
            for us in 0..slot {
                let there = pairs.iter().filter(|&&(start, end)| start <= us && us < end);
                slow.add(there.count() as u32, 1);
            }
            prop_assert_eq!(exact(&pairs, slot), slow);
        }
    }
}
