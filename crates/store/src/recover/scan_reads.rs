//! The reads of a scan: the next ones, the finished ones, and the progress.
//!
//! They have their own lock, held briefly, so that the thread that keeps the device busy never waits for the thread
//! that looks through the bytes.
//!
//! Not known here: the content of reads.
//! Limits: [`READS_MAX`] reads under way, as many done and not yet looked through.

use crate::geometry::Geometry;
use crate::sequence::Sequence;
use bytes::Bytes;
use std::collections::VecDeque;

/// Bytes of one read.
const READ_BYTES: u64 = 1 << 20;

/// The most reads under way; as many more may wait to be looked through. More would not keep a disk busier, and less
/// of the bytes would still be in the processor's caches.
const READS_MAX: usize = 8;

/// The progress of a scan.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Progress {
    /// Bytes looked at.
    pub done_bytes: u64,
    /// Bytes to look at in all.
    pub total_bytes: u64,
    /// Records found so far.
    pub records: u64,
    /// Without a checkpoint: records that began before this are refused, since the log does not reach back to them.
    /// Else 0.
    pub horizon: Sequence,
}

/// One read.
#[derive(Debug)]
pub(crate) struct Reading {
    pub(super) number: u64,
    pub region: u32,
    /// The offset in the region.
    pub from: u64,
    pub last_of_region: bool,
    /// `Some` once it is done; `None` within if it failed.
    pub bytes: Option<Option<Bytes>>,
}

/// The reads of a scan under way.
#[derive(Debug)]
pub(crate) struct Reads {
    /// The regions left to read, the first one in part.
    regions: VecDeque<u32>,
    at: u64,
    pub(super) reads: VecDeque<Reading>,
    /// Whether the search of finished reads was handed out, or is under way.
    pub looking: bool,
    next_number: u64,
    pub progress: Progress,
}

/// The next step of a scan.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ScanStep {
    Read {
        number: u64,
        offset: u64,
        len: usize,
    },
    /// Look through finished reads, once the reads handed out are under way.
    Look,
}

impl Reads {
    /// The reads of a scan of these regions, in this order. `horizon`: see [`Progress`].
    pub(crate) fn new(regions: Vec<u32>, geometry: &Geometry, horizon: Sequence) -> Self {
        let progress = Progress {
            done_bytes: 0,
            total_bytes: regions.len() as u64 * geometry.region_bytes(),
            records: 0,
            horizon,
        };
        Self {
            regions: regions.into(),
            at: 0,
            reads: VecDeque::new(),
            looking: false,
            next_number: 0,
            progress,
        }
    }

    /// The next finished read, if all before it are finished.
    pub(crate) fn pop_done(&mut self) -> Option<Reading> {
        self.is_something_to_look_through()
            .then(|| self.reads.pop_front())
            .flatten()
    }

    /// The next step of the scan.
    pub(super) fn next_step(&mut self, geometry: &Geometry) -> Option<ScanStep> {
        if self.is_something_to_look_through() && !self.looking {
            self.looking = true;
            return Some(ScanStep::Look);
        }
        self.next_read(geometry)
    }

    pub(crate) fn is_over(&self) -> bool {
        self.regions.is_empty() && self.reads.is_empty()
    }

    pub(super) fn is_something_to_look_through(&self) -> bool {
        self.reads
            .front()
            .is_some_and(|front| front.bytes.is_some())
    }

    fn next_read(&mut self, geometry: &Geometry) -> Option<ScanStep> {
        let under_way = self.reads.iter().filter(|r| r.bytes.is_none()).count();
        if under_way >= READS_MAX || self.reads.len() >= 2 * READS_MAX {
            return None;
        }
        let &region = self.regions.front()?;
        let region_bytes = geometry.region_bytes();
        let from = self.at;
        let len = READ_BYTES.min(region_bytes - from);
        self.at += len;
        let last_of_region = self.at == region_bytes;
        if last_of_region {
            self.regions.pop_front();
            self.at = 0;
        }
        let number = self.next_number;
        self.next_number += 1;
        self.reads.push_back(Reading {
            number,
            region,
            from,
            last_of_region,
            bytes: None,
        });
        let offset = geometry.offset_of(region * geometry.region_chunks) + from;
        let len = len as usize;
        Some(ScanStep::Read {
            number,
            offset,
            len,
        })
    }
}
