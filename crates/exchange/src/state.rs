//! What the workers share, and what each has of its own.
//!
//! [`Shared`] is one a process: memory tier, disk, fetches in flight, the plan. [`Worker`] is one a thread:
//! origin pool, ring, counters, log buffers, scratch space. Nothing in `Worker` is locked; nothing in
//! `Shared` is locked across a wait.

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

/// Bytes read from a client at once, and so the size of a worker's scratch buffer.
pub const READ_BYTES: usize = 64 << 10;

/// One for the process, as long as it lives.
pub struct Shared {
    /// The configuration, as it is now.
    pub editions: watch::Sender<Arc<Edition>>,
    /// The last edition that each worker has taken over.
    pub followed: Vec<AtomicU32>,
    /// How a new one is asked for.
    pub reloads: Reloads,
    /// Sockets of listeners, for workers that have not taken them yet.
    pub listening: Listening,
    /// May workers accept? Not while another process still serves, whose place we are about to take.
    pub doors: watch::Sender<bool>,
    /// How another process takes our place.
    pub upgrades: Upgrades,
    /// Another process has taken our place: what is stored here is out of date for whoever asks from now on.
    pub is_handed_over: AtomicBool,
    /// Has the proxy the process for itself?
    pub is_process: bool,
    /// In `Via`: see [`crate::edition::via_tag`].
    pub via_tag: u32,
    /// What is asked of the configuration too often to look it up.
    pub bounds: Bounds,
    /// What is kept of heads that are not complete.
    pub heads: Arc<HeadBudget>,
    /// What is held of bodies, and for whom.
    pub ledger: Ledger,
    /// Both tiers of what is stored.
    pub cache: Arc<Cache>,
    /// Fetches in progress.
    pub flights: Arc<Flights>,
    /// Every worker's counters.
    pub counters: Vec<Arc<Counters>>,
    /// Whether the workers move.
    pub pulses: Vec<Pulse>,
    /// What their rows count.
    pub labels: Labels,
    /// What rules have decided.
    pub rules: KnownRules,
    /// Where events of the profile are noted.
    pub events: Arc<Events>,
    /// What is asked for most, if that is counted.
    pub top: Option<Arc<Mutex<Top>>>,
    /// Other proxies that are asked.
    pub peers: Arc<Peers>,
    /// ICP, if siblings are asked by it or it is answered.
    pub icp: Option<Arc<Icp>>,
    /// The cluster that we are a member of.
    pub cluster: Option<Arc<Cluster>>,
    /// Our digest, and those of siblings.
    pub digests: Arc<Digests>,
    /// Client connections of the process.
    pub connections: AtomicUsize,
    /// Streams of HTTP/2 that have a task.
    pub streams: AtomicUsize,
    /// Bytes of their heads.
    pub stream_head_bytes: AtomicU64,
    /// Running, draining, stopping.
    pub phase: watch::Sender<Phase>,
    /// When the process came up.
    pub began: Instant,
    /// What time it is.
    pub clock: Clock,
    /// Name of the I/O engine, for the status page.
    pub io_engine: &'static str,
}

impl Shared {
    /// The configuration as it is now. A request asks its listener instead.
    pub fn edition(&self) -> Arc<Edition> {
        Arc::clone(&self.editions.borrow())
    }

    /// Says what the first configuration means, before anybody asks.
    pub fn say_what_is_configured(&mut self, words: String) {
        self.editions.send_modify(|edition| {
            if let Some(edition) = Arc::get_mut(edition) {
                edition.loaded.words = words;
            }
        });
    }

    /// Takes over the bounds of a configuration for what lives as long as the process.
    pub fn follow(&self, plan: &Plan) {
        self.bounds.follow(plan);
        self.heads.follow(plan.limits.head_buffer_bytes);
        self.ledger.follow(plan.limits.transfer_buffer_bytes);
        self.cache.rooms.follow(plan.limits.transfer_buffer_bytes);
        self.flights.follow(plan.limits.waiters_max);
        (self.cache.memory).resize(plan.memory_bytes, plan.limits.memory_object_bytes_max);
    }

    /// What a purge is applied to.
    pub fn local_cache(&self) -> LocalCache {
        LocalCache {
            cache: Arc::clone(&self.cache),
            clock: self.clock.clone(),
            cluster: self.cluster.clone(),
        }
    }

    /// What of the cache may be served now: less than all while purges of a cluster may have been missed.
    #[inline]
    pub fn served(&self) -> Served {
        match &self.cluster {
            _ if self.is_handed_over.load(Ordering::Relaxed) => Served::Nothing,
            None => Served::All,
            Some(cluster) => cluster.purging.served(&self.cache, base::clock::boot_ms()),
        }
    }

    /// The name of the proxy that was asked in place of the origin.
    pub fn name_of_peer(&self, hierarchy: Hierarchy, number: u8) -> Option<Cow<'_, str>> {
        match hierarchy {
            Hierarchy::Node => {
                let member = self.cluster.as_ref()?.member(MemberId(number))?;
                Some(Cow::Owned(member.name().to_string()))
            }
            hierarchy => self.peers.name_of(hierarchy, number).map(Cow::Borrowed),
        }
    }

    /// From here on another process serves: nothing that is stored is served or stored any more, and nobody joins a fetch. What began
    /// before ends whole. Returns for each store what its answers still read.
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

    /// It never heard of it: all is as before [`Self::hand_over`].
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

    /// Is the process on its way out?
    pub fn is_draining(&self) -> bool {
        *self.phase.borrow() != Phase::Running
    }
}

/// One for each thread; not shared.
pub struct Worker {
    /// What all share.
    pub shared: Arc<Shared>,
    /// Which of the workers.
    pub index: usize,
    /// What objects are stored and read with.
    pub storage: Storage,
    /// What origins are asked with.
    pub origin: Rc<OriginContext>,
    /// What whoever is in an origin's place is asked with.
    pub asking: AskContext,
    /// Time-outs.
    pub deadlines: Deadlines,
    /// What is kept of heads that are not complete.
    pub heads: Rc<Heads>,
    /// Counters.
    pub counters: Arc<Counters>,
    /// What members are pushed to with, if this is a front.
    pub pushing: Option<Rc<PushContext>>,
    /// Log buffers.
    pub journal: RefCell<JournalWriter>,
    /// Memory-tier front.
    pub front: RefCell<Front>,
    /// Where a read from a client first lands.
    pub input: Rc<RefCell<Box<[u8]>>>,
    /// What handshakes with clients are made with.
    pub tls: TlsContext,
    /// Where a response head is put together.
    pub output: RefCell<Vec<u8>>,
    /// Where our Cache-Status of a hit is put together.
    pub said: RefCell<Vec<u8>>,
    /// Where a key is put together.
    pub key: RefCell<Vec<u8>>,
    /// Hash function of the store.
    pub hasher: KeyHasher,
    /// Hashes the names of a profile.
    pub pseudonyms: Pseudonyms,
    /// Fetches under way on this worker: a drain waits for them, their readers may be elsewhere.
    pub fetches: Cell<usize>,
    /// Uploads under way, by client.
    pub uploads: Uploads,
    /// Of what nothing could be kept in parts lately.
    pub range_pass_list: RangePassList,
    /// Is an access log written?
    pub logs_access: Cell<bool>,
    /// The edition that it has taken over.
    pub edition: Cell<u32>,
    /// The listeners of that edition.
    pub listeners: RefCell<Vec<Rc<ListenerState>>>,
    /// Those that have gone lately: connections that were accepted by them may still be on their way from another worker.
    pub gone: RefCell<Vec<(Instant, Rc<ListenerState>)>>,
    /// What the next number of a request is made of.
    next_id: Cell<u64>,
    /// What time it is on this thread.
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
        // Another one after each start, and for each worker.
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

    /// The same, for a connection that was accepted already: also one that has gone lately.
    pub fn listener_of_accepted(&self, id: ListenerId) -> Option<Rc<ListenerState>> {
        self.listener(id).or_else(|| {
            let gone = self.gone.borrow();
            let found = gone.iter().find(|(_, listener)| listener.id == id);
            found.map(|(_, listener)| Rc::clone(listener))
        })
    }

    /// Is a record kept of each request now: in the profile, in the access log, or for somebody who listens?
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

    /// Once a second: clock, pool, names of origins, log buffers, front table.
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
