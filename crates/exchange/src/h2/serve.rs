//! The task of an HTTP/2 connection, from its first byte to its last.
//!
//! A *turn*: read once, handle all events, fill a turn of frames, write it with one vectored write. Turns follow until neither side
//! can proceed; then the task waits for the socket, for a stream with something to write, or for a deadline.
//!
//! While the client takes nothing, input is still read as long as it requires no further output: two sides that only write would wait
//! for each other for ever.
//!
//! Ends: the client closes; nothing was open for `timeouts.client-idle`; a fault (named in GOAWAY); the listener is removed, the process
//! stops or hands over (GOAWAY, open requests are completed). A client that takes its answers too slowly is cut ([`crate::conn::pace`]).
//! The streams' tasks then end at their next write, as an HTTP/1 request does without its client, so that each request is recorded.
//!
//! Limits: at most [`TURN_BYTES`] have left the streams and are unwritten; an incomplete frame counts in `limits.head-buffer`, and must
//! be complete within `timeouts.client-head`.

use std::{
    future::poll_fn,
    io::{self, ErrorKind, IoSlice},
    pin::{Pin, pin},
    rc::Rc,
    sync::atomic::Ordering,
    task::{Context, Poll},
    time::Duration,
};

use bytes::{Buf, BytesMut};
use http2::{ErrorCode, Event, Fault, Limits, PREFACE, Turn};
use profile::Protocol;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    task::JoinSet,
};

use super::{hit::Who, link::Link, requests::Taken};
use crate::{
    conn::{
        pace::ASK_EVERY,
        socket::{Conn, More},
    },
    state::Worker,
};
use base::{clock::Instant, socket};
use record::{metrics, protocols::Spoken, seldom::Seldom};

/// Bytes of bodies in a turn.
const TURN_BYTES: usize = 256 << 10;
/// Unsent bytes in the kernel above which the socket takes no more: one turn.
const UNSENT_BYTES_MAX: u32 = TURN_BYTES as u32;
/// Pieces in a write.
const SLICES_MAX: usize = 64;
/// How often a connection that is not idle checks whether it must end.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// A connection without open streams frees its buffers after this time.
const SHRINK_AFTER: Duration = Duration::from_secs(1);

/// A connection and its state.
pub struct Server<'w> {
    pub(super) worker: &'w Rc<Worker>,
    pub(super) conn: Conn,
    pub(super) link: Rc<Link>,
    pub(super) tasks: JoinSet<()>,
    /// The client of the last request.
    pub(super) who: Who,
    /// Scratch space: the target of a request.
    pub(super) target: String,
    turn: Turn,
    /// Since when the kept input is an incomplete frame.
    partial_since: Option<Instant>,
    /// Since when no stream is open.
    idle_since: Option<Instant>,
    is_shrunk: bool,
    is_drained: bool,
    /// Nothing is read any more, because the proxy ends the connection.
    is_deaf: bool,
    /// Requests received.
    pub(super) requests: u64,
    began: Instant,
}

/// The result of a turn.
enum Step {
    /// Something was read or written: compute the deadlines again.
    Moved,
    /// Like `Moved`, and there is more to do; other connections first.
    Enough,
    End(End),
}

/// How a connection ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum End {
    /// Both sides have finished.
    Said,
    /// The client has closed it, or it broke.
    Left,
    /// The client was too slow.
    Cut,
}

/// Counts an open connection until it is dropped.
struct Open<'w>(&'w Worker);

impl Drop for Open<'_> {
    fn drop(&mut self) {
        metrics::sub(&self.0.counters.h2_connections_open, 1);
    }
}

/// Does a connection begin with the HTTP/2 preface? Bytes read stay in `input`. `None`: the connection has ended.
//= rfc9113 §3.3   prior knowledge: the preface comes at once
pub async fn has_preface(conn: &mut Conn) -> Option<bool> {
    let watch = Rc::clone(&conn.watch);
    let timeouts = &conn.listener.edition.plan.timeouts;
    let (mut limit, client_head) = (timeouts.client_idle, timeouts.client_head);
    loop {
        let len = conn.input.len().min(PREFACE.len());
        if conn.input[..len] != PREFACE[..len] {
            return Some(false);
        }
        if len == PREFACE.len() {
            return Some(true);
        }
        if !conn.await_handshake(true).await {
            return None;
        }
        let listener = conn.listener.id;
        let more = pin!(conn.read_more());
        match watch.limit_idle_of(listener, limit, more).await {
            Ok(More::Bytes) => limit = client_head,
            _ => return None,
        }
    }
}

/// May a connection that begins with these bytes speak HTTP/1? Its first line would name that protocol; an unfinished line may still.
//= rfc9113 §3.4   an invalid preface is a connection error, PROTOCOL_ERROR; only HTTP/2's own clients can read that
pub fn begins_as_http1(bytes: &[u8]) -> bool {
    let Some(end) = memchr::memchr(b'\n', bytes) else {
        return true;
    };
    let line = &bytes[..end];
    let names_it = memchr::memmem::find(line, b" HTTP/").is_some();
    names_it && !line.starts_with(b"PRI * HTTP/2")
}

/// Serves a connection until it is over.
pub async fn serve(conn: Conn) {
    let worker = &Rc::clone(&conn.worker);
    metrics::add(&worker.counters.h2_connections, 1);
    metrics::add(&worker.counters.h2_connections_open, 1);
    let _open = Open(worker);
    socket::keep_unsent_below(conn.stream.socket(), UNSENT_BYTES_MAX);
    let _spoken = Spoken::count(&worker.counters, Protocol::Http2, conn.encryption());
    let mut server = Server::new(worker, conn);
    let end = server.run().await;
    server.finish(end).await;
}

fn limits_of(conn: &Conn) -> Limits {
    let plan = &conn.listener.edition.plan;
    let (limits, timeouts) = (&plan.limits, &plan.timeouts);
    Limits {
        head_bytes_max: limits.head_bytes_max,
        fields_max: limits.fields_max,
        preface_time: timeouts.client_handshake,
        block_time: timeouts.client_head,
        settings_time: timeouts.client_head,
        stall_time: timeouts.client_write,
        rate_min: limits.client_rate_min,
        ..Limits::default()
    }
}

impl<'w> Server<'w> {
    pub(super) fn new(worker: &'w Rc<Worker>, conn: Conn) -> Server<'w> {
        let link = Link::new(limits_of(&conn), Instant::now(), conn.stream.is_early());
        // Encrypted bytes and queued bytes count for the same holder.
        link.is_known_as(conn.holder(&worker.shared.ledger));
        Server {
            worker,
            link,
            tasks: JoinSet::new(),
            who: Who {
                listener: Rc::clone(&conn.listener),
                peer: conn.peer,
                hop: conn.hop,
                tls: conn.tls.clone(),
            },
            conn,
            target: String::new(),
            turn: Turn::new(),
            partial_since: None,
            idle_since: None,
            is_shrunk: false,
            is_drained: false,
            is_deaf: false,
            requests: 0,
            began: Instant::now(),
        }
    }

    async fn run(&mut self) -> End {
        let watch = Rc::clone(&self.conn.watch);
        loop {
            let now = Instant::now();
            if (self.conn.stream.early_left()).is_some_and(|left| left.is_zero()) {
                return End::Left;
            }
            self.see_to_drain(now);
            let is_blocked = !self.turn.is_empty();
            let (limit, is_idle) = self.patience(now);
            let listener = self.conn.listener.id;
            let turn = pin!(poll_fn(|cx| self.poll_turn(cx)));
            let step = match is_idle {
                true => watch.limit_idle_of(listener, limit, turn).await,
                false => watch.limit(limit, turn).await,
            };
            if is_blocked && self.is_too_slow(now.elapsed()) {
                return End::Cut;
            }
            match step {
                Ok(Step::Moved) => {}
                Ok(Step::Enough) => tokio::task::yield_now().await,
                Ok(Step::End(end)) => return end,
                Err(_) => self.handle_timeouts(is_idle),
            }
        }
    }

    /// How long to wait for progress, and whether nothing is open.
    fn patience(&mut self, now: Instant) -> (Duration, bool) {
        let plan = &self.conn.listener.edition.plan;
        let http = self.link.http();
        let is_idle = http.open_streams() == 0
            && self.tasks.is_empty()
            && !http.has_output()
            && self.turn.is_empty();
        let mut limit = LOOK_EVERY;
        if !self.turn.is_empty() {
            let (stall_max, rate_min) = (plan.timeouts.client_write, plan.limits.client_rate_min);
            limit = limit.min(self.conn.pace.patience(stall_max, rate_min));
        } else if is_idle {
            let since = *self.idle_since.get_or_insert(now);
            let left = (plan.timeouts.client_idle).saturating_sub(now.duration_since(since));
            limit = match self.is_shrunk {
                true => left,
                false => left.min(SHRINK_AFTER),
            };
        }
        if !is_idle {
            self.idle_since = None;
            self.is_shrunk = false;
        }
        if let Some(deadline) = http.next_deadline() {
            limit = limit.min(deadline.saturating_sub(self.link.at(now)));
        }
        if let Some(left) = self.conn.stream.early_left() {
            limit = limit.min(left);
        }
        if let Some(since) = self.partial_since {
            let left = (plan.timeouts.client_head).saturating_sub(now.duration_since(since));
            limit = limit.min(left);
        }
        (limit, is_idle && !self.is_drained)
    }

    /// Begins to drain the connection if that is due: no new requests, open ones are completed.
    fn see_to_drain(&mut self, now: Instant) {
        if self.is_drained {
            return;
        }
        let is_handed_over = self.worker.shared.is_handed_over.load(Ordering::Relaxed);
        if is_handed_over || self.is_old(now) || self.conn.is_over() {
            self.is_drained = true;
            self.link.http().drain(self.link.at(now));
        }
    }

    /// Has the connection reached its maximum of requests or age? A new connection may be balanced to another server, and starts with
    /// empty state.
    fn is_old(&self, now: Instant) -> bool {
        let plan = &self.conn.listener.edition.plan;
        let (requests_max, age_max) = (
            plan.limits.connection_requests_max,
            plan.timeouts.client_age,
        );
        let is_due = |limit: bool, is_reached: bool| limit && is_reached;
        is_due(requests_max > 0, self.requests >= requests_max)
            || is_due(
                !age_max.is_zero(),
                now.duration_since(self.began) >= age_max,
            )
    }

    /// Handles the deadlines that have passed.
    fn handle_timeouts(&mut self, is_idle: bool) {
        let now = Instant::now();
        let timeouts = &self.conn.listener.edition.plan.timeouts;
        let (client_head, client_idle) = (timeouts.client_head, timeouts.client_idle);
        let is_late = |since: Option<Instant>, limit| {
            since.is_some_and(|since| now.duration_since(since) >= limit)
        };
        if is_late(self.partial_since, client_head) {
            self.cut_off();
        }
        let is_leaving = self.worker.shared.is_draining() || self.conn.is_leaving;
        if is_idle && (is_leaving || is_late(self.idle_since, client_idle)) {
            self.link.http().close(ErrorCode::NO_ERROR);
        } else if is_idle && !self.is_shrunk && is_late(self.idle_since, SHRINK_AFTER) {
            self.shrink();
        }
        let at = self.link.at(now);
        self.see_to_need(at);
        loop {
            let happened = self.link.http().handle_timeout(at);
            let Ok(Some(Event::Reset { stream, .. })) = happened else {
                break;
            };
            let in_need = self.link.known_holder().and_then(|it| it.patience());
            let cut = &self.worker.counters.transfers_cut;
            metrics::add(cut, u64::from(in_need.is_some()));
            if !self.link.reset(stream) {
                self.link.http().release(stream);
            }
        }
        self.report();
    }

    /// Ends the connection because of excessive input from the client: tells the client, and ends its streams.
    fn cut_off(&mut self) {
        self.is_deaf = true;
        self.link.http().close(ErrorCode::ENHANCE_YOUR_CALM);
        self.link.leave();
    }

    /// Shortens the time-out of streams that take nothing while other connections wait for their memory.
    fn see_to_need(&mut self, at: Duration) {
        let client_write = self.conn.listener.edition.plan.timeouts.client_write;
        let holder = self.link.known_holder();
        let in_need = holder.and_then(|holder| holder.patience());
        let stall_time = in_need.map_or(client_write, |most| most.min(client_write));
        self.link.http().set_stall_time(stall_time, at);
    }

    fn shrink(&mut self) {
        self.is_shrunk = true;
        self.link.http().release_buffers(&mut self.turn);
        self.link.release_buffers();
        self.target = String::new();
        self.tasks = JoinSet::new();
    }

    /// Counts the client's faults.
    fn report(&mut self) {
        for (fault, count) in self.link.http().take_counts().iter() {
            let counter = &self.worker.counters.h2_faults.0[fault as usize];
            metrics::add(counter, u64::from(count));
        }
    }

    /// The socket has not taken everything for `waited`: is the client too slow?
    fn is_too_slow(&mut self, waited: Duration) -> bool {
        let plan = &self.conn.listener.edition.plan;
        let (stall_max, rate_min) = (plan.timeouts.client_write, plan.limits.client_rate_min);
        let pace = &mut self.conn.pace;
        pace.wait(waited);
        if pace.patience(stall_max, rate_min).is_zero() || pace.unasked >= ASK_EVERY {
            pace.ask(self.conn.stream.untaken_bytes(), rate_min);
        }
        let holder = self.link.known_holder();
        let must_leave = holder.is_some_and(|it| it.must_leave(pace.stalled()));
        metrics::add(&self.worker.counters.transfers_cut, u64::from(must_leave));
        pace.is_cut = must_leave || pace.patience(stall_max, rate_min).is_zero();
        pace.is_cut
    }

    /// Runs a turn.
    fn poll_turn(&mut self, cx: &mut Context<'_>) -> Poll<Step> {
        self.link.register(cx);
        while let Poll::Ready(Some(_)) = self.tasks.poll_join_next(cx) {}
        let taken = match self.poll_input(cx) {
            Poll::Ready(Err(_)) => return Poll::Ready(Step::End(End::Left)),
            Poll::Ready(Ok(taken)) => Some(taken),
            Poll::Pending => None,
        };
        if !self.conn.stream.is_early() {
            self.link.handshake_ended();
        }
        let written = match self.poll_output(cx) {
            Poll::Ready(Err(_)) => return Poll::Ready(Step::End(End::Left)),
            Poll::Ready(Ok(written)) => written,
            Poll::Pending => false,
        };
        let fatal = self.link.http().fatal();
        if let Some(fault) = fatal.filter(|_| !self.is_deaf) {
            self.tell_of(fault);
            self.is_deaf = true;
            self.link.leave();
        }
        let http = self.link.http();
        let has_more = http.has_output();
        if self.turn.is_empty() && !has_more && http.is_over() && self.tasks.is_empty() {
            return Poll::Ready(Step::End(End::Said));
        }
        match (taken, written) {
            (Some(Taken::Enough), _) => Poll::Ready(Step::Enough),
            (_, true) if has_more && self.turn.is_empty() => Poll::Ready(Step::Enough),
            (Some(_), _) | (_, true) => Poll::Ready(Step::Moved),
            (None, false) => Poll::Pending,
        }
    }

    /// Logs why the connection ends. If answers are cut by that, warns at most once a minute: an honest client may have met a limit.
    #[cold]
    fn tell_of(&self, fault: Fault) {
        static SAID: Seldom = Seldom::new();
        let (client, answers) = (self.conn.peer, self.link.http().open_streams());
        tracing::debug!(%client, "an HTTP/2 connection ends: {fault}");
        if answers > 0 && SAID.is_due(self.worker.now_ms().0 / 1000) {
            tracing::warn!(
                %client,
                "an HTTP/2 connection is ended, with {answers} requests under way: {fault}. Further ones are counted only (h2_faults)"
            );
        }
    }

    /// Handles the kept input, or reads once.
    fn poll_input(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Taken>> {
        if self.is_deaf || self.link.http().must_write() {
            return Poll::Pending;
        }
        if self.partial_since.is_none() && !self.conn.input.is_empty() {
            return Poll::Ready(Ok(self.take_kept(Instant::now())));
        }
        if let Some(kept) = &self.conn.kept
            && kept.poll_must_go(cx)
        {
            metrics::add(&self.worker.counters.heads_shed, 1);
            return Poll::Ready(Err(ErrorKind::OutOfMemory.into()));
        }
        let worker = self.worker;
        let mut space = worker.input.borrow_mut();
        let mut buf = ReadBuf::new(&mut space);
        match Pin::new(&mut self.conn.stream).poll_read(cx, &mut buf) {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(read) => read?,
        }
        let came = Instant::now();
        let n = buf.filled().len();
        if n == 0 {
            return Poll::Ready(Err(ErrorKind::UnexpectedEof.into()));
        }
        if !self.conn.input.is_empty() {
            self.conn.input.extend_from_slice(&space[..n]);
            return Poll::Ready(Ok(self.take_kept(came)));
        }
        let (used, taken) = self.take_input(&space[..n], came);
        self.conn.input.extend_from_slice(&space[used..n]);
        Poll::Ready(Ok(self.keep(taken, came)))
    }

    fn take_kept(&mut self, came: Instant) -> Taken {
        let mut input = std::mem::take(&mut self.conn.input);
        let (used, taken) = self.take_input(&input, came);
        input.advance(used);
        self.conn.input = input;
        if used > 0 {
            // The rest is a later frame, so its time starts again.
            self.partial_since = None;
        }
        self.keep(taken, came)
    }

    /// Counts the unused input.
    fn keep(&mut self, taken: Taken, came: Instant) -> Taken {
        let conn = &mut self.conn;
        // A field block of several frames waits in the connection.
        let bytes = conn.input.len() + self.link.http().block_bytes();
        if bytes == 0 {
            (conn.input, conn.kept, self.partial_since) = (BytesMut::new(), None, None);
            return taken;
        }
        let kept = (conn.kept).get_or_insert_with(|| self.worker.heads.place());
        let has_room = match taken {
            Taken::All => {
                let since = *self.partial_since.get_or_insert(came);
                kept.grow(bytes, since)
            }
            Taken::Enough | Taken::Fatal => {
                self.partial_since = None;
                kept.hold(bytes)
            }
        };
        if has_room {
            return taken;
        }
        metrics::add(&self.worker.counters.heads_shed, 1);
        (conn.input, conn.kept) = (BytesMut::new(), None);
        self.cut_off();
        taken
    }

    /// Writes the current turn, or the next one. True: something was written.
    fn poll_output(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<bool>> {
        if self.turn.is_empty() {
            let now = self.link.at(Instant::now());
            if !(self.link.http()).poll_output(&mut self.turn, TURN_BYTES, now) {
                return Poll::Ready(Ok(false));
            }
            self.link.wake_writers();
        }
        let mut has_written = false;
        while !self.turn.is_empty() {
            let mut slices = [IoSlice::new(&[]); SLICES_MAX];
            let count = self.turn.chunks_vectored(&mut slices);
            let stream = Pin::new(&mut self.conn.stream);
            match stream.poll_write_vectored(cx, &slices[..count]) {
                Poll::Pending if has_written => break,
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(bytes)) => {
                    self.turn.advance(bytes);
                    self.conn.pace.untaken += bytes as u64;
                    has_written = true;
                }
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
            }
        }
        Poll::Ready(Ok(has_written))
    }

    /// Closes the connection, then waits for its streams' tasks.
    async fn finish(mut self, end: End) {
        self.report();
        self.link.leave();
        match end {
            End::Said => self.conn.linger().await,
            End::Left => {}
            End::Cut => {
                metrics::add(&self.worker.counters.client_connections_slow, 1);
                socket::reset_when_closed(self.conn.stream.socket());
            }
        }
        let Server {
            conn, mut tasks, ..
        } = self;
        drop(conn);
        while tasks.join_next().await.is_some() {}
    }
}
