//! What a server stands on: time, chance, sockets, deadlines, and what may be held of heads.
//!
//! In the simulation time and sockets are others (`clock`, `socket`); nothing above this crate notices.
//!
//! Not known here: HTTP, configuration.
#![forbid(unsafe_code)]

pub mod accepting;
pub mod access;
pub mod chance;
pub mod clock;
pub mod deadline;
pub mod heads;
pub mod listening;
pub mod member;
pub mod mistakes;
pub mod notify;
pub mod phase;
pub mod pulse;
pub mod reloads;
pub mod socket;
pub mod upgrades;
pub mod x509;
