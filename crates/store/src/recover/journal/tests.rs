//! Examples, damaged areas, and a disk that crashes, tears and drops writes.

use super::*;
use std::collections::HashMap;

const SECRET: Secret = Secret([7; 16]);
const EPOCH: u64 = 3;
const START: Start = Start {
    epoch: EPOCH,
    generation: 1,
    secret: SECRET,
};
const BYTES: u64 = 64 * 1024;
/// Three pages, the last not full.
const REGIONS: u32 = 1200;

fn blank() -> (Journal, Vec<u8>) {
    let journal = Journal::new(REGIONS, BYTES, START);
    let mut area = vec![0xee; BYTES as usize];
    for (at, bytes) in journal.initial_writes() {
        put(&mut area, at, &bytes);
    }
    (journal, area)
}

fn read(area: &[u8]) -> Journal {
    Journal::read(area, REGIONS, BYTES, START)
}

fn put(area: &mut [u8], at: u64, bytes: &[u8]) {
    area[at as usize..at as usize + bytes.len()].copy_from_slice(bytes);
}

fn note(journal: &mut Journal, area: &mut [u8], region: u32, sequence: Sequence) {
    journal.begin_note(region..region + 1, sequence);
    let mut noted = None;
    while let Some(step) = journal.next_step() {
        if let Step::Write(at, bytes) = step {
            put(area, at, &bytes);
        }
        noted = journal.step_done(true);
    }
    let expected = Noted {
        region,
        sequence,
        durable: true,
    };
    assert_eq!(noted, Some(expected));
}

#[test]
fn what_was_noted_is_read() {
    let (mut journal, mut area) = blank();
    for (region, sequence) in [(0, 5), (1199, 6), (503, 7), (504, 8), (0, 9)] {
        note(&mut journal, &mut area, region, sequence);
        assert_eq!(journal.opened_at(region), sequence);
    }
    let again = read(&area);
    assert_eq!(again.opened_at, journal.opened_at);
    assert_eq!(again.next_write, journal.next_write);
    assert_eq!((again.opened_at(0), again.opened_at(1)), (9, 0));
    assert_eq!(again.damaged_pages(), 0);
}

/// The steps of a note, in order: W and F. Steps that can go out together are handed out before any is done.
fn steps(journal: &mut Journal, area: &mut [u8], region: u32, sequence: Sequence) -> String {
    journal.begin_note(region..region + 1, sequence);
    let mut story = String::new();
    loop {
        let together: Vec<_> = std::iter::from_fn(|| journal.next_step()).collect();
        assert!(!together.is_empty(), "a note that does not end");
        for step in &together {
            assert_ne!(journal.opened_at(region), sequence, "before the end");
            match step {
                Step::Write(at, bytes) => {
                    assert_eq!(bytes.as_ptr().addr() % 4096, 0);
                    put(area, *at, bytes);
                    story += "W";
                }
                Step::Flush => story += "F",
            }
        }
        story += " ";
        let ended = together.iter().filter_map(|_| journal.step_done(true));
        if let Some(noted) = ended.last() {
            assert!(noted.durable && journal.is_idle());
            assert_eq!(journal.opened_at(region), sequence);
            return story;
        }
    }
}

#[test]
fn a_note_is_two_writes_and_a_flush() {
    let (mut journal, mut area) = blank();
    assert_eq!(steps(&mut journal, &mut area, 600, 4), "WW F ");
    let page = |slot: usize| &area[slot * 16384 + 4096..][..4096];
    assert_eq!(page(1), page(3), "page 1, odd write number, both halves");
    assert_ne!(page(1), page(0));
}

/// A note that was read may never have been flushed: a kill left it in the device's cache. A power cut may take it as long as
/// nothing was flushed since, and tear every write before that.
#[test]
fn the_first_note_after_a_start_leaves_an_older_one_whole_until_it_is_flushed() {
    let (mut journal, mut area) = blank();
    note(&mut journal, &mut area, 600, 4);
    let durable = area.clone();
    note(&mut journal, &mut area, 601, 5);
    let mut journal = read(&area);
    journal.begin_note(602..603, 6);
    let Some(Step::Write(at, _)) = journal.next_step() else {
        panic!("a write comes first")
    };
    assert_eq!(journal.next_step(), None, "and nothing beside it");
    let mut cut = durable;
    cut[at as usize..at as usize + 4096].fill(0xbb);
    assert_eq!(read(&cut).opened_at(600), 4);

    let mut journal = read(&area);
    assert_eq!(steps(&mut journal, &mut area, 602, 6), "W F W F ");
    assert_eq!(steps(&mut journal, &mut area, 603, 7), "WW F ");
    assert_eq!(
        steps(&mut journal, &mut area, 0, 8),
        "W F W F ",
        "another page"
    );
}

#[test]
fn a_failed_note_changes_nothing_and_does_not_touch_what_was_noted() {
    let (mut journal, mut area) = blank();
    note(&mut journal, &mut area, 3, 10);
    let durable = area.clone();
    for failing in 0..3 {
        journal.begin_note(3..3 + 1, 20 + failing);
        let noted = (0..=failing).find_map(|step| {
            if let Step::Write(at, bytes) = journal.next_step().unwrap() {
                let page = at as usize..at as usize + bytes.len();
                let old = Journal::read(&durable, REGIONS, BYTES, START);
                assert_eq!(old.opened_at(3), 10);
                area[page].fill(0xbb);
            }
            journal.step_done(step < failing)
        });
        assert!(!noted.unwrap().durable);
        assert_eq!(journal.opened_at(3), 10);
        assert_eq!(read(&area).opened_at(3), 10, "both copies are still there");
    }
    note(&mut journal, &mut area, 3, 30);
    assert_eq!(read(&area).opened_at(3), 30);
}

#[test]
fn of_another_epoch_store_or_size_nothing_is_believed() {
    let (mut journal, mut area) = blank();
    note(&mut journal, &mut area, 3, 10);
    let unknown = |journal: Journal| {
        assert_eq!(journal.damaged_pages() as usize, journal.next_write.len());
        assert!(journal.opened_at.iter().all(|&at| at == UNKNOWN));
    };
    unknown(Journal::read(
        &area,
        REGIONS,
        BYTES,
        Start {
            epoch: EPOCH + 1,
            ..START
        },
    ));
    unknown(Journal::read(
        &area,
        REGIONS,
        BYTES,
        Start {
            secret: Secret([8; 16]),
            ..START
        },
    ));
    unknown(Journal::read(&[], REGIONS, BYTES, START));
    unknown(Journal::read(&[0; BYTES as usize], REGIONS, BYTES, START));
    let fewer = Journal::read(&area, REGIONS - 1, BYTES, START);
    assert_eq!(
        fewer.damaged_pages(),
        1,
        "the page whose number of regions differs"
    );
}

#[test]
fn a_page_in_the_place_of_another_is_not_believed() {
    let (_, mut area) = blank();
    let page: Vec<u8> = area[..PAGE].to_vec();
    for slot in 0..4 {
        put(&mut area, slot * BYTES / 4 + 4096, &page);
    }
    assert_eq!(read(&area).damaged_pages(), 1);
}

#[test]
fn a_damaged_byte_costs_at_most_its_copy() {
    let (mut journal, mut area) = blank();
    note(&mut journal, &mut area, 3, 10);
    let newest = [BYTES as usize / 4, BYTES as usize / 4 * 3];
    for at in 0..PAGE {
        let mut damaged = area.clone();
        damaged[newest[0] + at] ^= 0x10;
        assert_eq!(read(&damaged).opened_at(3), 10, "the other copy, byte {at}");
        damaged[newest[1] + at] ^= 0x10;
        // Both copies of a note that was done: that is more than is assumed. The state before it is whole, though.
        assert_eq!(read(&damaged).opened_at(3), 0, "byte {at}");
        for slot in [0, 2] {
            damaged[slot * BYTES as usize / 4 + at] ^= 1;
        }
        let unknown = read(&damaged);
        assert_eq!(
            (unknown.opened_at(3), unknown.damaged_pages()),
            (UNKNOWN, 1)
        );
        assert_eq!(unknown.opened_at(504), 0, "another page");
    }
    for len in (0..area.len()).step_by(509) {
        let _ = read(&area[..len]);
    }
}

#[test]
fn unknown_regions_are_known_again_once_noted() {
    let mut area = vec![0; BYTES as usize];
    let mut journal = read(&area);
    note(&mut journal, &mut area, 3, 10);
    let again = read(&area);
    assert_eq!((again.opened_at(3), again.opened_at(4)), (10, UNKNOWN));
    assert_eq!(again.damaged_pages(), 2);
}

#[test]
fn a_large_journal_begins_with_large_writes() {
    let regions = 300_000;
    let bytes = 64 << 20;
    let journal = Journal::new(regions, bytes, START);
    let writes = journal.initial_writes();
    assert_eq!(writes.len(), 6);
    let mut area = vec![0; bytes as usize];
    for (at, bytes) in &writes {
        assert!(bytes.len() <= INITIAL_WRITE_BYTES);
        put(&mut area, *at, bytes);
    }
    let again = Journal::read(&area, regions, bytes, START);
    assert_eq!(
        (again.damaged_pages(), again.opened_at),
        (0, journal.opened_at)
    );
}

#[test]
fn what_is_noted_counts_even_if_the_superblock_was_set_back() {
    let (mut journal, mut area) = blank();
    note(&mut journal, &mut area, 3, 10);
    for sequence in 20..24 {
        let start = Start {
            generation: 30 - sequence,
            ..START
        };
        let mut journal = Journal::read(&area, REGIONS, BYTES, start);
        note(&mut journal, &mut area, 3, sequence);
        assert_eq!(read(&area).opened_at(3), sequence);
    }
}

/// Chance from a seed.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % bound
    }
}

/// A disk: what is durable, and what was written since the last flush.
struct Disk {
    durable: Vec<u8>,
    unflushed: Vec<(u64, Bytes)>,
}

impl Disk {
    fn flush(&mut self) {
        for (at, bytes) in self.unflushed.drain(..) {
            put(&mut self.durable, at, &bytes);
        }
    }

    /// Each unflushed write is kept, lost or torn.
    fn settle(&mut self, chance: &mut Chance) {
        for (at, bytes) in self.unflushed.drain(..) {
            match chance.below(3) {
                0 => put(&mut self.durable, at, &bytes),
                1 => {}
                _ => {
                    for (number, sector) in bytes.chunks(512).enumerate() {
                        if chance.below(2) == 0 {
                            put(&mut self.durable, at + number as u64 * 512, sector);
                        }
                    }
                    if chance.below(4) == 0 {
                        self.durable[at as usize + chance.below(4096) as usize] ^= 1;
                    }
                }
            }
        }
    }
}

#[test]
fn after_every_crash_whatever_was_noted_is_there() {
    for seed in 1..=100 {
        crashes(seed);
    }
}

fn crashes(seed: u64) {
    let mut chance = Chance(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let (mut journal, area) = blank();
    let mut disk = Disk {
        durable: area,
        unflushed: Vec::new(),
    };
    let mut noted: Vec<Sequence> = vec![0; REGIONS as usize];
    // Notes that were begun but not done since the last done one of their page. They may come true, even at a later
    // crash: a page spoilt in one sector is whole again when a torn write puts that sector right.
    let mut tried: HashMap<usize, Vec<(u32, Sequence)>> = HashMap::new();
    for sequence in 1..400 {
        // Few regions, so that notes of one page follow each other.
        let region = [0, 1, 503, 504, 1199][chance.below(5) as usize];
        let page = region as usize / REGIONS_PER_PAGE;
        let dropped = chance.below(3);
        let crash_at = chance.below(12);
        let fail_at = chance.below(20);
        journal.begin_note(region..region + 1, sequence);
        tried.entry(page).or_default().push((region, sequence));
        let (mut crashed, mut written) = (false, 0);
        for step in 0.. {
            let Some(next) = journal.next_step() else {
                break;
            };
            match next {
                Step::Flush => {
                    if step == crash_at {
                        crashed = true;
                        break;
                    }
                    // A flush that fails has done anything or nothing.
                    if step == fail_at {
                        disk.settle(&mut chance);
                    } else {
                        disk.flush();
                    }
                }
                Step::Write(at, bytes) => {
                    // One of the two writes may be dropped although it is reported done.
                    if written != dropped {
                        disk.unflushed.push((at, bytes));
                    }
                    written += 1;
                    if step == crash_at {
                        crashed = true;
                        break;
                    }
                }
            }
            if let Some(ended) = journal.step_done(step != fail_at) {
                assert_eq!(ended.durable, step != fail_at);
                if ended.durable {
                    noted[region as usize] = sequence;
                    tried.remove(&page);
                }
            }
        }
        if crashed || chance.below(10) == 0 {
            disk.settle(&mut chance);
            let start = Start {
                generation: sequence + 1,
                ..START
            };
            journal = Journal::read(&disk.durable, REGIONS, BYTES, start);
            assert_eq!(journal.damaged_pages(), 0, "seed {seed}, {sequence}");
            for region in 0..REGIONS {
                let found = journal.opened_at(region);
                let page = region as usize / REGIONS_PER_PAGE;
                let begun = tried
                    .get(&page)
                    .is_some_and(|t| t.contains(&(region, found)));
                let known = noted[region as usize];
                assert!(
                    found == known || begun,
                    "seed {seed}, {sequence}: region {region} was noted at {known}, found {found}"
                );
                noted[region as usize] = found;
            }
        } else {
            assert!(journal.is_idle());
            assert_eq!(journal.opened_at, noted);
        }
    }
}
