//! One request to an origin and its answer, over a pooled or a new connection.
//!
//! The request goes out, the heads come in (interim responses one by one, as they arrive), then the body in pieces.
//! A pooled connection may have been closed by the origin in the meantime: then, and only when nothing of an
//! answer was seen and the request can be repeated, it is sent once more on a new connection (RFC 9112 §9.3.1).
//!
//! A connection goes back to the pool only when the answer ended where its framing said and both sides keep it
//! open. Every wait has a limit.
//!
//! Not known here: caching, clients.

use crate::clock::Instant;
use std::{
    future::poll_fn,
    io,
    pin::{Pin, pin},
    rc::Rc,
    task::Poll,
    time::Duration,
};

use bytes::{Buf, Bytes, BytesMut};
use fields::Fields;
use http1::{Chunk, ChunkedDecoder, Framing, Limits, Reject, ResponseHead};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};

use crate::{
    access::Destinations,
    cache::room::Room,
    conn::heads::Kept,
    deadline::Watch,
    edition::OriginWaits,
    mirror::Filter,
    origin::outcome::{INTERIM_MAX, UpstreamError},
    origin::trip::{Hop, Trip},
    origin::{ConnectTimes, Destination, Lease},
    record::metrics,
    request::body::Part,
    state::Worker,
    upstreams::Turn,
};

/// What is read from an origin at once while its head is awaited.
const FIRST_READ_BYTES: usize = 16 << 10;
/// What is read at once of a long body.
const BODY_READ_BYTES: usize = 64 << 10;
/// The same once a read was filled: the body comes faster than it is read.
const FAST_BODY_READ_BYTES: usize = 256 << 10;
/// Is another head to follow on the same connection?
pub fn is_interim(head: &ResponseHead) -> bool {
    head.status < 200 && head.status != 101
}

/// A part of a request body, framed for an origin.
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

/// The server that is asked.
#[derive(Clone, Copy)]
pub struct Whom<'a> {
    /// Where it is.
    pub destination: &'a Destination,
    /// The PROXY header with which each connection to it begins: then it serves this client alone.
    pub header: Option<&'a [u8]>,
    /// Where connections may go on behalf of the client.
    pub rules: &'a Destinations,
    /// The origin, or whoever is asked in its place.
    pub hop: Hop,
    /// Where it is noted what it takes.
    pub trip: &'a Trip,
    /// If it was chosen among several: what comes of it is noted there.
    pub turn: Option<&'a Rc<Turn>>,
    /// The bounds of asking it.
    pub waits: OriginWaits,
}

/// A connection with a request on it.
pub struct Upstream {
    lease: Lease,
    input: BytesMut,
    /// `input` begins with a body, and has memory for no more than what is in it.
    is_exact: bool,
    /// What `input` takes of the budget of all heads, while one is not complete.
    kept: Option<Kept>,
    /// Interim responses that may still come.
    interim_left: usize,
    /// An interim response announced a body, or the end: what comes behind this answer is not looked at.
    unsound: bool,
    /// What happens to the body of the final answer.
    filter: Option<Box<Filter>>,
    trip: Trip,
    waits: OriginWaits,
    /// When the last head was there.
    pub received: Instant,
}

/// A connection to the one who is asked, pooled if there is one and `fresh` is not asked for; and whether it was.
pub async fn connect(
    worker: &Worker,
    whom: &Whom<'_>,
    fresh: bool,
) -> Result<(Lease, bool), UpstreamError> {
    let Whom {
        destination,
        header,
        rules,
        hop,
        trip,
        turn,
        ..
    } = *whom;
    let hash = worker.hash_of_server(destination);
    trip.begins(destination, hash, hop);
    let mut start = Instant::now();
    let mut times = ConnectTimes::default();
    let pooled = match fresh || header.is_some() {
        true => None,
        false => worker.connector.pool().checkout(destination, rules),
    };
    // Boxed: making a connection is rare and its future large.
    let lease = match pooled {
        Some(lease) => Ok(lease),
        None if let Some(header) = header => {
            let (connector, recalls) = (&worker.connector, turn.is_none());
            let telling =
                connector.connect_telling(destination, rules, header, recalls, &mut times);
            Box::pin(telling).await
        }
        // Whether it is tried was decided with the choice.
        None if turn.is_some() && fresh => {
            Box::pin((worker.connector).connect_untold(destination, rules, &mut times)).await
        }
        None if turn.is_some() => {
            Box::pin((worker.connector).lease_untold(destination, rules, &mut times)).await
        }
        None if fresh => Box::pin(worker.connector.connect(destination, rules, &mut times)).await,
        None => Box::pin(worker.connector.lease(destination, rules, &mut times)).await,
    };
    let mut lease = match lease {
        Ok(lease) => lease,
        Err(error) => {
            trip.not_connected(&times);
            let error = UpstreamError::from(error);
            if let Some(turn) = turn {
                turn.failed(&error);
            }
            return Err(error);
        }
    };
    if let Some(turn) = turn {
        trip.chose(&destination.host);
        lease.is_for(Rc::clone(turn));
    }
    let reused = lease.is_reused();
    if !reused {
        metrics::add(&worker.counters.origin_connections, 1);
    }
    if let Some((_, granted)) = times.queue {
        start = granted;
    }
    trip.connected(start, &times, reused);
    Ok((lease, reused))
}

/// Sends a request without a body and waits for the head of its final answer. Interim responses are dropped.
pub async fn ask_final(
    worker: &Worker,
    watch: &Watch,
    whom: &Whom<'_>,
    method: &str,
    request: &[u8],
) -> Result<(Upstream, ResponseHead), UpstreamError> {
    let (mut upstream, mut head) = ask(worker, watch, whom, method, request).await?;
    while is_interim(&head) {
        head = upstream.head(worker, watch, method).await?;
    }
    Ok((upstream, head))
}

/// Sends a request without a body and waits for the first head, which may be that of an interim response.
pub async fn ask(
    worker: &Worker,
    watch: &Watch,
    whom: &Whom<'_>,
    method: &str,
    request: &[u8],
) -> Result<(Upstream, ResponseHead), UpstreamError> {
    let mut fresh = false;
    loop {
        let (lease, reused) = connect(worker, whom, fresh).await?;
        let mut upstream = Upstream::new(lease, whom.trip.clone(), whom.waits);
        let result = async {
            upstream.send(worker, watch, request).await?;
            upstream.head(worker, watch, method).await
        }
        .await;
        match result {
            Ok(head) => return Ok((upstream, head)),
            Err(UpstreamError::Closed(_)) if reused && upstream.input.is_empty() => fresh = true,
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
            interim_left: INTERIM_MAX,
            unsound: false,
            filter: None,
            received: trip.began(),
            trip,
            waits,
        }
    }

    /// Where it is noted what it takes.
    pub fn trip(&self) -> &Trip {
        &self.trip
    }

    /// The body goes through this.
    pub fn filter_body(&mut self, filter: Filter) {
        self.filter = Some(Box::new(filter));
    }

    /// Writes bytes of a request.
    pub async fn send(
        &mut self,
        worker: &Worker,
        watch: &Watch,
        bytes: &[u8],
    ) -> Result<(), UpstreamError> {
        metrics::add(&worker.counters.origin_requests, 1);
        let written = write_all(self.waits.write, watch, &mut self.lease, bytes).await;
        self.trip.sent();
        written.inspect_err(|error| self.failed(error))
    }

    /// There is no answer. A connection that had died in the pool tells nothing of its server.
    fn failed(&self, error: &UpstreamError) {
        self.trip.broke_off();
        let is_of_the_pool = self.lease.is_reused()
            && self.input.is_empty()
            && matches!(error, UpstreamError::Closed(_));
        if let Some(turn) = self.lease.turn().filter(|_| !is_of_the_pool) {
            turn.failed(error);
        }
    }

    /// Writes bytes of a request body, and listens meanwhile.
    pub async fn write_or_hear(
        &mut self,
        watch: &Watch,
        unsent: &mut Bytes,
    ) -> Result<Moved, UpstreamError> {
        let before = self.input.len();
        let moved = write_or_hear(
            self.waits.write,
            watch,
            &mut self.lease,
            unsent,
            &mut self.input,
        )
        .await;
        self.trip.received(self.input.len() - before);
        match &moved {
            Ok(Moved::Sent) => self.trip.sent(),
            Ok(Moved::Heard) => {}
            Err(_) => self.trip.broke_off(),
        }
        moved
    }

    /// The next head, interim ones included; of those only so many, and each in its time.
    pub async fn head(
        &mut self,
        worker: &Worker,
        watch: &Watch,
        method: &str,
    ) -> Result<ResponseHead, UpstreamError> {
        let head = self.read_head(worker, watch, method).await;
        match &head {
            Ok(head) if is_interim(head) => {}
            Ok(head) => {
                self.received = Instant::now();
                self.trip.answered(head.version, self.received);
                if let Some(turn) = self.lease.turn() {
                    turn.answered(head.status);
                }
            }
            Err(error) => self.failed(error),
        }
        head
    }

    async fn read_head(
        &mut self,
        worker: &Worker,
        watch: &Watch,
        method: &str,
    ) -> Result<ResponseHead, UpstreamError> {
        let limits = self.waits.limits;
        // For the whole head: one that dribbles in, however fast the bytes follow each other, does not begin it anew.
        let limit = self.waits.first_byte;
        let began = match self.interim_left {
            INTERIM_MAX => self.trip.asked_last(),
            _ => Instant::now(),
        };
        let mut scanned = 0;
        self.is_exact = false;
        loop {
            // A head that is not complete is not parsed again for every byte that dribbles in.
            if let Some(end) = http1::scan_end(&self.input, scanned) {
                self.kept = None;
                let head = parse_head(&self.input, &limits, method)?;
                debug_assert!(head.head_bytes <= end.max(head.head_bytes));
                self.input.advance(head.head_bytes);
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
                let kept = self.kept.get_or_insert_with(|| worker.heads.place());
                if !kept.grow(self.input.len(), began) {
                    return Err(crowded(worker));
                }
            }
            let left = limit.saturating_sub(began.elapsed());
            if left.is_zero() {
                return Err(UpstreamError::Timeout);
            }
            let parses = Some((&limits, method));
            let read = watch
                .limit(left, pin!(self.read_more(worker, parses)))
                .await;
            match read {
                Err(_) => return Err(UpstreamError::Timeout),
                Ok(None) => return Err(crowded(worker)),
                Ok(Some(Err(error))) => return Err(UpstreamError::Closed(error)),
                Ok(Some(Ok(Read::Bytes(0)))) => {
                    return Err(UpstreamError::Closed(io::ErrorKind::UnexpectedEof.into()));
                }
                Ok(Some(Ok(Read::Bytes(_)))) => {}
                Ok(Some(Ok(Read::Head(head)))) => return self.heard(head?),
            }
        }
    }

    /// A head was parsed: of interim ones only so many may come.
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

    /// Waits until the origin has something to say (or has closed), without taking it.
    pub async fn readable(&mut self, worker: &Worker) {
        if !self.input.is_empty() {
            return;
        }
        let _ = self.read_more(worker, None).await;
    }

    /// Reads once, by way of the worker's space, so that no more is kept than what has come. `None`: what has come must go.
    /// `parses`: a head is awaited. One that comes whole, as most do, is parsed there, and only what comes behind it is kept.
    async fn read_more(
        &mut self,
        worker: &Worker,
        parses: Option<(&Limits, &str)>,
    ) -> Option<io::Result<Read>> {
        poll_fn(|cx| {
            if self.kept.as_ref().is_some_and(|kept| kept.poll_must_go(cx)) {
                return Poll::Ready(None);
            }
            let mut space = worker.input.borrow_mut();
            let mut buf = ReadBuf::new(&mut space[..FIRST_READ_BYTES]);
            let read = Pin::new(self.lease.stream()).poll_read(cx, &mut buf);
            read.map(|result| {
                let came = buf.filled();
                self.trip.received(came.len());
                if let Some((limits, method)) = parses
                    && self.input.is_empty()
                    && let Some(head) = http1::parse_response(came, limits, method).transpose()
                {
                    if let Ok(head) = &head {
                        self.input = BytesMut::from(&came[head.head_bytes..]);
                        self.is_exact = true;
                    }
                    return Some(Ok(Read::Head(head.map_err(UpstreamError::from))));
                }
                self.input.extend_from_slice(came);
                Some(result.map(|()| Read::Bytes(came.len())))
            })
        })
        .await
    }

    /// The body that follows the head just read. Behind an interim head comes another one: such a connection is not used again.
    pub fn body(self, head: &ResponseHead) -> Body {
        let filter = self.filter;
        // Further on the body may have another length, or none that is known.
        let framing = filter
            .as_ref()
            .map_or(head.framing, |filter| filter.framing);
        let state = match framing {
            Framing::None => BodyState::Length(0),
            Framing::Length(bytes) => BodyState::Length(bytes),
            Framing::Chunked => {
                BodyState::Chunked(Box::new(ChunkedDecoder::new(&self.waits.limits)))
            }
            Framing::UntilClose => BodyState::UntilClose,
        };
        if matches!(state, BodyState::Length(0)) {
            self.trip.ended();
        }
        let is_whole = state.left() == Some(self.input.len() as u64);
        Body {
            is_exact: self.is_exact && is_whole && filter.is_none(),
            heard: Heard(self.trip),
            waits: self.waits,
            lease: Some(self.lease),
            input: self.input,
            filter,
            state,
            reusable: head.keep_alive && !self.unsound && !is_interim(head),
            trailers: None,
            is_fast: false,
        }
    }

    /// The bare connection and what was already read from it, after an upgrade.
    pub fn into_parts(self) -> (Lease, BytesMut) {
        self.trip.ended();
        (self.lease, self.input)
    }
}

/// What a read brought.
enum Read {
    /// So many bytes more of the input.
    Bytes(usize),
    /// A head that came whole.
    Head(Result<ResponseHead, UpstreamError>),
}

fn parse_head(bytes: &[u8], limits: &Limits, method: &str) -> Result<ResponseHead, UpstreamError> {
    let head = http1::parse_response(bytes, limits, method)?;
    // More than that is not looked at.
    head.ok_or(UpstreamError::Malformed(Reject::Response(
        http1::Fault::HeadTooLarge,
    )))
}

/// There is no room for the head.
fn crowded(worker: &Worker) -> UpstreamError {
    metrics::add(&worker.counters.heads_shed, 1);
    UpstreamError::Crowded
}

async fn write_all(
    limit: Duration,
    watch: &Watch,
    lease: &mut Lease,
    mut bytes: &[u8],
) -> Result<(), UpstreamError> {
    let stream = lease.stream();
    while !bytes.is_empty() {
        let n = watch
            .limit(limit, pin!(stream.write(bytes)))
            .await
            .map_err(|_| UpstreamError::Timeout)?
            .map_err(UpstreamError::Closed)?;
        if n == 0 {
            return Err(UpstreamError::Closed(io::ErrorKind::WriteZero.into()));
        }
        bytes = &bytes[n..];
    }
    watch
        .limit(limit, pin!(stream.flush()))
        .await
        .map_err(|_| UpstreamError::Timeout)?
        .map_err(UpstreamError::Closed)
}

/// What came first while a piece of a request body was on its way up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Moved {
    /// All of it is written.
    Sent,
    /// The origin says something, or has closed. Some of the piece may be unsent.
    Heard,
}

/// Neither direction waits for the other: an origin may answer before it has read the body, or read no more of it
/// until its answer is taken.
async fn write_or_hear(
    limit: Duration,
    watch: &Watch,
    lease: &mut Lease,
    unsent: &mut Bytes,
    input: &mut BytesMut,
) -> Result<Moved, UpstreamError> {
    const HEARD_BYTES: usize = 4 << 10;
    loop {
        let before = unsent.len();
        let step = poll_fn(|cx| {
            let mut stream = Pin::new(lease.stream());
            let written = if unsent.is_empty() {
                stream.as_mut().poll_flush(cx).map_ok(|()| 0)
            } else {
                stream.as_mut().poll_write(cx, unsent)
            };
            match written {
                Poll::Ready(Ok(0)) if !unsent.is_empty() => {
                    return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
                }
                Poll::Ready(Ok(n)) => {
                    unsent.advance(n);
                    return Poll::Ready(Ok(Moved::Sent));
                }
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => {}
            }
            let mut heard = [0; HEARD_BYTES];
            let mut heard = ReadBuf::new(&mut heard);
            // A read that fails is told again by the next one, which expects an answer.
            stream.poll_read(cx, &mut heard).map(|_| {
                input.extend_from_slice(heard.filled());
                Ok(Moved::Heard)
            })
        });
        match watch.limit(limit, pin!(step)).await {
            Err(_) => return Err(UpstreamError::Timeout),
            Ok(Err(error)) => return Err(UpstreamError::Closed(error)),
            Ok(Ok(Moved::Heard)) => return Ok(Moved::Heard),
            // Flushed, nothing being left to write.
            Ok(Ok(Moved::Sent)) if before == 0 => return Ok(Moved::Sent),
            Ok(Ok(Moved::Sent)) => {}
        }
    }
}

/// Pieces smaller than this are joined when they are there at once.
const GATHER_BYTES: usize = 16 << 10;

/// Chunks of a body that arrived together.
enum Gathered {
    One(Bytes),
    Several(BytesMut),
}

impl Gathered {
    fn len(&self) -> usize {
        match self {
            Gathered::One(piece) => piece.len(),
            Gathered::Several(all) => all.len(),
        }
    }

    fn join(self, next: &[u8]) -> Gathered {
        let mut all = match self {
            Gathered::One(piece) => {
                let mut all = BytesMut::with_capacity(GATHER_BYTES + piece.len());
                all.extend_from_slice(&piece);
                all
            }
            Gathered::Several(all) => all,
        };
        all.extend_from_slice(next);
        Gathered::Several(all)
    }

    fn into_bytes(self) -> Bytes {
        match self {
            Gathered::One(piece) => piece,
            Gathered::Several(all) => all.freeze(),
        }
    }
}

enum BodyState {
    Length(u64),
    Chunked(Box<ChunkedDecoder>),
    UntilClose,
    Done,
}

impl BodyState {
    /// What is still to come, where that was announced.
    fn left(&self) -> Option<u64> {
        match self {
            BodyState::Length(left) => Some(*left),
            BodyState::Chunked(_) | BodyState::UntilClose | BodyState::Done => None,
        }
    }
}

/// Notes when a body is not read any further.
struct Heard(Trip);

impl Drop for Heard {
    fn drop(&mut self) {
        self.0.left();
    }
}

/// A response body as it arrives.
pub struct Body {
    /// It came whole with its head, into memory of its own length.
    is_exact: bool,
    heard: Heard,
    waits: OriginWaits,
    lease: Option<Lease>,
    input: BytesMut,
    filter: Option<Box<Filter>>,
    state: BodyState,
    reusable: bool,
    trailers: Option<Fields>,
    /// The last read took as much as it might.
    is_fast: bool,
}

impl Body {
    /// Does it come as one piece that keeps no more memory than it has bytes?
    pub fn is_exact(&self) -> bool {
        self.is_exact
    }

    /// Is all of it taken, and known to be right?
    pub fn is_over(&self) -> bool {
        self.filter.is_none() && matches!(self.state, BodyState::Done)
    }

    /// The next piece; `None` at the end, after which the connection is back in the pool if it can be.
    pub async fn next(
        &mut self,
        worker: &Worker,
        watch: &Watch,
    ) -> Result<Option<Bytes>, UpstreamError> {
        self.next_into(worker, watch, None).await
    }

    /// As [`Self::next`]; what comes as the origin sends it, and with a known length, comes into the room while that has any left.
    pub async fn next_into(
        &mut self,
        worker: &Worker,
        watch: &Watch,
        mut room: Option<&mut Room>,
    ) -> Result<Option<Bytes>, UpstreamError> {
        if self.filter.is_some() {
            room = None;
        }
        loop {
            let piece = self.next_piece(worker, watch, room.as_deref_mut()).await;
            let piece = piece.inspect_err(|_| self.heard.0.broke_off())?;
            let Some(filter) = &mut self.filter else {
                return Ok(piece);
            };
            let Some(piece) = piece else {
                return filter.end().map_err(|_| {
                    metrics::add(&worker.counters.mirror_digests_wrong, 1);
                    UpstreamError::Digest
                });
            };
            if let Some(piece) = filter.take(piece) {
                return Ok(Some(piece));
            }
        }
    }

    async fn next_piece(
        &mut self,
        worker: &Worker,
        watch: &Watch,
        mut room: Option<&mut Room>,
    ) -> Result<Option<Bytes>, UpstreamError> {
        loop {
            match &mut self.state {
                BodyState::Done => return Ok(None),
                BodyState::Length(0) => {
                    // Bytes behind the end are not ours: such a connection is not used again.
                    let clean = self.input.is_empty();
                    self.end(clean);
                    return Ok(None);
                }
                BodyState::Length(left) => {
                    let want = usize::try_from(*left).unwrap_or(usize::MAX);
                    let room = room.as_deref_mut().filter(|room| room.left() > 0);
                    let came = want.min(self.input.len());
                    let piece = match room {
                        Some(room) if came == 0 => Some(self.read_into(watch, room, want).await?),
                        Some(room) => {
                            let piece = room.put(&self.input[..came]);
                            self.input.advance(piece.len());
                            Some(piece)
                        }
                        None if came == 0 => None,
                        None if came == self.input.len() => {
                            Some(std::mem::take(&mut self.input).freeze())
                        }
                        None => Some(self.input.split_to(came).freeze()),
                    };
                    if let Some(piece) = piece {
                        return Ok(Some(self.took(worker, piece)));
                    }
                    let n = self.read_body(watch, want).await?;
                    if n == 0 {
                        return Err(UpstreamError::Closed(io::ErrorKind::UnexpectedEof.into()));
                    }
                }
                BodyState::UntilClose => {
                    if !self.input.is_empty() {
                        let piece = self.input.split().freeze();
                        metrics::add(&worker.counters.origin_bytes, piece.len() as u64);
                        return Ok(Some(piece));
                    }
                    if self.read_body(watch, usize::MAX).await? == 0 {
                        self.end(false);
                        return Ok(None);
                    }
                }
                BodyState::Chunked(_) => {
                    if let Some(piece) = self.chunks_at_hand(worker)? {
                        return Ok(Some(piece));
                    }
                    let is_over = matches!(self.state, BodyState::Done);
                    if !is_over && self.read(watch, FIRST_READ_BYTES).await? == 0 {
                        return Err(UpstreamError::Closed(io::ErrorKind::UnexpectedEof.into()));
                    }
                }
            }
        }
    }

    /// The chunks that were read, joined if they are small: nobody pays per chunk of an origin's choosing.
    fn chunks_at_hand(&mut self, worker: &Worker) -> Result<Option<Bytes>, Reject> {
        let mut gathered: Option<Gathered> = None;
        while let BodyState::Chunked(decoder) = &mut self.state {
            match decoder.next(&self.input)? {
                Chunk::Data { start, end } => {
                    self.input.advance(start);
                    let piece = self.input.split_to(end - start).freeze();
                    metrics::add(&worker.counters.origin_bytes, piece.len() as u64);
                    let all = match gathered.take() {
                        None => Gathered::One(piece),
                        Some(before) => before.join(&piece),
                    };
                    let is_enough = all.len() >= GATHER_BYTES;
                    gathered = Some(all);
                    if is_enough {
                        break;
                    }
                }
                Chunk::End { consumed, trailers } => {
                    self.input.advance(consumed);
                    if !trailers.is_empty() {
                        self.trailers = Some(trailers);
                    }
                    let clean = self.input.is_empty();
                    self.end(clean);
                }
                Chunk::More { consumed } => {
                    self.input.advance(consumed);
                    break;
                }
            }
        }
        Ok(gathered.map(Gathered::into_bytes))
    }

    /// The connection will not be used again, whatever comes.
    pub fn forbid_reuse(&mut self) {
        self.reusable = false;
    }

    /// Writes more of the request body until it is through or the next piece of the answer can be taken.
    pub async fn write_or_hear(
        &mut self,
        watch: &Watch,
        unsent: &mut Bytes,
    ) -> Result<Moved, UpstreamError> {
        match &mut self.lease {
            // An answer without a body, or at its end, is heard already.
            _ if matches!(self.state, BodyState::Length(0) | BodyState::Done) => Ok(Moved::Heard),
            Some(lease) if self.input.is_empty() => {
                let moved =
                    write_or_hear(self.waits.write, watch, lease, unsent, &mut self.input).await;
                self.heard.0.received_body(self.input.len());
                moved
            }
            _ => Ok(Moved::Heard),
        }
    }

    /// Trailers, once the body has ended.
    pub fn take_trailers(&mut self) -> Option<Fields> {
        self.trailers.take()
    }

    /// Reads of a body of which so much is still to come.
    async fn read_body(&mut self, watch: &Watch, left: usize) -> Result<usize, UpstreamError> {
        let most = match self.is_fast {
            true => FAST_BODY_READ_BYTES,
            false => BODY_READ_BYTES,
        };
        // What the last read left of its buffer is used first, if it is enough for one.
        let spare = self.input.capacity() - self.input.len();
        let want = match spare {
            BODY_READ_BYTES.. => spare.min(most),
            _ => most,
        };
        let read = self.read(watch, want.min(left)).await?;
        self.is_fast = read >= BODY_READ_BYTES;
        Ok(read)
    }

    /// Counts a piece of a body of known length.
    fn took(&mut self, worker: &Worker, piece: Bytes) -> Bytes {
        metrics::add(&worker.counters.origin_bytes, piece.len() as u64);
        if let BodyState::Length(left) = &mut self.state {
            *left -= piece.len() as u64;
            if *left == 0 {
                let clean = self.input.is_empty();
                self.end(clean);
            }
        }
        piece
    }

    /// Reads a piece of the body into the room; `left` is still to come.
    async fn read_into(
        &mut self,
        watch: &Watch,
        room: &mut Room,
        left: usize,
    ) -> Result<Bytes, UpstreamError> {
        let Some(lease) = &mut self.lease else {
            return Err(UpstreamError::Closed(io::ErrorKind::UnexpectedEof.into()));
        };
        let most = match self.is_fast {
            true => FAST_BODY_READ_BYTES,
            false => BODY_READ_BYTES,
        };
        let want = most.min(left).min(room.left());
        let reading = lease.stream().read(&mut room.space()[..want]);
        let read = watch
            .limit(self.waits.idle_read, pin!(reading))
            .await
            .map_err(|_| UpstreamError::Timeout)?
            .map_err(UpstreamError::Closed)?;
        self.heard.0.received_body(read);
        self.is_fast = read >= BODY_READ_BYTES;
        match read {
            0 => Err(UpstreamError::Closed(io::ErrorKind::UnexpectedEof.into())),
            _ => Ok(room.advance(read)),
        }
    }

    async fn read(&mut self, watch: &Watch, want: usize) -> Result<usize, UpstreamError> {
        let Some(lease) = &mut self.lease else {
            return Ok(0);
        };
        self.input.reserve(want.max(1));
        let limit = self.waits.idle_read;
        let input = &mut self.input;
        let read = watch
            .limit(limit, pin!(lease.stream().read_buf(input)))
            .await
            .map_err(|_| UpstreamError::Timeout)?
            .map_err(UpstreamError::Closed)?;
        self.heard.0.received_body(read);
        Ok(read)
    }

    fn end(&mut self, clean: bool) {
        self.state = BodyState::Done;
        self.heard.0.ended();
        if let Some(lease) = self.lease.take()
            && clean
            && self.reusable
        {
            lease.reuse();
        }
    }
}
