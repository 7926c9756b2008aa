//! Whom to ask: the one place that decides where a request goes that the cache does not answer.
//!
//! Today that is the origin that the request, or its route, names. A parent, a sibling or one of a group of equals would be
//! chosen here, and all fetches would follow.

use crate::{listener::ListenerState, origin::upstream::Whom, request::target::Asked};

/// The server to ask for this, on behalf of a client of this listener.
pub fn whom_to_ask<'a>(asked: &'a Asked, listener: &'a ListenerState) -> Whom<'a> {
    Whom {
        destination: &asked.destination,
        rules: &listener.destinations,
    }
}
