//! Whether companions pay: how often they are asked for, by server.
//!
//! A read that brings its neighbours along is longer, and the neighbours take room in memory. The cost pays where they are
//! asked for next, as a page's images are behind a forward proxy. It does not pay where neighbours share only the time of
//! their arrival, as behind a reverse proxy of one origin. So reads that bring companions are counted by server, and
//! each companion is counted when it is first asked for, which saves a read. While a server's companions save too few
//! reads, its reads bring none, except one read in [`PROBE_EVERY`], which shows when companions pay again.
//!
//! A probe's companions would stay in memory for long, because few others push them out, and popular objects are asked
//! for at some time or other. So a companion counts only for a limited number of later reads: as many as would have
//! pushed it out of memory if each of them had brought companions.
//!
//! A group that pays stays together: near the hand its companions are written again with the record that was asked for.
//! The companions of a probe are not written again.
//!
//! Limits: [`CELLS`] cells of 12 bytes; a server's hash selects its cell. With more servers than cells, the many small
//! servers that share a cell are judged together. Counts are approximate, since no lock is taken.
//!
//! Not known here: which companions a read finds, their content.
//! Source: paper 002 measures reading ahead with a proxy of many servers; we add the judgement.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use store::KeyHash;

/// Cells for servers; a power of two.
const CELLS: usize = 1 << 10;
/// A cell is judged after this many reads that brought companions.
const JUDGED_FROM: u32 = 32;
/// At this many reads both counts of a cell are halved.
const REMEMBERED: u32 = 128;
/// Companions pay if they save at least one read for every so many reads that bring companions.
const PAYS_ONE_IN: u32 = 8;
/// Where companions do not pay, one read in this many still brings them, as a probe.
pub(crate) const PROBE_EVERY: u32 = 64;
/// At this many reads, the number of reads and the bytes they brought are both halved, which keeps the mean.
const MEAN_OF: u64 = 4096;
/// A companion counts for at least this many later reads.
const COUNTS_MIN: u64 = 16;

/// The read that brought a companion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Came {
    /// The number of earlier reads that might have brought companions.
    at: u32,
    cell: u16,
    /// Companions of this server pay; false: the read is a probe.
    pub pays: bool,
}

/// The counts of one server, or of several with the same cell.
#[derive(Default)]
struct Cell {
    /// Reads that brought companions.
    reads: AtomicU32,
    /// Companions that were asked for in time.
    asked: AtomicU32,
    /// Reads without companions since the last probe.
    skipped: AtomicU32,
}

/// The counts. One for the process.
pub struct Companions {
    cells: Box<[Cell]>,
    /// Reads that might have brought companions.
    reads: AtomicU32,
    /// Recent reads that brought companions, and the bytes of memory that those companions took.
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

    /// A companion was put into memory and takes `bytes` of it.
    pub fn brought(&self, bytes: u64) {
        self.brought.fetch_add(1, Relaxed);
        self.bringing_bytes.fetch_add(bytes, Relaxed);
    }

    /// A companion is asked for the first time. `prefetched_bytes` is the room of prefetched entries in memory.
    #[cold]
    pub fn asked(&self, came: Came, prefetched_bytes: u64) {
        self.asked.fetch_add(1, Relaxed);
        let reads = self.reads.load(Relaxed).wrapping_sub(came.at);
        if u64::from(reads) <= self.counts_for(prefetched_bytes) {
            let cell = &self.cells[usize::from(came.cell)];
            cell.asked.fetch_add(1, Relaxed);
        }
    }

    /// Companions that were put into memory since the start.
    pub fn brought_count(&self) -> u64 {
        self.brought.load(Relaxed)
    }

    /// Companions that were asked for since the start.
    pub fn asked_count(&self) -> u64 {
        self.asked.load(Relaxed)
    }

    /// How many reads fill the room of prefetched entries, if each brings companions.
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
    /// Do companions pay? True until there were enough reads to judge.
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

    /// Counts a read that brings companions.
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
