//! The method: turns the requests of a trace into reads, writes and deletes of a disk, behind a memory cache and a disk cache.
//!
//! ```text
//! Access --> memory (512 MiB, LRU) --miss--> disk (2 GiB, LRU) --miss--> the origin
//!              |                               |                           |
//!              hit: nothing                    hit: Read, into memory      Deletes for room, Write, into memory
//! ```
//!
//! A request with another size than before is for a new version: it is a miss, and both caches drop the old version, the disk
//! with a Delete. Every answer of the origin is written, unless the disk cache is smaller than the object or its
//! rule of admission refuses it. An object evicted from memory is not written: it is still on disk, or was evicted from there before.
//! Deletes come before the write for which they make room.
//!
//! Equal requests give equal counts, in every run.
//!
//! Memory: 20 bytes for each object number, and two policies.
//! Source: paper 002, section 3.1 and Figure 1.

mod level;
mod policy;

use std::collections::VecDeque;

use serde::Serialize;

pub use level::{Insertion, Level, LevelSettings};
pub use policy::{PolicyKind, UnknownPolicy};

use crate::{Access, DiskOp, DiskRequest};

/// The two caches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// The memory cache, in front.
    pub memory: LevelSettings,
    /// The disk cache, behind the memory cache.
    pub disk: LevelSettings,
}

impl Default for Settings {
    //= paper 002 section 3.1   512 Mbytes of memory, 2 Gbytes of disk, both LRU
    fn default() -> Self {
        Settings {
            memory: LevelSettings::lru(512 << 20),
            disk: LevelSettings::lru(2 << 30),
        }
    }
}

/// Counts of requests and of disk requests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Requests.
    pub gets: u64,
    /// Answered from memory.
    pub memory_hits: u64,
    /// Answered from disk, with a read each.
    pub disk_hits: u64,
    /// Answered by the origin.
    pub misses: u64,
    /// Misses that were written.
    pub writes: u64,
    /// Objects removed from the disk.
    pub deletes: u64,
    /// Deletes of objects of which a newer version was requested.
    pub replaced: u64,
    /// Misses larger than the disk cache.
    pub too_large: u64,
    /// Misses that the disk's rule of admission refused.
    pub refused: u64,
    /// Bytes of all answers.
    pub get_bytes: u64,
    /// Bytes answered from memory.
    pub memory_hit_bytes: u64,
    /// Bytes read from disk.
    pub read_bytes: u64,
    /// Bytes written to disk.
    pub write_bytes: u64,
}

impl Counts {
    //= paper 002 section 3.1, footnote 3
    /// The paper's counts for its first million disk requests. The paper prints no bytes; they are 0 here.
    pub const PAPER: Counts = Counts {
        gets: 1_058_206,
        memory_hits: 338_081,
        disk_hits: 42_085,
        misses: 678_040,
        writes: 678_040,
        deletes: 279_875,
        replaced: 0,
        too_large: 0,
        refused: 0,
        get_bytes: 0,
        memory_hit_bytes: 0,
        read_bytes: 0,
        write_bytes: 0,
    };

    /// Reads, writes and deletes.
    pub fn disk_requests(&self) -> u64 {
        self.disk_hits + self.writes + self.deletes
    }

    /// The five counts that the paper prints, by name.
    pub fn printed(&self) -> [(&'static str, u64); 5] {
        [
            ("gets", self.gets),
            ("memory hits", self.memory_hits),
            ("disk hits = reads", self.disk_hits),
            ("writes", self.writes),
            ("deletes", self.deletes),
        ]
    }
}

/// The two caches and their counts.
pub struct Method {
    memory: Level,
    disk: Level,
    /// Each object's server, for its Delete.
    servers: Vec<u32>,
    counts: Counts,
}

impl Method {
    /// Empty caches.
    pub fn new(settings: &Settings) -> Self {
        Method {
            memory: Level::new(settings.memory),
            disk: Level::new(settings.disk),
            servers: Vec::new(),
            counts: Counts::default(),
        }
    }

    /// Carries out a request; its disk requests are appended to `out` in order.
    pub fn get(&mut self, access: &Access, mut out: impl FnMut(DiskRequest)) {
        let &Access {
            object,
            server,
            size_bytes,
            ..
        } = access;
        if self.servers.len() <= object as usize {
            self.servers.resize(object as usize + 1, 0);
        }
        self.servers[object as usize] = server;
        let bytes = u64::from(size_bytes);
        let counts = &mut self.counts;
        counts.gets += 1;
        counts.get_bytes += bytes;
        if self.memory.ask(object, size_bytes, &mut None) {
            counts.memory_hits += 1;
            counts.memory_hit_bytes += bytes;
            return;
        }
        let request = |op, object, size_bytes| DiskRequest {
            op,
            object,
            server,
            size_bytes,
        };
        let mut replaced = None;
        if self.disk.ask(object, size_bytes, &mut replaced) {
            counts.disk_hits += 1;
            counts.read_bytes += bytes;
            out(request(DiskOp::Read, object, size_bytes));
        } else {
            counts.misses += 1;
            if let Some(size) = replaced {
                counts.replaced += 1;
                counts.deletes += 1;
                out(request(DiskOp::Delete, object, size));
            }
            let servers = &self.servers;
            let inserted = self.disk.insert(object, size_bytes, |object, size_bytes| {
                counts.deletes += 1;
                let server = servers[object as usize];
                out(DiskRequest {
                    op: DiskOp::Delete,
                    object,
                    server,
                    size_bytes,
                });
            });
            match inserted {
                Insertion::Kept => {
                    counts.writes += 1;
                    counts.write_bytes += bytes;
                    out(request(DiskOp::Write, object, size_bytes));
                }
                Insertion::TooLarge => counts.too_large += 1,
                Insertion::Refused => counts.refused += 1,
            }
        }
        self.memory.insert(object, size_bytes, |_, _| {});
    }

    /// The counts so far.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// The disk cache.
    pub fn disk(&self) -> &Level {
        &self.disk
    }
}

/// The disk requests of a sequence of requests, as an iterator.
///
/// ```
/// use lab::cache::{Requests, Settings};
/// use lab::{Access, DiskOp};
///
/// let once = Access { at_ms: 0, object: 0, server: 0, size_bytes: 100 };
/// let mut requests = Requests::new(&Settings::default(), [once, once].into_iter());
/// assert_eq!(requests.next().map(|request| request.op), Some(DiskOp::Write));
/// assert_eq!(requests.next(), None);
/// assert_eq!(requests.counts().memory_hits, 1);
/// ```
pub struct Requests<I> {
    accesses: I,
    method: Method,
    waiting: VecDeque<DiskRequest>,
}

impl<I: Iterator<Item = Access>> Requests<I> {
    /// Sends these requests through empty caches.
    pub fn new(settings: &Settings, accesses: I) -> Self {
        Requests {
            accesses,
            method: Method::new(settings),
            waiting: VecDeque::new(),
        }
    }

    /// The counts so far.
    pub fn counts(&self) -> &Counts {
        self.method.counts()
    }
}

impl<I: Iterator<Item = Access>> Iterator for Requests<I> {
    type Item = DiskRequest;

    fn next(&mut self) -> Option<DiskRequest> {
        while self.waiting.is_empty() {
            let access = self.accesses.next()?;
            let waiting = &mut self.waiting;
            self.method
                .get(&access, |request| waiting.push_back(request));
        }
        self.waiting.pop_front()
    }
}

#[cfg(test)]
mod tests;
