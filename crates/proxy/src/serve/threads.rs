//! Starts the serving threads: workers, the background thread, the cluster's.
//!
//! While another process still serves, only threads that write nothing are started: the workers. They accept once it has handed over.
//!
//! Not known here: what a thread does.

use std::{net, sync::Arc, thread::JoinHandle};

use device::EngineKind;
use tokio::{runtime::LocalRuntime, sync::oneshot};

use super::{error::ServeError, stores::Stores};
use crate::{
    connecting::connector_settings,
    upgrade::{
        predecessor::Predecessor,
        step::{self, Step},
    },
    worker,
};
use base::accepting::Dealers;
use cache::{background::BackgroundThread, opening::Opened};
use cluster::{Cluster, ClusterThread};
use exchange::state::Shared;
use origin::Tls;
use record::journal::Journal;

/// The inputs for starting threads.
pub(super) struct Starting<'a> {
    /// The control thread's.
    pub runtime: &'a LocalRuntime,
    pub shared: &'a Arc<Shared>,
    pub engine: EngineKind,
    pub journal: &'a Journal,
}

/// The running threads.
pub(super) struct Threads {
    pub workers: Vec<JoinHandle<()>>,
    pub background: Option<BackgroundThread>,
    pub cluster: Option<ClusterThread>,
}

impl Starting<'_> {
    /// Starts all threads. `from` is taken at the point after which no failure lets the previous process serve on.
    pub fn all(
        &self,
        stores: Stores,
        from: &mut Option<Predecessor>,
        cluster: (Option<net::TcpListener>, Tls),
    ) -> Result<Threads, ServeError> {
        let mut started = None;
        if let Some(taking) = from.as_mut() {
            started = Some(self.workers()?);
            let taken = taking.take_over(&stores.passed);
            let taken = taken.map_err(ServeError::TakeOver)?;
            let own = self.shared.cache.store.stores();
            for (store, held) in own.zip(&taken.held) {
                store.protect(held);
            }
        }
        let taken_from = from.take();
        if let (Some(_), Some(opened)) = (&taken_from, &stores.opened) {
            opened.mark()?;
        }
        let background = stores.opened.map(|opened| self.background(opened));
        let background = background.transpose()?;
        let (workers, dealers) = match started {
            Some(started) => started,
            None => self.workers()?,
        };
        if taken_from.is_some() {
            step::at(Step::NewOpens);
        }
        self.shared.doors.send_replace(true);
        if let Some(from) = taken_from {
            from.listen_on(self.shared)?;
        }
        let (socket, tls) = cluster;
        let cluster = self.shared.cluster.as_ref().zip(socket);
        let cluster = cluster.map(|(cluster, socket)| self.cluster(cluster, socket, dealers, tls));
        Ok(Threads {
            workers,
            background,
            cluster: cluster.transpose()?,
        })
    }

    fn workers(&self) -> Result<(Vec<JoinHandle<()>>, Dealers), ServeError> {
        let (dealers, receivers) = Dealers::new(self.shared.counters.len());
        let mut threads = Vec::new();
        let mut readies = Vec::new();
        for (index, dealt) in receivers.into_iter().enumerate() {
            let (ready, is_ready) = oneshot::channel();
            let start = worker::Start {
                shared: Arc::clone(self.shared),
                index,
                engine: self.engine,
                journal: self.journal.writer(),
                dealt,
                dealers: dealers.clone(),
            };
            threads.push(worker::spawn(start, ready)?);
            readies.push(is_ready);
        }
        self.runtime.block_on(async {
            for ready in readies {
                await_ready(ready).await?;
            }
            Ok::<_, ServeError>(())
        })?;
        Ok((threads, dealers))
    }

    fn background(&self, opened: Opened) -> Result<BackgroundThread, ServeError> {
        let shared = self.shared;
        let (wake_up, events) = (
            Arc::clone(&shared.cache.wake_up),
            Arc::clone(&shared.events),
        );
        let means = (self.engine, shared.edition().plan.storing.read_wait);
        let (thread, is_ready) = BackgroundThread::start(opened.stores, means, wake_up, events)?;
        self.runtime.block_on(await_ready(is_ready))?;
        Ok(thread)
    }

    fn cluster(
        &self,
        cluster: &Arc<Cluster>,
        socket: net::TcpListener,
        dealers: Dealers,
        tls: Tls,
    ) -> Result<ClusterThread, ServeError> {
        let shared = self.shared;
        let edition = shared.edition();
        let start = cluster::Start {
            local: shared.local_cache(),
            cluster: Arc::clone(cluster),
            counters: shared.counters.clone(),
            phases: shared.phase.subscribe(),
            listeners: edition.ids.clone(),
            rules: shared.peers.rules.clone(),
            dns: edition.plan.dns.clone(),
            socket,
            dealers,
            connecting: (connector_settings(&edition.plan), tls),
        };
        Ok(ClusterThread::start(start)?)
    }
}

/// Waits until a thread reports that it has started.
pub(crate) async fn await_ready(
    ready: oneshot::Receiver<Result<(), String>>,
) -> Result<(), ServeError> {
    match ready.await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(reason)) => Err(ServeError::Worker(reason)),
        Err(_) => Err(ServeError::Worker("it ended at once".into())),
    }
}
