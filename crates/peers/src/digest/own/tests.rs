//! Our digest compared with the index. Markers are entries like all others, and need no device.

use super::*;
use store::{Geometry, Identity, KeyHash, NOTES_MAX, Settings, Tracing};

fn set() -> Set {
    let geometry = Geometry::plan(64 << 20, 512).unwrap();
    let identity = Identity::new([7; Identity::RANDOM_BYTES]);
    Set::of_one(Arc::new(Store::create(
        geometry,
        &Settings::default(),
        identity,
    )))
}

fn plan(bits_per_object: u8, squid: bool) -> plan::Digests {
    plan::Digests {
        bits_per_object,
        squid,
        ..plan::Digests::default()
    }
}

fn key(number: u64) -> Vec<u8> {
    format!("GET http://x/{number}").into_bytes()
}

fn hash(set: &Set, number: u64) -> KeyHash {
    set.hasher().hash(&key(number))
}

fn put(set: &Set, number: u64) {
    let hash = hash(set, number);
    (set.set_marker(hash, b"accept", set.sequence(hash))).expect("there is room for a marker");
}

fn remove(set: &Set, number: u64) {
    let _ = set.invalidate(hash(set, number));
}

/// Works until the digest is complete and has collected once after that. Returns how often it began anew.
fn work(own: &Own) -> u64 {
    let begun_anew = AtomicU64::new(0);
    for _ in 0..10_000 {
        if own.work(&begun_anew) == COLLECTED_EVERY {
            own.work(&begun_anew);
            return begun_anew.into_inner();
        }
    }
    panic!("it is never whole");
}

fn has(digest: &Digest, number: u64) -> bool {
    digest.may_have(|IndexShape { shards, segments }| {
        let seed = digest.seed;
        Tracing {
            seed,
            shards,
            segments,
        }
        .trace(&key(number))
    })
}

fn read(own: &Own) -> Digest {
    *own.made.lock().unwrap() = Default::default();
    Digest::decode(&own.encode(Instant::now(), 5)).unwrap()
}

/// SplitMix64.
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[test]
fn at_rest_whatever_is_in_the_index_is_in_the_digest() {
    for seed in 0..4 {
        println!("seed {seed}");
        let mut state = seed;
        let set = set();
        let own = Own::new(&set, &plan(10, false)).unwrap();
        let mut twin = std::collections::BTreeSet::new();
        let mut begun_anew = AtomicU64::new(0);
        for _ in 0..20_000 {
            let number = random(&mut state) % 2000;
            match random(&mut state) % 10 {
                0 => drop(own.work(&begun_anew)),
                1..5 => {
                    remove(&set, number);
                    twin.remove(&number);
                }
                _ => {
                    put(&set, number);
                    twin.insert(number);
                }
            }
        }
        work(&own);
        let digest = read(&own);
        for number in &twin {
            // There is limited room for markers, and the oldest are removed.
            if set.marker(hash(&set, *number)).is_some() {
                assert!(has(&digest, *number), "{number} is in the index");
            }
        }
        assert!(twin.len() > 500);
        assert_eq!(digest.traces(), set.of(KeyHash(0)).figures().markers);
        let false_hits = (10_000..20_000).filter(|n| has(&digest, *n)).count();
        assert!(false_hits < 200, "{false_hits} of 10,000");
        assert_eq!(*begun_anew.get_mut(), 0);
    }
}

#[test]
fn lost_changes_make_it_begin_anew_and_the_one_before_is_served_meanwhile() {
    let set = set();
    let own = Own::new(&set, &plan(10, false)).unwrap();
    put(&set, 1);
    assert_eq!(work(&own), 0);
    let tracing = set.of(KeyHash(0)).tracing();
    // More than all segments together can record.
    for _ in 0..NOTES_MAX {
        put(&set, 2);
        remove(&set, 2);
    }
    put(&set, 3);
    let begun_anew = AtomicU64::new(0);
    own.work(&begun_anew);
    assert_eq!(begun_anew.load(Ordering::Relaxed), 1, "{tracing:?}");
    assert!(has(&read(&own), 1), "the one before");
    assert_eq!(work(&own), 0);
    let digest = read(&own);
    assert!(has(&digest, 1) && has(&digest, 3) && !has(&digest, 2));
    assert_eq!((digest.traces(), has(&digest, 4)), (2, false));
}

#[test]
fn with_more_entries_than_thought_it_grows() {
    let set = set();
    let own = Own::new(&set, &plan(10, false)).unwrap();
    let bits = || read(&own).filters[0].bits.shape().bits();
    let (before, planned) = (bits(), own.stores()[0].planned);
    let mut entries = 0;
    while entries <= 2 * planned {
        put(&set, entries);
        entries += 1;
        if entries % 500 == 0 {
            work(&own);
        }
    }
    work(&own);
    let traces = read(&own).traces();
    assert!(traces > 2 * planned, "{traces} markers fit, of {planned}");
    assert!(bits() > before);
}

#[test]
fn what_was_made_is_kept_for_a_while() {
    let set = set();
    let own = Own::new(&set, &plan(10, false)).unwrap();
    work(&own);
    let now = Instant::now();
    let first = own.encode(now, 5);
    put(&set, 1);
    work(&own);
    assert_eq!(own.encode(now + KEPT_FOR / 2, 6), first);
    assert_ne!(own.encode(now + KEPT_FOR, 7), first);
}

#[test]
fn a_squid_reads_what_was_stored() {
    let set = set();
    let own = Own::new(&set, &plan(10, true)).unwrap();
    own.met(b"http://x/1", Some(1000));
    own.met(b"http://x/2", None);
    let digest = squid::SquidDigest::decode(&own.encode_squid(Instant::now()).unwrap()).unwrap();
    assert!(digest.may_have(b"http://x/1") && digest.may_have(b"http://x/2"));
    assert!(!digest.may_have(b"http://x/3"));
    let without = Own::new(&set, &plan(10, false)).unwrap();
    assert!(without.encode_squid(Instant::now()).is_none());
}

#[test]
fn a_digest_that_would_be_too_large_is_refused() {
    // Only planned, not created: 4 TiB.
    let geometry = Geometry::plan(4 << 40, 4096).unwrap();
    let objects = geometry.data_bytes() / MEAN_OBJECT_BYTES;
    assert!(is_too_large(objects, 4));
    assert!(is_too_large(BITS_MAX / 4 + 1, 4) && !is_too_large(BITS_MAX / 4, 4));
    assert!(squid::Size::new(objects, SQUID_BITS_PER_OBJECT).is_none());
}
