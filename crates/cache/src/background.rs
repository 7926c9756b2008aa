//! The background thread of all stores.
//!
//! `store` decides on log commits, notes, checkpoints and the scan after an unclean stop. This thread carries them
//! out on engines of its own, so that no worker's requests wait behind them. An invalidation wakes the thread and
//! waits for its durability handles.
//!
//! Not known here: what the work means.

use base::clock::Instant;
use std::{
    path::Path,
    rc::Rc,
    sync::{Arc, OnceLock, mpsc},
    thread,
    time::Duration,
};

use bytes::Bytes;
use device::{Device, Engine, EngineKind, IoFault};
use profile::MarkKind;
use serde_json::json;
use store::{Move, Reinsertion, Set, Settled, Store, Work, WorkOp, Write, set::DurabilityHandles};
use tokio::{
    runtime::{self, LocalOptions},
    sync::{Notify, oneshot, watch},
};

use crate::{lazy::ReadQueue, written::Member};
use base::{
    clock::unix_ms,
    pulse::{Pulse, StoreWork},
};
use record::events::{Events, ReadTimes};

/// A start waits as long for the first room as a request for a read, within these bounds.
const ROOM_WAIT_MIN: Duration = Duration::from_millis(500);
const ROOM_WAIT_MAX: Duration = Duration::from_secs(30);
/// How often the progress of a scan is logged.
const SCAN_TOLD_EVERY: Duration = Duration::from_secs(5);
/// How often a store is asked for work without a wake-up.
const TICK: Duration = Duration::from_millis(100);
/// How long a clean stop may take. After that the next start is one after a crash.
const CLOSE_MAX: Duration = Duration::from_secs(30);

/// How long a stop waits in all: for operations under way, the last writes, the checkpoint, and the engines.
const CLOSED_MAX: Duration = Duration::from_secs(120);

/// Wakes the background thread, and the callers that wait for it.
#[derive(Debug, Default)]
pub struct WakeUp {
    wake: Notify,
    done: Notify,
    /// The background thread, once it runs.
    signs: OnceLock<Signs>,
    /// In the set's order.
    queues: OnceLock<Vec<Arc<ReadQueue>>>,
}

/// The background thread's heartbeat.
#[derive(Debug)]
struct Signs {
    pulse: Pulse,
    /// In the set's order.
    works: Vec<StoreWork>,
}

impl WakeUp {
    /// Sets up the heartbeat of the background thread of these stores.
    fn expect_signs(&self, stores: &[(Arc<Store>, Arc<Device>)]) {
        let paths = stores.iter().map(|(_, device)| device.path().to_owned());
        let _ = self.signs.set(Signs {
            pulse: Pulse::default(),
            works: paths.map(StoreWork::of).collect(),
        });
    }

    /// The queues of reads for clients, in the set's order. Work that is not urgent waits until they are empty.
    pub fn watch(&self, queues: Vec<Arc<ReadQueue>>) {
        let _ = self.queues.set(queues);
    }

    /// Do reads for clients wait for this store's device?
    fn has_waiting_reads(&self, store: usize) -> bool {
        let queue = self.queues.get().and_then(|queues| queues.get(store));
        queue.is_some_and(|queue| queue.waiting() > 0)
    }

    /// There is work.
    pub fn ring(&self) {
        self.wake.notify_waiters();
    }

    /// Some work was done elsewhere.
    pub fn tell_done(&self) {
        self.done.notify_waiters();
    }

    /// Waits until there may be work, with a limit.
    pub async fn rung(&self, longest: Duration) {
        let _ = tokio::time::timeout(longest, self.wake.notified()).await;
    }

    /// The heartbeat of the background thread; `None` without one.
    pub fn background_pulse(&self) -> Option<&Pulse> {
        self.signs.get().map(|signs| &signs.pulse)
    }

    /// For each store, in the set's order, a record of its work under way, which shows whether operations end.
    pub fn works(&self) -> &[StoreWork] {
        self.signs.get().map_or(&[], |signs| &signs.works)
    }

    /// Waits until some work was done, with a limit.
    pub async fn work_done(&self, longest: Duration) {
        let done = self.done.notified();
        self.ring();
        let _ = tokio::time::timeout(longest, done).await;
    }

    /// Waits until the invalidation is durable or has failed. Gives up, with the invalidation still pending, at the
    /// deadline or if the device is set aside.
    pub async fn settle(
        &self,
        set: &Set,
        handles: &DurabilityHandles,
        deadline: Instant,
        is_hopeless: impl Fn() -> bool,
    ) -> Settled {
        loop {
            let done = self.done.notified();
            match set.settled(handles) {
                Settled::Pending => {}
                settled => return settled,
            }
            self.ring();
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || is_hopeless() {
                return Settled::Pending;
            }
            // Not longer than a tick, since a wake-up may come between two waits.
            let _ = tokio::time::timeout(left.min(TICK), done).await;
        }
    }
}

/// The running background thread.
pub struct BackgroundThread {
    stop: watch::Sender<bool>,
    closed: mpsc::Receiver<Vec<Result<(), String>>>,
}

impl BackgroundThread {
    /// Starts the thread, with an engine for each store. It reports ready once every store has room, so that the first answers are stored
    /// too, or after `room_wait`.
    pub fn start(
        stores: Vec<(Arc<Store>, Arc<Device>)>,
        (kind, room_wait): (EngineKind, Duration),
        wake_up: Arc<WakeUp>,
        events: Arc<Events>,
    ) -> std::io::Result<(BackgroundThread, oneshot::Receiver<Result<(), String>>)> {
        wake_up.expect_signs(&stores);
        let (stop, stopped) = watch::channel(false);
        let (ready, is_ready) = oneshot::channel();
        let (done, closed) = mpsc::channel();
        thread::Builder::new()
            .name("background".into())
            .spawn(move || {
                let means = (kind, wake_up, events);
                done.send(run(stores, means, stopped, (ready, room_wait)))
            })?;
        Ok((BackgroundThread { stop, closed }, is_ready))
    }

    /// Closes the stores after all workers have ended, and returns the result of each.
    pub fn close(self) -> Vec<Result<(), String>> {
        self.stop.send_replace(true);
        // Do not wait for the thread to end: a hung disk could hold it forever.
        let closed = self.closed.recv_timeout(CLOSED_MAX);
        closed.unwrap_or_else(|_| {
            vec![Err(
                "the background thread does not end, or has failed".into()
            )]
        })
    }
}

fn run(
    stores: Vec<(Arc<Store>, Arc<Device>)>,
    means: (EngineKind, Arc<WakeUp>, Arc<Events>),
    stopped: watch::Receiver<bool>,
    (ready, room_wait): (oneshot::Sender<Result<(), String>>, Duration),
) -> Vec<Result<(), String>> {
    let runtime = runtime::Builder::new_current_thread()
        .enable_all()
        .build_local(LocalOptions::default());
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => {
            let _ = ready.send(Err(error.to_string()));
            return Vec::new();
        }
    };
    runtime.block_on(keep_all(stores, means, stopped, (ready, room_wait)))
}

/// The background work of all stores as one task, for a simulation.
#[cfg(feature = "simulation")]
pub async fn as_task(
    stores: Vec<(Arc<Store>, Arc<Device>)>,
    wake_up: Arc<WakeUp>,
    events: Arc<Events>,
    stopped: watch::Receiver<bool>,
    ready: (oneshot::Sender<Result<(), String>>, Duration),
) -> Vec<Result<(), String>> {
    wake_up.expect_signs(&stores);
    let means = (EngineKind::Auto, wake_up, events);
    keep_all(stores, means, stopped, ready).await
}

/// Keeps all stores until they are closed.
async fn keep_all(
    stores: Vec<(Arc<Store>, Arc<Device>)>,
    (kind, wake_up, events): (EngineKind, Arc<WakeUp>, Arc<Events>),
    stopped: watch::Receiver<bool>,
    (ready, room_wait): (oneshot::Sender<Result<(), String>>, Duration),
) -> Vec<Result<(), String>> {
    let kept: Vec<_> = stores.iter().map(|(store, _)| Arc::clone(store)).collect();
    let mut keeping = Vec::new();
    for (index, (store, device)) in stores.into_iter().enumerate() {
        match Engine::new(kind, device) {
            Ok(engine) => {
                engine.start();
                let wake_up = Arc::clone(&wake_up);
                let kept = Kept {
                    member: Member {
                        index,
                        of: kept.len(),
                    },
                    store,
                    engine,
                    events: Arc::clone(&events),
                };
                let keeping_it = keep(Rc::new(kept), wake_up, stopped.clone());
                keeping.push(tokio::task::spawn_local(keeping_it));
            }
            Err(error) => {
                let _ = ready.send(Err(error.to_string()));
                return Vec::new();
            }
        }
    }
    tokio::task::spawn_local(beat(Arc::clone(&wake_up)));
    let until = Instant::now() + room_wait.clamp(ROOM_WAIT_MIN, ROOM_WAIT_MAX);
    while !kept.iter().all(|store| store.has_room_for(1)) && Instant::now() < until {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let _ = ready.send(Ok(()));
    let mut ended = Vec::new();
    for kept in keeping {
        ended.push(kept.await.unwrap_or_else(|e| Err(e.to_string())));
    }
    ended
}

/// Beats for this thread, even while its operations wait.
async fn beat(wake_up: Arc<WakeUp>) {
    while let Some(pulse) = wake_up.background_pulse() {
        pulse.beat();
        tokio::time::sleep(TICK).await;
    }
}

/// A store that is kept.
struct Kept {
    member: Member,
    store: Arc<Store>,
    engine: Engine,
    events: Arc<Events>,
}

impl Kept {
    /// Reads, and records that the read served `objects` objects.
    async fn read(&self, offset: u64, len: usize, objects: usize) -> Result<Bytes, IoFault> {
        let asked = self.events.now_if_wanted();
        let bytes = self.engine.read(offset, len).await?;
        if let Some(asked) = asked {
            let times = ReadTimes {
                asked,
                given: asked,
            };
            self.events.read(self.member.index, times, len, objects);
        }
        Ok(bytes)
    }

    /// Writes a cluster, and tells the store.
    async fn write(&self, write: Write) -> Result<(), IoFault> {
        let underway = self.member.begin(&write);
        let written = self.engine.write(write.offset, write.data).await;
        if written.is_ok() {
            underway.done(&self.events);
        }
        self.store.write_done(write.id, written.is_ok(), unix_ms());
        written
    }
}

/// Does the work of one store until it is closed.
async fn keep(
    kept: Rc<Kept>,
    wake_up: Arc<WakeUp>,
    mut stopped: watch::Receiver<bool>,
) -> Result<(), String> {
    let Kept { store, engine, .. } = &*kept;
    let mut closing_until: Option<Instant> = None;
    let mut scan = Scan::of(store, engine.device().path());
    let step = Rc::new(Notify::new());
    // Each move or reinsertion under way holds one more reference.
    let moving = Rc::new(());
    loop {
        let woken = wake_up.wake.notified();
        while let Some(work) = store.next_work(unix_ms()) {
            let kept = Rc::clone(&kept);
            let (wake_up, step) = (Arc::clone(&wake_up), Rc::clone(&step));
            tokio::task::spawn_local(async move {
                let signs = wake_up.works().get(kept.member.index);
                signs.inspect(|work| work.begin());
                carry_out(&kept, work).await;
                signs.inspect(|work| work.end());
                wake_up.done.notify_waiters();
                step.notify_one();
            });
        }
        // Not during a stop: no answer needs records any more.
        while closing_until.is_none()
            && let Some(moved) = store.next_move()
        {
            let kept = Rc::clone(&kept);
            let (wake_up, step) = (Arc::clone(&wake_up), Rc::clone(&step));
            let moving = Rc::clone(&moving);
            tokio::task::spawn_local(async move {
                carry_out_move(&kept, moved).await;
                wake_up.done.notify_waiters();
                step.notify_one();
                drop(moving);
            });
        }
        if closing_until.is_none() && has_time(&kept, &wake_up) {
            begin_reinsertion(&kept, &step, &moving);
        }
        if let Some(under_way) = &mut scan
            && under_way.is_over(&kept)
        {
            scan = None;
        }
        if let Some(until) = closing_until {
            if store.is_closed() {
                return match store.recovery() {
                    None => Ok(()),
                    Some(_) => Err("what a crash left was still being looked through".into()),
                };
            }
            if Instant::now() >= until || engine.device().health().is_aside() {
                return Err("the disk did not take the last checkpoint in time".into());
            }
        }
        tokio::select! {
            biased;
            () = woken => {}
            () = step.notified() => {}
            () = tokio::time::sleep(next_look(&kept, &wake_up)) => {}
            _ = stopped.changed(), if closing_until.is_none() => {
                let until = Instant::now() + CLOSE_MAX;
                while Rc::strong_count(&moving) > 1 && Instant::now() < until {
                    let _ = tokio::time::timeout(TICK, step.notified()).await;
                }
                for write in store.flush() {
                    let left = until.saturating_duration_since(Instant::now());
                    if tokio::time::timeout(left, kept.write(write)).await.is_err() {
                        return Err("the disk did not take the last writes in time".into());
                    }
                }
                store.begin_close();
                closing_until = Some(Instant::now() + CLOSE_MAX);
            }
        }
    }
}

/// Is there time for work that is not urgent: does the device answer, and do no reads for clients wait for it?
fn has_time(kept: &Kept, wake_up: &WakeUp) -> bool {
    let health = kept.engine.device().health();
    !health.is_aside() && !wake_up.has_waiting_reads(kept.member.index)
}

/// When to ask the store again without a wake-up.
fn next_look(kept: &Kept, wake_up: &WakeUp) -> Duration {
    let (store, now_ms) = (&kept.store, unix_ms());
    let ms = store.next_work_in_ms(now_ms, TICK.as_millis() as u64);
    let ms = match has_time(kept, wake_up) {
        true => store.next_reinsertion_in_ms(now_ms, ms),
        false => ms,
    };
    Duration::from_millis(ms)
}

/// The scan after an unclean stop, as it is logged.
struct Scan {
    path: String,
    began: Instant,
    told: Instant,
}

impl Scan {
    fn of(store: &Store, path: &Path) -> Option<Scan> {
        store.recovery().map(|_| Scan {
            path: path.display().to_string(),
            began: Instant::now(),
            told: Instant::now(),
        })
    }

    /// Logs the progress from time to time, and the end.
    fn is_over(&mut self, kept: &Kept) -> bool {
        let (path, store) = (&self.path, &kept.store);
        match store.recovery() {
            None => {
                let records = store.figures().recovered;
                let seconds = self.began.elapsed().as_secs_f64();
                tracing::info!("store {path}: {records} more records found in {seconds:.1} s");
                let (store, ms) = (kept.member.index, (seconds * 1000.0) as u64);
                let text = json!({ "store": store, "records": records, "ms": ms });
                kept.events.mark(MarkKind::ScanEnd, &text.to_string());
                true
            }
            Some(progress) => {
                if self.told.elapsed() >= SCAN_TOLD_EVERY {
                    self.told = Instant::now();
                    let percent = progress.done_bytes * 100 / progress.total_bytes.max(1);
                    let records = progress.records;
                    tracing::info!(
                        "store {path}: {percent} % looked through, {records} records found"
                    );
                }
                false
            }
        }
    }
}

/// Moves needed records: reads them and writes them again before the hand reaches them.
async fn carry_out_move(kept: &Kept, moved: Move) {
    let store = &kept.store;
    let read = kept.read(moved.offset(), moved.bytes(), 1).await;
    let bytes = read
        .map_err(
            |error| tracing::warn!(%error, "what is being sent could not be kept from eviction"),
        )
        .ok();
    for write in store.move_done(moved, bytes, unix_ms()) {
        if let Err(error) = kept.write(write).await {
            tracing::error!(%error, "a write failed; its objects are dropped and caching pauses");
        }
    }
}

/// Begins to read the records that the sweep reaches next, if the store wants that now.
fn begin_reinsertion(kept: &Rc<Kept>, step: &Rc<Notify>, moving: &Rc<()>) {
    if let Some(read) = kept.store.next_reinsertion(unix_ms()) {
        let (kept, step) = (Rc::clone(kept), Rc::clone(step));
        let moving = Rc::clone(moving);
        tokio::task::spawn_local(async move {
            carry_out_reinsertion(&kept, read).await;
            step.notify_one();
            drop(moving);
        });
    }
}

/// Reads the records that the sweep reaches next, and writes the best of them again.
async fn carry_out_reinsertion(kept: &Kept, read: Reinsertion) {
    let bytes = kept.read(read.offset(), read.bytes(), 0).await;
    let bytes = bytes
        .map_err(|error| tracing::warn!(%error, "what is to be evicted next could not be read"))
        .ok();
    let store = &kept.store;
    for write in store.reinsertion_done(read, bytes, unix_ms()) {
        if let Err(error) = kept.write(write).await {
            tracing::error!(%error, "a write failed; its objects are dropped and caching pauses");
        }
    }
}

async fn carry_out(kept: &Kept, work: Work) {
    let Kept { store, engine, .. } = kept;
    let result = match work.op {
        WorkOp::Read { offset, len } => kept.read(offset, len, 0).await.map(Some),
        WorkOp::Write { offset, data } => engine.write(offset, data).await.map(|()| None),
        WorkOp::Flush => engine.flush().await.map(|()| None),
        WorkOp::Yield => {
            tokio::task::yield_now().await;
            // The store computes on another thread, while this one keeps the device busy.
            let store = Arc::clone(store);
            let computing = move || store.work_done(work.id, Ok(None), unix_ms());
            #[cfg(feature = "simulation")]
            if device::simulated::is_simulated(engine.device()) {
                computing(); // on this thread: two threads would not repeat exactly
                return;
            }
            if let Err(error) = tokio::task::spawn_blocking(computing).await {
                tracing::error!(%error, "the store's own work has failed");
            }
            return;
        }
    };
    let result = result.map_err(|error| {
        tracing::warn!(%error, "work in the background failed; it will be tried again");
    });
    store.work_done(work.id, result, unix_ms());
}
