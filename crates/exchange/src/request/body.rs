//! A request body on its way from the client to an origin.
//!
//! Yields data and trailers; the client's own framing ends here. A yielded part is *outstanding* until the origin has taken it
//! ([`RequestBody::taken`]), and the next part is read only then. This back pressure reaches the client: on HTTP/1 through TCP, on
//! HTTP/2 because the window is given back only then.
//!
//! Over HTTP/1 it counts in the ledger from when it is given out until the origin took it, and so does what has come behind it; no more is
//! read at a time than the ledger grants.
//!
//! Limits: one part is outstanding; each wait for the client has a limit.
//! Not known here: the body's destination and its framing there.

use std::{
    rc::Rc,
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};

use bytes::Buf;
use http1::{Chunk, ChunkedDecoder, Limits};
use message::{Framing, Part};

use crate::{
    conn::{pace::Pace, socket::Conn},
    h2::link::{Came, Stream},
    reply::Reply,
    state::Worker,
};
use base::{clock::Instant, deadline::Watch};
use ledger::{Holder, Ledger, Lot, STEP_BYTES_MIN, pause};

/// Bytes of one read.
const BODY_READ_BYTES: usize = 16 << 10;
/// How often to check whether the client is allowed to send at all.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// How long to tolerate a client that may not send because other bodies of its connection were not taken. Then it counts as slow.
const HELD_BACK_MAX: Duration = Duration::from_secs(600);

/// Why the body has ended early.
#[derive(Debug)]
pub enum BodyError {
    /// The client went away or stopped sending.
    Gone,
    /// The body is malformed or came too slowly: the status to answer with, and the reason.
    Bad(u16, &'static str),
}

/// A request body as it comes from the client.
pub struct RequestBody {
    state: State,
    is_outstanding: bool,
    is_stopped: bool,
    /// What the ledger counts of it, where it comes over HTTP/1,
    lot: Option<Lot>,
    /// and the part of that which is not given out.
    behind: usize,
    /// Bytes that came, as the client framed them.
    pub received: u64,
    /// How fast the body arrives while it is waited for.
    pace: Pace,
}

enum State {
    Done,
    Length(u64),
    Chunked(Box<ChunkedDecoder>),
    Stream(Box<OfStream>),
}

/// A body that comes on a stream.
struct OfStream {
    stream: Stream,
    worker: Rc<Worker>,
    watch: Watch,
    /// Was the length announced? Then no trailers are forwarded to the origin.
    is_counted: bool,
    /// Bytes yielded and not taken yet.
    outstanding_bytes: usize,
    has_ended: bool,
}

/// A wait for the client; counted on drop too, when it is cancelled because the origin responds.
struct Waited<'a>(&'a mut Pace, Instant);

impl<'a> Waited<'a> {
    fn begin(pace: &'a mut Pace) -> Self {
        Waited(pace, Instant::now())
    }

    /// Ends the wait: this many bytes have arrived.
    fn for_bytes(self, bytes: usize, rate_min: u64) {
        let mut this = self;
        this.note();
        this.0.untaken = bytes as u64;
        this.0.ask(0, rate_min);
    }

    /// Do not count the wait so far: the client was not allowed to send.
    fn is_free(&mut self) {
        self.1 = Instant::now();
    }

    fn note(&mut self) {
        let now = Instant::now();
        self.0.wait(now.saturating_duration_since(self.1));
        self.1 = now;
    }
}

impl Drop for Waited<'_> {
    fn drop(&mut self) {
        self.note();
    }
}

impl RequestBody {
    /// The body that an HTTP/1 head announces.
    pub fn framed(framing: Framing, limits: &Limits) -> RequestBody {
        RequestBody {
            state: match framing {
                Framing::Length(bytes) if bytes > 0 => State::Length(bytes),
                Framing::Chunked => State::Chunked(Box::new(ChunkedDecoder::new(limits))),
                _ => State::Done,
            },
            ..RequestBody::none()
        }
    }

    /// No body.
    pub fn none() -> RequestBody {
        RequestBody {
            state: State::Done,
            is_outstanding: false,
            is_stopped: false,
            lot: None,
            behind: 0,
            received: 0,
            pace: Pace::default(),
        }
    }

    /// The body of a request on an HTTP/2 stream with this framing.
    pub fn of_stream(framing: Framing, stream: &Stream, worker: &Rc<Worker>) -> RequestBody {
        let state = match framing {
            Framing::None => State::Done,
            framing => State::Stream(Box::new(OfStream {
                stream: stream.clone(),
                worker: Rc::clone(worker),
                watch: worker.deadlines.watch(),
                is_counted: matches!(framing, Framing::Length(_)),
                outstanding_bytes: 0,
                has_ended: false,
            })),
        };
        RequestBody {
            state,
            ..RequestBody::none()
        }
    }

    /// Has the origin taken the whole body?
    pub fn is_done(&self) -> bool {
        matches!(self.state, State::Done) && !self.is_outstanding
    }

    /// Discards the rest of the body. The client's connection cannot be used again.
    pub fn stop(&mut self) {
        self.is_stopped |= !self.is_done();
        self.state = State::Done;
        self.is_outstanding = false;
        self.lot = None;
    }

    /// Does the client's connection continue with another request? Not if more of this body may come.
    pub fn is_through(&self) -> bool {
        self.is_done() && !self.is_stopped
    }

    /// The origin has taken the part yielded last.
    pub fn taken(&mut self) {
        self.is_outstanding = false;
        match &mut self.lot {
            Some(_) if matches!(self.state, State::Done) => self.lot = None,
            Some(lot) => lot.set(self.behind),
            None => {}
        }
        if let State::Stream(from) = &mut self.state {
            let bytes = std::mem::take(&mut from.outstanding_bytes);
            from.stream.taken(bytes, Some(&from.worker.shared.ledger));
            if from.has_ended {
                self.state = State::Done;
            }
        }
    }

    /// The next part; `None` at the end. Cancel-safe: bytes read stay with the connection until they are yielded. A client is too slow
    /// if it sends nothing for `limit`, or fewer than `rate_min` bytes a second on average over a minute of waiting for it (over `limit`,
    /// if that is longer).
    pub async fn next(
        &mut self,
        from: &mut Reply<'_>,
        limit: Duration,
        rate_min: u64,
    ) -> Result<Option<Part>, BodyError> {
        assert!(
            !self.is_outstanding,
            "a part is asked for while the origin has not taken the one before"
        );
        // A client that may pause for `limit` must not be cut sooner by the average.
        self.pace.window_min = limit;
        if let State::Stream(_) = self.state {
            return self.next_of_stream(limit, rate_min).await;
        }
        let Some(conn) = from.source() else {
            // Nothing can come; without stopping, the caller would ask for ever.
            self.stop();
            return Ok(None);
        };
        let worker = Rc::clone(&conn.worker);
        let ledger = &worker.shared.ledger;
        let holder = conn.holder(ledger);
        let paused = &worker.counters.transfers_paused;
        loop {
            if let Some(part) = self.part_at_hand(conn)? {
                self.is_outstanding = true;
                self.counts(&holder, &part, conn.input.len());
                return Ok(Some(part));
            }
            if matches!(self.state, State::Done) {
                self.lot = None;
                return Ok(None);
            }
            until_granted(ledger, &holder, &conn.watch, paused).await;
            let granted = || ledger.grant(&holder).unwrap_or(STEP_BYTES_MIN);
            let most = || granted().min(BODY_READ_BYTES);
            let patience = self.pace.patience(limit, rate_min);
            let waited = Waited::begin(&mut self.pace);
            match conn.read(most, patience).await {
                Err(_) => {
                    let reason = "the request body took too long to arrive";
                    return Err(BodyError::Bad(408, reason));
                }
                Ok(Ok(n)) if n > 0 => waited.for_bytes(n, rate_min),
                Ok(_) => return Err(BodyError::Gone),
            }
        }
    }

    /// This part is given out; so much has come behind it.
    fn counts(&mut self, holder: &Arc<Holder>, part: &Part, behind: usize) {
        let bytes = match part {
            Part::Data(data) => data.len(),
            Part::Trailers(_) => 0,
        };
        self.behind = behind;
        let lot = self.lot.get_or_insert_with(|| holder.hold(0));
        lot.set(bytes + behind);
    }

    async fn next_of_stream(
        &mut self,
        limit: Duration,
        rate_min: u64,
    ) -> Result<Option<Part>, BodyError> {
        let State::Stream(from) = &mut self.state else {
            return Ok(None);
        };
        let began = Instant::now();
        let (waited, came) = loop {
            let is_held_back = from.stream.is_held_back();
            let patience = self.pace.patience(limit, rate_min);
            let mut waited = Waited::begin(&mut self.pace);
            let slice = patience.min(LOOK_EVERY);
            let came = from.stream.body(&from.watch, slice).await;
            let is_held_back = is_held_back || from.stream.is_held_back();
            if is_held_back && began.elapsed() < HELD_BACK_MAX {
                waited.is_free();
            }
            if let Ok(came) = came {
                break (waited, came);
            }
            drop(waited);
            if self.pace.patience(limit, rate_min).is_zero() {
                let reason = "the request body took too long to arrive";
                return Err(BodyError::Bad(408, reason));
            }
        };
        match came {
            Came::Gone => Err(BodyError::Gone),
            Came::Data(data, is_last) => {
                waited.for_bytes(data.len(), rate_min);
                self.received += data.len() as u64;
                from.outstanding_bytes = data.len();
                // A body of unknown length ends in a part of its own.
                from.has_ended = is_last && from.is_counted;
                self.is_outstanding = true;
                Ok(Some(Part::Data(data)))
            }
            Came::End(trailers) => {
                let is_counted = from.is_counted;
                self.state = State::Done;
                if is_counted {
                    return Ok(None);
                }
                self.is_outstanding = true;
                Ok(Some(Part::Trailers(trailers.unwrap_or_default())))
            }
        }
    }

    /// Takes the next part from the bytes already read, if they hold one.
    fn part_at_hand(&mut self, conn: &mut Conn) -> Result<Option<Part>, BodyError> {
        let input = &mut conn.input;
        let (used, part) = match &mut self.state {
            State::Done | State::Stream(_) => return Ok(None),
            State::Length(_) if input.is_empty() => return Ok(None),
            State::Length(left) => {
                let most = usize::try_from(*left).unwrap_or(usize::MAX);
                let data = input.split_to(most.min(input.len())).freeze();
                *left -= data.len() as u64;
                if *left == 0 {
                    self.state = State::Done;
                }
                (data.len(), Some(Part::Data(data)))
            }
            State::Chunked(decoder) => {
                let step = decoder.next(input);
                match step.map_err(|reject| BodyError::Bad(reject.status(), reject.reason()))? {
                    Chunk::Data { start, end } => {
                        input.advance(start);
                        let data = input.split_to(end - start).freeze();
                        (end, Some(Part::Data(data)))
                    }
                    Chunk::End { consumed, trailers } => {
                        input.advance(consumed);
                        self.state = State::Done;
                        (consumed, Some(Part::Trailers(trailers)))
                    }
                    Chunk::More { consumed } => {
                        input.advance(consumed);
                        (consumed, None)
                    }
                }
            }
        };
        self.received += used as u64;
        conn.input_taken();
        Ok(part)
    }
}

/// Waits until more may be read for this client. What makes it wait is on its way to an origin of HTTP/2: else it holds nothing.
async fn until_granted(ledger: &Ledger, holder: &Holder, watch: &Watch, paused: &AtomicU64) {
    if ledger.grant(holder).is_none() {
        let is_due = |waited| waited >= pause::OWN_WAIT_MAX;
        Box::pin(pause::until_granted(ledger, holder, watch, paused, is_due)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(600);
    const RATE: u64 = 100;

    /// Six waits of ten seconds, each ended by `bytes`.
    fn is_cut_after_a_minute(bytes: usize) -> bool {
        let mut pace = Pace::default();
        for _ in 0..6 {
            let began = Instant::now() - Duration::from_secs(10);
            Waited(&mut pace, began).for_bytes(bytes, RATE);
        }
        pace.patience(LIMIT, RATE).is_zero()
    }

    #[test]
    fn an_upload_that_dribbles_is_cut_and_one_with_pauses_is_not() {
        assert!(is_cut_after_a_minute(900));
        assert!(!is_cut_after_a_minute(1100));
    }

    #[test]
    fn a_wait_that_was_given_up_counts() {
        let mut pace = Pace::default();
        drop(Waited(&mut pace, Instant::now() - Duration::from_secs(60)));
        assert!(pace.patience(LIMIT, RATE).is_zero());
        assert!(!pace.patience(LIMIT, 0).is_zero(), "the rule is off");
    }
}
