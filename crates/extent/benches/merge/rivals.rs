//! Other ways to find a freed extent's neighbours, to compare UNIFIED with. All cut from the longest piece, or the lowest of equal ones, so they
//! must give the same extents as UNIFIED.
//!
//! | type | finds the neighbours by | source |
//! |---|---|---|
//! | [`ByBit`] | walking the bit vector, one bit a step | paper 000, section 4.4 ("sequential and exhausted testing") |
//! | [`ByWord`] | the same, 64 bits a step | the obvious way today |
//! | [`Trees`] | a balanced tree ordered by address | the textbook |
//!
//! Each also keeps its pieces in a tree ordered by size, where UNIFIED has a heap. They check less than UNIFIED; the bench compares all their
//! answers with those of UNIFIED and, at the end, all their pieces.

use super::{Chunk, Chunks, Extent, Space};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{Excluded, Unbounded};

pub type ByBit = Scan<false>;
pub type ByWord = Scan<true>;

/// Free pieces by length. The last one is the longest, and the lowest of equal ones.
#[derive(Default)]
struct BySize(BTreeSet<(Chunks, Reverse<Chunk>)>);

impl BySize {
    fn insert(&mut self, piece: Extent) {
        self.0.insert((piece.len, Reverse(piece.first)));
    }

    fn remove(&mut self, piece: Extent) {
        let was_there = self.0.remove(&(piece.len, Reverse(piece.first)));
        assert!(was_there, "{piece} is not a free piece");
    }

    fn longest(&self) -> Option<Extent> {
        self.0.last().map(|&key| extent(key))
    }

    fn in_order(&self) -> Vec<Extent> {
        let mut pieces: Vec<Extent> = self.0.iter().map(|&key| extent(key)).collect();
        pieces.sort_unstable();
        pieces
    }
}

fn extent((len, Reverse(first)): (Chunks, Reverse<Chunk>)) -> Extent {
    Extent { first, len }
}

/// A bit vector, and pieces by size. Only the bits are ordered by address.
pub struct Scan<const BY_WORD: bool> {
    /// One bit a chunk, set while the chunk is used. A word of set bits at each end stops every walk.
    words: Vec<u64>,
    pieces: BySize,
}

/// The word of a chunk's bit, and the bit's position in it.
fn place(chunk: Chunk) -> (usize, u32) {
    (chunk.0 as usize / 64 + 1, chunk.0 % 64)
}

impl<const BY_WORD: bool> Scan<BY_WORD> {
    fn is_free(&self, chunk: Chunk) -> bool {
        let (word, bit) = place(chunk);
        self.words[word] >> bit & 1 == 0
    }

    /// Changes every bit of `e`; all must have been the same.
    fn flip(&mut self, e: Extent, was_used: bool) {
        let ((first, from), (last, to)) = (place(e.first), place(e.last()));
        for word in first..=last {
            let mut mask = u64::MAX;
            if word == first {
                mask &= u64::MAX << from;
            }
            if word == last {
                mask &= u64::MAX >> (63 - to);
            }
            let before = if was_used { mask } else { 0 };
            assert!(self.words[word] & mask == before, "{e} changes twice");
            self.words[word] ^= mask;
        }
    }

    /// The first chunk of the free run that ends with `chunk`.
    fn run_start(&self, chunk: Chunk) -> Chunk {
        if !BY_WORD {
            let mut first = chunk;
            while first.0 > 0 && self.is_free(Chunk(first.0 - 1)) {
                first.0 -= 1;
            }
            return first;
        }
        let (mut word, bit) = place(chunk);
        let mut used = self.words[word] & (u64::MAX >> (63 - bit));
        while used == 0 {
            word -= 1;
            used = self.words[word];
        }
        Chunk(word as u32 * 64 - used.leading_zeros())
    }

    /// One past the last chunk of the free run that begins with `chunk`.
    fn run_end(&self, chunk: Chunk) -> Chunk {
        if !BY_WORD {
            let mut end = chunk;
            while self.is_free(end) {
                end.0 += 1;
            }
            return end;
        }
        let (mut word, bit) = place(chunk);
        let mut used = self.words[word] & (u64::MAX << bit);
        while used == 0 {
            word += 1;
            used = self.words[word];
        }
        Chunk((word as u32 - 1) * 64 + used.trailing_zeros())
    }
}

impl<const BY_WORD: bool> Space for Scan<BY_WORD> {
    fn new_all_free(total: Chunks) -> Self {
        let mut pieces = BySize::default();
        pieces.insert(Extent::new(Chunk(0), total));
        let (last, bit) = place(Chunk(total.0));
        let mut words = vec![0; last + 2];
        (words[0], words[last + 1]) = (u64::MAX, u64::MAX);
        words[last] = u64::MAX << bit;
        Scan { words, pieces }
    }

    fn allocate(&mut self, len: Chunks) -> Option<Extent> {
        let piece = self.pieces.longest().filter(|piece| piece.len >= len)?;
        let (cut, rest) = piece.cut_front(len);
        self.flip(cut, false);
        self.pieces.remove(piece);
        rest.into_iter().for_each(|rest| self.pieces.insert(rest));
        Some(cut)
    }

    fn free(&mut self, e: Extent) {
        //= paper 000 section 4.4   testing from the chunk next to the removed object to the first used one
        self.flip(e, true);
        let mut whole = e;
        if e.first.0 > 0 && self.is_free(Chunk(e.first.0 - 1)) {
            let left = Extent::between(self.run_start(Chunk(e.first.0 - 1)), e.first);
            self.pieces.remove(left);
            whole = Extent::between(left.first, whole.end());
        }
        if self.is_free(e.end()) {
            let right = Extent::between(e.end(), self.run_end(e.end()));
            self.pieces.remove(right);
            whole = Extent::between(whole.first, right.end());
        }
        self.pieces.insert(whole);
    }

    fn pieces(&self) -> usize {
        self.pieces.0.len()
    }

    fn free_pieces(&self) -> Vec<Extent> {
        self.pieces.in_order()
    }
}

/// Two balanced trees of the standard library. There is no bit vector: a chunk in no piece is used.
pub struct Trees {
    by_address: BTreeMap<Chunk, Chunks>,
    by_size: BySize,
}

impl Trees {
    fn insert(&mut self, piece: Extent) {
        self.by_address.insert(piece.first, piece.len);
        self.by_size.insert(piece);
    }

    fn remove(&mut self, piece: Extent) {
        self.by_address.remove(&piece.first);
        self.by_size.remove(piece);
    }
}

impl Space for Trees {
    fn new_all_free(total: Chunks) -> Self {
        let mut space = Trees {
            by_address: BTreeMap::new(),
            by_size: BySize::default(),
        };
        space.insert(Extent::new(Chunk(0), total));
        space
    }

    fn allocate(&mut self, len: Chunks) -> Option<Extent> {
        let piece = self.by_size.longest().filter(|piece| piece.len >= len)?;
        let (cut, rest) = piece.cut_front(len);
        self.remove(piece);
        rest.into_iter().for_each(|rest| self.insert(rest));
        Some(cut)
    }

    fn free(&mut self, e: Extent) {
        let as_extent = |(&first, &len): (&Chunk, &Chunks)| Extent { first, len };
        let below = self.by_address.range(..=e.first).next_back();
        let left = below.map(as_extent);
        let above = self.by_address.range((Excluded(e.first), Unbounded)).next();
        let right = above.map(as_extent);
        let mut whole = e;
        if let Some(left) = left {
            assert!(left.end() <= e.first, "a chunk of {e} is freed twice");
            if left.end() == e.first {
                self.remove(left);
                whole = Extent::between(left.first, whole.end());
            }
        }
        if let Some(right) = right {
            assert!(e.end() <= right.first, "a chunk of {e} is freed twice");
            if e.end() == right.first {
                self.remove(right);
                whole = Extent::between(whole.first, right.end());
            }
        }
        self.insert(whole);
    }

    fn pieces(&self) -> usize {
        self.by_address.len()
    }

    fn free_pieces(&self) -> Vec<Extent> {
        self.by_size.in_order()
    }
}
