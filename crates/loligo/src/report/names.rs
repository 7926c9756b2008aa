//! The names of sources, figures and tables.
//!
//! Not known here: their content.

use report::model::{Figure, SourceReport, Table};

use super::args::level_name;

/// Name and level.
pub fn called(source: &SourceReport) -> String {
    match source.level {
        Some(level) => format!("{} ({})", source.name, level_name(level)),
        None => source.name.clone(),
    }
}

/// Is this a figure of the paper: `1` to `25`, `24b`?
pub fn is_of_paper(id: &str) -> bool {
    id.starts_with(|c: char| c.is_ascii_digit())
}

/// `Figure 7. Document and byte hit ratio`.
pub fn title(figure: &Figure) -> String {
    if is_of_paper(&figure.id) {
        format!("Figure {}. {}", figure.id, figure.title)
    } else {
        figure.title.clone()
    }
}

pub fn caption(table: &Table) -> String {
    if is_of_paper(&table.id) {
        format!("Table {}. {}", table.id, table.title)
    } else {
        table.title.clone()
    }
}

/// The figures of all sources, in order; each is taken from the first source that has it.
pub fn figures(sources: &[SourceReport]) -> Vec<&Figure> {
    let mut out: Vec<&Figure> = Vec::new();
    for figure in sources.iter().flat_map(|source| &source.figures) {
        if !out.iter().any(|other| other.id == figure.id) {
            out.push(figure);
        }
    }
    out
}
