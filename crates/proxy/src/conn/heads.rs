//! What unfinished heads may hold of memory, all together.
//!
//! A head that comes whole is read in the worker's scratch space and costs nothing. One that comes in parts has to be kept until
//! its end arrives, and so have bytes behind a request, and the head of an origin's answer; whoever opens many connections
//! and sends much but no end could fill the memory with them. So they are counted, over all workers, against `limits.head-buffer`.
//!
//! When that is used up, each worker that holds more than its share ends what is worst, bytes times age, until it holds less: the
//! large and the slow go first, and clients that send ordinary heads are not hit. A worker sees to this when something of its own grows and
//! ten times a second, so that the bound is exceeded by what others receive in a tenth of a second at most.
//!
//! What is kept behind a request that is being answered counts, but is not ended; a further one of these is refused instead.
//!
//! Not known here: connections, and the answers to heads that have to go.

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
    bytes_max: u64,
    /// What one worker may keep whatever the others do.
    share: u64,
}

impl HeadBudget {
    /// So many bytes for all workers together.
    pub fn new(bytes_max: u64, workers: usize) -> HeadBudget {
        HeadBudget {
            bytes: AtomicU64::new(0),
            bytes_max,
            share: bytes_max / workers.max(1) as u64,
        }
    }

    /// Bytes kept now.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    fn is_exceeded(&self) -> bool {
        self.bytes() > self.bytes_max
    }
}

/// What one worker keeps.
pub struct Heads {
    budget: Arc<HeadBudget>,
    table: RefCell<Table>,
}

#[derive(Default)]
struct Table {
    entries: Vec<Entry>,
    free: Vec<usize>,
    bytes: u64,
    /// Of these, behind requests: nobody can be made to give them back.
    behind: u64,
}

#[derive(Default)]
struct Entry {
    bytes: u64,
    /// `None`: it is not ended.
    began: Option<Instant>,
    must_go: bool,
    waker: Option<Waker>,
}

impl Heads {
    /// Nothing is kept.
    pub fn new(budget: Arc<HeadBudget>) -> Rc<Heads> {
        Rc::new(Heads {
            budget,
            table: RefCell::default(),
        })
    }

    /// A place for what one connection keeps; given back when dropped.
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

    /// Ends what is worst, if there is too much of it, here and in all.
    pub fn sweep(&self, now: Instant) {
        if self.budget.is_exceeded() && self.table.borrow().bytes > self.budget.share {
            self.shed(now);
        }
    }

    #[cold]
    fn shed(&self, now: Instant) {
        let mut table = self.table.borrow_mut();
        let table = &mut *table;
        // An eighth less than it may be, so that not each byte that comes leads here.
        let goal = self.budget.share - self.budget.share / 8;
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
            return; // its bytes are no longer counted, and it is about to end
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

/// What one connection keeps; counted until dropped.
pub struct Kept {
    heads: Rc<Heads>,
    slot: usize,
}

impl Kept {
    /// So many bytes are kept of a head that began then and is not complete. False: it must go.
    pub fn grow(&self, bytes: usize, began: Instant) -> bool {
        self.heads.set(self.slot, bytes as u64, Some(began));
        self.heads.sweep(Instant::now());
        !self.must_go()
    }

    /// So many bytes are kept behind a request. False: there is no room for them.
    pub fn hold(&self, bytes: usize) -> bool {
        self.heads.set(self.slot, bytes as u64, None);
        self.heads.sweep(Instant::now());
        let (table, budget) = (self.heads.table.borrow(), &self.heads.budget);
        let is_too_much = budget.is_exceeded() && table.bytes > budget.share;
        // Half is kept for heads, which can be made to go.
        let is_crowding = budget.bytes() > budget.bytes_max / 2 && table.behind > budget.share / 2;
        !(is_too_much || is_crowding)
    }

    /// Must it go? If not, `cx` is woken when it must.
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
        // 91,000 were too much; without the slow one 81,000 still are.
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
        // Its place is somebody else's now.
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
        // Half of it at most: nobody can be made to give it back, and heads need room too.
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
