//! Hits: stored objects that answer plain requests, for all protocols.
//!
//! ```text
//! look ─┬─> fresh in memory ──────────────────────────┐
//!       ├─> on disk ─> read ─┬─> fresh and small ─────┴─> Hit ─> Sink: head and body ─> counted, logged
//!       │                    └─> large, stale, gone ─┐
//!       └─> absent, or not plain ────────────────────┴─> the long way, with the results so far
//! ```
//!
//! `look` chooses the object. HTTP/1 ([`crate::conn::fast`]) and HTTP/2 ([`crate::h2`]) each provide a [`Sink`](answer::Sink) for
//! sending it.
//!
//! | file | contents |
//! |---|---|
//! | `look` | the look-up of a plain request |
//! | `answer` | head, body and record of a hit |
//! | `disk` | an object that must be read first |
//!
//! Not known here: the wire format of a request or an answer.

pub mod answer;
pub mod disk;
pub mod look;
