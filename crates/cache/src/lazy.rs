//! Lazy reads: reads wait for each other for a moment, and go to the disk in the order of their places.
//!
//! A disk with a head reads ten neighbours in the time of two or three distant records. So new reads are gathered;
//! when there are enough, or the first has waited for the deadline, all of them are due. Due reads go to the device
//! in the order of their places, neighbours as one (`elevator`), and at most a batch at a time. The others wait in the
//! queue, where they can still be sorted or answered by another read.
//!
//! A disk without a head gains nothing and would only wait, so by default the latency is *measured*
//! (`device::Latency`). Gathering changes what is measured, because reads that go together wait for each other. To
//! avoid flapping, it is switched on and off at different values, not again before the mean has forgotten the reads
//! before the last switch, and only after the mean was slow for that many reads in a row, since one hiccup of any
//! disk lasts as long as a thousand reads. Before the first reads, the kernel's statement about a block device decides
//! (`Device::has_head`).
//!
//! A read joins the gathered ones. If there is no driver, it spawns one: a task that runs until no read waits. A full
//! or due batch goes to the queue; the driver reads one window after the other and sends the answers. The driver is a
//! task of its own, not one of the waiters, so cancelling a waiter never stalls the others; a cancelled read is left out
//! if it has not begun. All workers share the queue, so that the images of a page become one read whichever connections
//! ask for them. Every worker with reads in the queue takes windows, its own or another's, until the queue is empty.
//!
//! A window is read only after every waiter has pinned its record. The read therefore returns the bytes those pins
//! protect. For the same reason a read under way answers no later waiter.
//!
//! Not known here: records, pins, the consequences of a failed read.
//!
//! Limits: a worker gathers at most `Storing::LAZY_READS.max` reads and has as many windows under way. A waiting read
//! takes a few words and no buffer. The runtime's clock has a resolution of a millisecond.
//!
//! Source: paper 002, the section on read requests (LAZY-READS: ten at a time, sorted by position) and its footnote 7 (the time-out).
//! We differ: the order goes one way round instead of being sorted anew for each batch; windows; the switch; an answer does not wait for
//! the rest of its batch.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

use base::clock::Instant;
use bytes::Bytes;
use device::{Engine, IoFault, Latency};
use tokio::sync::{Notify, oneshot};

use crate::elevator::{Ask, Elevator, Window};
use plan::{LazyMode, Storing};
use record::events::{Events, ReadTimes};

/// The most reads gathered when the disk was measured to be slow: as many as in the paper.
const MEASURED_READS: usize = Storing::LAZY_READS.default as usize;
/// Switched on if a read takes at least this long: less than on any disk with a head, more than on any healthy disk
/// without one.
const ON_US: u64 = 1000;
/// Switched off if a read takes at most this long.
const OFF_US: u64 = 500;
/// Reads before the first switch and between two switches: about as many as the mean remembers.
const READS_BETWEEN_SWITCHES: u64 = 128;
/// Not switched off before this many reads were quick: volumes with a limit per time slice (cloud, kernel) look fast
/// until a slice is used up.
const READS_UNTIL_FORGIVEN: u64 = 1024;

/// Counts since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gathered {
    /// How often a gathered batch became due.
    pub batches: u64,
    /// Reads in those batches.
    pub reads: u64,
    /// Reads in those batches that another read's window answered.
    pub along: u64,
    /// Reads that went straight to the engine.
    pub straight: u64,
}

/// The bytes of a read.
#[derive(Clone, Debug)]
pub struct Brought {
    /// At least `len` bytes, at most `reach`.
    pub bytes: Bytes,
    /// The buffer is larger than `len`: copy what lives long.
    pub is_part: bool,
}

/// The due reads of all workers for one device; one worker's window may answer another's read.
///
/// The lock is held to take or add reads, never across I/O.
#[derive(Default)]
pub struct ReadQueue(Mutex<Elevator<Waiter>>);

impl ReadQueue {
    /// Reads that are due and not under way.
    pub fn waiting(&self) -> usize {
        self.lock().waiting()
    }

    fn lock(&self) -> MutexGuard<'_, Elevator<Waiter>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for ReadQueue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReadQueue").finish_non_exhaustive()
    }
}

/// A waiter for a read.
struct Waiter {
    answer: oneshot::Sender<Result<Brought, IoFault>>,
    /// When the read was asked for.
    asked: Instant,
}

impl Waiter {
    /// Was the waiter dropped?
    fn is_closed(&self) -> bool {
        self.answer.is_closed()
    }
}

/// Records the reads of a device.
#[derive(Clone, Default)]
struct Notes {
    events: Arc<Events>,
    /// The number of the store in the set.
    store: usize,
}

impl Notes {
    /// Records a read that ends now; it was asked for at `asked` and given to the device at `given`.
    fn read(&self, asked: Instant, given: Instant, bytes: usize, objects: usize) {
        let times = ReadTimes { asked, given };
        self.events.read(self.store, times, bytes, objects);
    }
}

/// The reads of one worker from one device.
pub struct LazyReads {
    engine: Rc<Engine>,
    deadline: Duration,
    /// `None`: always lazy.
    switch: Option<Cell<Switch>>,
    waiting: Rc<WaitingReads>,
    notes: Notes,
}

/// Reads that are not under way yet.
struct WaitingReads {
    /// The size of a full batch, and the most windows under way.
    reads_max: usize,
    /// Not due yet.
    gathering: RefCell<Vec<Ask<Waiter>>>,
    /// When the first of the gathered reads becomes due.
    due: Cell<Option<Instant>>,
    /// The due reads of all workers.
    queue: Arc<ReadQueue>,
    /// A read was gathered, or a batch is full.
    changed: Notify,
    is_driven: Cell<bool>,
    gathered: Cell<Gathered>,
}

impl LazyReads {
    /// Reads through `engine`, lazily as `mode` says; no read waits longer than `deadline` for others. `queue` is the
    /// device's.
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
            notes: Notes::default(),
        }
    }

    /// The same; each read of the device is noted as one of this store of the set.
    #[must_use]
    pub fn noted(mut self, events: Arc<Events>, store: usize) -> Self {
        self.notes = Notes { events, store };
        self
    }

    /// Reads at least `len` bytes from byte `offset`, and up to `reach` if reads are gathered; exactly `len` if not,
    /// or if more cannot be read. Dropping the future drops only the answer. Needs `spawn_local`.
    pub async fn read(&self, offset: u64, len: usize, reach: usize) -> Result<Brought, IoFault> {
        if !self.decide() {
            self.waiting.count(|gathered| gathered.straight += 1);
            return read_alone(&self.engine, &self.notes, offset, len).await;
        }
        let (answer, answered) = oneshot::channel();
        self.join(Ask {
            offset,
            len,
            reach: reach.max(len),
            waiter: Waiter {
                answer,
                asked: Instant::now(),
            },
        });
        // The task ends only with its runtime.
        answered.await.unwrap_or(Err(IoFault::Closed))
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

    /// Should this read wait for others, by the disk's latency?
    fn decide(&self) -> bool {
        if let Some(switch) = &self.switch {
            switch.set(switch.get().after(self.engine.latency()));
        }
        self.is_lazy()
    }

    fn join(&self, ask: Ask<Waiter>) {
        let waiting = &self.waiting;
        let mut gathering = waiting.gathering.borrow_mut();
        gathering.push(ask);
        if gathering.len() == 1 {
            waiting.due.set(Some(Instant::now() + self.deadline));
        }
        if !waiting.is_driven.replace(true) {
            let (waiting, engine) = (Rc::clone(waiting), Rc::clone(&self.engine));
            tokio::task::spawn_local(drive(waiting, engine, self.notes.clone()));
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

    /// Moves a due batch to the queue.
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
        queue.clear(|waiter| !waiter.is_closed());
    }

    /// The next window; `None` if nothing is due.
    fn next(&self) -> Option<Window<Waiter>> {
        let is_wanted = |waiter: &Waiter| !waiter.is_closed();
        let window = self.queue.lock().next(is_wanted)?;
        self.count(|gathered| gathered.along += window.asks.len() as u64 - 1);
        Some(window)
    }
}

/// The driver: reads one window after the other until no read waits.
async fn drive(waiting: Rc<WaitingReads>, engine: Rc<Engine>, notes: Notes) {
    // A read reaches the engine when it is first polled. This task polls all reads itself, because separate tasks
    // would begin in the scheduler's order. They are few, so polling all of them at each answer costs little.
    let mut under_way: Vec<Pin<Box<dyn Future<Output = ()>>>> = Vec::new();
    loop {
        waiting.release();
        while under_way.len() < waiting.reads_max
            && let Some(window) = waiting.next()
        {
            let read = carry_out(Rc::clone(&engine), notes.clone(), window);
            under_way.push(Box::pin(read));
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

/// Waits until at least one read is done; polls new reads in their order.
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

/// Reads a window and answers its waiters. If the window cannot be read, each waiter's own bytes are read.
async fn carry_out(engine: Rc<Engine>, notes: Notes, window: Window<Waiter>) {
    let Window { offset, len, asks } = window;
    let given = Instant::now();
    let is_part = |ask: &Ask<Waiter>| len > ask.len;
    match engine.read(offset, len).await {
        Ok(bytes) => {
            let first = asks.iter().map(|ask| ask.waiter.asked).min();
            notes.read(first.unwrap_or(given), given, len, asks.len());
            for ask in asks {
                let from = (ask.offset - offset) as usize;
                let until = (from + ask.reach).min(len);
                let brought = Brought {
                    is_part: is_part(&ask),
                    bytes: bytes.slice(from..until),
                };
                // The waiter may have gone.
                let _ = ask.waiter.answer.send(Ok(brought));
            }
        }
        Err(error) => {
            let mut error = Some(error);
            for ask in asks.into_iter().filter(|ask| !ask.waiter.is_closed()) {
                let answer = match error.take_if(|_| !is_part(&ask)) {
                    Some(error) => Err(error),
                    // The unreadable bytes may belong to a neighbour.
                    None => read_alone(&engine, &notes, ask.offset, ask.len).await,
                };
                let _ = ask.waiter.answer.send(answer);
            }
        }
    }
}

/// Reads at once, without waiting for other reads.
async fn read_alone(
    engine: &Engine,
    notes: &Notes,
    offset: u64,
    len: usize,
) -> Result<Brought, IoFault> {
    let asked = notes.events.now_if_wanted();
    let bytes = engine.read(offset, len).await?;
    if let Some(asked) = asked {
        notes.read(asked, asked, bytes.len(), 1);
    }
    Ok(Brought {
        bytes,
        is_part: false,
    })
}

/// Is the disk slow?
#[derive(Clone, Copy, Debug, Default)]
struct Switch {
    on: bool,
    /// How many reads had been measured at the last switch.
    switched_at: u64,
    /// How many reads had been measured when the mean became slow, if it has stayed slow.
    slow_since: Option<u64>,
    /// How many reads had been measured when the mean was last slow.
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
