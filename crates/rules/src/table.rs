//! Texts by hash. The hash of a text extends that of its prefix by one byte.
//!
//! One walk over a text therefore yields the hashes of all its prefixes (or, walked backwards, of all its suffixes), and finds those that are
//! in a table. Hashed texts come from requests, but the texts in a table from the configuration: no client can make a table slow.
//!
//! Not known here: the meaning of a number.

use hashbrown::HashTable;

/// The hash of the empty text (FNV-1a).
pub const EMPTY: u64 = 0xcbf2_9ce4_8422_2325;

/// The hash of a text extended by one byte.
#[inline]
pub fn with(hash: u64, byte: u8) -> u64 {
    (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
}

/// The hash of a text, from its front.
pub fn hash_of(text: &[u8]) -> u64 {
    text.iter().copied().fold(EMPTY, with)
}

/// The hash of a text, from its end.
pub fn hash_from_end(text: &[u8]) -> u64 {
    text.iter().rev().copied().fold(EMPTY, with)
}

/// Texts and their numbers.
#[derive(Debug, Default)]
pub struct Table {
    entries: HashTable<(u64, Box<[u8]>, u32)>,
    bytes_max: usize,
}

impl Table {
    /// The number of a text; a new one gets `next`.
    pub fn number(&mut self, hash: u64, text: &[u8], next: impl FnOnce() -> u32) -> u32 {
        if let Some(known) = self.get(hash, text) {
            return known;
        }
        self.bytes_max = self.bytes_max.max(text.len());
        let number = next();
        let entry = (hash, text.into(), number);
        self.entries.insert_unique(hash, entry, |entry| entry.0);
        number
    }

    /// The number of a text.
    #[inline]
    pub fn get(&self, hash: u64, text: &[u8]) -> Option<u32> {
        self.find(hash, |known| *known == *text)
    }

    /// The number of the text with this hash that `is_meant` accepts.
    #[inline]
    pub fn find(&self, hash: u64, is_meant: impl Fn(&[u8]) -> bool) -> Option<u32> {
        let found = self.entries.find(hash, |entry| is_meant(&entry.1));
        found.map(|entry| entry.2)
    }

    /// Is there no text?
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The length of the longest text, bytes.
    pub fn bytes_max(&self) -> usize {
        self.bytes_max
    }
}
