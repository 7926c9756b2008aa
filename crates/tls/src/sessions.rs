//! Sessions of a listener that answers early data: kept in memory, each resumed once.
//!
//! An observer of the network can replay a client's hello, together with the early request. A session sealed in a ticket would be
//! resumed by each replay. A session kept here is removed at its first use: a replayed hello leads to a full handshake, and its early
//! data is not even decrypted.
//!
//! Not known here: handshakes, which early requests are answered.
//!
//! Limits: [`AGE_MAX`], then a client must show its certificate again; `limits.tls-sessions` bytes: the oldest are dropped, counted, not resumed.

use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use rustls::server::StoresServerSessions;

use base::clock::Instant;
use record::metrics::SESSIONS_FORGOTTEN;

/// The age after which a session is not resumed, equal to the longest life of a ticket.
pub const AGE_MAX: Duration = Duration::from_secs(12 * 3600);

/// Memory of a session besides its key, twice, and its value: two entries, and allocations.
const SESSION_BYTES: usize = 160;

/// The sessions of listeners with the same demands on clients.
#[derive(Debug)]
pub struct Sessions {
    bytes_max: AtomicU64,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    sessions: HashMap<Vec<u8>, Session>,
    /// The oldest first. Sessions that were taken since are still listed.
    turns: VecDeque<(u64, Vec<u8>)>,
    turn: u64,
    bytes: usize,
}

#[derive(Debug)]
struct Session {
    /// Its number in `turns`.
    turn: u64,
    since: Instant,
    value: Vec<u8>,
}

impl Session {
    fn is_old(&self) -> bool {
        self.since.elapsed() >= AGE_MAX
    }
}

fn bytes_of(key: &[u8], value: &[u8]) -> usize {
    2 * key.len() + value.len() + SESSION_BYTES
}

impl Sessions {
    /// No sessions yet.
    pub fn new(bytes_max: u64) -> Sessions {
        Sessions {
            bytes_max: AtomicU64::new(bytes_max),
            kept: Mutex::default(),
        }
    }

    /// Applies a new bound.
    pub fn limit(&self, bytes_max: u64) {
        self.bytes_max.store(bytes_max, Ordering::Relaxed);
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(test)]
    fn counts(&self) -> (usize, usize, usize) {
        let kept = self.lock();
        (kept.sessions.len(), kept.turns.len(), kept.bytes)
    }
}

impl Kept {
    fn remove(&mut self, key: &[u8]) -> Option<Session> {
        let session = self.sessions.remove(key)?;
        self.bytes -= bytes_of(key, &session.value);
        Some(session)
    }

    fn is_there(&self, turn: u64, key: &[u8]) -> bool {
        self.sessions.get(key).is_some_and(|it| it.turn == turn)
    }

    /// Drops the oldest session. False: there is none.
    fn forget_one(&mut self) -> bool {
        while let Some((turn, key)) = self.turns.pop_front() {
            if self.is_there(turn, &key) {
                let was_good = self.remove(&key).is_some_and(|session| !session.is_old());
                SESSIONS_FORGOTTEN.fetch_add(u64::from(was_good), Ordering::Relaxed);
                return true;
            }
        }
        false
    }

    /// Removes turns without a session. Most sessions are used once and leave their turn behind.
    fn drop_turns_of_the_taken(&mut self) {
        if self.turns.len() > 2 * self.sessions.len() + 64 {
            let mut turns = std::mem::take(&mut self.turns);
            turns.retain(|(turn, key)| self.is_there(*turn, key));
            self.turns = turns;
        }
    }
}

impl StoresServerSessions for Sessions {
    fn put(&self, key: Vec<u8>, value: Vec<u8>) -> bool {
        let bytes = bytes_of(&key, &value);
        let bytes_max = usize::try_from(self.bytes_max.load(Ordering::Relaxed));
        let bytes_max = bytes_max.unwrap_or(usize::MAX);
        let kept = &mut *self.lock();
        kept.remove(&key);
        while kept.bytes + bytes > bytes_max {
            if !kept.forget_one() {
                return false;
            }
        }
        kept.drop_turns_of_the_taken();
        kept.turn += 1;
        kept.bytes += bytes;
        kept.turns.push_back((kept.turn, key.clone()));
        let session = Session {
            turn: kept.turn,
            since: Instant::now(),
            value,
        };
        kept.sessions.insert(key, session);
        true
    }

    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        let kept = self.lock();
        let session = kept.sessions.get(key).filter(|it| !it.is_old())?;
        Some(session.value.clone())
    }

    fn take(&self, key: &[u8]) -> Option<Vec<u8>> {
        let session = self.lock().remove(key);
        session.filter(|it| !it.is_old()).map(|it| it.value)
    }

    fn can_cache(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(n: u32) -> Vec<u8> {
        n.to_le_bytes().repeat(8)
    }

    #[test]
    fn a_session_is_taken_once() {
        let sessions = Sessions::new(1 << 20);
        assert!(sessions.put(key(1), b"one".to_vec()));
        assert_eq!(sessions.get(&key(1)), Some(b"one".to_vec()));
        assert_eq!(sessions.take(&key(1)), Some(b"one".to_vec()));
        assert_eq!(sessions.take(&key(1)), None);
        assert_eq!(sessions.counts().2, 0);
    }

    #[test]
    fn one_that_is_old_is_not_resumed() {
        let sessions = Sessions::new(1 << 20);
        for n in 0..2 {
            sessions.put(key(n), b"one".to_vec());
        }
        let before = Instant::now().checked_sub(AGE_MAX).unwrap();
        for session in sessions.lock().sessions.values_mut() {
            session.since = before;
        }
        assert_eq!(sessions.get(&key(0)), None);
        assert_eq!(sessions.take(&key(1)), None);
        sessions.put(key(2), b"two".to_vec());
        assert_eq!(sessions.take(&key(2)), Some(b"two".to_vec()));
    }

    #[test]
    fn the_oldest_make_room_and_what_was_taken_leaves_nothing() {
        let each = bytes_of(&key(0), &[0; 200]);
        let sessions = Sessions::new(10 * each as u64);
        let before = SESSIONS_FORGOTTEN.load(Ordering::Relaxed);
        for n in 0..100_000 {
            assert!(sessions.put(key(n), vec![0; 200]));
            if n % 3 > 0 {
                assert!(sessions.take(&key(n)).is_some());
            }
            let (count, turns, bytes) = sessions.counts();
            assert!(count <= 10 && bytes == count * each, "{count}, {bytes}");
            assert!(turns <= 2 * 10 + 65, "{turns}");
        }
        assert!(SESSIONS_FORGOTTEN.load(Ordering::Relaxed) - before >= 30_000);
        assert!(sessions.get(&key(99_999)).is_some());
        assert!(sessions.get(&key(99_999 - 3 * 11)).is_none());
        // A session stored again counts as new.
        assert!(sessions.put(key(99_972), vec![1; 200]));
        for n in 0..9 {
            assert!(sessions.put(key(1_000_000 + n), vec![0; 200]));
        }
        assert_eq!(sessions.get(&key(99_972)), Some(vec![1; 200]));
        sessions.limit(2 * each as u64);
        assert!(sessions.put(key(7), vec![0; 200]));
        assert_eq!(sessions.counts().0, 2);
        assert!(!sessions.put(key(8), vec![0; 3 * each]), "more than all");
    }
}
