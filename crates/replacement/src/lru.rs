//! Exact LRU over dense slot numbers.
//!
//! The slots in use form a doubly linked list from the coldest to the hottest. The links are in two arrays indexed by slot, so a slot is its own
//! node: there is no allocation for an object, and no search.
//!
//! ```text
//!              coldest                hottest
//!   colder[]   NONE <- 7 <- 2 <- 9
//!   hotter[]           7 -> 2 -> 9 -> NONE         every other slot: colder[slot] = ABSENT
//! ```
//!
//! Invariants, checked by `audit`: both directions give the same list; it has `len` members; every slot outside the list is marked absent.
//!
//! All calls are O(1), except that the arrays are doubled for a slot beyond their end. 8 bytes a slot.
//! Limits: slots below [`SLOTS_MAX`] (asserted).

#[cfg(doc)]
use crate::slots::SLOTS_MAX;
use crate::slots::slots_to_hold;

/// No neighbour: an end of the list.
const NONE: u32 = u32::MAX;
/// In `colder`: the slot is not in the list.
const ABSENT: u32 = u32::MAX - 1;

/// The slots in use, ordered by time of last use.
#[derive(Clone, Debug)]
pub struct Lru {
    colder: Vec<u32>,
    hotter: Vec<u32>,
    coldest: u32,
    hottest: u32,
    len: usize,
}

impl Default for Lru {
    fn default() -> Self {
        Self::new()
    }
}

impl Lru {
    /// No slots.
    pub const fn new() -> Self {
        Lru {
            colder: Vec::new(),
            hotter: Vec::new(),
            coldest: NONE,
            hottest: NONE,
            len: 0,
        }
    }

    /// Adds a slot as the most recently used. It must not be in the list (asserted).
    pub fn insert(&mut self, slot: u32) {
        self.grow_to_hold(slot);
        assert!(!self.contains(slot), "slot {slot} is in the list already");
        self.link_hottest(slot);
        self.len += 1;
    }

    /// The slot was used: it becomes the most recent one. `false` if it is not in the list.
    #[inline]
    pub fn touch(&mut self, slot: u32) -> bool {
        if !self.contains(slot) {
            return false;
        }
        if self.hottest != slot {
            self.unlink(slot);
            self.link_hottest(slot);
        }
        true
    }

    /// Removes the slot. `false` if it is not in the list.
    pub fn remove(&mut self, slot: u32) -> bool {
        if !self.contains(slot) {
            return false;
        }
        self.unlink(slot);
        self.colder[slot as usize] = ABSENT;
        self.len -= 1;
        true
    }

    /// The least recently used slot, without removing it.
    #[inline]
    pub fn coldest(&self) -> Option<u32> {
        (self.coldest != NONE).then_some(self.coldest)
    }

    /// Removes the least recently used slot.
    pub fn pop_coldest(&mut self) -> Option<u32> {
        let slot = self.coldest()?;
        self.remove(slot);
        Some(slot)
    }

    /// Is the slot in the list?
    #[inline]
    pub fn contains(&self, slot: u32) -> bool {
        self.colder
            .get(slot as usize)
            .is_some_and(|&colder| colder != ABSENT)
    }

    /// How many slots are in the list.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Is no slot in the list?
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// All slots, from the least to the most recently used.
    pub fn iter_coldest_first(&self) -> impl Iterator<Item = u32> + '_ {
        std::iter::successors(self.coldest(), |&slot| {
            Some(self.hotter[slot as usize]).filter(|&next| next != NONE)
        })
    }

    /// Bytes of memory held.
    pub fn memory_bytes(&self) -> usize {
        (self.colder.capacity() + self.hotter.capacity()) * size_of::<u32>()
    }

    /// Checks every invariant, O(slots); an error says which one does not hold. For tests and simulation.
    pub fn audit(&self) -> Result<(), String> {
        let (mut colder, mut slot, mut seen) = (NONE, self.coldest, 0);
        while slot != NONE {
            if self.colder.get(slot as usize) != Some(&colder) {
                return Err(format!("slot {slot} does not lead back to {colder}"));
            }
            seen += 1;
            if seen > self.len {
                return Err(format!("the list goes on after {} slots", self.len));
            }
            (colder, slot) = (slot, self.hotter[slot as usize]);
        }
        if self.hottest != colder {
            return Err(format!("the list ends with {colder}, not {}", self.hottest));
        }
        let present = self
            .colder
            .iter()
            .filter(|&&colder| colder != ABSENT)
            .count();
        if seen != self.len || present != self.len {
            return Err(format!(
                "{} slots counted, {seen} linked, {present} marked",
                self.len
            ));
        }
        Ok(())
    }

    fn grow_to_hold(&mut self, slot: u32) {
        if let Some(slots) = slots_to_hold(slot, self.colder.len()) {
            self.colder.resize(slots, ABSENT);
            self.hotter.resize(slots, NONE);
        }
    }

    #[inline]
    fn link_hottest(&mut self, slot: u32) {
        self.colder[slot as usize] = self.hottest;
        self.hotter[slot as usize] = NONE;
        match self.hottest {
            NONE => self.coldest = slot,
            below => self.hotter[below as usize] = slot,
        }
        self.hottest = slot;
    }

    /// Joins the neighbours of `slot`; its own links are left unchanged.
    #[inline]
    fn unlink(&mut self, slot: u32) {
        let (colder, hotter) = (self.colder[slot as usize], self.hotter[slot as usize]);
        match colder {
            NONE => self.coldest = hotter,
            below => self.hotter[below as usize] = hotter,
        }
        match hotter {
            NONE => self.hottest = colder,
            above => self.colder[above as usize] = colder,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(slots: impl IntoIterator<Item = u32>) -> Lru {
        let mut lru = Lru::new();
        slots.into_iter().for_each(|slot| lru.insert(slot));
        lru
    }

    fn order(lru: &Lru) -> Vec<u32> {
        lru.audit().unwrap();
        lru.iter_coldest_first().collect()
    }

    #[test]
    fn the_first_in_is_the_first_out() {
        let mut lru = filled([7, 2, 9]);
        assert_eq!(order(&lru), [7, 2, 9]);
        assert_eq!([lru.pop_coldest(), lru.pop_coldest()], [Some(7), Some(2)]);
        assert_eq!(order(&lru), [9]);
        assert_eq!([lru.pop_coldest(), lru.pop_coldest()], [Some(9), None]);
        assert!(lru.is_empty());
    }

    #[test]
    fn touching_saves_a_slot() {
        let mut lru = filled([7, 2, 9]);
        assert!(lru.touch(7));
        assert_eq!(order(&lru), [2, 9, 7]);
        assert!(lru.touch(9));
        assert_eq!(order(&lru), [2, 7, 9]);
        assert!(lru.touch(9));
        assert_eq!(order(&lru), [2, 7, 9]);
        assert_eq!(lru.coldest(), Some(2));
    }

    #[test]
    fn any_slot_can_be_removed_and_come_back() {
        for gone in [7, 2, 9] {
            let mut lru = filled([7, 2, 9]);
            assert!(lru.remove(gone));
            assert!(!lru.remove(gone) && !lru.touch(gone) && !lru.contains(gone));
            assert_eq!(lru.len(), 2);
            lru.insert(gone);
            assert_eq!(order(&lru).last(), Some(&gone));
        }
    }

    #[test]
    fn slots_never_seen_are_absent() {
        let mut lru = Lru::new();
        assert!(!lru.contains(5) && !lru.touch(u32::MAX) && !lru.remove(u32::MAX - 1));
        assert_eq!(lru.coldest(), None);
        lru.audit().unwrap();
    }

    #[test]
    fn arrays_grow_to_the_slot_that_comes() {
        let mut lru = filled([0, 63, 64, 1_000_000]);
        assert_eq!(order(&lru), [0, 63, 64, 1_000_000]);
        assert!(lru.memory_bytes() >= 8 * 1_000_001);
        lru.remove(1_000_000);
        assert_eq!(order(&lru), [0, 63, 64]);
    }

    #[test]
    #[should_panic(expected = "already")]
    fn inserting_twice_is_noticed() {
        filled([3, 3]);
    }

    #[test]
    #[should_panic(expected = "out of range")]
    fn the_marks_are_no_slots() {
        filled([crate::SLOTS_MAX]);
    }
}
