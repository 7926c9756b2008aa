//! Starts after crashes at unlucky moments and after clean stops, several in a row. Most of these tests were a failure of the
//! simulation once.

use crate::common::{MIB, Shell, body, spoil_checkpoints};
use store::set::Moves;
use store::{
    About, Corrupt, Found, Identity, Manner, NewRecord, OpenPlan, Outcome, Settings, Store,
};

/// A pattern is all of the metadata.
const WHOLE_META: Manner = Manner {
    about: About::Word,
    soft: false,
};

/// Where the record lies that is found under this key.
fn place_of(shell: &Shell, key: &[u8]) -> u64 {
    let read = shell.read(key);
    let offset = read.offset;
    assert!(shell.store.read_done(read));
    offset
}

fn value(shell: &Shell, key: &[u8]) -> Option<Vec<u8>> {
    shell.get(key).map(|parts| parts.body.to_vec())
}

fn region_of(shell: &Shell, offset: u64) -> u64 {
    let geometry = shell.store.geometry();
    (offset - geometry.data_at) / geometry.region_bytes()
}

/// Stores what nobody asks for, until the writer has gone on to another region. The key of the last, which lies there.
fn go_on(shell: &mut Shell, seed: &mut u64) -> [u8; 8] {
    let mut before = None;
    loop {
        *seed += 1;
        let key = (1 << 32 | *seed).to_le_bytes();
        assert_eq!(shell.put(&key, &body(*seed, 9, 10_000)), Outcome::Stored);
        shell.settle();
        let region = region_of(shell, place_of(shell, &key));
        if before.is_some_and(|before| before != region) {
            return key;
        }
        before = Some(region);
    }
}

#[test]
fn a_write_in_flight_at_a_checkpoint_brings_nothing_back_that_was_replaced() {
    // The region of "slow" is scanned after the crash, because its write was under way when the checkpoint was begun. The first
    // version of "a" lies there as well, and the second, which replaced it, in a region that is not scanned.
    let mut shell = Shell::small();
    let mut seed = 0;
    go_on(&mut shell, &mut seed);
    shell.put(b"a", b"first");
    shell.settle();
    shell.put(b"slow", &body(1, 1, 3000));
    let slow: Vec<_> = shell.store.flush().into_iter().collect();
    assert_eq!(
        region_of(&shell, slow[0].offset),
        region_of(&shell, place_of(&shell, b"a"))
    );
    go_on(&mut shell, &mut seed);
    shell.put(b"a", b"second");
    shell.settle();
    go_on(&mut shell, &mut seed);
    // The third is in the index when the checkpoint is made, and lost in the crash.
    shell.put(b"a", b"third");
    let third: Vec<_> = shell.store.flush().into_iter().collect();
    let before = shell.store.figures().checkpoints;
    while shell.store.figures().checkpoints == before {
        go_on(&mut shell, &mut seed);
    }
    assert_eq!(slow.len() + third.len(), 2);
    let recovered = shell.reopen();
    assert!(recovered.records > 0, "{recovered:?}");
    assert_ne!(value(&shell, b"a").as_deref(), Some(&b"first"[..]));
    shell.store.audit().unwrap();
}

#[test]
fn the_proof_that_something_was_replaced_is_not_overwritten() {
    // All that the last region holds is purged, so it seems empty. But the second version of "a" is there, and a purge that was
    // about that one only.
    let settings = Settings {
        manner: |_| WHOLE_META,
        ..Settings::default()
    };
    let mut shell = Shell::new(4 * MIB, settings);
    let mut seed = 0;
    shell.put(b"a", b"first");
    let last = go_on(&mut shell, &mut seed);
    let hash = shell.hash(b"a");
    let second = NewRecord {
        hash,
        primary: hash,
        key: b"a",
        meta: b"second",
        body: &[b"second"],
        fragment: None,
        total: None,
        began: shell.store.sequence(),
        server: 0,
    };
    assert_eq!(shell.put_record(&second), Outcome::Stored);
    shell.settle();
    assert_eq!(
        region_of(&shell, place_of(&shell, b"a")),
        region_of(&shell, place_of(&shell, &last))
    );
    shell.purge(&last);
    let _ = shell.store.invalidate_matching(1, b"second").unwrap();
    shell.work();
    for _ in 0..3 {
        shell.reopen();
        assert_eq!(value(&shell, b"a"), None);
        shell.put(b"b", &body(1, 1, 30_000));
        shell.settle();
    }
}

#[test]
fn a_start_that_finds_the_log_unreadable_and_is_cut_short_forgets_no_purge() {
    for purges in 1..4u64 {
        for step in 0.. {
            let mut shell = Shell::small();
            for n in 0..purges {
                shell.put(&n.to_le_bytes(), b"1");
            }
            shell.close();
            shell.reopen();
            for n in 0..purges {
                shell.purge(&n.to_le_bytes());
            }
            let OpenPlan::Recover { superblock, .. } = shell.plan() else {
                panic!("a store lies there");
            };
            let identity = Identity::new(crate::common::random_bytes(77));
            let (store, recovered) =
                Store::recover(superblock, &Found::default(), &shell.settings, identity);
            assert!(recovered.empty);
            let opening = store.opening();
            for (offset, data) in opening.iter().take(step) {
                shell.write_at(*offset, data);
            }
            shell.reopen();
            for n in 0..purges {
                assert_eq!(value(&shell, &n.to_le_bytes()), None, "step {step}");
            }
            if step > opening.len() {
                break;
            }
        }
    }
}

#[test]
fn an_empty_log_that_only_a_failed_flush_left_is_not_relied_on() {
    let mut shell = Shell::small();
    let made = shell.store.opening();
    shell.reopen();
    shell.put(b"a", b"1");
    shell.settle();
    // The flush of the first start had failed, so what it wrote was read by the second, and may be gone at any time.
    let again: Vec<u64> = shell.store.opening().iter().map(|(at, _)| *at).collect();
    for (at, page) in made.iter().filter(|(at, _)| !again.contains(at)) {
        let (log_at, log_bytes) = shell.store.geometry().logs()[0];
        if (log_at..log_at + log_bytes as u64).contains(at) {
            shell.disk[*at as usize..][..page.len()].fill(0);
        }
    }
    let recovered = shell.reopen();
    assert!(!recovered.empty, "{}", recovered.words);
    assert_eq!(value(&shell, b"a").unwrap(), b"1");
}

#[test]
fn what_was_purged_is_not_served_from_the_place_of_a_write_that_was_lost() {
    let mut shell = Shell::small();
    shell.put(b"a", b"1");
    shell.settle();
    let read = shell.read(b"a");
    shell.purge(b"a");
    // As if the next version had been given the same place, and the disk had not written it.
    let verified = shell.store.decode_read(&shell.bytes_of(&read), &read);
    assert_eq!(verified.err(), Some(Corrupt::Invalidated));
    assert!(!shell.store.read_done(read));
}

#[test]
fn clean_stops_lose_nothing() {
    let mut shell = Shell::small();
    shell.fill(12 * MIB, 20_000);
    shell.close();
    shell.reopen();
    let records = shell.store.figures().records;
    assert!(records > 90, "{records}");
    for _ in 0..20 {
        shell.close();
        let recovered = shell.reopen();
        assert_eq!((recovered.records, recovered.scan_bytes), (records, 0));
        shell.store.audit().unwrap();
    }
    assert_eq!(shell.store.figures().records, records);
}

#[test]
fn after_a_clean_stop_the_region_is_filled_further() {
    for policy in ["second-chance", "second-chance=0"] {
        let mut shell = Shell::with_policy(4 * MIB, policy);
        shell.fill(12 * MIB, 20_000);
        let mut evicted = 0;
        let mut places = Vec::new();
        for n in 0..40u64 {
            shell.close();
            shell.by_hand = true;
            shell.reopen_without_scan();
            // At once, before any work was done.
            assert_eq!(
                shell.put(&n.to_le_bytes(), &body(n, 1, 3000)),
                Outcome::Stored
            );
            shell.by_hand = false;
            shell.work();
            shell.settle();
            shell.store.audit().unwrap();
            places.push(region_of(&shell, place_of(&shell, &n.to_le_bytes())));
            evicted += shell.store.figures().evictions;
        }
        places.dedup();
        assert!(places.len() <= 2, "{places:?} for 120 KB");
        assert!(evicted <= 30, "{evicted}");
        // What was written into it further is found after a crash.
        shell.reopen();
        for n in 0..40u64 {
            assert_eq!(value(&shell, &n.to_le_bytes()).unwrap(), body(n, 1, 3000));
        }
        shell.store.audit().unwrap();
    }
}

#[test]
fn what_an_ordered_policy_stored_across_a_border_is_dropped_by_the_hand() {
    for clean in [true, false] {
        let mut shell = Shell::lru();
        shell.fill(3 * MIB, 30_000);
        let crosses = |shell: &Shell, key: &[u8]| {
            let read = shell.read(key);
            let (first, last) = (read.offset, read.offset + read.len as u64 - 1);
            let _ = shell.store.read_done(read);
            region_of(shell, first) != region_of(shell, last)
        };
        let keys: Vec<String> = (0..100).map(|n| format!("fill{n}")).collect();
        let stored = |shell: &Shell| -> Vec<String> {
            let is_there = |key: &&String| shell.store.contains(shell.hash(key.as_bytes()));
            keys.iter().filter(is_there).cloned().collect()
        };
        shell.settle();
        let before = stored(&shell);
        assert!(before.iter().any(|key| crosses(&shell, key.as_bytes())));
        if clean {
            shell.close();
        }
        shell.settings.replacement = "second-chance".parse().unwrap();
        shell.reopen();
        let after = stored(&shell);
        assert!(after.len() > before.len() / 2);
        assert!(!after.iter().any(|key| crosses(&shell, key.as_bytes())));
        shell.store.audit().unwrap();
    }
}

#[test]
fn several_crashes_in_a_row() {
    let mut shell = Shell::new(16 * MIB, Settings::default());
    let mut random = crate::common::Random(7);
    let mut stored = Vec::new();
    for round in 0..12u64 {
        for n in 0..20u64 {
            let key = (round * 100 + n).to_le_bytes();
            if shell.put(&key, &body(n, round, 3000)) == store::Outcome::Stored {
                stored.push((key, body(n, round, 3000)));
            }
        }
        shell.settle();
        shell.flushed(shell.clock());
        if let Some((key, _)) = stored.first() {
            let key = *key;
            shell.purge(&key);
            stored.remove(0);
        }
        shell.lose_power(&mut random);
        // Every second time it crashes in the middle of the scan as well.
        shell.reopen_without_scan();
        shell.work_some(round as usize % 3 * 2);
        if round % 2 == 0 {
            shell.lose_power(&mut random);
            shell.reopen_without_scan();
        }
        shell.work();
        for (key, bytes) in &stored {
            assert_eq!(&value(&shell, key).unwrap(), bytes, "round {round}");
        }
        shell.store.audit().unwrap();
    }
}

#[test]
fn what_is_killed_and_read_during_a_scan_is_freed_once() {
    let mut shell = Shell::lru();
    for n in 0..50u64 {
        shell.put(&n.to_le_bytes(), &body(n, 0, 20_000));
        shell.complete_all();
    }
    shell.settle();
    shell.reopen_without_scan();
    shell.by_hand = true;
    shell.work_some(3);
    let read = shell.read(&1u64.to_le_bytes());
    shell.store.forget(shell.hash(&1u64.to_le_bytes()));
    shell.store.forget(shell.hash(&2u64.to_le_bytes()));
    // Nothing is given to the allocator yet.
    let _ = shell.store.figures();
    shell.by_hand = false;
    shell.work();
    assert_eq!(shell.store.recovery(), None);
    shell.store.audit().unwrap();
    assert!(!shell.store.read_done(read));
    assert_eq!(shell.put(b"new", b"1"), store::Outcome::Stored);
    shell.store.audit().unwrap();
}

/// Found by the simulation: of two versions a purge by pattern matched the newer only, and the older came back.
#[test]
fn what_a_purged_version_had_replaced_does_not_come_back() {
    let settings = Settings {
        manner: |_| WHOLE_META,
        ..Settings::default()
    };
    let mut shell = Shell::new(16 << 20, settings);
    let hash = shell.hash(b"a");
    for meta in [b"x", b"y"] {
        let began = shell.store.sequence();
        let outcome = shell.put_record(&NewRecord {
            hash,
            primary: hash,
            key: b"a",
            meta,
            body: &[b"1"],
            fragment: None,
            total: None,
            began,
            server: 0,
        });
        assert_eq!(outcome, store::Outcome::Stored);
    }
    shell.settle();
    let handle = shell.store.invalidate_matching(2, b"y").unwrap();
    shell.work();
    assert_eq!(shell.store.settled(handle), store::Settled::Durable);
    shell.reopen();
    assert_eq!(value(&shell, b"a"), None);
}

/// Found by the simulation: a log that was replayed never counted as durable to its end, and the stop waited for that.
#[test]
fn a_store_that_was_killed_twice_can_be_closed() {
    let mut shell = Shell::small();
    shell.put(b"a", b"1");
    shell.settle();
    shell.purge(b"b");
    for _ in 0..3 {
        shell.reopen();
    }
    shell.close();
    shell.reopen();
    assert_eq!(value(&shell, b"a").as_deref(), Some(&b"1"[..]));
}

/// Found by the simulation (seed 1874): without the checkpoint the numbers began anew below those of the records, and an invalidation
/// was taken for older than what it had killed.
#[test]
fn a_purge_after_a_clean_stop_whose_checkpoint_is_damaged_holds() {
    for policy in ["second-chance", "lru"] {
        let mut shell = Shell::with_policy(16 << 20, policy);
        shell.fill(MIB, 3000);
        shell.put(b"a", b"1");
        shell.settle();
        shell.close();
        spoil_checkpoints(&mut shell);
        shell.reopen();
        assert_eq!(value(&shell, b"a").as_deref(), Some(&b"1"[..]));
        shell.purge(b"a");
        shell.reopen();
        assert_eq!(value(&shell, b"a"), None);
    }
}

/// Found by the simulation (seed 1037): with an ordered policy the journal is never written, so what was lost of it stays lost.
#[test]
fn with_lru_a_damaged_journal_costs_nothing() {
    let mut shell = Shell::lru();
    shell.put(b"a", b"1");
    shell.settle();
    let geometry = shell.store.geometry().clone();
    let at = geometry.region_journal_at as usize;
    shell.disk[at..at + geometry.region_journal_bytes as usize].fill(7);
    shell.reopen();
    assert_eq!(value(&shell, b"a").as_deref(), Some(&b"1"[..]));
}

/// The two limits of what is promised, see `docs/store.md`: what comes back is older, but was never invalidated.
#[test]
fn an_older_version_may_come_back() {
    // Where records are evicted one by one the successor may be overwritten first.
    let mut shell = Shell::lru();
    shell.put(b"a", b"old");
    shell.fill(MIB, 3000);
    shell.put(b"a", b"new");
    shell.settle();
    let at = place_of(&shell, b"a") as usize;
    shell.disk[at..at + 512].fill(0);
    shell.reopen();
    assert_ne!(value(&shell, b"a").as_deref(), Some(&b"new"[..]));
    // The checkpoint has the old one, a region that is yet to be scanned the new one.
    let mut shell = Shell::small();
    shell.put(b"a", b"old");
    shell.fill(MIB, 20_000);
    shell.close();
    shell.reopen();
    shell.put(b"a", b"new");
    shell.fill(MIB, 20_000);
    shell.settle();
    shell.reopen_without_scan();
    assert!(value(&shell, b"a").is_some());
    shell.work();
    assert_eq!(value(&shell, b"a").as_deref(), Some(&b"new"[..]));
}

#[test]
fn what_is_stored_after_a_clean_stop_outlasts_crashes() {
    let mut shell = Shell::small();
    shell.fill(MIB, 20_000);
    shell.close();
    shell.reopen();
    for n in 0..40u64 {
        shell.put(&n.to_le_bytes(), &body(n, 1, 20_000));
        shell.complete_all();
    }
    shell.settle();
    for _ in 0..3 {
        shell.reopen();
        shell.store.audit().unwrap();
        for n in 0..40u64 {
            assert_eq!(value(&shell, &n.to_le_bytes()).unwrap(), body(n, 1, 20_000));
        }
    }
}

#[test]
fn a_store_that_was_never_used_says_so() {
    let geometry = store::Geometry::plan(4 * MIB, 512).unwrap();
    let settings = Settings::default();
    let identity = || store::Identity::new(crate::common::random_bytes(1));
    let store = store::Store::create(geometry.clone(), &settings, identity());
    let mut disk = vec![0; 4 * MIB as usize];
    for (offset, data) in store.opening() {
        disk[offset as usize..][..data.len()].copy_from_slice(&data);
    }
    let plan = store::OpenPlan::of(&disk[..store::Superblock::BYTES], &geometry);
    let store::OpenPlan::Recover {
        superblock,
        checkpoint: None,
    } = plan
    else {
        panic!("{plan:?}");
    };
    let [log, journal] = geometry
        .logs()
        .map(|(at, len)| Some(disk[at as usize..][..len].to_vec().into()));
    let found = store::Found {
        log,
        journal,
        checkpoint: None,
    };
    let (_, recovered) = store::Store::recover(superblock, &found, &settings, identity());
    assert!(
        recovered.words.contains("nothing was stored"),
        "{}",
        recovered.words
    );
    assert_eq!((recovered.scan_bytes, recovered.empty), (0, false));
}

#[test]
fn records_across_reads_are_found() {
    // A region takes several reads; a record may be longer than one.
    let mut shell = Shell::new(1024 * MIB, Settings::default());
    let lengths = [300_000, 900_000, 1_040_000, 500, 1_900_000, 70_000];
    let stored: Vec<(u64, usize)> = (0..60)
        .map(|n| (n, lengths[n as usize % lengths.len()]))
        .collect();
    for &(n, len) in &stored {
        assert_eq!(
            shell.put(&n.to_le_bytes(), &body(n, 0, len)),
            store::Outcome::Stored
        );
        shell.complete_all();
    }
    shell.settle();
    // Damaged in its second half: what is behind it is found all the same.
    let damaged = place_of(&shell, &4u64.to_le_bytes()) as usize + 1_800_000;
    shell.disk[damaged] ^= 1;
    // Without a checkpoint all is scanned.
    let geometry = shell.store.geometry().clone();
    let checkpoints =
        geometry.checkpoint_at..geometry.checkpoint_at + 2 * geometry.checkpoint_bytes;
    shell.disk[checkpoints.start as usize..checkpoints.end as usize].fill(0);
    shell.reopen();
    for &(n, len) in &stored {
        let expected = (n != 4).then(|| body(n, 0, len));
        assert!(value(&shell, &n.to_le_bytes()) == expected, "record {n}");
    }
    shell.store.audit().unwrap();
}

/// A store for ten million records, without a disk.
#[test]
fn a_large_store_stores_when_its_first_work_is_done() {
    let geometry = store::Geometry::plan(40_000 * MIB, 512).unwrap();
    let identity = store::Identity::new(crate::common::random_bytes(1));
    let store = store::Store::create(geometry, &Settings::default(), identity);
    // Time stands still: nothing waits for a tick.
    while let Some(work) = store.next_work(1) {
        store.work_done(work.id, Ok(None), 1);
    }
    let hash = store.hasher().hash(b"a");
    let record = store::NewRecord {
        hash,
        primary: hash,
        key: b"a",
        meta: b"",
        body: &[b"1"],
        fragment: None,
        total: None,
        began: store.sequence(),
        server: 0,
    };
    assert_eq!(store.insert(&record, 1).outcome, store::Outcome::Stored);
}

/// While keys are another member's they may be purged there. What comes back then is not what was left here, the last record
/// before the stop included.
#[test]
fn what_was_left_behind_when_keys_left_is_not_served_when_they_come_back() {
    let mut shell = Shell::small();
    // After this there is nothing more to be noted, which would take a number as well.
    shell.fill(MIB, 20_000);
    shell.put(b"a", b"1");
    let last = shell.store.sequence();
    shell.close();
    assert_eq!(shell.store.sequence(), last, "nothing came after it");
    shell.moves = Moves {
        may_leave: true,
        may_come: false,
    };
    shell.reopen();
    assert_eq!(value(&shell, b"a").as_deref(), Some(&b"1"[..]), "not yet");
    shell.put(b"b", b"1");
    shell.close();
    shell.moves = Moves {
        may_leave: false,
        may_come: true,
    };
    shell.reopen();
    let read = shell.read(b"a");
    let verified = shell.store.decode_read(&shell.bytes_of(&read), &read);
    assert_eq!(verified.err(), Some(Corrupt::Invalidated));
    let _ = shell.store.read_done(read);
    assert_eq!(value(&shell, b"b").as_deref(), Some(&b"1"[..]));
}
