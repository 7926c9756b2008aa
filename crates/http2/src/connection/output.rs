//! Output: waiting frames other than DATA first, then DATA in the order of `ready` (RFC 9113 §6.9, RFC 9218).

use std::time::Duration;

use super::Connection;
use crate::budget::SMALL_BYTES;
use crate::error::Fault;
use crate::frame::{self, flag, kind};
use crate::mistakes::{Mistake, makes};
use crate::stream_id::StreamId;
use crate::turn::Turn;

impl Connection {
    /// Fills `turn`, which must be empty, with the next output: waiting frames other than DATA, and up to about `bytes_max` bytes of
    /// bodies. False: there is nothing to write.
    ///
    /// Write a turn completely before the next one is filled: the connection no longer has its bytes.
    pub fn poll_output(&mut self, turn: &mut Turn, bytes_max: usize, now: Duration) -> bool {
        turn.begin();
        std::mem::swap(&mut turn.own, &mut self.out);
        let mut left = bytes_max;
        while left > 0 && self.send_window > 0 && self.fatal.is_none() {
            let Some(stream) = self.ready.take() else {
                break;
            };
            let sent = self.send_data(stream, left, turn, now);
            left = left.saturating_sub(sent);
        }
        turn.finish();
        self.note_pace(now);
        !turn.is_empty()
    }

    /// Keeps the pace of the connection's window up to date.
    pub(super) fn note_pace(&mut self, now: Duration) {
        let is_closed = self.send_window <= 0 && !self.ready.is_empty();
        self.pace.note(is_closed, now);
    }

    /// Sends one frame of a stream that is ready, and puts it back if it still is.
    fn send_data(
        &mut self,
        stream: StreamId,
        left: usize,
        turn: &mut Turn,
        now: Duration,
    ) -> usize {
        let frame_max = self.settings.frame_bytes_max();
        let found = self
            .streams
            .get_mut(stream)
            .expect("a ready stream is open (C3)");
        let window = self.send_window.min(found.send_window);
        debug_assert!(
            window > 0 && found.queued > 0,
            "a ready stream can send (C3)"
        );
        let window = usize::try_from(window).unwrap_or(0);
        // `left` never cuts a frame below `SMALL_BYTES`.
        let len = found
            .queued
            .min(frame_max)
            .min(window)
            .min(left.max(SMALL_BYTES as usize));
        let is_last = len == found.queued && found.ends;
        let ends_here = is_last && found.trailers.is_none() && !makes(Mistake::LoseEnd);
        let header = frame::Header {
            len,
            kind: kind::DATA,
            flags: if ends_here { flag::END_STREAM } else { 0 },
            stream: stream.id,
        };
        header.write(&mut turn.own);
        let mut missing = len;
        while missing > 0 {
            let first = found
                .pieces
                .front_mut()
                .expect("pieces hold what is queued");
            if first.len() <= missing {
                missing -= first.len();
                let piece = found.pieces.pop_front().expect("it is the first");
                turn.push_body(piece);
            } else {
                turn.push_body(first.split_to(missing));
                missing = 0;
            }
        }
        found.queued -= len;
        found.send_window -= len as i64;
        found.pace.sent(len, &self.limits);
        found.note_pace(now);
        self.pace.sent(len, &self.limits);
        if !makes(Mistake::IgnoreConnectionWindow) {
            self.send_window -= len as i64;
        }
        self.budget.sent(len);
        let is_cut = len < SMALL_BYTES as usize && len == window && found.queued > 0;
        if found.queued > 0 && found.send_window > 0 {
            self.ready.insert(stream, found.priority);
        } else {
            found.is_ready = false;
        }
        if is_last {
            let trailers = found.trailers.take();
            if let Some(block) = trailers {
                let update = self.settings.take_table_update();
                frame::write_block(
                    stream.id,
                    [update, &block, b""],
                    true,
                    frame_max,
                    &mut turn.own,
                );
            }
            turn.ended.push(stream);
            self.note_send_ended(stream);
        }
        if is_cut && !self.budget.cut(len, now) {
            self.fail(Fault::TinyWindows);
        }
        len
    }
}
