//! When to evict, and how much: two marks for the level of a store.
//!
//! Evicting for each new object would mean many small evictions, each while a request waits. Instead the level may rise to the high mark; one
//! eviction then lowers it to the low mark.
//!
//! Source: Squid's `cache_swap_low` and `cache_swap_high`.

/// Marks in percent of a capacity.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Watermarks {
    /// The level at which eviction begins, 0 to 100.
    pub high_percent: u8,
    /// The level at which it ends; not above `high_percent`.
    pub low_percent: u8,
}

impl Default for Watermarks {
    /// 97 and 95 percent: they leave room for bursts, and use the store well.
    fn default() -> Self {
        Watermarks {
            high_percent: 97,
            low_percent: 95,
        }
    }
}

impl Watermarks {
    /// `None` unless `low_percent <= high_percent <= 100`. For numbers chosen by users.
    pub fn new(high_percent: u8, low_percent: u8) -> Option<Self> {
        let sound = low_percent <= high_percent && high_percent <= 100;
        sound.then_some(Watermarks {
            high_percent,
            low_percent,
        })
    }

    /// The units to free now, down to the low mark; `None` below the high mark. `used` and `capacity` are in the same unit. The result is never more
    /// than `used`, and never 0.
    pub fn excess(&self, used: u64, capacity: u64) -> Option<u64> {
        // This is used / capacity < high / 100, without rounding or overflow.
        if u128::from(used) * 100 < u128::from(capacity) * u128::from(self.high_percent) {
            return None;
        }
        let low = u128::from(capacity) * u128::from(self.low_percent) / 100;
        let low = u64::try_from(low).unwrap_or(u64::MAX);
        Some(used.saturating_sub(low)).filter(|&units| units > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_goes_below_the_high_mark() {
        let marks = Watermarks::default();
        assert_eq!(
            [0, 95, 96].map(|used| marks.excess(used, 100)),
            [None, None, None]
        );
    }

    #[test]
    fn at_the_high_mark_all_down_to_the_low_one() {
        let marks = Watermarks::default();
        assert_eq!(
            [97, 99, 100, 120].map(|used| marks.excess(used, 100)),
            [Some(2), Some(4), Some(5), Some(25)]
        );
    }

    #[test]
    fn the_level_that_is_kept_is_rounded_down() {
        // 95 % of 10 is 9.5; with 10 used, one is evicted.
        assert_eq!(Watermarks::default().excess(10, 10), Some(1));
        assert_eq!(Watermarks::default().excess(9, 10), None);
    }

    #[test]
    fn extremes() {
        let marks = Watermarks::default();
        assert_eq!(
            marks.excess(u64::MAX, u64::MAX),
            Some(u64::MAX - (u128::from(u64::MAX) * 95 / 100) as u64)
        );
        assert_eq!(marks.excess(0, 0), None);
        assert_eq!(marks.excess(3, 0), Some(3));
        let full = Watermarks::new(100, 100).unwrap();
        assert_eq!(
            [99, 100, 101].map(|used| full.excess(used, 100)),
            [None, None, Some(1)]
        );
    }

    #[test]
    fn marks_must_be_in_order() {
        assert_eq!(Watermarks::new(97, 95), Some(Watermarks::default()));
        assert_eq!(Watermarks::new(95, 97), None);
        assert_eq!(Watermarks::new(101, 97), None);
        assert!(Watermarks::new(0, 0).is_some());
    }
}
