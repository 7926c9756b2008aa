//! A cache of pages in frames of memory; evicts the least recently used page.
//!
//! A page's frame number does not change while the page is cached, so that a daemon can go through memory frame by frame.
//!
//! Not known here: the contents of pages, when they are written.   Limits: as many pages as frames; fewer than 2^32 - 1 frames.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A page: the file in the upper half, the block in the lower.
pub type Key = u64;

const NONE: u32 = u32::MAX;

/// Hashes by multiplication, which spreads the keys well enough; the keys come from the model, not from the network.
#[derive(Default, Clone)]
pub struct Spread(u64);

impl Hasher for Spread {
    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 29)
    }
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }
    fn write_u32(&mut self, n: u32) {
        self.write_u64(u64::from(n));
    }
    fn write_u64(&mut self, n: u64) {
        self.0 = (self.0.rotate_left(5) ^ n).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

/// A map with [`Spread`] keys.
pub type Map<K, V> = HashMap<K, V, BuildHasherDefault<Spread>>;

#[derive(Debug, Clone, Copy)]
struct Frame {
    key: Key,
    dirty: bool,
    newer: u32,
    older: u32,
}

/// The cache.
#[derive(Debug)]
pub struct Cache {
    frames: Vec<Frame>,
    capacity: usize,
    free: Vec<u32>,
    at: Map<Key, u32>,
    newest: u32,
    oldest: u32,
}

impl Cache {
    /// An empty cache of `capacity` frames.
    pub fn new(capacity: usize) -> Cache {
        Cache {
            frames: Vec::new(),
            capacity: capacity.max(1),
            free: Vec::new(),
            at: Map::default(),
            newest: NONE,
            oldest: NONE,
        }
    }

    /// Whether the page is cached; if so, it becomes the newest.
    pub fn touch(&mut self, key: Key) -> bool {
        let Some(&frame) = self.at.get(&key) else {
            return false;
        };
        if self.newest != frame {
            self.unlink(frame);
            self.link(frame);
        }
        true
    }

    /// Whether the page is cached.
    pub fn has(&self, key: Key) -> bool {
        self.at.contains_key(&key)
    }

    /// Whether the page is cached and dirty.
    pub fn is_dirty(&self, key: Key) -> bool {
        self.at
            .get(&key)
            .is_some_and(|&frame| self.frames[frame as usize].dirty)
    }

    /// Marks a cached page as dirty or clean. Does nothing if the page is not cached.
    pub fn set_dirty(&mut self, key: Key, dirty: bool) {
        if let Some(&frame) = self.at.get(&key) {
            self.frames[frame as usize].dirty = dirty;
        }
    }

    /// The page to evict before another can be inserted, and whether it is dirty. `None` while a frame is free.
    pub fn victim(&self) -> Option<(Key, bool)> {
        if self.at.len() < self.capacity {
            return None;
        }
        let frame = self.frames[self.oldest as usize];
        Some((frame.key, frame.dirty))
    }

    /// Inserts a page, clean, as the newest. A frame must be free ([`Cache::victim`]), and the page must not be cached.
    pub fn insert(&mut self, key: Key) {
        assert!(self.at.len() < self.capacity, "no frame is free");
        let frame = Frame {
            key,
            dirty: false,
            newer: NONE,
            older: NONE,
        };
        let at = if let Some(at) = self.free.pop() {
            self.frames[at as usize] = frame;
            at
        } else {
            self.frames.push(frame);
            self.frames.len() as u32 - 1
        };
        let before = self.at.insert(key, at);
        assert!(before.is_none(), "page {key:x} is here already");
        self.link(at);
    }

    /// Forgets a page.
    pub fn remove(&mut self, key: Key) {
        if let Some(frame) = self.at.remove(&key) {
            self.unlink(frame);
            self.frames[frame as usize].dirty = false;
            self.free.push(frame);
        }
    }

    /// The dirty pages of the `part`-th of `parts` equal parts of memory, in order of frame.
    pub fn dirty_in(&self, part: usize, parts: usize) -> Vec<Key> {
        let slice = self.capacity.div_ceil(parts);
        let end = (slice * (part + 1)).min(self.frames.len());
        let first = (slice * part).min(end);
        self.frames[first..end]
            .iter()
            .filter(|frame| frame.dirty)
            .map(|frame| frame.key)
            .collect()
    }

    fn link(&mut self, at: u32) {
        self.frames[at as usize].newer = NONE;
        self.frames[at as usize].older = self.newest;
        if self.newest != NONE {
            self.frames[self.newest as usize].newer = at;
        }
        self.newest = at;
        if self.oldest == NONE {
            self.oldest = at;
        }
    }

    fn unlink(&mut self, at: u32) {
        let Frame { newer, older, .. } = self.frames[at as usize];
        if newer == NONE {
            self.newest = older;
        } else {
            self.frames[newer as usize].older = older;
        }
        if older == NONE {
            self.oldest = newer;
        } else {
            self.frames[older as usize].newer = newer;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_goes() {
        let mut cache = Cache::new(3);
        for key in [1, 2, 3] {
            assert_eq!(cache.victim(), None);
            cache.insert(key);
        }
        assert!(cache.touch(1));
        cache.set_dirty(2, true);
        assert_eq!(cache.victim(), Some((2, true)));
        cache.remove(2);
        cache.insert(4);
        assert_eq!(cache.victim(), Some((3, false)));
        assert!(!cache.has(2) && !cache.is_dirty(4));
    }

    #[test]
    fn parts_cover_all_of_memory() {
        let mut cache = Cache::new(10);
        for key in 0..10 {
            cache.insert(key);
            cache.set_dirty(key, key % 2 == 0);
        }
        let all: Vec<Key> = (0..3).flat_map(|part| cache.dirty_in(part, 3)).collect();
        assert_eq!(all, [0, 2, 4, 6, 8]);
    }
}
