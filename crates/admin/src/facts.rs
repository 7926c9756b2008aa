//! All figures, gathered at one moment.
//!
//! [`Facts`] has everything that `/metrics` and `/status` report, as plain numbers, so that both agree.
//!
//! Not known here: HTTP, text formats.

use std::{collections::BTreeMap, time::Duration};

use store::{Figures, Progress};

use crate::{limits::LimitFacts, process::Process, pushes, snapshot::Snapshot};
use base::{clock::Instant, phase::Phase};
use cluster::ClusterStatus;
use exchange::{edition::Edition, state::Shared};
use record::{labels::Label, rule_counts::RuleCount};
use upstreams::{UpstreamStanding, standings};

/// The memory tier.
#[derive(Clone, Copy, Debug)]
pub struct MemoryFacts {
    /// Bytes held.
    pub bytes: u64,
    /// The bound on them.
    pub bytes_max: u64,
    /// Objects held.
    pub objects: u64,
    /// Objects evicted since the start.
    pub evicted: u64,
    /// Objects not kept because they would have driven out too many.
    pub burst_refused: u64,
    /// Fragments of large objects held.
    pub fragments: u64,
    /// Their bytes, which count in `bytes`.
    pub fragment_bytes: u64,
    /// Fragments pushed out since the start.
    pub fragments_evicted: u64,
    /// Bytes of fragments sent since the start.
    pub fragment_served_bytes: u64,
}

/// One store.
#[derive(Clone, Debug)]
pub struct StoreFacts {
    /// File or device.
    pub path: String,
    /// Its size.
    pub bytes: u64,
    /// Is storing paused because a write failed?
    pub paused: bool,
    /// Is its device set aside?
    pub aside: bool,
    /// Bytes of abandoned reads that the device has not finished.
    pub abandoned_bytes: u64,
    /// The progress of the scan after an unclean stop; `None` if there is none.
    pub recovery: Option<Progress>,
    /// The store's figures.
    pub figures: Figures,
}

/// Everything at one moment.
#[derive(Clone, Debug)]
pub struct Facts {
    /// The program's version.
    pub version: &'static str,
    /// Running, draining or stopping.
    pub phase: Phase,
    /// The time since the process started.
    pub uptime: Duration,
    /// How the disk is read and written; `none` without one.
    pub io_engine: &'static str,
    /// The bound on open client connections.
    pub connections_max: u64,
    /// The memory tier.
    pub memory: MemoryFacts,
    /// Bytes of incomplete heads.
    pub head_bytes: u64,
    /// Bytes of bodies on their way from origins to clients and store.
    pub transfer_bytes: u64,
    /// The bound on them.
    pub transfer_bytes_max: u64,
    /// Memory in which long bodies are received where they are stored.
    pub room_bytes: u64,
    /// The stores.
    pub stores: Vec<StoreFacts>,
    /// Stores that could not be opened.
    pub stores_absent: u64,
    /// The workers' counters and the purges of the admin interface.
    pub counted: Snapshot,
    /// The configuration.
    pub configuration: ConfigurationFacts,
    /// The labels of their rows.
    pub labels: Vec<Label>,
    /// Servers behind a name.
    pub upstreams: Vec<UpstreamStanding>,
    /// What rules have decided, and how many requests had each tag.
    pub rules: Vec<RuleCount>,
    /// The process, as the kernel sees it.
    pub process: Process,
    /// The limits of clients, hosts and listeners.
    pub limits: Vec<LimitFacts>,
    /// The cluster, if this is a member of one.
    pub cluster: Option<ClusterStatus>,
}

/// The configuration in figures.
#[derive(Clone, Debug)]
pub struct ConfigurationFacts {
    /// The edition in force.
    pub edition: u32,
    /// When it was loaded, since 1970.
    pub loaded: std::time::Duration,
    /// Reloads that were refused.
    pub failures: u64,
    /// Listener, first name and end (seconds since 1970) of each certificate.
    pub certificates: Vec<(String, String, i64)>,
    /// Certificates that were issued, and orders that have failed; `None`: none is ordered.
    pub acme: Option<(u64, u64)>,
}

impl Facts {
    /// Gathers the figures. `purges`: those by the admin interface.
    pub fn gather(shared: &Shared, purges: u64) -> Facts {
        let now = Instant::now();
        let mut counted = Snapshot::of(&shared.counters, now);
        counted.add("purges", purges);
        let icp = shared.icp.iter().flat_map(|icp| icp.counters.all());
        let cluster = shared.cluster.iter();
        let of_cluster = cluster.clone().flat_map(|cluster| cluster.figures());
        let of_purges = cluster.clone().flat_map(|it| it.purging.figures.all());
        let of_pushes = cluster.flat_map(|cluster| pushes::figures(cluster));
        let of_peers = icp
            .chain(shared.digests.figures())
            .chain(of_cluster)
            .chain(of_purges)
            .chain(of_pushes);
        counted.append(of_peers);
        let stores = shared.cache.store.stores().zip(&shared.cache.devices);
        let stores = stores.map(|(store, device)| StoreFacts {
            path: device.path().display().to_string(),
            bytes: store.geometry().total_bytes,
            paused: store.is_paused(base::clock::unix_ms()),
            aside: device.health().is_aside(),
            abandoned_bytes: device.health().abandoned_bytes(),
            recovery: store.recovery(),
            figures: store.figures(),
        });
        Facts {
            version: env!("CARGO_PKG_VERSION"),
            phase: *shared.phase.borrow(),
            uptime: now.duration_since(shared.began),
            io_engine: shared.io_engine,
            connections_max: shared.edition().plan.limits.connections_max as u64,
            memory: MemoryFacts {
                bytes: shared.cache.memory.bytes() + shared.cache.fragments.bytes(),
                bytes_max: shared.cache.memory.bytes_max(),
                objects: shared.cache.memory.objects(),
                evicted: shared.cache.memory.evicted(),
                burst_refused: shared.cache.memory.burst_refused(),
                fragments: shared.cache.fragments.fragments(),
                fragment_bytes: shared.cache.fragments.bytes(),
                fragments_evicted: shared.cache.fragments.evicted(),
                fragment_served_bytes: shared.cache.fragments.served_bytes(),
            },
            head_bytes: shared.heads.bytes(),
            transfer_bytes: shared.ledger.bytes(),
            transfer_bytes_max: shared.edition().plan.limits.transfer_buffer_bytes,
            room_bytes: shared.cache.rooms.bytes(),
            stores: stores.collect(),
            stores_absent: shared.cache.absent.len() as u64,
            counted,
            labels: shared.labels.all(),
            rules: shared.rules.all(),
            limits: LimitFacts::all(&shared.edition().quotas),
            configuration: ConfigurationFacts {
                edition: shared.edition().number,
                loaded: shared.edition().loaded.at,
                failures: shared.reloads.failures(),
                certificates: certificates(&shared.edition()),
                acme: acme(&shared.edition()),
            },
            upstreams: standings(&shared.edition().upstreams),
            process: Process::now(),
            cluster: shared.cluster.as_ref().map(|cluster| cluster.status()),
        }
    }
}

fn acme(edition: &Edition) -> Option<(u64, u64)> {
    edition.plan.acme.as_ref()?;
    let served = edition.served.iter().flatten().next()?;
    Some(served.challenges().counted())
}

/// The certificates of all listeners. Two of one name, with different kinds of keys, are told as the one that ends first.
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
