//! The slow, obvious twin: one `bool` a chunk, and every question answered by looking at all of them.
//!
//! Model tests of this and other crates run a fast manager and this one side by side. It has no index that could be
//! wrong.
//!
//! Limits: a byte a chunk and O(chunks) a call; some thousand chunks are sensible.

use crate::{Chunk, Chunks, Extent, SpaceManager};
use std::cmp::Reverse;

/// Which of the free pieces that are long enough is cut. Of equal ones it is the lowest, always.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fit {
    /// The longest: worst fit.
    Worst,
    /// The shortest that is long enough.
    Best,
    /// The lowest.
    First,
}

/// Free space as a row of flags.
#[derive(Clone, Debug)]
pub struct Oracle {
    used: Vec<bool>,
    fit: Fit,
}

impl Oracle {
    /// `total` chunks, all free.
    pub fn new(total: Chunks, fit: Fit) -> Self {
        Oracle {
            used: vec![false; total.0 as usize],
            fit,
        }
    }

    /// What [`crate::Unified::cut_largest`] must return.
    pub fn cut_largest(&mut self, at_least: Chunks, want: Chunks) -> Option<Extent> {
        let piece = self.largest().filter(|piece| piece.len >= at_least)?;
        let (cut, _) = piece.cut_front(want.min(piece.len));
        self.set(cut, true);
        Some(cut)
    }

    /// Is every chunk of `e` in use? `false` if `e` does not fit.
    pub fn is_used(&self, e: Extent) -> bool {
        e.fits_in(self.total()) && self.flags(e).iter().all(|&used| used)
    }

    /// Is every chunk of `e` free? `false` if `e` does not fit.
    pub fn is_free(&self, e: Extent) -> bool {
        e.fits_in(self.total()) && self.flags(e).iter().all(|&used| !used)
    }

    /// The runs of used chunks, in order of address.
    pub fn used_runs(&self) -> Vec<Extent> {
        self.runs(true)
    }

    fn flags(&self, e: Extent) -> &[bool] {
        &self.used[e.first.0 as usize..e.end().0 as usize]
    }

    fn set(&mut self, e: Extent, used: bool) {
        for chunk in e.first.0..e.end().0 {
            let flag = &mut self.used[chunk as usize];
            assert!(*flag != used, "chunk {chunk} of {e} changes twice");
            *flag = used;
        }
    }

    fn runs(&self, used: bool) -> Vec<Extent> {
        let mut runs: Vec<Extent> = Vec::new();
        for (chunk, &flag) in (0..).map(Chunk).zip(&self.used) {
            if flag != used {
                continue;
            }
            match runs.last_mut() {
                Some(run) if run.end() == chunk => run.len += Chunks(1),
                _ => runs.push(Extent::new(chunk, Chunks(1))),
            }
        }
        runs
    }
}

impl SpaceManager for Oracle {
    /// Worst fit; [`Oracle::new`] has the others.
    fn new_all_free(total: Chunks) -> Self {
        Oracle::new(total, Fit::Worst)
    }

    fn allocate(&mut self, len: Chunks) -> Option<Extent> {
        assert!(len > Chunks::ZERO, "a cut of no chunks");
        let fitting = self
            .free_pieces()
            .into_iter()
            .filter(|piece| piece.len >= len);
        let piece = match self.fit {
            Fit::Worst => fitting.min_by_key(|piece| (Reverse(piece.len), piece.first)),
            Fit::Best => fitting.min_by_key(|piece| (piece.len, piece.first)),
            Fit::First => fitting.min_by_key(|piece| piece.first),
        }?;
        let (cut, _) = piece.cut_front(len);
        self.set(cut, true);
        Some(cut)
    }

    fn free(&mut self, e: Extent) {
        self.set(e, false);
    }

    fn reserve(&mut self, e: Extent) -> bool {
        let free = self.is_free(e);
        if free {
            self.set(e, true);
        }
        free
    }

    fn free_chunks(&self) -> Chunks {
        Chunks(self.used.iter().filter(|&&used| !used).count() as u32)
    }

    fn pieces(&self) -> usize {
        self.free_pieces().len()
    }

    fn largest(&self) -> Option<Extent> {
        self.free_pieces()
            .into_iter()
            .min_by_key(|piece| (Reverse(piece.len), piece.first))
    }

    fn total(&self) -> Chunks {
        Chunks(self.used.len() as u32)
    }

    fn free_pieces(&self) -> Vec<Extent> {
        self.runs(false)
    }

    fn audit(&self) -> Result<(), String> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::run;
    use expect_test::expect;

    #[test]
    fn it_speaks_the_same_language() {
        expect!["b 10..11, d 41..60, e 11..16, free 0..10 16..41"].assert_eq(&run::<Oracle>(
            60,
            "a=take 10, b=take 1, c=take 30, d=take 19, free a, free c, e=take 5",
        ));
    }

    #[test]
    fn each_fit_chooses_its_own_piece() {
        let cut = |fit| {
            let mut space = Oracle::new(Chunks(40), fit);
            for (first, end) in [(5, 6), (16, 17), (20, 21)] {
                assert!(space.reserve(Extent::between(Chunk(first), Chunk(end))));
            }
            space.allocate(Chunks(3)).unwrap().first
        };
        assert_eq!(
            (cut(Fit::First), cut(Fit::Best), cut(Fit::Worst)),
            (Chunk(0), Chunk(17), Chunk(21))
        );
    }
}
