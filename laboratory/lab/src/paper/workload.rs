//! The disk requests of an experiment, and what their numbers are.
//!
//! Not known here: where they come from.   Limits: 16 bytes of memory a request.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::disks::HEADER_BYTES;
use crate::managers::SLOT_BYTES;
use crate::{DiskOp, DiskRequest};

/// Requests to the disk, and the requests of clients they come from.
#[derive(Debug, Clone)]
pub struct Workload {
    /// In order.
    pub requests: Vec<DiskRequest>,
    /// What they add up to.
    pub counts: Counts,
    /// The most that is alive at a time, in slots of 512 bytes, with headers.
    pub live_slots_max: u64,
}

/// How many of what.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Requests of clients.
    pub gets: u64,
    /// Answered from memory.
    pub memory_hits: u64,
    /// Read from disk.
    pub reads: u64,
    /// Written to disk.
    pub writes: u64,
    /// Removed from disk.
    pub deletes: u64,
    /// Bytes written.
    pub write_bytes: u64,
    /// Bytes read.
    pub read_bytes: u64,
}

/// Slots of an object with its header.
fn slots(size_bytes: u32) -> u64 {
    (u64::from(size_bytes) + u64::from(HEADER_BYTES)).div_ceil(u64::from(SLOT_BYTES))
}

impl Workload {
    /// Counts the requests.
    pub fn new(gets: u64, memory_hits: u64, requests: Vec<DiskRequest>) -> Workload {
        let mut counts = Counts {
            gets,
            memory_hits,
            ..Counts::default()
        };
        let mut live: HashMap<u32, u64> = HashMap::new();
        let (mut now, mut most) = (0, 0);
        for request in &requests {
            let bytes = u64::from(request.size_bytes);
            match request.op {
                DiskOp::Read => {
                    counts.reads += 1;
                    counts.read_bytes += bytes;
                }
                DiskOp::Write => {
                    counts.writes += 1;
                    counts.write_bytes += bytes;
                    now += slots(request.size_bytes);
                    live.insert(request.object, slots(request.size_bytes));
                    most = most.max(now);
                }
                DiskOp::Delete => {
                    counts.deletes += 1;
                    now -= live.remove(&request.object).unwrap_or(0);
                }
            }
        }
        Workload {
            requests,
            counts,
            live_slots_max: most,
        }
    }

    /// The size of a file that is filled to this share when the most is alive. In whole megabytes, so that pages and clusters fit.
    pub fn file_bytes(&self, utilisation: f64) -> u64 {
        let bytes = self.live_slots_max as f64 * f64::from(SLOT_BYTES) / utilisation;
        (bytes / f64::from(1 << 20)).ceil() as u64 * (1 << 20)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_alive_is_found() {
        let request = |op, object, size_bytes| DiskRequest {
            op,
            object,
            server: 0,
            size_bytes,
        };
        let load = Workload::new(
            9,
            2,
            vec![
                request(DiskOp::Write, 1, 448),
                request(DiskOp::Write, 2, 449),
                request(DiskOp::Read, 1, 448),
                request(DiskOp::Delete, 2, 449),
                request(DiskOp::Write, 3, 10),
            ],
        );
        assert_eq!(load.live_slots_max, 3);
        assert_eq!((load.counts.writes, load.counts.write_bytes), (3, 907));
        assert_eq!(load.file_bytes(0.5), 1 << 20);
    }
}
