//! Purges of a whole cluster: what is decided of them.
//!
//! A purge that one member is asked for holds at all. It is applied there, told to all members with a link, and acknowledged when each of
//! them has it durable. Members that are away hear it when they are back, before they serve anything they had stored: every member keeps
//! a journal of all purges, its own and those it was told. A member tells purges of others only
//! out of its journal, to members that have said how far they have heard, so nothing goes round.
//!
//! | file | story |
//! |---|---|
//! | `change` | what goes, as it is told |
//! | `stamp` | which purges a member has heard of |
//! | `journal`, `medium` | the purges that members which are away have to hear; where they lie |
//! | `message` | what members say to each other |
//! | `telling` | who is told what, and when a purge is acknowledged |
//! | `rejoining`, `gate` | when a member that was away serves again what it had stored, and what it serves until then |
//!
//! Events, the time and the state of the links come in; messages and commands come out. Only the journal touches the world: its segments
//! are files, or memory (`medium`).
//!
//! What holds when a purge is acknowledged: no member with a link serves what was stored before it, nor stores it again; one that is away
//! will not when it has rejoined. A member that lives but has lost all links (a partition) does not know of the purge: it serves
//! what it has to its own clients until it is linked again, and other members do not ask it.
//!
//! Not known here: what is stored and how it is forgotten, links, threads, what clients ask.
//! Limits: those of the files.
#![forbid(unsafe_code)]

pub mod change;
pub mod gate;
pub mod journal;
pub mod medium;
pub mod message;
pub mod rejoining;
pub mod stamp;
pub mod telling;
