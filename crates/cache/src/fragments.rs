//! Fragments of large objects in memory.
//!
//! Objects that are too long for the memory tier lie on disk in fragments. A fragment is kept here when it is read a second time while
//! its first read is still remembered. So hot fragments are in memory whatever the size of their object, and a single download, however
//! long, displaces nothing. The head of a large object is in the memory tier, as any object is.
//!
//! Whole objects and fragments share one bound ([`MemoryTier::lend`]):
//!
//! - While there is room, both take it.
//! - If fragments have half of the memory, a new fragment pushes out the least recently used one. Otherwise whole objects make room.
//! - A fragment that was not used while as many bytes of whole objects were replaced as memory holds is colder than all of them, and is
//!   evicted ([`FragmentMemory::leave`]). So are fragments beyond their half once whole objects have been pushed out.
//!
//! Bodies lie in an [`Arena`], from which they are sent to plain sockets without a copy. Without an arena they lie on the heap.
//!
//! A fragment's bytes never change, because its key names the fetch. It is found only through the head of its object, so a
//! purged or replaced fragment is not served, and is evicted in time.
//!
//! Not known here: heads, ranges, the disk.
//! Limits: nothing is kept if an eighth of the memory is shorter than a fragment. First reads are remembered of as many fragments as the
//! memory would hold.

use std::{
    collections::{HashSet, VecDeque},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use bytes::Bytes;
use device::Arena;
use hashbrown::HashTable;
use replacement::Lru;
use store::KeyHash;

use crate::memory::MemoryTier;

/// Shorter bodies lie on the heap: to copy them costs less than another system call.
pub const ARENA_BYTES_MIN: usize = 16 << 10;
/// The cost of a fragment beside its body and key.
const OVERHEAD_BYTES: u64 = 256;
/// A fragment is kept if this many would fit into the memory.
const KEPT_PART: u64 = 8;
/// Slots of the arena beyond the bound of the memory, for fragments that have left and are still being sent.
const SLOTS_BEYOND: u64 = 64;

/// See the head of the file.
pub struct FragmentMemory {
    kept: Mutex<Kept>,
    arena: Option<Arc<Arena>>,
    /// Bytes of fragments that were sent from here.
    served_bytes: AtomicU64,
    evicted: AtomicU64,
}

struct Kept {
    table: HashTable<u32>,
    slots: Vec<Option<Fragment>>,
    free: Vec<u32>,
    lru: Lru,
    bytes: u64,
    seen: Seen,
}

struct Fragment {
    hash: KeyHash,
    key: Bytes,
    body: Bytes,
    /// [`MemoryTier::replaced_bytes`] when it was used last.
    used_at: u64,
}

impl Fragment {
    fn cost(&self) -> u64 {
        cost(&self.key, &self.body)
    }
}

fn cost(key: &[u8], body: &[u8]) -> u64 {
    OVERHEAD_BYTES + key.len() as u64 + body.len() as u64
}

/// The last `max` fragments that were read once.
struct Seen {
    order: VecDeque<u64>,
    hashes: HashSet<u64>,
    max: usize,
}

impl Seen {
    fn new(fragments: u64) -> Seen {
        Seen {
            order: VecDeque::new(),
            hashes: HashSet::new(),
            max: fragments as usize,
        }
    }

    /// Was this fragment seen before? If so, forgets it; otherwise remembers it.
    fn again(&mut self, hash: KeyHash) -> bool {
        if self.hashes.remove(&hash.0) {
            return true;
        }
        if self.order.len() >= self.max
            && let Some(oldest) = self.order.pop_front()
        {
            self.hashes.remove(&oldest);
        }
        if self.max > 0 {
            self.order.push_back(hash.0);
            self.hashes.insert(hash.0);
        }
        false
    }
}

impl FragmentMemory {
    /// For fragments of at most `fragment_bytes` beside a memory tier of `memory_bytes`. `fragment_bytes` is 0 if there are no fragments.
    pub fn new(memory_bytes: u64, fragment_bytes: u32) -> FragmentMemory {
        let each = u64::from(fragment_bytes);
        let is_of_use = each > 0 && memory_bytes / KEPT_PART >= each;
        let arena = is_of_use.then(|| {
            let slots = u32::try_from(memory_bytes / each + SLOTS_BEYOND).unwrap_or(u32::MAX);
            Arena::new(fragment_bytes as usize, slots)
                .inspect_err(|error| {
                    tracing::warn!(%error, "no memory that sockets are sent from: hot parts of large objects are copied");
                })
                .ok()
        });
        FragmentMemory {
            kept: Mutex::new(Kept {
                table: HashTable::new(),
                slots: Vec::new(),
                free: Vec::new(),
                lru: Lru::new(),
                bytes: 0,
                seen: Seen::new(memory_bytes.checked_div(each).unwrap_or(0)),
            }),
            arena: arena.flatten(),
            served_bytes: AtomicU64::new(0),
            evicted: AtomicU64::new(0),
        }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The body of the fragment with this key.
    pub fn get(&self, memory: &MemoryTier, hash: KeyHash, key: &[u8]) -> Option<Bytes> {
        let mut kept = self.kept();
        let slot = kept.find(hash, key)?;
        kept.lru.touch(slot);
        let fragment = kept.slots[slot as usize].as_mut()?;
        fragment.used_at = memory.replaced_bytes();
        Some(fragment.body.clone())
    }

    /// Is the fragment with this key here? Does not count as a use.
    pub fn contains(&self, hash: KeyHash, key: &[u8]) -> bool {
        self.kept().find(hash, key).is_some()
    }

    /// A fragment was read from disk. Keeps it if it was read before. Returns its body, in the kept copy if there is one.
    pub fn was_read(&self, memory: &MemoryTier, hash: KeyHash, key: &[u8], body: Bytes) -> Bytes {
        let cost = cost(key, &body);
        if cost > memory.bytes_max() / KEPT_PART {
            return body;
        }
        {
            let mut kept = self.kept();
            if kept.find(hash, key).is_some() || !kept.seen.again(hash) {
                return body;
            }
            self.make_room(&mut kept, memory, cost);
        }
        // Copy without holding the lock.
        let held = match &self.arena {
            Some(arena) if body.len() >= ARENA_BYTES_MIN => match arena.keep(&body) {
                Some(held) => held,
                None => return body,
            },
            // Short bodies are copied. The buffer of a longer one is no longer than its record (`disk` copies parts of larger buffers).
            _ if body.len() < ARENA_BYTES_MIN => Bytes::copy_from_slice(&body),
            _ => body,
        };
        let mut kept = self.kept();
        if kept.find(hash, key).is_some() {
            return held;
        }
        // Another fragment may have taken the room meanwhile.
        if !self.make_room(&mut kept, memory, cost) {
            return held;
        }
        kept.insert(Fragment {
            hash,
            key: Bytes::copy_from_slice(key),
            body: held.clone(),
            used_at: memory.replaced_bytes(),
        });
        memory.lend(kept.bytes);
        drop(kept);
        while memory.shrink() {}
        held
    }

    /// Evicts fragments until a new one of this cost may be inserted, within free memory or at the expense of whole objects.
    fn make_room(&self, kept: &mut Kept, memory: &MemoryTier, cost: u64) -> bool {
        let all = memory.bytes_max();
        loop {
            let is_free = memory.bytes() + kept.bytes + cost <= all;
            let is_within_half = kept.bytes + cost <= all / 2;
            if is_free || is_within_half {
                return kept.bytes + cost <= all;
            }
            if !self.evict_coldest(kept) {
                return false;
            }
            memory.lend(kept.bytes);
        }
    }

    fn evict_coldest(&self, kept: &mut Kept) -> bool {
        let evicted = kept.evict_coldest();
        self.evicted
            .fetch_add(u64::from(evicted), Ordering::Relaxed);
        evicted
    }

    /// Evicts fragments whose room whole objects need. Call it periodically.
    pub fn leave(&self, memory: &MemoryTier) {
        let replaced = memory.replaced_bytes();
        let all = memory.bytes_max();
        let mut kept = self.kept();
        let before = kept.bytes;
        while let Some(coldest) = kept.coldest() {
            let turned = replaced.saturating_sub(coldest.used_at);
            let of_objects = all.saturating_sub(kept.bytes);
            let is_colder = turned > of_objects;
            let is_too_much = turned > 0 && kept.bytes > all / 2;
            if !(is_colder || is_too_much || kept.bytes > all) || !self.evict_coldest(&mut kept) {
                break;
            }
        }
        if kept.bytes != before {
            memory.lend(kept.bytes);
        }
    }

    /// Where these bytes lie in the arena, if they can be sent to a plain socket without a copy.
    #[inline]
    pub fn place_of(&self, bytes: &[u8]) -> Option<(&Arc<Arena>, u64)> {
        let arena = (self.arena.as_ref()).filter(|_| bytes.len() >= ARENA_BYTES_MIN)?;
        Some((arena, arena.place_of(bytes)?))
    }

    /// Counts bytes that are sent from a fragment here.
    pub fn serves(&self, bytes: u64) {
        self.served_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Bytes of fragments that were sent from here since the start.
    pub fn served_bytes(&self) -> u64 {
        self.served_bytes.load(Ordering::Relaxed)
    }

    /// Fragments pushed out since the start.
    pub fn evicted(&self) -> u64 {
        self.evicted.load(Ordering::Relaxed)
    }

    /// The cost of all fragments now, in bytes.
    pub fn bytes(&self) -> u64 {
        self.kept().bytes
    }

    /// How many fragments are kept now.
    pub fn fragments(&self) -> u64 {
        self.kept().lru.len() as u64
    }
}

impl Kept {
    fn find(&self, hash: KeyHash, key: &[u8]) -> Option<u32> {
        let is_it = |&slot: &u32| {
            let fragment = self.slots[slot as usize].as_ref();
            fragment.is_some_and(|it| it.hash == hash && it.key == key)
        };
        self.table.find(hash.0, is_it).copied()
    }

    fn insert(&mut self, fragment: Fragment) {
        let hash = fragment.hash.0;
        self.bytes += fragment.cost();
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            u32::try_from(self.slots.len() - 1).expect("fewer than 2^32 fragments fit into memory")
        });
        self.slots[slot as usize] = Some(fragment);
        self.lru.insert(slot);
        let slots = &self.slots;
        self.table.insert_unique(hash, slot, |&slot| {
            slots[slot as usize].as_ref().map_or(0, |it| it.hash.0)
        });
    }

    fn coldest(&self) -> Option<&Fragment> {
        self.slots[self.lru.coldest()? as usize].as_ref()
    }

    /// Evicts the least recently used fragment. False: there is none.
    fn evict_coldest(&mut self) -> bool {
        let Some(slot) = self.lru.pop_coldest() else {
            return false;
        };
        let Some(fragment) = self.slots[slot as usize].take() else {
            return false;
        };
        if let Ok(entry) = (self.table).find_entry(fragment.hash.0, |&it| it == slot) {
            entry.remove();
        }
        self.free.push(slot);
        self.bytes -= fragment.cost();
        true
    }
}

#[cfg(test)]
#[path = "fragments_tests.rs"]
mod tests;
