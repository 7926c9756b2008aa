//! Resolves a request: the resource it names, the origin to ask, and the operator's rules for it.
//!
//! Hop-by-hop fields are removed and rules are applied here, so that the variant is selected by the fields that the origin sees.
//!
//! Not known here: what is stored.

use std::{cell::Cell, sync::Arc};

use fields::Fields;
use message::{Framing, Seen};
use profile::Flags;

use crate::{
    conn::proxy_header,
    fetch::members,
    reply::After,
    request::{
        exchange::Exchange,
        forwarded as forwarding,
        incoming::Incoming,
        methods, ruling,
        target::{self, Asked, Misplaced, Place},
        wanted::Wanted,
    },
};
use plan::{Balance, Forwarded};

/// Resolves a request. `Err`: the request names nothing that is served here, and is refused.
pub async fn want_or_refuse(ex: &mut Exchange<'_>, incoming: Incoming) -> Result<Wanted, After> {
    let framing = incoming.head.framing;
    let is_coalesced = ex.reply.is_coalesced(incoming.head.host.as_deref());
    match want(ex, incoming) {
        Ok(wanted) => Ok(wanted),
        Err(Misplaced::NoRoute) if is_coalesced => {
            //= rfc9110 §15.5.20   421: the client may ask again on a connection of its own
            let reason = "this host is not served on a connection that was opened for another one";
            Err(ex.refuse(421, reason, None).await)
        }
        Err(misplaced) => {
            let (status, reason) = misplaced.answer();
            // After a malformed target, the rest of the connection cannot be trusted.
            let is_sound = !matches!(misplaced, Misplaced::Malformed(_));
            (ex.reply).keep_open_if(is_sound && framing == Framing::None);
            Err(ex.refuse(status, &reason, misplaced.detail_token()).await)
        }
    }
}

/// Resolves a request to the resource it names and the operator's rules for it.
pub fn want(ex: &mut Exchange<'_>, incoming: Incoming) -> Result<Wanted, Misplaced> {
    let mut head = incoming.head;
    let listener = &ex.listener;
    let place = target::locate(listener, &head.method, &head.target, head.host.as_deref())?;
    let question = place.question(&head.method, &head.fields);
    let met = incoming.met.unwrap_or_else(|| ruling::met(ex, &question));
    let is_own = ex.member.is_none();
    let ruled = listener.book.request(met, is_own);
    let changing = (is_own && listener.book.changes_requests(&ruled.met))
        .then(|| ruling::changing(ex, &question, ruled.met.clone()));
    let upgrade = methods::asked_upgrade(&head);
    let takes_trailers = methods::takes_trailers(&head);
    // Remove these first: a field that the origin does not see must not select a variant.
    message::remove_hop_by_hop(&mut head.fields);
    // A cluster member that forwards a request has described the client already.
    let is_of_member = ex.member.is_some();
    let returns_lacking = is_of_member && head.fields.remove(members::LACKING) > 0;
    if !is_of_member {
        describe_client(ex, &place, &mut head.fields);
    }
    // Before the variant is selected, since that uses the fields that the origin sees.
    if let Some(changing) = changing {
        changing.change_request(&mut head.fields);
    }
    let mut withheld = Fields::new();
    if ruled.strip_cookies {
        withheld = cookies_for_members(ex, &head.fields);
        head.fields.remove(b"cookie");
    }
    // Compute the extras after the cookies are stripped, so that key and origin see the same cookies.
    let extras = ruled.shape.map(|shape| shape.extras(&head.fields));
    // Without a rule the key is the same, and nothing was awaited since the short way's look-up.
    let absent = incoming.absent.filter(|_| ruled.shape.is_none());
    let is_absent = absent.is_some();
    let (key, primary) = match absent {
        Some(absent) => (absent.key, absent.hash),
        None => {
            let mut key = Vec::with_capacity(128);
            let name_bytes = place.write_key(ruled.shape, &mut key);
            let primary = ex.worker.hasher.hash(&key[..name_bytes]);
            (key, primary)
        }
    };
    ex.record.route = place.route_number();
    ex.record.tolls = listener.tolls_of(&ruled.met);
    if !ex.record.tolls.is_none() {
        ex.record.host = place.host().into();
    }
    let mut asked = asked(ex, &place);
    if upgrade.is_some() {
        //= rfc9113 §8.6   HTTP/2 has no Upgrade: the origin is asked by HTTP/1.1
        asked.destination.http2 = None;
    }
    ex.record.facts.key = primary.0;
    if head.seen.intersects(Seen::RANGE) {
        ex.record.facts.flag(Flags::RANGE);
    }
    Ok(Wanted {
        primary,
        key,
        asked,
        request: Arc::new(std::mem::take(&mut head.fields)),
        withheld,
        returns_lacking,
        head,
        met: ruled.met,
        bypass: ruled.bypass,
        client_directives: ruled
            .client_directives
            .unwrap_or(listener.rules.client_directives),
        foreign: listener.foreign,
        extras: extras.unwrap_or_default(),
        is_contested: Cell::new(false),
        upgrade,
        takes_trailers,
        // A request that has waited for a quota must look again.
        is_absent: Cell::new(is_absent && ex.record.tolls.is_none()),
        skips_disk: incoming.skips_disk,
        other: Cell::new(incoming.other),
        loaded: Cell::new(incoming.loaded),
    })
}

/// The cookies that a rule strips, if a cluster member may be asked: its rules need them.
fn cookies_for_members(ex: &Exchange<'_>, fields: &Fields) -> Fields {
    let mut withheld = Fields::new();
    if ex.worker.shared.cluster.is_some() {
        let cookies = fields.all(b"cookie");
        cookies.for_each(|value| withheld.push(b"Cookie", value));
    }
    withheld
}

/// Describes the client to the origin, as the listener is configured.
fn describe_client(ex: &Exchange<'_>, place: &Place<'_>, fields: &mut Fields) {
    let how = ex.listener.listener.forwarded;
    // With append, each proxy adds the address of its direct peer to the list.
    let client = match how {
        Forwarded::Append => ex.hop.ip(),
        _ => ex.peer.ip(),
    };
    let client_host = place.client_host();
    let known = forwarding::Known {
        client,
        host: client_host.as_deref(),
        is_https: ex.listener.is_https(),
    };
    forwarding::tell(fields, how, known);
}

/// The origin to ask for the resource.
fn asked(ex: &Exchange<'_>, place: &Place<'_>) -> Asked {
    let mut asked = place.ask();
    if let Some(upstream) = &asked.upstream
        && upstream.plan.balance == Balance::HashClient
    {
        asked.client = Some(ex.peer.ip().to_canonical());
    }
    if place.tells_client() {
        let header = proxy_header::write(ex.peer, ex.listener.listener.address);
        asked.header = Some(header.into());
    }
    asked
}
