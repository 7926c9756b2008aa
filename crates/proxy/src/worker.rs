//! A worker thread: one runtime, its connections, its ring.
//!
//! It accepts connections on its own sockets, or gets them from a worker that has more (`accepting`); from then on a connection stays with
//! its worker. A tick every tenth of a second writes clusters that have waited long enough, ends overdue waits, and once a second does
//! housekeeping.

mod connections;

use std::{
    rc::Rc,
    sync::Arc,
    thread::{self, JoinHandle},
    time::Duration,
};

use device::{Engine, EngineError, EngineKind};
use tokio::{
    runtime::{self, LocalOptions},
    sync::{mpsc, oneshot, watch},
    time::{MissedTickBehavior, interval},
};

use self::connections::Connections;
use crate::connecting::connector;
use base::{
    accepting::{Dealers, Dealt},
    clock::Instant,
    phase::Phase,
};
use cache::{disk::DiskIo, lazy::LazyReads};
use exchange::{
    edition::Edition,
    fetch::probing::Probes,
    state::{Shared, Worker},
};
use record::{events::Events, journal::JournalWriter, lag, metrics::Counters};

const TICK: Duration = Duration::from_millis(100);
const TICKS_A_SECOND: u32 = 10;

/// The inputs of a worker.
pub struct Start {
    /// The state that all workers share.
    pub shared: Arc<Shared>,
    /// The worker's number.
    pub index: usize,
    /// The I/O engine of the stores' devices.
    pub engine: EngineKind,
    /// The worker's end of the journal.
    pub journal: JournalWriter,
    /// Connections that other workers deal to this one.
    pub dealt: mpsc::Receiver<Dealt>,
    /// Deals connections to other workers.
    pub dealers: Dealers,
}

impl Start {
    /// An engine for each store, and the shell around them.
    fn disk(&self) -> Result<Option<DiskIo>, EngineError> {
        let shared = &self.shared;
        if !shared.cache.has_disk {
            return Ok(None);
        }
        let edition = shared.edition();
        let storing = &edition.plan.storing;
        let mut reads = Vec::new();
        for (store, (device, queue)) in shared
            .cache
            .devices
            .iter()
            .zip(&shared.cache.read_queues)
            .enumerate()
        {
            let engine = Engine::new(self.engine, Arc::clone(device))?;
            engine.start();
            let deadline = storing.lazy_reads_deadline;
            let (engine, queue) = (Rc::new(engine), Arc::clone(queue));
            let of_device = LazyReads::new(engine, storing.lazy_reads, deadline, queue);
            reads.push(of_device.noted(Arc::clone(&shared.events), store));
        }
        let disk = DiskIo::new(
            Arc::clone(&shared.cache.store),
            reads,
            (
                Arc::clone(&shared.counters[self.index]),
                Arc::clone(&shared.events),
            ),
            Arc::clone(&shared.cache.wake_up),
            storing,
            shared.clock.clone(),
        );
        Ok(Some(
            disk.telling(&shared.digests)
                .judged_by(&shared.cache.memory.companions),
        ))
    }
}

/// Starts a worker. `ready` receives its readiness, or why it could not start.
pub fn spawn(
    start: Start,
    ready: oneshot::Sender<Result<(), String>>,
) -> std::io::Result<JoinHandle<()>> {
    thread::Builder::new()
        .name(format!("worker-{}", start.index))
        .spawn(move || {
            let runtime = runtime::Builder::new_current_thread()
                .enable_all()
                .build_local(LocalOptions::default());
            match runtime {
                Ok(runtime) => runtime.block_on(run(start, ready)),
                Err(error) => {
                    let _ = ready.send(Err(error.to_string()));
                }
            }
        })
}

/// Runs a worker on this thread's runtime until the process stops.
pub async fn run(start: Start, ready: oneshot::Sender<Result<(), String>>) {
    let disk = match start.disk() {
        Ok(disk) => disk,
        Err(error) => {
            let _ = ready.send(Err(error.to_string()));
            return;
        }
    };
    let shared = start.shared;
    let edition = shared.edition();
    let connector =
        connector(&edition).in_cluster(shared.cluster.clone().map(|cluster| cluster as _));
    let worker = Rc::new(Worker::new(
        Arc::clone(&shared),
        start.index,
        disk,
        connector,
        start.journal,
    ));
    #[cfg(feature = "simulation")]
    crate::simulation::workers::register(&worker);
    let connections = Rc::new(Connections::new(Rc::clone(&worker), start.dealers));
    // Subscribe before adopting the first edition, so that no later one is missed.
    let editions = shared.editions.subscribe();
    if !begin(&connections, ready).await {
        return;
    }
    let measuring = tokio::task::spawn_local(measure_lag(
        Arc::clone(&shared.events),
        Arc::clone(&worker.counters),
    ));
    serve(&connections, start.dealt, editions).await;
    if let Some(disk) = &worker.storage.disk {
        disk.settle().await;
    }
    measuring.abort();
    worker.every_second();
}

/// Adopts the first edition as soon as workers may accept. False: that failed.
async fn begin(connections: &Rc<Connections>, ready: oneshot::Sender<Result<(), String>>) -> bool {
    let mut doors = connections.worker.shared.doors.subscribe();
    if *doors.borrow_and_update() {
        let followed = connections.follow().map_err(|error| error.to_string());
        let has_begun = followed.is_ok();
        let _ = ready.send(followed);
        return has_begun;
    }
    // Another process still serves. All steps of this worker that can fail have succeeded.
    let _ = ready.send(Ok(()));
    let _ = doors.wait_for(|are_open| *are_open).await;
    if let Err(error) = connections.follow() {
        tracing::error!(%error, "a listener cannot be used by a worker");
    }
    true
}

/// Serves connections and does periodic work, until the process drains and all connections and fetches have ended.
async fn serve(
    connections: &Rc<Connections>,
    mut dealt: mpsc::Receiver<Dealt>,
    mut editions: watch::Receiver<Arc<Edition>>,
) {
    let worker = &connections.worker;
    let mut due = Due::new(Rc::clone(worker));
    let mut phase = worker.shared.phase.subscribe();
    let mut tick = interval(TICK);
    tick.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let (mut is_draining, mut drains_since) = (false, None);
    loop {
        tokio::select! {
            // In this order, so that a flood of connections cannot delay the tick.
            biased;
            _ = tick.tick() => {
                connections.clear_away();
                due.tick();
            }
            _ = phase.changed() => {
                if *phase.borrow() == Phase::Stopping {
                    connections.cut();
                }
            }
            _ = editions.changed() => {
                if let Err(error) = connections.follow() {
                    tracing::error!(%error, "a listener of the new configuration cannot be used by a worker");
                }
            }
            Some(new) = dealt.recv() => connections.take_dealt(new),
            // Only during a drain does the end of a connection need a wake-up; otherwise the tick removes ended ones.
            () = connections.one_ended(), if is_draining && !connections.is_empty() => {}
        }
        let now = *phase.borrow();
        is_draining = now >= Phase::Draining;
        if is_draining {
            connections.accept_no_more();
            let since = *drains_since.get_or_insert_with(Instant::now);
            connections.end_idle(now, since);
            while let Ok(new) = dealt.try_recv() {
                connections.take_dealt(new);
            }
            let has_fetches = worker.fetches.get() > 0 && now != Phase::Stopping;
            if connections.is_empty() && !has_fetches {
                break;
            }
        }
    }
}

/// The work of each tick, and of each second.
struct Due {
    worker: Rc<Worker>,
    ticks: u32,
    /// Present in the first worker, which probes for all.
    probes: Option<Probes>,
}

impl Due {
    fn new(worker: Rc<Worker>) -> Due {
        Due {
            probes: (worker.index == 0).then(|| Probes::new(&worker)),
            ticks: 0,
            worker,
        }
    }

    fn tick(&mut self) {
        let worker = &self.worker;
        worker.shared.pulses[worker.index].beat();
        if let Some(disk) = &worker.storage.disk {
            disk.tick();
        }
        let now = Instant::now();
        worker.deadlines.sweep(now);
        worker.heads.sweep(now);
        self.ticks = self.ticks.wrapping_add(1);
        if self.ticks.is_multiple_of(TICKS_A_SECOND) {
            worker.every_second();
            if let (0, Some(pushing)) = (worker.index, &worker.pushing) {
                pushing.every_second(now);
            }
            if let Some(probes) = &mut self.probes {
                probes.tick(worker, now);
            }
        }
    }
}

/// Records how late this worker's timers are, while a profile is wanted.
async fn measure_lag(events: Arc<Events>, counters: Arc<Counters>) {
    loop {
        if !events.are_wanted() {
            tokio::time::sleep(Duration::from_secs(1)).await;
            continue;
        }
        let due = Instant::now() + lag::TIMER;
        tokio::time::sleep_until(due).await;
        counters.lag.note(due.elapsed());
    }
}
