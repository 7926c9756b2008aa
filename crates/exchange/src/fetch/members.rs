//! Asks a cluster member for the resource that a request names.
//!
//! A member that stays silent for [`FIRST_WORD_MAX`] has failed. A member that must ask its own origin says `102` first, so that a slow
//! origin is not taken for a hung member.
//!
//! The request line and Host are the client's own, for a listener of the same name, so both proxies compute the same key.
//! The other fields are as our listener left them, and the member does not describe the client again.
//!
//! | field | meaning |
//! |---|---|
//! | `Loligo-From` | the client's address |
//! | `Loligo-Lacking: return` | answer 504 if the object is not stored (`false-hit = "return"`) |
//!
//! Not known here: how the answer is used, how connections to members are made.

use std::{borrow::Cow, pin::pin, sync::atomic::Ordering, time::Duration};

use fields::Fields;
use http1::Target;
use httpcache::RequestDirectives;
use message::{RequestHead, ResponseHead};
use profile::Hierarchy;

use crate::{
    fetch::{interim, whom},
    request::{exchange::Exchange, onward, wanted::Wanted},
};
use base::member::MemberId;
use cluster::{
    Cluster, Member,
    answered::{self, Had},
    choosing::Route,
    forwarded::FROM,
    push::PushContext,
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

/// Tells the member what to do if it does not store the object.
pub const LACKING: &[u8] = b"Loligo-Lacking";

/// A member that sends nothing for so long, not even 102, has failed.
const FIRST_WORD_MAX: Duration = Duration::from_secs(1);
/// The member is working on the request, which may take long: it asks its own origin (RFC 2518 §10.1).
pub const WORKS_ON_IT: u16 = 102;
/// Sends a GET with these fields to the members that seem to have the object, one after the other, and waits for the final head.
/// `None`: none of them has answered.
pub async fn ask(
    ex: &mut Exchange<'_>,
    wanted: &Wanted,
    fields: &Fields,
) -> Option<(Upstream, ResponseHead)> {
    let cluster = front(ex)?;
    let route = route(
        ex.worker.pushing.as_deref(),
        cluster,
        wanted,
        &RequestDirectives::default(),
    )?;
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

/// Our cluster, if this proxy is a front and the request may be forwarded to another member.
pub(super) fn front<'c>(ex: &Exchange<'c>) -> Option<&'c Cluster> {
    let cluster = ex.worker.shared.cluster.as_deref()?;
    (cluster.plan.front && ex.member.is_none()).then_some(cluster)
}

/// The members to ask; `None`: the request is not forwarded.
pub(super) fn route(
    pushing: Option<&PushContext>,
    cluster: &Cluster,
    wanted: &Wanted,
    directives: &RequestDirectives,
) -> Option<Route> {
    let plan = &cluster.plan;
    let is_by_name = plan.route == ClusterRoute::Hints;
    if is_by_name && (directives.no_store || wanted.request.contains(b"authorization")) {
        return None;
    }
    let mut hints = pushing?.hints.borrow_mut();
    let (hints, name) = (hints.groups(), name_of_key(&wanted.key));
    match cluster.pushing.is_on && cluster.pushing.large.contains(wanted.primary) {
        true => cluster.route_too_long(hints, name),
        false => cluster.route(hints, name),
    }
}

/// The host that a request names. Requests between members always have a Host.
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

/// The request to a member. `None`: the client's request names no host.
pub(super) fn request_bytes(
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

/// The party that failed to answer.
pub(super) enum Unanswered {
    /// The member or the connection to it: another server may succeed.
    ByMember,
    /// The origin that the member asked: it was too slow, and would be for any other proxy.
    ByOrigin,
}

/// Asks one member. `Err`: the member has no answer for the client. The failure is counted.
pub(super) async fn ask_one(
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
        signer: None,
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
    // A late origin is reported to the client: other members and this proxy would ask the same origin.
    if answered.is_own_failure && !(answered.is_late && works_on_it) {
        let watch = worker.deadlines.watch();
        upstream.keep(&worker.origin, &watch, &head).await;
        return Err(Unanswered::ByMember);
    }
    Ok((upstream, head))
}

/// Sends the request, and waits for the final head. The first head must come soon. `works_on_it`: set if the member has sent 102.
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
        // If the client has gone, the final answer's write will notice.
        if head.status != WORKS_ON_IT && ex.reply.sent().bytes == 0 {
            let _ = interim::pass_on(ex, wanted, &head).await;
        }
        head = upstream.head(&worker.origin, &watch, method).await?;
    }
    Ok((upstream, head))
}

/// Counts a failure of a member that did not answer or broke off.
pub(super) fn failed(cluster: &Cluster, member: &Member) {
    if member.failed(cluster.now_ms()) {
        tracing::warn!(member = %member.name(), "does not answer requests, and is not asked for a while");
    }
}
