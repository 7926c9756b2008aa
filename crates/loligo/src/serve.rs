//! `loligo serve`: the one place that calls the data plane.

use std::process::ExitCode;

use crate::config::{Settled, machine};
use crate::diagnostics::Diagnostics;
use proxy::Ready;
use proxy::plan::{Listener, Role};

/// Runs until a signal ends it and running requests are finished.
pub fn serve(settled: Settled) -> ExitCode {
    let diagnostics = Diagnostics::start(&settled.log_level);
    machine::raise_files_limit();
    for note in &settled.notes {
        tracing::warn!("{note}");
    }
    for note in &settled.fitted {
        tracing::info!("{note}");
    }
    let role = |listener: &Listener| match listener.role {
        Role::Forward(_) => "forward proxy",
        Role::Reverse(_) => "reverse proxy",
    };
    let roles: Vec<_> = settled.plan.listeners.iter().map(role).collect();
    let said = diagnostics.clone();
    let announce = |ready: &Ready| {
        announce(ready, &roles);
        said.stop_waiting();
    };
    let code = match proxy::serve(settled.plan, announce) {
        Ok(()) => {
            tracing::info!("stopped");
            ExitCode::SUCCESS
        }
        Err(e) => {
            tracing::error!("{e}");
            ExitCode::FAILURE
        }
    };
    diagnostics.flush();
    code
}

/// Logs once, when clients may come, where everything listens.
fn announce(ready: &Ready, roles: &[&str]) {
    for (address, role) in ready.listeners.iter().zip(roles) {
        tracing::info!("{role} on {address}");
    }
    match &ready.admin {
        Some(address) => tracing::info!("admin interface on http://{address}"),
        None => tracing::info!("no admin interface"),
    }
    if let Some(address) = &ready.cluster {
        tracing::info!("members of the cluster on {address}");
    }
    for store in &ready.stores {
        tracing::info!("store {store}");
    }
    if ready.stores.is_empty() {
        tracing::info!("no store: memory only");
    } else {
        tracing::info!("disk I/O by {}", ready.io_engine);
    }
    if let Some(reason) = &ready.io_engine_reason {
        // Only with `auto`: with `uring` the start has failed.
        tracing::info!("io_uring can not be used here: {reason}");
    }
    let threads = if ready.workers == 1 {
        "worker"
    } else {
        "workers"
    };
    tracing::info!("ready, {} {threads}", ready.workers);
}
