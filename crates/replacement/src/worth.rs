//! Greedy dual by classes of worth: short and often used objects stay, and a use costs no more than with LRU.
//!
//! An object's worth is its uses divided by the square root of its size, in steps of half a power of two: its *class*. Its priority is `clock +
//! worth`, with the clock of its last use. The object of least priority is evicted, and the clock advances to that priority. So an object that is
//! not used any more falls behind newer ones, whatever its worth was.
//!
//! Objects of a class have the same worth, so the one that was used longest ago is evicted first: a class is a list by time of last use. A use
//! moves an object to the end of a list. For an eviction only the heads of the lists are compared.
//!
//! ```text
//!                        first to go      last to go
//!   1 use,  64 KiB:      7 -> 2 -> 9             clock 40 at the use of 7, worth 4: priority 44
//!   1 use,  4 KiB:       3                       clock 30, worth 16: 46
//!   4 uses, 4 KiB:       1 -> 5                  clock 12, worth 64: 76
//!                                                7 goes, and the clock is 44
//! ```
//!
//! With the whole size in place of its root (GDSF), long popular objects would leave before short ones that are never requested again; without the
//! size, memory would fill with long objects. The root keeps the byte hits of LRU, and most of GDSF's additional hits (docs/decisions/0102).
//!
//! No priority is further ahead of the clock than the greatest worth, which is below 2^31. So clock and priorities may wrap: only distances to the
//! clock are compared.
//!
//! Invariants, checked by `audit`:
//! W1  both directions of a list agree, and all its objects are of its class
//! W2  no priority is behind the clock, and priorities do not fall towards the end of a list
//! W3  the lists together have `len` slots, and exactly these are marked present
//!
//! All calls are O(1), except `least`, which is O(classes), and doubling the table. 16 bytes a slot.
//! Limits: as [`crate::Lru`]; uses count up to [`USES_MAX`], sizes from 64 bytes to 1 GiB.
//! Source: Cao, Irani: Cost-aware WWW proxy caching algorithms, USITS 1997; frequency as in [`crate::Gdsf`].

use crate::policy::Policy;
use crate::slots::slots_to_hold;

/// No neighbour: an end of a list.
const NONE: u32 = u32::MAX;
/// The `class` of a slot that is in no list.
const ABSENT: u8 = u8::MAX;
/// Uses beyond this number are not counted, so that a once popular object leaves some day.
const USES_MAX: u8 = 15;
/// The range of logarithms of sizes that are distinguished.
const SIZE_LOG_MIN: u32 = 6;
const SIZE_LOG_MAX: u32 = 30;
/// Number of classes: half powers of two of the size, and of the square of the uses.
const CLASSES: usize = (SIZE_LOG_MAX - SIZE_LOG_MIN + square_log(USES_MAX)) as usize + 1;
/// Logarithm of the worth of the least class.
const WORTH_MIN_LOG: u32 = 10;

/// The worth of each class.
const WORTH: [u32; CLASSES] = {
    let mut worth = [0; CLASSES];
    let mut class = 0;
    while class < CLASSES {
        worth[class] = (1u64 << (2 * WORTH_MIN_LOG + class as u32)).isqrt() as u32;
        class += 1;
    }
    worth
};

const _: () = assert!(CLASSES <= 64 && WORTH[CLASSES - 1] < 1 << 31);

/// The logarithm of the uses in half powers of two.
const fn square_log(uses: u8) -> u32 {
    (uses as u32 * uses as u32).ilog2()
}

/// The classes that one more use gains, by the uses before it.
const GAIN: [u8; USES_MAX as usize] = {
    let mut gain = [0; USES_MAX as usize];
    let mut uses = 1;
    while uses < USES_MAX {
        gain[uses as usize] = (square_log(uses + 1) - square_log(uses)) as u8;
        uses += 1;
    }
    gain
};

/// The class of an object with one use.
fn class_of_new(size: u64) -> u8 {
    let size_log = size.max(1).ilog2().clamp(SIZE_LOG_MIN, SIZE_LOG_MAX);
    (SIZE_LOG_MAX - size_log) as u8
}

#[derive(Clone, Copy, Debug)]
struct Node {
    sooner: u32,
    later: u32,
    /// The clock at its last use.
    used: u32,
    class: u8,
    uses: u8,
}

const _: () = assert!(size_of::<Node>() == 16);

impl Node {
    const VACANT: Node = Node {
        sooner: NONE,
        later: NONE,
        used: 0,
        class: ABSENT,
        uses: 0,
    };
}

#[derive(Clone, Copy, Debug)]
struct List {
    first: u32,
    last: u32,
}

/// Slots in classes of worth.
#[derive(Clone, Debug)]
pub struct ByWorth {
    nodes: Vec<Node>,
    lists: [List; CLASSES],
    /// A bit for each list that is not empty.
    filled: u64,
    clock: u32,
    len: usize,
}

impl Default for ByWorth {
    fn default() -> Self {
        Self::new()
    }
}

impl ByWorth {
    /// No slots.
    pub const fn new() -> Self {
        const EMPTY: List = List {
            first: NONE,
            last: NONE,
        };
        ByWorth {
            nodes: Vec::new(),
            lists: [EMPTY; CLASSES],
            filled: 0,
            clock: 0,
            len: 0,
        }
    }

    /// Adds a slot, with one use. It must not be in use (asserted).
    pub fn insert(&mut self, slot: u32, size: u64) {
        if let Some(slots) = slots_to_hold(slot, self.nodes.len()) {
            self.nodes.resize(slots, Node::VACANT);
        }
        assert!(!self.contains(slot), "slot {slot} is in a list already");
        self.nodes[slot as usize].uses = 1;
        self.link(slot, class_of_new(size));
        self.len += 1;
    }

    /// The slot was used. `false` if it is in no list.
    #[inline]
    pub fn touch(&mut self, slot: u32) -> bool {
        let Some(node) = self.nodes.get_mut(slot as usize) else {
            return false;
        };
        let before = *node;
        if before.class == ABSENT {
            return false;
        }
        let class = if before.uses < USES_MAX {
            node.uses = before.uses + 1;
            before.class + GAIN[usize::from(before.uses)]
        } else {
            before.class
        };
        if before.class == class && before.later == NONE {
            node.used = self.clock;
        } else {
            self.unlink(before);
            self.link(slot, class);
        }
        true
    }

    /// Removes the slot. `false` if it is in no list.
    pub fn remove(&mut self, slot: u32) -> bool {
        if !self.contains(slot) {
            return false;
        }
        self.unlink(self.nodes[slot as usize]);
        self.nodes[slot as usize].class = ABSENT;
        self.len -= 1;
        true
    }

    /// The slot to evict next, without removing it. Advances the clock to its priority.
    pub fn least(&mut self) -> Option<u32> {
        let heads = bits(self.filled).map(|class| self.lists[class].first);
        let (ahead, slot) = (heads.map(|slot| (self.ahead(slot), slot))).min_by_key(|&(a, _)| a)?;
        self.clock = self.clock.wrapping_add(ahead);
        Some(slot)
    }

    /// All slots in the order of eviction if none is used again: O(classes) each.
    pub fn iter_least_first(&self) -> impl Iterator<Item = u32> + '_ {
        let mut heads = self.lists.map(|list| list.first);
        std::iter::from_fn(move || {
            let classes = bits(self.filled).filter(|&class| heads[class] != NONE);
            let class = classes.min_by_key(|&class| self.ahead(heads[class]))?;
            let slot = heads[class];
            heads[class] = self.nodes[slot as usize].later;
            Some(slot)
        })
    }

    /// Is the slot in a list?
    #[inline]
    pub fn contains(&self, slot: u32) -> bool {
        (self.nodes.get(slot as usize)).is_some_and(|node| node.class != ABSENT)
    }

    /// Number of slots.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Are there no slots?
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How far the slot's priority is ahead of the clock.
    fn ahead(&self, slot: u32) -> u32 {
        let node = &self.nodes[slot as usize];
        let worth = WORTH[usize::from(node.class)];
        (node.used.wrapping_add(worth)).wrapping_sub(self.clock)
    }

    /// Appends the slot to the list of this class, as used now.
    #[inline]
    fn link(&mut self, slot: u32, class: u8) {
        let list = &mut self.lists[usize::from(class)];
        let last = std::mem::replace(&mut list.last, slot);
        match last {
            NONE => {
                list.first = slot;
                self.filled |= 1 << class;
            }
            last => self.nodes[last as usize].later = slot,
        }
        let node = &mut self.nodes[slot as usize];
        node.sooner = last;
        node.later = NONE;
        node.used = self.clock;
        node.class = class;
    }

    /// Joins the neighbours of the node; its own links are left unchanged.
    #[inline]
    fn unlink(&mut self, node: Node) {
        let list = &mut self.lists[usize::from(node.class)];
        match node.sooner {
            NONE => list.first = node.later,
            before => self.nodes[before as usize].later = node.later,
        }
        match node.later {
            NONE => list.last = node.sooner,
            after => self.nodes[after as usize].sooner = node.sooner,
        }
        if node.sooner == NONE && node.later == NONE {
            self.filled &= !(1 << node.class);
        }
    }

    fn audit_list(&self, class: usize) -> Result<usize, String> {
        let List { first, last } = self.lists[class];
        let (mut sooner, mut slot, mut seen, mut ahead) = (NONE, first, 0, 0);
        while slot != NONE {
            let node = self.nodes.get(slot as usize).filter(|node| {
                (usize::from(node.class), node.sooner) == (class, sooner) && seen < self.len
            });
            let Some(node) = node else {
                return Err(format!("W1: slot {slot} is not after {sooner} in {class}"));
            };
            if self.ahead(slot) < ahead || self.ahead(slot) > WORTH[class] {
                return Err(format!("W2: slot {slot} has a priority out of order"));
            }
            ahead = self.ahead(slot);
            seen += 1;
            (sooner, slot) = (slot, node.later);
        }
        match last == sooner && (self.filled >> class & 1 == 1) == (seen > 0) {
            true => Ok(seen),
            false => Err(format!("W1: class {class} ends with {sooner}, not {last}")),
        }
    }
}

/// The numbers of the set bits.
fn bits(mut set: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let lowest = (set != 0).then(|| set.trailing_zeros() as usize);
        set &= set.wrapping_sub(1);
        lowest
    })
}

impl Policy for ByWorth {
    fn admits(&self, _size: u64) -> bool {
        true
    }

    fn insert(&mut self, slot: u32, size: u64, _id: u64) {
        ByWorth::insert(self, slot, size);
    }

    fn touch(&mut self, slot: u32) -> bool {
        ByWorth::touch(self, slot)
    }

    fn remove(&mut self, slot: u32) -> bool {
        ByWorth::remove(self, slot)
    }

    fn victim(&mut self) -> Option<u32> {
        let slot = self.least()?;
        ByWorth::remove(self, slot);
        Some(slot)
    }

    fn len(&self) -> usize {
        ByWorth::len(self)
    }

    fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.nodes.capacity() * size_of::<Node>()
    }

    fn audit(&self) -> Result<(), String> {
        let mut seen = 0;
        for class in 0..CLASSES {
            seen += self.audit_list(class)?;
        }
        let present = self.nodes.iter().filter(|node| node.class != ABSENT);
        let present = present.count();
        match (seen, present) == (self.len, self.len) {
            true => Ok(()),
            false => Err(format!(
                "W3: {} counted, {seen} linked, {present} marked",
                self.len
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Slots in the order of eviction.
    fn order(policy: &ByWorth) -> Vec<u32> {
        policy.audit().unwrap();
        policy.iter_least_first().collect()
    }

    #[test]
    fn long_and_rarely_used_objects_go_first() {
        let mut policy = ByWorth::new();
        policy.insert(0, 16 << 10);
        policy.insert(1, 1 << 10);
        policy.insert(2, 64 << 10);
        policy.insert(3, 1 << 10);
        assert_eq!(order(&policy), [2, 0, 1, 3]);
        // Four times the uses make up for sixteen times the size.
        for _ in 0..3 {
            assert!(policy.touch(0) && policy.touch(2));
        }
        assert_eq!(order(&policy), [2, 1, 3, 0]);
        assert_eq!(policy.least(), Some(2));
    }

    #[test]
    fn what_is_not_used_any_more_falls_behind_newcomers() {
        let mut policy = ByWorth::new();
        policy.insert(0, 100);
        for _ in 0..20 {
            policy.touch(0);
        }
        let mut newcomers = 0;
        while policy.contains(0) {
            newcomers += 1;
            policy.insert(newcomers, 100);
            let slot = policy.least().unwrap();
            policy.remove(slot);
            // One object among ever new ones: each eviction advances the clock by the worth of a new object.
            assert!(newcomers < 100, "it never leaves");
        }
        assert_eq!(newcomers, 12, "it was worth eight times the root of two");
    }

    #[test]
    fn the_clock_may_wrap() {
        let mut policy = ByWorth::new();
        policy.clock = u32::MAX - 5;
        policy.insert(0, 1 << 20);
        policy.insert(1, 1 << 10);
        assert_eq!(policy.least(), Some(0));
        policy.remove(0);
        assert!(policy.clock < 1 << 30, "it has wrapped");
        policy.insert(2, 1 << 20);
        assert_eq!(order(&policy), [2, 1]);
        policy.touch(1);
        assert_eq!(order(&policy), [2, 1]);
    }

    #[test]
    fn any_slot_can_be_removed_and_come_back() {
        let mut policy = ByWorth::new();
        assert!(!policy.contains(5) && !policy.touch(u32::MAX) && !policy.remove(5));
        assert_eq!(policy.least(), None);
        for slot in [7, 2, 9] {
            policy.insert(slot, 1000);
        }
        assert!(policy.remove(2) && !policy.remove(2) && !policy.touch(2));
        assert_eq!(order(&policy), [7, 9]);
        policy.insert(2, 1000);
        assert_eq!(order(&policy), [7, 9, 2]);
        assert_eq!(policy.len(), 3);
    }

    #[test]
    #[should_panic(expected = "already")]
    fn inserting_twice_is_noticed() {
        let mut policy = ByWorth::new();
        policy.insert(3, 1);
        policy.insert(3, 1);
    }
}
