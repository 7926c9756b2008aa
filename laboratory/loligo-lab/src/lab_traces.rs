//! `loligo lab` commands about traces: their contents, synthetic streams, their requests to a disk, and policies for them.
//!
//! The arguments (`args`) name streams (`streams`); `lab` does the work; this module writes the results as text, JSON and HTML. Reports go
//! to standard output, progress to standard error, on a terminal only.
//!
//! Exit status: 0 done; 1 a stream can not be read on, or a report not written; 2 the command line is not understood.

mod args;
mod streams;

use std::io::{self, BufWriter, Write as _};
use std::path::Path;
use std::process::ExitCode;

use lab::Access;
use lab::cache::{Counts, LevelSettings, Method, Settings};
use lab::layouts::{Layout, Sizes};
use lab::policies::{Contender, MEMORY_PERCENT, Objects, Plan, Study};
use lab::requests::{Requests, waiting_dir};
use lab::trace::{Summing, Tally, Writer, report, write_csv};
use page::{Page, Table};
use serde_json::json;

pub use args::StreamFlags;
pub use args::TracesCommand;
use args::{
    GenerateFlags, LayoutsFlags, MethodFlags, PoliciesFlags, ReportFlags, Share, TraceFlags,
};
pub use streams::{Scaled, each, scaled_stream};

/// Runs the command.
pub fn run(command: &TracesCommand) -> ExitCode {
    let done = match command {
        TracesCommand::Trace(flags) => trace(flags),
        TracesCommand::Generate(flags) => generate(flags),
        TracesCommand::Method(flags) => method(flags),
        TracesCommand::Policies(flags) => policies(flags),
        TracesCommand::Layouts(flags) => layouts(flags),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("loligo: {e}");
            ExitCode::FAILURE
        }
    }
}

fn trace(flags: &TraceFlags) -> Result<(), String> {
    let mut summing = Summing::default();
    let ended = streams::each(&flags.stream, &flags.from, |access| {
        summing.add(&access);
        Ok(())
    })?;
    let (summary, tally) = (summing.finish(), ended.tally.as_ref());
    let json = json!({ "stream": ended.name, "read": tally, "summary": summary });
    let tables = report::tables(&ended.name, &summary, tally);
    tell(&flags.report, &tables, &json, || {
        report::page(&ended.name, &summary, tally)
    })?;
    if let Some(tally) = tally {
        show_bad(tally);
    }
    Ok(())
}

/// Prints bad lines on standard error, where they are seen and do not disturb a program that reads the report.
fn show_bad(tally: &Tally) {
    if tally.bad > 0 {
        eprintln!("loligo: {} bad lines; the first of them:", tally.bad);
        for line in &tally.bad_shown {
            eprintln!("  {line}");
        }
    }
}

fn generate(flags: &GenerateFlags) -> Result<(), String> {
    let bar = streams::spinner("generate", flags.quiet);
    let mut made = 0;
    let accesses = streams::make(flags.stream, &flags.made).inspect(|_| {
        made += 1;
        if made % (1 << 14) == 0 {
            bar.set_position(made);
        }
    });
    match &flags.out {
        Some(path) => {
            let wrong = |e: io::Error| format!("{}: {e}", path.display());
            let mut out = Writer::create(path).map_err(wrong)?;
            write_csv(accesses, &mut out).map_err(wrong)?;
            out.finish().map_err(wrong)?;
        }
        None => {
            let mut out = BufWriter::new(io::stdout().lock());
            match write_csv(accesses, &mut out).and_then(|_| out.flush()) {
                // A reader that has seen enough is no failure.
                Err(e) if e.kind() != io::ErrorKind::BrokenPipe => return Err(e.to_string()),
                _ => {}
            }
        }
    }
    bar.finish_and_clear();
    Ok(())
}

fn method(flags: &MethodFlags) -> Result<(), String> {
    let settings = Settings {
        memory: LevelSettings {
            policy: flags.memory_policy,
            ..LevelSettings::lru(flags.memory)
        },
        disk: LevelSettings {
            policy: flags.disk_policy,
            admission: flags.admission,
            ..LevelSettings::lru(flags.disk)
        },
    };
    let mut method = Method::new(&settings);
    let ended = streams::each(&flags.stream, &flags.from, |access| {
        method.get(&access, |_| {});
        Ok(())
    })?;
    let counts = method.counts();
    let json = json!({ "stream": ended.name, "counts": counts, "paper": Counts::PAPER, "read": ended.tally });
    let report = ReportFlags {
        json: flags.json.clone(),
        html: None,
        svg: None,
    };
    tell(&report, &[method_table(&ended.name, counts)], &json, || {
        Page::new("")
    })?;
    if let Some(tally) = &ended.tally {
        show_bad(tally);
    }
    Ok(())
}

fn method_table(name: &str, counts: &Counts) -> Table {
    let mut table = Table::new(
        &format!("What {name} asks of the disk"),
        &["", "count", "paper 002", "off by (%)", "MiB"],
    );
    let mib = |bytes: u64| format!("{:.0}", bytes as f64 / f64::from(1 << 20));
    let bytes = [
        mib(counts.get_bytes),
        mib(counts.memory_hit_bytes),
        mib(counts.read_bytes),
        mib(counts.write_bytes),
        String::new(),
    ];
    let rows = counts
        .printed()
        .into_iter()
        .zip(Counts::PAPER.printed())
        .zip(bytes);
    for (((what, count), (_, paper)), bytes) in rows {
        let off = format!("{:+.2}", 100.0 * (count as f64 / paper as f64 - 1.0));
        table.row([
            what.to_owned(),
            count.to_string(),
            paper.to_string(),
            off,
            bytes,
        ]);
    }
    for (what, count) in [
        ("  deleted for a newer version", counts.replaced),
        ("misses too large for the disk", counts.too_large),
        ("misses that were refused", counts.refused),
    ] {
        table.row([what.to_owned(), count.to_string()]);
    }
    table
}

fn policies(flags: &PoliciesFlags) -> Result<(), String> {
    let contenders = match &flags.policies[..] {
        [] => Contender::all(),
        some => some.to_vec(),
    };
    let threads = flags.threads.or(std::thread::available_parallelism().ok());
    let threads = threads.map_or(1, std::num::NonZeroUsize::get);
    let mut studies = Vec::new();
    for name in &flags.streams {
        let (accesses, ended) = streams::all(name, &flags.from)?;
        let wrong = |e: io::Error| format!("{}: {e}", ended.name);
        let objects = Objects::of(&accesses).map_err(wrong)?;
        let tables = threads as u64 * objects.count * TABLE_BYTES_MAX;
        say_how_much(&ended.name, &accesses, tables, flags.from.quiet);
        let sizes = match &flags.sizes[..] {
            [] => objects.usual_sizes(),
            some => some.iter().map(|share| share.of(&objects)).collect(),
        };
        let memory = flags.memory.unwrap_or(Share::Percent(MEMORY_PERCENT));
        let steps = (contenders.len() * sizes.len()) as u64;
        let bar = streams::bar(&ended.name, steps, flags.from.quiet);
        let plan = Plan {
            stream: ended.name.clone(),
            versions: flags.from.versions,
            contenders: contenders.clone(),
            sizes,
            memory_bytes: memory.of(&objects),
            threads,
        };
        let study = Study::run(plan, &accesses, || bar.inc(1));
        bar.finish_and_clear();
        studies.push(study.map_err(wrong)?);
    }
    let tables: Vec<Table> = studies.iter().flat_map(lab::policies::tables).collect();
    tell(
        &flags.report,
        &tables,
        &json!({ "studies": studies }),
        || lab::policies::page(&studies),
    )
}

/// Memory of a cache for each object of the stream: 40 bytes with GDSF, less with others, in tables that double when they are full.
const TABLE_BYTES_MAX: u64 = 80;

/// Tells before a long run where a stream too long for memory is stored, and how much memory the tables take.
fn say_how_much(name: &str, accesses: &Requests<Access>, tables_bytes: u64, quiet: bool) {
    let Some(file_bytes) = accesses.file_bytes().filter(|_| !quiet) else {
        return;
    };
    let mib = |bytes: u64| bytes >> 20;
    eprintln!(
        "loligo: {name}: {} requests wait in a file of {} MiB in {}; tables take up to {} MiB of memory",
        accesses.len(),
        mib(file_bytes),
        waiting_dir().display(),
        mib(tables_bytes)
    );
}

/// The layouts named on the command line, or the usual ones that match `--only`.
fn wanted_layouts(flags: &LayoutsFlags) -> Result<Vec<Layout>, String> {
    if !flags.layouts.is_empty() {
        return Ok(flags.layouts.clone());
    }
    let wanted = |layout: &Layout| {
        let name = layout.name();
        flags.only.is_empty() || flags.only.iter().any(|text| name.contains(text.as_str()))
    };
    let layouts: Vec<Layout> = Layout::usual().into_iter().filter(wanted).collect();
    if layouts.is_empty() {
        let names: Vec<String> = Layout::usual().iter().map(Layout::name).collect();
        return Err(format!(
            "--only: no layout is called so; they are {}",
            names.join("; ")
        ));
    }
    Ok(layouts)
}

fn layouts(flags: &LayoutsFlags) -> Result<(), String> {
    let layouts = wanted_layouts(flags)?;
    let (mut all, mut told) = (Vec::new(), Vec::new());
    for name in &flags.streams {
        let (accesses, ended) = streams::all(name, &flags.from)?;
        let wrong = |e: io::Error| format!("{}: {e}", ended.name);
        let objects = Objects::of(&accesses).map_err(wrong)?;
        let sizes = Sizes {
            store_bytes: flags.store.of(&objects),
            memory_bytes: flags.memory.of(&objects),
            rate: flags.pace,
        };
        let tables = sizes.store_bytes + objects.count * TABLE_BYTES_MAX;
        say_how_much(&ended.name, &accesses, tables, flags.from.quiet);
        let bar = streams::bar(&ended.name, layouts.len() as u64, flags.from.quiet);
        let mut rows = Vec::new();
        for layout in &layouts {
            let mut failed = None;
            let readable = accesses
                .iter()
                .map_while(|access| access.map_err(|e| failed = Some(e)).ok());
            let found = lab::layouts::run(layout, &sizes, readable, accesses.len() as u64);
            if let Some(e) = failed {
                return Err(wrong(e));
            }
            rows.push(found.map_err(|e| format!("--store: {e}"))?);
            bar.inc(1);
        }
        bar.finish_and_clear();
        told.push(json!({
            "stream": ended.name,
            "store_bytes": sizes.store_bytes,
            "memory_bytes": sizes.memory_bytes,
            "layouts": rows,
        }));
        all.push((ended.name, rows));
    }
    let json = json!({ "pace_per_s": flags.pace, "streams": told });
    tell(&flags.report, &lab::layouts::tables(&all), &json, || {
        lab::layouts::page(&all)
    })
}

/// Writes text, JSON and HTML, as asked.
fn tell(
    flags: &ReportFlags,
    tables: &[Table],
    json: &serde_json::Value,
    page: impl FnOnce() -> Page,
) -> Result<(), String> {
    let pretty = || serde_json::to_string_pretty(json).map_err(|e| e.to_string());
    let json_only = flags.json.as_deref() == Some(Path::new("-"));
    if json_only {
        commands::print(&format!("{}\n", pretty()?));
    } else {
        let texts: Vec<String> = tables.iter().map(Table::text).collect();
        commands::print(&texts.join("\n"));
        if let Some(path) = &flags.json {
            write(path, &pretty()?)?;
        }
    }
    if flags.html.is_none() && flags.svg.is_none() {
        return Ok(());
    }
    let page = page();
    if let Some(dir) = &flags.svg {
        commands::drawings::write(dir, &page)?;
    }
    match &flags.html {
        Some(path) => write(path, &page.html()),
        None => Ok(()),
    }
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    std::fs::write(path, text).map_err(|e| format!("{}: {e}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(subcommand)]
        command: TracesCommand,
    }

    fn run_line(words: &[&str]) -> ExitCode {
        let line = Line::try_parse_from([&["lab"], words].concat());
        run(&line.map_err(|e| e.to_string()).unwrap().command)
    }

    #[test]
    fn the_command_line_is_consistent() {
        <Line as clap::CommandFactory>::command().debug_assert();
    }

    #[test]
    fn a_stream_goes_out_and_comes_in_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name).display().to_string();
        let (csv, json, html) = (path("dec.csv.zst"), path("out.json"), path("out.html"));
        let read = |path: &str| -> serde_json::Value {
            serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
        };
        let made = [
            "generate",
            "dec",
            "--requests",
            "20000",
            "--seed",
            "3",
            "--out",
            &csv,
        ];
        assert_eq!(run_line(&made), ExitCode::SUCCESS);
        assert_eq!(
            run_line(&["trace", &csv, "--json", &json, "--html", &html]),
            ExitCode::SUCCESS
        );
        assert_eq!(read(&json)["summary"]["requests"], 20_000);
        assert_eq!(read(&json)["read"]["bad"], 0);
        assert!(std::fs::read_to_string(&html).unwrap().contains("<svg"));

        // The stream read from the file and the synthetic stream lead to the same disk requests.
        let small = ["--memory", "1MiB", "--disk", "8MiB", "--json", &json];
        let counts = |stream: &[&str]| {
            assert_eq!(
                run_line(&[&["method"], stream, &small].concat()),
                ExitCode::SUCCESS
            );
            read(&json)["counts"].clone()
        };
        let from_file = counts(&[&csv]);
        assert_eq!(
            from_file,
            counts(&["dec", "--requests", "20000", "--seed", "3"])
        );
        assert!(from_file["deletes"].as_u64().unwrap() > 1000);

        let few = [
            "policies",
            "polymix",
            "--requests",
            "20000",
            "--rate",
            "5",
            "--sizes",
            "1MiB,8MiB",
        ];
        let few = [
            &few[..],
            &["--policies", "lru,gdsf", "--json", &json, "--html", &html],
        ]
        .concat();
        assert_eq!(run_line(&few), ExitCode::SUCCESS);
        assert_eq!(
            read(&json)["studies"][0]["points"]
                .as_array()
                .unwrap()
                .len(),
            4
        );
    }

    #[test]
    fn layouts_are_named_and_sized_by_share() {
        let dir = tempfile::tempdir().unwrap();
        let json = dir.path().join("out.json").display().to_string();
        let line = [
            &["layouts", "dec", "--requests", "20000", "--store", "10%"][..],
            &["--memory", "1%", "--layouts", "second-chance,gdsf+by-size"],
            &["--json", &json],
        ];
        assert_eq!(run_line(&line.concat()), ExitCode::SUCCESS);
        let text = std::fs::read_to_string(&json).unwrap();
        let read: serde_json::Value = serde_json::from_str(&text).unwrap();
        let stream = &read["streams"][0];
        assert_eq!(stream["layouts"].as_array().unwrap().len(), 2);
        let of = |what: &str| stream[what].as_u64().unwrap();
        assert_eq!(of("store_bytes") / of("memory_bytes"), 10);
    }

    #[test]
    fn what_can_not_be_read_is_a_failure() {
        assert_eq!(run_line(&["trace", "/nowhere"]), ExitCode::FAILURE);
        assert!(Line::try_parse_from(["lab", "trace", "x", "--format", "pdf"]).is_err());
        assert!(Line::try_parse_from(["lab", "policies", "--policies", "mru"]).is_err());
        assert!(Line::try_parse_from(["lab", "layouts", "--layouts", "belady"]).is_err());
    }
}
