//! Reading a checkpoint: everything is verified first, then the parts are handed out where they lie.
//!
//! The bytes are foreign: whatever they are, the answer is a [`CheckpointError`], never a panic, and nothing is allocated
//! by a length they claim. A part in one block is borrowed; one that spans blocks is copied once, or read piece
//! by piece.

use super::{
    About, BLOCK_BYTES, BLOCK_MAGIC, HEADER_PAGE, MAGIC, PAGE, PART_ALIGN, PAYLOAD_BYTES, VERSION,
};
use crate::layout::{
    checkpoint_block as block, checkpoint_header as header, checkpoint_part as part,
};
use crate::secret::Secret;
use crate::sequence::Sequence;
use std::borrow::Cow;
use std::hash::Hasher;
use std::ops::Range;
use twox_hash::XxHash3_64;

/// Why bytes are not the wanted checkpoint; recovery then does without one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub(crate) enum CheckpointError {
    /// Shorter than its header says, or than any checkpoint.
    #[error("the checkpoint is cut short")]
    Short,
    /// Something else lies there.
    #[error("no checkpoint lies there")]
    Magic,
    /// A checkpoint of another format.
    #[error("a checkpoint of another format version")]
    Version,
    /// Changed since it was written.
    #[error("the checkpoint is damaged ({0})")]
    Damaged(&'static str),
    /// Whole, but not written by this store.
    #[error("the checkpoint's MAC does not match")]
    Mac,
    /// Whole, but an older or newer one than the superblock names.
    #[error("a checkpoint of another generation or epoch")]
    Mismatch,
}

/// The superblock's entry of the checkpoint.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Expected {
    pub generation: u64,
    pub epoch: u64,
}

/// A checkpoint that was verified.
#[derive(Clone, Debug)]
pub(crate) struct Checkpoint<'a> {
    /// Its identity, and the sequence that it covers.
    pub about: About,
    /// The store's sequence when the checkpoint ended.
    pub sequence: Sequence,
    /// How many parts found no room; their content is unknown.
    pub left_out: u32,
    parts: u32,
    payload: Payload<'a>,
}

impl<'a> Checkpoint<'a> {
    #[cfg(test)]
    /// How many parts there are.
    pub(crate) fn part_count(&self) -> u32 {
        self.parts
    }

    /// The parts in the order they were pushed.
    pub(crate) fn parts(&self) -> Parts<'a> {
        Parts {
            payload: self.payload,
            at: 0,
        }
    }
}

/// Verifies a checkpoint. `bytes` begins at its header page and may go on behind it.
///
/// # Errors If they are not the whole checkpoint of that generation and epoch, written by this store.
pub(crate) fn read<'a>(
    bytes: &'a [u8],
    expected: Expected,
    secret: &Secret,
) -> Result<Checkpoint<'a>, CheckpointError> {
    use CheckpointError::{Damaged, Magic, Mismatch, Short, Version};
    let (page, blocks) = bytes.split_at_checked(HEADER_PAGE).ok_or(Short)?;
    if header::MAGIC.of(page) != MAGIC {
        return Err(Magic);
    }
    if header::VERSION.u32(page) != VERSION {
        return Err(Version);
    }
    if header::CHECKSUM.u64(page) != XxHash3_64::oneshot(&page[..header::CHECKSUM.at]) {
        return Err(Damaged("header"));
    }
    if header::MAC.of(page) != secret.mac(&page[..header::MAC.at]) {
        return Err(CheckpointError::Mac);
    }
    let about = About {
        generation: header::GENERATION.u64(page),
        epoch: header::EPOCH.u64(page),
        covers: header::COVERS.u64(page),
    };
    if (about.generation, about.epoch) != (expected.generation, expected.epoch) {
        return Err(Mismatch);
    }
    let blocks_bytes = header::LENGTH.u64(page).saturating_sub(HEADER_PAGE as u64);
    let blocks = usize::try_from(blocks_bytes)
        .ok()
        .and_then(|len| blocks.get(..len))
        .ok_or(Short)?;
    let payload_bytes = verify_blocks(page, blocks)?;
    let payload = Payload {
        blocks,
        bytes: payload_bytes,
    };
    let checkpoint = Checkpoint {
        about,
        sequence: header::SEQUENCE.u64(page),
        left_out: header::LEFT_OUT.u32(page),
        parts: header::PARTS.u32(page),
        payload,
    };
    let mut parts = checkpoint.parts();
    let count = parts.by_ref().count();
    // The walk ends early at a part that does not fit.
    if parts.at != payload_bytes || count != checkpoint.parts as usize {
        return Err(Damaged("parts"));
    }
    Ok(checkpoint)
}

/// Checks that all blocks are there, in order and whole. Returns the length of their payload.
fn verify_blocks(page: &[u8], blocks: &[u8]) -> Result<usize, CheckpointError> {
    let damaged = CheckpointError::Damaged("block");
    let mut heads = XxHash3_64::new();
    let mut payload_bytes = 0;
    let mut count = 0;
    for bytes in blocks.chunks(BLOCK_BYTES) {
        let (head, payload) = bytes.split_at_checked(block::BYTES).ok_or(damaged)?;
        let used = block::PAYLOAD_BYTES.u32(head) as usize;
        let belongs = block::MAGIC.of(head) == BLOCK_MAGIC
            && block::NUMBER.u32(head) == count
            && block::GENERATION.of(head) == header::GENERATION.of(page)
            && block::EPOCH.of(head) == header::EPOCH.of(page)
            && (block::BYTES + used).next_multiple_of(PAGE) == bytes.len()
            && block::CHECKSUM.u64(head) == XxHash3_64::oneshot(payload);
        if !belongs {
            return Err(damaged);
        }
        heads.write(head);
        payload_bytes += used;
        count += 1;
    }
    let all = count == header::BLOCKS.u32(page)
        && payload_bytes as u64 == header::PAYLOAD_BYTES.u64(page)
        && heads.finish() == header::BLOCKS_CHECKSUM.u64(page);
    if all { Ok(payload_bytes) } else { Err(damaged) }
}

/// The payload of all blocks as if it were in one piece.
#[derive(Clone, Copy, Debug)]
struct Payload<'a> {
    blocks: &'a [u8],
    bytes: usize,
}

impl<'a> Payload<'a> {
    /// The bytes from `range.start` up to its end or that of the block. Empty if there are none.
    fn first_piece(self, range: &Range<usize>) -> &'a [u8] {
        let within = range.start % PAYLOAD_BYTES;
        let at = range.start / PAYLOAD_BYTES * BLOCK_BYTES + block::BYTES + within;
        let len = range.len().min(PAYLOAD_BYTES - within);
        self.blocks.get(at..at + len).unwrap_or_default()
    }
}

/// The parts of a checkpoint, in order.
#[derive(Clone, Debug)]
pub(crate) struct Parts<'a> {
    payload: Payload<'a>,
    at: usize,
}

impl<'a> Iterator for Parts<'a> {
    type Item = Part<'a>;

    fn next(&mut self) -> Option<Part<'a>> {
        let rest = self.at..self.payload.bytes;
        let head = self.payload.first_piece(&rest).get(..part::BYTES)?;
        let room = rest.len() - part::BYTES;
        let len = usize::try_from(part::LENGTH.u64(head)).ok()?;
        let padded = (len <= room).then(|| len.next_multiple_of(PART_ALIGN))?;
        if padded > room {
            return None;
        }
        let start = self.at + part::BYTES;
        self.at = start + padded;
        Some(Part {
            kind: part::KIND.of(head)[0],
            number: part::NUMBER.u32(head),
            payload: self.payload,
            range: start..start + len,
        })
    }
}

/// One part of a checkpoint.
#[derive(Clone, Debug)]
pub(crate) struct Part<'a> {
    /// The kind with which it was pushed.
    pub kind: u8,
    /// The number with which it was pushed.
    pub number: u32,
    payload: Payload<'a>,
    range: Range<usize>,
}

impl<'a> Part<'a> {
    /// Its length.
    pub(crate) fn len(&self) -> usize {
        self.range.len()
    }

    /// Its bytes without copying. All pieces but the last are multiples of 16 long.
    pub(crate) fn pieces(&self) -> Pieces<'a> {
        Pieces {
            payload: self.payload,
            range: self.range.clone(),
        }
    }

    /// Its bytes, copied only if they lie in more than one block.
    pub(crate) fn bytes(&self) -> Cow<'a, [u8]> {
        let first = self.payload.first_piece(&self.range);
        if first.len() == self.len() {
            return Cow::Borrowed(first);
        }
        // The length was verified to lie within the checkpoint.
        let mut bytes = Vec::with_capacity(self.len());
        self.pieces()
            .for_each(|piece| bytes.extend_from_slice(piece));
        Cow::Owned(bytes)
    }
}

/// The bytes of a part, block by block.
#[derive(Clone, Debug)]
pub(crate) struct Pieces<'a> {
    payload: Payload<'a>,
    range: Range<usize>,
}

impl<'a> Iterator for Pieces<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let piece = self.payload.first_piece(&self.range);
        self.range.start += piece.len();
        (!piece.is_empty()).then_some(piece)
    }
}
