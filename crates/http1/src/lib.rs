//! HTTP/1.1 messages without I/O: heads, framing, chunked coding, and the writing of heads.
//!
//! Callers pass slices of the connection's buffer and get values back; they do the reading, waiting and closing.
//! `httparse` finds the parts of a head. This crate decides whether a message is *unambiguous*: if a proxy and its
//! `httparse` finds the parts of a head. This crate decides whether a message is *unambiguous*: if a proxy and its neighbour read a
//! message differently, an attacker can smuggle requests (RFC 9112 §11.2). So a message that two correct readers could read differently
//! is refused, never repaired and never forwarded. (Exceptions for responses of hosts that the operator names are in `lenient`.)
//!
//! | file | story |
//! |---|---|
//! | `request`, `response` | a head from the first byte to the empty line |
//! | `limits` | how much of a head is accepted |
//! | `lenient` | malformed responses that are accepted if the operator permits |
//! | `lines` | line ends, where a head ends, checks that httparse does not make |
//! | `framing` | Content-Length, Transfer-Encoding, Connection: where the body ends, whether the connection stays |
//! | `chunked` | the chunked coding as a state machine |
//! | `target` | the four forms of a request target |
//! | `write` | lines of a head, chunk headers |
//! | `reject` | why a message is refused, and the status of the answer |
//!
//! A caller reads into a buffer and calls [`parse_request`]. While the result is `None` it reads on, and calls
//! [`scan_end`] before it parses again. A head that arrives in small pieces is therefore scanned once and parsed
//! twice. After any [`Reject`] it is unknown where the next message begins: write the answer and close the connection.
//!
//! Not known here: sockets, time, caching. Limits: [`Limits`], and the constants beside each mechanism.
//! Source: RFC 9112; RFC 9110 for Host, Content-Length, Expect and connection options.
#![forbid(unsafe_code)]

mod chunked;
mod framing;
pub mod head_lines;
mod lenient;
mod limits;
mod lines;
mod reject;
mod request;
mod response;
mod target;
mod write;

pub use chunked::{
    Chunk, ChunkedDecoder, EXTENSION_BYTES_MAX, TRAILER_BYTES_MAX, is_forbidden_trailer,
};
pub use framing::CONNECTION_OPTIONS_MAX;
pub use lenient::{Lenient, written_anew};
pub use limits::{FIELDS_MAX, Limits};
pub use lines::{LEADING_EMPTY_LINES_MAX, scan_end};
pub use reject::{Fault, Reject};
pub use request::{RequestView, Scratch, parse_request};
pub use response::parse_response;
pub use target::{Target, parse_target};
pub use write::{
    LAST_CHUNK, write_chunk_header, write_request_line, write_status_line, write_trailers,
};
