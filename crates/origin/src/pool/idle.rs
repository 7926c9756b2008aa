//! Idle connections: which one a request gets, and which are closed.
//!
//! Not known here: waiting requests and connections in use (`pool`), how long an origin keeps a connection (`habits`).

use std::{
    collections::VecDeque,
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use super::{Carrier, Entry, Lease, Pool, Slot};
use crate::connection::{Destination, Stream};
use crate::habits::Habits;
use base::{access::Destinations, clock::Instant};

/// The peak of connections in use is taken over the current span of this length and the one before.
const PEAK_SPAN: Duration = Duration::from_secs(60);
/// The most names that one sweep returns for a new look-up; the others follow a second later.
const RENEWALS_MAX: usize = 64;

/// A name leads to the addresses of this many last answers, because an answer may have only some of the addresses.
const ANSWERS: usize = 3;
/// A name whose answers rotate leads to all addresses of this time.
const ROTATION: Duration = Duration::from_secs(10);
/// The most answers that are kept.
const ANSWERS_MAX: usize = 16;

/// The last look-ups of a name.
pub(super) struct Name {
    /// Addresses, and when each answer came; the oldest first.
    answers: VecDeque<(Vec<IpAddr>, Instant)>,
    /// When an address came back that was missing in an answer in between.
    rotated: Option<Instant>,
    pub(super) until: Instant,
    /// A look-up is under way.
    pub(super) is_asked: bool,
}

impl Name {
    fn new(until: Instant) -> Name {
        Name {
            answers: VecDeque::new(),
            rotated: None,
            until,
            is_asked: false,
        }
    }

    fn answered(&mut self, addresses: Vec<IpAddr>, now: Instant) {
        if let Some((last, _)) = self.answers.back() {
            let mut back = addresses.iter().filter(|it| !last.contains(it));
            if back.any(|it| self.answers.iter().any(|answer| answer.0.contains(it))) {
                self.rotated = Some(now);
            }
        }
        self.answers.push_back((addresses, now));
        while self.answers.len() > ANSWERS_MAX
            || self.answers.len() > ANSWERS
                && now.saturating_duration_since(self.answers[0].1) >= ROTATION
        {
            self.answers.pop_front();
        }
    }

    fn has(&self, address: IpAddr) -> bool {
        let last = self.answers.back().map(|answer| answer.1);
        let is_rotating = self
            .rotated
            .zip(last)
            .is_some_and(|(at, last)| last.saturating_duration_since(at) < ROTATION);
        let most = match is_rotating {
            true => ANSWERS_MAX,
            false => ANSWERS,
        };
        let mut answers = self.answers.iter().rev().take(most);
        answers.any(|answer| answer.0.contains(&address))
    }
}

pub(super) struct Idle {
    pub(super) stream: Stream,
    pub(super) peer: SocketAddr,
    pub(super) is_inward: bool,
    pub(super) opened: Instant,
    pub(super) shown: Shown,
    pub(super) since: Instant,
    /// When the connection was last seen open.
    pub(super) checked: Instant,
    pub(super) order: u64,
}

impl Idle {
    /// How long after its last answer the connection was seen open.
    pub(super) fn seen_open(&self) -> Duration {
        self.checked.saturating_duration_since(self.shown.answered)
    }
}

/// Facts from the last answer on a connection.
#[derive(Clone, Copy)]
pub(super) struct Shown {
    /// When its head came.
    pub(super) answered: Instant,
    /// How long the origin keeps the connection open, if it said so.
    pub(super) told: Option<Duration>,
}

/// What to do with an idle connection that is considered for a request.
enum Fit {
    /// Use it. It was seen open this long after its last answer.
    Fits(Duration),
    /// Keep it for another request.
    Old,
    /// Close it.
    Dead,
}

/// The pool's state that is used to judge an idle connection.
struct Judging<'a> {
    habits: &'a mut Habits,
    now: Instant,
}

/// Does the name still lead to this address?
pub(super) fn leads_to(name: Option<&Name>, peer: SocketAddr) -> bool {
    name.is_none_or(|name| name.has(peer.ip().to_canonical()))
}

impl Pool {
    /// The newest idle connection to `destination` that is still open and whose address `access` permits (the connection may have
    /// been opened for another listener). Also `None` if the destination is at its bound.
    pub fn checkout(&self, destination: &Destination, access: &Destinations) -> Option<Lease> {
        self.take_idle(destination, access, |state, idle| {
            match idle.stream.is_quiet() {
                true => Fit::Fits(idle.seen_open()),
                false => {
                    let now = state.now;
                    let age = idle.seen_open();
                    state.habits.seen_closed(destination, age, now);
                    Fit::Dead
                }
            }
        })
    }

    /// The same for a request that may not be repeated: the newest connection that is young and has nothing to read, as the kernel says now.
    //= rfc9112 §9.3.1   a client must not repeat a request that is not idempotent
    pub fn checkout_young(
        &self,
        destination: &Destination,
        access: &Destinations,
    ) -> Option<Lease> {
        let now = Instant::now();
        self.take_idle(destination, access, |state, idle| {
            let habits = &mut state.habits;
            if !idle.stream.is_quiet_now() {
                habits.seen_closed(destination, idle.seen_open(), now);
                return Fit::Dead;
            }
            let age = now.saturating_duration_since(idle.shown.answered);
            habits.seen_open(destination, age, now);
            idle.checked = now;
            match age < habits.young(destination, idle.shown.told, now) {
                true => Fit::Fits(age),
                false => Fit::Old,
            }
        })
    }

    fn take_idle(
        &self,
        destination: &Destination,
        access: &Destinations,
        mut fits: impl FnMut(&mut Judging, &mut Idle) -> Fit,
    ) -> Option<Lease> {
        let mut state = self.0.state.borrow_mut();
        let state = &mut *state;
        let entry = state.destinations.get_mut(destination)?;
        if entry.in_use >= self.0.limits.get().per_destination_max {
            return None;
        }
        let judging = &mut Judging {
            habits: &mut state.habits,
            now: state.now,
        };
        for at in (0..entry.idle.len()).rev() {
            let idle = &mut entry.idle[at];
            if access.check_pooled(idle.peer, idle.is_inward).is_err() {
                continue;
            }
            let fit = fits(judging, idle);
            if matches!(fit, Fit::Old) {
                continue;
            }
            let idle = entry.idle.remove(at).expect("`at` is below the length");
            state.idle -= 1;
            if let Fit::Fits(seen_open) = fit {
                entry.take();
                state.in_use += 1;
                let slot = Slot {
                    pool: self.clone(),
                    destination: destination.clone(),
                    is_counted: true,
                };
                return Some(Lease {
                    carrier: Carrier::Alone(idle.stream),
                    peer: idle.peer,
                    is_inward: idle.is_inward,
                    reused: true,
                    opened: idle.opened,
                    shown: idle.shown,
                    seen_open,
                    is_for_one: false,
                    verdict: None,
                    slot,
                });
            }
        }
        if entry.is_unused() {
            state.destinations.remove(destination);
        }
        None
    }

    /// Notes the answer of a look-up: the addresses, and until when they are valid. Connections to addresses missing from the last answers
    /// take no further request.
    pub(crate) fn resolved(&self, destination: &Destination, addresses: &[IpAddr], until: Instant) {
        let mut state = self.0.state.borrow_mut();
        let state = &mut *state;
        // All of its connections may be closed by now.
        let Some(entry) = state.destinations.get_mut(destination) else {
            return;
        };
        let addresses: Vec<_> = addresses.iter().map(IpAddr::to_canonical).collect();
        let is_new = entry.name.as_ref().is_none_or(|name| name.until != until);
        let name = entry.name.get_or_insert_with(|| Name::new(until));
        (name.until, name.is_asked) = (until, false);
        // Each new connection reports the cached answer again, so only a new expiry makes it a new answer.
        if is_new {
            name.answered(addresses, state.now);
        }
        let before = entry.idle.len();
        let Entry { idle, name, .. } = entry;
        idle.retain(|idle| leads_to(name.as_ref(), idle.peer));
        state.idle -= before - entry.idle.len();
        if entry.is_unused() {
            state.destinations.remove(destination);
        }
    }

    /// A look-up failed: the last addresses stay valid, and the name is looked up again at `until`.
    pub(crate) fn unresolved(&self, destination: &Destination, until: Instant) {
        let mut state = self.0.state.borrow_mut();
        let entry = state.destinations.get_mut(destination);
        if let Some(name) = entry.and_then(|entry| entry.name.as_mut()) {
            (name.until, name.is_asked) = (until, false);
        }
    }

    /// To be called once a second: closes connections that are idle for too long, too many, or closed by the origin. Returns the
    /// destinations whose names are to be looked up again: see [`Self::resolved`] and [`Self::unresolved`].
    pub(crate) fn sweep(&self, now: Instant) -> Vec<Destination> {
        let limits = self.0.limits.get();
        let mut state = self.0.state.borrow_mut();
        let state = &mut *state;
        state.now = now;
        let is_next_span = now.saturating_duration_since(state.span_began) >= PEAK_SPAN;
        if is_next_span {
            state.span_began = now;
        }
        let (habits, mut left) = (&mut state.habits, 0);
        let mut due: Vec<(Instant, Destination)> = Vec::new();
        state.destinations.retain(|to, entry| {
            if is_next_span {
                entry.peaks = [entry.in_use, entry.peaks[0]];
            }
            let beyond = entry.idle.len().saturating_sub(entry.kept_max());
            entry.idle.drain(..beyond);
            let mut open = Duration::ZERO;
            entry.idle.retain_mut(|idle| {
                if now.saturating_duration_since(idle.since) >= limits.idle_timeout
                    || now.saturating_duration_since(idle.opened) >= limits.max_age
                {
                    return false;
                }
                if !idle.stream.is_quiet() {
                    habits.seen_closed(to, idle.seen_open(), now);
                    return false;
                }
                idle.checked = now;
                open = open.max(idle.seen_open());
                true
            });
            habits.seen_open(to, open, now);
            if let Some(sessions) = &mut entry.sessions {
                sessions.sweep(now, &limits);
            }
            left += entry.idle.len();
            let has_sessions = entry.sessions.as_ref().is_some_and(|it| it.is_open());
            if let Some(name) = &entry.name
                && !name.is_asked
                && name.until <= now
                && (entry.in_use > 0 || !entry.idle.is_empty() || has_sessions)
            {
                due.push((name.until, to.clone()));
            }
            !entry.is_unused()
        });
        state.idle = left;
        if due.len() > RENEWALS_MAX {
            // The longest overdue come first, so that each gets its turn.
            due.select_nth_unstable_by_key(RENEWALS_MAX, |it| it.0);
            due.truncate(RENEWALS_MAX);
        }
        let asked = due.into_iter().map(|(_, to)| to).inspect(|to| {
            let entry = state.destinations.get_mut(to);
            if let Some(name) = entry.and_then(|entry| entry.name.as_mut()) {
                name.is_asked = true;
            }
        });
        asked.collect()
    }
}
