//! An HTTP/1 reader for everything that tests the proxy: end-to-end tests, benches, the torture.
//!
//! It shares no code with the proxy, so that both do not make the same mistakes. [`Head`]s are parsed by `httparse`; what `httparse`
//! tolerates (bare LF, empty lines in front) is refused here. A [`Connection`] reads one message after the other from a blocking
//! stream, and reports why a message was [`Cut`] if it is incomplete.
//!
//! PolyMix has its own reader, which does not copy heads and compares bodies as they arrive (`polymix/src/wire.rs`).
//!
//! Not known here: the right answers, who connects to whom, time limits.
//! Limits: [`HEAD_BYTES_MAX`] and [`FIELDS_MAX`]; a body is as long as its framing says.   Source: RFC 9112.
#![forbid(unsafe_code)]

mod connection;
mod head;

pub use connection::{Connection, Cut};
pub use head::{FIELDS_MAX, Fields, Framing, HEAD_BYTES_MAX, Head, Malformed, Request, Response};
