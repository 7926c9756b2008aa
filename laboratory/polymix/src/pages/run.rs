//! A page of one run.
//!
//! Not known here: other runs.   Limits: those of the crate `page`.

use page::{Axis, Page, Plot, Series, Table};

use super::{facts_table, paper};
use crate::report::{Moment, Report, Summary};
use crate::search::Conditions;
use crate::times::Times;

/// One run as text, with the verdict at the end.
#[must_use]
pub fn run_text(report: &Report) -> String {
    format!("{}\n{}\n", report.text(), verdict(report))
}

/// Whether the load was sustained, and the conditions for that.
fn verdict(report: &Report) -> String {
    let conditions = Conditions::for_think_scale(report.plan.think_scale);
    format!(
        "Verdict on {}: {}. A load is stood if {}.",
        report.top().name,
        conditions.judge(report),
        conditions.meaning()
    )
}

/// A page of one run.
#[must_use]
pub fn run_page(report: &Report) -> Page {
    let mut page = Page::new(&title(report));
    let top = report.top();
    page.text(&format!(
        "{:.1} replies/s in {}, mean response {:.1} ms (hits {:.2} ms, misses {:.1} ms), document hit ratio {:.2} % of {:.2} % offered (an exact LRU of that size: {:.2} %), {} wrong answers.",
        top.reply_rate,
        top.name,
        top.response.mean_ms,
        top.hit.mean_ms,
        top.miss.mean_ms,
        top.dhr_percent,
        top.offered_percent,
        top.lru_percent,
        report.total.errors,
    ));
    let conditions = Conditions::for_think_scale(report.plan.think_scale);
    let limits = conditions.generator(&top);
    page.text(&if limits.is_empty() {
        format!(
            "The load generator kept up: late by {:.2} ms on average, {:.0} % of a core.",
            top.lag.mean_ms, top.robots_cpu_percent
        )
    } else {
        format!(
            "The load generator was at its limit, and the figures may be its own: {}.",
            limits.join("; ")
        )
    });
    page.text(&verdict(report));
    if let Some(said) = report.fill_given_up() {
        page.text(&format!("The fill {said}."));
    }
    page.table(&facts_table("What was asked for", &report.setup));
    let left_out = report.left_out();
    if !left_out.is_empty() {
        page.heading("What this run has not of the specification")
            .verbatim(&left_out.join("\n"));
    }
    page.heading("Phase by phase")
        .table(&report.load_table())
        .table(&report.percentiles_table())
        .table(&report.hits_table())
        .table(&times_table(report));
    let facts = report.facts();
    page.table(&facts_table(
        "The whole run",
        facts.iter().map(|(name, value)| (name, value)),
    ));
    page.heading("Over time");
    for plot in over_time(report) {
        page.plot(&plot);
    }
    page.heading("Response times");
    page.plot(&distribution(report));
    paper::of_run(&mut page, report);
    page
}

fn title(report: &Report) -> String {
    let name = format!("{} at {} requests/s", report.plan.mix, report.plan.rate);
    if report.label.is_empty() {
        name
    } else {
        format!("{}: {name}", report.label)
    }
}

/// All response times in the top phases, by sort.
fn times_table(report: &Report) -> Table {
    let top = report.top();
    let columns = ["time (ms)", "count", "mean", "p50", "p90", "p99", "max"];
    let mut table = Table::new(&format!("Times in {}", top.name), &columns);
    let mut row = |name: &str, times: &Summary| {
        table.row([
            name.to_owned(),
            times.count.to_string(),
            format!("{:.2}", times.mean_ms),
            format!("{:.2}", times.p50_ms),
            format!("{:.2}", times.p90_ms),
            format!("{:.2}", times.p99_ms),
            format!("{:.1}", times.max_ms),
        ]);
    };
    row("response, all", &top.response);
    row("basic hits", &top.hit);
    row("basic misses", &top.miss);
    row("first byte, all", &top.first_byte);
    row("in the robot's queue", &top.queued);
    row("lag of the load generator", &top.lag);
    table
}

fn over_time(report: &Report) -> Vec<Plot> {
    let line = |name: &str, of: fn(&Moment) -> f64| {
        let points = report.series.iter().map(|m| (m.at_s, of(m))).collect();
        Series::line(name, points)
    };
    // Moments without replies are left out: a mean of 0 would be wrong.
    let some = |name: &str, of: fn(&Moment) -> f64, any: fn(&Moment) -> u64| {
        let moments = report.series.iter().filter(|m| any(m) > 0);
        Series::line(name, moments.map(|m| (m.at_s, of(m))).collect())
    };
    // Dashed, because the line of documents often covers it.
    let offered = report.series.iter().filter(|m| m.sample.basic > 0);
    let offered = offered.map(|m| (m.at_s, m.offered_percent)).collect();
    let plot = |caption: &str, y: Axis| {
        let plot = Plot::new(caption, Axis::linear("time (s)"), y);
        report.phases.iter().fold(plot, |plot, row| {
            if row.length_s > 0.0 {
                plot.mark(row.from_s, &row.name)
            } else {
                plot
            }
        })
    };
    vec![
        plot("Throughput", Axis::linear("1/s"))
            .with(line("requests made", |m| m.request_rate))
            .with(line("right answers", |m| m.reply_rate))
            .with(line("wrong answers", |m| m.error_rate)),
        plot("Mean response time", Axis::linear("ms"))
            .with(some("all", |m| m.response_ms_mean, |m| m.sample.replies))
            .with(some(
                "misses",
                |m| m.miss_ms_mean,
                |m| m.sample.basic - m.sample.hits,
            ))
            .with(some("hits", |m| m.hit_ms_mean, |m| m.sample.hits)),
        plot(
            "Hit ratios of basic replies",
            Axis::linear("%").showing(100.0),
        )
        .with(some("LRU", |m| m.lru_percent, |m| m.sample.basic))
        .with(some("documents", |m| m.dhr_percent, |m| m.sample.basic))
        .with(some("bytes", |m| m.bhr_percent, |m| m.sample.basic))
        .with(Series::dashes("offered", offered)),
        #[allow(clippy::cast_precision_loss)]
        plot("Connections of robots", Axis::linear("at once"))
            .with(line("connections", |m| m.connections as f64)),
        plot(
            "CPU of the load generator",
            Axis::linear("% of a core").showing(100.0),
        )
        .with(line("robots", |m| m.robots_cpu_percent))
        .with(line("robots, waiting for a core", |m| m.core_wait_percent))
        .with(line("servers", |m| m.origin_cpu_percent)),
        plot("How late requests were made", Axis::linear("mean (ms)")).with(some(
            "lag",
            |m| m.lag_ms_mean,
            |m| m.sample.launches,
        )),
    ]
}

fn distribution(report: &Report) -> Plot {
    let top = report.top();
    let curve = |name: &str, times: &Times| Series::line(name, times.curve());
    Plot::new(
        &format!("How many took no longer, in {}", top.name),
        Axis::log("response time (ms)"),
        Axis::linear("%").showing(100.0),
    )
    .with(curve("all", &top.counted.response))
    .with(curve("basic misses", &top.counted.miss))
    .with(curve("basic hits", &top.counted.hit))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    #[test]
    fn a_page_shows_all_and_says_who_was_at_the_limit() {
        let mut report = testing::report("loligo", 100.0);
        let html = run_page(&report).html();
        for part in [
            "loligo: PolyMix-3 at 100 requests/s",
            "Throughput",
            "Hit ratios of basic replies",
            "Connections of robots",
            "CPU of the load generator",
            "DHR traffic",
            "LRU (%)",
            "an exact LRU of that size: 50.00 %",
            "Table 6.1",
            "Table 6.5",
            "Table 6.6",
            "Figure 6.1",
            "Figure 6.2",
            "kept up",
            ">top1</text>",
        ] {
            assert!(html.contains(part), "{part}");
        }
        for row in &mut report.phases {
            row.robots_cpu_percent = 99.0;
        }
        assert!(run_page(&report).html().contains("at its limit"));
    }

    #[test]
    fn text_and_page_give_the_verdict_and_its_limits() {
        let mut report = testing::report("loligo", 100.0);
        report.plan.think_scale = 0.5;
        let meaning = "A load is stood if the mean response is under 1500 ms, nothing is wrong, and the document hit ratio is at most 2 points below what is offered.";
        let check = |report: &Report, verdict: &str| {
            let said = format!("Verdict on top1 &amp; top2: {verdict} {meaning}");
            assert!(run_page(report).html().contains(&said), "{verdict}");
            let text = run_text(report);
            let said = said.replace("&amp;", "&");
            assert_eq!(text.lines().last(), Some(said.as_str()));
        };
        check(&report, "stood.");
        report.unfinished = 3;
        check(&report, "failed: 3 requests unanswered at the end.");
        for row in &mut report.phases {
            row.robots_cpu_percent = 97.0;
        }
        check(
            &report,
            "unclear: the robots' thread had no CPU left (97 %); 3 requests unanswered at the end.",
        );
    }

    #[test]
    fn a_fill_that_was_given_up_is_said() {
        let said = "The fill ended after 5.0 times its planned length (2 s), with 37 %";
        assert!(
            run_page(&testing::fill_given_up(100.0))
                .html()
                .contains(said)
        );
        assert!(
            !run_page(&testing::report("a", 100.0))
                .html()
                .contains("planned length")
        );
    }

    #[test]
    fn the_page_of_a_file_is_the_page_of_the_run() {
        let report = testing::report("a", 50.0);
        let again = Report::from_json(&report.json()).unwrap();
        assert_eq!(run_page(&report).html(), run_page(&again).html());
    }
}
