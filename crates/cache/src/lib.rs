//! The two tiers, memory and disk, and the thread that does the stores' background work.
//!
//! All threads share one [`Cache`]. An object may be invalidated at any moment, also while it is fetched, read or promoted. Code that
//! publishes an object must therefore check first that it is still valid ([`Cache::may_publish`]).
//!
//! Not known here: requests, origins, how a fetch works.
#![forbid(unsafe_code)]

pub mod background;
pub mod companions;
pub mod disk;
pub mod elevator;
pub mod fragments;
pub mod holding;
pub mod holes;
mod keeping;
pub mod lazy;
pub mod memory;
pub mod object;
pub mod opening;
pub mod parts;
pub mod predicate;
pub mod preloaded;
mod purged;
pub mod written;

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use device::Device;
use httpcache::UnixMillis;
use replacement::Admission;
use store::{KeyHash, KeyHasher, NotTaken, Sequence, Set, Settled, set::DurabilityHandles};

use self::{
    background::WakeUp, companions::Came, fragments::FragmentMemory, lazy::ReadQueue,
    memory::MemoryTier, object::Object, opening::Absent, predicate::Predicate,
};
use base::{
    clock::Instant,
    mistakes::{Mistake, makes},
};
use ledger::room::Rooms;

/// Percent of the room for purges by pattern that are worth a warning.
const PREDICATES_WARN_PERCENT: u64 = 80;

/// The fetches in progress, as invalidations need them.
pub trait Fetches: Send + Sync {
    /// Later requests no longer join a fetch of this resource that began before this call.
    fn forget(&self, primary: KeyHash);
    /// The same for all fetches whose key satisfies `is_meant`.
    fn forget_all(&self, is_meant: &dyn Fn(&[u8]) -> bool);
}

/// The expected mean length of a body, in bytes. It serves to estimate the number of objects.
pub const MEAN_OBJECT_BYTES: u64 = 13 << 10;

/// The memory tier and the stores. One for the process.
pub struct Cache {
    /// Memory for long bodies, which are received straight into their place in the record.
    pub rooms: Rooms,
    /// Objects in memory.
    pub memory: MemoryTier,
    /// Fragments of large objects in memory.
    pub fragments: FragmentMemory,
    /// Index and invalidations and, with devices, the objects on disk.
    pub store: Arc<Set>,
    /// Wakes the background thread of the stores.
    pub wake_up: Arc<WakeUp>,
    /// Decides which objects are stored on disk; `None`: all of them.
    pub admission: Option<Mutex<Admission>>,
    /// The devices behind the stores, in the set's order; empty if nothing is kept on disk.
    pub devices: Vec<Arc<Device>>,
    /// For each device, the reads that wait for it, where reads take long.
    pub read_queues: Vec<Arc<ReadQueue>>,
    /// Is there a device at all?
    pub has_disk: bool,
    /// Stores of the plan that could not be opened.
    pub absent: Vec<Absent>,
    /// A purge by pattern was refused for lack of room, and the refusal was logged.
    pub predicates_refused: AtomicBool,
    /// Fetches of objects that are to be stored.
    pub fetches: Arc<dyn Fetches>,
}

impl Cache {
    /// The hash of a key.
    pub fn hasher(&self) -> KeyHasher {
        self.store.hasher()
    }

    /// An id of the secret that hashes the names in a profile: the hash of a constant. It tells secrets apart and reveals none.
    pub fn keys_id(&self) -> u32 {
        let pseudonyms = self.store.pseudonyms();
        (pseudonyms.of(b"loligo: keys of a profile") as u32).max(1)
    }

    /// Forgets the object under `key` everywhere, now and for every fetch, read and promotion under way.
    /// True if something was there.
    ///
    /// It holds at once. It also survives a crash as soon as the durability handles are settled ([`Self::settle`]).
    pub fn invalidate(&self, primary: KeyHash) -> (bool, DurabilityHandles) {
        self.forget_now(primary, self.store.invalidate(primary))
    }

    /// As [`Self::invalidate`], but in a cache with one store there is nothing to wait for if the resource is not and was not stored.
    /// For unsafe methods: most of their resources are never stored.
    pub fn invalidate_stored(&self, primary: KeyHash) -> (bool, DurabilityHandles) {
        self.forget_now(primary, self.store.invalidate_stored(primary))
    }

    fn forget_now(
        &self,
        primary: KeyHash,
        (indexed, handles): (bool, DurabilityHandles),
    ) -> (bool, DurabilityHandles) {
        // The order matters: the invalidation is recorded (and the object leaves the index) before memory is cleared of it. An object
        // that is published meanwhile is either refused because of the record, or removed after it (see `MemoryTier::insert`).
        if !makes(Mistake::KeepFlights) {
            self.fetches.forget(primary);
        }
        let met = !makes(Mistake::KeepMemory) && self.memory.remove(primary);
        (met || indexed, handles)
    }

    /// Forgets all objects that match a purge by pattern, or makes them stale, as [`Self::invalidate`] does with one key. An object is
    /// compared with the pattern when it is read from memory or disk.
    ///
    /// # Errors
    /// The pattern is too long for the log, or there is no room for one more.
    pub fn invalidate_matching(
        &self,
        predicate: &Predicate,
        now: UnixMillis,
    ) -> Result<DurabilityHandles, NotTaken> {
        let (kind, pattern) = predicate.encode();
        // In this order: see `invalidate`.
        let before = self.store.predicates_percent();
        let handles = self.store.invalidate_matching(kind, &pattern);
        self.warn_of_room(before, handles.is_err());
        let handles = handles?;
        (self.fetches).forget_all(&|key| predicate.may_be_about(key));
        if !makes(Mistake::SkipSweep) {
            self.memory.purge(kind, &pattern, now);
        }
        Ok(handles)
    }

    /// Logs once that the room for purges by pattern runs out, and once that a purge was refused.
    fn warn_of_room(&self, before: u64, is_refused: bool) {
        let now = self.store.predicates_percent();
        if before < PREDICATES_WARN_PERCENT && now >= PREDICATES_WARN_PERCENT {
            tracing::warn!(
                "{now} % of the room for purges by prefix or tag is taken; what is stored is being compared with them, and \
                 until that is done more are coming than it can hold"
            );
        }
        if is_refused && !self.predicates_refused.swap(true, Ordering::Relaxed) {
            tracing::error!(
                "there is no room for one more purge by prefix or tag; such purges are answered 503 until what is stored has been \
                 compared with those there are"
            );
        } else if now < PREDICATES_WARN_PERCENT {
            self.predicates_refused.store(false, Ordering::Relaxed);
        }
    }

    /// Makes stale the object under `primary` and its variants, in memory and on disk. True if something was there.
    ///
    /// It holds at once. It also survives a crash as soon as the durability handles are settled.
    pub fn doubt(&self, primary: KeyHash, now: UnixMillis) -> (bool, DurabilityHandles) {
        // In this order: see `invalidate`.
        let (indexed, handles) = self.store.doubt(primary);
        self.fetches.forget(primary);
        let met = !makes(Mistake::KeepFresh) && self.memory.doubt(primary, now);
        if self.store.marker(primary).is_some() {
            // Its variants lie under hashes of their own.
            self.memory.doubt_variants(primary, now);
        }
        (indexed || met, handles)
    }

    /// Waits until all these invalidations are durable, at most for `longest`. False if one of them is not.
    pub async fn settle(&self, all: &[DurabilityHandles], longest: Duration) -> bool {
        self.settle_unless(all, longest, |_| false).await
    }

    /// As [`Self::settle`], but does not wait for a device that is set aside.
    pub async fn settle_if_answering(&self, all: &[DurabilityHandles], longest: Duration) -> bool {
        let is_aside = |handles: &DurabilityHandles| {
            let mut devices = handles.members().filter_map(|n| self.devices.get(n));
            devices.any(|device| device.health().is_aside())
        };
        self.settle_unless(all, longest, is_aside).await
    }

    /// Were all stores left out at the start? Their objects are served again when they are back, but no invalidation can be made durable
    /// in them meanwhile, and there is no other store to record their absence.
    pub fn is_without_its_stores(&self) -> bool {
        !self.has_disk && !self.absent.is_empty()
    }

    async fn settle_unless(
        &self,
        all: &[DurabilityHandles],
        longest: Duration,
        is_hopeless: impl Fn(&DurabilityHandles) -> bool,
    ) -> bool {
        if self.is_without_its_stores() {
            return false;
        }
        if makes(Mistake::AcknowledgeEarly) {
            return true;
        }
        let deadline = Instant::now() + longest;
        let mut durable = true;
        for handles in all {
            let is_hopeless = || is_hopeless(handles);
            let settled = (self.wake_up).settle(&self.store, handles, deadline, is_hopeless);
            durable &= settled.await == Settled::Durable;
        }
        durable
    }

    /// Shall an object that was just asked for and fetched be stored on disk?
    pub fn admits(&self, hash: KeyHash, bytes: u64) -> bool {
        let Some(admission) = &self.admission else {
            return true;
        };
        let full = self.store.is_full();
        let mut admission = admission.lock().unwrap_or_else(PoisonError::into_inner);
        admission.asked(hash.0);
        admission.admits(hash.0, bytes, full, || self.records_when_full())
    }

    /// Tells the admission policy of a disk hit on an object of `bytes` bytes.
    pub fn hit_on_disk(&self, hash: KeyHash, bytes: u64) {
        if let Some(admission) = &self.admission {
            let mut admission = admission.lock().unwrap_or_else(PoisonError::into_inner);
            admission.asked(hash.0);
            admission.hit(hash.0, bytes);
        }
    }

    /// How many records the stores hold when they are full, if future records are as long as the present ones.
    fn records_when_full(&self) -> usize {
        let (mut records, mut live_bytes, mut all_bytes) = (0, 0, 0);
        for store in self.store.stores() {
            let (held, bytes) = store.held();
            records += held;
            live_bytes += bytes;
            all_bytes += store.geometry().data_bytes();
        }
        // The mean of a few records is a poor estimate.
        let mean_bytes = match live_bytes > all_bytes / 16 {
            true => live_bytes / records.max(1),
            false => MEAN_OBJECT_BYTES,
        };
        usize::try_from(all_bytes / mean_bytes.max(1)).unwrap_or(usize::MAX)
    }

    /// May an object still be published and served, if it was looked up or its fetch began at `began`?
    pub fn still_valid(&self, object: &Object, began: Sequence) -> bool {
        if makes(Mistake::PublishLate) {
            return true;
        }
        if self.store.invalidated_since(object.primary, began) {
            return false;
        }
        // Rare: a predicate was added since, so key and metadata must be compared with it.
        if !self.store.predicates_since(object.primary, began) {
            return true;
        }
        let (primary, meta) = (object.primary, object.encode_meta());
        !self.store.is_invalid(primary, began, &object.key, &meta)
            && !self.store.is_doubted(primary, began, &object.key, &meta)
    }

    /// Is the object known to have been purged, or made stale, since `began`?
    pub fn is_purged(&self, object: &Object, began: Sequence) -> bool {
        let (primary, meta) = (object.primary, object.encode_meta());
        let store = &self.store;
        store.is_purged_since(primary, began, &object.key, &meta)
            || store.is_doubted(primary, began, &object.key, &meta)
    }

    /// May the object be found under its key? Once the resource has variants, the copy stored without a variant answers no request.
    pub fn is_reached(&self, object: &Object) -> bool {
        object.hash != object.primary || self.store.marker(object.primary).is_none()
    }

    /// May the object be put into memory: is it [valid](Self::still_valid) and [reached](Self::is_reached)? Call this under the shard's
    /// lock, as [`MemoryTier::insert`] does: code that sets a marker removes the object it hides afterwards, under the same lock.
    pub fn may_publish(&self, object: &Object, began: Sequence) -> bool {
        self.is_reached(object) && self.still_valid(object, began)
    }

    /// Removes an object that was just stored, if its resource has got variants meanwhile. True if it has. Call this after the insertion:
    /// code that sets a marker also removes the hidden object after setting it, so whichever of the two runs last removes it.
    pub fn take_back_hidden(&self, object: &Object) -> bool {
        let is_hidden = !self.is_reached(object);
        if is_hidden {
            self.store.of(object.primary).forget(object.hash);
        }
        is_hidden
    }

    /// Removes an object from disk and memory that can answer no request any more.
    pub fn forget_stored(&self, object: &Object) {
        self.store.of(object.primary).forget(object.hash);
        self.memory.remove(object.hash);
    }

    /// Puts the companions of a read into memory, since they are likely to be asked for next. `began` is the sequence before the look-up.
    pub fn take_along(&self, beside: Vec<(Object, Came)>, began: Sequence) {
        for (object, came) in beside {
            let may_come = |object: &Object| self.may_publish(object, began);
            self.memory.take_along(object, came, may_come);
        }
    }
}
