//! How late a worker's event loop is: the lateness of a timer of [`TIMER`], in buckets.
//!
//! A timer fires late by the time the loop was busy when it was due. Up to two milliseconds are due to rounding: the runtime rounds up
//! to milliseconds, and so does the kernel. The worker counts; one thread reads the differences once a second.
//!
//! Not known here: timers.

use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use crate::buckets::{BUCKETS, Counts, bucket_edge_us, bucket_of};

/// How often lateness is measured: 100 values a second for each worker.
pub const TIMER: Duration = Duration::from_millis(10);

/// Lateness so far, by bucket, and the largest since the last reading.
#[derive(Default)]
pub struct Lag {
    counts: Counts<BUCKETS>,
    max_us: AtomicU64,
}

/// The counts at the last reading.
pub struct Read([u64; BUCKETS]);

impl Default for Read {
    fn default() -> Self {
        Read([0; BUCKETS])
    }
}

/// Lateness of one second, microseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Percentiles {
    /// The median, as the upper edge of its bucket: up to a quarter too high.
    pub p50_us: u64,
    /// The 99th percentile, as the upper edge of its bucket.
    pub p99_us: u64,
    /// The largest, exactly.
    pub max_us: u64,
}

impl Lag {
    /// Notes one lateness. Only one thread may call this.
    pub fn note(&self, late: Duration) {
        let us = u32::try_from(late.as_micros()).unwrap_or(u32::MAX).max(1);
        let count = &self.counts.0[bucket_of(us)];
        count.store(count.load(Relaxed).wrapping_add(1), Relaxed);
        self.max_us.fetch_max(us.into(), Relaxed);
    }

    /// The percentiles since `last`, which is updated. `None`: nothing was noted.
    pub fn since(&self, last: &mut Read) -> Option<Percentiles> {
        let mut new = [0; BUCKETS];
        for (new, (count, last)) in new.iter_mut().zip(self.counts.0.iter().zip(&mut last.0)) {
            let count = count.load(Relaxed);
            *new = count.wrapping_sub(*last);
            *last = count;
        }
        let max_us = self.max_us.swap(0, Relaxed);
        let all: u64 = new.iter().sum();
        let rank = |percent: u64| {
            let wanted = (all * percent).div_ceil(100).max(1);
            let mut seen = 0;
            let bucket = new.iter().position(|count| {
                seen += count;
                seen >= wanted
            });
            bucket.map(|bucket| (bucket_edge_us(bucket) as u64).min(max_us))
        };
        Some(Percentiles {
            p50_us: rank(50)?,
            p99_us: rank(99)?,
            max_us,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_has_its_own_values_and_no_earlier_ones() {
        let (lag, mut last) = (Lag::default(), Read::default());
        assert_eq!(lag.since(&mut last), None);
        for _ in 0..98 {
            lag.note(Duration::from_micros(1000));
        }
        lag.note(Duration::from_millis(30));
        lag.note(Duration::from_millis(300));
        let first = lag.since(&mut last).unwrap();
        assert!((1000..=1250).contains(&first.p50_us), "{first:?}");
        assert!((30_000..=37_500).contains(&first.p99_us), "{first:?}");
        assert_eq!(first.max_us, 300_000);
        lag.note(Duration::from_secs(1000));
        lag.note(Duration::ZERO);
        let second = lag.since(&mut last).unwrap();
        assert_eq!((second.p50_us, second.max_us), (1, 1_000_000_000));
        assert_eq!(lag.since(&mut last), None);
    }
}
