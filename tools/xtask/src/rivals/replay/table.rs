//! The table of a replay, for a terminal and for a page.

use super::run::Outcome;
use super::{Found, Size};
use crate::bench::table::Table;

/// The tables of all sizes, and the contestants that could not run.
pub fn text(found: &Found<'_>) -> String {
    let mut text = String::new();
    for size in &found.sizes {
        text.push_str(&format!(
            "\n{}, versions {}: {} requests, objects of {}; memory {}, disk {} ({} %)\n\n",
            found.trace,
            found.versions,
            found.requests,
            mebibytes(found.object_bytes),
            mebibytes(size.memory_bytes),
            mebibytes(size.disk_bytes),
            size.disk_percent,
        ));
        text.push_str(&table(size).render());
    }
    if !found.not_installed.is_empty() {
        text.push_str(&format!(
            "\nnot installed: {}\n",
            found.not_installed.join(", ")
        ));
    }
    text
}

fn table(size: &Size) -> Table {
    let mut table = Table::new([
        "proxy",
        "objects hit %",
        "bytes hit %",
        "written/asked",
        "read/asked",
        "from origin",
        "disk used",
        "failed",
        "wrong",
        "s",
    ]);
    for run in &size.runs {
        let played = match &run.outcome {
            Outcome::Played(played) => played,
            Outcome::Failed(why) => {
                // The log's last lines are in the file.
                let why = why.lines().next().unwrap_or_default();
                table.row([run.name.clone(), format!("failed: {why}")]);
                continue;
            }
        };
        let report = &played.report;
        let asked = report.counted.bytes.max(1) as f64;
        let per_byte = |bytes: Option<u64>| {
            bytes.map_or(String::new(), |bytes| {
                format!("{:.3}", bytes as f64 / asked)
            })
        };
        let device = report.counted.device;
        table.row([
            run.name.clone(),
            format!("{:.1}", report.object_hit_percent()),
            format!("{:.1}", report.byte_hit_percent()),
            per_byte(device.map(|it| it.written)),
            per_byte(device.map(|it| it.read)),
            mebibytes(report.counted.origin.bytes),
            played.disk_used_max.map_or("-".to_owned(), mebibytes),
            report.failed().to_string(),
            report.wrong().to_string(),
            format!("{:.0}", report.warming.seconds + report.counted.seconds),
        ]);
    }
    table
}

fn mebibytes(bytes: u64) -> String {
    format!("{:.0} MiB", bytes as f64 / f64::from(1 << 20))
}
