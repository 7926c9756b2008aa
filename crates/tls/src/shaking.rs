//! A handshake under way: counted while it lasts, and once by its outcome.
//!
//! Most connections serve requests only after the handshake. If early data brings a request, the handshake is still under way while cache
//! hits are answered ([`Early`]).
//!
//! Not known here: sockets, sessions.

use std::{
    io,
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};

use rustls::Error;

use base::clock::Instant;
use record::metrics::{self, Counters};

/// A handshake under way. Dropped without an outcome, it is not counted by one.
pub struct Shaking {
    counters: Arc<Counters>,
    is_open: bool,
}

impl Drop for Shaking {
    fn drop(&mut self) {
        self.close();
    }
}

impl Shaking {
    /// Counts a handshake that begins.
    pub fn begin(counters: &Arc<Counters>) -> Shaking {
        metrics::add(&counters.tls_handshakes_open, 1);
        Shaking {
            counters: Arc::clone(counters),
            is_open: true,
        }
    }

    /// Stops counting it as under way.
    fn close(&mut self) {
        metrics::sub(
            &self.counters.tls_handshakes_open,
            u64::from(std::mem::take(&mut self.is_open)),
        );
    }

    /// The handshake is complete.
    pub fn completed(self, is_resumed: bool) {
        metrics::add(
            match is_resumed {
                true => &self.counters.tls_handshakes_resumed,
                false => &self.counters.tls_handshakes_full,
            },
            1,
        );
    }

    /// The handshake has failed.
    pub fn failed(self, error: &io::Error) {
        tracing::debug!(%error, "a handshake with a client has failed");
        metrics::add(counter_of(error, &self.counters), 1);
    }

    /// The handshake took too long.
    pub fn timed_out(self) {
        metrics::add(&self.counters.tls_handshakes_timed_out, 1);
    }

    /// The client does not speak TLS.
    pub fn was_foreign(self) {
        metrics::add(&self.counters.tls_handshakes_plain, 1);
    }
}

fn counter_of<'a>(error: &io::Error, counters: &'a Counters) -> &'a AtomicU64 {
    let inner = error.get_ref().and_then(|it| it.downcast_ref::<Error>());
    match inner {
        Some(Error::InvalidCertificate(_) | Error::NoCertificatesPresented) => {
            &counters.tls_handshakes_uncertified
        }
        Some(Error::AlertReceived(_)) => &counters.tls_handshakes_declined,
        Some(_) => &counters.tls_handshakes_failed,
        None => &counters.tls_handshakes_left,
    }
}

/// A handshake with early data. The data may be a replay, until the client proves that it has the keys.
pub struct Early {
    shaking: Option<Shaking>,
    until: Instant,
}

impl Early {
    /// For a handshake that must be complete by `until`.
    ///
    /// It no longer counts against the bound on handshakes: a client that reads its answer slowly would keep a place for as long.
    pub fn new(mut shaking: Shaking, until: Instant) -> Early {
        metrics::add(&shaking.counters.tls_early_connections, 1);
        shaking.close();
        let shaking = Some(shaking);
        Early { shaking, until }
    }

    /// The time that is left.
    pub fn left(&self) -> Duration {
        self.until.saturating_duration_since(Instant::now())
    }

    /// The handshake has ended. Only resumed handshakes have early data.
    pub fn ended(mut self, how: &io::Result<()>) {
        if let Some(shaking) = self.shaking.take() {
            match how {
                Ok(()) => shaking.completed(true),
                Err(error) => shaking.failed(error),
            }
        }
    }
}

impl Drop for Early {
    fn drop(&mut self) {
        if let Some(shaking) = self.shaking.take() {
            match self.left().is_zero() {
                true => shaking.timed_out(),
                false => shaking.failed(&io::ErrorKind::UnexpectedEof.into()),
            }
        }
    }
}
