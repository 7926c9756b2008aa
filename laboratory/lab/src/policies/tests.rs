//! Memory and disk against slow models: lists are searched, and the future is looked up anew.

use polymix::random::Chance;

use super::*;
use crate::generate::DecLike;
use crate::layouts::{self, Layout, Sizes};

fn access(object: u32, size_bytes: u32) -> Access {
    Access {
        at_ms: 0,
        object,
        server: 0,
        size_bytes,
    }
}

/// A stream with popular objects; an object's size changes now and then.
fn random_stream(seed: u64, requests: usize, sizes: &[u32]) -> Vec<Access> {
    let mut chance = Chance::new(seed);
    let mut below = |bound: u64| chance.draw() % bound;
    let mut stream = Vec::new();
    for _ in 0..requests {
        let object = (below(60) * below(60) / 60) as usize;
        let version = usize::from(below(20) == 0);
        stream.push(access(
            object as u32,
            sizes[(object + version) % sizes.len()],
        ));
    }
    stream
}

fn counted(disk: &str, memory_bytes: u64, disk_bytes: u64, stream: &[Access]) -> Hits {
    let requests: Requests<Access> = stream.to_vec().into();
    let next = tiers::next_uses(&requests).unwrap();
    let mut tiers = Tiers::new(&disk.parse().unwrap(), memory_bytes, disk_bytes);
    let mut hits = Hits::default();
    for (access, &next) in stream.iter().zip(&next) {
        tiers.get(access, next, &mut hits);
    }
    hits
}

/// An object of a slow model.
#[derive(Clone, Copy)]
struct Held {
    object: u32,
    size: u32,
    priority: f64,
    uses: f64,
    asked: usize,
}

/// Hits and bytes written; the object of the least `rank` is evicted first. `clock`: priorities grow with those of evicted objects.
fn slow(
    bytes_max: u32,
    stream: &[Access],
    clocked: bool,
    rank: impl Fn(&Held, usize) -> f64,
    bypass: bool,
) -> (u64, u64) {
    let (mut held, mut hits, mut written, mut clock): (Vec<Held>, _, _, _) = (vec![], 0, 0, 0.0);
    for (at, access) in stream.iter().enumerate() {
        let found = held.iter().position(|it| it.object == access.object);
        let mut it = Held {
            object: access.object,
            size: access.size_bytes,
            priority: 0.0,
            uses: 0.0,
            asked: at,
        };
        let found = found.map(|found| held.remove(found));
        let hit = found.filter(|found| found.size == access.size_bytes);
        if let Some(hit) = hit {
            hits += 1;
            it.uses = hit.uses;
        }
        it.uses += 1.0;
        it.priority = clock + it.uses / f64::from(it.size);
        if it.size > bytes_max {
            continue;
        }
        let before = held.clone();
        if bypass {
            held.push(it);
        }
        let used = |held: &[Held]| held.iter().map(|it| it.size).sum::<u32>();
        let beside = if bypass { 0 } else { it.size };
        while used(&held) + beside > bytes_max {
            let ranks = held.iter().map(|it| rank(it, at));
            let least = ranks
                .enumerate()
                .min_by(|a, b| a.1.total_cmp(&b.1))
                .unwrap();
            let gone = held.remove(least.0);
            if clocked {
                clock = gone.priority;
            }
        }
        if !bypass {
            it.priority = if hit.is_some() {
                it.priority
            } else {
                clock + 1.0 / f64::from(it.size)
            };
            held.push(it);
        } else if !held.iter().any(|other| other.object == it.object) {
            held = before;
            continue;
        }
        written += if hit.is_none() { u64::from(it.size) } else { 0 };
    }
    (hits, written)
}

#[test]
fn lru_is_the_twins() {
    for seed in 0..40 {
        let stream = random_stream(seed, 800, &[1, 7, 3, 20, 5]);
        let found = counted("lru", 0, 60, &stream);
        let twin = slow(60, &stream, false, |it, _| it.asked as f64, false);
        assert_eq!((found.hits, found.insert_bytes), twin, "seed {seed}");
    }
}

/// Sizes are powers of two, so that the model's fractions are exact; of equal priorities the oldest is evicted.
#[test]
fn gdsf_is_the_twins() {
    for seed in 0..40 {
        let stream = random_stream(seed, 800, &[1, 8, 4, 16, 2]);
        let found = counted("gdsf", 0, 60, &stream);
        let rank = |it: &Held, _| it.priority + it.asked as f64 * 1e-9;
        let twin = slow(60, &stream, true, rank, false);
        assert_eq!((found.hits, found.insert_bytes), twin, "seed {seed}");
    }
}

fn waits(stream: &[Access], it: &Held, at: usize) -> f64 {
    let later = stream[at + 1..]
        .iter()
        .position(|next| next.object == it.object);
    match later {
        Some(after) if stream[at + 1 + after].size_bytes == it.size => after as f64,
        _ => f64::INFINITY,
    }
}

#[test]
fn belady_is_the_twins() {
    for seed in 0..40 {
        let stream = random_stream(seed, 500, &[1, 7, 3, 20, 5]);
        let found = counted("belady", 0, 60, &stream);
        let (hits, _) = slow(60, &stream, false, |it, at| -waits(&stream, it, at), true);
        assert_eq!(found.hits, hits, "seed {seed}");
    }
}

/// The most hits of all ways to keep objects of size 1: tries every possible set at every request.
fn most_hits(room: u32, stream: &[Access]) -> u64 {
    let mut best = std::collections::HashMap::from([(0u32, 0u64)]);
    for access in stream {
        let mut after = std::collections::HashMap::new();
        let bit = 1 << access.object;
        for (&kept, &hits) in &best {
            let hits = hits + u64::from(kept & bit != 0);
            let with = kept | bit;
            let without = (0..12).map(|object| with & !(1 << object));
            for kept in without
                .chain([with])
                .filter(|kept| kept.count_ones() <= room)
            {
                let most = after.entry(kept).or_insert(0);
                *most = hits.max(*most);
            }
        }
        best = after;
    }
    best.into_values().max().unwrap_or(0)
}

#[test]
fn with_equal_sizes_no_way_hits_more_than_belady() {
    for seed in 0..20 {
        let mut stream = random_stream(seed, 60, &[1]);
        stream.iter_mut().for_each(|access| access.object %= 12);
        for room in [1, 3, 5] {
            let found = counted("belady", 0, room.into(), &stream);
            assert_eq!(found.hits, most_hits(room, &stream), "seed {seed}, {room}");
        }
    }
}

#[test]
fn no_policy_hits_more_than_belady_and_memory_answers_first() {
    let stream = random_stream(3, 4000, &[2]);
    let bound = counted("belady", 0, 40, &stream).hits;
    for contender in Contender::all() {
        let found = counted(&contender.to_string(), 0, 40, &stream);
        assert!(found.hits <= bound && found.memory_hits == 0, "{contender}");
        // An object of 2 bytes is 1/128 of the memory.
        let behind = counted(&contender.to_string(), 256, 40, &stream);
        assert!(behind.memory_hits > 0 && behind.hits >= behind.memory_hits);
        assert_eq!(
            counted(&contender.to_string(), 255, 40, &stream).memory_hits,
            0
        );
    }
}

/// Compares the ring with the store's room to the store itself over a device in memory.
#[test]
fn the_ring_hits_as_the_store_does() {
    const REQUESTS: u64 = 40_000;
    let stream = || {
        let like = DecLike {
            requests: REQUESTS,
            ..DecLike::default()
        };
        like.stream()
    };
    for store_bytes in [24 << 20, 64 << 20] {
        let sizes = Sizes {
            store_bytes,
            memory_bytes: 1,
            rate: 1_000.0,
        };
        let store = layouts::run(&Layout::default(), &sizes, stream(), REQUESTS).unwrap();
        let mut tiers = Tiers::new(&"store".parse().unwrap(), 0, store_bytes);
        let mut ring = Hits::default();
        for (at, access) in (0..).zip(stream()) {
            if at == REQUESTS / WARMING_PART as u64 {
                ring = Hits::default();
            }
            tiers.get(&access, NEVER, &mut ring);
        }
        let documents = [ring.document_percent(), store.document_percent()];
        let bytes = [ring.byte_percent(), store.byte_percent()];
        let apart = |[ring, store]: [f64; 2]| (ring - store).abs();
        assert!(
            apart(documents) < 1.0 && apart(bytes) < 1.0,
            "{documents:?}, {bytes:?}"
        );
        assert_eq!(ring.gets, store.gets);
    }
}

#[test]
fn a_hit_in_memory_brings_an_object_to_disk_if_the_rule_says_so() {
    let stream = [access(1, 100), access(1, 100), access(2, 100)];
    let memory = 128 * 100;
    let found = counted("fifo+second-hit/hit", memory, 1000, &stream);
    assert_eq!(
        (found.memory_hits, found.inserts, found.insert_bytes),
        (1, 1, 100)
    );
    let found = counted("fifo+second-hit", memory, 1000, &stream);
    assert_eq!((found.memory_hits, found.inserts), (1, 0));
}

#[test]
fn next_uses_are_of_the_same_version() {
    let stream = vec![
        access(1, 5),
        access(2, 1),
        access(1, 6),
        access(1, 6),
        access(2, 1),
    ];
    let next = tiers::next_uses(&stream.into()).unwrap();
    assert_eq!(next, [NEVER, 4, 3, NEVER, NEVER]);
}

#[test]
fn the_first_third_is_not_counted() {
    let row: Vec<Access> = [1, 2, 1, 3, 1, 4, 2, 2, 5]
        .map(|object| access(object, 10))
        .into();
    let mut tiers = Tiers::new(&"lru".parse().unwrap(), 0, 1000);
    let found = hits(&mut tiers, &row.into(), &[]).unwrap();
    let want = Hits {
        gets: 6,
        hits: 3,
        get_bytes: 60,
        hit_bytes: 30,
        memory_hits: 0,
        inserts: 3,
        insert_bytes: 30,
        swept_bytes: 0,
    };
    assert_eq!(found, want);
    assert_eq!(
        (found.document_percent(), found.written_per_asked()),
        (50.0, 0.5)
    );
}

#[test]
fn larger_disks_hit_more_and_none_more_than_the_boundless() {
    let like = DecLike {
        requests: 60_000,
        ..DecLike::default()
    };
    let accesses: Requests<Access> = like.stream().collect::<Vec<_>>().into();
    let objects = Objects::of(&accesses).unwrap();
    let sizes = objects.usual_sizes();
    let plan = Plan {
        stream: "dec".to_owned(),
        versions: Versions::Any,
        contenders: Contender::all(),
        sizes: sizes.clone(),
        memory_bytes: objects.share(MEMORY_PERCENT),
        threads: 2,
    };
    let study = Study::run(plan, &accesses, || {}).unwrap();
    assert_eq!(study.points.len(), Contender::all().len() * sizes.len());
    for of_one in study.points.chunks(sizes.len()) {
        let one = of_one[0].contender;
        assert!(of_one.iter().map(|it| it.bytes).eq(sizes.iter().copied()));
        let (first, last) = (of_one[0].hits, of_one[sizes.len() - 1].hits);
        assert!(
            first.hits < last.hits && last.hits <= study.boundless.hits,
            "{one}"
        );
    }
    let text: String = tables(&study).iter().map(page::Table::text).collect();
    assert!(text.contains("w-tinylfu") && page(&[study]).html().contains("<svg"));
}
