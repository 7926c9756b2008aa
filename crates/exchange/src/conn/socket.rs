//! A client's connection: the socket, the bytes read and not used yet, and the client's pace.
//!
//! Not known here: messages.

use base::clock::Instant;
use cache::fragments::FragmentMemory;
use std::{
    cell::OnceCell,
    future::poll_fn,
    io::IoSlice,
    net::SocketAddr,
    pin::{Pin, pin},
    rc::Rc,
    sync::{Arc, atomic::Ordering},
    task::{Poll, ready},
    time::Duration,
};

use bytes::BytesMut;
use device::Arena;
use profile::Encryption;
use tokio::io::{AsyncRead, AsyncWriteExt, ReadBuf};

use crate::{
    conn::pace::{ASK_EVERY, Pace, Wrote},
    listener::ListenerState,
    state::{READ_BYTES, Worker},
};
use base::{
    deadline::{Deadlines, Elapsed, Watch},
    heads::Kept,
    member::MemberId,
    socket::{self, Socket},
};
use ledger::{Holder, Ledger, STEP_BYTES_MIN};
use record::metrics;
use rules::rulebook::Standing;
use tls::{seen::Seen, stream::ClientStream};

/// A client connection.
pub struct Conn {
    /// The worker that serves it.
    pub worker: Rc<Worker>,
    /// The socket, or TLS over it.
    pub stream: ClientStream,
    /// The TLS session's parameters; `None`: the connection is not encrypted.
    pub tls: Option<Rc<Seen>>,
    /// The client's address. On a balancer's connection: that of the current request's client ([`crate::conn::who`]).
    pub peer: SocketAddr,
    /// The address of our direct peer: the socket's, or the one that a PROXY header names.
    pub hop: SocketAddr,
    /// The cluster member that opened the connection: it forwards its clients' requests, and its word about their addresses is trusted.
    pub member: Option<MemberId>,
    /// The listener that accepted it.
    pub listener: Rc<ListenerState>,
    /// The listener has been removed, so the connection ends with the next answer.
    pub is_leaving: bool,
    /// The client may begin to speak HTTP/2 without negotiation; the first bytes decide.
    pub speaks_both: bool,
    /// Bytes read and not yet used.
    pub input: BytesMut,
    /// The share of `input` in the memory budget of all heads, if `input` keeps bytes.
    pub kept: Option<Kept>,
    /// How fast the client takes its answers.
    pub pace: Pace,
    /// Time-outs of this task.
    pub watch: Rc<Watch>,
    /// When the connection was accepted; taken by the first request.
    pub accepted: Option<Instant>,
    /// The rules that its requests may match.
    pub standing: Standing,
    /// The connection's holder in the ledger, once a request of it has taken the long way.
    holder: OnceCell<Arc<Holder>>,
    /// Does the kernel send this client pages of memory without a copy? `None`: not decided yet.
    takes_pages: Option<bool>,
}

/// The result of reading more of a head.
pub enum More {
    /// There is more.
    Bytes,
    /// The connection has ended.
    Closed,
    /// The head must be given up to make room.
    Crowded,
}

impl Conn {
    /// A connection on which nothing has been read yet.
    pub fn new(
        worker: Rc<Worker>,
        listener: Rc<ListenerState>,
        socket: Socket,
        peer: SocketAddr,
        member: Option<MemberId>,
    ) -> Conn {
        Conn {
            stream: ClientStream::Plain(socket),
            tls: None,
            peer,
            hop: peer,
            member,
            listener,
            is_leaving: false,
            speaks_both: false,
            input: BytesMut::new(),
            kept: None,
            pace: Pace::default(),
            watch: Rc::new(Deadlines::watch(&worker.deadlines)),
            worker,
            accepted: Some(Instant::now()),
            standing: Standing::default(),
            holder: OnceCell::new(),
            takes_pages: None,
        }
    }

    /// The connection's holder in the ledger.
    pub fn holder(&self, ledger: &Ledger) -> Arc<Holder> {
        Arc::clone(self.holder.get_or_init(|| self.stream.holder(ledger)))
    }

    /// The client takes nothing: does it hold memory that others need?
    fn must_leave(&self) -> bool {
        let holder = self.holder.get();
        holder.is_some_and(|it| it.must_leave(self.pace.stalled()))
    }

    /// The encryption of the connection.
    pub fn encryption(&self) -> Encryption {
        (self.tls.as_ref()).map_or(Encryption::None, |tls| tls.encryption)
    }

    /// Adopts the worker's edition. To be called between two requests. False: this client is not served any more.
    pub fn follow(&mut self) -> bool {
        if self.listener.edition.number == self.worker.edition.get() {
            return true;
        }
        let Some(listener) = self.worker.listener(self.listener.id) else {
            self.is_leaving = true;
            return true;
        };
        self.listener = listener;
        if self.member.is_some() {
            return true;
        }
        self.peer = self.hop;
        self.listener.admits(self.hop.ip())
    }

    /// Does the connection end after the answer just sent?
    pub fn is_over(&mut self) -> bool {
        // After a hand-over to another process, wait one more answer, which says that it is the last: the client may have sent a request already.
        let is_handed_over = self.worker.shared.is_handed_over.load(Ordering::Relaxed);
        !self.follow() || self.is_leaving || (self.worker.shared.is_draining() && !is_handed_over)
    }

    /// Waits for the end of a TLS handshake, or with `or_input` for early data. False: the handshake failed or took too long.
    #[inline]
    pub async fn await_handshake(&mut self, or_input: bool) -> bool {
        match self.stream.early_left() {
            None => true,
            // Boxed, so that an idle connection stays small.
            Some(left) => Box::pin(self.shake(left, or_input)).await,
        }
    }

    async fn shake(&mut self, left: Duration, or_input: bool) -> bool {
        let stream = &mut self.stream;
        let shaken = poll_fn(|cx| stream.poll_handshake(cx, or_input));
        matches!(self.watch.limit(left, pin!(shaken)).await, Ok(Ok(())))
    }

    /// Bytes behind a request's head were taken: once nothing is left, nothing is counted, nor is their memory kept.
    pub fn input_taken(&mut self) {
        if self.input.is_empty() {
            (self.input, self.kept) = (BytesMut::new(), None);
        }
    }

    /// Reads more behind a request's head into `input`; 0 bytes are the end of the connection. How much at most is asked when it is there: many
    /// that wait would all be told the same. It comes by way of the worker's space, and waits without memory of its own.
    pub async fn read(
        &mut self,
        bytes_max: impl Fn() -> usize,
        limit: Duration,
    ) -> Result<std::io::Result<usize>, Elapsed> {
        let space = Rc::clone(&self.worker.input);
        let (stream, input) = (&mut self.stream, &mut self.input);
        let read = poll_fn(|cx| {
            let mut space = space.borrow_mut();
            let most = bytes_max().min(space.len());
            let mut buf = ReadBuf::new(&mut space[..most]);
            ready!(Pin::new(&mut *stream).poll_read(cx, &mut buf))?;
            input.extend_from_slice(buf.filled());
            Poll::Ready(Ok(buf.filled().len()))
        });
        self.watch.limit(limit, pin!(read)).await
    }

    /// What may be read of a head at once, since bytes of a body may come along: little, while clients hold more than their part.
    #[inline]
    pub fn head_read_bytes_max(&self) -> usize {
        match self.worker.shared.ledger.is_crowded() {
            true => STEP_BYTES_MIN,
            false => READ_BYTES,
        }
    }

    /// Reads more of a head. It comes by way of the worker's `space`, so that no more is kept than what has come.
    pub async fn read_more(&mut self) -> More {
        let space = Rc::clone(&self.worker.input);
        poll_fn(|cx| {
            if self.kept.as_ref().is_some_and(|kept| kept.poll_must_go(cx)) {
                return Poll::Ready(More::Crowded);
            }
            let mut space = space.borrow_mut();
            let most = self.head_read_bytes_max().min(space.len());
            let mut buf = ReadBuf::new(&mut space[..most]);
            let result = ready!(Pin::new(&mut self.stream).poll_read(cx, &mut buf));
            if result.is_err() || buf.filled().is_empty() {
                return Poll::Ready(More::Closed);
            }
            self.input.extend_from_slice(buf.filled());
            Poll::Ready(More::Bytes)
        })
        .await
    }

    /// Sends the pending bytes of an encrypted connection and its end. Resets the connection if the client does not take them in time.
    pub async fn settle(&mut self) {
        if !self.stream.is_unsettled() || self.pace.is_cut {
            return;
        }
        let limit = self.listener.edition.plan.timeouts.client_write;
        let stream = &mut self.stream;
        let settled = poll_fn(|cx| stream.poll_settle(cx));
        if self.watch.limit(limit, pin!(settled)).await.is_err() {
            socket::reset_when_closed(self.stream.socket());
        }
    }

    /// The body's position in the memory of fragments, if the kernel may send it from there without a copy: not over TLS, and not to a
    /// client on this machine (docs/decisions/0082).
    fn pages_of<'w>(
        &mut self,
        fragments: &'w FragmentMemory,
        body: &[u8],
    ) -> Option<(&'w Arena, u64)> {
        let ClientStream::Plain(socket) = &self.stream else {
            return None;
        };
        let (arena, place) = fragments.place_of(body)?;
        let also_here = self.listener.edition.plan.sends_pages_here;
        let takes_pages = || socket::takes_pages(socket, also_here);
        (self.takes_pages.get_or_insert_with(takes_pages)).then_some((&**arena, place))
    }

    /// Writes as much of `head` and `body` as the socket takes. `at_most`: the longest wait; without it, until the client is too slow.
    ///
    /// A socket becomes writable only when much of the kernel's buffer, megabytes, has been sent, so a merely slow client would look as if it
    /// took nothing. So the kernel is asked how much is unsent.
    pub async fn write_once(
        &mut self,
        head: &[u8],
        body: &[u8],
        at_most: Option<Duration>,
    ) -> Wrote {
        let worker = Rc::clone(&self.worker);
        let pages = self.pages_of(&worker.shared.cache.fragments, body);
        let plan = &self.listener.edition.plan;
        let (stall_max, rate_min) = (plan.timeouts.client_write, plan.limits.client_rate_min);
        let began = Instant::now();
        loop {
            let slice_began = Instant::now();
            let patience = self.pace.patience(stall_max, rate_min);
            let left = at_most.map_or(patience, |most| most.saturating_sub(began.elapsed()));
            let slice = patience.min(left).min(ASK_EVERY);
            let stream = &mut self.stream;
            let write = async {
                if let Some((arena, place)) = pages {
                    let socket = stream.socket();
                    if !head.is_empty() {
                        return socket::write_ahead(socket, head).await;
                    }
                    let sent = socket::send_kept(socket, arena, place, body.len()).await?;
                    metrics::add(&worker.counters.body_bytes_uncopied, sent as u64);
                    Ok(sent)
                } else if body.is_empty() {
                    stream.write(head).await
                } else if head.is_empty() {
                    stream.write(body).await
                } else {
                    let slices = [IoSlice::new(head), IoSlice::new(body)];
                    stream.write_vectored(&slices).await
                }
            };
            let written = self.watch.limit(slice, pin!(write)).await;
            self.pace.wait(slice_began.elapsed());
            if written.is_err() || self.pace.unasked >= ASK_EVERY {
                let untaken = self.stream.untaken_bytes();
                self.pace.ask(untaken, rate_min);
            }
            match written {
                Ok(Ok(n)) if n > 0 => {
                    self.pace.untaken += n as u64;
                    return Wrote::Some(n);
                }
                Ok(_) => return Wrote::Gone,
                Err(_) if self.pace.patience(stall_max, rate_min).is_zero() => {
                    self.pace.is_cut = true;
                    metrics::add(&worker.counters.client_connections_slow, 1);
                    // Reset, because the kernel would keep the unsent bytes for a long time.
                    socket::reset_when_closed(self.stream.socket());
                    return Wrote::Gone;
                }
                Err(_) if self.must_leave() => {
                    self.pace.is_cut = true;
                    metrics::add(&worker.counters.transfers_cut, 1);
                    socket::reset_when_closed(self.stream.socket());
                    return Wrote::Gone;
                }
                Err(_) if at_most.is_some_and(|most| began.elapsed() >= most) => {
                    return Wrote::Nothing;
                }
                Err(_) => {}
            }
        }
    }
}
