//! One thread for all workers fetches credentials and keeps them fresh, so that only the first requests after a start wait for a source.
//!
//! Credentials are renewed before they end; a file is read again when it has changed; a source whose credentials a store has refused is
//! asked again. While a source fails, the credentials that it gave before stay in use until they end.
//!
//! Not known here: how a source is asked (`source`).

use std::{rc::Rc, sync::Arc, time::Duration};

use base::clock::{self, Instant};
use plan::{CredentialSource, Signing};
use tokio::{
    sync::watch,
    task::{AbortHandle, JoinSet},
    time::{sleep, sleep_until},
};

use super::{Known, Signer, Signers, credentials::Credentials, source};
use crate::{Connector, OriginContext, OriginsTls, Settings, pem::Stamp};

/// The longest time before their end at which credentials are renewed.
const AHEAD_MAX: Duration = Duration::from_secs(600);
/// The shortest time between two requests to a source.
const EVERY_MIN: Duration = Duration::from_secs(1);
/// The longest time until a failed source is asked again.
const AGAIN_MAX: Duration = Duration::from_secs(60);
/// How often a file is checked for changes.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// The longest pause while nothing is due.
const PAUSE_MAX: Duration = Duration::from_secs(3600);

/// The signers whose credentials are kept, and the settings for asking their sources.
pub struct Wanted {
    /// The signers of the configuration.
    pub signers: Signers,
    /// Settings for connections.
    pub connecting: (Settings, OriginsTls),
    /// The limits for the head of an answer.
    pub limits: http1::Limits,
}

/// Keeps credentials for as long as the process serves. `wanted_of` reads an edition of the configuration. To be called on a `LocalRuntime`.
pub async fn run<E>(mut editions: watch::Receiver<Arc<E>>, wanted_of: impl Fn(&E) -> Wanted) {
    let mut tasks = JoinSet::new();
    let mut kept: Vec<(Arc<Signer>, AbortHandle)> = Vec::new();
    let mut context: Option<Rc<OriginContext>> = None;
    loop {
        let edition = Arc::clone(&editions.borrow_and_update());
        let wanted = wanted_of(&edition);
        drop(edition);
        let (settings, tls) = wanted.connecting;
        let context = context.get_or_insert_with(|| {
            let connector = Connector::new(settings.clone(), tls.all.clone());
            Rc::new(OriginContext::apart(connector))
        });
        context.connector.follow(settings, tls.all);
        let is_wanted = |of: &Arc<Signer>| wanted.signers.all().any(|it| Arc::ptr_eq(it, of));
        kept.retain(|(signer, task)| {
            let stays = is_wanted(signer);
            if !stays {
                task.abort();
            }
            stays
        });
        for signer in wanted.signers.all() {
            if !kept.iter().any(|(known, _)| Arc::ptr_eq(known, signer)) {
                let keeping = keep(Arc::clone(signer), Rc::clone(context), wanted.limits);
                kept.push((Arc::clone(signer), tasks.spawn_local(keeping)));
            }
        }
        loop {
            tokio::select! {
                changed = editions.changed() => match changed {
                    Ok(()) => break,
                    Err(_) => return,
                },
                Some(_) = tasks.join_next(), if !tasks.is_empty() => {}
            }
        }
    }
}

async fn keep(signer: Arc<Signer>, context: Rc<OriginContext>, limits: http1::Limits) {
    let settings = &signer.settings;
    let mut failing: Option<String> = None;
    let mut again = EVERY_MIN;
    loop {
        // Take the stamp before reading, so that a file that changes meanwhile is read again.
        let stamp = stamp(settings);
        let asking = source::Asking {
            context: &context,
            limits,
            variable: &source::variable,
        };
        let pause = match source::ask(settings, &asking).await {
            Ok(credentials) => {
                if failing.take().is_some() {
                    let of = &settings.credentials;
                    tracing::info!("sign.aws: {of} has credentials again");
                }
                again = EVERY_MIN;
                let pause = until_renewal(&credentials);
                signer
                    .known
                    .send_replace(Known::These(Arc::new(credentials)));
                pause
            }
            Err(why) => {
                if failing.as_ref() != Some(&why) {
                    let of = &settings.credentials;
                    tracing::warn!(
                        "sign.aws: no credentials from {of}: {why}. Requests that need them are answered with 503 until it has some"
                    );
                    failing = Some(why);
                }
                has_failed(&signer.known);
                again = (again * 2).min(AGAIN_MAX);
                again
            }
        };
        sleep(EVERY_MIN).await;
        let due = Instant::now() + pause.saturating_sub(EVERY_MIN);
        tokio::select! {
            () = sleep_until(due) => {}
            () = signer.doubted.notified() => {}
            () = changed(settings, &stamp) => {}
        }
    }
}

/// Notes a failure only if there are no credentials yet: earlier ones stay in use until they end.
fn has_failed(known: &watch::Sender<Known>) {
    known.send_if_modified(|known| {
        let is_first = matches!(known, Known::Nothing);
        if is_first {
            *known = Known::None;
        }
        is_first
    });
}

/// The time from now until the credentials are to be renewed.
fn until_renewal(credentials: &Credentials) -> Duration {
    let Some(until) = credentials.until_unix_s else {
        return PAUSE_MAX;
    };
    let left = Duration::from_secs(until).saturating_sub(clock::unix());
    let ahead = (left / 4).min(AHEAD_MAX);
    (left - ahead).clamp(EVERY_MIN, PAUSE_MAX)
}

fn stamp(settings: &Signing) -> Option<Stamp> {
    match &settings.credentials {
        CredentialSource::File(path) => Stamp::of(path),
        _ => None,
    }
}

/// Waits until a file has changed. A missing file does not count as changed: it is being replaced.
async fn changed(settings: &Signing, before: &Option<Stamp>) {
    let CredentialSource::File(path) = &settings.credentials else {
        return std::future::pending().await;
    };
    loop {
        let now = Stamp::of(path);
        if now.is_some() && now != *before {
            return;
        }
        sleep(LOOK_EVERY).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ends_is_renewed_before_it_does() {
        let ending_in = |seconds: u64| {
            let until = clock::unix().as_secs() + seconds;
            let credentials = Credentials::new("ID", "secret", None).unwrap();
            until_renewal(&Credentials {
                until_unix_s: Some(until),
                ..credentials
            })
            .as_secs()
        };
        assert!(
            (2_998..=3_000).contains(&ending_in(3_600)),
            "{}",
            ending_in(3_600)
        );
        assert!((73..=75).contains(&ending_in(100)));
        assert_eq!(ending_in(0), 1, "never in a circle");
        let forever = Credentials::new("ID", "secret", None).unwrap();
        assert_eq!(until_renewal(&forever), PAUSE_MAX);
    }

    #[test]
    fn a_source_that_fails_takes_nothing_away() {
        let known = watch::Sender::new(Known::Nothing);
        has_failed(&known);
        assert!(matches!(*known.borrow(), Known::None), "nobody waits on");
        let credentials = Credentials::new("ID", "secret", None).unwrap();
        known.send_replace(Known::These(Arc::new(credentials)));
        has_failed(&known);
        assert!(matches!(*known.borrow(), Known::These(_)));
    }
}
