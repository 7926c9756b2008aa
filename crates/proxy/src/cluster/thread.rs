//! The cluster's thread: one runtime for all links, and for the socket that members connect to.
//!
//! An accepted connection first has its handshake. A link stays here; a connection for requests is dealt to the worker with the fewest,
//! marked as the member's. The thread has a runtime of its own, so that neither hints nor purges wait for requests, or requests for them.
//!
//! Not known here: what links carry.
//! Limits: [`HANDSHAKES_MAX`] handshakes at a time; further connections wait in the kernel. Of each member one link: a new one ends the
//! one before.

use std::{
    cell::RefCell,
    io,
    net::{SocketAddr, TcpListener},
    rc::Rc,
    sync::Arc,
    thread::{self, JoinHandle},
    time::Duration,
};

use tokio::{
    runtime::{self, LocalOptions},
    sync::{Semaphore, oneshot},
    task::{AbortHandle, spawn_local},
};

use super::{
    Cluster, MemberId, link, linked, purging,
    shaking::{self, Accepted},
};
use crate::{
    conn::accepting::{Dealers, Dealt},
    origin::{Connector, Tls},
    socket::{self, Socket},
    state::Shared,
    worker,
};

/// Handshakes of accepted connections at a time.
const HANDSHAKES_MAX: usize = 256;
/// How long nothing is accepted after that has failed.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// The thread.
pub struct ClusterThread {
    stop: oneshot::Sender<()>,
    handle: JoinHandle<()>,
}

/// What the thread needs.
pub struct Start {
    /// What all share.
    pub shared: Arc<Shared>,
    /// Our cluster.
    pub cluster: Arc<Cluster>,
    /// Where members connect.
    pub socket: TcpListener,
    /// The way to the workers.
    pub dealers: Dealers,
    /// TLS, which connecting wants to know.
    pub tls: Tls,
}

impl ClusterThread {
    /// Starts it.
    ///
    /// # Errors
    /// The system gives no thread, or the runtime none of what it needs.
    pub fn start(start: Start) -> io::Result<ClusterThread> {
        let (stop, stopped) = oneshot::channel();
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
                    Ok(runtime) => runtime.block_on(run(start, stopped)),
                    Err(error) => tracing::error!(%error, "the cluster's thread could not start"),
                })?;
        Ok(ClusterThread { stop, handle })
    }

    /// Ends it, and waits for that.
    pub fn stop(self) {
        let _ = self.stop.send(());
        let _ = self.handle.join();
    }
}

async fn run(start: Start, stopped: oneshot::Receiver<()>) {
    let Start {
        shared,
        cluster,
        socket,
        dealers,
        tls,
    } = start;
    let connector = Rc::new(Connector::new(
        worker::connector_settings(&shared.plan),
        tls,
    ));
    for number in 0..cluster.members.len() {
        let (shared, cluster) = (Arc::clone(&shared), Arc::clone(&cluster));
        let id = MemberId(number as u8);
        spawn_local(link::keep(shared, cluster, Rc::clone(&connector), id));
    }
    let purging = purging::run::run(Arc::clone(&shared), Arc::clone(&cluster));
    let purging = spawn_local(purging);
    let house = Rc::new(House {
        links: cluster.members.iter().map(|_| RefCell::default()).collect(),
        shared,
        cluster,
        dealers,
    });
    match tokio::net::TcpListener::from_std(socket) {
        Ok(socket) => drop(spawn_local(accept(house, socket))),
        Err(error) => tracing::error!(%error, "members cannot connect"),
    }
    let _ = stopped.await;
    // Its journal is closed with it.
    purging.abort();
    let _ = purging.await;
}

/// What accepted connections need.
struct House {
    shared: Arc<Shared>,
    cluster: Arc<Cluster>,
    dealers: Dealers,
    /// The link that each member has opened to us.
    links: Vec<RefCell<Option<AbortHandle>>>,
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
    async fn take(&self, mut stream: Socket, from: SocketAddr) {
        let is_busy = self.shared.is_draining();
        let shaken = shaking::accept(&self.cluster, &mut stream, &from.to_string(), is_busy).await;
        let Ok(shaken) = shaken else {
            return;
        };
        match shaken.purpose {
            Accepted::Frames => {
                let cluster = Arc::clone(&self.cluster);
                let member = shaken.member;
                cluster.members[usize::from(member.0)].came.notify_one();
                let serving = spawn_local(async move {
                    let ended = linked::serve(cluster, member, stream).await;
                    tracing::debug!("a member's link has ended: {ended}");
                });
                let place = &self.links[usize::from(shaken.member.0)];
                if let Some(before) = place.replace(Some(serving.abort_handle())) {
                    before.abort();
                }
            }
            Accepted::Http(listener) => self.deal(listener, stream, from, shaken.member),
        }
    }

    /// Gives a connection for requests to a worker. One that cannot be given is closed, and the member asks elsewhere.
    fn deal(&self, listener: usize, stream: Socket, peer: SocketAddr, member: MemberId) {
        let Ok(stream) = socket::detach(stream) else {
            return;
        };
        let dealt = Dealt {
            listener,
            stream,
            peer,
            member: Some(member),
        };
        let worker = self.dealers.emptiest(&self.shared.counters);
        if self.dealers.deal(worker, dealt).is_err() {
            tracing::warn!("a member's connection found no worker");
        }
    }
}
