//! Ranges of objects that are not stored, or have holes.
//!
//! A part of a large object is fetched and stored without the rest. The origin is asked for the client's range, widened to the
//! borders of fragments; each complete fragment is stored under the object's head record (`fill`). The object then has holes.
//! Ranges within its fragments are hits. If a range touches a hole, the origin is asked for everything from the first to the
//! last missing fragment in one request, so that a change of versions is seen before the answer begins. Evicted fragments are
//! holes too.
//!
//! Parts are combined only with a strong validator (`httpcache::is_part`); without one nothing is stored in parts. A complete
//! response (a small object, an origin that ignores Range) is handled like any other fetch.
//!
//! | stored | asked of the origin | 206 | 304 | else |
//! |---|---|---|---|---|
//! | nothing | the range, widened | a new object with holes | | as fetched |
//! | fresh, with holes in the range | the missing fragments, If-Range | they fill the holes; the head is freshened | | forgotten or replaced |
//! | stale, with holes | the range, widened, If-None-Match | a new object | it is fresh | as fetched |
//!
//! Passed through unchanged: several ranges, other units, ranges with other conditions, with Authorization, refused by
//! admission, on the range pass list (`pass_list`), and all ranges if there is no disk.
//!
//! Limits: an answer keeps one fragment in memory. A request for a part that another request fetches waits for that fetch (`fill_lock`).
//! A request for a part of a stale object waits for the validation that is under way (`validation`).
//! Not known here: what may be stored and when it is fresh (`httpcache`), storing a complete response (`storing`).
//! Source: RFC 9110 §14, §15.3.7; RFC 9111 §3.3, §3.4.

mod ending;
mod keeping;
mod sending;

use std::ops::Range;

use fields::Fields;
use httpcache::{
    ByteRange, ContentRange, RangeAsked, RangeSpec, RequestDirectives, Span as Part, UnixMillis,
    cache_status::Forward,
};
use message::{Framing, ResponseHead};
use profile::Class;
use store::Sequence;

use self::sending::Flow;
use crate::{
    deliver::{arriving, stored},
    fetch::{
        ask,
        flight::{FirstEvent, FlightReader},
        prepare::{self, Confirmed},
        response::FetchRequest,
        share,
    },
    range::{
        fill::Filling,
        fill_lock::{self, FillLock},
        validation::{Validates, Validation},
    },
    reply::After,
    request::{
        exchange::{Exchange, forwarded},
        onward, paying,
        wanted::Wanted,
    },
};
use base::mistakes::{Mistake, makes};
use cache::{holding::Holding, holes, object::Object};
use origin::{outcome::UpstreamError, upstream::Upstream};
use record::metrics;
use std::rc::Rc;

/// A large object with holes.
pub struct Held {
    /// The object as it is stored.
    pub object: Object,
    /// The invalidation sequence before the look-up.
    pub began: Sequence,
    /// May it be served (fresh, or stale and allowed)?
    pub is_usable: bool,
}

/// How the request goes on.
pub enum Outcome {
    /// It was answered.
    Answered(After),
    /// Nothing was sent: pass the request through.
    Pass,
    /// Nothing was sent: fetch the whole object.
    Fetch,
    /// Nothing was sent: another request has fetched the part meanwhile.
    LookAgain,
    /// Nothing was sent: another request has validated the object. Look it up again for the result.
    Validated,
}

/// The work of another request that this request may still wait for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum MayWait {
    /// A validation, then a part.
    ForAll,
    /// A part. The request has waited for a validation already.
    ForPart,
    /// Nothing.
    No,
}

/// A request for a part, on its way to an answer.
struct Parts<'a, 'c> {
    ex: &'a mut Exchange<'c>,
    wanted: &'a Wanted,
    /// The request to the origin; its `stale` is the object with holes.
    fetch_request: FetchRequest,
    why: Forward,
    /// The invalidation sequence before the origin was asked.
    began: Sequence,
    asked_at: UnixMillis,
    may_wait: MayWait,
    /// Other requests wait for this fetch.
    fill_lock: Option<FillLock>,
    /// Other requests wait for this validation.
    validation: Option<Validation>,
    fragment_bytes: u64,
}

/// Answers a request for a part, or for an object with holes. `may_wait`: the work of another request that it may wait for.
pub async fn answer(
    ex: &mut Exchange<'_>,
    wanted: &Wanted,
    directives: &RequestDirectives,
    held: Option<Held>,
    why: Forward,
    may_wait: MayWait,
) -> Outcome {
    let request: &Fields = &wanted.request;
    //= rfc9111 §3.5   a response to a request with Authorization is not combined with parts for all
    let is_authorised = request.contains(b"authorization");
    let spec = match httpcache::range_asked(request) {
        RangeAsked::One(_) if is_authorised => return Outcome::Pass,
        RangeAsked::Nothing if is_authorised => return Outcome::Fetch,
        RangeAsked::One(spec) => Some(spec),
        RangeAsked::Nothing => None,
        RangeAsked::Several | RangeAsked::Other => return Outcome::Pass,
    };
    let worker = ex.worker;
    let store = worker.shared.cache.store.of(wanted.primary);
    let mut parts = Parts {
        wanted,
        fetch_request: share::fetch_request(
            &ex.worker.storage,
            &ex.listener,
            wanted,
            None,
            false,
            ex.record.trip(),
        ),
        why,
        began: store.sequence(),
        asked_at: worker.now_ms(),
        may_wait: match directives.is_plain() {
            true => may_wait,
            false => MayWait::No,
        },
        fill_lock: None,
        validation: None,
        fragment_bytes: u64::from(store.fragment_bytes()),
        ex,
    };
    let Some(held) = held else {
        return match spec {
            Some(spec) => parts.first_part(directives, spec).await,
            None => Outcome::Fetch,
        };
    };
    parts.began = parts.began.min(held.began);
    parts.fetch_request.stale_began = held.began;
    parts.fetch_request.stale = Some(held.object.clone());
    match (held.is_usable, spec) {
        (true, _) => parts.fill(held.object).await,
        // The validation that this request has waited for failed: fetch the whole object, once for all waiting requests.
        (false, Some(_)) if parts.may_wait == MayWait::ForPart => Outcome::Fetch,
        (false, Some(spec)) => parts.validate(directives, held.object, spec).await,
        (false, None) => Outcome::Fetch,
    }
}

impl Parts<'_, '_> {
    /// Nothing of this resource is stored.
    async fn first_part(&mut self, directives: &RequestDirectives, spec: RangeSpec) -> Outcome {
        let (worker, wanted) = (self.ex.worker, self.wanted);
        let (size, primary) = (self.fragment_bytes, wanted.primary);
        if share::is_conditional(&wanted.request) {
            return Outcome::Pass;
        }
        if directives.may_share()
            && let Some(after) = self.joined(directives).await
        {
            return Outcome::Answered(after);
        }
        if worker.storage.disk.is_none()
            || worker.range_pass_list.contains(primary, worker.now_ms())
            || !worker.shared.cache.admits(primary, size)
        {
            return Outcome::Pass;
        }
        if !self.takes_fill_lock(begin_of(spec, size)).await {
            return Outcome::LookAgain;
        }
        let mut fields = onward::plain_fields(&wanted.request);
        onward::set_range(&mut fields, spec.aligned(size));
        if let Some(answered) = self.pay().await {
            return answered;
        }
        let (upstream, head) = match self.ask(&fields).await {
            Ok(answered) => answered,
            Err(error) => return self.failed(&error).await,
        };
        match head.status {
            206 => self.new_part(upstream, head).await,
            //= rfc9110 §15.5.17   a range after the end stays one for the client
            416 => self.relayed(upstream, &head).await,
            101 | 304 => Outcome::Pass,
            _ => self.adopted(upstream, head).await,
        }
    }

    /// Joins a fetch in progress if the part arrives soon: a client that wants the end of a film does not wait for its
    /// beginning. `None`: there is no such fetch, or its answer does not fit.
    async fn joined(&mut self, directives: &RequestDirectives) -> Option<After> {
        let (worker, wanted) = (self.ex.worker, self.wanted);
        let flights = &worker.shared.flights;
        let reader = flights.join(
            wanted.primary,
            &share::flight_key(&worker.shared.cache, wanted),
        )?;
        self.ex.record.waits();
        let first_event = reader.first_event().await;
        self.ex.record.hears_head();
        let shared = self.shared(directives, &reader, &first_event).await;
        match shared {
            Some(_) => metrics::add(&worker.counters.flights_joined, 1),
            None => self.ex.record.waits_no_more(None),
        }
        shared
    }

    /// Answers from the fetch that was joined, if its answer fits.
    async fn shared(
        &mut self,
        directives: &RequestDirectives,
        reader: &FlightReader,
        first_event: &FirstEvent,
    ) -> Option<After> {
        let (worker, wanted) = (self.ex.worker, self.wanted);
        let FirstEvent::Response(response) = first_event else {
            return None;
        };
        let length = response.length.filter(|_| response.status == 200)?;
        let begins = match httpcache::byte_range(&wanted.request, &response.fields, length) {
            ByteRange::One { first, .. } => first,
            ByteRange::Whole => 0,
            ByteRange::Several(_) | ByteRange::Unsatisfiable => return None,
        };
        let near = self.fragment_bytes;
        let is_soon = begins <= reader.flight.arrived_bytes().saturating_add(near);
        if !is_soon || !share::may_have(&worker.storage, wanted, directives, first_event) {
            return None;
        }
        let status = forwarded(self.ex.edition(), self.why, |line| {
            response.say_stored(line.collapsed(true))
        });
        let class = Class::Collapsed;
        arriving::response(self.ex, wanted, reader, response, class, status).await
    }

    /// The stored object may be served, but some of the wanted bytes are holes.
    async fn fill(&mut self, object: Object) -> Outcome {
        let (worker, wanted) = (self.ex.worker, self.wanted);
        let (Some(_), Some(large)) = (&worker.storage.disk, &object.large) else {
            return Outcome::Fetch;
        };
        let (stored, total, size) = (object.fields(), large.bytes, self.fragment_bytes);
        let (want, is_part) = match httpcache::byte_range(&wanted.request, &stored, total) {
            ByteRange::One { first, last } => (first..last + 1, true),
            ByteRange::Whole => (0..total, false),
            ByteRange::Several(_) | ByteRange::Unsatisfiable => return Outcome::Pass,
        };
        // Hold the existing fragments before looking for holes, so that none is evicted in between.
        let disk = worker.storage.disk.as_ref();
        let holding = Holding::of(disk, &object, std::slice::from_ref(&want)).await;
        let mut lacking = holes::missing(
            worker.storage.disk.as_ref(),
            &worker.shared.cache.fragments,
            &object,
            want.clone(),
        )
        .await;
        let is_mistaken = lacking.is_empty();
        if is_mistaken {
            // The index takes another key's record for one of the fragments.
            lacking = (want.start / size) as u32..want.end.div_ceil(size) as u32;
        }
        let span = Part {
            first: u64::from(lacking.start) * size,
            last: (u64::from(lacking.end) * size).min(total) - 1,
        };
        if !is_part && span.len() > total / 2 {
            // Most of the object is missing: fetch the whole, shared by all its readers.
            return Outcome::Fetch;
        }
        if !self.takes_fill_lock(u64::from(lacking.start)).await {
            return Outcome::LookAgain;
        }
        let mut fields = onward::plain_fields(&wanted.request);
        //= rfc9111 §3.3   may complete an incomplete response by a range request
        if !httpcache::ask_for_part(&stored, span.first, span.last, &mut fields) {
            return Outcome::Fetch;
        }
        if let Some(answered) = self.pay().await {
            return answered;
        }
        let (upstream, head) = match self.ask(&fields).await {
            Ok(answered) => answered,
            Err(error) => return self.failed(&error).await,
        };
        let wanted_from_origin = is_part.then(|| want.start.max(span.first));
        if let Some(got) = part_of_ours(&head, &stored, span, total, wanted_from_origin) {
            // If the origin sends less than it was asked for, the client gets less, and its Content-Range says so.
            let end = match got == span {
                true => want.end,
                false => want.end.min(got.last + 1),
            };
            let holes = Holes {
                span: got,
                want: want.start..end,
                is_part,
                is_mistaken,
                holding,
            };
            return self.filled(&object, holes, upstream, &head).await;
        }
        match head.status {
            206 | 416 if prepare::speaks_for_one(&self.fetch_request) => Outcome::Pass,
            // Parts of another representation, or other bytes than were asked for: none of them may be combined with ours.
            206 | 416 => {
                worker.shared.cache.forget_stored(&object);
                self.passed_from_now_on()
            }
            101 | 304 => Outcome::Pass,
            _ => self.adopted(upstream, head).await,
        }
    }

    /// The origin sends the bytes that `object` lacks.
    async fn filled(
        &mut self,
        object: &Object,
        holes: Holes,
        upstream: Upstream,
        head: &ResponseHead,
    ) -> Outcome {
        let (worker, began) = (self.ex.worker, self.began);
        //= rfc9111 §3.4   must update the stored header fields with those of the new response
        let update = httpcache::as_if_whole(&head.fields);
        let confirmed = self.confirmed(object, &update, head);
        let cookies = confirmed.decision.cookies_of(&head.fields);
        let fresh = confirmed.object;
        let filling = match confirmed.is_kept {
            true => Filling::begin(
                &worker.storage,
                &fresh,
                holes.span.first,
                began,
                holes.is_mistaken,
            ),
            false => None,
        };
        let flow = Flow {
            fields: fresh.fields(),
            withheld: cookies,
            age_s: Some(fresh.standing.age_s(worker.now_ms())),
            total: fresh.large.map(|large| large.bytes),
            object: Some(fresh),
            holding: holes.holding,
            span: holes.span,
            want: holes.want,
            is_part: holes.is_part,
        };
        self.send(flow, upstream, head, filling).await
    }

    /// The stored object must be validated first.
    async fn validate(
        &mut self,
        directives: &RequestDirectives,
        stale: Object,
        spec: RangeSpec,
    ) -> Outcome {
        let (worker, wanted) = (self.ex.worker, self.wanted);
        if share::is_conditional(&wanted.request) || worker.storage.disk.is_none() {
            return Outcome::Fetch;
        }
        let now = worker.now_ms();
        if worker.range_pass_list.contains(wanted.primary, now) {
            return Outcome::Pass;
        }
        if self.may_wait == MayWait::ForAll {
            match Validation::join_or_begin(worker, wanted) {
                Validates::First(validation) => self.validation = Some(validation),
                Validates::Another(reader) => {
                    return self.validated_by_another(directives, &reader).await;
                }
                Validates::Alone => {}
            }
            // If the object has changed, the requests that wait for this validation wait for the part, too.
            if !self
                .takes_fill_lock(begin_of(spec, self.fragment_bytes))
                .await
            {
                return Outcome::LookAgain;
            }
        }
        if let Some(answered) = self.pay().await {
            return answered;
        }
        let stored = stale.fields();
        let mut fields = onward::plain_fields(&wanted.request);
        //= rfc9110 §13.2.2   If-None-Match is evaluated first: 304 if it is still the same, else Range applies
        onward::set_range(&mut fields, spec.aligned(self.fragment_bytes));
        metrics::add(&worker.counters.revalidations, 1);
        self.fetch_request.trip.validates();
        if !httpcache::add_validators(&stored, &mut fields) {
            return Outcome::Fetch;
        }
        let Ok((upstream, head)) = self.ask(&fields).await else {
            return Outcome::Fetch; // it also decides whether the stale object may be served
        };
        match head.status {
            304 if httpcache::validates(&stored, &head.fields) => {
                self.validated(&stale, upstream, &head).await
            }
            206 => self.new_part(upstream, head).await,
            200 | 404 | 410 => self.adopted(upstream, head).await,
            _ => Outcome::Fetch,
        }
    }

    /// The origin answers 304: the stored object is still valid.
    async fn validated(
        &mut self,
        stale: &Object,
        upstream: Upstream,
        head: &ResponseHead,
    ) -> Outcome {
        let worker = self.ex.worker;
        let watch = worker.deadlines.watch();
        // A 304 has no body; reading its end returns the connection to the pool.
        let _ = upstream.body(head).next(&worker.origin, &watch).await;
        metrics::add(&worker.counters.revalidations_not_modified, 1);
        let confirmed = self.confirmed(stale, &head.fields, head);
        if let Some(validation) = self.validation.take() {
            validation.confirm(&self.fetch_request, &confirmed);
        }
        if !confirmed.is_kept {
            return Outcome::Pass;
        }
        let cookies = confirmed.decision.cookies_of(&head.fields);
        self.serve_fresh(confirmed.object, &cookies, false).await
    }

    /// Another request validates the stored object.
    async fn validated_by_another(
        &mut self,
        directives: &RequestDirectives,
        reader: &FlightReader,
    ) -> Outcome {
        let (worker, wanted) = (self.ex.worker, self.wanted);
        self.ex.record.waits();
        let first_event = reader.first_event().await;
        self.ex.record.hears_head();
        match &first_event {
            FirstEvent::Response(_) => {
                if let Some(after) = self.shared(directives, reader, &first_event).await {
                    return Outcome::Answered(after);
                }
                self.ex.record.waits_no_more(None);
            }
            FirstEvent::Validated(validated)
                if share::may_have(&worker.storage, wanted, directives, &first_event) =>
            {
                self.ex.record.waits_no_more(None);
                self.began = self.began.min(reader.flight.began);
                let fresh = validated.object.clone();
                return self.serve_fresh(fresh, b"", true).await;
            }
            FirstEvent::Validated(_) | FirstEvent::Failed(_) => {
                self.ex.record.waits_no_more(None);
            }
        }
        Outcome::Validated
    }

    /// Answers from an object that the origin has just confirmed. `cookies`: lines for this client alone.
    async fn serve_fresh(&mut self, fresh: Object, cookies: &[u8], is_collapsed: bool) -> Outcome {
        let worker = self.ex.worker;
        // Release the waiting requests: the stored bytes are sent at the client's pace.
        self.fill_lock = None;
        let ttl = fresh.standing.ttl_s(worker.now_ms());
        let status = forwarded(self.ex.edition(), self.why, |line| {
            let line = line.forward_status(304).ttl(ttl);
            match is_collapsed {
                true => line.collapsed(true),
                false => line,
            }
        });
        let (shown, class) = (fresh.with_lines(cookies), Class::Revalidated);
        let answered = stored::object(self.ex, self.wanted, &shown, class, status);
        if let Some(after) = answered.await {
            return Outcome::Answered(after);
        }
        self.fetch_request.stale = Some(fresh.clone());
        self.fill(fresh).await
    }

    /// The stored object with the fields of the origin's newest response.
    fn confirmed(&self, stale: &Object, update: &Fields, head: &ResponseHead) -> Confirmed {
        let (worker, fetch_request) = (self.ex.worker, &self.fetch_request);
        let update = (update, head.version);
        let (asked_at, began) = (self.asked_at, self.began);
        prepare::confirmed(
            &worker.storage,
            fetch_request,
            stale,
            update,
            asked_at,
            began,
        )
    }

    /// A part of a new representation, or of one that may differ from the stored one.
    async fn new_part(&mut self, upstream: Upstream, head: ResponseHead) -> Outcome {
        let (worker, wanted) = (self.ex.worker, self.wanted);
        let place = httpcache::content_range(&head.fields);
        let Some(ContentRange {
            span,
            complete_length: total,
        }) = place.filter(|place| has_length(&head, place.span))
        else {
            // Several parts, or an unknown range: of no use to a client that asked for something else.
            return self.passed_from_now_on();
        };
        let whole = ResponseHead {
            status: 200,
            reason: String::new(),
            fields: httpcache::as_if_whole(&head.fields),
            ..head.clone()
        };
        let is_whole = |total| span.len() == total && total <= self.fragment_bytes;
        if total.is_some_and(|total| is_whole(total) && head.framing == Framing::Length(total)) {
            //= rfc9110 §15.3.7.3   the entire range of the representation: as if it were a complete 200
            return self.adopted(upstream, whole).await;
        }
        // Without a complete length, a range that counts from the end has no place.
        let reckoned = total.unwrap_or(u64::MAX);
        let want = match httpcache::byte_range(&wanted.request, &whole.fields, reckoned) {
            //= rfc9110 §15.3.7   a server may send a subset of what was asked for; Content-Range says which
            ByteRange::One { first, last } if (span.first..=span.last).contains(&first) => {
                first..last.min(span.last) + 1
            }
            ByteRange::Unsatisfiable if let Some(total) = total => {
                return self.unsatisfied(total).await;
            }
            //= rfc9110 §13.1.5   If-Range does not hold: Range is ignored
            ByteRange::Whole if wanted.request.contains(b"if-range") => return Outcome::Fetch,
            _ => return self.passed_from_now_on(),
        };
        let (received, asked_at) = (worker.unix_ms(upstream.received), self.asked_at);
        let response = prepare::response(&self.fetch_request, &whole, asked_at, received);
        let object = match self.keep(&response, span, total).await {
            Ok(object) => object,
            Err(is_for_long) => {
                if is_for_long {
                    worker.range_pass_list.note(wanted.primary, worker.now_ms());
                }
                None
            }
        };
        // The requests that wait for the validation find the new object, and wait for the part.
        self.validation = None;
        let filling = object.as_ref().and_then(|object| {
            Filling::begin(&worker.storage, object, span.first, self.began, false)
        });
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
            is_part: true,
        };
        self.send(flow, upstream, &head, filling).await
    }

    /// Waits if another request fetches the part that begins with this fragment. False: that request has fetched it.
    async fn takes_fill_lock(&mut self, fragment: u64) -> bool {
        let worker = self.ex.worker;
        let may_wait = self.may_wait != MayWait::No;
        // If this request waited and looked again, all requests that wait for its validation would ask the origin themselves.
        let is_waited_for = self.validation.is_some();
        // Give up an earlier lock first, or the request would wait for itself.
        self.fill_lock = None;
        if may_wait {
            // Requests for another variant do not wait for this one.
            let key = share::flight_key(&worker.shared.cache, self.wanted);
            let hash = worker.hasher.hash(&key);
            let (locks, watch) = (&worker.shared.flights.fill_locks, worker.deadlines.watch());
            self.fill_lock = match is_waited_for {
                true => fill_lock::take_if_free(locks, hash, fragment),
                false => fill_lock::take_or_wait(locks, &watch, hash, fragment).await,
            };
        }
        self.asked_at = worker.now_ms();
        !may_wait || is_waited_for || self.fill_lock.is_some()
    }

    /// Counts the request to the origin. `Some`: it may not be sent, and the client was told so.
    async fn pay(&mut self) -> Option<Outcome> {
        match paying::miss(self.ex).await {
            Ok(toll) => {
                self.fetch_request.toll = toll.map(Rc::new);
                None
            }
            Err(stopped) => {
                let refused = Box::pin(paying::refuse(self.ex, stopped)).await;
                Some(Outcome::Answered(refused))
            }
        }
    }

    /// Asks the origin, and notes how long it took.
    async fn ask(&mut self, fields: &Fields) -> Result<(Upstream, ResponseHead), UpstreamError> {
        self.ex.record.asks(&self.wanted.asked.destination.host);
        let trip = &self.fetch_request.trip;
        ask::ask_with(self.ex, self.wanted, fields, trip).await
    }
}

/// The holes of an object in the wanted range.
struct Holes {
    /// The bytes from the origin.
    span: Part,
    /// The bytes for the client.
    want: Range<u64>,
    /// Is the answer a 206?
    is_part: bool,
    /// The index takes other keys' records for some of the fragments, so they are stored again.
    is_mistaken: bool,
    /// Keeps the existing fragments until they are sent.
    holding: Holding,
}

/// The bytes in this answer to a request for `span` of a stored object of `total` bytes: `span`, or a shorter beginning of it
/// that contains the byte `less_from`. `None`: other bytes, or too few.
fn part_of_ours(
    head: &ResponseHead,
    stored: &Fields,
    span: Part,
    total: u64,
    less_from: Option<u64>,
) -> Option<Part> {
    let place = httpcache::content_range(&head.fields).filter(|_| head.status == 206)?;
    let got = place.span;
    let is_enough = got == span
        || got.first == span.first
            && got.last < span.last
            && less_from.is_some_and(|from| from <= got.last);
    let is_ours = is_enough
        && place.complete_length == Some(total)
        && has_length(head, got)
        && (httpcache::is_of_same(stored, &head.fields) || makes(Mistake::MixVersions));
    is_ours.then_some(got)
}

/// The number of the fragment at which a range begins, for the fill lock.
fn begin_of(spec: RangeSpec, fragment_bytes: u64) -> u64 {
    match spec {
        RangeSpec::FromTo { first, .. } => first / fragment_bytes,
        RangeSpec::Suffix { .. } => u64::MAX,
    }
}

/// Can the body have the length of this range?
fn has_length(head: &ResponseHead, span: Part) -> bool {
    match head.framing {
        Framing::Length(bytes) => bytes == span.len(),
        Framing::Chunked => true,
        // A reader could not tell whether it is complete.
        Framing::UntilClose | Framing::None => false,
    }
}
