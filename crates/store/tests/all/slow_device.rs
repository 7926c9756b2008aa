//! A store beside a device of a hundred operations a second with a long queue of reads, in virtual time: room is made in time.
//!
//! All operations (reads, clusters, notes with their flushes, moves) wait in one queue, first come, first served. As many reads as
//! clients wait for are always in it, so each operation waits for seconds.

use crate::common::{MIB, Random, Shell, body};
use std::collections::VecDeque;
use store::{Lookup, Move, Outcome, Read, Settings, Work, WorkOp, Write};

/// Each operation takes so long,
const SEEK_US: u64 = 10_000;
/// and each MiB of it so much longer.
const MIB_US: u64 = 10_000;

enum Op {
    Read(Read),
    Cluster(Write),
    Work(Work, u64),
    Move(Move),
}

/// What becomes of the inserts.
#[derive(Debug, Default, PartialEq, Eq, Clone, Copy)]
struct Taken {
    stored: u64,
    no_space: u64,
    behind: u64,
}

struct Bench {
    shell: Shell,
    queue: VecDeque<(u64, Op)>,
    now_us: u64,
    free_at_us: u64,
    reads: usize,
    random: Random,
    next_key: u64,
    taken: Taken,
}

impl Bench {
    /// A store that was written once over.
    fn new(bytes: u64, settings: Settings) -> Self {
        let mut shell = Shell::new(bytes, settings);
        let len = 11_000;
        let count = bytes * 5 / 4 / len;
        for n in 0..count {
            let outcome = shell.put(&n.to_le_bytes(), &body(n, 0, len as usize));
            assert_eq!(outcome, Outcome::Stored);
            shell.complete_all();
        }
        shell.settle();
        shell.by_hand = true;
        Bench {
            shell,
            queue: VecDeque::new(),
            now_us: 0,
            free_at_us: 0,
            reads: 0,
            random: Random(7),
            next_key: count,
            taken: Taken::default(),
        }
    }

    fn give(&mut self, bytes: usize, op: Op) {
        let cost = SEEK_US + MIB_US * bytes as u64 / MIB;
        self.free_at_us = self.free_at_us.max(self.now_us) + cost;
        self.queue.push_back((self.free_at_us, op));
    }

    fn give_writes(&mut self) {
        for write in std::mem::take(&mut self.shell.pending) {
            self.give(write.data.len(), Op::Cluster(write));
        }
    }

    /// What the background thread does when it is woken.
    fn background(&mut self) {
        let store = self.shell.store.clone();
        while let Some(work) = store.next_work(self.shell.now_ms) {
            let bytes = match &work.op {
                WorkOp::Read { len, .. } => *len,
                WorkOp::Write { data, .. } => data.len(),
                WorkOp::Flush => 0,
                WorkOp::Yield => {
                    self.shell
                        .store
                        .work_done(work.id, Ok(None), self.shell.now_ms);
                    continue;
                }
            };
            let clock = self.shell.clock();
            self.give(bytes, Op::Work(work, clock));
        }
        while let Some(moved) = store.next_move() {
            self.give(moved.bytes(), Op::Move(moved));
        }
    }

    fn complete(&mut self, op: Op) {
        match op {
            Op::Read(read) => {
                self.reads -= 1;
                let _ = self.shell.store.read_done(read);
            }
            Op::Cluster(write) => {
                let at = write.offset as usize;
                self.shell.disk[at..at + write.data.len()].copy_from_slice(&write.data);
                self.shell
                    .store
                    .write_done(write.id, true, self.shell.now_ms);
                if self.shell.store.wants_room() {
                    self.background();
                }
            }
            Op::Work(work, clock) => {
                self.shell.carry_out(work, clock);
                self.background();
            }
            Op::Move(moved) => {
                self.shell.carry_out_move(moved);
                self.background();
            }
        }
        self.give_writes();
    }

    /// `seconds` with so many inserts a second of `len` bytes on average, and so many reads always waiting.
    fn run(&mut self, seconds: u64, inserts_per_s: u64, len: u64, reads: usize) -> Taken {
        self.taken = Taken::default();
        let end_ms = self.shell.now_ms + seconds * 1000;
        let mut due = 0;
        while self.shell.now_ms < end_ms {
            self.shell.now_ms += 1;
            self.now_us += 1000;
            while let Some(&(at, _)) = self.queue.front()
                && at <= self.now_us
            {
                let (_, op) = self.queue.pop_front().unwrap();
                self.complete(op);
            }
            for _ in 0..4 {
                if self.reads >= reads {
                    break;
                }
                let key = self.random.below(self.next_key);
                let hash = self.shell.hash(&key.to_le_bytes());
                if let Lookup::OnDisk(read) = self.shell.store.look_up(hash) {
                    self.reads += 1;
                    self.give(read.len, Op::Read(read));
                }
            }
            due += inserts_per_s;
            while due >= 1000 {
                due -= 1000;
                self.insert(len);
            }
            if self.shell.now_ms.is_multiple_of(100) {
                let writes = self.shell.store.tick(self.shell.now_ms);
                self.shell.pending.extend(writes);
                self.give_writes();
                self.background();
            }
        }
        self.taken
    }

    fn insert(&mut self, len: u64) {
        let n = self.next_key;
        self.next_key += 1;
        let len = len / 2 + self.random.below(len);
        let outcome = self.shell.put(&n.to_le_bytes(), &body(n, 0, len as usize));
        match outcome {
            Outcome::Stored => self.taken.stored += 1,
            Outcome::NoSpace => self.taken.no_space += 1,
            Outcome::Behind => self.taken.behind += 1,
            other => panic!("{other:?}"),
        }
        let gave = !self.shell.pending.is_empty();
        self.give_writes();
        if gave && self.shell.store.wants_room() {
            self.background();
        }
    }
}

/// A note is two operations one after the other, here of two and a half seconds each. Meanwhile more is stored than usually lies
/// ahead of the hand.
#[test]
fn room_is_made_in_time_although_each_operation_waits_for_seconds() {
    let mut bench = Bench::new(256 * MIB, Settings::default());
    let learning = bench.run(100, 75, 11_000, 250);
    let taken = bench.run(100, 75, 11_000, 250);
    println!("{learning:?}, then {taken:?}");
    assert!(learning.no_space < 150, "{learning:?}");
    assert_eq!(taken.no_space, 0, "{taken:?}");
    bench.shell.store.audit().unwrap();
}
