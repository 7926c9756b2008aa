//! Ranges of what is not stored, or not wholly.
//!
//! A part of a large object is fetched and kept without the rest. What is asked of the origin is the range that the client
//! wants, widened to the borders of fragments; each fragment that comes whole is stored under the object's head record
//! (`filling`). The object is then one with holes. It answers what lies in the fragments it has; what touches a hole is asked of the
//! origin, from the first missing fragment to the last, in one request, so that a change of versions is seen before
//! the answer begins. Fragments that were evicted are holes like any others.
//!
//! Parts are put together only by a strong validator (`httpcache::is_part`); without one nothing is stored in
//! parts. An answer that turns out to be everything (a small object, an origin that ignores Range) goes the way of every
//! other fetch.
//!
//! | held | asked of the origin | 206 | 304 | else |
//! |---|---|---|---|---|
//! | nothing | the range, widened | a new object with holes | | as fetched |
//! | fresh, holes in the way | the missing fragments, If-Range | they are put in; the head is freshened | | forgotten or replaced |
//! | stale, with holes | the range, widened, If-None-Match | a new object | it is fresh | as fetched |
//!
//! Passed through as it is instead: several ranges, other units, conditions beside it, Authorization, what admission
//! does not let in, a resource of which nothing could be kept lately (`pass_list`), and everything when there is no disk.
//!
//! Limits: a client's answer keeps one fragment in memory. Who misses what another one is fetching waits for it (`fill_lock`).
//! Not known here: what may be stored and when it is fresh (`httpcache`), how a complete response is stored (`storing`).
//! Source: RFC 9110 §14, §15.3.7; RFC 9111 §3.3, §3.4.

use crate::clock::Instant;
use std::{rc::Rc, sync::Arc};

use bytes::Bytes;
use fields::Fields;
use http1::{Framing, ResponseHead};
use httpcache::{
    ByteRange, ContentRange, RangeAsked, RangeSpec, RequestDirectives, Span, UnixMillis,
    cache_status::{CacheStatus, Forward},
};
use profile::{Class, access::Hierarchy};
use store::Sequence;

use crate::{
    cache::holding::Holding,
    cache::object::{Large, Object},
    conn::client::{After, Conn},
    fetch::flight::FirstEvent,
    fetch::pass,
    fetch::request_body::ClientBody,
    fetch::share,
    fetch::storing,
    fetch::task::{self, FetchRequest, Response},
    fetch::upstream::{self, Upstream},
    range::fill::Filling,
    range::fill_lock::{self, FillLock},
    range::join,
    range::send::{self, Flow},
    record::metrics,
    reply::answer::{self, Answering},
    request::exchange::{self, Wanted},
    state::Worker,
};

/// A large object with holes.
pub struct Held {
    /// What is stored of it.
    pub object: Object,
    /// The invalidation sequence before it was looked up.
    pub began: Sequence,
    /// May it be served as it is (fresh, or stale and allowed)?
    pub is_usable: bool,
}

/// What becomes of the request.
pub enum Outcome {
    /// It was answered.
    Answered(After),
    /// Nothing was sent: pass it through as it is.
    Pass,
    /// Nothing was sent: fetch the whole.
    Fetch,
    /// Nothing was sent: another request has fetched the same meanwhile.
    LookAgain,
}

/// What stays the same while a request is answered.
struct Asking<'a> {
    worker: &'a Rc<Worker>,
    wanted: &'a Wanted,
    fetch_request: FetchRequest,
    why: Forward,
    /// The invalidation sequence before anything was asked for.
    began: Sequence,
    asked_at: UnixMillis,
    may_wait: bool,
    /// Others wait for what is fetched.
    fill_lock: Option<FillLock>,
}

impl Asking<'_> {
    /// Waits if another request fetches what begins in this fragment. False: it has done so.
    async fn takes_fill_lock(&mut self, fragment: u64) -> bool {
        if !self.may_wait {
            return true;
        }
        // Those who want another variant do not wait for this one.
        let key = share::flight_key(self.worker, self.wanted);
        let hash = self.worker.hasher.hash(&key);
        self.fill_lock = fill_lock::take_or_wait(self.worker, hash, fragment).await;
        self.fill_lock.is_some()
    }
}

/// Answers a request for a part, or for an object with holes. `may_wait`: for another request that fetches the same.
#[allow(clippy::too_many_arguments)]
pub async fn answer(
    worker: &Rc<Worker>,
    conn: &mut Conn,
    on: &mut Answering,
    wanted: &Wanted,
    directives: &RequestDirectives,
    held: Option<Held>,
    why: Forward,
    may_wait: bool,
) -> Outcome {
    let shared = &worker.shared;
    let request: &Fields = &wanted.request;
    let mut asking = Asking {
        worker,
        wanted,
        fetch_request: FetchRequest {
            listener: Rc::clone(&conn.listener),
            asked: wanted.asked.clone(),
            request: Arc::clone(&wanted.request),
            key: wanted.key.clone(),
            met: wanted.met,
            extras: wanted.extras.clone(),
            stale: None,
            stale_began: 0,
            is_conditional: false,
            version: wanted.head.version,
        },
        why,
        began: shared.store.sequence(wanted.primary),
        asked_at: worker.now_ms(),
        may_wait: may_wait && directives.is_plain(),
        fill_lock: None,
    };
    //= rfc9111 §3.5   what is fetched for one who is authorised is not put together with what is for all
    let is_authorised = request.contains(b"authorization");
    let spec = match httpcache::range_asked(request) {
        RangeAsked::One(_) if is_authorised => return Outcome::Pass,
        RangeAsked::Nothing if is_authorised => return Outcome::Fetch,
        RangeAsked::One(spec) => Some(spec),
        RangeAsked::Nothing => None,
        RangeAsked::Several | RangeAsked::Other => return Outcome::Pass,
    };
    match held {
        Some(held) => {
            asking.began = asking.began.min(held.began);
            asking.fetch_request.stale_began = held.began;
            asking.fetch_request.stale = Some(held.object);
            match (held.is_usable, spec) {
                (true, _) => fill(&mut asking, conn, on).await,
                (false, Some(spec)) => validate(&mut asking, conn, on, spec).await,
                (false, None) => Outcome::Fetch,
            }
        }
        None => match spec {
            Some(spec) => first_part(&mut asking, conn, on, directives, spec).await,
            None => Outcome::Fetch,
        },
    }
}

/// Of this resource nothing is stored.
async fn first_part(
    asking: &mut Asking<'_>,
    conn: &mut Conn,
    on: &mut Answering,
    directives: &RequestDirectives,
    spec: RangeSpec,
) -> Outcome {
    let (worker, wanted) = (asking.worker, asking.wanted);
    let (shared, request) = (&worker.shared, &wanted.request);
    let conditional = request.contains(b"if-none-match") || request.contains(b"if-modified-since");
    if conditional {
        return Outcome::Pass;
    }
    let fragment_bytes = u64::from(shared.store.of(wanted.primary).fragment_bytes());
    if directives.may_share() {
        let near = fragment_bytes;
        let joined = join::join_for_part(worker, conn, on, wanted, near, asking.why);
        if let Some(after) = joined.await {
            return Outcome::Answered(after);
        }
    }
    let now = worker.now_ms();
    if worker.disk.is_none()
        || worker.range_pass_list.contains(wanted.primary, now)
        || !shared.admits(wanted.primary, fragment_bytes)
    {
        return Outcome::Pass;
    }
    let begins = match spec {
        RangeSpec::FromTo { first, .. } => first / fragment_bytes,
        RangeSpec::Suffix { .. } => u64::MAX,
    };
    if !asking.takes_fill_lock(begins).await {
        return Outcome::LookAgain;
    }
    asking.asked_at = worker.now_ms();
    let mut fields = plain_fields(request);
    set_range(&mut fields, spec.aligned(fragment_bytes));
    let (upstream, head) = match ask(asking, on, &fields).await {
        Ok(answered) => answered,
        Err(error) => return failed(asking, conn, on, &error).await,
    };
    match head.status {
        206 => new_part(asking, conn, on, upstream, head).await,
        //= rfc9110 §15.5.17   what begins behind the end begins there also for the client
        416 => relayed(asking, conn, on, upstream, &head).await,
        101 | 304 => Outcome::Pass,
        _ => adopted(asking, conn, on, upstream, head).await,
    }
}

/// What is stored may be served, but lacks something of what is wanted.
async fn fill(asking: &mut Asking<'_>, conn: &mut Conn, on: &mut Answering) -> Outcome {
    let (worker, wanted) = (asking.worker, asking.wanted);
    let Some(object) = asking.fetch_request.stale.clone() else {
        return Outcome::Fetch;
    };
    let (Some(disk), Some(large)) = (&worker.disk, &object.large) else {
        return Outcome::Fetch;
    };
    let stored = object.fields();
    let total = large.bytes;
    let (want, is_part) = match httpcache::byte_range(&wanted.request, &stored, total) {
        ByteRange::One { first, last } => (first..last + 1, true),
        ByteRange::Whole => (0..total, false),
        ByteRange::Several(_) | ByteRange::Unsatisfiable => return Outcome::Pass,
    };
    let store = worker.shared.store.of(wanted.primary);
    let size = u64::from(store.fragment_bytes());
    // Before it is asked what is missing: the rest stays.
    let holding = Holding::of(Some(disk), &object, std::slice::from_ref(&want));
    let mut lacking = disk.missing(object.primary, &object.key, large, want.clone());
    let is_mistaken = lacking.is_empty();
    if is_mistaken {
        // The index takes another record for one of these.
        lacking = (want.start / size) as u32..want.end.div_ceil(size) as u32;
    }
    let span = Span {
        first: u64::from(lacking.start) * size,
        last: (u64::from(lacking.end) * size).min(total) - 1,
    };
    if !is_part && span.len() > total / 2 {
        // Most of it is missing: fetched once for all who want it.
        return Outcome::Fetch;
    }
    if !asking.takes_fill_lock(u64::from(lacking.start)).await {
        return Outcome::LookAgain;
    }
    asking.asked_at = worker.now_ms();
    let mut fields = plain_fields(&wanted.request);
    //= rfc9111 §3.3   may complete an incomplete response by a range request
    if !httpcache::ask_for_part(&stored, span.first, span.last, &mut fields) {
        return Outcome::Fetch;
    }
    let (upstream, head) = match ask(asking, on, &fields).await {
        Ok(answered) => answered,
        Err(error) => return failed(asking, conn, on, &error).await,
    };
    let wanted_from_origin = is_part.then(|| want.start.max(span.first));
    if let Some(got) = part_of_ours(&head, &stored, span, total, wanted_from_origin) {
        // An origin may send less than it was asked for, and the client then gets less, and is told so.
        let end = if got == span {
            want.end
        } else {
            want.end.min(got.last + 1)
        };
        let (span, want) = (got, want.start..end);
        //= rfc9111 §3.4   must update the stored header fields with those of the new response
        let update = httpcache::as_if_whole(&head.fields);
        let (fresh, decision) = task::freshened(
            worker,
            asking.fetch_request.asker(),
            &object,
            (&update, head.version),
            asking.asked_at,
        );
        let fetch_request = &asking.fetch_request;
        let began = asking.began;
        let kept = task::publish_freshened(
            worker,
            wanted.primary,
            began,
            fetch_request,
            &object,
            &fresh,
            &decision,
        );
        let filling = match kept {
            true => Filling::begin(worker, &fresh, span.first, asking.began, is_mistaken),
            false => None,
        };
        let flow = Flow {
            fields: fresh.fields(),
            withheld: decision.cookies_of(&head.fields),
            age_s: Some(fresh.standing.age_s(worker.now_ms())),
            object: Some(fresh),
            holding,
            total: Some(total),
            span,
            want,
            why: asking.why,
            is_part,
        };
        let fill_lock = asking.fill_lock.take();
        let filling = filling.map(|filling| filling.with_fill_lock(fill_lock));
        let body = upstream.body(worker, &head);
        let sent = send::send(worker, conn, on, wanted, flow, body, filling);
        return sent.await.map_or(Outcome::Pass, Outcome::Answered);
    }
    match head.status {
        // Parts of another representation, or of what was not asked for. Nothing here can be trusted to belong together.
        206 | 416 => {
            store.forget(object.hash);
            worker.range_pass_list.note(wanted.primary, worker.now_ms());
            Outcome::Pass
        }
        101 | 304 => Outcome::Pass,
        _ => adopted(asking, conn, on, upstream, head).await,
    }
}

/// What is stored must be validated first.
async fn validate(
    asking: &mut Asking<'_>,
    conn: &mut Conn,
    on: &mut Answering,
    spec: RangeSpec,
) -> Outcome {
    let (worker, wanted) = (asking.worker, asking.wanted);
    let request = &wanted.request;
    let Some(stale) = asking.fetch_request.stale.clone() else {
        return Outcome::Fetch;
    };
    let conditional = request.contains(b"if-none-match") || request.contains(b"if-modified-since");
    if conditional || worker.disk.is_none() {
        return Outcome::Fetch;
    }
    if worker
        .range_pass_list
        .contains(wanted.primary, worker.now_ms())
    {
        return Outcome::Pass;
    }
    let stored = stale.fields();
    let size = u64::from(worker.shared.store.of(wanted.primary).fragment_bytes());
    let mut fields = plain_fields(request);
    //= rfc9110 §13.2.2   If-None-Match is evaluated first: 304 if it is still the same, else Range applies
    set_range(&mut fields, spec.aligned(size));
    metrics::add(&worker.counters.revalidations, 1);
    if !httpcache::add_validators(&stored, &mut fields) {
        return Outcome::Fetch;
    }
    let Ok((upstream, head)) = ask(asking, on, &fields).await else {
        return Outcome::Fetch; // which knows what may be served instead
    };
    match head.status {
        304 if httpcache::validates(&stored, &head.fields) => {
            let watch = worker.deadlines.watch();
            // A 304 has no body: at its end the connection goes back.
            let _ = upstream.body(worker, &head).next(worker, &watch).await;
            metrics::add(&worker.counters.revalidations_not_modified, 1);
            let asked_at = asking.asked_at;
            let (fresh, decision) = task::freshened(
                worker,
                asking.fetch_request.asker(),
                &stale,
                (&head.fields, head.version),
                asked_at,
            );
            let (primary, began) = (wanted.primary, asking.began);
            let fetch_request = &asking.fetch_request;
            let kept = task::publish_freshened(
                worker,
                primary,
                began,
                fetch_request,
                &stale,
                &fresh,
                &decision,
            );
            if !kept {
                return Outcome::Pass;
            }
            let mut status = Vec::with_capacity(64);
            CacheStatus::forwarded(&asking.worker.shared.cache_name, asking.why, &mut status)
                .forward_status(304)
                .ttl(fresh.standing.ttl_s(worker.now_ms()));
            let class = Class::Revalidated;
            let shown = fresh.with_lines(&decision.cookies_of(&head.fields));
            let answered = answer::object(worker, conn, on, wanted, &shown, class, &status);
            if let Some(after) = answered.await {
                return Outcome::Answered(after);
            }
            asking.fetch_request.stale = Some(fresh);
            asking.asked_at = worker.now_ms();
            fill(asking, conn, on).await
        }
        206 => new_part(asking, conn, on, upstream, head).await,
        200 | 404 | 410 => adopted(asking, conn, on, upstream, head).await,
        _ => Outcome::Fetch,
    }
}

/// A part of a representation that is not held, or not known to be.
async fn new_part(
    asking: &mut Asking<'_>,
    conn: &mut Conn,
    on: &mut Answering,
    upstream: Upstream,
    head: ResponseHead,
) -> Outcome {
    let (worker, wanted) = (asking.worker, asking.wanted);
    let place = httpcache::content_range(&head.fields);
    let Some(ContentRange {
        span,
        complete_length: total,
    }) = place.filter(|place| has_length(&head, place.span))
    else {
        // Several parts, or nobody knows which: it is of no use for a client that has asked for something else.
        return passed_from_now_on(asking);
    };
    let size = u64::from(worker.shared.store.of(wanted.primary).fragment_bytes());
    let whole = ResponseHead {
        status: 200,
        reason: String::new(),
        fields: httpcache::as_if_whole(&head.fields),
        ..head.clone()
    };
    let is_whole = |total| span.len() == total && total <= size;
    if total.is_some_and(|total| is_whole(total) && head.framing == Framing::Length(total)) {
        //= rfc9110 §15.3.7.3   the entire range of the representation: as if it were a complete 200
        return adopted(asking, conn, on, upstream, whole).await;
    }
    // Without a length of all, a range that counts from the end lies nowhere.
    let reckoned = total.unwrap_or(u64::MAX);
    let want = match httpcache::byte_range(&wanted.request, &whole.fields, reckoned) {
        //= rfc9110 §15.3.7   a server may send a subset of what was asked for; Content-Range says which
        ByteRange::One { first, last } if (span.first..=span.last).contains(&first) => {
            first..last.min(span.last) + 1
        }
        ByteRange::Unsatisfiable if let Some(total) = total => {
            return unsatisfied(asking, conn, on, total).await;
        }
        //= rfc9110 §13.1.5   If-Range does not hold: Range is ignored
        ByteRange::Whole if wanted.request.contains(b"if-range") => return Outcome::Fetch,
        _ => return passed_from_now_on(asking),
    };
    let moments = upstream.moments;
    let response = task::prepare(
        worker,
        &asking.fetch_request,
        &whole,
        asking.asked_at,
        moments,
    );
    let object = match keep(asking, &response, span, total).await {
        Ok(object) => object,
        Err(is_for_long) => {
            if is_for_long {
                worker.range_pass_list.note(wanted.primary, worker.now_ms());
            }
            None
        }
    };
    let filling = object
        .as_ref()
        .and_then(|object| Filling::begin(worker, object, span.first, asking.began, false));
    let age_s = response.standing.age_s(worker.now_ms());
    let flow = Flow {
        fields: match &object {
            Some(object) => object.fields(),
            None => response.fields,
        },
        withheld: response.withheld,
        age_s: (age_s > 0).then_some(age_s),
        object,
        holding: Holding::default(),
        total,
        span,
        want,
        why: asking.why,
        is_part: true,
    };
    let fill_lock = asking.fill_lock.take();
    let filling = filling.map(|filling| filling.with_fill_lock(fill_lock));
    let body = upstream.body(worker, &head);
    let sent = send::send(worker, conn, on, wanted, flow, body, filling);
    sent.await.map_or(Outcome::Pass, Outcome::Answered)
}

/// The object that the parts of this response belong to: the one that is stored, if it is the same representation, else a
/// new one. `Err`: it may not be stored in parts; true: and will not be next time.
async fn keep(
    asking: &Asking<'_>,
    response: &Response,
    span: Span,
    total: Option<u64>,
) -> Result<Option<Object>, bool> {
    let (worker, wanted) = (asking.worker, asking.wanted);
    let shared = &worker.shared;
    let (Some(disk), Some(total)) = (&worker.disk, total) else {
        return Err(true);
    };
    let store = shared.store.of(wanted.primary);
    let size = u64::from(store.fragment_bytes());
    let most = shared
        .plan
        .limits
        .object_bytes_max
        .min(store.object_bytes_max())
        .min(response.decision.object_bytes_max);
    //= rfc9111 §3.4   only if they all share the same strong validator
    if response.storable.is_err()
        || !httpcache::has_strong_validator(&response.fields)
        || total > most
    {
        return Err(true);
    }
    let is_of_use = total > size && span.len() >= size.min(total - span.first);
    let Ok(fragments) = u32::try_from(total.div_ceil(size)) else {
        return Err(true);
    };
    if !is_of_use {
        return Err(false);
    }
    let fetch_request = &asking.fetch_request;
    let Some(place) = storing::place(worker, asking.began, fetch_request, &response.fields) else {
        return Err(false);
    };
    let known = disk.load(place.primary, place.hash, &place.key).await;
    let known = known.map(|loaded| loaded.object).filter(|object| {
        let fits = |large: &Large| large.bytes == total && disk.fits(place.primary, large);
        object.status == 200
            && object.large.as_ref().is_some_and(fits)
            && httpcache::is_of_same(&object.fields(), &response.fields)
            && shared.still_valid(object, asking.began)
    });
    let large = known.and_then(|object| object.large).unwrap_or(Large {
        fetch_id: storing::next_fetch_id(),
        fragments,
        bytes: total,
    });
    // The new fields are complete, so they stand for the stored ones (RFC 9111 §3.4).
    let mut head = Vec::with_capacity(response.head.len() + 32);
    head.extend_from_slice(&response.head);
    head.extend_from_slice(b"Content-Length: ");
    message::write_decimal(total, &mut head);
    head.extend_from_slice(b"\r\n");
    let object = Object {
        key: place.key,
        hash: place.hash,
        primary: place.primary,
        status: 200,
        standing: response.standing,
        content_type: response.content_type,
        head: head.into(),
        body: Bytes::new(),
        large: Some(large),
    };
    let stored = disk.store_object(&object, &[], asking.began) && !shared.take_back_hidden(&object);
    shared.memory.remove(object.hash);
    Ok(Some(object).filter(|_| stored))
}

/// Asks the origin, and notes how long it took.
async fn ask(
    asking: &Asking<'_>,
    on: &mut Answering,
    fields: &Fields,
) -> Result<(Upstream, ResponseHead), upstream::UpstreamError> {
    let worker = asking.worker;
    let FetchRequest {
        asked, listener, ..
    } = &asking.fetch_request;
    let request = task::write_request(worker, "GET", asking.fetch_request.version, asked, fields);
    let watch = worker.deadlines.watch();
    on.hierarchy = Hierarchy::Direct;
    on.peer = asked.destination.host.as_bytes().to_vec();
    let (to, rules) = (&asked.destination, &listener.destinations);
    // A hint that comes before a part is not passed on.
    let answered = upstream::ask_final(worker, &watch, to, rules, "GET", &request).await;
    match &answered {
        Ok((upstream, _)) => exchange::note_moments(on, &upstream.moments),
        Err(error) => worker.counters.origin_failed(error.token()),
    }
    answered
}

/// Hands an answer that is no part to the way of every other fetch.
async fn adopted(
    asking: &mut Asking<'_>,
    conn: &mut Conn,
    on: &mut Answering,
    upstream: Upstream,
    head: ResponseHead,
) -> Outcome {
    let (worker, wanted) = (asking.worker, asking.wanted);
    // Nobody else joins it: it began before whatever may have been purged by now.
    let flights = &worker.shared.flights;
    let reader = flights.start_alone(wanted.primary, asking.began);
    let fetch_request = FetchRequest {
        listener: Rc::clone(&asking.fetch_request.listener),
        asked: asking.fetch_request.asked.clone(),
        request: Arc::clone(&asking.fetch_request.request),
        key: asking.fetch_request.key.clone(),
        met: asking.fetch_request.met,
        extras: asking.fetch_request.extras.clone(),
        stale: asking.fetch_request.stale.clone(),
        stale_began: asking.fetch_request.stale_began,
        is_conditional: false,
        version: asking.fetch_request.version,
    };
    let flight = Arc::clone(&reader.flight);
    task::adopt(
        worker,
        flight,
        fetch_request,
        upstream,
        head,
        asking.asked_at,
    );
    let FirstEvent::Response(response) = reader.first_event().await else {
        return Outcome::Pass;
    };
    let class = match response.storable {
        Ok(()) => Class::Miss,
        Err(_) => Class::Uncachable,
    };
    let mut status = Vec::with_capacity(64);
    let mut line =
        CacheStatus::forwarded(&asking.worker.shared.cache_name, asking.why, &mut status);
    line = response.say_stored(line);
    if !response.stored {
        asking.fill_lock = None; // there is nothing to wait for
    }
    if response.storable.is_err() {
        worker.range_pass_list.note(wanted.primary, worker.now_ms());
    }
    response.say_why_not(line);
    let answered = exchange::deliver(worker, conn, on, wanted, &reader, &response, class, &status);
    Outcome::Answered(answered.await)
}

/// Passes an answer on as it is.
async fn relayed(
    asking: &Asking<'_>,
    conn: &mut Conn,
    on: &mut Answering,
    upstream: Upstream,
    head: &ResponseHead,
) -> Outcome {
    let worker = asking.worker;
    let body = ClientBody::new(worker, &asking.wanted.head);
    let mut status = Vec::with_capacity(64);
    CacheStatus::forwarded(&asking.worker.shared.cache_name, asking.why, &mut status)
        .detail("pass");
    Outcome::Answered(pass::relay(worker, conn, on, upstream, head, body, &status).await)
}

/// The origin sends other parts than it is asked for: the client's own range goes to it as it is, now and the next times.
fn passed_from_now_on(asking: &Asking<'_>) -> Outcome {
    let worker = asking.worker;
    worker
        .range_pass_list
        .note(asking.wanted.primary, worker.now_ms());
    Outcome::Pass
}

/// The bytes in this answer to a request for `span` of what is stored, which is so long: that, or less of it from its beginning on, as
/// long as that reaches the byte `less_from`. `None`: it is something else, or less where that is of no use.
fn part_of_ours(
    head: &ResponseHead,
    stored: &Fields,
    span: Span,
    total: u64,
    less_from: Option<u64>,
) -> Option<Span> {
    let place = httpcache::content_range(&head.fields).filter(|_| head.status == 206)?;
    let got = place.span;
    let is_enough = got == span
        || got.first == span.first
            && got.last < span.last
            && less_from.is_some_and(|from| from <= got.last);
    let is_ours = is_enough
        && place.complete_length == Some(total)
        && has_length(head, got)
        && httpcache::is_of_same(stored, &head.fields);
    is_ours.then_some(got)
}

async fn unsatisfied(
    asking: &Asking<'_>,
    conn: &mut Conn,
    on: &mut Answering,
    total: u64,
) -> Outcome {
    let mut status = Vec::with_capacity(64);
    CacheStatus::forwarded(&asking.worker.shared.cache_name, asking.why, &mut status)
        .forward_status(206);
    let mut head = Vec::with_capacity(128);
    answer::write_unsatisfied_head(total, &mut head);
    answer::write_age_and_status(None, &status, &mut head);
    on.end_head(&mut head);
    let said: answer::Said<'_> = (416, Class::Uncachable, b"", &status);
    let (worker, now) = (asking.worker, Instant::now());
    Outcome::Answered(answer::whole(worker, conn, on, said, head, Bytes::new(), now).await)
}

async fn failed(
    asking: &Asking<'_>,
    conn: &mut Conn,
    on: &mut Answering,
    error: &upstream::UpstreamError,
) -> Outcome {
    let mut status = Vec::with_capacity(64);
    CacheStatus::forwarded(&asking.worker.shared.cache_name, asking.why, &mut status)
        .detail(error.token());
    let (code, reason) = (error.status(), error.to_string());
    let own = answer::own(asking.worker, conn, on, code, &reason, &[], &status);
    Outcome::Answered(own.await)
}

/// The client's fields as they go to the origin, without conditions and range.
fn plain_fields(request: &Fields) -> Fields {
    let mut fields = request.clone();
    message::remove_hop_by_hop(&mut fields);
    httpcache::remove_conditions(&mut fields);
    fields.remove(b"range");
    fields.remove(b"proxy-authorization");
    fields
}

fn set_range(fields: &mut Fields, spec: RangeSpec) {
    let mut value = Vec::new();
    spec.write(&mut value);
    fields.set(b"Range", &value);
}

/// Can the body be as long as it is said to be?
fn has_length(head: &ResponseHead, span: Span) -> bool {
    match head.framing {
        Framing::Length(bytes) => bytes == span.len(),
        Framing::Chunked => true,
        // Nobody could tell whether it is complete.
        Framing::UntilClose | Framing::None => false,
    }
}
