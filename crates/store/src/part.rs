//! Parts of fragments: which bytes of a record are read for a part of its body, and how they are verified.
//!
//! ```text
//!   look_up --> Read, pinned --> part_of --> read the front, unless it is known, and the blocks --> read_done
//!                                             |                               |
//!                                             decode_front --> Front --> decode_part --> the part of the body
//! ```
//!
//! A [`Front`] may be kept: it names the record's key, and its table says which bytes the body had. The bytes of a
//! fragment's key never change, so blocks that match the table are the right ones, wherever the record lies by then.
//! Whether the record may still be read is asked anew each time, by the look-up.
//!
//! Not known here: which part is wanted, where fronts are kept.

use crate::blocks::{BLOCK_BYTES, Blocks};
use crate::index::reading::Read;
use crate::record::corrupt::Corrupt;
use crate::record::{self, Front, HEADER_BYTES};
use crate::store::Store;
use bytes::Bytes;
use extent::Chunks;
use std::ops::Range;

/// The place of the bytes that are needed for a part of a fragment's body, in bytes from the record's beginning.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PartPlace {
    /// The front ends here; it is needed only if no [`Front`] is known.
    pub front_end: u64,
    /// The blocks that have the part.
    pub blocks: Range<u64>,
}

impl PartPlace {
    /// The length of a block.
    pub const BLOCK_BYTES: u64 = BLOCK_BYTES;
}

impl Store {
    /// The place of a part of a fragment's body, if key and body have these lengths and there is no metadata. It consists of whole
    /// blocks or chunks, so that it can be read.
    ///
    /// `None` if the record has other lengths, and so is another key's. If it is to be renewed, read it whole ([`Self::renews_part`]).
    pub fn part_of(
        &self,
        read: &Read,
        key_len: usize,
        body_len: u64,
        part: Range<u64>,
    ) -> Option<PartPlace> {
        let blocks = Blocks::of((HEADER_BYTES + key_len) as u64, body_len)?;
        let chunks = record::chunks_for(blocks.body_end, self.geometry.chunk_bytes);
        if chunks != Some(read.extent.len.0) || part.is_empty() || part.end > body_len {
            return None;
        }
        // A record need not end with a block, but ends with a chunk; chunks may be larger than blocks.
        let unit = BLOCK_BYTES.min(self.chunk_bytes() as u64);
        let end = |end: u64| end.next_multiple_of(unit).min(read.len as u64);
        let around = blocks.around(part);
        Some(PartPlace {
            front_end: end(blocks
                .body_at
                .next_multiple_of(BLOCK_BYTES)
                .min(blocks.body_end)),
            blocks: around.start..end(around.end),
        })
    }

    /// Is a fragment that is read at this place to be written again? Then read it whole.
    pub fn renews_part(&self, read: &Read) -> bool {
        let bytes = self.fragment_bytes().div_ceil(self.geometry.chunk_bytes);
        read.renew && self.is_near(read.extent.first, Chunks(bytes))
    }

    /// Verifies the front of a fragment's record. As [`Self::decode_needed`], an invalidation does not count. The caller compares the
    /// key and the body's length.
    ///
    /// # Errors
    /// As [`Self::decode`].
    pub fn decode_front(&self, bytes: &Bytes, read: &Read) -> Result<Front, Corrupt> {
        let front = record::decode_front(bytes, self.expected(read.hash, Some(read.extent)))?;
        // Bytes of an earlier epoch are not the promised record.
        match front.sequence < self.accept_from {
            true => Err(Corrupt::Invalidated),
            false => Ok(front),
        }
    }

    /// Verifies blocks, which lie at `at` in the record. Returns where in them this part of the body lies.
    ///
    /// # Errors
    /// They are not whole blocks of that record, or the part is not in them.
    pub fn decode_part(
        &self,
        front: &Front,
        at: u64,
        bytes: &[u8],
        part: Range<u64>,
    ) -> Result<Range<usize>, Corrupt> {
        let decoded = front.decode(at, bytes, part, self.limits.mistakes);
        if decoded.is_err() {
            self.counters.corrupt.add(1);
        }
        decoded
    }
}
