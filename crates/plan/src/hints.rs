//! What siblings may ask of this proxy besides objects: ICP queries, and digests.
//!
//! Not known here: sockets. The siblings that this proxy asks: `peers`.

use std::net::SocketAddr;
use std::time::Duration;

use ipnet::IpNet;

use super::setting::{count, seconds, settings, switch};

settings! {
/// Answers to ICP queries (RFC 2186).
pub struct Icp {
    /// The most queries that are answered a second, and a tenth as many of those who may not ask. Further ones are dropped, and counted.
    rate_max: u32 = count(1, 10_000, 1_000_000),
}
besides {
    /// Where queries arrive, and ours are sent from; `None`: none are answered, and ours are sent from any port.
    listen: Option<SocketAddr> = None,
    /// The networks that may ask, besides this machine.
    allow: Vec<IpNet> = Vec::new(),
}
}

settings! {
/// Digests: Bloom filters of the contents of the stores, for siblings to fetch.
pub struct Digests {
    /// Whether ours is made. It takes six bytes of memory for each object that the stores can hold.
    serve: bool = switch(false),
    /// Whether one is made in Squid's format as well, for siblings that are Squids. Five more bytes for each object.
    squid: bool = switch(false),
    /// Bits of the filter for each object. With 10, one in 120 of the things that we do not have is asked for in vain; with 14, one in 830.
    bits_per_object: u8 = count(4, 10, 20),
    /// How often the digests of siblings are fetched.
    fetch_interval: Duration = seconds(10, 300, 86_400),
}
besides {
    /// The networks that may fetch the digest, besides this machine. It contains the seed that keys are hashed with, so list siblings only.
    allow: Vec<IpNet> = Vec::new(),
}
}
