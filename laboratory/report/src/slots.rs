//! The time axis: length of a slot, list of slots, idle slots.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::intervals::SLOT_US_MAX;
use crate::model::Slot;

/// Length of a slot in the paper.
//= paper 001 section 4.2   most of the measurements were grouped using 20 minute slots
const PAPER_SLOT: Duration = Duration::from_secs(20 * 60);
/// A source of at least this length has the paper's slots.
const LONG: Duration = Duration::from_secs(6 * 3600);
/// Number of slots of a shorter source; the same as 20-minute slots in a day.
const SLOTS: u64 = 72;
/// Most slots of a report: four weeks of 20 minutes. Requests outside the busiest period of this length are left out.
pub(crate) const SLOTS_MAX: u64 = 2016;
/// Most seconds that are counted separately; beyond that, pairs are merged.
const SECONDS_MAX: usize = 1 << 17;
const SECOND_US: u64 = 1_000_000;
/// A slot is idle below this percentage of the busiest slot.
const IDLE_PERCENT: u64 = 5;

/// The length of a slot for a source from its first to its last request: 20 minutes for six hours or more; for less, a 72nd of the length
/// in whole seconds, at least one.
pub fn auto_slot(first_unix_us: u64, last_unix_us: u64) -> Duration {
    let length_us = last_unix_us.saturating_sub(first_unix_us);
    if u128::from(length_us) >= LONG.as_micros() {
        let mut slot = PAPER_SLOT;
        while length_us / slot.as_micros() as u64 >= SLOTS_MAX - 1 && slot < longest() {
            slot = (slot + PAPER_SLOT).min(longest());
        }
        return slot;
    }
    Duration::from_secs(length_us.div_ceil(SLOTS * SECOND_US).max(1))
}

fn longest() -> Duration {
    Duration::from_micros(SLOT_US_MAX)
}

/// A length in whole seconds, at least one and at most an hour.
pub(crate) fn whole(slot: Duration) -> Duration {
    let seconds = slot
        .as_secs()
        .saturating_add(u64::from(slot.subsec_nanos() > 0));
    Duration::from_secs(seconds.max(1)).min(longest())
}

/// Number of requests that began in each second.
#[derive(Default)]
pub(crate) struct Seconds {
    /// A count stands for 2^doublings seconds.
    doublings: u32,
    counts: BTreeMap<u64, u64>,
    /// The last second seen, not yet in `counts`: requests come nearly in order.
    last: (u64, u64),
}

impl Seconds {
    /// Counts a request.
    pub(crate) fn see(&mut self, at_unix_us: u64) {
        let second = (at_unix_us / SECOND_US) >> self.doublings;
        if self.last.0 == second {
            self.last.1 += 1;
            return;
        }
        self.settle();
        self.last = (second, 1);
        if self.counts.len() > SECONDS_MAX {
            self.settle();
            self.doublings += 1;
            self.last = (self.last.0 >> 1, 0);
            for (second, count) in std::mem::take(&mut self.counts) {
                *self.counts.entry(second >> 1).or_default() += count;
            }
        }
    }

    fn settle(&mut self) {
        if self.last.1 > 0 {
            *self.counts.entry(self.last.0).or_default() += self.last.1;
            self.last.1 = 0;
        }
    }

    /// Number of requests by slot.
    fn by_slot(&mut self, slot_us: u64) -> BTreeMap<u64, u64> {
        self.settle();
        let mut slots = BTreeMap::new();
        for (&second, &count) in &self.counts {
            let at_us = (second << self.doublings).saturating_mul(SECOND_US);
            *slots.entry(at_us / slot_us).or_default() += count;
        }
        slots
    }

    /// All slots from the first request to the last, and the number of requests outside, if there would be too many slots.
    pub(crate) fn slots(&mut self, slot_us: u64, began: u64, ended: u64) -> (Vec<Slot>, u64) {
        let counts = self.by_slot(slot_us);
        let (first, last, outside) = busiest(&counts);
        let most = counts
            .range(first..=last)
            .map(|(_, &count)| count)
            .max()
            .unwrap_or(0);
        let slot = |number: u64| {
            let requests = counts.get(&number).copied().unwrap_or(0);
            let start_unix_us = number * slot_us;
            Slot {
                start_unix_us,
                requests,
                is_idle: is_idle(requests, most),
                is_partial: start_unix_us < began || start_unix_us + slot_us > ended,
            }
        };
        let slots = if counts.is_empty() {
            Vec::new()
        } else {
            (first..=last).map(slot).collect()
        };
        (slots, outside)
    }
}

/// Whether a slot has so few requests that it is left out of the day's medians.
pub(crate) fn is_idle(requests: u64, most: u64) -> bool {
    requests * 100 < most * IDLE_PERCENT
}

/// The period of at most [`SLOTS_MAX`] slots with the most requests: first slot, last slot, and requests outside.
fn busiest(counts: &BTreeMap<u64, u64>) -> (u64, u64, u64) {
    let all: Vec<(u64, u64)> = counts.iter().map(|(&slot, &count)| (slot, count)).collect();
    let total: u64 = all.iter().map(|(_, count)| count).sum();
    let (mut best, mut within, mut from) = ((0, 0, 0), 0, 0);
    for &(slot, count) in &all {
        within += count;
        while slot - all[from].0 >= SLOTS_MAX {
            within -= all[from].1;
            from += 1;
        }
        if within > best.2 {
            best = (all[from].0, slot, within);
        }
    }
    (best.0, best.1, total - best.2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_as_long_as_the_source_wants() {
        let seconds = |length: u64| auto_slot(7, 7 + length * SECOND_US).as_secs();
        assert_eq!(
            [0, 10, 72, 73, 600, 6 * 3600 - 1].map(seconds),
            [1, 1, 1, 2, 9, 300]
        );
        assert_eq!([6 * 3600, 86_400, 20 * 86_400].map(seconds), [1200; 3]);
        assert_eq!([40 * 86_400, 365 * 86_400].map(seconds), [2400, 3600]);
        assert_eq!(whole(Duration::from_millis(1500)).as_secs(), 2);
        assert_eq!(whole(Duration::ZERO).as_secs(), 1);
        assert_eq!(whole(Duration::MAX).as_secs(), 3600);
    }

    #[test]
    fn idle_and_partial_slots_are_marked() {
        let mut seconds = Seconds::default();
        for at in [(12, 40), (25, 1), (41, 2)] {
            (0..at.1).for_each(|_| seconds.see(at.0 * SECOND_US));
        }
        let (slots, outside) = seconds.slots(10 * SECOND_US, 12 * SECOND_US, 43 * SECOND_US);
        let found: Vec<_> = slots
            .iter()
            .map(|s| (s.requests, s.is_idle, s.is_partial))
            .collect();
        let want = [
            (40, false, true),
            (1, true, false),
            (0, true, false),
            (2, false, true),
        ];
        assert_eq!((found, outside), (want.to_vec(), 0));
    }

    #[test]
    fn a_clock_that_was_wrong_for_a_while_does_not_stretch_the_axis() {
        let mut seconds = Seconds::default();
        (0..3).for_each(|i| seconds.see(i * SECOND_US));
        (0..100).for_each(|i| seconds.see((1_700_000_000 + i) * SECOND_US));
        let (slots, outside) = seconds.slots(SECOND_US, 0, u64::MAX);
        assert_eq!((slots.len(), outside), (100, 3));
        assert_eq!(slots[0].start_unix_us, 1_700_000_000 * SECOND_US);
    }

    #[test]
    fn many_seconds_are_counted_together() {
        let mut seconds = Seconds::default();
        (0..300_000u64).for_each(|i| seconds.see(i * SECOND_US));
        assert!(seconds.counts.len() <= SECONDS_MAX + 1);
        let (slots, outside) = seconds.slots(1200 * SECOND_US, 0, 300_000 * SECOND_US);
        assert_eq!((slots.len(), outside), (250, 0));
        assert!(slots.iter().all(|slot| slot.requests == 1200));
    }
}
