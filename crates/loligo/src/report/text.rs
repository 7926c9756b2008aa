//! The report for a terminal: tables, and the day's value of every curve; a comparison; the list of measures.
//!
//! Not known here: files, pages.   Limits: none but memory.

use page::{Table, value_text};
use report::Compared;
use report::model::{Form, SourceReport};

use super::draw::{about, cannot_tell, tables, tables_without};
use super::names::{called, figures, is_of_paper};

/// The summary.
pub fn summary(sources: &[SourceReport]) -> String {
    let mut out = String::new();
    for source in sources {
        out += &format!("{}\n", about(source, &called(source)));
    }
    for table in tables(sources) {
        out += &format!("\n{}", table.text());
    }
    out += &format!("\n{}", day(sources).text());
    let notes = [tables_without(sources), cannot_tell(sources)].concat();
    if !notes.is_empty() {
        out += "\nWhat the sources could not tell\n";
        for note in notes {
            out += &format!("- {note}\n");
        }
    }
    out
}

/// The value of each time curve over the whole day, one a line, with its tail if there is one.
fn day(sources: &[SourceReport]) -> Table {
    let mut heads = vec!["figure".to_owned(), "curve".to_owned()];
    for source in sources {
        heads.push(called(source));
        heads.push("p99".to_owned());
    }
    let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
    let mut table = Table::new("Over the day", &heads);
    for figure in figures(sources) {
        if !matches!(figure.form, Form::Lines | Form::Stacked) {
            continue;
        }
        let mut label = if is_of_paper(&figure.id) {
            format!("{} {}, {}", figure.id, figure.title, figure.y.label)
        } else {
            format!("{}, {}", figure.title, figure.y.label)
        };
        for (id, name) in curves(sources, &figure.id) {
            let days = sources.iter().map(|source| {
                let figure = source.figure(&figure.id)?;
                figure.curve(id)?.day.clone()
            });
            let days: Vec<_> = days.collect();
            if days.iter().all(Option::is_none) {
                continue;
            }
            let mut cells = vec![std::mem::take(&mut label), name.to_owned()];
            for day in days {
                let spread = day.as_ref().and_then(|day| day.spread);
                cells.push(day.map_or("-".to_owned(), |day| value_text(day.value)));
                cells.push(spread.map_or(String::new(), |spread| value_text(spread.p99)));
            }
            table.row(cells);
        }
    }
    table
}

/// The curves of a figure, of all sources.
fn curves<'a>(sources: &'a [SourceReport], figure: &str) -> Vec<(&'a str, &'a str)> {
    let mut out: Vec<(&str, &str)> = Vec::new();
    let figures = sources.iter().filter_map(|source| source.figure(figure));
    for curve in figures.flat_map(|figure| &figure.curves) {
        if !out.iter().any(|(id, _)| *id == curve.id) {
            out.push((&curve.id, &curve.name));
        }
    }
    out
}

/// A comparison, with a line for each measure that at least one of the two has.
pub fn compared(a: &str, b: &str, rows: &[Compared]) -> String {
    let heads = [
        "measure",
        "unit",
        a,
        b,
        "difference",
        "quartiles",
        "quartiles ",
    ];
    let mut table = Table::new(&format!("{b} against {a}"), &heads);
    let quartiles =
        |q: Option<[f64; 3]>| q.map_or(String::new(), |q| q.map(value_text).join(" / "));
    for row in rows.iter().filter(|row| row.a.is_some() || row.b.is_some()) {
        let value = |value: Option<f64>| value.map_or("-".to_owned(), value_text);
        let difference = row.difference_percent;
        table.row([
            row.name.clone(),
            row.unit.clone(),
            value(row.a),
            value(row.b),
            difference.map_or(String::new(), |d| format!("{d:+.1} %")),
            quartiles(row.quartiles_a),
            quartiles(row.quartiles_b),
        ]);
    }
    table.text()
}

/// The list of measures: id, unit, name.
pub fn list() -> String {
    let measures = report::measures();
    let widest = measures.iter().map(|measure| measure.id.len()).max();
    let width = widest.unwrap_or(0);
    let line = |measure: &report::Measure| {
        format!(
            "{:<width$}  {:<6}  {}\n",
            measure.id, measure.unit, measure.name
        )
    };
    measures.iter().map(line).collect()
}
