//! Receives the objects that a front pushes to this member.
//!
//! A push contains a client's request, the response to it, and the times at which the front sent its request and received the response.
//! The member treats the response like one of its own fetch: key, variant, rules, admission, record. The fetch counts as begun at the
//! invalidation sequence of this member that the front knew when its own fetch began.
//!
//! The store's registrar learns of a push before the object is stored, so that it does not send the front a hint that the front has
//! already (`hints::Registrar::expect`). If a push was not stored, the front withdraws the hint.
//!
//! Not known here: when a front pushes (`push`).
//! Limits: a push is read whole, up to `push-max` and two heads; it counts against `limits.transfer-buffer` until the disk has it. If that
//! buffer is full or the store is paused, pushes are refused, and the front tries another member.

use std::sync::atomic::Ordering;

use ::message::{Framing, RequestHead, ResponseHead};
use bytes::{Bytes, BytesMut};

use crate::{
    fetch::{prepare, share, storing::Storing},
    reply::After,
    request::{exchange::Exchange, incoming::Incoming, wanted::Wanted, wanting},
};
use ::message::Part;
use base::clock::Instant;
use cluster::{
    Cluster,
    push::message::{self, Pushed, Terms, Verdict},
};
use ledger::Promise;
use origin::trip::Trip;
use rules::key::name_of_key;

/// A push that is too long is still read to its end up to this length; no member's `push-max` may be larger.
const THROWN_AWAY_MAX: u64 = 128 << 20;

/// Receives a push. `Err`: the request was a push, and is answered.
pub async fn push(ex: &mut Exchange<'_>, head: &RequestHead) -> Result<(), After> {
    match &ex.worker.shared.cluster {
        Some(cluster) if ex.member.is_some() && head.fields.contains(message::FIELD) => {
            Err(Box::pin(answer(ex, cluster, head)).await)
        }
        _ => Ok(()),
    }
}

/// Answers a push. `cluster`: the cluster of this proxy and the front.
async fn answer(ex: &mut Exchange<'_>, cluster: &Cluster, head: &RequestHead) -> After {
    let mut had_it = false;
    let verdict = match read(ex, cluster, head).await {
        // `_held` counts the bytes until the disk has them or they are dropped.
        Ok((terms, message, _held)) => take(ex, cluster, &terms, &message, &mut had_it).await,
        Err(verdict) => verdict,
    };
    cluster.receiving.verdicts[verdict as usize].fetch_add(1, Ordering::Relaxed);
    ex.reply.keep_open_if(ex.body.is_through());
    let had: &[(&[u8], &[u8])] = match had_it {
        true => &[(message::HAD, b"?1")],
        false => &[],
    };
    ex.own(verdict.status(), "", had, Vec::new()).await
}

/// Reads the push's terms and message.
async fn read(
    ex: &mut Exchange<'_>,
    cluster: &Cluster,
    head: &RequestHead,
) -> Result<(Terms, Bytes, Promise), Verdict> {
    let shared = &ex.worker.shared;
    let terms = head.fields.first(message::FIELD).and_then(Terms::decode);
    let terms = terms.ok_or(Verdict::Malformed)?;
    let Framing::Length(length) = head.framing else {
        return Err(Verdict::Malformed);
    };
    let edition = ex.edition();
    let heads = edition.limits.head_bytes_max + edition.response_limits.head_bytes_max;
    if length > cluster.plan.push_max_bytes + heads as u64 {
        return Err(too_long(ex, length).await);
    }
    if !ex.worker.storage.has_room_for(length) {
        return Err(Verdict::Paused);
    }
    let mut held = shared.ledger.promise();
    held.set(length);
    let mut message = BytesMut::with_capacity(length as usize);
    let limit = ex.edition().plan.timeouts.client_body;
    while let Some(part) = ex
        .body
        .next(&mut ex.reply, limit, 0)
        .await
        .map_err(|_| Verdict::Malformed)?
    {
        if let Part::Data(data) = part {
            message.extend_from_slice(&data);
        }
        ex.body.taken();
    }
    Ok((terms, message.freeze(), held))
}

/// Reads and discards a push that is too long: an earlier answer might be lost to a reset of the connection, and the front would
/// count this member as failed.
async fn too_long(ex: &mut Exchange<'_>, length: u64) -> Verdict {
    let limit = ex.edition().plan.timeouts.client_body;
    let is_read = length <= THROWN_AWAY_MAX;
    while is_read && let Ok(Some(_)) = ex.body.next(&mut ex.reply, limit, 0).await {
        ex.body.taken();
    }
    Verdict::Size
}

/// Stores the pushed object, after telling the registrar. `had_it`: set if the store may have had it before.
async fn take(
    ex: &mut Exchange<'_>,
    cluster: &Cluster,
    terms: &Terms,
    message: &Bytes,
    had_it: &mut bool,
) -> Verdict {
    let shared = &ex.worker.shared;
    let read = message::read(message, &ex.edition().limits, &ex.edition().response_limits);
    let Ok(pushed) = read else {
        return Verdict::Malformed;
    };
    let Pushed {
        request,
        response,
        body,
    } = pushed;
    let incoming = Incoming::of_head(request, 0, Instant::now());
    let Ok(wanted) = wanting::want(ex, incoming) else {
        return Verdict::Policy;
    };
    *had_it = (shared.cache.store.of(wanted.primary)).may_answer(wanted.primary);
    let (store, column) = (
        shared.cache.store.owner(wanted.primary),
        usize::from(terms.column),
    );
    if store != column {
        // The front's view of our stores is out of date.
        return Verdict::Invalidated;
    }
    let of = shared.cache.store.stores().nth(store);
    if let (Some(of), Some(front), Some(publishing)) = (of, ex.member, &mut *cluster.publishing()) {
        let trace = of.tracing().trace(name_of_key(&wanted.key));
        publishing.expect(store, trace, front, terms.known);
    }
    keep(ex, cluster, terms, &wanted, response, body).await
}

/// Stores the pushed object, if the rules permit it.
async fn keep(
    ex: &Exchange<'_>,
    cluster: &Cluster,
    terms: &Terms,
    wanted: &Wanted,
    response: ResponseHead,
    body: Bytes,
) -> Verdict {
    let worker = ex.worker;
    let shared = &worker.shared;
    if wanted.bypass || !shared.cache.has_disk {
        return Verdict::Policy;
    }
    let primary = wanted.primary;
    let column = cluster
        .publishing()
        .as_ref()
        .and_then(|p| p.incarnation(terms.column));
    if column != Some(terms.incarnation) {
        return Verdict::Invalidated;
    }
    let began = terms.began;
    let fetch_request = share::fetch_request(
        &worker.storage,
        &ex.listener,
        wanted,
        None,
        false,
        Trip::new(),
    );
    let (asked_at, received) = terms.by_clock(worker.now_ms());
    let response = prepare::response(&fetch_request, &response, asked_at, received);
    if response.storable.is_err() {
        return Verdict::Policy;
    }
    // A flight that no request joins: it carries the invalidation sequence.
    let flight = shared.flights.start_alone(primary, began).flight.clone();
    if shared.cache.store.invalidated_since(primary, began) {
        return Verdict::Invalidated;
    }
    let mut storing = match Storing::begin(&worker.storage, &flight, &fetch_request, &response) {
        Ok(storing) => storing,
        Err(why) => return refusal(why),
    };
    let length = body.len() as u64;
    if !body.is_empty() {
        storing.take(&worker.storage, &flight, &body, false);
    }
    if let (Some(bytes), Some(disk)) = (storing.whole_bytes(), &worker.storage.disk) {
        disk.room_for_object(primary, bytes).await;
    }
    storing.complete(&worker.storage, &flight, Some(length));
    match flight.swap_out() {
        Some(out) if out.is_kept => Verdict::Stored,
        _ if shared.cache.store.invalidated_since(primary, began) => Verdict::Invalidated,
        _ if shared
            .cache
            .store
            .of(primary)
            .is_paused(base::clock::unix_ms()) =>
        {
            Verdict::Paused
        }
        _ => Verdict::Disk,
    }
}

/// The verdict for a refusal of [`Storing::begin`].
fn refusal(why: &str) -> Verdict {
    match why {
        "too-large" => Verdict::Size,
        "store-paused" | "no-room" => Verdict::Paused,
        _ => Verdict::Policy,
    }
}
