//! A pread/pwrite pool for where io_uring is refused.
//!
//! The threads are the device's (`pool`). A job owns its buffer and its device, so the waiter may go away at any time; a read
//! that nobody waits for is then not made.
//!
//! Limits: at most `QUEUE_MAX` jobs wait, the next is refused as `IoFault::Busy`.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use tokio::sync::oneshot;

use crate::device::Device;
use crate::fault::IoFault;
use crate::faults::Operation;
use crate::held::Held;
use crate::pool::Pool;
use crate::table::{Answer, Order, QUEUE_MAX};
use crate::transfer::Transfer;

/// One operation on its way through the pool.
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
    /// Makes the pool if it is not there yet; the error is of starting the first thread.
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
        if !self.pool.submit(Box::new(|| job.run()), QUEUE_MAX) {
            return Err(IoFault::Busy);
        }
        waiter.await.unwrap_or(Err(IoFault::Closed))
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::Acquire)
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
        // The device is let go before the answer is given: who awaited it may count on that.
        drop(held);
        drop(device);
        drop(_counted);
        let _ = answer.send(result);
    }
}

/// The kind of an order, as fault plans name it.
pub(crate) fn operation(order: &Order) -> Operation {
    match order {
        Order::Read => Operation::Read,
        Order::Write(_) => Operation::Write,
        Order::Flush => Operation::Flush,
    }
}

/// Does it, on this thread.
pub(crate) fn carry_out(device: &Device, transfer: Transfer, order: Order) -> Answer {
    match order {
        Order::Read => device.read_blocking(transfer),
        Order::Write(data) => device
            .write_blocking(transfer, &data)
            .map(|()| Bytes::new()),
        Order::Flush => device.flush_sync().map(|()| Bytes::new()),
    }
}
