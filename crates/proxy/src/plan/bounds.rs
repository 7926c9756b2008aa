//! Bounds on what one party may use, and how long each wait may last: the part of a plan that is numbers alone.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use replacement::{AdmissionKind, Watermarks};
use store::Replacement;

use super::{Bounds, GIB, IoEngine, KIB, MIB, seconds};

/// Bounds on what one party may use.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Bytes of a request head; longer ones get 431.
    pub head_bytes_max: usize,
    /// Bytes of a response head; longer ones become 502.
    pub response_head_bytes_max: usize,
    /// Bytes of heads that are not complete, all together; beyond it the largest and slowest are given up.
    pub head_buffer_bytes: u64,
    /// Field lines of a head; more get 431 or 502.
    pub fields_max: usize,
    /// Bytes of a request target; longer ones get 414.
    pub target_bytes_max: usize,
    /// Bytes a second that a client must take of what there is for it, on the average of a minute; then its connection is reset. 0: none.
    pub client_rate_min: u64,
    /// Client connections of the process; further ones are closed at once and counted.
    pub connections_max: usize,
    /// Objects longer than this are passed through, not stored.
    pub object_bytes_max: u64,
    /// Objects longer than this are kept out of the memory tier.
    pub memory_object_bytes_max: u64,
    /// Bytes of bodies in flight between origins and clients, all transfers together.
    pub transfer_buffer_bytes: u64,
    /// Bytes one transfer may hold of that budget; then its origin is read no further until its readers catch up.
    pub transfer_bytes_max: u64,
    /// Requests that may wait on one shared fetch; further ones fetch themselves.
    pub waiters_max: usize,
}

impl Limits {
    /// Range of `head_bytes_max`.
    pub const HEAD_BYTES_MAX: Bounds<u64> = Bounds::new(4 * KIB, 16 * KIB, MIB);
    /// Range of `response_head_bytes_max`.
    pub const RESPONSE_HEAD_BYTES_MAX: Bounds<u64> = Bounds::new(4 * KIB, 64 * KIB, MIB);
    /// Range of `head_buffer_bytes`. The default is a head of full length for each of 4,096 clients at the same time.
    pub const HEAD_BUFFER_BYTES: Bounds<u64> = Bounds::new(MIB, 64 * MIB, 64 * GIB);
    /// Range of `fields_max`; the parser's scratch space ends at `max`.
    pub const FIELDS_MAX: Bounds<u64> = Bounds::new(16, 128, 128);
    /// Range of `target_bytes_max`.
    pub const TARGET_BYTES_MAX: Bounds<u64> = Bounds::new(256, 16 * KIB, 64 * KIB);
    /// Range of `client_rate_min`.
    pub const CLIENT_RATE_MIN: Bounds<u64> = Bounds::new(0, 100, MIB);
    /// Range of `connections_max`. The command lowers the default to what the file limit (RLIMIT_NOFILE) bears.
    pub const CONNECTIONS_MAX: Bounds<u64> = Bounds::new(1, 16 * KIB, MIB);
    /// Range of `object_bytes_max`.
    pub const OBJECT_BYTES_MAX: Bounds<u64> = Bounds::new(KIB, GIB, 64 * GIB);
    /// Range of `memory_object_bytes_max`.
    pub const MEMORY_OBJECT_BYTES_MAX: Bounds<u64> = Bounds::new(KIB, MIB, GIB);
    /// Range of `transfer_buffer_bytes`.
    pub const TRANSFER_BUFFER_BYTES: Bounds<u64> = Bounds::new(4 * MIB, 256 * MIB, 64 * GIB);
    /// Range of `transfer_bytes_max`; at most `transfer_buffer_bytes`.
    pub const TRANSFER_BYTES_MAX: Bounds<u64> = Bounds::new(64 * KIB, 4 * MIB, GIB);
    /// Range of `waiters_max`.
    pub const WAITERS_MAX: Bounds<u64> = Bounds::new(0, 1024, 64 * KIB);
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            head_bytes_max: Self::HEAD_BYTES_MAX.default as usize,
            response_head_bytes_max: Self::RESPONSE_HEAD_BYTES_MAX.default as usize,
            head_buffer_bytes: Self::HEAD_BUFFER_BYTES.default,
            client_rate_min: Self::CLIENT_RATE_MIN.default,
            fields_max: Self::FIELDS_MAX.default as usize,
            target_bytes_max: Self::TARGET_BYTES_MAX.default as usize,
            connections_max: Self::CONNECTIONS_MAX.default as usize,
            object_bytes_max: Self::OBJECT_BYTES_MAX.default,
            memory_object_bytes_max: Self::MEMORY_OBJECT_BYTES_MAX.default,
            transfer_buffer_bytes: Self::TRANSFER_BUFFER_BYTES.default,
            transfer_bytes_max: Self::TRANSFER_BYTES_MAX.default,
            waiters_max: Self::WAITERS_MAX.default as usize,
        }
    }
}

/// How long each wait may last.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Timeouts {
    /// From the first byte of a request head to its last; then 408.
    pub client_head: Duration,
    /// Between requests on a kept-alive connection; then it is closed.
    pub client_idle: Duration,
    /// Without a byte taken by the client; then the connection is cut.
    pub client_write: Duration,
    /// Without a byte of a request body; then 408.
    pub client_body: Duration,
    /// For a connection to an origin, TLS included, over all its addresses; then 504.
    pub connect: Duration,
    /// From the end of the request to the end of the response's head, and as long again behind each interim response; then 504.
    pub origin_first_byte: Duration,
    /// Without a byte of a response body; then the transfer fails.
    pub origin_idle_read: Duration,
    /// Without a byte of a request body taken by the origin; then 504.
    pub origin_write: Duration,
    /// For an unused origin connection in the pool.
    pub pool_idle: Duration,
    /// Without a byte either way in a tunnel or upgraded connection.
    pub tunnel_idle: Duration,
    /// For running requests after SIGTERM; then they are cut.
    pub drain: Duration,
}

impl Timeouts {
    /// Range of `client_head`.
    pub const CLIENT_HEAD: Bounds<Duration> = seconds(1, 30, 600);
    /// Range of `client_idle`.
    pub const CLIENT_IDLE: Bounds<Duration> = seconds(1, 65, 3600);
    /// Range of `client_write`.
    pub const CLIENT_WRITE: Bounds<Duration> = seconds(1, 60, 3600);
    /// Range of `client_body`.
    pub const CLIENT_BODY: Bounds<Duration> = seconds(1, 60, 3600);
    /// Range of `connect`.
    pub const CONNECT: Bounds<Duration> = seconds(1, 10, 120);
    /// Range of `origin_first_byte`.
    pub const ORIGIN_FIRST_BYTE: Bounds<Duration> = seconds(1, 60, 3600);
    /// Range of `origin_idle_read`.
    pub const ORIGIN_IDLE_READ: Bounds<Duration> = seconds(1, 60, 3600);
    /// Range of `origin_write`.
    pub const ORIGIN_WRITE: Bounds<Duration> = seconds(1, 60, 3600);
    /// Range of `pool_idle`.
    pub const POOL_IDLE: Bounds<Duration> = seconds(1, 60, 3600);
    /// Range of `tunnel_idle`.
    pub const TUNNEL_IDLE: Bounds<Duration> = seconds(1, 600, 86_400);
    /// Range of `drain`.
    pub const DRAIN: Bounds<Duration> = seconds(0, 30, 3600);
}

impl Default for Timeouts {
    fn default() -> Self {
        Timeouts {
            client_head: Self::CLIENT_HEAD.default,
            client_idle: Self::CLIENT_IDLE.default,
            client_write: Self::CLIENT_WRITE.default,
            client_body: Self::CLIENT_BODY.default,
            connect: Self::CONNECT.default,
            origin_first_byte: Self::ORIGIN_FIRST_BYTE.default,
            origin_idle_read: Self::ORIGIN_IDLE_READ.default,
            origin_write: Self::ORIGIN_WRITE.default,
            pool_idle: Self::POOL_IDLE.default,
            tunnel_idle: Self::TUNNEL_IDLE.default,
            drain: Self::DRAIN.default,
        }
    }
}

/// The caching rules that are a matter of choice; the rest is RFC 9111.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CacheRules {
    /// Percent of the time since Last-Modified for which a response without a lifetime is fresh (RFC 9111 §4.2.2).
    pub heuristic_percent: u32,
    /// The most that rule may give.
    pub heuristic_max: Duration,
    /// The most any lifetime counts for.
    pub ttl_max: Duration,
    /// How long a response that says nothing, and whose Last-Modified gives no guess, is fresh; 0: not at all.
    pub default_ttl: Duration,
    /// How long an error response that says nothing is fresh; 0: only what the origin says.
    pub negative_ttl: Duration,
    /// How long a failure of the origin (500, 502, 503, 504) that says nothing is fresh; 0: only what the origin says.
    pub error_ttl: Duration,
    /// How long an origin that could not be connected to is not tried again; 0: it is tried for each request.
    pub unreachable_ttl: Duration,
    /// For how long after its lifetime a response may be served while it is revalidated, where the origin is silent; 0: not.
    pub stale_while_revalidate: Duration,
    /// The same while the origin fails; 0: only if it cannot be reached.
    pub stale_if_error: Duration,
    /// May responses with Set-Cookie be stored, where nothing else forbids it, and their cookies with them?
    pub store_set_cookie: bool,
}

impl CacheRules {
    /// Range of `heuristic_percent`; 0: no heuristic freshness.
    pub const HEURISTIC_PERCENT: Bounds<u64> = Bounds::new(0, 10, 100);
    /// Range of `heuristic_max`.
    pub const HEURISTIC_MAX: Bounds<Duration> = seconds(0, 86_400, 31_536_000);
    /// Range of `ttl_max`.
    pub const TTL_MAX: Bounds<Duration> = seconds(1, 31_536_000, 31_536_000);
    /// Range of `default_ttl`.
    pub const DEFAULT_TTL: Bounds<Duration> = seconds(0, 0, 31_536_000);
    /// Range of `negative_ttl`.
    pub const NEGATIVE_TTL: Bounds<Duration> = seconds(0, 0, 3600);
    /// Range of `error_ttl`.
    pub const ERROR_TTL: Bounds<Duration> = seconds(0, 0, 3600);
    /// Range of `stale_while_revalidate`.
    pub const STALE_WHILE_REVALIDATE: Bounds<Duration> = seconds(0, 0, 31_536_000);
    /// Range of `stale_if_error`.
    pub const STALE_IF_ERROR: Bounds<Duration> = seconds(0, 0, 31_536_000);
    /// Range of `unreachable_ttl`.
    pub const UNREACHABLE_TTL: Bounds<Duration> = seconds(0, 1, 60);
}

impl Default for CacheRules {
    fn default() -> Self {
        CacheRules {
            heuristic_percent: Self::HEURISTIC_PERCENT.default as u32,
            heuristic_max: Self::HEURISTIC_MAX.default,
            ttl_max: Self::TTL_MAX.default,
            default_ttl: Self::DEFAULT_TTL.default,
            negative_ttl: Self::NEGATIVE_TTL.default,
            error_ttl: Self::ERROR_TTL.default,
            unreachable_ttl: Self::UNREACHABLE_TTL.default,
            stale_while_revalidate: Self::STALE_WHILE_REVALIDATE.default,
            stale_if_error: Self::STALE_IF_ERROR.default,
            store_set_cookie: false,
        }
    }
}

/// Name resolution.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Dns {
    /// Name servers; empty: the system's (/etc/resolv.conf). /etc/hosts counts either way.
    pub servers: Vec<SocketAddr>,
    /// For one query to one server.
    pub timeout: Duration,
    /// Tries before a name counts as not resolvable (the answer owed is 502 or 504).
    pub attempts: usize,
    /// Answers are kept at least this long.
    pub ttl_min: Duration,
    /// Answers are kept at most this long.
    pub ttl_max: Duration,
    /// "No such name" is kept at most this long.
    pub negative_ttl_max: Duration,
    /// Names kept; the oldest make room.
    pub names_max: usize,
}

impl Dns {
    /// The most name servers.
    pub const SERVERS_MAX: usize = 8;
    /// Range of `timeout`.
    pub const TIMEOUT: Bounds<Duration> = seconds(1, 3, 30);
    /// Range of `attempts`.
    pub const ATTEMPTS: Bounds<u64> = Bounds::new(1, 2, 10);
    /// Range of `ttl_min`.
    pub const TTL_MIN: Bounds<Duration> = seconds(0, 1, 3600);
    /// Range of `ttl_max`.
    pub const TTL_MAX: Bounds<Duration> = seconds(1, 3600, 86_400);
    /// Range of `negative_ttl_max`.
    pub const NEGATIVE_TTL_MAX: Bounds<Duration> = seconds(0, 30, 3600);
    /// Range of `names_max`.
    pub const NAMES_MAX: Bounds<u64> = Bounds::new(1, 4096, MIB);
}

impl Default for Dns {
    fn default() -> Self {
        Dns {
            servers: Vec::new(),
            timeout: Self::TIMEOUT.default,
            attempts: Self::ATTEMPTS.default as usize,
            ttl_min: Self::TTL_MIN.default,
            ttl_max: Self::TTL_MAX.default,
            negative_ttl_max: Self::NEGATIVE_TTL_MAX.default,
            names_max: Self::NAMES_MAX.default as usize,
        }
    }
}

/// Connections to origins.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PoolLimits {
    /// Connections of one worker to one origin, in use and idle; further requests wait, at most `Timeouts::connect`.
    pub per_origin_max: usize,
    /// Idle connections one worker keeps to one origin; further ones are closed after use.
    pub idle_per_origin_max: usize,
    /// Idle connections one worker keeps in all; the longest unused makes room.
    pub idle_max: usize,
}

impl PoolLimits {
    /// Range of `per_origin_max`. At 50 ms a miss the default lets 20,000 misses a second through each worker, more than a core
    /// answers. Not more: what waits here is handed a warm connection, what does not wait opens a new one. The command
    /// lowers the default to a worker's share of the files that clients leave (RLIMIT_NOFILE).
    pub const PER_ORIGIN_MAX: Bounds<u64> = Bounds::new(1, KIB, 16 * KIB);
    /// Range of `idle_per_origin_max`. By default as many as may be in use: with 256 of them, each wave of misses opened new ones.
    pub const IDLE_PER_ORIGIN_MAX: Bounds<u64> = Bounds::new(0, KIB, 16 * KIB);
    /// Range of `idle_max`.
    pub const IDLE_MAX: Bounds<u64> = Bounds::new(0, 2 * KIB, 16 * KIB);
}

impl Default for PoolLimits {
    fn default() -> Self {
        PoolLimits {
            per_origin_max: Self::PER_ORIGIN_MAX.default as usize,
            idle_per_origin_max: Self::IDLE_PER_ORIGIN_MAX.default as usize,
            idle_max: Self::IDLE_MAX.default as usize,
        }
    }
}

/// TLS to origins. Certificates are always checked; there is no switch for that.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct OriginTls {
    /// PEM file with certificates trusted beside the system's.
    pub ca_file: Option<PathBuf>,
}

/// What all stores have in common.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Storing {
    /// Must every store be opened, or there is no start? Else those that cannot be are left out.
    pub required: bool,
    /// See [`IoEngine`].
    pub io_engine: IoEngine,
    /// What leaves a full store.
    pub replacement: Replacement,
    /// What comes in.
    pub admission: AdmissionKind,
    /// With a policy that evicts one by one: where eviction begins and ends, the low one below the high one.
    pub watermarks: Watermarks,
    /// Size of one cluster write; a power of two.
    pub cluster_bytes: u32,
    /// A cluster is written at the latest this long after its first record; as long may that have waited in a locality buffer.
    pub cluster_deadline: Duration,
    /// Objects longer than this are stored in pieces of this size; a power of two.
    pub fragment_bytes: u32,
    /// Whose objects are gathered, to lie together.
    pub locality: LocalityMode,
    /// Which reads wait for each other.
    pub lazy_reads: LazyMode,
    /// And how long.
    pub lazy_reads_deadline: Duration,
    /// How long an answer waits for a slow disk before it is taken from the origin.
    pub read_wait: Duration,
    /// How far a read may reach, so that it brings along what lies behind its record: where reads are lazy, and with `second-chance`.
    /// 0: no further than the record.
    pub group_bytes: u32,
}

/// Of how many recent origin servers objects are gathered in memory, to lie together on the disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum LocalityMode {
    /// Of [`Storing::LOCALITY_BUFFERS`]`.default`, where and as long as reads are lazy.
    #[default]
    Measured,
    /// Of so many; 0: none.
    Servers(u8),
}

impl LocalityMode {
    /// Buffers that the store needs.
    pub fn buffers(self) -> usize {
        match self {
            Self::Measured => Storing::LOCALITY_BUFFERS.default as usize,
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
    /// Range of `cluster_bytes`.
    pub const CLUSTER_BYTES: Bounds<u64> = Bounds::new(64 * KIB, MIB, 16 * MIB);
    /// Range of `cluster_deadline`.
    pub const CLUSTER_DEADLINE: Bounds<Duration> = Bounds::new(
        Duration::from_millis(10),
        Duration::from_millis(1000),
        Duration::from_secs(60),
    );
    /// Range of `fragment_bytes`.
    pub const FRAGMENT_BYTES: Bounds<u64> = Bounds::new(64 * KIB, MIB, 8 * MIB);
    /// Range of the high watermark, percent.
    pub const HIGH_WATERMARK_PERCENT: Bounds<u64> = Bounds::new(2, 97, 99);
    /// Range of the low watermark, percent.
    pub const LOW_WATERMARK_PERCENT: Bounds<u64> = Bounds::new(1, 95, 98);
    /// Range of [`LocalityMode::Servers`]; `default` is what [`LocalityMode::Measured`] gathers.
    pub const LOCALITY_BUFFERS: Bounds<u64> = Bounds::new(0, 128, 128);
    /// Range of [`LazyMode::Gather`]; `default` is what [`LazyMode::Measured`] gathers.
    pub const LAZY_READS: Bounds<u64> = Bounds::new(0, 10, 64);
    /// Range of `lazy_reads_deadline`; whole milliseconds, as the runtime's clock.
    pub const LAZY_READS_DEADLINE: Bounds<Duration> = Bounds::new(
        Duration::from_millis(1),
        Duration::from_millis(2),
        Duration::from_millis(100),
    );
    /// Range of `read_wait`.
    pub const READ_WAIT: Bounds<Duration> = Bounds::new(
        Duration::from_millis(100),
        Duration::from_secs(5),
        Duration::from_secs(600),
    );
    /// Range of `group_bytes`.
    pub const GROUP_BYTES: Bounds<u64> = Bounds::new(0, 64 * KIB, MIB);
}

impl Default for Storing {
    fn default() -> Self {
        Storing {
            required: true,
            io_engine: IoEngine::default(),
            replacement: Replacement::default(),
            admission: AdmissionKind::default(),
            watermarks: Watermarks {
                high_percent: Self::HIGH_WATERMARK_PERCENT.default as u8,
                low_percent: Self::LOW_WATERMARK_PERCENT.default as u8,
            },
            cluster_bytes: Self::CLUSTER_BYTES.default as u32,
            cluster_deadline: Self::CLUSTER_DEADLINE.default,
            fragment_bytes: Self::FRAGMENT_BYTES.default as u32,
            locality: LocalityMode::default(),
            lazy_reads: LazyMode::default(),
            lazy_reads_deadline: Self::LAZY_READS_DEADLINE.default,
            read_wait: Self::READ_WAIT.default,
            group_bytes: Self::GROUP_BYTES.default as u32,
        }
    }
}
