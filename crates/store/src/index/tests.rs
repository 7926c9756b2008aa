//! The index against a `HashMap`; damage; and figures, when asked for:
//! `cargo test --release -p store index -- --ignored --nocapture --test-threads=1`.

use super::entry::encodable_chunks;
use super::segment::BUCKETS_MIN;
use super::*;
use crate::index::usage::{Usage, UsageBits};
use extent::{Chunk, Chunks, Extent};
use std::collections::HashMap;

/// SplitMix64: the same numbers for the same seed.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    fn short(&mut self) -> Short {
        Short::of(KeyHash(self.next()))
    }

    fn entry(&mut self) -> Entry {
        let chunks = encodable_chunks(1 + self.below(5000) as u32).unwrap();
        let first = self.below(u64::from(u32::MAX - chunks)) as u32;
        let entry = Entry::new(Extent::new(Chunk(first), Chunks(chunks)), self.below(2) > 0);
        let hits = self.below(2) as u8;
        entry.with_usage(Usage { hits, age: 0 })
    }

    fn fill(&mut self, segment: &mut Segment, entries: usize) {
        while segment.len() < entries {
            let short = self.short();
            if segment.find(short).is_none() {
                segment.insert(short, self.entry(), 0);
            }
        }
    }
}

fn encoded(segment: &Segment) -> Vec<u8> {
    let mut bytes = Vec::new();
    segment.encode(&mut bytes);
    bytes
}

fn decoded(mut bytes: &[u8]) -> Result<Segment, &'static str> {
    let segment = Segment::decode(&mut bytes, UsageBits::NONE)?;
    assert!(bytes.is_empty());
    Ok(segment)
}

/// Everything that can be asked of a segment, against what it ought to hold.
fn check(segment: &Segment, twin: &HashMap<Short, Entry>) {
    segment.audit().unwrap();
    assert_eq!(segment.len(), twin.len());
    assert_eq!(segment.iter().count(), twin.len());
    for (short, entry) in segment.iter() {
        assert_eq!(twin.get(&short), Some(&entry), "{short:?}");
    }
    for (&short, &entry) in twin {
        assert_eq!(segment.find(short).map(|p| segment.get(p)), Some(entry));
    }
}

#[test]
fn random_operations_agree_with_a_map() {
    for seed in 1..=8 {
        eprintln!("seed {seed}: cargo test -p store random_operations_agree_with_a_map");
        let mut random = Random(seed);
        let mut index = Index::new(3, UsageBits::NONE);
        // A small world, so that keys return: segment from the top bits, few Shorts, the unused bits at random.
        let mut twin: HashMap<(usize, Short), Entry> = HashMap::new();
        let mut full_target = 0;
        for step in 0..60_000u32 {
            if step % 6000 == 0 {
                full_target = random.below(100);
            }
            let bits = random.next();
            let hash = KeyHash(bits & !0x7ff_ffff | (bits & 0x1fff).wrapping_mul(16_381));
            let key = (index.segment_of(hash), Short::of(hash));
            let found = index.find(hash);
            assert_eq!(found.map(|s| index.get(s)), twin.get(&key).copied());
            let entry = random.entry();
            match found {
                None if random.below(100) < full_target => {
                    index.insert(hash, entry);
                    twin.insert(key, entry);
                    assert_eq!(index.find(hash).map(|s| index.get(s)), Some(entry));
                }
                None => {}
                Some(spot) if random.below(100) < full_target => {
                    index.set(spot, entry);
                    twin.insert(key, entry);
                    assert_eq!(index.get(spot), entry);
                }
                Some(spot) => {
                    assert_eq!(Some(index.remove(spot)), twin.remove(&key));
                    assert_eq!(index.find(hash), None);
                }
            }
            if step % 9000 == 8999 {
                let limit = Chunk(random.next() as u32 / 4);
                let i = random.below(3) as usize;
                index
                    .segment_mut(i)
                    .retain(|_, entry| entry.first() >= limit);
                twin.retain(|&(segment, _), entry| segment != i || entry.first() >= limit);
            }
            assert_eq!(index.records(), twin.len());
            if step % 3000 == 0 {
                for i in 0..index.segments() {
                    let own = twin.iter().filter(|((segment, _), _)| *segment == i);
                    let own = own.map(|(&(_, short), &entry)| (short, entry)).collect();
                    check(index.segment(i), &own);
                }
            }
        }
    }
}

#[test]
fn one_segment_grows_to_60000_and_empties() {
    const ENTRIES: usize = 60_000;
    let mut random = Random(11);
    let mut segment = Segment::new(UsageBits::NONE);
    let mut twin = HashMap::new();
    let mut order = Vec::new();
    let (mut moved, mut grown) = (0, 0);
    while twin.len() < ENTRIES {
        let (short, entry) = (random.short(), random.entry());
        if twin.contains_key(&short) {
            assert!(segment.find(short).is_some());
            continue;
        }
        let buckets = segment.buckets();
        let sample = &order[..order.len().min(16)];
        let places: Vec<_> = sample.iter().map(|&short| segment.find(short)).collect();
        segment.insert(short, entry, 0);
        twin.insert(short, entry);
        // What was moved is found where it is now; all of it, after each growth.
        if segment.buckets() > buckets {
            grown += 1;
            check(&segment, &twin);
        } else {
            let now = sample.iter().map(|&short| segment.find(short));
            moved += usize::from(!places.into_iter().eq(now));
        }
        order.push(short);
        for _ in 0..3 {
            let one = order[random.below(order.len() as u64) as usize];
            assert_eq!(segment.get(segment.find(one).unwrap()), twin[&one]);
        }
    }
    eprintln!("{grown} growths; between them, one of the first sixteen moved {moved} times");
    assert!(grown > 20 && moved > 0);
    check(&segment, &twin);
    check(&decoded(&encoded(&segment)).unwrap(), &twin);
    let buckets = segment.buckets();
    for short in order.drain(ENTRIES / 2..) {
        let place = segment.find(short).unwrap();
        assert_eq!(Some(segment.remove(place)), twin.remove(&short));
    }
    check(&segment, &twin);
    segment.retain(|short, entry| {
        assert_eq!(twin.get(&short), Some(&entry));
        false
    });
    check(&segment, &HashMap::new());
    assert_eq!(segment.buckets(), buckets, "a table does not shrink");
}

/// At the least growth no bucket may be full for long: after every single insertion everything is still there.
#[test]
fn everything_is_found_after_every_insertion() {
    let mut random = Random(12);
    let mut segment = Segment::new(UsageBits::NONE);
    let mut shorts = Vec::new();
    // The first growth comes at 1,024 at the latest; before it the table is at its fullest.
    while segment.buckets() < BUCKETS_MIN + 17 {
        let short = random.short();
        if segment.find(short).is_some() {
            continue;
        }
        segment.insert(short, random.entry(), 0);
        shorts.push(short);
        if shorts.len() > 800 {
            assert!(shorts.iter().all(|&short| segment.find(short).is_some()));
            segment.audit().unwrap();
        }
    }
}

/// Neighbouring numbers have one home; their second buckets differ.
#[test]
fn crowded_numbers_fit() {
    for base in [0, (1 << 27) - 3000] {
        let mut segment = Segment::new(UsageBits::NONE);
        for number in base..base + 3000 {
            let short = Short::of(KeyHash(number));
            assert_eq!(segment.find(short), None);
            segment.insert(short, Random(number).entry(), 0);
        }
        segment.audit().unwrap();
        for number in base..base + 3000 {
            let place = segment.find(Short::of(KeyHash(number))).unwrap();
            assert_eq!(segment.get(place), Random(number).entry());
        }
        eprintln!("3000 neighbours took {} buckets", segment.buckets());
    }
}

#[test]
fn the_encoded_form_is_the_documented_one() {
    let mut segment = Segment::new(UsageBits::NONE);
    let entry =
        Entry::new(Extent::new(Chunk(7), Chunks(3)), true).with_usage(Usage { hits: 1, age: 0 });
    // 2^20 numbers a bucket: home 1, remainder 5.
    segment.insert(Short::of(KeyHash((1 << 20) + 5)), entry, 0);
    let bytes = encoded(&segment);
    assert_eq!(bytes[..8], [128, 0, 0, 0, 1, 0, 0, 0]);
    assert_eq!(bytes[8..12], [0, 1, 0, 0]);
    // used 1, writing 4, remainder 5 at bit 4; length code; first chunk.
    assert_eq!(bytes[8 + 128..], [0x55, 0, 0, 3, 7, 0, 0, 0]);
}

#[test]
fn segments_follow_each_other() {
    let mut random = Random(13);
    let (mut a, mut b) = (Segment::new(UsageBits::NONE), Segment::new(UsageBits::NONE));
    random.fill(&mut a, 100);
    random.fill(&mut b, 5000);
    let mut bytes = encoded(&a);
    b.encode(&mut bytes);
    bytes.push(9);
    let mut rest = &bytes[..];
    assert_eq!(
        encoded(&Segment::decode(&mut rest, UsageBits::NONE).unwrap()),
        encoded(&a)
    );
    assert_eq!(
        encoded(&Segment::decode(&mut rest, UsageBits::NONE).unwrap()),
        encoded(&b)
    );
    assert_eq!(rest, [9]);
    assert!(Segment::decode(&mut rest, UsageBits::NONE).is_err());
    assert_eq!(rest, [9]);
}

/// Damage is refused, or gives a segment that holds its invariants and can be used.
#[test]
fn damaged_bytes_never_panic() {
    let mut random = Random(14);
    let mut segment = Segment::new(UsageBits::NONE);
    random.fill(&mut segment, 60);
    let good = encoded(&segment);
    for cut in 0..good.len() {
        assert!(decoded(&good[..cut]).is_err(), "cut at {cut}");
    }
    let mut accepted = 0;
    for at in 0..good.len() {
        for change in (0..8).map(|bit| 1 << bit).chain([0xff, good[at]]) {
            let mut bad = good.clone();
            bad[at] ^= change;
            let Ok(mut segment) = decoded(&bad) else {
                continue;
            };
            accepted += 1;
            segment.audit().unwrap();
            assert_eq!(encoded(&segment), bad);
            let shorts: Vec<Short> = segment.iter().map(|(short, _)| short).collect();
            for short in shorts {
                let place = segment.find(short).unwrap();
                segment.get(place).extent();
                segment.remove(place);
            }
            assert_eq!(segment.records(), 0);
        }
    }
    // There is no checksum here: that is the checkpoint's.
    assert!(accepted > 0);
    for _ in 0..2000 {
        let noise: Vec<u8> = (0..random.below(400))
            .map(|_| random.next() as u8)
            .collect();
        let _ = decoded(&noise);
        let noisy = [&[128, 0, 0, 0, noise.len() as u8, 0, 0, 0][..], &noise].concat();
        let _ = decoded(&noisy);
    }
}

#[test]
fn what_is_wrong_is_named() {
    /// 128 buckets or more, the words in order from the first slot.
    fn bytes(n: u32, words: &[u64]) -> Vec<u8> {
        let mut maps = vec![0; n as usize];
        for slot in 0..words.len() {
            maps[slot / 8] |= 1 << (slot % 8);
        }
        let mut bytes = [n.to_le_bytes(), (words.len() as u32).to_le_bytes()].concat();
        bytes.extend(maps);
        bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        bytes
    }
    let error = |n, words: &[u64]| decoded(&bytes(n, words)).err().unwrap_or("fine");
    let entry = 1 << 24;
    let key = |remainder: u64| remainder << 4;
    assert_eq!(error(128, &[]), "fine");
    assert!(error(127, &[]).contains("impossible"));
    assert!(error((1 << 20) + 1, &[]).contains("impossible"));
    assert_eq!(error(128, &[entry, entry | key(1)]), "fine");
    assert!(error(128, &[entry, entry]).contains("X3"));
    assert!(error(128, &[entry, key(1)]).contains("X1"));
    assert!(error(128, &[0]).contains("X4"));
    assert!(error(128, &[entry | 0xffff_ffff << 32]).contains("X1"));
    // 2^27 / 129 is 1,040,447 and a little: bucket 0 has one number more.
    assert_eq!(error(129, &[entry | key(1_040_447)]), "fine");
    assert!(error(129, &[entry | key(1_040_448)]).contains("X2"));
    // Remainder 0 leads one bucket on: the ninth word lies in bucket 1, so its home is bucket 0.
    let mut words: Vec<u64> = (0..8).map(|i| entry | key(i)).collect();
    words.push(entry | 8);
    assert!(error(128, &words).contains("X3"));
    words[0] = entry | key(9);
    assert_eq!(error(128, &words), "fine");
    // Counts that lie.
    let mut lie = bytes(128, &[entry]);
    lie[4] = 2;
    assert!(decoded(&lie).err().unwrap().contains("not as many"));
}

/// Over many growths: how full the table was when it grew, and bytes an entry.
fn growth_figures(entries: usize, seed: u64) -> (f64, f64, f64, f64) {
    let mut random = Random(seed);
    let mut segment = Segment::new(UsageBits::NONE);
    let (mut loads, mut growths, mut load_min) = (0.0, 0.0, 1.0f64);
    let (mut bytes, mut bytes_max) = (0.0, 0.0f64);
    for len in 0..entries {
        let (buckets, slots) = (segment.buckets(), f64::from(segment.buckets()) * 8.0);
        random.fill(&mut segment, len + 1);
        if segment.buckets() > buckets {
            growths += 1.0;
            loads += len as f64 / slots;
            load_min = load_min.min(len as f64 / slots);
        }
        // Each size weighs the same, from where the least table is full.
        if len >= 1000 {
            let each = segment.memory_bytes() as f64 / (len + 1) as f64;
            bytes += each / (len + 1) as f64;
            bytes_max = bytes_max.max(each);
        }
    }
    let weights: f64 = (1000..entries).map(|len| 1.0 / (len + 1) as f64).sum();
    (loads / growths, load_min, bytes / weights, bytes_max)
}

#[test]
fn memory_an_entry_is_bounded() {
    let (load, load_min, bytes, bytes_max) = growth_figures(30_000, 15);
    eprintln!("load {load:.4} least {load_min:.4}, bytes {bytes:.2} most {bytes_max:.2}");
    assert!(load > 0.97, "{load}");
    assert!(load_min > 0.94, "{load_min}");
    assert!(bytes < 9.0, "{bytes}");
    assert!(bytes_max < 9.6, "{bytes_max}");
}

/// As many in as out, at a constant load: a segment that is not nearly full stays as large as it is.
#[test]
fn turnover_at_a_constant_load_needs_no_growth() {
    const TURNOVERS: usize = 5;
    let mut random = Random(19);
    let mut segment = Segment::new(UsageBits::NONE);
    random.fill(&mut segment, 4_000);
    let buckets = segment.buckets();
    let entries = (f64::from(buckets) * 8.0 * 0.95) as usize;
    let entry = random.entry();
    let mut order: Vec<Short> = segment.iter().map(|(short, _)| short).collect();
    while order.len() > entries {
        let place = segment.find(order.pop().unwrap()).unwrap();
        segment.remove(place);
    }
    random.fill(&mut segment, entries);
    order = segment.iter().map(|(short, _)| short).collect();
    for _ in 0..TURNOVERS * entries {
        let short = random.short();
        if segment.find(short).is_none() {
            let old = &mut order[random.below(entries as u64) as usize];
            let place = segment.find(*old).unwrap();
            segment.remove(place);
            segment.insert(short, entry, 0);
            *old = short;
        }
        assert_eq!(segment.buckets(), buckets, "it has grown");
    }
    assert_eq!(segment.iter().count(), entries);
}
