//! Several runs side by side.
//!
//! Not known here: which of them is better.   Limits: as many as fit beside each other.

use page::{Axis, Page, Plot, Series, Table};

use super::{COMMON, differing, paper};
use crate::report::{Plan, Report, Row};
use crate::search::{Conditions, Verdict};
use crate::times::Times;

/// A figure of a phase.
type Figure = fn(&Row) -> f64;

/// Several runs as text.
#[must_use]
pub fn compare_text(reports: &[Report]) -> String {
    let mut out = side_by_side(reports).text();
    for warning in warnings(reports) {
        out.push_str(&format!("\n{warning}\n"));
    }
    out
}

/// Several runs as a page.
#[must_use]
pub fn compare_page(reports: &[Report]) -> Page {
    let names: Vec<_> = reports.iter().map(paper::name).collect();
    let mut page = Page::new(&format!("PolyMix: {}", names.join(", ")));
    for warning in warnings(reports) {
        page.text(&warning);
    }
    page.table(&side_by_side(reports));
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let bars = |caption: &str, y: Axis, series: &[(&str, Figure)]| {
        let plot = Plot::new(caption, Axis::linear(""), y).named(&names);
        series.iter().fold(plot, |plot, (name, of)| {
            let tops = reports.iter().map(Report::top).enumerate();
            #[allow(clippy::cast_precision_loss)]
            let points = tops.map(|(n, top)| (n as f64, of(&top))).collect();
            plot.with(Series::bars(name, points))
        })
    };
    page.plot(&bars(
        "Throughput",
        Axis::linear("1/s"),
        &[
            ("planned", |top| top.intended_rate),
            ("replies", |top| top.reply_rate),
        ],
    ));
    page.plot(&bars(
        "Mean response time",
        Axis::log("ms"),
        &[
            ("all", |top| top.response.mean_ms),
            ("misses", |top| top.miss.mean_ms),
            ("hits", |top| top.hit.mean_ms),
        ],
    ));
    page.plot(&bars(
        "Hit ratios",
        Axis::linear("%"),
        &[
            ("documents", |top| top.dhr_percent),
            ("bytes", |top| top.bhr_percent),
            ("offered", |top| top.offered_percent),
            ("LRU", |top| top.lru_percent),
        ],
    ));
    let each = |caption: &str, of: fn(&Row) -> &Times| {
        let x = Axis::log("response time (ms)");
        let plot = Plot::new(caption, x, Axis::linear("%").showing(100.0));
        reports
            .iter()
            .zip(&names)
            .fold(plot, |plot, (report, name)| {
                plot.with(Series::line(name, of(&report.top()).curve()))
            })
    };
    page.plot(&each("How many hits took no longer", |row| {
        &row.counted.hit
    }));
    page.plot(&each("How many misses took no longer", |row| {
        &row.counted.miss
    }));
    let over_time = Plot::new(
        "Mean response time over time",
        Axis::linear("time (s)"),
        Axis::log("ms"),
    );
    page.plot(
        &reports
            .iter()
            .zip(&names)
            .fold(over_time, |plot, (report, name)| {
                let seen = report.series.iter().filter(|m| m.sample.replies > 0);
                let points = seen.map(|m| (m.at_s, m.response_ms_mean)).collect();
                plot.with(Series::line(name, points))
            }),
    );
    page.heading("As in paper 004");
    let tested = |report| paper::Tested::of(paper::name(report), report);
    let tested: Vec<_> = reports.iter().map(tested).collect();
    page.table(&paper::summary(&tested));
    for (report, name) in reports.iter().zip(&names) {
        page.heading(name);
        page.table(&super::facts_table("What was asked for", &report.setup));
        page.table(&report.load_table())
            .table(&report.percentiles_table())
            .table(&report.hits_table());
    }
    page
}

/// A row for each figure, a column for each run.
fn side_by_side(reports: &[Report]) -> Table {
    let names: Vec<_> = reports.iter().map(paper::name).collect();
    let columns: Vec<&str> = std::iter::once("top phases")
        .chain(names.iter().map(String::as_str))
        .collect();
    let mut table = Table::new("Side by side", &columns);
    let tops: Vec<Row> = reports.iter().map(Report::top).collect();
    let mut row = |name: &str, of: &dyn Fn(usize, &Row) -> String| {
        let cells = tops.iter().enumerate().map(|(n, top)| of(n, top));
        table.row(std::iter::once(name.to_owned()).chain(cells));
    };
    for (name, of) in COMMON {
        row(name, &|n, _| of(&reports[n].plan));
    }
    row("limit of the mean response (ms)", &|n, _| {
        let conditions = Conditions::for_think_scale(reports[n].plan.think_scale);
        format!("{:.0}", conditions.response_ms_max)
    });
    row("verdict", &|n, _| {
        let conditions = Conditions::for_think_scale(reports[n].plan.think_scale);
        match conditions.judge(&reports[n]) {
            Verdict::Stood => "stood".to_owned(),
            Verdict::Failed(_) => "failed".to_owned(),
            Verdict::Unclear(_) => "unclear".to_owned(),
        }
    });
    row("planned (req/s)", &|_, top| {
        format!("{:.1}", top.intended_rate)
    });
    row("made (req/s)", &|_, top| format!("{:.1}", top.request_rate));
    row("replies/s", &|_, top| format!("{:.1}", top.reply_rate));
    row("response, mean (ms)", &|_, top| {
        format!("{:.1}", top.response.mean_ms)
    });
    row("p50 (ms)", &|_, top| format!("{:.1}", top.response.p50_ms));
    row("p90 (ms)", &|_, top| format!("{:.1}", top.response.p90_ms));
    row("p99 (ms)", &|_, top| format!("{:.1}", top.response.p99_ms));
    row("hits, mean (ms)", &|_, top| {
        format!("{:.2}", top.hit.mean_ms)
    });
    row("hits, p99 (ms)", &|_, top| format!("{:.2}", top.hit.p99_ms));
    row("misses, mean (ms)", &|_, top| {
        format!("{:.1}", top.miss.mean_ms)
    });
    row("misses, p99 (ms)", &|_, top| {
        format!("{:.1}", top.miss.p99_ms)
    });
    row("offered (%)", &|_, top| {
        format!("{:.2}", top.offered_percent)
    });
    row("an exact LRU (%)", &|_, top| {
        format!("{:.2}", top.lru_percent)
    });
    row("DHR (%)", &|_, top| format!("{:.2}", top.dhr_percent));
    row("DHR - offered (points)", &|_, top| {
        format!("{:+.2}", top.dhr_percent - top.offered_percent)
    });
    row("DHR - LRU (points)", &|_, top| {
        format!("{:+.2}", top.dhr_percent - top.lru_percent)
    });
    row("BHR (%)", &|_, top| format!("{:.2}", top.bhr_percent));
    row("BHR of the LRU (%)", &|_, top| {
        format!("{:.2}", top.lru_bytes_percent)
    });
    row("DHR, traffic (%)", &|_, top| {
        optional(top.dhr_traffic_percent)
    });
    row("BHR, traffic (%)", &|_, top| {
        optional(top.bhr_traffic_percent)
    });
    row("wrong answers, whole run", &|n, _| {
        reports[n].total.errors.to_string()
    });
    row("wrong answers (%)", &|_, top| {
        format!("{:.3}", top.errors_percent)
    });
    row("304", &|_, top| top.not_modified.to_string());
    row("connections", &|_, top| top.connections.to_string());
    row("replies a connection", &|_, top| {
        format!("{:.1}", top.replies_a_connection)
    });
    row("lag, mean (ms)", &|_, top| {
        format!("{:.2}", top.lag.mean_ms)
    });
    row("robots CPU (%)", &|_, top| {
        format!("{:.0}", top.robots_cpu_percent)
    });
    row("robots waiting for a core (%)", &|_, top| {
        format!("{:.0}", top.core_wait_percent)
    });
    row("servers CPU (%)", &|_, top| {
        optional(top.origin_cpu_percent)
    });
    table
}

fn optional(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.2}"))
}

/// What makes the runs hard to compare, or one of them doubtful.
fn warnings(reports: &[Report]) -> Vec<String> {
    let mut said = Vec::new();
    let mut differ = |name: &str, of: fn(&Plan) -> String| {
        let values: Vec<_> = reports.iter().map(|report| of(&report.plan)).collect();
        said.extend(differing("runs", name, &values));
    };
    differ("rate", |plan| plan.rate.to_string());
    differ("number of robots", |plan| plan.robots.to_string());
    for (name, of) in COMMON {
        differ(name, of);
    }
    for report in reports {
        if let Some(fill) = report.fill_given_up() {
            said.push(format!("{}: the fill {fill}.", paper::name(report)));
        }
        let conditions = Conditions::for_think_scale(report.plan.think_scale);
        match conditions.judge(report) {
            Verdict::Stood => {}
            Verdict::Failed(why) | Verdict::Unclear(why) => {
                said.push(format!("{}: {}.", paper::name(report), why.join("; ")));
            }
        }
        let missing = report.missing_parts();
        if !missing.is_empty() {
            let name = paper::name(report);
            said.push(format!(
                "{name}: parts {missing:?} of {} are missing.",
                report.parts.of
            ));
        }
    }
    said
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    #[test]
    fn runs_stand_side_by_side() {
        let runs = [
            testing::report("loligo", 100.0),
            testing::report("other", 100.0),
        ];
        let text = compare_text(&runs);
        let line = text
            .lines()
            .find(|line| line.starts_with("DHR (%)"))
            .unwrap();
        assert_eq!(
            line.split_whitespace().filter(|w| *w == "60.00").count(),
            2,
            "{line}"
        );
        assert!(!text.contains("differ"), "{text}");
        let line = text.lines().find(|line| line.starts_with("DHR - LRU"));
        assert_eq!(line.unwrap().matches("+10.00").count(), 2, "{line:?}");
        // Settings that figures depend on are shown even if they are equal.
        for (name, value) in [
            ("think scale", "1"),
            ("time scale", "1/1440"),
            ("limit of the mean response (ms)", "3000"),
        ] {
            let line = text.lines().find(|line| line.starts_with(name)).unwrap();
            let values = line[name.len()..].split_whitespace();
            assert_eq!(values.collect::<Vec<_>>(), [value; 2]);
        }
        let html = compare_page(&runs).html();
        assert!(html.contains("think scale"));
        for part in [
            "loligo",
            "other",
            "Throughput",
            "How many hits took no longer",
            "Table 6.1",
        ] {
            assert!(html.contains(part), "{part}");
        }
    }

    #[test]
    fn what_cannot_be_compared_is_said() {
        let mut slow = testing::report("slow", 200.0);
        slow.plan.think_scale = 0.1;
        slow.parts.of = 3;
        let said = warnings(&[testing::report("a", 100.0), slow]);
        for part in [
            "The runs differ in the rate: 100, 200.",
            "the think scale",
            "slow: mean response",
            "slow: parts [2, 3] of 3 are missing.",
        ] {
            assert!(
                said.iter().any(|line| line.contains(part)),
                "{part}: {said:?}"
            );
        }
    }
}
