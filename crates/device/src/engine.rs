//! Reads, writes and flushes as futures.
//!
//! One [`Engine`] per worker and device, behind an `Rc`; which kind is chosen when it is made, and callers cannot
//! tell the difference except by the CPU it takes. Dropping a future drops only the answer: a write goes on.
//!
//! Not known here: order. Two operations on the same bytes that are in flight together may happen either way round.

use std::io;
use std::marker::PhantomData;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;

use crate::device::Device;
use crate::fault::IoFault;
use crate::health::Waiting;
use crate::held::Held;
use crate::inline::Inline;
use crate::latency::{Latency, Meter};
use crate::table::{Answer, Order};
use crate::threads::Threads;
use crate::transfer::Transfer;
use crate::uring::Uring;

/// Which engine to use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EngineKind {
    /// io_uring if it can be had, else threads; memory devices are used directly.
    #[default]
    Auto,
    /// io_uring or nothing.
    Uring,
    /// The pread/pwrite pool.
    Threads,
}

/// Why there is no engine.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// io_uring was asked for and cannot be had: use `Auto` or `Threads`.
    #[error("io_uring cannot be used: {0}")]
    Uring(io::Error),
    /// Not one thread could be started.
    #[error("no disk thread could be started: {0}")]
    Threads(io::Error),
}

/// One worker's way to a device; belongs to its thread.
pub struct Engine {
    device: Arc<Device>,
    backend: Backend,
    meter: Meter,
    _not_send: PhantomData<Rc<()>>,
}

enum Backend {
    Uring(Uring),
    Threads(Threads),
    Inline(Inline),
}

impl Engine {
    /// An engine for this thread; it does nothing before [`start`](Self::start).
    pub fn new(kind: EngineKind, device: Arc<Device>) -> Result<Self, EngineError> {
        let threads = |device| {
            Threads::new(device)
                .map(Backend::Threads)
                .map_err(EngineError::Threads)
        };
        let backend = match kind {
            EngineKind::Auto if device.as_fd().is_none() => {
                Backend::Inline(Inline::new(Arc::clone(&device)))
            }
            EngineKind::Auto => match Uring::new(Arc::clone(&device)) {
                Ok(uring) => Backend::Uring(uring),
                Err(_) => threads(Arc::clone(&device))?,
            },
            EngineKind::Uring => {
                Backend::Uring(Uring::new(Arc::clone(&device)).map_err(EngineError::Uring)?)
            }
            EngineKind::Threads => threads(Arc::clone(&device))?,
        };
        Ok(Self {
            device,
            backend,
            meter: Meter::default(),
            _not_send: PhantomData,
        })
    }

    /// `io_uring`, `threads`, or for memory devices `inline`.
    pub fn name(&self) -> &'static str {
        match &self.backend {
            Backend::Uring(_) => "io_uring",
            Backend::Threads(_) => "threads",
            Backend::Inline(_) => "inline",
        }
    }

    /// The device it works on.
    pub fn device(&self) -> &Arc<Device> {
        &self.device
    }

    /// Begins to work: spawns what it needs onto the current `LocalSet`, on a runtime with I/O enabled (it panics
    /// outside of one). Operations begun before wait until then. A second call does nothing.
    pub fn start(&self) {
        if let Backend::Uring(uring) = &self.backend {
            uring.start();
        }
    }

    /// Reads exactly `len` bytes from byte `at`; any alignment will do, whole blocks cost least.
    pub async fn read(&self, at: u64, len: usize) -> Result<Bytes, IoFault> {
        if len == 0 {
            return Ok(Bytes::new());
        }
        let transfer = self.device.plan(at, len)?;
        let bytes = transfer.buffer_bytes();
        let held = Held::new(Arc::clone(&self.device), bytes);
        let _waiting = Waiting::new(self.device.health(), bytes);
        let measured = self.meter.begin(len);
        let answer = self.run(transfer, Order::Read, Some(held)).await;
        measured.answered(answer.is_ok());
        answer
    }

    /// How long reads through this engine take.
    pub fn latency(&self) -> Latency {
        self.meter.latency()
    }

    /// Writes all of `data` at byte `at`; both in whole [`logical_block_bytes`](Device::logical_block_bytes) if the
    /// device is direct. Memory that is not aligned (see [`AlignedBuf`](crate::AlignedBuf)) is copied first. When the
    /// future is dropped the write goes on.
    pub async fn write(&self, at: u64, data: Bytes) -> Result<(), IoFault> {
        let (transfer, data) = self.device.plan_write(at, data)?;
        if data.is_empty() {
            return Ok(());
        }
        self.run(transfer, Order::Write(data), None).await.map(drop)
    }

    /// Waits until all writes that were *answered* before this call will survive a power failure.
    pub async fn flush(&self) -> Result<(), IoFault> {
        self.run(self.device.plan(0, 0)?, Order::Flush, None)
            .await
            .map(drop)
    }

    /// Operations begun and not finished, also those whose waiter has gone.
    pub fn in_flight(&self) -> usize {
        match &self.backend {
            Backend::Uring(uring) => uring.in_flight(),
            Backend::Threads(threads) => threads.in_flight(),
            Backend::Inline(inline) => inline.in_flight(),
        }
    }

    async fn run(&self, transfer: Transfer, order: Order, held: Option<Held>) -> Answer {
        match &self.backend {
            Backend::Uring(uring) => uring.run(transfer, order, held).await,
            Backend::Threads(threads) => threads.run(transfer, order, held).await,
            Backend::Inline(inline) => inline.run(transfer, order, held).await,
        }
    }
}
