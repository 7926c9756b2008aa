//! `loligo lab`: the storage lab from the command line.
//!
//! The arguments (`args`) become a bench and a list of figures and tables; `lab` makes them; this module shows progress and results. The
//! report goes to standard output, progress to standard error.
//!
//! Not known here: experiments.   Limits: those of `lab`.

mod accelerator;
mod args;
mod hints;
mod replay;

use std::path::Path;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

use ::lab::disks::real::{Location, Through};
use ::lab::disks::slow::Slow;
use ::lab::managers::Kind;
use ::lab::paper::bench::{Bench, Watch};
use ::lab::paper::beside::beside;
use ::lab::paper::experiment::Model;
use ::lab::paper::keep::Keep;
use ::lab::paper::plan::Plan;
use ::lab::paper::real::{Wanted, file_bytes, real};
use ::lab::paper::report::Report;
use ::lab::paper::source::{Source, TraceFile, survey};
use ::lab::paper::{Item, make, printed};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::lab_traces;

use args::{BesideFlags, LabOutFlags, PaperFlags, RealFlags, RunFlags, TraceSources};
pub use args::{LAB_HELP, LabCommand};

/// Runs the command.
pub fn run(command: &LabCommand) -> ExitCode {
    let done = match command {
        LabCommand::Table1(flags) => paper(&[Item::Table1], flags),
        LabCommand::Table2(flags) => paper(&[Item::Table2], flags),
        LabCommand::Figure2(flags) => paper(&[Item::Figure2], flags),
        LabCommand::Figure3(flags) => paper(&[Item::Figure3], flags),
        LabCommand::Figure4(flags) => paper(&[Item::Figure4], flags),
        LabCommand::Figure5(flags) => paper(&[Item::Figure5], flags),
        LabCommand::Figure6(flags) => paper(&[Item::Figure6], flags),
        LabCommand::Figure7(flags) => paper(&[Item::Figure7], flags),
        LabCommand::Figure8(flags) => paper(&[Item::Figure8], flags),
        LabCommand::Claims(flags) => paper(&[Item::Claims, Item::Streams], flags),
        LabCommand::Paper(flags) => paper(&Item::ALL, flags),
        LabCommand::Real(flags) => on_real_disk(flags),
        LabCommand::Beside(flags) => side_by_side(flags),
        LabCommand::Run(flags) => run_plan(flags),
        LabCommand::Hints(flags) => hints::run(flags),
        LabCommand::Accelerator(flags) => accelerator::run(flags),
        LabCommand::Replay(flags) => return replay::run(flags),
        LabCommand::Traces(command) => return lab_traces::run(command),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("loligo: {message}");
            ExitCode::FAILURE
        }
    }
}

fn paper(items: &[Item], flags: &PaperFlags) -> Result<(), String> {
    let shown = Shown::new(flags.out.quiet);
    let keep = match &flags.keep {
        Some(path) => kept(path)?,
        None => Keep::in_memory(),
    };
    let keep = Arc::new(keep);
    let fitted = Source::Fitted { seed: flags.seed };
    let sources = std::iter::once(fitted).chain(traces(&flags.traces, &shown)?);
    let benches: Vec<Bench> = sources
        .map(|source| {
            let keep = Arc::clone(&keep);
            Bench::on(source, flags.scale, flags.disk.into(), keep, &shown)
        })
        .collect();
    let report = make(items, &benches).map_err(|e| e.to_string())?;
    tell(&report, &flags.out)
}

/// Reads and surveys the traces named on the command line.
fn traces(flags: &TraceSources, shown: &Shown) -> Result<Vec<Source>, String> {
    let mut sources = Vec::new();
    for path in &flags.trace {
        let file = TraceFile {
            path: path.clone(),
            format: flags.format,
            columns: flags.columns,
            gets_max: flags.gets,
        };
        shown.begin(&format!("reading {}", path.display()), 0);
        let surveyed = survey(&file, &flags.caches).map_err(|e| e.to_string())?;
        shown.end();
        let all = surveyed.into_iter();
        sources.extend(all.map(|surveyed| Source::Trace(Arc::new(surveyed))));
    }
    Ok(sources)
}

fn kept(path: &Path) -> Result<Keep, String> {
    Keep::in_file(path).map_err(|e| format!("{}: {e}", path.display()))
}

fn run_plan(flags: &RunFlags) -> Result<(), String> {
    let shown_path = flags.plan.display();
    let text = std::fs::read_to_string(&flags.plan).map_err(|e| format!("{shown_path}: {e}"))?;
    let plan = Plan::parse(&text).map_err(|e| format!("{shown_path}: {e}"))?;
    let keep = match &flags.keep {
        Some(path) => kept(path)?,
        None => {
            let mut path = flags.plan.clone().into_os_string();
            path.push(".runs");
            kept(Path::new(&path))?
        }
    };
    let shown = Shown::new(flags.out.quiet);
    let keep = Arc::new(keep);
    let mut sources = traces(&flags.traces, &shown)?;
    if sources.is_empty() {
        sources.push(Source::Fitted { seed: 1 });
    }
    let benches: Vec<Bench> = sources
        .into_iter()
        .map(|source| Bench::on(source, 1.0, Model::Disk1999, Arc::clone(&keep), &shown))
        .collect();
    let report = plan
        .run(&benches)
        .map_err(|e| format!("{shown_path}: {e}"))?;
    tell(&report, &flags.out)
}

/// An ext4 is made this many times as large as the stored files, because it needs room for directories and other structures.
const SLOW_ROOM: u64 = 4;
/// The smallest size on which an ext4 with a journal can be made.
const SLOW_BYTES_MIN: u64 = 64 << 20;

fn on_real_disk(flags: &RealFlags) -> Result<(), String> {
    let shown = Shown::new(flags.out.quiet);
    let mut sources = traces(&flags.traces, &shown)?;
    if sources.len() > 1 {
        return Err("one stream at a time: lab beside puts several runs side by side".to_owned());
    }
    let source = sources.pop().unwrap_or(Source::Fitted { seed: flags.seed });
    let all = match &source {
        Source::Fitted { .. } => printed::REQUESTS as u64,
        Source::Trace(trace) => trace.disk_requests,
    };
    let scale = f64::from(flags.requests) / all as f64;
    let bench = Bench::on(
        source,
        scale.min(1.0),
        Model::Disk1999,
        Keep::in_memory(),
        &shown,
    );
    let through = if flags.direct {
        Through::Nothing
    } else {
        Through::PageCache
    };
    let past = if flags.direct {
        ", past the page cache"
    } else {
        ""
    };
    let managers = if flags.managers.is_empty() {
        Kind::ALL.to_vec()
    } else {
        flags.managers.clone()
    };
    // Must live until the runs are over.
    let mut slow = None;
    let (location, name) = match (&flags.device, &flags.dir, flags.slow) {
        (Some(device), _, _) => (
            Location::One(device.clone()),
            format!("On {}{past}", device.display()),
        ),
        (None, Some(dir), Some(iops)) => {
            let file = file_bytes(&bench, flags.utilisation).map_err(|e| e.to_string())?;
            let room = file * SLOW_ROOM;
            let bytes = flags.slow_size.unwrap_or(room.max(SLOW_BYTES_MIN));
            let made = Slow::make(dir, bytes, iops, true).map_err(|e| e.to_string())?;
            let mounted = made.mounted.clone().unwrap_or_else(|| dir.clone());
            slow = Some(made);
            (
                Location::Directory(mounted),
                format!("On ext4 over a disk of {iops} operations a second{past}"),
            )
        }
        (None, Some(dir), None) => (
            Location::Directory(dir.clone()),
            format!("In {}{past}", dir.display()),
        ),
        (None, None, _) => return Err("say where: --dir or --device".to_owned()),
    };
    let wanted = Wanted {
        managers,
        location,
        through,
        utilisation: flags.utilisation,
        name,
    };
    let section = real(&bench, &wanted);
    drop(slow);
    let report = Report {
        title: "File-space managers on a real disk".to_owned(),
        sections: vec![section.map_err(|e| e.to_string())?],
    };
    tell(&report, &flags.out)
}

fn side_by_side(flags: &BesideFlags) -> Result<(), String> {
    let mut runs = Vec::new();
    for path in &flags.files {
        let wrong = |e: &dyn std::fmt::Display| format!("{}: {e}", path.display());
        let text = std::fs::read_to_string(path).map_err(|e| wrong(&e))?;
        let report: Report = serde_json::from_str(&text).map_err(|e| wrong(&e))?;
        let name = path.file_stem().unwrap_or_default();
        runs.push((name.to_string_lossy().into_owned(), report));
    }
    tell(&beside(&runs)?, &flags.out)
}

fn tell(report: &Report, out: &LabOutFlags) -> Result<(), String> {
    (out.files).write(&report.text(), || report.json(), || report.page())
}

/// A progress bar of disk requests on standard error, with the time left. Hidden unless standard error is a terminal.
struct Shown {
    quiet: bool,
    bar: Mutex<ProgressBar>,
}

impl Shown {
    fn new(quiet: bool) -> Shown {
        Shown {
            quiet,
            bar: Mutex::new(ProgressBar::hidden()),
        }
    }

    fn with(&self, act: impl FnOnce(&mut ProgressBar)) {
        act(&mut self.bar.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

impl Watch for Shown {
    fn begin(&self, what: &str, requests: u64) {
        if self.quiet {
            return;
        }
        self.with(|bar| {
            bar.finish_and_clear();
            // Hidden where standard error is not a terminal.
            *bar = ProgressBar::with_draw_target(Some(requests), ProgressDrawTarget::stderr());
            let style = if requests == 0 {
                "{prefix}: making requests"
            } else {
                "{prefix} {wide_bar} {percent}% {per_sec} (left: {eta})"
            };
            if let Ok(style) = ProgressStyle::with_template(style) {
                bar.set_style(style);
            }
            bar.set_prefix(what.to_owned());
            bar.tick();
        });
    }

    fn more(&self, requests: u64) -> bool {
        self.with(|bar| bar.inc(requests));
        true
    }

    fn end(&self) {
        self.with(|bar| bar.finish_and_clear());
    }
}
