//! Random operations against an obvious twin: every version ever stored under a key, and every invalidation.
//!
//! What is served must have been stored under exactly that key; no invalidation that holds may have come after its fill began
//! (*holds*: issued since the start, or settled before the crash); and it must not be older than the key's *floor*, the last
//! version stored since the start, or known to be durable when it began. Absence is always allowed. Readers are told of kills,
//! the bytes under a reader stay, the store's own audit passes. The device loses or tears what was not flushed, refuses
//! writes, and carries out background work late, in any order, or not at all.
//!
//! The policies take turns by seed, with locality buffers and without. A failure names its seed: `SEED=n cargo test -p store --test all model::`.

use crate::common::{Random, Shell, body};
use std::collections::{HashMap, HashSet};
use store::{
    Corrupt, DurabilityHandle, Lookup, Marker, NewRecord, Outcome, Read, RecordParts, Sequence,
    Settings, Settled, Work,
};

const KEYS: u64 = 60;
const STEPS: usize = 6_000;
const READS_MAX: usize = 20;
const POLICIES: [&str; 3] = ["second-chance", "lru", "gdsf"];

/// One version of a record.
struct Version {
    key: Vec<u8>,
    primary: u64,
    /// The twin's time when its fill began.
    began: u64,
    len: usize,
}

enum What {
    Key(u64),
    Matching(u8, Vec<u8>),
}

struct Invalidation {
    at: u64,
    what: What,
    /// None: it is durable.
    handle: Option<DurabilityHandle>,
}

impl Invalidation {
    fn is_about(&self, key: &[u8], primary: u64) -> bool {
        match &self.what {
            What::Key(number) => *number == primary,
            What::Matching(kind, pattern) => *kind != 1 || key.starts_with(pattern),
        }
    }
}

struct Reading {
    read: Read,
    key: Vec<u8>,
    primary: u64,
    /// When its marker was looked up.
    began: Sequence,
}

/// What a salt was given for, when, and after how many crashes.
struct Salt {
    list: Vec<u8>,
    set: u64,
    crashes: u64,
}

/// A fetch under way.
struct Fill {
    key: u64,
    began: Sequence,
    at: u64,
}

#[derive(Default)]
struct Totals {
    served: u64,
    served_old: u64,
    crashes: u64,
    stops: u64,
    evictions: u64,
    renewals: u64,
    checkpoints: u64,
    recovered: u64,
}

struct Run {
    shell: Shell,
    random: Random,
    time: u64,
    versions: HashMap<u64, Version>,
    /// The oldest version of a key that may be served.
    floors: HashMap<Vec<u8>, u64>,
    /// Written, and not known to be flushed.
    written: Vec<(Vec<u8>, u64)>,
    durable: HashMap<Vec<u8>, u64>,
    invalidations: Vec<Invalidation>,
    /// Of each salt ever given to a key.
    salts: HashMap<(u64, u64), Salt>,
    reads: Vec<Reading>,
    fills: Vec<Fill>,
    /// Handed out: with the time of the device, and how much was written by then.
    works: Vec<(Work, u64, usize)>,
    /// The first version stored since the start.
    life: u64,
    totals: Totals,
}

fn primary(key: u64) -> Vec<u8> {
    format!("http://example.org/{:02}/{key}", key % 7).into_bytes()
}

impl Run {
    fn new(seed: u64) -> Self {
        let policy = POLICIES[seed as usize % POLICIES.len()];
        let settings = Settings {
            cluster_bytes: 64 * 1024,
            shards: 4,
            replacement: policy.parse().unwrap(),
            // Every other round of the policies.
            locality_buffers: seed as usize / POLICIES.len() % 2 * 3,
            ..Settings::default()
        };
        let mut shell = Shell::new(4 << 20, settings);
        shell.by_hand = true;
        Self {
            shell,
            random: Random(seed),
            time: 0,
            versions: HashMap::new(),
            floors: HashMap::new(),
            written: Vec::new(),
            durable: HashMap::new(),
            invalidations: Vec::new(),
            salts: HashMap::new(),
            reads: Vec::new(),
            fills: Vec::new(),
            works: Vec::new(),
            life: 0,
            totals: Totals::default(),
        }
    }

    fn step(&mut self) {
        self.time += 1;
        self.shell.now_ms += self.random.below(50);
        match self.random.below(200) {
            0..50 => self.put_now(),
            50..60 => self.begin_fill(),
            60..70 => self.end_fill(),
            70..105 => self.look_up(),
            105..125 => self.end_read(),
            125..150 => self.complete_write(),
            150..157 => self.invalidate(),
            157 => self.invalidate_matching(),
            158..161 => self.forget(),
            161..171 => self.vary(),
            171..181 => self.look_up_variant(),
            181..196 => {
                let writes = self.shell.store.tick(self.shell.now_ms);
                self.shell.pending.extend(writes);
            }
            196..198 => self.shell.pending.extend(self.shell.store.flush()),
            198 if self.random.one_in(3) => self.restart(),
            _ => self.shell.now_ms += 500,
        }
        for _ in 0..self.random.below(6) {
            self.work();
        }
        self.settle();
    }

    // What the twin knows.

    fn is_dead(&self, version: &Version) -> bool {
        self.invalidations
            .iter()
            .any(|it| it.at > version.began && it.is_about(&version.key, version.primary))
    }

    /// `parts` is about to be served for `key`.
    fn serve(&mut self, key: &[u8], parts: &RecordParts) {
        assert_eq!(parts.key, key);
        let number = u64::from_le_bytes(parts.meta[..8].try_into().unwrap());
        let version = &self.versions[&number];
        assert_eq!(version.key, key, "version {number} is another key's");
        assert_eq!(parts.body, body(version.primary, number, version.len));
        assert!(!self.is_dead(version), "version {number} was invalidated");
        let floor = self.floors.get(key).copied().unwrap_or(0);
        // Until all is scanned, the last checkpoint's version is served, though a newer one may yet be found.
        let may_be_found = floor < self.life && self.shell.store.recovery().is_some();
        assert!(
            number >= floor || may_be_found,
            "version {number} was replaced by {floor}"
        );
        self.totals.served += 1;
        self.totals.served_old += u64::from(number < self.life);
    }

    /// Nothing of this key may be served that was stored so far.
    fn kill(&mut self, key: &[u8]) {
        let next = self.versions.len() as u64;
        self.floors.insert(key.to_vec(), next);
    }

    /// A record was lost. While a scan goes on, one that it replaced may be found yet.
    fn dropped(&mut self, key: &[u8]) {
        if self.shell.store.recovery().is_some() {
            let durable = self.durable.get(key).copied().unwrap_or(0);
            self.floors.insert(key.to_vec(), durable);
        }
    }

    fn settle(&mut self) {
        let store = &self.shell.store;
        for invalidation in &mut self.invalidations {
            if let Some(handle) = invalidation.handle
                && store.settled(handle) == Settled::Durable
            {
                invalidation.handle = None;
            }
        }
    }

    // What is done.

    /// Stores under a full key, and notes it if it was stored.
    fn put(&mut self, primary_key: u64, key: &[u8], began: Sequence, at: u64) -> Outcome {
        let number = self.versions.len() as u64;
        let len = match self.random.below(20) {
            0 => self.random.below(120_000),
            1..4 => self.random.below(60_000),
            _ => self.random.below(20_000),
        };
        let bytes = body(primary_key, number, len as usize);
        let (front, rear) = bytes.split_at(self.random.below(bytes.len() as u64) as usize);
        let record = NewRecord {
            hash: self.shell.hash(key),
            primary: self.shell.hash(&primary(primary_key)),
            key,
            meta: &number.to_le_bytes(),
            body: &[front, rear],
            fragment: None,
            total: None,
            began,
            server: primary_key % 5,
        };
        let version = Version {
            key: key.to_vec(),
            primary: primary_key,
            began: at,
            len: len as usize,
        };
        let dead = self.is_dead(&version);
        let outcome = self.shell.put_record(&record);
        assert_ne!(outcome, Outcome::TooLarge);
        if outcome == Outcome::Stored {
            assert!(
                !dead,
                "a fill that began before an invalidation was published"
            );
            self.versions.insert(number, version);
            self.floors.insert(key.to_vec(), number);
        }
        outcome
    }

    fn put_now(&mut self) {
        let key = self.random.below(KEYS);
        let began = self.shell.store.sequence();
        let outcome = self.put(key, &primary(key), began, self.time);
        // W-TinyLFU and the like may refuse by their own lights, but nothing was invalidated.
        let has_variants = (self.shell.store.marker(self.shell.hash(&primary(key)))).is_some();
        match outcome {
            Outcome::Invalidated => assert!(has_variants, "nothing hides it"),
            Outcome::Stored => assert!(!has_variants, "nobody would find it"),
            _ => (),
        }
    }

    fn begin_fill(&mut self) {
        self.fills.push(Fill {
            key: self.random.below(KEYS),
            began: self.shell.store.sequence(),
            at: self.time,
        });
    }

    fn end_fill(&mut self) {
        if self.fills.is_empty() {
            return;
        }
        let number = self.random.below(self.fills.len() as u64) as usize;
        let Fill { key, began, at } = self.fills.swap_remove(number);
        self.put(key, &primary(key), began, at);
    }

    fn look_up(&mut self) {
        let key = self.random.below(KEYS);
        let began = self.shell.store.sequence();
        self.look_up_key(primary(key), key, began);
    }

    fn look_up_key(&mut self, key: Vec<u8>, primary: u64, began: Sequence) {
        let hash = self.shell.hash(&key);
        match self.shell.store.look_up(hash) {
            Lookup::Absent => (),
            Lookup::Buffered(bytes) => match self.shell.store.decode(&bytes, hash) {
                Ok(parts) => self.serve(&key, &parts),
                Err(error) => self.refused(error, &key),
            },
            Lookup::OnDisk(read) => {
                self.reads.push(Reading {
                    read,
                    key,
                    primary,
                    began,
                });
                if self.reads.len() > READS_MAX {
                    self.end_read();
                }
            }
        }
    }

    fn refused(&mut self, error: Corrupt, key: &[u8]) {
        match error {
            Corrupt::Hash => (),
            Corrupt::Invalidated => self.shell.store.forget(self.shell.hash(key)),
            error => panic!("the bytes under a reader stay: {error}"),
        }
    }

    fn end_read(&mut self) {
        if self.reads.is_empty() {
            return;
        }
        let number = self.random.below(self.reads.len() as u64) as usize;
        let reading = self.reads.swap_remove(number);
        let Reading { read, key, .. } = reading;
        if self.random.one_in(100) {
            self.shell.store.read_failed(read);
            self.dropped(&key);
            return;
        }
        let store = &self.shell.store;
        let decoded = store.decode_read(&self.shell.bytes_of(&read), &read);
        let renewal = read.renewal();
        let may_serve = store.read_done(read)
            && !store.invalidated_since(self.shell.hash(&primary(reading.primary)), reading.began);
        match decoded {
            Ok(parts) if may_serve => {
                self.serve(&key, &parts);
                if let Some(renewal) = renewal {
                    let renewed = self.shell.store.renew(renewal, &parts, self.shell.now_ms);
                    self.shell.pending.extend(renewed.writes);
                }
            }
            Ok(_) => (),
            Err(error) => self.refused(error, &key),
        }
    }

    fn complete_write(&mut self) {
        if self.shell.pending.is_empty() {
            return;
        }
        let number = self.random.below(self.shell.pending.len() as u64) as usize;
        let ok = !self.random.one_in(100);
        let versions = versions_in(&self.shell.pending[number].data);
        if ok {
            self.written.extend(versions);
        } else {
            versions.iter().for_each(|(key, _)| self.dropped(key));
        }
        self.shell.complete(number, ok);
    }

    fn invalidate(&mut self) {
        let key = self.random.below(KEYS);
        let name = primary(key);
        let invalidated = self.shell.store.invalidate(self.shell.hash(&name));
        self.invalidations.push(Invalidation {
            at: self.time,
            what: What::Key(key),
            handle: Some(invalidated.handle),
        });
        assert!(!self.shell.store.contains(self.shell.hash(&name)));
        assert!(self.shell.store.marker(self.shell.hash(&name)).is_none());
    }

    fn invalidate_matching(&mut self) {
        let kind = 1 + u8::from(self.random.one_in(5));
        let mut pattern = primary(self.random.below(KEYS));
        if self.random.one_in(2) {
            pattern.truncate(22);
        }
        let handle = self
            .shell
            .store
            .invalidate_matching(kind, &pattern)
            .unwrap();
        self.invalidations.push(Invalidation {
            at: self.time,
            what: What::Matching(kind, pattern),
            handle: Some(handle),
        });
    }

    fn forget(&mut self) {
        let name = primary(self.random.below(KEYS));
        self.shell.store.forget(self.shell.hash(&name));
        // While a scan goes on it may yet find another version.
        if self.shell.store.recovery().is_none() {
            self.kill(&name);
        }
    }

    fn variant(key: u64, marker: &Marker, value: u64) -> Vec<u8> {
        let salt = marker.salt.to_le_bytes();
        [&primary(key)[..], &salt, &marker.list, &[value as u8]].concat()
    }

    /// Sets a marker and stores a variant under it.
    fn vary(&mut self) {
        let key = self.random.below(KEYS);
        let list: &[u8] = if self.random.one_in(8) {
            b"cookie"
        } else {
            b"accept"
        };
        let began = self.shell.store.sequence();
        let hash = self.shell.hash(&primary(key));
        let before = self.shell.store.marker(hash);
        let marker = self.shell.store.set_marker(hash, list, began).unwrap();
        if before.as_ref() != Some(&marker) {
            let salt = Salt {
                list: list.to_vec(),
                set: self.time,
                crashes: self.totals.crashes,
            };
            let before = self.salts.insert((key, marker.salt), salt);
            // After a crash one may come again of which nothing is on the disk.
            let in_this_life = |salt: Salt| salt.crashes == self.totals.crashes;
            assert!(!before.is_some_and(in_this_life), "a salt came twice");
        }
        let value = self.random.below(3);
        self.put(key, &Self::variant(key, &marker, value), began, self.time);
    }

    fn look_up_variant(&mut self) {
        let key = self.random.below(KEYS);
        let began = self.shell.store.sequence();
        let Some(marker) = self.shell.store.marker(self.shell.hash(&primary(key))) else {
            return;
        };
        let Salt { ref list, set, .. } = self.salts[&(key, marker.salt)];
        assert_eq!(**list, *marker.list);
        let killed = |it: &Invalidation| it.at > set && matches!(it.what, What::Key(k) if k == key);
        assert!(!self.invalidations.iter().any(killed), "a marker came back");
        let value = self.random.below(3);
        self.look_up_key(Self::variant(key, &marker, value), key, began);
    }

    // The background.

    /// Takes a piece of work on, or carries one out, or has it fail.
    fn work(&mut self) {
        if self.works.len() < 6
            && self.random.one_in(2)
            && let Some(work) = self.shell.store.next_work(self.shell.now_ms)
        {
            self.works
                .push((work, self.shell.clock(), self.written.len()));
        }
        if self.works.is_empty() || self.random.one_in(4) {
            return;
        }
        let number = self.random.below(self.works.len() as u64) as usize;
        let (work, clock, written) = self.works.swap_remove(number);
        if self.random.one_in(60) {
            if let store::WorkOp::Write { offset, data } = &work.op {
                self.shell.write_at(*offset, &data[..512]);
            }
            if let store::WorkOp::Read { .. } = &work.op {
                // What a scan can't read it can't prefer to what that replaced.
                let life = self.life;
                self.floors.retain(|_, version| *version >= life);
                self.durable.clear();
            }
            self.shell
                .store
                .work_done(work.id, Err(()), self.shell.now_ms);
            return;
        }
        if matches!(work.op, store::WorkOp::Flush) {
            // What comes later in the list may be durable as well; this much is.
            for (key, version) in &self.written[..written.min(self.written.len())] {
                let durable = self.durable.entry(key.clone()).or_insert(*version);
                *durable = (*durable).max(*version);
            }
        }
        self.shell.carry_out(work, clock);
    }

    /// A stop, clean or not, and a start.
    fn restart(&mut self) {
        self.totals.evictions += self.shell.store.figures().evictions;
        self.totals.renewals += self.shell.store.figures().second_chances;
        self.totals.checkpoints += self.shell.store.figures().checkpoints;
        self.totals.recovered += self.shell.store.figures().recovered;
        let clean = self.random.one_in(3) && self.shell.store.recovery().is_none();
        if clean {
            while !self.reads.is_empty() {
                self.end_read();
            }
            self.shell.pending.extend(self.shell.store.flush());
            for pending in &self.shell.pending {
                self.written.extend(versions_in(&pending.data));
            }
            self.shell.complete_all();
            self.shell.store.begin_close();
            for _ in 0..100 {
                for (work, clock, _) in std::mem::take(&mut self.works) {
                    self.shell.carry_out(work, clock);
                }
                self.shell.work_some(1000);
                self.shell.now_ms += 10_000;
            }
            assert!(self.shell.store.is_closed());
            self.settle();
            self.totals.stops += 1;
        } else {
            self.settle();
            self.invalidations.retain(|it| it.handle.is_none());
            // With a policy that frees records one by one the successor may be overwritten before what it replaced: then
            // the older one is found again.
            let by_hand = self.shell.settings.replacement.to_string() == "second-chance";
            self.floors = if by_hand {
                self.durable.clone()
            } else {
                HashMap::new()
            };
            self.totals.crashes += 1;
        }
        self.reads.clear();
        self.fills.clear();
        self.works.clear();
        self.written.clear();
        self.life = self.versions.len() as u64;
        if !clean {
            self.shell.lose_power(&mut self.random);
        }
        let recovered = self.shell.reopen_without_scan();
        assert!(!recovered.empty, "{recovered:?}");
        assert!(!clean || recovered.scan_bytes == 0, "{recovered:?}");
        self.shell.store.audit().unwrap();
    }
}

/// Keys and versions of the records in a write.
fn versions_in(data: &[u8]) -> Vec<(Vec<u8>, u64)> {
    let number = |at: usize| u32::from_le_bytes(data[at..at + 4].try_into().unwrap()) as usize;
    let mut versions = Vec::new();
    let mut at = 0;
    while at < data.len() {
        assert_eq!(&data[at..at + 4], b"LgRc");
        let key_end = at + store::HEADER_BYTES + number(at + 64);
        let key = data[at + store::HEADER_BYTES..key_end].to_vec();
        // A variant carries its marker before the metadata.
        let list_len = |key_end: usize| usize::from(data[key_end + 16]);
        let meta_at = match data[at + 6] & 4 {
            0 => key_end,
            _ => key_end + 18 + list_len(key_end),
        };
        let version = u64::from_le_bytes(data[meta_at..meta_at + 8].try_into().unwrap());
        versions.push((key, version));
        at += number(at + 36) * 512;
    }
    versions
}

#[test]
fn the_store_agrees_with_its_twin() {
    let seeds = match std::env::var("SEED") {
        Ok(seed) => seed.parse().map(|seed: u64| seed..seed + 1).unwrap(),
        Err(_) => 0..48,
    };
    let mut seen = HashSet::new();
    for seed in seeds.clone() {
        let mut run = Run::new(seed);
        let Settings {
            replacement,
            locality_buffers,
            ..
        } = &run.shell.settings;
        println!("SEED={seed} {replacement}, {locality_buffers} locality buffers");
        for step in 0..STEPS {
            run.step();
            if step % 4 == 0 {
                run.shell.store.audit().unwrap();
            }
        }
        let Totals {
            served,
            served_old,
            crashes,
            stops,
            evictions,
            renewals,
            checkpoints,
            recovered,
        } = run.totals;
        println!(
            "  {served} served ({served_old} from before), {crashes} crashes, {stops} stops, {evictions} evictions, \
             {renewals} renewals, {checkpoints} checkpoints, {recovered} recovered"
        );
        for (name, number) in [
            ("served from before", served_old),
            ("crashes", crashes),
            ("stops", stops),
            ("evictions", evictions),
            ("renewals", renewals),
            ("checkpoints", checkpoints),
            ("recovered", recovered),
        ] {
            if number > 10 {
                seen.insert(name);
            }
        }
    }
    assert!(seeds.end - seeds.start == 1 || seen.len() >= 5, "{seen:?}");
}
