//! The long way of a request: everything that is not a plain, fresh hit in memory.
//!
//! Which resource it names, whether the cache may answer it, what is stored, whether that may be served, and if
//! not, whom to ask. Decisions about caching are `httpcache`'s; this file puts them in order:
//!
//! 1. CONNECT, upgrades, OPTIONS and TRACE with Max-Forwards, unsafe methods and bodies go to [`crate::fetch::pass`].
//! 2. Memory, then disk, under the key or (Vary) the variant's key.
//!    A range of what is not stored, or not wholly: [`crate::range::part`].
//! 3. Fresh enough: serve. Stale but allowed: serve, and revalidate behind.
//! 4. Else join the fetch in progress or start one ([`crate::fetch::share`]), and pass its answer on if this request may have it.

use crate::clock::Instant;
use std::{rc::Rc, sync::Arc};

use fields::Fields;
use http1::{Framing, RequestHead};
use httpcache::{
    ClientDirectives, Condition, RequestDirectives, Standing, StandingFlags, Verdict,
    cache_status::{CacheStatus, Forward},
    judge, may_serve_on_error,
};
use message::Seen;
use profile::{Class, StageName, access::Hierarchy};
use store::{KeyHash, Sequence};

use crate::{
    cache::find::{Found, find},
    cache::object::Object,
    conn::client::{After, Conn, Incoming},
    conn::port_purge,
    conn::switch,
    fetch::flight::{FirstEvent, FlightReader},
    fetch::pass,
    fetch::share::{self, Obtained},
    fetch::task::{self, FetchError, Response},
    fetch::upstream::Moments,
    range::part::{self, Held, Outcome},
    reply::answer::{self, Answering},
    request::forwarded,
    request::rulebook::Met,
    request::target::{self, Asked, Misplaced},
    state::Worker,
};

/// Answers one request.
pub async fn handle(worker: &Rc<Worker>, conn: &mut Conn, incoming: Incoming) -> After {
    let mut on = Answering::new(worker, &incoming);
    let skips_disk = incoming.skips_disk;
    let mut head = incoming.head;
    if head.method == "CONNECT" {
        // The ways less travelled are boxed, so that the future of every request stays small.
        return Box::pin(switch::connect(worker, conn, &mut on, &head)).await;
    }
    if head.method == "PURGE" {
        return Box::pin(port_purge::answer(worker, conn, &mut on, &head)).await;
    }
    if (head.method == "OPTIONS" || head.method == "TRACE")
        && let Some(after) = Box::pin(pass::final_recipient(worker, conn, &mut on, &head)).await
    {
        return after;
    }
    //= rfc9110 §7.6.3   Via shows a loop: this request has been here before
    if head.seen.intersects(Seen::VIA)
        && head
            .fields
            .members(b"via")
            .any(|hop| task::is_own_via(worker, hop))
    {
        let (status, reason) = (502, "the request goes round in a circle");
        on.keep_open &= head.framing == Framing::None;
        let cache = own_status(worker, "proxy_loop_detected");
        return answer::own(worker, conn, &mut on, status, reason, &[], &cache).await;
    }
    let listener = Rc::clone(&conn.listener);
    let place = match target::locate(&listener, &head.method, &head.target, head.host.as_deref()) {
        Ok(place) => place,
        Err(misplaced) => {
            let (status, reason) = misplaced.answer();
            // What is malformed in one place may be so in another.
            let sound = !matches!(misplaced, Misplaced::Malformed(_));
            on.keep_open &= sound && head.framing == Framing::None;
            let detail = misplaced.detail_token();
            let cache = detail.map_or_else(Vec::new, |detail| own_status(worker, detail));
            return answer::own(worker, conn, &mut on, status, &reason, &[], &cache).await;
        }
    };
    let ruled = place.ruled(&listener.book, &head.method);
    let upgrade = pass::asked_upgrade(&head);
    // First of all: what the origin does not get to see selects nothing.
    message::remove_hop_by_hop(&mut head.fields);
    let (how, client) = (listener.listener.forwarded, conn.peer.ip());
    forwarded::tell(
        &mut head.fields,
        how,
        client,
        place.client_host().as_deref(),
    );
    let extras = ruled.shape.map(|shape| shape.extras(&head.fields));
    let mut key = Vec::with_capacity(128);
    place.write_shaped_key(ruled.shape, &mut key);
    on.route = place.route_number();
    let asked = place.ask();
    let plain_method = head.method == "GET" || head.method == "HEAD";
    let passes = !plain_method
        || head.framing != Framing::None
        || upgrade.is_some()
        || head
            .seen
            .intersects(Seen::IF_MATCH.union(Seen::IF_UNMODIFIED_SINCE));
    if ruled.strip_cookies {
        head.fields.remove(b"cookie");
    }
    let wanted = Wanted {
        primary: worker.hasher.hash(&key),
        key,
        asked,
        request: Arc::new(std::mem::take(&mut head.fields)),
        head,
        met: ruled.met,
        bypass: ruled.bypass,
        client_directives: ruled
            .client_directives
            .unwrap_or(listener.rules.client_directives),
        foreign: listener.foreign,
        extras: extras.unwrap_or_default(),
        upgrade,
        skips_disk,
    };
    //= rfc9111 §5.2.1.7   only what is stored is wanted, whatever stands beside it
    if plain_method
        && (passes || wanted.bypass)
        && RequestDirectives::parse(&wanted.request).only_if_cached
    {
        on.keep_open &= wanted.head.framing == Framing::None;
        return not_cached(worker, conn, &mut on).await;
    }
    if passes {
        return Box::pin(pass::exchange(
            worker,
            conn,
            &mut on,
            &wanted,
            Forward::Method,
        ))
        .await;
    }
    if wanted.bypass {
        let why = Forward::Bypass;
        return Box::pin(pass::exchange(worker, conn, &mut on, &wanted, why)).await;
    }
    cached(worker, conn, &mut on, &wanted, true).await
}

/// The answer to `only-if-cached` when nothing is.
async fn not_cached(worker: &Rc<Worker>, conn: &mut Conn, on: &mut Answering) -> After {
    //= rfc9111 §5.2.1.7   504 when it cannot be answered from the cache
    let reason = "only-if-cached was asked for, and nothing stored may be served";
    let cache = own_status(worker, "only-if-cached");
    answer::own(worker, conn, on, 504, reason, &[], &cache).await
}

/// Cache-Status of an answer of our own.
fn own_status(worker: &Worker, detail: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(64);
    CacheStatus::own(&worker.shared.cache_name, &mut out).detail(detail);
    out
}

/// A request and the resource it names.
pub struct Wanted {
    /// The key of the stored GET.
    pub key: Vec<u8>,
    /// Its hash.
    pub primary: KeyHash,
    /// Whom to ask.
    pub asked: Asked,
    /// The request but for its fields.
    pub head: RequestHead,
    /// Its fields, but for those of the client's connection: shared, because the fetch outlives the request.
    pub request: Arc<Fields>,
    /// The operator's rules it meets.
    pub met: Met,
    /// They say that the cache is passed by.
    pub bypass: bool,
    /// How much it may demand.
    pub client_directives: ClientDirectives,
    /// What is stored and marked so is not for it ([`ListenerState::foreign`]).
    ///
    /// [`ListenerState::foreign`]: crate::state::ListenerState::foreign
    pub foreign: StandingFlags,
    /// Its values of what a rule makes part of the key; empty if none does.
    pub extras: Vec<u8>,
    /// The protocols it asks to switch to, where it may.
    pub upgrade: Option<Vec<u8>>,
    /// See [`Incoming::skips_disk`].
    pub skips_disk: bool,
}

impl Wanted {
    /// Was it stored, or fetched, by a word that does not count for this request's listener?
    pub fn is_foreign(&self, standing: &Standing) -> bool {
        standing.flags.intersects(self.foreign)
    }
}

/// `may_wait`: for a part that another request fetches, and look again afterwards.
async fn cached(
    worker: &Rc<Worker>,
    conn: &mut Conn,
    on: &mut Answering,
    wanted: &Wanted,
    may_wait: bool,
) -> After {
    let shared = &worker.shared;
    let directives = RequestDirectives::heeded(&wanted.request, wanted.client_directives);
    let mut vary_miss = false;
    let mut found = find(worker, wanted, &mut vary_miss).await;
    let mut is_lost = false;
    let mut why = if vary_miss {
        Forward::VaryMiss
    } else {
        Forward::UriMiss
    };
    if let Some(found) = &found {
        let stored = &found.stored;
        if let Some(swap_in) = found.swap_in {
            on.stages.set(
                StageName::SwapIn,
                on.began,
                swap_in.start,
                swap_in.end,
                swap_in.end,
            );
        }
        let now = worker.now_ms();
        let standing = &stored.object().standing;
        let verdict = judge(standing, &directives, now);
        let class = match verdict {
            Verdict::Fresh => Some(stored.hit_class()),
            Verdict::StaleAllowed => Some(Class::Stale),
            // Behind the client's back all of it would be fetched.
            Verdict::StaleWhileRevalidate if found.is_sparse => {
                why = Forward::Stale;
                None
            }
            Verdict::StaleWhileRevalidate => {
                share::fetch_behind(worker, conn, wanted, found);
                Some(Class::Stale)
            }
            Verdict::Validate(reason) => {
                why = Forward::from(reason);
                None
            }
        };
        if let Some(class) = class {
            let mut status = Vec::with_capacity(48);
            CacheStatus::hit(&worker.shared.cache_name, &mut status).ttl(standing.ttl_s(now));
            let object = stored.object();
            let answered = answer::object(worker, conn, on, wanted, object, class, &status).await;
            match answered {
                Some(after) => return after,
                None => {
                    is_lost = true;
                    //= rfc9211 §2.2   partial: what is stored does not contain all of what is asked for
                    why = Forward::Partial;
                }
            }
        }
    }
    let held = found.as_ref().filter(|found| is_lost || found.is_sparse);
    let held = held
        .filter(|found| shared.still_valid(found.stored.object(), found.began))
        .map(|found| Held {
            object: found.stored.object().clone(),
            began: found.began,
            is_usable: is_lost,
        });
    if is_lost {
        found = None;
    }
    if directives.only_if_cached {
        return not_cached(worker, conn, on).await;
    }
    if on.head_only() || directives.no_store {
        // Not stored, so nothing to share: ask as it is.
        return Box::pin(pass::exchange(worker, conn, on, wanted, why)).await;
    }
    if held.is_some() || (wanted.head.seen.intersects(Seen::RANGE) && found.is_none()) {
        let parts = part::answer(worker, conn, on, wanted, &directives, held, why, may_wait);
        match Box::pin(parts).await {
            Outcome::Answered(after) => return after,
            Outcome::Pass => return Box::pin(pass::exchange(worker, conn, on, wanted, why)).await,
            Outcome::LookAgain => return Box::pin(cached(worker, conn, on, wanted, false)).await,
            Outcome::Fetch => {}
        }
    }
    fetched(worker, conn, on, wanted, directives, found, why, may_wait).await
}

/// Joins or starts a fetch and passes its answer on.
#[allow(clippy::too_many_arguments)]
async fn fetched(
    worker: &Rc<Worker>,
    conn: &mut Conn,
    on: &mut Answering,
    wanted: &Wanted,
    directives: RequestDirectives,
    found: Option<Found>,
    why: Forward,
    may_look_again: bool,
) -> After {
    let asked_at = Instant::now();
    let board = share::obtain(
        worker,
        conn,
        on,
        wanted,
        &directives,
        found.as_ref(),
        may_look_again,
    );
    let (reader, first_event, joined, in_vain) = match board.await {
        Obtained::Answer {
            reader,
            first_event,
            joined,
            in_vain,
        } => (reader, first_event, joined, in_vain),
        Obtained::LookAgain => return Box::pin(cached(worker, conn, on, wanted, false)).await,
        Obtained::Gone => return on.finish(worker, conn, &pass::nothing_sent(Class::Error)),
    };
    let stale = || share::valid(worker, found.as_ref());
    on.hierarchy = Hierarchy::Direct;
    on.peer = wanted.asked.destination.host.as_bytes().to_vec();
    let mut status = Vec::with_capacity(96);
    match first_event {
        FirstEvent::Response(response) => {
            note_moments(on, &response.moments);
            let failed = (500..=504).contains(&response.status) && response.status != 501;
            if failed
                && let Some(after) = instead(
                    worker,
                    conn,
                    on,
                    wanted,
                    &directives,
                    stale(),
                    why,
                    response.status,
                    false,
                )
                .await
            {
                return after;
            }
            let class = class_of(&response, joined);
            let mut line = CacheStatus::forwarded(&worker.shared.cache_name, why, &mut status);
            line = response.say_stored(line);
            //= rfc9211 §2.6   false: collapsing was attempted, and did not succeed
            if joined || in_vain {
                line = line.collapsed(joined);
            }
            response.say_why_not(line);
            deliver(worker, conn, on, wanted, &reader, &response, class, &status).await
        }
        FirstEvent::Validated(validated) => {
            note_moments(on, &validated.moments);
            let cookies = Some(&validated.withheld).filter(|lines| !joined && !lines.is_empty());
            let with_cookies = cookies.map(|lines| validated.object.with_lines(lines));
            let object = with_cookies.as_ref().unwrap_or(&validated.object);
            let ttl = object.standing.ttl_s(worker.now_ms());
            let mut line = CacheStatus::forwarded(&worker.shared.cache_name, why, &mut status)
                .forward_status(304)
                .ttl(ttl);
            if joined {
                line = line.collapsed(true);
            }
            let _ = line;
            let class = Class::Revalidated;
            match answer::object(worker, conn, on, wanted, object, class, &status).await {
                Some(after) => after,
                // It lacks some of its body.
                None => {
                    let looked_up = found.as_ref().map_or(Sequence::MAX, |f| f.began);
                    let held = Held {
                        object: validated.object.clone(),
                        began: reader.flight.began.min(looked_up),
                        is_usable: true,
                    };
                    let held = Some(held).filter(|_| validated.storable);
                    let parts =
                        part::answer(worker, conn, on, wanted, &directives, held, why, false);
                    match Box::pin(parts).await {
                        Outcome::Answered(after) => after,
                        _ => Box::pin(pass::exchange(worker, conn, on, wanted, why)).await,
                    }
                }
            }
        }
        FirstEvent::Failed(error) => {
            on.stages.set(
                StageName::ServerReply,
                on.began,
                asked_at,
                Instant::now(),
                Instant::now(),
            );
            let disconnected = !matches!(*error, FetchError::Abandoned);
            if let Some(after) = instead(
                worker,
                conn,
                on,
                wanted,
                &directives,
                stale(),
                why,
                error.status(),
                disconnected,
            )
            .await
            {
                return after;
            }
            CacheStatus::forwarded(&worker.shared.cache_name, why, &mut status)
                .detail(error.token());
            answer::own(
                worker,
                conn,
                on,
                error.status(),
                &error.to_string(),
                &[],
                &status,
            )
            .await
        }
    }
}

/// The stale object, when the origin failed and the rules allow it.
#[allow(clippy::too_many_arguments)]
async fn instead(
    worker: &Rc<Worker>,
    conn: &mut Conn,
    on: &mut Answering,
    wanted: &Wanted,
    directives: &RequestDirectives,
    stale: Option<&Found>,
    why: Forward,
    status: u16,
    disconnected: bool,
) -> Option<After> {
    let object = stale?.stored.object();
    let now = worker.now_ms();
    if !may_serve_on_error(&object.standing, directives, now, disconnected) {
        return None;
    }
    let mut line = Vec::with_capacity(64);
    CacheStatus::forwarded(&worker.shared.cache_name, why, &mut line)
        .forward_status(status)
        .ttl(object.standing.ttl_s(now))
        .detail("stale-if-error");
    answer::object(worker, conn, on, wanted, object, Class::Stale, &line).await
}

fn class_of(response: &Response, joined: bool) -> Class {
    if joined {
        Class::Collapsed
    } else if response.storable.is_ok() {
        Class::Miss
    } else {
        Class::Uncachable
    }
}

/// Notes how long the origin took.
pub fn note_moments(on: &mut Answering, moments: &Moments) {
    let began = on.began;
    if let Some((start, end)) = moments.dns {
        on.stages.set(StageName::Dns, began, start, end, end);
    }
    if let Some((start, end)) = moments.connect {
        on.stages
            .set(StageName::ProxyConnect, began, start, end, end);
    }
    let now = Instant::now();
    on.stages.set(
        StageName::ServerReply,
        began,
        moments.asked,
        moments.first,
        now,
    );
}

/// Passes an arriving response on, or answers a condition of the client from its head.
#[allow(clippy::too_many_arguments)]
pub async fn deliver(
    worker: &Rc<Worker>,
    conn: &mut Conn,
    on: &mut Answering,
    wanted: &Wanted,
    reader: &FlightReader,
    response: &Response,
    class: Class,
    cache_status: &[u8],
) -> After {
    let request: &Fields = &wanted.request;
    if share::is_conditional(request)
        && response.status == 200
        && let Condition::NotModified = httpcache::evaluate(request, &response.fields)
    {
        // The client has this very body: 304 from the head. The fetch goes on for the cache.
        let object = Object {
            key: Default::default(),
            hash: KeyHash(0),
            primary: KeyHash(0),
            status: 200,
            standing: response.standing,
            content_type: response.content_type,
            head: response.head.clone(),
            body: Default::default(),
            large: None,
        };
        let answered = answer::object(worker, conn, on, wanted, &object, class, cache_status);
        if let Some(after) = answered.await {
            return after;
        }
    }
    let answered = answer::arriving(
        worker,
        conn,
        on,
        request,
        reader,
        response,
        class,
        cache_status,
    );
    match answered.await {
        Some(after) => after,
        None => Box::pin(pass::exchange(worker, conn, on, wanted, Forward::UriMiss)).await,
    }
}
