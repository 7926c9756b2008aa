//! `cargo xtask bench store-age`: does a store that was written over many times write as well as a fresh one?
//!
//! Two stores on files of one size, both written full of noise before, so that neither pays for blocks the file system has
//! not touched yet. One is filled `--rounds` times over. Then the two are written in turn, a sixteenth of their size each: the
//! fresh one its first round, the aged one once more. So both meet the same disk.
//!
//! Of a hundred steps twenty ask for an object of a small popular set, drawn by Zipf: a hit is read from the disk, and written
//! again if its turn to go comes near; a miss is stored. The others store something new, or replace what is there.
//!
//! Bytes written are what the store handed out (clusters, checkpoints, log, journal), which the kernel's count for this process
//! must agree with. A byte stored is one of header, key, metadata or body.

use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Args;
use store::{Figures, Replacement, Settings};

use super::super::hits::verdict_table;
use super::super::table::Table;
use super::super::targets::{Verdict, at_least, at_most};
use super::disk::{Disk, Scratch, on_this_thread, write_all_over};
use super::load::{Objects, Random, Zipf, hash_of};
use crate::failure::{During, Result, fail};
use crate::interrupt;
use crate::procfs::Io;
use crate::progress::Progress;
use crate::size::Bytes;
use crate::workspace;

const WRITE_BYTES_MIN: f64 = (256 << 10) as f64;
const RATE_MIN: f64 = 0.8;
const BYTES_PER_BYTE_MAX: f64 = 1.1;
/// Standard deviation of the logarithm of sizes: with a mean of 10 KiB one object in a hundred is above 100 KiB.
const SPREAD: f64 = 1.5;
const POPULAR_PERCENT: u64 = 20;
const REPLACING_PERCENT: u64 = 10;
const SURELY_LIVE_PERCENT: u64 = 85;
/// The popular set takes this share of the store.
const POPULAR_SHARE: u64 = 50;
const ZIPF_EXPONENT: f64 = 0.8;
/// Popular objects are numbered from here.
const POPULAR_FROM: u64 = 1 << 60;
const READS_MAX: usize = 8;
/// Turns in which the two stores are compared.
const PARTS: u64 = 16;

/// How to measure.
#[derive(Debug, Args)]
pub struct Options {
    /// Of each of the two stores
    #[arg(long, default_value = "4GiB")]
    size: Bytes,
    /// How many times the aged one is written over before
    #[arg(long, default_value_t = 10)]
    rounds: u64,
    /// Mean size of a body
    #[arg(long, default_value = "10KiB")]
    mean: Bytes,
    /// What leaves to make room; the targets are for the first
    #[arg(long, default_value = "second-chance,lru", value_delimiter = ',')]
    replacement: Vec<Replacement>,
    /// Where the stores lie
    #[arg(long)]
    path: Option<PathBuf>,
    /// Print figures as JSON
    #[arg(long)]
    json: bool,
}

/// A store over some of its life.
#[derive(Debug, Clone, Copy, Default, serde::Serialize)]
struct Phase {
    stored_bytes: u64,
    seconds: f64,
    rate_mib: f64,
    writes: u64,
    write_bytes_mean: f64,
    written_per_byte_stored: f64,
    /// Of the records written, those written a second time.
    second_chance_share: f64,
    kernel_per_byte_stored: f64,
    evictions: u64,
    refused: u64,
    free_pieces: u64,
    free_share: f64,
}

/// What was measured of one policy.
#[derive(Debug, serde::Serialize)]
struct Report {
    replacement: String,
    direct: bool,
    engine: String,
    fresh: Phase,
    ageing: Phase,
    aged: Phase,
}

/// Measures and prints; fails if a target is missed.
pub fn run(options: &Options) -> Result<()> {
    let dir = match &options.path {
        Some(dir) => dir.clone(),
        None => workspace::run_dir().join("store-age"),
    };
    let mut reports = Vec::new();
    for &replacement in &options.replacement {
        eprintln!("{replacement}");
        reports.push(on_this_thread(measure(options, replacement, &dir))?);
    }
    let verdicts = reports.first().map(judge).unwrap_or_default();
    if options.json {
        let text = serde_json::to_string_pretty(&(&reports, &verdicts));
        println!("{}", text.during(|| "writing JSON".into())?);
    } else {
        println!("{}\n{}", table(&reports).render(), verdict_table(&verdicts));
    }
    if verdicts.iter().any(|v| !v.kept) {
        fail!("a target is missed");
    }
    Ok(())
}

/// A store and what is asked of it.
struct Life {
    disk: Disk,
    objects: Objects,
    zipf: Zipf,
    random: Random,
    next: u64,
    fit: u64,
    stored_bytes: u64,
}

async fn measure(options: &Options, replacement: Replacement, dir: &Path) -> Result<Report> {
    let settings = Settings {
        replacement,
        ..Settings::default()
    };
    let both = options.size.0 * 2;
    let first = Scratch::new(dir, "aged", both)?;
    write_all_over(&first.0, options.size.0).await?;
    let second = Scratch::new(dir, "fresh", options.size.0)?;
    write_all_over(&second.0, options.size.0).await?;

    let (mut aged, opening) = Life::begin(&first.0, options, &settings).await?;
    let data_bytes = aged.disk.store.geometry().data_bytes();
    let mut progress = Progress::new("ageing: MiB", (data_bytes * options.rounds) >> 20);
    let mut ageing = Watch::start(&aged);
    let until = data_bytes * options.rounds;
    while aged.stored_bytes < until {
        aged.store(data_bytes / PARTS).await?;
        progress.at(aged.stored_bytes >> 20);
    }
    drop(progress);
    ageing.lap(&aged)?;
    let ageing = ageing.phase(&aged);

    let (mut fresh, _) = Life::begin(&second.0, options, &settings).await?;
    let (mut of_fresh, mut of_aged) = (Watch::start(&fresh), Watch::start(&aged));
    let mut progress = Progress::new("comparing: parts", PARTS);
    for _ in 0..PARTS {
        for (life, watch) in [(&mut fresh, &mut of_fresh), (&mut aged, &mut of_aged)] {
            watch.resume()?;
            life.store(data_bytes / PARTS).await?;
            watch.lap(life)?;
        }
        progress.step();
    }
    Ok(Report {
        replacement: replacement.to_string(),
        direct: opening.direct,
        engine: opening.engine,
        fresh: of_fresh.phase(&fresh),
        ageing,
        aged: of_aged.phase(&aged),
    })
}

impl Life {
    async fn begin(
        path: &Path,
        options: &Options,
        settings: &Settings,
    ) -> Result<(Self, super::disk::Opening)> {
        let (disk, opening) = Disk::open(path, None, settings).await?;
        let objects = Objects::new(options.mean.0, SPREAD);
        let geometry = disk.store.geometry();
        let record_mean = objects.chunk_bytes_mean(u64::from(geometry.chunk_bytes));
        let fit = (geometry.data_bytes() as f64 / record_mean) as u64;
        let life = Self {
            zipf: Zipf::new(fit / POPULAR_SHARE, ZIPF_EXPONENT),
            random: Random(5),
            next: 0,
            fit,
            stored_bytes: 0,
            disk,
            objects,
        };
        Ok((life, opening))
    }

    /// Stores so many bytes, and waits until they are written.
    async fn store(&mut self, bytes: u64) -> Result<()> {
        let until = self.stored_bytes + bytes;
        let hasher = self.disk.store.hasher();
        while self.stored_bytes < until {
            let object = if self.random.percent(POPULAR_PERCENT) {
                let popular = POPULAR_FROM + self.zipf.draw(&mut self.random);
                let hash = hash_of(&hasher, popular);
                if self.disk.store.contains(hash) {
                    self.disk.get_soon(hash, READS_MAX).await;
                    continue;
                }
                popular
            } else if self.next > 0 && self.random.percent(REPLACING_PERCENT) {
                let span = (self.fit * SURELY_LIVE_PERCENT / 100).min(self.next);
                self.next - 1 - self.random.below(span)
            } else {
                self.next += 1;
                self.next - 1
            };
            let began = self.disk.store.sequence();
            let record = self.objects.record(&hasher, object);
            if self.disk.insert(&record.as_new(began)).await? {
                self.stored_bytes += self.objects.record_bytes(object);
            }
            if self.next.is_multiple_of(4096) {
                interrupt::check()?;
            }
        }
        self.disk.settle().await
    }
}

/// What is counted between two moments, of one store; laps add up.
struct Watch {
    began: Instant,
    seconds: f64,
    before: Figures,
    background_before: u64,
    io: Option<Io>,
    kernel_bytes: u64,
}

impl Watch {
    fn start(life: &Life) -> Self {
        Self {
            began: Instant::now(),
            seconds: 0.0,
            before: life.disk.store.figures(),
            background_before: life.disk.background_bytes(),
            io: Io::of(std::process::id()).ok(),
            kernel_bytes: 0,
        }
    }

    fn resume(&mut self) -> Result<()> {
        self.io = Some(Io::of(std::process::id())?);
        self.began = Instant::now();
        Ok(())
    }

    fn lap(&mut self, _: &Life) -> Result<()> {
        self.seconds += self.began.elapsed().as_secs_f64();
        let now = Io::of(std::process::id())?;
        if let Some(before) = &self.io {
            self.kernel_bytes += now.since(before).write_bytes;
        }
        Ok(())
    }

    fn phase(&self, life: &Life) -> Phase {
        let (now, before) = (life.disk.store.figures(), &self.before);
        let stored = now.insert_bytes - before.insert_bytes;
        let writes = now.writes - before.writes;
        let clusters = now.write_bytes - before.write_bytes;
        let background = life.disk.background_bytes() - self.background_before;
        let per_byte = |bytes: u64| bytes as f64 / stored.max(1) as f64;
        let inserts = (now.inserts - before.inserts).max(1);
        let again = now.second_chances - before.second_chances;
        Phase {
            stored_bytes: stored,
            seconds: self.seconds,
            rate_mib: stored as f64 / f64::from(1 << 20) / self.seconds,
            writes,
            write_bytes_mean: clusters as f64 / writes.max(1) as f64,
            written_per_byte_stored: per_byte(clusters + background),
            second_chance_share: again as f64 / (again + inserts) as f64,
            kernel_per_byte_stored: per_byte(self.kernel_bytes),
            evictions: now.evictions + now.stretch_evictions
                - before.evictions
                - before.stretch_evictions,
            refused: now.refused_no_space + now.refused_paused + now.refused_behind
                - before.refused_no_space
                - before.refused_paused
                - before.refused_behind,
            free_pieces: now.free_pieces,
            free_share: now.free_chunks as f64 / now.total_chunks as f64,
        }
    }
}

fn judge(report: &Report) -> Vec<Verdict> {
    let of = |what: &str| format!("{}: {what}", report.replacement);
    vec![
        at_least(
            of("mean device write when aged, bytes"),
            report.aged.write_bytes_mean,
            WRITE_BYTES_MIN,
        ),
        at_least(
            of("rate when aged, of the fresh one's"),
            report.aged.rate_mib / report.fresh.rate_mib,
            RATE_MIN,
        ),
        at_most(
            of("bytes written per byte stored when aged"),
            report.aged.written_per_byte_stored,
            BYTES_PER_BYTE_MAX,
        ),
    ]
}

fn table(reports: &[Report]) -> Table {
    let mut table = Table::new([
        "store-age",
        "MiB/s",
        "mean write",
        "written / stored",
        "(kernel)",
        "2nd chances",
        "empty",
        "pieces",
        "refused",
    ]);
    for report in reports {
        let phases = [
            ("fresh", report.fresh),
            ("ageing", report.ageing),
            ("aged", report.aged),
        ];
        for (name, phase) in phases {
            table.row([
                format!("{}, {name}", report.replacement),
                format!("{:.0}", phase.rate_mib),
                format!("{:.0} KiB", phase.write_bytes_mean / 1024.0),
                format!("{:.3}", phase.written_per_byte_stored),
                format!("{:.3}", phase.kernel_per_byte_stored),
                format!("{:.2} %", phase.second_chance_share * 100.0),
                format!("{:.2} %", phase.free_share * 100.0),
                phase.free_pieces.to_string(),
                phase.refused.to_string(),
            ]);
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tiny_one() {
        let dir = tempfile::tempdir().unwrap();
        let options = Options {
            size: Bytes(24 << 20),
            rounds: 2,
            mean: Bytes(10 << 10),
            replacement: Vec::new(),
            path: None,
            json: false,
        };
        for replacement in ["second-chance", "lru"] {
            let replacement = replacement.parse().unwrap();
            let report = on_this_thread(measure(&options, replacement, dir.path())).unwrap();
            assert!(
                report.aged.evictions > 100 && report.fresh.writes > 10,
                "{report:?}"
            );
            assert!(report.aged.written_per_byte_stored > 1.0, "{report:?}");
            assert_eq!(judge(&report).len(), 3);
            assert!(table(&[report]).render().contains("aged"));
        }
        assert_eq!(
            std::fs::read_dir(dir.path()).unwrap().count(),
            0,
            "files are left behind"
        );
    }
}
