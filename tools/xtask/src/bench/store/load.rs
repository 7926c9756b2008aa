//! The objects of the store benches: mixed sizes, under keys like those of the web.
//!
//! An object is a number. Key, size and bytes follow from the number, so the bench keeps no data about objects, and the
//! measured memory is the store's. Bodies are slices of one random buffer: making one costs nothing, while
//! the store's copy and checksum of it are real.
//!
//! Sizes are log-normal, cut at 128 B and 1 MiB, and scaled to the wanted mean. Most objects are small, and most bytes
//! are in large objects, as in the mixes proxies are measured with.
//!
//! Not known here: disks, stores beyond their key hashes.

use store::{Geometry, HEADER_BYTES, KeyHash, KeyHasher, NewRecord, RecordParts, Sequence};

use crate::chance::{Chance, mix};
use crate::failure::{During, Result};

/// Where sizes are cut.
const BODY_BYTES_MIN: f64 = 128.0;
const BODY_BYTES_MAX: f64 = (1 << 20) as f64;
/// Different sizes; objects draw from them.
const SIZES: usize = 1 << 16;
const BUFFER_BYTES: usize = 4 << 20;
/// The approximate length of the proxy's heads.
const META_BYTES: usize = 200;
const KEY: [u8; 60] = *b"http://static.example.org/objects/0000000000000000/image.jpg";
const KEY_DIGITS_AT: usize = 34;
const KEY_DIGITS: usize = 16;

/// The percentage of inserts that replace a live record.
const REPLACING_PERCENT: u64 = 10;
/// When a live object is to be chosen, the newest objects are assumed live, up to this percentage of the objects that fit.
const SURELY_LIVE_PERCENT: u64 = 85;
/// The share of a store that the planned objects are to take.
const FULL: f64 = 0.95;

/// The key of an object.
pub fn key_of(object: u64) -> [u8; KEY.len()] {
    let mut key = KEY;
    let digits = &mut key[KEY_DIGITS_AT..KEY_DIGITS_AT + KEY_DIGITS];
    for (at, digit) in digits.iter_mut().rev().enumerate() {
        *digit = b"0123456789abcdef"[(object >> (at * 4)) as usize & 15];
    }
    key
}

/// The key hash of an object.
pub fn hash_of(hasher: &KeyHasher, object: u64) -> KeyHash {
    hasher.hash(&key_of(object))
}

/// The chunks of a record of `record_bytes`, rounded up to a length that the index can express (docs/format.md).
pub fn chunks_of(record_bytes: u64, chunk_bytes: u64) -> u64 {
    let chunks = record_bytes.div_ceil(chunk_bytes);
    let step = match chunks {
        0..=32 => 1,
        _ => 1 << ((chunks - 1).ilog2() - 4),
    };
    chunks.next_multiple_of(step)
}

/// Objects of one mix of sizes.
#[derive(Debug)]
pub struct Objects {
    sizes: Vec<u32>,
    bytes: Vec<u8>,
}

impl Objects {
    /// Bodies of `mean` bytes on average; `spread` is the standard deviation of the size's logarithm.
    pub fn new(mean: u64, spread: f64) -> Self {
        let mut random = Chance::new(1);
        let normal: Vec<f64> = (0..SIZES)
            .map(|_| {
                let turn = std::f64::consts::TAU * random.unit();
                (-2.0 * (1.0 - random.unit()).ln()).sqrt() * turn.cos()
            })
            .collect();
        let cut = |median: f64, z: f64| {
            (median * (spread * z).exp()).clamp(BODY_BYTES_MIN, BODY_BYTES_MAX)
        };
        // Cutting moves the mean, so the median is searched for.
        let (mut low, mut high) = (1.0, BODY_BYTES_MAX);
        for _ in 0..40 {
            let middle = (low * high).sqrt();
            let sum: f64 = normal.iter().map(|&z| cut(middle, z)).sum();
            if sum < mean as f64 * SIZES as f64 {
                low = middle;
            } else {
                high = middle;
            }
        }
        let sizes = normal
            .iter()
            .map(|&z| cut(high, z).round() as u32)
            .collect();
        let words = (0..BUFFER_BYTES / 8).flat_map(|_| random.draw().to_le_bytes());
        Self {
            sizes,
            bytes: words.collect(),
        }
    }

    /// Bytes of an object's body.
    pub fn body_bytes(&self, object: u64) -> u64 {
        u64::from(self.sizes[mix(object) as usize % SIZES])
    }

    /// Bytes of an object's record, without padding.
    pub fn record_bytes(&self, object: u64) -> u64 {
        (HEADER_BYTES + KEY.len() + META_BYTES) as u64 + self.body_bytes(object)
    }

    /// Bytes of a body on average.
    pub fn body_bytes_mean(&self) -> f64 {
        self.sizes.iter().map(|&size| f64::from(size)).sum::<f64>() / SIZES as f64
    }

    /// Bytes that a record takes on the disk on average.
    pub fn chunk_bytes_mean(&self, chunk_bytes: u64) -> f64 {
        let other = (HEADER_BYTES + KEY.len() + META_BYTES) as u64;
        let chunks = self
            .sizes
            .iter()
            .map(|&size| chunks_of(other + u64::from(size), chunk_bytes));
        (chunks.sum::<u64>() * chunk_bytes) as f64 / SIZES as f64
    }

    /// The parts of an object's record.
    pub fn record(&self, hasher: &KeyHasher, object: u64) -> Parts<'_> {
        let key = key_of(object);
        let len = self.body_bytes(object) as usize;
        let from = mix(object ^ 1) as usize % (BUFFER_BYTES - BODY_BYTES_MAX as usize);
        Parts {
            hash: hasher.hash(&key),
            key,
            meta: &self.bytes[from / 2..from / 2 + META_BYTES],
            body: [&self.bytes[from..from + len]],
        }
    }
}

/// The parts of a record.
#[derive(Debug)]
pub struct Parts<'a> {
    hash: KeyHash,
    key: [u8; KEY.len()],
    meta: &'a [u8],
    body: [&'a [u8]; 1],
}

impl Parts<'_> {
    /// The record.
    pub fn as_new(&self, began: Sequence) -> NewRecord<'_> {
        NewRecord {
            hash: self.hash,
            primary: self.hash,
            key: &self.key,
            meta: self.meta,
            body: &self.body,
            fragment: None,
            total: None,
            began,
            server: 0,
        }
    }
}

/// Is this the object's record? The store has verified the checksum.
pub fn is_record_of(object: u64, parts: &RecordParts) -> bool {
    parts.key == key_of(object)[..]
}

/// A realistic sequence of inserts: most are new objects, some replace stored ones.
#[derive(Debug)]
pub struct Workload {
    pub objects: Objects,
    pub random: Chance,
    /// Objects below have been stored at least once.
    pub next: u64,
    /// Objects that fit.
    pub fit: u64,
}

impl Workload {
    /// For a store of this geometry.
    pub fn new(objects: Objects, geometry: &Geometry, seed: u64) -> Self {
        let record_mean = objects.chunk_bytes_mean(u64::from(geometry.chunk_bytes));
        Self {
            fit: (geometry.data_bytes() as f64 / record_mean) as u64,
            random: Chance::new(seed),
            next: 0,
            objects,
        }
    }

    /// The next object to be stored.
    pub fn next(&mut self) -> u64 {
        if self.next > 0 && self.random.percent(REPLACING_PERCENT) {
            return self.a_live_one();
        }
        self.next += 1;
        self.next - 1
    }

    /// An object that is in the store, most likely.
    pub fn a_live_one(&mut self) -> u64 {
        let span = (self.fit * SURELY_LIVE_PERCENT / 100).min(self.next);
        self.next - 1 - self.random.below(span)
    }
}

/// The size of a store that `count` of these objects fill, and its geometry.
pub fn plan(objects: &Objects, count: u64) -> Result<(u64, Geometry)> {
    let chunk_bytes = Geometry::CHUNK_BYTES_DEFAULT;
    let record_mean = objects.chunk_bytes_mean(u64::from(chunk_bytes));
    let data_bytes = (count as f64 * record_mean / FULL) as u64;
    let mut total = data_bytes;
    let planned =
        |total| Geometry::plan(total, chunk_bytes).during(|| "planning the store".to_owned());
    for _ in 0..4 {
        total += data_bytes.saturating_sub(planned(total)?.data_bytes());
    }
    let geometry = planned(total)?;
    Ok((geometry.total_bytes, geometry))
}

/// Draws numbers so that number n is drawn in proportion to 1 / (n + 1)^exponent.
#[derive(Debug)]
pub struct Zipf(Vec<f64>);

impl Zipf {
    /// Draws from the numbers below `count`.
    pub fn new(count: u64, exponent: f64) -> Self {
        let mut sum = 0.0;
        let sums = (1..=count.max(1)).map(|rank| {
            sum += (rank as f64).powf(-exponent);
            sum
        });
        Self(sums.collect())
    }

    /// Draws a number.
    pub fn draw(&self, random: &mut Chance) -> u64 {
        let all = self.0.last().copied().unwrap_or(1.0);
        let at = random.unit() * all;
        let found = self.0.partition_point(|&sum| sum < at);
        found.min(self.0.len() - 1) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use store::{Geometry, Identity, Lookup, Outcome, Settings, Store};

    #[test]
    fn keys_differ_and_the_mean_is_as_wanted() {
        assert_ne!(key_of(1), key_of(256));
        assert!(key_of(0xabc).ends_with(b"/0000000000000abc/image.jpg"));
        for mean in [3 << 10, 10 << 10] {
            let objects = Objects::new(mean, 1.5);
            assert!((objects.body_bytes_mean() / mean as f64 - 1.0).abs() < 0.01);
        }
    }

    #[test]
    fn chunks_are_counted_as_the_store_counts_them() {
        let geometry = Geometry::plan(64 << 20, 512).unwrap();
        let identity = Identity::new([3; Identity::RANDOM_BYTES]);
        let store = Store::create(geometry, &Settings::default(), identity);
        let objects = Objects::new(20 << 10, 2.0);
        for object in 0..500 {
            let record = objects.record(&store.hasher(), object);
            let inserted = store.insert(&record.as_new(store.sequence()), 0);
            for write in inserted.writes.into_iter().chain(store.flush()) {
                store.write_done(write.id, true, 0);
            }
            while let Some(work) = store.next_work(0) {
                store.work_done(work.id, Ok(None), 0);
            }
            if inserted.outcome != Outcome::Stored {
                continue; // too large, or the next region was not ready
            }
            let Lookup::OnDisk(read) = store.look_up(hash_of(&store.hasher(), object)) else {
                panic!("not on disk");
            };
            assert_eq!(
                read.len as u64,
                chunks_of(objects.record_bytes(object), 512) * 512
            );
            assert!(store.read_done(read));
        }
        assert!(store.figures().inserts > 10);
    }

    #[test]
    fn low_numbers_are_drawn_more_often() {
        let (zipf, mut random) = (Zipf::new(100, 0.8), Chance::new(7));
        let drawn: Vec<u64> = (0..10_000).map(|_| zipf.draw(&mut random)).collect();
        let times = |n: u64| drawn.iter().filter(|&&d| d == n).count();
        assert!(times(0) > 2 * times(9) && drawn.iter().all(|&n| n < 100));
    }
}
