//! Heartbeats of threads, and how long ago the last one was.
//!
//! A beat is one store to memory, so supervision (`watch`, the admin interface) costs the workers nothing.

use crate::clock::Instant;
use std::{
    path::PathBuf,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

/// When a thread last made progress.
#[derive(Debug)]
pub struct Pulse {
    base: Instant,
    beat_ms: AtomicU64,
}

impl Default for Pulse {
    fn default() -> Self {
        Pulse {
            base: Instant::now(),
            beat_ms: AtomicU64::new(0),
        }
    }
}

impl Pulse {
    /// Notes that the thread makes progress.
    pub fn beat(&self) {
        self.beat_ms.store(self.now_ms(), Relaxed);
    }

    /// The time since the last beat, or since the pulse was made.
    pub fn age(&self) -> Duration {
        Duration::from_millis(self.now_ms().saturating_sub(self.beat_ms.load(Relaxed)))
    }

    /// A pulse whose last beat was this long ago.
    pub fn still_for(age: Duration) -> Pulse {
        Pulse {
            base: Instant::now() - age,
            beat_ms: AtomicU64::new(0),
        }
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.base.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

/// The background work of one store: how many jobs are under way, and when the last one ended.
#[derive(Debug)]
pub struct StoreWork {
    /// The store's file or device.
    pub path: PathBuf,
    under_way: AtomicU64,
    moved: Pulse,
}

impl StoreWork {
    /// No work yet.
    pub fn of(path: PathBuf) -> StoreWork {
        StoreWork {
            path,
            under_way: AtomicU64::new(0),
            moved: Pulse::default(),
        }
    }

    /// A job begins.
    pub fn begin(&self) {
        if self.under_way.fetch_add(1, Relaxed) == 0 {
            self.moved.beat();
        }
    }

    /// A job has ended.
    pub fn end(&self) {
        self.moved.beat();
        self.under_way.fetch_sub(1, Relaxed);
    }

    /// How long work has been under way without a job ending.
    pub fn still_for(&self) -> Duration {
        match self.under_way.load(Relaxed) {
            0 => Duration::ZERO,
            _ => self.moved.age(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_without_work_is_not_still() {
        let work = StoreWork::of("store".into());
        while work.moved.age() < Duration::from_millis(3) {
            std::thread::yield_now();
        }
        assert!(work.still_for().is_zero());
        work.begin();
        assert!(work.still_for() < Duration::from_millis(3));
        while work.still_for() < Duration::from_millis(3) {
            std::thread::yield_now();
        }
        work.end();
        assert!(work.still_for().is_zero());
    }
}
