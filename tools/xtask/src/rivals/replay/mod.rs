//! `cargo xtask rivals replay`: a trace through Loligo and its rivals, one after the other, at equal memory and disk.
//!
//! The sizes are shares of the bytes of the trace's different objects, as `loligo lab trace` counts them. `contestants` chooses the
//! proxies. Each gets an empty store in its run directory, and the requests of `loligo lab replay`, which is origin and clients at once
//! (`run`). The file of results is written after each run.
//!
//! All proxies run as reverse proxies, so there is one origin.
//!
//! Not known here: how a proxy is configured (its file in `rivals`), what a hit is (`loligo lab replay`).
//! Limits: a run ends after `--time-max`. A proxy that keeps files may exceed its disk size, so the table shows how much each used.

mod contestants;
mod run;
mod table;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use clap::Args;
use serde::Serialize;

use self::contestants::Contestant;
use self::run::Outcome;
use super::{build_lab, build_loligo, lab_binary};
use crate::failure::{During, Result, fail};
use crate::progress::Progress;
use crate::size::Bytes;

pub const HELP: &str = "\
Examples:
  cargo xtask rivals replay bu-1994-95.tsv.zst --versions none --json bu.json
  cargo xtask rivals replay access.log --disk 1,10 --only loligo,squid-aufs-gdsf,nginx
  cargo xtask rivals replay trace.csv --only loligo --loligo 'tenth:replacement=reinsertion=10' --loligo 'all:admission=all'

A setting of Loligo is one of [store], unless it names its section: --loligo 'NAME:admission=by-size,memory.size=64MiB'.";

/// The least memory and disk that a contestant is given.
const MEMORY_MIN: u64 = 1 << 20;
const DISK_MIN: u64 = 4 << 20;

/// What to play, and through whom.
#[derive(Debug, Args)]
pub struct Options {
    /// A trace with sizes, in a format of `loligo lab trace`
    trace: PathBuf,
    /// Format of the trace [default: found out]
    #[arg(long)]
    format: Option<String>,
    /// Columns of CSV
    #[arg(long)]
    columns: Option<String>,
    /// Which other size of an object is a new version: any, over=N, none
    #[arg(long, default_value = "any")]
    versions: String,
    /// Sizes of the disk, in percent of the bytes of the trace's different objects
    #[arg(long, value_delimiter = ',', default_value = "10", value_parser = percent)]
    disk: Vec<f64>,
    /// Size of the memory, likewise
    #[arg(long, default_value = "1", value_parser = percent)]
    memory: f64,
    /// Loligo with these settings, NAME:key=value,…; may be repeated [default: default, second-chance, second-hit, gdsf]
    #[arg(long, value_name = "NAME:SETTINGS")]
    loligo: Vec<contestants::Wanted>,
    /// Only these: loligo is all of Loligo, squid all of Squid
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Requests at a time
    #[arg(long, default_value_t = 8)]
    connections: u32,
    /// Requests a second at most [default: as fast as they are answered]
    #[arg(long)]
    pace: Option<f64>,
    /// Only the first so many requests; sizes stay shares of the whole trace
    #[arg(long)]
    limit: Option<u64>,
    /// Threads or processes that serve
    #[arg(long, default_value_t = 2)]
    workers: u32,
    /// A run that takes longer is broken off, in minutes
    #[arg(long, default_value_t = 240)]
    time_max: u64,
    /// Write all figures to this file
    #[arg(long)]
    json: Option<PathBuf>,
}

/// The figures of `loligo lab trace` that are used here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
struct Trace {
    requests: u64,
    object_bytes: u64,
}

/// All results.
#[derive(Debug, Serialize)]
struct Found<'a> {
    trace: String,
    versions: &'a str,
    requests: u64,
    object_bytes: u64,
    connections: u32,
    pace: Option<f64>,
    not_installed: Vec<&'static str>,
    sizes: Vec<Size>,
}

/// All contestants at one size of the disk.
#[derive(Debug, Serialize)]
struct Size {
    disk_percent: f64,
    disk_bytes: u64,
    memory_bytes: u64,
    runs: Vec<Run>,
}

/// One contestant at one size.
#[derive(Debug, Serialize)]
struct Run {
    name: String,
    version: Option<String>,
    settings: Vec<String>,
    outcome: Outcome,
}

impl Options {
    /// The flags of `loligo lab` for reading the trace.
    fn reading(&self) -> Vec<String> {
        let mut flags = vec!["--versions".to_owned(), self.versions.clone()];
        for (flag, value) in [("--format", &self.format), ("--columns", &self.columns)] {
            if let Some(value) = value {
                flags.extend([flag.to_owned(), value.clone()]);
            }
        }
        flags
    }
}

/// Replays and prints.
pub fn run(options: &Options) -> Result<()> {
    let contestants = contestants::chosen(&options.loligo, &options.only)?;
    if contestants.iter().any(|it| it.rival.is_ours()) {
        build_loligo()?;
    }
    build_lab()?;
    let (here, away): (Vec<&Contestant>, Vec<&Contestant>) =
        contestants.iter().partition(|it| it.rival.is_installed());
    let trace = look_at(&options.trace, &options.reading())?;
    let mut found = Found {
        trace: options.trace.display().to_string(),
        versions: &options.versions,
        requests: options.limit.unwrap_or(u64::MAX).min(trace.requests),
        object_bytes: trace.object_bytes,
        connections: options.connections,
        pace: options.pace,
        not_installed: away.iter().map(|it| it.rival.name()).collect(),
        sizes: Vec::new(),
    };
    let mut progress = Progress::new("replay", (options.disk.len() * here.len()) as u64);
    for &disk_percent in &options.disk {
        let share = |percent: f64, min: u64| {
            // Whole mebibytes, which all proxies can be configured with.
            let mebibytes =
                (trace.object_bytes as f64 * percent / 100.0 / f64::from(1 << 20)).round();
            ((mebibytes as u64) << 20).max(min)
        };
        found.sizes.push(Size {
            disk_percent,
            disk_bytes: share(disk_percent, DISK_MIN),
            memory_bytes: share(options.memory, MEMORY_MIN),
            runs: Vec::new(),
        });
        for contestant in &here {
            let size = found.sizes.last_mut().expect("one was added above");
            let sizes = run::Sizes {
                disk: Bytes(size.disk_bytes),
                memory: Bytes(size.memory_bytes),
            };
            progress.say(format!("{} at {disk_percent} %", contestant.name));
            let outcome = run::run(contestant, sizes, options, &mut |line| {
                progress.say(format!("{} at {disk_percent} %: {line}", contestant.name));
            })?;
            size.runs.push(Run {
                name: contestant.name.clone(),
                version: contestant.rival.version(),
                settings: contestant.settings.clone(),
                outcome,
            });
            if let Some(path) = &options.json {
                let text =
                    serde_json::to_string_pretty(&found).during(|| "writing figures".into())?;
                std::fs::write(path, text).during(|| format!("writing {}", path.display()))?;
            }
            progress.step();
        }
    }
    drop(progress);
    print!("{}", table::text(&found));
    verdict(&found)
}

/// An error if a contestant could not be measured, or answered with wrong bytes.
fn verdict(found: &Found<'_>) -> Result<()> {
    let runs = found.sizes.iter().flat_map(|size| &size.runs);
    let bad = |run: &&Run| match &run.outcome {
        Outcome::Played(played) => played.report.wrong() > 0 || played.report.cut_short.is_some(),
        Outcome::Failed(_) => true,
    };
    let names: Vec<&str> = runs.filter(bad).map(|run| run.name.as_str()).collect();
    if !names.is_empty() {
        fail!("not measured, or with wrong bytes: {}", names.join(", "));
    }
    Ok(())
}

/// Counts the trace's requests and objects.
fn look_at(trace: &Path, reading: &[String]) -> Result<Trace> {
    let output = Command::new(lab_binary())
        .args(["lab", "trace"])
        .arg(trace)
        .args(reading)
        .args(["--quiet", "--json", "-"])
        .output()
        .during(|| format!("running {}", lab_binary().display()))?;
    if !output.status.success() {
        fail!("{}", String::from_utf8_lossy(&output.stderr).trim_end());
    }
    let json: serde_json::Value =
        serde_json::from_slice(&output.stdout).during(|| "reading what lab trace says".into())?;
    let number = |name: &str| json["summary"][name].as_u64();
    match (number("requests"), number("object_bytes")) {
        (Some(requests), Some(object_bytes)) if requests > 0 => Ok(Trace {
            requests,
            object_bytes,
        }),
        _ => fail!("{}: no requests in it", trace.display()),
    }
}

impl Options {
    /// How long a run may take.
    fn time_max(&self) -> Duration {
        Duration::from_secs(60 * self.time_max)
    }
}

fn percent(text: &str) -> Result<f64, String> {
    let value = text.trim_end_matches('%').parse::<f64>().ok();
    value
        .filter(|value| (0.01..=1000.0).contains(value))
        .ok_or_else(|| "a number from 0.01 to 1000".to_owned())
}
