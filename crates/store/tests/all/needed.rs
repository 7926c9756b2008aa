//! What an answer under way needs survives until it is released, whatever else is stored; and only what is killed does not.

use crate::common::{MIB, Shell, body};
use bytes::Bytes;
use store::{About, Fragment, KeyHash, Lookup, Manner, Needed, Needs, NewRecord, Outcome};

const BODY: usize = 20_000;

fn key(n: u64) -> Vec<u8> {
    format!("http://large.example/{n}").into_bytes()
}

/// A store with `records` of them, all needed.
fn shell_with(policy: &str, records: u64) -> (Shell, Needs) {
    let mut shell = Shell::with_policy(4 * MIB, policy);
    for n in 0..records {
        assert_eq!(shell.put(&key(n), &body(n, 0, BODY)), Outcome::Stored);
    }
    shell.settle();
    let mut needs = Needs::new(&shell.store);
    for n in 0..records {
        assert_eq!(needs.add(shell.hash(&key(n))), Needed::Noted);
    }
    (shell, needs)
}

/// Stores so many times the store's size of other things.
fn others(shell: &mut Shell, times: u64, seed: u64) {
    for n in 0..times * 4 * MIB / BODY as u64 {
        let key = format!("http://other.example/{seed}/{n}");
        let outcome = shell.put(key.as_bytes(), &body(n, seed, BODY));
        assert_eq!(outcome, Outcome::Stored, "of {n}");
        shell.complete_all();
        shell.work();
    }
}

fn found(shell: &Shell, records: u64) -> u64 {
    let whole = |n: &u64| {
        let parts = shell.get(&key(*n));
        parts.is_some_and(|parts| parts.body == body(*n, 0, BODY))
    };
    (0..records).filter(whole).count() as u64
}

#[test]
fn what_is_needed_survives_the_hand_and_leaves_when_it_is_released() {
    for policy in ["second-chance", "second-chance=0", "lru", "gdsf"] {
        let (mut shell, needs) = shell_with(policy, 12);
        others(&mut shell, 3, 1);
        shell.store.audit().unwrap();
        assert_eq!(found(&shell, 12), 12, "{policy}");
        let figures = shell.store.figures();
        assert_eq!(figures.moves_failed, 0, "{policy}");
        if policy.starts_with("second-chance") {
            assert!((12..100).contains(&figures.moved), "{policy}: {figures:?}");
        }
        drop(needs);
        assert_eq!(shell.store.figures().needed_bytes, 0);
        others(&mut shell, 3, 2);
        // The others take what was met so often for popular.
        if policy.starts_with("second-chance") || policy == "lru" {
            assert_eq!(found(&shell, 12), 0, "{policy}");
        }
    }
}

#[test]
fn what_nobody_needs_leaves() {
    let (mut shell, needs) = shell_with("second-chance", 12);
    drop(needs);
    others(&mut shell, 2, 1);
    assert_eq!(found(&shell, 12), 0);
    assert_eq!(shell.store.figures().moved, 0);
}

#[test]
fn needs_that_come_and_go_keep_no_room() {
    let (mut shell, needs) = shell_with("second-chance=0", 12);
    drop(needs);
    // Until the hand has come by where they are.
    for n in 12..400 {
        let mut were_there = 0;
        for _ in 0..100 {
            let mut needs = Needs::new(&shell.store);
            let mut is_there = |n: &u64| needs.add(shell.hash(&key(*n))) == Needed::Noted;
            were_there = (0..12).filter(|n| is_there(n)).count();
        }
        if were_there == 0 {
            return;
        }
        let outcome = shell.put(&key(n), &body(n, 0, BODY));
        assert_eq!(outcome, Outcome::Stored, "{n}, {were_there} there");
        shell.complete_all();
        shell.work();
    }
    panic!("the hand did not come by");
}

#[test]
fn one_of_two_who_need_it_is_enough() {
    let (mut shell, needs) = shell_with("second-chance", 5);
    let mut second = Needs::new(&shell.store);
    for n in 0..5 {
        assert_eq!(second.add(shell.hash(&key(n))), Needed::Noted);
    }
    drop(needs);
    second.release(shell.hash(&key(0)));
    assert_eq!(second.len(), 4);
    others(&mut shell, 2, 1);
    assert_eq!(found(&shell, 5), 4);
    assert!(shell.get(&key(0)).is_none());
}

#[test]
fn no_more_than_a_quarter_of_the_store_is_needed() {
    let (mut shell, mut needs) = shell_with("second-chance", 0);
    for n in 0..100 {
        assert_eq!(shell.put(&key(n), &body(n, 0, BODY)), Outcome::Stored);
        shell.complete_all();
    }
    shell.settle();
    assert_eq!(needs.add(shell.hash(b"nothing")), Needed::Absent);
    let quarter = shell.store.geometry().data_bytes() / 4;
    let mut noted = 0;
    while needs.add(shell.hash(&key(noted))) == Needed::Noted {
        noted += 1;
    }
    assert_eq!(needs.add(shell.hash(&key(noted))), Needed::Full);
    let bytes = shell.store.figures().needed_bytes;
    assert!(bytes <= quarter && bytes + BODY as u64 + 2048 > quarter);
    // What is noted twice takes its room once.
    assert_eq!(needs.add(shell.hash(&key(0))), Needed::Noted);
    assert_eq!(shell.store.figures().needed_bytes, bytes);
    others(&mut shell, 3, 1);
    assert_eq!(found(&shell, 100), noted, "the others are as any record");
    shell.store.audit().unwrap();
}

#[test]
fn what_is_purged_is_gone_though_it_is_needed() {
    let (mut shell, _needs) = shell_with("second-chance", 12);
    shell.purge(&key(3));
    assert!(shell.get(&key(3)).is_none());
    others(&mut shell, 2, 1);
    assert_eq!(found(&shell, 12), 11);
    // A purge between a move's read and its end.
    shell.by_hand = true;
    let mut moved = Vec::new();
    for n in 0..1000 {
        let other = format!("http://more.example/{n}");
        let _ = shell.put(other.as_bytes(), &body(n, 9, BODY));
        shell.complete_all();
        while let Some(work) = shell.store.next_work(shell.now_ms) {
            shell.carry_out(work, shell.clock());
        }
        moved.extend(shell.store.next_move());
        if moved.len() == 5 {
            break;
        }
    }
    assert_eq!(moved.len(), 5);
    for n in 0..12 {
        let _ = shell.store.invalidate(shell.hash(&key(n)));
    }
    let before = shell.store.figures().moved;
    for moved in moved {
        shell.carry_out_move(moved);
    }
    assert_eq!(shell.store.figures().moved, before);
    assert_eq!(found(&shell, 12), 0);
    shell.store.audit().unwrap();
}

#[test]
fn who_is_reading_what_is_moved_may_serve_it() {
    let (mut shell, _needs) = shell_with("second-chance", 12);
    let reads: Vec<_> = (0..12).map(|n| shell.read(&key(n))).collect();
    let mut n = 0;
    while shell.store.figures().moved < 6 {
        n += 1;
        let other = format!("http://other.example/{n}");
        let _ = shell.put(other.as_bytes(), &body(n, 1, BODY));
        shell.complete_all();
        shell.work();
    }
    for (n, read) in (0..).zip(reads) {
        let parts = shell.store.decode_read(&shell.bytes_of(&read), &read);
        assert_eq!(parts.unwrap().body, body(n, 0, BODY));
        assert!(shell.store.read_done(read), "{n} is the same record");
    }
    shell.store.audit().unwrap();
}

#[test]
fn of_two_who_read_what_is_written_again_both_may_serve_it() {
    let (mut shell, needs) = shell_with("second-chance=75", 1);
    drop(needs);
    for n in 0..3 * MIB / 4 / BODY as u64 * 3 {
        let other = format!("http://other.example/{n}");
        assert_eq!(
            shell.put(other.as_bytes(), &body(n, 1, BODY)),
            Outcome::Stored
        );
        shell.complete_all();
        if shell.read(&key(0)).renewal().is_some() {
            break;
        }
    }
    let (first, second) = (shell.read(&key(0)), shell.read(&key(0)));
    let renewal = first.renewal().expect("near the hand");
    let parts = shell
        .store
        .decode_read(&shell.bytes_of(&first), &first)
        .unwrap();
    assert!(shell.store.read_done(first));
    let renewed = shell.store.renew(renewal, &parts, shell.now_ms);
    assert_eq!(renewed.outcome, Outcome::Stored);
    shell.pending.extend(renewed.writes);
    assert!(shell.store.read_done(second));
}

/// Stores others without moving anything until the store takes no more. Returns how many it took.
fn until_refused(shell: &mut Shell, most: u64) -> u64 {
    for n in 0..most {
        let other = format!("http://other.example/{n}");
        let outcome = shell.put(other.as_bytes(), &body(n, 1, BODY));
        shell.complete_all();
        for _ in 0..20 {
            while let Some(work) = shell.store.next_work(shell.now_ms) {
                shell.carry_out(work, shell.clock());
            }
        }
        if outcome != Outcome::Stored {
            assert_eq!(outcome, Outcome::NoSpace);
            return n;
        }
    }
    most
}

#[test]
fn the_hand_waits_for_the_disk_and_keeps_the_room_for_what_is_moved() {
    let (mut shell, _needs) = shell_with("second-chance", 12);
    shell.by_hand = true;
    let stored = until_refused(&mut shell, 1000);
    assert!(stored < 200, "{stored} in a store of 150");
    assert_eq!(found(&shell, 12), 12, "still there, unmoved");
    shell.by_hand = false;
    shell.work();
    shell.complete_all();
    assert_eq!(shell.store.figures().moved, 12);
    others(&mut shell, 2, 7);
    assert_eq!(found(&shell, 12), 12);
    assert_eq!(shell.store.figures().moves_failed, 0);
    shell.store.audit().unwrap();
}

#[test]
fn the_hand_does_not_wait_for_who_has_gone() {
    let (mut shell, needs) = shell_with("second-chance", 12);
    shell.by_hand = true;
    until_refused(&mut shell, 1000);
    drop(needs);
    while let Some(work) = shell.store.next_work(shell.now_ms) {
        shell.carry_out(work, shell.clock());
    }
    assert_eq!(until_refused(&mut shell, 500), 500);
    assert_eq!(found(&shell, 12), 0);
    assert_eq!(shell.store.figures().moved, 0);
}

#[test]
fn what_cannot_be_read_is_given_up() {
    let (mut shell, _needs) = shell_with("second-chance", 12);
    shell.by_hand = true;
    until_refused(&mut shell, 1000);
    while let Some(moved) = shell.store.next_move() {
        assert!(shell.store.move_done(moved, None, shell.now_ms).is_empty());
        while let Some(work) = shell.store.next_work(shell.now_ms) {
            shell.carry_out(work, shell.clock());
        }
    }
    assert!(shell.store.figures().moves_failed > 0);
    assert_eq!(until_refused(&mut shell, 100), 100);
    shell.store.audit().unwrap();
}

#[test]
fn a_needed_record_that_is_replaced_is_the_new_one() {
    let (mut shell, _needs) = shell_with("second-chance", 3);
    assert_eq!(shell.put(&key(1), &body(77, 1, BODY)), Outcome::Stored);
    others(&mut shell, 2, 1);
    assert_eq!(shell.get(&key(1)).unwrap().body, body(77, 1, BODY));
    assert!(matches!(
        shell.store.look_up(shell.hash(b"other")),
        Lookup::Absent
    ));
}

/// A quarter of the store, in a row: stretch after stretch of which nothing may leave.
#[test]
fn a_long_body_in_a_row_survives_a_burst() {
    const RECORDS: u64 = 230;
    const LONG: usize = 65_000;
    let mut shell = Shell::new(64 * MIB, store::Settings::default());
    for n in 0..RECORDS {
        assert_eq!(shell.put(&key(n), &body(n, 0, LONG)), Outcome::Stored);
        shell.complete_all();
    }
    shell.settle();
    let mut needs = Needs::new(&shell.store);
    for n in 0..RECORDS {
        assert_eq!(needs.add(shell.hash(&key(n))), Needed::Noted);
    }
    shell.by_hand = true;
    let (mut stored, mut refused) = (0, 0);
    for n in 0..10_000 {
        let other = format!("http://other.example/{n}");
        match shell.put(other.as_bytes(), &body(n, 1, LONG)) {
            Outcome::Stored => stored += 1,
            outcome => {
                assert_eq!(outcome, Outcome::NoSpace);
                refused += 1;
            }
        }
        shell.complete_all();
        // The background thread comes late, and moves no faster than others store.
        if n % 3 == 0 {
            while let Some(work) = shell.store.next_work(shell.now_ms) {
                shell.carry_out(work, shell.clock());
            }
        }
        if let Some(moved) = shell.store.next_move() {
            shell.carry_out_move(moved);
        }
        if stored > 3000 {
            break;
        }
    }
    let figures = shell.store.figures();
    assert!(
        stored > 3000,
        "{stored} stored, {refused} refused: {figures:?}"
    );
    assert!(refused < stored / 4, "{refused} refused");
    assert_eq!(figures.moves_failed, 0, "{figures:?}");
    let whole = |n: &u64| {
        shell
            .get(&key(*n))
            .is_some_and(|it| it.body == body(*n, 0, LONG))
    };
    assert_eq!((0..RECORDS).filter(whole).count() as u64, RECORDS);
    shell.store.audit().unwrap();
}

/// A fragment of `http://large.example/`, whose fetch began then.
fn put_fragment(shell: &mut Shell, n: u64) -> KeyHash {
    let (key, primary) = (key(n), shell.hash(b"http://large.example/"));
    let record = NewRecord {
        hash: shell.hash(&key),
        primary,
        key: &key,
        meta: b"",
        body: &[&body(n, 0, BODY)],
        fragment: Some(Fragment {
            fetch_id: 1,
            number: n as u32,
        }),
        total: None,
        began: shell.store.sequence(),
        server: 0,
    };
    assert_eq!(shell.put_record(&record), Outcome::Stored);
    record.hash
}

/// What one who needs it reads.
fn read_needed(shell: &Shell, hash: KeyHash) -> Option<Bytes> {
    let (bytes, read) = match shell.store.look_up_needed(hash) {
        Lookup::Absent => return None,
        Lookup::Buffered(bytes) => (bytes, None),
        Lookup::OnDisk(read) => (shell.bytes_of(&read), Some(read)),
    };
    let parts = shell.store.decode_needed(&bytes, hash, read.as_ref());
    if let Some(read) = read {
        let _ = shell.store.read_done(read);
    }
    parts.ok().map(|parts| parts.body)
}

/// Killed on disk, in a write under way and in an open cluster; by a purge, a purge by pattern, and when it is found to be dead.
#[test]
fn what_is_purged_while_it_is_needed_is_read_by_who_needs_it_and_by_nobody_else() {
    for policy in ["second-chance", "second-chance=0", "lru", "gdsf"] {
        for (settled, by_pattern) in [(true, false), (true, true), (false, false)] {
            let mut shell = Shell::with_policy(4 * MIB, policy);
            shell.settings.manner = |_| Manner {
                about: About::Prefix,
                soft: false,
            };
            let settings = shell.settings.clone();
            let mut shell = Shell::new(4 * MIB, settings);
            let hashes: Vec<_> = (0..8).map(|n| put_fragment(&mut shell, n)).collect();
            if settled {
                shell.settle();
            }
            let mut needs = Needs::new(&shell.store);
            for &hash in &hashes {
                assert_eq!(needs.add(hash), Needed::Noted);
            }
            if by_pattern {
                let handle = shell.store.invalidate_matching(1, b"http://large.example/");
                let _ = handle.unwrap();
            } else {
                let primary = shell.hash(b"http://large.example/");
                let _ = shell.store.invalidate(primary);
            }
            // Some are found to be dead and dropped before, some after the store was filled with other things.
            for &hash in &hashes[..4] {
                shell.store.forget(hash);
                assert!(matches!(shell.store.look_up(hash), Lookup::Absent));
            }
            shell.settle();
            for times in [0, 3] {
                others(&mut shell, times, 1);
                shell.store.audit().unwrap();
                for (n, &hash) in (0..).zip(&hashes) {
                    let read = read_needed(&shell, hash);
                    assert!(read == Some(body(n, 0, BODY).into()), "{policy}: {n}");
                    assert!(shell.get_if_alive(&key(n)).is_none(), "{policy}: {n}");
                }
            }
            drop(needs);
            shell.store.audit().unwrap();
            assert_eq!(shell.store.figures().needed_bytes, 0);
            let is_absent = |hash: &KeyHash| read_needed(&shell, *hash).is_none();
            assert!(hashes[..4].iter().all(is_absent));
            // Where they lay, other things can lie again.
            others(&mut shell, 3, 2);
            shell.store.audit().unwrap();
        }
    }
}

/// What a soft purge has met may not be written again, for a copy would not show it. The hand does not wait for it for ever.
#[test]
fn what_is_doubted_while_it_is_needed_stays_where_it_is_and_holds_nothing_up() {
    for policy in ["second-chance", "second-chance=0", "lru", "gdsf"] {
        let (mut shell, needs) = shell_with(policy, 12);
        for n in 0..12 {
            let _ = shell.store.doubt(shell.hash(&key(n)));
        }
        others(&mut shell, 3, 1);
        shell.store.audit().unwrap();
        for n in 0..12 {
            let read = read_needed(&shell, shell.hash(&key(n)));
            assert!(read == Some(body(n, 0, BODY).into()), "{policy}: {n}");
        }
        drop(needs);
        assert_eq!(shell.store.figures().needed_bytes, 0);
        others(&mut shell, 3, 2);
        shell.store.audit().unwrap();
    }
}
