//! Where a clean stop left the writer, so that the next start goes on there.
//!
//! Without it each start would begin a new region, note it, and sweep a stretch further, so that a store that is
//! often stopped would evict records needlessly.
//!
//! The current region may be filled further, and the ready ones used without another note, because a record counts
//! only if its sequence is above its region's `opened_at`, and records of an earlier round are below. These regions
//! are among the checkpoint's open regions, so they are scanned after a crash.
//!
//! Only after a clean stop: after a crash it is unknown how much was written after the last record.
//!
//! In the checkpoint (part `FRONTIER`), numbers of 4 bytes: the first region that is not swept yet, the current region and its
//! first chunk that is free (all ones: there is none), how many regions are ready, these, and those that are swept but not noted.
//!
//! Not known here: the content of regions. The reader of a checkpoint knows how far each is filled.

use crate::evict::grid::Grid;
use crate::recover::journal::{Journal, UNKNOWN};
use extent::Chunk;

/// No region, no chunk.
const NONE: u32 = u32::MAX;

/// The state of the hand at a stop.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Frontier {
    /// The first region of the next stretch to be swept.
    pub at: u32,
    /// The free end of the current region.
    pub rest: Option<(u32, Chunk)>,
    /// Noted and empty, in the order in which they are used.
    pub ready: Vec<u32>,
    /// Swept, and not noted since.
    pub swept: Vec<u32>,
}

impl Frontier {
    pub(crate) fn numbers(&self) -> impl Iterator<Item = u32> {
        let (current, free_from) = self
            .rest
            .map_or((NONE, NONE), |(region, chunk)| (region, chunk.0));
        let head = [self.at, current, free_from, self.ready.len() as u32];
        head.into_iter()
            .chain(self.ready.iter().chain(&self.swept).copied())
    }

    /// `None` if the numbers are invalid.
    pub(crate) fn of(numbers: &[u32]) -> Option<Self> {
        let (&[at, current, free_from, ready], regions) = numbers.split_first_chunk()?;
        let (ready, swept) = regions.split_at_checked(ready as usize)?;
        Some(Self {
            at,
            rest: (current != NONE).then_some((current, Chunk(free_from))),
            ready: ready.to_vec(),
            swept: swept.to_vec(),
        })
    }

    /// Is everything within the grid, no region twice, the regions to be filled empty (`filled_to` has the end of
    /// each region's last record, 0 if it has none), and noted where needed? A checkpoint that was written whole
    /// never fails here.
    pub(crate) fn is_right(&self, grid: &Grid, filled_to: &[u32], journal: &Journal) -> bool {
        let current = self.rest.iter().map(|&(region, _)| region);
        let mut regions: Vec<u32> = self
            .ready
            .iter()
            .chain(&self.swept)
            .copied()
            .chain(current)
            .collect();
        let all = regions.len();
        regions.sort_unstable();
        regions.dedup();
        if regions.len() < all
            || self.at >= grid.regions
            || regions.iter().any(|&r| r >= grid.regions)
        {
            return false;
        }
        let is_noted = |region: u32| !matches!(journal.opened_at(region), 0 | UNKNOWN);
        let is_empty = |region: &u32| filled_to[*region as usize] == 0;
        let rest_is_free = self.rest.is_none_or(|(region, from)| {
            let whole = grid.extent(region..region + 1);
            is_noted(region) && whole.contains(from) && filled_to[region as usize] <= from.0
        });
        rest_is_free
            && self.ready.iter().all(|&region| is_noted(region))
            && self.ready.iter().chain(&self.swept).all(is_empty)
    }
}
