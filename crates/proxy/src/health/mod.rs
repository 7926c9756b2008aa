//! Does everything that must move, move?

pub mod panicking;
pub mod pulse;
pub mod watch;
