//! The numbers of each disk (store) apart.
//!
//! Not known here: paths of disks (a mark has them), figures.
//! Limits: 256 disks, because a store's number is a byte; values of a disk as those of a cell.

use std::collections::BTreeMap;

use profile::{Read, Record, StageName, Write};

use crate::gauges::Course;
use crate::values::Values;

/// Disks that have their own curves; further disks are only in the table.
pub(crate) const DISKS_DRAWN_MAX: usize = 8;

/// The numbers of one disk.
pub(crate) struct Disk {
    /// Swap-ins, microseconds.
    pub(crate) swap_in: Values,
    /// Reads of the device, microseconds.
    pub(crate) read: Values,
    /// Writes of the device, microseconds.
    pub(crate) write: Values,
    /// Counts of requests, reads and writes.
    pub(crate) counts: DiskCounts,
    /// The time in which the disk was busy, as counted by the kernel, microseconds.
    pub(crate) busy: Option<Course>,
}

/// Counts of a disk.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct DiskCounts {
    /// Requests that read from the disk.
    pub(crate) swap_ins: u64,
    /// Requests whose response was written to the disk.
    pub(crate) swap_outs: u64,
    pub(crate) reads: u64,
    pub(crate) read_bytes: u64,
    pub(crate) writes: u64,
    pub(crate) write_bytes: u64,
}

impl DiskCounts {
    fn add(&mut self, other: &DiskCounts) {
        for (ours, theirs) in [
            (&mut self.swap_ins, other.swap_ins),
            (&mut self.swap_outs, other.swap_outs),
            (&mut self.reads, other.reads),
            (&mut self.read_bytes, other.read_bytes),
            (&mut self.writes, other.writes),
            (&mut self.write_bytes, other.write_bytes),
        ] {
            *ours = ours.saturating_add(theirs);
        }
    }
}

/// Disks by the number of their store.
pub(crate) struct Disks {
    all: BTreeMap<u8, Disk>,
    values_max: usize,
}

impl Disks {
    /// No disks; up to `values_max` values of each are kept one by one.
    pub(crate) fn new(values_max: usize) -> Self {
        Disks {
            all: BTreeMap::new(),
            values_max,
        }
    }

    /// The disk with this number, if it was used.
    pub(crate) fn get(&self, number: u8) -> Option<&Disk> {
        self.all.get(&number)
    }

    /// The disks that were used, by number.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u8, &Disk)> {
        self.all.iter().map(|(&number, disk)| (number, disk))
    }

    fn of(&mut self, number: u8) -> &mut Disk {
        let values_max = self.values_max;
        self.all.entry(number).or_insert_with(|| Disk {
            swap_in: Values::new(values_max),
            read: Values::new(values_max),
            write: Values::new(values_max),
            counts: DiskCounts::default(),
            busy: None,
        })
    }

    /// Counts a request, aborted or not.
    pub(crate) fn swapped(&mut self, record: &Record) {
        let has = |name| record.stage(name).is_some();
        let (reads, writes) = (has(StageName::SwapIn), has(StageName::SwapOut));
        if reads || writes {
            let counts = &mut self.of(record.store).counts;
            counts.swap_ins += u64::from(reads);
            counts.swap_outs += u64::from(writes);
        }
    }

    /// Adds the times of a request.
    pub(crate) fn timed(&mut self, record: &Record) {
        if let Some(stage) = record.stage(StageName::SwapIn) {
            self.of(record.store).swap_in.push(stage.total_us.into());
        }
    }

    /// Adds a read of the device.
    pub(crate) fn read(&mut self, read: &Read) {
        let disk = self.of(read.store);
        disk.read.push(read.total_us.into());
        disk.counts.reads += 1;
        disk.counts.read_bytes = disk.counts.read_bytes.saturating_add(read.bytes);
    }

    /// Adds a write of the device.
    pub(crate) fn wrote(&mut self, write: &Write) {
        let disk = self.of(write.store);
        disk.write.push(write.total_us.into());
        disk.counts.writes += 1;
        disk.counts.write_bytes = disk.counts.write_bytes.saturating_add(write.bytes);
    }

    /// Adds the kernel's busy time of each disk.
    pub(crate) fn ran(&mut self, busy: &BTreeMap<u8, Course>) {
        for (&number, course) in busy {
            self.of(number).busy.get_or_insert_default().add(course);
        }
    }

    /// Adds the times of another slot.
    pub(crate) fn add_times(&mut self, other: &Disks) {
        for (number, theirs) in other.iter() {
            let ours = self.of(number);
            ours.swap_in.add(&theirs.swap_in);
            ours.read.add(&theirs.read);
            ours.write.add(&theirs.write);
            if let Some(course) = &theirs.busy {
                ours.busy.get_or_insert_default().add(course);
            }
        }
    }

    /// Adds the counts of another slot.
    pub(crate) fn add_counts(&mut self, other: &Disks) {
        for (number, theirs) in other.iter() {
            self.of(number).counts.add(&theirs.counts);
        }
    }

    /// Sorts the values; needed before percentiles are read.
    pub(crate) fn sort(&mut self) {
        for disk in self.all.values_mut() {
            [&mut disk.swap_in, &mut disk.read, &mut disk.write]
                .into_iter()
                .for_each(Values::sort);
        }
    }

    /// Whether every percentile is exact.
    pub(crate) fn is_exact(&self) -> bool {
        let is_exact =
            |disk: &Disk| disk.swap_in.is_exact() && disk.read.is_exact() && disk.write.is_exact();
        self.all.values().all(is_exact)
    }

    /// Removes all disks.
    pub(crate) fn clear(&mut self) {
        self.all.clear();
    }
}
