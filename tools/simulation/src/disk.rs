//! A disk in memory and in virtual time that has all the faults of real disks.
//!
//! Operations are submitted and complete later, in any order. The bytes of a completed write are in the *cache*: every read sees them
//! and a kill of the process keeps them. A power cut keeps any of their sectors or none, in any order, unless they are *hardened*: by
//! a successful flush that was begun after the write had completed.
//!
//! ```text
//! submit ---> under way ---complete---> in the cache ---flush---> hardened
//!                 |                          |
//!             kill: whole,              power cut: whole,
//!             none or a part            none or a part
//! ```
//!
//! In addition come the faults of [`Faults`], as far as [`Areas`] admits them. Every fault that may cost a record leaves a [`Damage`],
//! so that the checker knows what is not the store's fault.
//!
//! Invariants:
//!   D1  where no write is in the cache, `image` and `hardened` are equal
//!   D2  a sector is never hardened with older bytes than before
//!
//! Not known here: records, stores. Limits: reads and writes must be whole sectors inside the disk, and no write may overlap another one
//! under way. Otherwise the submitter is wrong, and an error ends the run.

use std::ops::Range;

use bytes::Bytes;

use crate::areas::{Areas, Part};
use crate::faults::{Counts, Faults, Kind};
use crate::random::Random;

mod ends;
mod transfers;

/// The unit that is written whole or not at all.
pub const SECTOR_BYTES: usize = 512;

/// Milliseconds that an operation usually takes at most.
const USUAL_MS: u64 = 6;
/// Milliseconds that a slow operation takes at most.
const SLOW_MS: u64 = 20_000;
/// Milliseconds that an outage lasts at most.
const OUTAGE_MS: u64 = 4_000;
/// Most writes that a failed flush excludes for good; beyond that the oldest are hardened after all.
const DOOMED_MAX: usize = 64;

/// An operation of the disk.
#[derive(Clone, Debug)]
pub enum Op {
    /// Read bytes.
    Read {
        /// Offset.
        offset: u64,
        /// Number of bytes.
        len: usize,
    },
    /// Write bytes.
    Write {
        /// Offset.
        offset: u64,
        /// The bytes.
        data: Bytes,
    },
    /// Harden all writes that are complete now.
    Flush,
}

/// A completed operation.
#[derive(Debug)]
pub struct Done<T> {
    /// The tag given by the submitter.
    pub tag: T,
    /// The bytes, for a read.
    pub result: Result<Option<Bytes>, ()>,
    /// Writes are numbered as they complete. For a write its own number; for a flush the last number that it covers.
    pub number: u64,
    /// Whether the disk spoiled the result.
    pub spoiled: bool,
}

/// A range in which the disk does not hold what was written, or did not return what it holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The range.
    pub range: Range<u64>,
    /// Writes up to this number are affected.
    pub number: u64,
}

#[derive(Debug)]
struct UnderWay<T> {
    tag: T,
    op: Op,
    due_ms: u64,
    begun: u64,
    mistakable: Option<u64>,
}

/// A write in the cache.
#[derive(Debug)]
struct Cached {
    number: u64,
    offset: u64,
    data: Bytes,
    doomed: bool,
}

/// See the module.
#[derive(Debug)]
pub struct Disk<T> {
    image: Vec<u8>,
    hardened: Vec<u8>,
    /// By sector: the number of the last write that was hardened there.
    hardened_with: Vec<u64>,
    cached: Vec<Cached>,
    under_way: Vec<UnderWay<T>>,
    /// Number of the last completed write.
    number: u64,
    operations: u64,
    outage_until_ms: u64,
    random: Random,
    faults: Faults,
    areas: Areas,
    counts: Counts,
    damages: Vec<Damage>,
    calm: bool,
}

impl<T> Disk<T> {
    /// A blank disk.
    pub fn new(bytes: u64, areas: Areas, faults: Faults, random: Random) -> Self {
        let bytes = bytes as usize;
        Self {
            image: vec![0; bytes],
            hardened: vec![0; bytes],
            hardened_with: vec![0; bytes / SECTOR_BYTES],
            cached: Vec::new(),
            under_way: Vec::new(),
            number: 0,
            operations: 0,
            outage_until_ms: 0,
            random,
            faults,
            areas,
            counts: Counts::default(),
            damages: Vec::new(),
            calm: false,
        }
    }

    /// While calm, the disk makes no new faults.
    pub fn set_calm(&mut self, calm: bool) {
        self.calm = calm;
    }

    /// All damages so far.
    pub fn damages(&self) -> &[Damage] {
        &self.damages
    }

    /// How often each kind of fault occurred.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// The metadata was read and written again (see [`Areas::heal`]).
    pub fn heal(&mut self) {
        self.areas.heal();
    }

    /// Resets to zeros, as if the operator had removed the file and made a new one.
    pub fn wipe(&mut self) {
        self.kill();
        self.cached.clear();
        self.image.fill(0);
        self.hardened.fill(0);
    }

    /// Number of operations under way.
    pub fn pending(&self) -> usize {
        self.under_way.len()
    }

    /// Whether an operation of this kind is under way.
    pub fn any_pending(&self, of: impl Fn(&T) -> bool) -> bool {
        self.under_way.iter().any(|way| of(&way.tag))
    }

    /// Whether the log has a silent fault (see [`Areas`]).
    pub fn is_log_wounded(&self) -> bool {
        self.areas.is_part_wounded(Part::Log)
    }

    /// The bytes that a read without fault would return now.
    pub fn peek(&self, range: Range<u64>) -> &[u8] {
        &self.image[range.start as usize..range.end as usize]
    }

    /// Begins an operation.
    ///
    /// # Errors
    /// If the operation is not allowed; the caller is wrong.
    pub fn submit(&mut self, tag: T, op: Op, now_ms: u64) -> Result<(), String> {
        let range = range_of(&op);
        let sectors = SECTOR_BYTES as u64;
        if range.end > self.image.len() as u64
            || !range.start.is_multiple_of(sectors)
            || !range.end.is_multiple_of(sectors)
        {
            return Err(format!("{range:?} is not in whole sectors inside the disk"));
        }
        if matches!(op, Op::Write { .. })
            && let Some(other) = self.writes_over(&range).next()
        {
            return Err(format!(
                "a write to {range:?} while one to {:?} is under way",
                range_of(&other.op)
            ));
        }
        let mut latency = self.random.below(USUAL_MS);
        if !self.calm && self.random.one_in(self.faults.slow) {
            self.counts.add(Kind::Slow);
            latency = self.random.below(SLOW_MS);
        }
        self.under_way.push(UnderWay {
            tag,
            op,
            due_ms: now_ms + latency,
            begun: self.number,
            mistakable: None,
        });
        Ok(())
    }

    /// Like [`Self::submit`] of a read. If the disk misdirects the read, it returns the bytes at `mistakable`, which look like the wanted
    /// ones. By chance alone that would happen once in a million runs.
    ///
    /// # Errors
    /// As [`Self::submit`].
    pub fn submit_mistakable(
        &mut self,
        tag: T,
        op: Op,
        now_ms: u64,
        mistakable: Option<u64>,
    ) -> Result<(), String> {
        self.submit(tag, op, now_ms)?;
        if let Some(way) = self.under_way.last_mut() {
            way.mistakable = mistakable;
        }
        Ok(())
    }

    /// When the next operation completes.
    pub fn next_due_ms(&self) -> Option<u64> {
        self.under_way.iter().map(|way| way.due_ms).min()
    }

    /// Completes one due operation, if there is one.
    pub fn complete(&mut self, now_ms: u64) -> Option<Done<T>> {
        let due = |way: &&UnderWay<T>| way.due_ms <= now_ms;
        let earliest = self.under_way.iter().filter(due).map(|w| w.due_ms).min()?;
        let at = self
            .under_way
            .iter()
            .position(|way| way.due_ms == earliest)?;
        let UnderWay {
            tag,
            op,
            begun,
            mistakable,
            ..
        } = self.under_way.swap_remove(at);
        self.operations += 1;
        let nth = self.nth_fails();
        Some(match op {
            Op::Read { offset, len } => {
                self.complete_read(tag, offset..offset + len as u64, mistakable, nth)
            }
            Op::Write { offset, data } => self.complete_write(tag, offset, data, nth, now_ms),
            Op::Flush => self.complete_flush(tag, begun, nth),
        })
    }

    fn nth_fails(&mut self) -> bool {
        let fails = !self.calm
            && self.faults.nth_error > 0
            && self.operations.is_multiple_of(self.faults.nth_error);
        if fails {
            self.counts.add(Kind::NthError);
        }
        fails
    }

    fn complete_flush(&mut self, tag: T, begun: u64, nth: bool) -> Done<T> {
        let failed = nth || self.befalls(Kind::FlushError, self.faults.flush_error);
        let mut cached = std::mem::take(&mut self.cached);
        if failed {
            // A system that has reported a failed flush may consider the other pages clean and never write them.
            for write in cached.iter_mut().filter(|write| write.number <= begun) {
                write.doomed |= self.random.one_in(4);
            }
        }
        let doomed = cached.iter().filter(|write| write.doomed).count();
        let mut spared = doomed.saturating_sub(DOOMED_MAX);
        cached.retain(|write| {
            let mut harden = !failed && !write.doomed && write.number <= begun;
            if write.doomed && spared > 0 {
                spared -= 1;
                harden = true;
            }
            if harden {
                self.harden(write, |_| true);
            }
            !harden
        });
        self.cached = cached;
        Done {
            tag,
            result: if failed { Err(()) } else { Ok(None) },
            number: begun,
            spoiled: failed,
        }
    }

    /// Hardens the sectors of a write for which `which`, given their index in the write, is true (D2).
    fn harden(&mut self, write: &Cached, which: impl Fn(usize) -> bool) {
        let first = write.offset as usize / SECTOR_BYTES;
        for (n, sector) in write.data.chunks_exact(SECTOR_BYTES).enumerate() {
            let with = &mut self.hardened_with[first + n];
            if which(n) && *with < write.number {
                *with = write.number;
                let at = (first + n) * SECTOR_BYTES;
                self.hardened[at..at + SECTOR_BYTES].copy_from_slice(sector);
            }
        }
    }

    fn writes_over(&self, range: &Range<u64>) -> impl Iterator<Item = &UnderWay<T>> {
        let range = range.clone();
        self.under_way.iter().filter(move |way| {
            let other = range_of(&way.op);
            matches!(way.op, Op::Write { .. }) && other.start < range.end && range.start < other.end
        })
    }

    fn anywhere(&mut self, len: usize) -> Range<u64> {
        let sectors = (self.image.len() - len) / SECTOR_BYTES + 1;
        let start = (self.random.index(sectors) * SECTOR_BYTES) as u64;
        start..start + len as u64
    }

    fn damage(&mut self, range: &Range<u64>) {
        self.damages.push(Damage {
            range: range.clone(),
            number: self.number,
        });
    }
}

fn range_of(op: &Op) -> Range<u64> {
    match op {
        Op::Read { offset, len } => *offset..offset + *len as u64,
        Op::Write { offset, data } => *offset..offset + data.len() as u64,
        Op::Flush => 0..0,
    }
}

#[cfg(test)]
#[path = "disk_tests.rs"]
mod tests;
