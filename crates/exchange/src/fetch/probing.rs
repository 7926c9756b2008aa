//! Looks whether parents live, and whether dead peers are back.
//!
//! The first worker looks once a second which peers are due. A parent with a `health` path is asked for it every `health-interval`,
//! dead or alive; an answer of 200 to 399 is health, everything else death, but for what this proxy is to blame for. Another peer is looked at only when it is dead: if a
//! connection to it can be made, it is alive. A look that is under way is not begun again, and ends after [`LIMIT`].
//!
//! Not known here: what happens to requests.

use std::{cell::Cell, rc::Rc, time::Duration};

use crate::{fetch::whom::whom_of, state::Worker};
use base::clock::Instant;
use origin::{
    Destination,
    outcome::UpstreamError,
    trip::{Hop, Trip},
    upstream,
};
use peers::{
    health::Change,
    known::{Peer, destination},
};
use plan::Health;

/// The longest a look takes; then it has failed.
const LIMIT: Duration = Duration::from_secs(5);

/// The interval at which siblings that are dead are looked at.
const SIBLING_INTERVAL: Duration = Duration::from_secs(1);

/// Which peer.
#[derive(Clone, Copy)]
enum Which {
    Parent(usize),
    Sibling(usize),
}

/// When each peer was looked at last.
pub struct Probes {
    parents: Vec<Option<Instant>>,
    siblings: Vec<Option<Instant>>,
}

impl Probes {
    /// Nobody was looked at.
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

    /// Looks at whom it is due. To be called once a second.
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
    let has_place = Cell::new(false);
    let looked = match health {
        Some(health) => tokio::time::timeout(LIMIT, ask(worker, peer, health, &has_place)).await,
        None => tokio::time::timeout(LIMIT, connect(worker, peer, &has_place)).await,
    };
    let in_vain = |_| {
        Err(Fault {
            is_ours: !has_place.get(),
            why: "no answer in time".to_owned(),
        })
    };
    let change = match looked.unwrap_or_else(in_vain) {
        Ok(()) => (peer.health.is_well(), String::new()),
        Err(fault) if health.is_some() && !fault.is_ours => (peer.health.is_ill(), fault.why),
        // It was dead, and still is; or nothing was learned of it.
        Err(fault) => (Change::None, fault.why),
    };
    peer.health.end_probe();
    match change {
        (Change::Returned, _) => tracing::info!(peer = %peer.name, "is back"),
        (Change::Died, why) => tracing::warn!(
            peer = %peer.name, at = %peer.destination, %why, "is not well, and is not asked until it is"
        ),
        (Change::None, _) => {}
    }
}

/// Why a look has failed.
struct Fault {
    /// This proxy is to blame.
    is_ours: bool,
    /// In words.
    why: String,
}

impl From<UpstreamError> for Fault {
    fn from(error: UpstreamError) -> Fault {
        Fault {
            is_ours: error.is_ours(),
            why: error.to_string(),
        }
    }
}

/// Can it be connected to?
async fn connect(worker: &Worker, peer: &Peer, has_place: &Cell<bool>) -> Result<(), Fault> {
    let rules = &worker.shared.peers.rules;
    let connected = (worker.origin.connector)
        .connect_anew(&peer.destination, rules, has_place)
        .await;
    match connected {
        Ok(lease) => {
            // The first request will want it.
            lease.reuse();
            Ok(())
        }
        Err(error) => Err(UpstreamError::from(error).into()),
    }
}

/// Does it say that it is well?
async fn ask(
    worker: &Worker,
    peer: &Peer,
    health: &Health,
    has_place: &Cell<bool>,
) -> Result<(), Fault> {
    let at: Destination = match &health.at {
        Some(at) => destination(at),
        None => peer.destination.clone(),
    };
    let request = format!(
        "GET {} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n",
        health.path,
        at.as_authority()
    );
    let trip = Trip::new();
    let edition = worker.shared.edition();
    let whom = upstream::Whom {
        header: None,
        destination: &at,
        ..whom_of(&worker.asking, &edition, peer, Hop::default(), &trip)
    };
    let lease = (worker.origin.connector)
        .connect_anew(whom.destination, whom.rules, has_place)
        .await;
    let lease = lease.map_err(UpstreamError::from)?;
    let mut upstream = upstream::Upstream::new(lease, trip.clone(), whom.waits);
    let watch = worker.deadlines.watch();
    let answer = async {
        (upstream.send(&worker.origin, &watch, request.as_bytes())).await?;
        upstream.head(&worker.origin, &watch, "GET").await
    };
    let head = answer.await?;
    match head.status {
        200..=399 => Ok(()),
        status => Err(Fault {
            is_ours: false,
            why: format!("{} answers {status}", health.path),
        }),
    }
}
