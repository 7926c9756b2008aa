//! The connections of one worker. Those in use are counted, idle ones are kept for later requests.
//!
//! ```text
//!             checkout (newest first)
//!     idle ──────────────────────────> in use (a Lease) ── drop ──> closed
//!      ^                                │   ^
//!      └──────────── reuse ─────────────┘   └── slot ── connected
//! ```
//!
//! The newest idle connection is the most likely to be still open. No more stay idle than were in use at once in the
//! last minute or two ([`KEPT_MIN`] at least). A request that may not be repeated gets one that is young
//! (`habits`) and for which the kernel, asked at that moment, reports nothing to read. At a destination's bound, requests
//! wait in order. A released connection, or the right to open one, goes straight to the first in the queue.
//!
//! A [`Slot`] is the right to one connection: counted when made, uncounted when dropped. A [`Lease`] is a slot with its
//! stream.
//!
//! A connection takes no further request once it is older than `max_age`, or once its name no longer resolves to its address
//! (`Pool::resolved`).
//!
//! Invariants, checked by `audit`:
//!   P1  the totals are the sums over the destinations
//!   P2  a destination is known only while it has an idle connection, one in use, or a waiter
//!   P3  only a destination at its bound has waiters
//!   P4  no bound of `Limits` is exceeded
//!
//! Idle times are counted in calls of `sweep`, one a second, so that a checkout reads no clock, except for a young
//! connection. Not known here: how connections are made (`connect`), whether an answer was complete (the caller).

mod idle;
mod sessions;

use base::clock::Instant;
use base::mistakes::{Mistake, makes};
use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::timeout;

use self::idle::{Idle, Name, Shown, leads_to};
use self::sessions::Sessions;
pub(crate) use self::sessions::{Next, Speaks, Turn};
use super::habits::Habits;
use crate::connection::{ConnectError, Destination, Stream};
use crate::context::Verdict;
use crate::h2::Seat;
use base::access::Destinations;

/// This many connections to a destination may be idle, even if fewer were in use at once.
const KEPT_MIN: usize = 2;

/// The bounds of one worker's pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Connections to one destination, idle and in use. A further request closes an idle one; if there is none, it
    /// waits.
    pub per_destination_max: usize,
    /// Idle connections to one destination; a further one closes the oldest.
    pub idle_per_destination_max: usize,
    /// Idle connections in all; a further one closes the oldest sixteenth.
    pub idle_max: usize,
    /// Requests waiting for a connection to one destination; a further one is refused.
    pub waiting_per_destination_max: usize,
    /// How long an idle connection is kept; origins commonly close theirs after 5 to 75 s.
    pub idle_timeout: Duration,
    /// How long a connection takes requests.
    pub max_age: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            per_destination_max: 1024,
            idle_per_destination_max: 256,
            idle_max: 1024,
            // As many as there may be clients. A waiter costs no more than its connection, and an origin that stalls
            // for a tenth of a second has thousands of them.
            waiting_per_destination_max: 16 << 10,
            idle_timeout: Duration::from_secs(60),
            max_age: Duration::from_secs(3600),
        }
    }
}

/// One worker's connections; a clone is another handle to the same pool.
#[derive(Clone)]
pub struct Pool(Rc<Inner>);

struct Inner {
    limits: Cell<Limits>,
    state: RefCell<State>,
}

struct State {
    destinations: HashMap<Destination, Entry>,
    idle: usize,
    in_use: usize,
    waiting: usize,
    /// How many connections were ever put back, which orders the idle ones.
    put_back: u64,
    /// The time of the last sweep.
    now: Instant,
    /// When the current span of the peaks began.
    span_began: Instant,
    /// When connections over TLS were forgotten.
    tls_forgotten: Option<Instant>,
    habits: Habits,
}

#[derive(Default)]
struct Entry {
    /// Oldest first.
    idle: VecDeque<Idle>,
    in_use: usize,
    /// The most in use at once, in this span and in the one before.
    peaks: [usize; 2],
    /// The look-ups of its name; `None`: its name needs none.
    name: Option<Name>,
    /// In order of arrival. Waiters that gave up have closed senders.
    waiting: VecDeque<oneshot::Sender<Grant>>,
    /// Sessions of HTTP/2; `None`: never used for this destination.
    sessions: Option<Box<Sessions>>,
}

/// What a waiter receives.
pub(super) enum Grant {
    /// An open connection that was just released.
    Warm(Box<Lease>),
    /// The right to open one.
    Slot(Slot),
}

/// The right to one connection in use. Dropping it passes it to the first waiter.
pub(super) struct Slot {
    pool: Pool,
    destination: Destination,
    /// The slot is counted as in use. False once its connection is shelved, because `shelve` uncounts it.
    is_counted: bool,
}

/// The connection or stream that carries a request.
pub(super) enum Carrier {
    /// A connection of its own.
    Alone(Stream),
    /// A stream of a shared connection. Boxed, because every request moves a lease, and few use HTTP/2.
    Shared(Box<Seat>),
}

/// A connection in use, or a place in one of HTTP/2. [`Lease::reuse`] keeps it for a later request, dropping closes it.
pub struct Lease {
    // Closed before the slot is passed on.
    carrier: Carrier,
    peer: SocketAddr,
    is_inward: bool,
    reused: bool,
    opened: Instant,
    shown: Shown,
    /// How long after its last answer the connection was seen open, when it was taken from the pool.
    seen_open: Duration,
    /// The connection serves one request only, and is not pooled afterwards.
    is_for_one: bool,
    /// Is told the outcome, if the destination was chosen among several. While the lease lives, it counts as in flight there.
    verdict: Option<Rc<dyn Verdict>>,
    slot: Slot,
}

impl Lease {
    pub(super) fn new(slot: Slot, stream: Stream, peer: SocketAddr, is_inward: bool) -> Self {
        let opened = slot.pool.0.state.borrow().now;
        Self {
            carrier: Carrier::Alone(stream),
            peer,
            is_inward,
            reused: false,
            opened,
            shown: Shown {
                answered: opened,
                told: None,
            },
            seen_open: Duration::ZERO,
            is_for_one: false,
            verdict: None,
            slot,
        }
    }

    /// Does the connection serve one request only?
    pub(super) fn is_for_one(&self) -> bool {
        self.is_for_one
    }

    /// The connection is not pooled afterwards.
    pub(super) fn for_one_request(self) -> Self {
        Self {
            is_for_one: true,
            ..self
        }
    }

    /// The destination.
    pub(super) fn destination(&self) -> &Destination {
        &self.slot.destination
    }

    /// The connection, for tunnels and other byte streams.
    pub fn stream(&mut self) -> &mut Stream {
        match &mut self.carrier {
            Carrier::Alone(stream) => stream,
            Carrier::Shared(_) => panic!("bytes are written to a connection that nobody shares"),
        }
    }

    #[cfg(test)]
    /// The origin's address when the connection was made. No system call.
    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// May a request under these rules use the connection, which may have been opened for another listener?
    pub(super) fn is_permitted(&self, access: &Destinations) -> bool {
        makes(Mistake::PermitPooled) || access.check_pooled(self.peer, self.is_inward).is_ok()
    }

    /// Has it carried a request before? Then the origin may have closed it unnoticed, and a request that fails
    /// before any answer may be worth another try on a new connection (RFC 9112 §9.3.1).
    pub fn is_reused(&self) -> bool {
        self.reused
    }

    /// The head of an answer came at `at`. `told`: how long the origin says that it keeps the connection open, if it does.
    pub fn answered(&mut self, at: Instant, told: Option<Duration>) {
        self.shown = Shown { answered: at, told };
    }

    /// The origin had closed the connection before the request arrived.
    pub fn was_closed(&self) {
        let (to, now) = (&self.slot.destination, Instant::now());
        let mut state = self.slot.pool.0.state.borrow_mut();
        state.habits.broke(to, self.seen_open, now);
    }

    /// May the connection, just released by another request, carry a request that may not be repeated?
    pub(super) fn is_young(&mut self) -> bool {
        let now = Instant::now();
        let age = now.saturating_duration_since(self.shown.answered);
        let state = self.slot.pool.0.state.borrow();
        let young = (state.habits).young(&self.slot.destination, self.shown.told, now);
        drop(state);
        self.seen_open = age;
        age < young && self.stream().is_quiet_now()
    }

    /// Sets the receiver of the request's outcome.
    pub fn is_for(&mut self, verdict: Rc<dyn Verdict>) {
        self.verdict = Some(verdict);
    }

    /// The receiver of the request's outcome, if its server was chosen among several.
    pub fn verdict(&self) -> Option<&Rc<dyn Verdict>> {
        self.verdict.as_ref()
    }

    /// Keeps the connection for the next request. The last answer must have been read to its end, with keep-alive,
    /// and with no byte left in the caller's buffer. A connection that is closed or has unread bytes is closed
    /// instead.
    pub fn reuse(mut self) {
        self.reused = true;
        self.verdict = None;
        if !self.is_for_one && !self.is_shared() && self.stream().is_quiet() {
            let pool = self.slot.pool.clone();
            pool.put_back(self);
        }
    }

    /// Gives up the stream but not the slot, for a new connection in its place.
    pub(super) fn into_slot(self) -> Slot {
        self.slot
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        if !self.is_counted {
            return;
        }
        let mut state = self.pool.0.state.borrow_mut();
        if let Some(first) = state.next_waiting(&self.destination) {
            drop(state);
            // If the waiter has gone, the slot is dropped again and comes back here.
            let heir = Slot {
                pool: self.pool.clone(),
                destination: self.destination.clone(),
                is_counted: true,
            };
            let _ = first.send(Grant::Slot(heir));
            return;
        }
        state.in_use -= 1;
        let nobody_waits = state.waiting == 0;
        let entry = state
            .destinations
            .get_mut(&self.destination)
            .expect("a slot's destination is known (P2)");
        entry.in_use -= 1;
        if nobody_waits {
            // The remaining waiters have given up.
            entry.waiting.clear();
        }
        if entry.is_unused() {
            state.destinations.remove(&self.destination);
        }
    }
}

impl Pool {
    /// An empty pool.
    ///
    /// # Panics
    /// If no connection at all may be in use.
    pub fn new(limits: Limits) -> Self {
        assert!(
            limits.per_destination_max > 0,
            "a bound of 0 connections serves nobody"
        );
        let now = Instant::now();
        let state = State {
            destinations: HashMap::new(),
            idle: 0,
            in_use: 0,
            waiting: 0,
            put_back: 0,
            now,
            span_began: now,
            tls_forgotten: None,
            habits: Habits::default(),
        };
        Self(Rc::new(Inner {
            limits: Cell::new(limits),
            state: RefCell::new(state),
        }))
    }

    /// Applies new bounds. Idle connections beyond them are closed; those in use stay until they are released.
    /// If the bounds are wider, waiting requests get the new slots.
    pub fn follow(&self, limits: Limits) {
        assert!(
            limits.per_destination_max > 0,
            "a bound of 0 connections serves nobody"
        );
        if self.0.limits.replace(limits) == limits {
            return;
        }
        let mut granted = Vec::new();
        let mut borrowed = self.0.state.borrow_mut();
        let state = &mut *borrowed;
        let mut left = limits.idle_max;
        for (destination, entry) in &mut state.destinations {
            let room = limits.per_destination_max.saturating_sub(entry.in_use);
            let most = room.min(limits.idle_per_destination_max).min(left);
            let beyond = entry.idle.len().saturating_sub(most);
            entry.idle.drain(..beyond);
            state.idle -= beyond;
            left -= entry.idle.len();
            while entry.in_use < limits.per_destination_max
                && let Some(first) = entry.waiting.pop_front()
            {
                if first.is_closed() {
                    continue;
                }
                entry.take();
                state.in_use += 1;
                let slot = Slot {
                    pool: self.clone(),
                    destination: destination.clone(),
                    is_counted: true,
                };
                granted.push((first, slot));
            }
        }
        state.destinations.retain(|_, entry| !entry.is_unused());
        // Dropping the slot of a waiter that has gone borrows the state again.
        drop(borrowed);
        for (waiting, slot) in granted {
            let _ = waiting.send(Grant::Slot(slot));
        }
    }

    /// Closes idle TLS connections now, and those in use after their requests, because other roots judged their certificates.
    pub fn forget_tls(&self) {
        let mut state = self.0.state.borrow_mut();
        state.tls_forgotten = Some(state.now);
        state.retain_idle(|idle| !matches!(idle.stream, Stream::Tls(_)));
    }

    /// The right to one more connection, or a connection that is released while we wait.
    pub(super) async fn slot(
        &self,
        destination: &Destination,
        patience: Duration,
    ) -> Result<Grant, ConnectError> {
        let granted = {
            let limits = self.0.limits.get();
            let mut state = self.0.state.borrow_mut();
            let state = &mut *state;
            let entry = match state.destinations.get_mut(destination) {
                Some(entry) => entry,
                None => state.destinations.entry(destination.clone()).or_default(),
            };
            if entry.in_use < limits.per_destination_max {
                entry.take();
                state.in_use += 1;
                if entry.in_use + entry.idle.len() > limits.per_destination_max {
                    entry.idle.pop_front();
                    state.idle -= 1;
                }
                return Ok(Grant::Slot(Slot {
                    pool: self.clone(),
                    destination: destination.clone(),
                    is_counted: true,
                }));
            }
            if entry.waiting.len() >= limits.waiting_per_destination_max {
                entry.waiting.retain(|waiting| !waiting.is_closed());
            }
            if entry.waiting.len() >= limits.waiting_per_destination_max {
                return Err(ConnectError::Busy);
            }
            let (grant, granted) = oneshot::channel();
            entry.waiting.push_back(grant);
            granted
        };
        let _counted = Waiting::begin(self);
        match timeout(patience, granted).await {
            Ok(Ok(grant)) => Ok(grant),
            Ok(Err(_)) | Err(_) => Err(ConnectError::Busy),
        }
    }

    /// Idle connections.
    pub fn idle(&self) -> usize {
        self.0.state.borrow().idle
    }

    /// Connections in use, including those being opened.
    pub fn in_use(&self) -> usize {
        self.0.state.borrow().in_use
    }

    /// Connections to this destination in use.
    pub fn in_use_of(&self, to: &Destination) -> usize {
        let state = self.0.state.borrow();
        state.destinations.get(to).map_or(0, |entry| entry.in_use)
    }

    #[cfg(any(test, feature = "simulation"))]
    /// Requests waiting for a connection.
    pub fn waiting(&self) -> usize {
        self.0.state.borrow().waiting
    }

    fn put_back(&self, lease: Lease) {
        if lease.is_shared() {
            return;
        }
        let limits = self.0.limits.get();
        let mut state = self.0.state.borrow_mut();
        let entry = state.destinations.get(&lease.slot.destination);
        let name = entry.and_then(|entry| entry.name.as_ref());
        // `opened` counts in sweeps, so connections of the same second may use the new roots. They are few, and are closed too.
        let is_tls = matches!(lease.carrier, Carrier::Alone(Stream::Tls(_)));
        let is_forgotten = is_tls && (state.tls_forgotten).is_some_and(|at| lease.opened <= at);
        if state.now.saturating_duration_since(lease.opened) >= limits.max_age
            || is_forgotten
            || !leads_to(name, lease.peer)
        {
            // Dropping the lease borrows the state again.
            drop(state);
            return;
        }
        if let Some(first) = state.next_waiting(&lease.slot.destination) {
            drop(state);
            // If the waiter has gone, the connection is closed and its slot goes to the next one.
            let _ = first.send(Grant::Warm(Box::new(lease)));
            return;
        }
        let Lease {
            carrier: Carrier::Alone(stream),
            peer,
            is_inward,
            opened,
            shown,
            mut slot,
            ..
        } = lease
        else {
            return;
        };
        let idle = Idle {
            stream,
            peer,
            is_inward,
            opened,
            shown,
            since: state.now,
            checked: shown.answered,
            order: state.put_back,
        };
        slot.is_counted = !state.shelve(&slot.destination, idle, &limits);
        drop(state);
        drop(slot);
    }

    /// Checks P1 to P4.
    #[cfg(test)]
    fn audit(&self) {
        let state = self.0.state.borrow();
        let limits = self.0.limits.get();
        let entries = || state.destinations.values();
        assert_eq!(
            state.idle,
            entries().map(|e| e.idle.len()).sum::<usize>(),
            "P1 idle"
        );
        assert_eq!(
            state.in_use,
            entries().map(|e| e.in_use).sum::<usize>(),
            "P1 in use"
        );
        assert!(entries().all(|e| !e.is_unused()), "P2");
        assert!(
            entries().all(|e| {
                e.in_use == limits.per_destination_max
                    || e.waiting.iter().all(oneshot::Sender::is_closed)
            }),
            "P3"
        );
        assert!(state.idle <= limits.idle_max, "P4 idle");
        assert!(
            entries().all(|e| e.idle.len() <= limits.idle_per_destination_max),
            "P4 idle per destination"
        );
        assert!(
            entries().all(|e| e.in_use + e.idle.len() <= limits.per_destination_max),
            "P4 in all"
        );
        assert!(
            entries().all(|e| e.waiting.len() <= limits.waiting_per_destination_max),
            "P4 waiting"
        );
    }
}

impl Entry {
    /// Counts one more connection in use.
    fn take(&mut self) {
        self.in_use += 1;
        self.peaks[0] = self.peaks[0].max(self.in_use);
    }

    /// The most idle connections to keep.
    fn kept_max(&self) -> usize {
        self.peaks[0].max(self.peaks[1]).max(KEPT_MIN)
    }

    fn is_unused(&self) -> bool {
        let has_sessions = self.sessions.as_ref().is_some_and(|it| !it.is_unused());
        self.idle.is_empty() && self.in_use == 0 && self.waiting.is_empty() && !has_sessions
    }
}

impl State {
    /// Takes the first live waiter out of the queue.
    fn next_waiting(&mut self, destination: &Destination) -> Option<oneshot::Sender<Grant>> {
        // Nearly always there is no waiter: no look-up.
        if self.waiting == 0 {
            return None;
        }
        let entry = self.destinations.get_mut(destination)?;
        while let Some(first) = entry.waiting.pop_front() {
            if !first.is_closed() {
                return Some(first);
            }
        }
        None
    }

    /// Makes a connection in use an idle one, and closes the oldest if there are too many. False: the connection is not kept, and its slot is still
    /// counted as in use.
    fn shelve(&mut self, destination: &Destination, idle: Idle, limits: &Limits) -> bool {
        if limits.idle_per_destination_max == 0 || limits.idle_max == 0 {
            return false;
        }
        if self.idle >= limits.idle_max {
            self.thin(limits);
        }
        let entry = self
            .destinations
            .get_mut(destination)
            .expect("a slot's destination is known (P2)");
        let is_beyond_use = entry.idle.len() >= entry.kept_max();
        if is_beyond_use && !self.habits.knows(destination, self.now) {
            // The idle ones grow older instead, which shows for how long the origin keeps them.
            return false;
        }
        if is_beyond_use || entry.idle.len() >= limits.idle_per_destination_max {
            entry.idle.pop_front();
            self.idle -= 1;
        }
        entry.idle.push_back(idle);
        entry.in_use -= 1;
        if self.waiting == 0 {
            // The remaining waiters have given up.
            entry.waiting.clear();
        }
        self.put_back += 1;
        self.idle += 1;
        self.in_use -= 1;
        true
    }

    /// Closes the oldest sixteenth of all idle connections. It walks over all of them, once for as many connections
    /// as it closes; an exact queue of ages would cost every checkout.
    fn thin(&mut self, limits: &Limits) {
        let mut orders: Vec<u64> = self
            .destinations
            .values()
            .flat_map(|entry| entry.idle.iter().map(|idle| idle.order))
            .collect();
        let last = (limits.idle_max / 16).clamp(1, orders.len()) - 1;
        let (_, &mut newest_closed, _) = orders.select_nth_unstable(last);
        self.retain_idle(|idle| idle.order > newest_closed);
    }

    fn retain_idle(&mut self, mut keep: impl FnMut(&Idle) -> bool) {
        let mut left = 0;
        self.destinations.retain(|_, entry| {
            entry.idle.retain(&mut keep);
            left += entry.idle.len();
            !entry.is_unused()
        });
        self.idle = left;
    }
}

/// Counts one waiter.
struct Waiting<'a>(&'a Pool);

impl<'a> Waiting<'a> {
    fn begin(pool: &'a Pool) -> Self {
        pool.0.state.borrow_mut().waiting += 1;
        Self(pool)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.0.state.borrow_mut().waiting -= 1;
    }
}

#[cfg(test)]
mod tests;
