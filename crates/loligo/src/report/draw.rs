//! The page: sources, tables, gaps in the data, figures, all measures. Texts and tables are used on the terminal, too.
//!
//! Not known here: how a figure becomes a chart (`chart`).

use page::{Page, Table, utc_text, value_text};
use report::model::{self, SourceReport};

use super::chart::{Layout, chart};
use super::names::{called, caption, figures, is_of_paper};

/// The whole page.
pub fn page(sources: &[SourceReport], layout: Layout) -> Page {
    let names: Vec<String> = sources.iter().map(called).collect();
    let mut page = Page::new(&format!("Report: {}", names.join(", ")));
    page.with_contents();
    for (source, name) in sources.iter().zip(&names) {
        page.text(&about(source, name));
    }
    for id in ids_of_tables(sources) {
        if let Some(table) = table(id, sources) {
            page.table(&table);
        }
        for why in why_empty(id, sources) {
            page.text(&why);
        }
    }
    let notes = cannot_tell(sources);
    if !notes.is_empty() {
        page.heading("What the sources could not tell");
        page.list(&notes);
    }
    page.heading("The figures of the paper");
    let mut is_ours = false;
    for figure in figures(sources) {
        if !is_ours && !is_of_paper(&figure.id) {
            is_ours = true;
            page.heading("Besides the paper");
        }
        page.chart(&chart(&figure.id, sources, layout));
    }
    page.heading("All measures");
    page.folded("The numbers", &[measures(sources)]);
    page
}

/// The source in a sentence.
pub fn about(source: &SourceReport, name: &str) -> String {
    let seconds = |us: u64| us as f64 / 1e6;
    if source.requests == 0 {
        return format!("{name}: no requests.");
    }
    let idle = source.slots.iter().filter(|slot| slot.is_idle).count();
    let mut out = format!(
        "{name}: {} requests from {} to {} UTC, in {} slots of {}",
        grouped(source.requests),
        utc_text(seconds(source.began_unix_us).floor()),
        utc_text(seconds(source.ended_unix_us).floor()),
        source.slots.len(),
        span_text(seconds(source.slot_us)),
    );
    if idle > 0 {
        out += &format!(", {idle} of them idle (grey, not in the medians of the day)");
    }
    out + "."
}

/// A number with commas between thousands.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (n, digit) in digits.chars().enumerate() {
        if n > 0 && (digits.len() - n).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

fn span_text(seconds: f64) -> String {
    if seconds >= 60.0 && seconds % 60.0 == 0.0 {
        format!("{} min", value_text(seconds / 60.0))
    } else {
        format!("{} s", value_text(seconds))
    }
}

/// Tables with the sources as columns.
pub fn tables(sources: &[SourceReport]) -> Vec<Table> {
    let ids = ids_of_tables(sources).into_iter();
    ids.filter_map(|id| table(id, sources)).collect()
}

fn ids_of_tables(sources: &[SourceReport]) -> Vec<&str> {
    let mut ids: Vec<&str> = Vec::new();
    for table in sources.iter().flat_map(|source| &source.tables) {
        if !ids.contains(&table.id.as_str()) {
            ids.push(&table.id);
        }
    }
    ids
}

/// One table with the sources as columns; `None` if no source has a row of it.
fn table(id: &str, sources: &[SourceReport]) -> Option<Table> {
    let of = |source: &SourceReport| source.tables.iter().find(|table| table.id == id).cloned();
    let columns: Vec<Option<model::Table>> = sources.iter().map(of).collect();
    let has_facts = |table: &&model::Table| !table.facts.is_empty();
    let first = columns.iter().flatten().find(has_facts)?;
    let caption = caption(first);
    let names: Vec<String> = sources.iter().map(called).collect();
    let mut heads = vec![""];
    heads.extend(names.iter().map(String::as_str));
    let mut facts: Vec<&str> = Vec::new();
    for fact in columns.iter().flatten().flat_map(|table| &table.facts) {
        if !facts.contains(&fact.name.as_str()) {
            facts.push(&fact.name);
        }
    }
    let mut out = Table::new(&caption, &heads);
    for name in facts {
        let value = |table: &Option<model::Table>| {
            let fact = table
                .as_ref()
                .and_then(|t| t.facts.iter().find(|f| f.name == name));
            fact.map_or("-".to_owned(), |fact| fact.value.clone())
        };
        out.row(std::iter::once(name.to_owned()).chain(columns.iter().map(value)));
    }
    Some(out)
}

/// A sentence for each table and source without data.
pub fn tables_without(sources: &[SourceReport]) -> Vec<String> {
    let ids = ids_of_tables(sources).into_iter();
    ids.flat_map(|id| why_empty(id, sources)).collect()
}

/// Why a table has no data of a source, and what would provide it: a sentence for each such source.
fn why_empty(id: &str, sources: &[SourceReport]) -> Vec<String> {
    let of = |source: &SourceReport| {
        let table = source.tables.iter().find(|table| table.id == id)?;
        let why = table.not_recorded.as_ref()?;
        Some(format!("{}: {}: {why}", called(source), caption(table)))
    };
    sources.iter().filter_map(of).collect()
}

/// Notes and troubles, in sentences.
pub fn cannot_tell(sources: &[SourceReport]) -> Vec<String> {
    let mut out = Vec::new();
    for source in sources {
        let name = called(source);
        out.extend(source.notes.iter().map(|note| format!("{name}: {note}")));
        let troubles = &source.troubles;
        if troubles.count > 0 {
            let more = troubles.count.saturating_sub(troubles.first.len() as u64);
            let more = if more > 0 {
                format!("; and {more} more")
            } else {
                String::new()
            };
            out.push(format!(
                "{name}: {} places could not be used, the rest was: {}{more}",
                troubles.count,
                troubles.first.join("; ")
            ));
        }
    }
    out
}

/// All measures, with the quartiles over the slots.
pub fn measures(sources: &[SourceReport]) -> Table {
    let mut heads = vec!["measure".to_owned(), "unit".to_owned()];
    for source in sources {
        heads.push(called(source));
        heads.push("quartiles of the slots".to_owned());
    }
    let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
    let mut table = Table::new("", &heads);
    let Some(first) = sources.first() else {
        return table;
    };
    for measured in &first.measures {
        let mut cells = vec![measured.name.clone(), measured.unit.clone()];
        for source in sources {
            let here = source.measure(&measured.id);
            cells.push(
                here.and_then(|m| m.value)
                    .map_or("-".to_owned(), value_text),
            );
            let quartiles = here.and_then(|m| m.quartiles);
            cells.push(quartiles.map_or(String::new(), |q| q.map(value_text).join(" / ")));
        }
        table.row(cells);
    }
    table
}
