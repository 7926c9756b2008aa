//! LRU with a bounded replacement burst: a newcomer that would evict more objects than the bound is not kept.
//!
//! One large object may evict thousands of small ones, which bring most hits. The bound refuses such a newcomer.
//! A node's cache is the same without a bound.
//!
//! An object's number is its slot. Memory: 16 bytes for every object number.
//! Not known here: what happens to evicted objects.
//! Source: paper 003, section 4 (fixed parameters), Figure 15.

use replacement::Lru;

const ABSENT: u32 = u32::MAX;

/// A cache: the objects it holds, with their sizes.
#[derive(Debug)]
pub(super) struct Cache {
    bytes_max: u64,
    bytes: u64,
    /// Most objects that a newcomer may evict; `None`: no bound.
    burst_max: Option<u32>,
    order: Lru,
    /// Sizes of the objects held; `ABSENT` for all others.
    sizes: Vec<u32>,
    /// Objects evicted by the last newcomer, with their sizes.
    victims: Vec<(u32, u32)>,
}

impl Cache {
    /// An empty cache for object numbers below `objects`.
    pub(super) fn new(bytes_max: u64, burst_max: Option<u32>, objects: usize) -> Cache {
        Cache {
            bytes_max,
            bytes: 0,
            burst_max,
            order: Lru::new(),
            sizes: vec![ABSENT; objects],
            victims: Vec::new(),
        }
    }

    /// The size with which an object is held; `None` if it is not held.
    pub(super) fn held(&self, object: u32) -> Option<u32> {
        let size = self.sizes[object as usize];
        (size != ABSENT).then_some(size)
    }

    /// Makes an object the most recently used one.
    pub(super) fn touch(&mut self, object: u32) {
        self.order.touch(object);
    }

    /// Removes an object, if it is held.
    pub(super) fn remove(&mut self, object: u32) {
        if self.order.remove(object) {
            self.leave(object);
        }
    }

    /// Inserts an object that is not held. Returns the evicted objects with their sizes, or `None` if the newcomer is not kept.
    pub(super) fn insert(&mut self, object: u32, size_bytes: u32) -> Option<&[(u32, u32)]> {
        self.victims.clear();
        if !self.has_place_for(u64::from(size_bytes)) {
            return None;
        }
        while self.bytes + u64::from(size_bytes) > self.bytes_max {
            let victim = self.order.pop_coldest();
            let victim = victim.expect("bytes are held by objects, and each is in the order");
            let size_bytes = self.leave(victim);
            self.victims.push((victim, size_bytes));
        }
        self.order.insert(object);
        self.sizes[object as usize] = size_bytes;
        self.bytes += u64::from(size_bytes);
        Some(&self.victims)
    }

    /// Whether the object fits, if necessary after a burst within the bound.
    fn has_place_for(&self, size_bytes: u64) -> bool {
        if size_bytes > self.bytes_max {
            return false;
        }
        let Some(burst_max) = self.burst_max else {
            return true;
        };
        let coldest = self.order.iter_coldest_first().take(burst_max as usize);
        let mut missing = (self.bytes + size_bytes).saturating_sub(self.bytes_max);
        for victim in coldest {
            if missing == 0 {
                break;
            }
            missing = missing.saturating_sub(u64::from(self.sizes[victim as usize]));
        }
        missing == 0
    }

    fn leave(&mut self, object: u32) -> u32 {
        let size = std::mem::replace(&mut self.sizes[object as usize], ABSENT);
        assert!(size != ABSENT, "object {object} leaves and is not here");
        self.bytes -= u64::from(size);
        size
    }

    /// Objects held.
    pub(super) fn objects(&self) -> u64 {
        self.order.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_tens(burst_max: Option<u32>) -> Cache {
        let mut cache = Cache::new(30, burst_max, 10);
        for object in 0..3 {
            assert_eq!(cache.insert(object, 10), Some(&[][..]));
        }
        cache
    }

    #[test]
    fn the_coldest_leave_first() {
        let mut cache = of_tens(None);
        cache.touch(0);
        assert_eq!(cache.insert(3, 15), Some(&[(1, 10), (2, 10)][..]));
        assert_eq!((cache.held(0), cache.held(1)), (Some(10), None));
        assert_eq!((cache.objects(), cache.bytes), (2, 25));
    }

    #[test]
    fn a_newcomer_within_the_bound_comes_in_and_one_beyond_it_does_not() {
        let mut cache = of_tens(Some(2));
        assert_eq!(cache.insert(3, 21), None, "three would have to leave");
        assert_eq!(cache.objects(), 3, "and none has left");
        assert_eq!(cache.insert(3, 20), Some(&[(0, 10), (1, 10)][..]));
        let mut cache = of_tens(Some(0));
        assert_eq!(cache.insert(3, 1), None);
        cache.remove(2);
        assert_eq!(cache.insert(3, 1), Some(&[][..]), "there is room");
    }

    #[test]
    fn what_is_larger_than_the_cache_drives_nothing_out() {
        let mut cache = of_tens(None);
        assert_eq!(cache.insert(3, 31), None);
        assert_eq!(cache.objects(), 3);
    }
}
