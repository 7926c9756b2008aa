//! The long way of a request: everything that is not a plain, fresh hit in memory.
//!
//! Which resource it names, whether the cache may answer it, what is stored, whether that may be served, and if
//! not, whom to ask. Decisions about caching are `httpcache`'s; this file puts them in order:
//!
//! 1. CONNECT, upgrades, OPTIONS and TRACE with Max-Forwards, unsafe methods and bodies go to [`crate::pass`].
//! 2. Memory, then disk, under the key or (Vary) the variant's key.
//! 3. Fresh enough: serve. Stale but allowed: serve, and revalidate behind.
//! 4. Else join the fetch in progress or start one, and pass its answer on if this request may have it.

use std::{rc::Rc, sync::Arc, time::Instant};

use fields::Fields;
use http1::{Framing, RequestHead, Seen};
use httpcache::{
    Condition, Request, RequestDirectives, Verdict,
    cache_status::{CacheStatus, Forward},
    judge, may_serve_on_error, may_share,
};
use profile::{Class, StageName, access::Hierarchy};
use store::{KeyHash, Sequence};

use crate::{
    answer::{self, Answering},
    client::{After, Conn, Incoming},
    disk::SwapIn,
    fetch::{self, Errand, FetchError, Response},
    flight::{Boarding, FlightReader, News},
    memory::Resident,
    metrics,
    object::Object,
    pass,
    state::Worker,
    switch,
    target::{self, Asked},
    upstream::Moments,
};

/// Answers one request.
pub async fn handle(worker: &Rc<Worker>, conn: &mut Conn, incoming: Incoming) -> After {
    let mut on = Answering::new(&incoming);
    let head = incoming.head;
    if head.method == "CONNECT" {
        // The ways less travelled are boxed, so that the future of every request stays small.
        return Box::pin(switch::connect(worker, conn, &mut on, &head)).await;
    }
    if (head.method == "OPTIONS" || head.method == "TRACE")
        && let Some(after) = Box::pin(pass::final_recipient(worker, conn, &mut on, &head)).await
    {
        return after;
    }
    //= rfc9110 §7.6.3   Via shows a loop: this request has been here before
    let own = fetch::via_value(worker);
    if head.seen.intersects(Seen::VIA) && head.fields.members(b"via").any(|hop| hop == own) {
        let (status, reason) = (502, "the request goes round in a circle");
        on.keep_open &= head.framing == Framing::None;
        let cache = b"loligo; detail=proxy_loop_detected";
        return answer::own(worker, conn, &mut on, status, reason, &[], cache).await;
    }
    let listener = Rc::clone(&conn.listener);
    let place = match target::locate(&listener, &head.method, &head.target, head.host.as_deref()) {
        Ok(place) => place,
        Err(misplaced) => {
            let (status, reason) = misplaced.answer();
            on.keep_open &= head.framing == Framing::None;
            return answer::own(worker, conn, &mut on, status, reason, &[], b"").await;
        }
    };
    let mut key = Vec::with_capacity(128);
    place.write_key(&mut key);
    on.uri = target::uri_of_key(&key).to_vec();
    let asked = place.ask();
    let plain_method = head.method == "GET" || head.method == "HEAD";
    let passes = !plain_method
        || head.framing != Framing::None
        || head.seen.intersects(Seen::UPGRADE)
        || head
            .seen
            .intersects(Seen::IF_MATCH.union(Seen::IF_UNMODIFIED_SINCE));
    let mut head = head;
    let wanted = Wanted {
        primary: worker.hasher.hash(&key),
        key,
        asked,
        request: Arc::new(std::mem::take(&mut head.fields)),
        head,
    };
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
    cached(worker, conn, &mut on, &wanted).await
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
    /// Its fields: shared, because the fetch outlives the request.
    pub request: Arc<Fields>,
}

/// A stored response, and what was so when it was looked up.
struct Found {
    stored: Stored,
    swap_in: Option<SwapIn>,
    /// The invalidation sequence before the look-up.
    began: Sequence,
}

/// A stored response, wherever it was found.
enum Stored {
    Memory(Arc<Resident>),
    Disk(Box<Object>),
}

impl Stored {
    fn object(&self) -> &Object {
        match self {
            Stored::Memory(resident) => &resident.object,
            Stored::Disk(object) => object,
        }
    }

    fn hit_class(&self) -> Class {
        match self {
            Stored::Memory(_) => Class::MemoryHit,
            Stored::Disk(_) => Class::DiskHit,
        }
    }
}

async fn cached(
    worker: &Rc<Worker>,
    conn: &mut Conn,
    on: &mut Answering,
    wanted: &Wanted,
) -> After {
    let request: &Fields = &wanted.request;
    let directives = RequestDirectives::parse(request);
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
            Verdict::StaleWhileRevalidate => {
                revalidate_behind(worker, conn, wanted, found);
                Some(Class::Stale)
            }
            Verdict::Validate(reason) => {
                why = match reason.as_str() {
                    "request" => Forward::Request,
                    _ => Forward::Stale,
                };
                None
            }
        };
        if let Some(class) = class {
            let mut status = Vec::with_capacity(48);
            CacheStatus::hit(&mut status).ttl(standing.ttl_s(now));
            let object = stored.object();
            let answered = answer::object(worker, conn, on, wanted, object, class, &status).await;
            match answered {
                Some(after) => return after,
                None => is_lost = true,
            }
        }
    }
    if is_lost {
        found = None;
    }
    if directives.only_if_cached {
        //= rfc9111 §5.2.1.7   504 when it cannot be answered from the cache
        let reason = "only-if-cached was asked for, and nothing stored may be served";
        return answer::own(
            worker,
            conn,
            on,
            504,
            reason,
            &[],
            b"loligo; detail=only-if-cached",
        )
        .await;
    }
    let range_only = wanted.head.seen.intersects(Seen::RANGE) && found.is_none();
    if on.head_only() || directives.no_store || range_only {
        // Not stored, so nothing to share: ask as it is.
        return Box::pin(pass::exchange(worker, conn, on, wanted, why)).await;
    }
    fetched(worker, conn, on, wanted, directives, found, why).await
}

/// Looks in memory, then on disk; promotes what came from disk.
async fn find(worker: &Rc<Worker>, wanted: &Wanted, vary_miss: &mut bool) -> Option<Found> {
    let shared = &worker.shared;
    let began = shared.store.sequence(wanted.primary);
    let in_memory = |resident| Found {
        stored: Stored::Memory(resident),
        swap_in: None,
        began,
    };
    if let Some(resident) = shared.memory.get(wanted.primary, &wanted.key) {
        return Some(in_memory(resident));
    }
    let variant;
    let (hash, key): (KeyHash, &[u8]) = match shared.store.marker(wanted.primary) {
        None => (wanted.primary, &wanted.key),
        Some(marker) => {
            *vary_miss = true;
            variant = fetch::variant_key(&wanted.key, marker.salt, &marker.list, &wanted.request);
            let hash = worker.hasher.hash(&variant);
            if let Some(resident) = shared.memory.get(hash, &variant) {
                return Some(in_memory(resident));
            }
            (hash, &variant)
        }
    };
    let disk = worker.disk.as_ref()?;
    let (object, swap_in) = disk.load(wanted.primary, hash, key).await?;
    if !shared.still_valid(&object, began) {
        return None; // purged while it was read
    }
    match &object.large {
        Some(large) => {
            if !disk.has_fragments(wanted.primary, &object.key, large) {
                shared.store.of(wanted.primary).forget(hash);
                return None;
            }
        }
        None => shared
            .memory
            .promote(&object, |object| shared.still_valid(object, began)),
    }
    Some(Found {
        stored: Stored::Disk(Box::new(object)),
        swap_in,
        began,
    })
}

/// Serves stale and fetches behind the client's back: one fetch a key.
fn revalidate_behind(worker: &Rc<Worker>, conn: &Conn, wanted: &Wanted, stale: &Found) {
    let shared = &worker.shared;
    let boarding = shared
        .flights
        .join_or_start(wanted.primary, &wanted.key, || {
            shared.store.sequence(wanted.primary)
        });
    if let Boarding::Started(reader) = boarding {
        let errand = errand(conn, wanted, Some(stale));
        fetch::start(worker, Arc::clone(&reader.flight), errand);
    }
}

fn errand(conn: &Conn, wanted: &Wanted, stale: Option<&Found>) -> Errand {
    Errand {
        listener: Rc::clone(&conn.listener),
        asked: wanted.asked.clone(),
        request: Arc::clone(&wanted.request),
        stale: stale.map(|f| f.stored.object().clone()),
        stale_began: stale.map_or(0, |f| f.began),
    }
}

/// Joins or starts a fetch and passes its answer on.
async fn fetched(
    worker: &Rc<Worker>,
    conn: &mut Conn,
    on: &mut Answering,
    wanted: &Wanted,
    directives: RequestDirectives,
    found: Option<Found>,
    why: Forward,
) -> After {
    let shared = &worker.shared;
    let began = || shared.store.sequence(wanted.primary);
    // What was purged after it was looked up is neither validated nor served instead.
    let still_valid = |found: &&Found| shared.still_valid(found.stored.object(), found.began);
    let stale = || found.as_ref().filter(still_valid);
    // A request that asks for a newer answer than others would take does not share theirs.
    let boarding = if directives.is_plain() {
        shared
            .flights
            .join_or_start(wanted.primary, &wanted.key, began)
    } else {
        Boarding::Alone
    };
    let (reader, mut joined) = match boarding {
        Boarding::Joined(reader) => {
            metrics::add(&worker.counters.flights_joined, 1);
            (reader, true)
        }
        Boarding::Started(reader) => {
            fetch::start(
                worker,
                Arc::clone(&reader.flight),
                errand(conn, wanted, stale()),
            );
            (reader, false)
        }
        Boarding::Alone => (alone(worker, conn, wanted, stale()), false),
    };
    let asked_at = Instant::now();
    let mut reader = reader;
    let mut news = reader.news().await;
    if joined && !may_have(worker, wanted, &news) {
        metrics::add(&worker.counters.flights_left, 1);
        joined = false;
        reader = alone(worker, conn, wanted, stale());
        news = reader.news().await;
    }
    on.hierarchy = Hierarchy::Direct;
    on.peer = wanted.asked.destination.host.as_bytes().to_vec();
    let mut status = Vec::with_capacity(96);
    match news {
        News::Response(response) => {
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
            let mut line = CacheStatus::forwarded(why, &mut status);
            if response.stored {
                line = line.stored(true);
            }
            if joined {
                line = line.collapsed(true);
            }
            if let Err(reason) = response.storable {
                line.detail(reason.as_str());
            }
            deliver(worker, conn, on, wanted, &reader, &response, class, &status).await
        }
        News::Validated(validated) => {
            note_moments(on, &validated.moments);
            let object = &validated.object;
            let ttl = object.standing.ttl_s(worker.now_ms());
            let mut line = CacheStatus::forwarded(why, &mut status)
                .forward_status(304)
                .ttl(ttl);
            if joined {
                line = line.collapsed(true);
            }
            let _ = line;
            let class = Class::Revalidated;
            match answer::object(worker, conn, on, wanted, object, class, &status).await {
                Some(after) => after,
                // Its body was lost meanwhile.
                None => Box::pin(pass::exchange(worker, conn, on, wanted, why)).await,
            }
        }
        News::Failed(error) => {
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
            CacheStatus::forwarded(why, &mut status).detail(error.token());
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

fn alone(worker: &Rc<Worker>, conn: &Conn, wanted: &Wanted, stale: Option<&Found>) -> FlightReader {
    let shared = &worker.shared;
    let sequence = shared.store.sequence(wanted.primary);
    let reader = shared
        .flights
        .start_alone(wanted.primary, &wanted.key, sequence);
    fetch::start(
        worker,
        Arc::clone(&reader.flight),
        errand(conn, wanted, stale),
    );
    reader
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
    CacheStatus::forwarded(why, &mut line)
        .forward_status(status)
        .ttl(object.standing.ttl_s(now))
        .detail("stale-if-error");
    answer::object(worker, conn, on, wanted, object, Class::Stale, &line).await
}

/// May a request that joined be given what the fetch brought?
fn may_have(worker: &Worker, wanted: &Wanted, news: &News) -> bool {
    let waiter = Request {
        method: &wanted.head.method,
        fields: &wanted.request,
    };
    let now = worker.now_ms();
    match news {
        News::Response(response) => {
            if response.storable.is_err() {
                return false;
            }
            let leader = Request {
                method: "GET",
                fields: &response.asked_with,
            };
            let answer = httpcache::Response {
                status: response.status,
                fields: &response.fields,
            };
            may_share(
                &leader,
                &waiter,
                &answer,
                &response.standing,
                now,
                &worker.shared.rules,
            )
        }
        News::Validated(validated) => {
            if !validated.storable {
                return false;
            }
            let leader = Request {
                method: "GET",
                fields: &validated.asked_with,
            };
            let fields = validated.object.fields();
            let answer = httpcache::Response {
                status: validated.object.status,
                fields: &fields,
            };
            let standing = &validated.object.standing;
            may_share(
                &leader,
                &waiter,
                &answer,
                standing,
                now,
                &worker.shared.rules,
            )
        }
        // The same failure would await it; but it may have a stale object of its own, so it gets the news.
        News::Failed(_) => true,
    }
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

fn note_moments(on: &mut Answering, moments: &Moments) {
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
async fn deliver(
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
    let conditional = request.contains(b"if-none-match") || request.contains(b"if-modified-since");
    if conditional
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
    match answer::arriving(worker, conn, on, reader, response, class, cache_status).await {
        Some(after) => after,
        None => Box::pin(pass::exchange(worker, conn, on, wanted, Forward::UriMiss)).await,
    }
}
