//! What a [`Study`] says, as tables.

use page::Table;

use super::Study;
use crate::policies::size_text;

/// A column for each size, a row for each cache.
pub fn tables(studies: &[Study]) -> Vec<Table> {
    let Some(first) = studies.first() else {
        return Vec::new();
    };
    let set = size_text(first.working_set_bytes);
    let mut columns = vec!["cache".to_owned()];
    for study in studies {
        let share = study.cache_bytes as f64 / study.working_set_bytes.max(1) as f64;
        columns.push(format!("{} ({share:.2})", size_text(study.cache_bytes)));
    }
    let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
    let table = |what: &str, cell: &dyn Fn(&Study, usize) -> String| {
        let mut table = Table::new(&format!("PolyMix, working set {set}: {what}"), &columns);
        for (at, row) in first.rows.iter().enumerate() {
            let cells = studies.iter().map(|study| cell(study, at));
            table.row(std::iter::once(row.name.clone()).chain(cells));
        }
        table
    };
    let mut room = Table::new("What the store has of that", &columns);
    type Value = fn(&Study) -> f64;
    let rows: [(&str, Value); 3] = [
        ("for records (%)", |study| {
            100.0 * study.data_bytes as f64 / study.cache_bytes as f64
        }),
        ("of it empty to write into (%)", |study| {
            100.0 * study.empty_bytes as f64 / study.cache_bytes as f64
        }),
        ("bytes for a byte of body", |study| study.space_per_body),
    ];
    for (name, value) in rows {
        let cells = studies.iter().map(|study| format!("{:.2}", value(study)));
        room.row(std::iter::once(name.to_owned()).chain(cells));
    }
    vec![
        table("documents (%)", &|study, at| {
            format!("{:.1}", study.rows[at].documents_percent)
        }),
        table("bytes (%)", &|study, at| {
            format!("{:.1}", study.rows[at].bytes_percent)
        }),
        table("written", &|study, at| {
            format!("{:.2}", study.rows[at].written)
        }),
        room,
    ]
}
