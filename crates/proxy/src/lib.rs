//! The data plane: from a client's bytes to an origin's and back, through memory and disk.
//!
//! Life of a request, by file:
//!
//! | step | file |
//! |---|---|
//! | accepted by a worker | `accepting`, `worker` |
//! | read and parsed | `client` |
//! | answered from memory, the short way | `fast`, `memory` |
//! | its resource and key | `target`, `ports` |
//! | everything else: stored? fresh? whom to ask? | `exchange`, `find` |
//! | read from disk | `disk`, `lazy`, `elevator` |
//! | fetched, shared, stored | `fetch`, `flight`, `unshared`, `interim`, `storing`, `upstream`, `origin` |
//! | a part of what is not stored, or not all | `parts`, `part_sending`, `filling`, `joining`, `turns`, `unkept` |
//! | passed through | `pass`, `head`, `client_body`, `switch`, `tunnel` |
//! | written | `answer`, `pieces`, `multipart`, `rest` |
//! | counted and logged | `state`, `metrics`, `journal` |
//!
//! Beside the requests, one thread does what the stores need done in the background: `keeper`; `opening` opens them.
//!
//! What the process shares is in `state::Shared`, what a worker owns in `state::Worker`. Deciding is left to the
//! pure crates (`http1`, `httpcache`, `store`); this crate moves bytes and waits, and every wait has a limit
//! (`deadline`).
//!
//! Not known here: the command line, configuration files.
#![forbid(unsafe_code)]

mod accepting;
mod access;
mod admin;
mod answer;
mod client;
mod client_body;
mod clock;
mod deadline;
mod disk;
mod elevator;
mod exchange;
mod fast;
mod fetch;
mod filling;
mod find;
mod flight;
mod forwarded;
mod head;
mod holding;
mod interim;
mod joining;
mod journal;
mod keeper;
mod lazy;
mod memory;
mod metrics;
mod multipart;
mod named;
mod object;
mod opening;
mod origin;
mod part_sending;
mod parts;
mod pass;
mod pieces;
pub mod plan;
mod ports;
mod predicate;
mod rest;
mod rulebook;
mod serve;
mod state;
pub mod stored;
mod storing;
mod switch;
mod target;
mod tunnel;
mod turns;
mod unkept;
mod unshared;
mod upstream;
mod worker;

pub use clock::Clock;
pub use opening::StoreError;
pub use serve::{Ready, ServeError, Stopper, serve, start, start_at};
