//! Writing a checkpoint: parts go in, whole blocks come out as they fill.
//!
//! Each byte is copied once, into its block. The caller takes the blocks between its pushes and writes them in any
//! order; the writer keeps nothing of a block it has handed out but the checksum of its head.

use super::{
    About, BLOCK_BYTES, BLOCK_MAGIC, HEADER_PAGE, MAGIC, PAGE, PART_ALIGN, PAYLOAD_BYTES, VERSION,
    payload_max,
};
use crate::layout::{
    checkpoint_block as block, checkpoint_header as header, checkpoint_part as part,
};
use crate::memory::aligned;
use crate::secret::Secret;
use crate::sequence::Sequence;
use bytes::{Bytes, BytesMut};
use std::collections::VecDeque;
use std::fmt;
use std::hash::Hasher;
use twox_hash::XxHash3_64;

/// A checkpoint being written.
pub(crate) struct CheckpointWriter {
    about: About,
    secret: Secret,
    /// The payload that still fits.
    room: u64,
    /// The block being filled, if it has been begun, and the bytes in use, its head included.
    open: BytesMut,
    open_used: usize,
    ready: VecDeque<(u64, Bytes)>,
    blocks: u32,
    block_heads: XxHash3_64,
    payload_bytes: u64,
    parts: u32,
    left_out: u32,
}

/// The end of a checkpoint.
#[derive(Debug)]
pub(crate) struct Finished {
    /// The remaining writes, the header page last. Offsets count from the start of the area.
    pub writes: Vec<(u64, Bytes)>,
    /// The whole checkpoint, a multiple of 4096.
    pub bytes: u64,
    #[cfg(test)]
    /// Parts in it.
    pub parts: u32,
    #[cfg(test)]
    /// Parts that found no room.
    pub left_out: u32,
}

impl CheckpointWriter {
    /// Begins a checkpoint for an area of `area_bytes`.
    pub(crate) fn new(area_bytes: u64, about: About, secret: Secret) -> Self {
        Self {
            about,
            secret,
            room: payload_max(area_bytes),
            open: BytesMut::new(),
            open_used: 0,
            ready: VecDeque::new(),
            blocks: 0,
            block_heads: XxHash3_64::new(),
            payload_bytes: 0,
            parts: 0,
            left_out: 0,
        }
    }

    /// Adds a part. False if there is no room: the part is left out.
    pub(crate) fn push(&mut self, kind: u8, number: u32, bytes: &[u8]) -> bool {
        let used = (part::BYTES + bytes.len()).next_multiple_of(PART_ALIGN) as u64;
        if used > self.room {
            self.left_out = self.left_out.saturating_add(1);
            return false;
        }
        self.room -= used;
        self.payload_bytes += used;
        self.parts += 1;
        let mut head = [0; part::BYTES];
        part::KIND.put(&mut head, &[kind]);
        part::NUMBER.put_u32(&mut head, number);
        part::LENGTH.put_u64(&mut head, bytes.len() as u64);
        self.append(&head);
        self.append(bytes);
        let padding = used as usize - part::BYTES - bytes.len();
        self.append(&[0; PART_ALIGN][..padding]);
        true
    }

    /// Has every part found room so far?
    pub(crate) fn is_whole(&self) -> bool {
        self.left_out == 0
    }

    /// A block to be written: offset in the area, whole pages at an aligned address.
    pub(crate) fn take_block(&mut self) -> Option<(u64, Bytes)> {
        self.ready.pop_front()
    }

    /// Ends the checkpoint. `sequence`: the store's at this moment.
    pub(crate) fn finish(mut self, sequence: Sequence) -> Finished {
        if self.open_used > 0 {
            self.seal();
        }
        let bytes = (HEADER_PAGE + self.blocks_bytes()) as u64;
        let mut page = aligned(HEADER_PAGE);
        header::MAGIC.put(&mut page, &MAGIC);
        header::VERSION.put_u32(&mut page, VERSION);
        header::BLOCKS.put_u32(&mut page, self.blocks);
        header::GENERATION.put_u64(&mut page, self.about.generation);
        header::EPOCH.put_u64(&mut page, self.about.epoch);
        header::COVERS.put_u64(&mut page, self.about.covers);
        header::SEQUENCE.put_u64(&mut page, sequence);
        header::PARTS.put_u32(&mut page, self.parts);
        header::LEFT_OUT.put_u32(&mut page, self.left_out);
        header::LENGTH.put_u64(&mut page, bytes);
        header::PAYLOAD_BYTES.put_u64(&mut page, self.payload_bytes);
        header::BLOCKS_CHECKSUM.put_u64(&mut page, self.block_heads.finish());
        let checksum = XxHash3_64::oneshot(&page[..header::CHECKSUM.at]);
        header::CHECKSUM.put_u64(&mut page, checksum);
        let mac = self.secret.mac(&page[..header::MAC.at]);
        header::MAC.put(&mut page, &mac);
        let mut writes: Vec<_> = self.ready.into();
        writes.push((0, page.freeze()));
        Finished {
            writes,
            bytes,
            #[cfg(test)]
            parts: self.parts,
            #[cfg(test)]
            left_out: self.left_out,
        }
    }

    fn append(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            if self.open_used == 0 {
                self.open = aligned(BLOCK_BYTES);
                self.open_used = block::BYTES;
            }
            let (now, later) = bytes.split_at(bytes.len().min(BLOCK_BYTES - self.open_used));
            self.open[self.open_used..self.open_used + now.len()].copy_from_slice(now);
            self.open_used += now.len();
            bytes = later;
            if self.open_used == BLOCK_BYTES {
                self.seal();
            }
        }
    }

    /// The open block is done: whole, or the last.
    fn seal(&mut self) {
        let mut bytes = std::mem::take(&mut self.open);
        bytes.truncate(self.open_used.next_multiple_of(PAGE));
        let (head, payload) = bytes.split_at_mut(block::BYTES);
        block::MAGIC.put(head, &BLOCK_MAGIC);
        block::NUMBER.put_u32(head, self.blocks);
        block::GENERATION.put_u64(head, self.about.generation);
        block::EPOCH.put_u64(head, self.about.epoch);
        block::PAYLOAD_BYTES.put_u32(head, (self.open_used - block::BYTES) as u32);
        block::CHECKSUM.put_u64(head, XxHash3_64::oneshot(payload));
        self.block_heads.write(head);
        let offset = (HEADER_PAGE + self.blocks as usize * BLOCK_BYTES) as u64;
        self.ready.push_back((offset, bytes.freeze()));
        self.blocks += 1;
        self.open_used = 0;
    }

    /// Bytes of all blocks, which are sealed by now.
    fn blocks_bytes(&self) -> usize {
        let whole = self.payload_bytes as usize / PAYLOAD_BYTES * BLOCK_BYTES;
        match self.payload_bytes as usize % PAYLOAD_BYTES {
            0 => whole,
            rest => whole + (block::BYTES + rest).next_multiple_of(PAGE),
        }
    }
}

impl fmt::Debug for CheckpointWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CheckpointWriter")
            .field("about", &self.about)
            .field("room", &self.room)
            .field("parts", &self.parts)
            .field("left_out", &self.left_out)
            .finish_non_exhaustive()
    }
}
