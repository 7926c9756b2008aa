//! Look-ups: from a buffer, from a write under way, or by a read that pins the record's place.
//!
//! The index is searched under its shard's lock. A written record is pinned there and read by the caller. A record
//! being written is in memory: in a locality buffer, in a flight, or in the open cluster. The open cluster needs the
//! writer's lock, which comes first, so the index is then searched again.
//!
//! Not known here: the meaning of the bytes (`store`, `record`).

use crate::index::Spot;
use crate::index::key::KeyHash;
use crate::index::reading::{Lookup, Read};
use crate::lock::lock;
use crate::mistakes::Mistake;
use crate::shard::{Fate, Shard};
use crate::store::Store;
use crate::write::cluster::Flight;
use bytes::Bytes;
use extent::Extent;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Extents that can be set aside; beyond that, bad ones are used again.
const BAD_MAX: usize = 4096;

impl Store {
    /// Finds a record, and counts that as a use.
    pub fn look_up(&self, hash: KeyHash) -> Lookup {
        self.find(hash, false)
    }

    /// As [`Self::look_up`]. With `is_needed`, for an answer under way, the record is also found after the store was handed over. If it
    /// was not noted as needed, the other process may have overwritten it, which the verification notices.
    pub(crate) fn find(&self, hash: KeyHash, is_needed: bool) -> Lookup {
        let number = self.shard_of(hash);
        let mut shard = self.shard(number);
        // Under the lock: see `hand_over`.
        if self.is_handed_over()
            && !is_needed
            && !self.limits.mistakes.make(Mistake::ServeWhatIsGone)
        {
            return Lookup::Absent;
        }
        if let Some(waiting) = shard.waiting.get_mut(&hash.0) {
            return Lookup::Buffered(waiting.serve());
        }
        let Some(spot) = shard.find(hash) else {
            return Lookup::Absent;
        };
        shard.touch(spot, self.clock.fetch_add(1, Ordering::Relaxed));
        if let Some(found) = self.on_disk(&mut shard, spot, hash) {
            return found;
        }
        let extent = shard.entry(spot).extent();
        if let Some(bytes) = self.in_flight(extent, |flight| flight.records.is_some()) {
            return Lookup::Buffered(bytes);
        }
        drop(shard);
        // The record is in the open cluster, which needs the writer's lock first, so search again. Or it is in a flight that is ending,
        // which may also have an older record at the same place.
        let writer = self.writer();
        let mut shard = self.shard(number);
        if let Some(waiting) = shard.waiting.get_mut(&hash.0) {
            return Lookup::Buffered(waiting.serve());
        }
        let Some(spot) = shard.find(hash) else {
            return Lookup::Absent;
        };
        if let Some(found) = self.on_disk(&mut shard, spot, hash) {
            return found;
        }
        let extent = shard.entry(spot).extent();
        if let Some(open) = writer.open.iter().find(|open| open.covers(extent)) {
            return Lookup::Buffered(open.copy(extent, self.chunk_bytes()));
        }
        let bytes = self.in_flight(extent, |_| true);
        Lookup::Buffered(
            bytes.expect("a record being written is in a cluster in flight or in an open one"),
        )
    }

    /// `None` if the record is being written.
    fn on_disk(&self, shard: &mut Shard, spot: Spot, hash: KeyHash) -> Option<Lookup> {
        let entry = shard.entry(spot);
        let extent = entry.extent();
        if entry.is_writing() {
            return None;
        }
        shard.pin(spot, hash);
        Some(Lookup::OnDisk(Read {
            offset: self.geometry.offset_of(extent.first.0),
            len: extent.len.0 as usize * self.chunk_bytes(),
            hash,
            extent,
            began: self.sequence(),
            renew: self.may_renew(extent),
        }))
    }

    /// The bytes of a record that is being written, from the newest flight with its place. Call it under the lock of
    /// the record's shard.
    ///
    /// A flight ends after its records are marked as written, which takes that lock, so the flight still exists. But
    /// a flight whose completion is being processed may outlive its records: a written record may be dropped and its
    /// place reused at once. So such a flight counts only if nothing newer can be at that place: the writer is
    /// locked, the open cluster was searched, and the newest flight is taken.
    pub(crate) fn in_flight(
        &self,
        extent: Extent,
        counts: impl Fn(&Flight) -> bool,
    ) -> Option<Bytes> {
        let flights = lock(&self.flights);
        let covering = flights
            .iter()
            .filter(|flight| flight.extent.covers(extent) && counts(flight));
        let newest = covering.max_by_key(|flight| flight.id)?;
        Some(newest.slice(extent, self.chunk_bytes()))
    }

    /// Is there a record of that hash? Counts as no use and pins nothing.
    pub fn contains(&self, hash: KeyHash) -> bool {
        self.shard(self.shard_of(hash)).has(hash)
    }

    /// Ends a read. False if the record was invalidated, replaced or forgotten meanwhile: do not serve it.
    #[must_use = "what was killed meanwhile may not be served"]
    pub fn read_done(&self, read: Read) -> bool {
        let mut shard = self.shard(self.shard_of(read.hash));
        let (may_serve, freed) = shard.unpin(read.extent.first);
        self.queue_freed(freed);
        may_serve
    }

    /// Ends a read that the device refused: the record is dropped, and its extent is set aside.
    pub fn read_failed(&self, read: Read) {
        let (hash, extent) = (read.hash, read.extent);
        let mut shard = self.shard(self.shard_of(hash));
        let spot = shard.find(hash);
        if let Some(spot) = spot.filter(|&spot| shard.entry(spot).first() == extent.first) {
            // This read pins it, so nothing is freed yet.
            let _ = shard.drop_record(spot, hash, Fate::Killed);
        }
        let (_, freed) = shard.unpin(extent.first);
        self.has_left(hash);
        self.counters.read_failures.add(1);
        let mut bad = lock(&self.bad);
        let known = bad.contains(&extent);
        if !known && bad.len() < BAD_MAX {
            bad.push(extent);
        } else if !known {
            drop(bad);
            self.queue_freed(freed);
        }
    }

    /// A guard that ends the read when dropped, even if the waiting future is cancelled.
    pub fn guard(self: &Arc<Self>, read: Read) -> ReadGuard {
        ReadGuard {
            store: Arc::clone(self),
            read: Some(read),
        }
    }
}

/// Returns a [`Read`] to its store when dropped.
#[derive(Debug)]
pub struct ReadGuard {
    pub(crate) store: Arc<Store>,
    pub(crate) read: Option<Read>,
}

impl ReadGuard {
    /// The read is done: as [`Store::read_done`].
    pub fn done(mut self) -> bool {
        self.read
            .take()
            .is_some_and(|read| self.store.read_done(read))
    }

    /// The device refused: as [`Store::read_failed`].
    pub fn failed(mut self) {
        if let Some(read) = self.read.take() {
            self.store.read_failed(read);
        }
    }

    /// The read.
    pub fn read(&self) -> &Read {
        self.read
            .as_ref()
            .expect("only done and drop take the read, and they are the end of the guard")
    }
}

impl Drop for ReadGuard {
    fn drop(&mut self) {
        if let Some(read) = self.read.take() {
            // The reader has gone, so the answer does not matter.
            let _ = self.store.read_done(read);
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
    use std::sync::MutexGuard;

    fn put(store: &Store, hash: KeyHash, body: &[u8]) -> Vec<crate::Write> {
        let record = NewRecord {
            hash,
            primary: hash,
            key: b"a",
            meta: b"",
            body: &[body],
            fragment: None,
            total: None,
            began: store.sequence(),
            server: 0,
        };
        let inserted = store.insert(&record, 1);
        assert_eq!(inserted.outcome, crate::Outcome::Stored);
        inserted.writes.into_iter().collect()
    }

    fn buffered(store: &Store, hash: KeyHash) -> Vec<u8> {
        let Lookup::Buffered(bytes) = store.look_up(hash) else {
            panic!("it is being written");
        };
        store.decode(&bytes, hash).unwrap().body.to_vec()
    }

    #[test]
    fn what_lies_where_an_ending_flight_was_is_not_looked_for_in_that() {
        let settings = Settings {
            replacement: "lru".parse().unwrap(),
            ..Settings::default()
        };
        let geometry = Geometry::plan(4 << 20, 512).unwrap();
        let identity = Identity::new([1; Identity::RANDOM_BYTES]);
        let store = Store::create(geometry, &settings, identity);
        let hash = store.hasher().hash(b"a");
        let mut writes = put(&store, hash, &[0; 50_000]);
        writes.extend(store.flush());
        // As far as a completion comes before another thread purges the record.
        let (ending, records) = {
            let mut flights = lock(&store.flights);
            (flights[0].extent, flights[0].records.take().unwrap())
        };
        for &(hash, first) in records.iter() {
            let freed = store.shard(store.shard_of(hash)).written(hash, first, true);
            assert_eq!(freed, None);
        }
        let _ = store.invalidate(hash);
        let mut reused = 0;
        for n in 1..=255 {
            let mut writes = put(&store, hash, &[n; 50_000]);
            let entry = |shard: MutexGuard<'_, Shard>| shard.entry(shard.find(hash).unwrap());
            let extent = entry(store.shard(store.shard_of(hash))).extent();
            reused += u32::from(ending.covers(extent));
            assert_eq!(buffered(&store, hash)[0], n, "in the open cluster");
            writes.extend(store.flush());
            assert_eq!(buffered(&store, hash)[0], n, "in a newer flight");
            for write in writes {
                store.write_done(write.id, true, 1);
            }
        }
        assert!(reused > 0, "else this shows nothing");
    }
}
