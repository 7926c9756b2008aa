//! How long the disk is busy with one read: from the call to the answer, without the time in which it answered other
//! reads.
//!
//! A read is measured from its call or from the previous answer, whichever was later. A disk with one head answers
//! one read after the other, so the time between two answers is the time of one read, however long the queue. A disk
//! without a head answers many at once; answers that a busy thread finds together count once. A thread that looks at
//! its answers late therefore does not make a fast disk look slow: at 2,000 answers a second the mean is at most half
//! a millisecond.
//!
//! Latency and transfer rate are estimated separately, because a long read does not make a disk slow. *Long* reads
//! give the time per byte. *Short* reads, less the time for their bytes, give the latency. Before the first long
//! read, 100 MB/s is assumed. Reads of a length between the two count for neither.
//!
//! The mean is a moving average: each short read moves it by 1/32 of the difference, so about the last hundred reads
//! count. The mean deviation is kept in the same way. A failed read says nothing about speed. A read whose waiter has
//! gone counts if it had already waited longer than the mean; otherwise a disk that stands still would keep its last
//! mean. No read counts as more than a second, or one that hung would dominate the next hundreds.
//!
//! Not known here: what counts as slow. The caller decides.
//!
//! Limits: an idle disk keeps its last mean; `reads` tells whether there were new reads. If all reads are long, the
//! latency stays unknown.
//!
//! Source: RFC 6298 section 2, which estimates round-trip times so.

use std::cell::Cell;
use tokio::time::Instant;

/// The share of a new read in the mean: one of 2^SHIFT.
const SHIFT: u32 = 5;

/// The longest read that counts for the latency: as long as the longest read that several waiters share (`proxy`'s
/// windows).
const SHORT_BYTES_MAX: usize = 256 << 10;
/// The shortest read that counts for the time per byte. Twice as long, so that the seek in it does not raise the time
/// per byte much.
const LONG_BYTES_MIN: usize = 512 << 10;
/// The time of 1024 bytes at 100 MB/s, in nanoseconds.
const NANOS_A_KIB_FIRST: u64 = 10_240;
/// The most that one read counts, in nanoseconds.
const NANOS_MAX: u64 = 1_000_000_000;

/// How long the reads of an engine took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Latency {
    /// How many short reads were measured since the engine was made.
    pub reads: u64,
    /// The mean latency of about the last hundred short reads, in microseconds. 0 before the first.
    pub mean_us: u64,
    /// The mean deviation from it, in microseconds.
    pub spread_us: u64,
}

/// Measures the reads of one engine, in nanoseconds times 2^SHIFT.
#[derive(Default)]
pub(crate) struct Meter {
    reads: Cell<u64>,
    mean: Cell<u64>,
    spread: Cell<u64>,
    /// The time for 1024 bytes; `None` before the first long read.
    a_kib: Cell<Option<u64>>,
    /// When the last answer came.
    answered_at: Cell<Option<Instant>>,
}

/// A read that is being measured.
pub(crate) struct Measured<'a> {
    meter: &'a Meter,
    bytes: usize,
    begun: Instant,
    answered: bool,
}

impl Meter {
    pub(crate) fn begin(&self, bytes: usize) -> Measured<'_> {
        self.begin_at(Instant::now(), bytes)
    }

    fn begin_at(&self, begun: Instant, bytes: usize) -> Measured<'_> {
        Measured {
            meter: self,
            bytes,
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

    fn count(&self, nanos: u64, bytes: usize) {
        let nanos = nanos.min(NANOS_MAX);
        if bytes >= LONG_BYTES_MIN {
            let scaled = (nanos << SHIFT) / (bytes as u64 >> 10);
            let mean = self.a_kib.get().unwrap_or(scaled);
            self.a_kib.set(Some(nearer(mean, scaled, 1 << SHIFT)));
        } else if bytes <= SHORT_BYTES_MAX {
            self.count_latency((nanos << SHIFT).saturating_sub(self.of_bytes(bytes)));
        }
    }

    fn count_latency(&self, scaled: u64) {
        let reads = self.reads.get() + 1;
        self.reads.set(reads);
        let (mean, spread) = (self.mean.get(), self.spread.get());
        let distance = match reads {
            1 => scaled / 2,
            _ => mean.abs_diff(scaled),
        };
        // The first few reads get equal weight; else the very first would weigh as much as a hundred others.
        let share = reads.min(1 << SHIFT);
        self.spread.set(nearer(spread, distance, share));
        self.mean.set(nearer(mean, scaled, share));
    }

    /// The time for these bytes without the latency, scaled.
    fn of_bytes(&self, bytes: usize) -> u64 {
        let a_kib = self.a_kib.get().unwrap_or(NANOS_A_KIB_FIRST << SHIFT);
        a_kib.saturating_mul(bytes as u64) >> 10
    }
}

/// Moves a mean towards a new value, which gets the weight 1/`share`.
fn nearer(mean: u64, one: u64, share: u64) -> u64 {
    mean - mean / share + one / share
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
            self.meter.count(nanos, self.bytes);
        }
    }

    /// The time since the call or the last answer, whichever was later.
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
            let expected = self
                .meter
                .mean
                .get()
                .saturating_add(self.meter.of_bytes(self.bytes));
            if nanos > expected >> SHIFT {
                self.meter.count(nanos, self.bytes);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const MIB: usize = 1 << 20;
    const PAGE: usize = 4096;

    fn meter_of(reads: impl IntoIterator<Item = (u64, usize)>) -> Meter {
        let meter = Meter::default();
        (reads.into_iter()).for_each(|(us, bytes)| meter.count(us * 1000, bytes));
        meter
    }

    /// Of reads of one byte.
    fn of(us: impl IntoIterator<Item = u64>) -> Latency {
        meter_of(us.into_iter().map(|us| (us, 1))).latency()
    }

    #[test]
    fn before_the_first_read_there_is_nothing() {
        assert_eq!(of([]), Latency::default());
    }

    #[test]
    fn equal_reads_have_their_own_mean_and_no_spread() {
        let latency = of([100; 1000]);
        assert_eq!(
            (latency.reads, latency.mean_us, latency.spread_us),
            (1000, 100, 0)
        );
    }

    #[test]
    fn the_mean_follows_a_disk_that_slows_down() {
        let slow = of([[100; 500].as_slice(), &[5000; 150]].concat());
        assert!((4900..=5000).contains(&slow.mean_us), "{slow:?}");
    }

    #[test]
    fn one_slow_read_is_one_of_32() {
        let latency = of([[100; 500].as_slice(), &[3300]].concat());
        assert_eq!((latency.mean_us, latency.spread_us), (200, 100));
    }

    #[test]
    fn long_reads_of_a_quick_disk_are_no_latency() {
        // 80 us and 2 GB/s; a hundred pages, then a gigabyte in fragments.
        let pages = [(82, PAGE); 100];
        let fragments = [(604, MIB); 1024];
        let latency = meter_of(pages.into_iter().chain(fragments).chain(pages)).latency();
        assert_eq!(latency.reads, 200);
        assert!((60..=85).contains(&latency.mean_us), "{latency:?}");
    }

    #[test]
    fn short_reads_are_not_slow_for_their_bytes_either() {
        // A volume at 40 MB/s that answers after 300 us.
        let us = |bytes: usize| 300 + bytes as u64 / 40;
        let fragments = [(us(MIB), MIB); 200];
        let windows = [(us(256 << 10), 256 << 10), (us(PAGE), PAGE)].repeat(200);
        let latency = meter_of(fragments.into_iter().chain(windows)).latency();
        assert!((200..=300).contains(&latency.mean_us), "{latency:?}");
    }

    #[test]
    fn a_disk_of_a_hundred_reads_a_second_is_slow_by_any_short_read() {
        // With a head: 9 ms, then 150 MB/s.
        let us = |bytes: usize| 9000 + bytes as u64 / 150;
        for bytes in [512, 13 << 10, 64 << 10, 256 << 10] {
            for long in [0, 300] {
                let fragments = std::iter::repeat_n((us(MIB), MIB), long);
                let reads = std::iter::repeat_n((us(bytes), bytes), 200);
                let latency = meter_of(fragments.chain(reads)).latency();
                assert!(
                    (6500..=9200).contains(&latency.mean_us),
                    "{bytes} {latency:?}"
                );
            }
        }
    }

    #[test]
    fn a_disk_that_was_asleep_is_not_slow_for_long() {
        let latency = of([[1_000_000].as_slice(), &[100; 127]].concat());
        assert!(latency.mean_us < 2000, "{latency:?}");
        let latency = of([[1_000_000].as_slice(), &[100; 160]].concat());
        assert!(latency.mean_us < 1000, "{latency:?}");
    }

    #[test]
    fn what_hung_is_forgotten_as_what_was_slow() {
        let latency = of([[100; 500].as_slice(), &[90_000_000], &[100; 200]].concat());
        assert!(latency.mean_us < 200, "{latency:?}");
    }

    /// Reads that all begin at once and are answered after these many milliseconds.
    fn together(answered_ms: &[u64]) -> Latency {
        let meter = Meter::default();
        let begun = Instant::now();
        let reads: Vec<_> = (answered_ms.iter())
            .map(|_| meter.begin_at(begun, 1))
            .collect();
        for (read, ms) in reads.into_iter().zip(answered_ms) {
            read.answered_at(true, begun + Duration::from_millis(*ms));
        }
        meter.latency()
    }

    #[test]
    fn of_a_queue_each_read_counts_what_it_took_itself() {
        // One head, 4 ms a read: the last one has waited for 400 ms.
        let queue: Vec<u64> = (1..=100).map(|n| 4 * n).collect();
        assert_eq!(together(&queue).mean_us, 4000);
    }

    #[test]
    fn reads_that_are_found_done_together_count_once() {
        // A thread that looks for answers after 20 ms, and again after 40.
        let found = [vec![20; 64], vec![40; 64]].concat();
        let latency = together(&found);
        assert_eq!(latency.reads, 128);
        assert!(latency.mean_us < 1000, "{latency:?}");
    }

    #[test]
    fn numbers_beyond_all_sense_do_no_harm() {
        let meter = Meter::default();
        for nanos in [0, u64::MAX, u64::MAX, 0] {
            meter.count(nanos, 1);
            meter.count(nanos, usize::MAX);
        }
        assert_eq!(meter.latency().reads, 4);
    }

    #[test]
    fn failures_say_nothing_and_a_waiter_who_leaves_at_least_so_long() {
        let meter = Meter::default();
        meter.begin(0).answered(false);
        assert_eq!(meter.latency().reads, 0);
        meter.begin(0).answered(true);
        meter.mean.set(0);
        drop(meter.begin(0));
        assert_eq!(meter.latency().reads, 2);
        meter.mean.set(u64::MAX);
        drop(meter.begin(0));
        assert_eq!(meter.latency().reads, 2);
    }
}
