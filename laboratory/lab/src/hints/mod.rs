//! The trace study of paper 003: how well a front knows what a node holds, and the cost of telling it.
//!
//! ```text
//! stream --> Stream (measured) --\
//!                                 +--> site (a front, a node, hints between them: a run) --> Runs --> figures, tables, statements
//! Setup (the paper's sizes) -----/          '- hinting: registrar and view of crate `hints`
//! ```
//!
//! The code that keeps and sends hints is the accelerator's own. Sizes and periods are the paper's, in proportion to the stream
//! (`stream`). The plots of the paper are lost; the statements of its text are compared with our runs, each *met* or *not met*.
//!
//! Not known here: terminals, files, real time.
//! Source: paper 003, section 4.

mod cache;
mod figures;
mod hinting;
mod printed;
mod setup;
mod site;
mod statements;
mod stream;
mod study;
mod tables;
#[cfg(test)]
mod tests;

pub use stream::{Measure, Stream};

use figures::{Figure, Line, Panel};
use setup::Setup;
use statements::{Statement, Verdict};
use study::Runs;

use crate::paper::report::{Curve, Curves, Report, Rows, Scale, Section};

/// A figure or table of the paper.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Item {
    /// What each choice affects.
    Table1,
    /// Directory and filter, with both ways to register.
    Table2,
    /// Entries of the largest update.
    Figure8,
    /// Entries of all updates.
    Figure9,
    /// Hit ratio when the memory for hints is taken from caches.
    Figure10,
    /// Requests sent to the node.
    Figure11,
    /// False hits over the hint space.
    Figure12,
    /// False hits over the hint space, for each number of functions.
    Figure13,
    /// False hits over the update period.
    Figure14,
    /// Hits over the bound of replacement bursts.
    Figure15,
}

impl Item {
    /// All figures and tables.
    pub const ALL: [Item; 10] = [
        Item::Table1,
        Item::Table2,
        Item::Figure8,
        Item::Figure9,
        Item::Figure10,
        Item::Figure11,
        Item::Figure12,
        Item::Figure13,
        Item::Figure14,
        Item::Figure15,
    ];

    fn figure(self) -> Option<Figure> {
        Some(match self {
            Item::Table1 | Item::Table2 => return None,
            Item::Figure8 => figures::figure8(),
            Item::Figure9 => figures::figure9(),
            Item::Figure10 => figures::figure10(),
            Item::Figure11 => figures::figure11(),
            Item::Figure12 => figures::figure12(),
            Item::Figure13 => figures::figure13(),
            Item::Figure14 => figures::figure14(),
            Item::Figure15 => figures::figure15(),
        })
    }

    /// The item's place in the paper, and the paper's statements about it.
    fn statements(self) -> (&'static str, &'static [Statement]) {
        let place = |title: &'static str| title.split_once(':').map_or(title, |(place, _)| place);
        match (self, self.figure()) {
            (_, Some(figure)) => (place(figure.title), figure.statements),
            (Item::Table2, None) => ("Table 2", statements::TABLE_2),
            (_, None) => ("Table 1", &[]),
        }
    }

    fn setups(self) -> Vec<Setup> {
        match self {
            Item::Table1 => tables::table1_setups(),
            Item::Table2 => tables::table2_setups(),
            _ => {
                let lines = self.figure().map_or(Vec::new(), |figure| figure.lines);
                let runs = lines.into_iter().flat_map(|line| line.runs);
                runs.map(|(_, setup)| setup).collect()
            }
        }
    }

    fn section(self, studied: &[Studied]) -> Section {
        match (self, self.figure()) {
            (Item::Table1, _) => tables::table1(studied),
            (_, Some(figure)) => figure_section(&figure, studied),
            (_, None) => tables::table2(studied),
        }
    }
}

/// A stream and its runs.
#[derive(Debug)]
struct Studied {
    name: String,
    measure: Measure,
    runs: Runs,
}

/// The figures and tables to make, and the runs made so far.
#[derive(Debug)]
pub struct Study {
    items: Vec<Item>,
    setups: Vec<Setup>,
    studied: Vec<Studied>,
}

impl Study {
    /// A study of these figures and tables.
    pub fn new(items: &[Item]) -> Study {
        Study {
            items: items.to_vec(),
            setups: study::once(items.iter().flat_map(|item| item.setups())),
            studied: Vec::new(),
        }
    }

    /// Number of runs over each stream.
    pub fn runs(&self) -> usize {
        self.setups.len()
    }

    /// Makes one run over at most this many requests, to see how long it takes.
    pub fn try_out(&self, stream: &Stream, requests: usize) {
        let requests = requests.min(stream.accesses.len());
        let part = Stream::new(&stream.name, stream.accesses[..requests].to_vec());
        let _ = Runs::make(&part, &self.setups[..1], |_| true);
    }

    /// Makes all runs over a stream. Several threads call `step` with the number of further requests done; if it returns `false`, the study
    /// of this stream ends and leaves the stream out. Returns whether the stream is in the study.
    pub fn add(&mut self, stream: &Stream, step: impl Fn(u64) -> bool + Sync) -> bool {
        let Some(runs) = Runs::make(stream, &self.setups, step) else {
            return false;
        };
        self.studied.push(Studied {
            name: stream.name.clone(),
            measure: stream.measure,
            runs,
        });
        true
    }

    /// All statements of the paper with each stream's verdict; then for each stream how many statements it meets, and
    /// how many there are.
    pub fn claims(&self) -> (Rows, Vec<(String, usize, usize)>) {
        let mut columns = vec!["where", "the paper says", "met if"];
        columns.extend(self.studied.iter().map(|stream| stream.name.as_str()));
        let mut rows = Rows::new("What the paper says of its trace study", &columns);
        let names = self.studied.iter().map(|stream| stream.name.clone());
        let mut met: Vec<_> = names.map(|name| (name, 0, 0)).collect();
        for (place, statements) in self.items.iter().map(|item| item.statements()) {
            for statement in statements {
                let (said, met_if) = statement.parts();
                let verdicts = self.studied.iter().map(|it| (statement.judge)(&it.runs));
                let verdicts: Vec<_> = verdicts.collect();
                for ((_, met, all), verdict) in met.iter_mut().zip(&verdicts) {
                    (*met, *all) = (*met + usize::from(verdict.is_met), *all + 1);
                }
                let words = [place, said, met_if].map(str::to_owned);
                rows.row(words.into_iter().chain(verdicts.iter().map(Verdict::cell)));
            }
        }
        (rows, met)
    }

    /// The report of the study.
    pub fn report(&self) -> Report {
        let mut sections = vec![tables::streams(&self.studied)];
        sections.extend(self.items.iter().map(|item| item.section(&self.studied)));
        Report {
            title: "Web proxy acceleration, again: what hints cost and what they bring".to_owned(),
            sections,
        }
    }
}

fn figure_section(figure: &Figure, studied: &[Studied]) -> Section {
    let mut text = vec![figure.text.to_owned()];
    text.extend(said(figure.statements));
    let mut section = Section {
        name: figure.name.to_owned(),
        title: figure.title.to_owned(),
        text,
        tables: vec![verdicts(figure.statements, studied)],
        plots: Vec::new(),
    };
    for panel in &figure.panels {
        for stream in studied {
            section.tables.push(rows(figure, panel, stream));
            section.plots.push(curves(figure, panel, stream));
        }
    }
    section
}

/// The paper's statements, each with its letter.
fn said(statements: &[Statement]) -> Vec<String> {
    let lines = LETTERS.iter().zip(statements);
    lines
        .map(|(letter, statement)| format!("({letter}) The paper says: {}.", statement.words))
        .collect()
}

/// Letters of statements.
const LETTERS: [char; 6] = ['a', 'b', 'c', 'd', 'e', 'f'];

/// A table of verdicts: a row for each statement, a column for each stream.
fn verdicts(statements: &[Statement], studied: &[Studied]) -> Rows {
    let mut columns = vec!["statement"];
    columns.extend(studied.iter().map(|stream| stream.name.as_str()));
    let mut rows = Rows::new("What the paper says, and what was found", &columns);
    for (letter, statement) in LETTERS.iter().zip(statements) {
        let cell = |stream: &Studied| (statement.judge)(&stream.runs).cell();
        let cells = studied.iter().map(cell);
        rows.row(std::iter::once(format!("({letter})")).chain(cells));
    }
    rows
}

fn caption(panel: &Panel, stream: &Studied) -> String {
    format!("{}, {}", stream.name, panel.caption)
}

fn rows(figure: &Figure, panel: &Panel, stream: &Studied) -> Rows {
    let mut columns = vec![figure.x.label.as_str()];
    columns.extend(figure.lines.iter().map(|line| line.name.as_str()));
    let caption = format!("{} ({})", caption(panel, stream), panel.y);
    let mut rows = Rows::new(&caption, &columns);
    let xs = figure.lines.first().map_or(&[][..], |line| &line.runs);
    for (at, (x, _)) in xs.iter().enumerate() {
        let name = figure.x_names.get(at).cloned();
        let value = |line: &Line| {
            let value = (panel.of)(stream.runs.of(&line.runs[at].1));
            format!("{value:.*}", panel.digits)
        };
        let cells = figure.lines.iter().map(value);
        rows.row(std::iter::once(name.unwrap_or_else(|| x.to_string())).chain(cells));
    }
    rows
}

fn curves(figure: &Figure, panel: &Panel, stream: &Studied) -> Curves {
    let curve = |line: &Line| Curve {
        name: line.name.clone(),
        printed: false,
        points: (line.runs.iter())
            .map(|(x, setup)| (*x, (panel.of)(stream.runs.of(setup))))
            .collect(),
    };
    let is_first = (figure.panels.first()).is_some_and(|first| first.caption == panel.caption);
    let printed = figure.printed.filter(|_| is_first);
    let printed = printed.map_or(Vec::new(), |printed| printed(&stream.runs));
    Curves {
        caption: caption(panel, stream),
        x: figure.x.clone(),
        y: Scale::near(panel.y),
        names: figure.x_names.clone(),
        curves: figure.lines.iter().map(curve).chain(printed).collect(),
        joined: true,
    }
}
