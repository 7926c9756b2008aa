//! Coming up, accepting, going down.
//!
//! The control thread listens, opens the stores, starts background thread and workers, which accept (`accepting`); then it runs the admin
//! interface and takes signals. Going down: no new connections, idle ones closed, requests in progress finished (at most
//! `timeouts.drain`), clusters written, and the stores closed by the background thread.

mod answers;
mod error;
mod marks;
mod preparing;
mod seconds;
mod stopping;

pub use base::phase::Stopper;
pub use error::ServeError;

use self::{
    error::log_error,
    preparing::{cache_of, choose_engine, describe, listen, listen_with, open_icp, served, tls},
    seconds::Seconds,
    stopping::{Signals, drain, tell_how_they_closed},
};
use base::clock::Instant;
use quota::Quotas;
use std::{
    net::{self, SocketAddr},
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering},
    },
    thread::JoinHandle,
    time::Duration,
};

use device::{Device, EngineKind};
use profile::MarkKind;
use tokio::{
    net::TcpListener,
    runtime::{self, LocalOptions, LocalRuntime},
    sync::{oneshot, watch as state_watch},
};

use crate::{
    connecting::connector_settings,
    reload::{self, Control, Reading, Reread},
    upgrade::{
        predecessor::Predecessor,
        step::{self, Step},
        successor,
    },
    user, worker,
};
use admin::health::{panicking, watch};
use base::accepting::Dealers;
use base::{
    clock::Clock,
    heads::HeadBudget,
    listening::{ListenerId, Listening},
    notify::Manager,
    phase::Phase,
    pulse::Pulse,
};
use base::{
    reloads::Reloads,
    upgrades::{Launch, Upgrades},
};
use cache::{
    background::BackgroundThread,
    opening::{self, Absent, Opened, StoreError},
};
use cluster::{Cluster, ClusterThread, purging};
use exchange::{
    edition::{self, Edition, Loaded, Parts},
    fetch::flight::Flights,
    state::{Bounds, Shared},
};
use ledger::Ledger;
use origin::Tls;
use peers::{digest::Digests, fetching, known::Peers};
use plan::Plan;
use record::{
    events::Events,
    journal::Journal,
    labels::{COUNTED_MAX, Labels},
    metrics::Counters,
    rule_counts::KnownRules,
};
use tls::served::ServedTls;
use upstreams::probe::Looks;

/// What is up, once it is.
#[derive(Clone, Debug)]
pub struct Ready {
    /// Where clients connect, in the order of the plan, with the ports the system chose.
    pub listeners: Vec<SocketAddr>,
    /// Where the admin interface is.
    pub admin: Option<SocketAddr>,
    /// Where ICP queries are taken.
    pub icp: Option<SocketAddr>,
    /// Where members of the cluster connect.
    pub cluster: Option<SocketAddr>,
    /// Each store in words: path, size, what was found.
    pub stores: Vec<String>,
    /// How the disk is read and written.
    pub io_engine: &'static str,
    /// Why not io_uring, if it was wanted and refused.
    pub io_engine_reason: Option<String>,
    /// Worker threads.
    pub workers: usize,
}

/// Serves until SIGTERM, SIGINT or SIGQUIT, then drains. SIGHUP and the admin interface have `reread` read the configuration anew. A panic
/// ends the process.
///
/// `succession`: whose place it takes, and how another process takes its own.
pub fn serve(
    configuration: Reading,
    reread: Reread,
    succession: Succession,
    on_ready: impl FnOnce(&Ready),
) -> Result<(), ServeError> {
    panicking::end_the_process();
    let how = How {
        reread: Some(reread),
        is_process: true,
        succession,
        ..How::default()
    };
    run(configuration, how, |ready, _| on_ready(ready))
}

/// Serves without taking signals, until the [`Stopper`] is used.
pub fn start(plan: Plan, on_ready: impl FnOnce(&Ready, Stopper)) -> Result<(), ServeError> {
    run(Reading::of(plan), How::default(), on_ready)
}

/// The same; the admin interface has `reread` read the configuration anew.
pub fn start_reloadable(
    configuration: Reading,
    reread: Reread,
    on_ready: impl FnOnce(&Ready, Stopper),
) -> Result<(), ServeError> {
    let how = How {
        reread: Some(reread),
        ..How::default()
    };
    run(configuration, how, on_ready)
}

/// The same; it may take another one's place, and another one its own.
pub fn start_in_succession(
    configuration: Reading,
    reread: Reread,
    succession: Succession,
    on_ready: impl FnOnce(&Ready, Stopper),
) -> Result<(), ServeError> {
    let how = How {
        reread: Some(reread),
        succession,
        ..How::default()
    };
    run(configuration, how, on_ready)
}

/// The same by a clock of the caller's.
pub fn start_at(
    plan: Plan,
    clock: Clock,
    on_ready: impl FnOnce(&Ready, Stopper),
) -> Result<(), ServeError> {
    let how = How {
        clock,
        ..How::default()
    };
    run(Reading::of(plan), how, on_ready)
}

/// The same on these devices instead of the plan's files, one for each of its stores: for tests, of devices that fail.
pub fn start_on(
    plan: Plan,
    devices: Vec<Arc<Device>>,
    on_ready: impl FnOnce(&Ready, Stopper),
) -> Result<(), ServeError> {
    let how = How {
        devices: Some(devices),
        ..How::default()
    };
    run(Reading::of(plan), how, on_ready)
}

/// What came before a process, and what comes after it.
#[derive(Default)]
pub struct Succession {
    /// Whose place it takes.
    pub from: Option<Predecessor>,
    /// How one is started that takes its own; `None`: it cannot be.
    pub launch: Option<Launch>,
}

/// How a proxy runs.
#[derive(Default)]
struct How {
    clock: Clock,
    /// It has the process for itself: it takes signals, and tells the service manager how it is.
    is_process: bool,
    /// How its configuration is read again; `None`: it cannot be.
    reread: Option<Reread>,
    devices: Option<Vec<Arc<Device>>>,
    succession: Succession,
}

fn run(
    configuration: Reading,
    mut how: How,
    on_ready: impl FnOnce(&Ready, Stopper),
) -> Result<(), ServeError> {
    let mut from = how.succession.from.take();
    let ran = run_from(configuration, how, &mut from, on_ready);
    if let (Err(why), Some(from)) = (&ran, &from) {
        from.refuse(&why.to_string());
    }
    ran
}

/// As [`run`]. `from` is taken when nothing can fail any more for which the one before would serve on.
fn run_from(
    configuration: Reading,
    how: How,
    from: &mut Option<Predecessor>,
    on_ready: impl FnOnce(&Ready, Stopper),
) -> Result<(), ServeError> {
    let How {
        clock,
        is_process,
        reread,
        devices,
        succession: Succession { launch, .. },
    } = how;
    let Reading {
        mut plan, words, ..
    } = configuration;
    let configured = plan.clone();
    let runtime = runtime::Builder::new_current_thread()
        .enable_all()
        .build_local(LocalOptions::default())?;
    let _inside = runtime.enter();
    // First of all: what comes before it is ready waits, instead of ending the process in the middle of its opening.
    let signals = is_process.then(Signals::take).transpose()?;
    let manager = Rc::new(match is_process {
        true => Manager::of_environment(),
        false => Manager::default(),
    });
    // Before anybody can connect: without its stores the proxy may not be wanted at all.
    let in_memory = devices.is_some();
    let candidates = match &from {
        Some(from) => {
            from.check(&plan).map_err(ServeError::TakeOver)?;
            None
        }
        None => Some(opening::look(&plan, devices)?),
    };
    let listening = Listening::default();
    let mut sockets: Vec<Vec<net::TcpListener>> = Vec::new();
    for listener in &mut plan.listeners {
        let taken = from.as_mut();
        let taken = taken.map(|from| from.sockets(false, listener.address));
        sockets.push(listen_with(
            taken.unwrap_or_default(),
            &mut listener.address,
            plan.workers,
        )?);
    }
    let admin_socket = match &mut plan.admin {
        Some(admin) => {
            let as_read = admin.address;
            let taken = from.as_mut().map(|from| from.sockets(true, as_read));
            let sockets = listen_with(taken.unwrap_or_default(), &mut admin.address, 1)?;
            let socket = sockets.into_iter().next();
            socket
                .iter()
                .for_each(|socket| listening.keep_admin(as_read, socket));
            socket.map(TcpListener::from_std).transpose()?
        }
        None => None,
    };
    let cluster_socket = match &mut plan.cluster {
        Some(cluster) => listen(&mut cluster.address, 1)?.into_iter().next(),
        None => None,
    };
    let icp = open_icp(&mut plan)?;
    // From here on nothing needs root.
    if let Some(user) = &plan.user {
        if let Some(candidates) = &candidates {
            candidates.give_to(user)?;
        }
        user::become_user(user)?;
    }
    let (engine, io_engine, io_engine_reason) = choose_engine(&plan, in_memory);
    let tls = tls(&plan)?;
    let mut taken_devices = Vec::new();
    let candidates = match (candidates, from.as_mut()) {
        (Some(candidates), _) => candidates,
        (None, Some(from)) => {
            taken_devices = from.freeze().map_err(ServeError::TakeOver)?;
            opening::look_at_passed(&plan, &taken_devices)?
        }
        (None, None) => opening::look(&plan, None)?,
    };
    let purges = plan.cluster.as_ref().map(purging::Opened::open);
    let purges = purges.transpose().map_err(ServeError::Purges)?;
    let candidates = match purges.as_ref().is_some_and(purging::Opened::is_fresh) {
        true => candidates.start_empty("there is no journal of the cluster's purges"),
        false => candidates,
    };
    let (opened, absent) = match from {
        Some(_) => candidates.open_unmarked(&plan)?,
        None => candidates.open(&plan)?,
    };
    let digests = Digests::new(&plan, opened.as_ref().map(|opened| &*opened.set))?;
    let served = served(&plan, &clock)?;
    let store_words = opened.as_ref().map(describe).unwrap_or_default();
    let seed = from.as_ref().and_then(Predecessor::hash_seed);
    let found = Found {
        opened: opened.as_ref(),
        absent,
        seed,
    };
    let mut shared = shared(plan, clock, found, io_engine, (tls.clone(), served))?;
    shared.listening = listening;
    shared.doors.send_replace(from.is_none());
    shared.upgrades = launch.map(Upgrades::by).unwrap_or_default();
    shared.is_process = is_process;
    shared.say_what_is_configured(words);
    let (reloads, asks) = Reloads::new();
    if reread.is_some() {
        shared.reloads = reloads;
    }
    let edition = shared.edition();
    let plan = &edition.plan;
    let as_read = configured.listeners.iter().map(|listener| listener.address);
    for ((id, as_read), sockets) in edition.ids.iter().zip(as_read).zip(sockets) {
        shared.listening.offer(*id, as_read, sockets, plan.workers);
    }
    // Somebody may come who listens, or a configuration that writes something.
    let may_listen = plan.admin.is_some() || reread.is_some();
    let journal = Journal::open(plan, shared.cache.keys_id(), may_listen);
    let mut journal = journal.map_err(|source| log_error(source, plan.user.as_ref()))?;
    shared.top = journal.top();
    shared.events = Arc::new(Events::new(&journal, shared.clock.clone()));
    let at = shared.events.unix_us();
    (shared.events).open_with(marks::of_start(at, plan, io_engine, &shared.cache));
    (shared.icp, shared.digests) = (icp.map(Arc::new), Arc::new(digests));
    if let (Some(cluster), Some(purges)) = (&shared.cluster, purges) {
        cluster.purging.set_journal(purges);
    }
    let shared = Arc::new(shared);
    let mut phases = shared.phase.subscribe();
    let stopper = Stopper(shared.phase.clone());

    // While another process still serves, all threads are started that can be without writing anything.
    let mut started = None;
    if let Some(taking) = from.as_mut() {
        started = Some(start_workers(&runtime, &shared, engine, &journal)?);
        let taken = taking.take_over(&taken_devices);
        let taken = taken.map_err(ServeError::TakeOver)?;
        for (store, held) in shared.cache.store.stores().zip(&taken.held) {
            store.protect(held);
        }
    }
    let taken_from = from.take();
    if let (Some(_), Some(opened)) = (&taken_from, &opened) {
        opened.mark()?;
    }
    let background_thread = match opened {
        Some(opened) => {
            let (wake_up, events) = (
                Arc::clone(&shared.cache.wake_up),
                Arc::clone(&shared.events),
            );
            let means = (engine, shared.edition().plan.storing.read_wait);
            let (background_thread, is_ready) =
                BackgroundThread::start(opened.stores, means, wake_up, events)?;
            runtime.block_on(await_ready(is_ready))?;
            Some(background_thread)
        }
        None => None,
    };
    let (threads, dealers) = match started {
        Some(started) => started,
        None => start_workers(&runtime, &shared, engine, &journal)?,
    };
    if taken_from.is_some() {
        step::at(Step::NewOpens);
    }
    shared.doors.send_replace(true);
    if let Some(from) = taken_from {
        from.listen_on(&shared)?;
    }
    let cluster_thread = start_cluster(&shared, cluster_socket, dealers, tls)?;
    let ready = Ready {
        listeners: plan.listeners.iter().map(|l| l.address).collect(),
        admin: plan.admin.as_ref().map(|a| a.address),
        icp: plan.icp.listen,
        cluster: plan.cluster.as_ref().map(|c| c.address),
        stores: store_words,
        io_engine,
        io_engine_reason,
        workers: plan.workers,
    };
    let seconds = Seconds::start(Arc::clone(&shared))?;
    if let Some(user) = &plan.user {
        user::verify(user)?;
    }
    on_ready(&ready, stopper.clone());
    manager.is_ready("edition 1 of the configuration");

    runtime.block_on(async {
        tokio::task::spawn_local(watch::run(Arc::clone(&shared)));
        if let Some(icp) = &shared.icp {
            tokio::task::spawn_local(answers::serve(Arc::clone(&shared), Arc::clone(icp)));
        }
        fetching::start(&shared.digests, plan);
        let upgrade: admin::Upgrade = |shared| Box::pin(successor::ask(shared));
        let admin = admin_socket.map(|socket| {
            tokio::task::spawn_local(admin::serve(Arc::clone(&shared), upgrade, socket))
        });
        tokio::task::spawn_local(upstreams::probe::run(shared.editions.subscribe(), looks_of));
        if let Some(reread) = reread {
            let logs = journal.log_files(shared.cache.keys_id());
            let manager = Rc::clone(&manager);
            let control = Control::new(Arc::clone(&shared), reread, configured, logs, manager);
            tokio::task::spawn_local(control.run(asks));
            tokio::task::spawn_local(reload::renewing::run(Arc::clone(&shared)));
            tokio::task::spawn_local(reload::ordering::run(Arc::clone(&shared)));
        }
        if let Some(every) = manager.watchdog() {
            tokio::task::spawn_local(tell_that_we_are_well(
                Arc::clone(&shared),
                Rc::clone(&manager),
                every,
            ));
        }
        if let Some(signals) = signals {
            let obeying = signals.obey(Arc::clone(&shared), stopper, journal.reopener());
            tokio::task::spawn_local(obeying);
        }
        let _ = phases.wait_for(|p| *p >= Phase::Draining).await;
        shared.listening.forget_all();
        // Another process is the service then.
        if !shared.is_handed_over.load(Ordering::SeqCst) {
            manager.stops();
        }
        let limit = shared.edition().plan.timeouts.drain;
        drain(limit, &shared.phase, &threads).await;
        if let (Some(admin), true) = (admin, shared.is_handed_over.load(Ordering::SeqCst)) {
            // Whoever has asked for the upgrade waits for an answer.
            let _ = tokio::time::timeout(ADMIN_ENDS_MAX, admin).await;
        }
    });
    let succeeded = shared.upgrades.end();
    drop(_inside);
    drop(runtime);
    seconds.stop();
    if let Some(thread) = cluster_thread {
        thread.stop();
    }
    // Before the stores, whose devices may take long.
    shared.events.flush();
    let closed = background_thread
        .map(BackgroundThread::close)
        .unwrap_or_default();
    // Behind them: the last clusters are written while they are closed.
    shared
        .events
        .mark(MarkKind::Stop, &marks::stop(shared.began));
    shared.events.flush();
    journal.stop();
    tell_how_they_closed(&shared.cache.devices, closed);
    succeeded.map_err(ServeError::Successor)
}

/// How long the admin interface may take to end its answers, once another process has taken over.
const ADMIN_ENDS_MAX: Duration = Duration::from_secs(2);

/// Says so as long as all threads move: a manager that hears nothing starts the process anew.
async fn tell_that_we_are_well(shared: Arc<Shared>, manager: Rc<Manager>, every: Duration) {
    loop {
        if watch::standstill(&shared).is_none() {
            manager.is_well();
        }
        tokio::time::sleep(every).await;
    }
}

/// What a start has found of stores.
pub(crate) struct Found<'a> {
    /// Those that are open.
    pub opened: Option<&'a Opened>,
    /// Those that are not.
    pub absent: Vec<Absent>,
    /// Without a store: what key hashes are seeded with, if another process has chosen it.
    pub seed: Option<u64>,
}

/// What all threads of a proxy share.
///
/// # Errors
/// The system gives no random numbers.
pub(crate) fn shared(
    plan: Plan,
    clock: Clock,
    found: Found<'_>,
    io_engine: &'static str,
    (tls, served): (Tls, Vec<Option<Arc<ServedTls>>>),
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
        doors: state_watch::Sender::new(true),
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
        peers: Peers::new(plan, edition.own_addresses.clone(), &edition.via_line),
        icp: None,
        cluster: Cluster::new(plan, opened.map(|opened| &*opened.set))
            .map_err(StoreError::Random)?
            .map(Arc::new),
        digests: Arc::default(),
        connections: AtomicUsize::new(0),
        streams: AtomicUsize::new(0),
        stream_head_bytes: AtomicU64::new(0),
        phase: state_watch::channel(Phase::Running).0,
        began: Instant::now(),
        clock,
        io_engine,
        editions: state_watch::Sender::new(Arc::new(edition)),
    })
}

fn start_workers(
    runtime: &LocalRuntime,
    shared: &Arc<Shared>,
    engine: EngineKind,
    journal: &Journal,
) -> Result<(Vec<JoinHandle<()>>, Dealers), ServeError> {
    let (dealers, receivers) = Dealers::new(shared.counters.len());
    let mut threads = Vec::new();
    let mut readies = Vec::new();
    for (index, dealt) in receivers.into_iter().enumerate() {
        let (ready, is_ready) = oneshot::channel();
        let start = worker::Start {
            shared: Arc::clone(shared),
            index,
            engine,
            journal: journal.writer(),
            dealt,
            dealers: dealers.clone(),
        };
        threads.push(worker::spawn(start, ready)?);
        readies.push(is_ready);
    }
    runtime.block_on(async {
        for ready in readies {
            await_ready(ready).await?;
        }
        Ok::<_, ServeError>(())
    })?;
    Ok((threads, dealers))
}

/// The thread of our cluster, if there is one.
fn start_cluster(
    shared: &Arc<Shared>,
    socket: Option<net::TcpListener>,
    dealers: Dealers,
    tls: Tls,
) -> Result<Option<ClusterThread>, ServeError> {
    let (Some(cluster), Some(socket)) = (&shared.cluster, socket) else {
        return Ok(None);
    };
    let edition = shared.edition();
    let start = cluster::Start {
        local: shared.local_cache(),
        cluster: Arc::clone(cluster),
        counters: shared.counters.clone(),
        phases: shared.phase.subscribe(),
        listeners: edition.ids.clone(),
        rules: shared.peers.rules.clone(),
        dns: edition.plan.dns.clone(),
        socket,
        dealers,
        connecting: (connector_settings(&edition.plan), tls),
    };
    Ok(Some(ClusterThread::start(start)?))
}

/// Waits until a thread says that it has come up.
pub(crate) async fn await_ready(
    ready: oneshot::Receiver<Result<(), String>>,
) -> Result<(), ServeError> {
    match ready.await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(reason)) => Err(ServeError::Worker(reason)),
        Err(_) => Err(ServeError::Worker("it ended at once".into())),
    }
}

/// The servers of upstreams that are looked at with this configuration.
fn looks_of(edition: &Edition) -> Looks {
    Looks {
        upstreams: edition.upstreams.clone(),
        own_addresses: edition.own_addresses.clone(),
        limits: edition.response_limits,
        connecting: (connector_settings(&edition.plan), edition.tls.clone()),
    }
}
