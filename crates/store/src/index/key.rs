//! Names of records: 64-bit hashes of full keys.
//!
//! A hash only finds a record. The full key identifies the record: it is stored with the record, and the caller
//! compares it after every read. The seed is random and kept in the superblock, so hashes are the same after a
//! restart, and an outsider cannot construct a collision.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use twox_hash::XxHash3_64;

/// The hash of a full key (URI, variant, fragment) under this store's seed; made by [`KeyHasher`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct KeyHash(pub u64);

/// Makes [`KeyHash`]es: XXH3-64 under the store's seed.
#[derive(Clone, Copy, Debug)]
pub struct KeyHasher {
    seed: u64,
}

impl KeyHasher {
    pub(crate) fn new(seed: u64) -> Self {
        Self { seed }
    }

    /// The seed of the hashes. Anybody who knows it can find keys with the same hash.
    pub fn seed(self) -> u64 {
        self.seed
    }

    /// The hash of a full key.
    pub fn hash(&self, key: &[u8]) -> KeyHash {
        KeyHash(XxHash3_64::oneshot_with_seed(self.seed, key))
    }
}

/// A map with hashes or chunk numbers as keys: one multiplication spreads them.
pub(crate) type NumberMap<K, V> = HashMap<K, V, BuildHasherDefault<NumberHasher>>;

/// See [`NumberMap`].
#[derive(Default)]
pub(crate) struct NumberHasher(u64);

impl Hasher for NumberHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(self.0 ^ u64::from(byte));
        }
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(u64::from(number));
    }

    fn write_u64(&mut self, number: u64) {
        // Multiply by the golden ratio; the rotation moves the well-mixed high bits to where tables look.
        self.0 = number.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_depend_on_key_and_seed_only() {
        let hasher = KeyHasher::new(7);
        assert_eq!(hasher.hash(b"a"), KeyHasher::new(7).hash(b"a"));
        assert_ne!(hasher.hash(b"a"), hasher.hash(b"b"));
        assert_ne!(hasher.hash(b"a"), KeyHasher::new(8).hash(b"a"));
    }
}
