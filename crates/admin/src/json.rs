//! Types that the JSON documents share. A value without data is `null`.

use serde::{Deserialize, Serialize, Serializer};

use crate::{histogram::Histogram, snapshot::Snapshot};
use base::phase::Phase;

/// A JSON object with its members in this order.
#[derive(Clone, Debug)]
pub struct InOrder<T>(pub Vec<(&'static str, T)>);

impl<T: Serialize> Serialize for InOrder<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

/// Rounds to three decimal places.
pub fn rounded(x: f64) -> f64 {
    (x * 1000.0).round() / 1000.0
}

/// The name of a phase in documents.
pub fn word_of(phase: Phase) -> &'static str {
    match phase {
        Phase::Running => "running",
        Phase::Draining => "draining",
        Phase::Stopping => "stopping",
    }
}

/// Hits among requests, 0 to 1, without tunnels and errors.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct HitRatio {
    /// Ratio of requests.
    pub documents: Option<f64>,
    /// Ratio of bytes.
    pub bytes: Option<f64>,
}

impl HitRatio {
    /// The ratios of a snapshot.
    pub fn of(counted: &Snapshot) -> HitRatio {
        HitRatio {
            documents: counted.hit_ratio_documents().map(rounded),
            bytes: counted.hit_ratio_bytes().map(rounded),
        }
    }
}

/// Statistics of a distribution of times, microseconds.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Latency {
    /// The arithmetic mean.
    pub mean: f64,
    /// The median.
    pub p50: f64,
    /// The 90th percentile.
    pub p90: f64,
    /// The 99th percentile.
    pub p99: f64,
}

impl Latency {
    /// `None` if the distribution is empty.
    pub fn of(latency: &Histogram) -> Option<Latency> {
        let quantile = |q| latency.quantile_us(q).map(rounded);
        Some(Latency {
            mean: rounded(latency.mean_us()?),
            p50: quantile(0.5)?,
            p90: quantile(0.9)?,
            p99: quantile(0.99)?,
        })
    }
}
