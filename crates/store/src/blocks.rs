//! The blocks of a fragment: the units that are read and verified when only a part of its body is wanted.
//!
//! A fragment is up to a mebibyte long, and a range often wants a small part of it. So a fragment carries a table with a
//! checksum of each of its blocks. The table stands in front of the body, and the header's checksum covers it, which
//! is under the MAC.
//!
//! ```text
//! block 0                          block 1          block 2                    block n - 1
//! +--------+-----+-------+---------+----------------+------- ... --------------+--------------+-------+
//! | header | key | table | body ...                                                      body | zeros |
//! +--------+-----+-------+---------+----------------+------- ... --------------+--------------+-------+
//! <-- header's checksum -><- [0] --><----- [1] ----->                           <-- [n - 1] -->
//! ```
//!
//! Blocks are counted from the record's first byte, so a read of blocks is as aligned as the record. Entry i covers the part
//! of the body that lies in block i; that part is empty where the key fills the block.
//!
//! The lengths of key and body tell where each byte of the body lies ([`Blocks::of`]), before anything is read. So the front
//! and the wanted blocks are read at once.
//!
//! Not known here: headers, places, which bytes are wanted.

use crate::record::corrupt::Corrupt;
use std::hash::Hasher;
use std::ops::Range;
use twox_hash::XxHash3_64;
use twox_hash::xxhash3_64::{RawHasher, SecretBuffer};

/// The length of a block. A range reads up to this much too much at both ends; a table takes a 512th of its record.
pub(crate) const BLOCK_BYTES: u64 = 4096;

/// The width of an entry of the table: an XXH3-64.
pub(crate) const ENTRY_BYTES: u64 = 8;

/// Where table and body of a fragment's record lie, in bytes from its beginning.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Blocks {
    /// Behind header, key, marker and metadata.
    pub table_at: u64,
    /// Behind the table.
    pub body_at: u64,
    /// Behind the body.
    pub body_end: u64,
}

impl Blocks {
    /// The layout behind `before` bytes of header, key, marker and metadata. `None` if the body is too long for a fragment.
    pub(crate) fn of(before: u64, body_len: u64) -> Option<Self> {
        // Each block has this much room beside its entry, so this count holds all, and one less would not.
        let count = before
            .checked_add(body_len)?
            .div_ceil(BLOCK_BYTES - ENTRY_BYTES);
        let body_at = before.checked_add(count.checked_mul(ENTRY_BYTES)?)?;
        Some(Self {
            table_at: before,
            body_at,
            body_end: body_at.checked_add(body_len)?,
        })
    }

    /// Bytes of the table.
    pub(crate) fn table_bytes(&self) -> u64 {
        self.body_at - self.table_at
    }

    fn count(&self) -> u64 {
        self.table_bytes() / ENTRY_BYTES
    }

    /// The bytes of the record in this block that belong to the body.
    fn body_in(&self, block: u64) -> Range<u64> {
        let start = (block * BLOCK_BYTES).clamp(self.body_at, self.body_end);
        let end = ((block + 1) * BLOCK_BYTES).clamp(self.body_at, self.body_end);
        start..end
    }

    /// The blocks that have these bytes of the body; as bytes of the record, and not beyond the body.
    pub(crate) fn around(&self, part: Range<u64>) -> Range<u64> {
        let start = (self.body_at + part.start) / BLOCK_BYTES * BLOCK_BYTES;
        let end = (self.body_at + part.end).next_multiple_of(BLOCK_BYTES);
        start..end.min(self.body_end)
    }

    /// The table of a body in pieces.
    pub(crate) fn table(&self, body: &[&[u8]]) -> Vec<u8> {
        let mut table = Vec::with_capacity(self.table_bytes() as usize);
        let mut pieces = body.iter().copied();
        let mut piece: &[u8] = &[];
        for block in 0..self.count() {
            let here = self.body_in(block);
            let mut left = (here.end - here.start) as usize;
            let sum = if left <= piece.len() {
                XxHash3_64::oneshot(take(&mut piece, &mut left))
            } else {
                // The hasher's usual constructor allocates; this one lives on the stack.
                let mut hasher = RawHasher::new(SecretBuffer::default());
                while left > 0 {
                    if piece.is_empty() {
                        piece = pieces.next().expect("the pieces are as long as the body");
                    }
                    hasher.write(take(&mut piece, &mut left));
                }
                hasher.finish()
            };
            table.extend_from_slice(&sum.to_le_bytes());
        }
        table
    }

    /// Compares whole blocks with the table. `bytes` lie at `at` in the record, where a block begins; they end with a block, with
    /// the body, or behind the body.
    pub(crate) fn verify(&self, table: &[u8], at: u64, bytes: &[u8]) -> Result<(), Corrupt> {
        let end = (at + bytes.len() as u64).min(self.body_end);
        for block in at / BLOCK_BYTES..end.div_ceil(BLOCK_BYTES) {
            let here = self.body_in(block);
            let (from, to) = (here.start.max(at) - at, here.end.max(at) - at);
            let found = bytes
                .get(from as usize..to as usize)
                .ok_or(Corrupt::Length)?;
            let entry = (block * ENTRY_BYTES) as usize;
            let expected = table
                .get(entry..entry + ENTRY_BYTES as usize)
                .ok_or(Corrupt::Length)?;
            if XxHash3_64::oneshot(found).to_le_bytes() != expected {
                return Err(Corrupt::Checksum);
            }
        }
        Ok(())
    }
}

/// The first of these bytes: as many as there are, at most `left`.
fn take<'a>(piece: &mut &'a [u8], left: &mut usize) -> &'a [u8] {
    let (front, rest) = piece.split_at(piece.len().min(*left));
    *piece = rest;
    *left -= front.len();
    front
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_an_entry_for_each_block() {
        for before in [128, 129, 200, 4079, 4080, 4088, 4096, 9000] {
            for body in [0, 1, 100, 3000, 4080, 4088, 4096, 8192, 65_024, 1 << 20] {
                let blocks = Blocks::of(before, body).unwrap();
                assert_eq!(blocks.count(), blocks.body_end.div_ceil(BLOCK_BYTES));
                let all = (0..blocks.count()).map(|block| blocks.body_in(block));
                assert_eq!(all.map(|it| it.end - it.start).sum::<u64>(), body);
            }
        }
        assert_eq!(Blocks::of(128, u64::MAX - 200), None);
    }

    #[test]
    fn the_pieces_of_a_body_do_not_matter() {
        let body: Vec<u8> = (0..30_000_u32).map(|n| ((n * n) >> 3) as u8).collect();
        let blocks = Blocks::of(5000, 30_000).unwrap();
        let whole = blocks.table(&[&body]);
        assert_eq!(whole.len() as u64, blocks.table_bytes());
        for step in [1, 7, 4096, 5000, 29_999] {
            let pieces: Vec<_> = body.chunks(step).flat_map(|it| [it, b""]).collect();
            assert_eq!(blocks.table(&pieces), whole, "{step}");
        }
    }

    #[test]
    fn exactly_the_blocks_that_are_there_are_compared() {
        let body: Vec<u8> = (0..30_000_u32).map(|n| ((n * n) >> 3) as u8).collect();
        let blocks = Blocks::of(200, 30_000).unwrap();
        let table = blocks.table(&[&body]);
        let mut record = [vec![0; blocks.body_at as usize], body].concat();
        let check = |record: &[u8], part: Range<u64>| {
            let around = blocks.around(part);
            let bytes = &record[around.start as usize..around.end as usize];
            blocks.verify(&table, around.start, bytes)
        };
        for part in [0..1, 0..30_000, 10..20, 8000..9000, 29_999..30_000] {
            assert_eq!(check(&record, part.clone()), Ok(()), "{part:?}");
        }
        record[8192] ^= 1;
        let in_block_2 = 8192 - blocks.body_at;
        for part in [0..in_block_2, in_block_2 + 4096..30_000] {
            assert_eq!(check(&record, part), Ok(()));
        }
        for part in [0..in_block_2 + 1, in_block_2 + 4095..30_000, 0..30_000] {
            assert_eq!(check(&record, part), Err(Corrupt::Checksum));
        }
        // A block that is not all there, or behind the table.
        assert_eq!(
            blocks.verify(&table, 0, &record[..5000]),
            Err(Corrupt::Length)
        );
        let short = &table[..table.len() - 8];
        assert_eq!(blocks.verify(short, 0, &record), Err(Corrupt::Checksum));
        record[8192] ^= 1;
        assert_eq!(blocks.verify(short, 0, &record), Err(Corrupt::Length));
    }
}
