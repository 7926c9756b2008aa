//! Making room: which record or region goes, and what is spared, kept or moved.

pub mod aging;
pub mod choose;
pub mod left;
pub mod moves;
pub mod needed;
pub mod region;
