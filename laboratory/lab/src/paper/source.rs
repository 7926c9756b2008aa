//! Where the disk requests of an experiment come from: `generate` and `cache`.

use crate::cache::{LevelSettings, Method, Settings};
use crate::generate::DecLike;

use super::workload::Workload;

fn make(
    seed: u64,
    disk_bytes: u64,
    memory_bytes: u64,
    mut stop: impl FnMut(u64, usize) -> bool,
) -> Workload {
    let like = DecLike {
        seed,
        requests: u64::MAX,
        ..DecLike::default()
    };
    let mut method = Method::new(&Settings {
        memory: LevelSettings::lru(memory_bytes),
        disk: LevelSettings::lru(disk_bytes),
    });
    let mut requests = Vec::new();
    for access in like.stream() {
        if stop(method.counts().gets, requests.len()) {
            break;
        }
        method.get(&access, |request| requests.push(request));
    }
    let counts = method.counts();
    Workload::new(counts.gets, counts.memory_hits, requests)
}

/// A stream like the paper's behind 512 MB of memory and a disk of so many bytes, until it has made so many disk requests.
pub fn requests(seed: u64, disk_bytes: u64, memory_bytes: u64, disk_requests: usize) -> Workload {
    make(seed, disk_bytes, memory_bytes, |_, n| n >= disk_requests)
}

/// The same until so many gets.
pub fn gets(seed: u64, disk_bytes: u64, memory_bytes: u64, gets: u64) -> Workload {
    make(seed, disk_bytes, memory_bytes, |n, _| n >= gets)
}
