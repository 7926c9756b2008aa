//! Joins the parts of one run, each made by its own process, into one report.
//!
//! Counts and histograms are added, and rates are those of all parts together. Phases are joined by name. A phase that ends when a
//! goal is reached (fill) may end at different times in different processes. The report says how far apart they were, because
//! joined rates mean little if that is long.
//!
//! Not known here: files.   Limits: each part once, all of one run.   Source: issue 6, "robots may run in several processes".

use super::{Parts, Report, Row, moments};
use crate::series::Series;
use crate::stats::FAULTS_KEPT;

/// Why these reports are not the parts of one run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JoinError {
    /// Nothing to join.
    #[error("there is no report")]
    None,
    /// Runs of different settings.
    #[error(
        "{0} and {1} are not parts of one run: their settings differ (see `loligo bench compare`)"
    )]
    Different(String, String),
    /// A part is there twice.
    #[error("part {0} is there twice")]
    Twice(u32),
    /// The phases differ.
    #[error("{0} and {1} have different phases")]
    Phases(String, String),
}

impl Report {
    /// Whether both reports are parts of the same run.
    #[must_use]
    pub fn is_part_of_same(&self, other: &Self) -> bool {
        self.parts.of > 1 && self.parts.of == other.parts.of && self.plan == other.plan
    }

    /// Numbers of the missing parts, from 1 on.
    #[must_use]
    pub fn missing_parts(&self) -> Vec<u32> {
        let here = &self.parts.here;
        (1..=self.parts.of).filter(|n| !here.contains(n)).collect()
    }

    /// Joins the parts of one run.
    ///
    /// # Errors
    /// If they are not parts of one run.
    pub fn joined(parts: &[Self]) -> Result<Self, JoinError> {
        let (first, others) = parts.split_first().ok_or(JoinError::None)?;
        if others.is_empty() {
            return Ok(first.clone());
        }
        let mut here = first.parts.here.clone();
        for other in others {
            if !first.is_part_of_same(other) {
                return Err(JoinError::Different(
                    first.label.clone(),
                    other.label.clone(),
                ));
            }
            let names = |report: &Self| -> Vec<String> {
                report.phases.iter().map(|row| row.name.clone()).collect()
            };
            if names(first) != names(other) {
                return Err(JoinError::Phases(first.label.clone(), other.label.clone()));
            }
            for part in &other.parts.here {
                if here.contains(part) {
                    return Err(JoinError::Twice(*part));
                }
                here.push(*part);
            }
        }
        here.sort_unstable();
        let phases: Vec<Row> = (0..first.phases.len())
            .map(|n| Row::beside(&parts.iter().map(|p| &p.phases[n]).collect::<Vec<_>>()))
            .collect();
        let series = together(parts);
        let sum = |of: fn(&Self) -> u64| parts.iter().map(of).sum();
        let faults = parts.iter().flat_map(|part| part.faults.iter().cloned());
        Ok(Self {
            setup: {
                let mut setup = first.setup.clone();
                let said = format!("{here:?} of {}", first.parts.of);
                setup.insert("parts".to_owned(), said);
                setup
            },
            parts: Parts {
                here,
                of: first.parts.of,
            },
            began_s: parts
                .iter()
                .map(|p| p.began_s)
                .fold(f64::INFINITY, f64::min),
            apart_s: apart_s(parts),
            total: Row::total(&phases),
            phases,
            interval_s: series.interval_s,
            series: moments(&series),
            faults: faults.take(FAULTS_KEPT).collect(),
            unfinished: sum(|p| p.unfinished),
            working_set: sum(|p| p.working_set),
            frozen: parts.iter().all(|p| p.frozen),
            repeats_wanted: sum(|p| p.repeats_wanted),
            nothing_to_repeat: sum(|p| p.nothing_to_repeat),
            connections_max: sum(|p| p.connections_max),
            ..first.clone()
        })
    }
}

/// The longest time between the begins of a phase in two parts.
fn apart_s(parts: &[Report]) -> f64 {
    let phases = parts.first().map_or(0, |part| part.phases.len());
    let begins = |n: usize| {
        let times = parts.iter().map(move |p| p.began_s + p.phases[n].from_s);
        let latest = times.clone().fold(f64::NEG_INFINITY, f64::max);
        latest - times.fold(f64::INFINITY, f64::min)
    };
    (0..phases).map(begins).fold(0.0, f64::max)
}

/// The sum of all series, each shifted to the begin of its process.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // a few moments
fn together(parts: &[Report]) -> Series {
    let began = parts
        .iter()
        .map(|p| p.began_s)
        .fold(f64::INFINITY, f64::min);
    let mut sum: Option<Series> = None;
    for part in parts {
        let late = ((part.began_s - began) / part.interval_s).round() as usize;
        let mut samples = vec![crate::series::Sample::default(); late];
        samples.extend(part.series.iter().map(|moment| moment.sample));
        let series = Series {
            interval_s: part.interval_s,
            samples,
        };
        match &mut sum {
            Some(sum) => sum.join(&series),
            None => sum = Some(series),
        }
    }
    sum.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    /// Part `n` of 2.
    fn part(n: u32) -> Report {
        let mut report = testing::report(&format!("part {n}"), 100.0);
        report.parts = Parts {
            here: vec![n],
            of: 2,
        };
        report.began_s += f64::from(n);
        report
    }

    #[test]
    fn two_parts_are_a_run_of_both() {
        let (one, two) = (part(1), part(2));
        let both = Report::joined(&[one.clone(), two]).unwrap();
        assert_eq!(both.total.replies, 2 * one.total.replies);
        let (top, half) = (both.top(), one.top());
        assert!((top.reply_rate / half.reply_rate - 2.0).abs() < 1e-9);
        assert!((top.intended_rate / half.intended_rate - 2.0).abs() < 1e-9);
        assert!((top.response.mean_ms - half.response.mean_ms).abs() < 1e-9);
        assert!((top.dhr_percent - half.dhr_percent).abs() < 1e-9);
        assert!((both.apart_s - 1.0).abs() < 1e-6);
        assert!(both.missing_parts().is_empty());
        assert_eq!(one.missing_parts(), [2]);
        // The second part began a second later.
        assert_eq!(both.series.len(), one.series.len() + 1);
    }

    #[test]
    fn what_does_not_belong_together_stays_apart() {
        assert_eq!(Report::joined(&[]), Err(JoinError::None));
        assert_eq!(
            Report::joined(&[part(1), part(1)]),
            Err(JoinError::Twice(1))
        );
        let mut other = part(2);
        other.plan.rate += 1.0;
        assert!(matches!(
            Report::joined(&[part(1), other]),
            Err(JoinError::Different(..))
        ));
        let whole = testing::report("a", 100.0);
        assert!(Report::joined(&[whole.clone(), whole]).is_err());
    }
}
