//! A shell around the store for tests: a disk in memory, writes carried out when the test says so.
#![allow(dead_code, reason = "each test uses a part of it")]

use bytes::Bytes;
use std::collections::HashMap;
use std::sync::Arc;
use store::set::Moves;
use store::{
    Found, Geometry, Identity, KeyHash, Lookup, Move, NewRecord, OpenPlan, Outcome, Read,
    RecordParts, Recovered, Reinsertion, Sequence, Settings, Settled, Store, Superblock, Work,
    WorkOp, Write,
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

/// For tests of the hand alone: nothing is written again because of what it is worth.
pub fn second_chances() -> Settings {
    Settings {
        replacement: "second-chance".parse().unwrap(),
        ..Settings::default()
    }
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
    /// The test carries out what is to be done in the background.
    pub by_hand: bool,
    /// How keys of a set move at the next starts.
    pub moves: Moves,
    seed: u64,
    /// Of each sector: what it held before each write that was not flushed since, and when that write came.
    unflushed: HashMap<u64, Vec<(u64, Vec<u8>)>>,
    clock: u64,
}

/// What the device tears a write into.
const SECTOR: usize = 512;

impl Shell {
    pub fn new(total_bytes: u64, settings: Settings) -> Self {
        Self::with_geometry(Geometry::plan(total_bytes, 512).unwrap(), settings)
    }

    pub fn with_geometry(geometry: Geometry, settings: Settings) -> Self {
        let total_bytes = geometry.total_bytes;
        let store = Store::create(geometry, &settings, Identity::new(random_bytes(1)));
        let mut shell = Self {
            store: Arc::new(store),
            disk: vec![0; total_bytes as usize],
            pending: Vec::new(),
            settings,
            now_ms: 1_000_000,
            by_hand: false,
            moves: Moves::default(),
            seed: 1,
            unflushed: HashMap::new(),
            clock: 0,
        };
        shell.open();
        shell
    }

    /// With exact LRU.
    pub fn lru() -> Self {
        Self::with_policy(4 * MIB, "lru")
    }

    pub fn with_policy(total_bytes: u64, policy: &str) -> Self {
        let replacement = policy.parse().unwrap();
        let settings = Settings {
            replacement,
            ..Settings::default()
        };
        Self::new(total_bytes, settings)
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
            server: 0,
        })
    }

    pub fn put_record(&mut self, record: &NewRecord<'_>) -> Outcome {
        let inserted = self.store.insert(record, self.now_ms);
        self.pending.extend(inserted.writes);
        self.work();
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
        self.write_at(at as u64, &write.data[..len / SECTOR * SECTOR]);
        let Write { id, data, .. } = write;
        drop(data);
        self.store.write_done(id, ok, self.now_ms);
        self.work();
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

    /// Reads at once what may have been killed.
    pub fn get_if_alive(&self, key: &[u8]) -> Option<RecordParts> {
        let hash = self.hash(key);
        match self.store.look_up(hash) {
            Lookup::Absent => None,
            Lookup::Buffered(bytes) => self.store.decode(&bytes, hash).ok(),
            Lookup::OnDisk(read) => {
                let parts = self.store.decode_read(&self.bytes_of(&read), &read);
                let may_serve = self.store.read_done(read);
                parts.ok().filter(|_| may_serve)
            }
        }
    }

    pub fn read(&self, key: &[u8]) -> Read {
        match self.store.look_up(self.hash(key)) {
            Lookup::OnDisk(read) => read,
            other => panic!("not on disk: {other:?}"),
        }
    }

    /// Writes whole sectors, remembering what was there until that is flushed.
    pub fn write_at(&mut self, offset: u64, bytes: &[u8]) {
        self.clock += 1;
        for (sector, bytes) in (offset / SECTOR as u64..).zip(bytes.chunks(SECTOR)) {
            let place = &mut self.disk[sector as usize * SECTOR..][..SECTOR];
            let before = (self.clock, place.to_vec());
            self.unflushed.entry(sector).or_default().push(before);
            place.copy_from_slice(bytes);
        }
    }

    /// A flush that was handed out then has been carried out.
    pub fn flushed(&mut self, handed_out: u64) {
        self.unflushed.retain(|_, writes| {
            writes.retain(|(at, _)| *at > handed_out);
            !writes.is_empty()
        });
    }

    /// Writes so far: a flush handed out now is of those.
    pub fn clock(&self) -> u64 {
        self.clock
    }

    /// The power fails: of each sector any state since the last flush may be what is left.
    pub fn lose_power(&mut self, random: &mut Random) {
        let mut sectors: Vec<_> = self.unflushed.drain().collect();
        sectors.sort_unstable_by_key(|(sector, _)| *sector);
        // All kept, all lost, or any mixture.
        let mode = random.below(3);
        for (sector, writes) in sectors {
            let kept = match mode {
                0 => writes.len(),
                1 => 0,
                _ => random.below(writes.len() as u64 + 1) as usize,
            };
            if let Some((_, before)) = writes.get(kept) {
                self.disk[sector as usize * SECTOR..][..SECTOR].copy_from_slice(before);
            }
        }
    }

    fn open(&mut self) {
        self.write_opening();
        self.work();
    }

    fn write_opening(&mut self) {
        for (offset, data) in self.store.opening() {
            self.write_at(offset, &data);
            self.flushed(self.clock);
        }
    }

    /// Carries out everything in the background.
    pub fn work(&mut self) {
        if !self.by_hand {
            self.work_some(usize::MAX);
        }
    }

    /// Carries out so many pieces of work at most. How many there were.
    pub fn work_some(&mut self, most: usize) -> usize {
        for done in 0..most {
            if let Some(work) = self.store.next_work(self.now_ms) {
                self.carry_out(work, self.clock);
            } else if let Some(moved) = self.store.next_move() {
                self.carry_out_move(moved);
            } else if let Some(read) = self.store.next_reinsertion(self.now_ms) {
                self.carry_out_reinsertion(read);
            } else {
                return done;
            }
        }
        most
    }

    /// Reads what is to be moved, and takes the writes.
    pub fn carry_out_move(&mut self, moved: Move) {
        let at = moved.offset() as usize;
        let bytes = Bytes::copy_from_slice(&self.disk[at..at + moved.bytes()]);
        let writes = self.store.move_done(moved, Some(bytes), self.now_ms);
        self.pending.extend(writes);
    }

    /// Reads what is to be written again by the sweep, and takes the writes.
    pub fn carry_out_reinsertion(&mut self, read: Reinsertion) {
        let at = read.offset() as usize;
        let bytes = Bytes::copy_from_slice(&self.disk[at..at + read.bytes()]);
        let writes = self.store.reinsertion_done(read, Some(bytes), self.now_ms);
        // The shortest pause.
        self.now_ms += 1;
        self.pending.extend(writes);
    }

    /// Carries out a piece of work that was handed out then.
    pub fn carry_out(&mut self, work: Work, handed_out: u64) {
        let read = match work.op {
            WorkOp::Write { offset, data } => {
                self.write_at(offset, &data);
                None
            }
            WorkOp::Read { offset, len } => {
                let at = offset as usize;
                Some(Bytes::copy_from_slice(&self.disk[at..at + len]))
            }
            WorkOp::Flush => {
                self.flushed(handed_out);
                None
            }
            WorkOp::Yield => None,
        };
        self.store.work_done(work.id, Ok(read), self.now_ms);
    }

    /// Invalidates, and waits until that is durable.
    pub fn purge(&mut self, key: &[u8]) -> bool {
        let invalidated = self.store.invalidate(self.hash(key));
        self.work();
        assert_eq!(self.store.settled(invalidated.handle), Settled::Durable);
        invalidated.indexed
    }

    /// A clean stop.
    pub fn close(&mut self) {
        self.settle();
        self.store.begin_close();
        self.work();
        assert!(self.store.is_closed());
    }

    pub fn plan(&self) -> OpenPlan {
        OpenPlan::of(&self.disk[..Superblock::BYTES], self.store.geometry())
    }

    fn area(&self, offset: u64, len: usize) -> Vec<u8> {
        self.disk[offset as usize..offset as usize + len].to_vec()
    }

    /// A start. Reads and writes under way are forgotten: as after a crash, unless the store was closed.
    pub fn reopen(&mut self) -> Recovered {
        let recovered = self.reopen_without_scan();
        self.work();
        assert_eq!(self.store.recovery(), None);
        recovered
    }

    /// A start; what is in the background has not begun.
    pub fn reopen_without_scan(&mut self) -> Recovered {
        self.pending.clear();
        self.seed += 1;
        let geometry = self.store.geometry().clone();
        let identity = Identity::new(random_bytes(self.seed)).placed(0, 1, self.moves);
        let (store, recovered) = match self.plan() {
            OpenPlan::Recover {
                superblock,
                checkpoint,
            } => {
                let [log, journal] = geometry.logs();
                let found = Found {
                    log: Some(self.area(log.0, log.1).into()),
                    journal: Some(self.area(journal.0, journal.1).into()),
                    checkpoint: checkpoint.map(|at| self.area(at.offset, at.bytes as usize).into()),
                };
                Store::recover(superblock, &found, &self.settings, identity)
            }
            OpenPlan::Fresh { previous, .. } => {
                let identity = identity.after(&previous.expect("our own superblock"));
                let recovered = Recovered {
                    words: "fresh".into(),
                    records: 0,
                    scan_bytes: 0,
                    empty: true,
                };
                (Store::create(geometry, &self.settings, identity), recovered)
            }
            OpenPlan::Refused { message } => panic!("{message}"),
        };
        self.store = Arc::new(store);
        self.write_opening();
        recovered
    }
}

pub fn spoil_checkpoints(shell: &mut Shell) {
    let geometry = shell.store.geometry().clone();
    for area in 0..2 {
        let at = geometry.checkpoint_at + area * geometry.checkpoint_bytes;
        shell.disk[at as usize + 5000] ^= 1;
        shell.disk[at as usize + 20] ^= 1;
    }
}
