//! The tables of records that answers need (`needed`), and the state of their moves (`moves`).

use crate::index::key::{KeyHash, NumberMap};
use extent::Extent;
use std::collections::VecDeque;

/// Needed records take at most this share of the data area, since each is written once more when the hand goes round.
pub(crate) const NEEDED_SHARE: u64 = 4;

/// The most needs. Two needs of one record count twice.
pub const NEEDS_MAX: usize = 1 << 16;

/// A record in a shard's table of needed records.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Need {
    /// The number of needs.
    pub(super) count: u32,
    /// Its share of the store's sum of needed bytes.
    pub(super) bytes: u64,
    pub moving: Moving,
    /// It could not be moved, and is evicted like any other.
    pub given_up: bool,
    /// It has left the index, because it was killed or found no room, and stays here until it is released.
    pub kept: Option<Extent>,
}

/// A shard's table of needed records, by whole hash.
pub(crate) type NeedMap = NumberMap<u64, Need>;

/// Must the sweep spare this record?
pub(crate) fn is_needed(needed: &NeedMap, hash: KeyHash) -> bool {
    needed.get(&hash.0).is_some_and(|need| !need.given_up)
}

/// The needs in a table, and their bytes.
pub(crate) fn sums(needed: &NeedMap) -> (u64, u64) {
    let count = needed.values().map(|need| u64::from(need.count)).sum();
    (count, needed.values().map(|need| need.bytes).sum())
}

/// The state of a needed record's move.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Moving {
    No,
    Queued,
    UnderWay,
}

impl Moving {
    pub(crate) fn queued(is_queued: bool) -> Self {
        match is_queued {
            true => Self::Queued,
            false => Self::No,
        }
    }
}

/// Moves to hand out, and how many are under way.
#[derive(Debug, Default)]
pub(crate) struct Moves {
    pub(super) queue: VecDeque<KeyHash>,
    pub(super) under_way: usize,
}
