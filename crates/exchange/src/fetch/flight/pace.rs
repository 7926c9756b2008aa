//! Readers of different speed: who is waited for, and who leaves.
//!
//! Not known here: when the fetch asks.

use std::time::Duration;

use super::{Reader, STILL_MAX, State};
use base::clock::Instant;

/// So much at most a reader takes at once of a body that others read too and that nobody can continue: what it takes shows that it does not
/// stand still.
pub(super) const SLICE_BYTES: u64 = 16 << 10;

/// So many readers of one fetch go on by themselves at a time.
pub(super) const LEFT_MAX: usize = 64;

/// So long, all in all, a reader that can go on by itself may hold up others.
pub(super) const HELD_MAX: Duration = Duration::from_secs(20);

impl State {
    /// Is a piece taken bit by bit?
    pub(super) fn is_sliced(&self) -> bool {
        let is_held_back = !self.storing && !self.keep_all && self.lag_max.is_none();
        is_held_back && self.live().nth(1).is_some()
    }

    /// The producer wants room. Those that hold it up leave, if they can go on by themselves. False: there is room.
    pub(super) fn hold(&mut self, window: u64, now: Instant) -> bool {
        let is_full = self.end - self.base >= window;
        if is_full {
            // What is kept of the beginning is kept in a window of now.
            self.window = self.window.min(window);
        }
        let Some(lag_max) = self.lag_max else {
            return is_full;
        };
        let is_held = is_full && self.is_waited_for();
        if let Some(since) = self.held_since.take() {
            self.count_held(now.saturating_duration_since(since));
        }
        self.held_since = is_held.then_some(now);
        if is_full {
            self.let_go(lag_max);
        }
        is_full
    }

    /// So long the slowest reader has held up the others.
    fn count_held(&mut self, time: Duration) {
        let may_leave = self.may_leave() > 0;
        let readers = self.readers.iter_mut().flatten();
        let slowest = readers.filter(|r| !r.lagged).min_by_key(|r| r.at);
        if let Some(slowest) = slowest {
            slowest.held_for += time;
            if slowest.held_for >= HELD_MAX && may_leave {
                slowest.leave();
            }
        }
    }

    /// So many more may go on by themselves now.
    fn may_leave(&self) -> usize {
        let left = self.readers.iter().flatten().filter(|r| r.lagged).count();
        LEFT_MAX.saturating_sub(left)
    }

    /// Does a reader wait that has seen everything? As long as none does, nobody is held up: the origin is held back for all of them.
    fn is_waited_for(&self) -> bool {
        self.live().any(|r| r.at >= self.end && r.waker.is_some())
    }

    /// Readers that are so far behind one that waits leave, as many as may.
    fn let_go(&mut self, lag_max: u64) {
        if !self.is_waited_for() {
            return;
        }
        let (end, may_leave) = (self.end, self.may_leave());
        let readers = self.readers.iter_mut().flatten();
        let behind = readers.filter(|reader| reader.is_behind(end, lag_max));
        behind.take(may_leave).for_each(Reader::leave);
    }

    /// Readers that are so far behind one that waits leave, if the last [`STILL_MAX`] looks found them there, too.
    pub(super) fn cut_still(&mut self, window: u64) {
        let (end, is_waited_for) = (self.end, self.is_waited_for());
        // A reader within the first piece holds all of it.
        let first = self.pieces.front().map_or(0, |piece| piece.len() as u64);
        let window = window.saturating_sub(first).max(1);
        for reader in self.readers.iter_mut().flatten() {
            let seen = match reader.held_at {
                Some((at, seen)) if at == reader.at => seen + 1,
                _ => 0,
            };
            let holds_up = is_waited_for && reader.is_behind(end, window);
            reader.held_at = holds_up.then_some((reader.at, seen));
            if holds_up && seen >= STILL_MAX {
                reader.leave();
            }
        }
    }
}

impl Reader {
    fn is_behind(&self, end: u64, bytes: u64) -> bool {
        // One that wants a part may be ahead of what has come.
        !self.lagged && end.saturating_sub(self.at) >= bytes
    }

    /// It no longer counts: what only it needed is let go.
    fn leave(&mut self) {
        self.lagged = true;
        self.at = u64::MAX;
    }
}
