//! A sketch of how often each object was requested lately, in a few bytes for each stored object.
//!
//! This is a count-min sketch. An object has four counters, one in each row, and shares them with other objects; its estimate is the least of the
//! four. A use raises only the counters at that minimum, because the others were raised by other objects. Counters stop at 15, which is enough:
//! after a *sample* of uses all counters are halved, so that old popularity fades.
//!
//! All four counters of an object lie in one block, which is a cache line, so a use costs one memory access.
//!
//! ```text
//!   block      row 0 32 counters | row 1 32 | row 2 32 | row 3 32        128 counters of 4 bits = 64 bytes
//!   hash       block 44 bits | place in row 0 5 | 1 5 | 2 5 | 3 5
//! ```
//!
//! The table grows with the number of objects. Doubling repeats the whole table, so that every object finds its old counters in either half.
//!
//! Invariants: an estimate is never below the true count, both halved at the same moments and cut off at 15.
//!
//! It takes 8 to 16 bytes an object. Halving and doubling pass through the whole table, O(objects) every 10 uses an object: a shard of ten million
//! objects waits for some 100 MB of memory traffic every hundred million uses.
//! Not known here: which objects there are.
//! Limits: [`BLOCKS_MAX`]; with more objects the estimates become worse.
//! Source: Einziger, Friedman, Manes: TinyLFU, ACM ToS 2017. We differ: there is no doorkeeper, which would save memory on objects requested only
//! once, but is a second structure to age.

/// 4-bit counters in a block.
const BLOCK_COUNTERS: usize = 128;
/// Counters for each object.
const OBJECT_COUNTERS: usize = 16;
/// Objects that one block serves.
const BLOCK_OBJECTS: usize = BLOCK_COUNTERS / OBJECT_COUNTERS;
/// The smallest table: 4 KiB.
const BLOCKS_MIN: usize = 64;
/// The largest table: 2 GiB, enough for 2^28 objects.
const BLOCKS_MAX: usize = 1 << 25;
/// Uses for each object in a sample.
const SAMPLE_USES: u64 = 10;

/// The largest estimate.
pub const COUNT_MAX: u8 = 15;

const ROWS: usize = 4;
/// The lower three bits of each counter.
const HALF: u64 = 0x7777_7777_7777_7777;

/// A block: each row is two words of 16 counters.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(64))]
struct Block([u64; 2 * ROWS]);

const _: () = assert!(size_of::<Block>() * 2 == BLOCK_COUNTERS);

/// Spreads a number with few significant bits over 64 bits, one to one: the finaliser of SplitMix64.
pub(crate) fn mix(id: u64) -> u64 {
    let id = (id ^ (id >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let id = (id ^ (id >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    id ^ (id >> 31)
}

/// The sketch.
#[derive(Clone, Debug)]
pub struct Sketch {
    blocks: Vec<Block>,
    /// Uses counted, halved together with the counters.
    uses: u64,
}

impl Sketch {
    /// A sketch for this many objects; `grow_to_hold` makes room for more.
    pub fn new(objects: usize) -> Self {
        Sketch {
            blocks: vec![Block::default(); Self::blocks_for(objects)],
            uses: 0,
        }
    }

    /// Makes room for this many objects. The table never shrinks.
    pub fn grow_to_hold(&mut self, objects: usize) {
        let blocks = Self::blocks_for(objects);
        while self.blocks.len() < blocks {
            self.blocks.extend_from_within(..);
        }
    }

    /// Counts a use of the object.
    pub fn count(&mut self, id: u64) {
        let (block, places) = self.places(id);
        let block = &mut self.blocks[block].0;
        let counts = places.map(|(word, shift)| (block[word] >> shift) as u8 & COUNT_MAX);
        let least = counts.into_iter().fold(COUNT_MAX, u8::min);
        if least == COUNT_MAX {
            return;
        }
        for ((word, shift), count) in places.into_iter().zip(counts) {
            if count == least {
                block[word] += 1 << shift;
            }
        }
        self.uses += 1;
        if self.uses >= self.sample() {
            self.age();
        }
    }

    /// How often the object was used lately, from 0 to `COUNT_MAX`.
    pub fn estimate(&self, id: u64) -> u8 {
        let (block, places) = self.places(id);
        let block = &self.blocks[block].0;
        let counts = places.map(|(word, shift)| (block[word] >> shift) as u8 & COUNT_MAX);
        counts.into_iter().fold(COUNT_MAX, u8::min)
    }

    /// Uses in a sample: at this number everything is halved.
    pub fn sample(&self) -> u64 {
        (self.blocks.len() * BLOCK_OBJECTS) as u64 * SAMPLE_USES
    }

    /// Bytes of memory held.
    pub fn memory_bytes(&self) -> usize {
        self.blocks.capacity() * size_of::<Block>()
    }

    fn blocks_for(objects: usize) -> usize {
        let blocks = objects.div_ceil(BLOCK_OBJECTS).min(BLOCKS_MAX);
        blocks.next_power_of_two().max(BLOCKS_MIN)
    }

    fn age(&mut self) {
        for block in &mut self.blocks {
            block.0 = block.0.map(|word| (word >> 1) & HALF);
        }
        self.uses /= 2;
    }

    /// The block of an object, and the word and shift of its counter in each row.
    #[inline]
    fn places(&self, id: u64) -> (usize, [(usize, u32); ROWS]) {
        let hash = mix(id);
        let block = (hash >> 20) as usize & (self.blocks.len() - 1);
        let places = [0, 1, 2, 3].map(|row| {
            let place = (hash >> (5 * row)) as usize & 31;
            (2 * row + place / 16, (place % 16) as u32 * 4)
        });
        (block, places)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_objects_are_counted_exactly() {
        let mut sketch = Sketch::new(100);
        for id in 0..20u64 {
            (0..id).for_each(|_| sketch.count(id));
        }
        for id in 0..20u64 {
            assert_eq!(u64::from(sketch.estimate(id)), id.min(15), "{id}");
        }
        assert_eq!(sketch.estimate(99), 0);
    }

    #[test]
    fn a_sample_halves_all() {
        let mut sketch = Sketch::new(0);
        (0..9).for_each(|_| sketch.count(1));
        // As many other objects as complete the sample, each once.
        (9..sketch.sample()).for_each(|use_| sketch.count(1000 + use_));
        assert!(
            matches!(sketch.estimate(1), 4..=5),
            "{}",
            sketch.estimate(1)
        );
        assert_eq!(sketch.uses, sketch.sample() / 2);
    }

    #[test]
    fn growing_keeps_what_was_counted() {
        let mut sketch = Sketch::new(0);
        for id in 0..200u64 {
            (0..id % 7).for_each(|_| sketch.count(id));
        }
        let before: Vec<u8> = (0..200).map(|id| sketch.estimate(id)).collect();
        sketch.grow_to_hold(5000);
        assert!(sketch.memory_bytes() >= 8 * 5000);
        let after: Vec<u8> = (0..200).map(|id| sketch.estimate(id)).collect();
        assert_eq!(before, after);
    }

    /// When crowded, estimates are too high only, and not by much.
    #[test]
    fn estimates_are_never_too_low() {
        let mut sketch = Sketch::new(0);
        let objects = 4 * BLOCKS_MIN * BLOCK_OBJECTS;
        let mut counts = vec![0u8; objects];
        let (mut state, mut uses) = (7u64, 0);
        while uses < sketch.sample() - 1 {
            state = mix(state.wrapping_add(1));
            let id = state % objects as u64 * ((state >> 32) % 100) / 100;
            let before = sketch.uses;
            sketch.count(id);
            uses += sketch.uses - before;
            let count = &mut counts[id as usize];
            *count = (*count + 1).min(COUNT_MAX);
        }
        let errors = (0..).zip(&counts).map(|(id, &count)| {
            let estimate = sketch.estimate(id);
            assert!(estimate >= count, "{id}: {estimate} < {count}");
            u64::from(estimate - count)
        });
        let mean = errors.sum::<u64>() as f64 / objects as f64;
        assert!(mean < 1.0, "{mean}");
    }
}
