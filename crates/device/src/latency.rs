//! How long the disk is busy with a read: from the call to the answer, less the time in which it gave other answers.
//!
//! A read counts from its own call or from the answer before, whichever was later. A disk with one head answers one read after
//! the other, so what lies between two answers is what a read takes, however long the queue. A disk without a head
//! answers many at once; those that a busy thread finds done together count once. So a thread that has much to do, and looks
//! at its answers late, does not make a fast disk look slow: at 2,000 answers a second the mean is at most half a millisecond.
//!
//! A mean that forgets: each read moves it by 1/32 of the difference, so about the last hundred reads count. The mean
//! distance from it, kept the same way, says how much one read may differ. A read that fails says nothing about
//! speed; one whose waiter went away counts if it had already waited longer than the mean, or a disk that stands
//! still would look as fast as it last was.
//!
//! Not known here: what is slow. Who asks compares.
//!
//! Limits: a disk that nobody reads keeps its last mean; `reads` tells whether it is news.
//!
//! Source: RFC 6298 section 2, which estimates round-trip times so.

use std::cell::Cell;
use std::time::Instant;

/// The share of a new read in the mean: one of 2^SHIFT.
const SHIFT: u32 = 5;

/// How long the reads of an engine took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Latency {
    /// Reads measured since the engine was made.
    pub reads: u64,
    /// The mean of the last hundred or so, in microseconds, those apart that were answered together. 0 before the first.
    pub mean_us: u64,
    /// How far a read is from the mean, on average, in microseconds.
    pub spread_us: u64,
}

/// Measures the reads of one engine. Units are nanoseconds times 2^SHIFT.
#[derive(Default)]
pub(crate) struct Meter {
    reads: Cell<u64>,
    mean: Cell<u64>,
    spread: Cell<u64>,
    /// When the last answer came.
    answered_at: Cell<Option<Instant>>,
}

/// A read that is being measured.
pub(crate) struct Measured<'a> {
    meter: &'a Meter,
    begun: Instant,
    answered: bool,
}

impl Meter {
    pub(crate) fn begin(&self) -> Measured<'_> {
        self.begin_at(Instant::now())
    }

    fn begin_at(&self, begun: Instant) -> Measured<'_> {
        Measured {
            meter: self,
            begun,
            answered: false,
        }
    }

    pub(crate) fn latency(&self) -> Latency {
        let us = |scaled: u64| ((scaled >> SHIFT) + 500) / 1000;
        Latency {
            reads: self.reads.get(),
            mean_us: us(self.mean.get()),
            spread_us: us(self.spread.get()),
        }
    }

    fn count(&self, nanos: u64) {
        // Ten years fit, scaled; nothing that is measured lasts longer.
        let scaled = nanos.min(u64::MAX >> (SHIFT + 1)) << SHIFT;
        let first = self.reads.get() == 0;
        self.reads.set(self.reads.get() + 1);
        if first {
            self.mean.set(scaled);
            self.spread.set(scaled / 2);
            return;
        }
        let (mean, spread) = (self.mean.get(), self.spread.get());
        let distance = mean.abs_diff(scaled);
        self.spread
            .set(spread - (spread >> SHIFT) + (distance >> SHIFT));
        self.mean.set(mean - (mean >> SHIFT) + (scaled >> SHIFT));
    }
}

impl Measured<'_> {
    /// The answer is there.
    pub(crate) fn answered(self, well: bool) {
        self.answered_at(well, Instant::now());
    }

    fn answered_at(mut self, well: bool, now: Instant) {
        self.answered = true;
        let nanos = self.nanos(now);
        self.meter.answered_at.set(Some(now));
        if well {
            self.meter.count(nanos);
        }
    }

    /// Since the call, or the last answer.
    fn nanos(&self, now: Instant) -> u64 {
        let answered = self.meter.answered_at.get();
        let from = answered.map_or(self.begun, |at| at.max(self.begun));
        u64::try_from(now.saturating_duration_since(from).as_nanos()).unwrap_or(u64::MAX)
    }
}

impl Drop for Measured<'_> {
    fn drop(&mut self) {
        if !self.answered {
            let nanos = self.nanos(Instant::now());
            if nanos > self.meter.mean.get() >> SHIFT {
                self.meter.count(nanos);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn of(nanos: impl IntoIterator<Item = u64>) -> Latency {
        let meter = Meter::default();
        nanos.into_iter().for_each(|nanos| meter.count(nanos));
        meter.latency()
    }

    #[test]
    fn before_the_first_read_there_is_nothing() {
        assert_eq!(of([]), Latency::default());
    }

    #[test]
    fn equal_reads_have_their_own_mean_and_no_spread() {
        let latency = of([100_000; 1000]);
        assert_eq!(
            (latency.reads, latency.mean_us, latency.spread_us),
            (1000, 100, 0)
        );
    }

    #[test]
    fn the_mean_follows_a_disk_that_slows_down() {
        let slow = of([[100_000; 500].as_slice(), &[5_000_000; 150]].concat());
        assert!((4900..=5000).contains(&slow.mean_us), "{slow:?}");
    }

    #[test]
    fn one_slow_read_is_one_of_32() {
        let latency = of([[100_000; 500].as_slice(), &[3_300_000]].concat());
        assert_eq!((latency.mean_us, latency.spread_us), (200, 100));
    }

    /// Reads that are all begun at once and answered so many milliseconds later.
    fn together(answered_ms: &[u64]) -> Latency {
        let meter = Meter::default();
        let begun = Instant::now();
        let reads: Vec<_> = answered_ms.iter().map(|_| meter.begin_at(begun)).collect();
        for (read, ms) in reads.into_iter().zip(answered_ms) {
            read.answered_at(true, begun + Duration::from_millis(*ms));
        }
        meter.latency()
    }

    #[test]
    fn of_a_queue_each_read_counts_what_it_took_itself() {
        // One head, 4 ms a read: the last one waited for 400 ms.
        let queue: Vec<u64> = (1..=100).map(|n| 4 * n).collect();
        assert_eq!(together(&queue).mean_us, 4000);
    }

    #[test]
    fn reads_that_are_found_done_together_count_once() {
        // A thread that looked after 20 ms, and again after 40.
        let found = [vec![20; 64], vec![40; 64]].concat();
        let latency = together(&found);
        assert_eq!(latency.reads, 128);
        assert!(latency.mean_us < 1000, "{latency:?}");
    }

    #[test]
    fn numbers_beyond_all_sense_do_no_harm() {
        let latency = of([0, u64::MAX, u64::MAX, 0]);
        assert_eq!(latency.reads, 4);
    }

    #[test]
    fn failures_say_nothing_and_a_waiter_who_leaves_at_least_so_long() {
        let meter = Meter::default();
        meter.begin().answered(false);
        assert_eq!(meter.latency().reads, 0);
        meter.begin().answered(true);
        meter.mean.set(0);
        drop(meter.begin());
        assert_eq!(meter.latency().reads, 2);
        meter.mean.set(u64::MAX);
        drop(meter.begin());
        assert_eq!(meter.latency().reads, 2);
    }
}
