//! The operations of one ring: waiting, with the kernel, or answered.
//!
//! An operation has a slot from submission until its answer is taken. The slot's number is the user data of the
//! submission. States:
//!
//! ```text
//!   submit ──> Waiting ──next──> Flying ──complete──> Done ──poll──> (free)
//!                 ^                 │ short: go on
//!                 └─────────────────┘
//! ```
//!
//! The slot owns the memory the kernel reads or writes. A waiter that goes away only marks the slot. A waiting read
//! is then dropped when its turn comes; every other operation is finished, and its slot is freed then.
//!
//! Invariants:
//!   O1  memory handed out by `next` is owned by its slot until `complete` for that slot, and does not move
//!   O2  a slot is free exactly when it has no waiter and the kernel has no operation of it
//!   O3  `flying` slots are in state Flying; `waiting` holds the slots in state Waiting, each once
//!
//! Not known here: rings and system calls; `uring` makes them.
//!
//! Limits: `IN_FLIGHT_MAX` Flying, `QUEUE_MAX` Waiting; a buffer for a read is allocated only when it flies.

use std::collections::VecDeque;
use std::io;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;

use crate::buffer::RawBuf;
use crate::fault::IoFault;
use crate::held::Held;
use crate::transfer::{Progress, Transfer, wanted_part};

/// The most operations of one engine that are with the kernel at once. More would only wait in the disk's own queue.
pub const IN_FLIGHT_MAX: usize = 1024;
/// The most operations of one engine that wait for those; the next is refused as [`IoFault::Busy`].
pub const QUEUE_MAX: usize = 16_384;
/// How often an operation is tried again after an interrupt or a lack of resources.
const RETRIES_MAX: u8 = 16;
const EINTR: i32 = 4;
const EAGAIN: i32 = 11;

pub(crate) type Answer = Result<Bytes, IoFault>;

/// An operation to submit.
#[derive(Debug)]
pub(crate) enum Order {
    Read,
    Write(Bytes),
    Flush,
}

/// A system call to make, on memory that stays valid until `complete` (O1).
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Call {
    Read { at: u64, to: *mut u8, len: u32 },
    Write { at: u64, from: *const u8, len: u32 },
    Flush,
}

enum Memory {
    /// A read that has not begun.
    Unallocated,
    Read(RawBuf),
    Write(Bytes),
    Flush,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Free,
    Waiting,
    Flying,
    Done,
}

enum Waiter {
    Unseen,
    Asleep(Waker),
    Gone,
}

struct Slot {
    stage: Stage,
    retries: u8,
    transfer: Transfer,
    memory: Memory,
    waiter: Waiter,
    answer: Option<Answer>,
    /// Counts a read in the device's health until the kernel has finished it.
    held: Option<Held>,
}

/// See the module.
#[derive(Default)]
pub(crate) struct Table {
    slots: Vec<Slot>,
    free: Vec<u32>,
    waiting: VecDeque<u32>,
    flying: usize,
    /// The ring is unusable; every operation gets this error.
    broken: Option<i32>,
}

impl Table {
    /// Adds an operation and returns its slot.
    pub(crate) fn submit(
        &mut self,
        transfer: Transfer,
        order: Order,
        held: Option<Held>,
    ) -> Result<u32, IoFault> {
        if let Some(errno) = self.broken {
            return Err(fault(&transfer, errno));
        }
        if self.waiting.len() >= QUEUE_MAX {
            return Err(IoFault::Busy);
        }
        let memory = match order {
            Order::Read => Memory::Unallocated,
            Order::Write(data) => Memory::Write(data),
            Order::Flush => Memory::Flush,
        };
        let slot = Slot {
            stage: Stage::Waiting,
            retries: 0,
            transfer,
            memory,
            waiter: Waiter::Unseen,
            answer: None,
            held,
        };
        let index = match self.free.pop() {
            Some(index) => {
                self.slots[index as usize] = slot;
                index
            }
            None => {
                self.slots.push(slot);
                u32::try_from(self.slots.len() - 1)
                    .expect("slots are bounded by the two maxima and the answers taken")
            }
        };
        self.waiting.push_back(index);
        Ok(index)
    }

    /// The next call, if an operation waits and the kernel may have one more. The caller must make the call.
    pub(crate) fn next(&mut self) -> Option<(u32, Call)> {
        while self.flying < IN_FLIGHT_MAX {
            let index = self.waiting.pop_front()?;
            let slot = &mut self.slots[index as usize];
            assert!(
                slot.stage == Stage::Waiting,
                "slot {index} waits in state {:?}",
                slot.stage
            );
            if matches!(
                (&slot.waiter, &slot.memory),
                (Waiter::Gone, Memory::Unallocated | Memory::Read(_))
            ) {
                self.vacate(index);
                continue;
            }
            let step = slot.transfer.step();
            let len = u32::try_from(step.len).expect("a step is at most STEP_BYTES_MAX");
            if let Memory::Unallocated = slot.memory {
                slot.memory = Memory::Read(RawBuf::new(slot.transfer.buffer_bytes()));
            }
            let call = match &mut slot.memory {
                Memory::Read(raw) => {
                    let to = raw.spare()[step.start..step.start + step.len]
                        .as_mut_ptr()
                        .cast();
                    Call::Read {
                        at: step.at,
                        to,
                        len,
                    }
                }
                Memory::Write(data) => Call::Write {
                    at: step.at,
                    from: data[step.start..step.start + step.len].as_ptr(),
                    len,
                },
                Memory::Flush => Call::Flush,
                Memory::Unallocated => unreachable!("allocated above"),
            };
            slot.stage = Stage::Flying;
            self.flying += 1;
            return Some((index, call));
        }
        None
    }

    /// The kernel has finished a call. `result` is the number of bytes moved or a negative error. The waiter's waker
    /// goes to `woken`; wake it when the table is no longer borrowed.
    pub(crate) fn complete(&mut self, index: u32, result: i32, woken: &mut Vec<Waker>) {
        let slot = &mut self.slots[index as usize];
        assert!(
            slot.stage == Stage::Flying,
            "slot {index} completes in state {:?}",
            slot.stage
        );
        self.flying -= 1;
        let progress = match usize::try_from(result) {
            Ok(_) if matches!(slot.memory, Memory::Flush) => Progress::Finished,
            Ok(moved) => slot.transfer.advance(moved),
            Err(_) if matches!(-result, EINTR | EAGAIN) && slot.retries < RETRIES_MAX => {
                slot.retries += 1;
                Progress::More
            }
            Err(_) => {
                let answer = Err(fault(&slot.transfer, -result));
                return self.finish(index, answer, woken);
            }
        };
        let (at, wanted) = (slot.transfer.wanted_at(), slot.transfer.wanted());
        match progress {
            Progress::More => {
                slot.stage = Stage::Waiting;
                self.waiting.push_front(index);
            }
            Progress::Ended { got } => {
                self.finish(index, Err(IoFault::Short { at, wanted, got }), woken)
            }
            Progress::Finished => {
                let answer = match std::mem::replace(&mut slot.memory, Memory::Flush) {
                    Memory::Read(raw) => {
                        let filled = slot.transfer.skip() + wanted;
                        // SAFETY: Finished means that the kernel has written buffer[..skip + wanted] (T1): every step
                        // pointed into this buffer (`next`), which the slot owned all the while (O1).
                        let buffer = unsafe { raw.assume_filled(filled) };
                        wanted_part(buffer, &slot.transfer)
                    }
                    Memory::Write(_) | Memory::Flush | Memory::Unallocated => Bytes::new(),
                };
                self.finish(index, Ok(answer), woken);
            }
        }
    }

    /// Takes the answer if there is one, which frees the slot.
    pub(crate) fn poll(&mut self, index: u32, cx: &mut Context<'_>) -> Poll<Answer> {
        let slot = &mut self.slots[index as usize];
        let Some(answer) = slot.answer.take() else {
            match &mut slot.waiter {
                Waiter::Asleep(waker) => waker.clone_from(cx.waker()),
                waiter => *waiter = Waiter::Asleep(cx.waker().clone()),
            }
            return Poll::Pending;
        };
        slot.waiter = Waiter::Gone;
        if slot.stage == Stage::Done {
            self.vacate(index);
        }
        Poll::Ready(answer)
    }

    /// The waiter goes away without an answer. Drop the returned value when the table is no longer borrowed.
    pub(crate) fn abandon(&mut self, index: u32) -> impl Sized + use<> {
        let slot = &mut self.slots[index as usize];
        let left = (
            std::mem::replace(&mut slot.waiter, Waiter::Gone),
            slot.answer.take(),
        );
        if slot.stage == Stage::Done {
            self.vacate(index);
        }
        left
    }

    /// The ring is unusable: all waiters get the error. Slots with an operation in the kernel keep their memory (O1).
    pub(crate) fn break_down(&mut self, errno: i32, woken: &mut Vec<Waker>) {
        self.broken = Some(errno);
        while let Some(index) = self.waiting.pop_front() {
            let answer = Err(fault(&self.slots[index as usize].transfer, errno));
            self.finish(index, answer, woken);
        }
        for slot in self
            .slots
            .iter_mut()
            .filter(|slot| slot.stage == Stage::Flying)
        {
            match std::mem::replace(&mut slot.waiter, Waiter::Unseen) {
                Waiter::Gone => slot.waiter = Waiter::Gone,
                waiter => {
                    slot.answer = Some(Err(fault(&slot.transfer, errno)));
                    woken.extend(waiter.waker());
                }
            }
        }
    }

    /// Operations that are with the kernel.
    pub(crate) fn flying(&self) -> usize {
        self.flying
    }

    /// Operations that wait or fly.
    pub(crate) fn in_flight(&self) -> usize {
        self.flying + self.waiting.len()
    }

    fn finish(&mut self, index: u32, answer: Answer, woken: &mut Vec<Waker>) {
        let slot = &mut self.slots[index as usize];
        slot.memory = Memory::Flush;
        slot.held = None;
        slot.stage = Stage::Done;
        match std::mem::replace(&mut slot.waiter, Waiter::Unseen) {
            Waiter::Gone => self.vacate(index),
            waiter => {
                // `break_down` may have answered already; then the first answer stands.
                slot.answer.get_or_insert(answer);
                woken.extend(waiter.waker());
            }
        }
    }

    fn vacate(&mut self, index: u32) {
        let slot = &mut self.slots[index as usize];
        assert!(
            slot.stage != Stage::Flying && slot.stage != Stage::Free,
            "slot {index} freed from {:?}",
            slot.stage
        );
        slot.stage = Stage::Free;
        slot.memory = Memory::Flush;
        slot.held = None;
        self.free.push(index);
    }

    /// Checks O2 and O3.
    #[cfg(test)]
    pub(crate) fn audit(&self) {
        let count = |stage| self.slots.iter().filter(|slot| slot.stage == stage).count();
        assert_eq!(count(Stage::Flying), self.flying);
        assert_eq!(count(Stage::Waiting), self.waiting.len());
        assert_eq!(count(Stage::Free), self.free.len());
    }
}

impl Waiter {
    fn waker(self) -> Option<Waker> {
        match self {
            Waiter::Asleep(waker) => Some(waker),
            Waiter::Unseen | Waiter::Gone => None,
        }
    }
}

fn fault(transfer: &Transfer, errno: i32) -> IoFault {
    IoFault::device(
        transfer.wanted_at(),
        transfer.wanted(),
        io::Error::from_raw_os_error(errno),
    )
}

#[cfg(test)]
#[path = "table_tests.rs"]
mod tests;
