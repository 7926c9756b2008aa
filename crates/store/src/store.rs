//! The store as its callers see it: look up, read, invalidate, count.
//!
//! Shared by all threads. Locks, in the order in which they may be taken:
//!
//! 1. `writer`: allocator, open cluster, eviction. No hit from disk takes it.
//! 2. `shards`: each a part of the index, chosen by key hash. Held for a look-up, never two at once (but by `audit`).
//! 3. `flights` and `freed`: short lists. Nothing is taken while one is held.
//!
//! An extent freed under a shard's lock alone goes to `freed` (at most one a record), from where the writer takes it, so that
//! the allocator needs no lock of its own.

use crate::buffer::Pool;
use crate::cluster::{Flight, WriteId};
use crate::figures::{Counters, Figures};
use crate::geometry::Geometry;
use crate::key::{KeyHash, KeyHasher};
use crate::marker::{LIST_BYTES_MAX, Marker};
use crate::pause::Pause;
use crate::record::{Corrupt, Expected, RecordParts};
use crate::settings::Limits;
use crate::shard::Shard;
use crate::superblock::{Secret, Superblock};
use crate::writer::Writer;
use bytes::Bytes;
use extent::{Extent, SpaceManager, Unified};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

/// The order of records and invalidations: each takes the next number.
pub type Sequence = u64;

/// The object store: deterministic, without any I/O; callers carry out the [`Read`]s and [`Write`](crate::Write)s it asks for.
pub struct Store {
    pub(crate) geometry: Geometry,
    pub(crate) limits: Limits,
    pub(crate) secret: Secret,
    pub(crate) epoch: u64,
    /// What is on disk while the store is open.
    pub(crate) superblock: Superblock,
    pub(crate) shards: Box<[Mutex<Shard>]>,
    /// Uses so far: the stamps of exact LRU.
    pub(crate) clock: AtomicU64,
    pub(crate) sequence: AtomicU64,
    pub(crate) writer: Mutex<Writer>,
    pub(crate) flights: Mutex<Vec<Flight>>,
    pub(crate) freed: Mutex<Vec<Extent>>,
    pub(crate) pool: Pool,
    pub(crate) pause: Pause,
    pub(crate) closed: AtomicBool,
    pub(crate) counters: Counters,
}

/// A device read to carry out. It pins its extent: each must come back through [`Store::read_done`], also when
/// the read failed or nobody waits for it any more; [`Store::guard`] sees to that.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a read pins its extent until read_done"]
pub struct Read {
    /// Where, in bytes from the start of the store.
    pub offset: u64,
    /// How many bytes: whole chunks.
    pub len: usize,
    hash: KeyHash,
    extent: Extent,
}

impl Read {
    /// What was looked up.
    pub fn hash(&self) -> KeyHash {
        self.hash
    }
}

/// What a look-up found.
#[derive(Debug)]
pub enum Lookup {
    /// Nothing.
    Absent,
    /// The record is on disk: carry out the read.
    OnDisk(Read),
    /// The record's write is not complete: its bytes, as they will be on disk.
    Buffered(Bytes),
}

/// Returns a [`Read`] to its store when dropped.
#[derive(Debug)]
pub struct ReadGuard {
    store: Arc<Store>,
    read: Option<Read>,
}

impl ReadGuard {
    /// The read is done: as [`Store::read_done`].
    pub fn done(mut self) -> bool {
        self.read
            .take()
            .is_some_and(|read| self.store.read_done(read))
    }

    /// What is to be read.
    pub fn read(&self) -> &Read {
        self.read
            .as_ref()
            .expect("only done and drop take the read, and they are the end of the guard")
    }
}

impl Drop for ReadGuard {
    fn drop(&mut self) {
        if let Some(read) = self.read.take() {
            // Nobody is left to serve it to.
            let _ = self.store.read_done(read);
        }
    }
}

impl Store {
    pub(crate) fn with(
        superblock: Superblock,
        limits: Limits,
        space: Unified,
        sequence: Sequence,
    ) -> Self {
        let geometry = superblock.geometry.clone();
        let cluster_bytes = limits.cluster_chunks as usize * geometry.chunk_bytes as usize;
        Self {
            secret: superblock.secret,
            epoch: superblock.epoch,
            shards: (0..limits.shards).map(|_| Mutex::default()).collect(),
            clock: AtomicU64::new(1),
            sequence: AtomicU64::new(sequence),
            writer: Mutex::new(Writer::new(space, limits.shards)),
            flights: Mutex::default(),
            freed: Mutex::default(),
            pool: Pool::new(cluster_bytes),
            pause: Pause::default(),
            closed: AtomicBool::new(false),
            counters: Counters::default(),
            geometry,
            limits,
            superblock,
        }
    }

    /// Makes key hashes for this store.
    pub fn hasher(&self) -> KeyHasher {
        KeyHasher::new(self.superblock.hash_seed)
    }

    /// Where the parts of the store lie.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Is storing paused, because a write failed (`pause`)?
    pub fn is_paused(&self, now_ms: u64) -> bool {
        self.pause.is_on(now_ms)
    }

    /// The largest object this store takes, in bytes of body.
    pub fn object_bytes_max(&self) -> u64 {
        self.limits.object_bytes_max
    }

    /// Bodies larger than this are to be cut into fragments of this size.
    pub fn fragment_bytes(&self) -> u32 {
        self.limits.fragment_bytes
    }

    /// The present: a fill, a promotion to memory or a revalidation notes it when it begins.
    pub fn sequence(&self) -> Sequence {
        self.sequence.load(Ordering::SeqCst)
    }

    pub(crate) fn next_sequence(&self) -> Sequence {
        self.sequence.fetch_add(1, Ordering::SeqCst) + 1
    }

    /// Was `primary` invalidated since `began`? Errs on the side of yes. To be asked again before anything that
    /// began then is published or served: [`Store::read_done`] knows only of the record, so a reader of
    /// a *variant* asks here as well.
    pub fn invalidated_since(&self, primary: KeyHash, began: Sequence) -> bool {
        !self.shard(self.shard_of(primary)).admits(primary, began)
    }

    /// Finds a record, and counts that as a use.
    pub fn look_up(&self, hash: KeyHash) -> Lookup {
        let number = self.shard_of(hash);
        let mut shard = self.shard(number);
        let Some(slot) = shard.find(hash) else {
            return Lookup::Absent;
        };
        shard.touch(slot, self.clock.fetch_add(1, Ordering::Relaxed));
        if let Some(found) = self.on_disk_or_in_flight(&mut shard, slot) {
            return found;
        }
        drop(shard);
        // In the open cluster: that is the writer's, whose lock comes first. Meanwhile anything may have happened.
        let writer = self.writer();
        let mut shard = self.shard(number);
        let Some(slot) = shard.find(hash) else {
            return Lookup::Absent;
        };
        if let Some(found) = self.on_disk_or_in_flight(&mut shard, slot) {
            return found;
        }
        let extent = shard.slot(slot).extent();
        let open = writer.open.as_ref().filter(|open| open.covers(extent));
        let open =
            open.expect("a record being written is in a cluster in flight or in the open one");
        Lookup::Buffered(open.copy(extent, self.chunk_bytes()))
    }

    /// None if the record is in the open cluster.
    fn on_disk_or_in_flight(&self, shard: &mut Shard, slot: u32) -> Option<Lookup> {
        let record = shard.slot(slot);
        let (hash, extent) = (record.hash, record.extent());
        if !record.is_writing() {
            shard.pin(slot);
            return Some(Lookup::OnDisk(Read {
                offset: self.geometry.offset_of(extent.first.0),
                len: extent.len.0 as usize * self.chunk_bytes(),
                hash,
                extent,
            }));
        }
        // A flight ends after its records are marked written, which takes this shard's lock: so it is still there.
        let flights = crate::lock(&self.flights);
        let flight = flights.iter().find(|flight| flight.extent.covers(extent))?;
        Some(Lookup::Buffered(flight.slice(extent, self.chunk_bytes())))
    }

    /// Is there such a record? No use, no pin.
    pub fn contains(&self, hash: KeyHash) -> bool {
        self.shard(self.shard_of(hash)).find(hash).is_some()
    }

    /// Ends a read. False: the record was invalidated, replaced or forgotten meanwhile; do not serve it.
    #[must_use = "what was killed meanwhile may not be served"]
    pub fn read_done(&self, read: Read) -> bool {
        let mut shard = self.shard(self.shard_of(read.hash));
        let (may_serve, freed) = shard.unpin(read.extent.first);
        self.queue_freed(freed);
        may_serve
    }

    /// A guard that ends the read when dropped, also when the future that waits for it is cancelled.
    pub fn guard(self: &Arc<Self>, read: Read) -> ReadGuard {
        ReadGuard {
            store: Arc::clone(self),
            read: Some(read),
        }
    }

    /// Verifies a record's bytes and takes them apart. The caller compares the full key.
    ///
    /// # Errors
    /// The bytes are not a whole record of this hash in this store. Never panics, whatever they are. The caller
    /// is to [`forget`](Self::forget) the record.
    pub fn decode(&self, bytes: &Bytes, expect: KeyHash) -> Result<RecordParts, Corrupt> {
        self.verify(bytes, expect, None)
    }

    /// As [`Self::decode`], and the record must be the one of exactly this place, which also notices a misdirected
    /// read that brought an older version. To be asked before [`Self::read_done`].
    ///
    /// # Errors
    /// As [`Self::decode`].
    pub fn decode_read(&self, bytes: &Bytes, read: &Read) -> Result<RecordParts, Corrupt> {
        self.verify(bytes, read.hash, Some(read.extent))
    }

    fn verify(
        &self,
        bytes: &Bytes,
        hash: KeyHash,
        extent: Option<Extent>,
    ) -> Result<RecordParts, Corrupt> {
        let expected = Expected {
            secret: &self.secret,
            epoch: self.epoch,
            hash,
            extent,
            chunk_bytes: self.geometry.chunk_bytes,
        };
        let verified = crate::record::decode(bytes, expected);
        if verified.is_err() {
            self.counters.corrupt.add(1);
        }
        verified
    }

    /// Drops a record that failed verification. No invalidation: what is fetched next may be stored.
    pub fn forget(&self, hash: KeyHash) {
        let mut shard = self.shard(self.shard_of(hash));
        let (_, freed) = shard.kill(hash);
        self.queue_freed(freed);
    }

    /// Invalidates a primary key: its record and its marker are gone, who is reading the record is told not to
    /// serve it, and fills that began before are refused. True if anything was indexed.
    pub fn invalidate(&self, primary: KeyHash) -> bool {
        self.counters.invalidations.add(1);
        let mut shard = self.shard(self.shard_of(primary));
        // Drawn under the lock: whoever has seen this number finds the record gone.
        let sequence = self.next_sequence();
        shard.invalidations.note(primary, sequence);
        let had_marker = shard.markers.remove(primary);
        let (had_record, freed) = shard.kill(primary);
        self.queue_freed(freed);
        drop(shard);
        self.counters.invalidated.add(u64::from(had_record));
        had_marker || had_record
    }

    /// How to find the variants of a primary key, if it has any.
    pub fn marker(&self, primary: KeyHash) -> Option<Marker> {
        self.shard(self.shard_of(primary))
            .markers
            .get(primary)
            .cloned()
    }

    /// The marker of a primary key with that list: the present one, or, if its list is another or there is none,
    /// a new one with a new salt, which puts all variants stored so far out of reach. None if the primary
    /// was invalidated since `began`, or the list is longer than [`LIST_BYTES_MAX`].
    pub fn set_marker(&self, primary: KeyHash, list: &[u8], began: Sequence) -> Option<Marker> {
        let mut shard = self.shard(self.shard_of(primary));
        if list.len() > LIST_BYTES_MAX || !shard.admits(primary, began) {
            return None;
        }
        if let Some(present) = shard.markers.get(primary)
            && *present.list == *list
        {
            return Some(present.clone());
        }
        // Sequence numbers are never used twice within an epoch, and the records of other epochs are refused.
        let salt = self.next_sequence();
        let marker = Marker {
            salt,
            list: Arc::from(list),
        };
        shard.markers.set(primary, marker.clone(), salt);
        Some(marker)
    }

    /// A write has been carried out (`ok`) or has failed. A failure drops the records of that cluster and pauses
    /// storing, at first for a second, then longer. An unknown `id` is ignored.
    pub fn write_done(&self, id: WriteId, ok: bool, now_ms: u64) {
        let records = {
            let mut flights = crate::lock(&self.flights);
            let flight = flights.iter_mut().find(|flight| flight.id == id);
            flight.and_then(|flight| flight.records.take())
        };
        let Some(records) = records else { return };
        for &(hash, first) in records.iter() {
            let mut shard = self.shard(self.shard_of(hash));
            let freed = shard.written(hash, first, ok);
            self.queue_freed(freed);
        }
        let mut flights = crate::lock(&self.flights);
        let at = flights.iter().position(|flight| flight.id == id);
        let flight = flights.swap_remove(at.expect("only who took its records removes a flight"));
        drop(flights);
        self.pool.give_back(flight.data);
        if ok {
            self.pause.succeeded();
        } else {
            self.pause.failed(now_ms);
            self.counters.write_failures.add(1);
        }
    }

    /// What the store is like now and what it has done.
    pub fn figures(&self) -> Figures {
        let mut figures = self.counters.read();
        {
            let mut writer = self.writer();
            self.reclaim(&mut writer);
            let space = &writer.space;
            figures.total_chunks = u64::from(space.total().0);
            figures.free_chunks = u64::from(space.free_chunks().0);
            figures.free_pieces = space.pieces() as u64;
            figures.largest_free_chunks = space.largest().map_or(0, |piece| u64::from(piece.len.0));
            figures.space_bytes = space.memory_bytes() as u64;
        }
        figures.chunk_bytes = u64::from(self.geometry.chunk_bytes);
        figures.clusters_in_flight = crate::lock(&self.flights).len() as u64;
        for number in 0..self.shards.len() {
            let shard = self.shard(number);
            figures.records += shard.len() as u64;
            figures.markers += shard.markers.len() as u64;
            figures.reads_pinned += shard.pins() as u64;
            figures.index_bytes += shard.memory_bytes() as u64;
        }
        figures
    }

    /// Checks every invariant in full; for tests and simulation. Stops all threads meanwhile.
    ///
    /// # Errors
    /// Which one does not hold.
    pub fn audit(&self) -> Result<(), String> {
        let writer = self.writer();
        let shards: Vec<_> = (0..self.shards.len())
            .map(|number| self.shard(number))
            .collect();
        let flights = crate::lock(&self.flights);
        let freed = crate::lock(&self.freed);
        writer.space.audit()?;
        let mut used: Vec<Extent> = freed.clone();
        used.extend(writer.open.as_ref().and_then(|open| open.tail()));
        for (number, shard) in shards.iter().enumerate() {
            shard.audit()?;
            used.extend(shard.held_extents());
            for slot in shard.iter_coldest_first() {
                used.push(slot.extent());
                if self.shard_of(slot.hash) != number {
                    return Err(format!("{:?} in the wrong shard", slot.hash));
                }
                let buffered = flights
                    .iter()
                    .any(|flight| flight.extent.covers(slot.extent()))
                    || writer
                        .open
                        .as_ref()
                        .is_some_and(|open| open.covers(slot.extent()));
                if slot.is_writing() && !buffered {
                    return Err(format!(
                        "{:?} is being written, but by no cluster",
                        slot.hash
                    ));
                }
            }
        }
        // No two overlap, and they are what the allocator takes for used.
        let rebuilt = Unified::from_used(writer.space.total(), used.into_iter())
            .map_err(|e| e.to_string())?;
        if rebuilt.free_pieces() != writer.space.free_pieces() {
            return Err("the allocator's used chunks are not those of the records".into());
        }
        Ok(())
    }

    pub(crate) fn queue_freed(&self, freed: Option<Extent>) {
        if let Some(extent) = freed {
            crate::lock(&self.freed).push(extent);
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }

    pub(crate) fn chunk_bytes(&self) -> usize {
        self.geometry.chunk_bytes as usize
    }

    pub(crate) fn shard_of(&self, hash: KeyHash) -> usize {
        // The table takes its position from the low bits and its tag from the high ones.
        (hash.0 >> 32) as usize & (self.shards.len() - 1)
    }

    pub(crate) fn shard(&self, number: usize) -> MutexGuard<'_, Shard> {
        crate::lock(&self.shards[number])
    }

    pub(crate) fn writer(&self) -> MutexGuard<'_, Writer> {
        crate::lock(&self.writer)
    }
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store")
            .field("geometry", &self.geometry)
            .finish_non_exhaustive()
    }
}

const _: () = {
    const fn shared<T: Send + Sync>() {}
    shared::<Store>();
};
