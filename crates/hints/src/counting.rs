//! A Bloom filter from which numbers can be removed: it has a counter for each bit.
//!
//! Inserting a number adds one to each of its counters, removing it subtracts one; a bit is set while its counter is not zero. A counter at its
//! maximum is *stuck*: it does not change any more, because it is unknown how many numbers it stands for. Stuck bits only cause false hits.
//! When there are too many of them ([`Counting::is_worn`]) the filter has to be rebuilt.
//!
//! Invariants, checked by `audit`:
//!   C1  a bit is set exactly when its counter is not zero
//! C2  `stuck` is the number of counters at their maximum
//!
//! Only numbers that were inserted may be removed; removing another one may hide others. The caller has to ensure this.
//!
//! Not known here: the meaning of the numbers.   Limits: those of [`Shape`].
//! Source: paper 003, section 3 (collision counters of 8 bits); Fan, Cao, Almeida, Broder, Summary Cache (1998), for 4 bits.

use crate::bloom::{Bits, Shape};

/// Bits of a counter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Width {
    /// Up to 15: half the memory. With the best number of positions, one counter in 10^15 reaches 16.
    Four,
    /// Up to 255.
    Eight,
}

impl Width {
    fn counter_max(self) -> u8 {
        match self {
            Width::Four => 15,
            Width::Eight => 255,
        }
    }
}

/// The filter is worn when more than one in this many counters is stuck.
const STUCK_SHARE: u64 = 100;

/// A Bloom filter with counters; described at the head of this file.
#[derive(Clone, Debug)]
pub struct Counting {
    bits: Bits,
    width: Width,
    counters: Box<[u8]>,
    stuck: u64,
    /// Bits that are set.
    ones: u64,
}

impl Counting {
    /// An empty filter.
    pub fn new(shape: Shape, width: Width) -> Counting {
        let bytes = match width {
            Width::Four => shape.bits() as usize / 2,
            Width::Eight => shape.bits() as usize,
        };
        Counting {
            bits: Bits::new(shape),
            width,
            counters: vec![0; bytes].into(),
            stuck: 0,
            ones: 0,
        }
    }

    /// The bits, as they are sent.
    pub fn bits(&self) -> &Bits {
        &self.bits
    }

    /// Number of bits that are set.
    pub fn ones(&self) -> u64 {
        self.ones
    }

    /// Bytes of memory.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.counters.len() + self.bits.bytes().len()
    }

    /// Are so many counters stuck that the filter should be rebuilt?
    pub fn is_worn(&self) -> bool {
        self.stuck * STUCK_SHARE > u64::from(self.bits.shape().bits())
    }

    /// Is the number in the filter? Absent numbers are sometimes reported as present.
    pub fn may_have(&self, number: u64) -> bool {
        self.bits.may_have(number)
    }

    /// Inserts a number. If it is inserted several times, it has to be removed as often.
    pub fn insert(&mut self, number: u64) {
        for position in self.bits.shape().positions(number) {
            self.raise(position);
        }
    }

    /// Removes a number that was inserted before.
    pub fn remove(&mut self, number: u64) {
        for position in self.bits.shape().positions(number) {
            self.lower(position);
        }
    }

    /// Adds one number to this position (below [`Shape::bits`]). True: its bit was not set before.
    pub fn raise(&mut self, position: u32) -> bool {
        let count = self.count(position);
        if count == self.width.counter_max() {
            return false;
        }
        self.set_count(position, count + 1);
        self.stuck += u64::from(count + 1 == self.width.counter_max());
        if count == 0 {
            self.bits.set(position, true);
            self.ones += 1;
        }
        count == 0
    }

    /// Removes one number from this position (below [`Shape::bits`]). True: its bit is not set any more.
    pub fn lower(&mut self, position: u32) -> bool {
        let count = self.count(position);
        // 0: no number with this position was inserted, so there is nothing to remove.
        if count == 0 || count == self.width.counter_max() {
            return false;
        }
        self.set_count(position, count - 1);
        if count == 1 {
            self.bits.set(position, false);
            self.ones -= 1;
        }
        count == 1
    }

    fn count(&self, position: u32) -> u8 {
        let at = position as usize;
        match self.width {
            Width::Four => self.counters[at / 2] >> (at % 2 * 4) & 15,
            Width::Eight => self.counters[at],
        }
    }

    fn set_count(&mut self, position: u32, count: u8) {
        let at = position as usize;
        match self.width {
            Width::Four => {
                let shift = at % 2 * 4;
                let byte = &mut self.counters[at / 2];
                *byte = *byte & !(15 << shift) | count << shift;
            }
            Width::Eight => self.counters[at] = count,
        }
    }

    /// Checks the invariants; for tests.
    ///
    /// # Errors
    /// The invariant that does not hold.
    pub fn audit(&self) -> Result<(), String> {
        let (mut stuck, mut ones) = (0, 0);
        for position in 0..self.bits.shape().bits() {
            let count = self.count(position);
            if (count > 0) != self.bits.get(position) {
                return Err(format!("C1: bit {position} with a count of {count}"));
            }
            stuck += u64::from(count == self.width.counter_max());
            ones += u64::from(count > 0);
        }
        if (stuck, ones) != (self.stuck, self.ones) {
            let (known, set) = (self.stuck, self.ones);
            return Err(format!(
                "C2: {stuck} stuck and {ones} set, not {known} and {set}"
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_leaves_as_often_as_it_came() {
        for width in [Width::Four, Width::Eight] {
            let mut filter = Counting::new(Shape::new(1024, 5).unwrap(), width);
            filter.insert(1);
            filter.insert(1);
            filter.remove(1);
            assert!(filter.may_have(1));
            filter.remove(1);
            assert!(!filter.may_have(1));
            assert_eq!(filter.ones(), 0);
            filter.audit().unwrap();
        }
    }

    #[test]
    fn a_counter_at_its_maximum_stays_there() {
        let mut filter = Counting::new(Shape::new(64, 1).unwrap(), Width::Four);
        for _ in 0..20 {
            filter.insert(7);
        }
        for _ in 0..20 {
            filter.remove(7);
        }
        assert!(filter.may_have(7), "nobody knows how many it stood for");
        assert!(filter.is_worn(), "one of 64 is more than 1 %");
        filter.audit().unwrap();
    }
}
