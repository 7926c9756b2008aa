//! The background jobs: the work that they hand out, and the state of each.
//!
//! Not known here: the order of jobs (`background`).

use crate::handover::{Handing, ToldInVain};
use crate::log::{Log, Position};
use crate::recover::journal::Journal;
use crate::recover::picture::Snapshot;
use crate::recover::superblock::Superblock;
use crate::script::{Script, Step};
use crate::sequence::Sequence;
use bytes::Bytes;
use std::collections::HashMap;

const RETRY_MS_MIN: u64 = 100;
const RETRY_MS_MAX: u64 = 10_000;

/// Identifies a piece of work until it is reported done.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct WorkId(u64);

/// A piece of work to carry out. Each must be answered by exactly one [`Store::work_done`](crate::Store::work_done).
#[derive(Clone, Debug)]
#[must_use = "the store waits for it"]
pub struct Work {
    /// For [`Store::work_done`](crate::Store::work_done).
    pub id: WorkId,
    /// The step to carry out.
    pub op: WorkOp,
}

/// The kinds of work.
#[derive(Clone, Debug)]
pub enum WorkOp {
    /// Read bytes.
    Read {
        /// Bytes from the start of the store.
        offset: u64,
        /// How many.
        len: usize,
    },
    /// Write.
    Write {
        /// Bytes from the start of the store.
        offset: u64,
        /// The bytes: whole pages, in memory aligned to 4096 bytes.
        data: Bytes,
    },
    /// Make all writes durable that were reported before this was handed out, clusters included.
    Flush,
    /// Nothing: report it done as soon as the work handed out with it is under way, preferably on another thread. The
    /// store computes for about a millisecond, while the device should be busy.
    Yield,
}

/// The job that a piece of work belongs to.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Owner {
    Log,
    Note,
    Snapshot,
    Scan(u64),
    Look,
    Sweep,
    Weed,
    Thaw,
}

/// When a job that failed is tried again.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Retry {
    not_before_ms: u64,
    pause_ms: u64,
}

impl Retry {
    pub(crate) fn is_due(&mut self, now_ms: u64) -> bool {
        // If the clock was set back, the pause is at most the longest one.
        self.not_before_ms = self.not_before_ms.min(now_ms + RETRY_MS_MAX);
        now_ms >= self.not_before_ms
    }

    /// Has the last try failed?
    pub(crate) fn has_failed(&self) -> bool {
        self.pause_ms > 0
    }

    pub(crate) fn ended(&mut self, ok: bool, now_ms: u64) {
        self.pause_ms = if ok {
            0
        } else {
            (self.pause_ms * 2).clamp(RETRY_MS_MIN, RETRY_MS_MAX)
        };
        self.not_before_ms = now_ms + self.pause_ms;
    }
}

/// The state of all jobs.
#[derive(Debug)]
pub(crate) struct Background {
    pub log: Log,
    pub journal: Journal,
    /// The superblock as last written.
    pub superblock: Superblock,
    /// The copy of the superblock that may be torn, if one is.
    pub suspect_copy: u64,
    /// The sequence at which the last published checkpoint began; `None` if there is none.
    pub covers: Option<Sequence>,
    pub(crate) snapshot: Option<Snapshot>,
    pub(crate) commit: Option<(Script, Position)>,
    /// The first commit of entries below this failed.
    pub(crate) failed_until: Position,
    /// Entries that another process was told, and did not make durable.
    pub(crate) told_in_vain: ToldInVain,
    pub(crate) retry_log: Retry,
    pub(crate) retry_note: Retry,
    pub(crate) retry_snapshot: Retry,
    /// There is no device, so nothing needs to be durable.
    pub(crate) volatile: bool,
    /// Work to go on with the sweep was handed out.
    pub(crate) sweeping: bool,
    pub(crate) closing: bool,
    pub(crate) closed: bool,
    /// The state of handing the store to another process.
    pub(crate) handing: Handing,
    owners: HashMap<u64, Owner>,
    next_id: u64,
}

impl Background {
    pub(crate) fn new(superblock: Superblock, log: Log, journal: Journal) -> Self {
        Self {
            log,
            journal,
            superblock,
            suspect_copy: 0,
            covers: None,
            snapshot: None,
            commit: None,
            failed_until: Position(0),
            told_in_vain: ToldInVain::default(),
            retry_log: Retry::default(),
            retry_note: Retry::default(),
            retry_snapshot: Retry::default(),
            volatile: false,
            sweeping: false,
            closing: false,
            closed: false,
            handing: Handing::No,
            owners: HashMap::new(),
            next_id: 0,
        }
    }

    /// The writes of the log at the opening, at offsets from the start of the store; see [`Log::opening_writes`].
    pub(crate) fn opening_of_log(&mut self) -> Vec<(u64, Bytes)> {
        let at = self.superblock.geometry.invalidation_log_at;
        let writes = self.log.opening_writes();
        writes
            .into_iter()
            .map(|(offset, data)| (at + offset, data))
            .collect()
    }

    pub(crate) fn set_volatile(&mut self) {
        self.volatile = true;
    }

    pub(crate) fn work(&mut self, owner: Owner, op: WorkOp) -> Option<Work> {
        let id = self.next_id;
        self.next_id += 1;
        self.owners.insert(id, owner);
        Some(Work { id: WorkId(id), op })
    }

    /// The job whose work is reported done. `None` if it was reported before.
    pub(crate) fn reported(&mut self, id: WorkId) -> Option<Owner> {
        self.owners.remove(&id.0)
    }

    /// Was all work that was handed out reported done?
    pub(crate) fn is_at_rest(&self) -> bool {
        self.owners.is_empty()
    }

    pub(crate) fn step(&mut self, owner: Owner, step: Step) -> Option<Work> {
        let op = match step {
            Step::Write(offset, data) => WorkOp::Write { offset, data },
            Step::Flush => WorkOp::Flush,
        };
        self.work(owner, op)
    }
}
