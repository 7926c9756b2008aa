//! Both sides of HTTP/2 without I/O (RFC 9113): frames, HPACK, flow control, priorities, and a limit for each thing that a
//! peer may do too often.
//!
//! A [`Connection`] is a state machine. The caller reads bytes and gives them to [`Connection::handle_input`], which gives back
//! one [`Event`] after the other; it answers by commands ([`Connection::begin`], [`Connection::piece`], [`Connection::end`]); and it
//! takes what is to be written from [`Connection::poll_output`]. Time is a parameter.
//!
//! ```
//! use std::time::Duration;
//! use http2::{Connection, Event, Limits, Turn, write_status};
//!
//! # let mut socket_read = |_: &mut Vec<u8>| false;
//! # let socket_write = |_: &Turn| 0;
//! let now = Duration::ZERO;
//! let mut connection = Connection::new(Limits::default(), now);
//! let (mut input, mut turn) = (Vec::new(), Turn::new());
//! while socket_read(&mut input) {
//!     loop {
//!         let taken = connection.handle_input(&input, now)?;
//!         let asked = match taken.event {
//!             Some(Event::Request { stream, .. }) => Some(stream),
//!             _ => None,
//!         };
//!         let (bytes, is_all) = (taken.bytes, taken.event.is_none());
//!         input.drain(..bytes);
//!         if let Some(stream) = asked {
//!             let mut block = Vec::new();
//!             write_status(200, &mut block);
//!             connection.begin(stream, [&block, b""], false);
//!             connection.piece(stream, "hello".into(), now);
//!             connection.end(stream);
//!         }
//!         if is_all {
//!             break;
//!         }
//!     }
//!     connection.poll_output(&mut turn, 256 * 1024, now);
//!     socket_write(&turn);
//! }
//! # Ok::<(), http2::Fault>(())
//! ```
//!
//! | file | story |
//! |---|---|
//! | `connection` | the state machine: what the caller sees; in its folder what comes in, field blocks, what goes out, time |
//! | `head` | the head of a request or an answer, checked as strictly as `http1` checks one |
//! | `hpack`, `huffman` | field blocks |
//! | `stream_id` | which stream |
//! | `streams` | streams by identifier, and those that have gone |
//! | `ready`, `priority` | whose DATA is next (RFC 9218) |
//! | `turn` | what is to be written, without a copy of large pieces |
//! | `budget`, `limits` | how much of what is legal |
//! | `error` | faults by name, with the code owed |
//! | `frame` | frame headers |
//! | `pace` | peers whose windows let too little through |
//! | `mistakes` | deliberate mistakes, for the simulation |
//!
//! The example is a server's. A client ([`Connection::client`]) asks by [`Connection::request`], after which the same commands send its
//! body, and hears [`Event::Response`]. What differs between the two stands in `connection/asking`, in `head` and where the code asks for
//! its role; frames, blocks, windows and limits are one code.
//!
//! Not known here: sockets, TLS, clocks, caching, HTTP/1.
//!
//! Source: RFC 9113, RFC 7541, RFC 9218, RFC 8441. We differ, stricter: field values have no control characters but HTAB; Content-Length
//! and Host occur once; a scheme is http or https; a head without authority is refused.
#![forbid(unsafe_code)]

mod budget;
mod connection;
mod error;
mod frame;
mod head;
pub mod hpack;
mod huffman;
mod limits;
pub mod mistakes;
mod pace;
mod priority;
mod ready;
mod stream_id;
mod streams;
mod turn;

pub use connection::{Asked, Connection, Event, ResetBy, Taken};
pub use error::{Counts, ErrorCode, Fault};
pub use frame::PREFACE;
pub use head::{RequestView, ResponseView};
pub use hpack::{RequestLine, write_field, write_lines, write_request, write_status};
pub use limits::Limits;
pub use priority::Priority;
pub use stream_id::StreamId;
pub use turn::{COPIED_BYTES_MAX, Turn};
