//! What has arrived on a stream, and the tasks that wait for it.
//!
//! Not known here: frames, the connection.

use std::{
    collections::VecDeque,
    io,
    task::{Context, Waker},
};

use bytes::{Buf, Bytes, BytesMut};
use fields::Fields;
use http2::{ErrorCode, Fault, ResponseView};
use ledger::window::Window;
use message::ResponseHead;

use super::{STREAM_WINDOW, STREAM_WINDOW_MAX, head};
use crate::outcome::{INTERIM_MAX, UpstreamError};

/// Why nothing more comes on a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Gone {
    /// The server has not taken the request.
    Unprocessed,
    /// The server reset the stream.
    Reset(ErrorCode),
    /// We reset the stream, because of something that the server sent or did not accept.
    Fault(Fault),
    /// The connection has ended.
    Closed(io::ErrorKind),
}

impl Gone {
    /// The error for the request's sender.
    pub(crate) fn error(self) -> UpstreamError {
        match self {
            Gone::Unprocessed => UpstreamError::Unprocessed,
            Gone::Reset(code) => UpstreamError::Reset(code),
            Gone::Fault(fault) => UpstreamError::Http2(fault),
            Gone::Closed(kind) => UpstreamError::Closed(kind.into()),
        }
    }
}

/// What has arrived on a stream and was not taken yet.
pub(crate) struct Inward {
    is_head: bool,
    /// Interim heads and the final one.
    pub(crate) heads: VecDeque<ResponseHead>,
    /// Bytes of the body,
    held: BytesMut,
    /// and the memory that they take.
    held_memory: usize,
    /// Counts that memory in the ledger.
    window: Window,
    pub(crate) trailers: Option<Fields>,
    pub(crate) has_ended: bool,
    pub(crate) gone: Option<Gone>,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

impl Inward {
    /// Nothing has arrived yet. `is_head`: the request is HEAD.
    pub(crate) fn of(is_head: bool, window: Window) -> Inward {
        Inward {
            is_head,
            heads: VecDeque::new(),
            held: BytesMut::new(),
            held_memory: 0,
            window,
            trailers: None,
            has_ended: false,
            gone: None,
            reader: None,
            writer: None,
        }
    }

    /// How many more bytes the server may send, as far as the ledger lends memory for them now.
    pub(crate) fn lent(&mut self) -> u32 {
        let more = (self.window).lend(u64::from(STREAM_WINDOW_MAX - STREAM_WINDOW));
        u32::try_from(more).unwrap_or(0)
    }

    /// Counts a piece of the request's body.
    pub(crate) fn count(&self, piece: Bytes) -> Bytes {
        self.window.count(piece)
    }

    /// The bytes of the body that have arrived.
    pub(crate) fn held(&self) -> &[u8] {
        &self.held
    }

    /// The next piece of the body, at most `bytes_max`.
    pub(crate) fn take(&mut self, bytes_max: usize) -> Bytes {
        let bytes = self.held.len().min(bytes_max);
        let piece = match bytes == self.held.len() {
            true => {
                self.held_memory = 0;
                std::mem::take(&mut self.held).freeze()
            }
            // A copy, because a slice would keep the whole buffer in memory.
            false => {
                let piece = Bytes::copy_from_slice(&self.held[..bytes]);
                self.held.advance(bytes);
                if self.held.len() < self.held_memory / 2 {
                    self.held = BytesMut::from(&self.held[..]);
                    self.held_memory = self.held.capacity();
                }
                piece
            }
        };
        self.window.holds(self.held_memory as u64);
        piece
    }

    /// Stores a head. False: there are too many.
    pub(crate) fn head(&mut self, head: &ResponseView<'_>) -> bool {
        if self.heads.len() > INTERIM_MAX {
            return false;
        }
        self.heads.push_back(head::response(head, self.is_head));
        self.has_ended |= head.ends;
        self.wake_reader();
        true
    }

    /// Stores a part of the body.
    pub(crate) fn data(&mut self, bytes: &[u8], ends: bool) {
        self.held.extend_from_slice(bytes);
        self.held_memory = self.held_memory.max(self.held.capacity());
        self.window.holds(self.held_memory as u64);
        self.has_ended |= ends;
        self.wake_reader();
    }

    /// Ends the body with these trailers. Fields that are not allowed in trailers are dropped, as over HTTP/1.
    pub(crate) fn trailers(&mut self, fields: &Fields) {
        let mut trailers = fields.clone();
        trailers.retain(|name, _| !http1::is_forbidden_trailer(name));
        self.trailers = Some(trailers);
        self.has_ended = true;
        self.wake_reader();
    }

    /// The stream is over in both directions.
    pub(crate) fn leave(&mut self, gone: Gone) {
        self.gone.get_or_insert(gone);
        self.wake_reader();
        self.wake_writer();
    }

    /// Has anything arrived that was not taken yet?
    pub(crate) fn has_news(&self) -> bool {
        !self.heads.is_empty() || !self.held.is_empty() || self.has_ended || self.gone.is_some()
    }

    pub(crate) fn waits_to_read(&mut self, cx: &Context<'_>) {
        wait_in(&mut self.reader, cx);
    }

    pub(crate) fn waits_to_write(&mut self, cx: &Context<'_>) {
        wait_in(&mut self.writer, cx);
    }

    pub(crate) fn is_writer_waiting(&self) -> bool {
        self.writer.is_some()
    }

    pub(crate) fn wake_writer(&mut self) {
        self.writer.take().into_iter().for_each(Waker::wake);
    }

    fn wake_reader(&mut self) {
        self.reader.take().into_iter().for_each(Waker::wake);
    }
}

pub(crate) fn wait_in(place: &mut Option<Waker>, cx: &Context<'_>) {
    match place {
        Some(known) if known.will_wake(cx.waker()) => {}
        other => *other = Some(cx.waker().clone()),
    }
}
