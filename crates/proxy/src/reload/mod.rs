//! Applies a new configuration while the proxy serves.
//!
//! ```text
//! SIGHUP ───────┐                       read, compared, bound, opened            every worker
//! POST /reload ─┴─> Reloads ──> run ──> (any of it fails: refused, nothing has changed) ──> Edition ──> follows
//! ```
//!
//! A configuration is checked as a whole and replaces the previous one as a whole. Every step that can fail comes first: reading, binding
//! the addresses of new listeners, reading certificates, opening logs. A change that needs a restart (`compare`) refuses the whole
//! configuration, unless a partial reload was requested; then the process and the file differ, and `/status` lists the differences.
//!
//! A worker adopts an edition between two events, so a request that began under one ends under it. The answer to a reload waits until all
//! workers have adopted the edition, at most for [`FOLLOWED_MAX`].
//!
//! Limits: one edition in [`PAUSE`]; requests within a pause become one reload, of the file at its end. `base::reloads` bounds waiting ones.
//!
//! Not known here: configuration files, what a worker does with an edition (`worker`).

mod compare;
mod lists;
pub mod ordering;
pub mod renewing;

use std::{
    collections::HashSet,
    net::TcpListener,
    rc::Rc,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use store::KeyHasher;

use base::accepting;
use base::reloads::{Asks, InForce, LastRefused, Outcome, Refused, What};
use base::{clock::Instant, listening::ListenerId, notify::Manager};
use cache::Cache;
use exchange::{
    edition::{Edition, Loaded, Parts},
    state::Shared,
};
use origin::OriginsTls;
use plan::{Listener, Plan, Role};
use quota::Quotas;
use record::journal::{LogFiles, OpenedLogs};
use rules::key::tags_of;
use tls::served::{self, ServedTls};

/// The least time between two editions.
const PAUSE: Duration = Duration::from_millis(100);
/// How long a reload waits for the workers. A slower worker adopts the edition later, and the answer says so.
const FOLLOWED_MAX: Duration = Duration::from_secs(5);
/// How often a reload checks whether the workers have adopted the edition.
const FOLLOWED_STEP: Duration = Duration::from_millis(1);
/// Pause between two steps of shrinking the memory tier.
const SHRINK_STEP: Duration = Duration::from_millis(100);

/// A checked configuration.
pub struct Reading {
    /// The settings.
    pub plan: Plan,
    /// The settings' meaning in lines of text, as `loligo check` prints it.
    pub words: String,
    /// Called once the configuration is in force.
    pub when_in_force: Box<dyn FnOnce()>,
}

impl Reading {
    /// A plan without text.
    pub fn of(plan: Plan) -> Reading {
        Reading {
            plan,
            words: String::new(),
            when_in_force: Box::new(|| {}),
        }
    }
}

/// Reads the configuration again. The error is for the operator: a line for each fault, with its place and a remedy.
pub type Reread = Box<dyn FnMut() -> Result<Reading, String>>;

/// The state for carrying out reloads.
pub struct Control {
    shared: Arc<Shared>,
    reread: Reread,
    /// The plan as it was read, without the ports that the system chose.
    configured: Plan,
    /// The number of the next listener.
    next_id: u32,
    logs: LogFiles,
    manager: Rc<Manager>,
    lists: lists::Watched,
}

impl Control {
    /// For a process that runs with `configured`. `manager`: the service manager, which is told of reloads.
    pub fn new(
        shared: Arc<Shared>,
        reread: Reread,
        configured: Plan,
        logs: LogFiles,
        manager: Rc<Manager>,
    ) -> Control {
        Control {
            next_id: configured.listeners.len() as u32,
            shared,
            reread,
            configured,
            logs,
            manager,
            lists: lists::Watched::default(),
        }
    }

    /// Carries out reloads, one after the other, until the senders are gone.
    pub async fn run(mut self, asks: Asks) {
        let mut asks = asks.0;
        let mut last: Option<Instant> = None;
        loop {
            let first = match lists::has_any(&self.configured) {
                false => asks.recv().await,
                true => match tokio::time::timeout(lists::LOOK_EVERY, asks.recv()).await {
                    Ok(first) => first,
                    Err(_) => {
                        self.look_at_lists().await;
                        continue;
                    }
                },
            };
            let Some(first) = first else {
                return;
            };
            let mut waiting = vec![first];
            if let Some(last) = last {
                tokio::time::sleep_until(last + PAUSE).await;
            }
            while let Ok(more) = asks.try_recv() {
                waiting.push(more);
            }
            // A reload also reads the certificates, so it includes their renewal.
            let whole = waiting.iter().rfind(|ask| ask.what != What::Certificates);
            let outcome = match whole.or(waiting.last()) {
                Some(ask) if ask.what == What::Certificates => self.renew(&ask.by).await,
                Some(ask) => self.reload(&ask.by, ask.what == What::Partial, None).await,
                None => continue,
            };
            last = Some(Instant::now());
            for ask in waiting {
                // The requester may have gone.
                let _ = ask.answer.send(outcome.clone());
            }
        }
    }

    /// Reads a list of hosts again if its file has changed, and applies it.
    async fn look_at_lists(&mut self) {
        let Some(found) = self.lists.look(&self.configured).await else {
            return;
        };
        let by = "a list of hosts whose file has changed";
        // The outcome is logged, and no requester waits for it.
        let _ = self.reload(by, false, Some(found)).await;
    }

    /// `lists`: the present plan with changed lists of hosts. `None`: read the configuration.
    async fn reload(
        &mut self,
        by: &str,
        is_partial: bool,
        lists: Option<Result<Plan, String>>,
    ) -> Outcome {
        self.manager.reloads();
        let reloads = &self.shared.reloads;
        reloads.is_under_way.store(true, Ordering::SeqCst);
        let outcome = self.try_reload(by, is_partial, lists).await;
        let reloads = &self.shared.reloads;
        reloads.is_under_way.store(false, Ordering::SeqCst);
        let status = match &outcome {
            Ok(in_force) => {
                let edition = in_force.edition;
                for note in &in_force.notes {
                    tracing::warn!("{note}");
                }
                tracing::info!(by, edition, "the configuration is in force");
                format!("edition {edition} of the configuration")
            }
            Err(refused) => {
                let why = refused.to_string();
                for line in why.lines() {
                    tracing::error!(by, "the configuration is refused: {line}");
                }
                let first = why.lines().next().unwrap_or_default();
                let status = format!("the last reload was refused: {first}");
                self.shared.reloads.refused(LastRefused {
                    at: self.shared.clock.now(),
                    by: by.to_owned(),
                    why,
                });
                status
            }
        };
        self.manager.is_ready(&status);
        outcome
    }

    /// Puts renewed certificates into service, in an edition that differs in nothing else.
    async fn renew(&mut self, by: &str) -> Outcome {
        let shared = Arc::clone(&self.shared);
        let running = shared.edition();
        let served = load_served(&running.plan, &running, shared.clock.now())?;
        let tls = renewed(&running.tls, &running.plan).await?;
        let loaded = Loaded {
            at: shared.clock.now(),
            by: by.to_owned(),
            ..running.loaded.clone()
        };
        let plan = running.plan.clone();
        let tls = (tls, served);
        let edition = self.after(&running, plan, running.ids.clone(), tls, loaded);
        let number = edition.number;
        let notes = edition.troubles(shared.clock.now());
        shared.editions.send_replace(Arc::new(edition));
        self.followed(number).await;
        tracing::info!(edition = number, "renewed certificates are in service");
        for note in &notes {
            tracing::error!("{note}");
        }
        Ok(InForce {
            edition: number,
            words: running.loaded.words.clone(),
            notes,
        })
    }

    async fn try_reload(
        &mut self,
        by: &str,
        is_partial: bool,
        lists: Option<Result<Plan, String>>,
    ) -> Outcome {
        let shared = Arc::clone(&self.shared);
        self.may_reload()?;
        let (reading, left_out) = self.read(lists)?;
        let mut wanting = compare::wanting_a_restart(&self.configured, &reading.plan);
        if !wanting.is_empty() && !is_partial {
            let why = format!(
                "{} changed, and that wants a restart; restart, take it back, or reload the rest with `loligo reload --partial`",
                wanting.join(", ")
            );
            return Err(Refused::Configuration(why));
        }
        wanting.extend(left_out);
        let configured = compare::without_a_restart(&self.configured, reading.plan);
        let running = shared.edition();
        let listeners = self.listen(&running, &configured)?;
        let mut plan = at_the_same_places(&running.plan, configured.clone());
        for (listener, placed) in plan.listeners.iter_mut().zip(&listeners) {
            listener.address = placed.address;
        }
        let tls = renewed(&running.tls, &plan).await?;
        let served = load_served(&plan, &running, shared.clock.now())?;
        let opened = self.logs.open(&plan);
        let opened = opened.map_err(|(setting, error)| {
            Refused::Configuration(format!(
                "{setting}: {error}; name another file, or let this user write there"
            ))
        })?;

        // From here on nothing fails.
        let mut notes = notes(&running, &plan, &listeners, shared.cache.hasher());
        let ids = listeners.iter().map(|listener| listener.id).collect();
        let loaded = Loaded {
            at: shared.clock.now(),
            by: by.to_owned(),
            words: reading.words.clone(),
            wanting_a_restart: wanting,
        };
        let edition = Arc::new(self.after(&running, plan, ids, (tls, served), loaded));
        for (placed, as_read) in listeners.into_iter().zip(&configured.listeners) {
            let (id, sockets) = (placed.id, placed.sockets);
            if !sockets.is_empty() {
                let workers = shared.counters.len();
                (shared.listening).offer(id, as_read.address, sockets, workers);
            }
        }
        let have_followed = self.put_into_force(&edition, opened).await;
        self.configured = configured;
        (reading.when_in_force)();
        notes.extend(edition.troubles(shared.clock.now()));
        for who in edition.plan.unverified() {
            tracing::warn!(
                "the certificate of {who} is not verified: whoever answers there is believed"
            );
        }
        if !have_followed {
            let late = "a worker has not taken over the new configuration yet; it does when it moves again";
            notes.push(late.to_owned());
        }
        Ok(InForce {
            edition: edition.number,
            words: reading.words,
            notes,
        })
    }

    fn may_reload(&self) -> Result<(), Refused> {
        let why_not = if self.shared.is_draining() {
            "the process is draining; start it anew"
        } else if self.shared.upgrades.are_under_way() {
            "an upgrade is under way: the new process reads the configuration anyway"
        } else {
            return Ok(());
        };
        Err(Refused::Process(why_not))
    }

    /// The configuration to apply, and the parts that a partial reload left out before and that are still left out.
    fn read(
        &mut self,
        lists: Option<Result<Plan, String>>,
    ) -> Result<(Reading, Vec<&'static str>), Refused> {
        let Some(lists) = lists else {
            let reading = (self.reread)().map_err(Refused::Configuration)?;
            return Ok((reading, Vec::new()));
        };
        let loaded = &self.shared.edition().loaded;
        let reading = Reading {
            words: loaded.words.clone(),
            ..Reading::of(lists.map_err(Refused::Configuration)?)
        };
        Ok((reading, loaded.wanting_a_restart.clone()))
    }

    /// The edition that follows the running one.
    fn after(
        &self,
        running: &Edition,
        plan: Plan,
        ids: Vec<ListenerId>,
        (tls, served): (OriginsTls, Vec<Option<Arc<ServedTls>>>),
        loaded: Loaded,
    ) -> Edition {
        let shared = &self.shared;
        Edition::new(Parts {
            number: running.number + 1,
            ids,
            rows: shared.labels.rows(&plan.listeners),
            rule_counts: shared.rules.counts(&plan.rules),
            quotas: Quotas::new(&plan.quotas, Some(&running.quotas)),
            plan,
            tls,
            served,
            upstreams_before: running.upstreams.clone(),
            signers_before: running.signers.clone(),
            hasher: shared.cache.hasher(),
            via_tag: shared.via_tag,
            loaded,
        })
    }

    /// Makes the workers adopt an edition. False: one has not in time.
    async fn put_into_force(&self, edition: &Arc<Edition>, mut logs: OpenedLogs) -> bool {
        let shared = &self.shared;
        shared.follow(&edition.plan);
        self.logs.begin(&mut logs).await;
        shared.editions.send_replace(Arc::clone(edition));
        let have_followed = self.followed(edition.number).await;
        shared.listening.keep(&edition.ids);
        // Logs that end are closed only when no worker writes to them any more.
        self.logs.end(&logs).await;
        tokio::task::spawn_local(shrink(Arc::clone(&shared.cache)));
        have_followed
    }

    /// Waits until all workers have adopted an edition. False: one has not in time.
    async fn followed(&self, number: u32) -> bool {
        let shared = &self.shared;
        let deadline = Instant::now() + FOLLOWED_MAX;
        let is_behind = || (shared.followed.iter()).any(|it| it.load(Ordering::Acquire) < number);
        while is_behind() {
            if Instant::now() >= deadline || shared.is_draining() {
                return false;
            }
            tokio::time::sleep(FOLLOWED_STEP).await;
        }
        true
    }

    /// Finds the listeners that stay, and binds the new ones.
    fn listen(&mut self, running: &Edition, wanted: &Plan) -> Result<Vec<Placed>, Refused> {
        let known = self.configured.listeners.iter();
        let known = known.zip(&running.ids).zip(&running.plan.listeners);
        let mut known: Vec<_> = known
            .map(|((as_read, id), now)| (as_read.address, *id, now.address))
            .collect();
        let mut next = self.next_id;
        let mut placed = Vec::new();
        for listener in &wanted.listeners {
            let stays = known
                .iter()
                .position(|(as_read, ..)| *as_read == listener.address);
            if let Some(at) = stays {
                let (_, id, address) = known.remove(at);
                placed.push(Placed {
                    id,
                    address,
                    sockets: Vec::new(),
                });
                continue;
            }
            let refused = |error: std::io::Error| {
                Refused::Configuration(format!(
                    "listener.address = \"{}\": cannot listen there: {error}; choose another address, or end what has it",
                    listener.address
                ))
            };
            let sockets = accepting::listen(listener.address, wanted.workers).map_err(refused)?;
            let first = sockets
                .first()
                .map_or(Ok(listener.address), TcpListener::local_addr);
            placed.push(Placed {
                id: ListenerId(next),
                address: first.map_err(refused)?,
                sockets,
            });
            next += 1;
        }
        self.next_id = next;
        Ok(placed)
    }
}

/// A listener of the new edition.
struct Placed {
    id: ListenerId,
    /// The address, with the port that the system chose.
    address: std::net::SocketAddr,
    /// The sockets of a new listener.
    sockets: Vec<TcpListener>,
}

/// Restores the parts that need a restart as they run, with the ports that the system chose.
fn at_the_same_places(running: &Plan, mut plan: Plan) -> Plan {
    if let (Some(now), Some(admin)) = (&running.admin, &mut plan.admin) {
        admin.address = now.address;
    }
    plan.icp = running.icp.clone();
    plan.cluster = running.cluster.clone();
    plan
}

/// TLS to origins with the present certificates.
async fn renewed(now: &OriginsTls, plan: &Plan) -> Result<OriginsTls, Refused> {
    let next = OriginsTls::load(plan);
    let next =
        next.map_err(|unusable| Refused::Configuration(format!("TLS to origins: {unusable}")))?;
    Ok(next.renewed(now).await)
}

/// TLS to clients with the present files.
fn load_served(
    plan: &Plan,
    running: &Edition,
    now: Duration,
) -> Result<Vec<Option<Arc<ServedTls>>>, Refused> {
    let served = served::load(plan, &running.served, now);
    served.map_err(|unusable| Refused::Configuration(format!("TLS of a listener: {unusable}")))
}

/// Shrinks the memory tier to its new size in steps.
async fn shrink(cache: Arc<Cache>) {
    while cache.memory.shrink() {
        tokio::time::sleep(SHRINK_STEP).await;
    }
}

/// Warnings about listeners that no longer find some stored responses, because their keys have changed.
fn notes(running: &Edition, plan: &Plan, placed: &[Placed], hasher: KeyHasher) -> Vec<String> {
    let mut notes = Vec::new();
    for (listener, Placed { id, .. }) in plan.listeners.iter().zip(placed) {
        let before = running.ids.iter().position(|known| known == id);
        let Some(before) = before.and_then(|at| running.plan.listeners.get(at)) else {
            continue;
        };
        if has_lost_a_tag(before, listener, hasher) {
            let (address, which) = (listener.address, what_tags(listener));
            notes.push(format!(
                "the listener on {address} no longer finds all that it has stored: {which} changed, which its keys name"
            ));
        }
    }
    notes
}

fn has_lost_a_tag(before: &Listener, after: &Listener, hasher: KeyHasher) -> bool {
    let after: HashSet<Vec<u8>> = tags_of(after, hasher).into_iter().collect();
    let mut before = tags_of(before, hasher).into_iter();
    before.any(|tag| !after.contains(&tag))
}

fn what_tags(listener: &Listener) -> &'static str {
    match listener.role {
        Role::Forward(_) => "its rules for destinations",
        Role::Reverse(_) => "an origin of its routes",
    }
}
