//! The document `/live` of the admin interface, which `loligo top` shows.
//!
//! Missing fields count as unknown, so that another version's document can be shown, too. Only the fields that tell the document from any
//! other JSON are required.

use std::collections::BTreeMap;

use proxy::live::{Disk, Minute, Now, OriginsTold, TopTold, Trend};
use serde::Deserialize;

/// The document.
#[derive(Clone, Debug, Deserialize)]
pub struct Live {
    /// The proxy's version.
    pub version: String,
    /// `running`, `draining`, `stopping`.
    pub phase: String,
    /// Seconds since the start.
    pub uptime_s: f64,
    /// Worker threads.
    pub workers: u64,
    /// Client connections.
    #[serde(default)]
    pub connections_open: u64,
    /// Figures of the last second or two.
    #[serde(default)]
    pub now: Option<Now>,
    /// Figures of the last minute.
    #[serde(default)]
    pub minute: Option<Minute>,
    /// Origin servers, in the last minutes.
    pub origins: OriginsTold,
    /// Queues of the stores' devices.
    #[serde(default)]
    pub disk: Disk,
    /// Processor time a second.
    #[serde(default)]
    pub cpu_cores: Option<f64>,
    /// Resident memory of the process.
    #[serde(default)]
    pub resident_bytes: Option<u64>,
    /// Hosts and keys, if `admin.top` is on.
    #[serde(default)]
    pub top: Option<TopTold>,
    /// Requests of the last two minutes.
    #[serde(default)]
    pub trend: Trend,
    /// Servers behind names.
    #[serde(default)]
    pub upstreams: Vec<Upstream>,
    /// The cluster, if the proxy is a member of one.
    #[serde(default)]
    pub cluster: Option<Cluster>,
}

/// Servers behind a name.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Upstream {
    /// The name.
    pub name: String,
    /// The servers, in the configured order.
    pub servers: Vec<Server>,
}

/// A server behind a name.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Server {
    /// Its URL.
    pub server: String,
    /// The state, in a word.
    pub state: String,
    /// Why it is not up.
    pub why: Option<String>,
    /// Is it asked only if no other is up?
    pub backup: bool,
    /// Requests under way.
    pub in_flight: u64,
    /// Requests since the start.
    pub requests: u64,
    /// Requests without a usable answer.
    pub failures: u64,
    /// How often the server was ejected.
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
    /// Purges since the start.
    pub purges: Purges,
    /// The other members.
    pub members: Vec<Member>,
}

/// Purges since the start.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Purges {
    /// Purges sent to the other members.
    pub told: u64,
    /// Purges that wait for an answer now.
    pub waiting: u64,
    /// Purges that were completed while a member was away.
    pub away: u64,
}

/// Another member of the cluster.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Member {
    /// Its name.
    pub name: String,
    /// The state, in a word.
    pub state: String,
    /// Seconds since `trusted` last changed.
    pub since_s: u64,
    /// The age of our knowledge of its content; `None`: nothing is known.
    pub lag_ms: Option<u64>,
    /// Requests sent to it.
    pub hits: Hits,
    /// Pushes by verdict, and those that were `lost`.
    pub pushes: BTreeMap<String, u64>,
    /// Are its beats received in time?
    pub trusted: bool,
    /// Its load, as it reports.
    pub requests_per_s: u64,
}

impl Member {
    /// Pushes that it stored, that it refused, and that it did not answer.
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
    /// Requests for objects that the member had.
    pub r#true: u64,
    /// Requests for objects that the member did not have.
    pub r#false: u64,
    /// Requests for objects that the member had to validate.
    pub stale: u64,
}
