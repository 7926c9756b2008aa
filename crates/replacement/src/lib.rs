//! Replacement: which objects to evict when room is needed, and how much at once.
//!
//! Objects are known by *slot*, a small dense number that the caller assigns (the place of its entry in an index). A policy keeps an order of slots:
//!
//! | type | |
//! |---|---|
//! | [`Lru`] | exact least recently used, the baseline |
//! | [`LruThreshold`] | the same, but objects above a size limit are not admitted |
//! | [`Gdsf`] | keeps small and often requested objects |
//! | [`ByWorth`] | the same by classes, at the cost of LRU for each use; for the memory tier |
//! | [`Admission`] | whether to store a new object at all |
//! | [`Watermarks`] | when to start evicting, and when to stop |
//!
//! Other policies can implement [`Policy`]. The storage lab has S3-FIFO, SIEVE, LHD and W-TinyLFU: each hits more than LRU on some traces and
//! less on others (docs/lab-traces.md). The caller may use a policy directly, or choose one at start by [`PolicyKind`]; the choice then costs a
//! predictable branch, not a call through a pointer.
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
