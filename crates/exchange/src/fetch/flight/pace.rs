//! Readers of different speed: for which ones the fetch waits, and which ones leave.
//!
//! Not known here: when the fetch calls this.

use std::time::Duration;

use super::{Reader, STILL_MAX, State};
use base::clock::Instant;

/// The most bytes that a reader takes at once from a body that is not resumable and has other readers: the many small takes show
/// that the reader is not stuck.
pub(super) const SLICE_BYTES: u64 = 16 << 10;

/// The most readers of one fetch that have left and continue on their own at a time.
pub(super) const LEFT_MAX: usize = 64;

/// How long in total a reader of a resumable body may hold up others.
pub(super) const HELD_MAX: Duration = Duration::from_secs(20);

impl State {
    /// Do readers take pieces in slices?
    pub(super) fn is_sliced(&self) -> bool {
        let is_held_back = !self.storing && !self.keep_all && self.lag_max.is_none();
        is_held_back && self.live().nth(1).is_some()
    }

    /// The producer wants room: readers that hold it up leave if the body is resumable. False: there is room.
    pub(super) fn hold(&mut self, window: u64, now: Instant) -> bool {
        let is_full = self.end - self.base >= window;
        if is_full {
            // The beginning is kept in the present window, too.
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

    /// Adds to the time that the slowest reader has held up the others.
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

    /// How many more readers may leave now.
    fn may_leave(&self) -> usize {
        let left = self.readers.iter().flatten().filter(|r| r.lagged).count();
        LEFT_MAX.saturating_sub(left)
    }

    /// Does a reader wait that has seen everything? If none does, no reader is held up: the origin is held back for all of them.
    fn is_waited_for(&self) -> bool {
        self.live().any(|r| r.at >= self.end && r.waker.is_some())
    }

    /// Makes readers leave that are `lag_max` behind a waiting one, as many as may leave.
    fn let_go(&mut self, lag_max: u64) {
        if !self.is_waited_for() {
            return;
        }
        let (end, may_leave) = (self.end, self.may_leave());
        let readers = self.readers.iter_mut().flatten();
        let behind = readers.filter(|reader| reader.is_behind(end, lag_max));
        behind.take(may_leave).for_each(Reader::leave);
    }

    /// Cuts readers that are a window behind a waiting one, if the last [`STILL_MAX`] checks found them at the same position.
    pub(super) fn cut_still(&mut self, window: u64) {
        let (end, is_waited_for) = (self.end, self.is_waited_for());
        // The first piece is kept whole, even if a reader needs only its end.
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
        // A reader of a part may be ahead of the bytes that have arrived.
        !self.lagged && end.saturating_sub(self.at) >= bytes
    }

    /// Cuts the reader. Pieces that only it needed can go.
    fn leave(&mut self) {
        self.lagged = true;
        self.at = u64::MAX;
    }
}
