//! Whether a server is asked, judged by the outcomes of its requests.
//!
//! ```text
//!              unreachable, silent, or errors
//!   closed ──────────────────────────────────────> open, for a pause ──> due for a trial
//!     ^                                              ^                        │ one request
//!     └───── the trial is answered well ── trial <───┼────────────────────────┘
//!                                            └───────┘ it is not: a pause twice as long
//! ```
//!
//! *Unreachable*: [`FALL`] connections in a row failed. That is a fact, and nothing is gained by asking. *Silent*: [`FALL`]
//! requests in a row got no answer on an open connection. *Errors*: of at least [`SAMPLE_MIN`] requests in ten seconds more than
//! half got 500, 502, 503, 504 or no answer, or [`SAMPLE_MIN`] in a row did: after many good answers, half would take five seconds.
//! The last two are judgements. A request that no server can answer may cause them for all servers at once, so the caller decides whether a server
//! may be ejected for one ([`Breaker::note`]: `may_eject`). A server that is closed again has a small share at first.
//!
//! Not known here: sockets, other servers. Time is a parameter.
//! Limits: a pause is [`PAUSE_MIN`] to [`PAUSE_MAX`]; one trial at a time.

use std::time::Duration;

use super::window::Window;
use base::{
    clock::Instant,
    mistakes::{Mistake, makes},
};

/// This many failures of one kind in a row open the breaker.
pub const FALL: u32 = 3;
/// The least number of requests in ten seconds for a judgement by the share of bad ones.
pub const SAMPLE_MIN: u64 = 20;
/// The first pause,
pub const PAUSE_MIN: Duration = Duration::from_secs(1);
/// and the longest.
pub const PAUSE_MAX: Duration = Duration::from_secs(30);
/// The first share of a server that is back, percent.
const SHARE_MIN: u32 = 10;

/// The outcome of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// A good answer.
    Well,
    /// An answer whose status says that the server has failed.
    Bad,
    /// No answer on an open connection.
    Silent,
    /// No connection.
    Unreachable,
}

/// Why a breaker is not closed.
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
    /// The words for the log and the status.
    pub fn words(self) -> &'static str {
        match self {
            Why::Unreachable => "connections could not be made",
            Why::Silent => "requests were not answered",
            Why::Errors => "more than half of the answers were 5xx, or none",
        }
    }

    /// Is it a judgement, rather than a fact?
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

/// Whether a server may be asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Admits {
    /// Yes, with this percentage of its share.
    All(u32),
    /// Only one request, as a trial.
    Trial,
    /// Not before this time; `None`: a trial is under way.
    None(Option<Instant>),
}

/// The effect of an outcome.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    /// Nothing.
    None,
    /// The server is not asked for a while.
    Opened(Why),
    /// The server is asked again.
    Closed,
    /// The same is due, but the caller does not allow it (`may_eject`).
    Spared,
}

/// The state of one server.
pub struct Breaker {
    state: State,
    /// Failures in a row.
    unreachable: u32,
    silent: u32,
    /// Requests in a row without a good answer.
    bad: u64,
    window: Window,
    /// The next pause.
    pause: Duration,
    /// When it was closed last.
    closed: Option<Instant>,
}

impl Breaker {
    /// The breaker of a new server: closed.
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

    /// May the server be asked? Once it is back, its share grows for `slow_start`.
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

    /// The trial's request had no outcome: another trial may begin.
    pub fn give_up_trial(&mut self, now: Instant) {
        if let State::Trial { why } = self.state {
            self.state = State::Open { why, until: now };
        }
    }

    /// Notes the outcome of a request. `is_trial`: it was the trial. `may_eject`: the server may be ejected for a judgement.
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
            // The request was sent before the breaker opened. Only a trial shows the present state.
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

    /// Closes the breaker: a trial, a check or the operator has shown that the server is back.
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
        // After a long time closed, the pauses begin anew.
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
