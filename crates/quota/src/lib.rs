//! Quotas: how much of something each client, host, listener or tag may have (`[[limit]]`).
//!
//! A [`Quota`] counts by key in a [`table`], at a [`rate`] or while something lasts. Of a configuration there are the [`Quotas`]; those
//! that apply to a request are a [`Chosen`]. Workers share them, since a client has connections on several.
//!
//! | what | is charged | when |
//! |---|---|---|
//! | requests | 1 | before it is answered, hit or not |
//! | bytes | what was sent | afterwards; before, it is asked whether too much is owed |
//! | misses | 1 | before a request is sent to an origin: a fetch, a revalidation, a part, what is passed through, a tunnel |
//! | miss-bytes | what came | when that request has ended; before, it is asked whether too much is owed |
//! | fetches-at-once | 1 | while that request is under way |
//! | connections | 1 | while it is open |
//!
//! Hits are free of all that is about misses: nothing is looked up for them. Whoever joins another's fetch pays nothing. `exchange::request::toll` has the
//! waiting and refusing.
//!
//! Not known here: HTTP. Limits: those of [`plan::Quota`], and `exchange::request::toll::DELAYED_MAX`.
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

/// Some of them, a bit each.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Chosen(u64);

const _: () = assert!(plan::Quota::QUOTAS_MAX <= u64::BITS as usize);

impl Chosen {
    /// Is it none?
    #[inline]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
}

/// The quotas of a listener or a rule, by when they are asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tolls {
    /// Of each request: `requests` and `bytes`.
    pub each: Chosen,
    /// Of those that go to an origin.
    pub misses: Chosen,
    /// Of connections.
    pub connections: Chosen,
}

impl Tolls {
    /// These and those.
    #[must_use]
    pub fn and(self, others: Tolls) -> Tolls {
        Tolls {
            each: Chosen(self.each.0 | others.each.0),
            misses: Chosen(self.misses.0 | others.misses.0),
            connections: Chosen(self.connections.0 | others.connections.0),
        }
    }

    /// Are there none of requests?
    pub fn is_none(self) -> bool {
        self.each.is_empty() && self.misses.is_empty()
    }
}

/// Whose count something goes to.
#[derive(Clone, Copy, Debug)]
pub struct Payer<'a> {
    /// The client.
    pub client: IpAddr,
    /// The host that is asked for, without port.
    pub host: &'a str,
    /// The listener.
    pub listener: ListenerId,
    /// The tag that a rule has given it; empty: none.
    pub tag: &'a [u8],
}

impl Quotas {
    /// Those of a plan. What was counted goes on where a quota is what it was.
    pub fn new(plan: &[plan::Quota], before: Option<&Quotas>) -> Quotas {
        let before = before.map_or(&[][..], |quotas| &quotas.0);
        let quota = |quota: &plan::Quota| {
            let same = before.iter().find(|one| one.plan == *quota);
            same.map_or_else(|| Arc::new(Quota::new(quota)), Arc::clone)
        };
        Quotas(plan.iter().map(quota).collect())
    }

    /// All.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Quota>> {
        self.0.iter()
    }

    /// The quotas with these names. (A plan names only those it has.)
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

    /// The chosen ones.
    pub fn of(&self, chosen: Chosen) -> impl Iterator<Item = &Arc<Quota>> {
        let mut left = chosen.0;
        std::iter::from_fn(move || {
            let at = left.trailing_zeros();
            left &= left.checked_sub(1)?;
            self.0.get(at as usize)
        })
    }
}

/// A quota and what it has counted.
pub struct Quota {
    /// As configured.
    pub plan: plan::Quota,
    pace: Pace,
    table: Table,
    hasher: RandomState,
    began: Instant,
    /// What has happened so far.
    pub counts: Counts,
    /// Something that is counted while it lasts has ended.
    pub freed: Notify,
    said: Seldom,
}

/// What a quota has come to.
#[derive(Default)]
pub struct Counts {
    /// Requests that were within it.
    pub passed: AtomicU64,
    /// Those that waited for their turn.
    pub delayed: AtomicU64,
    /// Those that were refused, or answered from what is stale.
    pub refused: AtomicU64,
    /// Look-ups of keys that shared a count with others, because there were too many.
    pub shared: AtomicU64,
}

/// Something does not fit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Full {
    /// It will after this time.
    For(Duration),
    /// It will when something else ends.
    Busy,
    /// Never.
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

    /// Whose count it is.
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

    /// A client of IPv6 has more addresses than can be counted.
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

    /// Looks at a count, and notes if it is shared.
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

    /// Counts one of what it counts, or asks whether there is room for bytes. It may have to wait until its turn, at most so long; then
    /// it has its turn.
    ///
    /// # Errors
    /// It does not fit; nothing was counted.
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

    /// Takes back what was counted for something that does not happen.
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

    /// Counts bytes.
    pub fn owe(&self, key: u64, bytes: u64) {
        let now = self.now();
        if bytes > 0 {
            self.with(key, now, |number| self.pace.owe(number, now, bytes));
        }
    }

    /// Keys that are counted apart now, some idle ones among them.
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
