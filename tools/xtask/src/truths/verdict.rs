//! A verdict: the known value, the measured one, and whether they agree.

use std::fmt;

use serde::{Deserialize, Serialize};

/// One comparison.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// The values compared.
    pub what: String,
    /// The numbers and their allowed difference, or the first error.
    pub how: String,
    pub is_met: bool,
}

impl Verdict {
    /// Met if `found` is within `share` of `known`.
    pub fn near(what: impl Into<String>, known: f64, found: f64, share: f64) -> Self {
        let off = found / known - 1.0;
        Self {
            what: what.into(),
            how: format!(
                "known {known:.2}, found {found:.2}: {:+.1} %, allowed {:.0} %",
                100.0 * off,
                100.0 * share
            ),
            // False for NaN and infinity.
            is_met: off.abs() <= share,
        }
    }

    /// Met if `count` is 0.
    pub fn none(what: impl Into<String>, count: u64, first: &str) -> Self {
        Self {
            what: what.into(),
            how: match count {
                0 => "none".to_owned(),
                _ => format!("{count}, first: {first}"),
            },
            is_met: count == 0,
        }
    }

    /// Met if the two are equal.
    pub fn same(what: impl Into<String>, known: u64, found: u64) -> Self {
        Self {
            what: what.into(),
            how: format!("known {known}, found {found}"),
            is_met: known == found,
        }
    }

    /// Not met: the test could not be made.
    pub fn broken(what: &str, why: &str) -> Self {
        Self {
            what: what.to_owned(),
            how: why.to_owned(),
            is_met: false,
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = if self.is_met { "met   " } else { "MISSED" };
        write!(f, "{word}  {}: {}", self.what, self.how)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_is_within_the_share_on_both_sides() {
        let near = |found| Verdict::near("", 100.0, found, 0.05).is_met;
        assert!(near(100.0) && near(95.1) && near(104.9));
        assert!(!near(94.0) && !near(106.0) && !near(f64::NAN));
        assert!(!Verdict::near("", 0.0, 1.0, 0.05).is_met);
    }

    #[test]
    fn a_verdict_is_a_line() {
        let verdict = Verdict::near("Figure 11", 200.0, 203.0, 0.03);
        assert_eq!(
            verdict.to_string(),
            "met     Figure 11: known 200.00, found 203.00: +1.5 %, allowed 3 %"
        );
        assert_eq!(
            Verdict::none("torn", 2, "at 7").to_string(),
            "MISSED  torn: 2, first: at 7"
        );
        assert!(!Verdict::same("", 1, 2).is_met);
    }
}
