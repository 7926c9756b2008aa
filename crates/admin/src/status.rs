//! `GET /status`: the facts as JSON for people and scripts.
//!
//! Names carry their units. Ratios and latencies without data are `null`. `recent` covers the last minute, all else
//! the time since the start. `counters` has every counter under its name in `/metrics`, grouped by subject.

use std::{net::SocketAddr, sync::PoisonError};

use profile::Class;
use serde::{Serialize, Serializer};

use crate::limits::LimitFacts;
use crate::{
    facts::{ClassFigures, Facts, History, RowFigures, Simple, Snapshot, StoreFacts},
    histogram::Histogram,
    rounded,
};
use base::{clock::Instant, phase::Phase, x509};
use cluster::ClusterStatus;
use exchange::{edition::Edition, state::Shared};
use peers::{digest::theirs::Format, known::Peer};
use plan::Role;
use record::{labels::Label, metrics::STATUS_CLASSES, top::Told};
use tls::certificates::Shown;
use upstreams::UpstreamStanding;

/// The whole document.
#[derive(Serialize)]
pub struct Status {
    version: &'static str,
    phase: &'static str,
    uptime_s: f64,
    configuration: Configuration,
    listeners: Vec<Listener>,
    /// Limits of clients, hosts and listeners, in the order of the configuration.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    limits: Vec<LimitFacts>,
    admin: Option<SocketAddr>,
    workers: Vec<Worker>,
    connections: Connections,
    hit_ratio: HitRatio,
    requests: Requests,
    recent: Option<Recent>,
    memory: Memory,
    transfers: Transfers,
    stores: Vec<Store>,
    counters: InOrder<InOrder<u64>>,
    /// Answers by status.
    statuses: Vec<Answers>,
    /// By listener and origin.
    answers: Vec<AnswersOf>,
    /// Failures of origins by cause.
    origin_failures: InOrder<u64>,
    /// Requests that rules have decided, and those with each tag.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    rules: Vec<RuleFigures>,
    process: ProcessFigures,
    /// Parents and siblings, in the order of the configuration.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    peers: Vec<PeerStanding>,
    /// Servers behind a name, in the order of the configuration.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    upstreams: Vec<UpstreamStanding>,
    /// The digests of siblings that are asked by digest.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    digests: Vec<SiblingsDigest>,
    /// The cluster, if this is a member of one.
    #[serde(skip_serializing_if = "Option::is_none")]
    cluster: Option<ClusterStatus>,
    /// The most requested hosts and URLs, if `admin.top` is on.
    #[serde(skip_serializing_if = "Option::is_none")]
    top: Option<Told>,
}

#[derive(Serialize)]
struct RuleFigures {
    /// `denied`, `answered`, `redirected`, `tagged`.
    decision: &'static str,
    /// The rule's name, or its number; or the tag.
    name: String,
    requests: u64,
}

#[derive(Serialize)]
struct PeerStanding {
    role: &'static str,
    name: String,
    address: String,
    /// Whether requests may go there; a dead one is probed until it answers.
    alive: bool,
    /// Failures since it last answered, 3 at most.
    failures: u32,
    /// Requests that wait for the head of its answer.
    waiting: u64,
}

#[derive(Serialize)]
struct SiblingsDigest {
    sibling: String,
    /// `null`: there is none at present, because it could not be fetched, is too old, or is distrusted.
    format: Option<&'static str>,
    age_s: u64,
    objects: u64,
}

#[derive(Serialize)]
struct Answers {
    /// 0: no answer was sent, because the client had gone.
    status: usize,
    answers: u64,
}

#[derive(Serialize)]
struct AnswersOf {
    listener: String,
    /// The origin of the route; `other` on forward listeners and without a route.
    origin: String,
    response_bytes: u64,
    by_status: InOrder<u64>,
}

#[derive(Serialize)]
struct ProcessFigures {
    cpu_s: Option<f64>,
    resident_bytes: Option<u64>,
    open_fds: Option<u64>,
    max_fds: Option<u64>,
}

/// The configuration in force.
#[derive(Serialize)]
struct Configuration {
    /// 1 at the start, one more with each reload.
    edition: u32,
    loaded_unix_s: f64,
    /// Whoever has asked for it.
    by: String,
    /// Parts of what was read that are not in force, because they want a restart.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    wanting_a_restart: Vec<&'static str>,
    /// What it means, as `loligo check` says it. Secrets are not in it.
    running: Vec<String>,
    reloads_refused: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_refused: Option<LastRefused>,
}

#[derive(Serialize)]
struct LastRefused {
    unix_s: f64,
    by: String,
    why: Vec<String>,
}

impl Configuration {
    fn of(shared: &Shared, edition: &Edition) -> Configuration {
        let lines = |words: &str| words.lines().map(str::to_owned).collect();
        let loaded = &edition.loaded;
        let last = shared.reloads.last_refused().map(|last| LastRefused {
            unix_s: rounded(last.at.as_secs_f64()),
            by: last.by,
            why: lines(&last.why),
        });
        Configuration {
            edition: edition.number,
            loaded_unix_s: rounded(loaded.at.as_secs_f64()),
            by: loaded.by.clone(),
            wanting_a_restart: loaded.wanting_a_restart.clone(),
            running: lines(&loaded.words),
            reloads_refused: shared.reloads.failures(),
            last_refused: last,
        }
    }
}

#[derive(Serialize)]
struct Listener {
    address: SocketAddr,
    role: &'static str,
    /// Of a reverse listener.
    #[serde(skip_serializing_if = "Option::is_none")]
    routes: Option<usize>,
    /// Of one that speaks TLS.
    #[serde(skip_serializing_if = "Option::is_none")]
    certificates: Option<Vec<Certificate>>,
}

#[derive(Serialize)]
struct Certificate {
    names: String,
    until: String,
    until_unix_s: i64,
    /// `null`: made at the start.
    file: Option<String>,
}

#[derive(Serialize)]
struct Worker {
    requests: u64,
    connections_open: u64,
}

#[derive(Serialize)]
struct Connections {
    open: u64,
    max: u64,
    accepted: u64,
    refused: u64,
}

/// Hits among requests, tunnels and errors left out; `null` of nothing.
#[derive(Serialize)]
pub struct HitRatio {
    documents: Option<f64>,
    bytes: Option<f64>,
}

#[derive(Serialize)]
struct Requests {
    total: u64,
    response_bytes: u64,
    /// Without tunnels.
    latency_us: Option<Latency>,
    by_class: InOrder<ByClass>,
}

#[derive(Serialize)]
struct ByClass {
    requests: u64,
    response_bytes: u64,
    latency_us: Option<Latency>,
}

/// What is told of a distribution of times, microseconds.
#[derive(Serialize)]
pub struct Latency {
    mean: f64,
    p50: f64,
    p90: f64,
    p99: f64,
}

#[derive(Serialize)]
struct Recent {
    seconds: f64,
    requests_per_s: f64,
    response_bytes_per_s: f64,
    hit_ratio: HitRatio,
    latency_us: Option<Latency>,
    /// Requests per second.
    by_class: InOrder<f64>,
}

#[derive(Serialize)]
struct Memory {
    bytes: u64,
    bytes_max: u64,
    objects: u64,
    evicted: u64,
    burst_refused: u64,
}

#[derive(Serialize)]
struct Transfers {
    bytes: u64,
    bytes_max: u64,
    room_bytes: u64,
}

#[derive(Serialize)]
struct Store {
    path: String,
    bytes: u64,
    io_engine: &'static str,
    paused: bool,
    /// Its device does not answer and is set aside.
    aside: bool,
    /// During the scan after an unclean stop.
    recovery: Option<Recovery>,
    /// Bytes of records that can be looked up. With the next two: the whole room for records.
    live_bytes: u64,
    /// Bytes that were written and belong to no record any more.
    dead_bytes: u64,
    /// Bytes never written since the store was made.
    never_written_bytes: u64,
    now: InOrder<u64>,
    since_opened: InOrder<u64>,
}

#[derive(Serialize)]
struct Recovery {
    done_bytes: u64,
    total_bytes: u64,
    records: u64,
}

/// A JSON object with its members in this order.
pub struct InOrder<T>(pub Vec<(&'static str, T)>);

impl<T: Serialize> Serialize for InOrder<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

impl Status {
    /// Puts the document together.
    pub fn of(shared: &Shared, facts: Facts, history: &History) -> Status {
        let counted = &facts.counted;
        let edition = shared.edition();
        Status {
            version: facts.version,
            phase: word_of(facts.phase),
            uptime_s: rounded(facts.uptime.as_secs_f64()),
            configuration: Configuration::of(shared, &edition),
            listeners: (edition.plan.listeners.iter().enumerate())
                .map(|(number, listener)| Listener::of(listener, edition.shown(number)))
                .collect(),
            limits: facts.limits.clone(),
            admin: edition.plan.admin.as_ref().map(|admin| admin.address),
            workers: workers(shared),
            connections: Connections {
                open: counted.value("client_connections_open"),
                max: facts.connections_max,
                accepted: counted.value("client_connections"),
                refused: counted.value("client_connections_refused"),
            },
            hit_ratio: HitRatio::of(counted),
            requests: Requests {
                total: counted.requests(),
                response_bytes: counted.bytes(),
                latency_us: Latency::of(&counted.latency()),
                by_class: by_class(counted, ByClass::of),
            },
            recent: history.recent(counted).and_then(Recent::of),
            memory: Memory {
                bytes: facts.memory.bytes,
                bytes_max: facts.memory.bytes_max,
                objects: facts.memory.objects,
                evicted: facts.memory.evicted,
                burst_refused: facts.memory.burst_refused,
            },
            transfers: Transfers {
                bytes: facts.transfer_bytes,
                bytes_max: facts.transfer_bytes_max,
                room_bytes: facts.room_bytes,
            },
            counters: grouped(counted.simple()),
            statuses: (counted.statuses())
                .map(|(status, answers)| Answers { status, answers })
                .collect(),
            answers: answers(&facts.labels, counted),
            rules: (facts.rules.iter())
                .map(|rule| RuleFigures {
                    decision: rule.decision.unwrap_or("tagged"),
                    name: rule.name.clone(),
                    requests: rule.count,
                })
                .collect(),
            origin_failures: InOrder(counted.causes().filter(|(_, n)| *n > 0).collect()),
            process: ProcessFigures {
                cpu_s: facts.process.cpu_s,
                resident_bytes: facts.process.resident_bytes,
                open_fds: facts.process.open_fds,
                max_fds: facts.process.max_fds,
            },
            peers: peers(shared),
            upstreams: facts.upstreams,
            digests: siblings_digests(shared),
            cluster: facts.cluster,
            top: shared.top.as_ref().map(|top| {
                let top = top.lock().unwrap_or_else(PoisonError::into_inner);
                top.told()
            }),
            stores: facts
                .stores
                .into_iter()
                .map(|store| Store::of(store, facts.io_engine))
                .collect(),
        }
    }
}

/// A phase as it is told.
pub fn word_of(phase: Phase) -> &'static str {
    match phase {
        Phase::Running => "running",
        Phase::Draining => "draining",
        Phase::Stopping => "stopping",
    }
}

fn peers(shared: &Shared) -> Vec<PeerStanding> {
    let standing = |role, peer: &Peer| PeerStanding {
        role,
        name: peer.name.to_string(),
        address: format!("{}:{}", peer.destination.host, peer.destination.port),
        alive: peer.health.is_alive(),
        failures: peer.health.failures(),
        waiting: peer.waiting(),
    };
    let parents = shared.peers.parents().iter();
    let siblings = shared.peers.siblings().iter();
    parents
        .map(|peer| standing("parent", peer))
        .chain(siblings.map(|peer| standing("sibling", peer)))
        .collect()
}

fn siblings_digests(shared: &Shared) -> Vec<SiblingsDigest> {
    let digests = &shared.digests;
    let edition = shared.edition();
    let numbered = digests.siblings().filter_map(|number| {
        let standing = digests.theirs(number)?.standing(Instant::now());
        let sibling = edition.plan.siblings.get(number)?;
        Some(SiblingsDigest {
            sibling: sibling.at.to_string(),
            format: standing.format.map(Format::name),
            age_s: standing.age_s,
            objects: standing.objects,
        })
    });
    numbered.collect()
}

impl Listener {
    fn of(listener: &plan::Listener, shown: &[Shown]) -> Listener {
        let (role, routes) = match &listener.role {
            Role::Forward(_) => ("forward", None),
            Role::Reverse(routes) => ("reverse", Some(routes.len())),
        };
        Listener {
            address: listener.address,
            role,
            routes,
            certificates: (listener.tls.is_some())
                .then(|| shown.iter().map(Certificate::of).collect()),
        }
    }
}

impl Certificate {
    fn of(shown: &Shown) -> Certificate {
        Certificate {
            names: shown.facts.called(),
            until: x509::day(shown.facts.until_unix_s),
            until_unix_s: shown.facts.until_unix_s,
            file: shown.file.as_ref().map(|file| file.display().to_string()),
        }
    }
}

impl HitRatio {
    /// Of what was counted.
    pub fn of(counted: &Snapshot) -> HitRatio {
        HitRatio {
            documents: counted.hit_ratio_documents().map(rounded),
            bytes: counted.hit_ratio_bytes().map(rounded),
        }
    }
}

impl ByClass {
    fn of(figures: &ClassFigures) -> ByClass {
        ByClass {
            requests: figures.requests,
            response_bytes: figures.bytes,
            latency_us: Latency::of(&figures.latency),
        }
    }
}

impl Latency {
    /// `None` of nothing.
    pub fn of(latency: &Histogram) -> Option<Latency> {
        let quantile = |q| latency.quantile_us(q).map(rounded);
        Some(Latency {
            mean: rounded(latency.mean_us()?),
            p50: quantile(0.5)?,
            p90: quantile(0.9)?,
            p99: quantile(0.99)?,
        })
    }
}

impl Recent {
    fn of((passed, seconds): (Snapshot, f64)) -> Option<Recent> {
        let per_s = |n: u64| rounded(n as f64 / seconds);
        (seconds > 0.0).then(|| Recent {
            seconds: rounded(seconds),
            requests_per_s: per_s(passed.requests()),
            response_bytes_per_s: per_s(passed.bytes()),
            hit_ratio: HitRatio::of(&passed),
            latency_us: Latency::of(&passed.latency()),
            by_class: by_class(&passed, |figures| per_s(figures.requests)),
        })
    }
}

impl Store {
    fn of(store: StoreFacts, io_engine: &'static str) -> Store {
        let figures = &store.figures;
        Store {
            path: store.path,
            bytes: store.bytes,
            io_engine,
            paused: store.paused,
            aside: store.aside,
            recovery: store.recovery.map(|progress| Recovery {
                done_bytes: progress.done_bytes,
                total_bytes: progress.total_bytes,
                records: progress.records,
            }),
            live_bytes: figures.live_bytes,
            dead_bytes: figures.dead_bytes,
            never_written_bytes: figures.never_written_bytes,
            now: InOrder(figures.gauges().collect()),
            since_opened: InOrder(figures.counters().collect()),
        }
    }
}

fn answers(labels: &[Label], counted: &Snapshot) -> Vec<AnswersOf> {
    let rows = labels.iter().zip(counted.rows());
    let rows = rows.filter(|(_, row)| row.answers.iter().any(|n| *n > 0));
    let of = |(label, row): (&Label, &RowFigures)| AnswersOf {
        listener: label.listener.clone(),
        origin: label.origin.clone(),
        response_bytes: row.bytes,
        by_status: InOrder(STATUS_CLASSES.into_iter().zip(row.answers).collect()),
    };
    rows.map(of).collect()
}

fn workers(shared: &Shared) -> Vec<Worker> {
    use std::sync::atomic::Ordering::Relaxed;
    let worker = |set: &std::sync::Arc<record::metrics::Counters>| Worker {
        requests: set.requests.iter().map(|n| n.load(Relaxed)).sum(),
        connections_open: set.client_connections_open.load(Relaxed),
    };
    shared.counters.iter().map(worker).collect()
}

fn by_class<T>(counted: &Snapshot, of: impl Fn(&ClassFigures) -> T) -> InOrder<T> {
    let entry = |(class, figures): (Class, &ClassFigures)| (class.as_str(), of(figures));
    InOrder(counted.classes().map(entry).collect())
}

/// The group of a counter, by the beginning of its name, so that a new one finds its place.
const GROUPS: [(&str, &[&str]); 6] = [
    ("client", &["client_", "requests_", "tunnels", "body_"]),
    ("origin", &["origin_", "revalidations", "flights_"]),
    (
        "cache",
        &[
            "stored_",
            "not_stored",
            "purges",
            "invalidations_",
            "bodies_",
        ],
    ),
    ("disk", &["disk_"]),
    ("peers", &["icp_", "digest"]),
    ("cluster", &["cluster_"]),
];
const OTHER: &str = "other";

fn grouped(simple: &[Simple]) -> InOrder<InOrder<u64>> {
    let group_of = |name: &str| {
        let found = GROUPS
            .iter()
            .find(|(_, begins)| begins.iter().any(|b| name.starts_with(b)));
        found.map_or(OTHER, |(group, _)| group)
    };
    let groups = GROUPS.iter().map(|(group, _)| *group).chain([OTHER]);
    let members = |group| {
        let inside = simple.iter().filter(|s| group_of(s.name) == group);
        InOrder(inside.map(|s| (s.name, s.value)).collect())
    };
    InOrder(groups.map(|group| (group, members(group))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use exchange::testing;

    #[test]
    fn the_document_reads_well() {
        let shared = testing::shared();
        for us in [10, 20, 30] {
            shared.counters[0].finish(Class::MemoryHit, 1000, us);
        }
        shared.counters[1].finish(Class::Miss, 1000, 5000);
        let mut history = History::default();
        history.note(Snapshot::of(&shared.counters, shared.began));
        shared.counters[1].finish(Class::Miss, 1000, 5000);
        let status = Status::of(&shared, Facts::gather(&shared, 2), &history);
        let json: serde_json::Value =
            serde_json::from_str(&serde_json::to_string(&status).unwrap()).unwrap();
        assert_eq!(json["phase"], "running");
        assert_eq!(json["listeners"][0]["role"], "forward");
        assert_eq!(json["requests"]["total"], 5);
        assert_eq!(json["requests"]["by_class"]["memory-hit"]["requests"], 3);
        assert_eq!(
            json["requests"]["by_class"]["memory-hit"]["latency_us"]["mean"],
            20.0
        );
        assert!(json["requests"]["by_class"]["tunnel"]["latency_us"].is_null());
        assert_eq!(json["hit_ratio"]["documents"], 0.6);
        assert_eq!(json["recent"]["hit_ratio"]["documents"], 0.0);
        assert_eq!(json["workers"][1]["requests"], 2);
        assert_eq!(json["counters"]["cache"]["purges"], 2);
        assert_eq!(json["counters"]["other"]["log_records_lost"], 0);
        assert_eq!(json["counters"]["origin"]["flights_joined"], 0);
        assert_eq!(json["stores"], serde_json::json!([]));
    }

    #[test]
    fn members_keep_their_order_and_none_is_lost() {
        let shared = testing::shared();
        let facts = Facts::gather(&shared, 0);
        let all = facts.counted.simple().len();
        let InOrder(groups) = grouped(facts.counted.simple());
        assert_eq!(
            groups.iter().map(|(_, InOrder(g))| g.len()).sum::<usize>(),
            all
        );
        let text = serde_json::to_string(&InOrder(vec![("b", 1), ("a", 2)])).unwrap();
        assert_eq!(text, r#"{"b":1,"a":2}"#);
    }
}
