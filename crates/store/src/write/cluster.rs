//! The cluster write: many small records, one device write.
//!
//! A run of chunks is cut from the largest free piece, and records are appended side by side in a buffer that mirrors
//! the run. When the next record does not fit, or a deadline passes, the buffer is frozen and becomes one write. A
//! record never spans two writes. The rest of the run is free again.
//!
//! Until its write completes, a record is served from the buffer: without a copy if it is frozen, by a copy under the
//! writer's lock if it is open (rare, since a new record is usually in the memory tier).
//!
//! Limits: [`IN_FLIGHT_BYTES_MAX`](crate::settings::IN_FLIGHT_BYTES_MAX) of buffers handed out.
//! Source: paper 000 (packetizer, cluster write).

use crate::index::key::KeyHash;
use bytes::{Bytes, BytesMut};
use extent::{Chunk, Chunks, Extent};
use std::sync::Arc;

/// Identifies a write from the moment its cluster is opened. Never used twice by a store that is open.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct WriteId(pub(crate) u64);

impl WriteId {
    /// As a number. A cluster that was opened and closed empty leaves a gap.
    pub fn number(self) -> u64 {
        self.0
    }
}

/// A device write to carry out. Each must be answered by exactly one [`crate::Store::write_done`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "until it is carried out and reported, its space and memory are held"]
pub struct Write {
    /// For [`crate::Store::write_done`].
    pub id: WriteId,
    /// Where, in bytes from the start of the store.
    pub offset: u64,
    /// The bytes: whole chunks, in memory aligned to 4096 bytes.
    pub data: Bytes,
    /// The records in it, also those that were replaced or killed since.
    pub records: u32,
}

/// The writes that a call caused: usually none or one; several if a locality buffer is emptied or a region is full.
#[derive(Debug, Default)]
#[must_use = "the writes are to be carried out"]
pub struct Writes(Vec<Write>);

impl Writes {
    pub(crate) fn push(&mut self, write: Option<Write>) {
        self.0.extend(write);
    }

    pub(crate) fn append(&mut self, others: Writes) {
        self.0.extend(others);
    }

    /// Is there nothing to write?
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl IntoIterator for Writes {
    type Item = Write;
    type IntoIter = std::vec::IntoIter<Write>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

/// The records of a cluster, by which the completion of its write finds them.
pub(crate) type Records = Vec<(KeyHash, Chunk)>;

/// The cluster being filled.
#[derive(Debug)]
pub(crate) struct OpenCluster {
    /// The id of the later write. Assigned when the cluster is opened, so that an insert can name the write that holds its record.
    id: WriteId,
    buffer: BytesMut,
    run: Extent,
    used: Chunks,
    records: Records,
    pub opened_ms: u64,
}

impl OpenCluster {
    pub(crate) fn new(id: WriteId, buffer: BytesMut, run: Extent, now_ms: u64) -> Self {
        Self {
            id,
            buffer,
            run,
            used: Chunks(0),
            records: Records::new(),
            opened_ms: now_ms,
        }
    }

    pub(crate) fn id(&self) -> WriteId {
        self.id
    }

    /// Chunks left in the run.
    pub(crate) fn left(&self) -> Chunks {
        self.run.len - self.used
    }

    /// The extent behind the run that is needed for `len` more chunks. `None` if the run has room, or a cluster would be too long.
    pub(crate) fn wanted_behind(&self, len: Chunks, cluster_chunks: u32) -> Option<Extent> {
        let end = self.run.first.0.checked_add(self.run.len.0)?;
        let want = (self.used + len).0.checked_sub(self.run.len.0)?;
        let fits = want > 0 && self.used.0 + len.0 <= cluster_chunks;
        fits.then_some(Extent {
            first: Chunk(end),
            len: Chunks(want),
        })
    }

    pub(crate) fn grow(&mut self, by: Chunks) {
        self.run.len += by;
    }

    /// The extent that the next record of `len` chunks takes.
    pub(crate) fn next(&self, len: Chunks) -> Extent {
        assert!(
            len <= self.left(),
            "{} chunks in a run with {} left",
            len.0,
            self.left().0
        );
        Extent {
            first: self.run.first + self.used,
            len,
        }
    }

    /// Takes `extent`, which [`Self::next`] returned, for a record. Returns its bytes for filling.
    pub(crate) fn append(
        &mut self,
        hash: KeyHash,
        extent: Extent,
        chunk_bytes: usize,
    ) -> &mut [u8] {
        assert_eq!(extent, self.next(extent.len));
        let at = self.used.0 as usize * chunk_bytes;
        self.used += extent.len;
        self.records.push((hash, extent.first));
        &mut self.buffer[at..at + extent.len.0 as usize * chunk_bytes]
    }

    pub(crate) fn is_full(&self, full_chunks: u32) -> bool {
        self.used.0 >= full_chunks
    }

    pub(crate) fn covers(&self, extent: Extent) -> bool {
        Extent {
            first: self.run.first,
            len: self.used,
        }
        .covers(extent)
    }

    pub(crate) fn copy(&self, extent: Extent, chunk_bytes: usize) -> Bytes {
        let at = (extent.first - self.run.first).0 as usize * chunk_bytes;
        Bytes::copy_from_slice(&self.buffer[at..at + extent.len.0 as usize * chunk_bytes])
    }

    /// The rest of the run.
    pub(crate) fn tail(&self) -> Option<Extent> {
        let len = self.left();
        (len > Chunks(0)).then(|| Extent {
            first: self.run.first + self.used,
            len,
        })
    }

    /// Freezes the cluster: returns its extent, bytes and records. `Err` with the buffer if nothing was appended.
    pub(crate) fn close(self, chunk_bytes: usize) -> Result<(Extent, Bytes, Records), BytesMut> {
        if self.used == Chunks(0) {
            return Err(self.buffer);
        }
        let mut data = self.buffer.freeze();
        data.truncate(self.used.0 as usize * chunk_bytes);
        Ok((
            Extent {
                first: self.run.first,
                len: self.used,
            },
            data,
            self.records,
        ))
    }
}

/// A cluster handed out to be written.
#[derive(Clone, Debug)]
pub(crate) struct Flight {
    pub id: WriteId,
    pub extent: Extent,
    pub data: Bytes,
    /// `None` while its completion is being processed.
    pub records: Option<Arc<Records>>,
}

impl Flight {
    pub(crate) fn bytes(&self) -> usize {
        self.data.len()
    }

    pub(crate) fn slice(&self, extent: Extent, chunk_bytes: usize) -> Bytes {
        let at = (extent.first - self.extent.first).0 as usize * chunk_bytes;
        self.data
            .slice(at..at + extent.len.0 as usize * chunk_bytes)
    }
}
