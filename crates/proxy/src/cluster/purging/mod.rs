//! Purges of the whole cluster.

pub mod change;
pub mod gate;
pub mod journal;
pub mod medium;
pub mod stamp;
pub mod message;
pub mod rejoining;
pub mod telling;
pub mod window;
