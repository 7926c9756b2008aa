//! Reports as tables and plots: as text for a terminal, and as one HTML page for a browser.
//!
//! A [`Page`] is a heading and parts in order: paragraphs, tables ([`Table`]), plots ([`Plot`]). The page needs no other files: it contains
//! style and SVG, and is readable on paper and in light and dark mode. Only a page with charts ([`chart::Chart`]) contains a script;
//! without it, only the choice of a statistic is missing.
//!
//! ```
//! use page::{Axis, Page, Plot, Series, Table};
//!
//! let mut table = Table::new("Reads", &["policy", "reads/s"]);
//! table.row(["lru".to_owned(), "94".to_owned()]);
//! let plot = Plot::new("Response time", Axis::linear("rate (1/s)"), Axis::log("time (ms)"))
//!     .with(Series::line("lru", vec![(10.0, 12.0), (20.0, 31.0)]));
//! let mut page = Page::new("A report");
//! page.text("What was measured.").table(&table).plot(&plot);
//! assert!(page.html().contains("<svg"));
//! ```
//!
//! Not known here: what is measured.   Limits: [`plot::POINTS_MAX`] points a series, thinned above it.
#![forbid(unsafe_code)]

mod axis;
pub mod chart;
mod drawing;
mod legend;
mod moments;
pub mod plot;
mod table;

pub use axis::{Axis, bytes_text, value_text};
pub use moments::{clock_text, utc_text};
pub use plot::{Plot, Series};
pub use table::Table;

use chart::{CHART_DARK, CHART_DRAWING, CHART_SCRIPT, CHART_STYLE, Chart};

/// Colours of drawings. Dark mode on a screen swaps them for [`DARK`]; print keeps these.
const LIGHT: &str = "\
svg{font:12px system-ui,sans-serif}svg text{fill:#1b2733}svg .tick{fill:#5c6773}svg .grid{stroke:#d5dbe1}\
svg .mark{stroke:#5c6773}svg .frame{stroke:#5c6773}svg .halo{stroke:#fff}svg .point{stroke:#fff}
";
const DARK: &str = "\
svg text{fill:#dfe5eb}svg .tick{fill:#95a1ad}svg .grid{stroke:#36404a}\
svg .mark{stroke:#95a1ad}svg .frame{stroke:#95a1ad}svg .halo{stroke:#14191e}svg .point{stroke:#14191e}
";
/// Style of drawings that is independent of colours.
const DRAWING: &str = "\
svg .frame{fill:none}svg .mark{stroke-dasharray:1 3}svg .halo{paint-order:stroke;stroke-width:4px}\
svg .value{font-size:10px}svg .caption{font-size:14px;font-weight:600}svg .point{stroke-width:.8}
";
const STYLE: &str = "\
:root{color-scheme:light dark;--ink:#1b2733;--paper:#fff;--faint:#5c6773;--rule:#d5dbe1}
body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--paper);max-width:60rem;margin:2rem auto;padding:0 1rem}
h1{font-size:1.6rem}h2{font-size:1.2rem;margin-top:2.2rem}p{max-width:46rem}
figure{margin:1.5rem 0}figcaption{font-weight:600;padding-bottom:.3rem}.wide{overflow-x:auto}
table{border-collapse:collapse;font-variant-numeric:tabular-nums;font-size:14px}
th,td{padding:.15rem 0 .15rem .9rem;border-bottom:1px solid var(--rule);text-align:right;vertical-align:top}
th{color:var(--faint);font-weight:500;vertical-align:bottom}td:first-child{white-space:pre}
th:first-child,td:first-child{padding-left:0}.l{text-align:left}td.l{min-width:9rem}td.l:first-child{min-width:0}
svg{display:block;width:100%;min-width:36rem;height:auto}
pre{white-space:pre-wrap;overflow-wrap:anywhere;font-size:13px;padding:.6rem;border:1px solid var(--rule)}
@media print{body{max-width:none;margin:0}table{font-size:11px}th,td{padding-left:.5rem}svg{min-width:0}
h2,figcaption{break-after:avoid}tr,svg{break-inside:avoid}.wide{overflow:visible}}
";
/// Precedes [`DARK`].
const FOR_SCREENS: &str = "\
@media screen and (prefers-color-scheme:dark){:root{--ink:#dfe5eb;--paper:#14191e;--faint:#95a1ad;--rule:#36404a}
";

/// A report under construction.
#[derive(Debug, Clone)]
pub struct Page {
    title: String,
    body: String,
    plots: Vec<Plot>,
    charts: Vec<Chart>,
    /// Whether there is a table of contents at the top.
    has_contents: bool,
}

impl Page {
    /// An empty page.
    pub fn new(title: &str) -> Page {
        Page {
            title: title.to_owned(),
            body: String::new(),
            plots: Vec::new(),
            charts: Vec::new(),
            has_contents: false,
        }
    }

    /// Begins a new section.
    pub fn heading(&mut self, text: &str) -> &mut Page {
        self.element("h2", text)
    }

    /// A paragraph.
    pub fn text(&mut self, text: &str) -> &mut Page {
        self.element("p", text)
    }

    /// Preformatted text: a configuration, a command.
    pub fn verbatim(&mut self, text: &str) -> &mut Page {
        self.element("pre", text)
    }

    /// A table.
    pub fn table(&mut self, table: &Table) -> &mut Page {
        table.html(&mut self.body);
        self
    }

    /// A plot with its caption.
    pub fn plot(&mut self, plot: &Plot) -> &mut Page {
        plot.html(&mut self.body);
        self.plots.push(plot.clone());
        self
    }

    /// A chart, in a figure with an anchor.
    pub fn chart(&mut self, chart: &Chart) -> &mut Page {
        chart.html(&mut self.body);
        self.charts.push(chart.clone());
        self
    }

    /// Tables that the reader has to unfold.
    pub fn folded(&mut self, summary: &str, tables: &[Table]) -> &mut Page {
        self.body.push_str(&format!(
            "<details><summary>{}</summary>\n",
            escaped(summary)
        ));
        tables.iter().for_each(|table| table.html(&mut self.body));
        self.body.push_str("</details>\n");
        self
    }

    /// A list of sentences.
    pub fn list<S: AsRef<str>>(&mut self, items: &[S]) -> &mut Page {
        let items = items
            .iter()
            .map(|item| format!("<li>{}</li>\n", escaped(item.as_ref())));
        self.body
            .push_str(&format!("<ul>\n{}</ul>\n", items.collect::<String>()));
        self
    }

    /// A table of contents at the top, with a link to every chart.
    pub fn with_contents(&mut self) -> &mut Page {
        self.has_contents = true;
        self
    }

    fn contents(&self) -> String {
        if !self.has_contents {
            return String::new();
        }
        let links = self.charts.iter().map(|chart| {
            let (id, title) = (chart.id(), chart.title());
            format!(
                "<li><a href=\"#{}\">{}</a></li>\n",
                escaped(id),
                escaped(title)
            )
        });
        format!(
            "<nav aria-label=\"figures\"><ol>\n{}</ol></nav>\n",
            links.collect::<String>()
        )
    }

    /// Each plot and chart as a separate file: its name, and SVG with its own background and style.
    pub fn svg_files(&self) -> Vec<(String, String)> {
        let mut files: Vec<(String, String)> = Vec::new();
        for plot in &self.plots {
            let stem = plot.stem();
            let mut name = format!("{stem}.svg");
            let mut nth = 1;
            while files.iter().any(|(other, _)| *other == name) {
                nth += 1;
                name = format!("{stem}-{nth}.svg");
            }
            files.push((name, plot.svg_file()));
        }
        let charts = self.charts.iter();
        files.extend(charts.map(|chart| (format!("{}.svg", chart.id()), chart.svg_file())));
        files
    }

    fn element(&mut self, name: &str, text: &str) -> &mut Page {
        self.body
            .push_str(&format!("<{name}>{}</{name}>\n", escaped(text)));
        self
    }

    /// The whole document.
    pub fn html(&self) -> String {
        let title = escaped(&self.title);
        let contents = self.contents();
        let (class, style, dark, script) = if self.charts.is_empty() {
            ("", String::new(), "", String::new())
        } else {
            let script = format!("<script>\n{CHART_SCRIPT}</script>\n");
            let style = format!("{CHART_DRAWING}{CHART_STYLE}");
            (" class=\"charts\"", style, CHART_DARK, script)
        };
        format!(
            "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
             <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n<title>{title}</title>\n\
             <style>\n{STYLE}{LIGHT}{DRAWING}{style}{FOR_SCREENS}{DARK}{dark}}}</style></head>\n\
             <body{class}>\n<h1>{title}</h1>\n{contents}{}{script}</body></html>\n",
            self.body
        )
    }
}

/// `text` with the special characters of HTML escaped.
pub(crate) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_stays_text() {
        let mut page = Page::new("a<b");
        page.heading("x & y").text("<script>").verbatim("\"q\"");
        let html = page.html();
        for part in [
            "<title>a&lt;b</title>",
            "<h2>x &amp; y</h2>",
            "<p>&lt;script&gt;</p>",
            "<pre>&quot;q&quot;</pre>",
        ] {
            assert!(html.contains(part), "{part} in {html}");
        }
    }

    #[test]
    fn plots_are_files_with_names_of_their_own() {
        let plot = || Plot::new("p", Axis::linear("x"), Axis::linear("y"));
        let mut page = Page::new("t");
        page.plot(&plot()).plot(&plot().called("Q")).plot(&plot());
        let files = page.svg_files();
        let names: Vec<&str> = files.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["p.svg", "q.svg", "p-2.svg"]);
    }

    #[test]
    fn dark_is_for_screens_that_ask_for_it_and_light_for_paper() {
        let html = Page::new("t").html();
        assert!(html.contains("@media screen and (prefers-color-scheme:dark){"));
        assert!(html.contains("@media print{"));
        assert_eq!(html.matches('{').count(), html.matches('}').count());
    }

    #[test]
    fn a_page_needs_nothing_besides_itself() {
        let plot = Plot::new("p", Axis::linear("x"), Axis::linear("y"))
            .with(Series::points("s", vec![(1.0, 1.0)]));
        let mut page = Page::new("t");
        page.plot(&plot);
        let html = page.html();
        for outside in ["http://", "https://", "<script", "@import", "src="] {
            assert!(!html.contains(outside), "{outside}");
        }
    }
}
