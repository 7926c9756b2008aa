//! LRU-threshold: an LRU that does not admit large objects.
//!
//! One large object displaces many small ones, each as likely to be requested again. Not storing it costs a hit now and then, and many bytes of
//! hits. Whether that pays depends on the traffic.
//!
//! Limits: as [`Lru`].

use crate::lru::Lru;
use crate::policy::Policy;

/// Exact LRU for objects up to a size.
#[derive(Clone, Debug)]
pub struct LruThreshold {
    lru: Lru,
    size_max: u64,
}

impl LruThreshold {
    /// The least recently used object.
    pub fn coldest(&self) -> Option<u32> {
        self.lru.coldest()
    }

    /// Admits objects up to `size_max`, in the caller's unit of sizes.
    pub const fn new(size_max: u64) -> Self {
        LruThreshold {
            lru: Lru::new(),
            size_max,
        }
    }
}

impl Policy for LruThreshold {
    fn admits(&self, size: u64) -> bool {
        size <= self.size_max
    }

    fn insert(&mut self, slot: u32, size: u64, _id: u64) {
        assert!(
            self.admits(size),
            "slot {slot} of size {size} was not admitted"
        );
        self.lru.insert(slot);
    }

    #[inline]
    fn touch(&mut self, slot: u32) -> bool {
        self.lru.touch(slot)
    }

    fn remove(&mut self, slot: u32) -> bool {
        self.lru.remove(slot)
    }

    fn victim(&mut self) -> Option<u32> {
        self.lru.pop_coldest()
    }

    fn len(&self) -> usize {
        self.lru.len()
    }

    fn memory_bytes(&self) -> usize {
        self.lru.memory_bytes()
    }

    fn audit(&self) -> Result<(), String> {
        self.lru.audit()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_threshold_itself_is_admitted() {
        let policy = LruThreshold::new(1000);
        assert_eq!(
            [0, 1000, 1001].map(|size| policy.admits(size)),
            [true, true, false]
        );
    }

    #[test]
    fn admitted_objects_are_an_lru() {
        let mut policy = LruThreshold::new(1000);
        for (slot, size) in [(3, 1000), (1, 5), (2, 7)] {
            policy.insert(slot, size, 0);
        }
        policy.touch(3);
        assert_eq!(
            [
                policy.victim(),
                policy.victim(),
                policy.victim(),
                policy.victim()
            ],
            [Some(1), Some(2), Some(3), None]
        );
    }

    #[test]
    #[should_panic(expected = "not admitted")]
    fn inserting_without_asking_is_noticed() {
        LruThreshold::new(1000).insert(0, 1001, 0);
    }
}
