//! A process without workers, for tests.

use base::clock::Instant;
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize},
    },
    time::Duration,
};

use tokio::sync::watch;

use crate::{
    edition::{Edition, Loaded, Parts},
    fetch::flight::Flights,
    state::{Bounds, Shared},
};
use base::reloads::Reloads;
use base::{
    listening::{ListenerId, Listening},
    phase::Phase,
    pulse::Pulse,
};
use cache::{Cache, fragments::FragmentMemory, memory::MemoryTier, opening};
use ledger::Ledger;
use plan::{Listener, Plan};
use record::{
    labels::{COUNTED_MAX, Labels},
    metrics::Counters,
    rule_counts::KnownRules,
};

/// A process with one forward listener.
pub fn shared() -> Arc<Shared> {
    let address = "127.0.0.1:3128".parse().unwrap();
    shared_with(vec![Listener::forward(address, Vec::new())])
}

/// A process with these listeners.
pub fn shared_with(listeners: Vec<Listener>) -> Arc<Shared> {
    shared_of(Plan::with_listeners(listeners))
}

/// A process with an admin interface, two workers' counters and no disk.
pub fn shared_of(mut plan: Plan) -> Arc<Shared> {
    plan.admin = Some(plan::Admin {
        address: "127.0.0.1:3129".parse().unwrap(),
        allow: Vec::new(),
    });
    let (labels, rules) = (Labels::default(), KnownRules::default());
    let rule_counts = rules.counts(&plan.rules);
    let rows = labels.rows(&plan.listeners);
    let store = opening::without_device(None).unwrap();
    let hasher = store.hasher();
    let flights = Arc::new(Flights::new(plan.limits.waiters_max));
    let cache = Arc::new(Cache {
        rooms: ledger::room::Rooms::new(4 << 20),
        memory: MemoryTier::new(plan.memory_bytes, plan.limits.memory_object_bytes_max),
        fragments: FragmentMemory::new(plan.memory_bytes, 0),
        wake_up: Arc::default(),
        admission: None,
        devices: Vec::new(),
        read_queues: Vec::new(),
        has_disk: false,
        absent: Vec::new(),
        predicates_refused: AtomicBool::new(false),
        store,
        fetches: Arc::clone(&flights) as _,
    });
    Arc::new(Shared {
        streams: AtomicUsize::new(0),
        stream_head_bytes: AtomicU64::new(0),
        followed: Vec::new(),
        reloads: Reloads::default(),
        listening: Listening::default(),
        doors: tokio::sync::watch::Sender::new(true),
        upgrades: base::upgrades::Upgrades::default(),
        is_handed_over: std::sync::atomic::AtomicBool::new(false),
        is_process: false,
        via_tag: 0,
        bounds: Bounds::of(&plan),
        heads: Arc::new(base::heads::HeadBudget::new(1 << 20, 2)),
        ledger: Ledger::new(plan.limits.transfer_buffer_bytes),
        cache,
        flights,
        counters: (0..2)
            .map(|_| Arc::new(Counters::with_rows(COUNTED_MAX)))
            .collect(),
        labels,
        rules,
        events: Arc::default(),
        top: None,
        icp: None,
        cluster: None,
        digests: Arc::default(),
        pulses: vec![Pulse::default(), Pulse::default()],
        peers: Arc::new(peers::known::Peers::new(&plan, Vec::new(), b"")),
        connections: AtomicUsize::new(0),
        phase: watch::Sender::new(Phase::Running),
        began: Instant::now() - Duration::from_secs(60),
        clock: base::clock::Clock::default(),
        io_engine: "none",
        editions: watch::Sender::new(Arc::new(Edition::new(Parts {
            number: 1,
            ids: (0..plan.listeners.len() as u32).map(ListenerId).collect(),
            rows,
            rule_counts,
            quotas: quota::Quotas::default(),
            plan,
            served: Vec::new(),
            tls: origin::Tls::only(Vec::new()).into(),
            upstreams_before: Vec::new(),
            signers_before: origin::signing::Signers::default(),
            hasher,
            via_tag: 0,
            loaded: Loaded::default(),
        }))),
    })
}

/// Runs a future to its end.
pub fn wait<T>(what: impl Future<Output = T>) -> T {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_time().build().unwrap().block_on(what)
}

/// The outcome of an upgrade in a process that cannot start another one.
pub fn no_upgrade(
    _: Arc<Shared>,
) -> std::pin::Pin<Box<dyn Future<Output = base::upgrades::Outcome>>> {
    Box::pin(async { Err("this process cannot start another one".to_owned()) })
}
