//! `docs/format.md` and the code say the same.

use store::layout::{self, Field};
use store::{Geometry, Superblock};

const PAGE: &str = include_str!("../../../../docs/format.md");

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
    check("checkpoint_list", layout::checkpoint_list::FIELDS);
    check("checkpoint_soft", layout::checkpoint_soft::FIELDS);
    check("record_marker", layout::record_marker::FIELDS);
    check("region_journal_page", layout::region_journal_page::FIELDS);
    check("checkpoint_header", layout::checkpoint_header::FIELDS);
    check("checkpoint_block", layout::checkpoint_block::FIELDS);
    check("checkpoint_part", layout::checkpoint_part::FIELDS);
    check("log_page", layout::log_page::FIELDS);
    check("log_key", layout::log_key::FIELDS);
    check("log_matching", layout::log_matching::FIELDS);
    check("predicates", layout::predicates::FIELDS);
    check("predicate", layout::predicate::FIELDS);
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

#[test]
fn the_page_gives_the_regions_of_some_stores() {
    let rows = table("regions");
    assert!(rows.len() >= 5);
    for (mib, region_bytes, regions) in rows {
        let mib = mib as u64;
        let chunk_bytes = [512, 65536][usize::from(mib > 2 << 20)];
        let geometry = Geometry::plan(mib << 20, chunk_bytes).unwrap();
        assert_eq!(geometry.region_bytes(), region_bytes as u64, "{mib} MiB");
        assert_eq!(geometry.regions().to_string(), regions, "{mib} MiB");
    }
}
