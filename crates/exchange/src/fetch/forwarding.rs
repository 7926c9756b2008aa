//! Forwarding a request to the member of the cluster that has what it asks for.
//!
//! Only a front forwards, and only what neither its memory nor its store answers: GET and HEAD, parts and conditions included, since the
//! member answers those as well as a front could. `routing` says which members are asked. The answer goes to the client as it comes,
//! with our member of Cache-Status behind the other's, and is not stored here.
//!
//! Not forwarded are
//!   - what came from a member: it never goes round;
//!   - what is stored here and stale: it is validated here;
//!   - by hints or home, requests with `no-store` or Authorization, because their answers are seldom of a cache;
//!   - requests of HTTP/1.0 that name no host: between members each has one (RFC 9112 §3.2);
//!   - what is being fetched here already: the request joins that.
//!
//! A member that refuses, breaks off, or says nothing for [`FIRST_WORD_MAX`] has failed, and the next one is asked, then the origin: as
//! long as nothing went to the client, no failure of a member is seen by it. A member that must ask its own origin says `102` first, so
//! that a slow origin is not taken for a member that hangs: if nothing comes behind it in time, the client is told so, and the origin is
//! not asked once more. A short body is read to its end before the client hears anything; of a longer
//! one the rest comes from another member or the origin, where a strong validator proves that it is of the same representation.
//!
//! A long answer is shared by those who ask for it at the same time ([`crate::fetch::flight`]). So is one that is hot ([`Copied`]), of
//! which a copy is kept here; and what is too long for this front to push goes to its home, although no member holds it.
//!
//! Between members. The request line and Host are the client's own, for a listener of the same name, so both have the same key for it.
//! The fields are as our listener left them: the other does not describe the client once more.
//!
//! | field | says |
//! |---|---|
//! | `Loligo-From` | the client's address |
//! | `Loligo-Lacking: return` | answer 504 for what you do not have (`false-hit = "return"`) |
//!
//! Not known here: what members hold, how connections to them are made.
//! Source: paper 003 section 2; RFC 9211.

use std::{
    borrow::Cow,
    ops::Range,
    pin::pin,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use fields::Fields;
use http1::Target;
use httpcache::{ContentRange, RequestDirectives, UnixMillis, cache_status::Forward};
use message::{Framing, RequestHead, ResponseHead, Seen};
use profile::{Class, Hierarchy};
use store::Sequence;

use crate::{
    deliver::{
        arriving,
        spans::{self, FromOrigin, Source, Span, Whole},
    },
    fetch::{
        flight::{FirstEvent, FlightReader, Join},
        pass::{self, Upload},
        prepare,
        response::FetchRequest,
        share, task, whom,
    },
    reply::{After, Length, ReplyHead},
    request::{
        exchange::{Exchange, Said, forwarded},
        onward,
        wanted::Wanted,
    },
    state::Worker,
};
use base::clock::Instant;
use base::member::MemberId;
use cache::holding::Holding;
use cluster::{
    Cluster, Member,
    answered::{self, Had},
    choosing::Route,
    forwarded::FROM,
    push::Copied,
    routing::Reason,
};
use http1::head_lines;
use origin::{
    outcome::UpstreamError,
    trip::Hop,
    upstream::{self, Upstream, Whom, is_interim},
};
use plan::{ClusterRoute, FalseHit};
use rules::key::name_of_key;

/// What to do for what is lacking.
pub const LACKING: &[u8] = b"Loligo-Lacking";

/// A member that says nothing for so long, not even that it works on it, has failed.
const FIRST_WORD_MAX: Duration = Duration::from_secs(1);
/// Says that the member works on it, which may take long: it asks its own origin (RFC 2518 §10.1).
pub const WORKS_ON_IT: u16 = 102;
/// Bodies up to this are read to the end before the client hears anything.
const WHOLE_BYTES_MAX: u64 = 64 << 10;
/// Longer bodies than this are shared by those who ask at the same time.
const ALONE_BYTES_MAX: u64 = 1 << 20;

/// What is to be known for an answer that others share.
#[derive(Clone, Copy)]
struct Asking<'a> {
    directives: &'a RequestDirectives,
    asked_at: UnixMillis,
    /// The invalidation sequence before a member was asked.
    began: Sequence,
    /// No purge of it is on its way to members: others may have the answer too.
    may_be_shared: bool,
}

/// Answers a request by what a member has. `None`: nothing was sent; this member fetches for itself.
pub async fn answer(
    ex: &mut Exchange<'_>,
    wanted: &Wanted,
    directives: &RequestDirectives,
    why: Forward,
) -> Option<After> {
    let cluster = front(ex)?;
    let route = route(ex.worker, cluster, wanted, directives)?;
    if is_plain(wanted) && is_under_way(ex.worker, wanted) {
        return None;
    }
    let fields = onward::end_to_end(&wanted.request);
    let request = request_bytes(ex, wanted, cluster, &fields, route.reason)?;
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
        let (upstream, head) = match ask_one(ex, wanted, (id, member), method, &request).await {
            Ok(answered) => answered,
            Err(Unanswered::ByMember) => continue,
            Err(Unanswered::ByOrigin) => {
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
        failed(cluster, member);
    }
    ex.record.asks_elsewhere();
    None
}

/// Sends a GET with these fields to one of the members that seem to have it, and waits for the final head of the answer. `None`: none
/// of them has given one.
pub async fn ask(
    ex: &mut Exchange<'_>,
    wanted: &Wanted,
    fields: &Fields,
) -> Option<(Upstream, ResponseHead)> {
    let cluster = front(ex)?;
    let route = route(ex.worker, cluster, wanted, &RequestDirectives::default())?;
    let request = request_bytes(ex, wanted, cluster, fields, route.reason)?;
    for id in route.members.into_iter().flatten() {
        let member = cluster.member(id)?;
        let answered = ask_one(ex, wanted, (id, member), "GET", &request).await;
        if answered.is_ok() {
            return answered.ok();
        }
    }
    None
}

/// Our cluster, if we are a front in it and this request may go to another member.
fn front<'c>(ex: &Exchange<'c>) -> Option<&'c Cluster> {
    let worker: &'c Worker = ex.worker;
    let cluster = worker.shared.cluster.as_deref()?;
    (cluster.plan.front && ex.member.is_none()).then_some(cluster)
}

/// Where it goes, if it goes to a member.
fn route(
    worker: &Worker,
    cluster: &Cluster,
    wanted: &Wanted,
    directives: &RequestDirectives,
) -> Option<Route> {
    let plan = &cluster.plan;
    let is_by_name = plan.route == ClusterRoute::Hints;
    if is_by_name && (directives.no_store || wanted.request.contains(b"authorization")) {
        return None;
    }
    let mut hints = worker.pushing.as_ref()?.hints.borrow_mut();
    let (hints, name) = (hints.groups(), name_of_key(&wanted.key));
    match cluster.pushing.is_on && cluster.pushing.large.contains(wanted.primary) {
        true => cluster.route_too_long(hints, name),
        false => cluster.route(hints, name),
    }
}

/// Is it for the whole, without a condition, so that others may ask for the same?
fn is_plain(wanted: &Wanted) -> bool {
    const NOT_PLAIN: Seen = Seen::RANGE
        .union(Seen::IF_RANGE)
        .union(Seen::IF_NONE_MATCH)
        .union(Seen::IF_MODIFIED_SINCE);
    wanted.head.method == "GET" && !wanted.head.seen.intersects(NOT_PLAIN)
}

/// Is it being fetched here, so that it can be joined?
fn is_under_way(worker: &Worker, wanted: &Wanted) -> bool {
    let key = share::flight_key(worker, wanted);
    (worker.shared.flights.join(wanted.primary, &key)).is_some()
}

/// The host that a request names: between members every request has a Host.
fn host_of(head: &RequestHead) -> Option<Cow<'_, str>> {
    if let Some(host) = head.host.as_deref().filter(|host| !host.is_empty()) {
        return Some(Cow::Borrowed(host));
    }
    match http1::parse_target(&head.method, &head.target) {
        //= rfc9112 §3.2.2   the Host of a request in absolute form is that of its target
        Ok(Target::Absolute { authority, .. }) => Some(Cow::Owned(authority.to_string())),
        _ => None,
    }
}

/// The request as it goes to a member. `None`: it names no host.
fn request_bytes(
    ex: &Exchange<'_>,
    wanted: &Wanted,
    cluster: &Cluster,
    fields: &Fields,
    reason: Reason,
) -> Option<Vec<u8>> {
    let head = &wanted.head;
    let host = host_of(head)?;
    let mut out = Vec::with_capacity(512);
    http1::write_request_line(&head.method, &head.target, &mut out);
    head_lines::write_field(b"Host", host.as_bytes(), &mut out);
    for (name, value) in fields.iter().chain(wanted.withheld.iter()) {
        if !name.eq_ignore_ascii_case(b"host") {
            head_lines::write_field(name, value, &mut out);
        }
    }
    head_lines::write_field(
        b"Via",
        &onward::via_of(ex.edition(), head.version),
        &mut out,
    );
    head_lines::write_field(FROM, ex.peer.ip().to_string().as_bytes(), &mut out);
    if reason == Reason::Hint && cluster.plan.false_hit == FalseHit::Return {
        head_lines::write_field(LACKING, b"return", &mut out);
    }
    out.extend_from_slice(b"\r\n");
    Some(out)
}

/// Who has failed to answer.
enum Unanswered {
    /// The member, or the way to it: somebody else may do better.
    ByMember,
    /// The origin that the member has asked: it did not answer in time, and would do so for nobody.
    ByOrigin,
}

/// Asks one member. `Err`: it gives no answer that the client may have, which was counted.
async fn ask_one(
    ex: &mut Exchange<'_>,
    wanted: &Wanted,
    (id, member): (MemberId, &Member),
    method: &str,
    request: &[u8],
) -> Result<(Upstream, ResponseHead), Unanswered> {
    let worker = ex.worker;
    let cluster = front(ex).ok_or(Unanswered::ByMember)?;
    let trip = ex.record.trip();
    let destination = cluster.destination(id, ex.listener.number);
    let destination = destination.ok_or(Unanswered::ByMember)?;
    let whom = Whom {
        header: None,
        destination: &destination,
        rules: &worker.shared.peers.rules,
        hop: Hop::to(Hierarchy::Node, usize::from(id.0)),
        trip: &trip,
        verdict: None,
        waits: ex.edition().origin_waits(),
    };
    let mut works_on_it = false;
    let heads = first_heads(ex, wanted, &whom, (method, request), &mut works_on_it).await;
    let (upstream, head) = match heads {
        Ok(answered) => answered,
        Err(UpstreamError::Timeout) if works_on_it => {
            tracing::debug!(member = %member.name(), "its origin gave it no answer in time");
            worker.counters.origin_failed(answered::LATE);
            return Err(Unanswered::ByOrigin);
        }
        Err(error) => {
            tracing::debug!(member = %member.name(), %error, "gave no answer");
            if !error.is_ours() {
                trip.broke_off();
                failed(cluster, member);
            }
            return Err(Unanswered::ByMember);
        }
    };
    let answered = answered::of(&head.fields);
    let counters = &member.counters;
    let counter = match answered.had {
        Had::It => &counters.hits_true,
        Had::Stale => &counters.hits_stale,
        Had::Not => &counters.hits_false,
    };
    counter.fetch_add(1, Ordering::Relaxed);
    member.answered();
    whom::note_levels(&upstream, &head);
    // That its origin is late goes to the client: that of another member, or ours, is the same one.
    if answered.is_own_failure && !(answered.is_late && works_on_it) {
        let watch = worker.deadlines.watch();
        upstream.keep(&worker.origin, &watch, &head).await;
        return Err(Unanswered::ByMember);
    }
    Ok((upstream, head))
}

/// Sends the request, and waits for the final head. The first word has to come soon. `works_on_it`: the member has said so.
async fn first_heads(
    ex: &mut Exchange<'_>,
    wanted: &Wanted,
    whom: &Whom<'_>,
    (method, request): (&str, &[u8]),
    works_on_it: &mut bool,
) -> Result<(Upstream, ResponseHead), UpstreamError> {
    let worker = ex.worker;
    let (watch, first) = (worker.deadlines.watch(), worker.deadlines.watch());
    let asking = pin!(upstream::ask(&worker.origin, &watch, whom, method, request));
    let first = first.limit(FIRST_WORD_MAX, asking).await;
    let (mut upstream, mut head) = first.unwrap_or(Err(UpstreamError::Timeout))?;
    while is_interim(&head) {
        *works_on_it |= head.status == WORKS_ON_IT;
        // A client that has gone is noticed with the answer.
        if head.status != WORKS_ON_IT && ex.reply.sent().bytes == 0 {
            let _ = pass::pass_interim(ex, wanted, &head).await;
        }
        head = upstream.head(&worker.origin, &watch, method).await?;
    }
    Ok((upstream, head))
}

/// A member has failed to answer, or broke off.
fn failed(cluster: &Cluster, member: &Member) {
    if member.failed(cluster.now_ms()) {
        tracing::warn!(member = %member.name(), "does not answer requests, and is not asked for a while");
    }
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
        && let Some(reader) = start_copy(ex.worker, wanted, &copied)
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
        && let Some(reader) = start_shared(ex.worker, wanted, asking)
    {
        let (answer, asking) = ((upstream, head), (asking, None));
        return shared(ex, wanted, reader, answer, asking, cache_status).await;
    }
    Some(streamed(ex, wanted, upstream, &head, bytes, cache_status).await)
}

/// Sends a short answer, once all of it is there.
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

/// Sends a longer answer as it comes.
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
    let from = FromOrigin::new(worker, body, range.clone(), None);
    let span = Span {
        lead: Bytes::new(),
        range,
        from: Source::Origin(Box::new(from)),
    };
    let all = Whole::Forwarded(&of_all, total);
    let mut holding = Holding::default();
    // True in any case: bytes that are missing are missing from a body that has begun.
    if !spans::send(ex, wanted, all, &mut holding, vec![span], b"").await {
        ex.reply.break_off().await;
    }
    ex.finish()
}

/// Where in the whole the body lies, the fields of the whole, and its length.
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

/// The head of the answer as it goes to the client, and its fields.
fn reply_head(ex: &Exchange<'_>, head: &ResponseHead, at: Instant) -> (ReplyHead, Fields) {
    let at = ex.worker.unix_ms(at);
    let fields = prepare::response_fields(ex.edition(), &head.fields, head.version, at);
    (ReplyHead::new(head.status, &head.reason, &fields), fields)
}

fn said(fields: &Fields, cache_status: Vec<u8>) -> Said<'_> {
    Said {
        class: Class::Miss,
        content_type: fields.first(b"content-type").unwrap_or_default(),
        // Its Age is what the member said.
        age_s: None,
        cache_status,
    }
}

/// Makes a long answer one that others can join. `None`: it is being fetched already, or something of it was purged meanwhile.
fn start_shared(worker: &Worker, wanted: &Wanted, asking: &Asking<'_>) -> Option<FlightReader> {
    let shared = &worker.shared;
    let key = share::flight_key(worker, wanted);
    let began = || {
        let is_still = shared.cache.store.sequence(wanted.primary) == asking.began;
        is_still.then_some(asking.began)
    };
    match shared.flights.join_or_start(wanted.primary, &key, began) {
        Join::Started(reader) => Some(reader),
        Join::Joined(_) | Join::Behind(..) | Join::Alone | Join::Unneeded => None,
    }
}

/// Is it hot, so that a copy is kept here, and others are to have one?
fn hot(ex: &Exchange<'_>, wanted: &Wanted) -> Option<Copied> {
    front(ex)?;
    let context = ex.worker.pushing.as_ref()?;
    Copied::of_hot(context, name_of_key(&wanted.key), wanted.primary)
}

/// Makes the answer one that is kept. `None`: it is being fetched already.
fn start_copy(worker: &Worker, wanted: &Wanted, copied: &Copied) -> Option<FlightReader> {
    let key = share::flight_key(worker, wanted);
    let flights = &worker.shared.flights;
    match flights.join_or_start(wanted.primary, &key, || Some(copied.began.own)) {
        Join::Started(reader) => Some(reader),
        Join::Joined(_) | Join::Behind(..) | Join::Alone | Join::Unneeded => None,
    }
}

/// Sends an answer that others have joined, or may join, and of which a copy is kept if it is hot.
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
            ex.worker,
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
