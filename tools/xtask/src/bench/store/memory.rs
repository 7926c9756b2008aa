//! `cargo xtask bench store-memory`: the memory an object costs, after years of use.
//!
//! The store has no disk: its writes are reported done at once and dropped, so that ten times its size is written in minutes.
//! Copies, checksums and MACs are real. Some inserts replace stored objects, some records are invalidated, and the others are
//! evicted with their stretch, as in use.
//!
//! Memory is the growth of this process's resident set since before the store was made, with the proxy's allocator. *Net*
//! excludes the cluster buffers, whose number does not depend on the objects. Everything else counts: old tables left behind
//! by growth, the allocator's own data, buffers of checkpoints.
//!
//! Utilisation is counted record by record at the end: live records, their padding, and the room kept empty ahead of the writer.
//! The rest is dead space: replaced or invalidated records that the hand has not reached yet, and ends of regions.

use std::time::Instant;

use clap::Args;
use store::{
    Figures, Geometry, Identity, Lookup, Outcome, Replacement, Settings, Store, WorkOp, Write,
};

use super::load::{Objects, Workload, chunks_of, hash_of, plan};
use super::sheet::{Column, Sheet, Want};
use crate::failure::{Result, fail};
use crate::progress::Progress;
use crate::size::Bytes;
use crate::{interrupt, procfs};

/// As in the command `loligo`.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Standard deviation of the logarithm of sizes.
const SPREAD: f64 = 1.2;
/// The percentage of inserts that are followed by an invalidation.
const INVALIDATING_PERCENT: u64 = 1;
/// The open cluster and the one handed out: there are no more, since writes end at once here.
const CLUSTER_BUFFERS: u64 = 2;
/// Simulated bytes a millisecond.
const PACE: u64 = 100_000;
/// How often an insert that finds no room is tried.
const TRIES: u32 = 100;
const MIB: f64 = (1 << 20) as f64;

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

/// Measures and prints; fails if a target is missed.
pub fn run(options: &Options) -> Result<()> {
    measure(options)?.finish(options.json)
}

/// A store whose writes go nowhere.
struct Life {
    store: Store,
    workload: Workload,
    stored_bytes: u64,
    background_bytes: u64,
    refused: u64,
}

/// How long inserts took, nanoseconds each.
#[derive(Default)]
struct Times {
    inserts: u64,
    ns: f64,
    /// The mean in the slowest tenth of a round.
    ns_max: f64,
}

fn measure(options: &Options) -> Result<Sheet> {
    let objects = Objects::new(options.mean.0, SPREAD);
    let (store_bytes, geometry) = plan(&objects, options.objects)?;
    let settings = Settings {
        replacement: options.replacement,
        ..Settings::default()
    };
    let resident = || procfs::resident_bytes(&[std::process::id()]);
    let before = resident();
    let store = Store::create(
        geometry,
        &settings,
        Identity::new([7; Identity::RANDOM_BYTES]),
    );
    let mut life = Life {
        workload: Workload::new(objects, store.geometry(), 2),
        store,
        stored_bytes: 0,
        background_bytes: 0,
        refused: 0,
    };
    let times = life.live_on(options.rounds)?;
    let grown = resident().saturating_sub(before);

    let net = grown.saturating_sub(CLUSTER_BUFFERS * u64::from(settings.cluster_bytes));
    let figures = life.store.figures();
    let mut column = Column::new("");
    column.add("store, MiB", 1, store_bytes as f64 / MIB);
    column.add("written, times its size", 1, options.rounds);
    column.add("mean body, B", 0, life.workload.objects.body_bytes_mean());
    column.add("inserts", 0, times.inserts);
    column.add("objects in the index", 0, figures.records);
    let an_object = |bytes: u64| bytes as f64 / figures.records as f64;
    column.add("resident before, MiB", 1, before as f64 / MIB);
    column.add("resident added, gross, MiB", 1, grown as f64 / MIB);
    column.add("memory an object, gross, B", 2, an_object(grown));
    let most = Want::AtMost(16.0);
    column.target(
        "memory an object, net of cluster buffers, B",
        2,
        an_object(net),
        most,
    );
    column.add(
        "- of that the index's tables, B",
        2,
        an_object(figures.index_bytes),
    );
    column.add(
        "memory of the allocator of space, MiB",
        1,
        figures.space_bytes as f64 / MIB,
    );
    column.add("free pieces", 0, figures.free_pieces);
    life.utilisation(&figures, &mut column);
    column.add("checkpoints", 0, figures.checkpoints);
    let checkpoint_bytes = figures.checkpoint_bytes / figures.checkpoints.max(1);
    column.add("- of MiB each", 1, checkpoint_bytes as f64 / MIB);
    let write_bytes = figures.write_bytes as f64 / figures.writes.max(1) as f64;
    column.target(
        "mean device write, KiB",
        0,
        write_bytes / 1024.0,
        Want::AtLeast(256.0),
    );
    let written = (figures.write_bytes + life.background_bytes) as f64;
    let per_byte = written / figures.insert_bytes.max(1) as f64;
    column.target(
        "bytes written per byte stored",
        3,
        per_byte,
        Want::AtMost(1.1),
    );
    column.add("time an insert, ns", 0, times.ns / times.inserts as f64);
    column.add("- in the slowest tenth of a round, ns", 0, times.ns_max);
    column.add("refused for want of room", 0, life.refused);
    let mut sheet = Sheet::new("store-memory");
    sheet.push(column);
    Ok(sheet)
}

impl Life {
    /// Writes `rounds` times the size of the store.
    fn live_on(&mut self, rounds: f64) -> Result<Times> {
        let data_bytes = self.store.geometry().data_bytes();
        let wanted = (data_bytes as f64 * rounds) as u64;
        let mut progress = Progress::new("MiB written", wanted >> 20);
        let mut times = Times::default();
        // In parts of a tenth of the store, each timed.
        while self.stored_bytes < wanted {
            interrupt::check()?;
            let until = (self.stored_bytes + data_bytes / 10).min(wanted);
            let began = Instant::now();
            let mut part = 0u64;
            while self.stored_bytes < until {
                self.step()?;
                part += 1;
            }
            let ns = began.elapsed().as_nanos() as f64;
            times.ns += ns;
            times.ns_max = times.ns_max.max(ns / part as f64);
            times.inserts += part;
            progress.at(self.stored_bytes >> 20);
        }
        Ok(times)
    }

    /// Simulated milliseconds since 1970, which advance with the stored bytes.
    fn now_ms(&self) -> u64 {
        1_000_000_000 + self.stored_bytes / PACE
    }

    /// Makes one insert, and the invalidation and background work that go with it.
    fn step(&mut self) -> Result<()> {
        let object = self.workload.next();
        let (hasher, now_ms) = (self.store.hasher(), self.now_ms());
        let record = self.workload.objects.record(&hasher, object);
        let mut tries = 0;
        loop {
            let record = record.as_new(self.store.sequence());
            let inserted = self.store.insert(&record, now_ms);
            let wrote = !inserted.writes.is_empty();
            for Write { id, data, .. } in inserted.writes {
                drop(data);
                self.store.write_done(id, true, now_ms);
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
        self.stored_bytes += self.workload.objects.record_bytes(object);
        if self.workload.random.percent(INVALIDATING_PERCENT) {
            let hash = hash_of(&hasher, self.workload.a_live_one());
            let _ = self.store.invalidate(hash).handle;
        }
        Ok(())
    }

    /// Counts what the chunks of the store are used for.
    fn utilisation(&self, figures: &Figures, column: &mut Column) {
        let hasher = self.store.hasher();
        let chunk_bytes = u64::from(Geometry::CHUNK_BYTES_DEFAULT);
        // A replaced object lives longer than its number suggests, but hardly three rounds.
        let oldest = self.workload.next.saturating_sub(self.workload.fit * 3);
        let (mut chunks, mut bytes) = (0, 0);
        for object in oldest..self.workload.next {
            match self.store.look_up(hash_of(&hasher, object)) {
                Lookup::Absent => continue,
                Lookup::Buffered(_) => {}
                Lookup::OnDisk(read) => {
                    // No other thread can kill the record.
                    let _ = self.store.read_done(read);
                }
            }
            let record_bytes = self.workload.objects.record_bytes(object);
            chunks += chunks_of(record_bytes, chunk_bytes);
            bytes += record_bytes;
        }
        let percent = |chunks: f64| chunks * 100.0 / figures.total_chunks as f64;
        let (live, ahead) = (percent(chunks as f64), percent(figures.ready_chunks as f64));
        let without_padding = percent(bytes as f64 / chunk_bytes as f64);
        column.target(
            "live and dead records, %",
            2,
            100.0 - ahead,
            Want::AtLeast(95.0),
        );
        column.add("- live, %", 2, live);
        column.add("- padding of the live, %", 2, live - without_padding);
        column.add("- dead, %", 2, 100.0 - live - ahead);
        column.add("empty ahead of the writer, %", 2, ahead);
    }
}

/// Drops all background work, and returns the bytes that it would have written.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tiny_one_for_each_policy() {
        for replacement in ["second-chance", "lru", "gdsf"] {
            let sheet = measure(&Options {
                objects: 20_000,
                rounds: 3.0,
                mean: Bytes(3 << 10),
                replacement: replacement.parse().unwrap(),
                json: false,
            })
            .unwrap();
            let found = |title| sheet.found("", title);
            assert!(found("objects in the index") > 15_000.0, "{sheet:?}");
            let live = found("- live, %");
            assert!(live > 80.0 && live < 100.0, "{sheet:?}");
            assert!(found("- dead, %") > -1.0 && found("bytes written per byte stored") > 1.0);
            assert_eq!(sheet.verdicts().len(), 4);
        }
    }
}
