//! All figures, gathered at one moment.
//!
//! [`Facts`] has everything that `/metrics`, `/status` and `/live` report, so that they agree. Figures that are only copied are in `table`.
//!
//! Not known here: HTTP, text formats.

use std::{
    collections::BTreeMap,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

use serde::{Serialize, Serializer, ser::SerializeMap};
use store::Figures;

use crate::{
    json::InOrder,
    process::Process,
    snapshot::Snapshot,
    table::{self, MemoryFacts, TransferFacts},
};
use base::{clock::Instant, phase::Phase};
use cache::Cache;
use cluster::{Cluster, ClusterStatus};
use exchange::{edition::Edition, state::Shared};
use peers::{
    digest::{Digests, theirs::Format},
    icp::Icp,
    known::{Peer, Peers},
};
use quota::Quota;
use record::{labels::Label, metrics::Counters, rule_counts::RuleCount};
use upstreams::{UpstreamStanding, standings};

/// All figures at one moment.
#[derive(Clone, Debug)]
pub struct Facts {
    /// The program's version.
    pub version: &'static str,
    /// Running, draining or stopping.
    pub phase: Phase,
    /// The time since the process started.
    pub uptime: Duration,
    /// The I/O engine of the disk stores; `none` without a store.
    pub io_engine: &'static str,
    /// The bound on open client connections.
    pub connections_max: u64,
    /// The memory tier.
    pub memory: MemoryFacts,
    /// Heads and bodies in transit.
    pub transfers: TransferFacts,
    /// The stores.
    pub stores: Vec<StoreFacts>,
    /// Stores that could not be opened.
    pub stores_absent: u64,
    /// Due reads that wait for a slow device.
    pub reads_waiting: u64,
    /// Each worker.
    pub workers: Vec<WorkerFacts>,
    /// The workers' counters and the purges of the admin interface.
    pub counted: Snapshot,
    /// The configuration.
    pub configuration: ConfigurationFacts,
    /// The labels of the rows in `counted`.
    pub labels: Vec<Label>,
    /// Parents and siblings, in the order of the configuration.
    pub peers: Vec<PeerFacts>,
    /// The digests of siblings that are asked by digest.
    pub digests: Vec<DigestFacts>,
    /// The upstreams and their servers.
    pub upstreams: Vec<UpstreamStanding>,
    /// Decisions of rules, and the number of requests with each tag.
    pub rules: Vec<RuleCount>,
    /// The process, as the kernel reports it.
    pub process: Process,
    /// The limits of clients, hosts and listeners.
    pub limits: Vec<LimitFacts>,
    /// The cluster, if this proxy is a member of one.
    pub cluster: Option<ClusterStatus>,
}

/// The configuration in figures.
#[derive(Clone, Debug)]
pub struct ConfigurationFacts {
    /// The edition in force.
    pub edition: u32,
    /// When it was loaded, time since 1970.
    pub loaded: Duration,
    /// Reloads that were refused.
    pub failures: u64,
    /// Listener, first name and end of validity (seconds since 1970) of each certificate.
    pub certificates: Vec<(String, String, i64)>,
    /// The first of the certificates of listeners that cannot be used, or that clients refuse.
    pub certificate_troubles: Vec<String>,
    /// Certificates issued, and orders that failed; `None`: ACME is not used.
    pub acme: Option<(u64, u64)>,
}

/// One worker.
#[derive(Clone, Debug, Serialize)]
pub struct WorkerFacts {
    requests: u64,
    connections_open: u64,
}

/// One store.
#[derive(Clone, Debug, Serialize)]
pub struct StoreFacts {
    /// File or device.
    pub path: String,
    /// Its size.
    pub bytes: u64,
    io_engine: &'static str,
    /// Is storing paused because a write failed?
    pub paused: bool,
    /// Is its device set aside, because it does not answer?
    pub aside: bool,
    /// Bytes of abandoned reads that the device has not finished.
    #[serde(skip)]
    pub abandoned_bytes: u64,
    /// Progress of the scan after an unclean stop; `None`: no scan is running.
    pub recovery: Option<Recovery>,
    /// The store's figures.
    #[serde(flatten, serialize_with = "in_status")]
    pub figures: Figures,
}

/// The progress of a scan.
#[derive(Clone, Debug, Serialize)]
pub struct Recovery {
    /// Bytes scanned.
    pub done_bytes: u64,
    /// Bytes to scan in all.
    pub total_bytes: u64,
    records: u64,
}

/// A parent or a sibling.
#[derive(Clone, Debug, Serialize)]
pub struct PeerFacts {
    role: &'static str,
    name: String,
    address: String,
    /// May requests be sent to it? A dead peer is probed until it answers.
    alive: bool,
    /// Failures since its last success, at most 3.
    failures: u32,
    /// Requests that wait for the head of its response.
    waiting: u64,
}

/// The digest of a sibling.
#[derive(Clone, Debug, Serialize)]
pub struct DigestFacts {
    sibling: String,
    /// `null`: there is no digest at present, because it could not be fetched, is too old, or is distrusted.
    format: Option<&'static str>,
    age_s: u64,
    objects: u64,
}

/// A limit (`[[limit]]`) and its counts.
#[derive(Clone, Debug, Serialize)]
pub struct LimitFacts {
    /// Its name in the configuration.
    pub name: String,
    what: &'static str,
    /// Requests or connections within the limit.
    pub passed: u64,
    /// Requests that waited for their turn.
    pub delayed: u64,
    /// Requests or connections beyond the limit.
    pub refused: u64,
    /// Clients, hosts or listeners with a count of their own now.
    pub keys: u64,
    keys_max: u64,
    /// Look-ups for keys that shared a count.
    pub keys_shared: u64,
}

impl Facts {
    /// Gathers the figures. `purges`: the number of purges by the admin interface.
    pub fn gather(shared: &Shared, purges: u64) -> Facts {
        let (now, edition, cache) = (Instant::now(), shared.edition(), &shared.cache);
        let cluster = shared.cluster.as_deref();
        let of_peers = (shared.icp.as_deref(), &*shared.digests);
        let mut counted = counted(&shared.counters, of_peers, cluster, now);
        counted.add("purges", purges);
        let waiting = cache.read_queues.iter().map(|queue| queue.waiting() as u64);
        Facts {
            version: env!("CARGO_PKG_VERSION"),
            phase: *shared.phase.borrow(),
            uptime: now.duration_since(shared.began),
            io_engine: shared.io_engine,
            connections_max: edition.plan.limits.connections_max as u64,
            memory: MemoryFacts::now(cache),
            transfers: TransferFacts::now(
                &shared.heads,
                &shared.ledger,
                &edition.plan.limits.transfer_buffer_bytes,
                cache,
            ),
            stores: stores(cache, shared.io_engine),
            stores_absent: cache.absent.len() as u64,
            reads_waiting: waiting.sum(),
            workers: shared.counters.iter().map(|set| worker(set)).collect(),
            counted,
            labels: shared.labels.all(),
            peers: peers(&shared.peers),
            digests: digests(&shared.digests, &edition, now),
            rules: shared.rules.all(),
            limits: edition.quotas.iter().map(|quota| limit(quota)).collect(),
            configuration: ConfigurationFacts {
                edition: edition.number,
                loaded: edition.loaded.at,
                failures: shared.reloads.failures(),
                certificates: certificates(&edition),
                certificate_troubles: troubles(&edition, shared.clock.now()),
                acme: acme(&edition),
            },
            upstreams: standings(&edition.upstreams),
            process: Process::now(),
            cluster: cluster.map(Cluster::status),
        }
    }
}

/// The sums of the workers' counters, with those of peers and of the cluster.
fn counted(
    workers: &[Arc<Counters>],
    (icp, digests): (Option<&Icp>, &Digests),
    cluster: Option<&Cluster>,
    now: Instant,
) -> Snapshot {
    let mut counted = Snapshot::of(workers, now);
    if let Some(icp) = icp {
        counted.append(icp.counters.all());
    }
    counted.append(digests.figures());
    if let Some(cluster) = cluster {
        counted.append(cluster.figures());
        counted.append(cluster.purging.figures.all());
        counted.append(table::pushes(cluster));
    }
    counted
}

fn worker(counters: &Counters) -> WorkerFacts {
    WorkerFacts {
        requests: counters.requests.iter().map(|n| n.load(Relaxed)).sum(),
        connections_open: counters.client_connections_open.load(Relaxed),
    }
}

fn stores(cache: &Cache, io_engine: &'static str) -> Vec<StoreFacts> {
    let stores = cache.store.stores().zip(&cache.devices);
    let facts = stores.map(|(store, device)| StoreFacts {
        path: device.path().display().to_string(),
        bytes: store.geometry().total_bytes,
        io_engine,
        paused: store.is_paused(base::clock::unix_ms()),
        aside: device.health().is_aside(),
        abandoned_bytes: device.health().abandoned_bytes(),
        recovery: store.recovery().map(|scan| Recovery {
            done_bytes: scan.done_bytes,
            total_bytes: scan.total_bytes,
            records: scan.records,
        }),
        figures: store.figures(),
    });
    facts.collect()
}

/// Begins with the space for records, in three parts: live records, chunks that were written and belong to no record any more, and chunks that were
/// never written since the store was made.
fn in_status<S: Serializer>(figures: &Figures, to: S) -> Result<S::Ok, S::Error> {
    let mut map = to.serialize_map(None)?;
    map.serialize_entry("live_bytes", &figures.live_bytes)?;
    map.serialize_entry("dead_bytes", &figures.dead_bytes)?;
    map.serialize_entry("never_written_bytes", &figures.never_written_bytes)?;
    map.serialize_entry("now", &InOrder(figures.gauges().collect()))?;
    map.serialize_entry("since_opened", &InOrder(figures.counters().collect()))?;
    map.end()
}

fn limit(quota: &Quota) -> LimitFacts {
    let counts = &quota.counts;
    LimitFacts {
        name: quota.plan.name.clone(),
        what: quota.plan.what.name(),
        passed: counts.passed.load(Relaxed),
        delayed: counts.delayed.load(Relaxed),
        refused: counts.refused.load(Relaxed),
        keys: quota.keys() as u64,
        keys_max: quota.plan.keys.keys_max as u64,
        keys_shared: counts.shared.load(Relaxed),
    }
}

fn peers(peers: &Peers) -> Vec<PeerFacts> {
    let standing = |role, peer: &Peer| PeerFacts {
        role,
        name: peer.name.to_string(),
        address: format!("{}:{}", peer.destination.host, peer.destination.port),
        alive: peer.health.is_alive(),
        failures: peer.health.failures(),
        waiting: peer.waiting(),
    };
    let parents = peers.parents().iter();
    let siblings = peers.siblings().iter();
    parents
        .map(|peer| standing("parent", peer))
        .chain(siblings.map(|peer| standing("sibling", peer)))
        .collect()
}

fn digests(digests: &Digests, edition: &Edition, now: Instant) -> Vec<DigestFacts> {
    let numbered = digests.siblings().filter_map(|number| {
        let standing = digests.theirs(number)?.standing(now);
        let sibling = edition.plan.siblings.get(number)?;
        Some(DigestFacts {
            sibling: sibling.at.to_string(),
            format: standing.format.map(Format::name),
            age_s: standing.age_s,
            objects: standing.objects,
        })
    });
    numbered.collect()
}

fn acme(edition: &Edition) -> Option<(u64, u64)> {
    edition.plan.acme.as_ref()?;
    let served = edition.served.iter().flatten().next()?;
    Some(served.challenges().counted())
}

/// Certificates in trouble that are reported, at most.
const TROUBLES_MAX: usize = 100;

fn troubles(edition: &Edition, now: Duration) -> Vec<String> {
    let mut troubles = edition.troubles(now);
    troubles.truncate(TROUBLES_MAX);
    troubles
}

/// The certificates of all listeners. Of two with the same name and different kinds of keys, the one that ends first is reported.
fn certificates(edition: &Edition) -> Vec<(String, String, i64)> {
    let mut all = BTreeMap::new();
    for (number, listener) in edition.plan.listeners.iter().enumerate() {
        for shown in edition.shown(number) {
            let end = shown.facts.until_unix_s;
            let first = (all.entry((listener.address.to_string(), shown.name()))).or_insert(end);
            *first = end.min(*first);
        }
    }
    let told = |((listener, name), end)| (listener, name, end);
    all.into_iter().map(told).collect()
}
