//! Sending a body in spans, one after the other, each from the place where its bytes are.
//!
//! ```text
//! wanted by the client      [--------------------------------)
//! for example from           memory | disk | origin | disk
//! ```
//!
//! | source | when its bytes are missing |
//! |---|---|
//! | memory | never happens |
//! | disk, fragment by fragment | before anything was sent [`send`] returns false; later they come from the origin |
//! | a fetch under way, also one that this client is too slow for | the same; without an origin that could fill the hole the answer breaks off |
//! | the origin, into fragments on the way | the origin is asked once more |
//! | a member of our cluster | another one is asked for the rest, or the origin |
//!
//! A body in fragments may take hours to send, and a fragment that was not read yet may be evicted meanwhile. The head is out, so
//! the missing bytes must come from the origin, and only if a strong validator proves that they belong to the same representation
//! (RFC 9110 §13.1.5, §15.3.7). Otherwise the answer breaks off, and the client sees that it is not complete.
//!
//! A fragment that is being sent is held in memory, and counted in the ledger ([`ledger`]). When the ledger is crowded, fragments are
//! read in small parts, and for a client that takes nothing for [`CROWDED_WAIT`] only a copied small piece stays in memory; the rest
//! is read again when that piece is through. So slow clients cost little memory, and fast clients are not affected.
//!
//! The origin's answer is read no faster than the client reads. If the client leaves after a minute of film, the rest is not
//! fetched, except for the fragment that is on its way.
//!
//! Not known here: heads, the choice of spans, the rest of the request.

use std::{ops::Range, pin::pin, rc::Rc, sync::Arc, time::Duration};

use bytes::Bytes;
use fields::Fields;
use httpcache::RequestDirectives;
use message::{Framing, ResponseHead};

use crate::{
    deliver::ahead::Ahead,
    fetch::{
        ask,
        flight::{Broken, FlightReader, Next, SMALL_WINDOW_BYTES},
    },
    range::fill::{self, Filling},
    reply::{Gone, HEAD_WAIT},
    request::{exchange::Exchange, onward, wanted::Wanted},
    state::Worker,
    storage::Storage,
};
use base::{clock::Instant, deadline::Watch};
use cache::{
    Cache,
    disk::{LoadedFragment, Waits},
    holding::Holding,
    object::Object,
    parts::Part,
};
use ledger::pause;
use origin::{OriginContext, body::Body};
use record::metrics;
use rules::key::fragment_key;

/// How long a client may take nothing before the memory held for it is given back, if the ledger is crowded.
const CROWDED_WAIT: Duration = Duration::from_secs(1);

/// The bytes that stay in memory for such a client.
const SMALL_PIECE_BYTES: usize = 16 << 10;

/// A span of a body.
pub struct Span<'a> {
    /// Sent before the bytes of the span.
    pub lead: Bytes,
    /// Its place in the body. The end is `u64::MAX` if the span ends with a body of unknown length.
    pub range: Range<u64>,
    /// Where its bytes are.
    pub from: Source<'a>,
}

/// Where bytes of a body are.
pub enum Source<'a> {
    /// The whole body, at hand.
    Memory(Bytes),
    /// The fragments of a stored object.
    Disk(&'a Object),
    /// A fetch under way; the reader stands at the beginning of the span.
    Flight(&'a FlightReader),
    /// An answer that the origin is sending.
    Origin(Box<FromOrigin>),
}

/// Bytes that an origin is sending.
pub struct FromOrigin {
    body: Body,
    watch: Watch,
    /// The place in the body of the next byte, and the end of the bytes that the origin sends.
    range: Range<u64>,
    filling: Option<Filling>,
}

/// The next event of a source.
enum Got {
    Piece(Bytes),
    /// Bytes of a fragment, and the part of them that is wanted.
    Fragment(Bytes, u32, Range<usize>),
    End(Option<Arc<Fields>>),
    /// The bytes are not there.
    Missing,
    /// The source has broken off.
    Broken,
    /// The same, because the client fell behind the other readers of the fetch.
    Lagged,
    /// The client has left.
    Gone,
}

/// How a span ended.
enum Ended {
    All(Option<Arc<Fields>>),
    NotBegun,
    Lost,
    Gone,
}

/// The body that the spans belong to. It decides who is asked for missing bytes.
#[derive(Clone, Copy)]
pub enum Whole<'a> {
    /// Missing bytes cannot be asked for.
    Unknown,
    /// A stored object: its origin is asked.
    Stored(&'a Object),
    /// A response with these fields and this length of body, sent by a member of our cluster: another member is asked, or the origin.
    Forwarded(&'a Fields, u64),
    /// The same, sent by the origin: the origin is asked once more.
    Arriving(&'a Fields, u64),
}

/// Sends these spans, then `tail`, and ends the answer, or breaks it off.
///
/// False: nothing was sent, since the first bytes are not there.
pub async fn send(
    ex: &mut Exchange<'_>,
    wanted: &Wanted,
    whole: Whole<'_>,
    holding: &mut Holding,
    spans: Vec<Span<'_>>,
    tail: &[u8],
) -> bool {
    let mut trailers = None;
    for span in spans {
        ex.reply.lead(&span.lead);
        match send_span(ex, wanted, whole, holding, span).await {
            Ended::All(behind) => trailers = behind,
            Ended::NotBegun => return false,
            Ended::Gone => return true,
            Ended::Lost => {
                ex.record.is_cut(false);
                ex.reply.break_off().await;
                return true;
            }
        }
    }
    ex.reply.lead(tail);
    let _ = ex.reply.end(trailers.as_deref()).await;
    true
}

async fn send_span(
    ex: &mut Exchange<'_>,
    wanted: &Wanted,
    whole: Whole<'_>,
    holding: &mut Holding,
    span: Span<'_>,
) -> Ended {
    let Span {
        mut range,
        mut from,
        ..
    } = span;
    let mut at = range.start;
    let mut may_ask = true;
    let mut ahead = Ahead::default();
    while at < range.end {
        let sent = match from.next(ex, holding, &mut ahead, at..range.end).await {
            Got::End(trailers) => return Ended::All(trailers),
            Got::Gone => {
                ex.reply.leave();
                Err(Gone)
            }
            Got::Piece(piece) => {
                at += piece.len() as u64;
                let holder = ex.record.holder.clone();
                let _pinned = holder.as_ref().map(|holder| holder.pin(piece.len()));
                ex.reply.piece(piece).await
            }
            Got::Fragment(fragment, number, part) => {
                send_held(ex, fragment, part, &mut ahead).await.map(|sent| {
                    at += sent as u64;
                    from.advance(sent as u64);
                    if at >= range.end
                        || from.is_behind_fragment(&ex.worker.shared.cache, number, at)
                    {
                        // Release the fragment only now: bytes that were given back, or are sent in small parts, are read again.
                        holding.read(ex.worker.storage.disk.as_ref(), number);
                    }
                })
            }
            Got::Missing if ex.reply.sent().bytes == 0 => return Ended::NotBegun,
            got @ (Got::Missing | Got::Broken | Got::Lagged) => {
                // When a shared answer breaks off, its readers do not ask for the rest, since all would ask the origin at once.
                let is_for_many = matches!((&got, &from, whole),
                    (Got::Broken, Source::Flight(reader), Whole::Arriving(..)) if reader.flight.was_shared());
                let rest = match std::mem::take(&mut may_ask) && !is_for_many {
                    true => Box::pin(ask_for_rest(ex, wanted, whole, at..range.end)).await,
                    false => None,
                };
                let Some(rest) = rest else {
                    note_laggard(ex, matches!(got, Got::Lagged));
                    return Ended::Lost;
                };
                // The end may have been unknown, if the body was arriving.
                range.end = range.end.min(rest.range.end);
                from = Source::Origin(Box::new(rest));
                Ok(())
            }
        };
        if let Err(Gone) = sent {
            from.leave(ex.worker);
            return Ended::Gone;
        }
    }
    from.leave(ex.worker);
    Ended::All(None)
}

/// Sends this part of a fragment, whose bytes are counted as long as they are held. Returns how many bytes of the part were sent: fewer
/// than all if the rest had to be given back.
async fn send_held(
    ex: &mut Exchange<'_>,
    fragment: Bytes,
    part: Range<usize>,
    ahead: &mut Ahead,
) -> Result<usize, Gone> {
    let begun = Instant::now();
    let shared = &ex.worker.shared;
    let holder = ex.reply.holder(&shared.ledger);
    // A fragment that is kept in memory for all clients is counted there, not here.
    let is_kept = shared.cache.fragments.place_of(&fragment).is_some();
    let mut held = holder.hold(if is_kept { 0 } else { fragment.len() });
    let mut pinned = is_kept.then(|| holder.pin(fragment.len()));
    let mut body = fragment.slice(part);
    drop(fragment);
    let mut sent = 0;
    if !ex.reply.may_take_back() {
        sent = body.len();
        ex.reply.piece(std::mem::take(&mut body)).await?;
    }
    while !body.is_empty() {
        let before = body.len();
        if ex.reply.some_of(&mut body, CROWDED_WAIT).await? {
            sent += before - body.len();
            continue;
        }
        ahead.give_up();
        if before > SMALL_PIECE_BYTES && shared.ledger.is_crowded() {
            metrics::add(&ex.worker.counters.fragments_given_back, 1);
            body = Bytes::copy_from_slice(&body[..SMALL_PIECE_BYTES]);
            held.set(SMALL_PIECE_BYTES);
            pinned = None;
        }
    }
    drop(pinned);
    ahead.sent(begun.elapsed());
    Ok(sent)
}

impl Source<'_> {
    /// The next event of the source, with bytes of `range`.
    async fn next(
        &mut self,
        ex: &mut Exchange<'_>,
        holding: &mut Holding,
        ahead: &mut Ahead,
        range: Range<u64>,
    ) -> Got {
        match self {
            Source::Memory(body) => {
                Got::Piece(body.slice(range.start as usize..range.end as usize))
            }
            Source::Disk(object) => {
                (next_of_object(ex, object, holding, ahead, range).await).unwrap_or(Got::Missing)
            }
            Source::Flight(reader) => next_of_flight(ex, reader, holding, range).await,
            Source::Origin(from) => {
                // Sending notices a client that has left. So the client is watched only while bytes before the range are skipped, or
                // if nothing is stored; a fill goes on until the next bytes are sent.
                let from_is_behind = from.range.start < range.start;
                let is_stored = from.filling.as_ref().is_some_and(|it| !it.is_over());
                let got = tokio::select! {
                    biased;
                    got = from.next(&ex.worker.origin, &ex.worker.storage, range.clone()) => got,
                    () = ex.reply.client_leaves(), if from_is_behind || !is_stored => Got::Gone,
                };
                let filling = from.filling.as_ref();
                if let Some(out) = filling.and_then(Filling::swap_out) {
                    ex.record.swapped_out(out);
                }
                got
            }
        }
    }

    /// Does the place `at` in the body lie behind the fragment `number`?
    fn is_behind_fragment(&self, cache: &Cache, number: u32, at: u64) -> bool {
        let primary = match self {
            Source::Disk(object) => object.primary,
            Source::Flight(reader) => reader.flight.primary,
            Source::Memory(_) | Source::Origin(_) => return true,
        };
        let size = u64::from(cache.store.of(primary).fragment_bytes());
        at >= (u64::from(number) + 1).saturating_mul(size)
    }

    /// Tells the reader of a flight that bytes of a fragment were sent.
    fn advance(&self, bytes: u64) {
        if let Source::Flight(reader) = self {
            reader.advance(bytes);
        }
    }

    /// The source is not needed any more. A fragment of it that is half stored is completed in the background.
    fn leave(self, worker: &Rc<Worker>) {
        if let Source::Origin(from) = self
            && let Some(filling) = from.filling.filter(Filling::is_amid)
        {
            fill::complete_behind(worker, filling, from.body);
        }
    }
}

/// The next fragment of a stored object.
async fn next_of_object(
    ex: &mut Exchange<'_>,
    object: &Object,
    holding: &mut Holding,
    ahead: &mut Ahead,
    range: Range<u64>,
) -> Option<Got> {
    let worker = ex.worker;
    let waits = Waits::for_answer(ex.reply.sent().bytes > 0);
    let (disk, large) = (worker.storage.disk.as_ref()?, object.large.as_ref()?);
    let store = worker.shared.cache.store.of(object.primary);
    let size = u64::from(store.fragment_bytes());
    let number = (range.start / size) as u32;
    let (primary, key) = (object.primary, &object.key);
    let begin = u64::from(number) * size;
    let end = object.body_bytes().min(begin + size);
    // A fragment that is kept in memory is sent from there, however much is held for the client.
    let most = range.end.min(end) - range.start;
    let part = Part {
        number,
        of: end - begin,
        range: range.start - begin..range.start - begin + most,
    };
    let shared = &worker.shared;
    let wanted_end = range.end;
    let (of, range) = (part.of, part.range.clone());
    let name = fragment_key(key, large.fetch_id, number);
    let hash = store.hasher().hash(&name);
    if let Some(kept) = shared
        .cache
        .fragments
        .get(&shared.cache.memory, hash, &name)
        && kept.len() as u64 == of
    {
        shared.cache.fragments.serves(range.end - range.start);
        let part = range.start as usize..range.end as usize;
        return Some(Got::Fragment(kept, number, part));
    }
    let read_ahead = ahead.take(number);
    let read_ahead = read_ahead.await;
    let holder = ex.reply.holder(&shared.ledger);
    ahead.begin(worker, &holder, object, number, wanted_end);
    let piece = match read_ahead {
        Some(whole) => whole
            .filter(|it| it.body.len() as u64 == of)
            .map(|it| (it, range.start as usize..range.end as usize)),
        None => {
            let wanted = part.range.end - part.range.start;
            let part = part.at_most(bytes_granted(ex, || ()).await);
            let bytes = (part.range.end - part.range.start) as usize;
            // Count the bytes before the read, since many reads may be under way at once.
            let reserved = holder.hold(bytes);
            // Boxed, as other futures here, so that a request that waits for an origin or a client needs no memory for a disk read.
            let read = disk.load_part(primary, key, large.fetch_id, part, waits);
            let read = Box::pin(read).await;
            drop(reserved);
            match (bytes as u64) < wanted {
                true => read.map(|(loaded, part)| copied(loaded, part)),
                false => read,
            }
        }
    };
    let Some((loaded, part)) = piece else {
        holding.read(Some(disk), number);
        // If the fragment still exists, its device was only too slow, and a later read may succeed.
        let is_late = disk.has_fragment(primary, key, large.fetch_id, number);
        if !is_late && !httpcache::has_strong_validator(&object.fields()) {
            // The hole cannot be filled, so the other fragments are of no use either.
            worker.shared.cache.forget_stored(object);
        }
        return None;
    };
    if let Some(swap_in) = loaded.swap_in {
        ex.record.swapped_in(swap_in);
    }
    let body = match loaded.body.len() as u64 == of {
        true => (shared.cache.fragments).was_read(&shared.cache.memory, hash, &name, loaded.body),
        false => loaded.body,
    };
    Some(Got::Fragment(body, number, part))
}

/// Copies a part, so that the client does not hold the blocks around it.
fn copied(loaded: LoadedFragment, part: Range<usize>) -> (LoadedFragment, Range<usize>) {
    let body = Bytes::copy_from_slice(&loaded.body[part]);
    let all = 0..body.len();
    (LoadedFragment { body, ..loaded }, all)
}

/// How many bytes may be read from disk for this client now. Waits until some are granted, and calls `make_room` meanwhile. An answer
/// that has no bytes waiting for its client is granted a few after a while, whatever else the connection holds.
async fn bytes_granted(ex: &Exchange<'_>, make_room: impl Fn()) -> u64 {
    let (worker, ledger) = (ex.worker, &ex.worker.shared.ledger);
    let holder = ex.reply.holder(ledger);
    if let (false, Some(_)) = (ledger.is_crowded(), ledger.grant(&holder)) {
        return u64::MAX;
    }
    let watch = worker.deadlines.watch();
    let paused = &worker.counters.transfers_paused;
    let is_due = |waited| {
        make_room();
        ex.reply.waits_in_vain(waited)
    };
    let granted = pause::until_granted(ledger, &holder, &watch, paused, is_due).await;
    granted.max(SMALL_PIECE_BYTES) as u64
}

/// The next piece of a response that is arriving. Bytes that the fetch no longer keeps are read from the store.
async fn next_of_flight(
    ex: &mut Exchange<'_>,
    reader: &FlightReader,
    holding: &mut Holding,
    range: Range<u64>,
) -> Got {
    let left = usize::try_from(range.end - range.start).unwrap_or(usize::MAX);
    let Ok(next) = first_or_next(ex, reader).await else {
        return Got::Gone;
    };
    match next {
        Next::Piece(piece) => Got::Piece(piece.slice(..piece.len().min(left))),
        Next::Stored {
            number,
            skip,
            key,
            fetch_id,
        } => {
            let primary = reader.flight.primary;
            let shared = &ex.worker.shared;
            let of = u64::from(shared.cache.store.of(primary).fragment_bytes());
            // The fetch may keep less: the bytes it keeps for this client lie behind those read here.
            let make_room = || reader.flight.keep_less(SMALL_WINDOW_BYTES);
            let granted = bytes_granted(ex, make_room).await;
            let most = usize::try_from(granted).map_or(left, |most| left.min(most));
            let most = most.min((of as usize).saturating_sub(skip));
            let part = Part {
                number,
                of,
                range: skip as u64..(skip + most) as u64,
            };
            // The last fragment may be shorter.
            let is_full = reader.flight.arrived_bytes() >= (u64::from(number) + 1) * of;
            let fetch = (primary, &key[..], fetch_id);
            // Count the bytes before the read, since many reads may be under way at once.
            let reserved = ex.reply.holder(&shared.ledger).hold(most);
            let found = match &ex.worker.storage.disk {
                Some(disk) => Box::pin(holding.load_of_fetch(disk, fetch, part, is_full)).await,
                None => None,
            };
            drop(reserved);
            match found {
                Some((found, part)) => {
                    if let Some(swap_in) = found.swap_in {
                        ex.record.swapped_in(swap_in);
                    }
                    // Copy the part, or the client would hold the blocks around it for long.
                    let (found, part) = match granted < left as u64 {
                        true => copied(found, part),
                        false => (found, part),
                    };
                    Got::Fragment(found.body, number, part)
                }
                None => {
                    note_laggard(ex, ex.reply.sent().bytes > 0);
                    Got::Missing
                }
            }
        }
        Next::End(trailers) => {
            let is_anothers = ex.record.shares();
            ex.record.reads_no_more(&reader.flight, is_anothers);
            Got::End(trailers)
        }
        Next::Broken(Broken::Lagged) => Got::Lagged,
        Next::Broken(Broken::Origin) => Got::Broken,
    }
}

/// If `is_laggard`, records that the client is cut off because it fell behind a fetch that it shares.
fn note_laggard(ex: &mut Exchange<'_>, is_laggard: bool) {
    if is_laggard {
        ex.record.is_cut(true);
    }
    metrics::add(&ex.worker.counters.body_laggards_cut, u64::from(is_laggard));
}

/// The next event of the body. If the first piece takes long, the head is sent before it.
///
/// A fetch that is stored goes on even if the client has left. So a client that has merely closed its sending side gets its answer.
async fn first_or_next(ex: &mut Exchange<'_>, reader: &FlightReader) -> Result<Next, Gone> {
    if ex.reply.sent().bytes == 0 {
        let watch = ex.worker.deadlines.watch();
        if let Ok(next) = watch.limit(HEAD_WAIT, pin!(reader.next())).await {
            return Ok(next);
        }
        ex.reply.flush_head().await?;
    }
    let ends_with_client = reader.flight.ends_with_readers();
    tokio::select! {
        biased;
        next = reader.next() => Ok(next),
        () = ex.reply.client_leaves(), if ends_with_client => Err(Gone),
    }
}

impl FromOrigin {
    /// The bytes in `range` of a body, from an answer that begins there. They go into `filling` on the way.
    pub fn new(
        watch: Watch,
        body: Body,
        range: Range<u64>,
        filling: Option<Filling>,
    ) -> FromOrigin {
        let mut body = body;
        body.passes(filling.is_none());
        FromOrigin {
            body,
            watch,
            range,
            filling,
        }
    }

    async fn next(&mut self, origin: &OriginContext, storage: &Storage, wanted: Range<u64>) -> Got {
        loop {
            let most = self.range.end - self.range.start;
            let piece = match self.body.next(origin, &self.watch).await {
                Ok(Some(piece)) if piece.len() as u64 <= most => piece,
                answered => {
                    if let Err(error) = answered {
                        origin.counters.origin_failed(error.token());
                    }
                    self.filling = None;
                    return Got::Broken;
                }
            };
            let (at, end) = (self.range.start, self.range.start + piece.len() as u64);
            self.range.start = end;
            let from = wanted.start.clamp(at, end) - at;
            let to = wanted.end.clamp(at, end) - at;
            let part = piece.slice(from as usize..to as usize);
            if let Some(filling) = &mut self.filling {
                filling.take(storage, piece).await;
                self.body.passes(filling.is_over());
            }
            if !part.is_empty() {
                return Got::Piece(part);
            }
        }
    }
}

/// Asks for the bytes of `range`. `None`: they cannot be had, or may belong to another representation.
async fn ask_for_rest(
    ex: &mut Exchange<'_>,
    wanted: &Wanted,
    whole: Whole<'_>,
    range: Range<u64>,
) -> Option<FromOrigin> {
    let worker = ex.worker;
    let (stored, total) = match whole {
        Whole::Unknown => return None,
        Whole::Stored(object) => (object.fields(), object.body_bytes()),
        Whole::Forwarded(fields, bytes) | Whole::Arriving(fields, bytes) => (fields.clone(), bytes),
    };
    if RequestDirectives::parse(&wanted.request).only_if_cached {
        return None;
    }
    let (first, behind) = (range.start, range.end.min(total));
    if behind <= first {
        return None;
    }
    let last = behind - 1;
    let mut fields = onward::plain_fields(&wanted.request);
    if !httpcache::ask_for_part(&stored, first, last, &mut fields) {
        return None;
    }
    let is_rest = |head: &ResponseHead| {
        head.status == 206 && httpcache::is_part(&stored, &head.fields, first, last, total)
    };
    let is_all = |head: &ResponseHead| {
        let has_length = head.framing == Framing::Length(total);
        // A 206 may omit Content-Encoding, since the client knows it; a 200 without it has no coding.
        let coding = stored.first(b"content-encoding");
        let is_same_coding = coding == head.fields.first(b"content-encoding");
        let is_same = is_same_coding && httpcache::is_of_same(&stored, &head.fields);
        head.status == 200 && has_length && is_same
    };
    let is_of_member = matches!(whole, Whole::Forwarded(..));
    let answered = ask::ask_for_rest(ex, wanted, &fields, is_of_member, is_rest).await;
    let (upstream, head) = answered?;
    let sent = if is_rest(&head) {
        first..behind
    } else if matches!(whole, Whole::Arriving(..)) && is_all(&head) {
        // The origin does not support ranges: skip the bytes that the client has.
        0..total
    } else {
        return None;
    };
    metrics::add(&worker.counters.bodies_completed, 1);
    let body = upstream.body(&head);
    Some(FromOrigin::new(worker.deadlines.watch(), body, sent, None))
}
