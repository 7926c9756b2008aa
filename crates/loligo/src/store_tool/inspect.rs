//! `loligo store inspect`: what a store says of itself, and how a start would go. The secret is never shown.

use std::fmt::Write as _;

use serde_json::{Value, json};
use store::{CheckpointSummary, FORMAT_VERSION, State};

use super::args::InspectFlags;
use super::opened::ReadStore;
use super::{Failure, say, show};

pub fn inspect(flags: &InspectFlags) -> Result<(), Failure> {
    let store = ReadStore::open(&flags.path, false)?;
    if flags.json {
        say(as_json(&store))
    } else {
        say(as_text(&store, &flags.path.display().to_string()).trim_end())
    }
}

/// 8-4-4-4-12.
fn uuid(bytes: &[u8; 16]) -> String {
    let digits = show::hex(bytes);
    let parts = [0..8, 8..12, 12..16, 16..20, 20..32].map(|part| &digits[part]);
    parts.join("-")
}

fn state(state: State) -> &'static str {
    match state {
        State::Clean => "clean",
        State::Open => "open",
    }
}

fn as_json(store: &ReadStore) -> Value {
    let superblock = store.inspection.superblock();
    let geometry = &superblock.geometry;
    let summary = &store.summary;
    let recovered = store.inspection.recovered();
    let in_set = superblock.set_uuid != [0; 16];
    let checkpoint = |summary: &CheckpointSummary| {
        json!({
            "generation": summary.generation,
            "covers": summary.covers,
            "ended": summary.ended,
            "left_out": summary.left_out,
        })
    };
    let region = |region: Option<(u32, u64)>| {
        region.map(|(region, sequence)| json!({ "region": region, "opened_at": sequence }))
    };
    json!({
        "version": FORMAT_VERSION,
        "uuid": uuid(&superblock.uuid),
        "state": state(superblock.state),
        "epoch": superblock.epoch,
        "generation": superblock.generation,
        "accept_from": superblock.accept_from,
        "policy": if superblock.policy == 0 { "second-chance" } else { "ordered" },
        "geometry": {
            "total_bytes": geometry.total_bytes,
            "chunk_bytes": geometry.chunk_bytes,
            "data_at": geometry.data_at,
            "data_bytes": geometry.data_bytes(),
            "regions": geometry.regions(),
            "region_bytes": geometry.region_bytes(),
            "checkpoint_bytes": geometry.checkpoint_bytes,
            "log_bytes": geometry.invalidation_log_bytes,
            "journal_bytes": geometry.region_journal_bytes,
        },
        "set": in_set.then(|| json!({
            "uuid": uuid(&superblock.set_uuid),
            "generation": superblock.set_generation,
            "placement": format!("{:016x}", superblock.placement),
        })),
        "checkpoint": superblock.index.map(|place| json!({
            "offset": place.offset,
            "bytes": place.bytes,
            "content": summary.checkpoint.as_ref().and_then(|read| read.as_ref().ok()).map(checkpoint),
            "error": summary.checkpoint.as_ref().and_then(|read| read.as_ref().err()),
        })),
        "log": match &summary.log {
            Ok(log) => json!({
                "pages": log.pages,
                "whole": log.whole,
                "horizon": log.horizon,
                "keys": log.keys,
                "matching": log.matching.iter().map(|(kind, n)| (predicate(*kind), json!(n)))
                    .collect::<serde_json::Map<_, _>>(),
                "markers": log.markers,
                "doubts": log.doubts,
                "replaced": log.replaced,
            }),
            Err(error) => json!({ "error": error }),
        },
        "journal": {
            "regions": summary.journal.regions,
            "opened": summary.journal.opened,
            "unknown": summary.journal.unknown,
            "oldest": region(summary.journal.oldest),
            "newest": region(summary.journal.newest),
        },
        "start": {
            "words": recovered.words,
            "records": recovered.records,
            "scan_bytes": recovered.scan_bytes,
            "empty": recovered.empty,
        },
    })
}

/// Kinds of predicates are the proxy's.
fn predicate(kind: u8) -> String {
    match kind {
        1 => "prefix".into(),
        2 => "tag".into(),
        _ => format!("kind {kind}"),
    }
}

fn as_text(store: &ReadStore, path: &str) -> String {
    let superblock = store.inspection.superblock();
    let geometry = &superblock.geometry;
    let recovered = store.inspection.recovered();
    let mut out = String::new();
    let mut row = |name: &str, text: String| {
        let _ = writeln!(out, "{name:<11}{text}");
    };
    row("store", path.to_owned());
    row(
        "",
        format!(
            "uuid {}, format version {FORMAT_VERSION}",
            uuid(&superblock.uuid)
        ),
    );
    let left = match superblock.state {
        State::Clean => "clean: stopped in order",
        State::Open => "open: never used, or not stopped in order",
    };
    row("state", left.to_owned());
    row(
        "",
        format!(
            "epoch {}, generation {}",
            superblock.epoch, superblock.generation
        ),
    );
    row(
        "size",
        format!(
            "{}, {} of it for objects, from byte {}",
            show::size(geometry.total_bytes),
            show::size(geometry.data_bytes()),
            geometry.data_at
        ),
    );
    row(
        "",
        format!(
            "chunks of {} bytes, {} regions of {}",
            geometry.chunk_bytes,
            geometry.regions(),
            show::size(geometry.region_bytes())
        ),
    );
    let policy = match superblock.policy {
        0 => "second-chance",
        _ => "one that evicts record by record; which one the proxy's settings say",
    };
    row("policy", policy.to_owned());
    if superblock.set_uuid != [0; 16] {
        row(
            "set",
            format!(
                "{}, generation {}, placement {:016x}",
                uuid(&superblock.set_uuid),
                superblock.set_generation,
                superblock.placement
            ),
        );
    }
    row("checkpoint", checkpoint(store));
    row("log", log(store));
    row("journal", journal(store));
    row("a start", recovered.words.clone());
    if recovered.scan_bytes > 0 {
        row("", format!("{} to scan", show::size(recovered.scan_bytes)));
    }
    out
}

fn checkpoint(store: &ReadStore) -> String {
    let place = store.inspection.superblock().index;
    match (place, &store.summary.checkpoint) {
        (Some(place), Some(Ok(read))) => {
            let left_out = match read.left_out {
                0 => String::new(),
                n => format!(
                    ", {} left out for want of room",
                    show::count(n.into(), "part")
                ),
            };
            format!(
                "generation {}, covers all up to sequence {}, {}{left_out}",
                read.generation,
                read.covers,
                show::size(place.bytes)
            )
        }
        (Some(_), Some(Err(error))) => format!("of no use: {error}"),
        _ => "none yet".into(),
    }
}

fn log(store: &ReadStore) -> String {
    let log = match &store.summary.log {
        Ok(log) => log,
        Err(error) => return format!("of no use: {error}"),
    };
    let mut kinds = vec![show::count(log.keys, "URL")];
    for (&kind, &n) in &log.matching {
        kinds.push(format!("{n} by {}", predicate(kind)));
    }
    kinds.push(show::count(log.markers, "marker"));
    if log.doubts > 0 {
        kinds.push(format!("{} made stale", log.doubts));
    }
    if log.replaced > 0 {
        kinds.push(format!("{} replaced", log.replaced));
    }
    let whole = if log.whole { "" } else { ", a page is missing" };
    format!(
        "{}: {}; complete above sequence {}{whole}",
        show::count(log.pages, "page"),
        kinds.join(", "),
        log.horizon
    )
}

fn journal(store: &ReadStore) -> String {
    let journal = &store.summary.journal;
    let mut text = format!("{} of {} regions opened", journal.opened, journal.regions);
    if let (Some(oldest), Some(newest)) = (journal.oldest, journal.newest) {
        let _ = write!(
            text,
            ", the oldest {} (sequence {}), the newest {} (sequence {})",
            oldest.0, oldest.1, newest.0, newest.1
        );
    }
    if journal.unknown > 0 {
        let _ = write!(text, "; {} unknown: a page is damaged", journal.unknown);
    }
    text
}
