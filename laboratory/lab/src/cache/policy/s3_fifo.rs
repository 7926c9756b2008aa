//! S3-FIFO: three queues; a request moves no object.
//!
//! Most objects are never requested again, so a newcomer gets little space until its second request:
//!
//! ```text
//!   new ------------> small (a tenth) -- used twice or more --> main -- not used --> out
//!                       |                                      ^    \-- used: round again, one use less
//!                       | used less                            |
//!                       v                                      |
//!                      out, and its identity to the ghosts: comes back soon
//! ```
//!
//! Uses are counted to 3 and start anew in `main`. The victim comes from `small` while it has a tenth of all sizes or more,
//! else from `main`. The original takes shares of its capacity; here they are shares of the present sum of sizes,
//! which is the same once the cache is full. Until then every new object is in `small`, as in the original.
//! There are as many ghosts as objects (the original: as many as `main` holds, which begins with none).
//!
//! Invariants, checked by `audit`: those of the queues and of the ghosts; no count above [`USES_MAX`]; no more ghosts
//! than there were objects at the last eviction.
//!
//! `victim` is O(1) on average: each step moves an object to `main` or takes away a use, both paid by a `touch`.
//! 32 bytes a slot, and about 24 a ghost.
//! Limits: as [`replacement::Lru`].
//! Source: Yang, Zhang, Qiu, Yue, Rashmi: FIFO queues are all you need for cache eviction, SOSP 2023.

use super::ghosts::Ghosts;
use super::queues::Queues;
use replacement::Policy;

/// The queue of newcomers.
const SMALL: usize = 0;
/// The queue of objects that were used in `SMALL`.
const MAIN: usize = 1;

/// `SMALL` has 1/`SMALL_PART` of all sizes.
const SMALL_PART: u128 = 10;
/// Uses are counted in two bits.
const USES_MAX: u8 = 3;
/// An object with this many uses moves from `SMALL` to `MAIN`.
const USES_TO_STAY: u8 = 2;

/// Newcomers, objects that stay, and ghosts.
#[derive(Clone, Debug)]
pub struct S3Fifo {
    /// The tag is the object's identity.
    queues: Queues<2, u64>,
    ghosts: Ghosts,
    /// How many ghosts were allowed at the last eviction.
    ghosts_max: usize,
}

impl Default for S3Fifo {
    fn default() -> Self {
        Self::new()
    }
}

impl S3Fifo {
    /// An empty policy.
    pub fn new() -> Self {
        S3Fifo {
            queues: Queues::new(),
            ghosts: Ghosts::default(),
            ghosts_max: 0,
        }
    }

    /// Whether the next victim comes from `SMALL`.
    fn small_is_full(&self) -> bool {
        let enough = self.queues.size(SMALL) * SMALL_PART >= self.queues.size_total();
        self.queues.len(MAIN) == 0 || self.queues.len(SMALL) > 0 && enough
    }

    /// Takes the oldest of `SMALL`: evicts it, or moves it to `MAIN`.
    fn step_small(&mut self, slot: u32) -> bool {
        if self.queues.uses(slot) >= USES_TO_STAY {
            *self.queues.uses_mut(slot) = 0;
            self.queues.move_to(MAIN, slot);
            return false;
        }
        self.ghosts_max = self.queues.len_total();
        self.ghosts.note(self.queues.tag(slot), self.ghosts_max);
        self.queues.remove(slot)
    }

    /// Takes the oldest of `MAIN`: evicts it, or makes it the newest with one use less.
    fn step_main(&mut self, slot: u32) -> bool {
        if self.queues.uses(slot) > 0 {
            *self.queues.uses_mut(slot) -= 1;
            self.queues.move_to(MAIN, slot);
            return false;
        }
        self.queues.remove(slot)
    }
}

impl Policy for S3Fifo {
    fn admits(&self, _size: u64) -> bool {
        true
    }

    fn insert(&mut self, slot: u32, size: u64, id: u64) {
        let queue = match self.ghosts.revive(id) {
            true => MAIN,
            false => SMALL,
        };
        self.queues.insert(queue, slot, size, id);
    }

    #[inline]
    fn touch(&mut self, slot: u32) -> bool {
        if self.queues.queue_of(slot).is_none() {
            return false;
        }
        let uses = self.queues.uses_mut(slot);
        *uses = (*uses + 1).min(USES_MAX);
        true
    }

    fn remove(&mut self, slot: u32) -> bool {
        self.queues.remove(slot)
    }

    fn victim(&mut self) -> Option<u32> {
        loop {
            let (slot, evicted) = if self.small_is_full() {
                let slot = self.queues.oldest(SMALL)?;
                (slot, self.step_small(slot))
            } else {
                let slot = self.queues.oldest(MAIN)?;
                (slot, self.step_main(slot))
            };
            if evicted {
                return Some(slot);
            }
        }
    }

    fn len(&self) -> usize {
        self.queues.len_total()
    }

    fn memory_bytes(&self) -> usize {
        self.queues.memory_bytes() + self.ghosts.memory_bytes()
    }

    fn audit(&self) -> Result<(), String> {
        self.queues.audit()?;
        self.ghosts.audit()?;
        let mut slots = self.queues.iter(SMALL).chain(self.queues.iter(MAIN));
        if let Some(slot) = slots.find(|&slot| self.queues.uses(slot) > USES_MAX) {
            return Err(format!("slot {slot} has {} uses", self.queues.uses(slot)));
        }
        match self.ghosts.len() <= self.ghosts_max {
            true => Ok(()),
            false => Err(format!("{} ghosts", self.ghosts.len())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In these tests slot and identity are the same number.
    fn filled(slots: impl IntoIterator<Item = u32>) -> S3Fifo {
        let mut policy = S3Fifo::new();
        for slot in slots {
            policy.insert(slot, 1, slot.into());
        }
        policy
    }

    #[test]
    fn a_scan_passes_through_small() {
        let mut policy = filled(0..20);
        for slot in 0..18 {
            policy.touch(slot);
            policy.touch(slot);
        }
        // Objects used twice move to main when they become the oldest; the first of the others is evicted.
        assert_eq!(policy.victim(), Some(18));
        for new in 20..1000 {
            policy.insert(new, 1, new.into());
            assert_eq!(policy.victim(), Some(new - 1), "the scan evicts itself");
        }
        policy.audit().unwrap();
        assert!((0..18).all(|slot| policy.queues.queue_of(slot) == Some(MAIN)));
    }

    #[test]
    fn one_use_is_not_enough_to_stay_but_a_ghost_comes_back_to_main() {
        let mut policy = filled(0..3);
        policy.touch(0);
        assert_eq!(policy.victim(), Some(0));
        policy.insert(9, 1, 0);
        assert_eq!(policy.queues.queue_of(9), Some(MAIN));
        assert_eq!(policy.queues.queue_of(1), Some(SMALL));
    }

    #[test]
    fn removed_objects_leave_no_ghost() {
        let mut policy = filled(0..3);
        assert!(policy.remove(1) && !policy.remove(1) && !policy.touch(1));
        policy.insert(1, 1, 1);
        assert_eq!(policy.queues.queue_of(1), Some(SMALL));
    }

    #[test]
    fn uses_in_main_are_rounds() {
        let mut policy = filled(0..2);
        for _ in 0..5 {
            policy.touch(0);
        }
        assert_eq!(policy.victim(), Some(1));
        for _ in 0..5 {
            policy.touch(0);
        }
        assert_eq!(policy.queues.uses(0), USES_MAX);
        assert_eq!([policy.victim(), policy.victim()], [Some(0), None]);
    }
}
