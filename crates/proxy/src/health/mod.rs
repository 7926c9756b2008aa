//! Heartbeats, devices that are set aside, and panics.

pub mod panicking;
pub mod pulse;
pub mod watch;
