//! `cargo xtask rivals paper000`: Tables 1 to 3 and Figures 6 to 8 of paper 000, for Loligo and for an installed Squid.
//!
//! The paper counts Squid's file operations over a whole PolyMix-3 run and shows hit, miss and response time against the
//! rate, on a machine with one IDE disk ("low-end") and on one with five SCSI disks ("high-end"). Here the slow disk stands
//! for the first and the fast one for the second. Counts are given a thousand requests, since a run here is short; the paper
//! says how many requests a run had for four rates of the high-end machine only. Its figures are drawings without numbers, so what
//! its text says of them stands beside ours.
//!
//! Not known here: how runs are made.   Source: paper 000, section 3.1 and section 5.

use clap::Args;
use page::Table;

use super::options::Conditions;
use super::report::{Comparison, Extra};
use super::{Plan, carry_out, loligo_and, verdict};
use crate::failure::Result;
use crate::rivals::Rival;

/// A row of Tables 1 and 2 of the paper for the high-end machine, and the requests of that run (section 3.1), in millions.
struct Printed {
    rate: f64,
    requests_m: f64,
    open: f64,
    close: f64,
    delete: f64,
    /// Squid, then the paper's own system
    read: [f64; 2],
    write: [f64; 2],
}

//= paper 000 section 5.1   Tables 1 (b) and 2 (b); requests from the text to Figure 2
const PRINTED: [Printed; 4] = [
    Printed {
        rate: 50.0,
        requests_m: 4.3,
        open: 3_220_714.0,
        close: 3_220_714.0,
        delete: 1_691_382.0,
        read: [1_844_889.0, 809_374.0],
        write: [6_608_094.0, 2_411_219.0],
    },
    Printed {
        rate: 100.0,
        requests_m: 6.0,
        open: 4_627_888.0,
        close: 4_627_888.0,
        delete: 2_281_725.0,
        read: [3_379_529.0, 1_622_303.0],
        write: [8_228_432.0, 3_005_464.0],
    },
    Printed {
        rate: 150.0,
        requests_m: 7.8,
        open: 6_080_883.0,
        close: 6_080_883.0,
        delete: 3_235_120.0,
        read: [4_305_185.0, 2_124_848.0],
        write: [10_814_209.0, 3_955_914.0],
    },
    Printed {
        rate: 200.0,
        requests_m: 9.5,
        open: 7_477_177.0,
        close: 7_477_177.0,
        delete: 4_404_863.0,
        read: [4_705_627.0, 2_350_592.0],
        write: [14_005_715.0, 5_126_464.0],
    },
];

/// `cargo xtask rivals paper000`.
#[derive(Debug, Clone, Args)]
#[command(after_help = EXAMPLES)]
pub struct Options {
    /// Whom to set beside Loligo, by name
    #[arg(long, value_delimiter = ',', default_value = "squid-ufs")]
    beside: Vec<String>,
    /// Rates of the figures, requests a second
    #[arg(long, value_delimiter = ',', default_value = "25,50,100,200")]
    rate: Vec<f64>,
    /// Rates at which system calls are counted, in runs of their own
    #[arg(long, value_delimiter = ',', default_value = "50")]
    count_rate: Vec<f64>,
    #[command(flatten)]
    conditions: Conditions,
}

const EXAMPLES: &str = "\
Examples:
  The low-end machine of the paper:
    cargo xtask rivals paper000 --disk slow --html low.html
  The high-end one, and what the paper's Squid used (diskd):
    cargo xtask rivals paper000 --disk fast --beside squid-diskd,squid-ufs --rate 100,200,400";

/// Runs and prints.
pub fn run(options: &Options) -> Result<()> {
    let plan = Plan {
        title: format!(
            "Tables 1 to 3 and Figures 6 to 8 of paper 000, {} disk",
            format!("{:?}", options.conditions.disk).to_lowercase()
        ),
        rivals: loligo_and(&options.beside)?,
        rates: options.rate.clone(),
        peak_runs: None,
        watched: options.count_rate.clone(),
        conditions: &options.conditions,
    };
    let comparison = carry_out(&plan, &laid_out)?;
    println!("{}", comparison.text(&laid_out(&comparison)));
    verdict(&comparison)
}

/// The paper's tables with what was found here. Its figures are among the plots that every comparison has.
pub fn laid_out(comparison: &Comparison) -> Extra {
    Extra {
        tables: vec![
            operations(comparison),
            peaks(comparison),
            figures(comparison),
            said(comparison),
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
    for row in &PRINTED {
        for (n, name) in ["paper: Squid-2.4", "paper: UNIFIED"].iter().enumerate() {
            // All that the paper's own system has left.
            let files = if n == 0 { 1.0 } else { 0.0 };
            let counts = [
                row.open * files,
                row.close * files,
                row.delete * files,
                row.read[n],
                row.write[n],
            ];
            let each = |count: f64| format!("{:.0}", count / (row.requests_m * 1e3));
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

/// The highest rate of the list that a proxy carried, and the lowest that it did not.
fn carried(comparison: &Comparison, server: &str) -> (Option<f64>, Option<f64>) {
    let (mut most, mut least) = (None::<f64>, None::<f64>);
    let runs = comparison.runs.iter().filter(|run| !run.watched);
    for run in runs.filter(|run| run.server == server) {
        if run.carried() {
            most = Some(most.map_or(run.rate, |m| m.max(run.rate)));
        } else {
            least = Some(least.map_or(run.rate, |l| l.min(run.rate)));
        }
    }
    (most, least)
}

/// Table 3.
fn peaks(comparison: &Comparison) -> Table {
    let mut table = Table::new(
        "Table 3 of paper 000: peak throughput, requests/s (here: highest of the rates that was carried, lowest that was not)",
        &[
            "system",
            "low-end or slow",
            "high-end or fast",
            "here, this disk",
        ],
    );
    //= paper 000 section 5.5   Table 3
    for (name, low, high) in [
        ("paper: Squid-2.4", "50~60", "170~180"),
        ("paper: UNIFIED", "120~130", "250~300"),
    ] {
        table.row([name.to_owned(), low.to_owned(), high.to_owned()]);
    }
    let text = |rate: Option<f64>| rate.map_or("-".to_owned(), |r| format!("{r:.0}"));
    for c in &comparison.contestants {
        let (most, least) = carried(comparison, &c.server);
        let here = format!("{} / {}", text(most), text(least));
        table.row([
            format!("here: {}", c.server),
            String::new(),
            String::new(),
            here,
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

/// Each time of Squid's over Loligo's, least and most over the rates.
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

/// What the paper's text says of its figures, and the same of ours.
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
    let mut table = Table::new("What paper 000 says of Figures 6 to 8, and ours", &columns);
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
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_printed_counts_have_the_papers_shares() {
        // The text gives these for Figure 2: opens 76 % of the requests, deletes 40 %; half the reads saved, 63 % of the writes.
        for row in &PRINTED {
            let share = row.open / (row.requests_m * 1e6);
            assert!((0.72..0.80).contains(&share), "{share}");
            let share = row.delete / (row.requests_m * 1e6);
            assert!((0.35..0.48).contains(&share), "{share}");
            assert!((0.4..0.6).contains(&(row.read[1] / row.read[0])));
            assert!((0.35..0.39).contains(&(row.write[1] / row.write[0])));
            assert!((row.open - row.close).abs() < 2.0);
        }
    }
}
