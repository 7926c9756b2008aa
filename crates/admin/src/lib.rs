//! The admin interface: figures and purges.
//!
//! | request | answer |
//! |---|---|
//! | `GET /` | a list of what there is |
//! | `GET /dashboard` | a page that shows `/live`, `/status` and `/history` as they change |
//! | `GET /status` | JSON (`status`) |
//! | `GET /live` | what goes on now, as JSON (`live`), for `loligo top` and the dashboard |
//! | `GET /history`, `GET /history?step=1` | the last hour, or the last minutes, as JSON (`history`) |
//! | `GET /profile` | the profile while it is written, as an endless stream (`record::live`); 503 if too many clients listen |
//! | `GET /metrics` | for Prometheus (`exposition`), as OpenMetrics or in its older text format (`scrape`) |
//! | `GET /healthz` | 200 while running, with a line for each unusable store; 503 while draining, or when a thread or store makes no progress |
//! | `GET /livez` | the same, but 200 while draining: tells whether a restart would help |
//! | `GET /cluster/route?url=` | where a GET of this URL would go, and why, in words (`admin::explaining`) |
//! | `POST /reload`, `?partial=1` | reloads the configuration (`proxy::reload`) |
//! | `POST /upgrade` | replaces this process by another one (`proxy::upgrade`) |
//! | `POST /upstreams/NAME/HOST:PORT?state=drain`, `up`, `down` | sets the operator's state of a server (`upstreams`) |
//! | `PURGE url`, `PURGE /url`, `DELETE /cache?url=` | purges one URL (`purge`) |
//! | `DELETE /cache?prefix=`, `DELETE /cache?tag=` | purges all URLs with the prefix, or all responses with the tag |
//! | `DELETE /cache?...&soft=1` | makes them stale instead |
//!
//! It runs on the control thread, so it costs the workers only some shared cache lines. Each figure is defined once, in `table`; `facts` gathers
//! them, `status`, `live` and `exposition` render them, `http` speaks HTTP; this file decides which requests are allowed.
//!
//! Allowed addresses may use the interface, but web pages in a browser there must not. A browser lets a page read, and send PURGE and DELETE, only
//! under the page's own host name. With DNS rebinding that name may point here, so Host must be an IP address, `localhost` or a configured name.
//! Pages cannot send absolute form, and browsers always send Host, so an HTTP/1.0 health check may leave it out; requests that change something
//! may not.
//!
//! Limits: those of `room`, the waits in `http`, heads by the proxy's own limit on targets.
#![forbid(unsafe_code)]

pub mod explain;
pub mod explaining;
mod exposition;
mod facts;
pub mod health;
mod histogram;
mod history;
mod http;
mod json;
pub mod live;
mod process;
mod room;
mod scrape;
mod snapshot;
mod status;
mod table;
mod upstreams;

use base::clock::Instant;
use std::{
    cell::{Cell, RefCell},
    net::IpAddr,
    pin::Pin,
    rc::Rc,
    sync::{Arc, MutexGuard, PoisonError, atomic::Ordering},
    time::Duration,
};

use http1::Target;
use message::Authority;
use serde_json::json;
use tokio::{
    net::TcpListener,
    task::JoinSet,
    time::{MissedTickBehavior, interval},
};

use crate::{
    explaining::{Unexplained, explain},
    facts::Facts,
    health::watch,
    history::Hour,
    http::{Answer, Request},
    live::Live,
    process::Process,
    room::{Place, Room},
    scrape::Format,
    snapshot::{HISTORY_STEP, History, Snapshot},
    status::Status,
};
use base::phase::Phase;
use base::{reloads::Refused, upgrades::Outcome};
use exchange::{
    listener::{ListenerState, listener_states},
    request::purge::{self, Order},
    state::Shared,
};
use plan::host_fits;
use record::{labels::COUNTED_MAX, metrics::Counters, origins::OriginBook, top::Top};

/// Reported origins are those of the last one to two periods.
const ORIGINS_PERIOD: Duration = Duration::from_secs(300);
/// Bytes allowed for the field lines of a request.
const FIELD_BYTES_MAX: usize = 16 << 10;
/// Bytes allowed for the text around a URL in a target.
const AROUND_URL_BYTES_MAX: usize = 1 << 10;

const GET: &str = "GET, HEAD";

/// Starts an upgrade to another process.
pub type Upgrade = fn(Arc<Shared>) -> Pin<Box<dyn Future<Output = Outcome>>>;

/// Serves until the task is aborted, or another process has taken over and all answers are written. Must be called on a `LocalRuntime`.
pub async fn serve(shared: Arc<Shared>, upgrade: Upgrade, socket: TcpListener) {
    let admin = Rc::new(Admin::new(shared, upgrade));
    let mut connections = JoinSet::new();
    let mut step = interval(HISTORY_STEP);
    step.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut sample = interval(history::FINE_STEP);
    sample.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let is_over = handed_over(Arc::clone(&admin.shared));
    tokio::pin!(is_over);
    loop {
        tokio::select! {
            // The other process accepts on the same socket.
            () = &mut is_over => break,
            accepted = socket.accept() => match accepted {
                Ok((stream, peer)) => {
                    if !admin.serves(peer.ip()) {
                        tracing::debug!(%peer, "client not allowed at the admin interface");
                        continue;
                    }
                    let _ = stream.set_nodelay(true);
                    admin.room.make();
                    let (of_it, place) = (Rc::clone(&admin), Place::new());
                    let of_task = place.clone();
                    let task = connections.spawn_local(async move {
                        let answer = async |request: &Request<'_>| {
                            of_it.answer_at(&of_task, request).await
                        };
                        http::converse(stream, &of_it.limits(), answer).await;
                    });
                    admin.room.take(place, task);
                }
                Err(error) => {
                    // Probably out of descriptors: wait for connections to end instead of spinning.
                    tracing::warn!(%error, "cannot accept a connection to the admin interface");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            },
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
            _ = step.tick() => admin.note_history(),
            _ = sample.tick() => admin.note_hour(),
        }
    }
    drop(socket);
    while connections.join_next().await.is_some() {}
}

/// Waits until another process has taken over; for ever if this process just stops.
async fn handed_over(shared: Arc<Shared>) {
    let mut phases = shared.phase.subscribe();
    let _ = phases.wait_for(|phase| *phase != Phase::Running).await;
    if !shared.is_handed_over.load(Ordering::SeqCst) {
        // This is an ordinary stop.
        std::future::pending::<()>().await;
    }
}

struct Admin {
    shared: Arc<Shared>,
    /// The listeners of an edition, and its number.
    listeners: RefCell<(u32, Vec<Rc<ListenerState>>)>,
    history: RefCell<History>,
    hour: RefCell<Hour>,
    origins: RefCell<OriginBook>,
    /// When the present period of `origins` began.
    origins_since: Cell<Instant>,
    /// Purges by this interface. (The counters of a worker have a single writer.)
    purges: Cell<u64>,
    room: Room,
    upgrade: Upgrade,
}

impl Admin {
    fn new(shared: Arc<Shared>, upgrade: Upgrade) -> Admin {
        let (mut history, mut hour) = (History::default(), Hour::default());
        // Start from zero at the start of the process, because requests may be answered before this thread takes its first snapshot.
        let nothing = [Arc::new(Counters::with_rows(COUNTED_MAX))];
        let nothing = Snapshot::of(&nothing, shared.began);
        history.note(nothing.clone());
        hour.note(nothing, Process::default());
        Admin {
            listeners: RefCell::default(),
            history: RefCell::new(history),
            hour: RefCell::new(hour),
            origins: RefCell::default(),
            origins_since: Cell::new(Instant::now()),
            purges: Cell::new(0),
            room: Room::new(),
            shared,
            upgrade,
        }
    }

    /// The largest head that is accepted.
    fn limits(&self) -> http1::Limits {
        // A URL of the longest target must fit, even if each byte is percent-encoded.
        let of_edition = self.shared.edition().limits.target_bytes_max;
        let target_bytes_max = of_edition * 3 + AROUND_URL_BYTES_MAX;
        http1::Limits {
            head_bytes_max: target_bytes_max + FIELD_BYTES_MAX,
            target_bytes_max,
            ..http1::Limits::default()
        }
    }

    /// The listeners of the present edition.
    fn listeners(&self) -> Vec<Rc<ListenerState>> {
        let edition = self.shared.edition();
        let mut known = self.listeners.borrow_mut();
        if known.0 != edition.number {
            let states = listener_states(&edition, self.shared.cache.hasher());
            *known = (edition.number, states);
        }
        known.1.clone()
    }

    fn serves(&self, client: IpAddr) -> bool {
        let plan = &self.shared.edition().plan;
        plan.admin
            .as_ref()
            .is_some_and(|admin| admin.serves(client))
    }

    fn note_history(&self) {
        let now = Snapshot::of(&self.shared.counters, Instant::now());
        self.history.borrow_mut().note(now);
    }

    fn note_hour(&self) {
        let now = Instant::now();
        let counted = Snapshot::of(&self.shared.counters, now);
        self.hour.borrow_mut().note(counted, Process::in_brief());
        self.note_origins(now);
    }

    /// Takes the counts of origins from the workers.
    fn note_origins(&self, now: Instant) {
        let mut book = self.origins.borrow_mut();
        if now.saturating_duration_since(self.origins_since.get()) >= ORIGINS_PERIOD {
            self.origins_since.set(now);
            book.turn();
        }
        for counters in &self.shared.counters {
            book.add(&counters.origins.take());
        }
    }

    /// The last hour, or the last minutes.
    fn answer_history(&self, query: Option<&str>) -> Answer {
        let hour = self.hour.borrow();
        match query {
            None | Some("" | "step=10") => Answer::json_in_a_line(&hour.columns()),
            Some("step=1") => Answer::json_in_a_line(&hour.fine_columns()),
            Some(_) => Answer::text(
                400,
                "say /history for the last hour, or /history?step=1 for the last five minutes, second by second",
            ),
        }
    }

    /// Answers where a request would go.
    fn answer_route(&self, query: Option<&str>) -> Answer {
        let url = query.and_then(|query| query.strip_prefix("url="));
        let Some(url) = url.and_then(purge::percent_decode) else {
            return Answer::text(400, "say /cluster/route?url=http://www.example.org/");
        };
        let (cluster, cache) = (self.shared.cluster.as_deref(), &self.shared.cache);
        let now_ms = self.shared.clock.now().as_millis() as u64;
        match explain(cluster, cache, &self.listeners(), &url, now_ms) {
            Ok(words) => Answer::text(200, words.trim_end()),
            Err(why @ Unexplained::NoFront) => Answer::text(503, &why.to_string()),
            Err(why @ Unexplained::NoListener) => Answer::text(404, &why.to_string()),
        }
    }

    fn facts(&self) -> Facts {
        Facts::gather(&self.shared, self.purges.get())
    }

    /// The most requested hosts and URLs, if they are counted.
    fn top(&self) -> Option<MutexGuard<'_, Top>> {
        let top = self.shared.top.as_ref()?;
        Some(top.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Answers when it is the request's turn. Health checks need not wait for a turn.
    async fn answer_at(&self, place: &Place, request: &Request<'_>) -> Answer {
        place.is_busy();
        let turn = match is_health(request) {
            true => None,
            false => Some(self.room.turn().await),
        };
        let answer = match turn {
            Some(None) => Answer::text(503, "too many requests wait for an answer already"),
            _ => self.answer(request).await,
        };
        if answer.stream.is_none() {
            place.waits();
        }
        answer
    }

    async fn answer(&self, request: &Request<'_>) -> Answer {
        if request.method == "PURGE" {
            return self.answer_purge(request).await;
        }
        let path = match self.path(request) {
            Ok(path) => path,
            Err(refusal) => return refusal,
        };
        let (path, query) = match path.split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (path, None),
        };
        let gets = matches!(request.method, "GET" | "HEAD");
        match path {
            "/cache" if request.method == "DELETE" => self.answer_delete(request, query).await,
            "/cache" => not_allowed("DELETE"),
            "/reload" if request.method == "POST" => self.answer_reload(request, query).await,
            "/reload" => not_allowed("POST"),
            "/upgrade" if request.method == "POST" => self.answer_upgrade(request, query).await,
            "/upgrade" => not_allowed("POST"),
            _ if let Some(which) = path.strip_prefix("/upstreams/") => {
                self.answer_order(request, which, query)
            }
            "" | "/" if gets => Answer::text(200, INDEX),
            "/healthz" if gets => self.health(),
            "/livez" if gets => self.liveness(),
            "/status" if gets => {
                let top = self.top().map(|top| top.told());
                let configured = (&*self.shared.edition(), &self.shared.reloads);
                let history = self.history.borrow();
                Answer::json(200, &Status::of(self.facts(), configured, &history, top))
            }
            "/live" if gets => {
                let (history, hour) = (self.history.borrow(), self.hour.borrow());
                let origins = self.origins.borrow();
                let top = self.top().map(|top| top.rankings(live::RANKED_MAX));
                let live = Live::of(self.facts(), &history, &hour, &origins, top);
                Answer::json_in_a_line(&live)
            }
            "/history" if gets => self.answer_history(query),
            "/cluster/route" if gets => self.answer_route(query),
            "/metrics" if gets => {
                let format = Format::of(request.accept);
                Answer {
                    content_type: format.content_type(),
                    body: format.write(exposition::render(self.facts())).into_bytes(),
                    ..Answer::text(200, "")
                }
            }
            "/profile" if is_of_a_foreign_page(request) => Answer::text(403, FOREIGN_PAGE),
            "/profile" if request.method == "GET" => match self.shared.events.listen() {
                Some(listening) => Answer::stream(listening),
                None => Answer::text(503, "too many listen to the profile already"),
            },
            // HEAD does not start a stream.
            "/profile" if gets => Answer {
                content_type: http::BYTES,
                ..Answer::text(200, "")
            },
            "/dashboard" if gets => Answer {
                content_type: "text/html; charset=utf-8",
                body: include_bytes!("dashboard.html").to_vec(),
                ..Answer::text(200, "")
            },
            "" | "/" | "/healthz" | "/livez" | "/status" | "/live" | "/history" | "/profile"
            | "/metrics" | "/dashboard" | "/cluster/route" => not_allowed(GET),
            _ => Answer::text(404, &format!("there is no {path} here\n\n{INDEX}")),
        }
    }

    /// The path and query of a request, if its host name is allowed.
    fn path<'a>(&self, request: &Request<'a>) -> Result<&'a str, Answer> {
        //= rfc9112 §3.2.2   a server must accept the absolute-form, though it is no proxy
        match http1::parse_target(request.method, request.target) {
            Ok(Target::Origin(path)) => {
                let is_own = request.host.is_none_or(|host| self.is_own_host(host));
                match matches!(request.method, "DELETE" | "POST") || is_own {
                    true => Ok(path),
                    false => Err(Answer::text(421, FOREIGN_NAME)),
                }
            }
            Ok(Target::Absolute {
                authority, path, ..
            }) if self.is_own_name(authority) => Ok(path),
            Ok(Target::Absolute { .. }) => Err(Answer::text(
                421,
                "this is the admin interface, not the proxy; GET / lists what is here",
            )),
            Ok(Target::Authority(_) | Target::Asterisk) => {
                Err(not_allowed("GET, HEAD, POST, PURGE, DELETE"))
            }
            Err(reject) => Err(Answer::text(reject.status(), reject.reason())),
        }
    }

    fn health(&self) -> Answer {
        let phase = *self.shared.phase.borrow();
        let lines = match (phase, self.standstill()) {
            (Phase::Draining | Phase::Stopping, _) => return Answer::text(503, "draining"),
            (Phase::Running, Some(cause)) => return Answer::text(503, &cause),
            (Phase::Running, None) => watch::ailments(&self.shared.cache),
        };
        let lines = [vec!["ok".to_owned()], lines].concat();
        Answer::text(200, &lines.join("\n"))
    }

    /// Would a restart help? Not while draining, which ends by itself.
    fn liveness(&self) -> Answer {
        match self.standstill() {
            Some(cause) => Answer::text(503, &cause),
            None => Answer::text(200, "ok"),
        }
    }

    /// Why the process cannot go on serving.
    fn standstill(&self) -> Option<String> {
        let phase = *self.shared.phase.borrow();
        watch::standstill(phase, &self.shared.pulses, &self.shared.cache)
    }

    async fn answer_purge(&self, request: &Request<'_>) -> Answer {
        let is_absolute = !request.target.starts_with('/');
        if !is_absolute && let Some(refusal) = self.refuse_foreign_name(request) {
            return refusal;
        }
        let url = purge::url_of_target(request.target);
        self.purge(&Order::of_url(url)).await
    }

    async fn answer_delete(&self, request: &Request<'_>, query: Option<&str>) -> Answer {
        if let Some(refusal) = self.refuse_foreign_name(request) {
            return refusal;
        }
        match purge::order_of_query(query) {
            Ok(order) => self.purge(&order).await,
            Err(reason) => bad_purge(reason),
        }
    }

    /// Reloads the configuration. The answer has the words of `loligo check`, or the reason of a refusal.
    async fn answer_reload(&self, request: &Request<'_>, query: Option<&str>) -> Answer {
        let is_ours = request.host.is_some_and(|host| self.is_own_host(host));
        if !is_ours || request.is_of_a_page || is_of_a_foreign_page(request) {
            return Answer::text(403, FOREIGN_RELOAD);
        }
        let is_partial = match query {
            None | Some("") => false,
            Some("partial=1") => true,
            Some(_) => return Answer::text(400, "say POST /reload, or POST /reload?partial=1"),
        };
        let by = match request.peer {
            Some(peer) => format!("the admin interface, for {peer}"),
            None => "the admin interface".to_owned(),
        };
        match self.shared.reloads.ask(by, is_partial).await {
            Ok(in_force) => {
                let notes: String = (in_force.notes.iter())
                    .map(|note| format!("\nnote: {note}\n"))
                    .collect();
                let (words, edition) = (in_force.words, in_force.edition);
                Answer::text(
                    200,
                    &format!("{words}{notes}\nin force as edition {edition}"),
                )
            }
            Err(Refused::Configuration(why)) => Answer::text(422, &why),
            Err(Refused::Process(why)) => Answer::text(503, why),
        }
    }

    /// Sets the operator's state of a server.
    fn answer_order(&self, request: &Request<'_>, which: &str, query: Option<&str>) -> Answer {
        if request.method != "POST" {
            return not_allowed("POST");
        }
        let is_ours = request.host.is_some_and(|host| self.is_own_host(host));
        if !is_ours || request.is_of_a_page || is_of_a_foreign_page(request) {
            return Answer::text(403, FOREIGN_RELOAD);
        }
        upstreams::order(&self.shared.edition().upstreams, which, query)
    }

    /// Replaces this process by another one. The answer tells the result.
    async fn answer_upgrade(&self, request: &Request<'_>, query: Option<&str>) -> Answer {
        let is_ours = request.host.is_some_and(|host| self.is_own_host(host));
        if !is_ours || request.is_of_a_page || is_of_a_foreign_page(request) {
            return Answer::text(403, FOREIGN_RELOAD);
        }
        if query.is_some_and(|query| !query.is_empty()) {
            return Answer::text(400, "say POST /upgrade");
        }
        match (self.upgrade)(Arc::clone(&self.shared)).await {
            Ok(words) => Answer::text(200, &words),
            Err(why) => Answer::text(503, &why),
        }
    }

    /// Refuses a change that is requested under a foreign host name.
    fn refuse_foreign_name(&self, request: &Request<'_>) -> Option<Answer> {
        let is_ours = request.host.is_some_and(|host| self.is_own_host(host));
        (!is_ours).then(|| Answer::json(403, &json!({ "purged": false, "error": FOREIGN_NAME })))
    }

    fn is_own_host(&self, host: &str) -> bool {
        Authority::parse(host).is_some_and(|authority| self.is_own_name(authority))
    }

    /// Is it an IP address, `localhost` or a configured name?
    fn is_own_name(&self, Authority { host, .. }: Authority<'_>) -> bool {
        let named = &self.shared.edition().plan.admin_names;
        host.eq_ignore_ascii_case("localhost")
            || host.parse::<IpAddr>().is_ok()
            || named.iter().any(|name| host_fits(name, host))
    }

    async fn purge(&self, order: &Order) -> Answer {
        match purge::purge(&self.shared, &self.listeners(), order).await {
            Ok(purged) => {
                self.purges.set(self.purges.get() + 1);
                let durable = purged.durable;
                let (what, found) = (&order.what, purged.purged);
                tracing::info!(
                    of = order.text,
                    ?what,
                    soft = order.soft,
                    ?found,
                    durable,
                    "purge"
                );
                Answer::json(if durable { 200 } else { 503 }, &purged)
            }
            Err(reason) => bad_purge(reason),
        }
    }
}

fn bad_purge(reason: &str) -> Answer {
    Answer::json(400, &json!({ "purged": false, "error": reason }))
}

/// Is this a health check, in any form of target?
fn is_health(request: &Request<'_>) -> bool {
    let path = match http1::parse_target(request.method, request.target) {
        Ok(Target::Origin(path) | Target::Absolute { path, .. }) => path,
        _ => return false,
    };
    matches!(path.split('?').next(), Some("/healthz" | "/livez"))
}

fn not_allowed(methods: &'static str) -> Answer {
    Answer {
        allow: Some(methods),
        ..Answer::text(405, &format!("only {methods} can be done here"))
    }
}

const FOREIGN_RELOAD: &str =
    "ask by IP address, localhost or a name in admin.names, and not from a web page";

const FOREIGN_PAGE: &str = "a web page of another site may not listen to the profile: it would take the place of those who may";

/// Does a page of another site make this request? The browser's user has not asked for it.
fn is_of_a_foreign_page(request: &Request<'_>) -> bool {
    let site = request.site;
    site.is_some_and(|site| !matches!(site, b"same-origin" | b"none"))
}

const FOREIGN_NAME: &str = "ask this interface by IP address, localhost or a name in admin.names: another name may be a web page's trick";

const INDEX: &str = "Loligo, admin interface

GET /dashboard             a page that shows what goes on
GET /status                the same as JSON
GET /live                  what goes on now as JSON; loligo top shows it
GET /history               the last hour as JSON, a sample every 10 s
GET /history?step=1        the last five minutes, a sample a second
GET /profile               the profile of all requests as it is written, for loligo report --live
GET /metrics               for Prometheus: OpenMetrics if Accept asks for it, else text 0.0.4
GET /healthz               200 while running, 503 while draining or at a standstill
GET /livez                 200 while running or draining, 503 at a standstill
GET /cluster/route?url=URL  where a GET of it would go, in a cluster; URL percent-encoded
POST /reload               reads the configuration again; ?partial=1 leaves out what wants a restart
POST /upgrade              starts the program anew, which takes over everything
PURGE /http://HOST/PATH    forgets a stored URL
DELETE /cache?url=URL      the same; URL percent-encoded
DELETE /cache?prefix=URL   forgets all stored URLs that begin so
DELETE /cache?tag=TAG      forgets all with TAG in Surrogate-Key or Cache-Tag
DELETE /cache?url=URL&soft=1  makes it stale instead; with prefix= and tag= too";

#[cfg(test)]
mod tests;
