//! The state of handing the store to another process (`handing`), and the invalidations told in vain.

use crate::log::{Log, Position};
use crate::recover::superblock::Superblock;
use crate::script::Script;
use std::ops::Range;

/// Runs of invalidations that were told and are not durable. A further run is joined with the last one, and with all between them.
const LEFT_MAX: usize = 64;

/// The entries of the log that the other process was told in vain, as positions, oldest first.
#[derive(Debug, Default)]
pub(crate) struct ToldInVain(Vec<Range<u64>>);

impl ToldInVain {
    pub(crate) fn note(&mut self, range: Range<u64>) {
        if let Some(last) = self.0.last_mut()
            && last.end == range.start
        {
            last.end = range.end;
            return;
        }
        if self.0.len() == LEFT_MAX
            && let Some(last) = self.0.last_mut()
        {
            last.end = range.end;
            return;
        }
        self.0.push(range);
    }

    pub(crate) fn has(&self, position: Position) -> bool {
        self.0.iter().any(|range| range.contains(&position.0))
    }
}

/// The state of handing the store to another process.
#[derive(Debug, Default)]
pub(crate) enum Handing {
    #[default]
    No,
    /// The last checkpoint is under way, or done.
    Freezing,
    /// To be thawed as soon as no checkpoint is under way.
    Thaw,
    Thawing(Box<Thawing>),
    /// The other process has the store. This many entries are being told to it.
    Over(usize),
}

impl PartialEq for Handing {
    fn eq(&self, other: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }
}

/// The superblock of a thaw, on its way to the disk.
#[derive(Debug)]
pub(crate) struct Thawing {
    pub script: Script,
    pub superblock: Superblock,
    /// The copy written last.
    pub copy_begun: u64,
}

impl Handing {
    pub(crate) fn is_thawing(&self) -> bool {
        matches!(self, Handing::Thaw | Handing::Thawing(_))
    }

    /// Do entries of the log wait until it is known which process commits them?
    pub(crate) fn keeps_entries(&self, log: &Log) -> bool {
        matches!(self, Handing::Freezing) && log.is_settled()
    }
}
