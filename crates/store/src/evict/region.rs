//! The hand that goes round the regions.
//!
//! With `second-chance` and `reinsertion` the store is written like a ring: region after region, and the way ahead is cleared
//! a *stretch* (a few neighbouring regions) at a time. A region goes through
//!
//! ```text
//!   full --(swept: its records leave the index)--> swept --(noted: the journal has it, durably)--> ready --> current --> full
//! ```
//!
//! The allocator has only the current region's free chunks; all other chunks count as used. Killed records and the
//! unused ends of regions are dead space until the hand comes back. This keeps the free pieces few and the writes
//! long.
//!
//! A sweep goes through the index segment by segment, some at each write, so that no insert waits for a whole pass.
//! It begins early enough ([`Grid::lead_regions`]) to end, with its note durable, before the empty regions ahead are
//! used up. Empty regions cost hits: they are about 2.4 % of the area, 4 to 8 % in stores of less than 100 MiB, whose
//! regions and stretches are a larger share of it.
//!
//! A note is at least two operations, one after the other, and each waits in the device's queue. Where reads wait for seconds,
//! more is written during a note than lies ahead. Then sweeps begin earlier and notes cover more regions ([`Hand::advance`]), until
//! notes end in time ([`Hand::end_note`]); at most by [`Grid::late_max`]. A new store begins with that maximum, since it costs no record.
//!
//! Not known here: the index, the journal, time.
//! Source: paper 002 (stream of writes), and log-structured caches since; chosen by measurement, see docs/decisions.

use crate::evict::aging::Aging;
use crate::evict::coming::Listing;
use crate::evict::grid::{Grid, READY_MIN};
use crate::index::key::KeyHash;
use crate::recover::journal;
use crate::write::frontier::Frontier;
use extent::{Chunk, Extent};
use std::collections::VecDeque;
use std::ops::Range;

/// With each note that ends early, [`Late::regions`] falls by this share of it, and at least by one.
const LATE_FALLS_SHARE: u32 = 8;

/// A note is nearly late if less than this share of the lead is ready when it ends, or nothing.
const LOW_SHARE: usize = 4;

/// A pass through the index that removes the records that lie in a stretch, or reach into it.
#[derive(Clone, Debug)]
pub struct Sweep {
    /// The regions of the stretch.
    pub regions: Range<u32>,
    /// The next segment, counted through all shards.
    pub(crate) next_segment: usize,
    /// Needed records that were met and left in place; see `moves`.
    pub(crate) spared: Vec<KeyHash>,
}

/// Adjustments for notes that take long.
#[derive(Clone, Copy, Debug, Default)]
struct Late {
    /// How many more regions than the grid's lead are kept ahead, because notes took so long that room ran out.
    regions: u32,
    /// The next note covers up to this many regions. A note under way at a clean stop may have become durable. If only a part of its
    /// regions were noted again, the others would seem older, and be used in another order after a crash.
    note_again: u32,
    /// Whether `regions` was raised already for the note under way.
    is_raised: bool,
}

/// The position of the writer, and the regions ahead of it.
#[derive(Debug)]
pub struct Hand {
    /// How the area is divided.
    pub grid: Grid,
    /// The first region of the present or next stretch.
    at: u32,
    pub(crate) sweep: Option<Sweep>,
    /// Boxed for the size of `Room`.
    pub(crate) aging: Box<Aging>,
    /// Boxed for the size of `Room`.
    pub(crate) listing: Box<Listing>,
    swept: VecDeque<u32>,
    noting: Vec<u32>,
    ready: VecDeque<u32>,
    late: Late,
    pub(crate) current: Option<u32>,
    /// Regions that a scan has yet to look at; empty when there is none.
    unscanned: Box<[bool]>,
    /// Regions that were written to since the scan began; empty when there is none.
    written: Box<[bool]>,
    /// A scan is looking for the region that was written last; nothing is swept before that region is found.
    holding: bool,
    /// Regions that the scan has found noted and empty so far. They are not used before all of them are known: if a later one were filled
    /// before an earlier one, `opened_at` would no longer tell the order of regions.
    found_empty: VecDeque<u32>,
}

impl Hand {
    /// A hand whose next stretch begins at region `at`.
    pub fn new(grid: Grid, at: u32) -> Self {
        Self {
            grid,
            at: at % grid.regions,
            sweep: None,
            aging: Box::default(),
            listing: Box::default(),
            swept: VecDeque::new(),
            noting: Vec::new(),
            ready: VecDeque::new(),
            late: Late::default(),
            current: None,
            unscanned: Box::default(),
            written: Box::default(),
            holding: false,
            found_empty: VecDeque::new(),
        }
    }

    /// A hand in a store in which nothing was ever written: more than usual is ready from the start.
    pub(crate) fn begin_empty(&mut self) {
        self.late.regions = self.grid.late_max();
        self.at = self.late.regions;
        self.swept = (0..self.at).collect();
    }

    /// The state for the next start, without the rest of the current region.
    pub(crate) fn frontier(&self) -> Frontier {
        Frontier {
            at: self.at,
            rest: None,
            ready: self.ready.iter().copied().collect(),
            swept: self.noting.iter().chain(&self.swept).copied().collect(),
        }
    }

    /// Goes on from a clean stop.
    pub(crate) fn go_on_at(&mut self, frontier: Frontier) {
        self.at = frontier.at;
        self.current = frontier.rest.map(|(region, _)| region);
        self.ready = frontier.ready.into();
        self.late.note_again = self.grid.note_max().min(frontier.swept.len() as u32);
        self.swept = frontier.swept.into();
    }

    /// A deliberate mistake: what was swept at the stop is noted in parts.
    pub(crate) fn note_in_parts(&mut self) {
        self.late.note_again = 0;
        self.grid.note_regions = 1;
    }

    /// A deliberate mistake: regions found empty are used before those in front of them were scanned.
    pub(crate) fn use_at_once(&mut self) {
        self.ready.extend(self.found_empty.drain(..));
    }

    /// These regions will be scanned, the last opened first. None of them is swept before it was scanned.
    pub(crate) fn will_scan(&mut self, regions: &[u32]) {
        self.holding = true;
        self.unscanned = vec![false; self.grid.regions as usize].into();
        self.written = vec![false; self.grid.regions as usize].into();
        for &region in regions {
            self.unscanned[region as usize] = true;
        }
    }

    /// A region has been scanned. Regions that were noted and never written to are found first; they can be used as they are.
    pub(crate) fn scanned(&mut self, region: u32, empty: bool) {
        if let Some(unscanned) = self.unscanned.get_mut(region as usize) {
            *unscanned = false;
        }
        if self.holding && empty {
            self.found_empty.push_front(region);
        } else {
            self.end_holding();
        }
    }

    fn end_holding(&mut self) {
        self.holding = false;
        self.ready.extend(self.found_empty.drain(..));
    }

    /// All has been scanned.
    pub(crate) fn end_scan(&mut self) {
        self.end_holding();
        self.unscanned = Box::default();
        self.written = Box::default();
    }

    /// Was everything in that region stored since the scan began?
    pub(crate) fn is_new(&self, region: u32) -> bool {
        self.written
            .get(region as usize)
            .is_some_and(|&written| written)
    }

    /// The first chunk of the stretch that is swept next or now.
    pub fn next_chunk(&self) -> Chunk {
        Chunk(self.at * self.grid.region_chunks)
    }

    /// The number of empty regions.
    pub(crate) fn ahead(&self) -> usize {
        self.swept.len() + self.noting.len() + self.ready.len()
    }

    /// Is a sweep under way, or is one wanted at once?
    pub(crate) fn needs_sweep(&self) -> bool {
        let is_late = self.late.regions > 0 && self.ahead() < self.lead();
        self.sweep.is_some() || self.ahead() <= READY_MIN || is_late
    }

    /// The sweep under way; begins one if little lies ahead, or `at_once`.
    pub(crate) fn sweep_or_begin(&mut self, at_once: bool) -> Option<&mut Sweep> {
        let lead = self.lead();
        // A sweep must never reach regions that are being written or will be.
        let room = (self.grid.regions as usize).saturating_sub(self.ahead() + 1);
        let is_wanted = at_once || self.ahead() < lead;
        if self.sweep.is_none() && !self.holding && is_wanted && room > 0 {
            let mut regions = self.grid.stretch_at(self.at);
            regions.end = regions.end.min(self.at + room as u32);
            let scanned = |region: u32| !self.unscanned.get(region as usize).unwrap_or(&false);
            if !regions.clone().all(scanned) {
                return None;
            }
            self.sweep = Some(Sweep {
                regions,
                next_segment: 0,
                spared: Vec::new(),
            });
        }
        self.sweep.as_mut()
    }

    /// The sweep has been through the whole index.
    pub fn end_sweep(&mut self) {
        if let Some(sweep) = self.sweep.take() {
            self.at = sweep.regions.end % self.grid.regions;
            self.swept.extend(sweep.regions);
        }
    }

    /// The regions to note next, if any are wanted now. `free` says whether no write to a region is under way.
    pub fn begin_note(&mut self, free: impl Fn(u32) -> bool) -> Option<Range<u32>> {
        // All swept regions are noted ahead, so that a fast writer does not wait for the two flushes of a note.
        let late = self.late.regions as usize;
        let wanted = self.ready.len() <= READY_MIN.max(self.grid.stretch_regions as usize) + late;
        let regions_max =
            (self.grid.note_regions as usize + late).max(self.late.note_again as usize);
        if !self.noting.is_empty() || !wanted || self.swept.front().is_none_or(|&r| !free(r)) {
            return None;
        }
        while let Some(&region) = self.swept.front() {
            let next = self
                .noting
                .last()
                .is_none_or(|&last| last + 1 == region && journal::same_page(last, region));
            if self.noting.len() >= regions_max || !next || !free(region) {
                break;
            }
            self.noting.push(region);
            self.swept.pop_front();
        }
        let first = *self.noting.first()?;
        Some(first..first + self.noting.len() as u32)
    }

    /// The note is durable, or has failed. If it took long, more is kept ahead from now on; if it was early, less.
    pub fn end_note(&mut self, ok: bool) {
        let noted = std::mem::take(&mut self.noting);
        if ok {
            self.late.note_again = 0;
            let is_used = self.current.is_some();
            if is_used && self.ready.len() < (self.lead() / LOW_SHARE).max(1) {
                self.raise_late();
            } else if self.ready.len() > self.lead() / 2 {
                let less = self.late.regions.div_ceil(LATE_FALLS_SHARE);
                self.late.regions -= less;
            }
            self.late.is_raised = false;
            self.ready.extend(noted);
        } else {
            noted
                .into_iter()
                .rev()
                .for_each(|r| self.swept.push_front(r));
        }
    }

    /// Keeps more ahead, once for each note.
    fn raise_late(&mut self) {
        if !self.late.is_raised {
            self.late.is_raised = true;
            let more = (self.late.regions * 2).max(self.grid.stretch_regions);
            self.late.regions = more.min(self.grid.late_max());
        }
    }

    /// Is a region being swept, or swept and not yet durably noted?
    pub(crate) fn has_unnoted(&self) -> bool {
        self.sweep.is_some() || !self.swept.is_empty() || !self.noting.is_empty()
    }

    /// Is a region ready to be filled?
    pub(crate) fn is_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Are few regions ready, and is there work that makes more? Then wake the background thread.
    pub(crate) fn is_short(&self) -> bool {
        let kept = self.lead() - READY_MIN;
        let few = READY_MIN.max(kept - kept / 4);
        self.ready.len() <= few && (!self.swept.is_empty() || self.needs_sweep())
    }

    /// A sweep begins when fewer regions lie ahead than this.
    fn lead(&self) -> usize {
        (self.grid.lead_regions + self.late.regions) as usize
    }

    /// Goes on to the next region that is ready. If there is none, the note under way is late, so more is kept ahead at once:
    /// sweeps go on meanwhile, and the next note covers what they bring.
    pub fn advance(&mut self) -> Option<Extent> {
        let Some(region) = self.ready.pop_front() else {
            if self.current.is_some() && !self.noting.is_empty() {
                self.raise_late();
            }
            return None;
        };
        self.current = Some(region);
        if let Some(written) = self.written.get_mut(region as usize) {
            *written = true;
        }
        Some(self.grid.extent(region..region + 1))
    }

    /// Can only the current region be filled until the sweep under way ends?
    pub(crate) fn waits_for_sweep(&self) -> bool {
        self.sweep.is_some() && self.ahead() == 0
    }

    /// Has the sweep under way been through all `segments` of the index? Then it waits for moves.
    pub(crate) fn has_seen(&self, segments: usize) -> bool {
        let sweep = self.sweep.as_ref();
        sweep.is_some_and(|sweep| sweep.next_segment >= segments)
    }

    /// Regions that may still be written to without another note.
    pub(crate) fn open_regions(&self) -> impl Iterator<Item = u32> {
        let noted = self.noting.iter().chain(self.ready.iter()).copied();
        self.current.into_iter().chain(noted)
    }

    /// Chunks of empty regions that the allocator does not have.
    pub(crate) fn chunks_ahead(&self) -> u64 {
        self.ahead() as u64 * u64::from(self.grid.region_chunks)
    }

    /// Chunks that were never written since the store was made, if `free` are left of the current region.
    ///
    /// Regions are opened in order, so until the last one is opened, everything ahead of the writer is new. From then on, regions that are
    /// noted and not yet written to count as written.
    pub(crate) fn chunks_never_written(&self, journal: &journal::Journal, free: u64) -> u64 {
        let unopened = (0..self.grid.regions).filter(|&region| journal.opened_at(region) == 0);
        let unopened = unopened.count() as u64;
        if unopened == 0 {
            return 0;
        }
        let noted = self.empty_regions();
        let noted = noted
            .filter(|&region| journal.opened_at(region) != 0)
            .count() as u64;
        (unopened + noted) * u64::from(self.grid.region_chunks) + free
    }

    /// Regions that hold no record.
    pub(crate) fn empty_regions(&self) -> impl Iterator<Item = u32> {
        self.swept
            .iter()
            .chain(&self.noting)
            .chain(&self.ready)
            .chain(&self.found_empty)
            .copied()
    }

    /// How many chunks will be written before `chunk` is swept.
    pub fn distance(from: Chunk, chunk: Chunk, data_chunks: u32) -> u32 {
        if chunk.0 >= from.0 {
            chunk.0 - from.0
        } else {
            data_chunks - (from.0 - chunk.0)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geometry::Geometry;

    fn hand() -> Hand {
        let geometry = Geometry::plan(16 << 20, 512).unwrap();
        Hand::new(Grid::of(&geometry), 0)
    }

    /// Seed 121 of the simulation: a note of two regions became durable after the clean stop had counted them as not noted.
    #[test]
    fn what_a_stop_left_unnoted_is_noted_together() {
        let mut hand = Hand::new(Grid::new(64, 512, 512), 0);
        assert_eq!(hand.grid.note_regions, 4, "fewer than were noted");
        hand.go_on_at(Frontier {
            at: 9,
            rest: None,
            ready: vec![2],
            swept: (3..9).collect(),
        });
        assert_eq!(hand.begin_note(|_| true), Some(3..9));
        hand.end_note(false);
        assert_eq!(hand.begin_note(|_| true), Some(3..9), "again");
        hand.end_note(true);
        assert_eq!(hand.ready, [2, 3, 4, 5, 6, 7, 8]);
    }

    #[test]
    fn notes_that_come_too_late_make_the_next_ones_earlier() {
        let mut hand = Hand::new(Grid::new(64, 512, 512), 0);
        let note = |hand: &mut Hand, at: u32, used_up: bool| {
            hand.noting = vec![at];
            while used_up && hand.advance().is_some() {}
            let during = hand.late.regions;
            hand.end_note(true);
            (during, hand.late.regions)
        };
        assert_eq!(note(&mut hand, 0, true), (0, 0), "nothing was ready yet");
        let lates = [1, 2, 3].map(|at| note(&mut hand, at, true));
        let expected = [(4, 4), (8, 8), (8, 8)];
        assert_eq!(
            lates, expected,
            "a stretch, doubled, up to an eighth, while the note is under way"
        );
        for at in 6..60 {
            note(&mut hand, at, false);
        }
        assert_eq!(hand.late.regions, 0, "in time again");
    }

    #[test]
    fn a_new_store_has_more_ready_from_the_start() {
        let mut hand = Hand::new(Grid::new(256, 512, 512), 0);
        hand.begin_empty();
        assert_eq!(hand.begin_note(|_| true), Some(0..32));
        hand.end_note(true);
        assert_eq!((hand.ready.len(), hand.at), (32, 32));
    }

    #[test]
    fn regions_are_swept_noted_and_used_in_turn() {
        let mut hand = hand();
        let regions = hand.grid.regions;
        let mut used = Vec::new();
        for _ in 0..regions * 3 {
            while hand.sweep_or_begin(false).is_some() {
                hand.end_sweep();
            }
            if hand.begin_note(|_| true).is_some() {
                hand.end_note(true);
            }
            let next = hand.advance().unwrap();
            used.push(next.first.0 / hand.grid.region_chunks);
            assert!(!hand.empty_regions().any(|r| Some(r) == hand.current));
        }
        for (at, region) in used.into_iter().enumerate() {
            assert_eq!(region, at as u32 % regions);
        }
    }

    #[test]
    fn little_is_kept_empty() {
        for (mib, percent_max) in [(10, 8.0), (32, 6.0), (64, 6.0), (128, 3.0), (10_240, 2.5)] {
            let geometry = Geometry::plan(mib << 20, 512).unwrap();
            let mut hand = Hand::new(Grid::of(&geometry), 0);
            let rounds = hand.grid.regions * 2;
            let mut empty = 0;
            for _ in 0..rounds {
                while hand.sweep_or_begin(false).is_some() {
                    hand.end_sweep();
                }
                while hand.begin_note(|_| true).is_some() {
                    hand.end_note(true);
                }
                hand.advance().unwrap();
                empty += hand.ahead();
            }
            let percent = 100.0 * empty as f64 / f64::from(rounds) / f64::from(hand.grid.regions);
            assert!(percent < percent_max, "{mib} MiB: {percent} %");
        }
    }

    #[test]
    fn ready_regions_run_short_before_they_run_out() {
        let mut hand = hand();
        assert!(hand.is_short(), "at the start none is ready");
        while let Some(sweep) = hand.sweep_or_begin(false) {
            let _ = sweep;
            hand.end_sweep();
        }
        while hand.begin_note(|_| true).is_some() {
            hand.end_note(true);
        }
        assert!(!hand.is_short());
        let full = hand.ready.len();
        while !hand.is_short() {
            hand.advance().unwrap();
        }
        assert!(
            hand.ready.len() >= full / 2,
            "{} of {full}",
            hand.ready.len()
        );
    }

    #[test]
    fn a_region_that_is_still_read_is_not_noted() {
        let mut hand = hand();
        hand.sweep_or_begin(false);
        hand.end_sweep();
        assert_eq!(hand.begin_note(|_| false), None);
        assert!(hand.advance().is_none());
        let noted = hand.begin_note(|_| true).unwrap();
        hand.end_note(false);
        assert!(hand.advance().is_none());
        assert_eq!(hand.begin_note(|_| true), Some(noted), "and is tried again");
    }

    #[test]
    fn what_a_scan_finds_empty_is_used_in_the_order_in_which_it_was_noted() {
        let mut hand = hand();
        hand.will_scan(&[4, 3, 2]);
        hand.scanned(4, true);
        assert!(hand.advance().is_none(), "an earlier one may be empty too");
        hand.scanned(3, true);
        hand.scanned(2, false);
        let grid = hand.grid;
        let next: Vec<u32> = std::iter::from_fn(|| hand.advance())
            .map(|region| grid.region_of(region.first))
            .collect();
        assert_eq!(next, [3, 4]);
    }

    #[test]
    fn distance_goes_round() {
        assert_eq!(Hand::distance(Chunk(10), Chunk(10), 100), 0);
        assert_eq!(Hand::distance(Chunk(10), Chunk(12), 100), 2);
        assert_eq!(Hand::distance(Chunk(10), Chunk(9), 100), 99);
    }
}
