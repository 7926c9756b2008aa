//! The state of upstreams as shown in `/status`, `/live` and `/metrics`.

use std::sync::{Arc, atomic::Ordering::Relaxed};

use serde::Serialize;

use super::{Group, Member, Upstream, Wanted, breaker::Admits, group::Answers, locked};
use base::clock::Instant;

/// An upstream.
#[derive(Clone, Serialize, Debug)]
pub struct UpstreamStanding {
    /// Its name.
    pub name: String,
    /// How a server is chosen.
    pub balance: &'static str,
    /// Requests sent to a further server.
    pub retries: u64,
    /// Requests not sent to a further server, because the budget was used up.
    pub retries_refused: u64,
    /// Requests for which no server was up.
    pub none_up: u64,
    /// Failures for which a server was not ejected, because more than half would have been out.
    pub spared: u64,
    /// Its servers: first those configured, in order, then those found by names.
    pub servers: Vec<ServerStanding>,
    /// The names that lead to servers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<NameStanding>,
}

/// A name that leads to servers of an upstream.
#[derive(Clone, Serialize, Debug)]
pub struct NameStanding {
    /// The name.
    pub name: String,
    /// The number of servers in its last answer.
    pub servers: usize,
    /// The error, if its look-up fails now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// A server of an upstream.
#[derive(Clone, Serialize, Debug)]
pub struct ServerStanding {
    /// Its URL.
    pub server: String,
    /// `up`, `starting` (its share grows), `ejected` (its answers are bad), `unreachable`, `trying` (waits for a trial request, or its result),
    /// `ill` (its checks fail), `drained` and `down` (set by the operator).
    pub state: &'static str,
    /// Why it is not `up`, if requests or checks are the reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Seconds until a trial request may be sent, if it is `ejected` or `unreachable`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub back_in_s: Option<f64>,
    /// Its share relative to the others.
    pub weight: u32,
    /// Is it asked only if no other server is up?
    pub backup: bool,
    /// Requests under way.
    pub in_flight: u32,
    /// Requests since it was configured.
    pub requests: u64,
    /// Requests without an answer, or with 500, 502, 503 or 504.
    pub failures: u64,
    /// How often it was ejected because of failures.
    pub ejections: u64,
    /// The last check.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checked: Option<CheckStanding>,
}

/// The last check of a server.
#[derive(Clone, Serialize, Debug)]
pub struct CheckStanding {
    /// Did the check succeed?
    pub well: bool,
    /// Seconds since the check.
    pub ago_s: f64,
    /// Why the check failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

impl ServerStanding {
    /// Does it get requests?
    pub fn is_up(&self) -> bool {
        matches!(self.state, "up" | "starting")
    }
}

/// The state of all upstreams now.
pub fn standings(upstreams: &[Arc<Group>]) -> Vec<UpstreamStanding> {
    let now = Instant::now();
    let of = |group: &Arc<Group>| {
        let upstream = &group.now();
        let counts = &upstream.common.counts;
        UpstreamStanding {
            name: upstream.name().to_owned(),
            balance: upstream.plan.balance.word(),
            retries: counts.retries.load(Relaxed),
            retries_refused: counts.retries_refused.load(Relaxed),
            none_up: counts.none_up.load(Relaxed),
            spared: counts.spared.load(Relaxed),
            servers: (upstream.members.iter())
                .map(|member| server(upstream, member, now))
                .collect(),
            names: names(upstream),
        }
    };
    upstreams.iter().map(of).collect()
}

fn names(upstream: &Upstream) -> Vec<NameStanding> {
    let found = locked(&upstream.common.found);
    let of = |answers: &Answers| NameStanding {
        name: answers.of.host.clone(),
        servers: answers.servers.len(),
        why: answers.fault.clone(),
    };
    found.iter().map(of).collect()
}

fn server(upstream: &Upstream, member: &Member, now: Instant) -> ServerStanding {
    let server = &member.server;
    let is_ill = upstream.is_ill(server);
    let checked = locked(&server.checked).last().map(|look| CheckStanding {
        well: look.fault.is_none(),
        ago_s: seconds(now.saturating_duration_since(look.at)),
        why: look.fault.clone(),
    });
    let (open, admits) = {
        let breaker = locked(&server.breaker);
        let admits = breaker.admits(upstream.plan.slow_start, now);
        (breaker.why_open(now), admits)
    };
    let state = match (server.wanted(), open, admits) {
        (Wanted::Drained, ..) => "drained",
        (Wanted::Down, ..) => "down",
        _ if is_ill => "ill",
        (_, Some((_, None)), _) => "trying",
        (_, Some((why, _)), _) if why.is_judged() => "ejected",
        (_, Some(_), _) => "unreachable",
        (.., Admits::All(100)) => "up",
        _ => "starting",
    };
    let of_check = checked.as_ref().and_then(|it| it.why.clone());
    let of_requests = open.map(|(why, _)| why.words().to_owned());
    ServerStanding {
        server: server.name.clone(),
        state,
        why: of_check.filter(|_| is_ill).or(of_requests),
        back_in_s: open
            .and_then(|(_, until)| until)
            .map(|until| seconds(until.saturating_duration_since(now))),
        weight: member.weight,
        backup: member.is_backup,
        in_flight: server.in_flight.load(Relaxed),
        requests: server.requests.load(Relaxed),
        failures: server.failures.load(Relaxed),
        ejections: server.ejections.load(Relaxed),
        checked,
    }
}

fn seconds(span: std::time::Duration) -> f64 {
    (span.as_secs_f64() * 1000.0).round() / 1000.0
}
