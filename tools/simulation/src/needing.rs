//! What an answer under way does to a store: it needs records for a while, which are moved before the hand comes.
//!
//! A move is a read like any other: it may fail, or bring something else, and the record may be killed meanwhile. What comes of it is
//! written, and checked when it is read one day.
//!
//! Who needs a record reads it also after it was killed: what he read then was alive when he began to need it, or came later.
//!
//! Not known here: what the hand does.

use bytes::Bytes;
use store::{Lookup, Move};

use crate::check::{self, Served};
use crate::disk::Op;
use crate::reading::Answer;
use crate::run::{Run, Tag};
use crate::world::FullKey;

/// Records needed at a time.
const NEEDED_MAX: usize = 40;

/// A record that an answer under way needs.
#[derive(Clone, Copy, Debug)]
pub struct InUse {
    full_key: FullKey,
    /// Since when.
    at: u64,
}

impl Run {
    /// Some more are needed, or some no longer, by chance.
    pub fn need_or_release(&mut self) -> Result<(), String> {
        if !self.needed.is_empty() && self.random.one_in(2) {
            for _ in 0..5 {
                self.read_needed()?;
            }
            return Ok(());
        }
        if self.needed.len() >= NEEDED_MAX || self.random.one_in(3) {
            for _ in 0..self.needed.len() / 2 {
                let at = self.random.index(self.needed.len());
                let InUse { full_key, .. } = self.needed.swap_remove(at);
                self.store()?.release(self.hash_of(full_key)?);
            }
            return Ok(());
        }
        for _ in 0..10 {
            let key = self.any_key();
            let full_key = self.plain(key);
            let at = self.world.clock;
            // As an answer does: what it has looked up it promises.
            let is_alive = self.look_up_now(full_key)? == Answer::Served;
            if is_alive && self.store()?.need(self.hash_of(full_key)?) {
                self.about(full_key, || "needed".into());
                self.needed.push(InUse { full_key, at });
            }
        }
        Ok(())
    }

    /// Reads what is needed, as an answer under way does, at once.
    fn read_needed(&mut self) -> Result<(), String> {
        let InUse { full_key, at } = self.random.pick(&self.needed);
        let hash = self.hash_of(full_key)?;
        let (bytes, read) = match self.store()?.look_up_needed(hash) {
            Lookup::Absent => return Ok(()),
            Lookup::Buffered(bytes) => (bytes, None),
            Lookup::OnDisk(read) => {
                let range = read.offset..read.offset + read.len as u64;
                let bytes = Bytes::copy_from_slice(self.disk.peek(range));
                (bytes, Some(read))
            }
        };
        let decoded = self.store()?.decode_needed(&bytes, hash, read.as_ref());
        let mut may_serve_to_all = true;
        if let Some(read) = read {
            may_serve_to_all = self.store()?.read_done(read);
        }
        let Some(parts) = decoded else {
            return Ok(());
        };
        let served = Served {
            key: &parts.key,
            meta: &parts.meta,
            body: &parts.body,
            doubted: parts.doubted,
        };
        match check::was_alive(&self.world, full_key, served, at) {
            Ok(number) => {
                self.report.read_needed += 1;
                self.report.read_after_kill += u64::from(!may_serve_to_all);
                self.tell(
                    "served to who needs it",
                    u64::from(full_key),
                    u64::from(number),
                );
                Ok(())
            }
            Err(message) => self.waive(message),
        }
    }

    /// What is needed.
    pub fn needed_keys(&self) -> Vec<FullKey> {
        self.needed.iter().map(|one| one.full_key).collect()
    }

    /// Nobody needs anything any more.
    pub fn release_all(&mut self) -> Result<(), String> {
        for InUse { full_key, .. } in std::mem::take(&mut self.needed) {
            self.store()?.release(self.hash_of(full_key)?);
        }
        Ok(())
    }

    /// The store wants to read what is to be written again.
    pub fn read_to_move(&mut self, moved: Move) -> Result<(), String> {
        let op = Op::Read {
            offset: moved.offset(),
            len: moved.bytes(),
        };
        let mut whose = None;
        for &InUse { full_key, .. } in &self.needed {
            if self.hash_of(full_key)? == moved.hash() {
                whose = Some(full_key);
            }
        }
        let full_key = whose.ok_or("what nobody needs is to be moved")?;
        self.tell("moving", u64::from(full_key), moved.offset());
        self.disk
            .submit(Tag::Move(moved, full_key), op, self.now_ms)
    }

    /// What is to be written again was read, or could not be.
    pub fn end_move(
        &mut self,
        moved: Move,
        full_key: FullKey,
        bytes: Option<Bytes>,
    ) -> Result<(), String> {
        let hash = moved.hash();
        let was_there = self.store()?.contains(hash);
        let now_ms = self.now_ms;
        let writes = self.store()?.move_done(moved, bytes, now_ms);
        if was_there && !self.store()?.contains(hash) {
            self.about(full_key, || "gone when it was to be moved".into());
            self.world.forgotten(full_key);
        }
        self.submit_writes(writes)
    }
}
