//! One idea a test. A disk in memory; commits are written in whole, in part or not at all, as the test says.

use super::replay::{Damaged, Replay};
use super::*;
use crate::index::key::KeyHash;
use crate::layout::log_page as field;

pub(super) const EPOCH: u64 = 7;
pub(super) const SECRET: Secret = Secret([6; 16]);
/// The smallest log: a ring of 12 pages.
const BYTES: usize = 65536;
/// So many key entries fill a page.
const KEYS: u64 = (page::ROOM_BYTES / 17) as u64;

const FRONT: usize = 0;
const REAR: usize = 1;

fn key(n: u64) -> Entry {
    let primary = KeyHash(n * 1000);
    Entry::Key { primary }
}

fn list(n: u64) -> Entry {
    Entry::Matching {
        kind: n as u8,
        pattern: Box::from(vec![n as u8; TEXT_BYTES_MAX]),
    }
}

struct Machine {
    disk: Vec<u8>,
    log: Log,
    sequence: Sequence,
}

impl Machine {
    /// A new log, its first empty page written.
    fn new() -> Self {
        let mut machine = Self {
            disk: vec![0; BYTES],
            log: Log::new(BYTES as u64, EPOCH, SECRET, 0),
            sequence: 0,
        };
        machine.commit();
        machine
    }

    fn append(&mut self, keys: u64) {
        for _ in 0..keys {
            self.sequence += 1;
            self.log.append(self.sequence, key(self.sequence)).unwrap();
        }
    }

    fn write(&mut self, (at, bytes): &(u64, Bytes)) {
        self.disk[*at as usize..][..bytes.len()].copy_from_slice(bytes);
    }

    /// Commits; one of several writes is reported as done, but is not.
    fn commit_losing(&mut self, lost: Option<usize>) -> Commit {
        let commit = self.log.begin_commit().unwrap();
        for (n, write) in commit.writes.iter().enumerate() {
            if lost != Some(n) || commit.writes.len() == 1 {
                self.write(write);
            }
        }
        self.log.end_commit(true);
        commit
    }

    fn commit(&mut self) -> Commit {
        self.commit_losing(None)
    }

    fn commit_all(&mut self) {
        while self.log.needs_commit() {
            self.commit();
        }
    }

    /// One page after the other, full of keys.
    fn fill_pages(&mut self, pages: u64) {
        for _ in 0..pages {
            self.append(KEYS);
            self.commit_all();
        }
    }

    fn replay(&self) -> Result<Replay<'_>, Damaged> {
        Replay::of(&self.disk, EPOCH, SECRET)
    }

    /// Everything above the horizon is there, and is what was appended.
    fn found(&self) -> (Sequence, Vec<Sequence>) {
        let replay = self.replay().unwrap();
        let sequences = replay.entries.map(|(sequence, entry)| {
            assert_eq!(entry, key(sequence));
            sequence
        });
        (replay.horizon, sequences.collect())
    }

    fn restart(&mut self) {
        self.log = self.replay().unwrap().log;
    }

    fn garble(&mut self, at: u64) {
        self.disk[at as usize + 100] ^= 1;
    }
}

/// The slots that a commit writes.
fn places(commit: &Commit) -> Vec<u64> {
    commit.writes.iter().map(|(at, _)| at / 4096).collect()
}

fn numbers(range: std::ops::RangeInclusive<u64>) -> Vec<u64> {
    range.collect()
}

#[test]
fn a_new_log_is_written_before_anything_else() {
    let log = Log::new(BYTES as u64, EPOCH, SECRET, 33);
    assert!(log.needs_commit());
    assert_eq!(
        Replay::of(&vec![0; BYTES], EPOCH, SECRET).unwrap_err(),
        Damaged::NoTail
    );
    let mut machine = Machine {
        log,
        ..Machine::new()
    };
    machine.commit();
    assert!(!machine.log.needs_commit());
    assert!(machine.log.begin_commit().is_none());
    let replay = machine.replay().unwrap();
    assert_eq!((replay.horizon, replay.highest_sequence), (33, 33));
    assert_eq!((replay.pages, replay.whole), (1, true));
}

#[test]
fn an_empty_log_that_was_found_is_written_once_more() {
    let mut first = Log::new(BYTES as u64, EPOCH, SECRET, 33);
    let made = first.opening_writes();
    let mut disk = vec![0; BYTES];
    let put = |disk: &mut Vec<u8>, writes: &[(u64, Bytes)]| {
        for (at, page) in writes {
            disk[*at as usize..][..page.len()].copy_from_slice(page);
        }
    };
    put(&mut disk, &made);
    let mut found = Replay::of(&disk, EPOCH, SECRET).unwrap().log;
    let again = found.opening_writes();
    assert!(!found.needs_commit());
    // The page that was read was never made durable, and is lost now.
    let mut disk = vec![0; BYTES];
    put(&mut disk, &again);
    let replay = Replay::of(&disk, EPOCH, SECRET).unwrap();
    assert_eq!((replay.horizon, replay.pages), (33, 1));
    // Nor does it lie where the page lies that was found, which may be all there is.
    assert!(
        made.iter()
            .all(|(at, _)| again.iter().all(|(b, _)| at != b))
    );
}

#[test]
fn a_log_with_entries_is_not_written_by_the_opening() {
    let mut machine = Machine::new();
    machine.append(3);
    machine.commit();
    assert_eq!(machine.replay().unwrap().log.opening_writes(), []);
}

#[test]
fn what_was_acknowledged_is_replayed_in_order() {
    let mut machine = Machine::new();
    machine.append(3);
    assert_eq!(machine.log.durable(), Position(0));
    machine.commit();
    assert_eq!(machine.log.durable(), Position(3));
    machine.append(2);
    let commit = machine.log.begin_commit().unwrap();
    assert!(machine.log.begin_commit().is_none(), "one commit at a time");
    machine.append(1);
    commit.writes.iter().for_each(|write| machine.write(write));
    machine.log.end_commit(true);
    assert_eq!(machine.log.durable(), Position(5));
    assert_eq!(machine.found(), (0, numbers(1..=5)));
    assert!(machine.log.needs_commit());
}

#[test]
fn commits_alternate_between_two_pairs_far_apart() {
    let mut machine = Machine::new();
    for expected in [[1, 15], [0, 14], [1, 15]] {
        machine.append(1);
        assert_eq!(places(&machine.commit()), expected);
    }
}

#[test]
fn a_full_page_goes_to_the_ring_before_the_next_begins() {
    let mut machine = Machine::new();
    machine.append(KEYS + 1);
    assert_eq!(places(&machine.commit()), [1, 15]);
    assert_eq!(machine.log.durable(), Position(KEYS));
    assert_eq!(places(&machine.commit()), [2]);
    assert_eq!(machine.log.durable(), Position(KEYS));
    assert_eq!(places(&machine.commit()), [0, 14]);
    assert_eq!(machine.log.durable(), Position(KEYS + 1));
    machine.append(1);
    assert_eq!(places(&machine.commit()), [1, 15]);
    assert_eq!(machine.found(), (0, numbers(1..=KEYS + 2)));
}

#[test]
fn a_torn_tail_takes_nothing_that_was_acknowledged() {
    let mut machine = Machine::new();
    machine.append(5);
    machine.commit();
    machine.append(5);
    let commit = machine.log.begin_commit().unwrap();
    for (at, bytes) in &commit.writes {
        machine.disk[*at as usize..][..512].copy_from_slice(&bytes[..512]);
        machine.disk[*at as usize + 512..][..3584].fill(0xff);
    }
    assert_eq!(machine.found(), (0, numbers(1..=5)));
}

#[test]
fn one_copy_silently_lost_does_no_harm() {
    for lost in [FRONT, REAR] {
        let mut machine = Machine::new();
        for _ in 0..5 {
            machine.append(KEYS / 2);
            while machine.log.needs_commit() {
                machine.commit_losing(Some(lost));
            }
            let appended = machine.sequence;
            assert_eq!(machine.found(), (0, numbers(1..=appended)));
        }
    }
}

#[test]
fn a_failed_commit_is_done_again_and_spares_what_was_acknowledged() {
    let mut machine = Machine::new();
    machine.append(2);
    machine.commit();
    machine.append(1);
    let failed = machine.log.begin_commit().unwrap();
    machine.log.end_commit(false);
    assert!(machine.log.needs_commit());
    assert_eq!(machine.log.durable(), Position(2));
    // Torn in the worst way.
    for (at, _) in &failed.writes {
        machine.garble(*at);
    }
    assert_eq!(machine.found(), (0, numbers(1..=2)));
    machine.append(1);
    let again = machine.commit();
    assert_eq!(places(&again), places(&failed));
    assert!(again.number > failed.number);
    assert_eq!(machine.log.durable(), Position(4));
    assert_eq!(machine.found(), (0, numbers(1..=4)));
}

#[test]
fn a_full_page_that_was_not_acknowledged_goes_to_the_tail_again() {
    let mut machine = Machine::new();
    machine.append(KEYS + 1);
    machine.log.begin_commit().unwrap();
    machine.log.end_commit(false);
    assert_eq!(places(&machine.commit()), [1, 15]);
    assert_eq!(places(&machine.commit()), [2]);
}

#[test]
fn no_page_is_begun_while_the_ring_fails() {
    let mut machine = Machine::new();
    machine.fill_pages(1);
    machine.append(1);
    for _ in 0..3 {
        let failed = machine.log.begin_commit().unwrap();
        assert_eq!(places(&failed), [2]);
        machine.log.end_commit(false);
    }
    machine.commit_all();
    assert_eq!(machine.found(), (0, numbers(1..=KEYS + 1)));
}

#[test]
fn the_ring_wraps_and_the_horizon_follows() {
    let mut machine = Machine::new();
    machine.fill_pages(13);
    assert_eq!(machine.log.horizon(), 0);
    assert_eq!(machine.found(), (0, numbers(1..=13 * KEYS)));
    machine.fill_pages(1);
    assert_eq!(machine.log.horizon(), KEYS);
    assert_eq!(machine.found(), (KEYS, numbers(KEYS + 1..=14 * KEYS)));
    machine.fill_pages(40);
    assert_eq!(machine.log.horizon(), 41 * KEYS);
    let replay = machine.replay().unwrap();
    assert!(replay.whole);
    assert_eq!((replay.horizon, replay.pages), (41 * KEYS, 13));
    assert_eq!(replay.highest_sequence, 54 * KEYS);
}

#[test]
fn the_oldest_page_is_given_up_before_it_is_overwritten() {
    let mut machine = Machine::new();
    machine.fill_pages(13);
    machine.append(1);
    let torn = machine.log.begin_commit().unwrap();
    assert_eq!(places(&torn), [2]);
    assert_eq!(machine.log.horizon(), KEYS);
    machine.log.end_commit(false);
    machine.garble(2 * 4096);
    assert_eq!(machine.found(), (KEYS, numbers(KEYS + 1..=13 * KEYS)));
    assert!(machine.replay().unwrap().whole);
    assert_eq!(machine.log.horizon(), KEYS);
}

#[test]
fn how_many_pages_are_left_before_the_horizon_passes() {
    let mut machine = Machine::new();
    for _ in 0..3 {
        machine.fill_pages(9);
        for sequence in [machine.sequence - 7 * KEYS - 1, machine.sequence - 5] {
            let mut log = machine.replay().unwrap().log;
            let left = log.pages_left_before(sequence);
            let mut pages = 0;
            for n in 0.. {
                if log.horizon() > sequence {
                    break;
                }
                if !log.needs_commit() {
                    log.append(1_000_000 + n, list(n)).unwrap();
                }
                pages += u64::from(log.begin_commit().unwrap().writes.len() == 1);
                log.end_commit(true);
            }
            assert_eq!(pages, left + 1, "one page more takes it away");
            assert_eq!(log.pages_left_before(sequence), 0);
        }
    }
}

#[test]
fn a_damaged_ring_page_raises_the_horizon_to_what_it_may_have_held() {
    let mut machine = Machine::new();
    machine.fill_pages(6);
    machine.append(10);
    machine.commit_all();
    machine.garble((2 + 3) * 4096);
    assert_eq!(
        machine.found(),
        (4 * KEYS, numbers(4 * KEYS + 1..=6 * KEYS + 10))
    );
    let replay = machine.replay().unwrap();
    assert!(!replay.whole);
    assert_eq!(replay.log.horizon(), 4 * KEYS);
}

#[test]
fn a_ring_write_silently_lost_is_a_hole_even_with_an_older_copy_in_the_tail() {
    let mut machine = Machine::new();
    machine.append(3);
    machine.commit();
    machine.append(KEYS - 3);
    machine.commit_losing(Some(FRONT));
    machine.append(2);
    let to_ring = machine.log.begin_commit().unwrap();
    assert_eq!(places(&to_ring), [2]);
    machine.log.end_commit(true);
    machine.commit();
    assert_eq!(machine.found(), (KEYS, numbers(KEYS + 1..=KEYS + 2)));
}

#[test]
fn a_page_of_the_ring_that_came_to_lie_elsewhere_is_not_found_there() {
    let mut machine = Machine::new();
    machine.fill_pages(6);
    let stray = machine.disk[2 * 4096..3 * 4096].to_vec();
    machine.disk[4 * 4096..5 * 4096].copy_from_slice(&stray);
    assert_eq!(
        machine.found(),
        (3 * KEYS, numbers(3 * KEYS + 1..=6 * KEYS))
    );
}

#[test]
fn after_a_replay_the_page_found_is_put_away_and_a_new_one_begun() {
    let mut machine = Machine::new();
    machine.append(3);
    machine.commit();
    machine.restart();
    assert!(machine.log.needs_commit(), "its page is not in the ring");
    assert_eq!(places(&machine.commit()), [2]);
    assert_eq!(machine.log.durable(), Position(3));
    assert!(!machine.log.needs_commit());
    machine.append(1);
    assert_eq!(places(&machine.commit()), [0, 14], "page 0 is in 1 and 15");
    assert_eq!(machine.log.page.head.number, 1);
    assert_eq!(machine.found(), (0, numbers(1..=4)));
}

#[test]
fn restarts_alone_do_not_wrap_the_ring() {
    let mut machine = Machine::new();
    machine.append(3);
    machine.commit();
    for _ in 0..50 {
        machine.restart();
        machine.commit_all();
    }
    assert_eq!(machine.log.page.head.number, 0);
    machine.append(1);
    machine.commit();
    assert_eq!(machine.found(), (0, numbers(1..=4)));
}

#[test]
fn a_page_already_in_the_ring_is_not_written_there_again() {
    let mut machine = Machine::new();
    machine.fill_pages(1);
    machine.append(1);
    machine.commit();
    machine.restart();
    machine.append(2);
    assert_eq!(places(&machine.commit()), [0, 14]);
    assert_eq!(machine.found().1.len() as u64, KEYS + 2);
}

/// The crash that made the ring's commits separate ones.
#[test]
fn a_crash_as_a_page_begins_leaves_no_hole() {
    for written in [vec![], vec![FRONT], vec![REAR], vec![FRONT, REAR]] {
        let mut machine = Machine::new();
        machine.fill_pages(3);
        machine.append(1);
        machine.commit();
        let begun = machine.log.begin_commit().unwrap();
        for n in written {
            machine.write(&begun.writes[n]);
        }
        let replay = machine.replay().unwrap();
        assert_eq!((replay.horizon, replay.whole), (0, true));
        assert!(replay.entries.count() as u64 >= 3 * KEYS);
    }
}

/// Found by the simulation (seed 169): one crash and one silent fault made the store start empty.
#[test]
fn a_page_that_only_the_ring_has_counts() {
    let mut machine = Machine::new();
    machine.append(2);
    machine.commit();
    machine.append(1);
    // A crash: of the commit, one of the two writes is there.
    let begun = machine.log.begin_commit().unwrap();
    let (slot, _) = begun.writes[FRONT];
    machine.write(&begun.writes[FRONT]);
    machine.restart();
    // The start puts it into the ring; then that one copy is silently lost.
    machine.commit();
    machine.garble(slot);
    assert_eq!(machine.found(), (0, numbers(1..=3)));
    machine.restart();
    machine.append(2);
    machine.commit_all();
    assert_eq!(machine.found(), (0, numbers(1..=5)));
}

#[test]
fn a_log_that_was_found_has_nothing_to_wait_for() {
    let mut machine = Machine::new();
    machine.append(1);
    machine.commit();
    machine.restart();
    assert_eq!(machine.log.durable(), machine.log.end());
}

#[test]
fn no_tail_or_one_older_than_the_ring_is_damage() {
    let mut machine = Machine::new();
    machine.append(1);
    machine.commit();
    let old = machine.disk.clone();
    machine.fill_pages(4);
    let whole = machine.disk.clone();
    for slot in [0, 1, 14, 15] {
        machine.garble(slot * 4096);
    }
    assert_eq!(machine.replay().unwrap_err(), Damaged::NoTail);
    machine.disk = whole;
    for slot in [0, 1, 14, 15] {
        let place = slot * 4096..(slot + 1) * 4096;
        machine.disk[place.clone()].copy_from_slice(&old[place]);
    }
    assert_eq!(machine.replay().unwrap_err(), Damaged::Stale);
}

#[test]
fn foreign_bytes_are_no_log() {
    let replay = |bytes: &[u8]| Replay::of(bytes, EPOCH, SECRET).map(|_| ()).unwrap_err();
    for len in [0, 1, 4096, 7 * 4096, BYTES - 1, BYTES + 512] {
        assert_eq!(replay(&vec![0; len]), Damaged::Length);
    }
    assert_eq!(replay(&[0x5a; BYTES]), Damaged::NoTail);
    // A body that looks like a page in all but the secret.
    let mut machine = Machine::new();
    machine.append(3);
    machine.commit();
    let stranger = Replay::of(&machine.disk, EPOCH, Secret([1; 16]));
    assert_eq!(stranger.unwrap_err(), Damaged::NoTail);
    let older = Replay::of(&machine.disk, EPOCH + 1, SECRET);
    assert_eq!(older.unwrap_err(), Damaged::NoTail);
    let mut forged = machine.disk[4096..8192].to_vec();
    field::HIGHEST.put_u64(&mut forged, u64::MAX);
    field::COMMIT.put_u64(&mut forged, 1 << 40);
    machine.disk[..4096].copy_from_slice(&forged);
    assert_eq!(machine.found(), (0, numbers(1..=3)));
}

#[test]
fn one_entry_too_many_is_refused_and_so_is_one_too_long() {
    let mut machine = Machine::new();
    let entries = (WAITING_BYTES_MAX / 17) as u64;
    machine.append(entries);
    assert_eq!(machine.log.append(1, key(1)), Err(Refused::Full));
    machine.commit();
    machine.append(KEYS);
    assert_eq!(machine.log.append(1, key(1)), Err(Refused::Full));
    let pattern = Box::from(vec![0; TEXT_BYTES_MAX + 1]);
    let long = Entry::Matching { kind: 1, pattern };
    assert_eq!(machine.log.append(1, long), Err(Refused::TooLong));
    machine.commit_all();
    assert_eq!(machine.log.waiting_bytes, 0);
    assert_eq!(machine.log.durable(), Position(entries + KEYS));
}

#[test]
fn long_entries_fill_pages_too() {
    let mut machine = Machine::new();
    for n in 1..=8 {
        let position = machine.log.append(n, list(n)).unwrap();
        assert_eq!(position, Position(n - 1));
    }
    machine.commit_all();
    let replay = machine.replay().unwrap();
    let expected: Vec<_> = (1..=8).map(|n| (n, list(n))).collect();
    assert_eq!(replay.entries.collect::<Vec<_>>(), expected);
    assert_eq!(replay.pages, 3);
}

#[test]
fn sequences_out_of_order_are_covered_all_the_same() {
    let mut machine = Machine::new();
    for page in 0..4u64 {
        // The first of each page is newer than all of the next page.
        for n in 0..KEYS {
            let sequence = 1 + page * KEYS + (KEYS - 1 - n) + if n == 0 { 2 * KEYS } else { 0 };
            machine.log.append(sequence, key(sequence)).unwrap();
        }
        machine.commit_all();
    }
    machine.garble((2 + 1) * 4096);
    let (horizon, found) = machine.found();
    assert_eq!(
        horizon,
        1 + KEYS + KEYS - 1 + 2 * KEYS,
        "the highest of page 1"
    );
    assert_eq!(found.len() as u64, 2 * KEYS);
}
