//! Random numbers: from the system, or in a simulation from the seed of the run.
//!
//! Process-wide counters are advanced here as well, because two simulation runs in one process must not see each other's
//! counts.
//!
//! Not known here: what the numbers decide.

use std::sync::atomic::{AtomicU64, Ordering};

#[cfg(feature = "simulation")]
thread_local! {
    static SEEDED: std::cell::Cell<Option<u64>> = const { std::cell::Cell::new(None) };
    static COUNTED: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// From now on all random numbers on this thread are derived from `seed`.
#[cfg(feature = "simulation")]
pub fn follow_seed(seed: u64) {
    SEEDED.set(Some(seed));
    COUNTED.set(0);
}

/// SplitMix64.
#[cfg(feature = "simulation")]
fn seeded() -> Option<u64> {
    let state = SEEDED.get()?.wrapping_add(0x9e37_79b9_7f4a_7c15);
    SEEDED.set(Some(state));
    let mut z = state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    Some(z ^ (z >> 31))
}

/// Fills `out` with random bytes.
///
/// # Errors
/// The system gives no random numbers.
pub fn fill(out: &mut [u8]) -> Result<(), getrandom::Error> {
    #[cfg(feature = "simulation")]
    if SEEDED.get().is_some() {
        out.fill_with(|| seeded().unwrap_or_default() as u8);
        return Ok(());
    }
    getrandom::fill(out)
}

/// A random number.
///
/// # Errors
/// The system gives no random numbers.
pub fn u64() -> Result<u64, getrandom::Error> {
    let mut bytes = [0; 8];
    fill(&mut bytes)?;
    Ok(u64::from_le_bytes(bytes))
}

/// Advances a process-wide counter. A simulation has its own count for each thread.
pub fn count(counter: &AtomicU64) -> u64 {
    #[cfg(feature = "simulation")]
    if SEEDED.get().is_some() {
        COUNTED.set(COUNTED.get() + 1);
        return COUNTED.get();
    }
    counter.fetch_add(1, Ordering::Relaxed)
}
