//! The child process of `bench store-start`: one start of the store, or the work between two starts.
//!
//! It prints its results in lines of a number and a title. The first hit is printed at once, so that the parent can take the time.

use std::io::Write as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use rustix::process::{Signal, getpid, kill_process};
use store::Settings;

use super::disk::{Disk, on_this_thread};
use super::load::{Objects, hash_of, is_record_of};
use crate::chance::Chance;
use crate::failure::{During, Result, fail};
use crate::interrupt;
use crate::progress::Progress;

/// Standard deviation of the logarithm of sizes.
pub const SPREAD: f64 = 1.2;
const MIB: f64 = (1 << 20) as f64;
/// How many records are requested after a start.
const SAMPLE: u64 = 5_000;
/// Parts of a scan that take turns with plain reading.
const PARTS: u64 = 16;
/// The longest wait for a first hit.
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

/// Takes a result: a title and a number.
pub type Say<'a> = &'a dyn Fn(&str, f64) -> Result<()>;

/// Printed as soon as there is a first hit: how long it took from the opened store.
pub const FIRST_HIT_MS: &str = "- opened store to hit, ms";
/// Objects below this number have been stored.
pub const NEXT: &str = "next object";
pub const FILL_MIB_S: &str = "filled at, MiB/s";
pub const RECORDS: &str = "records in the checkpoint";
pub const TO_SCAN_MIB: &str = "left to be scanned, MiB";
pub const SCANNED_MIB: &str = "scanned, MiB";
pub const HITS_PERCENT: &str = "of a sample hits, %";
/// The rates of the scan, and of plain reading of the same amount.
pub const RATES: [&str; 2] = ["- scan, MiB/s", "- plain reading, MiB/s"];

/// The hidden command.
pub fn child(options: &ChildOptions) -> Result<()> {
    let say = |title: &str, number: f64| {
        let mut out = std::io::stdout().lock();
        writeln!(out, "{number:e} {title}")
            .and_then(|()| out.flush())
            .during(|| "speaking".into())
    };
    on_this_thread(carry_out(options, &say))?;
    if options.what == What::Crash {
        kill_process(getpid(), Signal::KILL).during(|| "killing itself".into())?;
    }
    Ok(())
}

/// Does the work of the child; tests call it within their own process.
pub async fn carry_out(options: &ChildOptions, say: Say<'_>) -> Result<()> {
    let size = (options.what == What::Fill).then_some(options.size);
    let resident_before = own_resident();
    let began = Instant::now();
    let (disk, opening) = Disk::open(&options.file, size, &Settings::default()).await?;
    let opened_ms = ms_since(began);
    if matches!(options.what, What::Start | What::Recover | What::Scan) {
        first_hit(&disk, options.next).await?;
        say(FIRST_HIT_MS, ms_since(began) - opened_ms)?;
        say("- file, superblock, engine, ms", opening.open_ms)?;
        say("- log, journal, checkpoint, ms", opening.read_ms)?;
        say("- bytes to index, ms", opening.build_ms)?;
        say("- marked as open, ms", opening.mark_ms)?;
        let read_mib = opening.read_bytes as f64 / MIB;
        say("log, journal, checkpoint, MiB", read_mib)?;
        say(RECORDS, opening.records as f64)?;
        say(TO_SCAN_MIB, opening.scan_bytes as f64 / MIB)?;
        say("O_DIRECT", f64::from(u8::from(opening.direct)))?;
    }
    match options.what {
        What::Fill | What::Crash => store_more(&disk, options, say).await?,
        What::Start => first_insert(&disk, options, say).await?,
        What::Recover => scan(&disk, say).await?,
        What::Scan => scan_in_turns(&disk, say).await?,
    }
    if matches!(options.what, What::Recover | What::Scan) {
        sample(&disk, options.next, say).await?;
    }
    let grown = own_resident().saturating_sub(resident_before);
    let records = disk.store.figures().records;
    say("resident added, MiB", grown as f64 / MIB)?;
    say("- a record, bytes", grown as f64 / records.max(1) as f64)?;
    if options.what != What::Crash {
        say("close, ms", disk.close().await?)?;
    }
    Ok(())
}

fn ms_since(began: Instant) -> f64 {
    began.elapsed().as_secs_f64() * 1e3
}

/// Requests objects until one is served from the disk.
async fn first_hit(disk: &Disk, next: u64) -> Result<()> {
    let hasher = disk.store.hasher();
    let mut random = Chance::new(std::process::id().into());
    let began = Instant::now();
    while began.elapsed() < FIRST_HIT_PATIENCE {
        // The newest records are scanned first, so the index knows the newest ones, as many as it has records.
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

/// Measures how long it takes until a record is stored.
async fn first_insert(disk: &Disk, options: &ChildOptions, say: Say<'_>) -> Result<()> {
    let objects = Objects::new(options.mean, SPREAD);
    // An object number that is not used otherwise.
    let record = objects.record(&disk.store.hasher(), u64::MAX / 2);
    let began = Instant::now();
    if !disk.insert(&record.as_new(disk.store.sequence())).await? {
        fail!("the first record is refused");
    }
    say("first insert, ms", ms_since(began))
}

async fn store_more(disk: &Disk, options: &ChildOptions, say: Say<'_>) -> Result<()> {
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
    let mib = options.bytes as f64 / MIB;
    say(FILL_MIB_S, mib / began.elapsed().as_secs_f64())?;
    say(NEXT, next as f64)
}

/// Resident bytes of this process.
fn own_resident() -> u64 {
    crate::procfs::resident_bytes(&[std::process::id()])
}

/// The times of a scan and of plain reading.
#[derive(Default)]
struct Scanned {
    bytes: u64,
    seconds: f64,
    cpu_seconds: f64,
    plain_bytes: u64,
    plain_seconds: f64,
    records: u64,
}

impl Scanned {
    fn tell(&self, say: Say<'_>) -> Result<()> {
        let rate = |bytes: u64, seconds: f64| bytes as f64 / MIB / seconds;
        say(SCANNED_MIB, self.bytes as f64 / MIB)?;
        say("- in, s", self.seconds)?;
        say("- CPU, s", self.cpu_seconds)?;
        say(RATES[0], rate(self.bytes, self.seconds))?;
        say(RATES[1], rate(self.plain_bytes, self.plain_seconds))?;
        say("records found by the scan", self.records as f64)
    }
}

/// Measures the whole scan, then plain reading of as many bytes, half the store away.
async fn scan(disk: &Disk, say: Say<'_>) -> Result<()> {
    let total = disk.store.recovery().map_or(0, |scan| scan.total_bytes);
    let mut scanned = Scanned {
        bytes: total,
        plain_bytes: total,
        ..Scanned::default()
    };
    let (cpu, began) = (own_cpu(), Instant::now());
    disk.work();
    while let Some(progress) = disk.store.recovery() {
        interrupt::check()?;
        scanned.records = progress.records;
        disk.one_done().await;
    }
    scanned.seconds = began.elapsed().as_secs_f64();
    scanned.cpu_seconds = own_cpu() - cpu;
    disk.hold().await;
    let half = disk.store.geometry().data_bytes() / 2;
    scanned.plain_seconds = disk.read_in_a_row(half, total).await?;
    disk.go_on();
    scanned.tell(say)
}

/// User and system seconds of this process.
fn own_cpu() -> f64 {
    crate::procfs::cpu(&[std::process::id()]).as_secs_f64()
}

/// Measures parts of the scan and of plain reading in turn.
async fn scan_in_turns(disk: &Disk, say: Say<'_>) -> Result<()> {
    disk.hold().await;
    let Some(first) = disk.store.recovery() else {
        fail!("there is nothing to scan");
    };
    let (total, mut done) = (first.total_bytes, first.done_bytes);
    let mut scanned = Scanned {
        bytes: total - done,
        ..Scanned::default()
    };
    let half = disk.store.geometry().data_bytes() / 2;
    let part = (total / PARTS).max(1 << 20);
    while disk.store.recovery().is_some() {
        // To read the CPU time takes some milliseconds itself.
        let cpu = own_cpu();
        let (began, from) = (Instant::now(), done);
        disk.go_on();
        while let Some(progress) = disk.store.recovery() {
            interrupt::check()?;
            (done, scanned.records) = (progress.done_bytes, progress.records);
            if done >= from + part {
                break;
            }
            disk.one_done().await;
        }
        disk.hold().await;
        done = disk.store.recovery().map_or(total, |scan| scan.done_bytes);
        scanned.seconds += began.elapsed().as_secs_f64();
        scanned.cpu_seconds += own_cpu() - cpu;
        scanned.plain_seconds += disk.read_in_a_row(from + half, done - from).await?;
        scanned.plain_bytes += done - from;
    }
    disk.go_on();
    scanned.tell(say)
}

/// Requests a sample of the newest objects, drawn from as many as the index has records.
async fn sample(disk: &Disk, next: u64, say: Say<'_>) -> Result<()> {
    let hasher = disk.store.hasher();
    let mut random = Chance::new(11);
    let records = disk.store.figures().records;
    let (mut asked, mut hits) = (0, 0);
    // The oldest stretch may be under eviction.
    let span = (records - records / 20).min(next);
    for _ in 0..SAMPLE.min(span) {
        let object = next - 1 - random.below(span);
        asked += 1;
        if let Some((parts, _)) = disk.get(hash_of(&hasher, object)).await {
            hits += u64::from(is_record_of(object, &parts));
        }
    }
    say(HITS_PERCENT, hits as f64 * 100.0 / asked.max(1) as f64)
}
