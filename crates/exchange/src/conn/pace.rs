//! Measures how fast a client takes its answer, and decides when it is too slow.
//!
//! Only time counts in which bytes wait for the client and it takes none. So a client that waits for an origin, polls for a long time, or
//! continues to read after a pause is not slow. A slow client is cut by a reset, which it notices. A client is slow if it
//!
//!   - takes nothing for `timeouts.client-write`, or
//!   - takes less than `limits.client-rate-min` on average over a minute of such time: a byte now and then must not hold a connection.
//!
//! Not known here: the bytes. Tunnels have a time-out of their own (`tunnel`).

use std::time::Duration;

/// The rate is an average over this much waiting.
const WINDOW: Duration = Duration::from_secs(60);

/// The interval at which the kernel is asked how much the client has taken. Not shorter, since only slow clients need it.
pub const ASK_EVERY: Duration = Duration::from_secs(5);

/// The recent pace of one client.
#[derive(Default)]
pub struct Pace {
    /// Time waited in this window.
    waited: Duration,
    /// Bytes taken in this window.
    taken: u64,
    /// Time waited since the client last took something.
    stalled: Duration,
    /// Time waited since the kernel was last asked.
    pub unasked: Duration,
    /// Bytes not taken at that time, plus bytes written since.
    pub untaken: u64,
    /// Length of the window, if longer than a minute.
    pub window_min: Duration,
    /// The client was too slow: the connection ends with a reset.
    pub is_cut: bool,
}

impl Pace {
    /// How much longer to wait for the client.
    pub fn patience(&self, stall_max: Duration, rate_min: u64) -> Duration {
        let left = stall_max.saturating_sub(self.stalled);
        if rate_min == 0 {
            return left;
        }
        // A client that took more than the rate may pause longer, but not longer than another window.
        let window = self.window();
        let paid = Duration::from_secs(self.taken / rate_min).clamp(window, 2 * window);
        left.min(paid.saturating_sub(self.waited))
    }

    fn window(&self) -> Duration {
        WINDOW.max(self.window_min)
    }

    /// Time waited since the client last took something.
    pub fn stalled(&self) -> Duration {
        self.stalled
    }

    /// Adds time in which the client took nothing.
    pub fn wait(&mut self, waited: Duration) {
        self.waited += waited;
        self.stalled += waited;
        self.unasked += waited;
    }

    /// Adds the kernel's answer: this many bytes are not taken yet.
    pub fn ask(&mut self, untaken: u64, rate_min: u64) {
        let taken = self.untaken.saturating_sub(untaken);
        (self.untaken, self.unasked) = (untaken, Duration::ZERO);
        if taken == 0 {
            return;
        }
        self.stalled = Duration::ZERO;
        self.taken = self.taken.saturating_add(taken);
        if self.waited >= self.window() && self.taken / self.waited.as_secs().max(1) >= rate_min {
            (self.waited, self.taken) = (Duration::ZERO, 0);
        }
    }
}

/// The result of a write.
pub enum Wrote {
    /// The socket took this many bytes.
    Some(usize),
    /// It took none in the given time.
    Nothing,
    /// The client has gone, or is too slow.
    Gone,
}

#[cfg(test)]
mod tests {
    use super::*;

    const STALL_MAX: Duration = Duration::from_secs(600);
    const RATE: u64 = 100;

    /// Writes `bytes`, which the client takes.
    fn take(pace: &mut Pace, bytes: u64, rate: u64) {
        pace.untaken += bytes;
        pace.ask(pace.untaken - bytes, rate);
    }

    /// If the client takes `bytes` every `pause_s` seconds: after how many times is it cut?
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
    fn the_window_may_be_longer() {
        let mut pace = Pace {
            window_min: 10 * WINDOW,
            ..Pace::default()
        };
        pace.wait(9 * WINDOW);
        assert_eq!(pace.patience(STALL_MAX, RATE), WINDOW);
        take(&mut pace, 1, RATE);
        assert_eq!(pace.patience(STALL_MAX, RATE), WINDOW);
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
