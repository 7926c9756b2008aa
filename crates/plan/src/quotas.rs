//! `[[limit]]`: how much each client, host or listener may use, as data. The crate `quota` carries it out.
//!
//! In the code such a limit is a quota, because [`Limits`](super::bounds::Limits) are the bounds of the whole process.

use std::time::Duration;

use super::setting::{count, settings};

/// One `[[limit]]`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Quota {
    /// Its name in listeners, metrics and answers.
    pub name: String,
    /// What it has separate counts for.
    pub per: Per,
    /// What it counts.
    pub what: What,
    /// The allowed rate. For concurrent things ([`What::is_at_once`]) only `amount` applies.
    pub rate: Rate,
    /// How much may come at once after a quiet time; at least 1. Not for concurrent things.
    pub burst: u64,
    /// What happens to a request beyond it.
    pub then: Excess,
    /// How many separate counts it has.
    pub keys: QuotaKeys,
}

settings! {
/// How many a quota counts apart.
pub struct QuotaKeys {
    /// The most clients or hosts that are counted apart at a time, about 35 bytes each. Those that were quiet for long enough are
    /// forgotten; when all are busy, new ones share some counts, which is counted and logged.
    keys_max: usize = count(1024, 1_000_000, 16_000_000),
    /// Clients of IPv6 count as one if the first so many bits of their addresses agree: a customer of a provider has a /64 or more.
    ipv6_prefix: u8 = count(16, 64, 128),
}
besides {
}
}

impl Quota {
    /// The most quotas of a plan.
    pub const QUOTAS_MAX: usize = 64;
    /// The largest amount of a rate, and the largest burst.
    pub const AMOUNT_MAX: u64 = 1 << 50;
    /// The shortest and the longest period of a rate.
    pub const PERIOD: [Duration; 2] = [Duration::from_millis(1), Duration::from_secs(30 * 86_400)];
    /// The longest delay of a request.
    pub const DELAY_MAX: Duration = Duration::from_secs(60);
}

/// What a quota has separate counts for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Per {
    /// Each client.
    Client,
    /// Each requested host.
    Host,
    /// Each listener.
    Listener,
    /// Each tag that rules set; all requests without a tag are counted together.
    Tag,
}

/// What a quota counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum What {
    /// Requests, hits included.
    Requests,
    /// Requests that are sent on to an origin.
    Misses,
    /// Bytes that come from origins.
    MissBytes,
    /// Bytes that go to clients.
    Bytes,
    /// Requests to origins under way.
    FetchesAtOnce,
    /// Open connections of clients.
    Connections,
}

impl What {
    /// All kinds, with their names.
    pub const ALL: [(&str, What); 6] = [
        ("requests", What::Requests),
        ("misses", What::Misses),
        ("miss-bytes", What::MissBytes),
        ("bytes", What::Bytes),
        ("fetches-at-once", What::FetchesAtOnce),
        ("connections", What::Connections),
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        let of = |(_, what): &&(&str, What)| *what == self;
        Self::ALL.iter().find(of).map_or("", |(name, _)| name)
    }

    /// Is it a number of concurrent things, rather than a rate?
    pub fn is_at_once(self) -> bool {
        matches!(self, What::FetchesAtOnce | What::Connections)
    }

    /// Is it a number of bytes, known only afterwards?
    pub fn is_bytes(self) -> bool {
        matches!(self, What::MissBytes | What::Bytes)
    }

    /// Does it count only requests that go to an origin?
    pub fn is_of_misses(self) -> bool {
        matches!(self, What::Misses | What::MissBytes | What::FetchesAtOnce)
    }
}

/// An amount per time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rate {
    /// Number of things or bytes; 0: none at all.
    pub amount: u64,
    /// The time; not zero.
    pub period: Duration,
}

/// What happens to a request beyond a quota.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Excess {
    /// It is answered 429 (Too Many Requests). A connection is closed.
    Refuse,
    /// It waits for its turn, if that comes within this time; else it is answered 429.
    Delay(Duration),
    /// It is answered with a stale stored response, where one may be served when the origin fails; else with 429.
    Stale,
}
