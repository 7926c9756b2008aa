//! HTTP/1 as everything reads it that judges the proxy: end-to-end tests, benches, the torture.
//!
//! It shares no code with the proxy, so a mistake is not made on both sides. [`Head`]s are cut by `httparse`; what that
//! forgives (bare LF, empty lines in front) is refused here. A [`Connection`] reads one message after the other from a blocking stream,
//! and says how a message was [`Cut`] if it did not come whole.
//!
//! PolyMix does not use it: it reads heads without copying them and compares bodies as they come (`polymix/src/wire.rs`).
//!
//! Not known here: what an answer should be, who connects to whom, time limits.
//! Limits: [`HEAD_BYTES_MAX`] and [`FIELDS_MAX`]; a body is as long as it says.   Source: RFC 9112.
#![forbid(unsafe_code)]

mod connection;
mod head;

pub use connection::{Connection, Cut};
pub use head::{FIELDS_MAX, Fields, Framing, HEAD_BYTES_MAX, Head, Malformed, Request, Response};
