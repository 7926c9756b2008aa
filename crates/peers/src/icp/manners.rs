//! Whom ICP is answered, and how fast.
//!
//! | who | |
//! |---|---|
//! | may ask | answered, up to `icp.rate-max` a second |
//! | may not | told so (DENIED) [`DENIALS_MAX`] times in [`DENIED_FOR`], and up to a tenth of the rate; then not at all |
//!
//! The two have budgets of their own, so that a flood from outside does not silence siblings. An answer is never longer than its query.
//!
//! Not known here: messages, sockets.   Limits: [`ADDRESSES_MAX`] addresses are told that they may not ask; further ones are not answered.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;

use base::access::Clients;
use base::clock::Instant;

/// How often an address is told that it may not ask: as often as Squid does before it stops.
pub const DENIALS_MAX: u32 = 150;
/// After which time it is told again.
pub const DENIED_FOR: Duration = Duration::from_secs(300);
/// Addresses of which that is counted.
pub const ADDRESSES_MAX: usize = 1024;
/// The share of the rate for those who may not ask.
const DENIED_SHARE: u32 = 10;

/// What is to be done about a query.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Treatment {
    /// Answer it.
    Answer,
    /// Say that this address may not ask.
    Deny,
    /// Nothing: it has been told so often enough.
    Ignore,
    /// Nothing: there are too many.
    Drop,
}

/// So many a second, and as many at once.
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

/// Whom ICP is answered. See the head of the file.
pub struct Manners {
    may_ask: Clients,
    budget: Budget,
    denied_budget: Budget,
    /// How often an address was told, and since when that is counted.
    denied: HashMap<IpAddr, (u32, Instant)>,
    /// When addresses were last forgotten.
    swept: Instant,
}

/// How often addresses that may be told again are looked for, while there are too many: not at each query of a flood.
const SWEPT_EVERY: Duration = Duration::from_secs(10);

impl Manners {
    /// These may ask, so often a second in all.
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

    /// A query has come from there.
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
