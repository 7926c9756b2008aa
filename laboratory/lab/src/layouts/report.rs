//! The report on layouts: a table for each stream, and plots against how full the store is.

use page::{Axis, Page, Plot, Series, Table};

use super::Findings;
use crate::policies::stream_name;

/// A quantity of a layout.
type Measure = fn(&Findings) -> f64;

/// A table for each stream.
pub fn tables(all: &[(String, Vec<Findings>)]) -> Vec<Table> {
    all.iter()
        .map(|(stream, rows)| table(stream, rows))
        .collect()
}

/// A table with a row for each layout.
pub fn table(stream: &str, rows: &[Findings]) -> Table {
    let columns = [
        "layout",
        "hits (%)",
        "byte hits (%)",
        "memory hits (%)",
        "written / asked",
        "read / asked",
        "mean write (KiB)",
        "written / stored",
        "reads / hit",
        "full (%)",
        "free pieces",
        "refused",
        "insert (µs)",
        "get (µs)",
        "seeking (gets/s)",
        "flash (gets/s)",
        "write amplification (flash)",
    ];
    let mut table = Table::new(&format!("{stream}: layouts of the store"), &columns);
    for row in rows {
        table.row([
            row.layout.clone(),
            format!("{:.1}", row.document_percent()),
            format!("{:.1}", row.byte_percent()),
            format!("{:.1}", row.memory_percent()),
            format!("{:.3}", row.written_per_asked()),
            format!("{:.3}", row.read_per_asked()),
            format!("{:.0}", row.write_bytes_mean() / 1024.0),
            format!("{:.3}", row.written_per_stored()),
            format!("{:.2}", row.reads_per_hit()),
            format!("{:.1}", row.full_percent),
            row.free_pieces.to_string(),
            row.refused.to_string(),
            format!("{:.1}", row.insert_us),
            format!("{:.1}", row.get_us),
            format!("{:.0}", row.seeking_gets_per_s()),
            format!("{:.0}", row.flash_gets_per_s()),
            format!("{:.2}", row.flash_write_amplification()),
        ]);
    }
    table
}

/// The page with tables and plots.
pub fn page(all: &[(String, Vec<Findings>)]) -> Page {
    let mut page = Page::new("Layouts of the store");
    page.text(
        "The production store over a device in memory, a memory cache in front. The first third of the requests fills it and \
         is not counted. Requests a second are what the modelled device would carry, busy all the time.",
    );
    for (stream, rows) in all {
        page.heading(stream);
        let measures: [(&str, &str, &str, Measure); 6] = [
            (
                "hits",
                "hit ratio of the store",
                "percent",
                Findings::document_percent,
            ),
            (
                "written",
                "bytes written for a byte stored",
                "bytes",
                Findings::written_per_stored,
            ),
            ("write-size", "mean device write", "KiB", |row| {
                row.write_bytes_mean() / 1024.0
            }),
            (
                "seeking",
                "what a seeking disk would carry",
                "requests a second",
                Findings::seeking_gets_per_s,
            ),
            (
                "flash",
                "what a flash device would carry",
                "requests a second",
                Findings::flash_gets_per_s,
            ),
            (
                "amplification",
                "write amplification of flash",
                "bytes programmed for a byte written",
                Findings::flash_write_amplification,
            ),
        ];
        let lru = |row: &&Findings| row.layout.starts_with("lru, ") && row.layout.ends_with("full");
        for (name, caption, unit, measure) in measures {
            let points = rows
                .iter()
                .filter(lru)
                .map(|row| (row.full_percent, measure(row)));
            let points: Vec<_> = points.collect();
            let x = Axis::linear("store in use (%)")
                .without_zero()
                .showing(100.0);
            let y = Axis::linear(unit);
            // With an axis from 0, curves that differ by a few points would look like one line.
            let y = match name {
                "hits" => y.without_zero(),
                "written" => y.without_zero().showing(1.0),
                _ => y,
            };
            let short = stream_name(stream);
            let mut plot = Plot::new(&format!("{short}: {caption}"), x, y)
                .called(&format!("layouts-{short}-{name}"));
            if let Some(usual) = rows.iter().find(|row| row.layout == "default") {
                let ends = points.first().into_iter().chain(points.last());
                let level = ends.map(|point| (point.0, measure(usual)));
                plot = plot.with(Series::dashes("second-chance (default)", level.collect()));
            }
            page.plot(&plot.with(Series::line("lru", points)));
        }
        page.table(&table(stream, rows));
    }
    page
}
