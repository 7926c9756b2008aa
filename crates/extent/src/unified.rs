//! The UNIFIED allocator: decides where the next object is stored.
//!
//! Objects are written once, and many die together. So we trade space for long runs: every request is cut from the front of the *largest* free
//! piece until that piece is used up, which turns the writes of many objects into one. Three views of the same free space make that cheap:
//! `bitmap` (the truth), `heap` (longest first), `ends` (the neighbours of a freed extent).
//!
//! | call | time |
//! |---|---|
//! | `allocate`, `cut_largest` | O(lg n), one table entry moved; O(1) while one piece is far longer than the others |
//! | `free` | O(lg n), whatever the length of the neighbours |
//! | `reserve` | as `free`, plus a search in the bit vector for the piece around the extent, 64 chunks a step |
//! | `from_used` | O(n + chunks / 64) |
//!
//! In addition each takes 1/64 step for each chunk whose bit changes.
//!
//! Invariants, all checked by `audit`:
//!   F1  free pieces are disjoint, and no two touch
//!   F2  a chunk's bit is clear exactly when one free piece covers it
//!   F3  `heap` and `ends` hold the same pieces
//!
//! Not known here: objects, files, time.
//! Limits: 2^32 - 1 chunks. Memory: one bit a chunk; 16 bytes a piece in the heap, and twice 6 to 12 in the tables. The arrays double, so they may
//! hold as much again in reserve.
//! Source: paper 000, sections 4.1 to 4.5. We differ: ties go to the lowest address, so that runs repeat exactly; and a neighbour that merges grows
//! in its place instead of being removed and inserted again.

use crate::bitmap::Bitmap;
use crate::ends::Ends;
use crate::heap::{Handle, Heap};
use crate::types::{Chunk, Chunks, Extent};
use std::fmt;

/// Bit vector, worst-fit max-heap, front and rear hash tables.
#[derive(Clone)]
pub struct Unified {
    bits: Bitmap,
    heap: Heap,
    ends: Ends,
    free: Chunks,
}

/// Two extents claim the same chunk, or one claims chunks that do not exist.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Overlap {
    /// The later of the two, in the given order; or the one that is empty or ends beyond the space.
    pub extent: Extent,
}

impl fmt::Display for Overlap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "extent {} overlaps another, or lies outside the space",
            self.extent
        )
    }
}

impl std::error::Error for Overlap {}

impl Unified {
    /// A space of `total` chunks, every one free. `total` may be 0.
    pub fn new_all_free(total: Chunks) -> Self {
        let mut space = Unified {
            bits: Bitmap::new_all_free(total),
            heap: Heap::new(),
            ends: Ends::new(),
            free: total,
        };
        if total > Chunks::ZERO {
            space.add_piece(Extent::new(Chunk(0), total));
        }
        space
    }

    /// Cuts up to `want` chunks from the front of the largest piece: `want` if the piece is that long, the whole piece if it has at least `at_least`
    /// chunks, and else `None`. The cluster writer calls this, and continues in the same piece, with neighbouring chunks, until the piece is used
    /// up. `0 < at_least <= want` (asserted).
    pub fn cut_largest(&mut self, at_least: Chunks, want: Chunks) -> Option<Extent> {
        assert!(at_least > Chunks::ZERO, "a cut of no chunks");
        assert!(
            at_least <= want,
            "at least {} of {} chunks",
            at_least.0,
            want.0
        );
        //= paper 000 section 4.3   worst fit: the largest piece is used until it is exhausted
        let (handle, piece) = self
            .heap
            .peek()
            .filter(|(_, piece)| piece.len >= at_least)?;
        let (cut, rest) = piece.cut_front(want.min(piece.len));
        self.bits.mark_used(cut);
        self.free -= cut.len;
        match rest {
            // The rear stays in its place; only the front moves.
            Some(rest) => {
                self.ends.remove_front(handle, piece.first);
                self.heap.replace(handle, rest);
                self.ends.insert_front(&self.heap, handle, rest.first);
            }
            None => self.drop_piece(handle, piece),
        }
        Some(cut)
    }

    /// A space in which exactly the extents `used` (in any order) are used. A restart rebuilds the allocator with this. `Err` if two overlap or one
    /// does not fit, because the numbers may come from disk.
    //= paper 000 section 4.5   the bit vector is recovered first; heap and tables are rebuilt from it
    pub fn from_used(total: Chunks, used: impl Iterator<Item = Extent>) -> Result<Self, Overlap> {
        let mut bits = Bitmap::new_all_free(total);
        let mut free = total;
        for extent in used {
            if !extent.fits_in(total) || !bits.all_free(extent) {
                return Err(Overlap { extent });
            }
            bits.mark_used(extent);
            free -= extent.len;
        }
        let heap = Heap::from_pieces(bits.free_runs());
        let ends = Ends::from_heap(&heap);
        Ok(Unified {
            bits,
            heap,
            ends,
            free,
        })
    }

    /// Is this chunk free? `false` beyond the end.
    pub fn is_free(&self, chunk: Chunk) -> bool {
        self.bits.is_free(chunk)
    }

    /// Is every chunk of `e` in use? `false` if `e` does not fit.
    pub fn is_used(&self, e: Extent) -> bool {
        e.fits_in(self.total()) && self.bits.all_used(e)
    }

    /// Bytes of memory held: bit vector, heap and tables.
    pub fn memory_bytes(&self) -> usize {
        self.bits.memory_bytes() + self.heap.memory_bytes() + self.ends.memory_bytes()
    }

    /// Takes `len` neighbouring chunks; `None` if no free piece is that long. `len` must not be 0 (asserted).
    pub fn allocate(&mut self, len: Chunks) -> Option<Extent> {
        self.cut_largest(len, len)
    }

    /// Gives the chunks of `e` back and merges them with free neighbours. Every chunk of `e` must be in use (asserted: a double free is our own
    /// error). `e` need not be an extent as it was allocated: it may be a part of one, or cover several neighbours.
    pub fn free(&mut self, e: Extent) {
        //= paper 000 section 4.4   left merging by the rear table, right merging by the front table
        self.bits.mark_free(e);
        self.free += e.len;
        match (self.left_of(e), self.right_of(e)) {
            (None, None) => self.add_piece(e),
            (Some((left, l)), None) => {
                self.ends.remove_rear(left, l.last());
                self.heap.replace(left, Extent::between(l.first, e.end()));
                self.ends.insert_rear(&self.heap, left, e.last());
            }
            (None, Some((right, r))) => {
                self.ends.remove_front(right, r.first);
                self.heap.replace(right, Extent::between(e.first, r.end()));
                self.ends.insert_front(&self.heap, right, e.first);
            }
            // The left piece absorbs the right one: three table entries are touched, none inserted.
            (Some((left, l)), Some((right, r))) => {
                self.ends.remove_rear(left, l.last());
                self.ends.remove_front(right, r.first);
                self.ends.hand_over_rear(r.last(), right, left);
                self.heap.remove(right);
                self.heap.replace(left, Extent::between(l.first, r.end()));
            }
        }
    }

    /// Takes exactly `e`, as when an index is reloaded. `false`, and nothing changed, if `e` is empty, lies beyond the
    /// end, or any of its chunks is in use.
    pub fn reserve(&mut self, e: Extent) -> bool {
        if !e.fits_in(self.total()) || !self.bits.all_free(e) {
            return false;
        }
        let found = self
            .ends
            .starting_at(&self.heap, self.bits.run_start(e.first));
        let handle = found.expect("the start of a free run is some piece's first (F2, F3)");
        let piece = self.heap.get(handle);
        let (before, behind) = piece.around(e);
        self.bits.mark_used(e);
        self.free -= e.len;
        self.drop_piece(handle, piece);
        before
            .into_iter()
            .chain(behind)
            .for_each(|rest| self.add_piece(rest));
        true
    }

    /// Number of free chunks.
    pub fn free_chunks(&self) -> Chunks {
        self.free
    }

    /// Number of free pieces. No two of them touch.
    pub fn pieces(&self) -> usize {
        self.heap.len()
    }

    /// The longest free piece, or the lowest of equal ones.
    pub fn largest(&self) -> Option<Extent> {
        self.heap.peek().map(|(_, piece)| piece)
    }

    /// The size of the space, used and free.
    pub fn total(&self) -> Chunks {
        self.bits.total()
    }

    /// All free pieces in order of address. Takes O(n lg n) time: for tests and reports.
    pub fn free_pieces(&self) -> Vec<Extent> {
        let mut pieces: Vec<Extent> = self.heap.iter().map(|(_, piece)| piece).collect();
        pieces.sort_unstable();
        pieces
    }

    /// Checks every invariant in full, O(n lg n); an error says which one does not hold. For tests and simulation.
    pub fn audit(&self) -> Result<(), String> {
        self.heap.audit()?;
        let pieces = self.free_pieces();
        if let Some(pair) = pieces
            .windows(2)
            .find(|pair| pair[0].end() >= pair[1].first)
        {
            return Err(format!("F1: {} and {} touch or overlap", pair[0], pair[1]));
        }
        if !self.bits.free_runs().eq(pieces.iter().copied()) {
            return Err("F2: the pieces are not the runs of clear bits".into());
        }
        self.ends.audit(&self.heap)?;
        let free: Chunks = pieces.iter().map(|piece| piece.len).sum();
        if free != self.free {
            return Err(format!(
                "{} chunks are free, but {} are counted",
                free.0, self.free.0
            ));
        }
        Ok(())
    }

    fn add_piece(&mut self, piece: Extent) {
        let handle = self.heap.insert(piece);
        self.ends.insert(&self.heap, handle, piece);
    }

    fn drop_piece(&mut self, handle: Handle, piece: Extent) {
        self.ends.remove(handle, piece);
        self.heap.remove(handle);
    }

    /// The piece that ends just below `e`. The bit tells whether there is one, the table which one.
    #[inline]
    fn left_of(&self, e: Extent) -> Option<(Handle, Extent)> {
        let chunk = Chunk(e.first.0.checked_sub(1)?);
        self.bits.is_free(chunk).then(|| {
            let found = self.ends.ending_at(&self.heap, chunk);
            let handle =
                found.expect("a free chunk below a used one is some piece's last (F2, F3)");
            (handle, self.heap.get(handle))
        })
    }

    /// The piece that begins just above `e`.
    #[inline]
    fn right_of(&self, e: Extent) -> Option<(Handle, Extent)> {
        let chunk = e.end();
        self.bits.is_free(chunk).then(|| {
            let found = self.ends.starting_at(&self.heap, chunk);
            let handle =
                found.expect("a free chunk above a used one is some piece's first (F2, F3)");
            (handle, self.heap.get(handle))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::run;
    use expect_test::{Expect, expect};

    fn check(total: u32, script: &str, expected: Expect) {
        expected.assert_eq(&run(total, script));
    }

    fn e(first: u32, end: u32) -> Extent {
        Extent::between(Chunk(first), Chunk(end))
    }

    #[test]
    fn taking_cuts_from_the_front() {
        check(
            100,
            "a=take 10, b=take 20",
            expect!["a 0..10, b 10..30, free 30..100"],
        );
    }

    #[test]
    fn taking_everything_leaves_nothing() {
        check(
            100,
            "a=take 100, b=take 1",
            expect!["a 0..100, b none, free nothing"],
        );
    }

    #[test]
    fn freeing_without_neighbours_makes_a_piece() {
        check(
            30,
            "a=take 10, b=take 10, c=take 10, free b",
            expect!["a 0..10, c 20..30, free 10..20"],
        );
    }

    #[test]
    fn freeing_merges_to_the_left() {
        check(
            30,
            "a=take 10, b=take 10, c=take 10, free a, free b",
            expect!["c 20..30, free 0..20"],
        );
    }

    #[test]
    fn freeing_merges_to_the_right() {
        check(
            30,
            "a=take 10, b=take 10, c=take 10, free b, free a",
            expect!["c 20..30, free 0..20"],
        );
    }

    #[test]
    fn freeing_the_middle_joins_three() {
        check(
            100,
            "a=take 10, b=take 10, c=take 10, free a, free c, free b",
            expect!["free 0..100"],
        );
    }

    #[test]
    fn figure_5_of_the_paper() {
        // Free 5..=7 and 12..=15 around the object x at 8..=11.
        check(
            20,
            "a=take 5, l=take 3, x=take 4, r=take 4, z=take 4, free l, free r, free x",
            expect!["a 0..5, z 16..20, free 5..16"],
        );
    }

    #[test]
    fn the_largest_piece_is_used_first() {
        check(
            60,
            "a=take 10, b=take 1, c=take 30, d=take 19, free a, free c, e=take 5",
            expect!["b 10..11, d 41..60, e 11..16, free 0..10 16..41"],
        );
    }

    #[test]
    fn of_equal_pieces_the_lowest_is_used() {
        check(
            50,
            "a=take 10, b=take 10, c=take 10, d=take 20, free c, free a, e=take 3",
            expect!["b 10..20, d 30..50, e 0..3, free 3..10 20..30"],
        );
    }

    #[test]
    fn a_part_can_be_freed() {
        check(
            40,
            "a=take 40, free 10..20, free 30..40, b=take 10",
            expect!["a 0..40, b 10..20, free 30..40"],
        );
    }

    #[test]
    fn reserving_takes_exactly_that() {
        check(
            40,
            "a=reserve 10..20, b=reserve 19..21, c=reserve 0..10",
            expect!["a 10..20, b none, c 0..10, free 20..40"],
        );
        check(
            40,
            "a=reserve 30..41, b=reserve 39..40",
            expect!["a none, b 39..40, free 0..39"],
        );
    }

    #[test]
    fn cutting_takes_what_the_largest_piece_has() {
        let mut space = Unified::from_used(Chunks(40), [e(12, 30)].into_iter()).unwrap();
        assert_eq!(space.cut_largest(Chunks(2), Chunks(8)), Some(e(0, 8)));
        assert_eq!(space.cut_largest(Chunks(2), Chunks(8)), Some(e(30, 38)));
        assert_eq!(
            space.cut_largest(Chunks(2), Chunks(8)),
            Some(e(8, 12)),
            "the whole piece, shorter than wanted"
        );
        assert_eq!(space.cut_largest(Chunks(3), Chunks(8)), None);
        assert_eq!(space.cut_largest(Chunks(2), Chunks(8)), Some(e(38, 40)));
        assert_eq!(space.free_chunks(), Chunks(0));
        space.audit().unwrap();
    }

    #[test]
    fn rebuilt_from_the_used_extents_in_any_order() {
        let space =
            Unified::from_used(Chunks(130), [e(64, 128), e(3, 9), e(9, 11)].into_iter()).unwrap();
        space.audit().unwrap();
        assert_eq!(space.free_pieces(), [e(0, 3), e(11, 64), e(128, 130)]);
        assert_eq!(space.free_chunks(), Chunks(58));
        assert!(space.is_used(e(3, 11)) && !space.is_used(e(3, 12)) && space.is_free(Chunk(0)));
    }

    #[test]
    fn rebuilding_refuses_what_cannot_be() {
        let refused = |used: &[Extent]| Unified::from_used(Chunks(10), used.iter().copied()).err();
        assert_eq!(
            refused(&[e(0, 4), e(3, 5)]),
            Some(Overlap { extent: e(3, 5) })
        );
        assert_eq!(refused(&[e(0, 11)]), Some(Overlap { extent: e(0, 11) }));
        let unsound = Extent {
            first: Chunk(u32::MAX),
            len: Chunks(7),
        };
        assert_eq!(refused(&[unsound]), Some(Overlap { extent: unsound }));
        let empty = Extent {
            first: Chunk(2),
            len: Chunks(0),
        };
        assert_eq!(refused(&[empty]), Some(Overlap { extent: empty }));
        assert_eq!(refused(&[e(0, 10)]), None);
    }

    #[test]
    fn the_largest_space_works_to_its_end() {
        let total = Chunks(u32::MAX);
        let mut space = Unified::from_used(total, [e(0, u32::MAX - 100)].into_iter()).unwrap();
        let tail = space.allocate(Chunks(100)).unwrap();
        assert_eq!(tail.end(), Chunk(u32::MAX));
        space.free(tail);
        assert_eq!(space.largest(), Some(tail));
        space.free(e(0, u32::MAX - 100));
        assert_eq!(space.largest(), Some(e(0, u32::MAX)));
    }

    #[test]
    #[should_panic(expected = "freed twice")]
    fn a_double_free_is_noticed() {
        check(10, "a=take 5, free 0..5, free 0..5", expect![""]);
    }

    #[test]
    #[should_panic(expected = "no chunks")]
    fn taking_nothing_is_refused() {
        Unified::new_all_free(Chunks(10)).allocate(Chunks(0));
    }
}
