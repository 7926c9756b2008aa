//! `loligo serve`: the one place that calls the data plane.

use std::io::IsTerminal as _;
use std::process::ExitCode;

use proxy::plan::{Listener, Role, StorePlan};
use proxy::{Reading, Ready};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Registry};

use crate::cli::Flags;
use crate::config::Settled;
use crate::config::explain::explain;
use crate::config::machine::{self, Machine};
use crate::config::problem::Problem;
use crate::config::raw::Raw;
use crate::{Unsettled, read_and_settle};

/// Runs until a signal ends it and running requests are finished. `machine`, `flags`, `add_own`: what the configuration was read with, and
/// is read with again.
pub fn serve(
    settled: Settled,
    raw: Raw,
    machine: Machine,
    flags: Flags,
    add_own: impl Fn(&mut Raw) + 'static,
) -> ExitCode {
    let filter = say_on_stderr(&settled.log_level);
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
    let stores = settled.plan.stores.clone();
    let first = reading(settled, &raw, filter.clone());
    let reread = Box::new(move || {
        let (mut settled, raw) = read_and_settle(&flags, &machine, &add_own).map_err(in_lines)?;
        with_sizes_of_the_start(&mut settled.plan.stores, &stores, &raw);
        Ok(reading(settled, &raw, filter.clone()))
    });
    match proxy::serve(first, reread, |ready| announce(ready, &roles)) {
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

/// A checked configuration as the proxy takes it.
fn reading(settled: Settled, raw: &Raw, filter: Filter) -> Reading {
    let words = explain(&settled, raw);
    let level = settled.log_level;
    Reading {
        plan: settled.plan,
        words,
        when_in_force: Box::new(move || {
            if let Err(error) = filter.reload(EnvFilter::new(level)) {
                tracing::warn!(%error, "log.level stays as it was");
            }
        }),
    }
}

fn in_lines(unsettled: Unsettled) -> String {
    match unsettled {
        Unsettled::Unreadable(why) => why,
        Unsettled::Wrong(problems) => {
            let lines: Vec<_> = problems.iter().map(Problem::to_string).collect();
            lines.join("\n")
        }
    }
}

/// A store without a size gets one from the space that is free. That is over once the store is there, so the size that it got counts.
fn with_sizes_of_the_start(now: &mut [StorePlan], start: &[StorePlan], raw: &Raw) {
    if raw.stores.len() != now.len() && !raw.stores.is_empty() {
        return;
    }
    for (number, store) in now.iter_mut().enumerate() {
        let says_size = (raw.stores.get(number)).is_some_and(|block| block.says("store.size"));
        let before = start.iter().find(|before| before.path == store.path);
        if let (false, Some(before)) = (says_size, before) {
            store.size_bytes = before.size_bytes;
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

/// Changes what is said on standard error.
type Filter = tracing_subscriber::reload::Handle<EnvFilter, Registry>;

/// Diagnostics for people, on standard error; colours only on a terminal.
fn say_on_stderr(level: &str) -> Filter {
    let colours = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let (filter, handle) = tracing_subscriber::reload::Layer::new(EnvFilter::new(level));
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(colours)
        .with_target(false)
        // An error in logging would be logged to standard error, which just failed, and would end the thread.
        .log_internal_errors(false);
    tracing_subscriber::registry()
        .with(filter)
        .with(lines)
        .init();
    handle
}
