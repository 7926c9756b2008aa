//! The store over a faulty disk in virtual time: one seed, one run, always the same.
//!
//! A run is a sequence of steps chosen by chance: fills that begin and end, look-ups whose reads take their time,
//! invalidations of one key and by predicate, closes, kills, power cuts, crashes during recovery. The disk does what
//! disks do ([`faults`]), but for what the store may rely on ([`areas`]). After every answer and every recovery
//! the rules of [`check`] are applied to the truth ([`world`]).
//!
//! ```text
//!           chance (seed)
//!              |
//! world <--- run ---> store ---> store          store: the only file that knows the store's calls
//!   |          |
//! check <---- disk <--- faults, areas
//! ```
//!
//! What is not simulated: threads (a stress test does that), the proxy, real devices.
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
