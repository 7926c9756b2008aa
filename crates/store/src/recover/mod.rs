//! Opening a store: superblock, checkpoints, region journal, scan.

pub mod checkpoint;
pub mod journal;
mod loaded;
mod logged;
pub mod open;
pub mod picture;
pub mod rebuild;
mod resumption;
pub mod scan;
pub mod scan_reads;
pub mod scanned;
pub mod snapshot;
pub mod superblock;
