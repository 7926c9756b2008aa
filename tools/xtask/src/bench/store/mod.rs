//! Experiments on the store's use of disk and memory and on its recovery, one in each file.

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
