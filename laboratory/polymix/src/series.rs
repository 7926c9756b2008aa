//! The course of a run, moment by moment.
//!
//! Answers count in the moment in which they ended, requests in the one in which they were made. The CPU time of the load generator,
//! and its waiting for a core, are added once a second.
//!
//! Not known here: phases.   Limits: `SAMPLES_MAX` moments; beyond that, each moment becomes twice as long.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::answer::Finished;
use crate::request::Request;

const SAMPLES_MAX: usize = 2_048;

/// Counts of one moment of the run. They are sums, so moments can be added.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Requests made.
    pub requests: u64,
    /// Correct answers.
    pub replies: u64,
    /// Wrong answers.
    pub errors: u64,
    /// Correct answers to basic requests.
    pub basic: u64,
    /// Basic replies that an ideal cache would have answered.
    pub offered: u64,
    /// Basic replies that an exact LRU of the cache's size would have answered.
    pub lru: u64,
    /// Basic replies from a cache.
    pub hits: u64,
    /// Bytes of the bodies of basic replies.
    pub basic_bytes: u64,
    /// Bytes of the bodies of hits.
    pub hit_bytes: u64,
    /// Sum of response times, seconds.
    pub response_s: f64,
    /// Sum of response times of hits, seconds.
    pub hit_s: f64,
    /// Sum of response times of basic misses, seconds.
    pub miss_s: f64,
    /// Sum of the delays of requests against the schedule, seconds.
    pub lag_s: f64,
    /// Number of requests in that sum.
    pub launches: u64,
    /// Most open connections of robots at one time.
    pub connections_max: u64,
    /// CPU time of the robots' thread, seconds.
    pub cpu_s: f64,
    /// Time that this thread waited for a core, seconds.
    pub core_wait_s: f64,
    /// CPU time of the servers' thread, seconds, if they are in this process.
    pub origin_cpu_s: f64,
}

/// The run, moment by moment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// Length of a moment, seconds.
    pub interval_s: f64,
    /// All samples since the run began.
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
    /// The sample of a moment.
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
        let pairs = self.samples.chunks(2);
        self.samples = pairs
            .map(|pair| pair.iter().fold(Sample::default(), Sample::then))
            .collect();
    }

    /// Adds a series that another process counted in the same run at the same time. Intervals are powers of two.
    pub fn join(&mut self, other: &Self) {
        let mut other = other.clone();
        while self.interval_s < other.interval_s {
            self.halve();
        }
        while other.interval_s < self.interval_s {
            other.halve();
        }
        let len = self.samples.len().max(other.samples.len());
        self.samples.resize(len, Sample::default());
        for (mine, theirs) in self.samples.iter_mut().zip(&other.samples) {
            *mine = mine.beside(theirs);
        }
    }
}

impl Sample {
    /// This moment and the next one as one.
    #[must_use]
    pub fn then(self, next: &Self) -> Self {
        Self {
            connections_max: self.connections_max.max(next.connections_max),
            ..self.beside(next)
        }
    }

    /// The sum of what two processes counted in the same moment.
    fn beside(self, other: &Self) -> Self {
        Self {
            requests: self.requests + other.requests,
            replies: self.replies + other.replies,
            errors: self.errors + other.errors,
            basic: self.basic + other.basic,
            offered: self.offered + other.offered,
            lru: self.lru + other.lru,
            hits: self.hits + other.hits,
            basic_bytes: self.basic_bytes + other.basic_bytes,
            hit_bytes: self.hit_bytes + other.hit_bytes,
            response_s: self.response_s + other.response_s,
            hit_s: self.hit_s + other.hit_s,
            miss_s: self.miss_s + other.miss_s,
            lag_s: self.lag_s + other.lag_s,
            launches: self.launches + other.launches,
            connections_max: self.connections_max + other.connections_max,
            cpu_s: self.cpu_s + other.cpu_s,
            core_wait_s: self.core_wait_s + other.core_wait_s,
            origin_cpu_s: self.origin_cpu_s + other.origin_cpu_s,
        }
    }

    /// Counts a correct answer.
    pub fn finished(&mut self, request: &Request, finished: &Finished, response: Duration) {
        let seconds = response.as_secs_f64();
        self.replies += 1;
        self.response_s += seconds;
        if request.is_basic() && finished.status == 200 {
            self.basic += 1;
            self.offered += u64::from(request.offered);
            self.lru += u64::from(request.offered_lru);
            self.basic_bytes += finished.body_bytes;
            if finished.hit {
                self.hits += 1;
                self.hit_s += seconds;
                self.hit_bytes += finished.body_bytes;
            } else {
                self.miss_s += seconds;
            }
        }
    }

    /// Counts a request that was sent this late.
    pub fn launched(&mut self, lag: Duration) {
        self.lag_s += lag.as_secs_f64();
        self.launches += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(seconds: u64, connections: u64) -> Series {
        let mut series = Series::default();
        for second in 0..seconds {
            let sample = series.at(Duration::from_secs(second));
            sample.replies += 1;
            sample.connections_max = connections;
        }
        series
    }

    fn replies(series: &Series) -> u64 {
        series.samples.iter().map(|s| s.replies).sum()
    }

    #[test]
    fn a_long_run_has_coarser_samples_and_loses_none() {
        let series = series(10_000, 3);
        assert!(series.samples.len() <= SAMPLES_MAX);
        assert_eq!(replies(&series), 10_000);
        assert!((series.interval_s - 8.0).abs() < 1e-9);
        assert_eq!(series.samples[0].connections_max, 3);
    }

    #[test]
    fn series_of_two_processes_add_up_moment_by_moment() {
        let mut joined = series(10_000, 3);
        joined.join(&series(100, 4));
        assert_eq!(replies(&joined), 10_100);
        assert_eq!(joined.samples[0].replies, 16);
        assert_eq!(joined.samples[0].connections_max, 7);
        let mut other_way = series(100, 4);
        other_way.join(&series(10_000, 3));
        assert_eq!(joined, other_way);
    }
}
