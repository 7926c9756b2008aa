//! Prefetched entries.

use super::*;
use httpcache::{Standing, StandingFlags};

/// Room for so many objects of a kilobyte in each shard.
const EACH_SHARD: u64 = 32;
const BODY_BYTES: usize = 1024;

/// An object of shard 0.
fn object(n: u64) -> Object {
    Object {
        key: n.to_string().into(),
        hash: KeyHash(n),
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
        head: bytes::Bytes::from_static(b"HTTP/1.1 200 OK\r\n"),
        body: vec![0; BODY_BYTES].into(),
        large: None,
    }
}

fn tier() -> MemoryTier {
    let each = object(10_000).memory_bytes();
    MemoryTier::new(SHARDS as u64 * EACH_SHARD * each, u64::MAX)
}

fn is_here(tier: &MemoryTier, n: u64) -> bool {
    tier.shard(KeyHash(n)).find(KeyHash(n)).is_some()
}

fn ask(tier: &MemoryTier, n: u64) -> bool {
    tier.get(KeyHash(n), n.to_string().as_bytes()).is_some()
}

fn count(tier: &MemoryTier, numbers: std::ops::Range<u64>) -> usize {
    numbers.filter(|&n| is_here(tier, n)).count()
}

#[test]
fn prefetched_nobody_asks_for_push_out_only_a_quarter() {
    let tier = tier();
    (0..EACH_SHARD).for_each(|n| assert!(tier.insert(object(n), |_| true)));
    (1000..2000).for_each(|n| tier.take_along(object(n), |_| true));
    assert_eq!(count(&tier, 0..EACH_SHARD), EACH_SHARD as usize * 3 / 4);
    assert_eq!(count(&tier, 1000..2000), EACH_SHARD as usize / 4);
    assert!(is_here(&tier, 1999) && !is_here(&tier, 1000));
    assert!(tier.bytes() <= tier.bytes_max());
    // While nothing else is there, they may use all of the room.
    let empty = self::tier();
    (1000..2000).for_each(|n| empty.take_along(object(n), |_| true));
    assert!(count(&empty, 1000..2000) >= EACH_SHARD as usize / 4);
}

#[test]
fn a_prefetched_entry_that_is_asked_for_stays_as_any_other() {
    let tier = tier();
    (0..EACH_SHARD).for_each(|n| assert!(tier.insert(object(n), |_| true)));
    tier.take_along(object(1000), |_| true);
    assert!(ask(&tier, 1000));
    (2000..2100).for_each(|n| tier.take_along(object(n), |_| true));
    assert!(is_here(&tier, 1000));
    // A used object evicts prefetched entries only if there are too many of them, else the least recently used
    // object.
    let before = count(&tier, 2000..2100);
    (3000..3004).for_each(|n| assert!(tier.insert(object(n), |_| true)));
    assert_eq!(count(&tier, 2000..2100), before);
    assert_eq!(count(&tier, 3000..3004), 4);
}

#[test]
fn what_each_is_charged_is_given_back() {
    let tier = tier();
    for n in 0..10 {
        tier.take_along(object(n), |_| true);
    }
    assert!(ask(&tier, 3));
    tier.take_along(object(3), |_| true);
    assert_eq!(
        tier.shard(KeyHash(0)).prefetched_bytes,
        9 * object(0).memory_bytes()
    );
    (0..10).for_each(|n| assert!(tier.remove(KeyHash(n))));
    let shard = tier.shard(KeyHash(0));
    assert_eq!(
        (shard.prefetched_bytes, shard.bytes, tier.bytes()),
        (0, 0, 0)
    );
    assert!(shard.prefetched.is_empty() && shard.lru.is_empty());
}

/// Does a tier full of small objects take one that is as large as `size` of them?
fn takes(burst_max: Option<usize>, size: usize) -> bool {
    let tier = tier().with_burst(burst_max);
    for n in 0..EACH_SHARD {
        assert!(tier.insert(object(n), |_| true));
    }
    let mut large = object(EACH_SHARD);
    let beside = large.memory_bytes() as usize - BODY_BYTES;
    large.body = vec![0; size * (BODY_BYTES + beside) - beside].into();
    tier.insert(large, |_| true)
}

#[test]
fn a_newcomer_drives_out_as_many_as_the_burst_allows() {
    assert!(takes(Some(3), 3));
    assert!(!takes(Some(2), 3));
    assert!(takes(None, 3));
}

#[test]
fn where_there_is_room_the_burst_does_not_matter() {
    let tier = tier().with_burst(Some(0));
    assert!((0..EACH_SHARD).all(|n| tier.insert(object(n), |_| true)));
    assert!(!tier.insert(object(EACH_SHARD), |_| true));
    assert_eq!((tier.evicted(), tier.burst_refused()), (0, 1));
}

#[test]
fn a_refused_version_takes_the_one_before_with_it() {
    let tier = tier().with_burst(Some(0));
    (0..EACH_SHARD).for_each(|n| assert!(tier.insert(object(n), |_| true)));
    let mut longer = object(3);
    longer.body = vec![0; 2 * BODY_BYTES].into();
    assert!(!tier.insert(longer, |_| true));
    assert!(!is_here(&tier, 3));
}

#[test]
fn a_smaller_tier_gives_up_a_bounded_number_at_a_time_and_a_larger_one_takes_more_at_once() {
    let each = object(10_000).memory_bytes();
    let many = 3 * SWEPT_AT_ONCE as u64;
    let of = |objects: u64| SHARDS as u64 * objects * each;
    let tier = MemoryTier::new(of(many), u64::MAX);
    // Of one length, and all of shard 0.
    let numbers = 10_000..10_000 + many;
    numbers
        .clone()
        .for_each(|n| assert!(tier.insert(object(n), |_| true)));
    tier.resize(of(many / 2), u64::MAX);
    assert_eq!(tier.bytes_max(), of(many / 2));
    // What comes meanwhile takes the place of one, and does not drive out all that is too much.
    assert!(tier.insert(object(20_000), |_| true));
    assert!(tier.objects() >= many - 1);
    let (mut steps, mut before) = (0, tier.objects());
    while tier.shrink() {
        steps += 1;
        assert!(before - tier.objects() <= SWEPT_AT_ONCE as u64);
        before = tier.objects();
        assert!(steps < 100, "it never ends");
    }
    assert!(tier.objects() <= many / 2 + 1 && tier.objects() > many / 2 - 2);
    assert!(is_here(&tier, 20_000), "the coldest went");
    tier.resize(of(many), u64::MAX);
    numbers.for_each(|n| assert!(tier.insert(object(n), |_| true)));
    assert!(tier.objects() >= many - 1);
    tier.resize(0, u64::MAX);
    while tier.shrink() {}
    assert_eq!((tier.objects(), tier.bytes()), (0, 0));
    assert!(!tier.insert(object(1), |_| true));
}
