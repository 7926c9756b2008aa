//! Which keys are requested often: a count-min sketch that fades.
//!
//! Each key has a counter in each of four rows, and the smallest is its estimate, never too low. Every second all counters are halved, so the
//! estimate of a key requested r times a second stays between r and 2 r. A key that shares all its counters with hotter keys looks hot too;
//! the only harm is an unneeded copy.
//!
//! Not known here: the use made of a hot key, and the time ([`Hot::fade`] is called once a second).
//! Limits: [`ROWS`] rows of [`COLUMNS`] counters, 128 KiB.
//! Source: Cormode, Muthukrishnan, *An improved data stream summary: the count-min sketch*, 2005.

use std::sync::atomic::{AtomicU32, Ordering};

use store::KeyHash;

const ROWS: usize = 4;
/// A power of two. At 100,000 requests a second a counter is about 12 too high, and the smallest of four less.
const COLUMNS: usize = 8192;

/// How often keys were requested lately. Workers count concurrently; an increment lost between two of them does no harm.
pub struct Hot {
    counters: Box<[AtomicU32]>,
    /// The estimate at and above which a key is hot; 0: no key is.
    threshold: u32,
}

impl Hot {
    /// Keys requested more than `rate` times a second are hot; 0: no key is.
    pub fn new(rate: u32) -> Hot {
        let counters = if rate == 0 { 0 } else { ROWS * COLUMNS };
        Hot {
            counters: (0..counters).map(|_| AtomicU32::new(0)).collect(),
            // 1.5 times the rate: in the middle of the range in which such a key stands, so it becomes hot within a second or two.
            threshold: rate.saturating_add(rate / 2),
        }
    }

    /// Counts a request for this key; is the key hot?
    pub fn asked(&self, key: KeyHash) -> bool {
        if self.threshold == 0 {
            return false;
        }
        let least = self.estimate(key);
        for counter in self.counters_of(key) {
            // Raise only the smallest counters: the others are too high already.
            if counter.load(Ordering::Relaxed) == least {
                counter.store(least.saturating_add(1), Ordering::Relaxed);
            }
        }
        least >= self.threshold
    }

    /// Halves all counters; called once a second.
    pub fn fade(&self) {
        for counter in &self.counters {
            let count = counter.load(Ordering::Relaxed);
            if count > 0 {
                counter.store(count / 2, Ordering::Relaxed);
            }
        }
    }

    fn estimate(&self, key: KeyHash) -> u32 {
        let counts = self.counters_of(key).map(|c| c.load(Ordering::Relaxed));
        counts.min().unwrap_or(0)
    }

    fn counters_of(&self, key: KeyHash) -> impl Iterator<Item = &AtomicU32> {
        let mixed = key.0.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let step = (mixed >> 32) as usize | 1;
        (0..ROWS).map(move |row| {
            let column = (mixed as usize).wrapping_add(row.wrapping_mul(step)) & (COLUMNS - 1);
            &self.counters[row * COLUMNS + column]
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Hot {
        fn is_hot(&self, key: KeyHash) -> bool {
            self.threshold > 0 && self.estimate(key) >= self.threshold
        }
    }

    /// Asks for each key so many times a second, for some seconds.
    fn after(hot: &Hot, seconds: u32, rates: &[(u64, u32)]) {
        for _ in 0..seconds {
            hot.fade();
            for &(key, rate) in rates {
                for _ in 0..rate {
                    hot.asked(KeyHash(key));
                }
            }
        }
    }

    #[test]
    fn what_is_asked_for_twice_as_often_is_hot_and_half_as_often_is_not() {
        let hot = Hot::new(100);
        after(&hot, 5, &[(1, 200), (2, 50)]);
        assert!(hot.is_hot(KeyHash(1)));
        assert!(!hot.is_hot(KeyHash(2)));
    }

    #[test]
    fn what_is_not_asked_for_any_more_cools_down() {
        let hot = Hot::new(10);
        after(&hot, 3, &[(7, 50)]);
        assert!(hot.is_hot(KeyHash(7)));
        after(&hot, 5, &[]);
        assert!(!hot.is_hot(KeyHash(7)));
    }

    #[test]
    fn many_cold_keys_do_not_look_hot() {
        let hot = Hot::new(100);
        let cold: Vec<_> = (0..50_000)
            .map(|n: u64| (n.wrapping_mul(0xd134_2543_de82_ef95), 1))
            .collect();
        after(&hot, 3, &cold);
        let look_hot = cold
            .iter()
            .filter(|(key, _)| hot.is_hot(KeyHash(*key)))
            .count();
        assert_eq!(look_hot, 0);
    }

    #[test]
    fn without_a_rate_nothing_is_hot_and_nothing_is_kept() {
        let hot = Hot::new(0);
        assert!(!hot.asked(KeyHash(1)));
        assert!(hot.counters.is_empty());
    }
}
