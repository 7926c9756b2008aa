//! Connections that become something else: CONNECT tunnels and upgrades.
//!
//! After the answer that says so, bytes are moved both ways as they come ([`crate::conn::tunnel`]), until both
//! sides have ended, nothing moved for `timeouts.tunnel-idle`, or the proxy stops.

use crate::clock::Instant;
use std::rc::Rc;

use bytes::BytesMut;
use http1::{RequestHead, ResponseHead};
use profile::{Class, StageName, access::Hierarchy};

use crate::{
    cache::object,
    conn::client::{After, Conn},
    conn::tunnel,
    fetch::pass::{self, nothing_sent},
    fetch::upstream::Upstream,
    origin::{ConnectTimes, Destination, Lease},
    record::metrics,
    reply::answer::{self, Answering, Sent},
    state::{Phase, Worker},
};

/// The origin switches protocols: from here on bytes are moved both ways.
pub async fn upgraded(
    worker: &Rc<Worker>,
    conn: &mut Conn,
    on: &mut Answering,
    wanted: bool,
    upstream: Upstream,
    response: &ResponseHead,
) -> After {
    on.keep_open = false;
    if !wanted {
        let reason = "the origin switched protocols without being asked";
        return answer::own(worker, conn, on, 502, reason, &[], b"").await;
    }
    let mut fields = response.fields.clone();
    let protocol = fields.first(b"upgrade").map(<[u8]>::to_vec);
    message::remove_hop_by_hop(&mut fields);
    fields.push(b"Connection", b"Upgrade");
    if let Some(protocol) = protocol {
        fields.push(b"Upgrade", &protocol);
    }
    let mut out = Vec::with_capacity(256);
    object::write_head(101, "Switching Protocols", &fields, &mut out);
    out.extend_from_slice(b"\r\n");
    if answer::raw(worker, conn, out).await.is_err() {
        return on.finish(worker, conn, &nothing_sent(Class::Tunnel));
    }
    let (lease, leftover) = upstream.into_parts();
    splice(worker, conn, on, lease, leftover, 101).await
}

async fn splice(
    worker: &Rc<Worker>,
    conn: &mut Conn,
    on: &mut Answering,
    mut lease: Lease,
    from_origin: BytesMut,
    status: u16,
) -> After {
    metrics::add(&worker.counters.tunnels, 1);
    let started = Instant::now();
    let from_client = std::mem::take(&mut conn.input);
    conn.input_taken();
    let idle = worker.shared.plan.timeouts.tunnel_idle;
    let mut phase = worker.shared.phase.subscribe();
    let moved = {
        let splice = tunnel::splice(
            &mut conn.stream,
            &from_client,
            lease.stream(),
            &from_origin,
            idle,
            |_, _| {},
        );
        tokio::select! {
            end = splice => Some(end),
            _ = phase.wait_for(|p| *p == Phase::Stopping) => None,
        }
    };
    on.keep_open = false;
    let bytes = moved.as_ref().map_or(0, |end| end.origin_to_client_bytes);
    let sent = moved.map_or(0, |end| end.client_to_origin_bytes);
    conn.body_bytes.set(conn.body_bytes.get() + sent);
    let sent = Sent {
        class: Class::Tunnel,
        status,
        bytes,
        started,
        content_type: b"",
        cache_status: b"",
        gone: false,
    };
    on.finish(worker, conn, &sent)
}

/// CONNECT (RFC 9110 §9.3.6): a tunnel to one of the permitted ports.
pub async fn connect(
    worker: &Rc<Worker>,
    conn: &mut Conn,
    on: &mut Answering,
    head: &RequestHead,
) -> After {
    let listener = Rc::clone(&conn.listener);
    on.keep_open = false;
    if !matches!(listener.listener.role, crate::plan::Role::Forward(_)) {
        let allow = [pass::allow(&listener)];
        let reason = "CONNECT is for forward proxies";
        return answer::own(worker, conn, on, 405, reason, &allow, b"").await;
    }
    let parts = message::Authority::parse(&head.target).and_then(|to| Some((to.host, to.port?)));
    let Some((host, port)) = parts else {
        return answer::own(worker, conn, on, 400, "CONNECT needs host:port", &[], b"").await;
    };
    if listener.destinations.check_connect_port(port).is_err() {
        let reason = "tunnels to this port are not allowed (forward.connect-ports)";
        return answer::own(worker, conn, on, 403, reason, &[], b"").await;
    }
    let destination = Destination {
        tls: false,
        host: host.to_ascii_lowercase().as_str().into(),
        port,
    };
    on.hierarchy = Hierarchy::Direct;
    on.peer = host.as_bytes().to_vec();
    let mut times = ConnectTimes::default();
    let asked = Instant::now();
    let connected = worker
        .connector
        .connect(&destination, &listener.destinations, &mut times)
        .await;
    if let Some((start, end)) = times.dns {
        on.stages.set(StageName::Dns, on.began, start, end, end);
    }
    let lease = match connected {
        Ok(lease) => lease,
        Err(error) => {
            return answer::own(
                worker,
                conn,
                on,
                error.status(),
                &error.to_string(),
                &[],
                b"",
            )
            .await;
        }
    };
    metrics::add(&worker.counters.origin_connections, 1);
    let now = Instant::now();
    on.stages
        .set(StageName::ProxyConnect, on.began, asked, now, now);
    //= rfc9110 §9.3.6   a successful answer to CONNECT has neither Content-Length nor Transfer-Encoding
    let mut out = b"HTTP/1.1 200 Connection established\r\n".to_vec();
    out.extend_from_slice(&worker.shared.via_line);
    out.extend_from_slice(b"\r\n");
    if answer::raw(worker, conn, out).await.is_err() {
        return on.finish(worker, conn, &nothing_sent(Class::Tunnel));
    }
    splice(worker, conn, on, lease, BytesMut::new(), 200).await
}
