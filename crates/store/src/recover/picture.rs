//! The state of a checkpoint under way (`snapshot`).

use crate::geometry::Geometry;
use crate::recover::checkpoint::write::CheckpointWriter;
use crate::recover::superblock::{State, Superblock};
use crate::script::{Script, Step};
use crate::sequence::Sequence;

/// Predicates take at most this part of the area; for more there is no room, see `predicates`.
const PREDICATES_SHARE: u64 = 4;

/// Kinds of parts.
pub(crate) mod kind {
    pub(crate) const SHAPE: u8 = 1;
    pub(crate) const SEGMENT: u8 = 2;
    pub(crate) const SOFT: u8 = 3;
    pub(crate) const PREDICATES: u8 = 4;
    pub(crate) const OPEN_REGIONS: u8 = 5;
    pub(crate) const BOOK: u8 = 6;
    pub(crate) const FRONTIER: u8 = 7;
    pub(crate) const LEFT: u8 = 8;
    pub(crate) const USAGE: u8 = 9;
}

/// Bytes that predicates may take in a checkpoint.
pub(crate) fn predicates_bytes_max(geometry: &Geometry) -> usize {
    (geometry.checkpoint_bytes / PREDICATES_SHARE) as usize
}

/// A checkpoint under way.
#[derive(Debug)]
pub(crate) struct Snapshot {
    pub(super) writer: Option<CheckpointWriter>,
    pub(super) covers: Sequence,
    /// Whether no write was under way when the checkpoint began.
    pub(super) is_all_written: bool,
    pub(super) area_at: u64,
    pub(super) next_segment: usize,
    pub(super) outstanding: usize,
    pub(super) failed: bool,
    pub(super) ending: Option<Script>,
    pub(super) superblock: Superblock,
    /// Where the superblock's copies lie, in the order in which they are written.
    pub(super) copies: [u64; 2],
    /// The superblock's copy written last.
    pub(super) copy_begun: Option<u64>,
    pub(super) bytes: u64,
    pub(super) scratch: Vec<u8>,
}

impl Snapshot {
    pub(crate) fn covers(&self) -> Sequence {
        self.covers
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Is it the checkpoint of a clean stop?
    pub(crate) fn is_clean(&self) -> bool {
        self.superblock.state == State::Clean
    }

    /// If it failed: the copy of the superblock that may be torn now.
    pub(crate) fn copy_begun(&self) -> Option<u64> {
        self.copy_begun
    }

    pub(crate) fn into_superblock(self) -> Superblock {
        self.superblock
    }

    pub(super) fn next_of_ending(&mut self) -> Option<Step> {
        let step = self.ending.as_mut()?.next()?;
        if let Step::Write(offset, _) = &step
            && self.copies.contains(offset)
        {
            self.copy_begun = Some(*offset);
        }
        Some(step)
    }

    /// A step was carried out. `Some` when the whole checkpoint is done (true) or has failed (false).
    pub(crate) fn step_done(&mut self, ok: bool) -> Option<bool> {
        if let Some(ending) = &mut self.ending {
            return ending.done(ok);
        }
        self.outstanding -= 1;
        self.failed |= !ok;
        (self.failed && self.outstanding == 0).then_some(false)
    }
}
