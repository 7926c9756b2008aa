//! `loligo store inspect`: the state of a store, and how a start would go. The secret is never shown.

use std::fmt::Write as _;

use proxy::stored::predicate_name;
use serde_json::{Value, json};
use store::{CheckpointSummary, Figures, State, Superblock};

use super::args::InspectFlags;
use super::opened::ReadStore;
use super::output::{Failure, say};
use super::show;

pub fn inspect(flags: &InspectFlags) -> Result<(), Failure> {
    let store = ReadStore::open(&flags.path, false)?;
    if flags.json {
        say(as_json(&store))
    } else {
        say(as_text(&store, &flags.path.display().to_string()).trim_end())
    }
}

/// A UUID as digits in groups of 8-4-4-4-12.
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
        "version": superblock.version,
        "uuid": uuid(&superblock.uuid),
        "state": state(superblock.state),
        "epoch": superblock.epoch,
        "generation": superblock.generation,
        "accept_from": superblock.accept_from,
        "policy": if superblock.policy == 0 { "second-chance" } else { "ordered" },
        "geometry": layout(superblock),
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
                "matching": log.matching.iter().map(|(kind, n)| (predicate_name(*kind).to_owned(), json!(n)))
                    .collect::<serde_json::Map<_, _>>(),
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
        "space": space(store).map(|figures| json!({
            "records": figures.records,
            "live_bytes": figures.live_bytes,
            "dead_bytes": figures.dead_bytes,
            "never_written_bytes": figures.never_written_bytes,
        })),
        "start": {
            "words": recovered.words,
            "records": recovered.records,
            "markers": store.inspection.figures().markers,
            "scan_bytes": recovered.scan_bytes,
            "empty": recovered.empty,
        },
    })
}

fn layout(superblock: &Superblock) -> Value {
    let geometry = &superblock.geometry;
    json!({
        "total_bytes": geometry.total_bytes,
        "chunk_bytes": geometry.chunk_bytes,
        "data_at": geometry.data_at,
        "data_bytes": geometry.data_bytes(),
        "regions": geometry.regions(),
        "region_bytes": geometry.region_bytes(),
        "fragment_bytes": superblock.fragment_bytes,
        "checkpoint_bytes": geometry.checkpoint_bytes,
        "log_bytes": geometry.invalidation_log_bytes,
        "journal_bytes": geometry.region_journal_bytes,
    })
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
            "uuid {}, format version {}",
            uuid(&superblock.uuid),
            superblock.version
        ),
    );
    let left = match superblock.state {
        State::Clean => "clean: its proxy stopped in order",
        State::Open => "open: never used, or its proxy was killed or lost power",
    };
    row("state", left.to_owned());
    let emptied = match superblock.epoch {
        0 | 1 => "never emptied since it was made".to_owned(),
        epoch => format!("emptied {} since it was made", times(epoch - 1)),
    };
    row("", emptied);
    let size = format!(
        "{}, {} of it for objects, from byte {}",
        show::size(geometry.total_bytes),
        show::size(geometry.data_bytes()),
        geometry.data_at
    );
    row("size", size);
    row(
        "",
        format!(
            "chunks of {} bytes, {} regions of {}",
            geometry.chunk_bytes,
            geometry.regions(),
            show::size(geometry.region_bytes())
        ),
    );
    row("", in_one_read(superblock.fragment_bytes));
    if let Some(figures) = space(store) {
        row("space", in_words(&figures));
    }
    let policy = match superblock.policy {
        0 => "by place: room is made region by region, in the order of writing",
        _ => "room is made object by object; by which rule the proxy's settings say",
    };
    row("policy", policy.to_owned());
    if superblock.set_uuid != [0; 16] {
        row(
            "set",
            format!(
                "member of {}, started {}",
                uuid(&superblock.set_uuid),
                times(superblock.set_generation)
            ),
        );
    }
    row("checkpoint", checkpoint(store));
    row("purges", log(store));
    row("regions", journal(store));
    row("a start", recovered.words.clone());
    let markers = store.inspection.figures().markers;
    if markers > 0 {
        row("", format!("{} with variants", show::count(markers, "URL")));
    }
    if recovered.scan_bytes > 0 {
        row("", format!("{} to scan", show::size(recovered.scan_bytes)));
    }
    out
}

fn in_one_read(fragment_bytes: u32) -> String {
    let most = show::size(fragment_bytes.into());
    format!("objects of up to {most} in one read, longer ones in pieces")
}

fn in_words(figures: &Figures) -> String {
    format!(
        "{} live in {}, {} dead, {} never written",
        show::size(figures.live_bytes),
        show::count(figures.records, "record"),
        show::size(figures.dead_bytes),
        show::size(figures.never_written_bytes)
    )
}

/// The figures of the data area; `None` if a start would first have to scan regions.
fn space(store: &ReadStore) -> Option<Figures> {
    let all_known = store.inspection.recovery().is_none();
    all_known.then(|| store.inspection.figures())
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
            let size = show::size(place.bytes);
            format!("the index as it was written last, {size}{left_out}")
        }
        (Some(_), Some(Err(error))) => {
            format!("of no use: {error}; a start reads the records instead")
        }
        _ => "none yet: a start reads the records".into(),
    }
}

fn log(store: &ReadStore) -> String {
    let log = match &store.summary.log {
        Ok(log) => log,
        Err(error) => {
            return format!(
                "of no use: {error}; nobody knows what was purged, so a start empties the store"
            );
        }
    };
    let mut kinds = vec![show::count(log.keys, "URL")];
    for (&kind, &n) in &log.matching {
        kinds.push(show::count(n, &predicate_name(kind).replace('-', " ")));
    }
    if log.doubts > 0 {
        kinds.push(format!("{} made stale", log.doubts));
    }
    if log.replaced > 0 {
        kinds.push(show::count(log.replaced, "replaced object"));
    }
    let mut text = format!("not to come back: {}", kinds.join(", "));
    if !log.whole {
        text.push_str("; a page is missing: what is older than it may count as purged");
    }
    text
}

fn journal(store: &ReadStore) -> String {
    let journal = &store.summary.journal;
    let mut text = format!("{} of {} written to", journal.opened, journal.regions);
    if let (Some(oldest), Some(newest)) = (journal.oldest, journal.newest) {
        let _ = write!(text, ", number {} longest ago, {} last", oldest.0, newest.0);
    }
    if journal.unknown > 0 {
        let _ = write!(
            text,
            "; of {} nothing is known, for a page is damaged: a start takes them as empty",
            journal.unknown
        );
    }
    text
}

/// `once`, `3 times`.
fn times(n: u64) -> String {
    match n {
        0 => "never".to_owned(),
        1 => "once".to_owned(),
        n => format!("{n} times"),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_kind_of_purge_has_a_name() {
        let names = [1, 2, 4, 5].map(super::predicate_name);
        assert_eq!(names, ["prefix", "tag", "soft-prefix", "soft-tag"]);
        let counted = |n| names.map(|name| super::show::count(n, &name.replace('-', " ")));
        assert_eq!(
            counted(1),
            ["1 prefix", "1 tag", "1 soft prefix", "1 soft tag"]
        );
        assert_eq!(
            counted(2),
            ["2 prefixes", "2 tags", "2 soft prefixes", "2 soft tags"]
        );
    }
}
