//! The figures once as plain text, for pipes and files.

use std::fmt::Write as _;

use crate::top::live::Live;
use crate::top::tables::{Kind, summary, table};
use crate::top::words::{harmless, span};

/// The most rows of each table.
const ROWS_MAX: usize = 20;

/// All tables, one below the other.
pub fn text(url: &str, live: &Live) -> String {
    let mut out = format!(
        "Loligo {} at {url}, {} for {}, {} workers\n",
        harmless(&live.version),
        harmless(&live.phase),
        span(live.uptime_s),
        live.workers
    );
    for figures in summary(live) {
        let figures: Vec<_> = figures
            .iter()
            .map(|(name, value)| format!("{name} {value}"))
            .collect();
        out += &figures.join("   ");
        out.push('\n');
    }
    for kind in Kind::shown(Some(live)) {
        let table = table(kind, live, 0);
        let rows = &table.rows[..table.rows.len().min(ROWS_MAX)];
        let _ = writeln!(out, "\n{}\n{}", kind.title(), table.note);
        if rows.is_empty() {
            continue;
        }
        let heads: Vec<String> = table
            .columns
            .iter()
            .map(|head| (*head).to_owned())
            .collect();
        // The name comes last, so that it needs no limit of length.
        for row in [&heads].into_iter().chain(rows) {
            for (at, cell) in row.iter().enumerate().skip(1) {
                let all = rows.iter().chain([&heads]);
                let width = all.map(|row| row[at].chars().count()).max().unwrap_or(0);
                let _ = write!(out, "{cell:>width$}  ");
            }
            out += &row[0];
            out.push('\n');
        }
    }
    out
}
