//! After an unclean stop: what was written is found again, what was invalidated is not.

use crate::common::{MIB, Shell, body, spoil_checkpoints};
use store::Settings;

#[test]
fn what_was_written_is_found_again() {
    let mut shell = Shell::small();
    shell.put(b"a", b"1");
    shell.put(b"b", b"2");
    shell.settle();
    shell.put(b"c", b"not written");
    let recovered = shell.reopen();
    assert!(!recovered.empty, "{recovered:?}");
    assert_eq!(shell.get(b"a").unwrap().body, "1");
    assert_eq!(shell.get(b"b").unwrap().body, "2");
    assert!(shell.get(b"c").is_none());
    shell.store.audit().unwrap();
}

#[test]
fn what_was_invalidated_stays_away() {
    let mut shell = Shell::small();
    shell.put(b"a", b"1");
    shell.put(b"b", b"1");
    shell.settle();
    assert!(shell.purge(b"a"));
    shell.put(b"b", b"2");
    shell.settle();
    shell.reopen();
    assert!(shell.get(b"a").is_none());
    assert_eq!(shell.get(b"b").unwrap().body, "2");
    shell.reopen();
    assert!(shell.get(b"a").is_none());
    assert_eq!(shell.get(b"b").unwrap().body, "2");
}

#[test]
fn after_many_rounds_a_crash_costs_little() {
    let mut shell = Shell::new(16 * MIB, Settings::default());
    let mut stored = 0u64;
    for round in 0..3 {
        for _ in 0..3000u64 {
            stored += 1;
            let key = format!("key{stored}");
            let outcome = shell.put(key.as_bytes(), &body(stored, 0, 8000));
            assert_eq!(outcome, store::Outcome::Stored, "{stored}");
            shell.complete_all();
        }
        shell.settle();
        shell.store.audit().unwrap();
        let before: Vec<bool> = (1..=stored)
            .map(|n| shell.get(format!("key{n}").as_bytes()).is_some())
            .collect();
        let hits = before.iter().filter(|hit| **hit).count();
        let recovered = shell.reopen();
        let after: Vec<bool> = (1..=stored)
            .map(|n| shell.get(format!("key{n}").as_bytes()).is_some())
            .collect();
        let lost = before
            .iter()
            .zip(&after)
            .filter(|(b, a)| **b && !**a)
            .count();
        let evicted = shell.store.figures().evictions as usize;
        println!(
            "round {round}: {hits} before, {lost} lost, {recovered:?} {:?}",
            shell.store.figures()
        );
        assert!(
            hits > 1500 && lost.saturating_sub(evicted) * 100 <= hits && evicted < 40,
            "{hits} hits, {lost} lost"
        );
        shell.store.audit().unwrap();
    }
}

#[test]
fn a_clean_stop_needs_no_scan() {
    let mut shell = Shell::small();
    for n in 0..100u64 {
        shell.put(&n.to_le_bytes(), &body(n, 0, 10_000));
        shell.complete_all();
    }
    shell.close();
    let recovered = shell.reopen_without_scan();
    assert_eq!(
        (recovered.records, recovered.scan_bytes),
        (100, 0),
        "{recovered:?}"
    );
    for n in 0..100u64 {
        assert_eq!(
            shell.get(&n.to_le_bytes()).unwrap().body,
            body(n, 0, 10_000)
        );
    }
    shell.store.audit().unwrap();
}

/// Region in which the record lies that is found under this key.
fn place_of(shell: &Shell, key: &[u8]) -> u64 {
    let read = shell.read(key);
    let offset = read.offset;
    assert!(shell.store.read_done(read));
    offset
}

fn value(shell: &Shell, key: &[u8]) -> Option<Vec<u8>> {
    shell.get(key).map(|parts| parts.body.to_vec())
}

#[test]
fn a_record_in_a_body_is_not_found() {
    let mut shell = Shell::small();
    shell.put(b"victim", b"true");
    shell.settle();
    let at = place_of(&shell, b"victim") as usize;
    let copy = shell.disk[at..at + 512].to_vec();
    // Our own record, chunk by chunk, as an origin might send it back; and one of another key's store.
    let mut other = Shell::small();
    other.reopen();
    other.put(b"victim", b"false");
    other.settle();
    let mut forged = vec![b'x'; 512 - 128 - 6 - 4];
    for _ in 0..20 {
        forged.extend_from_slice(&copy);
        forged.extend_from_slice(&other.disk[MIB as usize..MIB as usize + 512]);
    }
    shell.put(b"forged", &forged);
    shell.purge(b"victim");
    shell.settle();
    let recovered = shell.reopen();
    assert!(shell.get(b"victim").is_none(), "{recovered:?}");
    assert_eq!(value(&shell, b"forged").unwrap(), forged);
    // Found by the scan of a body even if the record around it is damaged.
    let at = place_of(&shell, b"forged") as usize;
    shell.disk[at] ^= 1;
    shell.reopen();
    assert!(shell.get(b"victim").is_none());
    assert_eq!(shell.store.figures().records, 0);
}

#[test]
fn a_replaced_version_does_not_come_back() {
    let mut shell = Shell::small();
    for version in 0..30u64 {
        for key in 0..10u64 {
            shell.put(&key.to_le_bytes(), &body(key, version, 9000));
        }
        shell.settle();
        if version % 3 == 0 {
            shell.reopen();
        }
        for key in 0..10u64 {
            assert_eq!(
                value(&shell, &key.to_le_bytes()).unwrap(),
                body(key, version, 9000)
            );
        }
    }
    shell.store.audit().unwrap();
}

#[test]
fn what_is_stored_during_the_scan_is_not_replaced_by_what_it_finds() {
    let mut shell = Shell::small();
    // Regions are noted ahead, so the next start finds some empty and uses them without another note.
    shell.fill(MIB, 20_000);
    shell.put(b"a", b"old");
    shell.fill(MIB, 20_000);
    shell.settle();
    // All is scanned.
    spoil_checkpoints(&mut shell);
    shell.reopen_without_scan();
    shell.by_hand = true;
    // As little of the scan as lets it store.
    for _ in 0..20 {
        shell.now_ms += 1000;
        if shell.put(b"a", b"new") == store::Outcome::Stored {
            break;
        }
        shell.work_some(1);
    }
    shell.settle();
    assert!(shell.store.recovery().is_some(), "the scan goes on");
    assert_eq!(value(&shell, b"a").unwrap(), b"new");
    shell.by_hand = false;
    shell.work();
    assert_eq!(value(&shell, b"a").unwrap(), b"new");
    shell.store.audit().unwrap();
}

#[test]
fn a_purge_that_the_log_has_forgotten_still_holds() {
    for checkpoint in [true, false] {
        let mut shell = Shell::small();
        shell.put(b"a", b"1");
        shell.settle();
        shell.purge(b"a");
        // The log of the smallest store has some 3000 entries.
        for n in 0..6000u64 {
            shell.purge(&n.to_le_bytes());
        }
        shell.put(b"b", b"1");
        shell.settle();
        if !checkpoint {
            spoil_checkpoints(&mut shell);
        }
        shell.reopen();
        assert!(shell.get(b"a").is_none());
        assert_eq!(value(&shell, b"b").unwrap(), b"1");
    }
}

#[test]
fn purges_alone_do_not_cost_what_is_stored() {
    let mut shell = Shell::small();
    shell.fill(MIB, 20_000);
    shell.settle();
    for n in 0..6000u64 {
        shell.purge(&n.to_le_bytes());
    }
    shell.reopen();
    let left = shell.store.figures().records;
    // But for what lies in regions that were open, and is older than the log.
    assert!(left >= 40, "{left} of 52");
}

#[test]
fn without_a_checkpoint_a_full_scan_finds_everything() {
    let mut shell = Shell::small();
    for n in 0..120u64 {
        shell.put(&n.to_le_bytes(), &body(n, 0, 15_000));
        shell.complete_all();
    }
    shell.close();
    spoil_checkpoints(&mut shell);
    let recovered = shell.reopen();
    assert!(recovered.words.contains("no checkpoint"), "{recovered:?}");
    for n in 0..120u64 {
        assert_eq!(value(&shell, &n.to_le_bytes()).unwrap(), body(n, 0, 15_000));
    }
    shell.store.audit().unwrap();
}

#[test]
fn a_damaged_journal_costs_what_it_spoke_of_and_nothing_wrong_is_served() {
    let mut shell = Shell::small();
    shell.fill(2 * MIB, 20_000);
    shell.settle();
    let geometry = shell.store.geometry().clone();
    let quarter = geometry.region_journal_bytes / 4;
    for slot in 0..4 {
        shell.disk[(geometry.region_journal_at + slot * quarter) as usize + 100] ^= 1;
    }
    shell.reopen();
    assert_eq!(shell.store.figures().records, 0);
    // It is noted anew before it is used: what is stored now survives.
    for n in 0..40u64 {
        shell.put(&n.to_le_bytes(), &body(n, 0, 15_000));
        shell.complete_all();
    }
    shell.settle();
    let handle = shell
        .store
        .invalidate_matching(1, &3u64.to_le_bytes())
        .unwrap();
    shell.work();
    assert_eq!(shell.store.settled(handle), store::Settled::Durable);
    shell.fill(MIB / 2, 20_000);
    let read = shell.read(&3u64.to_le_bytes());
    assert!(
        shell
            .store
            .decode_read(&shell.bytes_of(&read), &read)
            .is_err(),
        "purged"
    );
    let _ = shell.store.read_done(read);
    shell.reopen();
    for n in (0..40u64).filter(|&n| n != 3) {
        assert_eq!(
            value(&shell, &n.to_le_bytes()).unwrap(),
            body(n, 0, 15_000),
            "{n}"
        );
    }
    shell.store.audit().unwrap();
}

#[test]
fn a_damaged_log_empties_the_store() {
    let mut shell = Shell::small();
    shell.put(b"a", b"1");
    shell.settle();
    let epoch = |shell: &Shell| store::Superblock::decode(&shell.disk).unwrap().epoch;
    assert_eq!(epoch(&shell), 1);
    let geometry = shell.store.geometry().clone();
    let [(at, len), _] = geometry.logs();
    for byte in (at as usize..at as usize + len).step_by(512) {
        shell.disk[byte + 50] ^= 1;
    }
    let recovered = shell.reopen();
    assert!(recovered.empty, "{recovered:?}");
    assert_eq!(epoch(&shell), 2);
    assert!(shell.get(b"a").is_none());
    shell.put(b"b", b"1");
    shell.settle();
    assert!(!shell.reopen().empty);
    assert_eq!(
        (value(&shell, b"a"), value(&shell, b"b").unwrap()),
        (None, b"1".to_vec())
    );
}

#[test]
fn one_copy_of_the_superblock_is_enough() {
    for copy in store::Superblock::OFFSETS {
        let mut shell = Shell::small();
        shell.put(b"a", b"1");
        shell.close();
        shell.disk[copy as usize + 200] ^= 1;
        let recovered = shell.reopen();
        assert_eq!(recovered.records, 1);
        assert_eq!(value(&shell, b"a").unwrap(), b"1");
        assert_eq!(shell.disk[..4096], shell.disk[32768..36864], "repaired");
    }
}

#[test]
fn the_copy_that_was_damaged_is_written_first() {
    let mut shell = Shell::small();
    shell.close();
    shell.disk[32768 + 200] ^= 1;
    shell.reopen_without_scan();
    let offsets: Vec<u64> = shell
        .store
        .opening()
        .into_iter()
        .map(|(at, _)| at)
        .collect();
    assert_eq!(
        offsets[..2],
        [32768, 0],
        "else a crash now could leave none whole"
    );
}

/// What every crash must leave: what was durable before is there, what was purged is not.
fn check_after_crash(shell: &mut Shell, step: usize) {
    for n in 0..60u64 {
        let found = value(shell, &n.to_le_bytes());
        if n % 7 == 0 {
            assert!(found.is_none(), "step {step}: {n} was purged");
        } else {
            assert_eq!(found.unwrap(), body(n, 0, 12_000), "step {step}");
        }
    }
    shell.store.audit().unwrap();
}

/// A store with something in it, purged here and there, and enough written for a checkpoint.
fn prepared() -> Shell {
    let mut shell = Shell::small();
    for n in 0..60u64 {
        shell.put(&n.to_le_bytes(), &body(n, 0, 12_000));
        shell.complete_all();
    }
    shell.settle();
    for n in (0..60u64).step_by(7) {
        shell.purge(&n.to_le_bytes());
    }
    shell.flushed(shell.clock());
    shell.by_hand = true;
    shell
}

#[test]
fn a_crash_at_any_step_of_a_checkpoint_costs_nothing() {
    let mut finished = 0;
    for step in (0..90).step_by(2) {
        for seed in 0..2 {
            let mut shell = prepared();
            let before = shell.store.figures().checkpoints;
            let mut left = step;
            for n in 100..175u64 {
                shell.put(&n.to_le_bytes(), &body(n, 0, 12_000));
                shell.complete_all();
                left -= shell.work_some(left);
                if left == 0 {
                    break;
                }
            }
            finished += shell.store.figures().checkpoints - before;
            shell.lose_power(&mut crate::common::Random(seed));
            shell.by_hand = false;
            shell.reopen();
            check_after_crash(&mut shell, step);
        }
    }
    assert!(finished > 4, "{finished} checkpoints");
}

#[test]
fn a_crash_at_any_step_of_a_clean_stop_costs_nothing() {
    let mut closed = 0;
    for step in 0..40 {
        for seed in 0..3 {
            let mut shell = prepared();
            shell.store.begin_close();
            shell.work_some(step);
            closed += u64::from(shell.store.is_closed());
            shell.lose_power(&mut crate::common::Random(seed));
            shell.by_hand = false;
            shell.reopen();
            check_after_crash(&mut shell, step);
        }
    }
    assert!(closed > 10, "{closed}");
}

#[test]
fn a_last_checkpoint_that_fails_is_made_again() {
    // Each of its steps fails once.
    let mut failed = 0;
    for step in 0.. {
        let mut shell = prepared();
        shell.store.begin_close();
        shell.work_some(step);
        let Some(work) = shell.store.next_work(shell.now_ms) else {
            break;
        };
        shell.store.work_done(work.id, Err(()), shell.now_ms);
        failed += 1;
        // It does not go round and round: at that moment there is nothing more to be done.
        assert!(shell.work_some(100) < 100, "step {step}");
        assert!(!shell.store.is_closed(), "step {step}");
        shell.now_ms += 1000;
        shell.work_some(usize::MAX);
        assert!(shell.store.is_closed(), "step {step}");
        shell.by_hand = false;
        let recovered = shell.reopen();
        assert_eq!(recovered.scan_bytes, 0, "step {step}: {recovered:?}");
        check_after_crash(&mut shell, step);
    }
    assert!(failed > 5, "{failed} steps");
}

#[test]
fn a_purge_by_pattern_survives() {
    for clean in [true, false] {
        let mut shell = Shell::small();
        shell.put(b"/news/1", b"1");
        shell.put(b"/shop/1", b"1");
        shell.settle();
        let handle = shell.store.invalidate_matching(1, b"/news/").unwrap();
        shell.work();
        assert_eq!(shell.store.settled(handle), store::Settled::Durable);
        if clean {
            shell.close();
        }
        shell.reopen();
        if let store::Lookup::OnDisk(read) = shell.store.look_up(shell.hash(b"/news/1")) {
            assert!(
                shell
                    .store
                    .decode_read(&shell.bytes_of(&read), &read)
                    .is_err()
            );
            let _ = shell.store.read_done(read);
        }
        assert_eq!(value(&shell, b"/shop/1").unwrap(), b"1");
    }
}

#[test]
fn purges_by_pattern_for_which_the_checkpoint_has_no_room_hold_all_the_same() {
    let mut shell = Shell::small();
    // One chunk each, so that the index alone fills the area.
    for n in 0..4000u64 {
        shell.put(&n.to_le_bytes(), b"1");
        shell.complete_all();
    }
    shell.put(b"/news/1", b"1");
    shell.settle();
    let pattern = |n: u32| [b"/news/", &n.to_le_bytes()[..], &[b'x'; 1000]].concat();
    let _ = shell.store.invalidate_matching(1, b"/news/").unwrap();
    // Refused without room; what is there already is not dropped for it.
    for n in 0..200u32 {
        let _ = shell.store.invalidate_matching(1, &pattern(n));
        shell.work();
    }
    shell.close();
    shell.reopen();
    if let store::Lookup::OnDisk(read) = shell.store.look_up(shell.hash(b"/news/1")) {
        let decoded = shell.store.decode_read(&shell.bytes_of(&read), &read);
        assert!(decoded.is_err(), "it was purged");
        let _ = shell.store.read_done(read);
    }
}

#[test]
fn a_large_object_in_fragments_survives() {
    let mut shell = Shell::small();
    let head = shell.hash(b"big");
    let size = shell.store.fragment_bytes() as usize;
    let key = |n: u32| [b"big\0", &n.to_le_bytes()[..]].concat();
    for n in 0..8u32 {
        let (key, bytes) = (key(n), body(9, u64::from(n), size));
        let record = store::NewRecord {
            hash: shell.hash(&key),
            primary: head,
            key: &key,
            meta: b"",
            body: &[&bytes],
            fragment: Some(store::Fragment {
                fetch_id: 5,
                number: n,
            }),
            total: None,
            began: 0,
            server: 0,
        };
        assert_eq!(shell.put_record(&record), store::Outcome::Stored);
        shell.complete_all();
    }
    let total = store::ObjectTotal {
        fetch_id: 5,
        fragments: 8,
        bytes: 8 * size as u64,
    };
    let record = store::NewRecord {
        hash: head,
        primary: head,
        key: b"big",
        meta: b"",
        body: &[],
        fragment: None,
        total: Some(total),
        began: 0,
        server: 0,
    };
    assert_eq!(shell.put_record(&record), store::Outcome::Stored);
    shell.settle();
    shell.reopen();
    assert_eq!(shell.get(b"big").unwrap().total, Some(total));
    for n in 0..8u32 {
        let parts = shell.get(&key(n)).unwrap();
        assert_eq!(parts.fragment.unwrap().number, n);
        assert_eq!(parts.body, body(9, u64::from(n), size));
    }
}

#[test]
fn the_policy_can_be_changed_between_runs() {
    for clean in [true, false] {
        let mut shell = Shell::small();
        let mut version = 0;
        for policy in [
            "second-chance",
            "lru",
            "second-chance",
            "gdsf",
            "second-chance",
        ] {
            shell.settings.replacement = policy.parse().unwrap();
            shell.reopen();
            for n in 0..40u64 {
                let found = value(&shell, &n.to_le_bytes());
                assert!(
                    found.is_none_or(|found| found == body(n, version, 17_000)),
                    "{policy}"
                );
            }
            if version > 0 {
                assert!(
                    shell.store.figures().records >= 30,
                    "{policy}: {:?}",
                    shell.store.figures()
                );
            }
            version += 1;
            for n in 0..40u64 {
                let outcome = shell.put(&n.to_le_bytes(), &body(n, version, 17_000));
                assert_eq!(outcome, store::Outcome::Stored, "{policy} {n}");
                shell.complete_all();
            }
            shell.store.audit().unwrap();
            // So that records come to lie across the borders of regions.
            shell.fill(4 * MIB, 30_000);
            for n in 0..40u64 {
                shell.put(&n.to_le_bytes(), &body(n, version, 17_000));
                shell.complete_all();
            }
            shell.settle();
            shell.store.audit().unwrap();
            if clean {
                shell.close();
            }
        }
    }
}

#[test]
fn numbers_are_not_used_again_by_a_start_that_left_no_trace() {
    let mut shell = Shell::lru();
    shell.put(b"a", b"1");
    shell.settle();
    let mut highest = shell.store.sequence();
    for n in 0..5u64 {
        shell.reopen();
        assert!(shell.store.sequence() > highest, "start {n}");
        // No log entry, no note, no checkpoint: only records.
        shell.put(&n.to_le_bytes(), b"1");
        shell.put(b"a", b"2");
        shell.settle();
        highest = shell.store.sequence();
        assert!(shell.store.invalidate_matching(1, &n.to_le_bytes()).is_ok());
        let read = shell.read(&n.to_le_bytes());
        assert!(
            shell
                .store
                .decode_read(&shell.bytes_of(&read), &read)
                .is_err()
        );
        let _ = shell.store.read_done(read);
    }
}
