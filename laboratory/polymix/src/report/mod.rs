//! The report of a run, for people and for programs.
//!
//! One structure, written as JSON, read back, and shown as text (`text`) or as a page (`crate::pages`). It has the counts (`Counted`,
//! with whole histograms) and the figures computed from them. Programs need not know how figures are computed, and parts of one
//! run, by several processes, can be joined (`join`) without losing precision.
//!
//! Percentages are of basic replies (the client's view), or of traffic that the servers did not have to answer (the traffic view, if
//! the servers are ours). *Offered* is what an ideal cache would have answered; beside it is what an exact LRU of the cache's size
//! would have answered. Also included are numbers that tell whether the load generator was the bottleneck (lag, CPU).
//!
//! Not known here: how the counts were made.   Limits: a file of another `VERSION` is refused.
//! Source: spec section 7; issue 6, "honest load".

mod join;
mod row;
mod text;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use self::join::JoinError;
pub use self::row::{Row, Summary};

use crate::Mix;
use crate::left_out::left_out;
use crate::robots::Outcome;
use crate::series::Sample;

/// The format in the file's stamp.
pub const FORMAT: &str = "polymix run";
/// Version of the format. 1 had no stamp and no counts; 2 had no LRU; 3 had neither Polygraph's offered hit ratio nor the differences
/// from the specification.
pub const VERSION: u32 = 4;

/// The beginning of a file: its format and version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stamp {
    /// The name of the format.
    pub format: String,
    /// Its version.
    pub version: u32,
}

impl Stamp {
    /// The stamp of a format.
    #[must_use]
    pub fn new(format: &str, version: u32) -> Self {
        Self {
            format: format.to_owned(),
            version,
        }
    }

    /// Reads `text`, if it is of this format and version.
    ///
    /// # Errors
    /// Why the text is not a report of this format and version.
    pub fn read<T: for<'a> Deserialize<'a>>(&self, text: &str) -> Result<T, ReadError> {
        #[derive(Deserialize)]
        struct Head {
            stamp: Stamp,
        }
        let head: Head = serde_json::from_str(text).map_err(|source| match source.classify() {
            serde_json::error::Category::Data => ReadError::NoStamp,
            _ => ReadError::NoJson(source),
        })?;
        if head.stamp != *self {
            return Err(ReadError::Another {
                wanted: self.clone(),
                found: head.stamp,
            });
        }
        serde_json::from_str(text).map_err(ReadError::NoJson)
    }
}

/// A file that is no report of ours.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// Not JSON, or not what its stamp says.
    #[error("cannot be read: {0}")]
    NoJson(serde_json::Error),
    /// JSON without a stamp: foreign, or from before stamps existed.
    #[error("is no report of `loligo bench`, or one of an older version; make it again")]
    NoStamp,
    /// Another format or version.
    #[error("is a {} of version {}, and a {} of version {} is wanted; make it again with this loligo",
        found.format, found.version, wanted.format, wanted.version)]
    Another {
        /// The stamp that was expected.
        wanted: Stamp,
        /// The stamp of the file.
        found: Stamp,
    },
}

/// The settings of a run, as numbers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Which workload.
    pub mix: Mix,
    /// Peak, requests a second.
    pub rate: f64,
    /// While the cache is filled, requests a second.
    pub fill_rate: f64,
    /// Bytes of the proxy's cache.
    pub cache_bytes: u64,
    /// 1 is the workload as specified.
    pub time_scale: f64,
    /// 1 is the specified think time.
    pub think_scale: f64,
    /// Delay between proxy and servers, one way, milliseconds.
    pub delay_ms: f64,
    /// Packets lost there, each way, as a share.
    pub loss: f64,
    /// URLs have server names.
    pub named: bool,
    /// All servers share one address.
    pub one_address: bool,
    /// HTTP version: `1.0` or `1.1`.
    pub http: String,
    /// Robots speak TLS to the proxy.
    #[serde(default)]
    pub https: bool,
    /// The phases to run; all if empty.
    pub only: Vec<String>,
    /// Share of plain requests that ask for a range; PolyMix has none.
    pub range_share: f64,
    /// Robots.
    pub robots: u32,
    /// Servers.
    pub servers: u32,
    /// The first world of the run, the same for all its parts.
    pub world: u32,
    /// Seed of all random numbers.
    pub seed: u64,
}

/// Which parts of a run a report has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parts {
    /// Numbers of the parts in this report, from 1 on.
    pub here: Vec<u32>,
    /// How many parts the run has.
    pub of: u32,
}

/// A whole report.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Format and version.
    pub stamp: Stamp,
    /// Name of this run beside others.
    pub label: String,
    /// Settings to show: names and values.
    pub setup: BTreeMap<String, String>,
    /// The same settings as numbers.
    pub plan: Plan,
    /// Which parts of the run this report has.
    pub parts: Parts,
    /// When the run began, Unix seconds.
    pub began_s: f64,
    /// The longest time that parts were apart in a phase, seconds.
    pub apart_s: f64,
    /// Phase by phase.
    pub phases: Vec<Row>,
    /// All phases together.
    pub total: Row,
    /// Length of a moment of the series, seconds.
    pub interval_s: f64,
    /// Moment by moment.
    pub series: Vec<Moment>,
    /// The first faults, in full.
    pub faults: Vec<String>,
    /// Requests unanswered at the end of the run.
    pub unfinished: u64,
    /// Directly requested objects in the working set at the end.
    pub working_set: u64,
    /// Whether the working set was frozen.
    pub frozen: bool,
    /// Requests that were to repeat an old object.
    pub repeats_wanted: u64,
    /// Those among them that became new objects, because there was no old one.
    pub nothing_to_repeat: u64,
    /// Most open connections of robots at one time.
    pub connections_max: u64,
}

/// One moment.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Moment {
    pub at_s: f64,
    pub request_rate: f64,
    pub reply_rate: f64,
    pub error_rate: f64,
    pub response_ms_mean: f64,
    pub hit_ms_mean: f64,
    pub miss_ms_mean: f64,
    pub offered_percent: f64,
    pub lru_percent: f64,
    pub dhr_percent: f64,
    pub bhr_percent: f64,
    pub lag_ms_mean: f64,
    pub robots_cpu_percent: f64,
    pub core_wait_percent: f64,
    pub origin_cpu_percent: f64,
    pub connections: u64,
    /// The counts from which the figures are computed.
    pub sample: Sample,
}

impl Moment {
    /// The `n`-th moment, each of `interval_s` seconds.
    #[allow(clippy::cast_precision_loss)]
    fn new(n: usize, interval_s: f64, sample: &Sample) -> Self {
        let share = |seconds: f64| seconds * 100.0 / interval_s;
        Self {
            at_s: n as f64 * interval_s,
            request_rate: sample.requests as f64 / interval_s,
            reply_rate: sample.replies as f64 / interval_s,
            error_rate: sample.errors as f64 / interval_s,
            response_ms_mean: ratio(sample.response_s * 1e3, sample.replies),
            hit_ms_mean: ratio(sample.hit_s * 1e3, sample.hits),
            miss_ms_mean: ratio(sample.miss_s * 1e3, sample.basic - sample.hits),
            offered_percent: percent(sample.offered, sample.basic),
            lru_percent: percent(sample.lru, sample.basic),
            dhr_percent: percent(sample.hits, sample.basic),
            bhr_percent: percent(sample.hit_bytes, sample.basic_bytes),
            lag_ms_mean: ratio(sample.lag_s * 1e3, sample.launches),
            robots_cpu_percent: share(sample.cpu_s),
            core_wait_percent: share(sample.core_wait_s),
            origin_cpu_percent: share(sample.origin_cpu_s),
            connections: sample.connections_max,
            sample: *sample,
        }
    }
}

/// The settings of a run, without its results.
#[derive(Debug, Clone)]
pub struct About {
    /// Settings to show.
    pub setup: BTreeMap<String, String>,
    /// The same settings as numbers.
    pub plan: Plan,
    /// Which parts of the run.
    pub parts: Parts,
    /// When the run began, Unix seconds.
    pub began_s: f64,
}

impl Report {
    /// The report of a run.
    #[must_use]
    pub fn new(about: About, outcome: &Outcome) -> Self {
        let phases: Vec<_> = outcome.phases.iter().map(Row::new).collect();
        Self {
            stamp: Stamp::new(FORMAT, VERSION),
            label: String::new(),
            setup: about.setup,
            plan: about.plan,
            parts: about.parts,
            began_s: about.began_s,
            apart_s: 0.0,
            total: Row::total(&phases),
            phases,
            interval_s: outcome.series.interval_s,
            series: moments(&outcome.series),
            faults: outcome.faults.clone(),
            unfinished: outcome.unfinished,
            working_set: outcome.working_set,
            frozen: outcome.frozen,
            repeats_wanted: outcome.repeats_wanted,
            nothing_to_repeat: outcome.nothing_to_repeat,
            connections_max: outcome.connections_max,
        }
    }

    /// How the test differs from the specification, in sentences.
    #[must_use]
    pub fn left_out(&self) -> Vec<String> {
        left_out(&self.plan)
    }

    /// The report as JSON.
    #[must_use]
    pub fn json(&self) -> String {
        serde_json::to_string(self).expect("plain data")
    }

    /// Reads a report that `json` wrote.
    ///
    /// # Errors
    /// If the text is something else, or of another version.
    pub fn from_json(text: &str) -> Result<Self, ReadError> {
        Stamp::new(FORMAT, VERSION).read(text)
    }

    /// The phase with this name.
    #[must_use]
    pub fn phase(&self, name: &str) -> Option<&Row> {
        self.phases.iter().find(|row| row.name == name)
    }

    /// The phases that published figures are of, as one: top1 and top2, or all phases if neither was run.
    #[must_use]
    pub fn top(&self) -> Row {
        //= paper 004 section 6   the data of top1 and top2
        let tops: Vec<_> = self
            .phases
            .iter()
            .filter(|row| row.name.starts_with("top"))
            .cloned()
            .collect();
        if tops.is_empty() {
            return self.total.clone();
        }
        let names: Vec<_> = tops.iter().map(|row| row.name.as_str()).collect();
        Row {
            name: names.join(" & "),
            ..Row::total(&tops)
        }
    }
}

fn moments(series: &crate::series::Series) -> Vec<Moment> {
    let samples = series.samples.iter().enumerate();
    samples
        .map(|(n, sample)| Moment::new(n, series.interval_s, sample))
        .collect()
}

/// A share in percent; 0 if `whole` is 0.
#[must_use]
#[allow(clippy::cast_precision_loss)]
pub(crate) fn percent(part: u64, whole: u64) -> f64 {
    ratio(part as f64 * 100.0, whole)
}

/// A mean; 0 if `count` is 0.
#[must_use]
#[allow(clippy::cast_precision_loss)]
pub(crate) fn ratio(sum: f64, count: u64) -> f64 {
    if count == 0 { 0.0 } else { sum / count as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    #[test]
    fn what_is_written_is_read() {
        let report = testing::report("a", 100.0);
        assert!(Report::from_json(&report.json()).unwrap() == report);
    }

    #[test]
    fn other_files_are_refused_with_advice() {
        let said = |text: &str| Report::from_json(text).unwrap_err().to_string();
        assert!(said("{").starts_with("cannot be read"));
        assert!(said("{\"phases\":[]}").contains("older version"));
        let newer = testing::report("a", 100.0).json().replacen(
            &format!("\"version\":{VERSION}"),
            "\"version\":9",
            1,
        );
        assert!(said(&newer).contains("version 9"), "{}", said(&newer));
        assert!(said("{\"stamp\":{\"format\":\"x\",\"version\":2}}").contains("is a x"));
    }

    #[test]
    fn the_top_is_both_tops() {
        let report = testing::report("a", 100.0);
        let top = report.top();
        assert_eq!(top.name, "top1 & top2");
        let sum: u64 = ["top1", "top2"]
            .map(|name| report.phase(name).unwrap().replies)
            .iter()
            .sum();
        assert_eq!(top.replies, sum);
    }
}
