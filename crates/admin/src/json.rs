//! What the JSON documents share. A value without data is `null`.

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

/// Rounds to three digits after the point.
pub fn rounded(x: f64) -> f64 {
    (x * 1000.0).round() / 1000.0
}

/// A phase as it is told.
pub fn word_of(phase: Phase) -> &'static str {
    match phase {
        Phase::Running => "running",
        Phase::Draining => "draining",
        Phase::Stopping => "stopping",
    }
}

/// Hits among requests, 0 to 1, tunnels and errors left out.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct HitRatio {
    /// Of the requests.
    pub documents: Option<f64>,
    /// Of the bytes.
    pub bytes: Option<f64>,
}

impl HitRatio {
    /// Of what was counted.
    pub fn of(counted: &Snapshot) -> HitRatio {
        HitRatio {
            documents: counted.hit_ratio_documents().map(rounded),
            bytes: counted.hit_ratio_bytes().map(rounded),
        }
    }
}

/// What is told of a distribution of times, microseconds.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Latency {
    /// The arithmetic mean.
    pub mean: f64,
    /// Half took less.
    pub p50: f64,
    /// All but a tenth took less.
    pub p90: f64,
    /// All but a hundredth took less.
    pub p99: f64,
}

impl Latency {
    /// `None` of nothing.
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
