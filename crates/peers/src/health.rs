//! Is a peer alive?
//!
//! A peer is dead after [`FAILURES`] failures within [`WITHIN`] without a success after any of them, or when a check of its health path fails.
//! It is alive again after one successful probe (`fetch/probing`), so no client waits for a dead peer. Requests to a live peer only read
//! an atomic.
//!
//! Not known here: sockets; what counts as a failure.

use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};

use base::clock::Instant;

/// Failures within [`WITHIN`] that make a peer dead.
pub const FAILURES: usize = 3;
/// The time within which [`FAILURES`] failures make a peer dead.
pub const WITHIN: Duration = Duration::from_secs(10);

/// The health of one peer, shared by all workers.
#[derive(Default)]
pub struct Health {
    is_dead: AtomicBool,
    /// Failures since the last success; up to [`FAILURES`].
    failed: AtomicU32,
    /// The last failures, oldest first.
    last: Mutex<Vec<Instant>>,
    /// A probe is under way.
    is_probed: AtomicBool,
}

/// The effect of an event on a peer's health.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    /// Nothing.
    None,
    /// It was alive, and is dead now.
    Died,
    /// It was dead, and is alive now.
    Returned,
}

impl Health {
    /// May requests be sent to it?
    pub fn is_alive(&self) -> bool {
        !self.is_dead.load(Ordering::Relaxed)
    }

    /// A request has failed.
    pub fn failed(&self, now: Instant) -> Change {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.retain(|at| now.saturating_duration_since(*at) < WITHIN);
        last.push(now);
        self.failed.store(last.len() as u32, Ordering::Relaxed);
        match last.len() >= FAILURES {
            true => {
                last.clear();
                self.dies()
            }
            false => Change::None,
        }
    }

    /// A check of its health path has failed.
    pub fn is_ill(&self) -> Change {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.clear();
        self.dies()
    }

    /// It has answered a request. This does not make a dead peer alive: the request may be older than the failures.
    pub fn answered(&self) {
        // Load first: a store by every request would make the workers pass the cache line around.
        if self.failed.load(Ordering::Relaxed) != 0 {
            let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
            last.clear();
            self.failed.store(0, Ordering::Relaxed);
        }
    }

    /// It has answered a probe.
    pub fn is_well(&self) -> Change {
        self.answered();
        match self.is_dead.swap(false, Ordering::Relaxed) {
            true => Change::Returned,
            false => Change::None,
        }
    }

    /// Failures since the last success, at most [`FAILURES`].
    pub fn failures(&self) -> u32 {
        self.failed.load(Ordering::Relaxed)
    }

    /// Begins a probe, unless one is under way. If true, the caller must call [`Self::end_probe`].
    pub fn begin_probe(&self) -> bool {
        !self.is_probed.swap(true, Ordering::Relaxed)
    }

    /// Ends a probe.
    pub fn end_probe(&self) {
        self.is_probed.store(false, Ordering::Relaxed);
    }

    fn dies(&self) -> Change {
        match self.is_dead.swap(true, Ordering::Relaxed) {
            true => Change::None,
            false => Change::Died,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_failures_in_ten_seconds_and_one_success() {
        let (health, begin) = (Health::default(), Instant::now());
        let at = |s: u64| begin + Duration::from_secs(s);
        assert_eq!(health.failed(at(0)), Change::None);
        assert_eq!(health.failed(at(1)), Change::None);
        assert!(health.is_alive());
        assert_eq!(health.failed(at(9)), Change::Died);
        assert_eq!(
            health.failed(at(9)),
            Change::None,
            "dead is dead: no news of it"
        );
        assert!(!health.is_alive());
        health.answered();
        assert!(!health.is_alive(), "a request of before");
        assert_eq!(health.is_well(), Change::Returned);
        assert!(health.is_alive());
        assert_eq!(health.failed(at(10)), Change::None, "it counts from anew");
    }

    #[test]
    fn failures_that_lie_apart_or_are_followed_by_a_success_do_not_count() {
        let (health, begin) = (Health::default(), Instant::now());
        for s in (0..60).step_by(5) {
            let change = health.failed(begin + Duration::from_secs(s));
            assert_eq!(change, Change::None, "{s}");
        }
        let health = Health::default();
        for _ in 0..10 {
            assert_eq!(health.failed(begin), Change::None);
            assert_eq!(health.failed(begin), Change::None);
            health.answered();
        }
    }

    #[test]
    fn a_failing_health_path_is_death_at_once_and_probes_do_not_pile_up() {
        let health = Health::default();
        assert_eq!(
            (health.is_ill(), health.is_ill()),
            (Change::Died, Change::None)
        );
        assert!(health.begin_probe() && !health.begin_probe());
        health.end_probe();
        assert!(health.begin_probe());
    }
}
