//! Whether companions pay: how often they are asked for, by server.
//!
//! A read that brings its neighbours along is longer, and they take room in memory. That pays where they are asked for
//! next: a page's images behind a forward proxy. It does not where neighbours have nothing in common but the time of
//! their arrival, as behind a reverse proxy of one origin. So reads that bring companions are counted by server, and
//! companions when they are first asked for. A companion that is asked for saves a read. While those of a server save
//! too few, its reads bring none, except one read in [`PROBE_EVERY`], which shows when they pay again.
//!
//! A probe's companions would stay in memory for long, because few others push them out, and popular objects are asked
//! for at some time or other. So a companion counts only during as many reads as it would have stayed if each of them
//! brought some.
//!
//! A group that pays stays together: near the hand its companions are written again with the record that was asked for.
//! A probe's are not.
//!
//! Limits: [`CELLS`] cells of 12 bytes; a server has the cell of its hash. With more servers than cells, the many small
//! ones that share a cell are judged together. Counts are approximate, since no lock is taken.
//!
//! Not known here: which companions a read finds, what they hold.
//! Source: paper 002 measures reading ahead with a proxy of many servers; we add the judgement.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use store::KeyHash;

/// Cells for servers; a power of two.
const CELLS: usize = 1 << 10;
/// A cell is judged after so many reads that brought companions.
const JUDGED_FROM: u32 = 32;
/// At so many reads both counts of a cell are halved.
const REMEMBERED: u32 = 128;
/// Companions pay if they save one read for each so many that bring some.
const PAYS_ONE_IN: u32 = 8;
/// Where they do not pay, one read of so many brings some.
pub(crate) const PROBE_EVERY: u32 = 64;
/// At so many reads the mean of what they bring is halved on both sides.
const MEAN_OF: u64 = 4096;
/// A companion counts for so many reads in any case.
const COUNTS_MIN: u64 = 16;

/// The read that brought a companion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Came {
    /// Reads before it that brought some, or might have.
    at: u32,
    cell: u16,
    /// It was no probe.
    pub pays: bool,
}

/// Of one server, or of some.
#[derive(Default)]
struct Cell {
    /// Reads that brought some.
    reads: AtomicU32,
    /// Companions that were asked for in time.
    asked: AtomicU32,
    /// Reads without companions since the last probe.
    skipped: AtomicU32,
}

/// The counts. One for the process.
pub struct Companions {
    cells: Box<[Cell]>,
    /// Reads that brought some, or might have.
    reads: AtomicU32,
    /// Reads that brought some, and the bytes of memory that these took, of late.
    bringing: AtomicU64,
    bringing_bytes: AtomicU64,
    brought: AtomicU64,
    asked: AtomicU64,
}

impl Default for Companions {
    fn default() -> Companions {
        Companions {
            cells: (0..CELLS).map(|_| Cell::default()).collect(),
            reads: AtomicU32::new(0),
            bringing: AtomicU64::new(0),
            bringing_bytes: AtomicU64::new(0),
            brought: AtomicU64::new(0),
            asked: AtomicU64::new(0),
        }
    }
}

impl Companions {
    /// Shall a read of an object of this server bring companions?
    pub fn may_come(&self, server: KeyHash) -> Option<Came> {
        let at = self.reads.fetch_add(1, Relaxed);
        let cell = (server.0 >> 32) as usize & (CELLS - 1);
        let pays = self.cells[cell].pays();
        if !pays && !self.cells[cell].is_to_probe() {
            return None;
        }
        self.cells[cell].brings();
        if self.bringing.fetch_add(1, Relaxed) + 1 >= MEAN_OF {
            self.bringing.store(MEAN_OF / 2, Relaxed);
            halve(&self.bringing_bytes);
        }
        Some(Came {
            at,
            cell: cell as u16,
            pays,
        })
    }

    /// One has come to memory, and takes so much of it.
    pub fn brought(&self, bytes: u64) {
        self.brought.fetch_add(1, Relaxed);
        self.bringing_bytes.fetch_add(bytes, Relaxed);
    }

    /// One is asked for, for the first time. Prefetched entries may have so many bytes of memory.
    #[cold]
    pub fn asked(&self, came: Came, prefetched_bytes: u64) {
        self.asked.fetch_add(1, Relaxed);
        let reads = self.reads.load(Relaxed).wrapping_sub(came.at);
        if u64::from(reads) <= self.counts_for(prefetched_bytes) {
            let cell = &self.cells[usize::from(came.cell)];
            cell.asked.fetch_add(1, Relaxed);
        }
    }

    /// Companions that came to memory since the start.
    pub fn brought_count(&self) -> u64 {
        self.brought.load(Relaxed)
    }

    /// Those of them that were asked for.
    pub fn asked_count(&self) -> u64 {
        self.asked.load(Relaxed)
    }

    /// Reads that fill the room of prefetched entries, if each brings some.
    fn counts_for(&self, prefetched_bytes: u64) -> u64 {
        let (reads, bytes) = (
            self.bringing.load(Relaxed),
            self.bringing_bytes.load(Relaxed),
        );
        let filled = u128::from(prefetched_bytes) * u128::from(reads) / u128::from(bytes.max(1));
        u64::try_from(filled).unwrap_or(u64::MAX).max(COUNTS_MIN)
    }
}

impl Cell {
    /// Do companions pay? So it is taken to be before it is known.
    fn pays(&self) -> bool {
        let (reads, asked) = (self.reads.load(Relaxed), self.asked.load(Relaxed));
        reads < JUDGED_FROM || asked.saturating_mul(PAYS_ONE_IN) >= reads
    }

    fn is_to_probe(&self) -> bool {
        let is_due = self.skipped.fetch_add(1, Relaxed) + 1 >= PROBE_EVERY;
        if is_due {
            self.skipped.store(0, Relaxed);
        }
        is_due
    }

    /// A read brings some.
    fn brings(&self) {
        if self.reads.fetch_add(1, Relaxed) + 1 >= REMEMBERED {
            self.reads.store(REMEMBERED / 2, Relaxed);
            let asked = self.asked.load(Relaxed);
            self.asked.store(asked / 2, Relaxed);
        }
    }
}

fn halve(count: &AtomicU64) {
    count.store(count.load(Relaxed) / 2, Relaxed);
}

#[cfg(test)]
#[path = "companions_tests.rs"]
mod tests;
