//! Field blocks: HEADERS and CONTINUATION (RFC 9113 §6.2, §6.10), and the streams they open.
//!
//! Every block is decoded to its end, whatever happens to its stream, because all streams share one HPACK table.

use std::time::Duration;

use super::Connection;
use super::input::Happened;
use super::settings::WINDOW_DEFAULT;
use super::stage::{Drain, Incomplete, Role};
use crate::error::{ErrorCode, Fault};
use crate::frame::{self, Header, PAYLOAD_BYTES_MAX, flag, kind, word};
use crate::head::Part;
use crate::hpack::{write_field, write_status};
use crate::stream_id::StreamId;
use crate::streams::{Answer, Gone};

/// The most CONTINUATION frames of a block, or twice as many as the longest head needs if that is more.
//= CVE-2024-27316   a block must end
const CONTINUATIONS_MAX: usize = 8;

/// By how much a block may exceed `head_bytes_max`: to answer 431, the block must be decoded, or the HPACK table would be out of step.
const BLOCK_BYTES_MORE: usize = 64 * 1024;

/// How many times longer than the longest block the decoded names and values may be: a block can refer to long entries of the table.
//= CVE-2016-6581   two bytes name an entry of 4,000
const BLOCK_GROWS_MAX: usize = 8;

/// A discarded block costs as much as one reset for each this many bytes.
const REFUSED_BYTES_FREE: usize = 4096;

/// What a block is for.
enum For {
    /// A new stream.
    Request,
    /// The head of the answer to a request of ours.
    Response(StreamId),
    /// No stream: the block is refused (with this fault) or came late. It is decoded all the same.
    Nobody(Option<Fault>),
    /// Trailers, which end a message.
    Trailers(StreamId),
    /// A stream that the peer has already ended.
    Ended(StreamId),
}

impl Connection {
    pub(super) fn headers(
        &mut self,
        header: Header,
        payload: &[u8],
        now: Duration,
    ) -> Result<Option<Happened>, Fault> {
        //= rfc9113 §5.1.1   streams of a client are odd
        if header.stream.is_multiple_of(2) {
            return Err(Fault::FrameOnWrongStream);
        }
        let mut fragment = payload;
        let mut padding = 0;
        if header.has(flag::PADDED) {
            let (&first, rest) = fragment.split_first().ok_or(Fault::FrameLength)?;
            (padding, fragment) = (usize::from(first), rest);
        }
        let mut depends_on_itself = false;
        if header.has(flag::PRIORITY) {
            let (dependency, rest) = fragment.split_at_checked(5).ok_or(Fault::FrameLength)?;
            let parent = word(dependency).unwrap_or_default() & frame::STREAM_MASK;
            depends_on_itself = parent == header.stream;
            fragment = rest;
        }
        let len = fragment.len().checked_sub(padding).ok_or(Fault::Padding)?;
        let incomplete = Incomplete {
            stream: header.stream,
            ends: header.has(flag::END_STREAM),
            depends_on_itself,
            continuations: 0,
            bytes: 0,
            began_at: now,
        };
        let fragment = &fragment[..len];
        if header.has(flag::END_HEADERS) {
            return self.complete(incomplete, fragment, now);
        }
        if fragment.is_empty() {
            self.charge_useless(now)?;
        }
        self.block.clear();
        self.block_of = Some(incomplete);
        self.collect(fragment)?;
        Ok(None)
    }

    pub(super) fn continuation(
        &mut self,
        header: Header,
        payload: &[u8],
        now: Duration,
    ) -> Result<Option<Happened>, Fault> {
        let Some(incomplete) = &mut self.block_of else {
            return Err(Fault::ContinuationUnexpected);
        };
        if incomplete.stream != header.stream {
            return Err(Fault::ContinuationExpected);
        }
        incomplete.continuations += 1;
        let most = CONTINUATIONS_MAX.max(2 * self.limits.head_bytes_max / PAYLOAD_BYTES_MAX);
        let is_last = header.has(flag::END_HEADERS);
        if incomplete.continuations > most || (payload.is_empty() && !is_last) {
            return Err(Fault::ContinuationFlood);
        }
        let incomplete = *incomplete;
        self.collect(payload)?;
        if !is_last {
            return Ok(None);
        }
        self.block_of = None;
        let block = std::mem::take(&mut self.block);
        let happened = self.complete(incomplete, &block, now);
        self.block = block;
        happened
    }

    fn collect(&mut self, fragment: &[u8]) -> Result<(), Fault> {
        if self.block.len() + fragment.len() > self.block_bytes_max() {
            return Err(Fault::BlockTooLarge);
        }
        self.block.extend_from_slice(fragment);
        Ok(())
    }

    fn block_bytes_max(&self) -> usize {
        self.limits.head_bytes_max + BLOCK_BYTES_MORE
    }

    /// Decodes a complete block and acts on it.
    fn complete(
        &mut self,
        mut of: Incomplete,
        block: &[u8],
        now: Duration,
    ) -> Result<Option<Happened>, Fault> {
        of.bytes = block.len();
        let purpose = self.purpose(of.stream)?;
        let part = match purpose {
            For::Trailers(_) => Part::Trailers,
            _ if self.role == Role::Client => Part::Response,
            _ => Part::Request,
        };
        let read_bytes_max = BLOCK_GROWS_MAX * self.block_bytes_max();
        let (head, limits) = (&mut self.head, &self.limits);
        head.begin();
        let read = self.decoder.decode_while(block, |field| {
            head.add(field, part, limits);
            head.read_bytes() <= read_bytes_max
        });
        if !read.map_err(|_| Fault::Compression)? {
            return Err(Fault::BlockTooLarge);
        }
        match purpose {
            For::Nobody(None) => {
                self.charge_useless(now)?;
                self.charge_in_vain(of, now).map(|()| None)
            }
            For::Nobody(Some(fault)) => self.refuse(of, fault, now),
            For::Ended(stream) => self.reset_in_vain(stream, of, Fault::HeadersAfterEnd, now),
            For::Trailers(stream) => self.take_trailers(stream, of, now),
            For::Request => self.take_request(of, now),
            For::Response(stream) => self.take_response(stream, of, now),
        }
    }

    /// Charges a discarded block by its length, because it was decoded all the same.
    //= CVE-2016-6581   what is read in vain costs by its length
    fn charge_in_vain(&mut self, of: Incomplete, now: Duration) -> Result<(), Fault> {
        let cost = of.bytes / REFUSED_BYTES_FREE;
        match self.budget.reset(cost as u32, now) {
            true => Ok(()),
            false => Err(Fault::ResetFlood),
        }
    }

    /// Charges a block and resets its stream.
    pub(super) fn reset_in_vain(
        &mut self,
        stream: StreamId,
        of: Incomplete,
        fault: Fault,
        now: Duration,
    ) -> Result<Option<Happened>, Fault> {
        self.charge_in_vain(of, now)?;
        self.reset_for(stream, fault, now)
    }

    fn purpose(&mut self, id: u32) -> Result<For, Fault> {
        if id > self.streams.last_id() {
            //= rfc9113 §5.1   idle: a server that pushes nothing opens no stream
            if self.role == Role::Client {
                return Err(Fault::StreamIdle);
            }
            self.streams.note_id(id);
            //= rfc9113 §6.8   streams above the last one of a GOAWAY are ignored
            if self.drain == Drain::Final {
                let window = self.window_of_gone();
                self.streams.note_gone(id, Gone::ResetByUs { window });
                return Ok(For::Nobody(None));
            }
            let is_full = self.streams.len() >= self.limits.streams_max as usize;
            return Ok(match is_full {
                true => For::Nobody(Some(Fault::Refused)),
                false => For::Request,
            });
        }
        let Some(stream) = self.streams.find(id) else {
            return match self.streams.how_gone(id) {
                Some(Gone::ResetByUs { .. }) => Ok(For::Nobody(None)),
                //= rfc9113 §5.1   closed: HEADERS are an error of the connection
                Some(Gone::Closed) => Err(Fault::HeadersOnClosed),
                // The late answer to a request that we gave up long ago.
                None if self.role == Role::Client => Ok(For::Nobody(None)),
                None => Err(Fault::StreamIdReused),
            };
        };
        let found = self.streams.get(stream).expect("it was found");
        if found.is_reset_by_peer {
            return Err(Fault::HeadersOnClosed);
        }
        Ok(match found.recv_ended {
            _ if found.is_reset => For::Nobody(None),
            true => For::Ended(stream),
            false if self.role == Role::Client && found.answer != Answer::Begun => {
                For::Response(stream)
            }
            false => For::Trailers(stream),
        })
    }

    fn take_request(&mut self, of: Incomplete, now: Duration) -> Result<Option<Happened>, Fault> {
        self.budget.request();
        let mut checked = self.head.finish_request(of.ends);
        if of.depends_on_itself {
            checked = Err(Fault::SelfDependency);
        }
        if let Err(fault) = checked {
            return self.refuse(of, fault, now);
        }
        let mut priority = self.head.priority();
        if !self.early_priorities.is_empty() {
            //= rfc9218 §7.1   PRIORITY_UPDATE overrides the field
            let early = self
                .early_priorities
                .iter()
                .find(|(id, _)| *id == of.stream);
            priority = early.map_or(priority, |&(_, early)| early);
            self.early_priorities.retain(|&(id, _)| id > of.stream);
        }
        let is_tunnel = self.head.is_connect();
        let expected = self.head.content_length();
        let send_window = i64::from(self.settings.initial_window);
        let recv_window = self.window_of_new();
        let recv_window_max = self.limits.stream_window;
        let stream = self.streams.insert(of.stream);
        let found = self.streams.get_mut(stream).expect("it is new");
        found.began = now;
        found.priority = priority;
        found.is_tunnel = is_tunnel;
        found.recv_ended = of.ends;
        found.recv_expected = expected;
        found.recv_window = recv_window;
        found.recv_window_max = recv_window_max;
        found.send_window = send_window;
        Ok(Some(Happened::Request {
            stream,
            ends: of.ends,
        }))
    }

    /// How many bytes a peer may send on a new stream.
    pub(super) fn window_of_new(&self) -> i64 {
        let window = i64::from(self.limits.stream_window);
        match self.settings_acked {
            true => window,
            //= rfc9113 §6.9.2   until a peer has our SETTINGS, it may use the window that all begin with
            false => window.max(i64::from(WINDOW_DEFAULT)),
        }
    }

    /// How many bytes a peer may have in flight on a closed stream that is no longer remembered.
    pub(super) fn window_of_gone(&self) -> i64 {
        self.window_of_new()
            .max(i64::from(self.limits.stream_window_max))
    }

    fn take_trailers(
        &mut self,
        stream: StreamId,
        of: Incomplete,
        now: Duration,
    ) -> Result<Option<Happened>, Fault> {
        //= rfc9113 §8.1   trailers end the stream
        if !of.ends {
            return self.reset_in_vain(stream, of, Fault::TrailersNotLast, now);
        }
        if let Err(fault) = self.head.finish_trailers() {
            return self.reset_in_vain(stream, of, fault, now);
        }
        let found = self.streams.get_mut(stream).expect("it was found");
        if found.is_tunnel {
            return self.reset_in_vain(stream, of, Fault::Connect, now);
        }
        if found.recv_expected.is_some_and(|left| left > 0) {
            return self.reset_in_vain(stream, of, Fault::LengthDiffers, now);
        }
        found.recv_ended = true;
        if found.is_released {
            self.settle(stream);
            return Ok(None);
        }
        Ok(Some(Happened::Trailers(stream)))
    }

    /// Answers or resets a request for which the caller gets no stream.
    fn refuse(
        &mut self,
        of: Incomplete,
        fault: Fault,
        now: Duration,
    ) -> Result<Option<Happened>, Fault> {
        let (id, ends) = (of.stream, of.ends);
        self.counts.add(fault);
        self.charge_reset(now)?;
        self.charge_in_vain(of, now)?;
        let window = self.window_of_new();
        self.streams.note_gone(id, Gone::ResetByUs { window });
        if let Some(status) = fault.status() {
            self.write_refusal(id, status, fault.reason());
        }
        if fault.status().is_none() || !ends {
            let code = match fault.status() {
                Some(_) => ErrorCode::NO_ERROR,
                None => fault.code(),
            };
            frame::write_word(kind::RST_STREAM, id, code.0, &mut self.out);
        }
        Ok(Some(Happened::Refused(fault)))
    }

    /// Writes our own answer to a request that has no stream. Its body is a sentence, if the windows have room for it.
    fn write_refusal(&mut self, id: u32, status: u16, reason: &str) {
        let body = format!("{status} Request Header Fields Too Large\n{reason}\n");
        let window = self.send_window.min(self.settings.initial_window.into());
        let has_body = !self.head.is_head() && window >= body.len() as i64;
        let mut block = Vec::with_capacity(80);
        write_status(status, &mut block);
        if has_body {
            write_field(b"content-type", b"text/plain; charset=utf-8", &mut block);
            write_field(
                b"content-length",
                body.len().to_string().as_bytes(),
                &mut block,
            );
        }
        write_field(b"cache-control", b"no-store", &mut block);
        let update = self.settings.take_table_update();
        let frame_max = self.settings.frame_bytes_max();
        let parts = [update, &block[..], b""];
        frame::write_block(id, parts, !has_body, frame_max, &mut self.out);
        if has_body {
            self.send_window -= body.len() as i64;
            let header = Header {
                len: body.len(),
                kind: kind::DATA,
                flags: flag::END_STREAM,
                stream: id,
            };
            header.write(&mut self.out);
            self.out.extend_from_slice(body.as_bytes());
        }
    }
}
