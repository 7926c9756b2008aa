//! Queries under way, and whether siblings answer.
//!
//! This decides which queries are sent, and which query an answer belongs to. An answer counts if it comes from the address that was asked and has
//! the number of a waiting query to it. Numbers are random, so that only a host that sees our queries can answer them.
//!
//! A sibling that has left [`SILENT_AFTER`] queries in a row unanswered is *silent*: one query in [`PROBE_EVERY`] is sent as a probe, and no
//! request waits for it. An answer to a probe, however late, ends the silence. DENIED counts as no answer here, because waiting for it is
//! just as useless.
//!
//! Not known here: sockets, messages.   Limits: [`QUERIES_MAX`].

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::Duration;

use hints::icp::Opcode;
use tokio::sync::oneshot;

use base::clock::Instant;

/// Queries under way at most; further ones are not sent.
pub const QUERIES_MAX: usize = 1 << 16;
/// Unanswered queries in a row after which a sibling counts as silent.
pub const SILENT_AFTER: u32 = 20;
/// How often a silent sibling is probed.
pub const PROBE_EVERY: Duration = Duration::from_secs(1);

#[derive(Default)]
struct Sibling {
    address: Option<SocketAddr>,
    /// Unanswered queries in a row.
    unanswered: u32,
    /// The last probe of a silent sibling, and when it was sent.
    probe: Option<(u32, Instant)>,
}

struct Query {
    sibling: usize,
    /// `None`: a probe.
    answer: Option<oneshot::Sender<Opcode>>,
}

/// The queries under way; described at the head of this file.
pub struct Table {
    siblings: Vec<Sibling>,
    queries: HashMap<u32, Query>,
}

/// What to do about a query.
pub enum Asked {
    /// Send it, and wait for its answer.
    Wait {
        /// Its number.
        request: u32,
        /// The sibling's address.
        to: SocketAddr,
        /// Receives the answer.
        answer: oneshot::Receiver<Opcode>,
    },
    /// Send it, and do not wait: the sibling is silent.
    Probe {
        /// Its number.
        request: u32,
        /// The sibling's address.
        to: SocketAddr,
    },
    /// Do not send it: the sibling is silent.
    Silent,
    /// Do not send it: there are too many, or the sibling has no address.
    Refused,
}

/// What an answer belongs to.
#[derive(PartialEq, Eq, Debug)]
pub enum Matched {
    /// Nothing: no such query is waiting.
    Stray,
    /// A waiting query, or a probe.
    Taken,
    /// The same, and this sibling is no longer silent.
    Back(usize),
    /// The same, and this sibling turned out to deny our queries.
    Denied(usize),
}

impl Table {
    /// A table for so many siblings.
    pub fn new(siblings: usize) -> Table {
        Table {
            siblings: (0..siblings).map(|_| Sibling::default()).collect(),
            queries: HashMap::new(),
        }
    }

    /// Sets the address of a sibling.
    pub fn set_address(&mut self, sibling: usize, address: SocketAddr) {
        if let Some(sibling) = self.siblings.get_mut(sibling) {
            sibling.address = Some(address);
        }
    }

    /// Decides whether to ask a sibling. `random`: any number.
    pub fn ask(&mut self, sibling: usize, random: u32, now: Instant) -> Asked {
        let number = sibling;
        let Some(sibling) = self.siblings.get_mut(sibling) else {
            return Asked::Refused;
        };
        let Some(to) = sibling.address.filter(|_| self.queries.len() < QUERIES_MAX) else {
            return Asked::Refused;
        };
        let is_silent = sibling.unanswered >= SILENT_AFTER;
        if is_silent {
            let due = |&(_, sent): &(u32, Instant)| now.duration_since(sent) >= PROBE_EVERY;
            if !sibling.probe.as_ref().is_none_or(due) {
                return Asked::Silent;
            }
            if let Some((before, _)) = sibling.probe.take() {
                self.queries.remove(&before);
            }
        }
        let mut request = random;
        while self.queries.contains_key(&request) {
            request = request.wrapping_add(1);
        }
        if is_silent {
            sibling.probe = Some((request, now));
        }
        let (sender, answer) = oneshot::channel();
        self.queries.insert(
            request,
            Query {
                sibling: number,
                answer: (!is_silent).then_some(sender),
            },
        );
        match is_silent {
            true => Asked::Probe { request, to },
            false => Asked::Wait {
                request,
                to,
                answer,
            },
        }
    }

    /// Handles an answer from this address.
    pub fn answered(&mut self, from: SocketAddr, request: u32, opcode: Opcode) -> Matched {
        let Some(query) = self.queries.get(&request) else {
            return Matched::Stray;
        };
        let number = query.sibling;
        let sibling = &mut self.siblings[number];
        if sibling.address != Some(from) || opcode == Opcode::Query {
            return Matched::Stray;
        }
        let query = self.queries.remove(&request);
        if let Some(answer) = query.and_then(|query| query.answer) {
            // The waiting request may be gone.
            let _ = answer.send(opcode);
        }
        if opcode == Opcode::Denied {
            sibling.unanswered = sibling.unanswered.saturating_add(1);
            return match sibling.unanswered == SILENT_AFTER {
                true => Matched::Denied(number),
                false => Matched::Taken,
            };
        }
        sibling.probe = None;
        let before = std::mem::take(&mut sibling.unanswered);
        match before >= SILENT_AFTER {
            true => Matched::Back(number),
            false => Matched::Taken,
        }
    }

    /// The wait for an answer has timed out. True: the sibling is silent from now on.
    pub fn timed_out(&mut self, request: u32) -> bool {
        let Some(query) = self.queries.remove(&request) else {
            return false;
        };
        let sibling = &mut self.siblings[query.sibling];
        sibling.unanswered = sibling.unanswered.saturating_add(1);
        sibling.unanswered == SILENT_AFTER
    }

    /// The request behind a query has ended; this does not count against the sibling.
    pub fn gave_up(&mut self, request: u32) {
        self.queries.remove(&request);
    }

    /// Queries under way.
    #[cfg(test)]
    pub fn under_way(&self) -> usize {
        self.queries.len()
    }
}
