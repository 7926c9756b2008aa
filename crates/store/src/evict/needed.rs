//! Records that an answer under way needs: they survive the hand.
//!
//! A large body is sent fragment by fragment, perhaps for hours, and room is made meanwhile. An answer notes the
//! records that it will read ([`Store::need`], [`Needs`]). Such a record is treated as just used when its turn to be
//! evicted comes: *by the hand* it is written again (`moves`), *by the book* it goes to the warm end (`choose`).
//!
//! A needed record may still be killed (purged, replaced, forgotten). Only the answers that need it find it then: for
//! them it stays in place, pinned, and is not written again ([`Store::look_up_needed`]), because it was valid when
//! they began.
//!
//! Limits: records of a quarter of the data area ([`NEEDED_SHARE`](super::need::NEEDED_SHARE)) and [`NEEDS_MAX`] needs in all; beyond them a
//! record is not noted, and is evicted in its turn.
//!
//! Not known here: fragments, clients, moves.

use crate::evict::need::{Moving, NEEDS_MAX, Need, is_needed};
use crate::index::key::KeyHash;
use crate::index::reading::{Lookup, Read};
use crate::store::Store;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The result of [`Store::need`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Needed {
    /// It is kept until it is released, killed, or can be neither read nor written again.
    Noted,
    /// There is no such record.
    Absent,
    /// Refused: too much is needed already.
    Full,
}

/// The needs of one holder. Dropping it releases all of them.
#[derive(Debug)]
pub struct Needs {
    store: Arc<Store>,
    hashes: VecDeque<KeyHash>,
}

impl Needs {
    /// No needs yet.
    pub fn new(store: &Arc<Store>) -> Self {
        Self {
            store: Arc::clone(store),
            hashes: VecDeque::new(),
        }
    }

    /// [`Store::need`], released by [`Self::release`] or by dropping.
    pub fn add(&mut self, hash: KeyHash) -> Needed {
        let needed = self.store.need(hash);
        if needed == Needed::Noted {
            self.hashes.push_back(hash);
        }
        needed
    }

    /// Releases a record if it is noted here. Fastest for the one added first.
    pub fn release(&mut self, hash: KeyHash) {
        if let Some(at) = self.hashes.iter().position(|&noted| noted == hash) {
            self.hashes.remove(at);
            self.store.release(hash);
        }
    }

    /// How many records are noted here.
    pub fn len(&self) -> usize {
        self.hashes.len()
    }

    /// Is none noted here?
    pub fn is_empty(&self) -> bool {
        self.hashes.is_empty()
    }
}

impl Drop for Needs {
    fn drop(&mut self) {
        self.hashes
            .iter()
            .for_each(|&hash| self.store.release(hash));
    }
}

impl Store {
    /// Keeps a record from eviction until [`Self::release`], within the limits above; [`Needs`] does the release.
    /// This is neither a use nor a pin: the record may be killed or moved at any time. Call it before
    /// [`Self::contains`].
    pub fn need(&self, hash: KeyHash) -> Needed {
        let chunk_bytes = self.chunk_bytes() as u64;
        let mut shard = self.shard(self.shard_of(hash));
        if self.is_handed_over() && !shard.needed.contains_key(&hash.0) {
            return Needed::Absent; // the other process does not know of it
        }
        let (first, bytes) = match (shard.waiting_bytes(hash), shard.find(hash)) {
            (Some(bytes), _) => (None, bytes),
            (None, Some(spot)) => {
                let extent = shard.entry(spot).extent();
                (Some(extent.first), u64::from(extent.len.0) * chunk_bytes)
            }
            (None, None) => return Needed::Absent,
        };
        let add = |sum: &AtomicU64, more: u64, most: u64| {
            let added = |now: u64| Some(now + more).filter(|&sum| sum <= most);
            let relaxed = Ordering::Relaxed;
            sum.fetch_update(relaxed, relaxed, added).is_ok()
        };
        if !add(&self.needs, 1, NEEDS_MAX as u64) {
            return Needed::Full;
        }
        if let Some(need) = shard.needed.get_mut(&hash.0) {
            need.count += 1;
            return Needed::Noted;
        }
        if !add(&self.needed_bytes, bytes, self.limits.needed_bytes_max) {
            self.needs.fetch_sub(1, Ordering::Relaxed);
            return Needed::Full;
        }
        let is_queued = first.is_some_and(|first| self.is_to_be_moved(first)) && self.enqueue(hash);
        if first.is_some_and(|first| self.is_due(first)) {
            let chunks = (bytes / chunk_bytes) as u32;
            self.due_chunks.fetch_add(chunks, Ordering::Relaxed);
        }
        let need = Need {
            count: 1,
            bytes,
            moving: Moving::queued(is_queued),
            given_up: false,
            kept: None,
        };
        shard.needed.insert(hash.0, need);
        Needed::Noted
    }

    /// Ends a need that [`Self::need`] answered with `Noted`.
    pub fn release(&self, hash: KeyHash) {
        let mut shard = self.shard(self.shard_of(hash));
        let Some(need) = shard.needed.get_mut(&hash.0) else {
            return;
        };
        need.count -= 1;
        let (is_last, bytes, is_counted) = (need.count == 0, need.bytes, !need.given_up);
        if is_last {
            let kept = shard.needed.remove(&hash.0).and_then(|need| need.kept);
            if let Some(extent) = kept {
                let (_, freed) = shard.unpin(extent.first);
                self.queue_freed(freed);
            }
            // No room need be kept for its move any more.
            if let Some(spot) = shard.find(hash).filter(|_| is_counted) {
                let extent = shard.entry(spot).extent();
                if self.is_due(extent.first) {
                    self.no_longer_due(extent.len.0);
                }
            }
            self.needed_bytes.fetch_sub(bytes, Ordering::Relaxed);
        }
        self.needs.fetch_sub(1, Ordering::Relaxed);
    }

    /// [`Self::look_up`] for an answer that needs the record: also finds it if it was killed since. Verify the bytes
    /// with [`Self::decode_needed`].
    pub fn look_up_needed(&self, hash: KeyHash) -> Lookup {
        let found = self.find(hash, true);
        if !matches!(found, Lookup::Absent) {
            return found;
        }
        // The record may still be in a cluster. That needs the writer's lock, which comes before the shard's.
        let writer = self.writer();
        let mut shard = self.shard(self.shard_of(hash));
        let Some(extent) = shard.needed.get(&hash.0).and_then(|need| need.kept) else {
            return Lookup::Absent;
        };
        if !shard.is_held_for_writing(extent.first) {
            shard.pin_again(extent.first);
            return Lookup::OnDisk(Read {
                offset: self.geometry.offset_of(extent.first.0),
                len: extent.len.0 as usize * self.chunk_bytes(),
                hash,
                extent,
                began: self.sequence(),
                renew: false,
            });
        }
        let open = writer.open.iter().find(|open| open.covers(extent));
        let bytes = match open {
            Some(open) => Some(open.copy(extent, self.chunk_bytes())),
            None => self.in_flight(extent, |_| true),
        };
        bytes.map_or(Lookup::Absent, Lookup::Buffered)
    }

    pub(crate) fn is_needed(&self, hash: KeyHash) -> bool {
        is_needed(&self.shard(self.shard_of(hash)).needed, hash)
    }

    /// The sums over the shards' tables, for [`Self::audit`].
    pub(crate) fn audit_needed(&self, sums: (u64, u64)) -> Result<(), String> {
        let noted = (
            self.needs.load(Ordering::Relaxed),
            self.needed_bytes.load(Ordering::Relaxed),
        );
        if noted != sums {
            return Err(format!(
                "needs and their bytes: {noted:?}, counted {sums:?}"
            ));
        }
        Ok(())
    }
}
