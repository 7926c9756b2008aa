//! Random appends, commits, failures and crashes, compared with a list of the acknowledged entries.
//!
//! A write that was not flushed is kept, lost, torn or garbled at a crash; of a commit that succeeded, one copy at most is
//! silently lost or damaged. After each crash every acknowledged entry above the horizon is replayed, nothing is made
//! up, and the horizon is no higher than it was unless a page of the ring was harmed. A failure names
//! its seed: `SEED=n cargo test -p store --lib log::model`.

use super::replay::Replay;
use super::tests::{EPOCH, SECRET};
use super::*;
use crate::index::key::KeyHash;
use std::collections::{HashMap, VecDeque};

const RUNS: u64 = 300;
const STEPS: usize = 400;

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

struct Run {
    random: Random,
    disk: Vec<u8>,
    log: Log,
    /// The next sequences to use, a little shuffled.
    sequences: Vec<Sequence>,
    next_sequence: Sequence,
    /// Every entry ever appended, and its place in the order of appending.
    appended: HashMap<Sequence, (u64, Entry)>,
    /// Entries not known to be durable, by position.
    pending: VecDeque<(Position, Sequence)>,
    acknowledged: Vec<Sequence>,
    /// The last acknowledged commit to the tail.
    last_commit: u64,
    last_page: u64,
    /// In such a run no write to the ring is silently lost, so the horizon must stay low.
    spares_ring: bool,
    /// A page of the ring may be missing.
    harmed: bool,
    /// Until this many pages went to the ring, the horizon stays at or below this sequence.
    promise: Option<(u64, Sequence)>,
    crashes: u64,
    missed: u64,
}

impl Run {
    fn new(seed: u64) -> Self {
        let mut random = Random(seed);
        let bytes = 4096 * (8 + random.below(9));
        let mut run = Self {
            disk: (0..bytes).map(|_| random.next() as u8).collect(),
            random,
            log: Log::new(bytes, EPOCH, SECRET, 5),
            sequences: Vec::new(),
            next_sequence: 6,
            appended: HashMap::new(),
            pending: VecDeque::new(),
            acknowledged: Vec::new(),
            last_commit: 0,
            last_page: 0,
            spares_ring: seed.is_multiple_of(2),
            harmed: false,
            promise: None,
            crashes: 0,
            missed: 0,
        };
        let first = run.log.begin_commit().unwrap();
        run.succeed(&first);
        run
    }

    fn sequence(&mut self) -> Sequence {
        if self.sequences.is_empty() {
            let first = self.next_sequence;
            self.next_sequence += 1 + self.random.below(6);
            self.sequences = (first..self.next_sequence).collect();
            if self.random.one_in(2) {
                self.sequences.reverse();
            }
        }
        self.sequences.pop().unwrap()
    }

    fn append(&mut self) {
        let sequence = self.sequence();
        let hash = KeyHash(self.random.next());
        let text = vec![sequence as u8; self.random.below(TEXT_BYTES_MAX as u64 + 1) as usize];
        let entry = match self.random.below(10) {
            0 | 1 => Entry::Matching {
                kind: self.random.next() as u8,
                pattern: Box::from(text),
            },
            2 => Entry::Replaced { hash },
            _ => Entry::Key { primary: hash },
        };
        let position = self.log.append(sequence, entry.clone()).unwrap();
        let order = self.appended.len() as u64;
        self.appended.insert(sequence, (order, entry));
        self.pending.push_back((position, sequence));
    }

    fn write(&mut self, at: u64, bytes: &[u8]) {
        self.disk[at as usize..][..bytes.len()].copy_from_slice(bytes);
    }

    /// A write with unknown result: done, not done, torn or garbled.
    fn write_perhaps(&mut self, at: u64, bytes: &[u8]) {
        match self.random.below(4) {
            0 => {}
            1 => self.write(at, bytes),
            _ => {
                for (n, sector) in bytes.chunks(512).enumerate() {
                    let at = at + 512 * n as u64;
                    match self.random.below(9) {
                        0..4 => self.write(at, sector),
                        4..8 => {}
                        _ => self.write(at, &[0xe5; 512]),
                    }
                }
            }
        }
    }

    /// All is written and flushed, but one copy may be silently lost or damaged.
    fn succeed(&mut self, commit: &Commit) {
        let count = commit.writes.len() as u64;
        let harm = self.random.one_in(4) && !(count == 1 && self.spares_ring);
        let harmed = harm.then(|| self.random.below(count));
        for (n, (at, bytes)) in commit.writes.iter().enumerate() {
            if harmed != Some(n as u64) {
                self.write(*at, bytes);
                continue;
            }
            self.harmed |= count == 1;
            if self.random.one_in(2) {
                self.write(*at, bytes);
                let place = *at + self.random.below(4096);
                self.disk[place as usize] ^= 1 << self.random.below(8);
            }
        }
        self.log.end_commit(true);
        if count == 2 {
            (self.last_commit, self.last_page) = (commit.number, self.log.page.head.number);
        }
        while let Some(&(position, sequence)) = self.pending.front() {
            if position >= self.log.durable() {
                break;
            }
            self.pending.pop_front();
            self.acknowledged.push(sequence);
        }
        if !self.log.needs_commit() {
            assert!(self.pending.is_empty(), "{:?} {:?}", self.pending, self.log);
        }
    }

    fn commit(&mut self) {
        let Some(commit) = self.log.begin_commit() else {
            return;
        };
        for _ in 0..self.random.below(3) {
            self.append();
        }
        match self.random.below(10) {
            0 | 1 => {
                self.carry_out_perhaps(&commit);
                self.log.end_commit(false);
            }
            2 => {
                self.carry_out_perhaps(&commit);
                self.crash();
            }
            _ => self.succeed(&commit),
        }
    }

    fn carry_out_perhaps(&mut self, commit: &Commit) {
        for (at, bytes) in &commit.writes {
            self.write_perhaps(*at, bytes);
        }
    }

    fn crash(&mut self) {
        self.crashes += 1;
        let disk = std::mem::take(&mut self.disk);
        let replay = Replay::of(&disk, EPOCH, SECRET).unwrap();
        let found: Vec<(Sequence, Entry)> = replay.entries.collect();
        let mut last = None;
        for (sequence, entry) in &found {
            let (order, expected) = &self.appended[sequence];
            assert_eq!(entry, expected);
            assert!(last < Some(order), "out of order, or twice");
            last = Some(order);
            assert!(*sequence <= replay.highest_sequence);
        }
        let found: HashMap<Sequence, Entry> = found.into_iter().collect();
        for sequence in &self.acknowledged {
            assert!(*sequence <= replay.highest_sequence);
            let known = found.contains_key(sequence);
            assert!(
                known || *sequence <= replay.horizon,
                "{sequence} is missing"
            );
            self.missed += u64::from(!known);
        }
        assert_eq!(replay.log.horizon(), replay.horizon);
        if !self.harmed {
            assert!(replay.whole);
            assert!(
                replay.horizon <= self.log.horizon(),
                "the horizon rose without need"
            );
        }
        assert!(replay.log.commit > self.last_commit);
        assert!(replay.log.page.head.number >= self.last_page);
        // Entries that were seen once must not be lost by the next crash.
        self.acknowledged = found.into_keys().collect();
        self.pending.clear();
        self.log = replay.log;
        self.disk = disk;
        self.promise = None;
    }

    fn check_promise(&mut self) {
        let put_away = self.log.page.head.number + u64::from(self.log.ring != Ring::No);
        match self.promise {
            Some((until, sequence)) if put_away <= until => {
                assert!(self.log.horizon() <= sequence, "the horizon rose too early");
            }
            _ => {
                let (low, high) = (self.log.horizon(), self.next_sequence);
                let sequence = low + self.random.below(high - low);
                self.promise = Some((put_away + self.log.pages_left_before(sequence), sequence));
            }
        }
    }

    fn step(&mut self) {
        let burst = [1, 3, 20, 300][self.random.below(4) as usize];
        for _ in 0..self.random.below(burst) {
            self.append();
        }
        self.commit();
        if self.random.one_in(40) {
            self.crash();
        }
        self.check_promise();
    }
}

fn run(seed: u64) -> Run {
    println!("SEED={seed}");
    let mut run = Run::new(seed);
    for _ in 0..STEPS {
        run.step();
    }
    run.crash();
    run
}

#[test]
fn what_was_acknowledged_outlives_every_crash() {
    if let Some(seed) = std::env::var("SEED")
        .ok()
        .and_then(|seed| seed.parse().ok())
    {
        run(seed);
        return;
    }
    let (mut crashes, mut pages, mut missed) = (0, 0, 0);
    for seed in 1..=RUNS {
        let run = run(seed);
        crashes += run.crashes;
        pages += run.log.page.head.number;
        missed += run.missed;
    }
    println!("{crashes} crashes, {pages} pages, {missed} below the horizon");
    assert!(crashes > 10 * RUNS && pages > 40 * RUNS && missed > 0);
}

#[test]
fn damaged_bytes_are_never_a_panic() {
    let mut machine = Run::new(1);
    for _ in 0..200 {
        machine.step();
    }
    let mut random = Random(2);
    for _ in 0..300 {
        let mut disk = machine.disk.clone();
        for _ in 0..random.below(40) {
            let at = random.below(disk.len() as u64) as usize;
            let len = random.below(600).min((disk.len() - at) as u64) as usize;
            let byte = random.next() as u8;
            disk[at..at + len].fill(byte);
        }
        if random.one_in(4) {
            disk.truncate(random.below(disk.len() as u64) as usize);
        }
        if let Ok(replay) = Replay::of(&disk, EPOCH, SECRET) {
            for (sequence, entry) in replay.entries {
                assert_eq!(machine.appended[&sequence].1, entry);
            }
        }
    }
    for _ in 0..2000 {
        let len = random.below(200) as usize;
        let bytes: Vec<u8> = (0..len).map(|_| random.next() as u8 & 7).collect();
        let _ = Entry::take(&bytes);
    }
}
