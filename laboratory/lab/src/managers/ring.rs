//! Where a writer goes that comes round again and again, and what has to be cleared ahead of it.
//!
//! [`Regions`] is the production store's own hand (`store::region`): regions of a 256th of the file, cleared a stretch (a 64th)
//! at a time, and a window ahead of the hand in which what is read gets a second chance at once. [`Cyclic`] is a pointer: it
//! clears what lies before it in steps of a cluster.
//!
//! Not known here: objects, disks.   Limits: files of two regions or more, 2^32 slots.
//! Sources: docs/decisions/0014; paper 002 section 3.4 (the stream that this grew out of).

use std::ops::Range;

use extent::{Chunk, Chunks, Extent};
use store::Replacement;
use store::region::{Grid, Hand};

use super::slots::{Run, SLOT_BYTES};

/// A region's share of the file, as in the store.
const REGIONS: u32 = 256;

/// Decides where is written, and what is cleared.
pub trait Ring {
    /// The next slots to be written, at most `most`, which is not 0; `None` if something has to be cleared first.
    fn take(&mut self, most: u32) -> Option<Run>;

    /// Slots to be cleared next: what begins there is moved by the caller, who then says so with [`Ring::cleared`]. `None` while
    /// enough lies ahead.
    fn to_clear(&mut self) -> Option<Range<u32>>;

    /// All up to the slot before `end` is clear: the end of the stretch, or of what began in it.
    fn cleared(&mut self, end: u32);

    /// Is what begins there to be written again because it was read?
    fn is_near_the_hand(&self, first: u32) -> bool;

    /// Slots of the file.
    fn slots(&self) -> u32;

    /// Slots of a stretch.
    fn stretch(&self) -> u32;
}

/// The store's regions and hand.
pub struct Regions {
    hand: Hand,
    slots: u32,
    window: u32,
    /// Of the current region.
    rest: Option<Extent>,
}

impl Regions {
    /// All of a file of so many slots is free. What is left behind the last region stays unused.
    pub fn new(slots: u32, window_percent: u8) -> Regions {
        let region_slots = (slots / REGIONS).max(1);
        let grid = Grid::new((slots / region_slots).max(2), region_slots, SLOT_BYTES);
        let in_regions = grid.regions * grid.region_chunks;
        // Too small a file has no room at all.
        let slots = if in_regions <= slots { in_regions } else { 0 };
        Regions {
            hand: Hand::new(grid, 0),
            slots,
            window: (u64::from(slots) * u64::from(window_percent) / 100) as u32,
            rest: None,
        }
    }

    /// The store's window, or none if the store had another policy by default.
    pub fn window_percent() -> u8 {
        match store::Settings::default().replacement {
            Replacement::SecondChance { window_percent } => window_percent,
            Replacement::Ordered(_) => 0,
        }
    }
}

impl Ring for Regions {
    fn take(&mut self, most: u32) -> Option<Run> {
        let rest = match self.rest.take() {
            Some(rest) => rest,
            None => {
                // There is no journal here: a note is durable at once.
                while self.hand.begin_note(|_| true).is_some() {
                    self.hand.end_note(true);
                }
                self.hand.advance()?
            }
        };
        let slots = rest.len.0.min(most);
        if slots < rest.len.0 {
            let behind = Chunk(rest.first.0 + slots);
            self.rest = Some(Extent::new(behind, Chunks(rest.len.0 - slots)));
        }
        Some(Run {
            first: rest.first.0,
            slots,
        })
    }

    fn to_clear(&mut self) -> Option<Range<u32>> {
        let grid = self.hand.grid;
        let sweep = self.hand.sweep_if_needed()?;
        let stretch = grid.extent(sweep.regions.clone());
        Some(stretch.first.0..stretch.first.0 + stretch.len.0)
    }

    fn cleared(&mut self, _: u32) {
        self.hand.end_sweep();
    }

    fn is_near_the_hand(&self, first: u32) -> bool {
        Hand::distance(self.hand.next_chunk(), Chunk(first), self.slots) < self.window
    }

    fn slots(&self) -> u32 {
        self.slots
    }

    fn stretch(&self) -> u32 {
        self.hand.grid.stretch_chunks()
    }
}

/// A pointer, and a gap before it.
pub struct Cyclic {
    slots: u32,
    step: u32,
    at: u32,
    /// Clear slots from `at` on; round the end, if need be.
    gap: u32,
}

impl Cyclic {
    /// At the beginning of so many free slots; `step` of them are cleared at a time.
    pub fn new(slots: u32, step: u32) -> Cyclic {
        Cyclic {
            slots,
            step: step.max(1),
            at: 0,
            gap: 0,
        }
    }
}

impl Ring for Cyclic {
    fn take(&mut self, most: u32) -> Option<Run> {
        let slots = most.min(self.gap).min(self.slots - self.at);
        let run = (slots > 0).then_some(Run {
            first: self.at,
            slots,
        })?;
        self.at = (self.at + slots) % self.slots;
        self.gap -= slots;
        Some(run)
    }

    fn to_clear(&mut self) -> Option<Range<u32>> {
        if self.gap >= self.step.min(self.slots) {
            return None;
        }
        let first = ((u64::from(self.at) + u64::from(self.gap)) % u64::from(self.slots)) as u32;
        let most = (self.slots - first).min(self.slots - self.gap);
        Some(first..first + self.step.min(most))
    }

    fn cleared(&mut self, end: u32) {
        let from = u64::from(self.at) + u64::from(self.gap);
        let first = (from % u64::from(self.slots)) as u32;
        self.gap += end - first;
    }

    fn is_near_the_hand(&self, _: u32) -> bool {
        false
    }

    fn slots(&self) -> u32 {
        self.slots
    }

    fn stretch(&self) -> u32 {
        self.step
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes so many slots and gives the runs; nothing in the way is alive.
    fn take(ring: &mut dyn Ring, mut slots: u32) -> Vec<Run> {
        let mut runs: Vec<Run> = Vec::new();
        while slots > 0 {
            match ring.take(slots) {
                Some(run) => {
                    slots -= run.slots;
                    match runs.last_mut() {
                        Some(last) if last.first + last.slots == run.first => {
                            last.slots += run.slots;
                        }
                        _ => runs.push(run),
                    }
                }
                None => {
                    let end = ring.to_clear().unwrap().end;
                    ring.cleared(end);
                }
            }
        }
        runs
    }

    #[test]
    fn both_go_round_the_file_and_leave_nothing_out() {
        let rings: [Box<dyn Ring>; 2] = [
            Box::new(Regions::new(4096, 25)),
            Box::new(Cyclic::new(4096, 100)),
        ];
        for mut ring in rings {
            let ring = ring.as_mut();
            let run = |first, slots| Run { first, slots };
            assert_eq!(take(ring, 1000), [run(0, 1000)]);
            assert_eq!(take(ring, 3500), [run(1000, 3096), run(0, 404)]);
            assert_eq!(take(ring, 4096), [run(404, 3692), run(0, 404)]);
        }
    }

    #[test]
    fn second_chances_are_for_what_lies_within_the_window() {
        let mut regions = Regions::new(4096, 25);
        take(&mut regions, 2050);
        let hand = regions.hand.next_chunk().0;
        assert!(hand > 2048);
        assert!(regions.is_near_the_hand(hand) && regions.is_near_the_hand(hand + 1023));
        assert!(!regions.is_near_the_hand(hand + 1024) && !regions.is_near_the_hand(hand - 1));
        let mut without = Regions::new(4096, 0);
        take(&mut without, 2050);
        assert!(!without.is_near_the_hand(without.hand.next_chunk().0));
        assert_eq!(Regions::window_percent(), 20);
    }

    #[test]
    fn the_pointer_is_not_overtaken() {
        let mut ring = Cyclic::new(100, 30);
        assert_eq!(ring.to_clear(), Some(0..30));
        ring.cleared(30);
        assert_eq!(ring.to_clear(), None);
        assert_eq!(ring.take(25).map(|run| run.slots), Some(25));
        assert_eq!(ring.to_clear(), Some(30..60));
        // What began there was longer.
        ring.cleared(95);
        assert_eq!(ring.take(60).map(|run| run.slots), Some(60));
        assert_eq!(ring.to_clear(), Some(95..100), "not past the end");
        ring.cleared(100);
        assert_eq!(ring.to_clear(), Some(0..30));
    }
}
