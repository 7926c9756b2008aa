//! One fetch, many readers: collapsed forwarding.
//!
//! A [`Flight`] is a response on its way from an origin. The fetching task publishes the head once and the body piece by piece.
//! Readers on any worker go through the pieces at their own pace. Pieces are reference-counted and shared.
//!
//! A request for the same key (the variant's, once it is known) may join until the head turns out not to be storable, the key is
//! invalidated, or the first bytes are no longer kept. The caller decides from the head whether a joined request may be *given* the
//! answer (`share`); this file does not.
//!
//! Memory: a flight keeps the pieces that its slowest reader has not seen, or that are being stored, but at most one window. Beyond that
//!  - a flight that is not stored waits for its slowest reader (back-pressure to the origin);
//!  - a flight whose rest can be requested separately (a *resumable* one) does not wait for a reader that is a window behind while
//!    another reader has seen everything: the slow reader leaves and continues with a request of its own ([`Broken::Lagged`]);
//!  - otherwise a reader that takes nothing for [`STILL_MAX`] checks while another one waits is cut, because a reader that never reads
//!    must not hold up the others for ever;
//!  - a flight that is stored in fragments waits for no reader: stored pieces may be dropped, and a reader that comes to a gap
//!    reads the fragment back from the store ([`Next::Stored`]).
//!
//! Not known here: HTTP, the store's shell, origins.

mod pace;
mod table;
mod unread;

use base::clock::Instant;
use std::{
    collections::VecDeque,
    future::poll_fn,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Poll, Waker},
    time::Duration,
};

use bytes::Bytes;
use fields::Fields;
use message::ResponseHead;
use store::{KeyHash, Sequence};

use pace::SLICE_BYTES;
pub use table::{Flights, Join};
use unread::Unread;
pub use unread::Worth;

use crate::fetch::response::{FetchError, Response};
use cache::object::Object;
use origin::outcome::INTERIM_MAX;
use record::facts::SwapOut;

/// Window of a transfer while the shared budget is exceeded.
pub const SMALL_WINDOW_BYTES: u64 = 64 << 10;

/// Parts of the table of flights, each with its own lock; a power of two.
const SHARDS: usize = 16;

/// How often a waiting fetch checks for readers that hold up others.
pub const LOOK_EVERY: Duration = Duration::from_secs(2);

/// After so many checks in a row that find a reader at the same position, the reader is cut.
const STILL_MAX: u8 = 5;

/// Why a body ends early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    /// The origin closed, stalled or broke the framing.
    Origin,
    /// This reader was too slow for the others; it may continue with a request of its own.
    Lagged,
}

/// The result of a fetch before its body.
#[derive(Clone)]
pub enum FirstEvent {
    /// A response to be shared (or passed on to the first reader only).
    Response(Arc<Response>),
    /// The stored response is still valid: serve this one.
    Validated(Arc<Validated>),
    /// There is no response.
    Failed(Arc<FetchError>),
}

/// An interim response (RFC 9110 §15.2) to a fetch.
///
/// It goes to the request that began the fetch, and to joined requests with exactly the same fields. An interim response does not name the
/// clients that it is for, and the final answer, which shows that, has not arrived. But the origin cannot have meant it for one of two
/// equal requests and not for the other.
#[derive(Clone)]
pub struct Hint {
    /// The head as it is passed on.
    pub head: Arc<ResponseHead>,
    /// The fields of the request it was sent to.
    pub asked_with: Arc<Fields>,
}

/// An event for a reader that waits for the head.
pub enum Heard {
    /// An interim response; the head is still to come.
    Hint(Hint),
    /// The result of the fetch.
    FirstEvent(FirstEvent),
}

/// A stored response that the origin has confirmed.
pub struct Validated {
    /// The response, freshened.
    pub object: Object,
    /// Set-Cookie lines of the 304, only for the client that began the fetch.
    pub withheld: Bytes,
    /// May the response still be stored, and so be given to other requests than the one that began the fetch?
    pub storable: bool,
    /// The fields of the request.
    pub asked_with: Arc<Fields>,
    /// The caching rules for the response.
    pub rules: httpcache::Rules,
}

/// The next part of the body for a reader.
pub enum Next {
    /// Body bytes.
    Piece(Bytes),
    /// No longer in memory: read fragment `number` from the store, from `skip` bytes into it.
    Stored {
        /// Which fragment.
        number: u32,
        /// Bytes of it the reader already has.
        skip: usize,
        /// The key the fragment belongs to.
        key: Bytes,
        /// The fetch that stored it.
        fetch_id: u64,
    },
    /// The body is complete.
    End(Option<Arc<Fields>>),
    /// The body will not be completed.
    Broken(Broken),
}

struct Reader {
    /// Bytes of body this reader has taken.
    at: u64,
    /// The fetch goes on for the store although this reader leaves: its client has all that it asked for, or there is none.
    is_content: bool,
    waker: Option<Waker>,
    lagged: bool,
    /// The reader's position at the last check, if it held up others, and how many checks before found it there.
    held_at: Option<(u64, u8)>,
    /// How long the reader has held up others in total.
    held_for: Duration,
}

#[derive(Default)]
struct State {
    first_event: Option<FirstEvent>,
    /// Interim responses so far.
    hints: Vec<Hint>,
    /// May further readers join?
    joinable: bool,
    /// The request has not been sent yet, so a reload that arrives now may have the answer.
    is_waiting: bool,
    pieces: VecDeque<Bytes>,
    /// Body offset of the first piece kept.
    base: u64,
    /// Body offset behind the last piece.
    end: u64,
    /// The body is being stored in fragments, so stored pieces may be dropped.
    storing: bool,
    /// The fragments are stored for the readers only: without readers the fetch ends.
    for_readers: bool,
    /// Size of the fragments; kept after storing was given up.
    fragment_bytes: u64,
    /// Body bytes already stored in fragments.
    stored: u64,
    /// Key and fetch the fragments are stored under.
    fragments_of: Option<(Bytes, u64)>,
    /// Most bytes kept for readers once they are stored.
    window: u64,
    /// A reader this many bytes behind a waiting one leaves and continues on its own. `None`: the body is not resumable.
    lag_max: Option<u64>,
    /// Since then the fetch waits for its slowest reader; this time is not counted yet.
    held_since: Option<Instant>,
    /// Keep everything from the start (a small object that is being stored).
    keep_all: bool,
    /// Keep everything from the start until half a window has arrived.
    keep_beginning: bool,
    finished: Option<Result<Option<Arc<Fields>>, Broken>>,
    /// When the body was given to the store: begin and end.
    swap_out: Option<SwapOut>,
    /// When the last byte of the body arrived.
    last_byte: Option<Instant>,
    readers: Vec<Option<Reader>>,
    producer: Option<Waker>,
    /// The producer, while it waits for the origin or for the last reader to leave.
    watcher: Option<Waker>,
    /// Whether the fetch goes on when all readers have left.
    unread: Unread,
}

/// A response on its way from a server.
pub struct Flight {
    /// Hash of the resource's key (without variant).
    pub primary: KeyHash,
    /// The invalidation sequence at which the fetch began.
    pub began: Sequence,
    state: Mutex<State>,
}

impl Flight {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Publishes an interim response.
    pub fn hint(&self, hint: Hint) {
        let mut state = self.lock();
        if state.hints.len() < INTERIM_MAX {
            state.hints.push(hint);
            state.wake_readers();
        }
    }

    /// Publishes the result of the fetch. `joinable`: may other requests still join, and may those that have joined stay?
    pub fn publish(&self, first_event: FirstEvent, joinable: bool, plan: Keeping, window: u64) {
        let mut state = self.lock();
        state.window = window;
        state.first_event = Some(first_event);
        state.joinable &= joinable;
        match plan {
            Keeping::Nothing => {}
            Keeping::Beginning => state.keep_beginning = true,
            Keeping::All => state.keep_all = true,
            Keeping::Fragments { bytes } => {
                state.storing = true;
                state.fragment_bytes = bytes;
            }
        }
        state.wake_readers();
    }

    /// Sets when the fetch goes on although all readers have left, and the body's length if it is known. Until this call the fetch
    /// always goes on for the store.
    pub fn is_worth(&self, worth: Worth, length: Option<u64>) {
        let mut state = self.lock();
        (state.unread.worth, state.unread.length) = (worth, length);
    }

    /// The body is resumable from now on: a reader that is `lag_max` behind the others leaves and continues with a request of its own.
    pub fn is_resumable(&self, lag_max: u64) {
        self.lock().lag_max = Some(lag_max);
    }

    /// Publishes body bytes and drops pieces that are no longer needed. `window`: the most bytes to keep. False: the last reader has left,
    /// and the rest is not stored or not worth fetching, so the fetch must stop.
    pub fn push(&self, piece: Bytes, window: u64) -> bool {
        let mut state = self.lock();
        let len = piece.len() as u64;
        state.window = window;
        state.end += len;
        state.pieces.push_back(piece);
        self.trim(&mut state);
        state.wake_readers();
        state.goes_on()
    }

    /// Waits until there is room for more. Returns at once for a body that is stored. False: no reader is left.
    pub async fn room(&self, window: u64) -> bool {
        poll_fn(|cx| {
            let mut state = self.lock();
            if state.keep_all || state.storing {
                return Poll::Ready(true);
            }
            if state.live().next().is_none() {
                return Poll::Ready(false);
            }
            if state.hold(window, Instant::now()) {
                self.trim(&mut state);
            }
            if state.end - state.base < window {
                return Poll::Ready(true);
            }
            state.producer = Some(cx.waker().clone());
            Poll::Pending
        })
        .await
    }

    /// Waits until no reader is left and the rest is not stored or not worth fetching. From then on no request can join.
    pub async fn unwanted(&self) {
        poll_fn(|cx| {
            let mut state = self.lock();
            if !state.goes_on() {
                return Poll::Ready(());
            }
            state.watcher = Some(cx.waker().clone());
            Poll::Pending
        })
        .await
    }

    /// Does the fetch end when its last reader leaves, however much has arrived?
    pub fn ends_with_readers(&self) -> bool {
        !self.lock().is_stored()
    }

    /// Called after the producer has waited [`LOOK_EVERY`] in [`Flight::room`]: cuts readers that hold up others and take nothing.
    pub fn cut_still(&self, window: u64) {
        let mut state = self.lock();
        state.cut_still(window);
        self.trim(&mut state);
    }

    /// From now on the body is stored in fragments of this size.
    pub fn keep_fragments(&self, bytes: u64) {
        let mut state = self.lock();
        state.keep_all = false;
        state.storing = true;
        state.fragment_bytes = bytes;
    }

    /// The body up to `offset` is in the store, in fragments of this fetch under this key.
    pub fn note_stored(&self, offset: u64, key: &Bytes, fetch_id: u64) {
        let mut state = self.lock();
        state.stored = offset;
        if state.fragments_of.is_none() {
            state.fragments_of = Some((key.clone(), fetch_id));
        }
        self.trim(&mut state);
    }

    /// Drops stored pieces except for `window` bytes at the end. Readers read the dropped ones from the store.
    pub fn keep_less(&self, window: u64) {
        let mut state = self.lock();
        state.window = state.window.min(window);
        self.trim(&mut state);
    }

    /// Has the flight had more than one reader at a time?
    pub fn was_shared(&self) -> bool {
        self.lock().readers.len() > 1
    }

    /// The number of readers that have not been cut.
    pub fn readers(&self) -> usize {
        self.lock().live().count()
    }

    /// From now on fragments are stored for the present readers only; no other request will find them.
    pub fn store_for_readers(&self) {
        let mut state = self.lock();
        state.for_readers = true;
        state.joinable = false;
    }

    /// The body will not be stored after all: from now on keep only the pieces that readers need.
    pub fn give_up_storing(&self) {
        let mut state = self.lock();
        state.keep_all = false;
        state.storing = false;
        state.joinable = false;
        // A reader that needs a part from the store continues to read there, as long as the fragments last.
        self.trim(&mut state);
    }

    /// Ends the body: it is complete, or will never be.
    pub fn finish(&self, result: Result<Option<Arc<Fields>>, Broken>) {
        let mut state = self.lock();
        state.finished = Some(result);
        state.joinable = false;
        state.keep_all = false;
        self.trim(&mut state);
        state.wake_readers();
    }

    /// Sets the times of the writes to the store so far.
    pub fn note_swap_out(&self, out: SwapOut) {
        self.lock().swap_out = Some(out);
    }

    /// The times of the writes to the store so far, if there were any.
    pub fn swap_out(&self) -> Option<SwapOut> {
        self.lock().swap_out
    }

    /// Sets when the last byte of the body arrived.
    pub fn note_last_byte(&self, at: Option<Instant>) {
        self.lock().last_byte = at;
    }

    /// When the last byte of the body arrived; `None`: it has not.
    pub fn last_byte(&self) -> Option<Instant> {
        self.lock().last_byte
    }

    /// Ends the flight when the fetching task is gone; an unfinished body is broken.
    pub fn abandon(&self) {
        let mut state = self.lock();
        state.joinable = false;
        if state.finished.is_none() {
            state.finished = Some(Err(Broken::Origin));
        }
        state.wake_readers();
    }

    /// Bytes of the body that have arrived.
    pub fn arrived_bytes(&self) -> u64 {
        self.lock().end
    }

    /// The request is sent now, so reloads that arrive later need another fetch.
    pub fn begin(&self) {
        self.lock().is_waiting = false;
    }

    /// Closes the flight to further readers.
    pub fn close(&self) {
        self.lock().joinable = false;
    }

    fn trim(&self, state: &mut State) {
        let is_beginning = state.keep_beginning && state.end <= state.window / 2;
        if state.keep_all || is_beginning && state.joinable {
            return;
        }
        let needed_by_readers = state
            .readers
            .iter()
            .flatten()
            .map(|r| r.at)
            .min()
            .unwrap_or(u64::MAX);
        let keep_from = if state.storing {
            // A stored piece may go once all readers have it or it is outside the window. Pieces not stored yet are kept.
            let floor = state.end.saturating_sub(state.window);
            state.stored.min(needed_by_readers.max(floor))
        } else {
            needed_by_readers
        };
        while let Some(first) = state.pieces.front() {
            let len = first.len() as u64;
            if state.base + len > keep_from {
                break;
            }
            state.base += len;
            state.pieces.pop_front();
        }
    }
}

/// The pieces that a flight keeps besides those its readers need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keeping {
    /// None: the body is not stored.
    Nothing,
    /// The beginning, until half a window has arrived, so that requests from about the same time can join.
    Beginning,
    /// All of them, until the body is stored as one record.
    All,
    /// Those not stored yet, in fragments of this size.
    Fragments {
        /// Bytes of a fragment.
        bytes: u64,
    },
}

impl State {
    fn wake_readers(&mut self) {
        for reader in self.readers.iter_mut().flatten() {
            if let Some(waker) = reader.waker.take() {
                waker.wake();
            }
        }
    }

    /// Is the body stored for requests besides its readers'?
    fn is_stored(&self) -> bool {
        (self.keep_all || self.storing) && !self.for_readers
    }

    /// Is there a reader, or is the rest stored and worth fetching?
    fn goes_on(&mut self) -> bool {
        if self.live().next().is_some() {
            return true;
        }
        let goes_on = self.is_stored() && self.unread.is_worth_it(self.end);
        // No request may join a body that will not be completed.
        self.joinable &= goes_on;
        goes_on
    }

    /// Readers that have not been cut.
    fn live(&self) -> impl Iterator<Item = &Reader> {
        self.readers.iter().flatten().filter(|r| !r.lagged)
    }
}

/// A reader of a flight. Dropping it leaves the flight.
pub struct FlightReader {
    /// The flight.
    pub flight: Arc<Flight>,
    slot: usize,
}

impl FlightReader {
    /// Waits for the head and ignores interim responses.
    pub async fn first_event(&self) -> FirstEvent {
        loop {
            if let Heard::FirstEvent(first_event) = self.heard(usize::MAX).await {
                return first_event;
            }
        }
    }

    /// Waits for the head, or for an interim response after the first `heard` ones.
    pub async fn heard(&self, heard: usize) -> Heard {
        poll_fn(|cx| {
            let mut state = self.flight.lock();
            if let Some(heard) = state.heard(heard) {
                return Poll::Ready(heard);
            }
            if let Some(reader) = &mut state.readers[self.slot] {
                reader.waker = Some(cx.waker().clone());
            }
            Poll::Pending
        })
        .await
    }

    /// Takes the next part of the body; does not wait if one is there.
    pub async fn next(&self) -> Next {
        poll_fn(|cx| {
            let mut state = self.flight.lock();
            let is_sliced = state.is_sliced();
            let State {
                pieces,
                base,
                end,
                readers,
                finished,
                ..
            } = &mut *state;
            let Some(reader) = &mut readers[self.slot] else {
                return Poll::Ready(Next::Broken(Broken::Lagged));
            };
            if reader.lagged {
                return Poll::Ready(Next::Broken(Broken::Lagged));
            }
            if reader.at < *base {
                let fragment_bytes = state.fragment_bytes;
                let at = state.readers[self.slot].as_ref().map_or(0, |r| r.at);
                let Some((key, fetch_id)) =
                    state.fragments_of.clone().filter(|_| fragment_bytes > 0)
                else {
                    return Poll::Ready(Next::Broken(Broken::Lagged));
                };
                return Poll::Ready(Next::Stored {
                    number: u32::try_from(at / fragment_bytes).unwrap_or(u32::MAX),
                    skip: (at % fragment_bytes) as usize,
                    key,
                    fetch_id,
                });
            }
            if reader.at < *end {
                let mut offset = *base;
                for piece in pieces.iter() {
                    let piece_end = offset + piece.len() as u64;
                    if reader.at < piece_end {
                        let most = if is_sliced { SLICE_BYTES } else { u64::MAX };
                        let to = piece_end.min(reader.at.saturating_add(most));
                        let out =
                            piece.slice((reader.at - offset) as usize..(to - offset) as usize);
                        reader.at = to;
                        self.flight.trim(&mut state);
                        if let Some(producer) = state.producer.take() {
                            producer.wake();
                        }
                        drop(state);
                        return Poll::Ready(Next::Piece(out));
                    }
                    offset = piece_end;
                }
            }
            match finished {
                Some(Ok(trailers)) => return Poll::Ready(Next::End(trailers.clone())),
                Some(Err(broken)) => return Poll::Ready(Next::Broken(*broken)),
                None => {}
            }
            reader.waker = Some(cx.waker().clone());
            // This reader has seen everything, so pieces that only it needed can go.
            self.flight.trim(&mut state);
            if let Some(producer) = state.producer.take() {
                producer.wake();
            }
            Poll::Pending
        })
        .await
    }

    /// The reader's client has all that it asked for, or there is none: when the reader leaves, the fetch goes on for the store.
    pub fn is_content(&self) {
        if let Some(reader) = &mut self.flight.lock().readers[self.slot] {
            reader.is_content = true;
        }
    }

    /// Skips bytes that were read back from the store, or are not wanted.
    pub fn advance(&self, bytes: u64) {
        if let Some(reader) = &mut self.flight.lock().readers[self.slot]
            && !reader.lagged
        {
            reader.at += bytes;
        }
    }
}

impl Drop for FlightReader {
    fn drop(&mut self) {
        let mut state = self.flight.lock();
        let reader = state.readers[self.slot].take();
        if reader.is_some_and(|reader| !reader.is_content) {
            state.unread.left_at = Some(state.end);
        }
        self.flight.trim(&mut state);
        for waiting in [state.producer.take(), state.watcher.take()] {
            waiting.into_iter().for_each(Waker::wake);
        }
    }
}

impl State {
    /// The next event for a reader that has seen `heard` interim responses, if there is one.
    fn heard(&self, heard: usize) -> Option<Heard> {
        if let Some(hint) = self.hints.get(heard) {
            return Some(Heard::Hint(hint.clone()));
        }
        if let Some(first_event) = &self.first_event {
            return Some(Heard::FirstEvent(first_event.clone()));
        }
        (self.finished.is_some())
            .then(|| Heard::FirstEvent(FirstEvent::Failed(Arc::new(FetchError::Abandoned))))
    }

    /// Adds a reader if there is a place for it and it can still see the whole body.
    fn slot(&mut self, waiters_max: usize) -> Option<usize> {
        let fits = self.has_begun_well() && self.readers.iter().flatten().count() < waiters_max;
        fits.then(|| self.add_reader(false))
    }

    /// Could a new reader still see the whole body?
    fn has_begun_well(&self) -> bool {
        self.joinable && (self.base == 0 || self.storing)
    }

    fn add_reader(&mut self, is_content: bool) -> usize {
        let reader = Some(Reader {
            at: 0,
            is_content,
            waker: None,
            lagged: false,
            held_at: None,
            held_for: Duration::ZERO,
        });
        match self.readers.iter().position(Option::is_none) {
            Some(slot) => {
                self.readers[slot] = reader;
                slot
            }
            None => {
                self.readers.push(reader);
                self.readers.len() - 1
            }
        }
    }
}

#[cfg(test)]
mod tests;
