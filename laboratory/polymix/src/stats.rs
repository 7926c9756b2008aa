//! The counts of a phase.
//!
//! A request belongs to the phase in which it was intended, however late its answer. Hits and misses are distinguished only for *basic*
//! replies (GET without condition, 200), as in Polygraph; hit ratios are of those. The hits of an ideal cache, and of an exact LRU
//! of the cache's size, are computed from the requests alone and counted too.
//!
//! Not known here: how the numbers are used; moments (`series`).
//! Limits: `FAULTS_KEPT` examples.   Source: spec section 7.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::answer::Finished;
use crate::check::Fault;
use crate::content::Kind;
use crate::request::{Condition, Method, Request};
use crate::times::Times;

/// Faults that are reported in full.
pub const FAULTS_KEPT: usize = 20;

/// Requests or replies, and the bytes of their bodies.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Volume {
    /// Number of requests or replies.
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

/// Counts of one phase, or of all.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Counted {
    /// Requests intended.
    pub requests: u64,
    /// Requests that an ideal cache answers.
    pub offered: u64,
    /// Basic replies that an ideal cache would have answered.
    pub offered_basic: u64,
    /// Bytes of those.
    pub offered_bytes: u64,
    /// Basic replies whose object a cache may keep: their share is the cachability.
    pub cachable_basic: u64,
    /// Those of them whose object was requested before: Polygraph's offered hits.
    pub repeated_basic: u64,
    /// Requests that an exact LRU of the cache's size answers.
    pub lru: u64,
    /// Basic replies that this LRU would have answered.
    pub lru_basic: u64,
    /// Bytes of those.
    pub lru_bytes: u64,
    /// Correct answers.
    pub replies: Volume,
    /// Correct answers to basic requests.
    pub basic: Volume,
    /// Basic replies from a cache.
    pub hits: Volume,
    /// Cachable misses.
    pub fills: Volume,
    /// Replies of each kind.
    pub kinds: [Volume; 4],
    /// Replies with status 304.
    pub not_modified: u64,
    /// Replies with 200 where 304 was expected; allowed, but a waste.
    pub condition_ignored: u64,
    /// Replies whose Content-MD5 was correct.
    pub checksums: u64,
    /// Replies without Content-MD5, though the server sent one.
    pub checksums_missing: u64,
    /// Wrong answers, by name.
    pub faults: BTreeMap<String, u64>,
    /// Answers aborted on purpose by the robot or the server.
    pub aborted: u64,
    /// Requests sent again because a kept connection had been closed.
    pub retried: u64,
    /// Top-level requests not sent, because images used up the budget.
    pub skipped: u64,
    /// Connections opened.
    pub connections: u64,
    /// Response time: from the intended start, or from when the robot had a connection free, to the last byte.
    pub response: Times,
    /// Response time of basic hits.
    pub hit: Times,
    /// Response time of basic misses.
    pub miss: Times,
    /// Time until the first byte, of all correct answers.
    pub first_byte: Times,
    /// Time in the robot's own queue, while its four connections were busy.
    pub queued: Times,
    /// Lag of the load generator: from the intended start to the launch.
    pub lag: Times,
}

/// Times of a request with a correct answer.
#[derive(Debug, Clone, Copy)]
pub struct Timing {
    /// From the intended start (or the time when a connection was free) to the first byte.
    pub first_byte: Duration,
    /// From the same time to the last byte.
    pub response: Duration,
    /// Time in the robot's queue before that.
    pub queued: Duration,
}

impl Counted {
    /// Counts a correct answer.
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
        self.condition_ignored += u64::from(request.condition == Condition::Ims304);
        let whole = finished.status == 200 && request.method == Method::Get;
        let summed = whole && request.id.has_checksum();
        self.checksums += u64::from(summed && finished.checksum);
        self.checksums_missing += u64::from(summed && !finished.checksum);
        if !finished.hit && request.id.cachable() && whole {
            self.fills.add(bytes);
        }
        if request.is_basic() {
            let cachable = request.id.cachable();
            self.cachable_basic += u64::from(cachable);
            //= spec section 7   Polygraph's ObjId::offeredHit: basic, repeated and cachable
            self.repeated_basic += u64::from(cachable && request.repeat);
            self.offered_basic += u64::from(request.offered);
            self.offered_bytes += bytes * u64::from(request.offered);
            self.lru_basic += u64::from(request.offered_lru);
            self.lru_bytes += bytes * u64::from(request.offered_lru);
            self.basic.add(bytes);
            if finished.hit {
                self.hits.add(bytes);
                self.hit.add(timing.response);
            } else {
                self.miss.add(timing.response);
            }
        }
    }

    /// Counts a wrong answer.
    pub fn failed(&mut self, fault: &Fault) {
        *self.faults.entry(fault.name()).or_default() += 1;
    }

    /// Wrong answers.
    #[must_use]
    pub fn errors(&self) -> u64 {
        self.faults.values().sum()
    }

    /// Adds the counts of another.
    pub fn join(&mut self, other: &Self) {
        self.requests += other.requests;
        self.offered += other.offered;
        self.offered_basic += other.offered_basic;
        self.offered_bytes += other.offered_bytes;
        self.cachable_basic += other.cachable_basic;
        self.repeated_basic += other.repeated_basic;
        self.lru += other.lru;
        self.lru_basic += other.lru_basic;
        self.lru_bytes += other.lru_bytes;
        self.replies.join(other.replies);
        self.basic.join(other.basic);
        self.hits.join(other.hits);
        self.fills.join(other.fills);
        for kind in Kind::ALL {
            self.kinds[kind.index()].join(other.kinds[kind.index()]);
        }
        self.not_modified += other.not_modified;
        self.condition_ignored += other.condition_ignored;
        self.checksums += other.checksums;
        self.checksums_missing += other.checksums_missing;
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
