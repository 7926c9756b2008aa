//! Limits a message to once a minute, however often there is reason for it.
//!
//! The events that a message is about must also be counted, so that suppressing messages hides nothing.

use std::sync::atomic::{AtomicU64, Ordering};

/// Seconds between two messages.
const EVERY_S: u64 = 60;

/// The time of the last message.
#[derive(Default, Debug)]
pub struct Seldom(AtomicU64);

impl Seldom {
    /// No message yet.
    pub const fn new() -> Seldom {
        Seldom(AtomicU64::new(0))
    }

    /// Is a message due at this wall time? If so, it counts as sent.
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
