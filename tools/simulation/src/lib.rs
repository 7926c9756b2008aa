//! The store on a faulty disk in virtual time: one seed always gives the same run.
//!
//! A run is a sequence of random steps: fills that begin and end, look-ups whose reads take time, invalidations of one key and by
//! predicate, closes, kills, power cuts, crashes during recovery. The disk has the faults of real disks ([`faults`]), within the
//! limits that the store may rely on ([`areas`]). Every answer and every recovery is checked by the rules of [`check`] against the
//! truth ([`world`]).
//!
//! ```text
//!           chance (seed)
//!              |
//! world <--- run ---> simulated_store ---> store
//!   |          |      (the only file that knows the store's calls)
//! check <---- disk <--- faults, areas
//! ```
//!
//! Not simulated: threads (a stress test covers them), the proxy, real devices.
//!
//! Not known here: the command line; `cargo xtask sim` runs this.
#![forbid(unsafe_code)]

pub mod areas;
pub mod check;
mod crash;
pub mod disk;
pub mod faults;
mod hostile;
pub mod mistakes;
mod needing;
mod operations;
mod random;
mod reading;
mod reinserting;
pub mod report;
mod run;
mod simulated_store;
mod upgrade;
pub mod world;

pub use check::Waived;
pub use mistakes::{Mistake, Named};
pub use random::Random;
pub use report::{Failure, Report};
pub use run::{Options, run};
