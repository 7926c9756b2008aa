//! Why a message is refused.
//!
//! A [`Fault`] says what is wrong; a [`Reject`] adds where. A fault in a request is the client's (4xx), in a response
//! the origin's (502).

use std::fmt;

/// Why a message is refused. Its connection must be closed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reject {
    /// A request head: answer with [`Reject::status`] and close.
    Request(Fault),
    /// A response head: answer the client with 502.
    Response(Fault),
    /// A chunked body. `status` is for a request. If it is in a response, answer with 502 if nothing was sent yet,
    /// else reset the connection to the client.
    Body(Fault),
}

macro_rules! faults {
    ($($(#[$doc:meta])* $name:ident $status:literal $reason:literal)*) => {
        /// What is wrong with a message.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[non_exhaustive]
        pub enum Fault {
            $($(#[$doc])* $name,)*
        }

        impl Fault {
            /// The status for a client that sent this in a request.
            pub const fn status(self) -> u16 {
                match self { $(Self::$name => $status,)* }
            }

            /// A few words for a log line or the body of an error page; no message bytes in it.
            pub const fn reason(self) -> &'static str {
                match self { $(Self::$name => $reason,)* }
            }
        }
    };
}

faults! {
    /// The start line is not `method SP target SP version`, or `version SP status SP reason`.
    StartLine 400 "malformed start line"
    /// The method is longer than any registered one (RFC 9112 §3).
    MethodTooLong 501 "method too long"
    /// A version other than HTTP/1.0 and HTTP/1.1.
    Version 505 "unsupported HTTP version"
    /// Bytes other than visible ASCII, a fragment, user information, or a form that the method does not allow.
    Target 400 "malformed request target"
    /// The target exceeds `Limits::target_bytes_max`.
    TargetTooLong 414 "request target too long"
    /// The head exceeds `Limits::head_bytes_max`.
    HeadTooLarge 431 "message head too large"
    /// More lines than `Limits::fields_max`.
    TooManyFields 431 "too many fields"
    /// A line that does not end in CRLF, or a bare CR, or too many empty lines before the message.
    LineEnd 400 "malformed line end"
    /// Not a token before the colon, white space in front of the colon, or a folded line.
    FieldName 400 "malformed field name"
    /// A control character in a value.
    FieldValue 400 "malformed field value"
    /// HTTP/1.1 without Host (RFC 9112 §3.2).
    HostMissing 400 "Host is missing"
    /// More than one Host line.
    HostRepeated 400 "more than one Host"
    /// Host is not `uri-host [":" port]`.
    HostInvalid 400 "invalid Host"
    /// Content-Length is not a decimal number of at most `BODY_BYTES_MAX`.
    ContentLength 400 "invalid Content-Length"
    /// More than one Content-Length.
    ContentLengthRepeated 400 "more than one Content-Length"
    /// Content-Length and Transfer-Encoding in one message.
    LengthAndCoding 400 "both Content-Length and Transfer-Encoding"
    /// Transfer-Encoding is not one `chunked`.
    TransferEncoding 400 "malformed Transfer-Encoding"
    /// An unknown transfer coding.
    TransferCodingUnknown 501 "unknown transfer coding"
    /// Transfer-Encoding in an HTTP/1.0 message.
    CodingInHttp10 400 "Transfer-Encoding in HTTP/1.0"
    /// A body where the method allows none (CONNECT, TRACE).
    BodyForbidden 400 "a body is not allowed with this method"
    /// More options than `CONNECTION_OPTIONS_MAX`.
    ConnectionOptions 400 "too many connection options"
    /// A status code below 100.
    StatusCode 400 "invalid status code"
    /// No valid chunk size where one is expected.
    ChunkSize 400 "malformed chunk size"
    /// A chunk extension with control characters, or more than `EXTENSION_BYTES_MAX` bytes of extensions.
    ChunkExtension 400 "malformed or too many chunk extensions"
    /// Chunk data that is not followed by CRLF.
    ChunkEnd 400 "chunk longer than its size"
    /// A trailer section that is too large or malformed.
    Trailers 400 "malformed or too many trailers"
}

impl Reject {
    /// What is wrong.
    pub const fn fault(&self) -> Fault {
        match *self {
            Self::Request(fault) | Self::Response(fault) | Self::Body(fault) => fault,
        }
    }

    /// The status of the answer: 400, 414, 431, 501 or 505 for requests, 502 for responses.
    pub const fn status(&self) -> u16 {
        match self {
            Self::Request(fault) | Self::Body(fault) => fault.status(),
            Self::Response(_) => 502,
        }
    }

    /// A few words for a log line or the body of an error page; no message bytes in it.
    pub const fn reason(&self) -> &'static str {
        self.fault().reason()
    }
}

impl fmt::Display for Reject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.reason())
    }
}

impl std::error::Error for Reject {}
