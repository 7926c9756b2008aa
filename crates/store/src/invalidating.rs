//! Invalidations: by key, by pattern, soft ones; their effect at once, and when they are known to survive a crash.
//!
//! An invalidation takes its sequence under the lock of the state that it changes, so that a thread that has seen the number finds the
//! record gone. Then it is appended to the log; `background` commits the log, and the durability handle tells when it is durable.
//!
//! Not known here: how the log is written, which callers wait.
//! Limits: those of the log, of the predicates, and of remembered soft purges; beyond them a soft purge becomes a purge, others are refused.

use crate::index::key::KeyHash;
use crate::lock::lock;
use crate::log::Position;
use crate::log::entry::{Entry, TEXT_BYTES_MAX};
use crate::log::predicates::Full;
use crate::mistakes::Mistake;
use crate::sequence::Sequence;
use crate::shard::Shard;
use crate::store::Store;
use std::sync::atomic::Ordering;

/// A durability handle: tells when an invalidation is durable, see [`Store::settled`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use = "an invalidation may be acknowledged only when it is settled"]
pub struct DurabilityHandle(Waits);

impl DurabilityHandle {
    /// The invalidation was not logged and never becomes durable.
    pub(crate) const REFUSED: Self = Self(Waits::Refused);
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Waits {
    For(Position),
    /// Nothing needs to be durable.
    No,
    Refused,
}

/// The state of an invalidation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Settled {
    /// Not durable yet.
    Pending,
    /// It survives a crash. Acknowledge it.
    Durable,
    /// The device failed. The invalidation holds until the store is closed or crashes, and may still become durable.
    /// Do not acknowledge it.
    Failed,
}

/// The result of an invalidation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Invalidated {
    /// Was anything indexed under that key?
    pub indexed: bool,
    /// For [`Store::settled`].
    pub handle: DurabilityHandle,
}

/// Why a purge by pattern was refused. Nothing was purged.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NotTaken {
    /// The pattern is longer than 1024 bytes.
    #[error("a pattern may have at most {} bytes", TEXT_BYTES_MAX)]
    TooLong,
    /// There is no room for another pattern now. There will be once older records have been compared with the present
    /// patterns.
    #[error("too many purges by pattern are still being worked off")]
    Full,
}

impl Store {
    /// Invalidates a primary key: drops its record and its marker, tells readers of the record not to serve it, and
    /// refuses fills that began before. All of that holds at once. It holds after a crash when the durability handle
    /// says so.
    pub fn invalidate(&self, primary: KeyHash) -> Invalidated {
        self.invalidate_as(primary, false)
    }

    /// [`Self::invalidate`] without a log entry if nothing of the key is or was stored.
    pub fn invalidate_stored(&self, primary: KeyHash) -> Invalidated {
        self.invalidate_as(primary, true)
    }

    fn invalidate_as(&self, primary: KeyHash, only_stored: bool) -> Invalidated {
        self.counters.invalidations.add(1);
        let mut shard = self.shard(self.shard_of(primary));
        // Drawn under the lock, so a thread that has seen this number finds the record gone.
        let sequence = self.next_sequence();
        shard.invalidations.note(primary, sequence);
        let mistakes = self.limits.mistakes;
        let had_marker = (shard.index).drop_marker(primary, mistakes.make(Mistake::SaltAgain));
        shard.soft.forget(primary);
        let careless = self.limits.mistakes.make(Mistake::KeepWaiting);
        let kept = careless.then(|| shard.waiting.remove(&primary.0)).flatten();
        let (had_record, freed) = shard.kill(primary);
        self.queue_freed(freed);
        if let Some(kept) = kept {
            shard.waiting.insert(primary.0, kept);
        }
        let indexed = had_marker || had_record;
        // Under the lock that a sweep holds when a record leaves.
        let is_needless = only_stored && !indexed && !self.may_come_back(primary);
        if indexed {
            // The record may have been another key's, which the log entry does not name. And until the entry is in the log, another
            // invalidation of this key must not find that it was never stored.
            self.has_left(primary);
        }
        drop(shard);
        self.counters.invalidated.add(u64::from(had_record));
        if is_needless && self.is_all_durable() && !self.is_handed_over() {
            let handle = DurabilityHandle(Waits::No);
            return Invalidated { indexed, handle };
        }
        // Also when nothing is indexed: the bytes of an evicted version may still lie on the disk.
        let handle = self.log(sequence, Entry::Key { primary });
        Invalidated { indexed, handle }
    }

    /// May the disk have bytes of that key that the index does not know?
    fn may_come_back(&self, hash: KeyHash) -> bool {
        self.limits.policy().is_some()
            || self.is_scanning()
            || lock(&self.left).has(self.name_of(hash))
    }

    /// Is every invalidation durable? One that waits may be of the same key.
    fn is_all_durable(&self) -> bool {
        let background = self.background();
        background.log.durable() == background.log.end()
    }

    /// Puts a primary key in doubt: its record and its variants are still there, and each read of them says so
    /// ([`crate::RecordParts::doubted`]). Fills that began before are refused. All of that holds at once, and after a crash once the
    /// durability handle is settled.
    pub fn doubt(&self, primary: KeyHash) -> Invalidated {
        self.counters.invalidations.add(1);
        let mut shard = self.shard(self.shard_of(primary));
        // Drawn under the lock, so a thread that has seen this number finds the record marked.
        let sequence = self.next_sequence();
        shard.softened.note(primary, sequence);
        let has_variants = shard.index.has_marker(primary);
        if has_variants {
            self.soften(&mut shard, primary, sequence);
        }
        let spot = shard.find(primary);
        spot.into_iter().for_each(|spot| shard.doubt(spot));
        let indexed = has_variants || shard.has(primary);
        drop(shard);
        // Also when nothing is indexed: the bytes of an evicted version may still lie on the disk.
        let handle = self.log(sequence, Entry::Doubt { primary });
        Invalidated { indexed, handle }
    }

    /// Makes the variants of a primary key stale; where that cannot be remembered, they are purged.
    pub(crate) fn soften(&self, shard: &mut Shard, primary: KeyHash, sequence: Sequence) {
        let max = self.limits.soft_purges_max;
        let mut noted = shard.soft.note(primary, sequence, max);
        // Soft purges of primaries without a marker can be forgotten: the variants are out of reach. But a scan may bring the marker back.
        if noted.is_err() && !self.is_scanning() {
            let Shard { soft, index, .. } = &mut *shard;
            soft.retain(|primary| index.has_marker(primary));
            noted = soft.note(primary, sequence, max);
        }
        if noted.is_err() {
            shard.index.drop_marker(primary, false);
            self.has_left(primary);
        }
    }

    /// Would [`Self::invalidate_matching`] take that pattern now? Another pattern may take the room meanwhile.
    ///
    /// # Errors
    /// As [`Self::invalidate_matching`].
    pub(crate) fn would_take(&self, kind: u8, pattern: &[u8]) -> Result<(), NotTaken> {
        if pattern.len() > TEXT_BYTES_MAX {
            return Err(NotTaken::TooLong);
        }
        if lock(&self.predicates).would_take(kind, pattern) {
            return Ok(());
        }
        self.counters.predicates_refused.add(1);
        Err(NotTaken::Full)
    }

    /// Invalidates every record that a predicate matches, see [`crate::Settings::manner`]. Records are compared with it when they are read.
    ///
    /// # Errors
    /// The pattern is too long, or there is no room for it now.
    pub fn invalidate_matching(
        &self,
        kind: u8,
        pattern: &[u8],
    ) -> Result<DurabilityHandle, NotTaken> {
        if pattern.len() > TEXT_BYTES_MAX {
            return Err(NotTaken::TooLong);
        }
        let sequence = {
            let mut predicates = lock(&self.predicates);
            let sequence = self.next_sequence();
            if let Err(Full) = predicates.note(kind, pattern, sequence) {
                self.counters.predicates_refused.add(1);
                return Err(NotTaken::Full);
            }
            self.predicates_until.fetch_max(sequence, Ordering::SeqCst);
            sequence
        };
        self.counters.invalidations.add(1);
        let pattern = pattern.into();
        Ok(self.log(sequence, Entry::Matching { kind, pattern }))
    }

    fn log(&self, sequence: Sequence, entry: Entry) -> DurabilityHandle {
        let mut background = self.background();
        if background.volatile && !self.must_tell(&background) {
            drop(background);
            self.prune_without_records(&entry);
            return DurabilityHandle(Waits::No);
        }
        if self.limits.mistakes.make(Mistake::NoLog) {
            return DurabilityHandle(Waits::No);
        }
        match background.log.append(sequence, entry) {
            Ok(position) => DurabilityHandle(Waits::For(position)),
            Err(_) => {
                self.counters.log_refused.add(1);
                DurabilityHandle::REFUSED
            }
        }
    }

    /// Is the invalidation durable?
    pub fn settled(&self, handle: DurabilityHandle) -> Settled {
        let position = match handle.0 {
            Waits::No => return Settled::Durable,
            Waits::Refused => return Settled::Failed,
            Waits::For(position) => position,
        };
        let background = self.background();
        let early = self.limits.mistakes.make(Mistake::AcknowledgeBeforeFlush);
        if background.told_in_vain.has(position) {
            Settled::Failed
        } else if position < background.log.durable() || early {
            Settled::Durable
        } else if position < background.failed_until {
            Settled::Failed
        } else {
            Settled::Pending
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geometry::Geometry;
    use crate::record::NewRecord;
    use crate::recover::open::Identity;
    use crate::settings::Settings;
    use crate::write::insert::Outcome;

    #[test]
    fn who_finds_a_record_gone_finds_its_name_though_it_is_not_logged_yet() {
        let geometry = Geometry::plan(4 << 20, 512).unwrap();
        let identity = Identity::new([1; Identity::RANDOM_BYTES]);
        let store = Store::create(geometry, &Settings::default(), identity);
        while let Some(work) = store.next_work(0) {
            store.work_done(work.id, Ok(None), 0);
        }
        let hash = store.hasher().hash(b"/a");
        let record = NewRecord {
            hash,
            primary: hash,
            key: b"/a",
            meta: b"",
            body: &[b"x"],
            fragment: None,
            total: None,
            began: store.sequence(),
            server: 0,
        };
        assert_eq!(store.insert(&record, 0).outcome, Outcome::Stored);
        std::thread::scope(|scope| {
            // This lock protects the log.
            let background = store.background();
            let invalidating = scope.spawn(|| store.invalidate(hash));
            while store.contains(hash) {
                std::thread::yield_now();
            }
            let may_come_back = store.may_come_back(hash);
            drop(background);
            assert!(may_come_back);
            assert!(invalidating.join().unwrap().indexed);
        });
    }
}
