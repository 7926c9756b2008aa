//! The reads of a scan: the next ones, the finished ones, and the progress.
//!
//! They have their own lock, held briefly, so that the thread that keeps the device busy never waits for the thread
//! that looks through the bytes.
//!
//! Not known here: the content.
//! Limits: [`READS_MAX`] reads under way, as many done and not yet looked through.

use crate::background::Progress;
use crate::geometry::Geometry;
use crate::lock::lock;
use crate::recover::scan::Scan;
use crate::store::Store;
use bytes::Bytes;
use std::collections::VecDeque;

/// Bytes of one read.
const READ_BYTES: u64 = 1 << 20;

/// The most reads under way; as many more may wait to be looked through. More would not keep a disk busier, and less
/// of the bytes would still be in the processor's caches.
const READS_MAX: usize = 8;

/// One read.
#[derive(Debug)]
pub(crate) struct Reading {
    number: u64,
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
    reads: VecDeque<Reading>,
    /// Looking through the finished reads was handed out, or is being done.
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
    /// The reads of a scan of these regions, in this order.
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

    /// The next finished read, if all before it are finished.
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
        lock(&self.scan_reads).as_mut()?.next_step(&self.geometry)
    }

    /// Is there a finished read to look through?
    pub(crate) fn is_something_to_look_through(&self) -> bool {
        lock(&self.scan_reads)
            .as_ref()
            .is_some_and(Reads::is_something_to_look_through)
    }

    /// A read of the scan is done. `None` if the device refused; its bytes are skipped.
    pub(crate) fn scan_read_done(&self, number: u64, bytes: Option<Bytes>) {
        let mut reads = lock(&self.scan_reads);
        let reading = reads
            .as_mut()
            .and_then(|reads| reads.reads.iter_mut().find(|r| r.number == number));
        if let Some(reading) = reading {
            reading.bytes = Some(bytes);
        }
    }
}
