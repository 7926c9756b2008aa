//! The memory tier: whole objects, ready to be written to a socket, and the heads of large ones.
//!
//! Sharded by key hash and shared by all workers. A shard's lock is held for one look-up or one insertion, never
//! across I/O. Each shard has its part of the byte budget, so the tier never holds more than it was given. Short and often
//! used objects stay longest ([`ByWorth`]). A companion of another object's read is a *prefetched entry* until it is
//! asked for. Prefetched entries have an LRU and a quarter of the room of their own, so that unwanted ones do not push
//! out used objects.
//!
//! In front of the shards every worker keeps a small table of its own ([`Front`]): an object asked for again
//! and again costs no lock and no shared reference count. An object that leaves the tier is marked, and a
//! front never serves a marked one; the mark is set before a purge is acknowledged.
//!
//! A purge by pattern marks nothing: it begins a new epoch, and an object that was not compared with all epochs is compared before it is
//! served, by the front too (`purged`).
//!
//! Part of the room is lent to the fragments of large objects (`fragments`), and comes back when they need less.
//!
//! Limits: an object larger than an eighth of a shard, or than `limits.memory-object-max`, is not admitted: a few
//! large ones would push out everything. So little memory has few shards ([`shards_for`]). With a *replacement burst*
//! ([`MemoryTier::with_burst`]), neither is a newcomer that would drive out more objects than that.
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

/// Number of shards, if there is memory enough; a power of two.
const SHARDS_MAX: u64 = 16;
/// An object takes at most one of so many parts of a shard.
const OBJECT_PART: u64 = 8;
/// For an object of this length there are fewer shards than [`SHARDS_MAX`]; for a longer one there are no fewer.
const LONG_BYTES: u64 = 8 << 20;
/// Objects that are looked at in a row, in some hundred microseconds.
const SWEPT_AT_ONCE: usize = 1024;
/// Prefetched entries get one of this many parts of a full shard.
const PREFETCHED_PART: u64 = 4;
/// Objects read from disk and smaller than this are copied out of the read's pages.
const COMPACT_BYTES_MAX: usize = 6 << 10;
/// In place of the epoch of an object that has left.
const GONE: u64 = u64::MAX;

/// An object in the tier.
#[derive(Debug)]
pub struct Resident {
    /// The stored response.
    pub object: Object,
    /// Its head as HTTP/2 sends it, once somebody has asked so; counted in `Shard::bytes`.
    block: OnceLock<Bytes>,
    /// It was compared with the purges up to this epoch, or is [`GONE`]. Written under its shard's lock.
    compared: AtomicU64,
    asked: AtomicBool,
    /// It was a companion.
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
    /// Each object is in exactly one of the two.
    prefetched: Lru,
    /// Of all.
    bytes: u64,
    prefetched_bytes: u64,
    /// The bound on `bytes`: above its part of the tier while that is being made smaller.
    bytes_max: u64,
}

/// The shared tier.
pub struct MemoryTier {
    shards: Box<[Mutex<Shard>]>,
    /// Of each shard, how often something was taken out of it for good.
    removals: Box<[AtomicU64]>,
    /// Whether prefetched entries are asked for.
    pub companions: Arc<Companions>,
    /// Purges by pattern that objects are to be compared with.
    purged: Purged,
    walk: Mutex<Walk>,
    bytes_max: AtomicU64,
    /// Of these, what fragments have.
    lent_bytes: AtomicU64,
    /// Bytes of objects that were pushed out by newcomers.
    replaced_bytes: AtomicU64,
    object_bytes_max: AtomicU64,
    /// The most objects that a newcomer may drive out; `None` without bound.
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

    /// The same tier, in which a newcomer drives out at most so many objects, or is not kept; `None` without bound.
    //= paper 003 section 4   LRU with bounded replacement burst
    pub fn with_burst(self, burst_max: Option<usize>) -> MemoryTier {
        MemoryTier { burst_max, ..self }
    }

    /// Gives it other bounds. More room is there at once; less comes about by [`MemoryTier::shrink`].
    pub fn resize(&self, bytes_max: u64, object_bytes_max: u64) {
        self.bytes_max.store(bytes_max, Ordering::Relaxed);
        let admitted = admitted_max(bytes_max / self.shards.len() as u64, object_bytes_max);
        self.object_bytes_max.store(admitted, Ordering::Relaxed);
        self.widen();
    }

    /// Fragments have so many bytes of the room now. If that is more than before, [`MemoryTier::shrink`] makes it so.
    pub fn lend(&self, bytes: u64) {
        let before = self.lent_bytes.swap(bytes, Ordering::Relaxed);
        if bytes < before {
            self.widen();
        }
    }

    /// Bytes of objects that were pushed out by newcomers since the start: how far the tier has turned over.
    pub fn replaced_bytes(&self) -> u64 {
        self.replaced_bytes.load(Ordering::Relaxed)
    }

    /// Changes whenever an object with this hash may have been taken out for good. Whoever has looked up an object on disk asks before and
    /// after: if it is the same, nobody has put another one there meanwhile.
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

    /// Evicts what is too much in one shard, [`SWEPT_AT_ONCE`] objects at most. True: there is more to evict.
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

    /// The object with this key. If there is none, the key of the one with the same hash.
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

    /// Compares the object in this slot with the purges since it was last. False: there is none, or not any more.
    #[inline]
    fn compare(&self, shard: &mut Shard, slot: u32) -> bool {
        let Some(resident) = &shard.slots[slot as usize] else {
            return false;
        };
        // Asked before them: one that comes meanwhile is of a later epoch.
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

    /// Replaces the object in this slot, if there is one, by one that is stale and was compared up to this epoch.
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

    /// Puts an object in, replacing what has the same hash, unless `still_valid` says that it was invalidated
    /// meanwhile. The question is asked under the shard's lock, which [`MemoryTier::remove`] takes after the
    /// invalidation was recorded: so either the question is answered no, or the removal comes later.
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
        // Asked before `wanted`, which knows the purges up to here.
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

    /// Evicts until there is room for so many bytes more. False: there is none, since the tier was made smaller.
    fn make_room(&self, shard: &mut Shard, cost: u64, comes_along: bool) -> bool {
        while shard.bytes + cost > shard.bytes_max {
            let prefetched_bytes = shard.prefetched_bytes + if comes_along { cost } else { 0 };
            let too_many = prefetched_bytes > shard.bytes_max / PREFETCHED_PART;
            let Some(slot) = shard.next_to_leave(too_many) else {
                return false;
            };
            // A front served it since the last look: counted as one use, which saves a lock a hit.
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

    /// Puts in an object that was read from disk, unless a newer one has come in the meantime.
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

    /// Puts in a companion as a prefetched entry, unless the object is there already.
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
        // Its buffer holds other records, too.
        object.compact();
        self.insert_if(object, Some(came), |shard, object| {
            shard.find(hash).is_none() && still_valid(object)
        });
    }

    /// Takes the object with this hash out; true if there was one.
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

    /// Makes the object with this hash stale by `now`; true if there is one.
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

    /// Takes everything out that was there at the call.
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

    /// The head of an object as HTTP/2 sends it, which `make` makes once. `None`: the object has left the tier meanwhile.
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
        // Whoever takes it out does so under this lock, and takes what is counted with it.
        if !resident.is_here() || !self.make_room(&mut shard, bytes, false) || !resident.is_here() {
            return None;
        }
        if resident.block.set(block).is_ok() {
            shard.bytes += bytes;
            self.bytes.fetch_add(bytes, Ordering::Relaxed);
        }
        resident.block.get()
    }

    /// Is it in the tier, and was it compared with all purges?
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

    /// Newcomers since the start that were not kept because they would have driven out too many objects.
    pub fn burst_refused(&self) -> u64 {
        self.burst_refused.load(Ordering::Relaxed)
    }

    /// The bound on `bytes` and on what is lent.
    pub fn bytes_max(&self) -> u64 {
        self.bytes_max.load(Ordering::Relaxed)
    }
}

/// How many shards: as many as workers need not to meet, but of little memory so few that an object of an eighth of all
/// of it is admitted, or of [`LONG_BYTES`] at least. (What little memory holds, the workers' fronts hold too.)
fn shards_for(bytes_max: u64, object_bytes_max: u64) -> u64 {
    if bytes_max == 0 {
        // Whatever it is resized to.
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
    /// Prefetched entries first, if there are too many of them.
    fn next_to_leave(&mut self, too_many_prefetched: bool) -> Option<u32> {
        let prefetched = self.prefetched.coldest();
        if too_many_prefetched && prefetched.is_some() {
            return prefetched;
        }
        self.used.least().or(prefetched)
    }

    /// Do the `most` next to leave have so many bytes? Counts those that a second chance would spare, too.
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
/// It keeps at most [`FRONT_SLOTS`] references; those whose object left the tier are dropped by
/// [`Front::sweep`], so memory beyond the tier's budget is held for a second or so at most.
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

    /// The object under exactly this key, from here or from the tier behind. If there is none, the key of the one with the same hash in
    /// the tier.
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
