//! Renews certificates, of listeners and for origins, when their files change: checks the files every `timeouts.certificate-files`, and
//! reads the changed ones. A certificate that cannot be used is reported once, and the previous one stays in service.
//!
//! They are also read again when a certificate expires or becomes valid, since the certificate shown for a name depends on that.
//!
//! A certificate that expires within [`ENDS_SOON`](origin::pem::ENDS_SOON), or cannot be used, causes a warning once a day.
//!
//! Not known here: how an edition is made (`reload`).

use std::{sync::Arc, time::Duration};

use base::clock::Instant;
use exchange::state::Shared;

/// Time between two warnings about certificates.
const WARN_EVERY: Duration = Duration::from_secs(86_400);
/// Time between two checks while there is no certificate.
const WITHOUT: Duration = Duration::from_secs(1);

/// Checks until the process ends.
pub async fn run(shared: Arc<Shared>) {
    let mut warned: Option<Instant> = None;
    let mut refused = String::new();
    loop {
        let edition = shared.edition();
        let served = || edition.served.iter().flatten();
        if served().next().is_none() && !edition.tls.has_files() {
            tokio::time::sleep(WITHOUT).await;
            continue;
        }
        if warned.is_none_or(|at| at.elapsed() >= WARN_EVERY) {
            let now = shared.clock.now();
            let shown = served().flat_map(|served| &served.shown);
            let of_clients = shown.filter_map(|shown| shown.ends_soon(now));
            let unusable = served().flat_map(|served| served.unusable().iter().cloned());
            let of_clients = unusable.chain(of_clients);
            for warning in of_clients.chain(edition.tls.ends_soon(now)) {
                tracing::warn!("{warning}");
                warned = Some(Instant::now());
            }
        }
        let now = shared.clock.now();
        if served().any(|served| served.has_changed() || served.is_past(now))
            || edition.tls.has_changed()
        {
            refused = match shared.reloads.renew().await {
                Ok(_) => {
                    warned = None;
                    String::new()
                }
                Err(why) => {
                    let why = why.to_string();
                    if why != refused {
                        tracing::error!(
                            "certificate files have changed, or the time of one has, and they cannot be used; those in service stay: {why}"
                        );
                    }
                    why
                }
            };
        }
        tokio::time::sleep(edition.plan.timeouts.certificate_files).await;
    }
}
