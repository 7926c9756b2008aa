//! The way back to the client: one interface for all protocols.
//!
//! A [`Reply`] takes a head, pieces of a body and the end. Only the reply knows how these look on the wire, whether the client can be
//! told where a body ends, how long the client may take, and what happens to the connection. The rest of the proxy decides the
//! contents of the answer.
//!
//! ```text
//! interim*  begin  piece*  end            a complete answer
//!           begin  piece*  break_off      an answer that cannot be completed; the client sees that it is incomplete
//! ```
//!
//! `begin` sends nothing: the head goes out with the first piece, so until then another answer may begin instead.
//! `Reply` is an enum rather than a trait: another protocol is another variant, and no future is boxed.
//!
//! Not known here: caching, origins, keys.

pub mod h1;
pub mod h2;

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use fields::Fields;
use message::Authority;

use crate::{conn::socket::Conn, h2::tunnel::StreamEnd};
use base::clock::Instant;
use h1::H1;
use h2::H2;
use http1::head_lines;
use http2::ErrorCode;
use ledger::{Holder, Ledger, pause::OWN_WAIT_MAX};
use tls::seen::Seen;

/// The connection's next step after a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum After {
    /// Read the next request.
    KeepOpen,
    /// Close.
    Close,
    /// Close with a reset: the answer is incomplete, and only a reset shows that.
    Abort,
}

/// The client has gone, or is too slow.
#[derive(Debug)]
pub struct Gone;

/// The length of an answer's body.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Length {
    /// There is no body, and no length is announced (204, 304).
    None,
    /// So many bytes; the head's lines have the Content-Length already.
    Told(u64),
    /// So many bytes; the reply adds Content-Length.
    Known(u64),
    /// Not known yet.
    Unknown,
}

/// The head of an answer.
pub struct ReplyHead {
    /// Status code.
    pub status: u16,
    /// Status line and field lines, as [`http1::head_lines`] writes them.
    lines: Vec<u8>,
}

/// How long a head waits for the first piece of its body, so that both go out in one write. Limited, because an origin may send the
/// head of an event stream and then nothing for hours.
pub const HEAD_WAIT: Duration = Duration::from_millis(100);

/// Room for the lines added to a stored head.
const OWN_LINES_BYTES: usize = 256;

impl ReplyHead {
    /// A head from stored lines.
    pub fn of_lines(status: u16, stored: &[u8]) -> ReplyHead {
        let mut lines = Vec::with_capacity(stored.len() + OWN_LINES_BYTES);
        lines.extend_from_slice(stored);
        ReplyHead { status, lines }
    }

    /// A head with these fields. If `reason` is empty, the status code's standard phrase is used.
    pub fn new(status: u16, reason: &str, fields: &Fields) -> ReplyHead {
        let reason = match reason {
            "" => message::reason_phrase(status),
            reason => reason,
        };
        let mut lines = Vec::with_capacity(2 * OWN_LINES_BYTES);
        head_lines::write_head(status, reason, fields, &mut lines);
        ReplyHead { status, lines }
    }

    /// Length of the lines so far, in bytes.
    pub fn bytes(&self) -> u64 {
        self.lines.len() as u64
    }

    /// Adds complete field lines.
    pub fn add_lines(&mut self, lines: &[u8]) {
        self.lines.extend_from_slice(lines);
    }

    /// The lines, for changes.
    pub fn lines_mut(&mut self) -> &mut Vec<u8> {
        &mut self.lines
    }

    /// Adds a field.
    pub fn add(&mut self, name: &[u8], value: &[u8]) {
        head_lines::write_field(name, value, &mut self.lines);
    }

    /// Adds a field with a number.
    pub fn add_number(&mut self, name: &[u8], value: u64) {
        head_lines::write_number_field(name, value, &mut self.lines);
    }
}

/// The answer to one request.
pub enum Reply<'c> {
    /// On an HTTP/1 connection.
    H1(H1<'c>),
    /// On a stream of HTTP/2.
    H2(Box<H2>),
}

/// The client's side of a tunnel.
pub enum Switched<'a> {
    /// An HTTP/1 connection.
    Conn(&'a mut Conn),
    /// A stream of HTTP/2.
    Stream(StreamEnd),
}

/// Calls the same method for each protocol.
macro_rules! each {
    ($reply:expr, $to:ident => $answer:expr) => {
        match $reply {
            Reply::H1($to) => $answer,
            Reply::H2($to) => $answer,
        }
    };
}

impl<'c> Reply<'c> {
    /// Sends an interim response (RFC 9110 §15.2), if the protocol permits it.
    pub async fn interim(
        &mut self,
        status: u16,
        reason: &str,
        fields: &Fields,
    ) -> Result<(), Gone> {
        each!(self, to => to.interim(&ReplyHead::new(status, reason, fields)).await)
    }

    /// Takes the head of the final answer. Until any of it is sent, another head may replace it.
    pub fn begin(&mut self, head: ReplyHead, length: Length) {
        each!(self, to => to.begin(head, length))
    }

    /// Takes bytes of the body that go out with the next piece.
    pub fn lead(&mut self, bytes: &[u8]) {
        each!(self, to => to.lead(bytes))
    }

    /// Sends a piece of the body.
    pub async fn piece(&mut self, piece: Bytes) -> Result<(), Gone> {
        each!(self, to => to.piece(piece).await)
    }

    /// Sends the head now, if it was not sent yet, since the body's first piece is late. From then on no other answer can replace this
    /// one.
    pub async fn flush_head(&mut self) -> Result<(), Gone> {
        each!(self, to => to.flush_head().await)
    }

    /// May the untaken rest of a piece be taken back? Not if the piece's length was announced.
    pub fn may_take_back(&self) -> bool {
        each!(self, to => to.may_take_back())
    }

    /// Sends as much of a piece as the client takes at once, and removes that from the piece. False: nothing was taken for `at_most`.
    pub async fn some_of(&mut self, piece: &mut Bytes, at_most: Duration) -> Result<bool, Gone> {
        each!(self, to => to.some_of(piece, at_most).await)
    }

    /// Ends a complete answer.
    pub async fn end(&mut self, trailers: Option<&Fields>) -> Result<(), Gone> {
        each!(self, to => to.end(trailers).await)
    }

    /// Sends the pending bytes, and shows the client that the body is incomplete.
    pub async fn break_off(&mut self) {
        each!(self, to => to.break_off().await)
    }

    /// Ends the answer with the origin's error code, if the client's version of HTTP has such codes.
    pub fn reset(&mut self, code: ErrorCode) {
        if let Reply::H2(to) = self {
            to.reset(code);
        }
    }

    /// Is the request for the head only? Then pieces are not sent.
    pub fn is_head_only(&self) -> bool {
        each!(self, to => to.is_head_only())
    }

    /// Closes the client's connection after this answer, unless `is_sound`.
    pub fn keep_open_if(&mut self, is_sound: bool) {
        each!(self, to => to.keep_open_if(is_sound))
    }

    /// Ends the answer because the client has gone.
    pub fn leave(&mut self) {
        each!(self, to => to.leave())
    }

    /// The encryption of the client's connection; `None`: there is none.
    pub fn encryption(&self) -> Option<&Seen> {
        each!(self, to => to.encryption())
    }

    /// Has the client reused a connection to another host for this one, taking both for one server?
    //= rfc9113 §9.1.1   a connection can be reused for names that its certificate covers
    pub fn is_coalesced(&self, host: Option<&str>) -> bool {
        let (Reply::H2(to), Some(host)) = (self, host.and_then(Authority::parse)) else {
            return false;
        };
        to.encryption()
            .is_some_and(|seen| !seen.name.is_empty() && !seen.name.eq_ignore_ascii_case(host.host))
    }

    /// Sends the head of a protocol switch, and hands over the connection or stream.
    pub async fn switch(&mut self, head: &ReplyHead) -> Result<Switched<'_>, Gone> {
        match self {
            Reply::H1(to) => Ok(Switched::Conn(to.switch(head).await?)),
            Reply::H2(to) => Ok(Switched::Stream(to.switch(head)?)),
        }
    }

    /// Returns when the client has closed its connection. Not noticed while another request is waiting in the input.
    pub async fn client_leaves(&mut self) {
        each!(self, to => to.client_leaves().await)
    }

    /// Should the answer stop waiting for memory? HTTP/1: at once, since between two pieces it holds only bytes that TLS encrypted and sends
    /// with the next. HTTP/2: if the client has gone, or nothing of this answer is queued after `OWN_WAIT_MAX`: other answers hold the memory.
    pub fn waits_in_vain(&self, waited: Duration) -> bool {
        match self {
            Reply::H1(_) => true,
            Reply::H2(to) => to.is_gone() || waited >= OWN_WAIT_MAX && !to.has_queued(),
        }
    }

    /// The connection that the request's body is read from, if it is the answer's.
    pub fn source(&mut self) -> Option<&mut Conn> {
        match self {
            Reply::H1(to) => Some(to.source()),
            Reply::H2(_) => None,
        }
    }

    /// The client connection's holder in the ledger.
    pub fn holder(&self, ledger: &Ledger) -> Arc<Holder> {
        each!(self, to => to.holder(ledger))
    }

    /// Sets the time of the first write, which saves reading the clock.
    pub fn starts(&mut self, at: Instant) {
        each!(self, to => to.starts(at))
    }

    /// The sent part so far.
    pub fn sent(&self) -> Sent {
        each!(self, to => to.sent())
    }

    /// The connection's next step.
    pub fn after(&self) -> After {
        each!(self, to => to.after())
    }
}

/// The sent part of an answer.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    /// The status; 0 if there was no answer.
    pub status: u16,
    /// Bytes sent, without interim responses.
    pub bytes: u64,
    /// The client left before it took everything.
    pub is_gone: bool,
    /// When the first write began.
    pub began: Option<Instant>,
    /// When the first byte was taken, and the last one so far.
    pub taken: Option<(Instant, Instant)>,
}
