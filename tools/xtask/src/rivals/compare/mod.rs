//! `cargo xtask rivals compare`: Loligo and its rivals under the same PolyMix load, one after the other, one report.
//!
//! Every run has its own fresh disk (`disk`), page cache (`page_limit`) and proxy (`contest`); the load is
//! `loligo bench polymix` in a process of its own (`load`). Before the first run the disk's limit is proved by measurement and
//! the ceiling that its reads set is printed (`ceiling`). With `--peak` the highest rate is searched for (`peak`). The results of a
//! comparison are a part (`report`) of the written report (`book`).
//! `rivals paper000` compares with Squid, and lays the result out as Tables 1 to 3 and Figures 6 to 8 of paper 000 (`paper000`); with
//! `--ablation` it runs Loligo alone, without each of its mechanisms (`ablation`).
//! `rivals paper004` does the same for Tables 6.1 to 6.6 and Figures 6.1 and 6.2 of paper 004 (`paper004`).
//!
//! Loligo gets raw devices, as Traffic Server does; the others get ext4. All servers of the workload share one address, since
//! some proxies know their origin only by configuration; each keeps its name in the URL.
//!
//! Not known here: how a proxy is configured (its file in `rivals`).
//! Limits: one comparison on a machine (`alone`), one proxy and one load at a time, on the same machine. If CPU is short, the report's
//! columns about the load generator show it.   Source: issue 6; MISSION rows S4, S5, U8.

mod ablation;
mod alone;
mod book;
mod calls;
mod ceiling;
mod contest;
pub mod disk;
pub mod held_port;
mod load;
mod options;
mod page_limit;
pub mod paper000;
pub mod paper004;
mod peak;
mod report;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use self::alone::Alone;
use self::book::{Book, Extra, Layout};
use self::ceiling::Ceiling;
use self::contest::Run;
use self::disk::Proof;
use self::options::{Allowance, Conditions, Workload};
use self::peak::Search;
use self::report::{Comparison, Contestant, PeakOf};
use super::commands::named;
use super::{Rival, build_lab, build_loligo};
use crate::failure::{During, Result, fail};
use crate::progress::Progress;
use crate::workspace;

pub use options::Options;

/// The runs of one comparison.
struct Plan<'a> {
    /// without the disk
    title: &'a str,
    rivals: Vec<Rival>,
    rates: Vec<f64>,
    /// the most further runs of a proxy in the search for its peak, if there is one
    peak_runs: Option<u32>,
    /// rates of runs under strace, before the others
    watched: Vec<f64>,
    conditions: &'a Conditions,
}

/// Compares and prints.
pub fn run(options: &Options) -> Result<()> {
    let Workload::Polymix = options.workload;
    let plan = Plan {
        title: "PolyMix beside rivals",
        rivals: options.chosen()?,
        rates: options.rate.clone(),
        // The run at the given rate is the first of them.
        peak_runs: options.peak.then(|| options.peak_runs.saturating_sub(1)),
        watched: options
            .rate
            .first()
            .filter(|_| options.count_calls)
            .copied()
            .into_iter()
            .collect(),
        conditions: &options.conditions,
    };
    if plan.peak_runs.is_some() && plan.rates.len() != 1 {
        fail!("--peak begins with one --rate");
    }
    carry_out(&[plan], &|_, _| Extra::default())
}

/// Loligo, and the servers of these names.
fn loligo_and(names: &[String]) -> Result<Vec<Rival>> {
    let mut rivals = vec![Rival::Loligo];
    for name in names {
        let rival = named(name)?;
        if !rivals.contains(&rival) {
            rivals.push(rival);
        }
    }
    Ok(rivals)
}

/// Carries out one plan after the other, and prints each part when it is finished. After each run the requested files are written, with
/// the further content from `layout`. An error if a proxy could not be measured.
fn carry_out(plans: &[Plan<'_>], layout: Layout<'_>) -> Result<()> {
    for plan in plans {
        plan.conditions.check(&plan.rates)?;
        if plan.peak_runs.is_some_and(|runs| runs > 0) {
            plan.conditions.check_peak(&plan.rates)?;
        }
    }
    let Some(first) = plans.first() else {
        return Ok(());
    };
    for plan in plans {
        eprintln!("{}", length(plan));
    }
    if first.conditions.dry_run {
        return Ok(());
    }
    let (_alone, dir) = begun()?;
    let mut book = Book::new(first.title, layout, first.conditions);
    for plan in plans {
        let comparison = prepared(plan, &dir)?;
        eprint!("{}", comparison.text(&Extra::default()));
        book.begin(comparison);
        make_runs(plan, &dir, &mut book)?;
        println!("{}", book.text_of_part());
    }
    let runs = book.parts().iter().flat_map(|part| &part.runs);
    match runs.filter(|run| run.measured().is_none()).count() {
        0 => Ok(()),
        n => fail!("{n} runs failed; the report says why"),
    }
}

/// Prepares for all runs: takes the machine's lock, builds the programs, and makes a folder.
fn begun() -> Result<(Alone, PathBuf)> {
    if !rustix::process::geteuid().is_root() {
        fail!("loop devices, mounts and limits need root");
    }
    let alone = Alone::on_this_machine(&command())?;
    build_loligo()?;
    build_lab()?;
    Ok((alone, directory()?))
}

/// Runs each proxy in turn: under strace, at the rates, and then in a search for its peak that goes on from those runs.
fn make_runs(plan: &Plan<'_>, dir: &Path, book: &mut Book<'_>) -> Result<()> {
    let mut progress = Progress::new("runs", planned_runs(plan));
    for &rival in &plan.rivals {
        // `None`: the proxy got no request.
        let mut one = |rate: f64, watched: bool| -> Result<Option<bool>> {
            progress.say(format!("{} at {rate}/s", rival.name()));
            let run = contest::run(rival, rate, plan.conditions, watched, dir)?;
            eprintln!("{}", line(&run));
            progress.step();
            let carried = run.was_asked().then(|| run.carried());
            book.part().runs.push(run);
            book.write()?;
            Ok(carried)
        };
        for &rate in &plan.watched {
            one(rate, true)?;
        }
        let mut tried = Vec::new();
        for &rate in &plan.rates {
            tried.extend(one(rate, false)?.map(|carried| (rate, carried)));
        }
        let Some(runs_max) = plan.peak_runs else {
            continue;
        };
        let mut search = Search::after(&tried, runs_max);
        while let Some(rate) = search.next_rate() {
            match one(rate, false)? {
                Some(carried) => search.tried(rate, carried),
                // The next run would hardly do better, and a search for a peak would find nothing.
                None => break,
            }
        }
        book.part().peaks.push(PeakOf {
            server: rival.name().to_owned(),
            peak: search.peak(),
        });
        book.write()?;
    }
    Ok(())
}

/// Where configurations, logs and the disk's file are.
fn directory() -> Result<PathBuf> {
    let dir = workspace::run_dir().join("compare");
    std::fs::create_dir_all(&dir).during(|| format!("making {}", dir.display()))?;
    // A killed run may have left these files.
    for name in ["disk.img", "proof.img"] {
        let _ = std::fs::remove_file(dir.join(name));
    }
    Ok(dir)
}

fn planned_runs(plan: &Plan<'_>) -> u64 {
    let peak_runs = plan.peak_runs.unwrap_or(0) as usize;
    let each = plan.watched.len() + plan.rates.len() + peak_runs;
    (each * plan.rivals.len()) as u64
}

/// Tells how many runs there are and how long they take, so that a run of a day is no surprise. The runs of a search for a peak are
/// at other rates, at which a fill takes another time.
fn length(plan: &Plan<'_>) -> String {
    let conditions = plan.conditions;
    let mean = |of: &dyn Fn(f64) -> f64| {
        let sum: f64 = plan.rates.iter().map(|rate| of(*rate)).sum();
        sum / plan.rates.len() as f64
    };
    let runs = planned_runs(plan);
    let each_s = mean(&|rate| conditions.seconds_expected(rate));
    let most_s = mean(&|rate| conditions.seconds_max(rate));
    let set_mib = mean(&|rate| ceiling::working_set_bytes(&conditions.sizing(rate))) / 1048576.0;
    format!(
        "{runs} runs of about {} each, {} in all, at most {} if the proxies are slow; working set about {set_mib:.0} MiB, cache {}",
        in_words(each_s),
        in_words(each_s * runs as f64),
        in_words(most_s * runs as f64),
        conditions.cache_size,
    )
}

fn in_words(seconds: f64) -> String {
    let minutes = (seconds / 60.0).ceil() as u64;
    match (minutes / 60, minutes % 60) {
        (0, minutes) => format!("{minutes} min"),
        (hours, minutes) => format!("{hours} h {minutes:02} min"),
    }
}

/// The part of a comparison that is known before the first run.
fn prepared(plan: &Plan<'_>, dir: &Path) -> Result<Comparison> {
    let conditions = plan.conditions;
    eprintln!("measuring the disk");
    let proof = Proof::measure(conditions.disk, conditions.dirty, dir)?;
    let rate = plan.rates.iter().copied().fold(1.0, f64::max);
    let sizing = conditions.sizing(rate);
    // The reads of a fast disk limit no proxy here.
    let mut ceilings = Vec::new();
    if let Some(reads) = conditions.disk.iops().map(f64::from) {
        ceilings.push(Ceiling::of(reads, conditions.memory.0, &sizing));
        if let Allowance::Bytes(pages) = conditions.page_cache {
            ceilings.push(Ceiling::of(reads, conditions.memory.0 + pages.0, &sizing));
        }
    }
    Ok(Comparison {
        title: format!(
            "{}, {} disk",
            plan.title,
            format!("{:?}", conditions.disk).to_lowercase()
        ),
        disk: conditions.disk,
        command: command(),
        machine: report::machine(),
        conditions: report::told(conditions),
        advice: plan
            .rates
            .iter()
            .filter_map(|r| conditions.advice(*r))
            .chain(plan.peak_runs.map(|_| conditions.advice_of_peak()))
            .collect(),
        proof: Some(proof),
        ceilings,
        contestants: plan
            .rivals
            .iter()
            .map(|rival| Contestant {
                server: rival.name().to_owned(),
                version: rival.version(),
                what: rival.description().to_owned(),
            })
            .collect(),
        runs: Vec::new(),
        peaks: Vec::new(),
    })
}

/// The command line.
fn command() -> String {
    let words: Vec<String> = std::env::args().skip(1).collect();
    format!("cargo xtask {}", words.join(" "))
}

/// A run in a line, while others are still to come.
fn line(run: &Run) -> String {
    let Some(m) = run.measured() else {
        let what = if run.was_asked() {
            "failed"
        } else {
            "not asked"
        };
        return format!("{} at {}/s: {what}", run.server, run.rate);
    };
    format!(
        "{} at {}/s: {:.1} replies/s, mean {:.1} ms, hit {:.2} ms, DHR {:.1} of {:.1} % (LRU {:.1}), {} errors, CPU {:.3} ms, {:.0} reads/s, {:.0} writes/s ({:.0} s)",
        run.server,
        run.rate,
        m.reply_rate,
        m.response.mean_ms,
        m.hit.mean_ms,
        m.dhr_percent,
        m.offered_percent,
        m.lru_percent,
        m.errors,
        m.cpu_ms_per_reply,
        m.used.reads / m.used.seconds.max(1e-9),
        m.used.writes / m.used.seconds.max(1e-9),
        run.seconds
    )
}
