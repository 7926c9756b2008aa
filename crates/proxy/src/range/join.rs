//! A part of what another request is fetching whole.
//!
//! It is cut from the arriving body, if it begins not far behind what has come: who wants the end of a film does not wait for
//! its beginning.
//!
//! Not known here: how the part is cut (`answer`).

use std::{rc::Rc, sync::Arc};

use httpcache::{
    ByteRange, RequestDirectives,
    cache_status::{CacheStatus, Forward},
};
use profile::{Class, access::Hierarchy};

use crate::{
    conn::client::{After, Conn},
    fetch::flight::FirstEvent,
    fetch::share,
    record::metrics,
    reply::answer::Answering,
    request::exchange::{self, Wanted},
    state::Worker,
};

/// Joins a fetch in progress that will soon have the part that is asked for, and passes it on. `near`: how far behind what has
/// arrived it may begin, in bytes. `None`: there is no such fetch, or its answer will not do.
pub async fn join_for_part(
    worker: &Rc<Worker>,
    conn: &mut Conn,
    on: &mut Answering,
    wanted: &Wanted,
    near: u64,
    why: Forward,
) -> Option<After> {
    let flights = &worker.shared.flights;
    let reader = flights.join(wanted.primary, &share::flight_key(worker, wanted))?;
    let FirstEvent::Response(response) = reader.first_event().await else {
        return None;
    };
    let first_event = FirstEvent::Response(Arc::clone(&response));
    let length = response.length.filter(|_| response.status == 200)?;
    let begins = match httpcache::byte_range(&wanted.request, &response.fields, length) {
        ByteRange::One { first, .. } => first,
        ByteRange::Whole => 0,
        ByteRange::Several(_) | ByteRange::Unsatisfiable => return None,
    };
    let soon = reader.flight.arrived_bytes().saturating_add(near);
    let directives = RequestDirectives::heeded(&wanted.request, wanted.client_directives);
    if begins > soon || !share::may_have(worker, wanted, &directives, &first_event) {
        return None;
    }
    metrics::add(&worker.counters.flights_joined, 1);
    let mut status = Vec::with_capacity(96);
    let line = CacheStatus::forwarded(&worker.shared.cache_name, why, &mut status).collapsed(true);
    let _ = response.say_stored(line);
    on.hierarchy = Hierarchy::Direct;
    on.peer = wanted.asked.destination.host.as_bytes().to_vec();
    let class = Class::Collapsed;
    Some(exchange::deliver(worker, conn, on, wanted, &reader, &response, class, &status).await)
}
