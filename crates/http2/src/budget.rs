//! How many legal but useless frames a client may send.
//!
//! Each frame alone is legal; a million of them cost the server more than the client. A budget is a token bucket: it starts full and is
//! refilled with time. A charge that exceeds what is left ends the connection with ENHANCE_YOUR_CALM.
//!
//! | budget | holds | refilled a second | charged |
//! |---|---|---|---|
//! | resets | 500 | 50 | a stream that the client resets within its first second, or that we reset or refuse because of the client; a discarded field block, by its length |
//! | useless | 100 | 10 | PING, SETTINGS, PRIORITY, PRIORITY_UPDATE, WINDOW_UPDATE, unknown and empty frames; but see `earn` |
//! | unread | 16,384 frames | 1,000 frames | DATA below 256 bytes that is never consumed, by the bytes missing to 256; larger DATA refunds the bytes above 256, a request 32 frames |
//! | tiny | 100 frames | 10 frames | a DATA frame of ours that a window cut below 256 bytes, by the bytes missing to 256; larger ones refund the bytes above 256 |
//!
//! Work earns credit: each request, and each DATA frame that we send, makes some useless frames free (WINDOW_UPDATE, PING to measure,
//! PRIORITY_UPDATE). A client may therefore send a WINDOW_UPDATE for each KiB it receives, at any later time: Go's client sends two for
//! each 4 KiB when its program reads them. SETTINGS are never free, because each may touch every stream.
//!
//! Small DATA costs nothing once the caller consumes it. Until then its stream counts the missing bytes (`recv_small`), as many as its window
//! allows. A stream that ends with unconsumed DATA is charged this count, but at most half the budget, so that one stream never exhausts it.
//!
//! Source: CVE-2023-44487, CVE-2025-8671, CVE-2019-9511 to 9518, and what other servers do about them.

use std::time::Duration;

/// A DATA frame below this is small.
pub(crate) const SMALL_BYTES: u32 = 256;

/// Free frames that a request or a sent DATA frame earns, the bytes sent that earn one more, and the most that are kept.
const EARNED_FRAMES: u32 = 3;
const EARNED_BY_BYTES: u32 = 1024;
const EARNED_FRAMES_MAX: u32 = 1 << 18;

/// The size of the `unread` budget, and the refund for a request.
//
// A client that is answered early may have a whole window in flight: 16,384 frames of four bytes.
const UNREAD_HOLDS: u32 = 16_384 * SMALL_BYTES;
const UNREAD_BY_REQUEST: u32 = 32 * SMALL_BYTES;

/// A token bucket.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    left: u32,
    holds: u32,
    per_second: u32,
    /// The time of the last refill.
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

    /// Takes `cost`; false if less is left, even after a refill.
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

/// A connection's budgets. Each charge returns whether enough was left.
#[derive(Clone, Debug)]
pub(crate) struct Budget {
    resets: Bucket,
    useless: Bucket,
    unread: Bucket,
    /// When the last DATA frame came.
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

    /// Earns free frames for a request (0 bytes) or a DATA frame of `bytes`.
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

    /// Charges a useless frame that earned frames do not pay for.
    #[must_use]
    pub(crate) fn settings(&mut self, now: Duration) -> bool {
        self.useless.pay(1, now)
    }

    /// Records a received DATA frame and returns its bytes missing to [`SMALL_BYTES`], which its stream counts until they are consumed or charged.
    #[inline]
    pub(crate) fn data(&mut self, bytes: usize, now: Duration) -> u32 {
        self.data_at = now;
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        self.unread.give(bytes.saturating_sub(SMALL_BYTES));
        SMALL_BYTES.saturating_sub(bytes)
    }

    /// Charges DATA that is never consumed.
    #[must_use]
    pub(crate) fn unread(&mut self, missing: u32) -> bool {
        self.unread.pay(missing, self.data_at)
    }

    /// Like `unread`, for an open stream: false once only half the budget is left. That half is for DATA sent before the client sees the reset.
    #[must_use]
    pub(crate) fn unread_of_open(&mut self, missing: u32) -> bool {
        let is_left = self.unread.pay(missing + UNREAD_HOLDS / 2, self.data_at);
        if is_left {
            self.unread.give(UNREAD_HOLDS / 2);
        }
        is_left
    }

    /// Charges the unconsumed DATA of a stream that has ended, at most half the budget.
    #[must_use]
    pub(crate) fn left_unread(&mut self, missing: u32) -> bool {
        self.unread(missing.min(UNREAD_HOLDS / 2))
    }

    /// Records a DATA frame that was sent.
    //
    // Large frames pay for tiny ones: a client that reopens its windows by the bytes it has consumed (nghttp) cuts every few frames to an odd
    // rest of the connection's window, for megabytes.
    #[inline]
    pub(crate) fn sent(&mut self, bytes: usize) {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        self.earn(bytes);
        self.tiny.give(bytes.saturating_sub(SMALL_BYTES));
    }

    /// Charges a DATA frame of ours that a window cut to `bytes`.
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
        // Earned frames do not pay for SETTINGS.
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
        // The unconsumed DATA of one stream never ends the connection.
        let mut budget = Budget::new();
        assert!(budget.left_unread(u32::MAX));
    }
}
