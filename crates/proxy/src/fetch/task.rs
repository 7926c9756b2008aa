//! Fetching a cachable GET: one task an answer, whoever waits for it.
//!
//! Life of a fetch: the fetch request goes to the origin ([`crate::fetch::upstream`]); the head decides whether the answer may
//! be stored, shared, both or neither; the body goes to the readers ([`crate::fetch::flight`]) and into the store at once;
//! when it is complete, and only then, the object is published in memory and on disk. A fetch that nobody
//! reads any more goes on if it is being stored, else it ends. Interim responses go to the readers as they come (`interim`).
//!
//! A revalidation is a fetch with validators: 304 freshens the stored object and tells the readers to serve
//! that; another answer replaces it.
//!
//! What is published carries the invalidation sequence at which the fetch began, so that a purge in the
//! meantime wins (ARCHITECTURE.md, invariant 3).

use crate::clock::Instant;
use std::{borrow::Cow, pin::pin, rc::Rc, sync::Arc};

use bytes::Bytes;
use fields::Fields;
use http1::{Framing, ResponseHead};
use httpcache::{NotStorable, Request, Standing, UnixMillis, VaryList, cache_status::CacheStatus};
use message::{Version, reason_phrase};
use store::{Fragment, KeyHash, Sequence};

use crate::{
    cache::object::{self, Object},
    deadline::Watch,
    fetch::flight::{Broken, FirstEvent, Flight, FlightReader, Keeping, Validated},
    fetch::hit_for_pass::{Noted, Party},
    fetch::share::{self, BEHIND_MAX},
    fetch::storing::Storing,
    fetch::upstream::{self, Moments, Upstream, UpstreamError},
    record::metrics,
    reply::interim::{self, Hint, is_interim},
    request::rulebook::{Decision, Met},
    request::target::Asked,
    state::{ListenerState, Worker},
};

/// Why a fetch gave no response.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// The origin could not be asked, or its head not read.
    #[error(transparent)]
    Upstream(#[from] UpstreamError),
    /// The fetching task ended before its time (shutdown).
    #[error("the fetch was abandoned")]
    Abandoned,
}

impl FetchError {
    /// The status owed to the client.
    pub fn status(&self) -> u16 {
        match self {
            FetchError::Upstream(error) => error.status(),
            FetchError::Abandoned => 503,
        }
    }

    /// A token for Cache-Status.
    pub fn token(&self) -> &'static str {
        match self {
            FetchError::Upstream(error) => error.token(),
            FetchError::Abandoned => "proxy_internal_error",
        }
    }
}

/// A response as it goes to clients and into the cache.
#[derive(Debug)]
pub struct Response {
    /// Status code.
    pub status: u16,
    /// Fields without the hop-by-hop ones, Content-Length, Age and those that only the one who asked gets; Via and Date added.
    pub fields: Fields,
    /// Status line and `fields`, ready to send.
    pub head: Bytes,
    /// Field lines that go behind the head, to the one who asked alone (`httpcache::take_withheld`, `take_cookies`).
    pub withheld: Bytes,
    /// Where the value of Content-Type lies in `head`.
    pub content_type: (u16, u16),
    /// Length of the body if it is known now.
    pub length: Option<u64>,
    /// This status has no body and no Content-Length (204, 304).
    pub bodiless: bool,
    /// Age and rules.
    pub standing: Standing,
    /// May it be stored?
    pub storable: Result<(), NotStorable>,
    /// Is the answer on its way into the store or the memory tier?
    pub stored: bool,
    /// Why not, though it may be stored.
    pub not_stored: Option<&'static str>,
    /// The fields of the request it answers, for [`httpcache::may_share`].
    pub asked_with: Arc<Fields>,
    /// What the operator's rules say of it.
    pub decision: Decision,
    /// When things happened.
    pub moments: Moments,
}

impl Response {
    /// Adds what is known of its being stored when its head goes out. Of a body without a length nobody knows how long it will be.
    //= rfc9211 §2.5   stored: whether the cache stored the response
    pub fn say_stored<'a>(&self, line: CacheStatus<'a>) -> CacheStatus<'a> {
        match self.stored && self.length.is_some() {
            true => line.stored(true),
            false => line,
        }
    }

    /// Adds why it is not stored.
    pub fn say_why_not(&self, line: CacheStatus<'_>) {
        let forbidden = self.storable.err().map(|reason| reason.as_str());
        if let Some(reason) = forbidden.or(self.not_stored) {
            line.detail(reason);
        }
    }
}

/// What to fetch.
pub struct FetchRequest {
    /// The listener it came in by: its rules say where we may connect.
    pub listener: Rc<ListenerState>,
    /// Whom to ask.
    pub asked: Asked,
    /// The client's fields, complete: caching rules look at these.
    pub request: Arc<Fields>,
    /// The key of the resource.
    pub key: Vec<u8>,
    /// The operator's rules the request meets.
    pub met: Met,
    /// The request's part of the key of a variant, by rule.
    pub extras: Vec<u8>,
    /// The origin gets the client's conditions: there is nothing to validate, and a 304 is the client's.
    pub is_conditional: bool,
    /// The version in which it came.
    pub version: Version,
    /// The stored response to validate.
    pub stale: Option<Object>,
    /// The invalidation sequence at which it was looked up.
    pub stale_began: Sequence,
}

impl FetchRequest {
    /// For whom it is.
    pub fn asker(&self) -> Asker<'_> {
        Asker {
            request: &self.request,
            met: self.met,
            listener: &self.listener,
        }
    }
}

/// For whom a response is, as far as it makes a difference to what is stored of it.
#[derive(Clone, Copy)]
pub struct Asker<'a> {
    /// The fields of the request.
    pub request: &'a Fields,
    /// The operator's rules that it meets,
    pub met: Met,
    /// of those that hold here.
    pub listener: &'a ListenerState,
}

impl Asker<'_> {
    /// What the operator's rules say of a response to it.
    pub fn decide(&self, status: u16, fields: &Fields) -> Decision {
        let content_type = fields.first(b"content-type");
        let ListenerState { book, rules, .. } = self.listener;
        book.response(self.met, status, content_type, rules)
    }
}

/// Starts the fetch for a flight as a task of this worker.
pub fn start(worker: &Rc<Worker>, flight: Arc<Flight>, fetch_request: FetchRequest) {
    let worker = Rc::clone(worker);
    worker.fetches.set(worker.fetches.get() + 1);
    tokio::task::spawn_local(async move {
        let watch = worker.deadlines.watch();
        let guard = Departure {
            worker: &worker,
            flight: &flight,
        };
        run(&worker, &watch, &flight, &fetch_request).await;
        drop(guard);
    });
}

/// As [`start`], once the fetch before it is answered, or has taken too long.
pub fn start_behind(
    worker: &Rc<Worker>,
    flight: Arc<Flight>,
    fetch_request: FetchRequest,
    ahead: FlightReader,
) {
    let worker = Rc::clone(worker);
    worker.fetches.set(worker.fetches.get() + 1);
    tokio::task::spawn_local(async move {
        let watch = worker.deadlines.watch();
        let guard = Departure {
            worker: &worker,
            flight: &flight,
        };
        let _ = watch.limit(BEHIND_MAX, pin!(ahead.first_event())).await;
        drop(ahead);
        flight.begin();
        run(&worker, &watch, &flight, &fetch_request).await;
        drop(guard);
    });
}

/// Takes over an answer that is there already: the rest of the fetch as a task of this worker. `flight` is nobody else's.
pub fn adopt(
    worker: &Rc<Worker>,
    flight: Arc<Flight>,
    fetch_request: FetchRequest,
    upstream: upstream::Upstream,
    head: ResponseHead,
    asked_at: UnixMillis,
) {
    let worker = Rc::clone(worker);
    worker.fetches.set(worker.fetches.get() + 1);
    tokio::task::spawn_local(async move {
        let watch = worker.deadlines.watch();
        let guard = Departure {
            worker: &worker,
            flight: &flight,
        };
        deliver(
            &worker,
            &watch,
            &flight,
            &fetch_request,
            upstream,
            &head,
            asked_at,
        )
        .await;
        drop(guard);
    });
}

/// Takes the flight off the table and tells its readers, however the task ends.
struct Departure<'a> {
    worker: &'a Worker,
    flight: &'a Arc<Flight>,
}

impl Drop for Departure<'_> {
    fn drop(&mut self) {
        self.worker.shared.flights.remove(self.flight);
        self.flight.abandon();
        self.worker.fetches.set(self.worker.fetches.get() - 1);
    }
}

async fn run(
    worker: &Rc<Worker>,
    watch: &Watch,
    flight: &Arc<Flight>,
    fetch_request: &FetchRequest,
) {
    let window = worker.shared.plan.limits.transfer_bytes_max;
    let asked_at = worker.now_ms();
    let mut validating = fetch_request.stale.as_ref();
    let (upstream, head) = loop {
        let request = request_bytes(worker, fetch_request, validating);
        let answered = ask(worker, watch, flight, fetch_request, &request).await;
        let (upstream, head) = match answered {
            Ok(answer) => answer,
            Err(error) => {
                worker.counters.origin_failed(error.token());
                worker.shared.flights.remove(flight);
                let first_event = FirstEvent::Failed(Arc::new(error.into()));
                flight.publish(first_event, false, Keeping::Nothing, window);
                return;
            }
        };
        if head.status == 101
            || (head.status == 304 && validating.is_none() && !fetch_request.is_conditional)
        {
            // Nobody asked for either. A client would take the 101 for an interim response.
            let error = UpstreamError::Malformed(http1::Reject::Response(http1::Fault::StatusCode));
            worker.counters.origin_failed(error.token());
            worker.shared.flights.remove(flight);
            let first_event = FirstEvent::Failed(Arc::new(error.into()));
            flight.publish(first_event, false, Keeping::Nothing, window);
            return;
        }
        let Some(stale) = validating.filter(|_| head.status == 304) else {
            break (upstream, head);
        };
        let moments = upstream.moments;
        // A 304 has no body: at its end the connection goes back.
        let _ = upstream.body(worker, &head).next(worker, watch).await;
        if httpcache::validates(&stale.fields(), &head.fields) {
            metrics::add(&worker.counters.revalidations_not_modified, 1);
            let (object, decision) = freshened(
                worker,
                fetch_request.asker(),
                stale,
                (&head.fields, head.version),
                asked_at,
            );
            worker.shared.flights.remove(flight);
            let storable = publish_freshened(
                worker,
                flight.primary,
                flight.began,
                fetch_request,
                stale,
                &object,
                &decision,
            );
            let rules = decision.rules;
            let withheld = decision.cookies_of(&head.fields);
            let validated = Validated {
                object,
                withheld,
                storable,
                asked_with: Arc::clone(&fetch_request.request),
                rules,
                moments,
            };
            let first_event = FirstEvent::Validated(Arc::new(validated));
            flight.publish(first_event, storable, Keeping::Nothing, window);
            return;
        }
        validating = None;
        //= rfc9111 §4.3.3   a 304 that speaks of something else: ask again without conditions
    };
    deliver(
        worker,
        watch,
        flight,
        fetch_request,
        upstream,
        &head,
        asked_at,
    )
    .await;
}

/// Sends the request and waits for the final head; interim ones go to the readers at once.
async fn ask(
    worker: &Worker,
    watch: &Watch,
    flight: &Flight,
    fetch_request: &FetchRequest,
    request: &[u8],
) -> Result<(Upstream, ResponseHead), UpstreamError> {
    let destination = &fetch_request.asked.destination;
    let rules = &fetch_request.listener.destinations;
    let (mut upstream, mut head) =
        upstream::ask(worker, watch, destination, rules, "GET", request).await?;
    while is_interim(&head) {
        if head.status != 100 {
            flight.hint(Hint {
                bytes: interim::write(worker, &head).into(),
                asked_with: Arc::clone(&fetch_request.request),
            });
        }
        head = upstream.head(worker, watch, "GET").await?;
    }
    Ok((upstream, head))
}

/// Publishes the response and moves its body.
async fn deliver(
    worker: &Rc<Worker>,
    watch: &Watch,
    flight: &Arc<Flight>,
    fetch_request: &FetchRequest,
    upstream: Upstream,
    head: &ResponseHead,
    asked_at: UnixMillis,
) {
    let shared = &worker.shared;
    let window = shared.plan.limits.transfer_bytes_max;
    let mut response = prepare(worker, fetch_request, head, asked_at, upstream.moments);
    let keeps_stale = (500..=504).contains(&head.status)
        && fetch_request.stale.as_ref().is_some_and(|stale| {
            httpcache::may_serve_on_error(
                &stale.standing,
                &httpcache::RequestDirectives::default(),
                worker.now_ms(),
                false,
            )
        });
    if keeps_stale && response.storable.is_ok() {
        response.storable = Err(NotStorable::Status);
    }
    let mut storing = if response.storable.is_ok() {
        Storing::begin(worker, flight, fetch_request, &response).unwrap_or_else(|reason| {
            response.not_stored = Some(reason);
            Storing::No
        })
    } else {
        Storing::No
    };
    let (status, storable) = (head.status, response.storable);
    let replaces = head.status < 400 || matches!(head.status, 404 | 410);
    if matches!(storing, Storing::No) && fetch_request.stale.is_some() && !keeps_stale && replaces {
        // The stored response is known to be out of date, and its successor is not kept.
        // Nobody waits for it to be durable: a crash may bring back what is out of date, never what was purged.
        let _ = shared.invalidate(flight.primary);
    }
    response.stored = !matches!(storing, Storing::No);
    let joinable = storable.is_ok();
    // After the invalidation above, which forgets.
    let now = Instant::now();
    let hit_for_pass = &shared.flights.hit_for_pass;
    if !fetch_request.is_conditional {
        let party = Party::of(&fetch_request.request);
        let noted = hit_for_pass.note(flight.primary, party, status, storable, now);
        let count = |counter, is_so| metrics::add(counter, u64::from(is_so));
        count(
            &worker.counters.flights_hit_for_pass_noted,
            noted != Noted::No,
        );
        let is_dropped = noted == Noted::Dropped;
        count(&worker.counters.flights_hit_for_pass_dropped, is_dropped);
    }
    if let Some(key) = storing.key() {
        // Who comes now knows the variants, and looks for it there.
        let key = share::for_party(key.to_vec(), &fetch_request.request);
        shared.flights.rename(flight, &key);
    }
    if !joinable {
        shared.flights.remove(flight);
    }
    let length = response.length;
    flight.publish(
        FirstEvent::Response(Arc::new(response)),
        joinable,
        storing.keeping(),
        window,
    );

    let mut body = upstream.body(worker, head);
    let result = loop {
        // The budget is shared: when all transfers together use it up, each gets a small window.
        let window = if shared.is_crowded() {
            SMALL_WINDOW_BYTES
        } else {
            window
        };
        if !flight.room(window).await {
            break Err(Broken::Origin); // nobody reads and nobody stores
        }
        if let (Storing::Fragments(..), Some(disk)) = (&storing, &worker.disk) {
            // A body that comes faster than the disk writes waits for the disk, for a while.
            disk.room_for_fragment(flight.primary).await;
        }
        match body.next(worker, watch).await {
            Ok(Some(piece)) => {
                storing.take(worker, flight, &piece);
                if !flight.push(piece, window) {
                    break Err(Broken::Origin);
                }
            }
            Ok(None) => break Ok(()),
            Err(error) => {
                worker.counters.origin_failed(error.token());
                tracing::debug!(%error, target = %fetch_request.asked.target, "a response broke off");
                break Err(Broken::Origin);
            }
        }
    };
    match result {
        Ok(()) => {
            let trailers = body.take_trailers().map(Arc::new);
            // Published before the flight leaves the table: who comes later finds the object.
            if !matches!(storing, Storing::No) {
                let began = Instant::now();
                if let (Some(bytes), Some(disk)) = (storing.whole_bytes(), &worker.disk) {
                    disk.room_for_object(flight.primary, bytes).await;
                }
                storing.complete(worker, flight, length);
                flight.note_swap_out(began, Instant::now());
            }
            shared.flights.remove(flight);
            flight.finish(Ok(trailers));
        }
        Err(broken) => {
            shared.flights.remove(flight);
            flight.finish(Err(broken));
        }
    }
}

/// A transfer's window while the shared budget is exceeded.
const SMALL_WINDOW_BYTES: u64 = 64 << 10;

/// The request as it goes to the origin.
fn request_bytes(worker: &Worker, fetch_request: &FetchRequest, stale: Option<&Object>) -> Vec<u8> {
    let mut fields = Fields::clone(&fetch_request.request);
    message::remove_hop_by_hop(&mut fields);
    if fetch_request.is_conditional {
        fields.remove(b"if-range");
    } else {
        httpcache::remove_conditions(&mut fields);
    }
    fields.remove(b"range");
    fields.remove(b"proxy-authorization");
    if let Some(stale) = stale {
        metrics::add(&worker.counters.revalidations, 1);
        httpcache::add_validators(&stale.fields(), &mut fields);
    }
    write_request(
        worker,
        "GET",
        fetch_request.version,
        &fetch_request.asked,
        &fields,
    )
}

/// Request line, Host first (RFC 9110 §7.2), the fields, our Via. `version`: that of the client's request.
pub fn write_request(
    worker: &Worker,
    method: &str,
    version: Version,
    asked: &Asked,
    fields: &Fields,
) -> Vec<u8> {
    let mut out = Vec::with_capacity(512);
    http1::write_request_line(method, &asked.target, &mut out);
    out.extend_from_slice(b"Host: ");
    out.extend_from_slice(asked.host.as_bytes());
    out.extend_from_slice(b"\r\n");
    for (name, value) in fields.iter() {
        if !name.eq_ignore_ascii_case(b"host") {
            out.extend_from_slice(name);
            out.extend_from_slice(b": ");
            out.extend_from_slice(value);
            out.extend_from_slice(b"\r\n");
        }
    }
    out.extend_from_slice(b"Via: ");
    out.extend_from_slice(&via_of(worker, version));
    out.extend_from_slice(b"\r\n\r\n");
    out
}

/// Fields as they go to clients: hop-by-hop ones gone, Date there, Via added.
pub fn response_fields(
    worker: &Worker,
    received: &Fields,
    version: Version,
    at: UnixMillis,
) -> Fields {
    let mut fields = received.clone();
    message::remove_hop_by_hop(&mut fields);
    fields.remove(b"content-length");
    fields.remove(b"proxy-authenticate");
    //= rfc9111 §3.1   what is specific to the proxy in front is not stored, nor does it concern the client
    fields.remove(b"proxy-authentication-info");
    fields.remove(b"proxy-authorization");
    if !fields.contains(b"date") {
        //= rfc9110 §6.6.1   a recipient with a clock that forwards a response without Date appends one
        fields.push(b"Date", &httpcache::format_date(at));
    }
    fields.push(b"Via", &via_of(worker, version));
    fields
}

/// What we add to Via for a message that came in this version.
//= rfc9110 §7.6.3   received-protocol is that of the message received, not of the one sent
pub fn via_of(worker: &Worker, version: Version) -> Cow<'_, [u8]> {
    match version {
        Version::Http11 => {
            let line = worker.shared.via_line.trim_ascii_end();
            Cow::Borrowed(line.get(b"Via: ".len()..).unwrap_or_default())
        }
        Version::Http10 => Cow::Owned([b"1.0 ", own_via_name(worker)].concat()),
    }
}

/// Our name in Via, without the version: `NAME (TAG)`.
fn own_via_name(worker: &Worker) -> &[u8] {
    let line = worker.shared.via_line.trim_ascii_end();
    line.get(b"Via: 1.1 ".len()..).unwrap_or_default()
}

/// Is this member of a Via field one that we wrote?
pub fn is_own_via(worker: &Worker, hop: &[u8]) -> bool {
    let version = |version: &[u8]| hop.strip_prefix(version) == Some(own_via_name(worker));
    version(b"1.1 ") || version(b"1.0 ")
}

/// The response as it is sent and stored, and what the rules say of it.
pub fn prepare(
    worker: &Worker,
    fetch_request: &FetchRequest,
    head: &ResponseHead,
    asked_at: UnixMillis,
    moments: Moments,
) -> Response {
    let received = worker.unix_ms(moments.first);
    let decision = fetch_request.asker().decide(head.status, &head.fields);
    let request = Request {
        method: "GET",
        fields: &fetch_request.request,
    };
    let rules = &decision.rules;
    let stripped = decision
        .strip_set_cookie
        .then(|| without_cookies(&head.fields));
    let mut answer = httpcache::Response {
        status: head.status,
        fields: stripped.as_ref().unwrap_or(&head.fields),
    };
    let (mut storable, mut standing) =
        httpcache::assess(&request, &answer, asked_at, received, rules);
    if storable.is_err() && stripped.is_some() {
        // For one user only, so its cookies are his.
        answer.fields = &head.fields;
        standing = Standing::of(&request, &answer, asked_at, received, rules);
    }
    let head_fields = answer.fields;
    if head.framing == Framing::UntilClose && storable.is_ok() {
        // Nobody can tell whether such a body is complete.
        storable = Err(NotStorable::CloseDelimited);
    }
    if !decision.stores && storable.is_ok() {
        storable = Err(NotStorable::Rule);
    }
    let length = match head.framing {
        Framing::None => Some(0),
        Framing::Length(bytes) => Some(bytes),
        Framing::Chunked | Framing::UntilClose => None,
    };
    let mut fields = response_fields(worker, head_fields, head.version, received);
    fields.remove(b"age");
    let mut withheld = Vec::new();
    httpcache::take_withheld(&mut fields).write_to(&mut withheld);
    if storable.is_ok() && !rules.store_set_cookie {
        httpcache::take_cookies(&mut fields).write_to(&mut withheld);
    }
    let mut wire = Vec::with_capacity(512);
    let content_type = object::write_head(head.status, &reason_of(head), &fields, &mut wire);
    Response {
        status: head.status,
        fields,
        head: wire.into(),
        withheld: withheld.into(),
        content_type,
        length,
        bodiless: matches!(head.status, 204 | 304),
        standing,
        storable,
        stored: false,
        not_stored: None,
        asked_with: Arc::clone(&fetch_request.request),
        decision,
        moments,
    }
}

/// Without what a rule takes away (`strip-set-cookie`).
pub fn without_cookies(fields: &Fields) -> Fields {
    let mut fields = fields.clone();
    fields.remove(b"set-cookie");
    fields.remove(b"set-cookie2");
    fields
}

fn reason_of(head: &ResponseHead) -> String {
    if head.reason.is_empty() {
        reason_phrase(head.status).to_owned()
    } else {
        head.reason.clone()
    }
}

/// The stored object with what a 304, a 206 of the same representation, or a 200 to HEAD says of it.
pub fn freshened(
    worker: &Worker,
    asker: Asker<'_>,
    stale: &Object,
    (not_modified, version): (&Fields, Version),
    asked_at: UnixMillis,
) -> (Object, Decision) {
    let received = worker.now_ms();
    let mut update = not_modified.clone();
    message::remove_hop_by_hop(&mut update);
    let mut fields = httpcache::freshen(&stale.fields(), &update, &asker.listener.rules);
    let decision = asker.decide(stale.status, &fields);
    if decision.strip_set_cookie {
        fields = without_cookies(&fields);
    }
    let request = Request {
        method: "GET",
        fields: asker.request,
    };
    // Age counts from the 304 (RFC 9111 §4.2.3), so its Age, not the stored one, is looked at.
    let answer = httpcache::Response {
        status: stale.status,
        fields: &fields,
    };
    let standing = Standing::of(&request, &answer, asked_at, received, &decision.rules);
    fields.remove(b"age");
    if !fields.contains(b"date") {
        fields.push(b"Date", &httpcache::format_date(received));
    }
    if !not_modified.contains(b"via") {
        // The last line that is stored is ours, of this process or an earlier one.
        let mut left = fields.count(b"via");
        fields.retain(|name, _| {
            let is_via = name.eq_ignore_ascii_case(b"via");
            left -= usize::from(is_via);
            !(is_via && left == 0)
        });
    }
    fields.push(b"Via", &via_of(worker, version));
    let mut wire = Vec::with_capacity(stale.head.len() + 64);
    let content_type = object::write_head(
        stale.status,
        reason_phrase(stale.status),
        &fields,
        &mut wire,
    );
    let object = Object {
        standing,
        content_type,
        head: wire.into(),
        ..stale.clone()
    };
    (object, decision)
}

/// Puts a freshened object where the stale one was. False when it may no longer be stored.
pub fn publish_freshened(
    worker: &Rc<Worker>,
    primary: KeyHash,
    began: Sequence,
    fetch_request: &FetchRequest,
    stale: &Object,
    fresh: &Object,
    decision: &Decision,
) -> bool {
    let shared = &worker.shared;
    let fields = fresh.fields();
    let request = Request {
        method: "GET",
        fields: &fetch_request.request,
    };
    let answer = httpcache::Response {
        status: fresh.status,
        fields: &fields,
    };
    let same_vary = httpcache::vary_list(&stale.fields()) == httpcache::vary_list(&fields);
    let storable = httpcache::storable(&request, &answer, &decision.rules);
    if let Err(NotStorable::Authorization | NotStorable::RequestNoStore) = storable {
        // It is for this client alone, and says nothing of what others may be given.
        return false;
    }
    let fits = fresh.body_bytes() <= decision.object_bytes_max;
    if storable.is_err() || !decision.stores || !fits || !same_vary {
        //= rfc9111 §4.3.4   a 304 that restricts reuse (no-store, private) ends it; one that changes Vary moves it
        let _ = shared.invalidate(primary);
        return false;
    }
    // What was purged since the stale object was looked up does not come back.
    let began = began.min(fetch_request.stale_began);
    let may_publish = |object: &Object| shared.may_publish(object, began);
    if shared.memory.admits(fresh.memory_bytes()) {
        shared.memory.insert(fresh.clone(), may_publish);
    } else {
        // What it replaces goes too, which would be found first. (What is purged meanwhile stays, as it was left.)
        shared.memory.remove(fresh.hash);
    }
    if let Some(disk) = &worker.disk {
        // The head changed, so the record is written anew; a large object's fragments stay where they are.
        disk.store_object(fresh, &[&fresh.body], began);
        shared.take_back_hidden(fresh);
    }
    true
}

/// The key of a variant: that of the resource, the marker's salt, the selecting values.
pub fn variant_key(primary_key: &[u8], salt: u64, list: &[u8], request: &Fields) -> Vec<u8> {
    let mut key = Vec::with_capacity(primary_key.len() + 64);
    key.extend_from_slice(primary_key);
    key.push(b'\n');
    key.extend_from_slice(&salt.to_le_bytes());
    if let Some(list) = VaryList::from_bytes(list) {
        httpcache::vary_key(&list, request, &mut key);
    }
    key
}

/// A piece of a fragment's worth of body, as the store wants it.
pub fn fragment(fetch_id: u64, number: u32) -> Fragment {
    Fragment { fetch_id, number }
}
