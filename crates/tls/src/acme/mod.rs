//! Orders a certificate from an authority, and renews it (ACME, RFC 8555).
//!
//! | file | tells |
//! |---|---|
//! | `due` | when the next order is due: decides, and knows no clock |
//! | `order` | one order, from the account to the certificate |
//! | `challenges` | the certificates shown to the authority when it connects (tls-alpn-01) |
//! | `courier` | messages to the authority, over the proxy's own connections |
//! | `files` | the folder: account, certificate with its key, the last attempt |
//!
//! To listeners the certificate is a file like any other. Until one is issued, a self-signed certificate takes its place, so that the
//! proxy serves and the authority can connect. An order is made by a task of the control thread (`reload/ordering`), never by a worker.
//!
//! A failure keeps the present certificate, and is counted, logged, and stored: the next attempt is due after `timeouts.acme-retry`, then after
//! twice that, and so on ([`due::RETRY_MAX`]), also across restarts of the process.
//!
//! Limits: one order at a time; [`ORDER_MAX`] for the whole order; answers are bounded in `courier`.
//! Not known here: which listeners show the certificate, how an edition is made.

pub mod challenges;
mod courier;
mod due;
mod files;
mod order;

use std::{net::SocketAddr, sync::atomic::Ordering, time::Duration};

use self::{challenges::Challenges, files::Attempt};
use base::clock::Clock;
use origin::{Connector, OriginContext, pem::Unusable};
use plan::{Acme, Plan};

/// The longest that an order may take.
const ORDER_MAX: Duration = Duration::from_secs(300);
/// Makes sure that a valid certificate is in place, self-signed if need be, so that listeners have one to show.
///
/// # Errors
/// The folder cannot be used.
pub fn prepare(plan: &Plan, now: Duration) -> Result<(), Unusable> {
    match &plan.acme {
        Some(acme) => files::prepare(acme, now),
        None => Ok(()),
    }
}

/// Everything that an order needs.
pub struct Means<'a> {
    /// The settings.
    pub acme: &'a Acme,
    /// The challenges that listeners show to the authority.
    pub challenges: &'a Challenges,
    /// Makes the connections of one order.
    pub connector: &'a dyn Fn() -> Connector,
    /// The addresses of this proxy, which the authority cannot have.
    pub own_addresses: &'a [SocketAddr],
    /// The longest wait for an answer.
    pub answer_max: Duration,
    /// The pause after a first failure.
    pub retry: Duration,
    /// Wall time.
    pub clock: &'a Clock,
}

/// The result of [`look`].
pub enum Looked {
    /// The next order is due after this time.
    Early(Duration),
    /// An order is due, but the process ends.
    Ending,
    /// An order was made: true if a certificate was issued; and the time until the next look.
    Ordered(bool, Duration),
}

/// Makes an order if one is due and the process is not ending.
pub async fn look(means: &Means<'_>, is_ending: bool, jitter: f64) -> Looked {
    let Means {
        acme,
        challenges,
        clock,
        ..
    } = *means;
    let now = clock.now();
    let attempt = files::attempt(acme);
    let at = due::when(files::held(acme).as_ref(), acme, attempt.as_ref(), jitter);
    if at > now {
        return Looked::Early(at - now);
    }
    if is_ending {
        return Looked::Ending;
    }
    let context = OriginContext::apart((means.connector)());
    let (courier, errands) = courier::Courier::new();
    let carrying = courier::carry(
        errands,
        &context,
        acme,
        means.own_addresses,
        means.answer_max,
    );
    let ordering = async {
        let pem = order::order(acme, challenges, courier).await?;
        files::keep(acme, &pem, clock.now())
    };
    let ordered = tokio::time::timeout(ORDER_MAX, async {
        tokio::select! {
            ordered = ordering => ordered,
            () = carrying => Err("nobody carries messages".to_owned()),
        }
    });
    let ordered = ordered.await;
    challenges.clear();
    let result = ordered.unwrap_or_else(|_| Err(format!("not done within {ORDER_MAX:?}")));
    let now = clock.now();
    let names = acme.names.join(" ");
    let retry = means.retry;
    let next = match result {
        Ok(()) => {
            challenges.issued.fetch_add(1, Ordering::Relaxed);
            tracing::info!(names, "a certificate was issued");
            // A certificate that ends soon must not cause the next order at once.
            Attempt::after_success(acme, now, retry)
        }
        Err(why) => {
            challenges.failures.fetch_add(1, Ordering::Relaxed);
            let next = Attempt::after_failure(acme, now, retry, attempt.as_ref(), jitter);
            let seconds = next.next_unix_s.saturating_sub(now.as_secs());
            tracing::warn!(
                names,
                "no certificate was issued, the one that is there stays; the next attempt is in {seconds} s: {why}"
            );
            next
        }
    };
    if let Err(why) = files::keep_attempt(acme, &next) {
        tracing::warn!("{why}");
    }
    let at = due::when(files::held(acme).as_ref(), acme, Some(&next), jitter);
    let pause = at.saturating_sub(now).max(Duration::from_millis(100));
    Looked::Ordered(next.failures == 0, pause)
}
