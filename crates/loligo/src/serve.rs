//! `loligo serve`: the one place that calls the data plane.

use std::io::IsTerminal as _;
use std::process::ExitCode;

use proxy::Ready;
use proxy::plan::{Listener, Role};
use tracing_subscriber::EnvFilter;

use crate::config::{Settled, machine};

/// Runs until a signal ends it and running requests are finished.
pub fn serve(settled: Settled) -> ExitCode {
    say_on_stderr(&settled.log_level);
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
    match proxy::serve(settled.plan, |ready| announce(ready, &roles)) {
        Ok(()) => {
            tracing::info!("stopped");
            ExitCode::SUCCESS
        }
        Err(e) => {
            tracing::error!("{e}");
            ExitCode::FAILURE
        }
    }
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

/// Diagnostics for people, on standard error; colours only on a terminal.
fn say_on_stderr(level: &str) {
    let colours = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::new(level))
        .with_writer(std::io::stderr)
        .with_ansi(colours)
        .with_target(false)
        // An error in logging would be logged to standard error, which just failed, and would end the thread.
        .log_internal_errors(false)
        .init();
}
