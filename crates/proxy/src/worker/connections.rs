//! The connections of a worker: accepted by its own sockets, or dealt by another worker.
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

/// Pause after a failed accept.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// How long a removed listener is remembered, since a worker that does not know of its removal may still deal connections of it.
const GONE_KEPT: Duration = Duration::from_secs(30);

/// How long idle connections stay open after a hand-over: a client may have just sent a request on one, and would find it cut. The answer
/// to that request closes the connection.
const IDLE_AFTER_HAND_OVER: Duration = Duration::from_secs(5);

/// The connections of a worker.
pub struct Connections {
    pub worker: Rc<Worker>,
    open: RefCell<JoinSet<()>>,
    dealers: Dealers,
    /// Dropping a sender tells a listener's accepting task that the listener was removed.
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

    /// Adopts the current edition. Requests in progress keep theirs.
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
        // Dropping a sender ends its accepting task.
        self.doors.borrow_mut().retain(|(id, _)| stays(*id));
        worker.deadlines.end_idle(|id| !stays(id));
        let opened = self.open_doors(&edition);
        shared.followed[worker.index].store(edition.number, Ordering::Release);
        opened
    }

    /// Starts accepting for new listeners.
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

    /// Keeps an accepted connection, or deals it to a less busy worker.
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
        // The dealing worker may have adopted an edition that this one has not.
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

    /// Deals a connection to another worker. Keeps it here if that worker's queue is full.
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

    /// Removes connections that have ended.
    pub fn clear_away(&self) {
        let mut open = self.open.borrow_mut();
        while open.try_join_next().is_some() {}
    }

    /// Closes the listening sockets.
    pub fn accept_no_more(&self) {
        self.accepting.borrow_mut().abort_all();
    }

    /// Closes idle connections of a process that drains since `since`: at once, or some seconds later after a hand-over.
    pub fn end_idle(&self, phase: Phase, since: Instant) {
        let is_handed_over = self.worker.shared.is_handed_over.load(Ordering::Relaxed);
        let is_over = since.elapsed() >= IDLE_AFTER_HAND_OVER;
        if !is_handed_over || is_over || phase == Phase::Stopping {
            self.worker.deadlines.drain();
        }
    }

    /// Cuts all open connections.
    pub fn cut(&self) {
        self.open.borrow_mut().abort_all();
    }
}

/// Accepts for one listener, until it is removed.
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
                // Probably out of descriptors: give connections time to end instead of spinning.
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    let worker = &all.worker;
    worker.shared.listening.forget(listener, worker.index);
    // Take connections from the kernel's queue, which would be reset with the socket.
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
