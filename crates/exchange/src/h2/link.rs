//! What a connection and its streams share.
//!
//! The connection's task gives what comes to the stream it is for, and writes what streams have queued. A stream's task queues, waits for
//! room, and takes its request's body. Both run on one thread, and none waits while it has borrowed.
//!
//! Windows of uploads are larger than ordinary ones as far as the ledger lends memory for that (docs/decisions/0083).
//!
//! Limits: a stream has [`QUEUED_BYTES_MAX`] and one piece queued at most, and a connection [`LARGE_AT_ONCE`] pieces from disk that are larger. What has come of its body and was not taken is bounded by its
//! window.

use std::{
    cell::{Cell, OnceCell, RefCell, RefMut},
    collections::BTreeMap,
    future::poll_fn,
    pin::pin,
    rc::Rc,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use bytes::Bytes;
use fields::Fields;
use http2::{Connection, ErrorCode, StreamId};
use tokio::sync::{Semaphore, SemaphorePermit};

use base::{
    clock::Instant,
    deadline::{Elapsed, Watch},
    mistakes::{Mistake, makes},
};
use ledger::{Holder, Ledger, Loan, Lot};

use super::held::{Held, PART_BYTES_MAX};

/// A stream that has more queued waits before it queues the next piece.
pub const QUEUED_BYTES_MAX: usize = 64 << 10;

/// Streams of a connection that send large objects from disk at a time; the next ones wait before they read theirs.
const LARGE_AT_ONCE: usize = 8;

/// What is shared.
pub struct Link {
    http: RefCell<Connection>,
    /// Streams that have a task. In their order, so that those that are woken together always run in the same one.
    streams: RefCell<BTreeMap<StreamId, Rc<RefCell<Inward>>>>,
    /// For the [`LARGE_AT_ONCE`].
    large: Semaphore,
    /// How the ledger knows the connection, once a request of it has a task.
    holder: OnceCell<Arc<Holder>>,
    /// What its windows are larger than ordinary ones.
    loan: RefCell<Option<Loan>>,
    /// The connection's task.
    waker: RefCell<Option<Waker>>,
    /// The handshake of TLS goes on: only hits are answered.
    is_early: Cell<bool>,
    began: Instant,
}

/// What has come on a stream, and who waits for it.
#[derive(Default)]
struct Inward {
    held: Held,
    /// Yielded, and not taken.
    untaken: usize,
    /// The count of both.
    lot: Option<Lot>,
    trailers: Option<Fields>,
    has_ended: bool,
    is_gone: bool,
    is_reset: bool,
    reader: Option<Waker>,
    writer: Option<Waker>,
    leaver: Option<Waker>,
    shaking: Option<Waker>,
}

impl Inward {
    fn wake_reader(&mut self) {
        if let Some(waker) = self.reader.take() {
            waker.wake();
        }
    }

    fn count(&mut self) {
        let bytes = self.held.len() + self.untaken;
        if let Some(lot) = &mut self.lot {
            lot.set(bytes);
        }
    }

    /// The client has gone, or the stream was reset.
    fn leave(&mut self) {
        self.is_gone = true;
        (self.held, self.lot) = (Held::default(), None);
        self.wake_reader();
        for waker in [self.writer.take(), self.leaver.take(), self.shaking.take()] {
            waker.into_iter().for_each(Waker::wake);
        }
    }
}

fn wait_in(place: &mut Option<Waker>, cx: &Context<'_>) {
    match place {
        Some(known) if known.will_wake(cx.waker()) => {}
        other => *other = Some(cx.waker().clone()),
    }
}

impl Link {
    /// Of a connection that begins; `is_early`: while the handshake of TLS goes on.
    pub fn new(limits: http2::Limits, began: Instant, is_early: bool) -> Rc<Link> {
        Rc::new(Link {
            http: RefCell::new(Connection::new(limits, Duration::ZERO)),
            streams: RefCell::default(),
            large: Semaphore::new(LARGE_AT_ONCE),
            holder: OnceCell::new(),
            loan: RefCell::default(),
            waker: RefCell::default(),
            is_early: Cell::new(is_early),
            began,
        })
    }

    /// The state machine.
    #[inline]
    pub fn http(&self) -> RefMut<'_, Connection> {
        self.http.borrow_mut()
    }

    /// A moment in the connection's time.
    #[inline]
    pub fn at(&self, moment: Instant) -> Duration {
        moment.saturating_duration_since(self.began)
    }

    /// Does the handshake of TLS go on?
    #[inline]
    pub fn is_early(&self) -> bool {
        self.is_early.get()
    }

    /// It does not: what waited for that goes on.
    #[inline]
    pub fn handshake_ended(&self) {
        if self.is_early.replace(false) {
            let streams = self.streams.borrow();
            for inward in streams.values() {
                inward
                    .borrow_mut()
                    .shaking
                    .take()
                    .into_iter()
                    .for_each(Waker::wake);
            }
        }
    }

    /// So the ledger knows it.
    pub fn is_known_as(&self, holder: Arc<Holder>) {
        let _ = self.holder.set(holder);
    }

    /// How the ledger knows it.
    pub fn holder(&self, ledger: &Ledger) -> Arc<Holder> {
        Arc::clone(self.holder.get_or_init(|| ledger.holder()))
    }

    /// How the ledger knows it, if it may hold anything.
    pub fn known_holder(&self) -> Option<&Arc<Holder>> {
        self.holder.get()
    }

    /// The task that is woken when a stream has something to write.
    pub fn register(&self, cx: &Context<'_>) {
        wait_in(&mut self.waker.borrow_mut(), cx);
    }

    fn wake(&self) {
        if let Some(waker) = &*self.waker.borrow() {
            waker.wake_by_ref();
        }
    }

    /// A stream gets a task.
    pub fn open(self: &Rc<Link>, id: StreamId, has_ended: bool) -> Stream {
        let inward = Rc::new(RefCell::new(Inward {
            has_ended,
            ..Inward::default()
        }));
        self.streams.borrow_mut().insert(id, Rc::clone(&inward));
        Stream {
            link: Rc::clone(self),
            id,
            inward,
        }
    }

    /// A part of a body came. False: no task wants it.
    pub fn data(&self, id: StreamId, bytes: &[u8], ends: bool) -> bool {
        let streams = self.streams.borrow();
        let Some(inward) = streams.get(&id) else {
            return false;
        };
        let mut inward = inward.borrow_mut();
        inward.held.push(bytes);
        if let (None, Some(holder)) = (&inward.lot, self.holder.get()) {
            inward.lot = Some(holder.hold(0));
        }
        inward.count();
        inward.has_ended |= ends;
        inward.wake_reader();
        true
    }

    /// A body ended, and these fields follow it; those that have no place there are dropped, as over HTTP/1.
    pub fn trailers(&self, id: StreamId, fields: &Fields) {
        if let Some(inward) = self.streams.borrow().get(&id) {
            let mut inward = inward.borrow_mut();
            let mut trailers = fields.clone();
            trailers.retain(|name, _| !http1::is_forbidden_trailer(name));
            inward.trailers = Some(trailers);
            inward.has_ended = true;
            inward.wake_reader();
        }
    }

    /// A stream was reset. False: it has no task.
    pub fn reset(&self, id: StreamId) -> bool {
        let streams = self.streams.borrow();
        let found = streams.get(&id);
        if let Some(inward) = found {
            let mut inward = inward.borrow_mut();
            if makes(Mistake::TakeResetForEnd) {
                inward.has_ended = true;
                inward.wake_reader();
                return true;
            }
            inward.is_reset = true;
            inward.leave();
        }
        found.is_some()
    }

    /// The client has gone: all streams end at their next step.
    pub fn leave(&self) {
        let streams = self.streams.borrow();
        streams
            .values()
            .for_each(|inward| inward.borrow_mut().leave());
    }

    /// Wakes those for which there is room again.
    pub fn wake_writers(&self) {
        let (http, streams) = (self.http.borrow(), self.streams.borrow());
        for (&id, inward) in streams.iter() {
            let mut inward = inward.borrow_mut();
            if inward.writer.is_some() && http.queued(id) <= QUEUED_BYTES_MAX / 2 {
                inward.writer.take().into_iter().for_each(Waker::wake);
            }
        }
    }

    /// Windows are to be larger by so much: for how much of that is there memory?
    fn borrows(&self, ledger: &Ledger, wanted: u32) -> u32 {
        if wanted == 0 {
            return 0;
        }
        let mut loan = self.loan.borrow_mut();
        let lent = (loan.get_or_insert_with(|| ledger.loan())).raise(wanted.into());
        u32::try_from(lent).unwrap_or(wanted)
    }

    /// No more than so much is lent now.
    fn returns(&self, lent: u32) {
        if let Some(loan) = &mut *self.loan.borrow_mut() {
            loan.lower_to(lent.into());
        }
    }

    /// Gives back memory that an idle connection does not need.
    pub fn release_buffers(&self) {
        let mut streams = self.streams.borrow_mut();
        if streams.is_empty() {
            *streams = BTreeMap::new();
        }
    }
}

/// A stream, as its task has it.
#[derive(Clone)]
pub struct Stream {
    link: Rc<Link>,
    id: StreamId,
    inward: Rc<RefCell<Inward>>,
}

/// The stream as long as its task lives; whatever is not ended then is reset.
pub struct Owned(pub Stream);

impl Drop for Owned {
    fn drop(&mut self) {
        let Stream { link, id, .. } = &self.0;
        link.streams.borrow_mut().remove(id);
        let mut http = link.http();
        http.release(*id);
        link.returns(http.lent());
        drop(http);
        link.wake();
    }
}

impl Stream {
    /// How the ledger knows the connection.
    pub fn holder(&self, ledger: &Ledger) -> Arc<Holder> {
        self.link.holder(ledger)
    }

    /// The same, if it may hold anything.
    pub fn known_holder(&self) -> Option<&Arc<Holder>> {
        self.link.known_holder()
    }

    /// Has the client reset it, or gone?
    pub fn is_gone(&self) -> bool {
        self.inward.borrow().is_gone
    }

    /// Has the client reset this stream, or what it sent made us do so?
    pub fn is_reset(&self) -> bool {
        self.inward.borrow().is_reset
    }

    /// Returns when the client has reset it, or gone.
    pub async fn left(&self) {
        poll_fn(|cx| {
            let mut inward = self.inward.borrow_mut();
            if inward.is_gone {
                return Poll::Ready(());
            }
            wait_in(&mut inward.leaver, cx);
            Poll::Pending
        })
        .await;
    }

    /// Did its request come in a handshake that goes on?
    pub fn is_early(&self) -> bool {
        self.link.is_early()
    }

    /// Waits for the end of that handshake. False: the client has gone.
    pub async fn await_handshake(&self) -> bool {
        poll_fn(|cx| {
            let mut inward = self.inward.borrow_mut();
            if inward.is_gone || !self.link.is_early() {
                return Poll::Ready(!inward.is_gone);
            }
            wait_in(&mut inward.shaking, cx);
            Poll::Pending
        })
        .await
    }

    /// Waits until it may read a large object from disk, and queue it. Nothing: the client has gone.
    pub async fn turn_of_large(&self) -> Option<SemaphorePermit<'_>> {
        tokio::select! {
            biased;
            turn = self.link.large.acquire() => turn.ok(),
            () = self.left() => None,
        }
    }

    // What goes out.

    /// Sends an interim head.
    pub fn interim(&self, block: &[u8]) {
        self.link.http().interim(self.id, [block, b""]);
        self.link.wake();
    }

    /// Sends the head of the answer.
    pub fn begin(&self, block: &[u8], ends: bool) {
        self.link.http().begin(self.id, [block, b""], ends);
        self.link.wake();
    }

    /// Queues a piece.
    pub fn piece(&self, piece: Bytes) {
        let now = self.link.at(Instant::now());
        self.link.http().piece(self.id, piece, now);
        self.link.wake();
    }

    /// Ends the answer, behind what is queued.
    pub fn end(&self, trailers: Option<Vec<u8>>) {
        match trailers {
            Some(block) => self.link.http().trailers(self.id, block),
            None => self.link.http().end(self.id),
        }
        self.link.wake();
    }

    /// Ends the stream, and lets the client see that it is not complete.
    pub fn reset(&self, code: ErrorCode) {
        self.link.http().reset(self.id, code);
        self.inward.borrow_mut().leave();
        self.link.wake();
    }

    /// Bytes that may be queued now.
    pub fn room(&self) -> usize {
        QUEUED_BYTES_MAX.saturating_sub(self.link.http().queued(self.id))
    }

    /// Is anything queued?
    pub fn has_queued(&self) -> bool {
        self.link.http().queued(self.id) > 0
    }

    /// Waits until there is room. False: the client has gone.
    pub async fn has_room(&self) -> bool {
        poll_fn(|cx| self.poll_room(cx)).await
    }

    /// The same.
    pub fn poll_room(&self, cx: &Context<'_>) -> Poll<bool> {
        let mut inward = self.inward.borrow_mut();
        if inward.is_gone || self.room() > 0 {
            return Poll::Ready(!inward.is_gone);
        }
        wait_in(&mut inward.writer, cx);
        Poll::Pending
    }

    // What comes in.

    /// Waits for a request that has not ended to show whether it has a body.
    pub async fn has_body(&self) -> bool {
        poll_fn(|cx| {
            let mut inward = self.inward.borrow_mut();
            let has_trailers = inward.trailers.as_ref().is_some_and(|t| !t.is_empty());
            if inward.is_gone || inward.has_ended || !inward.held.is_empty() {
                return Poll::Ready(!inward.held.is_empty() || has_trailers || inward.is_gone);
            }
            wait_in(&mut inward.reader, cx);
            Poll::Pending
        })
        .await
    }

    /// Waits for more of the body, and takes what is there, [`PART_BYTES_MAX`] at most.
    ///
    /// # Errors
    /// It did not come in time.
    pub async fn body(&self, watch: &Watch, limit: Duration) -> Result<Came, Elapsed> {
        watch
            .limit(
                limit,
                pin!(poll_fn(|cx| self.poll_body(cx, PART_BYTES_MAX))),
            )
            .await
    }

    /// What is there of the body, so many bytes at most.
    pub fn poll_body(&self, cx: &Context<'_>, bytes_max: usize) -> Poll<Came> {
        let mut inward = self.inward.borrow_mut();
        if inward.is_gone {
            return Poll::Ready(Came::Gone);
        }
        if !inward.held.is_empty() {
            let data = inward.held.take(bytes_max);
            inward.untaken += data.len();
            let is_last = inward.has_ended && inward.held.is_empty() && inward.trailers.is_none();
            return Poll::Ready(Came::Data(data, is_last));
        }
        if inward.has_ended {
            return Poll::Ready(Came::End(inward.trailers.take()));
        }
        wait_in(&mut inward.reader, cx);
        Poll::Pending
    }

    /// Is the window of the connection used up by other streams, so that the client may send nothing of this body?
    pub fn is_held_back(&self) -> bool {
        self.link.http().is_recv_window_used_up()
    }

    /// So many bytes of the body were taken: the client may send as many more. `ledger`: windows may grow, as far as it
    /// has memory for that.
    pub fn taken(&self, bytes: usize, ledger: Option<&Ledger>) {
        let mut inward = self.inward.borrow_mut();
        inward.untaken = inward.untaken.saturating_sub(bytes);
        inward.count();
        drop(inward);
        if makes(Mistake::KeepWindow) {
            return;
        }
        let mut http = self.link.http();
        http.consumed(self.id, bytes);
        match ledger {
            Some(ledger) if ledger.is_crowded() => http.shrink(self.id),
            Some(ledger) => {
                let wanted = http.wants_lent(self.id);
                let lent = self.link.borrows(ledger, wanted);
                if lent > 0 {
                    http.lend(self.id, lent);
                }
            }
            None => {}
        }
        self.link.returns(http.lent());
        drop(http);
        self.link.wake();
    }
}

/// What came of a body.
pub enum Came {
    /// Bytes; true: the last ones, and no trailers follow.
    Data(Bytes, bool),
    /// Its end.
    End(Option<Fields>),
    /// The client has gone.
    Gone,
}
