//! The data of a report.
//!
//! A [`Report`] has some [`SourceReport`]s side by side. Each has the same figures in the same order, so figure `i` of one source
//! belongs beside figure `i` of another. Reports are kept as JSON and read back unchanged; a report written by a later program may
//! have more fields.
//!
//! Times are in milliseconds unless a name says otherwise, instants are microseconds since 1970, the `x` of a time plot is the
//! *start of its slot* in seconds since 1970, and sizes are bytes.
//!
//! Not known here: how numbers are computed or drawn.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The version of the JSON.
pub const FORMAT: u32 = 1;

/// Some sources side by side.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// [`FORMAT`].
    pub format: u32,
    /// In the order in which they were given.
    pub sources: Vec<SourceReport>,
}

/// The position of a source in a hierarchy of caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// The cache of end users.
    Leaf,
    /// Between leaves and tops.
    Intermediate,
    /// The highest cache of a country or an enterprise.
    Top,
    /// The cache above all others.
    Root,
}

/// The format of a source's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SourceKind {
    /// Loligo's profile, from files or a stream.
    Profile,
    /// Squid's native access.log, or one with stages.
    Squid,
    /// Several reports that were joined.
    Joined,
}

/// How concurrency is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Grid {
    /// Each number weighted by how long it lasted.
    #[default]
    #[serde(rename = "exact")]
    Exact,
    /// The number of requests that touch each interval of 2 ms, as in the paper.
    #[serde(rename = "2ms")]
    TwoMs,
}

/// The report of one source.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SourceReport {
    /// The name that the user gave it.
    pub name: String,
    /// Its position in a hierarchy, if known.
    pub level: Option<Level>,
    /// The format of its data.
    pub kind: SourceKind,
    /// When the first request began.
    pub began_unix_us: u64,
    /// When the last answer ended.
    pub ended_unix_us: u64,
    /// Requests counted, tunnels included.
    pub requests: u64,
    /// The length of a slot, microseconds.
    pub slot_us: u64,
    /// How concurrency and utilisation are shown.
    pub grid: Grid,
    /// Whether the times include aborted requests.
    pub with_aborted: bool,
    /// All slots, without gaps.
    pub slots: Vec<Slot>,
    /// Figures 1 to 25 of the paper, then ours. Every source has the same list.
    pub figures: Vec<Figure>,
    /// Tables 1 to 3, the classes of the day, aborts, and others.
    pub tables: Vec<Table>,
    /// Every measure, in the order of `--list`.
    pub measures: Vec<Measured>,
    /// Counts over all slots, by name: `requests`, `memory_hits`, `bytes`.
    pub counts: BTreeMap<String, u64>,
    /// Events to be marked on a time axis: start, stop, purge.
    pub marks: Vec<Moment>,
    /// What this source cannot tell, and what is not exact.
    pub notes: Vec<String>,
    /// Input that could not be used.
    pub troubles: Troubles,
}

/// A slot of the time axis.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Slot {
    /// Its begin; a multiple of its length.
    pub start_unix_us: u64,
    /// Requests that began in the slot, tunnels included.
    pub requests: u64,
    /// It has under 5 % of the busiest slot's requests: drawn grey, and left out of the day's medians.
    pub is_idle: bool,
    /// The source begins or ends in the slot, so numbers a second are too low.
    pub is_partial: bool,
}

/// One figure of one source.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// `1` to `25` for the paper's, `24b` and `25b` for their second versions, words for ours. The anchor is `figure-` and this.
    pub id: String,
    /// Its title, as in the paper.
    pub title: String,
    /// How its curves are drawn.
    pub form: Form,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// The curves; at least one unless `not_recorded` is set.
    pub curves: Vec<Curve>,
    /// The finding of the paper's authors, in a sentence; empty for our own figures.
    pub paper_saw: String,
    /// The same finding for this source; empty if it cannot be computed.
    pub ours: String,
    /// Definitions and approximations that a reader should know.
    pub notes: Vec<String>,
    /// Why this source cannot fill the figure. Then there are no points, and the page shows this sentence.
    pub not_recorded: Option<String>,
    /// Why there are no points, though this source could have some; names the run or setting that brings them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub empty: Option<String>,
}

/// How curves are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Form {
    /// Lines over time.
    Lines,
    /// Stacked areas in the order of the curves; the lowest first.
    Stacked,
    /// Cumulative shares up to a size.
    Cumulative,
    /// Lines over size classes, with the number of values on a second axis in grey.
    OverSize,
}

/// One axis.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Axis {
    /// The quantity and its unit.
    pub label: String,
    /// Its scale.
    pub kind: AxisKind,
}

/// The scale of an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AxisKind {
    /// Linear, seconds since 1970, labelled in UTC.
    TimeUtc,
    /// Logarithmic, bytes.
    LogBytes,
    /// Logarithmic.
    Log,
    /// Linear from zero.
    Linear,
    /// Linear from 0 to 100.
    Percent,
}

/// One curve.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Curve {
    /// Unique in the figure: `hit`, `swap-in-first`.
    pub id: String,
    /// Its name in the legend.
    pub name: String,
    /// Its subject, which determines its colour when there is one source.
    pub role: Role,
    /// Drawn dashed: a number of the kernel or the device, or a part of another curve.
    pub is_dashed: bool,
    /// How the same curve of two sources is joined.
    pub combine: Combine,
    /// Points by rising `x`. A slot without a value has no point.
    pub points: Vec<Point>,
    /// The value over all slots that are not idle; its `x` is 0.
    pub day: Option<Point>,
    /// Why this source cannot fill the curve, though it fills others of the figure.
    pub not_recorded: Option<String>,
}

/// The subject of a curve.
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

/// How the same curve of several sources is joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Combine {
    /// Points are distributions with sketches; the sketches are added.
    Sketch,
    /// The value is `sum / count`; both are added. In a figure of percents it is multiplied by 100.
    Ratio,
    /// The value is `sum` a second of the slot; sums are added.
    Rate,
    /// As `Rate`, in millions.
    Megabytes,
    /// The value is the share of the curve's `sum` in the sums of all curves of the figure.
    Share,
    /// The value is the share of the sketch's median in the medians of all curves of the figure.
    MedianShare,
    /// Cannot be joined.
    Apart,
}

/// One point of a curve.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Start of the slot in seconds since 1970, or bytes.
    pub x: f64,
    /// The number that a plot shows without a script: the median of a distribution, or a plain number.
    pub value: f64,
    /// Number of values behind it.
    pub count: u64,
    /// Set if there are too few values, or the slot is partial. Drawn hollow, and not joined to its neighbours.
    pub is_hollow: bool,
    /// The sum that `Combine` adds, in its unit: microseconds, bytes, requests.
    pub sum: f64,
    /// Further statistics of a distribution.
    pub spread: Option<Spread>,
    /// For concurrency and utilisation: the value by the other grid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other_grid: Option<f64>,
    /// The distribution in steps of 1 %, for joining reports: value and count of each step, values as differences.
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

/// A table: facts of one source. Where several sources are rows, each fact is a column.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Table {
    /// `1` to `3` for the paper's, words for ours. The anchor is `table-` and this.
    pub id: String,
    /// Its title.
    pub title: String,
    /// In order; every source with this table has the same names.
    pub facts: Vec<Fact>,
    /// Why this source cannot fill the table.
    pub not_recorded: Option<String>,
}

/// A cell and its heading.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fact {
    /// The heading.
    pub name: String,
    /// The text of the cell.
    pub value: String,
}

/// One of the about 200 measures.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// Figure, curve and statistic: `5.hit.p50`.
    pub id: String,
    /// Its name in words.
    pub name: String,
    /// Unit: `ms`, `%`, `1/s`, `bytes`; empty for a plain number.
    pub unit: String,
    /// Value over all slots that are not idle; `None` if not recorded or if there was none.
    pub value: Option<f64>,
    /// Quartiles of the slots' values, if there are slots.
    pub quartiles: Option<[f64; 3]>,
}

/// An event at a moment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Moment {
    /// Its time.
    pub at_unix_us: u64,
    /// `start`, `stop`, `configuration`, `purge`, `scan-end`.
    pub kind: String,
    /// Details.
    pub text: String,
}

/// Parts of the input that could not be used.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Troubles {
    /// Their number.
    pub count: u64,
    /// The first of them, with file and line or offset; at most [`TROUBLES_SHOWN_MAX`].
    pub first: Vec<String>,
}

/// Most troubles whose text is kept; further ones are only counted.
pub const TROUBLES_SHOWN_MAX: usize = 10;

impl Troubles {
    /// Counts a trouble, and keeps its text if there is room.
    pub fn add(&mut self, text: impl Into<String>) {
        self.count += 1;
        if self.first.len() < TROUBLES_SHOWN_MAX {
            self.first.push(text.into());
        }
    }
}

impl Troubles {
    /// Adds the troubles of another input.
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
    /// The figure with this id.
    pub fn figure(&self, id: &str) -> Option<&Figure> {
        self.figures.iter().find(|figure| figure.id == id)
    }

    /// The measure with this id.
    pub fn measure(&self, id: &str) -> Option<&Measured> {
        self.measures.iter().find(|measured| measured.id == id)
    }
}

impl Figure {
    /// The curve with this id.
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
