//! What the client may send: windows of streams and of the connection, and how they grow (RFC 9113 §5.2, §6.9).
//!
//! A stream begins with [`Limits::stream_window`](crate::Limits). All such windows together are bounded by that of the connection,
//! `connection_window`.
//!
//! A long upload over a long line needs more. The caller may *lend* it ([`Connection::lend`]): the window of the stream grows, up to
//! `stream_window_max`, and that of the connection along with it, so that what is left for other streams stays what it was. A window that was announced cannot be taken
//! back. What is lent *returns* as the client is not told of bytes that were taken:
//!
//! ```text
//!   lend ---> lent to the stream --it shrinks, or less is to come than it may send--> debt of the connection
//!                    \--it has ended, or is gone-------------------------------------^       |
//!                                                    bytes are taken, of any stream: paid ---+--> not lent any more
//! ```
//!
//! So at any time the client may send `connection_window` and [`Connection::lent`] bytes at most that nobody has taken (C1, C2).
//!
//! Not known here: memory, time; how much may be lent.

use super::Connection;
use super::settings::WINDOW_DEFAULT;
use crate::frame::{self, kind};
use crate::mistakes::{Mistake, makes};
use crate::stream_id::StreamId;

impl Connection {
    /// The caller has taken so many bytes of the body: the client may send as many more.
    pub fn consumed(&mut self, stream: StreamId, bytes: usize) {
        let Some(found) = self.streams.get_mut(stream) else {
            return;
        };
        let bytes = u32::try_from(bytes)
            .unwrap_or(u32::MAX)
            .min(found.recv_held);
        let left = found.recv_held - bytes;
        // What was taken was work, however small its frames were.
        found.recv_small = match u64::from(found.recv_held) {
            0 => found.recv_small,
            held => (u64::from(found.recv_small) * u64::from(left) / held) as u32,
        };
        found.recv_held = left;
        found.recv_credit += bytes;
        found.recv_taken = found.recv_taken.saturating_add(bytes);
        let returned = found.returns();
        self.recv_debt += returned;
        self.credit_stream(stream);
        self.credit(bytes);
    }

    /// May the client send nothing of any body, since what has come of others was not taken?
    pub fn is_recv_window_used_up(&self) -> bool {
        self.recv_window <= 0
    }

    /// How much of a larger window would be of use to this stream: a whole one was taken since it grew, the client has used it up, the caller
    /// keeps up with it, and more is to come than the client may send. All of it at once: each step would cost a round trip.
    pub fn wants_lent(&self, stream: StreamId) -> u32 {
        let Some(found) = self.streams.get(stream) else {
            return 0;
        };
        let window = found.recv_window_max;
        let is_of_use = found.recv_taken >= window
            && found.recv_was_short
            && found.recv_held < window / 2
            && !found.is_released
            && !found.recv_ended
            && !found.is_reset;
        if !is_of_use {
            return 0;
        }
        let may_come = u32::try_from(found.recv_window.max(0)).unwrap_or(u32::MAX);
        let to_come =
            (found.recv_expected).map_or(u32::MAX, |it| it.try_into().unwrap_or(u32::MAX));
        let lacks = to_come.saturating_sub(may_come);
        lacks.min(self.limits.stream_window_max.saturating_sub(window))
    }

    /// Lends the stream so many bytes, at most what [`Self::wants_lent`] has said.
    pub fn lend(&mut self, stream: StreamId, bytes: u32) {
        let Some(found) = self.streams.get_mut(stream) else {
            return;
        };
        found.recv_lent += bytes;
        found.recv_shrinks = false;
        found.grow_by(bytes);
        self.recv_lent += bytes;
        // With what waits to be announced: the stream is told of more at once.
        let credit = bytes + std::mem::take(&mut self.recv_credit);
        self.open_connection(credit);
        self.credit_stream(stream);
    }

    /// Nothing is lent to this stream for longer than it takes to return it.
    pub fn shrink(&mut self, stream: StreamId) {
        if let Some(found) = self.streams.get_mut(stream) {
            found.recv_shrinks = true;
        }
    }

    /// What is lent: by so much the client may send more than the connection's window.
    pub fn lent(&self) -> u32 {
        self.recv_lent
    }

    /// The client may send what was taken of the stream, once it is half a window, or all that is to come.
    pub(super) fn credit_stream(&mut self, stream: StreamId) {
        let Some(found) = self.streams.get_mut(stream) else {
            return;
        };
        let window = found.recv_window_max;
        let may_come = u64::try_from(found.recv_window).unwrap_or(0);
        let is_all = (found.recv_expected).is_some_and(|it| {
            (1..=u64::from(found.recv_credit)).contains(&it.saturating_sub(may_come))
        });
        let is_enough = found.recv_credit > 0 && (found.recv_credit >= window / 2 || is_all);
        if is_enough && !found.recv_ended && !found.is_reset {
            let mut credit = std::mem::take(&mut found.recv_credit);
            found.recv_window += i64::from(credit);
            if makes(Mistake::CreditTwice) {
                credit *= 2;
            }
            frame::write_word(kind::WINDOW_UPDATE, stream.id, credit, &mut self.out);
        }
    }

    /// A stream is gone, to which so much was lent.
    pub(super) fn owe(&mut self, lent: u32) {
        self.recv_debt += lent;
    }

    /// The client may send so much more on the connection (C2), when what is owed was paid.
    pub(super) fn credit(&mut self, bytes: u32) {
        if makes(Mistake::NoCredit) {
            return;
        }
        let paid = bytes.min(self.recv_debt);
        self.recv_debt -= paid;
        self.recv_lent -= paid;
        self.recv_credit += bytes - paid;
        if self.recv_credit >= self.limits.connection_window.max(WINDOW_DEFAULT) / 2 {
            let credit = std::mem::take(&mut self.recv_credit);
            self.open_connection(credit);
        }
    }

    fn open_connection(&mut self, credit: u32) {
        if credit > 0 {
            self.recv_window += i64::from(credit);
            frame::write_word(kind::WINDOW_UPDATE, 0, credit, &mut self.out);
        }
    }
}
