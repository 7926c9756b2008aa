//! An upstream: several servers of the same content. Routes name it in place of an origin's URL.
//!
//! Not known here: which server is asked, and whether it is healthy (`upstreams`).

use std::{fmt, ops::RangeInclusive, sync::Arc, time::Duration};

use super::setting::{count, millis, seconds, settings};
use crate::{http2::Http2, origin_tls::OriginTls, routes::OriginUrl, signing::Signing};

/// The most upstreams of a plan.
pub const UPSTREAMS_MAX: usize = 256;
/// The most servers of an upstream, configured and discovered ones together.
pub const SERVERS_MAX: usize = 64;

settings! {
/// Several servers that have the same content.
pub struct Upstream {
    /// How many more servers are asked for a request if the first gives no answer, or answers 500, 502, 503 or 504. Only for what may be
    /// repeated; beyond connections that could not be made, at most a tenth of the requests of the last 10 s, and 50, are sent again.
    retries: u32 = count(0, 2, 5),
    /// How long the share of a server grows that has come back. 0: it has all of it at once.
    slow_start: Duration = seconds(0, 10, 3600),
}
besides {
    /// A word that is also a valid host name; unique among upstreams.
    name: String = String::new(),
    /// No two have the same address. At least one of `servers` or `names` is no backup.
    servers: Vec<Server> = Vec::new(),
    /// DNS names that resolve to further servers; no two alike.
    names: Vec<ServerName> = Vec::new(),
    /// How a server is chosen.
    balance: Balance = Balance::default(),
    /// The Host that servers get, if not the client's; `None`: the upstream's name.
    host: Option<String> = None,
    /// A check that a server must pass; `None`: there are no checks.
    health: Option<HealthCheck> = None,
    /// TLS settings of its servers, if they differ from those of all other origins.
    tls: Option<Arc<OriginTls>> = None,
    /// How requests to its servers are signed, if at all.
    sign: Option<Arc<Signing>> = None,
    /// How HTTP/2 to its servers begins; `None`: HTTP/1.1.
    http2: Option<Http2> = None,
}
}

settings! {
/// A request that checks whether a server is healthy.
pub struct HealthCheck {
    /// How often it is asked for.
    every: Duration = millis(100, 5000, 3_600_000),
    /// How long an answer may take; then the check has failed.
    time_out: Duration = millis(10, 2000, 60_000),
    /// So many checks in a row must succeed until a server that was ill is well.
    rise: u32 = count(1, 2, 100),
    /// So many must fail in a row until one that was well is ill.
    fall: u32 = count(1, 3, 100),
}
besides {
    /// Path and query, with `/` at its beginning.
    path: String = "/".to_owned(),
    /// The statuses of a healthy server.
    status: Vec<RangeInclusive<u16>> = vec![200..=399],
}
}

impl Upstream {
    /// The Host that servers get, if not the client's.
    pub fn host(&self) -> &str {
        self.host.as_deref().unwrap_or(&self.name)
    }
}

/// A server of an upstream.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Server {
    /// Its address; without a path.
    pub at: OriginUrl,
    /// Its share of the requests, relative to the others: 1 to [`WEIGHT_MAX`](Server::WEIGHT_MAX).
    pub weight: u32,
    /// Is it asked only when no other server is up?
    pub backup: bool,
}

impl Server {
    /// The largest weight.
    pub const WEIGHT_MAX: u32 = 1000;

    /// A server of weight 1 that is no backup.
    pub fn at(at: OriginUrl) -> Server {
        Server {
            at,
            weight: 1,
            backup: false,
        }
    }
}

/// A DNS name whose records are servers of an upstream.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ServerName {
    /// The name, in lower case.
    pub host: String,
    /// Are the servers asked by TLS?
    pub tls: bool,
    /// The kind of records.
    pub records: Records,
    /// Are they backups?
    pub backup: bool,
}

impl ServerName {
    /// The name that the servers' certificates must have; for a service, the domain that offers it.
    //= rfc6125 §6.2.1   the source domain, and no name that an answer has brought
    pub fn certified(&self) -> &str {
        let mut name = self.host.as_str();
        while let Some((label, rest)) = name.split_once('.')
            && label.starts_with('_')
        {
            name = rest;
        }
        name
    }
}

/// The kind of DNS records that a name is resolved by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Records {
    /// A and AAAA: each address is a server at this port, with this weight.
    Addresses {
        /// The port.
        port: u16,
        /// As in [`Server`].
        weight: u32,
    },
    /// SRV: each address of each target is a server. Port, weight and priority are those of the record.
    Services,
}

/// The form used in a configuration, without `backup`.
impl fmt::Display for ServerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scheme, host) = (if self.tls { "https://" } else { "" }, &self.host);
        match self.records {
            Records::Addresses { port, weight: 1 } => write!(f, "dns:{scheme}{host}:{port}"),
            Records::Addresses { port, weight } => {
                write!(f, "dns:{scheme}{host}:{port} weight={weight}")
            }
            Records::Services => write!(f, "srv:{scheme}{host}"),
        }
    }
}

/// How a server of an upstream is chosen.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Balance {
    /// Two servers are drawn by weight; the one with fewer requests in flight is asked.
    #[default]
    LeastOutstanding,
    /// In turn.
    RoundRobin,
    /// By the hash of the URL.
    HashUrl,
    /// By the hash of the client's address.
    HashClient,
}

impl Balance {
    /// The word used in a configuration.
    pub fn word(self) -> &'static str {
        match self {
            Balance::LeastOutstanding => "least-outstanding",
            Balance::RoundRobin => "round-robin",
            Balance::HashUrl => "hash-url",
            Balance::HashClient => "hash-client",
        }
    }
}
