//! The profile: a record of every request, with its kind, its result, and the times it took.
//!
//! A worker fills one [`Record`] per request and appends its bytes to a batch; the journal thread writes the batches.
//! Records are used for three things: the profile file ([`write_file_header`], [`Record::encode`], [`Reader`]), lines for
//! people and programs ([`dump_line`], [`dump_json`]), and the access log ([`access`]).
//!
//! Seven of the [stages](StageName) are those of paper 001: connecting to the client, resolving the name, connecting to the
//! origin, the origin's reply, reading from disk, writing to disk, replying to the client. Stages overlap, so
//! their sum means nothing; each has a start, a delay to its first byte and a total.
//!
//! Not known here: sockets, files, clocks, HTTP. Malformed input leads to an error value, never to a panic.
#![forbid(unsafe_code)]

pub mod access;
mod dump;
mod event;
mod file;
mod flags;
mod names;
mod record;
mod template;
mod text;
mod varint;

pub use dump::{dump_event, dump_header, dump_json, dump_json_event, dump_line};
pub use event::{
    Event, GAUGES_MAX, Gauge, MARK_TEXT_BYTES_MAX, Mark, MarkKind, Read, Second, Subject, Write,
};
pub use file::{Item, ProfileError, Reader, write_file_header};
pub use flags::Flags;
pub use names::{Class, Encryption, Hierarchy, Method, Protocol, StageName};
pub use record::{
    DEVICE_READS_MAX, Names, RECORD_BYTES_MAX, RECORD_VERSION, Record, STAGES, Stage, clamp_us,
};
pub use template::{FIELDS_MAX, TEMPLATE_BYTES_MAX, Template, fields as template_fields};
pub use text::time as time_text;
