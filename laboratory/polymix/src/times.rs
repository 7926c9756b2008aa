//! Times of one sort: their number, mean and distribution.
//!
//! A histogram with two digits of precision, and the exact sum, so that the mean is not rounded. A file has only the buckets that are
//! not empty. Two histograms read from files can be joined as if one process had counted all.
//!
//! Not known here: what the times are of.   Limits: `US_MAX`; longer times count as that.

use std::fmt;
use std::time::Duration;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

const US_MAX: u64 = 600_000_000;
const DIGITS: u8 = 2;

/// Times of one sort.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Kept", into = "Kept")]
pub struct Times {
    histogram: Histogram<u64>,
    sum_us: u64,
}

/// The form in a file.
#[derive(Debug, Serialize, Deserialize)]
struct Kept {
    sum_us: u64,
    /// Microseconds, and the number of times in this bucket.
    buckets: Vec<(u64, u64)>,
}

/// A bucket that we would not have written.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("a bucket of {0} us is beyond what is counted")]
pub struct BeyondBounds(u64);

impl fmt::Debug for Times {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} times, {:.3} ms", self.count(), self.mean_ms())
    }
}

impl Default for Times {
    fn default() -> Self {
        let histogram = Histogram::new_with_bounds(1, US_MAX, DIGITS);
        Self {
            histogram: histogram.expect("bounds and digits are legal"),
            sum_us: 0,
        }
    }
}

impl Times {
    /// Counts a time.
    pub fn add(&mut self, time: Duration) {
        let us = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        self.histogram.saturating_record(us.max(1));
        self.sum_us = self.sum_us.saturating_add(us);
    }

    /// Number of times.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// Mean in milliseconds; 0 if there are none.
    #[must_use]
    #[allow(clippy::cast_precision_loss)]
    pub fn mean_ms(&self) -> f64 {
        match self.count() {
            0 => 0.0,
            count => self.sum_us as f64 / 1e3 / count as f64,
        }
    }

    /// The percentile in milliseconds.
    #[must_use]
    #[allow(clippy::cast_precision_loss)]
    pub fn percentile_ms(&self, percent: f64) -> f64 {
        self.histogram.value_at_percentile(percent) as f64 / 1e3
    }

    /// For a curve: milliseconds, and the percentage of all that took no longer; one point for each time that occurred.
    #[must_use]
    #[allow(clippy::cast_precision_loss)]
    pub fn curve(&self) -> Vec<(f64, f64)> {
        let mut below = 0;
        let mut points = Vec::new();
        for bucket in self.histogram.iter_recorded() {
            below += bucket.count_at_value();
            let percent = below as f64 * 100.0 / self.count() as f64;
            points.push((bucket.value_iterated_to() as f64 / 1e3, percent));
        }
        points
    }

    /// Adds the times of another.
    pub fn join(&mut self, other: &Self) {
        self.histogram.add(&other.histogram).expect("same bounds");
        self.sum_us = self.sum_us.saturating_add(other.sum_us);
    }
}

impl From<Times> for Kept {
    fn from(times: Times) -> Self {
        let bucket = |step: hdrhistogram::iterators::IterationValue<u64>| {
            (step.value_iterated_to(), step.count_at_value())
        };
        Self {
            sum_us: times.sum_us,
            buckets: times.histogram.iter_recorded().map(bucket).collect(),
        }
    }
}

impl TryFrom<Kept> for Times {
    type Error = BeyondBounds;

    fn try_from(kept: Kept) -> Result<Self, BeyondBounds> {
        let mut times = Self::default();
        for (us, count) in kept.buckets {
            let recorded = times.histogram.record_n(us, count);
            recorded.map_err(|_| BeyondBounds(us))?;
        }
        times.sum_us = kept.sum_us;
        Ok(times)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(ms: impl IntoIterator<Item = u64>) -> Times {
        let mut times = Times::default();
        for ms in ms {
            times.add(Duration::from_millis(ms));
        }
        times
    }

    #[test]
    fn means_are_exact_and_percentiles_have_two_digits() {
        let times = times(1..=1000);
        assert_eq!(times.count(), 1000);
        assert!((times.mean_ms() - 500.5).abs() < 1e-9);
        assert!((times.percentile_ms(99.0) / 990.0 - 1.0).abs() < 0.01);
        assert!(Times::default().mean_ms().abs() < 1e-9);
    }

    #[test]
    fn what_is_written_is_read() {
        let before = times([0, 1, 1, 70, 70_000, 900_000]);
        let text = serde_json::to_string(&before).unwrap();
        assert!(text.len() < 200, "{text}");
        let after: Times = serde_json::from_str(&text).unwrap();
        assert_eq!(before, after);
        let huge = r#"{"sum_us":1,"buckets":[[99999999999,1]]}"#;
        assert!(serde_json::from_str::<Times>(huge).is_err());
    }

    #[test]
    fn two_halves_are_the_whole() {
        let mut joined = times(1..=500);
        joined.join(&times(501..=1000));
        assert_eq!(joined, times(1..=1000));
    }

    #[test]
    fn a_curve_ends_at_all_of_them() {
        let curve = times([10, 10, 20, 40]).curve();
        assert_eq!(curve.len(), 3);
        assert!((curve[0].1 - 50.0).abs() < 1e-9 && (curve[2].1 - 100.0).abs() < 1e-9);
    }
}
