//! Storing pauses after a failed write, and resumes by itself.
//!
//! The first failure pauses for [`PAUSE_MS_MIN`]; each that follows without a success between doubles it, up to
//! [`PAUSE_MS_MAX`]. Failures during a pause (writes that were already under way) do not lengthen it.

use crate::lock::lock;
use std::sync::Mutex;

const PAUSE_MS_MIN: u64 = 1_000;
const PAUSE_MS_MAX: u64 = 60_000;

#[derive(Debug, Default)]
pub(crate) struct Pause(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    from_ms: u64,
    length_ms: u64,
    succeeded: bool,
}

impl Pause {
    pub(crate) fn is_on(&self, now_ms: u64) -> bool {
        lock(&self.0).is_on(now_ms)
    }

    pub(crate) fn failed(&self, now_ms: u64) {
        let mut state = lock(&self.0);
        if state.is_on(now_ms) {
            return;
        }
        let again = if state.succeeded {
            0
        } else {
            state.length_ms * 2
        };
        *state = State {
            from_ms: now_ms,
            length_ms: again.clamp(PAUSE_MS_MIN, PAUSE_MS_MAX),
            succeeded: false,
        };
    }

    pub(crate) fn succeeded(&self) {
        lock(&self.0).succeeded = true;
    }
}

impl State {
    fn is_on(&self, now_ms: u64) -> bool {
        // If the clock was set back, the pause ends.
        now_ms
            .checked_sub(self.from_ms)
            .is_some_and(|passed| passed < self.length_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_until_a_write_succeeds() {
        let pause = Pause::default();
        assert!(!pause.is_on(0));
        pause.failed(100);
        pause.failed(200);
        assert!(pause.is_on(1099) && !pause.is_on(1100));
        pause.failed(2000);
        assert!(pause.is_on(3999) && !pause.is_on(4000));
        pause.succeeded();
        pause.failed(5000);
        assert!(pause.is_on(5999) && !pause.is_on(6000));
    }

    #[test]
    fn no_pause_is_longer_than_a_minute() {
        let pause = Pause::default();
        let mut now = 0;
        for _ in 0..20 {
            pause.failed(now);
            now += PAUSE_MS_MAX;
            assert!(!pause.is_on(now));
        }
    }
}
