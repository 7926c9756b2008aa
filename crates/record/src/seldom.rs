//! A sentence for people that is said once a minute at most, however often there is reason.
//!
//! Whatever it is about is counted, too, so that nothing is lost by that.

use std::sync::atomic::{AtomicU64, Ordering};

/// Seconds between two.
const EVERY_S: u64 = 60;

/// When it was said last.
#[derive(Default, Debug)]
pub struct Seldom(AtomicU64);

impl Seldom {
    /// Not said yet.
    pub const fn new() -> Seldom {
        Seldom(AtomicU64::new(0))
    }

    /// Is it to be said at this wall time? Then it counts as said.
    pub fn is_due(&self, now_s: u64) -> bool {
        let was_long_ago = |at: u64| (at == 0 || now_s.abs_diff(at) >= EVERY_S).then_some(now_s);
        let relaxed = Ordering::Relaxed;
        self.0.fetch_update(relaxed, relaxed, was_long_ago).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_said_once_a_minute() {
        let seldom = Seldom::new();
        let said: Vec<u64> = (1000..1130).filter(|&s| seldom.is_due(s)).collect();
        assert_eq!(said, [1000, 1060, 1120]);
    }
}
