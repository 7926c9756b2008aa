//! Keys whose last answer could not be shared, so that nobody waits for the next one in vain.
//!
//! A request that joins a fetch and finds that its answer is for somebody else has lost a round trip, and so has
//! everybody who waited with it. A key that brought such an answer is remembered; requests for it fetch for themselves
//! at once (others call this hit-for-pass). They lose nothing but company: what they bring is stored if it may be, and
//! then the key is forgotten here. So it is when it is invalidated, and after [`REMEMBERED`].
//!
//! Errors of the origin (5xx) do not count: an origin in trouble is not helped by more requests.
//!
//! Limits: [`KEYS_MAX`] keys in all; a full shard begins anew. Two keys of one hash are taken for one.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use httpcache::NotStorable;
use store::KeyHash;

/// For how long a key is remembered.
pub const REMEMBERED: Duration = Duration::from_secs(120);
/// The most keys.
pub const KEYS_MAX: usize = 16 << 10;

const SHARDS: usize = 16;

/// Hash of a key to the moment at which it is forgotten.
type Table = HashMap<u64, Instant>;

/// The keys, for the whole process.
#[derive(Default)]
pub struct Unshared {
    shards: [Mutex<Table>; SHARDS],
}

impl Unshared {
    fn shard(&self, key: KeyHash) -> MutexGuard<'_, Table> {
        self.shards[(key.0 >> 32) as usize & (SHARDS - 1)]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Did its last answer concern nobody else?
    pub fn contains(&self, key: KeyHash, now: Instant) -> bool {
        let mut shard = self.shard(key);
        match shard.get(&key.0) {
            Some(until) if now < *until => true,
            Some(_) => {
                shard.remove(&key.0);
                false
            }
            None => false,
        }
    }

    /// Takes note of an answer. True: nobody waits for the next one.
    pub fn note(
        &self,
        key: KeyHash,
        status: u16,
        storable: Result<(), NotStorable>,
        now: Instant,
    ) -> bool {
        match storable {
            Ok(()) => self.forget(key),
            Err(why) if status < 500 && is_lasting(why) => {
                let mut shard = self.shard(key);
                if shard.len() >= KEYS_MAX / SHARDS {
                    shard.retain(|_, until| now < *until);
                    if shard.len() >= KEYS_MAX / SHARDS {
                        shard.clear();
                    }
                }
                shard.insert(key.0, now + REMEMBERED);
                return true;
            }
            Err(_) => {}
        }
        false
    }

    /// The next answer may be another one.
    pub fn forget(&self, key: KeyHash) {
        self.shard(key).remove(&key.0);
    }
}

/// Is it likely that the next answer is not storable either, whoever asks?
fn is_lasting(why: NotStorable) -> bool {
    !matches!(
        why,
        NotStorable::Method | NotStorable::RequestNoStore | NotStorable::Range
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: KeyHash = KeyHash(7);

    #[test]
    fn an_answer_for_one_is_remembered_until_there_is_one_for_all() {
        let (keys, now) = (Unshared::default(), Instant::now());
        assert!(!keys.contains(A, now));
        keys.note(A, 200, Err(NotStorable::Private), now);
        assert!(keys.contains(A, now));
        keys.note(A, 200, Ok(()), now);
        assert!(!keys.contains(A, now));
        keys.note(A, 200, Err(NotStorable::NoStore), now);
        keys.forget(A);
        assert!(!keys.contains(A, now));
    }

    #[test]
    fn it_is_forgotten_after_a_while() {
        let (keys, now) = (Unshared::default(), Instant::now());
        keys.note(A, 200, Err(NotStorable::NoStore), now);
        assert!(!keys.contains(A, now + REMEMBERED));
    }

    #[test]
    fn neither_failures_nor_whims_of_the_client_count() {
        let (keys, now) = (Unshared::default(), Instant::now());
        keys.note(A, 503, Err(NotStorable::Status), now);
        keys.note(A, 200, Err(NotStorable::RequestNoStore), now);
        assert!(!keys.contains(A, now));
    }

    #[test]
    fn the_table_is_bounded() {
        let (keys, now) = (Unshared::default(), Instant::now());
        for n in 0..(2 * KEYS_MAX as u64) {
            keys.note(KeyHash(n), 200, Err(NotStorable::NoStore), now);
        }
        let kept: usize = keys.shards.iter().map(|s| s.lock().unwrap().len()).sum();
        assert!(kept <= KEYS_MAX);
    }
}
