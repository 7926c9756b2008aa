//! Requests that bypass the cache: other methods, requests with a body, ranges of objects that are not stored, upgrades.
//!
//! Request and response are moved at the same time, each as fast as its slower end: an origin may answer before
//! it has read the body, and a client may wait for `100 Continue` before it sends one. If either side ends
//! uncleanly, both connections are closed.
//!
//! After an unsafe method has succeeded, the objects stored under its URI (and under Location and Content-Location of
//! the same origin) are invalidated before the client sees the answer (RFC 9111 §4.4).

use base::clock::Instant;
use base::mistakes::{Mistake, makes};
use std::{pin::pin, rc::Rc, time::Duration};

use bytes::Bytes;
use fields::Fields;
use httpcache::{RequestDirectives, cache_status::Forward};
use message::{Framing, ResponseHead, Seen};
use profile::{Class, Hierarchy};

use crate::{
    conn::switch,
    edition::Edition,
    fetch::{
        ask, interim, prepare,
        upload::Upload,
        uploads::Place,
        whom::{self, To},
    },
    reply::{After, Gone, HEAD_WAIT, Length, Reply, ReplyHead},
    request::{
        body::BodyError,
        exchange::{Exchange, Said, forwarded},
        head,
        named::named_uris,
        onward, paying, refusing, target,
        wanted::Wanted,
    },
};
use base::deadline::Watch;
use origin::{
    ConnectError,
    body::Body,
    outcome::UpstreamError,
    upstream::{UNPROCESSED_TRIES, Upstream, is_interim, is_safe},
    writing::Moved,
};
use purging::change::Change;
use record::metrics;
use rules::key::{add_names, name_of_key};

/// How long a client that expects `100 Continue` waits for the origin's interim response before it gets ours.
const CONTINUE_WAIT: Duration = Duration::from_secs(1);
/// How long to wait for a response of an origin that takes no more of the body.
const LAST_WORD_WAIT: Duration = Duration::from_secs(1);

/// Answers a request that bypasses the cache.
pub async fn answer(ex: &mut Exchange<'_>, wanted: &Wanted, why: Forward) -> After {
    //= rfc9111 §5.2.1.7   only what is stored is wanted, whatever stands beside it
    if wanted.is_read() && RequestDirectives::parse(&wanted.request).only_if_cached {
        ex.keep_open_without_body(wanted.head.framing);
        return refusing::not_cached(ex).await;
    }
    exchange(ex, wanted, why).await
}

/// Moves a request and its answer without storing either.
pub async fn exchange(ex: &mut Exchange<'_>, wanted: &Wanted, why: Forward) -> After {
    let worker = ex.worker;
    // Held until the answer has been passed on.
    let _toll = match paying::miss(ex).await {
        Ok(toll) => toll,
        Err(stopped) => return paying::refuse(ex, stopped).await,
    };
    let request = request_bytes(ex.edition(), wanted);
    ex.record.asks(&wanted.asked.destination.host);
    let asked_at = worker.now_ms();
    let began = worker.shared.cache.store.sequence(wanted.primary);
    let mut upload = Upload::of(wanted.head.framing);
    if !ex.body.is_done() {
        upload.place = match place(ex, wanted).await {
            Some(place) => Some(place),
            None => {
                let error = UpstreamError::Connect(ConnectError::Busy);
                return failed(ex, wanted, why, error.into()).await;
            }
        };
    }
    let (upstream, response) = match ask(ex, wanted, &request, &mut upload).await {
        Ok(answered) => answered,
        Err(failure) => return failed(ex, wanted, why, failure).await,
    };
    // This holds for every answer from here on. After an early answer the connection carries more of the body, not another request.
    ex.reply.keep_open_if(ex.body.is_through());
    if response.status == 101 {
        let asked = wanted.upgrade.as_ref();
        let is_asked = asked.is_some_and(|asked| is_one_of(&response, asked));
        return switch::upgraded(ex, is_asked, upstream, &response).await;
    }
    invalidate(ex, wanted, &response).await;
    if ex.reply.is_head_only() && !wanted.bypass {
        head::note(worker, &ex.listener, wanted, &response, asked_at, began).await;
        let failure = (Some(response.status), false);
        if matches!(response.status, 500 | 502..=504)
            && let Some(after) = head::instead(ex, wanted, why, failure).await
        {
            return after;
        }
    }
    let status = forwarded(ex.edition(), why, |line| line.detail("pass"));
    relay(ex, upstream, &response, upload, Class::Uncachable, status).await
}

/// Answers a request that got no response from the origin.
async fn failed(ex: &mut Exchange<'_>, wanted: &Wanted, why: Forward, failure: Failure) -> After {
    let worker = ex.worker;
    let error = match failure {
        Failure::Client(BodyError::Gone) => return ex.abandon(Class::Error),
        Failure::Client(BodyError::Bad(status, reason)) => {
            ex.reply.keep_open_if(false);
            return ex.refuse(status, reason, None).await;
        }
        Failure::Origin(error) => error,
    };
    // A gRPC call ends with the origin's own reset code, which means something to its client.
    if let Some(code) = error.reset_code().filter(|_| is_grpc(ex, &wanted.request)) {
        worker.counters.origin_failed(error.token());
        ex.reply.reset(code);
        return ex.abandon(Class::Error);
    }
    worker.counters.origin_failed(error.token());
    ex.reply.keep_open_if(ex.body.is_through());
    if ex.reply.is_head_only() && !wanted.bypass {
        let failure = (None, true);
        if let Some(after) = head::instead(ex, wanted, why, failure).await {
            return after;
        }
    }
    tracing::debug!(%error, "there is no answer");
    let (status, reason) = (error.status(), error.for_client());
    let after_s = error.retry_after_s();
    ex.failed_for_now(why, status, error.token(), &reason, after_s)
        .await
}

/// Does the origin switch to a protocol that it was asked for?
//= rfc9110 §7.8   a server MUST NOT switch to a protocol that was not indicated by the client
fn is_one_of(response: &ResponseHead, asked: &[u8]) -> bool {
    let mut chosen = response.fields.members(b"upgrade").peekable();
    let is_asked =
        |chosen: &[u8]| fields::split_list(asked).any(|a| a.eq_ignore_ascii_case(chosen));
    chosen.peek().is_some() && chosen.all(is_asked)
}

/// A place among the uploads of the client. `None`: no place became free in time.
async fn place(ex: &Exchange<'_>, wanted: &Wanted) -> Option<Place> {
    let plan = &ex.edition().plan;
    let (to, pool) = (&wanted.asked.destination, ex.worker.origin.connector.pool());
    let servers = wanted.asked.upstream.as_ref();
    let in_use = || match servers {
        Some(of) => {
            // The destinations as they are asked, because connections are kept apart by TLS and HTTP/2.
            let now = of.now();
            let servers = now.destinations(to.terms.as_ref(), to.http2);
            servers.map(|to| pool.in_use_of(&to)).sum()
        }
        None => pool.in_use_of(to),
    };
    let most = servers.map_or(1, |of| of.now().members.len().max(1));
    let most = plan.pool.per_origin_max.saturating_mul(most);
    let (client, patience) = (ex.peer.ip(), plan.timeouts.connect);
    let place = (ex.worker.uploads).place(client, to, (most, in_use), patience);
    Box::pin(place).await
}

/// The least rate of an upload whose origin has not answered. A stream of gRPC may rest for `timeouts.client-body`.
fn rate_min(ex: &Exchange<'_>, wanted: &Wanted) -> u64 {
    let content_type = wanted.request.first(b"content-type").unwrap_or_default();
    match content_type.starts_with(b"application/grpc") {
        true => 0,
        false => ex.edition().plan.limits.client_rate_min,
    }
}

/// How long the answer to an unsafe method waits until its invalidation is durable, and known to the other members of a cluster.
const REMEMBER_MAX: Duration = Duration::from_secs(10);

/// Invalidates the objects under the URIs that an unsafe method has changed, whichever listener stored them. This holds at once, and
/// survives a crash from the moment the client sees the answer, if the disk takes it in time.
//= rfc9111 §4.4   a cache MUST invalidate the target URI
async fn invalidate(ex: &Exchange<'_>, wanted: &Wanted, response: &ResponseHead) {
    if !httpcache::invalidates(&wanted.head.method, response.status)
        || makes(Mistake::KeepAfterUnsafe)
    {
        return;
    }
    let (worker, listener) = (ex.worker, &ex.listener);
    let shared = &worker.shared;
    let mut names = vec![name_of_key(&wanted.key).to_vec()];
    let head = &wanted.head;
    // The URI as the client sent it, and as any rule shortens it: the rules of another host may have stored it under such a name.
    if let Ok(place) = target::locate(listener, "GET", &head.target, head.host.as_deref()) {
        let mut typed = Vec::new();
        place.write_uri(&mut typed);
        add_names(&typed, &listener.book, &mut names);
    }
    for uri in named_uris(listener, wanted, &response.fields) {
        add_names(uri.as_bytes(), &listener.book, &mut names);
    }
    let change = Change::of_unsafe_method(names);
    let applied = shared.local_cache().apply(&change);
    let told = async {
        if let Some(cluster) = &shared.cluster {
            cluster.purging.tell_unsafe(&change, REMEMBER_MAX).await;
        }
    };
    let settled = shared
        .cache
        .settle_if_answering(&applied.handles, REMEMBER_MAX);
    let (is_durable, ()) = tokio::join!(settled, told);
    if !is_durable {
        metrics::add(&worker.counters.invalidations_not_durable, 1);
    }
}

fn request_bytes(edition: &Edition, wanted: &Wanted) -> Vec<u8> {
    let head = &wanted.head;
    let mut fields = onward::end_to_end(&wanted.request);
    match head.framing {
        Framing::Chunked => fields.push(b"Transfer-Encoding", b"chunked"),
        // The number as parsed, without leading zeros, which some servers take for octal.
        Framing::Length(length) => fields.set(b"Content-Length", length.to_string().as_bytes()),
        Framing::None if !head.seen.intersects(Seen::CONTENT_LENGTH) => {
            fields.remove(b"content-length");
        }
        _ => {}
    }
    if let Some(protocol) = &wanted.upgrade {
        fields.push(b"Connection", b"Upgrade");
        fields.push(b"Upgrade", protocol);
    } else if wanted.takes_trailers {
        onward::ask_for_trailers(&mut fields);
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
    onward::request(edition, &head.method, head.version, &wanted.asked, &fields)
}

/// Why there is no response to pass on.
enum Failure {
    Client(BodyError),
    Origin(UpstreamError),
}

impl From<UpstreamError> for Failure {
    fn from(error: UpstreamError) -> Failure {
        Failure::Origin(error)
    }
}

impl From<BodyError> for Failure {
    fn from(error: BodyError) -> Failure {
        Failure::Client(error)
    }
}

/// The first event while a request body is sent.
enum Heard {
    /// The origin has sent something.
    Origin,
    /// The body has moved on.
    Body,
    /// The origin takes no more of the body.
    Refused(UpstreamError),
}

/// Moves the body on by one step, unless the origin has sent something.
async fn move_body(
    ex: &mut Exchange<'_>,
    upload: &mut Upload,
    upstream: &mut Upstream,
    watch: &Watch,
    rate_min: u64,
) -> Result<Heard, BodyError> {
    let Some(unsent) = &mut upload.unsent else {
        let limit = ex.edition().plan.timeouts.client_body;
        if upload.put_again(|part, is_chunked| upstream.frame(part, is_chunked)) {
            return Ok(Heard::Body);
        }
        return tokio::select! {
            biased;
            () = upstream.readable(&ex.worker.origin) => Ok(Heard::Origin),
            part = ex.body.next(&mut ex.reply, limit, rate_min) => {
                upload.put(part?, |part, is_chunked| upstream.frame(part, is_chunked));
                Ok(Heard::Body)
            }
        };
    };
    match upstream.write_or_hear(watch, unsent).await {
        Ok(Moved::Heard) => Ok(Heard::Origin),
        Ok(Moved::Sent) => {
            upload.sent(&mut ex.body);
            Ok(Heard::Body)
        }
        Err(error) => Ok(Heard::Refused(error)),
    }
}

/// Sends head and body, and waits for the final head, which may come before the body is through.
async fn ask(
    ex: &mut Exchange<'_>,
    wanted: &Wanted,
    request: &[u8],
    upload: &mut Upload,
) -> Result<(Upstream, ResponseHead), Failure> {
    let (worker, head) = (ex.worker, &wanted.head);
    let (method, listener) = (head.method.as_str(), Rc::clone(&ex.listener));
    let trip = ex.record.trip();
    let to = To {
        asked: &wanted.asked,
        listener: &listener,
        trip: &trip,
    };
    let watch = worker.deadlines.watch();
    //= rfc9112 §9.3.1   only what can be repeated may be sent on a connection that may be dying
    //= rfc9110 §9.2.2   idempotent: PUT and DELETE as well. Not with a body, which is not kept to be sent again
    let is_idempotent = matches!(method, "GET" | "HEAD" | "OPTIONS" | "PUT" | "DELETE")
        || makes(Mistake::RepeatSent);
    if is_idempotent && ex.body.is_done() {
        let asked = ask::ask(&worker.asking, &watch, to, method, request);
        let asked = match is_safe(method) {
            // Give up a safe request if its client leaves.
            true => tokio::select! {
                biased;
                asked = asked => asked,
                () = ex.reply.client_leaves() => return Err(BodyError::Gone.into()),
            },
            false => asked.await,
        };
        let (mut upstream, mut response) = asked?;
        while is_interim(&response) {
            interim::pass_on(ex, wanted, &response).await?;
            response = whom::next_head(&worker.asking, &watch, &mut upstream, method).await?;
        }
        whom::note_levels(&upstream, &response);
        return Ok((upstream, response));
    }
    ask_once(ex, wanted, (to, &watch), request, upload).await
}

/// Sends a request that may be sent only once, and waits for the final head. A request that the origin has not processed is sent again.
async fn ask_once(
    ex: &mut Exchange<'_>,
    wanted: &Wanted,
    (to, watch): (To<'_>, &Watch),
    request: &[u8],
    upload: &mut Upload,
) -> Result<(Upstream, ResponseHead), Failure> {
    let (worker, trip) = (ex.worker, to.trip);
    let mut left = UNPROCESSED_TRIES;
    loop {
        let (lease, request) = whom::connect(&worker.asking, to, request.to_vec()).await?;
        let waits = match trip.hop().hierarchy {
            Hierarchy::Direct => to.waits(),
            _ => ex.edition().origin_waits(),
        };
        let mut upstream = Upstream::new(lease, trip.clone(), waits);
        if upstream.is_shared() {
            upload.keeps();
        }
        match converse(ex, wanted, &mut upstream, watch, &request, upload).await {
            Ok(response) => {
                upload.is_answered();
                if let Some(signer) = to.asked.signer.as_deref() {
                    let accepted = upstream.accepted(&worker.origin, watch, signer, &response);
                    accepted.await?;
                }
                whom::answered(&worker.asking, trip.hop());
                whom::note_levels(&upstream, &response);
                return Ok((upstream, response));
            }
            //= rfc9113 §8.7   what was not processed may be sent again, whatever its method
            Err(Failure::Origin(UpstreamError::Unprocessed))
                if left > 0 && upload.begins_anew(&mut ex.body) =>
            {
                left -= 1;
            }
            Err(Failure::Origin(error)) => {
                return Err(whom::of_hop(&worker.asking, trip.hop(), error).into());
            }
            Err(failure) => return Err(failure),
        }
    }
}

/// Is it a gRPC call on an HTTP/2 stream? Then the origin is told at once if the client leaves, and heads are sent without delay.
fn is_grpc(ex: &Exchange<'_>, fields: &Fields) -> bool {
    let content_type = fields.first(b"content-type").unwrap_or_default();
    content_type.starts_with(b"application/grpc") && matches!(ex.reply, Reply::H2(_))
}

/// Sends head and body, and meanwhile waits for the final head.
async fn converse(
    ex: &mut Exchange<'_>,
    wanted: &Wanted,
    upstream: &mut Upstream,
    watch: &Watch,
    request: &[u8],
    upload: &mut Upload,
) -> Result<ResponseHead, Failure> {
    let (worker, head) = (ex.worker, &wanted.head);
    let method = head.method.as_str();
    upstream.send(&worker.origin, watch, request).await?;
    let rate_min = rate_min(ex, wanted);
    let is_grpc = is_grpc(ex, &wanted.request);
    let mut waits_for_continue = head.expect_continue && !ex.body.is_done();
    loop {
        upload.is_over_if(ex.body.is_done());
        if waits_for_continue {
            let heard = pin!(upstream.readable(&worker.origin));
            if watch.limit(CONTINUE_WAIT, heard).await.is_err() {
                // The origin is silent: it may not know the expectation. Ask the client for the body.
                waits_for_continue = false;
                let continued = ex.reply.interim(100, "", &Fields::new()).await;
                continued.map_err(|Gone| BodyError::Gone)?;
                continue;
            }
        } else if !ex.body.is_done() || upload.has_again() {
            match move_body(ex, upload, upstream, watch, rate_min).await? {
                Heard::Origin => {}
                Heard::Body => continue,
                Heard::Refused(error) => {
                    // The origin may have sent a response before it closed.
                    let last_word = upstream.head(&worker.origin, watch, method);
                    let last_word = tokio::time::timeout(LAST_WORD_WAIT, last_word).await;
                    return match last_word {
                        Ok(Ok(response)) if response.status >= 200 => {
                            ex.body.stop();
                            upload.unsent = None;
                            Ok(response)
                        }
                        _ => Err(error.into()),
                    };
                }
            }
        }
        let response = match is_grpc {
            true => tokio::select! {
                biased;
                head = upstream.head(&worker.origin, watch, method) => head?,
                () = ex.reply.client_leaves() => return Err(BodyError::Gone.into()),
            },
            false => upstream.head(&worker.origin, watch, method).await?,
        };
        if !is_interim(&response) {
            return Ok(response);
        }
        waits_for_continue &= response.status != 100;
        interim::pass_on(ex, wanted, &response).await?;
    }
}

/// Passes the final answer on, and meanwhile sends the rest of the request body.
pub async fn relay(
    ex: &mut Exchange<'_>,
    upstream: Upstream,
    response: &ResponseHead,
    upload: Upload,
    class: Class,
    cache_status: Vec<u8>,
) -> After {
    let (worker, started) = (ex.worker, Instant::now());
    // An answer before the end of the body: both go on, and neither connection is used again (RFC 9112 §9.5).
    let is_early = !ex.body.is_done();
    ex.reply.keep_open_if(!is_early);
    let at = worker.unix_ms(started);
    let mut fields = prepare::response_fields(ex.edition(), &response.fields, response.version, at);
    let is_bodiless = ex.reply.is_head_only() || matches!(response.status, 204 | 304);
    if (ex.reply.is_head_only() || response.status == 304)
        && let Some(length) = response.fields.first(b"content-length")
    {
        // Without a body, Content-Length is information about the representation.
        fields.push(b"Content-Length", length);
    }
    let said = Said {
        class,
        content_type: fields.first(b"content-type").unwrap_or_default(),
        age_s: None,
        cache_status,
    };
    let is_grpc = is_grpc(ex, &response.fields);
    let is_head_all = response.framing == Framing::Length(0);
    let length = match response.framing {
        _ if is_bodiless => Length::None,
        // A gRPC response that is a head alone, with the status in it, stays a head alone.
        _ if is_grpc && is_head_all => Length::None,
        Framing::None => Length::None,
        Framing::Length(bytes) => Length::Known(bytes),
        Framing::Chunked | Framing::UntilClose => Length::Unknown,
    };
    let head = ReplyHead::new(response.status, &response.reason, &fields);
    if let Length::Known(bytes) = length
        && response.status != 206
    {
        ex.record.is_of(head.bytes() + bytes);
    }
    ex.begin(said, head, length);
    let mut body = upstream.body(response);
    body.passes(true);
    if is_early {
        body.forbid_reuse();
    }
    if !is_grpc || is_head_all || ex.reply.flush_head().await.is_ok() {
        carry(ex, body, upload, is_grpc).await;
    }
    ex.finish()
}

/// Carries the body of the answer, and the rest of the request body.
async fn carry(ex: &mut Exchange<'_>, mut body: Body, mut upload: Upload, is_grpc: bool) {
    let worker = ex.worker;
    let (watch, head_watch) = (worker.deadlines.watch(), worker.deadlines.watch());
    loop {
        let came = if ex.reply.sent().bytes == 0 {
            let first = pin!(next_of_both(ex, &mut body, &mut upload, &watch, is_grpc));
            head_watch.limit(HEAD_WAIT, first).await
        } else {
            Ok(next_of_both(ex, &mut body, &mut upload, &watch, is_grpc).await)
        };
        let Ok(came) = came else {
            match ex.reply.flush_head().await {
                Ok(()) => continue,
                Err(Gone) => break,
            }
        };
        let sent = match came {
            Ok(Some(piece)) => ex.reply.piece(piece).await,
            Ok(None) => {
                let _ = ex.reply.end(body.take_trailers().as_ref()).await;
                break;
            }
            Err(Ended::Client) => {
                ex.reply.leave();
                break;
            }
            Err(Ended::Origin(error)) => {
                worker.counters.origin_failed(error.token());
                tracing::debug!(%error, "a response broke off");
                match error.reset_code().filter(|_| is_grpc) {
                    Some(code) => ex.reply.reset(code),
                    None => ex.reply.break_off().await,
                }
                break;
            }
        };
        if sent.is_err() {
            break;
        }
    }
}

/// The side that has ended an answer early.
enum Ended {
    Client,
    Origin(UpstreamError),
}

impl From<UpstreamError> for Ended {
    fn from(error: UpstreamError) -> Ended {
        Ended::Origin(error)
    }
}

/// The next piece of the answer. Meanwhile the request body moves on, as far as the origin takes it; after its end, a client that leaves
/// is noticed. `is_grpc`: a client that ends its body uncleanly has left.
async fn next_of_both(
    ex: &mut Exchange<'_>,
    answer: &mut Body,
    upload: &mut Upload,
    watch: &Watch,
    is_grpc: bool,
) -> Result<Option<Bytes>, Ended> {
    let (worker, body) = (ex.worker, &mut ex.body);
    let limit = ex.listener.edition.plan.timeouts.client_body;
    while !body.is_done() || upload.has_again() {
        let Some(unsent) = &mut upload.unsent else {
            if upload.put_again(|part, is_chunked| answer.frame(part, is_chunked)) {
                continue;
            }
            tokio::select! {
                biased;
                piece = answer.next(&worker.origin, watch) => return Ok(piece?),
                more = body.next(&mut ex.reply, limit, 0) => match more {
                    Ok(more) => upload.put(more, |part, is_chunked| answer.frame(part, is_chunked)),
                    Err(_) if is_grpc => return Err(Ended::Client),
                    Err(_) => body.stop(), // the client stopped sending; it may still read
                },
            }
            continue;
        };
        match answer.write_or_hear(watch, unsent).await {
            Ok(Moved::Heard) => break,
            Ok(Moved::Sent) => upload.sent(body),
            Err(_) => {
                // The origin wants no more of the body; its answer still counts.
                body.stop();
                *upload = Upload::default();
            }
        }
    }
    upload.is_over_if(body.is_done());
    tokio::select! {
        biased;
        piece = answer.next(&worker.origin, watch) => Ok(piece?),
        () = ex.reply.client_leaves() => Err(Ended::Client),
    }
}
