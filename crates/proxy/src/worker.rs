//! A worker thread: one runtime, its connections, its ring.
//!
//! It accepts connections on sockets of its own, or is dealt them by a worker that has more (`accepting`); from then on a
//! connection never leaves its worker. A tick every tenth of a second writes out clusters that have waited long
//! enough, ends waits that are over due, and once a second lets go of what has grown old.

use base::clock::Instant;
use std::{
    cell::RefCell,
    future::poll_fn,
    net::SocketAddr,
    rc::Rc,
    sync::{Arc, atomic::Ordering},
    thread::{self, JoinHandle},
    time::Duration,
};

use device::{Engine, EngineError, EngineKind};
use tokio::{
    net::TcpStream,
    runtime::{self, LocalOptions},
    sync::{mpsc, oneshot},
    task::JoinSet,
    time::{MissedTickBehavior, interval},
};

use base::accepting::{Dealers, Dealt};
use base::{
    listening::ListenerId,
    member::MemberId,
    phase::Phase,
    socket::{self, Socket},
};
use cache::{disk::DiskIo, lazy::LazyReads};
use exchange::{
    conn::client,
    edition::Edition,
    fetch::probing::Probes,
    listener::listener_states,
    state::{Shared, Worker},
};
use origin::{Connector, Settings};
use plan::Plan;
use record::{journal::JournalWriter, lag};

const TICK: Duration = Duration::from_millis(100);
const TICKS_A_SECOND: u32 = 10;

/// How long nothing is accepted after that has failed.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// How long connections are expected of a listener that has gone, from a worker that does not know of it yet.
const GONE_KEPT: Duration = Duration::from_secs(30);

/// What a worker is started with.
pub struct Start {
    /// What all share.
    pub shared: Arc<Shared>,
    /// Which worker.
    pub index: usize,
    /// How the stores' devices are read and written.
    pub engine: EngineKind,
    /// Its end of the journal.
    pub journal: JournalWriter,
    /// What others deal to it,
    pub dealt: mpsc::Receiver<Dealt>,
    /// and the way to them.
    pub dealers: Dealers,
}

/// Starts a worker; its readiness, or why it could not start, comes back.
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

/// A worker on this thread's runtime, until the process stops.
pub async fn run(start: Start, ready: oneshot::Sender<Result<(), String>>) {
    let mut dealt = start.dealt;
    let shared = Arc::clone(&start.shared);
    let disk = match disk_of(&shared, start.index, start.engine) {
        Ok(disk) => disk,
        Err(error) => {
            let _ = ready.send(Err(error.to_string()));
            return;
        }
    };
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
    crate::simulation::register(&worker);
    let house = Rc::new(House {
        worker: Rc::clone(&worker),
        connections: RefCell::default(),
        dealers: start.dealers,
        doors: RefCell::default(),
        accepting: RefCell::default(),
    });
    let mut editions = shared.editions.subscribe();
    let mut doors = shared.doors.subscribe();
    if *doors.borrow_and_update() {
        if let Err(error) = house.follow() {
            let _ = ready.send(Err(error.to_string()));
            return;
        }
        let _ = ready.send(Ok(()));
    } else {
        // Another process still serves. Whatever could fail here has succeeded.
        let _ = ready.send(Ok(()));
        let _ = doors.wait_for(|are_open| *are_open).await;
        if let Err(error) = house.follow() {
            tracing::error!(%error, "a listener cannot be used by a worker");
        }
    }
    let measuring = tokio::task::spawn_local(measure_lag(Rc::clone(&worker)));

    let mut probes = (start.index == 0).then(|| Probes::new(&worker));
    let mut phase = shared.phase.subscribe();
    let mut tick = interval(TICK);
    tick.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let mut ticks = 0u32;
    let (mut is_draining, mut drains_since) = (false, None);
    loop {
        tokio::select! {
            // In this order, so that no flood of connections keeps the tick waiting.
            biased;
            _ = tick.tick() => {
                shared.pulses[start.index].beat();
                house.clear_away();
                ticks = ticks.wrapping_add(1);
                if let Some(disk) = &worker.storage.disk {
                    disk.tick();
                }
                let now = Instant::now();
                worker.deadlines.sweep(now);
                worker.heads.sweep(now);
                if ticks.is_multiple_of(TICKS_A_SECOND) {
                    worker.every_second();
                    if let (0, Some(pushing)) = (worker.index, &worker.pushing) {
                        pushing.every_second(now);
                    }
                    if let Some(probes) = &mut probes {
                        probes.tick(&worker, now);
                    }
                }
            }
            _ = phase.changed() => {
                let now = *phase.borrow();
                if now >= Phase::Draining && ends_idle(&shared, None) {
                    worker.deadlines.drain();
                }
                if now == Phase::Stopping {
                    house.connections.borrow_mut().abort_all();
                }
            }
            _ = editions.changed() => {
                if let Err(error) = house.follow() {
                    tracing::error!(%error, "a listener of the new configuration cannot be used by a worker");
                }
            }
            Some(new) = dealt.recv() => house.take_dealt(new),
            // Only now is each end of one worth a wake-up; before, the tick clears away what has ended.
            () = house.one_ended(), if is_draining && !house.is_empty() => {}
        }
        is_draining = *phase.borrow() >= Phase::Draining;
        if is_draining {
            house.accepting.borrow_mut().abort_all();
            let since = *drains_since.get_or_insert_with(Instant::now);
            if ends_idle(&shared, Some(since)) {
                worker.deadlines.drain();
            }
            while let Ok(new) = dealt.try_recv() {
                house.take_dealt(new);
            }
            let stopping = *phase.borrow() == Phase::Stopping;
            if house.is_empty() && (worker.fetches.get() == 0 || stopping) {
                break;
            }
        }
    }
    if let Some(disk) = &worker.storage.disk {
        disk.settle().await;
    }
    measuring.abort();
    worker.every_second();
}

/// How long idle connections stay open once another process has taken over: a client that has just sent a request on one would find it cut.
/// Its next answer says that the connection closes.
const IDLE_AFTER_HAND_OVER: Duration = Duration::from_secs(5);

/// Are idle connections closed now, in a process that drains since then?
fn ends_idle(shared: &Shared, since: Option<Instant>) -> bool {
    let is_handed_over = shared.is_handed_over.load(Ordering::Relaxed);
    let is_over = since.is_some_and(|since| since.elapsed() >= IDLE_AFTER_HAND_OVER);
    !is_handed_over || is_over || *shared.phase.borrow() == Phase::Stopping
}

/// Notes how late this worker's timers are, while that is wanted.
async fn measure_lag(worker: Rc<Worker>) {
    loop {
        if !worker.shared.events.are_wanted() {
            tokio::time::sleep(Duration::from_secs(1)).await;
            continue;
        }
        let due = Instant::now() + lag::TIMER;
        tokio::time::sleep_until(due).await;
        worker.counters.lag.note(due.elapsed());
    }
}

/// An engine for each store, and the shell around them.
fn disk_of(
    shared: &Arc<Shared>,
    index: usize,
    kind: EngineKind,
) -> Result<Option<DiskIo>, EngineError> {
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
        let engine = Engine::new(kind, Arc::clone(device))?;
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
            Arc::clone(&shared.counters[index]),
            Arc::clone(&shared.events),
        ),
        Arc::clone(&shared.cache.wake_up),
        storing,
        shared.clock.clone(),
    );
    Ok(Some(disk.telling(&shared.digests)))
}

/// The connections of a worker, and how they come in.
struct House {
    worker: Rc<Worker>,
    connections: RefCell<JoinSet<()>>,
    dealers: Dealers,
    /// What each listener's socket is told by being dropped: that the listener has gone.
    doors: RefCell<Vec<(ListenerId, oneshot::Sender<()>)>>,
    accepting: RefCell<JoinSet<()>>,
}

impl House {
    /// Takes over the edition that is in force. What is being answered ends as it began.
    fn follow(self: &Rc<Self>) -> std::io::Result<()> {
        let (worker, shared) = (&self.worker, &self.worker.shared);
        let edition = shared.edition();
        if edition.number == worker.edition.get() {
            return Ok(());
        }
        let is_first = worker.edition.get() == 0;
        let listeners = listener_states(&edition, shared.cache.hasher());
        let before = worker.listeners.replace(listeners);
        worker.edition.set(edition.number);
        let stays = |id: ListenerId| edition.ids.contains(&id);
        let now = Instant::now();
        let gone = before.into_iter().filter(|listener| !stays(listener.id));
        let mut lately = worker.gone.borrow_mut();
        lately.retain(|(since, _)| now.duration_since(*since) < GONE_KEPT);
        lately.extend(gone.map(|listener| (now, listener)));
        drop(lately);
        if !is_first {
            let settings = connector_settings(&edition.plan);
            worker
                .origin
                .connector
                .follow(settings, edition.tls.clone());
            let mut journal = worker.journal.borrow_mut();
            journal.follow(edition.plan.logs.have_access() || shared.top.is_some());
            worker.logs_access.set(journal.wants_access());
        }
        // Dropped, they tell.
        self.doors.borrow_mut().retain(|(id, _)| stays(*id));
        worker.deadlines.end_idle(|id| !stays(id));
        let opened = self.open(&edition);
        shared.followed[worker.index].store(edition.number, Ordering::Release);
        opened
    }

    /// Accepts for listeners that are new.
    fn open(self: &Rc<Self>, edition: &Edition) -> std::io::Result<()> {
        let (worker, mut failure) = (&self.worker, Ok(()));
        while self.accepting.borrow_mut().try_join_next().is_some() {}
        for &id in &edition.ids {
            for socket in worker.shared.listening.take(id, worker.index) {
                match tokio::net::TcpListener::from_std(socket) {
                    Ok(socket) => {
                        let (door, closed) = oneshot::channel();
                        self.doors.borrow_mut().push((id, door));
                        let accepting = accept(Rc::clone(self), id, socket, closed);
                        self.accepting.borrow_mut().spawn_local(accepting);
                    }
                    Err(error) => failure = Err(error),
                }
            }
        }
        failure
    }

    /// Serves a connection, if its client may be served.
    fn take(
        &self,
        listener: ListenerId,
        stream: Socket,
        peer: SocketAddr,
        member: Option<MemberId>,
    ) {
        let Some(listener) = self.worker.listener_of_accepted(listener) else {
            return;
        };
        let Some(count) = client::admit(&self.worker, &listener, peer, member.is_some()) else {
            return;
        };
        let worker = Rc::clone(&self.worker);
        self.connections
            .borrow_mut()
            .spawn_local(client::serve(worker, listener, stream, peer, member, count));
    }

    /// Keeps what was accepted, or deals it to a worker that has less to do.
    fn accepted(self: &Rc<Self>, listener: ListenerId, stream: TcpStream, peer: SocketAddr) {
        let others = &self.worker.shared.counters;
        let stream = socket::of(stream);
        match self
            .dealers
            .other_than(self.worker.index, record::metrics::open_of(others))
        {
            None => self.take(listener, stream, peer, None),
            Some(other) => self.deal(other, listener, stream, peer),
        }
    }

    fn take_dealt(self: &Rc<Self>, dealt: Dealt) {
        // The worker that deals may know an edition that we have not taken over yet.
        if self.worker.listener_of_accepted(dealt.listener).is_none()
            && let Err(error) = self.follow()
        {
            tracing::error!(%error, "a listener of the new configuration cannot be used by a worker");
        }
        match socket::attach(dealt.stream) {
            Ok(stream) => self.take(dealt.listener, stream, dealt.peer, dealt.member),
            Err(error) => tracing::warn!(%error, "a connection could not be taken over"),
        }
    }

    /// Deals a connection to another worker. It comes back to us if that takes no more.
    fn deal(self: &Rc<Self>, to: usize, listener: ListenerId, stream: Socket, peer: SocketAddr) {
        let Ok(stream) = socket::detach(stream) else {
            return;
        };
        let dealt = Dealt {
            listener,
            stream,
            peer,
            member: None,
        };
        if let Err(back) = self.dealers.deal(to, dealt) {
            self.take_dealt(back);
        }
    }

    fn is_empty(&self) -> bool {
        self.connections.borrow().is_empty()
    }

    /// Waits until a connection has ended.
    async fn one_ended(&self) {
        let _ = poll_fn(|cx| self.connections.borrow_mut().poll_join_next(cx)).await;
    }

    /// Lets go of connections that have ended.
    fn clear_away(&self) {
        let mut connections = self.connections.borrow_mut();
        while connections.try_join_next().is_some() {}
    }
}

/// Accepts for one listener, until it goes.
async fn accept(
    house: Rc<House>,
    listener: ListenerId,
    socket: tokio::net::TcpListener,
    mut closed: oneshot::Receiver<()>,
) {
    loop {
        let accepted = tokio::select! {
            biased;
            _ = &mut closed => break,
            accepted = socket.accept() => accepted,
        };
        match accepted {
            Ok((stream, peer)) => house.accepted(listener, stream, peer),
            Err(error) => {
                // Out of descriptors, most likely: give connections time to end instead of spinning.
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    let worker = &house.worker;
    worker.shared.listening.forget(listener, worker.index);
    // What waits in the kernel would be reset with the socket.
    let Ok(socket) = socket.into_std() else {
        return;
    };
    while let Ok((stream, peer)) = socket.accept() {
        let stream = stream
            .set_nonblocking(true)
            .and(TcpStream::from_std(stream));
        if let Ok(stream) = stream {
            house.take(listener, socket::of(stream), peer, None);
        }
    }
}

/// Connections as this edition makes them.
pub fn connector(edition: &Edition) -> Connector {
    Connector::new(connector_settings(&edition.plan), edition.tls.clone())
}

/// How connections are made and kept.
pub fn connector_settings(plan: &Plan) -> Settings {
    Settings {
        connect_timeout: plan.timeouts.connect,
        dns: origin::DnsSettings {
            servers: plan.dns.servers.clone(),
            timeout: plan.dns.timeout,
            attempts: plan.dns.attempts,
            ttl_min: plan.dns.ttl_min,
            ttl_max: plan.dns.ttl_max,
            negative_ttl_max: plan.dns.negative_ttl_max,
            names_max: plan.dns.names_max,
        },
        pool: origin::Limits {
            per_destination_max: plan.pool.per_origin_max,
            idle_per_destination_max: plan.pool.idle_per_origin_max,
            idle_max: plan.pool.idle_max,
            // Who waits costs no more than its connection, and is a client of ours: a stall of the origin by a tenth of a second
            // brings thousands.
            waiting_per_destination_max: plan.limits.connections_max.max(1),
            idle_timeout: plan.timeouts.pool_idle,
            max_age: plan.pool.max_age,
        },
        failure_ttl: plan.cache.unreachable_ttl,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_may_wait_for_an_origin_as_there_may_be_clients() {
        let mut plan = Plan::with_listeners(Vec::new());
        plan.limits.connections_max = 5000;
        plan.limits.waiters_max = 3;
        let pool = connector_settings(&plan).pool;
        assert_eq!(pool.waiting_per_destination_max, 5000);
        assert_eq!(pool.per_destination_max, plan.pool.per_origin_max);
        assert_eq!(pool.idle_per_destination_max, plan.pool.per_origin_max);
    }
}
