//! The report on a [`Summary`]: tables for a terminal, a page with plots for a browser.

use page::{Axis, Page, Plot, Series, Table};

use super::{Skip, Summary, Tally};
use crate::policies::size_text;

/// Tables of the contents and of sizes.
pub fn tables(name: &str, summary: &Summary, tally: Option<&Tally>) -> Vec<Table> {
    let mut all = Table::new(name, &["", "count", "share"]);
    let percent =
        |part: u64, whole: u64| format!("{:.1} %", 100.0 * part as f64 / whole.max(1) as f64);
    let mut row = |what: &str, count: String, share: String| {
        all.row([what.to_owned(), count, share]);
    };
    if let Some(tally) = tally {
        row("lines", tally.lines.to_string(), String::new());
        row(
            "  bad",
            tally.bad.to_string(),
            percent(tally.bad, tally.lines),
        );
        for (skip, &count) in Skip::ALL.iter().zip(&tally.skipped) {
            if count > 0 {
                row(
                    &format!("  {}", skip.words()),
                    count.to_string(),
                    percent(count, tally.lines),
                );
            }
        }
    }
    let requests = summary.requests;
    row("requests", requests.to_string(), String::new());
    row(
        "  for an object seen before",
        summary.repeats.to_string(),
        percent(summary.repeats, requests),
    );
    row(
        "  of these, changed in size",
        summary.changed.to_string(),
        percent(summary.changed, summary.repeats),
    );
    row("objects", summary.objects.to_string(), String::new());
    row(
        "  asked for once",
        summary.once.to_string(),
        percent(summary.once, summary.objects),
    );
    row("servers", summary.servers.to_string(), String::new());
    row("bytes of answers", size_text(summary.bytes), String::new());
    row(
        "bytes of objects",
        size_text(summary.object_bytes),
        percent(summary.object_bytes, summary.bytes),
    );
    row(
        "mean answer",
        size_text(summary.bytes_mean() as u64),
        String::new(),
    );
    row(
        "mean object",
        size_text(summary.object_bytes_mean() as u64),
        String::new(),
    );
    for (percent, size) in &summary.size_percentiles {
        let what = match percent {
            50 => "median object".to_owned(),
            100 => "largest object".to_owned(),
            percent => format!("object, {percent}th percentile"),
        };
        row(&what, size_text(u64::from(*size)), String::new());
    }
    let slope = summary.popularity_slope;
    row(
        "popularity slope",
        slope.map_or("-".to_owned(), |slope| format!("{slope:.2}")),
        String::new(),
    );
    row(
        "time",
        format!("{:.1} h", summary.span_ms as f64 / 3.6e6),
        String::new(),
    );

    let mut sizes = Table::new("Sizes", &["below", "objects", "requests", "bytes (%)"]);
    for class in &summary.sizes {
        sizes.row([
            size_text(class.to_bytes),
            class.objects.to_string(),
            class.requests.to_string(),
            format!(
                "{:.1}",
                100.0 * class.bytes as f64 / summary.bytes.max(1) as f64
            ),
        ]);
    }
    vec![all, sizes]
}

/// A page with these tables, plots, and the bad lines that were kept.
pub fn page(name: &str, summary: &Summary, tally: Option<&Tally>) -> Page {
    let mut page = Page::new(&format!("What is in {name}"));
    for table in tables(name, summary, tally) {
        page.table(&table);
    }
    let sizes = |count: fn(&super::SizeClass) -> u64| {
        let points = summary
            .sizes
            .iter()
            .map(move |class| (class.to_bytes as f64 / 1024.0, count(class) as f64));
        points.collect::<Vec<_>>()
    };
    page.plot(
        &Plot::new(
            "Sizes, by powers of two",
            Axis::log("size below (KiB)"),
            Axis::linear("count"),
        )
        .with(Series::line("objects", sizes(|class| class.objects)))
        .with(Series::line("requests", sizes(|class| class.requests))),
    );
    let popularity = summary
        .popularity
        .iter()
        .map(|&(rank, count)| (rank as f64, count as f64));
    page.plot(
        &Plot::new(
            "Popularity",
            Axis::log("rank of the object"),
            Axis::log("requests"),
        )
        .with(Series::points("objects", popularity.collect())),
    );
    if let Some(tally) = tally.filter(|tally| tally.bad > 0) {
        page.heading("Bad lines")
            .text("The first of them: line, what is wrong, how it begins.");
        page.verbatim(&tally.bad_shown.join("\n"));
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Access;

    #[test]
    fn what_is_counted_is_said() {
        let row = [5, 5, 9].map(|object| Access {
            at_ms: 0,
            object,
            server: 0,
            size_bytes: 3000,
        });
        let summary = Summary::of(row);
        let tally = Tally {
            lines: 5,
            bad: 1,
            bad_shown: vec!["4: no URL: <x>".into()],
            ..Tally::default()
        };
        let text: String = tables("t", &summary, Some(&tally))
            .iter()
            .map(Table::text)
            .collect();
        for part in ["bad ", "20.0 %", "2.93 KiB", "4.00 KiB"] {
            assert!(text.contains(part), "{part} in {text}");
        }
        let html = page("t", &summary, Some(&tally)).html();
        assert!(html.contains("4: no URL: &lt;x&gt;") && html.contains("<svg"));
    }
}
