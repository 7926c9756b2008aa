//! A pread/pwrite pool for where io_uring is refused.
//!
//! Each device has its own pool, made at first use and ended with the device, so that a hanging device blocks no
//! threads but its own. A job owns its buffer and its device, so its waiter may go away at any time; a read without a
//! waiter is skipped.
//!
//! Limits: 16 threads a device; at most `QUEUE_MAX` jobs wait, the next is refused as `IoFault::Busy`.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

use bytes::Bytes;
use tokio::sync::oneshot;

use crate::device::Device;
use crate::fault::IoFault;
use crate::faults::Operation;
use crate::health::Held;
use crate::table::{Answer, Order, QUEUE_MAX};
use crate::transfer::Transfer;

/// Enough to keep a disk's queue busy from two cores. Each thread costs a stack.
const THREADS: usize = 16;
const NO_PANIC: &str = "the queue's lock is never held across a job";

/// The threads of one device; they end when it is dropped.
pub(crate) struct Pool(Arc<Queue>);

#[derive(Default)]
struct Queue {
    jobs: Mutex<Jobs>,
    filled: Condvar,
}

#[derive(Default)]
struct Jobs {
    waiting: VecDeque<Job>,
    is_closed: bool,
}

struct Job {
    device: Arc<Device>,
    transfer: Transfer,
    order: Order,
    answer: oneshot::Sender<Answer>,
    held: Option<Held>,
    _counted: Counted,
}

/// One operation of an engine, counted as long as it lives.
struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Release);
    }
}

/// An engine's handle on the pool.
pub(crate) struct Threads {
    pool: Arc<Pool>,
    device: Arc<Device>,
    in_flight: Arc<AtomicUsize>,
}

impl Threads {
    /// Makes the pool if there is none yet. Fails if the first thread cannot be started.
    pub(crate) fn new(device: Arc<Device>) -> io::Result<Self> {
        Ok(Self {
            pool: device.pool()?,
            device,
            in_flight: Arc::default(),
        })
    }

    /// Hands an operation to the pool and waits for its answer.
    pub(crate) async fn run(&self, transfer: Transfer, order: Order, held: Option<Held>) -> Answer {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        let counted = Counted(Arc::clone(&self.in_flight));
        let (answer, waiter) = oneshot::channel();
        let job = Job {
            device: Arc::clone(&self.device),
            transfer,
            order,
            answer,
            held,
            _counted: counted,
        };
        {
            let mut jobs = self.pool.0.jobs.lock().expect(NO_PANIC);
            if jobs.waiting.len() >= QUEUE_MAX {
                return Err(IoFault::Busy);
            }
            jobs.waiting.push_back(job);
        }
        self.pool.0.filled.notify_one();
        waiter.await.unwrap_or(Err(IoFault::Closed))
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::Acquire)
    }
}

impl Pool {
    /// Starts the threads. Fails if the first one cannot be started.
    pub(crate) fn start() -> io::Result<Arc<Self>> {
        let pool = Self(Arc::default());
        for number in 0..THREADS {
            let queue = Arc::clone(&pool.0);
            match thread::Builder::new()
                .name(format!("disk-{number}"))
                .spawn(move || queue.serve())
            {
                Ok(_) => {}
                Err(error) if number == 0 => return Err(error),
                Err(error) => {
                    tracing::warn!(%error, threads = number, "fewer disk threads than wanted");
                    break;
                }
            }
        }
        Ok(Arc::new(pool))
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.0.jobs.lock().expect(NO_PANIC).is_closed = true;
        self.0.filled.notify_all();
    }
}

impl Queue {
    /// The loop of a thread.
    fn serve(&self) {
        loop {
            let job = {
                let mut jobs = self.jobs.lock().expect(NO_PANIC);
                loop {
                    match jobs.waiting.pop_front() {
                        Some(job) => break job,
                        None if jobs.is_closed => return,
                        None => jobs = self.filled.wait(jobs).expect(NO_PANIC),
                    }
                }
            };
            job.run();
        }
    }
}

impl Job {
    fn run(self) {
        let Self {
            device,
            transfer,
            order,
            answer,
            held,
            _counted,
        } = self;
        if matches!(order, Order::Read) && answer.is_closed() {
            return;
        }
        if let Some(faults) = device.faults() {
            faults.wait_blocking(operation(&order));
        }
        let result = carry_out(&device, transfer, order);
        // Release the device before the answer, because a waiter may rely on having the last handle.
        drop(held);
        drop(device);
        drop(_counted);
        let _ = answer.send(result);
    }
}

/// The kind of an operation, as fault plans name it.
pub(crate) fn operation(order: &Order) -> Operation {
    match order {
        Order::Read => Operation::Read,
        Order::Write(_) => Operation::Write,
        Order::Flush => Operation::Flush,
    }
}

/// Carries out the operation on this thread.
pub(crate) fn carry_out(device: &Device, transfer: Transfer, order: Order) -> Answer {
    match order {
        Order::Read => device.read_blocking(transfer),
        Order::Write(data) => device
            .write_blocking(transfer, &data)
            .map(|()| Bytes::new()),
        Order::Flush => device.flush_sync().map(|()| Bytes::new()),
    }
}
