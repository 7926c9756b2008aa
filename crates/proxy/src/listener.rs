//! A listener as a worker sees it.

use std::sync::Arc;

use crate::{
    access::{Clients, Destinations},
    plan::Listener,
    record::labels::Rows,
    request::ports::Ports,
    request::rulebook::Rulebook,
    request::target::RouteState,
};

/// A listener as a worker sees it.
pub struct ListenerState {
    /// Settings.
    pub listener: Listener,
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
