//! Figures 8 to 15 of paper 003: the runs of each figure, and the quantities it shows.
//!
//! Not known here: streams.   Source: paper 003, section 4, captions.

use super::hinting::Family;
use super::printed::{
    BOUND_PERCENT, LARGE_FRONT_BYTES, LARGE_SPACE_MIB, NODE_GB, PERIOD_POINTS, PERIOD_S, PERIODS_S,
    SPACES_MIB,
};
use super::setup::{BURST_BOUND, Paid, Represented, Setup};
use super::site::Counts;
use super::statements::{
    self, FIGURE_8, FIGURE_9, FIGURE_10, FIGURE_11, FIGURE_12, FIGURE_13, FIGURE_14, FIGURE_15,
};
use super::study::Runs;
use crate::paper::report::{Curve, Scale};

/// The description of a figure.
pub(super) struct Figure {
    pub name: &'static str,
    pub title: &'static str,
    /// The paper's parameters, from the caption and the text.
    pub text: &'static str,
    pub x: Scale,
    /// Names of the positions on the x axis, instead of numbers.
    pub x_names: Vec<String>,
    pub lines: Vec<Line>,
    /// The quantities shown, each in a drawing of its own.
    pub panels: Vec<Panel>,
    /// The paper's curves of the first quantity, drawn relative to the start of ours.
    pub printed: Option<fn(&Runs) -> Vec<Curve>>,
    pub statements: &'static [statements::Statement],
}

/// A curve: runs, each with its position on the x axis.
pub(super) struct Line {
    pub name: String,
    pub runs: Vec<(f64, Setup)>,
}

/// A quantity of a run, with its caption and unit.
pub(super) struct Panel {
    pub caption: &'static str,
    pub y: &'static str,
    pub digits: usize,
    pub of: fn(&Counts) -> f64,
}

/// Directory and filter, each without and with eager registration.
pub(super) fn four(node_gb: f64) -> [(&'static str, Setup); 4] {
    let of = |represented, is_eager| node_setup(node_gb, represented, is_eager);
    [
        ("directory, node only", of(Represented::Directory, false)),
        ("directory, eager", of(Represented::Directory, true)),
        ("filter, node only", of(Represented::BLOOM, false)),
        ("filter, eager", of(Represented::BLOOM, true)),
    ]
}

pub(super) fn node_setup(node_gb: f64, represented: Represented, is_eager: bool) -> Setup {
    Setup {
        node_gb,
        represented,
        is_eager,
        ..Setup::USUAL
    }
}

pub(super) fn period_setup(period_s: f64, represented: Represented, is_eager: bool) -> Setup {
    Setup {
        period_s,
        represented,
        is_eager,
        ..Setup::USUAL
    }
}

pub(super) fn paid_setup(node_gb: f64, paid: Paid) -> Setup {
    Setup {
        node_gb,
        front_bytes: LARGE_FRONT_BYTES,
        represented: Represented::bloom(LARGE_SPACE_MIB, super::printed::FUNCTIONS),
        paid,
        ..Setup::USUAL
    }
}

/// Nodes of Figure 12.
pub(super) const SPACE_NODES_GB: [f64; 5] = [2.0, 4.0, 6.0, 8.0, 10.0];

pub(super) fn space_setup(space_mib: f64, node_gb: f64) -> Setup {
    Setup {
        node_gb,
        front_bytes: LARGE_FRONT_BYTES,
        represented: Represented::bloom(space_mib, super::printed::FUNCTIONS),
        ..Setup::USUAL
    }
}

/// The node of Figure 13: the largest one, which fills the hint space most.
const FUNCTIONS_NODE_GB: f64 = 10.0;

pub(super) fn functions_setup(space_mib: f64, functions: u8) -> Setup {
    Setup {
        represented: Represented::bloom(space_mib, functions),
        ..space_setup(space_mib, FUNCTIONS_NODE_GB)
    }
}

fn family_setup(space_mib: f64, functions: u8, family: Family) -> Setup {
    Setup {
        represented: Represented::Bloom {
            space_mib,
            functions,
            family,
        },
        ..space_setup(space_mib, FUNCTIONS_NODE_GB)
    }
}

pub(super) fn bound_setup(burst_max: Option<u32>) -> Setup {
    Setup {
        node_gb: 6.0,
        burst_max,
        ..Setup::USUAL
    }
}

fn lines_of<const N: usize>(
    x: &[f64],
    of: impl Fn(f64) -> [(&'static str, Setup); N],
) -> Vec<Line> {
    let names = of(x[0]).map(|(name, _)| name);
    let line = |at: usize| Line {
        name: names[at].to_owned(),
        runs: x.iter().map(|&x| (x, of(x)[at].1)).collect(),
    };
    (0..N).map(line).collect()
}

fn node_axis() -> Scale {
    Scale::linear("node's cache (the paper's GB)")
}

fn period_axis() -> Scale {
    Scale::log("update period (the paper's seconds)")
}

fn space_axis() -> Scale {
    Scale::linear("hint space (the paper's MiB)")
}

const OVERALL: Panel = Panel {
    caption: "hits of both caches",
    y: "hits (% of requests)",
    digits: 2,
    of: |counts| counts.percent(counts.hits()),
};
const FALSE_HITS: Panel = Panel {
    caption: "false hits",
    y: "false hits (% of requests)",
    digits: 3,
    of: |counts| counts.percent(counts.false_hits),
};

pub(super) fn figure8() -> Figure {
    Figure {
        name: "figure8",
        title: "Figure 8: entries of the largest update",
        text: "Period 1 h, front's cache 256 MB, hint space 4 MiB, 4 functions.",
        x: node_axis(),
        x_names: Vec::new(),
        lines: lines_of(&NODE_GB, four),
        panels: vec![Panel {
            caption: "entries of the largest update",
            y: "entries",
            digits: 0,
            of: |counts| counts.entries_max as f64,
        }],
        printed: None,
        statements: FIGURE_8,
    }
}

pub(super) fn figure9() -> Figure {
    Figure {
        name: "figure9",
        title: "Figure 9: entries of all updates",
        text: "As Figure 8. Bytes: 160 for an entry of a directory, 5 for one of a filter.",
        x: node_axis(),
        x_names: Vec::new(),
        lines: lines_of(&NODE_GB, four),
        panels: vec![
            Panel {
                caption: "entries of all updates",
                y: "thousand entries",
                digits: 1,
                of: |counts| counts.entries as f64 / 1e3,
            },
            Panel {
                caption: "bytes of all updates",
                y: "MB",
                digits: 2,
                of: |counts| counts.entry_bytes as f64 / 1e6,
            },
        ],
        printed: None,
        statements: FIGURE_9,
    }
}

pub(super) fn figure10() -> Figure {
    /// The paper's sizes, and two smaller ones.
    const NODES_GB: [f64; 8] = [0.25, 0.5, 1.0, 2.0, 4.0, 6.0, 8.0, 10.0];
    let of = |node_gb| {
        [
            ("hints cost no memory", paid_setup(node_gb, Paid::Nowhere)),
            (
                "counters taken from the node's cache",
                paid_setup(node_gb, Paid::AtNode),
            ),
            (
                "and the filter from the front's",
                paid_setup(node_gb, Paid::Everywhere),
            ),
        ]
    };
    Figure {
        name: "figure10",
        title: "Figure 10: hit ratio, when hints take their memory from the caches",
        text: "Front's cache 512 MB, hint space 10 MiB: counters of 80 MiB at the node. Nodes of 0.25 and 0.5 GB are ours.",
        x: node_axis(),
        x_names: Vec::new(),
        lines: lines_of(&NODES_GB, of),
        panels: vec![OVERALL],
        printed: None,
        statements: FIGURE_10,
    }
}

pub(super) fn figure11() -> Figure {
    let of = |period_s| four(4.0).map(|(name, setup)| (name, Setup { period_s, ..setup }));
    Figure {
        name: "figure11",
        title: "Figure 11: requests sent to the node",
        text: "Front's cache 256 MB, node's 4 GB, hint space 4 MiB.",
        x: period_axis(),
        x_names: Vec::new(),
        lines: lines_of(&PERIODS_S, of),
        panels: vec![
            Panel {
                caption: "requests sent to the node",
                y: "sent (% of requests)",
                digits: 2,
                of: |counts| counts.percent(counts.sent()),
            },
            Panel {
                caption: "false misses",
                y: "false misses (% of requests)",
                digits: 3,
                of: |counts| counts.percent(counts.false_misses),
            },
            FALSE_HITS,
        ],
        printed: None,
        statements: FIGURE_11,
    }
}

pub(super) fn figure12() -> Figure {
    let line = |node_gb| Line {
        name: format!("{node_gb} GB"),
        runs: SPACES_MIB
            .map(|mib| (mib, space_setup(mib, node_gb)))
            .to_vec(),
    };
    Figure {
        name: "figure12",
        title: "Figure 12: false hits over the hint space, for each size of the node",
        text: "Front's cache 512 MB, 4 functions, period 1 h.",
        x: space_axis(),
        x_names: Vec::new(),
        lines: SPACE_NODES_GB.map(line).into(),
        panels: vec![FALSE_HITS],
        printed: None,
        statements: FIGURE_12,
    }
}

pub(super) fn figure13() -> Figure {
    let of = |mib| {
        [
            ("3 functions", functions_setup(mib, 3)),
            ("4 functions", functions_setup(mib, 4)),
            ("5 functions", functions_setup(mib, 5)),
            ("Loligo's, 4", family_setup(mib, 4, Family::Ours)),
            ("Loligo's, 7", family_setup(mib, 7, Family::Ours)),
            (
                "the implementation's 4 + 2",
                family_setup(mib, 6, Family::Implementation),
            ),
        ]
    };
    Figure {
        name: "figure13",
        title: "Figure 13: false hits over the hint space, for each number of functions",
        text: "Front's cache 512 MB, period 1 h; the node is not printed, here 10 GB. The fifth function sees the server only. Beside the \
               study's functions Loligo's (double hashing of one number) and those of the paper's implementation (four of the URL, two of \
               the server's address).",
        x: space_axis(),
        x_names: Vec::new(),
        lines: lines_of(&SPACES_MIB, of),
        panels: vec![FALSE_HITS],
        printed: None,
        statements: FIGURE_13,
    }
}

pub(super) fn figure14() -> Figure {
    let of = |period_s| {
        let at = |node_gb, represented| Setup {
            node_gb,
            ..period_setup(period_s, represented, true)
        };
        [
            ("directory, 4 GB", at(4.0, Represented::Directory)),
            ("directory, 6 GB", at(6.0, Represented::Directory)),
            ("filter, 4 GB", at(4.0, Represented::BLOOM)),
            ("filter, 6 GB", at(6.0, Represented::BLOOM)),
        ]
    };
    Figure {
        name: "figure14",
        title: "Figure 14: false hits over the update period",
        text: "Front's cache 256 MB, hint space 4 MiB, eager registration.",
        x: period_axis(),
        x_names: Vec::new(),
        lines: lines_of(&PERIODS_S, of),
        panels: vec![FALSE_HITS],
        printed: Some(figure14_printed),
        statements: FIGURE_14,
    }
}

/// The paper's difference between a period of an hour and one of a second.
fn figure14_printed(runs: &Runs) -> Vec<Curve> {
    let curve = |(node_gb, points): (f64, f64)| {
        let setup = Setup {
            node_gb,
            ..period_setup(PERIODS_S[0], Represented::BLOOM, true)
        };
        let ours = statements::false_hits(runs, &setup);
        Curve {
            name: format!("filter, {node_gb} GB, paper"),
            printed: true,
            points: vec![(PERIODS_S[0], ours), (PERIOD_S, ours + points)],
        }
    };
    PERIOD_POINTS.map(curve).into()
}

/// Bounds of Figure 15.
const BOUNDS: [Option<u32>; 8] = [
    None,
    Some(0),
    Some(1),
    Some(3),
    Some(10),
    Some(30),
    Some(100),
    Some(300),
];

/// The paper's lower bound for the gain by a burst bound of ten.
fn figure15_printed(runs: &Runs) -> Vec<Curve> {
    let without = runs.of(&bound_setup(None));
    let ours = without.percent(without.front_hits);
    let at = BOUNDS.iter().position(|bound| *bound == Some(BURST_BOUND));
    let more = ours * (1.0 + BOUND_PERCENT / 100.0);
    vec![Curve {
        name: "filter, eager, paper: more than".to_owned(),
        printed: true,
        points: vec![(0.0, ours), (at.unwrap_or(0) as f64, more)],
    }]
}

pub(super) fn figure15() -> Figure {
    let name = |bound: Option<u32>| bound.map_or("-1".to_owned(), |bound| bound.to_string());
    let runs = BOUNDS.iter().enumerate();
    Figure {
        name: "figure15",
        title: "Figure 15: hits over the bound of replacement bursts",
        text: "-1: without bound. Filter of 4 MiB, node's cache 6 GB; the front's is not printed, here 256 MB.",
        x: Scale::linear("objects that a newcomer may drive out"),
        x_names: BOUNDS.map(name).into(),
        lines: vec![Line {
            name: "filter, eager".to_owned(),
            runs: runs
                .map(|(at, &bound)| (at as f64, bound_setup(bound)))
                .collect(),
        }],
        panels: vec![
            Panel {
                caption: "hits of the front's cache",
                y: "front's hits (% of requests)",
                digits: 2,
                of: |counts| counts.percent(counts.front_hits),
            },
            OVERALL,
        ],
        printed: Some(figure15_printed),
        statements: FIGURE_15,
    }
}
