//! What time it is, as far as caching is concerned.
//!
//! Ages, lifetimes and `Date` are counted in wall time. [`Clock::default`] is the system's; a clock that is held stands
//! still until somebody moves it, so that a test can let an hour pass between two requests and know each age exactly.
//! Whoever moves it must not turn it back.
//!
//! Not known here: how long a wait may last (`deadline`), the age of what the stores do in the background: both go by
//! real time.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// The system's clock, or one that is moved by hand. Copies of a held clock move together.
#[derive(Clone, Debug, Default)]
pub struct Clock(Option<Arc<AtomicU64>>);

impl Clock {
    /// One that stands at this time, milliseconds since 1970.
    pub fn held_at(unix_ms: u64) -> Clock {
        Clock(Some(Arc::new(AtomicU64::new(unix_ms))))
    }

    /// Moves a held clock forward; does nothing to the system's.
    pub fn advance(&self, by: Duration) {
        if let Some(held) = &self.0 {
            held.fetch_add(by.as_millis() as u64, Ordering::SeqCst);
        }
    }

    /// Time since 1970.
    pub fn now(&self) -> Duration {
        self.held().unwrap_or_else(|| {
            SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .unwrap_or_default()
        })
    }

    /// Where a held clock stands.
    #[inline]
    pub(crate) fn held(&self) -> Option<Duration> {
        let held = self.0.as_ref()?;
        Some(Duration::from_millis(held.load(Ordering::SeqCst)))
    }
}

/// The system's wall time, milliseconds since 1970: for what the stores do in the background.
pub fn unix_ms() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_millis() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_of_a_held_clock_move_together() {
        let clock = Clock::held_at(1_000);
        let copy = clock.clone();
        clock.advance(Duration::from_secs(60));
        assert_eq!(copy.now(), Duration::from_secs(61));
        assert_eq!(copy.now(), copy.now());
    }

    #[test]
    fn the_systems_clock_is_not_moved() {
        let clock = Clock::default();
        clock.advance(Duration::from_secs(1 << 40));
        assert!(clock.now() < Duration::from_secs(1 << 40));
    }
}
