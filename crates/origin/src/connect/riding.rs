//! Gets a request a place in a session of HTTP/2, and opens a session if none has room.
//!
//! Not known here: which session has room, which requests wait for one (`pool`).

use std::{cell::RefCell, rc::Rc};

use http2::Limits;
use tokio::time::timeout_at;

use super::{Connector, Opening};
use crate::{
    connection::{ConnectError, ConnectTimes, Destination},
    context::OriginWaits,
    h2::{Opening as UntilKnown, Place, STREAM_WINDOW, STREAM_WINDOW_MAX, Session},
    pool::{Grant, Lease, Next, Slot, Speaks, Turn},
};
use base::{access::Destinations, clock::Instant};
use plan::Http2;

/// Requests on one session at once, if the server takes as many.
const STREAMS_MAX: u32 = 64;

/// The needs of one request that is sent over HTTP/2.
pub(crate) struct Riding<'a> {
    /// The request may be sent only once.
    pub(crate) is_once: bool,
    /// Return a remembered failure instead of opening a connection.
    pub(crate) recalls: bool,
    /// The bounds of the request.
    pub(crate) waits: &'a OriginWaits,
    /// The worker's buffer into which a read goes first.
    pub(crate) input: &'a Rc<RefCell<Box<[u8]>>>,
}

/// The limits for a server.
fn limits(waits: &OriginWaits) -> Limits {
    Limits {
        streams_max: STREAMS_MAX,
        stream_window: STREAM_WINDOW,
        stream_window_max: STREAM_WINDOW_MAX,
        // The sum of all stream windows, so that a body that is not read does not block others.
        connection_window: STREAMS_MAX * STREAM_WINDOW_MAX,
        head_bytes_max: waits.limits.head_bytes_max,
        fields_max: waits.limits.fields_max,
        extended_connect: false,
        stall_time: waits.write,
        rate_min: 0,
        ..Limits::default()
    }
}

impl Connector {
    /// A place in a session of HTTP/2, or a new connection of HTTP/1.1 if the origin chose that. `None`: the origin is known to
    /// speak HTTP/1.1.
    pub(crate) async fn lease_h2(
        &self,
        to: &Destination,
        access: &Destinations,
        riding: &Riding<'_>,
        times: &mut ConnectTimes,
    ) -> Result<Option<Lease>, ConnectError> {
        // The same limit as for a slot: several sessions may have to be opened first, one after the other.
        let ends = Instant::now() + self.connect_timeout.get();
        while Instant::now() < ends {
            match self.pool.next(to, access) {
                Next::Http1 => return Ok(None),
                Next::Seat(seat) => {
                    if seat.is_alive(riding.is_once).await {
                        let slot = self.slot(to, times).await?;
                        return Ok(Some(Lease::of_seat(slot, seat)));
                    }
                }
                Next::Wait(told) => match timeout_at(ends, told).await {
                    Ok(Ok(Some(error))) => return Err(error),
                    Ok(_) => {}
                    Err(_) => return Err(ConnectError::Timeout),
                },
                Next::Open(turn) => {
                    let opened = self.open_h2(to, access, riding, times).await;
                    return match opened {
                        Err(error) => {
                            turn.failed(&error);
                            Err(error)
                        }
                        Ok(lease) => Ok(Some(self.begin_h2(to, lease, turn, riding))),
                    };
                }
            }
        }
        Err(ConnectError::Busy)
    }

    pub(super) async fn slot(
        &self,
        to: &Destination,
        times: &mut ConnectTimes,
    ) -> Result<Slot, ConnectError> {
        Ok(match self.wait_for_place(to, times).await? {
            Grant::Warm(lease) => lease.into_slot(),
            Grant::Slot(slot) => slot,
        })
    }

    /// A new connection that may speak HTTP/2.
    async fn open_h2(
        &self,
        to: &Destination,
        access: &Destinations,
        riding: &Riding<'_>,
        times: &mut ConnectTimes,
    ) -> Result<Lease, ConnectError> {
        if riding.recalls {
            self.recall(to, access, times)?;
        }
        let slot = self.slot(to, times).await?;
        let opening = Opening {
            header: b"",
            offers_h2: true,
        };
        self.open_telling(slot, to, access, opening, times).await
    }

    /// Starts the protocol that TLS has agreed on, or that the operator has configured, on a new connection.
    fn begin_h2(
        &self,
        to: &Destination,
        mut lease: Lease,
        turn: Turn,
        riding: &Riding<'_>,
    ) -> Lease {
        let is_known = to.http2 == Some(Http2::Known);
        if !is_known && !lease.stream().has_agreed_on_h2() {
            self.pool.speaks(to, Speaks::Http1);
            return lease;
        }
        self.pool.speaks(to, Speaks::Http2);
        let is_for_one = lease.is_for_one();
        let (slot, stream, peer, is_inward) = lease.into_parts();
        let place = Place {
            peer,
            is_inward,
            is_tls: to.tls,
            opened: self.pool.now(),
        };
        let opening: UntilKnown = Box::new(turn);
        let limits = limits(riding.waits);
        let session = Session::start(stream, to, (place, opening), limits, riding.input);
        let seat = session.seat().expect("a new session has a place");
        match is_for_one {
            // It was opened with roots that are replaced by now.
            true => session.retire(),
            false => self.pool.keep(to, &session),
        }
        Lease::of_seat(slot, seat)
    }
}
