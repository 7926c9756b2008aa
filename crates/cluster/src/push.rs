//! A front that pushes what it fetched: each object to one member that keeps it.
//!
//! ```text
//! fetch ── pieces ──> Collecting ── complete ──> queue ── a worker ──> member ── verdict
//!    └──── pieces ──> clients
//! ```
//!
//! Clients and push share the pieces of a body, so a client never waits for a push, nor a push for a client. A push that finds no room
//! is dropped and counted; the object is then fetched once more when it is asked for again.
//!
//! Only what may be stored for everybody is pushed, and nothing that was asked for with Authorization. A purge that comes
//! between fetch and push wins: here, where the front has heard it, and at the member in any case (`fetch/receiving`).
//!
//! Hints are registered when a push begins (*eager*): requests go to the member from then on, whose answer waits for nothing.
//!
//! | file | story |
//! |---|---|
//! | `pushing`, `context` | what all threads share of pushes; what a worker has for them |
//! | `message` | what a push looks like, and the verdicts |
//! | `began` | how purges stood when a fetch began |
//! | `queue` | what waits, and what is on its way |
//! | `sending` | carrying it to members |
//! | `eager` | hints of what is pushed |
//! | `target` | to which member a push goes |
//! | `large` | what is too long to be pushed |
//! | `copied` | what is hot, and so kept here and given to further members |
//!
//! Not known here: what the member does with it.
//! Limits: `queue`; a push is given up after `sending::PUSH_MAX`; a member that does not take one is followed by another, each tried once.

pub mod began;
pub mod context;
pub mod copied;
pub mod eager;
pub mod large;
pub mod message;
pub mod pushing;
pub mod queue;
pub mod sending;
pub mod target;

pub use began::Began;
pub use context::PushContext;
pub use copied::Copied;
pub use pushing::{Push, PushCounters, Pushing, Receiving};
