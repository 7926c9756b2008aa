//! From what the user said to what the program needs: `Raw` and `Machine` in, `Plan` out, or all that is wrong.
//!
//! Three steps: single settings are checked and put into a draft (`settings`); listeners are built; then what
//! only makes sense together is looked at, and defaults that depend on the machine are filled in.
//!
//! Rules kept here, and nowhere else:
//!   R1  a listener or admin interface beyond loopback says whom it serves
//!   R2  no address is used twice (port 0, any free port, excepted)
//!   R3  no origin is one of our own listeners, where that can be seen from the addresses
//!   R4  no file is written as two things: access log, profile, store
//! Those about stores are in `stores`, those about cache rules in `rules`.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use proxy::plan::{
    AccessLog, Admin, Forward, Forwarded, Heeds, Limits, Listener, LogTarget, OriginUrl, Plan,
    Role, Route, StorePlan,
};

use crate::config::draft::{Draft, LISTEN, ListenerDraft, RouteDraft};
use crate::config::machine::{Machine, OnDisk};
use crate::config::problem::{Place, Problem};
use crate::config::raw::{Given, Raw};
use crate::config::rules;
use crate::config::settings;
use crate::config::stores;
use crate::config::surroundings;
use crate::config::table;
use crate::units::{Size, Time};

const MIB: u64 = 1 << 20;
/// Files the process needs beside connections: store, logs, rings, resolver, libraries.
const FILES_RESERVED: u64 = 256;
/// Of the other files so many of a hundred may be clients; the rest is for origins, of which idle clients and hits
/// need none.
const CLIENT_FILES_PERCENT: u64 = 75;
/// Connections of a worker to one origin that no limit of files takes away: with fewer, misses would queue at any load. What
/// there is no file for is answered 503 either way.
const POOL_LEAST: u64 = 64;

/// A checked configuration.
#[derive(Clone, PartialEq, Debug)]
pub struct Settled {
    /// What the proxy needs.
    pub plan: Plan,
    /// The filter of what is said on standard error.
    pub log_level: String,
    /// What is on disk where each store is to be.
    pub stores_on_disk: Vec<OnDisk>,
    /// What is allowed but may surprise.
    pub notes: Vec<String>,
    /// Defaults that were fitted to this machine: nobody asked for more, so nobody need be warned.
    pub fitted: Vec<String>,
}

/// Checks everything.
pub fn into_plan(raw: &Raw, machine: &Machine) -> Result<Settled, Vec<Problem>> {
    let (given, blocks, problems) = stores::split(raw);
    let mut making = Making {
        raw,
        given,
        machine,
        draft: Draft::default(),
        problems,
        notes: Vec::new(),
        fitted: Vec::new(),
    };
    settings::apply(
        table::TOP,
        "",
        &making.given,
        &mut making.draft,
        &mut making.problems,
    );
    let listeners = making.listeners();
    making.check_addresses(&listeners);
    making.check_origins(&listeners);
    making.check_numbers();
    let admin = making.admin();
    let stored = stores::settle(&blocks, machine);
    making.problems.extend(stored.problems);
    making.notes.extend(stored.notes);
    making.check_files(&stored.plans);
    making.settle_limits();
    let rules = rules::settle(&raw.rules, &mut making.problems);
    making.notes.extend(rules::notes(&raw.rules, &rules));
    let found = surroundings::look(&making.draft, machine);
    for (key, message) in found.problems {
        making.complain(key, message);
    }
    making.notes.extend(found.notes);
    making.problems.extend(raw.strays.iter().cloned());

    let Making {
        draft,
        mut problems,
        notes,
        fitted,
        ..
    } = making;
    if !problems.is_empty() {
        problems
            .iter_mut()
            .for_each(|problem| find_line(problem, raw));
        problems.sort_by_key(Problem::line);
        problems.dedup();
        return Err(problems);
    }
    let mut plan = draft.plan;
    plan.listeners = listeners
        .into_iter()
        .map(|(listener, _)| listener)
        .collect();
    plan.admin = admin;
    plan.stores = stored.plans;
    plan.rules = rules;
    plan.workers = draft
        .workers
        .unwrap_or(machine.cores.clamp(Plan::WORKERS.min, Plan::WORKERS.max));
    plan.memory_bytes = draft
        .memory
        .unwrap_or_else(|| memory_default(machine.ram_bytes));
    plan.logs.access = draft.access.map(|target| AccessLog {
        target,
        format: draft.access_format,
    });
    Ok(Settled {
        plan,
        log_level: draft.log_level,
        stores_on_disk: stored.on_disk,
        notes,
        fitted,
    })
}

/// An eighth of the RAM in whole MiB, within bounds.
fn memory_default(ram_bytes: u64) -> u64 {
    (ram_bytes / 8 / MIB * MIB).clamp(Plan::MEMORY_BYTES.min, Plan::MEMORY_BYTES.default)
}

struct Making<'a> {
    raw: &'a Raw,
    /// Settings of the whole, those of all stores included.
    given: Vec<Given>,
    machine: &'a Machine,
    draft: Draft,
    problems: Vec<Problem>,
    notes: Vec<String>,
    fitted: Vec<String>,
}

impl Making<'_> {
    /// A problem with a setting outside listeners, or with what was not said.
    fn complain(&mut self, key: &str, message: String) {
        let problem = match self.given.iter().rfind(|given| given.key == key) {
            Some(given) => given.problem(message),
            None => missing(Place::Default, key, message),
        };
        self.problems.push(problem);
    }

    fn listeners(&mut self) -> Vec<(Listener, Place)> {
        let mut drafts: Vec<ListenerDraft> = Vec::new();
        for raw in &self.raw.listeners {
            let mut draft = ListenerDraft::new(raw.place.clone());
            settings::apply(
                table::LISTENER,
                "listener.",
                &raw.given,
                &mut draft,
                &mut self.problems,
            );
            for raw in &raw.routes {
                let mut route = RouteDraft::new(raw.place.clone());
                settings::apply(
                    table::ROUTE,
                    "listener.route.",
                    &raw.given,
                    &mut route,
                    &mut self.problems,
                );
                // A bad origin has been complained of already.
                if route.origin.is_none() && !raw.given.iter().any(|given| given.key == "origin") {
                    let message =
                        "every route needs an origin, such as origin = \"http://127.0.0.1:8080\""
                            .into();
                    self.problems.push(missing(
                        raw.place.clone(),
                        "listener.route.origin",
                        message,
                    ));
                }
                draft.routes.push(route);
            }
            if draft.address.is_none() && raw.given.iter().any(|given| given.key == "address") {
                // A bad address has been complained of already; with port 0 it is nobody's.
                draft.address = Some(SocketAddr::new(LISTEN.ip(), 0));
            }
            let public = draft.address.is_some_and(|address| !is_local(address.ip()));
            if public
                && draft.allow.is_empty()
                && !raw.given.iter().any(|given| given.key == "allow")
            {
                self.problems.push(needs_allow(
                    find(&raw.given, "address", "listener."),
                    "allow = [\"10.0.0.0/8\"] (flag --allow), or \"any\" for everybody",
                ));
            }
            drafts.push(draft);
        }
        if drafts.is_empty() {
            drafts.push(ListenerDraft::new(Place::Default));
        }
        if drafts.len() > Plan::LISTENERS_MAX {
            let message = format!("at most {} listeners", Plan::LISTENERS_MAX);
            self.problems.push(missing(
                drafts[Plan::LISTENERS_MAX].place.clone(),
                "listener",
                message,
            ));
        }
        drafts
            .into_iter()
            .map(|draft| self.listener(draft))
            .collect()
    }

    fn listener(&mut self, mut draft: ListenerDraft) -> (Listener, Place) {
        let allow = std::mem::take(&mut draft.allow);
        let purge_from = std::mem::take(&mut draft.purge_from);
        let address = draft.address.unwrap_or(LISTEN);
        let place = draft.place.clone();
        let forwarded = draft.forwarded;
        let is_reverse = draft.origin.is_some() || !draft.routes.is_empty();
        let defaults = if is_reverse {
            Heeds::REVERSE
        } else {
            Heeds::FORWARD
        };
        let heeds = Heeds {
            client_directives: draft
                .client_directives
                .unwrap_or(defaults.client_directives),
            targeted: defaults.targeted && draft.targeted.unwrap_or(true),
        };
        let role = if is_reverse {
            for (key, given) in [
                ("listener.connect-ports", draft.connect_ports.is_some()),
                ("listener.http-ports", draft.http_ports.is_some()),
                ("listener.allow-destinations", draft.destinations.is_some()),
            ] {
                if given {
                    let message = "is for forward proxies; this listener has an origin, so it is a reverse proxy";
                    self.problems
                        .push(missing(place.clone(), key, message.into()));
                }
            }
            Role::Reverse(self.routes(draft))
        } else {
            for (key, given) in [
                ("listener.pass-host", draft.pass_host.is_some()),
                ("listener.targeted-cache-control", draft.targeted.is_some()),
            ] {
                if given {
                    let message = "is for reverse proxies; this listener has no origin".into();
                    self.problems.push(missing(place.clone(), key, message));
                }
            }
            let defaults = Forward::for_address(address.ip());
            Role::Forward(Forward {
                connect_ports: draft.connect_ports.unwrap_or(defaults.connect_ports),
                http_ports: draft.http_ports.unwrap_or(defaults.http_ports),
                destinations: draft.destinations.unwrap_or(defaults.destinations),
            })
        };
        let forwarded = forwarded.unwrap_or(match role {
            Role::Forward(_) => Forwarded::None,
            Role::Reverse(_) => Forwarded::Replace,
        });
        (
            Listener {
                address,
                role,
                allow,
                purge_from,
                heeds,
                forwarded,
            },
            place,
        )
    }

    /// Most specific first; the listener's own origin last.
    fn routes(&mut self, draft: ListenerDraft) -> Vec<Route> {
        let mut routes: Vec<Route> = Vec::new();
        let count = draft.routes.len();
        for one in draft.routes {
            let Some(origin) = one.origin else { continue };
            if routes
                .iter()
                .any(|r| r.host == one.host && r.path_prefix == one.path)
            {
                let host = one.host.as_deref().unwrap_or("any host");
                let message = format!("a second route for {host} and {}", one.path);
                self.problems
                    .push(missing(one.place, "listener.route", message));
                continue;
            }
            routes.push(Route {
                host: one.host,
                path_prefix: one.path,
                origin,
                pass_host: one.pass_host,
            });
        }
        if let Some(origin) = draft.origin {
            if routes
                .iter()
                .any(|r| r.host.is_none() && r.path_prefix == "/")
            {
                let message =
                    "the listener's own origin is never used: a route takes every host and path"
                        .into();
                self.problems
                    .push(missing(draft.place.clone(), "listener.origin", message));
            }
            let pass_host = draft.pass_host.unwrap_or(true);
            routes.push(Route {
                pass_host,
                ..Route::everything_to(origin)
            });
        } else if draft.pass_host.is_some() {
            let message =
                "belongs to the listener's origin, and it has none; write it into the routes"
                    .into();
            self.problems
                .push(missing(draft.place.clone(), "listener.pass-host", message));
        }
        if count > Plan::ROUTES_MAX {
            let message = format!("at most {} routes a listener", Plan::ROUTES_MAX);
            self.problems
                .push(missing(draft.place, "listener.route", message));
        }
        routes.sort_by_key(Route::specificity);
        routes
    }

    /// R2
    fn check_addresses(&mut self, listeners: &[(Listener, Place)]) {
        for (i, (listener, place)) in listeners.iter().enumerate() {
            let address = listener.address;
            if address.port() == 0 {
                continue;
            }
            if listeners[..i]
                .iter()
                .any(|(other, _)| canonical(other.address) == canonical(address))
            {
                let message = format!("{address} is used by another listener already");
                self.problems
                    .push(missing(place.clone(), "listener.address", message));
            }
            if self.draft.admin == Some(address) {
                let message = format!(
                    "{address} is also a listener's address; give one of them another port"
                );
                match self.given.iter().any(|given| given.key == "admin.address") {
                    true => self.complain("admin.address", message),
                    false => {
                        let message = format!(
                            "{address} is the admin interface's address, too; give this another port, or set admin.address"
                        );
                        let place = place.clone();
                        self.problems
                            .push(missing(place, "listener.address", message));
                    }
                }
            }
        }
    }

    /// R3
    fn check_origins(&mut self, listeners: &[(Listener, Place)]) {
        let ours: Vec<SocketAddr> = listeners
            .iter()
            .map(|(listener, _)| listener.address)
            .chain(self.draft.admin)
            .collect();
        for (listener, place) in listeners {
            let Role::Reverse(routes) = &listener.role else {
                continue;
            };
            for route in routes {
                if let Some(own) = ours.iter().find(|own| is_own(&route.origin, **own)) {
                    let message = format!(
                        "the origin {} is this proxy itself (it listens on {own})",
                        route.origin
                    );
                    self.problems
                        .push(missing(place.clone(), "listener.origin", message));
                }
            }
        }
    }

    fn check_numbers(&mut self) {
        let draft = &self.draft;
        let (limits, dns, storing) = (&draft.plan.limits, &draft.plan.dns, &draft.plan.storing);
        let mut wrong: Vec<(&str, String)> = Vec::new();
        // Settings that bound each other: the bounded one is complained of, unless the other alone was written.
        let mut pairs: Vec<(&str, &str, String)> = Vec::new();
        let marks = storing.watermarks;
        if marks.low_percent >= marks.high_percent {
            let message = format!("must be below the high one, {}", marks.high_percent);
            pairs.push(("store.low-watermark", "store.high-watermark", message));
        }
        for (key, bytes) in [
            ("store.cluster", storing.cluster_bytes),
            ("store.fragment", storing.fragment_bytes),
        ] {
            wrong.extend(not_a_power(bytes).map(|message| (key, message)));
        }
        if limits.transfer_bytes_max > limits.transfer_buffer_bytes {
            let message = format!(
                "must not exceed limits.transfer-buffer, {}",
                Size(limits.transfer_buffer_bytes)
            );
            pairs.push(("limits.transfer-max", "limits.transfer-buffer", message));
        }
        if dns.ttl_min > dns.ttl_max {
            let message = format!("must not exceed dns.ttl-max, {}", Time(dns.ttl_max));
            pairs.push(("dns.ttl-min", "dns.ttl-max", message));
        }
        for (key, bound, message) in pairs {
            let is_given = |key: &str| self.given.iter().any(|given| given.key == key);
            match is_given(key) || !is_given(bound) {
                true => wrong.push((key, message)),
                false => wrong.push((bound, format!("{key}, which is not set, {message}"))),
            }
        }
        for (key, message) in wrong {
            self.complain(key, message);
        }
    }

    /// R1 for the admin interface.
    fn admin(&mut self) -> Option<Admin> {
        let address = self.draft.admin?;
        if !is_local(address.ip()) && self.draft.admin_allow.is_empty() {
            self.problems.push(needs_allow(
                find(&self.given, "admin.address", ""),
                "admin.allow = [\"10.0.0.0/8\"] (flag --admin-allow); whoever may use it may purge the cache",
            ));
        }
        Some(Admin {
            address,
            allow: self.draft.admin_allow.clone(),
        })
    }

    /// The number of connections and the limit of open files.
    /// R4.
    fn check_files(&mut self, stores: &[StorePlan]) {
        let same = |a: &Path, b: &Path| {
            let whole = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
            whole(a) == whole(b)
        };
        let access = match &self.draft.access {
            Some(LogTarget::File(path)) => Some(path.clone()),
            _ => None,
        };
        let profile = self.draft.plan.logs.profile.clone();
        let files = [("log.access", &access), ("log.profile", &profile)];
        for (key, file) in files {
            let Some(file) = file else { continue };
            if stores.iter().any(|store| same(&store.path, file)) {
                self.complain(
                    key,
                    "this is the store; a log needs a file of its own".into(),
                );
            }
        }
        if let (Some(access), Some(profile)) = (&access, &profile)
            && same(access, profile)
        {
            let message = "this is the access log; the profile needs a file of its own";
            self.complain("log.profile", message.into());
        }
    }

    fn settle_limits(&mut self) {
        let files = self.machine.files_max;
        let bearable = files.saturating_sub(FILES_RESERVED) / 100 * CLIENT_FILES_PERCENT;
        self.settle_connections(files, bearable);
        self.settle_pool(files);
    }

    /// Where they are not given, connections to one origin, and unused ones, are at most a worker's share of the files that clients
    /// leave: with all clients connected, all workers may then be at that bound.
    fn settle_pool(&mut self, files: u64) {
        let workers = self.draft.workers.unwrap_or(self.machine.cores);
        let plan = &mut self.draft.plan;
        let left = files
            .saturating_sub(FILES_RESERVED)
            .saturating_sub(plan.limits.connections_max as u64);
        let share = (left / workers.max(1) as u64).max(POOL_LEAST) as usize;
        let pool = &mut plan.pool;
        for (key, bound) in [
            ("pool.per-origin-max", &mut pool.per_origin_max),
            ("pool.idle-per-origin-max", &mut pool.idle_per_origin_max),
            ("pool.idle-max", &mut pool.idle_max),
        ] {
            if !self.given.iter().any(|given| given.key == key) {
                *bound = share.min(*bound);
            }
        }
    }

    fn settle_connections(&mut self, files: u64, bearable: u64) {
        let limits = &mut self.draft.plan.limits;
        let wanted = limits.connections_max as u64;
        if wanted <= bearable {
            return;
        }
        if self.draft.connections_given {
            self.notes.push(format!(
                "{wanted} connections need up to {} open files, but this process may have {files} (ulimit -n)",
                wanted * 100 / CLIENT_FILES_PERCENT + FILES_RESERVED
            ));
        } else {
            limits.connections_max = bearable.max(Limits::CONNECTIONS_MAX.min) as usize;
            self.fitted.push(format!(
                "connections are limited to {} instead of {wanted}, because this process may have {files} open files \
                 (ulimit -n)",
                limits.connections_max
            ));
        }
    }
}

/// What to say of a size that is no power of two.
pub fn not_a_power(bytes: u32) -> Option<String> {
    let next = u64::from(bytes).next_power_of_two();
    (!bytes.is_power_of_two()).then(|| {
        format!(
            "must be a power of two, {} or {}",
            Size(next / 2),
            Size(next)
        )
    })
}

/// A complaint about what was not written.
pub fn missing(place: Place, key: &str, message: String) -> Problem {
    Problem {
        place,
        key: key.to_owned(),
        value: String::new(),
        message,
    }
}

/// The place and value of a setting, for a complaint about it.
pub fn find(given: &[Given], key: &str, scope: &str) -> Problem {
    let mut problem = match given.iter().rfind(|given| given.key == key) {
        Some(given) => given.problem(""),
        None => missing(Place::Default, key, String::new()),
    };
    problem.key.insert_str(0, scope);
    problem
}

/// A complaint about a setting of a block, told with the block's place, gets that of the setting.
fn find_line(problem: &mut Problem, raw: &Raw) {
    if !problem.value.is_empty() || !matches!(problem.place, Place::Line(..)) {
        return;
    }
    let listeners = raw.listeners.iter();
    let routes = listeners.clone().flat_map(|listener| &listener.routes);
    let blocks = listeners
        .map(|block| ("listener.", &block.place, &block.given))
        .chain(routes.map(|block| ("listener.route.", &block.place, &block.given)))
        .chain((raw.stores.iter()).map(|block| ("store.", &block.place, &block.given)))
        .chain((raw.rules.iter()).map(|block| ("rule.", &block.place, &block.given)));
    let (place, whole) = (problem.place.clone(), problem.key.clone());
    for (scope, _, given) in blocks.filter(|block| *block.1 == place) {
        let key = whole.strip_prefix(scope);
        if let Some(given) = given.iter().rfind(|given| Some(given.key.as_str()) == key) {
            problem.place = given.place.clone();
            problem.value = given.value.to_string();
        }
    }
}

fn needs_allow(mut problem: Problem, how: &str) -> Problem {
    problem.message = format!("beyond this machine it must say whom it serves: {how}");
    problem
}

fn is_local(ip: IpAddr) -> bool {
    ip.to_canonical().is_loopback()
}

/// An IPv4 address that was written as one of IPv6 is the same address.
fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// Does the origin's address lead to a socket of ours? Names other than localhost are not resolved here; the data
/// plane refuses its own addresses when it connects.
fn is_own(origin: &OriginUrl, own: SocketAddr) -> bool {
    if own.port() != origin.port || own.port() == 0 {
        return false;
    }
    let own_ip = own.ip().to_canonical();
    match origin.host.parse::<IpAddr>().map(|ip| ip.to_canonical()) {
        Ok(ip) if ip == own_ip => true,
        // 127.0.0.1 or 0.0.0.0 as the origin reaches a socket on every address; 0.0.0.0 as ours takes all of loopback.
        Ok(ip) => {
            ip.is_loopback() && own_ip.is_unspecified()
                || ip.is_unspecified() && (own_ip.is_loopback() || own_ip.is_unspecified())
        }
        Err(_) => origin.host == "localhost" && (own_ip.is_loopback() || own_ip.is_unspecified()),
    }
}

#[cfg(test)]
#[path = "into_plan_tests.rs"]
mod tests;
