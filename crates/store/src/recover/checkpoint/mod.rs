//! A checkpoint: index, markers and predicates as a stream of blocks, written while the store is in use.
//!
//! ```text
//! header page | block 0 (1 MiB) | block 1 | ... | the last block, whole pages
//! block: head (64) | payload           payload of all blocks: part, part, ..., zeros
//! part: head (16) | its bytes | zeros up to a multiple of 16
//! ```
//!
//! A part is a kind, a number and bytes; the caller knows its meaning. A part may span blocks, its head never does. A
//! part that finds no room is left out and counted; smaller ones after it may still fit.
//!
//! Each block's head has the checksum of its payload; the header page has the checksum of all block heads,
//! and a MAC. So one comparison at the end covers every byte, and neither foreign blocks nor those of another
//! generation or epoch can be slipped in.
//!
//! A checkpoint is *published* by the superblock that names it, after a flush; before that it does not count. The
//! header page is written last, but nothing depends on that.
//!
//! Limits: the area. The writer holds one block, and those that the caller has not taken yet.
//! Not known here: the parts' contents, areas, devices.

pub mod read;
pub mod write;

use crate::layout::PAGE_BYTES;
use crate::layout::{checkpoint_block, checkpoint_header, checkpoint_part};
use crate::sequence::Sequence;

const MAGIC: [u8; 8] = *b"LgCheck\n";
const VERSION: u32 = 1;
const BLOCK_MAGIC: [u8; 4] = *b"LgCb";

/// The length of every block but the last.
pub(crate) const BLOCK_BYTES: usize = 1 << 20;
/// The payload of a whole block.
const PAYLOAD_BYTES: usize = BLOCK_BYTES - checkpoint_block::BYTES;
const HEADER_PAGE: usize = checkpoint_header::BYTES;
const PAGE: usize = PAGE_BYTES as usize;
/// Parts begin at multiples of this in the payload.
const PART_ALIGN: usize = checkpoint_part::BYTES;

const _: () = assert!(PAYLOAD_BYTES.is_multiple_of(PART_ALIGN) && HEADER_PAGE == PAGE);

/// Identifies a checkpoint.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct About {
    /// Rises from one checkpoint to the next.
    pub generation: u64,
    /// The epoch of its records.
    pub epoch: u64,
    /// The sequence at which it was begun. Later records may be in it or not.
    pub covers: Sequence,
}

/// Payload that an area has room for.
fn payload_max(area_bytes: u64) -> u64 {
    let pages = area_bytes / PAGE_BYTES * PAGE_BYTES;
    let blocks = pages.saturating_sub(HEADER_PAGE as u64);
    let (whole, rest) = (blocks / BLOCK_BYTES as u64, blocks % BLOCK_BYTES as u64);
    whole * PAYLOAD_BYTES as u64 + rest.saturating_sub(checkpoint_block::BYTES as u64)
}

#[cfg(test)]
mod tests;
