//! The ledger of bodies on their way: which bytes are held in memory, for which connection, and who gives way when they are too many.
//!
//! What is counted is allocations, not references. A piece of a body is counted when it is received or read ([`Holder::count`]), and no
//! more when its last reference is dropped, wherever that is: in a fetch, in the queue of a stream, half written to a socket. So nobody
//! has to follow it, and a piece that a thousand clients read along counts once.
//!
//! Each count has a *holder*: the client's connection that has asked for it. Of the bound, `limits.transfer-buffer`,
//!
//! ```text
//! |--------- transfers: half ---------|---- promised ----|-- rooms: a quarter at most (`room`) --|
//! ```
//!
//! - While less than half is taken, a transfer reads as much at a time as its part of that half is ([`Ledger::step`]).
//! - Beyond it the ledger is *crowded*: a holder with more than its share gets nothing more until what it has is gone
//!   ([`Ledger::grant`]). It is paused: its origins are not read. Who holds less goes on, in small steps, which get smaller as what is left
//!   of the bound does.
//! - A client that then takes nothing is asked to leave ([`Holder::must_leave`]), the large ones first. One that takes a byte now and then
//!   is only paused.
//! - What is to be stored is *promised* its memory before it begins ([`Ledger::promise`]), and never pauses: it would hold for ever what it
//!   has. Where there is no room for the promise, it is not stored.
//!
//! - Windows of HTTP/2, to clients and to origins (`window`), that are larger than ordinary ones are *lent* ([`Ledger::loan`]), a quarter of the bound at most, each a quarter of
//!   what is left of it, and none while it is crowded. They count from then on, whether a client fills them or not.
//!
//! Whatever is taken, each transfer may hold [`STEP_BYTES_MIN`], and each connection that has less than its share [`HELD_BYTES_MIN`]. So the
//! many small ones do not stop, and none waits for ever for what its connection holds beside it. The bound is exceeded by these at most.
//!
//! Not known here: connections, fetches, clocks; how it is waited for ([`pause`]).
#![forbid(unsafe_code)]

pub mod pause;
pub mod room;
pub mod window;

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;

/// The least that is read at a time, whatever is taken: one page.
pub const STEP_BYTES_MIN: usize = 4 << 10;

/// What a connection that has less than its share may hold, whatever is taken.
const HELD_BYTES_MIN: u64 = 4 * STEP_BYTES_MIN as u64;

/// The least that is lent, unless less is wanted.
const LOAN_BYTES_MIN: u64 = 16 << 10;

/// So long may one that holds its share or more take nothing while the ledger is crowded.
const LARGE_PATIENCE: Duration = Duration::from_secs(10);
/// The same of one that holds a quarter of its share.
const PATIENCE: Duration = Duration::from_secs(20);

/// See the head of the file.
#[derive(Clone)]
pub struct Ledger(Arc<Book>);

#[derive(Default)]
struct Book {
    /// Held now.
    held: AtomicU64,
    /// Promised, and not held yet; and what tasks take.
    promised: AtomicU64,
    /// The first part of that.
    to_be_stored: AtomicU64,
    /// Another part of that: windows.
    lent: AtomicU64,
    bytes_max: AtomicU64,
    /// Holders that hold something.
    holders: AtomicU64,
    /// Holders with requests that are being answered.
    askers: AtomicU64,
    /// Bodies that are being received.
    bodies: AtomicU64,
}

impl Ledger {
    /// Nothing is held; at most so much is to be.
    pub fn new(bytes_max: u64) -> Ledger {
        let ledger = Ledger(Arc::default());
        ledger.follow(bytes_max);
        ledger
    }

    /// From now on so much at most.
    pub fn follow(&self, bytes_max: u64) {
        self.0.bytes_max.store(bytes_max, Ordering::Relaxed);
    }

    /// Held and promised now.
    pub fn bytes(&self) -> u64 {
        self.0.held.load(Ordering::Relaxed) + self.0.promised.load(Ordering::Relaxed)
    }

    /// Who holds something now.
    pub fn holders(&self) -> u64 {
        self.0.holders.load(Ordering::Relaxed)
    }

    fn half(&self) -> u64 {
        self.0.bytes_max.load(Ordering::Relaxed) / 2
    }

    /// What each of the holders may have of the half that is theirs.
    fn share(&self) -> u64 {
        (self.half() / self.holders().max(1)).max(STEP_BYTES_MIN as u64)
    }

    /// Is more than half of it taken?
    pub fn is_crowded(&self) -> bool {
        self.bytes() > self.half()
    }

    /// Is all of it taken, of which this holder has its share?
    pub fn is_full_of(&self, holder: &Holder) -> bool {
        let has = holder.bytes() + holder.of_tasks.load(Ordering::Relaxed);
        // Connections whose requests have no body yet hold no piece of one.
        let askers = self.0.askers.load(Ordering::Relaxed);
        let share = self.half() / self.holders().max(askers).max(1);
        self.bytes() > 2 * self.half() && has >= share
    }

    /// Is so little taken that something may be read before it is asked for?
    pub fn may_read_ahead(&self) -> bool {
        self.bytes() < self.half() / 2
    }

    /// Is there room for so many bytes more that are to be stored? `beside`: what is taken elsewhere of the same bound.
    pub fn has_room_for(&self, bytes: u64, beside: u64) -> bool {
        let most = self.0.bytes_max.load(Ordering::Relaxed);
        self.bytes().saturating_add(beside).saturating_add(bytes) <= most
    }

    /// The same of bytes that are promised from then on. Half of the bound is for others, who would wait for what is only promised; one
    /// that is longer than that gets it while it is the only one.
    pub fn may_promise(&self, bytes: u64, beside: u64) -> bool {
        let before = self.0.to_be_stored.load(Ordering::Relaxed);
        self.has_room_for(bytes, beside)
            && (bytes == 0 || before == 0 || before.saturating_add(bytes) <= self.half())
    }

    /// A connection that holds nothing yet.
    pub fn holder(&self) -> Arc<Holder> {
        Arc::new(Holder {
            book: Arc::clone(&self.0),
            bytes: AtomicU64::new(0),
            pinned: AtomicU64::new(0),
            of_tasks: AtomicU64::new(0),
        })
    }

    /// A promise of nothing yet.
    pub fn promise(&self) -> Promise {
        Promise {
            book: Arc::clone(&self.0),
            bytes: 0,
        }
    }

    /// A loan of nothing yet.
    pub fn loan(&self) -> Loan {
        Loan {
            book: Arc::clone(&self.0),
            bytes: 0,
        }
    }

    /// Counts a body that is being received, until it is dropped.
    pub fn receives(&self) -> Receiving {
        self.0.bodies.fetch_add(1, Ordering::Relaxed);
        Receiving(Arc::clone(&self.0))
    }

    /// How much may be read of a body at a time: so many bodies could do so at once.
    pub fn step(&self) -> usize {
        let bodies = self.0.bodies.load(Ordering::Relaxed).max(1);
        let step = usize::try_from(self.half() / bodies).unwrap_or(usize::MAX);
        step.max(STEP_BYTES_MIN)
    }

    /// How much more the holder may get now. `None`: it is to wait.
    pub fn grant(&self, holder: &Holder) -> Option<usize> {
        if !self.is_crowded() {
            return Some(self.step());
        }
        let has = holder.bytes();
        let of_share = self.share().checked_sub(has).filter(|&left| left > 0)?;
        // Who came while there were few has more than what is now a share, and keeps it: only what is left is there for all.
        let unheld = (2 * self.half()).saturating_sub(self.bytes());
        let of_all = unheld / self.holders().max(1);
        if of_all < STEP_BYTES_MIN as u64 && has >= HELD_BYTES_MIN {
            return None;
        }
        let granted = usize::try_from(of_share.min(of_all)).unwrap_or(usize::MAX);
        Some(granted.min(self.step()).max(STEP_BYTES_MIN))
    }
}

/// Counts a body that is being received.
pub struct Receiving(Arc<Book>);

impl Drop for Receiving {
    fn drop(&mut self) {
        self.0.bodies.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A connection, as the ledger knows it.
pub struct Holder {
    book: Arc<Book>,
    bytes: AtomicU64,
    /// Bytes that are somebody else's, or counted elsewhere, and that it keeps from being dropped.
    pinned: AtomicU64,
    /// What its requests take while they are answered. It is never paused for that: they would wait for themselves.
    of_tasks: AtomicU64,
}

impl Holder {
    /// What it holds.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// So many bytes are its own until the count is dropped.
    pub fn hold(self: &Arc<Holder>, bytes: usize) -> Lot {
        self.add(bytes as u64);
        Lot {
            holder: Arc::clone(self),
            bytes: bytes as u64,
        }
    }

    /// One of its requests takes so much until it is answered.
    pub fn answers(self: &Arc<Holder>, bytes: usize) -> Task {
        self.book
            .promised
            .fetch_add(bytes as u64, Ordering::Relaxed);
        if bytes > 0 && self.of_tasks.fetch_add(bytes as u64, Ordering::Relaxed) == 0 {
            self.book.askers.fetch_add(1, Ordering::Relaxed);
        }
        Task(Arc::clone(self), bytes as u64)
    }

    /// Counts a piece until its last reference is dropped.
    pub fn count(self: &Arc<Holder>, piece: Bytes) -> Bytes {
        self.count_of(piece, None)
    }

    /// The same of a piece of this transfer.
    pub fn count_of(self: &Arc<Holder>, piece: Bytes, transfer: Option<&Transfer>) -> Bytes {
        if piece.is_empty() {
            return piece;
        }
        let lot = self.hold(piece.len());
        Bytes::from_owner(Counted {
            piece,
            _lot: lot,
            _transfer: transfer.cloned(),
        })
    }

    /// It keeps so many bytes from being dropped that count elsewhere.
    pub fn pin(&self, bytes: usize) -> Pinned<'_> {
        self.pinned.fetch_add(bytes as u64, Ordering::Relaxed);
        Pinned(self, bytes as u64)
    }

    /// Its client has taken nothing for so long though something waits for it. Must it go, to make room for others?
    pub fn must_leave(&self, stalled: Duration) -> bool {
        let ledger = Ledger(Arc::clone(&self.book));
        if stalled < LARGE_PATIENCE || !ledger.is_crowded() {
            return false;
        }
        let (has, share) = (self.weight(), ledger.share());
        has >= share || has >= share / 4 && stalled >= PATIENCE
    }

    /// How long a client may take nothing, if it is not as long as it likes.
    pub fn patience(&self) -> Option<Duration> {
        let ledger = Ledger(Arc::clone(&self.book));
        if !ledger.is_crowded() {
            return None;
        }
        let (has, share) = (self.weight(), ledger.share());
        match has {
            _ if has >= share => Some(LARGE_PATIENCE),
            _ if has >= share / 4 => Some(PATIENCE),
            _ => None,
        }
    }

    fn weight(&self) -> u64 {
        self.bytes().max(self.pinned.load(Ordering::Relaxed))
    }

    fn add(&self, bytes: u64) {
        self.book.held.fetch_add(bytes, Ordering::Relaxed);
        if bytes > 0 && self.bytes.fetch_add(bytes, Ordering::Relaxed) == 0 {
            self.book.holders.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn take_off(&self, bytes: u64) {
        self.book.held.fetch_sub(bytes, Ordering::Relaxed);
        if bytes > 0 && self.bytes.fetch_sub(bytes, Ordering::Relaxed) == bytes {
            self.book.holders.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// Bytes of a holder; not counted any more when dropped.
pub struct Lot {
    holder: Arc<Holder>,
    bytes: u64,
}

impl Lot {
    /// So many bytes now.
    pub fn set(&mut self, bytes: usize) {
        let bytes = bytes as u64;
        self.holder.add(bytes);
        self.holder.take_off(self.bytes);
        self.bytes = bytes;
    }
}

impl Drop for Lot {
    fn drop(&mut self) {
        self.holder.take_off(self.bytes);
    }
}

/// What the windows of a connection are larger than ordinary ones; given back when dropped.
pub struct Loan {
    book: Arc<Book>,
    bytes: u64,
}

impl Loan {
    /// So much more, or as much of it as there is room for: a quarter of what is left, so that something is left for the next one. Returns how
    /// much it is; less than [`LOAN_BYTES_MIN`] is not worth it.
    pub fn raise(&mut self, wanted: u64) -> u64 {
        let ledger = Ledger(Arc::clone(&self.book));
        if ledger.is_crowded() {
            return 0;
        }
        let of_left = |lent: u64| wanted.min((ledger.half() / 2).saturating_sub(lent) / 4);
        let with = |lent: u64| {
            let more = of_left(lent);
            (more >= wanted.min(LOAN_BYTES_MIN)).then_some(lent + more)
        };
        let relaxed = Ordering::Relaxed;
        let Ok(before) = self.book.lent.fetch_update(relaxed, relaxed, with) else {
            return 0;
        };
        let more = of_left(before);
        self.book.promised.fetch_add(more, relaxed);
        self.bytes += more;
        more
    }

    /// No more than so much is lent now.
    pub fn lower_to(&mut self, bytes: u64) {
        let returned = self.bytes.saturating_sub(bytes);
        if returned > 0 {
            self.bytes -= returned;
            self.book.lent.fetch_sub(returned, Ordering::Relaxed);
            self.book.promised.fetch_sub(returned, Ordering::Relaxed);
        }
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        self.lower_to(0);
    }
}

/// See [`Holder::answers`].
pub struct Task(Arc<Holder>, u64);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.book.promised.fetch_sub(self.1, Ordering::Relaxed);
        if self.1 > 0 && self.0.of_tasks.fetch_sub(self.1, Ordering::Relaxed) == self.1 {
            self.0.book.askers.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// See [`Holder::pin`].
pub struct Pinned<'h>(&'h Holder, u64);

impl Drop for Pinned<'_> {
    fn drop(&mut self) {
        self.0.pinned.fetch_sub(self.1, Ordering::Relaxed);
    }
}

/// A body of which pieces are on their way.
#[derive(Clone, Default)]
pub struct Transfer(Arc<()>);

impl Transfer {
    /// How many of its pieces are still held.
    pub fn pieces(&self) -> usize {
        Arc::strong_count(&self.0) - 1
    }
}

/// A piece with its count.
struct Counted {
    piece: Bytes,
    _lot: Lot,
    _transfer: Option<Transfer>,
}

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &self.piece
    }
}

/// Memory that is promised to what is to be stored; given back when dropped.
pub struct Promise {
    book: Arc<Book>,
    bytes: u64,
}

impl Promise {
    /// So much is promised now.
    pub fn set(&mut self, bytes: u64) {
        for count in [&self.book.promised, &self.book.to_be_stored] {
            count.fetch_add(bytes, Ordering::Relaxed);
            count.fetch_sub(self.bytes, Ordering::Relaxed);
        }
        self.bytes = bytes;
    }

    /// How much is.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for Promise {
    fn drop(&mut self) {
        self.set(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn a_piece_counts_once_and_until_its_last_reference_is_gone() {
        let ledger = Ledger::new(4 * MIB);
        let holder = ledger.holder();
        let piece = holder.count(Bytes::from(vec![1; 1000]));
        let part = piece.slice(10..20);
        assert_eq!((ledger.bytes(), ledger.holders()), (1000, 1));
        drop(piece);
        assert_eq!((ledger.bytes(), holder.bytes()), (1000, 1000));
        drop(part);
        assert_eq!((ledger.bytes(), ledger.holders()), (0, 0));
    }

    #[test]
    fn beyond_half_the_large_ones_wait_and_the_small_ones_go_on() {
        let ledger = Ledger::new(4 * MIB);
        let (large, small) = (ledger.holder(), ledger.holder());
        let _held = large.hold(3 << 20);
        let _little = small.hold(1000);
        assert_eq!(ledger.grant(&large), None);
        assert!(ledger.grant(&small).is_some_and(|bytes| bytes > 64 << 10));
        assert!(large.must_leave(LARGE_PATIENCE));
        assert!(!large.must_leave(LARGE_PATIENCE / 2), "not at once");
        assert!(!small.must_leave(PATIENCE * 100));
    }

    #[test]
    fn who_comes_first_leaves_room_for_all_that_come_later() {
        const HOLDERS: usize = 200;
        let bound = 64 * MIB;
        let ledger = Ledger::new(bound);
        let mut held = Vec::new();
        for _ in 0..HOLDERS {
            let holder = ledger.holder();
            let (_body, mut granted) = (ledger.receives(), 0);
            while let Some(bytes) = ledger.grant(&holder) {
                held.push(holder.hold(bytes));
                granted += 1;
            }
            assert!(granted > 0, "each gets something at once");
        }
        assert!(
            ledger.bytes() <= bound + HOLDERS as u64 * (HELD_BYTES_MIN + STEP_BYTES_MIN as u64)
        );
    }

    #[test]
    fn nobody_leaves_and_nobody_waits_while_there_is_room() {
        let ledger = Ledger::new(4 * MIB);
        let holder = ledger.holder();
        let _held = holder.hold(1 << 20);
        assert!(ledger.grant(&holder).is_some());
        assert!(!holder.must_leave(PATIENCE * 100));
    }

    #[test]
    fn steps_become_small_with_many_bodies() {
        let ledger = Ledger::new(4 * MIB);
        let bodies: Vec<Receiving> = (0..100).map(|_| ledger.receives()).collect();
        assert_eq!(ledger.step(), (2 << 20) / 100);
        let more: Vec<Receiving> = (0..10_000).map(|_| ledger.receives()).collect();
        assert_eq!(ledger.step(), STEP_BYTES_MIN);
        drop((bodies, more));
        assert_eq!(ledger.step(), 2 << 20);
    }

    #[test]
    fn who_only_asks_has_a_share_like_everybody() {
        let ledger = Ledger::new(4 * MIB);
        let holders: Vec<_> = (0..64).map(|_| ledger.holder()).collect();
        let ask = |holder: &Arc<Holder>| holder.answers(32 << 10);
        let mut tasks: Vec<Task> = holders.iter().map(ask).collect();
        for _ in 0..65 {
            tasks.push(ask(&holders[0]));
        }
        assert!(ledger.is_full_of(&holders[0]) && ledger.is_full_of(&holders[1]));
        assert!(!ledger.is_full_of(&ledger.holder()));
        drop(tasks);
        tasks = (0..129).map(|_| ask(&holders[0])).collect();
        assert!(
            !ledger.is_full_of(&holders[1]),
            "the only one that asks is another"
        );
        drop(tasks);
    }

    #[test]
    fn a_request_that_is_answered_counts_and_does_not_wait_for_itself() {
        let ledger = Ledger::new(4 * MIB);
        let holder = ledger.holder();
        let tasks: Vec<Task> = (0..600).map(|_| holder.answers(8 << 10)).collect();
        assert!(ledger.is_crowded() && ledger.grant(&holder).is_some());
        assert!(ledger.is_full_of(&holder));
        assert!(!ledger.is_full_of(&ledger.holder()));
        drop(tasks);
        assert_eq!(ledger.bytes(), 0);
    }

    #[test]
    fn what_is_promised_is_taken() {
        let ledger = Ledger::new(4 * MIB);
        let mut promise = ledger.promise();
        promise.set(3 * MIB);
        assert!(!ledger.has_room_for(MIB, 1));
        promise.set(MIB);
        assert!(ledger.has_room_for(2 * MIB, MIB));
        drop(promise);
        assert_eq!(ledger.bytes(), 0);
    }

    #[test]
    fn a_quarter_is_lent_and_nothing_in_need() {
        let ledger = Ledger::new(64 * MIB);
        let mut loans: Vec<Loan> = (0..1000).map(|_| ledger.loan()).collect();
        let lent: Vec<u64> = (loans.iter_mut().map(|loan| loan.raise(2 * MIB))).collect();
        // Of 16 MiB; what many get is less, and nobody gets next to nothing.
        assert_eq!(lent[..5], [2 * MIB; 5]);
        assert_eq!(lent[5], 6 * MIB / 4);
        assert!(lent.iter().all(|&bytes| bytes == 0 || bytes >= 16 << 10));
        assert!(lent.iter().filter(|&&bytes| bytes > 0).count() > 15);
        let all: u64 = lent.iter().sum();
        assert!(all <= 16 * MIB && ledger.bytes() == all);
        assert_eq!(loans[999].raise(1000), 1000, "so little is all it wants");
        loans[999].lower_to(0);
        loans[0].lower_to(0);
        assert!(loans[6].raise(2 * MIB) >= MIB / 2, "what has returned");
        let holder = ledger.holder();
        let _held = holder.hold(20 << 20);
        assert!(ledger.is_crowded() && loans[0].raise(1) == 0);
        drop(loans);
        assert_eq!(ledger.bytes(), 20 * MIB);
    }

    #[test]
    fn promises_leave_half_to_others_but_one_may_be_longer() {
        let ledger = Ledger::new(4 * MIB);
        let holder = ledger.holder();
        let _task = holder.answers(1 << 20);
        assert!(ledger.may_promise(3 * MIB, 0), "it is the only one");
        let mut promises: Vec<Promise> = Vec::new();
        while ledger.may_promise(MIB, 0) {
            let mut promise = ledger.promise();
            promise.set(MIB);
            promises.push(promise);
        }
        assert_eq!(promises.len(), 2);
        assert!(ledger.has_room_for(MIB, 0), "of others");
        promises.pop();
        assert!(ledger.may_promise(MIB, 0));
    }

    #[test]
    fn a_transfer_knows_whether_anything_of_it_is_held() {
        let ledger = Ledger::new(4 * MIB);
        let (holder, transfer) = (ledger.holder(), Transfer::default());
        let piece = Bytes::from(vec![1; 1000]);
        let piece = holder.count_of(piece, Some(&transfer));
        let part = piece.slice(10..20);
        drop(piece);
        assert_eq!(transfer.pieces(), 1);
        drop(part);
        assert_eq!(transfer.pieces(), 0);
    }
}
