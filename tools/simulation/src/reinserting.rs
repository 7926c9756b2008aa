//! What the sweep does to a store before it clears a stretch: it reads, and writes the best of it again.
//!
//! Such a read takes its time and may fail or bring something else. Meanwhile records are purged, replaced and put in doubt, and the
//! hand may go on. What comes of it is written, and checked when it is read one day.
//!
//! Not known here: what is worth it.

use bytes::Bytes;
use store::Reinsertion;

use crate::disk::Op;
use crate::run::{Run, Tag};

/// Reads of the sweep that bring a wrong byte.
const MISREAD_ONCE_IN: u64 = 4;

impl Run {
    /// Begins to read what the sweep comes to next. False: nothing is wanted now.
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

    /// Now and then one byte is another, more often than the disk does that by itself: the sweep reads seldom.
    fn misread(&mut self, bytes: Bytes) -> Bytes {
        if bytes.is_empty() || !self.random.one_in(MISREAD_ONCE_IN) {
            return bytes;
        }
        let mut bytes = bytes.to_vec();
        let at = self.random.index(bytes.len());
        bytes[at] ^= 0x10;
        bytes.into()
    }

    /// It was read, or could not be.
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
            // For its bytes, or because the sweep has gone on with the writes.
            self.about(full_key, || "gone when the sweep had read it".into());
            self.world.forgotten(full_key);
        }
        self.submit_writes(writes)
    }
}
