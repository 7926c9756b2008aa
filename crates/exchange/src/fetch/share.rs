//! Joins a fetch in progress, or starts one: decides with which requests a request shares its answer.
//!
//! Requests that may have the same answer share a fetch ([`crate::fetch::flight`]). They must have the same key for the stored answer:
//! the resource's, or the variant's once it is known that the answers vary. If a request joined in vain, because the answer varies or
//! is for one client only, that answer tells more about the key: the request joins or starts a fetch once more before it fetches alone.
//!
//! - Requests with Authorization share only among themselves: their answers are seldom for others.
//! - If the last answer could not be shared, requests do not wait for the next one ([`crate::fetch::hit_for_pass`]).
//! - A reload (`no-cache`, `max-age`, `min-fresh`) shares a fetch that begins after the reload arrived and has the same directives. If
//!   the listener makes reloads patient (`client-directives = "revalidate"`), it shares any fetch with an answer at most a second old.
//!
//! Limits: a request joins at most [`JOINS_MAX`] times; a reload waits for the fetch before it, but for a limited time (`task`).
//! Not known here: what is stored, how the answer is used (`exchange`).

use std::sync::atomic::Ordering;

use base::clock::Instant;
use base::mistakes::{Mistake, makes};
use std::{rc::Rc, sync::Arc};

use fields::Fields;
use httpcache::{Request, RequestDirectives, Rules, Terms, VaryList, Verdict, judge, may_share_as};
use store::KeyHash;

use crate::{
    fetch::{
        collecting,
        flight::{FirstEvent, FlightReader, Flights, Heard, Join},
        hit_for_pass::Party,
        response::FetchRequest,
        task,
    },
    listener::ListenerState,
    request::{
        exchange::Exchange,
        find::Found,
        paying::{self, Stopped},
        toll::Toll,
        wanted::Wanted,
    },
    storage::Storage,
};
use cache::Cache;
use origin::trip::Trip;
use record::metrics::{self, Counters};
use rules::key::{self, hash_of_key};

/// How often a request joins others; after as many unusable answers it fetches alone.
const JOINS_MAX: u32 = 2;
/// The result of looking for an answer to share.
pub enum Obtained {
    /// The head of an answer, or the failure of the fetch.
    Answer(Answer),
    /// Another request has stored the response meanwhile.
    LookAgain,
    /// The client has gone.
    Gone,
    /// A quota forbids asking the origin.
    Stopped(Stopped),
}

/// The result of a fetch.
pub struct Answer {
    /// Reads the body.
    pub reader: FlightReader,
    /// The head, or the failure.
    pub first_event: FirstEvent,
    /// Another request began the fetch.
    pub joined: bool,
    /// The request has waited before for an answer that it may not have.
    pub in_vain: bool,
}

/// Joins or starts a fetch, and waits for its head. `found`: a stored response that must be validated. `may_look_again`: whether to
/// return when another request has stored the response meanwhile.
pub async fn obtain(
    ex: &mut Exchange<'_>,
    wanted: &Wanted,
    directives: &RequestDirectives,
    found: Option<&Found>,
    may_look_again: bool,
) -> Obtained {
    let worker = ex.worker;
    let primary = wanted.primary;
    let asks_about_its_own = found.is_none() && is_conditional(&wanted.request);
    let none = RequestDirectives::default();
    let (mut key, mut joins) = (Some(flight_key(&worker.shared.cache, wanted)), 0);
    loop {
        // A patient reload joins the fetch under way, once; if that began too long ago, the reload queues for the next like any other.
        let queues = is_reload(directives) && (joins > 0 || !directives.may_share());
        // A queued reload only asks for a fetch that begins later, so its directives are met.
        let to_satisfy = if queues { &none } else { directives };
        let company = Company {
            wanted,
            directives,
            queues,
            asks_about_its_own,
            may_look_again,
        };
        let (join, is_for_one, toll) = match company.pay_and_look_for(ex, key.as_deref()).await {
            Ok(found) => found,
            Err(stopped) => return Obtained::Stopped(stopped),
        };
        let trip = ex.record.trip();
        let stale = valid(&worker.shared.cache, found);
        let is_conditional = asks_about_its_own && matches!(join, Join::Alone);
        let fetch_request = || FetchRequest {
            toll: toll.map(Rc::new),
            is_for_one,
            ..fetch_request(
                &worker.storage,
                &ex.listener,
                wanted,
                stale,
                is_conditional,
                trip,
            )
        };
        let Some((reader, joined)) = read_along(ex, primary, join, fetch_request) else {
            return Obtained::LookAgain;
        };
        if joined {
            ex.record.waits();
        }
        let Some(first_event) = first_event(ex, wanted, &reader, is_for_one).await else {
            return Obtained::Gone;
        };
        if joined {
            ex.record.hears_head();
            if !matches!(first_event, FirstEvent::Response(_)) {
                ex.record.waits_no_more(None);
            }
        }
        if !joined || may_have(&worker.storage, wanted, to_satisfy, &first_event) {
            let in_vain = joins > 0;
            return Obtained::Answer(Answer {
                reader,
                first_event,
                joined,
                in_vain,
            });
        }
        ex.record.waits_no_more(None);
        metrics::add(&worker.counters.flights_left, 1);
        joins += 1;
        key = key.filter(|_| joins < JOINS_MAX).and_then(|tried| {
            key_after(
                &worker.shared.cache,
                wanted,
                directives,
                &tried,
                &first_event,
            )
        });
    }
}

/// Fetches in the background after a stale response was served: one fetch a key.
pub fn fetch_behind(ex: &Exchange<'_>, wanted: &Wanted, stale: &Found) {
    let worker = ex.worker;
    let key = flight_key(&worker.shared.cache, wanted);
    let directives = RequestDirectives::default();
    let trip = Trip::new();
    // No client waits for this fetch, so it is omitted if a quota is used up.
    let Ok(toll) = paying::miss_behind(ex, &trip) else {
        return;
    };
    let join = join_or_start(
        (&worker.shared.flights, &worker.storage),
        wanted,
        &key,
        &directives,
        true,
    );
    let Join::Started(reader) = join else {
        toll.into_iter().for_each(Toll::give_back);
        return;
    };
    reader.is_content();
    {
        let fetch_request = fetch_request(
            &worker.storage,
            &ex.listener,
            wanted,
            Some(stale),
            false,
            trip,
        );
        let toll = toll.map(Rc::new);
        let fetch_request = FetchRequest {
            toll,
            ..fetch_request
        };
        task::start(worker, Arc::clone(&reader.flight), fetch_request);
    }
}

/// The key that requests must share to share a fetch, as far as it is known: that of the stored answer.
pub fn flight_key(cache: &Cache, wanted: &Wanted) -> Vec<u8> {
    let key = match cache.store.marker(wanted.primary) {
        Some(marker) => variant_key(wanted, marker.salt, &marker.list),
        None if wanted.extras.is_empty() => wanted.key.clone(),
        None => [&wanted.key[..], b"\n", &wanted.extras].concat(),
    };
    Party::of(&wanted.request).key(key)
}

fn variant_key(wanted: &Wanted, salt: u64, list: &[u8]) -> Vec<u8> {
    key::variant_key(&wanted.key, salt, list, &wanted.request, &wanted.extras)
}

/// The key to join under after an answer that the request may not have. `None`: fetch alone.
fn key_after(
    cache: &Cache,
    wanted: &Wanted,
    directives: &RequestDirectives,
    tried: &[u8],
    first_event: &FirstEvent,
) -> Option<Vec<u8>> {
    let key = flight_key(cache, wanted);
    if key != tried {
        return Some(key);
    }
    // A patient reload that got an answer too old queues under the same key.
    let again = is_reload(directives).then(|| key.clone());
    match first_event {
        // Another wait would only delay the request, and an origin's error for another client is not for this one.
        FirstEvent::Response(response) if response.status >= 500 => None,
        FirstEvent::Response(response) if response.storable.is_ok() => {
            // The answer is not stored, so no marker has its Vary list. No variant has the salt 0.
            let Ok(Some(list)) = httpcache::vary_list(&response.fields) else {
                return again;
            };
            let key = variant_key(wanted, 0, &list.to_bytes());
            Some(Party::of(&wanted.request).key(key))
                .filter(|key| key != tried)
                .or(again)
        }
        // That fetch cannot be joined any more.
        FirstEvent::Response(_) => Some(key),
        FirstEvent::Validated(validated) if !validated.storable => Some(key),
        FirstEvent::Validated(_) => again,
        FirstEvent::Failed(_) => None,
    }
}

/// How a request looks for others that want the same resource.
struct Company<'a> {
    wanted: &'a Wanted,
    directives: &'a RequestDirectives,
    /// Queue for the next fetch, as a reload does.
    queues: bool,
    /// Nothing is stored, and the request's condition is about the client's own copy.
    asks_about_its_own: bool,
    may_look_again: bool,
}

impl Company<'_> {
    /// Like [`Self::look_for`], and counts a fetch at its quotas if it starts one. Joining another request's fetch is not counted.
    async fn pay_and_look_for(
        &self,
        ex: &mut Exchange<'_>,
        key: Option<&[u8]>,
    ) -> Result<(Join, bool, Option<Toll>), Stopped> {
        let flights = &ex.worker.shared.flights;
        let counts_misses = !ex.record.tolls.misses.is_empty();
        let is_listed = |key| flights.is_listed(self.wanted.primary, key);
        let is_under_way = counts_misses && key.is_some_and(is_listed);
        let mut toll = None;
        if counts_misses && !is_under_way {
            toll = Box::pin(paying::miss(ex)).await?;
        }
        let (join, is_for_one) = self.look_for(ex, key);
        match &join {
            Join::Joined(_) | Join::Unneeded => toll.take().into_iter().for_each(Toll::give_back),
            // The fetch under way can no longer be joined, so this request fetches. Count that if the quota has room; fetch even if it has none.
            _ if is_under_way => toll = paying::miss_at_once(ex).ok().flatten(),
            _ => {}
        }
        Ok((join, is_for_one, toll))
    }

    /// Joins a fetch or starts one. True: fetches alone because the last answer could not be shared.
    fn look_for(&self, ex: &Exchange<'_>, key: Option<&[u8]>) -> (Join, bool) {
        let (worker, wanted) = (ex.worker, self.wanted);
        let (flights, primary) = (&worker.shared.flights, wanted.primary);
        let Some(key) = key else {
            return (Join::Alone, false);
        };
        // Purges are now made in another process, which does not know this one's fetches, so do not share them.
        if worker.shared.is_handed_over.load(Ordering::Relaxed) {
            return (Join::Alone, false);
        }
        if is_passed_for_now(flights, &worker.counters, wanted, ex.record.seen) {
            return (Join::Alone, true);
        }
        let may_share = self.directives.may_share();
        let join = if self.asks_about_its_own {
            let joined = may_share.then(|| flights.join(primary, key)).flatten();
            joined.map_or(Join::Alone, Join::Joined)
        } else if self.queues {
            let sequence = || worker.shared.cache.store.sequence(primary);
            flights.join_or_queue(primary, key, &said(&wanted.request), sequence)
        } else if may_share {
            let again = self.may_look_again;
            join_or_start(
                (flights, &worker.storage),
                wanted,
                key,
                self.directives,
                again,
            )
        } else {
            Join::Alone
        };
        (join, false)
    }
}

/// A reader of the fetch, which is started here unless it is another request's (true). `None`: no fetch is needed.
fn read_along(
    ex: &Exchange<'_>,
    primary: KeyHash,
    join: Join,
    fetch_request: impl FnOnce() -> FetchRequest,
) -> Option<(FlightReader, bool)> {
    let worker = ex.worker;
    let reader = match join {
        Join::Joined(reader) => {
            metrics::add(&worker.counters.flights_joined, 1);
            return Some((reader, true));
        }
        Join::Started(reader) => reader,
        Join::Behind(reader, ahead) => {
            metrics::add(&worker.counters.flights_queued, 1);
            let flight = Arc::clone(&reader.flight);
            task::start_behind(worker, flight, fetch_request(), ahead);
            return Some((reader, false));
        }
        Join::Alone => {
            let sequence = worker.shared.cache.store.sequence(primary);
            worker.shared.flights.start_alone(primary, sequence)
        }
        Join::Unneeded => return None,
    };
    task::start(worker, Arc::clone(&reader.flight), fetch_request());
    Some((reader, false))
}

/// Joins a fetch for this key, or starts one, unless the response was stored since its look-up.
fn join_or_start(
    (flights, storage): (&Flights, &Storage),
    wanted: &Wanted,
    key: &[u8],
    directives: &RequestDirectives,
    may_look_again: bool,
) -> Join {
    let began = || {
        let sequence = storage.cache.store.sequence(wanted.primary);
        let is_served = || {
            let resident = storage
                .cache
                .memory
                .get(hash_of_key(storage.hasher, key), key)?;
            let standing = &resident.object.standing;
            let verdict = judge(standing, directives, storage.now_ms());
            Some(matches!(verdict, Verdict::Fresh) && !wanted.is_foreign(standing))
        };
        let is_unneeded = may_look_again && is_served() == Some(true);
        (!is_unneeded).then_some(sequence)
    };
    flights.join_or_start(wanted.primary, key, began)
}

/// Must the request fetch alone because the last answer could not be shared?
fn is_passed_for_now(
    flights: &Flights,
    counters: &Counters,
    wanted: &Wanted,
    seen: Instant,
) -> bool {
    let hit_for_pass = &flights.hit_for_pass;
    let party = Party::of(&wanted.request);
    let is_alone = hit_for_pass.contains(wanted.primary, party, seen);
    if is_alone {
        metrics::add(&counters.flights_hit_for_pass, 1);
    }
    is_alone
}

/// Does the request want an answer that the origin gives now, or gave recently?
fn is_reload(directives: &RequestDirectives) -> bool {
    directives.no_cache || directives.max_age_s.is_some() || directives.min_fresh_s.is_some()
}

/// The directives of a reload for caches between us and the origin: only reloads with the same ones may share an answer.
fn said(request: &Fields) -> Vec<u8> {
    let cache_control = request.all(b"cache-control");
    let pragma = request.all(b"pragma");
    let mut said = Vec::new();
    for line in cache_control.chain([&b"|"[..]]).chain(pragma) {
        said.extend_from_slice(line);
        said.push(b',');
    }
    said
}

/// The stored response, unless it was purged since its look-up: then it is neither validated nor served.
pub fn valid<'a>(cache: &Cache, found: Option<&'a Found>) -> Option<&'a Found> {
    found.filter(|found| cache.still_valid(found.stored.object(), found.began))
}

/// Does the request hold a condition that a stored response can answer?
pub fn is_conditional(request: &Fields) -> bool {
    request.contains(b"if-none-match") || request.contains(b"if-modified-since")
}

/// The input of a fetch for this request. `stale`: the response to validate. `trip`: measures the request to the origin.
pub fn fetch_request(
    storage: &Storage,
    listener: &Rc<ListenerState>,
    wanted: &Wanted,
    stale: Option<&Found>,
    is_conditional: bool,
    trip: Trip,
) -> FetchRequest {
    FetchRequest {
        listener: Rc::clone(listener),
        asked: wanted.asked.clone(),
        request: Arc::clone(&wanted.request),
        is_conditional,
        is_for_one: false,
        version: wanted.head.version,
        takes_trailers: wanted.takes_trailers,
        key: wanted.key.clone(),
        met: wanted.met.clone(),
        extras: wanted.extras.clone(),
        is_contested: wanted.is_contested.get(),
        stale: stale.map(|f| f.stored.object().clone()),
        stale_began: stale.map_or(0, |f| f.began),
        is_forwarded: false,
        copied: None,
        as_sent: collecting::as_sent(storage.cluster.as_deref(), wanted),
        trip,
        toll: None,
    }
}

/// Waits for the head, and passes interim responses on meanwhile. `None`: the client has gone. `is_for_one`: watch for the client's
/// leaving, since the fetch ends with it. Any other fetch goes on, even if the client has merely shut down its sending side.
async fn first_event(
    ex: &mut Exchange<'_>,
    wanted: &Wanted,
    reader: &FlightReader,
    is_for_one: bool,
) -> Option<FirstEvent> {
    let mut heard = 0;
    loop {
        let next = reader.heard(heard);
        let next = match is_for_one {
            true => tokio::select! {
                biased;
                next = next => next,
                () = ex.reply.client_leaves() => return None,
            },
            false => next.await,
        };
        let hint = match next {
            Heard::FirstEvent(first_event) => return Some(first_event),
            Heard::Hint(hint) => hint,
        };
        heard += 1;
        let is_same =
            Arc::ptr_eq(&hint.asked_with, &wanted.request) || hint.asked_with == wanted.request;
        if is_same {
            let head = &hint.head;
            let shown = ex.reply.interim(head.status, &head.reason, &head.fields);
            shown.await.ok()?;
        }
    }
}

/// May a joined request be given this result? `directives`: those of its directives that the answer must satisfy.
pub fn may_have(
    storage: &Storage,
    wanted: &Wanted,
    directives: &RequestDirectives,
    first_event: &FirstEvent,
) -> bool {
    if makes(Mistake::ShareAnything) && !matches!(first_event, FirstEvent::Failed(_)) {
        return true;
    }
    let waiter = Request {
        method: &wanted.head.method,
        fields: &wanted.request,
    };
    let now = storage.now_ms();
    let marker = storage.cache.store.marker(wanted.primary);
    let list = marker.and_then(|marker| VaryList::from_bytes(&marker.list));
    let stored_fields;
    let (is_storable, asked_with, status, fields, standing, its_rules) = match first_event {
        FirstEvent::Response(response) => (
            response.storable.is_ok(),
            &response.asked_with,
            response.status,
            &response.fields,
            &response.standing,
            &response.decision.rules,
        ),
        FirstEvent::Validated(validated) => {
            stored_fields = validated.object.fields();
            (
                validated.storable,
                &validated.asked_with,
                validated.object.status,
                &stored_fields,
                &validated.object.standing,
                &validated.rules,
            )
        }
        // The joined request would meet the same failure, but may have a stale object of its own to serve, so it gets the result.
        FirstEvent::Failed(_) => return true,
    };
    let leader = Request {
        method: "GET",
        fields: asked_with,
    };
    let answer = httpcache::Response { status, fields };
    let terms = Terms {
        directives,
        list: list.as_ref(),
        // The response's rules, with this request's own setting for client directives.
        rules: &Rules {
            client_directives: wanted.client_directives,
            ..*its_rules
        },
    };
    is_storable
        && !wanted.is_foreign(standing)
        && may_share_as(&leader, &waiter, &answer, standing, now, &terms)
}
