//! The report of a run: as text, as JSON, as a page.
//!
//! Not known here: the measurements.

use serde::Serialize;

use super::faults::Outcome;
use crate::truths::verdict::Verdict;

/// The results of one run.
#[derive(Debug, Default, Serialize)]
pub struct Report {
    pub setup: Vec<String>,
    pub sections: Vec<Section>,
}

/// One scenario.
#[derive(Debug, Default, Serialize)]
pub struct Section {
    pub title: String,
    pub remarks: Vec<String>,
    pub verdicts: Vec<Verdict>,
    pub grids: Vec<Grid>,
    pub lines: Vec<Lines>,
    /// The effects of a fault, if the scenario has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
}

/// A table.
#[derive(Debug, Serialize)]
pub struct Grid {
    pub caption: String,
    pub columns: Vec<String>,
    pub rows: Vec<Vec<String>>,
}

/// Curves over time.
#[derive(Debug, Serialize)]
pub struct Lines {
    pub caption: String,
    pub y: String,
    pub series: Vec<(String, Vec<(f64, f64)>)>,
    /// Times of events, with their descriptions.
    pub marks: Vec<(f64, String)>,
}

impl Grid {
    /// An empty table.
    pub fn new<const N: usize>(caption: &str, columns: [&str; N]) -> Self {
        Self {
            caption: caption.to_owned(),
            columns: columns.map(str::to_owned).into(),
            rows: Vec::new(),
        }
    }

    /// Adds a row.
    pub fn row<const N: usize>(&mut self, cells: [String; N]) {
        self.rows.push(cells.into());
    }

    fn table(&self) -> page::Table {
        let columns: Vec<&str> = self.columns.iter().map(String::as_str).collect();
        let mut table = page::Table::new(&self.caption, &columns);
        for row in &self.rows {
            table.row(row.iter().cloned());
        }
        table
    }
}

impl Section {
    /// An empty section.
    pub fn new(title: impl Into<String>) -> Self {
        Self {
            title: title.into(),
            ..Self::default()
        }
    }

    /// The text for a terminal. Curves are only on the page.
    pub fn text(&self) -> String {
        let mut out = format!("\n## {}\n\n", self.title);
        for remark in &self.remarks {
            out += &format!("{remark}\n");
        }
        for verdict in &self.verdicts {
            out += &format!("{verdict}\n");
        }
        for grid in &self.grids {
            out += &format!("\n{}", grid.table().text());
        }
        out
    }
}

impl Report {
    /// Adds a section, and prints it.
    pub fn add(&mut self, section: Section) {
        println!("{}", section.text());
        self.sections.push(section);
    }

    /// The number of broken promises.
    pub fn missed(&self) -> usize {
        let all = self.sections.iter().flat_map(|section| &section.verdicts);
        all.filter(|verdict| !verdict.is_met).count()
    }

    /// The report as a self-contained page.
    pub fn html(&self) -> String {
        let mut page = page::Page::new("A cluster under load");
        page.list(&self.setup);
        for section in &self.sections {
            page.heading(&section.title);
            section.remarks.iter().for_each(|remark| {
                page.text(remark);
            });
            let verdicts: Vec<String> = section.verdicts.iter().map(ToString::to_string).collect();
            if !verdicts.is_empty() {
                page.list(&verdicts);
            }
            for lines in &section.lines {
                page.plot(&lines.plot());
            }
            for grid in &section.grids {
                page.table(&grid.table());
            }
        }
        page.html()
    }
}

impl Lines {
    fn plot(&self) -> page::Plot {
        let (x, y) = (page::Axis::linear("seconds"), page::Axis::linear(&self.y));
        let mut plot = page::Plot::new(&self.caption, x, y);
        for (name, points) in &self.series {
            plot = plot.with(page::Series::line(name, points.clone()));
        }
        for (x, name) in &self.marks {
            plot = plot.mark(*x, name);
        }
        plot
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missed_verdict_is_counted_and_everything_is_on_the_page() {
        let mut section = Section::new("kill <n1>");
        section.verdicts.push(Verdict::same("client errors", 0, 2));
        section.verdicts.push(Verdict::same("wrong bytes", 0, 0));
        let mut grid = Grid::new("by second", ["second", "hit %"]);
        grid.row(["1".into(), "70.0".into()]);
        section.grids.push(grid);
        section.lines.push(Lines {
            caption: "hits".into(),
            y: "%".into(),
            series: vec![("hit".into(), vec![(0.0, 1.0), (1.0, 2.0)])],
            marks: vec![(0.5, "killed".into())],
        });
        let report = Report {
            setup: vec!["one machine".into()],
            sections: vec![section],
        };
        assert_eq!(report.missed(), 1);
        let html = report.html();
        for part in ["kill &lt;n1&gt;", "client errors", "70.0", "<svg", "killed"] {
            assert!(html.contains(part), "{part}");
        }
        let text = report.sections[0].text();
        assert!(
            text.contains("MISSED  client errors") && text.contains("70.0"),
            "{text}"
        );
    }
}
