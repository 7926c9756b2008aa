//! What to keep: which object goes when room is needed, and how much goes at once.
//!
//! Objects are known by *slot*, a small dense number that the caller gives out (the place of its entry in an index).
//! A policy keeps an order of slots and nothing else:
//!
//! | type | |
//! |---|---|
//! | [`Lru`] | exact least recently used, the baseline |
//! | [`LruThreshold`] | the same, but objects above a size are not admitted |
//! | [`Watermarks`] | when to start evicting, and when to stop |
//!
//! [`Policy`] is the seam for others. The caller may use a policy directly, or have one chosen at start by
//! [`PolicyKind`]; there the choice costs a predictable branch, not a call through a pointer.
//!
//! Not known here: storage, HTTP, keys, time.
//! Limits: [`SLOTS_MAX`] slots.
//! Source: paper 000 section 5 (LRU "as Squid"); the watermarks are Squid's `cache_swap_high` and `cache_swap_low`.
#![forbid(unsafe_code)]

mod lru;
mod policy;
mod threshold;
mod watermarks;

pub use lru::{Lru, SLOTS_MAX};
pub use policy::{Policy, PolicyKind, Selected, UnknownPolicy};
pub use threshold::LruThreshold;
pub use watermarks::Watermarks;
