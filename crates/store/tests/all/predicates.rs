//! Many purges: what they are not about stays, what they are about goes or is stale, over stops and crashes.

use crate::common::{MIB, Random, Shell, body};
use store::{
    About, KeyHash, Lookup, Manner, NewRecord, NotTaken, Outcome, Settings, Settled, WorkOp,
};

const PREFIX: u8 = 1;
const TAG: u8 = 2;
const SOFT_TAG: u8 = 3;

/// All of the metadata is the tag.
fn settings() -> Settings {
    Settings {
        manner: |kind| Manner {
            about: match kind {
                PREFIX => About::Prefix,
                _ => About::Word,
            },
            soft: kind == SOFT_TAG,
        },
        ..Settings::default()
    }
}

fn put(shell: &mut Shell, key: &str, tag: &str) {
    let hash = shell.hash(key.as_bytes());
    put_as(shell, key, tag, hash, hash);
}

fn put_as(shell: &mut Shell, key: &str, tag: &str, hash: KeyHash, primary: KeyHash) {
    let began = shell.store.sequence();
    let outcome = shell.put_record(&NewRecord {
        hash,
        primary,
        key: key.as_bytes(),
        meta: tag.as_bytes(),
        body: &[&body(1, 0, 700)],
        fragment: None,
        total: None,
        began,
        server: 0,
    });
    assert_eq!(outcome, Outcome::Stored);
    shell.complete_all();
}

/// Purges, and lets time pass while there is no room.
fn purge(shell: &mut Shell, kind: u8, pattern: &str) {
    for _ in 0..1000 {
        match shell.store.invalidate_matching(kind, pattern.as_bytes()) {
            Ok(handle) => {
                shell.work();
                assert_eq!(shell.store.settled(handle), Settled::Durable);
                return;
            }
            Err(NotTaken::Full) => {
                shell.now_ms += 100;
                shell.work();
            }
            Err(NotTaken::TooLong) => panic!("{pattern} is short"),
        }
    }
    panic!("no room was made");
}

/// Lets time pass until no weeding is under way.
fn weed(shell: &mut Shell) {
    for _ in 0..200 {
        shell.now_ms += 100;
        shell.work();
    }
}

/// None: it is dead or not there.
fn is_doubted(shell: &Shell, key: &str) -> Option<bool> {
    let hash = shell.hash(key.as_bytes());
    match shell.store.look_up(hash) {
        Lookup::Absent => None,
        Lookup::Buffered(bytes) => shell.store.decode(&bytes, hash).ok().map(|p| p.doubted),
        Lookup::OnDisk(read) => {
            let parts = shell.store.decode_read(&shell.bytes_of(&read), &read);
            let may_serve = shell.store.read_done(read);
            parts.ok().filter(|_| may_serve).map(|p| p.doubted)
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    Close,
    Kill,
    PowerCut,
}

fn end(shell: &mut Shell, end: End) {
    match end {
        End::Close => shell.close(),
        End::Kill => {}
        End::PowerCut => shell.lose_power(&mut Random(7)),
    }
    shell.reopen();
    shell.work();
}

#[test]
fn three_thousand_tags_leave_what_has_none_of_them() {
    for how in [End::Close, End::Kill, End::PowerCut] {
        let mut shell = Shell::new(16 * MIB, settings());
        for n in 0..500 {
            put(&mut shell, &format!("/kept/{n}"), "kept");
        }
        put(&mut shell, "/gone/1", "tag 7");
        put(&mut shell, "/gone/2", "tag 2999");
        shell.settle();
        for n in 0..3000 {
            purge(&mut shell, TAG, &format!("tag {n}"));
        }
        let figures = shell.store.figures();
        assert!(
            figures.weedings > 0 && figures.predicates < 3000,
            "{figures:?}"
        );
        for round in 0..2 {
            for n in 0..500 {
                let key = format!("/kept/{n}");
                assert_eq!(
                    is_doubted(&shell, &key),
                    Some(false),
                    "{key} {how:?} {round}"
                );
            }
            assert_eq!(is_doubted(&shell, "/gone/1"), None, "{how:?} {round}");
            assert_eq!(is_doubted(&shell, "/gone/2"), None, "{how:?} {round}");
            end(&mut shell, how);
        }
        shell.store.audit().unwrap();
    }
}

#[test]
fn a_soft_tag_holds_after_its_predicate_is_gone() {
    for how in [End::Close, End::Kill, End::PowerCut] {
        let mut shell = Shell::new(16 * MIB, settings());
        for n in 0..50 {
            put(&mut shell, &format!("/a/{n}"), "news");
            put(&mut shell, &format!("/b/{n}"), "shop");
        }
        shell.settle();
        purge(&mut shell, SOFT_TAG, "news");
        for n in 0..400 {
            purge(&mut shell, TAG, &format!("something else {n}"));
        }
        weed(&mut shell);
        assert!(shell.store.figures().weedings > 0);
        for round in 0..3 {
            for n in 0..50 {
                assert_eq!(
                    is_doubted(&shell, &format!("/a/{n}")),
                    Some(true),
                    "{round}"
                );
                assert_eq!(is_doubted(&shell, &format!("/b/{n}")), Some(false));
            }
            end(&mut shell, how);
        }
        // A newer one is fresh.
        put(&mut shell, "/a/1", "news");
        assert_eq!(is_doubted(&shell, "/a/1"), Some(false));
    }
}

#[test]
fn soft_purges_of_single_keys_take_no_room_and_leave_the_others() {
    for how in [End::Close, End::Kill, End::PowerCut] {
        let mut shell = Shell::new(16 * MIB, settings());
        for n in 0..2000 {
            put(&mut shell, &format!("/{n}"), "x");
        }
        shell.settle();
        let mut last = None;
        for n in 0..1000 {
            let doubted = shell.store.doubt(shell.hash(format!("/{n}").as_bytes()));
            assert!(doubted.indexed);
            last = Some(doubted.handle);
        }
        // What was never there.
        for n in 0..5000 {
            let doubted = shell
                .store
                .doubt(shell.hash(format!("/none/{n}").as_bytes()));
            assert!(!doubted.indexed);
            shell.work();
        }
        shell.work();
        assert_eq!(shell.store.settled(last.unwrap()), Settled::Durable);
        assert!(shell.store.figures().predicates == 0);
        for round in 0..3 {
            for n in 0..2000 {
                let expected = Some(n < 1000);
                assert_eq!(
                    is_doubted(&shell, &format!("/{n}")),
                    expected,
                    "{n} {how:?} {round}"
                );
            }
            end(&mut shell, how);
        }
        put(&mut shell, "/1", "x");
        assert_eq!(is_doubted(&shell, "/1"), Some(false));
        shell.store.audit().unwrap();
    }
}

#[test]
fn a_soft_purge_of_a_key_is_of_its_variants_too() {
    for how in [End::Close, End::Kill, End::PowerCut] {
        let mut shell = Shell::new(16 * MIB, settings());
        let primary = shell.hash(b"/a");
        let began = shell.store.sequence();
        shell.store.set_marker(primary, b"accept", began).unwrap();
        for variant in ["/a en", "/a de"] {
            let hash = shell.hash(variant.as_bytes());
            put_as(&mut shell, variant, "x", hash, primary);
        }
        put(&mut shell, "/b", "x");
        shell.settle();
        let doubted = shell.store.doubt(primary);
        assert!(doubted.indexed);
        shell.work();
        for round in 0..3 {
            assert_eq!(is_doubted(&shell, "/a en"), Some(true), "{how:?} {round}");
            assert_eq!(is_doubted(&shell, "/a de"), Some(true), "{how:?} {round}");
            assert_eq!(is_doubted(&shell, "/b"), Some(false));
            end(&mut shell, how);
        }
        let hash = shell.hash(b"/a en");
        put_as(&mut shell, "/a en", "x", hash, primary);
        assert_eq!(is_doubted(&shell, "/a en"), Some(false));
        assert_eq!(is_doubted(&shell, "/a de"), Some(true));
    }
}

#[test]
fn a_reader_that_began_before_a_soft_purge_is_told() {
    let mut shell = Shell::new(16 * MIB, settings());
    put(&mut shell, "/a", "x");
    shell.settle();
    let read = shell.read(b"/a");
    let _ = shell.store.doubt(shell.hash(b"/a"));
    let parts = shell
        .store
        .decode_read(&shell.bytes_of(&read), &read)
        .unwrap();
    assert!(parts.doubted);
    assert!(shell.store.read_done(read));
}

#[test]
fn without_room_a_purge_is_refused_and_nothing_is_lost() {
    let mut shell = Shell::new(4 * MIB, settings());
    for n in 0..100 {
        put(&mut shell, &format!("/{n}"), "kept");
    }
    shell.settle();
    // Nobody carries out what would make room.
    let mut taken = 0;
    let refused = loop {
        match shell
            .store
            .invalidate_matching(TAG, format!("{taken:0900}").as_bytes())
        {
            Ok(_) => taken += 1,
            Err(refused) => break refused,
        }
    };
    assert_eq!(refused, NotTaken::Full);
    assert!((3..100).contains(&taken), "{taken}");
    assert!(shell.store.figures().predicates_percent > 80);
    for _ in 0..20 {
        assert!(shell.store.invalidate_matching(TAG, &[b'y'; 900]).is_err());
    }
    shell.reopen();
    for n in 0..100 {
        assert_eq!(is_doubted(&shell, &format!("/{n}")), Some(false));
    }
    weed(&mut shell);
    purge(&mut shell, TAG, "kept");
    assert_eq!(is_doubted(&shell, "/1"), None);
}

#[test]
fn what_cannot_be_read_is_not_kept_by_a_weeding() {
    let mut shell = Shell::new(16 * MIB, settings());
    put(&mut shell, "/a", "news");
    put(&mut shell, "/b", "shop");
    shell.settle();
    purge(&mut shell, TAG, "news");
    let at = shell.read(b"/a");
    let offset = at.offset as usize;
    let _ = shell.store.read_done(at);
    // For as long as the weeding looks at it.
    shell.disk[offset + 200] ^= 1;
    for n in 0..400 {
        purge(&mut shell, TAG, &format!("something else {n}"));
    }
    weed(&mut shell);
    assert!(shell.store.figures().weedings > 0);
    shell.disk[offset + 200] ^= 1;
    assert_eq!(is_doubted(&shell, "/a"), None);
    assert_eq!(is_doubted(&shell, "/b"), Some(false));
}

#[test]
fn with_an_ordered_policy_predicates_are_worked_off_too() {
    let mut shell = Shell::new(
        16 * MIB,
        Settings {
            replacement: "lru".parse().unwrap(),
            ..settings()
        },
    );
    put(&mut shell, "/a", "news");
    put(&mut shell, "/b", "shop");
    shell.settle();
    purge(&mut shell, TAG, "news");
    for n in 0..400 {
        purge(&mut shell, TAG, &format!("something else {n}"));
    }
    weed(&mut shell);
    assert!(shell.store.figures().weedings > 0);
    assert_eq!(shell.store.figures().records, 1);
    shell.store.audit().unwrap();
    end(&mut shell, End::Kill);
    assert_eq!(is_doubted(&shell, "/a"), None);
    assert_eq!(is_doubted(&shell, "/b"), Some(false));
}

fn commits_of_unsafe(shell: &mut Shell, key: &str) -> u64 {
    let before = shell.store.figures().log_commits;
    let invalidated = shell.store.invalidate_stored(shell.hash(key.as_bytes()));
    shell.work();
    assert_eq!(shell.store.settled(invalidated.handle), Settled::Durable);
    shell.store.figures().log_commits - before
}

#[test]
fn what_was_never_stored_costs_no_commit() {
    let mut shell = Shell::new(16 * MIB, settings());
    for n in 0..300 {
        put(&mut shell, &format!("/{n}"), "x");
    }
    shell.settle();
    shell.work();
    for round in 0..2 {
        for n in 0..100 {
            assert_eq!(commits_of_unsafe(&mut shell, &format!("/none/{n}")), 0);
        }
        assert!(commits_of_unsafe(&mut shell, &format!("/{round}")) > 0);
        shell.close();
        shell.reopen();
        shell.work();
    }
    // What is in doubt, or known by its variants only, is stored.
    let primary = shell.hash(b"/variants");
    shell
        .store
        .set_marker(primary, b"accept", shell.store.sequence())
        .unwrap();
    shell.work();
    assert!(commits_of_unsafe(&mut shell, "/variants") > 0);
    // After a kill nobody knows what lies on the disk.
    shell.reopen();
    shell.work();
    assert!(commits_of_unsafe(&mut shell, "/none/1") > 0);
}

#[test]
fn what_left_the_index_and_may_be_found_is_logged() {
    // Forgotten: an older version lies where the scan finds it.
    let mut shell = Shell::new(16 * MIB, settings());
    put(&mut shell, "/a", "x");
    shell.settle();
    shell.store.forget(shell.hash(b"/a"));
    assert!(shell.get(b"/a").is_none());
    assert!(commits_of_unsafe(&mut shell, "/a") > 0);
    shell.reopen();
    shell.work();
    assert!(shell.get(b"/a").is_none(), "a scan would have found it");

    // Evicted, and its region is not noted yet: nobody carries the notes out.
    let mut shell = Shell::new(4 * MIB, settings());
    put(&mut shell, "/a", "x");
    shell.settle();
    shell.work();
    shell.by_hand = true;
    let mut n = 0;
    while shell.store.contains(shell.hash(b"/a")) {
        let key = format!("/fill/{n}");
        let outcome = shell.put(key.as_bytes(), &body(n, 0, 20_000));
        shell.complete_all();
        if outcome != Outcome::Stored {
            // Room is wanted: as much work as makes a sweep, and a note at most begun.
            shell.work_some(1);
        }
        n += 1;
        assert!(n < 5000, "it is never evicted");
    }
    let invalidated = shell.store.invalidate_stored(shell.hash(b"/a"));
    assert!(!invalidated.indexed);
    assert_eq!(
        shell.store.settled(invalidated.handle),
        Settled::Pending,
        "it is logged"
    );
    shell.by_hand = false;
    shell.work();
    assert_eq!(shell.store.settled(invalidated.handle), Settled::Durable);
}

/// Another hash that the index takes for the same key: it does not know the bits 27 to 31.
fn twin(hash: KeyHash) -> KeyHash {
    KeyHash(hash.0 ^ 1 << 27)
}

#[test]
fn what_the_invalidation_of_another_key_removed_is_logged() {
    for is_replaced_first in [false, true] {
        let mut shell = Shell::new(16 * MIB, settings());
        let hash = shell.hash(b"/a");
        put(&mut shell, "/a", "x");
        shell.settle();
        if is_replaced_first {
            put_as(&mut shell, "/twin", "x", twin(hash), twin(hash));
            shell.settle();
        }
        assert!(shell.store.invalidate_stored(twin(hash)).indexed);
        shell.work();
        assert!(!shell.store.contains(hash));
        assert!(commits_of_unsafe(&mut shell, "/a") > 0);
        shell.reopen();
        assert!(shell.get(b"/a").is_none(), "a scan would have found it");
    }
}

#[test]
fn what_is_written_after_a_clean_stop_is_logged() {
    let mut shell = Shell::new(16 * MIB, settings());
    put(&mut shell, "/a", "x");
    let late: Vec<_> = shell.pending.drain(..).chain(shell.store.flush()).collect();
    assert!(!late.is_empty());
    shell.store.begin_close();
    shell.work();
    assert!(shell.store.is_closed());
    // The device had them all the time.
    for write in late {
        shell.write_at(write.offset, &write.data);
    }
    shell.reopen();
    assert!(shell.get(b"/a").is_none());
    assert!(commits_of_unsafe(&mut shell, "/a") > 0);
    shell.reopen();
    assert!(shell.get(b"/a").is_none(), "a scan would have found it");
}

#[test]
fn what_found_no_room_in_the_checkpoint_of_a_clean_stop_is_logged() {
    let mut shell = Shell::new(16 * MIB, settings());
    let mut list = [b'x'; store::LIST_BYTES_MAX];
    for n in 0..500u64 {
        // Each a list of its own.
        list[..8].copy_from_slice(&n.to_le_bytes());
        let primary = shell.hash(&n.to_le_bytes());
        let began = shell.store.sequence();
        shell.store.set_marker(primary, &list, began).unwrap();
        shell.work();
    }
    shell.close();
    shell.reopen();
    let is_lost = |n: &u64| shell.store.marker(shell.hash(&n.to_le_bytes())).is_none();
    assert!((0..500u64).any(|n| is_lost(&n)), "all found room");
    assert!(commits_of_unsafe(&mut shell, "/none") > 0);
}

#[test]
fn a_device_that_refuses_reads_for_a_moment_costs_nothing() {
    let mut shell = Shell::new(16 * MIB, settings());
    put(&mut shell, "/a", "news");
    put(&mut shell, "/b", "shop");
    shell.settle();
    purge(&mut shell, TAG, "news");
    shell.by_hand = true;
    for n in 0..400 {
        let _ = shell
            .store
            .invalidate_matching(TAG, format!("something else {n}").as_bytes());
    }
    let mut refused = 0;
    for _ in 0..300 {
        shell.now_ms += 1000;
        while let Some(work) = shell.store.next_work(shell.now_ms) {
            match work.op {
                WorkOp::Read { .. } if refused < 2 => {
                    refused += 1;
                    shell.store.work_done(work.id, Err(()), shell.now_ms);
                }
                _ => {
                    let clock = shell.clock();
                    shell.carry_out(work, clock);
                }
            }
        }
    }
    assert_eq!(refused, 2);
    assert!(shell.store.figures().weedings > 0);
    assert_eq!(is_doubted(&shell, "/a"), None);
    assert_eq!(is_doubted(&shell, "/b"), Some(false));
}
