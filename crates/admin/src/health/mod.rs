//! Heartbeats, devices that are set aside, and panics.

pub mod panicking;
pub mod watch;
