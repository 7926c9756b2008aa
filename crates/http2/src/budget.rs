//! How much of what is legal but useless a client may send.
//!
//! Each frame alone is legal; a million of them cost the server more than the client. A budget is a bucket: it holds so much at
//! first, is refilled with time, and never holds more. A charge that it cannot pay ends the connection with ENHANCE_YOUR_CALM.
//!
//! | budget | holds | refilled a second | charged |
//! |---|---|---|---|
//! | resets | 200 | 20 | a stream that the client resets before its answer ended, or that we reset because of the client |
//! | useless | 100 | 10 | PING, SETTINGS, PRIORITY, PRIORITY_UPDATE, WINDOW_UPDATE, unknown and empty frames; but see `earn` |
//! | small | 100 frames | 1,000 frames | DATA below 256 bytes by what is missing; larger DATA gives back what is above |
//! | tiny | 100 frames | 10 frames | a DATA frame of ours that a window cut below 256 bytes, by what is missing; larger ones give back what is above |
//!
//! Work earns credit: a request and a DATA frame that was sent each bring a few useless frames with them (WINDOW_UPDATE, PING to
//! measure, PRIORITY_UPDATE), which are then free.
//!
//! Source: CVE-2023-44487, CVE-2025-8671, CVE-2019-9511 to 9518, and what other servers do about them.

use std::time::Duration;

/// A DATA frame below this is small.
pub(crate) const SMALL_BYTES: u32 = 256;

/// Free frames that a request or a sent DATA frame brings, and the most that are kept.
const EARNED_FRAMES: u32 = 3;
const EARNED_FRAMES_MAX: u32 = 400;

/// A bucket. Time is what the connection was told last.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    left: u32,
    holds: u32,
    per_second: u32,
    /// When it was refilled last.
    at: Duration,
}

impl Bucket {
    const fn new(holds: u32, per_second: u32) -> Self {
        Self {
            left: holds,
            holds,
            per_second,
            at: Duration::ZERO,
        }
    }

    /// False: it cannot pay.
    #[must_use]
    fn pay(&mut self, cost: u32, now: Duration) -> bool {
        if self.left < cost {
            self.refill(now);
        }
        match self.left.checked_sub(cost) {
            Some(left) => {
                self.left = left;
                true
            }
            None => false,
        }
    }

    fn refill(&mut self, now: Duration) {
        let passed_ms = now.saturating_sub(self.at).as_millis();
        let more = passed_ms * u128::from(self.per_second) / 1000;
        if more > 0 {
            self.give(u32::try_from(more).unwrap_or(u32::MAX));
            self.at = now;
        }
    }

    fn give(&mut self, more: u32) {
        self.left = self.left.saturating_add(more).min(self.holds);
    }
}

/// A connection's budgets. Each charge answers whether it could be paid.
#[derive(Clone, Debug)]
pub(crate) struct Budget {
    resets: Bucket,
    useless: Bucket,
    small: Bucket,
    tiny: Bucket,
    earned: u32,
}

impl Budget {
    pub(crate) const fn new() -> Self {
        Self {
            resets: Bucket::new(200, 20),
            useless: Bucket::new(100, 10),
            small: Bucket::new(100 * SMALL_BYTES, 1000 * SMALL_BYTES),
            tiny: Bucket::new(100 * SMALL_BYTES, 10 * SMALL_BYTES),
            earned: 0,
        }
    }

    /// Work was done for the client: a request came, or DATA was sent.
    #[inline]
    pub(crate) fn earn(&mut self) {
        self.earned = (self.earned + EARNED_FRAMES).min(EARNED_FRAMES_MAX);
    }

    #[must_use]
    pub(crate) fn reset(&mut self, now: Duration) -> bool {
        self.resets.pay(1, now)
    }

    #[must_use]
    pub(crate) fn useless(&mut self, now: Duration) -> bool {
        if self.earned > 0 {
            self.earned -= 1;
            return true;
        }
        self.useless.pay(1, now)
    }

    /// A DATA frame of so many bytes came.
    #[must_use]
    pub(crate) fn data(&mut self, bytes: usize, now: Duration) -> bool {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        match SMALL_BYTES.checked_sub(bytes) {
            Some(missing) => self.small.pay(missing, now),
            None => {
                self.small.give(bytes - SMALL_BYTES);
                true
            }
        }
    }

    /// A DATA frame of so many bytes was sent.
    //
    // Large ones pay for tiny ones: a client that opens its windows by what it has taken (nghttp) leaves an odd rest of the connection's
    // window behind every few frames, for megabytes.
    #[inline]
    pub(crate) fn sent(&mut self, bytes: usize) {
        self.earn();
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        self.tiny.give(bytes.saturating_sub(SMALL_BYTES));
    }

    /// A window cut a DATA frame of ours to so many bytes.
    #[must_use]
    pub(crate) fn cut(&mut self, bytes: usize, now: Duration) -> bool {
        let missing = SMALL_BYTES.saturating_sub(u32::try_from(bytes).unwrap_or(u32::MAX));
        self.tiny.pay(missing, now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_then_so_many_a_second() {
        let mut budget = Budget::new();
        let mut paid = |count: u32, at_ms| {
            let at = Duration::from_millis(at_ms);
            (0..count).take_while(|_| budget.reset(at)).count()
        };
        assert_eq!(paid(1000, 0), 200);
        assert_eq!(paid(1000, 100), 2);
        assert_eq!(paid(1000, 1100), 20);
        assert_eq!(paid(1000, 1_000_000), 200);
    }

    #[test]
    fn work_pays_for_window_updates() {
        let mut budget = Budget::new();
        for _ in 0..10_000 {
            budget.earn();
            assert!(budget.useless(Duration::ZERO) && budget.useless(Duration::ZERO));
        }
        let more = (0..10_000).take_while(|_| budget.useless(Duration::ZERO));
        assert!((100..=600).contains(&more.count()));
    }

    #[test]
    fn large_answers_pay_for_odd_rests_of_a_window() {
        let mut budget = Budget::new();
        for _ in 0..10_000 {
            budget.sent(16_384);
            budget.sent(100);
            assert!(budget.cut(100, Duration::ZERO));
        }
        let alone = (0..10_000).take_while(|_| {
            budget.sent(1);
            budget.cut(1, Duration::ZERO)
        });
        assert!((99..=100).contains(&alone.count()));
    }

    #[test]
    fn large_data_pays_for_small() {
        let mut budget = Budget::new();
        for _ in 0..10_000 {
            assert!(budget.data(1, Duration::ZERO) && budget.data(16_384, Duration::ZERO));
        }
        let small = (0..10_000).take_while(|_| budget.data(0, Duration::ZERO));
        assert_eq!(small.count(), 100);
    }
}
