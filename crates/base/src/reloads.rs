//! Requests to reload, and the outcomes of the last reloads.
//!
//! Not known here: how a reload is carried out.   Limits: [`ASKS_MAX`] requests wait.

use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::sync::{mpsc, oneshot};

/// Reloads that may wait; one more is refused.
const ASKS_MAX: usize = 64;

/// The outcome of a reload.
pub type Outcome = Result<InForce, Refused>;

/// An edition that is in force.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InForce {
    /// Its number.
    pub edition: u32,
    /// A summary of its settings, in lines.
    pub words: String,
    /// Settings that may surprise the operator.
    pub notes: Vec<String>,
}

/// Why there is no new edition; the one in force stays.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Refused {
    /// The configuration is wrong: what is wrong, and what to do.
    Configuration(String),
    /// The process cannot reload: why.
    Process(&'static str),
}

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Refused::Configuration(why) => f.write_str(why),
            Refused::Process(why) => f.write_str(why),
        }
    }
}

/// What is reloaded.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// The configuration as it is now.
    Whole,
    /// The configuration, without the settings that need a restart.
    Partial,
    /// Only the files of certificates.
    Certificates,
}

/// A request to reload.
pub struct Ask {
    /// The requester, as shown to people.
    pub by: String,
    /// What is to be reloaded.
    pub what: What,
    /// Where the outcome is sent.
    pub answer: oneshot::Sender<Outcome>,
}

/// The last refusal.
#[derive(Clone, Debug)]
pub struct LastRefused {
    /// When, as time since 1970.
    pub at: Duration,
    /// The requester of the reload.
    pub by: String,
    /// Why.
    pub why: String,
}

/// Takes requests to reload, and counts the refused ones.
#[derive(Default)]
pub struct Reloads {
    asks: Option<mpsc::Sender<Ask>>,
    failures: AtomicU64,
    /// Is a reload being carried out?
    pub is_under_way: AtomicBool,
    last_refused: Mutex<Option<LastRefused>>,
}

/// The requests that `Control::run` carries out.
pub struct Asks(pub mpsc::Receiver<Ask>);

impl Reloads {
    /// With the receiving end, which carries the reloads out. Without one ([`Reloads::default`]) all are refused.
    pub fn new() -> (Reloads, Asks) {
        let (asks, receiver) = mpsc::channel(ASKS_MAX);
        let reloads = Reloads {
            asks: Some(asks),
            ..Reloads::default()
        };
        (reloads, Asks(receiver))
    }

    /// Asks for a reload and waits for its outcome. `by`: the requester, for people. `is_partial`: leave out settings that need a restart.
    pub async fn ask(&self, by: String, is_partial: bool) -> Outcome {
        let what = match is_partial {
            true => What::Partial,
            false => What::Whole,
        };
        self.ask_for(by, what).await
    }

    /// Asks only for the certificates of listeners to be read again, and waits for the outcome.
    pub async fn renew(&self) -> Outcome {
        let by = "changed files or times of certificates".to_owned();
        self.ask_for(by, What::Certificates).await
    }

    async fn ask_for(&self, by: String, what: What) -> Outcome {
        let (answer, answered) = oneshot::channel();
        let ask = Ask { by, what, answer };
        let asks = self.asks.as_ref();
        let asks = asks.ok_or(Refused::Process("this process cannot be told to reload"))?;
        let sent = asks.try_send(ask);
        sent.map_err(|_| Refused::Process("many reloads are waited for already; ask again later"))?;
        let ended = Refused::Process("the process is ending");
        answered.await.unwrap_or(Err(ended))
    }

    /// Is a reload being carried out?
    pub fn are_under_way(&self) -> bool {
        self.is_under_way.load(Ordering::SeqCst)
    }

    /// How many were refused.
    pub fn failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }

    /// The last refusal.
    pub fn last_refused(&self) -> Option<LastRefused> {
        let last = self.last_refused.lock();
        last.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Notes a refused reload.
    pub fn refused(&self, last: LastRefused) {
        self.failures.fetch_add(1, Ordering::Relaxed);
        let kept = self.last_refused.lock();
        *kept.unwrap_or_else(PoisonError::into_inner) = Some(last);
    }
}
