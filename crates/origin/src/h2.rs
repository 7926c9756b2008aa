//! Requests over HTTP/2: sessions, which carry many at once, and seats in them.
//!
//! ```text
//!   Connector::lease_h2 --> a session with room --> Seat: a place is kept --ask--> a stream --drop--> released, or reset (CANCEL)
//!          |                      ^
//!          '-- none: one opens a connection, the others wait for it; its driver (a task) reads and writes until it is over
//! ```
//!
//! A [`Seat`] is the part of a [`crate::Lease`] that stands in for a connection. `head` turns a request from its HTTP/1.1 form into a field
//! block, and a head that was received into the form of `http1`. So the rest of the crate need not know which version the origin speaks.
//!
//! A request that the server did not take ([`UpstreamError::Unprocessed`](crate::outcome::UpstreamError)) may be sent again, whatever its method.
//!
//! Limits: those of [`http2::Limits`]. The unread part of an answer's body is bounded by its stream's window; a request has
//! [`QUEUED_BYTES_MAX`] and one piece queued; interim heads as over HTTP/1. The ledger counts both, and lends the part of a window beyond
//! [`STREAM_WINDOW`].

mod driver;
pub(crate) mod head;
mod inward;
mod seat;
mod session;

pub(crate) use inward::Gone;
pub(crate) use seat::Seat;
pub(crate) use session::{Opening, Place, Session};

/// The bytes of a body that a server may send before any of them are read, per stream,
pub(crate) const STREAM_WINDOW: u32 = 16 << 10;
/// and the largest such window, where the ledger has memory for it.
pub(crate) const STREAM_WINDOW_MAX: u32 = 128 << 10;

/// The next piece of a request body is taken only while no more bytes than this are queued on its stream.
pub(crate) const QUEUED_BYTES_MAX: usize = 64 << 10;
