//! What the store does with a disk, with memory, with a crash: one file an experiment.

mod comeback;
mod disk;
mod load;
mod pss;
pub mod sheet;

pub mod age;
pub mod child;
pub mod io;
pub mod memory;
pub mod rivals;
pub mod start;
