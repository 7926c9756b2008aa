//! A request with a parsed head, and what the short way has found out about it.
//!
//! Not known here: how the request is answered.

use bytes::Bytes;
use http1::RequestView;
use message::{Framing, RequestHead, Seen};
use store::KeyHash;

use base::clock::Instant;
use cache::preloaded::Preloaded;
use cluster::forwarded;
use rules::rulebook::MetBy;

/// A request with a parsed head.
pub struct Incoming {
    /// Its head.
    pub head: RequestHead,
    /// Length of the head.
    pub head_bytes: usize,
    /// When its first byte was seen.
    pub began: Instant,
    /// When the connection was accepted, for the first request on it.
    pub accepted: Option<Instant>,
    /// The short way has waited for the disk in vain, so the long way must not wait again.
    pub skips_disk: bool,
    /// The short way has found another tag's response on disk; this is its key.
    pub other: Option<Bytes>,
    /// The short way has read this object from disk and may not serve it as it is.
    pub loaded: Option<Box<Preloaded>>,
    /// The short way has looked for this key and found nothing.
    pub absent: Option<Absent>,
    /// The operator's rules that match, once they were evaluated.
    pub met: Option<MetBy>,
    /// Why the request is refused because of the client that a balancer names.
    pub barred: Option<Barred>,
    /// The short way has already counted the request at the per-request quotas.
    pub has_passed: bool,
}

impl Incoming {
    /// A parsed head whose first byte was seen at `began`.
    pub fn new(view: &RequestView<'_, '_>, began: Instant, accepted: Option<Instant>) -> Incoming {
        Incoming {
            accepted,
            ..Incoming::of_head(view.to_owned(), view.head_bytes, began)
        }
    }

    /// An owned head that was `head_bytes` long on the wire.
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
    /// Removes what a client cannot mean: fields reserved for members of a cluster, and an empty body.
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

/// A key that is neither in memory nor on disk, so the long way need not look again.
pub struct Absent {
    /// The request's key.
    pub key: Vec<u8>,
    /// The hash of the key's name.
    pub hash: KeyHash,
}

/// Why a request is refused because of the client that a balancer names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Barred {
    /// This client is not served.
    NotServed,
    /// The balancer's field cannot be parsed.
    Unreadable,
}

impl Barred {
    /// Status and sentence of the answer, and its error token (RFC 9209).
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
