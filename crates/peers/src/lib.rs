//! Other proxies that are asked before, or in place of, the origin: parents and siblings ([`plan::Parent`],
//! [`plan::Sibling`]).
//!
//! | file | story |
//! |---|---|
//! | `health` | is a peer alive? |
//! | `choice` | which of several parents comes first |
//! | `known` | the peers of the plan: what workers share of them |
//! | `levels` | at which level a response was a hit |
//! | `proxied` | a request as it goes to another proxy |
//! | `icp` | ICP: queries to siblings, and who waits for their answers |
//! | `digest`, `fetching` | digests: ours and those of siblings |
//! | `recent` | what was purged lately: siblings are not asked for it |
//!
//! A peer is known by its number: its place among the parents, or among the siblings, of the plan. `fetch/whom` puts all of it in
//! order for one request, `fetch/siblings` asks siblings, `fetch/probing` looks whether peers live, `serve/answers` answers ICP.
//!
//! Loops. A request that comes back is known by our name in Via, and by that in CDN-Loop if somebody strips Via. Two siblings that ask
//! each other for one URL do not wait for each other, because a request with `only-if-cached` neither joins a fetch nor starts one
//! that somebody waits for (`request/handle`). Two proxies that are *parents* of each other for the same hosts are a mistake that is
//! seen by Via, unless each has joined a fetch of its own clients: then both wait until `timeouts.origin-first-byte`.
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
