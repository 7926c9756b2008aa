//! Compares two reports, measure by measure.

use std::collections::HashMap;

use serde::Serialize;

use crate::model::{Measured, SourceReport};

/// One measure in two reports.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Compared {
    /// The id, as in [`Measured`].
    pub id: String,
    /// Its name in words.
    pub name: String,
    /// Unit of the values.
    pub unit: String,
    /// Value in the first report.
    pub a: Option<f64>,
    /// Value in the second report.
    pub b: Option<f64>,
    /// Difference of the second in percent of the first; `None` if one is missing, or if only the first is 0.
    pub difference_percent: Option<f64>,
    /// Quartiles over the slots of the first report.
    pub quartiles_a: Option<[f64; 3]>,
    /// Quartiles over the slots of the second. A difference within the quartiles of both says little.
    pub quartiles_b: Option<[f64; 3]>,
}

/// All measures of both reports, in the order of the first; then those that only the second has.
pub fn compare(a: &SourceReport, b: &SourceReport) -> Vec<Compared> {
    let theirs: HashMap<&str, &Measured> = b.measures.iter().map(|m| (m.id.as_str(), m)).collect();
    let ours: HashMap<&str, &Measured> = a.measures.iter().map(|m| (m.id.as_str(), m)).collect();
    let only_theirs = b
        .measures
        .iter()
        .filter(|m| !ours.contains_key(m.id.as_str()));
    let both = a
        .measures
        .iter()
        .map(|m| pair(Some(m), theirs.get(m.id.as_str()).copied()));
    both.chain(only_theirs.map(|m| pair(None, Some(m))))
        .collect()
}

fn pair(a: Option<&Measured>, b: Option<&Measured>) -> Compared {
    let named = a.or(b).expect("one of the two has it");
    let values = (a.and_then(|m| m.value), b.and_then(|m| m.value));
    let difference_percent = match values {
        (Some(a), Some(b)) if a == b => Some(0.0),
        (Some(a), Some(b)) if a != 0.0 => Some((b / a - 1.0) * 100.0),
        _ => None,
    };
    Compared {
        id: named.id.clone(),
        name: named.name.clone(),
        unit: named.unit.clone(),
        a: values.0,
        b: values.1,
        difference_percent,
        quartiles_a: a.and_then(|m| m.quartiles),
        quartiles_b: b.and_then(|m| m.quartiles),
    }
}
