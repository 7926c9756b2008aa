//! Chooses between parents, servers and origins for a request, and asks them.
//!
//! A route of a reverse listener names its origin, or an upstream of several servers ([`upstreams`]). For a forward listener the
//! configured parents come before the origin, after it, or instead of it ([`peers::known`]). If the first destination gives no answer and
//! nothing was sent to the client yet, the next one is asked, once. Siblings and members are asked before (`ask`).
//!
//! A destination that the listener may not reach is refused whichever server would be asked: a parent must not be a way around the rules,
//! as far as the address is visible here (a literal, `localhost`). The parent resolves names, and its own rules apply to them.
//!
//! Not known here: what is stored, how the answer is used.

use std::{rc::Rc, sync::Arc};

use bytes::BytesMut;
use httpcache::UnixMillis;
use message::{RequestHead, ResponseHead};
use profile::Hierarchy;

use crate::{
    edition::Edition,
    listener::ListenerState,
    request::{onward, target::Asked},
};
use base::{
    clock::{Instant, WallClock},
    deadline::{Deadlines, Watch},
};
use origin::{
    Destination, Lease, OriginContext, OriginWaits,
    outcome::UpstreamError,
    trip::{Hop, Trip},
    upstream::{self, Fit, Upstream, Whom, is_interim},
};
use peers::{
    health::Change,
    known::{Peer, Peers, Way, Ways, hash_of_url},
    levels, proxied,
};
use plan::Role;
use upstreams::asking;

/// The parts of a thread that a request to a server needs.
pub struct AskContext {
    /// Connections and their bounds.
    pub origin: Rc<OriginContext>,
    /// Parents and siblings.
    pub peers: Arc<Peers>,
    /// Time-outs.
    pub deadlines: Deadlines,
    /// Wall time, for the time of an answer.
    pub wall: Rc<WallClock>,
}

impl AskContext {
    /// Wall time now.
    pub fn now_ms(&self) -> UnixMillis {
        UnixMillis(self.wall.ms_at(Instant::now()))
    }
}

/// A request to a server on behalf of a client of this listener.
#[derive(Clone, Copy)]
pub struct To<'a> {
    /// The origin and the resource's name there.
    pub asked: &'a Asked,
    /// The client's listener.
    pub listener: &'a ListenerState,
    /// Measures the request, for the record.
    pub trip: &'a Trip,
}

impl<'a> To<'a> {
    /// The parent with this number.
    fn parent(self, context: &'a AskContext, number: usize, peer: &'a Peer) -> Whom<'a> {
        let hop = Hop::to(Hierarchy::Parent, number);
        let edition = &self.listener.edition;
        let at = edition.parents.get(number).unwrap_or(&peer.destination);
        whom_of(context, edition, at, hop, self.trip)
    }

    /// The same request, for an upstream.
    fn upstream(self) -> asking::Asked<'a> {
        asking::Asked {
            origin: self.origin(),
            host: &self.asked.host,
            target: &self.asked.target,
            client: self.asked.client,
        }
    }

    /// The origin itself. For an upstream, one of its servers takes the origin's place.
    pub fn origin(self) -> Whom<'a> {
        Whom {
            destination: &self.asked.destination,
            header: self.asked.header.as_deref(),
            rules: &self.listener.destinations,
            hop: Hop::DIRECT,
            trip: self.trip,
            verdict: None,
            waits: self.waits(),
            signer: self.asked.signer.as_deref(),
        }
    }

    /// The limits for the origin, and how leniently its answers are parsed.
    pub fn waits(self) -> OriginWaits {
        let mut waits = self.listener.edition.origin_waits();
        if let Role::Forward(forward) = &self.listener.listener.role
            && forward.lenient.has(&self.asked.destination.host)
        {
            waits.limits.lenient = http1::Lenient {
                bare_lf: forward.lenient.bare_lf,
                folding: forward.lenient.folding,
            };
        }
        waits
    }
}

/// Sends a request without a body to a parent, server or origin, and waits for the final head, as the origin sent it. Interim responses
/// are dropped.
pub async fn ask_final(
    context: &AskContext,
    watch: &Watch,
    to: To<'_>,
    method: &str,
    request: &[u8],
) -> Result<(Upstream, ResponseHead), UpstreamError> {
    let (mut upstream, mut head) = ask_first(context, watch, to, method, request).await?;
    while is_interim(&head) {
        head = next_head(context, watch, &mut upstream, method).await?;
    }
    Ok((upstream, head))
}

/// Sends a request without a body to a parent, server or origin, and waits for the first head, as the origin sent it.
pub async fn ask_first(
    context: &AskContext,
    watch: &Watch,
    to: To<'_>,
    method: &str,
    request: &[u8],
) -> Result<(Upstream, ResponseHead), UpstreamError> {
    let [first, second] = ways(context, to)?;
    let first = first.unwrap_or(Way::Direct);
    let answer = ask_one(context, watch, to, first, method, request).await;
    match (answer, second) {
        (Err(error), Some(second)) if error.may_go_on(upstream::is_safe(method)) => {
            tracing::debug!(%error, "the next is asked");
            // Boxed, because it is rare and would double the future of every fetch.
            Box::pin(ask_one(context, watch, to, second, method, request)).await
        }
        (answer, _) => answer,
    }
}

/// Waits for the next head from the same server.
pub async fn next_head(
    context: &AskContext,
    watch: &Watch,
    upstream: &mut Upstream,
    method: &str,
) -> Result<ResponseHead, UpstreamError> {
    let head = upstream.head(&context.origin, watch, method).await;
    head.map_err(|error| of_hop(context, upstream.trip().hop(), error))
}

/// Attributes an error to the server of this hop: a parent is named, and the failure counts against its health.
pub fn of_hop(context: &AskContext, hop: Hop, error: UpstreamError) -> UpstreamError {
    let number = usize::from(hop.number);
    match context.peers.parent(number) {
        Some(peer) if hop.hierarchy == Hierarchy::Parent => failed(peer, error),
        _ => error,
    }
}

/// Connects to a parent, server or origin for a request that is sent once. Returns the connection, and the request in the form for it.
pub async fn connect(
    context: &AskContext,
    to: To<'_>,
    request: Vec<u8>,
) -> Result<(Lease, Vec<u8>), UpstreamError> {
    let [first, second] = ways(context, to)?;
    let first = first.unwrap_or(Way::Direct);
    // A reverse listener uses no parents, so a signed request always goes to the origin.
    let signer = to.asked.signer.as_deref();
    if let Some(signer) = signer {
        signer.ready(&request).await?;
    }
    let fit = Fit::Young;
    let (connected, way) = match (connect_one(context, to, first, fit).await, second) {
        (Err(error), Some(second)) if error.may_go_on(true) => {
            (connect_one(context, to, second, fit).await, second)
        }
        (connected, _) => (connected, first),
    };
    let lease = connected?;
    let request = match way {
        Way::Direct if let Some(signer) = signer => signer.sign(&request)?,
        Way::Direct => request,
        Way::Parent(_) => proxied_request(context, to.asked, &request),
    };
    Ok((lease, request))
}

/// A connection for a tunnel's bytes.
pub struct Tunnel {
    /// The connection to the tunnel's end, or to a parent that has connected to that end.
    pub lease: Lease,
    /// Bytes that have arrived already.
    pub leftover: BytesMut,
}

/// Opens a tunnel to the destination of `to`, directly or through a parent. `head`: of the client's CONNECT.
pub async fn tunnel(
    context: &AskContext,
    to: To<'_>,
    head: &RequestHead,
) -> Result<Tunnel, UpstreamError> {
    let [first, second] = ways(context, to)?;
    let first = first.unwrap_or(Way::Direct);
    match (tunnel_by(context, to, first, head).await, second) {
        (Err(error), Some(second)) if error.may_go_on(true) => {
            Box::pin(tunnel_by(context, to, second, head)).await
        }
        (opened, _) => opened,
    }
}

async fn tunnel_by(
    context: &AskContext,
    to: To<'_>,
    way: Way,
    head: &RequestHead,
) -> Result<Tunnel, UpstreamError> {
    let lease = connect_one(context, to, way, Fit::New).await?;
    let Some((_, peer)) = parent(context, way) else {
        let leftover = BytesMut::new();
        return Ok(Tunnel { lease, leftover });
    };
    let loop_id = context.peers.loop_id.as_bytes();
    let via = onward::via_of(&to.listener.edition, head.version);
    // Keep the names of earlier proxies, so that a loop through several proxies is detected as well.
    let others = [&b"CDN-Loop"[..], b"Via"];
    let others = others
        .into_iter()
        .flat_map(|name| head.fields.all(name).map(move |value| (name, value)));
    let ours = [(&b"CDN-Loop"[..], loop_id), (b"Via", &via)];
    let request = proxied::connect(&to.asked.host, others.chain(ours));
    let watch = context.deadlines.watch();
    let mut upstream = Upstream::new(lease, to.trip.clone(), to.listener.edition.origin_waits());
    let answer = async {
        upstream.send(&context.origin, &watch, &request).await?;
        loop {
            let head = upstream.head(&context.origin, &watch, "CONNECT").await?;
            if !is_interim(&head) {
                return Ok(head);
            }
        }
    };
    let head = answer.await.map_err(|error| failed(peer, error))?;
    peer.health.answered();
    if !(200..300).contains(&head.status) {
        return Err(UpstreamError::Peer {
            name: Arc::clone(&peer.name),
            error: Box::new(UpstreamError::Refused(head.status)),
        });
    }
    let (lease, leftover) = upstream.into_parts();
    Ok(Tunnel { lease, leftover })
}

/// Records how the final response was obtained by the proxies above this one.
pub fn note_levels(upstream: &Upstream, head: &ResponseHead) {
    let trip = upstream.trip();
    if trip.hop().hierarchy != Hierarchy::Direct {
        trip.flag(levels::of(&head.fields));
    }
}

/// The destinations to ask, one after the other.
///
/// # Errors
/// The listener may not reach the destination.
pub fn ways(context: &AskContext, to: To<'_>) -> Result<Ways, UpstreamError> {
    const DIRECT: Ways = [Some(Way::Direct), None];
    let peers = &context.peers;
    let is_forward = matches!(to.listener.listener.role, Role::Forward(_));
    if !is_forward || peers.parents().is_empty() {
        return Ok(DIRECT);
    }
    let destination = &to.asked.destination;
    let rules = &to.listener.destinations;
    context.origin.connector.check_literal(destination, rules)?;
    let hash = || hash_of_url(&proxied::url(&to.asked.destination, &to.asked.target));
    Ok(peers.ways(&to.listener.edition.plan, &destination.host, hash))
}

/// The server of this hop has answered: a parent's failures are forgotten.
pub fn answered(context: &AskContext, hop: Hop) {
    if hop.hierarchy == Hierarchy::Parent
        && let Some(peer) = context.peers.parent(hop.number.into())
    {
        peer.health.answered();
    }
}

async fn ask_one(
    context: &AskContext,
    watch: &Watch,
    to: To<'_>,
    way: Way,
    method: &str,
    request: &[u8],
) -> Result<(Upstream, ResponseHead), UpstreamError> {
    let Some((number, peer)) = parent(context, way) else {
        return match &to.asked.upstream {
            // Boxed, because its future holds two answers.
            Some(of) => {
                Box::pin(asking::ask(
                    &context.origin,
                    watch,
                    to.upstream(),
                    of,
                    method,
                    request,
                ))
                .await
            }
            None => upstream::ask(&context.origin, watch, &to.origin(), method, request).await,
        };
    };
    let request = proxied_request(context, to.asked, request);
    let whom = to.parent(context, number, peer);
    let answer = {
        let _waiting = peer.wait();
        upstream::ask(&context.origin, watch, &whom, method, &request).await
    };
    match answer {
        Ok((upstream, head)) => {
            peer.health.answered();
            Ok((upstream, head))
        }
        Err(error) => Err(failed(peer, error)),
    }
}

async fn connect_one(
    context: &AskContext,
    to: To<'_>,
    way: Way,
    fit: Fit,
) -> Result<Lease, UpstreamError> {
    let Some((number, peer)) = parent(context, way) else {
        return match &to.asked.upstream {
            Some(of) => Box::pin(asking::connect(&context.origin, to.upstream(), of, fit)).await,
            None => Ok(upstream::connect(&context.origin, &to.origin(), fit)
                .await?
                .0),
        };
    };
    let whom = to.parent(context, number, peer);
    match upstream::connect(&context.origin, &whom, fit).await {
        Ok((lease, _)) => Ok(lease),
        Err(error) => Err(failed(peer, error)),
    }
}

fn parent(context: &AskContext, way: Way) -> Option<(usize, &Peer)> {
    match way {
        Way::Direct => None,
        Way::Parent(number) => context.peers.parent(number).map(|peer| (number, peer)),
    }
}

/// A peer as the server to ask.
pub fn whom_of<'a>(
    context: &'a AskContext,
    edition: &Edition,
    at: &'a Destination,
    hop: Hop,
    trip: &'a Trip,
) -> Whom<'a> {
    Whom {
        destination: at,
        header: None,
        rules: &context.peers.rules,
        hop,
        trip,
        verdict: None,
        waits: edition.origin_waits(),
        signer: None,
    }
}

fn proxied_request(context: &AskContext, asked: &Asked, request: &[u8]) -> Vec<u8> {
    //= rfc8586 §2   appended to what others have written; neither changed nor removed by a CDN
    let loop_id = context.peers.loop_id.as_bytes();
    proxied::request(
        (&asked.destination, &asked.target),
        request,
        &[(b"CDN-Loop", loop_id)],
    )
}

/// Attributes an error to a parent. The failure counts against its health unless it is this proxy's fault, or a time-out on a
/// connected parent, which may be due to a slow origin.
fn failed(peer: &Peer, error: UpstreamError) -> UpstreamError {
    if !matches!(error, UpstreamError::Timeout) {
        note_failure(peer, &error);
    }
    UpstreamError::Peer {
        name: Arc::clone(&peer.name),
        error: Box::new(error),
    }
}

/// Counts a failure against the health of a peer, unless it is this proxy's fault.
pub fn note_failure(peer: &Peer, error: &UpstreamError) {
    if !error.is_ours() && peer.health.failed(Instant::now()) == Change::Died {
        tracing::warn!(peer = %peer.name, at = %peer.destination, %error, "does not answer, and is not asked until it does");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use origin::ConnectError;

    #[test]
    fn another_is_asked_only_where_nothing_is_done_twice_and_it_may_do_better() {
        let of_peer = |error| UpstreamError::Peer {
            name: "top".into(),
            error: Box::new(error),
        };
        let closed = || UpstreamError::Closed(std::io::ErrorKind::UnexpectedEof.into());
        for method in ["GET", "HEAD", "OPTIONS"] {
            assert!(of_peer(UpstreamError::Timeout).may_go_on(upstream::is_safe(method)));
        }
        for method in ["PUT", "DELETE"] {
            assert!(!of_peer(UpstreamError::Timeout).may_go_on(upstream::is_safe(method)));
            assert!(of_peer(closed()).may_go_on(upstream::is_safe(method)));
        }
        assert!(!of_peer(UpstreamError::Crowded).may_go_on(true));
        assert!(!of_peer(UpstreamError::Refused(403)).may_go_on(true));
    }

    #[test]
    fn only_what_is_a_peers_fault_is_laid_to_it() {
        for error in [ConnectError::Busy, ConnectError::Exhausted] {
            assert!(UpstreamError::from(error).is_ours());
        }
        assert!(UpstreamError::Crowded.is_ours());
        assert!(!UpstreamError::from(ConnectError::Refused).is_ours());
        assert!(!UpstreamError::Timeout.is_ours());
    }
}
