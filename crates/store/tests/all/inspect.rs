//! A store looked at from outside says what the store itself would, and asks for no write.

use crate::common::{MIB, Random, Shell, body};
use bytes::Bytes;
use store::{
    Corrupt, Found, HEADER_BYTES, Inspection, OpenPlan, Peek, Place, Settings, Summary, Superblock,
};

fn inspect(shell: &Shell, settings: &Settings) -> (Inspection, Summary) {
    let OpenPlan::Recover {
        superblock,
        checkpoint,
    } = OpenPlan::of(&shell.disk[..Superblock::BYTES], shell.store.geometry())
    else {
        panic!("not a store");
    };
    let area =
        |at: u64, len: usize| Some(Bytes::copy_from_slice(&shell.disk[at as usize..][..len]));
    let [log, journal] = superblock.geometry.logs();
    let found = Found {
        log: area(log.0, log.1),
        journal: area(journal.0, journal.1),
        checkpoint: checkpoint.and_then(|at| area(at.offset, at.bytes as usize)),
    };
    let summary = Summary::of(&superblock, &found);
    let inspection = Inspection::of(superblock, &found, settings);
    while let Some(read) = inspection.next_read() {
        let bytes = area(read.offset, read.len);
        inspection.read_done(read, bytes);
    }
    assert_eq!(inspection.recovery(), None);
    (inspection, summary)
}

fn bytes(shell: &Shell, inspection: &Inspection, place: Place, len: usize) -> Bytes {
    let at = inspection.offset(place) as usize;
    Bytes::copy_from_slice(&shell.disk[at..at + len])
}

/// Keys in the order of their places; all whole.
fn keys(shell: &Shell, inspection: &Inspection) -> Vec<Vec<u8>> {
    let places = inspection.places();
    assert!(places.is_sorted());
    let key = |&place: &Place| {
        let whole = bytes(shell, inspection, place, inspection.len(place));
        let (hash, parts) = inspection.decode(place, &whole).unwrap();
        assert_eq!(inspection.find(hash), Some(place));
        let Ok(Peek::Head(head)) = inspection.peek(place, &whole) else {
            panic!("a whole record has a head");
        };
        assert_eq!(
            (&head.key, &head.meta, head.hash),
            (&parts.key, &parts.meta, hash)
        );
        assert_eq!(head.body_bytes, parts.body.len() as u64);
        parts.key.to_vec()
    };
    places.iter().map(key).collect()
}

fn filled(cleanly: bool, mut shell: Shell) -> Shell {
    let mut random = Random(3);
    for n in 0..1500u64 {
        let len = 100 + random.below(9000) as usize;
        let _ = shell.put(format!("key{n}").as_bytes(), &body(n, 0, len));
        shell.complete_all();
    }
    shell.purge(b"key1499");
    shell.settle();
    if cleanly {
        shell.close();
    }
    shell
}

fn agrees(mut shell: Shell) {
    // Whatever policy the store was left with: the inspection is told none.
    let (inspection, summary) = inspect(&shell, &Settings::default());
    inspection.audit().unwrap();
    let found = keys(&shell, &inspection);
    assert!(found.len() > 300, "{}", found.len());
    assert!(!found.contains(&b"key1499".to_vec()));
    let mut in_order = found.clone();
    in_order.sort_unstable();
    shell.reopen();
    // A start sweeps to make room; what it has is a part of what there was.
    for n in 0..1500u64 {
        let key = format!("key{n}").into_bytes();
        assert!(
            shell.get(&key).is_none() || in_order.binary_search(&key).is_ok(),
            "{n}"
        );
    }
    assert_eq!(summary.log.unwrap().keys, 1);
    assert!(summary.checkpoint.is_some_and(|read| read.is_ok()));
}

#[test]
fn it_finds_what_the_store_has() {
    for cleanly in [true, false] {
        agrees(filled(cleanly, Shell::small()));
        agrees(filled(cleanly, Shell::lru()));
    }
}

#[test]
fn what_was_purged_by_a_predicate_is_no_damage() {
    let mut shell = Shell::small();
    shell.put(b"a/1", b"1");
    shell.put(b"b/1", b"1");
    shell.settle();
    let handle = shell.store.invalidate_matching(1, b"a/").unwrap();
    shell.close();
    assert_eq!(shell.store.settled(handle), store::Settled::Durable);
    let (inspection, summary) = inspect(&shell, &Settings::default());
    let places = inspection.places();
    let decoded = places.iter().map(|&place| {
        let whole = bytes(&shell, &inspection, place, inspection.len(place));
        let peeked = inspection.peek(place, &whole).map(|_| ());
        let decoded = inspection.decode(place, &whole).map(|_| ());
        assert_eq!(peeked, decoded);
        decoded
    });
    assert_eq!(
        decoded.collect::<Vec<_>>(),
        [Err(Corrupt::Invalidated), Ok(())]
    );
    assert_eq!(summary.log.unwrap().matching.get(&1), Some(&1));
}

#[test]
fn any_bytes_are_an_answer() {
    let mut shell = Shell::new(8 * MIB, Settings::default());
    shell.put(b"key", &body(1, 1, 3000));
    shell.close();
    let (inspection, _) = inspect(&shell, &Settings::default());
    let place = inspection.places()[0];
    let whole = bytes(&shell, &inspection, place, inspection.len(place));
    for len in 0..whole.len().min(300) {
        let start = whole.slice(..len);
        assert!(inspection.decode(place, &start).is_err());
        match inspection.peek(place, &start) {
            Ok(Peek::Head(_)) => assert!(len >= HEADER_BYTES + 7),
            Ok(Peek::Needs(needed)) => assert!(len >= HEADER_BYTES && needed == HEADER_BYTES + 7),
            Err(_) => assert!(len < HEADER_BYTES),
        }
    }
    for at in 0..whole.len() {
        let mut changed = whole.to_vec();
        changed[at] ^= 0x10;
        let changed = Bytes::from(changed);
        assert!(inspection.decode(place, &changed).is_err(), "{at}");
        let _ = inspection.peek(place, &changed);
    }
    assert!(inspection.decode(place, &whole).is_ok());
}
