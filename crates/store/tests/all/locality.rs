//! Locality buffers: what waits in one is found and killed like any record, comes to lie beside others of its server, and costs neither
//! room nor long writes.

use crate::common::{MIB, Random, Shell, body, second_chances, spoil_checkpoints};
use store::{About, Lookup, Manner, NewRecord, Outcome, Sequence, Settings, Settled};

const PREFIX: u8 = 1;
const TAG: u8 = 2;

fn settings(locality_buffers: usize) -> Settings {
    Settings {
        locality_buffers,
        manner: |kind| Manner {
            about: match kind {
                PREFIX => About::Prefix,
                _ => About::Word,
            },
            soft: false,
        },
        ..second_chances()
    }
}

fn shell(locality_buffers: usize) -> Shell {
    Shell::new(64 * MIB, settings(locality_buffers))
}

fn put_since(shell: &mut Shell, server: u64, key: &str, body: &[u8], began: Sequence) -> Outcome {
    let hash = shell.hash(key.as_bytes());
    shell.put_record(&NewRecord {
        hash,
        primary: hash,
        key: key.as_bytes(),
        meta: b"tagged",
        body: &[body],
        fragment: None,
        total: None,
        began,
        server,
    })
}

/// Of `kib` kibibytes in all, about.
fn put(shell: &mut Shell, server: u64, key: &str, kib: usize) {
    let body = body(server, key.len() as u64, (kib << 10) - 200);
    let began = shell.store.sequence();
    assert_eq!(put_since(shell, server, key, &body, began), Outcome::Stored);
}

fn waits(shell: &Shell) -> u64 {
    shell.store.figures().gathered_bytes
}

fn is_buffered(shell: &Shell, key: &str) -> bool {
    let hash = shell.hash(key.as_bytes());
    matches!(shell.store.look_up(hash), Lookup::Buffered(_))
}

/// Keys in the order in which they lie on the disk.
fn order(shell: &Shell, keys: &[&str]) -> Vec<String> {
    let mut places: Vec<(u64, String)> = keys
        .iter()
        .map(|key| {
            let read = shell.read(key.as_bytes());
            let at = (read.offset, key.to_string());
            assert!(shell.store.read_done(read));
            at
        })
        .collect();
    places.sort();
    places.into_iter().map(|(_, key)| key).collect()
}

fn is_on_disk(shell: &Shell, text: &[u8]) -> bool {
    shell.disk.windows(text.len()).any(|bytes| bytes == text)
}

#[test]
fn records_of_a_server_come_to_lie_side_by_side() {
    let keys = ["a1", "b1", "a2", "b2", "a3", "b3"];
    let store = |buffers: usize| {
        let mut shell = shell(buffers);
        for key in keys {
            put(&mut shell, u64::from(key.as_bytes()[0]), key, 4);
        }
        shell.settle();
        shell.store.audit().unwrap();
        let writes = shell.store.figures().writes;
        (shell, writes)
    };
    let (without, _) = store(0);
    assert_eq!(order(&without, &keys), keys);
    let (with, writes) = store(8);
    assert_eq!(order(&with, &keys), ["a1", "a2", "a3", "b1", "b2", "b3"]);
    assert_eq!(writes, 1, "all in one cluster");
    let places: Vec<u64> = ["a1", "a2", "a3"]
        .map(|key| {
            let read = with.read(key.as_bytes());
            let offset = read.offset;
            assert!(with.store.read_done(read));
            offset
        })
        .to_vec();
    assert_eq!(
        [places[1] - places[0], places[2] - places[1]],
        [4096; 2],
        "in consecutive chunks"
    );
}

#[test]
fn what_waits_is_found_and_counted() {
    let mut shell = shell(8);
    put(&mut shell, 1, "a", 4);
    assert_eq!(waits(&shell), 4096);
    assert_eq!(shell.store.figures().records, 1);
    assert_eq!(shell.store.figures().inserts, 1);
    assert!(shell.store.contains(shell.hash(b"a")) && is_buffered(&shell, "a"));
    let waiting = shell.get(b"a").unwrap();
    assert_eq!(waiting.stored_unix_ms, shell.now_ms);
    assert!(shell.get(b"b").is_none());
    shell.store.audit().unwrap();
    shell.settle();
    assert_eq!(waits(&shell), 0);
    let written = shell.get(b"a").unwrap();
    assert!(!is_buffered(&shell, "a"));
    assert_eq!(
        (
            &written.body,
            &written.meta,
            written.began,
            written.stored_unix_ms
        ),
        (
            &waiting.body,
            &waiting.meta,
            waiting.began,
            waiting.stored_unix_ms
        )
    );
    assert_eq!(shell.store.figures().records, 1);
}

#[test]
fn what_is_long_or_of_no_server_does_not_wait() {
    let mut shell = shell(8);
    put(&mut shell, 1, "long", 65);
    put(&mut shell, 0, "nobody's", 4);
    assert_eq!(waits(&shell), 0);
    put(&mut shell, 1, "just", 64);
    assert_eq!(waits(&shell), 0, "full at once, and so emptied");
    assert!(
        ["long", "nobody's", "just"]
            .iter()
            .all(|key| is_buffered(&shell, key))
    );
    shell.settle();
    assert_eq!(
        order(&shell, &["long", "nobody's", "just"]),
        ["long", "nobody's", "just"]
    );
}

#[test]
fn an_invalidation_kills_what_waits() {
    let mut shell = shell(8);
    let began = shell.store.sequence();
    assert_eq!(
        put_since(&mut shell, 1, "a", b"a body of old", began),
        Outcome::Stored
    );
    assert!(shell.purge(b"a"), "it was there");
    assert!(!shell.store.contains(shell.hash(b"a")) && shell.get(b"a").is_none());
    assert_eq!(shell.store.figures().records, 0);
    assert_eq!(
        put_since(&mut shell, 1, "a", b"a body of old", began),
        Outcome::Invalidated,
        "its fill began before"
    );
    shell.store.audit().unwrap();
    shell.settle();
    assert!(shell.get(b"a").is_none());
    assert!(!is_on_disk(&shell, b"a body of old"), "not even written");
    put(&mut shell, 1, "a", 4);
    assert!(shell.get(b"a").is_some());
}

#[test]
fn a_predicate_kills_what_waits() {
    for (kind, pattern) in [(PREFIX, b"http://a/".as_slice()), (TAG, b"tagged")] {
        let mut shell = shell(8);
        let began = shell.store.sequence();
        let text = b"a body that a predicate is about";
        assert_eq!(
            put_since(&mut shell, 1, "http://a/1", text, began),
            Outcome::Stored
        );
        let handle = shell.store.invalidate_matching(kind, pattern).unwrap();
        shell.work();
        assert_eq!(shell.store.settled(handle), Settled::Durable);
        let hash = shell.hash(b"http://a/1");
        let Lookup::Buffered(bytes) = shell.store.look_up(hash) else {
            panic!("it is found when it is read, as ever");
        };
        assert!(shell.store.decode(&bytes, hash).is_err());
        // Nobody has read it: it goes when it would get its place.
        shell.settle();
        assert!(!shell.store.contains(hash) && !is_on_disk(&shell, text));
        assert_eq!(shell.store.figures().records, 0);
        shell.store.audit().unwrap();
    }
}

#[test]
fn what_does_not_verify_is_forgotten_while_it_waits() {
    let mut shell = shell(8);
    put(&mut shell, 1, "a", 4);
    shell.store.forget(shell.hash(b"a"));
    assert!(shell.get(b"a").is_none());
    shell.settle();
    assert!(shell.get(b"a").is_none());
    assert_eq!(shell.store.figures().writes, 0, "nothing is left to write");
}

#[test]
fn the_newer_one_replaces_what_waits() {
    let mut shell = shell(8);
    let began = shell.store.sequence();
    let (old, new) = (
        b"the old body of it".as_slice(),
        b"the new body of it".as_slice(),
    );
    assert_eq!(put_since(&mut shell, 1, "a", old, began), Outcome::Stored);
    assert_eq!(put_since(&mut shell, 1, "a", new, began), Outcome::Stored);
    assert_eq!(shell.get(b"a").unwrap().body, new);
    let figures = shell.store.figures();
    assert_eq!((figures.replaced, figures.records), (1, 1));
    shell.settle();
    assert_eq!(shell.get(b"a").unwrap().body, new);
    assert!(is_on_disk(&shell, new) && !is_on_disk(&shell, old));

    // One that waits replaces one on the disk at once, and is itself replaced by one that does not wait.
    let reader = shell.read(b"a");
    assert_eq!(put_since(&mut shell, 1, "a", old, began), Outcome::Stored);
    assert!(!shell.store.read_done(reader), "its reader is told");
    assert_eq!(shell.get(b"a").unwrap().body, old);
    let longer = body(7, 7, 70_000);
    assert_eq!(
        put_since(&mut shell, 1, "a", &longer, began),
        Outcome::Stored
    );
    assert_eq!(shell.get(b"a").unwrap().body, longer);
    shell.settle();
    assert_eq!(shell.get(b"a").unwrap().body, longer);
    assert_eq!(shell.store.figures().records, 1);
    shell.store.audit().unwrap();
}

#[test]
fn a_stop_in_order_writes_what_waits_and_a_crash_loses_it() {
    let mut shell = shell(8);
    put(&mut shell, 1, "a", 4);
    put(&mut shell, 2, "b", 4);
    shell.close();
    assert_eq!(shell.reopen().records, 2);
    assert!(shell.get(b"a").is_some() && shell.get(b"b").is_some());
    put(&mut shell, 1, "c", 4);
    shell.reopen();
    assert!(shell.get(b"a").is_some(), "written before");
    assert!(shell.get(b"c").is_none(), "a miss");
}

#[test]
fn what_got_its_place_late_is_newer_than_what_a_scan_finds() {
    let mut shell = shell(8);
    let began = shell.store.sequence();
    assert_eq!(
        put_since(&mut shell, 0, "a", b"first", began),
        Outcome::Stored
    );
    shell.settle();
    assert_eq!(
        put_since(&mut shell, 1, "a", b"second", began),
        Outcome::Stored
    );
    // Meanwhile many regions are opened and filled.
    for n in 0..500 {
        put(&mut shell, 0, &format!("other{n}"), 60);
        shell.complete_all();
    }
    assert!(waits(&shell) > 0);
    shell.settle();
    spoil_checkpoints(&mut shell);
    shell.reopen();
    assert_eq!(shell.get(b"a").unwrap().body, "second");
}

#[test]
fn what_waits_is_not_replaced_by_what_a_scan_finds() {
    let mut shell = shell(8);
    let began = shell.store.sequence();
    assert_eq!(
        put_since(&mut shell, 1, "a", b"first", began),
        Outcome::Stored
    );
    shell.settle();
    spoil_checkpoints(&mut shell);
    shell.reopen_without_scan();
    let began = shell.store.sequence();
    shell.by_hand = true;
    assert!(shell.store.recovery().is_some());
    assert_eq!(
        put_since(&mut shell, 1, "a", b"second", began),
        Outcome::Stored
    );
    shell.by_hand = false;
    shell.work();
    assert_eq!(shell.store.recovery(), None);
    assert_eq!(shell.get(b"a").unwrap().body, "second");
    shell.store.audit().unwrap();
    shell.settle();
    assert_eq!(shell.get(b"a").unwrap().body, "second");
}

#[test]
fn the_server_unused_for_longest_makes_way() {
    let mut shell = shell(2);
    put(&mut shell, 1, "a1", 4);
    put(&mut shell, 2, "b1", 4);
    put(&mut shell, 1, "a2", 4);
    assert_eq!(waits(&shell), 3 * 4096);
    put(&mut shell, 3, "c1", 4);
    assert_eq!(waits(&shell), 3 * 4096, "b1 has gone to the cluster");
    assert!(is_buffered(&shell, "b1"), "and is still found");
    put(&mut shell, 1, "a3", 4);
    shell.settle();
    let keys = ["a1", "b1", "a2", "c1", "a3"];
    assert_eq!(order(&shell, &keys), ["b1", "a1", "a2", "a3", "c1"]);
}

#[test]
fn a_full_buffer_is_emptied_into_the_cluster() {
    let mut shell = shell(8);
    for n in 0..15 {
        put(&mut shell, 1, &format!("a{n}"), 4);
    }
    put(&mut shell, 2, "b", 4);
    assert_eq!(waits(&shell), 16 * 4096);
    put(&mut shell, 1, "a15", 4);
    assert_eq!(waits(&shell), 4096, "of b");
    assert!(shell.pending.is_empty(), "the cluster has room for more");
    put(&mut shell, 1, "a16", 40);
    put(&mut shell, 1, "a17", 40);
    assert_eq!(
        waits(&shell),
        44 * 1024,
        "what does not fit beside others empties them"
    );
    shell.settle();
    shell.store.audit().unwrap();
}

#[test]
fn what_the_cluster_has_no_room_for_goes_to_the_next() {
    let settings = Settings {
        cluster_bytes: 64 << 10,
        ..settings(8)
    };
    let mut shell = Shell::new(64 * MIB, settings);
    put(&mut shell, 0, "front", 32);
    for n in 0..16 {
        put(&mut shell, 1, &format!("a{n}"), 4);
    }
    assert_eq!(waits(&shell), 0);
    assert_eq!(
        shell.pending.len(),
        1,
        "the first cluster is full, the rest is in the second"
    );
    shell.complete_all();
    assert!(!is_buffered(&shell, "a7") && is_buffered(&shell, "a8"));
    shell.settle();
    shell.store.audit().unwrap();
}

#[test]
fn a_buffer_waits_no_longer_than_the_deadline_and_its_cluster_as_long_again() {
    let mut shell = shell(8);
    let start = shell.now_ms;
    put(&mut shell, 1, "a", 4);
    assert!(shell.store.tick(start + 999).is_empty());
    assert_eq!(waits(&shell), 4096);
    assert!(shell.store.tick(start + 1000).is_empty());
    assert_eq!(waits(&shell), 0, "in the cluster");
    assert!(shell.store.tick(start + 1999).is_empty());
    let writes: Vec<_> = shell.store.tick(start + 2000).into_iter().collect();
    assert_eq!((writes.len(), writes[0].data.len()), (1, 4096));
}

#[test]
fn while_the_device_is_behind_nothing_more_is_gathered() {
    let settings = Settings {
        cluster_bytes: 64 << 10,
        ..settings(8)
    };
    let mut shell = Shell::new(64 * MIB, settings);
    let mut outcome = Outcome::Stored;
    let mut number = 0;
    while outcome == Outcome::Stored && number < 4000 {
        number += 1;
        let bytes = body(number, 1, 7_000);
        let began = shell.store.sequence();
        outcome = put_since(&mut shell, number % 9, &number.to_string(), &bytes, began);
    }
    assert_eq!(outcome, Outcome::Behind);
    let flying: usize = shell.pending.iter().map(|write| write.data.len()).sum();
    let held = flying as u64 + waits(&shell);
    assert!(waits(&shell) > 0 && held < 8 * MIB + (64 << 10), "{held}");
    // What is overdue may fill the open cluster, which makes a little room for more; the sum stays.
    let writes: Vec<_> = shell.store.tick(shell.now_ms + 5000).into_iter().collect();
    let more: usize = writes.iter().map(|write| write.data.len()).sum();
    let held = (flying + more) as u64 + waits(&shell);
    assert!(held < 8 * MIB + (64 << 10), "{held}");
    shell.pending.extend(writes);
    shell.complete_all();
    shell.store.audit().unwrap();
    put(&mut shell, 1, "again", 4);
    shell.settle();
    assert_eq!(waits(&shell), 0);
    assert!(shell.get(b"again").is_some() && shell.get(b"8").is_some());
}

/// What waits has no place, so it is not among what is known to be newer than a predicate that everything on the disk is newer than.
#[test]
fn what_waits_does_not_outlive_the_predicate_that_is_about_it() {
    let mut shell = Shell::new(4 * MIB, settings(8));
    let fill = |shell: &mut Shell| {
        for n in 0..100 {
            put(shell, 0, &format!("other{n}"), 60);
            shell.complete_all();
        }
    };
    fill(&mut shell);
    put(&mut shell, 1, "a", 4);
    let handle = shell.store.invalidate_matching(PREFIX, b"a").unwrap();
    shell.work();
    assert_eq!(shell.store.settled(handle), Settled::Durable);
    fill(&mut shell);
    assert!(waits(&shell) > 0, "nothing was emptied meanwhile");
    assert!(shell.get(b"a").is_none());
    shell.store.audit().unwrap();
    put(&mut shell, 1, "at last", 4);
    shell.settle();
    assert!(shell.get(b"a").is_none() && shell.get(b"at last").is_some());
    assert_eq!(waits(&shell), 0);
    shell.store.audit().unwrap();
}

/// After three rounds over a store of 64 MiB, objects of 500 servers: records kept, and the mean write.
fn kept_with(locality_buffers: usize) -> (u64, u64) {
    let mut shell = shell(locality_buffers);
    let mut random = Random(5);
    let mut bytes = 0;
    let mut number = 0u64;
    while bytes < 3 * 64 * MIB {
        let len = if random.one_in(20) {
            random.below(120_000)
        } else {
            random.below(16_000)
        };
        number += 1;
        let key = number.to_le_bytes();
        let hash = shell.hash(&key);
        let record = NewRecord {
            hash,
            primary: hash,
            key: &key,
            meta: b"",
            body: &[&body(number, 1, len as usize)],
            fragment: None,
            total: None,
            began: shell.store.sequence(),
            server: random.below(500).min(random.below(500)),
        };
        assert_eq!(shell.put_record(&record), Outcome::Stored);
        shell.complete_all();
        bytes += len;
    }
    shell.store.audit().unwrap();
    let figures = shell.store.figures();
    (figures.records, figures.write_bytes / figures.writes)
}

#[test]
fn locality_buffers_cost_neither_room_nor_long_writes() {
    let (without, mean_without) = kept_with(0);
    for buffers in [8, 32] {
        let (with, mean_with) = kept_with(buffers);
        assert!(
            with * 100 >= without * 97,
            "{with} records kept, {without} without"
        );
        assert!(
            mean_with * 100 >= mean_without * 97,
            "writes of {mean_with} bytes, {mean_without} without"
        );
    }
}
