//! A certificate that is ordered from an authority, and renewed (ACME, RFC 8555).
//!
//! | file | tells |
//! |---|---|
//! | `due` | when the next order is due: decides, and knows no clock |
//! | `order` | one order, from the account to the certificate |
//! | `challenges` | what the authority is shown when it connects (tls-alpn-01) |
//! | `courier` | the authority's messages, over the proxy's own connections |
//! | `files` | the folder: account, certificate with its key, the last attempt |
//!
//! The certificate is a file like any other to the listeners that show it. Until there is one, a self-signed one lies in its place, so that the
//! proxy serves and the authority can connect. An order is made by a task of the control thread, never by a worker.
//!
//! A failure keeps what is there, is counted, warned of, and written down: the next attempt is due after `timeouts.acme-retry`, then after
//! twice that, and so on ([`due::RETRY_MAX`]), also over restarts of the process.
//!
//! Limits: one order at a time; [`ORDER_MAX`] for all of it; what an answer may have is in `courier`.
//! Not known here: which listeners show it, how an edition is made.

pub mod challenges;
mod courier;
mod due;
mod files;
mod order;

use std::{
    rc::Rc,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use self::files::Attempt;
use super::served::Unusable;
use crate::{
    chance, edition::Edition, origin::Connector, plan::Plan, state::Shared,
    worker::connector_settings,
};

/// The longest that an order may take.
const ORDER_MAX: Duration = Duration::from_secs(300);
/// The longest sleep: the clock may be set meanwhile.
const LOOK_EVERY: Duration = Duration::from_secs(3600);

/// Puts a certificate into place, so that listeners have one to show, if there is none that holds.
///
/// # Errors
/// The folder cannot be used.
pub fn prepare(plan: &Plan, now: Duration) -> Result<(), Unusable> {
    match &plan.acme {
        Some(acme) => files::prepare(acme, now),
        None => Ok(()),
    }
}

/// Orders and renews until the process ends.
pub async fn run(shared: Arc<Shared>) {
    let mut editions = shared.editions.subscribe();
    let jitter = chance::u64().unwrap_or(0) as f64 / u64::MAX as f64;
    loop {
        let edition = shared.edition();
        let pause = look(&shared, &edition, jitter).await;
        let waiting = async {
            match pause {
                Some(pause) => tokio::time::sleep(pause.min(LOOK_EVERY)).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = waiting => {}
            changed = editions.changed() => {
                if changed.is_err() {
                    return;
                }
            }
        }
    }
}

/// Orders if it is time. How long until the next look; `None`: there is nothing to order.
async fn look(shared: &Arc<Shared>, edition: &Arc<Edition>, jitter: f64) -> Option<Duration> {
    let acme = edition.plan.acme.as_ref()?;
    let challenges = edition.served.iter().flatten().next()?.challenges();
    let now = shared.clock.now();
    let attempt = files::attempt(acme);
    let at = due::when(files::held(acme).as_ref(), acme, attempt.as_ref(), jitter);
    if at > now {
        return Some(at - now);
    }
    if shared.is_draining() {
        return None;
    }
    let settings = connector_settings(&edition.plan);
    let connector = Rc::new(Connector::new(settings, edition.tls.clone()));
    let answer_max = edition.plan.timeouts.origin_first_byte;
    let (courier, errands) = courier::Courier::new();
    let carrying = courier::carry(errands, &connector, acme, edition, answer_max);
    let ordering = async {
        let pem = order::order(acme, &challenges, courier).await?;
        files::keep(acme, &pem, shared.clock.now())
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
    let now = shared.clock.now();
    let names = acme.names.join(" ");
    let retry = edition.plan.timeouts.acme_retry;
    let next = match result {
        Ok(()) => {
            challenges.issued.fetch_add(1, Ordering::Relaxed);
            tracing::info!(names, "a certificate was issued");
            // Even one that ends soon is not followed by the next at once.
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
    if next.failures == 0 {
        // Whoever looks at files would find it, too, but later.
        let _ = shared.reloads.renew().await;
    }
    let at = due::when(files::held(acme).as_ref(), acme, Some(&next), jitter);
    Some(at.saturating_sub(now).max(Duration::from_millis(100)))
}
