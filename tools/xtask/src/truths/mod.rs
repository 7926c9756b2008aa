//! `cargo xtask truths`: figures that a report must show, because the load was made with them.
//!
//! A real loligo runs between clients and an origin of ours with known times; then `loligo report` reads its profile:
//!
//! | truth | known | found in |
//! |---|---|---|
//! | `think` | the origin waits for 200 ms before it answers | Figure 11, misses |
//! | `little` | mean number of waiting clients: rate times mean response (Little's law) | Figure 4, all |
//! | `connect` | packets to the origin take 20 ms each way ([`connect`]) | Figure 10 |
//! | `disk` | the device does ten reads a second ([`disk`]) | Figure 21, swap-in |
//! | `records` | rules for every record of a PolyMix run ([`records`]) | the profile |
//! | `duckdb` | SQL over the export of that run ([`duckdb`]) | eight figures, to the digit |
//!
//! A truth that cannot be tested here (no root, no DuckDB) is reported as such; it neither passes nor fails.
//!
//! Limits: each test takes less than two minutes; loads only this machine.

mod connect;
mod disk;
mod duckdb;
mod figures;
mod origin;
mod polymix;
mod records;
mod steady;
pub mod verdict;

use clap::{Args, ValueEnum};

use crate::failure::{Result, fail};
use crate::rivals::{build_lab, build_loligo};
use verdict::Verdict;

/// Which ones.
#[derive(Debug, Args)]
pub struct Options {
    /// Only these [default: all]
    #[arg(value_enum)]
    truths: Vec<Truth>,
    /// Check this profile in place of a PolyMix run (records, duckdb)
    #[arg(long, value_name = "FILE")]
    profile: Option<std::path::PathBuf>,
    /// Already in a network of its own: print verdicts as JSON
    #[arg(long, hide = true)]
    inside: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Truth {
    Think,
    Little,
    Connect,
    Disk,
    Records,
    Duckdb,
}

/// The result of a test, or the reason why it cannot run here.
enum Told {
    Verdicts(Vec<Verdict>),
    Untold(String),
}

/// Runs all tests; fails if one fails.
pub fn run(options: &Options) -> Result<()> {
    build_loligo()?;
    if options.inside {
        return connect::inside();
    }
    build_lab()?;
    let wants = |truth| options.truths.is_empty() || options.truths.contains(&truth);
    let mut verdicts = Vec::new();
    let mut untold = Vec::new();
    let mut tell = |name: &str, told: Result<Told>| match told {
        Ok(Told::Verdicts(found)) => {
            found.iter().for_each(|verdict| println!("{verdict}"));
            verdicts.extend(found);
        }
        Ok(Told::Untold(why)) => {
            println!("untold  {name}: {why}");
            untold.push(name.to_owned());
        }
        // The other tests still run.
        Err(failure) => {
            let verdict = Verdict::broken(name, &failure.to_string());
            println!("{verdict}");
            verdicts.push(verdict);
        }
    };
    if wants(Truth::Think) || wants(Truth::Little) {
        tell("think and little", steady::tell());
    }
    if wants(Truth::Connect) {
        tell("connect", connect::tell());
    }
    if wants(Truth::Disk) {
        tell("disk", disk::tell());
    }
    if wants(Truth::Records) || wants(Truth::Duckdb) {
        let run = match &options.profile {
            Some(profile) => Ok(polymix::Run::of_file(profile)),
            None => polymix::run(),
        };
        match run {
            Ok(run) => {
                if wants(Truth::Records) {
                    tell("records", records::tell(&run));
                }
                if wants(Truth::Duckdb) {
                    tell("duckdb", duckdb::tell(&run));
                }
            }
            Err(failure) => tell("records and duckdb", Err(failure)),
        }
    }
    crate::interrupt::check()?;
    let missed = verdicts.iter().filter(|verdict| !verdict.is_met).count();
    println!(
        "{} of {} met, {} untold",
        verdicts.len() - missed,
        verdicts.len(),
        untold.len()
    );
    match missed {
        0 => Ok(()),
        _ => fail!("{missed} of {} truths are missed", verdicts.len()),
    }
}
