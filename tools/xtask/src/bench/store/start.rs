//! `cargo xtask bench store-start`: how long from the start of a process to the first hit from disk.
//!
//! A store on a real file is filled once over. Then, each time in a fresh process (this program with a hidden command):
//!
//! * *clean*: it was closed in order; a few times over.
//! * *crash*: some gigabytes were written since the last checkpoint, and the process killed itself with SIGKILL. What was
//!   written since is found again by a scan, while the store serves; the scan's time is held against reading as many bytes in a
//!   row, as `dd` would, on another part of the file.
//! * *no checkpoint*: both checkpoint areas are overwritten, so everything is scanned. Scan and plain reading take turns, a part
//!   of the store each, four reads of 1 MiB under way in both; one reads the half that the other does not, so that
//!   whatever caches there are below favour neither.
//!
//! A hit is a look-up, a read past the page cache, and a record that is whole and of the right key. The time is counted by
//! the parent, from before the process is made to the line that says so. Afterwards a sample of the records is asked for.
//!
//! Limits: the disk of a virtual machine may be cached by its host. Objects are not replaced and not read meanwhile, so the
//! newest ones, as many as the index has, are those that must be there.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Instant;

use clap::{Args, ValueEnum};
use serde::Serialize;

use super::super::hits::verdict_table;
use super::super::stats::Spread;
use super::super::table::Table;
use super::super::targets::{Verdict, at_least, at_most};
use super::child::{ChildOptions, SPREAD, Said, What};
use super::disk::{self, Opening, Scratch, on_this_thread};
use super::load::Objects;
use super::memory::plan;
use crate::failure::{During, Result, fail};
use crate::size::Bytes;
use crate::workspace;

const FIRST_HIT_S_MAX: f64 = 1.0;
const SCAN_RATE_MIN: f64 = 0.9;
const HITS_MIN: f64 = 0.99;

/// How to measure.
#[derive(Debug, Args)]
pub struct Options {
    /// Objects that the store is made for
    #[arg(long, default_value_t = 10_000_000)]
    objects: u64,
    /// Mean size of a body
    #[arg(long, default_value = "3KiB")]
    mean: Bytes,
    /// Written after the last checkpoint, before the process is killed
    #[arg(long, default_value = "4GiB")]
    after: Bytes,
    /// Clean starts
    #[arg(long, default_value_t = 5)]
    starts: u32,
    /// The directory to put the store into
    #[arg(long)]
    path: Option<PathBuf>,
    /// Print figures as JSON
    #[arg(long)]
    json: bool,
}

/// One start.
#[derive(Debug, Default, Serialize)]
struct Start {
    /// From before the process was made.
    seconds: f64,
    opening: Opening,
    first_hit_ms: f64,
    close_ms: f64,
    first_insert_ms: f64,
    scanned_bytes: u64,
    scan_seconds: f64,
    scan_cpu_seconds: f64,
    plain_bytes: u64,
    plain_seconds: f64,
    scanned_records: u64,
    asked: u64,
    hits: u64,
}

/// What was measured.
#[derive(Debug, Serialize)]
pub struct Report {
    store_bytes: u64,
    fill_mib_s: f64,
    checkpoint_bytes: u64,
    clean: Vec<Start>,
    crash: Start,
    no_checkpoint: Start,
}

/// Measures and prints; fails if a target is missed.
pub fn run(options: &Options) -> Result<()> {
    let report = measure(options, &spawn)?;
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

/// Does what a child is to do: in a process of its own, or in a test within this one. Seconds and words.
type Carry<'a> = &'a dyn Fn(&ChildOptions) -> Result<Vec<(f64, Said)>>;

fn measure(options: &Options, carry: Carry<'_>) -> Result<Report> {
    let objects = Objects::new(options.mean.0, SPREAD);
    let data = options.objects as f64 * objects.chunk_bytes_mean(512) / 0.95;
    let (size, _) = plan(data as u64)?;
    let dir = match &options.path {
        Some(dir) => dir.clone(),
        None => workspace::run_dir().join("store-start"),
    };
    let file = Scratch::new(&dir, "store", size)?;
    let mut child = ChildOptions {
        file: file.0.clone(),
        what: What::Fill,
        mean: options.mean.0,
        size,
        next: 0,
        // Over its end, so that no region is as it was made.
        bytes: size + size / 20,
    };
    eprintln!("filling {} MiB", child.bytes >> 20);
    let (mut next, mut fill_seconds, mut checkpoint_bytes) = (0, 0.0, 0);
    for (_, said) in carry(&child)? {
        if let Said::Stored {
            next: n,
            seconds,
            checkpoint_bytes: c,
        } = said
        {
            (next, fill_seconds, checkpoint_bytes) = (n, seconds, c);
        }
    }
    let fill_mib_s = (child.bytes >> 20) as f64 / fill_seconds;
    child.size = 0;
    child.next = next;
    child.what = What::Start;
    let mut clean = Vec::new();
    for number in 0..options.starts {
        eprintln!("clean start {}", number + 1);
        clean.push(start_of(carry(&child)?)?);
    }
    eprintln!("storing {} more, and a crash", options.after);
    child.what = What::Crash;
    child.bytes = options.after.0;
    for (_, said) in carry(&child)? {
        if let Said::Stored { next, .. } = said {
            child.next = next;
        }
    }
    child.what = What::Recover;
    let crash = start_of(carry(&child)?)?;
    eprintln!("without a checkpoint");
    on_this_thread(disk::destroy_checkpoints(&file.0))?;
    child.what = What::Scan;
    let no_checkpoint = start_of(carry(&child)?)?;
    Ok(Report {
        store_bytes: size,
        fill_mib_s,
        checkpoint_bytes,
        clean,
        crash,
        no_checkpoint,
    })
}

fn start_of(said: Vec<(f64, Said)>) -> Result<Start> {
    let mut start = Start::default();
    let mut was_hit = false;
    for (seconds, said) in said {
        match said {
            Said::Hit {
                opening,
                first_hit_ms,
            } => {
                was_hit = true;
                (start.seconds, start.opening, start.first_hit_ms) =
                    (seconds, opening, first_hit_ms);
            }
            Said::Scanned {
                bytes,
                seconds,
                plain_bytes,
                plain_seconds,
                records,
                cpu_seconds,
            } => {
                start.scan_cpu_seconds = cpu_seconds;
                (start.scanned_bytes, start.scan_seconds) = (bytes, seconds);
                (start.plain_bytes, start.plain_seconds) = (plain_bytes, plain_seconds);
                start.scanned_records = records;
            }
            Said::Sample { asked, hits } => (start.asked, start.hits) = (asked, hits),
            Said::Closed { ms } => start.close_ms = ms,
            Said::Inserted { ms } => start.first_insert_ms = ms,
            Said::Stored { .. } => {}
        }
    }
    if !was_hit {
        fail!("a start ended without a hit");
    }
    Ok(start)
}

/// In a process of its own, which for a crash must end by SIGKILL.
fn spawn(options: &ChildOptions) -> Result<Vec<(f64, Said)>> {
    let program = std::env::current_exe().during(|| "finding this program".into())?;
    let what = options.what.to_possible_value();
    let what = what.as_ref().map_or("", |value| value.get_name());
    let began = Instant::now();
    let mut child = Command::new(program)
        .args(["bench", "store-start-child", "--what", what])
        .arg("--file")
        .arg(&options.file)
        .args(["--mean", &options.mean.to_string()])
        .args(["--size", &options.size.to_string()])
        .args(["--next", &options.next.to_string()])
        .args(["--bytes", &options.bytes.to_string()])
        .stdout(Stdio::piped())
        .spawn()
        .during(|| "starting a child".into())?;
    let mut said = Vec::new();
    if let Some(out) = child.stdout.take() {
        for line in BufReader::new(out).lines() {
            let seconds = began.elapsed().as_secs_f64();
            let line = line.during(|| "listening to a child".into())?;
            said.push((
                seconds,
                serde_json::from_str(&line).during(|| line.clone())?,
            ));
        }
    }
    let status = child.wait().during(|| "waiting for a child".into())?;
    let killed = std::os::unix::process::ExitStatusExt::signal(&status).is_some();
    if !(status.success() || (killed && options.what == What::Crash)) {
        fail!("a child ended with {status}");
    }
    Ok(said)
}

fn seconds_of_clean(report: &Report) -> Spread {
    Spread::of(report.clean.iter().map(|start| start.seconds))
}

fn rate_beside_plain(start: &Start) -> f64 {
    let rate = start.scanned_bytes as f64 / start.scan_seconds;
    let plain = start.plain_bytes as f64 / start.plain_seconds;
    rate / plain
}

fn hits_of(start: &Start) -> f64 {
    start.hits as f64 / start.asked.max(1) as f64
}

fn judge(report: &Report) -> Vec<Verdict> {
    vec![
        at_most(
            "clean: seconds to the first hit (median)".into(),
            seconds_of_clean(report).median,
            FIRST_HIT_S_MAX,
        ),
        at_least(
            "no checkpoint: scan rate beside plain reading".into(),
            rate_beside_plain(&report.no_checkpoint),
            SCAN_RATE_MIN,
        ),
        at_least(
            "crash: share of a sample that hits".into(),
            hits_of(&report.crash),
            HITS_MIN,
        ),
        at_least(
            "no checkpoint: share of a sample that hits".into(),
            hits_of(&report.no_checkpoint),
            HITS_MIN,
        ),
    ]
}

fn table(report: &Report) -> Table {
    let mut table = Table::new([
        "store-start",
        "first hit",
        "open",
        "read",
        "build",
        "mark",
        "hit",
        "scanned",
        "in",
        "CPU",
        "plain",
        "hits",
    ]);
    let ms = |ms: f64| format!("{ms:.0} ms");
    let of_clean = |of: &dyn Fn(&Start) -> f64| Spread::of(report.clean.iter().map(of)).median;
    table.row([
        format!("clean, median of {}", report.clean.len()),
        ms(seconds_of_clean(report).median * 1e3),
        ms(of_clean(&|s| s.opening.open_ms)),
        ms(of_clean(&|s| s.opening.read_ms)),
        ms(of_clean(&|s| s.opening.build_ms)),
        ms(of_clean(&|s| s.opening.mark_ms)),
        ms(of_clean(&|s| s.first_hit_ms)),
    ]);
    for (name, start) in [
        ("crash", &report.crash),
        ("no checkpoint", &report.no_checkpoint),
    ] {
        let opening = &start.opening;
        table.row([
            name.to_owned(),
            ms(start.seconds * 1e3),
            ms(opening.open_ms),
            ms(opening.read_ms),
            ms(opening.build_ms),
            ms(opening.mark_ms),
            ms(start.first_hit_ms),
            format!("{} MiB", start.scanned_bytes >> 20),
            format!("{:.2} s", start.scan_seconds),
            format!("{:.2} s", start.scan_cpu_seconds),
            format!("{:.2} s", start.plain_seconds),
            format!("{} of {}", start.hits, start.asked),
        ]);
    }
    let last = report.clean.last();
    println!(
        "store of {} MiB with {} records, filled at {:.0} MiB/s; log, journal and checkpoint of {} MiB; O_DIRECT {}, {}; first insert after {:.1} ms; closed in {:.0} ms",
        report.store_bytes >> 20,
        last.map_or(0, |s| s.opening.records),
        report.fill_mib_s,
        last.map_or(0, |s| s.opening.read_bytes) >> 20,
        last.is_some_and(|s| s.opening.direct),
        last.map_or("", |s| &s.opening.engine),
        of_clean(&|s| s.first_insert_ms),
        of_clean(&|s| s.close_ms),
    );
    table
}

#[cfg(test)]
mod tests {
    use super::super::child::carry_out;
    use super::*;

    /// As a child, but for the kill: the store is dropped with the file open, which is the same to the next start.
    fn here(options: &ChildOptions) -> Result<Vec<(f64, Said)>> {
        let said = std::cell::RefCell::new(Vec::new());
        let began = Instant::now();
        let say = |words: Said| {
            said.borrow_mut()
                .push((began.elapsed().as_secs_f64(), words));
            Ok(())
        };
        on_this_thread(carry_out(options, &say))?;
        Ok(said.into_inner())
    }

    #[test]
    fn a_tiny_one() {
        let dir = tempfile::tempdir().unwrap();
        let options = Options {
            objects: 10_000,
            mean: Bytes(3 << 10),
            after: Bytes(4 << 20),
            starts: 1,
            path: Some(dir.path().to_owned()),
            json: false,
        };
        let report = measure(&options, &here).unwrap();
        assert!(report.clean[0].opening.records > 8_000, "{report:?}");
        assert_eq!(report.clean[0].opening.scan_bytes, 0);
        let crash = &report.crash;
        assert!(crash.scanned_bytes >= 4 << 20, "{crash:?}");
        assert!(crash.scanned_bytes < report.store_bytes / 2, "{crash:?}");
        assert!(hits_of(crash) >= HITS_MIN, "{crash:?}");
        assert!(hits_of(&report.no_checkpoint) >= HITS_MIN, "{report:?}");
        assert_eq!(judge(&report).len(), 4);
        assert!(table(&report).render().contains("no checkpoint"));
    }
}
