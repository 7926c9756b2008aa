//! Lazy reads: reads of one worker wait for each other for a moment, and go to the disk in the order of their places.
//!
//! A disk that must move its head reads ten neighbours in the time of two or three far ones. So a read that comes
//! joins those that wait; when enough wait, or the first has waited for the deadline, all go at once, upwards from where
//! the last one ended and then, after one jump back, upwards again from the beginning. One direction only, so that no
//! place is twice as far as another.
//!
//! A disk without a head gains nothing and would only wait, so by default it is *measured* whether a read takes long
//! (`device::Latency`). It is switched on and off at different values, and not again before the mean has
//! forgotten the reads from before the last switch; else it would flap, because gathering changes what is measured: reads
//! that go together wait for each other at the disk. That only holds it on while reads are many.
//!
//! Life of a batch: the first read spawns its task and becomes current; later ones join; full or due, it is
//! current no more, the task asks the engine for all of them in order, and sends each answer as it comes. Nobody who waits
//! drives the batch: a waiter that goes away stalls nobody, and its read is left out if it has not begun.
//!
//! Not known here: records, pins, what is done with a failed read.
//!
//! Limits: at most `Storing::LAZY_READS.max` reads a batch; a full batch goes at once, so no more wait here.
//! What has been handed on is bounded by the engine. The clock of the runtime ticks in milliseconds.
//!
//! Source: paper 002, the section on read requests (LAZY-READS: ten at a time, sorted by position) and its footnote 7 (the time
//! out). We differ: one way round instead of sorted anew each time; the switch; an answer is not held back for the batch.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use device::{Engine, IoFault, Latency};
use tokio::sync::{Notify, oneshot};

use crate::plan::{LazyMode, Storing};

/// Reads gathered at most when it was measured that the disk is slow: as many as in the paper.
const MEASURED_READS: usize = Storing::LAZY_READS.default as usize;
/// Switched on where a read takes at least so long: less than any disk with a head, more than any other that is well.
const ON_US: u64 = 1000;
/// Switched off where it takes at most so long.
const OFF_US: u64 = 500;
/// Reads before the first switch and between two: about what the mean remembers.
const READS_BETWEEN_SWITCHES: u64 = 128;

/// How much was gathered since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gathered {
    /// Batches that went to the engine.
    pub batches: u64,
    /// Reads in them.
    pub reads: u64,
    /// Reads that went straight to the engine.
    pub straight: u64,
}

/// The reads of one worker from one device.
pub struct LazyReads {
    engine: Rc<Engine>,
    /// Reads that make a batch full.
    reads_max: usize,
    deadline: Duration,
    /// `None`: always lazy.
    switch: Option<Cell<Switch>>,
    shared: Rc<Shared>,
}

/// What batches on their way share with what gathers the next one.
#[derive(Default)]
struct Shared {
    /// The batch that may be joined.
    current: RefCell<Option<Rc<Batch>>>,
    /// Where the last read ended.
    position: Cell<u64>,
    gathered: Cell<Gathered>,
}

#[derive(Default)]
struct Batch {
    reads: RefCell<Vec<Waiting>>,
    full: Notify,
}

struct Waiting {
    offset: u64,
    len: usize,
    answer: oneshot::Sender<Result<Bytes, IoFault>>,
}

impl LazyReads {
    /// Reads through `engine`, lazily by `mode`; no read waits here longer than `deadline`.
    pub fn new(engine: Rc<Engine>, mode: LazyMode, deadline: Duration) -> Self {
        let (reads_max, switch) = match mode {
            LazyMode::Measured => (MEASURED_READS, Some(Cell::default())),
            LazyMode::Gather(reads) => (usize::from(reads), None),
        };
        Self {
            engine,
            reads_max: reads_max.min(Storing::LAZY_READS.max as usize),
            deadline,
            switch,
            shared: Rc::default(),
        }
    }

    /// Reads exactly `len` bytes from byte `offset`. Dropping the future drops only the answer. Where `spawn_local` works.
    pub async fn read(&self, offset: u64, len: usize) -> Result<Bytes, IoFault> {
        if !self.decide() {
            self.shared.count(|gathered| gathered.straight += 1);
            return self.engine.read(offset, len).await;
        }
        let (answer, waiter) = oneshot::channel();
        self.join(Waiting {
            offset,
            len,
            answer,
        });
        // The task is gone only when its runtime ends.
        waiter.await.unwrap_or(Err(IoFault::Closed))
    }

    /// Are reads gathered now?
    pub fn is_lazy(&self) -> bool {
        self.reads_max > 1 && self.switch.as_ref().is_none_or(|switch| switch.get().on)
    }

    /// How much was gathered so far.
    pub fn gathered(&self) -> Gathered {
        self.shared.gathered.get()
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

    fn join(&self, read: Waiting) {
        let mut current = self.shared.current.borrow_mut();
        let batch = current.get_or_insert_with(|| {
            let batch = Rc::new(Batch::default());
            let (shared, engine) = (Rc::clone(&self.shared), Rc::clone(&self.engine));
            tokio::task::spawn_local(run(shared, engine, Rc::clone(&batch), self.deadline));
            batch
        });
        batch.reads.borrow_mut().push(read);
        if batch.reads.borrow().len() >= self.reads_max {
            batch.full.notify_one();
            *current = None;
        }
    }
}

impl Shared {
    fn count(&self, change: impl FnOnce(&mut Gathered)) {
        let mut gathered = self.gathered.get();
        change(&mut gathered);
        self.gathered.set(gathered);
    }

    /// Nobody joins this batch any more.
    fn end(&self, batch: &Rc<Batch>) {
        let mut current = self.current.borrow_mut();
        if current.as_ref().is_some_and(|it| Rc::ptr_eq(it, batch)) {
            *current = None;
        }
    }
}

/// A batch's task.
async fn run(shared: Rc<Shared>, engine: Rc<Engine>, batch: Rc<Batch>, deadline: Duration) {
    // Either way it goes.
    let _ = tokio::time::timeout(deadline, batch.full.notified()).await;
    shared.end(&batch);
    let mut reads = batch.reads.take();
    reads.retain(|read| !read.answer.is_closed());
    in_order(&mut reads, shared.position.get());
    let Some(last) = reads.last() else { return };
    shared
        .position
        .set(last.offset.saturating_add(last.len as u64));
    shared.count(|gathered| {
        gathered.batches += 1;
        gathered.reads += reads.len() as u64;
    });
    submit(&engine, reads).await;
}

/// Upwards from `position`, then upwards from the beginning.
fn in_order(reads: &mut [Waiting], position: u64) {
    reads.sort_by_key(|read| (read.offset < position, read.offset));
}

/// Asks the engine for all of them, in this order, and sends each answer as it comes.
async fn submit(engine: &Engine, reads: Vec<Waiting>) {
    type Read<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;
    let begin = |read: Waiting| -> Read<'_> {
        Box::pin(async move {
            let result = engine.read(read.offset, read.len).await;
            // Who does not wait any more needs no answer.
            let _ = read.answer.send(result);
        })
    };
    let mut reads: Vec<Read<'_>> = reads.into_iter().map(begin).collect();
    // A read is handed to the engine when it is first polled. One task polls them all, because tasks of their own
    // would begin in whatever order the scheduler likes; that it polls all again at each answer is little, they are few.
    poll_fn(|context| {
        reads.retain_mut(|read| read.as_mut().poll(context).is_pending());
        if reads.is_empty() {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    })
    .await;
}

/// Is the disk slow?
#[derive(Clone, Copy, Debug, Default)]
struct Switch {
    on: bool,
    /// Reads measured when it was last switched.
    switched_at: u64,
}

impl Switch {
    fn after(self, latency: Latency) -> Self {
        if latency.reads < self.switched_at.saturating_add(READS_BETWEEN_SWITCHES) {
            return self;
        }
        let on = if self.on {
            latency.mean_us > OFF_US
        } else {
            latency.mean_us >= ON_US
        };
        if on == self.on {
            return self;
        }
        tracing::debug!(mean_us = latency.mean_us, on, "lazy reads switched");
        Self {
            on,
            switched_at: latency.reads,
        }
    }
}

#[cfg(test)]
#[path = "lazy_tests.rs"]
mod tests;
