//! Both sides of HTTP/2 without I/O (RFC 9113): frames, HPACK, flow control, priorities, and a limit for each thing that a
//! peer may do too often.
//!
//! A [`Connection`] is a state machine. The caller passes received bytes to [`Connection::handle_input`], which returns one [`Event`]
//! at a time. The caller answers with commands ([`Connection::begin`], [`Connection::piece`], [`Connection::end`]) and takes the bytes
//! to write from [`Connection::poll_output`]. Time is a parameter.
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
//! | `connection` | the state machine and its public methods; its folder has input, field blocks, output and timeouts |
//! | `head` | the head of a request or an answer, checked as strictly as `http1` checks one |
//! | `hpack`, `huffman` | field blocks |
//! | `stream_id` | the public handle of a stream |
//! | `streams` | open streams by identifier, and the last closed ones |
//! | `ready`, `priority` | which stream sends DATA next (RFC 9218) |
//! | `turn` | the next output, without a copy of large pieces |
//! | `budget`, `limits` | how many useless frames are accepted, and the configurable bounds |
//! | `error` | faults by name, with their error codes |
//! | `frame` | frame headers |
//! | `pace` | peers whose windows let too little through |
//! | `mistakes` | deliberate mistakes, for the simulation |
//!
//! The example is a server. A client ([`Connection::client`]) sends a request head with [`Connection::request`] and the body with the same
//! commands, and receives [`Event::Response`]. Code that differs between the two roles is in `connection/asking`, in `head` and wherever
//! `role` is checked; they share frames, field blocks, windows and limits.
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
