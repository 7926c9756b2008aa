//! Records that an answer under way needs for a while: the store moves them before the hand comes.
//!
//! A move reads a record like any other read: it may fail or return wrong bytes, and the record may be killed meanwhile. Its result is
//! written, and checked whenever it is read later.
//!
//! An answer reads needed records even after they were killed. Such a record was alive when the answer began to need it, or was stored later.
//!
//! Not known here: how the hand moves.

use bytes::Bytes;
use store::{Lookup, Move};

use crate::check::{self, Served};
use crate::disk::Op;
use crate::reading::Answer;
use crate::run::{Run, Tag};
use crate::world::FullKey;

/// Most records needed at a time.
const NEEDED_MAX: usize = 40;

/// A record that an answer under way needs.
#[derive(Clone, Copy, Debug)]
pub struct InUse {
    full_key: FullKey,
    /// Time from which it is needed.
    at: u64,
}

impl Run {
    /// Randomly needs some more records, or releases some, or reads needed ones.
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
            // As in a proxy: an answer promises only records that it has looked up.
            let is_alive = self.look_up_now(full_key)? == Answer::Served;
            if is_alive && self.store()?.need(self.hash_of(full_key)?) {
                self.about(full_key, || "needed".into());
                self.needed.push(InUse { full_key, at });
            }
        }
        Ok(())
    }

    /// Reads a needed record at once, as an answer under way does.
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

    /// The keys of all needed records.
    pub fn needed_keys(&self) -> Vec<FullKey> {
        self.needed.iter().map(|one| one.full_key).collect()
    }

    /// Releases all needed records.
    pub fn release_all(&mut self) -> Result<(), String> {
        for InUse { full_key, .. } in std::mem::take(&mut self.needed) {
            self.store()?.release(self.hash_of(full_key)?);
        }
        Ok(())
    }

    /// Begins the read of a record that the store wants to move.
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

    /// The read for a move has ended or failed.
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
