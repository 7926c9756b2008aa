//! Rival: balanced trees instead of heap and hash tables.
//!
//! `by_address` (first chunk -> length) finds the neighbours of a freed extent, `by_size` the piece to cut from; both
//! are B-trees of the standard library. Everything is O(lg n), and one structure more general than needed stands for
//! each of UNIFIED's special ones. No bit vector: what is not in a piece is used.
//!
//! Who chooses the piece is a parameter: [`TreeMerge`] takes the longest, as UNIFIED does, and so yields the same
//! extents; `BestFit` and `FirstFit` in the files beside are the other two.
//!
//! Invariants, checked by `audit`: F1 as in UNIFIED; both trees hold the same pieces.
//! Source: paper 000 compares with nothing of the kind; this is what one would write today without it.

use crate::{Chunk, Chunks, Extent, SpaceManager};
use std::collections::{BTreeMap, BTreeSet};
use std::marker::PhantomData;

/// Worst fit, neighbours found in a balanced tree.
pub type TreeMerge = Trees<Longest>;

/// Chooses the piece to cut an allocation from.
pub trait Choose {
    /// A piece of at least `len` chunks, if there is one.
    fn choose(pieces: &Pieces, len: Chunks) -> Option<Extent>;
}

/// The longest piece, of equal ones the lowest.
#[derive(Clone, Debug)]
pub struct Longest;

impl Choose for Longest {
    fn choose(pieces: &Pieces, len: Chunks) -> Option<Extent> {
        pieces.longest().filter(|piece| piece.len >= len)
    }
}

/// Free pieces in two balanced trees.
#[derive(Clone, Debug)]
pub struct Trees<C> {
    pieces: Pieces,
    total: Chunks,
    free: Chunks,
    chooser: PhantomData<C>,
}

/// The two trees, always changed together.
#[derive(Clone, Default, Debug)]
pub struct Pieces {
    by_address: BTreeMap<Chunk, Chunks>,
    /// Ordered by length; equal ones by address, the *highest* first, so that the last one is the one to cut.
    by_size: BTreeSet<(Chunks, std::cmp::Reverse<Chunk>)>,
}

impl Pieces {
    pub(super) fn longest(&self) -> Option<Extent> {
        self.by_size.last().map(|&(len, first)| Extent {
            first: first.0,
            len,
        })
    }

    /// The shortest of at least `len` chunks, of equal ones the lowest.
    pub(super) fn tightest(&self, len: Chunks) -> Option<Extent> {
        // The first match tells the length; of that length the last one is the lowest.
        let &(len, _) = self
            .by_size
            .range((len, std::cmp::Reverse(Chunk(u32::MAX)))..)
            .next()?;
        let &(len, first) = self
            .by_size
            .range(..=(len, std::cmp::Reverse(Chunk(0))))
            .next_back()?;
        Some(Extent {
            first: first.0,
            len,
        })
    }

    /// The lowest of at least `len` chunks. Looks at one after the other.
    pub(super) fn lowest(&self, len: Chunks) -> Option<Extent> {
        self.in_order().find(|piece| piece.len >= len)
    }

    fn in_order(&self) -> impl Iterator<Item = Extent> + '_ {
        self.by_address
            .iter()
            .map(|(&first, &len)| Extent { first, len })
    }

    fn insert(&mut self, piece: Extent) {
        self.by_address.insert(piece.first, piece.len);
        self.by_size
            .insert((piece.len, std::cmp::Reverse(piece.first)));
    }

    fn remove(&mut self, piece: Extent) {
        self.by_address.remove(&piece.first);
        self.by_size
            .remove(&(piece.len, std::cmp::Reverse(piece.first)));
    }

    /// The piece with the highest first chunk at or below `chunk`.
    fn at_or_below(&self, chunk: Chunk) -> Option<Extent> {
        self.by_address
            .range(..=chunk)
            .next_back()
            .map(|(&first, &len)| Extent { first, len })
    }

    /// The piece with the lowest first chunk above `chunk`.
    fn above(&self, chunk: Chunk) -> Option<Extent> {
        let above = (std::ops::Bound::Excluded(chunk), std::ops::Bound::Unbounded);
        self.by_address
            .range(above)
            .next()
            .map(|(&first, &len)| Extent { first, len })
    }

    /// Takes `hole` out of `piece`.
    fn cut(&mut self, piece: Extent, hole: Extent) {
        self.remove(piece);
        let (before, behind) = piece.around(hole);
        before
            .into_iter()
            .chain(behind)
            .for_each(|rest| self.insert(rest));
    }
}

impl<C: Choose> SpaceManager for Trees<C> {
    fn new_all_free(total: Chunks) -> Self {
        let mut pieces = Pieces::default();
        if total > Chunks::ZERO {
            pieces.insert(Extent::new(Chunk(0), total));
        }
        Trees {
            pieces,
            total,
            free: total,
            chooser: PhantomData,
        }
    }

    fn allocate(&mut self, len: Chunks) -> Option<Extent> {
        assert!(len > Chunks::ZERO, "a cut of no chunks");
        let piece = C::choose(&self.pieces, len)?;
        let (cut, _) = piece.cut_front(len);
        self.pieces.cut(piece, cut);
        self.free -= len;
        Some(cut)
    }

    fn free(&mut self, e: Extent) {
        assert!(
            e.fits_in(self.total),
            "{e} is beyond the end, {}",
            self.total.0
        );
        let mut whole = e;
        if let Some(left) = self.pieces.at_or_below(e.first) {
            assert!(left.end() <= e.first, "a chunk of {e} is freed twice");
            if left.end() == e.first {
                self.pieces.remove(left);
                whole = Extent::between(left.first, whole.end());
            }
        }
        if let Some(right) = self.pieces.above(e.first) {
            assert!(e.end() <= right.first, "a chunk of {e} is freed twice");
            if e.end() == right.first {
                self.pieces.remove(right);
                whole = Extent::between(whole.first, right.end());
            }
        }
        self.pieces.insert(whole);
        self.free += e.len;
    }

    fn reserve(&mut self, e: Extent) -> bool {
        if !e.fits_in(self.total) {
            return false;
        }
        match self
            .pieces
            .at_or_below(e.first)
            .filter(|piece| piece.covers(e))
        {
            Some(piece) => {
                self.pieces.cut(piece, e);
                self.free -= e.len;
                true
            }
            None => false,
        }
    }

    fn free_chunks(&self) -> Chunks {
        self.free
    }

    fn pieces(&self) -> usize {
        self.pieces.by_address.len()
    }

    fn largest(&self) -> Option<Extent> {
        self.pieces.longest()
    }

    fn total(&self) -> Chunks {
        self.total
    }

    fn free_pieces(&self) -> Vec<Extent> {
        self.pieces.in_order().collect()
    }

    fn audit(&self) -> Result<(), String> {
        let pieces = self.free_pieces();
        if let Some(pair) = pieces
            .windows(2)
            .find(|pair| pair[0].end() >= pair[1].first)
        {
            return Err(format!("F1: {} and {} touch or overlap", pair[0], pair[1]));
        }
        if let Some(piece) = pieces.iter().find(|piece| !piece.fits_in(self.total)) {
            return Err(format!("F1: {piece} is beyond the end"));
        }
        let sizes = &self.pieces.by_size;
        let listed = |piece: &Extent| sizes.contains(&(piece.len, std::cmp::Reverse(piece.first)));
        if sizes.len() != pieces.len() || !pieces.iter().all(listed) {
            return Err("the two trees hold different pieces".into());
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
    use expect_test::expect;

    #[test]
    fn freeing_the_middle_joins_three() {
        expect!["free 0..100"].assert_eq(&run::<TreeMerge>(
            100,
            "a=take 10, b=take 10, c=take 10, free a, free c, free b",
        ));
    }

    #[test]
    fn of_equal_pieces_the_lowest_is_used() {
        expect!["b 10..20, d 30..50, e 0..3, free 3..10 20..30"].assert_eq(&run::<TreeMerge>(
            50,
            "a=take 10, b=take 10, c=take 10, d=take 20, free c, free a, e=take 3",
        ));
    }

    #[test]
    fn reserving_takes_exactly_that() {
        expect!["a 10..20, b none, c none, free 0..10 20..40"].assert_eq(&run::<TreeMerge>(
            40,
            "a=reserve 10..20, b=reserve 19..21, c=reserve 39..41",
        ));
    }

    #[test]
    #[should_panic(expected = "freed twice")]
    fn a_double_free_from_above_is_noticed() {
        run::<TreeMerge>(30, "a=take 30, free 10..20, free 15..25");
    }

    #[test]
    #[should_panic(expected = "freed twice")]
    fn a_double_free_from_below_is_noticed() {
        run::<TreeMerge>(30, "a=take 30, free 10..20, free 5..11");
    }
}
