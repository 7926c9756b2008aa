//! Joins several reports from their JSON: of proxies behind one name, or of the days of a week.
//!
//! Counts and sums are added, and distributions are merged within 1 %. Numbers that cannot be computed from two reports are left out:
//! requests in all proxies at the same time, documents new to all proxies. For those, make one report from the profiles.

use std::collections::{BTreeMap, BTreeSet};

use crate::known::Known;
use crate::measures;
use crate::model::{
    Combine, Curve, Figure, Form, Point, Slot, SourceKind, SourceReport, Spread, Table, Troubles,
};
use crate::protocols;
use crate::slots::{SLOTS_MAX, is_idle};
use crate::tables;
use crate::uniques::Uniques;
use crate::values::join_sketches;

/// Most marks of a joined report.
const MARKS_MAX: usize = 1000;
const APART: &str = "can not be made from reports: give the profiles themselves to one report";

/// Why reports cannot be joined.
#[derive(Debug, PartialEq, thiserror::Error)]
pub enum JoinError {
    /// There is nothing to join.
    #[error("there is no report to join; name at least one")]
    Nothing,
    /// The reports differ in a property that must be equal.
    #[error("{first} and {second} differ in {what}: make both again with the same")]
    Different {
        /// The name of one report.
        first: String,
        /// The name of another report.
        second: String,
        /// The property.
        what: &'static str,
    },
    /// The joined report would have too many slots.
    #[error(
        "together they last {slots} slots, and a report has at most {SLOTS_MAX}: make them again with a longer --slot"
    )]
    TooLong {
        /// The number of slots.
        slots: u64,
    },
    /// A report has no sketches of its distributions.
    #[error(
        "{name} does not have its distributions (it has too many slots): make it again with a longer --slot"
    )]
    NoSketch {
        /// The name of the report.
        name: String,
    },
}

/// Joins these reports into one with this name.
///
/// # Errors
/// If lengths of slots, figures, or the treatment of aborted requests differ; too many slots; a report without sketches.
pub fn join(name: &str, reports: &[SourceReport]) -> Result<SourceReport, JoinError> {
    let Some((first, rest)) = reports.split_first() else {
        return Err(JoinError::Nothing);
    };
    for other in rest {
        alike(first, other)?;
    }
    let slots = slots(reports)?;
    let joining = Joining {
        reports,
        slots: &slots,
        slot_s: first.slot_us as f64 / 1e6,
    };
    let figures: Result<Vec<_>, _> = (0..first.figures.len())
        .map(|i| joining.figure(i))
        .collect();
    let mut counts = BTreeMap::new();
    for (count, number) in reports.iter().flat_map(|report| &report.counts) {
        let sum: &mut u64 = counts.entry(count.clone()).or_default();
        *sum = sum.saturating_add(*number);
    }
    let mut joined = SourceReport {
        name: name.to_owned(),
        level: first
            .level
            .filter(|level| rest.iter().all(|other| other.level == Some(*level))),
        kind: SourceKind::Joined,
        began_unix_us: reports
            .iter()
            .map(|report| report.began_unix_us)
            .min()
            .unwrap_or(0),
        ended_unix_us: reports
            .iter()
            .map(|report| report.ended_unix_us)
            .max()
            .unwrap_or(0),
        requests: (reports.iter()).fold(0, |sum, report| sum.saturating_add(report.requests)),
        slot_us: first.slot_us,
        grid: first.grid,
        with_aborted: first.with_aborted,
        figures: figures?,
        tables: Vec::new(),
        measures: Vec::new(),
        counts,
        marks: reports
            .iter()
            .flat_map(|report| report.marks.clone())
            .collect(),
        notes: notes(reports),
        troubles: Troubles::default(),
        slots,
    };
    joined.marks.sort_by_key(|mark| mark.at_unix_us);
    joined.marks.truncate(MARKS_MAX);
    for report in reports {
        joined.troubles.extend(&report.troubles);
    }
    let known = known(reports);
    joined.tables = tables(&joined, known);
    joined.measures = measures::measure(&joined, Uniques::default(), known);
    Ok(joined)
}

fn alike(first: &SourceReport, other: &SourceReport) -> Result<(), JoinError> {
    let figures = |report: &SourceReport| -> Vec<String> {
        report
            .figures
            .iter()
            .map(|figure| figure.id.clone())
            .collect()
    };
    let what = if first.slot_us != other.slot_us {
        "the length of a slot (--slot)"
    } else if first.with_aborted != other.with_aborted {
        "--with-aborted"
    } else if figures(first) != figures(other) {
        "their figures (they are of different versions)"
    } else {
        return Ok(());
    };
    Err(JoinError::Different {
        first: first.name.clone(),
        second: other.name.clone(),
        what,
    })
}

fn slots(reports: &[SourceReport]) -> Result<Vec<Slot>, JoinError> {
    let slot_us = reports[0].slot_us.max(1);
    let mut requests: BTreeMap<u64, (u64, bool)> = BTreeMap::new();
    for slot in reports.iter().flat_map(|report| &report.slots) {
        let of = requests.entry(slot.start_unix_us / slot_us).or_default();
        of.0 = of.0.saturating_add(slot.requests);
        of.1 |= slot.is_partial;
    }
    let (Some((&first, _)), Some((&last, _))) =
        (requests.first_key_value(), requests.last_key_value())
    else {
        return Ok(Vec::new());
    };
    let count = last - first + 1;
    if count > SLOTS_MAX {
        return Err(JoinError::TooLong { slots: count });
    }
    let most = requests.values().map(|of| of.0).max().unwrap_or(0);
    let slot = |number| {
        let (requests, is_partial) = requests.get(&number).copied().unwrap_or((0, false));
        Slot {
            start_unix_us: number * slot_us,
            requests,
            is_idle: is_idle(requests, most),
            is_partial,
        }
    };
    Ok((first..=last).map(slot).collect())
}

fn notes(reports: &[SourceReport]) -> Vec<String> {
    let names: Vec<&str> = reports.iter().map(|report| report.name.as_str()).collect();
    let mut notes = vec![format!(
        "Joined from {}. Percentiles are within 1 %.",
        names.join(", ")
    )];
    for report in reports {
        notes.extend(
            report
                .notes
                .iter()
                .map(|note| format!("{}: {note}", report.name)),
        );
    }
    notes
}

/// What the joined source can tell about classes.
fn known(reports: &[SourceReport]) -> Known {
    let has = |figure: &str, curve: &str| {
        reports.iter().all(|report| {
            let curve = report.figure(figure).and_then(|figure| figure.curve(curve));
            curve.is_some_and(|curve| curve.not_recorded.is_none())
        })
    };
    let mut known = Known::PROFILE;
    let has_protocols = |report: &SourceReport| {
        let table = report.tables.iter().find(|table| table.id == protocols::ID);
        table.is_some_and(|table| table.not_recorded.is_none())
    };
    if !reports.iter().all(has_protocols) {
        known = known.without(Known::PROTOCOLS);
    }
    // A source without peers has no hits at peers.
    let has_peers = |report: &SourceReport| {
        (report.figure("8b")).is_some_and(|figure| figure.not_recorded.is_none())
    };
    if !reports.iter().any(has_peers) {
        known = known.without(Known::PEERS);
    }
    for (curve, what) in [
        ("uncachable", Known::UNCACHABLE),
        ("aborted", Known::ABORTS),
    ] {
        if !has("shares", curve) {
            known = known.without(what);
        }
    }
    known
}

fn tables(joined: &SourceReport, known: Known) -> Vec<Table> {
    let apart = |id: &str, title: &str| Table {
        id: id.to_owned(),
        title: title.to_owned(),
        facts: Vec::new(),
        not_recorded: Some("see the reports that were joined".to_owned()),
    };
    vec![
        apart("1", "Proxy"),
        apart("2", "Configuration"),
        tables::traffic(joined, Uniques::default()),
        tables::classes(joined, known),
        protocols::table(joined, known),
        apart("disks", "Disks"),
        apart("22", "One I/O and its overhead"),
    ]
}

struct Joining<'a> {
    reports: &'a [SourceReport],
    slots: &'a [Slot],
    slot_s: f64,
}

impl Joining<'_> {
    fn figure(&self, number: usize) -> Result<Figure, JoinError> {
        let all: Vec<&Figure> = self
            .reports
            .iter()
            .map(|report| &report.figures[number])
            .collect();
        let missing = all.iter().find_map(|figure| figure.not_recorded.clone());
        // A figure that is empty in all reports is empty in the joined one, for the same reason.
        let is_empty = all.iter().all(|figure| figure.empty.is_some());
        let mut joined = Figure {
            curves: Vec::new(),
            ours: String::new(),
            not_recorded: missing,
            empty: all[0].empty.clone().filter(|_| is_empty),
            ..all[0].clone()
        };
        if joined.not_recorded.is_some() {
            return Ok(joined);
        }
        let mut ids: Vec<&str> = Vec::new();
        for curve in all.iter().flat_map(|figure| &figure.curves) {
            if !ids.contains(&curve.id.as_str()) {
                ids.push(&curve.id);
            }
        }
        for id in ids {
            joined.curves.push(self.curve(&all, id)?);
        }
        shares(&mut joined.curves);
        if joined
            .curves
            .iter()
            .all(|curve| curve.not_recorded.is_some())
        {
            joined.not_recorded = joined
                .curves
                .first()
                .and_then(|curve| curve.not_recorded.clone());
            joined.curves.clear();
        }
        Ok(joined)
    }

    fn curve(&self, figures: &[&Figure], id: &str) -> Result<Curve, JoinError> {
        let curves: Vec<&Curve> = figures
            .iter()
            .filter_map(|figure| figure.curve(id))
            .collect();
        let missing = curves.iter().find_map(|curve| curve.not_recorded.clone());
        let mut joined = Curve {
            points: Vec::new(),
            day: None,
            ..curves[0].clone()
        };
        if joined.combine == Combine::Apart {
            joined.not_recorded = Some(APART.to_owned());
        } else if missing.is_some() || curves.len() < figures.len() {
            joined.not_recorded = missing.or(Some(APART.to_owned()));
        }
        if joined.not_recorded.is_some() {
            return Ok(joined);
        }
        let xs: BTreeSet<u64> = (curves.iter())
            .flat_map(|curve| curve.points.iter().map(|point| point.x.to_bits()))
            .collect();
        let is_percent = figures[0].y.label.contains('%');
        for x in xs.into_iter().map(f64::from_bits) {
            let of = |curve: &&&Curve| curve.points.iter().any(|point| point.x == x);
            let points: Vec<&Point> = (curves.iter().filter(of))
                .flat_map(|curve| curve.points.iter().filter(|point| point.x == x))
                .collect();
            joined
                .points
                .push(self.point(&points, joined.combine, is_percent, self.slot_s)?);
        }
        let days: Vec<&Point> = curves
            .iter()
            .filter_map(|curve| curve.day.as_ref())
            .collect();
        if figures[0].form == Form::Cumulative {
            joined.day = (!days.is_empty())
                .then(|| self.point(&days, Combine::Sketch, false, 0.0))
                .transpose()?;
        } else if !days.is_empty() {
            let seconds = self.busy_seconds().max(f64::MIN_POSITIVE);
            joined.day = Some(self.point(&days, joined.combine, is_percent, seconds)?);
        }
        Ok(joined)
    }

    /// Length of all slots that are not idle.
    fn busy_seconds(&self) -> f64 {
        self.slots.iter().filter(|slot| !slot.is_idle).count() as f64 * self.slot_s
    }

    /// Joins points with the same `x`.
    fn point(
        &self,
        points: &[&Point],
        combine: Combine,
        is_percent: bool,
        seconds: f64,
    ) -> Result<Point, JoinError> {
        let count = (points.iter()).fold(0u64, |sum, point| sum.saturating_add(point.count));
        let sum: f64 = points.iter().map(|point| point.sum).sum();
        let mut joined = Point {
            count,
            sum,
            is_hollow: points.iter().all(|point| point.is_hollow),
            ..points[0].clone()
        };
        match combine {
            Combine::Ratio => {
                joined.value = sum / count as f64 * if is_percent { 100.0 } else { 1.0 }
            }
            Combine::Rate => joined.value = sum / seconds,
            Combine::Megabytes => joined.value = sum / seconds / 1e6,
            // Computed from all curves of the figure, once they exist.
            Combine::Share => {}
            Combine::Sketch | Combine::MedianShare => {
                self.distribution(points, combine, &mut joined)?
            }
            Combine::Apart => unreachable!("such a curve has no points"),
        }
        Ok(joined)
    }

    fn distribution(
        &self,
        points: &[&Point],
        combine: Combine,
        joined: &mut Point,
    ) -> Result<(), JoinError> {
        if points
            .iter()
            .any(|point| point.sketch.is_empty() && point.count > 0)
        {
            let has_none = |report: &&SourceReport| {
                (report.figures.iter().flat_map(|figure| &figure.curves))
                    .filter(|curve| curve.combine == Combine::Sketch)
                    .any(|curve| curve.points.iter().any(|point| point.sketch.is_empty()))
            };
            let name = self
                .reports
                .iter()
                .find(has_none)
                .map_or("a report", |report| &report.name);
            return Err(JoinError::NoSketch {
                name: name.to_owned(),
            });
        }
        let sketched = join_sketches(points.iter().map(|point| &point.sketch[..]));
        joined.sketch = sketched.sketch();
        // The unit of a sketch is microseconds or bytes; that of a point is milliseconds or bytes.
        let unit = points.iter().find_map(|point| {
            let sum = point.spread?.mean * point.count as f64;
            (sum > 0.0).then(|| (point.sum / sum).round())
        });
        let largest = points
            .iter()
            .filter_map(|point| Some(point.spread?.max))
            .fold(0.0, f64::max);
        let unit = unit.unwrap_or(1.0).max(1.0);
        let mean = joined.sum / joined.count.max(1) as f64 / unit;
        let spread: Spread = sketched.spread(unit, mean, largest);
        joined.value = spread.p50;
        if combine == Combine::MedianShare {
            joined.sum = spread.p50;
        } else {
            joined.spread = Some(spread);
        }
        Ok(())
    }
}

/// Computes shares from the sums of all curves, at each `x` and for the day.
fn shares(curves: &mut [Curve]) {
    let is_share = |curve: &Curve| matches!(curve.combine, Combine::Share | Combine::MedianShare);
    if !curves.iter().all(is_share) {
        return;
    }
    let mut sums: BTreeMap<u64, f64> = BTreeMap::new();
    for point in curves
        .iter()
        .flat_map(|curve| curve.points.iter().chain(&curve.day))
    {
        *sums.entry(point.x.to_bits()).or_default() += point.sum;
    }
    for point in curves
        .iter_mut()
        .flat_map(|curve| curve.points.iter_mut().chain(&mut curve.day))
    {
        point.value = point.sum / sums[&point.x.to_bits()].max(f64::MIN_POSITIVE) * 100.0;
    }
}
