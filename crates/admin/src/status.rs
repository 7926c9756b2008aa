//! `GET /status`: all figures as JSON, for people and scripts.
//!
//! Names carry their units. Ratios and latencies without data are `null`. `recent` covers the last minute, everything else the time since the
//! start. `counters` has every counter under its name in `/metrics`, grouped by subject.

use std::net::SocketAddr;

use profile::Class;
use serde::Serialize;

use crate::{
    facts::{DigestFacts, Facts, LimitFacts, PeerFacts, StoreFacts, WorkerFacts},
    json::{HitRatio, InOrder, Latency, rounded, word_of},
    process::Process,
    snapshot::{ClassFigures, History, Passed, RowFigures, Simple, Snapshot},
    table::{MemoryFacts, TransferFacts},
};
use base::{reloads::Reloads, x509};
use cluster::ClusterStatus;
use exchange::edition::Edition;
use plan::Role;
use record::{labels::Label, metrics::STATUS_CLASSES, rule_counts::RuleCount, top::Told};
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
    workers: Vec<WorkerFacts>,
    connections: Connections,
    hit_ratio: HitRatio,
    requests: Requests,
    recent: Option<Recent>,
    memory: MemoryFacts,
    transfers: TransferFacts,
    stores: Vec<StoreFacts>,
    counters: InOrder<InOrder<u64>>,
    /// Number of responses by status.
    statuses: Vec<Answers>,
    /// Responses by listener and origin.
    answers: Vec<AnswersOf>,
    /// Failures of origins by cause.
    origin_failures: InOrder<u64>,
    /// Requests that rules have decided, and requests with each tag.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    rules: Vec<RuleCount>,
    process: Process,
    /// Parents and siblings, in the order of the configuration.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    peers: Vec<PeerFacts>,
    /// The upstreams and their servers, in the order of the configuration.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    upstreams: Vec<UpstreamStanding>,
    /// The digests of siblings that are asked by digest.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    digests: Vec<DigestFacts>,
    /// The cluster, if this proxy is a member of one.
    #[serde(skip_serializing_if = "Option::is_none")]
    cluster: Option<ClusterStatus>,
    /// The most requested hosts and URLs, if `admin.top` is on.
    #[serde(skip_serializing_if = "Option::is_none")]
    top: Option<Told>,
}

#[derive(Serialize)]
struct Answers {
    /// 0: no response was sent, because the client had gone.
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

/// The configuration in force.
#[derive(Serialize)]
struct Configuration {
    /// 1 at the start, one more with each reload.
    edition: u32,
    loaded_unix_s: f64,
    /// Who asked for the reload.
    by: String,
    /// Changed parts of the configuration that are not in force until a restart.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    wanting_a_restart: Vec<&'static str>,
    /// Certificates of listeners that cannot be used, or that clients refuse.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    certificate_troubles: Vec<String>,
    /// Origins whose certificates are not verified.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unverified: Vec<String>,
    /// The configuration as `loligo check` describes it, without secrets.
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
    fn of(
        edition: &Edition,
        reloads: &Reloads,
        certificate_troubles: Vec<String>,
    ) -> Configuration {
        let lines = |words: &str| words.lines().map(str::to_owned).collect();
        let loaded = &edition.loaded;
        let last = reloads.last_refused().map(|last| LastRefused {
            unix_s: rounded(last.at.as_secs_f64()),
            by: last.by,
            why: lines(&last.why),
        });
        Configuration {
            edition: edition.number,
            loaded_unix_s: rounded(loaded.at.as_secs_f64()),
            by: loaded.by.clone(),
            wanting_a_restart: loaded.wanting_a_restart.clone(),
            certificate_troubles,
            unverified: edition.plan.unverified(),
            running: lines(&loaded.words),
            reloads_refused: reloads.failures(),
            last_refused: last,
        }
    }
}

#[derive(Serialize)]
struct Listener {
    address: SocketAddr,
    role: &'static str,
    /// Number of routes of a reverse listener.
    #[serde(skip_serializing_if = "Option::is_none")]
    routes: Option<usize>,
    /// Certificates of a TLS listener.
    #[serde(skip_serializing_if = "Option::is_none")]
    certificates: Option<Vec<Certificate>>,
}

#[derive(Serialize)]
struct Certificate {
    names: String,
    until: String,
    until_unix_s: i64,
    /// `null`: the certificate was generated at the start.
    file: Option<String>,
}

#[derive(Serialize)]
struct Connections {
    open: u64,
    max: u64,
    accepted: u64,
    refused: u64,
}

#[derive(Serialize)]
struct Requests {
    total: u64,
    response_bytes: u64,
    /// Of all requests except tunnels.
    latency_us: Option<Latency>,
    by_class: InOrder<ByClass>,
}

#[derive(Serialize)]
struct ByClass {
    requests: u64,
    response_bytes: u64,
    latency_us: Option<Latency>,
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

impl Status {
    /// Puts the document together. `top`: the most requested hosts and URLs, if they are counted.
    pub fn of(
        facts: Facts,
        (edition, reloads): (&Edition, &Reloads),
        history: &History,
        top: Option<Told>,
    ) -> Status {
        let counted = &facts.counted;
        Status {
            version: facts.version,
            phase: word_of(facts.phase),
            uptime_s: rounded(facts.uptime.as_secs_f64()),
            configuration: Configuration::of(
                edition,
                reloads,
                facts.configuration.certificate_troubles,
            ),
            listeners: (edition.plan.listeners.iter().enumerate())
                .map(|(number, listener)| Listener::of(listener, edition.shown(number)))
                .collect(),
            limits: facts.limits,
            admin: edition.plan.admin.as_ref().map(|admin| admin.address),
            workers: facts.workers,
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
            recent: history.recent(counted).as_ref().map(Recent::of),
            memory: facts.memory,
            transfers: facts.transfers,
            stores: facts.stores,
            counters: grouped(counted.simple()),
            statuses: (counted.statuses())
                .map(|(status, answers)| Answers { status, answers })
                .collect(),
            answers: answers(&facts.labels, counted),
            origin_failures: InOrder(counted.causes().filter(|(_, n)| *n > 0).collect()),
            rules: facts.rules,
            process: facts.process,
            peers: facts.peers,
            upstreams: facts.upstreams,
            digests: facts.digests,
            cluster: facts.cluster,
            top,
        }
    }
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

impl ByClass {
    fn of(figures: &ClassFigures) -> ByClass {
        ByClass {
            requests: figures.requests,
            response_bytes: figures.bytes,
            latency_us: Latency::of(&figures.latency),
        }
    }
}

impl Recent {
    fn of(passed: &Passed) -> Recent {
        let counted = &passed.counted;
        Recent {
            seconds: rounded(passed.seconds),
            requests_per_s: passed.per_s(counted.requests()),
            response_bytes_per_s: passed.per_s(counted.bytes()),
            hit_ratio: HitRatio::of(counted),
            latency_us: Latency::of(&counted.latency()),
            by_class: by_class(counted, |figures| passed.per_s(figures.requests)),
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

fn by_class<T>(counted: &Snapshot, of: impl Fn(&ClassFigures) -> T) -> InOrder<T> {
    let entry = |(class, figures): (Class, &ClassFigures)| (class.as_str(), of(figures));
    InOrder(counted.classes().map(entry).collect())
}

/// Groups of counters by the beginning of their names, so that a new counter finds its group.
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
        let configured = (&*shared.edition(), &shared.reloads);
        let status = Status::of(Facts::gather(&shared, 2), configured, &history, None);
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
