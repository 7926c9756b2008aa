//! Bounds on what one party may use, how long each wait may last, and the caching rules that are a matter of choice.
//!
//! The comment of a setting is its sentence in the reference, `docs/configuration.md`.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use replacement::{AdmissionKind, Watermarks};
use store::Replacement;

use super::setting::{Bounds, bytes, count, millis, seconds, settings, switch};
use super::{GIB, IoEngine, KIB, MIB};

/// Seconds of the longest time that a lifetime may be set to.
pub(super) const YEAR: u64 = 365 * 86_400;

settings! {
/// Bounds on what one party may use.
pub struct Limits {
    /// A request head; longer ones get 431, a longer target 414. The default is what HAProxy and Node.js take, and room for a Kerberos
    /// ticket or many cookies. Larger where a browser is answered 431.
    head_bytes_max: usize = bytes(4 * KIB, 16 * KIB, MIB),
    /// A response head; longer ones become 502. Origins are trusted with more than clients: policies and cookies of large applications
    /// make long heads.
    response_head_bytes_max: usize = bytes(4 * KIB, 64 * KIB, MIB),
    /// Heads that are not complete, and what comes behind requests, all together. Beyond it the largest and slowest are given up: 431
    /// or 408 for clients, 502 for origins' answers. Heads that come whole take nothing of it. The default is a head of full length for each of
    /// 4,096 clients at the same time.
    head_buffer_bytes: u64 = bytes(MIB, 64 * MIB, 64 * GIB),
    /// Bytes a second that a client must take, on the average of a minute in which there is something for it and it takes nothing;
    /// then its connection is reset. Pauses of less than a minute, waiting for an origin and tunnels do not count. `0`: no such rule.
    client_rate_min: u64 = count(0, 100, MIB),
    /// Client connections. Without it the default is lowered to what the limit of open files (`ulimit -n`) bears. Beyond it new
    /// clients are turned away at once, and counted.
    connections_max: usize = count(1, 16 * KIB, MIB),
    /// Longer objects are passed through, not stored.
    object_bytes_max: u64 = bytes(KIB, GIB, 64 * GIB),
    /// Longer objects are kept out of the memory tier.
    memory_object_bytes_max: u64 = bytes(KIB, MIB, GIB),
    /// Bodies on their way between origins and clients, all together, with the fragments of large objects that are read from disk for
    /// them. Beyond it origins are read in small steps, and nothing more is stored. One transfer may hold a 64th of it; then its origin
    /// is read no further until the readers catch up. When fragments take half of it, clients that stand still give back what is held for them.
    transfer_buffer_bytes: u64 = bytes(4 * MIB, 256 * MIB, 64 * GIB),
    /// Requests that may wait on one shared fetch; further ones fetch themselves.
    waiters_max: usize = count(0, 1024, 64 * KIB),
}
besides {
    /// Field lines of a head; more get 431 or 502. The parser's scratch space has as many.
    fields_max: usize = 128,
    /// Bytes of a request target; longer ones get 414. As long as a head may be, at most [`Limits::TARGET_BYTES_MOST`].
    target_bytes_max: usize = 16 * KIB as usize,
    /// Bytes that one transfer may hold of `transfer_buffer_bytes`: a 64th.
    transfer_bytes_max: u64 = 4 * MIB,
}
}

impl Limits {
    /// The longest target there may be.
    pub const TARGET_BYTES_MOST: usize = 64 * KIB as usize;

    /// With what follows from what was set.
    pub fn derived(self) -> Self {
        Limits {
            target_bytes_max: self.head_bytes_max.min(Self::TARGET_BYTES_MOST),
            transfer_bytes_max: self.transfer_buffer_bytes / 64,
            ..self
        }
    }
}

settings! {
/// How long each wait may last.
pub struct Timeouts {
    /// From the first byte of a request head to its last; then 408.
    client_head: Duration = seconds(1, 30, 600),
    /// Between requests on a kept-alive connection; then it is closed. Longer than that of a proxy in front.
    client_idle: Duration = seconds(1, 65, 3600),
    /// Without a byte taken by the client; then the connection is cut.
    client_write: Duration = seconds(1, 60, 3600),
    /// Without a byte of a request body; then 408.
    client_body: Duration = seconds(1, 60, 3600),
    /// For a connection to an origin, all its addresses and TLS included; then 504.
    connect: Duration = seconds(1, 10, 120),
    /// For the whole head of a response, and anew behind each interim one; then 504. Longer for origins that compute.
    origin_first_byte: Duration = seconds(1, 60, 3600),
    /// Without a byte of a response body; then the transfer fails.
    origin_idle_read: Duration = seconds(1, 60, 3600),
    /// Without a byte of a request body taken by the origin; then 504.
    origin_write: Duration = seconds(1, 60, 3600),
    /// Unused origin connections are closed after this. Shorter than the origin's own keep-alive time.
    pool_idle: Duration = seconds(1, 60, 3600),
    /// Without a byte either way in a tunnel or an upgraded connection.
    tunnel_idle: Duration = seconds(1, 600, 86_400),
    /// For running requests after SIGTERM, SIGINT or SIGQUIT; then they are cut.
    drain: Duration = seconds(0, 30, 3600),
}
besides {}
}

settings! {
/// The caching rules that are a matter of choice; the rest is RFC 9111.
pub struct CacheRules {
    /// A response that states no lifetime is fresh for this percentage of its age since Last-Modified (RFC 9111 §4.2.2). 0: not at all.
    heuristic_percent: u32 = count(0, 10, 100),
    /// The most that rule may give.
    heuristic_max: Duration = seconds(0, 86_400, YEAR),
    /// The most any stated lifetime counts for.
    ttl_max: Duration = seconds(1, YEAR, YEAR),
    /// How long a response is fresh that states no lifetime and has no Last-Modified to guess from, if it is no error. 0: it is not kept.
    default_ttl: Duration = seconds(0, 0, YEAR),
    /// How long an error that states no lifetime (404, 410 and the like) is fresh. 0: only as long as the origin says.
    negative_ttl: Duration = seconds(0, 0, 3600),
    /// How long a failure of the origin (500, 502, 503, 504) that states no lifetime is fresh. 0: only as long as the origin says.
    error_ttl: Duration = seconds(0, 0, 3600),
    /// An origin that could not be connected to is not tried again for this long; what is stored is served stale where that is
    /// allowed. 0: it is tried for each request.
    unreachable_ttl: Duration = seconds(0, 1, 60),
    /// For so long after its lifetime a response is served at once while the origin is asked in the background, if the origin says
    /// nothing of that. Not what the origin forbids to serve stale (must-revalidate, proxy-revalidate, s-maxage, no-cache), no errors, and
    /// nothing that was never fresh. 0: not.
    stale_while_revalidate: Duration = seconds(0, 0, YEAR),
    /// The same if the origin answers 500, 502, 503 or 504, or cannot be reached; then it is the limit. 0: an error is passed on, and
    /// what is stored is served, without limit, only if the origin cannot be reached.
    stale_if_error: Duration = seconds(0, 0, YEAR),
    /// Store responses with Set-Cookie where nothing else forbids it, and the cookies with them. Without it such a response is stored
    /// only if the origin says `public` or `s-maxage`, and without its cookies, which only the client gets whose request brought them. Only
    /// for origins whose cookies are the same for everybody.
    store_set_cookie: bool = switch(false),
}
besides {}
}

settings! {
/// Name resolution.
pub struct Dns {
    /// For one query to one server.
    timeout: Duration = seconds(1, 3, 30),
    /// Tries before a name counts as not resolvable; then 502 or 504.
    attempts: usize = count(1, 2, 10),
    /// Answers are kept at least this long.
    ttl_min: Duration = seconds(0, 1, 3600),
    /// Answers are kept at most this long.
    ttl_max: Duration = seconds(1, 3600, 86_400),
    /// "No such name" is kept at most this long.
    negative_ttl_max: Duration = seconds(0, 30, 3600),
    /// Names kept; the oldest make room.
    names_max: usize = count(1, 4096, MIB),
}
besides {
    /// Name servers; empty: the system's (/etc/resolv.conf). /etc/hosts counts either way.
    servers: Vec<SocketAddr> = Vec::new(),
}
}

impl Dns {
    /// The most name servers.
    pub const SERVERS_MAX: usize = 8;
}

settings! {
/// Connections to origins.
pub struct PoolLimits {
    /// Connections of one worker to one origin, in use and unused. A miss holds one until it is answered: so many, times the workers,
    /// divided by the seconds a miss takes, get through each second. Without it the default is lowered to a worker's share of the open
    /// files (`ulimit -n`) that `connections-max` leaves. Lower to protect a weak origin; requests beyond it wait, at most for
    /// `timeouts.connect`. As many unused ones are kept, and to all origins together 2048, or this number if it is larger.
    // At 50 ms a miss the default lets 20,000 misses a second through each worker, more than a core answers. Not more: what waits here is
    // handed a warm connection, what does not wait opens a new one.
    per_origin_max: usize = count(1, KIB, 16 * KIB),
}
besides {
    /// Unused connections one worker keeps to one origin; further ones are closed after use. As many as may be in use: with 256 of them, each
    /// wave of misses opened new ones.
    idle_per_origin_max: usize = KIB as usize,
    /// Unused connections one worker keeps in all; the longest unused makes room.
    idle_max: usize = Self::IDLE_MAX,
}
}

impl PoolLimits {
    /// Unused connections one worker keeps in all, unless more may be open to one origin.
    const IDLE_MAX: usize = 2 * KIB as usize;

    /// Fitted to `files`, a worker's share of those that may be open: with all clients connected, all workers may be at these bounds.
    /// `given`: what was set stays.
    pub fn fitted(self, files: usize, given: bool) -> Self {
        let per_origin_max = match given {
            true => self.per_origin_max,
            false => self.per_origin_max.min(files),
        };
        let idle_max = per_origin_max.max(Self::IDLE_MAX).min(files);
        PoolLimits {
            per_origin_max,
            idle_per_origin_max: per_origin_max.min(idle_max),
            idle_max,
        }
    }
}

/// TLS to origins. Certificates are always checked; there is no switch for that.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct OriginTls {
    /// PEM file with certificates trusted beside the system's.
    pub ca_file: Option<PathBuf>,
}

settings! {
/// What all stores have in common.
pub struct Storing {
    /// `true`: a store that cannot be opened or written ends the start, before anybody can connect. `false`: it is left out, and the
    /// proxy serves with the others, or from memory; the log, `/healthz` and the metric `loligo_stores_absent` say so. While none is left,
    /// purges are answered 503, because what the lost store holds may come back.
    required: bool = switch(true),
    /// A request that has waited so long for the disk is answered from the origin instead, so that an overloaded disk serves as many
    /// hits as it can and its queue does not grow. A device that has answered nothing for as long (at least 1s, at most 30s) is set aside
    /// until it answers: nothing is read from it or stored on it.
    read_wait: Duration = millis(100, 5000, 600_000),
}
besides {
    /// See [`IoEngine`].
    io_engine: IoEngine = IoEngine::default(),
    /// What leaves a full store.
    replacement: Replacement = Replacement::default(),
    /// What comes in.
    admission: AdmissionKind = AdmissionKind::default(),
    /// Which reads wait for each other.
    lazy_reads: LazyMode = LazyMode::default(),
    /// How long such a read waits at most; whole milliseconds, as the runtime's clock.
    lazy_reads_deadline: Duration = Duration::from_millis(2),
    /// Whose objects are gathered, to lie together.
    locality: LocalityMode = LocalityMode::default(),
    /// How far a read may reach, so that it brings along what lies behind its record: where reads are lazy, and with `second-chance`. A head
    /// that has arrived reads 64 KiB nearly as fast as 8. 0: no further than the record.
    group_bytes: u32 = 64 * KIB as u32,
    /// With a policy that evicts one by one: where eviction begins and ends, the low one below the high one.
    watermarks: Watermarks = Watermarks { high_percent: 97, low_percent: 95 },
    /// Size of one cluster write; a power of two.
    cluster_bytes: u32 = MIB as u32,
    /// A cluster is written at the latest this long after its first record; as long may that have waited in a locality buffer.
    cluster_deadline: Duration = Duration::from_secs(1),
    /// Objects longer than this are stored in pieces of this size; a power of two.
    fragment_bytes: u32 = MIB as u32,
}
}

/// Of how many recent origin servers objects are gathered in memory, to lie together on the disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum LocalityMode {
    /// Of [`Storing::LOCALITY_BUFFERS`], where and as long as reads are lazy.
    #[default]
    Measured,
    /// Of so many; 0: none.
    Servers(u8),
}

impl LocalityMode {
    /// Buffers that the store needs.
    pub fn buffers(self) -> usize {
        match self {
            Self::Measured => Storing::LOCALITY_BUFFERS.into(),
            Self::Servers(servers) => servers.into(),
        }
    }
}

/// Which reads wait for each other, to go to the disk in the order of their places.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum LazyMode {
    /// Where reads take long, as they do where a head must move.
    #[default]
    Measured,
    /// All, so many at most at a time; 0 (or 1): none.
    Gather(u8),
}

impl Storing {
    /// What [`LocalityMode::Measured`] gathers.
    pub const LOCALITY_BUFFERS: u8 = 128;
    /// Range of [`LazyMode::Gather`]; `default` is what [`LazyMode::Measured`] gathers.
    pub const LAZY_READS: Bounds = count(0, 10, 64);
}
