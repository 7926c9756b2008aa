//! A rate as one number a key: the generic cell rate algorithm (ITU-T I.371, there for ATM).
//!
//! The state is the moment at which everything charged so far is worked off at the permitted rate (the theoretical arrival time). A request
//! costs the time that one request takes at that rate. It fits if that moment then lies no further ahead than the time for the burst. A
//! moment in the past means the same as none, so a key that was quiet for long enough need not be kept.
//!
//! Bytes are known only afterwards: a request fits while less than the burst is owed, and its bytes are added when they are known. So one
//! request may go far beyond the burst; the next one waits until the excess is worked off.
//!
//! Not known here: keys, clocks. Times are nanoseconds since a moment that the caller chooses.

use std::time::Duration;

use plan::Rate;

/// A rate and its burst, in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pace {
    rate: Rate,
    /// The time for the burst at this rate.
    tolerance_ns: u64,
}

/// The request does not fit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Late {
    /// It fits after this time.
    By(Duration),
    /// It never fits: the rate is 0.
    Always,
}

impl Pace {
    /// A rate, and how much may come at once.
    pub fn new(rate: Rate, burst: u64) -> Pace {
        let tolerance_ns = cost_ns(rate, burst.max(1));
        Pace { rate, tolerance_ns }
    }

    /// Charges one request that may wait for its turn, at most `most`. Returns how long it must wait.
    ///
    /// # Errors
    /// It would have to wait longer; nothing was charged.
    pub fn reserve(self, debt: &mut u64, now: u64, most: Duration) -> Result<Duration, Late> {
        if self.rate.amount == 0 {
            return Err(Late::Always);
        }
        let after = (*debt).max(now).saturating_add(cost_ns(self.rate, 1));
        let early = after.saturating_sub(now.saturating_add(self.tolerance_ns));
        let wait = Duration::from_nanos(early);
        if wait > most {
            return Err(Late::By(wait));
        }
        *debt = after;
        Ok(wait)
    }

    /// Undoes the charge for one request.
    pub fn give_back(self, debt: &mut u64) {
        *debt = debt.saturating_sub(cost_ns(self.rate, 1));
    }

    /// May bytes come that are charged later?
    ///
    /// # Errors
    /// No: too much is owed.
    pub fn is_open(self, debt: u64, now: u64) -> Result<(), Late> {
        if self.rate.amount == 0 {
            return Err(Late::Always);
        }
        let open_from = debt.saturating_sub(self.tolerance_ns);
        if debt <= now || open_from < now {
            return Ok(());
        }
        Err(Late::By(Duration::from_nanos(open_from - now + 1)))
    }

    /// Charges bytes that have come.
    pub fn owe(self, debt: &mut u64, now: u64, bytes: u64) {
        *debt = (*debt).max(now).saturating_add(cost_ns(self.rate, bytes));
    }
}

/// The time for `of` units. Rounded up, so that even the smallest unit costs something.
fn cost_ns(rate: Rate, of: u64) -> u64 {
    if rate.amount == 0 {
        return u64::MAX;
    }
    let ns = rate.period.as_nanos().saturating_mul(u128::from(of));
    u64::try_from(ns.div_ceil(u128::from(rate.amount))).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    impl Pace {
        fn take(self, debt: &mut u64, now: u64) -> Result<(), Late> {
            self.reserve(debt, now, Duration::ZERO).map(|_| ())
        }
    }

    fn pace(amount: u64, seconds: u64, burst: u64) -> Pace {
        let period = Duration::from_secs(seconds);
        Pace::new(Rate { amount, period }, burst)
    }

    #[test]
    fn the_burst_comes_at_once_and_the_rest_at_the_rate() {
        let (pace, mut debt, now) = (pace(10, 1, 5), 0, 100 * SECOND);
        let at_once = (0..20)
            .filter(|_| pace.take(&mut debt, now).is_ok())
            .count();
        assert_eq!(at_once, 5);
        assert_eq!(
            pace.take(&mut debt, now),
            Err(Late::By(Duration::from_millis(100)))
        );
        assert_eq!(
            pace.take(&mut debt, now + SECOND / 10 - 1),
            Err(Late::By(Duration::from_nanos(1)))
        );
        assert_eq!(pace.take(&mut debt, now + SECOND / 10), Ok(()));
        // After a pause the whole burst is available again, and no more.
        let later = now + 3600 * SECOND;
        assert_eq!(
            (0..20)
                .filter(|_| pace.take(&mut debt, later).is_ok())
                .count(),
            5
        );
    }

    #[test]
    fn a_rate_of_0_lets_nothing_pass() {
        let (pace, mut debt) = (pace(0, 1, 1), 0);
        assert_eq!(pace.take(&mut debt, SECOND), Err(Late::Always));
        assert_eq!(pace.is_open(debt, SECOND), Err(Late::Always));
    }

    #[test]
    fn who_waits_gets_the_next_free_moments_in_order() {
        let (pace, mut debt, now) = (pace(10, 1, 1), 0, SECOND);
        let most = Duration::from_millis(250);
        let waits: Vec<_> = (0..5).map(|_| pace.reserve(&mut debt, now, most)).collect();
        let ms = |ms| Ok(Duration::from_millis(ms));
        let late = Err(Late::By(Duration::from_millis(300)));
        assert_eq!(waits, [ms(0), ms(100), ms(200), late, late]);
        pace.give_back(&mut debt);
        assert_eq!(pace.reserve(&mut debt, now, most), ms(200));
    }

    #[test]
    fn bytes_are_owed_and_worked_off() {
        let (pace, mut debt, now) = (pace(1000, 1, 2000), 0, SECOND);
        assert_eq!(pace.is_open(debt, now), Ok(()));
        pace.owe(&mut debt, now, 1999);
        assert_eq!(
            pace.is_open(debt, now),
            Ok(()),
            "less than the burst is owed"
        );
        pace.owe(&mut debt, now, 8001);
        let Err(Late::By(wait)) = pace.is_open(debt, now) else {
            panic!("10,000 bytes are owed");
        };
        assert!(wait.abs_diff(Duration::from_secs(8)) < Duration::from_micros(1));
        assert_eq!(pace.is_open(debt, now + wait.as_nanos() as u64), Ok(()));
    }

    #[test]
    fn nothing_overflows() {
        let pace = pace(1, 86_400 * 365, u64::MAX);
        let mut debt = u64::MAX - 1;
        pace.owe(&mut debt, u64::MAX - 5, u64::MAX);
        let _ = pace.reserve(&mut debt, u64::MAX, Duration::MAX);
        let _ = pace.is_open(debt, 0);
        pace.give_back(&mut debt);
    }

    /// For random arrivals: in any interval no more passes than the burst and the amount that the rate permits in it; and a request that
    /// keeps to the rate is never refused.
    #[test]
    fn no_stretch_of_time_has_more_than_the_rate_and_the_burst() {
        let mut seed = 1_u64;
        let mut random = move |below: u64| {
            seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % below
        };
        for _ in 0..50 {
            let (amount, burst) = (1 + random(200), 1 + random(50));
            let pace = pace(amount, 1, burst);
            let (mut debt, mut now, mut passed) = (0, SECOND, Vec::new());
            for _ in 0..2000 {
                now += random(3 * SECOND / amount);
                if pace.take(&mut debt, now).is_ok() {
                    passed.push(now);
                }
            }
            for (at, &first) in passed.iter().enumerate() {
                for (more, &last) in passed[at..].iter().enumerate() {
                    let permitted = u128::from(burst)
                        + u128::from(last - first) * u128::from(amount) / u128::from(SECOND);
                    assert!((more as u128) < permitted, "{amount}/s burst {burst}");
                }
            }
            let mut debt = 0;
            for nth in 0..1000 {
                let at = SECOND + nth * cost_ns(pace.rate, 1);
                assert_eq!(pace.take(&mut debt, at), Ok(()));
            }
        }
    }
}
