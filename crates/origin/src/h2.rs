//! Requests over HTTP/2: sessions, which carry many at once, and seats in them.
//!
//! ```text
//!   Connector::lease_h2 --> a session with room --> Seat: a place is kept --ask--> a stream --drop--> released, or reset (CANCEL)
//!          |                      ^
//!          '-- none: one opens a connection, the others wait for it; its driver (a task) reads and writes until it is over
//! ```
//!
//! A [`Seat`] is what a [`crate::Lease`] carries in place of a connection. `head` turns a request as HTTP/1.1 has it into a field block,
//! and a head that came into what `http1` makes of one. So whoever asks need not know which version the origin speaks.
//!
//! What was not taken by the server ([`UpstreamError::Unprocessed`](crate::outcome::UpstreamError)) may be sent again, whatever it is.
//!
//! Limits: those of [`http2::Limits`]; what has come of a body and was not taken is bounded by its stream's window; a request has
//! [`QUEUED_BYTES_MAX`] and one piece queued; interim heads as over HTTP/1. The ledger counts both, and lends what a window is larger than
//! [`STREAM_WINDOW`].

mod driver;
pub(crate) mod head;
mod inward;
mod seat;
mod session;

pub(crate) use inward::Gone;
pub(crate) use seat::Seat;
pub(crate) use session::{Opening, Place, Session};

/// What a server may send of a body before it is taken,
pub(crate) const STREAM_WINDOW: u32 = 16 << 10;
/// and where there is memory for that.
pub(crate) const STREAM_WINDOW_MAX: u32 = 128 << 10;

/// What a stream may have queued before the next piece of its body is taken.
pub(crate) const QUEUED_BYTES_MAX: usize = 64 << 10;
