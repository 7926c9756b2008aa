//! Several servers of the same content, behind one name.
//!
//! A route names an [`Upstream`] in place of an origin's URL. The server is chosen when a request is sent, so that another server
//! can be asked if the first gives no answer (`asking`). The choice (`choice`) is among the servers that are up:
//!
//! | a server is not asked while | detected by |
//! |---|---|
//! | connections to it cannot be made | requests (`breaker`) |
//! | it does not answer, or more than half of its answers are 5xx | requests (`breaker`); never more than half of the servers at once |
//! | its checks fail | `probe`, on the control thread, one for the process |
//! | the operator says so | the admin interface |
//! | a server of a lower rank is up: this one is a backup, or of a later priority | |
//!
//! A server ejected because of requests gets one trial request after a pause; if it succeeds, its share grows slowly.
//!
//! A [`Group`] belongs to an edition, and has an [`Upstream`]: its servers as they are now. Where servers are found by names (`following`), a new
//! [`Upstream`] replaces it when the answers change. A request keeps the one with which it began. A [`Server`] lives as long as it has the same
//! URL in an upstream of the same name, so its state survives a reload. The workers share all three; a lock is held for some
//! hundred nanoseconds, and never across a wait.
//!
//! Not known here: which requests use an upstream (`request::target`), keys, caching.
//! Limits: `plan::UPSTREAMS_MAX` upstreams of `plan::SERVERS_MAX` servers.
#![forbid(unsafe_code)]

pub mod asking;
mod breaker;
mod budget;
mod choice;
pub mod following;
mod group;
pub mod probe;
mod standing;
mod turn;
mod window;

use std::{
    borrow::Cow,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering},
    },
    time::Duration,
};

use twox_hash::XxHash3_64;

use base::{
    clock::Instant,
    mistakes::{Mistake, makes},
};
use origin::{Destination, Tls};
use plan::{Balance, HealthCheck, Http2, OriginUrl};

use self::{
    breaker::{Admits, Breaker, Change, Outcome},
    choice::Candidate,
    group::Common,
    probe::Checked,
};

pub use group::{Group, of_plan};
pub use standing::{ServerStanding, UpstreamStanding, standings};
pub use turn::Turn;

/// The operator's setting for a server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wanted {
    /// The server is asked if it is healthy.
    Up,
    /// The server gets no new requests, but is still checked.
    Drained,
    /// The server gets no new requests, and is not checked either.
    Down,
}

impl Wanted {
    /// All settings, with their names.
    pub const ALL: [(&str, Wanted); 3] = [
        ("up", Wanted::Up),
        ("drain", Wanted::Drained),
        ("down", Wanted::Down),
    ];
}

/// The servers behind a name, as they are now.
pub struct Upstream {
    /// As configured.
    pub plan: Arc<plan::Upstream>,
    /// Its servers: first those configured, in order, then those found by names.
    pub members: Vec<Member>,
    common: Arc<Common>,
}

/// A server in an upstream.
pub struct Member {
    /// The server.
    pub server: Arc<Server>,
    weight: u32,
    /// The server is asked only if none of a lower rank is up.
    rank: usize,
    is_backup: bool,
    /// The name required in its certificate, if that is not the host.
    certified: Option<Arc<str>>,
}

impl Member {
    /// The destination, with these TLS terms, and with HTTP/2 if that fits the scheme. Not stored, because a server outlives editions and their TLS.
    fn destination(&self, terms: Option<&Tls>, http2: Option<Http2>) -> Cow<'_, Destination> {
        let at = &self.server.destination;
        let http2 = http2.filter(|it| it.fits(at.tls));
        let terms = terms.filter(|_| at.tls).map(|terms| match &self.certified {
            Some(name) => terms.for_name(name),
            None => terms.clone(),
        });
        match (terms, http2) {
            (None, None) => Cow::Borrowed(at),
            (terms, http2) => Cow::Owned(Destination {
                terms,
                http2,
                ..at.clone()
            }),
        }
    }
}

/// A server and its state.
pub struct Server {
    /// Its address.
    pub destination: Destination,
    /// Its URL.
    pub name: String,
    hash: u64,
    breaker: Mutex<Breaker>,
    checked: Mutex<Checked>,
    wanted: AtomicU8,
    /// Requests under way, including those whose answer's body is still being read.
    in_flight: AtomicU32,
    requests: AtomicU64,
    /// Requests without an answer, or with a bad one.
    failures: AtomicU64,
    /// How often it was ejected because of requests.
    ejections: AtomicU64,
}

/// A set of servers, by their numbers.
#[derive(Clone, Copy, Default)]
struct Tried(u64);

const _: () = assert!(plan::SERVERS_MAX <= 64);

impl Upstream {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.plan.name
    }

    /// The destinations of its servers, with these TLS terms and HTTP/2.
    pub fn destinations(
        &self,
        terms: Option<&Tls>,
        http2: Option<Http2>,
    ) -> impl Iterator<Item = Cow<'_, Destination>> {
        (self.members.iter()).map(move |member| member.destination(terms, http2))
    }

    /// The server of this URL, or of this host and port.
    pub fn server(&self, name: &str) -> Option<&Arc<Server>> {
        let servers = self.members.iter().map(|member| &member.server);
        let mut found =
            servers.filter(|it| it.name == name || it.destination.as_host_and_port() == name);
        found.next()
    }

    /// Chooses a server that was not tried, and marks it as tried. `may_try`: the request may be the trial of an ejected server; if no
    /// other server is up, it may be in any case.
    fn choose(
        &self,
        key: u64,
        tried: &mut Tried,
        may_try: bool,
        now: Instant,
    ) -> Option<(usize, bool)> {
        // On the stack: no request allocates for its choice.
        let mut candidates = [Candidate::default(); plan::SERVERS_MAX];
        let ranks = self.members.iter().map(|it| it.rank + 1).max();
        for rank in 0..ranks.unwrap_or(0) {
            let (mut count, mut due) = (0, Tried::default());
            for (number, member) in self.members.iter().enumerate() {
                if member.rank != rank || tried.0 & (1 << number) != 0 {
                    continue;
                }
                match self.admits(member, now) {
                    Admits::All(percent) => {
                        candidates[count] = Candidate {
                            number,
                            weight: f64::from(member.weight) * f64::from(percent) / 100.0,
                            hash: member.server.hash,
                            load: member.server.in_flight.load(Ordering::Relaxed),
                            owed: 0.0,
                        };
                        count += 1;
                    }
                    Admits::Trial => due.0 |= 1 << number,
                    Admits::None(_) => {}
                }
            }
            let ready = &mut candidates[..count];
            // A trial may fail, and the request then needs another server.
            let is_trial = ready.is_empty() || may_try;
            let mut trials = (0..self.members.len()).filter(|n| is_trial && due.0 & (1 << n) != 0);
            let trial = trials.find(|n| locked(&self.members[*n].server.breaker).begin_trial(now));
            let chosen = match trial {
                Some(number) => (number, true),
                None if ready.is_empty() => continue,
                None => (self.choose_of(ready, key), false),
            };
            tried.0 |= 1 << chosen.0;
            return Some(chosen);
        }
        None
    }

    fn choose_of(&self, ready: &mut [Candidate], key: u64) -> usize {
        if self.plan.balance != Balance::RoundRobin {
            let drawn = base::chance::count(&self.common.drawn);
            return choice::choose(self.plan.balance, ready, key, drawn);
        }
        let mut owed = locked(&self.common.owed);
        for candidate in ready.iter_mut() {
            let known = owed.iter().find(|(hash, _)| *hash == candidate.hash);
            candidate.owed = known.map_or(0.0, |(_, owed)| *owed);
        }
        let at = choice::in_turn(ready);
        let is_of_us = |hash| self.members.iter().any(|it| it.server.hash == hash);
        let is_ready = |hash| ready.iter().any(|it| it.hash == hash);
        owed.retain(|(hash, _)| is_of_us(*hash) && !is_ready(*hash));
        owed.extend(ready.iter().map(|it| (it.hash, it.owed)));
        ready[at].number
    }

    /// May the server be asked, as far as is known?
    fn admits(&self, member: &Member, now: Instant) -> Admits {
        let server = &member.server;
        if server.wanted() != Wanted::Up || self.is_ill(server) {
            return Admits::None(None);
        }
        if makes(Mistake::AskDown) {
            return Admits::All(100);
        }
        locked(&server.breaker).admits(self.plan.slow_start, now)
    }

    fn is_ill(&self, server: &Server) -> bool {
        let has_checks = self.plan.health.is_some() && !makes(Mistake::IgnoreChecks);
        has_checks && locked(&server.checked).is_ill()
    }

    /// The time until a server may be asked again, at most a minute: for Retry-After.
    fn back_in(&self, now: Instant) -> Duration {
        let untils = self
            .members
            .iter()
            .filter_map(|member| match self.admits(member, now) {
                Admits::None(until) => until,
                Admits::All(_) | Admits::Trial => Some(now),
            });
        let next = untils.min();
        let of_checks = self.plan.health.as_ref().map(|check| check.every);
        let wait = match next {
            Some(next) => next.saturating_duration_since(now),
            None => of_checks.unwrap_or(breaker::PAUSE_MIN),
        };
        wait.clamp(Duration::from_secs(1), Duration::from_secs(60))
    }

    /// Notes the outcome of a request to a server.
    fn note(&self, number: usize, outcome: Outcome, is_trial: bool, now: Instant) {
        let member = &self.members[number];
        let server = &member.server;
        if outcome != Outcome::Well {
            server.failures.fetch_add(1, Ordering::Relaxed);
        }
        // One judgement at a time, so that two threads cannot both take the last place.
        let judging = (outcome != Outcome::Well).then(|| locked(&self.common.ejecting));
        let may_eject = judging.is_some() && self.may_eject(number, now);
        let change = locked(&server.breaker).note(outcome, is_trial, may_eject, now);
        drop(judging);
        match change {
            Change::None => {}
            Change::Opened(why) => {
                server.ejections.fetch_add(1, Ordering::Relaxed);
                tracing::warn!(
                    upstream = self.name(),
                    server = server.name,
                    why = why.words(),
                    "is not asked for a while"
                );
            }
            Change::Closed => {
                tracing::info!(upstream = self.name(), server = server.name, "is back");
            }
            Change::Spared => {
                self.common.counts.spared.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Would at most half of the servers of its rank be ejected for a judgement, this one included?
    fn may_eject(&self, number: usize, now: Instant) -> bool {
        let rank = self.members[number].rank;
        let like = self.members.iter().enumerate();
        let like = like.filter(|(_, member)| member.rank == rank);
        let (mut all, mut out) = (0, 0);
        for (at, member) in like {
            all += 1;
            let why = locked(&member.server.breaker).why_open(now);
            out += usize::from(at == number || why.is_some_and(|(why, _)| why.is_judged()));
        }
        out * 2 <= all
    }

    /// Notes the result of a check.
    fn note_check(&self, server: &Server, check: &HealthCheck, result: Result<(), String>) {
        let now = Instant::now();
        let is_well = result.is_ok();
        let change = locked(&server.checked).note(result, check, now);
        match &change {
            probe::Change::None => {}
            probe::Change::Ill(why) => tracing::warn!(
                upstream = self.name(),
                server = server.name,
                why,
                "is not well, and is not asked until it is"
            ),
            probe::Change::Well => {
                tracing::info!(
                    upstream = self.name(),
                    server = server.name,
                    "is well again"
                );
            }
        }
        let mut breaker = locked(&server.breaker);
        let is_unreachable = breaker
            .why_open(now)
            .is_some_and(|(why, _)| !why.is_judged());
        // The check has connected to the server. The share of a server that was ill grows like that of any that is back.
        if is_well && is_unreachable || change == probe::Change::Well {
            breaker.close(now);
        }
    }
}

impl Server {
    fn new(at: &OriginUrl, now: Instant) -> Server {
        let name = at.to_string();
        Server {
            destination: Destination {
                tls: at.tls,
                host: at.host.as_str().into(),
                port: at.port,
                member: None,
                terms: None,
                http2: None,
            },
            hash: XxHash3_64::oneshot(name.as_bytes()),
            name,
            breaker: Mutex::new(Breaker::new(now)),
            checked: Mutex::default(),
            wanted: AtomicU8::new(0),
            in_flight: AtomicU32::new(0),
            requests: AtomicU64::new(0),
            failures: AtomicU64::new(0),
            ejections: AtomicU64::new(0),
        }
    }

    /// The operator's setting.
    pub fn wanted(&self) -> Wanted {
        let at = usize::from(self.wanted.load(Ordering::Relaxed));
        Wanted::ALL
            .get(at)
            .map_or(Wanted::Up, |(_, wanted)| *wanted)
    }

    /// Sets the operator's wish. `Up` also ends an ejection and a failed check.
    pub fn want(&self, wanted: Wanted) {
        let at = Wanted::ALL.iter().position(|(_, it)| *it == wanted);
        self.wanted
            .store(at.unwrap_or_default() as u8, Ordering::Relaxed);
        if wanted == Wanted::Up {
            locked(&self.breaker).close(Instant::now());
            locked(&self.checked).forget();
        }
    }
}

fn locked<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
