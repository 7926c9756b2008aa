//! Quotas: how much each client, host, listener or tag may use (`[[limit]]`).
//!
//! A [`Quota`] keeps a count for each key in a [`table`], either at a [`rate`] or of concurrent things. [`Quotas`] are all quotas of a
//! configuration; a [`Chosen`] is the subset that applies to a request. Workers share them, since a client has connections on several.
//!
//! | what | is charged | when |
//! |---|---|---|
//! | requests | 1 | before it is answered, hit or not |
//! | bytes | bytes sent | afterwards; before, the request is refused if too much is owed |
//! | misses | 1 | before a request is sent to an origin: for a fetch, a revalidation, a part, a request passed through, a tunnel |
//! | miss-bytes | bytes received | when the request to the origin has ended; before, it is refused if too much is owed |
//! | fetches-at-once | 1 | while a request to an origin is under way |
//! | connections | 1 | while a connection is open |
//!
//! Hits are not charged for misses, and no such quota is looked up for them. A request that joins another's fetch is not charged either.
//! Waiting and refusing are done in `exchange::request::toll` and `paying`.
//!
//! Not known here: HTTP. Limits: those of [`plan::Quota`], and `exchange::request::paying::DELAYED_MAX`.
#![forbid(unsafe_code)]

pub mod rate;
pub mod table;

use std::{
    hash::{BuildHasher, RandomState},
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::sync::Notify;

use base::{
    clock::Instant,
    listening::ListenerId,
    mistakes::{Mistake, makes},
};
use plan::{Excess, Per, What};
use rate::{Late, Pace};
use record::seldom::Seldom;
use table::{Place, Table};

/// The quotas of a configuration.
#[derive(Default)]
pub struct Quotas(Vec<Arc<Quota>>);

/// A subset of the quotas, one bit each.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Chosen(u64);

const _: () = assert!(plan::Quota::QUOTAS_MAX <= u64::BITS as usize);

impl Chosen {
    /// Is the subset empty?
    #[inline]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
}

/// The quotas of a listener or a rule, by the moment of charging.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tolls {
    /// Charged for each request: `requests` and `bytes`.
    pub each: Chosen,
    /// Charged for requests that go to an origin.
    pub misses: Chosen,
    /// Charged for connections.
    pub connections: Chosen,
}

impl Tolls {
    /// The union of both.
    #[must_use]
    pub fn and(self, others: Tolls) -> Tolls {
        Tolls {
            each: Chosen(self.each.0 | others.each.0),
            misses: Chosen(self.misses.0 | others.misses.0),
            connections: Chosen(self.connections.0 | others.connections.0),
        }
    }

    /// Is no quota charged for requests?
    pub fn is_none(self) -> bool {
        self.each.is_empty() && self.misses.is_empty()
    }
}

/// The properties that decide which count is charged.
#[derive(Clone, Copy, Debug)]
pub struct Payer<'a> {
    /// The client.
    pub client: IpAddr,
    /// The requested host, without port.
    pub host: &'a str,
    /// The listener.
    pub listener: ListenerId,
    /// The tag that a rule has set; empty: none.
    pub tag: &'a [u8],
}

impl Quotas {
    /// The quotas of a plan. An unchanged quota keeps its counts from `before`.
    pub fn new(plan: &[plan::Quota], before: Option<&Quotas>) -> Quotas {
        let before = before.map_or(&[][..], |quotas| &quotas.0);
        let quota = |quota: &plan::Quota| {
            let same = before.iter().find(|one| one.plan == *quota);
            same.map_or_else(|| Arc::new(Quota::new(quota)), Arc::clone)
        };
        Quotas(plan.iter().map(quota).collect())
    }

    /// All quotas.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Quota>> {
        self.0.iter()
    }

    /// The quotas with these names. (A plan refers only to names that it defines.)
    pub fn named(&self, names: &[String]) -> Tolls {
        let mut tolls = Tolls::default();
        for (at, quota) in self.0.iter().enumerate() {
            if !names.contains(&quota.plan.name) {
                continue;
            }
            let part = match quota.plan.what {
                What::Requests | What::Bytes => &mut tolls.each,
                What::Misses | What::MissBytes | What::FetchesAtOnce => &mut tolls.misses,
                What::Connections => &mut tolls.connections,
            };
            part.0 |= 1 << at;
        }
        tolls
    }

    /// The quotas in a subset.
    pub fn of(&self, chosen: Chosen) -> impl Iterator<Item = &Arc<Quota>> {
        let mut left = chosen.0;
        std::iter::from_fn(move || {
            let at = left.trailing_zeros();
            left &= left.checked_sub(1)?;
            self.0.get(at as usize)
        })
    }
}

/// A quota and its counts.
pub struct Quota {
    /// The quota as configured.
    pub plan: plan::Quota,
    pace: Pace,
    table: Table,
    hasher: RandomState,
    began: Instant,
    /// Statistics for metrics.
    pub counts: Counts,
    /// Notified when something that is counted while it lasts has ended.
    pub freed: Notify,
    said: Seldom,
}

/// Statistics of a quota.
#[derive(Default)]
pub struct Counts {
    /// Requests within the quota.
    pub passed: AtomicU64,
    /// Requests that waited for their turn.
    pub delayed: AtomicU64,
    /// Requests that were refused, or answered with a stale response.
    pub refused: AtomicU64,
    /// Look-ups of keys that shared a count with others, because there were too many keys.
    pub shared: AtomicU64,
}

/// The quota has no room.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Full {
    /// There is room after this time.
    For(Duration),
    /// There is room when something else ends.
    Busy,
    /// There is never room: the amount is 0.
    Always,
}

impl From<Late> for Full {
    fn from(late: Late) -> Full {
        match late {
            Late::By(wait) => Full::For(wait),
            Late::Always => Full::Always,
        }
    }
}

impl Quota {
    fn new(plan: &plan::Quota) -> Quota {
        let is_idle: fn(u64, u64) -> bool = match plan.what.is_at_once() {
            true => |number, _| number == 0,
            false => |debt, now| debt <= now,
        };
        Quota {
            pace: Pace::new(plan.rate, plan.burst),
            table: Table::new(plan.keys.keys_max, is_idle),
            hasher: RandomState::new(),
            began: Instant::now(),
            counts: Counts::default(),
            freed: Notify::new(),
            said: Seldom::new(),
            plan: plan.clone(),
        }
    }

    /// The key of the count that is charged.
    pub fn key(&self, payer: &Payer<'_>) -> u64 {
        match self.plan.per {
            Per::Client => self.hasher.hash_one(self.network(payer.client)),
            Per::Host => {
                let host = payer.host.strip_suffix('.').unwrap_or(payer.host);
                self.hasher.hash_one(host.to_ascii_lowercase())
            }
            Per::Listener => self.hasher.hash_one(payer.listener),
            Per::Tag => self.hasher.hash_one(payer.tag),
        }
    }

    /// The network of a client. An IPv6 client has more addresses than can be counted one by one.
    fn network(&self, client: IpAddr) -> IpAddr {
        match client.to_canonical() {
            IpAddr::V6(address) => {
                let mask = u128::MAX << (128 - u32::from(self.plan.keys.ipv6_prefix.clamp(1, 128)));
                IpAddr::V6((address.to_bits() & mask).into())
            }
            v4 => v4,
        }
    }

    fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Calls `then` with a count, and notes if the count is shared.
    fn with<R>(&self, key: u64, now: u64, then: impl FnOnce(&mut u64) -> R) -> (R, Place) {
        let (answer, place) = self.table.with(key, now, then);
        if place == Place::Shared {
            self.counts.shared.fetch_add(1, Ordering::Relaxed);
            if self.said.is_due(now / 1_000_000_000 + 60) {
                let (name, keys_max) = (&self.plan.name, self.plan.keys.keys_max);
                tracing::warn!(
                    "limit {name} counts {keys_max} at once and there are more: new ones share counts; raise keys-max. Further ones are \
                     counted only (limit_keys_shared)"
                );
            }
        }
        (answer, place)
    }

    /// Charges one unit, or for a quota of bytes checks whether there is room. Returns the time to wait for the turn, at most `most`; the
    /// unit is charged already.
    ///
    /// # Errors
    /// There is no room; nothing was charged.
    pub fn enter(&self, key: u64, most: Duration) -> Result<(Duration, Place), Full> {
        let now = self.now();
        let what = self.plan.what;
        let (entered, place) = self.with(key, now, |number| {
            if what.is_at_once() {
                if *number >= self.plan.rate.amount {
                    return Err(match self.plan.rate.amount {
                        0 => Full::Always,
                        _ => Full::Busy,
                    });
                }
                *number += u64::from(!makes(Mistake::CountNothing));
                return Ok(Duration::ZERO);
            }
            match what.is_bytes() {
                true => self.pace.is_open(*number, now).map(|()| Duration::ZERO),
                false => self.pace.reserve(number, now, most),
            }
            .map_err(Full::from)
        });
        entered.map(|wait| (wait, place))
    }

    /// Undoes [`Self::enter`], for something that does not happen.
    pub fn give_back(&self, key: u64, place: Place) {
        if self.plan.what.is_at_once() {
            self.leave(key, place);
        } else if !self.plan.what.is_bytes() {
            let lower = |number: &mut u64| self.pace.give_back(number);
            self.table.change(key, place, self.now(), lower);
        }
    }

    /// Something that is counted while it lasts has ended.
    pub fn leave(&self, key: u64, place: Place) {
        let lower = |number: &mut u64| *number = number.saturating_sub(1);
        self.table.change(key, place, self.now(), lower);
        self.freed.notify_waiters();
    }

    /// Charges bytes.
    pub fn owe(&self, key: u64, bytes: u64) {
        let now = self.now();
        if bytes > 0 {
            self.with(key, now, |number| self.pace.owe(number, now, bytes));
        }
    }

    /// The number of keys with a count of their own now, some of them idle.
    pub fn keys(&self) -> usize {
        self.table.keys()
    }

    /// How long a request may wait for its turn.
    pub fn patience(&self) -> Duration {
        match self.plan.then {
            Excess::Delay(most) => most,
            Excess::Refuse | Excess::Stale => Duration::ZERO,
        }
    }
}

#[cfg(test)]
mod tests;
