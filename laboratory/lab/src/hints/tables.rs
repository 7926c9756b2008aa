//! The streams of a study, and Tables 1 and 2 of paper 003 with our measurements for each row.
//!
//! Not known here: how runs are made.   Source: paper 003, Tables 1 and 2.

use super::figures::{four, paid_setup, period_setup, space_setup};
use super::printed::{DIRECTORY_ENTRY_BYTES, PERIOD_S, PERIODS_S};
use super::setup::{Paid, Represented, Setup};
use super::site::Counts;
use super::statements::TABLE_2;
use super::{Studied, said, verdicts};
use crate::paper::report::{Rows, Section};

/// Each stream compared with the paper's trace.
pub(super) fn streams(studied: &[Studied]) -> Section {
    let mut rows = Rows::new(
        "Streams",
        &[
            "stream",
            "requests",
            "objects",
            "GB of objects",
            "days",
            "hits without limit (%)",
            "1 GB is (MB)",
            "1 MiB is (KiB)",
            "1 h is (s)",
        ],
    );
    rows.row(
        [
            "paper 003",
            "5570000",
            "1680000",
            "17.0",
            "12.67",
            "",
            "1000",
            "1024",
            "3600",
        ]
        .map(str::to_owned),
    );
    for stream in studied {
        let measure = &stream.measure;
        rows.row([
            stream.name.clone(),
            measure.requests.to_string(),
            measure.objects.to_string(),
            format!("{:.2}", measure.object_bytes as f64 / 1e9),
            format!("{:.2}", measure.span_ms as f64 / 86_400_000.0),
            format!("{:.1}", measure.hits_max_percent()),
            format!("{:.0}", 1000.0 * measure.bytes_share()),
            format!("{:.0}", 1024.0 * measure.objects_share()),
            format!("{:.0}", PERIOD_S * measure.time_share()),
        ]);
    }
    Section {
        name: "streams".to_owned(),
        title: "Streams".to_owned(),
        text: vec![
            "Caches, hint spaces and periods are the paper's in proportion to the stream's bytes, objects and time. One front, one node."
                .to_owned(),
        ],
        tables: vec![rows],
        plots: Vec::new(),
    }
}

/// A row of Table 1: a characteristic, what it affects, and how much.
struct Affects {
    characteristic: &'static str,
    affects: &'static str,
    measured: fn(&Studied) -> String,
}

const SHORT_S: f64 = PERIODS_S[0];
const LONG_S: f64 = PERIODS_S[PERIODS_S.len() - 1];

fn of(stream: &Studied, setup: Setup, value: fn(&Counts) -> f64) -> f64 {
    value(stream.runs.of(&setup))
}

fn hits(counts: &Counts) -> f64 {
    counts.percent(counts.hits())
}

const LINES: [Affects; 7] = [
    Affects {
        characteristic: "memory at the node",
        affects: "the node's hit ratio",
        measured: |stream| {
            let at = |paid| of(stream, paid_setup(1.0, paid), hits);
            let points = at(Paid::AtNode) - at(Paid::Nowhere);
            format!("80 MiB of 1 GB: {points:+.2} points of hits")
        },
    },
    Affects {
        characteristic: "memory at the front",
        affects: "the front's hit ratio",
        measured: |stream| {
            let front = |counts: &Counts| counts.percent(counts.front_hits);
            let at = |paid| of(stream, paid_setup(1.0, paid), front);
            let points = at(Paid::Everywhere) - at(Paid::AtNode);
            format!("10 MiB of 512 MB: {points:+.2} points of its hits")
        },
    },
    Affects {
        characteristic: "update period",
        affects: "throughput, long-term",
        measured: |stream| {
            let each = |counts: &Counts| 1000.0 * counts.entries as f64 / counts.requests as f64;
            let at = |period_s| of(stream, eager(period_s), each);
            let (short, long) = (at(SHORT_S), at(LONG_S));
            format!("{short:.0} entries for 1,000 requests at 1 s, {long:.0} at 2 h")
        },
    },
    Affects {
        characteristic: "update period",
        affects: "throughput of both, short-term",
        measured: |stream| {
            let most = |counts: &Counts| counts.entries_max as f64;
            let at = |period_s| of(stream, eager(period_s), most);
            let (short, long) = (at(SHORT_S), at(LONG_S));
            format!("largest update {short:.0} entries at 1 s, {long:.0} at 2 h")
        },
    },
    Affects {
        characteristic: "look-up time",
        affects: "the front's throughput, long-term",
        measured: |_| {
            "not of the stream: a look-up for each request without a front hit".to_owned()
        },
    },
    Affects {
        characteristic: "false hits",
        affects: "the node's load",
        measured: |stream| {
            let more = |counts: &Counts| {
                100.0 * counts.false_hits as f64 / (counts.sent() - counts.false_hits).max(1) as f64
            };
            let at = |mib| of(stream, space_setup(mib, 10.0), more);
            let (small, large) = (at(0.5), at(10.0));
            format!("{small:+.2} % requests at 0.5 MiB, {large:+.2} % at 10 MiB (10 GB)")
        },
    },
    Affects {
        characteristic: "false misses",
        affects: "the use of the network",
        measured: |stream| {
            let of_fetches = |counts: &Counts| {
                100.0 * counts.false_misses as f64
                    / (counts.own_fetches - counts.false_misses).max(1) as f64
            };
            let at = |period_s| {
                let setup = period_setup(period_s, Represented::Directory, false);
                of(stream, setup, of_fetches)
            };
            let (short, long) = (at(SHORT_S), at(LONG_S));
            format!("{short:+.2} % fetches at 1 s, {long:+.2} % at 2 h (directory, node only)")
        },
    },
];

fn eager(period_s: f64) -> Setup {
    period_setup(period_s, Represented::BLOOM, true)
}

pub(super) fn table1_setups() -> Vec<Setup> {
    let mut setups = [Paid::Nowhere, Paid::AtNode, Paid::Everywhere]
        .map(|paid| paid_setup(1.0, paid))
        .to_vec();
    for period_s in [SHORT_S, LONG_S] {
        setups.push(eager(period_s));
        setups.push(period_setup(period_s, Represented::Directory, false));
    }
    setups.extend([0.5, 10.0].map(|mib| space_setup(mib, 10.0)));
    setups
}

/// What each choice affects, and how much on each stream.
pub(super) fn table1(studied: &[Studied]) -> Section {
    let mut columns = vec!["characteristic", "affects"];
    columns.extend(studied.iter().map(|stream| stream.name.as_str()));
    let mut rows = Rows::new("Table 1: what choices of hints affect", &columns);
    for line in &LINES {
        let words = [line.characteristic, line.affects].map(str::to_owned);
        let cells = studied.iter().map(line.measured);
        rows.row(words.into_iter().chain(cells));
    }
    Section {
        name: "table1".to_owned(),
        title: "Table 1: what choices of hints affect".to_owned(),
        text: vec!["The first two columns are the paper's; the others are measured.".to_owned()],
        tables: vec![rows],
        plots: Vec::new(),
    }
}

pub(super) fn table2_setups() -> Vec<Setup> {
    let mut setups = four(4.0).map(|(_, setup)| setup).to_vec();
    setups.push(period_setup(SHORT_S, Represented::Directory, true));
    setups
}

/// Directory and filter, with and without eager registration, as measured.
pub(super) fn table2(studied: &[Studied]) -> Section {
    let mut tables = vec![verdicts(TABLE_2, studied)];
    tables.extend(studied.iter().map(measured));
    let mut text = vec![
            "Node's cache 4 GB, front's 256 MB, hint space 4 MiB, period 1 h. The paper: memory at the node none (directory) and O(hint \
             space) (filter), at the front O(objects) and O(hint space); look-up depending on context and constant; false hits none and \
             O(objects); false misses by period (node only) and none (eager); the front's work in large bursts and smaller ones."
                .to_owned(),
        ];
    text.extend(said(TABLE_2));
    Section {
        name: "table2".to_owned(),
        title: "Table 2: the methods beside each other".to_owned(),
        text,
        tables,
        plots: Vec::new(),
    }
}

fn measured(stream: &Studied) -> Rows {
    let all = four(4.0);
    let mut columns = vec![""];
    columns.extend(all.iter().map(|(name, _)| *name));
    let mut rows = Rows::new(&format!("{}, measured", stream.name), &columns);
    let mut row = |name: &str, value: fn(&Counts) -> String| {
        let cells = all.map(|(_, setup)| value(stream.runs.of(&setup)));
        rows.row(std::iter::once(name.to_owned()).chain(cells));
    };
    row("objects in the node", |c| c.node_objects.to_string());
    row("hints at the node (MB)", |c| mb(c.node_hint_bytes));
    row("hints at the front (MB)", |c| mb(c.front_hint_bytes));
    row("false hits (%)", |c| {
        format!("{:.4}", c.percent(c.false_hits))
    });
    row("false misses (%)", |c| {
        format!("{:.4}", c.percent(c.false_misses))
    });
    row("stale, sent to the node (%)", |c| {
        format!("{:.3}", c.percent(c.stale))
    });
    row("front's hits (%)", |c| {
        format!("{:.2}", c.percent(c.front_hits))
    });
    row("hits of both (%)", |c| format!("{:.2}", hits(c)));
    row("pushes", |c| c.pushes.to_string());
    row("updates", |c| c.messages.to_string());
    row("entries of an update, mean", |c| {
        format!("{:.0}", c.entries as f64 / c.messages.max(1) as f64)
    });
    row("entries of the largest", |c| c.entries_max.to_string());
    row("bytes of all entries (MB)", |c| mb(c.entry_bytes));
    let paper = all.map(|(_, setup)| match setup.represented {
        Represented::Directory => mb(stream.runs.of(&setup).node_objects * DIRECTORY_ENTRY_BYTES),
        Represented::Bloom { .. } => String::new(),
    });
    rows.row(std::iter::once("with the paper's 68 bytes, front (MB)".to_owned()).chain(paper));
    rows
}

fn mb(bytes: u64) -> String {
    format!("{:.2}", bytes as f64 / 1e6)
}
