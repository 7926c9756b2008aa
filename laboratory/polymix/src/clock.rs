//! When a robot intends to send its next request, under a load that changes.
//!
//! A robot's gaps are drawn in *work*: seconds at full load. Work passes in proportion to the load (at a tenth of the load, ten
//! seconds bring one second of work). A ramp therefore bends the gaps of all robots, and a gap drawn at low load does not last
//! through the ramp. The intended time of a request comes from the plan alone, however long answers take. Latency counted from
//! it includes the queue of the load generator (no coordinated omission).
//!
//! Not known here: robots, sockets, real clocks; times are seconds since a phase began.
//! Source: spec section 2 (gaps), section 6 (ramps).

use crate::phases::{Line, Phase};
use crate::random::{exponential, uniform};

/// Seconds between two requests of a robot at full load.
pub const GAP_S_MEAN: f64 = 2.5;

/// How work passes in a phase.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    load: Line,
    length_s: f64,
}

impl Pace {
    /// The pace of a phase, for robots that are `speed` times as fast as specified.
    #[must_use]
    pub fn of(phase: &Phase, speed: f64) -> Self {
        let load = Line {
            from: phase.load.from * speed,
            to: phase.load.to * speed,
        };
        Self::new(load, phase.length_s())
    }

    /// A line over `length_s` seconds; afterwards the load stays at the line's end.
    #[must_use]
    pub fn new(load: Line, length_s: f64) -> Self {
        assert!(length_s > 0.0, "a phase of {length_s} s");
        assert!(load.from >= 0.0 && load.to >= 0.0, "load below 0");
        Self { load, length_s }
    }

    /// Work done in the first `at_s` seconds.
    #[must_use]
    pub fn done(&self, at_s: f64) -> f64 {
        let ramp = at_s.clamp(0.0, self.length_s);
        let slope = (self.load.to - self.load.from) / self.length_s;
        let beyond = (at_s - self.length_s).max(0.0);
        self.load.from * ramp + slope * ramp * ramp / 2.0 + self.load.to * beyond
    }

    /// The time at which this much work is done; infinite if it never is.
    #[must_use]
    pub fn when(&self, work: f64) -> f64 {
        if work <= 0.0 {
            return 0.0;
        }
        let ramp = self.done(self.length_s);
        if work >= ramp {
            return self.length_s + (work - ramp) / self.load.to;
        }
        let slope = (self.load.to - self.load.from) / self.length_s;
        // The root of from * t + slope / 2 * t^2 = work, in the form without cancellation.
        let root = (self.load.from * self.load.from + 2.0 * slope * work)
            .max(0.0)
            .sqrt();
        2.0 * work / (self.load.from + root)
    }
}

/// Work until a robot's next request. In ramps the gaps are uniform.
#[must_use]
pub fn gap(in_ramp: bool, u: f64) -> f64 {
    //= spec section 2   exponential gaps, mean 2.5 s; in ramps uniform in [0, 2/rate]
    if in_ramp {
        uniform(0.0, 2.0 * GAP_S_MEAN, u)
    } else {
        exponential(GAP_S_MEAN, u)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Chance;

    fn pace(from: f64, to: f64) -> Pace {
        Pace::new(Line { from, to }, 100.0)
    }

    #[test]
    fn work_and_time_are_inverse() {
        for pace in [
            pace(1.0, 1.0),
            pace(0.1, 1.0),
            pace(1.0, 0.1),
            pace(0.0, 1.0),
        ] {
            for at_s in [0.5, 30.0, 99.0, 101.0, 500.0] {
                let back = pace.when(pace.done(at_s));
                assert!((back - at_s).abs() < 1e-9 * at_s, "{back} {at_s}");
            }
        }
        assert!(pace(1.0, 0.0).when(50.1).is_infinite());
    }

    #[test]
    fn a_ramp_does_half_the_work() {
        assert!((pace(0.0, 1.0).done(100.0) - 50.0).abs() < 1e-9);
        assert!((pace(0.1, 1.0).done(200.0) - 155.0).abs() < 1e-9);
    }

    #[test]
    fn requests_of_a_ramp_arrive_as_its_load_says() {
        let pace = pace(0.1, 1.0);
        let mut chance = Chance::new(6);
        let (mut early, mut late) = (0, 0);
        for _ in 0..5_000 {
            // The rest of a uniform gap, seen at a random moment.
            let mut work = 2.0 * GAP_S_MEAN * (1.0 - (1.0 - chance.unit()).sqrt());
            loop {
                match pace.when(work) {
                    t if t < 50.0 => early += 1,
                    t if t < 100.0 => late += 1,
                    _ => break,
                }
                work += gap(true, chance.unit());
            }
        }
        // 16.25 and 38.75 seconds of work, 2.5 s a request, 5,000 robots.
        assert!((f64::from(early) / 32_500.0 - 1.0).abs() < 0.02, "{early}");
        assert!((f64::from(late) / 77_500.0 - 1.0).abs() < 0.02, "{late}");
    }
}
