//! Resources of which nothing could be kept in parts lately.
//!
//! A range of what is not stored is asked for in a widened form, since what comes is kept. Where nothing may be kept,
//! that would bring up to two fragments for each byte a client wants, again and again; so those are remembered, and passed
//! through as they are.
//!
//! Limits: a small table of a worker's own. What is pushed out of it, or has been in it for a minute, is tried again.

use std::cell::Cell;

use httpcache::UnixMillis;
use store::KeyHash;

/// Entries; a power of two.
const UNKEPT_MAX: usize = 1024;
/// How long an entry counts.
const UNKEPT_MS: u64 = 60_000;

/// The table.
pub struct Unkept(Box<[Cell<(KeyHash, u64)>]>);

impl Unkept {
    /// An empty table.
    pub fn new() -> Unkept {
        Unkept(
            (0..UNKEPT_MAX)
                .map(|_| Cell::new((KeyHash(0), 0)))
                .collect(),
        )
    }

    fn slot(&self, primary: KeyHash) -> &Cell<(KeyHash, u64)> {
        &self.0[primary.0 as usize & (UNKEPT_MAX - 1)]
    }

    /// Nothing of it could be kept.
    pub fn note(&self, primary: KeyHash, now: UnixMillis) {
        self.slot(primary).set((primary, now.0 + UNKEPT_MS));
    }

    /// Is it in here?
    pub fn contains(&self, primary: KeyHash, now: UnixMillis) -> bool {
        let (hash, until) = self.slot(primary).get();
        hash == primary && now.0 < until
    }
}

impl Default for Unkept {
    fn default() -> Self {
        Unkept::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_forgets_after_a_minute() {
        let unkept = Unkept::new();
        assert!(!unkept.contains(KeyHash(7), UnixMillis(0)));
        unkept.note(KeyHash(7), UnixMillis(5));
        assert!(unkept.contains(KeyHash(7), UnixMillis(60_004)));
        assert!(!unkept.contains(KeyHash(7), UnixMillis(60_005)));
        assert!(!unkept.contains(KeyHash(8), UnixMillis(6)));
    }
}
