//! The memory tier: whole objects, ready to be written to a socket, and the heads of large ones.
//!
//! Sharded by key hash and shared by all workers. A shard's lock is held for one look-up or one insertion, never
//! across I/O. Each shard has its part of the byte budget, so the tier never holds more than it was given. Short and often
//! used objects stay longest ([`ByWorth`]). A companion of another object's read is a *prefetched entry* until it is
//! asked for. Prefetched entries have an LRU of their own and at most a quarter of a full shard, so that unwanted
//! companions do not push out used objects.
//!
//! In front of the shards every worker keeps a small table of its own ([`Front`]), so that repeated hits on an object
//! cost no lock and no shared reference count. An object that leaves the tier is marked, and a
//! front never serves a marked object; the mark is set before a purge is acknowledged.
//!
//! A purge by pattern marks no objects. It begins a new epoch, and an object that was not yet compared with the purges of all epochs is
//! compared before it is served, by shard and front alike (`purged`).
//!
//! Part of the room is lent to the fragments of large objects (`fragments`), and comes back when they need less.
//!
//! Limits: an object larger than an eighth of a shard, or than `limits.memory-object-max`, is not admitted: a few
//! large objects would push out everything. A small tier therefore has few shards ([`shards_for`]). With a *replacement burst*
//! ([`MemoryTier::with_burst`]), an object that would evict more objects than that is not admitted either.
//!
//! Not known here: freshness, HTTP, the disk.

mod weeding;

use base::clock::Instant;
use std::sync::{
    Arc, Mutex, MutexGuard, OnceLock, PoisonError,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use bytes::Bytes;
use hashbrown::HashTable;
use httpcache::UnixMillis;
use replacement::{ByWorth, Lru};
use store::KeyHash;

use self::weeding::Walk;
use crate::{
    companions::{Came, Companions},
    object::Object,
    purged::Purged,
};

/// The most shards; fewer if there is little memory. A power of two.
const SHARDS_MAX: u64 = 16;
/// An object takes at most one of this many parts of a shard.
const OBJECT_PART: u64 = 8;
/// The number of shards is reduced so that objects up to this length are admitted, but not further for longer ones.
const LONG_BYTES: u64 = 8 << 20;
/// How many objects are examined in a row, which takes some hundred microseconds.
const SWEPT_AT_ONCE: usize = 1024;
/// Prefetched entries get at most one of this many parts of a full shard.
const PREFETCHED_PART: u64 = 4;
/// Objects read from disk and smaller than this are copied out of the read's pages.
const COMPACT_BYTES_MAX: usize = 6 << 10;
/// Stands in for the epoch of an object that has left the tier.
const GONE: u64 = u64::MAX;

/// An object in the tier.
#[derive(Debug)]
pub struct Resident {
    /// The stored response.
    pub object: Object,
    /// The head as HTTP/2 sends it, made at the first HTTP/2 request; counted in `Shard::bytes`.
    block: OnceLock<Bytes>,
    /// The object was compared with the purges up to this epoch; [`GONE`] if it has left. Written under the shard's lock.
    compared: AtomicU64,
    asked: AtomicBool,
    /// Set if the object came as a companion.
    came: Option<Came>,
}

impl Resident {
    fn new(object: Object, compared: u64, came: Option<Came>) -> Arc<Resident> {
        Arc::new(Resident {
            object,
            block: OnceLock::new(),
            compared: AtomicU64::new(compared),
            asked: AtomicBool::new(false),
            came,
        })
    }

    fn compared(&self) -> u64 {
        self.compared.load(Ordering::Acquire)
    }

    fn leave(&self) {
        self.compared.store(GONE, Ordering::Release);
    }

    fn block_bytes(&self) -> u64 {
        self.block.get().map_or(0, |block| block.len() as u64)
    }

    /// Still in the tier?
    #[inline]
    fn is_here(&self) -> bool {
        self.compared() != GONE
    }
}

struct Shard {
    table: HashTable<u32>,
    slots: Vec<Option<Arc<Resident>>>,
    free: Vec<u32>,
    used: ByWorth,
    /// Each object is in exactly one of `used` and `prefetched`.
    prefetched: Lru,
    /// The cost of all objects, in bytes.
    bytes: u64,
    prefetched_bytes: u64,
    /// The bound on `bytes`. While the tier shrinks it is above the shard's part of the tier.
    bytes_max: u64,
}

/// The shared tier.
pub struct MemoryTier {
    shards: Box<[Mutex<Shard>]>,
    /// For each shard, how often [`MemoryTier::remove`] was called.
    removals: Box<[AtomicU64]>,
    /// Whether prefetched entries are asked for.
    pub companions: Arc<Companions>,
    /// The purges by pattern that objects must be compared with.
    purged: Purged,
    walk: Mutex<Walk>,
    bytes_max: AtomicU64,
    /// The part of `bytes_max` that fragments use.
    lent_bytes: AtomicU64,
    /// Bytes of objects that were evicted for new ones.
    replaced_bytes: AtomicU64,
    object_bytes_max: AtomicU64,
    /// The most objects that one new object may evict; `None`: no bound.
    burst_max: Option<usize>,
    bytes: AtomicU64,
    objects: AtomicU64,
    evicted: AtomicU64,
    burst_refused: AtomicU64,
}

impl MemoryTier {
    /// A tier of at most `bytes_max` bytes; 0 switches it off. The number of its shards stays when it is resized.
    pub fn new(bytes_max: u64, object_bytes_max: u64) -> MemoryTier {
        let shards = shards_for(bytes_max, object_bytes_max);
        let shard = || {
            Mutex::new(Shard {
                table: HashTable::new(),
                slots: Vec::new(),
                free: Vec::new(),
                used: ByWorth::new(),
                prefetched: Lru::new(),
                bytes: 0,
                prefetched_bytes: 0,
                bytes_max: bytes_max / shards,
            })
        };
        MemoryTier {
            shards: (0..shards).map(|_| shard()).collect(),
            removals: (0..shards).map(|_| AtomicU64::new(0)).collect(),
            companions: Arc::default(),
            purged: Purged::new(),
            walk: Mutex::default(),
            bytes_max: AtomicU64::new(bytes_max),
            lent_bytes: AtomicU64::new(0),
            replaced_bytes: AtomicU64::new(0),
            object_bytes_max: AtomicU64::new(admitted_max(bytes_max / shards, object_bytes_max)),
            burst_max: None,
            bytes: AtomicU64::new(0),
            objects: AtomicU64::new(0),
            evicted: AtomicU64::new(0),
            burst_refused: AtomicU64::new(0),
        }
    }

    /// The same tier; an object that would evict more than `burst_max` objects is not kept. `None`: no bound.
    //= paper 003 section 4   LRU with bounded replacement burst
    pub fn with_burst(self, burst_max: Option<usize>) -> MemoryTier {
        MemoryTier { burst_max, ..self }
    }

    /// Changes the bounds. More room is usable at once; a smaller bound takes effect through calls of [`MemoryTier::shrink`].
    pub fn resize(&self, bytes_max: u64, object_bytes_max: u64) {
        self.bytes_max.store(bytes_max, Ordering::Relaxed);
        let admitted = admitted_max(bytes_max / self.shards.len() as u64, object_bytes_max);
        self.object_bytes_max.store(admitted, Ordering::Relaxed);
        self.widen();
    }

    /// Sets how many bytes of the room fragments use. If they are more than before, call [`MemoryTier::shrink`] to free them.
    pub fn lend(&self, bytes: u64) {
        let before = self.lent_bytes.swap(bytes, Ordering::Relaxed);
        if bytes < before {
            self.widen();
        }
    }

    /// Bytes of objects that were evicted for new ones since the start: how far the tier has turned over.
    pub fn replaced_bytes(&self) -> u64 {
        self.replaced_bytes.load(Ordering::Relaxed)
    }

    /// Changes with every [`MemoryTier::remove`] in the shard of this hash. A reader of the disk compares the value before and after its
    /// read: if it is the same, no object without a copy in memory (a large one, for example) has replaced the one it read.
    pub fn removals(&self, hash: KeyHash) -> u64 {
        self.removals[self.number_of_shard(hash)].load(Ordering::Acquire)
    }

    fn shard_bytes_max(&self) -> u64 {
        let lent = self.lent_bytes.load(Ordering::Relaxed);
        self.bytes_max().saturating_sub(lent) / self.shards.len() as u64
    }

    fn widen(&self) {
        let of_shard = self.shard_bytes_max();
        for shard in &self.shards {
            let mut shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            shard.bytes_max = shard.bytes_max.max(of_shard);
        }
    }

    /// Evicts objects of one shard that is above its bound, [`SWEPT_AT_ONCE`] at most. True: call it again, there may be more to evict.
    pub fn shrink(&self) -> bool {
        let of_shard = self.shard_bytes_max();
        for shard in &self.shards {
            let mut shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            if shard.bytes_max <= of_shard {
                continue;
            }
            for _ in 0..SWEPT_AT_ONCE {
                if shard.bytes <= of_shard {
                    break;
                }
                let Some(slot) = shard.next_to_leave(false) else {
                    break;
                };
                self.evicted.fetch_add(1, Ordering::Relaxed);
                self.drop_slot(&mut shard, slot);
            }
            shard.bytes_max = shard.bytes.max(of_shard);
            return true;
        }
        false
    }

    fn number_of_shard(&self, hash: KeyHash) -> usize {
        (hash.0 >> 40) as usize & (self.shards.len() - 1)
    }

    fn shard(&self, hash: KeyHash) -> MutexGuard<'_, Shard> {
        self.shards[self.number_of_shard(hash)]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// May an object of this size be admitted?
    pub fn admits(&self, bytes: u64) -> bool {
        bytes <= self.object_bytes_max()
    }

    /// The object under exactly this key.
    pub fn get(&self, hash: KeyHash, key: &[u8]) -> Option<Arc<Resident>> {
        self.look_up(hash, key).ok()
    }

    /// The object with this key. If there is none, the key of the object with the same hash.
    pub fn look_up(&self, hash: KeyHash, key: &[u8]) -> Result<Arc<Resident>, Option<Bytes>> {
        let mut shard = self.shard(hash);
        let slot = self.current(&mut shard, hash).ok_or(None)?;
        let resident = shard.slots[slot as usize].as_ref().ok_or(None)?;
        if resident.object.key != key {
            return Err(Some(resident.object.key.clone()));
        }
        let resident = Arc::clone(resident);
        if !shard.used.touch(slot) && shard.prefetched.remove(slot) {
            let cost = resident.object.memory_bytes();
            shard.prefetched_bytes -= cost;
            shard.used.insert(slot, cost);
            if let Some(came) = resident.came {
                (self.companions).asked(came, self.bytes_max() / PREFETCHED_PART);
            }
        }
        Ok(resident)
    }

    /// The object under exactly this key, without counting that as a use.
    pub fn peek(&self, hash: KeyHash, key: &[u8]) -> Option<Arc<Resident>> {
        let mut shard = self.shard(hash);
        let slot = self.current(&mut shard, hash)?;
        let resident = shard.slots[slot as usize].as_ref()?;
        (resident.object.key == key).then(|| Arc::clone(resident))
    }

    /// The object with this hash, compared with all purges.
    fn current(&self, shard: &mut Shard, hash: KeyHash) -> Option<u32> {
        let slot = shard.find(hash)?;
        self.compare(shard, slot).then_some(slot)
    }

    /// Compares the object in this slot with the purges since its last comparison. False: the slot is empty, or has been emptied.
    #[inline]
    fn compare(&self, shard: &mut Shard, slot: u32) -> bool {
        let Some(resident) = &shard.slots[slot as usize] else {
            return false;
        };
        // Read the epoch before the purges: a purge that comes meanwhile has a later epoch.
        let epoch = self.purged.epoch();
        let since = resident.compared();
        if since == epoch {
            return true;
        }
        let (met, at) = self.purged.meet(since, &resident.object);
        if met.dead {
            self.drop_slot(shard, slot);
            return false;
        }
        match met.stale {
            true => self.make_stale(shard, slot, at, epoch),
            false => resident.compared.store(epoch, Ordering::Release),
        }
        true
    }

    /// Replaces the object in this slot, if there is one, by a stale copy that counts as compared up to this epoch.
    fn make_stale(&self, shard: &mut Shard, slot: u32, at: UnixMillis, epoch: u64) {
        let resident = &mut shard.slots[slot as usize];
        let stale = resident.as_ref().map(|fresh| {
            let mut object = fresh.object.clone();
            object.standing.expire_at(at);
            Resident::new(object, epoch, fresh.came)
        });
        if let Some(fresh) = std::mem::replace(resident, stale) {
            fresh.leave();
            self.uncount(shard, fresh.block_bytes());
        }
    }

    /// Inserts an object in place of any with the same hash, unless `still_valid` says that it was invalidated
    /// meanwhile. `still_valid` is called under the shard's lock, and [`MemoryTier::remove`] takes that lock after the
    /// invalidation was recorded. So either `still_valid` sees the invalidation, or the removal comes later.
    pub fn insert(&self, object: Object, still_valid: impl FnOnce(&Object) -> bool) -> bool {
        self.insert_if(object, None, |_, object| still_valid(object))
    }

    fn insert_if(
        &self,
        object: Object,
        came: Option<Came>,
        wanted: impl FnOnce(&Shard, &Object) -> bool,
    ) -> bool {
        let cost = object.memory_bytes();
        if !self.admits(cost) {
            return false;
        }
        let mut shard = self.shard(object.hash);
        // Read the epoch before calling `wanted`, which knows all purges up to it.
        let epoch = self.purged.epoch();
        if !wanted(&shard, &object) {
            return false;
        }
        let hash = object.hash;
        if let Some(slot) = shard.find(hash) {
            self.drop_slot(&mut shard, slot);
        }
        if self.burst_max.is_some_and(|most| {
            let excess = (shard.bytes + cost).saturating_sub(shard.bytes_max);
            !shard.frees_with(excess, most)
        }) {
            self.burst_refused.fetch_add(1, Ordering::Relaxed);
            return false;
        }
        if !self.make_room(&mut shard, cost, came.is_some()) {
            return false;
        }
        let resident = Resident::new(object, epoch, came);
        let slot = match shard.free.pop() {
            Some(slot) => {
                shard.slots[slot as usize] = Some(resident);
                slot
            }
            None => {
                shard.slots.push(Some(resident));
                u32::try_from(shard.slots.len() - 1).expect("a shard holds under 2^32 objects")
            }
        };
        let Shard { table, slots, .. } = &mut *shard;
        table.insert_unique(hash.0, slot, |&s| {
            slots[s as usize].as_ref().map_or(0, |r| r.object.hash.0)
        });
        match came {
            None => shard.used.insert(slot, cost),
            Some(_) => {
                shard.prefetched.insert(slot);
                shard.prefetched_bytes += cost;
                self.companions.brought(cost);
            }
        }
        shard.bytes += cost;
        self.bytes.fetch_add(cost, Ordering::Relaxed);
        self.objects.fetch_add(1, Ordering::Relaxed);
        true
    }

    /// Evicts until there is room for `cost` more bytes. False: all objects were evicted and there still is none, since the tier was shrunk.
    fn make_room(&self, shard: &mut Shard, cost: u64, comes_along: bool) -> bool {
        while shard.bytes + cost > shard.bytes_max {
            let prefetched_bytes = shard.prefetched_bytes + if comes_along { cost } else { 0 };
            let too_many = prefetched_bytes > shard.bytes_max / PREFETCHED_PART;
            let Some(slot) = shard.next_to_leave(too_many) else {
                return false;
            };
            // A front has served the object since the last check. All such hits count as one use, so that a hit needs no lock.
            let asked = shard.slots[slot as usize]
                .as_ref()
                .is_some_and(|r| r.asked.swap(false, Ordering::Relaxed));
            if asked && shard.used.touch(slot) {
                continue;
            }
            self.evicted.fetch_add(1, Ordering::Relaxed);
            let before = shard.bytes;
            self.drop_slot(shard, slot);
            (self.replaced_bytes).fetch_add(before - shard.bytes, Ordering::Relaxed);
        }
        true
    }

    /// Inserts an object that was read from disk, unless there is a newer one by now.
    pub fn promote(&self, object: &Object, still_valid: impl FnOnce(&Object) -> bool) {
        if !self.admits(object.memory_bytes()) {
            return;
        }
        // A read fills whole pages; a small object gets memory of its own size instead.
        let mut object = object.clone();
        if object.head.len() + object.body.len() < COMPACT_BYTES_MAX {
            object.compact();
        }
        let hash = object.hash;
        self.insert_if(object, None, |shard, object| {
            shard.find(hash).is_none() && still_valid(object)
        });
    }

    /// Inserts a companion as a prefetched entry, unless the object is there already.
    pub fn take_along(
        &self,
        mut object: Object,
        came: Came,
        still_valid: impl FnOnce(&Object) -> bool,
    ) {
        let hash = object.hash;
        if !self.admits(object.memory_bytes()) || self.shard(hash).find(hash).is_some() {
            return;
        }
        // The buffer of the read holds other records too.
        object.compact();
        self.insert_if(object, Some(came), |shard, object| {
            shard.find(hash).is_none() && still_valid(object)
        });
    }

    /// Removes the object with this hash; true if there was one.
    pub fn remove(&self, hash: KeyHash) -> bool {
        let mut shard = self.shard(hash);
        self.removals[self.number_of_shard(hash)].fetch_add(1, Ordering::Release);
        match shard.find(hash) {
            Some(slot) => {
                self.drop_slot(&mut shard, slot);
                true
            }
            None => false,
        }
    }

    /// Makes the object with this hash stale as of `now`; true if there is one.
    pub fn doubt(&self, hash: KeyHash, now: UnixMillis) -> bool {
        let mut shard = self.shard(hash);
        let Some(slot) = shard.find(hash) else {
            return false;
        };
        let known = shard.slots[slot as usize].as_ref();
        let compared = known.map_or(0, |resident| resident.compared());
        self.make_stale(&mut shard, slot, now, compared);
        true
    }

    /// Removes all objects that are there at the time of the call.
    pub fn clear(&self) {
        for shard in &self.shards {
            let lock = || shard.lock().unwrap_or_else(PoisonError::into_inner);
            let end = lock().slots.len();
            for from in (0..end).step_by(SWEPT_AT_ONCE) {
                let mut shard = lock();
                for slot in from..(from + SWEPT_AT_ONCE).min(end) {
                    self.drop_slot(&mut shard, slot as u32);
                }
            }
        }
    }

    /// The head of an object as HTTP/2 sends it; `make` is called once. `None`: the object has left the tier, or there is no room.
    #[inline]
    pub fn block_of<'r>(
        &self,
        resident: &'r Resident,
        make: impl FnOnce() -> Vec<u8>,
    ) -> Option<&'r Bytes> {
        let known = resident.block.get();
        known.or_else(|| self.keep_block(resident, make().into_boxed_slice().into()))
    }

    #[cold]
    fn keep_block<'r>(&self, resident: &'r Resident, block: Bytes) -> Option<&'r Bytes> {
        let mut shard = self.shard(resident.object.hash);
        let bytes = block.len() as u64;
        // An object is removed under this lock, and its block is uncounted with it. So check again now, and after making room.
        if !resident.is_here() || !self.make_room(&mut shard, bytes, false) || !resident.is_here() {
            return None;
        }
        if resident.block.set(block).is_ok() {
            shard.bytes += bytes;
            self.bytes.fetch_add(bytes, Ordering::Relaxed);
        }
        resident.block.get()
    }

    /// Is the object in the tier, and was it compared with all purges?
    #[inline]
    fn may_serve(&self, resident: &Resident) -> bool {
        resident.compared() == self.purged.epoch()
    }

    fn uncount(&self, shard: &mut Shard, bytes: u64) {
        shard.bytes -= bytes;
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    fn drop_slot(&self, shard: &mut Shard, slot: u32) {
        let Some(resident) = shard.slots[slot as usize].take() else {
            return;
        };
        let hash = resident.object.hash.0;
        if let Ok(entry) = shard.table.find_entry(hash, |&s| s == slot) {
            entry.remove();
        }
        let cost = resident.object.memory_bytes();
        if !shard.used.remove(slot) && shard.prefetched.remove(slot) {
            shard.prefetched_bytes -= cost;
        }
        shard.free.push(slot);
        self.uncount(shard, cost + resident.block_bytes());
        self.objects.fetch_sub(1, Ordering::Relaxed);
        resident.leave();
    }

    /// The largest object admitted, overhead included.
    pub fn object_bytes_max(&self) -> u64 {
        self.object_bytes_max.load(Ordering::Relaxed)
    }

    /// Bytes held now.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Objects held now.
    pub fn objects(&self) -> u64 {
        self.objects.load(Ordering::Relaxed)
    }

    /// Objects evicted since the start.
    pub fn evicted(&self) -> u64 {
        self.evicted.load(Ordering::Relaxed)
    }

    /// Objects since the start that were not kept because they would have evicted too many others.
    pub fn burst_refused(&self) -> u64 {
        self.burst_refused.load(Ordering::Relaxed)
    }

    /// The bound on the sum of `bytes` and the bytes that fragments use.
    pub fn bytes_max(&self) -> u64 {
        self.bytes_max.load(Ordering::Relaxed)
    }
}

/// How many shards: [`SHARDS_MAX`], so that workers seldom wait for each other, but with little memory fewer, so that an object of
/// [`LONG_BYTES`] (or of the largest size allowed) is admitted, or one of an eighth of all memory. Few shards do little harm then, since
/// the workers' fronts hold all objects of a small tier.
fn shards_for(bytes_max: u64, object_bytes_max: u64) -> u64 {
    if bytes_max == 0 {
        // The tier may be resized to any size later.
        return SHARDS_MAX;
    }
    let longest = object_bytes_max.clamp(1, LONG_BYTES);
    let shards = (bytes_max / OBJECT_PART / longest).clamp(1, SHARDS_MAX);
    1 << shards.ilog2()
}

/// The longest object that is admitted to a shard of this size.
fn admitted_max(shard_bytes_max: u64, object_bytes_max: u64) -> u64 {
    object_bytes_max.min(shard_bytes_max / OBJECT_PART)
}

impl Shard {
    /// The next object to evict: a prefetched entry if there are too many of them, else the one of the least worth.
    fn next_to_leave(&mut self, too_many_prefetched: bool) -> Option<u32> {
        let prefetched = self.prefetched.coldest();
        if too_many_prefetched && prefetched.is_some() {
            return prefetched;
        }
        self.used.least().or(prefetched)
    }

    /// Do the next `most` objects to evict have at least `excess_bytes`? Counts objects that a second chance would spare, too.
    fn frees_with(&self, excess_bytes: u64, most: usize) -> bool {
        let next = (self.used.iter_least_first()).chain(self.prefetched.iter_coldest_first());
        let cost =
            |slot: u32| (self.slots[slot as usize].as_ref()).map_or(0, |r| r.object.memory_bytes());
        next.take(most).map(cost).sum::<u64>() >= excess_bytes
    }

    fn find(&self, hash: KeyHash) -> Option<u32> {
        self.table
            .find(hash.0, |&s| {
                self.slots[s as usize]
                    .as_ref()
                    .is_some_and(|r| r.object.hash == hash)
            })
            .copied()
    }
}

/// Slots of a worker's front table; a power of two.
const FRONT_SLOTS: usize = 1024;

/// A worker's own direct-mapped table in front of the shards.
///
/// It keeps at most [`FRONT_SLOTS`] references. [`Front::sweep`] drops references to objects that have left the tier, so memory
/// beyond the tier's budget is held for about a second at most.
pub struct Front {
    slots: Box<[Option<Arc<Resident>>]>,
    swept: Instant,
}

impl Front {
    /// An empty table.
    pub fn new() -> Front {
        Front {
            slots: (0..FRONT_SLOTS).map(|_| None).collect(),
            swept: Instant::now(),
        }
    }

    /// The object under exactly this key, from this table or from the tier behind. If there is none, the key of the object with the same
    /// hash in the tier.
    #[inline]
    pub fn look_up(
        &mut self,
        tier: &MemoryTier,
        hash: KeyHash,
        key: &[u8],
    ) -> Result<&Arc<Resident>, Option<Bytes>> {
        let at = hash.0 as usize & (FRONT_SLOTS - 1);
        let slot = &mut self.slots[at];
        let here = slot
            .as_ref()
            .is_some_and(|r| r.object.hash == hash && tier.may_serve(r) && r.object.key == key);
        if here {
            let resident = slot.as_ref().ok_or(None)?;
            if !resident.asked.load(Ordering::Relaxed) {
                resident.asked.store(true, Ordering::Relaxed);
            }
            return Ok(resident);
        }
        let found = tier.look_up(hash, key)?;
        *slot = Some(found);
        slot.as_ref().ok_or(None)
    }

    /// Drops objects that have left the tier.
    pub fn sweep(&mut self, now: Instant) {
        if now.duration_since(self.swept).as_millis() < 500 {
            return;
        }
        self.swept = now;
        for slot in &mut self.slots {
            if slot.as_ref().is_some_and(|r| !r.is_here()) {
                *slot = None;
            }
        }
    }
}

impl Default for Front {
    fn default() -> Self {
        Front::new()
    }
}

#[cfg(test)]
#[path = "memory_tests.rs"]
mod tests;
