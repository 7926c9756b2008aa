//! The about 200 measures of the paper: figure, curve and statistic, then the traffic and the totals.
//!
//= paper 001 section 4.2   for a 24 hour log, we performed about 200 measurements

use serde::Serialize;

use crate::catalogue::{self, CurveSpec, FigureSpec, How};
use crate::kinds::{Count, HITS_WITH_PEERS, PEER_HITS};
use crate::known::Known;
use crate::model::{Curve, Form, Measured, Point, SourceReport};
use crate::sizes::{class_of, middle};
use crate::uniques::Uniques;
use crate::values::nearest_rank;

/// The statistic of a curve that is a measure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Statistic {
    /// The number of the day.
    Value,
    /// A percentile of a distribution.
    P50,
    P90,
    P99,
    /// The median in the size class that begins with this many bytes.
    At(u64),
}

impl Statistic {
    fn name(self) -> String {
        match self {
            Statistic::Value => "value".to_owned(),
            Statistic::P50 => "p50".to_owned(),
            Statistic::P90 => "p90".to_owned(),
            Statistic::P99 => "p99".to_owned(),
            Statistic::At(bytes) => format!("at-{}k", bytes / 1024),
        }
    }

    fn words(self) -> String {
        match self {
            Statistic::Value => String::new(),
            Statistic::P50 => ", median".to_owned(),
            Statistic::P90 => ", 90th percentile".to_owned(),
            Statistic::P99 => ", 99th percentile".to_owned(),
            Statistic::At(bytes) => format!(", median from {} KB on", bytes / 1024),
        }
    }

    fn of(self, point: &Point) -> Option<f64> {
        match self {
            Statistic::Value | Statistic::At(_) => Some(point.value),
            Statistic::P50 => point.spread.map(|spread| spread.p50),
            Statistic::P90 => point.spread.map(|spread| spread.p90),
            Statistic::P99 => point.spread.map(|spread| spread.p99),
        }
    }
}

/// The definition of a measure.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Measure {
    /// Figure, curve and statistic: `5.hit.p50`.
    pub id: String,
    /// Its name in words.
    pub name: String,
    /// Unit of the value.
    pub unit: &'static str,
}

fn statistics(how: How) -> &'static [Statistic] {
    use Statistic::*;
    match how {
        How::Time(..) | How::Sizes(_) | How::DiskTime(_) => &[P50, P90, P99],
        How::Over(_) => &[At(1 << 10), At(8 << 10), At(64 << 10)],
        _ => &[Value],
    }
}

fn unit(figure: &FigureSpec, how: How) -> &'static str {
    match how {
        How::Time(..) | How::Over(_) | How::DiskTime(_) => "ms",
        How::Sizes(_) => "bytes",
        How::Rate(_) | How::DiskRate(_) => "1/s",
        How::Percent(..) | How::Busy(_) | How::Share(..) | How::Part(..) | How::DiskBusy(_) => "%",
        How::Rise(..) if figure.id == "20" => "%",
        _ => "",
    }
}

/// The measures of the paper's figures.
fn of_figures() -> impl Iterator<Item = (&'static FigureSpec, &'static CurveSpec, Statistic)> {
    (catalogue::figures().filter(|figure| catalogue::is_of_the_paper(figure)))
        .flat_map(|figure| figure.curves.iter().map(move |curve| (figure, curve)))
        .flat_map(|(figure, curve)| {
            (statistics(curve.how).iter()).map(move |&statistic| (figure, curve, statistic))
        })
}

/// The measures of Table 3 and the totals: id, name, unit.
const TOTALS: [(&str, &str, &str); 14] = [
    ("table-3.documents", "requests", ""),
    ("table-3.unique-documents", "unique documents", ""),
    ("table-3.unique-clients", "unique clients", ""),
    ("table-3.unique-servers", "unique servers", ""),
    ("total.bytes", "bytes sent", "bytes"),
    (
        "total.document-hit-ratio",
        "document hit ratio of the whole source",
        "%",
    ),
    (
        "total.byte-hit-ratio",
        "byte hit ratio of the whole source",
        "%",
    ),
    ("total.peer-hits", "share of hits at peers", "%"),
    (
        "total.document-hit-ratio-with-peers",
        "document hit ratio of the whole source, with hits at peers",
        "%",
    ),
    (
        "total.byte-hit-ratio-with-peers",
        "byte hit ratio of the whole source, with hits at peers",
        "%",
    ),
    ("total.uncachable", "share of uncachable requests", "%"),
    ("total.collapsed", "share of collapsed requests", "%"),
    ("total.errors", "share of errors", "%"),
    ("total.aborted", "aborted requests", ""),
];

fn name(figure: &FigureSpec, curve: &CurveSpec, statistic: Statistic) -> String {
    format!(
        "Figure {}, {}: {}{}",
        figure.id,
        lower(figure.title),
        curve.name,
        statistic.words()
    )
}

fn lower(title: &str) -> String {
    let mut letters = title.chars();
    letters.next().map_or(String::new(), |first| {
        first.to_lowercase().chain(letters).collect()
    })
}

/// All measures, in order.
pub fn measures() -> Vec<Measure> {
    let figures = of_figures().map(|(figure, curve, statistic)| Measure {
        id: format!("{}.{}.{}", figure.id, curve.id, statistic.name()),
        name: name(figure, curve, statistic),
        unit: unit(figure, curve.how),
    });
    let totals = TOTALS.iter().map(|&(id, name, unit)| Measure {
        id: id.to_owned(),
        name: name.to_owned(),
        unit,
    });
    figures.chain(totals).collect()
}

/// The values of all measures in a report.
pub(crate) fn measure(report: &SourceReport, uniques: Uniques, known: Known) -> Vec<Measured> {
    let mut values: Vec<_> = of_figures()
        .map(|(figure, curve, statistic)| {
            let drawn = report
                .figure(figure.id)
                .and_then(|found| found.curve(curve.id));
            drawn.map_or((None, None), |drawn| {
                value(report, figure.form, drawn, statistic)
            })
        })
        .collect();
    values.extend(totals(report, uniques, known).map(|value| (value, None)));
    let measured =
        |(measure, (value, quartiles)): (Measure, (Option<f64>, Option<[f64; 3]>))| Measured {
            id: measure.id,
            name: measure.name,
            unit: measure.unit.to_owned(),
            value,
            quartiles,
        };
    measures().into_iter().zip(values).map(measured).collect()
}

/// The value of the day, and its quartiles over the slots that are not idle.
fn value(
    report: &SourceReport,
    form: Form,
    curve: &Curve,
    statistic: Statistic,
) -> (Option<f64>, Option<[f64; 3]>) {
    if let Statistic::At(bytes) = statistic {
        let x = middle(class_of(bytes));
        let point = curve.points.iter().find(|point| point.x == x);
        return (point.and_then(|point| statistic.of(point)), None);
    }
    let day = curve.day.as_ref().and_then(|point| statistic.of(point));
    if form == Form::Cumulative {
        return (day, None);
    }
    let is_idle = |x: f64| {
        let at = report
            .slots
            .partition_point(|slot| (slot.start_unix_us as f64 / 1e6) < x);
        report.slots.get(at).is_some_and(|slot| slot.is_idle)
    };
    let values = curve
        .points
        .iter()
        .filter(|point| !is_idle(point.x))
        .filter_map(|point| statistic.of(point));
    (day, quartiles(values.collect()))
}

/// Quartiles by nearest rank; `None` if there is no value.
pub(crate) fn quartiles(mut values: Vec<f64>) -> Option<[f64; 3]> {
    values.sort_by(f64::total_cmp);
    let count = values.len() as u64;
    (count > 0)
        .then(|| [25, 50, 75].map(|percent| values[nearest_rank(percent, count) as usize - 1]))
}

fn totals(
    report: &SourceReport,
    uniques: Uniques,
    known: Known,
) -> impl Iterator<Item = Option<f64>> {
    let count = |count| report.counted(count);
    let unique = |count: Option<(u64, bool)>| count.map(|(count, _)| count as f64);
    let share = |some, of| (count(of) > 0).then(|| count(some) as f64 / count(of) as f64 * 100.0);
    let of_peers = |some: &[Count], of| {
        let ratio = report.counted_all(some) as f64 / count(of) as f64 * 100.0;
        (count(of) > 0 && known.has(Known::PEERS)).then_some(ratio)
    };
    let known_only = |what: Known, value: f64| known.has(what).then_some(value);
    [
        Some(count(Count::Documents) as f64),
        unique(uniques.documents),
        unique(uniques.clients),
        unique(uniques.servers),
        Some(count(Count::Bytes) as f64),
        share(Count::Hits, Count::Documents),
        share(Count::HitBytes, Count::Bytes),
        of_peers(PEER_HITS, Count::Requests),
        of_peers(HITS_WITH_PEERS, Count::Documents),
        of_peers(&[Count::HitBytes, Count::PeerHitBytes], Count::Bytes),
        share(Count::Uncachable, Count::Requests).filter(|_| known.has(Known::UNCACHABLE)),
        share(Count::Collapsed, Count::Requests),
        share(Count::Errors, Count::Requests),
        known_only(Known::ABORTS, count(Count::Aborted) as f64),
    ]
    .into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn there_are_about_200_measures() {
        let all = measures();
        let ids: HashSet<&str> = all.iter().map(|measure| measure.id.as_str()).collect();
        assert_eq!(ids.len(), all.len());
        assert!((190..=215).contains(&all.len()), "{}", all.len());
    }

    #[test]
    fn quartiles_are_of_nearest_rank() {
        assert_eq!(quartiles(vec![4.0, 1.0, 3.0, 2.0]), Some([1.0, 2.0, 3.0]));
        assert_eq!(quartiles(vec![5.0]), Some([5.0; 3]));
        assert_eq!(quartiles(vec![]), None);
    }
}
