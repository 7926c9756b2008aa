//! Composes the state that all threads of a proxy share, before they start.
//!
//! Not known here: where stores and configuration come from.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize},
};

use replacement::Admission;
use store::Set;
use tokio::sync::watch;

use base::{
    clock::{Clock, Instant},
    heads::HeadBudget,
    listening::{ListenerId, Listening},
    phase::Phase,
    pulse::Pulse,
    reloads::Reloads,
    upgrades::Upgrades,
};
use cache::{
    Cache, Fetches,
    background::WakeUp,
    fragments::FragmentMemory,
    lazy::ReadQueue,
    memory::MemoryTier,
    opening::{self, Absent, Opened, StoreError},
};
use cluster::Cluster;
use exchange::{
    edition::{self, Edition, Loaded, Parts},
    fetch::flight::Flights,
    state::{Bounds, Shared},
};
use ledger::{Ledger, room::Rooms};
use origin::{OriginsTls, signing::Signers};
use peers::known::Peers;
use plan::{AdmissionKind, Plan};
use quota::Quotas;
use record::{
    labels::{COUNTED_MAX, Labels},
    metrics::Counters,
    rule_counts::KnownRules,
};
use tls::served::ServedTls;

/// The stores found at the start.
pub(crate) struct Found<'a> {
    /// The open stores.
    pub opened: Option<&'a Opened>,
    /// The stores that could not be opened.
    pub absent: Vec<Absent>,
    /// Without a store: the seed of key hashes, if another process has chosen it.
    pub seed: Option<u64>,
}

/// The state that all threads of a proxy share.
///
/// # Errors
/// The system provides no random numbers.
pub(crate) fn shared(
    plan: Plan,
    clock: Clock,
    found: Found<'_>,
    io_engine: &'static str,
    (tls, served): (OriginsTls, Vec<Option<Arc<ServedTls>>>),
) -> Result<Shared, StoreError> {
    let (labels, rules) = (Labels::default(), KnownRules::default());
    let Found {
        opened,
        absent,
        seed,
    } = found;
    let store = match opened {
        Some(opened) => Arc::clone(&opened.set),
        None => opening::without_device(seed)?,
    };
    let via_tag = edition::via_tag();
    let edition = Edition::new(Parts {
        number: 1,
        ids: (0..plan.listeners.len() as u32).map(ListenerId).collect(),
        rows: labels.rows(&plan.listeners),
        rule_counts: rules.counts(&plan.rules),
        quotas: Quotas::new(&plan.quotas, None),
        plan,
        tls,
        served,
        upstreams_before: Vec::new(),
        signers_before: Signers::default(),
        hasher: store.hasher(),
        via_tag,
        loaded: Loaded {
            at: clock.now(),
            by: "the start".to_owned(),
            ..Loaded::default()
        },
    });
    let plan = &edition.plan;
    let flights = Arc::new(Flights::new(plan.limits.waiters_max));
    let cache = Arc::new(cache_of(
        plan,
        store,
        opened,
        absent,
        Arc::clone(&flights) as _,
    ));
    Ok(Shared {
        followed: (0..plan.workers).map(|_| AtomicU32::new(0)).collect(),
        reloads: Reloads::default(),
        listening: Listening::default(),
        doors: watch::Sender::new(true),
        upgrades: Upgrades::default(),
        is_handed_over: AtomicBool::new(false),
        is_process: false,
        via_tag,
        bounds: Bounds::of(plan),
        heads: Arc::new(HeadBudget::new(plan.limits.head_buffer_bytes, plan.workers)),
        ledger: Ledger::new(plan.limits.transfer_buffer_bytes),
        cache,
        flights,
        counters: (0..plan.workers)
            .map(|_| Arc::new(Counters::with_rows(COUNTED_MAX)))
            .collect(),
        pulses: (0..plan.workers).map(|_| Pulse::default()).collect(),
        labels,
        rules,
        events: Arc::default(),
        top: None,
        peers: Arc::new(Peers::new(
            plan,
            edition.own_addresses.clone(),
            &edition.via_line,
        )),
        icp: None,
        cluster: Cluster::new(plan, opened.map(|opened| &*opened.set))
            .map_err(StoreError::Random)?
            .map(Arc::new),
        digests: Arc::default(),
        connections: AtomicUsize::new(0),
        streams: AtomicUsize::new(0),
        stream_head_bytes: AtomicU64::new(0),
        phase: watch::channel(Phase::Running).0,
        began: Instant::now(),
        clock,
        io_engine,
        editions: watch::Sender::new(Arc::new(edition)),
    })
}

/// The cache: an empty memory tier before these stores.
fn cache_of(
    plan: &Plan,
    store: Arc<Set>,
    opened: Option<&Opened>,
    absent: Vec<Absent>,
    fetches: Arc<dyn Fetches>,
) -> Cache {
    let queues = opened.iter().copied().flat_map(Opened::devices);
    let read_queues: Vec<Arc<ReadQueue>> = queues.map(|_| Arc::default()).collect();
    let wake_up = Arc::<WakeUp>::default();
    wake_up.watch(read_queues.clone());
    Cache {
        rooms: Rooms::new(plan.limits.transfer_buffer_bytes),
        memory: MemoryTier::new(plan.memory_bytes, plan.limits.memory_object_bytes_max)
            .with_burst(burst_max(plan)),
        fragments: FragmentMemory::new(plan.memory_bytes, opened.map_or(0, fragment_bytes)),
        store,
        wake_up,
        admission: admission(plan, opened),
        devices: opened.iter().copied().flat_map(Opened::devices).collect(),
        read_queues,
        has_disk: opened.is_some(),
        absent,
        predicates_refused: AtomicBool::new(false),
        fetches,
    }
}

/// The longest fragment of any of the stores.
fn fragment_bytes(opened: &Opened) -> u32 {
    let each = opened.set.stores().map(|store| store.fragment_bytes());
    each.max().unwrap_or(0)
}

/// The most objects that one new object may evict from memory. Only a front without a store has this bound. (A front with a store reads
/// evicted objects from its own disk.)
fn burst_max(plan: &Plan) -> Option<usize> {
    let cluster = plan.cluster.as_ref();
    let cluster = cluster.filter(|cluster| cluster.front && plan.stores.is_empty())?;
    cluster.replacement_burst.map(|most| most as usize)
}

/// Decides which objects are stored on disk; `None`: all.
fn admission(plan: &Plan, opened: Option<&Opened>) -> Option<Mutex<Admission>> {
    let kind = plan.storing.admission;
    if kind == AdmissionKind::All {
        return None;
    }
    let bytes: u64 = opened?.devices().map(|device| device.size()).sum();
    let objects = usize::try_from(bytes / cache::MEAN_OBJECT_BYTES).unwrap_or(usize::MAX);
    Some(Mutex::new(Admission::new(kind, objects, bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use plan::{Cluster, StorePlan};

    #[test]
    fn a_front_without_a_store_keeps_what_is_short() {
        let mut plan = Plan::with_listeners(Vec::new());
        assert_eq!(burst_max(&plan), None);
        plan.cluster = Some(Cluster {
            front: true,
            ..Cluster::default()
        });
        assert_eq!(burst_max(&plan), Some(10));
        plan.stores = vec![StorePlan::at("store", None)];
        assert_eq!(burst_max(&plan), None);
    }
}
