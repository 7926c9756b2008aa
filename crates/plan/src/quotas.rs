//! `[[limit]]`: how much of something each client, host or listener may have, as data. The crate `quota` carries it out.
//!
//! In the code such a limit is a quota, because [`Limits`](super::bounds::Limits) are the bounds of the whole process.

use std::time::Duration;

use super::setting::{count, settings};

/// One `[[limit]]`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Quota {
    /// Its name: in listeners, in metrics and in answers.
    pub name: String,
    /// Whom it counts apart.
    pub per: Per,
    /// What it counts.
    pub what: What,
    /// How much of it. For what is counted at once ([`What::is_at_once`]) only `amount` counts.
    pub rate: Rate,
    /// How much may come at once, after a while without any; at least 1. Not for what is counted at once.
    pub burst: u64,
    /// What becomes of a request beyond it.
    pub then: Excess,
    /// How many it counts apart.
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
    /// The most amount of a rate, and the largest burst.
    pub const AMOUNT_MAX: u64 = 1 << 50;
    /// The shortest and the longest period of a rate.
    pub const PERIOD: [Duration; 2] = [Duration::from_millis(1), Duration::from_secs(30 * 86_400)];
    /// The longest delay of a request.
    pub const DELAY_MAX: Duration = Duration::from_secs(60);
}

/// Whom a quota counts apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Per {
    /// Each client.
    Client,
    /// Each host that is asked for.
    Host,
    /// Each listener.
    Listener,
    /// Each tag that rules give; what has none counts together.
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
    /// All, with their names.
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

    /// Is it counted while it lasts, and not by a rate?
    pub fn is_at_once(self) -> bool {
        matches!(self, What::FetchesAtOnce | What::Connections)
    }

    /// Are bytes counted, which are known only afterwards?
    pub fn is_bytes(self) -> bool {
        matches!(self, What::MissBytes | What::Bytes)
    }

    /// Is it about requests that go to an origin?
    pub fn is_of_misses(self) -> bool {
        matches!(self, What::Misses | What::MissBytes | What::FetchesAtOnce)
    }
}

/// So much in a time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rate {
    /// How many, or how many bytes; 0: none at all.
    pub amount: u64,
    /// In this time; not zero.
    pub period: Duration,
}

/// What becomes of a request beyond a quota.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Excess {
    /// It is answered 429 (Too Many Requests). A connection is closed.
    Refuse,
    /// It waits for its turn, if that comes within this time; else it is answered 429.
    Delay(Duration),
    /// It is answered from what is stored and stale, if that is permitted when an origin does not answer; else with 429.
    Stale,
}
