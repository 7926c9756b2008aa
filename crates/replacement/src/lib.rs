//! What to keep: which object goes when room is needed, and how much goes at once.
//!
//! Objects are known by *slot*, a small dense number that the caller gives out (the place of its entry in an index).
//! A policy keeps an order of slots:
//!
//! | type | |
//! |---|---|
//! | [`Lru`] | exact least recently used, the baseline |
//! | [`LruThreshold`] | the same, but objects above a size are not admitted |
//! | [`Gdsf`] | small and often asked for objects stay |
//! | [`ByWorth`] | the same by classes, where a use must cost no more than with LRU: the memory tier's |
//! | [`Admission`] | whether to store a newcomer at all |
//! | [`Watermarks`] | when to start evicting, and when to stop |
//!
//! [`Policy`] is the seam for others. The storage lab has S3-FIFO, SIEVE, LHD and W-TinyLFU behind it: each hits more than LRU on some
//! traces and less on others (docs/lab-traces.md). The caller may use a policy directly, or have one chosen at start by
//! [`PolicyKind`]; there the choice costs a predictable branch, not a call through a pointer.
//!
//! Not known here: storage, HTTP, keys, time.
//! Limits: [`SLOTS_MAX`] slots.
//! Source: paper 000 section 5 (LRU "as Squid"); the newer policies name theirs in their files; the
//! watermarks are Squid's `cache_swap_high` and `cache_swap_low`.
#![forbid(unsafe_code)]

mod admission;
mod gdsf;
mod lru;
mod policy;
mod selected;
mod sketch;
mod slots;
mod threshold;
mod trial;
mod watermarks;
mod worth;

pub use admission::{Admission, AdmissionKind, UnknownAdmission};
pub use gdsf::Gdsf;
pub use lru::Lru;
pub use policy::Policy;
pub use selected::{PolicyKind, Selected, UnknownPolicy};
pub use sketch::Sketch;
pub use slots::{SLOTS_MAX, slots_to_hold};
pub use threshold::LruThreshold;
pub use watermarks::Watermarks;
pub use worth::ByWorth;
