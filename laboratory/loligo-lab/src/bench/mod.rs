//! `loligo bench`: loads any proxy, and checks its answers.
//!
//! The arguments become a `Test` (`args`, `search_args`); `polymix` runs it; this module shows a run while it lasts (`live`, `log`) and
//! afterwards, or reads reports back (`files`). The report goes to standard output, progress to standard error.
//!
//! Not known here: the workload, the form of a report.   Limits: those of `polymix`.

mod args;
mod command;
mod files;
mod live;
mod log;
mod search_args;

use std::net::{SocketAddr, TcpStream};
use std::process::ExitCode;
use std::time::Duration;

use commands::out::OutFlags;
use polymix::pages;
use polymix::report::{Report, Stamp};
use polymix::run;
use polymix::search::{self, Found, SearchReport};

pub use command::{BENCH_HELP, BenchCommand};

use self::args::{LoadFlags, ReportFlags};
use self::files::Read;
use self::live::Live;
use self::log::Log;
use self::search_args::SearchFlags;

/// The exit status if no run could be made.
const EXIT_NO_RUN: u8 = 2;
/// A proxy that accepts no connection in this time counts as not running.
const CONNECT_MAX: Duration = Duration::from_secs(5);

/// Runs the command.
pub fn run(command: &BenchCommand) -> ExitCode {
    if let Err(error) = commands::raise_files_limit() {
        eprintln!("loligo: could not raise the limit of open files: {error}");
    }
    let done = match command {
        BenchCommand::Polymix(flags) => load(flags, true),
        BenchCommand::Robots(flags) => load(flags, false),
        BenchCommand::Search(flags) => search(flags),
        BenchCommand::Report(flags) => show(flags),
        BenchCommand::Compare(flags) => compare(flags),
        BenchCommand::Origin(flags) => {
            let test = flags.test();
            let servers = test.servers();
            eprintln!(
                "loligo: {} servers from {} on; Ctrl-C ends them",
                servers.count, servers.first
            );
            run::origin(&test, std::future::pending())
                .map(|()| ExitCode::SUCCESS)
                .map_err(|e| format!("{}: {e}", servers.first))
        }
    };
    done.unwrap_or_else(|what| {
        eprintln!("loligo: {what}");
        ExitCode::from(EXIT_NO_RUN)
    })
}

fn load(flags: &LoadFlags, with_origin: bool) -> Result<ExitCode, String> {
    let test = flags.test()?;
    is_listened_to(test.proxy)?;
    if !flags.quiet {
        eprintln!("loligo: this takes {}", lasts(&test));
    }
    let mut live = Live::new(flags.quiet);
    let mut log = flags.log.as_deref().map(Log::begin).transpose()?;
    let show = |watched: run::Watched<'_>| {
        if let Some(log) = &mut log {
            log.note(watched);
        }
        match watched {
            run::Watched::Standing(progress) => live.show("", progress),
            run::Watched::PhaseOver(so_far) => keep(so_far, flags),
        }
    };
    let report = if with_origin {
        run::polymix(&test, show)
    } else {
        run::robots(&test, show)
    };
    live.end();
    let mut report = report.map_err(|e| e.to_string())?;
    report.label.clone_from(&flags.label);
    tell_run(&report, &flags.out)
}

/// Writes the report so far, so that a long run that is interrupted keeps its results. An error is ignored, because it shows
/// at the end, when the whole file is written.
fn keep(so_far: &Report, flags: &LoadFlags) {
    let mut so_far = so_far.clone();
    so_far.label.clone_from(&flags.label);
    if let Some(path) = flags.out.json.as_deref().filter(|path| *path != "-") {
        let _ = std::fs::write(path, so_far.json());
    }
}

/// How long a run takes, in words.
fn lasts(test: &run::Test) -> String {
    let (planned, at_most) = test.lasts();
    let mut words = format!("about {}", roughly(planned));
    if roughly(at_most) != roughly(planned) {
        words += &format!(", {} at most if the cache fills slowly", roughly(at_most));
    }
    words
}

/// The two largest units of a time, such as `1h 20m` or `45s`.
fn roughly(time: Duration) -> String {
    let seconds = time.as_secs_f64().ceil() as u64;
    let units = [(3600, "h"), (60, "m"), (1, "s")];
    let largest = units.iter().position(|(unit, _)| seconds >= *unit);
    let mut rest = seconds;
    let parts = units[largest.unwrap_or(2)..]
        .iter()
        .take(2)
        .map(|(unit, name)| {
            let n = rest / unit;
            rest %= unit;
            (n, name)
        });
    let parts: Vec<_> = parts.collect();
    let shown = parts
        .iter()
        .enumerate()
        .filter(|(at, (n, _))| *at == 0 || *n > 0);
    let shown: Vec<_> = shown.map(|(_, (n, name))| format!("{n}{name}")).collect();
    shown.join(" ")
}

/// Without this check a run against no proxy would fail only at its end.
fn is_listened_to(proxy: SocketAddr) -> Result<(), String> {
    TcpStream::connect_timeout(&proxy, CONNECT_MAX)
        .map(drop)
        .map_err(|e| format!("{proxy}: {e}; is the proxy running, and --proxy its address?"))
}

fn tell_run(report: &Report, out: &OutFlags) -> Result<ExitCode, String> {
    out.write(
        &pages::run_text(report),
        || report.json(),
        || pages::run_page(report),
    )?;
    Ok(if report.total.errors == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn search(flags: &SearchFlags) -> Result<ExitCode, String> {
    let (bounds, conditions) = (flags.bounds()?, flags.conditions());
    if !flags.quiet {
        let halvings = (1.0 / flags.tolerance).log2().ceil();
        eprintln!(
            "loligo: each step takes {}; there is one for each doubling of the rate from {} req/s on, then {halvings} or so",
            lasts(&flags.test(0, flags.first)),
            flags.first
        );
    }
    let mut live = Live::new(flags.quiet);
    let mut setup = None;
    let run_at = |step: usize, rate: f64| {
        if step > 0 {
            std::thread::sleep(Duration::from_secs_f64(flags.pause));
        }
        let report = run::polymix(&flags.test(step, rate), |watched| {
            if let run::Watched::Standing(progress) = watched {
                live.show(&format!("{rate} req/s: "), progress);
            }
        });
        let report = report.map_err(|e| e.to_string())?;
        let said = format!(
            "{rate} req/s: response {:.1} ms, {:.2} of {:.2} % hits (an exact LRU {:.2}), {} wrong",
            report.top().response.mean_ms,
            report.top().dhr_percent,
            report.top().offered_percent,
            report.top().lru_percent,
            report.total.errors
        );
        live.say(&said);
        setup.get_or_insert_with(|| report.setup.clone());
        Ok::<_, String>(report)
    };
    let (steps, found) = search::search(bounds, conditions, run_at)?;
    live.end();
    let mut setup = setup.unwrap_or_default();
    // These settings differ in each step.
    for name in ["rate", "robots", "servers", "freeze after", "world, seed"] {
        setup.remove(name);
    }
    let report = SearchReport {
        stamp: Stamp::new(search::FORMAT, search::VERSION),
        label: flags.label.clone(),
        setup,
        bounds,
        conditions,
        steps,
        found,
    };
    tell_search(&report, &flags.out)
}

fn tell_search(report: &SearchReport, out: &OutFlags) -> Result<ExitCode, String> {
    out.write(
        &pages::search_text(report),
        || report.json(),
        || pages::search_page(report),
    )?;
    Ok(match report.found {
        Found::Peak { .. } | Found::AtLeast { .. } => ExitCode::SUCCESS,
        Found::Generator { .. } | Found::Nothing { .. } | Found::Unfinished { .. } => {
            ExitCode::FAILURE
        }
    })
}

fn show(flags: &ReportFlags) -> Result<ExitCode, String> {
    match files::read(&flags.files)? {
        Read::Runs(runs) => match runs.as_slice() {
            [run] => tell_run(run, &flags.out),
            _ => Err("these are several runs; bench compare shows them side by side".to_owned()),
        },
        Read::Searches(searches) => match searches.as_slice() {
            [search] => tell_search(search, &flags.out),
            _ => {
                Err("these are several searches; bench compare shows them side by side".to_owned())
            }
        },
    }
}

fn compare(flags: &ReportFlags) -> Result<ExitCode, String> {
    let json = |text: Result<String, _>| text.map_err(|e: serde_json::Error| e.to_string());
    match files::read(&flags.files)? {
        Read::Runs(runs) => {
            let text = json(serde_json::to_string(&runs))?;
            let page = || pages::compare_page(&runs);
            flags
                .out
                .write(&pages::compare_text(&runs), || text, page)?;
        }
        Read::Searches(searches) => {
            let text = json(serde_json::to_string(&searches))?;
            let page = || pages::peaks_page(&searches);
            flags
                .out
                .write(&pages::peaks_text(&searches), || text, page)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_has_its_two_largest_units() {
        let said = [0.0, 44.2, 60.0, 61.0, 3600.0, 4810.0, 46_800.0];
        let said = said.map(|s| roughly(Duration::from_secs_f64(s)));
        assert_eq!(said, ["0s", "45s", "1m", "1m 1s", "1h", "1h 20m", "13h"]);
    }
}
