//! How a run stands while it lasts, and what robots bring home from it.
//!
//! Not known here: what is made of it (`report`).   Limits: those of `stats` and `series`.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::cores::Cores;
use crate::phases::{Ends, Phase};
use crate::report::percent;
use crate::series::Series;
use crate::server::Seen;
use crate::stats::{Counted, Volume};

/// How the run stands, once a second.
#[derive(Debug, Clone, Copy)]
pub struct Progress {
    /// Phase under way.
    pub phase: &'static str,
    /// Since it began.
    pub phase_time: Duration,
    /// Since the run began.
    pub time: Duration,
    /// Right answers so far.
    pub replies: u64,
    /// Wrong ones so far.
    pub errors: u64,
    /// Requests on their way.
    pub in_flight: u64,
    /// Fills so far.
    pub fills: Volume,
    /// The working set grows no more.
    pub frozen: bool,
}

/// What is told while a run lasts.
#[derive(Debug, Clone, Copy)]
pub enum News<'a> {
    /// How it stands, once a second.
    Standing(&'a Progress),
    /// A phase is over, and this is what there is so far. Answers to come will still be counted in it.
    PhaseOver(&'a Outcome),
}

/// A fill that took too long and was ended.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct GivenUp {
    /// Seconds that it should have taken.
    pub planned_s: f64,
    /// What was filled of what was to be, percent: of the bytes or of the working set's objects, whichever is less.
    pub filled_percent: f64,
}

impl GivenUp {
    /// Of a phase that was to fill a cache, and a working set of so many objects.
    pub(super) fn of(phase: &Phase, fills: &Volume, objects: u64) -> Option<Self> {
        let Ends::Filled {
            bytes, planned_s, ..
        } = phase.ends
        else {
            return None;
        };
        // Of nothing, all is there.
        let share = |done: u64, of: u64| {
            let done = done.min(of);
            if of == 0 { 100.0 } else { percent(done, of) }
        };
        Some(Self {
            planned_s,
            filled_percent: share(fills.bytes, bytes).min(share(fills.count, objects)),
        })
    }
}

/// What a phase was.
#[derive(Debug, Clone)]
pub struct PhaseRun {
    /// As in the papers.
    pub name: &'static str,
    /// When it began and ended, from the begin of the run.
    pub from: Duration,
    /// See `from`.
    pub to: Duration,
    /// Requests a second that the plan asks for, on average.
    pub intended_rate: f64,
    /// A fill that was given up.
    pub given_up: Option<GivenUp>,
    /// What the robots' thread had of the cores.
    pub cores: Cores,
    /// What was counted.
    pub counted: Counted,
    /// What the servers did meanwhile, if they are ours.
    pub origin: Option<Seen>,
}

/// What robots bring home.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// Phase by phase.
    pub phases: Vec<PhaseRun>,
    /// Moment by moment.
    pub series: Series,
    /// The first faults, in full.
    pub faults: Vec<String>,
    /// Requests unanswered when the run was over.
    pub unfinished: u64,
    /// Direct objects of the working set at the end.
    pub working_set: u64,
    /// Whether it was frozen.
    pub frozen: bool,
    /// Requests that were to repeat an old object.
    pub repeats_wanted: u64,
    /// Repeats that became new objects, for want of old ones.
    pub nothing_to_repeat: u64,
    /// Most connections at once.
    pub connections_max: u64,
}
