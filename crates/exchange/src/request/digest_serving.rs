//! Serves our digest to siblings.
//!
//! The request is a GET or HEAD in origin form on a forward listener, for `hints::digest::PATH` (Loligo's format) or
//! `hints::squid::PATH` (Squid's). Clients in `digest.allow` and this machine get the digest, all others 403; 404 if none is made.
//!
//! Not known here: how the digest is made (`digest::own`).

use std::sync::atomic::Ordering;

use message::RequestHead;
use profile::Class;

use crate::{
    reply::After,
    request::exchange::{Exchange, Said},
};
use base::{
    access::Clients,
    clock::{Instant, unix_ms},
};
use peers::digest::theirs::Format;
use plan::Role;

/// Answers a request for our digest. `Err`: the request was one and is answered.
pub async fn serve(ex: &mut Exchange<'_>, head: &RequestHead) -> Result<(), After> {
    match format_of(ex, head) {
        Some(format) => Err(Box::pin(answer(ex, head, format)).await),
        None => Ok(()),
    }
}

/// The requested digest format; `None` if the request is not for a digest.
fn format_of(ex: &Exchange<'_>, head: &RequestHead) -> Option<Format> {
    if !head.target.starts_with('/') || matches!(ex.listener.listener.role, Role::Reverse(_)) {
        return None;
    }
    let is_read = head.method == "GET" || head.method == "HEAD";
    let formats = [Format::Loligo, Format::Squid];
    let format = formats
        .into_iter()
        .find(|format| format.path() == head.target);
    format.filter(|_| is_read)
}

/// Answers a request for a digest.
async fn answer(ex: &mut Exchange<'_>, head: &RequestHead, format: Format) -> After {
    ex.keep_open_without_body(head.framing);
    let shared = &ex.worker.shared;
    let clients = Clients {
        allow: shared.edition().plan.digests.allow.clone(),
    };
    if !clients.permits(ex.peer.ip()) {
        let reason = "this address may not have the digest: digest.allow names those that may";
        return ex.refuse(403, reason, None).await;
    }
    let now = Instant::now();
    let own = shared.digests.own.as_ref();
    let made = own.and_then(|own| match format {
        Format::Loligo => Some(own.encode(now, unix_ms())),
        Format::Squid => own.encode_squid(now),
    });
    let Some(body) = made else {
        let reason = "no such digest is made: digest.serve, and digest.squid for Squid's format";
        return ex.refuse(404, reason, None).await;
    };
    let counters = &shared.digests.counters;
    counters.served.fetch_add(1, Ordering::Relaxed);
    (counters.served_bytes).fetch_add(body.len() as u64, Ordering::Relaxed);
    let content_type = format.media_type();
    let said = Said {
        class: Class::Uncachable,
        content_type: content_type.as_bytes(),
        age_s: None,
        cache_status: Vec::new(),
    };
    ex.own_body(said, 200, Some(content_type), &[], body).await
}
