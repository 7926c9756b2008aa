//! Interim responses (RFC 9110 §15.2): what an origin says before its answer.
//!
//! Each is passed on as it comes, to the client that asked, unless that one speaks HTTP/1.0. 101 is no interim response
//! here but the end of HTTP on a connection (`switch`). 100 goes to nobody who did not ask for it.
//!
//! A fetch that several requests share hands its interim responses to the one that began it, and to those that have sent
//! the very same fields: nothing in an interim response says whom it is for, and the answer that would say so is not
//! there yet. For requests that are equal the origin could not have meant one and not the other.
//!
//! Never stored. Limits: [`INTERIM_MAX`] for one answer; an origin that sends more gets no further chance.

use std::sync::Arc;

use bytes::Bytes;
use fields::Fields;
use http1::ResponseHead;

use crate::{cache::object, fetch::task, state::Worker};

/// Interim responses before one answer; with more it counts as malformed.
pub const INTERIM_MAX: usize = 16;

/// Is another head to follow on the same connection?
pub fn is_interim(head: &ResponseHead) -> bool {
    head.status < 200 && head.status != 101
}

/// An interim response to a fetch, in the form in which it goes to clients.
#[derive(Clone)]
pub struct Hint {
    /// All of it, with the empty line.
    pub bytes: Bytes,
    /// The fields of the request it was sent to.
    pub asked_with: Arc<Fields>,
}

/// The bytes of an interim response as it goes on.
pub fn write(worker: &Worker, head: &ResponseHead) -> Vec<u8> {
    let mut fields = head.fields.clone();
    message::remove_hop_by_hop(&mut fields);
    //= rfc9110 §8.6   a server MUST NOT send Content-Length with status 1xx
    fields.remove(b"content-length");
    fields.push(b"Via", &task::via_of(worker, head.version));
    let reason = match head.reason.as_str() {
        "" => message::reason_phrase(head.status),
        reason => reason,
    };
    let mut out = Vec::with_capacity(256);
    object::write_head(head.status, reason, &fields, &mut out);
    out.extend_from_slice(b"\r\n");
    out
}
