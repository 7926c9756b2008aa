//! Whether a record that was read, or is to be stored, still counts: its bytes are verified, then compared with purges and predicates.
//!
//! Not known here: what happens to records that do not count.

use crate::index::key::KeyHash;
use crate::index::reading::Read;
use crate::lock::lock;
use crate::log::predicates::Met;
use crate::mistakes::Mistake;
use crate::record::corrupt::Corrupt;
use crate::record::{Expected, RecordParts};
use crate::sequence::Sequence;
use crate::store::Store;
use bytes::Bytes;
use extent::Extent;
use std::sync::atomic::Ordering;

impl Store {
    /// Verifies a record's bytes and takes them apart. The caller compares the full key.
    ///
    /// # Errors
    /// The bytes are not a whole record of this hash in this store. Never panics, whatever they are. The caller
    /// is to [`forget`](Self::forget) the record.
    pub fn decode(&self, bytes: &Bytes, expect: KeyHash) -> Result<RecordParts, Corrupt> {
        self.verify(bytes, expect, None)
    }

    /// As [`Self::decode`], and the record must be the one of exactly this place, which also notices a misdirected
    /// read that brought an older version. Call it before [`Self::read_done`].
    ///
    /// # Errors
    /// As [`Self::decode`].
    pub fn decode_read(&self, bytes: &Bytes, read: &Read) -> Result<RecordParts, Corrupt> {
        self.verify(bytes, read.hash, Some(read.extent))
    }

    /// As [`Self::decode`], or, with the read that brought the bytes, as [`Self::decode_read`]; but invalidations do not count. For an
    /// answer that was begun while the record was valid, and [needs](crate::Needs) it since.
    ///
    /// # Errors
    /// As [`Self::decode`].
    pub fn decode_needed(
        &self,
        bytes: &Bytes,
        expect: KeyHash,
        read: Option<&Read>,
    ) -> Result<RecordParts, Corrupt> {
        let parts = self.decode_whole(bytes, expect, read.map(|read| read.extent))?;
        // Bytes of an earlier epoch are not the promised record.
        match parts.sequence < self.accept_from {
            true => Err(Corrupt::Invalidated),
            false => Ok(parts),
        }
    }

    /// Verifies that a record is whole, of this store, of this key, and in its place.
    fn decode_whole(
        &self,
        bytes: &Bytes,
        hash: KeyHash,
        extent: Option<Extent>,
    ) -> Result<RecordParts, Corrupt> {
        crate::record::decode(bytes, self.expected(hash, extent))
    }

    pub(crate) fn expected(&self, hash: KeyHash, extent: Option<Extent>) -> Expected<'_> {
        Expected {
            secret: &self.secret,
            epoch: self.epoch,
            hash: Some(hash),
            extent,
            chunk_bytes: self.geometry.chunk_bytes,
            mistakes: self.limits.mistakes,
        }
    }

    pub(crate) fn verify(
        &self,
        bytes: &Bytes,
        hash: KeyHash,
        extent: Option<Extent>,
    ) -> Result<RecordParts, Corrupt> {
        self.judge(self.decode_whole(bytes, hash, extent), hash, extent)
    }

    /// Compares a whole record with purges and predicates.
    pub(crate) fn judge(
        &self,
        mut verified: Result<RecordParts, Corrupt>,
        hash: KeyHash,
        extent: Option<Extent>,
    ) -> Result<RecordParts, Corrupt> {
        if let Ok(parts) = &mut verified {
            let met = self.meet(parts.began, &parts.key, &parts.meta);
            let standing = self.standing_of(parts, hash, extent);
            if parts.sequence < self.accept_from
                || standing.dead
                || (met.dead && !self.limits.mistakes.make(Mistake::NoPredicateCheck))
            {
                verified = Err(Corrupt::Invalidated);
            } else {
                parts.doubted = met.stale || standing.stale;
            }
        }
        match &verified {
            Ok(_) => {}
            Err(Corrupt::Hash) => self.counters.other_keys.add(1),
            Err(Corrupt::Invalidated) => self.counters.invalidated.add(1),
            Err(_) => self.counters.corrupt.add(1),
        }
        verified
    }

    /// Is it a record of an earlier round? A lost write leaves such a record, perhaps of the same key and purged since.
    fn is_of_earlier_round(&self, sequence: Sequence, extent: Extent) -> bool {
        let region = extent.first.0 / self.geometry.region_chunks;
        let opened_at = self.opened_at.get(region as usize);
        opened_at.is_some_and(|opened_at| sequence <= opened_at.load(Ordering::Relaxed))
            && !self.limits.mistakes.make(Mistake::NoOpenedAt)
    }

    /// Compares a record with purges of single keys.
    fn standing_of(&self, parts: &RecordParts, hash: KeyHash, extent: Option<Extent>) -> Met {
        let number = self.shard_of(parts.primary);
        let shard = self.shard(number);
        let (primary, began) = (parts.primary, parts.began);
        // A lost write may leave a whole older record of the same key in the same place, which may have been purged.
        let mut dead = extent.is_some() && shard.invalidations.is_known_since(primary, began);
        // A record that waits in a locality buffer has no entry to be marked.
        let mut stale = shard.soft.since(primary, began)
            || (extent.is_none() && shard.softened.since(primary, began));
        let first = extent.map(|extent| extent.first);
        let (is_doubted, is_indexed) = match self.shard_of(hash) == number {
            true => shard.marks_of(hash, first),
            false => {
                // Never hold the locks of two shards at once.
                drop(shard);
                self.shard(self.shard_of(hash)).marks_of(hash, first)
            }
        };
        stale |= is_doubted;
        // A record that was evicted while it was read may be served, even if its region was noted meanwhile.
        dead |= is_indexed
            && extent.is_some_and(|extent| self.is_of_earlier_round(parts.sequence, extent));
        Met { dead, stale }
    }

    /// The effect of predicates newer than `began` on a record.
    pub(crate) fn meet(&self, began: Sequence, key: &[u8], meta: &[u8]) -> Met {
        if began >= self.predicates_until.load(Ordering::SeqCst) {
            return Met::default();
        }
        lock(&self.predicates).meet(began, key, meta)
    }

    /// Was a record that began at `began` invalidated by a predicate since?
    pub(crate) fn is_matched(&self, began: Sequence, key: &[u8], meta: &[u8]) -> bool {
        self.meet(began, key, meta).dead
    }

    /// Was a record that began at `began` put in doubt by a predicate since ([`crate::Manner::soft`])?
    pub fn is_doubted(&self, began: Sequence, key: &[u8], meta: &[u8]) -> bool {
        self.meet(began, key, meta).stale
    }

    /// Was the primary key put in doubt since ([`Self::doubt`])? Errs on the side of no.
    pub fn is_softened_since(&self, primary: KeyHash, began: Sequence) -> bool {
        let shard = self.shard(self.shard_of(primary));
        shard.softened.is_known_since(primary, began)
    }

    /// May a predicate match a record that began at `began`?
    pub fn predicates_since(&self, began: Sequence) -> bool {
        began < self.predicates_until.load(Ordering::SeqCst)
    }

    /// Was `primary` invalidated or put in doubt since `began`? Errs on the side of yes. Ask again before publishing or serving what
    /// began then: [`Store::read_done`] knows only the record itself, so a reader of a *variant* must ask here as well.
    pub fn invalidated_since(&self, primary: KeyHash, began: Sequence) -> bool {
        !self.shard(self.shard_of(primary)).admits(primary, began) || self.is_handed_over()
    }

    /// Was a fill that began at `began` invalidated since, by its primary key or by a predicate? Errs on the side of yes.
    pub fn is_invalid(&self, primary: KeyHash, began: Sequence, key: &[u8], meta: &[u8]) -> bool {
        if self.limits.mistakes.make(Mistake::IgnoreBegan) {
            return false;
        }
        began < self.fills_from.load(Ordering::SeqCst)
            || self.is_handed_over()
            || self.is_matched(began, key, meta)
            || self.invalidated_since(primary, began)
    }

    /// Is there a known purge that is newer and matches? Errs on the side of no, so a fill must use [`Self::is_invalid`].
    pub fn is_purged_since(
        &self,
        primary: KeyHash,
        began: Sequence,
        key: &[u8],
        meta: &[u8],
    ) -> bool {
        let shard = self.shard(self.shard_of(primary));
        let is_known = shard.invalidations.is_known_since(primary, began);
        drop(shard);
        is_known || self.is_matched(began, key, meta)
    }

    /// Is a record found by a scan dead because of invalidations since the start?
    pub(crate) fn is_dead(
        &self,
        primary: KeyHash,
        began: Sequence,
        key: &[u8],
        meta: &[u8],
    ) -> bool {
        let killed = || {
            let shard = self.shard(self.shard_of(primary));
            shard.invalidations.since(primary, began)
        };
        !self.limits.mistakes.make(Mistake::IgnoreBegan)
            && (self.is_matched(began, key, meta) || killed())
    }
}
