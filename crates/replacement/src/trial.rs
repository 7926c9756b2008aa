//! Compares admission by size with admission of everything on a sample of the requests: which brings more hits?
//!
//! Where the store holds nearly everything that is requested again, a long object that waits for its second miss is fetched twice for nothing. Where
//! the store holds little, long objects that are requested once evict many short ones. Lengths alone cannot tell these cases apart, so both rules
//! are simulated: each has an LRU of keys and lengths, with the sample's share of the store's bytes.
//!
//! - At first the sample is every key. When a simulation holds more than [`KEYS_MAX`] keys, half of them leave, and its bytes are halved.
//! - Hits are counted only after both rules have had to evict.
//! - A rule is rated by the sum of two shares: hits of requests, and hits of bytes. Everything is admitted once that brings more by
//!   [`MARGIN_PERMILLE`], until the difference is below half of that: by-size saves writes.
//!
//! Memory: at most [`KEYS_MAX`] keys twice, 2 MiB in all. Not known here: what is stored, and the memory tier in front of the store.
//! Source: scaled-down simulation by sampled keys as in Waldspurger et al., "Cache modeling and optimization using miniature
//! simulations" (USENIX ATC 2017).

use crate::admission::{Lengths, Misses};
use crate::lru::Lru;
use crate::sketch::mix;
use std::collections::HashMap;

/// Keys that one simulation holds, at most.
const KEYS_MAX: usize = 1 << 13;
/// After this many requests of the sample the rules are compared and all counts are halved.
const JUDGED_REQUESTS: u64 = 1 << 11;
/// The advantage that admitting everything must have, in requests and bytes together: it writes two to three times as much.
const MARGIN_PERMILLE: i128 = 50;
/// Objects larger than a simulation's bytes divided by this are left out, because they would make the result a matter of chance.
const LONGEST_PART: u64 = 8;

/// Both simulations, and their results.
#[derive(Clone, Debug)]
pub(crate) struct Trial {
    store_bytes: u64,
    /// One key in 2 to the power of this is in the sample.
    halvings: u32,
    all: Shadow,
    by_size: Shadow,
    lengths: Lengths,
    misses: Misses,
    asked: Tally,
    is_all_better: bool,
}

/// A number of requests, and of their bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    requests: u64,
    bytes: u64,
}

impl Tally {
    fn add(&mut self, bytes: u64) {
        self.requests += 1;
        self.bytes += bytes;
    }

    fn halve(&mut self) {
        (self.requests, self.bytes) = (self.requests / 2, self.bytes / 2);
    }
}

impl Trial {
    pub(crate) fn new(store_bytes: u64) -> Self {
        Trial {
            store_bytes,
            halvings: 0,
            all: Shadow::default(),
            by_size: Shadow::default(),
            lengths: Lengths::default(),
            misses: Misses::new(KEYS_MAX),
            asked: Tally::default(),
            is_all_better: false,
        }
    }

    /// Does admitting everything bring more?
    pub(crate) fn is_all_better(&self) -> bool {
        self.is_all_better
    }

    /// Counts a request to the store for an object of this size.
    pub(crate) fn asked(&mut self, id: u64, size: u64) {
        let room = self.store_bytes >> self.halvings;
        if size == 0 || size > room / LONGEST_PART || !self.has_in_sample(id) {
            return;
        }
        let counts = self.all.has_evicted && self.by_size.has_evicted;
        let is_full = self.by_size.has_evicted;
        let (lengths, misses) = (&mut self.lengths, &mut self.misses);
        self.all.ask(id, size, room, counts, || true);
        self.by_size.ask(id, size, room, counts, || {
            !lengths.is_long(size) || misses.replace(id, || KEYS_MAX) || !is_full
        });
        if counts {
            self.asked.add(size);
        }
        if self.asked.requests >= JUDGED_REQUESTS {
            self.judge();
        }
        if self.all.len().max(self.by_size.len()) > KEYS_MAX {
            self.halvings += 1;
            let (halvings, room) = (self.halvings, self.store_bytes >> self.halvings);
            self.all.keep(halvings, room);
            self.by_size.keep(halvings, room);
        }
    }

    fn has_in_sample(&self, id: u64) -> bool {
        is_in_sample(id, self.halvings)
    }

    fn judge(&mut self) {
        let share = |more: u64, less: u64, of: u64| {
            (i128::from(more) - i128::from(less)) * 1000 / i128::from(of.max(1))
        };
        let (all, by_size) = (self.all.hits, self.by_size.hits);
        let more_by_all = share(all.requests, by_size.requests, self.asked.requests)
            + share(all.bytes, by_size.bytes, self.asked.bytes);
        if more_by_all > MARGIN_PERMILLE {
            self.is_all_better = true;
        } else if more_by_all < MARGIN_PERMILLE / 2 {
            self.is_all_better = false;
        }
        self.asked.halve();
        self.all.hits.halve();
        self.by_size.hits.halve();
    }

    /// Bytes of memory held.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.all.memory_bytes() + self.by_size.memory_bytes() + self.misses.memory_bytes()
    }
}

/// Is the key in the sample? By the upper bits, because the filters use the lower ones.
fn is_in_sample(id: u64, halvings: u32) -> bool {
    mix(id).leading_zeros() >= halvings
}

/// The content that a store under one of the rules would have, for keys in the sample.
#[derive(Clone, Debug, Default)]
struct Shadow {
    slots: HashMap<u64, u32>,
    /// Key and length by slot.
    held: Vec<(u64, u64)>,
    free: Vec<u32>,
    order: Lru,
    bytes: u64,
    has_evicted: bool,
    hits: Tally,
}

impl Shadow {
    fn len(&self) -> usize {
        self.slots.len()
    }

    fn ask(&mut self, id: u64, size: u64, room: u64, counts: bool, admits: impl FnOnce() -> bool) {
        let slot = self.slots.get(&id).copied();
        if let Some(slot) = slot.filter(|&slot| self.held[slot as usize].1 == size) {
            self.order.touch(slot);
            if counts {
                self.hits.add(size);
            }
            return;
        }
        // Another length means another version.
        if let Some(slot) = slot {
            self.leave(slot);
        }
        if admits() {
            self.make_room(room - size);
            self.insert(id, size);
        }
    }

    fn insert(&mut self, id: u64, size: u64) {
        let slot = self.free.pop().unwrap_or(self.held.len() as u32);
        match self.held.get_mut(slot as usize) {
            Some(held) => *held = (id, size),
            None => self.held.push((id, size)),
        }
        self.slots.insert(id, slot);
        self.order.insert(slot);
        self.bytes += size;
    }

    fn leave(&mut self, slot: u32) {
        let (id, size) = self.held[slot as usize];
        self.slots.remove(&id);
        self.order.remove(slot);
        self.free.push(slot);
        self.bytes -= size;
    }

    /// Evicts until at most so many bytes are held.
    fn make_room(&mut self, bytes: u64) {
        while self.bytes > bytes
            && let Some(slot) = self.order.coldest()
        {
            self.leave(slot);
            self.has_evicted = true;
        }
    }

    /// Keeps only the keys of a smaller sample.
    fn keep(&mut self, halvings: u32, room: u64) {
        let gone: Vec<u32> = (self.slots.iter())
            .filter(|&(&id, _)| !is_in_sample(id, halvings))
            .map(|(_, &slot)| slot)
            .collect();
        gone.into_iter().for_each(|slot| self.leave(slot));
        let had_evicted = self.has_evicted;
        self.make_room(room);
        self.has_evicted = had_evicted;
    }

    fn memory_bytes(&self) -> usize {
        // A map has a tag, a key and a value for each place.
        self.slots.capacity() * (size_of::<(u64, u32)>() + 1)
            + self.held.capacity() * size_of::<(u64, u64)>()
            + self.free.capacity() * size_of::<u32>()
            + self.order.memory_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: u64 = 1 << 10;
    const LONG: u64 = 64 << 10;

    /// Requests for so many objects in rotation, of which one in five is long.
    fn go_round(trial: &mut Trial, objects: u64, requests: u64) {
        for n in 0..requests {
            let id = n % objects;
            trial.asked(id, if id.is_multiple_of(5) { LONG } else { SHORT });
        }
    }

    /// One request in two is for one of a thousand short objects; the others are for long ones that never come again.
    fn among_wonders(trial: &mut Trial, from: u64, requests: u64) {
        for n in 0..requests {
            match n % 2 {
                0 => trial.asked(mix(n) % 1000, SHORT),
                _ => trial.asked(1_000_000 + from + n, LONG),
            }
        }
    }

    #[test]
    fn by_size_where_long_ones_drive_out_short_ones() {
        let mut trial = Trial::new(4 << 20);
        among_wonders(&mut trial, 0, 40_000);
        assert!(!trial.is_all_better());
    }

    #[test]
    fn everything_where_each_object_is_asked_for_twice_and_soon() {
        let mut trial = Trial::new(4 << 20);
        for n in 0..20_000u64 {
            let size = |id: u64| if id.is_multiple_of(5) { LONG } else { SHORT };
            trial.asked(n, size(n));
            trial.asked(n.saturating_sub(10), size(n.saturating_sub(10)));
        }
        assert!(trial.is_all_better());
        among_wonders(&mut trial, 0, 40_000);
        assert!(!trial.is_all_better(), "it follows");
    }

    #[test]
    fn all_that_fits_tells_nothing() {
        let mut trial = Trial::new(1 << 30);
        go_round(&mut trial, 1000, 100_000);
        assert!(!trial.is_all_better());
        assert_eq!(trial.asked.requests, 0, "neither had to evict");
    }

    #[test]
    fn the_sample_shrinks_and_memory_stays_bounded() {
        let mut trial = Trial::new(1 << 40);
        for n in 0..1_000_000u64 {
            trial.asked(n, 1);
            trial.asked(mix(n), u64::MAX);
        }
        assert!(trial.halvings >= 6, "{}", trial.halvings);
        assert!(trial.all.len() <= KEYS_MAX && trial.all.len() > KEYS_MAX / 4);
        assert!(trial.memory_bytes() <= 2 << 20, "{}", trial.memory_bytes());
        assert_eq!(trial.all.bytes, trial.all.len() as u64);
    }

    /// A sample gives the same result as the whole.
    #[test]
    fn a_large_store_is_judged_likewise() {
        let mut trial = Trial::new(1 << 30);
        for n in 0..200_000u64 {
            let size = |id: u64| if id.is_multiple_of(5) { LONG } else { SHORT };
            trial.asked(n, size(n));
            trial.asked(n.saturating_sub(500), size(n.saturating_sub(500)));
        }
        assert!(trial.halvings > 0 && trial.is_all_better());
    }
}
