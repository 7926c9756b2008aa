//! Prefetched entries.

use super::*;
use crate::predicate::{About, Predicate};
use httpcache::{Standing, StandingFlags};

/// How many objects of a kilobyte fit into each shard.
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
    MemoryTier::new(EACH_SHARD * each, u64::MAX)
}

/// Takes in an object as a companion.
fn take_along(tier: &MemoryTier, n: u64) {
    // Each of another server: whether they pay is no matter here.
    let came = tier.companions.may_come(KeyHash(n << 32)).unwrap();
    tier.take_along(object(n), came, |_| true);
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
    (1000..2000).for_each(|n| take_along(&tier, n));
    assert_eq!(count(&tier, 0..EACH_SHARD), EACH_SHARD as usize * 3 / 4);
    assert_eq!(count(&tier, 1000..2000), EACH_SHARD as usize / 4);
    assert!(is_here(&tier, 1999) && !is_here(&tier, 1000));
    assert!(tier.bytes() <= tier.bytes_max());
    // While nothing else is there, they may use all of the room.
    let empty = self::tier();
    (1000..2000).for_each(|n| take_along(&empty, n));
    assert!(count(&empty, 1000..2000) >= EACH_SHARD as usize / 4);
}

#[test]
fn a_prefetched_entry_that_is_asked_for_stays_as_any_other() {
    let tier = tier();
    (0..EACH_SHARD).for_each(|n| assert!(tier.insert(object(n), |_| true)));
    take_along(&tier, 1000);
    assert!(ask(&tier, 1000));
    (2000..2100).for_each(|n| take_along(&tier, n));
    assert!(is_here(&tier, 1000));
    // A used object evicts prefetched entries only if there are too many of them, else the least recently used
    // object.
    let before = count(&tier, 2000..2100);
    (3000..3004).for_each(|n| assert!(tier.insert(object(n), |_| true)));
    assert_eq!(count(&tier, 2000..2100), before);
    assert_eq!(count(&tier, 3000..3004), 4);
}

#[test]
fn a_companion_counts_when_it_comes_and_when_it_is_first_asked_for() {
    let tier = tier();
    let counts = || {
        let companions = &tier.companions;
        (companions.brought_count(), companions.asked_count())
    };
    (0..3).for_each(|n| take_along(&tier, n));
    // It is there already.
    take_along(&tier, 2);
    assert_eq!(counts(), (3, 0));
    assert!(ask(&tier, 1) && ask(&tier, 1));
    assert!(tier.insert(object(7), |_| true) && ask(&tier, 7));
    assert_eq!(counts(), (3, 1));
    // A companion that is replaced before it is asked for does not count as asked for.
    assert!(tier.insert(object(2), |_| true) && ask(&tier, 2));
    assert_eq!(counts(), (3, 1));
}

#[test]
fn what_each_is_charged_is_given_back() {
    let tier = tier();
    for n in 0..10 {
        take_along(&tier, n);
    }
    assert!(ask(&tier, 3));
    take_along(&tier, 3);
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
    assert!(shard.prefetched.is_empty() && shard.used.is_empty());
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
    let of = |objects: u64| objects * each;
    let tier = MemoryTier::new(of(many), u64::MAX);
    // Of one length, and all of shard 0.
    let numbers = 10_000..10_000 + many;
    numbers
        .clone()
        .for_each(|n| assert!(tier.insert(object(n), |_| true)));
    tier.resize(of(many / 2), u64::MAX);
    assert_eq!(tier.bytes_max(), of(many / 2));
    // An object that is inserted meanwhile evicts one object, not all that exceed the smaller bound.
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

/// Tags and prefixes as a purge names them.
fn purge(tier: &MemoryTier, about: &str, soft: bool) {
    let about = match about.strip_prefix("tag ") {
        Some(tag) => About::Tag(tag.into()),
        None => About::Prefix(about.into()),
    };
    let (kind, pattern) = Predicate { about, soft }.encode();
    tier.purge(kind, &pattern, UnixMillis(1000));
}

/// An object whose key is its number, with one tag.
fn tagged(n: u64, tag: &str) -> Object {
    Object {
        head: format!("HTTP/1.1 200 OK\r\nSurrogate-Key: x {tag}\r\n").into(),
        ..object(n)
    }
}

/// Of how many objects the tiers of these tests are.
const MANY: u64 = 20 * SWEPT_AT_ONCE as u64;

/// A tier with many objects in all shards, every other one with the tag `even`.
fn many() -> MemoryTier {
    let tier = MemoryTier::new(1 << 30, u64::MAX);
    for n in 0..MANY {
        let tag = if n % 2 == 0 { "even" } else { "odd" };
        let hash = KeyHash(n << 40 | n);
        let (key, primary) = (n.to_string().into(), hash);
        let object = Object {
            key,
            hash,
            primary,
            body: bytes::Bytes::new(),
            ..tagged(n, tag)
        };
        assert!(tier.insert(object, |_| true));
    }
    tier
}

fn look(tier: &MemoryTier, front: &mut Front, n: u64) -> Option<u32> {
    let hash = KeyHash(n << 40 | n);
    let found = front.look_up(tier, hash, n.to_string().as_bytes());
    found.ok().map(|it| it.object.standing.lifetime_s)
}

#[test]
fn a_purge_by_tag_or_prefix_looks_at_few_objects_and_holds_for_all_at_once() {
    let (tier, mut front) = (many(), Front::new());
    let last = MANY - 2;
    // In the front, and in use.
    assert!(look(&tier, &mut front, last).is_some());
    assert!(look(&tier, &mut front, 11).is_some());
    purge(&tier, "tag EVEN", false);
    let taken = MANY - tier.objects();
    assert!(taken <= SWEPT_AT_ONCE as u64, "{taken} were looked for");
    for n in [last, 0, 2, MANY / 2] {
        assert_eq!(look(&tier, &mut front, n), None, "{n}");
        assert!(
            tier.peek(KeyHash(n << 40 | n), n.to_string().as_bytes())
                .is_none()
        );
    }
    for n in [11, 1, MANY - 1] {
        assert_eq!(look(&tier, &mut front, n), Some(60), "{n}");
    }
    purge(&tier, "11", true);
    assert_eq!(look(&tier, &mut front, 11), Some(0), "stale");
    assert_eq!(look(&tier, &mut front, 1101), Some(0), "stale, too");
    assert_eq!(look(&tier, &mut front, 21), Some(60));
    purge(&tier, "", false);
    assert_eq!(look(&tier, &mut front, 21), None);
    // A purge does not match objects that were inserted after it.
    assert!(tier.insert(tagged(7, "even"), |_| true));
    assert!(ask(&tier, 7));
    while tier.weed() {}
    assert!(ask(&tier, 7));
    assert_eq!(tier.objects(), 1, "what was purged is gone");
}

#[test]
fn purges_by_pattern_do_not_pile_up() {
    let tier = many();
    let slices = (MANY / SWEPT_AT_ONCE as u64) as usize;
    for n in 0..10 * slices {
        purge(&tier, &format!("tag t{n}"), n % 2 == 0);
        assert!(tier.purged.len() <= 2 * slices + 2, "after {n}");
    }
    assert_eq!(tier.objects(), MANY);
    while tier.weed() {}
    assert_eq!(tier.purged.len(), 0);
}

#[test]
fn a_soft_purge_of_a_resource_makes_its_variants_stale() {
    let (tier, mut front) = (many(), Front::new());
    let primary = KeyHash(9 << 40 | 9);
    let variant = Object {
        key: "9 de".into(),
        hash: KeyHash(77),
        primary,
        ..object(77)
    };
    assert!(tier.insert(variant, |_| true));
    tier.doubt_variants(primary, UnixMillis(1000));
    let found = tier.get(KeyHash(77), b"9 de").unwrap();
    assert_eq!(found.object.standing.lifetime_s, 0);
    assert_eq!(look(&tier, &mut front, 9), Some(0));
    assert_eq!(look(&tier, &mut front, 8), Some(60));
}

#[test]
fn one_that_is_made_stale_by_itself_is_still_compared_with_purges_before() {
    let (tier, mut front) = (many(), Front::new());
    let n = MANY - 2;
    purge(&tier, "tag even", false);
    assert!(tier.doubt(KeyHash(n << 40 | n), UnixMillis(1000)));
    assert_eq!(look(&tier, &mut front, n), None);
}

/// An object of this hash, which says its shard, and this length in all.
fn long(hash: u64, bytes: u64) -> Object {
    let mut long = object(hash);
    let beside = long.memory_bytes() - BODY_BYTES as u64;
    long.body = vec![0; (bytes - beside) as usize].into();
    assert_eq!(long.memory_bytes(), bytes);
    long
}

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

#[test]
fn of_little_memory_an_object_may_have_an_eighth() {
    for (memory, longest, admitted, shards) in [
        (MIB, MIB, 128 * KIB, 1),
        (8 * MIB, MIB, MIB, 1),
        (64 * MIB, MIB, MIB, 8),
        (64 * MIB, 1024 * MIB, 8 * MIB, 1),
        (256 * MIB, 1024 * MIB, 8 * MIB, 4),
        (1024 * MIB, MIB, MIB, 16),
        (1024 * MIB, 1024 * MIB, 8 * MIB, 16),
        (8192 * MIB, 1024 * MIB, 64 * MIB, 16),
        (100 * MIB, 3 * MIB, 3 * MIB, 4),
        (0, MIB, 0, 16),
    ] {
        let tier = MemoryTier::new(memory, longest);
        let found = (tier.object_bytes_max(), tier.shards.len());
        assert_eq!(found, (admitted, shards), "{memory} bytes");
    }
    let tier = MemoryTier::new(MIB, MIB);
    assert!(tier.insert(long(1, 128 * KIB), |_| true) && ask(&tier, 1));
    assert!(!tier.insert(long(2, 128 * KIB + 1), |_| true));
    // A tier that grows keeps its number of shards.
    tier.resize(64 * MIB, MIB);
    assert_eq!((tier.object_bytes_max(), tier.shards.len()), (MIB, 1));
    tier.resize(2 * MIB, MIB);
    assert_eq!(tier.object_bytes_max(), 256 * KIB);
}

#[test]
fn short_objects_outlive_long_ones_unless_many_ask_for_these() {
    let tier = MemoryTier::new(MIB, MIB);
    for n in 0..8 {
        assert!(tier.insert(object(n), |_| true));
    }
    assert!(tier.insert(long(100, 100 * KIB), |_| true));
    (0..30).for_each(|_| assert!(ask(&tier, 100)));
    for n in 200..220 {
        assert!(tier.insert(long(n, 100 * KIB), |_| true));
    }
    assert_eq!(count(&tier, 0..8), 8, "of the short ones");
    assert!(is_here(&tier, 100), "the long one that is popular");
    assert!(is_here(&tier, 219) && !is_here(&tier, 200));
    assert!(tier.bytes() <= MIB);
}

#[test]
fn what_a_front_serves_is_used() {
    let (tier, mut front) = (tier(), Front::new());
    (0..EACH_SHARD).for_each(|n| assert!(tier.insert(object(n), |_| true)));
    // The first look finds it in its shard, and the second in the front.
    for n in [3, 4, 3] {
        assert!(
            front
                .look_up(&tier, KeyHash(n), n.to_string().as_bytes())
                .is_ok()
        );
    }
    let mut newcomers = 1000..2000;
    while is_here(&tier, 3) && is_here(&tier, 4) {
        assert!(tier.insert(object(newcomers.next().unwrap()), |_| true));
    }
    assert!(is_here(&tier, 3));
}

#[test]
fn a_head_for_http_2_takes_room_as_any_byte() {
    let tier = tier();
    (0..EACH_SHARD).for_each(|n| assert!(tier.insert(object(n), |_| true)));
    let first = tier.get(KeyHash(0), b"0").unwrap();
    let block = tier.block_of(&first, || vec![7; 2000]);
    assert_eq!(block.map(|block| block.len()), Some(2000));
    assert!(tier.bytes() <= tier.bytes_max(), "{}", tier.bytes());
    assert_eq!(tier.objects(), EACH_SHARD - 2);
    // An object that would have to be evicted for its own block is evicted, and no block is kept.
    let second = tier.get(KeyHash(9), b"9").unwrap();
    assert!(tier.block_of(&second, || vec![7; 60_000]).is_none());
    assert_eq!((tier.objects(), tier.bytes()), (0, 0));
}

/// The sums of all shards, counted anew.
fn assert_sound(tier: &MemoryTier) {
    let (mut objects, mut bytes) = (0, 0);
    for shard in &tier.shards {
        let shard = shard.lock().unwrap();
        replacement::Policy::audit(&shard.used).unwrap();
        shard.prefetched.audit().unwrap();
        let (mut here, mut cost, mut prefetched) = (0, 0, 0);
        for (slot, resident) in shard.slots.iter().enumerate() {
            let slot = slot as u32;
            let is_in = (shard.used.contains(slot), shard.prefetched.contains(slot));
            let Some(resident) = resident else {
                assert_eq!(is_in, (false, false));
                continue;
            };
            assert!(is_in.0 != is_in.1 && resident.is_here());
            let each = resident.object.memory_bytes();
            here += 1;
            cost += each + resident.block_bytes();
            prefetched += if is_in.1 { each } else { 0 };
        }
        assert_eq!(shard.used.len() + shard.prefetched.len(), here);
        assert_eq!((shard.bytes, shard.prefetched_bytes), (cost, prefetched));
        assert!(cost <= shard.bytes_max, "{cost} of {}", shard.bytes_max);
        objects += here as u64;
        bytes += cost;
    }
    assert_eq!((tier.objects(), tier.bytes()), (objects, bytes));
}

proptest::proptest! {
    /// Whatever comes in whatever order and length, no byte is lost, and the tier holds no more than it was given.
    #[test]
    fn what_is_given_is_never_exceeded(
        memory in 0..600 * KIB,
        steps in proptest::collection::vec((0..18u8, 0..120u64, 400..18_000u64), 1..400),
    ) {
        let (tier, mut front) = (MemoryTier::new(memory, 16 * KIB), Front::new());
        let (mut given, mut lent) = (memory, 0);
        for (what, n, bytes) in steps {
            // Spread over all shards.
            let hash = KeyHash(n << 40 | n);
            let key = n.to_string();
            let object = || Object { hash, key: key.clone().into(), ..long(n, bytes) };
            match what {
                0..=8 => {
                    let fits = bytes <= tier.object_bytes_max();
                    let room = tier.shard(hash).bytes_max;
                    let kept = tier.insert(object(), |_| true);
                    proptest::prop_assert_eq!(kept, fits && bytes <= room);
                }
                9 => {
                    if let Some(came) = tier.companions.may_come(hash) {
                        tier.take_along(object(), came, |_| true);
                    }
                }
                10 => tier.promote(&object(), |_| true),
                11..=13 => {
                    if let Ok(resident) = front.look_up(&tier, hash, key.as_bytes()) {
                        proptest::prop_assert_eq!(resident.object.key.as_ref(), key.as_bytes());
                    }
                }
                14 => {
                    tier.remove(hash);
                    proptest::prop_assert!(front.look_up(&tier, hash, key.as_bytes()).is_err());
                }
                15 => {
                    if let Some(resident) = tier.get(hash, key.as_bytes()) {
                        tier.block_of(&resident, || vec![0; (bytes / 4) as usize]);
                    }
                }
                _ if n % 2 == 0 => {
                    lent = bytes.min(given / 2);
                    tier.lend(lent);
                    while tier.shrink() {}
                }
                _ => {
                    given = bytes * 40;
                    lent = lent.min(given / 2);
                    tier.lend(lent);
                    tier.resize(given, 16 * KIB);
                    while tier.shrink() {}
                }
            }
            assert_sound(&tier);
            proptest::prop_assert!(tier.bytes() + lent <= given);
        }
    }
}
