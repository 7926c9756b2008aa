//! Front-rear hashing: finds a free piece by its first or its last chunk.
//!
//! When an extent is freed, only the addresses of its neighbours are known: a free chunk just below is the *last* of a piece, and one just above
//! is the *first* of a piece. Two hash tables find these pieces, each in expected O(1) for any length of the pieces.
//!
//! The tables hold only handles, because the key of an entry is read from the heap. So a slot takes 5 bytes. A caller that changes a piece in the
//! heap must remove its old end from the tables *before* the change and add the new end *after* it: a table that grows in between would place
//! the piece by the wrong key.
//!
//! Limits: as the heap's. Tables grow by doubling and do not shrink; the call that makes one grow moves all its entries.
//! Source: paper 000, section 4.4 (front hash table, rear hash table).

use crate::heap::{Handle, Heap};
use crate::types::{Chunk, Extent};
use hashbrown::HashTable;

/// The front and the rear hash table.
#[derive(Clone)]
pub(crate) struct Ends {
    front: HashTable<u32>,
    rear: HashTable<u32>,
}

/// No attacker chooses the positions, so two multiplications are enough of a hash. The table uses the low bits, and
/// the low bits of a product depend only on the low bits of its factors. These are all zero if pieces begin at
/// multiples of a power of two, so the high half is folded down after each multiplication.
#[inline]
fn hash(chunk: Chunk) -> u64 {
    const GOLDEN_RATIO: u64 = 0x9E37_79B9_7F4A_7C15;
    let mixed = u64::from(chunk.0).wrapping_mul(GOLDEN_RATIO);
    let mixed = (mixed ^ (mixed >> 32)).wrapping_mul(GOLDEN_RATIO);
    mixed ^ (mixed >> 32)
}

impl Ends {
    pub(crate) fn new() -> Self {
        Ends {
            front: HashTable::new(),
            rear: HashTable::new(),
        }
    }

    /// The tables for all pieces of a heap.
    pub(crate) fn from_heap(heap: &Heap) -> Self {
        let mut ends = Ends {
            front: HashTable::with_capacity(heap.len()),
            rear: HashTable::with_capacity(heap.len()),
        };
        for (handle, piece) in heap.iter() {
            ends.insert(heap, handle, piece);
        }
        ends
    }

    /// The piece whose first chunk this is.
    #[inline]
    pub(crate) fn starting_at(&self, heap: &Heap, chunk: Chunk) -> Option<Handle> {
        self.front
            .find(hash(chunk), |&h| heap.get(Handle(h)).first == chunk)
            .map(|&h| Handle(h))
    }

    /// The piece whose last chunk this is.
    #[inline]
    pub(crate) fn ending_at(&self, heap: &Heap, chunk: Chunk) -> Option<Handle> {
        self.rear
            .find(hash(chunk), |&h| heap.get(Handle(h)).last() == chunk)
            .map(|&h| Handle(h))
    }

    /// Adds a piece that has just entered the heap.
    pub(crate) fn insert(&mut self, heap: &Heap, handle: Handle, piece: Extent) {
        self.insert_front(heap, handle, piece.first);
        self.insert_rear(heap, handle, piece.last());
    }

    /// Removes a piece that leaves the heap or has just left it.
    pub(crate) fn remove(&mut self, handle: Handle, piece: Extent) {
        self.remove_front(handle, piece.first);
        self.remove_rear(handle, piece.last());
    }

    /// Adds the new front of a piece that has changed in the heap.
    #[inline]
    pub(crate) fn insert_front(&mut self, heap: &Heap, handle: Handle, first: Chunk) {
        self.front
            .insert_unique(hash(first), handle.0, |&h| hash(heap.get(Handle(h)).first));
    }

    /// Adds the new rear of a piece that has changed in the heap.
    #[inline]
    pub(crate) fn insert_rear(&mut self, heap: &Heap, handle: Handle, last: Chunk) {
        self.rear
            .insert_unique(hash(last), handle.0, |&h| hash(heap.get(Handle(h)).last()));
    }

    /// Removes the front of a piece that will begin elsewhere.
    #[inline]
    pub(crate) fn remove_front(&mut self, handle: Handle, first: Chunk) {
        take(&mut self.front, handle, first);
    }

    /// Removes the rear of a piece that will end elsewhere.
    #[inline]
    pub(crate) fn remove_rear(&mut self, handle: Handle, last: Chunk) {
        take(&mut self.rear, handle, last);
    }

    /// Moves the rear entry at `last` from piece `from` to piece `to`, which has absorbed it.
    #[inline]
    pub(crate) fn hand_over_rear(&mut self, last: Chunk, from: Handle, to: Handle) {
        let slot = self.rear.find_mut(hash(last), |&h| h == from.0);
        *slot.expect("a piece without a rear entry breaks F3") = to.0;
    }

    /// Checks F3 for the tables: there are as many entries as pieces, and every piece is found by both its ends.
    pub(crate) fn audit(&self, heap: &Heap) -> Result<(), String> {
        if self.front.len() != heap.len() || self.rear.len() != heap.len() {
            let (front, rear) = (self.front.len(), self.rear.len());
            return Err(format!(
                "F3: {} pieces, but {front} fronts and {rear} rears",
                heap.len()
            ));
        }
        for (handle, piece) in heap.iter() {
            if self.starting_at(heap, piece.first) != Some(handle) {
                return Err(format!("F3: {piece} is not found by its first chunk"));
            }
            if self.ending_at(heap, piece.last()) != Some(handle) {
                return Err(format!("F3: {piece} is not found by its last chunk"));
            }
        }
        Ok(())
    }

    /// Bytes of memory held.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.front.allocation_size() + self.rear.allocation_size()
    }
}

#[inline]
fn take(table: &mut HashTable<u32>, handle: Handle, chunk: Chunk) {
    match table.find_entry(hash(chunk), |&h| h == handle.0) {
        Ok(entry) => {
            entry.remove();
        }
        Err(_) => panic!(
            "F3: the piece at chunk {} is not in the table of its ends",
            chunk.0
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Chunks;

    #[test]
    fn a_piece_is_found_by_both_ends_and_by_nothing_between() {
        let mut heap = Heap::new();
        let mut ends = Ends::new();
        let piece = Extent::between(Chunk(5), Chunk(8));
        let handle = heap.insert(piece);
        ends.insert(&heap, handle, piece);

        let found = |c| {
            (
                ends.starting_at(&heap, Chunk(c)).is_some(),
                ends.ending_at(&heap, Chunk(c)).is_some(),
            )
        };
        assert_eq!(
            [4, 5, 6, 7, 8].map(found),
            [
                (false, false),
                (true, false),
                (false, false),
                (false, true),
                (false, false)
            ]
        );
    }

    #[test]
    fn growing_tables_keep_everything() {
        let mut heap = Heap::new();
        let mut ends = Ends::new();
        for i in 0..1000 {
            let piece = Extent::new(Chunk(i * 8), Chunks(1 + i % 7));
            let handle = heap.insert(piece);
            ends.insert(&heap, handle, piece);
        }
        ends.audit(&heap).unwrap();
        Ends::from_heap(&heap).audit(&heap).unwrap();
    }

    #[test]
    fn aligned_positions_spread_over_the_low_bits() {
        // Pieces tend to begin at multiples of a number, and slots are chosen by the low bits.
        for step in [1u32, 8, 64, 2048, 1 << 20] {
            let mut slots: Vec<u64> = (0..1024).map(|i| hash(Chunk(i * step)) & 1023).collect();
            slots.sort_unstable();
            slots.dedup();
            // A random function would use 1 - 1/e of the slots, 647. The product alone, at step 64, would use 16.
            assert!(
                slots.len() > 512,
                "step {step}: {} of 1024 slots",
                slots.len()
            );
        }
    }
}
