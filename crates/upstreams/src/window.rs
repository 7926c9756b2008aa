//! Two counts over the last ten seconds: of all events, and of some of them.
//!
//! Ten slots of a second each. Events older than ten seconds are forgotten a second at a time.

use base::clock::Instant;

/// The length of the window, seconds.
pub const SECONDS: usize = 10;

/// The counts of all events, and of some of them, over the last [`SECONDS`].
pub struct Window {
    began: Instant,
    /// The second of the newest slot, since `began`.
    second: u64,
    slots: [(u32, u32); SECONDS],
}

impl Window {
    /// An empty window.
    pub fn new(now: Instant) -> Window {
        Window {
            began: now,
            second: 0,
            slots: [(0, 0); SECONDS],
        }
    }

    /// Counts `all` events, of which `some` are of the second kind.
    pub fn add(&mut self, all: u32, some: u32, now: Instant) {
        self.turn(now);
        let slot = &mut self.slots[self.second as usize % SECONDS];
        slot.0 = slot.0.saturating_add(all);
        slot.1 = slot.1.saturating_add(some);
    }

    /// The two counts.
    pub fn counts(&mut self, now: Instant) -> (u64, u64) {
        self.turn(now);
        self.slots.iter().fold((0, 0), |(all, some), slot| {
            (all + u64::from(slot.0), some + u64::from(slot.1))
        })
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.slots = [(0, 0); SECONDS];
    }

    fn turn(&mut self, now: Instant) {
        let second = now.saturating_duration_since(self.began).as_secs();
        // Another thread may have read its clock earlier. Its events count for the newest second.
        let passed = second.saturating_sub(self.second).min(SECONDS as u64);
        for ahead in 1..=passed {
            let at = (second.saturating_sub(passed) + ahead) as usize % SECONDS;
            self.slots[at] = (0, 0);
        }
        self.second = self.second.max(second);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn what_is_older_than_ten_seconds_is_forgotten_a_second_at_a_time() {
        let began = Instant::now();
        let at = |ms: u64| began + Duration::from_millis(ms);
        let mut window = Window::new(began);
        window.add(3, 1, at(0));
        window.add(2, 2, at(1500));
        assert_eq!(window.counts(at(9999)), (5, 3));
        assert_eq!(window.counts(at(10_000)), (2, 2));
        window.add(1, 0, at(9000));
        assert_eq!(window.counts(at(10_999)), (3, 2));
        assert_eq!(window.counts(at(11_000)), (1, 0));
        assert_eq!(window.counts(at(3_600_000)), (0, 0));
        window.add(1, 1, at(3_600_000));
        window.clear();
        assert_eq!(window.counts(at(3_600_000)), (0, 0));
    }
}
