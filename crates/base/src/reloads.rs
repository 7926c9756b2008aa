//! How a reload is asked for, and what came of the last ones.
//!
//! Not known here: how one is carried out.   Limits: [`ASKS_MAX`] wait.

use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::sync::{mpsc, oneshot};

/// Reloads that may be waited for; one more is refused.
const ASKS_MAX: usize = 64;

/// What came of a reload.
pub type Outcome = Result<InForce, Refused>;

/// An edition that is in force.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InForce {
    /// Its number.
    pub edition: u32,
    /// What it means, in lines.
    pub words: String,
    /// What may surprise.
    pub notes: Vec<String>,
}

/// Why there is no new edition; all is as it was.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Refused {
    /// The configuration: what is wrong with it, and what to do.
    Configuration(String),
    /// The process cannot: why.
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

/// What a reload is about.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// The configuration as it is now.
    Whole,
    /// The same, but for what wants a restart.
    Partial,
    /// The files of certificates alone.
    Certificates,
}

/// One order.
pub struct Ask {
    /// Whoever asks, for people.
    pub by: String,
    /// What is asked for.
    pub what: What,
    /// Where its outcome is waited for.
    pub answer: oneshot::Sender<Outcome>,
}

/// The last refusal.
#[derive(Clone, Debug)]
pub struct LastRefused {
    /// When, since 1970.
    pub at: Duration,
    /// Whoever has asked for the reload.
    pub by: String,
    /// Why.
    pub why: String,
}

/// How a reload is asked for, and how many were refused.
#[derive(Default)]
pub struct Reloads {
    asks: Option<mpsc::Sender<Ask>>,
    failures: AtomicU64,
    /// Is one being carried out?
    pub is_under_way: AtomicBool,
    last_refused: Mutex<Option<LastRefused>>,
}

/// What `Control::run` takes orders from.
pub struct Asks(pub mpsc::Receiver<Ask>);

impl Reloads {
    /// With the end at which they are carried out. Without one ([`Reloads::default`]) all are refused.
    pub fn new() -> (Reloads, Asks) {
        let (asks, receiver) = mpsc::channel(ASKS_MAX);
        let reloads = Reloads {
            asks: Some(asks),
            ..Reloads::default()
        };
        (reloads, Asks(receiver))
    }

    /// Asks for one, and waits for what comes of it. `by`: who asks, for people. `is_partial`: what wants a restart may be left out.
    pub async fn ask(&self, by: String, is_partial: bool) -> Outcome {
        let what = match is_partial {
            true => What::Partial,
            false => What::Whole,
        };
        self.ask_for(by, what).await
    }

    /// Asks that the certificates of listeners be read again, and nothing else, and waits for what comes of it.
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

    /// Is one being carried out?
    pub fn are_under_way(&self) -> bool {
        self.is_under_way.load(Ordering::SeqCst)
    }

    /// How many were refused.
    pub fn failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }

    /// The last one of them.
    pub fn last_refused(&self) -> Option<LastRefused> {
        let last = self.last_refused.lock();
        last.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Notes one that was refused.
    pub fn refused(&self, last: LastRefused) {
        self.failures.fetch_add(1, Ordering::Relaxed);
        let kept = self.last_refused.lock();
        *kept.unwrap_or_else(PoisonError::into_inner) = Some(last);
    }
}
