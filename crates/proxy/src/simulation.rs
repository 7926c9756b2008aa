//! The proxy as its simulation runs it: all threads as tasks of one runtime, over devices and a network in memory.
//!
//! What runs is the product's own code: workers (`worker::run`), the background work of the stores, the watch over devices.
//! Connections come in the way that workers deal them to each other, so nothing listens. Time is the runtime's, and stands still
//! while anything can run; chance follows a seed.
//!
//! A proxy is killed by dropping the [`LocalSet`](tokio::task::LocalSet) that its tasks run in: whatever they were doing is over.
//!
//! Not known here: what is asked, and what is right.

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

/// From now on chance and wall time on this thread follow from these. To be called inside a runtime whose clock stands.
pub fn begin(seed: u64, unix: Duration) {
    base::chance::follow_seed(seed);
    base::clock::follow_virtual_time(unix);
}

/// How to end the background work, and how that ended for each store.
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
    /// Starts one on these devices, one for each of the plan's stores. To be called in the [`LocalSet`](tokio::task::LocalSet) that
    /// it is to live in.
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

    /// Connects a client to a listener, on a worker. Each direction of the connection holds `room` bytes. `None`: nobody listens.
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

    /// Carries out `DELETE /cache?QUERY` of the admin interface; is it certain to hold after a crash, too?
    ///
    /// # Errors
    /// The query is none.
    pub async fn purge(&self, query: &str) -> Result<bool, &'static str> {
        let order = purge::order_of_query(Some(query))?;
        let purged = purge::purge(&self.shared, &self.listeners, &order).await?;
        Ok(purged.durable)
    }

    /// Is the scan after an unclean stop over, in all stores?
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

    /// What is still held although nobody asks for anything any more; to be called some seconds after the last request.
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

    /// Stops in order, as after SIGTERM: requests in progress may end within the drain time. What became of each store.
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
