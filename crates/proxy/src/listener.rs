//! A listener as a worker sees it.

use std::{rc::Rc, sync::Arc};

use crate::{
    access::{Clients, Destinations},
    origin::Destination,
    plan::{Listener, Route},
    record::labels::Rows,
    request::key::route_tags,
    request::ports::Ports,
    request::rulebook::Rulebook,
};

/// A listener as a worker sees it.
pub struct ListenerState {
    /// Settings.
    pub listener: Listener,
    /// Its number in the plan.
    pub number: usize,
    /// Its address, as it is logged.
    pub name: Box<str>,
    /// Where its requests are counted.
    pub rows: Rows,
    /// The plan's route table turned into destinations and key prefixes.
    pub routes: Vec<RouteState>,
    /// Where its requests may go.
    pub destinations: Destinations,
    /// To which ports, if it is a forward listener.
    pub http_ports: Ports,
    /// Goes into the keys of a forward listener: see [`crate::request::key`].
    pub key_tag: Vec<u8>,
    /// Who may use it.
    pub clients: Clients,
    /// The operator's cache rules: those of the whole.
    pub book: Arc<Rulebook>,
    /// What holds where they say nothing.
    pub rules: httpcache::Rules,
    /// What is stored and marked so was judged by other fields than count here: it is not served.
    pub foreign: httpcache::StandingFlags,
}

/// A route, with the values that every request needs.
#[derive(Clone)]
pub struct RouteState {
    /// As configured.
    pub route: Route,
    /// The origin.
    pub destination: Destination,
    /// Host to send if the client's is not passed on.
    pub authority: Rc<str>,
    /// Its number among the listener's routes.
    pub number: usize,
    /// The origin's name in logs.
    pub origin: Box<str>,
    /// The tags of its resources under the origin's name, and under the client's host.
    pub tags: [Vec<u8>; 2],
}

impl RouteState {
    /// Prepares a configured route.
    pub fn new((number, route): (usize, &Route)) -> RouteState {
        RouteState {
            number,
            origin: route.origin.to_string().into(),
            destination: Destination {
                tls: route.origin.tls,
                host: route.origin.host.as_str().into(),
                port: route.origin.port,
                member: None,
            },
            authority: route.origin.authority().into(),
            tags: route_tags(&route.origin),
            route: route.clone(),
        }
    }
}
