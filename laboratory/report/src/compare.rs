//! Two reports, measure by measure.

use std::collections::HashMap;

use serde::Serialize;

use crate::model::{Measured, SourceReport};

/// One measure of two reports.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Compared {
    /// As in [`Measured`].
    pub id: String,
    /// In words.
    pub name: String,
    /// Of the values.
    pub unit: String,
    /// Of the first report.
    pub a: Option<f64>,
    /// Of the second.
    pub b: Option<f64>,
    /// How much larger the second is, in hundreds of the first; `None` if one is missing, or the first is 0 and the second is not.
    pub difference_percent: Option<f64>,
    /// Quartiles over the slots of the first.
    pub quartiles_a: Option<[f64; 3]>,
    /// And of the second. A difference that lies within the quartiles of both says little.
    pub quartiles_b: Option<[f64; 3]>,
}

/// Every measure that one of the two has, in the order of the first; those of the second alone follow.
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
