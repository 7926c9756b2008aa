//! Joining a fetch in progress, or starting one: whom a request shares its answer with.
//!
//! Requests that may have one answer share a fetch ([`crate::fetch::flight`]). They must agree in the key under which the answer
//! is stored: the resource's, or the variant's once it is known that the answers vary. A request that joined in vain, because the
//! answer varies or is for one client alone, knows more by then: it joins or starts a fetch once more before it asks alone.
//!
//! - Requests with Authorization share only among themselves: their answers are seldom for others.
//! - Where the last answer could not be shared, requests do not wait for the next one ([`crate::fetch::hit_for_pass`]).
//! - A reload (`no-cache`, `max-age`, `min-fresh`) shares a fetch that begins after it came, and that asks in its words; where the
//!   listener makes reloads patient (`client-directives = "revalidate"`), any fetch whose answer is not older than a second.
//!
//! Limits: a request joins [`JOINS_MAX`] times; a reload waits for the fetch before it, not for ever (`task`).
//! Not known here: what is stored, what becomes of the answer (`exchange`).

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

/// So many times a request joins others; after as many disappointments it asks alone.
const JOINS_MAX: u32 = 2;
/// What became of looking for company.
pub enum Obtained {
    /// There is an answer, or the first event that there is none.
    Answer(Answer),
    /// What is wanted has been stored meanwhile.
    LookAgain,
    /// The client has gone.
    Gone,
    /// The origin may not be asked.
    Stopped(Stopped),
}

/// What a fetch has brought.
pub struct Answer {
    /// Where its body comes from.
    pub reader: FlightReader,
    /// The answer.
    pub first_event: FirstEvent,
    /// Another request asked for it.
    pub joined: bool,
    /// An answer was waited for that this request may not have.
    pub in_vain: bool,
}

/// Joins or starts a fetch, and waits for its head. `found`: what is stored and must be validated. `may_look_again`: if
/// somebody has fetched it meanwhile.
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
        // A patient reload joins what is under way, once; if that has begun too long ago, it queues for the next like any reload.
        let queues = is_reload(directives) && (joins > 0 || !directives.may_share());
        // What has not begun when a reload comes is all that it asks for.
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

/// Fetches behind the back of a client that gets what is stale: one fetch a key.
pub fn fetch_behind(ex: &Exchange<'_>, wanted: &Wanted, stale: &Found) {
    let worker = ex.worker;
    let key = flight_key(&worker.shared.cache, wanted);
    let directives = RequestDirectives::default();
    let trip = Trip::new();
    // Nobody waits for it, so it is left out where a quota is used up.
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

/// The key that requests must agree in to share a fetch for this, as far as it is known: that under which the answer is stored.
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

/// What to look for company with after an answer that could not be had. Nothing: there is no use in that.
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
    // A patient reload that found an old answer: it queues under the same key.
    let again = is_reload(directives).then(|| key.clone());
    match first_event {
        // Waiting once more would only add to the wait; what an origin in trouble said to another is not this client's to have.
        FirstEvent::Response(response) if response.status >= 500 => None,
        FirstEvent::Response(response) if response.storable.is_ok() => {
            // It is not stored, so no marker tells the list. A salt of 0 is nobody's.
            let Ok(Some(list)) = httpcache::vary_list(&response.fields) else {
                return again;
            };
            let key = variant_key(wanted, 0, &list.to_bytes());
            Some(Party::of(&wanted.request).key(key))
                .filter(|key| key != tried)
                .or(again)
        }
        // That fetch is not to be joined any more.
        FirstEvent::Response(_) => Some(key),
        FirstEvent::Validated(validated) if !validated.storable => Some(key),
        FirstEvent::Validated(_) => again,
        FirstEvent::Failed(_) => None,
    }
}

/// How a request looks for others that ask for the same.
struct Company<'a> {
    wanted: &'a Wanted,
    directives: &'a RequestDirectives,
    /// It queues for the next fetch, like any reload.
    queues: bool,
    /// Nothing is stored, and its condition is about what it has itself.
    asks_about_its_own: bool,
    may_look_again: bool,
}

impl Company<'_> {
    /// As [`Self::look_for`], and pays for the fetch that it begins. Whoever joins another's pays nothing.
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
            // It was joined by then, or has ended: it is counted, whether there is room or not.
            _ if is_under_way => toll = paying::miss_at_once(ex).ok().flatten(),
            _ => {}
        }
        Ok((join, is_for_one, toll))
    }

    /// Joins a fetch or begins one. True: it fetches alone, because the last answer could not be shared.
    fn look_for(&self, ex: &Exchange<'_>, key: Option<&[u8]>) -> (Join, bool) {
        let (worker, wanted) = (ex.worker, self.wanted);
        let (flights, primary) = (&worker.shared.flights, wanted.primary);
        let Some(key) = key else {
            return (Join::Alone, false);
        };
        // What is purged meanwhile is purged in another process, which does not know of our fetches.
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

/// A reader of the fetch, which is started if it is ours. True: it is another request's. `None`: there is no need for one.
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

/// Joins the fetch for this key, or starts one, unless it was stored since it was looked up.
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

/// Could the last answer not be shared?
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

/// Asks for what the origin says now, or has said not long ago.
fn is_reload(directives: &RequestDirectives) -> bool {
    directives.no_cache || directives.max_age_s.is_some() || directives.min_fresh_s.is_some()
}

/// What a reload says to caches between us and the origin: only reloads that say the same may share its answer.
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

/// What was purged after it was looked up is neither validated nor served instead.
pub fn valid<'a>(cache: &Cache, found: Option<&'a Found>) -> Option<&'a Found> {
    found.filter(|found| cache.still_valid(found.stored.object(), found.began))
}

/// Does the request hold a condition that a stored response can answer?
pub fn is_conditional(request: &Fields) -> bool {
    request.contains(b"if-none-match") || request.contains(b"if-modified-since")
}

/// What to fetch for a request that came by this listener. `stale`: what is to be validated. `trip`: where it is noted what that takes.
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

/// Waits for the head, and passes interim responses on meanwhile. `None`: the client has gone. `is_for_one`: that is looked for, for the
/// fetch ends with its client; another one goes on, and so does a wait whose client has merely finished sending.
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

/// May a request that joined be given what the fetch brought? `directives`: what the answer has to satisfy of those it said.
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
        // The same failure would await it; but it may have a stale object of its own, so it gets the first event.
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
        // The response's rules, and the waiter's word.
        rules: &Rules {
            client_directives: wanted.client_directives,
            ..*its_rules
        },
    };
    is_storable
        && !wanted.is_foreign(standing)
        && may_share_as(&leader, &waiter, &answer, standing, now, &terms)
}
