//! `docs/format.md` and the code say the same.

use store::layout::{self, Field};
use store::{Geometry, Superblock};

const PAGE: &str = include_str!("../../../docs/format.md");

/// The rows of the table under the heading that ends in `(name)`: offset, bytes, name.
fn table(name: &str) -> Vec<(usize, usize, String)> {
    let heading = format!("`{name}`");
    let mut lines = PAGE
        .lines()
        .skip_while(|line| !(line.starts_with('#') && line.contains(&heading)));
    assert!(lines.next().is_some(), "no heading names {heading}");
    lines
        .take_while(|line| !line.starts_with('#'))
        .filter_map(|line| {
            let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
            let [at, len, name, ..] = cells[..] else {
                return None;
            };
            Some((
                at.parse().ok()?,
                len.parse().ok()?,
                name.trim_matches('`').to_string(),
            ))
        })
        .collect()
}

fn check(name: &str, fields: &[Field]) {
    let code: Vec<_> = fields
        .iter()
        .map(|f| (f.at, f.len, f.name.to_lowercase()))
        .collect();
    assert_eq!(table(name), code, "docs/format.md against layout::{name}");
}

#[test]
fn the_page_draws_what_the_code_writes() {
    check("superblock", layout::superblock::FIELDS);
    check("image_header", layout::image_header::FIELDS);
    check("image_marker", layout::image_marker::FIELDS);
    check("image_entry", layout::image_entry::FIELDS);
    check("record", layout::record::FIELDS);
}

#[test]
fn the_page_gives_the_places_of_a_small_store() {
    let geometry = Geometry::plan(4 << 20, 512).unwrap();
    let rows = table("geometry");
    let areas = [
        (
            Superblock::OFFSETS[0],
            Superblock::COPY_BYTES as u64,
            "superblock, first copy",
        ),
        (
            Superblock::OFFSETS[1],
            Superblock::COPY_BYTES as u64,
            "superblock, second copy",
        ),
        (
            geometry.checkpoint_at,
            geometry.checkpoint_bytes,
            "checkpoint area 0",
        ),
        (
            geometry.checkpoint_at + geometry.checkpoint_bytes,
            geometry.checkpoint_bytes,
            "checkpoint area 1",
        ),
        (
            geometry.invalidation_log_at,
            geometry.invalidation_log_bytes,
            "invalidation log",
        ),
        (
            geometry.region_journal_at,
            geometry.region_journal_bytes,
            "region journal",
        ),
        (geometry.data_at, geometry.data_bytes(), "data"),
    ];
    let areas = areas.map(|(at, len, name)| (at as usize, len as usize, name.to_string()));
    assert_eq!(rows, areas);
}
