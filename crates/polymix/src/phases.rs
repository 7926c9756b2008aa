//! The phases of a test: how long, at what load, with how many old objects and special requests.
//!
//! A phase ends by time, or when its goal is reached. Load, recurrence and special requests are lines from a begin to an
//! end. A time scale below 1 shortens all phases and the working set together, so that the hit ratio stays; what people do
//! (gaps of 2.5 s, think times) is not shortened.
//!
//! Not known here: what time it is, who asks.
//! Limits: `FILL_FACTOR_MAX` ends a fill that gets nowhere.   Source: spec sections 5 and 6.

use crate::Mix;

/// Seconds of a minute.
const MINUTE: f64 = 60.0;
/// Load that a test begins and idles with, as a share of the peak.
const LOW: f64 = 0.10;
/// Recurrence and special requests while the cache is filled.
const FILL_RECURRENCE: f64 = 5.0 / 55.0;
const FILL_SPECIAL: f64 = 0.10;
/// Working set: fills of so many seconds at the peak.
const WORKING_SET_S: f64 = 4.0 * 3600.0;
/// A fill ends when it has taken so many times as long as it should have.
const FILL_FACTOR_MAX: f64 = 4.0;
/// And for the first answers to come.
const FILL_SLACK_S: f64 = 10.0;

/// What ends a phase.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Ends {
    /// Time.
    After(f64),
    /// All servers seen, or time.
    ServersSeen(f64),
    /// Fill bytes, and a frozen working set; or time, if the proxy does not answer.
    Filled {
        /// Bytes of cachable misses, since the test began.
        bytes: u64,
        /// Seconds.
        at_most_s: f64,
    },
}

/// From the begin of a phase to its end.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Line {
    /// At the begin.
    pub from: f64,
    /// At the end, and after.
    pub to: f64,
}

impl Line {
    /// The same all the time.
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

    /// When `done` of the phase is over, 0 to 1.
    #[must_use]
    pub fn at(&self, done: f64) -> f64 {
        self.from + (self.to - self.from) * done.clamp(0.0, 1.0)
    }
}

/// One phase.
#[derive(Debug, Clone, PartialEq)]
pub struct Phase {
    /// As in the papers.
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
    /// How long the lines take.
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
    /// 1 is the workload as it was; 1/240 makes 4 hours a minute.
    pub time_scale: f64,
}

impl Sizing {
    /// Fills until the working set is frozen.
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

    /// How long the fill may take.
    #[allow(clippy::cast_precision_loss)]
    fn fill_at_most_s(&self) -> f64 {
        let fills_s = self.fill_rate * 0.6;
        let bytes_s = fills_s * 10_000.0;
        let expected = (self.working_set_fills() as f64 / fills_s)
            .max(2.0 * self.cache_bytes as f64 / bytes_s);
        expected * FILL_FACTOR_MAX + FILL_SLACK_S
    }
}

/// All phases of a test.
#[must_use]
pub fn phases(sizing: &Sizing) -> Vec<Phase> {
    let fill = sizing.fill_rate / sizing.rate;
    assert!((0.0..=1.0).contains(&fill), "fill rate beyond the peak");
    // In PolyMix-4 the ramps are shorter and begin with one robot.
    let (ramp, low) = match sizing.mix {
        Mix::Three => (30.0, LOW),
        Mix::Four => (20.0, LOW.min(0.4 / sizing.rate)),
    };
    let filling = (Line::flat(FILL_RECURRENCE), Line::flat(FILL_SPECIAL));
    let leaving = (
        Line::new(FILL_RECURRENCE, 1.0),
        Line::new(FILL_SPECIAL, 1.0),
    );
    let working = (Line::flat(1.0), Line::flat(1.0));
    let time = |minutes: f64| minutes * MINUTE * sizing.time_scale;
    let filled = Ends::Filled {
        bytes: 2 * sizing.cache_bytes,
        at_most_s: sizing.fill_at_most_s(),
    };
    let after = |minutes| Ends::After(time(minutes));
    let row = |name, ends, load, (recurrence, special)| Phase {
        name,
        ends,
        load,
        recurrence,
        special,
    };
    let (up, down) = (Line::new(low, 1.0), Line::new(1.0, low));
    let top = Line::flat(1.0);
    let mut all = Vec::new();
    if sizing.mix == Mix::Three {
        all.push(row(
            "warm",
            Ends::ServersSeen(time(3.0)),
            Line::flat(low),
            filling,
        ));
    }
    all.push(row("framp", after(ramp), Line::new(low, fill), filling));
    all.push(row("fill", filled, Line::flat(fill), filling));
    all.push(row("fexit", after(ramp), Line::new(fill, low), leaving));
    all.push(row("inc1", after(ramp), up, working));
    all.push(row("top1", after(240.0), top, working));
    all.push(row("dec1", after(ramp), down, working));
    all.push(row("idle", after(ramp), Line::flat(low), working));
    all.push(row("inc2", after(ramp), up, working));
    all.push(row("top2", after(240.0), top, working));
    all.push(row("dec2", after(ramp), down, working));
    if sizing.mix == Mix::Three {
        all.push(row("cool", after(1.0), Line::new(low, 0.0), working));
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

    #[test]
    fn phases_come_in_order_and_loads_join() {
        let all = phases(&sizing(Mix::Three));
        let names: Vec<_> = all.iter().map(|p| p.name).collect();
        assert_eq!(
            names.join(" "),
            "warm framp fill fexit inc1 top1 dec1 idle inc2 top2 dec2 cool"
        );
        for pair in all.windows(2) {
            assert!(
                (pair[0].load.to - pair[1].load.from).abs() < 1e-9,
                "{}",
                pair[1].name
            );
        }
        let four = phases(&sizing(Mix::Four));
        assert_eq!(four.first().unwrap().name, "framp");
        assert_eq!(four.last().unwrap().name, "dec2");
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
