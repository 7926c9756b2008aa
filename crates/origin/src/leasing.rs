//! The connection that a request goes out on: a place in a session of HTTP/2, a pooled connection, or a new one.
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
    /// The PROXY header with which each connection to it begins: then it serves this client alone.
    pub header: Option<&'a [u8]>,
    /// Where connections may go on behalf of the client.
    pub rules: &'a Destinations,
    /// The origin, or whoever is asked in its place.
    pub hop: Hop,
    /// Where it is noted what it takes.
    pub trip: &'a Trip,
    /// If it was chosen among several: what comes of it is noted there.
    pub verdict: Option<&'a Rc<dyn Verdict>>,
    /// The bounds of asking it.
    pub waits: OriginWaits,
    /// Signs what is sent to it.
    pub signer: Option<&'a Signer>,
}

/// Which connection a request may go out on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fit {
    /// Any pooled one: the request is sent again if that turns out to be closed.
    Pooled,
    /// A pooled one only if the origin is not about to close it, as far as can be known: the request is sent once.
    Young,
    /// A new one.
    New,
}

/// A connection to the one who is asked, a pooled one if there is one that fits; and whether it was.
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

/// A place in a session of HTTP/2, or what the origin has chosen in its place. `None`: it is asked by HTTP/1.1.
async fn seat(
    context: &OriginContext,
    whom: &Whom<'_>,
    fit: Fit,
    times: &mut ConnectTimes,
) -> Result<Option<Lease>, ConnectError> {
    let riding = Riding {
        is_once: fit == Fit::Young,
        // With a choice, whether it is tried was decided there.
        recalls: whom.verdict.is_none(),
        waits: &whom.waits,
        input: &context.input,
    };
    let asked = (context.connector).lease_h2(whom.destination, whom.rules, &riding, times);
    asked.await
}

/// A connection of HTTP/1.1: a new one, or one that was released meanwhile.
async fn made(
    context: &OriginContext,
    whom: &Whom<'_>,
    fit: Fit,
    times: &mut ConnectTimes,
) -> Result<Lease, ConnectError> {
    let (connector, to, rules) = (&context.connector, whom.destination, whom.rules);
    // With a choice among servers, whether this one is tried was decided there.
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
