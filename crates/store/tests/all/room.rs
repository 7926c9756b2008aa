//! Who leaves when room is wanted, and who stays: the hand, its regions, renewals.

use crate::common::{MIB, Shell, body, second_chances};
use store::{Lookup, Outcome, Settings};

#[test]
fn what_is_being_written_is_not_evicted() {
    let mut shell = Shell::new(
        4 * MIB,
        Settings {
            replacement: "lru".parse().unwrap(),
            object_bytes_max: u64::MAX,
            ..Settings::default()
        },
    );
    // 24 records of 128 KiB fill it; at most eight are in flight.
    for n in 0..23u8 {
        assert_eq!(shell.put(&[n], &vec![n; 130_000]), Outcome::Stored);
        if n < 16 {
            shell.complete_all();
        }
    }
    let in_flight: Vec<u8> = (16..23).collect();
    let mut outcomes = Vec::new();
    for n in 100..120u8 {
        outcomes.push(shell.put(&[n], &vec![n; 130_000]));
    }
    assert!(outcomes.contains(&Outcome::Behind), "the device is behind");
    assert!(in_flight.iter().all(|&n| shell.get(&[n]).is_some()));
    shell.complete_all();
    assert!(in_flight.iter().all(|&n| shell.get(&[n]).is_some()));
    shell.store.audit().unwrap();
}

// The default policy: the hand.

#[test]
fn killed_records_are_dead_space_until_the_hand_comes() {
    let mut shell = Shell::small();
    shell.fill(2 * MIB, 20_000);
    let free = shell.store.figures().ready_chunks;
    for n in 0..40 {
        shell.purge(format!("fill{n}").as_bytes());
    }
    assert_eq!(
        shell.store.figures().ready_chunks,
        free,
        "nothing comes back yet"
    );
    shell.fill(6 * MIB, 20_000);
    assert_eq!(shell.store.figures().refused_no_space, 0);
    shell.store.audit().unwrap();
}

#[test]
fn what_was_stored_first_goes_first_unless_it_is_read_near_the_hand() {
    let settings = second_chances();
    let mut shell = Shell::new(16 * MIB, settings);
    shell.put(b"kept", &body(1, 0, 5000));
    shell.put(b"lost", &body(2, 0, 5000));
    shell.settle();
    for n in 0..6000u64 {
        assert_eq!(
            shell.put(&n.to_le_bytes(), &body(n, 0, 8000)),
            Outcome::Stored,
            "{n}"
        );
        shell.complete_all();
        if n % 100 == 0 {
            renewing_get(&mut shell, b"kept");
        }
    }
    assert!(shell.get(b"lost").is_none());
    assert_eq!(shell.get(b"kept").unwrap().body, body(1, 0, 5000));
    let figures = shell.store.figures();
    assert!(
        (2..=12).contains(&figures.second_chances),
        "once or twice a round: {figures:?}"
    );
    assert_eq!(figures.replaced, 0, "a copy replaces nothing");
    shell.store.audit().unwrap();
}

/// As a reader does: reads, and writes again what asks for it.
fn renewing_get(shell: &mut Shell, key: &[u8]) {
    let hash = shell.hash(key);
    if let Lookup::OnDisk(read) = shell.store.look_up(hash) {
        let parts = shell
            .store
            .decode_read(&shell.bytes_of(&read), &read)
            .unwrap();
        let renewal = read.renewal();
        assert!(shell.store.read_done(read));
        if let Some(renewal) = renewal {
            let renewed = shell.store.renew(renewal, &parts, shell.now_ms);
            shell.pending.extend(renewed.writes);
            shell.work();
            shell.complete_all();
        }
    }
}

#[test]
fn a_copy_of_what_was_replaced_meanwhile_is_not_stored() {
    let mut shell = Shell::small();
    shell.put(b"a", b"old");
    shell.fill(2 * MIB, 20_000);
    let read = shell.read(b"a");
    let parts = shell
        .store
        .decode_read(&shell.bytes_of(&read), &read)
        .unwrap();
    let renewal = read.renewal().expect("half way round it is near");
    shell.put(b"a", b"new");
    assert!(!shell.store.read_done(read));
    let renewed = shell.store.renew(renewal, &parts, shell.now_ms);
    assert_eq!(renewed.outcome, Outcome::Invalidated);
    assert_eq!(shell.get(b"a").unwrap().body, "new");
}

#[test]
fn writes_stay_large_after_many_rounds() {
    let mut shell = Shell::new(64 * MIB, Settings::default());
    let mut n = 0u64;
    for _ in 0..10 {
        let before = shell.store.figures();
        while shell.store.figures().write_bytes - before.write_bytes < 64 * MIB {
            n += 1;
            let len = 500 + (n * 7919 % 20_000) as usize;
            assert_eq!(
                shell.put(&n.to_le_bytes(), &body(n, 0, len)),
                Outcome::Stored
            );
            if n.is_multiple_of(3) {
                shell.store.forget(shell.hash(&(n / 2).to_le_bytes()));
            }
            shell.complete_all();
        }
        let after = shell.store.figures();
        let mean = (after.write_bytes - before.write_bytes) / (after.writes - before.writes);
        assert!(
            mean > 80_000,
            "clusters of 128 KiB at most, {mean} on average"
        );
    }
    shell.store.audit().unwrap();
}

#[test]
fn what_is_read_in_a_region_that_is_used_again_is_left_alone() {
    let mut shell = Shell::new(4 * MIB, second_chances());
    shell.put(b"a", b"precious");
    shell.settle();
    let read = shell.read(b"a");
    for n in 0..400u64 {
        let outcome = shell.put(&n.to_le_bytes(), &body(n, 0, 20_000));
        assert_eq!(outcome, Outcome::Stored, "the hand waits for no reader");
        shell.complete_all();
    }
    assert!(shell.get(b"a").is_none(), "it has swept the record");
    let parts = shell
        .store
        .decode_read(&shell.bytes_of(&read), &read)
        .unwrap();
    assert_eq!(parts.body, "precious");
    assert!(shell.store.read_done(read), "evicted is not invalidated");
    shell.work();
    for n in 0..400u64 {
        assert_eq!(
            shell.put(&n.to_le_bytes(), &body(n, 1, 20_000)),
            Outcome::Stored
        );
        shell.complete_all();
    }
    shell.store.audit().unwrap();
}
