//! `loligo serve`: the one place that calls the data plane.

use std::process::ExitCode;

use proxy::plan::{Listener, Role, StorePlan};
use proxy::{Reading, Ready, Succession};

use crate::cli::Flags;
use crate::config::Settled;
use crate::config::explain::explain;
use crate::config::machine::Machine;
use crate::config::problem::Problem;
use crate::config::raw::Raw;
use crate::diagnostics::Diagnostics;
use crate::settle::{Unsettled, read_and_settle};

/// Runs until a signal ends it and running requests are finished. `machine`, `flags`, `add_own` are used again for a reload.
/// `succession`: the process whose place this one takes, and how its own successor is started.
pub fn serve(
    settled: Settled,
    raw: Raw,
    mut machine: Machine,
    flags: Flags,
    add_own: impl Fn(&mut Raw) + 'static,
    succession: Succession,
) -> ExitCode {
    let diagnostics = Diagnostics::start(&settled.log_level);
    if let Err(error) = commands::raise_files_limit() {
        tracing::warn!("could not raise the limit of open files: {error}");
    }
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
    machine.open_stores = stores.iter().map(|store| store.path.clone()).collect();
    let first = reading(settled, &raw, diagnostics.clone());
    // A certificate that has expired in service must not make a whole reload fail: the proxy judges it, and names the file.
    machine.certificate = |_, _| Ok(None);
    let says = diagnostics.clone();
    let reread = Box::new(move || {
        let (mut settled, raw) = read_and_settle(&flags, &machine, &add_own)
            .map_err(|unsettled| in_lines(&unsettled))?;
        with_sizes_of_the_start(&mut settled.plan.stores, &stores, &raw);
        Ok(reading(settled, &raw, says.clone()))
    });
    let said = diagnostics.clone();
    let announce = |ready: &Ready| {
        announce(ready, &roles);
        said.stop_waiting();
    };
    let code = match proxy::serve(first, reread, succession, announce) {
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

/// A checked configuration in the form that the proxy takes.
fn reading(settled: Settled, raw: &Raw, diagnostics: Diagnostics) -> Reading {
    let words = explain(&settled, raw);
    let level = settled.log_level;
    Reading {
        plan: settled.plan,
        words,
        when_in_force: Box::new(move || diagnostics.follow(&level)),
    }
}

/// The problems, one a line.
pub fn in_lines(unsettled: &Unsettled) -> String {
    match unsettled {
        Unsettled::Unreadable(why) => why.clone(),
        Unsettled::Wrong(problems) => {
            let lines: Vec<_> = problems.iter().map(Problem::to_string).collect();
            lines.join("\n")
        }
    }
}

/// Gives stores without a size the size that the start has chosen from the free space, since the store now takes up that space.
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

/// Logs where everything listens, once clients may connect.
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
