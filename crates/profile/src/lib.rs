//! The record of every request: its kind, its result, and the time it took.
//!
//! A worker fills one [`Record`] per request and appends its bytes to a batch; the journal thread writes the batches.
//! Three things are made of it: the profile file ([`write_file_header`], [`Record::encode`], [`Reader`]), lines for
//! people and programs ([`dump_line`], [`dump_json`]), and the access log ([`access`]).
//!
//! The seven stages are those of paper 001: connecting to the client, resolving the name, connecting to the
//! origin, the origin's reply, reading from disk, writing to disk, replying to the client. They overlap, so
//! their sum says nothing; each has a start, a delay to its first byte and a total.
//!
//! Not known here: sockets, files, clocks, HTTP. Foreign bytes lead to an error value, never to a panic.
#![forbid(unsafe_code)]

pub mod access;
mod dump;
mod file;
mod names;
mod record;
mod text;
mod varint;

pub use dump::{dump_header, dump_json, dump_line};
pub use file::{FILE_HEADER, ProfileError, Reader, write_file_header};
pub use names::{Class, Method, StageName};
pub use record::{RECORD_BYTES_MAX, Record, Stage, clamp_us};
