//! A stored object that answers a plain request, whatever protocol that came in.
//!
//! ```text
//! look ─┬─> fresh in memory ──────────────────────────┐
//!       ├─> on disk ─> read ─┬─> fresh and small ─────┴─> Hit ─> Sink: head and body ─> counted, logged
//!       │                    └─> large, stale, gone ─┐
//!       └─> absent, or not for this way ─────────────┴─> the long way, with what was learnt
//! ```
//!
//! `look` says which object answers. HTTP/1 ([`crate::conn::fast`]) and HTTP/2 ([`crate::h2`]) lend the rest a
//! [`Sink`](answer::Sink) each.
//!
//! | file | story |
//! |---|---|
//! | `look` | the look-up of a plain request |
//! | `answer` | head, body and record of a hit |
//! | `disk` | an object that is read first |
//!
//! Not known here: how a request or an answer looks on the wire.

pub mod answer;
pub mod disk;
pub mod look;
