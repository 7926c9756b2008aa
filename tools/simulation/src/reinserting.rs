//! Reinsertion: before the sweep clears a stretch, the store reads it and writes the best records again.
//!
//! Such a read takes time, and may fail or return wrong bytes. Meanwhile records are purged, replaced and put in doubt, and the hand may
//! move on. The result is written, and checked whenever it is read later.
//!
//! Not known here: which records are worth reinserting.

use bytes::Bytes;
use store::Reinsertion;

use crate::disk::Op;
use crate::run::{Run, Tag};

/// A read of the sweep returns a wrong byte once in this many reads.
const MISREAD_ONCE_IN: u64 = 4;

impl Run {
    /// Begins the next read of the sweep. Returns false if none is wanted now.
    pub fn begin_reinsertion(&mut self) -> Result<bool, String> {
        let Some(read) = self.store()?.next_reinsertion(self.now_ms) else {
            return Ok(false);
        };
        let op = Op::Read {
            offset: read.offset(),
            len: read.bytes(),
        };
        self.tell("reading a stretch", read.offset(), read.bytes() as u64);
        self.disk.submit(Tag::Reinsertion(read), op, self.now_ms)?;
        Ok(true)
    }

    /// Sometimes changes a byte, more often than the disk does: reads of the sweep are rare.
    fn misread(&mut self, bytes: Bytes) -> Bytes {
        if bytes.is_empty() || !self.random.one_in(MISREAD_ONCE_IN) {
            return bytes;
        }
        let mut bytes = bytes.to_vec();
        let at = self.random.index(bytes.len());
        bytes[at] ^= 0x10;
        bytes.into()
    }

    /// The read has ended or failed.
    pub fn end_reinsertion(
        &mut self,
        read: Reinsertion,
        bytes: Option<Bytes>,
    ) -> Result<(), String> {
        let bytes = bytes.map(|bytes| self.misread(bytes));
        let store = self.store()?;
        let all = 0..self.world.full_keys.len() as u32;
        let hashes: Vec<_> = all
            .zip(&self.world.full_keys)
            .map(|(number, full)| (number, store.hash(&full.key)))
            .filter(|(_, hash)| store.contains(*hash))
            .collect();
        let writes = store.reinsertion_done(read, bytes, self.now_ms);
        let gone = hashes.iter().filter(|(_, hash)| !store.contains(*hash));
        let gone: Vec<_> = gone.map(|(number, _)| *number).collect();
        for full_key in gone {
            // Because of its bytes, or because the sweep has moved on with the writes.
            self.about(full_key, || "gone when the sweep had read it".into());
            self.world.forgotten(full_key);
        }
        self.submit_writes(writes)
    }
}
