//! `cargo xtask bench store-age`: does a store that was written over many times write as well as a fresh one?
//!
//! Two stores lie on files of one size. Both files are first filled with noise, so that neither store pays for blocks the file system
//! has not touched yet. One store is filled `--rounds` times. Then the two are written in turn, a sixteenth of their size each: the
//! first round of the fresh store, another round of the aged one. So both meet the same conditions of the disk.
//!
//! Of a hundred steps twenty request an object of a small popular set, drawn by Zipf: a hit is read from the disk, and written
//! again if it would be evicted soon; a miss is stored. The other steps store a new object, or replace one.
//!
//! Written bytes are those of the store's writes (clusters, checkpoints, log, journal); the kernel's count for this process must
//! agree with them. Stored bytes are those of headers, keys, metadata and bodies.

use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Args;
use store::{Figures, Replacement, Settings};

use super::disk::{Disk, Opening, Scratch, on_this_thread, write_all_over};
use super::load::{Objects, Workload, Zipf, hash_of};
use super::sheet::{Column, Sheet, Want};
use crate::failure::Result;
use crate::procfs::Io;
use crate::progress::Progress;
use crate::size::Bytes;
use crate::{interrupt, workspace};

/// An aged store must write at least at this share of a fresh store's rate.
const RATE_MIN: f64 = 0.8;
const RATE: &str = "stored, MiB/s";
const WRITTEN: &str = "bytes written per byte stored";
const WRITE_KIB: &str = "mean device write, KiB";
/// Standard deviation of the logarithm of sizes: with a mean of 10 KiB one object in a hundred is above 100 KiB.
const SPREAD: f64 = 1.5;
const POPULAR_PERCENT: u64 = 20;
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

/// Measures and prints; fails if a target is missed.
pub fn run(options: &Options) -> Result<()> {
    let dir = match &options.path {
        Some(dir) => dir.clone(),
        None => workspace::run_dir().join("store-age"),
    };
    let mut sheet = Sheet::new("store-age");
    for (n, &replacement) in options.replacement.iter().enumerate() {
        eprintln!("{replacement}");
        for column in on_this_thread(measure(options, replacement, &dir))? {
            sheet.push(match n {
                0 => column,
                _ => column.without_targets(),
            });
        }
    }
    sheet.finish(options.json)
}

/// A store and its workload.
struct Life {
    disk: Disk,
    workload: Workload,
    zipf: Zipf,
    stored_bytes: u64,
}

/// Measures a store while it is fresh, while it ages, and when it is aged.
async fn measure(options: &Options, replacement: Replacement, dir: &Path) -> Result<[Column; 3]> {
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
    eprintln!("O_DIRECT {}, {}", opening.direct, opening.engine);
    let data_bytes = aged.disk.store.geometry().data_bytes();
    let until = data_bytes * options.rounds;
    let mut progress = Progress::new("ageing: MiB", until >> 20);
    let mut ageing = Watch::start(&aged)?;
    while aged.stored_bytes < until {
        aged.store(data_bytes / PARTS).await?;
        progress.at(aged.stored_bytes >> 20);
    }
    drop(progress);
    ageing.lap()?;
    let ageing = ageing.column(&format!("{replacement}, ageing"), &aged);

    let (mut fresh, _) = Life::begin(&second.0, options, &settings).await?;
    let (mut of_fresh, mut of_aged) = (Watch::start(&fresh)?, Watch::start(&aged)?);
    let mut progress = Progress::new("comparing: parts", PARTS);
    for _ in 0..PARTS {
        for (life, watch) in [(&mut fresh, &mut of_fresh), (&mut aged, &mut of_aged)] {
            watch.resume()?;
            life.store(data_bytes / PARTS).await?;
            watch.lap()?;
        }
        progress.step();
    }
    let fresh = of_fresh.column(&format!("{replacement}, fresh"), &fresh);
    let mut column = of_aged.column(&format!("{replacement}, aged"), &aged);
    let found = |column: &Column, title| {
        let figure = column.figure(title).and_then(|f| f.found());
        figure.unwrap_or(f64::NAN)
    };
    let rate = found(&column, RATE) / found(&fresh, RATE);
    column.target(
        "rate beside the fresh one",
        3,
        rate,
        Want::AtLeast(RATE_MIN),
    );
    Ok([
        fresh,
        ageing,
        column.with_targets(&[
            (WRITE_KIB, Want::AtLeast(256.0)),
            (WRITTEN, Want::AtMost(1.1)),
        ]),
    ])
}

impl Life {
    async fn begin(path: &Path, options: &Options, settings: &Settings) -> Result<(Self, Opening)> {
        let (disk, opening) = Disk::open(path, None, settings).await?;
        let objects = Objects::new(options.mean.0, SPREAD);
        let workload = Workload::new(objects, disk.store.geometry(), 5);
        let life = Self {
            zipf: Zipf::new(workload.fit / POPULAR_SHARE, ZIPF_EXPONENT),
            stored_bytes: 0,
            workload,
            disk,
        };
        Ok((life, opening))
    }

    /// Stores at least `bytes` bytes, and waits until they are written.
    async fn store(&mut self, bytes: u64) -> Result<()> {
        let until = self.stored_bytes + bytes;
        let hasher = self.disk.store.hasher();
        while self.stored_bytes < until {
            let object = if self.workload.random.percent(POPULAR_PERCENT) {
                let popular = POPULAR_FROM + self.zipf.draw(&mut self.workload.random);
                let hash = hash_of(&hasher, popular);
                if self.disk.store.contains(hash) {
                    self.disk.get_soon(hash, READS_MAX).await;
                    continue;
                }
                popular
            } else {
                self.workload.next()
            };
            let began = self.disk.store.sequence();
            let record = self.workload.objects.record(&hasher, object);
            if self.disk.insert(&record.as_new(began)).await? {
                self.stored_bytes += self.workload.objects.record_bytes(object);
            }
            if self.workload.next.is_multiple_of(4096) {
                interrupt::check()?;
            }
        }
        self.disk.settle().await
    }
}

/// The counts of one store between two moments; several laps add up.
struct Watch {
    began: Instant,
    seconds: f64,
    before: Figures,
    background_before: u64,
    io: Io,
    kernel_bytes: u64,
}

impl Watch {
    fn start(life: &Life) -> Result<Self> {
        Ok(Self {
            began: Instant::now(),
            seconds: 0.0,
            before: life.disk.store.figures(),
            background_before: life.disk.background_bytes(),
            io: Io::of(std::process::id())?,
            kernel_bytes: 0,
        })
    }

    fn resume(&mut self) -> Result<()> {
        self.io = Io::of(std::process::id())?;
        self.began = Instant::now();
        Ok(())
    }

    fn lap(&mut self) -> Result<()> {
        self.seconds += self.began.elapsed().as_secs_f64();
        self.kernel_bytes += Io::of(std::process::id())?.since(&self.io).write_bytes;
        Ok(())
    }

    fn column(&self, name: &str, life: &Life) -> Column {
        let (now, before) = (life.disk.store.figures(), &self.before);
        let more = |of: fn(&Figures) -> u64| of(&now) - of(before);
        let stored = more(|f| f.insert_bytes);
        let clusters = more(|f| f.write_bytes);
        let background = life.disk.background_bytes() - self.background_before;
        let per_byte = |bytes: u64| bytes as f64 / stored.max(1) as f64;
        let writes = more(|f| f.writes);
        let again = more(|f| f.second_chances);
        let records = again + more(|f| f.inserts).max(1);
        let mib = stored as f64 / f64::from(1 << 20);
        let mut column = Column::new(name);
        column.add(RATE, 0, mib / self.seconds);
        column.add("device writes", 0, writes);
        column.add(
            WRITE_KIB,
            0,
            clusters as f64 / 1024.0 / writes.max(1) as f64,
        );
        column.add(WRITTEN, 3, per_byte(clusters + background));
        column.add("- as the kernel counts", 3, per_byte(self.kernel_bytes));
        column.add(
            "second chances, % of records written",
            2,
            again as f64 * 100.0 / records as f64,
        );
        column.add("evictions", 0, more(|f| f.evictions + f.stretch_evictions));
        let refused = more(|f| f.refused_no_space + f.refused_paused + f.refused_behind);
        column.add("refused", 0, refused);
        let free = now.ready_chunks as f64 / now.total_chunks as f64;
        column.add("empty, %", 2, free * 100.0);
        column.add("free pieces", 0, now.free_pieces);
        column
    }
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
        for name in ["second-chance", "lru"] {
            let replacement = name.parse().unwrap();
            let columns = on_this_thread(measure(&options, replacement, dir.path())).unwrap();
            let mut sheet = Sheet::new("store-age");
            columns.into_iter().for_each(|column| sheet.push(column));
            let aged = |title| sheet.found(&format!("{name}, aged"), title);
            assert!(
                aged("evictions") > 100.0 && aged(WRITTEN) > 1.0,
                "{sheet:?}"
            );
            let writes = sheet.found(&format!("{name}, fresh"), "device writes");
            assert!(writes > 10.0, "{sheet:?}");
            assert_eq!(sheet.verdicts().len(), 3);
        }
        let left = std::fs::read_dir(dir.path()).unwrap().count();
        assert_eq!(left, 0, "files are left behind");
    }
}
