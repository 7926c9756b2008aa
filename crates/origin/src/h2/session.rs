//! A connection of HTTP/2 to an origin, as the pool and the seats in it see it.
//!
//! Requests of one worker share it. It takes further requests while neither side is closing it and there is room within the server's
//! SETTINGS_MAX_CONCURRENT_STREAMS and our own bound; reserved places count.
//!
//! Not known here: sockets (`driver`), which session a request gets (`pool`).

use std::{
    any::Any,
    cell::{Cell, RefCell, RefMut},
    collections::BTreeMap,
    future::poll_fn,
    net::SocketAddr,
    rc::Rc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use base::clock::Instant;
use http2::{Connection, ErrorCode, Event, Fault, Limits, StreamId};
use ledger::window::Window;
use record::seldom::SeldomEach;

use super::{
    Gone, QUEUED_BYTES_MAX, Seat,
    inward::{Inward, wait_in},
};

/// After this long without input, the server is asked by PING whether it is alive before a request is sent.
const SILENT: Duration = Duration::from_secs(30);
/// The same for a request that may be sent only once.
const SILENT_ONCE: Duration = Duration::from_secs(5);
/// The longest wait for the answer to that PING.
const ALIVE_WAIT: Duration = Duration::from_secs(2);

/// Held until it is known how many requests a new session takes.
pub(crate) type Opening = Box<dyn Any>;

/// The peer of a connection, and when it was opened.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    pub(crate) peer: SocketAddr,
    pub(crate) is_inward: bool,
    pub(crate) is_tls: bool,
    /// In the pool's time.
    pub(crate) opened: Instant,
}

/// A connection of HTTP/2.
pub(crate) struct Session {
    http: RefCell<Connection>,
    streams: RefCell<BTreeMap<StreamId, Rc<RefCell<Inward>>>>,
    /// The task that reads and writes.
    driver: RefCell<Option<Waker>>,
    /// Tasks that wait for the answer to a PING.
    waiting: RefCell<Vec<Waker>>,
    over: Cell<Option<Gone>>,
    /// Held until the server's SETTINGS have come. While it lives, no other connection is opened to this destination.
    opening: RefCell<Option<Opening>>,
    is_retired: Cell<bool>,
    /// Places reserved for requests to come.
    kept: Cell<usize>,
    asked: Cell<u64>,
    began: Instant,
    heard: Cell<Instant>,
    /// Since when no stream is open, in the pool's time.
    idle_since: Cell<Option<Instant>>,
    /// The destination, for the log.
    to: String,
    pub(crate) place: Place,
}

impl Session {
    /// A session on a new connection. `opening`: held until it is known how many requests the server takes.
    pub(super) fn new(
        limits: Limits,
        (to, place): (String, Place),
        opening: Opening,
    ) -> Rc<Session> {
        let now = Instant::now();
        Rc::new(Session {
            http: RefCell::new(Connection::client(limits, Duration::ZERO)),
            streams: RefCell::default(),
            driver: RefCell::default(),
            waiting: RefCell::default(),
            over: Cell::new(None),
            opening: RefCell::new(Some(opening)),
            is_retired: Cell::new(false),
            kept: Cell::new(0),
            asked: Cell::new(0),
            began: now,
            heard: Cell::new(now),
            idle_since: Cell::new(None),
            to,
            place,
        })
    }

    /// The state machine.
    pub(super) fn http(&self) -> RefMut<'_, Connection> {
        self.http.borrow_mut()
    }

    /// Now, in the connection's time.
    pub(super) fn now(&self) -> Duration {
        Instant::now().saturating_duration_since(self.began)
    }

    // For the pool.

    /// May requests be sent on this session, now or later?
    pub(crate) fn takes_requests(&self) -> bool {
        let is_open = self.over.get().is_none() && !self.is_retired.get();
        is_open && self.http.borrow().takes_requests()
    }

    /// Open streams and reserved places.
    pub(crate) fn load(&self) -> usize {
        self.http.borrow().open_streams() + self.kept.get()
    }

    /// Reserves a place for a request, if there is room.
    pub(crate) fn seat(self: &Rc<Session>) -> Option<Seat> {
        let has_room = self.takes_requests() && self.http.borrow().may_ask_beside(self.kept.get());
        has_room.then(|| {
            self.kept.set(self.kept.get() + 1);
            self.idle_since.set(None);
            Seat::kept(Rc::clone(self))
        })
    }

    /// For how long no stream was open. Counted from the first call that saw none.
    pub(crate) fn idle_for(&self, now: Instant) -> Duration {
        if self.load() > 0 {
            self.idle_since.set(None);
            return Duration::ZERO;
        }
        let since = self.idle_since.get().unwrap_or(now);
        self.idle_since.set(Some(since));
        now.saturating_duration_since(since)
    }

    /// Takes no further requests, and is closed when those under way have ended.
    pub(crate) fn retire(&self) {
        self.is_retired.set(true);
        self.wake();
    }

    // For a seat.

    /// A reserved place is given up, or becomes a stream.
    pub(super) fn give_up_place(&self) {
        self.kept.set(self.kept.get() - 1);
    }

    /// Has the session carried a request before?
    pub(super) fn has_carried(&self) -> bool {
        self.asked.get() > 0
    }

    /// Registers a new stream.
    pub(super) fn open(&self, id: StreamId, is_head: bool, window: Window) -> Rc<RefCell<Inward>> {
        self.asked.set(self.asked.get() + 1);
        let inward = Rc::new(RefCell::new(Inward::of(is_head, window)));
        self.streams.borrow_mut().insert(id, Rc::clone(&inward));
        self.wake();
        inward
    }

    /// Lets the server send as many bytes as were taken. If the window was too small, it is widened, as far as there is memory.
    pub(super) fn taken(&self, id: StreamId, bytes: usize, inward: &mut Inward) {
        let is_short = self.http().is_short(id);
        if is_short {
            self.widen(id, inward);
        }
        self.http().consumed(id, bytes);
        self.wake();
    }

    /// Widens a stream's window beyond the common size, as far as the ledger lends memory.
    pub(super) fn widen(&self, id: StreamId, inward: &mut Inward) {
        let lent = inward.lent();
        if lent > 0 {
            self.http().widen(id, lent);
        }
    }

    /// The stream's seat is dropped.
    pub(super) fn release(&self, id: StreamId) {
        self.streams.borrow_mut().remove(&id);
        self.http().release(id);
        self.wake();
    }

    /// Why the session is over, if it is.
    pub(super) fn over(&self) -> Option<Gone> {
        self.over.get()
    }

    /// Is the server alive? Sends a PING only after a silence. `is_once`: a request follows that may be sent only once.
    pub(super) async fn is_alive(&self, is_once: bool) -> bool {
        let silent = if is_once { SILENT_ONCE } else { SILENT };
        if self.heard.get().elapsed() < silent {
            return self.takes_requests();
        }
        self.http().send_ping();
        self.wake();
        let answered = poll_fn(|cx| {
            if self.over.get().is_some() || !self.http.borrow().is_ping_out() {
                return Poll::Ready(());
            }
            self.waiting.borrow_mut().push(cx.waker().clone());
            Poll::Pending
        });
        if tokio::time::timeout(ALIVE_WAIT, answered).await.is_err() {
            self.ends(Gone::Closed(std::io::ErrorKind::TimedOut));
        }
        self.takes_requests()
    }

    // For the driver.

    /// Closes a retired connection once no requests are left.
    pub(super) fn see_to_end(&self) {
        if self.is_retired.get() && self.load() == 0 {
            self.http().close(ErrorCode::NO_ERROR);
        }
    }

    pub(super) fn register(&self, cx: &Context<'_>) {
        wait_in(&mut self.driver.borrow_mut(), cx);
    }

    pub(super) fn wake(&self) {
        if let Some(waker) = &*self.driver.borrow() {
            waker.wake_by_ref();
        }
    }

    /// Handles input. Returns how many bytes were used.
    pub(super) fn take_input(&self, bytes: &[u8]) -> usize {
        self.heard.set(Instant::now());
        let now = self.now();
        let mut used = 0;
        loop {
            let mut http = self.http();
            let Ok(taken) = http.handle_input(&bytes[used..], now) else {
                return bytes.len();
            };
            used += taken.bytes;
            let Some(event) = taken.event else {
                break;
            };
            match event {
                Event::Response { stream, head } => {
                    let found = self.found(stream);
                    let is_taken = found.as_ref().map(|it| it.borrow_mut().head(&head));
                    if is_taken == Some(false) {
                        http.reset(stream, ErrorCode::ENHANCE_YOUR_CALM);
                        self.leave(stream, Gone::Fault(Fault::UselessFrames));
                    }
                }
                Event::Data {
                    stream,
                    bytes,
                    ends,
                } => match self.found(stream) {
                    Some(inward) => inward.borrow_mut().data(bytes, ends),
                    None => {
                        let len = bytes.len();
                        http.consumed(stream, len);
                    }
                },
                Event::Trailers { stream, fields } => {
                    if let Some(inward) = self.found(stream) {
                        inward.borrow_mut().trailers(fields);
                    }
                }
                Event::Reset { stream, by } => self.leave(stream, gone_by(by)),
                Event::GoAway(_) => {
                    let lost: Vec<StreamId> = http.unprocessed().collect();
                    for stream in lost {
                        self.leave(stream, Gone::Unprocessed);
                    }
                }
                Event::Request { .. } | Event::Refused(_) => {}
            }
        }
        let is_known = self.http.borrow().has_settings();
        if is_known {
            // Dropped outside of the borrow, because dropping it makes others look at this session.
            let opened = self.opening.borrow_mut().take();
            drop(opened);
        }
        self.wake_waiting();
        used
    }

    /// Handles a deadline of the connection.
    pub(super) fn handle_timeout(&self) {
        let now = self.now();
        loop {
            let happened = self.http().handle_timeout(now);
            let Ok(Some(Event::Reset { stream, by })) = happened else {
                return;
            };
            self.leave(stream, gone_by(by));
        }
    }

    /// Wakes writers whose streams have room again.
    pub(super) fn wake_writers(&self) {
        let (http, streams) = (self.http.borrow(), self.streams.borrow());
        for (&id, inward) in streams.iter() {
            let mut inward = inward.borrow_mut();
            if inward.is_writer_waiting() && http.queued(id) <= QUEUED_BYTES_MAX / 2 {
                inward.wake_writer();
            }
        }
    }

    /// Ends the connection and all of its streams.
    pub(super) fn ends(&self, why: Gone) {
        if self.over.get().is_none() {
            self.over.set(Some(why));
        }
        for inward in self.streams.borrow().values() {
            inward.borrow_mut().leave(why);
        }
        let opened = self.opening.borrow_mut().take();
        drop(opened);
        self.wake_waiting();
        self.wake();
    }

    /// Logs a fault of the server, at most once a minute for each destination.
    #[cold]
    pub(super) fn tell_of(&self, fault: Fault) {
        static SAID: SeldomEach = SeldomEach::new();
        let now_s = std::time::UNIX_EPOCH
            .elapsed()
            .unwrap_or_default()
            .as_secs();
        if let Some(not_told) = SAID.is_due(&self.to, now_s) {
            let to = &self.to;
            tracing::warn!(
                to,
                not_told,
                "the origin breaks HTTP/2: {fault}. What was asked failed (502). If it goes on, take `http2` from its route or upstream: it is \
                 asked by HTTP/1.1 then"
            );
        }
    }

    fn wake_waiting(&self) {
        let waiting = std::mem::take(&mut *self.waiting.borrow_mut());
        waiting.into_iter().for_each(Waker::wake);
    }

    fn found(&self, stream: StreamId) -> Option<Rc<RefCell<Inward>>> {
        self.streams.borrow().get(&stream).cloned()
    }

    fn leave(&self, stream: StreamId, why: Gone) {
        if let Gone::Fault(fault) = why {
            self.tell_of(fault);
        }
        if let Some(inward) = self.found(stream) {
            inward.borrow_mut().leave(why);
        }
    }
}

fn gone_by(by: http2::ResetBy) -> Gone {
    match by {
        //= rfc9113 §8.7   REFUSED_STREAM: closed prior to any processing
        http2::ResetBy::Peer(ErrorCode::REFUSED_STREAM) => Gone::Unprocessed,
        http2::ResetBy::Peer(code) => Gone::Reset(code),
        http2::ResetBy::Us(fault) => Gone::Fault(fault),
    }
}
