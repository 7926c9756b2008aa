//! Pushing: a front sends each object that it has fetched to one member that stores it.
//!
//! ```text
//! fetch ── pieces ──> Collecting ── complete ──> queue ── a worker ──> member ── verdict
//!    └──── pieces ──> clients
//! ```
//!
//! Clients and push share the pieces of a body, so a client never waits for a push, nor a push for a client. A push that finds no room
//! in the queue is dropped and counted; the object is then fetched again at its next request.
//!
//! Only objects that a shared cache may store are pushed, and none that was requested with Authorization. A purge between fetch and push wins:
//! at the front if it has heard the purge, and always at the member (`fetch/receiving`).
//!
//! Hints are registered when a push begins (*eager*): from then on requests go to the member, and the client's response need not wait.
//!
//! | file | story |
//! |---|---|
//! | `pushing`, `context` | the shared state of pushes; what a worker needs for them |
//! | `message` | the format of a push, and the verdicts |
//! | `began` | the state of purges when a fetch began |
//! | `queue` | pushes that wait or are being sent |
//! | `sending` | sends pushes to members |
//! | `eager` | hints for pushed objects |
//! | `target` | chooses the member for a push |
//! | `large` | resources that are too long to be pushed |
//! | `copied` | hot objects, copied to this front and to further members |
//!
//! Not known here: what the member does with a push.
//! Limits: those of `queue`. A push is given up after `sending::PUSH_MAX`. If a member does not take it, others are tried, each once.

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
