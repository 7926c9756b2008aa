//! One request to an origin and its answer, over a pooled or a new connection.
//!
//! The request is sent, then the heads are read (interim responses one by one, as they arrive), then the body in pieces.
//! The origin may have closed a pooled connection unnoticed. The request is then sent once more on a new connection, if nothing of an
//! answer has arrived and the request can be repeated (RFC 9112 §9.3.1).
//!
//! Every wait has a limit. After the head, `body` takes over, and also gives the connection back.
//!
//! Not known here: caching, clients.

use base::clock::Instant;
use std::{
    future::poll_fn,
    io,
    pin::{Pin, pin},
    task::Poll,
    time::Duration,
};

use bytes::{Buf, Bytes, BytesMut};
use http1::{Chunk, ChunkedDecoder, Limits, Reject};
use http2::ErrorCode;
use message::{Framing, Part, ResponseHead};
use tokio::io::{AsyncRead, ReadBuf};

pub use crate::leasing::{Fit, Whom, connect};
use crate::{
    BodyFilter, Lease, OriginContext, OriginWaits,
    body::Body,
    outcome::{INTERIM_MAX, UpstreamError},
    signing::{self, Judged, Signer, unsigned::Unsigned},
    tls_words,
    trip::Trip,
    writing::{Moved, seat_write_or_hear, write_all, write_or_hear},
};
use base::{deadline::Watch, heads::Kept};
use ledger::{Receiving, window::Window};
use record::metrics;

/// The most bytes of one read while a head is awaited.
pub(super) const FIRST_READ_BYTES: usize = 16 << 10;

/// How often a request is sent again if the origin did not take it.
pub const UNPROCESSED_TRIES: u32 = 2;

/// The longest body of a refusal that is read to its end so that the connection can be reused.
const REFUSAL_BYTES_MAX: u64 = 16 << 10;
/// The most bytes of an answer that are examined for a refusal of our signature, and the wait for them.
const PEEK_BYTES_MAX: usize = 16 << 10;
const PEEK_WAIT: Duration = Duration::from_secs(2);
/// The wait for the end of such a body. A client waits meanwhile, and a new connection costs little more.
const REFUSAL_WAIT: Duration = Duration::from_millis(5);

/// Does another head follow on the same connection?
pub fn is_interim(head: &ResponseHead) -> bool {
    head.status < 200 && head.status != 101
}

/// Is the method safe? Only methods that may be repeated are asked about.
pub fn is_safe(method: &str) -> bool {
    matches!(method, "GET" | "HEAD" | "OPTIONS")
}

/// Frames a part of a request body for an origin.
pub fn framed(part: Part, is_chunked: bool) -> Bytes {
    match part {
        Part::Data(data) if is_chunked => {
            let mut out = Vec::with_capacity(data.len() + 16);
            http1::write_chunk_header(data.len(), &mut out);
            out.extend_from_slice(&data);
            out.extend_from_slice(b"\r\n");
            out.into()
        }
        Part::Data(data) => data,
        Part::Trailers(trailers) => {
            let mut out = Vec::new();
            http1::write_trailers(&trailers, &mut out);
            out.into()
        }
    }
}

/// A connection with a request on it.
pub struct Upstream {
    lease: Lease,
    input: BytesMut,
    /// `input` holds the first bytes of a body, in a buffer of exactly their length.
    is_exact: bool,
    /// The share of `input` in the budget for incomplete heads.
    kept: Option<Kept>,
    /// Bytes of an answer have arrived.
    has_heard: bool,
    /// How many more interim responses are accepted.
    interim_left: usize,
    /// An interim response announced a body, or the end of the connection: do not reuse it.
    unsound: bool,
    /// Filters the body of the final answer.
    filter: Option<Box<dyn BodyFilter>>,
    /// Counts the answer among the bodies being received.
    receiving: Option<Receiving>,
    trip: Trip,
    waits: OriginWaits,
    /// When the last head had arrived.
    pub received: Instant,
}

/// Sends a request without a body and waits for the head of its final answer. Interim responses are dropped.
pub async fn ask_final(
    context: &OriginContext,
    watch: &Watch,
    whom: &Whom<'_>,
    method: &str,
    request: &[u8],
) -> Result<(Upstream, ResponseHead), UpstreamError> {
    let (mut upstream, mut head) = ask(context, watch, whom, method, request).await?;
    while is_interim(&head) {
        head = upstream.head(context, watch, method).await?;
    }
    Ok((upstream, head))
}

/// Sends a request without a body and waits for the first head, which may be that of an interim response.
pub async fn ask(
    context: &OriginContext,
    watch: &Watch,
    whom: &Whom<'_>,
    method: &str,
    request: &[u8],
) -> Result<(Upstream, ResponseHead), UpstreamError> {
    let mut fit = Fit::Pooled;
    let (mut left, mut may_sign_again) = (UNPROCESSED_TRIES, true);
    if let Some(signer) = whom.signer {
        signer.ready(request).await?;
    }
    loop {
        let (lease, reused) = connect(context, whom, fit).await?;
        let mut upstream = Upstream::new(lease, whom.trip.clone(), whom.waits);
        let result = async {
            match whom.signer {
                Some(signer) => {
                    let signed = signer.sign(request)?;
                    upstream.send(context, watch, &signed).await?;
                }
                None => upstream.send(context, watch, request).await?,
            }
            upstream.head(context, watch, method).await
        }
        .await;
        match result {
            Ok(head) if let Some(signer) = whom.signer => {
                match upstream.judged(context, watch, signer, &head).await {
                    None => return Ok((upstream, head)),
                    Some(Judged::ClockLearned) if may_sign_again => {
                        may_sign_again = false;
                        upstream.keep(context, watch, &head).await;
                    }
                    Some(_) => {
                        upstream.keep(context, watch, &head).await;
                        return Err(Unsigned::Refused.into());
                    }
                }
            }
            Ok(head) => return Ok((upstream, head)),
            Err(UpstreamError::Closed(_))
                if reused && !upstream.has_heard && fit == Fit::Pooled =>
            {
                fit = Fit::New;
            }
            //= rfc9113 §8.7   what was not processed may be sent again
            Err(
                UpstreamError::Unprocessed | UpstreamError::Reset(ErrorCode::HTTP_1_1_REQUIRED),
            ) if left > 0 => left -= 1,
            Err(error) => return Err(error),
        }
    }
}

impl Upstream {
    /// Takes over a connection on which nothing is under way.
    pub fn new(lease: Lease, trip: Trip, waits: OriginWaits) -> Upstream {
        Upstream {
            lease,
            input: BytesMut::new(),
            is_exact: false,
            kept: None,
            has_heard: false,
            interim_left: INTERIM_MAX,
            unsound: false,
            filter: None,
            receiving: None,
            received: trip.began(),
            trip,
            waits,
        }
    }

    /// Where times and bytes are noted.
    pub fn trip(&self) -> &Trip {
        &self.trip
    }

    /// Sets the filter for the body.
    pub fn filter_body(&mut self, filter: Box<dyn BodyFilter>) {
        self.filter = Some(filter);
    }

    /// Writes bytes of a request.
    pub async fn send(
        &mut self,
        context: &OriginContext,
        watch: &Watch,
        bytes: &[u8],
    ) -> Result<(), UpstreamError> {
        metrics::add(&context.counters.origin_requests, 1);
        let written = match self.lease.seat() {
            Some(seat) => {
                let holder = self.trip.holder();
                let holder = holder.unwrap_or_else(|| context.ledger.holder());
                seat.ask(bytes, Window::new(&context.ledger, holder))
            }
            None => write_all(self.waits.write, watch, &mut self.lease, bytes).await,
        };
        self.trip.sent();
        written.inspect_err(|error| self.failed(error))
    }

    /// The request failed. A pooled connection that was already dead tells nothing about its server, so no verdict is given then.
    fn failed(&self, error: &UpstreamError) {
        self.trip.broke_off();
        if let UpstreamError::Reset(ErrorCode::HTTP_1_1_REQUIRED) = error {
            self.lease.wants_http1();
        }
        if let UpstreamError::Closed(error) = error {
            tls_words::log_alert(self.lease.destination(), error);
        }
        let is_of_the_pool =
            self.lease.is_reused() && !self.has_heard && matches!(error, UpstreamError::Closed(_));
        if is_of_the_pool && !self.lease.is_shared() {
            self.lease.was_closed();
        }
        // A server that shuts down or is overloaded has not failed.
        let is_told = !is_of_the_pool && !matches!(error, UpstreamError::Unprocessed);
        if let Some(verdict) = self.lease.verdict().filter(|_| is_told) {
            verdict.failed(error);
        }
    }

    /// Writes bytes of a request body, and reads at the same time.
    pub async fn write_or_hear(
        &mut self,
        watch: &Watch,
        unsent: &mut Bytes,
    ) -> Result<Moved, UpstreamError> {
        if let Some(seat) = self.lease.seat() {
            let moved = seat_write_or_hear(self.waits.write, watch, seat, unsent).await;
            match &moved {
                Ok(Moved::Sent) => self.trip.sent(),
                Ok(Moved::Heard) => {}
                Err(_) => self.trip.broke_off(),
            }
            return moved;
        }
        let before = self.input.len();
        let moved = write_or_hear(
            self.waits.write,
            watch,
            &mut self.lease,
            unsent,
            &mut self.input,
        )
        .await;
        self.has_heard |= self.input.len() > before;
        self.trip.received(self.input.len() - before);
        match &moved {
            Ok(Moved::Sent) => self.trip.sent(),
            Ok(Moved::Heard) => {}
            Err(_) => self.trip.broke_off(),
        }
        moved
    }

    /// The next head. Interim heads are returned too; their number is bounded, and each has its own time limit.
    pub async fn head(
        &mut self,
        context: &OriginContext,
        watch: &Watch,
        method: &str,
    ) -> Result<ResponseHead, UpstreamError> {
        let head = match self.lease.is_shared() {
            true => self.shared_head(watch).await,
            false => self.read_head(context, watch, method).await,
        };
        match &head {
            Ok(head) if is_interim(head) => {}
            Ok(head) => {
                self.received = Instant::now();
                self.trip.answered(head.version, self.received);
                if let Some(verdict) = self.lease.verdict() {
                    verdict.answered(head.status);
                }
            }
            Err(error) => self.failed(error),
        }
        head
    }

    /// Frames a part of a request body for this origin.
    pub fn frame(&mut self, part: Part, is_chunked: bool) -> Bytes {
        match self.lease.seat() {
            Some(seat) => seat.frame(part),
            None => framed(part, is_chunked),
        }
    }

    /// Is the request on a stream of HTTP/2?
    pub fn is_shared(&self) -> bool {
        self.lease.is_shared()
    }

    /// The next head on a stream of HTTP/2.
    async fn shared_head(&mut self, watch: &Watch) -> Result<ResponseHead, UpstreamError> {
        let began = match self.interim_left {
            INTERIM_MAX => self.trip.asked_last(),
            _ => Instant::now(),
        };
        let left = self.waits.first_byte.saturating_sub(began.elapsed());
        let seat = self.lease.seat().expect("it is one");
        let head = poll_fn(|cx| seat.poll_head(cx));
        let head = watch.limit(left, pin!(head)).await;
        let head = head.map_err(|_| UpstreamError::Timeout)??;
        self.has_heard = true;
        self.heard(head)
    }

    async fn read_head(
        &mut self,
        context: &OriginContext,
        watch: &Watch,
        method: &str,
    ) -> Result<ResponseHead, UpstreamError> {
        let limits = self.waits.limits;
        // One limit for the whole head, so that a slow trickle of bytes does not extend it.
        let limit = self.waits.first_byte;
        let began = match self.interim_left {
            INTERIM_MAX => self.trip.asked_last(),
            _ => Instant::now(),
        };
        let mut scanned = 0;
        self.is_exact = false;
        loop {
            // The head is parsed only once its end is there, not again for every byte of a slow one.
            if http1::scan_end(&self.input, scanned).is_some() {
                self.kept = None;
                let (head, head_bytes) = parse_head(&self.input, &limits, method)?;
                self.input.advance(head_bytes);
                return self.heard(head);
            }
            if self.input.len() > limits.head_bytes_max {
                return Err(UpstreamError::Malformed(Reject::Response(
                    http1::Fault::HeadTooLarge,
                )));
            }
            scanned = self.input.len();
            let empty = self.input.is_empty();
            if !empty {
                let kept = self.kept.get_or_insert_with(|| context.heads.place());
                if !kept.grow(self.input.len(), began) {
                    return Err(crowded(context));
                }
            }
            let left = limit.saturating_sub(began.elapsed());
            if left.is_zero() {
                return Err(UpstreamError::Timeout);
            }
            let parses = Some((&limits, method));
            let read = watch
                .limit(left, pin!(self.read_more(context, parses)))
                .await;
            match read {
                Err(_) => return Err(UpstreamError::Timeout),
                Ok(None) => return Err(crowded(context)),
                Ok(Some(Err(error))) => return Err(UpstreamError::Closed(error)),
                Ok(Some(Ok(Read::Bytes(0)))) => {
                    return Err(UpstreamError::Closed(io::ErrorKind::UnexpectedEof.into()));
                }
                Ok(Some(Ok(Read::Bytes(_)))) => {}
                Ok(Some(Ok(Read::Head(head)))) => return self.heard(head?),
            }
        }
    }

    /// Handles a parsed head: the number of interim heads is bounded.
    fn heard(&mut self, head: ResponseHead) -> Result<ResponseHead, UpstreamError> {
        if is_interim(&head) {
            self.unsound |= !head.keep_alive;
            let left = self.interim_left.checked_sub(1);
            self.interim_left = left.ok_or(UpstreamError::Malformed(Reject::Response(
                http1::Fault::StatusCode,
            )))?;
        }
        Ok(head)
    }

    /// Waits until the origin has sent something or has closed, without taking anything.
    pub async fn readable(&mut self, context: &OriginContext) {
        if let Some(seat) = self.lease.seat() {
            return poll_fn(|cx| seat.poll_news(cx)).await;
        }
        if !self.input.is_empty() {
            return;
        }
        let _ = self.read_more(context, None).await;
    }

    /// Reads once, into the worker's buffer, and keeps a copy of what came. `None`: the budget for incomplete heads demands that this one be dropped.
    /// `parses`: a head is awaited. If it arrives whole, as most do, it is parsed in that buffer, and only the bytes after it are kept.
    async fn read_more(
        &mut self,
        context: &OriginContext,
        parses: Option<(&Limits, &str)>,
    ) -> Option<io::Result<Read>> {
        poll_fn(|cx| {
            if self.kept.as_ref().is_some_and(|kept| kept.poll_must_go(cx)) {
                return Poll::Ready(None);
            }
            let mut space = context.input.borrow_mut();
            // The first bytes of a body come along with the head, before the ledger was asked for room.
            let ledger = &context.ledger;
            (self.receiving).get_or_insert_with(|| ledger.receives());
            let most = FIRST_READ_BYTES.min(ledger.step());
            let mut buf = ReadBuf::new(&mut space[..most]);
            let read = Pin::new(self.lease.stream()).poll_read(cx, &mut buf);
            read.map(|result| {
                let came = buf.filled();
                self.has_heard |= !came.is_empty();
                self.trip.received(came.len());
                if let Some((limits, method)) = parses
                    && self.input.is_empty()
                    && let Some(head) = http1::parse_response(came, limits, method).transpose()
                {
                    let head = head.map_err(UpstreamError::from).map(|(head, head_bytes)| {
                        self.input = BytesMut::from(&came[head_bytes..]);
                        self.is_exact = true;
                        head
                    });
                    return Some(Ok(Read::Head(head)));
                }
                self.input.extend_from_slice(came);
                Some(result.map(|()| Read::Bytes(came.len())))
            })
        })
        .await
    }

    /// Whether an answer refuses the signature of its request; `None`: it does not.
    async fn judged(
        &mut self,
        context: &OriginContext,
        watch: &Watch,
        signer: &Signer,
        head: &ResponseHead,
    ) -> Option<Judged> {
        if !signing::may_be_refusal(head) {
            return None;
        }
        let answer = self.peek(context, watch, head.framing).await;
        let origin = self.lease.destination().to_string();
        signer.judge(head, &answer, &origin)
    }

    /// An error if this answer refuses the signature of its request. The request is not sent again.
    pub async fn accepted(
        &mut self,
        context: &OriginContext,
        watch: &Watch,
        signer: &Signer,
        head: &ResponseHead,
    ) -> Result<(), UpstreamError> {
        match self.judged(context, watch, signer, head).await {
            None => Ok(()),
            Some(_) => Err(Unsigned::Refused.into()),
        }
    }

    /// The first bytes of an answer's body, as far as they come soon, without taking them.
    async fn peek(&mut self, context: &OriginContext, watch: &Watch, framing: Framing) -> Vec<u8> {
        if let Some(seat) = self.lease.seat() {
            let there = poll_fn(|cx| seat.poll_held(cx, PEEK_BYTES_MAX));
            let _ = watch.limit(PEEK_WAIT, pin!(there)).await;
            return seat.peek(PEEK_BYTES_MAX);
        }
        let limits = self.waits.limits;
        let fill = async {
            loop {
                let (answer, is_whole) = beginning(&self.input, framing, &limits);
                if is_whole || self.input.len() >= PEEK_BYTES_MAX {
                    return answer;
                }
                self.is_exact = false;
                match self.read_more(context, None).await {
                    Some(Ok(Read::Bytes(bytes))) if bytes > 0 => {}
                    _ => return answer,
                }
            }
        };
        let filled = watch.limit(PEEK_WAIT, pin!(fill)).await;
        filled.unwrap_or_else(|_| beginning(&self.input, framing, &limits).0)
    }

    /// The body that follows the head just read. After an interim head another head follows, so the connection is not reused then.
    pub fn body(mut self, head: &ResponseHead) -> Body {
        let reusable = head.keep_alive && !self.unsound && !is_interim(head);
        if reusable && !self.lease.is_shared() {
            self.lease.answered(self.received, told(head));
        }
        let mut body = Body::new(
            self.lease,
            (self.input, self.is_exact),
            (self.trip, self.waits),
            (head.framing, self.filter),
            reusable,
        );
        body.receiving = self.receiving;
        body
    }

    /// Discards a short answer, and returns the connection to the pool once the answer is read.
    pub async fn keep(self, context: &OriginContext, watch: &Watch, head: &ResponseHead) {
        let is_short = match head.framing {
            // For example after 204.
            message::Framing::None => true,
            message::Framing::Length(bytes) => bytes <= REFUSAL_BYTES_MAX,
            _ => false,
        };
        if is_short {
            let mut body = self.body(head);
            // Boxed, because it is rare and would double the future of every request.
            let read =
                Box::pin(async { while let Ok(Some(_)) = body.next(context, watch).await {} });
            let _ = tokio::time::timeout(REFUSAL_WAIT, read).await;
        }
    }

    /// The bare connection and the bytes already read from it, after an upgrade.
    pub fn into_parts(self) -> (Lease, BytesMut) {
        self.trip.ended();
        (self.lease, self.input)
    }
}

/// How long the origin keeps an idle connection open, if it says so: `Keep-Alive: timeout=5`.
fn told(head: &ResponseHead) -> Option<Duration> {
    let mut told = head.fields.members(b"keep-alive");
    let seconds = told.find_map(|member| {
        let (name, value) = member.split_at_checked(b"timeout=".len())?;
        let value = std::str::from_utf8(value).ok()?;
        name.eq_ignore_ascii_case(b"timeout=")
            .then(|| value.trim().parse::<u32>().ok())?
    });
    seconds.map(|seconds| Duration::from_secs(seconds.into()))
}

/// The content of a body as far as `input` has it, without framing; true: that is all of it.
fn beginning(input: &[u8], framing: Framing, limits: &Limits) -> (Vec<u8>, bool) {
    match framing {
        Framing::None => (Vec::new(), true),
        Framing::UntilClose => (input.to_vec(), false),
        Framing::Length(bytes) => {
            let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
            let all = input.get(..bytes);
            (all.unwrap_or(input).to_vec(), all.is_some())
        }
        Framing::Chunked => {
            let (mut decoder, mut rest, mut out) = (ChunkedDecoder::new(limits), input, Vec::new());
            loop {
                match decoder.next(rest) {
                    Ok(Chunk::Data { start, end }) => {
                        out.extend_from_slice(&rest[start..end]);
                        rest = &rest[end..];
                    }
                    Ok(Chunk::More { .. }) => return (out, false),
                    _ => return (out, true),
                }
            }
        }
    }
}

/// The result of a read.
enum Read {
    /// This many more bytes of input.
    Bytes(usize),
    /// A whole head.
    Head(Result<ResponseHead, UpstreamError>),
}

fn parse_head(
    bytes: &[u8],
    limits: &Limits,
    method: &str,
) -> Result<(ResponseHead, usize), UpstreamError> {
    let head = http1::parse_response(bytes, limits, method)?;
    // A longer head is not parsed.
    head.ok_or(UpstreamError::Malformed(Reject::Response(
        http1::Fault::HeadTooLarge,
    )))
}

/// The error for a head without room, counted.
fn crowded(context: &OriginContext) -> UpstreamError {
    metrics::add(&context.counters.heads_shed, 1);
    UpstreamError::Crowded
}
