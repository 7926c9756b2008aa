//! `cargo xtask rivals paper004`: Tables 6.1 to 6.6 and Figures 6.1 and 6.2 of paper 004, for Loligo and for an installed Squid.
//!
//! One search for each proxy's peak yields all of them. The first run of a search is at `--rate`, the same for all proxies: Tables 6.1
//! to 6.4. The peak is Table 6.5. All runs, sorted by rate, are Table 6.6 and the figures, a set for each proxy, including runs
//! past the peak (the captions tell which rates were carried). The tables are those of `loligo bench polymix`, with the paper's
//! numbers beside ours.
//!
//! Not known here: how runs are made; the printed numbers (`polymix::pages::paper`).   Limits: the paper's servers waited 2.5 s, those
//! of a short run here `--think-scale` of that; the reader judges whether the two can be compared.
//! Source: paper 004, section 6.

use clap::Args;
use polymix::pages::paper::{self, Point, Tested};

use super::book::Extra;
use super::options::Conditions;
use super::report::Comparison;
use super::{Plan, carry_out, loligo_and};
use crate::failure::Result;

/// `cargo xtask rivals paper004`.
#[derive(Debug, Clone, Args)]
#[command(after_help = EXAMPLES)]
pub struct Options {
    /// Whom to set beside Loligo, by name
    #[arg(long, value_delimiter = ',', default_value = "squid-ufs")]
    rivals: Vec<String>,
    /// Rate at which they stand side by side in Tables 6.1 to 6.4, requests a second; looking for the peaks begins there
    #[arg(long, default_value_t = 100.0)]
    rate: f64,
    /// Runs of one proxy, the first included: its curve, and at the end its peak
    #[arg(long, default_value_t = 8)]
    peak_runs: u32,
    #[command(flatten)]
    conditions: Conditions,
}

const EXAMPLES: &str = "\
Examples:
  All tables and both figures, Squid beside Loligo; the cache is small, and so may the peaks be:
    cargo xtask rivals paper004 --disk slow --html paper004.html
  With room up to 800 requests/s, which takes longer:
    cargo xtask rivals paper004 --disk slow --cache-size 512MiB
  More of the curve, with a Squid of several processes:
    cargo xtask rivals paper004 --disk fast --rivals squid-diskd --peak-runs 12 --cache-size 512MiB
  Servers that think as long as the paper's did (2.5 s), at the rate of its first Squid, one run each:
    cargo xtask rivals paper004 --disk slow --rate 60 --peak-runs 1 --think-scale 1
  The paper's own length, about 12 hours each:
    cargo xtask rivals paper004 --disk slow --rate 60 --peak-runs 1 --time-scale 1 --think-scale 1 --cache-size 4GiB \
        --memory 64MiB --page-cache 256MiB --dirty 32MiB --http 1.0 --json day.json --html day.html";

/// Runs and prints.
pub fn run(options: &Options) -> Result<()> {
    let plan = Plan {
        title: "Tables 6.1 to 6.6 and Figures 6.1 and 6.2 of paper 004",
        rivals: loligo_and(&options.rivals)?,
        rates: vec![options.rate],
        // The run at the given rate is the first of them.
        peak_runs: Some(options.peak_runs.saturating_sub(1)),
        watched: Vec::new(),
        conditions: &options.conditions,
    };
    carry_out(&[plan], &|_, this| laid_out(this, options.rate))
}

/// The paper's tables and figures with our results; the runs at `rate` are shown side by side.
pub fn laid_out(comparison: &Comparison, rate: f64) -> Extra {
    let mut tables = vec![
        paper::summary(&side_by_side(comparison, rate)),
        paper::peaks(&peaks(comparison)),
    ];
    let mut plots = Vec::new();
    for c in &comparison.contestants {
        let points = curve(comparison, &c.server);
        if points.is_empty() {
            continue;
        }
        let name = format!("{} ({})", c.server, carried(comparison, &c.server));
        tables.push(paper::table_6_6(&name, &points));
        plots.extend(paper::figures(&name, &points));
    }
    tables.push(paper::printed_6_6());
    Extra { tables, plots }
}

/// The runs of Tables 6.1 to 6.4: the proxies that were measured at this rate.
fn side_by_side(comparison: &Comparison, rate: f64) -> Vec<Tested> {
    let runs = comparison.measured();
    runs.filter(|(run, _)| (run.rate - rate).abs() < 1e-9)
        .map(|(run, m)| {
            let carried = if run.carried() { "" } else { " (not carried)" };
            Tested {
                name: format!("here: {} at {rate}/s{carried}", run.server),
                ..m.tested.clone()
            }
        })
        .collect()
}

/// Table 6.5; proxies without a peak are left out.
fn peaks(comparison: &Comparison) -> Vec<(String, Option<f64>)> {
    let of = |server: &str| {
        let found = comparison.peaks.iter().find(|p| p.server == server);
        found.and_then(|p| p.peak.carried)
    };
    comparison
        .contestants
        .iter()
        .map(|c| (format!("here: {}", c.server), of(&c.server)))
        .collect()
}

/// Table 6.6: all rates that were tried, in order.
fn curve(comparison: &Comparison, server: &str) -> Vec<Point> {
    let runs = comparison.measured();
    runs.filter(|(run, _)| run.server == server)
        .map(|(_, m)| m.tested.point)
        .collect()
}

/// Tells which part of a curve is before the peak.
fn carried(comparison: &Comparison, server: &str) -> String {
    let runs = comparison.measured();
    runs.filter(|(run, _)| run.server == server && run.carried())
        .map(|(run, _)| run.rate)
        .max_by(f64::total_cmp)
        .map_or("none carried".to_owned(), |rate| {
            format!("carried up to {rate:.0}/s")
        })
}
