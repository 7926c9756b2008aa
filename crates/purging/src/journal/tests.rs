//! The journal, cut and changed at every byte, and what can then be read of it.

mod model;

use std::collections::BTreeMap;

use bytes::Bytes;

use super::super::change::{Change, Pattern};
use super::segment::{CHUNK_BYTES, FRAME_BYTES};
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
        change: change(&format!("GET http://a.example/{n:08}")),
    }
}

fn change(name: &str) -> Bytes {
    let names = vec![name.as_bytes().to_vec()];
    Change::of_unsafe_method(names).encode().unwrap().into()
}

fn heard(n: u64) -> Vector {
    let mut vector = Vector::default();
    vector.hear(Origin(5), Stamp(n), 0);
    vector
}

/// The lines for a member that has heard the first `n`; `None`: it has lost something.
fn lines(journal: &Journal, n: u64) -> Option<Vec<Line>> {
    let mut at = journal.position_for(&heard(n))?;
    let mut all = Vec::new();
    loop {
        let (lines, next) = journal.read(at).unwrap()?;
        if lines.is_empty() {
            return Some(all);
        }
        all.extend(lines);
        at = next;
    }
}

/// The numbers in the names in these lines, without entries that the member has heard.
fn told(journal: &Journal, n: u64) -> Option<Vec<u64>> {
    let lacks = heard(n);
    let mut all = Vec::new();
    for line in lines(journal, n)? {
        let change = match line {
            Line::Entry(entry) if !lacks.has(entry.origin, entry.stamp) => entry.change,
            Line::Also(change) => change,
            _ => continue,
        };
        let change = Change::decode(&change).unwrap();
        let number = |name: &Vec<u8>| String::from_utf8_lossy(&name[21..]).parse::<u64>();
        all.extend(change.names.iter().map(|name| number(name).unwrap()));
    }
    Some(all)
}

fn summaries(journal: &Journal) -> usize {
    let is_summary = |segment: &&Segment| segment.is_summary();
    journal.segments.iter().filter(is_summary).count()
}

fn with_entries(count: u64) -> Journal {
    let (mut journal, opening) = open(Segments::new());
    assert_eq!(opening, Opening::Fresh);
    for n in 1..=count {
        journal.append(&entry(n), n / 100).unwrap();
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
        // The journal goes on, and hears the lost entries again from others.
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
fn names_that_are_purged_again_and_again_need_room_once() {
    let mut journal = with_entries(0);
    for n in 1..=20_000 {
        let name = format!("GET http://a.example/{:08}", n % 300);
        let change = change(&name);
        journal
            .append(&Entry { change, ..entry(n) }, n / 100)
            .unwrap();
    }
    assert!(journal.bytes() <= LIMITS.bytes_max);
    assert!(summaries(&journal) > 0);
    let mut all = told(&journal, 0).unwrap();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all, (0..300).collect::<Vec<_>>(), "each, and by its name");
    let is_coarse = |segment: &Segment| segment.is_coarse();
    assert!(!journal.segments.iter().any(is_coarse));
    // A member that was away for a moment is told exactly what it missed.
    assert_eq!(told(&journal, 19_990).map(|all| all.len()), Some(10));
    let (again, _) = open(segments(&journal));
    assert_eq!(lines(&again, 0), lines(&journal, 0));
    assert_eq!(again.heard().last(Origin(5)), Stamp(20_000));
}

#[test]
fn where_names_differ_directories_stand_for_them_and_the_newest_stay_exact() {
    let journal = with_entries(20_000);
    assert!(journal.bytes() <= LIMITS.bytes_max);
    let said = lines(&journal, 0).unwrap();
    let is_of_directory = |line: &Line| match line {
        Line::Also(change) => {
            let change = Change::decode(change).unwrap();
            change.patterns == [Pattern::Prefix(b"GET http://a.example/".to_vec())]
        }
        _ => false,
    };
    assert!(said.iter().any(is_of_directory));
    let last = said.iter().rfind(|line| !matches!(line, Line::Also(_)));
    assert!(matches!(last, Some(Line::Entry(entry)) if entry.stamp == Stamp(20_000)));
    // A member that was away for a short time is told names.
    let all = told(&journal, 19_900).unwrap();
    let lacks = all.iter().filter(|n| **n > 19_900).count();
    assert!(lacks == 100 && all.len() < 300, "{lacks} of {}", all.len());
}

#[test]
fn what_has_no_room_in_any_form_goes_and_who_needs_it_has_lost_it() {
    let (mut journal, _) = open(Segments::new());
    // Each name is on a server of its own.
    for n in 1..=5000 {
        let change = change(&format!("GET http://a{n:08}.example/"));
        journal
            .append(&Entry { change, ..entry(n) }, n / 100)
            .unwrap();
    }
    assert!(journal.bytes() <= LIMITS.bytes_max);
    assert_eq!(lines(&journal, 0), None);
    assert!(lines(&journal, 4990).is_some());
    let first = (0..5000).find(|&n| lines(&journal, n).is_some()).unwrap();
    assert!(first < 4800, "most of the room is used: {first}");
    let (again, _) = open(segments(&journal));
    assert_eq!(lines(&again, first - 1), None);
    assert_eq!(lines(&again, first), lines(&journal, first));
    // After a long time all segments are too old except the one being written.
    for n in 5001..5100 {
        journal.append(&entry(n), 90_000).unwrap();
    }
    assert_eq!(lines(&journal, 4900), None);
}

#[test]
fn what_takes_several_reads_is_in_the_summary_whole() {
    const NAMES: u64 = 400;
    let limits = Limits {
        bytes_max: 64 << 20,
        ..LIMITS
    };
    let many = |n: u64| -> Bytes {
        let names = (n * NAMES..(n + 1) * NAMES).map(|n| format!("GET http://a.example/{n:08}"));
        let names = names.map(String::into_bytes).collect();
        Change::of_unsafe_method(names).encode().unwrap().into()
    };
    let (mut journal, _) = open_with(limits, Segments::new(), 0);
    for n in 1..=150 {
        let change = many(n - 1);
        journal.append(&Entry { change, ..entry(n) }, n).unwrap();
    }
    assert!(journal.bytes() > CHUNK_BYTES as u64 && summaries(&journal) == 0);
    for n in 150..300 {
        journal.also(7, &many(n), n == 150).unwrap();
    }
    // First from entries and a draft, then from the summary.
    for last in [1000, 1001] {
        journal.upto(7, &heard(last), 200).unwrap();
        let mut all = told(&journal, 0).unwrap();
        all.sort_unstable();
        assert!(all.iter().copied().eq(0..300 * NAMES), "{}", all.len());
    }
}

#[test]
fn a_summary_is_whole_or_not_there_at_all() {
    let mut journal = with_entries(0);
    for n in 1..=5_000 {
        let change = change(&format!("GET http://a.example/{:08}", n % 300));
        journal
            .append(&Entry { change, ..entry(n) }, n / 100)
            .unwrap();
    }
    let held = segments(&journal);
    let at = (journal.segments.iter()).position(|segment| segment.is_summary());
    let (number, length) = {
        let summary = &journal.segments[at.unwrap()];
        (summary.number, summary.bytes as usize)
    };
    let begins_with = journal.segments[at.unwrap()].begins_with.last(Origin(5)).0;
    for at in (0..length).step_by(7) {
        for is_cut in [false, true] {
            let mut held = held.clone();
            let summary = held.get_mut(&number).unwrap();
            match is_cut {
                true => summary.truncate(at),
                false => summary[at] ^= 1,
            }
            let (damaged, opening) = open(held);
            let is_damaged = matches!(
                opening,
                Opening::Kept {
                    is_damaged: true,
                    ..
                }
            );
            assert!(is_damaged, "{at} {is_cut}");
            assert_eq!(lines(&damaged, begins_with), None, "{at} {is_cut}");
            assert_eq!(told(&damaged, 4_995).map(|all| all.len()), Some(5));
        }
    }
    // A crash before the replaced segments were removed.
    let (mut again, mut held) = (with_entries(0), Segments::new());
    for n in 1..=5_000 {
        let change = change(&format!("GET http://a.example/{:08}", n % 300));
        again
            .append(&Entry { change, ..entry(n) }, n / 100)
            .unwrap();
        let before = std::mem::replace(&mut held, segments(&again));
        let left: Segments = before
            .into_iter()
            .filter(|it| !held.contains_key(&it.0))
            .collect();
        if left.is_empty() {
            continue;
        }
        let mut both = held.clone();
        both.extend(left);
        let (crashed, _) = open(both);
        assert_eq!(lines(&crashed, n - 1), lines(&again, n - 1));
        assert_eq!(lines(&crashed, 0), lines(&again, 0));
    }
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

/// An hour of 1,000 purges a second of 100,000 names. To be run by hand: it takes a minute.
#[test]
#[ignore = "takes a minute; prints what an hour of unsafe methods costs"]
fn an_hour_of_unsafe_methods_has_room() {
    let place = tempfile::tempdir().unwrap();
    let medium = Medium::Files(super::super::medium::Files::open(place.path()).unwrap());
    let limits = Limits {
        bytes_max: 64 << 20,
        age_max_s: 86_400,
    };
    let (mut journal, _) = Journal::open(medium, limits, Origin(1), 0).unwrap();
    let mut longest = std::time::Duration::ZERO;
    let began = std::time::Instant::now();
    for n in 1..=3_600_000_u64 {
        let name = n.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 20;
        let name = format!(
            "GET http://www.example.org/api/v1/accounts/{:06}/balance",
            name % 100_000
        );
        let entry = Entry {
            change: change(&name),
            ..entry(n)
        };
        let at = std::time::Instant::now();
        journal.append(&entry, n / 1000).unwrap();
        longest = longest.max(at.elapsed());
    }
    let took = began.elapsed();
    let said = lines(&journal, 0).unwrap();
    let also = said.iter().filter(|line| matches!(line, Line::Also(_)));
    println!(
        "{took:?}, longest {longest:?}; {} MiB in {} segments, {} of them summaries; told: {} lines, {} of summaries",
        journal.bytes() >> 20,
        journal.segments.len(),
        summaries(&journal),
        said.len(),
        also.count(),
    );
    assert!(!journal.segments.iter().any(Segment::is_coarse));
}
