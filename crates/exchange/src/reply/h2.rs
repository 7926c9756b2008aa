//! An answer on a stream of HTTP/2 (RFC 9113 §8.1).
//!
//! | | on the wire |
//! |---|---|
//! | head | HEADERS; with END_STREAM if no body follows |
//! | piece | DATA, in its turn and as the client's windows allow; a piece waits while the stream has much queued |
//! | end | END_STREAM, on the last DATA or on the trailers |
//! | broken off | RST_STREAM(INTERNAL_ERROR); an incomplete body never ends with END_STREAM |
//!
//! Queued bytes count as sent: the connection writes them, or reports that the client has gone. The connection also detects a client
//! that takes nothing (`timeouts.client-write`).

use std::{rc::Rc, sync::Arc, time::Duration};

use bytes::{Buf, Bytes};
use fields::Fields;
use http2::ErrorCode;

use crate::{
    h2::{block::write_head, head::Purpose, link::Stream, tunnel::StreamEnd},
    reply::{After, Gone, Length, ReplyHead, Sent},
};
use base::{clock::Instant, deadline::Watch};
use http1::head_lines;
use ledger::{Holder, Ledger};
use tls::seen::Seen;

/// Bytes of a fragment of a large object that are queued at a time, as a copy, so that the queue does not keep the whole fragment.
const COPIED_BYTES: usize = 16 << 10;

/// An answer to one request.
pub struct H2 {
    stream: Stream,
    watch: Watch,
    tls: Option<Rc<Seen>>,
    purpose: Purpose,
    is_head: bool,
    /// The head, until it is sent.
    head: Option<ReplyHead>,
    has_body: bool,
    /// Bytes of the announced body still to come; `None`: no length was announced.
    left: Option<u64>,
    /// Bytes that go out before the next piece.
    lead: Vec<u8>,
    is_over: bool,
    sent: Sent,
}

impl H2 {
    /// An answer on this stream.
    pub fn new(
        stream: Stream,
        watch: Watch,
        tls: Option<Rc<Seen>>,
        is_head: bool,
        purpose: Purpose,
    ) -> H2 {
        H2 {
            stream,
            watch,
            tls,
            purpose,
            is_head,
            head: None,
            has_body: false,
            left: None,
            lead: Vec::new(),
            is_over: false,
            sent: Sent {
                status: 0,
                bytes: 0,
                is_gone: false,
                began: None,
                taken: None,
            },
        }
    }

    pub(super) fn starts(&mut self, at: Instant) {
        self.sent.began.get_or_insert(at);
    }

    pub(super) async fn interim(&mut self, head: &ReplyHead) -> Result<(), Gone> {
        self.check()?;
        self.stream.interim(&block_of(head.status, &head.lines));
        Ok(())
    }

    pub(super) fn begin(&mut self, mut head: ReplyHead, length: Length) {
        if matches!(self.purpose, Purpose::WebSocket(_)) && (200..300).contains(&head.status) {
            //= rfc8441 §5   a 2xx would say that the tunnel stands
            head.status = 502;
        }
        self.has_body = !self.is_head && length != Length::None;
        self.left = match length {
            Length::Told(bytes) => Some(bytes),
            Length::Known(bytes) => {
                head.add_number(b"Content-Length", bytes);
                Some(bytes)
            }
            Length::None | Length::Unknown => None,
        };
        self.sent.status = head.status;
        self.lead.clear();
        self.head = Some(head);
    }

    pub(super) fn lead(&mut self, bytes: &[u8]) {
        if self.has_body {
            self.lead.extend_from_slice(bytes);
        }
    }

    pub(super) async fn piece(&mut self, piece: Bytes) -> Result<(), Gone> {
        if piece.is_empty() || !self.has_body {
            return Ok(());
        }
        self.send_lead().await?;
        self.queue(piece).await
    }

    pub(super) async fn flush_head(&mut self) -> Result<(), Gone> {
        self.check()?;
        self.send_head(false);
        Ok(())
    }

    pub(super) fn may_take_back(&self) -> bool {
        true
    }

    pub(super) fn has_queued(&self) -> bool {
        self.stream.has_queued()
    }

    pub(super) async fn some_of(
        &mut self,
        piece: &mut Bytes,
        at_most: Duration,
    ) -> Result<bool, Gone> {
        if !self.has_body {
            piece.clear();
            return Ok(true);
        }
        self.send_lead().await?;
        self.send_head(false);
        let has_room = {
            let room = std::pin::pin!(self.stream.has_room());
            self.watch.limit(at_most, room).await
        };
        match has_room {
            Err(_) => return Ok(false),
            Ok(false) => return Err(self.gone()),
            Ok(true) => {}
        }
        let bytes = piece.len().min(COPIED_BYTES).min(self.stream.room());
        let part = Bytes::copy_from_slice(&piece[..bytes]);
        let part = match self.stream.known_holder() {
            Some(holder) => holder.count(part),
            None => part,
        };
        piece.advance(bytes);
        self.count(part)?;
        Ok(true)
    }

    pub(super) async fn end(&mut self, trailers: Option<&Fields>) -> Result<(), Gone> {
        self.send_lead().await?;
        self.check()?;
        if self.has_body && self.left.is_some_and(|left| left > 0) {
            // The body is shorter than announced.
            self.abort();
            return Ok(());
        }
        let trailers = trailers.filter(|fields| self.has_body && fields.iter().next().is_some());
        self.is_over = true;
        if let Some(fields) = trailers {
            self.send_head(false);
            let mut block = Vec::with_capacity(128);
            for (name, value) in fields.iter() {
                http2::write_field(name, value, &mut block);
            }
            self.stream.end(Some(block));
        } else if self.head.is_some() {
            self.send_head(true);
        } else {
            self.stream.end(None);
        }
        Ok(())
    }

    pub(super) async fn break_off(&mut self) {
        let is_gone = self.sent.is_gone;
        if self.check().is_ok() {
            self.send_head(false);
            self.abort();
        }
        self.sent.is_gone = is_gone;
    }

    pub(super) fn is_head_only(&self) -> bool {
        self.is_head
    }

    /// Does nothing: the fate of one stream does not affect the others.
    pub(super) fn keep_open_if(&mut self, _: bool) {}

    pub(super) fn leave(&mut self) {
        self.gone();
        self.stream.reset(ErrorCode::CANCEL);
    }

    pub(super) fn encryption(&self) -> Option<&Seen> {
        self.tls.as_deref()
    }

    pub(super) fn switch(&mut self, head: &ReplyHead) -> Result<StreamEnd, Gone> {
        self.check()?;
        let mut status = head.status;
        let mut block = Vec::with_capacity(128);
        let mut fields = head_lines::fields_of_head(&head.lines);
        if let Purpose::WebSocket(key) = &self.purpose {
            if !key.is_accepted_by(&fields) {
                tracing::debug!("an origin's Sec-WebSocket-Accept answers another key");
                self.stream.reset(ErrorCode::INTERNAL_ERROR);
                return Err(self.gone());
            }
            //= rfc8441 §5   200 stands for the 101, and there is no accept
            fields.remove(b"sec-websocket-accept");
            status = 200;
        }
        http2::write_status(status, &mut block);
        for (name, value) in fields.iter() {
            http2::write_field(name, value, &mut block);
        }
        self.stream.begin(&block, false);
        (self.sent.status, self.is_over) = (status, true);
        Ok(StreamEnd(self.stream.clone()))
    }

    pub(super) async fn client_leaves(&mut self) {
        self.stream.left().await;
    }

    pub(super) fn is_gone(&self) -> bool {
        self.stream.is_gone()
    }

    pub(super) fn holder(&self, ledger: &Ledger) -> Arc<Holder> {
        self.stream.holder(ledger)
    }

    pub(super) fn sent(&self) -> Sent {
        self.sent
    }

    pub(super) fn after(&self) -> After {
        After::KeepOpen
    }

    pub(super) fn reset(&mut self, code: ErrorCode) {
        self.is_over = true;
        self.stream.reset(code);
    }

    fn gone(&mut self) -> Gone {
        self.sent.is_gone = true;
        self.is_over = true;
        Gone
    }

    fn check(&mut self) -> Result<(), Gone> {
        match self.stream.is_gone() {
            true => Err(self.gone()),
            false => Ok(()),
        }
    }

    /// Resets the stream, so that the client sees that the answer is incomplete.
    fn abort(&mut self) {
        self.is_over = true;
        self.stream.reset(ErrorCode::INTERNAL_ERROR);
    }

    /// Sends the head, if it has not been sent.
    fn send_head(&mut self, ends: bool) {
        if let Some(head) = self.head.take() {
            let block = block_of(head.status, &head.lines);
            self.stream.begin(&block, ends);
            self.took(block.len());
        }
    }

    async fn send_lead(&mut self) -> Result<(), Gone> {
        if self.lead.is_empty() {
            return Ok(());
        }
        let lead = std::mem::take(&mut self.lead);
        self.queue(lead.into()).await
    }

    /// Queues a piece, and waits until the stream has room for the next one.
    async fn queue(&mut self, piece: Bytes) -> Result<(), Gone> {
        self.check()?;
        self.send_head(false);
        self.count(piece)?;
        match self.stream.has_room().await {
            true => Ok(()),
            false => Err(self.gone()),
        }
    }

    /// Queues bytes. Aborts if the body exceeds the announced length, since the answer would be malformed.
    fn count(&mut self, piece: Bytes) -> Result<(), Gone> {
        if let Some(left) = &mut self.left {
            let Some(less) = left.checked_sub(piece.len() as u64) else {
                self.abort();
                return Err(Gone);
            };
            *left = less;
        }
        self.took(piece.len());
        self.stream.piece(piece);
        Ok(())
    }

    fn took(&mut self, bytes: usize) {
        let now = Instant::now();
        self.sent.began.get_or_insert(now);
        let first = self.sent.taken.map_or(now, |(first, _)| first);
        self.sent.taken = Some((first, now));
        self.sent.bytes += bytes as u64;
    }
}

fn block_of(status: u16, lines: &[u8]) -> Vec<u8> {
    let mut block = Vec::with_capacity(lines.len());
    write_head(status, lines, &mut block);
    block
}
