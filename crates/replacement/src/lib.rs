//! What to keep: which object goes when room is needed, and how much goes at once.
//!
//! Objects are known by *slot*, a small dense number that the caller gives out (the place of its entry in an index).
//! A policy keeps an order of slots; some
//! remember objects that left, by a hash of the key which the caller tells:
//!
//! | type | |
//! |---|---|
//! | [`Lru`] | exact least recently used, the baseline |
//! | [`LruThreshold`] | the same, but objects above a size are not admitted |
//! | [`S3Fifo`] | three queues; newcomers prove themselves in a small one |
//! | [`Sieve`] | one queue, and a hand that spares what was asked for |
//! | [`WTinyLfu`] | a window, and a main part that wants to be asked for more often |
//! | [`Gdsf`] | small and often asked for objects stay |
//! | [`Admission`] | whether to store a newcomer at all |
//! | [`Watermarks`] | when to start evicting, and when to stop |
//!
//! [`Policy`] is the seam for others. The caller may use a policy directly, or have one chosen at start by
//! [`PolicyKind`]; there the choice costs a predictable branch, not a call through a pointer.
//!
//! Not known here: storage, HTTP, keys, time.
//! Limits: [`SLOTS_MAX`] slots.
//! Source: paper 000 section 5 (LRU "as Squid"); the newer policies name theirs in their files; the
//! watermarks are Squid's `cache_swap_high` and `cache_swap_low`.
#![forbid(unsafe_code)]

mod admission;
mod gdsf;
mod ghosts;
mod lru;
mod policy;
mod queues;
mod s3_fifo;
mod sieve;
mod sketch;
mod slots;
mod threshold;
mod w_tinylfu;
mod watermarks;

pub use admission::{Admission, AdmissionKind, UnknownAdmission};
pub use gdsf::Gdsf;
pub use lru::Lru;
pub use policy::{Policy, PolicyKind, Selected, UnknownPolicy};
pub use s3_fifo::S3Fifo;
pub use sieve::Sieve;
pub use slots::SLOTS_MAX;
pub use threshold::LruThreshold;
pub use w_tinylfu::WTinyLfu;
pub use watermarks::Watermarks;
