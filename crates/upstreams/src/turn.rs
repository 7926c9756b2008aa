//! A request to a server of an upstream, from the choice to the last byte of its answer.

use std::{cell::Cell, rc::Rc, sync::Arc, sync::atomic::Ordering};

use super::{Member, Server, Upstream, breaker::Outcome, locked};
use base::clock::Instant;
use origin::{Verdict, outcome::UpstreamError};

/// One request to one server. It counts as in flight until this is dropped: with its connection, or when that returns to the pool.
pub struct Turn {
    upstream: Arc<Upstream>,
    number: usize,
    is_trial: bool,
    is_noted: Cell<bool>,
}

impl Turn {
    /// Begins a request to this server.
    pub(super) fn begin(upstream: &Arc<Upstream>, number: usize, is_trial: bool) -> Rc<Turn> {
        let server = &upstream.members[number].server;
        server.in_flight.fetch_add(1, Ordering::Relaxed);
        server.requests.fetch_add(1, Ordering::Relaxed);
        Rc::new(Turn {
            upstream: Arc::clone(upstream),
            number,
            is_trial,
            is_noted: Cell::new(false),
        })
    }

    /// The server.
    pub fn server(&self) -> &Server {
        &self.member().server
    }

    /// The server's entry in its upstream.
    pub(super) fn member(&self) -> &Member {
        &self.upstream.members[self.number]
    }

    fn note(&self, outcome: Outcome) {
        if !self.is_noted.replace(true) {
            let now = Instant::now();
            (self.upstream).note(self.number, outcome, self.is_trial, now);
        }
    }
}

impl Verdict for Turn {
    fn answered(&self, status: u16) {
        self.note(match is_bad(status) {
            true => Outcome::Bad,
            false => Outcome::Well,
        });
    }

    /// Errors that this proxy caused are not held against the server.
    fn failed(&self, error: &UpstreamError) {
        if error.is_ours() {
            return;
        }
        self.note(match error {
            UpstreamError::Connect(_) => Outcome::Unreachable,
            _ => Outcome::Silent,
        });
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let server = self.server();
        server.in_flight.fetch_sub(1, Ordering::Relaxed);
        if self.is_trial && !self.is_noted.get() {
            locked(&server.breaker).give_up_trial(Instant::now());
        }
    }
}

/// Does this status mean that the server has failed?
pub fn is_bad(status: u16) -> bool {
    matches!(status, 500 | 502 | 503 | 504)
}
