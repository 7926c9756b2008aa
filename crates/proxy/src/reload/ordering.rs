//! Orders and renews certificates while the process serves (`tls::acme`), on the control thread.
//!
//! Not known here: how a certificate is ordered, and when a renewal is due.

use std::{sync::Arc, time::Duration};

use crate::connecting::connector;
use base::{chance, clock::Clock};
use exchange::{edition::Edition, state::Shared};
use tls::acme::{self, Looked, Means};

/// The longest sleep, since the clock may be set during a sleep.
const LOOK_EVERY: Duration = Duration::from_secs(3600);

/// Orders and renews until the process ends.
pub async fn run(shared: Arc<Shared>) {
    let mut editions = shared.editions.subscribe();
    let jitter = chance::u64().unwrap_or(0) as f64 / u64::MAX as f64;
    loop {
        let edition = shared.edition();
        let pause = match look(&edition, &shared.clock, shared.is_draining(), jitter).await {
            None | Some(Looked::Ending) => None,
            Some(Looked::Early(pause)) => Some(pause),
            Some(Looked::Ordered(is_new, pause)) => {
                if is_new {
                    // The check of the files would find the certificate, too, but later.
                    let _ = shared.reloads.renew().await;
                }
                Some(pause)
            }
        };
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

/// Orders a certificate if it is due. `None`: the plan has none to order.
async fn look(edition: &Edition, clock: &Clock, is_ending: bool, jitter: f64) -> Option<Looked> {
    let timeouts = &edition.plan.timeouts;
    let means = Means {
        acme: edition.plan.acme.as_ref()?,
        challenges: &edition.served.iter().flatten().next()?.challenges(),
        connector: &|| connector(edition),
        own_addresses: &edition.own_addresses,
        answer_max: timeouts.origin_first_byte,
        retry: timeouts.acme_retry,
        clock,
    };
    Some(acme::look(&means, is_ending, jitter).await)
}
