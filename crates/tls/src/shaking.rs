//! A handshake that goes on: counted while it does, and once by how it ends.
//!
//! That is where it ends for most. On a connection on which a request came early, in the client's first bytes, it goes on while requests that are
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

/// A handshake. One that is dropped without a word is not counted by how it ended.
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
    /// It begins.
    pub fn begin(counters: &Arc<Counters>) -> Shaking {
        metrics::add(&counters.tls_handshakes_open, 1);
        Shaking {
            counters: Arc::clone(counters),
            is_open: true,
        }
    }

    /// It does not count among those that go on any more.
    fn close(&mut self) {
        metrics::sub(
            &self.counters.tls_handshakes_open,
            u64::from(std::mem::take(&mut self.is_open)),
        );
    }

    /// It is complete.
    pub fn completed(self, is_resumed: bool) {
        metrics::add(
            match is_resumed {
                true => &self.counters.tls_handshakes_resumed,
                false => &self.counters.tls_handshakes_full,
            },
            1,
        );
    }

    /// It has failed.
    pub fn failed(self, error: &io::Error) {
        tracing::debug!(%error, "a handshake with a client has failed");
        metrics::add(counter_of(error, &self.counters), 1);
    }

    /// It took too long.
    pub fn timed_out(self) {
        metrics::add(&self.counters.tls_handshakes_timed_out, 1);
    }

    /// What came is no TLS.
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

/// A handshake during which a request came. Anybody may have sent it again, until the client has shown that it has the keys.
pub struct Early {
    shaking: Option<Shaking>,
    until: Instant,
}

impl Early {
    /// Of a handshake that must be complete by then.
    ///
    /// It takes no place of others: a client that takes its answer slowly would keep it for as long.
    pub fn new(mut shaking: Shaking, until: Instant) -> Early {
        metrics::add(&shaking.counters.tls_early_connections, 1);
        shaking.close();
        let shaking = Some(shaking);
        Early { shaking, until }
    }

    /// How much time it has left.
    pub fn left(&self) -> Duration {
        self.until.saturating_duration_since(Instant::now())
    }

    /// It has ended. Only what is resumed begins early.
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
