//! Servers behind a name at the admin interface: what `/metrics` tells of them, and what the operator says of one.
//!
//! Not known here: how metrics are encoded, who may ask.

use std::sync::Arc;

use super::http::Answer;
use exchange::request::purge::percent_decode;
use upstreams::{ServerStanding, Upstream, UpstreamStanding, Wanted};

/// Does it only grow?
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Yes.
    Counter,
    /// No.
    Gauge,
}

type OfUpstream = (&'static str, &'static str, fn(&UpstreamStanding) -> u64);
type OfServer = (&'static str, &'static str, Kind, fn(&ServerStanding) -> u64);

/// What an upstream counts.
pub const OF_UPSTREAMS: [OfUpstream; 4] = [
    (
        "upstream_retries",
        "Requests that were sent to one more server of the upstream, because one gave no answer or a bad one",
        |it| it.retries,
    ),
    (
        "upstream_retries_refused",
        "Requests that could have been sent to one more server and were not, because a tenth of those of the last ten seconds had been",
        |it| it.retries_refused,
    ),
    (
        "upstream_none_up",
        "Requests for which no server of the upstream was up",
        |it| it.none_up,
    ),
    (
        "upstream_ejections_spared",
        "Failures for which a server would have been put out, if at least half of them had been left",
        |it| it.spared,
    ),
];

/// What is told of each server.
pub const OF_SERVERS: [OfServer; 6] = [
    (
        "upstream_server_up",
        "1 while the server gets requests: nothing that is known of it, and no operator, speaks against it",
        Kind::Gauge,
        |it| u64::from(it.is_up()),
    ),
    (
        "upstream_server_in_flight",
        "Requests on their way to the server, their answers' bodies included",
        Kind::Gauge,
        |it| u64::from(it.in_flight),
    ),
    (
        "upstream_server_check_failed",
        "1 if the last check of the server has failed; 0 also if it is not checked",
        Kind::Gauge,
        |it| u64::from(it.checked.as_ref().is_some_and(|check| !check.well)),
    ),
    (
        "upstream_server_requests",
        "Requests for which the server was chosen, since it was configured",
        Kind::Counter,
        |it| it.requests,
    ),
    (
        "upstream_server_failures",
        "Those of them that it gave no answer, or 500, 502, 503 or 504",
        Kind::Counter,
        |it| it.failures,
    ),
    (
        "upstream_server_ejections",
        "How often the server was put out because of what came of requests",
        Kind::Counter,
        |it| it.ejections,
    ),
];

/// What an order is, for people.
pub const HOW: &str = "say POST /upstreams/NAME/HOST:PORT?state=drain, or up, or down";

/// Carries out an order: `path` behind `/upstreams/`, and the query.
pub fn order(upstreams: &[Arc<Upstream>], path: &str, query: Option<&str>) -> Answer {
    let word = query.and_then(|query| query.strip_prefix("state="));
    let wanted = Wanted::ALL
        .into_iter()
        .find(|(name, _)| Some(*name) == word);
    let (Some((word, wanted)), Some((name, server))) = (wanted, path.split_once('/')) else {
        return Answer::text(400, HOW);
    };
    let Some(upstream) = upstreams.iter().find(|it| it.name() == name) else {
        return Answer::text(404, &format!("there is no upstream {name}"));
    };
    let server = percent_decode(server).unwrap_or_default();
    let Some(found) = upstream.server(&server) else {
        let names = upstream.members.iter().map(|it| &it.server.name[..]);
        let names: Vec<_> = names.collect();
        let words = format!("{name} has no server {server}; it has {}", names.join(", "));
        return Answer::text(404, &words);
    };
    found.want(wanted);
    tracing::info!(
        upstream = name,
        server = found.name,
        state = word,
        "the operator says so"
    );
    Answer::text(200, &format!("{} of {name}: {word}", found.name))
}
