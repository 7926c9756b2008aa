//! Connections that leave HTTP: CONNECT tunnels and upgrades.
//!
//! After the answer that grants the switch, bytes are moved both ways ([`crate::conn::tunnel`]) until both sides have ended, nothing
//! has moved for `timeouts.tunnel-idle`, or the proxy stops.

use crate::{
    conn::tunnel::{self, EndReason},
    fetch::whom::{self, To, Tunnel},
    reply::{After, ReplyHead, Switched},
    request::{exchange::Exchange, methods, paying, target::Asked},
};
use base::clock::Instant;
use base::mistakes::{Mistake, makes};
use std::rc::Rc;

use bytes::BytesMut;
use fields::Fields;
use message::{RequestHead, ResponseHead};
use profile::Class;

use base::{phase::Phase, socket};
use origin::{Destination, Lease, upstream::Upstream};
use plan::Role;
use record::metrics;

/// The origin has switched protocols: moves bytes both ways from now on. `is_asked`: the client asked for this protocol.
pub async fn upgraded(
    ex: &mut Exchange<'_>,
    is_asked: bool,
    upstream: Upstream,
    response: &ResponseHead,
) -> After {
    if !is_asked {
        ex.reply.keep_open_if(false);
        let reason = "the origin switched protocols without being asked";
        return ex.refuse(502, reason, None).await;
    }
    let mut fields = response.fields.clone();
    let protocol = fields.first(b"upgrade").map(<[u8]>::to_vec);
    message::remove_hop_by_hop(&mut fields);
    fields.push(b"Connection", b"Upgrade");
    if let Some(protocol) = protocol {
        fields.push(b"Upgrade", &protocol);
    }
    let head = ReplyHead::new(101, "Switching Protocols", &fields);
    let (lease, leftover) = upstream.into_parts();
    splice(ex, &head, lease, leftover).await
}

/// Sends the head that ends HTTP on the client's connection, and joins that connection with the origin's.
async fn splice(
    ex: &mut Exchange<'_>,
    head: &ReplyHead,
    mut lease: Lease,
    from_origin: BytesMut,
) -> After {
    let idle = ex.edition().plan.timeouts.tunnel_idle;
    let Ok(switched) = ex.reply.switch(head).await else {
        return ex.abandon(Class::Tunnel);
    };
    metrics::add(&ex.worker.counters.tunnels, 1);
    let started = Instant::now();
    let mut phase = ex.worker.shared.phase.subscribe();
    let is_stream = matches!(switched, Switched::Stream(_));
    let joined = async {
        let origin = lease.stream();
        match switched {
            Switched::Conn(conn) => {
                let mut from_client = std::mem::take(&mut conn.input);
                if makes(Mistake::LoseEarly) {
                    from_client.clear();
                }
                conn.input_taken();
                let client = &mut conn.stream;
                tunnel::splice(client, &from_client, origin, &from_origin, idle, |_, _| {}).await
            }
            Switched::Stream(client) => {
                tunnel::splice(client, b"", origin, &from_origin, idle, |_, _| {}).await
            }
        }
    };
    let moved = tokio::select! {
        biased;
        end = joined => Some(end),
        _ = phase.wait_for(|p| *p == Phase::Stopping) => None,
    };
    let reason = moved.as_ref().map(|end| end.reason);
    if let (true, Some(EndReason::ClientLost(_))) = (is_stream, reason) {
        //= rfc9113 §8.5   a proxy MUST send a TCP segment with the RST bit set if it detects an error with the stream
        socket::reset_when_closed(lease.stream().tcp());
    }
    let to_client = moved.as_ref().map_or(0, |end| end.origin_to_client_bytes);
    ex.body.received += moved.map_or(0, |end| end.client_to_origin_bytes);
    ex.finish_tunnel(started, to_client)
}

/// Opens a tunnel for a CONNECT, and serves it to its end. `Err`: the request was one.
pub async fn connect(ex: &mut Exchange<'_>, head: &RequestHead) -> Result<(), After> {
    match head.method.as_str() {
        "CONNECT" => Err(Box::pin(tunnel_to(ex, head)).await),
        _ => Ok(()),
    }
}

/// CONNECT (RFC 9110 §9.3.6): a tunnel to one of the permitted ports.
async fn tunnel_to(ex: &mut Exchange<'_>, head: &RequestHead) -> After {
    let (worker, listener) = (ex.worker, Rc::clone(&ex.listener));
    ex.reply.keep_open_if(false);
    if !matches!(listener.listener.role, Role::Forward(_)) {
        let allow = [methods::allow(&listener)];
        let reason = "CONNECT is for forward proxies";
        return ex.own(405, reason, &allow, Vec::new()).await;
    }
    let parts = message::Authority::parse(&head.target).and_then(|to| Some((to.host, to.port?)));
    let Some((host, port)) = parts else {
        return ex.refuse(400, "CONNECT needs host:port", None).await;
    };
    let may_port = listener.destinations.check_connect_port(port).is_ok();
    if !may_port && !makes(Mistake::PermitPort) {
        let reason = "tunnels to this port are not allowed (forward.connect-ports)";
        return ex.refuse(403, reason, None).await;
    }
    let destination = Destination {
        tls: false,
        host: host.to_ascii_lowercase().as_str().into(),
        port,
        member: None,
        terms: None,
        http2: None,
    };
    ex.record.host = host.into();
    if let Err(after) = paying::admit(ex, false).await {
        return after;
    }
    let _toll = match paying::miss(ex).await {
        Ok(toll) => toll,
        Err(stopped) => return paying::refuse(ex, stopped).await,
    };
    ex.record.asks(&destination.host);
    let trip = ex.record.trip();
    let asked = Asked {
        upstream: None,
        client: None,
        host: destination.as_host_and_port().into(),
        header: None,
        target: String::new(),
        destination,
        mirror: None,
        signer: None,
    };
    let to = To {
        asked: &asked,
        listener: &listener,
        trip: &trip,
    };
    let opened = match whom::tunnel(&worker.asking, to, head).await {
        Ok(opened) => opened,
        Err(error) => {
            tracing::debug!(%error, "there is no tunnel");
            let (status, reason) = (error.status(), error.for_client());
            return ex.refuse(status, &reason, Some(error.token())).await;
        }
    };
    let Tunnel { lease, leftover } = opened;
    //= rfc9110 §9.3.6   a successful answer to CONNECT has neither Content-Length nor Transfer-Encoding
    let mut head = ReplyHead::new(200, "Connection established", &Fields::new());
    head.add_lines(&ex.edition().via_line);
    splice(ex, &head, lease, leftover).await
}
