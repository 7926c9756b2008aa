//! Heads of messages, in one form for every version.
//!
//! A crate for each version reads and writes them: `http1` the bytes of HTTP/1.1, `http2` the field blocks of HTTP/2.

use fields::Fields;

use crate::{Seen, Version};

/// A request head, of any version.
#[derive(Clone, Debug)]
pub struct RequestHead {
    /// A token, case-sensitive.
    pub method: String,
    /// Visible ASCII without a fragment.
    pub target: String,
    /// The version that the client states.
    pub version: Version,
    /// The field lines as received.
    pub fields: Fields,
    /// The known fields in the head when it was parsed.
    pub seen: Seen,
    /// The value of Host, or of `:authority`; valid as `uri-host [":" port]`. Always present except in HTTP/1.0.
    pub host: Option<String>,
    /// Never [`Framing::UntilClose`].
    pub framing: Framing,
    /// May the connection stay open after this request?
    pub keep_alive: bool,
    /// The client waits for 100 (Continue).
    pub expect_continue: bool,
}

/// A response head, of any version.
#[derive(Clone, Debug)]
pub struct ResponseHead {
    /// 100 to 999.
    pub status: u16,
    /// The reason phrase as received; empty if there was none or it was not ASCII.
    pub reason: String,
    /// The version that the origin states.
    pub version: Version,
    /// The field lines as received, except that repeated equal Content-Length lines are joined.
    pub fields: Fields,
    /// Where the body ends. If the end of the connection ends the body, a truncated body cannot be recognised.
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
    /// The body marks its own end: by the chunked coding in HTTP/1.1, by the end of the stream in later versions.
    Chunked,
    /// Everything until the connection closes. Responses only.
    UntilClose,
}
