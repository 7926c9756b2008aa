//! The results of experiments: text, tables and plots, for a terminal, a browser or another program.
//!
//! Not known here: experiments.   Limits: those of `page`.

use page::{Axis, Page, Plot, Series, Table};
use serde::{Deserialize, Serialize};

/// The results of several experiments, in order.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Title of the report.
    pub title: String,
    /// One section for each experiment.
    pub sections: Vec<Section>,
}

/// The results of an experiment.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Section {
    /// The name of the command, such as `table2`.
    pub name: String,
    /// Its heading.
    pub title: String,
    /// Paragraphs.
    pub text: Vec<String>,
    /// Tables.
    pub tables: Vec<Rows>,
    /// Plots.
    pub plots: Vec<Curves>,
}

/// A table.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Rows {
    /// What it shows.
    pub caption: String,
    /// Headings of the columns, with units.
    pub columns: Vec<String>,
    /// The cells as text.
    pub rows: Vec<Vec<String>>,
}

/// A plot.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Curves {
    /// What it shows.
    pub caption: String,
    /// The horizontal axis.
    pub x: Scale,
    /// The vertical axis.
    pub y: Scale,
    /// Bars with these names at x = 0, 1, 2, instead of numbers.
    pub names: Vec<String>,
    /// The curves.
    pub curves: Vec<Curve>,
    /// With `names`: lines between the names instead of bars.
    #[serde(default)]
    pub joined: bool,
}

/// An axis.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Scale {
    /// Name and unit.
    pub label: String,
    /// Whether the axis is logarithmic.
    pub log: bool,
    /// The axis is linear and need not include 0.
    #[serde(default)]
    pub near: bool,
}

/// A curve.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Curve {
    /// The name in the legend.
    pub name: String,
    /// Whether the curve is the paper's.
    pub printed: bool,
    /// Its points.
    pub points: Vec<(f64, f64)>,
}

impl Scale {
    /// A linear axis.
    pub fn linear(label: &str) -> Scale {
        Scale {
            label: label.to_owned(),
            ..Scale::default()
        }
    }

    /// A linear axis that begins where the points do.
    pub fn near(label: &str) -> Scale {
        Scale {
            near: true,
            ..Scale::linear(label)
        }
    }

    /// A logarithmic axis.
    pub fn log(label: &str) -> Scale {
        Scale {
            log: true,
            ..Scale::linear(label)
        }
    }

    fn axis(&self) -> Axis {
        if self.log {
            Axis::log(&self.label)
        } else if self.near {
            Axis::linear(&self.label).without_zero()
        } else {
            Axis::linear(&self.label)
        }
    }
}

impl Rows {
    /// A table without rows.
    pub fn new(caption: &str, columns: &[&str]) -> Rows {
        Rows {
            caption: caption.to_owned(),
            columns: columns.iter().map(|&c| c.to_owned()).collect(),
            rows: Vec::new(),
        }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// The table for a terminal. If cells are sentences, each row is a paragraph, since it would not fit on a line.
    fn text(&self) -> String {
        let long = |row: &Vec<String>| row.iter().any(|cell| cell.chars().count() > LINE);
        if !self.rows.iter().any(long) {
            return self.table().text();
        }
        let mut out = format!("{}\n", self.caption);
        for row in &self.rows {
            out.push_str(&folded(&row.join(": ")));
        }
        out
    }

    fn table(&self) -> Table {
        let columns: Vec<&str> = self.columns.iter().map(String::as_str).collect();
        let mut table = Table::new(&self.caption, &columns);
        for row in &self.rows {
            table.row(row.iter().cloned());
        }
        table
    }
}

impl Curves {
    fn plot(&self, section: &str) -> Plot {
        let names: Vec<&str> = self.names.iter().map(String::as_str).collect();
        let mut plot = Plot::new(&self.caption, self.x.axis(), self.y.axis()).called(section);
        let bars = !names.is_empty() && !self.joined;
        for curve in &self.curves {
            let points = curve.points.clone();
            plot = plot.with(match (curve.printed, bars) {
                (_, true) => Series::bars(&curve.name, points),
                (true, _) => Series::dashes(&curve.name, points),
                (false, _) => Series::line(&curve.name, points),
            });
        }
        if names.is_empty() {
            plot
        } else {
            plot.named(&names)
        }
    }
}

impl Report {
    /// The report for a terminal, without plots.
    pub fn text(&self) -> String {
        let mut out = String::new();
        for section in &self.sections {
            out.push_str(&format!("{}\n\n", section.title));
            for rows in &section.tables {
                out.push_str(&rows.text());
                out.push('\n');
            }
            for text in &section.text {
                out.push_str(&folded(text));
                out.push('\n');
            }
        }
        out
    }

    /// The report as one HTML page.
    pub fn html(&self) -> String {
        self.page().html()
    }

    /// The report as a page; plots are named after their sections.
    pub fn page(&self) -> Page {
        let mut page = Page::new(&self.title);
        for section in &self.sections {
            if section.title != self.title {
                page.heading(&section.title);
            }
            for text in &section.text {
                page.text(text);
            }
            // A long table in front would hide the plots.
            let (long, short): (Vec<&Rows>, Vec<&Rows>) = section
                .tables
                .iter()
                .partition(|rows| rows.rows.len() > LONG_ROWS);
            for rows in short {
                page.table(&rows.table());
            }
            for curves in &section.plots {
                page.plot(&curves.plot(&section.name));
            }
            for rows in long {
                page.table(&rows.table());
            }
        }
        page
    }

    /// The report as JSON.
    pub fn json(&self) -> String {
        let text = serde_json::to_string_pretty(self);
        text.unwrap_or_else(|e| format!("{{\"error\": \"{e}\"}}")) + "\n"
    }
}

/// Tables with more rows come after the plots.
const LONG_ROWS: usize = 15;

const LINE: usize = 100;

/// Breaks a paragraph into lines that fit a terminal.
fn folded(text: &str) -> String {
    let mut out = String::new();
    let mut column = 0;
    for word in text.split_whitespace() {
        if column > 0 && column + 1 + word.len() > LINE {
            out.push('\n');
            column = 0;
        }
        if column > 0 {
            out.push(' ');
            column += 1;
        }
        out.push_str(word);
        column += word.len();
    }
    out.push('\n');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_text_page_and_json() {
        let mut rows = Rows::new("ours", &["manager", "gets/s"]);
        rows.row(["SQUID".to_owned(), "20".to_owned()]);
        let report = Report {
            title: "t".to_owned(),
            sections: vec![Section {
                name: "table2".to_owned(),
                title: "Table 2".to_owned(),
                text: vec!["word ".repeat(40)],
                tables: vec![rows],
                plots: vec![Curves {
                    caption: "p".to_owned(),
                    x: Scale::linear("x"),
                    y: Scale::log("y"),
                    names: vec!["SQUID".to_owned()],
                    curves: vec![Curve {
                        name: "ours".to_owned(),
                        printed: false,
                        points: vec![(0.0, 20.0)],
                    }],
                    joined: false,
                }],
            }],
        };
        assert!(report.text().contains("SQUID        20"));
        assert!(report.text().lines().all(|line| line.len() <= LINE));
        assert!(report.html().contains("<svg") && report.html().contains("Table 2"));
        assert_eq!(report.page().svg_files()[0].0, "table2.svg");
        assert_eq!(
            serde_json::from_str::<Report>(&report.json()).unwrap(),
            report
        );
        let mut words = report.clone();
        words.sections[0].tables[0].row(["why".to_owned(), "because ".repeat(30)]);
        let text = words.text();
        assert!(text.contains("\nwhy: because because") && text.lines().all(|l| l.len() <= LINE));
        let mut long = report.clone();
        long.sections[0].tables[0].rows = vec![vec!["SQUID".to_owned()]; LONG_ROWS + 1];
        let before = |report: &Report| {
            let html = report.html();
            html.find("<table>").unwrap() < html.find("<svg").unwrap()
        };
        assert!(before(&report) && !before(&long));
        let back: serde_json::Value = serde_json::from_str(&report.json()).unwrap();
        assert_eq!(
            back["sections"][0]["plots"][0]["curves"][0]["points"][0][1],
            20.0
        );
    }
}
