//! Starting, serving and stopping.
//!
//! The control thread listens (`sockets`), opens the stores (`stores`), composes the shared state (`sharing`) and starts the threads
//! (`threads`); workers accept connections. Then it runs the admin interface and handles signals (`running`). A stop accepts no new
//! connections, closes idle ones, completes requests in progress (at most `timeouts.drain`), writes clusters, and closes the stores.

mod answers;
mod error;
mod marks;
mod preparing;
pub(crate) mod running;
mod seconds;
pub(crate) mod sharing;
mod sockets;
mod stopping;
mod stores;
pub(crate) mod threads;

use self::{
    error::log_error,
    preparing::{Engine, choose_engine, served, tls},
    running::Running,
    seconds::Seconds,
    sharing::{Found, shared},
    sockets::Sockets,
    stopping::Signals,
    stores::Stores,
    threads::Starting,
};
pub use base::phase::Stopper;
pub use error::ServeError;
use std::{net::SocketAddr, rc::Rc, sync::Arc};

use device::Device;
use tokio::runtime::{self, LocalOptions, LocalRuntime};

use crate::{
    reload::{Control, Reading, Reread},
    upgrade::predecessor::Predecessor,
    user,
};
use admin::health::panicking;
use base::{
    clock::Clock,
    notify::Manager,
    reloads::Reloads,
    upgrades::{Launch, Upgrades},
};
use cache::opening::Candidates;
use exchange::state::Shared;
use peers::digest::Digests;
use plan::Plan;
use record::{events::Events, journal::Journal};

/// The running proxy's addresses and stores.
#[derive(Clone, Debug)]
pub struct Ready {
    /// The addresses for clients, in the order of the plan, with the ports that the system chose.
    pub listeners: Vec<SocketAddr>,
    /// The admin interface's address.
    pub admin: Option<SocketAddr>,
    /// The address for ICP queries.
    pub icp: Option<SocketAddr>,
    /// The address for members of the cluster.
    pub cluster: Option<SocketAddr>,
    /// A description of each store: path, size, what was found.
    pub stores: Vec<String>,
    /// The I/O engine of the disks.
    pub io_engine: &'static str,
    /// Why io_uring is not used, if it was wanted and refused.
    pub io_engine_reason: Option<String>,
    /// Worker threads.
    pub workers: usize,
}

impl Ready {
    fn of(plan: &Plan, stores: Vec<String>, engine: Engine) -> Ready {
        Ready {
            listeners: plan.listeners.iter().map(|l| l.address).collect(),
            admin: plan.admin.as_ref().map(|a| a.address),
            icp: plan.icp.listen,
            cluster: plan.cluster.as_ref().map(|c| c.address),
            stores,
            io_engine: engine.name,
            io_engine_reason: engine.reason,
            workers: plan.workers,
        }
    }
}

/// Serves until SIGTERM, SIGINT or SIGQUIT, then drains. SIGHUP and the admin interface make `reread` read the configuration again. A panic
/// ends the process.
///
/// `succession`: the process to replace, and how to start a process that replaces this one.
pub fn serve(
    configuration: Reading,
    reread: Reread,
    succession: Succession,
    on_ready: impl FnOnce(&Ready),
) -> Result<(), ServeError> {
    panicking::end_the_process();
    let how = How {
        reread: Some(reread),
        is_process: true,
        succession,
        ..How::default()
    };
    run(configuration, how, |ready, _| on_ready(ready))
}

/// Serves without handling signals, until the [`Stopper`] is used.
pub fn start(plan: Plan, on_ready: impl FnOnce(&Ready, Stopper)) -> Result<(), ServeError> {
    run(Reading::of(plan), How::default(), on_ready)
}

/// Like [`start`]; the admin interface can make `reread` read the configuration again.
pub fn start_reloadable(
    configuration: Reading,
    reread: Reread,
    on_ready: impl FnOnce(&Ready, Stopper),
) -> Result<(), ServeError> {
    let how = How {
        reread: Some(reread),
        ..How::default()
    };
    run(configuration, how, on_ready)
}

/// Like [`start_reloadable`]; the proxy may replace another process, and be replaced by one.
pub fn start_in_succession(
    configuration: Reading,
    reread: Reread,
    succession: Succession,
    on_ready: impl FnOnce(&Ready, Stopper),
) -> Result<(), ServeError> {
    let how = How {
        reread: Some(reread),
        succession,
        ..How::default()
    };
    run(configuration, how, on_ready)
}

/// Like [`start`], with a clock of the caller's.
pub fn start_at(
    plan: Plan,
    clock: Clock,
    on_ready: impl FnOnce(&Ready, Stopper),
) -> Result<(), ServeError> {
    let how = How {
        clock,
        ..How::default()
    };
    run(Reading::of(plan), how, on_ready)
}

/// Like [`start`], on these devices instead of the plan's files, one for each of its stores: for tests with failing devices.
pub fn start_on(
    plan: Plan,
    devices: Vec<Arc<Device>>,
    on_ready: impl FnOnce(&Ready, Stopper),
) -> Result<(), ServeError> {
    let how = How {
        devices: Some(devices),
        ..How::default()
    };
    run(Reading::of(plan), how, on_ready)
}

/// The processes before and after this one.
#[derive(Default)]
pub struct Succession {
    /// The process to replace.
    pub from: Option<Predecessor>,
    /// How to start a process that replaces this one; `None`: that is not possible.
    pub launch: Option<Launch>,
}

/// How a proxy runs.
#[derive(Default)]
struct How {
    clock: Clock,
    /// The proxy is alone in its process: it handles signals, and reports to the service manager.
    is_process: bool,
    /// How the configuration is read again; `None`: it cannot be.
    reread: Option<Reread>,
    devices: Option<Vec<Arc<Device>>>,
    succession: Succession,
}

fn run(
    configuration: Reading,
    mut how: How,
    on_ready: impl FnOnce(&Ready, Stopper),
) -> Result<(), ServeError> {
    let mut from = how.succession.from.take();
    let ran = run_from(configuration, how, &mut from, on_ready);
    if let (Err(why), Some(from)) = (&ran, &from) {
        from.refuse(&why.to_string());
    }
    ran
}

/// Like [`run`]. `from` is taken at the point after which no failure lets the previous process serve on.
fn run_from(
    configuration: Reading,
    how: How,
    from: &mut Option<Predecessor>,
    on_ready: impl FnOnce(&Ready, Stopper),
) -> Result<(), ServeError> {
    let runtime = runtime::Builder::new_current_thread()
        .enable_all()
        .build_local(LocalOptions::default())?;
    let inside = runtime.enter();
    let (mut running, ready) = come_up(&runtime, configuration, how, from)?;
    on_ready(&ready, Stopper(running.shared.phase.clone()));
    running.manager.is_ready("edition 1 of the configuration");
    runtime.block_on(running.until_drained());
    let succeeded = running.shared.upgrades.end();
    drop(inside);
    drop(runtime);
    running.close();
    succeeded.map_err(ServeError::Successor)
}

/// Opens, listens and starts, in the order in which these steps can fail.
fn come_up(
    runtime: &LocalRuntime,
    configuration: Reading,
    how: How,
    from: &mut Option<Predecessor>,
) -> Result<(Running, Ready), ServeError> {
    // Take signals first: one that arrives before the proxy is ready then waits, instead of ending the process while it opens stores.
    let signals = how.is_process.then(Signals::take).transpose()?;
    let manager = Rc::new(match how.is_process {
        true => Manager::of_environment(),
        false => Manager::default(),
    });
    let (mut plan, words) = (configuration.plan, configuration.words);
    let configured = plan.clone();
    let in_memory = how.devices.is_some();
    let (candidates, sockets) = open_as_root(&mut plan, how.devices, from.as_mut())?;
    let engine = choose_engine(&plan, in_memory);
    let tls = tls(&plan, &how.clock)?;
    let mut stores = Stores::open(&plan, candidates, from.as_mut())?;
    let digests = Digests::new(&plan, stores.opened.as_ref().map(|opened| &*opened.set))?;
    let served = served(&plan, &how.clock)?;
    let found = Found {
        opened: stores.opened.as_ref(),
        absent: std::mem::take(&mut stores.absent),
        seed: from.as_ref().and_then(Predecessor::hash_seed),
    };
    let mut shared = shared(plan, how.clock, found, engine.name, (tls.clone(), served))?;
    shared.doors.send_replace(from.is_none());
    shared.upgrades = (how.succession.launch)
        .map(Upgrades::by)
        .unwrap_or_default();
    shared.is_process = how.is_process;
    shared.say_what_is_configured(words);
    (shared.icp, shared.digests) = (sockets.icp.map(Arc::new), Arc::new(digests));
    if let (Some(cluster), Some(purges)) = (&shared.cluster, stores.purges.take()) {
        cluster.purging.set_journal(purges);
    }
    let (reloads, asks) = Reloads::new();
    if how.reread.is_some() {
        shared.reloads = reloads;
    }
    let edition = shared.edition();
    let plan = &edition.plan;
    shared.listening = sockets.listening;
    for (id, (as_read, sockets)) in edition.ids.iter().zip(sockets.listeners) {
        (shared.listening).offer(*id, as_read, sockets, plan.workers);
    }
    // A subscriber of events may come later, or a configuration that writes a log.
    let may_listen = plan.admin.is_some() || how.reread.is_some();
    let journal = open_journal(plan, &mut shared, may_listen)?;
    let shared = Arc::new(shared);
    let kind = engine.kind;
    let ready = Ready::of(plan, stores.describe(), engine);
    let starting = Starting {
        runtime,
        shared: &shared,
        engine: kind,
        journal: &journal,
    };
    let threads = starting.all(stores, from, (sockets.cluster, tls.all))?;
    let seconds = Seconds::start(Arc::clone(&shared))?;
    if let Some(user) = &plan.user {
        user::verify(user)?;
    }
    let reloading = how.reread.map(|reread| {
        let logs = journal.log_files(shared.cache.keys_id());
        let control = Control::new(
            Arc::clone(&shared),
            reread,
            configured,
            logs,
            Rc::clone(&manager),
        );
        (control, asks)
    });
    let running = Running {
        shared,
        threads,
        seconds,
        journal,
        manager,
        signals,
        admin: sockets.admin,
        reloading,
    };
    Ok((running, ready))
}

/// Does the work that may need root's rights, and gives them up.
fn open_as_root(
    plan: &mut Plan,
    devices: Option<Vec<Arc<Device>>>,
    from: Option<&mut Predecessor>,
) -> Result<(Option<Candidates>, Sockets), ServeError> {
    // Look at the stores before clients can connect: without its stores the proxy may refuse to start.
    let candidates = stores::look(plan, devices, from.as_deref())?;
    let sockets = Sockets::open(plan, from)?;
    if let Some(user) = &plan.user {
        if let Some(candidates) = &candidates {
            candidates.give_to(user)?;
        }
        user::become_user(user)?;
    }
    Ok((candidates, sockets))
}

/// Opens the journal and its events, which begin with the marks of the start.
fn open_journal(plan: &Plan, shared: &mut Shared, may_listen: bool) -> Result<Journal, ServeError> {
    let journal = Journal::open(plan, shared.cache.keys_id(), may_listen);
    let journal = journal.map_err(|source| log_error(source, plan.user.as_ref()))?;
    shared.top = journal.top();
    shared.events = Arc::new(Events::new(&journal, shared.clock.clone()));
    let at = shared.events.unix_us();
    let marks = marks::of_start(at, plan, shared.io_engine, &shared.cache);
    shared.events.open_with(marks);
    Ok(journal)
}
