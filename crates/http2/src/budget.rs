//! How much of what is legal but useless a client may send.
//!
//! Each frame alone is legal; a million of them cost the server more than the client. A budget is a bucket: it holds so much at
//! first, is refilled with time, and never holds more. A charge that it cannot pay ends the connection with ENHANCE_YOUR_CALM.
//!
//! | budget | holds | refilled a second | charged |
//! |---|---|---|---|
//! | resets | 500 | 50 | a stream that the client resets within its first second, or that we reset or refuse because of the client; a block that is read in vain, by its length |
//! | useless | 100 | 10 | PING, SETTINGS, PRIORITY, PRIORITY_UPDATE, WINDOW_UPDATE, unknown and empty frames; but see `earn` |
//! | unread | 16,384 frames | 1,000 frames | DATA below 256 bytes that nobody takes, by what is missing; larger DATA gives back what is above, a request 32 frames |
//! | tiny | 100 frames | 10 frames | a DATA frame of ours that a window cut below 256 bytes, by what is missing; larger ones give back what is above |
//!
//! Work earns credit: a request and a DATA frame that was sent each bring useless frames with them (WINDOW_UPDATE, PING to measure,
//! PRIORITY_UPDATE), which are then free. A client may open its windows again for each KiB that it takes, and as late as it likes:
//! Go's does so twice for each 4 KiB, when the program reads what came long ago. SETTINGS, which may touch each stream, are never free.
//!
//! Small DATA that is taken is work, and costs nothing. A stream notes what was small of that which waits to be taken; its window bounds
//! that. If it ends with something that nobody took, that is charged, but never as much as would end the connection alone.
//!
//! Source: CVE-2023-44487, CVE-2025-8671, CVE-2019-9511 to 9518, and what other servers do about them.

use std::time::Duration;

/// A DATA frame below this is small.
pub(crate) const SMALL_BYTES: u32 = 256;

/// Free frames that a request or a sent DATA frame brings, besides one for each so many bytes, and the most that are kept.
const EARNED_FRAMES: u32 = 3;
const EARNED_BY_BYTES: u32 = 1024;
const EARNED_FRAMES_MAX: u32 = 1 << 18;

/// What the budget for DATA that nobody takes holds, and what a request gives back.
//
// A client that is answered early has as much on its way as the window allows: 16,384 frames of four bytes.
const UNREAD_HOLDS: u32 = 16_384 * SMALL_BYTES;
const UNREAD_BY_REQUEST: u32 = 32 * SMALL_BYTES;

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
    unread: Bucket,
    /// When DATA came last.
    data_at: Duration,
    tiny: Bucket,
    earned: u32,
}

impl Budget {
    pub(crate) const fn new() -> Self {
        Self {
            resets: Bucket::new(500, 50),
            useless: Bucket::new(100, 10),
            unread: Bucket::new(UNREAD_HOLDS, 1000 * SMALL_BYTES),
            data_at: Duration::ZERO,
            tiny: Bucket::new(100 * SMALL_BYTES, 10 * SMALL_BYTES),
            earned: 0,
        }
    }

    /// A request came.
    pub(crate) fn request(&mut self) {
        self.earn(0);
        self.unread.give(UNREAD_BY_REQUEST);
    }

    /// Work was done for the client, of so many bytes.
    #[inline]
    fn earn(&mut self, bytes: u32) {
        let more = EARNED_FRAMES + bytes / EARNED_BY_BYTES;
        self.earned = (self.earned + more).min(EARNED_FRAMES_MAX);
    }

    #[must_use]
    pub(crate) fn reset(&mut self, cost: u32, now: Duration) -> bool {
        self.resets.pay(cost, now)
    }

    #[must_use]
    pub(crate) fn useless(&mut self, now: Duration) -> bool {
        if self.earned > 0 {
            self.earned -= 1;
            return true;
        }
        self.useless.pay(1, now)
    }

    /// Of a useless frame that no work makes free.
    #[must_use]
    pub(crate) fn settings(&mut self, now: Duration) -> bool {
        self.useless.pay(1, now)
    }

    /// A DATA frame of so many bytes came. How much it is too small by, to be noted by its stream, or charged if nobody takes it.
    #[inline]
    pub(crate) fn data(&mut self, bytes: usize, now: Duration) -> u32 {
        self.data_at = now;
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        self.unread.give(bytes.saturating_sub(SMALL_BYTES));
        SMALL_BYTES.saturating_sub(bytes)
    }

    /// Nobody takes that DATA.
    #[must_use]
    pub(crate) fn unread(&mut self, missing: u32) -> bool {
        self.unread.pay(missing, self.data_at)
    }

    /// The same of a stream that is open: false while half of what it holds is left, for what comes before the client knows.
    #[must_use]
    pub(crate) fn unread_of_open(&mut self, missing: u32) -> bool {
        let is_left = self.unread.pay(missing + UNREAD_HOLDS / 2, self.data_at);
        if is_left {
            self.unread.give(UNREAD_HOLDS / 2);
        }
        is_left
    }

    /// A stream ended with DATA that nobody took.
    #[must_use]
    pub(crate) fn left_unread(&mut self, missing: u32) -> bool {
        self.unread(missing.min(UNREAD_HOLDS / 2))
    }

    /// A DATA frame of so many bytes was sent.
    //
    // Large ones pay for tiny ones: a client that opens its windows by what it has taken (nghttp) leaves an odd rest of the connection's
    // window behind every few frames, for megabytes.
    #[inline]
    pub(crate) fn sent(&mut self, bytes: usize) {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        self.earn(bytes);
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
            (0..count).take_while(|_| budget.reset(1, at)).count()
        };
        assert_eq!(paid(1000, 0), 500);
        assert_eq!(paid(1000, 100), 5);
        assert_eq!(paid(1000, 1100), 50);
        assert_eq!(paid(1000, 1_000_000), 500);
    }

    #[test]
    fn work_pays_for_window_updates() {
        let mut budget = Budget::new();
        for _ in 0..10_000 {
            budget.request();
            assert!((0..3).all(|_| budget.useless(Duration::ZERO)));
        }
        let more = (0..10_000).take_while(|_| budget.useless(Duration::ZERO));
        assert_eq!(more.count(), 100);
    }

    #[test]
    fn windows_may_be_opened_late_and_by_little() {
        let mut budget = Budget::new();
        // A hundred answers of 4 MiB, then twice for each 4 KiB of them, all at once.
        (0..100 * 256).for_each(|_| budget.sent(16_384));
        assert!((0..100 * 2048).all(|_| budget.useless(Duration::ZERO)));
        // SETTINGS are not paid by that.
        (0..1000).for_each(|_| budget.sent(16_384));
        let free = (0..1000).take_while(|_| budget.settings(Duration::ZERO));
        assert_eq!(free.count(), 100);
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
    fn large_data_pays_for_small_that_nobody_takes() {
        let mut budget = Budget::new();
        let mut pay = |bytes| {
            let missing = budget.data(bytes, Duration::ZERO);
            budget.unread(missing)
        };
        for _ in 0..20_000 {
            assert!(pay(1) && pay(16_384));
        }
        let small = (0..100_000).take_while(|_| pay(1)).count();
        assert!((16_384..16_500).contains(&small), "{small}");
    }

    #[test]
    fn an_open_stream_is_given_up_before_the_connection() {
        let mut budget = Budget::new();
        let missing = budget.data(0, Duration::ZERO);
        let of_open = (0..100_000).take_while(|_| budget.unread_of_open(missing));
        assert_eq!(of_open.count(), 8192);
        let on_its_way = (0..100_000).take_while(|_| budget.unread(missing));
        assert_eq!(on_its_way.count(), 8192);
        // What one stream leaves never ends the connection alone.
        let mut budget = Budget::new();
        assert!(budget.left_unread(u32::MAX));
    }
}
