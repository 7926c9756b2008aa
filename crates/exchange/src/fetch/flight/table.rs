//! The table of flights: which one a request joins.
//!
//! Flights are listed by the resource, so that a purge finds all of them, and told apart by the key that their readers agree in: that
//! of a variant, once it is known that the answers vary.
//!
//! A *reload* (`no-cache`, `max-age=0`) may have no answer that was asked for before it came. So it joins no fetch that has begun.
//! Where one is under way, the first reload starts another that begins when that one is answered; reloads that come until then
//! join it. However many clients reload, one fetch is under way for them and one waits.
//!
//! When a flight has as many readers as it may, the next request begins another one, which others join. So a crowd of `n` costs one fetch
//! for each `waiters_max` of them.
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

/// Flights of one resource at a time that others may join: they are looked through one by one, under a lock.
const LISTED_MAX: usize = 64;

/// Flights by the hash of their resource's key, which is a good hash already.
type Table = HashMap<u64, Vec<Listed>, BuildHasherDefault<AsItIs>>;

/// A flight that others may join.
struct Listed {
    /// The key that its readers agree in.
    key: Box<[u8]>,
    /// The directives of a reload; requests that join before it begins must have sent the same.
    reload: Box<[u8]>,
    flight: Arc<Flight>,
}

/// Hashes a hash.
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
    /// Held by each answer that sends a large object from disk to a quick client.
    quick: Arc<()>,
    /// Keys for which nobody waits for somebody else's answer.
    pub hit_for_pass: HitForPass,
    /// Fetches of parts.
    pub fill_locks: Arc<FillLocks>,
}

/// The outcome of [`Flights::join_or_start`].
pub enum Join {
    /// This request is the first: it must fetch.
    Started(FlightReader),
    /// This request is the first that may have the answer: it must fetch, once the one under way is answered.
    Behind(FlightReader, FlightReader),
    /// Another request fetches.
    Joined(FlightReader),
    /// There is a fetch, but it can't be joined (full, or past the point): go alone.
    Alone,
    /// There is no fetch, and no need of one any more.
    Unneeded,
}

impl Flights {
    /// From now on a flight has so many readers at most; those that are there stay.
    pub fn follow(&self, waiters_max: usize) {
        self.waiters_max.store(waiters_max, Ordering::Relaxed);
    }

    /// No flights; at most `waiters_max` readers each.
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

    /// How many are in the table, for a simulation.
    #[cfg(feature = "simulation")]
    pub fn listed(&self) -> usize {
        let listed = |shard: &Mutex<Table>| {
            let table = shard.lock().unwrap_or_else(PoisonError::into_inner);
            table.values().map(Vec::len).sum::<usize>()
        };
        self.shards.iter().map(listed).sum()
    }

    /// Joins the flight for this key, or starts one. `began` gives the sequence at which it begins, or nothing if none is needed;
    /// it is asked under the table's lock, which [`Flights::forget`] takes after an invalidation was recorded: a flight that
    /// began before it is gone.
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
        // For those that found no place in the others another one is begun, which again as many may join.
        if is_there && !is_full || listed.len() >= LISTED_MAX {
            return Join::Alone;
        }
        let Some(began) = began() else {
            return Join::Unneeded;
        };
        Join::Started(self.list(&mut shard, primary, (key, b""), began))
    }

    /// Joins a flight that this reload's answer may come from, or starts one. `reload`: its directives.
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
                // Beside the slots: there is one such reader, and it leaves with the head.
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

    /// Joins the flight for this key, if there is one and it can be joined.
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

    /// A new flight, in the table, and its first reader.
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

    /// From here on readers must agree in this key: the answer has told more than was known.
    pub fn rename(&self, flight: &Arc<Flight>, key: &[u8]) {
        let mut shard = self.shard(flight.primary);
        let mut all = shard.get_mut(&flight.primary.0).into_iter().flatten();
        if let Some(listed) = all.find(|one| Arc::ptr_eq(&one.flight, flight))
            && *listed.key != *key
        {
            listed.key = key.into();
        }
    }

    /// Counts an answer that sends a large object from disk to a quick client, as long as it is held.
    pub fn hold_quick(&self) -> Arc<()> {
        Arc::clone(&self.quick)
    }

    /// How many there are.
    pub fn quick_answers(&self) -> usize {
        Arc::strong_count(&self.quick) - 1
    }

    /// A flight nobody else can join: for revalidation behind the client's back and for requests that go alone.
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

    /// Takes the flight out of the table, so that the next request starts a new one.
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

    /// After an invalidation: nobody joins what began before it, whichever variant it is.
    pub fn forget(&self, primary: KeyHash) {
        self.hit_for_pass.forget(primary);
        for one in self.shard(primary).remove(&primary.0).into_iter().flatten() {
            one.flight.close();
        }
    }

    /// The same for all that `is_meant`, by primary hash and key. (What is remembered of answers that nobody could share
    /// stays: it costs company, and no more.)
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
