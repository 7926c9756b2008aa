//! Tables 6.1 to 6.6 and Figures 6.1 and 6.2 of paper 004, from our runs, beside the paper's values.
//!
//! The paper made a run of hours for each rate. One run of ours has all rates too, in its ramps: its samples are sorted by load, in
//! tenths of the peak. A search has a run for each rate, as the paper did. Other callers (runs of several proxies in turn) use the
//! parts: [`summary`], [`peaks`], [`table_6_6`] with [`printed_6_6`], [`figures`].
//!
//! Not known here: whether a peak is real (`search`).   Limits: the paper's figures are of the hardware of its day; only the shapes
//! of curves compare.   Source: paper 004, section 6.

use page::{Axis, Page, Plot, Series, Table};

use crate::report::{Report, Row, percent, ratio};
use crate::search::{SearchReport, Step};
use crate::series::Sample;

/// Values of the paper's Tables 6.1 to 6.4.
struct Printed {
    table: &'static str,
    name: &'static str,
    reply_rate: f64,
    response_ms: f64,
    miss_ms: f64,
    hit_ms: f64,
    hit_percent: f64,
    /// From Table 6.5.
    peak: f64,
}

const PRINTED: [Printed; 4] = [
    Printed {
        table: "6.1",
        name: "(1) Squid 2.3 stable 4",
        reply_rate: 60.02,
        response_ms: 1809.19,
        miss_ms: 3426.94,
        hit_ms: 393.26,
        hit_percent: 56.14,
        peak: 60.0,
    },
    Printed {
        table: "6.2",
        name: "(2) Squid 2.4 stable 6",
        reply_rate: 139.96,
        response_ms: 1481.91,
        miss_ms: 2847.03,
        hit_ms: 172.05,
        hit_percent: 53.71,
        peak: 140.0,
    },
    Printed {
        table: "6.3",
        name: "(3) expv1",
        reply_rate: 399.95,
        response_ms: 2631.29,
        miss_ms: 4205.21,
        hit_ms: 1039.02,
        hit_percent: 52.91,
        peak: 400.0,
    },
    Printed {
        table: "6.4",
        name: "(4) expv2",
        reply_rate: 449.8,
        response_ms: 2630.19,
        miss_ms: 4720.21,
        hit_ms: 988.02,
        hit_percent: 52.11,
        peak: 450.0,
    },
];

/// Table 6.6: peak request rate, response, miss and hit time, hit ratio.
const PRINTED_6_6: [[f64; 5]; 13] = [
    [200.0, 1398.02, 2941.2, 58.08, 56.36],
    [220.0, 1410.83, 2950.64, 70.12, 56.28],
    [240.0, 1423.91, 2960.64, 79.14, 56.18],
    [260.0, 1446.20, 2981.7, 90.22, 55.90],
    [280.0, 1467.12, 3001.92, 103.91, 55.77],
    [300.0, 1494.39, 3025.85, 121.88, 55.52],
    [320.0, 1525.41, 3052.63, 141.93, 55.20],
    [340.0, 1569.85, 3092.8, 172.65, 54.89],
    [360.0, 1619.5, 3140.61, 206.12, 54.53],
    [380.0, 1746.96, 3232.94, 277.7, 53.75],
    [400.0, 1818.80, 3338.05, 365.06, 52.91],
    [420.0, 2230.57, 3659.79, 645.54, 52.52],
    [450.0, 2630.19, 4720.21, 1039.02, 52.11],
];

/// Most windows that a phase is cut into.
const WINDOWS: usize = 10;
/// Steps of load up to the peak.
const LOADS: usize = 10;
/// The paper's curves are drawn too if our highest rate is within this factor of the paper's.
const COMPARABLE: f64 = 3.0;

/// Results at one rate: a row of Table 6.6.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// Requests a second.
    pub rate: f64,
    /// Mean of all replies.
    pub response_ms: f64,
    /// Mean of basic misses.
    pub miss_ms: f64,
    /// Mean of basic hits.
    pub hit_ms: f64,
    /// Document hit ratio.
    pub hit_percent: f64,
    /// Hit ratio of a cache without limits.
    pub offered_percent: f64,
}

impl Point {
    /// The results of a phase.
    #[must_use]
    pub fn of(rate: f64, row: &Row) -> Self {
        Self {
            rate,
            response_ms: row.response.mean_ms,
            miss_ms: row.miss.mean_ms,
            hit_ms: row.hit.mean_ms,
            hit_percent: row.dhr_percent,
            offered_percent: row.offered_percent,
        }
    }
}

/// The results of a system at full load: one of Tables 6.1 to 6.4.
#[derive(Debug, Clone, PartialEq)]
pub struct Tested {
    /// Name of the system.
    pub name: String,
    /// Times and hit ratio. Its rate is the planned one.
    pub point: Point,
    /// Replies a second.
    pub reply_rate: f64,
    /// Share of the replies that are errors.
    pub errors_percent: f64,
    /// Length of those phases, seconds.
    pub length_s: f64,
    /// The phases at full load.
    pub phases: String,
}

impl Tested {
    /// The results of a run.
    #[must_use]
    pub fn of(name: String, report: &Report) -> Self {
        let top = report.top();
        Self {
            name,
            point: Point::of(report.plan.rate, &top),
            reply_rate: top.reply_rate,
            errors_percent: top.errors_percent,
            length_s: top.length_s,
            phases: top.name,
        }
    }
}

/// The section of a page for one run.
pub(super) fn of_run(page: &mut Page, report: &Report) {
    page.heading("As in paper 004").text(
        "Tables and figures of Jan, Weng and Lai, from this run, and what they printed. Table 6.6 and the figures sort what happened after the fill by load, a tenth of the peak each: the ramps have them all. Their figures are of the hardware of 2001.",
    );
    page.table(&summary(&[Tested::of(name(report), report)]));
    let top = report.top();
    let conditions = crate::search::Conditions::for_think_scale(report.plan.think_scale);
    let stood = conditions.judge(report) == crate::search::Verdict::Stood;
    let peak = stood.then_some(top.intended_rate);
    page.table(&peaks(&[(name(report), peak)]));
    page.text("A run stands one rate, so its peak is at least that; loligo bench search finds it.");
    curves(page, &[(String::new(), by_load(report))]);
}

/// The highest load that a search found sustained, for the table of results; empty if there is none.
pub(super) fn highest(label: &str, search: &SearchReport) -> Vec<Tested> {
    let step = search.highest_stood();
    step.map(|step| Tested::of(format!("{label} at {} req/s", step.rate), &step.report))
        .into_iter()
        .collect()
}

/// The results of a search, by rate.
pub(super) fn by_step(search: &SearchReport) -> Vec<Point> {
    let steps = search.by_rate();
    let point = |step: &&Step| Point::of(step.rate, &step.report.top());
    steps.iter().map(point).collect()
}

/// Tables 6.1 to 6.4, one system a row; ours come first.
#[must_use]
pub fn summary(ours: &[Tested]) -> Table {
    let columns = [
        "",
        "throughput (rep/s)",
        "response (ms)",
        "misses (ms)",
        "hits (ms)",
        "hit ratio (%)",
        "errors (%)",
        "duration (h)",
        "phases",
    ];
    let mut table = Table::new("Tables 6.1 to 6.4: test results", &columns);
    for tested in ours {
        table.row([
            tested.name.clone(),
            format!("{:.2}", tested.reply_rate),
            format!("{:.2}", tested.point.response_ms),
            format!("{:.2}", tested.point.miss_ms),
            format!("{:.2}", tested.point.hit_ms),
            format!("{:.2}", tested.point.hit_percent),
            format!("{:.2}", tested.errors_percent),
            format!("{:.3}", tested.length_s / 3_600.0),
            tested.phases.clone(),
        ]);
    }
    for printed in &PRINTED {
        table.row([
            format!("Table {}: {}", printed.table, printed.name),
            format!("{:.2}", printed.reply_rate),
            format!("{:.2}", printed.response_ms),
            format!("{:.2}", printed.miss_ms),
            format!("{:.2}", printed.hit_ms),
            format!("{:.2}", printed.hit_percent),
            "0.00".to_owned(),
            "8.00".to_owned(),
            "top1 & top2".to_owned(),
        ]);
    }
    table
}

/// Table 6.5: peaks, and how far they are above those of the paper's two Squids. Ours are a name and a peak, if one was found.
#[must_use]
pub fn peaks(ours: &[(String, Option<f64>)]) -> Table {
    let names = PRINTED.iter().map(|printed| printed.name.to_owned());
    let columns: Vec<String> = std::iter::once(String::new())
        .chain(names)
        .chain(ours.iter().map(|(name, _)| name.clone()))
        .collect();
    let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
    let mut table = Table::new("Table 6.5: peak request rates", &columns);
    let peaks: Vec<Option<f64>> = PRINTED
        .iter()
        .map(|printed| Some(printed.peak))
        .chain(ours.iter().map(|(_, peak)| *peak))
        .collect();
    let cells = |name: &str, of: &dyn Fn(usize, f64) -> Option<String>| {
        let cell = |(n, peak): (usize, &Option<f64>)| peak.and_then(|p| of(n, p));
        std::iter::once(name.to_owned())
            .chain(
                peaks
                    .iter()
                    .enumerate()
                    .map(move |pair| cell(pair).unwrap_or_else(|| "-".to_owned())),
            )
            .collect::<Vec<_>>()
    };
    table.row(cells("peak request rate (req/s)", &|_, peak| {
        Some(format!("{peak:.0}"))
    }));
    for (first, printed) in PRINTED.iter().enumerate().take(2) {
        let name = format!("compared to ({}) (req/s)", first + 1);
        table.row(cells(&name, &|n, peak| {
            (n > first).then(|| format!("{:+.0}", peak - printed.peak))
        }));
    }
    table
}

/// Table 6.6 and Figures 6.1 and 6.2 of each system, with its name if there are several; the paper's Table 6.6 comes between them.
pub(super) fn curves(page: &mut Page, each: &[(String, Vec<Point>)]) {
    for (name, points) in each {
        page.table(&table_6_6(name, points));
    }
    page.table(&printed_6_6());
    for (name, points) in each {
        for plot in figures(name, points) {
            page.plot(&plot);
        }
    }
}

const COLUMNS_6_6: [&str; 6] = [
    "peak request rate (req/s)",
    "response time (ms)",
    "miss time (ms)",
    "hit time (ms)",
    "hit ratio (%)",
    "offered (%)",
];

/// A caption, with the system's name where there are several.
fn of_system(caption: &str, name: &str) -> String {
    if name.is_empty() {
        caption.to_owned()
    } else {
        format!("{caption}, {name}")
    }
}

/// Table 6.6 of a system. Its name is empty if it is the only one.
#[must_use]
pub fn table_6_6(name: &str, points: &[Point]) -> Table {
    let mut table = Table::new(&of_system("Table 6.6: by request rate", name), &COLUMNS_6_6);
    for point in points {
        let Point {
            response_ms,
            miss_ms,
            hit_ms,
            hit_percent,
            offered_percent,
            rate,
        } = point;
        let times = [response_ms, miss_ms, hit_ms, hit_percent, offered_percent];
        let cells = times.map(|value| format!("{value:.2}"));
        table.row(std::iter::once(format!("{rate:.0}")).chain(cells));
    }
    table
}

/// Table 6.6 of the paper's own system.
#[must_use]
pub fn printed_6_6() -> Table {
    let mut printed = Table::new("Table 6.6 as printed", &COLUMNS_6_6[..5]);
    for [rate, times @ ..] in PRINTED_6_6 {
        let cells = times.map(|value| format!("{value:.2}"));
        printed.row(std::iter::once(format!("{rate:.0}")).chain(cells));
    }
    printed
}

/// Figures 6.1 and 6.2 of a system. Its name is empty if it is the only one. The paper's values are drawn if the rates compare.
#[must_use]
pub fn figures(name: &str, points: &[Point]) -> [Plot; 2] {
    let highest = points.iter().map(|p| p.rate).fold(0.0, f64::max);
    let theirs = PRINTED_6_6
        .map(|row| row[0])
        .into_iter()
        .fold(0.0, f64::max);
    let comparable = (theirs / COMPARABLE..=theirs * COMPARABLE).contains(&highest);
    let draw = |plot: Plot, name: &str, value: fn(&Point) -> f64, column: Option<usize>| {
        let ours = points.iter().map(|p| (p.rate, value(p))).collect();
        let plot = plot.with(Series::line(name, ours));
        match column.filter(|_| comparable) {
            Some(column) => {
                let printed = PRINTED_6_6.iter().map(|row| (row[0], row[column]));
                plot.with(Series::dashes(
                    &format!("{name}, printed"),
                    printed.collect(),
                ))
            }
            None => plot,
        }
    };
    let rate = || Axis::linear("request rate (req/s)");
    let plot = Plot::new(
        &of_system(
            "Figure 6.1: request rate versus response time, miss time and hit time",
            name,
        ),
        rate(),
        Axis::linear("ms"),
    );
    let plot = draw(plot, "response time", |p| p.response_ms, Some(1));
    let plot = draw(plot, "miss time", |p| p.miss_ms, Some(2));
    let times = draw(plot, "hit time", |p| p.hit_ms, Some(3));
    let plot = Plot::new(
        &of_system("Figure 6.2: request rate versus hit ratio", name),
        rate(),
        Axis::linear("%").without_zero(),
    );
    let plot = draw(plot, "hit ratio", |p| p.hit_percent, Some(4));
    let ratios = draw(plot, "offered", |p| p.offered_percent, None);
    [times, ratios]
}

/// The name of a run.
pub(super) fn name(report: &Report) -> String {
    if report.label.is_empty() {
        "this run".to_owned()
    } else {
        report.label.clone()
    }
}

/// Results after the fill, sorted by load.
#[allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss
)] // moments of a run, loads up to a few peaks
pub(super) fn by_load(report: &Report) -> Vec<Point> {
    let mut loads = vec![(Sample::default(), 0); 2 * LOADS];
    let working = |row: &&Row| {
        ["inc", "top", "dec", "idle"]
            .iter()
            .any(|n| row.name.starts_with(n))
    };
    for row in report.phases.iter().filter(working) {
        let index = |at_s: f64| ((at_s / report.interval_s) as usize).min(report.series.len());
        let moments = &report.series[index(row.from_s)..index(row.to_s)];
        let size = moments.len().div_ceil(WINDOWS).max(1);
        for window in moments.chunks(size) {
            let sum = window
                .iter()
                .fold(Sample::default(), |sum, m| sum.then(&m.sample));
            let rate = sum.requests as f64 / (window.len() as f64 * report.interval_s);
            let load = (rate / report.plan.rate * LOADS as f64).round() as usize;
            let (all, count) = &mut loads[load.min(2 * LOADS - 1)];
            *all = all.then(&sum);
            *count += window.len();
        }
    }
    let point = |(sum, count): &(Sample, usize)| Point {
        rate: sum.requests as f64 / (*count as f64 * report.interval_s),
        response_ms: ratio(sum.response_s * 1e3, sum.replies),
        miss_ms: ratio(sum.miss_s * 1e3, sum.basic - sum.hits),
        hit_ms: ratio(sum.hit_s * 1e3, sum.hits),
        hit_percent: percent(sum.hits, sum.basic),
        offered_percent: percent(sum.offered, sum.basic),
    };
    let seen = loads.iter().filter(|(sum, _)| sum.basic > 0);
    seen.map(point).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{self, HIT_MS, MISS_MS};

    #[test]
    #[allow(clippy::cast_precision_loss)]
    fn the_ramps_of_one_run_have_all_rates() {
        let points = by_load(&testing::report("a", 100.0));
        assert!(points.len() >= 8, "{points:?}");
        assert!(points.windows(2).all(|pair| pair[0].rate < pair[1].rate));
        for point in &points {
            assert!((point.hit_ms - HIT_MS as f64).abs() < 0.1);
            assert!((point.miss_ms - MISS_MS as f64).abs() < 0.1);
            assert!((point.hit_percent - 60.0).abs() < 15.0, "{point:?}");
        }
        let peak = points.last().unwrap();
        assert!((peak.rate - 100.0).abs() < 3.0, "{peak:?}");
    }

    #[test]
    fn peaks_compare_as_in_the_paper() {
        let table = peaks(&[("ours".to_owned(), Some(1000.0)), ("none".to_owned(), None)]);
        let text = table.text();
        let lines: Vec<Vec<&str>> = text
            .lines()
            .map(|line| line.split_whitespace().collect())
            .collect();
        assert!(
            lines[2].ends_with(&["60", "140", "400", "450", "1000", "-"]),
            "{text}"
        );
        assert!(
            lines[3].ends_with(&["-", "+80", "+340", "+390", "+940", "-"]),
            "{text}"
        );
        assert!(
            lines[4].ends_with(&["-", "-", "+260", "+310", "+860", "-"]),
            "{text}"
        );
    }

    #[test]
    fn the_printed_curve_is_drawn_where_rates_compare() {
        let drawn = |rate| {
            let mut page = Page::new("t");
            let points = by_load(&testing::report("a", rate));
            curves(&mut page, &[(String::new(), points)]);
            page.html().contains("hit time, printed")
        };
        assert!(drawn(400.0) && !drawn(2_000.0));
    }
}
