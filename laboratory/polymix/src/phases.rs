//! The phases of a test: length, load, and the shares of old objects and special requests.
//!
//! A phase ends by time, or when its goal is reached. Load, recurrence and special requests change linearly from its begin to its end.
//! A time scale below 1 shortens all phases and the working set together, so that the hit ratio stays. Human behaviour (gaps of
//! 2.5 s, think times) is not shortened.
//!
//! Not known here: the clock, robots.
//! Limits: a fill that does not reach its goal ends after `FILL_FACTOR_MAX`; the report says so.   Source: spec sections 5 and 6.

use crate::Mix;
use crate::clock::GAP_S_MEAN;

/// Seconds in a minute.
const MINUTE: f64 = 60.0;
/// Load of the idle phase, as a share of the peak; PolyMix-3 also begins and ends with it.
const LOW: f64 = 0.10;
/// Recurrence and special requests while the cache is filled.
const FILL_RECURRENCE: f64 = 5.0 / 55.0;
const FILL_SPECIAL: f64 = 0.10;
/// Size of the working set: the fills of this many seconds at the peak.
const WORKING_SET_S: f64 = 4.0 * 3600.0;
/// A fill is given up after this many times its planned length ...
const FILL_FACTOR_MAX: f64 = 4.0;
/// ... plus this time for the first answers to arrive.
const FILL_SLACK_S: f64 = 10.0;

/// What ends a phase.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Ends {
    /// After this many seconds.
    After(f64),
    /// When all servers have been requested from, or after this many seconds.
    ServersSeen(f64),
    /// When enough bytes are filled and the working set is frozen; or after `at_most_s`, if the proxy does not answer.
    Filled {
        /// Bytes of cachable misses, since the test began.
        bytes: u64,
        /// Planned length, seconds.
        planned_s: f64,
        /// Length after which the fill is given up, seconds.
        at_most_s: f64,
    },
}

/// A value that changes linearly during a phase.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Line {
    /// At the begin.
    pub from: f64,
    /// At the end, and afterwards.
    pub to: f64,
}

impl Line {
    /// A constant.
    #[must_use]
    pub const fn flat(value: f64) -> Self {
        Self {
            from: value,
            to: value,
        }
    }

    const fn new(from: f64, to: f64) -> Self {
        Self { from, to }
    }

    /// The value when the share `done` of the phase, 0 to 1, is over.
    #[must_use]
    pub fn at(&self, done: f64) -> f64 {
        self.from + (self.to - self.from) * done.clamp(0.0, 1.0)
    }
}

/// One phase.
#[derive(Debug, Clone, PartialEq)]
pub struct Phase {
    /// Name, as in the papers.
    pub name: &'static str,
    /// What ends it.
    pub ends: Ends,
    /// Share of the peak.
    pub load: Line,
    /// Factor on the recurrence.
    pub recurrence: Line,
    /// Factor on the shares of special requests.
    pub special: Line,
}

impl Phase {
    /// How long the lines last: the longest that the phase can take.
    #[must_use]
    pub fn length_s(&self) -> f64 {
        match self.ends {
            Ends::After(s) | Ends::ServersSeen(s) => s,
            Ends::Filled { at_most_s, .. } => at_most_s,
        }
    }
}

/// What the tester sets.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sizing {
    /// Which workload.
    pub mix: Mix,
    /// Peak, requests a second.
    pub rate: f64,
    /// While the cache is filled, requests a second; 10 to 100 % of the peak.
    pub fill_rate: f64,
    /// Bytes of the proxy's cache.
    pub cache_bytes: u64,
    /// 1 is the workload as specified; 1/240 makes 4 hours a minute.
    pub time_scale: f64,
}

impl Sizing {
    /// Number of fills after which the working set is frozen.
    #[must_use]
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // objects
    pub fn working_set_fills(&self) -> u64 {
        //= spec section 5   WSC
        let share = match self.mix {
            Mix::Three => 0.45 * 0.75,
            Mix::Four => 0.45 * 0.80,
        };
        (self.rate * share * WORKING_SET_S * self.time_scale).max(1.0) as u64
    }

    /// Planned length of the fill.
    #[allow(clippy::cast_precision_loss)]
    fn fill_planned_s(&self) -> f64 {
        let fills_s = self.fill_rate * 0.6;
        let bytes_s = fills_s * 10_000.0;
        (self.working_set_fills() as f64 / fills_s).max(2.0 * self.cache_bytes as f64 / bytes_s)
    }
}

/// All phases of a test.
#[must_use]
pub fn phases(sizing: &Sizing) -> Vec<Phase> {
    let fill = sizing.fill_rate / sizing.rate;
    assert!((0.0..=1.0).contains(&fill), "fill rate beyond the peak");
    // In PolyMix-4 the ramps are shorter, the fill begins and ends with one robot, and the test ends with none.
    //= spec section 6   begin: populus_factor of framp and fexit; end: of dec2
    let (ramp, begin, end) = match sizing.mix {
        Mix::Three => (30.0, LOW, LOW),
        Mix::Four => (20.0, (1.0 / (GAP_S_MEAN * sizing.rate)).min(1.0), 0.0),
    };
    let filling = (Line::flat(FILL_RECURRENCE), Line::flat(FILL_SPECIAL));
    let leaving = (
        Line::new(FILL_RECURRENCE, 1.0),
        Line::new(FILL_SPECIAL, 1.0),
    );
    let working = (Line::flat(1.0), Line::flat(1.0));
    let time = |minutes: f64| minutes * MINUTE * sizing.time_scale;
    let planned_s = sizing.fill_planned_s();
    let filled = Ends::Filled {
        bytes: 2 * sizing.cache_bytes,
        planned_s,
        at_most_s: planned_s * FILL_FACTOR_MAX + FILL_SLACK_S,
    };
    let after = |minutes| Ends::After(time(minutes));
    let row = |name, ends, load, (recurrence, special)| Phase {
        name,
        ends,
        load,
        recurrence,
        special,
    };
    let top = Line::flat(1.0);
    let mut all = Vec::new();
    if sizing.mix == Mix::Three {
        all.push(row(
            "warm",
            Ends::ServersSeen(time(3.0)),
            Line::flat(begin),
            filling,
        ));
    }
    all.push(row("framp", after(ramp), Line::new(begin, fill), filling));
    all.push(row("fill", filled, Line::flat(fill), filling));
    all.push(row("fexit", after(ramp), Line::new(fill, begin), leaving));
    all.push(row("inc1", after(ramp), Line::new(begin, 1.0), working));
    all.push(row("top1", after(240.0), top, working));
    all.push(row("dec1", after(ramp), Line::new(1.0, LOW), working));
    all.push(row("idle", after(ramp), Line::flat(LOW), working));
    all.push(row("inc2", after(ramp), Line::new(LOW, 1.0), working));
    all.push(row("top2", after(240.0), top, working));
    all.push(row("dec2", after(ramp), Line::new(1.0, end), working));
    if sizing.mix == Mix::Three {
        all.push(row("cool", after(1.0), Line::new(end, 0.0), working));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizing(mix: Mix) -> Sizing {
        Sizing {
            mix,
            rate: 1000.0,
            fill_rate: 500.0,
            cache_bytes: 1 << 30,
            time_scale: 1.0,
        }
    }

    #[test]
    fn the_working_set_is_that_of_the_specification() {
        assert_eq!(sizing(Mix::Three).working_set_fills(), 4_860_000);
        assert_eq!(sizing(Mix::Four).working_set_fills(), 5_184_000);
    }

    /// A line for each phase: name, minutes (`-` for the fill), load at the begin and at the end in percent of the peak.
    #[track_caller]
    fn loads(mix: Mix, expected: &str) {
        let minutes = |ends: &Ends| match ends {
            Ends::After(s) | Ends::ServersSeen(s) => format!("{}", s / MINUTE),
            Ends::Filled { .. } => "-".to_owned(),
        };
        let row = |phase: Phase| {
            let Line { from, to } = phase.load;
            let (from, to) = (format!("{:.2}", 100.0 * from), format!("{:.2}", 100.0 * to));
            format!("{} {} {from} {to}", phase.name, minutes(&phase.ends))
        };
        let found: Vec<_> = phases(&sizing(mix)).into_iter().map(row).collect();
        let expected: Vec<_> = expected.lines().map(str::trim).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn loads_of_polymix_3_are_those_of_the_specification() {
        loads(
            Mix::Three,
            "warm 3 10.00 10.00
             framp 30 10.00 50.00
             fill - 50.00 50.00
             fexit 30 50.00 10.00
             inc1 30 10.00 100.00
             top1 240 100.00 100.00
             dec1 30 100.00 10.00
             idle 30 10.00 10.00
             inc2 30 10.00 100.00
             top2 240 100.00 100.00
             dec2 30 100.00 10.00
             cool 1 10.00 0.00",
        );
    }

    #[test]
    fn loads_of_polymix_4_begin_with_a_robot_and_idle_with_a_tenth() {
        // One robot of the 2,500 is 0.04 %.
        loads(
            Mix::Four,
            "framp 20 0.04 50.00
             fill - 50.00 50.00
             fexit 20 50.00 0.04
             inc1 20 0.04 100.00
             top1 240 100.00 100.00
             dec1 20 100.00 10.00
             idle 20 10.00 10.00
             inc2 20 10.00 100.00
             top2 240 100.00 100.00
             dec2 20 100.00 0.00",
        );
    }

    #[test]
    fn time_scale_shortens_all_but_keeps_the_shape() {
        let short = Sizing {
            time_scale: 1.0 / 240.0,
            ..sizing(Mix::Three)
        };
        assert_eq!(short.working_set_fills(), 20_250);
        let top = &phases(&short)[5];
        assert_eq!((top.name, top.ends), ("top1", Ends::After(60.0)));
    }
}
