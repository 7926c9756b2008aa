//! A request whose head was parsed, and what its connection has found out before it goes the long way.
//!
//! Not known here: what becomes of it.

use bytes::Bytes;
use http1::RequestView;
use message::{Framing, RequestHead, Seen};
use store::KeyHash;

use base::clock::Instant;
use cache::preloaded::Preloaded;
use cluster::forwarded;
use rules::rulebook::MetBy;

/// A request whose head was parsed.
pub struct Incoming {
    /// Its head.
    pub head: RequestHead,
    /// How long the head was.
    pub head_bytes: usize,
    /// When its first byte was seen.
    pub began: Instant,
    /// When the connection was accepted, for the first request on it.
    pub accepted: Option<Instant>,
    /// The short way has waited for the disk in vain; nobody is to wait once more.
    pub skips_disk: bool,
    /// What the short way has read from disk is of another tag, and has this key.
    pub other: Option<Bytes>,
    /// What the short way has read from disk, and may not serve as it is.
    pub loaded: Option<Box<Preloaded>>,
    /// What the short way has looked for in vain.
    pub absent: Option<Absent>,
    /// The operator's rules that it meets, once they were asked.
    pub met: Option<MetBy>,
    /// It is refused for what is said of its client.
    pub barred: Option<Barred>,
    /// The short way has counted it at the quotas of each request.
    pub has_passed: bool,
}

impl Incoming {
    /// A head that was parsed; its first byte was seen at `began`.
    pub fn new(view: &RequestView<'_, '_>, began: Instant, accepted: Option<Instant>) -> Incoming {
        Incoming {
            accepted,
            ..Incoming::of_head(view.to_owned(), view.head_bytes, began)
        }
    }

    /// A head of its own, which was so many bytes long.
    pub fn of_head(head: RequestHead, head_bytes: usize, began: Instant) -> Incoming {
        Incoming {
            head,
            head_bytes,
            began,
            accepted: None,
            skips_disk: false,
            other: None,
            loaded: None,
            absent: None,
            met: None,
            barred: None,
            has_passed: false,
        }
    }
}

impl Incoming {
    /// Takes out what its client cannot mean: fields that are spoken between members of a cluster, and a body without a byte.
    pub fn clean(&mut self, is_in_cluster: bool, is_of_member: bool) {
        if is_in_cluster {
            forwarded::take_out(&mut self.head.fields, is_of_member);
        }
        let head = &mut self.head;
        let is_read = matches!(head.method.as_str(), "GET" | "HEAD");
        let has_none = matches!(head.framing, Framing::None | Framing::Length(0));
        //= rfc9112 §6.3   a Content-Length of 0: no body, so a GET with it is like any other
        if is_read && has_none && head.seen.intersects(Seen::CONTENT_LENGTH) {
            head.framing = Framing::None;
            head.fields.remove(b"content-length");
        }
    }
}

/// What was looked for, and is neither in memory nor on disk: so the long way need not look again.
pub struct Absent {
    /// The request's key.
    pub key: Vec<u8>,
    /// The hash of the name in it.
    pub hash: KeyHash,
}

/// Why a request is refused for what is said of its client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Barred {
    /// The client that is named is not served.
    NotServed,
    /// Nobody can tell whom the balancer names.
    Unreadable,
}

impl Barred {
    /// Status and sentence of the answer, and its token of RFC 9209.
    pub fn answer(self) -> (u16, &'static str, &'static str) {
        match self {
            //= rfc9209 §2.3.17   a policy of the intermediary
            Barred::NotServed => (403, "this client is not served here", "http_request_denied"),
            Barred::Unreadable => (
                400,
                "the field that names the client cannot be read",
                "http_request_error",
            ),
        }
    }
}
