//! Which bytes one operation still has to move.
//!
//! Callers ask for any range, but a direct device moves whole blocks only. So a read is widened to block boundaries,
//! and the answer is a part of it. The system may also move less than asked ("short"). The transfer then goes on from
//! the last block boundary until it has the wanted part or nothing more comes.
//!
//! Invariants:
//!   T1  `buffer[..done]` has been moved, and `done` is a multiple of `block` until the transfer is finished
//!   T2  every step begins and ends at a block border, and lies inside `buffer[..len]`
//!
//! Not known here: which engine moves the bytes.

use bytes::{Buf as _, Bytes};

use crate::buffer::AlignedBuf;

/// The longest single system call, so that a length always fits the kernel's `u32`; a multiple of any block.
pub(crate) const STEP_BYTES_MAX: usize = 1 << 30;

/// The range of one operation and its progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Transfer {
    at: u64,
    len: usize,
    skip: usize,
    wanted: usize,
    done: usize,
    block: usize,
}

/// The next system call: `buffer[start..start + len]`, device bytes from `at`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) at: u64,
    pub(crate) start: usize,
    pub(crate) len: usize,
}

/// What to do after a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// All wanted bytes are there.
    Finished,
    /// Go on with `step()`.
    More,
    /// The device ends early: only `got` of the wanted bytes were read.
    Ended { got: usize },
}

impl Transfer {
    /// A range of bytes on a device that moves blocks of `block` bytes (1: any range). `None` if the widened range
    /// does not fit the number space.
    pub(crate) fn new(at: u64, wanted: usize, block: usize) -> Option<Self> {
        assert!(block.is_power_of_two(), "block {block}");
        let skip = (at % block as u64) as usize;
        let len = skip.checked_add(wanted)?.checked_next_multiple_of(block)?;
        at.checked_add(len as u64)?;
        Some(Self {
            at: at - skip as u64,
            len,
            skip,
            wanted,
            done: 0,
            block,
        })
    }

    /// Bytes of buffer this transfer needs.
    pub(crate) fn buffer_bytes(&self) -> usize {
        self.len
    }

    /// Where the wanted bytes begin in the buffer.
    pub(crate) fn skip(&self) -> usize {
        self.skip
    }

    /// Bytes the caller asked for.
    pub(crate) fn wanted(&self) -> usize {
        self.wanted
    }

    /// Where the wanted bytes begin on the device.
    pub(crate) fn wanted_at(&self) -> u64 {
        self.at + self.skip as u64
    }

    /// Did the caller's range begin and end at block boundaries?
    pub(crate) fn is_whole_blocks(&self) -> bool {
        self.skip == 0 && self.wanted == self.len
    }

    /// The next system call.
    pub(crate) fn step(&self) -> Step {
        let len = (self.len - self.done).min(STEP_BYTES_MAX);
        Step {
            at: self.at + self.done as u64,
            start: self.done,
            len,
        }
    }

    /// The system moved `moved` bytes of the step.
    pub(crate) fn advance(&mut self, moved: usize) -> Progress {
        let step = self.step();
        assert!(
            moved <= step.len,
            "{moved} bytes moved of a step of {}",
            step.len
        );
        let reached = self.done + moved;
        if reached >= self.skip + self.wanted {
            self.done = reached;
            return Progress::Finished;
        }
        // Only whole blocks count, or the next step would begin inside one. A step that moved less than a block has
        // reached the end of a file that is not whole blocks long.
        let whole = reached - reached % self.block;
        if whole == self.done {
            return Progress::Ended {
                got: reached.saturating_sub(self.skip),
            };
        }
        self.done = whole;
        Progress::More
    }
}

/// The wanted bytes of a filled buffer, without a copy.
pub(crate) fn wanted_part(mut buffer: AlignedBuf, transfer: &Transfer) -> Bytes {
    buffer.truncate(transfer.skip() + transfer.wanted());
    let mut bytes = buffer.into_bytes();
    bytes.advance(transfer.skip());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(at: u64, wanted: usize, block: usize) -> Transfer {
        Transfer::new(at, wanted, block).unwrap()
    }

    #[test]
    fn a_read_is_widened_to_block_borders() {
        let t = read(700, 1000, 512);
        assert_eq!(
            t.step(),
            Step {
                at: 512,
                start: 0,
                len: 1536
            }
        );
        assert_eq!((t.skip(), t.wanted(), t.wanted_at()), (188, 1000, 700));
        assert!(!t.is_whole_blocks());
        assert!(read(512, 1024, 512).is_whole_blocks());
    }

    #[test]
    fn a_short_step_goes_on_from_the_last_whole_block() {
        let mut t = read(0, 2048, 512);
        assert_eq!(t.advance(1000), Progress::More);
        assert_eq!(
            t.step(),
            Step {
                at: 512,
                start: 512,
                len: 1536
            }
        );
        assert_eq!(t.advance(1536), Progress::Finished);
    }

    #[test]
    fn nothing_moved_is_the_end() {
        let mut t = read(100, 2000, 1);
        assert_eq!(t.advance(500), Progress::More);
        assert_eq!(t.advance(0), Progress::Ended { got: 500 });
    }

    #[test]
    fn the_wanted_part_is_enough_even_if_the_last_block_is_cut() {
        let mut t = read(0, 600, 512);
        assert_eq!(t.advance(600), Progress::Finished);
    }

    #[test]
    fn a_range_beyond_all_numbers_is_none() {
        assert_eq!(Transfer::new(u64::MAX - 10, 100, 512), None);
        assert_eq!(Transfer::new(0, usize::MAX, 512), None);
    }

    proptest! {
        #[test]
        fn any_way_of_cutting_it_moves_the_wanted_bytes(
            at in 0u64..5000, wanted in 1usize..9000, block in prop::sample::select(vec![1usize, 512, 4096]),
            file in 0u64..14_000, cuts in prop::collection::vec(1usize..3000, 1..40),
        ) {
            let mut t = read(at, wanted, block);
            let mut seen = vec![false; t.buffer_bytes()];
            let mut cuts = cuts.into_iter().cycle();
            let there = file.saturating_sub(at).min(wanted as u64) as usize;
            loop {
                let step = t.step();
                prop_assert!(step.at.is_multiple_of(block as u64) && step.len.is_multiple_of(block));
                // The system moves at least a block unless the file ends before.
                let left = file.saturating_sub(step.at).min(step.len as u64) as usize;
                let moved = left.min(cuts.next().unwrap().max(block));
                seen[step.start..step.start + moved].fill(true);
                match t.advance(moved) {
                    Progress::Finished => {
                        prop_assert_eq!(there, wanted);
                        prop_assert!(seen[t.skip()..t.skip() + wanted].iter().all(|s| *s));
                        break;
                    }
                    Progress::More => {}
                    Progress::Ended { got } => {
                        prop_assert!(there < wanted);
                        prop_assert_eq!(got, there);
                        break;
                    }
                }
            }
        }
    }
}
