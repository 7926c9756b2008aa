//! A store on a real file, driven as the proxy drives it: one thread, one engine, concurrent reads and writes.
//!
//! Everything here runs on the `LocalSet` of [`on_this_thread`]. The file is read and written past the page cache if its
//! file system supports that, so the device is measured.
//!
//! Not known here: the stored objects, the measurements.
//! Limits: the caller bounds the writes under way by [`Disk::room`]; the store bounds its background work.

use std::cell::Cell;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use device::{AlignedBuf, Device, Engine, EngineKind, OpenOptions};
use store::{
    Found, Geometry, Identity, KeyHash, Lookup, NewRecord, OpenPlan, Outcome, RecordParts,
    Settings, Store, Superblock, WorkOp, Writes,
};
use tokio::sync::Notify;

use crate::chance::Chance;
use crate::failure::{During, Failure, Result, fail};
use crate::interrupt;

/// The length of each transfer when a whole file is read or written, and how many are under way.
const TRANSFER_BYTES: u64 = 1 << 20;
const TRANSFERS: usize = 4;
/// Clusters being written before a writer waits.
const WRITES_MAX: usize = 4;
/// How long an insert waits for room before that counts as a fault.
const PATIENCE: Duration = Duration::from_secs(10);
/// How much of the file system must stay free.
const SPARE_BYTES: u64 = 1 << 30;

/// Runs a future, and what it spawns, on this thread.
pub fn on_this_thread<T>(future: impl Future<Output = Result<T>>) -> Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .during(|| "starting a runtime".into())?;
    tokio::task::LocalSet::new().block_on(&runtime, future)
}

/// A file of the bench's own, removed when dropped.
#[derive(Debug)]
pub struct Scratch(pub PathBuf);

impl Scratch {
    /// A name in `dir` for a file of `bytes`, if there is room for it.
    pub fn new(dir: &Path, name: &str, bytes: u64) -> Result<Self> {
        std::fs::create_dir_all(dir).during(|| format!("making {}", dir.display()))?;
        let space = rustix::fs::statvfs(dir).during(|| format!("looking at {}", dir.display()))?;
        let free = space.f_bavail * space.f_frsize;
        if free < bytes + SPARE_BYTES {
            fail!(
                "{} has {} MiB free, {} MiB are needed; name another directory or a smaller store",
                dir.display(),
                free >> 20,
                (bytes + SPARE_BYTES) >> 20
            );
        }
        let path = dir.join(name);
        let _ = std::fs::remove_file(&path);
        Ok(Self(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// How long the steps of an opening took, in milliseconds.
#[derive(Debug, Default, Clone, serde::Serialize, serde::Deserialize)]
pub struct Opening {
    pub words: String,
    pub records: u64,
    pub scan_bytes: u64,
    pub direct: bool,
    pub engine: String,
    /// Opening the file, the superblock, the engine.
    pub open_ms: f64,
    /// Reading log, journal and checkpoint.
    pub read_ms: f64,
    pub read_bytes: u64,
    /// Building the index from those bytes.
    pub build_ms: f64,
    /// Writing the superblock that says *open*, with its flushes.
    pub mark_ms: f64,
}

/// A store, its device and the operations under way.
#[derive(Clone)]
pub struct Disk {
    pub store: Arc<Store>,
    engine: Rc<Engine>,
    state: Rc<UnderWay>,
}

#[derive(Default)]
struct UnderWay {
    writes: Cell<usize>,
    works: Cell<usize>,
    reads: Cell<usize>,
    /// Set while no new background work is begun.
    held: Cell<bool>,
    background_bytes: Cell<u64>,
    failures: Cell<u64>,
    one_done: Notify,
}

impl Disk {
    /// Opens the store on `path`, or makes one of `size_bytes`.
    pub async fn open(
        path: &Path,
        size_bytes: Option<u64>,
        settings: &Settings,
    ) -> Result<(Self, Opening)> {
        let mut opening = Opening::default();
        let mut last = Instant::now();
        let mut lap = || {
            let ms = last.elapsed().as_secs_f64() * 1e3;
            last = Instant::now();
            ms
        };
        let engine = open_engine(path, size_bytes)?;
        let device = engine.device();
        opening.direct = device.is_direct();
        opening.engine = engine.name().into();
        let geometry = Geometry::plan(device.size(), Geometry::CHUNK_BYTES_DEFAULT)
            .during(|| "planning the store".into())?;
        let start = read(&engine, 0, Superblock::BYTES as u64).await?;
        let plan = OpenPlan::of(&start, &geometry);
        opening.open_ms = lap();
        let store = match plan {
            OpenPlan::Refused { message } => fail!("{}: {message}", path.display()),
            OpenPlan::Fresh { reason, previous } => {
                let identity = match &previous {
                    Some(previous) => identity().after(previous),
                    None => identity(),
                };
                opening.words = reason.into();
                Store::create(geometry, settings, identity)
            }
            OpenPlan::Recover {
                superblock,
                checkpoint,
            } => {
                let [log, journal] = geometry.logs();
                let mut found = Found {
                    log: Some(read(&engine, log.0, log.1 as u64).await?),
                    journal: Some(read(&engine, journal.0, journal.1 as u64).await?),
                    checkpoint: None,
                };
                opening.read_bytes = (log.1 + journal.1) as u64;
                if let Some(at) = checkpoint {
                    found.checkpoint = Some(read(&engine, at.offset, at.bytes).await?);
                    opening.read_bytes += at.bytes;
                }
                opening.read_ms = lap();
                let (store, recovered) = Store::recover(superblock, &found, settings, identity());
                opening.words = recovered.words;
                opening.records = recovered.records;
                opening.scan_bytes = recovered.scan_bytes;
                store
            }
        };
        opening.build_ms = lap();
        for (offset, data) in store.opening() {
            engine
                .write(offset, data)
                .await
                .during(|| "writing the superblock".into())?;
            engine.flush().await.during(|| "flushing".into())?;
        }
        opening.mark_ms = lap();
        let disk = Self {
            store: Arc::new(store),
            engine,
            state: Rc::default(),
        };
        Ok((disk, opening))
    }

    /// Stores a record; waits while the device is behind. True if it was stored.
    pub async fn insert(&self, record: &NewRecord<'_>) -> Result<bool> {
        let began = Instant::now();
        loop {
            let inserted = self.store.insert(record, unix_ms());
            if !inserted.writes.is_empty() {
                self.carry_out(inserted.writes);
                self.work();
                tokio::task::yield_now().await;
                self.room(WRITES_MAX).await;
            }
            match inserted.outcome {
                Outcome::Stored => return Ok(true),
                Outcome::TooLarge | Outcome::Invalidated => return Ok(false),
                Outcome::NoSpace | Outcome::Paused | Outcome::Behind => {}
            }
            interrupt::check()?;
            if began.elapsed() > PATIENCE {
                fail!("nothing can be stored: {:?}", inserted.outcome);
            }
            self.work();
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    /// Reads and verifies a record. Also returns the bytes read from the device, 0 if the record was buffered.
    pub async fn get(&self, hash: KeyHash) -> Option<(RecordParts, usize)> {
        self.load(hash, false).await
    }

    /// `renew`: gives the record its second chance if its eviction is near.
    async fn load(&self, hash: KeyHash, renew: bool) -> Option<(RecordParts, usize)> {
        let read = match self.store.look_up(hash) {
            Lookup::Absent => return None,
            Lookup::Buffered(bytes) => return Some((self.store.decode(&bytes, hash).ok()?, 0)),
            Lookup::OnDisk(read) => read,
        };
        let len = read.len;
        let guard = self.store.guard(read);
        let bytes = self.engine.read(guard.read().offset, len).await.ok()?;
        let parts = self.store.decode_read(&bytes, guard.read());
        let renewal = guard.read().renewal().filter(|_| renew);
        let may_serve = guard.done();
        let parts = parts.ok().filter(|_| may_serve)?;
        if let Some(renewal) = renewal {
            let renewed = self.store.renew(renewal, &parts, unix_ms());
            self.carry_out(renewed.writes);
            self.work();
        }
        Some((parts, len))
    }

    /// As [`Self::get`], but the record gets its second chance. Runs in a task of its own, once fewer than `most` such tasks are under way.
    pub async fn get_soon(&self, hash: KeyHash, most: usize) {
        while self.state.reads.get() >= most {
            self.one_done().await;
        }
        self.state.reads.set(self.state.reads.get() + 1);
        let this = self.clone();
        tokio::task::spawn_local(async move {
            let _ = this.load(hash, true).await;
            this.state.reads.set(this.state.reads.get() - 1);
            this.state.one_done.notify_waiters();
        });
    }

    fn carry_out(&self, writes: Writes) {
        for write in writes {
            self.state.writes.set(self.state.writes.get() + 1);
            let this = self.clone();
            tokio::task::spawn_local(async move {
                let ok = this.engine.write(write.offset, write.data).await.is_ok();
                this.store.write_done(write.id, ok, unix_ms());
                this.state.writes.set(this.state.writes.get() - 1);
                this.ended(ok);
            });
        }
    }

    /// Begins all background work there is.
    pub fn work(&self) {
        while !self.state.held.get()
            && let Some(work) = self.store.next_work(unix_ms())
        {
            self.state.works.set(self.state.works.get() + 1);
            let this = self.clone();
            tokio::task::spawn_local(async move {
                let is_computing = matches!(work.op, WorkOp::Yield);
                let done = match work.op {
                    WorkOp::Read { offset, len } => this.engine.read(offset, len).await.map(Some),
                    WorkOp::Write { offset, data } => {
                        let bytes = this.state.background_bytes.get() + data.len() as u64;
                        this.state.background_bytes.set(bytes);
                        this.engine.write(offset, data).await.map(|()| None)
                    }
                    WorkOp::Flush => this.engine.flush().await.map(|()| None),
                    WorkOp::Yield => {
                        tokio::task::yield_now().await;
                        Ok(None)
                    }
                };
                let ok = done.is_ok();
                let store = Arc::clone(&this.store);
                let report = move || store.work_done(work.id, done.map_err(drop), unix_ms());
                if is_computing {
                    // As the proxy's background thread does it.
                    let _ = tokio::task::spawn_blocking(report).await;
                } else {
                    report();
                }
                this.state.works.set(this.state.works.get() - 1);
                this.ended(ok);
                this.work();
            });
        }
    }

    fn ended(&self, ok: bool) {
        let failures = self.state.failures.get() + u64::from(!ok);
        self.state.failures.set(failures);
        self.state.one_done.notify_waiters();
    }

    /// Stops beginning background work, and waits until the work under way has ended.
    pub async fn hold(&self) {
        self.state.held.set(true);
        while self.state.works.get() > 0 {
            self.one_done().await;
        }
    }

    /// Allows background work again.
    pub fn go_on(&self) {
        self.state.held.set(false);
        self.work();
    }

    /// Waits until fewer than `most` clusters are being written.
    pub async fn room(&self, most: usize) {
        while self.state.writes.get() >= most {
            self.one_done().await;
        }
    }

    /// Waits until an operation ends, but not for long.
    pub async fn one_done(&self) {
        let one_done = self.state.one_done.notified();
        let _ = tokio::time::timeout(Duration::from_millis(100), one_done).await;
    }

    /// Writes the open cluster out, and waits for all writes.
    pub async fn settle(&self) -> Result<()> {
        self.carry_out(self.store.flush());
        self.room(1).await;
        if self.state.failures.get() > 0 {
            fail!("{} disk operations failed", self.state.failures.get());
        }
        Ok(())
    }

    /// Stops cleanly. Returns the time in milliseconds.
    pub async fn close(&self) -> Result<f64> {
        let began = Instant::now();
        self.settle().await?;
        self.store.begin_close();
        self.work();
        while !self.store.is_closed() {
            interrupt::check()?;
            if self.state.failures.get() > 0 {
                fail!("{} disk operations failed", self.state.failures.get());
            }
            self.one_done().await;
            self.work();
        }
        while self.state.works.get() > 0 {
            self.one_done().await;
        }
        Ok(began.elapsed().as_secs_f64() * 1e3)
    }

    /// Bytes of checkpoints, log and journal written so far.
    pub fn background_bytes(&self) -> u64 {
        self.state.background_bytes.get()
    }

    /// Reads `bytes` bytes in sequence from byte `at`, going round at the end of the data area, as `dd` would with four
    /// reads of 1 MiB under way. Returns the time in seconds.
    pub async fn read_in_a_row(&self, at: u64, bytes: u64) -> Result<f64> {
        let geometry = self.store.geometry();
        let (from, span) = (geometry.data_at, geometry.data_bytes() / TRANSFER_BYTES);
        let first = at.saturating_sub(from) / TRANSFER_BYTES;
        let began = Instant::now();
        let all = bytes / TRANSFER_BYTES;
        let engine = &self.engine;
        in_parallel(all, |n| {
            let engine = Rc::clone(engine);
            let at = from + (first + n) % span * TRANSFER_BYTES;
            async move { engine.read(at, TRANSFER_BYTES as usize).await.map(drop) }
        })
        .await?;
        Ok(began.elapsed().as_secs_f64())
    }
}

/// Carries out `count` transfers, a few at a time.
async fn in_parallel<F>(count: u64, transfer: impl Fn(u64) -> F) -> Result<()>
where
    F: Future<Output = Result<(), device::IoFault>> + 'static,
{
    let mut under_way = std::collections::VecDeque::new();
    for n in 0..count {
        if under_way.len() == TRANSFERS
            && let Some(first) = under_way.pop_front()
        {
            joined(first).await?;
        }
        under_way.push_back(tokio::task::spawn_local(transfer(n)));
    }
    for last in under_way {
        joined(last).await?;
    }
    Ok(())
}

async fn joined(task: tokio::task::JoinHandle<Result<(), device::IoFault>>) -> Result<()> {
    match task.await {
        Ok(done) => done.during(|| "a disk operation".into()),
        Err(error) => Err(Failure::new(error.to_string())),
    }
}

/// Writes a new file full of noise, so that what is written later overwrites.
pub async fn write_all_over(path: &Path, size_bytes: u64) -> Result<()> {
    let engine = open_engine(path, Some(size_bytes))?;
    let mut random = Chance::new(9);
    let noise: Vec<u8> = (0..TRANSFER_BYTES / 8)
        .flat_map(|_| random.draw().to_le_bytes())
        .collect();
    let noise = device::AlignedBuf::copy_of(&noise).into_bytes();
    let size = engine.device().size();
    in_parallel(size.div_ceil(TRANSFER_BYTES), |n| {
        let (engine, at) = (Rc::clone(&engine), n * TRANSFER_BYTES);
        let data = noise.slice(..TRANSFER_BYTES.min(size - at) as usize);
        async move { engine.write(at, data).await }
    })
    .await?;
    // A file with foreign content would be refused as a store, so zero its beginning.
    let blank = Bytes::from(vec![0; Superblock::BYTES]);
    engine.write(0, blank).await.during(|| "writing".into())?;
    engine.flush().await.during(|| "flushing".into())
}

/// Overwrites both checkpoint areas.
pub async fn destroy_checkpoints(path: &Path) -> Result<()> {
    let engine = open_engine(path, None)?;
    let geometry = Geometry::plan(engine.device().size(), Geometry::CHUNK_BYTES_DEFAULT)
        .during(|| "planning the store".into())?;
    let mut at = geometry.checkpoint_at;
    let end = at + 2 * geometry.checkpoint_bytes;
    while at < end {
        let len = TRANSFER_BYTES.min(end - at);
        let zeros = device::AlignedBuf::zeroed(len as usize).into_bytes();
        engine.write(at, zeros).await.during(|| "writing".into())?;
        at += len;
    }
    engine.flush().await.during(|| "flushing".into())
}

fn open_engine(path: &Path, size_bytes: Option<u64>) -> Result<Rc<Engine>> {
    let options = OpenOptions {
        size_bytes,
        create: size_bytes.is_some(),
        direct: true,
        ..OpenOptions::default()
    };
    let opened = Device::open(path, options).during(|| format!("opening {}", path.display()))?;
    let engine = Engine::new(EngineKind::Auto, opened.device)
        .during(|| format!("an engine on {}", path.display()))?;
    engine.start();
    Ok(Rc::new(engine))
}

async fn read(engine: &Rc<Engine>, at: u64, len: u64) -> Result<Bytes> {
    let bytes = Rc::new(std::cell::RefCell::new(AlignedBuf::zeroed(len as usize)));
    in_parallel(len.div_ceil(TRANSFER_BYTES), |n| {
        let (engine, into) = (Rc::clone(engine), Rc::clone(&bytes));
        async move {
            let from = n * TRANSFER_BYTES;
            let part = TRANSFER_BYTES.min(len - from) as usize;
            let read = engine.read(at + from, part).await?;
            into.borrow_mut()[from as usize..][..part].copy_from_slice(&read);
            Ok(())
        }
    })
    .await?;
    let bytes = Rc::into_inner(bytes).expect("all reads have ended");
    Ok(bytes.into_inner().into_bytes())
}

/// An identity that is not secret, but differs between stores.
fn identity() -> Identity {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let mut random = Chance::new(now.as_nanos() as u64);
    Identity::new(std::array::from_fn(|_| random.draw() as u8))
}

/// Wall time, milliseconds since 1970.
pub fn unix_ms() -> u64 {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    now.as_millis() as u64
}
