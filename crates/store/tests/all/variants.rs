//! Resources with variants: who is found, who must never be found again, over stops and crashes; and that it costs no log.

use crate::common::{MIB, Random, Shell, body, spoil_checkpoints};
use store::{Marker, NewRecord, Outcome, Settings, Settled, WorkOp};

const LIST: &str = "accept-encoding";

/// The key of a variant, as a caller makes it. The list is not in it, so a salt that is given twice would show.
fn key_of(resource: &str, marker: &Marker, value: &str) -> Vec<u8> {
    let salt = marker.salt.to_le_bytes();
    [resource.as_bytes(), b"\n", &salt, value.as_bytes()].concat()
}

fn marker(shell: &Shell, resource: &str) -> Option<Marker> {
    shell.store.marker(shell.hash(resource.as_bytes()))
}

fn set(shell: &Shell, resource: &str, list: &str) -> Marker {
    let primary = shell.hash(resource.as_bytes());
    let began = shell.store.sequence();
    (shell.store.set_marker(primary, list.as_bytes(), began)).expect("it may be stored")
}

fn put_under(
    shell: &mut Shell,
    resource: &str,
    marker: &Marker,
    value: &str,
    body: &str,
) -> Outcome {
    let key = key_of(resource, marker, value);
    let began = shell.store.sequence();
    let record = NewRecord {
        hash: shell.hash(&key),
        primary: shell.hash(resource.as_bytes()),
        key: &key,
        meta: b"meta",
        body: &[body.as_bytes()],
        fragment: None,
        total: None,
        began,
        server: 0,
    };
    shell.put_record(&record)
}

/// Stores the answer to a request with that value under a list.
fn put(shell: &mut Shell, resource: &str, list: &str, value: &str) {
    let marker = set(shell, resource, list);
    let body = format!("{list} {value}");
    let outcome = put_under(shell, resource, &marker, value, &body);
    assert_eq!(outcome, Outcome::Stored);
    shell.complete_all();
}

/// What a request with that value is answered.
fn get(shell: &Shell, resource: &str, value: &str) -> Option<String> {
    let marker = marker(shell, resource)?;
    let parts = shell.get_if_alive(&key_of(resource, &marker, value))?;
    assert_eq!(parts.meta, "meta");
    Some(String::from_utf8(parts.body.to_vec()).unwrap())
}

fn is_hit(shell: &Shell, resource: &str, list: &str, value: &str) -> bool {
    let found = get(shell, resource, value);
    if let Some(found) = &found {
        assert_eq!(*found, format!("{list} {value}"), "of {resource}");
    }
    found.is_some()
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    Close,
    Kill,
    PowerCut,
}

const ENDS: [End; 3] = [End::Close, End::Kill, End::PowerCut];

fn end(shell: &mut Shell, end: End) {
    shell.settle();
    match end {
        End::Close => shell.close(),
        End::Kill => {}
        End::PowerCut => {
            // What was stored is on the disk; what came after the last flush may be anything.
            let clock = shell.clock();
            shell.flushed(clock);
            shell.lose_power(&mut Random(7));
        }
    }
    shell.reopen();
    shell.work();
    shell.store.audit().unwrap();
}

/// A checkpoint now.
fn checkpoint(shell: &mut Shell) {
    shell.close();
    shell.reopen();
    // From here on a crash is one: the checkpoint covers what was there.
    shell.work();
}

#[test]
fn variants_are_found_after_any_end_and_nothing_was_logged() {
    for how in ENDS {
        let mut shell = Shell::small();
        let commits = shell.store.figures().log_commits;
        for n in 0..200 {
            put(&mut shell, &format!("/{n}"), LIST, "gzip");
            put(&mut shell, &format!("/{n}"), LIST, "br");
        }
        let figures = shell.store.figures();
        assert_eq!((figures.markers, figures.records), (200, 400));
        assert_eq!(figures.log_commits, commits, "{how:?}");
        end(&mut shell, how);
        for n in 0..200 {
            assert!(
                is_hit(&shell, &format!("/{n}"), LIST, "gzip"),
                "{how:?} {n}"
            );
            assert!(is_hit(&shell, &format!("/{n}"), LIST, "br"), "{how:?} {n}");
            assert!(!is_hit(&shell, &format!("/{n}"), LIST, "zstd"));
        }
        assert_eq!(shell.store.figures().markers, 200);
    }
}

#[test]
fn a_marker_without_a_variant_on_the_disk_is_lost_with_a_crash_alone() {
    for (how, is_there) in [(End::Close, true), (End::Kill, false)] {
        let mut shell = Shell::small();
        set(&shell, "/a", LIST);
        end(&mut shell, how);
        assert_eq!(marker(&shell, "/a").is_some(), is_there, "{how:?}");
    }
}

#[test]
fn a_purge_takes_all_variants_whatever_comes_after() {
    for how in ENDS {
        for covered in [false, true] {
            let mut shell = Shell::small();
            put(&mut shell, "/a", LIST, "gzip");
            put(&mut shell, "/a", LIST, "br");
            put(&mut shell, "/b", LIST, "br");
            shell.settle();
            if covered {
                checkpoint(&mut shell);
            }
            assert!(shell.purge(b"/a"));
            assert!(!shell.purge(b"/a"), "there is nothing any more");
            for round in 0..3 {
                assert_eq!(marker(&shell, "/a"), None, "{how:?} {covered} {round}");
                assert!(is_hit(&shell, "/b", LIST, "br"));
                end(&mut shell, how);
            }
            // Only what is stored from here on is found.
            put(&mut shell, "/a", LIST, "br");
            for _ in 0..3 {
                assert!(is_hit(&shell, "/a", LIST, "br"));
                assert_eq!(get(&shell, "/a", "gzip"), None, "{how:?} {covered}");
                end(&mut shell, how);
            }
        }
    }
}

#[test]
fn variants_of_a_list_before_are_out_of_reach_whatever_a_scan_finds_first() {
    for how in ENDS {
        for covered in [false, true] {
            let mut shell = Shell::small();
            put(&mut shell, "/a", LIST, "one");
            put(&mut shell, "/a", "cookie", "two");
            if covered {
                checkpoint(&mut shell);
            }
            put(&mut shell, "/a", "cookie", "three");
            put(&mut shell, "/a", "", "");
            put(&mut shell, "/a", "accept", "four");
            for _ in 0..2 {
                assert!(is_hit(&shell, "/a", "accept", "four"), "{how:?} {covered}");
                for value in ["one", "two", "three", ""] {
                    assert_eq!(get(&shell, "/a", value), None, "{how:?} {covered}");
                }
                end(&mut shell, how);
            }
            // The first list again, and a salt that was never used.
            put(&mut shell, "/a", LIST, "five");
            assert_eq!(get(&shell, "/a", "one"), None);
        }
    }
}

#[test]
fn a_list_that_goes_on_keeps_what_is_stored() {
    for how in ENDS {
        let mut shell = Shell::small();
        put(&mut shell, "/a", LIST, "br");
        let before = marker(&shell, "/a").unwrap();
        let primary = shell.hash(b"/a");
        let more = (shell.store).resume_marker(primary, before.salt, b"accept-encoding br>gzip");
        let more = more.unwrap();
        assert_eq!(more.salt, before.salt);
        assert_eq!(marker(&shell, "/a"), Some(more.clone()));
        let no = shell.store.resume_marker(primary, before.salt + 1, b"x");
        assert_eq!(no, None);
        assert_eq!(
            put_under(&mut shell, "/a", &more, "zstd", "z"),
            Outcome::Stored
        );
        end(&mut shell, how);
        assert_eq!(marker(&shell, "/a").unwrap().salt, before.salt);
        assert!(is_hit(&shell, "/a", LIST, "br"), "{how:?}");
        assert_eq!(get(&shell, "/a", "zstd").as_deref(), Some("z"));
    }
}

#[test]
fn a_fill_under_way_does_not_bring_back_what_was_purged() {
    let mut shell = Shell::small();
    let old = set(&shell, "/a", LIST);
    let began = shell.store.sequence();
    shell.purge(b"/a");
    let primary = shell.hash(b"/a");
    assert_eq!(shell.store.set_marker(primary, b"accept", began), None);
    assert_eq!(
        put_under(&mut shell, "/a", &old, "br", "old"),
        Outcome::Invalidated,
        "its marker is gone"
    );
    let new = set(&shell, "/a", LIST);
    assert_ne!(new.salt, old.salt);
    // Taken, and nobody finds it.
    assert_eq!(
        put_under(&mut shell, "/a", &old, "br", "old"),
        Outcome::Stored
    );
    assert_eq!(get(&shell, "/a", "br"), None);
}

#[test]
fn what_was_stored_without_a_list_is_hidden_and_comes_after_a_purge() {
    for how in ENDS {
        let mut shell = Shell::small();
        shell.put(b"/a", b"plain");
        shell.settle();
        put(&mut shell, "/a", LIST, "br");
        assert!(!shell.store.contains(shell.hash(b"/a")));
        assert_eq!(shell.put(b"/a", b"plain"), Outcome::Invalidated);
        assert_eq!(shell.store.figures().records, 1);
        end(&mut shell, how);
        assert!(is_hit(&shell, "/a", LIST, "br"), "{how:?}");
        assert!(shell.get(b"/a").is_none());
        shell.purge(b"/a");
        assert_eq!(shell.put(b"/a", b"plain again"), Outcome::Stored);
        end(&mut shell, how);
        assert_eq!(shell.get(b"/a").unwrap().body, "plain again");
        assert_eq!(marker(&shell, "/a"), None);
    }
}

#[test]
fn what_is_stored_during_a_scan_is_not_mixed_with_what_it_finds() {
    let mut shell = Shell::small();
    put(&mut shell, "/a", LIST, "one");
    put(&mut shell, "/b", LIST, "one");
    put(&mut shell, "/c", LIST, "one");
    shell.settle();
    shell.by_hand = true;
    shell.reopen_without_scan();
    assert!(shell.store.recovery().is_some());
    assert_eq!(marker(&shell, "/a"), None);
    let began = shell.store.sequence();
    // Of another list; of the same; and without one.
    for (resource, list) in [("/a", "cookie"), ("/b", LIST)] {
        let primary = shell.hash(resource.as_bytes());
        let marker = shell.store.set_marker(primary, list.as_bytes(), began);
        let marker = marker.unwrap();
        let _ = put_under(&mut shell, resource, &marker, "two", &format!("{list} two"));
    }
    shell.put(b"/c", b"plain");
    shell.by_hand = false;
    shell.work();
    assert_eq!(shell.store.recovery(), None);
    for resource in ["/a", "/b"] {
        assert_eq!(get(&shell, resource, "one"), None);
    }
    assert!(marker(&shell, "/c").is_none() || shell.get(b"/c").is_none());
    shell.store.audit().unwrap();
}

#[test]
fn markers_leave_when_the_hand_has_been_round_and_their_salts_do_not_come_again() {
    let mut shell = Shell::small();
    put(&mut shell, "/a", LIST, "br");
    put(&mut shell, "/kept", LIST, "br");
    let before = marker(&shell, "/a").unwrap();
    let mut rounds = 0;
    // Not asked for: that would be a use.
    while shell.store.figures().markers > 1 {
        rounds += 1;
        assert!(rounds < 40, "it never leaves");
        for n in 0..50 {
            shell.put(format!("{rounds} {n}").as_bytes(), &body(1, n, 5000));
            shell.settle();
        }
        assert!(marker(&shell, "/kept").is_some(), "it is in use");
    }
    let again = set(&shell, "/a", LIST);
    assert_ne!(again.salt, before.salt);
    shell.store.audit().unwrap();
}

#[test]
fn markers_stay_as_long_as_anything_stored_under_them() {
    let mut shell = Shell::new(
        4 * MIB,
        Settings {
            replacement: "second-chance=0".parse().unwrap(),
            ..Settings::default()
        },
    );
    let names: Vec<String> = (0..4000).map(|n| format!("/{n}")).collect();
    let mut found = 0;
    for (n, name) in names.iter().enumerate() {
        let marker = set(&shell, name, LIST);
        let text = "x".repeat(4000);
        if put_under(&mut shell, name, &marker, "br", &text) != Outcome::Stored {
            shell.settle();
            continue;
        }
        shell.complete_all();
        // A few are asked for, just before they are swept; the others are not, for that is a use.
        if n > 550 && n % 100 == 0 {
            found += u64::from(get(&shell, &names[n - 500], "br").is_some());
            let figures = shell.store.figures();
            let most = figures.records * 19 / 10;
            assert!(figures.markers <= most, "{n}: {figures:?}");
        }
    }
    assert!(found > 20, "{found}");
    // Every record in the index is found through its marker.
    let records = shell.store.figures().records;
    let is_hit = |name: &&String| get(&shell, name, "br").is_some();
    assert_eq!(names.iter().filter(is_hit).count() as u64, records);
}

#[test]
fn too_many_lists_are_refused_and_counted() {
    let one_shard = Settings {
        shards: 1,
        ..Settings::default()
    };
    let shell = Shell::new(4 * MIB, one_shard);
    let list = |n: u32| [&n.to_le_bytes()[..], &[b'x'; 1000]].concat();
    let set = |n: u32, who: u8| {
        let primary = shell.hash(&[&n.to_le_bytes()[..], &[who]].concat());
        let marker = shell.store.set_marker(primary, &list(n), 0);
        marker.is_some()
    };
    let mut n = 0u32;
    // Each is needed twice, so none makes room.
    while set(n, 0) && set(n, 1) {
        n += 1;
    }
    assert!(n >= 500, "{n}");
    assert_eq!(shell.store.figures().lists_refused, 1);
    // What has one that is known is stored, and what one alone needs makes room.
    assert!(set(0, 2));
    let purged = shell.hash(&[&1u32.to_le_bytes()[..], &[0]].concat());
    assert!(shell.store.invalidate(purged).indexed);
    assert!(set(n, 0));
    assert_eq!(shell.store.figures().lists_refused, 1);
    shell.store.audit().unwrap();
}

#[test]
fn ever_new_lists_do_not_keep_others_out() {
    let mut shell = Shell::small();
    let shared = |n: u32| shell.hash(format!("/shared/{n}").as_bytes());
    for n in 0..100 {
        shell.store.set_marker(shared(n), b"accept", 0).unwrap();
    }
    let first = shell.hash(b"/ever/0");
    for n in 0..30_000u32 {
        let list = [&n.to_le_bytes()[..], &[b'x'; 1000]].concat();
        let primary = shell.hash(format!("/ever/{n}").as_bytes());
        assert!(shell.store.set_marker(primary, &list, 0).is_some(), "{n}");
    }
    assert_eq!(shell.store.figures().lists_refused, 0);
    assert_eq!(shell.store.marker(first), None, "it made room");
    assert!((0..100).all(|n| shell.store.marker(shared(n)).is_some()));
    shell.store.audit().unwrap();
    // Its variants may lie on the disk, so its purge is logged.
    let purged = shell.store.invalidate_stored(first);
    assert_eq!(shell.store.settled(purged.handle), store::Settled::Pending);
    shell.work();
}

#[test]
fn without_a_device_soft_purges_are_never_too_many() {
    let identity = store::Identity::new(crate::common::random_bytes(1));
    let store = store::Store::volatile(&Settings::default(), identity);
    for n in 0..50_000u64 {
        let primary = store.hasher().hash(&n.to_le_bytes());
        let began = store.sequence();
        store.set_marker(primary, b"accept", began).unwrap();
        let _ = store.doubt(primary);
        assert!(store.marker(primary).is_some(), "{n}");
    }
}

#[test]
fn without_a_device_markers_make_room_for_each_other() {
    let identity = store::Identity::new(crate::common::random_bytes(1));
    let store = store::Store::volatile(&Settings::default(), identity);
    let hash = |n: u64| store.hasher().hash(&n.to_le_bytes());
    let mut salts = std::collections::HashMap::new();
    for n in 0..300_000 {
        let marker = store.set_marker(hash(n), b"accept", 0).unwrap();
        salts.insert(n, marker.salt);
    }
    let markers = store.figures().markers;
    // Four segments: an eighth of each leaves in one go.
    assert!((229_376..=262_144).contains(&markers), "{markers}");
    assert!(store.marker(hash(299_999)).is_some());
    for (n, before) in salts {
        let is_there = store.marker(hash(n)).is_some();
        let now = store.set_marker(hash(n), b"accept", 0).unwrap();
        // Another key of that place may have had it in between.
        assert!(now.salt > before || is_there, "{n}");
    }
    store.audit().unwrap();
}

#[test]
fn a_resource_that_is_purged_without_end_gets_ever_new_salts() {
    let one_segment = Settings {
        shards: 1,
        ..Settings::default()
    };
    let mut shell = Shell::new(4 * MIB, one_segment);
    shell.by_hand = true;
    put(&mut shell, "/other", LIST, "br");
    let mut last = 0;
    for _ in 0..70_000 {
        let primary = shell.hash(b"/a");
        let began = shell.store.sequence();
        let marker = shell.store.set_marker(primary, b"accept", began).unwrap();
        assert!(marker.salt > last, "{last}");
        last = marker.salt;
        let list = format!("{}", last % 3);
        assert!(
            shell
                .store
                .set_marker(primary, list.as_bytes(), began)
                .unwrap()
                .salt
                > last
        );
        let _ = shell.store.invalidate(primary);
    }
    shell.by_hand = false;
    shell.work();
    // The segment began a new era, and what it had is a miss.
    let other = set(&shell, "/other", LIST);
    assert!(other.salt > 2 << 16);
    end(&mut shell, End::Kill);
    assert_eq!(get(&shell, "/other", "br"), None);
}

#[test]
fn without_a_checkpoint_the_newest_marker_is_found_again() {
    let mut shell = Shell::small();
    put(&mut shell, "/a", LIST, "one");
    put(&mut shell, "/a", "cookie", "two");
    put(&mut shell, "/b", LIST, "one");
    shell.purge(b"/b");
    put(&mut shell, "/b", LIST, "two");
    shell.close();
    spoil_checkpoints(&mut shell);
    shell.reopen();
    shell.work();
    assert!(is_hit(&shell, "/a", "cookie", "two"));
    assert_eq!(get(&shell, "/a", "one"), None);
    assert!(is_hit(&shell, "/b", LIST, "two"));
    assert_eq!(get(&shell, "/b", "one"), None);
}

/// Found by seed 201315 of the simulation as it was then.
#[test]
fn a_salt_that_was_given_to_two_lists_leads_to_neither() {
    // With regions what is newer is found first.
    let mut shell = Shell::lru();
    put(&mut shell, "/a", LIST, "one");
    // Keeps the place of the first from being taken again.
    shell.put(b"/kept", b"plain");
    let first = marker(&shell, "/a").unwrap();
    shell.settle();
    let read = shell.read(&key_of("/a", &first, "one"));
    let (at, bytes) = (read.offset, shell.bytes_of(&read));
    assert!(shell.store.read_done(read));
    // In the next life the variant cannot be read, and nothing else tells that its salt was given.
    shell.write_at(at, &vec![0; bytes.len()]);
    spoil_checkpoints(&mut shell);
    shell.reopen();
    shell.work();
    assert_eq!(marker(&shell, "/a"), None);
    // A record without variants comes between.
    shell.put(b"/a", b"plain");
    // What a scan finds is entered at the end of each region, so the plain record before the variant behind these.
    for n in 0..1000 {
        shell.put(format!("/{n}").as_bytes(), b"plain");
    }
    shell.complete_all();
    put(&mut shell, "/a", "cookie", "two");
    let second = marker(&shell, "/a").unwrap();
    assert_eq!(second.salt, first.salt, "else there is nothing to show");
    shell.settle();
    // In the one after that everything can be read.
    shell.write_at(at, &bytes);
    spoil_checkpoints(&mut shell);
    shell.reopen();
    shell.work();
    assert_eq!(get(&shell, "/a", "one"), None);
    assert_eq!(get(&shell, "/a", "two"), None);
    shell.store.audit().unwrap();
}

#[test]
fn soft_purges_beyond_what_is_remembered_are_purges() {
    let mut shell = Shell::small();
    for n in 0..600 {
        put(&mut shell, &format!("/{n}"), LIST, "br");
        if n % 20 == 0 {
            shell.settle();
        }
    }
    let resources = (0..600).map(|n| format!("/{n}"));
    let mut handles = Vec::new();
    for resource in resources.clone() {
        let doubted = shell.store.doubt(shell.hash(resource.as_bytes()));
        assert!(doubted.indexed);
        handles.push(doubted.handle);
        shell.work();
    }
    assert!((handles.iter()).all(|handle| shell.store.settled(*handle) == Settled::Durable));
    for how in [End::Kill, End::Close, End::Kill] {
        let mut stale = 0;
        for resource in resources.clone() {
            let Some(marker) = marker(&shell, &resource) else {
                continue;
            };
            let found = shell.get_if_alive(&key_of(&resource, &marker, "br"));
            assert!(
                found.as_ref().is_none_or(|parts| parts.doubted),
                "{resource}"
            );
            stale += u64::from(found.is_some());
        }
        assert!((100..600).contains(&stale), "{stale}");
        end(&mut shell, how);
    }
}

#[test]
fn a_hit_on_a_variant_is_one_read_and_no_work() {
    let mut shell = Shell::small();
    put(&mut shell, "/a", LIST, "br");
    shell.settle();
    shell.work();
    let marker = marker(&shell, "/a").unwrap();
    let read = shell.read(&key_of("/a", &marker, "br"));
    assert!(shell.store.read_done(read));
    let work = shell.store.next_work(shell.now_ms);
    assert!(work.is_none_or(|work| matches!(work.op, WorkOp::Yield)));
}
