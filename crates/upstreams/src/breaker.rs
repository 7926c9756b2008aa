//! Whether a server is asked, as far as its answers tell.
//!
//! ```text
//!              unreachable, silent, or errors
//!   closed ──────────────────────────────────────> open, for a pause ──> due for a trial
//!     ^                                              ^                        │ one request
//!     └───── the trial is answered well ── trial <───┼────────────────────────┘
//!                                            └───────┘ it is not: a pause twice as long
//! ```
//!
//! *Unreachable*: [`FALL`] connections in a row could not be made. That is a fact, and nothing is gained by asking. *Silent*: so many
//! requests in a row got no answer on a connection that was made. *Errors*: of [`SAMPLE_MIN`] answers or more in ten seconds more than
//! half were 500, 502, 503, 504 or none, or that many in a row: a server that answered well until now does not fail for half of ten seconds first. The latter two are judgements, which may be wrong about all servers at once (a request that
//! no server can answer); so the caller says whether a server may be put out for one ([`Breaker::note`]: `may_eject`).
//!
//! A server that is closed again has a small share at first.
//!
//! Not known here: sockets, other servers. Time is a parameter.
//! Limits: a pause is [`PAUSE_MIN`] to [`PAUSE_MAX`]; one trial at a time.

use std::time::Duration;

use super::window::Window;
use base::{
    clock::Instant,
    mistakes::{Mistake, makes},
};

/// Failures of one kind in a row that open it.
pub const FALL: u32 = 3;
/// Answers in ten seconds of which the bad ones are judged.
pub const SAMPLE_MIN: u64 = 20;
/// The first pause,
pub const PAUSE_MIN: Duration = Duration::from_secs(1);
/// and the longest.
pub const PAUSE_MAX: Duration = Duration::from_secs(30);
/// The share that a server begins with when it is back, percent.
const SHARE_MIN: u32 = 10;

/// What came of asking.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// An answer.
    Well,
    /// An answer that says that the server has failed.
    Bad,
    /// No answer on a connection that was made.
    Silent,
    /// No connection.
    Unreachable,
}

/// Why it is not closed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Why {
    /// Connections cannot be made.
    Unreachable,
    /// Requests are not answered.
    Silent,
    /// More than half of the answers were bad, or many in a row.
    Errors,
}

impl Why {
    /// As it is told.
    pub fn words(self) -> &'static str {
        match self {
            Why::Unreachable => "connections could not be made",
            Why::Silent => "requests were not answered",
            Why::Errors => "more than half of the answers were 5xx, or none",
        }
    }

    /// Is it a judgement, and no fact?
    pub fn is_judged(self) -> bool {
        self != Why::Unreachable
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Closed,
    Open { why: Why, until: Instant },
    Trial { why: Why },
}

/// May it be asked?
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Admits {
    /// With this percentage of its share.
    All(u32),
    /// One request, to see whether it is back.
    Trial,
    /// Not before then; `None`: a trial is under way.
    None(Option<Instant>),
}

/// What has changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    /// Nothing.
    None,
    /// It is not asked for now.
    Opened(Why),
    /// It is asked again.
    Closed,
    /// It would have been opened, but may not be.
    Spared,
}

/// What is known of one server.
pub struct Breaker {
    state: State,
    /// Failures in a row.
    unreachable: u32,
    silent: u32,
    /// Answers in a row that were none, or bad.
    bad: u64,
    window: Window,
    /// The next pause.
    pause: Duration,
    /// When it closed last.
    closed: Option<Instant>,
}

impl Breaker {
    /// Of a server that was not asked yet: it is well.
    pub fn new(now: Instant) -> Breaker {
        Breaker {
            state: State::Closed,
            unreachable: 0,
            silent: 0,
            bad: 0,
            window: Window::new(now),
            pause: PAUSE_MIN,
            closed: None,
        }
    }

    /// May it be asked? Its share grows for `slow_start` once it is back.
    pub fn admits(&self, slow_start: Duration, now: Instant) -> Admits {
        match self.state {
            State::Open { until, .. } if now < until => Admits::None(Some(until)),
            State::Open { .. } => Admits::Trial,
            State::Trial { .. } => Admits::None(None),
            State::Closed => {
                let Some(closed) = self.closed else {
                    return Admits::All(100);
                };
                let passed = now.saturating_duration_since(closed);
                if passed >= slow_start {
                    return Admits::All(100);
                }
                let percent = passed.as_millis() * 100 / slow_start.as_millis().max(1);
                Admits::All((percent as u32).clamp(SHARE_MIN, 100))
            }
        }
    }

    /// Why it is not closed, and until when; no time while a trial is due or under way.
    pub fn why_open(&self, now: Instant) -> Option<(Why, Option<Instant>)> {
        match self.state {
            State::Closed => None,
            State::Open { why, until } => Some((why, Some(until).filter(|until| now < *until))),
            State::Trial { why } => Some((why, None)),
        }
    }

    /// Begins a trial, if one is due.
    pub fn begin_trial(&mut self, now: Instant) -> bool {
        match self.state {
            State::Open { why, until } if now >= until && !makes(Mistake::NeverBack) => {
                self.state = State::Trial { why };
                true
            }
            _ => false,
        }
    }

    /// The trial's request told nothing: the next one may be another.
    pub fn give_up_trial(&mut self, now: Instant) {
        if let State::Trial { why } = self.state {
            self.state = State::Open { why, until: now };
        }
    }

    /// Notes what came of a request. `is_trial`: it was the trial. `may_eject`: it may be opened for a judgement.
    pub fn note(
        &mut self,
        outcome: Outcome,
        is_trial: bool,
        may_eject: bool,
        now: Instant,
    ) -> Change {
        match self.state {
            State::Closed => self.judge(outcome, may_eject, now),
            State::Trial { .. } if is_trial => {
                let why = match outcome {
                    Outcome::Well => return self.close(now),
                    Outcome::Unreachable => Why::Unreachable,
                    Outcome::Bad | Outcome::Silent if !may_eject => {
                        self.close(now);
                        return Change::Spared;
                    }
                    Outcome::Bad => Why::Errors,
                    Outcome::Silent => Why::Silent,
                };
                self.open(why, now);
                Change::None
            }
            // It was sent before: the trial tells what is true now.
            State::Open { .. } | State::Trial { .. } => Change::None,
        }
    }

    fn judge(&mut self, outcome: Outcome, may_eject: bool, now: Instant) -> Change {
        self.window.add(1, u32::from(outcome != Outcome::Well), now);
        match outcome {
            Outcome::Well | Outcome::Bad => (self.unreachable, self.silent) = (0, 0),
            Outcome::Silent => (self.unreachable, self.silent) = (0, self.silent + 1),
            Outcome::Unreachable => (self.unreachable, self.silent) = (self.unreachable + 1, 0),
        }
        if outcome == Outcome::Well {
            self.bad = 0;
            return Change::None;
        }
        self.bad += 1;
        let (all, bad) = self.window.counts(now);
        let why = if self.unreachable >= FALL {
            Why::Unreachable
        } else if self.silent >= FALL {
            Why::Silent
        } else if all >= SAMPLE_MIN && bad * 2 > all || self.bad.min(bad) >= SAMPLE_MIN {
            Why::Errors
        } else {
            return Change::None;
        };
        if why.is_judged() && !may_eject {
            return Change::Spared;
        }
        self.open(why, now);
        Change::Opened(why)
    }

    /// Something else has shown that it is back.
    pub fn close(&mut self, now: Instant) -> Change {
        let was_closed = self.state == State::Closed;
        self.state = State::Closed;
        (self.unreachable, self.silent, self.bad) = (0, 0, 0);
        self.window.clear();
        self.closed = Some(now);
        match was_closed {
            true => Change::None,
            false => Change::Closed,
        }
    }

    fn open(&mut self, why: Why, now: Instant) {
        // One that was well for long begins anew.
        let was_well = |closed: Instant| now.saturating_duration_since(closed) >= PAUSE_MAX;
        if self.state == State::Closed && self.closed.is_none_or(was_well) {
            self.pause = PAUSE_MIN;
        }
        self.state = State::Open {
            why,
            until: now + self.pause,
        };
        self.pause = (self.pause * 2).min(PAUSE_MAX);
        (self.unreachable, self.silent, self.bad) = (0, 0, 0);
        self.window.clear();
    }
}

#[cfg(test)]
mod tests;
