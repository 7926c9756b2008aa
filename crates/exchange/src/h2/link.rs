//! The state that a connection and its streams share.
//!
//! The connection's task passes received data to the streams, and writes what the streams have queued. A stream's task queues its answer,
//! waits for room, and takes its request's body. All tasks run on one thread, and none of them waits while it has borrowed a cell.
//!
//! Windows of uploads grow beyond their ordinary size as far as the ledger lends memory for that (docs/decisions/0083).
//!
//! Limits: a stream has at most [`QUEUED_BYTES_MAX`] and one piece queued, and a connection at most [`LARGE_AT_ONCE`] larger pieces from
//! disk. The received and untaken bytes of a request's body are bounded by its window.

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

/// A stream with more bytes queued waits before it queues the next piece.
pub const QUEUED_BYTES_MAX: usize = 64 << 10;

/// Streams of a connection that send large objects from disk at a time; further ones wait before they read theirs.
const LARGE_AT_ONCE: usize = 8;

/// The state that a connection and its streams share.
pub struct Link {
    http: RefCell<Connection>,
    /// Streams that have a task. Ordered by id, so that streams woken together always run in the same order.
    streams: RefCell<BTreeMap<StreamId, Rc<RefCell<Inward>>>>,
    /// Admits [`LARGE_AT_ONCE`] streams.
    large: Semaphore,
    /// The connection's holder in the ledger, once a request of it has a task.
    holder: OnceCell<Arc<Holder>>,
    /// Memory lent for windows beyond their ordinary size.
    loan: RefCell<Option<Loan>>,
    /// The connection's task.
    waker: RefCell<Option<Waker>>,
    /// The TLS handshake is not complete: only hits are answered.
    is_early: Cell<bool>,
    began: Instant,
}

/// The received data of a stream, and the wakers of tasks that wait for it.
#[derive(Default)]
struct Inward {
    held: Held,
    /// Bytes of the body that were passed on and not taken.
    untaken: usize,
    /// Counts `held` and `untaken` in the ledger.
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

    /// Ends the stream: the client has gone, or the stream was reset.
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
    /// The link of a new connection; `is_early`: the TLS handshake is not complete.
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

    /// The protocol's state machine.
    #[inline]
    pub fn http(&self) -> RefMut<'_, Connection> {
        self.http.borrow_mut()
    }

    /// A moment relative to the connection's begin.
    #[inline]
    pub fn at(&self, moment: Instant) -> Duration {
        moment.saturating_duration_since(self.began)
    }

    /// Is the TLS handshake still incomplete?
    #[inline]
    pub fn is_early(&self) -> bool {
        self.is_early.get()
    }

    /// Wakes the streams that wait for the end of the TLS handshake.
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

    /// Sets the connection's holder in the ledger.
    pub fn is_known_as(&self, holder: Arc<Holder>) {
        let _ = self.holder.set(holder);
    }

    /// The connection's holder in the ledger; makes one if there is none.
    pub fn holder(&self, ledger: &Ledger) -> Arc<Holder> {
        Arc::clone(self.holder.get_or_init(|| ledger.holder()))
    }

    /// The connection's holder in the ledger, if it has one.
    pub fn known_holder(&self) -> Option<&Arc<Holder>> {
        self.holder.get()
    }

    /// Registers the connection's task, which is woken when a stream has something to write.
    pub fn register(&self, cx: &Context<'_>) {
        wait_in(&mut self.waker.borrow_mut(), cx);
    }

    fn wake(&self) {
        if let Some(waker) = &*self.waker.borrow() {
            waker.wake_by_ref();
        }
    }

    /// Adds a stream that has a task.
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

    /// Passes received bytes of a body to their stream. False: the stream has no task.
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

    /// Ends a body with these trailers. Fields that may not be trailers are dropped, as over HTTP/1.
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

    /// Ends a stream that was reset. False: the stream has no task.
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

    /// Ends all streams, because the client has gone; their tasks notice that at their next step.
    pub fn leave(&self) {
        let streams = self.streams.borrow();
        streams
            .values()
            .for_each(|inward| inward.borrow_mut().leave());
    }

    /// Wakes the streams that have room again.
    pub fn wake_writers(&self) {
        let (http, streams) = (self.http.borrow(), self.streams.borrow());
        for (&id, inward) in streams.iter() {
            let mut inward = inward.borrow_mut();
            if inward.writer.is_some() && http.queued(id) <= QUEUED_BYTES_MAX / 2 {
                inward.writer.take().into_iter().for_each(Waker::wake);
            }
        }
    }

    /// Borrows memory for windows that are to grow by `wanted` bytes. Returns how much of that was lent.
    fn borrows(&self, ledger: &Ledger, wanted: u32) -> u32 {
        if wanted == 0 {
            return 0;
        }
        let mut loan = self.loan.borrow_mut();
        let lent = (loan.get_or_insert_with(|| ledger.loan())).raise(wanted.into());
        u32::try_from(lent).unwrap_or(wanted)
    }

    /// Returns borrowed memory down to `lent` bytes.
    fn returns(&self, lent: u32) {
        if let Some(loan) = &mut *self.loan.borrow_mut() {
            loan.lower_to(lent.into());
        }
    }

    /// Frees memory that an idle connection does not need.
    pub fn release_buffers(&self) {
        let mut streams = self.streams.borrow_mut();
        if streams.is_empty() {
            *streams = BTreeMap::new();
        }
    }
}

/// A stream, as its task uses it.
#[derive(Clone)]
pub struct Stream {
    link: Rc<Link>,
    id: StreamId,
    inward: Rc<RefCell<Inward>>,
}

/// A stream owned by its task. Dropping it resets the stream unless both sides have ended.
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
    /// The connection's holder in the ledger.
    pub fn holder(&self, ledger: &Ledger) -> Arc<Holder> {
        self.link.holder(ledger)
    }

    /// The connection's holder in the ledger, if it has one.
    pub fn known_holder(&self) -> Option<&Arc<Holder>> {
        self.link.known_holder()
    }

    /// Has the client reset the stream, or gone?
    pub fn is_gone(&self) -> bool {
        self.inward.borrow().is_gone
    }

    /// Was this stream reset by the client, or by us because of a fault in what the client sent?
    pub fn is_reset(&self) -> bool {
        self.inward.borrow().is_reset
    }

    /// Returns when the client has reset the stream, or gone.
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

    /// Is the TLS handshake still incomplete?
    pub fn is_early(&self) -> bool {
        self.link.is_early()
    }

    /// Waits for the end of the TLS handshake. False: the client has gone.
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

    /// Waits for permission to read a large object from disk and queue it. `None`: the client has gone.
    pub async fn turn_of_large(&self) -> Option<SemaphorePermit<'_>> {
        tokio::select! {
            biased;
            turn = self.link.large.acquire() => turn.ok(),
            () = self.left() => None,
        }
    }

    // Sending.

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

    /// Ends the answer after the queued bytes.
    pub fn end(&self, trailers: Option<Vec<u8>>) {
        match trailers {
            Some(block) => self.link.http().trailers(self.id, block),
            None => self.link.http().end(self.id),
        }
        self.link.wake();
    }

    /// Resets the stream, which shows the client that the answer is incomplete.
    pub fn reset(&self, code: ErrorCode) {
        self.link.http().reset(self.id, code);
        self.inward.borrow_mut().leave();
        self.link.wake();
    }

    /// How many bytes may be queued now.
    pub fn room(&self) -> usize {
        QUEUED_BYTES_MAX.saturating_sub(self.link.http().queued(self.id))
    }

    /// Are any bytes queued?
    pub fn has_queued(&self) -> bool {
        self.link.http().queued(self.id) > 0
    }

    /// Waits until there is room. False: the client has gone.
    pub async fn has_room(&self) -> bool {
        poll_fn(|cx| self.poll_room(cx)).await
    }

    /// Polls for [`Stream::has_room`].
    pub fn poll_room(&self, cx: &Context<'_>) -> Poll<bool> {
        let mut inward = self.inward.borrow_mut();
        if inward.is_gone || self.room() > 0 {
            return Poll::Ready(!inward.is_gone);
        }
        wait_in(&mut inward.writer, cx);
        Poll::Pending
    }

    // Receiving.

    /// Waits until a request that has not ended shows whether it has a body.
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

    /// Waits for more of the body, and returns at most [`PART_BYTES_MAX`] of it.
    ///
    /// # Errors
    /// Nothing came in time.
    pub async fn body(&self, watch: &Watch, limit: Duration) -> Result<Came, Elapsed> {
        watch
            .limit(
                limit,
                pin!(poll_fn(|cx| self.poll_body(cx, PART_BYTES_MAX))),
            )
            .await
    }

    /// Polls for more of the body, at most `bytes_max`.
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

    /// Have other streams used up the connection's window, so that the client may not send this body?
    pub fn is_held_back(&self) -> bool {
        self.link.http().is_recv_window_used_up()
    }

    /// `bytes` of the body were taken, so the client may send as many more. `ledger`: windows may grow as far as it lends memory, or
    /// shrink while it is crowded.
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

/// A received part of a body.
pub enum Came {
    /// Bytes. True: they are the last ones, and no trailers follow.
    Data(Bytes, bool),
    /// The end, with trailers if there are any.
    End(Option<Fields>),
    /// The client has gone.
    Gone,
}
