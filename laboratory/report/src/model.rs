//! What a report is, as data.
//!
//! A [`Report`] is some [`SourceReport`]s side by side. Each has the same figures in the same order, so figure `i` of one source
//! belongs beside figure `i` of another. Everything is kept as JSON and read back unchanged; a report written by a later program may
//! have more fields.
//!
//! Times are in milliseconds unless a name says otherwise, instants are microseconds since 1970, the `x` of a time plot is the
//! *start of its slot* in seconds since 1970, and sizes are bytes.
//!
//! Not known here: how the numbers come about, how they are drawn.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The version of the JSON.
pub const FORMAT: u32 = 1;

/// Some sources side by side.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// [`FORMAT`].
    pub format: u32,
    /// In the order that they were given in.
    pub sources: Vec<SourceReport>,
}

/// Where a source stands in a hierarchy of caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Its clients are people.
    Leaf,
    /// Between leaves and tops.
    Intermediate,
    /// The highest of a country or an enterprise.
    Top,
    /// Above all.
    Root,
}

/// What a source is made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SourceKind {
    /// Profile files of Loligo, or its stream of them.
    Profile,
    /// Squid's native access.log, or one with stages.
    Squid,
    /// Several reports that were joined.
    Joined,
}

/// How the number of requests in the proxy is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Grid {
    /// By the time that each number lasted.
    #[default]
    #[serde(rename = "exact")]
    Exact,
    /// The number that touch each interval of 2 ms, as in the paper.
    #[serde(rename = "2ms")]
    TwoMs,
}

/// The report of one source.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SourceReport {
    /// As the user called it.
    pub name: String,
    /// Its place in a hierarchy, if it was said.
    pub level: Option<Level>,
    /// What it is made from.
    pub kind: SourceKind,
    /// When the first request began, and the last answer ended.
    pub began_unix_us: u64,
    /// See `began_unix_us`.
    pub ended_unix_us: u64,
    /// Requests counted, tunnels included.
    pub requests: u64,
    /// The length of a slot.
    pub slot_us: u64,
    /// How concurrency and utilisation are shown.
    pub grid: Grid,
    /// Are aborted requests in the times?
    pub with_aborted: bool,
    /// One after the other without a gap.
    pub slots: Vec<Slot>,
    /// Figures 1 to 25 of the paper, then ours. The same list for every source.
    pub figures: Vec<Figure>,
    /// Tables 1 to 3, the day's classes, aborts.
    pub tables: Vec<Table>,
    /// Every measure, in the order of `--list`.
    pub measures: Vec<Measured>,
    /// What was counted in all slots, by name: `requests`, `memory_hits`, `bytes`.
    pub counts: BTreeMap<String, u64>,
    /// Moments to be marked on a time axis: start, stop, purge.
    pub marks: Vec<Moment>,
    /// What this source could not tell, and what is not exact.
    pub notes: Vec<String>,
    /// What was wrong with the input.
    pub troubles: Troubles,
}

/// A piece of the time axis.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Slot {
    /// When it begins; a multiple of its length.
    pub start_unix_us: u64,
    /// Requests that began in it, tunnels included.
    pub requests: u64,
    /// Under 5 % of the busiest slot's requests: grey, and left out of the medians of the day.
    pub is_idle: bool,
    /// The source begins or ends within it, so numbers per second are too low.
    pub is_partial: bool,
}

/// One figure of one source.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// `1` to `25` for the paper's, `24b` and `25b` for their second versions, words for ours: the anchor is `figure-` and this.
    pub id: String,
    /// As the paper calls it.
    pub title: String,
    /// How its curves are to be drawn.
    pub form: Form,
    /// What runs to the right.
    pub x: Axis,
    /// What runs up.
    pub y: Axis,
    /// The curves; at least one unless there is `not_recorded`.
    pub curves: Vec<Curve>,
    /// What the paper's authors found, in a sentence; empty for figures of our own.
    pub paper_saw: String,
    /// The same of this source; empty if it can not be told.
    pub ours: String,
    /// What to know when reading it: definitions, approximations.
    pub notes: Vec<String>,
    /// Why this source can not fill it. Then there are no points, and the page says this sentence.
    pub not_recorded: Option<String>,
    /// Why there are no points, though this source could have some, and which run or setting brings them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub empty: Option<String>,
}

/// How curves are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Form {
    /// Lines over time.
    Lines,
    /// Areas on top of each other, in the order of the curves; the lowest first.
    Stacked,
    /// Shares up to a size, which never fall.
    Cumulative,
    /// Lines over size classes, with the number of values on a second axis in grey.
    OverSize,
}

/// One axis.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Axis {
    /// What it shows, with the unit.
    pub label: String,
    /// How it is divided.
    pub kind: AxisKind,
}

/// How an axis is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AxisKind {
    /// Seconds since 1970, labelled in UTC.
    TimeUtc,
    /// Bytes, by powers.
    LogBytes,
    /// By powers of ten.
    Log,
    /// From zero.
    Linear,
    /// From 0 to 100.
    Percent,
}

/// One curve.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Curve {
    /// Unique in the figure: `hit`, `swap-in-first`.
    pub id: String,
    /// In the legend.
    pub name: String,
    /// What it is about, which gives its colour when there is one source.
    pub role: Role,
    /// Drawn dashed: what the kernel or the device says, or a part of another curve.
    pub is_dashed: bool,
    /// How the same curve of two sources becomes one.
    pub combine: Combine,
    /// By `x`, rising. Where there was no value there is no point.
    pub points: Vec<Point>,
    /// Over all slots that are not idle; its `x` is 0.
    pub day: Option<Point>,
    /// Why this source can not fill it, though it fills others of the figure.
    pub not_recorded: Option<String>,
}

/// What a curve is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[allow(missing_docs)]
pub enum Role {
    All,
    Hit,
    Miss,
    Collapsed,
    Uncachable,
    Error,
    Tunnel,
    Aborted,
    Memory,
    Disk,
    Ims,
    Negative,
    Other,
    SwapIn,
    SwapOut,
    SwapAll,
    ClientConnect,
    ProxyConnect,
    ServerReply,
    ProxyReply,
    Dns,
    Wait,
    Peer,
    Device,
    Reused,
    Rest,
}

/// How the same curve of several sources becomes one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Combine {
    /// Its points are distributions, kept as sketches, which are added.
    Sketch,
    /// The value is `sum / count`; both are added. (In a figure of percents, times 100.)
    Ratio,
    /// The value is `sum` per second of the slot; sums are added.
    Rate,
    /// The same, in millions.
    Megabytes,
    /// The value is the share of the curve's `sum` in the sums of all curves of the figure.
    Share,
    /// The value is the share of the sketch's median in the medians of all curves of the figure.
    MedianShare,
    /// It can not be made from the two curves.
    Apart,
}

/// One point of a curve.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Start of the slot in seconds since 1970, or bytes.
    pub x: f64,
    /// What a plot shows without a script: the median of a distribution, else the number.
    pub value: f64,
    /// Values that it is made of.
    pub count: u64,
    /// Too few values, or a slot that is not whole: drawn hollow, and not joined to its neighbours.
    pub is_hollow: bool,
    /// What was added up, in the unit of `Combine`: microseconds, bytes, requests.
    pub sum: f64,
    /// More of a distribution.
    pub spread: Option<Spread>,
    /// Concurrency and utilisation: the value by the other grid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other_grid: Option<f64>,
    /// The distribution in steps of 1 %, so that reports can be joined: value and number of each step, values as differences.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sketch: Vec<u64>,
}

/// A distribution, by nearest rank: value number `ceil(p * n)` of `n`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Spread {
    pub p25: f64,
    pub p50: f64,
    pub p75: f64,
    pub p90: f64,
    pub p95: f64,
    pub p99: f64,
    pub mean: f64,
    pub max: f64,
}

/// A table: facts of this source, each a column when several sources are the rows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Table {
    /// `1` to `3` for the paper's, words for ours: the anchor is `table-` and this.
    pub id: String,
    /// What it shows.
    pub title: String,
    /// In order; the same names for every source that has the table.
    pub facts: Vec<Fact>,
    /// Why this source can not fill it.
    pub not_recorded: Option<String>,
}

/// One cell and its heading.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fact {
    /// The heading.
    pub name: String,
    /// As it is to be shown.
    pub value: String,
}

/// One of the about 200 measures.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// Figure, curve and statistic: `5.hit.p50`.
    pub id: String,
    /// In words.
    pub name: String,
    /// Of the value: `ms`, `%`, `1/s`, `bytes`, or nothing for a number.
    pub unit: String,
    /// Over all slots that are not idle; `None`: not recorded, or there was none.
    pub value: Option<f64>,
    /// First, second and third quartile of the slots' values, if there are slots.
    pub quartiles: Option<[f64; 3]>,
}

/// Something that happened at a moment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Moment {
    /// When.
    pub at_unix_us: u64,
    /// `start`, `stop`, `configuration`, `purge`, `scan-end`.
    pub kind: String,
    /// More about it.
    pub text: String,
}

/// Places in the input that could not be used.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Troubles {
    /// How many there were.
    pub count: u64,
    /// The first of them, with file and line or offset; at most [`TROUBLES_SHOWN_MAX`].
    pub first: Vec<String>,
}

/// The most troubles that are kept word by word; the others are counted.
pub const TROUBLES_SHOWN_MAX: usize = 10;

impl Troubles {
    /// Counts one more, and keeps its text if there is room.
    pub fn add(&mut self, text: impl Into<String>) {
        self.count += 1;
        if self.first.len() < TROUBLES_SHOWN_MAX {
            self.first.push(text.into());
        }
    }
}

impl Troubles {
    /// And those of another input.
    pub(crate) fn extend(&mut self, other: &Troubles) {
        self.count += other.count;
        let room = TROUBLES_SHOWN_MAX - self.first.len();
        self.first.extend(other.first.iter().take(room).cloned());
    }
}

impl Report {
    /// A report of these sources.
    pub fn new(sources: Vec<SourceReport>) -> Self {
        Report {
            format: FORMAT,
            sources,
        }
    }
}

impl SourceReport {
    /// The figure of that id.
    pub fn figure(&self, id: &str) -> Option<&Figure> {
        self.figures.iter().find(|figure| figure.id == id)
    }

    /// The measure of that id.
    pub fn measure(&self, id: &str) -> Option<&Measured> {
        self.measures.iter().find(|measured| measured.id == id)
    }
}

impl Figure {
    /// The curve of that id.
    pub fn curve(&self, id: &str) -> Option<&Curve> {
        self.curves.iter().find(|curve| curve.id == id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn troubles_are_counted_beyond_those_kept() {
        let mut troubles = Troubles::default();
        for i in 0..25 {
            troubles.add(format!("line {i}"));
        }
        assert_eq!(
            (troubles.count, troubles.first.len()),
            (25, TROUBLES_SHOWN_MAX)
        );
        assert_eq!(troubles.first[9], "line 9");
    }
}
