//! Fetches a cachable GET: one fetch for all requests that wait for the same answer.
//!
//! A fetch is a task of its own, so it waits for no client, and goes on when the client that began it leaves.
//!
//! Life of a fetch: the request goes to the origin ([`origin::upstream`]). The head decides whether the answer may be stored, shared,
//! both or neither. The body goes to the readers ([`crate::fetch::flight`]) and into the store at the same time. Only when it is complete
//! is the object published in memory and on disk. A fetch without readers goes on if the body is being stored and worth fetching, else
//! it ends. Interim responses go to the readers as they arrive.
//!
//! A revalidation is a fetch with validators: a 304 freshens the stored object and tells the readers to serve it; another answer
//! replaces that object.
//!
//! The published object carries the invalidation sequence at which the fetch began, so that a purge during the fetch wins
//! (ARCHITECTURE.md, invariant 3).

use base::clock::Instant;
use std::{pin::pin, rc::Rc, sync::Arc};

use bytes::Bytes;
use http1::{Fault, Reject};
use httpcache::{NotStorable, UnixMillis};
use message::ResponseHead;

use crate::{
    fetch::{
        ask,
        collecting::{self, Came, Collecting},
        flight::{
            Broken, FirstEvent, Flight, FlightReader, Hint, Keeping, LOOK_EVERY,
            SMALL_WINDOW_BYTES, Validated, Worth,
        },
        hit_for_pass::{Noted, Party},
        interim,
        prepare::{self, confirmed},
        response::{FetchRequest, Response},
        siblings::{SiblingContext, Wish},
        storing::Storing,
        whom::{self, To},
    },
    request::onward,
    state::Worker,
};
use base::{
    deadline::Watch,
    mistakes::{Mistake, makes},
};
use cache::object::Object;
use cluster::push::Began;
use origin::{
    body::Body,
    outcome::UpstreamError,
    upstream::{Upstream, is_interim},
};
use record::metrics::{self, Counters};

/// How long a reload waits at most for the answer to the fetch before it.
const BEHIND_MAX: std::time::Duration = std::time::Duration::from_secs(5);

/// Starts the fetch for a flight as a task of this worker.
pub fn start(worker: &Rc<Worker>, flight: Arc<Flight>, fetch_request: FetchRequest) {
    let fetch = Box::new(Fetch::new(worker, flight, fetch_request));
    spawn(async move { fetch.run().await });
}

/// Like [`start`], but begins once the fetch before it is answered or has taken too long.
pub fn start_behind(
    worker: &Rc<Worker>,
    flight: Arc<Flight>,
    fetch_request: FetchRequest,
    ahead: FlightReader,
) {
    let fetch = Box::new(Fetch::new(worker, flight, fetch_request));
    spawn(async move {
        let _ = (fetch.watch)
            .limit(BEHIND_MAX, pin!(ahead.first_event()))
            .await;
        drop(ahead);
        fetch.flight.begin();
        fetch.run().await;
    });
}

/// Starts the rest of a fetch whose head has arrived, as a task of this worker. No other fetch uses `flight`.
pub fn adopt(
    worker: &Rc<Worker>,
    flight: Arc<Flight>,
    fetch_request: FetchRequest,
    upstream: Upstream,
    head: ResponseHead,
    asked_at: UnixMillis,
) {
    let fetch = Box::new(Fetch::new(worker, flight, fetch_request));
    spawn(async move {
        let purges = fetch
            .fetch_request
            .copied
            .as_ref()
            .map(|copied| copied.began.clone());
        fetch.deliver(upstream, &head, asked_at, purges).await;
    });
}

/// Runs a fetch as a task of this worker. Boxed first: the runtime moves a future five times when it starts and three times when it ends,
/// and this one has some 4 KiB.
fn spawn(fetch: impl Future<Output = ()> + 'static) {
    tokio::task::spawn_local(Box::pin(fetch));
}

/// A fetch in progress. Dropping it removes its flight from the table and tells the readers.
struct Fetch {
    worker: Rc<Worker>,
    watch: Watch,
    flight: Arc<Flight>,
    fetch_request: FetchRequest,
}

impl Drop for Fetch {
    fn drop(&mut self) {
        self.worker.shared.flights.remove(&self.flight);
        self.flight.abandon();
        self.worker.fetches.set(self.worker.fetches.get() - 1);
    }
}

impl Fetch {
    fn new(worker: &Rc<Worker>, flight: Arc<Flight>, fetch_request: FetchRequest) -> Fetch {
        worker.fetches.set(worker.fetches.get() + 1);
        Fetch {
            worker: Rc::clone(worker),
            watch: worker.deadlines.watch(),
            flight,
            fetch_request,
        }
    }

    fn window(&self) -> u64 {
        self.fetch_request
            .listener
            .edition
            .plan
            .limits
            .transfer_bytes_max
    }

    async fn run(&self) {
        let asked_at = self.worker.now_ms();
        let purges = collecting::began(
            self.worker.pushing.as_deref(),
            &self.fetch_request,
            self.flight.began,
        );
        let mut validating = self.fetch_request.stale.as_ref();
        loop {
            let asked = match self.fetch_request.is_for_one {
                // The only possible reader is the client that began the fetch: stop when it leaves.
                true => tokio::select! {
                    biased;
                    asked = self.ask(validating) => asked,
                    () = self.flight.unwanted() => return,
                },
                false => self.ask(validating).await,
            };
            let (upstream, head) = match asked {
                Ok(answer) => answer,
                Err(error) => return self.fail(error),
            };
            let is_for_client = validating.is_none() && self.fetch_request.is_conditional;
            let Some(stale) = validating.filter(|_| head.status == 304) else {
                if head.status == 101 || head.status == 304 && !is_for_client {
                    // Neither was asked for, and a client would take the 101 for an interim response.
                    let reject = Reject::Response(Fault::StatusCode);
                    return self.fail(UpstreamError::Malformed(reject));
                }
                return self.deliver(upstream, &head, asked_at, purges).await;
            };
            // Read to the end of the 304, which has no body, so that the connection can be reused.
            let body = &mut upstream.body(&head);
            let _ = body.next(&self.worker.origin, &self.watch).await;
            if httpcache::validates(&stale.fields(), &head.fields) {
                return self.validated(stale, &head, asked_at);
            }
            validating = None;
            //= rfc9111 §4.3.3   a 304 that speaks of something else: ask again without conditions
        }
    }

    /// Publishes the failure.
    fn fail(&self, error: UpstreamError) {
        self.worker.counters.origin_failed(error.token());
        self.worker.shared.flights.remove(&self.flight);
        let first_event = FirstEvent::Failed(Arc::new(error.into()));
        (self.flight).publish(first_event, false, Keeping::Nothing, self.window());
    }

    /// Publishes the stored response as still valid.
    fn validated(&self, stale: &Object, head: &ResponseHead, asked_at: UnixMillis) {
        let (worker, flight, fetch_request) = (&self.worker, &self.flight, &self.fetch_request);
        metrics::add(&worker.counters.revalidations_not_modified, 1);
        let update = (&head.fields, head.version);
        worker.shared.flights.remove(flight);
        let began = flight.began;
        let confirmed = confirmed(
            &worker.storage,
            fetch_request,
            stale,
            update,
            asked_at,
            began,
        );
        let storable = confirmed.is_kept;
        let validated = Validated {
            object: confirmed.object,
            withheld: confirmed.decision.cookies_of(&head.fields),
            storable,
            asked_with: Arc::clone(&fetch_request.request),
            rules: confirmed.decision.rules,
        };
        let first_event = FirstEvent::Validated(Arc::new(validated));
        flight.publish(first_event, storable, Keeping::Nothing, self.window());
    }

    /// Sends the request and waits for the final head. Interim responses go to the readers at once.
    async fn ask(&self, stale: Option<&Object>) -> Result<(Upstream, ResponseHead), UpstreamError> {
        let (worker, watch, fetch_request) = (&self.worker, &self.watch, &self.fetch_request);
        let request = request_bytes(&worker.counters, fetch_request, stale);
        let trip = &fetch_request.trip;
        if stale.is_some() {
            trip.validates();
        }
        let to = To {
            asked: &fetch_request.asked,
            listener: &fetch_request.listener,
            trip,
        };
        // Siblings cannot confirm that a stored response is valid, and their answers are the origin's, not a mirror's.
        let asks_siblings =
            stale.is_none() && !fetch_request.is_conditional && to.asked.mirror.is_none();
        let shared = &worker.shared;
        let context = SiblingContext {
            asking: &worker.asking,
            digests: &shared.digests,
            icp: shared.icp.as_deref(),
            cache: &shared.cache,
        };
        let wish = Wish {
            to,
            asker: fetch_request.asker(),
            primary: self.flight.primary,
        };
        let answered = ask::ask_for_all(&context, watch, &wish, asks_siblings, &request);
        let (mut upstream, mut head) = answered.await?;
        while is_interim(&head) {
            if head.status != 100 {
                self.flight.hint(Hint {
                    head: Arc::new(interim::as_it_goes_on(&to.listener.edition, &head)),
                    asked_with: Arc::clone(&fetch_request.request),
                });
            }
            head = whom::next_head(&worker.asking, watch, &mut upstream, "GET").await?;
        }
        whom::note_levels(&upstream, &head);
        Ok((upstream, head))
    }

    /// Publishes the response and moves its body. `purges`: the state of purges when the request was sent.
    async fn deliver(
        &self,
        upstream: Upstream,
        head: &ResponseHead,
        asked_at: UnixMillis,
        purges: Option<Began>,
    ) {
        let (worker, flight) = (&self.worker, &self.flight);
        let received = worker.unix_ms(upstream.received);
        let mut response = prepare::response(&self.fetch_request, head, asked_at, received);
        let mut storing = self.begin_storing(&mut response);
        self.note_sharing(&response, upstream.received);
        if let Some(key) = storing.key() {
            // Requests from now on know the variants and look for the flight under the variant's key.
            let party = Party::of(&self.fetch_request.request);
            worker
                .shared
                .flights
                .rename(flight, &party.key(key.to_vec()));
        }
        let came = Came {
            head,
            response: &response,
            primary: flight.primary,
            key: storing.key().map_or(&self.fetch_request.key, |key| key),
            asked: asked_at,
        };
        let mut collecting = Collecting::begin(&worker.storage, &self.fetch_request, &came, purges);
        let (joinable, length) = (response.storable.is_ok(), response.length);
        let is_resumable = response.is_resumable;
        if !joinable {
            worker.shared.flights.remove(flight);
        }
        let first_event = FirstEvent::Response(Arc::new(response));
        let keeping = match storing.keeping() {
            // The push keeps the pieces anyway, so keep all of them for readers as well.
            Keeping::Nothing if collecting.is_some() => Keeping::All,
            Keeping::Nothing if self.fetch_request.is_forwarded => Keeping::Beginning,
            keeping => keeping,
        };
        if collecting.is_none() {
            let limits = &self.fetch_request.listener.edition.plan.limits;
            let worth = Worth {
                left_bytes: limits.quick_abort_left_bytes,
                percent: limits.quick_abort_percent,
            };
            flight.is_worth(worth, length);
        }
        if is_resumable {
            flight.is_resumable(self.window());
        }
        flight.publish(first_event, joinable, keeping, self.window());

        let mut body = upstream.body(head);
        let moved = self
            .move_body(&mut body, &mut storing, &mut collecting)
            .await;
        flight.note_last_byte(self.fetch_request.trip.last_byte());
        // Publish the object before the readers get the last bytes, and before the flight leaves the table: a request after either event
        // must find the object.
        let moved = match moved {
            Ok(mut last) => {
                if let (Some(bytes), Some(disk)) = (storing.whole_bytes(), &worker.storage.disk) {
                    if !disk.has_room_for_object(flight.primary, bytes) {
                        // The readers must not wait for the disk.
                        self.push_last(last.take());
                    }
                    disk.room_for_object(flight.primary, bytes).await;
                }
                storing.complete(&worker.storage, flight, length);
                if let Some(collecting) = collecting {
                    collecting.complete(worker.pushing.as_ref(), length);
                }
                self.push_last(last);
                Ok(())
            }
            Err(broken) => {
                storing.break_off(&worker.storage, flight, length);
                Err(broken)
            }
        };
        worker.shared.flights.remove(flight);
        flight.finish(moved.map(|()| body.take_trailers().map(Arc::new)));
    }

    /// Decides whether the response is stored, and whether the stale stored one stays.
    fn begin_storing(&self, response: &mut Response) -> Storing {
        let (worker, flight, fetch_request) = (&self.worker, &self.flight, &self.fetch_request);
        let stale = fetch_request.stale.as_ref();
        let keeps_stale = (500..=504).contains(&response.status)
            && stale.is_some_and(|stale| {
                let directives = httpcache::RequestDirectives::default();
                let now = worker.now_ms();
                httpcache::may_serve_on_error(&stale.standing, &directives, now, false)
            });
        if keeps_stale && response.storable.is_ok() {
            response.storable = Err(NotStorable::Status);
        }
        let storing = match response.storable {
            Ok(()) if fetch_request.is_forwarded && fetch_request.copied.is_none() => Storing::No,
            Ok(()) => Storing::begin(&worker.storage, flight, fetch_request, response)
                .unwrap_or_else(|why| {
                    response.not_stored = Some(why);
                    Storing::No
                }),
            Err(_) => Storing::No,
        };
        response.stored = !matches!(storing, Storing::No);
        let is_for_one = prepare::speaks_for_one(fetch_request)
            && matches!(
                response.storable,
                Err(NotStorable::Private | NotStorable::Authorization | NotStorable::Cookie)
            );
        let replaces = response.status < 400 || matches!(response.status, 404 | 410);
        if let Some(stale) = stale
            && !response.stored
            && !keeps_stale
            && !is_for_one
            && replaces
        {
            prepare::end_of(&worker.storage, stale);
        }
        storing
    }

    /// Records whether later requests may wait for an answer like this one. Call after the invalidation, which removes such records.
    fn note_sharing(&self, response: &Response, now: Instant) {
        if self.fetch_request.is_conditional {
            return;
        }
        let (worker, party) = (&self.worker, Party::of(&self.fetch_request.request));
        let hit_for_pass = &worker.shared.flights.hit_for_pass;
        let (status, storable) = (response.status, response.storable);
        let noted = hit_for_pass.note(self.flight.primary, party, status, storable, now);
        let count = |counter, is_so| metrics::add(counter, u64::from(is_so));
        let counters = &worker.counters;
        count(&counters.flights_hit_for_pass_noted, noted != Noted::No);
        count(
            &counters.flights_hit_for_pass_dropped,
            noted == Noted::Dropped,
        );
    }

    fn push_last(&self, piece: Option<Bytes>) {
        if let Some(piece) = piece {
            self.flight.push(piece, self.window());
        }
    }

    /// Moves the body to the readers, into the store, and to the push. Returns the last piece of a body of known length, which the readers
    /// do not have yet.
    async fn move_body(
        &self,
        body: &mut Body,
        storing: &mut Storing,
        collecting: &mut Option<Collecting>,
    ) -> Result<Option<Bytes>, Broken> {
        let (worker, flight) = (&self.worker, &self.flight);
        let read = Arc::clone(flight);
        body.may_be_others(Box::new(move || read.readers() != 1));
        loop {
            // The budget is shared: when all transfers together use it up, each gets a small window.
            let ledger = &worker.shared.ledger;
            let window = match ledger.is_crowded() {
                true => SMALL_WINDOW_BYTES.min(ledger.step() as u64),
                false => self.window(),
            };
            match self
                .watch
                .limit(LOOK_EVERY, pin!(flight.room(window)))
                .await
            {
                Ok(true) => {}
                Ok(false) => return Err(Broken::Origin), // nobody reads and nobody stores
                Err(_) => {
                    flight.cut_still(window);
                    continue;
                }
            }
            if let (Storing::Fragments(..), Some(disk)) = (&storing, &worker.storage.disk) {
                // If the body arrives faster than the disk writes, wait for the disk, for a limited time.
                disk.room_for_fragment(flight.primary).await;
            }
            body.passes(matches!(storing, Storing::No) && collecting.is_none());
            let came = tokio::select! {
                biased;
                came = body.next_into(&worker.origin, &self.watch, storing.room()) => came,
                // The origin may send nothing for a long time.
                () = flight.unwanted() => {
                    let is_stored = !matches!(storing, Storing::No);
                    metrics::add(&worker.counters.fetches_stopped, u64::from(is_stored));
                    return Err(Broken::Origin);
                }
            };
            match came {
                Ok(Some(piece)) => {
                    storing.take(&worker.storage, flight, &piece, body.is_exact());
                    if collecting.as_mut().is_some_and(|c| !c.take(&piece)) {
                        *collecting = None;
                        if matches!(storing, Storing::No) {
                            flight.give_up_storing();
                        }
                    }
                    if body.is_over() {
                        return Ok(Some(piece));
                    }
                    if !flight.push(piece, window) {
                        metrics::add(&worker.counters.fetches_stopped, 1);
                        return Err(Broken::Origin);
                    }
                }
                Ok(None) => return Ok(None),
                Err(error) => {
                    let target = &self.fetch_request.asked.target;
                    worker.counters.origin_failed(error.token());
                    tracing::debug!(%error, %target, "a response broke off");
                    if makes(Mistake::StoreBroken) {
                        return Ok(None);
                    }
                    return Err(Broken::Origin);
                }
            }
        }
    }
}

/// The request for the origin.
fn request_bytes(
    counters: &Counters,
    fetch_request: &FetchRequest,
    stale: Option<&Object>,
) -> Vec<u8> {
    let mut fields = match fetch_request.is_conditional {
        true => onward::end_to_end(&fetch_request.request),
        false => onward::plain_fields(&fetch_request.request),
    };
    fields.remove(b"if-range");
    fields.remove(b"range");
    if let Some(stale) = stale {
        metrics::add(&counters.revalidations, 1);
        httpcache::add_validators(&stale.fields(), &mut fields);
    }
    if fetch_request.takes_trailers {
        onward::ask_for_trailers(&mut fields);
    }
    let FetchRequest { version, asked, .. } = fetch_request;
    onward::request(
        &fetch_request.listener.edition,
        "GET",
        *version,
        asked,
        &fields,
    )
}
