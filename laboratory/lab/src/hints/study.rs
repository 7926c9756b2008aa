//! Runs over streams, each made once, even if several figures use it.
//!
//! Not known here: which figures there are.   Limits: as many runs at a time as there are processors; 150 MB a run of the paper's size.

use std::sync::atomic::{AtomicBool, Ordering};

use super::hinting::{Family, Names};
use super::setup::{Represented, Setup};
use super::site::{Counts, run};
use super::stream::Stream;
use crate::paper::experiment::each;

/// Runs and their counts.
#[derive(Debug, Default)]
pub(super) struct Runs {
    done: Vec<(Setup, Counts)>,
}

/// The setups without duplicates.
pub(super) fn once(setups: impl IntoIterator<Item = Setup>) -> Vec<Setup> {
    let mut different: Vec<Setup> = Vec::new();
    for setup in setups {
        if !different.contains(&setup) {
            different.push(setup);
        }
    }
    different
}

impl Runs {
    /// Runs a stream with each setup. Several threads call `step` with the number of further requests done; if it returns `false`,
    /// all runs end, and the result is `None`.
    pub(super) fn make(
        stream: &Stream,
        setups: &[Setup],
        step: impl Fn(u64) -> bool + Sync,
    ) -> Option<Runs> {
        let is_stopped = AtomicBool::new(false);
        let step = |requests| {
            let goes_on = step(requests);
            is_stopped.fetch_or(!goes_on, Ordering::Relaxed);
            goes_on && !is_stopped.load(Ordering::Relaxed)
        };
        let names = Names::of(stream, &families(setups));
        let counts = each(setups, |setup| {
            let settings = setup.settings(&stream.measure);
            run(&settings, stream, &names, step)
        });
        let done = setups.iter().copied().zip(counts).collect();
        (!is_stopped.into_inner()).then_some(Runs { done })
    }

    /// The counts of a run.
    ///
    /// # Panics
    /// If the run was not made: a figure has to list all its runs.
    pub(super) fn of(&self, setup: &Setup) -> &Counts {
        let found = self.done.iter().find(|(done, _)| done == setup);
        let (_, counts) = found.unwrap_or_else(|| panic!("a run that was not made: {setup:?}"));
        counts
    }
}

/// The families of functions that the setups use.
fn families(setups: &[Setup]) -> Vec<Family> {
    let of = |setup: &Setup| match setup.represented {
        Represented::Directory => Family::Ours,
        Represented::Bloom { family, .. } => family,
    };
    let mut families: Vec<Family> = Vec::new();
    for family in setups.iter().map(of) {
        if !families.contains(&family) {
            families.push(family);
        }
    }
    families
}
