//! The slow, obvious twin: one `bool` a chunk, and every question answered by looking at all of them. It has no index
//! that could be wrong.

use extent::{Chunk, Chunks, Extent};
use std::cmp::Reverse;

/// Free space as a row of flags.
pub struct Oracle {
    used: Vec<bool>,
}

impl Oracle {
    /// `total` chunks, all free.
    pub fn new(total: Chunks) -> Self {
        Oracle {
            used: vec![false; total.0 as usize],
        }
    }

    pub fn cut_largest(&mut self, at_least: Chunks, want: Chunks) -> Option<Extent> {
        let piece = self.largest().filter(|piece| piece.len >= at_least)?;
        let (cut, _) = piece.cut_front(want.min(piece.len));
        self.set(cut, true);
        Some(cut)
    }

    pub fn free(&mut self, e: Extent) {
        self.set(e, false);
    }

    pub fn reserve(&mut self, e: Extent) -> bool {
        let free = e.fits_in(Chunks(self.used.len() as u32))
            && (e.first.0..e.end().0).all(|chunk| !self.used[chunk as usize]);
        if free {
            self.set(e, true);
        }
        free
    }

    pub fn free_chunks(&self) -> Chunks {
        Chunks(self.used.iter().filter(|&&used| !used).count() as u32)
    }

    /// The longest free piece, of equal ones the lowest.
    pub fn largest(&self) -> Option<Extent> {
        let pieces = self.runs(false).into_iter();
        pieces.min_by_key(|piece| (Reverse(piece.len), piece.first))
    }

    /// The runs of used or of free chunks, in order of address.
    pub fn runs(&self, used: bool) -> Vec<Extent> {
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

    fn set(&mut self, e: Extent, used: bool) {
        for chunk in e.first.0..e.end().0 {
            let flag = &mut self.used[chunk as usize];
            assert!(*flag != used, "chunk {chunk} of {e} changes twice");
            *flag = used;
        }
    }
}
