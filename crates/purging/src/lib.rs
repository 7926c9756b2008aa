//! Purges of a whole cluster: the decisions.
//!
//! A purge that any member receives takes effect at all. That member applies it, tells all members with a link, and acknowledges it when each of
//! them has it durably. A member that is away hears it when it is back, before it serves any object from before, because every member
//! keeps a journal of all purges, its own and those of others. Purges of others are told only from the journal, to a member that has said
//! how far it has heard, so no purge circulates.
//!
//! | file | story |
//! |---|---|
//! | `change` | the contents of a purge |
//! | `stamp` | which purges a member has heard of |
//! | `journal`, `medium` | the journal of purges for members that are away; its files |
//! | `message` | the messages between two members |
//! | `telling` | which member is told which purges, and when a purge is acknowledged |
//! | `rejoining`, `gate` | when a member that was away may serve stored objects again, and what it serves until then |
//!
//! Input are events, the time and the state of the links; output are messages and commands. Only the journal does I/O: its segments are files,
//! or are in memory (`medium`).
//!
//! When a purge is acknowledged, no member with a link serves or stores what was stored before it, and a member that is away will not after it
//! has rejoined. A running member that has lost all its links (a partition) does not know of the purge: it goes on serving its own clients
//! from its store until it is linked again, and other members do not ask it.
//!
//! Not known here: the cache, links, threads, requests of clients.
//! Limits: see the files.
#![forbid(unsafe_code)]

pub mod change;
pub mod gate;
pub mod journal;
pub mod medium;
pub mod message;
pub mod rejoining;
pub mod stamp;
pub mod telling;
