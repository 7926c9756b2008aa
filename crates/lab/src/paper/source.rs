//! Where the disk requests of an experiment come from.
//!
//! To be replaced when `generate` and `cache` are here: `stand_in` makes them now.

use crate::stand_in;

use super::workload::Workload;

/// A stream like the paper's behind 512 MB of memory and a disk of so many bytes, until it has made so many disk requests.
pub fn requests(seed: u64, disk_bytes: u64, memory_bytes: u64, disk_requests: usize) -> Workload {
    let made = stand_in::make(seed, memory_bytes, disk_bytes, |_, n| n >= disk_requests);
    Workload::new(made.gets, made.memory_hits, made.requests)
}

/// The same until so many gets.
pub fn gets(seed: u64, disk_bytes: u64, memory_bytes: u64, gets: u64) -> Workload {
    let made = stand_in::make(seed, memory_bytes, disk_bytes, |n, _| n >= gets);
    Workload::new(made.gets, made.memory_hits, made.requests)
}
