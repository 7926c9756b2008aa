//! W-TinyLFU: an object enters the main part only if it is requested more often than the one it displaces.
//!
//! A sketch counts the uses of all objects, also of evicted ones. Newcomers begin in a small LRU window, so that a
//! burst of requests for a new object gets hits. An object that leaves the window is a *candidate* for the main part.
//! To choose a victim, the oldest candidate is compared with the object that the main part would evict. The one
//! with fewer uses is evicted, in a tie the candidate.
//!
//! ```text
//!   new --> window (1 %) --> candidates --?--> probation (20 % of main) <---> protected (80 % of main)
//!              LRU                         \       its oldest competes           LRU; overflow goes back
//!                                           \--> out
//! ```
//!
//! The main part is a segmented LRU: an object requested while in probation, or while a candidate, becomes protected.
//!
//! The original admits candidates without comparison until the cache is full. Here a cache counts as full while
//! `victim` is being called: candidates that `victim` has not evicted by the next insertion go to probation. Shares
//! are of the present sum of sizes.
//!
//! Invariants, checked by `audit`: those of the queues. The window's share is restored by the next `insert`, the protected share
//! by the next `touch`. Between them `remove` and `victim` shrink the sum, and a queue may have more than its share.
//!
//! O(1) on average. 32 bytes a slot, and 8 to 16 for the sketch.
//! Limits: as [`replacement::Lru`]. The sketch has no secret: an attacker who knows the hash of the keys can find objects that share
//! counters, and so make an unpopular one look popular.
//! Source: Einziger, Friedman, Manes: TinyLFU: a highly efficient cache admission policy, ACM ToS 2017.

use super::queues::Queues;
use replacement::Policy;
use replacement::Sketch;

/// Newcomers.
const WINDOW: usize = 0;
/// Objects that left the window and were not compared yet.
const CANDIDATES: usize = 1;
/// Objects of the main part that were not requested again.
const PROBATION: usize = 2;
/// Objects of the main part that were requested again.
const PROTECTED: usize = 3;

/// `WINDOW` has 1/`WINDOW_PART` of all sizes.
const WINDOW_PART: u128 = 100;
/// `PROTECTED` has this share of the main part, the candidates included.
const PROTECTED_PERCENT: u128 = 80;

/// Window, main part, sketch.
#[derive(Clone, Debug)]
pub struct WTinyLfu {
    /// The tag is the object's identity.
    queues: Queues<4, u64>,
    sketch: Sketch,
    /// `victim` was called since the last insertion.
    pressed: bool,
}

impl Default for WTinyLfu {
    fn default() -> Self {
        Self::new()
    }
}

impl WTinyLfu {
    /// An empty policy.
    pub fn new() -> Self {
        WTinyLfu {
            queues: Queues::new(),
            sketch: Sketch::new(0),
            pressed: false,
        }
    }

    fn window_overflows(&self) -> bool {
        let too_much = self.queues.size(WINDOW) * WINDOW_PART > self.queues.size_total();
        too_much && self.queues.len(WINDOW) > 1
    }

    fn protected_overflows(&self) -> bool {
        let main = self.queues.size_total() - self.queues.size(WINDOW);
        self.queues.size(PROTECTED) * 100 > main * PROTECTED_PERCENT
    }

    /// The object that the main part would evict.
    fn oldest_in_main(&self) -> Option<u32> {
        let queues = &self.queues;
        queues.oldest(PROBATION).or(queues.oldest(PROTECTED))
    }

    /// Whether the candidate is requested more often.
    fn beats(&self, candidate: u32, other: u32) -> bool {
        let uses = |slot| self.sketch.estimate(self.queues.tag(slot));
        uses(candidate) > uses(other)
    }
}

impl Policy for WTinyLfu {
    fn admits(&self, _size: u64) -> bool {
        true
    }

    fn insert(&mut self, slot: u32, size: u64, id: u64) {
        if std::mem::take(&mut self.pressed) {
            while let Some(candidate) = self.queues.oldest(CANDIDATES) {
                self.queues.move_to(PROBATION, candidate);
            }
        }
        self.queues.insert(WINDOW, slot, size, id);
        self.sketch.grow_to_hold(self.queues.len_total());
        self.sketch.count(id);
        while self.window_overflows() {
            if let Some(oldest) = self.queues.oldest(WINDOW) {
                self.queues.move_to(CANDIDATES, oldest);
            }
        }
    }

    fn touch(&mut self, slot: u32) -> bool {
        let Some(queue) = self.queues.queue_of(slot) else {
            return false;
        };
        self.sketch.count(self.queues.tag(slot));
        if queue == WINDOW {
            self.queues.move_to(WINDOW, slot);
            return true;
        }
        self.queues.move_to(PROTECTED, slot);
        while self.protected_overflows() {
            if let Some(oldest) = self.queues.oldest(PROTECTED) {
                self.queues.move_to(PROBATION, oldest);
            }
        }
        true
    }

    fn remove(&mut self, slot: u32) -> bool {
        self.queues.remove(slot)
    }

    fn victim(&mut self) -> Option<u32> {
        self.pressed = true;
        let victim = match (self.queues.oldest(CANDIDATES), self.oldest_in_main()) {
            (Some(candidate), Some(other)) if self.beats(candidate, other) => {
                self.queues.move_to(PROBATION, candidate);
                other
            }
            (Some(candidate), _) => candidate,
            (None, Some(other)) => other,
            (None, None) => self.queues.oldest(WINDOW)?,
        };
        self.queues.remove(victim);
        Some(victim)
    }

    fn len(&self) -> usize {
        self.queues.len_total()
    }

    fn memory_bytes(&self) -> usize {
        self.queues.memory_bytes() + self.sketch.memory_bytes()
    }

    fn audit(&self) -> Result<(), String> {
        self.queues.audit()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(slots: impl IntoIterator<Item = u32>) -> WTinyLfu {
        let mut policy = WTinyLfu::new();
        for slot in slots {
            policy.insert(slot, 1, slot.into());
        }
        policy
    }

    fn queue_of(policy: &WTinyLfu, slot: u32) -> Option<usize> {
        policy.audit().unwrap();
        policy.queues.queue_of(slot)
    }

    #[test]
    fn newcomers_do_not_displace_what_is_asked_for() {
        let mut policy = filled(0..100);
        assert_eq!(policy.victim(), Some(0));
        for slot in 1..100 {
            policy.touch(slot);
        }
        // 99 is in the window and no better than the oldest in main; the others were not requested again.
        for new in 100..1000 {
            policy.insert(new, 1, new.into());
            assert_eq!(policy.victim(), Some(new - 1));
        }
        assert!((1..99).all(|slot| queue_of(&policy, slot) > Some(CANDIDATES)));
    }

    #[test]
    fn what_was_popular_comes_back_in() {
        let mut policy = filled(0..100);
        (0..5).for_each(|_| assert!(policy.touch(7)));
        assert!(policy.remove(7));
        assert_eq!(
            [policy.victim(), policy.victim(), policy.victim()],
            [Some(0), Some(1), Some(2)]
        );
        policy.insert(7, 1, 7);
        policy.insert(200, 1, 200);
        assert_eq!(queue_of(&policy, 7), Some(CANDIDATES));
        // 99 left the window before 7, and was no better than 3.
        assert_eq!([policy.victim(), policy.victim()], [Some(99), Some(3)]);
        assert_eq!(queue_of(&policy, 7), Some(PROBATION));
    }

    #[test]
    fn candidates_for_whom_there_was_room_are_in() {
        let mut policy = filled(0..100);
        assert_eq!(queue_of(&policy, 50), Some(CANDIDATES));
        assert_eq!(policy.victim(), Some(0));
        policy.insert(0, 1, 0);
        assert_eq!(queue_of(&policy, 50), Some(PROBATION));
    }

    #[test]
    fn protected_keeps_to_its_share() {
        let mut policy = filled(0..1000);
        (0..990).for_each(|slot| assert!(policy.touch(slot)));
        assert_eq!(policy.queues.len(PROTECTED), 990 * 80 / 100);
        assert_eq!(queue_of(&policy, 0), Some(PROBATION));
        assert_eq!(queue_of(&policy, 989), Some(PROTECTED));
    }

    #[test]
    fn the_last_object_goes_too() {
        let mut policy = filled([3]);
        assert_eq!([policy.victim(), policy.victim()], [Some(3), None]);
        assert!(!policy.touch(3) && !policy.remove(3));
    }
}
