//! `loligo store verify`: every record is read from the disk, past the page cache, and checked in full.
//!
//! One thread reads windows of neighbouring records in the order of their places, another verifies them. A record is damaged if
//! it cannot be read; if its MAC, epoch, place, lengths, checksum or padding is wrong; if the index does not lead to it; or if its
//! key does not match its hash. An object is damaged if the lengths of its fragments do not add up to its own.
//!
//! Only counted: records that were purged and not yet overwritten, and objects of which fragments were evicted.
//!
//! Limits: [`LISTED_MAX`] damaged records are named; two windows are read ahead.

use std::collections::HashMap;
use std::sync::mpsc;
use std::time::Instant;

use bytes::Bytes;
use proxy::stored::{fragment_key, hash_of_key};
use serde_json::{Value, json};
use store::{Corrupt, KeyHash, ObjectTotal, Place, RecordParts};

use super::args::VerifyFlags;
use super::opened::ReadStore;
use super::output::{Failure, say};
use super::show;
use super::stored::Key;

/// Bytes of one read, unless a record is longer.
const WINDOW_BYTES: u64 = 4 << 20;
/// A gap up to this length is read through instead of beginning another read.
const GAP_BYTES: u64 = 256 << 10;
/// The most windows that are read and not yet verified.
const AHEAD_MAX: usize = 2;
/// The most damaged records that are named.
const LISTED_MAX: usize = 1000;
/// The most fragmented objects that are checked as a whole; of further ones, only the single fragments are checked.
const OBJECTS_MAX: usize = 1_000_000;

#[derive(Default)]
struct Report {
    records: u64,
    bytes: u64,
    objects: u64,
    fragments: u64,
    purged: u64,
    incomplete: u64,
    damaged: u64,
    listed: Vec<Damaged>,
    audit: Option<String>,
    seconds: f64,
}

struct Damaged {
    offset: u64,
    len: usize,
    reason: String,
    /// The URL in the record, if it can still be read.
    url: Option<String>,
}

/// Heads and fragments found so far.
#[derive(Default)]
struct Fragmented {
    /// Key and fragments of each.
    heads: Vec<(Bytes, ObjectTotal)>,
    /// Lengths of the bodies of whole fragments.
    fragments: HashMap<KeyHash, u64>,
}

/// Neighbouring records and their bytes, which begin at `start`.
struct Window {
    start: u64,
    places: Vec<Place>,
    bytes: Result<Bytes, device::IoFault>,
}

pub fn verify(flags: &VerifyFlags) -> Result<(), Failure> {
    let store = ReadStore::open_whole(&flags.path, true)?;
    let report = check(&store);
    if flags.json {
        say(report.as_json())?;
    } else {
        say(report.as_text().trim_end())?;
    }
    if report.is_well() {
        return Ok(());
    }
    let what = show::count(report.damaged, "damaged record");
    Err(Failure::wanting(format!(
        "{}: {what}; a proxy drops each when it comes upon it, and fetches it anew",
        flags.path.display()
    )))
}

fn check(store: &ReadStore) -> Report {
    let places = store.inspection.places();
    let total = places
        .iter()
        .map(|&place| store.inspection.len(place) as u64)
        .sum();
    let bar = show::Bar::new("verify", total);
    let start = Instant::now();
    let mut report = Report {
        audit: store.inspection.audit().err(),
        ..Report::default()
    };
    let mut fragmented = Fragmented::default();
    std::thread::scope(|scope| {
        let (sender, windows) = mpsc::sync_channel(AHEAD_MAX);
        scope.spawn(|| read_all(store, &places, sender));
        for window in windows {
            check_window(store, window, &mut report, &mut fragmented);
            bar.at(report.bytes);
        }
    });
    check_objects(store, &mut report, &fragmented);
    report.seconds = start.elapsed().as_secs_f64();
    report
}

fn read_all(store: &ReadStore, mut places: &[Place], windows: mpsc::SyncSender<Window>) {
    let inspection = &store.inspection;
    let end_of = |place: Place| inspection.offset(place) + inspection.len(place) as u64;
    while let Some(&first) = places.first() {
        let start = inspection.offset(first);
        let mut end = end_of(first);
        let mut count = 1;
        for &place in &places[1..] {
            // Small gaps are read, too: they cost less than another read.
            let near = inspection.offset(place) <= end + GAP_BYTES;
            if !near || end_of(place) > start + WINDOW_BYTES {
                break;
            }
            end = end.max(end_of(place));
            count += 1;
        }
        let (these, rest) = places.split_at(count);
        places = rest;
        let window = Window {
            start,
            places: these.to_vec(),
            bytes: store.read(start, (end - start) as usize),
        };
        if windows.send(window).is_err() {
            return;
        }
    }
}

fn check_window(store: &ReadStore, window: Window, report: &mut Report, all: &mut Fragmented) {
    let inspection = &store.inspection;
    for &place in &window.places {
        let (offset, len) = (inspection.offset(place), inspection.len(place));
        let bytes = match &window.bytes {
            Ok(bytes) => {
                let from = (offset - window.start) as usize;
                Ok(bytes.slice(from..from + len))
            }
            // Perhaps only one record of the window cannot be read.
            Err(_) => store.read(offset, len),
        };
        report.records += 1;
        report.bytes += len as u64;
        let reason = match &bytes {
            Err(fault) => fault.to_string(),
            Ok(bytes) => match inspection.decode(place, bytes) {
                Ok((hash, parts)) if hash_of_key(inspection.hasher(), &parts.key) == hash => {
                    all.take(hash, parts, report);
                    continue;
                }
                Ok(_) => Corrupt::Hash.to_string(),
                Err(Corrupt::Invalidated) => {
                    report.purged += 1;
                    continue;
                }
                Err(corrupt) => corrupt.to_string(),
            },
        };
        let url = bytes.ok().and_then(|bytes| url_of(store, place, &bytes));
        report.damage(offset, len, reason, url);
    }
}

impl Fragmented {
    fn take(&mut self, hash: KeyHash, parts: RecordParts, report: &mut Report) {
        if parts.fragment.is_some() {
            report.fragments += 1;
            self.fragments.insert(hash, parts.body.len() as u64);
        } else {
            report.objects += 1;
        }
        if let Some(total) = parts.total
            && self.heads.len() < OBJECTS_MAX
        {
            // A copy, because a slice would keep the whole window in memory.
            self.heads.push((Bytes::copy_from_slice(&parts.key), total));
        }
    }
}

fn check_objects(store: &ReadStore, report: &mut Report, all: &Fragmented) {
    let inspection = &store.inspection;
    let hasher = inspection.hasher();
    for (key, total) in &all.heads {
        let bodies = (0..total.fragments).map(|number| {
            let hash = hasher.hash(&fragment_key(key, total.fetch_id, number));
            all.fragments.get(&hash)
        });
        // A missing fragment is no damage: it was evicted, or was reported as a damaged record.
        match bodies.sum::<Option<u64>>() {
            None => report.incomplete += 1,
            Some(bytes) if bytes == total.bytes => {}
            Some(bytes) => {
                let Some(place) = inspection.find(hash_of_key(hasher, key)) else {
                    continue;
                };
                report.damage(
                    inspection.offset(place),
                    inspection.len(place),
                    format!("its fragments have {bytes} bytes, not {}", total.bytes),
                    Some(show::harmless(Key::of(key).uri)),
                );
            }
        }
    }
}

/// The URL of a damaged record, if its header and key look complete; the key is not verified.
fn url_of(store: &ReadStore, place: Place, bytes: &Bytes) -> Option<String> {
    match store.inspection.peek(place, bytes) {
        Ok(store::Peek::Head(head)) => Some(show::harmless(Key::of(&head.key).uri)),
        _ => None,
    }
}

impl Report {
    fn is_well(&self) -> bool {
        self.damaged == 0 && self.audit.is_none()
    }

    fn damage(&mut self, offset: u64, len: usize, reason: String, url: Option<String>) {
        self.damaged += 1;
        if self.listed.len() < LISTED_MAX {
            self.listed.push(Damaged {
                offset,
                len,
                reason,
                url,
            });
        }
    }

    fn bytes_per_s(&self) -> u64 {
        (self.bytes as f64 / self.seconds.max(1e-6)) as u64
    }

    fn as_json(&self) -> Value {
        let damaged: Vec<Value> = self
            .listed
            .iter()
            .map(|one| {
                json!({
                    "offset": one.offset,
                    "len": one.len,
                    "reason": one.reason,
                    "url": one.url,
                })
            })
            .collect();
        json!({
            "ok": self.is_well(),
            "records": self.records,
            "objects": self.objects,
            "fragments": self.fragments,
            "bytes": self.bytes,
            "purged": self.purged,
            "incomplete": self.incomplete,
            "damaged_records": self.damaged,
            "damaged": damaged,
            "index": self.audit,
            "seconds": self.seconds,
            "bytes_per_s": self.bytes_per_s(),
        })
    }

    fn as_text(&self) -> String {
        let mut lines = Vec::new();
        for one in &self.listed {
            let url = one
                .url
                .as_ref()
                .map_or_else(String::new, |url| format!(", perhaps {url}"));
            lines.push(format!(
                "damaged: {} bytes at {}: {}{url}",
                one.len, one.offset, one.reason
            ));
        }
        let more = self.damaged - self.listed.len() as u64;
        if more > 0 {
            lines.push(format!("and {more} more"));
        }
        if let Some(audit) = &self.audit {
            lines.push(format!("the index is wrong: {audit}"));
        }
        lines.push(format!(
            "{} read: {}, {}; {} in {:.1} s, {}/s",
            show::count(self.records, "record"),
            show::count(self.objects, "object"),
            show::count(self.fragments, "fragment"),
            show::size(self.bytes),
            self.seconds,
            show::size(self.bytes_per_s())
        ));
        if self.purged > 0 {
            lines.push(format!("{} purged, not yet overwritten", self.purged));
        }
        if self.incomplete > 0 {
            let objects = show::count(self.incomplete, "object");
            lines.push(format!(
                "{objects} without all fragments: misses, no damage"
            ));
        }
        lines.push(match self.damaged {
            0 if self.audit.is_none() => "all is well".to_owned(),
            _ => format!("{} damaged", self.damaged),
        });
        lines.join("\n")
    }
}
