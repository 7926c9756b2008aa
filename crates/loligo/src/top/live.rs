//! `/live` of the admin interface as it is read: what `loligo top` shows.
//!
//! What is missing is taken for "nothing known", so that another version's document can be shown too; only what tells such a document
//! from any other JSON is required.

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
    pub origins: OriginsTold,
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
    pub top: Option<TopTold>,
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
