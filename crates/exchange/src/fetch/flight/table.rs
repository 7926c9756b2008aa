//! The table of flights: decides which flight a request joins.
//!
//! Flights are listed by resource, so that a purge finds all of them. Within a resource they differ by the key that their readers
//! share: a variant's key once it is known that the answers vary.
//!
//! A *reload* (`no-cache`, `max-age=0`) may not have an answer that was requested before the reload arrived. So it joins no fetch that
//! has begun. If one is under way, the first reload starts another fetch that begins when the first one is answered; further reloads
//! join that waiting fetch until then. However many clients reload, one fetch is under way for them and one waits.
//!
//! When a flight has its maximum of readers, the next request begins another flight, which others join. So `n` requests at a time
//! cost one fetch for each `waiters_max` of them.
//!
//! Limits: `waiters_max` readers a flight; [`LISTED_MAX`] flights a resource, beyond which a request fetches for itself.

use base::mistakes::{Mistake, makes};
use std::{
    collections::HashMap,
    hash::{BuildHasherDefault, Hasher},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use store::{KeyHash, Sequence};

use super::{Flight, FlightReader, SHARDS, State};
use crate::{fetch::hit_for_pass::HitForPass, range::fill_lock::FillLocks};
use cache::Fetches;

/// The most joinable flights of one resource: they are searched one by one, under a lock.
const LISTED_MAX: usize = 64;

/// Flights by the hash of their resource's key, used as the table's hash.
type Table = HashMap<u64, Vec<Listed>, BuildHasherDefault<AsItIs>>;

/// A flight that other requests may join.
struct Listed {
    /// The key that its readers share.
    key: Box<[u8]>,
    /// The directives of a reload; requests that join before the fetch begins must have sent the same.
    reload: Box<[u8]>,
    flight: Arc<Flight>,
}

/// Passes a hash through unchanged.
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

/// All flights of the process, by key.
pub struct Flights {
    shards: Box<[Mutex<Table>]>,
    waiters_max: AtomicUsize,
    /// One reference for each answer that sends a large object from disk to a fast client.
    quick: Arc<()>,
    /// Keys whose requests do not wait for each other's answers.
    pub hit_for_pass: HitForPass,
    /// Locks for fetches of parts.
    pub fill_locks: Arc<FillLocks>,
}

/// The outcome of [`Flights::join_or_start`].
pub enum Join {
    /// This request is the first: it must fetch.
    Started(FlightReader),
    /// This request is the first that may have the answer: it must fetch, once the fetch under way is answered.
    Behind(FlightReader, FlightReader),
    /// Another request fetches.
    Joined(FlightReader),
    /// There are fetches, but none can be joined, or too many are listed: fetch alone.
    Alone,
    /// No fetch is needed any more.
    Unneeded,
}

impl Flights {
    /// Sets the maximum of readers a flight; present readers stay.
    pub fn follow(&self, waiters_max: usize) {
        self.waiters_max.store(waiters_max, Ordering::Relaxed);
    }

    /// An empty table; at most `waiters_max` readers a flight.
    pub fn new(waiters_max: usize) -> Flights {
        Flights {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            waiters_max: AtomicUsize::new(waiters_max),
            quick: Arc::default(),
            hit_for_pass: HitForPass::default(),
            fill_locks: Arc::default(),
        }
    }

    fn shard(&self, hash: KeyHash) -> MutexGuard<'_, Table> {
        self.shards[(hash.0 >> 32) as usize & (SHARDS - 1)]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of flights in the table, for a simulation.
    #[cfg(feature = "simulation")]
    pub fn listed(&self) -> usize {
        let listed = |shard: &Mutex<Table>| {
            let table = shard.lock().unwrap_or_else(PoisonError::into_inner);
            table.values().map(Vec::len).sum::<usize>()
        };
        self.shards.iter().map(listed).sum()
    }

    /// Joins the flight for this key, or starts one. `began` returns the sequence at which a new flight begins, or `None` if none is needed.
    /// It is called under the table's lock. [`Flights::forget`] takes that lock after an invalidation was recorded, so every flight that
    /// began before the invalidation is removed.
    pub fn join_or_start(
        &self,
        primary: KeyHash,
        key: &[u8],
        began: impl FnOnce() -> Option<Sequence>,
    ) -> Join {
        let mut shard = self.shard(primary);
        let listed = shard.get(&primary.0).map_or(&[][..], Vec::as_slice);
        let mut same = listed.iter().filter(|one| *one.key == *key).peekable();
        let is_there = same.peek().is_some();
        let mut is_full = false;
        for one in same {
            if let Some(reader) = self.slot(&one.flight) {
                return Join::Joined(reader);
            }
            is_full |= one.flight.lock().has_begun_well();
        }
        // If all flights for this key are full, begin another one, which as many requests may join again.
        if is_there && !is_full || listed.len() >= LISTED_MAX {
            return Join::Alone;
        }
        let Some(began) = began() else {
            return Join::Unneeded;
        };
        Join::Started(self.list(&mut shard, primary, (key, b""), began))
    }

    /// Joins a flight whose answer this reload may have, or starts one. `reload`: the reload's directives.
    pub fn join_or_queue(
        &self,
        primary: KeyHash,
        key: &[u8],
        reload: &[u8],
        began: impl FnOnce() -> Sequence,
    ) -> Join {
        let mut shard = self.shard(primary);
        let listed = shard.get(&primary.0).map_or(&[][..], Vec::as_slice);
        let mut ahead = None;
        for one in listed.iter().filter(|one| *one.key == *key) {
            let mut state = one.flight.lock();
            if state.is_waiting && *one.reload == *reload {
                drop(state);
                if let Some(reader) = self.slot(&one.flight) {
                    return Join::Joined(reader);
                }
                continue;
            }
            if ahead.is_none() && !state.is_waiting && state.first_event.is_none() {
                // Does not count as a joined request: there is one such reader a flight, and it leaves with the head.
                let slot = state.add_reader(true);
                let flight = Arc::clone(&one.flight);
                ahead = Some(FlightReader { flight, slot });
            }
        }
        if listed.len() >= LISTED_MAX {
            return Join::Alone;
        }
        let reader = self.list(&mut shard, primary, (key, reload), began());
        match ahead {
            Some(ahead) => {
                reader.flight.lock().is_waiting = true;
                Join::Behind(reader, ahead)
            }
            None => Join::Started(reader),
        }
    }

    /// Is there a flight for this key?
    pub fn is_listed(&self, primary: KeyHash, key: &[u8]) -> bool {
        let shard = self.shard(primary);
        let listed = shard.get(&primary.0).map_or(&[][..], Vec::as_slice);
        listed.iter().any(|one| *one.key == *key)
    }

    /// Joins a flight for this key, if one can be joined.
    pub fn join(&self, primary: KeyHash, key: &[u8]) -> Option<FlightReader> {
        let shard = self.shard(primary);
        let listed = shard.get(&primary.0)?;
        let mut same = listed.iter().filter(|one| *one.key == *key);
        same.find_map(|one| self.slot(&one.flight))
    }

    fn slot(&self, flight: &Arc<Flight>) -> Option<FlightReader> {
        let slot = flight
            .lock()
            .slot(self.waiters_max.load(Ordering::Relaxed))?;
        let flight = Arc::clone(flight);
        Some(FlightReader { flight, slot })
    }

    /// Adds a new flight to the table. Returns its first reader.
    fn list(
        &self,
        shard: &mut Table,
        primary: KeyHash,
        (key, reload): (&[u8], &[u8]),
        began: Sequence,
    ) -> FlightReader {
        let flight = self.flight(primary, began);
        let slot = flight.lock().add_reader(false);
        shard.entry(primary.0).or_default().push(Listed {
            key: key.into(),
            reload: reload.into(),
            flight: Arc::clone(&flight),
        });
        FlightReader { flight, slot }
    }

    /// Changes the key that readers share: the head has shown which variant the answer is.
    pub fn rename(&self, flight: &Arc<Flight>, key: &[u8]) {
        let mut shard = self.shard(flight.primary);
        let mut all = shard.get_mut(&flight.primary.0).into_iter().flatten();
        if let Some(listed) = all.find(|one| Arc::ptr_eq(&one.flight, flight))
            && *listed.key != *key
        {
            listed.key = key.into();
        }
    }

    /// Counts an answer that sends a large object from disk to a fast client, until the value is dropped.
    pub fn hold_quick(&self) -> Arc<()> {
        Arc::clone(&self.quick)
    }

    /// The number of such answers now.
    pub fn quick_answers(&self) -> usize {
        Arc::strong_count(&self.quick) - 1
    }

    /// A flight that no other request can join: for background revalidation and for requests that fetch alone.
    pub fn start_alone(&self, primary: KeyHash, began: Sequence) -> FlightReader {
        let flight = self.flight(primary, began);
        flight.close();
        let slot = flight.lock().add_reader(false);
        FlightReader { flight, slot }
    }

    fn flight(&self, primary: KeyHash, began: Sequence) -> Arc<Flight> {
        Arc::new(Flight {
            primary,
            began,
            state: Mutex::new(State {
                joinable: true,
                ..State::default()
            }),
        })
    }

    /// Removes the flight from the table, so that the next request starts a new one.
    pub fn remove(&self, flight: &Arc<Flight>) {
        if makes(Mistake::KeepEnded) {
            return;
        }
        let mut shard = self.shard(flight.primary);
        if let Some(listed) = shard.get_mut(&flight.primary.0) {
            listed.retain(|one| !Arc::ptr_eq(&one.flight, flight));
            if listed.is_empty() {
                shard.remove(&flight.primary.0);
            }
        }
    }

    /// After an invalidation: no request joins a flight of this resource that began before, whatever its variant.
    pub fn forget(&self, primary: KeyHash) {
        self.hit_for_pass.forget(primary);
        for one in self.shard(primary).remove(&primary.0).into_iter().flatten() {
            one.flight.close();
        }
    }

    /// Like [`Flights::forget`], for all flights that `is_meant` selects by primary hash and key. (Hit-for-pass entries stay: they only
    /// prevent sharing.)
    pub fn forget_all(&self, is_meant: impl Fn(KeyHash, &[u8]) -> bool) {
        for shard in &self.shards {
            let mut shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            shard.retain(|_, listed| {
                listed.retain(|one| {
                    let meant = is_meant(one.flight.primary, &one.key);
                    if meant {
                        one.flight.close();
                    }
                    !meant
                });
                !listed.is_empty()
            });
        }
    }
}

impl Fetches for Flights {
    fn forget(&self, primary: KeyHash) {
        Flights::forget(self, primary);
    }

    fn forget_all(&self, is_meant: &dyn Fn(&[u8]) -> bool) {
        Flights::forget_all(self, |_, key| is_meant(key));
    }
}
