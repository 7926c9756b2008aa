//! What is counted in a phase.
//!
//! A request belongs to the phase in which it was intended, however late its answer. Hits and misses are told apart for
//! *basic* replies only (GET without condition, 200), as Polygraph does; so are the hit ratios. What an ideal cache would
//! have answered, and an exact LRU of the cache's size, is counted beside it, from the requests alone.
//!
//! Not known here: what is done with the numbers; moments (`series`).
//! Limits: `FAULTS_KEPT` examples.   Source: spec section 7.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::answer::Finished;
use crate::check::Fault;
use crate::content::Kind;
use crate::request::{Condition, Method, Request};
use crate::times::Times;

/// Faults that are told in full.
pub const FAULTS_KEPT: usize = 20;

/// Requests or replies, and the bytes of their bodies.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
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
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Counted {
    /// Requests intended.
    pub requests: u64,
    /// Those that an ideal cache answers, of all requests.
    pub offered: u64,
    /// Basic requests whose answer came, and those among them that an ideal cache answers.
    pub offered_basic: u64,
    /// Bytes of the latter.
    pub offered_bytes: u64,
    /// Basic replies whose object a cache may keep: cachability is their share.
    pub cachable_basic: u64,
    /// Of those, the ones whose object was asked for before: what Polygraph calls offered.
    pub repeated_basic: u64,
    /// Those that an exact LRU of the cache's size answers, of all requests.
    pub lru: u64,
    /// Of basic requests whose answer came.
    pub lru_basic: u64,
    /// Bytes of the latter.
    pub lru_bytes: u64,
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
    /// Replies whose Content-MD5 was right.
    pub checksums: u64,
    /// Replies that had none, though the server sent one.
    pub checksums_missing: u64,
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
