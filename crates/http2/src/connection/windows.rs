//! Receive windows of streams and of the connection, and how they grow (RFC 9113 §5.2, §6.9).
//!
//! A stream begins with [`Limits::stream_window`](crate::Limits). The window of the connection, `connection_window`, bounds all streams
//! together.
//!
//! A long upload with a long round trip needs more. The caller may *lend* bytes ([`Connection::lend`]): the stream's window grows, up to
//! `stream_window_max`, and the connection's window grows by the same amount, so that other streams keep their share. An announced window
//! cannot be taken back. Lent bytes *return* when bytes are consumed and the client is not told:
//!
//! ```text
//!   lend ---> lent to the stream --it shrinks, or less is to come than it may send--> debt of the connection
//!                    \--it has ended, or is gone-------------------------------------^       |
//!                                                    bytes are taken, of any stream: paid ---+--> not lent any more
//! ```
//!
//! At any time, therefore, at most `connection_window` plus [`Connection::lent`] bytes can be received and not consumed (C1, C2).
//!
//! Not known here: memory, time; how much may be lent.

use super::Connection;
use super::settings::WINDOW_DEFAULT;
use crate::frame::{self, kind};
use crate::mistakes::{Mistake, makes};
use crate::stream_id::StreamId;

impl Connection {
    /// Reports that the caller has consumed so many bytes of the body, so that the client may send as many more.
    pub fn consumed(&mut self, stream: StreamId, bytes: usize) {
        let Some(found) = self.streams.get_mut(stream) else {
            return;
        };
        let bytes = u32::try_from(bytes)
            .unwrap_or(u32::MAX)
            .min(found.recv_held);
        let left = found.recv_held - bytes;
        // Consumed bytes were work, however small their frames: `recv_small` falls in proportion.
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

    /// Is the connection's receive window used up by unconsumed bytes, so that no stream can receive more?
    pub fn is_recv_window_used_up(&self) -> bool {
        self.recv_window <= 0
    }

    /// How many bytes more this stream's window needs. 0 unless a whole window was consumed since it last grew, the client nearly used it up, the
    /// caller keeps up, and more is to come than the window allows. This is the whole increase, because each step would cost a round trip.
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

    /// Lends the stream so many bytes, at most the result of [`Self::wants_lent`].
    pub fn lend(&mut self, stream: StreamId, bytes: u32) {
        let Some(found) = self.streams.get_mut(stream) else {
            return;
        };
        found.recv_lent += bytes;
        found.recv_shrinks = false;
        found.grow_by(bytes);
        self.recv_lent += bytes;
        // Include the connection's waiting credit: the stream's credit, too, is announced at once.
        let credit = bytes + std::mem::take(&mut self.recv_credit);
        self.open_connection(credit);
        self.credit_stream(stream);
    }

    /// Has the peer used up most of the stream's window, with more to come?
    pub fn is_short(&self, stream: StreamId) -> bool {
        let found = self.streams.get(stream);
        found.is_some_and(|it| it.recv_was_short && !it.recv_ended)
    }

    /// The window of this stream grows by so many bytes, until it has ended; what all streams may send together stays as it is. For our own
    /// requests, whose connection has room for all of their streams.
    pub fn widen(&mut self, stream: StreamId, bytes: u32) {
        let Some(found) = self.streams.get_mut(stream) else {
            return;
        };
        found.grow_by(bytes);
        self.credit_stream(stream);
    }

    /// Nothing is lent to this stream for longer than it takes to return it.
    pub fn shrink(&mut self, stream: StreamId) {
        if let Some(found) = self.streams.get_mut(stream) {
            found.recv_shrinks = true;
        }
    }

    /// Bytes lent to streams, by which the connection's window exceeds `connection_window`.
    pub fn lent(&self) -> u32 {
        self.recv_lent
    }

    /// Announces the consumed bytes of a stream to the client, once they are half a window or enough for all that is to come.
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

    /// Adds the bytes lent to a removed stream to the connection's debt.
    pub(super) fn owe(&mut self, lent: u32) {
        self.recv_debt += lent;
    }

    /// Credits bytes to the connection (C2): they pay its debt first, and only the rest is announced to the client.
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
