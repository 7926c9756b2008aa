//! Decisions before the first worker starts: the I/O engine, certificates.
//!
//! Not known here: threads, the order of the start.

use std::sync::Arc;

use device::EngineKind;

use super::error::ServeError;
use base::clock::Clock;
use origin::OriginsTls;
use plan::{IoEngine, Plan};
use tls::served::{self as serving, ServedTls};

/// The I/O engine of the disks.
pub(super) struct Engine {
    pub kind: EngineKind,
    pub name: &'static str,
    /// Why io_uring is not used, if it was wanted and refused.
    pub reason: Option<String>,
}

pub(super) fn choose_engine(plan: &Plan, in_memory: bool) -> Engine {
    let engine = |kind, name, reason| Engine { kind, name, reason };
    if in_memory {
        return engine(EngineKind::Auto, "inline", None);
    }
    if plan.stores.is_empty() {
        return engine(EngineKind::Threads, "none", None);
    }
    match plan.storing.io_engine {
        IoEngine::Threads => engine(EngineKind::Threads, "threads", None),
        IoEngine::Uring => engine(EngineKind::Uring, "io_uring", None),
        IoEngine::Auto => match device::uring_available() {
            Ok(()) => engine(EngineKind::Uring, "io_uring", None),
            Err(why) => engine(EngineKind::Threads, "threads", Some(why.to_string())),
        },
    }
}

/// TLS to origins. Its files are read by the same user as those of TLS to clients.
pub(super) fn tls(plan: &Plan, clock: &Clock) -> Result<OriginsTls, ServeError> {
    let tls = OriginsTls::load(plan);
    let tls = tls.map_err(|unusable| ServeError::Origins(unusable.to_string()))?;
    for trouble in tls.ends_soon(clock.now()) {
        tracing::warn!("{trouble}");
    }
    Ok(tls)
}

/// TLS to clients. The files are read as the user that the process has become, since that user must also read renewed ones.
pub(super) fn served(
    plan: &Plan,
    clock: &Clock,
) -> Result<Vec<Option<Arc<ServedTls>>>, ServeError> {
    let served = serving::load(plan, &[], clock.now());
    let served = served.map_err(|unusable| ServeError::Served(unusable.to_string()))?;
    for trouble in served
        .iter()
        .flatten()
        .flat_map(|it| it.troubles(clock.now()))
    {
        tracing::error!("{trouble}");
    }
    for (listener, served) in plan.listeners.iter().zip(&served) {
        if served.as_ref().is_some_and(|it| it.is_self_signed()) {
            let address = listener.address;
            tracing::warn!(
                "the listener on {address} shows a certificate that was made just now and that nobody trusts: for trying out only"
            );
        }
    }
    Ok(served)
}
