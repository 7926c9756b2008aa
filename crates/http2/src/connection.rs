//! A connection as the caller sees it.
//!
//! | what | methods |
//! |---|---|
//! | bytes from the peer | [`Connection::handle_input`], an event at a time |
//! | time | [`Connection::handle_timeout`] at [`Connection::next_deadline`], or now and then |
//! | a client's requests | [`Connection::client`], `may_ask`, `request`; see `asking` |
//! | commands | `interim`, `begin`, `piece`, `end`, `trailers` for an answer; `consumed` for a body; `reset`, `release`; `drain`, `close` |
//! | bytes to the peer | [`Connection::poll_output`] into a [`Turn`] |
//!
//! Life of a stream. [`Event::Request`] opens it. The caller answers with any number of interim heads, then `begin`, pieces, and `end`
//! or `trailers`, which also releases the stream. If [`Event::Reset`] comes first, the caller stops its work and calls `release`;
//! until then the stream counts against [`Limits::streams_max`]. A caller that cannot go on calls `reset`. Commands
//! on a stream that is closed or reset do nothing, because a client's reset may cross an answer.
//!
//! Invariants:
//!   C1  the peer sends no more than the windows we announced: each DATA frame is charged in full, padding included
//!   C2  DATA that was given as an event is credited to the connection exactly once: when consumed, or when its stream is removed
//!   C3  a stream is in `ready` exactly if it is writable, has bytes queued and a window above 0
//!   C4  after a fatal fault nothing is read, and nothing but GOAWAY is sent
//!
//! Not known here: what a request means, where bytes come from and go to.
//!
//! Limits: [`Limits`]; waiting frames other than DATA stay below [`OUTPUT_WAITING_MAX`] plus what one block adds, since no input is
//! taken above it; the caller bounds the queued pieces, see [`Connection::queued`].

mod asking;
mod block;
mod control;
mod data;
mod input;
mod output;
mod settings;
mod stage;
mod time;
mod windows;

use std::time::Duration;

use bytes::Bytes;
use fields::Fields;

use crate::budget::Budget;
use crate::error::{Counts, ErrorCode, Fault};
use crate::frame::{self, flag, kind};
use crate::head::{HeadBuffer, RequestView, ResponseView};
use crate::hpack::Decoder;
use crate::limits::Limits;
use crate::mistakes::{Mistake, makes};
use crate::pace::Pace;
use crate::priority::Priority;
use crate::ready::Ready;
use crate::stream_id::StreamId;
use crate::streams::{Gone, Streams};
use crate::turn::Turn;

use settings::{PeerSettings, WINDOW_DEFAULT};
use stage::{DataFrame, Drain, Incomplete, Role, Stage};

/// While more output than this waits, besides DATA, no input is taken: a client that does not read cannot make us answer.
pub const OUTPUT_WAITING_MAX: usize = 32 * 1024;

/// The result of [`Connection::handle_input`].
#[derive(Debug)]
pub struct Taken<'a> {
    /// Bytes of the input that were taken.
    pub bytes: usize,
    /// `None`: more bytes are needed; or output must be written first, see [`Connection::must_write`].
    pub event: Option<Event<'a>>,
}

/// What the peer did.
#[derive(Debug)]
pub enum Event<'a> {
    /// A request, checked.
    Request {
        /// The new stream.
        stream: StreamId,
        /// The head.
        head: RequestView<'a>,
    },
    /// A response head, checked. After a status below 200 another head follows.
    Response {
        /// The stream of a request of ours that had no final response yet.
        stream: StreamId,
        /// The head.
        head: ResponseView<'a>,
    },
    /// A part of a body. Call [`Connection::consumed`] when there is room for more.
    Data {
        /// A stream whose body had not ended.
        stream: StreamId,
        /// May be empty if `ends`.
        bytes: &'a [u8],
        /// This is the last part, and the body is as long as Content-Length said.
        ends: bool,
    },
    /// The body ended, and these fields follow it.
    Trailers {
        /// A stream whose body had not ended.
        stream: StreamId,
        /// The fields, checked.
        fields: &'a Fields,
    },
    /// The stream ended early. The caller stops its work, then calls [`Connection::release`].
    Reset {
        /// The stream of an [`Event::Request`], or of a request of ours.
        stream: StreamId,
        /// The side that reset the stream, and why.
        by: ResetBy,
    },
    /// A request was answered or reset here; the caller gets no stream for it.
    Refused(Fault),
    /// GOAWAY: a client will send no more requests; a server takes no more, and has not processed those of [`Connection::unprocessed`].
    GoAway(ErrorCode),
}

/// Properties of a request of ours that are not read from its field block.
#[derive(Clone, Copy, Default, Debug)]
pub struct Asked {
    /// The method is HEAD: the answer has no body.
    pub is_head: bool,
    /// The request has no body.
    pub ends: bool,
}

/// The side that reset a stream, and why.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ResetBy {
    /// The peer, with this code.
    Peer(ErrorCode),
    /// This side, for a fault of the peer.
    Us(Fault),
}

/// One side of a connection.
pub struct Connection {
    role: Role,
    limits: Limits,
    budget: Budget,
    counts: Counts,
    fatal: Option<Fault>,

    // From the peer.
    stage: Stage,
    /// The DATA frame that is being received.
    data: Option<DataFrame>,
    /// The bytes of an incomplete field block, and the frame that began it (`None`: there is no such block).
    block: Vec<u8>,
    block_of: Option<Incomplete>,
    decoder: Decoder,
    head: HeadBuffer,
    recv_window: i64,
    recv_credit: u32,
    /// Bytes lent to streams, by which the connection's window exceeds `connection_window`; see `windows`.
    recv_lent: u32,
    /// The part of `recv_lent` that is paid back as bytes are consumed.
    recv_debt: u32,
    /// Priorities of requests that have not come. Together with the active streams there are at most `streams_max`.
    early_priorities: Vec<(u32, Priority)>,

    // Both ways.
    streams: Streams,
    settings: PeerSettings,
    drain: Drain,
    /// The last stream identifier of our last GOAWAY.
    go_away_last: u32,
    peer_is_leaving: bool,
    /// The lowest last stream identifier of the peer's GOAWAY frames.
    peer_last: u32,
    /// A PING of [`Connection::send_ping`] is not answered yet.
    is_ping_out: bool,
    started_at: Duration,
    settings_acked: bool,
    /// When the streams are next checked for stalls.
    stall_look_at: Duration,

    // To the peer.
    out: Vec<u8>,
    ready: Ready,
    send_window: i64,
    /// How fast `send_window` lets bytes through.
    pace: Pace,
}

impl Connection {
    /// The server side of a new connection; its first output is our SETTINGS. `now` counts from any moment, the same one in all calls.
    pub fn new(limits: Limits, now: Duration) -> Connection {
        Self::begins(Role::Server, limits, now)
    }

    fn begins(role: Role, limits: Limits, now: Duration) -> Connection {
        let mut connection = Connection {
            role,
            budget: Budget::new(),
            counts: Counts::new(),
            fatal: None,
            stage: match role {
                Role::Server => Stage::Preface,
                Role::Client => Stage::FirstSettings,
            },
            data: None,
            block: Vec::new(),
            block_of: None,
            decoder: Decoder::before_settings(limits.table_bytes_max),
            head: HeadBuffer::default(),
            recv_window: i64::from(limits.connection_window.max(WINDOW_DEFAULT)),
            recv_credit: 0,
            recv_lent: 0,
            recv_debt: 0,
            early_priorities: Vec::new(),
            streams: Streams::default(),
            settings: PeerSettings::default(),
            drain: Drain::No,
            go_away_last: frame::STREAM_MASK,
            peer_is_leaving: false,
            peer_last: frame::STREAM_MASK,
            is_ping_out: false,
            started_at: now,
            settings_acked: false,
            stall_look_at: now + limits.stall_time,
            out: Vec::new(),
            ready: Ready::default(),
            send_window: i64::from(WINDOW_DEFAULT),
            pace: Pace::default(),
            limits,
        };
        if role == Role::Client {
            connection.out.extend_from_slice(frame::PREFACE);
        }
        settings::write_ours(role, &limits, &mut connection.out);
        connection
    }

    // Getters.

    /// How often each fault occurred.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Returns the counts and resets them to zero.
    pub fn take_counts(&mut self) -> Counts {
        std::mem::replace(&mut self.counts, Counts::new())
    }

    /// The fault that ended the connection, if one did: write the waiting output, then close.
    pub fn fatal(&self) -> Option<Fault> {
        self.fatal
    }

    /// Streams that count against [`Limits::streams_max`]: open, or not yet released by the caller.
    pub fn open_streams(&self) -> usize {
        self.streams.len()
    }

    /// Is there something to write?
    pub fn has_output(&self) -> bool {
        let has_data = !self.ready.is_empty() && self.send_window > 0;
        // After a fatal fault no DATA is sent (C4).
        !self.out.is_empty() || (has_data && self.fatal.is_none())
    }

    /// Must output be written before more input is taken?
    pub fn must_write(&self) -> bool {
        self.out.len() > OUTPUT_WAITING_MAX
    }

    /// Has the connection ended, by a fault or because a side leaves and no stream is open? Then close it once all output is written.
    pub fn is_over(&self) -> bool {
        let is_leaving = self.drain == Drain::Final || self.peer_is_leaving;
        self.fatal.is_some() || (is_leaving && self.streams.len() == 0)
    }

    /// Bytes of queued pieces of this stream. A caller with a long body adds no more while this exceeds its own bound.
    pub fn queued(&self, stream: StreamId) -> usize {
        self.streams.get(stream).map_or(0, |found| found.queued)
    }

    /// Heap memory of the connection, without the bytes of queued pieces.
    pub fn memory_bytes(&self) -> usize {
        self.out.capacity()
            + self.block.capacity()
            + self.head.memory_bytes()
            + self.decoder.memory_bytes()
            + self.streams.memory_bytes()
            + self.ready.memory_bytes()
            + self.early_priorities.capacity() * size_of::<(u32, Priority)>()
    }

    /// Bytes of a field block that is not complete.
    pub fn block_bytes(&self) -> usize {
        self.block_of.map_or(0, |_| self.block.len())
    }

    /// Can something still be sent on this stream?
    pub fn is_writable(&self, stream: StreamId) -> bool {
        let found = self.streams.get(stream);
        found.is_some_and(|found| found.is_writable() && !found.ends)
    }

    // Commands.

    /// Sends an interim head (1xx). `parts` together are a field block, which [`crate::write_status`] begins.
    pub fn interim(&mut self, stream: StreamId, parts: [&[u8]; 2]) {
        if self.may_send(stream) {
            debug_assert!(
                self.streams
                    .get(stream)
                    .is_some_and(|found| !found.has_begun)
            );
            self.write_block(stream, parts, false);
        }
    }

    /// Sends the head of the answer. `parts` together are a field block; `ends`: there is no body, and the caller is done with the
    /// stream.
    pub fn begin(&mut self, stream: StreamId, parts: [&[u8]; 2], ends: bool) {
        if !self.may_send(stream) {
            return;
        }
        self.write_block(stream, parts, ends);
        let found = self.streams.get_mut(stream).expect("it may send");
        assert!(!found.has_begun, "a stream is answered once");
        found.has_begun = true;
        if ends {
            found.ends = true;
            found.is_released |= !found.is_tunnel;
            self.note_send_ended(stream);
        }
    }

    /// Queues a piece of the body without a copy. It is sent in the stream's turn, as windows allow.
    pub fn piece(&mut self, stream: StreamId, piece: Bytes, now: Duration) {
        if piece.is_empty() || !self.may_send(stream) {
            return;
        }
        let found = self.streams.get_mut(stream).expect("it may send");
        assert!(
            found.has_begun && !found.ends,
            "pieces lie between the head and the end"
        );
        found.queued += piece.len();
        found.pieces.push_back(piece);
        found.note_pace(now);
        if !found.is_ready && found.send_window > 0 {
            found.is_ready = true;
            self.ready.insert(stream, found.priority);
        }
    }

    /// Ends the body after all queued pieces. This releases a server's stream, except a tunnel, which needs [`Connection::release`].
    pub fn end(&mut self, stream: StreamId) {
        self.finish(stream, None);
    }

    /// Like [`Connection::end`], with trailers: a field block without status.
    pub fn trailers(&mut self, stream: StreamId, block: Vec<u8>) {
        self.finish(stream, Some(block));
    }

    fn finish(&mut self, stream: StreamId, trailers: Option<Vec<u8>>) {
        if !self.may_send(stream) {
            return;
        }
        let found = self.streams.get_mut(stream).expect("it may send");
        assert!(
            found.has_begun && !found.ends,
            "an answer ends once, behind its head"
        );
        found.ends = true;
        // A server is done with the stream; a client waits for the answer.
        found.is_released |= !found.is_tunnel && self.role == Role::Server;
        if found.queued > 0 {
            found.trailers = trailers;
            return;
        }
        //= rfc9113 §6.9.1   frames of length zero with END_STREAM may be sent without a window
        match trailers {
            Some(block) => self.write_block(stream, [&block, b""], true),
            None => {
                let header = frame::Header {
                    len: 0,
                    kind: kind::DATA,
                    flags: flag::END_STREAM,
                    stream: stream.id,
                };
                header.write(&mut self.out);
            }
        }
        self.note_send_ended(stream);
    }

    /// Resets a stream and releases it.
    pub fn reset(&mut self, stream: StreamId, code: ErrorCode) {
        if let Some(found) = self.streams.get_mut(stream) {
            found.is_released = true;
            self.write_reset(stream, code);
        }
    }

    /// Releases a stream that was reset, a tunnel, or a request of ours: the caller is done with it. A stream that has neither ended nor been
    /// reset is reset.
    pub fn release(&mut self, stream: StreamId) {
        let Some(found) = self.streams.get_mut(stream) else {
            return;
        };
        found.is_released = true;
        // A client's stream has ended once both the request and its answer have.
        let has_ended = found.ends && (self.role == Role::Server || found.recv_ended);
        if found.is_reset || has_ended {
            self.settle(stream);
        } else {
            //= rfc9113 §8.5   an error of the connection behind a tunnel is a stream error, CONNECT_ERROR
            let code = match found.is_tunnel {
                true => ErrorCode::CONNECT_ERROR,
                //= rfc9113 §8.7   a client that wants no more of an answer: CANCEL
                false if self.role == Role::Client => ErrorCode::CANCEL,
                false => ErrorCode::INTERNAL_ERROR,
            };
            self.write_reset(stream, code);
        }
    }

    /// Begins a graceful shutdown: the client is told to send no more requests, and those under way are finished.
    //= rfc9113 §6.8   first the highest identifier, and the real one after a round trip
    pub fn drain(&mut self, now: Duration) {
        if self.drain == Drain::No && self.fatal.is_none() {
            self.drain = Drain::Asked(now + self.limits.drain_time);
            self.write_go_away(frame::STREAM_MASK, ErrorCode::NO_ERROR);
            let header = frame::Header {
                len: DRAIN_PING.len(),
                kind: kind::PING,
                flags: 0,
                stream: 0,
            };
            header.write(&mut self.out);
            self.out.extend_from_slice(DRAIN_PING);
        }
    }

    /// Ends the connection at once, with this code: write the waiting output, then close.
    pub fn close(&mut self, code: ErrorCode) {
        if self.fatal.is_none() && self.drain != Drain::Final {
            self.write_go_away(self.last_taken(), code);
            self.drain = Drain::Final;
        }
    }

    /// Gives back memory that an idle connection does not need.
    pub fn release_buffers(&mut self, turn: &mut Turn) {
        turn.release_buffers();
        if self.out.is_empty() {
            self.out = Vec::new();
        }
        if self.block_of.is_none() {
            self.block = Vec::new();
        }
        self.head.release_buffers();
        self.decoder.release_buffers();
        self.streams.release_buffers();
        self.ready.release_buffers();
        self.early_priorities.shrink_to_fit();
    }

    // Helpers.

    fn may_send(&self, stream: StreamId) -> bool {
        let found = self.streams.get(stream);
        self.fatal.is_none() && found.is_some_and(|found| found.is_writable())
    }

    fn write_block(&mut self, stream: StreamId, parts: [&[u8]; 2], ends: bool) {
        let update = self.settings.take_table_update();
        let frame_max = self.settings.frame_bytes_max();
        frame::write_block(
            stream.id,
            [update, parts[0], parts[1]],
            ends,
            frame_max,
            &mut self.out,
        );
    }

    //= rfc9113 §6.8   the last stream identifier MUST NOT increase; requests behind a final GOAWAY have identifiers too
    fn write_go_away(&mut self, last: u32, code: ErrorCode) {
        let last = last.min(self.go_away_last);
        self.go_away_last = last;
        let header = frame::Header {
            len: 8,
            kind: kind::GOAWAY,
            flags: 0,
            stream: 0,
        };
        header.write(&mut self.out);
        self.out.extend_from_slice(&last.to_be_bytes());
        self.out.extend_from_slice(&code.0.to_be_bytes());
    }

    fn write_reset(&mut self, stream: StreamId, code: ErrorCode) {
        let Some(found) = self.streams.get_mut(stream) else {
            return;
        };
        // After a fatal fault only GOAWAY is sent: RST_STREAM would hide its code from the client (C4).
        if !found.is_reset && self.fatal.is_none() {
            frame::write_word(kind::RST_STREAM, stream.id, code.0, &mut self.out);
        }
        self.note_reset(stream);
        self.settle(stream);
    }

    /// Marks a stream as reset and drops its queue.
    fn note_reset(&mut self, stream: StreamId) {
        let Some(found) = self.streams.get_mut(stream) else {
            return;
        };
        found.is_reset = true;
        if makes(Mistake::SendBehindReset) {
            return;
        }
        found.drop_queue();
        if std::mem::take(&mut found.is_ready) {
            self.ready.remove(stream, found.priority);
        }
    }

    /// Records that END_STREAM is in the output.
    fn note_send_ended(&mut self, stream: StreamId) {
        let found = self.streams.get_mut(stream).expect("an open stream ends");
        found.send_ended = true;
        if !found.recv_ended && !found.is_tunnel && self.role == Role::Server {
            //= rfc9113 §8.1   a server that needs no more of the request resets it with NO_ERROR, behind the answer
            frame::write_word(
                kind::RST_STREAM,
                stream.id,
                ErrorCode::NO_ERROR.0,
                &mut self.out,
            );
            self.note_reset(stream);
        }
        self.settle(stream);
    }

    /// Removes the stream once it is closed and released.
    fn settle(&mut self, stream: StreamId) {
        let Some(found) = self.streams.get(stream) else {
            return;
        };
        let is_closed = found.is_reset || (found.send_ended && found.recv_ended);
        let is_done = found.is_released || found.is_reset_by_peer && makes(Mistake::FreeAtReset);
        if is_closed && is_done {
            let how = match found.recv_ended || found.is_reset_by_peer {
                true => Gone::Closed,
                false => Gone::ResetByUs {
                    window: found.recv_window.max(0),
                },
            };
            let (held, small, lent) = (found.recv_held, found.recv_small, found.recv_lent);
            self.streams.remove(stream, how);
            self.owe(lent);
            self.credit(held);
            if !self.budget.left_unread(small) {
                self.fail(Fault::SmallFrames);
            }
        }
    }

    /// The last stream of the peer that we accepted; 0 for a client, since servers open none.
    fn last_taken(&self) -> u32 {
        match self.role {
            Role::Server => self.streams.last_id(),
            Role::Client => 0,
        }
    }

    /// Ends the connection for a fault.
    #[cold]
    fn fail(&mut self, fault: Fault) -> Fault {
        if self.fatal.is_none() {
            self.counts.add(fault);
            self.fatal = Some(fault);
            self.write_go_away(self.last_taken(), fault.code());
        }
        fault
    }
}

/// The payload of the PING of a drain.
const DRAIN_PING: &[u8; 8] = b"draining";
