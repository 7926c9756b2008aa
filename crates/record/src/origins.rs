//! How long each origin takes to answer, and how often it fails.
//!
//! A worker notes every request that asked an origin in a table of its own, and the control thread empties the tables once a
//! second. Both hold a table's lock for a moment only. The entries are added to an [`OriginBook`] of the last minutes.
//!
//! The time is that from asking to the head of the answer: looking up the name, connecting, and waiting. A failed answer has
//! no time; it is only counted. Memory hits are not noted.
//!
//! Limits: [`ORIGINS_MAX`] origins a table; all further ones are counted together, in [`OriginTable::rest`].

use std::{
    collections::HashMap,
    mem,
    sync::{Mutex, PoisonError},
};

use crate::buckets::{BUCKETS, bucket_of};

/// The most origins with a row of their own in a table.
pub const ORIGINS_MAX: usize = 256;
/// The longest name, in bytes; longer ones are cut.
const NAME_BYTES_MAX: usize = 256;

/// The requests to one origin.
#[derive(Clone, Debug)]
pub struct OriginTimes {
    /// Requests with an answer, by the bucket of their time: see [`bucket_of`].
    pub counts: [u64; BUCKETS],
    /// All requests.
    pub requests: u64,
    /// Requests without a usable answer.
    pub failures: u64,
}

impl Default for OriginTimes {
    fn default() -> Self {
        OriginTimes {
            counts: [0; BUCKETS],
            requests: 0,
            failures: 0,
        }
    }
}

impl OriginTimes {
    fn note(&mut self, us: Option<u32>) {
        self.requests += 1;
        match us {
            Some(us) => self.counts[bucket_of(us)] += 1,
            None => self.failures += 1,
        }
    }

    fn add(&mut self, other: &OriginTimes) {
        for (ours, theirs) in self.counts.iter_mut().zip(other.counts) {
            *ours += theirs;
        }
        self.requests += other.requests;
        self.failures += other.failures;
    }
}

/// The requests to each origin.
#[derive(Clone, Default, Debug)]
pub struct OriginTable {
    /// At most [`ORIGINS_MAX`].
    pub by_name: HashMap<Box<str>, Box<OriginTimes>>,
    /// The requests to origins without a row of their own.
    pub rest: Box<OriginTimes>,
}

impl OriginTable {
    /// The row of an origin; `rest` if there is no row left, or no name.
    fn row(&mut self, name: Option<&str>) -> &mut OriginTimes {
        let Some(name) = name else {
            return &mut self.rest;
        };
        let end = (0..=name.len().min(NAME_BYTES_MAX))
            .rev()
            .find(|&at| name.is_char_boundary(at));
        let name = &name[..end.unwrap_or(0)];
        if !self.by_name.contains_key(name) {
            if self.by_name.len() >= ORIGINS_MAX {
                return &mut self.rest;
            }
            self.by_name.insert(name.into(), Box::default());
        }
        self.by_name
            .get_mut(name)
            .expect("a row that was missing was inserted above")
    }

    fn add(&mut self, other: &OriginTable) {
        self.rest.add(&other.rest);
        for (name, times) in &other.by_name {
            self.row(Some(name)).add(times);
        }
    }
}

/// The requests that a worker has noted since the last [`Origins::take`].
#[derive(Default)]
pub struct Origins(Mutex<OriginTable>);

impl Origins {
    /// Notes a request. `name`: `None` if the origin must not be named. `us`: the time until its head arrived; `None` if it failed.
    pub fn note(&self, name: Option<&str>, us: Option<u32>) {
        let mut table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // `row` finds names that were cut.
        match name.and_then(|name| table.by_name.get_mut(name)) {
            Some(times) => times.note(us),
            None => table.row(name).note(us),
        }
    }

    /// Takes all that was noted since the last call.
    pub fn take(&self) -> OriginTable {
        let mut table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        mem::take(&mut table)
    }
}

/// The origins of the last minutes: the requests of the current period and of the one before.
#[derive(Default)]
pub struct OriginBook {
    now: OriginTable,
    before: OriginTable,
}

impl OriginBook {
    /// Adds what a worker has noted.
    pub fn add(&mut self, taken: &OriginTable) {
        self.now.add(taken);
    }

    /// Begins a new period; the period before the last is forgotten.
    pub fn turn(&mut self) {
        self.before = mem::take(&mut self.now);
    }

    /// Both periods together.
    pub fn all(&self) -> OriginTable {
        let mut all = self.now.clone();
        all.add(&self.before);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_million_origins_take_no_more_room_than_the_table_has() {
        let origins = Origins::default();
        for n in 0..100_000 {
            origins.note(Some(&format!("host-{n}")), Some(1000));
        }
        origins.note(None, None);
        let taken = origins.take();
        assert_eq!(taken.by_name.len(), ORIGINS_MAX);
        assert_eq!(taken.rest.requests, 100_001 - ORIGINS_MAX as u64);
        assert_eq!(taken.rest.failures, 1);
        assert!(origins.take().by_name.is_empty());
    }

    #[test]
    fn a_period_is_remembered_once_more_and_then_forgotten() {
        let origins = Origins::default();
        let mut book = OriginBook::default();
        origins.note(Some("a"), Some(10));
        origins.note(Some("a"), None);
        book.add(&origins.take());
        book.turn();
        origins.note(Some("a"), Some(10_000));
        book.add(&origins.take());
        let all = book.all();
        let a = &all.by_name["a"];
        assert_eq!((a.requests, a.failures), (3, 1));
        assert_eq!(a.counts[bucket_of(10)], 1);
        assert_eq!(a.counts[bucket_of(10_000)], 1);
        book.turn();
        assert_eq!(book.all().by_name["a"].requests, 1);
        book.turn();
        assert!(book.all().by_name.is_empty());
    }

    #[test]
    fn a_long_name_is_cut_between_two_characters() {
        let mut table = OriginTable::default();
        table.row(Some(&"ä".repeat(200))).note(None);
        table.row(Some(&format!("x{}", "ä".repeat(200)))).note(None);
        let mut lens: Vec<_> = table.by_name.keys().map(|name| name.len()).collect();
        lens.sort_unstable();
        assert_eq!(lens, [255, 256]);
    }
}
