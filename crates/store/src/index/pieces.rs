//! A key's hash, used piece by piece.
//!
//! ```text
//!   63          42 41      32 31   27 26             0
//!   |   segment   |   shard  |   -   |     short     |
//! ```
//!
//! The topmost 22 bits choose the segment, a table of its own ([`Segment`](super::segment::Segment)) that grows by itself, so that
//! growing stops the shard for one segment's time only. The lowest 27 bits are the key within it ([`Short`]). Bits 32 to 41 are left
//! for choosing the shard.
//!
//! Neither a `Short` nor the whole hash is the key. Of two keys with one segment and one `Short` only one has an entry;
//! the other finds it, reads the record, compares the full key, and takes it for a miss. With 10,000 entries a segment
//! that happens to one absent key in 13,000.

use crate::index::key::KeyHash;

/// The bits of a hash that choose the segment, the topmost.
const SEGMENT_BITS: u32 = 22;

/// The most segments an index can have: more could not be told apart.
pub(crate) const SEGMENTS_MAX: usize = 1 << SEGMENT_BITS;

/// The segment that a hash belongs to, of `segments` segments.
pub(crate) fn segment_of(hash: KeyHash, segments: usize) -> usize {
    let top = hash.0 >> (u64::BITS - SEGMENT_BITS);
    ((top * segments as u64) >> SEGMENT_BITS) as usize
}

/// The part of a key's hash that a segment knows. Two keys may have the same.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub(crate) struct Short(pub(super) u32);

impl Short {
    /// How many bits of the hash a segment takes.
    pub(crate) const BITS: u32 = 27;
    pub(super) const MASK: u32 = (1 << Self::BITS) - 1;

    /// The lowest bits of a key's hash.
    pub(crate) fn of(hash: KeyHash) -> Self {
        Short(hash.0 as u32 & Self::MASK)
    }

    /// As a number below 2^27.
    pub(crate) fn number(self) -> u32 {
        self.0
    }
}
