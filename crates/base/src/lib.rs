//! The base of a server: time, chance, sockets, deadlines, and limits on the memory for heads.
//!
//! A simulation replaces time and sockets (`clock`, `socket`); the crates above this one do not notice.
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
