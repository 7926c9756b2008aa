//! Rival: merging by testing the bit vector in a row, the way paper 000 sets out to improve on.
//!
//! The neighbours of a freed extent are found by walking the bit vector from its two ends to the next used chunk. No
//! tables by address are needed, but the walk is as long as the neighbours are. Two gaits:
//!
//! | type | a step tests | |
//! |---|---|---|
//! | [`LinearMerge`] | one bit | the paper's |
//! | [`WordMerge`] | a word of 64 | what one would write today |
//!
//! The pieces stand in a tree ordered by size, where a piece is found by its own extent.
//!
//! Invariants, checked by `audit`: F1 and F2 as in UNIFIED.
//! Source: paper 000, section 4.4 ("sequential and exhausted testing").

use crate::bitmap::Bitmap;
use crate::{Chunk, Chunks, Extent, SpaceManager};
use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::marker::PhantomData;

/// Worst fit, neighbours found bit by bit.
pub type LinearMerge = ScanMerge<BitByBit>;

/// Worst fit, neighbours found word by word.
pub type WordMerge = ScanMerge<WordByWord>;

/// How the bit vector is walked. Bits are asked for by position; a used chunk ends the walk.
pub trait Scan {
    /// Does a step look at a whole word?
    const BY_WORD: bool;
}

/// One bit a step.
#[derive(Clone, Debug)]
pub struct BitByBit;

/// One word of 64 bits a step.
#[derive(Clone, Debug)]
pub struct WordByWord;

impl Scan for BitByBit {
    const BY_WORD: bool = false;
}

impl Scan for WordByWord {
    const BY_WORD: bool = true;
}

/// Bit vector and a tree ordered by size, no tables by address.
#[derive(Clone)]
pub struct ScanMerge<S> {
    bits: Bitmap,
    /// As in the trees: the last one is the longest, of equal ones the lowest.
    by_size: BTreeSet<(Chunks, Reverse<Chunk>)>,
    free: Chunks,
    scan: PhantomData<S>,
}

impl<S: Scan> ScanMerge<S> {
    fn insert(&mut self, piece: Extent) {
        self.by_size.insert((piece.len, Reverse(piece.first)));
    }

    fn remove(&mut self, piece: Extent) {
        let was_there = self.by_size.remove(&(piece.len, Reverse(piece.first)));
        assert!(
            was_there,
            "a run of clear bits, {piece}, that is no piece breaks F2"
        );
    }

    /// The first chunk of the free run that ends with `chunk`.
    fn run_start(&self, chunk: Chunk) -> Chunk {
        if S::BY_WORD {
            return self.bits.run_start(chunk);
        }
        let mut first = chunk;
        while first.0 > 0 && self.bits.is_free(Chunk(first.0 - 1)) {
            first.0 -= 1;
        }
        first
    }

    /// One past the last chunk of the free run that begins with `chunk`.
    fn run_end(&self, chunk: Chunk) -> Chunk {
        if S::BY_WORD {
            return self.bits.run_end(chunk);
        }
        let mut end = chunk;
        while self.bits.is_free(end) {
            end.0 += 1;
        }
        end
    }

    fn cut(&mut self, piece: Extent, hole: Extent) {
        self.bits.mark_used(hole);
        self.free -= hole.len;
        self.remove(piece);
        let (before, behind) = piece.around(hole);
        before
            .into_iter()
            .chain(behind)
            .for_each(|rest| self.insert(rest));
    }
}

impl<S: Scan> SpaceManager for ScanMerge<S> {
    fn new_all_free(total: Chunks) -> Self {
        let bits = Bitmap::new_all_free(total);
        let mut space = ScanMerge {
            bits,
            by_size: BTreeSet::new(),
            free: total,
            scan: PhantomData,
        };
        if total > Chunks::ZERO {
            space.insert(Extent::new(Chunk(0), total));
        }
        space
    }

    fn allocate(&mut self, len: Chunks) -> Option<Extent> {
        assert!(len > Chunks::ZERO, "a cut of no chunks");
        let piece = self.largest().filter(|piece| piece.len >= len)?;
        let (cut, _) = piece.cut_front(len);
        self.cut(piece, cut);
        Some(cut)
    }

    fn free(&mut self, e: Extent) {
        //= paper 000 section 4.4   testing from the chunk next to the removed object to the first used one
        self.bits.mark_free(e);
        self.free += e.len;
        let mut whole = e;
        if e.first.0 > 0 && self.bits.is_free(Chunk(e.first.0 - 1)) {
            let left = Extent::between(self.run_start(Chunk(e.first.0 - 1)), e.first);
            self.remove(left);
            whole = Extent::between(left.first, whole.end());
        }
        if self.bits.is_free(e.end()) {
            let right = Extent::between(e.end(), self.run_end(e.end()));
            self.remove(right);
            whole = Extent::between(whole.first, right.end());
        }
        self.insert(whole);
    }

    fn reserve(&mut self, e: Extent) -> bool {
        if !e.fits_in(self.total()) || !self.bits.all_free(e) {
            return false;
        }
        let piece = Extent::between(self.run_start(e.first), self.run_end(e.last()));
        self.cut(piece, e);
        true
    }

    fn free_chunks(&self) -> Chunks {
        self.free
    }

    fn pieces(&self) -> usize {
        self.by_size.len()
    }

    fn largest(&self) -> Option<Extent> {
        self.by_size.last().map(|&(len, first)| Extent {
            first: first.0,
            len,
        })
    }

    fn total(&self) -> Chunks {
        self.bits.total()
    }

    fn free_pieces(&self) -> Vec<Extent> {
        let pieces = self.by_size.iter().map(|&(len, first)| Extent {
            first: first.0,
            len,
        });
        let mut pieces: Vec<Extent> = pieces.collect();
        pieces.sort_unstable();
        pieces
    }

    fn audit(&self) -> Result<(), String> {
        let pieces = self.free_pieces();
        if !self.bits.free_runs().eq(pieces.iter().copied()) {
            return Err("F2: the pieces are not the runs of clear bits".into());
        }
        let free: Chunks = pieces.iter().map(|piece| piece.len).sum();
        if free != self.free {
            return Err(format!(
                "{} chunks are free, but {} are counted",
                free.0, self.free.0
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::run;

    #[test]
    fn both_gaits_find_the_same_neighbours() {
        for script in [
            "a=take 10, b=take 10, c=take 10, free a, free c, free b",
            "a=take 70, b=take 1, c=take 129, free a, free c, free b",
            "a=reserve 64..128, b=reserve 199..200, free a, c=reserve 0..1, free c",
            "a=take 200, free 100..101, free 99..100, free 101..102",
        ] {
            assert_eq!(
                run::<LinearMerge>(200, script),
                run::<WordMerge>(200, script),
                "{script}"
            );
            assert_eq!(
                run::<LinearMerge>(200, script),
                run::<crate::Unified>(200, script),
                "{script}"
            );
        }
    }

    #[test]
    #[should_panic(expected = "freed twice")]
    fn a_double_free_is_noticed() {
        run::<LinearMerge>(30, "a=take 30, free 10..20, free 5..11");
    }
}
