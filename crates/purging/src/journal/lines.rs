//! The contents of a journal, line by line, and positions for reading.
//!
//! Not known here: segments.

use bytes::Bytes;

use super::super::{
    change::CHANGE_BYTES_MAX,
    stamp::{Origin, Stamp, Vector},
};

/// Origin, stamp, stamp before, time.
pub const FIXED_BYTES: usize = 32;

/// One purge.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// The journal that it comes from.
    pub origin: Origin,
    /// Its number at that origin.
    pub stamp: Stamp,
    /// The number of the purge before it.
    pub before: Stamp,
    /// When it was made, seconds since 1970 by the clock of the origin.
    pub unix_s: u64,
    /// The encoded [`Change`](super::super::change::Change).
    pub change: Bytes,
}

impl Entry {
    /// Encodes the entry without length and checksum.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(FIXED_BYTES + self.change.len());
        for number in [self.origin.0, self.stamp.0, self.before.0, self.unix_s] {
            out.extend(number.to_le_bytes());
        }
        out.extend(&self.change);
        out
    }

    /// Decodes an entry.
    pub fn decode(bytes: &[u8]) -> Option<Entry> {
        let (fixed, change) = bytes.split_at_checked(FIXED_BYTES)?;
        let number = |at: usize| fixed[at..].first_chunk().map(|b| u64::from_le_bytes(*b));
        (change.len() <= CHANGE_BYTES_MAX).then_some(())?;
        Some(Entry {
            origin: Origin(number(0)?),
            stamp: Stamp(number(8)?),
            before: Stamp(number(16)?),
            unix_s: number(24)?,
            change: Bytes::copy_from_slice(change),
        })
    }
}

/// A line of the journal, for a member that lacks it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Line {
    /// A purge.
    Entry(Entry),
    /// A change of a summary. It is not heard before the end of the summary.
    Also(Bytes),
    /// The end of a summary, and all that is heard with it.
    Upto(Vector),
}

/// A position for reading.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Position {
    /// Id of the segment; 0: there was none.
    pub(super) id: u64,
    pub(super) offset: u64,
}
