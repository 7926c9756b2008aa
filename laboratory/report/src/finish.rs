//! The second pass: makes figures, tables and measures from the stored records, slot by slot.

use std::ops::Range;
use std::time::Duration;

use profile::{Event, Record};

use crate::asked;
use crate::builder::{Builder, EVENT, REQUEST_1};
use crate::catalogue::{self, CurveSpec, FigureSpec, How};
use crate::cells::{Cells, DAY_VALUES_MAX, Day, OpenSlot, Writes, asked_a_server};
use crate::findings;
use crate::kinds::{Count, Group};
use crate::known::Known;
use crate::measures;
use crate::model::{Axis, AxisKind, Curve, Figure, Form, Point, Slot, SourceKind, SourceReport};
use crate::points::{self, Manner};
use crate::protocols::Protocols;
use crate::sizes::{FILES, Sizes};
use crate::slots::SLOTS_MAX;
use crate::spill::{Spill, SpillError};
use crate::tables;
use crate::uniques::Uniques;

/// With more slots than this, the distributions of slots are not kept for joining: they would take hundreds of megabytes.
const SKETCHED_SLOTS_MAX: usize = 200;
/// Writes are searched up to this long after the slot in which the request began.
const WRITE_AFTER: Duration = Duration::from_secs(120);
/// Most writes in memory: about 100 MB. For requests of other writes, the write counts as unknown.
const WRITES_MAX: usize = 2_000_000;

/// Points of the curves, in the order of the catalogue.
type Drawn = Vec<Vec<Point>>;

impl Builder {
    /// Makes the report. If the source has no requests, its figures have no points.
    ///
    /// # Errors
    /// If a temporary file cannot be written or read.
    pub fn finish(mut self) -> Result<SourceReport, SpillError> {
        self.rest()?;
        finish(self)
    }
}

fn finish(mut builder: Builder) -> Result<SourceReport, SpillError> {
    let known = builder.known();
    let slot_us = builder.slot().as_micros() as u64;
    let began = builder.began.unwrap_or(0);
    let (slots, outside) = builder.seconds.slots(slot_us, began, builder.ended);
    let manner = Manner {
        grid: builder.options.grid,
        with_sketches: slots.len() <= SKETCHED_SLOTS_MAX,
    };
    let with_aborted = builder.options.with_aborted;
    let mut sizes = Sizes::new(with_aborted);
    let mut day = Day {
        busy: Cells::new(DAY_VALUES_MAX),
        all: Cells::new(0),
        documents: 0,
    };
    let documents = std::mem::replace(
        &mut builder.documents,
        crate::uniques::Documents::new(&builder.options.spill_dir),
    );
    day.documents = documents.finish(|curve, bytes| sizes.push(FILES[curve], bytes))?;
    let mut pass = Pass {
        open: OpenSlot::new(slot_us, with_aborted, known),
        protocols: Protocols::default(),
        drawn: curves().map(|_| Vec::new()).collect(),
        is_exact: true,
        manner,
        known,
        kind: builder.source.kind,
    };
    for slot in &slots {
        let covered =
            slot.start_unix_us.max(began)..(slot.start_unix_us + slot_us).min(builder.ended);
        let covered_us = covered.end.saturating_sub(covered.start).max(1);
        pass.slot(&builder, slot, (slot_us, covered_us), &mut sizes)?;
        let seconds = covered_us as f64 / 1e6;
        day.all.add_counts(&pass.open.cells);
        if !slot.is_idle {
            day.busy.add(&pass.open.cells, seconds);
        }
    }
    day.busy.sort();
    sizes.sort();
    let notes = notes(&builder, &pass, &day, outside, slots.len());
    let figures = pass.figures(&day, &sizes, slot_us);
    let mut report = SourceReport {
        kind: builder.source.kind,
        level: builder.source.level,
        began_unix_us: began,
        ended_unix_us: builder.ended,
        requests: builder.requests - outside,
        slot_us,
        grid: manner.grid,
        with_aborted,
        slots,
        figures,
        tables: Vec::new(),
        measures: Vec::new(),
        notes,
        counts: (Count::ALL.iter())
            .map(|&count| (count.name(), day.all.count(count)))
            .chain(pass.protocols.counts())
            .collect(),
        marks: std::mem::take(&mut builder.marks),
        troubles: std::mem::take(&mut builder.troubles),
        name: std::mem::take(&mut builder.source.name),
    };
    report.marks.sort_by_key(|mark| mark.at_unix_us);
    report.tables = tables::tables(&report, uniques(&builder, &day, known), &day, known);
    if builder.options.top > 0 {
        let named = asked::tables(builder.names.as_ref(), builder.options.top);
        report.tables.extend(named);
    }
    findings::add(&mut report, &day);
    report.measures = measures::measure(&report, uniques(&builder, &day, known), known);
    Ok(report)
}

fn curves() -> impl Iterator<Item = (&'static FigureSpec, &'static CurveSpec)> {
    catalogue::figures().flat_map(|figure| figure.curves.iter().map(move |curve| (figure, curve)))
}

struct Pass {
    open: OpenSlot,
    protocols: Protocols,
    drawn: Drawn,
    is_exact: bool,
    manner: Manner,
    known: Known,
    kind: SourceKind,
}

impl Pass {
    fn slot(
        &mut self,
        builder: &Builder,
        slot: &Slot,
        (slot_us, covered_us): (u64, u64),
        sizes: &mut Sizes,
    ) -> Result<(), SpillError> {
        let within = slot.start_unix_us..slot.start_unix_us + slot_us;
        let writes = writes(&builder.writes, &within)?;
        self.open.begin(within.start);
        builder.things.touching(within.start, within.end, |thing| {
            let Some((&kind, bytes)) = thing.split_first() else {
                return;
            };
            if kind == EVENT {
                if let Some((event, _)) =
                    Event::decode(bytes).filter(|(event, _)| within.contains(&at(event)))
                {
                    self.open.event(&event);
                }
                return;
            }
            let (mut record, _) = Record::decode(bytes).expect("we encoded it");
            if !within.contains(&record.began_unix_us) {
                return;
            }
            if kind == REQUEST_1 {
                record.version = 1;
            }
            self.open.request(&record, &writes);
            self.protocols.see(&record);
            if let Some(group) = Group::of(&record, asked_a_server(&record)) {
                sizes.request(&record, group);
            }
        })?;
        self.open.close(covered_us);
        let cells = &self.open.cells;
        self.is_exact &= cells.is_exact();
        let x = slot.start_unix_us as f64 / 1e6;
        for (points, (_, curve)) in self.drawn.iter_mut().zip(curves()) {
            if self.known.has(curve.needs()) {
                points.extend(points::point(
                    cells,
                    curve.how,
                    x,
                    slot.is_partial,
                    self.manner,
                ));
            }
        }
        Ok(())
    }

    fn figures(&mut self, day: &Day, sizes: &Sizes, slot_us: u64) -> Vec<Figure> {
        let mut drawn = std::mem::take(&mut self.drawn).into_iter();
        let mut draw = |spec: &FigureSpec| {
            let curves: Vec<Curve> = (spec.curves.iter().zip(drawn.by_ref()))
                .map(|(curve, points)| self.curve(curve, points, day, sizes))
                .collect();
            figure(spec, curves, slot_us)
        };
        catalogue::figures().map(&mut draw).collect()
    }

    fn curve(&self, spec: &CurveSpec, points: Vec<Point>, day: &Day, sizes: &Sizes) -> Curve {
        let missing = self.known.missing(spec.needs(), self.kind);
        let (points, whole) = match spec.how {
            _ if missing.is_some() => (Vec::new(), None),
            How::Sizes(which) => points::cumulative(sizes, which, self.manner),
            How::Over(over) => points::over(sizes, over, self.manner),
            // If no slot has a second, the day has no length.
            how if day.busy.seconds > 0.0 => (
                points,
                points::point(&day.busy, how, 0.0, false, self.manner),
            ),
            _ => (points, None),
        };
        // A gauge without any sample counts as unknown.
        let is_gauge = matches!(spec.how, How::Rise(..) | How::Level(..));
        let never = (is_gauge && points.is_empty() && missing.is_none())
            .then(|| "not recorded by this source: this number of the machine. The kernel, or this version, does not tell it.".to_owned());
        Curve {
            id: spec.id.to_owned(),
            name: spec.name.to_owned(),
            role: spec.role,
            is_dashed: spec.is_dashed,
            combine: spec.combine(),
            points,
            day: whole,
            not_recorded: missing.or(never),
        }
    }
}

fn at(event: &Event) -> u64 {
    match event {
        Event::Write(write) => write.start_unix_us,
        Event::Read(read) => read.start_unix_us,
        Event::Second(second) => second.at_unix_us,
        Event::Mark(_) | Event::Unknown => 0,
    }
}

fn uniques(builder: &Builder, day: &Day, known: Known) -> Uniques {
    Uniques {
        documents: known.has(Known::KEYS).then_some((day.documents, false)),
        clients: known.has(Known::CLIENTS).then(|| builder.clients.count()),
        servers: known.has(Known::SERVERS).then(|| builder.servers.count()),
    }
}

/// Writes that requests of the slot may refer to.
fn writes(spill: &Spill, slot: &Range<u64>) -> Result<Writes, SpillError> {
    let mut writes = Writes::new();
    let to = slot.end.saturating_add(WRITE_AFTER.as_micros() as u64);
    spill.touching(slot.start, to, |bytes| {
        let number = |i: usize| {
            u64::from_le_bytes(bytes[i * 8..i * 8 + 8].try_into().expect("three numbers"))
        };
        if writes.len() < WRITES_MAX {
            writes.insert(number(0), (number(1), number(2)));
        }
    })?;
    Ok(writes)
}

fn figure(spec: &FigureSpec, mut curves: Vec<Curve>, slot_us: u64) -> Figure {
    let x = match spec.form {
        Form::Lines | Form::Stacked => Axis {
            label: format!("time, UTC, slots of {}", length(slot_us)),
            kind: AxisKind::TimeUtc,
        },
        Form::Cumulative | Form::OverSize => Axis {
            label: "size".to_owned(),
            kind: AxisKind::LogBytes,
        },
    };
    // The figure is not recorded if none of its curves is.
    let first = curves.first().and_then(|curve| curve.not_recorded.clone());
    let not_recorded = curves
        .iter()
        .all(|curve| curve.not_recorded.is_some())
        .then_some(first)
        .flatten();
    let is_empty = curves.iter().all(|curve| curve.points.is_empty());
    let filled_by = || {
        format!(
            "Empty: no request of this source had this. {}",
            catalogue::filled_by(spec.id)
        )
    };
    let empty = (is_empty && not_recorded.is_none()).then(filled_by);
    if spec.is_by_disk() {
        curves.retain(|curve| !curve.points.is_empty());
    }
    Figure {
        id: spec.id.to_owned(),
        title: spec.title.to_owned(),
        form: spec.form,
        x,
        y: Axis {
            label: spec.label.to_owned(),
            kind: spec.kind,
        },
        curves: if not_recorded.is_some() {
            Vec::new()
        } else {
            curves
        },
        paper_saw: spec.paper_saw.to_owned(),
        ours: String::new(),
        notes: spec.notes.iter().map(|&note| note.to_owned()).collect(),
        not_recorded,
        empty,
    }
}

fn length(us: u64) -> String {
    match us / 1_000_000 {
        seconds if seconds % 60 == 0 => format!("{} min", seconds / 60),
        seconds => format!("{seconds} s"),
    }
}

/// What this source cannot tell, and what is not exact.
fn notes(builder: &Builder, pass: &Pass, day: &Day, outside: u64, slots: usize) -> Vec<String> {
    let mut notes = builder.notes.clone();
    notes.extend(pass.known.all_missing(pass.kind));
    let mut note = |is_so: bool, text: String| notes.extend(is_so.then_some(text));
    note(
        builder.seen.version_1 > 0,
        format!(
            "{} of {} requests are of version 1 of the profile: their server reply ends with the head of the answer, their client connect began when the \
             connection was accepted and not with the request, their swap-in is the first read, and aborted ones are not told apart.",
            builder.seen.version_1, builder.requests
        ),
    );
    note(
        outside > 0,
        format!(
            "{outside} requests lie outside the {SLOTS_MAX} slots that are shown, and are left out. Longer slots show more."
        ),
    );
    note(
        !pass.is_exact,
        "Percentiles of slots with more than 1,000,000 values of a kind have three digits."
            .to_owned(),
    );
    note(
        !day.busy.is_exact(),
        "Percentiles of the whole period have three digits where there were more than 32,768 values.".to_owned(),
    );
    note(
        pass.open.left_out > 0,
        format!(
            "{} intervals of requests found no room and are left out of concurrency and utilisation. Shorter slots have room for them.",
            pass.open.left_out
        ),
    );
    let (named, found) = (
        day.all.count(Count::WritesNamed),
        day.all.count(Count::WritesFound),
    );
    note(
        pass.known.has(Known::WRITES) && found < named,
        format!(
            "{} of {named} swap-outs name a write that is not in the profile.",
            named - found
        ),
    );
    note(
        builder.marks_left_out > 0,
        format!("{} later marks are not shown.", builder.marks_left_out),
    );
    note(
        slots > SKETCHED_SLOTS_MAX,
        format!(
            "With more than {SKETCHED_SLOTS_MAX} slots the report can not be joined with others."
        ),
    );
    notes
}
