//! The disk requests of an experiment, and their counts.
//!
//! Not known here: where the requests come from.
//! Limits: those of `requests`; besides, 16 bytes of memory for each object that is alive.

use std::collections::{HashMap, VecDeque};
use std::io;

use serde::{Deserialize, Serialize};

use crate::disks::HEADER_BYTES;
use crate::managers::SLOT_BYTES;
use crate::requests::{Gathering, Requests};
use crate::{DiskOp, DiskRequest};

/// Reads in a batch of the paper's lazy reads. A read or write is near another if one of the nine before it was for its server.
const BATCH: usize = 10;

/// Disk requests, with counts of the client requests that caused them.
#[derive(Debug)]
pub struct Workload {
    /// The requests in order.
    pub requests: Requests<DiskRequest>,
    /// Their counts.
    pub counts: Counts,
    /// Most slots of 512 bytes in use at a time, including headers.
    pub live_slots_max: u64,
    /// Most objects stored at a time.
    pub live_objects_max: u64,
    /// Reads for a server that one of the nine reads before was for, too.
    pub near_reads: u64,
    /// Writes with the same property; no locality buffer is needed to gather these.
    pub near_writes: u64,
}

/// Counts of requests and bytes.
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
    /// Deletes of older versions, whose object is written again at once.
    pub replaced: u64,
    /// Bytes written.
    pub write_bytes: u64,
    /// Bytes read.
    pub read_bytes: u64,
}

impl Counts {
    /// Reads, writes and deletes.
    pub fn disk_requests(&self) -> u64 {
        self.reads + self.writes + self.deletes
    }
}

/// Slots of an object with its header.
fn slots(size_bytes: u32) -> u64 {
    (u64::from(size_bytes) + u64::from(HEADER_BYTES)).div_ceil(u64::from(SLOT_BYTES))
}

/// Servers of the last nine requests of a kind, and the number of requests near another.
#[derive(Debug, Default)]
struct Near {
    last: VecDeque<u32>,
    near: u64,
}

impl Near {
    fn add(&mut self, server: u32) {
        self.near += u64::from(self.last.contains(&server));
        if self.last.len() == BATCH - 1 {
            self.last.pop_front();
        }
        self.last.push_back(server);
    }
}

/// Counts requests, and keeps them if wanted.
#[derive(Debug)]
pub struct Building {
    gathering: Option<Gathering<DiskRequest>>,
    counts: Counts,
    live: HashMap<u32, u64>,
    live_slots: u64,
    live_slots_max: u64,
    live_objects_max: u64,
    deleted_last: Option<u32>,
    reads: Near,
    writes: Near,
    failed: Option<io::Error>,
}

impl Building {
    /// An empty workload. `keep`: keep the requests, not only their counts.
    pub fn new(keep: bool) -> Building {
        Building {
            gathering: keep.then(Gathering::default),
            counts: Counts::default(),
            live: HashMap::new(),
            live_slots: 0,
            live_slots_max: 0,
            live_objects_max: 0,
            deleted_last: None,
            reads: Near::default(),
            writes: Near::default(),
            failed: None,
        }
    }

    /// The number of requests so far.
    pub fn len(&self) -> u64 {
        self.counts.disk_requests()
    }

    /// Whether there are no requests yet.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether writing the requests failed, so that adding more is useless; [`Building::finish`] returns the error.
    pub fn has_failed(&self) -> bool {
        self.failed.is_some()
    }

    /// Adds a request.
    pub fn add(&mut self, request: DiskRequest) {
        let bytes = u64::from(request.size_bytes);
        let counts = &mut self.counts;
        match request.op {
            DiskOp::Read => {
                counts.reads += 1;
                counts.read_bytes += bytes;
                self.reads.add(request.server);
            }
            DiskOp::Write => {
                counts.writes += 1;
                counts.write_bytes += bytes;
                self.writes.add(request.server);
                counts.replaced += u64::from(self.deleted_last == Some(request.object));
                self.deleted_last = None;
                let slots = slots(request.size_bytes);
                self.live_slots += slots;
                self.live.insert(request.object, slots);
                self.live_slots_max = self.live_slots_max.max(self.live_slots);
                self.live_objects_max = self.live_objects_max.max(self.live.len() as u64);
            }
            DiskOp::Delete => {
                counts.deletes += 1;
                // The delete of an older version comes before the deletes that make room for the new one.
                self.deleted_last = self.deleted_last.or(Some(request.object));
                self.live_slots -= self.live.remove(&request.object).unwrap_or(0);
            }
        }
        if let Some(gathering) = &mut self.gathering
            && self.failed.is_none()
        {
            self.failed = gathering.add(request).err();
        }
    }

    /// Ends the workload.
    pub fn finish(self, gets: u64, memory_hits: u64) -> io::Result<Workload> {
        if let Some(failed) = self.failed {
            return Err(failed);
        }
        let requests = match self.gathering {
            Some(gathering) => gathering.finish()?,
            None => Vec::new().into(),
        };
        Ok(Workload {
            requests,
            counts: Counts {
                gets,
                memory_hits,
                ..self.counts
            },
            live_slots_max: self.live_slots_max,
            live_objects_max: self.live_objects_max,
            near_reads: self.reads.near,
            near_writes: self.writes.near,
        })
    }
}

impl Workload {
    /// A workload of these requests.
    pub fn new(gets: u64, memory_hits: u64, requests: Vec<DiskRequest>) -> Workload {
        let mut building = Building::new(false);
        requests.iter().for_each(|&request| building.add(request));
        let counted = building.finish(gets, memory_hits);
        Workload {
            requests: requests.into(),
            ..counted.expect("counting does no I/O")
        }
    }

    /// The size of a file whose share in use is at most `utilisation`. In whole megabytes, so that pages and clusters fit.
    pub fn file_bytes(&self, utilisation: f64) -> u64 {
        let bytes = self.live_slots_max as f64 * f64::from(SLOT_BYTES) / utilisation;
        (bytes / f64::from(1 << 20)).ceil() as u64 * (1 << 20)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(op: DiskOp, object: u32, size_bytes: u32) -> DiskRequest {
        DiskRequest {
            op,
            object,
            server: object / 10,
            size_bytes,
        }
    }

    #[test]
    fn the_most_alive_is_found() {
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
        assert_eq!((load.live_slots_max, load.live_objects_max), (3, 2));
        assert_eq!((load.counts.writes, load.counts.write_bytes), (3, 907));
        assert_eq!(load.file_bytes(0.5), 1 << 20);
        assert_eq!(load.requests.len(), 5);
    }

    #[test]
    fn newer_versions_and_near_reads_are_counted() {
        let mut requests: Vec<_> = (0..3).map(|n| request(DiskOp::Write, n, 10)).collect();
        requests.extend([
            request(DiskOp::Delete, 1, 10),
            request(DiskOp::Delete, 2, 10),
            request(DiskOp::Write, 1, 20),
            request(DiskOp::Delete, 0, 10),
            request(DiskOp::Write, 30, 10),
        ]);
        // Reads for servers 0, 3, 3: the last is near. After ten other servers, a read for 3 is not.
        requests.extend([1, 30, 31].map(|n| request(DiskOp::Read, n, 10)));
        requests.extend((4..14).map(|n| request(DiskOp::Read, n * 10, 10)));
        requests.push(request(DiskOp::Read, 30, 10));
        let load = Workload::new(1, 0, requests);
        // The writes are for servers 0, 0, 0, 0, 3.
        assert_eq!((load.counts.replaced, load.near_reads), (1, 1));
        assert_eq!(load.near_writes, 3);
    }
}
