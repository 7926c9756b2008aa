//! `loligo report`: the figures of a proxy's day, as text, as a page, as JSON.
//!
//! ```text
//! profiles, logs, /profile --> sources --> ::report (computes) --> SourceReport --> draw, chart --> page
//! reports in JSON ----------------------------------------------->      |     \---> text
//!                                                                       \---------> JSON
//! ```
//!
//! The text goes to standard output, progress and complaints to standard error.
//!
//! Not known here: how a figure is computed, how a chart is drawn.
//! Limits: all reports of a page are in memory at once; their data is in temporary files.

mod args;
mod chart;
mod draw;
mod lines;
mod live;
mod names;
mod progress;
mod sources;
mod text;

use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

use commands::out::OutFlags;
use report::model::{Report, SourceReport};
use report::{Options, auto_slot};

pub use args::{REPORT_HELP, ReportFlags};

use self::args::{CompareFlags, JoinFlags, MakeFlags, Named, ReportCommand, named};
use self::chart::Layout;
use self::live::End;
use self::progress::Progress;
use self::sources::Gathered;

/// The default time of listening to a running proxy.
const LISTEN_DEFAULT: Duration = Duration::from_secs(60);

/// Runs the command.
pub fn run(flags: &ReportFlags) -> ExitCode {
    let done = match &flags.command {
        Some(ReportCommand::Compare(flags)) => compare(flags),
        Some(ReportCommand::Join(flags)) => join(flags),
        None => make(&flags.make),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(what) => {
            eprintln!("loligo: {what}");
            ExitCode::FAILURE
        }
    }
}

fn make(flags: &MakeFlags) -> Result<(), String> {
    if flags.list {
        say(&text::list());
        return Ok(());
    }
    let options = Options {
        slot: flags.slot.and_then(|slot| slot.0),
        grid: flags.grid.unwrap_or_default(),
        with_aborted: flags.with_aborted,
        top: usize::from(flags.top),
        ..Options::default()
    };
    let mut gathered = files(&flags.sources, &options, flags.quiet)?;
    gathered.extend(listen(flags, &options)?);
    let sources = finish(gathered, &options)?;
    let layout = Layout {
        own_scales: flags.own_scales,
        days: flags.days,
    };
    write(sources, &flags.out, layout)
}

/// Reads files and standard input, in order.
fn files(typed: &[String], options: &Options, quiet: bool) -> Result<Vec<Gathered>, String> {
    let all: Result<Vec<Named>, String> = typed.iter().map(|typed| named(typed)).collect();
    let all = all?;
    if all.iter().filter(|one| one.path == Path::new("-")).count() > 1 {
        return Err("standard input can be only one of the sources".to_owned());
    }
    let length = |one: &Named| std::fs::metadata(&one.path).map_or(0, |found| found.len());
    let mut progress = Progress::new(all.iter().map(length).sum(), quiet);
    let mut before = 0;
    let mut out = Vec::new();
    for one in &all {
        progress.begin(&one.name, before);
        out.push(sources::gather(one, options, &progress)?);
        before += length(one);
    }
    progress.say("computing");
    Ok(out)
}

/// Listens to running proxies, all at the same time. A proxy that does not answer is left out if there are other sources.
fn listen(flags: &MakeFlags, options: &Options) -> Result<Vec<Gathered>, String> {
    if flags.live.is_empty() {
        return Ok(Vec::new());
    }
    let lasts = flags.lasts.unwrap_or(LISTEN_DEFAULT);
    let end = End::at(Instant::now() + lasts).or_interrupt();
    let end = end.map_err(|e| format!("signals: {e}"))?;
    if !flags.quiet {
        let seconds = lasts.as_secs();
        eprintln!(
            "loligo: listening for {seconds} s; Ctrl-C makes the report of what came until then"
        );
    }
    let heard: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (flags.live.iter())
            .map(|url| scope.spawn(|| sources::listen(url, &end, options)))
            .collect();
        let join = |thread: ScopedJoinHandle<'_, _>| thread.join().expect("it does not panic");
        threads.into_iter().map(join).collect()
    });
    let mut out = Vec::new();
    let mut left_out = Vec::new();
    for one in heard {
        match one {
            Ok(builder) => out.push(Gathered::Builder(Box::new(builder))),
            Err(what) => left_out.push(what),
        }
    }
    if out.is_empty() && flags.sources.is_empty() {
        return Err(left_out.join("; "));
    }
    for what in left_out {
        eprintln!("loligo: {what}: left out");
    }
    Ok(out)
}

/// Computes the reports. The slots of all sources have the same length, so that they can be compared.
fn finish(mut gathered: Vec<Gathered>, options: &Options) -> Result<Vec<SourceReport>, String> {
    let spans = gathered.iter().filter_map(|one| match one {
        Gathered::Builder(builder) => builder.span(),
        Gathered::Reports(_) => None,
    });
    let longest = spans.max_by_key(|(first, last)| last - first);
    if let (None, Some((first, last))) = (options.slot, longest) {
        for one in &mut gathered {
            if let Gathered::Builder(builder) = one {
                builder.set_slot(auto_slot(first, last));
            }
        }
    }
    let mut out = Vec::new();
    for one in gathered {
        match one {
            Gathered::Builder(builder) => {
                out.push(
                    builder
                        .finish()
                        .map_err(|e| format!("a temporary file: {e}"))?,
                );
            }
            Gathered::Reports(reports) => out.extend(reports),
        }
    }
    distinct(&mut out);
    Ok(out)
}

/// Adds numbers to sources of the same name.
fn distinct(sources: &mut [SourceReport]) {
    for at in 1..sources.len() {
        let (before, this) = sources.split_at_mut(at);
        let name = this[0].name.clone();
        let mut nth = 1;
        while before.iter().any(|other| other.name == this[0].name) {
            nth += 1;
            this[0].name = format!("{name} {nth}");
        }
    }
}

fn compare(flags: &CompareFlags) -> Result<(), String> {
    let options = Options::default();
    let sources = finish(files(&flags.sources, &options, true)?, &options)?;
    let [a, b] = sources.as_slice() else {
        return Err(format!(
            "there are {} sources in these; two can be compared",
            sources.len()
        ));
    };
    let rows = ::report::compare(a, b);
    let text = || text::compared(&names::called(a), &names::called(b), &rows);
    let json = || serde_json::to_string(&rows).map_err(|e| e.to_string());
    match &flags.json {
        Some(path) if path == Path::new("-") => say(&(json()? + "\n")),
        Some(path) => {
            say(&text());
            put(path, &json()?)?;
        }
        None => say(&text()),
    }
    Ok(())
}

fn join(flags: &JoinFlags) -> Result<(), String> {
    let options = Options::default();
    let sources = finish(files(&flags.sources, &options, true)?, &options)?;
    if sources.len() < 2 {
        return Err("there is only one source in these; two or more can be joined".to_owned());
    }
    let joined = ::report::join(&flags.name, &sources).map_err(|e| e.to_string())?;
    write(vec![joined], &flags.out, Layout::default())
}

fn write(sources: Vec<SourceReport>, out: &OutFlags, layout: Layout) -> Result<(), String> {
    let report = Report::new(sources);
    let json = || serde_json::to_string(&report).expect("a report has only text for keys") + "\n";
    let page = || draw::page(&report.sources, layout);
    out.write(&text::summary(&report.sources), json, page)
}

fn put(path: &Path, content: &str) -> Result<(), String> {
    std::fs::write(path, content).map_err(|e| format!("{}: {e}", path.display()))
}

/// Prints a text. Errors are ignored: the reader may have closed the output.
fn say(content: &str) {
    let _ = std::io::stdout().lock().write_all(content.as_bytes());
}
