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

use crate::clock::Instant;
use std::{io::IoSlice, pin::pin, time::Duration};

use bytes::Bytes;
use tokio::io::AsyncWriteExt;

use crate::{conn::client::Conn, record::metrics, socket, state::Worker};

/// Over how much waiting the rate is taken.
const WINDOW: Duration = Duration::from_secs(60);

/// How often the kernel is asked what the client has taken. Not oftener: it is for those who are slow.
const ASK_EVERY: Duration = Duration::from_secs(5);

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
    unasked: Duration,
    /// What it had not taken then, and what was written since, bytes.
    untaken: u64,
    /// It was too slow: the connection ends with a reset.
    pub is_cut: bool,
}

impl Pace {
    /// How much longer it may be waited for.
    fn patience(&self, stall_max: Duration, rate_min: u64) -> Duration {
        let left = stall_max.saturating_sub(self.stalled);
        if rate_min == 0 {
            return left;
        }
        // What it took beyond the rate, it may wait later; but not for longer than another window.
        let paid = Duration::from_secs(self.taken / rate_min).clamp(WINDOW, 2 * WINDOW);
        left.min(paid.saturating_sub(self.waited))
    }

    fn wait(&mut self, waited: Duration) {
        self.waited += waited;
        self.stalled += waited;
        self.unasked += waited;
    }

    /// So much is not taken now.
    fn ask(&mut self, untaken: u64, rate_min: u64) {
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

/// Writes of `head` and `body` what the socket takes. `at_most`: the longest that it is waited for; without it, until the client is
/// too slow.
///
/// The socket says that it takes more when much of what the kernel keeps for the client, megabytes, is gone, so a client that is merely
/// slow would look as if it took nothing. The kernel knows.
pub async fn write_once(
    worker: &Worker,
    conn: &mut Conn,
    head: &Bytes,
    body: &Bytes,
    at_most: Option<Duration>,
) -> Wrote {
    let plan = &worker.shared.plan;
    let (stall_max, rate_min) = (plan.timeouts.client_write, plan.limits.client_rate_min);
    let began = Instant::now();
    loop {
        let slice_began = Instant::now();
        let patience = conn.pace.patience(stall_max, rate_min);
        let left = at_most.map_or(patience, |most| most.saturating_sub(began.elapsed()));
        let slice = patience.min(left).min(ASK_EVERY);
        let stream = &mut conn.stream;
        let write = async {
            if body.is_empty() {
                stream.write(head).await
            } else if head.is_empty() {
                stream.write(body).await
            } else {
                let slices = [IoSlice::new(head), IoSlice::new(body)];
                stream.write_vectored(&slices).await
            }
        };
        let written = conn.watch.limit(slice, pin!(write)).await;
        conn.pace.wait(slice_began.elapsed());
        if written.is_err() || conn.pace.unasked >= ASK_EVERY {
            let untaken = socket::untaken_bytes(&conn.stream);
            conn.pace.ask(untaken, rate_min);
        }
        match written {
            Ok(Ok(n)) if n > 0 => {
                conn.pace.untaken += n as u64;
                return Wrote::Some(n);
            }
            Ok(_) => return Wrote::Gone,
            Err(_) if conn.pace.patience(stall_max, rate_min).is_zero() => {
                conn.pace.is_cut = true;
                metrics::add(&worker.counters.client_connections_slow, 1);
                // What it has not taken is not left to the kernel, which would keep it for a long time.
                socket::reset_when_closed(&conn.stream);
                return Wrote::Gone;
            }
            Err(_) if at_most.is_some_and(|most| began.elapsed() >= most) => return Wrote::Nothing,
            Err(_) => {}
        }
    }
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
