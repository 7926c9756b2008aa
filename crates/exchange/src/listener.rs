//! A listener's state on a worker.

use std::{rc::Rc, sync::Arc};

use store::KeyHasher;

use crate::{edition::Edition, mirror::settings::Mirror};
use base::{
    access::{Clients, Destinations},
    listening::ListenerId,
};
use origin::{Destination, signing::Signer};
use plan::{Listener, Role, Route};
use quota::Tolls;
use record::labels::Rows;
use rules::{
    key::{forward_tag, route_tags},
    ports::Ports,
    routing::RouteIndex,
    rulebook::{Met, Rulebook},
};
use tls::served::ServedTls;
use upstreams::Group;

/// A listener's state on a worker.
pub struct ListenerState {
    /// The listener's configuration.
    pub edition: Arc<Edition>,
    /// Settings.
    pub listener: Listener,
    /// TLS to clients; `None`: plain HTTP.
    pub tls: Option<Arc<ServedTls>>,
    /// The listener's number in the process.
    pub id: ListenerId,
    /// The listener's number in the plan.
    pub number: usize,
    /// The listener's address in logs.
    pub name: Box<str>,
    /// The counters of the listener's requests.
    pub rows: Rows,
    /// The plan's route table turned into destinations and key prefixes.
    pub routes: Vec<RouteState>,
    /// Finds the route of a request.
    pub routing: Arc<RouteIndex>,
    /// The addresses that requests may be sent to.
    pub destinations: Destinations,
    /// The ports that a forward listener's requests may be sent to.
    pub http_ports: Ports,
    /// Part of a forward listener's keys: see [`rules::key`].
    pub key_tag: Vec<u8>,
    /// The clients that may use the listener.
    pub clients: Clients,
    /// The quotas of the listener.
    pub tolls: Tolls,
    /// The quotas that each rule names.
    pub rule_tolls: Rc<[Tolls]>,
    /// The operator's rules, the same for all listeners.
    pub book: Arc<Rulebook>,
    /// The caching rules where the operator's rules set nothing else.
    pub rules: httpcache::Rules,
    /// Stored responses with one of these flags were judged by cache fields that do not count here, and are not served.
    pub foreign: httpcache::StandingFlags,
}

/// A route, with the values that every request needs.
#[derive(Clone)]
pub struct RouteState {
    /// As configured.
    pub route: Route,
    /// The origin. With an upstream, no connection is made to it.
    pub destination: Destination,
    /// The upstream whose servers are asked in the origin's place.
    pub upstream: Option<Arc<Group>>,
    /// Host to send if the client's is not passed on.
    pub authority: Rc<str>,
    /// Verifies, rewrites or filters the route's answers, if configured.
    pub mirror: Option<Rc<Mirror>>,
    /// Signs requests to the origin.
    pub signer: Option<Arc<Signer>>,
    /// Its number among the listener's routes.
    pub number: usize,
    /// The origin's name in logs.
    pub origin: Box<str>,
    /// The key tags of the route's resources, under the origin's name and under the client's host.
    pub tags: [Vec<u8>; 2],
}

impl ListenerState {
    /// Do clients use https?
    pub fn is_https(&self) -> bool {
        self.listener.tls.is_some()
    }
}

impl RouteState {
    /// Prepares a configured route.
    pub fn new((number, route): (usize, &Route), edition: &Edition, is_tls: bool) -> RouteState {
        let upstream = route.upstream.as_ref().map(|name| {
            let mut all = edition.upstreams.iter();
            let found = all.find(|upstream| upstream.name() == name);
            Arc::clone(found.expect("a route names an upstream of its plan"))
        });
        let terms = match &upstream {
            Some(upstream) => edition.tls.of_upstream(&upstream.plan),
            None => edition.tls.of(route.tls.as_ref()),
        };
        RouteState {
            mirror: Mirror::new(&route.mirror, &edition.own_addresses),
            signer: edition.signers.by(route.sign.as_ref()),
            number,
            origin: route.origin_name().into(),
            destination: Destination {
                tls: route.origin.tls,
                host: route.origin.host.as_str().into(),
                port: route.origin.port,
                member: None,
                terms,
                http2: route.http2,
            },
            authority: match (&route.mirror.origin_host, &upstream) {
                (Some(host), _) => host.as_str().into(),
                (None, Some(upstream)) => upstream.plan.host().into(),
                (None, None) => route.origin.authority().into(),
            },
            upstream,
            tags: route_tags(route, is_tls),
            route: route.clone(),
        }
    }
}

/// The listeners of an edition, for one thread.
pub fn listener_states(edition: &Arc<Edition>, hasher: KeyHasher) -> Vec<Rc<ListenerState>> {
    let rules = edition.plan.rules.iter();
    let rule_tolls: Rc<[Tolls]> = rules
        .map(|rule| edition.quotas.named(&rule.then.quotas))
        .collect();
    let state = |(number, ((listener, rows), id)): (usize, ((&Listener, &Rows), &ListenerId))| {
        let (routes, destinations) = match &listener.role {
            Role::Forward(forward) => (
                Vec::new(),
                Destinations {
                    loopback: forward.destinations.loopback,
                    link_local: forward.destinations.link_local,
                    allow: forward.destinations.allow.clone(),
                    own: edition.own_addresses.clone(),
                    connect_ports: forward.connect_ports.clone(),
                },
            ),
            // The operator named the origins: any address but our own is fine.
            Role::Reverse(routes) => (
                (routes.iter().enumerate())
                    .map(|route| RouteState::new(route, edition, listener.tls.is_some()))
                    .collect(),
                Destinations {
                    loopback: true,
                    link_local: true,
                    allow: Vec::new(),
                    own: edition.own_addresses.clone(),
                    connect_ports: Vec::new(),
                },
            ),
        };
        Rc::new(ListenerState {
            key_tag: match &listener.role {
                Role::Forward(forward) => forward_tag(&forward.destinations, hasher),
                Role::Reverse(_) => Vec::new(),
            },
            routes,
            routing: Arc::clone(&edition.routing[number]),
            destinations,
            http_ports: match &listener.role {
                Role::Forward(forward) => Ports::new(&forward.http_ports),
                Role::Reverse(_) => Ports::new(&[]),
            },
            clients: Clients {
                allow: listener.allow.clone(),
            },
            tolls: edition.quotas.named(&listener.quotas),
            rule_tolls: Rc::clone(&rule_tolls),
            id: *id,
            number,
            name: listener.address.to_string().into(),
            rows: rows.clone(),
            rules: httpcache::Rules {
                targeted: listener.heeds.targeted,
                client_directives: listener.heeds.client_directives,
                cookie_bars_guess: matches!(listener.role, Role::Reverse(_)),
                ..edition.rules
            },
            foreign: httpcache::StandingFlags::foreign(listener.heeds.targeted),
            listener: listener.clone(),
            tls: edition.served.get(number).cloned().flatten(),
            book: Arc::clone(&edition.book),
            edition: Arc::clone(edition),
        })
    };
    let listeners = edition
        .plan
        .listeners
        .iter()
        .zip(&edition.rows)
        .zip(&edition.ids);
    listeners.enumerate().map(state).collect()
}

impl ListenerState {
    /// The quotas of a request that matches these rules.
    pub fn tolls_of(&self, met: &Met) -> Tolls {
        match self.book.quotas_of(met) {
            None => self.tolls,
            Some(rule) => self.tolls.and(self.rule_tolls[rule]),
        }
    }
}
