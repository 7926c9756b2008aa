//! The connections of a worker, and how they come in: accepted by its own sockets, or dealt by another worker.
//!
//! Not known here: when a worker begins, ticks and ends (`worker`).

use std::{
    cell::RefCell, future::poll_fn, net::SocketAddr, rc::Rc, sync::atomic::Ordering, time::Duration,
};

use tokio::{net::TcpStream, sync::oneshot, task::JoinSet};

use crate::connecting::connector_settings;
use base::{
    accepting::{Dealers, Dealt},
    clock::Instant,
    listening::ListenerId,
    member::MemberId,
    phase::Phase,
    socket::{self, Socket},
};
use exchange::{conn::client, edition::Edition, listener::listener_states, state::Worker};

/// How long nothing is accepted after that has failed.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// How long connections are expected of a listener that has gone, from a worker that does not know of it yet.
const GONE_KEPT: Duration = Duration::from_secs(30);

/// How long idle connections stay open once another process has taken over: a client that has just sent a request on one would find it cut.
/// Its next answer says that the connection closes.
const IDLE_AFTER_HAND_OVER: Duration = Duration::from_secs(5);

/// The connections of a worker, and how they come in.
pub struct Connections {
    pub worker: Rc<Worker>,
    open: RefCell<JoinSet<()>>,
    dealers: Dealers,
    /// What each listener's socket is told by being dropped: that the listener has gone.
    doors: RefCell<Vec<(ListenerId, oneshot::Sender<()>)>>,
    accepting: RefCell<JoinSet<()>>,
}

impl Connections {
    pub fn new(worker: Rc<Worker>, dealers: Dealers) -> Connections {
        Connections {
            worker,
            open: RefCell::default(),
            dealers,
            doors: RefCell::default(),
            accepting: RefCell::default(),
        }
    }

    /// Takes over the edition that is in force. What is being answered ends as it began.
    pub fn follow(self: &Rc<Self>) -> std::io::Result<()> {
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
                .follow(settings, edition.tls.all.clone());
            let mut journal = worker.journal.borrow_mut();
            journal.follow(edition.plan.logs.have_access() || shared.top.is_some());
            worker.logs_access.set(journal.wants_access());
        }
        // Dropped, they tell.
        self.doors.borrow_mut().retain(|(id, _)| stays(*id));
        worker.deadlines.end_idle(|id| !stays(id));
        let opened = self.open_doors(&edition);
        shared.followed[worker.index].store(edition.number, Ordering::Release);
        opened
    }

    /// Accepts for listeners that are new.
    fn open_doors(self: &Rc<Self>, edition: &Edition) -> std::io::Result<()> {
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
        self.open
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

    pub fn take_dealt(self: &Rc<Self>, dealt: Dealt) {
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

    pub fn is_empty(&self) -> bool {
        self.open.borrow().is_empty()
    }

    /// Waits until a connection has ended.
    pub async fn one_ended(&self) {
        let _ = poll_fn(|cx| self.open.borrow_mut().poll_join_next(cx)).await;
    }

    /// Lets go of connections that have ended.
    pub fn clear_away(&self) {
        let mut open = self.open.borrow_mut();
        while open.try_join_next().is_some() {}
    }

    /// Closes its listening sockets.
    pub fn accept_no_more(&self) {
        self.accepting.borrow_mut().abort_all();
    }

    /// Closes idle connections of a process that drains since then: at once, or somewhat later if another process has taken over.
    pub fn end_idle(&self, phase: Phase, since: Instant) {
        let is_handed_over = self.worker.shared.is_handed_over.load(Ordering::Relaxed);
        let is_over = since.elapsed() >= IDLE_AFTER_HAND_OVER;
        if !is_handed_over || is_over || phase == Phase::Stopping {
            self.worker.deadlines.drain();
        }
    }

    /// Cuts all that are open.
    pub fn cut(&self) {
        self.open.borrow_mut().abort_all();
    }
}

/// Accepts for one listener, until it goes.
async fn accept(
    all: Rc<Connections>,
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
            Ok((stream, peer)) => all.accepted(listener, stream, peer),
            Err(error) => {
                // Out of descriptors, most likely: give connections time to end instead of spinning.
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    let worker = &all.worker;
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
            all.take(listener, socket::of(stream), peer, None);
        }
    }
}
