//! What is counted: for each phase, and for each moment.
//!
//! A request belongs to the phase in which it was intended, however late its answer. Hits and misses are told apart for
//! *basic* replies only (GET without condition, 200), as Polygraph does; so are the hit ratios. What an ideal cache would
//! have answered is counted beside it, from the requests alone.
//!
//! Not known here: what is done with the numbers.
//! Limits: response times up to `RESPONSE_US_MAX`, two digits; `FAULTS_KEPT` examples; `SAMPLES_MAX` moments, then each
//! stands for twice the time.   Source: spec section 7.

use std::collections::BTreeMap;
use std::time::Duration;

use hdrhistogram::Histogram;

use crate::answer::Finished;
use crate::check::Fault;
use crate::content::Kind;
use crate::request::Request;

const RESPONSE_US_MAX: u64 = 600_000_000;
/// Faults that are told in full.
pub const FAULTS_KEPT: usize = 20;
const SAMPLES_MAX: usize = 2_048;

/// Times of one sort.
#[derive(Debug, Clone)]
pub struct Times(Histogram<u64>);

impl Default for Times {
    fn default() -> Self {
        let histogram = Histogram::new_with_bounds(1, RESPONSE_US_MAX, 2);
        Self(histogram.expect("bounds and digits are legal"))
    }
}

impl Times {
    /// Counts one.
    pub fn add(&mut self, time: Duration) {
        let us = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        self.0.saturating_record(us.max(1));
    }

    /// How many.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// Mean in milliseconds.
    #[must_use]
    pub fn mean_ms(&self) -> f64 {
        if self.0.is_empty() {
            0.0
        } else {
            self.0.mean() / 1e3
        }
    }

    /// What so many percent were not above, in milliseconds.
    #[must_use]
    #[allow(clippy::cast_precision_loss)]
    pub fn percentile_ms(&self, percent: f64) -> f64 {
        self.0.value_at_percentile(percent) as f64 / 1e3
    }

    /// Counts those of another, too.
    pub fn join(&mut self, other: &Self) {
        self.0.add(&other.0).expect("same bounds");
    }
}

/// Requests or replies, and the bytes of their bodies.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Volume {
    /// How many.
    pub count: u64,
    /// Bytes.
    pub bytes: u64,
}

impl Volume {
    fn add(&mut self, bytes: u64) {
        self.count += 1;
        self.bytes += bytes;
    }

    fn join(&mut self, other: Self) {
        self.count += other.count;
        self.bytes += other.bytes;
    }
}

/// One phase, or all of them.
#[derive(Debug, Clone, Default)]
pub struct Counted {
    /// Requests intended.
    pub requests: u64,
    /// Those that an ideal cache answers, of all requests.
    pub offered: u64,
    /// Basic requests whose answer came, and those among them that an ideal cache answers.
    pub offered_basic: u64,
    /// Right answers.
    pub replies: Volume,
    /// Of them, basic.
    pub basic: Volume,
    /// Of the basic ones, from a cache.
    pub hits: Volume,
    /// Cachable misses.
    pub fills: Volume,
    /// Replies of each kind.
    pub kinds: [Volume; 4],
    /// 304.
    pub not_modified: u64,
    /// 200 where 304 was wanted; allowed, but a waste.
    pub condition_ignored: u64,
    /// Wrong answers, by name.
    pub faults: BTreeMap<String, u64>,
    /// Answers left by the robot, or cut by the server, on purpose.
    pub aborted: u64,
    /// Sent again because a kept connection had been closed.
    pub retried: u64,
    /// Top-level requests not sent, because images had used up the budget.
    pub skipped: u64,
    /// Connections opened.
    pub connections: u64,
    /// From the intended start, or from when the robot had a connection free, to the last byte.
    pub response: Times,
    /// The same, of basic hits.
    pub hit: Times,
    /// The same, of basic misses.
    pub miss: Times,
    /// Until the first byte, of all.
    pub first_byte: Times,
    /// In the robot's own queue, with four connections busy.
    pub queued: Times,
    /// How late the load generator was: from the intended start to the launch.
    pub lag: Times,
}

/// What happened to a request that ended well.
#[derive(Debug, Clone, Copy)]
pub struct Timing {
    /// Intended start (or connection free) to first byte.
    pub first_byte: Duration,
    /// To last byte.
    pub response: Duration,
    /// In the robot's queue, before.
    pub queued: Duration,
}

impl Counted {
    /// Counts a right answer.
    pub fn finished(&mut self, request: &Request, finished: &Finished, timing: &Timing) {
        let bytes = finished.body_bytes;
        self.replies.add(bytes);
        self.kinds[request.id.kind.index()].add(bytes);
        self.response.add(timing.response);
        self.first_byte.add(timing.first_byte);
        self.queued.add(timing.queued);
        if finished.status == 304 {
            self.not_modified += 1;
            return;
        }
        self.condition_ignored += u64::from(request.condition == crate::request::Condition::Ims304);
        if !finished.hit && request.id.cachable() && request.method == crate::request::Method::Get {
            self.fills.add(bytes);
        }
        if request.is_basic() {
            self.offered_basic += u64::from(request.offered);
            self.basic.add(bytes);
            if finished.hit {
                self.hits.add(bytes);
                self.hit.add(timing.response);
            } else {
                self.miss.add(timing.response);
            }
        }
    }

    /// Counts a wrong one.
    pub fn failed(&mut self, fault: &Fault) {
        *self.faults.entry(fault.name()).or_default() += 1;
    }

    /// Wrong answers.
    #[must_use]
    pub fn errors(&self) -> u64 {
        self.faults.values().sum()
    }

    /// Counts what another counted.
    pub fn join(&mut self, other: &Self) {
        self.requests += other.requests;
        self.offered += other.offered;
        self.offered_basic += other.offered_basic;
        self.replies.join(other.replies);
        self.basic.join(other.basic);
        self.hits.join(other.hits);
        self.fills.join(other.fills);
        for kind in Kind::ALL {
            self.kinds[kind.index()].join(other.kinds[kind.index()]);
        }
        self.not_modified += other.not_modified;
        self.condition_ignored += other.condition_ignored;
        for (name, count) in &other.faults {
            *self.faults.entry(name.clone()).or_default() += count;
        }
        self.aborted += other.aborted;
        self.retried += other.retried;
        self.skipped += other.skipped;
        self.connections += other.connections;
        self.response.join(&other.response);
        self.hit.join(&other.hit);
        self.miss.join(&other.miss);
        self.first_byte.join(&other.first_byte);
        self.queued.join(&other.queued);
        self.lag.join(&other.lag);
    }
}

/// One moment of the run.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Sample {
    /// Right answers.
    pub replies: u64,
    /// Wrong ones.
    pub errors: u64,
    /// Of the right ones, basic.
    pub basic: u64,
    /// Of the basic ones, from a cache.
    pub hits: u64,
    /// Sum of response times, seconds.
    pub response_s: f64,
    /// Of hits.
    pub hit_s: f64,
    /// Of basic misses.
    pub miss_s: f64,
}

/// The run, moment by moment, by when answers ended.
#[derive(Debug, Clone)]
pub struct Series {
    /// What a sample stands for, seconds.
    pub interval_s: f64,
    /// From the beginning of the run on.
    pub samples: Vec<Sample>,
}

impl Default for Series {
    fn default() -> Self {
        Self {
            interval_s: 1.0,
            samples: Vec::new(),
        }
    }
}

impl Series {
    /// The sample of a time.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // below SAMPLES_MAX
    pub fn at(&mut self, at: Duration) -> &mut Sample {
        while at.as_secs_f64() / self.interval_s >= SAMPLES_MAX as f64 {
            self.halve();
        }
        let index = (at.as_secs_f64() / self.interval_s) as usize;
        if self.samples.len() <= index {
            self.samples.resize(index + 1, Sample::default());
        }
        &mut self.samples[index]
    }

    fn halve(&mut self) {
        self.interval_s *= 2.0;
        self.samples = self
            .samples
            .chunks(2)
            .map(|pair| pair.iter().fold(Sample::default(), Sample::plus))
            .collect();
    }
}

impl Sample {
    fn plus(self, other: &Self) -> Self {
        Self {
            replies: self.replies + other.replies,
            errors: self.errors + other.errors,
            basic: self.basic + other.basic,
            hits: self.hits + other.hits,
            response_s: self.response_s + other.response_s,
            hit_s: self.hit_s + other.hit_s,
            miss_s: self.miss_s + other.miss_s,
        }
    }

    /// Counts a right answer.
    pub fn finished(&mut self, request: &Request, finished: &Finished, response: Duration) {
        let seconds = response.as_secs_f64();
        self.replies += 1;
        self.response_s += seconds;
        if request.is_basic() && finished.status == 200 {
            self.basic += 1;
            if finished.hit {
                self.hits += 1;
                self.hit_s += seconds;
            } else {
                self.miss_s += seconds;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_run_has_coarser_samples_and_loses_none() {
        let mut series = Series::default();
        for second in 0..10_000 {
            series.at(Duration::from_secs(second)).replies += 1;
        }
        assert!(series.samples.len() <= SAMPLES_MAX);
        assert_eq!(
            series.samples.iter().map(|s| s.replies).sum::<u64>(),
            10_000
        );
        assert!((series.interval_s - 8.0).abs() < 1e-9);
    }
}
