//! The findings of a source, beside those of the paper, and the differences between the two grids.
//!
//! All findings are about the period without idle slots.

use crate::cells::Day;
use crate::kinds::{CACHABLE, MISSES, Timed};
use crate::model::{AxisKind, Curve, Figure, Grid, Point, SourceReport};
use crate::sizes::{class_of, middle};
use crate::tables::one_and_two_reads;

/// Both values are given if the two ways of counting differ by more than this.
//= report section 1   names the paper's where they differ by over a tenth
const DIFFERENT: f64 = 0.1;

/// Sets `ours` of the figures, and adds to their notes.
pub(crate) fn add(report: &mut SourceReport, day: &Day) {
    let concurrent_misses = mean(report, "4", "miss");
    let grid = report.grid;
    for figure in &mut report.figures {
        if let Some(ours) = ours(figure, day, concurrent_misses) {
            figure.ours = ours;
        }
        if let Some(note) = not_on_the_axis(figure) {
            figure.notes.push(note);
        }
        let different: Vec<String> = figure.curves.iter().filter_map(by_the_other_grid).collect();
        if !different.is_empty() {
            let way = match grid {
                Grid::Exact => "On the paper's grid of 2 ms",
                Grid::TwoMs => "By the time that each number lasted",
            };
            figure
                .notes
                .push(format!("{way}: {}.", different.join(", ")));
        }
    }
}

/// A note about points that a logarithmic axis cannot show, because they are 0.
fn not_on_the_axis(figure: &Figure) -> Option<String> {
    if figure.y.kind != AxisKind::Log || figure.x.kind != AxisKind::TimeUtc {
        return None;
    }
    let curves = figure.curves.iter().filter_map(|curve| {
        let slots = curve
            .points
            .iter()
            .filter(|point| point.value <= 0.0)
            .count();
        (slots > 0).then(|| format!("{} in {slots} slots", curve.name))
    });
    let curves: Vec<String> = curves.collect();
    (!curves.is_empty()).then(|| {
        format!(
            "The value is 0 and has no place on an axis of powers of ten: {}.",
            curves.join(", ")
        )
    })
}

fn by_the_other_grid(curve: &Curve) -> Option<String> {
    let day = curve.day.as_ref()?;
    let other = day.other_grid?;
    let is_different = (day.value - other).abs() > DIFFERENT * day.value.abs().max(other.abs());
    is_different.then(|| {
        format!(
            "{} {} instead of {}",
            curve.name,
            short(other),
            short(day.value)
        )
    })
}

fn short(value: f64) -> String {
    match value.abs() {
        large if large >= 100.0 => format!("{value:.0}"),
        middle if middle >= 1.0 => format!("{value:.1}"),
        small if small >= 0.001 || small == 0.0 => format!("{value:.3}"),
        tiny => format!("{value:.*}", digits_before(tiny) + 2),
    }
}

/// Decimals up to and including the first digit that is not 0.
fn digits_before(tiny: f64) -> usize {
    (-tiny.log10()).ceil().clamp(0.0, 12.0) as usize
}

fn day<'a>(figure: &'a Figure, curve: &str) -> Option<&'a Point> {
    figure.curve(curve)?.day.as_ref()
}

fn value(figure: &Figure, curve: &str) -> Option<f64> {
    day(figure, curve).map(|point| point.value)
}

fn mean(report: &SourceReport, figure: &str, curve: &str) -> Option<f64> {
    Some(day(report.figure(figure)?, curve)?.spread?.mean)
}

/// `a / b`; `None` if `b` is not positive.
fn over(a: f64, b: f64) -> Option<f64> {
    (b > 0.0).then(|| a / b)
}

fn percent_less(a: f64, b: f64) -> Option<f64> {
    over(a, b).map(|share| (1.0 - share) * 100.0)
}

/// The highest point of a curve, hollow ones excluded.
fn peak(figure: &Figure, curve: &str) -> Option<f64> {
    let points = figure
        .curve(curve)?
        .points
        .iter()
        .filter(|point| !point.is_hollow);
    points.map(|point| point.value).max_by(f64::total_cmp)
}

fn at_size(figure: &Figure, curve: &str, bytes: u64) -> Option<f64> {
    let x = middle(class_of(bytes));
    let curve = figure.curve(curve)?;
    curve
        .points
        .iter()
        .find(|point| point.x == x)
        .map(|point| point.value)
}

/// The value of a cumulative curve at a power of two, percent.
fn up_to(figure: &Figure, curve: &str, bytes: u64) -> Option<f64> {
    let curve = figure.curve(curve)?;
    curve
        .points
        .iter()
        .find(|point| point.x == bytes as f64)
        .map(|point| point.value)
}

fn ours(figure: &Figure, of_day: &Day, concurrent_misses: Option<f64>) -> Option<String> {
    of_traffic(figure, of_day)
        .or_else(|| of_hits(figure, concurrent_misses))
        .or_else(|| of_the_network(figure))
        .or_else(|| of_the_disk(figure, of_day))
}

/// Figures 1 to 6.
fn of_traffic(figure: &Figure, of_day: &Day) -> Option<String> {
    let value = |curve| value(figure, curve);
    Some(match figure.id.as_str() {
        "1" => {
            let mut text = format!(
                "{} % of network transfers are below 1 KB, {} % below 64 KB",
                short(up_to(figure, "all", 1 << 10)?),
                short(up_to(figure, "all", 64 << 10)?)
            );
            if let Some(disk) = up_to(figure, "swap-all", 2 << 10) {
                text.push_str(&format!(
                    "; {} % of disk transfers are below 2 KB",
                    short(disk)
                ));
            }
            text + "."
        }
        "2" => format!(
            "Median of what is swapped out {} bytes, of what is swapped in {} bytes.",
            short(value("swap-out")?),
            short(value("swap-in")?)
        ),
        "3" => format!(
            "{} requests/s on average, {} in the busiest slot.",
            short(value("all")?),
            short(peak(figure, "all")?)
        ),
        "4" => {
            let (miss, hit) = (
                day(figure, "miss")?.spread?.mean,
                day(figure, "hit")?.spread?.mean,
            );
            let all = day(figure, "all")?.spread?.mean;
            format!(
                "On average {} requests, {} misses for each hit; {} in the busiest slot.",
                short(all),
                short(over(miss, hit)?),
                short(peak(figure, "all")?)
            )
        }
        "5" => saving(figure, of_day)?,
        "6" => {
            let saved = |bytes| {
                percent_less(
                    at_size(figure, "hit", bytes)?,
                    at_size(figure, "miss", bytes)?,
                )
            };
            let texts: Vec<String> = [(1u64 << 10, "1 KB"), (8 << 10, "8 KB"), (64 << 10, "64 KB")]
                .into_iter()
                .filter_map(|(bytes, name)| {
                    Some(format!("{} % from {name} on", short(saved(bytes)?)))
                })
                .collect();
            if texts.is_empty() {
                return None;
            }
            format!("A hit saves {}.", texts.join(", "))
        }
        _ => return None,
    })
}

/// Figures 7 to 9.
fn of_hits(figure: &Figure, concurrent_misses: Option<f64>) -> Option<String> {
    let value = |curve| value(figure, curve);
    Some(match figure.id.as_str() {
        "7" => {
            let (documents, bytes) = (value("document")?, value("byte")?);
            let mut text = format!(
                "DHR {} %, BHR {} %: {} points apart",
                short(documents),
                short(bytes),
                short(documents - bytes)
            );
            if let (Some(documents), Some(bytes)) = (value("document-peers"), value("byte-peers")) {
                text.push_str(&format!(
                    "; with hits at peers {} % and {} %",
                    short(documents),
                    short(bytes)
                ));
            }
            text + "."
        }
        "8" => format!(
            "Disk and IMS hits are {} % of all hits, IMS hits {} %.",
            short(value("disk")? + value("ims")?),
            short(value("ims")?)
        ),
        "9" => {
            let out = day(figure, "miss")?.spread?.mean;
            format!(
                "On average {} connections for misses, with {} misses in the proxy.",
                short(out),
                short(concurrent_misses?)
            )
        }
        _ => return None,
    })
}

/// A sentence with the medians of hits and misses, and their difference in percent.
fn compared(figure: &Figure, what: &str) -> Option<String> {
    let (hit, miss) = (value(figure, "hit")?, value(figure, "miss")?);
    let less = percent_less(hit, miss)?;
    let word = if less >= 0.0 { "shorter" } else { "longer" };
    Some(format!(
        "{what} for hits is {} ms, for misses {} ms: {} % {word}.",
        short(hit),
        short(miss),
        short(less.abs())
    ))
}

/// Figures 10 to 17.
fn of_the_network(figure: &Figure) -> Option<String> {
    let value = |curve| value(figure, curve);
    Some(match figure.id.as_str() {
        "10" => compared(figure, "Proxy connect")?,
        "11" => compared(figure, "Server reply")?,
        "12" => {
            let hit = figure.curve("hit")?;
            let solid = || {
                hit.points
                    .iter()
                    .filter(|point| !point.is_hollow)
                    .map(|point| point.value)
            };
            let (low, high) = (
                solid().min_by(f64::total_cmp)?,
                solid().max_by(f64::total_cmp)?,
            );
            format!(
                "For hits between {} and {} ms over all sizes with enough values.",
                short(low),
                short(high)
            )
        }
        "13" => compared(figure, "Server response")?,
        "14" => compared(figure, "Client connect")?,
        "15" => compared(figure, "Proxy reply")?,
        "16" => format!(
            "Median of 304 hits {} ms, of 200 hits {} ms.",
            short(value("hit-304")?),
            short(value("hit-200")?)
        ),
        "17" => format!(
            "200 hits take {} ms from 1 KB on, {} ms from 64 KB on.",
            short(at_size(figure, "hit-200", 1 << 10)?),
            short(at_size(figure, "hit-200", 64 << 10)?)
        ),
        _ => return None,
    })
}

/// Figures 18 to 25.
fn of_the_disk(figure: &Figure, of_day: &Day) -> Option<String> {
    let value = |curve| value(figure, curve);
    Some(match figure.id.as_str() {
        "18" => {
            let (reads, all) = (day(figure, "swap-in")?.sum, day(figure, "all")?.sum);
            format!(
                "The swap-in ratio is {} %.",
                short(over(reads, all)? * 100.0)
            )
        }
        "19" => format!(
            "On average {} swap requests at a time; median in the busiest slot {}.",
            short(day(figure, "all")?.spread?.mean),
            short(peak(figure, "all")?)
        ),
        "20" => format!(
            "{} % over all, {} % in the busiest slot.",
            short(value("all")?),
            short(peak(figure, "all")?)
        ),
        "21" => format!(
            "Medians: swap-in {} ms, swap-out {} ms until it is handed over.",
            short(value("swap-in")?),
            short(value("swap-out")?)
        ),
        "22" => {
            let (one, two) = one_and_two_reads(of_day)?;
            let (one, two) = (one as f64 / 1e3, two as f64 / 1e3);
            format!(
                "One I/O takes {} ms, its overhead is {} ms.",
                short(two - one),
                short(one - (two - one))
            )
        }
        "23" => format!("Median {} ms.", short(value("swap-in")?)),
        "24" | "24b" => format!(
            "Client connect {} %, proxy connect {} %, server reply {} %, proxy reply {} %.",
            short(value("client-connect")?),
            short(value("proxy-connect")?),
            short(value("server-reply")?),
            short(value("proxy-reply")?)
        ),
        "25" | "25b" => format!(
            "Client connect {} %, disk {} %, proxy reply {} %.",
            short(value("client-connect")?),
            short(value("swap-in")?),
            short(value("proxy-reply")?)
        ),
        _ => return None,
    })
}

//= report appendix C   saving in response time: 1 - mean(all cachable) / mean(miss), against all misses
fn saving(figure: &Figure, day: &Day) -> Option<String> {
    let (all, miss) = (
        day.busy.union(&[Timed::Response], CACHABLE),
        day.busy.union(&[Timed::Response], MISSES),
    );
    let average = |sum: u64, count: u64| over(sum as f64, count as f64);
    let means = percent_less(
        average(all.sum(), all.count())?,
        average(miss.sum(), miss.count())?,
    )?;
    let medians = percent_less(all.at_percent(50) as f64, miss.at_percent(50) as f64)?;
    let hit = over(value(figure, "hit")?, value(figure, "miss")?)?;
    Some(format!(
        "The median of hits is {} of that of misses. The cache saves {} % of the mean response time, {} % of the median.",
        short(hit),
        short(means),
        short(medians)
    ))
}
