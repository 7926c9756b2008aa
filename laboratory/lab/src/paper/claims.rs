//! The paper's claims, and which of them hold on which stream.
//!
//! Claims are from: 1 Figure 2; 2 and 3 Figure 4; 4 and 5 Figure 5; 6 to 8 Figure 6; 9 and 15 Table 2; 10 to 12 Table 1; 13 and 14 Figure 8,
//! at every utilisation that is run. Where the paper has words instead of a figure ("fast", "almost", "comparable") the bound is ours.
//!
//! Rules, the same for all streams: a *gain* is a ratio of rates, less one; it holds if it is at least `GAIN_SHARE` of the paper's.
//! Two managers are *alike* if neither is more than `ALIKE` times as fast. An *order* holds if no pair of neighbours is reversed. Rates
//! are disk requests a second, so that a claim compares two managers under the same requests. Where a claim fails, the reason is given
//! in figures of the runs themselves.
//!
//! Not known here: how to run experiments; `tables` and `figures` do that, and run each only once.
//! Source: paper 002, sections 3.2 to 3.6.

use std::io;

use super::bench::Bench;
use super::experiment::Outcome;
use super::figures::{self, FIGURE_5_BLOCKS, UTILISATIONS};
use super::printed;
use super::report::{Rows, Section};
use super::tables::{self, figure_4, million};
use super::workload::Counts;
use crate::disks::machine::Machine;

/// The share of the paper's gain that is enough.
const GAIN_SHARE: f64 = 0.75;
const ALIKE: f64 = 1.25;
/// BUDDY's time at 128 KB over its best one: "almost".
const ALMOST: f64 = 1.05;
/// The paper states the gain of streams below this utilisation.
const ROOMY: f64 = 0.71;
const FULL: f64 = 0.95;
/// Utilisation at which the paper finds the largest gain of locality buffers.
const BEST_FOR_BUFFERS: f64 = 0.76;

/// The verdict on a claim for a stream.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Finding {
    /// In the claim's terms.
    pub value: String,
    /// `None`: cannot be judged on this stream.
    pub holds: Option<bool>,
    /// The reason why it does not hold, or cannot be judged.
    pub why: String,
}

/// A claim: its words, the paper's figure, and how it is judged.
struct Claim {
    says: &'static str,
    paper: &'static str,
    judge: fn(&Measured) -> Finding,
}

/// All runs on a stream.
struct Measured {
    name: String,
    has_servers: bool,
    counts: Counts,
    near_reads_percent: f64,
    near_writes_percent: f64,
    /// Most files in SIMPLE's directory.
    figure4_objects_max: u64,
    figure4_requests: f64,
    /// STREAM-PACKETIZER, with lazy reads, with locality buffers, with both.
    table1: Vec<Outcome>,
    /// In the order of [`tables::TABLE_2`].
    table2: Vec<Outcome>,
    /// SIMPLE, SQUID, MULTIPLE-DIRS, BUDDY.
    figure4: Vec<Outcome>,
    figure5: Vec<Outcome>,
    /// BUDDY, STREAM, STREAM-PACKETIZER, by [`UTILISATIONS`].
    figure6: Vec<Vec<Outcome>>,
    /// STREAM-PACKETIZER, LAZY-READS, 8 to 128 buffers.
    figure8: Vec<Vec<Outcome>>,
    entry_us: f64,
}

impl Measured {
    fn of(bench: &Bench) -> io::Result<Measured> {
        let load = bench.load(million())?;
        let small = bench.load(figure_4())?;
        let entry_us = match bench.model {
            super::experiment::Model::Disk1999 => Machine::ultra_1().entry_us,
            super::experiment::Model::Flash => Machine::of_today().entry_us,
        };
        Ok(Measured {
            name: bench.source.name().to_owned(),
            has_servers: bench.source.has_servers(),
            counts: load.counts,
            near_reads_percent: 100.0 * load.near_reads as f64 / load.counts.reads.max(1) as f64,
            near_writes_percent: 100.0 * load.near_writes as f64 / load.counts.writes.max(1) as f64,
            figure4_objects_max: small.live_objects_max,
            figure4_requests: small.requests.len() as f64,
            table1: tables::table1_outcomes(bench)?,
            table2: tables::table2_outcomes(bench)?,
            figure4: figures::figure4_outcomes(bench)?,
            figure5: figures::figure5_outcomes(bench)?,
            figure6: figures::at_utilisations(
                bench,
                "Figure 6",
                &figures::figure6_managers(bench),
            )?,
            figure8: figures::at_utilisations(
                bench,
                "Figure 8",
                &figures::figure8_managers(bench),
            )?,
            entry_us,
        })
    }

    fn reads_percent(&self) -> f64 {
        100.0 * self.counts.reads as f64 / self.counts.disk_requests().max(1) as f64
    }

    fn replaced_percent(&self) -> f64 {
        100.0 * self.counts.replaced as f64 / self.counts.deletes.max(1) as f64
    }

    fn reads_beside_paper(&self) -> String {
        let paper = 100.0 * printed::READS as f64 / printed::REQUESTS as f64;
        let here = self.reads_percent();
        format!("reads are {here:.1} % of the disk requests (paper: {paper:.1})")
    }

    /// The reason why lazy reads gain little.
    fn little_to_order(&self) -> String {
        format!(
            "{}, and {:.0} % of them are near another of their server, which the drive's read-ahead may serve already",
            self.reads_beside_paper(),
            self.near_reads_percent
        )
    }

    /// The reason why locality buffers gain little: they help objects that are written far apart and read together.
    fn little_to_gather(&self) -> String {
        format!(
            "{}; of the reads {:.0} % are near another of their server, and of the writes {:.0} %, before any buffer gathers them",
            self.reads_beside_paper(),
            self.near_reads_percent,
            self.near_writes_percent
        )
    }
}

fn at(outcomes: &[Outcome], utilisation: f64) -> &Outcome {
    let at = UTILISATIONS
        .iter()
        .position(|&u| (u - utilisation).abs() < 1e-9);
    &outcomes[at.expect("claims are about utilisations that are run")]
}

/// How much faster the first run is than the second.
fn gain(fast: &Outcome, slow: &Outcome) -> f64 {
    slow.seconds / fast.seconds - 1.0
}

fn holds_from(gain: f64, paper: f64) -> bool {
    gain >= GAIN_SHARE * paper
}

fn judged(value: String, holds: bool, why: impl FnOnce() -> String) -> Finding {
    Finding {
        value,
        holds: Some(holds),
        why: if holds { String::new() } else { why() },
    }
}

/// A figure of a run, by name.
fn figure(outcome: &Outcome, name: &str) -> f64 {
    outcome.figures.get(name).copied().unwrap_or(0.0)
}

/// Requests that the device was sent for each disk request.
fn device_requests(outcome: &Outcome, requests: f64) -> f64 {
    (figure(outcome, "device reads") + figure(outcome, "device writes")) / requests.max(1.0)
}

fn cannot(why: &str) -> Finding {
    Finding {
        value: "-".to_owned(),
        holds: None,
        why: why.to_owned(),
    }
}

const NO_SERVERS: &str = "the trace names no servers";

const CLAIMS: [Claim; 15] = [
    Claim {
        says: "Writes outnumber reads (writes a read)",
        paper: "16.1 (at least 6)",
        judge: |m| {
            let ratio = m.counts.writes as f64 / m.counts.reads.max(1) as f64;
            judged(format!("{ratio:.1}"), ratio >= 6.0, || {
                "the memory cache is small beside the disk cache, so more of the hits are left to the disk".to_owned()
            })
        },
    },
    Claim {
        says: "SIMPLE < SQUID < MULTIPLE-DIRS (requests/s)",
        paper: "10.6, 15.1, 17.3",
        judge: files_in_order,
    },
    Claim {
        says: "BUDDY is almost ten times these (most, least)",
        paper: "12.6, 7.7 (9.5, 5.8 as printed)",
        judge: |m| {
            let times = |n: usize| gain(&m.figure4[3], &m.figure4[n]) + 1.0;
            let all = [times(0), times(1), times(2)];
            let least = all.iter().copied().fold(f64::MAX, f64::min);
            let most = all.iter().copied().fold(0.0, f64::max);
            let paper =
                |manager| printed::rate(manager).map_or(f64::NAN, |rate| rate.requests_per_s);
            let paper = paper("BUDDY") / paper("MULTIPLE-DIRS");
            judged(
                format!("{most:.1}, {least:.1}"),
                holds_from(least - 1.0, paper - 1.0),
                || {
                    format!(
                        "BUDDY makes {:.2} device requests a disk request, the fastest of the three {:.2}; {:.1} KB a write; files of their \
                         own for objects above 128 KB: {:.1} % of the writes",
                        device_requests(&m.figure4[3], m.figure4_requests),
                        [0, 1, 2]
                            .map(|n| device_requests(&m.figure4[n], m.figure4_requests))
                            .into_iter()
                            .fold(f64::MAX, f64::min),
                        mean_kb(m),
                        100.0 * m.figure4[3].calls.creates as f64 / m.counts.writes.max(1) as f64
                    )
                },
            )
        },
    },
    Claim {
        says: "BUDDY's time falls fast up to ten blocks (8 over 1)",
        paper: "below 1/2",
        judge: |m| {
            let share = m.figure5[index(8)].seconds / m.figure5[index(1)].seconds;
            judged(format!("{share:.2}"), share < 0.5, || {
                format!("objects are large: {:.1} KB a write", mean_kb(m))
            })
        },
    },
    Claim {
        says: "BUDDY is almost at its best at 256 blocks (over best)",
        paper: "1.05",
        judge: |m| {
            let best = m.figure5.iter().map(|o| o.seconds).fold(f64::MAX, f64::min);
            let over = m.figure5[index(256)].seconds / best;
            judged(format!("{over:.2}"), over <= ALMOST, || {
                format!("objects are large: {:.1} KB a write", mean_kb(m))
            })
        },
    },
    Claim {
        says: "STREAM is twice as fast as BUDDY at 71 % (times)",
        paper: "2.0",
        judge: |m| over_buddy(m, 1, ROOMY, 2.0),
    },
    Claim {
        says: "STREAM-PACKETIZER is 2.5 times BUDDY at 71 % (times)",
        paper: "2.5",
        judge: |m| over_buddy(m, 2, ROOMY, 2.5),
    },
    Claim {
        says: "Both are about as fast as BUDDY at 95 % (times)",
        paper: "1, 1",
        judge: |m| {
            let times = |n: usize| gain(at(&m.figure6[n], FULL), at(&m.figure6[0], FULL)) + 1.0;
            let both = [times(1), times(2)];
            let alike = |&t: &f64| (1.0 / ALIKE..=ALIKE).contains(&t);
            judged(
                format!("{:.2}, {:.2}", both[0], both[1]),
                both.iter().all(alike),
                || {
                    let runs = figure(at(&m.figure6[1], FULL), "runs an object");
                    format!(
                        "what is free still lies together: an object is in {runs:.2} runs at 95 %. {:.0} % of the deletes are of older \
                         versions, which scatter it; the others come in the order of writing",
                        m.replaced_percent()
                    )
                },
            )
        },
    },
    Claim {
        says: "STREAM-PACKETIZER gains over STREAM (%)",
        paper: "21",
        judge: |m| {
            percent(
                gain(&m.table2[5], &m.table2[4]),
                358.0 / 295.0 - 1.0,
                || {
                    format!(
                        "objects are large beside its page of 8 KB: {:.1} KB a write",
                        mean_kb(m)
                    )
                },
            )
        },
    },
    Claim {
        says: "LAZY-READS gains over STREAM-PACKETIZER (%)",
        paper: "10",
        judge: |m| {
            percent(gain(&m.table1[1], &m.table1[0]), 0.10, || {
                m.little_to_order()
            })
        },
    },
    Claim {
        says: "Locality buffers gain over STREAM-PACKETIZER (%)",
        paper: "28",
        judge: |m| {
            with_servers(m, || {
                percent(gain(&m.table1[2], &m.table1[0]), 0.28, || {
                    m.little_to_gather()
                })
            })
        },
    },
    Claim {
        says: "Both gain over STREAM-PACKETIZER (%)",
        paper: "37.5",
        judge: |m| {
            with_servers(m, || {
                percent(gain(&m.table1[3], &m.table1[0]), 0.375, || {
                    m.little_to_gather()
                })
            })
        },
    },
    Claim {
        says: "Even 8 buffers gain over LAZY-READS (least to most, %)",
        paper: "above 0",
        judge: |m| {
            with_servers(m, || {
                let (least, most) = extremes(&m.figure8[2], &m.figure8[1]);
                let value = format!("{:.1} to {:.1}", 100.0 * least, 100.0 * most);
                judged(value, least > 0.0, || m.little_to_gather())
            })
        },
    },
    Claim {
        says: "128 buffers gain over LAZY-READS (least, %; at 76 %, times)",
        paper: "30; 2.5 (Table 1: 24.5)",
        judge: |m| {
            with_servers(m, || {
                let (least, _) = extremes(&m.figure8[6], &m.figure8[1]);
                let best = gain(
                    at(&m.figure8[6], BEST_FOR_BUFFERS),
                    at(&m.figure8[1], BEST_FOR_BUFFERS),
                );
                let value = format!("{:.1}, {:.2}", 100.0 * least, best + 1.0);
                judged(
                    value,
                    holds_from(least, 0.30) && holds_from(best, 1.5),
                    || m.little_to_gather(),
                )
            })
        },
    },
    Claim {
        says: "SQUID to LAZY-READS-LOC (times in requests/s; in gets/s)",
        paper: "32.8, 26.2 (24.8 as printed)",
        judge: |m| {
            let (squid, best) = (&m.table2[1], &m.table2[7]);
            let times = best.requests_per_s / squid.requests_per_s;
            let gets = best.gets_per_s / squid.gets_per_s;
            judged(
                format!("{times:.1}, {gets:.1}"),
                holds_from(gets - 1.0, 25.2),
                || {
                    format!(
                        "SQUID needs {:.1} ms a disk request, LAZY-READS-LOC {:.1} (paper: 66, 2.0): large objects ({:.1} KB a write) cost the \
                     stream the disk's rate, and a file for each of them is no dearer",
                        1e3 / squid.requests_per_s,
                        1e3 / best.requests_per_s,
                        mean_kb(m)
                    )
                },
            )
        },
    },
];

fn index(blocks: u32) -> usize {
    let at = FIGURE_5_BLOCKS.iter().position(|&b| b == blocks);
    at.expect("claims are about thresholds that are run")
}

fn mean_kb(m: &Measured) -> f64 {
    m.counts.write_bytes as f64 / m.counts.writes.max(1) as f64 / 1024.0
}

fn percent(gain: f64, paper: f64, why: impl FnOnce() -> String) -> Finding {
    judged(format!("{:.1}", 100.0 * gain), holds_from(gain, paper), why)
}

fn with_servers(m: &Measured, judge: impl FnOnce() -> Finding) -> Finding {
    if m.has_servers {
        judge()
    } else {
        cannot(NO_SERVERS)
    }
}

/// The smallest and the largest gain over all utilisations.
fn extremes(fast: &[Outcome], slow: &[Outcome]) -> (f64, f64) {
    let gains = fast.iter().zip(slow).map(|(fast, slow)| gain(fast, slow));
    gains.fold((f64::MAX, f64::MIN), |(least, most), g| {
        (least.min(g), most.max(g))
    })
}

fn over_buddy(m: &Measured, manager: usize, utilisation: f64, paper: f64) -> Finding {
    let (stream, buddy) = (
        at(&m.figure6[manager], utilisation),
        at(&m.figure6[0], utilisation),
    );
    let gained = gain(stream, buddy);
    judged(
        format!("{:.2}", gained + 1.0),
        holds_from(gained, paper - 1.0),
        || {
            let requests = m.counts.disk_requests() as f64;
            format!(
                "{:.2} device requests a disk request, BUDDY {:.2}; {:.2} runs an object; reads, which no stream makes faster, are {:.1} % \
             of the requests",
                device_requests(stream, requests),
                device_requests(buddy, requests),
                figure(stream, "runs an object"),
                m.reads_percent()
            )
        },
    )
}

fn files_in_order(m: &Measured) -> Finding {
    let rates: Vec<f64> = m.figure4[..3].iter().map(|o| o.requests_per_s).collect();
    let value = rates
        .iter()
        .map(|r| format!("{r:.1}"))
        .collect::<Vec<_>>()
        .join(", ");
    if !m.has_servers {
        let holds = rates[0] <= rates[1];
        return Finding {
            value,
            holds: (!holds).then_some(false),
            why: format!("{NO_SERVERS}, so MULTIPLE-DIRS has one directory"),
        };
    }
    judged(value, rates.is_sorted(), || {
        let mut why = Vec::new();
        if rates[0] > rates[1] {
            let search_ms = m.figure4_objects_max as f64 * m.entry_us / 1e3;
            why.push(format!(
                "SIMPLE takes {:.1} ms a disk request, SQUID {:.1}: the one directory has {} files at most, all of which are passed in \
                 {search_ms:.1} ms, and SQUID makes {:.2} device requests, scattered over 4,096 directories, where SIMPLE makes {:.2}",
                1e3 / rates[0],
                1e3 / rates[1],
                m.figure4_objects_max,
                device_requests(&m.figure4[1], m.figure4_requests),
                device_requests(&m.figure4[0], m.figure4_requests),
            ));
        }
        if rates[1] > rates[2] {
            why.push(format!(
                "MULTIPLE-DIRS makes {} directories on the way",
                m.figure4[2].calls.dirs
            ));
        }
        why.join("; ")
    })
}

/// All claims, each judged for every stream.
pub fn claims(benches: &[Bench]) -> io::Result<Section> {
    let measured: Vec<Measured> = benches
        .iter()
        .map(Measured::of)
        .collect::<io::Result<_>>()?;
    let mut columns = vec!["claim", "paper"];
    for m in &measured {
        columns.extend([m.name.as_str(), ""]);
    }
    let mut rows = Rows::new("Claims of the paper", &columns);
    let mut whys = Rows::new("Why not", &["claim", "stream", "because"]);
    let mut held = vec![0; measured.len()];
    for (at, claim) in CLAIMS.iter().enumerate() {
        let number = at + 1;
        let mut cells = vec![format!("{number}. {}", claim.says), claim.paper.to_owned()];
        for (m, held) in measured.iter().zip(&mut held) {
            let finding = (claim.judge)(m);
            let verdict = match finding.holds {
                Some(true) => "holds",
                Some(false) => "does not",
                None => "cannot say",
            };
            *held += u32::from(finding.holds == Some(true));
            cells.extend([finding.value, verdict.to_owned()]);
            if !finding.why.is_empty() {
                whys.row([number.to_string(), m.name.clone(), finding.why]);
            }
        }
        rows.row(cells);
    }
    let sums = measured.iter().zip(&held);
    let sums = sums.map(|(m, held)| format!("{held} of {} on {}", CLAIMS.len(), m.name));
    Ok(Section {
        name: "claims".to_owned(),
        title: "Which of the paper's claims hold".to_owned(),
        text: vec![
            format!("{} hold.", sums.collect::<Vec<_>>().join(", ")),
            format!(
                "A gain holds if it is at least {GAIN_SHARE} of the paper's, \"about as fast\" is within a factor of {ALIKE}, and an order \
                 holds if no neighbours are turned round. Where the paper has words for a figure (\"fast\", \"almost\", \"comparable\") the \
                 bound is ours. Figure 3, of the disk alone, and Table 2's absolute rates are in their sections."
            ),
            "The paper leaves open, and so do we: how large a locality buffer is, which one is its victim, when a read waits no longer, what \
             utilisation is a share of, how much memory its machine had, which unit the rows of SIMPLE, SQUID, MULTIPLE-DIRS and STREAM in \
             Table 2 have, and everything about its trace but the five counts of note 3."
                .to_owned(),
        ],
        tables: vec![rows, whys],
        plots: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::super::bench::Nobody;
    use super::super::experiment::Model;
    use super::super::keep::Keep;
    use super::*;

    fn measured() -> Measured {
        let bench = Bench::new(0.01, 1, Model::Disk1999, Keep::in_memory(), &Nobody);
        Measured::of(&bench).unwrap()
    }

    /// Verdicts depend on the times of the runs only.
    #[test]
    fn a_claim_holds_or_fails_by_its_rule() {
        let mut m = measured();
        let judge = |m: &Measured, number: usize| (CLAIMS[number - 1].judge)(m);
        // The gain of lazy reads: 7.5 % is three quarters of ten.
        m.table1[0].seconds = 107.6;
        m.table1[1].seconds = 100.0;
        assert_eq!(judge(&m, 10).holds, Some(true));
        m.table1[0].seconds = 107.4;
        let finding = judge(&m, 10);
        assert_eq!(
            (finding.holds, finding.value.as_str()),
            (Some(false), "7.4")
        );
        assert!(finding.why.contains("of the disk requests"), "{finding:?}");
        // One reversed pair breaks an order.
        for (at, rate) in [10.0, 15.0, 17.0].into_iter().enumerate() {
            m.figure4[at].requests_per_s = rate;
        }
        assert_eq!(judge(&m, 2).holds, Some(true));
        m.figure4[0].requests_per_s = 15.5;
        let finding = judge(&m, 2);
        assert_eq!(finding.holds, Some(false));
        assert!(finding.why.contains("files at most") && !finding.why.contains("MULTIPLE"));
        // "Alike" bounds the ratio in both directions.
        for (stream, holds) in [(79.0, false), (81.0, true), (124.0, true), (126.0, false)] {
            m.figure6[0].last_mut().unwrap().seconds = 100.0;
            m.figure6[1].last_mut().unwrap().seconds = stream;
            m.figure6[2].last_mut().unwrap().seconds = 100.0;
            assert_eq!(judge(&m, 8).holds, Some(holds), "{stream}");
        }
        // Without servers no claim about buffers is judged.
        m.has_servers = false;
        assert_eq!([11, 12, 13, 14].map(|n| judge(&m, n).holds), [None; 4]);
        assert!(judge(&m, 2).why.contains("names no servers"));
    }

    #[test]
    fn the_papers_figures_are_those_of_its_tables() {
        let rate = |manager| printed::rate(manager).unwrap();
        let files =
            ["SIMPLE", "SQUID", "MULTIPLE-DIRS"].map(|m| format!("{:.1}", rate(m).requests_per_s));
        assert_eq!(CLAIMS[1].paper, files.join(", "));
        let (files, buddy) = (["SIMPLE", "MULTIPLE-DIRS"].map(rate), rate("BUDDY"));
        let over = files.map(|f| format!("{:.1}", buddy.requests_per_s / f.requests_per_s));
        let printed = files.map(|f| format!("{:.1}", buddy.printed / f.printed));
        let shown = format!("{} ({} as printed)", over.join(", "), printed.join(", "));
        assert_eq!(CLAIMS[2].paper, shown);
        let (squid, best) = (rate("SQUID"), rate("LAZY-READS-LOC"));
        let shown = format!(
            "{:.1}, {:.1} ({:.1} as printed)",
            best.requests_per_s / squid.requests_per_s,
            best.gets_per_s / squid.gets_per_s,
            best.printed / squid.printed
        );
        assert_eq!(CLAIMS[14].paper, shown);
        assert_eq!(
            CLAIMS[0].paper,
            format!(
                "{:.1} (at least 6)",
                printed::WRITES as f64 / printed::READS as f64
            )
        );
        let lazy_over_both = printed::TABLE_1[1].0 / printed::TABLE_1[3].0 - 1.0;
        assert!(
            CLAIMS[13]
                .paper
                .contains(&format!("{:.1}", 100.0 * lazy_over_both))
        );
    }
}
