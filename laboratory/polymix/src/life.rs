//! When an object changes.
//!
//! An object is modified once in each of its cycles: modification k happens at birth + k * cycle, plus or minus up to half of
//! variance * cycle. The version is the number of the latest modification, so any process can compute which version is right at any
//! time. Last-Modified is that modification, Expires the next one: nothing is fresh after its true change.
//!
//! Times are whole seconds, because HTTP dates are.
//! Limits: a cycle has at least `CYCLE_S_MIN`, however much the test is shortened.   Source: spec section 4, life cycle.

use crate::random::{mix, unit};

/// Keeps versions at least a second apart, whatever the variance (at most a half).
const CYCLE_S_MIN: f64 = 8.0;

/// The times of one object.
#[derive(Debug, Clone, Copy)]
pub struct Life {
    cycle_s: f64,
    /// Share of the cycle.
    variance: f64,
    birth_s: f64,
    seed: u64,
}

/// A version of an object: its state between two modifications.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Version {
    /// Number of the latest modification.
    pub number: u64,
    /// When the version begins: Unix seconds.
    pub since_s: u64,
    /// When the next version begins: Unix seconds.
    pub until_s: u64,
}

impl Life {
    /// `birth` is a share of the cycle.
    #[must_use]
    pub fn new(cycle_s: f64, variance: f64, birth: f64, seed: u64) -> Self {
        assert!((0.0..=0.5).contains(&variance), "variance {variance}");
        let cycle_s = cycle_s.max(CYCLE_S_MIN);
        Self {
            cycle_s,
            variance,
            birth_s: birth * cycle_s,
            seed,
        }
    }

    /// When modification `k` happens.
    #[allow(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss
    )] // seconds of this century; before 1970 is 1970
    fn modified_s(&self, k: u64) -> u64 {
        let stray = (unit(mix(self.seed ^ mix(k))) - 0.5) * self.variance * self.cycle_s;
        (self.birth_s + k as f64 * self.cycle_s + stray) as u64
    }

    /// The version that is right at `now_s`.
    #[must_use]
    #[allow(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss
    )]
    pub fn version_at(&self, now_s: u64) -> Version {
        // A modification is less than a cycle away from its regular time, so the right version is one of three neighbours.
        let regular = ((now_s as f64 - self.birth_s) / self.cycle_s).max(0.0) as u64;
        let mut number = regular + 1;
        while number > 0 && self.modified_s(number) > now_s {
            number -= 1;
        }
        self.version(number)
    }

    /// The times of a version.
    #[must_use]
    pub fn version(&self, number: u64) -> Version {
        Version {
            number,
            since_s: self.modified_s(number),
            until_s: self.modified_s(number + 1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::content::{Kind, ObjectId};

    const NOW_S: u64 = 1_700_000_000;
    const DAY_S: f64 = 86_400.0;

    fn lives(kind: Kind) -> impl Iterator<Item = Life> {
        (0..20_000).map(move |number| {
            let id = ObjectId {
                world: 1,
                server: 3,
                kind,
                number,
            };
            id.life(1.0)
        })
    }

    #[test]
    fn versions_follow_each_other_without_gap() {
        for life in lives(Kind::Other).take(2_000) {
            let version = life.version_at(NOW_S);
            assert!(version.since_s <= NOW_S && NOW_S < version.until_s);
            let next = life.version_at(version.until_s);
            assert_eq!(
                (next.number, next.since_s),
                (version.number + 1, version.until_s)
            );
            assert_eq!(life.version_at(version.until_s - 1), version);
        }
    }

    #[test]
    fn even_the_shortest_lives_have_distinct_seconds() {
        let life = Life::new(0.0, 0.5, 0.3, 9);
        for now_s in NOW_S..NOW_S + 1_000 {
            let version = life.version_at(now_s);
            assert!(version.since_s <= now_s && now_s < version.until_s);
        }
    }

    #[test]
    #[allow(clippy::cast_precision_loss)]
    fn cycles_are_those_of_the_table() {
        for (kind, mean_days) in [
            (Kind::Image, 30.0),
            (Kind::Html, 7.0),
            (Kind::Download, 182.5),
            (Kind::Other, 183.0),
        ] {
            let days: f64 = lives(kind)
                .map(|life| (life.version(1_001).since_s - life.version(1).since_s) as f64)
                .sum::<f64>()
                / 20_000.0
                / 1_000.0
                / DAY_S;
            assert!((days / mean_days - 1.0).abs() < 0.02, "{kind:?}: {days}");
        }
    }

    #[test]
    #[allow(clippy::cast_precision_loss)]
    fn modifications_stray_by_the_variance() {
        // The time between two modifications is the cycle plus the difference of two uniform deviations of half the variance each way:
        // standard deviation variance * sqrt(2/12).
        let life = Life::new(1e6, 0.5, 0.0, 4);
        let gaps: Vec<f64> = (1..20_000)
            .map(|k| (life.modified_s(k + 1) - life.modified_s(k)) as f64 / 1e6)
            .collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let sdev =
            (gaps.iter().map(|g| (g - mean).powi(2)).sum::<f64>() / gaps.len() as f64).sqrt();
        assert!((mean - 1.0).abs() < 0.001);
        assert!(
            (sdev - 0.5 * (2.0_f64 / 12.0).sqrt()).abs() < 0.01,
            "{sdev}"
        );
    }
}
