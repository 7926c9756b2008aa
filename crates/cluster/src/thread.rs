//! The cluster's thread: one runtime for all links and for the socket that members connect to.
//!
//! An accepted connection first has its handshake. A link stays on this thread. A connection for HTTP requests goes to the worker with the fewest
//! connections, marked with the member. The runtime is separate so that hints and purges never wait for requests, nor requests for them.
//!
//! Not known here: the meaning of frames.
//! Limits: [`HANDSHAKES_MAX`] handshakes at a time; further connections wait in the kernel. One link for each member: a new link ends the old one.

use std::{
    cell::{Cell, RefCell},
    io,
    net::{SocketAddr, TcpListener},
    rc::Rc,
    sync::{Arc, mpsc},
    thread::{self, JoinHandle},
    time::Duration,
};

use tokio::{
    runtime::{self, LocalOptions},
    sync::{Semaphore, oneshot, watch},
    task::{AbortHandle, spawn_local},
    time::{MissedTickBehavior, interval},
};

use super::{
    discovering, link,
    linked::Linked,
    member::Who,
    purges::{self, applying::LocalCache},
    shaking::{self, Accepted},
    state::Cluster,
};
use base::accepting::{Dealers, Dealt};
use base::member::MemberId;
use base::{
    access::Destinations,
    clock::Instant,
    listening::ListenerId,
    phase::Phase,
    socket::{self, Socket},
};
use cache::Cache;
use origin::{Connector, Settings, Tls};
use plan::Dns;
use plan::proof::Cover;
use record::metrics::{Counters, open_of};

/// Handshakes of accepted connections at a time.
const HANDSHAKES_MAX: usize = 256;
/// A link whose peer acknowledges nothing for this long is dead: a beat is sent every second.
const UNTAKEN_MAX: Duration = Duration::from_secs(30);
/// Pause after a failed accept.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// How long shutdown waits until all members that follow us have been told.
const FAREWELL_MAX: Duration = Duration::from_millis(500);
/// Pause in collecting changes after the system provided no random numbers.
const RANDOM_PAUSE: Duration = Duration::from_secs(1);

/// The thread.
pub struct ClusterThread {
    stop: oneshot::Sender<()>,
    handle: JoinHandle<()>,
}

/// What the thread needs.
pub struct Start {
    /// Our cache, to which purges of other members are applied.
    pub local: LocalCache,
    /// Our cluster.
    pub cluster: Arc<Cluster>,
    /// The counters of the workers.
    pub counters: Vec<Arc<Counters>>,
    /// Whether the process serves.
    pub phases: watch::Receiver<Phase>,
    /// Our listeners, by their numbers. A reload cannot change them while there is a cluster.
    pub listeners: Vec<ListenerId>,
    /// Destinations that members may have.
    pub rules: Destinations,
    /// How names are looked up.
    pub dns: Dns,
    /// The socket that members connect to.
    pub socket: TcpListener,
    /// The way to hand connections to workers.
    pub dealers: Dealers,
    /// How connections are made.
    pub connecting: (Settings, Tls),
}

impl ClusterThread {
    /// Starts the thread, and waits until the objects from before the start are judged, so that later ones are not mistaken for them.
    ///
    /// # Errors
    /// The system refuses a thread, or the runtime its resources.
    pub fn start(start: Start) -> io::Result<ClusterThread> {
        let (stop, stopped) = oneshot::channel();
        let (begun, has_begun) = mpsc::channel();
        let runtime = || {
            runtime::Builder::new_current_thread()
                .enable_all()
                .build_local(LocalOptions::default())
        };
        // Make and drop a runtime here, so that a system that refuses one is known at the start.
        drop(runtime()?);
        let handle =
            thread::Builder::new()
                .name("cluster".into())
                .spawn(move || match runtime() {
                    Ok(runtime) => runtime.block_on(run(start, stopped, begun)),
                    Err(error) => tracing::error!(%error, "the cluster's thread could not start"),
                })?;
        // Nothing is ever sent. `recv` returns when the sender is dropped, even by a thread that failed to start.
        let _ = has_begun.recv();
        Ok(ClusterThread { stop, handle })
    }

    /// Stops the thread and joins it.
    pub fn stop(self) {
        let _ = self.stop.send(());
        let _ = self.handle.join();
    }
}

async fn run(start: Start, stopped: oneshot::Receiver<()>, begun: mpsc::Sender<()>) {
    let Start {
        local,
        cluster,
        counters,
        phases,
        listeners,
        rules,
        dns,
        socket,
        dealers,
        connecting: (settings, tls),
    } = start;
    let connector = Rc::new(Connector::new(settings, tls));
    let rules = Rc::new(rules);
    for number in 0..cluster.places.len() {
        let (rules, cluster) = (Rc::clone(&rules), Arc::clone(&cluster));
        let id = MemberId(number as u8);
        spawn_local(link::keep(rules, cluster, Rc::clone(&connector), id));
    }
    spawn_local(discovering::discover(dns, Arc::clone(&cluster)));
    if cluster.discovers() {
        spawn_local(discovering::forget(Arc::clone(&cluster)));
    }
    let purging = purges::run::run(local.clone(), Arc::clone(&cluster), begun);
    let purging = spawn_local(purging);
    let house = Rc::new(House {
        links: cluster.places.iter().map(|_| Place::default()).collect(),
        news: watch::channel(0).0,
        cache: local.cache,
        counters,
        phases,
        listeners,
        cluster,
        dealers,
    });
    spawn_local(publish(Rc::clone(&house)));
    spawn_local(look(Rc::clone(&house)));
    match tokio::net::TcpListener::from_std(socket) {
        Ok(socket) => drop(spawn_local(accept(Rc::clone(&house), socket))),
        Err(error) => tracing::error!(%error, "members cannot connect"),
    }
    let _ = stopped.await;
    house.say_farewell().await;
    // Wait until the task is dropped, because that closes its journal.
    purging.abort();
    let _ = purging.await;
}

/// The state that accepted connections share.
struct House {
    cache: Arc<Cache>,
    counters: Vec<Arc<Counters>>,
    phases: watch::Receiver<Phase>,
    listeners: Vec<ListenerId>,
    cluster: Arc<Cluster>,
    dealers: Dealers,
    /// The link that each member has opened to us.
    links: Vec<Place>,
    /// Changes when there are new hints to send.
    news: watch::Sender<u64>,
}

/// The link of one member.
#[derive(Default)]
struct Place {
    serving: RefCell<Option<AbortHandle>>,
    /// Number of the link among all that this member has opened.
    turn: Cell<u64>,
    /// Set once the member has been told over this link that we are shutting down.
    has_heard: Rc<Cell<bool>>,
}

impl Place {
    /// Has it a link over which it has not yet been told that we are shutting down?
    fn is_untold(&self) -> bool {
        let is_served = |handle: &AbortHandle| !handle.is_finished();
        let is_served = self.serving.borrow().as_ref().is_some_and(is_served);
        is_served && !self.has_heard.get()
    }
}

/// A member that follows us; dropped when its link ends.
struct Follower {
    house: Rc<House>,
    id: MemberId,
    turn: u64,
}

impl Drop for Follower {
    fn drop(&mut self) {
        // A later link of this member already follows us; keep its subscription.
        if self.house.links[usize::from(self.id.0)].turn.get() != self.turn {
            return;
        }
        self.house.cluster.discovery.set_linked(self.id, false);
        if let Some(publishing) = self.house.cluster.publishing().as_mut() {
            publishing.unsubscribe(self.id);
        }
    }
}

/// Collects changes in our stores, and wakes the links to send them.
async fn publish(house: Rc<House>) {
    loop {
        let worked = match house.cluster.publishing().as_mut() {
            Some(publishing) => publishing.work(Instant::now()),
            None => return,
        };
        let pause = match worked {
            Ok((pause, is_news)) => {
                if is_news {
                    house.news.send_modify(|count| *count += 1);
                }
                pause
            }
            Err(error) => {
                tracing::error!(%error, "the system gives no random numbers; what is stored is not told for now");
                RANDOM_PAUSE
            }
        };
        tokio::time::sleep(pause).await;
    }
}

/// Every second: checks which members are silent, and measures our own load.
async fn look(house: Rc<House>) {
    let mut seconds = interval(Duration::from_secs(1));
    // After a stall, do not tick several times at once: the load of an empty interval would be reported.
    seconds.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        seconds.tick().await;
        house.cluster.view().tick(house.cluster.now_ms());
        if let Some(publishing) = house.cluster.publishing().as_mut() {
            publishing.weigh(&house.counters, &house.cache);
        }
    }
}

async fn accept(house: Rc<House>, listener: tokio::net::TcpListener) {
    let places = Arc::new(Semaphore::new(HANDSHAKES_MAX));
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else {
            return;
        };
        match listener.accept().await {
            Ok((stream, from)) => {
                let house = Rc::clone(&house);
                spawn_local(async move {
                    house.take(socket::of(stream), from).await;
                    drop(place);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a member's connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

impl House {
    /// Waits until our followers know that we are shutting down, so that they do not count the closed links as failures.
    async fn say_farewell(&self) {
        let all = async {
            while self.links.iter().any(|place| place.is_untold()) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let _ = tokio::time::timeout(FAREWELL_MAX, all).await;
    }

    async fn take(self: &Rc<Self>, mut stream: Socket, from: SocketAddr) {
        let is_busy = *self.phases.borrow() != Phase::Running;
        let shaken = shaking::accept(&self.cluster, &mut stream, from, is_busy).await;
        let Ok(shaken) = shaken else {
            return;
        };
        match shaken.purpose {
            Accepted::Frames => {
                self.link(stream, shaken.member, shaken.cover);
            }
            Accepted::Http(listener) => self.deal(listener, stream, from, shaken.member),
        }
    }

    /// Serves a link that a member has opened, and ends the member's previous link.
    fn link(self: &Rc<Self>, stream: Socket, id: MemberId, cover: Cover) {
        let Some(member) = self.cluster.place(id) else {
            return;
        };
        let mut watch = member.watch();
        let Some(who) = watch.borrow_and_update().clone() else {
            return;
        };
        // A machine that has crashed sends nothing. End its link by a timeout, so that the member does not seem linked for ever.
        socket::give_up_after(&stream, UNTAKEN_MAX);
        // Drop the subscriptions of the previous link, or they would count for this one.
        if let Some(publishing) = self.cluster.publishing().as_mut() {
            publishing.unsubscribe(id);
        }
        self.cluster.discovery.set_linked(id, true);
        let place = &self.links[usize::from(id.0)];
        let turn = place.turn.get() + 1;
        place.turn.set(turn);
        place.has_heard.set(false);
        let follower = Follower {
            house: Rc::clone(self),
            id,
            turn,
        };
        let linked = Linked {
            phases: self.phases.clone(),
            cluster: Arc::clone(&self.cluster),
            member: id,
            cover,
            news: self.news.subscribe(),
            has_heard: Rc::clone(&place.has_heard),
        };
        let serving = spawn_local(async move {
            let _follower = follower;
            let is_other =
                |now: &Option<Arc<Who>>| now.as_ref().map(|now| now.occupant) != Some(who.occupant);
            tokio::select! {
                biased;
                _ = watch.wait_for(is_other) => tracing::debug!("the member of a link was forgotten"),
                ended = linked.serve(stream) => tracing::debug!("a member's link has ended: {ended}"),
            }
        });
        if let Some(before) = place.serving.replace(Some(serving.abort_handle())) {
            before.abort();
        }
        member.knocked.notify_one();
    }

    /// Gives a connection for HTTP requests to a worker. If that fails the connection is closed, and the member asks elsewhere.
    fn deal(&self, listener: usize, stream: Socket, peer: SocketAddr, member: MemberId) {
        let Ok(stream) = socket::detach(stream) else {
            return;
        };
        let Some(&listener) = self.listeners.get(listener) else {
            return;
        };
        let dealt = Dealt {
            listener,
            stream,
            peer,
            member: Some(member),
        };
        let worker = self.dealers.emptiest(open_of(&self.counters));
        if self.dealers.deal(worker, dealt).is_err() {
            tracing::warn!("a member's connection found no worker");
        }
    }
}
