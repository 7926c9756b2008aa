//! Probes parents for health, and dead peers for their return.
//!
//! The first worker checks once a second which probes are due. A parent with a `health` path is asked for it every `health-interval`,
//! dead or alive. A status of 200 to 399 means alive, everything else dead, except for failures that are this proxy's own fault. Any other
//! peer is probed only while it is dead; a successful connection means alive. Probes of a peer do not overlap, and last at most [`LIMIT`].
//!
//! Not known here: the effect on requests.

use std::{rc::Rc, time::Duration};

use tokio::time::timeout;

use crate::state::Worker;
use base::{access::Destinations, clock::Instant};
use origin::{
    ConnectError, ConnectTimes, Connector, Destination, Lease, OriginContext, OriginWaits, once,
    outcome::UpstreamError,
};
use peers::{
    health::Change,
    known::{Peer, destination},
};
use plan::Health;

/// The longest duration of a probe; then it has failed.
const LIMIT: Duration = Duration::from_secs(5);

/// The interval between probes of a dead sibling.
const SIBLING_INTERVAL: Duration = Duration::from_secs(1);

/// The peer that is probed.
#[derive(Clone, Copy)]
enum Which {
    Parent(usize),
    Sibling(usize),
}

/// When each peer was last probed.
pub struct Probes {
    parents: Vec<Option<Instant>>,
    siblings: Vec<Option<Instant>>,
}

impl Probes {
    /// Starts without any probe made.
    pub fn new(worker: &Worker) -> Probes {
        let peers = &worker.shared.peers;
        peers
            .recent
            .tick(&worker.shared.cache.store, Instant::now());
        Probes {
            parents: vec![None; peers.parents().len()],
            siblings: vec![None; peers.siblings().len()],
        }
    }

    /// Begins the probes that are due. To be called once a second.
    pub fn tick(&mut self, worker: &Rc<Worker>, now: Instant) {
        let shared = &worker.shared;
        shared.peers.recent.tick(&shared.cache.store, now);
        let is_due = |last: &Option<Instant>, interval: Duration| {
            last.is_none_or(|last| now.saturating_duration_since(last) >= interval)
        };
        let edition = shared.edition();
        let parents = shared.peers.parents().iter().zip(&edition.plan.parents);
        for (number, ((peer, parent), last)) in parents.zip(&mut self.parents).enumerate() {
            let is_looked_at = parent.health.is_some() || !peer.health.is_alive();
            if is_looked_at && is_due(last, parent.health_interval) {
                *last = Some(now);
                begin(worker, peer, Which::Parent(number));
            }
        }
        let siblings = shared.peers.siblings().iter().zip(&mut self.siblings);
        for (number, (peer, last)) in siblings.enumerate() {
            if !peer.health.is_alive() && is_due(last, SIBLING_INTERVAL) {
                *last = Some(now);
                begin(worker, peer, Which::Sibling(number));
            }
        }
    }
}

fn begin(worker: &Rc<Worker>, peer: &Peer, which: Which) {
    if peer.health.begin_probe() {
        let worker = Rc::clone(worker);
        tokio::task::spawn_local(async move { look(&worker, which).await });
    }
}

async fn look(worker: &Worker, which: Which) {
    let edition = worker.shared.edition();
    let (peers, plan) = (&worker.shared.peers, &edition.plan);
    let (peer, health) = match which {
        Which::Parent(n) => (
            peers.parent(n),
            plan.parents
                .get(n)
                .and_then(|parent| parent.health.as_ref()),
        ),
        Which::Sibling(n) => (peers.sibling(n), None),
    };
    let Some(peer) = peer else { return };
    let at = match which {
        Which::Parent(n) => edition.parents.get(n),
        Which::Sibling(_) => None,
    };
    let at = at.unwrap_or(&peer.destination);
    let (origin, rules) = (&worker.origin, &peers.rules);
    let looked = match health {
        Some(health) => ask(origin, rules, &edition.origin_waits(), at, health).await,
        // Only dead peers are probed this way, so a failure changes nothing.
        None => match timeout(LIMIT, connect(&origin.connector, rules, at)).await {
            Ok(Ok(())) => Ok(()),
            _ => Err(None),
        },
    };
    match looked {
        Ok(()) => {
            if peer.health.is_well() == Change::Returned {
                tracing::info!(peer = %peer.name, "is back");
            }
        }
        Err(Some(why)) => {
            if peer.health.is_ill() == Change::Died {
                tracing::warn!(
                    peer = %peer.name, at = %peer.destination, %why, "is not well, and is not asked until it is"
                );
            }
        }
        Err(None) => {}
    }
    peer.health.end_probe();
}

/// Connects to the peer.
async fn connect(
    connector: &Connector,
    rules: &Destinations,
    at: &Destination,
) -> Result<(), ConnectError> {
    let mut times = ConnectTimes::default();
    let connecting = connector.connect_untold(at, rules, &mut times);
    // Keep the connection for the first request.
    connecting.await.map(Lease::reuse)
}

/// Asks for the health path. `Err`: why the peer is not well, or `None` if this proxy is at fault.
async fn ask(
    origin: &OriginContext,
    rules: &Destinations,
    waits: &OriginWaits,
    parent: &Destination,
    health: &Health,
) -> Result<(), Option<String>> {
    let at: Destination = match &health.at {
        Some(at) => destination(at, false),
        None => parent.clone(),
    };
    let request = format!(
        "GET {} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n",
        health.path,
        at.as_authority()
    );
    let request = once::Request {
        to: &at,
        access: rules,
        method: "GET",
        bytes: request.as_bytes(),
        signer: None,
        limits: waits.limits,
        within: LIMIT.min(waits.first_byte),
    };
    match request.send(origin).await {
        Ok(answer) if (200..=399).contains(&answer.head.status) => Ok(()),
        Ok(answer) => Err(Some(format!(
            "{} answers {}",
            health.path, answer.head.status
        ))),
        Err(error) if error.is_ours() => Err(None),
        Err(UpstreamError::Timeout) => Err(Some("no answer in time".to_owned())),
        Err(error) => Err(Some(error.to_string())),
    }
}
