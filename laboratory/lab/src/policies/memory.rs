//! The memory in front of a disk: a cache with a limit on the size of objects.
//!
//! As in the proxy, it takes no object larger than 1/128 of the memory, nor one above 1152 KiB.
//!
//! Not known here: the disk.

use crate::cache::{Level, LevelSettings, PolicyKind};

/// Largest object as a share of the memory (`cache::memory`: an eighth of one of 16 shards).
const OBJECT_SHARE: u64 = 128;
/// Largest object in bytes (`limits.memory-object-max`).
const OBJECT_BYTES_MAX: u64 = 1152 << 10;

/// See the head of this file.
pub struct Memory {
    level: Option<Level>,
    object_bytes_max: u64,
}

impl Memory {
    /// An empty memory of this size; 0: none.
    pub fn new(policy: PolicyKind, bytes: u64) -> Self {
        let settings = LevelSettings {
            policy,
            ..LevelSettings::lru(bytes)
        };
        Memory {
            level: (bytes > 0).then(|| Level::new(settings)),
            object_bytes_max: (bytes / OBJECT_SHARE).min(OBJECT_BYTES_MAX),
        }
    }

    /// A request; true for a hit. An older version is removed.
    pub fn ask(&mut self, object: u32, size_bytes: u32) -> bool {
        let level = self.level.as_mut();
        level.is_some_and(|level| level.ask(object, size_bytes, &mut None))
    }

    /// Inserts a requested object that is not held, unless it is too large.
    pub fn remember(&mut self, object: u32, size_bytes: u32) {
        let fits = u64::from(size_bytes) <= self.object_bytes_max;
        if let Some(level) = self.level.as_mut().filter(|_| fits) {
            level.insert(object, size_bytes, |_, _| {});
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_long_is_not_remembered() {
        let mut memory = Memory::new(PolicyKind::LRU, 1280);
        memory.remember(1, 10);
        memory.remember(2, 11);
        assert!(memory.ask(1, 10) && !memory.ask(2, 11));
        let mut memory = Memory::new(PolicyKind::LRU, 1 << 40);
        let most = u32::try_from(OBJECT_BYTES_MAX).unwrap();
        memory.remember(1, most);
        memory.remember(2, most + 1);
        assert!(memory.ask(1, most) && !memory.ask(2, most + 1));
    }

    #[test]
    fn without_bytes_there_is_none() {
        let mut memory = Memory::new(PolicyKind::LRU, 0);
        memory.remember(1, 0);
        assert!(!memory.ask(1, 0));
    }
}
