//! A response body as it arrives: announced length, chunks, or until the origin closes.
//!
//! The body is given out in pieces as it arrives. A body of known length may be read into a [`Room`], where it will be stored. After a clean end
//! the connection returns to the pool; after an error, or if bytes follow the end, it is closed.
//!
//! Not known here: heads, which server is asked, caching.
//! Limits: [`FAST_BODY_READ_BYTES`] a read; every wait for the origin has one.

use std::{
    future::poll_fn,
    io,
    pin::{Pin, pin},
    sync::Arc,
    task::Poll,
    time::Duration,
};

use bytes::{Buf, Bytes, BytesMut};
use fields::Fields;
use http1::{Chunk, ChunkedDecoder, Reject};
use message::{Framing, Part};
use tokio::io::{AsyncRead, AsyncReadExt, ReadBuf};

use crate::{
    BodyFilter, Lease, OriginContext, OriginWaits,
    outcome::UpstreamError,
    trip::Trip,
    upstream::framed,
    writing::{Moved, seat_write_or_hear, write_or_hear},
};
use base::deadline::Watch;
use ledger::{Holder, Receiving, STEP_BYTES_MIN, Transfer, pause, room::Room};
use record::metrics;

/// The most bytes of one read of a long body.
const BODY_READ_BYTES: usize = 64 << 10;
/// The same once a read was full: the body arrives faster than it is read.
const FAST_BODY_READ_BYTES: usize = 256 << 10;
/// The most bytes of one read of a chunked body.
const CHUNKED_READ_BYTES: usize = 16 << 10;
/// Smaller pieces are joined if they have arrived together.
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

/// The first `bytes` of the input. If they are few, they are copied, so that a small piece does not keep a large buffer in memory.
fn first_of(input: &mut BytesMut, bytes: usize) -> Bytes {
    match bytes < input.capacity() / 2 {
        true => {
            let piece = Bytes::copy_from_slice(&input[..bytes]);
            input.advance(bytes);
            if input.is_empty() {
                *input = BytesMut::new();
            }
            piece
        }
        false if bytes == input.len() => std::mem::take(input).freeze(),
        false => input.split_to(bytes).freeze(),
    }
}

enum BodyState {
    /// A stream of HTTP/2. The stream itself knows the body's length and end.
    Stream,
    Length(u64),
    Chunked(Box<ChunkedDecoder>),
    UntilClose,
    Done,
}

impl BodyState {
    /// The bytes still to come, if the length was announced.
    fn left(&self) -> Option<u64> {
        match self {
            BodyState::Length(left) => Some(*left),
            BodyState::Stream | BodyState::Chunked(_) | BodyState::UntilClose | BodyState::Done => {
                None
            }
        }
    }
}

/// Notes in the trip, when dropped, that the body is not read any further.
struct Heard(Trip);

impl Drop for Heard {
    fn drop(&mut self) {
        self.0.left();
    }
}

/// Waits for a read. If it takes longer than `limit`, the origin has failed.
async fn within<F: Future<Output = io::Result<usize>> + Unpin>(
    watch: &Watch,
    limit: Duration,
    reading: F,
) -> Result<usize, UpstreamError> {
    let read = watch.limit(limit, reading).await;
    let read = read.map_err(|_| UpstreamError::Timeout)?;
    read.map_err(UpstreamError::Closed)
}

/// A response body as it arrives.
pub struct Body {
    /// The whole body came with the head, in a buffer of exactly its length.
    is_exact: bool,
    heard: Heard,
    waits: OriginWaits,
    lease: Option<Lease>,
    input: BytesMut,
    filter: Option<Box<dyn BodyFilter>>,
    state: BodyState,
    reusable: bool,
    trailers: Option<Fields>,
    /// The last read was full.
    is_fast: bool,
    /// The body is passed on and not stored: reads wait for room in the ledger, and every piece is counted.
    is_passing: bool,
    /// Counts the body among those being received.
    pub(super) receiving: Option<Receiving>,
    /// The connection that the body's memory is counted to.
    holder: Option<Arc<Holder>>,
    /// Marks the pieces of this body.
    transfer: Transfer,
    /// Do others than the holder read the body, or nobody?
    is_others: Option<Box<dyn Fn() -> bool>>,
}

impl Body {
    /// The body behind a head with this framing, or with the filter's framing if there is one. `input`: the bytes of it that have come;
    /// `is_exact`: in a buffer of exactly their length.
    pub(super) fn new(
        lease: Lease,
        (input, is_exact): (BytesMut, bool),
        (trip, waits): (Trip, OriginWaits),
        (framing, filter): (Framing, Option<Box<dyn BodyFilter>>),
        reusable: bool,
    ) -> Body {
        let framing = filter.as_ref().map_or(framing, |filter| filter.framing());
        let state = match framing {
            _ if lease.is_shared() => BodyState::Stream,
            Framing::None => BodyState::Length(0),
            Framing::Length(bytes) => BodyState::Length(bytes),
            Framing::Chunked => BodyState::Chunked(Box::new(ChunkedDecoder::new(&waits.limits))),
            Framing::UntilClose => BodyState::UntilClose,
        };
        if matches!(state, BodyState::Length(0)) {
            trip.ended();
        }
        let is_whole = state.left() == Some(input.len() as u64);
        Body {
            is_exact: is_exact && is_whole && filter.is_none(),
            is_passing: false,
            receiving: None,
            holder: trip.holder(),
            transfer: Transfer::default(),
            is_others: None,
            heard: Heard(trip),
            waits,
            lease: Some(lease),
            input,
            filter,
            state,
            reusable,
            trailers: None,
            is_fast: false,
        }
    }

    /// Does the body come as one piece, in a buffer of exactly its length?
    pub fn is_exact(&self) -> bool {
        self.is_exact
    }

    /// The body is only passed on, not stored: where there is no room for more of it, reading stops.
    pub fn passes(&mut self, is_passing: bool) {
        self.is_passing = is_passing;
    }

    /// Reading does not wait for the holder while `is_others` says that others read the body, or nobody.
    pub fn may_be_others(&mut self, is_others: Box<dyn Fn() -> bool>) {
        self.is_others = Some(is_others);
    }

    /// Is the whole body taken, and known to be correct?
    pub fn is_over(&self) -> bool {
        self.filter.is_none() && matches!(self.state, BodyState::Done)
    }

    /// The next piece; `None` at the end, after which the connection is back in the pool if it can be.
    pub async fn next(
        &mut self,
        context: &OriginContext,
        watch: &Watch,
    ) -> Result<Option<Bytes>, UpstreamError> {
        self.next_into(context, watch, None).await
    }

    /// The rest of the body; `None`: it is longer than `bytes_max`.
    pub async fn whole(
        &mut self,
        context: &OriginContext,
        watch: &Watch,
        bytes_max: usize,
    ) -> Result<Option<Vec<u8>>, UpstreamError> {
        let mut whole = Vec::new();
        while let Some(piece) = self.next(context, watch).await? {
            if whole.len() + piece.len() > bytes_max {
                return Ok(None);
            }
            whole.extend_from_slice(&piece);
        }
        Ok(Some(whole))
    }

    /// As [`Self::next`]. A body that no filter changes is read into the room, if its length is known and while the room has space.
    pub async fn next_into(
        &mut self,
        context: &OriginContext,
        watch: &Watch,
        mut room: Option<&mut Room>,
    ) -> Result<Option<Bytes>, UpstreamError> {
        if self.filter.is_some() {
            room = None;
        }
        let ledger = &context.ledger;
        (self.receiving).get_or_insert_with(|| ledger.receives());
        (self.holder).get_or_insert_with(|| ledger.holder());
        loop {
            let piece = self.next_piece(context, watch, room.as_deref_mut()).await;
            let piece = piece.inspect_err(|_| self.heard.0.broke_off())?;
            let Some(filter) = &mut self.filter else {
                return Ok(piece);
            };
            let Some(piece) = piece else {
                return filter.end().inspect_err(|_| {
                    metrics::add(&context.counters.mirror_digests_wrong, 1);
                });
            };
            if let Some(piece) = filter.take(piece) {
                return Ok(Some(piece));
            }
        }
    }

    async fn next_piece(
        &mut self,
        context: &OriginContext,
        watch: &Watch,
        mut room: Option<&mut Room>,
    ) -> Result<Option<Bytes>, UpstreamError> {
        loop {
            match &mut self.state {
                BodyState::Done => return Ok(None),
                BodyState::Stream => return self.next_of_stream(context, watch, room).await,
                BodyState::Length(0) => {
                    // Bytes after the end are not part of this answer: close the connection.
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
                        None => {
                            let piece = first_of(&mut self.input, came);
                            Some(self.counted(piece))
                        }
                    };
                    if let Some(piece) = piece {
                        return Ok(Some(self.took(context, piece)));
                    }
                    let n = self.read_body(context, watch, want).await?;
                    if n == 0 {
                        return Err(UpstreamError::Closed(io::ErrorKind::UnexpectedEof.into()));
                    }
                }
                BodyState::UntilClose => {
                    if !self.input.is_empty() {
                        let all = self.input.len();
                        let piece = first_of(&mut self.input, all);
                        metrics::add(&context.counters.origin_bytes, piece.len() as u64);
                        return Ok(Some(self.counted(piece)));
                    }
                    if self.read_body(context, watch, usize::MAX).await? == 0 {
                        self.end(false);
                        return Ok(None);
                    }
                }
                BodyState::Chunked(_) => {
                    if let Some(piece) = self.chunks_at_hand(context)? {
                        return Ok(Some(self.counted(piece)));
                    }
                    let is_over = matches!(self.state, BodyState::Done);
                    if is_over {
                        continue;
                    }
                    let read = match self.is_passing {
                        true => {
                            self.read_when_sent(context, watch, CHUNKED_READ_BYTES)
                                .await?
                        }
                        false => {
                            let most = CHUNKED_READ_BYTES.min(context.ledger.step());
                            self.read(watch, most).await?
                        }
                    };
                    if read == 0 {
                        return Err(UpstreamError::Closed(io::ErrorKind::UnexpectedEof.into()));
                    }
                }
            }
        }
    }

    /// The next piece on a stream of HTTP/2.
    async fn next_of_stream(
        &mut self,
        context: &OriginContext,
        watch: &Watch,
        room: Option<&mut Room>,
    ) -> Result<Option<Bytes>, UpstreamError> {
        let room = room.filter(|room| room.left() > 0);
        let most = match (&room, self.is_passing) {
            (Some(room), _) => FAST_BODY_READ_BYTES.min(room.left()),
            (None, true) => self.room_to_pass(context, watch).await,
            (None, false) => BODY_READ_BYTES.min(context.ledger.step()),
        };
        let seat = self.lease.as_mut().and_then(Lease::seat);
        let seat = seat.expect("a stream has its seat until its end");
        let reading = poll_fn(|cx| seat.poll_piece(cx, most));
        let read = watch.limit(self.waits.idle_read, pin!(reading)).await;
        let Some(piece) = read.map_err(|_| UpstreamError::Timeout)?? else {
            self.trailers = seat.take_trailers().filter(|it| !it.is_empty());
            self.end(true);
            return Ok(None);
        };
        self.heard.0.received_body(piece.len());
        metrics::add(&context.counters.origin_bytes, piece.len() as u64);
        Ok(Some(match room {
            Some(room) => room.put(&piece),
            None => self.counted(piece),
        }))
    }

    /// The chunks that were read. Small ones are joined, so that an origin with tiny chunks does not cost one piece each.
    fn chunks_at_hand(&mut self, context: &OriginContext) -> Result<Option<Bytes>, Reject> {
        let mut gathered: Option<Gathered> = None;
        while let BodyState::Chunked(decoder) = &mut self.state {
            match decoder.next(&self.input)? {
                Chunk::Data { start, end } => {
                    self.input.advance(start);
                    let piece = first_of(&mut self.input, end - start);
                    metrics::add(&context.counters.origin_bytes, piece.len() as u64);
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

    /// Closes the connection after this answer in any case.
    pub fn forbid_reuse(&mut self) {
        self.reusable = false;
    }

    /// Frames a part of a request body for this origin.
    pub fn frame(&mut self, part: Part, is_chunked: bool) -> Bytes {
        match self.lease.as_mut().and_then(Lease::seat) {
            Some(seat) => seat.frame(part),
            None => framed(part, is_chunked),
        }
    }

    /// Writes the request body until all of `unsent` is written or the next piece of the answer can be taken.
    pub async fn write_or_hear(
        &mut self,
        watch: &Watch,
        unsent: &mut Bytes,
    ) -> Result<Moved, UpstreamError> {
        if let Some(seat) = self.lease.as_mut().and_then(Lease::seat) {
            return seat_write_or_hear(self.waits.write, watch, seat, unsent).await;
        }
        match &mut self.lease {
            // An answer without a body, or at its end, can be taken at once.
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

    /// Counts a piece in a buffer of its own. A piece that came whole with its head, and is stored as it is, is counted with the stored object.
    fn counted(&self, piece: Bytes) -> Bytes {
        match &self.holder {
            Some(holder) if self.is_passing || !self.is_exact => {
                holder.count_of(piece, Some(&self.transfer))
            }
            _ => piece,
        }
    }

    /// Waits until more of a passed-on body may be read, and returns how many bytes.
    async fn room_to_pass(&self, context: &OriginContext, watch: &Watch) -> usize {
        let ledger = &context.ledger;
        let Some(holder) = &self.holder else {
            return ledger.step();
        };
        let paused = &context.counters.transfers_paused;
        // A filter keeps one piece back, and gives it out with the next.
        let kept = usize::from(self.filter.is_some());
        let is_due = |waited| {
            self.is_others.as_ref().is_some_and(|it| it())
                || waited >= pause::OWN_WAIT_MAX && self.transfer.pieces() <= kept
        };
        pause::until_granted(ledger, holder, watch, paused, is_due).await
    }

    /// Reads more of a body; `left`: the bytes still to come.
    async fn read_body(
        &mut self,
        context: &OriginContext,
        watch: &Watch,
        left: usize,
    ) -> Result<usize, UpstreamError> {
        let most = self.read_bytes_max().min(left);
        let read = match (self.is_passing, self.is_fast) {
            (false, _) => {
                let most = most.min(context.ledger.step());
                self.read(watch, most).await?
            }
            (true, false) => self.read_when_sent(context, watch, most).await?,
            (true, true) => match self.read_at_once(context, watch, most).await? {
                Some(read) => read,
                None => {
                    let most = most.min(BODY_READ_BYTES);
                    self.read_when_sent(context, watch, most).await?
                }
            },
        };
        self.is_fast = read >= BODY_READ_BYTES;
        Ok(read)
    }

    fn read_bytes_max(&self) -> usize {
        match self.is_fast {
            true => FAST_BODY_READ_BYTES,
            false => BODY_READ_BYTES,
        }
    }

    /// Counts a piece of a body of known length.
    fn took(&mut self, context: &OriginContext, piece: Bytes) -> Bytes {
        metrics::add(&context.counters.origin_bytes, piece.len() as u64);
        if let BodyState::Length(left) = &mut self.state {
            *left -= piece.len() as u64;
            if *left == 0 {
                let clean = self.input.is_empty();
                self.end(clean);
            }
        }
        piece
    }

    /// Reads a piece of the body into the room; `left`: the bytes still to come.
    async fn read_into(
        &mut self,
        watch: &Watch,
        room: &mut Room,
        left: usize,
    ) -> Result<Bytes, UpstreamError> {
        let most = self.read_bytes_max();
        let Some(lease) = &mut self.lease else {
            return Err(UpstreamError::Closed(io::ErrorKind::UnexpectedEof.into()));
        };
        let want = most.min(left).min(room.left());
        let reading = lease.stream().read(&mut room.space()[..want]);
        let read = within(watch, self.waits.idle_read, pin!(reading)).await?;
        self.heard.0.received_body(read);
        self.is_fast = read >= BODY_READ_BYTES;
        match read {
            0 => Err(UpstreamError::Closed(io::ErrorKind::UnexpectedEof.into())),
            _ => Ok(room.advance(read)),
        }
    }

    /// Reads a piece of a passed-on body, at most `most` bytes, as soon as there is one. The ledger is asked for room only then: asked before, it
    /// would promise the same room to all that wait. The read goes through the worker's buffer, so that a waiting body has no buffer of its own.
    async fn read_when_sent(
        &mut self,
        context: &OriginContext,
        watch: &Watch,
        most: usize,
    ) -> Result<usize, UpstreamError> {
        let room = self.room_to_pass(context, watch).await;
        let (Some(lease), Some(holder)) = (&mut self.lease, &self.holder) else {
            return Ok(0);
        };
        let input = &mut self.input;
        let reading = poll_fn(|cx| {
            let room_now = context.ledger.grant(holder).unwrap_or(STEP_BYTES_MIN);
            let mut space = context.input.borrow_mut();
            let most = most.min(room).min(room_now).min(space.len());
            let mut buf = ReadBuf::new(&mut space[..most]);
            let read = Pin::new(lease.stream()).poll_read(cx, &mut buf);
            read.map_ok(|()| {
                input.extend_from_slice(buf.filled());
                buf.filled().len()
            })
        });
        let read = within(watch, self.waits.idle_read, reading).await?;
        self.heard.0.received_body(read);
        Ok(read)
    }

    /// Reads the bytes that are there already, of a passed-on body that comes fast; `None`: there are none. The room granted here is
    /// not kept while waiting for more.
    async fn read_at_once(
        &mut self,
        context: &OriginContext,
        watch: &Watch,
        most: usize,
    ) -> Result<Option<usize>, UpstreamError> {
        let most = most.min(self.room_to_pass(context, watch).await);
        let Some(lease) = &mut self.lease else {
            return Ok(Some(0));
        };
        // The buffer is exactly `most` long: the unfilled part of a longer one would be held and not counted.
        self.input = BytesMut::with_capacity(most);
        let mut reading = pin!(lease.stream().read_buf(&mut self.input));
        let read = poll_fn(|cx| Poll::Ready(reading.as_mut().poll(cx))).await;
        let Poll::Ready(read) = read else {
            self.input = BytesMut::new();
            return Ok(None);
        };
        let read = read.map_err(UpstreamError::Closed)?;
        self.heard.0.received_body(read);
        Ok(Some(read))
    }

    async fn read(&mut self, watch: &Watch, most: usize) -> Result<usize, UpstreamError> {
        let Some(lease) = &mut self.lease else {
            return Ok(0);
        };
        self.input.reserve(most.max(1));
        let reading = lease.stream().read_buf(&mut self.input);
        let read = within(watch, self.waits.idle_read, pin!(reading)).await?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_bytes_keep_no_long_buffer() {
        let mut input = BytesMut::with_capacity(BODY_READ_BYTES);
        input.extend_from_slice(&[7; 3000]);
        let before = input.as_ptr();
        let piece = first_of(&mut input, 3000);
        assert_eq!(piece, [7; 3000][..]);
        assert_ne!(piece.as_ptr(), before);
        assert_eq!(input.capacity(), 0, "nothing is kept until the next read");
        input.resize(BODY_READ_BYTES, 7);
        let all = input.as_ptr();
        let piece = first_of(&mut input, BODY_READ_BYTES);
        assert_eq!(piece.as_ptr(), all, "it was not copied");
    }
}
