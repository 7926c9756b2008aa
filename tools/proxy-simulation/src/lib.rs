//! The whole proxy in virtual time: one seed always gives the same run.
//!
//! Clients send requests by HTTP/1, HTTP/2 and through tunnels, and origins answer. Both behave like real ones: they are slow, break off,
//! hang, send private responses, change resources. One name has several servers, which go down; one listener has quotas; one is a mirror.
//! Between them runs the real proxy, on a disk that fails and corrupts. It is stopped, killed, or loses its power from time to time.
//! Operators purge. Each answer is compared with what the origins really sent (`check`).
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
//! | file | story |
//! |---|---|
//! | `run`, `chosen`, `life` | one run; the choices of its seed; starts and ends of the proxy |
//! | `world` | the truth: resources, answers and purges, and their order |
//! | `ask`, `client`, `h2`, `tunnel` | requests; clients of HTTP/1 and HTTP/2; both ends of tunnels |
//! | `http`, `origin`, `operators` | messages of HTTP/1; origins, servers and mirrors; purges, changes and failures |
//! | `check`, `drill` | the rules; those that are tested when all clients have gone |
//! | `disk` | the faulty disk |
//!
//! Not simulated: several threads at once, TLS, names, reloads, clusters.
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
