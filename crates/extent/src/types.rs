//! Positions, distances and runs of chunks, as types that cannot be confused.
//!
//! `Chunk + Chunks = Chunk`, `Chunk - Chunk = Chunks`. A space has at most 2^32 - 1 chunks, so the end of an extent,
//! one past its last chunk, is a `Chunk` as well.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Sub, SubAssign};

/// The position of a chunk, counted from 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Chunk(pub u32);

/// A number of chunks.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Chunks(pub u32);

/// The chunks `[first, first + len)`; never empty. Ordered by `first`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Extent {
    /// The lowest chunk.
    pub first: Chunk,
    /// Number of chunks; at least 1.
    pub len: Chunks,
}

impl Chunks {
    /// No chunks.
    pub const ZERO: Chunks = Chunks(0);
}

impl Extent {
    /// An extent from trusted numbers. Panics if `len` is 0 or the end exceeds 2^32 - 1.
    #[inline]
    pub const fn new(first: Chunk, len: Chunks) -> Self {
        assert!(len.0 > 0, "an extent is never empty");
        assert!(
            len.0 <= u32::MAX - first.0,
            "an extent ends at 2^32 - 1 at the latest"
        );
        Extent { first, len }
    }

    /// An extent from numbers that came from disk: `None` if it would be empty or end beyond 2^32 - 1.
    #[inline]
    pub const fn try_new(first: Chunk, len: Chunks) -> Option<Self> {
        if len.0 > 0 && len.0 <= u32::MAX - first.0 {
            Some(Extent { first, len })
        } else {
            None
        }
    }

    /// From `first` up to, not including, `end`. Panics unless `first < end`.
    #[inline]
    pub const fn between(first: Chunk, end: Chunk) -> Self {
        assert!(first.0 < end.0, "an extent is never empty");
        Extent {
            first,
            len: Chunks(end.0 - first.0),
        }
    }

    /// The highest chunk.
    #[inline]
    pub const fn last(self) -> Chunk {
        Chunk(self.first.0 + (self.len.0 - 1))
    }

    /// One past the highest chunk.
    #[inline]
    pub const fn end(self) -> Chunk {
        Chunk(self.first.0 + self.len.0)
    }

    /// Does the extent contain this chunk?
    #[inline]
    pub const fn contains(self, chunk: Chunk) -> bool {
        // Below `first` the difference wraps to a number at least as large as any `len`.
        chunk.0.wrapping_sub(self.first.0) < self.len.0
    }

    /// Does it contain every chunk of `other`?
    #[inline]
    pub const fn covers(self, other: Extent) -> bool {
        self.contains(other.first) && self.contains(other.last())
    }

    /// Do the two have a chunk in common?
    #[inline]
    pub const fn overlaps(self, other: Extent) -> bool {
        self.contains(other.first) || other.contains(self.first)
    }

    /// Is the extent valid and within a space of `total` chunks?
    #[inline]
    pub const fn fits_in(self, total: Chunks) -> bool {
        match Extent::try_new(self.first, self.len) {
            Some(e) => e.end().0 <= total.0,
            None => false,
        }
    }

    /// The first `len` chunks, and the rest of the extent. Panics unless `0 < len <= self.len`.
    #[inline]
    pub fn cut_front(self, len: Chunks) -> (Extent, Option<Extent>) {
        assert!(len <= self.len, "cannot cut {} chunks from {self}", len.0);
        let front = Extent::new(self.first, len);
        let rest = if len < self.len {
            Some(Extent::between(front.end(), self.end()))
        } else {
            None
        };
        (front, rest)
    }

    /// The parts before and after `hole`. Panics unless the extent contains `hole`.
    pub fn around(self, hole: Extent) -> (Option<Extent>, Option<Extent>) {
        assert!(self.covers(hole), "{hole} is not within {self}");
        let before = (self.first < hole.first).then(|| Extent::between(self.first, hole.first));
        let behind = (hole.end() < self.end()).then(|| Extent::between(hole.end(), self.end()));
        (before, behind)
    }
}

impl Add<Chunks> for Chunk {
    type Output = Chunk;
    #[inline]
    fn add(self, distance: Chunks) -> Chunk {
        Chunk(self.0 + distance.0)
    }
}

impl Sub<Chunks> for Chunk {
    type Output = Chunk;
    #[inline]
    fn sub(self, distance: Chunks) -> Chunk {
        Chunk(self.0 - distance.0)
    }
}

impl Sub for Chunk {
    type Output = Chunks;
    #[inline]
    fn sub(self, from: Chunk) -> Chunks {
        Chunks(self.0 - from.0)
    }
}

impl AddAssign<Chunks> for Chunk {
    #[inline]
    fn add_assign(&mut self, distance: Chunks) {
        self.0 += distance.0;
    }
}

impl Add for Chunks {
    type Output = Chunks;
    #[inline]
    fn add(self, other: Chunks) -> Chunks {
        Chunks(self.0 + other.0)
    }
}

impl Sub for Chunks {
    type Output = Chunks;
    #[inline]
    fn sub(self, other: Chunks) -> Chunks {
        Chunks(self.0 - other.0)
    }
}

impl AddAssign for Chunks {
    #[inline]
    fn add_assign(&mut self, other: Chunks) {
        self.0 += other.0;
    }
}

impl SubAssign for Chunks {
    #[inline]
    fn sub_assign(&mut self, other: Chunks) {
        self.0 -= other.0;
    }
}

impl Sum for Chunks {
    fn sum<I: Iterator<Item = Chunks>>(lengths: I) -> Chunks {
        lengths.fold(Chunks::ZERO, Add::add)
    }
}

impl fmt::Display for Extent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Must not panic for an invalid extent.
        write!(
            f,
            "{}..{}",
            self.first.0,
            u64::from(self.first.0) + u64::from(self.len.0)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn e(first: u32, end: u32) -> Extent {
        Extent::between(Chunk(first), Chunk(end))
    }

    #[test]
    fn an_extent_knows_its_ends() {
        let run = e(5, 8);
        assert_eq!(
            (run.first, run.last(), run.end()),
            (Chunk(5), Chunk(7), Chunk(8))
        );
        assert_eq!(
            [4, 5, 7, 8].map(|c| run.contains(Chunk(c))),
            [false, true, true, false]
        );
        assert_eq!(run.to_string(), "5..8");
    }

    #[test]
    fn extents_overlap_when_they_share_a_chunk() {
        assert!(e(5, 8).overlaps(e(7, 9)) && e(7, 9).overlaps(e(5, 8)));
        assert!(e(5, 8).overlaps(e(6, 7)) && e(6, 7).overlaps(e(5, 8)));
        assert!(!e(5, 8).overlaps(e(8, 9)) && !e(8, 9).overlaps(e(5, 8)));
        assert!(e(5, 8).covers(e(5, 8)) && !e(5, 8).covers(e(5, 9)));
    }

    #[test]
    fn the_last_extent_ends_at_the_limit() {
        let last = Extent::new(Chunk(u32::MAX - 1), Chunks(1));
        assert_eq!(last.end(), Chunk(u32::MAX));
        assert_eq!(Extent::try_new(Chunk(u32::MAX), Chunks(1)), None);
        assert_eq!(Extent::try_new(Chunk(0), Chunks(0)), None);
    }

    #[test]
    fn unsound_numbers_fit_nowhere() {
        let total = Chunks(u32::MAX);
        assert!(
            !Extent {
                first: Chunk(7),
                len: Chunks(0)
            }
            .fits_in(total)
        );
        assert!(
            !Extent {
                first: Chunk(7),
                len: Chunks(u32::MAX)
            }
            .fits_in(total)
        );
        assert!(e(0, 10).fits_in(Chunks(10)) && !e(0, 11).fits_in(Chunks(10)));
    }

    #[test]
    fn cutting_leaves_the_rest() {
        assert_eq!(e(5, 8).cut_front(Chunks(2)), (e(5, 7), Some(e(7, 8))));
        assert_eq!(e(5, 8).cut_front(Chunks(3)), (e(5, 8), None));
        assert_eq!(e(5, 8).around(e(6, 7)), (Some(e(5, 6)), Some(e(7, 8))));
        assert_eq!(e(5, 8).around(e(5, 8)), (None, None));
    }
}
