//! A search for the peak, as text and as a page.
//!
//! Not known here: how the search was made.   Limits: those of the crate `page`.

use page::{Axis, Page, Plot, Series, Table};

use super::{facts_table, paper};
use crate::search::{Found, SearchReport, Step};

/// A search as text.
#[must_use]
pub fn search_text(search: &SearchReport) -> String {
    let mut out = String::new();
    for (name, value) in &search.setup {
        out.push_str(&format!("{name:16} {value}\n"));
    }
    for what in left_out(search) {
        out.push_str(&format!("{:16} {what}\n", "left out"));
    }
    let meaning = search.conditions.meaning();
    out.push_str(&format!("{:16} {meaning}\n\n", "stood means"));
    out.push_str(&steps_table(search).text());
    for said in fills_given_up(search) {
        out.push_str(&format!("\n{said}\n"));
    }
    out.push_str(&format!("\n{}\n", said(&search.found)));
    out
}

/// A search as a page.
#[must_use]
pub fn search_page(search: &SearchReport) -> Page {
    let label = if search.label.is_empty() {
        "a proxy"
    } else {
        &search.label
    };
    let mut page = Page::new(&format!("PolyMix: the peak of {label}"));
    page.text(&said(&search.found));
    page.text(&format!(
        "A load is stood if {}.",
        search.conditions.meaning()
    ));
    for said in fills_given_up(search) {
        page.text(&said);
    }
    page.table(&steps_table(search));
    let steps = search.by_rate();
    let line = |name: &str, of: fn(&Step) -> f64| {
        Series::line(
            name,
            steps.iter().map(|step| (step.rate, of(step))).collect(),
        )
    };
    let limit = |name: &str, at: f64| {
        let ends = [steps.first(), steps.last()];
        Series::dashes(name, ends.iter().flatten().map(|s| (s.rate, at)).collect())
    };
    let rate = || Axis::linear("request rate (req/s)");
    page.plot(
        &Plot::new("Response, miss and hit time", rate(), Axis::log("ms"))
            .with(line("response", |s| s.report.top().response.mean_ms))
            .with(line("misses", |s| s.report.top().miss.mean_ms))
            .with(line("hits", |s| s.report.top().hit.mean_ms))
            .with(limit(
                "limit of the mean",
                search.conditions.response_ms_max,
            )),
    );
    page.plot(
        &Plot::new("Hit ratio", rate(), Axis::linear("%").without_zero())
            .with(line("documents", |s| s.report.top().dhr_percent))
            .with(line("LRU", |s| s.report.top().lru_percent))
            .with(line("bytes", |s| s.report.top().bhr_percent))
            .with(Series::dashes(
                "offered",
                steps
                    .iter()
                    .map(|s| (s.rate, s.report.top().offered_percent))
                    .collect(),
            )),
    );
    page.plot(
        &Plot::new(
            "The load generator",
            rate(),
            Axis::linear("% of a core").showing(100.0),
        )
        .with(line("robots", |s| s.report.top().robots_cpu_percent))
        .with(line("robots, waiting for a core", |s| {
            s.report.top().core_wait_percent
        }))
        .with(line("servers", |s| {
            s.report.top().origin_cpu_percent.unwrap_or(0.0)
        })),
    );
    page.heading("As in paper 004");
    page.table(&paper::summary(&paper::highest(label, search)));
    page.table(&paper::peaks(&[(label.to_owned(), search.found.peak())]));
    paper::curves(&mut page, &[(String::new(), paper::by_step(search))]);
    page.heading("Settings");
    page.table(&facts_table("What was asked for", &search.setup));
    page.verbatim(&left_out(search).join("\n"));
    for step in &steps {
        page.heading(&format!("At {} req/s", step.rate));
        page.table(&step.report.load_table());
        page.table(&step.report.percentiles_table());
        page.table(&step.report.hits_table());
    }
    page
}

/// How the step at the highest rate differs from the specification.
fn left_out(search: &SearchReport) -> Vec<String> {
    let steps = search.by_rate();
    let highest = steps.last();
    highest.map_or_else(Vec::new, |step| step.report.left_out())
}

/// A sentence for each step whose fill was given up.
pub(super) fn fills_given_up(search: &SearchReport) -> Vec<String> {
    let steps = search.by_rate().into_iter();
    let said = steps.filter_map(|step| Some((step.rate, step.report.fill_given_up()?)));
    said.map(|(rate, fill)| format!("At {rate} req/s the fill {fill}."))
        .collect()
}

/// The result of the search in a sentence.
pub(super) fn said(found: &Found) -> String {
    match found {
        Found::Peak { rate, beyond, why } => {
            format!(
                "Peak: {rate} req/s. At {beyond} req/s not stood: {}.",
                why.join("; ")
            )
        }
        Found::AtLeast { rate } => {
            format!("At least {rate} req/s, the highest rate that was to be tried (see --most).")
        }
        Found::Generator { stood, at, why } => {
            let stood = stood.map_or("Nothing was stood".to_owned(), |rate| {
                format!("{rate} req/s were stood")
            });
            format!(
                "No peak found. {stood}; at {at} req/s the load generator was at its limit: {}. Give it cores of its own (taskset), another machine (bench origin and bench robots), or several processes (--share).",
                why.join("; ")
            )
        }
        Found::Nothing { least, why } => {
            format!("Not even {least} req/s are stood: {}.", why.join("; "))
        }
        Found::Unfinished { stood } => {
            let stood = stood.map_or("nothing".to_owned(), |rate| format!("{rate} req/s"));
            format!(
                "Given up after too many runs; stood was {stood}. Ask for a larger --tolerance."
            )
        }
    }
}

fn steps_table(search: &SearchReport) -> Table {
    let columns = [
        "rate (req/s)",
        "replies/s",
        "response (ms)",
        "miss (ms)",
        "hit (ms)",
        "p99 (ms)",
        "offered (%)",
        "LRU (%)",
        "DHR (%)",
        "wrong",
        "lag (ms)",
        "robots CPU (%)",
        "verdict",
    ];
    let mut table = Table::new("By rate", &columns);
    for step in search.by_rate() {
        let top = step.report.top();
        table.row([
            format!("{}", step.rate),
            format!("{:.1}", top.reply_rate),
            format!("{:.1}", top.response.mean_ms),
            format!("{:.1}", top.miss.mean_ms),
            format!("{:.2}", top.hit.mean_ms),
            format!("{:.0}", top.response.p99_ms),
            format!("{:.2}", top.offered_percent),
            format!("{:.2}", top.lru_percent),
            format!("{:.2}", top.dhr_percent),
            step.report.total.errors.to_string(),
            format!("{:.2}", top.lag.mean_ms),
            format!("{:.0}", top.robots_cpu_percent),
            step.verdict.to_string(),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Stamp;
    use crate::search::{Bounds, Conditions, FORMAT, VERSION, Verdict};
    use crate::testing;

    fn searched(found: Found) -> SearchReport {
        let step = |rate: f64, verdict| Step {
            rate,
            verdict,
            report: testing::report("x", rate),
        };
        let late = Verdict::Failed(vec!["too slow".to_owned()]);
        SearchReport {
            stamp: Stamp::new(FORMAT, VERSION),
            label: "loligo".to_owned(),
            setup: [("workload".to_owned(), "PolyMix-3".to_owned())].into(),
            bounds: Bounds {
                first: 100.0,
                least: 1.0,
                most: 1e5,
                tolerance: 0.05,
            },
            conditions: Conditions::for_think_scale(1.0),
            steps: vec![step(200.0, late), step(100.0, Verdict::Stood)],
            found,
        }
    }

    #[test]
    fn the_curve_goes_by_rate_and_the_peak_is_named() {
        let search = searched(Found::Peak {
            rate: 100.0,
            beyond: 200.0,
            why: vec!["too slow".to_owned()],
        });
        let text = search_text(&search);
        assert!(text.contains("Peak: 100 req/s."), "{text}");
        assert!(text.contains("under 3000 ms"), "{text}");
        assert!(text.contains("LRU (%)") && text.contains("50.00"), "{text}");
        let lines: Vec<_> = text.lines().collect();
        let at = |start: &str| {
            lines
                .iter()
                .position(|line| line.starts_with(start))
                .unwrap()
        };
        assert!(at("100 ") < at("200 "));
        let html = search_page(&search).html();
        for part in [
            "Tables 6.1 to 6.4",
            "loligo at 100 req/s",
            "Table 6.6",
            "Figure 6.1",
            "limit of the mean",
            "+940",
            "At 200 req/s",
        ] {
            assert_eq!(html.contains(part), part != "+940", "{part}");
        }
    }

    #[test]
    fn the_table_of_results_has_the_highest_step_that_was_stood() {
        let mut search = searched(Found::AtLeast { rate: 200.0 });
        assert!(!search_page(&search).html().contains("loligo at 200 req/s"));
        search.steps[0].verdict = Verdict::Stood;
        let html = search_page(&search).html();
        assert!(html.contains("loligo at 200 req/s") && !html.contains("loligo at 100 req/s"));
    }

    #[test]
    fn a_fill_that_was_given_up_is_said() {
        let mut search = searched(Found::AtLeast { rate: 100.0 });
        search.steps[0].report = testing::fill_given_up(200.0);
        let said = "At 200 req/s the fill ended after 5.0 times its planned length (2 s), with 37 % of what was to be filled.";
        assert!(search_text(&search).contains(said));
        assert!(search_page(&search).html().contains(said));
    }

    #[test]
    fn a_saturated_generator_is_said_and_no_peak() {
        let text = search_text(&searched(Found::Generator {
            stood: Some(100.0),
            at: 200.0,
            why: vec!["no CPU left".to_owned()],
        }));
        assert!(
            text.contains("No peak found. 100 req/s were stood; at 200 req/s the load generator")
        );
        assert!(!text.contains("Peak:"));
    }
}
