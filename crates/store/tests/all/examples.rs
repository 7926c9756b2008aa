//! The store's promises, one example each.

use crate::common::{MIB, Shell, body, second_chances};
use store::{
    Corrupt, Fragment, KeyHash, Lookup, NewRecord, ObjectTotal, Outcome, Settings, Settled, Store,
    Superblock,
};

#[test]
fn a_record_is_served_from_the_buffer_and_then_from_disk() {
    let mut shell = Shell::small();
    assert_eq!(shell.put(b"a", b"hello"), Outcome::Stored);
    let hash = shell.hash(b"a");
    assert!(
        matches!(shell.store.look_up(hash), Lookup::Buffered(_)),
        "in the open cluster"
    );
    assert_eq!(shell.get(b"a").unwrap().body, "hello");

    shell.pending.extend(shell.store.flush());
    assert!(
        matches!(shell.store.look_up(hash), Lookup::Buffered(_)),
        "in flight"
    );
    assert_eq!(shell.get(b"a").unwrap().body, "hello");

    shell.complete(0, true);
    let read = shell.read(b"a");
    assert_eq!(read.len, 512, "one chunk, one read");
    assert!(shell.store.read_done(read));
    let parts = shell.get(b"a").unwrap();
    assert_eq!(
        (&parts.body[..], &parts.meta[..]),
        (&b"hello"[..], &b"meta"[..])
    );
    assert_eq!(parts.stored_unix_ms, shell.now_ms);
    shell.store.audit().unwrap();
}

#[test]
fn many_records_make_one_write() {
    let mut shell = Shell::new(64 * MIB, Settings::default());
    for n in 0..1000u64 {
        assert_eq!(
            shell.put(&n.to_le_bytes(), &body(n, 0, 10_000)),
            Outcome::Stored
        );
        shell.complete_all();
    }
    shell.settle();
    let figures = shell.store.figures();
    assert_eq!(
        figures.writes, 13,
        "a hundred records of 20 chunks to a cluster of 1 MiB, and what is left of each region"
    );
    assert!(
        figures.write_bytes * 100 < figures.insert_bytes * 102,
        "at most 511 bytes of padding each"
    );
}

#[test]
fn a_cluster_waits_no_longer_than_its_deadline() {
    let mut shell = Shell::lru();
    shell.put(b"a", b"1");
    assert!(shell.store.tick(shell.now_ms + 999).is_empty());
    let writes: Vec<_> = shell.store.tick(shell.now_ms + 1000).into_iter().collect();
    assert_eq!((writes.len(), writes[0].data.len()), (1, 512));
    assert!(shell.store.tick(shell.now_ms + 5000).is_empty());
    let free = shell.store.figures().ready_chunks;
    assert_eq!(free, 6143, "the rest of the run is free again");
}

#[test]
fn without_a_deadline_each_record_is_a_write_of_its_own() {
    let at_once = Settings {
        cluster_deadline_ms: 0,
        ..second_chances()
    };
    let mut shell = Shell::new(64 * MIB, at_once);
    for key in [b"a", b"b", b"c"] {
        shell.put(key, b"1");
    }
    assert_eq!(shell.store.figures().writes, 3);
    shell.settle();
    assert_eq!(shell.get(b"b").unwrap().body, "1");
    shell.store.audit().unwrap();
}

#[test]
fn a_clock_that_is_set_back_starts_the_wait_again() {
    let mut shell = Shell::small();
    shell.put(b"a", b"1");
    assert!(shell.store.tick(5000).is_empty());
    assert!(shell.store.tick(5999).is_empty());
    assert!(!shell.store.tick(6000).is_empty());
}

#[test]
fn what_was_invalidated_is_gone_and_stays_away() {
    let mut shell = Shell::small();
    shell.put(b"a", b"old");
    shell.settle();
    let began = shell.store.sequence();
    assert!(shell.purge(b"a"));
    assert!(shell.get(b"a").is_none());
    assert_eq!(
        shell.put_since(b"a", b"old", began),
        Outcome::Invalidated,
        "its fill began before"
    );
    assert_eq!(shell.put(b"a", b"new"), Outcome::Stored);
    assert_eq!(shell.get(b"a").unwrap().body, "new");
    assert!(!shell.purge(b"b"), "nothing there");
    shell.store.audit().unwrap();
}

#[test]
fn readers_of_a_killed_record_are_told() {
    let mut shell = Shell::small();
    for key in [b"a", b"b", b"c", b"d"] {
        shell.put(key, b"old");
    }
    shell.settle();
    let reads = [b"a", b"b", b"c", b"d"].map(|key| shell.read(key));
    shell.purge(b"a");
    shell.put(b"b", b"new");
    shell.store.forget(shell.hash(b"c"));
    let may_serve = reads.map(|read| shell.store.read_done(read));
    assert_eq!(
        may_serve,
        [false, false, false, true],
        "invalidated, replaced, forgotten, live"
    );
    shell.settle();
    shell.store.audit().unwrap();
}

#[test]
fn an_evicted_record_can_be_read_to_its_end() {
    let mut shell = Shell::lru();
    shell.put(b"a", b"precious");
    shell.settle();
    let read = shell.read(b"a");
    let other = shell.read(b"a");
    shell.fill(12 * MIB, 10_000);
    assert!(shell.get(b"a").is_none(), "evicted");
    let parts = shell
        .store
        .decode_read(&shell.bytes_of(&read), &read)
        .unwrap();
    assert_eq!(parts.body, "precious", "its chunks were not given away");
    shell.store.audit().unwrap();
    assert!(
        shell.store.read_done(read),
        "eviction is no reason not to serve it"
    );
    shell.purge(b"a");
    assert!(
        !shell.store.read_done(other),
        "an invalidation is, even after the eviction"
    );
    shell.store.audit().unwrap();
}

#[test]
fn a_cancelled_read_lets_go() {
    let mut shell = Shell::small();
    shell.put(b"a", b"1");
    shell.settle();
    let guard = shell.store.guard(shell.read(b"a"));
    assert_eq!(shell.store.figures().reads_pinned, 1);
    drop(guard);
    assert_eq!(shell.store.figures().reads_pinned, 0);
    assert!(shell.store.guard(shell.read(b"a")).done());
}

#[test]
fn the_used_share_stays_between_the_watermarks() {
    let mut shell = Shell::with_policy(64 * MIB, "lru");
    shell.fill(100 * MIB, 10_000);
    for n in 0..1000 {
        shell.put(&[1, n as u8, (n >> 8) as u8], &body(n, 0, 5000));
        shell.complete_all();
        let figures = shell.store.figures();
        let used = 100 - figures.ready_chunks * 100 / figures.total_chunks;
        assert!((93..=99).contains(&used), "{used} %");
    }
    assert_eq!(shell.store.figures().stretch_evictions, 0);
    shell.store.audit().unwrap();
}

#[test]
fn a_large_record_finds_room_among_many_small_ones() {
    let mut shell = Shell::new(
        64 * MIB,
        Settings {
            cluster_bytes: 64 * 1024,
            replacement: "lru".parse().unwrap(),
            ..Settings::default()
        },
    );
    shell.fill(100 * MIB, 3000);
    shell.settle();
    // Make holes everywhere, none of them large.
    for n in (0..34_000).step_by(3) {
        shell
            .store
            .forget(shell.hash(format!("fill{n}").as_bytes()));
    }
    for n in 0..8u64 {
        let large = body(n, 0, 130_000);
        assert_eq!(shell.put(&n.to_le_bytes(), &large), Outcome::Stored);
        assert_eq!(shell.pending.len(), 1, "a write of its own");
        shell.complete(0, true);
        assert_eq!(shell.get(&n.to_le_bytes()).unwrap().body, large);
    }
    shell.store.audit().unwrap();
}

#[test]
fn what_is_too_large_is_refused() {
    let mut shell = Shell::small();
    assert_eq!(shell.put(b"a", &vec![0; 3 << 20]), Outcome::TooLarge);
    assert_eq!(
        shell.put(&vec![b'k'; store::KEY_BYTES_MAX + 1], b""),
        Outcome::TooLarge
    );
    let hash = shell.hash(b"head");
    let total = ObjectTotal {
        fetch_id: 1,
        fragments: 100,
        bytes: 100 << 20,
    };
    let head = NewRecord {
        hash,
        primary: hash,
        key: b"head",
        meta: b"",
        body: &[],
        fragment: None,
        total: Some(total),
        began: 0,
        server: 0,
    };
    assert_eq!(
        shell.put_record(&head),
        Outcome::TooLarge,
        "larger than the store, though in fragments"
    );
    assert_eq!(shell.store.figures().refused_too_large, 3);
}

#[test]
fn fragments_and_totals_come_back_as_given() {
    let mut shell = Shell::small();
    let (head, piece) = (shell.hash(b"k"), shell.hash(b"k\0one"));
    let fragment = Fragment {
        fetch_id: 7,
        number: 0,
    };
    let total = ObjectTotal {
        fetch_id: 7,
        fragments: 1,
        bytes: 4,
    };
    let record = |hash, key, body, fragment, total| NewRecord {
        hash,
        primary: head,
        key,
        meta: b"",
        body,
        fragment,
        total,
        began: 0,
        server: 0,
    };
    shell.put_record(&record(
        piece,
        b"k\0one",
        &[b"bo", b"dy"],
        Some(fragment),
        None,
    ));
    shell.put_record(&record(head, b"k", &[], None, Some(total)));
    shell.settle();
    assert!(shell.store.contains(piece));
    let parts = shell.get(b"k\0one").unwrap();
    assert_eq!(
        (parts.fragment, parts.primary, &parts.body[..]),
        (Some(fragment), head, &b"body"[..])
    );
    assert_eq!(shell.get(b"k").unwrap().total, Some(total));
}

#[test]
fn a_failed_write_drops_its_records_and_pauses_storing() {
    let mut shell = Shell::small();
    shell.put(b"a", b"1");
    shell.settle();
    shell.put(b"b", b"2");
    shell.pending.extend(shell.store.flush());
    shell.complete(0, false);
    assert!(shell.get(b"b").is_none());
    assert_eq!(shell.put(b"c", b"3"), Outcome::Paused);
    assert!(
        shell.get(b"a").is_some(),
        "what was stored before is still served"
    );
    shell.now_ms += 1000;
    assert_eq!(shell.put(b"c", b"3"), Outcome::Stored);
    assert_eq!(shell.store.figures().write_failures, 1);
    shell.store.audit().unwrap();
}

#[test]
fn a_device_that_is_behind_is_not_given_more() {
    let mut shell = Shell::new(64 * MIB, Settings::default());
    let mut n = 0u64;
    let paused = loop {
        n += 1;
        match shell.put(&n.to_le_bytes(), &body(n, 0, 100_000)) {
            Outcome::Stored => assert!(n < 200),
            other => break other,
        }
    };
    assert_eq!(paused, Outcome::Behind);
    assert!(shell.store.is_behind());
    let waiting: usize = shell.pending.iter().map(|write| write.data.len()).sum();
    // More than a sixteenth, since the store is small: a burst of a few large objects is stored, too.
    let most = 8 * MIB;
    assert!(most > shell.store.geometry().data_bytes() / 16);
    assert!(
        (most..most + (1 << 20)).contains(&(waiting as u64)),
        "{waiting}"
    );
    assert!(shell.pending.len() >= store::CLUSTERS_IN_FLIGHT_MIN);
    assert!(shell.store.tick(shell.now_ms + 9999).is_empty());
    shell.complete(0, true);
    assert_eq!(shell.put(b"next", b"1"), Outcome::Stored);
    shell.store.audit().unwrap();
}

#[test]
fn a_record_inside_a_body_is_no_record() {
    let mut shell = Shell::small();
    shell.put(b"victim", b"true");
    shell.settle();
    let read = shell.read(b"victim");
    let genuine = shell.bytes_of(&read);
    assert!(shell.store.read_done(read));
    // Another store's record of the same key, as an origin might send it: well formed, but under another secret.
    let mut forger = Shell::small();
    forger.put(b"pad", b"");
    forger.close();
    forger.disk[0] = 0xff;
    forger.disk[32 * 1024] = 0xff;
    let settings = Settings::default();
    let identity = store::Identity::new(crate::common::random_bytes(66));
    let other = Store::create(forger.store.geometry().clone(), &settings, identity);
    forger.store = std::sync::Arc::new(other);
    forger.work();
    forger.put(b"victim", b"false");
    forger.settle();
    let data_at = shell.store.geometry().data_at as usize;
    let forged = bytes::Bytes::copy_from_slice(&forger.disk[data_at..data_at + 512]);
    let hash = shell.hash(b"victim");
    assert!(shell.store.decode(&genuine, hash).is_ok());
    assert_eq!(
        shell
            .store
            .decode(&forged, forger.hash(b"victim"))
            .unwrap_err(),
        Corrupt::Mac
    );

    // And our own record, put back by a misdirected write where another should be.
    shell.put(b"bystander", b"1");
    shell.settle();
    let read = shell.read(b"bystander");
    assert_eq!(
        shell.store.decode_read(&genuine, &read).unwrap_err(),
        Corrupt::Place
    );
    assert!(shell.store.read_done(read));
    shell.put(b"victim", b"newer");
    shell.settle();
    let read = shell.read(b"victim");
    assert_eq!(
        shell.store.decode_read(&genuine, &read).unwrap_err(),
        Corrupt::Place,
        "the old version"
    );
    assert!(shell.store.read_done(read));
}

#[test]
fn a_new_marker_puts_old_variants_out_of_reach() {
    let mut shell = Shell::small();
    let primary = shell.hash(b"p");
    let began = shell.store.sequence();
    let first = shell.store.set_marker(primary, b"accept", began).unwrap();
    let variant = [&b"p|gzip|"[..], &first.salt.to_le_bytes()].concat();
    shell.put(&variant, b"zipped");
    assert_eq!(
        shell.store.set_marker(primary, b"accept", began),
        Some(first.clone()),
        "the same list"
    );
    assert!(shell.store.invalidate(primary).indexed);
    assert_eq!(shell.store.marker(primary), None);
    assert_eq!(
        shell.store.set_marker(primary, b"accept", began),
        None,
        "that fill began before"
    );
    let second = shell
        .store
        .set_marker(primary, b"accept", shell.store.sequence())
        .unwrap();
    assert_ne!(second.salt, first.salt);
    let third = shell
        .store
        .set_marker(primary, b"accept,cookie", shell.store.sequence())
        .unwrap();
    assert_ne!(third.salt, second.salt);
    assert_eq!(
        shell
            .store
            .set_marker(primary, &[b'x'; 2000], shell.store.sequence()),
        None
    );
}

#[test]
fn forgotten_invalidations_refuse_rather_than_admit() {
    let mut shell = Shell::new(
        4 * MIB,
        Settings {
            shards: 1,
            ..Settings::default()
        },
    );
    let began = shell.store.sequence();
    let _ = shell.store.invalidate(shell.hash(b"a"));
    for n in 0..2000 {
        let _ = shell.store.invalidate(KeyHash(n));
    }
    assert!(shell.store.invalidated_since(shell.hash(b"a"), began));
    assert_eq!(shell.put_since(b"a", b"1", began), Outcome::Invalidated);
    assert_eq!(shell.put(b"a", b"1"), Outcome::Stored);
}

#[test]
fn any_bytes_at_all_are_refused_without_a_panic() {
    let shell = Shell::small();
    let mut random = crate::common::Random(3);
    for round in 0..2000 {
        let len = random.below(2000) as usize;
        let mut bytes: Vec<u8> = (0..len).map(|_| random.next() as u8).collect();
        if round % 2 == 0 && len > 8 {
            bytes[..8].copy_from_slice(b"LgRc\x01\0\0\0");
        }
        let bytes = bytes::Bytes::from(bytes);
        assert!(shell.store.decode(&bytes, KeyHash(1)).is_err());
        assert!(Superblock::decode(&bytes).is_err());
    }
}

#[test]
fn what_two_readers_could_not_read_is_set_aside() {
    let mut shell = Shell::lru();
    shell.put(b"a", b"1");
    shell.settle();
    let free = shell.store.figures().ready_chunks;
    let (one, other) = (shell.read(b"a"), shell.read(b"a"));
    shell.store.read_failed(one);
    shell.store.read_failed(other);
    assert!(shell.get(b"a").is_none());
    assert_eq!(shell.store.figures().ready_chunks, free, "not used again");
}

#[test]
fn a_purge_by_pattern_is_compared_when_a_record_is_read() {
    let mut shell = Shell::small();
    shell.put(b"/news/1", b"old");
    shell.put(b"/shop/1", b"old");
    shell.settle();
    let began = shell.store.sequence();
    let handle = shell.store.invalidate_matching(1, b"/news/").unwrap();
    assert_eq!(shell.store.settled(handle), Settled::Pending);
    shell.work();
    assert_eq!(shell.store.settled(handle), Settled::Durable);
    let read = shell.read(b"/news/1");
    let refused = shell.store.decode_read(&shell.bytes_of(&read), &read);
    assert_eq!(refused.unwrap_err(), Corrupt::Invalidated);
    assert!(shell.store.read_done(read));
    assert!(shell.get(b"/shop/1").is_some());
    assert_eq!(
        shell.put_since(b"/news/2", b"late", began),
        Outcome::Invalidated
    );
    assert_eq!(shell.put(b"/news/1", b"new"), Outcome::Stored);
    assert_eq!(shell.get(b"/news/1").unwrap().body, "new");
    assert!(shell.store.invalidate_matching(1, &[0; 1025]).is_err());
}

#[test]
fn every_byte_of_the_data_area_is_live_dead_or_was_never_written() {
    for policy in ["second-chance", "lru"] {
        let mut shell = Shell::with_policy(16 * MIB, policy);
        let area = |shell: &Shell| {
            let f = shell.store.figures();
            let total = f.total_chunks * f.chunk_bytes;
            assert_eq!(f.live_bytes + f.dead_bytes + f.never_written_bytes, total);
            (f.live_bytes, f.dead_bytes, f.never_written_bytes)
        };
        let (live, dead, new) = area(&shell);
        assert_eq!((live, dead), (0, 0), "{policy}: a new store, {new} bytes");
        // With the hand only what is ready, which says nothing about how full the store is.
        let ready = shell.store.figures().ready_chunks * 512;
        assert_eq!(
            ready < new / 2,
            policy == "second-chance",
            "{policy}: {ready}"
        );
        // 20 chunks each, with their headers.
        for n in 0..100u64 {
            shell.put(&n.to_le_bytes(), &body(n, 0, 10_000));
            shell.complete_all();
        }
        shell.settle();
        assert_eq!(area(&shell).0, 100 * 20 * 512, "{policy}");
        assert!(area(&shell).2 < new, "{policy}");
        let before = area(&shell);
        for n in 0..40u64 {
            shell.purge(&n.to_le_bytes());
        }
        shell.settle();
        let after = area(&shell);
        assert_eq!(after.0, 60 * 20 * 512, "{policy}");
        // What another policy frees is written to again at once.
        let freed = 40 * 20 * 512;
        match policy {
            "second-chance" => assert_eq!((after.1, after.2), (before.1 + freed, before.2)),
            _ => assert_eq!((after.1, after.2), (before.1, before.2 + freed)),
        }
        shell.fill(24 * MIB, 10_000);
        let (live, _, new) = area(&shell);
        assert!(live > 8 * MIB, "{policy}: {live}");
        if policy == "second-chance" {
            assert_eq!(new, 0, "it has gone round");
        }
        shell.store.audit().unwrap();
    }
}
