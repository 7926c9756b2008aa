//! One validation of a stale object with holes, for all requests that want a part of it.
//!
//! The first request asks the origin in its own words (its range, and a condition). Requests for other parts that come meanwhile wait for what the
//! origin says: a 304 is for all of them, an answer with all of a new representation is shared like any fetch, after anything else they
//! look again. It is listed as a flight (`fetch::flight`) of its own, so that a purge ends it.
//!
//! A client that may have it stale waits for nothing; the origin is asked behind its back. What has changed is not fetched then: the old
//! object is forgotten, and the next request fetches what it wants.
//!
//! Limits: those of flights. Not known here: what the client is sent.
//= rfc5861 §3   stale-while-revalidate: the cache asks in the background

use std::{rc::Rc, sync::Arc};

use bytes::Bytes;
use httpcache::{RangeAsked, RangeSpec, UnixMillis};
use message::ResponseHead;

use super::fill::UnderWay;
use crate::{
    fetch::{
        ask,
        flight::{FirstEvent, FlightReader, Join, Keeping, Validated},
        prepare::{self, Confirmed},
        response::FetchRequest,
        share,
        whom::To,
    },
    request::{exchange::Exchange, find::Found, onward, paying, toll::Toll, wanted::Wanted},
    state::Worker,
};
use origin::{trip::Trip, upstream::Upstream};
use record::metrics;

/// Of a flight's key: no key of an object ends so.
const BEHIND_KEY: &[u8] = b"\n\0validation";

/// The validation that a request has begun. Dropped, it ends, and those that wait look again.
pub struct Validation {
    worker: Rc<Worker>,
    reader: Option<FlightReader>,
}

/// Who validates.
pub enum Validates {
    /// This request, for all.
    First(Validation),
    /// Another one.
    Another(FlightReader),
    /// This one, for itself: too many wait already.
    Alone,
}

impl Validation {
    /// Joins a validation, or begins one.
    pub fn join_or_begin(worker: &Rc<Worker>, wanted: &Wanted) -> Validates {
        let mut key = share::flight_key(&worker.shared.cache, wanted);
        key.extend_from_slice(BEHIND_KEY);
        let shared = &worker.shared;
        let began = || Some(shared.cache.store.sequence(wanted.primary));
        match (shared.flights).join_or_start(wanted.primary, &key, began) {
            Join::Started(reader) => Validates::First(Validation {
                worker: Rc::clone(worker),
                reader: Some(reader),
            }),
            Join::Joined(reader) => {
                metrics::add(&worker.counters.flights_joined, 1);
                Validates::Another(reader)
            }
            Join::Behind(..) | Join::Alone | Join::Unneeded => Validates::Alone,
        }
    }

    /// The origin has confirmed the object.
    pub fn confirm(self, fetch_request: &FetchRequest, confirmed: &Confirmed) {
        let Some(reader) = &self.reader else {
            return;
        };
        let validated = Validated {
            object: confirmed.object.clone(),
            withheld: Bytes::new(),
            storable: confirmed.is_kept,
            asked_with: Arc::clone(&fetch_request.request),
            rules: confirmed.decision.rules,
        };
        let first_event = FirstEvent::Validated(Arc::new(validated));
        self.worker.shared.flights.remove(&reader.flight);
        (reader.flight).publish(first_event, confirmed.is_kept, Keeping::Nothing, 0);
    }

    /// The origin has sent another answer, which a fetch publishes from here on.
    pub fn into_reader(mut self) -> Option<FlightReader> {
        self.reader.take()
    }
}

impl Drop for Validation {
    fn drop(&mut self) {
        if let Some(reader) = &self.reader {
            self.worker.shared.flights.remove(&reader.flight);
            reader.flight.abandon();
        }
    }
}

/// Validates behind the back of a client that gets a part of what is stale, unless another request does.
pub fn validate_behind(ex: &Exchange<'_>, wanted: &Wanted, stale: &Found) {
    let worker = ex.worker;
    let size = u64::from(
        worker
            .shared
            .cache
            .store
            .of(wanted.primary)
            .fragment_bytes(),
    );
    let spec = match httpcache::range_asked(&wanted.request) {
        RangeAsked::One(spec) => spec.aligned(size),
        // Of several parts, or none: little, if it has changed.
        _ => RangeSpec::FromTo {
            first: 0,
            last: size - 1,
        },
    };
    let mut fields = onward::plain_fields(&wanted.request);
    onward::set_range(&mut fields, spec);
    if !httpcache::add_validators(&stale.object().fields(), &mut fields) {
        return;
    }
    let trip = Trip::new();
    // Nobody waits for it, so it is left out where a quota is used up.
    let Ok(toll) = paying::miss_behind(ex, &trip) else {
        return;
    };
    let Validates::First(validation) = Validation::join_or_begin(worker, wanted) else {
        toll.into_iter().for_each(Toll::give_back);
        return;
    };
    let fetch_request = FetchRequest {
        toll: toll.map(Rc::new),
        ..share::fetch_request(
            &worker.storage,
            &ex.listener,
            wanted,
            Some(stale),
            false,
            trip,
        )
    };
    metrics::add(&worker.counters.revalidations, 1);
    fetch_request.trip.validates();
    let version = wanted.head.version;
    let request = onward::request(ex.edition(), "GET", version, &wanted.asked, &fields);
    let worker = Rc::clone(worker);
    worker.fetches.set(worker.fetches.get() + 1);
    tokio::task::spawn_local(async move {
        let under_way = UnderWay(&worker);
        let (watch, asked_at) = (worker.deadlines.watch(), worker.now_ms());
        let to = To {
            asked: &fetch_request.asked,
            listener: &fetch_request.listener,
            trip: &fetch_request.trip,
        };
        match ask::ask_final(&worker.asking, &watch, to, "GET", &request).await {
            Ok((upstream, head)) => {
                answered(
                    &worker,
                    &fetch_request,
                    (upstream, &head),
                    asked_at,
                    validation,
                )
                .await;
            }
            Err(error) => worker.counters.origin_failed(error.token()),
        }
        drop(under_way);
    });
}

/// The origin has answered a validation that nobody waits for, or only others.
async fn answered(
    worker: &Rc<Worker>,
    fetch_request: &FetchRequest,
    (upstream, head): (Upstream, &ResponseHead),
    asked_at: UnixMillis,
    validation: Validation,
) {
    let Some(stale) = &fetch_request.stale else {
        return;
    };
    match head.status {
        304 if httpcache::validates(&stale.fields(), &head.fields) => {
            let watch = worker.deadlines.watch();
            // A 304 has no body; reading its end returns the connection to the pool.
            let _ = upstream.body(head).next(&worker.origin, &watch).await;
            metrics::add(&worker.counters.revalidations_not_modified, 1);
            let began = fetch_request.stale_began;
            let update = (&head.fields, head.version);
            let confirmed = prepare::confirmed(
                &worker.storage,
                fetch_request,
                stale,
                update,
                asked_at,
                began,
            );
            validation.confirm(fetch_request, &confirmed);
        }
        // It has changed, or cannot be told to be the same.
        200 | 206 | 404 | 410 if !prepare::speaks_for_one(fetch_request) => {
            prepare::end_of(&worker.storage, stale);
        }
        _ => {}
    }
}
