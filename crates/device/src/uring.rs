//! io_uring: one ring a worker and device.
//!
//! Tasks put operations into the table (`table`) and wake the driver, a small task that runs after all other tasks of
//! this scheduler turn. The driver fills the submission queue and makes one `io_uring_enter` for all operations.
//! Completions signal an eventfd that tokio's reactor watches. The signal wakes the driver, which answers the waiters
//! and submits the operations that wait. The eventfd is never read: the reactor is edge-triggered, and each signal is
//! an edge.
//!
//! SINGLE_ISSUER tells the kernel that one thread submits, COOP_TASKRUN that completions need not interrupt that
//! thread. Kernels before 6.0 get a plain ring.
//!
//! If a transfer might block within `io_uring_enter` (`health`), the kernel is told to use its own threads.
//!
//! Invariants:
//!   U1  every submission queue entry points to memory owned by its table slot (O1)
//!   U2  `Shared`, with table, ring and device, is not dropped while an operation flies: `Uring::drop` waits, or
//!       leaks it
//!   U3  neither the ring nor the table is borrowed while a waker is woken or dropped
//!
//! Limits: 256 submissions an `io_uring_enter`; stopping waits at most `STOP_WAIT` for the disk. Kernel 5.11 or newer.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use io_uring::types::{Fixed, FsyncFlags, SubmitArgs, Timespec};
use io_uring::{IoUring, Probe, opcode, squeue};
use rustix::event::EventfdFlags;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::device::Device;
use crate::fault::IoFault;
use crate::held::Held;
use crate::table::{Answer, Call, IN_FLIGHT_MAX, Order, Table};
use crate::transfer::Transfer;

/// Entries of the submission queue.
const RING_ENTRIES: u32 = 256;
/// How many rounds one turn of the driver makes before other tasks run.
const ROUNDS_MAX: u32 = 16;
/// How long stopping waits for operations in flight before it leaks their memory.
const STOP_WAIT: Duration = Duration::from_secs(5);
/// The device's place among the ring's registered files.
const DEVICE: Fixed = Fixed(0);
const EINTR: i32 = 4;
const EAGAIN: i32 = 11;
const EBUSY: i32 = 16;
const ETIME: i32 = 62;

/// Can io_uring be used here? The error says why not: containers often forbid it, old kernels lack it.
pub fn uring_available() -> Result<(), io::Error> {
    build_ring(2).map(drop)
}

fn build_ring(entries: u32) -> io::Result<IoUring> {
    let completions = 2 * IN_FLIGHT_MAX as u32;
    let ring = IoUring::builder()
        .setup_cqsize(completions)
        .setup_submit_all()
        .setup_coop_taskrun()
        .setup_single_issuer()
        .build(entries)
        .or_else(|_| IoUring::builder().setup_cqsize(completions).build(entries))?;
    let mut probe = Probe::new();
    ring.submitter().register_probe(&mut probe)?;
    let needed = [opcode::Read::CODE, opcode::Write::CODE, opcode::Fsync::CODE];
    if !ring.params().is_feature_ext_arg() || !needed.iter().all(|code| probe.is_supported(*code)) {
        return Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "io_uring of this kernel is too old (5.11 needed)",
        ));
    }
    Ok(ring)
}

/// The engine's handle on its ring.
pub(crate) struct Uring {
    shared: Rc<Shared>,
}

struct Shared {
    ring: RefCell<IoUring>,
    table: RefCell<Table>,
    event: Rc<OwnedFd>,
    driver: RefCell<Option<Waker>>,
    /// The driver was woken and has not run yet.
    kicked: Cell<bool>,
    started: Cell<bool>,
    closed: Cell<bool>,
    /// Kept for its capacity.
    woken: Cell<Vec<Waker>>,
    device: Arc<Device>,
}

impl Uring {
    /// A ring for this device. It belongs to this thread.
    pub(crate) fn new(device: Arc<Device>) -> io::Result<Self> {
        let ring = build_ring(RING_ENTRIES)?;
        let fd = device
            .as_fd()
            .ok_or_else(|| io::Error::new(io::ErrorKind::Unsupported, "memory has no file"))?;
        ring.submitter().register_files(&[fd.as_raw_fd()])?;
        let event = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        ring.submitter().register_eventfd(event.as_raw_fd())?;
        Ok(Self {
            shared: Rc::new(Shared {
                ring: RefCell::new(ring),
                table: RefCell::default(),
                event: Rc::new(event),
                driver: RefCell::default(),
                kicked: Cell::new(false),
                started: Cell::new(false),
                closed: Cell::new(false),
                woken: Cell::default(),
                device,
            }),
        })
    }

    /// Spawns the driver onto the current `LocalSet`; once.
    pub(crate) fn start(&self) {
        if self.shared.started.replace(true) {
            return;
        }
        // SAFETY: the descriptor is an OwnedFd that is never replaced, and the AsyncFd owns a share of it.
        match unsafe {
            AsyncFd::register_with_interest(Rc::clone(&self.shared.event), Interest::READABLE)
        } {
            Ok(event) => {
                let shared = Rc::clone(&self.shared);
                tokio::task::spawn_local(
                    async move { poll_fn(|cx| shared.drive(&event, cx)).await },
                );
            }
            Err(refused) => {
                let (_, error) = refused.into_parts();
                tracing::error!(%error, "the reactor refused the disk's event descriptor: no disk I/O");
                self.shared
                    .break_down(error.raw_os_error().unwrap_or(EAGAIN));
            }
        }
    }

    /// Submits an operation and waits for its answer.
    pub(crate) async fn run(&self, transfer: Transfer, order: Order, held: Option<Held>) -> Answer {
        let slot = self
            .shared
            .table
            .borrow_mut()
            .submit(transfer, order, held)?;
        self.shared.kick();
        Wait {
            shared: &self.shared,
            slot: Some(slot),
        }
        .await
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.shared.table.borrow().in_flight()
    }
}

impl Drop for Uring {
    fn drop(&mut self) {
        self.shared.closed.set(true);
        self.shared.kick();
        self.shared.wait_for_all(Instant::now() + STOP_WAIT);
        let left = self.shared.table.borrow().flying();
        if left > 0 {
            tracing::warn!(
                left,
                "the disk did not answer in time: the memory of these operations is given up"
            );
            // U2: the kernel may still write into it.
            std::mem::forget(Rc::clone(&self.shared));
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // The kernel frees a ring some time later; until then a registered file would stay open.
        let _ = self.ring.get_mut().submitter().unregister_files();
    }
}

impl Shared {
    /// Makes the driver run after the tasks that are ready now.
    fn kick(&self) {
        if !self.kicked.replace(true)
            && let Some(driver) = &*self.driver.borrow()
        {
            driver.wake_by_ref();
        }
    }

    /// The driver: one poll is one turn.
    fn drive(&self, event: &AsyncFd<Rc<OwnedFd>>, cx: &mut Context<'_>) -> Poll<()> {
        if self.closed.get() {
            return Poll::Ready(());
        }
        {
            let mut driver = self.driver.borrow_mut();
            match &mut *driver {
                Some(waker) => waker.clone_from(cx.waker()),
                None => *driver = Some(cx.waker().clone()),
            }
        }
        self.kicked.set(false);
        // First clear, then look: a completion in between signals again.
        loop {
            match event.poll_read_ready(cx) {
                Poll::Ready(Ok(mut ready)) => ready.clear_ready(),
                Poll::Ready(Err(_)) => return Poll::Ready(()), // the runtime shuts down
                Poll::Pending => break,
            }
        }
        if !self.turn() {
            cx.waker().wake_by_ref();
        }
        Poll::Pending
    }

    /// Answers completed operations and submits waiting ones. False if it should be called again soon.
    fn turn(&self) -> bool {
        for _ in 0..ROUNDS_MAX {
            self.reap();
            if !self.fill() {
                return true;
            }
            let begun = Instant::now();
            let submitted = self.ring.borrow().submit();
            if self.device.health().submitted_in(begun.elapsed()) {
                tracing::warn!(
                    device = %self.device.path().display(),
                    "a disk operation was carried out while it was submitted, and held up everything else; from now on the kernel's threads carry them out"
                );
            }
            if let Err(error) = submitted {
                match error.raw_os_error() {
                    Some(EINTR) => {}
                    // The kernel needs completions to be taken, or memory to be freed, first: try again after the
                    // other tasks.
                    Some(EAGAIN | EBUSY) => return false,
                    errno => {
                        tracing::error!(%error, "io_uring fails: no more disk I/O");
                        self.break_down(errno.unwrap_or(EAGAIN));
                        return true;
                    }
                }
            }
        }
        false
    }

    /// Takes completions and wakes their waiters.
    fn reap(&self) {
        let mut woken = self.woken.take();
        {
            let (mut ring, mut table) = (self.ring.borrow_mut(), self.table.borrow_mut());
            for entry in ring.completion() {
                let slot = u32::try_from(entry.user_data())
                    .expect("user data is a slot number, as `fill` set it");
                table.complete(slot, entry.result(), &mut woken);
            }
        }
        self.wake(woken);
    }

    /// Moves operations from the table to the submission queue. True if the queue has anything to submit.
    fn fill(&self) -> bool {
        let (mut ring, mut table) = (self.ring.borrow_mut(), self.table.borrow_mut());
        let mut queue = ring.submission();
        let flags = match self.device.health().submits_aside() {
            true => squeue::Flags::ASYNC,
            false => squeue::Flags::empty(),
        };
        while !queue.is_full() {
            let Some((slot, call)) = table.next() else {
                break;
            };
            let entry = entry_for(&call).flags(flags).user_data(slot.into());
            // SAFETY: U1: the call's memory belongs to its slot until `complete` (O1), the table is dropped with
            // `Shared`, and that outlives all flying operations (U2). The file is registered with the ring.
            unsafe { queue.push(&entry) }.expect("the submission queue was not full");
        }
        !queue.is_empty()
    }

    fn break_down(&self, errno: i32) {
        let mut woken = self.woken.take();
        self.table.borrow_mut().break_down(errno, &mut woken);
        self.wake(woken);
    }

    fn wake(&self, mut woken: Vec<Waker>) {
        woken.drain(..).for_each(Waker::wake);
        self.woken.set(woken);
    }

    /// Finishes all operations on this thread, until the deadline.
    fn wait_for_all(&self, deadline: Instant) {
        loop {
            self.reap();
            let unsubmitted = self.fill();
            if !unsubmitted && self.table.borrow().flying() == 0 {
                return;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            let timeout = Timespec::from(left);
            let waited = self
                .ring
                .borrow()
                .submitter()
                .submit_with_args(1, &SubmitArgs::new().timespec(&timeout));
            match waited.err().and_then(|error| error.raw_os_error()) {
                None | Some(EINTR | EAGAIN | EBUSY | ETIME) => {}
                Some(errno) => {
                    tracing::error!(device = %self.device.path().display(), errno, "io_uring fails while stopping");
                    return;
                }
            }
        }
    }
}

fn entry_for(call: &Call) -> squeue::Entry {
    match *call {
        Call::Read { at, to, len } => opcode::Read::new(DEVICE, to, len).offset(at).build(),
        Call::Write { at, from, len } => opcode::Write::new(DEVICE, from, len).offset(at).build(),
        Call::Flush => opcode::Fsync::new(DEVICE)
            .flags(FsyncFlags::DATASYNC)
            .build(),
    }
}

/// Waits for the answer in one slot. If it is dropped early, the operation stays with the table.
struct Wait<'a> {
    shared: &'a Shared,
    slot: Option<u32>,
}

impl Future for Wait<'_> {
    type Output = Answer;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Answer> {
        let Some(slot) = self.slot else {
            return Poll::Ready(Err(IoFault::Closed));
        };
        let answer = self.shared.table.borrow_mut().poll(slot, cx);
        if answer.is_ready() {
            self.slot = None;
        }
        answer
    }
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        if let Some(slot) = self.slot {
            let left = self.shared.table.borrow_mut().abandon(slot);
            drop(left);
        }
    }
}
