//! Validates a stale object with holes once, for all requests that want a part of it.
//!
//! The first request asks the origin with its own range and a condition. Requests for other parts wait meanwhile for the answer: a 304 is
//! for all of them, and an answer with a whole new representation is shared like any fetch; after any other result they look the object up
//! again. A validation is listed as a flight (`fetch::flight`) of its own, so that a purge ends it.
//!
//! A client that may have a stale part does not wait; the object is validated in the background. If it has changed, nothing is fetched: the
//! old object is removed, and the next request fetches the part that it wants.
//!
//! Limits: those of flights. Not known here: the answer to the client.
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

/// Suffix of a validation's flight key; no object's key ends like this.
const BEHIND_KEY: &[u8] = b"\n\0validation";

/// A validation begun by a request. Dropping it ends the validation, and waiting requests look the object up again.
pub struct Validation {
    worker: Rc<Worker>,
    reader: Option<FlightReader>,
}

/// The request that validates.
pub enum Validates {
    /// This request, for all waiting ones.
    First(Validation),
    /// Another request.
    Another(FlightReader),
    /// This request, for itself: too many wait already.
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

    /// Publishes that the origin has confirmed the object.
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

    /// Takes the reader of the flight: the origin has sent another answer, which a fetch will publish.
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

/// Validates in the background after a stale part was served, unless another request validates.
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
        // For several parts or none, ask for a short part, in case the object has changed.
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
    // No client waits for this request, so it is omitted if a quota is used up.
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

/// Handles the origin's answer to a background validation.
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
        // The object has changed, or cannot be shown to be the same.
        200 | 206 | 404 | 410 if !prepare::speaks_for_one(fetch_request) => {
            prepare::end_of(&worker.storage, stale);
        }
        _ => {}
    }
}
