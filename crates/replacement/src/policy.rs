//! The interface between a cache and its replacement policy.
//!
//! A cache calls `admits` before it stores, reports `insert`, `touch` and `remove`, and calls `victim` as long as it
//! needs space. A new policy is a file with an `impl Policy`, and a kind in `selected`.

use crate::lru::Lru;

/// An order of slots. Sizes are in the caller's unit; policies that do not need them ignore them.
pub trait Policy {
    /// May an object of this size be stored at all?
    fn admits(&self, size: u64) -> bool;

    /// Adds an admitted object. Its slot must not be in use (asserted). `id` is the hash of its key; by it a policy may recognise an object that had
    /// another slot before.
    fn insert(&mut self, slot: u32, size: u64, id: u64);

    /// The object was requested. `false` if the slot is not in use.
    fn touch(&mut self, slot: u32) -> bool;

    /// The object is gone, but not by eviction. `false` if the slot was not in use.
    fn remove(&mut self, slot: u32) -> bool;

    /// Removes and returns the object to evict next; `None` if there are none.
    fn victim(&mut self) -> Option<u32>;

    /// Number of objects.
    fn len(&self) -> usize;

    /// Are there none?
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of memory held.
    fn memory_bytes(&self) -> usize;

    /// Checks every invariant; an error says which one does not hold. For tests and simulation.
    fn audit(&self) -> Result<(), String>;
}

impl Policy for Lru {
    fn admits(&self, _size: u64) -> bool {
        true
    }

    fn insert(&mut self, slot: u32, _size: u64, _id: u64) {
        Lru::insert(self, slot);
    }

    #[inline]
    fn touch(&mut self, slot: u32) -> bool {
        Lru::touch(self, slot)
    }

    fn remove(&mut self, slot: u32) -> bool {
        Lru::remove(self, slot)
    }

    fn victim(&mut self) -> Option<u32> {
        self.pop_coldest()
    }

    fn len(&self) -> usize {
        Lru::len(self)
    }

    fn memory_bytes(&self) -> usize {
        Lru::memory_bytes(self)
    }

    fn audit(&self) -> Result<(), String> {
        Lru::audit(self)
    }
}
