//! Devices of a simulation: a [`Disk`] keeps the bytes, answers in virtual time, and makes the mistakes of real disks.
//!
//! Not known here: which faults happen, and when.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use tokio::sync::oneshot;

use crate::buffer::ALIGN_BYTES;
use crate::device::Device;
use crate::fault::IoFault;
use crate::held::Held;
use crate::table::{Answer, Order};
use crate::transfer::Transfer;

pub use crate::disk::{Asked, Disk};

/// Is it a device of a simulation?
pub fn is_simulated(device: &Device) -> bool {
    device.disk().is_some()
}

/// [`Device::probe`] in virtual time.
pub async fn probe(device: &Arc<Device>, nth: u64) {
    let Some(disk) = device.disk() else { return };
    let blocks = (device.size() / ALIGN_BYTES as u64).max(1);
    let asked = Asked::Read {
        at: nth % blocks * ALIGN_BYTES as u64,
        len: ALIGN_BYTES,
    };
    let (answer, answered) = oneshot::channel();
    disk.begin(asked, answer);
    // An error is an answer too.
    if answered.await.is_ok() {
        device.health().answered();
    }
}

/// Carries out an operation. The operation goes on if this future is dropped.
pub(crate) async fn run(
    disk: &Arc<dyn Disk>,
    in_flight: Rc<Cell<usize>>,
    transfer: Transfer,
    order: Order,
    held: Option<Held>,
) -> Answer {
    let (at, wanted) = (transfer.wanted_at(), transfer.wanted());
    let asked = match order {
        Order::Read => Asked::Read { at, len: wanted },
        Order::Write(data) => Asked::Write { at, data },
        Order::Flush => Asked::Flush,
    };
    let (answer, answered) = oneshot::channel();
    disk.begin(asked, answer);
    let (sender, waiter) = oneshot::channel();
    in_flight.set(in_flight.get() + 1);
    tokio::task::spawn_local(async move {
        let answer = answered.await;
        in_flight.set(in_flight.get() - 1);
        drop(held);
        let _ = sender.send(match answer {
            Ok(result) => result.map_err(|error| IoFault::device(at, wanted, error)),
            Err(_) => Err(IoFault::Closed),
        });
    });
    waiter.await.unwrap_or(Err(IoFault::Closed))
}
