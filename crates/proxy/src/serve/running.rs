//! The control thread while the proxy serves, and the end of all threads.
//!
//! Its tasks watch, answer the admin interface and ICP, reload, and handle signals, until the process drains. Workers end first, then the
//! threads that read their state, then the stores, which write their last clusters while they are closed.
//!
//! Not known here: how a proxy starts.

use std::{
    rc::Rc,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use profile::MarkKind;
use tokio::net::TcpListener;

use super::{
    answers, marks,
    seconds::Seconds,
    stopping::{Signals, drain, tell_how_they_closed},
    threads::Threads,
};
use crate::{
    connecting::{connector, connector_settings},
    reload::{self, Control},
    upgrade::successor,
};
use admin::health::watch;
use base::{
    notify::Manager,
    phase::{Phase, Stopper},
    reloads::Asks,
};
use cache::background::BackgroundThread;
use exchange::{edition::Edition, state::Shared};
use origin::signing::keeping;
use peers::fetching;
use record::journal::Journal;
use upstreams::{following::Names, probe::Looks};

/// A running proxy.
pub(super) struct Running {
    pub shared: Arc<Shared>,
    pub threads: Threads,
    pub seconds: Seconds,
    pub journal: Journal,
    pub manager: Rc<Manager>,
    /// Present in a process that handles signals.
    pub signals: Option<Signals>,
    /// The socket of the admin interface.
    pub admin: Option<TcpListener>,
    /// Present if the configuration can be read again.
    pub reloading: Option<(Control, Asks)>,
}

impl Running {
    /// Runs the control thread's tasks until requests in progress have ended.
    pub async fn until_drained(&mut self) {
        let shared = &self.shared;
        let mut phases = shared.phase.subscribe();
        tokio::task::spawn_local(watch::run(Arc::clone(shared)));
        if let Some(icp) = &shared.icp {
            tokio::task::spawn_local(answers::serve(Arc::clone(shared), Arc::clone(icp)));
        }
        let (rules, editions) = (shared.peers.rules.clone(), shared.editions.subscribe());
        let connector = Box::new(move || connector(&editions.borrow()));
        let means = fetching::Means { connector, rules };
        fetching::start(&shared.digests, &shared.edition().plan, means);
        let upgrade: admin::Upgrade = |shared| Box::pin(successor::ask(shared));
        let admin = self.admin.take().map(|socket| {
            tokio::task::spawn_local(admin::serve(Arc::clone(shared), upgrade, socket))
        });
        let editions = || shared.editions.subscribe();
        tokio::task::spawn_local(upstreams::following::run(editions(), names_of));
        tokio::task::spawn_local(upstreams::probe::run(editions(), looks_of));
        tokio::task::spawn_local(keeping::run(editions(), credentials_of));
        if let Some((control, asks)) = self.reloading.take() {
            tokio::task::spawn_local(control.run(asks));
            tokio::task::spawn_local(reload::renewing::run(Arc::clone(shared)));
            tokio::task::spawn_local(reload::ordering::run(Arc::clone(shared)));
        }
        if let Some(every) = self.manager.watchdog() {
            let manager = Rc::clone(&self.manager);
            tokio::task::spawn_local(tell_that_we_are_well(Arc::clone(shared), manager, every));
        }
        if let Some(signals) = self.signals.take() {
            let stopper = Stopper(shared.phase.clone());
            let shared = Arc::clone(shared);
            let reload = move || {
                let shared = Arc::clone(&shared);
                tokio::task::spawn_local(async move {
                    let _ = shared.reloads.ask("SIGHUP".to_owned(), false).await;
                });
            };
            let obeying = signals.obey(stopper, self.journal.reopener(), reload);
            tokio::task::spawn_local(obeying);
        }
        let _ = phases.wait_for(|p| *p >= Phase::Draining).await;
        shared.listening.forget_all();
        // After a hand-over, the other process is the service.
        if !shared.is_handed_over.load(Ordering::SeqCst) {
            self.manager.stops();
        }
        let limit = shared.edition().plan.timeouts.drain;
        drain(limit, &shared.phase, &self.threads.workers).await;
        if let (Some(admin), true) = (admin, shared.is_handed_over.load(Ordering::SeqCst)) {
            // The client that requested the upgrade waits for its answer.
            let _ = tokio::time::timeout(ADMIN_ENDS_MAX, admin).await;
        }
    }

    /// Ends the other threads. The workers have ended already.
    pub fn close(mut self) {
        let shared = &self.shared;
        self.seconds.stop();
        if let Some(thread) = self.threads.cluster {
            thread.stop();
        }
        // Flush before closing the stores, whose devices may take long.
        shared.events.flush();
        let background = self.threads.background;
        let closed = background.map(BackgroundThread::close).unwrap_or_default();
        // Mark the stop after closing the stores, which write their last clusters then.
        (shared.events).mark(MarkKind::Stop, &marks::stop(shared.began));
        shared.events.flush();
        self.journal.stop();
        tell_how_they_closed(&shared.cache.devices, closed);
    }
}

/// How long the admin interface may take to finish its answers after a hand-over.
const ADMIN_ENDS_MAX: Duration = Duration::from_secs(2);

/// Notifies the service manager while all threads make progress; without notifications it restarts the process.
async fn tell_that_we_are_well(shared: Arc<Shared>, manager: Rc<Manager>, every: Duration) {
    loop {
        let phase = *shared.phase.borrow();
        if watch::standstill(phase, &shared.pulses, &shared.cache).is_none() {
            manager.is_well();
        }
        tokio::time::sleep(every).await;
    }
}

/// The servers whose names this configuration looks up.
fn names_of(edition: &Edition) -> Names {
    Names {
        upstreams: edition.upstreams.clone(),
        dns: connector_settings(&edition.plan).dns,
    }
}

/// The signers whose credentials this configuration keeps.
fn credentials_of(edition: &Edition) -> keeping::Wanted {
    keeping::Wanted {
        signers: edition.signers.clone(),
        connecting: (connector_settings(&edition.plan), edition.tls.clone()),
        limits: edition.response_limits,
    }
}

/// The servers of upstreams that this configuration probes.
pub(crate) fn looks_of(edition: &Edition) -> Looks {
    Looks {
        upstreams: edition.upstreams.clone(),
        signers: edition.signers.clone(),
        own_addresses: edition.own_addresses.clone(),
        limits: edition.response_limits,
        connecting: (connector_settings(&edition.plan), edition.tls.clone()),
    }
}
