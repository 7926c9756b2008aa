//! Tables 1 and 2: the paper's values and every stream's, in one unit.

use std::io;

use super::bench::{Bench, Load, Until};
use super::experiment::{Job, Outcome};
use super::printed::{self, Unit};
use super::report::{Curve, Curves, Rows, Scale, Section};
use super::workload::Counts;
use crate::managers::{Kind, Settings};

/// A job with the bench's model and usual settings.
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

/// Seconds as `46:31`.
pub(super) fn minutes(seconds: f64) -> String {
    let seconds = seconds.round() as u64;
    format!("{}:{:02}", seconds / 60, seconds % 60)
}

/// The counts of a load for each stream, and the paper's.
fn counts(all: &[(&str, Counts)]) -> Rows {
    let mut columns = vec!["", "paper"];
    columns.extend(all.iter().map(|&(name, _)| name));
    let mut rows = Rows::new("What was asked", &columns);
    type Count = fn(&Counts) -> u64;
    let of: [(&str, u64, Count); 5] = [
        ("gets", printed::GETS, |c| c.gets),
        ("memory hits", printed::MEMORY_HITS, |c| c.memory_hits),
        ("disk reads", printed::READS, |c| c.reads),
        ("disk writes", printed::WRITES, |c| c.writes),
        ("disk deletes", printed::DELETES, |c| c.deletes),
    ];
    for (name, paper, count) in of {
        let ours = all.iter().map(|(_, counts)| count(counts).to_string());
        rows.row([name.to_owned(), paper.to_string()].into_iter().chain(ours));
    }
    rows
}

fn names<'b>(benches: &'b [Bench]) -> Vec<&'b str> {
    benches.iter().map(|bench| bench.source.name()).collect()
}

const TABLE_1: [(Kind, &str); 4] = [
    (Kind::StreamPacketizer, "STREAM-PACKETIZER"),
    (Kind::LazyReads, "+ LAZY-READS"),
    (Kind::StreamLoc, "+ LOC-128"),
    (Kind::LazyReadsLoc, "+ both"),
];

/// Runs Table 1: STREAM-PACKETIZER, with lazy reads, with locality buffers, with both.
pub(super) fn table1_outcomes(bench: &Bench) -> io::Result<Vec<Outcome>> {
    let jobs = TABLE_1.map(|(kind, _)| job(bench, kind, printed::TABLE_1_UTILISATION));
    bench.run("table 1", million(), &jobs)
}

/// The gain of lazy reads and locality buffers over STREAM-PACKETIZER.
pub fn table1(benches: &[Bench]) -> io::Result<Section> {
    let outcomes = benches.iter().map(table1_outcomes);
    let outcomes: Vec<Vec<Outcome>> = outcomes.collect::<io::Result<_>>()?;
    let paper_per_s = |at: usize| printed::REQUESTS as f64 / printed::TABLE_1[at].0;
    let table = |caption: &str,
                 paper: &dyn Fn(usize) -> String,
                 ours: &dyn Fn(&[Outcome], usize) -> String| {
        let mut columns = vec!["", "paper"];
        columns.extend(names(benches));
        let mut rows = Rows::new(caption, &columns);
        for (at, (_, name)) in TABLE_1.iter().enumerate() {
            let cells = outcomes.iter().map(|outcomes| ours(outcomes, at));
            rows.row([(*name).to_owned(), paper(at)].into_iter().chain(cells));
        }
        rows
    };
    let gain = |outcomes: &[Outcome], at: usize| {
        format!(
            "{:.1}",
            (outcomes[0].seconds / outcomes[at].seconds - 1.0) * 100.0
        )
    };
    let tables = vec![
        table(
            "Table 1: improvement (%)",
            &|at| format!("{}", printed::TABLE_1[at].1),
            &gain,
        ),
        table(
            "Table 1: disk requests a second",
            &|at| format!("{:.1}", paper_per_s(at)),
            &|o, at| format!("{:.1}", o[at].requests_per_s),
        ),
        table(
            "Table 1: time (min:s)",
            &|at| minutes(printed::TABLE_1[at].0),
            &|o, at| minutes(o[at].seconds),
        ),
    ];
    let mut tables = tables;
    let mut all = Vec::new();
    for bench in benches {
        all.push((bench.source.name(), bench.load(million())?.counts));
    }
    tables.push(counts(&all));
    let bars = |name: &str, printed, value: &dyn Fn(usize) -> f64| Curve {
        name: name.to_owned(),
        printed,
        points: (0..4).map(|n| (n as f64, value(n))).collect(),
    };
    let mut curves = vec![bars("paper", true, &paper_per_s)];
    for (bench, outcomes) in benches.iter().zip(&outcomes) {
        curves.push(bars(bench.source.name(), false, &|n| {
            outcomes[n].requests_per_s
        }));
    }
    Ok(Section {
        name: "table1".to_owned(),
        title: "Table 1: lazy reads and locality buffers, at 71 % utilisation".to_owned(),
        text: vec![
            "Improvement is the time of STREAM-PACKETIZER over that of the manager, less one. Locality buffers gain as much as \
             reads come in groups of one server, and as those groups were torn apart when they were written: that is the \
             stream's doing, not the disk's."
                .to_owned(),
        ],
        tables,
        plots: vec![Curves {
            caption: "Table 1: disk requests a second".to_owned(),
            x: Scale::linear(""),
            y: Scale::linear("requests/s"),
            joined: false,
            names: TABLE_1.iter().map(|&(_, name)| name.to_owned()).collect(),
            curves,
        }],
    })
}

/// The rows of Table 2, and paper 000's manager.
pub(super) const TABLE_2: [Kind; 9] = [
    Kind::Simple,
    Kind::Squid,
    Kind::MultipleDirs,
    Kind::Buddy,
    Kind::Stream,
    Kind::StreamPacketizer,
    Kind::LazyReads,
    Kind::LazyReadsLoc,
    Kind::Unified,
];

/// Runs Table 2, in the order of [`TABLE_2`].
pub(super) fn table2_outcomes(bench: &Bench) -> io::Result<Vec<Outcome>> {
    // The rows that section 3.3 prints are from Figure 4, with fewer requests; all others from Figures 6 to 8, with a million.
    let jobs = TABLE_2.map(|kind| {
        let load = if kind <= Kind::Buddy {
            figure_4()
        } else {
            million()
        };
        let job = job(bench, kind, printed::TABLE_1_UTILISATION);
        (bench.scaled(load), job)
    });
    bench.run_all("table 2", &jobs)
}

/// Requests a second of each manager.
pub fn table2(benches: &[Bench]) -> io::Result<Section> {
    let outcomes = benches.iter().map(table2_outcomes);
    let outcomes: Vec<Vec<Outcome>> = outcomes.collect::<io::Result<_>>()?;
    let first = benches[0].source.name();
    let over = format!("{first} / paper");
    let table =
        |caption: &str, paper: &dyn Fn(printed::Rate) -> f64, ours: &dyn Fn(&Outcome) -> f64| {
            let mut columns = vec!["manager", "paper"];
            columns.extend(names(benches));
            columns.push(&over);
            let mut rows = Rows::new(caption, &columns);
            for (at, kind) in TABLE_2.iter().enumerate() {
                let paper = printed::rate(kind.name()).map(paper);
                let mut cells = vec![kind.name().to_owned()];
                cells.push(paper.map_or("-".to_owned(), |rate| format!("{rate:.1}")));
                cells.extend(outcomes.iter().map(|o| format!("{:.1}", ours(&o[at]))));
                cells.push(paper.map_or("-".to_owned(), |rate| {
                    format!("{:.2}", ours(&outcomes[0][at]) / rate)
                }));
                rows.row(cells);
            }
            rows
        };
    let mut as_printed = Rows::new(
        "Table 2 as it is printed, and its unit",
        &["manager", "paper (a second)", "unit", "which says"],
    );
    for (manager, _) in printed::TABLE_2 {
        let rate = printed::rate(manager).expect("it is a row of the table");
        let (unit, from) = match (rate.unit, manager) {
            (_, "BUDDY") => (
                "disk requests",
                "Figure 4 (below 9 ms) and Figure 6 (STREAM twice, STREAM-PACKETIZER 2.5 times); section 3.3 calls them gets",
            ),
            (Unit::Gets, _) => ("gets", "section 3.3; nothing checks it"),
            (Unit::Requests, "STREAM") => ("disk requests", "not told; as the rows below"),
            (Unit::Requests, _) => ("disk requests", "Table 1: a million over its time"),
        };
        let cells = [manager, &format!("{}", rate.printed), unit, from];
        as_printed.row(cells.map(str::to_owned));
    }
    let curve = |name: &str, printed, values: Vec<f64>| Curve {
        name: name.to_owned(),
        printed,
        points: (0..).map(f64::from).zip(values).collect(),
    };
    let rates = printed::TABLE_2
        .map(|(manager, _)| printed::rate(manager).map_or(0.0, |rate| rate.requests_per_s));
    let mut curves = vec![curve("paper", true, rates.to_vec())];
    for (bench, outcomes) in benches.iter().zip(&outcomes) {
        let rates = outcomes.iter().map(|o| o.requests_per_s);
        curves.push(curve(bench.source.name(), false, rates.collect()));
    }
    Ok(Section {
        name: "table2".to_owned(),
        title: "Table 2: every manager".to_owned(),
        text: vec![
            "The paper's table says gets a second, but its last rows are disk requests a second: a million over the times of \
             Table 1. So both are shown, and each row of the paper is converted by the counts of its own experiment. Between streams \
             compare disk requests: how many gets it takes to make one is the stream's doing."
                .to_owned(),
            "SIMPLE, SQUID, MULTIPLE-DIRS and BUDDY run the 300,000 requests of Figure 4 on a disk of 1 GB, the others a million \
             requests on 2 GB at 71 %, as in Figures 6 to 8; of a trace, three tenths of its requests on half its disk, and all of \
             them. UNIFIED is paper 000's, not in this one."
                .to_owned(),
        ],
        tables: vec![
            table("Table 2: disk requests a second", &|rate| rate.requests_per_s, &|o| o.requests_per_s),
            table("Table 2: gets a second", &|rate| rate.gets_per_s, &|o| o.gets_per_s),
            as_printed,
        ],
        plots: vec![Curves {
            caption: "Table 2: disk requests a second".to_owned(),
            x: Scale::linear(""),
            y: Scale::log("requests/s"),
            joined: false,
            names: TABLE_2.map(|kind| kind.name().to_owned()).to_vec(),
            curves,
        }],
    })
}
