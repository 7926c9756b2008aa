//! The statements of paper 003 about its figures, in words and numbers, and whether a stream meets them.
//!
//! The paper's words are vague, so each statement has a limit of ours, which its words name.
//!
//! Not known here: streams, tables.   Source: paper 003, section 4.

use super::figures::{self, four, node_setup, period_setup};
use super::printed::{
    BOUND_PERCENT, BURST_MAX, BURST_MEAN, NODE_GB, PERIOD_POINTS, PERIODS_S, SPACES_MIB,
};
use super::setup::{BURST_BOUND, Paid, Represented, Setup};
use super::site::Counts;
use super::study::Runs;

/// A statement.
pub(super) struct Statement {
    /// The statement, and the condition under which it counts as met.
    pub words: &'static str,
    /// Judges the statement by a stream's runs.
    pub judge: fn(&Runs) -> Verdict,
}

/// Separates the statement from its condition.
const MET_IF: &str = " (met: ";

impl Statement {
    /// The statement, and the condition under which it counts as met.
    pub fn parts(&self) -> (&'static str, &'static str) {
        let parts = self.words.split_once(MET_IF);
        parts.map_or((self.words, ""), |(said, met_if)| {
            (said, met_if.strip_suffix(')').unwrap_or(met_if))
        })
    }
}

/// Whether a statement is met.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Verdict {
    pub is_met: bool,
    /// The figures on which the verdict rests.
    pub found: String,
}

impl Verdict {
    /// The text for a table.
    pub fn cell(&self) -> String {
        let met = if self.is_met { "met" } else { "not met" };
        format!("{met}: {}", self.found)
    }
}

fn verdict(is_met: bool, found: String) -> Verdict {
    Verdict { is_met, found }
}

/// Whether a value is between half and twice the printed one.
fn is_near(found: f64, printed: f64) -> bool {
    (printed / 2.0..=printed * 2.0).contains(&found)
}

/// The smallest and the largest value.
fn range(values: &[f64]) -> (f64, f64) {
    let smallest = values.iter().copied().fold(f64::INFINITY, f64::min);
    let largest = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    (smallest, largest)
}

/// The range of the ratio of a count with eager registration to the same without, over all node sizes and both kinds.
fn eager_over_other(runs: &Runs, of: fn(&Counts) -> u64) -> (f64, f64) {
    let mut ratios = Vec::new();
    for node_gb in NODE_GB {
        for represented in [Represented::Directory, Represented::BLOOM] {
            let of = |is_eager| of(runs.of(&node_setup(node_gb, represented, is_eager))) as f64;
            ratios.push(of(true) / of(false).max(1.0));
        }
    }
    range(&ratios)
}

/// Ranges of the ratio of the Bloom filter's bytes and entries to the directory's, with eager registration, over all node sizes.
fn bloom_over_directory(runs: &Runs, of: fn(&Counts) -> u64) -> ((f64, f64), (f64, f64)) {
    let (mut bytes, mut entries) = (Vec::new(), Vec::new());
    for node_gb in NODE_GB {
        let of = |represented| {
            let counts = runs.of(&node_setup(node_gb, represented, true));
            let each = counts.entry_bytes as f64 / counts.entries.max(1) as f64;
            (of(counts) as f64, of(counts) as f64 * each)
        };
        let (bloom, directory) = (of(Represented::BLOOM), of(Represented::Directory));
        entries.push(bloom.0 / directory.0.max(1.0));
        bytes.push(bloom.1 / directory.1.max(1.0));
    }
    (range(&bytes), range(&entries))
}

fn judge_load(runs: &Runs, of: fn(&Counts) -> u64) -> Verdict {
    let (bytes, entries) = bloom_over_directory(runs, of);
    let found = format!(
        "{:.2} to {:.2} of the bytes, {:.1} to {:.1} times the entries",
        bytes.0, bytes.1, entries.0, entries.1
    );
    verdict(bytes.1 <= 0.6, found)
}

pub(super) const FIGURE_8: &[Statement] = &[
    Statement {
        words: "the largest burst drives about 2,300 objects out of the node (met: half to twice; largest of all sizes)",
        judge: |runs| {
            let of = |gb| {
                runs.of(&node_setup(gb, Represented::BLOOM, true))
                    .node_burst_max
            };
            let largest = NODE_GB.map(of).into_iter().max().unwrap_or(0);
            verdict(is_near(largest as f64, BURST_MAX), largest.to_string())
        },
    },
    Statement {
        words: "eager registration makes the largest update smaller (met: at all sizes, for both kinds)",
        judge: |runs| {
            let (low, high) = eager_over_other(runs, |counts| counts.entries_max);
            verdict(high < 1.0, format!("{low:.2} to {high:.2} of it"))
        },
    },
    Statement {
        words: "the filter's largest update is half of the directory's load, or less (met: at most 0.6 of the bytes, names of 160 bytes)",
        judge: |runs| judge_load(runs, |counts| counts.entries_max),
    },
];

pub(super) const FIGURE_9: &[Statement] = &[
    Statement {
        words: "eager registration halves the load of updates (met: at most 0.55 of the entries and so of the bytes, at all sizes, for both kinds)",
        judge: |runs| {
            let (low, high) = eager_over_other(runs, |counts| counts.entries);
            verdict(high <= 0.55, format!("{low:.2} to {high:.2}"))
        },
    },
    Statement {
        words: "the filter makes half of the directory's load, or less (met: at most 0.6 of the bytes, names of 160 bytes)",
        judge: |runs| judge_load(runs, |counts| counts.entries),
    },
];

/// Points of hit ratio lost to hints, with a node of `node_gb`.
fn points_paid(runs: &Runs, node_gb: f64, from: Paid, to: Paid) -> f64 {
    let hits = |paid| {
        let counts = runs.of(&figures::paid_setup(node_gb, paid));
        counts.percent(counts.hits())
    };
    hits(from) - hits(to)
}

pub(super) const FIGURE_10: &[Statement] = &[
    Statement {
        words: "the node's counters cost hits where the node is small, and only there (met: 0.2 points or more at 1 GB, less at 10 GB)",
        judge: |runs| {
            let at = |gb| points_paid(runs, gb, Paid::Nowhere, Paid::AtNode);
            let (small, large) = (at(1.0), at(10.0));
            verdict(
                small >= 0.2 && large < 0.2,
                format!("{small:.2} points at 1 GB, {large:.2} at 10 GB"),
            )
        },
    },
    Statement {
        words: "the front's filter costs no hits to speak of (met: at most 0.1 points at 1 GB and above)",
        judge: |runs| {
            let at = |gb| points_paid(runs, gb, Paid::AtNode, Paid::Everywhere);
            let (low, high) = range(&NODE_GB.map(at));
            verdict(high <= 0.1, format!("{low:.3} to {high:.3} points"))
        },
    },
];

/// Percent of the requests with the shortest period, less those with the longest.
fn fall(runs: &Runs, represented: Represented, is_eager: bool, of: fn(&Counts) -> u64) -> f64 {
    let at = |period_s| {
        let counts = runs.of(&period_setup(period_s, represented, is_eager));
        counts.percent(of(counts))
    };
    at(PERIODS_S[0]) - at(PERIODS_S[PERIODS_S.len() - 1])
}

/// Points of false misses that eager registration avoids, with the usual period.
fn misses_taken(runs: &Runs, represented: Represented) -> f64 {
    let of = |is_eager| {
        let setup = Setup {
            represented,
            is_eager,
            ..Setup::USUAL
        };
        let counts = runs.of(&setup);
        counts.percent(counts.false_misses)
    };
    of(false) - of(true)
}

pub(super) const FIGURE_11: &[Statement] = &[
    Statement {
        words: "when only the node registers, fewer requests go to it as the period grows (met: 0.1 points from 1 s to 2 h, for both kinds)",
        judge: |runs| {
            let of = |represented| fall(runs, represented, false, Counts::sent);
            let (directory, bloom) = (of(Represented::Directory), of(Represented::BLOOM));
            verdict(
                directory >= 0.1 && bloom >= 0.1,
                format!("directory {directory:.2}, filter {bloom:.2} points"),
            )
        },
    },
    Statement {
        words: "with eager registration as many go to it whatever the period (met: within 1 % of them from 1 s to 2 h, for both kinds)",
        judge: |runs| {
            let of = |represented| {
                let sent = runs.of(&period_setup(PERIODS_S[0], represented, true));
                let fall = fall(runs, represented, true, Counts::sent);
                -100.0 * fall / sent.percent(sent.sent()).max(0.01)
            };
            let (directory, bloom) = (of(Represented::Directory), of(Represented::BLOOM));
            verdict(
                directory.abs() <= 1.0 && bloom.abs() <= 1.0,
                format!("directory {directory:+.2}, filter {bloom:+.2} %"),
            )
        },
    },
    Statement {
        words: "eager registration makes fewer false misses, and takes less from the filter than from the directory (met: so it is, at 1 h)",
        judge: |runs| {
            let (directory, bloom) = (
                misses_taken(runs, Represented::Directory),
                misses_taken(runs, Represented::BLOOM),
            );
            verdict(
                bloom > 0.0 && bloom < directory,
                format!("directory {directory:.3}, filter {bloom:.3} points"),
            )
        },
    },
];

pub(super) fn false_hits(runs: &Runs, setup: &Setup) -> f64 {
    let counts = runs.of(setup);
    counts.percent(counts.false_hits)
}

pub(super) const FIGURE_12: &[Statement] = &[
    Statement {
        words: "false hits fall as the hint space grows, steeply at first (met: from 0.5 to 2 MiB by more than from 2 to 10, at 4 GB and above)",
        judge: |runs| {
            let mut is_met = true;
            for node_gb in figures::SPACE_NODES_GB {
                let at = |mib| false_hits(runs, &figures::space_setup(mib, node_gb));
                is_met &= node_gb < 4.0 || at(0.5) - at(2.0) > (at(2.0) - at(10.0)).max(0.0);
            }
            let at = |mib| false_hits(runs, &figures::space_setup(mib, 4.0));
            verdict(
                is_met,
                format!("{:.2}, {:.2}, {:.2} % at 4 GB", at(0.5), at(2.0), at(10.0)),
            )
        },
    },
    Statement {
        words: "the ratio is constant beyond a threshold of the space (met: 8 and 10 MiB within 0.02 points, at all sizes)",
        judge: |runs| {
            let points = figures::SPACE_NODES_GB.map(|gb| {
                let at = |mib| false_hits(runs, &figures::space_setup(mib, gb));
                (at(8.0) - at(10.0)).abs()
            });
            let (low, high) = range(&points);
            verdict(high <= 0.02, format!("{low:.4} to {high:.4} points"))
        },
    },
    Statement {
        words: "larger nodes have more false hits where the space is small (met: rising with the node at 0.5 MiB)",
        judge: |runs| {
            let at = |gb| false_hits(runs, &figures::space_setup(SPACES_MIB[0], gb));
            let found = figures::SPACE_NODES_GB.map(at);
            verdict(
                found.is_sorted(),
                format!("{:.2} to {:.2} %", found[0], found[found.len() - 1]),
            )
        },
    },
];

pub(super) const FIGURE_13: &[Statement] = &[
    Statement {
        words: "more functions make fewer false hits where there is space (met: 5 fewer than 3 at 10 MiB, or both below 0.01 % apart)",
        judge: |runs| {
            let at = |k| false_hits(runs, &figures::functions_setup(10.0, k));
            let (three, five) = (at(3), at(5));
            verdict(five <= three + 0.01, format!("{three:.4} and {five:.4} %"))
        },
    },
    Statement {
        words: "it may be the other way round where the space is nearly full (met: 4 or 5 more than 3 at 0.5 MiB)",
        judge: |runs| {
            let at = |k| false_hits(runs, &figures::functions_setup(0.5, k));
            let (three, four, five) = (at(3), at(4), at(5));
            let found = format!("{three:.2}, {four:.2} and {five:.2} %");
            verdict(four.max(five) > three, found)
        },
    },
];

/// Points of false hits with a period of an hour, less those with a second.
fn period_points(runs: &Runs, node_gb: f64, represented: Represented) -> f64 {
    let at = |period_s| {
        let setup = Setup {
            node_gb,
            ..period_setup(period_s, represented, true)
        };
        false_hits(runs, &setup)
    };
    at(3600.0) - at(1.0)
}

pub(super) const FIGURE_14: &[Statement] = &[
    Statement {
        words: "an hour costs 0.07 points more false hits than a second at 4 GB, with the filter (met: half to twice)",
        judge: |runs| judge_period(runs, 0),
    },
    Statement {
        words: "and 0.04 points at 6 GB (met: half to twice)",
        judge: |runs| judge_period(runs, 1),
    },
    Statement {
        words: "the smaller node suffers more (met: for both kinds)",
        judge: |runs| {
            let at = |represented| {
                let at = |gb| period_points(runs, gb, represented);
                (at(4.0), at(6.0))
            };
            let (directory, bloom) = (at(Represented::Directory), at(Represented::BLOOM));
            verdict(
                directory.0 > directory.1 && bloom.0 > bloom.1,
                format!(
                    "directory {:.3} and {:.3}, filter {:.3} and {:.3} points",
                    directory.0, directory.1, bloom.0, bloom.1
                ),
            )
        },
    },
    Statement {
        words: "the period matters alike to both kinds (met: within 0.02 points, at 4 and at 6 GB)",
        judge: |runs| {
            let apart = [4.0, 6.0].map(|gb| {
                let of = |represented| period_points(runs, gb, represented);
                (of(Represented::Directory) - of(Represented::BLOOM)).abs()
            });
            verdict(
                range(&apart).1 <= 0.02,
                format!("{:.4} and {:.4} points apart", apart[0], apart[1]),
            )
        },
    },
];

fn judge_period(runs: &Runs, at: usize) -> Verdict {
    let (node_gb, printed) = PERIOD_POINTS[at];
    let found = period_points(runs, node_gb, Represented::BLOOM);
    verdict(is_near(found, printed), format!("{found:.3} points"))
}

pub(super) const FIGURE_15: &[Statement] = &[
    Statement {
        words: "a bound of 10 brings the front more than 5 % more hits than none (met: so it is)",
        judge: |runs| {
            let of = |bound| runs.of(&figures::bound_setup(bound)).front_hits as f64;
            let more = 100.0 * (of(Some(BURST_BOUND)) / of(None).max(1.0) - 1.0);
            verdict(more > BOUND_PERCENT, format!("{more:+.2} %"))
        },
    },
    Statement {
        words: "and takes none from both caches together (met: at most 0.1 points)",
        judge: |runs| {
            let of = |bound| {
                let counts = runs.of(&figures::bound_setup(bound));
                counts.percent(counts.hits())
            };
            let more = of(Some(BURST_BOUND)) - of(None);
            verdict(more >= -0.1, format!("{more:+.3} points"))
        },
    },
    Statement {
        words: "without bound the mean burst is 3, the largest 2,300 (met: half to twice, each; of the front)",
        judge: |runs| {
            let counts = runs.of(&figures::bound_setup(None));
            let mean = counts.front_victims as f64 / counts.front_bursts.max(1) as f64;
            let largest = counts.front_burst_max;
            verdict(
                is_near(mean, BURST_MEAN) && is_near(largest as f64, BURST_MAX),
                format!("{mean:.1} and {largest}"),
            )
        },
    },
];

pub(super) const TABLE_2: &[Statement] = &[
    Statement {
        words: "a directory makes no false hits (met: below 0.01 % of the requests with updates each second)",
        judge: |runs| {
            let found = false_hits(
                runs,
                &period_setup(PERIODS_S[0], Represented::Directory, true),
            );
            verdict(found < 0.01, format!("{found:.4} %"))
        },
    },
    Statement {
        words: "eager registration makes no false misses (met: below 0.01 % of the requests at 1 h, for both kinds)",
        judge: |runs| {
            let of = |represented| {
                let counts = runs.of(&period_setup(3600.0, represented, true));
                counts.percent(counts.false_misses)
            };
            let (directory, bloom) = (of(Represented::Directory), of(Represented::BLOOM));
            verdict(
                directory < 0.01 && bloom < 0.01,
                format!("directory {directory:.4}, filter {bloom:.4} %"),
            )
        },
    },
    Statement {
        words: "the front's work comes in smaller bursts (met: its largest update is smaller with eager registration, for both kinds, at 4 GB)",
        judge: |runs| {
            let most = |setup: &Setup| runs.of(setup).entries_max;
            let [a, b, c, d] = four(4.0).map(|(_, setup)| most(&setup));
            verdict(
                b < a && d < c,
                format!("directory {b} for {a}, filter {d} for {c} entries"),
            )
        },
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_statement_says_what_counts_as_met() {
        let all = [
            FIGURE_8, FIGURE_9, FIGURE_10, FIGURE_11, FIGURE_12, FIGURE_13, FIGURE_14, FIGURE_15,
            TABLE_2,
        ];
        for statement in all.into_iter().flatten() {
            let (said, met_if) = statement.parts();
            let is_whole = !said.is_empty() && !met_if.is_empty() && !met_if.ends_with(')');
            assert!(is_whole, "{}", statement.words);
        }
    }
}
