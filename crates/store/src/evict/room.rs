//! How room is made: by a hand that goes round, or by the book of a policy that orders records.
//!
//! Not known here: shards, records; what is done with a stretch (`choose`).

use crate::evict::grid::Grid;
use crate::evict::region::Hand;
use crate::geometry::Geometry;
use crate::settings::{Limits, Replacement};
use extent::{Chunk, Chunks, Extent, Unified};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Length of the stretch that the book's hand clears at once.
const STRETCH_BYTES: u64 = 8 << 20;

/// How room is made.
#[derive(Debug)]
pub(crate) enum Room {
    Hand(Hand),
    Book(Book),
}

impl Room {
    /// The allocator and the kind of room for a store with an empty index. `hand_at`: the region where the hand begins.
    pub(crate) fn of(limits: &Limits, geometry: &Geometry, hand_at: u32) -> (Unified, Self) {
        let total = Chunks(geometry.data_chunks);
        match limits.replacement {
            Replacement::SecondChance { .. } | Replacement::Reinsertion { .. } => {
                // The hand has everything; it gives the allocator a region at a time.
                let all = Extent::new(Chunk(0), total);
                let space = Unified::from_used(total, std::iter::once(all))
                    .expect("the whole area is within the area");
                let hand = Hand::new(Grid::of(geometry), hand_at);
                (space, Self::Hand(hand))
            }
            Replacement::Ordered(_) => {
                let book = Book::new(limits.shards);
                (Unified::new_all_free(total), Self::Book(book))
            }
        }
    }
}

/// The state of making room by the book.
#[derive(Debug)]
pub(crate) struct Book {
    /// For each shard, a lower bound of the stamp of its coldest record.
    pub(super) bounds: BinaryHeap<Reverse<(u64, usize)>>,
    /// The shard whose turn it is.
    pub(super) next_shard: usize,
    /// Where the next stretch begins.
    at: u32,
    /// Evict down to this many used chunks.
    pub(super) shed_to: Option<u64>,
}

impl Book {
    pub(crate) fn new(shards: usize) -> Self {
        Self {
            bounds: (0..shards).map(|shard| Reverse((0, shard))).collect(),
            next_shard: 0,
            at: 0,
            shed_to: None,
        }
    }

    /// The stretch that is cleared next, for a record of `needed` chunks.
    pub(super) fn next_stretch(&mut self, needed: Chunks, geometry: &Geometry) -> Extent {
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
        Extent::new(Chunk(first), Chunks(len))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hand_of_the_book_goes_round() {
        let geometry = Geometry::plan(4 << 20, 512).unwrap();
        let total = geometry.data_chunks;
        let mut book = Book::new(1);
        let len = total / 3;
        let firsts: Vec<u32> = (0..4)
            .map(|_| book.next_stretch(Chunks(len / 2), &geometry).first.0)
            .collect();
        assert_eq!(firsts[0], 0);
        assert!(firsts[1] < firsts[2] && firsts[3] == 0);
        let whole = book.next_stretch(Chunks(total), &geometry);
        assert_eq!((whole.first.0, whole.len.0), (0, total));
    }
}
