//! Requests the cache has no part in: other methods, bodies, ranges of what is not stored, upgrades, tunnels.
//!
//! Request and response are moved at the same time, each as fast as its slower end: an origin may answer before
//! it has read the body, and a client may wait for `100 Continue` before it sends one. Whichever ends first in an
//! unclean way closes both connections.
//!
//! After an unsafe method that succeeded, what is stored under its URI (and under Location and Content-Location of
//! the same origin) is invalidated, before the client sees the answer (RFC 9111 §4.4).

use crate::clock::Instant;
use std::{pin::pin, rc::Rc, time::Duration};

use bytes::Bytes;
use fields::Fields;
use http1::{Framing, RequestHead, ResponseHead};
use httpcache::cache_status::{CacheStatus, Forward};
use message::Seen;
use profile::{Class, StageName, access::Hierarchy};

use crate::{
    cache::object,
    conn::client::{After, Conn},
    conn::switch,
    fetch::request_body::ClientBody,
    fetch::task,
    fetch::upstream::{self, Body, Moved, Upstream, UpstreamError},
    origin::Destination,
    plan::Role,
    record::metrics,
    reply::answer::{self, Answering, Sent},
    reply::interim::{self, is_interim},
    request::exchange::Wanted,
    request::named::named_uris,
    request::target,
    state::{ListenerState, Worker},
};

/// How long a client that expects `100 Continue` waits for the origin's word before it gets ours.
const CONTINUE_WAIT: Duration = Duration::from_secs(1);
/// How long an origin that takes no more of a body is listened to.
const LAST_WORD_WAIT: Duration = Duration::from_secs(1);

/// OPTIONS and TRACE that end here (RFC 9110 §7.6.2): `None` when they are to be passed on.
pub async fn final_recipient(
    worker: &Worker,
    conn: &mut Conn,
    on: &mut Answering,
    head: &RequestHead,
) -> Option<After> {
    let last = head
        .fields
        .first(b"max-forwards")
        .is_some_and(|v| v.trim_ascii().iter().all(|&b| b == b'0') && !v.is_empty());
    on.keep_open &= head.framing == Framing::None;
    if head.method == "TRACE" {
        // Reflecting a request shows a script the cookies it may not read; nobody needs it.
        let allow = [allow(&conn.listener)];
        return Some(answer::own(worker, conn, on, 405, "TRACE is not served", &allow, b"").await);
    }
    if last || head.target == "*" {
        let allow = [allow(&conn.listener)];
        return Some(answer::own(worker, conn, on, 200, "", &allow, b"").await);
    }
    None
}

/// The Allow field of a listener.
pub fn allow(listener: &ListenerState) -> (&'static [u8], &'static [u8]) {
    const ALL: &[u8] = b"GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS, CONNECT";
    const CONNECT: &[u8] = b", CONNECT";
    let is_forward = matches!(listener.listener.role, Role::Forward(_));
    let allowed = match is_forward && !listener.destinations.connect_ports.is_empty() {
        true => ALL,
        false => &ALL[..ALL.len() - CONNECT.len()],
    };
    (b"Allow", allowed)
}

/// Moves a request and its answer without storing either.
pub async fn exchange(
    worker: &Rc<Worker>,
    conn: &mut Conn,
    on: &mut Answering,
    wanted: &Wanted,
    why: Forward,
) -> After {
    let head = &wanted.head;
    let upgrade = wanted.upgrade.clone();
    let request = request_bytes(worker, wanted, upgrade.as_deref());
    on.hierarchy = Hierarchy::Direct;
    on.peer = wanted.asked.destination.host.as_bytes().to_vec();

    let asked_at = worker.now_ms();
    let began = worker.shared.store.sequence(wanted.primary);
    let mut body = ClientBody::new(worker, head);
    let (upstream, response) = match ask(
        worker,
        conn,
        &wanted.asked.destination,
        head,
        &request,
        &mut body,
    )
    .await
    {
        Ok(answered) => answered,
        Err(Failure::Client) => {
            on.keep_open = false;
            return on.finish(worker, conn, &nothing_sent(Class::Error));
        }
        Err(Failure::BadBody(status, reason)) => {
            on.keep_open = false;
            return answer::own(worker, conn, on, status, reason, &[], b"").await;
        }
        Err(Failure::Origin(error)) => {
            worker.counters.origin_failed(error.token());
            on.keep_open &= body.is_through();
            if on.head_only()
                && !wanted.bypass
                && let Some(after) = crate::request::head::instead(
                    worker,
                    conn,
                    on,
                    wanted,
                    why,
                    error.status(),
                    true,
                )
                .await
            {
                return after;
            }
            let mut status = Vec::with_capacity(64);
            CacheStatus::forwarded(&worker.shared.cache_name, why, &mut status)
                .detail(error.token());
            return answer::own(
                worker,
                conn,
                on,
                error.status(),
                &error.to_string(),
                &[],
                &status,
            )
            .await;
        }
    };
    // Whoever answers it from now on, and with what: behind an early answer is more of the body, and no request.
    on.keep_open &= body.is_through();
    let moments = upstream.moments;
    on.stages.set(
        StageName::ServerReply,
        on.began,
        moments.asked,
        moments.first,
        Instant::now(),
    );
    if let Some((start, end)) = moments.connect {
        on.stages
            .set(StageName::ProxyConnect, on.began, start, end, end);
    }
    if let Some((start, end)) = moments.dns {
        on.stages.set(StageName::Dns, on.began, start, end, end);
    }
    if response.status == 101 {
        let asked = upgrade.is_some_and(|asked| is_one_of(&response, &asked));
        return switch::upgraded(worker, conn, on, asked, upstream, &response).await;
    }
    invalidate(worker, &conn.listener, wanted, &response).await;
    let listener = Rc::clone(&conn.listener);
    if on.head_only() && !wanted.bypass {
        crate::request::head::note(worker, &listener, wanted, &response, asked_at, began).await;
        if matches!(response.status, 500 | 502..=504)
            && let Some(after) =
                crate::request::head::instead(worker, conn, on, wanted, why, response.status, false)
                    .await
        {
            return after;
        }
    }
    let mut status = Vec::with_capacity(64);
    CacheStatus::forwarded(&worker.shared.cache_name, why, &mut status).detail("pass");
    relay(worker, conn, on, upstream, &response, body, &status).await
}

/// The protocols that a client asks to switch to, if it may.
pub fn asked_upgrade(head: &RequestHead) -> Option<Vec<u8>> {
    if !head.seen.intersects(Seen::UPGRADE) || head.framing != Framing::None {
        return None;
    }
    //= rfc9110 §7.8   must be ignored in an HTTP/1.0 request, and sent with an upgrade option in Connection
    let is_option = |option: &[u8]| option.eq_ignore_ascii_case(b"upgrade");
    if head.version != message::Version::Http11
        || !head.fields.members(b"connection").any(is_option)
    {
        return None;
    }
    let protocols = head.fields.first(b"upgrade")?;
    may_switch_to(protocols).then(|| protocols.to_vec())
}

/// May a client ask the origin for these protocols? Other versions of HTTP it may not: behind the switch are further
/// requests, which nobody here would look at. The field is dropped then, and the answer is an ordinary one.
//= rfc9110 §7.8   a server may ignore Upgrade; §7.6.1: it is for this hop alone
pub fn may_switch_to(protocols: &[u8]) -> bool {
    fields::split_list(protocols).all(|protocol| {
        let name = protocol.split(|&b| b == b'/').next().unwrap_or_default();
        let http = ["h2c", "h2", "h3", "http"];
        !http
            .iter()
            .any(|http| name.eq_ignore_ascii_case(http.as_bytes()))
    })
}

/// Does the origin switch to a protocol that it was asked for?
//= rfc9110 §7.8   a server MUST NOT switch to a protocol that was not indicated by the client
fn is_one_of(response: &ResponseHead, asked: &[u8]) -> bool {
    let mut chosen = response.fields.members(b"upgrade").peekable();
    let is_asked =
        |chosen: &[u8]| fields::split_list(asked).any(|a| a.eq_ignore_ascii_case(chosen));
    chosen.peek().is_some() && chosen.all(is_asked)
}

/// Nothing was sent: the client has gone.
pub fn nothing_sent(class: Class) -> Sent<'static> {
    Sent {
        class,
        status: 0,
        bytes: 0,
        started: Instant::now(),
        content_type: b"",
        cache_status: b"",
        gone: true,
    }
}

/// How long the answer to an unsafe method waits for the disk to remember what it made untrue.
const REMEMBER_MAX: Duration = Duration::from_secs(10);

/// What is stored under the URIs an unsafe method wrote to is no longer true. It holds at once; and also after a crash
/// from the moment the client sees the answer, if the disk takes it in time.
async fn invalidate(
    worker: &Worker,
    listener: &ListenerState,
    wanted: &Wanted,
    response: &ResponseHead,
) {
    if !httpcache::invalidates(&wanted.head.method, response.status) {
        return;
    }
    let shared = &worker.shared;
    let mut handles = vec![shared.invalidate_stored(wanted.primary).1];
    for other in named_uris(listener, wanted, &response.fields) {
        for key in target::keys_beside(&wanted.key, &other, &listener.book) {
            handles.push(shared.invalidate_stored(worker.hasher.hash(&key)).1);
        }
    }
    if !shared.settle_if_answering(&handles, REMEMBER_MAX).await {
        metrics::add(&worker.counters.invalidations_not_durable, 1);
    }
}

fn request_bytes(worker: &Worker, wanted: &Wanted, upgrade: Option<&[u8]>) -> Vec<u8> {
    let head = &wanted.head;
    let mut fields = Fields::clone(&wanted.request);
    message::remove_hop_by_hop(&mut fields);
    fields.remove(b"proxy-authorization");
    match head.framing {
        Framing::Chunked => fields.push(b"Transfer-Encoding", b"chunked"),
        // As we have read it: a leading 0, which some take for octal, does not go on.
        Framing::Length(length) => fields.set(b"Content-Length", length.to_string().as_bytes()),
        Framing::None if !head.seen.intersects(Seen::CONTENT_LENGTH) => {
            fields.remove(b"content-length");
        }
        _ => {}
    }
    if let Some(protocol) = upgrade {
        fields.push(b"Connection", b"Upgrade");
        fields.push(b"Upgrade", protocol);
    }
    if let Some(left) = fields
        .first(b"max-forwards")
        .and_then(|v| std::str::from_utf8(v).ok()?.trim().parse::<u64>().ok())
        && head.method == "OPTIONS"
    {
        //= rfc9110 §7.6.2   one less for the next hop
        fields.set(
            b"Max-Forwards",
            left.saturating_sub(1).to_string().as_bytes(),
        );
    }
    task::write_request(worker, &head.method, head.version, &wanted.asked, &fields)
}

/// Why there is no answer to pass on.
pub enum Failure {
    /// The client went away or stopped sending.
    Client,
    /// Its body is malformed, or did not come in time.
    BadBody(u16, &'static str),
    /// The origin failed.
    Origin(UpstreamError),
}

impl From<UpstreamError> for Failure {
    fn from(error: UpstreamError) -> Failure {
        Failure::Origin(error)
    }
}

/// Sends head and body, and waits for the final head, which may come before the body is through.
async fn ask(
    worker: &Worker,
    conn: &mut Conn,
    destination: &Destination,
    head: &RequestHead,
    request: &[u8],
    body: &mut ClientBody,
) -> Result<(Upstream, ResponseHead), Failure> {
    //= rfc9112 §9.3.1   only what can be repeated may be sent on a connection that may be dying
    //= rfc9110 §9.2.2   idempotent: PUT and DELETE as well. Not with a body, which is not kept to be sent again
    let is_idempotent = matches!(
        head.method.as_str(),
        "GET" | "HEAD" | "OPTIONS" | "PUT" | "DELETE"
    );
    let repeatable = is_idempotent && body.is_done();
    let rules = &Rc::clone(&conn.listener).destinations;
    if repeatable {
        let watch = worker.deadlines.watch();
        let (mut upstream, mut response) =
            upstream::ask(worker, &watch, destination, rules, &head.method, request).await?;
        while is_interim(&response) {
            pass_interim(worker, conn, head, &response).await?;
            response = upstream.head(worker, &watch, &head.method).await?;
        }
        return Ok((upstream, response));
    }
    let watch = worker.deadlines.watch();
    let (lease, _, moments) = upstream::connect(worker, destination, rules, true).await?;
    let mut upstream = Upstream::new(lease, moments);
    upstream.send(worker, &watch, request).await?;
    let mut waits_for_continue = head.expect_continue && !body.is_done();
    loop {
        if body.is_done() {
            let response = upstream.head(worker, &watch, &head.method).await?;
            if response.status >= 200 || response.status == 101 {
                return Ok((upstream, response));
            }
            pass_interim(worker, conn, head, &response).await?;
            continue;
        }
        if waits_for_continue {
            let answered = watch
                .limit(CONTINUE_WAIT, pin!(upstream.readable(worker)))
                .await;
            match answered {
                Ok(()) => {
                    let response = upstream.head(worker, &watch, &head.method).await?;
                    if response.status >= 200 || response.status == 101 {
                        return Ok((upstream, response));
                    }
                    waits_for_continue = response.status != 100;
                    pass_interim(worker, conn, head, &response).await?;
                }
                Err(_) => {
                    // The origin says nothing: it may not know the expectation. The body goes on its way.
                    waits_for_continue = false;
                    answer::raw(worker, conn, b"HTTP/1.1 100 Continue\r\n\r\n".to_vec())
                        .await
                        .map_err(|_| Failure::Client)?;
                }
            }
            continue;
        }
        // Either more of the body, or an early answer.
        let early = match &mut body.unsent {
            None => tokio::select! {
                biased;
                () = upstream.readable(worker) => true,
                piece = body.next(worker, conn) => {
                    body.unsent = piece?;
                    false
                }
            },
            Some(unsent) => match upstream.write_or_hear(worker, &watch, unsent).await {
                Ok(Moved::Heard) => true,
                Ok(Moved::Sent) => {
                    body.unsent = None;
                    false
                }
                Err(error) => {
                    // It may have said why before it closed.
                    let last_word = upstream.head(worker, &watch, &head.method);
                    return match tokio::time::timeout(LAST_WORD_WAIT, last_word).await {
                        Ok(Ok(response)) if response.status >= 200 => {
                            body.stop();
                            Ok((upstream, response))
                        }
                        _ => Err(error.into()),
                    };
                }
            },
        };
        if early {
            let response = upstream.head(worker, &watch, &head.method).await?;
            if response.status >= 200 || response.status == 101 {
                return Ok((upstream, response));
            }
            pass_interim(worker, conn, head, &response).await?;
        }
    }
}

/// Shows an interim response to a client that can understand it (RFC 9110 §15.2).
async fn pass_interim(
    worker: &Worker,
    conn: &mut Conn,
    head: &RequestHead,
    interim: &ResponseHead,
) -> Result<(), Failure> {
    let asked = interim.status != 100 || head.expect_continue;
    if head.version != message::Version::Http11 || !asked {
        return Ok(());
    }
    answer::raw(worker, conn, interim::write(worker, interim))
        .await
        .map_err(|_| Failure::Client)
}

/// Passes the final answer on; what is left of the request body goes along.
pub async fn relay(
    worker: &Rc<Worker>,
    conn: &mut Conn,
    on: &mut Answering,
    upstream: Upstream,
    response: &ResponseHead,
    body: ClientBody,
    cache_status: &[u8],
) -> After {
    let started = Instant::now();
    // An answer before the end of the body: both go on, and neither connection is used again (RFC 9112 §9.5).
    let mut body = body;
    let early = !body.is_done();
    on.keep_open &= !early;
    let mut head = Vec::with_capacity(512);
    let mut fields =
        task::response_fields(worker, &response.fields, response.version, worker.now_ms());
    if on.head_only() || response.status == 304 {
        // The length of what was not sent is information about the representation.
        if let Some(length) = response.fields.first(b"content-length") {
            fields.push(b"Content-Length", length);
        }
    }
    let content_type = fields.first(b"content-type").unwrap_or_default().to_vec();
    let reason = if response.reason.is_empty() {
        message::reason_phrase(response.status)
    } else {
        &response.reason
    };
    object::write_head(response.status, reason, &fields, &mut head);
    let bodiless = on.head_only() || response.status == 204 || response.status == 304;
    let chunked = match response.framing {
        Framing::Length(length) if !bodiless => {
            head.extend_from_slice(b"Content-Length: ");
            message::write_decimal(length, &mut head);
            head.extend_from_slice(b"\r\n");
            false
        }
        Framing::Chunked | Framing::UntilClose if !bodiless && on.http11 => {
            head.extend_from_slice(b"Transfer-Encoding: chunked\r\n");
            true
        }
        Framing::Chunked | Framing::UntilClose if !bodiless => {
            on.keep_open = false;
            false
        }
        _ => false,
    };
    head.extend_from_slice(b"Cache-Status: ");
    head.extend_from_slice(cache_status);
    head.extend_from_slice(b"\r\n");
    on.end_head(&mut head);
    let watch = worker.deadlines.watch();
    let mut origin_body = upstream.body(worker, response);
    if early {
        origin_body.forbid_reuse();
    }
    let mut bytes = 0;
    let mut gone = false;
    let mut lead = head;
    loop {
        let next = if body.is_done() {
            origin_body.next(worker, &watch).await
        } else if let Some(unsent) = &mut body.unsent {
            match origin_body.write_or_hear(worker, &watch, unsent).await {
                Ok(Moved::Heard) => origin_body.next(worker, &watch).await,
                Ok(Moved::Sent) => {
                    body.unsent = None;
                    continue;
                }
                Err(_) => {
                    body.stop(); // it wants no more of it; its answer still counts
                    continue;
                }
            }
        } else {
            tokio::select! {
                biased;
                piece = origin_body.next(worker, &watch) => piece,
                more = body.next(worker, conn) => {
                    match more {
                        Ok(more) => body.unsent = more,
                        Err(_) => body.stop(), // the client stopped sending; it may still read
                    }
                    continue;
                }
            }
        };
        let piece = match next {
            Ok(piece) => piece,
            Err(error) => {
                worker.counters.origin_failed(error.token());
                tracing::debug!(%error, "a response broke off");
                if let Ok(n) = answer::write_both(worker, conn, lead.into(), Bytes::new()).await {
                    bytes += n;
                }
                let marked = chunked || matches!(response.framing, Framing::Length(_));
                on.break_off(marked);
                break;
            }
        };
        let (data, end) = match piece {
            Some(piece) => {
                if chunked {
                    http1::write_chunk_header(piece.len(), &mut lead);
                }
                (piece, false)
            }
            None => {
                if chunked {
                    end_chunked(&mut origin_body, &mut lead);
                }
                (Bytes::new(), true)
            }
        };
        match answer::write_both(worker, conn, std::mem::take(&mut lead).into(), data).await {
            Ok(n) => bytes += n,
            Err((_, n)) => {
                (bytes, gone) = (bytes + n, true);
                break;
            }
        }
        if end {
            break;
        }
        if chunked {
            lead.extend_from_slice(b"\r\n");
        }
    }
    let sent = Sent {
        class: Class::Uncachable,
        status: response.status,
        bytes,
        started,
        content_type: &content_type,
        cache_status,
        gone,
    };
    on.finish(worker, conn, &sent)
}

fn end_chunked(body: &mut Body, out: &mut Vec<u8>) {
    match body.take_trailers() {
        Some(trailers) => http1::write_trailers(&trailers, out),
        None => out.extend_from_slice(http1::LAST_CHUNK),
    }
}
