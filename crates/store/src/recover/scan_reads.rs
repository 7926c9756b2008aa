//! The reads of a scan: which come next, which are done, and how far it has come.
//!
//! They have a lock apart from what the scan has found, held for moments, so that whoever keeps the device busy never waits for
//! whoever looks through what was read.
//!
//! Not known here: what is read.
//! Limits: [`READS_MAX`] reads under way, as many done and not yet looked through.

use crate::background::Progress;
use crate::geometry::Geometry;
use crate::recover::scan::Scan;
use crate::store::Store;
use bytes::Bytes;
use std::collections::VecDeque;

/// Bytes of one read.
const READ_BYTES: u64 = 1 << 20;

/// Reads under way; as many more may wait to be looked through. More keep no disk busier, and less of what was read is still in
/// the processor's caches when it is looked through.
const READS_MAX: usize = 8;

/// One read.
#[derive(Debug)]
pub(crate) struct Reading {
    number: u64,
    pub region: u32,
    /// In the region.
    pub from: u64,
    pub last_of_region: bool,
    /// Some once it is done; None within: it failed.
    pub bytes: Option<Option<Bytes>>,
}

/// The reads of a scan under way.
#[derive(Debug)]
pub(crate) struct Reads {
    /// Left to be read, the first one in part.
    regions: VecDeque<u32>,
    at: u64,
    reads: VecDeque<Reading>,
    /// It was handed out that what is there be looked through, or it is being done.
    pub looking: bool,
    next_number: u64,
    pub progress: Progress,
}

/// What a scan wants done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ScanStep {
    Read {
        number: u64,
        offset: u64,
        len: usize,
    },
    /// Look through what was read, when the reads handed out are under way.
    Look,
}

impl Reads {
    /// All that is to be read for a scan of these regions, in this order.
    pub(crate) fn new(regions: Vec<u32>, geometry: &Geometry, scan: &Scan) -> Self {
        let progress = Progress {
            done_bytes: 0,
            total_bytes: regions.len() as u64 * geometry.region_bytes(),
            records: 0,
            horizon: if scan.covers.is_none() {
                scan.horizon
            } else {
                0
            },
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

    /// The next that is done, if all before it are.
    pub(crate) fn pop_done(&mut self) -> Option<Reading> {
        self.is_something_to_look_through()
            .then(|| self.reads.pop_front())
            .flatten()
    }

    /// What to do next.
    fn next_step(&mut self, geometry: &Geometry) -> Option<ScanStep> {
        if self.is_something_to_look_through() && !self.looking {
            self.looking = true;
            return Some(ScanStep::Look);
        }
        self.next_read(geometry)
    }

    pub(crate) fn is_over(&self) -> bool {
        self.regions.is_empty() && self.reads.is_empty()
    }

    fn is_something_to_look_through(&self) -> bool {
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

impl Store {
    /// The next step of the scan.
    pub(crate) fn next_scan_step(&self) -> Option<ScanStep> {
        crate::lock(&self.scan_reads)
            .as_mut()?
            .next_step(&self.geometry)
    }

    /// Has something been read that can be looked through?
    pub(crate) fn is_something_to_look_through(&self) -> bool {
        crate::lock(&self.scan_reads)
            .as_ref()
            .is_some_and(Reads::is_something_to_look_through)
    }

    /// A read of the scan is done. None: the device refused, and what lies there is skipped.
    pub(crate) fn scan_read_done(&self, number: u64, bytes: Option<Bytes>) {
        let mut reads = crate::lock(&self.scan_reads);
        let reading = reads
            .as_mut()
            .and_then(|reads| reads.reads.iter_mut().find(|r| r.number == number));
        if let Some(reading) = reading {
            reading.bytes = Some(bytes);
        }
    }
}
