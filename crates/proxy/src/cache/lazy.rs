//! Lazy reads: reads wait for each other for a moment, and go to the disk in the order of their places.
//!
//! A disk that must move its head reads ten neighbours in the time of two or three far ones. So a read that comes
//! joins those that wait; when enough wait, or the first has waited for the deadline, all of them are due. What is due goes to the device
//! one way round, neighbours as one (`elevator`), and no more of it than a batch is there at a time: the rest waits here, where it can
//! still be sorted, and be answered by what is read for another.
//!
//! A disk without a head gains nothing and would only wait, so by default it is *measured* whether a read takes long
//! (`device::Latency`). It is switched on and off at different values, and not again before the mean has
//! forgotten the reads from before the last switch; else it would flap, because gathering changes what is measured: reads
//! that go together wait for each other at the disk. And only when the mean has been slow for as many reads in a row: one hiccup
//! of any disk lasts as long as a thousand of its reads. That only holds it on while reads are many. Before the first reads, what the
//! kernel says of a block device counts (`Device::has_head`).
//!
//! Life of a read: it joins those that are gathered, and if nobody drives them, a task is spawned that does, until nobody waits; full or due, they
//! go to the queue; the task asks the engine for one window after the other, and sends each answer as it comes. Nobody who waits
//! drives: a waiter that goes away stalls nobody, and its read is left out if it has not begun. The queue is that of all workers, so that the
//! images of one page are one read whoever asks for them; each worker that has put something there takes windows, its own or another's, until
//! there are none.
//!
//! A window is read only after all who are answered by it had joined, and so had pinned what they want: what was written before that is what is
//! read. For the same reason a read under way answers nobody who comes later.
//!
//! Not known here: records, pins, what is done with a failed read.
//!
//! Limits: a worker gathers at most `Storing::LAZY_READS.max` reads and has as many windows under way. What is due and waits is a few words for
//! each of the requests that wait for it, without memory for what will be read. The clock of the runtime ticks in milliseconds.
//!
//! Source: paper 002, the section on read requests (LAZY-READS: ten at a time, sorted by position) and its footnote 7 (the time
//! out). We differ: one way round instead of sorted anew each time; windows; the switch; an answer is not held back for the batch.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

use crate::clock::Instant;
use bytes::Bytes;
use device::{Engine, IoFault, Latency};
use tokio::sync::{Notify, oneshot};

use crate::cache::elevator::{Ask, Elevator, Window};
use crate::plan::{LazyMode, Storing};

/// Reads gathered at most when it was measured that the disk is slow: as many as in the paper.
const MEASURED_READS: usize = Storing::LAZY_READS.default as usize;
/// Switched on where a read takes at least so long: less than any disk with a head, more than any other that is well.
const ON_US: u64 = 1000;
/// Switched off where it takes at most so long.
const OFF_US: u64 = 500;
/// Reads before the first switch and between two: about what the mean remembers.
const READS_BETWEEN_SWITCHES: u64 = 128;
/// And not switched off before so many have been quick: where reads are allotted by time (cloud volumes, a kernel's limit), the disk looks
/// fast until a slice is used up.
const READS_UNTIL_FORGIVEN: u64 = 1024;

/// How much was gathered since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gathered {
    /// Times that reads which had waited for each other became due.
    pub batches: u64,
    /// Reads in them.
    pub reads: u64,
    /// Those of them that were answered by what was read for another one.
    pub along: u64,
    /// Reads that went straight to the engine.
    pub straight: u64,
}

/// What a read brought.
#[derive(Clone, Debug)]
pub struct Brought {
    /// At least what had to be read, at most what was wanted.
    pub bytes: Bytes,
    /// Behind them is a buffer that is larger than what had to be read: what is kept for long should be copied.
    pub is_part: bool,
}

/// What is due and waits for one device, of all workers: what one reads may be what another waits for.
///
/// The lock is held for taking or giving a window, never across I/O.
#[derive(Default)]
pub struct ReadQueue(Mutex<Elevator<Answer>>);

impl ReadQueue {
    fn lock(&self) -> MutexGuard<'_, Elevator<Answer>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

type Answer = oneshot::Sender<Result<Brought, IoFault>>;

/// The reads of one worker from one device.
pub struct LazyReads {
    engine: Rc<Engine>,
    deadline: Duration,
    /// `None`: always lazy.
    switch: Option<Cell<Switch>>,
    waiting: Rc<WaitingReads>,
}

/// Reads that are not under way yet.
struct WaitingReads {
    /// Reads that make a batch full; and windows under way at most.
    reads_max: usize,
    /// Not due yet.
    gathering: RefCell<Vec<Ask<Answer>>>,
    /// When the first of those is.
    due: Cell<Option<Instant>>,
    /// The rest, of all workers.
    queue: Arc<ReadQueue>,
    /// Something is gathered, or enough is.
    changed: Notify,
    is_driven: Cell<bool>,
    gathered: Cell<Gathered>,
}

impl LazyReads {
    /// Reads through `engine`, lazily by `mode`; no read waits longer than `deadline` for others to come. `queue` is the device's.
    pub fn new(
        engine: Rc<Engine>,
        mode: LazyMode,
        deadline: Duration,
        queue: Arc<ReadQueue>,
    ) -> Self {
        let (reads_max, switch) = match mode {
            LazyMode::Measured => (
                MEASURED_READS,
                Some(Cell::new(Switch::first(engine.device().has_head()))),
            ),
            LazyMode::Gather(reads) => (usize::from(reads), None),
        };
        Self {
            engine,
            deadline,
            switch,
            waiting: Rc::new(WaitingReads {
                reads_max: reads_max.min(Storing::LAZY_READS.max as usize),
                gathering: RefCell::default(),
                due: Cell::default(),
                queue,
                changed: Notify::new(),
                is_driven: Cell::default(),
                gathered: Cell::default(),
            }),
        }
    }

    /// Reads at least `len` bytes from byte `offset`, and where reads are gathered up to `reach`; exactly `len` where they are
    /// not, or where more cannot be read. Dropping the future drops only the answer. Where `spawn_local` works.
    pub async fn read(&self, offset: u64, len: usize, reach: usize) -> Result<Brought, IoFault> {
        if !self.decide() {
            self.waiting.count(|gathered| gathered.straight += 1);
            return self.engine.read(offset, len).await.map(alone);
        }
        let (answer, waiter) = oneshot::channel();
        self.join(Ask {
            offset,
            len,
            reach: reach.max(len),
            waiter: answer,
        });
        // The task is gone only when its runtime ends.
        waiter.await.unwrap_or(Err(IoFault::Closed))
    }

    /// Are reads gathered now?
    pub fn is_lazy(&self) -> bool {
        let is_on = |switch: &Cell<Switch>| switch.get().on;
        self.waiting.reads_max > 1 && self.switch.as_ref().is_none_or(is_on)
    }

    /// How much was gathered so far.
    pub fn gathered(&self) -> Gathered {
        self.waiting.gathered.get()
    }

    /// The engine behind it, for writes and flushes.
    pub fn engine(&self) -> &Rc<Engine> {
        &self.engine
    }

    /// Looks at the disk's latency; shall this read wait for others?
    fn decide(&self) -> bool {
        if let Some(switch) = &self.switch {
            switch.set(switch.get().after(self.engine.latency()));
        }
        self.is_lazy()
    }

    fn join(&self, ask: Ask<Answer>) {
        let waiting = &self.waiting;
        let mut gathering = waiting.gathering.borrow_mut();
        gathering.push(ask);
        if gathering.len() == 1 {
            waiting.due.set(Some(Instant::now() + self.deadline));
        }
        if !waiting.is_driven.replace(true) {
            tokio::task::spawn_local(drive(Rc::clone(waiting), Rc::clone(&self.engine)));
        } else if gathering.len() == 1 || gathering.len() >= waiting.reads_max {
            waiting.changed.notify_one();
        }
    }
}

impl WaitingReads {
    fn count(&self, change: impl FnOnce(&mut Gathered)) {
        let mut gathered = self.gathered.get();
        change(&mut gathered);
        self.gathered.set(gathered);
    }

    /// Lets go what is due.
    fn release(&self) {
        let mut gathering = self.gathering.borrow_mut();
        let is_late = self.due.get().is_some_and(|due| due <= Instant::now());
        if !is_late && gathering.len() < self.reads_max {
            return;
        }
        self.due.set(None);
        gathering.retain(|ask| !ask.waiter.is_closed());
        if gathering.is_empty() {
            return;
        }
        self.count(|gathered| {
            gathered.batches += 1;
            gathered.reads += gathering.len() as u64;
        });
        let mut queue = self.queue.lock();
        gathering.drain(..).for_each(|ask| queue.add(ask));
        queue.clear(|answer| !answer.is_closed());
    }

    /// What is read next; `None`: nothing is due.
    fn next(&self) -> Option<Window<Answer>> {
        let is_wanted = |answer: &Answer| !answer.is_closed();
        let window = self.queue.lock().next(is_wanted)?;
        self.count(|gathered| gathered.along += window.asks.len() as u64 - 1);
        Some(window)
    }
}

/// Until nobody waits: asks the engine for one window after the other.
async fn drive(waiting: Rc<WaitingReads>, engine: Rc<Engine>) {
    // A read is handed to the engine when it is first polled. This task polls them all, because tasks of their own
    // would begin in whatever order the scheduler likes; that it polls all again at each answer is little, they are few.
    let mut under_way: Vec<Pin<Box<dyn Future<Output = ()>>>> = Vec::new();
    loop {
        waiting.release();
        while under_way.len() < waiting.reads_max
            && let Some(window) = waiting.next()
        {
            under_way.push(Box::pin(carry_out(Rc::clone(&engine), window)));
        }
        let due = waiting.due.get();
        if under_way.is_empty() && due.is_none() {
            break;
        }
        tokio::select! {
            biased;
            () = one_done(&mut under_way), if !under_way.is_empty() => {}
            () = waiting.changed.notified() => {}
            () = tokio::time::sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {}
        }
    }
    waiting.is_driven.set(false);
}

/// Until at least one of them is done; polls those that have not begun in their order.
async fn one_done(reads: &mut Vec<Pin<Box<dyn Future<Output = ()>>>>) {
    let before = reads.len();
    poll_fn(|context| {
        reads.retain_mut(|read| read.as_mut().poll(context).is_pending());
        if reads.len() < before {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    })
    .await;
}

/// Reads a window and answers all who wait for it; if it cannot be read, each gets what is its own.
async fn carry_out(engine: Rc<Engine>, window: Window<Answer>) {
    let Window { offset, len, asks } = window;
    let is_part = |ask: &Ask<Answer>| len > ask.len;
    match engine.read(offset, len).await {
        Ok(bytes) => {
            for ask in asks {
                let from = (ask.offset - offset) as usize;
                let until = (from + ask.reach).min(len);
                let brought = Brought {
                    is_part: is_part(&ask),
                    bytes: bytes.slice(from..until),
                };
                // Who does not wait any more needs no answer.
                let _ = ask.waiter.send(Ok(brought));
            }
        }
        Err(error) => {
            let mut error = Some(error);
            for ask in asks.into_iter().filter(|ask| !ask.waiter.is_closed()) {
                let answer = match error.take_if(|_| !is_part(&ask)) {
                    Some(error) => Err(error),
                    // It may be what lies beside that cannot be read.
                    None => engine.read(ask.offset, ask.len).await.map(alone),
                };
                let _ = ask.waiter.send(answer);
            }
        }
    }
}

fn alone(bytes: Bytes) -> Brought {
    Brought {
        bytes,
        is_part: false,
    }
}

/// Is the disk slow?
#[derive(Clone, Copy, Debug, Default)]
struct Switch {
    on: bool,
    /// Reads measured when it was last switched.
    switched_at: u64,
    /// Reads measured when the mean became as long as a slow disk's, and has been since.
    slow_since: Option<u64>,
    /// Reads measured when it was last so.
    slow_at: Option<u64>,
}

impl Switch {
    /// Before anything was measured.
    fn first(has_head: bool) -> Self {
        Self {
            on: has_head,
            ..Self::default()
        }
    }

    fn after(mut self, latency: Latency) -> Self {
        let is_slow = latency.mean_us >= ON_US;
        match is_slow {
            true => _ = self.slow_since.get_or_insert(latency.reads),
            false => self.slow_since = None,
        }
        if latency.reads < self.switched_at.saturating_add(READS_BETWEEN_SWITCHES) {
            return self;
        }
        if is_slow {
            self.slow_at = Some(latency.reads);
        }
        let stays_slow = (self.slow_since)
            .is_some_and(|since| latency.reads >= since.saturating_add(READS_BETWEEN_SWITCHES));
        let was_slow = (self.slow_at)
            .is_some_and(|at| latency.reads < at.saturating_add(READS_UNTIL_FORGIVEN));
        let on = match self.on {
            true => latency.mean_us > OFF_US || was_slow,
            false => stays_slow,
        };
        if on == self.on {
            return self;
        }
        tracing::debug!(mean_us = latency.mean_us, on, "lazy reads switched");
        Self {
            on,
            switched_at: latency.reads,
            slow_since: self.slow_since,
            slow_at: self.slow_at,
        }
    }
}

#[cfg(test)]
#[path = "lazy_tests.rs"]
mod tests;
