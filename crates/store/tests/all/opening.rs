//! Opening and closing, one example each.

use crate::common::{MIB, Shell, body};
use store::{FORMAT_VERSION_OLDEST, KeyHash, OpenPlan, Outcome, State, Superblock};

fn fill_100(shell: &mut Shell) {
    for n in 0..100u64 {
        shell.put(&n.to_le_bytes(), &body(n, 0, 20_000));
        shell.complete_all();
    }
}

#[test]
fn a_clean_stop_and_start_keeps_everything_in_order_of_use() {
    let mut shell = Shell::lru();
    fill_100(&mut shell);
    shell.get(&0u64.to_le_bytes()).unwrap();
    let marker = shell.store.set_marker(KeyHash(5), b"accept", 0).unwrap();
    shell.work();
    let sequence = shell.store.sequence();
    shell.close();
    assert_eq!(shell.put(b"late", b""), Outcome::Paused, "closed");
    let recovered = shell.reopen();
    assert_eq!(
        (recovered.records, recovered.scan_bytes),
        (100, 0),
        "{recovered:?}"
    );
    assert_eq!(shell.store.sequence(), sequence);
    assert_eq!(shell.store.marker(KeyHash(5)), Some(marker));
    shell.store.audit().unwrap();
    shell.fill(MIB + MIB / 2, 20_000);
    assert_eq!(
        shell.get(&0u64.to_le_bytes()).unwrap().body,
        body(0, 0, 20_000),
        "used last, evicted last"
    );
    assert!(shell.get(&1u64.to_le_bytes()).is_none());
    assert!(shell.get(&99u64.to_le_bytes()).is_some());
}

#[test]
fn a_clean_stop_and_start_goes_on_behind_the_last_region() {
    let mut shell = Shell::small();
    fill_100(&mut shell);
    shell.close();
    shell.reopen();
    shell.fill(MIB / 2, 20_000);
    let left = (0..100u64)
        .filter(|n| shell.get(&n.to_le_bytes()).is_some())
        .count();
    // In so small a store the regions that were ready count: they are gone over once.
    assert!(left >= 40, "{left} of 100");
    shell.store.audit().unwrap();
}

#[test]
fn the_superblock_says_how_the_store_was_left() {
    let mut shell = Shell::small();
    let state = |shell: &Shell| Superblock::decode(&shell.disk).unwrap().state;
    assert_eq!(state(&shell), State::Open);
    shell.close();
    assert_eq!(state(&shell), State::Clean);
    shell.reopen();
    assert_eq!(state(&shell), State::Open);
}

#[test]
fn a_checkpoint_under_way_does_not_pass_for_the_clean_stop() {
    let mut shell = Shell::small();
    fill_100(&mut shell);
    shell.settle();
    // Enough is written for a checkpoint to begin; it is left half done.
    shell.by_hand = true;
    let before = shell.store.figures().checkpoints;
    for n in 100..140u64 {
        shell.put(&n.to_le_bytes(), &body(n, 0, 20_000));
        shell.complete_all();
        shell.work_some(3);
    }
    shell.settle();
    for steps in 0..40 {
        shell.work_some(1);
        if shell.store.figures().checkpoints > before {
            break;
        }
        assert!(steps < 39);
    }
    for begun in 0..12 {
        let mut shell = Shell::small();
        fill_100(&mut shell);
        shell.by_hand = true;
        for n in 100..120u64 {
            shell.put(&n.to_le_bytes(), &body(n, 0, 20_000));
            shell.complete_all();
        }
        shell.settle();
        shell.work_some(begun);
        shell.by_hand = false;
        shell.close();
        let recovered = shell.reopen();
        assert_eq!(
            recovered.scan_bytes, 0,
            "{begun} pieces of work before: {recovered:?}"
        );
    }
}

#[test]
fn what_is_not_ours_is_not_touched() {
    let shell = Shell::small();
    let wanted = shell.store.geometry();
    let plan = |start: &[u8]| OpenPlan::of(start, wanted);
    assert!(matches!(
        plan(&[0; Superblock::BYTES]),
        OpenPlan::Fresh { previous: None, .. }
    ));
    assert!(matches!(
        plan(&[b'x'; Superblock::BYTES]),
        OpenPlan::Refused { .. }
    ));
    let of_version = |version: u32| {
        let mut start = shell.disk[..Superblock::BYTES].to_vec();
        for at in Superblock::OFFSETS {
            start[at as usize + 8..][..4].copy_from_slice(&version.to_le_bytes());
        }
        plan(&start)
    };
    for older in 0..FORMAT_VERSION_OLDEST {
        let OpenPlan::Fresh { reason, previous } = of_version(older) else {
            panic!("an older version")
        };
        assert!(reason.contains("an older Loligo wrote it") && previous.is_none());
    }
    let OpenPlan::Refused { message } = of_version(7) else {
        panic!("a newer version")
    };
    assert!(
        message.contains("version 7") && message.contains("remove the store"),
        "{message}"
    );
    let larger = store::Geometry::plan(8 * MIB, 512).unwrap();
    let resized = OpenPlan::of(&shell.disk[..Superblock::BYTES], &larger);
    assert!(matches!(
        resized,
        OpenPlan::Fresh {
            previous: Some(_),
            ..
        }
    ));
    let _ = plan(&[]);
}
