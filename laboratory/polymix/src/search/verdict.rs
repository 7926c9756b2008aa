//! Whether a proxy sustained ("stood") a load, and whether this could be determined.
//!
//! A load is sustained if the mean response time was short enough, nothing was wrong, and the hit ratio was near the offered one.
//! (Without the last condition a proxy that caches nothing would win, since a miss takes the servers' think time.) Otherwise the load
//! generator may be the cause: if it sent requests late, or if it or the servers had no CPU left, the proxy's limit is unknown. A
//! wrong answer that load cannot cause is always the proxy's fault.
//!
//! Not known here: which rate to try next.   Limits: constants say what counts as late and busy.
//! Source: issue 6 (search, honest load); paper 004 section 6, "under 3 seconds".

use serde::{Deserialize, Serialize};

use crate::check::{EXHAUSTED, comes_of_load};
use crate::report::{Report, Row};

//= paper 004 section 6   a response time under 3 seconds is acceptable
const RESPONSE_MS_MAX: f64 = 3_000.0;
/// The limit is never below this: less would measure the machine's scheduler.
const RESPONSE_MS_LEAST: f64 = 100.0;
/// Percentage points that the document hit ratio may be below the offered one.
const HIT_POINTS: f64 = 2.0;
/// A thread that uses this much of a core, percent, counts as busy.
const BUSY_PERCENT: f64 = 90.0;
/// The mean lag of requests may be this share of the response limit, ...
const LATE_SHARE: f64 = 0.02;
/// ... but is always allowed to be this.
const LATE_MS: f64 = 5.0;
/// A thread that waits for a core this much of the time, percent, shares it with others.
const WAIT_PERCENT: f64 = 10.0;

/// The conditions for a load that is sustained.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Conditions {
    /// The mean response time is below this, milliseconds.
    pub response_ms_max: f64,
    /// The document hit ratio is at most this many percentage points below the offered one.
    pub hit_points: f64,
}

/// The verdict on a load.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "verdict", content = "why")]
pub enum Verdict {
    /// The proxy sustained the load.
    Stood,
    /// The proxy did not sustain the load, and why.
    Failed(Vec<String>),
    /// The proxy did not sustain the load, but the load generator was at its limit. Signs of that come first.
    Unclear(Vec<String>),
}

impl std::fmt::Display for Verdict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Stood => f.write_str("stood"),
            Self::Failed(why) => write!(f, "failed: {}", why.join("; ")),
            Self::Unclear(why) => write!(f, "unclear: {}", why.join("; ")),
        }
    }
}

impl Conditions {
    /// The papers' limit is 3 s where a miss takes 2.5 s. Shorter think times shrink the limit in proportion, so the proxy keeps the
    /// same share of it.
    #[must_use]
    pub fn for_think_scale(think_scale: f64) -> Self {
        Self {
            response_ms_max: (RESPONSE_MS_MAX * think_scale).max(RESPONSE_MS_LEAST),
            hit_points: HIT_POINTS,
        }
    }

    /// The conditions as the end of a sentence.
    #[must_use]
    pub fn meaning(&self) -> String {
        format!(
            "the mean response is under {:.0} ms, nothing is wrong, and the document hit ratio is at most {} points below what is offered",
            self.response_ms_max, self.hit_points
        )
    }

    /// The verdict on a run.
    #[must_use]
    pub fn judge(&self, report: &Report) -> Verdict {
        let top = report.top();
        let mut why = Vec::new();
        if top.replies == 0 {
            why.push("no request was answered".to_owned());
        }
        if top.response.mean_ms >= self.response_ms_max {
            why.push(format!(
                "mean response {:.1} ms, not under {:.1} ms",
                top.response.mean_ms, self.response_ms_max
            ));
        }
        for (name, count) in &report.total.faults {
            why.push(format!("{count} x {name}"));
        }
        if report.unfinished > 0 {
            why.push(format!(
                "{} requests unanswered at the end",
                report.unfinished
            ));
        }
        if top.dhr_percent < top.offered_percent - self.hit_points {
            why.push(format!(
                "document hit ratio {:.2} %, more than {} points below the {:.2} % offered",
                top.dhr_percent, self.hit_points, top.offered_percent
            ));
        }
        if why.is_empty() {
            return Verdict::Stood;
        }
        let wrong = |name: &String| !comes_of_load(name);
        if report.total.faults.keys().any(wrong) {
            return Verdict::Failed(why);
        }
        let mut limits = self.generator(&top);
        if report.total.faults.contains_key(EXHAUSTED) {
            let advice = "the load generator ran out of descriptors or ports (ulimit -n, --robot-addresses, --share, or --think-scale for fewer at once)";
            limits.push(advice.to_owned());
        }
        if limits.is_empty() {
            Verdict::Failed(why)
        } else {
            limits.append(&mut why);
            Verdict::Unclear(limits)
        }
    }

    /// Signs that the load generator was at its limit; mostly none.
    #[must_use]
    pub fn generator(&self, top: &Row) -> Vec<String> {
        let mut why = Vec::new();
        let late_ms = (self.response_ms_max * LATE_SHARE).max(LATE_MS);
        if top.robots_cpu_percent >= BUSY_PERCENT {
            let cpu = top.robots_cpu_percent;
            why.push(format!("the robots' thread had no CPU left ({cpu:.0} %)"));
        }
        if top.lag.mean_ms > late_ms {
            let wait = if top.core_wait_percent >= WAIT_PERCENT {
                format!(
                    "; they waited {:.0} % of the time for a core",
                    top.core_wait_percent
                )
            } else {
                String::new()
            };
            let lag = top.lag.mean_ms;
            why.push(format!(
                "the robots were late by {lag:.1} ms on average{wait}"
            ));
        }
        if let Some(cpu) = top.origin_cpu_percent.filter(|cpu| *cpu >= BUSY_PERCENT) {
            why.push(format!("the servers' thread had no CPU left ({cpu:.0} %)"));
        }
        why
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;
    use std::time::Duration;

    fn judged(spoil: impl Fn(&mut Report)) -> Verdict {
        let mut report = testing::report("a", 100.0);
        spoil(&mut report);
        Conditions::for_think_scale(1.0).judge(&report)
    }

    fn every_row(report: &mut Report, of: impl Fn(&mut Row)) {
        report.phases.iter_mut().for_each(of);
    }

    fn lose_hits(report: &mut Report) {
        every_row(report, |row| row.counted.hits.count /= 2);
    }

    #[test]
    fn the_limit_shrinks_with_the_think_time() {
        let limit = |scale| Conditions::for_think_scale(scale).response_ms_max;
        assert!((limit(1.0) - 3_000.0).abs() < 1e-9);
        assert!((limit(0.1) - 300.0).abs() < 1e-9);
        assert!((limit(0.0) - 100.0).abs() < 1e-9);
    }

    #[test]
    fn a_good_run_is_stood_however_busy_the_robots() {
        assert_eq!(judged(|_| {}), Verdict::Stood);
        let busy = |report: &mut Report| every_row(report, |row| row.robots_cpu_percent = 99.0);
        assert_eq!(judged(busy), Verdict::Stood);
    }

    #[test]
    fn slow_wrong_and_forgetful_proxies_fail() {
        let slow = judged(|report| {
            every_row(report, |row| {
                (0..10_000).for_each(|_| row.counted.response.add(Duration::from_secs(9)));
            });
        });
        assert!(matches!(&slow, Verdict::Failed(why) if why[0].contains("mean response")));
        let forgetful = judged(lose_hits);
        assert!(matches!(&forgetful, Verdict::Failed(why) if why[0].contains("document hit")));
        let wrong = judged(|report| {
            report.total.faults.insert("wrong bytes".to_owned(), 1);
        });
        assert_eq!(wrong, Verdict::Failed(vec!["1 x wrong bytes".to_owned()]));
        assert!(matches!(
            judged(|report| report.unfinished = 3),
            Verdict::Failed(_)
        ));
    }

    #[test]
    fn a_generator_at_its_limit_leaves_it_open() {
        let busy = judged(|report| {
            lose_hits(report);
            every_row(report, |row| row.robots_cpu_percent = 97.0);
        });
        assert!(
            matches!(&busy, Verdict::Unclear(why) if why[0].contains("97 %")),
            "{busy:?}"
        );
        let late = judged(|report| {
            lose_hits(report);
            every_row(report, |row| {
                row.core_wait_percent = 30.0;
                (0..1_000).for_each(|_| row.counted.lag.add(Duration::from_secs(1)));
            });
        });
        assert!(
            matches!(&late, Verdict::Unclear(why) if why[0].contains("for a core")),
            "{late:?}"
        );
        let timed_out = judged(|report| {
            report.total.faults.insert("timed out".to_owned(), 1);
            every_row(report, |row| row.robots_cpu_percent = 97.0);
        });
        assert!(matches!(timed_out, Verdict::Unclear(_)));
        let exhausted = judged(|report| {
            report.total.faults.insert(EXHAUSTED.to_owned(), 1);
        });
        assert!(matches!(exhausted, Verdict::Unclear(_)));
        let wrong = judged(|report| {
            report.total.faults.insert("stale".to_owned(), 1);
            every_row(report, |row| row.robots_cpu_percent = 97.0);
        });
        assert!(
            matches!(wrong, Verdict::Failed(_)),
            "wrong whoever was busy"
        );
    }
}
