//! Time-outs at every wait, without a timer per wait.
//!
//! A worker keeps one table of due times and checks it a few times a second; a wait past its due time is
//! woken and ends with [`Elapsed`]. Arming and disarming is a store to memory, so time-outs cost a request that never
//! waits long almost nothing. In exchange they are coarse: a wait may last [`TICK`] longer than asked.
//!
//! Single-threaded: one [`Deadlines`] a worker.

use crate::clock::Instant;
use crate::listening::ListenerId;
use crate::mistakes::{Mistake, makes};
use std::{
    cell::{Cell, RefCell},
    future::Future,
    pin::Pin,
    rc::Rc,
    task::{Context, Poll, Waker},
    time::Duration,
};

/// How often the table is checked.
pub const TICK: Duration = Duration::from_millis(250);

/// The wait took longer than allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("timed out")]
pub struct Elapsed;

/// May something else end this wait early?
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Idle {
    No,
    Yes,
    /// A connection of this listener waits for its next request.
    Of(ListenerId),
}

struct Table {
    began: Instant,
    /// Due tick of each watch, 0 = not waiting.
    due: RefCell<Vec<u32>>,
    wakers: RefCell<Vec<Option<Waker>>>,
    /// The waits that a drain ends at once.
    idle: RefCell<Vec<Idle>>,
    free: RefCell<Vec<u32>>,
    now: Cell<u32>,
    draining: Cell<bool>,
}

/// A worker's table of due times.
#[derive(Clone)]
pub struct Deadlines(Rc<Table>);

impl Deadlines {
    /// An empty table.
    pub fn new() -> Deadlines {
        Deadlines(Rc::new(Table {
            began: Instant::now(),
            due: RefCell::default(),
            wakers: RefCell::default(),
            idle: RefCell::default(),
            free: RefCell::default(),
            now: Cell::new(1),
            draining: Cell::new(false),
        }))
    }

    /// Reserves a slot of the table for one task; dropping the [`Watch`] frees the slot.
    pub fn watch(&self) -> Watch {
        let slot = self.0.free.borrow_mut().pop().unwrap_or_else(|| {
            let mut due = self.0.due.borrow_mut();
            due.push(0);
            self.0.wakers.borrow_mut().push(None);
            self.0.idle.borrow_mut().push(Idle::No);
            u32::try_from(due.len() - 1).expect("fewer than 2^32 tasks")
        });
        Watch {
            table: Rc::clone(&self.0),
            slot,
        }
    }

    /// From now on idle waits end at the next sweep, as the process drains.
    pub fn drain(&self) {
        self.0.draining.set(true);
    }

    /// The drain is called off: idle waits last until their own limit again.
    pub fn resume(&self) {
        self.0.draining.set(false);
    }

    /// Ends the waits of idle connections whose listener is gone.
    pub fn end_idle(&self, is_gone: impl Fn(ListenerId) -> bool) {
        let idle = self.0.idle.borrow();
        let mut due = self.0.due.borrow_mut();
        let mut wakers = self.0.wakers.borrow_mut();
        for (slot, at) in due.iter_mut().enumerate() {
            if let Idle::Of(listener) = idle[slot]
                && *at != 0
                && is_gone(listener)
            {
                *at = 1;
                if let Some(waker) = wakers[slot].take() {
                    waker.wake();
                }
            }
        }
    }

    /// Wakes the waits that are over due. Must be called every [`TICK`].
    pub fn sweep(&self, now: Instant) {
        let ticks = now.duration_since(self.0.began).as_millis() / TICK.as_millis();
        let now = u32::try_from(ticks).unwrap_or(u32::MAX).saturating_add(1);
        self.0.now.set(now);
        let due = self.0.due.borrow();
        let idle = self.0.idle.borrow();
        let mut wakers = self.0.wakers.borrow_mut();
        let draining = self.0.draining.get();
        for (slot, &at) in due.iter().enumerate() {
            if at != 0
                && (at <= now || draining && idle[slot] != Idle::No)
                && let Some(waker) = wakers[slot].take()
            {
                waker.wake();
            }
        }
    }
}

impl Default for Deadlines {
    fn default() -> Self {
        Deadlines::new()
    }
}

/// One task's slot in the table. A task waits for one thing at a time.
pub struct Watch {
    table: Rc<Table>,
    slot: u32,
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.disarm();
        self.table.free.borrow_mut().push(self.slot);
    }
}

impl Watch {
    fn arm(&self, limit: Duration, idle: Idle) {
        let ticks = limit.as_millis().div_ceil(TICK.as_millis()) + 1;
        let due = self
            .table
            .now
            .get()
            .saturating_add(u32::try_from(ticks).unwrap_or(u32::MAX / 2));
        self.table.due.borrow_mut()[self.slot as usize] = due;
        self.table.idle.borrow_mut()[self.slot as usize] = idle;
    }

    fn disarm(&self) {
        self.table.due.borrow_mut()[self.slot as usize] = 0;
        self.table.wakers.borrow_mut()[self.slot as usize] = None;
    }

    fn is_over(&self) -> bool {
        let due = self.table.due.borrow()[self.slot as usize];
        let idle = self.table.idle.borrow()[self.slot as usize];
        due != 0
            && !makes(Mistake::NeverLate)
            && (due <= self.table.now.get() || idle != Idle::No && self.table.draining.get())
    }

    fn remember(&self, waker: &Waker) {
        let mut wakers = self.table.wakers.borrow_mut();
        match &mut wakers[self.slot as usize] {
            Some(known) if known.will_wake(waker) => {}
            other => *other = Some(waker.clone()),
        }
    }

    /// Waits for `inner`, for at most `limit` and a tick.
    pub fn limit<F: Future>(&self, limit: Duration, inner: F) -> Limited<'_, F> {
        Limited {
            watch: self,
            limit,
            idle: Idle::No,
            armed: false,
            inner,
        }
    }

    /// [`Self::limit`] for a wait that a drain may end at once.
    pub fn limit_idle<F: Future>(&self, limit: Duration, inner: F) -> Limited<'_, F> {
        let mut limited = self.limit(limit, inner);
        limited.idle = Idle::Yes;
        limited
    }

    /// [`Self::limit_idle`] for a connection of `listener` that waits for a request: [`Deadlines::end_idle`] may end it, too.
    pub fn limit_idle_of<F: Future>(
        &self,
        listener: ListenerId,
        limit: Duration,
        inner: F,
    ) -> Limited<'_, F> {
        let mut limited = self.limit(limit, inner);
        limited.idle = Idle::Of(listener);
        limited
    }
}

/// The future that [`Watch::limit`] returns.
pub struct Limited<'w, F> {
    watch: &'w Watch,
    limit: Duration,
    idle: Idle,
    armed: bool,
    inner: F,
}

impl<F: Future + Unpin> Future for Limited<'_, F> {
    type Output = Result<F::Output, Elapsed>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        if let Poll::Ready(out) = Pin::new(&mut this.inner).poll(cx) {
            if this.armed {
                this.watch.disarm();
                this.armed = false;
            }
            return Poll::Ready(Ok(out));
        }
        if !this.armed {
            this.watch.arm(this.limit, this.idle);
            this.armed = true;
        } else if this.watch.is_over() {
            this.watch.disarm();
            this.armed = false;
            return Poll::Ready(Err(Elapsed));
        }
        this.watch.remember(cx.waker());
        Poll::Pending
    }
}

impl<F> Drop for Limited<'_, F> {
    fn drop(&mut self) {
        if self.armed {
            self.watch.disarm();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{pin::pin, task::Waker};

    #[test]
    fn a_wait_that_is_over_due_is_woken_and_ends() {
        let deadlines = Deadlines::new();
        let watch = deadlines.watch();
        let mut wait = pin!(watch.limit(Duration::from_secs(1), std::future::pending::<()>()));
        let mut cx = Context::from_waker(Waker::noop());
        assert!(wait.as_mut().poll(&mut cx).is_pending());
        deadlines.sweep(Instant::now());
        assert!(wait.as_mut().poll(&mut cx).is_pending());
        deadlines.sweep(Instant::now() + Duration::from_secs(3));
        assert_eq!(wait.as_mut().poll(&mut cx), Poll::Ready(Err(Elapsed)));
    }

    #[test]
    fn the_idle_of_a_listener_that_is_gone_end_and_no_others() {
        let deadlines = Deadlines::new();
        let [gone, stays] = [ListenerId(1), ListenerId(2)];
        let watches = [deadlines.watch(), deadlines.watch(), deadlines.watch()];
        let long = Duration::from_secs(60);
        let never = std::future::pending::<()>;
        let mut of_gone = pin!(watches[0].limit_idle_of(gone, long, never()));
        let mut of_other = pin!(watches[1].limit_idle_of(stays, long, never()));
        let mut busy = pin!(watches[2].limit(long, never()));
        let mut cx = Context::from_waker(Waker::noop());
        assert!(of_gone.as_mut().poll(&mut cx).is_pending());
        assert!(of_other.as_mut().poll(&mut cx).is_pending());
        assert!(busy.as_mut().poll(&mut cx).is_pending());
        deadlines.end_idle(|listener| listener == gone);
        assert_eq!(of_gone.as_mut().poll(&mut cx), Poll::Ready(Err(Elapsed)));
        assert!(of_other.as_mut().poll(&mut cx).is_pending());
        assert!(busy.as_mut().poll(&mut cx).is_pending());
    }

    #[test]
    fn a_wait_that_ends_in_time_gives_its_value() {
        let deadlines = Deadlines::new();
        let watch = deadlines.watch();
        let wait = pin!(watch.limit(Duration::from_secs(1), std::future::ready(7)));
        assert_eq!(
            wait.poll(&mut Context::from_waker(Waker::noop())),
            Poll::Ready(Ok(7))
        );
    }
}
