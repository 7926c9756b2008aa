//! To be replaced by `generate` and `cache`: a small stream of disk requests, until those are here.
//!
//! Visits to pages of servers, interleaved; a share of them repeats earlier visits at a distance whose logarithm is uniform, so that
//! memory and disk caches of the paper's sizes hit about as often as the paper's. Sizes are lognormal with a Pareto tail.
//!
//! Limits: counts are near the paper's, not within 2 %.   Source: paper 002, section 3.1.

use std::collections::{BTreeMap, VecDeque};

use crate::{DiskOp, DiskRequest};

/// What a cache was asked, and what it asked of its disk.
#[derive(Debug, Clone, Default)]
pub struct Made {
    /// Requests of clients.
    pub gets: u64,
    /// Answered from memory.
    pub memory_hits: u64,
    /// Requests to the disk.
    pub requests: Vec<DiskRequest>,
}

/// Simultaneous visits.
const CLIENTS: usize = 40;
const AGAIN: f64 = 0.40;
const STAYS: f64 = 0.7;
const OBJECTS_A_PAGE: u32 = 5;

struct Chance(u64);

impl Chance {
    fn unit(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }

    fn below(&mut self, n: u32) -> u32 {
        (self.unit() * f64::from(n)) as u32
    }

    fn size(&mut self) -> u32 {
        if self.unit() < 0.01 {
            return (25_000.0 / (1.0 - self.unit()).powf(0.8)).min(4e6) as u32;
        }
        let normal: f64 = (0..12).map(|_| self.unit()).sum::<f64>() - 6.0;
        (3000.0 * (0.95 * normal).exp()) as u32 + 50
    }
}

#[derive(Clone, Copy)]
struct Page {
    server: u32,
    first: u32,
    objects: u32,
}

/// Least recently used out, by bytes.
#[derive(Default)]
struct Lru {
    order: BTreeMap<u64, u32>,
    at: Vec<u64>,
    bytes: u64,
    clock: u64,
}

impl Lru {
    fn touch(&mut self, object: u32) -> bool {
        let at = self.at.get(object as usize).copied().unwrap_or(0);
        if at == 0 {
            return false;
        }
        self.order.remove(&at);
        self.put(object);
        true
    }

    fn put(&mut self, object: u32) {
        self.clock += 1;
        if self.at.len() <= object as usize {
            self.at.resize(object as usize + 1, 0);
        }
        self.at[object as usize] = self.clock;
        self.order.insert(self.clock, object);
    }

    fn insert(&mut self, object: u32, sizes: &[u32], capacity: u64, mut out: impl FnMut(u32)) {
        let size = u64::from(sizes[object as usize]);
        while self.bytes + size > capacity {
            let Some((_, gone)) = self.order.pop_first() else {
                break;
            };
            self.at[gone as usize] = 0;
            self.bytes -= u64::from(sizes[gone as usize]);
            out(gone);
        }
        self.bytes += size;
        self.put(object);
    }
}

/// The requests behind caches of so many bytes, until `stop` says so: gets and disk requests so far go in.
pub fn make(seed: u64, memory: u64, disk: u64, mut stop: impl FnMut(u64, usize) -> bool) -> Made {
    let mut chance = Chance(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut sizes: Vec<u32> = Vec::new();
    let mut server_of: Vec<u32> = Vec::new();
    let mut history: Vec<Page> = Vec::new();
    let mut servers = 0;
    let mut clients: Vec<(u32, VecDeque<u32>)> = vec![(0, VecDeque::new()); CLIENTS];
    let (mut in_memory, mut on_disk) = (Lru::default(), Lru::default());
    let mut made = Made::default();
    while !stop(made.gets, made.requests.len()) {
        let client = &mut clients[chance.below(CLIENTS as u32) as usize];
        let Some(object) = client.1.pop_front() else {
            let back = (chance.unit() * 212_000f64.ln()).exp() as usize;
            let page = if chance.unit() < AGAIN && back <= history.len() && back > 0 {
                history[history.len() - back]
            } else {
                if chance.unit() > STAYS {
                    client.0 = match history.len() as u32 {
                        n if n == 0 || chance.unit() < 0.5 => {
                            servers += 1;
                            servers
                        }
                        n => history[chance.below(n) as usize].server,
                    };
                }
                let objects = 1 + chance.below(2 * OBJECTS_A_PAGE - 1);
                let first = sizes.len() as u32;
                for _ in 0..objects {
                    sizes.push(chance.size());
                    server_of.push(client.0);
                }
                Page {
                    server: client.0,
                    first,
                    objects,
                }
            };
            client.0 = page.server;
            client.1.extend(page.first..page.first + page.objects);
            history.push(page);
            continue;
        };
        made.gets += 1;
        if in_memory.touch(object) {
            made.memory_hits += 1;
            continue;
        }
        let request = |op, object: u32| DiskRequest {
            op,
            object,
            server: server_of[object as usize],
            size_bytes: sizes[object as usize],
        };
        if on_disk.touch(object) {
            made.requests.push(request(DiskOp::Read, object));
        } else {
            let requests = &mut made.requests;
            on_disk.insert(object, &sizes, disk, |gone| {
                requests.push(request(DiskOp::Delete, gone))
            });
            made.requests.push(request(DiskOp::Write, object));
        }
        in_memory.insert(object, &sizes, memory, |_| ());
    }
    made
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_requests_and_they_make_sense() {
        let some = |seed| make(seed, 5 << 20, 20 << 20, |gets, _| gets == 20_000);
        let made = some(1);
        assert_eq!(made.requests, some(1).requests);
        assert_ne!(made.requests, some(2).requests);
        let mut live = std::collections::HashSet::new();
        for request in &made.requests {
            match request.op {
                DiskOp::Write => assert!(live.insert(request.object)),
                DiskOp::Read => assert!(live.contains(&request.object)),
                DiskOp::Delete => assert!(live.remove(&request.object)),
            }
        }
        assert!(
            made.memory_hits > 2000 && made.memory_hits < 12_000,
            "{}",
            made.memory_hits
        );
    }
}
