//! The engine for memory devices: an operation is done at once, on the caller's thread.
//!
//! Tests use it because it repeats exactly. An operation held by the fault plan becomes a task, so that it goes on
//! after its waiter has gone, as with the other engines.
//!
//! Limits: the test limits how many operations it holds.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use tokio::sync::oneshot;

use crate::device::Device;
use crate::fault::IoFault;
use crate::held::Held;
use crate::table::{Answer, Order};
use crate::threads::{carry_out, operation};
use crate::transfer::Transfer;

/// An engine's handle on its device.
pub(crate) struct Inline {
    device: Arc<Device>,
    in_flight: Rc<Cell<usize>>,
}

impl Inline {
    pub(crate) fn new(device: Arc<Device>) -> Self {
        Self {
            device,
            in_flight: Rc::default(),
        }
    }

    pub(crate) async fn run(&self, transfer: Transfer, order: Order, held: Option<Held>) -> Answer {
        #[cfg(feature = "simulation")]
        if let Some(disk) = self.device.disk() {
            let (disk, in_flight) = (Arc::clone(disk), Rc::clone(&self.in_flight));
            return crate::simulated::run(&disk, in_flight, transfer, order, held).await;
        }
        let kind = operation(&order);
        if !self
            .device
            .faults()
            .is_some_and(|faults| faults.holds(kind))
        {
            return carry_out(&self.device, transfer, order);
        }
        let (sender, waiter) = oneshot::channel();
        let (device, in_flight) = (Arc::clone(&self.device), Rc::clone(&self.in_flight));
        in_flight.set(in_flight.get() + 1);
        tokio::task::spawn_local(async move {
            if let Some(faults) = device.faults() {
                faults.wait(kind).await;
            }
            in_flight.set(in_flight.get() - 1);
            let answer = carry_out(&device, transfer, order);
            drop(held);
            let _ = sender.send(answer);
        });
        waiter.await.unwrap_or(Err(IoFault::Closed))
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight.get()
    }
}
