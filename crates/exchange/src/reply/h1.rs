//! An answer on an HTTP/1 connection (RFC 9112).
//!
//! The only place that decides how a body ends on the wire and whether the connection stays open, and writes the fields for that.
//!
//! | length | HTTP/1.1 | HTTP/1.0 | broken off |
//! |---|---|---|---|
//! | told or known | Content-Length | the same | the connection closes |
//! | unknown | chunked | the connection closes at the end | the connection closes; by a reset where a close would look like the end |
//!
//! The head and the end of a chunk wait in `pending` and go out with the next bytes, in one write.
//! A client may be slow, but not too slow: `conn::pace` decides that.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use bytes::{Buf, Bytes};
use fields::Fields;
use message::Version;
use tokio::io::AsyncReadExt;

use crate::{
    conn::{pace::Wrote, socket::Conn},
    reply::{After, Gone, Length, ReplyHead, Sent},
};
use base::clock::Instant;
use http1::head_lines;
use ledger::{Holder, Ledger};
use tls::seen::Seen;

/// Size of the read that detects whether a waiting client is still there.
const LEAVING_BYTES: usize = 1 << 10;

/// How a body ends on the wire.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ending {
    /// There is no body.
    NoBody,
    /// After this many more bytes.
    Length(u64),
    /// With a last chunk.
    Chunked,
    /// With the end of the connection.
    Close,
}

/// An answer to one request of an HTTP/1 connection.
pub struct H1<'c> {
    conn: &'c mut Conn,
    is_http11: bool,
    is_head: bool,
    /// Will the connection stay open?
    is_kept: bool,
    /// Must the head say that the connection stays open (HTTP/1.0)?
    says_keep_alive: bool,
    /// The body was broken off where only the end of the connection marks its end.
    is_aborted: bool,
    ending: Ending,
    /// Bytes that go out before the next piece.
    pending: Vec<u8>,
    sent: Sent,
}

impl<'c> H1<'c> {
    /// For a request in this version. `asks_to_stay`: the client wants the connection to stay open.
    pub fn new(conn: &'c mut Conn, version: Version, is_head: bool, asks_to_stay: bool) -> H1<'c> {
        let is_http11 = version == Version::Http11;
        // After a hand-over, another process serves the client's next request.
        let stays = asks_to_stay && !conn.worker.shared.is_handed_over.load(Ordering::Relaxed);
        H1 {
            conn,
            is_http11,
            is_head,
            is_kept: stays,
            says_keep_alive: !is_http11 && stays,
            is_aborted: false,
            ending: Ending::NoBody,
            pending: Vec::new(),
            sent: Sent {
                status: 0,
                bytes: 0,
                is_gone: false,
                began: None,
                taken: None,
            },
        }
    }

    /// Continues an answer begun at `began`, of which `bytes` were sent. `rest` is the unsent part of its head, `left` the unsent bytes of
    /// its body.
    pub fn resume(
        mut self,
        (status, bytes, began): (u16, u64, Instant),
        rest: Vec<u8>,
        left: usize,
    ) -> H1<'c> {
        self.pending = rest;
        self.ending = Ending::Length(left as u64);
        (self.sent.status, self.sent.bytes) = (status, bytes);
        self.sent.began = Some(began);
        self.sent.taken = (bytes > 0).then_some((began, began));
        self
    }

    pub(super) fn starts(&mut self, at: Instant) {
        self.sent.began.get_or_insert(at);
    }

    pub(super) async fn interim(&mut self, head: &ReplyHead) -> Result<(), Gone> {
        //= rfc9110 §15.2   a server MUST NOT send a 1xx response to an HTTP/1.0 client
        match self.is_http11 {
            true => self.bare(head).await,
            false => Ok(()),
        }
    }

    /// Sends a head without a body and without fields about the connection. Not counted in `sent`.
    async fn bare(&mut self, head: &ReplyHead) -> Result<(), Gone> {
        let before = self.sent;
        self.pending.clear();
        self.pending.extend_from_slice(&head.lines);
        self.pending.extend_from_slice(b"\r\n");
        let written = self.write(Bytes::new()).await;
        self.sent = Sent {
            is_gone: self.sent.is_gone,
            ..before
        };
        written
    }

    pub(super) fn begin(&mut self, head: ReplyHead, length: Length) {
        let mut out = head.lines;
        self.ending = match length {
            Length::None => Ending::NoBody,
            Length::Told(bytes) => Ending::Length(bytes),
            Length::Known(bytes) => {
                head_lines::write_number_field(b"Content-Length", bytes, &mut out);
                Ending::Length(bytes)
            }
            Length::Unknown if self.is_head => Ending::NoBody,
            Length::Unknown if self.is_http11 => {
                head_lines::write_field(b"Transfer-Encoding", b"chunked", &mut out);
                Ending::Chunked
            }
            Length::Unknown => {
                self.is_kept = false;
                Ending::Close
            }
        };
        if self.is_head {
            self.ending = Ending::NoBody;
        }
        if !self.is_kept {
            head_lines::write_field(b"Connection", b"close", &mut out);
        } else if self.says_keep_alive {
            head_lines::write_field(b"Connection", b"keep-alive", &mut out);
        }
        out.extend_from_slice(b"\r\n");
        self.pending = out;
        self.sent.status = head.status;
    }

    pub(super) fn lead(&mut self, bytes: &[u8]) {
        debug_assert!(
            bytes.is_empty() || self.ending != Ending::Chunked,
            "these bytes would lie outside of any chunk"
        );
        if self.ending != Ending::NoBody {
            self.count_down(bytes.len());
            self.pending.extend_from_slice(bytes);
        }
    }

    pub(super) async fn piece(&mut self, piece: Bytes) -> Result<(), Gone> {
        if piece.is_empty() || self.ending == Ending::NoBody {
            return Ok(());
        }
        self.count_down(piece.len());
        let is_chunk = self.ending == Ending::Chunked;
        if is_chunk {
            http1::write_chunk_header(piece.len(), &mut self.pending);
        }
        self.write(piece).await?;
        if is_chunk {
            // The end of this chunk goes out with the next chunk's head, or with the last chunk.
            self.pending.extend_from_slice(b"\r\n");
        }
        Ok(())
    }

    pub(super) async fn flush_head(&mut self) -> Result<(), Gone> {
        match self.sent.bytes {
            0 => self.write(Bytes::new()).await,
            _ => Ok(()),
        }
    }

    pub(super) fn may_take_back(&self) -> bool {
        self.ending != Ending::Chunked
    }

    pub(super) async fn some_of(
        &mut self,
        piece: &mut Bytes,
        at_most: Duration,
    ) -> Result<bool, Gone> {
        assert!(
            self.may_take_back(),
            "the length of a chunk was announced, so none of it can be taken back"
        );
        let before = piece.len();
        self.writes();
        let wrote = (self.conn.write_once(&self.pending, piece, Some(at_most))).await;
        match wrote {
            Wrote::Some(n) => {
                let of_pending = n.min(self.pending.len());
                self.pending.drain(..of_pending);
                piece.advance(n - of_pending);
                self.count_down(before - piece.len());
                self.took(n);
                Ok(true)
            }
            Wrote::Nothing => Ok(false),
            Wrote::Gone => Err(self.gone()),
        }
    }

    pub(super) async fn end(&mut self, trailers: Option<&Fields>) -> Result<(), Gone> {
        match self.ending {
            Ending::Chunked => match trailers {
                Some(trailers) => http1::write_trailers(trailers, &mut self.pending),
                None => self.pending.extend_from_slice(http1::LAST_CHUNK),
            },
            // The body is shorter than announced.
            Ending::Length(left) if left > 0 => self.is_kept = false,
            _ => {}
        }
        self.write(Bytes::new()).await
    }

    pub(super) async fn break_off(&mut self) {
        self.is_kept = false;
        self.is_aborted |= matches!(self.ending, Ending::Close | Ending::NoBody);
        // Send the pending bytes. If that fails, the client has gone, which does not count as its abort here.
        let is_gone = self.sent.is_gone;
        let _ = self.write(Bytes::new()).await;
        self.sent.is_gone = is_gone;
    }

    pub(super) fn is_head_only(&self) -> bool {
        self.is_head
    }

    pub(super) fn keep_open_if(&mut self, is_sound: bool) {
        self.is_kept &= is_sound;
    }

    pub(super) fn leave(&mut self) {
        self.gone();
    }

    pub(super) fn encryption(&self) -> Option<&Seen> {
        self.conn.tls.as_deref()
    }

    pub(super) async fn switch(&mut self, head: &ReplyHead) -> Result<&mut Conn, Gone> {
        self.is_kept = false;
        self.bare(head).await?;
        self.sent.status = head.status;
        Ok(self.conn)
    }

    /// A client may close its sending side and wait for its answer if it has no further request. That does not count as leaving.
    pub(super) async fn client_leaves(&mut self) {
        if !self.is_kept {
            return std::future::pending().await;
        }
        let conn = &mut self.conn;
        if conn.input.is_empty() {
            conn.input.reserve(LEAVING_BYTES);
            if let Ok(0) | Err(_) = conn.stream.read_buf(&mut conn.input).await {
                return;
            }
        }
        std::future::pending().await
    }

    pub(super) fn source(&mut self) -> &mut Conn {
        self.conn
    }

    pub(super) fn holder(&self, ledger: &Ledger) -> Arc<Holder> {
        self.conn.holder(ledger)
    }

    pub(super) fn sent(&self) -> Sent {
        self.sent
    }

    pub(super) fn after(&self) -> After {
        match (self.is_aborted, self.is_kept) {
            (true, _) => After::Abort,
            (false, true) => After::KeepOpen,
            (false, false) => After::Close,
        }
    }

    /// Notes the time of the first write.
    fn writes(&mut self) {
        if self.sent.began.is_none() {
            self.sent.began = Some(Instant::now());
        }
    }

    /// Notes that the socket took `bytes`.
    fn took(&mut self, bytes: usize) {
        let now = Instant::now();
        let first = self.sent.taken.map_or(now, |(first, _)| first);
        self.sent.taken = Some((first, now));
        self.sent.bytes += bytes as u64;
    }

    fn gone(&mut self) -> Gone {
        self.is_kept = false;
        self.sent.is_gone = true;
        Gone
    }

    /// Counts bytes of the body. The connection must close after too many: the client would take them for the next answer.
    fn count_down(&mut self, bytes: usize) {
        if let Ending::Length(left) = &mut self.ending {
            self.is_kept &= *left >= bytes as u64;
            *left = left.saturating_sub(bytes as u64);
        }
    }

    /// Writes the pending bytes and a piece.
    async fn write(&mut self, mut piece: Bytes) -> Result<(), Gone> {
        let mut at = 0;
        while at < self.pending.len() || !piece.is_empty() {
            self.writes();
            let lead = &self.pending[at..];
            match self.conn.write_once(lead, &piece, None).await {
                Wrote::Some(n) => {
                    let of_lead = n.min(lead.len());
                    at += of_lead;
                    piece.advance(n - of_lead);
                    self.took(n);
                }
                Wrote::Nothing | Wrote::Gone => return Err(self.gone()),
            }
        }
        self.pending.clear();
        Ok(())
    }
}
