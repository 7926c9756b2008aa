//! How fast a client takes what it is sent, and when that is too slow.
//!
//! Only the time counts in which there is something to send and the client takes none of it. So whoever waits for an origin, polls
//! for long, or reads on after a pause is not slow, however long it takes. A client is cut, visibly, by a reset, when it
//!
//!  - takes nothing for `timeouts.client-write`, or
//!  - takes less than `limits.client-rate-min` on the average of a minute of such waiting: whoever takes a byte now and then would
//!    otherwise hold a connection, and what is read for it, for ever.
//!
//! Not known here: what is sent. Tunnels have a time-out of their own (`tunnel`).

use std::time::Duration;

/// Over how much waiting the rate is taken.
const WINDOW: Duration = Duration::from_secs(60);

/// How often the kernel is asked what the client has taken. Not oftener: only slow clients need it.
pub const ASK_EVERY: Duration = Duration::from_secs(5);

/// What one client has taken lately, and how long it was waited for.
#[derive(Default)]
pub struct Pace {
    /// Waited for in this window.
    waited: Duration,
    /// Taken in this window, bytes.
    taken: u64,
    /// Waited for since it took something.
    stalled: Duration,
    /// Waited for since the kernel was asked what it has taken.
    pub unasked: Duration,
    /// What it had not taken then, and what was written since, bytes.
    pub untaken: u64,
    /// It was too slow: the connection ends with a reset.
    pub is_cut: bool,
}

impl Pace {
    /// How much longer it may be waited for.
    pub fn patience(&self, stall_max: Duration, rate_min: u64) -> Duration {
        let left = stall_max.saturating_sub(self.stalled);
        if rate_min == 0 {
            return left;
        }
        // What it took beyond the rate, it may wait later; but not for longer than another window.
        let paid = Duration::from_secs(self.taken / rate_min).clamp(WINDOW, 2 * WINDOW);
        left.min(paid.saturating_sub(self.waited))
    }

    /// The client took nothing for so long.
    pub fn wait(&mut self, waited: Duration) {
        self.waited += waited;
        self.stalled += waited;
        self.unasked += waited;
    }

    /// So much is not taken now.
    pub fn ask(&mut self, untaken: u64, rate_min: u64) {
        let taken = self.untaken.saturating_sub(untaken);
        (self.untaken, self.unasked) = (untaken, Duration::ZERO);
        if taken == 0 {
            return;
        }
        self.stalled = Duration::ZERO;
        self.taken = self.taken.saturating_add(taken);
        if self.waited >= WINDOW && self.taken / self.waited.as_secs().max(1) >= rate_min {
            (self.waited, self.taken) = (Duration::ZERO, 0);
        }
    }
}

/// What became of a write.
pub enum Wrote {
    /// The socket took so many bytes.
    Some(usize),
    /// It took none in the time given.
    Nothing,
    /// The client has gone, or is too slow.
    Gone,
}

#[cfg(test)]
mod tests {
    use super::*;

    const STALL_MAX: Duration = Duration::from_secs(600);
    const RATE: u64 = 100;

    /// So much was written, and is taken.
    fn take(pace: &mut Pace, bytes: u64, rate: u64) {
        pace.untaken += bytes;
        pace.ask(pace.untaken - bytes, rate);
    }

    /// The client takes `bytes` after every `pause_s` seconds: after how many of them is it cut?
    fn cut_after(pause_s: u64, bytes: usize, rate: u64) -> Option<usize> {
        let mut pace = Pace::default();
        let pause = Duration::from_secs(pause_s);
        (0..1000).find(|_| {
            let is_cut = pace.patience(STALL_MAX, rate) < pause;
            pace.wait(pause);
            take(&mut pace, bytes as u64, rate);
            is_cut
        })
    }

    #[test]
    fn who_takes_too_little_in_a_minute_is_cut() {
        assert_eq!(cut_after(1, 10, RATE), Some(60));
        assert_eq!(cut_after(10, 100, RATE), Some(6));
        assert_eq!(
            cut_after(61, 1 << 20, RATE),
            Some(0),
            "it takes nothing for a minute"
        );
    }

    #[test]
    fn who_takes_enough_is_not() {
        assert_eq!(cut_after(1, 101, RATE), None);
        assert_eq!(cut_after(20, 2000, RATE), None);
        assert_eq!(
            cut_after(59, 12_000, RATE),
            None,
            "it pauses for less than a minute"
        );
        assert_eq!(cut_after(1, 1, 0), None, "the rule is off");
    }

    #[test]
    fn what_was_taken_long_ago_pays_for_a_minute_and_no_more() {
        let mut pace = Pace::default();
        take(&mut pace, 1 << 30, RATE);
        assert_eq!(pace.patience(STALL_MAX, RATE), 2 * WINDOW);
        pace.wait(WINDOW);
        assert_eq!(pace.patience(STALL_MAX, RATE), WINDOW);
        take(&mut pace, 1, RATE);
        pace.wait(WINDOW);
        assert_eq!(pace.patience(STALL_MAX, RATE), Duration::ZERO);
    }

    #[test]
    fn who_takes_nothing_is_cut_as_before() {
        let mut pace = Pace::default();
        let stall_max = Duration::from_secs(5);
        pace.wait(Duration::from_secs(4));
        assert_eq!(pace.patience(stall_max, RATE), Duration::from_secs(1));
        take(&mut pace, 1, RATE);
        assert_eq!(pace.patience(stall_max, RATE), stall_max);
    }
}
