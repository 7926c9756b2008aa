//! How many requests may be sent again: a tenth of those of the last ten seconds, but always a few.
//!
//! Without this bound, failing servers would get two or three times the requests just when they can bear least.
//!
//! Not known here: whether a request may be repeated at all, what went wrong.

use super::window::Window;
use base::clock::Instant;

/// The share of requests that may be sent again.
const PERCENT: u64 = 10;
/// This many repeats in ten seconds are always allowed, because a tenth of few requests is none.
const FREE: u64 = 50;

/// The requests and retries of an upstream.
pub struct Budget(Window);

impl Budget {
    /// A budget before the first request.
    pub fn new(now: Instant) -> Budget {
        Budget(Window::new(now))
    }

    /// Counts a request.
    pub fn request(&mut self, now: Instant) {
        self.0.add(1, 0, now);
    }

    /// Takes the right to send a request again. False: there is none.
    pub fn take(&mut self, now: Instant) -> bool {
        let (requests, retries) = self.0.counts(now);
        let may = retries < (requests * PERCENT / 100).max(FREE);
        self.0.add(0, u32::from(may), now);
        may
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_tenth_or_a_few_in_ten_seconds() {
        let began = Instant::now();
        let mut budget = Budget::new(began);
        let take_all = |budget: &mut Budget, now| (0..).take_while(|_| budget.take(now)).count();
        assert_eq!(take_all(&mut budget, began), 50);
        for _ in 0..900 {
            budget.request(began);
        }
        assert_eq!(take_all(&mut budget, began), 40);
        let later = began + Duration::from_secs(10);
        assert_eq!(take_all(&mut budget, later), 50);
    }
}
