//! Making room.
//!
//! *Coldest first.* Each shard keeps its own exact order of use; the stamps, drawn from one counter, make
//! the order of the whole store exact. A heap holds for each shard a lower bound of its coldest stamp. Bounds
//! only rise (a use moves a record to the warm end, a new one begins there), so the shard with the lowest bound
//! is looked at, its bound corrected, and when it is still the lowest it has the coldest record of all.
//!
//! *A stretch at a time.* Small cold records lie scattered, and freeing them leaves small holes. If a large record
//! finds no run after some evictions, everything in the next stretch of the data area is evicted, warm or
//! cold: a hand goes round the area, so it hits each place equally seldom. One pass over the index (about
//! 3 ms a million records) clears [`STRETCH_BYTES`], enough for several fragments.
//!
//! Not evicted: records that are being written; their space could not be used before anyway.

use crate::geometry::Geometry;
use crate::shard::Fate;
use crate::store::Store;
use crate::writer::Writer;
use extent::{Chunk, Chunks, Extent, SpaceManager};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::atomic::Ordering;

/// What one pass clears.
const STRETCH_BYTES: u64 = 8 << 20;

/// For each shard, a stamp that its coldest record is not older than.
#[derive(Debug)]
pub(crate) struct Bounds {
    heap: BinaryHeap<Reverse<(u64, usize)>>,
}

impl Bounds {
    pub(crate) fn new(shards: usize) -> Self {
        Self {
            heap: (0..shards).map(|shard| Reverse((0, shard))).collect(),
        }
    }
}

impl Store {
    /// Evicts the coldest record of the store. False if there is none that can be evicted now.
    pub(crate) fn evict_coldest(&self, writer: &mut Writer) -> bool {
        let mut set_aside = Vec::new();
        let mut evicted = false;
        while let Some(Reverse((bound, number))) = writer.bounds.heap.pop() {
            let mut shard = self.shard(number);
            // Whatever enters this shard later gets a stamp from here on.
            let now = self.clock.load(Ordering::Relaxed);
            let Some(coldest) = shard.coldest() else {
                set_aside.push(Reverse((now, number)));
                continue;
            };
            if coldest.stamp > bound {
                writer.bounds.heap.push(Reverse((coldest.stamp, number)));
            } else if coldest.writing {
                set_aside.push(Reverse((bound, number)));
            } else {
                let chunks = shard.slot(coldest.slot).extent().len;
                let freed = shard.drop_record(coldest.slot, Fate::Evicted);
                let bound = shard.coldest().map_or(now, |next| next.stamp);
                drop(shard);
                writer.bounds.heap.push(Reverse((bound, number)));
                freed
                    .into_iter()
                    .for_each(|extent| writer.space.free(extent));
                self.counters.evictions.add(1);
                self.counters.evicted_chunks.add(u64::from(chunks.0));
                evicted = true;
                break;
            }
        }
        writer.bounds.heap.extend(set_aside);
        evicted
    }

    /// Evicts what begins in the next stretch, so that `needed` chunks in a row become free, if nobody reads there.
    pub(crate) fn clear_stretch(&self, writer: &mut Writer, needed: Chunks) {
        let stretch = writer.hand.next(needed, &self.geometry);
        let mut slots = Vec::new();
        for number in 0..self.shards.len() {
            let mut shard = self.shard(number);
            slots.clear();
            shard.slots_within(stretch, &mut slots);
            for &slot in &slots {
                let chunks = shard.slot(slot).extent().len;
                let freed = shard.drop_record(slot, Fate::Evicted);
                freed
                    .into_iter()
                    .for_each(|extent| writer.space.free(extent));
                self.counters.stretch_evictions.add(1);
                self.counters.evicted_chunks.add(u64::from(chunks.0));
            }
        }
    }
}

/// Goes round the data area, stretch by stretch.
#[derive(Debug, Default)]
pub(crate) struct Hand {
    at: u32,
}

impl Hand {
    fn next(&mut self, needed: Chunks, geometry: &Geometry) -> Extent {
        let total = geometry.data_chunks;
        // Twice what is needed: a record may reach into the stretch from before it.
        let usual = (STRETCH_BYTES / u64::from(geometry.chunk_bytes)) as u32;
        let len = usual
            .min(total / 16)
            .max(needed.0.saturating_mul(2))
            .min(total);
        if self.at.checked_add(len).is_none_or(|end| end > total) {
            self.at = 0;
        }
        let first = self.at;
        self.at += len;
        Extent {
            first: Chunk(first),
            len: Chunks(len),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hand_goes_round() {
        let geometry = Geometry::plan(4 << 20, 512).unwrap();
        assert_eq!(geometry.data_chunks, 6144);
        let mut hand = Hand::default();
        let firsts: Vec<u32> = (0..4)
            .map(|_| hand.next(Chunks(1000), &geometry).first.0)
            .collect();
        assert_eq!(firsts, [0, 2000, 4000, 0]);
        let whole = hand.next(Chunks(6000), &geometry);
        assert_eq!((whole.first.0, whole.len.0), (0, 6144));
    }
}
