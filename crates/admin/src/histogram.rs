//! A distribution of times in buckets, and its statistics.
//!
//! Not known here: what was timed.

use std::array;

use record::buckets::{BUCKETS, bucket_edge_us};

/// A distribution of latencies.
#[derive(Clone, Debug)]
pub struct Histogram {
    /// Counts by bucket, see [`record::buckets::bucket_of`].
    pub counts: [u64; BUCKETS],
    /// Sum of all times, microseconds; 0 if only the buckets are known.
    pub sum_us: u64,
}

impl Histogram {
    /// An empty distribution.
    pub fn new() -> Histogram {
        Histogram {
            counts: [0; BUCKETS],
            sum_us: 0,
        }
    }

    /// A distribution with these counts by bucket.
    pub fn of(counts: [u64; BUCKETS]) -> Histogram {
        Histogram { counts, sum_us: 0 }
    }

    /// Number of times.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Number of times in these buckets.
    pub fn count_in(&self, buckets: std::ops::Range<usize>) -> u64 {
        self.counts[buckets].iter().sum()
    }

    /// The arithmetic mean, microseconds; `None` if empty.
    pub fn mean_us(&self) -> Option<f64> {
        let count = self.count();
        (count > 0).then(|| self.sum_us as f64 / count as f64)
    }

    /// The quantile `q` (0 to 1), microseconds, interpolated within its bucket, whose width is at most a quarter of its lower edge; `None` if empty.
    pub fn quantile_us(&self, q: f64) -> Option<f64> {
        let count = self.count();
        if count == 0 {
            return None;
        }
        let rank = q * count as f64;
        let mut below = 0;
        for (bucket, &here) in self.counts.iter().enumerate() {
            if here > 0 && (below + here) as f64 >= rank {
                let low = bucket.checked_sub(1).map_or(0.0, bucket_edge_us);
                let part = (rank - below as f64).max(0.0) / here as f64;
                return Some(low + part * (bucket_edge_us(bucket) - low));
            }
            below += here;
        }
        None
    }

    /// Adds the counts of another distribution.
    pub fn add(&mut self, other: &Histogram) {
        for (ours, theirs) in self.counts.iter_mut().zip(other.counts) {
            *ours += theirs;
        }
        self.sum_us = self.sum_us.wrapping_add(other.sum_us);
    }

    /// The counts since `earlier`.
    pub fn since(&self, earlier: &Histogram) -> Histogram {
        Histogram {
            counts: array::from_fn(|i| self.counts[i].wrapping_sub(earlier.counts[i])),
            sum_us: self.sum_us.wrapping_sub(earlier.sum_us),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::buckets::bucket_of;

    #[test]
    fn quantiles_are_right_to_a_bucket() {
        let mut latency = Histogram::new();
        for us in 1..=1000 {
            latency.counts[bucket_of(us)] += 1;
        }
        for (q, true_us) in [(0.5, 500.0), (0.9, 900.0), (0.99, 990.0), (1.0, 1000.0)] {
            let us = latency.quantile_us(q).unwrap();
            assert!((us / true_us - 1.0f64).abs() < 0.25, "{q}: {us}");
        }
        assert_eq!(Histogram::new().quantile_us(0.5), None);
    }
}
