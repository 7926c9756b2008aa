//! What a run was, for people and for programs.
//!
//! The same structure is written as JSON and as text. Percentages are of basic replies (the client's view), or of what the
//! servers did not have to answer (the traffic view, if the servers were ours). What an ideal cache would have had is the
//! column *offered*. Numbers that tell whether the load generator was the bottleneck (lag, CPU) come with the others.
//!
//! Not known here: how the numbers came about.   Limits: none.   Source: spec section 7; issue 6, "honest load".

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use crate::content::Kind;
use crate::robots::{Outcome, PhaseRun};
use crate::server::Seen;
use crate::stats::{Counted, Times, Volume};

/// The whole of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// What was asked for, name and value.
    pub setup: BTreeMap<String, String>,
    /// Phase by phase.
    pub phases: Vec<Row>,
    /// All phases together.
    pub total: Row,
    /// Moment by moment.
    pub series: Vec<Moment>,
    /// The first faults, in full.
    pub faults: Vec<String>,
    /// Requests unanswered when the run was over.
    pub unfinished: u64,
    /// Directly requested objects in the working set at the end.
    pub working_set: u64,
    /// Whether it was frozen.
    pub frozen: bool,
    /// Repeats that became new objects, for want of old ones.
    pub nothing_to_repeat: u64,
    /// Most connections of robots at once.
    pub connections_max: u64,
}

/// Times of one sort, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Summary {
    pub count: u64,
    pub mean_ms: f64,
    pub p50_ms: f64,
    pub p90_ms: f64,
    pub p99_ms: f64,
    pub max_ms: f64,
}

/// A phase.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// As in the papers.
    pub name: String,
    /// Seconds since the run began.
    pub from_s: f64,
    /// Seconds since the run began.
    pub to_s: f64,
    /// Requests a second, by the plan.
    pub intended_rate: f64,
    /// Requests a second that were made.
    pub request_rate: f64,
    /// Right answers a second.
    pub reply_rate: f64,
    /// Requests made.
    pub requests: u64,
    /// Right answers.
    pub replies: u64,
    /// Wrong ones.
    pub errors: u64,
    /// Wrong ones by name.
    pub faults: BTreeMap<String, u64>,
    /// Response times.
    pub response: Summary,
    /// Of basic hits.
    pub hit: Summary,
    /// Of basic misses.
    pub miss: Summary,
    /// Time to the first byte.
    pub first_byte: Summary,
    /// In the robot's queue, before that.
    pub queued: Summary,
    /// How late the load generator was.
    pub lag: Summary,
    /// Basic replies that an ideal cache would have had, percent.
    pub offered_percent: f64,
    /// Document hit ratio, client's view, percent.
    pub dhr_percent: f64,
    /// Byte hit ratio, client's view, percent.
    pub bhr_percent: f64,
    /// Document hit ratio by the servers' traffic, percent.
    pub dhr_traffic_percent: Option<f64>,
    /// Byte hit ratio by the servers' traffic, percent.
    pub bhr_traffic_percent: Option<f64>,
    /// Mean bytes of a body, without 304.
    pub reply_bytes_mean: f64,
    /// Cachable misses.
    pub fills: u64,
    /// Mean bytes of them.
    pub fill_bytes_mean: f64,
    /// Replies by kind, percent.
    pub kinds_percent: BTreeMap<String, f64>,
    /// 304.
    pub not_modified: u64,
    /// 200 where 304 was wanted.
    pub condition_ignored: u64,
    /// Answers left or cut on purpose.
    pub aborted: u64,
    /// Sent again.
    pub retried: u64,
    /// Turns of robots given to images.
    pub skipped: u64,
    /// Connections of robots.
    pub connections: u64,
    /// Connections to the servers.
    pub origin_connections: Option<u64>,
    /// CPU of the robots' thread, percent of a core.
    pub robots_cpu_percent: f64,
    /// CPU of the servers' thread, percent of a core.
    pub origin_cpu_percent: Option<f64>,
}

/// One moment.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Moment {
    pub at_s: f64,
    pub reply_rate: f64,
    pub error_rate: f64,
    pub response_ms_mean: f64,
    pub hit_ms_mean: f64,
    pub miss_ms_mean: f64,
    pub dhr_percent: f64,
}

impl Report {
    /// Of a run.
    #[must_use]
    #[allow(clippy::cast_precision_loss)]
    pub fn new(setup: BTreeMap<String, String>, outcome: &Outcome) -> Self {
        let moment = |(n, sample): (usize, &crate::stats::Sample)| Moment {
            at_s: n as f64 * outcome.series.interval_s,
            reply_rate: sample.replies as f64 / outcome.series.interval_s,
            error_rate: sample.errors as f64 / outcome.series.interval_s,
            response_ms_mean: ratio(sample.response_s * 1e3, sample.replies),
            hit_ms_mean: ratio(sample.hit_s * 1e3, sample.hits),
            miss_ms_mean: ratio(sample.miss_s * 1e3, sample.basic - sample.hits),
            dhr_percent: percent(sample.hits, sample.basic),
        };
        Self {
            setup,
            phases: outcome.phases.iter().map(row).collect(),
            total: row(&total(&outcome.phases)),
            series: outcome
                .series
                .samples
                .iter()
                .enumerate()
                .map(moment)
                .collect(),
            faults: outcome.faults.clone(),
            unfinished: outcome.unfinished,
            working_set: outcome.working_set,
            frozen: outcome.frozen,
            nothing_to_repeat: outcome.nothing_to_repeat,
            connections_max: outcome.connections_max,
        }
    }

    /// For programs.
    #[must_use]
    pub fn json(&self) -> String {
        serde_json::to_string_pretty(self).expect("plain data")
    }

    /// For people.
    #[must_use]
    pub fn text(&self) -> String {
        let mut out = String::new();
        let _ = self.write_text(&mut out);
        out
    }

    fn write_text(&self, out: &mut String) -> std::fmt::Result {
        for (name, value) in &self.setup {
            writeln!(out, "{name:16} {value}")?;
        }
        writeln!(
            out,
            "\n{:6} {:>8} {:>9} {:>9} {:>9} {:>9} {:>7} {:>7} {:>7} {:>7} {:>7} {:>7} {:>7}",
            "phase",
            "plan/s",
            "replies/s",
            "mean ms",
            "hit ms",
            "miss ms",
            "p99 ms",
            "offer%",
            "DHR%",
            "BHR%",
            "tDHR%",
            "errors",
            "lag ms"
        )?;
        for row in self.phases.iter().chain([&self.total]) {
            writeln!(
                out,
                "{:6} {:8.1} {:9.1} {:9.1} {:9.2} {:9.1} {:7.0} {:7.2} {:7.2} {:7.2} {:>7} {:7} {:7.2}",
                row.name,
                row.intended_rate,
                row.reply_rate,
                row.response.mean_ms,
                row.hit.mean_ms,
                row.miss.mean_ms,
                row.response.p99_ms,
                row.offered_percent,
                row.dhr_percent,
                row.bhr_percent,
                optional(row.dhr_traffic_percent),
                row.errors,
                row.lag.mean_ms,
            )?;
        }
        self.write_rest(out)
    }

    fn write_rest(&self, out: &mut String) -> std::fmt::Result {
        let all = &self.total;
        writeln!(out)?;
        writeln!(
            out,
            "requests         {} made, {} right, {} wrong, {} aborted, {} unfinished",
            all.requests, all.replies, all.errors, all.aborted, self.unfinished
        )?;
        for (name, count) in &all.faults {
            writeln!(out, "  wrong          {count:8}  {name}")?;
        }
        for fault in &self.faults {
            writeln!(out, "  example        {fault}")?;
        }
        let kinds: Vec<_> = all
            .kinds_percent
            .iter()
            .map(|(kind, share)| format!("{kind} {share:.1} %"))
            .collect();
        writeln!(out, "kinds            {}", kinds.join(", "))?;
        writeln!(
            out,
            "bytes            {:.0} a reply, {:.0} a fill, {} fills",
            all.reply_bytes_mean, all.fill_bytes_mean, all.fills
        )?;
        writeln!(
            out,
            "304              {}, and {} answered 200 instead",
            all.not_modified, all.condition_ignored
        )?;
        writeln!(
            out,
            "connections      {} of robots ({} at once, {} requests repeated), {} to servers",
            all.connections,
            self.connections_max,
            all.retried,
            all.origin_connections
                .map_or("?".to_owned(), |n| n.to_string()),
        )?;
        let frozen = if self.frozen { "frozen" } else { "not frozen" };
        writeln!(
            out,
            "working set      {} objects and their images, {frozen}; {} repeats of nothing",
            self.working_set, self.nothing_to_repeat
        )?;
        writeln!(
            out,
            "load generator   lag {:.2} ms mean, {:.1} p99, {:.0} max; CPU {:.0} % robots, {} % servers; robots' queues {:.1} ms mean",
            all.lag.mean_ms,
            all.lag.p99_ms,
            all.lag.max_ms,
            all.robots_cpu_percent,
            optional(all.origin_cpu_percent),
            all.queued.mean_ms,
        )
    }
}

fn optional(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.2}"))
}

#[allow(clippy::cast_precision_loss)]
fn percent(part: u64, whole: u64) -> f64 {
    ratio(part as f64 * 100.0, whole)
}

#[allow(clippy::cast_precision_loss)]
fn ratio(sum: f64, count: u64) -> f64 {
    if count == 0 { 0.0 } else { sum / count as f64 }
}

fn summary(times: &Times) -> Summary {
    Summary {
        count: times.count(),
        mean_ms: times.mean_ms(),
        p50_ms: times.percentile_ms(50.0),
        p90_ms: times.percentile_ms(90.0),
        p99_ms: times.percentile_ms(99.0),
        max_ms: times.percentile_ms(100.0),
    }
}

fn total(phases: &[PhaseRun]) -> PhaseRun {
    let mut counted = Counted::default();
    let mut origin = Seen::default();
    let (mut intended, mut cpu) = (0.0, std::time::Duration::ZERO);
    for phase in phases {
        counted.join(&phase.counted);
        intended += phase.intended_rate * (phase.to - phase.from).as_secs_f64();
        cpu += phase.cpu;
        if let Some(seen) = phase.origin {
            origin = origin.plus(&seen);
        }
    }
    let to = phases.last().map_or_else(Default::default, |last| last.to);
    PhaseRun {
        name: "all",
        from: std::time::Duration::ZERO,
        to,
        intended_rate: intended / to.as_secs_f64().max(1e-9),
        cpu,
        counted,
        origin: phases.iter().any(|p| p.origin.is_some()).then_some(origin),
    }
}

#[allow(clippy::cast_precision_loss)]
fn row(run: &PhaseRun) -> Row {
    let counted = &run.counted;
    let seconds = (run.to - run.from).as_secs_f64().max(1e-9);
    let bodies = counted.replies.count - counted.not_modified;
    let mean = |volume: &Volume| ratio(volume.bytes as f64, volume.count);
    let saved = |theirs: u64, ours: u64| 100.0 - percent(theirs, ours);
    let kinds = Kind::ALL.map(|kind| {
        let share = percent(counted.kinds[kind.index()].count, counted.replies.count);
        (format!("{kind:?}").to_lowercase(), share)
    });
    Row {
        name: run.name.to_owned(),
        from_s: run.from.as_secs_f64(),
        to_s: run.to.as_secs_f64(),
        intended_rate: run.intended_rate,
        request_rate: counted.requests as f64 / seconds,
        reply_rate: counted.replies.count as f64 / seconds,
        requests: counted.requests,
        replies: counted.replies.count,
        errors: counted.errors(),
        faults: counted.faults.clone(),
        response: summary(&counted.response),
        hit: summary(&counted.hit),
        miss: summary(&counted.miss),
        first_byte: summary(&counted.first_byte),
        queued: summary(&counted.queued),
        lag: summary(&counted.lag),
        offered_percent: percent(counted.offered_basic, counted.basic.count),
        dhr_percent: percent(counted.hits.count, counted.basic.count),
        bhr_percent: percent(counted.hits.bytes, counted.basic.bytes),
        dhr_traffic_percent: run.origin.map(|o| saved(o.replies, counted.replies.count)),
        bhr_traffic_percent: run
            .origin
            .map(|o| saved(o.body_bytes, counted.replies.bytes)),
        reply_bytes_mean: ratio(counted.replies.bytes as f64, bodies),
        fills: counted.fills.count,
        fill_bytes_mean: mean(&counted.fills),
        kinds_percent: kinds.into_iter().collect(),
        not_modified: counted.not_modified,
        condition_ignored: counted.condition_ignored,
        aborted: counted.aborted,
        retried: counted.retried,
        skipped: counted.skipped,
        connections: counted.connections,
        origin_connections: run.origin.map(|o| o.connections),
        robots_cpu_percent: run.cpu.as_secs_f64() / seconds * 100.0,
        origin_cpu_percent: run.origin.map(|o| o.cpu.as_secs_f64() / seconds * 100.0),
    }
}
