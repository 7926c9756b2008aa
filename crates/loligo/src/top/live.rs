//! `/live` of the admin interface as it is read: what `loligo top` shows.
//!
//! What is missing is taken for "nothing known", so that another version's document can be shown too; only what tells such a document
//! from any other JSON is required.

use std::collections::BTreeMap;

use serde::Deserialize;

/// The document.
#[derive(Clone, Debug, Deserialize)]
pub struct Live {
    /// The proxy's version.
    pub version: String,
    /// `running`, `draining`, `stopping`.
    pub phase: String,
    /// Since it started.
    pub uptime_s: f64,
    /// Worker threads.
    pub workers: u64,
    /// Client connections.
    #[serde(default)]
    pub connections_open: u64,
    /// The last second or two.
    #[serde(default)]
    pub now: Option<Now>,
    /// The last minute.
    #[serde(default)]
    pub minute: Option<Minute>,
    /// The last minutes.
    pub origins: Origins,
    /// Queues of the stores' devices.
    #[serde(default)]
    pub disk: Disk,
    /// Processor time a second.
    #[serde(default)]
    pub cpu_cores: Option<f64>,
    /// Of the process.
    #[serde(default)]
    pub resident_bytes: Option<u64>,
    /// If `admin.top` is on.
    #[serde(default)]
    pub top: Option<Top>,
    /// The last two minutes.
    #[serde(default)]
    pub trend: Trend,
    /// Servers behind names.
    #[serde(default)]
    pub upstreams: Vec<Upstream>,
    /// If it is a member of one.
    #[serde(default)]
    pub cluster: Option<Cluster>,
}

/// Servers behind a name.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Upstream {
    /// The name.
    pub name: String,
    /// As they are configured.
    pub servers: Vec<Server>,
}

/// A server behind a name.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Server {
    /// Its URL.
    pub server: String,
    /// In a word.
    pub state: String,
    /// Why it is not up.
    pub why: Option<String>,
    /// Is it asked only if no other is up?
    pub backup: bool,
    /// Requests on their way.
    pub in_flight: u64,
    /// Since the start.
    pub requests: u64,
    /// Those without a usable answer.
    pub failures: u64,
    /// How often it was put out.
    pub ejections: u64,
}

/// The cluster that the proxy is a member of.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Cluster {
    /// The proxy's own name.
    pub name: String,
    /// Does it route by what others hold?
    pub front: bool,
    /// Does it push what it fetches?
    pub pushes: bool,
    /// Since the start.
    pub purges: Purges,
    /// The others.
    pub members: Vec<Member>,
}

/// Purges since the start.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Purges {
    /// To the others.
    pub told: u64,
    /// Those that wait for an answer now.
    pub waiting: u64,
    /// Those that went on while a member was away.
    pub away: u64,
}

/// Another member of the cluster.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Member {
    /// Its name.
    pub name: String,
    /// In a word.
    pub state: String,
    /// Since it is trusted, or is not.
    pub since_s: u64,
    /// How old is what is known of what it holds; `None`: nothing is known.
    pub lag_ms: Option<u64>,
    /// Requests sent to it.
    pub hits: Hits,
    /// Pushes by verdict, and those that were `lost`.
    pub pushes: BTreeMap<String, u64>,
    /// Is it heard?
    pub trusted: bool,
    /// Its load, as it says.
    pub requests_per_s: u64,
}

impl Member {
    /// Pushes that it stored, that it did not take, and that it did not answer.
    pub fn pushes(&self) -> [u64; 3] {
        let of = |verdict: &str| self.pushes.get(verdict).copied().unwrap_or(0);
        let (stored, lost) = (of("stored"), of("lost"));
        let all = self
            .pushes
            .values()
            .fold(0, |sum: u64, n| sum.saturating_add(*n));
        [
            stored,
            all.saturating_sub(stored).saturating_sub(lost),
            lost,
        ]
    }
}

/// Requests sent to a member.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Hits {
    /// It had what was asked for.
    pub r#true: u64,
    /// It had not.
    pub r#false: u64,
    /// It had to validate it.
    pub stale: u64,
}

/// Rates of the last second or two.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Now {
    /// All requests.
    pub requests_per_s: f64,
    /// To clients.
    pub response_bytes_per_s: f64,
    /// Requests of class error.
    pub errors_per_s: f64,
    /// Of records.
    pub disk_reads_per_s: f64,
    /// Of clusters.
    pub disk_writes_per_s: f64,
    /// Of these.
    pub disk_write_bytes_per_s: f64,
    /// Of TLS clients.
    pub handshakes: Handshakes,
}

/// Handshakes of TLS clients.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Handshakes {
    /// Of new sessions.
    pub full_per_s: f64,
    /// Of sessions that were resumed.
    pub resumed_per_s: f64,
}

/// The last minute.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Minute {
    /// How much of it there was.
    pub seconds: f64,
    /// Tunnels and errors left out.
    pub hit_ratio: HitRatio,
    /// Of all but tunnels.
    pub latency_us: Option<Latency>,
    /// Those that occurred.
    pub classes: Vec<Class>,
    /// Those that occurred; memory hits left out.
    pub stages: Vec<Stage>,
    /// Those that occurred.
    pub protocols: Vec<Protocol>,
}

/// A protocol with an encryption.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Protocol {
    /// As in a request line.
    pub protocol: String,
    /// The version of TLS, or `none`.
    pub tls: String,
    /// How many.
    pub requests_per_s: f64,
    /// Of all requests, 0 to 1.
    pub share: f64,
    /// Client connections that speak it now.
    pub connections_open: u64,
}

/// Parts of 1; `None` of nothing.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct HitRatio {
    /// Of the requests.
    pub documents: Option<f64>,
    /// Of the bytes.
    pub bytes: Option<f64>,
}

/// Of the times to answer, microseconds.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Latency {
    /// Half took less.
    pub p50: f64,
    /// All but a hundredth took less.
    pub p99: f64,
}

/// Requests of a class.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Class {
    /// Its name.
    pub name: String,
    /// How many.
    pub requests_per_s: f64,
    /// Of all requests, 0 to 1.
    pub share: f64,
    /// To clients.
    pub response_bytes_per_s: f64,
    /// `None` of a class that is not timed.
    pub latency_us: Option<Latency>,
}

/// A stage.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Stage {
    /// Its name.
    pub name: String,
    /// Requests that had it.
    pub requests_per_s: f64,
    /// Microseconds.
    pub p50_us: Option<f64>,
    /// Microseconds.
    pub p99_us: Option<f64>,
}

/// The origins of the last minutes.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Origins {
    /// Are all told by name?
    pub are_named: bool,
    /// The slowest first.
    pub rows: Vec<Origin>,
    /// All others together.
    pub rest: Option<Origin>,
}

/// An origin.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Origin {
    /// URL or host.
    pub name: String,
    /// Asked of it.
    pub requests: u64,
    /// Those without a usable answer.
    pub failures: u64,
    /// Until the head of the answer, microseconds.
    pub p50_us: Option<f64>,
    /// The same.
    pub p99_us: Option<f64>,
}

/// Queues of the stores' devices.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Disk {
    /// Reads.
    pub reads_under_way: u64,
    /// Reads that are due.
    pub reads_waiting: u64,
    /// Writes.
    pub writes_under_way: u64,
    /// Stores; empty: there is no disk.
    pub stores: Vec<Store>,
}

/// A store.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Store {
    /// File or device.
    pub path: String,
    /// Storing pauses after a failed write.
    pub is_paused: bool,
    /// Its device does not answer.
    pub is_aside: bool,
}

/// The rankings.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Top {
    /// Of hosts.
    pub hosts: Rankings,
    /// Of URLs.
    pub urls: Rankings,
}

/// The heaviest names by each measure.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Rankings {
    /// By requests.
    pub by_requests: Vec<Ranked>,
    /// By requests that the cache did not answer.
    pub by_misses: Vec<Ranked>,
    /// By bytes sent.
    pub by_bytes: Vec<Ranked>,
}

/// A name of a ranking.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Ranked {
    /// Host or URL.
    pub name: String,
    /// Requests.
    pub requests: u64,
    /// Those that the cache did not answer.
    pub misses: u64,
    /// Bytes sent.
    pub bytes: u64,
    /// Its part of what is ranked, 0 to 1.
    pub share: f64,
    /// How much too high what is ranked may be.
    pub over: u64,
}

/// The last two minutes, oldest first.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Trend {
    /// All requests.
    pub requests_per_s: Vec<f64>,
}
