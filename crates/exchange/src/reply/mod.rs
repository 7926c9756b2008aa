//! The way back to the client: one interface to the wire.
//!
//! A [`Reply`] takes a head, pieces of a body and its end, and alone knows how they look on the wire, whether the client can be
//! told where a body ends, how long the client may take, and what becomes of the connection. The rest of the proxy says *what* is
//! answered.
//!
//! ```text
//! interim*  begin  piece*  end            a complete answer
//!           begin  piece*  break_off      an answer that cannot be completed: the client sees that it is not
//! ```
//!
//! `begin` sends nothing: the head goes out with the first piece, so until then another answer may begin instead.
//! An enum rather than a trait: one more protocol is one more variant, and no future is boxed.
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

/// What the connection does after a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum After {
    /// Reads the next request.
    KeepOpen,
    /// Closes.
    Close,
    /// Closes with a reset: the answer is not complete, and nothing else would show it.
    Abort,
}

/// The client has gone, or is too slow.
#[derive(Debug)]
pub struct Gone;

/// How long the body of an answer is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Length {
    /// There is none, and none is announced (204, 304).
    None,
    /// So many bytes; the head's lines say so already.
    Told(u64),
    /// So many bytes.
    Known(u64),
    /// Nobody knows yet.
    Unknown,
}

/// The head of an answer.
pub struct ReplyHead {
    /// Status code.
    pub status: u16,
    /// Status line and field lines, as [`http1::head_lines`] writes them.
    lines: Vec<u8>,
}

/// A head waits for the first piece of its body, so that both go out in one write; for so long, because an origin may send the head of
/// an event stream and then nothing for hours.
pub const HEAD_WAIT: Duration = Duration::from_millis(100);

/// Room for the lines that are added to a stored head.
const OWN_LINES_BYTES: usize = 256;

impl ReplyHead {
    /// A head that is stored as lines.
    pub fn of_lines(status: u16, stored: &[u8]) -> ReplyHead {
        let mut lines = Vec::with_capacity(stored.len() + OWN_LINES_BYTES);
        lines.extend_from_slice(stored);
        ReplyHead { status, lines }
    }

    /// A head with these fields; an empty `reason` stands for the status code's own.
    pub fn new(status: u16, reason: &str, fields: &Fields) -> ReplyHead {
        let reason = match reason {
            "" => message::reason_phrase(status),
            reason => reason,
        };
        let mut lines = Vec::with_capacity(2 * OWN_LINES_BYTES);
        head_lines::write_head(status, reason, fields, &mut lines);
        ReplyHead { status, lines }
    }

    /// Length of its lines in bytes, so far.
    pub fn bytes(&self) -> u64 {
        self.lines.len() as u64
    }

    /// Adds field lines that are stored as such.
    pub fn add_lines(&mut self, lines: &[u8]) {
        self.lines.extend_from_slice(lines);
    }

    /// Its lines, to be changed.
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

/// The answer to one request, on its way.
pub enum Reply<'c> {
    /// To a client that speaks HTTP/1.
    H1(H1<'c>),
    /// On a stream of HTTP/2.
    H2(Box<H2>),
}

/// What a client's side of a tunnel is.
pub enum Switched<'a> {
    /// The connection.
    Conn(&'a mut Conn),
    /// A stream of one.
    Stream(StreamEnd),
}

/// The same for each protocol.
macro_rules! each {
    ($reply:expr, $to:ident => $answer:expr) => {
        match $reply {
            Reply::H1($to) => $answer,
            Reply::H2($to) => $answer,
        }
    };
}

impl<'c> Reply<'c> {
    /// Sends an interim response (RFC 9110 §15.2), if the client may be sent any.
    pub async fn interim(
        &mut self,
        status: u16,
        reason: &str,
        fields: &Fields,
    ) -> Result<(), Gone> {
        each!(self, to => to.interim(&ReplyHead::new(status, reason, fields)).await)
    }

    /// Takes the head of the final answer. As long as nothing of it was sent, another one may take its place.
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

    /// Sends the head now, if it was not sent yet: the first piece of the body lets wait for it. From here on no other answer can take
    /// its place.
    pub async fn flush_head(&mut self) -> Result<(), Gone> {
        each!(self, to => to.flush_head().await)
    }

    /// May the rest of a piece be taken back that the client does not take? Not where the piece's length was announced.
    pub fn may_take_back(&self) -> bool {
        each!(self, to => to.may_take_back())
    }

    /// Sends what the client takes of a piece at once, and removes it from the piece. False: it took nothing for so long.
    pub async fn some_of(&mut self, piece: &mut Bytes, at_most: Duration) -> Result<bool, Gone> {
        each!(self, to => to.some_of(piece, at_most).await)
    }

    /// Ends a complete answer.
    pub async fn end(&mut self, trailers: Option<&Fields>) -> Result<(), Gone> {
        each!(self, to => to.end(trailers).await)
    }

    /// The body cannot be completed: sends what there is, and lets the client see that it is not all.
    pub async fn break_off(&mut self) {
        each!(self, to => to.break_off().await)
    }

    /// The same as the origin has ended it, where the client's version of HTTP has codes for that.
    pub fn reset(&mut self, code: ErrorCode) {
        if let Reply::H2(to) = self {
            to.reset(code);
        }
    }

    /// Is the request for the head alone? Then pieces are not sent.
    pub fn is_head_only(&self) -> bool {
        each!(self, to => to.is_head_only())
    }

    /// The client's connection cannot be used for another request, unless `is_sound`.
    pub fn keep_open_if(&mut self, is_sound: bool) {
        each!(self, to => to.keep_open_if(is_sound))
    }

    /// The client has gone.
    pub fn leave(&mut self) {
        each!(self, to => to.leave())
    }

    /// What is known of the connection's encryption; `None`: there is none.
    pub fn encryption(&self) -> Option<&Seen> {
        each!(self, to => to.encryption())
    }

    /// Has the client sent a request for this host on a connection that it opened for another one, taking them for one server?
    //= rfc9113 §9.1.1   a connection can be reused for names that its certificate covers
    pub fn is_coalesced(&self, host: Option<&str>) -> bool {
        let (Reply::H2(to), Some(host)) = (self, host.and_then(Authority::parse)) else {
            return false;
        };
        to.encryption()
            .is_some_and(|seen| !seen.name.is_empty() && !seen.name.eq_ignore_ascii_case(host.host))
    }

    /// Sends the head after which the connection, or the stream, speaks another protocol, and hands it over.
    pub async fn switch(&mut self, head: &ReplyHead) -> Result<Switched<'_>, Gone> {
        match self {
            Reply::H1(to) => Ok(Switched::Conn(to.switch(head).await?)),
            Reply::H2(to) => Ok(Switched::Stream(to.switch(head)?)),
        }
    }

    /// Returns when the client has closed its connection. It is not noticed behind a further request.
    pub async fn client_leaves(&mut self) {
        each!(self, to => to.client_leaves().await)
    }

    /// Would the answer wait for what it holds itself, or for what its connection holds for other answers, and has waited for so long? Over
    /// HTTP/1 nothing waits for the client between two pieces but what TLS has encrypted, which goes out with the next one.
    pub fn waits_in_vain(&self, waited: Duration) -> bool {
        match self {
            Reply::H1(_) => true,
            Reply::H2(to) => to.is_gone() || waited >= OWN_WAIT_MAX && !to.has_queued(),
        }
    }

    /// The connection to read the request's body from, if the body comes by the same one.
    pub fn source(&mut self) -> Option<&mut Conn> {
        match self {
            Reply::H1(to) => Some(to.source()),
            Reply::H2(_) => None,
        }
    }

    /// The client's connection, as the ledger knows it.
    pub fn holder(&self, ledger: &Ledger) -> Arc<Holder> {
        each!(self, to => to.holder(ledger))
    }

    /// The first write begins at about this moment: so that the clock need not be read again.
    pub fn starts(&mut self, at: Instant) {
        each!(self, to => to.starts(at))
    }

    /// What was sent so far.
    pub fn sent(&self) -> Sent {
        each!(self, to => to.sent())
    }

    /// What becomes of the connection.
    pub fn after(&self) -> After {
        each!(self, to => to.after())
    }
}

/// What was sent of an answer.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    /// Its status; 0 if there is no answer.
    pub status: u16,
    /// Bytes, without interim responses.
    pub bytes: u64,
    /// The client did not take all of it.
    pub is_gone: bool,
    /// When its first write began.
    pub began: Option<Instant>,
    /// When the first of its bytes were taken, and the last so far.
    pub taken: Option<(Instant, Instant)>,
}
