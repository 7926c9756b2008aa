//! Opening and closing, one example each.

mod common;

use common::{MIB, Shell, body};
use store::{KeyHash, OpenPlan, Outcome, Store, Superblock};

#[test]
fn a_clean_stop_and_start_keeps_everything_in_order_of_use() {
    let mut shell = Shell::small();
    for n in 0..100u64 {
        shell.put(&n.to_le_bytes(), &body(n, 0, 20_000));
        shell.complete_all();
    }
    shell.get(&0u64.to_le_bytes()).unwrap();
    let marker = shell.store.set_marker(KeyHash(5), b"accept", 0).unwrap();
    let sequence = shell.store.sequence();
    shell.close();
    assert_eq!(shell.put(b"late", b""), Outcome::Paused, "closed");
    assert!(shell.reopen());
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
fn closing_waits_for_the_writes() {
    let mut shell = Shell::small();
    shell.put(b"a", b"1");
    assert!(shell.store.close_image().is_err(), "not flushed");
    shell.pending.extend(shell.store.flush());
    assert_eq!(shell.store.close_image().unwrap_err().in_flight, 1);
    shell.complete(0, true);
    assert!(shell.store.close_image().is_ok());
}

#[test]
fn after_an_unclean_stop_the_store_is_empty_and_old_records_are_refused() {
    let mut shell = Shell::small();
    shell.put(b"a", b"1");
    shell.close();
    assert!(shell.reopen());
    let read = shell.read(b"a");
    let bytes = shell.bytes_of(&read);
    assert!(shell.store.read_done(read));
    assert!(!shell.reopen(), "it was open");
    assert!(shell.get(b"a").is_none());
    assert!(shell.store.decode(&bytes, shell.hash(b"a")).is_err());
    // Even if the secret were the same.
    let superblock = Superblock::decode(&shell.disk).unwrap();
    assert_eq!(superblock.epoch, 2);
}

#[test]
fn a_damaged_index_is_not_used() {
    let mut shell = Shell::small();
    shell.put(b"a", b"1");
    shell.close();
    let OpenPlan::Load { superblock, index } = shell.plan() else {
        panic!("clean")
    };
    let at = index.offset as usize;
    let mut bytes = shell.disk[at..at + index.bytes as usize].to_vec();
    assert!(Store::load(&superblock, &bytes, &shell.settings).is_ok());
    bytes[90] ^= 1;
    assert!(Store::load(&superblock, &bytes, &shell.settings).is_err());
    assert!(Store::load(&superblock, &[], &shell.settings).is_err());
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
    let mut start = shell.disk[..Superblock::BYTES].to_vec();
    for at in Superblock::OFFSETS {
        start[at as usize + 8] = 7;
    }
    let OpenPlan::Refused { message } = plan(&start) else {
        panic!("another version")
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
