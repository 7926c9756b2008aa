//! The time that caching counts by.
//!
//! Ages, lifetimes and `Date` are counted in wall time. [`Clock::default`] is the system's clock. A held clock stands
//! still until a caller moves it, so a test can let an hour pass between two requests and know each age exactly.
//! A held clock must not be turned back.
//!
//! Waits and the ages in the stores are counted by [`Instant`] and [`unix_ms`]. In a simulation both follow the virtual clock of the
//! runtime; otherwise they are the system's.
//!
//! Not known here: how long a wait may last (`deadline`).

use std::{
    cell::Cell,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// A moment of the monotonic clock. It is the standard library's, unless a simulation has paused the runtime's clock: a paused clock
/// moves only when the simulation advances it.
pub use tokio::time::Instant;

#[cfg(feature = "simulation")]
thread_local! {
    /// When this thread's virtual wall clock was set, and the time it was set to.
    static VIRTUAL: std::cell::Cell<Option<(Instant, Duration)>> = const { std::cell::Cell::new(None) };
}

/// From now on wall time on this thread is `unix`, and moves with [`Instant`].
#[cfg(feature = "simulation")]
pub fn follow_virtual_time(unix: Duration) {
    VIRTUAL.set(Some((Instant::now(), unix)));
}

/// The system's wall time, since 1970.
pub fn unix() -> Duration {
    #[cfg(feature = "simulation")]
    if let Some((began, unix)) = VIRTUAL.get() {
        return unix + began.elapsed();
    }
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
}

/// The system's wall time in milliseconds since 1970.
pub fn unix_ms() -> u64 {
    unix().as_millis() as u64
}

/// Milliseconds since boot, including suspend. Compared with [`Instant`], it shows how long the machine was suspended.
#[inline]
pub fn boot_ms() -> u64 {
    #[cfg(feature = "simulation")]
    if let Some((began, _)) = VIRTUAL.get() {
        return began.elapsed().as_millis() as u64;
    }
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    seconds * 1000 + u64::try_from(time.tv_nsec).unwrap_or_default() / 1_000_000
}

/// The system's clock, or a held clock that is moved by hand. Copies of a held clock move together.
#[derive(Clone, Debug, Default)]
pub struct Clock(Option<Arc<AtomicU64>>);

impl Clock {
    /// A clock that stands at this time, in milliseconds since 1970.
    pub fn held_at(unix_ms: u64) -> Clock {
        Clock(Some(Arc::new(AtomicU64::new(unix_ms))))
    }

    /// Moves a held clock forward; does nothing to the system's clock.
    pub fn advance(&self, by: Duration) {
        if let Some(held) = &self.0 {
            held.fetch_add(by.as_millis() as u64, Ordering::SeqCst);
        }
    }

    /// Time since 1970.
    pub fn now(&self) -> Duration {
        self.held().unwrap_or_else(unix)
    }

    /// The time of a held clock; `None` for the system's clock.
    #[inline]
    pub fn held(&self) -> Option<Duration> {
        let held = self.0.as_ref()?;
        Some(Duration::from_millis(held.load(Ordering::SeqCst)))
    }
}

/// Wall time for moments of the monotonic clock, for one thread. The clock itself is read once a second.
pub struct WallClock {
    clock: Clock,
    /// The moment of the last reading, and the wall time then.
    read: Cell<(Instant, Duration)>,
}

impl WallClock {
    /// Follows `clock`.
    pub fn new(clock: Clock) -> WallClock {
        let read = Cell::new((Instant::now(), clock.now()));
        WallClock { clock, read }
    }

    /// Reads the clock again, to follow changes made by hand or by NTP.
    pub fn read(&self) {
        let unix = self.clock.now();
        self.read.set((Instant::now(), unix));
    }

    /// Wall time at this moment, since 1970.
    #[inline]
    pub fn at(&self, at: Instant) -> Duration {
        if let Some(held) = self.clock.held() {
            return held;
        }
        let (base, unix) = self.read.get();
        match at.checked_duration_since(base) {
            Some(since) => unix + since,
            // Before the last reading of the clock: the start of a request that took a while.
            None => unix.saturating_sub(base.duration_since(at)),
        }
    }

    /// [`Self::at`] in milliseconds.
    #[inline]
    pub fn ms_at(&self, at: Instant) -> u64 {
        self.at(at).as_millis() as u64
    }
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
    fn time_since_the_machine_was_started_passes() {
        let (began_ms, began) = (boot_ms(), Instant::now());
        std::thread::sleep(Duration::from_millis(20));
        let past = Duration::from_millis(boot_ms() - began_ms);
        let is_about = past.abs_diff(began.elapsed()) < Duration::from_millis(500);
        assert!(began_ms > 0 && is_about, "{past:?}");
    }

    #[test]
    fn the_systems_clock_is_not_moved() {
        let clock = Clock::default();
        clock.advance(Duration::from_secs(1 << 40));
        assert!(clock.now() < Duration::from_secs(1 << 40));
    }
}
