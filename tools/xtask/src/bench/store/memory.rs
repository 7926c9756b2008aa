//! `cargo xtask bench store-memory`: what an object costs in memory, after years of use.
//!
//! A store without a disk: its writes are reported done at once and dropped, so that ten times its size is written in minutes.
//! Copies, checksums and MACs are real. Some inserts replace what is there, some records are invalidated, and the rest goes
//! with its stretch, as in use.
//!
//! Memory is the growth of this process's resident set since before the store was made, with the proxy's allocator. *Net* is without
//! the cluster buffers, whose number does not depend on the objects. Everything else counts: what tables that grew have
//! left behind, the allocator's own, buffers of checkpoints.
//!
//! Utilisation is counted record by record at the end: live records, their padding, what is kept empty ahead of the writer.
//! The rest is dead: replaced or invalidated records that the hand has not come by yet, and ends of regions.

use std::time::Instant;

use clap::Args;
use store::{
    Figures, Geometry, Identity, Lookup, Outcome, Replacement, Settings, Store, WorkOp, Write,
};

use super::super::hits::verdict_table;
use super::super::table::Table;
use super::super::targets::{Verdict, at_least, at_most};
use super::load::{Objects, Random, chunks_of, hash_of};
use crate::failure::{During, Result, fail};
use crate::interrupt;
use crate::progress::Progress;
use crate::size::Bytes;

/// As in the command `loligo`.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const BYTES_AN_OBJECT_MAX: f64 = 16.0;
const UTILISATION_MIN: f64 = 0.95;
const WRITE_BYTES_MIN: f64 = (256 << 10) as f64;
const BYTES_PER_BYTE_MAX: f64 = 1.1;
/// Standard deviation of the logarithm of sizes.
const SPREAD: f64 = 1.2;
/// Of a hundred inserts so many replace a live record, and so many are followed by an invalidation.
const REPLACING_PERCENT: u64 = 10;
const INVALIDATING_PERCENT: u64 = 1;
/// Of the objects that fit, the newest this many percent are taken to be live when one is chosen.
const SURELY_LIVE_PERCENT: u64 = 85;
/// Open, and handed out: writes end at once here.
const CLUSTER_BUFFERS: u64 = 2;
/// Simulated bytes a millisecond.
const PACE: u64 = 100_000;
/// Tries of an insert that finds no room.
const TRIES: u32 = 100;

/// How to measure.
#[derive(Debug, Args)]
pub struct Options {
    /// Objects that fit into the store
    #[arg(long, default_value_t = 10_000_000)]
    objects: u64,
    /// How many times the size of the store is written
    #[arg(long, default_value_t = 10.0)]
    rounds: f64,
    /// Mean size of a body
    #[arg(long, default_value = "3KiB")]
    mean: Bytes,
    /// What leaves to make room
    #[arg(long, default_value = "second-chance")]
    replacement: Replacement,
    /// Print figures as JSON
    #[arg(long)]
    json: bool,
}

/// What was measured.
#[derive(Debug, serde::Serialize)]
pub struct Report {
    store_bytes: u64,
    data_bytes: u64,
    rounds: f64,
    body_bytes_mean: f64,
    /// In the index at the end.
    objects: u64,
    rss_baseline_bytes: u64,
    rss_gross_bytes: u64,
    rss_net_bytes: u64,
    bytes_an_object_gross: f64,
    bytes_an_object_net: f64,
    index_bytes: u64,
    space_bytes: u64,
    free_pieces: u64,
    live_share: f64,
    padding_share: f64,
    dead_share: f64,
    ahead_share: f64,
    checkpoints: u64,
    checkpoint_bytes_each: u64,
    write_bytes_mean: f64,
    /// Of clusters, checkpoints, log and journal.
    written_per_byte_stored: f64,
    ns_an_insert: f64,
    ns_an_insert_max_round: f64,
    refused: u64,
    inserts: u64,
}

/// Measures and prints; fails if a target is missed.
pub fn run(options: &Options) -> Result<()> {
    let report = measure(options)?;
    let verdicts = judge(&report);
    if options.json {
        let text = serde_json::to_string_pretty(&(&report, &verdicts));
        println!("{}", text.during(|| "writing JSON".into())?);
    } else {
        println!("{}\n{}", table(&report).render(), verdict_table(&verdicts));
    }
    if verdicts.iter().any(|v| !v.kept) {
        fail!("a target is missed");
    }
    Ok(())
}

/// A store and what the bench does with its writes: nothing.
struct Bench {
    store: Store,
    objects: Objects,
    random: Random,
    /// Objects below have been stored at least once.
    next: u64,
    /// Objects that fit.
    fit: u64,
    stored_bytes: u64,
    background_bytes: u64,
    refused: u64,
}

fn measure(options: &Options) -> Result<Report> {
    let chunk_bytes = u64::from(Geometry::CHUNK_BYTES_DEFAULT);
    let objects = Objects::new(options.mean.0, SPREAD);
    let record_mean = objects.chunk_bytes_mean(chunk_bytes);
    let data_bytes = options.objects as f64 * record_mean / UTILISATION_MIN;
    let (store_bytes, geometry) = plan(data_bytes as u64)?;
    let settings = Settings {
        replacement: options.replacement,
        ..Settings::default()
    };

    let rss_baseline_bytes = resident_bytes()?;
    let identity = Identity::new([7; Identity::RANDOM_BYTES]);
    let store = Store::create(geometry, &settings, identity);
    let data_bytes = store.geometry().data_bytes();
    let mut bench = Bench {
        store,
        objects,
        random: Random(2),
        next: 0,
        fit: (data_bytes as f64 / record_mean) as u64,
        stored_bytes: 0,
        background_bytes: 0,
        refused: 0,
    };
    let wanted = (data_bytes as f64 * options.rounds) as u64;
    let mut progress = Progress::new("MiB written", wanted >> 20);
    let (mut ns_all, mut ns_max) = (0.0, 0.0f64);
    let mut inserts = 0;
    // In parts of a tenth of the store, each timed.
    while bench.stored_bytes < wanted {
        interrupt::check()?;
        let until = (bench.stored_bytes + data_bytes / 10).min(wanted);
        let began = Instant::now();
        let mut part = 0u64;
        while bench.stored_bytes < until {
            bench.step()?;
            part += 1;
        }
        let ns = began.elapsed().as_nanos() as f64;
        ns_all += ns;
        ns_max = ns_max.max(ns / part as f64);
        inserts += part;
        progress.at(bench.stored_bytes >> 20);
    }
    drop(progress);

    let rss = resident_bytes()?.saturating_sub(rss_baseline_bytes);
    let buffers = CLUSTER_BUFFERS * u64::from(settings.cluster_bytes);
    let figures = bench.store.figures();
    let (live_chunks, live_bytes) = bench.live();
    let of_all = |chunks: u64| chunks as f64 / figures.total_chunks as f64;
    let live_share = of_all(live_chunks);
    let ahead_share = of_all(figures.free_chunks);
    let net = rss.saturating_sub(buffers);
    Ok(Report {
        store_bytes,
        data_bytes,
        rounds: options.rounds,
        body_bytes_mean: bench.objects.body_bytes_mean(),
        objects: figures.records,
        rss_baseline_bytes,
        rss_gross_bytes: rss,
        rss_net_bytes: net,
        bytes_an_object_gross: rss as f64 / figures.records as f64,
        bytes_an_object_net: net as f64 / figures.records as f64,
        index_bytes: figures.index_bytes,
        space_bytes: figures.space_bytes,
        free_pieces: figures.free_pieces,
        live_share,
        padding_share: live_share - live_bytes as f64 / data_bytes as f64,
        dead_share: 1.0 - live_share - ahead_share,
        ahead_share,
        checkpoints: figures.checkpoints,
        checkpoint_bytes_each: figures.checkpoint_bytes / figures.checkpoints.max(1),
        write_bytes_mean: figures.write_bytes as f64 / figures.writes.max(1) as f64,
        written_per_byte_stored: written_per_byte(&figures, bench.background_bytes),
        ns_an_insert: ns_all / inserts as f64,
        ns_an_insert_max_round: ns_max,
        refused: bench.refused,
        inserts,
    })
}

fn written_per_byte(figures: &Figures, background_bytes: u64) -> f64 {
    (figures.write_bytes + background_bytes) as f64 / figures.insert_bytes.max(1) as f64
}

/// A store whose data area has that many bytes, about.
pub fn plan(data_bytes: u64) -> Result<(u64, Geometry)> {
    let chunk_bytes = Geometry::CHUNK_BYTES_DEFAULT;
    let mut total = data_bytes;
    for _ in 0..4 {
        let geometry =
            Geometry::plan(total, chunk_bytes).during(|| "planning the store".to_owned())?;
        total += data_bytes.saturating_sub(geometry.data_bytes());
    }
    let geometry = Geometry::plan(total, chunk_bytes).during(|| "planning the store".to_owned())?;
    Ok((geometry.total_bytes, geometry))
}

impl Bench {
    /// Milliseconds since 1970, as the bytes go by.
    fn now_ms(&self) -> u64 {
        1_000_000_000 + self.stored_bytes / PACE
    }

    /// One insert, and what goes with it.
    fn step(&mut self) -> Result<()> {
        let object = if self.next > 0 && self.random.percent(REPLACING_PERCENT) {
            self.a_live_one()
        } else {
            self.next += 1;
            self.next - 1
        };
        let (hasher, now_ms) = (self.store.hasher(), self.now_ms());
        let record = self.objects.record(&hasher, object);
        let mut tries = 0;
        loop {
            let inserted = self
                .store
                .insert(&record.as_new(self.store.sequence()), now_ms);
            let mut wrote = false;
            for Write { id, data, .. } in inserted.writes {
                drop(data);
                self.store.write_done(id, true, now_ms);
                wrote = true;
            }
            if inserted.outcome == Outcome::Stored {
                if wrote {
                    self.background_bytes += work(&self.store, now_ms);
                }
                break;
            }
            self.refused += 1;
            if inserted.outcome == Outcome::TooLarge {
                return Ok(());
            }
            tries += 1;
            self.background_bytes += work(&self.store, now_ms);
            if tries == TRIES {
                fail!(
                    "an insert is refused again and again: {:?}",
                    inserted.outcome
                );
            }
        }
        self.stored_bytes += self.objects.record_bytes(object);
        if self.random.percent(INVALIDATING_PERCENT) {
            let hash = hash_of(&hasher, self.a_live_one());
            let _ = self.store.invalidate(hash).handle;
        }
        Ok(())
    }

    /// An object that is in the store, most likely.
    fn a_live_one(&mut self) -> u64 {
        let span = (self.fit * SURELY_LIVE_PERCENT / 100).min(self.next);
        self.next - 1 - self.random.below(span)
    }

    /// Chunks of all live records, and their bytes without padding.
    fn live(&self) -> (u64, u64) {
        let hasher = self.store.hasher();
        let chunk_bytes = u64::from(Geometry::CHUNK_BYTES_DEFAULT);
        // Replaced ones live longer than their number says, but hardly three rounds.
        let oldest = self.next.saturating_sub(self.fit * 3);
        let (mut chunks, mut bytes) = (0, 0);
        for object in oldest..self.next {
            match self.store.look_up(hash_of(&hasher, object)) {
                Lookup::Absent => continue,
                Lookup::Buffered(_) => {}
                Lookup::OnDisk(read) => {
                    // Nobody else is there to kill it.
                    let _ = self.store.read_done(read);
                }
            }
            let record_bytes = self.objects.record_bytes(object);
            chunks += chunks_of(record_bytes, chunk_bytes);
            bytes += record_bytes;
        }
        (chunks, bytes)
    }
}

/// Drops all background work; the bytes that it would have written.
fn work(store: &Store, now_ms: u64) -> u64 {
    let mut bytes = 0;
    while let Some(work) = store.next_work(now_ms) {
        if let WorkOp::Write { data, .. } = &work.op {
            bytes += data.len() as u64;
        }
        store.work_done(work.id, Ok(None), now_ms);
    }
    bytes
}

fn resident_bytes() -> Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")
        .during(|| "reading /proc/self/status".into())?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib: Option<u64> = line.and_then(|rest| rest.trim().strip_suffix(" kB")?.parse().ok());
    match kib {
        Some(kib) => Ok(kib << 10),
        None => fail!("/proc/self/status does not say VmRSS"),
    }
}

fn judge(report: &Report) -> Vec<Verdict> {
    vec![
        at_most(
            "memory an object, bytes (net)".into(),
            report.bytes_an_object_net,
            BYTES_AN_OBJECT_MAX,
        ),
        at_least(
            "utilisation: live and dead records".into(),
            1.0 - report.ahead_share,
            UTILISATION_MIN,
        ),
        at_least(
            "mean device write, bytes".into(),
            report.write_bytes_mean,
            WRITE_BYTES_MIN,
        ),
        at_most(
            "bytes written per byte stored".into(),
            report.written_per_byte_stored,
            BYTES_PER_BYTE_MAX,
        ),
    ]
}

fn table(report: &Report) -> Table {
    let mut table = Table::new(["store-memory", ""]);
    let mut row = |what: &str, value: String| table.row([what.to_owned(), value]);
    let mib = |bytes: u64| format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20));
    let percent = |share: f64| format!("{:.2} %", share * 100.0);
    row("store", mib(report.store_bytes));
    row("written, times its size", format!("{}", report.rounds));
    row("mean body", format!("{:.0} B", report.body_bytes_mean));
    row("inserts", report.inserts.to_string());
    row("objects in the index", report.objects.to_string());
    row("resident before", mib(report.rss_baseline_bytes));
    row("resident added, gross", mib(report.rss_gross_bytes));
    row(
        "resident added, net of cluster buffers",
        mib(report.rss_net_bytes),
    );
    row(
        "bytes an object, gross",
        format!("{:.2}", report.bytes_an_object_gross),
    );
    row(
        "bytes an object, net",
        format!("{:.2}", report.bytes_an_object_net),
    );
    row(
        "of that the index's tables",
        format!("{:.2}", report.index_bytes as f64 / report.objects as f64),
    );
    row("memory of the allocator of space", mib(report.space_bytes));
    row("free pieces", report.free_pieces.to_string());
    row("live records, of all chunks", percent(report.live_share));
    row("  their padding", percent(report.padding_share));
    row("dead", percent(report.dead_share));
    row("empty ahead of the writer", percent(report.ahead_share));
    row(
        "checkpoints",
        format!(
            "{} of {}",
            report.checkpoints,
            mib(report.checkpoint_bytes_each)
        ),
    );
    row(
        "mean device write",
        format!("{:.0} KiB", report.write_bytes_mean / 1024.0),
    );
    row(
        "bytes written per byte stored",
        format!("{:.3}", report.written_per_byte_stored),
    );
    row("time an insert", format!("{:.0} ns", report.ns_an_insert));
    row(
        "  in the slowest tenth of a round",
        format!("{:.0} ns", report.ns_an_insert_max_round),
    );
    row("refused and tried again", report.refused.to_string());
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tiny_one_for_each_policy() {
        for replacement in ["second-chance", "lru", "sieve"] {
            let report = measure(&Options {
                objects: 20_000,
                rounds: 3.0,
                mean: Bytes(3 << 10),
                replacement: replacement.parse().unwrap(),
                json: false,
            })
            .unwrap();
            assert!(report.objects > 15_000, "{report:?}");
            assert!(
                report.live_share > 0.8 && report.live_share < 1.0,
                "{report:?}"
            );
            assert!(report.dead_share > -0.01 && report.written_per_byte_stored > 1.0);
            assert_eq!(judge(&report).len(), 4);
            assert!(table(&report).render().contains("bytes an object"));
        }
    }
}
