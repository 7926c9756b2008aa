//! Queries under way, and which siblings answer.
//!
//! Decides only: what is sent, and to whom an answer goes. An answer counts if it comes from the address that was asked and repeats
//! the number of a query to it that still waits. Numbers are random, so that nobody who does not see our queries can answer them.
//!
//! A sibling that has left [`SILENT_AFTER`] queries in a row without an answer is *silent*: one query in [`PROBE_EVERY`] is sent, and
//! nobody waits for it. Its answer, whenever it comes, ends the silence. DENIED counts as no answer here, since waiting for it is
//! of no use either.
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
/// Queries in a row without an answer, from which a sibling counts as silent.
pub const SILENT_AFTER: u32 = 20;
/// How often a silent sibling is asked all the same.
pub const PROBE_EVERY: Duration = Duration::from_secs(1);

#[derive(Default)]
struct Sibling {
    address: Option<SocketAddr>,
    /// Queries in a row without an answer.
    unanswered: u32,
    /// The last query of a silent sibling, and when it was sent.
    probe: Option<(u32, Instant)>,
}

struct Query {
    sibling: usize,
    /// `None`: a probe.
    answer: Option<oneshot::Sender<Opcode>>,
}

/// Queries under way. See the head of the file.
pub struct Table {
    siblings: Vec<Sibling>,
    queries: HashMap<u32, Query>,
}

/// What is to be done about a query.
pub enum Asked {
    /// Send it, and wait for its answer.
    Wait {
        /// Its number.
        request: u32,
        /// Where to.
        to: SocketAddr,
        /// The answer comes here.
        answer: oneshot::Receiver<Opcode>,
    },
    /// Send it, and do not wait: the sibling is silent.
    Probe {
        /// Its number.
        request: u32,
        /// Where to.
        to: SocketAddr,
    },
    /// Do not send it: the sibling is silent.
    Silent,
    /// Do not send it: there are too many, or the sibling has no address.
    Refused,
}

/// Whose an answer is.
#[derive(PartialEq, Eq, Debug)]
pub enum Matched {
    /// Nobody's.
    Stray,
    /// Of somebody who waits, or of a probe.
    Taken,
    /// The same, and the sibling, by its number, is silent no more.
    Back(usize),
    /// The same, and the sibling, by its number, has been found to deny what it is asked.
    Denied(usize),
}

impl Table {
    /// For so many siblings.
    pub fn new(siblings: usize) -> Table {
        Table {
            siblings: (0..siblings).map(|_| Sibling::default()).collect(),
            queries: HashMap::new(),
        }
    }

    /// A sibling is at this address.
    pub fn set_address(&mut self, sibling: usize, address: SocketAddr) {
        if let Some(sibling) = self.siblings.get_mut(sibling) {
            sibling.address = Some(address);
        }
    }

    /// A sibling is to be asked. `random`: any number.
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

    /// An answer came from there.
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
            // Whoever waited may have gone.
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

    /// The answer to a query has been waited for long enough. True if the sibling is silent from now on.
    pub fn timed_out(&mut self, request: u32) -> bool {
        let Some(query) = self.queries.remove(&request) else {
            return false;
        };
        let sibling = &mut self.siblings[query.sibling];
        sibling.unanswered = sibling.unanswered.saturating_add(1);
        sibling.unanswered == SILENT_AFTER
    }

    /// Nobody waits for the answer to a query any more, through no fault of the sibling's.
    pub fn gave_up(&mut self, request: u32) {
        self.queries.remove(&request);
    }

    /// Queries under way.
    #[cfg(test)]
    pub fn under_way(&self) -> usize {
        self.queries.len()
    }
}
