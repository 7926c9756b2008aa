//! GDSF, greedy dual size frequency: small objects that are often requested stay longest.
//!
//! An object's priority is `clock + uses / size`, computed anew at each request. The object of least priority is evicted, and the clock is set to
//! its priority. So the value of an object is its hits per unit of space, and objects that have not been requested lately fall behind.
//!
//! ```text
//!   clock 0     a: 1 use, size 4 -> 1/4      b: 3 uses, size 6 -> 1/2      a goes, clock 1/4
//!   clock 1/4   c: 1 use, size 2 -> 3/4      b goes before c, unless asked for: 1/4 + 4/6
//! ```
//!
//! All objects are assumed to cost the same on a miss, which favours the number of hits. (A cost that grows with the size would favour bytes, and
//! lead back to LFU.)
//!
//! Priorities are integers in units of 2^-32, so that the order does not depend on rounding. Among equal priorities the least recently requested
//! object is evicted. When the clock comes near the end of its range, the clock and all priorities are reduced by the same amount.
//!
//! The order is a binary heap of slots. Each slot knows its place in the heap, so that any slot can be moved: O(log objects) a call. Resetting the
//! clock is O(objects), at most once in 2^30 calls.
//!
//! Invariants, checked by `audit`:
//!   G1  no object comes before its parent in the heap
//! G2  each slot in the heap knows its place; every other slot is marked absent
//!   G3  no priority is below the clock
//!
//! 36 bytes a slot, and 4 an object.
//! Limits: as [`crate::Lru`]; uses are counted to [`USES_MAX`].
//! Source: Cherkasova: Improving WWW proxies performance with greedy-dual-size-frequency caching policy, HPL-98-69,
//! 1998.

use crate::policy::Policy;
use crate::slots::slots_to_hold;

/// The `place` of a slot that is not in the heap.
const ABSENT: u32 = u32::MAX;
/// Priority of one use at size 1.
const UNIT: u64 = 1 << 32;
/// Uses beyond this number are not counted.
const USES_MAX: u32 = 1 << 20;
/// At this value the clock is reset. No priority is further ahead of the clock than `USES_MAX * UNIT`.
const CLOCK_MAX: u64 = 1 << 62;

const _: () = assert!(CLOCK_MAX < u64::MAX - USES_MAX as u64 * UNIT);

#[derive(Clone, Copy, Debug)]
struct Node {
    priority: u64,
    /// The number of the call that last used it.
    asked: u64,
    size: u64,
    uses: u32,
    /// Place in the heap.
    place: u32,
}

/// Slots ordered by priority.
#[derive(Clone, Debug, Default)]
pub struct Gdsf {
    nodes: Vec<Node>,
    heap: Vec<u32>,
    clock: u64,
    calls: u64,
}

impl Gdsf {
    /// No slots.
    pub const fn new() -> Self {
        Gdsf {
            nodes: Vec::new(),
            heap: Vec::new(),
            clock: 0,
            calls: 0,
        }
    }

    /// The slot's place in the heap, if it has one.
    #[inline]
    fn place_of(&self, slot: u32) -> Option<usize> {
        let place = self.nodes.get(slot as usize)?.place;
        (place != ABSENT).then_some(place as usize)
    }

    /// Gives the slot its present priority.
    fn rate(&mut self, slot: u32) {
        self.calls += 1;
        let node = &mut self.nodes[slot as usize];
        node.priority = self.clock + u64::from(node.uses) * UNIT / node.size.max(1);
        node.asked = self.calls;
    }

    /// The key that orders the heap.
    #[inline]
    fn rank(&self, place: usize) -> (u64, u64) {
        let node = &self.nodes[self.heap[place] as usize];
        (node.priority, node.asked)
    }

    fn swap(&mut self, one: usize, other: usize) {
        self.heap.swap(one, other);
        for place in [one, other] {
            self.nodes[self.heap[place] as usize].place = place as u32;
        }
    }

    fn sift_up(&mut self, mut place: usize) {
        while place > 0 {
            let parent = (place - 1) / 2;
            if self.rank(parent) <= self.rank(place) {
                break;
            }
            self.swap(place, parent);
            place = parent;
        }
    }

    fn sift_down(&mut self, mut place: usize) {
        loop {
            let children = 2 * place + 1..self.heap.len().min(2 * place + 3);
            let Some(least) = children.min_by_key(|&child| self.rank(child)) else {
                break;
            };
            if self.rank(place) <= self.rank(least) {
                break;
            }
            self.swap(place, least);
            place = least;
        }
    }

    /// Removes the slot at a place from the heap.
    fn take(&mut self, place: usize) -> u32 {
        let slot = self.heap.swap_remove(place);
        self.nodes[slot as usize].place = ABSENT;
        if place < self.heap.len() {
            self.nodes[self.heap[place] as usize].place = place as u32;
            self.sift_up(place);
            self.sift_down(place);
        }
        slot
    }

    /// Advances the clock to the least priority of all.
    fn advance(&mut self, clock: u64) {
        self.clock = clock;
        if self.clock >= CLOCK_MAX {
            for &slot in &self.heap {
                self.nodes[slot as usize].priority -= self.clock;
            }
            self.clock = 0;
        }
    }

    fn grow_to_hold(&mut self, slot: u32) {
        if let Some(slots) = slots_to_hold(slot, self.nodes.len()) {
            let absent = Node {
                priority: 0,
                asked: 0,
                size: 0,
                uses: 0,
                place: ABSENT,
            };
            self.nodes.resize(slots, absent);
        }
    }
}

impl Policy for Gdsf {
    fn admits(&self, _size: u64) -> bool {
        true
    }

    fn insert(&mut self, slot: u32, size: u64, _id: u64) {
        self.grow_to_hold(slot);
        assert!(
            self.place_of(slot).is_none(),
            "slot {slot} is in the heap already"
        );
        let place = self.heap.len();
        self.heap.push(slot);
        let node = &mut self.nodes[slot as usize];
        node.size = size;
        node.uses = 1;
        node.place = place as u32;
        self.rate(slot);
        self.sift_up(place);
    }

    fn touch(&mut self, slot: u32) -> bool {
        let Some(place) = self.place_of(slot) else {
            return false;
        };
        let node = &mut self.nodes[slot as usize];
        node.uses = (node.uses + 1).min(USES_MAX);
        self.rate(slot);
        // The clock and the uses never fall, so neither does the priority.
        self.sift_down(place);
        true
    }

    fn remove(&mut self, slot: u32) -> bool {
        let place = self.place_of(slot);
        place.map(|place| self.take(place)).is_some()
    }

    fn victim(&mut self) -> Option<u32> {
        if self.heap.is_empty() {
            return None;
        }
        let slot = self.take(0);
        self.advance(self.nodes[slot as usize].priority);
        Some(slot)
    }

    fn len(&self) -> usize {
        self.heap.len()
    }

    fn memory_bytes(&self) -> usize {
        self.nodes.capacity() * size_of::<Node>() + self.heap.capacity() * size_of::<u32>()
    }

    fn audit(&self) -> Result<(), String> {
        for (place, &slot) in self.heap.iter().enumerate() {
            if place > 0 && self.rank((place - 1) / 2) > self.rank(place) {
                return Err(format!("G1: slot {slot} comes before its parent"));
            }
            if self.place_of(slot) != Some(place) {
                return Err(format!("G2: slot {slot} is not where it thinks"));
            }
            if self.nodes[slot as usize].priority < self.clock {
                return Err(format!("G3: slot {slot} is behind the clock"));
            }
        }
        let present = self.nodes.iter().filter(|node| node.place != ABSENT);
        match present.count() == self.heap.len() {
            true => Ok(()),
            false => Err("G2: slots have a place that are not in the heap".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_and_rarely_used_objects_go_first() {
        let mut policy = Gdsf::new();
        policy.insert(0, 4, 0);
        policy.insert(1, 6, 0);
        policy.insert(2, 1, 0);
        assert!(policy.touch(1) && policy.touch(1));
        assert_eq!(policy.victim(), Some(0));
        assert_eq!(policy.clock, UNIT / 4);
        // Now 1/4 + 1/2 against 1/2.
        policy.insert(3, 2, 0);
        assert_eq!(policy.victim(), Some(1));
        assert_eq!([policy.victim(), policy.victim()], [Some(3), Some(2)]);
        assert_eq!(policy.victim(), None);
    }

    #[test]
    fn between_equals_the_oldest_goes() {
        let mut policy = Gdsf::new();
        for slot in [5, 1, 9] {
            policy.insert(slot, 0, 0);
        }
        assert!(policy.remove(1) && !policy.remove(1) && !policy.touch(1));
        policy.insert(1, 1, 0);
        policy.audit().unwrap();
        assert_eq!(
            [policy.victim(), policy.victim(), policy.victim()],
            [Some(5), Some(9), Some(1)]
        );
    }

    #[test]
    fn the_clock_is_set_back_without_changing_the_order() {
        let mut policy = Gdsf::new();
        policy.clock = CLOCK_MAX - UNIT;
        for slot in 0..100 {
            policy.insert(slot, u64::from(slot) + 1, 0);
        }
        for slot in (0..100).rev() {
            assert_eq!(policy.victim(), Some(slot));
            policy.audit().unwrap();
        }
        assert_eq!(policy.clock, 0);
        policy.insert(0, 1, 0);
        assert_eq!(policy.victim(), Some(0));
        assert_eq!(policy.clock, UNIT);
    }

    #[test]
    fn uses_have_an_end() {
        let mut policy = Gdsf::new();
        policy.insert(0, 1, 0);
        policy.nodes[0].uses = USES_MAX - 1;
        assert!(policy.touch(0) && policy.touch(0));
        assert_eq!(policy.nodes[0].priority, u64::from(USES_MAX) * UNIT);
    }

    #[test]
    #[should_panic(expected = "already")]
    fn inserting_twice_is_noticed() {
        let mut policy = Gdsf::new();
        policy.insert(3, 1, 0);
        policy.insert(3, 1, 0);
    }
}
