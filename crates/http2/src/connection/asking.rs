//! The client's side: requests go out, answers come in (RFC 9113 §8.1).
//!
//! Life of a stream. [`Connection::request`] opens it if [`Connection::may_ask`] allows; `piece`, `end` and `trailers` send the rest.
//! The answer is any number of interim heads, the final head ([`Event::Response`](super::Event)), DATA, trailers. The caller always ends with
//! `release`, which resets the stream (CANCEL) if it has not ended on both sides.
//!
//! After GOAWAY, the server has not processed the requests of [`Connection::unprocessed`]; nor has it processed a request that it reset with
//! REFUSED_STREAM. Such requests may be sent again elsewhere, whatever their method (RFC 9113 §8.7).
//!
//! Not known here: how often, and to which server, a request is repeated.

use std::time::Duration;

use super::input::Happened;
use super::stage::{Incomplete, Role, Stage};
use super::{Asked, Connection, Drain};
use crate::error::Fault;
use crate::frame::{self, kind};
use crate::limits::Limits;
use crate::stream_id::StreamId;
use crate::streams::Answer;

/// The payload of the PING that checks whether the server is alive.
pub(super) const ALIVE_PING: &[u8; 8] = b"alive? !";

impl Connection {
    /// The client side of a new connection; its first output is the preface with our SETTINGS. `now` is as for [`Connection::new`]. Bounds on
    /// the client in [`Limits`] apply to the server here; `streams_max` bounds our own requests, in addition to the server's limit.
    pub fn client(limits: Limits, now: Duration) -> Connection {
        Self::begins(Role::Client, limits, now)
    }

    /// May another request be sent now? Before the server's SETTINGS only one may, because the server's limit is not known.
    //= rfc9113 §5.1.2   endpoints MUST NOT exceed the limit set by their peer
    pub fn may_ask(&self) -> bool {
        self.may_ask_beside(0)
    }

    /// Like [`Connection::may_ask`], if so many other requests are sent first.
    pub fn may_ask_beside(&self, others: usize) -> bool {
        let most = match self.stage {
            Stage::Frames => self.settings.streams_max.min(self.limits.streams_max),
            Stage::Preface | Stage::FirstSettings => 1,
        };
        self.takes_requests() && self.streams.len() + others < most as usize
    }

    /// May requests be sent on this connection, now or when others have ended? Not once a side is leaving, or the identifiers are used up.
    pub fn takes_requests(&self) -> bool {
        self.fatal.is_none()
            && !self.peer_is_leaving
            && self.drain == Drain::No
            //= rfc9113 §5.1.1   a client that has no identifiers left makes a new connection
            && self.next_id() <= frame::STREAM_MASK
    }

    /// Has the server sent its SETTINGS?
    pub fn has_settings(&self) -> bool {
        self.stage == Stage::Frames
    }

    /// Sends the head of a request. `parts` together are a field block, which [`crate::write_request`] begins. Returns `None` if no request may
    /// be sent now ([`Connection::may_ask`]).
    pub fn request(&mut self, parts: [&[u8]; 2], asked: Asked, now: Duration) -> Option<StreamId> {
        assert_eq!(self.role, Role::Client, "servers send no requests");
        if !self.may_ask() {
            return None;
        }
        let id = self.next_id();
        self.streams.note_id(id);
        let (send_window, recv_window) = (self.settings.initial_window, self.window_of_new());
        let stream = self.streams.insert(id);
        let found = self.streams.get_mut(stream).expect("it is new");
        found.began = now;
        found.has_begun = true;
        found.send_window = i64::from(send_window);
        found.recv_window = recv_window;
        found.recv_window_max = self.limits.stream_window;
        if asked.is_head {
            found.answer = Answer::AwaitedAlone;
        }
        self.budget.request();
        self.write_block(stream, parts, asked.ends);
        if asked.ends {
            let found = self.streams.get_mut(stream).expect("it is new");
            found.ends = true;
            self.note_send_ended(stream);
        }
        Some(stream)
    }

    /// Requests of ours that the server did not process, according to its GOAWAY.
    //= rfc9113 §6.8   streams above the last one were not processed
    pub fn unprocessed(&self) -> impl Iterator<Item = StreamId> + '_ {
        let all = self.streams.iter().map(|(stream, _)| stream);
        all.filter(|stream| stream.id > self.peer_last)
    }

    /// Sends a PING to check that the server is alive; [`Connection::is_ping_out`] is true until it answers.
    pub fn send_ping(&mut self) {
        if self.is_ping_out || self.fatal.is_some() {
            return;
        }
        self.is_ping_out = true;
        let header = frame::Header {
            len: ALIVE_PING.len(),
            kind: kind::PING,
            flags: 0,
            stream: 0,
        };
        header.write(&mut self.out);
        self.out.extend_from_slice(ALIVE_PING);
    }

    /// Is the PING of [`Connection::send_ping`] unanswered?
    pub fn is_ping_out(&self) -> bool {
        self.is_ping_out
    }

    /// The identifier of the next request.
    fn next_id(&self) -> u32 {
        match self.streams.last_id() {
            0 => 1,
            last => last + 2,
        }
    }

    pub(super) fn take_response(
        &mut self,
        stream: StreamId,
        of: Incomplete,
        now: Duration,
    ) -> Result<Option<Happened>, Fault> {
        let found = self.streams.get(stream).expect("it was found");
        let is_alone = found.answer == Answer::AwaitedAlone;
        let checked = match of.depends_on_itself {
            true => Err(Fault::SelfDependency),
            false => self.head.finish_response(of.ends, is_alone),
        };
        let status = match checked {
            Ok(status) => status,
            Err(fault) => return self.reset_in_vain(stream, of, fault, now),
        };
        if status >= 200 {
            let content_length = self.head.content_length();
            let found = self.streams.get_mut(stream).expect("it was found");
            found.answer = Answer::Begun;
            found.recv_ended = of.ends;
            //= rfc9110 §6.4.1   no content in answers to HEAD, in 204 and 304, whatever their Content-Length
            found.recv_expected = match is_alone || matches!(status, 204 | 304) {
                true => Some(0),
                false => content_length,
            };
        } else {
            self.charge_useless(now)?;
        }
        Ok(Some(Happened::Response {
            stream,
            ends: of.ends,
        }))
    }
}
