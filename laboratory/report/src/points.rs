//! Makes the points of curves from the numbers of a slot.
//!
//! Not known here: where the numbers come from.

use profile::Gauge;

use crate::catalogue::How;
use crate::cells::Cells;
use crate::gauges::Course;
use crate::kinds::{Group, Timed};
use crate::model::{Grid, Point, Spread};
use crate::sizes::{CLASSES, Over, Size, Sizes, cumulative_sizes, middle};
use crate::values::Union;

/// A point with fewer values than this is hollow.
//= report section 1   a slot needs 30 values of a measure, else its point is hollow
const FEW: u64 = 30;
/// Microseconds in a millisecond.
const MS: f64 = 1000.0;

/// How to make points.
#[derive(Clone, Copy)]
pub(crate) struct Manner {
    pub(crate) grid: Grid,
    /// Whether to keep distributions for joining.
    pub(crate) with_sketches: bool,
}

fn plain(x: f64, value: f64, count: u64, sum: f64) -> Point {
    Point {
        x,
        value,
        count,
        is_hollow: false,
        sum,
        spread: None,
        other_grid: None,
        sketch: Vec::new(),
    }
}

/// The point of a slot, or of the day; `None` if there are no values. In a partial slot, counts a second are too low.
pub(crate) fn point(
    cells: &Cells,
    how: How,
    x: f64,
    is_partial: bool,
    manner: Manner,
) -> Option<Point> {
    let mut point = match how {
        How::Time(timed, groups) => distribution(&cells.union(timed, groups), x, manner)?,
        How::Rate(counts) => rate(cells, counts, x, 1.0),
        How::Megabytes(counts) => rate(cells, counts, x, 1e-6),
        How::Percent(some, of) => ratio(x, cells.sum(some), cells.sum(of), 100.0)?,
        How::Mean(some, of) => ratio(x, cells.sum(some), cells.count(of), 1.0)?,
        How::There(set, percent) => there(cells, set, percent, x, manner)?,
        How::Busy(set) => {
            let [exact, grid] = &cells.levels[set];
            let (shown, other) = in_order(exact, grid, manner);
            let mut point = plain(
                x,
                shown.busy() * 100.0,
                0,
                shown.busy() * cells.seconds * 1e6,
            );
            point.other_grid = Some(other.busy() * 100.0);
            point
        }
        How::Share(stage, all, groups) => share(cells, (stage, all, groups), x, manner)?,
        How::Part(part, of) => {
            let (some, all) = (
                cells.parts[of][part as usize],
                cells.parts[of].iter().sum::<u64>(),
            );
            let mut point = ratio(x, some, all, 100.0)?;
            point.count = response_count(cells, of);
            point.is_hollow = point.count < FEW;
            point
        }
        How::Rise(gauges, scale) => gauge(cells, gauges, x, scale, Course::rate)?,
        How::Level(gauges, scale) => gauge(cells, gauges, x, scale, Course::mean)?,
        How::DiskRate(number) => {
            let counts = cells.disks.get(number)?.counts;
            let sum = counts.swap_ins.saturating_add(counts.swap_outs);
            plain(x, sum as f64 / cells.seconds, sum, sum as f64)
        }
        How::DiskBusy(number) => {
            let course = cells.disks.get(number)?.busy?;
            let percent = course.rate()? * 1e-4;
            plain(x, percent, course.samples, percent * cells.seconds)
        }
        How::DiskTime(number) => {
            let times = [&cells.disks.get(number)?.swap_in];
            distribution(&Union::new(times), x, manner)?
        }
        How::Sizes(_) | How::Over(_) => return None,
    };
    let is_by_time = matches!(
        how,
        How::Rate(_) | How::Megabytes(_) | How::There(..) | How::Busy(_) | How::DiskRate(_)
    );
    point.is_hollow |= is_partial && is_by_time;
    Some(point)
}

fn response_count(cells: &Cells, of: usize) -> u64 {
    let groups: &[Group] = match of {
        crate::cells::OF_MISSES => crate::kinds::OWN_MISSES,
        _ => &[Group::OkAlone],
    };
    cells.union(&[Timed::Response], groups).count()
}

fn distribution(union: &Union<'_>, x: f64, manner: Manner) -> Option<Point> {
    let spread = union.spread(MS)?;
    let mut point = plain(x, spread.p50, union.count(), union.sum() as f64);
    point.is_hollow = union.count() < FEW;
    point.spread = Some(spread);
    if manner.with_sketches {
        point.sketch = union.sketch();
    }
    Some(point)
}

fn rate(cells: &Cells, counts: &[crate::kinds::Count], x: f64, scale: f64) -> Point {
    let sum = cells.sum(counts);
    plain(x, sum as f64 / cells.seconds * scale, sum, sum as f64)
}

fn ratio(x: f64, some: u64, of: u64, scale: f64) -> Option<Point> {
    let mut point = plain(x, some as f64 / of as f64 * scale, of, some as f64);
    point.is_hollow = of < FEW;
    (of > 0).then_some(point)
}

fn in_order<'a, T>(exact: &'a T, grid: &'a T, manner: Manner) -> (&'a T, &'a T) {
    match manner.grid {
        Grid::Exact => (exact, grid),
        Grid::TwoMs => (grid, exact),
    }
}

fn at(spread: &Spread, percent: u64) -> f64 {
    if percent == 75 {
        spread.p75
    } else {
        spread.p50
    }
}

fn there(cells: &Cells, set: usize, percent: u64, x: f64, manner: Manner) -> Option<Point> {
    let [exact, grid] = &cells.levels[set];
    let (shown, other) = in_order(exact, grid, manner);
    let spread = shown.spread()?;
    let mut point = plain(x, at(&spread, percent), 0, exact.sum());
    point.spread = Some(spread);
    point.other_grid = other.spread().map(|other| at(&other, percent));
    Some(point)
}

type Stages<'a> = (&'a [Timed], &'a [&'a [Timed]], &'a [Group]);

//= report section 2   median of each stage per slot over the sum of the medians; a stage that was not counts 0
fn share(cells: &Cells, (stage, all, groups): Stages<'_>, x: f64, manner: Manner) -> Option<Point> {
    let count = cells.union(&[Timed::Response], groups).count();
    let padded = |timed: &[Timed]| cells.union(timed, groups).with_zeros_up_to(count);
    let total: u64 = all.iter().map(|timed| padded(timed).at_percent(50)).sum();
    let union = padded(stage);
    let median = union.at_percent(50);
    let mut point = plain(
        x,
        // All medians may be 0. The point exists even then, so that a joined report knows its number of requests.
        median as f64 / total.max(1) as f64 * 100.0,
        count,
        median as f64,
    );
    point.is_hollow = count < FEW;
    if manner.with_sketches {
        point.sketch = union.sketch();
    }
    (count > 0).then_some(point)
}

fn gauge(
    cells: &Cells,
    gauges: &[Gauge],
    x: f64,
    scale: f64,
    of: impl Fn(&Course) -> Option<f64>,
) -> Option<Point> {
    let courses = gauges
        .iter()
        .filter_map(|&gauge| cells.courses.get(&(gauge as u8)));
    let (mut value, mut samples) = (None, 0);
    for course in courses {
        if let Some(more) = of(course) {
            value = Some(value.unwrap_or(0.0) + more);
            samples += course.samples;
        }
    }
    let value = value? * scale;
    Some(plain(x, value, samples, value * cells.seconds))
}

/// All points of a curve over sizes, and the point of all sizes together.
pub(crate) fn over(sizes: &Sizes, over: Over, manner: Manner) -> (Vec<Point>, Option<Point>) {
    let points = (0..CLASSES)
        .filter_map(|class| distribution(&sizes.over(over, class), middle(class), manner));
    (
        points.collect(),
        distribution(&sizes.over_all(over), 0.0, manner),
    )
}

/// A cumulative curve, and the distribution of its sizes.
pub(crate) fn cumulative(
    sizes: &Sizes,
    which: &[Size],
    manner: Manner,
) -> (Vec<Point>, Option<Point>) {
    let union = sizes.union(which);
    let Some(spread) = union.spread(1.0) else {
        return (Vec::new(), None);
    };
    let count = union.count();
    let points = cumulative_sizes().map(|size| {
        let up_to = union.count_up_to(size as u64);
        let share = up_to as f64 / count as f64 * 100.0;
        let mut point = plain(size, share, count, up_to as f64);
        point.is_hollow = count < FEW;
        point
    });
    let mut day = plain(0.0, spread.p50, count, union.sum() as f64);
    day.spread = Some(spread);
    if manner.with_sketches {
        day.sketch = union.sketch();
    }
    (points.collect(), Some(day))
}
