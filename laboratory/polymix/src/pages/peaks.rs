//! Several searches side by side: their peaks, and how response time grows with the rate.
//!
//! Not known here: how the searches were made.   Limits: as many as fit beside each other.
//! Source: paper 000, Figures 6 to 8, has such curves for two proxies.

use page::{Axis, Page, Plot, Series, Table};

use super::search::{fills_given_up, said};
use super::{COMMON, differing, facts_table, paper};
use crate::report::Row;
use crate::search::{Found, SearchReport};

/// Several searches as text.
#[must_use]
pub fn peaks_text(searches: &[SearchReport]) -> String {
    let mut out = peaks_table(searches).text();
    out.push('\n');
    out.push_str(&asked_table(searches).text());
    for warning in warnings(searches) {
        out.push_str(&format!("\n{warning}\n"));
    }
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
    for warning in warnings(searches) {
        page.text(&warning);
    }
    page.table(&peaks_table(searches));
    page.table(&asked_table(searches));
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
    page.heading("As in paper 004");
    let highest = searches.iter().flat_map(|s| paper::highest(&s.label, s));
    page.table(&paper::summary(&highest.collect::<Vec<_>>()));
    page.table(&paper::peaks(&peaks));
    let curves = searches
        .iter()
        .map(|s| (s.label.clone(), paper::by_step(s)));
    paper::curves(&mut page, &curves.collect::<Vec<_>>());
    page.heading("Settings");
    for search in searches {
        page.table(&facts_table(&search.label, &search.setup));
    }
    page
}

/// Settings of the searches, and their conditions for a load that is sustained: a value for each search.
fn asked(searches: &[SearchReport]) -> Vec<(&'static str, Vec<String>)> {
    // The steps of a search differ only in the rate and what follows from it.
    let planned = COMMON.map(|(name, of)| {
        let plan = |search: &SearchReport| {
            let step = search.steps.first();
            step.map_or_else(|| "-".to_owned(), |step| of(&step.report.plan))
        };
        (name, searches.iter().map(plan).collect())
    });
    let limit: fn(&SearchReport) -> f64 = |search| search.conditions.response_ms_max;
    let points: fn(&SearchReport) -> f64 = |search| search.conditions.hit_points;
    let tolerance: fn(&SearchReport) -> f64 = |search| search.bounds.tolerance;
    let limits = [
        ("limit of the mean response (ms)", limit),
        ("points below the offered hit ratio, at most", points),
        ("tolerance of the peak", tolerance),
    ];
    let limits = limits.map(|(name, of)| {
        let values = searches.iter().map(|search| of(search).to_string());
        (name, values.collect())
    });
    planned.into_iter().chain(limits).collect()
}

fn asked_table(searches: &[SearchReport]) -> Table {
    let names = searches.iter().map(|search| search.label.as_str());
    let columns: Vec<_> = std::iter::once("").chain(names).collect();
    let mut table = Table::new("What was asked for, and when a load is stood", &columns);
    for (name, values) in asked(searches) {
        table.row(std::iter::once(name.to_owned()).chain(values));
    }
    table
}

/// What makes the searches hard to compare, or one of them doubtful.
fn warnings(searches: &[SearchReport]) -> Vec<String> {
    let mut said: Vec<_> = asked(searches)
        .iter()
        .filter_map(|(name, values)| differing("searches", name, values))
        .collect();
    for search in searches {
        let fills = fills_given_up(search).into_iter();
        said.extend(fills.map(|fill| format!("{}: {fill}", search.label)));
    }
    said
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
            setup: [("proxy".to_owned(), format!("where {label} is"))].into(),
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
        for part in [
            "Hit time",
            "two at 100 req/s",
            "Table 6.5",
            "Table 6.6: by request rate, one",
            "Figure 6.1: request rate versus response time, miss time and hit time, two",
            "Figure 6.2: request rate versus hit ratio, two",
            "where two is",
        ] {
            assert!(html.contains(part), "{part}");
        }
        assert_eq!(html.matches("Table 6.6 as printed").count(), 1);
        assert!(text.contains("LRU (%)") && html.contains("what an exact LRU has"));
    }

    #[test]
    fn what_was_asked_for_stands_beside_the_peaks_and_differences_are_said() {
        let one = searched("one", Found::AtLeast { rate: 100.0 });
        let mut two = searched("two", Found::AtLeast { rate: 100.0 });
        let text = peaks_text(&[one.clone(), two.clone()]);
        assert!(!text.contains("differ"), "{text}");
        two.conditions.hit_points = 5.0;
        two.conditions.response_ms_max = 250.0;
        two.steps[0].report = testing::fill_given_up(100.0);
        two.steps[0].report.plan.think_scale = 0.1;
        two.steps[0].report.plan.cache_bytes = 1 << 30;
        two.steps[0].report.plan.time_scale = 1.0 / 240.0;
        let both = [one, two];
        let (text, html) = (peaks_text(&both), peaks_page(&both).html());
        for (name, first, second) in [
            ("limit of the mean response (ms)", "3000", "250"),
            ("points below the offered hit ratio, at most", "2", "5"),
            ("think scale", "1", "0.1"),
            ("cache size", "1 MiB", "1 GiB"),
            ("time scale", "1/1440", "1/240"),
        ] {
            let line = text.lines().find(|line| line.starts_with(name)).unwrap();
            let values = line[name.len()..].trim();
            assert!(
                values.starts_with(first) && values.ends_with(second),
                "{line}"
            );
            let warning = format!("The searches differ in the {name}: {first}, {second}.");
            assert!(text.contains(&warning) && html.contains(&warning), "{text}");
        }
        assert!(text.contains("two: At 100 req/s the fill ended after"));
        assert!(html.contains("two: At 100 req/s the fill ended after"));
    }
}
