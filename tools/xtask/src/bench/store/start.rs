//! `cargo xtask bench store-start`: how long from the start of a process to the first hit from disk.
//!
//! A store on a real file is filled once over. Then, each time in a fresh process (this program with a hidden command):
//!
//! * *clean*: the store was closed in order; repeated a few times.
//! * *crash*: some gigabytes were written since the last checkpoint, and the process killed itself with SIGKILL. Records
//!   written since are found again by a scan, while the store serves. The scan's time is compared with a sequential read of as
//!   many bytes, as by `dd`, on another part of the file.
//! * *no checkpoint*: both checkpoint areas are overwritten, so everything is scanned. Scan and plain reading take turns, a part
//!   of the store each, with four reads of 1 MiB under way in both. They read different halves, so that
//!   caches below favour neither.
//!
//! A hit is a look-up, a read past the page cache, and a record that is whole and has the right key. The parent measures the
//! time, from before the process is made to the line that reports the hit. Afterwards a sample of the records is requested.
//!
//! Limits: the disk of a virtual machine may be cached by its host. Objects are not replaced and not read meanwhile, so the
//! newest objects, as many as the index has records, must all be found.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Instant;

use clap::{Args, ValueEnum};

use super::super::stats::Spread;
use super::child::{
    ChildOptions, FILL_MIB_S, FIRST_HIT_MS, HITS_PERCENT, NEXT, RATES, SPREAD, What,
};
use super::disk::{self, Scratch, on_this_thread};
use super::load::{Objects, plan};
use super::sheet::{Column, Sheet, Want};
use crate::failure::{During, Failure, Result, fail};
use crate::size::Bytes;
use crate::workspace;

/// The time from before the process was made.
const START_MS: &str = "start to first hit, ms";

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

/// Measures and prints; fails if a target is missed.
pub fn run(options: &Options) -> Result<()> {
    measure(options, &spawn)?.finish(options.json)
}

/// One result of a child: seconds since before it was made, title, number.
type Said = (f64, String, f64);
/// Carries out the work of a child: in a process of its own, or in a test within this process.
type Carry<'a> = &'a dyn Fn(&ChildOptions) -> Result<Vec<Said>>;

fn number_of(said: &[Said], title: &str) -> Result<f64> {
    let found = said.iter().find(|s| s.1 == title);
    let found = found.ok_or_else(|| Failure::new(format!("a child did not say: {title}")));
    Ok(found?.2)
}

fn measure(options: &Options, carry: Carry<'_>) -> Result<Sheet> {
    let objects = Objects::new(options.mean.0, SPREAD);
    let (size, _) = plan(&objects, options.objects)?;
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
        // Beyond its size, so that every region is written at least once.
        bytes: size + size / 20,
    };
    eprintln!("filling {} MiB", child.bytes >> 20);
    let filled = carry(&child)?;
    child.next = number_of(&filled, NEXT)? as u64;
    child.size = 0;
    child.what = What::Start;
    let mut clean = Vec::new();
    for number in 0..options.starts {
        eprintln!("clean start {}", number + 1);
        clean.push(carry(&child)?);
    }
    eprintln!("storing {} more, and a crash", options.after);
    child.what = What::Crash;
    child.bytes = options.after.0;
    child.next = number_of(&carry(&child)?, NEXT)? as u64;
    child.what = What::Recover;
    let crash = carry(&child)?;
    eprintln!("without a checkpoint");
    on_this_thread(disk::destroy_checkpoints(&file.0))?;
    child.what = What::Scan;
    let scanned = carry(&child)?;

    let mut sheet = Sheet::new("store-start");
    let one_s = Want::AtMost(1000.0);
    sheet.push(column("clean", &clean)?.with_targets(&[(START_MS, one_s)]));
    let hits = (HITS_PERCENT, Want::AtLeast(99.0));
    sheet.push(column("crash", &[crash])?.with_targets(&[hits]));
    let mut column = column("no checkpoint", std::slice::from_ref(&scanned))?.with_targets(&[hits]);
    let [scan, plain] = [RATES[0], RATES[1]].map(|title| number_of(&scanned, title));
    let beside = scan? / plain?;
    column.target(
        "scan rate beside plain reading",
        3,
        beside,
        Want::AtLeast(0.9),
    );
    sheet.push(column);
    let (starts, rate) = (clean.len(), number_of(&filled, FILL_MIB_S)?);
    sheet.note(format!(
        "A store of {} MiB, filled at {rate:.0} MiB/s; clean: medians of {starts} starts.",
        size >> 20
    ));
    Ok(sheet)
}

/// The medians of the results of these starts.
fn column(name: &str, starts: &[Vec<Said>]) -> Result<Column> {
    let mut column = Column::new(name);
    let median = |of: &dyn Fn(&[Said]) -> Result<f64>| -> Result<f64> {
        let numbers: Vec<f64> = starts.iter().map(|said| of(said)).collect::<Result<_>>()?;
        Ok(Spread::of(numbers).median)
    };
    let hit_at = |said: &[Said]| match said.iter().find(|s| s.1 == FIRST_HIT_MS) {
        Some(hit) => Ok(hit.0 * 1e3),
        None => Err(Failure::new("a start ended without a hit")),
    };
    column.add(START_MS, 0, median(&hit_at)?);
    for (_, title, _) in starts.first().into_iter().flatten() {
        let decimals = match title.rsplit(", ").next() {
            Some("s") => 2,
            Some("ms") => 1,
            _ => 0,
        };
        column.add(title, decimals, median(&|said| number_of(said, title))?);
    }
    Ok(column)
}

/// Carries out a child's work in a process of its own, which must end by SIGKILL if it is to crash.
fn spawn(options: &ChildOptions) -> Result<Vec<Said>> {
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
            let (number, title) = line.split_once(' ').unwrap_or((&line, ""));
            let number = number.parse().during(|| format!("a child said {line:?}"))?;
            said.push((seconds, title.to_owned(), number));
        }
    }
    let status = child.wait().during(|| "waiting for a child".into())?;
    let killed = std::os::unix::process::ExitStatusExt::signal(&status).is_some();
    if !(status.success() || (killed && options.what == What::Crash)) {
        fail!("a child ended with {status}");
    }
    Ok(said)
}

#[cfg(test)]
mod tests {
    use super::super::child::{RECORDS, SCANNED_MIB, TO_SCAN_MIB, carry_out};
    use super::*;

    /// As a child, but without the kill: the store is dropped with the file open, which looks the same to the next start.
    fn here(options: &ChildOptions) -> Result<Vec<Said>> {
        let said = std::cell::RefCell::new(Vec::new());
        let began = Instant::now();
        let say = |title: &str, number: f64| {
            let seconds = began.elapsed().as_secs_f64();
            said.borrow_mut().push((seconds, title.to_owned(), number));
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
        let sheet = measure(&options, &here).unwrap();
        assert!(sheet.found("clean", RECORDS) > 8_000.0, "{sheet:?}");
        assert_eq!(sheet.found("clean", TO_SCAN_MIB), 0.0);
        assert!(!sheet.render().contains("No figure"), "{sheet:?}");
        let scanned = sheet.found("crash", SCANNED_MIB);
        assert!((4.0..16.0).contains(&scanned), "{sheet:?}");
        assert!(
            sheet.found("no checkpoint", TO_SCAN_MIB) > 30.0,
            "{sheet:?}"
        );
        for column in ["crash", "no checkpoint"] {
            assert!(sheet.found(column, HITS_PERCENT) >= 99.0, "{sheet:?}");
        }
        assert_eq!(sheet.verdicts().len(), 4);
    }
}
