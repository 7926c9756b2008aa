//! Searches for the highest rate a proxy carries. Starting from the runs so far, the rate is doubled or halved until the peak lies
//! between two rates; then these are bisected.
//!
//! A rate is carried if the mean response time stays under a limit, no answer is wrong (or no more than allowed), the planned requests
//! were made, and the hit ratio is within two points of an ideal cache's. Without the last condition a proxy that stores nothing would
//! win, since a miss takes only the servers' time.
//!
//! Not known here: how a run is made.   Limits: a maximum of runs, and a bracket of [`CLOSE`]; a short run does not notice a queue
//! that grows slowly, so a peak is accurate to a tenth or so.   Source: issue 6; MISSION row S4.

use std::collections::BTreeMap;

use serde::Serialize;

/// The search ends when upper and lower rate are within this factor.
const CLOSE: f64 = 1.1;
/// Points of hit ratio that may be missing.
pub const HIT_POINTS: f64 = 2.0;
/// The share of the planned rate that must have been answered,
const ACHIEVED: f64 = 0.95;
/// less this many standard deviations,
const DEVIATIONS: f64 = 3.0;
/// if requests come this many at a time: a page and its images.
const AT_A_TIME: f64 = 16.0;

/// The figures that a run is judged by.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Seen<'a> {
    pub planned_rate: f64,
    pub reply_rate: f64,
    /// the length of the judged phase
    pub seconds: f64,
    pub response_ms_mean: f64,
    /// of the whole run
    pub requests: u64,
    /// of the whole run, by name
    pub faults: &'a BTreeMap<String, u64>,
    pub offered_percent: f64,
    pub hit_percent: f64,
}

/// The bounds within which a rate is carried.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bounds {
    pub response_ms_max: f64,
    /// of the requests; 0: none at all
    pub error_percent_max: f64,
}

/// Why a rate is not carried; None if it is.
pub fn objection(seen: &Seen<'_>, bounds: &Bounds) -> Option<String> {
    let errors: u64 = seen.faults.values().sum();
    let error_percent = errors as f64 * 100.0 / seen.requests.max(1) as f64;
    if error_percent > bounds.error_percent_max {
        let named = |(name, count): (&String, &u64)| format!("{count} x {name}");
        let names: Vec<String> = seen.faults.iter().map(named).collect();
        return Some(format!(
            "{} ({error_percent:.2} % of {} answers)",
            names.join(", "),
            seen.requests
        ));
    }
    if seen.response_ms_mean > bounds.response_ms_max {
        return Some(format!("mean response {:.0} ms", seen.response_ms_mean));
    }
    if seen.reply_rate < least_rate(seen) {
        return Some(format!(
            "{:.0} of {:.0} replies/s",
            seen.reply_rate, seen.planned_rate
        ));
    }
    if seen.hit_percent < seen.offered_percent - HIT_POINTS {
        return Some(format!(
            "hit ratio {:.1} of {:.1} %",
            seen.hit_percent, seen.offered_percent
        ));
    }
    None
}

/// The least replies a second of a proxy that keeps up with the planned rate, with an allowance for chance in a short phase. The planned
/// rate counts, not the requests made: a robot sends nothing while its four connections wait, so a slow proxy gets fewer requests and
/// answers all of them.
fn least_rate(seen: &Seen<'_>) -> f64 {
    let planned = seen.planned_rate * seen.seconds;
    let scatter = DEVIATIONS * (AT_A_TIME * planned).sqrt();
    (planned * ACHIEVED - scatter) / seen.seconds.max(f64::MIN_POSITIVE)
}

/// A search under way.
#[derive(Debug, Clone)]
pub struct Search {
    carried: Option<f64>,
    refused: Option<f64>,
    runs_left: u32,
}

/// How a search ended.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Peak {
    /// the highest rate that was carried
    pub carried: Option<f64>,
    /// the lowest above it that was not
    pub refused: Option<f64>,
}

impl Peak {
    /// The bounds of the peak from rates that were run, each carried or not.
    pub fn of(tried: &[(f64, bool)]) -> Self {
        let rates = |wanted: bool| {
            let wanted = tried.iter().filter(move |(_, carried)| *carried == wanted);
            wanted.map(|(rate, _)| *rate)
        };
        let carried = rates(true).max_by(f64::total_cmp);
        // A failure below a carried rate was an accident: it is reported, but is no bound.
        let above = rates(false).filter(|rate| carried.is_none_or(|low| *rate > low));
        Self {
            carried,
            refused: above.min_by(f64::total_cmp),
        }
    }
}

impl Search {
    /// A search that goes on from rates that were run, each carried or not, with at most `runs_max` further runs.
    pub fn after(tried: &[(f64, bool)], runs_max: u32) -> Self {
        let Peak { carried, refused } = Peak::of(tried);
        Self {
            carried,
            refused,
            runs_left: runs_max,
        }
    }

    /// The next rate to try; `None` when the search is over.
    pub fn next_rate(&self) -> Option<f64> {
        // Rates that people can read: to three digits.
        let next = rounded(match (self.carried, self.refused) {
            (Some(low), Some(high)) if high / low <= CLOSE => return None,
            (Some(low), Some(high)) => (low * high).sqrt(),
            (Some(low), None) => low * 2.0,
            (None, Some(high)) => high / 2.0,
            (None, None) => return None,
        });
        // Rounding may yield a rate that was tried already.
        let new = self.carried.is_none_or(|low| next > low)
            && self.refused.is_none_or(|high| next < high);
        (self.runs_left > 0 && new && next >= 1.0).then_some(next)
    }

    /// Notes whether the rate that was to be tried was carried.
    pub fn tried(&mut self, rate: f64, carried: bool) {
        self.runs_left = self.runs_left.saturating_sub(1);
        if carried {
            self.carried = Some(rate);
        } else {
            self.refused = Some(rate);
        }
    }

    /// The bounds found so far.
    pub fn peak(&self) -> Peak {
        Peak {
            carried: self.carried,
            refused: self.refused,
        }
    }
}

fn rounded(rate: f64) -> f64 {
    let unit = 10_f64.powf((rate.log10() - 2.0).floor()).max(1.0);
    (rate / unit).round() * unit
}

#[cfg(test)]
mod tests {
    use super::*;

    static NOTHING: BTreeMap<String, u64> = BTreeMap::new();

    const GOOD: Seen<'_> = Seen {
        planned_rate: 100.0,
        reply_rate: 99.0,
        seconds: 600.0,
        response_ms_mean: 1200.0,
        requests: 10_000,
        faults: &NOTHING,
        offered_percent: 58.0,
        hit_percent: 57.0,
    };

    const BOUNDS: Bounds = Bounds {
        response_ms_max: 3000.0,
        error_percent_max: 0.0,
    };

    #[test]
    fn what_does_not_cache_has_no_peak() {
        assert_eq!(objection(&GOOD, &BOUNDS), None);
        for bad in [
            Seen {
                hit_percent: 0.0,
                ..GOOD
            },
            Seen {
                response_ms_mean: 3001.0,
                ..GOOD
            },
            Seen {
                reply_rate: 80.0,
                ..GOOD
            },
        ] {
            assert!(objection(&bad, &BOUNDS).is_some(), "{bad:?}");
        }
    }

    #[test]
    fn a_short_phase_may_have_had_fewer_requests_by_chance() {
        let of = |planned_rate: f64, share: f64, seconds| Seen {
            planned_rate,
            reply_rate: planned_rate * share,
            seconds,
            ..GOOD
        };
        assert_eq!(objection(&of(70.0, 0.85, 12.0), &BOUNDS), None);
        assert!(objection(&of(70.0, 0.4, 12.0), &BOUNDS).is_some());
        // Requests that waiting robots could not send are missing, however well the others are answered.
        assert!(objection(&of(20_000.0, 0.9, 12.0), &BOUNDS).is_some());
        assert_eq!(objection(&of(20_000.0, 0.95, 12.0), &BOUNDS), None);
    }

    #[test]
    fn one_error_is_too_many_unless_it_was_allowed() {
        let faults = [("status 502".to_owned(), 2), ("stale".to_owned(), 1)].into();
        let seen = Seen {
            faults: &faults,
            ..GOOD
        };
        let said = objection(&seen, &BOUNDS).unwrap();
        assert_eq!(said, "1 x stale, 2 x status 502 (0.03 % of 10000 answers)");
        let lenient = Bounds {
            error_percent_max: 0.1,
            ..BOUNDS
        };
        assert_eq!(objection(&seen, &lenient), None);
    }

    fn search(start: f64, runs: u32, limit: f64) -> (Peak, u32) {
        let mut search = Search::after(&[(start, start <= limit)], runs - 1);
        let mut made = 1;
        while let Some(rate) = search.next_rate() {
            search.tried(rate, rate <= limit);
            made += 1;
        }
        (search.peak(), made)
    }

    #[test]
    fn a_peak_is_found_from_below_and_from_above() {
        for start in [10.0, 100.0, 5000.0] {
            let (peak, _) = search(start, 20, 333.0);
            let (low, high) = (peak.carried.unwrap(), peak.refused.unwrap());
            assert!(
                low <= 333.0 && high > 333.0 && high / low <= 1.1,
                "{peak:?}"
            );
        }
    }

    #[test]
    fn what_was_run_is_not_run_again() {
        let next = |tried: &[(f64, bool)]| Search::after(tried, 3).next_rate();
        assert_eq!(next(&[(25.0, true), (50.0, true)]), Some(100.0));
        assert_eq!(next(&[(25.0, false), (50.0, false)]), Some(13.0));
        assert_eq!(
            next(&[(25.0, true), (100.0, false), (50.0, true)]),
            Some(71.0)
        );
        // An accident below what was carried does not stop the search.
        assert_eq!(next(&[(25.0, false), (50.0, true)]), Some(100.0));
        for over in [
            vec![],
            vec![(100.0, true), (110.0, false)],
            vec![(1.0, false)],
        ] {
            assert_eq!(next(&over), None, "{over:?}");
        }
        assert_eq!(Search::after(&[(25.0, true)], 0).next_rate(), None);
    }

    #[test]
    fn it_ends() {
        let (peak, made) = search(100.0, 4, 1e12);
        assert_eq!((peak.carried, peak.refused, made), (Some(800.0), None, 4));
        let (peak, made) = search(100.0, 50, 0.0);
        assert_eq!(peak.carried, None);
        assert!(made < 10);
    }
}
