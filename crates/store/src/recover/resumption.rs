//! Where a start goes on: the next sequence, the hand, and the regions that must be scanned.
//!
//! Not known here: what is in the regions.

use crate::evict::grid::Grid;
use crate::recover::journal::{self, Journal};
use crate::recover::loaded::Loaded;
use crate::recover::logged::Logged;
use crate::recover::superblock::{State, Superblock};
use crate::sequence::Sequence;

/// After an unclean stop each generation of the superblock has this many sequences of its own. To go on from the highest seen is not
/// enough: records yet to be found may have higher ones, as may those of a start that left no other trace.
const SEQUENCES_OF_GENERATION: u64 = 1 << 32;

/// See the head of the file.
pub(super) struct Resumption {
    pub sequence: Sequence,
    /// The region where the hand's next stretch begins.
    pub hand_at: u32,
    /// Regions opened since the checkpoint began, or open then; without a checkpoint, all that may hold a record. Those needed first come first.
    pub touched: Vec<u32>,
}

impl Resumption {
    /// `superblock` is as it was left. `by_hand` tells how room is made from now on.
    pub(super) fn of(
        superblock: &Superblock,
        journal: &Journal,
        logged: &Logged,
        loaded: Option<&Loaded>,
        by_hand: bool,
    ) -> Self {
        let clean = superblock.state == State::Clean;
        let regions = 0..superblock.geometry.regions();
        let opened = |region: u32| match journal.opened_at(region) {
            journal::UNKNOWN => 0,
            sequence => sequence,
        };
        let newest = regions.clone().max_by_key(|&r| (opened(r), r)).unwrap_or(0);
        let hand_at = if opened(newest) == 0 { 0 } else { newest + 1 };
        let mut sequence = logged.highest.max(superblock.accept_from);
        sequence = regions.clone().map(opened).fold(sequence, Sequence::max);
        let is_touched = |r: &u32| match loaded {
            Some(loaded) => {
                let open_then = !clean && loaded.open_regions.contains(r);
                journal.opened_at(*r) > loaded.covers || open_then
            }
            // With a hand, a region that was never opened holds nothing.
            None => superblock.policy != 0 || journal.opened_at(*r) != 0,
        };
        let mut touched: Vec<u32> = regions.filter(is_touched).collect();
        if let Some(loaded) = loaded {
            sequence = sequence.max(loaded.sequence);
        }
        // After a clean stop the checkpoint has the sequence; if it cannot be read, the sequence is unknown.
        if !clean || loaded.is_none() {
            let first = superblock
                .generation
                .saturating_add(1)
                .saturating_mul(SEQUENCES_OF_GENERATION);
            sequence = if sequence < first {
                first
            } else {
                sequence + SEQUENCES_OF_GENERATION
            };
        }
        if by_hand {
            let grid = Grid::of(&superblock.geometry);
            in_order_of_need(&mut touched, opened, hand_at, &grid);
        }
        Self {
            sequence,
            hand_at,
            touched,
        }
    }
}

/// First the regions opened last, where the writer was; then what lies ahead of the hand.
fn in_order_of_need(touched: &mut [u32], opened: impl Fn(u32) -> Sequence, hand: u32, grid: &Grid) {
    let newest = (grid.ready_max() + NEWEST_BESIDE) as usize;
    let regions = grid.regions;
    touched.sort_unstable_by_key(|&region| std::cmp::Reverse((opened(region), region)));
    if let Some(rest) = touched.get_mut(newest..) {
        rest.sort_unstable_by_key(|&region| (region + regions - hand % regions) % regions);
    }
}

/// Regions scanned first, besides those that may have been noted ahead of the writer: the one it was in, and some more.
const NEWEST_BESIDE: u32 = 6;
