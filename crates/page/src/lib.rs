//! Reports to look at: tables and plots, as text for a terminal and as one HTML page for a browser.
//!
//! A [`Page`] is a heading and parts in order: paragraphs, tables ([`Table`]), plots ([`Plot`]). The page needs nothing
//! besides itself: style and SVG are in it, there are no scripts, and it prints and reads well in light and dark.
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
pub mod plot;
mod table;

pub use axis::Axis;
pub use plot::{Plot, Series};
pub use table::Table;

const STYLE: &str = "\
:root{color-scheme:light dark;--ink:#1b2733;--paper:#fff;--faint:#6b7785;--rule:#d5dbe1}
@media(prefers-color-scheme:dark){:root{--ink:#dfe5eb;--paper:#14191e;--faint:#95a1ad;--rule:#36404a}}
body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--paper);max-width:60rem;margin:2rem auto;padding:0 1rem}
h1{font-size:1.6rem}h2{font-size:1.2rem;margin-top:2.2rem}
table{border-collapse:collapse;margin:1rem 0;font-variant-numeric:tabular-nums}
caption{text-align:left;font-weight:600;padding-bottom:.3rem}
th,td{padding:.15rem .8rem .15rem 0;border-bottom:1px solid var(--rule);text-align:right}
th{color:var(--faint);font-weight:500}th:first-child,td:first-child{text-align:left}
figure{margin:1.5rem 0}figcaption{font-weight:600}svg{width:100%;height:auto}
svg text{font:12px system-ui,sans-serif;fill:var(--ink)}svg .tick{fill:var(--faint)}
svg .grid{stroke:var(--rule)}svg .mark{stroke:var(--faint);stroke-dasharray:1 3}svg .frame{stroke:var(--faint);fill:none}
pre{overflow-x:auto;padding:.6rem;border:1px solid var(--rule)}
";

/// A report in the making.
#[derive(Debug, Clone)]
pub struct Page {
    title: String,
    body: String,
}

impl Page {
    /// An empty page.
    pub fn new(title: &str) -> Page {
        Page {
            title: title.to_owned(),
            body: String::new(),
        }
    }

    /// A heading: a new section begins.
    pub fn heading(&mut self, text: &str) -> &mut Page {
        self.element("h2", text)
    }

    /// A paragraph.
    pub fn text(&mut self, text: &str) -> &mut Page {
        self.element("p", text)
    }

    /// Text as it stands, in lines: a configuration, a command.
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
        self
    }

    fn element(&mut self, name: &str, text: &str) -> &mut Page {
        self.body
            .push_str(&format!("<{name}>{}</{name}>\n", escaped(text)));
        self
    }

    /// The whole document.
    pub fn html(&self) -> String {
        let title = escaped(&self.title);
        format!(
            "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
             <meta name=\"viewport\" content=\"width=device-width\">\n<title>{title}</title>\n\
             <style>\n{STYLE}</style></head>\n<body>\n<h1>{title}</h1>\n{}</body></html>\n",
            self.body
        )
    }
}

/// `text` with nothing in it that means something in HTML.
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
