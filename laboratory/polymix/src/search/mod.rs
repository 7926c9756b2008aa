//! Searches the peak: the highest rate that a proxy sustains.
//!
//! From a first rate upwards, the rate is doubled until a load is not sustained (or halved until one is). Then the gap between both is
//! halved on a logarithmic scale until it is narrow enough. Each step is a run with its own objects and a cache that is filled first.
//! If the load generator was at its limit at the upper end of the gap, the result is no peak, only a rate that was sustained.
//!
//! Not known here: how a run is made; the caller does that.   Limits: `STEPS_MAX` runs.   Source: issue 6.

mod verdict;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use self::verdict::{Conditions, Verdict};

use crate::report::{ReadError, Report, Stamp};

/// The format in the file's stamp.
pub const FORMAT: &str = "polymix search";
/// Version of the format, which contains reports; 1 had reports of version 2.
pub const VERSION: u32 = 2;
/// Runs of a search, at most.
pub const STEPS_MAX: usize = 40;

/// The range and precision of a search.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Bounds {
    /// The first rate, requests a second.
    pub first: f64,
    /// Lowest rate to try.
    pub least: f64,
    /// Highest rate to try.
    pub most: f64,
    /// The gap is narrow enough when its upper end is this share above the lower one, such as 0.05.
    pub tolerance: f64,
}

/// A run and its verdict.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// Requests a second.
    pub rate: f64,
    /// Whether the proxy sustained it.
    pub verdict: Verdict,
    /// The run.
    pub report: Report,
}

/// The result of a search.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "found")]
pub enum Found {
    /// The peak, and the rate above it that was not sustained.
    Peak {
        /// Requests a second.
        rate: f64,
        /// The lowest rate that was not sustained.
        beyond: f64,
        /// Why that rate was not sustained.
        why: Vec<String>,
    },
    /// The highest allowed rate is sustained.
    AtLeast {
        /// Requests a second.
        rate: f64,
    },
    /// The load generator reached its limit before the proxy did.
    Generator {
        /// The highest rate that was sustained, if any was.
        stood: Option<f64>,
        /// The lowest rate at which the load generator was at its limit.
        at: f64,
        /// Why the generator counts as at its limit.
        why: Vec<String>,
    },
    /// Not even the lowest allowed rate is sustained.
    Nothing {
        /// Requests a second.
        least: f64,
        /// Why not.
        why: Vec<String>,
    },
    /// `STEPS_MAX` runs were not enough.
    Unfinished {
        /// The highest rate that was sustained, if any was.
        stood: Option<f64>,
    },
}

impl Found {
    /// The highest rate that was sustained, if the proxy is what limits it (or the tester, with `--most`).
    #[must_use]
    pub fn peak(&self) -> Option<f64> {
        match self {
            Self::Peak { rate, .. } | Self::AtLeast { rate } => Some(*rate),
            Self::Generator { .. } | Self::Nothing { .. } | Self::Unfinished { .. } => None,
        }
    }
}

/// A search, with all its runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SearchReport {
    /// Format and version.
    pub stamp: Stamp,
    /// Name of this search beside others.
    pub label: String,
    /// Settings to show: names and values.
    pub setup: BTreeMap<String, String>,
    /// The range and precision of the search.
    pub bounds: Bounds,
    /// The conditions for a load that is sustained.
    pub conditions: Conditions,
    /// The runs, in the order in which they were made.
    pub steps: Vec<Step>,
    /// The result.
    pub found: Found,
}

impl SearchReport {
    /// The search as JSON.
    #[must_use]
    pub fn json(&self) -> String {
        serde_json::to_string(self).expect("plain data")
    }

    /// Reads a search that `json` wrote.
    ///
    /// # Errors
    /// If the text is something else, or of another version.
    pub fn from_json(text: &str) -> Result<Self, ReadError> {
        Stamp::new(FORMAT, VERSION).read(text)
    }

    /// The step with the highest rate that was sustained.
    #[must_use]
    pub fn highest_stood(&self) -> Option<&Step> {
        let stood = |step: &&Step| step.verdict == Verdict::Stood;
        self.by_rate().into_iter().rfind(stood)
    }

    /// The steps, lowest rate first.
    #[must_use]
    pub fn by_rate(&self) -> Vec<&Step> {
        let mut steps: Vec<_> = self.steps.iter().collect();
        steps.sort_by(|a, b| a.rate.total_cmp(&b.rate));
        steps
    }
}

/// What a search knows so far.
#[derive(Debug, Clone)]
pub struct Search {
    bounds: Bounds,
    stood: Option<f64>,
    /// The lowest rate that was not sustained.
    not_stood: Option<(f64, Verdict)>,
    steps: usize,
}

impl Search {
    /// A search that has tried nothing yet.
    #[must_use]
    pub fn new(bounds: Bounds) -> Self {
        assert!(
            0.0 < bounds.least && bounds.least <= bounds.first && bounds.first <= bounds.most,
            "{bounds:?}"
        );
        assert!(bounds.tolerance > 0.0, "{bounds:?}");
        Self {
            bounds,
            stood: None,
            not_stood: None,
            steps: 0,
        }
    }

    /// The rate to try next; none if the search is complete.
    #[must_use]
    pub fn next_rate(&self) -> Option<f64> {
        let Bounds {
            first, least, most, ..
        } = self.bounds;
        if self.steps >= STEPS_MAX {
            return None;
        }
        let rate = match (self.stood, &self.not_stood) {
            (None, None) => first,
            (Some(stood), None) if stood < most => (stood * 2.0).min(most),
            (Some(_), None) => return None,
            (None, Some((rate, _))) if *rate > least => (rate / 2.0).max(least),
            (None, Some(_)) => return None,
            (Some(stood), Some((beyond, _))) => {
                if beyond / stood <= 1.0 + self.bounds.tolerance {
                    return None;
                }
                (stood * beyond).sqrt()
            }
        };
        // Round to three digits, for readable rates.
        let unit = 10_f64.powf(rate.log10().floor() - 2.0);
        let round = (rate / unit).round() * unit;
        let inside = self.stood.is_none_or(|stood| round > stood)
            && self.not_stood.as_ref().is_none_or(|(r, _)| round < *r);
        Some(if inside { round } else { rate })
    }

    /// Records the verdict on a rate.
    pub fn tried(&mut self, rate: f64, verdict: &Verdict) {
        self.steps += 1;
        match verdict {
            Verdict::Stood => self.stood = Some(self.stood.map_or(rate, |r| r.max(rate))),
            other => self.not_stood = Some((rate, other.clone())),
        }
    }

    /// The result, once there is no rate to try next.
    #[must_use]
    pub fn found(&self) -> Found {
        let stood = self.stood;
        match (stood, &self.not_stood) {
            _ if self.steps >= STEPS_MAX => Found::Unfinished { stood },
            (stood, Some((at, Verdict::Unclear(why)))) => Found::Generator {
                stood,
                at: *at,
                why: why.clone(),
            },
            (Some(rate), Some((beyond, Verdict::Failed(why)))) => Found::Peak {
                rate,
                beyond: *beyond,
                why: why.clone(),
            },
            (None, Some((least, Verdict::Failed(why)))) => Found::Nothing {
                least: *least,
                why: why.clone(),
            },
            (Some(rate), _) => Found::AtLeast { rate },
            (None, _) => Found::Unfinished { stood },
        }
    }
}

/// Searches, with a run at each rate.
///
/// # Errors
/// The error of a run.
pub fn search<E>(
    bounds: Bounds,
    conditions: Conditions,
    mut run_at: impl FnMut(usize, f64) -> Result<Report, E>,
) -> Result<(Vec<Step>, Found), E> {
    let mut search = Search::new(bounds);
    let mut steps = Vec::new();
    while let Some(rate) = search.next_rate() {
        let report = run_at(steps.len(), rate)?;
        let verdict = conditions.judge(&report);
        search.tried(rate, &verdict);
        steps.push(Step {
            rate,
            verdict,
            report,
        });
    }
    Ok((steps, search.found()))
}

#[cfg(test)]
mod tests;
