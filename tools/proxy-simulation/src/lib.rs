//! The whole proxy in virtual time: one seed, one run, always the same.
//!
//! Clients ask, origins answer, and both do what real ones do: they are slow, break off, hang, send what is private, change their
//! minds. Between them runs the product's own proxy, all of its threads as tasks of one runtime, over a disk that loses, tears and
//! corrupts. Every so often it is stopped, killed, or the power goes. Operators purge. Each answer is compared with what the origins
//! have really sent (`check`).
//!
//! ```text
//!               chance (seed)
//!                    |
//!  clients <------- run -------> lives: start, kill, power cut, stop
//!     |  sockets                   |
//!     +--------> proxy <-----------+
//!     |          |   |
//!     |     origin   disk (simulation::disk: the store's faulty disk)
//!     |          |
//!     +-> check: world (what was sent, changed, purged, and when)
//! ```
//!
//! What is not simulated: several threads at once, TLS, names, tunnels.
//!
//! Not known here: the command line; `cargo xtask sim --proxy` runs this.
#![forbid(unsafe_code)]

mod ask;
mod check;
mod chosen;
mod client;
mod disk;
mod drill;
mod h2;
mod http;
mod life;
mod operators;
mod origin;
mod report;
mod run;
mod tunnel;
mod world;

pub use report::{Failure, Report};
pub use run::{Options, run};
