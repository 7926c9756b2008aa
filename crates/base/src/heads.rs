//! The memory that unfinished heads may hold, over all connections.
//!
//! A head that arrives whole is read in the worker's scratch space and costs nothing. A head that arrives in parts is kept
//! until its end; so are bytes that follow a request, and the head of an origin's answer. A client with many connections that
//! sends much and never finishes a head could fill the memory. So these bytes are counted, over all workers, against
//! `limits.head-buffer`.
//!
//! When the budget is used up, each worker above its share gives up its worst heads, by bytes times age, until it is below:
//! large and slow heads go first, ordinary ones are safe. A worker checks when its own bytes grow, and ten times a second, so
//! the excess is at most the bytes that the others receive in a tenth of a second.
//!
//! Bytes that follow a request in progress are counted, but never given up; when there are too many, further ones are refused.
//!
//! Not known here: connections, and how a request is answered whose head was given up.

use crate::clock::Instant;
use std::{
    cell::RefCell,
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Waker},
};

/// The budget of the process.
pub struct HeadBudget {
    bytes: AtomicU64,
    bytes_max: AtomicU64,
    /// The bytes that one worker may always keep.
    share: AtomicU64,
    workers: u64,
}

impl HeadBudget {
    /// A budget of `bytes_max` bytes for all workers together.
    pub fn new(bytes_max: u64, workers: usize) -> HeadBudget {
        let budget = HeadBudget {
            bytes: AtomicU64::new(0),
            bytes_max: AtomicU64::new(0),
            share: AtomicU64::new(0),
            workers: workers.max(1) as u64,
        };
        budget.follow(bytes_max);
        budget
    }

    /// Changes the budget to `bytes_max` bytes. Any excess is given up at the next sweep.
    pub fn follow(&self, bytes_max: u64) {
        self.bytes_max.store(bytes_max, Ordering::Relaxed);
        (self.share).store(bytes_max / self.workers, Ordering::Relaxed);
    }

    /// The bytes that may be kept.
    pub fn bytes_max(&self) -> u64 {
        self.bytes_max.load(Ordering::Relaxed)
    }

    fn share(&self) -> u64 {
        self.share.load(Ordering::Relaxed)
    }

    /// The bytes kept now.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    fn is_exceeded(&self) -> bool {
        self.bytes() > self.bytes_max()
    }
}

/// The bytes that one worker keeps.
pub struct Heads {
    budget: Arc<HeadBudget>,
    table: RefCell<Table>,
}

#[derive(Default)]
struct Table {
    entries: Vec<Entry>,
    free: Vec<usize>,
    bytes: u64,
    /// The part of `bytes` that follows requests; it cannot be given up.
    behind: u64,
}

#[derive(Default)]
struct Entry {
    bytes: u64,
    /// When the head began; `None`: it cannot be given up.
    began: Option<Instant>,
    must_go: bool,
    waker: Option<Waker>,
}

impl Heads {
    /// Keeps nothing yet.
    pub fn new(budget: Arc<HeadBudget>) -> Rc<Heads> {
        Rc::new(Heads {
            budget,
            table: RefCell::default(),
        })
    }

    /// Reserves a slot for the bytes of one connection; dropping the [`Kept`] frees the slot.
    pub fn place(self: &Rc<Heads>) -> Kept {
        let mut table = self.table.borrow_mut();
        let slot = table.free.pop().unwrap_or_else(|| {
            table.entries.push(Entry::default());
            table.entries.len() - 1
        });
        Kept {
            heads: Rc::clone(self),
            slot,
        }
    }

    /// Gives up the worst heads if the budget and this worker's share are exceeded.
    pub fn sweep(&self, now: Instant) {
        if self.budget.is_exceeded() && self.table.borrow().bytes > self.budget.share() {
            self.shed(now);
        }
    }

    #[cold]
    fn shed(&self, now: Instant) {
        let mut table = self.table.borrow_mut();
        let table = &mut *table;
        // An eighth below the share, so that the next few bytes do not lead here again.
        let goal = self.budget.share() - self.budget.share() / 8;
        let badness = |entry: &Entry| {
            let age = now.saturating_duration_since(entry.began?);
            (!entry.must_go && entry.bytes > 0)
                .then(|| u128::from(entry.bytes) * (age.as_millis() + 1000))
        };
        let scored = table.entries.iter().enumerate();
        let mut worst: Vec<(u128, usize)> = scored
            .filter_map(|(slot, entry)| Some((badness(entry)?, slot)))
            .collect();
        worst.sort_unstable_by(|a, b| b.cmp(a));
        for (_, slot) in worst {
            if table.bytes <= goal {
                break;
            }
            let entry = &mut table.entries[slot];
            entry.must_go = true;
            let bytes = std::mem::take(&mut entry.bytes);
            if let Some(waker) = entry.waker.take() {
                waker.wake();
            }
            table.bytes -= bytes;
            self.budget.bytes.fetch_sub(bytes, Ordering::Relaxed);
        }
    }

    fn set(&self, slot: usize, bytes: u64, began: Option<Instant>) {
        let mut table = self.table.borrow_mut();
        let entry = &mut table.entries[slot];
        if entry.must_go && began.is_some() {
            entry.began = began;
            return; // its bytes are not counted any more, and the connection is about to end
        }
        entry.must_go = false;
        let was_behind = entry.began.is_none();
        entry.began = began;
        let before = std::mem::replace(&mut entry.bytes, bytes);
        table.behind -= if was_behind { before } else { 0 };
        table.behind += if began.is_none() { bytes } else { 0 };
        table.bytes = table.bytes + bytes - before;
        self.budget.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.budget.bytes.fetch_sub(before, Ordering::Relaxed);
    }
}

/// The bytes that one connection keeps; counted until dropped.
pub struct Kept {
    heads: Rc<Heads>,
    slot: usize,
}

impl Kept {
    /// Counts `bytes` of an incomplete head that began at `began`. False: the head was given up.
    pub fn grow(&self, bytes: usize, began: Instant) -> bool {
        self.heads.set(self.slot, bytes as u64, Some(began));
        self.heads.sweep(Instant::now());
        !self.must_go()
    }

    /// Counts `bytes` that follow a request. False: there is no room for them.
    pub fn hold(&self, bytes: usize) -> bool {
        self.heads.set(self.slot, bytes as u64, None);
        self.heads.sweep(Instant::now());
        let (table, budget) = (self.heads.table.borrow(), &self.heads.budget);
        let is_too_much = budget.is_exceeded() && table.bytes > budget.share();
        // Half of the budget is reserved for heads, because they can be given up.
        let is_crowding =
            budget.bytes() > budget.bytes_max() / 2 && table.behind > budget.share() / 2;
        !(is_too_much || is_crowding)
    }

    /// Was the head given up? If not, `cx` is woken when it is.
    pub fn poll_must_go(&self, cx: &mut Context<'_>) -> bool {
        let mut table = self.heads.table.borrow_mut();
        let entry = &mut table.entries[self.slot];
        if !entry.must_go {
            match &mut entry.waker {
                Some(waker) => waker.clone_from(cx.waker()),
                none => *none = Some(cx.waker().clone()),
            }
        }
        entry.must_go
    }

    fn must_go(&self) -> bool {
        self.heads.table.borrow().entries[self.slot].must_go
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.heads.set(self.slot, 0, None);
        let mut table = self.heads.table.borrow_mut();
        table.entries[self.slot].waker = None;
        table.free.push(self.slot);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const MAX: u64 = 80_000;

    #[test]
    fn the_largest_and_slowest_go_first() {
        let budget = Arc::new(HeadBudget::new(MAX, 1));
        let heads = Heads::new(Arc::clone(&budget));
        let now = Instant::now();
        let old = now.checked_sub(Duration::from_secs(20)).unwrap();
        let (large, slow, small) = (heads.place(), heads.place(), heads.place());
        assert!(small.grow(1000, now) && slow.grow(10_000, old) && large.grow(60_000, now));
        let more = heads.place();
        assert!(more.grow(20_000, now), "who comes last is not the worst");
        assert!(slow.must_go() && !small.must_go());
        // 91,000 bytes are too much, and so are the 81,000 without the slow head.
        assert!(large.must_go() && budget.bytes() == 21_000);
    }

    #[test]
    fn what_goes_is_not_counted_twice() {
        let budget = Arc::new(HeadBudget::new(MAX, 1));
        let heads = Heads::new(Arc::clone(&budget));
        let now = Instant::now();
        let (one, two) = (heads.place(), heads.place());
        assert!(one.grow(50_000, now));
        assert!(two.grow(40_000, now));
        assert!(!one.grow(51_000, now), "it has to go, and knows");
        assert_eq!(budget.bytes(), 40_000);
        drop(one);
        assert_eq!(budget.bytes(), 40_000);
        // Another connection now uses the freed slot.
        let three = heads.place();
        assert!(three.grow(10, now));
        drop((two, three));
        assert_eq!(budget.bytes(), 0);
    }

    #[test]
    fn a_worker_within_its_share_is_left_alone() {
        let budget = Arc::new(HeadBudget::new(MAX, 2));
        let (here, there) = (
            Heads::new(Arc::clone(&budget)),
            Heads::new(Arc::clone(&budget)),
        );
        let now = Instant::now();
        let much = there.place();
        assert!(much.grow(79_000, now));
        let little = here.place();
        assert!(little.grow(2000, now));
        assert!(budget.is_exceeded());
        there.sweep(now);
        assert!(much.must_go() && !budget.is_exceeded());
    }

    #[test]
    fn what_is_behind_a_request_is_counted_and_not_ended() {
        let budget = Arc::new(HeadBudget::new(MAX, 1));
        let heads = Heads::new(Arc::clone(&budget));
        // These bytes get at most half of the budget: they cannot be given up, and heads need room too.
        let kept: Vec<Kept> = (0..4).map(|_| heads.place()).collect();
        assert!(kept.iter().all(|kept| kept.hold(10_000)));
        let one_more = heads.place();
        assert!(!one_more.hold(1));
        let head = heads.place();
        assert!(head.grow(30_000, Instant::now()));
        drop((kept, one_more));
        assert_eq!(budget.bytes(), 30_000);
    }
}
