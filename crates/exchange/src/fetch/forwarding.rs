//! Forwards a request to the cluster member that has the requested object.
//!
//! Only a front forwards, and only a request that neither its memory nor its store answers: GET and HEAD, also with ranges and
//! conditions, since a member answers those as well as the front could. `routing` selects the members. The answer goes to the client
//! as it comes, with our member of Cache-Status behind the other's, and is not stored here.
//!
//! Not forwarded are
//!   - requests from a member, so that no request goes in circles;
//!   - requests for an object that is stored here and stale: it is validated here;
//!   - by hints or home, requests with `no-store` or Authorization, because caches seldom have their answers;
//!   - HTTP/1.0 requests without a host: requests between members have one (RFC 9112 §3.2);
//!   - requests for an object that is being fetched here already: they join that fetch.
//!
//! If a member refuses, breaks off, or stays silent ([`members`]), the next one is asked, then the origin. As long as nothing went to the
//! client, it does not see a member's failure. A member that must ask its own origin says `102` first, so that a slow origin is not
//! taken for a hung member: if nothing follows in time, the client gets an error and the origin is not asked again. A short body is read to
//! its end before anything is sent. The rest of a longer one comes from another member or the origin, if a strong validator permits it.
//!
//! Simultaneous requests share a long answer ([`crate::fetch::flight`]). They also share a hot one ([`Copied`]), and a copy of that is
//! kept here. An object too long for this front to push is requested from its home, although no member holds it.
//!
//! Not known here: the objects of members, the protocol between members.
//! Source: paper 003 section 2; RFC 9211.

use std::{ops::Range, sync::Arc};

use bytes::{Bytes, BytesMut};
use fields::Fields;
use httpcache::{ContentRange, RequestDirectives, UnixMillis, cache_status::Forward};
use message::{Framing, ResponseHead, Seen};
use profile::Class;
use store::Sequence;

use crate::{
    deliver::{
        arriving,
        spans::{self, FromOrigin, Source, Span, Whole},
    },
    fetch::{
        flight::{FirstEvent, FlightReader, Flights, Join},
        members, pass, prepare,
        response::FetchRequest,
        share, task,
        upload::Upload,
    },
    reply::{After, Length, ReplyHead},
    request::{
        exchange::{Exchange, Said, forwarded},
        onward,
        wanted::Wanted,
    },
};
use base::clock::Instant;
use cache::{Cache, holding::Holding};
use cluster::push::Copied;
use origin::{outcome::UpstreamError, upstream::Upstream};
use rules::key::name_of_key;

/// Bodies up to this length are read to the end before anything is sent to the client.
const WHOLE_BYTES_MAX: u64 = 64 << 10;
/// Bodies longer than this are shared by simultaneous requests.
const ALONE_BYTES_MAX: u64 = 1 << 20;

/// The circumstances of an answer that others may share.
#[derive(Clone, Copy)]
struct Asking<'a> {
    directives: &'a RequestDirectives,
    asked_at: UnixMillis,
    /// The invalidation sequence before the member was asked.
    began: Sequence,
    /// No purge of the resource is on its way to members, so others may have the answer too.
    may_be_shared: bool,
}

/// Answers a request with a member's response. `None`: nothing was sent; this proxy must fetch.
pub async fn answer(
    ex: &mut Exchange<'_>,
    wanted: &Wanted,
    directives: &RequestDirectives,
    why: Forward,
) -> Option<After> {
    let cluster = members::front(ex)?;
    let route = members::route(ex.worker.pushing.as_deref(), cluster, wanted, directives)?;
    if is_plain(wanted) && is_under_way(flights(ex), wanted) {
        return None;
    }
    let fields = onward::end_to_end(&wanted.request);
    let request = members::request_bytes(ex, wanted, cluster, &fields, route.reason)?;
    for id in route.members.into_iter().flatten() {
        let asking = Asking {
            directives,
            asked_at: ex.worker.now_ms(),
            began: ex.worker.shared.cache.store.sequence(wanted.primary),
            may_be_shared: (cluster.purging).may_copy(wanted.primary, cluster.now_ms()),
        };
        let member = cluster.member(id)?;
        let _in_progress = member.begin();
        let method = wanted.head.method.as_str();
        let (upstream, head) =
            match members::ask_one(ex, wanted, (id, member), method, &request).await {
                Ok(answered) => answered,
                Err(members::Unanswered::ByMember) => continue,
                Err(members::Unanswered::ByOrigin) => {
                    let error = UpstreamError::Timeout;
                    let reason = error.to_string();
                    let failed = ex.failed(why, error.status(), error.token(), &reason);
                    return Some(failed.await);
                }
            };
        let status = forwarded(ex.edition(), why, |line| line.detail(route.reason.as_str()));
        if let Some(after) = pass_on(ex, wanted, (upstream, head), &asking, status).await {
            return Some(after);
        }
        members::failed(cluster, member);
    }
    ex.record.asks_elsewhere();
    None
}

/// Is it a GET without range and condition, so that other requests may ask for the same?
fn is_plain(wanted: &Wanted) -> bool {
    const NOT_PLAIN: Seen = Seen::RANGE
        .union(Seen::IF_RANGE)
        .union(Seen::IF_NONE_MATCH)
        .union(Seen::IF_MODIFIED_SINCE);
    wanted.head.method == "GET" && !wanted.head.seen.intersects(NOT_PLAIN)
}

/// The fetches in progress, and the cache that they fill.
fn flights<'c>(ex: &Exchange<'c>) -> (&'c Flights, &'c Cache) {
    let shared = &ex.worker.shared;
    (&shared.flights, &shared.cache)
}

/// Is there a fetch for the resource that the request can join?
fn is_under_way((flights, cache): (&Flights, &Cache), wanted: &Wanted) -> bool {
    let key = share::flight_key(cache, wanted);
    flights.join(wanted.primary, &key).is_some()
}

/// Passes a member's answer on. `None`: nothing was sent, because the body broke off before.
async fn pass_on(
    ex: &mut Exchange<'_>,
    wanted: &Wanted,
    (upstream, head): (Upstream, ResponseHead),
    asking: &Asking<'_>,
    cache_status: Vec<u8>,
) -> Option<After> {
    let is_bodiless = ex.reply.is_head_only() || matches!(head.status, 204 | 304);
    let bytes = match head.framing {
        Framing::Length(bytes) if !is_bodiless => bytes,
        _ => {
            let (no_body, class) = (Upload::default(), Class::Miss);
            return Some(pass::relay(ex, upstream, &head, no_body, class, cache_status).await);
        }
    };
    let may_be_shared = asking.may_be_shared
        && head.status == 200
        && is_plain(wanted)
        && asking.directives.may_share();
    if may_be_shared
        && let Some(copied) = hot(ex, wanted)
        && let Some(reader) = start_copy(flights(ex), wanted, &copied)
    {
        let (answer, asking) = ((upstream, head), (asking, Some(copied)));
        return shared(ex, wanted, reader, answer, asking, cache_status).await;
    }
    if bytes <= WHOLE_BYTES_MAX {
        return whole(ex, upstream, &head, cache_status).await;
    }
    if may_be_shared
        && bytes > ALONE_BYTES_MAX
        && httpcache::has_strong_validator(&head.fields)
        && let Some(reader) = start_shared(flights(ex), wanted, asking)
    {
        let (answer, asking) = ((upstream, head), (asking, None));
        return shared(ex, wanted, reader, answer, asking, cache_status).await;
    }
    Some(streamed(ex, wanted, upstream, &head, bytes, cache_status).await)
}

/// Sends a short answer once its body is complete.
async fn whole(
    ex: &mut Exchange<'_>,
    upstream: Upstream,
    head: &ResponseHead,
    cache_status: Vec<u8>,
) -> Option<After> {
    let worker = ex.worker;
    let watch = worker.deadlines.watch();
    let mut body = upstream.body(head);
    let mut bytes = Bytes::new();
    loop {
        match body.next(&worker.origin, &watch).await {
            Ok(None) => break,
            Ok(Some(piece)) if bytes.is_empty() => bytes = piece,
            Ok(Some(piece)) => {
                let mut joined = BytesMut::from(bytes);
                joined.extend_from_slice(&piece);
                bytes = joined.freeze();
            }
            Err(error) => {
                tracing::debug!(%error, "a member broke off");
                return None;
            }
        }
    }
    let started = Instant::now();
    let (reply_head, fields) = reply_head(ex, head, started);
    if head.status != 206 {
        ex.record.is_of(reply_head.bytes() + bytes.len() as u64);
    }
    let length = Length::Known(bytes.len() as u64);
    let said = said(&fields, cache_status);
    Some(ex.answer(said, reply_head, length, bytes, started).await)
}

/// Sends a longer answer while it arrives.
async fn streamed(
    ex: &mut Exchange<'_>,
    wanted: &Wanted,
    upstream: Upstream,
    head: &ResponseHead,
    bytes: u64,
    cache_status: Vec<u8>,
) -> After {
    let worker = ex.worker;
    let started = Instant::now();
    let (reply_head, fields) = reply_head(ex, head, started);
    if head.status != 206 {
        ex.record.is_of(reply_head.bytes() + bytes);
    }
    ex.begin(
        said(&fields, cache_status),
        reply_head,
        Length::Known(bytes),
    );
    ex.reply.starts(started);
    let (range, of_all, total) = place(head, bytes);
    let body = upstream.body(head);
    let from = FromOrigin::new(worker.deadlines.watch(), body, range.clone(), None);
    let span = Span {
        lead: Bytes::new(),
        range,
        from: Source::Origin(Box::new(from)),
    };
    let all = Whole::Forwarded(&of_all, total);
    let mut holding = Holding::default();
    // The result counts as an answer even if the body is incomplete: its head has been sent.
    if !spans::send(ex, wanted, all, &mut holding, vec![span], b"").await {
        ex.reply.break_off().await;
    }
    ex.finish()
}

/// The body's position in the whole representation, the fields of the whole, and its length.
fn place(head: &ResponseHead, bytes: u64) -> (Range<u64>, Fields, u64) {
    let part = (head.status == 206)
        .then(|| httpcache::content_range(&head.fields))
        .flatten();
    match part {
        Some(ContentRange {
            span,
            complete_length: Some(total),
        }) if span.len() == bytes => (
            span.first..span.last + 1,
            httpcache::as_if_whole(&head.fields),
            total,
        ),
        _ => (0..bytes, head.fields.clone(), bytes),
    }
}

/// The head of the answer to the client, and its fields.
fn reply_head(ex: &Exchange<'_>, head: &ResponseHead, at: Instant) -> (ReplyHead, Fields) {
    let at = ex.worker.unix_ms(at);
    let fields = prepare::response_fields(ex.edition(), &head.fields, head.version, at);
    (ReplyHead::new(head.status, &head.reason, &fields), fields)
}

fn said(fields: &Fields, cache_status: Vec<u8>) -> Said<'_> {
    Said {
        class: Class::Miss,
        content_type: fields.first(b"content-type").unwrap_or_default(),
        // The member's Age is among the fields.
        age_s: None,
        cache_status,
    }
}

/// Makes a long answer joinable. `None`: it is being fetched already, or the resource was purged meanwhile.
fn start_shared(
    (flights, cache): (&Flights, &Cache),
    wanted: &Wanted,
    asking: &Asking<'_>,
) -> Option<FlightReader> {
    let key = share::flight_key(cache, wanted);
    let began = || {
        let is_still = cache.store.sequence(wanted.primary) == asking.began;
        is_still.then_some(asking.began)
    };
    match flights.join_or_start(wanted.primary, &key, began) {
        Join::Started(reader) => Some(reader),
        Join::Joined(_) | Join::Behind(..) | Join::Alone | Join::Unneeded => None,
    }
}

/// The copy to keep here and offer to others if the object is hot.
fn hot(ex: &Exchange<'_>, wanted: &Wanted) -> Option<Copied> {
    members::front(ex)?;
    let context = ex.worker.pushing.as_ref()?;
    Copied::of_hot(context, name_of_key(&wanted.key), wanted.primary)
}

/// Makes the answer joinable and keeps a copy. `None`: it is being fetched already.
fn start_copy(
    (flights, cache): (&Flights, &Cache),
    wanted: &Wanted,
    copied: &Copied,
) -> Option<FlightReader> {
    let key = share::flight_key(cache, wanted);
    match flights.join_or_start(wanted.primary, &key, || Some(copied.began.own)) {
        Join::Started(reader) => Some(reader),
        Join::Joined(_) | Join::Behind(..) | Join::Alone | Join::Unneeded => None,
    }
}

/// Sends an answer that other requests may join. If it is hot, a copy is kept.
async fn shared(
    ex: &mut Exchange<'_>,
    wanted: &Wanted,
    reader: FlightReader,
    (upstream, head): (Upstream, ResponseHead),
    (asking, copied): (&Asking<'_>, Option<Copied>),
    cache_status: Vec<u8>,
) -> Option<After> {
    let request = FetchRequest {
        is_for_one: false,
        is_forwarded: true,
        copied,
        ..share::fetch_request(
            &ex.worker.storage,
            &ex.listener,
            wanted,
            None,
            false,
            ex.record.trip(),
        )
    };
    let flight = Arc::clone(&reader.flight);
    task::adopt(ex.worker, flight, request, upstream, head, asking.asked_at);
    let FirstEvent::Response(response) = reader.first_event().await else {
        return None;
    };
    arriving::response(ex, wanted, &reader, &response, Class::Miss, cache_status).await
}
