//! The numbers of one slot, or of the day, from which all curves are made.
//!
//! A request belongs to exactly one group, and each of its times to one cell, so nothing is stored twice. Curves are unions of cells.
//!
//! Not known here: figures, files.   Limits: [`SLOT_VALUES_MAX`] values a cell are exact, [`INTERVALS_MAX`] intervals a slot.

use std::collections::HashMap;

use profile::{Event, Flags, Gauge, Hierarchy, Record, Stage, StageName};

use crate::disks::Disks;
use crate::gauges::{Courses, Gauges, is_lag};
use crate::intervals::{GRID_US, Intervals, Levels};
use crate::kinds::{Count, Group, Part, Presence, Timed};
use crate::known::Known;
use crate::values::{Union, Values};

/// Most values of a cell in a slot that are kept one by one.
//= report section 1   exact up to 1 M values a slot
pub(crate) const SLOT_VALUES_MAX: usize = 1_000_000;
/// The same limit for the whole day, and for a size class.
pub(crate) const DAY_VALUES_MAX: usize = 32_768;
/// Intervals of all kinds in a slot: 64 MB, and as much again where several kinds are combined. A request has up to three, so a slot of 20
/// minutes has room for 2,000 requests a second. Further intervals are left out of concurrency, and counted.
const INTERVALS_MAX: usize = 8_000_000;
/// Intervals that extend into later slots. Further ones are cut at the slot's end, and counted.
const CARRIED_MAX: usize = 1_000_000;

/// Sets of presences that curves use.
pub(crate) const SETS: [&[Presence]; 11] = [
    &[
        Presence::Hit,
        Presence::Miss,
        Presence::Peer,
        Presence::Rest,
    ],
    &[Presence::Miss],
    &[Presence::Hit],
    &[
        Presence::OutHit,
        Presence::OutMiss,
        Presence::OutPeer,
        Presence::OutRest,
    ],
    &[Presence::OutMiss],
    &[Presence::OutHit],
    &[Presence::SwapIn, Presence::SwapOut],
    &[Presence::SwapIn],
    &[Presence::SwapOut],
    &[Presence::Peer],
    &[Presence::OutPeer],
];

/// Levels of each of [`SETS`]: exact, and by the grid.
pub(crate) type SetLevels = [[Levels; 2]; SETS.len()];

/// Numbers of one slot, or of several.
pub(crate) struct Cells {
    times: Vec<Values>,
    counts: [u64; Count::COUNT],
    /// Microseconds by part, without overlap: of misses that asked a server themselves, and of 200 hits that asked none.
    pub(crate) parts: [[u64; Part::COUNT]; 2],
    pub(crate) levels: SetLevels,
    pub(crate) courses: Courses,
    /// Disks by the number of their store.
    pub(crate) disks: Disks,
    /// Length of the slots together, seconds.
    pub(crate) seconds: f64,
}

/// Index into [`Cells::parts`].
pub(crate) const OF_MISSES: usize = 0;
/// See [`OF_MISSES`].
pub(crate) const OF_HITS: usize = 1;

impl Cells {
    /// Empty cells; up to `values_max` values of each are kept one by one.
    pub(crate) fn new(values_max: usize) -> Self {
        Cells {
            times: vec![Values::new(values_max); Timed::COUNT * Group::COUNT],
            counts: [0; Count::COUNT],
            parts: Default::default(),
            levels: Default::default(),
            courses: Courses::new(),
            disks: Disks::new(values_max),
            seconds: 0.0,
        }
    }

    /// The cell for this time and group.
    pub(crate) fn values(&self, timed: Timed, group: Group) -> &Values {
        &self.times[timed as usize * Group::COUNT + group as usize]
    }

    /// Several cells as one. They must be sorted by `sort`.
    pub(crate) fn union(&self, timed: &[Timed], groups: &[Group]) -> Union<'_> {
        let cells = (timed.iter())
            .flat_map(|&timed| groups.iter().map(move |&group| self.values(timed, group)));
        Union::new(cells)
    }

    /// The value of a count.
    pub(crate) fn count(&self, count: Count) -> u64 {
        self.counts[count as usize]
    }

    /// The sum of several counts.
    pub(crate) fn sum(&self, counts: &[Count]) -> u64 {
        (counts.iter()).fold(0, |sum, &count| sum.saturating_add(self.count(count)))
    }

    /// Whether every percentile is exact.
    pub(crate) fn is_exact(&self) -> bool {
        self.times.iter().all(Values::is_exact) && self.disks.is_exact()
    }

    /// Sorts the values; needed before percentiles are read.
    pub(crate) fn sort(&mut self) {
        self.times.iter_mut().for_each(Values::sort);
        self.disks.sort();
    }

    /// Adds another slot.
    pub(crate) fn add(&mut self, slot: &Cells, seconds: f64) {
        for (ours, theirs) in self.times.iter_mut().zip(&slot.times) {
            ours.add(theirs);
        }
        self.add_counts(slot);
        for (ours, theirs) in self
            .parts
            .iter_mut()
            .flatten()
            .zip(slot.parts.iter().flatten())
        {
            *ours += theirs;
        }
        for (ours, theirs) in self
            .levels
            .iter_mut()
            .flatten()
            .zip(slot.levels.iter().flatten())
        {
            ours.extend(theirs);
        }
        for (&gauge, course) in &slot.courses {
            self.courses.entry(gauge).or_default().add(course);
        }
        self.disks.add_times(&slot.disks);
        self.seconds += seconds;
    }

    /// Adds the counts of another slot.
    pub(crate) fn add_counts(&mut self, slot: &Cells) {
        for (ours, theirs) in self.counts.iter_mut().zip(slot.counts) {
            *ours = ours.saturating_add(theirs);
        }
        self.disks.add_counts(&slot.disks);
    }

    fn clear(&mut self) {
        self.times.iter_mut().for_each(Values::clear);
        self.counts = [0; Count::COUNT];
        self.parts = Default::default();
        self.levels = Default::default();
        self.courses = Courses::new();
        self.disks.clear();
    }

    fn push(&mut self, timed: Timed, group: Group, us: impl Into<u64>) {
        self.times[timed as usize * Group::COUNT + group as usize].push(us.into());
    }

    fn add_to(&mut self, count: Count, number: u64) {
        let total = &mut self.counts[count as usize];
        *total = total.saturating_add(number);
    }
}

/// The numbers of the whole source.
pub(crate) struct Day {
    /// Numbers of the slots that are not idle.
    pub(crate) busy: Cells,
    /// Counts of all slots.
    pub(crate) all: Cells,
    /// Number of distinct keys.
    pub(crate) documents: u64,
}

/// Begin and end of writes, by cluster.
pub(crate) type Writes = HashMap<u64, (u64, u64)>;

struct Carried {
    kind: Presence,
    start_unix_us: u64,
    end_unix_us: u64,
}

/// The slot that is being read. Slots are read in order of time.
pub(crate) struct OpenSlot {
    /// Numbers so far.
    pub(crate) cells: Cells,
    start_unix_us: u64,
    slot_us: u64,
    with_aborted: bool,
    known: Known,
    present: [Intervals; Presence::COUNT],
    carried: Vec<Carried>,
    gauges: Gauges,
    /// Intervals for which there was no room.
    pub(crate) left_out: u64,
}

impl OpenSlot {
    /// No slot yet; [`OpenSlot::begin`] begins the first.
    pub(crate) fn new(slot_us: u64, with_aborted: bool, known: Known) -> Self {
        OpenSlot {
            cells: Cells::new(SLOT_VALUES_MAX),
            start_unix_us: 0,
            slot_us,
            with_aborted,
            known,
            present: Default::default(),
            carried: Vec::new(),
            gauges: Gauges::default(),
            left_out: 0,
        }
    }

    /// Begins the next slot.
    pub(crate) fn begin(&mut self, start_unix_us: u64) {
        self.cells.clear();
        self.cells.seconds = self.slot_us as f64 / 1e6;
        self.start_unix_us = start_unix_us;
        self.present.iter_mut().for_each(Intervals::clear);
        for carried in std::mem::take(&mut self.carried) {
            self.present_in(carried.kind, carried.start_unix_us, carried.end_unix_us);
        }
    }

    /// Ends the slot: computes levels and courses, and sorts the values. `covered_us` is how much of the slot the source covers. The rest, at
    /// the begin or end of the source, does not count as time with nothing present.
    pub(crate) fn close(&mut self, covered_us: u64) {
        let outside_us = self.slot_us.saturating_sub(covered_us);
        for (set, levels) in SETS.iter().zip(&mut self.cells.levels) {
            let mut all = Intervals::union(set.iter().map(|&kind| &self.present[kind as usize]));
            *levels = all.levels(self.slot_us);
            levels[0].leave_out(outside_us);
            levels[1].leave_out(outside_us / GRID_US);
        }
        let (courses, of_disks) = self.gauges.close();
        self.cells.courses = courses;
        self.cells.disks.ran(&of_disks);
        self.cells.sort();
    }

    fn end(&self) -> u64 {
        self.start_unix_us.saturating_add(self.slot_us)
    }

    fn present_in(&mut self, kind: Presence, start: u64, end: u64) {
        let (from, to) = (self.start_unix_us, self.end());
        if end > to {
            if self.carried.len() < CARRIED_MAX {
                self.carried.push(Carried {
                    kind,
                    start_unix_us: start.max(to),
                    end_unix_us: end,
                });
            } else {
                self.left_out += 1;
            }
        }
        if start >= to || end < from {
            return;
        }
        if self.present.iter().map(Intervals::len).sum::<usize>() >= INTERVALS_MAX {
            self.left_out += 1;
            return;
        }
        self.present[kind as usize].push(start.max(from) - from, end.min(to) - from);
    }

    /// Adds a request that began in the slot.
    pub(crate) fn request(&mut self, record: &Record, writes: &Writes) {
        let asked = asked_a_server(record);
        let group = Group::of(record, asked);
        self.count(record, group);
        let Some(group) = group else { return };
        self.presences(record, group, writes);
        self.cells.disks.swapped(record);
        let is_aborted = is_aborted(record);
        if is_aborted && !self.with_aborted {
            return;
        }
        let cells = &mut self.cells;
        cells.push(Timed::Response, group, record.total_us);
        times(cells, record, group);
        cells.disks.timed(record);
        if let Some((_, on_disk)) = written(record, writes) {
            let stage = record.stage(StageName::SwapOut).expect("it names a write");
            let began = record.began_unix_us.saturating_add(stage.start_us.into());
            cells.push(Timed::SwapOutOnDisk, group, on_disk.saturating_sub(began));
        }
        let of = match group {
            Group::Miss => OF_MISSES,
            Group::OkAlone => OF_HITS,
            _ => return,
        };
        for (sum, us) in cells.parts[of].iter_mut().zip(parts(record)) {
            *sum += u64::from(us);
        }
    }

    fn count(&mut self, record: &Record, group: Option<Group>) {
        let cells = &mut self.cells;
        cells.add_to(Count::Requests, 1);
        cells.add_to(Count::class_of(record), 1);
        let Some(group) = group else { return };
        cells.add_to(Count::Documents, 1);
        cells.add_to(Count::Bytes, record.bytes_out);
        cells.add_to(Count::ServerBytes, record.bytes_in);
        match group {
            Group::Miss | Group::Collapsed => cells.add_to(Count::Misses, 1),
            Group::PeerHit => cells.add_to(Count::PeerHitBytes, record.bytes_out),
            Group::Rest => {}
            _ => {
                cells.add_to(Count::Hits, 1);
                cells.add_to(Count::HitBytes, record.bytes_out);
            }
        }
        let has = |flag| u64::from(record.flags.contains(flag));
        cells.add_to(Count::Aborted, is_aborted(record).into());
        cells.add_to(Count::ClientAborted, has(Flags::CLIENT_ABORTED));
        cells.add_to(Count::OriginAborted, has(Flags::ORIGIN_ABORTED));
        cells.add_to(Count::NotKept, has(Flags::NOT_KEPT));
        let is_there = |name| u64::from(record.stage(name).is_some());
        cells.add_to(Count::SwapIns, is_there(StageName::SwapIn));
        cells.add_to(Count::SwapOuts, is_there(StageName::SwapOut));
        if let Some(dns) = record.stage(StageName::Dns) {
            let failed = record.stage(StageName::ProxyConnect).is_none()
                && record.stage(StageName::ServerReply).is_none();
            cells.add_to(Count::Lookups, 1);
            cells.add_to(Count::LookupsFailed, failed.into());
            if group == Group::Miss {
                cells.add_to(Count::MissLookups, 1);
                cells.add_to(Count::MissLookupsWaited, (dns.total_us > 0).into());
            }
        }
    }

    fn presences(&mut self, record: &Record, group: Group, writes: &Writes) {
        let began = record.began_unix_us;
        let at = |us: u32| began.saturating_add(us.into());
        let (kind, out) = match group {
            Group::Miss | Group::Collapsed => (Presence::Miss, Presence::OutMiss),
            Group::PeerHit => (Presence::Peer, Presence::OutPeer),
            Group::Rest => (Presence::Rest, Presence::OutRest),
            _ => (Presence::Hit, Presence::OutHit),
        };
        self.present_in(kind, began, at(record.total_us));
        let (connect, reply) = (
            record.stage(StageName::ProxyConnect),
            record.stage(StageName::ServerReply),
        );
        if let (Some(first), Some(last)) = (connect.or(reply), reply.or(connect)) {
            let end = began.saturating_add(ends(last));
            self.present_in(out, at(first.start_us).min(end), end);
        } else if record.hierarchy != Hierarchy::None && !self.known.has(Known::SERVER_RESPONSE) {
            //= report section 3   a log gives Figure 9 as an upper bound: hierarchy code not NONE
            self.present_in(out, began, at(record.total_us));
        }
        if let Some(swap) = record.stage(StageName::SwapIn) {
            let end = began.saturating_add(ends(swap));
            self.present_in(Presence::SwapIn, at(swap.start_us), end);
        }
        if let Some(swap) = record.stage(StageName::SwapOut) {
            if record.cluster != 0 {
                self.cells.add_to(Count::WritesNamed, 1);
            }
            // A response waits in its cluster, often for seconds, before its write to the disk begins.
            let (mut start, mut end) = (at(swap.start_us), began.saturating_add(ends(swap)));
            if let Some((began, on_disk)) = written(record, writes) {
                self.cells.add_to(Count::WritesFound, 1);
                end = on_disk;
                start = start.max(began).min(end);
            }
            self.present_in(Presence::SwapOut, start, end);
        }
    }

    /// Adds another event of the slot.
    pub(crate) fn event(&mut self, event: &Event) {
        let cells = &mut self.cells;
        match event {
            Event::Write(write) => {
                cells.add_to(Count::DeviceWrites, 1);
                cells.add_to(Count::DeviceWriteBytes, write.bytes);
                cells.add_to(Count::DeviceWriteRecords, write.records.into());
                cells.push(Timed::DeviceWrite, Group::Rest, write.total_us);
                cells.disks.wrote(write);
            }
            Event::Read(read) => {
                cells.add_to(Count::DeviceReads, 1);
                cells.add_to(Count::DeviceReadBytes, read.bytes);
                cells.push(Timed::DeviceRead, Group::Rest, read.total_us);
                cells.push(Timed::DeviceReadWait, Group::Rest, read.wait_us);
                cells.disks.read(read);
            }
            Event::Second(second) => {
                for &(gauge, value) in second.gauges.iter().filter(|(gauge, _)| is_lag(*gauge)) {
                    let timed = match gauge {
                        Gauge::LagP50Us => Timed::LagP50,
                        Gauge::LagP99Us => Timed::LagP99,
                        _ => Timed::LagMax,
                    };
                    cells.push(timed, Group::Rest, value);
                }
                self.gauges.put(second);
            }
            Event::Mark(_) | Event::Unknown => {}
        }
    }
}

/// Whether the request was aborted.
pub(crate) fn is_aborted(record: &Record) -> bool {
    (record.flags).intersects(Flags::CLIENT_ABORTED | Flags::ORIGIN_ABORTED)
}

/// Whether a server was asked, even if only to validate a response.
pub(crate) fn asked_a_server(record: &Record) -> bool {
    let stages = [
        StageName::Dns,
        StageName::ProxyConnect,
        StageName::ServerReply,
        StageName::Peer,
    ];
    record.hierarchy != Hierarchy::None
        || record.flags.contains(Flags::VALIDATED)
        || stages.iter().any(|&name| record.stage(name).is_some())
}

fn ends(stage: Stage) -> u64 {
    u64::from(stage.start_us) + u64::from(stage.total_us)
}

/// Begin and end of the write with the response's last byte.
fn written(record: &Record, writes: &Writes) -> Option<(u64, u64)> {
    record.stage(StageName::SwapOut)?;
    (record.cluster != 0).then(|| writes.get(&record.cluster).copied())?
}

fn times(cells: &mut Cells, record: &Record, group: Group) {
    if let Some(stage) = record.stage(StageName::ClientConnect) {
        if !record.flags.contains(Flags::REUSED_CLIENT) {
            cells.push(Timed::ClientConnect, group, stage.total_us);
        }
        let head = stage.total_us.saturating_sub(stage.first_us);
        cells.push(Timed::Head, group, head);
    }
    let connect = record.stage(StageName::ProxyConnect);
    if let Some(stage) = connect {
        let is_reused = record.flags.contains(Flags::REUSED_SERVER);
        let timed = if is_reused {
            Timed::ConnectReused
        } else {
            Timed::ConnectNew
        };
        cells.push(timed, group, stage.total_us);
    }
    if let Some(stage) = record.stage(StageName::ServerReply) {
        cells.push(Timed::ServerReply, group, stage.total_us);
        let connect = connect.map_or(0, |connect| u64::from(connect.total_us));
        cells.push(
            Timed::ServerResponse,
            group,
            connect + u64::from(stage.total_us),
        );
    }
    if let Some(stage) = record.stage(StageName::SwapIn) {
        cells.push(Timed::SwapIn, group, stage.total_us);
        match record.device_reads {
            1 => cells.push(Timed::OneRead, group, stage.total_us),
            2 => {
                cells.push(Timed::TwoReads, group, stage.total_us);
                let second = stage.total_us.saturating_sub(stage.first_us);
                cells.push(Timed::SecondIn, group, second);
            }
            _ => {}
        }
    }
    for (name, timed) in [
        (StageName::ProxyReply, Timed::ProxyReply),
        (StageName::SwapOut, Timed::SwapOut),
        (StageName::Dns, Timed::Dns),
        (StageName::Wait, Timed::Wait),
        (StageName::Peer, Timed::Peer),
    ] {
        if let Some(stage) = record.stage(name) {
            cells.push(timed, group, stage.total_us);
        }
    }
}

/// Splits the request's time into parts that do not overlap and add up to the total.
//= report section 2   overlaps given to the later stage
fn parts(record: &Record) -> [u32; Part::COUNT] {
    const STAGES: [StageName; Part::COUNT - 1] = [
        StageName::ClientConnect,
        StageName::Peer,
        StageName::Dns,
        StageName::ProxyConnect,
        StageName::Wait,
        StageName::ServerReply,
        StageName::SwapIn,
        StageName::ProxyReply,
    ];
    let total = record.total_us;
    let within = |us: u64| us.min(total.into()) as u32;
    let mut parts = [0; Part::COUNT];
    // Pieces of time that no later stage has taken, in order and disjoint.
    let (mut free, mut pieces) = ([(0, 0); Part::COUNT], 1);
    free[0] = (0, total);
    for (part, name) in STAGES.iter().enumerate().rev() {
        let Some(stage) = record.stage(*name) else {
            continue;
        };
        let (from, to) = (within(stage.start_us.into()), within(ends(stage)));
        let (mut left, mut kept) = ([(0, 0); Part::COUNT], 0);
        for &(start, end) in &free[..pieces] {
            let (cut_from, cut_to) = (from.clamp(start, end), to.clamp(start, end));
            parts[part] += cut_to - cut_from;
            for piece in [(start, cut_from), (cut_to, end)] {
                if piece.0 < piece.1 {
                    left[kept] = piece;
                    kept += 1;
                }
            }
        }
        (free, pieces) = (left, kept);
    }
    parts[Part::Rest as usize] = free[..pieces].iter().map(|(start, end)| end - start).sum();
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn stage(start_us: u32, total_us: u32) -> Stage {
        Stage {
            start_us,
            first_us: 0,
            total_us,
        }
    }

    #[test]
    fn overlaps_go_to_the_later_stage() {
        let mut record = Record::begun(0);
        record.total_us = 100;
        record.set_stage(StageName::ClientConnect, stage(0, 10));
        record.set_stage(StageName::ProxyConnect, stage(12, 20));
        record.set_stage(StageName::ServerReply, stage(32, 50));
        record.set_stage(StageName::ProxyReply, stage(40, 55));
        let found = parts(&record);
        assert_eq!(found, [10, 0, 0, 20, 0, 8, 0, 55, 7]);
        assert_eq!(parts(&Record::begun(0)), [0; Part::COUNT]);
    }

    proptest! {
        #[test]
        fn parts_add_up_to_the_request(
            stages in proptest::collection::vec((0..StageName::ALL.len(), 0..120u32, 0..120u32), 0..9),
        ) {
            let mut record = Record::begun(0);
            record.total_us = 100;
            for (name, start, total) in stages {
                record.set_stage(StageName::ALL[name], stage(start, total));
            }
            prop_assert_eq!(parts(&record).iter().sum::<u32>(), 100);
        }

        #[test]
        fn what_spans_slots_is_in_each(start in 0..5_000u64, length in 0..20_000u64) {
            let mut slot = OpenSlot::new(1_000, false, Known::PROFILE);
            let mut record = Record::begun(start);
            record.total_us = length as u32;
            let mut there = 0.0;
            for number in 0..40 {
                slot.begin(number * 1_000);
                if start / 1_000 == number {
                    slot.request(&record, &Writes::new());
                }
                slot.close(slot.slot_us);
                there += slot.cells.levels[0][0].sum();
            }
            prop_assert_eq!(there as u64, length);
            prop_assert!(slot.carried.is_empty());
        }
    }
}
