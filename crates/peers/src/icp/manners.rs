//! Which ICP queries are answered, and at which rate.
//!
//! | client | treatment |
//! |---|---|
//! | may ask | answered, up to `icp.rate-max` a second |
//! | may not ask | gets DENIED, [`DENIALS_MAX`] times in [`DENIED_FOR`] and at a tenth of the rate in all; beyond that nothing |
//!
//! The two groups have separate budgets, so that a flood from outside does not silence siblings. An answer is never longer than its query.
//!
//! Not known here: messages, sockets.   Limits: [`ADDRESSES_MAX`] addresses are sent DENIED; further ones are not answered.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;

use base::access::Clients;
use base::clock::Instant;

/// How often an address is sent DENIED: as often as Squid does before it stops.
pub const DENIALS_MAX: u32 = 150;
/// After this time an address is sent DENIED again.
pub const DENIED_FOR: Duration = Duration::from_secs(300);
/// Addresses for which this is counted.
pub const ADDRESSES_MAX: usize = 1024;
/// The rate for clients that may not ask is the whole rate divided by this.
const DENIED_SHARE: u32 = 10;

/// What to do with a query.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Treatment {
    /// Answer it.
    Answer,
    /// Answer DENIED.
    Deny,
    /// Do nothing: the address was sent DENIED often enough.
    Ignore,
    /// Do nothing: the budget is exhausted.
    Drop,
}

/// A token bucket: so many a second, and at most as many at once.
struct Budget {
    per_second: u32,
    left: f64,
    at: Instant,
}

impl Budget {
    fn take(&mut self, now: Instant) -> bool {
        let most = f64::from(self.per_second);
        let gained = now.duration_since(self.at).as_secs_f64() * most;
        (self.left, self.at) = ((self.left + gained).min(most), now);
        let is_there = self.left >= 1.0;
        self.left -= f64::from(u8::from(is_there));
        is_there
    }
}

/// Decides which queries are answered; described at the head of this file.
pub struct Manners {
    may_ask: Clients,
    budget: Budget,
    denied_budget: Budget,
    /// For each address, how often it was sent DENIED, and when that count began.
    denied: HashMap<IpAddr, (u32, Instant)>,
    /// When old addresses were last removed.
    swept: Instant,
}

/// While the table is full, how often old addresses are removed: not at each query of a flood.
const SWEPT_EVERY: Duration = Duration::from_secs(10);

impl Manners {
    /// `may_ask`: clients that may ask, `rate_max` times a second in all.
    pub fn new(may_ask: Clients, rate_max: u32, now: Instant) -> Manners {
        let budget = |per_second: u32| Budget {
            per_second,
            left: f64::from(per_second),
            at: now,
        };
        Manners {
            may_ask,
            budget: budget(rate_max),
            denied_budget: budget((rate_max / DENIED_SHARE).max(1)),
            denied: HashMap::new(),
            swept: now,
        }
    }

    /// What to do with a query from this address.
    pub fn treat(&mut self, from: IpAddr, now: Instant) -> Treatment {
        if self.may_ask.permits(from) {
            return match self.budget.take(now) {
                true => Treatment::Answer,
                false => Treatment::Drop,
            };
        }
        if !self.denied_budget.take(now) {
            return Treatment::Drop;
        }
        let is_due = now.duration_since(self.swept) >= SWEPT_EVERY;
        if is_due && self.denied.len() >= ADDRESSES_MAX {
            self.swept = now;
            let is_recent = |since: Instant| now.duration_since(since) < DENIED_FOR;
            self.denied.retain(|_, (_, since)| is_recent(*since));
        }
        let is_full = self.denied.len() >= ADDRESSES_MAX;
        if is_full && !self.denied.contains_key(&from) {
            return Treatment::Ignore;
        }
        let (told, since) = self.denied.entry(from).or_insert((0, now));
        if now.duration_since(*since) >= DENIED_FOR {
            (*told, *since) = (0, now);
        }
        *told = told.saturating_add(1);
        match *told <= DENIALS_MAX {
            true => Treatment::Deny,
            false => Treatment::Ignore,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manners(rate_max: u32, now: Instant) -> Manners {
        let allow = vec!["10.0.0.0/8".parse().unwrap()];
        Manners::new(Clients { allow }, rate_max, now)
    }

    #[test]
    fn a_flood_is_dropped_and_does_not_silence_siblings() {
        let mut now = Instant::now();
        let mut manners = manners(100, now);
        let (sibling, stranger) = ("10.1.1.1".parse().unwrap(), "192.0.2.1".parse().unwrap());
        let treated: Vec<_> = (0..50).map(|_| manners.treat(stranger, now)).collect();
        assert_eq!(treated[..10], [Treatment::Deny; 10]);
        assert_eq!(treated[10..], [Treatment::Drop; 40]);
        for _ in 0..100 {
            assert_eq!(manners.treat(sibling, now), Treatment::Answer);
        }
        assert_eq!(manners.treat(sibling, now), Treatment::Drop);
        now += Duration::from_millis(10);
        assert_eq!(manners.treat(sibling, now), Treatment::Answer);
        assert_eq!(manners.treat(sibling, now), Treatment::Drop);
    }

    #[test]
    fn who_may_not_ask_is_told_so_for_a_while() {
        let mut now = Instant::now();
        let mut manners = manners(1_000_000, now);
        let stranger = "192.0.2.1".parse().unwrap();
        for _ in 0..DENIALS_MAX {
            assert_eq!(manners.treat(stranger, now), Treatment::Deny);
        }
        assert_eq!(manners.treat(stranger, now), Treatment::Ignore);
        now += DENIED_FOR;
        assert_eq!(manners.treat(stranger, now), Treatment::Deny);
    }

    #[test]
    fn a_million_strangers_take_no_more_memory_than_a_thousand() {
        let now = Instant::now();
        let mut manners = manners(10_000_000, now);
        let mut told = 0;
        for n in 0..1_000_000u32 {
            let stranger = IpAddr::from((0xc000_0000 + n).to_be_bytes());
            told += usize::from(manners.treat(stranger, now) == Treatment::Deny);
        }
        assert_eq!((told, manners.denied.len()), (ADDRESSES_MAX, ADDRESSES_MAX));
        let another = "198.51.100.1".parse().unwrap();
        assert_eq!(manners.treat(another, now + DENIED_FOR), Treatment::Deny);
        assert_eq!(manners.denied.len(), 1, "the others are forgotten");
    }
}
