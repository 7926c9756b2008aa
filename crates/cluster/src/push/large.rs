//! Resources that turned out to be longer than a front pushes: their next fetch goes through a member.
//!
//! Not known here: the length limit.
//! Limits: [`SLOTS`] resources. A new one replaces another, which the front then fetches once more.

use std::sync::atomic::{AtomicU64, Ordering};

use store::KeyHash;

/// A power of two; 32 KiB of memory.
const SLOTS: usize = 4096;

/// The resources that are too long.
pub struct Large(Box<[AtomicU64]>);

impl Default for Large {
    fn default() -> Large {
        Large((0..SLOTS).map(|_| AtomicU64::new(0)).collect())
    }
}

impl Large {
    /// Is this resource one of them?
    pub fn contains(&self, key: KeyHash) -> bool {
        self.slot(key).load(Ordering::Relaxed) == key.0
    }

    /// Enters a resource.
    pub fn note(&self, key: KeyHash) {
        self.slot(key).store(key.0, Ordering::Relaxed);
    }

    /// Removes a resource, if it is there.
    pub fn forget(&self, key: KeyHash) {
        let _ = (self.slot(key)).compare_exchange(key.0, 0, Ordering::Relaxed, Ordering::Relaxed);
    }

    fn slot(&self, key: KeyHash) -> &AtomicU64 {
        &self.0[(key.0 >> 20) as usize & (SLOTS - 1)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_noted_is_known_until_another_takes_its_place() {
        let large = Large::default();
        let (one, other) = (KeyHash(1), KeyHash(2));
        assert!(!large.contains(one));
        large.note(one);
        assert!(large.contains(one) && !large.contains(other));
        large.forget(other);
        assert!(large.contains(one));
        large.note(other);
        assert!(!large.contains(one));
        large.forget(other);
        assert!(!large.contains(other));
    }
}
