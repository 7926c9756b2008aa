//! One number for each key, for very many keys in bounded memory.
//!
//! Keys are hashes, spread over shards. Each shard has a lock, held for one look-up. An idle number (the caller decides which are)
//! may be forgotten at any time; that happens when its shard is full. If a shard is full of numbers that are not idle, new keys
//! share one of a few numbers of the shard, chosen by their hash. So a flood of keys neither gets past a quota nor takes more
//! memory. It only costs some other new keys a number of their own, and each use of a shared number is counted.
//!
//! Limits: `keys_max`, about 35 bytes each at most. A full shard is swept at most ten times a second.
//! Not known here: the meaning of the numbers.

use std::{
    collections::HashMap,
    hash::{BuildHasherDefault, Hasher},
    sync::{Mutex, MutexGuard, PoisonError},
};

/// The number of shards, a power of two.
const SHARDS: usize = 64;
/// Shared numbers of each shard, used when it is full.
const SHARED: usize = 16;
/// The least time between two sweeps of a full shard, nanoseconds.
const SWEEP_EVERY_NS: u64 = 100_000_000;

/// Numbers by key.
pub struct Table {
    shards: Box<[Mutex<Shard>]>,
    shard_keys_max: usize,
    /// May a number be forgotten at this moment?
    is_idle: fn(number: u64, now: u64) -> bool,
}

#[derive(Default)]
struct Shard {
    numbers: HashMap<u64, u64, BuildHasherDefault<AsItIs>>,
    shared: [u64; SHARED],
    swept: u64,
}

/// Which number a key uses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// A number of its own.
    Own,
    /// A number shared with other keys.
    Shared,
}

impl Table {
    /// An empty table. A number of 0 must be idle.
    pub fn new(keys_max: usize, is_idle: fn(u64, u64) -> bool) -> Table {
        Table {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            shard_keys_max: (keys_max / SHARDS).max(1),
            is_idle,
        }
    }

    fn shard(&self, key: u64) -> MutexGuard<'_, Shard> {
        let shard = &self.shards[(key >> 32) as usize & (SHARDS - 1)];
        shard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls `then` with the number of a key; also returns which number that was.
    pub fn with<R>(&self, key: u64, now: u64, then: impl FnOnce(&mut u64) -> R) -> (R, Place) {
        let mut shard = self.shard(key);
        let shard = &mut *shard;
        if let Some(number) = shard.numbers.get_mut(&key) {
            return (then(number), Place::Own);
        }
        if shard.numbers.len() >= self.shard_keys_max {
            shard.sweep(now, self.is_idle);
        }
        if shard.numbers.len() >= self.shard_keys_max {
            return (
                then(&mut shard.shared[key as usize % SHARED]),
                Place::Shared,
            );
        }
        let mut number = 0;
        let answer = then(&mut number);
        if !(self.is_idle)(number, now) {
            shard.numbers.insert(key, number);
        }
        (answer, Place::Own)
    }

    /// Lowers the number that the key used in that place. An idle number is forgotten.
    pub fn change(&self, key: u64, place: Place, now: u64, then: impl FnOnce(&mut u64)) {
        let mut shard = self.shard(key);
        match place {
            Place::Shared => then(&mut shard.shared[key as usize % SHARED]),
            Place::Own => {
                let Some(number) = shard.numbers.get_mut(&key) else {
                    // The number was idle and was forgotten.
                    return;
                };
                then(number);
                if (self.is_idle)(*number, now) {
                    shard.numbers.remove(&key);
                }
            }
        }
    }

    /// Keys with a number of their own.
    pub fn keys(&self) -> usize {
        let keys = |shard: &Mutex<Shard>| {
            let shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            shard.numbers.len()
        };
        self.shards.iter().map(keys).sum()
    }
}

impl Shard {
    fn sweep(&mut self, now: u64, is_idle: fn(u64, u64) -> bool) {
        if self.swept > 0 && now.saturating_sub(self.swept) < SWEEP_EVERY_NS {
            return;
        }
        self.swept = now.max(1);
        self.numbers.retain(|_, number| !is_idle(*number, now));
    }
}

/// A hasher for keys that are hashes already.
#[derive(Default)]
struct AsItIs(u64);

impl Hasher for AsItIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(byte);
        }
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = number;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Spreads small numbers over all bits.
    fn key(n: u64) -> u64 {
        let n = (n + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (n ^ n >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9)
    }

    fn is_past(number: u64, now: u64) -> bool {
        number <= now
    }

    #[test]
    fn each_key_has_its_number() {
        let table = Table::new(1000, is_past);
        for round in 1..=3 {
            for n in 0..100 {
                let (number, place) = table.with(key(n), 0, |number| {
                    *number += n + 1;
                    *number
                });
                assert_eq!((number, place), (round * (n + 1), Place::Own));
            }
        }
        assert_eq!(table.keys(), 100);
    }

    #[test]
    fn what_is_idle_makes_room() {
        let table = Table::new(64 * 4, is_past);
        for n in 0..10_000 {
            // Each number is idle 10 ns later, but a full shard is swept only now and then.
            let now = 1 + n * SWEEP_EVERY_NS;
            table.with(key(n), now, |number| *number = now + 10);
            assert!(table.keys() <= 64 * 4);
        }
        let (_, place) = table.with(key(1 << 40), u64::MAX / 2, |_| ());
        assert_eq!(place, Place::Own);
    }

    #[test]
    fn keys_beyond_the_bound_share_numbers_and_get_none_for_nothing() {
        let table = Table::new(64, is_past);
        let (mut own, mut shared) = (0, 0);
        for n in 0..100_000 {
            match table.with(key(n), 1, |number| *number += 100).1 {
                Place::Own => own += 1,
                Place::Shared => shared += 1,
            }
        }
        assert_eq!((own, shared, table.keys()), (64, 100_000 - 64, 64));
        // Every further key gets a number that others have raised.
        let least = (200_000..201_000)
            .map(|n| table.with(key(n), 1, |number| *number).0)
            .min();
        assert!(least > Some(100));
    }

    #[test]
    fn a_million_keys_stay_a_million() {
        let table = Table::new(1_000_000, is_past);
        for n in 0..1_200_000 {
            table.with(key(n), 1, |number| *number = 2);
        }
        assert!(table.keys() <= 1_000_000 && table.keys() > 990_000);
    }

    #[test]
    fn what_is_counted_while_it_lasts_is_given_back_where_it_was() {
        let table = Table::new(64, |number, _| number == 0);
        let places: Vec<_> = (0..1000)
            .map(|n| (n, table.with(key(n), 1, |number| *number += 1).1))
            .collect();
        for (n, place) in places {
            table.change(key(n), place, 2, |number| *number -= 1);
        }
        assert_eq!(table.keys(), 0);
        assert!((5000..6000).all(|n| table.with(key(n), 3, |number| *number).0 == 0));
    }
}
