//! The rate at which a client's window lets queued bytes through, and when it is too slow.
//!
//! Only time in which bytes are queued behind a closed window counts. A stream that waits for its turn, for the caller or for the
//! socket is therefore not slow. A client is too slow if it
//!
//!   - takes nothing for [`crate::Limits::stall_time`], or
//!   - takes less than [`crate::Limits::rate_min`] bytes a second, on the average of a minute of such time: otherwise a window that is
//!     opened by a byte now and then would hold a stream and its data for ever.
//!
//! A proxy has the same rule for the whole connection, when its socket takes no more.

use std::time::Duration;

use crate::limits::Limits;

/// The rate is an average over this much waiting.
const WINDOW: Duration = Duration::from_secs(60);

/// The recent pace of one stream, or of the connection's window.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Pace {
    /// When the client's window closed, if it is closed.
    closed_at: Option<Duration>,
    /// Time waited before `closed_at`, in this period of the average.
    waited: Duration,
    /// The part of `waited` since bytes were last sent.
    stalled: Duration,
    /// Bytes sent in this period of the average.
    sent: u64,
}

impl Pace {
    /// Notes whether bytes wait behind a closed window.
    #[inline]
    pub(crate) fn note(&mut self, is_closed: bool, now: Duration) {
        match (self.closed_at, is_closed) {
            (None, true) => self.closed_at = Some(now),
            (Some(since), false) => {
                let waited = now.saturating_sub(since);
                self.waited += waited;
                self.stalled += waited;
                self.closed_at = None;
            }
            _ => {}
        }
    }

    /// Records bytes that were sent.
    #[inline]
    pub(crate) fn sent(&mut self, bytes: usize, limits: &Limits) {
        self.stalled = Duration::ZERO;
        self.sent = self.sent.saturating_add(bytes as u64);
        if self.waited >= WINDOW && self.sent / self.waited.as_secs().max(1) >= limits.rate_min {
            (self.waited, self.sent) = (Duration::ZERO, 0);
        }
    }

    /// Is the client too slow?
    pub(crate) fn is_too_slow(&self, now: Duration, limits: &Limits) -> bool {
        let Some(since) = self.closed_at else {
            return false;
        };
        let waiting = now.saturating_sub(since);
        if self.stalled + waiting >= limits.stall_time {
            return true;
        }
        let Some(paid_s) = self.sent.checked_div(limits.rate_min) else {
            return false;
        };
        // A client that took more than the rate may pause longer, but not longer than another window.
        let paid = Duration::from_secs(paid_s).clamp(WINDOW, 2 * WINDOW);
        self.waited + waiting > paid
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits {
        rate_min: 100,
        stall_time: Duration::from_secs(600),
        ..Limits::DEFAULT
    };

    /// If the window is opened by `bytes` every `pause_s` seconds: when is it too slow?
    fn slow_after_s(pause_s: u64, bytes: usize, limits: &Limits) -> Option<u64> {
        let mut pace = Pace::default();
        pace.note(true, Duration::ZERO);
        (1..1000).map(|round| round * pause_s).find(|&at_s| {
            let now = Duration::from_secs(at_s);
            let is_slow = pace.is_too_slow(now, limits);
            pace.note(false, now);
            pace.sent(bytes, limits);
            pace.note(true, now);
            is_slow
        })
    }

    #[test]
    fn a_byte_now_and_then_is_too_slow() {
        assert_eq!(slow_after_s(1, 1, &LIMITS), Some(61));
        assert_eq!(slow_after_s(7, 600, &LIMITS), Some(63));
        assert_eq!(slow_after_s(59, 1, &LIMITS), Some(118));
    }

    #[test]
    fn enough_is_not() {
        assert_eq!(slow_after_s(1, 101, &LIMITS), None);
        assert_eq!(slow_after_s(59, 12_000, &LIMITS), None);
        let off = Limits {
            rate_min: 0,
            ..LIMITS
        };
        assert_eq!(slow_after_s(1, 1, &off), None);
    }

    #[test]
    fn nothing_at_all_is_too_slow_after_the_stall_time() {
        let limits = Limits {
            stall_time: Duration::from_secs(5),
            ..LIMITS
        };
        assert_eq!(slow_after_s(5, 1 << 20, &limits), Some(5));
        assert_eq!(slow_after_s(4, 1 << 20, &limits), None);
        // Time with an open window does not count.
        let mut pace = Pace::default();
        pace.note(false, Duration::from_secs(1));
        assert!(!pace.is_too_slow(Duration::from_secs(1000), &limits));
    }
}
