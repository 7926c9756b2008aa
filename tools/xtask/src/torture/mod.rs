//! `cargo xtask torture`: kills the proxy again and again, and compares every byte it serves.
//!
//! The other tests of the store simulate the disk; here are the real program, a real kernel and SIGKILL. An origin of our own
//! (`origin`) has some thousands of URLs in versions (`bodies`). A few dozen clients (`clients`) request them through the
//! proxy (`proxy`), raise versions and invalidate them; each answer is compared with what it claims to be and with
//! what was acknowledged before (`check`, `ledger`). During upgrades, clients of HTTP/2 read too (`streams`). Meanwhile `trial` kills
//! and restarts, and `test_bed` damages the store.
//!
//! An answer that passes these checks is right. A limit: SIGKILL leaves the kernel alive, so
//! data written without a flush is still there. Power failures are simulated by the tests of the store.

mod bodies;
mod check;
mod clients;
mod goaway;
mod ledger;
mod origin;
mod proxy;
mod report;
mod steps;
mod streams;
mod test_bed;
#[cfg(test)]
mod tests;
mod trial;
mod upgrade;

use std::path::{Path, PathBuf};

use clap::{ArgAction, Args, ValueEnum};

use self::report::Report;
use self::test_bed::{Fault, On};
use self::trial::Plan;
use crate::failure::{During, Result, fail};
use crate::progress::Progress;
use crate::rivals;
use crate::size::Bytes;

/// The share of durable objects that must hit again, in percent.
const EXPECTED_HITS_PERCENT: f64 = 99.0;
/// In smaller stores, large objects are evicted while they are being read.
const STORE_BYTES_MIN: u64 = 64 << 20;
const KILLS_MAX: u64 = 100_000;
/// Whether the proxy promises that a download which began before a purge ends whole.
const WHOLE_DOWNLOADS: bool = true;
/// Whether the proxy promises that no request waits for a hanging device longer than the deadline of a read.
const BOUNDED_WAITS: bool = true;

const AFTER_HELP: &str = "\
What happens: loligo is built (release), started as a reverse proxy on 127.0.0.1 in front of an origin of
this command's own, and put under load: GETs, ranges, POSTs, purges, no-cache GETs, clients that hang up,
slow downloads whose object is purged and changed meanwhile.
At random moments it is killed (SIGKILL) and started again on the same store. Every byte of every answer
is compared, and no answer may be older than what was acknowledged before the request began. The exit
status is not 0 if one was, if a request failed that no kill explains, or if a restart failed.

With --upgrade there are also clients of HTTP/2 over TLS (openssl makes the certificate), by the crate h2: 4
connections of 8 streams that read bodies of some 700 KB, which the memory does not hold, without a pause
through every upgrade and through the stop at the end. The exit status is not 0 if one that began was cut, but
by a kill. What GOAWAY leaves out is asked again on a new connection. With a configuration of your own (-c)
they are left out.

Examples:
  cargo xtask torture                                  a few minutes, all that can be done here
  cargo xtask torture --kills 200 --on file            no root needed
  cargo xtask torture --kills 1000 --report out.json   about an hour
  cargo xtask torture --kills 20 --on loop --faults throttle
  cargo xtask torture --upgrade --kills 200 --on file  another process takes over, again and again
  cargo xtask torture --seed 77 --kills 5 --seconds-between 5..9 --expect-hits 99

Faults:
  flip      between kill and restart: bits of the superblock, of metadata or of records are turned over,
            blocks of data emptied or exchanged
  detach    while it runs: reads and writes fail (the file is cut short, or made immutable); needs root
  throttle  while it runs: one operation a second; needs root, a loop device and the cgroup v1 blkio
            controller
  hang      while it runs: no operation ends for some ten seconds; needs the same. No request may wait
            for a byte longer than the deadline of a read and the origin take

Everything lies in a directory loligo-torture-* below the system's temporary directory (TMPDIR), and is
removed at the end, also after Ctrl-C. A seed repeats URLs, bodies and the plan of kills, but not how the
clients' requests interleave.";

/// How to torture.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub struct Options {
    /// SIGKILLs in all
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u64).range(1..=KILLS_MAX))]
    kills: u64,
    /// Repeats the plan of an earlier run; random if not given
    #[arg(long)]
    seed: Option<u64>,
    /// Where the store lies; both with root, else file
    #[arg(long, value_enum)]
    on: Option<Where>,
    /// So many upgrades instead of kills; in half of them the new process or the old one is killed, mostly at a step of the hand-over by name
    #[arg(long)]
    upgrade: bool,
    /// How long it lives from a start to the next kill; some lives are far shorter
    #[arg(long, value_name = "A..B", default_value = "1..6", value_parser = seconds)]
    seconds_between: (f64, f64),
    /// What else is done, in two rounds of five
    #[arg(long, value_enum, default_value = "all")]
    faults: Faults,
    /// The URLs together fill somewhat less than half of it
    #[arg(long, default_value = "256MiB")]
    store_size: Bytes,
    /// Fails if less than this share of what was durable hits again after a restart
    #[arg(long, value_name = "PERCENT", default_value_t = EXPECTED_HITS_PERCENT)]
    expect_hits: f64,
    /// Fails, too, if a version comes back that a no-cache GET had replaced (its store may have refused the new one)
    #[arg(long)]
    strict: bool,
    /// Fails, too, if a download is cut off because its object was purged meanwhile
    #[arg(long, value_name = "BOOL", default_value_t = WHOLE_DOWNLOADS, action = ArgAction::Set)]
    whole_downloads: bool,
    /// Fails, too, if a request waits longer than a read may take while the device hangs
    #[arg(long, value_name = "BOOL", default_value_t = BOUNDED_WAITS, action = ArgAction::Set)]
    bounded_waits: bool,
    /// Writes what was found here too, as JSON
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Further arguments for `loligo serve`
    #[arg(last = true)]
    extra: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Where {
    File,
    Loop,
    Both,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Faults {
    None,
    Flip,
    Detach,
    Throttle,
    Hang,
    All,
}

impl Faults {
    fn list(self) -> Vec<Fault> {
        match self {
            Self::None => Vec::new(),
            Self::Flip => vec![Fault::Flip],
            Self::Detach => vec![Fault::Detach],
            Self::Throttle => vec![Fault::Throttle],
            Self::Hang => vec![Fault::Hang],
            Self::All => vec![Fault::Flip, Fault::Detach, Fault::Throttle, Fault::Hang],
        }
    }
}

/// Parses a range such as `1..6` or `0.5..2`.
fn seconds(text: &str) -> Result<(f64, f64), String> {
    let parse = |part: &str| {
        part.parse::<f64>()
            .ok()
            .filter(|s| (0.0..=600.0).contains(s))
    };
    text.split_once("..")
        .and_then(|(from, to)| Some((parse(from)?, parse(to)?)))
        .filter(|(from, to)| from <= to)
        .ok_or_else(|| format!("{text:?} is not of the form 1..6, with seconds from 0 to 600"))
}

/// Runs the trials and prints their reports; fails if anything was wrong.
pub fn run(options: &Options) -> Result<()> {
    if options.store_size.0 < STORE_BYTES_MIN {
        fail!("--store-size must be at least {}", Bytes(STORE_BYTES_MIN));
    }
    let seed = options.seed.unwrap_or_else(random_seed);
    let root = rustix::process::geteuid().is_root();
    let grounds = match options.on {
        Some(Where::File) => vec![On::File],
        Some(Where::Loop) => vec![On::Loop],
        Some(Where::Both) => vec![On::File, On::Loop],
        None if root => vec![On::File, On::Loop],
        None => vec![On::File],
    };
    rivals::build_loligo()?;
    let binary = rivals::loligo_binary();
    let mut reports: Vec<Report> = Vec::new();
    {
        let mut progress = Progress::new("torture: kills", options.kills);
        for (n, on) in grounds.iter().enumerate() {
            // The first trial takes the remainder.
            let rest = (grounds.len() - n) as u64;
            let before: u64 = reports.iter().map(|r| r.kills_asked).sum();
            let plan = Plan {
                on: *on,
                kills: (options.kills - before).div_ceil(rest),
                seed: seed.wrapping_add(n as u64),
                seconds: options.seconds_between,
                faults: options.faults.list(),
                store: options.store_size,
                strict: options.strict,
                whole_downloads: options.whole_downloads,
                bounded_waits: options.bounded_waits,
                extra: options.extra.clone(),
                kills_before: before,
                upgrade: options.upgrade,
                name: format!("{}-{n}", std::process::id()),
            };
            reports.push(trial::run(&plan, &binary, &mut progress)?);
        }
    }
    tell(&reports, options.report.as_deref())?;
    let complaints: Vec<String> = reports
        .iter()
        .filter_map(|r| r.complaint(options.expect_hits))
        .collect();
    if !complaints.is_empty() {
        fail!("{} (seed {seed})", complaints.join("; "));
    }
    Ok(())
}

fn tell(reports: &[Report], file: Option<&Path>) -> Result<()> {
    for report in reports {
        println!("{}", report.text());
    }
    if let Some(file) = file {
        let json =
            serde_json::to_string_pretty(reports).during(|| "the report as JSON".into())? + "\n";
        std::fs::write(file, json).during(|| format!("writing {}", file.display()))?;
    }
    Ok(())
}

fn random_seed() -> u64 {
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap_or_default();
    // Short enough to be typed.
    crate::chance::mix(now.as_nanos() as u64) % 1_000_000
}
