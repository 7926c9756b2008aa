//! The slots of one long file: free and used ones, and the next free run.
//!
//! Not known here: objects.   Limits: 2^32 - 1 slots.
//! Source: paper 002, section 3.4 (slots of 512 bytes, written in a circle).

/// Bytes of a slot.
pub const SLOT_BYTES: u32 = 512;

/// Adjacent slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// The first slot.
    pub first: u32,
    /// The number of slots, at least one.
    pub slots: u32,
}

impl Run {
    /// The first byte in the file.
    pub fn byte(self) -> u64 {
        u64::from(self.first) * u64::from(SLOT_BYTES)
    }

    /// The length in bytes.
    pub fn bytes(self) -> u32 {
        self.slots * SLOT_BYTES
    }
}

/// All slots as bits: set if used.
#[derive(Debug)]
pub struct Slots {
    used: Vec<u64>,
    total: u32,
    free: u32,
    /// Where the search for the next run begins.
    at: u32,
}

impl Slots {
    /// `total` free slots.
    pub fn new(total: u32) -> Slots {
        Slots {
            used: vec![0; (total as usize).div_ceil(64)],
            total,
            free: total,
            at: 0,
        }
    }

    /// The number of free slots.
    pub fn free(&self) -> u32 {
        self.free
    }

    /// Allocates up to `most` slots of the first free run at or behind the end of the last one. Continues at the beginning after the last
    /// slot. `None` if no slot is free.
    pub fn take(&mut self, most: u32) -> Option<Run> {
        if self.free == 0 {
            return None;
        }
        let first = self
            .next(self.at, self.total, false)
            .or_else(|| self.next(0, self.total, false))?;
        let end = self
            .next(first, self.total.min(first + most), true)
            .unwrap_or(self.total.min(first + most));
        let run = Run {
            first,
            slots: end - first,
        };
        self.set(run, true);
        self.free -= run.slots;
        self.at = end;
        Some(run)
    }

    /// Frees a run; all of it must be in use.
    pub fn give_back(&mut self, run: Run) {
        let end = run.first + run.slots;
        let free = self.next(run.first, end, false);
        assert_eq!(free, None, "a slot of {run:?} is freed twice");
        self.set(run, false);
        self.free += run.slots;
    }

    /// The first slot in `[from, end)` that is used, or free.
    fn next(&self, from: u32, end: u32, used: bool) -> Option<u32> {
        let mut at = from;
        while at < end {
            let word = self.used[at as usize / 64];
            let word = if used { word } else { !word } >> (at % 64);
            if word != 0 {
                let found = at + word.trailing_zeros();
                return (found < end).then_some(found);
            }
            at = (at / 64 + 1) * 64;
        }
        None
    }

    fn set(&mut self, run: Run, used: bool) {
        let (mut at, end) = (run.first, run.first + run.slots);
        while at < end {
            let count = (64 - at % 64).min(end - at);
            let mask = (u64::MAX >> (64 - count)) << (at % 64);
            let word = &mut self.used[at as usize / 64];
            *word = if used { *word | mask } else { *word & !mask };
            at += count;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(first: u32, slots: u32) -> Run {
        Run { first, slots }
    }

    #[test]
    fn it_goes_round_over_what_is_free() {
        let mut slots = Slots::new(200);
        assert_eq!(slots.take(150), Some(run(0, 150)));
        slots.give_back(run(10, 5));
        slots.give_back(run(100, 30));
        assert_eq!(slots.take(100), Some(run(150, 50)), "to the end first");
        assert_eq!(slots.take(20), Some(run(10, 5)), "then from the beginning");
        assert_eq!(slots.take(20), Some(run(100, 20)));
        assert_eq!(slots.take(20), Some(run(120, 10)));
        assert_eq!(slots.take(1), None);
        assert_eq!(slots.free(), 0);
    }

    #[test]
    #[should_panic(expected = "freed twice")]
    fn a_double_free_is_noticed() {
        let mut slots = Slots::new(100);
        slots.take(50);
        slots.give_back(run(40, 11));
    }
}
