//! A phase in figures: counts, and values computed from them.
//!
//! Not known here: where the counts come from.   Limits: none.   Source: spec section 7.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{percent, ratio};
use crate::content::Kind;
use crate::robots::{GivenUp, PhaseRun};
use crate::server::Seen;
use crate::stats::{Counted, Volume};
use crate::times::Times;

/// Statistics of one sort of times, in milliseconds.
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
    /// Name of the phase, as in the papers.
    pub name: String,
    /// Begin, seconds since the run began.
    pub from_s: f64,
    /// End, seconds since the run began.
    pub to_s: f64,
    /// Length, seconds; of several phases, the sum.
    pub length_s: f64,
    /// Planned requests a second.
    pub intended_rate: f64,
    /// Set if the fill was given up; of several parts, the one that filled least. Older files do not have it.
    pub given_up: Option<GivenUp>,
    /// Requests a second that were made.
    pub request_rate: f64,
    /// Right answers a second.
    pub reply_rate: f64,
    /// Requests made.
    pub requests: u64,
    /// Correct answers.
    pub replies: u64,
    /// Wrong answers.
    pub errors: u64,
    /// Wrong answers as a share of all answers, percent.
    pub errors_percent: f64,
    /// Wrong answers by name.
    pub faults: BTreeMap<String, u64>,
    /// Response times.
    pub response: Summary,
    /// Response times of basic hits.
    pub hit: Summary,
    /// Response times of basic misses.
    pub miss: Summary,
    /// Time to the first byte.
    pub first_byte: Summary,
    /// Time in the robot's queue, before the response time begins.
    pub queued: Summary,
    /// How late the load generator sent requests.
    pub lag: Summary,
    /// Basic replies that an ideal cache would have answered, percent.
    pub offered_percent: f64,
    /// Basic replies for cachable objects that were asked for before, percent: Polygraph's offered hit ratio.
    pub repeated_percent: f64,
    /// Basic replies for objects that a cache may keep, percent.
    pub cachable_percent: f64,
    /// Basic replies that an exact LRU of the cache's size would have answered, percent.
    pub lru_percent: f64,
    /// Document hit ratio, client's view, percent.
    pub dhr_percent: f64,
    /// Bytes of basic replies that an ideal cache would have answered, percent.
    pub offered_bytes_percent: f64,
    /// Bytes of basic replies that an exact LRU of the cache's size would have answered, percent.
    pub lru_bytes_percent: f64,
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
    /// Mean bytes of a cachable miss.
    pub fill_bytes_mean: f64,
    /// Replies by kind, percent.
    pub kinds_percent: BTreeMap<String, f64>,
    /// Replies with status 304.
    pub not_modified: u64,
    /// 200 where 304 was wanted.
    pub condition_ignored: u64,
    /// Replies whose Content-MD5 was correct.
    pub checksums: u64,
    /// Replies without Content-MD5, though the server sent one.
    pub checksums_missing: u64,
    /// Answers aborted on purpose.
    pub aborted: u64,
    /// Requests sent again.
    pub retried: u64,
    /// Turns in which a robot sent nothing, to make up for images.
    pub skipped: u64,
    /// Connections opened by robots.
    pub connections: u64,
    /// Correct answers for each connection of robots.
    pub replies_a_connection: f64,
    /// Connections to the servers.
    pub origin_connections: Option<u64>,
    /// CPU time of the robots' thread, percent of a core; if there were several, the largest.
    pub robots_cpu_percent: f64,
    /// Time that the robots' thread waited for a core, percent; if there were several, the largest.
    pub core_wait_percent: f64,
    /// CPU time of the servers' thread, percent of a core.
    pub origin_cpu_percent: Option<f64>,
    /// The counts from which the figures are computed.
    pub counted: Counted,
    /// Counts of the servers in that time, if they were in the same process.
    pub origin: Option<Seen>,
}

impl Row {
    /// The figures of a phase.
    #[must_use]
    pub fn new(run: &PhaseRun) -> Self {
        let length_s = (run.to - run.from).as_secs_f64();
        let share = |time: std::time::Duration| time.as_secs_f64() * 100.0 / length_s.max(1e-9);
        Self {
            from_s: run.from.as_secs_f64(),
            to_s: run.to.as_secs_f64(),
            length_s,
            intended_rate: run.intended_rate,
            given_up: run.given_up,
            robots_cpu_percent: share(run.cores.cpu),
            core_wait_percent: share(run.cores.wait),
            ..Self::settled(run.name, run.counted.clone(), run.origin, length_s)
        }
    }

    /// Several phases as one. Rates and loads are means over time.
    #[must_use]
    pub fn total(rows: &[Self]) -> Self {
        let mut counted = Counted::default();
        let mut origin = rows.first().and_then(|row| row.origin);
        for (n, row) in rows.iter().enumerate() {
            counted.join(&row.counted);
            if n > 0 {
                origin = origin.zip(row.origin).map(|(sum, seen)| sum.plus(&seen));
            }
        }
        let length_s: f64 = rows.iter().map(|row| row.length_s).sum();
        let mean = |of: fn(&Self) -> f64| {
            let sum: f64 = rows.iter().map(|row| of(row) * row.length_s).sum();
            sum / length_s.max(1e-9)
        };
        Self {
            from_s: rows.first().map_or(0.0, |row| row.from_s),
            to_s: rows.last().map_or(0.0, |row| row.to_s),
            length_s,
            intended_rate: mean(|row| row.intended_rate),
            robots_cpu_percent: mean(|row| row.robots_cpu_percent),
            core_wait_percent: mean(|row| row.core_wait_percent),
            ..Self::settled("all", counted, origin, length_s)
        }
    }

    /// One phase, run by several processes at the same time.
    #[must_use]
    pub(super) fn beside(rows: &[&Self]) -> Self {
        let mut counted = Counted::default();
        for row in rows {
            counted.join(&row.counted);
        }
        let most = |of: fn(&Self) -> f64| rows.iter().map(|row| of(row)).fold(0.0, f64::max);
        #[allow(clippy::cast_precision_loss)]
        let length_s = rows.iter().map(|row| row.length_s).sum::<f64>() / rows.len() as f64;
        let name = rows.first().map_or("", |row| row.name.as_str());
        // All parts share the same servers, so no process has their counts for itself: `origin` stays empty.
        Self {
            from_s: rows
                .iter()
                .map(|row| row.from_s)
                .fold(f64::INFINITY, f64::min),
            to_s: most(|row| row.to_s),
            length_s,
            intended_rate: rows.iter().map(|row| row.intended_rate).sum(),
            given_up: rows
                .iter()
                .filter_map(|row| row.given_up)
                .min_by(|a, b| a.filled_percent.total_cmp(&b.filled_percent)),
            robots_cpu_percent: most(|row| row.robots_cpu_percent),
            core_wait_percent: most(|row| row.core_wait_percent),
            ..Self::settled(name, counted, None, length_s)
        }
    }

    /// The values that are computed from the counts alone.
    #[allow(clippy::cast_precision_loss)]
    fn settled(name: &str, counted: Counted, origin: Option<Seen>, length_s: f64) -> Self {
        let seconds = length_s.max(1e-9);
        let bodies = counted.replies.count - counted.not_modified;
        let mean = |volume: &Volume| ratio(volume.bytes as f64, volume.count);
        let saved = |theirs: u64, ours: u64| 100.0 - percent(theirs, ours);
        let errors = counted.errors();
        let kinds = Kind::ALL.map(|kind| {
            let share = percent(counted.kinds[kind.index()].count, counted.replies.count);
            (format!("{kind:?}").to_lowercase(), share)
        });
        Self {
            name: name.to_owned(),
            from_s: 0.0,
            to_s: 0.0,
            length_s,
            intended_rate: 0.0,
            given_up: None,
            request_rate: counted.requests as f64 / seconds,
            reply_rate: counted.replies.count as f64 / seconds,
            requests: counted.requests,
            replies: counted.replies.count,
            errors,
            errors_percent: percent(errors, errors + counted.replies.count),
            faults: counted.faults.clone(),
            response: summary(&counted.response),
            hit: summary(&counted.hit),
            miss: summary(&counted.miss),
            first_byte: summary(&counted.first_byte),
            queued: summary(&counted.queued),
            lag: summary(&counted.lag),
            offered_percent: percent(counted.offered_basic, counted.basic.count),
            repeated_percent: percent(counted.repeated_basic, counted.basic.count),
            cachable_percent: percent(counted.cachable_basic, counted.basic.count),
            lru_percent: percent(counted.lru_basic, counted.basic.count),
            dhr_percent: percent(counted.hits.count, counted.basic.count),
            offered_bytes_percent: percent(counted.offered_bytes, counted.basic.bytes),
            lru_bytes_percent: percent(counted.lru_bytes, counted.basic.bytes),
            bhr_percent: percent(counted.hits.bytes, counted.basic.bytes),
            dhr_traffic_percent: origin.map(|o| saved(o.replies, counted.replies.count)),
            bhr_traffic_percent: origin.map(|o| saved(o.body_bytes, counted.replies.bytes)),
            reply_bytes_mean: ratio(counted.replies.bytes as f64, bodies),
            fills: counted.fills.count,
            fill_bytes_mean: mean(&counted.fills),
            kinds_percent: kinds.into_iter().collect(),
            not_modified: counted.not_modified,
            condition_ignored: counted.condition_ignored,
            checksums: counted.checksums,
            checksums_missing: counted.checksums_missing,
            aborted: counted.aborted,
            retried: counted.retried,
            skipped: counted.skipped,
            connections: counted.connections,
            replies_a_connection: ratio(counted.replies.count as f64, counted.connections),
            origin_connections: origin.map(|o| o.connections),
            robots_cpu_percent: 0.0,
            core_wait_percent: 0.0,
            origin_cpu_percent: origin.map(|o| o.cpu.as_secs_f64() / seconds * 100.0),
            counted,
            origin,
        }
    }
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
