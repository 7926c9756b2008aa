//! Several searches side by side: whose peak is highest, and how response grows with the rate.
//!
//! Not known here: how they were made.   Limits: as many as fit beside each other.
//! Source: paper 000, Figures 6 to 8, has such curves for two proxies.

use page::{Axis, Page, Plot, Series, Table};

use super::{paper, search::said};
use crate::report::Row;
use crate::search::{Found, SearchReport};

/// Several searches as text.
#[must_use]
pub fn peaks_text(searches: &[SearchReport]) -> String {
    let mut out = peaks_table(searches).text();
    for search in searches {
        out.push_str(&format!("\n{}: {}\n", search.label, said(&search.found)));
    }
    out
}

/// Several searches as a page.
#[must_use]
pub fn peaks_page(searches: &[SearchReport]) -> Page {
    let names: Vec<_> = searches.iter().map(|s| s.label.as_str()).collect();
    let mut page = Page::new(&format!("PolyMix: the peaks of {}", names.join(", ")));
    page.table(&peaks_table(searches));
    for search in searches {
        page.text(&format!("{}: {}", search.label, said(&search.found)));
    }
    let plot = |caption: &str, y: Axis, of: fn(&Row) -> f64| {
        let plot = Plot::new(caption, Axis::linear("request rate (req/s)"), y);
        searches.iter().fold(plot, |plot, search| {
            let steps = search.by_rate();
            let points = steps.iter().map(|s| (s.rate, of(&s.report.top())));
            plot.with(Series::line(&search.label, points.collect()))
        })
    };
    page.plot(&plot("Response time", Axis::log("mean (ms)"), |top| {
        top.response.mean_ms
    }));
    page.plot(&plot("Miss time", Axis::log("mean (ms)"), |top| {
        top.miss.mean_ms
    }));
    page.plot(&plot("Hit time", Axis::log("mean (ms)"), |top| {
        top.hit.mean_ms
    }));
    page.plot(&plot(
        "Document hit ratio",
        Axis::linear("%").without_zero(),
        |top| top.dhr_percent,
    ));
    page.plot(&plot(
        "Document hit ratio below what is offered",
        Axis::linear("points"),
        |top| top.offered_percent - top.dhr_percent,
    ));
    page.plot(&plot(
        "Document hit ratio below what an exact LRU has",
        Axis::linear("points"),
        |top| top.lru_percent - top.dhr_percent,
    ));
    let peaks: Vec<_> = searches
        .iter()
        .map(|s| (s.label.clone(), s.found.peak()))
        .collect();
    page.heading("As in paper 004").table(&paper::peaks(&peaks));
    page
}

fn peaks_table(searches: &[SearchReport]) -> Table {
    let columns = [
        "",
        "peak (req/s)",
        "not stood at",
        "response (ms)",
        "miss (ms)",
        "hit (ms)",
        "DHR (%)",
        "LRU (%)",
        "offered (%)",
    ];
    let mut table = Table::new("Peaks, and what the proxies did there", &columns);
    for search in searches {
        let peak = search.found.peak();
        let beyond = match &search.found {
            Found::Peak { beyond, .. } => format!("{beyond}"),
            _ => "-".to_owned(),
        };
        let step = search.steps.iter().find(|step| Some(step.rate) == peak);
        let figures = step.map_or_else(Vec::new, |step| {
            let top = step.report.top();
            vec![
                format!("{:.1}", top.response.mean_ms),
                format!("{:.1}", top.miss.mean_ms),
                format!("{:.2}", top.hit.mean_ms),
                format!("{:.2}", top.dhr_percent),
                format!("{:.2}", top.lru_percent),
                format!("{:.2}", top.offered_percent),
            ]
        });
        let first = [
            search.label.clone(),
            peak.map_or_else(|| "none found".to_owned(), |rate| format!("{rate}")),
            beyond,
        ];
        table.row(first.into_iter().chain(figures));
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Stamp;
    use crate::search::{Conditions, FORMAT, Step, VERSION, Verdict};
    use crate::testing;

    fn searched(label: &str, found: Found) -> SearchReport {
        SearchReport {
            stamp: Stamp::new(FORMAT, VERSION),
            label: label.to_owned(),
            setup: [].into(),
            bounds: crate::search::Bounds {
                first: 100.0,
                least: 1.0,
                most: 1e5,
                tolerance: 0.05,
            },
            conditions: Conditions::for_think_scale(1.0),
            steps: vec![Step {
                rate: 100.0,
                verdict: Verdict::Stood,
                report: testing::report("x", 100.0),
            }],
            found,
        }
    }

    #[test]
    fn peaks_stand_side_by_side_and_what_has_none_says_so() {
        let both = [
            searched("one", Found::AtLeast { rate: 100.0 }),
            searched(
                "two",
                Found::Generator {
                    stood: Some(100.0),
                    at: 200.0,
                    why: vec!["late".to_owned()],
                },
            ),
        ];
        let text = peaks_text(&both);
        let line = |name: &str| text.lines().find(|line| line.starts_with(name)).unwrap();
        assert!(
            line("one ").contains("100") && line("one ").contains("1052"),
            "{text}"
        );
        assert!(line("two ").contains("none found"), "{text}");
        let html = peaks_page(&both).html();
        assert!(html.contains("Hit time") && html.contains("Table 6.5"));
        assert!(text.contains("LRU (%)") && html.contains("what an exact LRU has"));
    }
}
