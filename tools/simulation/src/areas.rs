//! The assumed limits of silent metadata faults. Under these limits the store promises that no invalidated record comes back.
//!
//! Metadata is kept twice: two copies of the superblock, of each log commit's tail, of each journal note. If the disk silently spoils
//! both copies, they cannot be restored. So we assume the following, and the simulated disk keeps to it:
//!
//! A1  between two recoveries at most one silent fault happens to each of superblock, log and journal (a lost or misdirected
//!     write of it, a misdirected write over it, changed bits, also transient ones when it is read at a start);
//! A2  one such fault affects at most one page of the part, or the one write that is lost;
//! A3  a power cut does not tear a write to a part that already has such a fault: the write lands whole or not at all.
//!
//! A checkpoint is kept once: any fault may happen to it, and only makes the recovery longer. A fault that A1 or A2 excludes is not
//! injected. A part with a fault is *wounded*. It heals when a recovery is complete, because the store has then read the good copy
//! and written both again.
//!
//! Not known here: where in log and journal the two copies lie; hence one fault for all of each part.

use std::ops::Range;

use store::{Geometry, Superblock};

/// Most bytes that a fault may affect in a part that is kept twice.
const PAGE_BYTES: u64 = 4096;

/// A part of the store's metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Both copies.
    Superblock,
    /// Both areas.
    Checkpoint,
    /// The invalidation log.
    Log,
    /// The region journal.
    Journal,
}

/// The positions of the metadata, and which parts have a silent fault.
#[derive(Clone, Debug)]
pub struct Areas {
    parts: [(Range<u64>, Part); 4],
    wounded: [bool; 4],
}

impl Areas {
    /// The areas of a store.
    pub fn of(geometry: &Geometry) -> Self {
        let area = |at: u64, len: u64| at..at + len;
        let g = geometry;
        Self {
            parts: [
                (area(0, Superblock::BYTES as u64), Part::Superblock),
                (
                    area(g.checkpoint_at, 2 * g.checkpoint_bytes),
                    Part::Checkpoint,
                ),
                (
                    area(g.invalidation_log_at, g.invalidation_log_bytes),
                    Part::Log,
                ),
                (
                    area(g.region_journal_at, g.region_journal_bytes),
                    Part::Journal,
                ),
            ],
            wounded: [false; 4],
        }
    }

    /// No metadata.
    pub fn none() -> Self {
        Self {
            parts: [
                (0..0, Part::Superblock),
                (0..0, Part::Checkpoint),
                (0..0, Part::Log),
                (0..0, Part::Journal),
            ],
            wounded: [false; 4],
        }
    }

    /// Whether a silent fault may drop a write to `range`. If so, the fault is recorded.
    pub fn admit_loss(&mut self, range: &Range<u64>) -> bool {
        self.admit(&[(range.clone(), u64::MAX)])
    }

    /// Whether a silent fault may change `range`. If so, the fault is recorded.
    pub fn admit_change(&mut self, range: &Range<u64>) -> bool {
        self.admit(&[(range.clone(), PAGE_BYTES)])
    }

    /// Whether a write to `meant` may land at `hit` instead. If so, the fault is recorded.
    pub fn admit_misdirected(&mut self, meant: &Range<u64>, hit: &Range<u64>) -> bool {
        self.admit(&[(meant.clone(), u64::MAX), (hit.clone(), PAGE_BYTES)])
    }

    /// Whether `range` touches a part that has a fault.
    pub fn is_wounded(&self, range: &Range<u64>) -> bool {
        let touched = |n: &usize| !common(&self.parts[*n].0, range).is_empty();
        (0..self.parts.len())
            .filter(touched)
            .any(|n| self.wounded[n])
    }

    /// Whether this part has a fault.
    pub fn is_part_wounded(&self, part: Part) -> bool {
        let of_part = self.parts.iter().position(|(_, other)| *other == part);
        of_part.is_some_and(|n| self.wounded[n])
    }

    /// Removes all faults, because a recovery is complete.
    pub fn heal(&mut self) {
        self.wounded = [false; 4];
    }

    fn admit(&mut self, touches: &[(Range<u64>, u64)]) -> bool {
        let mut wounded = self.wounded;
        for (range, bytes_max) in touches {
            for (n, (area, part)) in self.parts.iter().enumerate() {
                let hit = common(area, range);
                if hit.is_empty() || *part == Part::Checkpoint {
                    continue;
                }
                let pages =
                    hit.end.div_ceil(PAGE_BYTES) * PAGE_BYTES - hit.start / PAGE_BYTES * PAGE_BYTES;
                if wounded[n] || pages > *bytes_max {
                    return false;
                }
                wounded[n] = true;
            }
        }
        self.wounded = wounded;
        true
    }
}

fn common(a: &Range<u64>, b: &Range<u64>) -> Range<u64> {
    a.start.max(b.start)..a.end.min(b.end)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn areas() -> (Areas, Geometry) {
        let geometry = Geometry::plan(4 << 20, 512).unwrap();
        (Areas::of(&geometry), geometry)
    }

    fn at(offset: u64, len: u64) -> Range<u64> {
        offset..offset + len
    }

    #[test]
    fn one_fault_for_each_part_until_it_heals() {
        let (mut areas, geometry) = areas();
        let log = geometry.invalidation_log_at;
        assert!(areas.admit_loss(&at(log, 512)));
        assert!(areas.is_wounded(&at(log + 8192, 512)));
        assert!(!areas.admit_change(&at(log + 4096, 512)));
        assert!(areas.admit_change(&at(geometry.region_journal_at, 512)));
        areas.heal();
        assert!(areas.admit_change(&at(log + 4096, 512)));
    }

    #[test]
    fn a_write_of_a_part_does_not_land_in_the_same() {
        let (mut areas, geometry) = areas();
        let log = geometry.invalidation_log_at;
        assert!(!areas.admit_misdirected(&at(log, 512), &at(log + 4096, 512)));
        assert!(
            !areas.is_wounded(&at(log, 512)),
            "what is refused is not done"
        );
        assert!(areas.admit_misdirected(&at(log, 512), &at(geometry.data_at, 512)));
    }

    #[test]
    fn only_one_page_is_changed() {
        let (mut areas, geometry) = areas();
        let log = geometry.invalidation_log_at;
        assert!(!areas.admit_change(&at(log, 8192)));
        assert!(!areas.admit_change(&at(log + 4000, 512)));
        assert!(areas.admit_change(&at(log, 4096)));
    }

    #[test]
    fn checkpoints_and_data_may_suffer_anything() {
        let (mut areas, geometry) = areas();
        for _ in 0..3 {
            assert!(areas.admit_change(&at(geometry.checkpoint_at, 65536)));
            assert!(areas.admit_loss(&at(geometry.data_at, 65536)));
        }
    }
}
