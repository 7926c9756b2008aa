//! The state of a run under way, and the results that robots return.
//!
//! Not known here: what is computed from the results (`report`).   Limits: those of `stats` and `series`.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::cores::Cores;
use crate::phases::{Ends, Phase};
use crate::report::percent;
use crate::series::Series;
use crate::server::Seen;
use crate::stats::{Counted, Volume};

/// State of the run, once a second.
#[derive(Debug, Clone, Copy)]
pub struct Progress {
    /// Phase under way.
    pub phase: &'static str,
    /// Time since the phase began.
    pub phase_time: Duration,
    /// Time since the run began.
    pub time: Duration,
    /// Correct answers so far.
    pub replies: u64,
    /// Wrong answers so far.
    pub errors: u64,
    /// Requests in flight.
    pub in_flight: u64,
    /// Fills so far.
    pub fills: Volume,
    /// The size of the working set is fixed.
    pub frozen: bool,
}

/// What the caller is told during a run.
#[derive(Debug, Clone, Copy)]
pub enum News<'a> {
    /// The state, once a second.
    Standing(&'a Progress),
    /// A phase is over; the outcome so far. Later answers will still be counted in their phase.
    PhaseOver(&'a Outcome),
}

/// A fill that took too long and was ended.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct GivenUp {
    /// Planned length, seconds.
    pub planned_s: f64,
    /// How much was filled, percent: of the bytes or of the working set's objects, whichever is less.
    pub filled_percent: f64,
}

impl GivenUp {
    /// For a phase that was to fill a cache, and a working set of `objects` fills.
    pub(super) fn of(phase: &Phase, fills: &Volume, objects: u64) -> Option<Self> {
        let Ends::Filled {
            bytes, planned_s, ..
        } = phase.ends
        else {
            return None;
        };
        // A goal of nothing is always reached.
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

/// The results of a phase.
#[derive(Debug, Clone)]
pub struct PhaseRun {
    /// Name, as in the papers.
    pub name: &'static str,
    /// Begin, since the begin of the run.
    pub from: Duration,
    /// End, since the begin of the run.
    pub to: Duration,
    /// Planned requests a second, on average.
    pub intended_rate: f64,
    /// Set if the fill was given up.
    pub given_up: Option<GivenUp>,
    /// CPU time of the robots' thread.
    pub cores: Cores,
    /// Counts of the robots.
    pub counted: Counted,
    /// Counts of the servers in that time, if they are in this process.
    pub origin: Option<Seen>,
}

/// The results that robots return.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// Phase by phase.
    pub phases: Vec<PhaseRun>,
    /// Moment by moment.
    pub series: Series,
    /// The first faults, in full.
    pub faults: Vec<String>,
    /// Requests unanswered at the end of the run.
    pub unfinished: u64,
    /// Directly requested objects in the working set at the end.
    pub working_set: u64,
    /// Whether the working set was frozen.
    pub frozen: bool,
    /// Requests that were to repeat an old object.
    pub repeats_wanted: u64,
    /// Repeats that became new objects, because there was no old one.
    pub nothing_to_repeat: u64,
    /// Most open connections at one time.
    pub connections_max: u64,
}
