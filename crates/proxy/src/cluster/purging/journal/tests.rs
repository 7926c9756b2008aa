//! The journal cut and changed at every byte, and what is read of it.

use std::collections::BTreeMap;

use super::*;

const LIMITS: Limits = Limits {
    bytes_max: 64 << 10,
    age_max_s: 1000,
};

type Segments = BTreeMap<u64, Vec<u8>>;

fn open_with(limits: Limits, segments: Segments, now_s: u64) -> (Journal, Opening) {
    Journal::open(Medium::Memory(segments), limits, Origin(77), now_s).unwrap()
}

fn open(segments: Segments) -> (Journal, Opening) {
    open_with(LIMITS, segments, 0)
}

fn segments(journal: &Journal) -> Segments {
    match &journal.medium {
        Medium::Memory(all) => all.clone(),
        Medium::Files(_) => unreachable!("the tests' journals are in memory"),
    }
}

fn entry(n: u64) -> Entry {
    Entry {
        origin: Origin(5),
        stamp: Stamp(n),
        before: Stamp(n - 1),
        unix_s: n,
        change: vec![n as u8; 10].into(),
    }
}

fn heard(n: u64) -> Vector {
    let mut vector = Vector::default();
    vector.hear(Origin(5), Stamp(n), 0);
    vector
}

/// What a member is told that has heard the first `n`; `None`: it has lost something.
fn told(journal: &Journal, n: u64) -> Option<Vec<u64>> {
    let lacks = heard(n);
    let mut at = journal.position_for(&lacks)?;
    let mut all = Vec::new();
    loop {
        let (entries, next) = journal.read(at).unwrap()?;
        if entries.is_empty() {
            return Some(all);
        }
        let lacking = entries.iter().filter(|e| !lacks.has(e.origin, e.stamp));
        all.extend(lacking.map(|entry| entry.stamp.0));
        at = next;
    }
}

fn with_entries(count: u64) -> Journal {
    let (mut journal, opening) = open(Segments::new());
    assert_eq!(opening, Opening::Fresh);
    for n in 1..=count {
        journal.append(&entry(n), n).unwrap();
    }
    journal
}

#[test]
fn what_was_missed_is_told_also_after_a_start() {
    let journal = with_entries(3);
    assert_eq!(told(&journal, 0), Some(vec![1, 2, 3]));
    assert_eq!(told(&journal, 3), Some(vec![]));
    let (mut again, opening) = open(segments(&journal));
    assert_eq!(
        opening,
        Opening::Kept {
            entries: 3,
            is_damaged: false
        }
    );
    assert_eq!(
        again.own(),
        journal.own(),
        "the name is that of the first start"
    );
    again.append(&entry(4), 4).unwrap();
    assert_eq!(told(&again, 2), Some(vec![3, 4]));
}

#[test]
fn stamps_of_two_starts_differ_and_starts_leave_one_segment() {
    let mut held = Segments::new();
    let mut last = Stamp(0);
    for _ in 0..10 {
        let (journal, _) = open(held);
        assert!(journal.first_stamp() > last);
        last = journal.first_stamp();
        held = segments(&journal);
        assert_eq!(held.len(), 1);
    }
}

#[test]
fn a_journal_cut_at_any_byte_keeps_the_whole_entries_before_it() {
    let full = segments(&with_entries(4));
    let (&number, bytes) = full.iter().next().unwrap();
    let entry_bytes = FRAME_BYTES + entry(1).encode().len();
    let entries_at = bytes.len() - 4 * entry_bytes;
    for cut in 0..bytes.len() {
        let (mut journal, opening) = open(Segments::from([(number, bytes[..cut].to_vec())]));
        let Some(behind) = cut.checked_sub(entries_at) else {
            assert_eq!(opening, Opening::Fresh, "cut at {cut}");
            continue;
        };
        let kept = (behind / entry_bytes) as u64;
        let is_damaged = behind % entry_bytes != 0;
        let expected = Opening::Kept {
            entries: kept,
            is_damaged,
        };
        assert_eq!(opening, expected, "cut at {cut}");
        assert_eq!(journal.heard().last(Origin(5)), Stamp(kept));
        // It goes on, and what was cut is heard again from others.
        journal.append(&entry(kept + 1), 9).unwrap();
        assert_eq!(told(&journal, 0), Some((1..=kept + 1).collect()));
        let (again, _) = open(segments(&journal));
        assert_eq!(told(&again, 0), Some((1..=kept + 1).collect()));
    }
}

#[test]
fn a_byte_that_changed_never_makes_another_purge() {
    let full = segments(&with_entries(3));
    let (&number, bytes) = full.iter().next().unwrap();
    for at in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[at] ^= 0x10;
        let (journal, opening) = open(Segments::from([(number, changed)]));
        match told(&journal, 0) {
            Some(kept) => assert!((0..=2).any(|n| kept == (1..=n).collect::<Vec<_>>()), "{at}"),
            None => assert!(journal.segments.len() <= 1),
        }
        let is_whole = matches!(
            opening,
            Opening::Kept {
                is_damaged: false,
                ..
            }
        );
        assert!(!is_whole, "byte {at}");
    }
}

#[test]
fn the_oldest_segments_go_and_who_needs_them_has_lost_them() {
    let mut journal = with_entries(5000);
    assert!(journal.bytes() <= LIMITS.bytes_max);
    assert_eq!(told(&journal, 0), None);
    assert_eq!(told(&journal, 4990), Some((4991..=5000).collect()));
    assert_eq!(told(&journal, 5000), Some(vec![]));
    let first = (0..5000).find(|&n| told(&journal, n).is_some()).unwrap();
    assert!(first < 4500, "most of the room is used: {first}");
    let (again, _) = open(segments(&journal));
    assert_eq!(told(&again, first - 1), None);
    assert_eq!(told(&again, first), Some((first + 1..=5000).collect()));
    // After a long time all but the segment that is being written is too old.
    journal.append(&entry(5001), 90_000).unwrap();
    for n in 5002..5100 {
        journal.append(&entry(n), 90_000).unwrap();
    }
    assert_eq!(told(&journal, 4900), None);
}

#[test]
fn a_damaged_segment_takes_those_before_it_along() {
    let mut held = segments(&with_entries(500));
    let numbers: Vec<u64> = held.keys().copied().collect();
    assert!(numbers.len() > 3);
    let middle = held.get_mut(&numbers[2]).unwrap();
    let half = middle.len() / 2;
    middle[half] ^= 1;
    let (journal, opening) = open(held);
    assert!(matches!(
        opening,
        Opening::Kept {
            is_damaged: true,
            ..
        }
    ));
    assert_eq!(told(&journal, 0), None);
    assert!(
        journal.heard().has(Origin(5), Stamp(500)),
        "what it has heard is not lost"
    );
    assert_eq!(told(&journal, 450).map(|all| all.len()), Some(50));
}

#[test]
fn who_adopts_what_another_has_heard_cannot_tell_it() {
    let mut journal = with_entries(3);
    journal.adopt(&heard(10), 3).unwrap();
    assert_eq!(told(&journal, 3), None);
    assert_eq!(told(&journal, 10), Some(vec![]));
    journal.append(&entry(11), 4).unwrap();
    let (again, _) = open(segments(&journal));
    assert_eq!(told(&again, 10), Some(vec![11]));
    assert_eq!(told(&again, 9), None);
}

#[test]
fn a_write_that_fails_loses_nothing_without_a_word() {
    let mut journal = with_entries(3);
    match &mut journal.medium {
        Medium::Memory(all) => all.clear(),
        Medium::Files(_) => unreachable!(),
    }
    journal.append(&entry(4), 4).unwrap_err();
    assert_eq!(told(&journal, 3), None, "the fourth cannot be told");
    assert_eq!(told(&journal, 4), Some(vec![]));
    journal.append(&entry(5), 5).unwrap();
    assert_eq!(told(&journal, 4), Some(vec![5]));
    assert_eq!(told(&journal, 3), None);
}

#[test]
fn a_directory_is_one_process_and_its_files_come_back() {
    let place = tempfile::tempdir().unwrap();
    let files = || super::super::medium::Files::open(place.path());
    let held = Medium::Files(files().unwrap());
    files().unwrap_err();
    let (journal, opening) = Journal::open(held, LIMITS, Origin(3), 0).unwrap();
    assert_eq!(opening, Opening::Fresh);
    drop(journal);
    let held = Medium::Files(files().unwrap());
    let (mut journal, opening) = Journal::open(held, LIMITS, Origin(1), 0).unwrap();
    assert_eq!(opening, Opening::Fresh, "nothing was dropped yet");
    journal.trust().unwrap();
    for n in 1..=500 {
        journal.append(&entry(n), n).unwrap();
    }
    journal.sync().unwrap();
    let before = told(&journal, 450);
    assert_eq!(before.as_ref().map(Vec::len), Some(50));
    drop(journal);
    let held = Medium::Files(files().unwrap());
    let (again, opening) = Journal::open(held, LIMITS, Origin(2), 0).unwrap();
    assert!(matches!(
        opening,
        Opening::Kept {
            is_damaged: false,
            ..
        }
    ));
    assert_eq!(again.own(), Origin(1));
    assert_eq!(told(&again, 450), before);
}
