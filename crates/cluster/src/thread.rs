//! The cluster's thread: one runtime for all links, and for the socket that members connect to.
//!
//! An accepted connection first has its handshake. A link stays here; a connection for requests is dealt to the worker with the fewest,
//! marked as the member's. The thread has a runtime of its own, so that neither hints nor purges wait for requests, or requests for them.
//!
//! Not known here: what links carry.
//! Limits: [`HANDSHAKES_MAX`] handshakes at a time; further connections wait in the kernel. Of each member one link: a new one ends the
//! one before.

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
/// A link on which nothing is taken for so long is dead: there is a beat a second.
const UNTAKEN_MAX: Duration = Duration::from_secs(30);
/// How long nothing is accepted after that has failed.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// How long the end waits until every member that follows us has heard of it.
const FAREWELL_MAX: Duration = Duration::from_millis(500);
/// How long nothing is collected after the system gave no random numbers.
const RANDOM_PAUSE: Duration = Duration::from_secs(1);

/// The thread.
pub struct ClusterThread {
    stop: oneshot::Sender<()>,
    handle: JoinHandle<()>,
}

/// What the thread needs.
pub struct Start {
    /// What is stored here.
    pub local: LocalCache,
    /// Our cluster.
    pub cluster: Arc<Cluster>,
    /// What the workers have counted.
    pub counters: Vec<Arc<Counters>>,
    /// Whether the process serves.
    pub phases: watch::Receiver<Phase>,
    /// Our listeners, by their numbers. A reload does not change those of a member of a cluster.
    pub listeners: Vec<ListenerId>,
    /// Where members may be.
    pub rules: Destinations,
    /// How names are looked up.
    pub dns: Dns,
    /// Where members connect.
    pub socket: TcpListener,
    /// The way to the workers.
    pub dealers: Dealers,
    /// How connections are made.
    pub connecting: (Settings, Tls),
}

impl ClusterThread {
    /// Starts it, and waits until what was stored before is judged: nothing that is stored later is taken for that.
    ///
    /// # Errors
    /// The system gives no thread, or the runtime none of what it needs.
    pub fn start(start: Start) -> io::Result<ClusterThread> {
        let (stop, stopped) = oneshot::channel();
        let (begun, has_begun) = mpsc::channel();
        let runtime = || {
            runtime::Builder::new_current_thread()
                .enable_all()
                .build_local(LocalOptions::default())
        };
        // Made and dropped here, so that a system that refuses is known at the start.
        drop(runtime()?);
        let handle =
            thread::Builder::new()
                .name("cluster".into())
                .spawn(move || match runtime() {
                    Ok(runtime) => runtime.block_on(run(start, stopped, begun)),
                    Err(error) => tracing::error!(%error, "the cluster's thread could not start"),
                })?;
        // Nothing is ever sent: it ends when the sender is dropped, also by a thread that could not start.
        let _ = has_begun.recv();
        Ok(ClusterThread { stop, handle })
    }

    /// Ends it, and waits for that.
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
    // Its journal is closed with it.
    purging.abort();
    let _ = purging.await;
}

/// What accepted connections need.
struct House {
    cache: Arc<Cache>,
    counters: Vec<Arc<Counters>>,
    phases: watch::Receiver<Phase>,
    listeners: Vec<ListenerId>,
    cluster: Arc<Cluster>,
    dealers: Dealers,
    /// The link that each member has opened to us.
    links: Vec<Place>,
    /// Says that there is something for those who follow.
    news: watch::Sender<u64>,
}

/// The link of one member.
#[derive(Default)]
struct Place {
    serving: RefCell<Option<AbortHandle>>,
    /// Which of its links it is.
    turn: Cell<u64>,
    /// It was told over this one that we leave.
    has_heard: Rc<Cell<bool>>,
}

impl Place {
    /// Has it a link over which it was not told that we leave?
    fn is_untold(&self) -> bool {
        let is_served = |handle: &AbortHandle| !handle.is_finished();
        let is_served = self.serving.borrow().as_ref().is_some_and(is_served);
        is_served && !self.has_heard.get()
    }
}

/// A member that follows us, as long as its link is up.
struct Follower {
    house: Rc<House>,
    id: MemberId,
    turn: u64,
}

impl Drop for Follower {
    fn drop(&mut self) {
        // A later link has begun to follow already.
        if self.house.links[usize::from(self.id.0)].turn.get() != self.turn {
            return;
        }
        self.house.cluster.discovery.set_linked(self.id, false);
        if let Some(publishing) = self.house.cluster.publishing().as_mut() {
            publishing.unsubscribe(self.id);
        }
    }
}

/// Collects what has changed in our stores, and says so.
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

/// What is looked at every second: who is silent, and how much we have to do.
async fn look(house: Rc<House>) {
    let mut seconds = interval(Duration::from_secs(1));
    // After a stop a second is one second again, or the load of no time at all would be told.
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
    /// Waits until those who follow us have been told that we leave: what they then see is no failure.
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

    /// Serves a link that a member has opened, in place of the one that it had.
    fn link(self: &Rc<Self>, stream: Socket, id: MemberId, cover: Cover) {
        let Some(member) = self.cluster.place(id) else {
            return;
        };
        let mut watch = member.watch();
        let Some(who) = watch.borrow_and_update().clone() else {
            return;
        };
        // A machine that is gone says nothing; its member is not to seem linked for ever.
        socket::give_up_after(&stream, UNTAKEN_MAX);
        // What the member follows over the link that it had would be taken for what it follows over this one.
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

    /// Gives a connection for requests to a worker. One that cannot be given is closed, and the member asks elsewhere.
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
