//! A client's connection, from accept to close.
//!
//! The loop waits for a request without a buffer of its own: bytes arrive in the worker's scratch space, and nothing is allocated
//! while requests arrive whole and are answered from memory ([`crate::conn::fast`]). A head that arrives in parts, or a request that
//! needs more, gets a buffer ([`Conn::input`]) and a large boxed future ([`crate::request::handle`]). Boxing keeps an idle connection
//! small.
//!
//! Limits: head size, fields, target (431, 414), time to send a head (408), memory of all heads together ([`base::heads`]), idle time,
//! time without progress in writing.

use base::clock::Instant;
use std::{
    future::poll_fn,
    io,
    net::SocketAddr,
    pin::{Pin, pin},
    rc::Rc,
    task::{Poll, ready},
    time::Duration,
};

use bytes::{Buf, BytesMut};
use http1::{Reject, Scratch, parse_request};
use httpcache::UnixMillis;
use message::{Framing, Version};
use profile::Protocol;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::{
    conn::{
        fast::{self, Fast, OnDisk},
        socket::{Conn, More},
    },
    h2,
    hit::answer::{Sent, Unsent},
    listener::ListenerState,
    reply::{After, Reply, h1::H1},
    request::{
        asking::Kept,
        body::RequestBody,
        exchange::{Asker, Exchange},
        handle,
        incoming::Incoming,
        notes::Notes,
    },
    state::{ConnectionCount, READ_BYTES, Worker},
};
use base::{
    member::MemberId,
    socket::{self, Socket},
};
use plan::Role;
use record::{metrics, protocols::Spoken, seldom::Seldom};
use tls::{
    handshake::{self, Shaken},
    stream::ClientStream,
};

/// Requests answered in a row before other connections of the worker are served.
const TURN_REQUESTS: usize = 32;
/// Bytes read and discarded at the end of a connection: as many as an HTTP/2 client may have in flight.
const LINGER_BYTES: usize = http2::Limits::DEFAULT.connection_window as usize;
const _: () = assert!(LINGER_BYTES >= 256 << 10);
/// How long a client that has received everything may take to close.
const LINGER: Duration = Duration::from_secs(2);

/// The answer to plain HTTP on a TLS port.
const NOT_TLS: &str = "this port speaks TLS: ask with https://";

enum Turn {
    Request(Box<Incoming>),
    Rejected(Reject, Instant),
    /// The first bytes are not HTTP/1 and may be meant as HTTP/2. They stay in the input.
    NotHttp1,
    TimedOut(Instant),
    /// There is no room for the head. The time is that of its first byte.
    Crowded(Instant),
    /// The client has closed, the connection broke or was idle for too long, or the last answer said that it is the last.
    Closed,
    /// Everything is answered and the proxy ends the connection; the client may have sent another request already.
    Over,
}

/// A head that was shed after this time counts as slow (408), before as large (431).
const SLOW_HEAD: Duration = Duration::from_secs(1);

/// Logs at most once a minute, since refusals come in large numbers once the limit is reached.
fn warn_of_limit(now: UnixMillis, peer: SocketAddr) {
    static SAID: Seldom = Seldom::new();
    if SAID.is_due(now.0 / 1000) {
        tracing::warn!(%peer, "connection limit reached; raise limits.connections-max. Further ones are counted only");
    }
}

/// May this client be served (a member always may), and is there room for one more connection?
pub fn admit(
    worker: &Rc<Worker>,
    listener: &ListenerState,
    peer: SocketAddr,
    is_member: bool,
) -> Option<ConnectionCount> {
    if !is_member && !listener.admits(peer.ip()) {
        metrics::add(&worker.counters.client_connections_refused, 1);
        tracing::debug!(%peer, "client not allowed");
        return None;
    }
    let count = ConnectionCount::take(worker);
    if count.is_none() {
        metrics::add(&worker.counters.client_connections_refused, 1);
        warn_of_limit(worker.now_ms(), peer);
        return None;
    }
    metrics::add(&worker.counters.client_connections, 1);
    count
}

/// Serves a connection that was admitted, until one side closes it.
pub async fn serve(
    worker: Rc<Worker>,
    listener: Rc<ListenerState>,
    stream: Socket,
    peer: SocketAddr,
    member: Option<MemberId>,
    _count: ConnectionCount,
) {
    let mut conn = Conn::new(worker, listener, stream, peer, member);
    // Boxed, so that an idle connection stays small.
    if conn.begins_with_header() && !Box::pin(conn.read_header()).await {
        return;
    }
    let Some(_counted) = conn.is_counted() else {
        return;
    };
    // Connections from members do not begin with TLS here: members use a link of their own.
    if let (Some(served), None) = (conn.listener.tls.clone(), member) {
        let ClientStream::Plain(socket) = conn.stream else {
            return;
        };
        let first = std::mem::take(&mut conn.input);
        conn.kept = None;
        let shaking = handshake::shake(
            &conn.worker.tls,
            &conn.listener.edition.plan,
            &served,
            (socket, first),
        );
        let shaking = conn.worker.tls.crowd.join(Instant::now(), shaking);
        let shaken = Box::pin(shaking).await.unwrap_or_else(|| {
            metrics::add(&conn.worker.counters.tls_handshakes_given_up, 1);
            Shaken::Failed
        });
        (conn.stream, conn.tls) = match shaken {
            Shaken::Done(stream, seen) => (stream, Some(seen)),
            Shaken::Plain(socket) => {
                conn.stream = ClientStream::Plain(socket);
                let refused = refuse(&mut conn, 400, NOT_TLS, Instant::now());
                Box::pin(refused).await;
                conn.linger().await;
                return;
            }
            Shaken::Failed => return,
        };
    }
    if conn.listener.listener.http2 && member.is_none() {
        let is_forward = matches!(conn.listener.listener.role, Role::Forward(_));
        let agreed = match &conn.stream {
            ClientStream::Tls(tls) => Some(tls.agreed().alpn_protocol() == Some(b"h2")),
            ClientStream::Plain(_) => None,
        };
        let speaks = match agreed {
            // Go's client agrees on HTTP/2 with its proxy, and then sends CONNECT in HTTP/1.1. Send nothing before the protocol is known.
            Some(true) if !is_forward => Some(true),
            Some(false) => Some(false),
            _ => Box::pin(h2::serve::has_preface(&mut conn)).await,
        };
        match speaks {
            None => return,
            Some(true) => return Box::pin(h2::serve::serve(conn)).await,
            Some(false) => conn.speaks_both = agreed != Some(false),
        }
    }
    let spoken = Spoken::count(&conn.worker.counters, Protocol::Http11, conn.encryption());
    if answer_requests(&mut conn).await == Ended::NotHttp1 {
        drop(spoken);
        // The client's preface is malformed; HTTP/2 reports that.
        Box::pin(h2::serve::serve(conn)).await;
    }
}

/// How the HTTP/1 part of a connection ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Ended {
    Over,
    /// The first bytes were not HTTP/1.
    NotHttp1,
}

/// Answers the requests on a connection until it is over.
async fn answer_requests(conn: &mut Conn) -> Ended {
    loop {
        match conn.turn().await {
            // Only here does a request that is not a hit begin to have effects, so the TLS handshake must be complete.
            Turn::Request(_) if !conn.await_handshake(false).await => return Ended::Over,
            Turn::Request(incoming) => {
                let after = in_place(|| long_way(conn, incoming)).await;
                if after == After::Abort || conn.pace.is_cut {
                    socket::reset_when_closed(conn.stream.socket());
                    return Ended::Over;
                }
                if after == After::Close || conn.is_over() {
                    conn.linger().await;
                    return Ended::Over;
                }
                if conn.input.is_empty() {
                    conn.input = BytesMut::new();
                    conn.kept = None;
                }
            }
            Turn::Rejected(reject, began) => {
                metrics::add(&conn.worker.counters.requests_malformed, 1);
                let (status, reason) = (reject.status(), reject.reason());
                Box::pin(refuse(conn, status, reason, began)).await;
                conn.linger().await;
                return Ended::Over;
            }
            Turn::NotHttp1 => return Ended::NotHttp1,
            Turn::TimedOut(began) => {
                let reason = "the request took too long to arrive";
                Box::pin(refuse(conn, 408, reason, began)).await;
                conn.linger().await;
                return Ended::Over;
            }
            Turn::Crowded(began) => {
                metrics::add(&conn.worker.counters.heads_shed, 1);
                (conn.input, conn.kept) = (BytesMut::new(), None);
                let (status, reason) = match began.elapsed() >= SLOW_HEAD {
                    true => (
                        408,
                        "the request took too long to arrive while there were many",
                    ),
                    false => (
                        431,
                        "there is no room for a request as large as this at the moment",
                    ),
                };
                Box::pin(refuse(conn, status, reason, began)).await;
                conn.linger().await;
                return Ended::Over;
            }
            Turn::Over => {
                Box::pin(conn.linger()).await;
                return Ended::Over;
            }
            Turn::Closed => {
                // A close is safe only when the client has received everything.
                if !conn.pace.is_cut && conn.stream.untaken_bytes() > 0 {
                    Box::pin(conn.linger()).await;
                } else if conn.stream.is_unsettled() {
                    Box::pin(conn.settle()).await;
                }
                return Ended::Over;
            }
        }
    }
}

/// A boxed future that is built in its place: a future of some kilobytes would otherwise be copied two or three times.
pub fn in_place<F: Future>(make: impl FnOnce() -> F) -> Pin<Box<F>> {
    let place = Box::new_uninit();
    Box::into_pin(Box::write(place, make()))
}

/// Answers a request that the short way cannot answer.
async fn long_way(conn: &mut Conn, incoming: Box<Incoming>) -> After {
    let worker = &Rc::clone(&conn.worker);
    let head = &incoming.head;
    let body = RequestBody::framed(head.framing, &conn.listener.edition.limits);
    let listener = Rc::clone(&conn.listener);
    let asker = Asker {
        peer: conn.peer,
        hop: conn.hop,
        member: conn.member,
    };
    let is_head = head.method == "HEAD";
    let reply = Reply::H1(H1::new(conn, head.version, is_head, head.keep_alive));
    let mut ex = Exchange::new(worker, listener, asker, &incoming, body, reply);
    handle::handle(&mut ex, *incoming).await
}

/// Refuses a request whose head is malformed, late or too large; the connection is closed afterwards. Callers box the future, so that an
/// idle connection stays small.
async fn refuse(conn: &mut Conn, status: u16, reason: &str, began: Instant) {
    let worker = &Rc::clone(&conn.worker);
    let accepted = conn.accepted.take();
    let mut ex = Exchange {
        worker,
        listener: Rc::clone(&conn.listener),
        peer: conn.peer,
        hop: conn.hop,
        member: conn.member,
        body: RequestBody::framed(Framing::None, &conn.listener.edition.limits),
        reply: Reply::H1(H1::new(conn, Version::Http11, false, false)),
        record: Notes::new(Kept::nonsense(), began, accepted),
    };
    ex.refuse(status, reason, None).await;
}

/// The result of processing the bytes at hand.
enum Progress {
    /// All answered.
    Answered,
    /// Answered, except for the bytes that the socket did not take. True: the client may send another request.
    Unsent(Box<Unsent>, bool),
    /// Needs the long way.
    Request(Box<Incoming>),
    /// The object must be read from disk first.
    OnDisk(Box<OnDisk>),
    /// The last request asked for the end of the connection.
    Close,
    /// More bytes are needed.
    Partial,
    /// The request is refused.
    Rejected(Reject),
    /// The request is refused, and perhaps meant as HTTP/2.
    NotHttp1,
}

impl Conn {
    /// Answers requests from memory until one needs more, or the connection ends.
    async fn turn(&mut self) -> Turn {
        let mut answered = 0;
        let mut scanned = 0;
        let mut head_began: Option<Instant> = None;
        loop {
            if self.input.is_empty() && !self.await_handshake(true).await {
                return Turn::Closed;
            }
            let Some((progress, began)) = self.progress(scanned, head_began).await else {
                return Turn::Closed;
            };
            (scanned, head_began) = (0, None);
            match progress {
                Progress::Answered => {
                    self.kept = None;
                    answered += 1;
                    if self.is_over() {
                        return Turn::Over;
                    }
                    if answered % TURN_REQUESTS == 0 {
                        tokio::task::yield_now().await;
                    }
                }
                // Boxed, so that an idle connection stays small.
                Progress::Unsent(unsent, keep_open) => {
                    // If there is no room for the bytes behind this request, finish its answer and then end the connection.
                    let is_held = self.holds_input();
                    if !is_held {
                        self.input.clear();
                    }
                    let rest = fast::send_rest(self, *unsent, keep_open);
                    if !Box::pin(rest).await || !is_held {
                        return Turn::Closed;
                    }
                }
                Progress::Request(incoming) => {
                    if !self.holds_input() {
                        self.accepted = incoming.accepted;
                        return Turn::Crowded(began);
                    }
                    return Turn::Request(incoming);
                }
                Progress::OnDisk(on_disk) if !self.holds_input() => {
                    self.accepted = on_disk.accepted();
                    return Turn::Crowded(began);
                }
                Progress::OnDisk(on_disk) => {
                    let is_early = self.stream.is_early();
                    let answered = in_place(|| fast::from_disk(self, on_disk)).await;
                    if is_early && answered.is_ok() {
                        metrics::add(&self.worker.counters.tls_early_hits, 1);
                    }
                    match answered {
                        Ok(true) if !self.is_over() => {}
                        Ok(true) => return Turn::Over,
                        Ok(false) => return Turn::Closed,
                        Err(incoming) => return Turn::Request(incoming),
                    }
                }
                Progress::Close => return Turn::Closed,
                Progress::Rejected(reject) => return Turn::Rejected(reject, began),
                Progress::NotHttp1 => return Turn::NotHttp1,
                Progress::Partial => {
                    (scanned, head_began) = (self.input.len(), Some(began));
                    if !self.await_handshake(true).await {
                        return Turn::Closed;
                    }
                    if let Err(turn) = self.await_more(began).await {
                        return turn;
                    }
                }
            }
        }
    }

    /// Processes the bytes at hand, or waits for the next ones; returns the time of the first byte, too. `None`: the connection has ended.
    /// `scanned`: so many bytes are known to be an incomplete head, which began at `began`.
    async fn progress(
        &mut self,
        scanned: usize,
        began: Option<Instant>,
    ) -> Option<(Progress, Instant)> {
        if self.input.is_empty() {
            // The input is empty: read into the worker's space and process the bytes there.
            let watch = Rc::clone(&self.watch);
            let idle = self.listener.edition.plan.timeouts.client_idle;
            let listener = self.listener.id;
            let read = self.read_and_answer();
            return watch.limit_idle_of(listener, idle, pin!(read)).await.ok()?;
        }
        let began = began.unwrap_or_else(Instant::now);
        let is_complete = scanned == 0
            || http1::scan_end(&self.input, scanned).is_some()
            || self.input.len() >= self.listener.edition.limits.head_bytes_max;
        if !is_complete {
            return Some((Progress::Partial, began));
        }
        let input = std::mem::take(&mut self.input);
        let (used, progress) = self.answer_all(&input, began);
        self.input = input;
        self.drop_input(used);
        Some((progress, began))
    }

    /// Are these bytes the first on a listener with HTTP/2, and not even a line of HTTP/1? Called for a malformed request.
    #[cold]
    fn may_be_http2(&self, bytes: &[u8]) -> bool {
        self.speaks_both && self.accepted.is_some() && !h2::serve::begins_as_http1(bytes)
    }

    /// Waits for more of a head that began at `began`. `Err`: no more will come.
    async fn await_more(&mut self, began: Instant) -> Result<(), Turn> {
        let kept = self.kept.get_or_insert_with(|| self.worker.heads.place());
        if !kept.grow(self.input.len(), began) {
            return Err(Turn::Crowded(began));
        }
        // Check the limit here as well: a wait that finds a byte at once never times out.
        let limit = self.listener.edition.plan.timeouts.client_head;
        let left = limit.saturating_sub(began.elapsed());
        if left.is_zero() {
            return Err(Turn::TimedOut(began));
        }
        let watch = Rc::clone(&self.watch);
        match watch.limit(left, pin!(self.read_more())).await {
            Err(_) => Err(Turn::TimedOut(began)),
            Ok(More::Bytes) => Ok(()),
            Ok(More::Crowded) => Err(Turn::Crowded(began)),
            Ok(More::Closed) => Err(Turn::Closed),
        }
    }

    fn drop_input(&mut self, n: usize) {
        if !self.input.is_empty() && n > 0 {
            self.input.advance(n.min(self.input.len()));
            // Copy, so that the large buffer is not kept for a small rest.
            self.input = BytesMut::from(&self.input[..]);
        }
    }

    /// Counts the bytes left behind a request. False: there is no room for them.
    #[inline]
    fn holds_input(&mut self) -> bool {
        if self.input.is_empty() {
            self.kept = None;
            return true;
        }
        let kept = self.kept.get_or_insert_with(|| self.worker.heads.place());
        kept.hold(self.input.len())
    }

    /// Reads once into the worker's space and processes the bytes there. Unused bytes are copied to `input`. `None` is the end of the
    /// connection.
    async fn read_and_answer(&mut self) -> Option<(Progress, Instant)> {
        poll_fn(|cx| {
            let input = Rc::clone(&self.worker.input);
            let mut space = input.borrow_mut();
            let most = self.head_read_bytes_max();
            let mut buf = ReadBuf::new(&mut space[..most]);
            // `poll_read` (not `try_read`): a short read tells tokio that the socket is drained, which
            // saves the read that would only say so.
            let result = ready!(Pin::new(&mut self.stream).poll_read(cx, &mut buf));
            let began = Instant::now();
            let n = buf.filled().len();
            debug_assert!(n <= READ_BYTES);
            if result.is_err() || n == 0 {
                return Poll::Ready(None);
            }
            let (used, progress) = self.answer_all(&space[..n], began);
            if used < n {
                self.input.extend_from_slice(&space[used..n]);
            }
            Poll::Ready(Some((progress, began)))
        })
        .await
    }

    /// Processes the requests in `bytes`. Also returns how many bytes were used.
    fn answer_all(&mut self, bytes: &[u8], began: Instant) -> (usize, Progress) {
        if !self.follow() {
            metrics::add(&self.worker.counters.client_connections_refused, 1);
            return (bytes.len(), Progress::Close);
        }
        let mut used = 0;
        let mut began = began;
        loop {
            let rest = &bytes[used..];
            if rest.is_empty() {
                return (used, Progress::Answered);
            }
            let mut scratch = Scratch::new();
            let view = match parse_request(rest, &self.listener.edition.limits, &mut scratch) {
                Ok(Some(view)) => view,
                Ok(None) => return (used, Progress::Partial),
                Err(_) if self.may_be_http2(rest) => return (used, Progress::NotHttp1),
                Err(reject) => return (bytes.len(), Progress::Rejected(reject)),
            };
            let barred = match self.asks_for_client() {
                true => self.believe(&view),
                false => None,
            };
            let accepted = self.accepted.take();
            let answered = match barred {
                None => fast::answer(self, &view, began, accepted),
                Some(_) => Fast::NotHere,
            };
            used += view.head_bytes;
            if matches!(answered, Fast::Hit(_)) && self.stream.is_early() {
                metrics::add(&self.worker.counters.tls_early_hits, 1);
            }
            let progress = match answered {
                Fast::Hit(Sent::All) if view.keep_alive => {
                    began = Instant::now();
                    continue;
                }
                Fast::Hit(Sent::All | Sent::Gone) => return (bytes.len(), Progress::Close),
                Fast::Hit(Sent::Some(unsent)) => Progress::Unsent(unsent, view.keep_alive),
                Fast::OnDisk(on_disk) => Progress::OnDisk(on_disk),
                Fast::NotHere => {
                    let incoming = Incoming::new(&view, began, accepted);
                    Progress::Request(Box::new(Incoming { barred, ..incoming }))
                }
                Fast::Absent(absent) => Progress::Request(Box::new(Incoming {
                    absent: Some(absent),
                    ..Incoming::new(&view, began, accepted)
                })),
            };
            return (used, progress);
        }
    }

    /// Ends a connection from our side, for every protocol: sends pending bytes, then our end, and then reads until the client closes. If the
    /// socket were closed at once, the kernel would answer bytes that still arrive (requests, window updates, the rest of an upload) with a
    /// reset, which destroys bytes on their way to the client.
    ///
    /// A client that has received everything has [`LINGER`] to close. A client that still receives is given as much time as during an
    /// answer ([`crate::conn::pace`]).
    //= rfc9112 §9.6   close the write side, and read until the client's close or until its side has surely got all
    pub async fn linger(&mut self) {
        if self.pace.is_cut {
            return;
        }
        // Over TLS, written bytes may not have reached the socket yet.
        self.settle().await;
        let shutdown = poll_fn(|cx| Pin::new(&mut self.stream).poll_shutdown(cx));
        if self.watch.limit(LINGER, pin!(shutdown)).await.is_err() {
            return;
        }
        let plan = &self.listener.edition.plan;
        let (stall_max, rate_min) = (plan.timeouts.client_write, plan.limits.client_rate_min);
        let (mut left, mut until) = (LINGER_BYTES, Instant::now() + LINGER);
        while left > 0 {
            let limit = until.saturating_duration_since(Instant::now());
            let (stream, input) = (&mut self.stream, &self.worker.input);
            let read = poll_fn(|cx| {
                let mut space = input.borrow_mut();
                let mut buf = ReadBuf::new(&mut space);
                ready!(Pin::new(&mut *stream).poll_read(cx, &mut buf))?;
                Poll::Ready(io::Result::Ok(buf.filled().len()))
            });
            match self.watch.limit(limit, pin!(read)).await {
                Ok(Ok(n)) if n > 0 => left = left.saturating_sub(n),
                Ok(_) => return,
                Err(_) => {}
            }
            if Instant::now() < until {
                continue;
            }
            let untaken = self.stream.untaken_bytes();
            if untaken == 0 {
                return;
            }
            self.pace.wait(LINGER);
            self.pace.ask(untaken, rate_min);
            if self.pace.patience(stall_max, rate_min).is_zero() {
                // Reset, because the kernel would keep the unsent bytes for a long time.
                metrics::add(&self.worker.counters.client_connections_slow, 1);
                socket::reset_when_closed(self.stream.socket());
                return;
            }
            until = Instant::now() + LINGER;
        }
    }
}
