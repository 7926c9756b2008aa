//! Which fragments are kept, and which fragments or objects make room for others.

use httpcache::{Standing, StandingFlags, UnixMillis};

use super::*;
use crate::object::Object;

const FRAGMENT: usize = 64 << 10;
/// Fragments that fit into all of the memory.
const ROOM: u64 = 32;

fn tiers() -> (MemoryTier, FragmentMemory) {
    let bytes = ROOM * (FRAGMENT as u64 + 1024);
    (
        MemoryTier::new(bytes, u64::MAX),
        FragmentMemory::new(bytes, FRAGMENT as u32),
    )
}

fn key(n: u64) -> Vec<u8> {
    n.to_string().into_bytes()
}

fn hash(n: u64) -> KeyHash {
    KeyHash(n << 20)
}

fn body(n: u64) -> Bytes {
    vec![n as u8; FRAGMENT].into()
}

fn read(tiers: &(MemoryTier, FragmentMemory), n: u64) -> Bytes {
    tiers.1.was_read(&tiers.0, hash(n), &key(n), body(n))
}

fn is_here(tiers: &(MemoryTier, FragmentMemory), n: u64) -> bool {
    tiers.1.kept().find(hash(n), &key(n)).is_some()
}

fn get(tiers: &(MemoryTier, FragmentMemory), n: u64) -> Option<Bytes> {
    tiers.1.get(&tiers.0, hash(n), &key(n))
}

/// A whole object of 4 KiB, in any shard.
fn put(memory: &MemoryTier, n: u64) {
    let object = Object {
        key: key(n).into(),
        hash: KeyHash(n << 40 | n),
        primary: KeyHash(n),
        status: 200,
        standing: Standing {
            received: UnixMillis(0),
            initial_age_s: 0,
            lifetime_s: 60,
            stale_while_revalidate_s: 0,
            stale_if_error_s: 0,
            flags: StandingFlags::HEURISTIC,
        },
        content_type: (0, 0),
        head: Bytes::from_static(b"HTTP/1.1 200 OK\r\n"),
        body: vec![0; 4096].into(),
        large: None,
    };
    assert!(memory.insert(object, |_| true));
}

fn assert_bounded((memory, fragments): &(MemoryTier, FragmentMemory)) {
    let bytes = memory.bytes() + fragments.bytes();
    assert!(bytes <= memory.bytes_max(), "{bytes}");
}

#[test]
fn what_is_read_twice_is_kept() {
    let tiers = tiers();
    read(&tiers, 1);
    assert_eq!(get(&tiers, 1), None);
    let kept = read(&tiers, 1);
    assert_eq!(kept, body(1));
    let found = get(&tiers, 1).expect("it is kept");
    assert_eq!(found, body(1));
    let (_, place) = tiers.1.place_of(&found).expect("it is in the arena");
    let (_, of_part) = tiers.1.place_of(&found[1000..]).unwrap();
    assert_eq!(of_part, place + 1000);
    assert!(tiers.1.place_of(&body(1)).is_none());
    assert!(tiers.1.place_of(&found[FRAGMENT - 10..]).is_none(), "short");
}

#[test]
fn a_key_with_the_same_hash_is_another_fragment() {
    let tiers = tiers();
    read(&tiers, 1);
    read(&tiers, 1);
    assert_eq!(tiers.1.get(&tiers.0, hash(1), b"another"), None);
}

#[test]
fn a_long_download_changes_nothing() {
    let tiers = tiers();
    (0..2).for_each(|_| _ = read(&tiers, 1));
    let objects = 200;
    (0..objects).for_each(|n| put(&tiers.0, n));
    let before = tiers.0.objects();
    for _ in 0..3 {
        (100..100 + 100 * ROOM).for_each(|n| _ = read(&tiers, n));
    }
    assert!(is_here(&tiers, 1));
    assert_eq!((tiers.0.objects(), tiers.1.fragments()), (before, 1));
}

#[test]
fn fragments_use_all_room_that_nobody_needs() {
    let tiers = tiers();
    (0..2 * ROOM).for_each(|n| {
        read(&tiers, n);
        read(&tiers, n);
        assert_bounded(&tiers);
    });
    assert_eq!(tiers.1.fragments(), ROOM);
    assert!(is_here(&tiers, 2 * ROOM - 1) && !is_here(&tiers, 0));
}

#[test]
fn fragments_push_out_whole_objects_up_to_half() {
    let tiers = tiers();
    (0..100 * ROOM).for_each(|n| put(&tiers.0, n));
    let full = tiers.0.bytes();
    (0..ROOM).for_each(|n| {
        read(&tiers, n);
        read(&tiers, n);
        assert_bounded(&tiers);
    });
    let half = tiers.0.bytes_max() / 2;
    let share = tiers.1.bytes();
    assert!(share <= half && share > half - 2 * FRAGMENT as u64);
    assert!(tiers.0.bytes() < full && tiers.0.bytes() > half - half / 8);
}

#[test]
fn whole_objects_push_out_fragments_that_nobody_uses() {
    let tiers = tiers();
    (0..ROOM).for_each(|n| (0..2).for_each(|_| _ = read(&tiers, n)));
    // More than half: as soon as something whole is pushed out they go back to half.
    (0..100).for_each(|n| put(&tiers.0, n));
    tiers.1.leave(&tiers.0);
    let half = tiers.0.bytes_max() / 2;
    assert!(tiers.1.bytes() <= half && tiers.1.bytes() > half - 2 * FRAGMENT as u64);
    // The newest is used all the time.
    let used = ROOM - 1;
    (100..100 + 100 * ROOM).for_each(|n| {
        put(&tiers.0, n);
        assert!(get(&tiers, used).is_some());
        tiers.1.leave(&tiers.0);
        assert_bounded(&tiers);
    });
    assert_eq!(tiers.1.fragments(), 1);
    assert!(is_here(&tiers, used));
}

#[test]
fn one_that_left_is_still_sent() {
    let tiers = tiers();
    (0..2).for_each(|_| _ = read(&tiers, 0));
    let sent = get(&tiers, 0).unwrap();
    (1..4 * ROOM).for_each(|n| (0..2).for_each(|_| _ = read(&tiers, n)));
    assert!(!is_here(&tiers, 0));
    assert_eq!(sent, body(0));
}

#[test]
fn less_memory_by_a_new_configuration() {
    let tiers = tiers();
    (0..ROOM).for_each(|n| (0..2).for_each(|_| _ = read(&tiers, n)));
    tiers.0.resize(tiers.0.bytes_max() / 4, u64::MAX);
    tiers.1.leave(&tiers.0);
    assert_bounded(&tiers);
    assert!(tiers.1.fragments() > 0);
    tiers.0.resize(0, u64::MAX);
    tiers.1.leave(&tiers.0);
    assert_eq!(tiers.1.bytes(), 0);
    read(&tiers, 1000);
    read(&tiers, 1000);
    assert_eq!(tiers.1.bytes(), 0);
}

#[test]
fn little_memory_keeps_none() {
    let memory = MemoryTier::new(FRAGMENT as u64 * 4, u64::MAX);
    let fragments = FragmentMemory::new(FRAGMENT as u64 * 4, FRAGMENT as u32);
    let tiers = (memory, fragments);
    (0..3).for_each(|_| _ = read(&tiers, 1));
    assert!(!is_here(&tiers, 1));
}
