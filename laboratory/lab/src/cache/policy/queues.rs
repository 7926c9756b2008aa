//! A few queues over dense slot numbers; a slot is in at most one of them.
//!
//! Like [`replacement::Lru`], for policies that have several queues and move slots between them. A slot is its
//! own node. Beside the links a node holds the size of the object, a small number of uses, and a tag of the policy's choice
//! (the object's identity, or nothing). Each queue counts its members and the sum of their sizes, so that a policy can
//! compare shares.
//!
//! ```text
//!                 oldest              newest
//!   queue 0:      NONE <- 7 <-> 2 <-> 9 -> NONE
//!   queue 1:      NONE <- 4 -> NONE                   every other slot: queue = ABSENT
//! ```
//!
//! Invariants, checked by `audit`:
//!   Q1  the links agree in both directions, and every member is marked with its queue
//!   Q2  a queue's count and size are those of its members
//!   Q3  every slot outside is marked absent
//!
//! All calls are O(1), except that the array doubles when a slot beyond its end is inserted. A slot takes 24 bytes and its tag.
//! Not known here: the meaning of the queues.
//! Limits: slots below [`replacement::SLOTS_MAX`] (asserted).

use replacement::slots_to_hold;

/// No neighbour: the end of a queue.
pub(crate) const NONE: u32 = u32::MAX;
/// In `queue`: the slot is in no queue.
const ABSENT: u8 = u8::MAX;

#[derive(Clone, Copy, Debug)]
struct Node<T> {
    size: u64,
    tag: T,
    older: u32,
    newer: u32,
    queue: u8,
    uses: u8,
}

/// The ends and the sums of one queue.
#[derive(Clone, Copy, Debug)]
struct Ends {
    oldest: u32,
    newest: u32,
    len: usize,
    size: u64,
}

/// `N` queues of slots, each slot with a tag.
#[derive(Clone, Debug)]
pub(crate) struct Queues<const N: usize, T> {
    nodes: Vec<Node<T>>,
    ends: [Ends; N],
}

impl<const N: usize, T: Copy + Default> Queues<N, T> {
    /// Empty queues.
    pub(crate) const fn new() -> Self {
        assert!(N < ABSENT as usize);
        let none = Ends {
            oldest: NONE,
            newest: NONE,
            len: 0,
            size: 0,
        };
        Queues {
            nodes: Vec::new(),
            ends: [none; N],
        }
    }

    /// Inserts a slot, with no uses, as the newest of a queue. It must be in no queue (asserted).
    pub(crate) fn insert(&mut self, queue: usize, slot: u32, size: u64, tag: T) {
        self.grow_to_hold(slot);
        assert!(
            self.queue_of(slot).is_none(),
            "slot {slot} is in a queue already"
        );
        let node = &mut self.nodes[slot as usize];
        node.size = size;
        node.tag = tag;
        node.uses = 0;
        self.link_newest(queue, slot);
    }

    /// Makes a member the newest of a queue, its own or another.
    pub(crate) fn move_to(&mut self, queue: usize, slot: u32) {
        self.unlink(slot);
        self.link_newest(queue, slot);
    }

    /// Removes the slot from its queue; `false` if it is in none.
    pub(crate) fn remove(&mut self, slot: u32) -> bool {
        if self.queue_of(slot).is_none() {
            return false;
        }
        self.unlink(slot);
        self.nodes[slot as usize].queue = ABSENT;
        true
    }

    /// The queue the slot is in.
    #[inline]
    pub(crate) fn queue_of(&self, slot: u32) -> Option<usize> {
        let queue = self.nodes.get(slot as usize)?.queue;
        (queue != ABSENT).then_some(queue.into())
    }

    /// The oldest member of a queue, which stays in the queue.
    #[inline]
    pub(crate) fn oldest(&self, queue: usize) -> Option<u32> {
        let slot = self.ends[queue].oldest;
        (slot != NONE).then_some(slot)
    }

    /// The member that is next newer than `slot` in its queue.
    #[inline]
    pub(crate) fn newer(&self, slot: u32) -> Option<u32> {
        let slot = self.nodes[slot as usize].newer;
        (slot != NONE).then_some(slot)
    }

    /// The tag of a member.
    #[inline]
    pub(crate) fn tag(&self, slot: u32) -> T {
        self.nodes[slot as usize].tag
    }

    /// A member's uses, as counted by the policy.
    #[inline]
    pub(crate) fn uses(&self, slot: u32) -> u8 {
        self.nodes[slot as usize].uses
    }

    /// A member's uses, to be changed.
    #[inline]
    pub(crate) fn uses_mut(&mut self, slot: u32) -> &mut u8 {
        &mut self.nodes[slot as usize].uses
    }

    /// Members of one queue.
    pub(crate) fn len(&self, queue: usize) -> usize {
        self.ends[queue].len
    }

    /// Members of all queues.
    pub(crate) fn len_total(&self) -> usize {
        self.ends.iter().map(|ends| ends.len).sum()
    }

    /// The sum of the sizes in one queue; 128 bits, so that shares can be compared by multiplication.
    #[inline]
    pub(crate) fn size(&self, queue: usize) -> u128 {
        self.ends[queue].size.into()
    }

    /// The sum of all sizes.
    #[inline]
    pub(crate) fn size_total(&self) -> u128 {
        self.ends.iter().map(|ends| u128::from(ends.size)).sum()
    }

    /// Members of a queue, oldest first.
    pub(crate) fn iter(&self, queue: usize) -> impl Iterator<Item = u32> + '_ {
        std::iter::successors(self.oldest(queue), |&slot| self.newer(slot))
    }

    /// Bytes of memory held.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.nodes.capacity() * size_of::<Node<T>>()
    }

    /// Checks every invariant, O(slots); the error says which one is broken.
    pub(crate) fn audit(&self) -> Result<(), String> {
        for (queue, ends) in self.ends.iter().enumerate() {
            let (mut older, mut slot, mut len, mut size) = (NONE, ends.oldest, 0, 0u128);
            while slot != NONE {
                let node = &self.nodes[slot as usize];
                if node.older != older || usize::from(node.queue) != queue {
                    return Err(format!("Q1: slot {slot} is astray in queue {queue}"));
                }
                len += 1;
                size += u128::from(node.size);
                if len > ends.len {
                    return Err(format!("Q2: queue {queue} goes on after {len} slots"));
                }
                (older, slot) = (slot, node.newer);
            }
            if ends.newest != older {
                return Err(format!("Q1: queue {queue} ends with {older}"));
            }
            if len != ends.len || size != u128::from(ends.size) {
                return Err(format!("Q2: queue {queue} has {len} slots of {size}"));
            }
        }
        let present = self.nodes.iter().filter(|node| node.queue != ABSENT);
        match present.count() == self.len_total() {
            true => Ok(()),
            false => Err("Q3: slots are marked that are in no queue".to_owned()),
        }
    }

    fn grow_to_hold(&mut self, slot: u32) {
        if let Some(slots) = slots_to_hold(slot, self.nodes.len()) {
            let absent = Node {
                size: 0,
                tag: T::default(),
                older: NONE,
                newer: NONE,
                queue: ABSENT,
                uses: 0,
            };
            self.nodes.resize(slots, absent);
        }
    }

    #[inline]
    fn link_newest(&mut self, queue: usize, slot: u32) {
        let ends = &mut self.ends[queue];
        let node = &mut self.nodes[slot as usize];
        node.queue = queue as u8;
        node.older = ends.newest;
        node.newer = NONE;
        let size = ends.size.checked_add(node.size);
        ends.size = size.expect("all the sizes together fit 64 bits");
        ends.len += 1;
        match ends.newest {
            NONE => ends.oldest = slot,
            before => self.nodes[before as usize].newer = slot,
        }
        ends.newest = slot;
    }

    /// Links the neighbours of `slot` to each other; the links of `slot` itself do not change.
    #[inline]
    fn unlink(&mut self, slot: u32) {
        let node = self.nodes[slot as usize];
        let ends = &mut self.ends[usize::from(node.queue)];
        ends.size -= node.size;
        ends.len -= 1;
        match node.older {
            NONE => ends.oldest = node.newer,
            before => self.nodes[before as usize].newer = node.newer,
        }
        match node.newer {
            NONE => ends.newest = node.older,
            after => self.nodes[after as usize].older = node.older,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members(queues: &Queues<2, u64>) -> [Vec<u32>; 2] {
        queues.audit().unwrap();
        [0, 1].map(|queue| queues.iter(queue).collect())
    }

    #[test]
    fn members_move_between_queues() {
        let mut queues = Queues::<2, u64>::new();
        for slot in [7, 2, 9] {
            queues.insert(0, slot, slot.into(), 0);
        }
        queues.move_to(1, 2);
        queues.move_to(0, 7);
        assert_eq!(members(&queues), [vec![9, 7], vec![2]]);
        assert_eq!((queues.size(0), queues.size(1)), (16, 2));
        assert!(queues.remove(9) && !queues.remove(9));
        assert_eq!(members(&queues), [vec![7], vec![2]]);
        assert_eq!((queues.len_total(), queues.size_total()), (2, 9));
    }

    #[test]
    fn a_slot_that_comes_back_is_unused() {
        let mut queues = Queues::<2, u64>::new();
        queues.insert(0, 3, 1, 40);
        *queues.uses_mut(3) = 2;
        queues.remove(3);
        queues.insert(1, 3, 1, 41);
        assert_eq!((queues.uses(3), queues.tag(3)), (0, 41));
    }

    #[test]
    fn slots_never_seen_are_absent() {
        let mut queues = Queues::<2, u64>::new();
        assert!(queues.queue_of(u32::MAX).is_none() && !queues.remove(5));
        assert_eq!(queues.oldest(1), None);
    }

    #[test]
    #[should_panic(expected = "already")]
    fn inserting_twice_is_noticed() {
        let mut queues = Queues::<2, ()>::new();
        queues.insert(0, 3, 1, ());
        queues.insert(1, 3, 1, ());
    }
}
