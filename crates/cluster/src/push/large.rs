//! Which resources have turned out to be longer than a front pushes: the next fetch of them is a member's.
//!
//! Not known here: what is too long.
//! Limits: [`SLOTS`] resources; one more takes the place of another, which is then fetched by the front once more.

use std::sync::atomic::{AtomicU64, Ordering};

use store::KeyHash;

/// A power of two; 32 KiB.
const SLOTS: usize = 4096;

/// Resources that are too long.
pub struct Large(Box<[AtomicU64]>);

impl Default for Large {
    fn default() -> Large {
        Large((0..SLOTS).map(|_| AtomicU64::new(0)).collect())
    }
}

impl Large {
    /// Is this one of them?
    pub fn contains(&self, key: KeyHash) -> bool {
        self.slot(key).load(Ordering::Relaxed) == key.0
    }

    /// This one is too long.
    pub fn note(&self, key: KeyHash) {
        self.slot(key).store(key.0, Ordering::Relaxed);
    }

    /// This one is not, or not any more.
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
