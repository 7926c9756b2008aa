//! A filter that forgets: several bit arrays, of which the youngest takes all new entries.
//!
//! ```text
//!   oldest                                    youngest
//!   [ age 2 ]   [ age 3 ]   [ age 4 ]   [ age 5 ]  <- what is stored, or read again, is entered here
//!       |
//!       +--- emptied, and begun anew, when the youngest has taken its share of bytes
//! ```
//!
//! It follows a store that evicts records in the order of writing, and cannot tell the names of evicted ones. Everything written during the last
//! round of the store is in one of the ages, so it is found. An object that was evicted or purged is still found for one age more, or as long
//! as it would have lived (*false hits*). This needs no counters and no reads from disk, and as many bits for an object as all ages have
//! together.
//!
//! All methods take `&self`: entering is one atomic *or* for each position.
//!
//! Not known here: names, hashes, the store.   Limits: [`AGES`] arrays, [`crate::digest::BITS_MAX`] bits each.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::digest::BITS_MAX;

/// Number of bit arrays. One more makes false hits of dead objects a little rarer, and costs as much memory as each of the others.
pub const AGES: usize = 5;

/// A filter that forgets; described at the head of this file.
#[derive(Debug)]
pub struct Ages {
    bytes: usize,
    ages: [Box<[AtomicU64]>; AGES],
    youngest: AtomicUsize,
    /// Bytes stored since the youngest age began.
    stored_bytes: AtomicU64,
    age_bytes: u64,
}

impl Ages {
    /// Arrays of so many bytes, for a store that holds `store_bytes` of objects when it is full. `None` if the arrays would be empty or larger
    /// than [`BITS_MAX`].
    pub fn new(array_bytes: usize, store_bytes: u64) -> Option<Ages> {
        if array_bytes == 0 || array_bytes as u64 * 8 > BITS_MAX {
            return None;
        }
        let words = array_bytes.div_ceil(8);
        let array = |_| (0..words).map(|_| AtomicU64::new(0)).collect();
        Some(Ages {
            bytes: array_bytes,
            ages: std::array::from_fn(array),
            youngest: AtomicUsize::new(0),
            stored_bytes: AtomicU64::new(0),
            // While the youngest fills, the others together cover one round of the store.
            age_bytes: (store_bytes / (AGES as u64 - 1)).max(1),
        })
    }

    /// Bits of an array.
    pub fn bits(&self) -> u32 {
        (self.bytes * 8) as u32
    }

    /// Bytes of memory.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.ages.iter().map(|age| age.len() * 8).sum::<usize>()
    }

    /// Enters positions (each below [`Self::bits`]).
    pub fn enter(&self, positions: impl IntoIterator<Item = u32>) {
        let age = &self.ages[self.youngest.load(Ordering::Acquire) % AGES];
        for position in positions {
            let mask = 1u64 << (position % 64);
            // Do not write if the bit is set already, as it is for most repeated reads: a write would take the cache line from other cores.
            let word = &age[position as usize / 64];
            if word.load(Ordering::Relaxed) & mask == 0 {
                word.fetch_or(mask, Ordering::Relaxed);
            }
        }
    }

    /// Counts stored bytes. Begins the next age if the youngest has had its share; true if so.
    pub fn stored(&self, bytes: u64) -> bool {
        let before = self.stored_bytes.fetch_add(bytes, Ordering::Relaxed);
        // Only the thread whose bytes cross the limit begins the next age.
        if before >= self.age_bytes || before + bytes < self.age_bytes {
            return false;
        }
        let next = self.youngest.load(Ordering::Relaxed) + 1;
        for word in &self.ages[next % AGES] {
            word.store(0, Ordering::Relaxed);
        }
        self.youngest.store(next, Ordering::Release);
        self.stored_bytes.store(0, Ordering::Relaxed);
        true
    }

    /// Is each of these positions set in at least one age?
    pub fn may_have(&self, positions: impl IntoIterator<Item = u32>) -> bool {
        positions.into_iter().all(|position| {
            let at = position as usize / 64;
            let word = self.word(at);
            word >> (position % 64) & 1 == 1
        })
    }

    /// All ages as one array: position `p` is bit `p % 8` of byte `p / 8`.
    pub fn to_bytes(&self) -> Vec<u8> {
        let words = (0..self.bytes.div_ceil(8)).map(|at| self.word(at));
        let mut out: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
        out.truncate(self.bytes);
        out
    }

    fn word(&self, at: usize) -> u64 {
        let words = self.ages.iter().map(|age| age[at].load(Ordering::Relaxed));
        words.fold(0, |all, word| all | word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_stored_within_a_round_of_the_store_is_found() {
        // A store of 400 objects of 10 bytes: an age takes 100.
        let ages = Ages::new(1000, 4000).unwrap();
        for number in 0..3000 {
            ages.enter([number % 8000]);
            ages.stored(10);
            for older in number.saturating_sub(399)..=number {
                assert!(ages.may_have([older % 8000]), "{older} after {number}");
            }
            if number >= 600 {
                assert!(
                    !ages.may_have([number - 600]),
                    "{} is long gone",
                    number - 600
                );
            }
        }
    }

    #[test]
    fn the_bytes_are_the_bits_of_all_ages() {
        let ages = Ages::new(9, 40).unwrap();
        ages.enter([0, 71]);
        assert!(ages.stored(10));
        ages.enter([9]);
        assert_eq!(ages.to_bytes(), [1, 2, 0, 0, 0, 0, 0, 0, 0x80]);
        assert!(Ages::new(0, 1).is_none());
        assert!(Ages::new(BITS_MAX as usize, 1).is_none());
    }
}
