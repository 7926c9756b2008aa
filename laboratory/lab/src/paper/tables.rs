//! Tables 1 and 2.

use std::io;

use super::bench::{Bench, Load, Until};
use super::experiment::{Job, Outcome};
use super::printed;
use super::report::{Curve, Curves, Rows, Scale, Section};
use super::workload::Counts;
use crate::managers::{Kind, Settings};

/// A job at the fullness of Table 1.
pub(super) fn job(bench: &Bench, kind: Kind, utilisation: f64) -> Job {
    Job {
        kind,
        settings: Settings::default(),
        utilisation,
        model: bench.model,
    }
}

/// The load of most experiments: a million disk requests behind a 2-GB disk.
pub(super) fn million() -> Load {
    Load::paper(printed::DISK_BYTES, Until::Requests(printed::REQUESTS))
}

/// The load of Figure 4.
pub(super) fn figure_4() -> Load {
    let until = Until::Requests(printed::FIGURE_4_REQUESTS);
    Load::paper(printed::FIGURE_4_DISK_BYTES, until)
}

/// `46:31`.
pub(super) fn minutes(seconds: f64) -> String {
    let seconds = seconds.round() as u64;
    format!("{}:{:02}", seconds / 60, seconds % 60)
}

/// The counts of a load beside the paper's.
pub(super) fn counts(counts: &Counts, scale: f64) -> Rows {
    let mut rows = Rows::new("What was asked", &["", "paper", "here"]);
    for (name, paper, here) in [
        ("gets", printed::GETS, counts.gets),
        ("memory hits", printed::MEMORY_HITS, counts.memory_hits),
        ("disk reads", printed::READS, counts.reads),
        ("disk writes", printed::WRITES, counts.writes),
        ("disk deletes", printed::DELETES, counts.deletes),
    ] {
        let paper = (paper as f64 * scale).round();
        rows.row([name.to_owned(), format!("{paper}"), here.to_string()]);
    }
    rows
}

const TABLE_1: [(Kind, &str); 4] = [
    (Kind::StreamPacketizer, "STREAM-PACKETIZER"),
    (Kind::LazyReads, "+ LAZY-READS"),
    (Kind::StreamLoc, "+ LOC-128"),
    (Kind::LazyReadsLoc, "+ both"),
];

/// What lazy reads and locality buffers add to STREAM-PACKETIZER.
pub fn table1(bench: &Bench) -> io::Result<Section> {
    let jobs = TABLE_1.map(|(kind, _)| job(bench, kind, printed::TABLE_1_UTILISATION));
    let outcomes = bench.run("table 1", million(), &jobs)?;
    let mut rows = Rows::new(
        "Table 1",
        &["", "paper (min:s)", "here (min:s)", "paper (%)", "here (%)"],
    );
    for (((_, name), paper), outcome) in TABLE_1.iter().zip(printed::TABLE_1).zip(&outcomes) {
        let gain = (outcomes[0].seconds / outcome.seconds - 1.0) * 100.0;
        rows.row([
            (*name).to_owned(),
            minutes(paper.0 * bench.scale),
            minutes(outcome.seconds),
            format!("{}", paper.1),
            format!("{gain:.1}"),
        ]);
    }
    let bars = |name: &str, printed, value: &dyn Fn(usize) -> f64| Curve {
        name: name.to_owned(),
        printed,
        points: (0..4).map(|n| (n as f64, value(n))).collect(),
    };
    let load = bench.load(million());
    Ok(Section {
        name: "table1".to_owned(),
        title: "Table 1: lazy reads and locality buffers, at 71 % utilisation".to_owned(),
        text: vec![
            "Improvement is the time of STREAM-PACKETIZER over that of the manager, less one. Locality buffers gain as much as \
             reads come in groups of one server, and as those groups were torn apart when they were written: that is the \
             stream's doing, not the disk's. docs/lab.md says more."
                .to_owned(),
        ],
        tables: vec![rows, counts(&load.counts, bench.scale)],
        plots: vec![Curves {
            caption: "Table 1: time for a million disk requests".to_owned(),
            x: Scale::linear(""),
            y: Scale::linear("time (s)"),
            joined: false,
            names: TABLE_1.iter().map(|&(_, name)| name.to_owned()).collect(),
            curves: vec![
                bars("paper", true, &|n| printed::TABLE_1[n].0 * bench.scale),
                bars("here", false, &|n| outcomes[n].seconds),
            ],
        }],
    })
}

const TABLE_2: [Kind; 8] = [
    Kind::Simple,
    Kind::Squid,
    Kind::MultipleDirs,
    Kind::Buddy,
    Kind::Stream,
    Kind::StreamPacketizer,
    Kind::LazyReads,
    Kind::LazyReadsLoc,
];

/// The eight, and paper 000's.
fn table2_outcomes(bench: &Bench) -> io::Result<Vec<(Kind, Outcome)>> {
    let kinds = || TABLE_2.into_iter().chain([Kind::Unified]);
    // Files of their own were measured in Figure 4, with fewer requests; all others in Figures 6 to 8, with a million.
    let jobs: Vec<(Load, Job)> = kinds()
        .map(|kind| {
            let load = if kind <= Kind::MultipleDirs {
                figure_4()
            } else {
                million()
            };
            let job = job(bench, kind, printed::TABLE_1_UTILISATION);
            (bench.scaled(load), job)
        })
        .collect();
    let outcomes = bench.run_all("table 2", &jobs)?;
    Ok(kinds().zip(outcomes).collect())
}

/// How many gets a second each manager serves.
pub fn table2(bench: &Bench) -> io::Result<Section> {
    let outcomes = table2_outcomes(bench)?;
    let mut rows = Rows::new(
        "Table 2",
        &["manager", "paper (gets/s)", "here (gets/s)", "here / paper"],
    );
    for (at, (kind, outcome)) in outcomes.iter().enumerate() {
        let paper = printed::TABLE_2.get(at).map(|&(_, gets)| gets);
        rows.row([
            kind.name().to_owned(),
            paper.map_or("-".to_owned(), |gets| format!("{gets}")),
            format!("{:.1}", outcome.gets_per_s),
            paper.map_or("-".to_owned(), |gets| {
                format!("{:.2}", outcome.gets_per_s / gets)
            }),
        ]);
    }
    let ours: Vec<f64> = outcomes.iter().map(|(_, o)| o.gets_per_s).collect();
    let ordered = ours[..TABLE_2.len()].is_sorted();
    let gain = ours[7] / ours[1];
    let worst = ours
        .iter()
        .zip(printed::TABLE_2)
        .map(|(&here, (_, paper))| (here / paper).max(paper / here))
        .fold(1.0, f64::max);
    let curve = |name: &str, printed, values: Vec<f64>| Curve {
        name: name.to_owned(),
        printed,
        points: (0..).map(f64::from).zip(values).collect(),
    };
    Ok(Section {
        name: "table2".to_owned(),
        title: "Table 2: gets a second of every manager".to_owned(),
        text: vec![
            format!(
                "The paper's order {}. From SQUID to LAZY-READS-LOC the gain is {gain:.1} (paper: 24.8). The largest factor \
                 between a printed value and ours is {worst:.2}.",
                if ordered { "holds" } else { "does not hold" }
            ),
            "SIMPLE, SQUID and MULTIPLE-DIRS run the 300,000 requests of Figure 4 on a disk of 1 GB, the others a million \
             requests on 2 GB at 71 %, as in Figures 6 to 8. UNIFIED is paper 000's, not in this one."
                .to_owned(),
        ],
        tables: vec![rows],
        plots: vec![Curves {
            caption: "Table 2: gets a second".to_owned(),
            x: Scale::linear(""),
            y: Scale::log("gets/s"),
            joined: false,
            names: outcomes.iter().map(|(kind, _)| kind.name().to_owned()).collect(),
            curves: vec![
                curve("paper", true, printed::TABLE_2.map(|row| row.1).to_vec()),
                curve("here", false, ours),
            ],
        }],
    })
}
