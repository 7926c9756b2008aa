//! What the JSON documents share.

use serde::{Serialize, Serializer};

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
