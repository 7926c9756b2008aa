//! Other proxies that are asked before, or in place of, the origin: parents and siblings ([`plan::Parent`],
//! [`plan::Sibling`]).
//!
//! | file | story |
//! |---|---|
//! | `health` | is a peer alive? |
//! | `choice` | which of several parents comes first |
//! | `known` | the peers of the plan, and their state that workers share |
//! | `levels` | at which level a response was a hit |
//! | `proxied` | the form of a request to another proxy |
//! | `icp` | ICP: queries to siblings and their answers |
//! | `digest`, `fetching` | digests: ours and those of siblings |
//! | `recent` | recently purged names, which siblings are not asked for |
//!
//! A peer is known by its number: its place in the plan's list of parents, or of siblings. `fetch/whom` decides about all of this for one
//! request, `fetch/siblings` asks siblings, `fetch/probing` checks whether peers are alive, `serve/answers` answers ICP.
//!
//! Loops. A request that comes back is recognised by our name in Via, or in CDN-Loop if a proxy strips Via. Two siblings that ask each other
//! for the same URL do not wait for each other: a request with `only-if-cached` neither joins a fetch nor starts one that others wait
//! for (`request/handle`). Two proxies configured as *parents* of each other for the same hosts are a mistake, which Via reveals, unless each
//! request has joined a fetch of that proxy's own clients: then both wait until `timeouts.origin-first-byte`.
//!
//! Not known here: what is stored, what a client may have.
#![forbid(unsafe_code)]

pub mod choice;
pub mod digest;
pub mod fetching;
pub mod health;
pub mod icp;
pub mod known;
pub mod levels;
pub mod proxied;
pub mod recent;
