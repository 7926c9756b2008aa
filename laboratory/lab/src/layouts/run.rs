//! One layout under one stream: the production store, driven as the proxy drives it, over a device in memory.
//!
//! ```text
//! Access --> memory --miss--> Store::look_up --on disk--> read, verify, and renew if the hand is near
//!                                   \--absent--> rule --> Store::insert --> writes, background work --> device
//! ```
//!
//! Every write is done at once, so no write is ever pending. Time advances with the requests, at a set rate; it decides which
//! clusters close because they have waited, and when checkpoints are due. Lazy reads wait until there are `lazy_reads` of them
//! and are then carried out in order of address; meanwhile the store keeps each record pinned.
//!
//! Bodies are slices of one pool, chosen by the object's number; the store computes and verifies checksums as always. An
//! object above the store's fragment size has several records; a hit needs all of them.
//!
//! Not known here: sockets, threads.
//! Limits: the store is in memory.

use std::sync::OnceLock;
use std::time::Instant;

use bytes::Bytes;
use polymix::random::{Chance, mix};
use serde::Serialize;
use store::{
    Corrupt, Geometry, Identity, KeyHash, KeyHasher, Lookup, NewRecord, Outcome, Read, Settings,
    Store, TooSmall, WorkOp, Writes,
};

use super::Layout;
use super::ahead::Ahead;
use super::device::{Deeds, Device};
use crate::Access;
use crate::policies::WARMING_PART;
use crate::policies::memory::Memory;
use crate::policies::rule::{Held, Rule};

/// Size of the pool.
const POOL_BYTES: usize = 4 << 20;
/// About the bytes that the proxy stores with a body: head and times.
const META_BYTES: usize = 200;
const KEY: [u8; 60] = *b"http://static.example.org/objects/0000000000000000/image.jpg";
const KEY_DIGITS_AT: usize = 34;
/// A read counts as near if it begins within this distance of the end of the last one: the size of a locality buffer.
pub const NEAR_BYTES: u64 = 64 << 10;
/// Attempts to store a record while the next region is being made ready.
const ATTEMPTS: usize = 4;
const UNIX_MS: u64 = 1_700_000_000_000;

/// The result of a run.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Findings {
    /// The name of the layout.
    pub layout: String,
    /// Requests that were counted.
    pub gets: u64,
    /// Answered from memory.
    pub memory_hits: u64,
    /// Answered by the store.
    pub store_hits: u64,
    /// Bytes of all answers.
    pub get_bytes: u64,
    /// Bytes of answers from memory or store.
    pub hit_bytes: u64,
    /// Memory hits on which an object was offered to the store.
    pub admitted_from_memory: u64,
    /// Records stored.
    pub inserts: u64,
    /// Bytes of these records, without padding.
    pub insert_bytes: u64,
    /// Writes of clusters.
    pub cluster_writes: u64,
    /// Bytes of these writes.
    pub cluster_bytes: u64,
    /// Distance on the device between each read and the next, in sum; writes in between are ignored.
    pub read_way_bytes: u64,
    /// Reads that begin at most [`NEAR_BYTES`] from the end of the last one.
    pub near_reads: u64,
    /// Bytes read for background work, not for a request.
    pub work_read_bytes: u64,
    /// Records written again because they were in use.
    pub renewed: u64,
    /// Reads that returned another key's record: the index is compact, and may confuse two keys.
    pub mistaken: u64,
    /// Records not stored because there was no room at that moment.
    pub refused: u64,
    /// The device's operations, background work included.
    pub device: Deeds,
    /// Percentage of chunks in use or dead, at the end.
    pub full_percent: f64,
    /// Free pieces at the end.
    pub free_pieces: u64,
    /// CPU time of an insert, in microseconds: placing, copying, checksum, evictions.
    pub insert_us: f64,
    /// Time of a request, in microseconds: all of this, the device's copying included.
    pub get_us: f64,
}

impl Findings {
    /// Percentage of the requests answered from memory or store.
    pub fn document_percent(&self) -> f64 {
        100.0 * (self.memory_hits + self.store_hits) as f64 / self.gets.max(1) as f64
    }

    /// Percentage of the bytes answered from memory or store.
    pub fn byte_percent(&self) -> f64 {
        100.0 * self.hit_bytes as f64 / self.get_bytes.max(1) as f64
    }

    /// Mean bytes of a cluster's write.
    pub fn write_bytes_mean(&self) -> f64 {
        self.cluster_bytes as f64 / self.cluster_writes.max(1) as f64
    }

    /// Bytes written for each byte stored.
    pub fn written_per_stored(&self) -> f64 {
        self.device.write_bytes as f64 / self.insert_bytes.max(1) as f64
    }

    /// Percentage of the requests answered from memory.
    pub fn memory_percent(&self) -> f64 {
        100.0 * self.memory_hits as f64 / self.gets.max(1) as f64
    }

    /// Bytes written for each byte requested.
    pub fn written_per_asked(&self) -> f64 {
        self.device.write_bytes as f64 / self.get_bytes.max(1) as f64
    }

    /// Bytes read for each byte requested.
    pub fn read_per_asked(&self) -> f64 {
        self.device.read_bytes as f64 / self.get_bytes.max(1) as f64
    }

    /// Device reads for each hit in the store.
    pub fn reads_per_hit(&self) -> f64 {
        self.device.reads as f64 / self.store_hits.max(1) as f64
    }

    /// Percentage of the reads that begin close to the end of the last one.
    pub fn near_percent(&self) -> f64 {
        100.0 * self.near_reads as f64 / self.device.reads.max(1) as f64
    }

    /// Requests a second that a seeking disk would sustain.
    pub fn seeking_gets_per_s(&self) -> f64 {
        self.gets as f64 / self.device.seeking_s.max(1e-9)
    }

    /// Requests a second that flash would sustain.
    pub fn flash_gets_per_s(&self) -> f64 {
        self.gets as f64 / self.device.flash_s.max(1e-9)
    }

    /// Bytes that flash programmed for each byte written to it, due to pages written in part and pages moved out of erase blocks.
    pub fn flash_write_amplification(&self) -> f64 {
        self.device.flash_programmed_bytes as f64 / self.device.write_bytes.max(1) as f64
    }
}

/// The records of a body: their numbers and lengths.
fn parts(fragment_bytes: u32, size_bytes: u32) -> impl Iterator<Item = (u32, usize)> {
    let count = size_bytes.div_ceil(fragment_bytes).max(1);
    (0..count).map(move |part| {
        let rest = size_bytes - part * fragment_bytes;
        (part, rest.min(fragment_bytes) as usize)
    })
}

/// The sizes and the rate of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sizes {
    /// Size of the store's device.
    pub store_bytes: u64,
    /// Size of the memory cache in front.
    pub memory_bytes: u64,
    /// Requests a second; time advances at this rate.
    pub rate: f64,
}

impl Default for Sizes {
    /// An eighth of the method's default sizes, which fits in memory.
    fn default() -> Self {
        Sizes {
            store_bytes: 512 << 20,
            memory_bytes: 64 << 20,
            rate: 1_000.0,
        }
    }
}

struct Run {
    store: Store,
    device: Device,
    hasher: KeyHasher,
    memory: Memory,
    rule: Rule,
    /// By object: its size when last stored.
    sizes: Vec<u32>,
    lazy: Vec<(Read, usize)>,
    lazy_reads: usize,
    ahead: Ahead,
    /// The end of the last read.
    read_to: u64,
    now_ms: u64,
    findings: Findings,
    insert_s: f64,
}

/// Runs a layout under `requests` requests; the first third is not counted.
///
/// # Errors
/// The store is too small to be laid out.
pub fn run(
    layout: &Layout,
    sizes: &Sizes,
    accesses: impl Iterator<Item = Access>,
    requests: u64,
) -> std::result::Result<Findings, TooSmall> {
    let warm = requests / WARMING_PART as u64;
    let geometry = Geometry::plan(sizes.store_bytes, layout.chunk_bytes)?;
    let settings: Settings = layout.settings();
    let mut chance = Chance::new(1);
    let random = std::array::from_fn(|_| chance.draw() as u8);
    let store = Store::create(geometry, &settings, Identity::new(random));
    let mut run = Run {
        device: Device::new(sizes.store_bytes),
        hasher: store.hasher(),
        store,
        memory: Memory::new(layout.memory, sizes.memory_bytes),
        rule: Rule::new(layout.rule, sizes.store_bytes),
        sizes: Vec::new(),
        lazy: Vec::new(),
        lazy_reads: layout.lazy_reads.max(1),
        ahead: Ahead::new(layout.ahead_bytes, sizes.store_bytes),
        read_to: 0,
        now_ms: UNIX_MS,
        findings: Findings::default(),
        insert_s: 0.0,
    };
    for (offset, data) in run.store.opening() {
        run.device.write(offset, &data);
    }
    run.work();
    let mut before = (*run.device.deeds(), run.store.figures());
    let mut began = Instant::now();
    for (at, access) in accesses.enumerate() {
        let at = at as u64;
        if at == warm {
            before = (*run.device.deeds(), run.store.figures());
            (run.findings, run.insert_s) = (Findings::default(), 0.0);
            began = Instant::now();
        }
        let now_ms = UNIX_MS + (at as f64 * 1000.0 / sizes.rate) as u64;
        if now_ms / 100 != run.now_ms / 100 {
            run.now_ms = now_ms;
            let writes = run.store.tick(now_ms);
            run.carry_out(writes);
            run.work();
        }
        run.get(&access);
    }
    run.drain();
    Ok(run.finish(layout, began, &before.0, &before.1))
}

impl Run {
    fn get(&mut self, access: &Access) {
        let &Access {
            object, size_bytes, ..
        } = access;
        let bytes = u64::from(size_bytes);
        self.findings.gets += 1;
        self.findings.get_bytes += bytes;
        if self.sizes.len() <= object as usize {
            self.sizes.resize(object as usize + 1, u32::MAX);
        }
        // A newer version has another length, which a validation at the origin would detect.
        let same = self.sizes[object as usize] == size_bytes;
        if self.memory.ask(object, size_bytes) {
            self.findings.memory_hits += 1;
            self.findings.hit_bytes += bytes;
            if self.rule.admits_from_memory() && !(same && self.contains(object, size_bytes)) {
                self.findings.admitted_from_memory += 1;
                self.put(access);
            }
            return;
        }
        if same && self.has(object, size_bytes) {
            self.findings.store_hits += 1;
            self.findings.hit_bytes += bytes;
            self.rule.hit(access);
        } else {
            // The stored copy, if any, is an older version, whether or not the new one is stored.
            self.sizes[object as usize] = u32::MAX;
            if self.admits(access) {
                self.put(access);
            }
        }
        self.memory.remember(object, size_bytes);
    }

    /// Whether a missed object goes to the store, decided as in the proxy (`cache::Cache::admits`).
    fn admits(&mut self, access: &Access) -> bool {
        let is_full = self.store.has_evicted();
        self.rule.admits(access, is_full, || {
            let (objects, bytes) = self.store.held();
            let bytes_max = self.store.geometry().data_bytes();
            Held {
                objects,
                bytes,
                bytes_max,
            }
        })
    }

    fn parts(&self, size_bytes: u32) -> impl Iterator<Item = (u32, usize)> + use<> {
        parts(self.store.fragment_bytes(), size_bytes)
    }

    fn hashes(&self, object: u32, size_bytes: u32) -> Vec<KeyHash> {
        self.parts(size_bytes)
            .map(|(part, _)| self.hasher.hash(&key_of(object, part)))
            .collect()
    }

    /// Whether the store holds all records of the object.
    fn contains(&self, object: u32, size_bytes: u32) -> bool {
        let hashes = self.hashes(object, size_bytes);
        hashes.iter().all(|&hash| self.store.contains(hash))
    }

    /// Whether the store holds all records of the object; reads them, or queues lazy reads.
    fn has(&mut self, object: u32, size_bytes: u32) -> bool {
        if !self.contains(object, size_bytes) {
            return false;
        }
        for hash in self.hashes(object, size_bytes) {
            match self.store.look_up(hash) {
                // The index confused two keys, or evicted this record when it made room for an earlier part.
                Lookup::Absent => return false,
                Lookup::Buffered(_) => {}
                Lookup::OnDisk(read) => {
                    let len = read.len;
                    self.lazy.push((read, len));
                    if self.lazy.len() >= self.lazy_reads {
                        let mistaken = self.drain();
                        if mistaken > 0 && self.lazy_reads == 1 {
                            return false;
                        }
                        // A lazy read was counted as a hit before it was carried out; correct the count.
                        self.findings.store_hits -= mistaken.min(self.findings.store_hits);
                    }
                }
            }
        }
        true
    }

    /// Carries out the waiting reads in order of address; returns how many returned another key's record, because the index confused
    /// the keys.
    fn drain(&mut self) -> u64 {
        let mut mistaken = 0;
        let mut reads = std::mem::take(&mut self.lazy);
        reads.sort_by_key(|(read, _)| read.offset);
        for (read, len) in reads {
            let bytes = self.read(read.offset, len);
            let parts = self.store.decode_read(&bytes, &read);
            let renewal = read.renewal();
            let may_serve = self.store.read_done(read);
            match (parts, renewal) {
                (Ok(parts), Some(renewal)) if may_serve => {
                    let renewed = self.store.renew(renewal, &parts, self.now_ms);
                    let wrote = !renewed.writes.is_empty();
                    self.carry_out(renewed.writes);
                    if wrote {
                        self.work();
                    }
                }
                (Ok(_), _) => {}
                (Err(Corrupt::Hash), _) => mistaken += 1,
                // The device returns the bytes that were written, so this is a bug of the store or of this driver.
                (Err(e), _) => assert!(!may_serve, "a record that was read is not whole: {e}"),
            }
        }
        self.findings.mistaken += mistaken;
        mistaken
    }

    fn read(&mut self, offset: u64, len: usize) -> Bytes {
        let reads = self.device.deeds().reads;
        let bytes = self.ahead.read(&mut self.device, offset, len);
        if self.device.deeds().reads > reads {
            let way = self.read_to.abs_diff(offset);
            self.findings.read_way_bytes += way;
            self.findings.near_reads += u64::from(way <= NEAR_BYTES);
            self.read_to = offset + len as u64;
        }
        bytes
    }

    fn put(&mut self, access: &Access) {
        self.sizes[access.object as usize] = access.size_bytes;
        let parts: Vec<(u32, usize)> = self.parts(access.size_bytes).collect();
        for (part, len) in parts {
            let key = key_of(access.object, part);
            let hash = self.hasher.hash(&key);
            let number = u64::from(access.object) << 12 | u64::from(part);
            let from = mix(number ^ u64::from(access.size_bytes) << 32) as usize
                % (POOL_BYTES - len - META_BYTES);
            let pool = pool();
            let record = NewRecord {
                hash,
                primary: hash,
                key: &key,
                meta: &pool[from + len..from + len + META_BYTES],
                body: &[&pool[from..from + len]],
                fragment: None,
                total: None,
                began: self.store.sequence(),
                // The store takes 0 for no server.
                server: u64::from(access.server) + 1,
            };
            if !self.insert(&record) {
                self.findings.refused += 1;
            }
        }
    }

    fn insert(&mut self, record: &NewRecord<'_>) -> bool {
        for _ in 0..ATTEMPTS {
            let began = Instant::now();
            let inserted = self.store.insert(record, self.now_ms);
            self.insert_s += began.elapsed().as_secs_f64();
            let wrote = !inserted.writes.is_empty();
            self.carry_out(inserted.writes);
            if wrote || inserted.outcome != Outcome::Stored {
                self.work();
            }
            match inserted.outcome {
                Outcome::Stored => return true,
                Outcome::TooLarge | Outcome::Invalidated => return false,
                // A waiting lazy read may pin a record that has to be swept.
                Outcome::NoSpace | Outcome::Paused | Outcome::Behind => {
                    let mistaken = self.drain();
                    self.findings.store_hits -= mistaken.min(self.findings.store_hits);
                }
            }
        }
        false
    }

    fn carry_out(&mut self, writes: Writes) {
        for write in writes {
            self.findings.cluster_writes += 1;
            self.findings.cluster_bytes += write.data.len() as u64;
            self.device.write(write.offset, &write.data);
            self.ahead.written(write.offset, write.data.len());
            self.store.write_done(write.id, true, self.now_ms);
        }
    }

    fn work(&mut self) {
        while let Some(work) = self.store.next_work(self.now_ms) {
            let done = match work.op {
                WorkOp::Read { offset, len } => {
                    self.findings.work_read_bytes += len as u64;
                    Some(self.device.read(offset, len))
                }
                WorkOp::Write { offset, data } => {
                    self.device.write(offset, &data);
                    None
                }
                WorkOp::Flush => {
                    self.device.flush();
                    None
                }
                WorkOp::Yield => None,
            };
            self.store.work_done(work.id, Ok(done), self.now_ms);
        }
        // In production each reinsertion is followed by a pause; here the clock skips it.
        let mut now_ms = self.now_ms;
        while let Some(read) = self.store.next_reinsertion(now_ms) {
            now_ms += 1;
            let bytes = self.device.read(read.offset(), read.bytes());
            let writes = self.store.reinsertion_done(read, Some(bytes), self.now_ms);
            self.carry_out(writes);
        }
    }

    fn finish(
        mut self,
        layout: &Layout,
        began: Instant,
        device: &Deeds,
        before: &store::Figures,
    ) -> Findings {
        let spent_s = began.elapsed().as_secs_f64();
        let now = self.store.figures();
        let mut findings = std::mem::take(&mut self.findings);
        findings.layout = layout.name();
        findings.inserts = now.inserts - before.inserts;
        findings.insert_bytes = now.insert_bytes - before.insert_bytes;
        findings.renewed = now.second_chances - before.second_chances;
        findings.device = self.device.deeds().since(device);
        findings.full_percent =
            100.0 * (1.0 - now.ready_chunks as f64 / now.total_chunks.max(1) as f64);
        findings.free_pieces = now.free_pieces;
        findings.insert_us = 1e6 * self.insert_s / findings.inserts.max(1) as f64;
        findings.get_us = 1e6 * spent_s / findings.gets.max(1) as f64;
        findings
    }
}

fn pool() -> &'static [u8] {
    static POOL: OnceLock<Vec<u8>> = OnceLock::new();
    POOL.get_or_init(|| {
        let mut chance = Chance::new(2);
        (0..POOL_BYTES / 8)
            .flat_map(|_| chance.draw().to_le_bytes())
            .collect()
    })
}

fn key_of(object: u32, part: u32) -> [u8; KEY.len()] {
    let mut key = KEY;
    let number = u64::from(part) << 32 | u64::from(object);
    for (at, digit) in key[KEY_DIGITS_AT..KEY_DIGITS_AT + 16]
        .iter_mut()
        .rev()
        .enumerate()
    {
        *digit = b"0123456789abcdef"[(number >> (at * 4)) as usize & 15];
    }
    key
}
