//! The results of an experiment: a line for each figure, a column for each thing that is compared.
//!
//! A figure is a number or the reason why there is none, never a guess. With a [`Want`] it is also a target, and a target
//! that is missed, or has no figure, fails the experiment. Lines and columns appear in the order in which they were first written.

use serde_json::{Map, Value, json};

use super::super::hits::verdict_table;
use super::super::table::Table;
use super::super::targets::{Verdict, at_least, at_most};
use crate::failure::{During, Result, fail};

/// A number, or why there is none.
#[derive(Debug, Clone, PartialEq)]
pub enum Figure {
    Found(f64),
    Missing(String),
}

impl Figure {
    /// No number, for this reason.
    pub fn missing(why: impl Into<String>) -> Self {
        Self::Missing(why.into())
    }

    /// `of` divided by `count`; if `count` is 0, no number, for the reason `none`.
    pub fn each(of: f64, count: f64, none: &str) -> Self {
        match count > 0.0 {
            true => Self::Found(of / count),
            false => Self::missing(none),
        }
    }

    /// The number, if there is one.
    pub fn found(&self) -> Option<f64> {
        match self {
            Self::Found(number) => Some(*number),
            Self::Missing(_) => None,
        }
    }
}

impl From<f64> for Figure {
    fn from(number: f64) -> Self {
        Self::Found(number)
    }
}

impl From<u64> for Figure {
    fn from(number: u64) -> Self {
        Self::Found(number as f64)
    }
}

/// What a figure should be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Want {
    AtMost(f64),
    AtLeast(f64),
    /// The first number, with the second one as tolerance.
    Near(f64, f64),
}

/// One thing that is measured, and its figures by the titles of their lines.
#[derive(Debug, Clone, Default)]
pub struct Column {
    name: String,
    figures: Vec<(String, usize, Figure, Option<Want>)>,
}

impl Column {
    /// A column without figures.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            figures: Vec::new(),
        }
    }

    /// The name of the thing it is about.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Adds a figure, shown with `decimals` decimals.
    pub fn add(&mut self, title: impl Into<String>, decimals: usize, figure: impl Into<Figure>) {
        self.figures
            .push((title.into(), decimals, figure.into(), None));
    }

    /// Adds a figure that is also a target.
    pub fn target(
        &mut self,
        title: impl Into<String>,
        decimals: usize,
        figure: impl Into<Figure>,
        want: Want,
    ) {
        self.figures
            .push((title.into(), decimals, figure.into(), Some(want)));
    }

    /// The figure of this title.
    pub fn figure(&self, title: &str) -> Option<&Figure> {
        let mut figures = self.figures.iter();
        figures.find(|f| f.0 == title).map(|f| &f.2)
    }

    /// Makes the figures of these titles targets.
    pub fn with_targets(mut self, targets: &[(&str, Want)]) -> Self {
        for figure in &mut self.figures {
            let target = targets.iter().find(|(title, _)| *title == figure.0);
            figure.3 = target.map(|(_, want)| *want).or(figure.3);
        }
        self
    }

    /// The same column without targets.
    pub fn without_targets(mut self) -> Self {
        self.figures.iter_mut().for_each(|f| f.3 = None);
        self
    }
}

/// All figures of an experiment.
#[derive(Debug, Default)]
pub struct Sheet {
    title: String,
    columns: Vec<Column>,
    notes: Vec<String>,
}

impl Sheet {
    /// An empty sheet.
    pub fn new(title: &str) -> Self {
        Self {
            title: title.to_owned(),
            ..Self::default()
        }
    }

    /// Adds a column.
    pub fn push(&mut self, column: Column) {
        self.columns.push(column);
    }

    /// Adds a remark that is needed to understand the figures.
    pub fn note(&mut self, text: impl Into<String>) {
        self.notes.push(text.into());
    }

    /// A number that must exist.
    #[cfg(test)]
    #[track_caller]
    pub fn found(&self, column: &str, title: &str) -> f64 {
        let column = self.columns.iter().find(|c| c.name == column);
        let figure = column.and_then(|c| c.figure(title)?.found());
        figure.unwrap_or_else(|| panic!("no {title} in {}", self.render()))
    }

    /// Table, notes, and why figures are missing.
    pub fn render(&self) -> String {
        let mut header = vec![self.title.clone()];
        header.extend(self.columns.iter().map(|c| c.name.clone()));
        let mut table = Table::with_columns(header);
        let mut titles: Vec<&str> = Vec::new();
        for (title, ..) in self.columns.iter().flat_map(|c| &c.figures) {
            if !titles.contains(&title.as_str()) {
                titles.push(title);
            }
        }
        let mut reasons = Vec::new();
        for title in titles {
            let mut row = vec![title.to_owned()];
            for column in &self.columns {
                let figure = column.figures.iter().find(|f| f.0 == title);
                row.push(match figure {
                    Some((_, decimals, Figure::Found(number), _)) => rounded(*number, *decimals),
                    Some((_, _, Figure::Missing(why), _)) => {
                        reasons.push(format!("{}, {title}: {why}", column.name));
                        "-".to_owned()
                    }
                    None => String::new(),
                });
            }
            table.row(row);
        }
        let mut text = table.render();
        for note in &self.notes {
            text.push_str(&format!("\n{note}\n"));
        }
        if !reasons.is_empty() {
            text.push_str("\nNo figure:\n\n");
        }
        for reason in reasons {
            text.push_str(&format!("* {reason}\n"));
        }
        text
    }

    /// All targets and how they stand.
    pub fn verdicts(&self) -> Vec<Verdict> {
        let of_column = |column: &Column| {
            let targets = column
                .figures
                .iter()
                .filter_map(|(title, _, figure, want)| {
                    let what = match self.columns.len() {
                        1 => title.clone(),
                        _ => format!("{}: {title}", column.name),
                    };
                    // Without a figure the number is NaN, which meets no target.
                    let found = figure.found().unwrap_or(f64::NAN);
                    Some(match (*want)? {
                        Want::AtMost(most) => at_most(what, found, most),
                        Want::AtLeast(least) => at_least(what, found, least),
                        Want::Near(wanted, slack) => Verdict {
                            what,
                            wanted: format!("{wanted}, within {slack}"),
                            found: format!("{found:.4}"),
                            kept: (found - wanted).abs() <= slack,
                        },
                    })
                });
            targets.collect::<Vec<_>>()
        };
        self.columns.iter().flat_map(of_column).collect()
    }

    /// Everything, for programs.
    pub fn json(&self) -> Value {
        let of_column = |column: &Column| {
            let figures = column.figures.iter().map(|(title, _, figure, _)| {
                let value = match figure {
                    Figure::Found(number) => json!(number),
                    Figure::Missing(why) => json!({ "why": why }),
                };
                (title.clone(), value)
            });
            (
                column.name.clone(),
                Value::Object(figures.collect::<Map<_, _>>()),
            )
        };
        let columns: Map<_, _> = self.columns.iter().map(of_column).collect();
        json!({ "experiment": self.title, "figures": columns, "notes": self.notes, "targets": self.verdicts() })
    }

    /// Prints it, and fails if a target is missed.
    pub fn finish(&self, as_json: bool) -> Result<()> {
        let verdicts = self.verdicts();
        if as_json {
            let text = serde_json::to_string_pretty(&self.json());
            println!("{}", text.during(|| "writing JSON".into())?);
        } else {
            println!("{}", self.render());
            if !verdicts.is_empty() {
                println!("{}", verdict_table(&verdicts));
            }
        }
        if verdicts.iter().any(|v| !v.kept) {
            fail!("a target is missed");
        }
        Ok(())
    }
}

/// The rounded number as text, without the minus of a zero.
fn rounded(number: f64, decimals: usize) -> String {
    let text = format!("{number:.decimals$}");
    match text.strip_prefix('-') {
        Some(rest) if rest.chars().all(|c| matches!(c, '0' | '.')) => rest.to_owned(),
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    fn sheet() -> Sheet {
        let mut one = Column::new("one");
        one.target("writes", 2, 0.016, Want::AtMost(0.1));
        one.add("hits, %", 1, Figure::missing("it did not start"));
        let mut two = Column::new("two");
        two.add("reads", 0, 12_u64);
        two.target(
            "writes",
            2,
            Figure::each(3.0, 0.0, "no objects"),
            Want::AtMost(0.1),
        );
        two.target("bytes", 3, 1.25, Want::AtLeast(1.5));
        two.target("calls", 0, 1_u64, Want::Near(1.0, 0.0));
        let mut sheet = Sheet::new("a bench");
        sheet.push(one);
        sheet.push(two);
        sheet.note("Measured nowhere.");
        sheet
    }

    #[test]
    fn lines_are_joined_by_title_and_what_is_missing_says_why() {
        expect![[r"
            | a bench |  one |   two |
            | ------- | ---: | ----: |
            | writes  | 0.02 |     - |
            | hits, % |    - |       |
            | reads   |      |    12 |
            | bytes   |      | 1.250 |
            | calls   |      |     1 |

            Measured nowhere.

            No figure:

            * two, writes: no objects
            * one, hits, %: it did not start
        "]]
        .assert_eq(&sheet().render());
        assert_eq!(sheet().json()["figures"]["two"]["reads"], 12.0);
    }

    #[test]
    fn a_target_without_a_figure_is_missed() {
        let kept: Vec<_> = sheet()
            .verdicts()
            .into_iter()
            .map(|v| (v.what, v.kept))
            .collect();
        let expected = [
            ("one: writes", true),
            ("two: writes", false),
            ("two: bytes", false),
            ("two: calls", true),
        ];
        assert_eq!(kept, expected.map(|(what, kept)| (what.to_owned(), kept)));
        assert!(sheet().finish(false).is_err());
    }

    #[test]
    fn nothing_has_no_sign() {
        assert_eq!(rounded(-0.04, 1), "0.0");
        assert_eq!(rounded(-0.06, 1), "-0.1");
        assert_eq!(rounded(12.345, 0), "12");
    }
}
