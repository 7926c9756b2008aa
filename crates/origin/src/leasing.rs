//! The connection for a request: a place in a session of HTTP/2, a pooled connection, or a new one.
//!
//! Not known here: requests, answers.

use std::rc::Rc;

use crate::{
    ConnectError, ConnectTimes, Destination, Lease, OriginContext, OriginWaits, Verdict,
    connect::Riding,
    outcome::UpstreamError,
    signing::Signer,
    trip::{Hop, Trip},
};
use base::{
    access::Destinations,
    clock::Instant,
    mistakes::{Mistake, makes},
};
use record::metrics;

/// The server that is asked.
#[derive(Clone, Copy)]
pub struct Whom<'a> {
    /// Where it is.
    pub destination: &'a Destination,
    /// The PROXY header that begins a connection to it: such a connection serves this client alone.
    pub header: Option<&'a [u8]>,
    /// Where connections may go on behalf of the client.
    pub rules: &'a Destinations,
    /// The origin, a parent or a sibling.
    pub hop: Hop,
    /// Notes times and bytes.
    pub trip: &'a Trip,
    /// Is told the outcome, if the server was chosen among several.
    pub verdict: Option<&'a Rc<dyn Verdict>>,
    /// The bounds of the request.
    pub waits: OriginWaits,
    /// Signs the request.
    pub signer: Option<&'a Signer>,
}

/// Which connection a request may go out on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fit {
    /// Any pooled connection: the request is sent again if that connection turns out to be closed.
    Pooled,
    /// A pooled connection only if the origin, as far as can be known, is not about to close it: the request is sent once.
    Young,
    /// A new connection.
    New,
}

/// A connection to the server, a pooled one if one fits; true: it was used before.
pub async fn connect(
    context: &OriginContext,
    whom: &Whom<'_>,
    fit: Fit,
) -> Result<(Lease, bool), UpstreamError> {
    let Whom {
        destination,
        header,
        rules,
        hop,
        trip,
        verdict,
        ..
    } = *whom;
    trip.begins(destination, hop);
    let mut start = Instant::now();
    let mut times = ConnectTimes::default();
    let pool = context.connector.pool();
    let shared = match (destination.http2, header) {
        (Some(_), None) => Box::pin(seat(context, whom, fit, &mut times)).await,
        _ => Ok(None),
    };
    let shared = shared.transpose();
    let pooled = match fit {
        _ if shared.is_some() => None,
        _ if header.is_some() && !makes(Mistake::ShareTold) => None,
        Fit::New => None,
        Fit::Pooled => pool.checkout(destination, rules),
        Fit::Young => pool.checkout_young(destination, rules),
    };
    let lease = match shared.or(pooled.map(Ok)) {
        Some(lease) => lease,
        // Boxed: making a connection is rare and its future large.
        None => Box::pin(made(context, whom, fit, &mut times)).await,
    };
    let mut lease = match lease {
        Ok(lease) => lease,
        Err(error) => {
            trip.not_connected(&times);
            let error = UpstreamError::from(error);
            if let Some(verdict) = verdict {
                verdict.failed(&error);
            }
            return Err(error);
        }
    };
    if let Some(verdict) = verdict {
        trip.chose(&destination.host);
        lease.is_for(Rc::clone(verdict));
    }
    let reused = lease.is_reused();
    if !reused {
        metrics::add(&context.counters.origin_connections, 1);
    }
    if let Some((_, granted)) = times.queue {
        start = granted;
    }
    trip.connected(start, &times, reused);
    Ok((lease, reused))
}

/// A place in a session of HTTP/2, or a new HTTP/1.1 connection if the origin chose that. `None`: the origin is known to speak HTTP/1.1.
async fn seat(
    context: &OriginContext,
    whom: &Whom<'_>,
    fit: Fit,
    times: &mut ConnectTimes,
) -> Result<Option<Lease>, ConnectError> {
    let riding = Riding {
        is_once: fit == Fit::Young,
        // For a server chosen among several, the choice has already decided to try it despite a recent failure.
        recalls: whom.verdict.is_none(),
        waits: &whom.waits,
        input: &context.input,
    };
    let asked = (context.connector).lease_h2(whom.destination, whom.rules, &riding, times);
    asked.await
}

/// A connection of HTTP/1.1: a new one, or one that another request released while this one waited.
async fn made(
    context: &OriginContext,
    whom: &Whom<'_>,
    fit: Fit,
    times: &mut ConnectTimes,
) -> Result<Lease, ConnectError> {
    let (connector, to, rules) = (&context.connector, whom.destination, whom.rules);
    // For a server chosen among several, the choice has already decided to try it despite a recent failure.
    let recalls = whom.verdict.is_none();
    match fit {
        _ if let Some(header) = whom.header => {
            let telling = connector.connect_telling(to, rules, header, recalls, times);
            telling.await
        }
        Fit::Young => connector.lease_young(to, rules, recalls, times).await,
        Fit::New if recalls => connector.connect(to, rules, times).await,
        Fit::New => connector.connect_untold(to, rules, times).await,
        Fit::Pooled if recalls => connector.lease(to, rules, times).await,
        Fit::Pooled => connector.lease_untold(to, rules, times).await,
    }
}
