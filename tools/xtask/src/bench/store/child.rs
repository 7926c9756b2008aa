//! What a process of its own does for `bench store-start`: one start of the store, or what comes between two.
//!
//! It says what it found in lines of JSON, the first hit as soon as it is there, so that the parent can look at its clock.

use std::io::Write as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use rustix::process::{Signal, getpid, kill_process};
use serde::{Deserialize, Serialize};
use store::Settings;

use super::disk::{Disk, Opening, on_this_thread};
use super::load::{Objects, Random, hash_of, is_record_of};
use crate::failure::{During, Result, fail};
use crate::interrupt;
use crate::progress::Progress;

/// Standard deviation of the logarithm of sizes.
pub const SPREAD: f64 = 1.2;
/// Records asked for after a start.
const SAMPLE: u64 = 5_000;
/// Parts of a scan that take turns with plain reading.
const PARTS: u64 = 16;
/// How long a first hit is waited for.
const FIRST_HIT_PATIENCE: Duration = Duration::from_secs(30);

/// What a process of its own is to do.
#[derive(Debug, Clone, Args)]
pub struct ChildOptions {
    #[arg(long)]
    pub file: PathBuf,
    #[arg(long, value_enum)]
    pub what: What,
    #[arg(long)]
    pub mean: u64,
    /// Of a new store
    #[arg(long, default_value_t = 0)]
    pub size: u64,
    /// Objects below have been stored
    #[arg(long, default_value_t = 0)]
    pub next: u64,
    /// Bytes to store
    #[arg(long, default_value_t = 0)]
    pub bytes: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum What {
    /// Make a store, fill it, close it
    Fill,
    /// Start, serve one hit, store one record, close
    Start,
    /// Start, store some more, be killed
    Crash,
    /// Start, serve one hit, scan, look for a sample, close
    Recover,
    /// The same, plain reading in turn with the scan
    Scan,
}

/// What a child says, a line each.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Said {
    Stored {
        next: u64,
        seconds: f64,
        checkpoint_bytes: u64,
    },
    Hit {
        opening: Opening,
        first_hit_ms: f64,
    },
    Inserted {
        ms: f64,
    },
    Scanned {
        bytes: u64,
        seconds: f64,
        plain_bytes: u64,
        plain_seconds: f64,
        records: u64,
        cpu_seconds: f64,
    },
    Sample {
        asked: u64,
        hits: u64,
    },
    Closed {
        ms: f64,
    },
}

/// The hidden command.
pub fn child(options: &ChildOptions) -> Result<()> {
    let say = |said: Said| {
        let mut out = std::io::stdout().lock();
        let line = serde_json::to_string(&said).during(|| "speaking".into())?;
        writeln!(out, "{line}")
            .and_then(|()| out.flush())
            .during(|| "speaking".into())
    };
    on_this_thread(carry_out(options, &say))?;
    if options.what == What::Crash {
        kill_process(getpid(), Signal::KILL).during(|| "killing itself".into())?;
    }
    Ok(())
}

/// Does it; for tests, within their process.
pub async fn carry_out(options: &ChildOptions, say: &dyn Fn(Said) -> Result<()>) -> Result<()> {
    let size = (options.what == What::Fill).then_some(options.size);
    let began = Instant::now();
    let (disk, opening) = Disk::open(&options.file, size, &Settings::default()).await?;
    let opened_ms = began.elapsed().as_secs_f64() * 1e3;
    if matches!(options.what, What::Start | What::Recover | What::Scan) {
        first_hit(&disk, options.next).await?;
        let first_hit_ms = began.elapsed().as_secs_f64() * 1e3 - opened_ms;
        say(Said::Hit {
            opening,
            first_hit_ms,
        })?;
    }
    match options.what {
        What::Fill | What::Crash => {
            let said = store_more(&disk, options).await?;
            say(said)?;
        }
        What::Start => say(first_insert(&disk, options).await?)?,
        What::Recover => {
            say(scan(&disk).await?)?;
            say(sample(&disk, options.next).await?)?;
        }
        What::Scan => {
            say(scan_in_turns(&disk).await?)?;
            say(sample(&disk, options.next).await?)?;
        }
    }
    if options.what != What::Crash {
        let ms = disk.close().await?;
        say(Said::Closed { ms })?;
    }
    Ok(())
}

/// Until one is served from the disk.
async fn first_hit(disk: &Disk, next: u64) -> Result<()> {
    let hasher = disk.store.hasher();
    let mut random = Random(std::process::id().into());
    let began = Instant::now();
    while began.elapsed() < FIRST_HIT_PATIENCE {
        // What was written last is scanned first: the index knows the newest ones, as many as it has.
        let known = disk.store.figures().records.clamp(1, next.max(1));
        let object = next.saturating_sub(1 + random.below(known));
        if let Some((parts, 1..)) = disk.get(hash_of(&hasher, object)).await
            && is_record_of(object, &parts)
        {
            return Ok(());
        }
        if disk.store.recovery().is_some() {
            disk.work();
            disk.one_done().await;
        }
    }
    fail!("no object is served from the disk")
}

/// How long it takes until one is stored.
async fn first_insert(disk: &Disk, options: &ChildOptions) -> Result<Said> {
    let objects = Objects::new(options.mean, SPREAD);
    // A number that is not used otherwise.
    let record = objects.record(&disk.store.hasher(), u64::MAX / 2);
    let began = Instant::now();
    if !disk.insert(&record.as_new(disk.store.sequence())).await? {
        fail!("the first record is refused");
    }
    Ok(Said::Inserted {
        ms: began.elapsed().as_secs_f64() * 1e3,
    })
}

async fn store_more(disk: &Disk, options: &ChildOptions) -> Result<Said> {
    let objects = Objects::new(options.mean, SPREAD);
    let hasher = disk.store.hasher();
    let mut progress = Progress::new("storing: MiB", options.bytes >> 20);
    let began = Instant::now();
    let (mut next, mut bytes) = (options.next, 0);
    while bytes < options.bytes {
        let record = objects.record(&hasher, next);
        if disk.insert(&record.as_new(disk.store.sequence())).await? {
            bytes += objects.record_bytes(next);
        }
        next += 1;
        if next.is_multiple_of(4096) {
            interrupt::check()?;
            progress.at(bytes >> 20);
        }
    }
    disk.settle().await?;
    let figures = disk.store.figures();
    Ok(Said::Stored {
        next,
        seconds: began.elapsed().as_secs_f64(),
        checkpoint_bytes: figures.checkpoint_bytes / figures.checkpoints.max(1),
    })
}

/// The scan in one go, then plain reading of as much, half the store away.
async fn scan(disk: &Disk) -> Result<Said> {
    let total = disk
        .store
        .recovery()
        .map_or(0, |progress| progress.total_bytes);
    let cpu = own_cpu();
    let began = Instant::now();
    disk.work();
    let mut records = 0;
    while let Some(progress) = disk.store.recovery() {
        interrupt::check()?;
        records = progress.records;
        disk.one_done().await;
    }
    let seconds = began.elapsed().as_secs_f64();
    let cpu_seconds = own_cpu() - cpu;
    disk.hold().await;
    let half = disk.store.geometry().data_bytes() / 2;
    let plain_seconds = disk.read_in_a_row(half, total).await?;
    disk.go_on();
    Ok(Said::Scanned {
        bytes: total,
        seconds,
        plain_bytes: total,
        plain_seconds,
        records,
        cpu_seconds,
    })
}

/// User and system seconds of this process.
fn own_cpu() -> f64 {
    crate::procfs::cpu(&[std::process::id()]).as_secs_f64()
}

/// Scan, plain reading, scan, ...
async fn scan_in_turns(disk: &Disk) -> Result<Said> {
    disk.hold().await;
    let Some(first) = disk.store.recovery() else {
        fail!("there is nothing to scan");
    };
    let (total, mut done) = (first.total_bytes, first.done_bytes);
    let skipped = done;
    let half = disk.store.geometry().data_bytes() / 2;
    let part = (total / PARTS).max(1 << 20);
    let mut cpu_seconds = 0.0;
    let (mut seconds, mut plain_bytes, mut plain_seconds, mut records) = (0.0, 0, 0.0, 0);
    while disk.store.recovery().is_some() {
        // That takes some milliseconds itself.
        let cpu = own_cpu();
        let began = Instant::now();
        let from = done;
        disk.go_on();
        while let Some(progress) = disk.store.recovery() {
            interrupt::check()?;
            (done, records) = (progress.done_bytes, progress.records);
            if done >= from + part {
                break;
            }
            disk.one_done().await;
        }
        disk.hold().await;
        done = disk
            .store
            .recovery()
            .map_or(total, |progress| progress.done_bytes);
        seconds += began.elapsed().as_secs_f64();
        cpu_seconds += own_cpu() - cpu;
        plain_seconds += disk.read_in_a_row(from + half, done - from).await?;
        plain_bytes += done - from;
    }
    disk.go_on();
    Ok(Said::Scanned {
        bytes: total - skipped,
        seconds,
        plain_bytes,
        plain_seconds,
        records,
        cpu_seconds,
    })
}

/// Asks for some of the newest objects, as many as the index has.
async fn sample(disk: &Disk, next: u64) -> Result<Said> {
    let hasher = disk.store.hasher();
    let mut random = Random(11);
    let records = disk.store.figures().records;
    let (mut asked, mut hits) = (0, 0);
    // The oldest stretch may be on its way out.
    let span = (records - records / 20).min(next);
    for _ in 0..SAMPLE.min(span) {
        let object = next - 1 - random.below(span);
        asked += 1;
        if let Some((parts, _)) = disk.get(hash_of(&hasher, object)).await {
            hits += u64::from(is_record_of(object, &parts));
        }
    }
    Ok(Said::Sample { asked, hits })
}
