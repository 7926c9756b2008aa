//! A small model of a proxy: memory in front, a disk behind it, and a rule of admission to disk.
//!
//! ```text
//! Access --> memory --miss--> disk --miss--> the origin: into memory; to disk, if the rule admits it
//!              |                \--hit--> into memory
//!              \--hit: the disk is not told
//! ```
//!
//! Not known here: time.

use std::io;

use serde::Serialize;

use super::contender::Contender;
use super::disk::{Disk, NEVER, NextUse};
use super::memory::Memory;
use super::rule::Rule;
use crate::Access;
use crate::requests::Requests;

/// Hits and misses of a cache, in requests and in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Hits {
    /// Requests counted.
    pub gets: u64,
    /// Requests answered from memory or disk.
    pub hits: u64,
    /// Bytes of all answers.
    pub get_bytes: u64,
    /// Bytes of answers from memory or disk.
    pub hit_bytes: u64,
    /// Hits that memory answered.
    pub memory_hits: u64,
    /// Objects written to disk, again or for the first time.
    pub inserts: u64,
    /// Bytes of these writes.
    pub insert_bytes: u64,
    /// Bytes that the disk read to make room.
    pub swept_bytes: u64,
}

impl Hits {
    /// Percentage of the requests that are hits.
    pub fn document_percent(&self) -> f64 {
        100.0 * self.hits as f64 / self.gets.max(1) as f64
    }

    /// Percentage of the bytes that come from memory or disk.
    pub fn byte_percent(&self) -> f64 {
        100.0 * self.hit_bytes as f64 / self.get_bytes.max(1) as f64
    }

    /// Percentage of the requests that memory answered.
    pub fn memory_percent(&self) -> f64 {
        100.0 * self.memory_hits as f64 / self.gets.max(1) as f64
    }

    /// Bytes written for each byte requested.
    pub fn written_per_asked(&self) -> f64 {
        self.insert_bytes as f64 / self.get_bytes.max(1) as f64
    }

    /// Bytes read to make room for each byte requested.
    pub fn swept_per_asked(&self) -> f64 {
        self.swept_bytes as f64 / self.get_bytes.max(1) as f64
    }
}

/// Memory and disk.
pub struct Tiers {
    memory: Memory,
    disk: Box<dyn Disk>,
    rule: Rule,
}

impl Tiers {
    /// Empty tiers. With 0 memory bytes there is no memory.
    pub fn new(contender: &Contender, memory_bytes: u64, disk_bytes: u64) -> Self {
        Tiers {
            memory: Memory::new(contender.memory, memory_bytes),
            disk: contender.disk.build(disk_bytes),
            rule: Rule::new(contender.rule, disk_bytes),
        }
    }

    /// Carries out a request, and counts it.
    pub fn get(&mut self, access: &Access, next: NextUse, hits: &mut Hits) {
        let (object, size) = (access.object, access.size_bytes);
        let bytes = u64::from(size);
        hits.gets += 1;
        hits.get_bytes += bytes;
        let in_memory = self.memory.ask(object, size);
        let written = if in_memory {
            hits.memory_hits += 1;
            let on_disk = self.disk.passed(access, next);
            match !on_disk && self.rule.admits_from_memory() {
                true => self.disk.insert(access, next),
                false => None,
            }
        } else if self.disk.ask(access, next) {
            hits.hits += 1;
            hits.hit_bytes += bytes;
            self.rule.hit(access);
            self.memory.remember(object, size);
            None
        } else {
            let is_full = self.disk.is_full(size);
            self.memory.remember(object, size);
            match self.rule.admits(access, is_full, || self.disk.held()) {
                true => self.disk.insert(access, next),
                false => None,
            }
        };
        hits.hits += u64::from(in_memory);
        hits.hit_bytes += u64::from(in_memory) * bytes;
        let (renewed, renewed_bytes) = self.disk.renewed();
        hits.inserts += u64::from(written.is_some()) + renewed;
        hits.insert_bytes += written.unwrap_or(0) + renewed_bytes;
        hits.swept_bytes += self.disk.swept();
    }
}

/// For each request: the number of the next request for the same version of the same object.
///
/// # Errors
/// The file of the requests cannot be read.
pub fn next_uses(accesses: &Requests<Access>) -> io::Result<Vec<NextUse>> {
    let mut next = vec![NEVER; accesses.len()];
    // The latest request, by object: its number and size.
    let mut latest: Vec<Option<(usize, u32)>> = Vec::new();
    for (at, access) in accesses.iter().enumerate() {
        let access = access?;
        let object = access.object as usize;
        if latest.len() <= object {
            latest.resize(object + 1, None);
        }
        let before = latest[object].replace((at, access.size_bytes));
        if let Some((before, _)) = before.filter(|&(_, size)| size == access.size_bytes) {
            // A number beyond 2^32 becomes `NEVER`, so Belady may miss at the end of such a stream.
            next[before] = NextUse::try_from(at).unwrap_or(NEVER);
        }
    }
    Ok(next)
}
