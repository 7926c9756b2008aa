//! A worker thread: one runtime, its connections, its ring.
//!
//! Connections are accepted by the control thread and dealt to the worker that has the fewest; from then on a
//! connection never leaves its worker. A tick every tenth of a second writes out clusters that have waited long
//! enough, ends waits that are over due, and once a second lets go of what has grown old.

use std::{
    net::{SocketAddr, TcpStream},
    rc::Rc,
    sync::Arc,
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use device::{Engine, EngineError, EngineKind};
use tokio::{
    runtime,
    sync::{mpsc, oneshot},
    task::{JoinSet, LocalSet},
    time::{MissedTickBehavior, interval},
};

use crate::{
    access::{Clients, Destinations},
    client,
    disk::DiskIo,
    journal::JournalWriter,
    lazy::LazyReads,
    origin::{Connector, Settings, Tls},
    plan::{Listener, Role},
    rulebook::Rulebook,
    state::{ListenerState, Phase, Shared, Worker},
    target::RouteState,
};

/// Accepted connections waiting for a worker to take them; beyond it the control thread waits.
pub const DEAL_MAX: usize = 1024;
const TICK: Duration = Duration::from_millis(100);
const TICKS_A_SECOND: u32 = 10;

/// A connection on its way to a worker.
pub struct Dealt {
    /// Index of the listener it came in by.
    pub listener: usize,
    /// The socket, non-blocking.
    pub stream: TcpStream,
    /// Who is there.
    pub peer: SocketAddr,
}

/// What a worker is started with.
pub struct Start {
    /// What all share.
    pub shared: Arc<Shared>,
    /// Which worker.
    pub index: usize,
    /// How the stores' devices are read and written.
    pub engine: EngineKind,
    /// TLS to origins.
    pub tls: Tls,
    /// Its end of the journal, and whether anything is written.
    pub journal: JournalWriter,
    /// Is a record kept of each request?
    pub journals: bool,
}

/// Starts a worker; its readiness, or why it could not start, comes back.
pub fn spawn(
    start: Start,
    ready: oneshot::Sender<Result<(), String>>,
) -> std::io::Result<(mpsc::Sender<Dealt>, JoinHandle<()>)> {
    let (sender, receiver) = mpsc::channel(DEAL_MAX);
    let handle = thread::Builder::new()
        .name(format!("worker-{}", start.index))
        .spawn(move || {
            let runtime = runtime::Builder::new_current_thread().enable_all().build();
            match runtime {
                Ok(runtime) => LocalSet::new().block_on(&runtime, run(start, receiver, ready)),
                Err(error) => {
                    let _ = ready.send(Err(error.to_string()));
                }
            }
        })?;
    Ok((sender, handle))
}

async fn run(
    start: Start,
    mut dealt: mpsc::Receiver<Dealt>,
    ready: oneshot::Sender<Result<(), String>>,
) {
    let shared = Arc::clone(&start.shared);
    let disk = match disk_of(&shared, start.index, start.engine) {
        Ok(disk) => disk,
        Err(error) => {
            let _ = ready.send(Err(error.to_string()));
            return;
        }
    };
    let connector = Connector::new(connector_settings(&shared), start.tls);
    let worker = Rc::new(Worker::new(
        Arc::clone(&shared),
        start.index,
        disk,
        connector,
        start.journal,
        start.journals,
    ));
    let listeners = listener_states(&shared);
    let _ = ready.send(Ok(()));

    let mut phase = shared.phase.subscribe();
    let mut connections = JoinSet::new();
    let mut tick = interval(TICK);
    tick.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let mut ticks = 0u32;
    loop {
        tokio::select! {
            Some(new) = dealt.recv() => take(&worker, &listeners, &mut connections, new),
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
            _ = tick.tick() => {
                ticks = ticks.wrapping_add(1);
                if let Some(disk) = &worker.disk {
                    disk.tick();
                }
                worker.deadlines.sweep(Instant::now());
                if ticks.is_multiple_of(TICKS_A_SECOND) {
                    worker.every_second();
                }
            }
            _ = phase.changed() => {
                let now = *phase.borrow();
                if now >= Phase::Draining {
                    worker.deadlines.drain();
                }
                if now == Phase::Stopping {
                    connections.abort_all();
                }
            }
        }
        if *phase.borrow() >= Phase::Draining {
            worker.deadlines.drain();
            while let Ok(new) = dealt.try_recv() {
                take(&worker, &listeners, &mut connections, new);
            }
            let stopping = *phase.borrow() == Phase::Stopping;
            if connections.is_empty() && (worker.fetches.get() == 0 || stopping) {
                break;
            }
        }
    }
    if let Some(disk) = &worker.disk {
        disk.settle().await;
    }
    worker.every_second();
}

/// An engine for each store, and the shell around them.
fn disk_of(
    shared: &Arc<Shared>,
    index: usize,
    kind: EngineKind,
) -> Result<Option<DiskIo>, EngineError> {
    if !shared.has_disk {
        return Ok(None);
    }
    let storing = &shared.plan.storing;
    let mut reads = Vec::new();
    for device in &shared.devices {
        let engine = Engine::new(kind, Arc::clone(device))?;
        engine.start();
        let deadline = storing.lazy_reads_deadline;
        reads.push(LazyReads::new(
            Rc::new(engine),
            storing.lazy_reads,
            deadline,
        ));
    }
    Ok(Some(DiskIo::new(
        Arc::clone(&shared.store),
        reads,
        Arc::clone(&shared.counters[index]),
        Arc::clone(&shared.bell),
        storing,
        shared.clock.clone(),
    )))
}

fn take(
    worker: &Rc<Worker>,
    listeners: &[Rc<ListenerState>],
    connections: &mut JoinSet<()>,
    new: Dealt,
) {
    let Some(listener) = listeners.get(new.listener) else {
        return;
    };
    match tokio::net::TcpStream::from_std(new.stream) {
        Ok(stream) => {
            let worker = Rc::clone(worker);
            let listener = Rc::clone(listener);
            connections.spawn_local(client::serve(worker, listener, stream, new.peer));
        }
        Err(error) => tracing::warn!(%error, "a connection could not be taken over"),
    }
}

/// The listeners as a thread of its own sees them.
pub fn listener_states(shared: &Shared) -> Vec<Rc<ListenerState>> {
    let book = Arc::new(Rulebook::new(&shared.plan.rules));
    let state = |listener: &Listener| {
        let (routes, destinations) = match &listener.role {
            Role::Forward(forward) => (
                Vec::new(),
                Destinations {
                    loopback: forward.destinations.loopback,
                    link_local: forward.destinations.link_local,
                    allow: forward.destinations.allow.clone(),
                    own: shared.own_addresses.clone(),
                    connect_ports: forward.connect_ports.clone(),
                },
            ),
            // The operator named the origins: any address but our own is fine.
            Role::Reverse(routes) => (
                routes.iter().map(RouteState::new).collect(),
                Destinations {
                    loopback: true,
                    link_local: true,
                    allow: Vec::new(),
                    own: shared.own_addresses.clone(),
                    connect_ports: Vec::new(),
                },
            ),
        };
        Rc::new(ListenerState {
            key_tag: crate::target::key_tag(listener, &shared.plan.listeners),
            routes,
            destinations,
            clients: Clients {
                allow: listener.allow.clone(),
            },
            listener: listener.clone(),
            book: Arc::clone(&book),
        })
    };
    shared.plan.listeners.iter().map(state).collect()
}

fn connector_settings(shared: &Shared) -> Settings {
    let plan = &shared.plan;
    Settings {
        connect_timeout: plan.timeouts.connect,
        dns: crate::origin::DnsSettings {
            servers: plan.dns.servers.clone(),
            timeout: plan.dns.timeout,
            attempts: plan.dns.attempts,
            ttl_min: plan.dns.ttl_min,
            ttl_max: plan.dns.ttl_max,
            negative_ttl_max: plan.dns.negative_ttl_max,
            names_max: plan.dns.names_max,
        },
        pool: crate::origin::Limits {
            per_destination_max: plan.pool.per_origin_max,
            idle_per_destination_max: plan.pool.idle_per_origin_max,
            idle_max: plan.pool.idle_max,
            waiting_per_destination_max: plan.limits.waiters_max.max(1),
            idle_timeout: plan.timeouts.pool_idle,
        },
        failure_ttl: plan.cache.unreachable_ttl,
    }
}
