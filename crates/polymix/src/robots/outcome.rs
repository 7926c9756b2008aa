//! How a run stands while it lasts, and what robots bring home from it.
//!
//! Not known here: what is made of it (`report`).   Limits: those of `stats` and `series`.

use std::time::Duration;

use crate::cores::Cores;
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
    /// Repeats that became new objects, for want of old ones.
    pub nothing_to_repeat: u64,
    /// Most connections at once.
    pub connections_max: u64,
}
