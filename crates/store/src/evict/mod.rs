//! Making room: which records and regions go, and which are spared, kept or moved.

pub mod aging;
pub mod choose;
pub mod coming;
pub mod grid;
pub mod left;
pub mod moves;
pub mod need;
pub mod needed;
pub mod region;
pub mod reinsert;
pub mod room;
pub mod window;
