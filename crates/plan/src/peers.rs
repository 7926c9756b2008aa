//! Other proxies that are asked: parents, which fetch objects they do not have, and siblings, which are asked only for stored objects.
//!
//! Both are for forward listeners. A route of a reverse listener names its origin, which may itself be a proxy.
//!
//! Not known here: sockets, names. When which peer is asked: `peers`.

use std::{sync::Arc, time::Duration};

use super::setting::{count, millis, seconds, settings};
use crate::{origin_tls::OriginTls, routes::host_fits};

/// The most parents, and the most siblings, of a plan.
pub const PEERS_MAX: usize = 64;

settings! {
/// A proxy that fetches objects it does not have.
pub struct Parent {
    /// With `use = "hash"` or `"round-robin"`: its share of the requests, relative to the weights of the others.
    weight: u32 = count(1, 1, 1000),
    /// How often `health` is asked for; without `health`, and of a parent that is dead, how often a connection to it is tried.
    health_interval: Duration = seconds(1, 1, 600),
}
besides {
    /// Its name in logs and messages: a token, unlike those of all other peers.
    name: String = String::new(),
    /// Its address.
    at: PeerAddress = PeerAddress::default(),
    /// The hosts that it is asked for: names, or `*.suffix`; empty: all.
    domains: Vec<String> = Vec::new(),
    /// The order in which the parents of the same `domains` are asked.
    order: Order = Order::default(),
    /// When a request goes to the origin directly.
    direct: Direct = Direct::default(),
    /// A request that it must answer with 200 to 399 to count as alive; `None`: it is alive while it answers requests.
    health: Option<Health> = None,
    /// TLS to it; `None`: plain HTTP.
    tls: Option<Arc<OriginTls>> = None,
}
}

settings! {
/// A proxy that is asked for stored objects only.
pub struct Sibling {
    /// How long the answer to an ICP query is waited for; then it is as if it said no. Twice the round trip.
    wait: Duration = millis(1, 50, 10_000),
    /// How long the head of an answer from its cache is waited for; then it is as if it had none. Longer for a sibling whose disk is busy.
    head_wait: Duration = millis(10, 1000, 60_000),
}
besides {
    /// Its name in logs and messages: a token, unlike those of all other peers.
    name: String = String::new(),
    /// Where it answers HTTP.
    at: PeerAddress = PeerAddress::default(),
    /// The hosts that it is asked for: names, or `*.suffix`; empty: all.
    domains: Vec<String> = Vec::new(),
    /// How to learn which objects it has.
    ask: Ask = Ask::default(),
}
}

/// The address of a peer.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PeerAddress {
    /// A name or an address, lower case, IPv6 without brackets.
    pub host: String,
    /// TCP port.
    pub port: u16,
}

impl std::fmt::Display for PeerAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

/// The request that checks whether a parent is alive.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Health {
    /// Where it is sent; `None`: to the parent's own address.
    pub at: Option<PeerAddress>,
    /// Path and query, with `/` at its beginning.
    pub path: String,
}

/// The order in which parents of the same domains are asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Order {
    /// In the order of the configuration.
    #[default]
    First,
    /// By the hash of the URL: each URL has one parent, which is skipped while its load is far above that of the others.
    Hash,
    /// In turn.
    RoundRobin,
}

/// When a request goes to the origin although there are parents for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Direct {
    /// Never.
    Never,
    /// If no parent answers.
    #[default]
    Fallback,
    /// At once; a parent is asked only if the origin does not answer.
    Prefer,
}

/// How to learn whether a sibling has an object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ask {
    /// By ICP v2 (RFC 2186), on this UDP port.
    Icp {
        /// The port for queries.
        port: u16,
    },
    /// By its digest: a Bloom filter of its contents, fetched from the sibling.
    Digest,
    /// By a request with `only-if-cached`.
    Try,
}

impl Ask {
    /// The default UDP port of ICP.
    pub const ICP_PORT: u16 = 3130;
}

impl Default for Ask {
    fn default() -> Self {
        Ask::Icp {
            port: Self::ICP_PORT,
        }
    }
}

impl Parent {
    /// Is this parent asked for this host (no port, any case)?
    pub fn is_for(&self, host: &str) -> bool {
        is_for(&self.domains, host)
    }
}

impl Sibling {
    /// Is this sibling asked for this host (no port, any case)?
    pub fn is_for(&self, host: &str) -> bool {
        is_for(&self.domains, host)
    }
}

fn is_for(domains: &[String], host: &str) -> bool {
    domains.is_empty() || domains.iter().any(|domain| host_fits(domain, host))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_is_for_its_domains_or_for_all() {
        let of = |domains: &[&str]| Parent {
            domains: domains.iter().map(|name| (*name).to_owned()).collect(),
            ..Parent::default()
        };
        assert!(of(&[]).is_for("any.example"));
        let some = of(&["a.example", "*.b.example"]);
        assert!(some.is_for("A.example") && some.is_for("x.b.example"));
        assert!(!some.is_for("b.example") && !some.is_for("x.a.example"));
    }

    #[test]
    fn addresses_are_told_with_their_port() {
        let told = |host: &str| {
            let host = host.to_owned();
            PeerAddress { host, port: 3128 }.to_string()
        };
        assert_eq!(told("top.example"), "top.example:3128");
        assert_eq!(told("2001:db8::1"), "[2001:db8::1]:3128");
    }
}
