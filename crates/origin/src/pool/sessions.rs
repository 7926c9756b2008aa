//! Sessions of HTTP/2 to one destination: which session a request gets, and which request opens the next one.
//!
//! One connection is opened at a time. Until its number of streams is known, or that the origin speaks HTTP/1.1, other requests wait for it,
//! so that a hundred misses at once do not open a hundred connections. The origin's protocol is remembered for [`SPEAKS_FOR`].
//!
//! Invariants:
//!   H1  a session of the list has its driver; one that takes no more requests is removed when the list is next looked at
//!   H2  `is_opening` is set exactly while a [`Turn`] of the destination lives
//!
//! Not known here: how a session is made (`connect`).

use std::{collections::VecDeque, net::SocketAddr, rc::Rc, time::Duration};

use tokio::sync::oneshot;

use super::{
    Carrier, Lease, Limits, Pool, Slot, State,
    idle::{Shown, leads_to},
};
use crate::{
    connection::{ConnectError, Destination, Stream},
    h2::{Seat, Session},
};
use base::{access::Destinations, clock::Instant};

/// How long the protocol of an origin is remembered.
const SPEAKS_FOR: Duration = Duration::from_secs(600);

/// The protocol of an origin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Speaks {
    Http1,
    Http2,
}

/// The sessions of one destination.
#[derive(Default)]
pub(super) struct Sessions {
    list: Vec<Rc<Session>>,
    speaks: Option<(Speaks, Instant)>,
    is_opening: bool,
    /// In order of arrival. Waiters that gave up have closed senders.
    waiting: VecDeque<oneshot::Sender<Option<ConnectError>>>,
}

/// The next step for a request.
pub(crate) enum Next {
    /// Use this place.
    Seat(Seat),
    /// Use HTTP/1.1, as the origin does.
    Http1,
    /// Open a connection.
    Open(Turn),
    /// Wait for the connection that is being opened, then ask again; the channel brings the error if opening fails.
    Wait(oneshot::Receiver<Option<ConnectError>>),
}

/// The right to open a connection. Dropping it wakes the waiters.
pub(crate) struct Turn {
    pool: Pool,
    to: Destination,
    failed: Option<ConnectError>,
}

impl Turn {
    /// Opening failed: the waiters get this error.
    pub(crate) fn failed(mut self, error: &ConnectError) {
        self.failed = Some(error.clone());
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut state = self.pool.0.state.borrow_mut();
        let Some(entry) = state.destinations.get_mut(&self.to) else {
            return;
        };
        let Some(sessions) = &mut entry.sessions else {
            return;
        };
        sessions.is_opening = false;
        let waiting = std::mem::take(&mut sessions.waiting);
        if entry.is_unused() {
            state.destinations.remove(&self.to);
        }
        drop(state);
        for waiter in waiting {
            let _ = waiter.send(self.failed.clone());
        }
    }
}

impl Sessions {
    pub(super) fn is_unused(&self) -> bool {
        self.list.is_empty() && !self.is_opening && self.speaks.is_none()
    }

    /// Is any connection open?
    pub(super) fn is_open(&self) -> bool {
        !self.list.is_empty()
    }

    /// To be called once a second: closes sessions that are idle for too long or too old, and forgets those that are over.
    pub(super) fn sweep(&mut self, now: Instant, limits: &Limits) {
        self.speaks = self
            .speaks
            .filter(|(_, at)| now.saturating_duration_since(*at) < SPEAKS_FOR);
        self.list.retain(|session| {
            let is_idle = session.idle_for(now) >= limits.idle_timeout;
            let is_old = now.saturating_duration_since(session.place.opened) >= limits.max_age;
            if is_idle || is_old {
                session.retire();
            }
            session.takes_requests()
        });
    }
}

impl Lease {
    /// A place in a session, which counts as a connection in use.
    pub(crate) fn of_seat(slot: Slot, seat: Seat) -> Self {
        let place = seat.session().place;
        let reused = seat.is_reused();
        Self {
            carrier: Carrier::Shared(Box::new(seat)),
            peer: place.peer,
            is_inward: place.is_inward,
            reused,
            opened: place.opened,
            shown: Shown {
                answered: place.opened,
                told: None,
            },
            seen_open: Duration::ZERO,
            is_for_one: false,
            verdict: None,
            slot,
        }
    }

    /// Separates the connection from its slot, to make a session of it.
    pub(crate) fn into_parts(self) -> (Slot, Stream, SocketAddr, bool) {
        match self.carrier {
            Carrier::Alone(stream) => (self.slot, stream, self.peer, self.is_inward),
            Carrier::Shared(_) => panic!("a session has its connection already"),
        }
    }

    /// The seat, if the lease is for a session.
    pub(crate) fn seat(&mut self) -> Option<&mut Seat> {
        match &mut self.carrier {
            Carrier::Alone(_) => None,
            Carrier::Shared(seat) => Some(seat),
        }
    }

    /// Is the connection shared with other requests?
    pub fn is_shared(&self) -> bool {
        matches!(self.carrier, Carrier::Shared(_))
    }

    /// The origin demands HTTP/1.1.
    //= rfc9113 §7   HTTP_1_1_REQUIRED
    pub(crate) fn wants_http1(&self) {
        self.slot.pool.speaks(&self.slot.destination, Speaks::Http1);
    }
}

impl Pool {
    /// The next step for a request to a destination that may speak HTTP/2.
    pub(crate) fn next(&self, to: &Destination, access: &Destinations) -> Next {
        let limits = self.0.limits.get();
        let mut state = self.0.state.borrow_mut();
        let State {
            destinations,
            now,
            tls_forgotten,
            ..
        } = &mut *state;
        let entry = destinations.entry(to.clone()).or_default();
        let name = entry.name.as_ref();
        let sessions = entry.sessions.get_or_insert_default();
        sessions.list.retain(|session| {
            let place = session.place;
            let is_forgotten = place.is_tls
                && to.terms.is_none()
                && tls_forgotten.is_some_and(|at| place.opened <= at);
            let is_old = now.saturating_duration_since(place.opened) >= limits.max_age;
            if is_forgotten || is_old || !leads_to(name, place.peer) {
                session.retire();
            }
            session.takes_requests()
        });
        let permitted = sessions.list.iter().filter(|session| {
            (access.check_pooled(session.place.peer, session.place.is_inward)).is_ok()
        });
        let mut permitted: Vec<_> = permitted.collect();
        permitted.sort_by_key(|session| session.load());
        if let Some(seat) = permitted.into_iter().find_map(|session| session.seat()) {
            return Next::Seat(seat);
        }
        if let Some((Speaks::Http1, _)) = sessions.speaks {
            return Next::Http1;
        }
        if sessions.is_opening {
            sessions.waiting.retain(|waiter| !waiter.is_closed());
            let (tell, told) = oneshot::channel();
            if sessions.waiting.len() < limits.waiting_per_destination_max {
                sessions.waiting.push_back(tell);
            } else {
                let _ = tell.send(Some(ConnectError::Busy));
            }
            return Next::Wait(told);
        }
        // A session without streams that takes no request is of no use. Retire it, or such sessions would pile up.
        let useless = sessions.list.iter().filter(|session| session.load() == 0);
        useless.for_each(|session| session.retire());
        sessions.is_opening = true;
        Next::Open(Turn {
            pool: self.clone(),
            to: to.clone(),
            failed: None,
        })
    }

    /// Adds a new session.
    pub(crate) fn keep(&self, to: &Destination, session: &Rc<Session>) {
        let mut state = self.0.state.borrow_mut();
        let entry = state.destinations.entry(to.clone()).or_default();
        let sessions = entry.sessions.get_or_insert_default();
        sessions.list.push(Rc::clone(session));
    }

    /// Notes the protocol of an origin.
    pub(crate) fn speaks(&self, to: &Destination, what: Speaks) {
        let mut state = self.0.state.borrow_mut();
        let now = state.now;
        let entry = state.destinations.entry(to.clone()).or_default();
        let sessions = entry.sessions.get_or_insert_default();
        sessions.speaks = Some((what, now));
        if what == Speaks::Http1 {
            sessions.list.iter().for_each(|session| session.retire());
        }
    }

    /// The pool's time.
    pub(crate) fn now(&self) -> Instant {
        self.0.state.borrow().now
    }
}
