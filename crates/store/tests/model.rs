//! Random operations against an obvious twin: for each key, what was stored under it last.
//!
//! Checked at every step: what is served is exactly that; what was invalidated, replaced or dropped is never served;
//! readers learn of it; the bytes under a reader stay; the store's own audit. A failure names its seed: `SEED=n cargo
//! test -p store --test model`.

mod common;

use common::{Random, Shell, body};
use std::collections::{HashMap, HashSet};
use store::{Lookup, Marker, NewRecord, Outcome, Read, Sequence, Settings};

const KEYS: u64 = 60;
const STEPS: usize = 2_500;
const READS_MAX: usize = 20;

/// A read under way: what it must bring, and how often its key had been killed when it began.
struct Reading {
    read: Read,
    key: Vec<u8>,
    expected: Vec<u8>,
    kills: u64,
}

/// A fetch under way.
struct Fill {
    key: u64,
    began: Sequence,
    kills: u64,
}

struct Run {
    shell: Shell,
    random: Random,
    /// What was stored last under a full key, until it is killed.
    stored: HashMap<Vec<u8>, Vec<u8>>,
    /// How often a full key was killed.
    kills: HashMap<Vec<u8>, u64>,
    /// How often a primary was invalidated.
    invalidations: HashMap<u64, u64>,
    markers: HashMap<u64, Marker>,
    salts: HashSet<u64>,
    reads: Vec<Reading>,
    fills: Vec<Fill>,
    version: u64,
    hits: u64,
    loads: u64,
}

fn primary(key: u64) -> Vec<u8> {
    format!("http://example.org/{key}").into_bytes()
}

impl Run {
    fn new(seed: u64) -> Self {
        let settings = Settings {
            cluster_bytes: 64 * 1024,
            shards: 4,
            ..Settings::default()
        };
        Self {
            shell: Shell::new(4 << 20, settings),
            random: Random(seed),
            stored: HashMap::new(),
            kills: HashMap::new(),
            invalidations: HashMap::new(),
            markers: HashMap::new(),
            salts: HashSet::new(),
            reads: Vec::new(),
            fills: Vec::new(),
            version: 0,
            hits: 0,
            loads: 0,
        }
    }

    fn step(&mut self) {
        self.shell.now_ms += self.random.below(50);
        match self.random.below(100) {
            0..25 => self.put_now(),
            25..30 => self.begin_fill(),
            30..35 => self.end_fill(),
            35..55 => self.look_up(),
            55..65 => self.end_read(),
            65..75 => self.complete_write(),
            75..82 => self.invalidate(),
            82..84 => self.forget(),
            84..90 => self.vary(),
            90..95 => self.look_up_variant(),
            95..98 => self
                .shell
                .pending
                .extend(self.shell.store.tick(self.shell.now_ms)),
            98 => self.shell.pending.extend(self.shell.store.flush()),
            _ => self.restart(),
        }
    }

    fn kills_of(&self, key: &[u8]) -> u64 {
        self.kills.get(key).copied().unwrap_or(0)
    }

    fn kill(&mut self, key: &[u8]) {
        *self.kills.entry(key.to_vec()).or_default() += 1;
        self.stored.remove(key);
    }

    fn body(&mut self, key: u64) -> Vec<u8> {
        self.version += 1;
        let len = match self.random.below(20) {
            0 => self.random.below(400_000),
            1..4 => self.random.below(100_000),
            _ => self.random.below(20_000),
        };
        body(key, self.version, len as usize)
    }

    /// Stores under a full key, and notes it if it was stored.
    fn put(&mut self, primary_key: u64, key: &[u8], began: Sequence) -> Outcome {
        let bytes = self.body(primary_key);
        let (front, rear) = bytes.split_at(self.random.below(bytes.len() as u64) as usize);
        let record = NewRecord {
            hash: self.shell.hash(key),
            primary: self.shell.hash(&primary(primary_key)),
            key,
            meta: &bytes[..8],
            body: &[front, rear],
            fragment: None,
            total: None,
            began,
        };
        let outcome = self.shell.put_record(&record);
        if outcome == Outcome::Stored {
            self.kill(key);
            self.stored.insert(key.to_vec(), bytes);
        }
        outcome
    }

    fn put_now(&mut self) {
        let key = self.random.below(KEYS);
        let began = self.shell.store.sequence();
        let outcome = self.put(key, &primary(key), began);
        assert_ne!(outcome, Outcome::Invalidated);
        assert_ne!(outcome, Outcome::TooLarge);
    }

    fn begin_fill(&mut self) {
        let key = self.random.below(KEYS);
        let kills = self.invalidations.get(&key).copied().unwrap_or(0);
        self.fills.push(Fill {
            key,
            began: self.shell.store.sequence(),
            kills,
        });
    }

    fn end_fill(&mut self) {
        if self.fills.is_empty() {
            return;
        }
        let number = self.random.below(self.fills.len() as u64) as usize;
        let Fill { key, began, kills } = self.fills.swap_remove(number);
        let invalidated = self.invalidations.get(&key).copied().unwrap_or(0) != kills;
        assert_eq!(
            self.shell
                .store
                .invalidated_since(self.shell.hash(&primary(key)), began),
            invalidated
        );
        let outcome = self.put(key, &primary(key), began);
        match outcome {
            Outcome::Stored | Outcome::NoSpace => assert!(!invalidated),
            Outcome::Invalidated => assert!(invalidated),
            Outcome::Paused => (),
            Outcome::TooLarge => unreachable!(),
        }
    }

    fn look_up(&mut self) {
        let key = primary(self.random.below(KEYS));
        self.look_up_key(key);
    }

    fn look_up_key(&mut self, key: Vec<u8>) {
        let hash = self.shell.hash(&key);
        assert!(self.stored.contains_key(&key) || !self.shell.store.contains(hash));
        match self.shell.store.look_up(hash) {
            Lookup::Absent => (),
            Lookup::Buffered(bytes) => {
                let parts = self.shell.store.decode(&bytes, hash).unwrap();
                assert_eq!(
                    parts.body, self.stored[&key],
                    "what was killed is served from a buffer"
                );
                assert_eq!(parts.key, key);
                self.hits += 1;
            }
            Lookup::OnDisk(read) => {
                let expected = self
                    .stored
                    .get(&key)
                    .expect("what was killed is found")
                    .clone();
                let kills = self.kills_of(&key);
                self.reads.push(Reading {
                    read,
                    key,
                    expected,
                    kills,
                });
                if self.reads.len() > READS_MAX {
                    self.end_read();
                }
            }
        }
    }

    fn end_read(&mut self) {
        if self.reads.is_empty() {
            return;
        }
        let number = self.random.below(self.reads.len() as u64) as usize;
        let Reading {
            read,
            key,
            expected,
            kills,
        } = self.reads.swap_remove(number);
        let parts = self
            .shell
            .store
            .decode_read(&self.shell.bytes_of(&read), &read);
        let parts = parts.expect("the bytes under a reader stay");
        assert_eq!((&parts.key[..], &parts.body[..]), (&key[..], &expected[..]));
        let may_serve = self.shell.store.read_done(read);
        assert_eq!(may_serve, self.kills_of(&key) == kills);
        self.hits += 1;
    }

    fn complete_write(&mut self) {
        if self.shell.pending.is_empty() {
            return;
        }
        let number = self.random.below(self.shell.pending.len() as u64) as usize;
        let ok = !self.random.one_in(15);
        self.shell.complete(number, ok);
        // After a failure the records are gone; what was replaced by them must not come back either.
        if !ok {
            let keys: Vec<_> = self.stored.keys().cloned().collect();
            for key in keys {
                if !self.shell.store.contains(self.shell.hash(&key)) {
                    self.stored.remove(&key);
                }
            }
        }
    }

    fn invalidate(&mut self) {
        let key = self.random.below(KEYS);
        let name = primary(key);
        let hash = self.shell.hash(&name);
        let indexed = self.shell.store.contains(hash) || self.markers.contains_key(&key);
        assert_eq!(self.shell.store.invalidate(hash), indexed);
        *self.invalidations.entry(key).or_default() += 1;
        self.markers.remove(&key);
        self.kill(&name);
    }

    fn forget(&mut self) {
        let name = primary(self.random.below(KEYS));
        self.shell.store.forget(self.shell.hash(&name));
        self.kill(&name);
    }

    fn variant(key: u64, marker: &Marker, value: u64) -> Vec<u8> {
        [
            &primary(key)[..],
            &marker.salt.to_le_bytes(),
            &marker.list,
            &[value as u8],
        ]
        .concat()
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
        let marker = self.shell.store.set_marker(hash, list, began).unwrap();
        match self.markers.get(&key) {
            Some(present) if *present.list == *list => assert_eq!(marker, *present),
            _ => assert!(self.salts.insert(marker.salt), "a salt came twice"),
        }
        self.markers.insert(key, marker.clone());
        let value = self.random.below(3);
        self.put(key, &Self::variant(key, &marker, value), began);
    }

    fn look_up_variant(&mut self) {
        let key = self.random.below(KEYS);
        let marker = self.shell.store.marker(self.shell.hash(&primary(key)));
        assert_eq!(marker.as_ref(), self.markers.get(&key));
        if let Some(marker) = marker {
            let value = self.random.below(3);
            self.look_up_key(Self::variant(key, &marker, value));
        }
    }

    /// A stop, clean or not, and a start.
    fn restart(&mut self) {
        if !self.random.one_in(4) {
            return;
        }
        let clean = self.random.one_in(2);
        if clean {
            while !self.reads.is_empty() {
                self.end_read();
            }
            self.shell.close();
        }
        self.reads.clear();
        self.fills.clear();
        assert_eq!(self.shell.reopen(), clean);
        if clean {
            self.loads += 1;
        } else {
            self.stored.clear();
            self.markers.clear();
            self.salts.clear();
        }
    }
}

#[test]
fn the_store_agrees_with_a_map() {
    let seeds = match std::env::var("SEED") {
        Ok(seed) => seed.parse().map(|seed: u64| seed..seed + 1).unwrap(),
        Err(_) => 1..16,
    };
    let (mut hits, mut loads, mut evictions) = (0, 0, 0);
    for seed in seeds.clone() {
        println!("SEED={seed}");
        let mut run = Run::new(seed);
        for _ in 0..STEPS {
            run.step();
            run.shell.store.audit().unwrap();
        }
        hits += run.hits;
        loads += run.loads;
        evictions += run.shell.store.figures().evictions;
    }
    if seeds.end - seeds.start > 1 {
        assert!(
            hits > 1000 && loads > 10 && evictions > 100,
            "{hits} hits, {loads} loads, {evictions} evictions"
        );
    }
}
