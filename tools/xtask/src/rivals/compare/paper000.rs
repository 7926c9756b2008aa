//! `cargo xtask rivals paper000`: Tables 1 to 3 and Figures 6 to 8 of paper 000, for Loligo and for an installed Squid.
//!
//! The paper counts Squid's file operations over a whole PolyMix-3 run and shows hit, miss and response time against the
//! rate, on a machine with one IDE disk ("low-end") and on one with five SCSI disks ("high-end"). Here the slow disk stands
//! for the first and the fast disk for the second; `--both-disks` runs them in turn. Counts are per thousand requests, since a run
//! here is short. Counts of the paper without a stated number of requests are in a table of their own, as printed. The paper's figures
//! are drawings without numbers, so the numbers in its text are shown beside ours.
//!
//! Not known here: how runs are made; the printed numbers (`printed`).   Source: paper 000, section 3.1 and section 5.

mod printed;

use clap::Args;
use page::Table;

use self::printed::{PEAKS, PRINTED};
use super::ablation::{self, AblationOptions};
use super::book::Extra;
use super::disk::Speed;
use super::options::Conditions;
use super::peak::Peak;
use super::report::Comparison;
use super::{Plan, carry_out, loligo_and};
use crate::failure::Result;
use crate::rivals::Rival;

/// `cargo xtask rivals paper000`.
#[derive(Debug, Clone, Args)]
#[command(after_help = EXAMPLES)]
pub struct Options {
    /// Whom to set beside Loligo, by name
    #[arg(long, value_delimiter = ',', default_value = "squid-ufs")]
    rivals: Vec<String>,
    /// Rates of the figures, requests a second (with --both-disks those of the slow one)
    #[arg(long, value_delimiter = ',', default_value = "25,50,100,200")]
    rate: Vec<f64>,
    /// Rates at which system calls are counted, in runs of their own
    #[arg(long, value_delimiter = ',', default_value = "50")]
    count_rate: Vec<f64>,
    /// After the rates, look for the highest that each carries: Table 3
    #[arg(long)]
    peak: bool,
    /// Runs of one proxy while looking for its peak, besides those at the rates
    #[arg(long, default_value_t = 6, requires = "peak")]
    peak_runs: u32,
    /// The slow disk, then the fast one: all of the paper in one report
    #[arg(long, conflicts_with = "disk")]
    both_disks: bool,
    /// Rates of the figures on the fast disk, with --both-disks
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "100,200,400",
        requires = "both_disks"
    )]
    fast_rate: Vec<f64>,
    #[command(flatten)]
    ablation: AblationOptions,
    #[command(flatten)]
    conditions: Conditions,
}

const EXAMPLES: &str = "\
Examples:
  All tables and figures, with both disks and the peaks; a cache with room up to 800 requests/s:
    cargo xtask rivals paper000 --both-disks --peak --rate 100,200 --cache-size 512MiB
  The low-end machine of the paper:
    cargo xtask rivals paper000 --disk slow --html low.html
  The high-end one, and what the paper's Squid used (diskd):
    cargo xtask rivals paper000 --disk fast --rivals squid-diskd,squid-ufs --rate 100,200,400
  What each mechanism is worth, Loligo by itself:
    cargo xtask rivals paper000 --ablation --rate 200 --json ablation.json";

/// Runs and prints.
pub fn run(options: &Options) -> Result<()> {
    if let Some(how) = options.ablation.ablation {
        let rounds = options.ablation.rounds;
        return ablation::run(how, rounds, &options.rate, &options.conditions);
    }
    let rivals = loligo_and(&options.rivals)?;
    let on = |disk: Speed| Conditions {
        disk,
        ..options.conditions.clone()
    };
    let on_disks = if options.both_disks {
        vec![
            (on(Speed::Slow), &options.rate),
            (on(Speed::Fast), &options.fast_rate),
        ]
    } else {
        vec![(options.conditions.clone(), &options.rate)]
    };
    let plans: Vec<Plan<'_>> = on_disks
        .iter()
        .map(|(conditions, rates)| Plan {
            title: "Tables 1 to 3 and Figures 6 to 8 of paper 000",
            rivals: rivals.clone(),
            rates: rates.to_vec(),
            peak_runs: options.peak.then_some(options.peak_runs),
            watched: options.count_rate.clone(),
            conditions,
        })
        .collect();
    carry_out(&plans, &laid_out)
}

/// The paper's tables with our results. The paper's figures are among the plots of every comparison.
pub fn laid_out(before: &[Comparison], this: &Comparison) -> Extra {
    let all: Vec<&Comparison> = before.iter().chain([this]).collect();
    Extra {
        tables: vec![
            operations(this),
            as_printed(),
            peaks(&all),
            figures(this),
            said(this),
        ],
        plots: Vec::new(),
    }
}

/// Tables 1 and 2.
fn operations(comparison: &Comparison) -> Table {
    let mut table = Table::new(
        "Tables 1 and 2 of paper 000: operations on cache files, each 1000 requests of a whole run (fill included)",
        &[
            "system",
            "requests/s",
            "open",
            "close",
            "delete",
            "read",
            "write",
            "disk reads",
            "disk writes",
        ],
    );
    for (row, requests_m) in PRINTED
        .iter()
        .filter_map(|row| Some((row, row.requests_m?)))
    {
        for (n, name) in ["paper: Squid-2.4", "paper: UNIFIED"].iter().enumerate() {
            // The paper's own system opens, closes and deletes no files for objects; only reads and writes are left.
            let files = if n == 0 { 1.0 } else { 0.0 };
            let [open, close, delete] = row.files.map(|count| count * files);
            let counts = [open, close, delete, row.read[n], row.write[n]];
            let each = |count: f64| format!("{:.0}", count / (requests_m * 1e3));
            let names = [(*name).to_owned(), format!("{:.0}", row.rate)];
            table.row(names.into_iter().chain(counts.map(each)));
        }
    }
    for run in &comparison.runs {
        let Some([_, whole]) = run.measured().and_then(|m| m.calls) else {
            continue;
        };
        let each = |n: f64| format!("{:.0}", n * 1e3 / whole.replies.max(1) as f64);
        let calls = &whole.calls;
        let counts = [
            calls.opens as f64,
            calls.closes as f64,
            calls.unlinks as f64,
            calls.reads as f64,
            calls.writes as f64,
            whole.used.reads,
            whole.used.writes,
        ];
        let names = [format!("here: {}", run.server), format!("{:.0}", run.rate)];
        table.row(names.into_iter().chain(counts.map(each)));
    }
    table
}

/// The rows of Tables 1 and 2 that cannot be converted to a thousand requests.
fn as_printed() -> Table {
    let mut table = Table::new(
        "Tables 1 and 2 of paper 000, the rest, as printed: operations of a whole run, whose number of requests is not said (UNIFIED has no open, close and delete)",
        &[
            "paper",
            "requests/s",
            "open",
            "close",
            "delete",
            "Squid-2.4 read",
            "UNIFIED read",
            "Squid-2.4 write",
            "UNIFIED write",
        ],
    );
    for row in PRINTED.iter().filter(|row| row.requests_m.is_none()) {
        let counts = [row.files.as_slice(), &row.read, &row.write].concat();
        let names = [row.machine.name().to_owned(), format!("{:.0}", row.rate)];
        let counts = counts.iter().map(|count| format!("{count:.0}"));
        table.row(names.into_iter().chain(counts));
    }
    table
}

/// The bounds of a proxy's peak, from the rates and the search, if there was one.
fn peak(comparison: &Comparison, server: &str) -> Peak {
    let runs = comparison.runs.iter();
    let runs = runs.filter(|run| !run.watched && run.was_asked());
    let of_server = runs.filter(|run| run.server == server);
    let tried: Vec<_> = of_server.map(|run| (run.rate, run.carried())).collect();
    Peak::of(&tried)
}

/// A peak as the paper gives it.
fn between(peak: Peak) -> String {
    match (peak.carried, peak.refused) {
        (Some(most), Some(least)) => format!("{most:.0}~{least:.0}"),
        (Some(most), None) => format!("at least {most:.0}"),
        (None, Some(least)) => format!("below {least:.0}"),
        (None, None) => "-".to_owned(),
    }
}

/// Table 3; each comparison is of one disk.
fn peaks(all: &[&Comparison]) -> Table {
    let mut table = Table::new(
        "Table 3 of paper 000: peak throughput, requests/s (here: highest rate that was carried ~ lowest above it that was not)",
        &["system", "low-end or slow", "high-end or fast"],
    );
    for row in PEAKS {
        let [system, low, high] = row.map(str::to_owned);
        table.row([format!("paper: {system}"), low, high]);
    }
    let Some(last) = all.last() else {
        return table;
    };
    for c in &last.contestants {
        let on = |disk: Speed| {
            let on_it = all.iter().find(|comparison| comparison.disk == disk);
            on_it.map_or("-".to_owned(), |comparison| {
                between(peak(comparison, &c.server))
            })
        };
        table.row([
            format!("here: {}", c.server),
            on(Speed::Slow),
            on(Speed::Fast),
        ]);
    }
    table
}

/// Mean hit, miss and response time of a server at a rate.
fn times(comparison: &Comparison, server: &str, rate: f64) -> Option<[f64; 3]> {
    let mut all = comparison.measured();
    let (_, m) = all.find(|(run, _)| run.server == server && same(run.rate, rate))?;
    Some([m.hit.mean_ms, m.miss.mean_ms, m.response.mean_ms])
}

fn same(a: f64, b: f64) -> bool {
    (a - b).abs() < 1e-9
}

fn rates(comparison: &Comparison) -> Vec<f64> {
    let mut rates: Vec<f64> = comparison.measured().map(|(run, _)| run.rate).collect();
    rates.sort_by(f64::total_cmp);
    rates.dedup();
    rates
}

/// Figures 6 to 8 as numbers; the plots have them as curves.
fn figures(comparison: &Comparison) -> Table {
    let mut columns = vec!["requests/s".to_owned()];
    for figure in ["Fig. 6 hit", "Fig. 7 miss", "Fig. 8 response"] {
        for c in &comparison.contestants {
            columns.push(format!("{figure}, {}", c.server));
        }
    }
    let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
    let mut table = Table::new(
        "Figures 6 to 8 of paper 000: mean times in ms against the rate",
        &columns,
    );
    for rate in rates(comparison) {
        let mut cells = vec![format!("{rate:.0}")];
        for figure in 0..3 {
            for c in &comparison.contestants {
                let time = times(comparison, &c.server, rate).map(|t| t[figure]);
                cells.push(time.map_or("-".into(), |t| format!("{t:.1}")));
            }
        }
        table.row(cells);
    }
    table
}

/// Squid's time divided by Loligo's, the least and the most over the rates.
fn speedups(comparison: &Comparison, server: &str, figure: usize) -> String {
    let mut ratios: Vec<f64> = rates(comparison)
        .into_iter()
        .filter_map(|rate| {
            let theirs = times(comparison, server, rate)?;
            let ours = times(comparison, Rival::Loligo.name(), rate)?;
            (ours[figure] > 0.0).then(|| theirs[figure] / ours[figure])
        })
        .collect();
    ratios.sort_by(f64::total_cmp);
    match (ratios.first(), ratios.last()) {
        (Some(least), Some(most)) => format!("{least:.1} to {most:.1}"),
        _ => "-".into(),
    }
}

/// The rate that Loligo carried, divided by that of another server.
fn more_carried(comparison: &Comparison, server: &str) -> String {
    let ours = peak(comparison, Rival::Loligo.name()).carried;
    let both = ours.zip(peak(comparison, server).carried);
    both.map_or("-".to_owned(), |(ours, theirs)| {
        format!("{:.1}", ours / theirs)
    })
}

/// The statements in the paper's text about its figures and peaks, with the same numbers of ours.
fn said(comparison: &Comparison) -> Table {
    let others: Vec<&str> = comparison
        .contestants
        .iter()
        .map(|c| c.server.as_str())
        .filter(|server| *server != Rival::Loligo.name())
        .collect();
    let mut columns = vec![
        "Squid's time over ours".to_owned(),
        "paper, low-end".to_owned(),
        "paper, high-end".to_owned(),
    ];
    columns.extend(others.iter().map(|server| format!("here, {server}")));
    let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
    let mut table = Table::new(
        "What paper 000 says of Figures 6 to 8 and Table 3, and ours",
        &columns,
    );
    //= paper 000 sections 5.2 to 5.4   speed-up of hit and response time
    for (figure, name, low, high) in [
        (0, "hit time", "6 to 22", "2 to 9"),
        (
            1,
            "miss time",
            "better under heavy load",
            "better under heavy load",
        ),
        (2, "response time", "3.5 at 50/s", "1.5 at 170/s"),
    ] {
        let named = [name.to_owned(), low.to_owned(), high.to_owned()];
        let here = others
            .iter()
            .map(|server| speedups(comparison, server, figure));
        table.row(named.into_iter().chain(here));
    }
    //= paper 000 section 5.5   127 % and 57 % more
    let named = ["peak, ours over Squid's", "2.27", "1.57"].map(str::to_owned);
    let here = others.iter().map(|server| more_carried(comparison, server));
    table.row(named.into_iter().chain(here));
    table
}
