//! Several servers that have the same content: an upstream, which routes name in place of an origin's URL.
//!
//! Not known here: which server is asked, and whether it is well (`upstreams`).

use std::{fmt, ops::RangeInclusive, sync::Arc, time::Duration};

use super::setting::{count, millis, seconds, settings};
use crate::{http2::Http2, origin_tls::OriginTls, routes::OriginUrl, signing::Signing};

/// The most upstreams of a plan.
pub const UPSTREAMS_MAX: usize = 256;
/// The most servers of an upstream, listed and found.
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
    /// A word that is also a host name; no two have the same.
    name: String = String::new(),
    /// No two at one address. At least one of them or of `names` is no backup.
    servers: Vec<Server> = Vec::new(),
    /// Names whose answers are further servers; no two alike.
    names: Vec<ServerName> = Vec::new(),
    /// Which server is asked.
    balance: Balance = Balance::default(),
    /// What servers are sent as Host, if not the client's; `None`: the name.
    host: Option<String> = None,
    /// What a server must answer; `None`: it is not asked for anything but requests.
    health: Option<HealthCheck> = None,
    /// TLS to its servers, where that is not as to all other origins.
    tls: Option<Arc<OriginTls>> = None,
    /// How requests to them are signed, if they are.
    sign: Option<Arc<Signing>> = None,
    /// HTTP/2 to its servers.
    http2: Option<Http2> = None,
}
}

settings! {
/// What a server is asked for to see whether it is well.
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
    /// The statuses of a server that is well.
    status: Vec<RangeInclusive<u16>> = vec![200..=399],
}
}

impl Upstream {
    /// What servers are sent as Host, if not the client's.
    pub fn host(&self) -> &str {
        self.host.as_deref().unwrap_or(&self.name)
    }
}

/// A server of an upstream.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Server {
    /// Where it is; without a path.
    pub at: OriginUrl,
    /// Its share of the requests, relative to the others: 1 to [`WEIGHT_MAX`](Server::WEIGHT_MAX).
    pub weight: u32,
    /// Is it asked only if no other is up?
    pub backup: bool,
}

impl Server {
    /// The largest weight.
    pub const WEIGHT_MAX: u32 = 1000;

    /// One of weight 1.
    pub fn at(at: OriginUrl) -> Server {
        Server {
            at,
            weight: 1,
            backup: false,
        }
    }
}

/// A name whose answers are servers of an upstream.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ServerName {
    /// The name, in lower case.
    pub host: String,
    /// TLS to what it leads to.
    pub tls: bool,
    /// What is asked for.
    pub records: Records,
    /// Are they backups?
    pub backup: bool,
}

impl ServerName {
    /// The name that a certificate of what it leads to must have: of a service, the domain that offers it.
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

/// What a name is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Records {
    /// A and AAAA: each address is a server at this port, with this weight.
    Addresses {
        /// The port.
        port: u16,
        /// As in [`Server`].
        weight: u32,
    },
    /// SRV: each address of each target is a server. Its port, its weight, and who is asked before whom, are the record's.
    Services,
}

/// As it is written, without `backup`.
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

/// Which server of an upstream is asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Balance {
    /// Of two drawn by their weights, the one with fewer requests in flight.
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
    /// As it is written.
    pub fn word(self) -> &'static str {
        match self {
            Balance::LeastOutstanding => "least-outstanding",
            Balance::RoundRobin => "round-robin",
            Balance::HashUrl => "hash-url",
            Balance::HashClient => "hash-client",
        }
    }
}
