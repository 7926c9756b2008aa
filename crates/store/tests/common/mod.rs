//! A shell around the store for tests: a disk in memory, writes carried out when the test says so.
#![allow(dead_code, reason = "each test uses a part of it")]

use bytes::Bytes;
use std::sync::Arc;
use store::{
    Geometry, Identity, KeyHash, Lookup, NewRecord, OpenPlan, Outcome, Read, RecordParts, Sequence,
    Settings, Store, Superblock, Write,
};

pub const MIB: u64 = 1 << 20;

/// SplitMix64: small, and the same on every machine.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// 0 to `n` - 1.
    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

/// A body that tells which key and version it is, all through.
pub fn body(key: u64, version: u64, len: usize) -> Vec<u8> {
    let mut random = Random(key.wrapping_mul(0x1234_5678_9abc_def1) ^ version);
    let mut bytes = Vec::with_capacity(len + 16);
    bytes.extend(key.to_le_bytes());
    bytes.extend(version.to_le_bytes());
    while bytes.len() < len {
        bytes.extend(random.next().to_le_bytes());
    }
    bytes.truncate(len.max(16));
    bytes
}

pub fn random_bytes(seed: u64) -> [u8; Identity::RANDOM_BYTES] {
    let mut random = Random(seed);
    std::array::from_fn(|_| random.next() as u8)
}

pub struct Shell {
    pub store: Arc<Store>,
    pub disk: Vec<u8>,
    pub pending: Vec<Write>,
    pub settings: Settings,
    pub now_ms: u64,
    seed: u64,
}

impl Shell {
    pub fn new(total_bytes: u64, settings: Settings) -> Self {
        let geometry = Geometry::plan(total_bytes, 512).unwrap();
        let store = Store::create(geometry, &settings, Identity::new(random_bytes(1)));
        let mut shell = Self {
            store: Arc::new(store),
            disk: vec![0; total_bytes as usize],
            pending: Vec::new(),
            settings,
            now_ms: 1_000_000,
            seed: 1,
        };
        shell.mark_open();
        shell
    }

    pub fn small() -> Self {
        Self::new(4 * MIB, Settings::default())
    }

    pub fn hash(&self, key: &[u8]) -> KeyHash {
        self.store.hasher().hash(key)
    }

    pub fn put(&mut self, key: &[u8], body: &[u8]) -> Outcome {
        self.put_since(key, body, self.store.sequence())
    }

    pub fn put_since(&mut self, key: &[u8], body: &[u8], began: Sequence) -> Outcome {
        let hash = self.hash(key);
        self.put_record(&NewRecord {
            hash,
            primary: hash,
            key,
            meta: b"meta",
            body: &[body],
            fragment: None,
            total: None,
            began,
        })
    }

    pub fn put_record(&mut self, record: &NewRecord<'_>) -> Outcome {
        let inserted = self.store.insert(record, self.now_ms);
        self.pending.extend(inserted.writes);
        inserted.outcome
    }

    /// Carries out one write that is under way.
    pub fn complete(&mut self, number: usize, ok: bool) {
        let write = self.pending.swap_remove(number);
        assert!(
            write.data.as_ptr().addr().is_multiple_of(4096),
            "not aligned"
        );
        assert_eq!(write.data.len() % 512, 0);
        assert!(write.offset >= self.store.geometry().data_at);
        let at = write.offset as usize;
        // A failed write leaves a part of itself.
        let len = if ok {
            write.data.len()
        } else {
            write.data.len() / 3
        };
        self.disk[at..at + len].copy_from_slice(&write.data[..len]);
        let Write { id, data, .. } = write;
        drop(data);
        self.store.write_done(id, ok, self.now_ms);
    }

    /// Stores `bytes` in bodies of `body_len` under keys `fill0`, `fill1`, ..., and writes them.
    pub fn fill(&mut self, bytes: u64, body_len: usize) {
        for n in 0..bytes / body_len as u64 {
            let outcome = self.put(format!("fill{n}").as_bytes(), &body(n, 0, body_len));
            assert_eq!(outcome, Outcome::Stored);
            self.complete_all();
        }
    }

    pub fn complete_all(&mut self) {
        while !self.pending.is_empty() {
            self.complete(0, true);
        }
    }

    /// Flushes, and carries out all writes.
    pub fn settle(&mut self) {
        self.pending.extend(self.store.flush());
        self.complete_all();
    }

    pub fn bytes_of(&self, read: &Read) -> Bytes {
        let at = read.offset as usize;
        Bytes::copy_from_slice(&self.disk[at..at + read.len])
    }

    /// Reads at once.
    pub fn get(&self, key: &[u8]) -> Option<RecordParts> {
        let hash = self.hash(key);
        let parts = match self.store.look_up(hash) {
            Lookup::Absent => return None,
            Lookup::Buffered(bytes) => self.store.decode(&bytes, hash).unwrap(),
            Lookup::OnDisk(read) => {
                let bytes = self.bytes_of(&read);
                let parts = self.store.decode_read(&bytes, &read).unwrap();
                assert!(self.store.read_done(read));
                parts
            }
        };
        assert_eq!(parts.key, key);
        Some(parts)
    }

    pub fn read(&self, key: &[u8]) -> Read {
        match self.store.look_up(self.hash(key)) {
            Lookup::OnDisk(read) => read,
            other => panic!("not on disk: {other:?}"),
        }
    }

    fn write_at(&mut self, offset: u64, bytes: &[u8]) {
        let at = offset as usize;
        self.disk[at..at + bytes.len()].copy_from_slice(bytes);
    }

    fn mark_open(&mut self) {
        let superblock = self.store.opening_superblock();
        Superblock::OFFSETS
            .iter()
            .for_each(|&offset| self.write_at(offset, &superblock));
    }

    /// A clean stop.
    pub fn close(&mut self) {
        self.settle();
        let image = self.store.close_image().unwrap();
        self.write_at(image.offset, &image.bytes);
        Superblock::OFFSETS
            .iter()
            .for_each(|&offset| self.write_at(offset, &image.superblock));
    }

    pub fn plan(&self) -> OpenPlan {
        OpenPlan::of(&self.disk[..Superblock::BYTES], self.store.geometry())
    }

    /// A start; true if the index was loaded. Reads and writes under way are forgotten.
    pub fn reopen(&mut self) -> bool {
        self.pending.clear();
        self.seed += 1;
        let geometry = self.store.geometry().clone();
        let identity = Identity::new(random_bytes(self.seed));
        let (store, loaded) = match self.plan() {
            OpenPlan::Load { superblock, index } => {
                let at = index.offset as usize;
                let bytes = &self.disk[at..at + index.bytes as usize];
                (
                    Store::load(&superblock, bytes, &self.settings).unwrap(),
                    true,
                )
            }
            OpenPlan::Fresh { previous, .. } => {
                let identity = identity.after(&previous.expect("our own superblock"));
                (Store::create(geometry, &self.settings, identity), false)
            }
            OpenPlan::Refused { message } => panic!("{message}"),
        };
        self.store = Arc::new(store);
        self.mark_open();
        loaded
    }
}
