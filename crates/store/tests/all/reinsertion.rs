//! A sweep that reads: what is worth most for its length is written again, and nothing else; and never what is dead.

use crate::common::{MIB, Random, Shell, body};
use store::{About, Fragment, Lookup, Manner, NewRecord, Outcome, Reinsertion, Settings, Settled};

const BODY: usize = 8000;

/// More short records than a share of a stretch.
const RECORDS: u64 = 90;

fn shell_with(policy: &str) -> Shell {
    let settings = Settings {
        replacement: policy.parse().unwrap(),
        manner: |kind| Manner {
            about: About::All,
            soft: kind == 9,
        },
        ..Settings::default()
    };
    Shell::new(8 * MIB, settings)
}

fn short(n: u64) -> Vec<u8> {
    format!("http://short.example/{n}").into_bytes()
}

/// Stores short records, and reads each so many times.
fn put_short(shell: &mut Shell, records: u64, reads: usize) {
    for n in 0..records {
        assert_eq!(shell.put(&short(n), &body(n, 0, 1000)), Outcome::Stored);
    }
    shell.settle();
    for n in 0..records {
        for _ in 0..reads {
            assert!(shell.get(&short(n)).is_some());
        }
    }
}

/// Stores other things, so many at most, until `done`. The number of those stored.
fn others(
    shell: &mut Shell,
    seed: u64,
    most: u64,
    mut done: impl FnMut(&mut Shell) -> bool,
) -> u64 {
    for n in 0..most {
        if done(shell) {
            return n;
        }
        let key = format!("http://other.example/{seed}/{n}");
        assert_eq!(
            shell.put(key.as_bytes(), &body(n, seed, BODY)),
            Outcome::Stored
        );
        shell.complete_all();
        shell.work();
    }
    most
}

fn rounds(shell: &mut Shell, seed: u64, rounds: u64) {
    others(shell, seed, rounds * 8 * MIB / BODY as u64, |_| false);
}

fn found(shell: &Shell, records: u64) -> u64 {
    let is_there = |n: &u64| shell.store.contains(shell.hash(&short(*n)));
    (0..records).filter(is_there).count() as u64
}

/// Stores others until the sweep wants to read; the read.
fn next_read(shell: &mut Shell) -> Reinsertion {
    shell.by_hand = true;
    let mut read = None;
    others(shell, 77, 10_000, |shell| {
        while let Some(work) = shell.store.next_work(shell.now_ms) {
            shell.carry_out(work, shell.clock());
        }
        read = shell.store.next_reinsertion(shell.now_ms);
        read.is_some()
    });
    read.expect("a round of the hand meets them")
}

/// A store whose short records are being read by the sweep.
fn being_read(policy: &str, records: u64) -> (Shell, Reinsertion) {
    let mut shell = shell_with(policy);
    put_short(&mut shell, records, 2);
    let read = next_read(&mut shell);
    (shell, read)
}

#[test]
fn what_was_read_and_is_short_survives_rounds_of_the_hand() {
    for (policy, expected) in [
        ("second-chance", 0),
        ("reinsertion", 15),
        ("reinsertion=10", 15),
    ] {
        let mut shell = shell_with(policy);
        put_short(&mut shell, 15, 2);
        rounds(&mut shell, 1, 1);
        assert_eq!(found(&shell, 15), expected, "{policy}");
        for n in 0..expected {
            assert_eq!(shell.get(&short(n)).unwrap().body, body(n, 0, 1000));
        }
        shell.store.audit().unwrap();
    }
}

#[test]
fn what_nobody_asks_for_any_more_leaves_however_short_it_is() {
    let mut shell = shell_with("reinsertion");
    put_short(&mut shell, 15, 3);
    for n in 100..115 {
        assert_eq!(shell.put(&short(n), b"never read"), Outcome::Stored);
    }
    rounds(&mut shell, 1, 6);
    assert_eq!(found(&shell, 115), 0);
}

#[test]
fn no_more_than_the_share_is_written_again() {
    for (policy, percent) in [("reinsertion", 20), ("reinsertion=40", 40)] {
        let mut shell = shell_with(policy);
        rounds(&mut shell, 1, 2);
        let before = shell.store.figures();
        rounds(&mut shell, 2, 4);
        let now = shell.store.figures();
        let again = now.reinserted_bytes - before.reinserted_bytes;
        let written = now.write_bytes - before.write_bytes;
        let share = 100 * again / written;
        assert!(
            (percent * 8 / 10..=percent).contains(&share),
            "{policy}: {share} %"
        );
        assert!(now.reinsertion_bytes > again && now.corrupt == 0 && now.read_failures == 0);
    }
}

/// What may happen to a record while the sweep reads it, and is it still there then?
#[test]
fn what_dies_while_the_sweep_reads_it_is_not_written_again() {
    let purge = |shell: &mut Shell, n: u64| {
        let handle = shell.store.invalidate(shell.hash(&short(n))).handle;
        while let Some(work) = shell.store.next_work(shell.now_ms) {
            shell.carry_out(work, shell.clock());
        }
        assert_eq!(shell.store.settled(handle), Settled::Durable);
    };
    let replace = |shell: &mut Shell, n: u64| {
        assert_eq!(shell.put(&short(n), &body(n, 1, 1000)), Outcome::Stored);
    };
    let soften = |shell: &mut Shell, n: u64| {
        let _ = shell.store.doubt(shell.hash(&short(n)));
    };
    type Act<'a> = &'a dyn Fn(&mut Shell, u64);
    let acts: [(&str, Act<'_>); 3] = [
        ("purged", &purge),
        ("replaced", &replace),
        ("softened", &soften),
    ];
    for (name, act) in acts {
        let (mut shell, read) = being_read("reinsertion", RECORDS);
        assert_eq!(found(&shell, RECORDS), RECORDS);
        (0..RECORDS).for_each(|n| act(&mut shell, n));
        let before = shell.store.figures().reinserted;
        shell.carry_out_reinsertion(read);
        assert_eq!(shell.store.figures().reinserted, before, "{name}");
        for n in 0..RECORDS {
            let parts = shell.get_if_alive(&short(n));
            match name {
                "purged" => assert!(parts.is_none()),
                "replaced" => assert_eq!(parts.unwrap().body, body(n, 1, 1000)),
                _ => assert!(parts.unwrap().doubted),
            }
        }
        shell.store.audit().unwrap();
    }
}

#[test]
fn a_purge_by_pattern_wins_against_the_sweep_too() {
    let (mut shell, read) = being_read("reinsertion", RECORDS);
    let _ = shell.store.invalidate_matching(1, b"").unwrap();
    let before = shell.store.figures().reinserted;
    shell.carry_out_reinsertion(read);
    assert_eq!(shell.store.figures().reinserted, before);
    assert!((0..RECORDS).all(|n| shell.get_if_alive(&short(n)).is_none()));
}

#[test]
fn what_cannot_be_verified_is_dropped_and_counted() {
    let (mut shell, read) = being_read("reinsertion", 20);
    let at = read.offset() as usize;
    let lies_here = |n: &u64| {
        let body = body(*n, 0, 1000);
        let range = at..at + read.bytes();
        shell.disk[range]
            .windows(200)
            .any(|window| window == &body[400..600])
    };
    let n = (0..20).find(lies_here).expect("one is being read");
    let bytes = body(n, 0, 1000);
    let place = shell.disk[at..at + read.bytes()]
        .windows(200)
        .position(|window| window == &bytes[400..600])
        .unwrap();
    shell.disk[at + place] ^= 1;
    shell.carry_out_reinsertion(read);
    let figures = shell.store.figures();
    assert_eq!(figures.corrupt, 1);
    assert!(!shell.store.contains(shell.hash(&short(n))) && figures.reinserted > 0);
    shell.store.audit().unwrap();
}

#[test]
fn a_read_that_comes_after_its_sweep_writes_nothing() {
    let (mut shell, read) = being_read("reinsertion", 50);
    // The hand goes on without it.
    shell.by_hand = true;
    others(&mut shell, 5, 8 * MIB / BODY as u64, |shell| {
        while let Some(work) = shell.store.next_work(shell.now_ms) {
            shell.carry_out(work, shell.clock());
        }
        assert!(
            shell.store.next_reinsertion(shell.now_ms).is_none(),
            "one at a time"
        );
        false
    });
    assert_eq!(found(&shell, 50), 0);
    let before = shell.store.figures().reinserted;
    shell.carry_out_reinsertion(read);
    assert_eq!(shell.store.figures().reinserted, before);
    assert!(
        shell.store.next_reinsertion(shell.now_ms).is_some(),
        "and goes on"
    );
    shell.store.audit().unwrap();
}

#[test]
fn a_disk_that_refuses_gets_a_pause_and_records_leave() {
    let (mut shell, read) = being_read("reinsertion", 50);
    let writes = shell.store.reinsertion_done(read, None, shell.now_ms);
    assert!(writes.is_empty() && shell.store.figures().read_failures == 1);
    others(&mut shell, 5, 8 * MIB / BODY as u64, |shell| {
        while let Some(work) = shell.store.next_work(shell.now_ms) {
            shell.carry_out(work, shell.clock());
        }
        assert!(shell.store.next_reinsertion(shell.now_ms).is_none());
        false
    });
    assert_eq!(found(&shell, 50), 0);
    assert!(shell.store.next_reinsertion(shell.now_ms + 1000).is_some());
}

/// Is a record that is read near the hand written again?
fn has_second_chance(shell: &mut Shell, n: u64) -> Option<bool> {
    let Lookup::OnDisk(read) = shell.store.look_up(shell.hash(&short(n))) else {
        return None;
    };
    let parts = shell
        .store
        .decode_read(&shell.bytes_of(&read), &read)
        .unwrap();
    let renewal = read.renewal();
    assert!(shell.store.read_done(read));
    let renewed = shell.store.renew(renewal?, &parts, shell.now_ms);
    shell.pending.extend(renewed.writes);
    Some(renewed.outcome == Outcome::Stored)
}

#[test]
fn while_the_disk_does_not_keep_up_a_read_gives_the_second_chance() {
    for keeps_up in [true, false] {
        let mut shell = shell_with("reinsertion");
        rounds(&mut shell, 1, 2);
        shell.by_hand = !keeps_up;
        put_short(&mut shell, 50, 0);
        let mut chances = Vec::new();
        others(&mut shell, 2, 8 * MIB / BODY as u64, |shell| {
            while let Some(work) = shell.store.next_work(shell.now_ms) {
                shell.carry_out(work, shell.clock());
            }
            chances.extend(has_second_chance(shell, 7));
            false
        });
        assert!(!chances.is_empty());
        assert_eq!(chances.contains(&true), !keeps_up);
        assert_eq!(shell.store.figures().second_chances > 0, !keeps_up);
    }
}

#[test]
fn parts_of_a_large_object_are_left_to_their_second_chance() {
    let mut shell = shell_with("reinsertion");
    for n in 0..20 {
        let (key, body) = (short(n), body(n, 0, 1000));
        let hash = shell.hash(&key);
        let stored = shell.put_record(&NewRecord {
            hash,
            primary: hash,
            key: &key,
            meta: b"",
            body: &[&body],
            fragment: Some(Fragment {
                fetch_id: 1,
                number: n as u32,
            }),
            total: None,
            began: shell.store.sequence(),
            server: 0,
        });
        assert_eq!(stored, Outcome::Stored);
    }
    shell.settle();
    for n in 0..20 {
        assert!(shell.get(&short(n)).is_some());
    }
    rounds(&mut shell, 1, 2);
    assert_eq!(found(&shell, 20), 0);
}

#[test]
fn usage_survives_a_clean_stop_and_a_change_of_the_rule() {
    for between in [None, Some("second-chance"), Some("lru")] {
        let mut shell = shell_with("reinsertion=40");
        put_short(&mut shell, 50, 2);
        // Unread ones of the same length compete with them.
        for n in 50..3000 {
            assert_eq!(shell.put(&short(n), &body(n, 0, 1000)), Outcome::Stored);
            shell.complete_all();
        }
        shell.close();
        shell.reopen();
        assert_eq!(found(&shell, 3000), 3000, "{between:?}");
        if let Some(policy) = between {
            shell.settings.replacement = policy.parse().unwrap();
            shell.close();
            shell.reopen();
            let left = found(&shell, 3000);
            assert!(left == 3000 || policy == "lru", "{left}");
            shell.close();
            shell.settings.replacement = "reinsertion=40".parse().unwrap();
            shell.reopen();
        }
        shell.store.audit().unwrap();
        let left = found(&shell, 3000);
        rounds(&mut shell, 1, 1);
        if between.is_none() {
            assert_eq!(found(&shell, 50), 50, "of {left}");
            assert!(found(&shell, 3000) < 2000);
        }
        assert!((0..3000).all(|n| {
            shell
                .get(&short(n))
                .is_none_or(|it| it.body == body(n, 0, 1000))
        }));
    }
}

#[test]
fn after_a_crash_nothing_is_lost_but_what_was_not_written() {
    let mut random = Random(3);
    for _ in 0..5 {
        let mut shell = shell_with("reinsertion");
        put_short(&mut shell, 50, 2);
        rounds(&mut shell, 1, 1);
        others(&mut shell, 2, 40 + random.below(400), |_| false);
        shell.settle();
        let before = found(&shell, 50);
        shell.reopen();
        assert_eq!(found(&shell, 50), before);
        rounds(&mut shell, 3, 1);
        shell.store.audit().unwrap();
        assert!((0..50).all(|n| {
            shell
                .get(&short(n))
                .is_none_or(|it| it.body == body(n, 0, 1000))
        }));
    }
}
