//! The table of flights: who joins which, and what all of them together keep.
//!
//! Limits: `waiters_max` readers a flight. The bytes kept are counted here, and bounded by those who ask.

use std::{
    collections::HashMap,
    hash::{BuildHasherDefault, Hasher},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use store::{KeyHash, Sequence};

use super::{Flight, FlightReader, SHARDS, State};
use crate::{turns::Turns, unshared::Unshared};

/// Flights by key hash, which is a good hash already.
type Table = HashMap<u64, Arc<Flight>, BuildHasherDefault<AsItIs>>;

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
    waiters_max: usize,
    kept: Arc<AtomicU64>,
    /// Bytes of fragments that are being sent.
    sent: Arc<AtomicU64>,
    /// Keys for which nobody waits for somebody else's answer.
    pub unshared: Unshared,
    /// Fetches of parts.
    pub turns: Arc<Turns>,
}

/// The outcome of [`Flights::join_or_start`].
pub enum Boarding {
    /// This request is the first: it must fetch.
    Started(FlightReader),
    /// Another request fetches.
    Joined(FlightReader),
    /// There is a fetch, but it can't be joined (full, or past the point): go alone.
    Alone,
}

impl Flights {
    /// No flights; at most `waiters_max` readers each.
    pub fn new(waiters_max: usize) -> Flights {
        Flights {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            waiters_max,
            kept: Arc::default(),
            sent: Arc::default(),
            unshared: Unshared::default(),
            turns: Arc::default(),
        }
    }

    fn shard(&self, hash: KeyHash) -> MutexGuard<'_, Table> {
        self.shards[(hash.0 >> 32) as usize & (SHARDS - 1)]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes of bodies kept by all flights: the shared budget's measure.
    pub fn kept_bytes(&self) -> u64 {
        self.kept.load(Ordering::Relaxed)
    }

    /// Bytes of fragments that are held for clients while they are sent. A fragment that several hold at once counts for each.
    pub fn sent_bytes(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Joins the flight for this key, or starts one. `began` is read under the table's lock, which
    /// [`Flights::forget`] takes after an invalidation was recorded: a flight that began before it is gone.
    pub fn join_or_start(
        &self,
        primary: KeyHash,
        key: &[u8],
        began: impl FnOnce() -> Sequence,
    ) -> Boarding {
        let mut shard = self.shard(primary);
        if let Some(flight) = shard.get(&primary.0) {
            let seat = flight.lock().seat(flight, key, self.waiters_max);
            return match seat {
                Some(slot) => Boarding::Joined(FlightReader {
                    flight: Arc::clone(flight),
                    slot,
                }),
                None => Boarding::Alone,
            };
        }
        let flight = self.flight(primary, key, began());
        let slot = flight.lock().add_reader();
        shard.insert(primary.0, Arc::clone(&flight));
        Boarding::Started(FlightReader { flight, slot })
    }

    /// Joins the flight for this key, if there is one and it can be joined.
    pub fn join(&self, primary: KeyHash, key: &[u8]) -> Option<FlightReader> {
        let shard = self.shard(primary);
        let flight = shard.get(&primary.0)?;
        let slot = flight.lock().seat(flight, key, self.waiters_max)?;
        Some(FlightReader {
            flight: Arc::clone(flight),
            slot,
        })
    }

    /// Counts bytes that are kept outside of flights into the shared budget.
    pub fn hold(&self) -> Held {
        Held {
            bytes: 0,
            in_all: Arc::clone(&self.kept),
        }
    }

    /// Counts bytes of a fragment that is held while it is sent.
    pub fn hold_fragment(&self) -> Held {
        Held {
            bytes: 0,
            in_all: Arc::clone(&self.sent),
        }
    }

    /// A flight nobody else can join: for revalidation behind the client's back and for requests that go alone.
    pub fn start_alone(&self, primary: KeyHash, key: &[u8], began: Sequence) -> FlightReader {
        let flight = self.flight(primary, key, began);
        flight.close();
        let slot = flight.lock().add_reader();
        FlightReader { flight, slot }
    }

    fn flight(&self, primary: KeyHash, key: &[u8], began: Sequence) -> Arc<Flight> {
        Arc::new(Flight {
            key: key.into(),
            primary,
            began,
            state: Mutex::new(State {
                joinable: true,
                ..State::default()
            }),
            kept_in_all: Arc::clone(&self.kept),
        })
    }

    /// Takes the flight out of the table, so that the next request starts a new one.
    pub fn remove(&self, flight: &Arc<Flight>) {
        let mut shard = self.shard(flight.primary);
        if shard
            .get(&flight.primary.0)
            .is_some_and(|f| Arc::ptr_eq(f, flight))
        {
            shard.remove(&flight.primary.0);
        }
    }

    /// After an invalidation: nobody joins what began before it.
    pub fn forget(&self, primary: KeyHash) {
        self.unshared.forget(primary);
        if let Some(flight) = self.shard(primary).remove(&primary.0) {
            flight.close();
        }
    }

    /// The same for all that `is_meant`, by primary hash and key. (What is remembered of answers that nobody could share
    /// stays: it costs company, and no more.)
    pub fn forget_all(&self, is_meant: impl Fn(KeyHash, &[u8]) -> bool) {
        for shard in &self.shards {
            let mut shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            shard.retain(|_, flight| {
                let meant = is_meant(flight.primary, &flight.key);
                if meant {
                    flight.close();
                }
                !meant
            });
        }
    }
}

/// Bytes of bodies that are kept outside of flights; no longer counted when dropped.
pub struct Held {
    bytes: u64,
    in_all: Arc<AtomicU64>,
}

impl Held {
    /// So many bytes are kept now.
    pub fn set(&mut self, bytes: u64) {
        self.in_all.fetch_add(bytes, Ordering::Relaxed);
        self.in_all.fetch_sub(self.bytes, Ordering::Relaxed);
        self.bytes = bytes;
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.in_all.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}
