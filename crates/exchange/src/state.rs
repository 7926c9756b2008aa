//! The state that workers share, and the state of each worker.
//!
//! There is one [`Shared`] a process: memory tier, disk, fetches in progress, the plan. There is one [`Worker`] a thread: origin pool,
//! ring, counters, log buffers, scratch space. Nothing in `Worker` is locked, and no lock in `Shared` is held across a wait.
//!

mod bounds;

pub use bounds::{Bounds, ConnectionCount, StreamCount};

use base::clock::Instant;
use std::{
    borrow::Cow,
    cell::{Cell, RefCell},
    rc::Rc,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering},
    },
};

use httpcache::UnixMillis;
use profile::Hierarchy;
use store::{HeldChunks, KeyHasher, Pseudonyms};
use tokio::sync::watch;

use crate::{
    edition::Edition,
    fetch::{flight::Flights, uploads::Uploads, whom::AskContext},
    listener::ListenerState,
    range::pass_list::RangePassList,
    storage::Storage,
};
use base::{
    clock::{Clock, WallClock},
    deadline::Deadlines,
    heads::{HeadBudget, Heads},
    listening::{ListenerId, Listening},
    member::MemberId,
    phase::Phase,
    pulse::Pulse,
};
use base::{reloads::Reloads, upgrades::Upgrades};
use cache::{Cache, disk::DiskIo, memory::Front};
use cluster::{Cluster, purges::applying::LocalCache, push::PushContext};
use ledger::Ledger;
use origin::{Connector, OriginContext};
use peers::{digest::Digests, icp::Icp, known::Peers};
use plan::Plan;
use purging::gate::Served;
use record::{
    events::Events,
    journal::JournalWriter,
    labels::Labels,
    metrics::{self, Counters},
    rule_counts::KnownRules,
    top::Top,
};
use tls::{crowd::Crowd, handshake::TlsContext, session::Scratch};

/// Bytes of one read from a client, and so the size of a worker's scratch buffer.
pub const READ_BYTES: usize = 64 << 10;

/// The state of the process.
pub struct Shared {
    /// The current configuration.
    pub editions: watch::Sender<Arc<Edition>>,
    /// The latest edition that each worker has adopted.
    pub followed: Vec<AtomicU32>,
    /// Requests for a new edition.
    pub reloads: Reloads,
    /// Sockets of listeners, for workers that have not adopted them yet.
    pub listening: Listening,
    /// May workers accept? Not while the process that this one replaces still serves.
    pub doors: watch::Sender<bool>,
    /// Hand-over to another process.
    pub upgrades: Upgrades,
    /// Another process has replaced this one, so stored objects are out of date for new requests.
    pub is_handed_over: AtomicBool,
    /// Is the proxy alone in its process?
    pub is_process: bool,
    /// Our tag in `Via`: see [`crate::edition::via_tag`].
    pub via_tag: u32,
    /// Limits from the configuration that are read too often to look them up.
    pub bounds: Bounds,
    /// Memory budget of incomplete heads.
    pub heads: Arc<HeadBudget>,
    /// Memory held for bodies, by holder.
    pub ledger: Ledger,
    /// The memory tier and the stores.
    pub cache: Arc<Cache>,
    /// Fetches in progress.
    pub flights: Arc<Flights>,
    /// Every worker's counters.
    pub counters: Vec<Arc<Counters>>,
    /// Shows whether the workers still run.
    pub pulses: Vec<Pulse>,
    /// Names of the counters' rows.
    pub labels: Labels,
    /// Decisions of rules so far.
    pub rules: KnownRules,
    /// Events for the profile.
    pub events: Arc<Events>,
    /// The most requested names, if they are counted.
    pub top: Option<Arc<Mutex<Top>>>,
    /// Parents and siblings.
    pub peers: Arc<Peers>,
    /// ICP, if siblings are asked by it or it is answered.
    pub icp: Option<Arc<Icp>>,
    /// The cluster that this proxy is a member of.
    pub cluster: Option<Arc<Cluster>>,
    /// Our digest, and those of siblings.
    pub digests: Arc<Digests>,
    /// Client connections of the process.
    pub connections: AtomicUsize,
    /// HTTP/2 streams that have a task.
    pub streams: AtomicUsize,
    /// Bytes of those streams' heads.
    pub stream_head_bytes: AtomicU64,
    /// Running, draining or stopping.
    pub phase: watch::Sender<Phase>,
    /// When the process started.
    pub began: Instant,
    /// The process's clock.
    pub clock: Clock,
    /// Name of the I/O engine, for the status page.
    pub io_engine: &'static str,
}

impl Shared {
    /// The current configuration. A request uses its listener's instead.
    pub fn edition(&self) -> Arc<Edition> {
        Arc::clone(&self.editions.borrow())
    }

    /// Sets the description of the first configuration, before any request for it.
    pub fn say_what_is_configured(&mut self, words: String) {
        self.editions.send_modify(|edition| {
            if let Some(edition) = Arc::get_mut(edition) {
                edition.loaded.words = words;
            }
        });
    }

    /// Applies a configuration's limits to state that lives as long as the process.
    pub fn follow(&self, plan: &Plan) {
        self.bounds.follow(plan);
        self.heads.follow(plan.limits.head_buffer_bytes);
        self.ledger.follow(plan.limits.transfer_buffer_bytes);
        self.cache.rooms.follow(plan.limits.transfer_buffer_bytes);
        self.flights.follow(plan.limits.waiters_max);
        (self.cache.memory).resize(plan.memory_bytes, plan.limits.memory_object_bytes_max);
    }

    /// The cache in the form that purges are applied to.
    pub fn local_cache(&self) -> LocalCache {
        LocalCache {
            cache: Arc::clone(&self.cache),
            clock: self.clock.clone(),
            cluster: self.cluster.clone(),
        }
    }

    /// The part of the cache that may be served now: less than all while the cluster's purges may have been missed.
    #[inline]
    pub fn served(&self) -> Served {
        match &self.cluster {
            _ if self.is_handed_over.load(Ordering::Relaxed) => Served::Nothing,
            None => Served::All,
            Some(cluster) => cluster.purging.served(&self.cache, base::clock::boot_ms()),
        }
    }

    /// The name of the proxy that was asked in the origin's place.
    pub fn name_of_peer(&self, hierarchy: Hierarchy, number: u8) -> Option<Cow<'_, str>> {
        match hierarchy {
            Hierarchy::Node => {
                let member = self.cluster.as_ref()?.member(MemberId(number))?;
                Some(Cow::Owned(member.name().to_string()))
            }
            hierarchy => self.peers.name_of(hierarchy, number).map(Cow::Borrowed),
        }
    }

    /// Another process serves from now on: no stored object is served, none is stored, and no request joins a fetch. Requests begun before
    /// are completed. Returns for each store the chunks that its answers still read.
    pub fn hand_over(&self) -> Vec<Vec<HeldChunks>> {
        self.is_handed_over.store(true, Ordering::SeqCst);
        let held = self
            .cache
            .store
            .stores()
            .map(|store| store.hand_over())
            .collect();
        self.flights.forget_all(|_, _| true);
        for device in &self.cache.devices {
            device.give_away();
        }
        held
    }

    /// Undoes [`Self::hand_over`], since the other process does not know of it.
    pub fn take_back(&self) {
        for device in &self.cache.devices {
            device.take_over();
        }
        self.cache
            .store
            .stores()
            .for_each(|store| store.take_back());
        self.is_handed_over.store(false, Ordering::SeqCst);
    }

    /// Is the process draining or stopping?
    pub fn is_draining(&self) -> bool {
        *self.phase.borrow() != Phase::Running
    }
}

/// The state of one worker thread.
pub struct Worker {
    /// The state of the process.
    pub shared: Arc<Shared>,
    /// The worker's number.
    pub index: usize,
    /// Stores and reads objects.
    pub storage: Storage,
    /// Connections to origins.
    pub origin: Rc<OriginContext>,
    /// Asks parents, servers and origins.
    pub asking: AskContext,
    /// Time-outs.
    pub deadlines: Deadlines,
    /// Memory of incomplete heads.
    pub heads: Rc<Heads>,
    /// Counters.
    pub counters: Arc<Counters>,
    /// Pushes to cluster members, if this proxy is a front.
    pub pushing: Option<Rc<PushContext>>,
    /// Log buffers.
    pub journal: RefCell<JournalWriter>,
    /// Memory-tier front.
    pub front: RefCell<Front>,
    /// Scratch space for reads from clients.
    pub input: Rc<RefCell<Box<[u8]>>>,
    /// Context of TLS handshakes with clients.
    pub tls: TlsContext,
    /// Scratch space for response heads.
    pub output: RefCell<Vec<u8>>,
    /// Scratch space for Age and Cache-Status of a hit.
    pub said: RefCell<Vec<u8>>,
    /// Scratch space for keys.
    pub key: RefCell<Vec<u8>>,
    /// Hash function of the store.
    pub hasher: KeyHasher,
    /// Hashes the names in a profile.
    pub pseudonyms: Pseudonyms,
    /// Fetches of this worker in progress. A drain waits for them, since their readers may be on other workers.
    pub fetches: Cell<usize>,
    /// Uploads in progress, by client.
    pub uploads: Uploads,
    /// URLs whose ranges could not be stored recently.
    pub range_pass_list: RangePassList,
    /// Is an access log written?
    pub logs_access: Cell<bool>,
    /// The edition that the worker has adopted.
    pub edition: Cell<u32>,
    /// The listeners of that edition.
    pub listeners: RefCell<Vec<Rc<ListenerState>>>,
    /// Recently removed listeners: a connection that one of them accepted may still be on its way from another worker.
    pub gone: RefCell<Vec<(Instant, Rc<ListenerState>)>>,
    /// The source of request numbers.
    next_id: Cell<u64>,
    /// Wall time on this thread.
    pub wall: Rc<WallClock>,
}

impl Worker {
    /// A worker with empty tables. Called on its own thread.
    pub fn new(
        shared: Arc<Shared>,
        index: usize,
        disk: Option<DiskIo>,
        connector: Connector,
        journal: JournalWriter,
    ) -> Worker {
        let counters = Arc::clone(&shared.counters[index]);
        let (hasher, pseudonyms) = (shared.cache.hasher(), shared.cache.store.pseudonyms());
        let logs_access = journal.wants_access();
        let wall = Rc::new(WallClock::new(shared.clock.clone()));
        // A different start for each process and worker.
        let next_id = Cell::new((shared.clock.now().as_nanos() as u64) ^ (index as u64) << 56);
        let heads = Heads::new(Arc::clone(&shared.heads));
        let deadlines = Deadlines::new();
        let tls = TlsContext {
            crowd: Crowd::default(),
            scratch: Rc::new(Scratch::counting_in(shared.ledger.clone())),
            deadlines: deadlines.clone(),
            counters: Arc::clone(&counters),
        };
        let space = vec![0; READ_BYTES].into_boxed_slice();
        let input = Rc::new(RefCell::new(space));
        let origin = Rc::new(OriginContext {
            connector,
            heads: Rc::clone(&heads),
            ledger: shared.ledger.clone(),
            input: Rc::clone(&input),
            counters: Arc::clone(&counters),
        });
        let pushing = shared.cluster.as_ref().and_then(|cluster| {
            let context = PushContext {
                hints: RefCell::new(cluster.reader()?),
                cluster: Arc::clone(cluster),
                cache: Arc::clone(&shared.cache),
                origin: Rc::clone(&origin),
                rules: shared.peers.rules.clone(),
                deadlines: deadlines.clone(),
                clock: shared.clock.clone(),
            };
            Some(Rc::new(context))
        });
        let asking = AskContext {
            origin: Rc::clone(&origin),
            peers: Arc::clone(&shared.peers),
            deadlines: deadlines.clone(),
            wall: Rc::clone(&wall),
        };
        let storage = Storage {
            cache: Arc::clone(&shared.cache),
            disk,
            hasher,
            ledger: shared.ledger.clone(),
            cluster: shared.cluster.clone(),
            wall: Rc::clone(&wall),
        };
        Worker {
            shared,
            index,
            storage,
            origin,
            asking,
            deadlines,
            heads,
            counters,
            pushing,
            journal: RefCell::new(journal),
            front: RefCell::new(Front::new()),
            input,
            tls,
            output: RefCell::new(Vec::with_capacity(16 << 10)),
            said: RefCell::new(Vec::with_capacity(64)),
            key: RefCell::new(Vec::with_capacity(1 << 10)),
            hasher,
            pseudonyms,
            fetches: Cell::new(0),
            uploads: Uploads::default(),
            range_pass_list: RangePassList::new(),
            logs_access: Cell::new(logs_access),
            edition: Cell::new(0),
            listeners: RefCell::default(),
            gone: RefCell::default(),
            next_id,
            wall,
        }
    }

    /// The listener of this number, as it is now. `None`: it has gone.
    pub fn listener(&self, id: ListenerId) -> Option<Rc<ListenerState>> {
        let listeners = self.listeners.borrow();
        listeners.iter().find(|listener| listener.id == id).cloned()
    }

    /// Like [`Worker::listener`], for an accepted connection: also finds a recently removed listener.
    pub fn listener_of_accepted(&self, id: ListenerId) -> Option<Rc<ListenerState>> {
        self.listener(id).or_else(|| {
            let gone = self.gone.borrow();
            let found = gone.iter().find(|(_, listener)| listener.id == id);
            found.map(|(_, listener)| Rc::clone(listener))
        })
    }

    /// Is a record made of each request now: for the profile, the access log, or a subscriber of events?
    #[inline]
    pub fn journals(&self) -> bool {
        self.logs_access.get() || self.shared.events.are_wanted()
    }

    /// Wall time at a moment of the monotonic clock, microseconds since 1970.
    #[inline]
    pub fn unix_us(&self, at: Instant) -> u64 {
        self.wall.at(at).as_micros() as u64
    }

    /// Wall time at a moment of the monotonic clock.
    #[inline]
    pub fn unix_ms(&self, at: Instant) -> UnixMillis {
        UnixMillis(self.wall.ms_at(at))
    }

    /// A number for one request.
    pub fn next_id(&self) -> u64 {
        let next = self.next_id.get();
        self.next_id.set(next.wrapping_add(1));
        self.pseudonyms.of(&next.to_le_bytes())
    }

    /// Wall time now.
    pub fn now_ms(&self) -> UnixMillis {
        self.unix_ms(Instant::now())
    }

    /// Housekeeping once a second: clock, pool, names of origins, log buffers, front table.
    pub fn every_second(self: &Rc<Self>) {
        let now = Instant::now();
        self.wall.read();
        for to in self.origin.connector.sweep(now) {
            let worker = Rc::clone(self);
            tokio::task::spawn_local(async move { worker.origin.connector.renew(&to).await });
        }
        let pool = self.origin.connector.pool();
        let gauge = |counter: &AtomicU64, n: usize| counter.store(n as u64, Ordering::Relaxed);
        gauge(&self.counters.origin_connections_idle_open, pool.idle());
        gauge(&self.counters.origin_connections_used_open, pool.in_use());
        let (noted, recalled) = self.origin.connector.failures();
        let counters = &self.counters;
        (counters.origin_failures_noted).store(noted, Ordering::Relaxed);
        (counters.origin_failures_recalled).store(recalled, Ordering::Relaxed);
        if let Some(disk) = &self.storage.disk {
            let gathered = disk.gathered();
            let store = |counter: &AtomicU64, n: u64| counter.store(n, Ordering::Relaxed);
            store(&self.counters.disk_lazy_reads, gathered.reads);
            store(&self.counters.disk_lazy_batches, gathered.batches);
            store(&self.counters.disk_lazy_along, gathered.along);
        }
        self.front.borrow_mut().sweep(now);
        self.shared.cache.fragments.leave(&self.shared.cache.memory);
        self.shared.cache.memory.weed();
        let lost = self.journal.borrow_mut().flush();
        if lost > 0 {
            metrics::add(&self.counters.log_records_lost, lost);
        }
    }
}
