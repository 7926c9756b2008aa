//! `loligo bench`: load a proxy, any proxy, and check what it answers.
//!
//! What was typed becomes a `Test` (`args`); `polymix` runs it; here it is shown while it runs and when it is over. The
//! report goes to standard output, progress to standard error.
//!
//! Not known here: the workload.   Limits: those of `polymix`.

mod args;

use std::io::{self, Write as _};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use polymix::report::Report;
use polymix::robots::Progress;
use polymix::run;

pub use args::{BENCH_HELP, BenchCommand};

use crate::machine;

/// The run could not be made.
const EXIT_NO_RUN: u8 = 2;

/// Runs what was typed.
pub fn run(command: &BenchCommand) -> ExitCode {
    machine::raise_files_limit();
    match command {
        BenchCommand::Polymix(flags) => load(flags, true),
        BenchCommand::Robots(flags) => load(flags, false),
        BenchCommand::Origin(flags) => {
            let test = flags.test();
            let servers = test.servers();
            eprintln!(
                "loligo: {} servers from {} on; Ctrl-C ends them",
                servers.count, servers.first
            );
            match run::origin(&test, std::future::pending()) {
                Ok(()) => ExitCode::SUCCESS,
                Err(e) => complain(&format!("{}: {e}", servers.first)),
            }
        }
    }
}

fn load(flags: &args::LoadFlags, with_origin: bool) -> ExitCode {
    let test = match flags.test() {
        Ok(test) => test,
        Err(e) => return complain(&e),
    };
    let mut replies_before = 0;
    let show = |progress: &Progress| {
        if !flags.quiet {
            eprintln!("{}", line(progress, progress.replies - replies_before));
        }
        replies_before = progress.replies;
    };
    let report = if with_origin {
        run::polymix(&test, show)
    } else {
        run::robots(&test, show)
    };
    match report {
        Ok(report) => tell(&report, flags.json.as_deref()),
        Err(e) => complain(&e.to_string()),
    }
}

fn tell(report: &Report, json: Option<&Path>) -> ExitCode {
    // A reader that has seen enough is no failure.
    let _ = io::stdout().lock().write_all(report.text().as_bytes());
    if let Some(path) = json
        && let Err(e) = std::fs::write(path, report.json())
    {
        return complain(&format!("{}: {e}", path.display()));
    }
    if report.total.errors == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn line(progress: &Progress, replies: u64) -> String {
    let frozen = if progress.frozen { ", frozen" } else { "" };
    format!(
        "{:>6} s  {:6} {:>5} s  {replies:>6} replies/s  {:>6} on their way  {:>5} wrong  {} fills, {} MB{frozen}",
        seconds(progress.time),
        progress.phase,
        seconds(progress.phase_time),
        progress.in_flight,
        progress.errors,
        progress.fills.count,
        progress.fills.bytes / 1_000_000,
    )
}

fn seconds(time: Duration) -> u64 {
    time.as_secs()
}

fn complain(what: &str) -> ExitCode {
    eprintln!("loligo: {what}");
    ExitCode::from(EXIT_NO_RUN)
}
