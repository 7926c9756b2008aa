//! Exact hints: the columns that have a number.
//!
//! A table from number to a mask of columns, in `SHARDS` parts with a lock each, so that workers rarely wait for the writing thread. It has no false
//! hits, but takes some 24 bytes a number instead of one and a quarter.
//!
//! Not known here: which node a column belongs to; which columns count.   Limits: [`NUMBERS_MAX`] numbers. Further ones are left out, and
//! requests for them reach their node only by chance.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::interleaved::COLUMNS_MAX;

/// Parts of the table.
const SHARDS: usize = 64;
/// Numbers in the table at most: some 2 GiB of memory.
pub const NUMBERS_MAX: usize = 1 << 26;

/// A table whose keys are hashes already, or nearly: one multiplication spreads them over the whole range.
pub(crate) type NumberMap<V> = HashMap<u64, V, BuildHasherDefault<NumberHasher>>;

/// The hasher of [`NumberMap`].
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

    fn write_u64(&mut self, number: u64) {
        self.0 = number
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .rotate_left(32)
            .wrapping_mul(0xbf58_476d_1ce4_e5b9);
    }
}

/// The columns that have each number; described at the head of this file.
#[derive(Debug)]
pub struct Directory {
    shards: Box<[Mutex<NumberMap<u64>>]>,
    /// Numbers of each column.
    marks: Box<[AtomicU64]>,
}

impl Default for Directory {
    fn default() -> Self {
        Directory {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            marks: (0..COLUMNS_MAX).map(|_| AtomicU64::new(0)).collect(),
        }
    }
}

impl Directory {
    /// The columns that have the number: bit c for column c.
    pub fn look_up(&self, number: u64) -> u64 {
        self.shard(number).get(&number).copied().unwrap_or(0)
    }

    /// Adds a number to a column (below 64), or removes it. False: there is no room for it.
    pub fn set(&self, column: u32, number: u64, on: bool) -> bool {
        let mut shard = self.shard(number);
        let (bit, marks) = (1u64 << column, &self.marks[column as usize]);
        match on {
            true => {
                if shard.len() >= NUMBERS_MAX / SHARDS && !shard.contains_key(&number) {
                    return false;
                }
                let mask = shard.entry(number).or_default();
                marks.fetch_add(u64::from(*mask & bit == 0), Ordering::Relaxed);
                *mask |= bit;
            }
            false => {
                if let Some(mask) = shard.get_mut(&number) {
                    marks.fetch_sub(u64::from(*mask & bit != 0), Ordering::Relaxed);
                    *mask &= !bit;
                    if *mask == 0 {
                        shard.remove(&number);
                    }
                }
            }
        }
        true
    }

    /// Removes all numbers from a column.
    pub fn clear(&self, column: u32) {
        for shard in &self.shards {
            let mut shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            let mut cleared = 0;
            shard.retain(|_, mask| {
                cleared += *mask >> column & 1;
                *mask &= !(1 << column);
                *mask != 0
            });
            self.marks[column as usize].fetch_sub(cleared, Ordering::Relaxed);
            shard.shrink_to_fit();
        }
    }

    /// Numbers of a column (below 64).
    pub fn marks(&self, column: u32) -> u64 {
        self.marks[column as usize].load(Ordering::Relaxed)
    }

    /// Numbers that at least one column has.
    pub fn len(&self) -> usize {
        let lens = self.shards.iter().map(|shard| {
            let shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            shard.len()
        });
        lens.sum()
    }

    /// Has no column any number?
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Approximate bytes of memory: 17 for each place of a table.
    pub fn memory_bytes(&self) -> usize {
        let places = self.shards.iter().map(|shard| {
            let shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            shard.capacity() * 8 / 7
        });
        size_of::<Self>() + places.sum::<usize>() * 17
    }

    fn shard(&self, number: u64) -> MutexGuard<'_, NumberMap<u64>> {
        // Other bits than those that the tables use.
        let at = (number.wrapping_mul(0x94d0_49bb_1331_11eb) >> 58) as usize;
        self.shards[at % SHARDS]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_come_and_go_by_themselves() {
        let directory = Directory::default();
        assert!(directory.set(3, 7, true));
        assert!(directory.set(63, 7, true));
        assert!(directory.set(3, 8, true));
        assert_eq!(directory.look_up(7), 1 << 3 | 1 << 63);
        directory.set(3, 7, false);
        directory.set(3, 9, false);
        assert_eq!(directory.look_up(7), 1 << 63);
        assert_eq!(directory.len(), 2);
        directory.clear(63);
        assert_eq!((directory.len(), directory.look_up(7)), (1, 0));
        assert_eq!(directory.look_up(8), 1 << 3);
    }
}
