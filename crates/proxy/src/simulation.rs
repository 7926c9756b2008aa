//! The proxy in a simulation: all threads as tasks of one runtime, on devices and a network in memory.
//!
//! The simulation runs the product's own code: workers (`worker::run`), the stores' background work, the watch over devices. Connections
//! arrive in the way that workers deal them to each other, so no socket listens. Time is the runtime's virtual time, which advances only
//! when no task can run; random numbers come from a seed.
//!
//! Dropping the [`LocalSet`](tokio::task::LocalSet) with its tasks kills a proxy: all work stops where it is.
//!
//! Not known here: the requests, the expected results.

pub(crate) mod workers;

use std::{
    cell::RefCell,
    net::SocketAddr,
    rc::{Rc, Weak},
    sync::Arc,
    time::Duration,
};

use device::{Device, EngineKind};
use tokio::{
    sync::{oneshot, watch},
    task::JoinHandle,
};

use crate::{
    serve::{
        ServeError,
        sharing::{self, Found},
        threads::await_ready,
    },
    worker,
};
use admin::health;
use base::accepting::{Dealers, Dealt};
use base::{clock::Clock, phase::Phase, socket};
use cache::{background, opening};
use exchange::{
    listener::{ListenerState, listener_states},
    request::purge,
    state::{Shared, Worker},
};
use origin::Tls;
use plan::Plan;
use record::journal::Journal;

pub use base::socket::{
    Socket,
    memory::{Connection, pair, set_network},
    reset_when_closed,
};

/// From now on random numbers and wall time on this thread follow from the arguments. To be called inside a runtime with virtual time.
pub fn begin(seed: u64, unix: Duration) {
    base::chance::follow_seed(seed);
    base::clock::follow_virtual_time(unix);
}

/// Stops the background work, and returns its result for each store.
type Background = (watch::Sender<bool>, JoinHandle<Vec<Result<(), String>>>);

/// A running proxy.
pub struct Proxy {
    shared: Arc<Shared>,
    listeners: Vec<Rc<ListenerState>>,
    dealers: Dealers,
    workers: RefCell<Vec<JoinHandle<()>>>,
    known: Vec<Weak<Worker>>,
    background: RefCell<Option<Background>>,
}

impl Proxy {
    /// Starts a proxy on these devices, one for each of the plan's stores. To be called in the [`LocalSet`](tokio::task::LocalSet) that
    /// its tasks are to run in.
    ///
    /// # Errors
    /// As for [`crate::start`].
    pub async fn start(plan: Plan, devices: Vec<Arc<Device>>) -> Result<Proxy, ServeError> {
        let candidates = opening::look(&plan, Some(devices))?;
        let (opened, absent) = candidates.open(&plan)?;
        let clock = Clock::default();
        let shared = sharing::shared(
            plan,
            clock,
            Found {
                opened: opened.as_ref(),
                absent,
                seed: None,
            },
            "simulated",
            (Tls::only(Vec::new()).into(), Vec::new()),
        )?;
        let journal = Journal::open(&shared.edition().plan, shared.cache.keys_id(), false);
        let journal = journal.map_err(ServeError::Log)?;
        let shared = Arc::new(shared);
        let background = match opened {
            Some(opened) => {
                let (stop, stopped) = watch::channel(false);
                let (ready, is_ready) = oneshot::channel();
                let wake_up = Arc::clone(&shared.cache.wake_up);
                let ready = (ready, shared.edition().plan.storing.read_wait);
                let task =
                    background::as_task(opened.stores, wake_up, Arc::default(), stopped, ready);
                let task = tokio::task::spawn_local(task);
                await_ready(is_ready).await?;
                Some((stop, task))
            }
            None => None,
        };
        workers::taken();
        let count = shared.edition().plan.workers;
        let (dealers, receivers) = Dealers::new(count);
        let mut workers = Vec::new();
        for (index, dealt) in receivers.into_iter().enumerate() {
            let start = worker::Start {
                shared: Arc::clone(&shared),
                index,
                engine: EngineKind::Auto,
                journal: journal.writer(),
                dealt,
                dealers: dealers.clone(),
            };
            workers.push(start_worker(start).await?);
        }
        tokio::task::spawn_local(health::watch::run(Arc::clone(&shared)));
        let editions = shared.editions.subscribe();
        tokio::task::spawn_local(upstreams::probe::run(
            editions,
            crate::serve::running::looks_of,
        ));
        Ok(Proxy {
            listeners: listener_states(&shared.edition(), shared.cache.hasher()),
            shared,
            dealers,
            workers: RefCell::new(workers),
            known: workers::taken(),
            background: RefCell::new(background),
        })
    }

    /// Connects a client to a listener, on a worker. Each direction of the connection buffers `room` bytes. `None`: there is no listener.
    pub fn connect(
        &self,
        worker: usize,
        listener: usize,
        peer: SocketAddr,
        room: usize,
    ) -> Option<Socket> {
        let address = self.listeners.get(listener)?.listener.address;
        let (ours, theirs) = pair(address, peer, room);
        let dealt = Dealt {
            listener: self.listeners.get(listener)?.id,
            stream: socket::detach(ours).ok()?,
            peer,
            member: None,
        };
        let is_taken = !self.shared.is_draining() && self.dealers.deal(worker, dealt).is_ok();
        is_taken.then_some(theirs)
    }

    /// Carries out `DELETE /cache?QUERY` of the admin interface. Returns whether the purge is durable.
    ///
    /// # Errors
    /// The query is malformed.
    pub async fn purge(&self, query: &str) -> Result<bool, &'static str> {
        let order = purge::order_of_query(Some(query))?;
        let purged = purge::purge(&self.shared, &self.listeners, &order).await?;
        Ok(purged.durable)
    }

    /// Is the scan after an unclean stop complete in all stores?
    pub fn is_recovered(&self) -> bool {
        let mut stores = self.shared.cache.store.stores();
        stores.all(|store| store.recovery().is_none())
    }

    /// Some counters, for reports.
    pub fn counted(&self) -> Vec<(&'static str, u64)> {
        let mut all = Vec::new();
        for counters in &self.shared.counters {
            let load =
                |n: &std::sync::atomic::AtomicU64| n.load(std::sync::atomic::Ordering::Relaxed);
            all.push(("joined fetches", load(&counters.flights_joined)));
            all.push((
                "validated with 304",
                load(&counters.revalidations_not_modified),
            ));
            all.push(("reads of disks", load(&counters.disk_reads)));
            all.push(("stored objects", load(&counters.stored_objects)));
        }
        all
    }

    /// Resources still held without any request; to be called some seconds after the last one.
    pub fn leftovers(&self) -> Vec<String> {
        let shared = &self.shared;
        let mut left = Vec::new();
        let mut count = |what: &str, n: u64| {
            if n > 0 {
                left.push(format!("{what}: {n}"));
            }
        };
        let connections = shared
            .connections
            .load(std::sync::atomic::Ordering::Relaxed);
        count("client connections", connections as u64);
        let streams = shared.streams.load(std::sync::atomic::Ordering::Relaxed);
        count("streams with a task", streams as u64);
        count("fetches in the table", shared.flights.listed() as u64);
        count("bytes of bodies on their way", shared.ledger.bytes());
        count("bytes of incomplete heads", shared.heads.bytes());
        for worker in self.known.iter().filter_map(Weak::upgrade) {
            count("fetches under way", worker.fetches.get() as u64);
            let pool = worker.origin.connector.pool();
            count("origin connections in use", pool.in_use() as u64);
            count(
                "requests waiting for an origin connection",
                pool.waiting() as u64,
            );
        }
        for store in shared.cache.store.stores() {
            let figures = store.figures();
            count("pinned records", figures.reads_pinned);
            count("bytes needed by answers", figures.needed_bytes);
        }
        let audits = shared.cache.store.stores().map(|store| store.audit());
        left.extend(audits.filter_map(Result::err));
        left
    }

    /// Stops in order, as after SIGTERM: requests in progress may end within the drain time. Returns the result for each store.
    pub async fn stop(&self) -> Vec<Result<(), String>> {
        self.shared.phase.send_replace(Phase::Draining);
        let drain = self.shared.edition().plan.timeouts.drain;
        let mut workers = self.workers.take();
        let ended = async {
            for worker in &mut workers {
                let _ = worker.await;
            }
        };
        if tokio::time::timeout(drain, ended).await.is_err() {
            self.shared.phase.send_replace(Phase::Stopping);
            for worker in workers.into_iter().filter(|worker| !worker.is_finished()) {
                let _ = worker.await;
            }
        }
        match self.background.take() {
            Some((stop, task)) => {
                stop.send_replace(true);
                task.await.unwrap_or_default()
            }
            None => Vec::new(),
        }
    }
}

async fn start_worker(start: worker::Start) -> Result<JoinHandle<()>, ServeError> {
    let (ready, is_ready) = oneshot::channel();
    let task = tokio::task::spawn_local(worker::run(start, ready));
    await_ready(is_ready).await?;
    Ok(task)
}
