//! Heads as the proxy has them, in the same words for every version.
//!
//! A crate for each version reads and writes them: `http1` the bytes of HTTP/1.1, `http2` the field blocks of HTTP/2.

use fields::Fields;

use crate::{Seen, Version};

/// A request head, whatever version it came in.
#[derive(Clone, Debug)]
pub struct RequestHead {
    /// A token, case-sensitive.
    pub method: String,
    /// Visible ASCII without a fragment.
    pub target: String,
    /// As the client says.
    pub version: Version,
    /// The field lines as they came.
    pub fields: Fields,
    /// Which known fields there were when the head was parsed.
    pub seen: Seen,
    /// The value of Host, or of `:authority`; valid as `uri-host [":" port]`. Always there after HTTP/1.0.
    pub host: Option<String>,
    /// Never [`Framing::UntilClose`].
    pub framing: Framing,
    /// May the connection stay open after this request?
    pub keep_alive: bool,
    /// The client waits for 100 (Continue).
    pub expect_continue: bool,
}

/// A response head, whatever version it came in.
#[derive(Clone, Debug)]
pub struct ResponseHead {
    /// 100 to 999.
    pub status: u16,
    /// The reason phrase as it came; empty if there was none or it was not ASCII.
    pub reason: String,
    /// As the origin says.
    pub version: Version,
    /// The field lines as they came, repeated equal Content-Length lines joined.
    pub fields: Fields,
    /// Where the body ends. A response that ends with the connection may be cut short without a sign.
    pub framing: Framing,
    /// May the connection be used again after this response? Never with [`Framing::UntilClose`].
    pub keep_alive: bool,
}

/// How the body of a message ends (RFC 9112 §6.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Framing {
    /// There is no body.
    None,
    /// This many bytes follow, at most [`crate::BODY_BYTES_MAX`]. May be 0.
    Length(u64),
    /// The body says itself where it ends: by the chunked coding of HTTP/1.1, by the end of the stream later.
    Chunked,
    /// Everything until the connection closes. Responses only.
    UntilClose,
}
