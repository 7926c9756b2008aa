//! Finds a client's address, which access rules, logs, rules and limits use.
//!
//! Without balancers it is the socket's address. A PROXY protocol header names the client of a connection
//! ([`crate::conn::proxy_header`]); a field of a request names the client of that request ([`crate::request::believed`]), because a
//! balancer sends the requests of many clients on one connection. Both are accepted from trusted addresses only. `allow` is checked
//! for the named client, and before that for the connecting address, unless that is one of the balancers in `proxy-protocol`.
//!
//! A balancer that names a loopback address means itself, since only the balancer is reached by it; so the balancer's own address
//! is used. (Otherwise a health check on the balancer's machine would have the rights of this machine.)
//!
//! Not known here: HTTP, apart from the field's name.

use std::{
    net::{IpAddr, SocketAddr},
    pin::pin,
    rc::Rc,
};

use bytes::Buf;
use http1::RequestView;

use crate::{
    conn::{
        proxy_header::{self, Fault, Named},
        socket::{Conn, More},
    },
    listener::ListenerState,
    request::{
        believed,
        incoming::Barred,
        toll::{self, Counted},
    },
};
use base::clock::Instant;
use plan::ProxyProtocol;
use record::{metrics, seldom::Seldom};

impl ListenerState {
    /// May this address connect, as a client or as a balancer whose connections name their client?
    pub fn admits(&self, socket: IpAddr) -> bool {
        let balancers = match &self.listener.naming.proxy_protocol {
            ProxyProtocol::From(networks) => &networks[..],
            _ => &[],
        };
        self.clients.permits(socket) || believed::covers(balancers, socket)
    }

    /// Does a connection from this address begin with a PROXY protocol header?
    fn expects_header(&self, socket: IpAddr) -> bool {
        match &self.listener.naming.proxy_protocol {
            ProxyProtocol::Never => false,
            ProxyProtocol::Always => true,
            ProxyProtocol::From(networks) => believed::covers(networks, socket),
        }
    }
}

impl Conn {
    /// Does the connection begin with a PROXY protocol header?
    pub fn begins_with_header(&self) -> bool {
        self.member.is_none() && self.listener.expects_header(self.peer.ip())
    }

    /// Reads the PROXY protocol header. Bytes behind it stay in `input`. False: the connection must be closed.
    pub async fn read_header(&mut self) -> bool {
        let worker = Rc::clone(&self.worker);
        let counters = &worker.counters;
        let named = match self.header().await {
            Ok(Some(named)) => named,
            // A connection that closes at once only tests whether the port is open.
            Ok(None) => return false,
            Err(fault) => {
                metrics::add(&counters.proxy_headers_refused, 1);
                static SAID: Seldom = Seldom::new();
                if SAID.is_due(worker.now_ms().0 / 1000) {
                    tracing::warn!(
                        peer = %self.peer, listener = %self.listener.name, %fault,
                        "closed; further ones are counted only (proxy_headers_refused)"
                    );
                }
                return false;
            }
        };
        metrics::add(&counters.proxy_headers, 1);
        if let Named::Client(client) = named {
            let is_the_balancer = client.ip().is_loopback() && !is_loopback(self.peer.ip());
            self.hop = if is_the_balancer { self.peer } else { client };
            self.peer = self.hop;
        }
        // A balancer that names no client speaks for itself, and was checked when it connected.
        if matches!(named, Named::Client(_)) && !self.listener.clients.permits(self.hop.ip()) {
            metrics::add(&counters.client_connections_refused, 1);
            tracing::debug!(peer = %self.hop, "client not allowed");
            return false;
        }
        true
    }

    /// Counts the connection at its quotas. `None`: its client may have no more connections.
    pub fn is_counted(&self) -> Option<Option<Box<Counted>>> {
        if self.member.is_some() || self.listener.tolls.connections.is_empty() {
            return Some(None);
        }
        let counted = toll::connection(&self.listener, self.hop.ip());
        if counted.is_none() {
            metrics::add(&self.worker.counters.client_connections_refused, 1);
        }
        Some(Some(Box::new(counted?)))
    }

    /// `Ok(None)`: the connection ended before its first byte.
    async fn header(&mut self) -> Result<Option<Named>, HeaderFault> {
        let began = Instant::now();
        let limit = self.listener.edition.plan.timeouts.client_head;
        let watch = Rc::clone(&self.watch);
        loop {
            if let Some((named, bytes)) = proxy_header::read(&self.input)? {
                self.input.advance(bytes);
                return Ok(Some(named));
            }
            let left = limit.saturating_sub(began.elapsed());
            if left.is_zero() {
                return Err(HeaderFault::Late);
            }
            let more = watch.limit(left, pin!(self.read_more())).await;
            match more.map_err(|_| HeaderFault::Late)? {
                More::Bytes => {}
                _ if self.input.is_empty() => return Ok(None),
                _ => return Err(HeaderFault::Cut),
            }
        }
    }

    /// Does each request name its client?
    #[inline]
    pub fn asks_for_client(&self) -> bool {
        self.member.is_some() || !self.listener.listener.naming.trusted.is_empty()
    }

    /// Takes the client's address from a request that a member or a trusted proxy has forwarded.
    pub fn believe(&mut self, view: &RequestView<'_, '_>) -> Option<Barred> {
        if self.member.is_some() {
            if let Some(client) = cluster::forwarded::client_of(view) {
                self.peer = SocketAddr::new(client, 0);
            }
            return None;
        }
        let listener = Rc::clone(&self.listener);
        let name = listener.listener.naming.field.name().as_bytes();
        let lines = view
            .fields()
            .filter(|(of, _)| of.eq_ignore_ascii_case(name));
        self.believe_lines(lines.map(|(_, value)| value))
    }

    /// Takes the client's address from these lines of `client-field`, if a trusted proxy has sent them.
    pub fn believe_lines<'f>(&mut self, lines: impl Iterator<Item = &'f [u8]>) -> Option<Barred> {
        self.peer = self.hop;
        let naming = &self.listener.listener.naming;
        if !believed::covers(&naming.trusted, self.hop.ip()) {
            return None;
        }
        match believed::client(&naming.trusted, naming.field, self.hop, lines) {
            Ok(client) => self.peer = client,
            Err(believed::Unreadable) => return Some(Barred::Unreadable),
        }
        let is_served = self.peer == self.hop || self.listener.clients.permits(self.peer.ip());
        (!is_served).then_some(Barred::NotServed)
    }
}

/// Why there is no PROXY header.
#[derive(Debug, thiserror::Error)]
enum HeaderFault {
    #[error("{0}")]
    Read(#[from] Fault),
    #[error("the PROXY header did not come in time")]
    Late,
    #[error("the connection ended within the PROXY header")]
    Cut,
}

fn is_loopback(address: IpAddr) -> bool {
    address.to_canonical().is_loopback()
}
