//! What a journal says, line by line, and where its reading goes on.
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
    /// Where it comes from.
    pub origin: Origin,
    /// Its number there.
    pub stamp: Stamp,
    /// The number of the one before it.
    pub before: Stamp,
    /// When, seconds since 1970 by the clock of the origin.
    pub unix_s: u64,
    /// What (`change`).
    pub change: Bytes,
}

impl Entry {
    /// Everything but length and checksum.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(FIXED_BYTES + self.change.len());
        for number in [self.origin.0, self.stamp.0, self.before.0, self.unix_s] {
            out.extend(number.to_le_bytes());
        }
        out.extend(&self.change);
        out
    }

    /// What was encoded.
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

/// What a journal says to a member that lacks some of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Line {
    /// A purge.
    Entry(Entry),
    /// A change out of a summary: nothing is heard of it before the end of the summary.
    Also(Bytes),
    /// The end of a summary: so far was told.
    Upto(Vector),
}

/// Where the reading of a journal goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Position {
    /// Of the segment; 0: of none.
    pub(super) id: u64,
    pub(super) offset: u64,
}
