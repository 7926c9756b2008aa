//! HTTP messages as every version has them (RFC 9110), without bytes on a wire.
//!
//! `http1` reads and writes the bytes of HTTP/1.1 and builds on this crate, as other versions do. Common to all versions are:
//! which resource a request names, which fields matter to a proxy, which fields end at this hop, and which bytes are legal
//! where.
//!
//! | file | story |
//! |---|---|
//! | `named` | scheme, authority and path: the target URI, its normal form, references resolved against it |
//! | `authority` | `host:port`, checked to the grammar |
//! | `head` | heads of requests and responses, where a body ends |
//! | `seen` | which known fields a head has, as bits |
//! | `hop` | fields that end at this hop |
//! | `syntax` | tokens, token lists, targets, numbers |
//! | `method` | safe methods |
//! | `part` | a body in pieces |
//! | `reason` | reason phrases |
//!
//! Not known here: bytes on a wire, sockets, time, caching.   Source: RFC 9110, RFC 3986.
#![forbid(unsafe_code)]

mod authority;
mod head;
mod hop;
mod method;
mod named;
mod part;
mod reason;
mod seen;
mod syntax;

pub use authority::{Authority, HOST_BYTES_MAX, host_text, push_number};
pub use head::{Framing, RequestHead, ResponseHead};
pub use hop::remove_hop_by_hop;
pub use method::{METHOD_BYTES_MAX, is_safe};
pub use named::{Named, Scheme, split_absolute};
pub use part::Part;
pub use reason::reason_phrase;
pub use seen::Seen;
pub use syntax::{
    BODY_BYTES_MAX, is_target, is_token, is_token_byte, parse_content_length, split_tokens,
    write_decimal,
};

/// The version of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Version {
    /// HTTP/1.0
    Http10,
    /// HTTP/1.1
    Http11,
    /// HTTP/2
    Http2,
}
