//! Companions: the records after the one that is read, which the same read brings along.
//!
//! A disk with a head takes as long for 64 KiB as for 8. Records that were stored together, such as a page and its
//! images, lie together and are often asked for together. So a read may reach beyond its record. The further records
//! are verified like any other and returned as [`Companion`]s.
//!
//! ```text
//! region   | ... | record asked for | companion | (killed) | companion | of another round | ...
//!                 <-- pinned ------>
//!                 <-- the read: up to `reach` ------------------------>
//! ```
//!
//! Only the record asked for is pinned. That is enough, because no place in a region is written twice in a round, and
//! records of an earlier round have sequences below the region's `opened_at`. So a record of this round that the
//! index has at exactly this place is the one that was read. If the region was reused during the read, `opened_at`
//! has risen, and the bytes of the earlier round do not verify.
//!
//! Only with `second-chance` and `reinsertion`, since ordered policies have no rounds; and not during a scan, which may still
//! find a newer record.
//!
//! Not known here: which companions are wanted.
//! Source: paper 002 (locality buffers).

use crate::evict::grid::Grid;
use crate::index::key::KeyHash;
use crate::index::reading::{Read, Renewal};
use crate::record::{HEADER_BYTES, Header, RecordParts};
use crate::recover::journal;
use crate::store::Store;
use bytes::Bytes;
use extent::{Chunk, Extent};

/// A record that came with the read of another one.
#[derive(Clone, Debug)]
pub struct Companion {
    /// Its key's hash, as the index has it.
    pub hash: KeyHash,
    /// The verified record.
    pub parts: RecordParts,
    /// As [`Read::renewal`].
    pub renewal: Option<Renewal>,
}

impl Store {
    /// The length of a read that begins at `read`: `wanted`, but not beyond the end of the region, and at least the
    /// record.
    pub fn reach(&self, read: &Read, wanted: usize) -> usize {
        let by_hand = self.limits.policy().is_none();
        if wanted <= read.len || !by_hand || self.is_scanning() {
            return read.len;
        }
        let grid = Grid::of(&self.geometry);
        let next_region = (grid.region_of(read.extent.first) + 1) * grid.region_chunks;
        let chunks = next_region.min(self.geometry.data_chunks) - read.extent.first.0;
        let chunk_bytes = self.geometry.chunk_bytes as usize;
        let most = chunks as usize * chunk_bytes;
        (wanted / chunk_bytes * chunk_bytes).min(most).max(read.len)
    }

    /// The live records after the one that was read, as far as `bytes`, from a read of [`Self::reach`], contain them
    /// whole. Call it before [`Self::read_done`], which releases the place. Before publishing a companion, check once
    /// more whether it was invalidated since the look-up.
    pub fn companions(&self, bytes: &Bytes, read: &Read) -> Vec<Companion> {
        let mut found = Vec::new();
        if bytes.len() <= read.len || self.is_scanning() {
            return found;
        }
        let region = Grid::of(&self.geometry).region_of(read.extent.first);
        let opened_at = self.background().journal.opened_at(region);
        if opened_at == journal::UNKNOWN {
            return found;
        }
        let chunk_bytes = self.geometry.chunk_bytes as usize;
        let mut at = read.len;
        while let Some(rest) = bytes.get(at..).filter(|rest| rest.len() >= HEADER_BYTES) {
            let first = Chunk(read.extent.first.0 + (at / chunk_bytes) as u32);
            let header = Header::decode(rest, &self.secret, self.limits.mistakes);
            let is_here = |h: &Header| h.extent.first == first && h.extent.len.0 > 0;
            let Some(header) = header.ok().filter(is_here) else {
                at += chunk_bytes;
                continue;
            };
            let end = at + header.extent.len.0 as usize * chunk_bytes;
            if end > bytes.len() {
                break;
            }
            if header.sequence > opened_at && self.has_there(header.hash, header.extent) {
                found.extend(self.companion(&header, &bytes.slice(at..end), read));
            }
            at = end;
        }
        // The region was just reused, so the index may have a newer record at the same place.
        match self.background().journal.opened_at(region) == opened_at {
            true => found,
            false => Vec::new(),
        }
    }

    fn companion(&self, header: &Header, bytes: &Bytes, read: &Read) -> Option<Companion> {
        let parts = self.verify(bytes, header.hash, Some(header.extent)).ok()?;
        Some(Companion {
            hash: header.hash,
            parts,
            renewal: self.may_renew(header.extent).then_some(Renewal {
                hash: header.hash,
                first: header.extent.first,
                began: read.began,
            }),
        })
    }

    /// Does the index have a written record of that hash at this place?
    pub(crate) fn has_there(&self, hash: KeyHash, extent: Extent) -> bool {
        let shard = self.shard(self.shard_of(hash));
        shard.find(hash).is_some_and(|spot| {
            let entry = shard.entry(spot);
            entry.extent() == extent && !entry.is_writing()
        })
    }
}
