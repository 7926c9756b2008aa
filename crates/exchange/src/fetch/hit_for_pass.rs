//! Hit-for-pass: keys whose last answer could not be shared. Requests for them do not wait for each other in vain.
//!
//! A request that joins a fetch and may not have its answer loses a round trip, and so do all requests that waited with it. So the key
//! of such an answer is remembered, and requests for it are fetched separately at once. Their answers are still stored where
//! allowed; a stored one removes the key from this table. An invalidation also removes the key, and every key is dropped
//! after [`REMEMBERED`].
//!
//! The answer to a logged-in client says nothing about other clients. So a key is remembered for the kind of client that
//! asked ([`Party`]); for all clients only if the answer to a client without credentials could not be shared.
//!
//! Errors of the origin (5xx) do not count: more requests would not help an origin in trouble.
//!
//! Limits: [`KEYS_MAX`] keys in all; beyond that the oldest is dropped, and its next requests wait once in vain (counted,
//! `flights_hit_for_pass_dropped`). Two keys with one hash count as one.

use base::clock::Instant;
use std::{
    collections::{HashMap, VecDeque},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use fields::Fields;
use httpcache::NotStorable;
use store::KeyHash;

/// How long a key is remembered.
pub const REMEMBERED: Duration = Duration::from_secs(120);
/// The most keys.
pub const KEYS_MAX: usize = 16 << 10;

const SHARDS: usize = 16;

/// The kind of client that an answer may have been made for, by its request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Party {
    /// Any client.
    Stranger,
    /// A client that the origin may know by a cookie.
    WithCookie,
    /// A client that sent Authorization. Such clients share no fetch with others.
    Authorised,
}

impl Party {
    /// The party of the client that sent these fields.
    pub fn of(request: &Fields) -> Party {
        if request.contains(b"authorization") {
            Party::Authorised
        } else if request.contains(b"cookie") {
            Party::WithCookie
        } else {
            Party::Stranger
        }
    }

    /// The key under which requests of this party share a fetch: those with Authorization only among themselves.
    pub fn key(self, mut key: Vec<u8>) -> Vec<u8> {
        if self == Party::Authorised {
            key.extend_from_slice(b"\nauthorization");
        }
        key
    }

    /// The key under which an answer to this party is remembered.
    fn of_key(self, key: KeyHash) -> KeyHash {
        // Arbitrary constants that keep the three parties apart.
        KeyHash(match self {
            Party::Stranger => key.0,
            Party::WithCookie => key.0 ^ 0x9E37_79B9_7F4A_7C15,
            Party::Authorised => key.0 ^ 0xC2B2_AE3D_27D4_EB4F,
        })
    }
}

/// The effect of an answer on the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Noted {
    /// The next answer may be shared.
    No,
    /// Requests do not wait for the next answer.
    Yes,
    /// Like `Yes`; the oldest key was dropped to make room.
    Dropped,
}

/// A shard of the table. All keys are remembered equally long, so the queue is in the order of noting and of forgetting.
#[derive(Default)]
struct Table {
    /// When each key is forgotten.
    keys: HashMap<u64, Instant>,
    /// In order of expiry. A key that was removed or noted again keeps its old queue entry until that expires.
    queue: VecDeque<(u64, Instant)>,
}

impl Table {
    fn note(&mut self, key: u64, now: Instant) -> Noted {
        let Self { keys, queue } = self;
        if queue.len() >= 2 * KEYS_MAX / SHARDS {
            // A key noted several times is in the queue more often than in the table.
            queue.retain(|(key, until)| keys.get(key) == Some(until));
        }
        while let Some(&(oldest, until)) = queue.front().filter(|(_, until)| *until <= now) {
            queue.pop_front();
            if keys.get(&oldest) == Some(&until) {
                keys.remove(&oldest);
            }
        }
        let mut noted = Noted::Yes;
        while keys.len() >= KEYS_MAX / SHARDS && !keys.contains_key(&key) {
            let Some((oldest, until)) = queue.pop_front() else {
                break;
            };
            if keys.get(&oldest) == Some(&until) {
                keys.remove(&oldest);
                noted = Noted::Dropped;
            }
        }
        let until = now + REMEMBERED;
        if keys.insert(key, until) != Some(until) {
            queue.push_back((key, until));
        }
        noted
    }
}

/// The table, for the whole process.
#[derive(Default)]
pub struct HitForPass {
    shards: [Mutex<Table>; SHARDS],
}

impl HitForPass {
    fn shard(&self, key: KeyHash) -> MutexGuard<'_, Table> {
        self.shards[(key.0 >> 32) as usize & (SHARDS - 1)]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn has(&self, key: KeyHash, now: Instant) -> bool {
        let shard = self.shard(key);
        shard.keys.get(&key.0).is_some_and(|until| now < *until)
    }

    /// Could the last answer to a client without credentials, or to this party, not be shared?
    pub fn contains(&self, key: KeyHash, party: Party, now: Instant) -> bool {
        self.has(key, now) || (party != Party::Stranger && self.has(party.of_key(key), now))
    }

    /// Notes an answer to a client of this party.
    pub fn note(
        &self,
        key: KeyHash,
        party: Party,
        status: u16,
        storable: Result<(), NotStorable>,
        now: Instant,
    ) -> Noted {
        let own = party.of_key(key);
        match storable {
            Ok(()) => {
                self.remove(key);
                if own.0 != key.0 {
                    self.remove(own);
                }
                Noted::No
            }
            Err(why) if status < 500 && is_lasting(why) => self.shard(own).note(own.0, now),
            Err(_) => Noted::No,
        }
    }

    fn remove(&self, key: KeyHash) {
        let mut shard = self.shard(key);
        // The shard is nearly always empty: then not even a hash is computed.
        if !shard.keys.is_empty() {
            shard.keys.remove(&key.0);
        }
    }

    /// Removes the key, after an invalidation: its next answer may be shareable.
    pub fn forget(&self, key: KeyHash) {
        for party in [Party::Stranger, Party::WithCookie, Party::Authorised] {
            self.remove(party.of_key(key));
        }
    }
}

/// Will the next answer probably not be storable either, whichever client asks?
fn is_lasting(why: NotStorable) -> bool {
    !matches!(
        why,
        NotStorable::Method | NotStorable::RequestNoStore | NotStorable::Range
    )
}

#[cfg(test)]
mod tests {
    use super::{Party::*, *};

    const A: KeyHash = KeyHash(7);

    #[test]
    fn an_answer_for_one_is_remembered_until_there_is_one_for_all() {
        let (keys, now) = (HitForPass::default(), Instant::now());
        assert!(!keys.contains(A, Stranger, now));
        keys.note(A, Stranger, 200, Err(NotStorable::Private), now);
        assert!(keys.contains(A, Stranger, now));
        keys.note(A, Stranger, 200, Ok(()), now);
        assert!(!keys.contains(A, Stranger, now));
        keys.note(A, Stranger, 200, Err(NotStorable::NoStore), now);
        keys.forget(A);
        assert!(!keys.contains(A, Stranger, now));
    }

    #[test]
    fn the_answer_to_one_who_is_known_says_nothing_of_strangers() {
        let (keys, now) = (HitForPass::default(), Instant::now());
        for (party, other) in [(WithCookie, Authorised), (Authorised, WithCookie)] {
            keys.note(A, party, 200, Err(NotStorable::Private), now);
            assert!(keys.contains(A, party, now));
            assert!(!keys.contains(A, other, now));
            assert!(!keys.contains(A, Stranger, now));
            keys.forget(A);
            assert!(!keys.contains(A, party, now));
        }
        keys.note(A, Stranger, 200, Err(NotStorable::Private), now);
        assert!(keys.contains(A, WithCookie, now) && keys.contains(A, Authorised, now));
    }

    #[test]
    fn it_is_forgotten_after_a_while() {
        let (keys, now) = (HitForPass::default(), Instant::now());
        keys.note(A, Stranger, 200, Err(NotStorable::NoStore), now);
        assert!(!keys.contains(A, Stranger, now + REMEMBERED));
    }

    #[test]
    fn neither_failures_nor_whims_of_the_client_count() {
        let (keys, now) = (HitForPass::default(), Instant::now());
        keys.note(A, Stranger, 503, Err(NotStorable::Status), now);
        keys.note(A, Stranger, 200, Err(NotStorable::RequestNoStore), now);
        assert!(!keys.contains(A, Stranger, now));
    }

    #[test]
    fn the_table_is_bounded_and_the_oldest_makes_room() {
        let (keys, now) = (HitForPass::default(), Instant::now());
        let spread = |n: u64| KeyHash(n << 32);
        let all = KEYS_MAX as u64;
        let note = |n| keys.note(spread(n), Stranger, 200, Err(NotStorable::NoStore), now);
        for n in 0..all {
            assert_eq!(note(n), Noted::Yes, "{n}");
        }
        for n in all..all + 100 {
            assert_eq!(note(n), Noted::Dropped, "{n}");
        }
        for n in 0..all + 100 {
            assert_eq!(keys.contains(spread(n), Stranger, now), n >= 100, "{n}");
        }
        // A key that is noted again and again does not push out others.
        for _ in 0..10 * KEYS_MAX {
            note(all + 99);
        }
        let queued = |shard: &Mutex<Table>| shard.lock().unwrap().queue.len();
        assert!(keys.shards.iter().map(queued).sum::<usize>() <= 2 * KEYS_MAX);
        assert!(keys.contains(spread(all + 98), Stranger, now));
        for n in 0..all {
            note(n);
        }
        let kept = |shard: &Mutex<Table>| shard.lock().unwrap().keys.len();
        assert!(keys.shards.iter().map(kept).sum::<usize>() <= KEYS_MAX);
    }
}
