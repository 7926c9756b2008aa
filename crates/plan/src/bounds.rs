//! Bounds on resources, time-outs, and the caching rules that are a choice.
//!
//! The comment of a setting is its sentence in the reference, `docs/configuration.md`.

use std::{net::SocketAddr, time::Duration};

use replacement::{AdmissionKind, Watermarks};
use store::Replacement;

use super::setting::{Bounds, bytes, count, millis, seconds, settings, switch};
use super::setting::{GIB, KIB, MIB};

/// Seconds of the longest lifetime that may be set.
pub(super) const YEAR: u64 = 365 * 86_400;

settings! {
/// Bounds on the resources of one party.
pub struct Limits {
    /// A request head; longer ones get 431, a longer target 414. The default is that of HAProxy and Node.js, with room for a
    /// Kerberos ticket or many cookies. Raise it if a browser is answered 431.
    head_bytes_max: usize = bytes(4 * KIB, 16 * KIB, MIB),
    /// A response head; longer ones become 502. Larger than a request head, because policies and cookies of large
    /// applications make long heads.
    response_head_bytes_max: usize = bytes(4 * KIB, 64 * KIB, MIB),
    /// Field lines of a head, or of trailers: of requests of HTTP/1 and HTTP/2 and of origins' answers. More get 431; of an origin 502.
    /// Cookies that HTTP/2 sends apart are one line. The bound that counts is that of bytes; raise this one if an application
    /// sends a line for each of its many things.
    fields_max: usize = count(16, 1024, 16 * KIB),
    /// Incomplete heads and bytes that follow a request, all together. Beyond it the largest and slowest are given up: 431 or
    /// 408 for clients, 502 for origins' answers. Heads that arrive whole take none of it. The default is a head of full
    /// length for each of 4,096 clients at once. Heads of HTTP/2 requests that are being answered may take as much besides; further
    /// requests are refused (REFUSED_STREAM).
    head_buffer_bytes: u64 = bytes(MIB, 64 * MIB, 64 * GIB),
    /// Bytes a second that a client must take, averaged over a minute in which bytes wait for it and it takes none; a slower
    /// client is reset. Pauses of less than a minute, waiting for an origin and tunnels do not count. Over HTTP/2 the same holds for
    /// each stream whose window the client keeps closed: the stream is reset. A request body must come as fast while it is waited for and
    /// its origin has not begun to answer, on the average of `timeouts.client-body` if that is more than a minute; then 408. Only
    /// `Content-Type: application/grpc` and its kin are exempt from that, not other streams. `0`: no such rule.
    client_rate_min: u64 = count(0, 100, MIB),
    /// Client connections. Unless set, lowered to what the limit of open files (`ulimit -n`) allows. Further clients are
    /// turned away at once, and counted.
    connections_max: usize = count(1, 16 * KIB, MIB),
    /// Requests of HTTP/2 that are being answered, of all connections together; those that memory answers at once do not count. Further
    /// ones are refused (REFUSED_STREAM), which a client may try again, and counted.
    streams_max: usize = count(1, 64 * KIB, 16 * MIB),
    /// Requests on one connection of HTTP/2. Then the client is told to open another one (GOAWAY), and what is under way is
    /// finished. `0`: as many as it likes.
    connection_requests_max: u64 = count(0, 100_000, 1_000_000_000),
    /// TLS handshakes with clients that a worker has going on at a time. For a further connection the one that has lasted longest is given
    /// up, if that is a second or more; otherwise the connection is closed at once. Both are counted.
    handshakes_max: u32 = count(1, 2048, MIB),
    /// TLS sessions that are kept for clients that come back to a listener with `early-data`. Listeners that ask for the same
    /// client certificates share them; others have as many bytes again. The oldest make room, and are counted; a client that comes back
    /// after that makes a full handshake. A session takes some 400 bytes, and as much more as the client's certificate has; a connection
    /// leaves two.
    tls_sessions_bytes: u64 = bytes(64 * KIB, 16 * MIB, 64 * GIB),
    /// Longer objects are passed through, not stored.
    object_bytes_max: u64 = bytes(KIB, GIB, 64 * GIB),
    /// Objects that are longer are not kept whole in the memory tier, nor are those longer than an eighth of `memory`; where that is more than 8 MiB, those longer than 8 MiB and than 1/128 of `memory`. Of objects that are stored in fragments, the fragments that are asked for again are kept in memory, whatever this says. The default is more than the longest body that is one record on the disk.
    memory_object_bytes_max: u64 = bytes(KIB, 1152 * KIB, GIB),
    /// Bodies on their way between origins and clients, all together: what is received and not taken yet, what is read from disk,
    /// what of an upload its origin has not taken, what waits in streams of HTTP/2 on either side and behind TLS, and 24 KiB for each request of HTTP/2 that is being answered. When half of it is
    /// taken, a connection that holds more than its share is paused until its client takes some, what is read comes in small steps,
    /// and a client that takes nothing for 10 seconds is cut if it holds its share (20 seconds: a quarter of it). One transfer may hold
    /// a 64th of the whole; then its origin is read no further until its slowest reader catches up. If the body has a length and a strong
    /// validator, a reader that is so far behind another one gets the rest by a request of its own instead, 64 at a time; else it is cut if
    /// it takes less than 16 KiB in 10 to 14 s while others wait for it. What is to be stored needs room for all of it, or for a fragment,
    /// when it begins, in the half that such bodies may have; else it is passed on only. A quarter may be memory in which long bodies are received where they are stored. 4 KiB
    /// for each transfer come on top if need be, 16 KiB if it is read from disk.
    transfer_buffer_bytes: u64 = bytes(4 * MIB, 256 * MIB, 64 * GIB),
    /// A fetch whose clients have all left goes on, to be stored, if no more of the body than this is missing; if nobody knows how
    /// long the body is, so much of it is still waited for. Else it is stopped.
    quick_abort_left_bytes: u64 = bytes(0, MIB, 64 * GIB),
    /// It also goes on if at least this percentage of the body has come. 0: no fetch is stopped.
    quick_abort_percent: u32 = count(0, 90, 100),
    /// Requests that may wait on one shared fetch; those beyond share another one, of which as many may wait, up to 64 fetches. Further ones fetch for themselves.
    waiters_max: usize = count(0, 1024, 64 * KIB),
}
besides {
    /// Bytes of a request target; longer ones get 414. As long as a head may be, at most [`Limits::TARGET_BYTES_MOST`].
    target_bytes_max: usize = 16 * KIB as usize,
    /// Bytes that one transfer may hold of `transfer_buffer_bytes`: a 64th.
    transfer_bytes_max: u64 = 4 * MIB,
}
}

impl Limits {
    /// The longest target there may be.
    pub const TARGET_BYTES_MOST: usize = 64 * KIB as usize;

    /// The same limits, with the values that are derived from the settings.
    pub fn derived(self) -> Self {
        Limits {
            target_bytes_max: self.head_bytes_max.min(Self::TARGET_BYTES_MOST),
            transfer_bytes_max: self.transfer_buffer_bytes / 64,
            ..self
        }
    }
}

settings! {
/// Time-outs.
pub struct Timeouts {
    /// From the first byte of a request head to its last; then 408.
    client_head: Duration = seconds(1, 30, 600),
    /// From a connection to the end of its TLS handshake; then it is closed.
    client_handshake: Duration = seconds(1, 10, 600),
    /// How often the files of listeners' certificates are looked at. Those that changed are read and shown from then on.
    certificate_files: Duration = seconds(1, 60, 86_400),
    /// From an order for a certificate that has failed to the next one; twice as long with each failure in a row, up to 12h.
    acme_retry: Duration = seconds(1, 300, 43_200),
    /// Between requests on a kept-alive connection; then it is closed. Longer than that of a proxy in front.
    client_idle: Duration = seconds(1, 65, 3600),
    /// How long a connection of HTTP/2 takes requests; then the client is told to open another one (GOAWAY), and what is under
    /// way is finished. `0`: for ever.
    client_age: Duration = seconds(0, 3600, 604_800),
    /// Without a byte taken by the client; then the connection is cut. Over HTTP/2 the same holds for each stream: it is reset.
    client_write: Duration = seconds(1, 60, 3600),
    /// Without a byte of a request body; then 408. So much also for streams, gRPC included: raise it for those that rest longer. More than a
    /// minute also gives uploads more time for `limits.client-rate-min`.
    client_body: Duration = seconds(1, 60, 3600),
    /// For a connection to an origin, with all its addresses and TLS; then 504.
    connect: Duration = seconds(1, 10, 120),
    /// For the whole head of a response, and anew after each interim one; then 504. Longer for origins that compute.
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
/// The caching rules that are a choice; the rest is RFC 9111.
pub struct CacheRules {
    /// A response that states no lifetime is fresh for this percentage of its age since Last-Modified (RFC 9111 §4.2.2). 0:
    /// not at all. On reverse listeners nothing of that is stored, nor by the lifetimes below, if the request had Cookie.
    heuristic_percent: u32 = count(0, 10, 100),
    /// The longest lifetime by `heuristic-percent`.
    heuristic_max: Duration = seconds(0, 86_400, YEAR),
    /// The longest stated lifetime that counts.
    ttl_max: Duration = seconds(1, YEAR, YEAR),
    /// How long a response is fresh if it states no lifetime, has no Last-Modified, and is no error. 0: it is not kept.
    default_ttl: Duration = seconds(0, 0, YEAR),
    /// How long an error that states no lifetime (404, 410 and the like) is fresh. 0: only as long as the origin says.
    negative_ttl: Duration = seconds(0, 0, 3600),
    /// The same for failures of the origin (500, 502, 503, 504).
    error_ttl: Duration = seconds(0, 0, 3600),
    /// How long an origin that could not be connected to is not tried again; stored responses are served stale where that is
    /// allowed. 0: it is tried for each request.
    unreachable_ttl: Duration = seconds(0, 1, 60),
    /// How long after its lifetime a response is served while it is revalidated in the background, if the origin says nothing
    /// about that. Not for responses that must not be served stale (must-revalidate, proxy-revalidate, s-maxage, no-cache),
    /// for errors, or for what was never fresh. 0: not.
    stale_while_revalidate: Duration = seconds(0, 0, YEAR),
    /// How long after its lifetime a response is served if the origin answers 500, 502, 503 or 504, or cannot be reached. 0:
    /// an error is passed on, and a stored response is served, without limit, only if the origin cannot be reached.
    stale_if_error: Duration = seconds(0, 0, YEAR),
    /// Store responses with Set-Cookie if nothing else forbids it, and their cookies too. If off, such a response is stored
    /// only if the origin says `public` or `s-maxage`, and without its cookies, which only the requesting client gets. Only
    /// for origins whose cookies are the same for all clients.
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
    /// Connections of one worker to one origin, in use and unused. A miss holds one until it is answered, so this number,
    /// times the workers, divided by the seconds a miss takes, is the most misses a second. The request bodies that one client is sending hold
    /// a quarter of them at most, or half while no more than half are in use; further ones wait as well. Unless set, lowered to a worker's
    /// share of the open files (`ulimit -n`) that `connections-max` leaves. Lower it to protect a weak origin; further
    /// requests wait up to `timeouts.connect`. As many unused connections are kept as were in use at once in the last minute or two
    /// (at least two), and to all origins together 2048, or this number if it is larger.
    // At 50 ms a miss the default lets 20,000 misses a second through each worker, more than a core answers. Not higher: a
    // waiting request gets a warm connection, others open new ones.
    per_origin_max: usize = count(1, KIB, 16 * KIB),
    /// How long a connection takes requests; it is closed after the one that is under way. Names are looked up again while
    /// their connections are used, so one whose address is in none of the last three answers (nor in
    /// those of ten seconds, if they rotate) takes no further request either. Lower it if
    /// a balancer in front of the origin is to see new connections more often.
    max_age: Duration = seconds(1, 3600, 604_800),
}
besides {
    /// Unused connections one worker keeps to one origin; further ones are closed after use. As many as may be in use: with only
    /// 256, each wave of misses opened new connections.
    idle_per_origin_max: usize = KIB as usize,
    /// Unused connections one worker keeps in all; to stay below, the longest unused one is closed.
    idle_max: usize = Self::IDLE_MAX,
}
}

impl PoolLimits {
    /// Unused connections one worker keeps in all, unless more may be open to one origin.
    const IDLE_MAX: usize = 2 * KIB as usize;

    /// Lowers the bounds to `files`, a worker's share of the open files, so that all workers may reach them while all clients are
    /// connected. `given`: the operator has set the number, so it stays.
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
            ..self
        }
    }
}

settings! {
/// Settings of all stores together.
pub struct Storing {
    /// `true`: a store that cannot be opened or written ends the start, before any client can connect. `false`: it is left
    /// out, and the proxy serves with the others, or from memory; the log, `/healthz` and the metric `loligo_stores_absent`
    /// say so. Without any store, purges are answered 503, because the content of the lost store may come back.
    required: bool = switch(true),
    /// A request that has waited this long for the disk is answered from the origin, so that the queue of an overloaded disk
    /// does not grow. A device that answers nothing for as long (at least 1s, at most 30s) is set aside until it does: it is
    /// neither read nor written. A start waits as long (at least 500ms, at most 30s) until the first answer can be stored.
    read_wait: Duration = millis(100, 5000, 600_000),
}
besides {
    /// How the disk is read and written.
    io_engine: IoEngine = IoEngine::default(),
    /// The order of eviction.
    replacement: Replacement = Replacement::default(),
    /// Which new objects are stored.
    admission: AdmissionKind = AdmissionKind::default(),
    /// Which reads are gathered and sorted.
    lazy_reads: LazyMode = LazyMode::default(),
    /// The longest wait of a gathered read; whole milliseconds, like the runtime's clock.
    lazy_reads_deadline: Duration = Duration::from_millis(2),
    /// The servers whose objects are gathered in memory, to be written side by side.
    locality: LocalityMode = LocalityMode::default(),
    /// How far a read may extend to bring along the records after its own: where reads are lazy, with `second-chance`. A disk head
    /// in position reads 64 KiB nearly as fast as 8. 0: only the record itself.
    group_bytes: u32 = 64 * KIB as u32,
    /// Fill levels at which eviction begins and ends, with a policy that evicts one by one; low is less than high.
    watermarks: Watermarks = Watermarks { high_percent: 97, low_percent: 95 },
    /// Size of one cluster write; a power of two.
    cluster_bytes: u32 = MIB as u32,
    /// The longest time from a cluster's first record to its write; a record may have waited as long in a locality buffer
    /// before. 0: each record is a write of its own.
    cluster_deadline: Duration = Duration::from_secs(1),
    /// Objects longer than this are stored in pieces of a little more, if a region of the store has room for them.
    fragment_bytes: u32 = MIB as u32,
}
}

/// The number of recent origin servers whose objects are gathered in memory, to be written side by side.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum LocalityMode {
    /// [`Storing::LOCALITY_BUFFERS`] servers, while reads are lazy.
    #[default]
    Measured,
    /// This number of servers; 0: none.
    Servers(u8),
}

impl LocalityMode {
    /// The number of buffers that the store needs.
    pub fn buffers(self) -> usize {
        match self {
            Self::Measured => Storing::LOCALITY_BUFFERS.into(),
            Self::Servers(servers) => servers.into(),
        }
    }
}

/// Which reads wait for others, so that they reach the disk in the order of their positions.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum LazyMode {
    /// Reads of devices on which reads take long, as on disks with moving heads.
    #[default]
    Measured,
    /// All reads, at most this number at a time; 0 (or 1): none.
    Gather(u8),
}

impl Storing {
    /// The number of servers for [`LocalityMode::Measured`].
    pub const LOCALITY_BUFFERS: u8 = 128;
    /// Range of [`LazyMode::Gather`]; `default` is what [`LazyMode::Measured`] gathers.
    pub const LAZY_READS: Bounds = count(0, 10, 64);
}

/// The way of reading and writing the disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum IoEngine {
    /// io_uring where the kernel allows it, else threads.
    #[default]
    Auto,
    /// io_uring or refuse to start.
    Uring,
    /// A pool of threads that call pread and pwrite.
    Threads,
}
