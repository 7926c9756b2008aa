//! SIEVE: a queue, a hand, and one bit an object.
//!
//! Objects stay in the order in which they came. A request sets an object's bit and moves nothing. To choose a victim,
//! the hand goes from where it stopped towards newer objects: it clears the bits that are set, and the first
//! object without one is evicted. After the newest object it continues with the oldest.
//!
//! ```text
//!   oldest   7*  2   9*  4   5   newest       * requested since the hand passed
//!                ^ hand: 2 goes; then 9 loses its bit and 4 goes
//! ```
//!
//! Since survivors keep their places, the hand soon meets newcomers that are not requested, while
//! requested objects gather behind it.
//!
//! Invariants, checked by `audit`: those of the queue; the hand is on a member, or nowhere (then it starts at the
//! oldest); an object's bit is 0 or 1.
//!
//! `victim` is O(1) on average: each bit it clears was set by a `touch`. 24 bytes a slot.
//! Limits: as [`replacement::Lru`].
//! Source: Zhang, Yang, Yue, Vigfusson, Rashmi: SIEVE is simpler than LRU, NSDI 2024.

use super::queues::Queues;
use replacement::Policy;

/// The only queue.
const ALL: usize = 0;

/// Slots in the order they came, and a hand.
#[derive(Clone, Debug)]
pub struct Sieve {
    queues: Queues<1, ()>,
    /// The next object of the hand; `None`: the oldest.
    hand: Option<u32>,
}

impl Default for Sieve {
    fn default() -> Self {
        Self::new()
    }
}

impl Sieve {
    /// An empty policy.
    pub const fn new() -> Self {
        Sieve {
            queues: Queues::new(),
            hand: None,
        }
    }
}

impl Policy for Sieve {
    fn admits(&self, _size: u64) -> bool {
        true
    }

    fn insert(&mut self, slot: u32, size: u64, _id: u64) {
        self.queues.insert(ALL, slot, size, ());
    }

    #[inline]
    fn touch(&mut self, slot: u32) -> bool {
        if self.queues.queue_of(slot).is_none() {
            return false;
        }
        *self.queues.uses_mut(slot) = 1;
        true
    }

    fn remove(&mut self, slot: u32) -> bool {
        if self.hand == Some(slot) {
            self.hand = self.queues.newer(slot);
        }
        self.queues.remove(slot)
    }

    fn victim(&mut self) -> Option<u32> {
        loop {
            let slot = self.hand.or(self.queues.oldest(ALL))?;
            self.hand = self.queues.newer(slot);
            if self.queues.uses(slot) == 0 {
                self.queues.remove(slot);
                return Some(slot);
            }
            *self.queues.uses_mut(slot) = 0;
        }
    }

    fn len(&self) -> usize {
        self.queues.len(ALL)
    }

    fn memory_bytes(&self) -> usize {
        self.queues.memory_bytes()
    }

    fn audit(&self) -> Result<(), String> {
        self.queues.audit()?;
        if let Some(slot) = self
            .hand
            .filter(|&hand| self.queues.queue_of(hand).is_none())
        {
            return Err(format!("the hand is on slot {slot}, which is no member"));
        }
        match self
            .queues
            .iter(ALL)
            .find(|&slot| self.queues.uses(slot) > 1)
        {
            Some(slot) => Err(format!("slot {slot} has more than one bit")),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(slots: &[u32]) -> Sieve {
        let mut sieve = Sieve::new();
        for &slot in slots {
            sieve.insert(slot, 1, 0);
        }
        sieve
    }

    #[test]
    fn the_hand_spares_what_was_asked_for_and_goes_on_from_there() {
        let mut sieve = filled(&[7, 2, 9, 4, 5]);
        assert!(sieve.touch(7) && sieve.touch(9));
        assert_eq!(sieve.victim(), Some(2));
        assert_eq!(sieve.victim(), Some(4));
        // Only another request keeps an object that the hand has passed.
        sieve.touch(7);
        assert_eq!([sieve.victim(), sieve.victim()], [Some(5), Some(9)]);
        assert_eq!([sieve.victim(), sieve.victim()], [Some(7), None]);
    }

    #[test]
    fn newcomers_are_met_before_old_favourites() {
        let mut sieve = filled(&[1, 2]);
        sieve.touch(1);
        sieve.touch(2);
        sieve.insert(3, 1, 0);
        assert_eq!(sieve.victim(), Some(3));
    }

    #[test]
    fn removing_what_the_hand_is_on_moves_it_on() {
        let mut sieve = filled(&[1, 2, 3, 4]);
        assert_eq!(sieve.victim(), Some(1));
        assert!(sieve.remove(2));
        sieve.audit().unwrap();
        assert_eq!(sieve.victim(), Some(3));
        assert!(sieve.remove(4) && !sieve.remove(4) && !sieve.touch(4));
        sieve.audit().unwrap();
        assert_eq!(sieve.victim(), None);
    }
}
