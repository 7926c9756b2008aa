//! Buckets of a histogram of times: four to a power of two.
//!
//! Not known here: which times are counted.

use std::sync::atomic::AtomicU64;

/// Latency buckets: four to a power of two, from 1 us to about 67 s.
pub const BUCKETS: usize = 27 * 4;

/// `N` counts, all 0 at first.
pub struct Counts<const N: usize>(pub [AtomicU64; N]);

impl<const N: usize> Default for Counts<N> {
    fn default() -> Self {
        Counts([const { AtomicU64::new(0) }; N])
    }
}

/// The bucket for a latency in microseconds: four buckets to a power of two.
#[inline]
pub fn bucket_of(us: u32) -> usize {
    let us = us.max(1);
    let power = 31 - us.leading_zeros();
    let quarter = if power >= 2 {
        (us >> (power - 2)) & 3
    } else {
        (us << (2 - power)) & 3
    };
    ((power * 4 + quarter) as usize).min(BUCKETS - 1)
}

/// The upper edge of a bucket, microseconds.
pub fn bucket_edge_us(bucket: usize) -> f64 {
    let power = (bucket / 4) as i32;
    let quarter = (bucket % 4) as f64;
    2f64.powi(power) * (1.0 + (quarter + 1.0) / 4.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_rise_and_hold_their_values() {
        let mut last = 0;
        for us in [
            1u32, 2, 3, 4, 5, 6, 7, 8, 9, 10, 100, 1_000, 50_000, 3_000_000, 60_000_000,
        ] {
            let bucket = bucket_of(us);
            assert!(bucket >= last, "{us}");
            assert!(f64::from(us) <= bucket_edge_us(bucket), "{us} in {bucket}");
            last = bucket;
        }
    }

    #[test]
    fn the_last_bucket_holds_the_rest() {
        for us in (0..32).flat_map(|power| [1u32 << power, (1u32 << power).saturating_add(1)]) {
            let bucket = bucket_of(us);
            let holds = f64::from(us) <= bucket_edge_us(bucket);
            assert!(bucket == BUCKETS - 1 || holds, "{us}");
        }
    }
}
