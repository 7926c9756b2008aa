//! The ledger of bodies in transfer: how many bytes are held in memory, for which connection, and which connection must wait when they are too many.
//!
//! The ledger counts allocations, not references. A piece of a body is counted when it is received or read ([`Holder::count`]), and
//! uncounted when its last reference is dropped, wherever that is: in a fetch, in the queue of a stream, half written to a socket. So no code
//! has to track a piece, and a piece that a thousand clients read at once counts once.
//!
//! Each count has a *holder*: the client connection that asked for the piece. The bound is `limits.transfer-buffer`:
//!
//! ```text
//! |--------- transfers: half ---------|---- promised ----|-- rooms: a quarter at most (`room`) --|
//! ```
//!
//! - While less than half is taken, a transfer reads as much at a time as its part of that half ([`Ledger::step`]).
//! - Beyond half the ledger is *crowded*: a holder with more than its share gets nothing more until it holds less
//!   ([`Ledger::grant`]). It is paused: its origins are not read. Other holders go on, in steps that get smaller as the rest
//!   of the bound does.
//! - A client that takes nothing while the ledger is crowded is asked to leave ([`Holder::must_leave`]), large holders first. A slow client is
//!   only paused.
//! - A body to be stored is *promised* its memory before it begins ([`Ledger::promise`]), and never pauses: a pause would keep its memory
//!   for ever. If there is no room for the promise, the body is not stored.
//!
//! - The part of an HTTP/2 window (`window`) beyond the ordinary size is *lent* ([`Ledger::loan`]): a quarter of the bound in all, each loan a
//!   quarter of the rest of that, and none while the ledger is crowded. A loan counts whether the peer fills it or not.
//!
//! In any case a transfer may hold [`STEP_BYTES_MIN`], and a connection below its share [`HELD_BYTES_MIN`]. So many small transfers go
//! on, and none waits for ever for other bytes of its own connection. The bound is exceeded by these at most.
//!
//! Not known here: connections, fetches, clocks. `pause` has the waiting.
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

/// The least that is read at a time, even if the bound is reached: one page.
pub const STEP_BYTES_MIN: usize = 4 << 10;

/// A connection below its share may hold this much, even if the bound is reached.
const HELD_BYTES_MIN: u64 = 4 * STEP_BYTES_MIN as u64;

/// The smallest loan, unless less is wanted.
const LOAN_BYTES_MIN: u64 = 16 << 10;

/// How long a client that holds its share or more may take nothing while the ledger is crowded.
const LARGE_PATIENCE: Duration = Duration::from_secs(10);
/// The same for a client that holds a quarter of its share.
const PATIENCE: Duration = Duration::from_secs(20);

/// See the head of the file.
#[derive(Clone)]
pub struct Ledger(Arc<Book>);

#[derive(Default)]
struct Book {
    /// Bytes of pieces.
    held: AtomicU64,
    /// Bytes promised and not held yet, and bytes of requests being answered and of windows.
    promised: AtomicU64,
    /// The part of `promised` for bodies to be stored.
    to_be_stored: AtomicU64,
    /// The part of `promised` for windows.
    lent: AtomicU64,
    bytes_max: AtomicU64,
    /// Holders with bytes.
    holders: AtomicU64,
    /// Holders whose requests being answered take memory.
    askers: AtomicU64,
    /// Bodies being received.
    bodies: AtomicU64,
}

impl Ledger {
    /// An empty ledger with this bound.
    pub fn new(bytes_max: u64) -> Ledger {
        let ledger = Ledger(Arc::default());
        ledger.follow(bytes_max);
        ledger
    }

    /// Applies a new bound.
    pub fn follow(&self, bytes_max: u64) {
        self.0.bytes_max.store(bytes_max, Ordering::Relaxed);
    }

    /// Bytes held and promised now.
    pub fn bytes(&self) -> u64 {
        self.0.held.load(Ordering::Relaxed) + self.0.promised.load(Ordering::Relaxed)
    }

    /// The number of holders with bytes.
    pub fn holders(&self) -> u64 {
        self.0.holders.load(Ordering::Relaxed)
    }

    fn half(&self) -> u64 {
        self.0.bytes_max.load(Ordering::Relaxed) / 2
    }

    /// Each holder's part of the half for transfers.
    fn share(&self) -> u64 {
        (self.half() / self.holders().max(1)).max(STEP_BYTES_MIN as u64)
    }

    /// Is more than half of the bound taken?
    pub fn is_crowded(&self) -> bool {
        self.bytes() > self.half()
    }

    /// Is the whole bound taken, and does this holder have its share of it?
    pub fn is_full_of(&self, holder: &Holder) -> bool {
        let has = holder.bytes() + holder.of_tasks.load(Ordering::Relaxed);
        // Connections whose requests have no body yet hold no pieces.
        let askers = self.0.askers.load(Ordering::Relaxed);
        let share = self.half() / self.holders().max(askers).max(1);
        self.bytes() > 2 * self.half() && has >= share
    }

    /// Is so little taken that bodies may be read before they are asked for?
    pub fn may_read_ahead(&self) -> bool {
        self.bytes() < self.half() / 2
    }

    /// Is there room for this many more bytes to store? `beside`: bytes of the same bound that are counted elsewhere.
    pub fn has_room_for(&self, bytes: u64, beside: u64) -> bool {
        let most = self.0.bytes_max.load(Ordering::Relaxed);
        self.bytes().saturating_add(beside).saturating_add(bytes) <= most
    }

    /// The same for a promise. Promises together take at most half of the bound, because others would wait for memory that is only promised. A
    /// larger promise is allowed while it is the only one.
    pub fn may_promise(&self, bytes: u64, beside: u64) -> bool {
        let before = self.0.to_be_stored.load(Ordering::Relaxed);
        self.has_room_for(bytes, beside)
            && (bytes == 0 || before == 0 || before.saturating_add(bytes) <= self.half())
    }

    /// A holder without bytes, for a connection.
    pub fn holder(&self) -> Arc<Holder> {
        Arc::new(Holder {
            book: Arc::clone(&self.0),
            bytes: AtomicU64::new(0),
            pinned: AtomicU64::new(0),
            of_tasks: AtomicU64::new(0),
        })
    }

    /// An empty promise.
    pub fn promise(&self) -> Promise {
        Promise {
            book: Arc::clone(&self.0),
            bytes: 0,
        }
    }

    /// An empty loan.
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

    /// How much of a body may be read at a time, so that all bodies could do so at once.
    pub fn step(&self) -> usize {
        let bodies = self.0.bodies.load(Ordering::Relaxed).max(1);
        let step = usize::try_from(self.half() / bodies).unwrap_or(usize::MAX);
        step.max(STEP_BYTES_MIN)
    }

    /// How much more the holder may get now. `None`: it must wait.
    pub fn grant(&self, holder: &Holder) -> Option<usize> {
        if !self.is_crowded() {
            return Some(self.step());
        }
        let has = holder.bytes();
        let of_share = self.share().checked_sub(has).filter(|&left| left > 0)?;
        // Holders from less busy times keep more than the present share. So all holders divide only what is left.
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
    /// Bytes that belong to others or are counted elsewhere, and that this connection keeps from being dropped.
    pinned: AtomicU64,
    /// Memory of its requests being answered. The connection is never paused for these bytes: the requests would wait for themselves.
    of_tasks: AtomicU64,
}

impl Holder {
    /// The bytes that it holds.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Counts bytes as its own, until the count is dropped.
    pub fn hold(self: &Arc<Holder>, bytes: usize) -> Lot {
        self.add(bytes as u64);
        Lot {
            holder: Arc::clone(self),
            bytes: bytes as u64,
        }
    }

    /// Counts memory of one of its requests, until the request is answered.
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

    /// The same for a piece of this transfer.
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

    /// Notes bytes that are counted elsewhere and that this connection keeps from being dropped.
    pub fn pin(&self, bytes: usize) -> Pinned<'_> {
        self.pinned.fetch_add(bytes as u64, Ordering::Relaxed);
        Pinned(self, bytes as u64)
    }

    /// The client has taken nothing for `stalled` although bytes wait for it. Must it leave, to make room for others?
    pub fn must_leave(&self, stalled: Duration) -> bool {
        let ledger = Ledger(Arc::clone(&self.book));
        if stalled < LARGE_PATIENCE || !ledger.is_crowded() {
            return false;
        }
        let (has, share) = (self.weight(), ledger.share());
        has >= share || has >= share / 4 && stalled >= PATIENCE
    }

    /// How long the client may take nothing; `None`: without limit.
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

/// Bytes of a holder; uncounted when dropped.
pub struct Lot {
    holder: Arc<Holder>,
    bytes: u64,
}

impl Lot {
    /// Sets the number of bytes.
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

/// The part of a connection's windows beyond the ordinary size; given back when dropped.
pub struct Loan {
    book: Arc<Book>,
    bytes: u64,
}

impl Loan {
    /// Borrows up to `wanted` more bytes: at most a quarter of the rest, so that something is left for the next loan. Returns the number of bytes
    /// lent; none if that is less than [`LOAN_BYTES_MIN`] and less than wanted.
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

    /// Gives back all but `bytes`.
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

/// A body in transfer, by which its pieces are counted.
#[derive(Clone, Default)]
pub struct Transfer(Arc<()>);

impl Transfer {
    /// How many of its pieces are still in memory.
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

/// Memory promised to a body to be stored; given back when dropped.
pub struct Promise {
    book: Arc<Book>,
    bytes: u64,
}

impl Promise {
    /// Sets the number of bytes promised.
    pub fn set(&mut self, bytes: u64) {
        for count in [&self.book.promised, &self.book.to_be_stored] {
            count.fetch_add(bytes, Ordering::Relaxed);
            count.fetch_sub(self.bytes, Ordering::Relaxed);
        }
        self.bytes = bytes;
    }

    /// The number of bytes promised.
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
        // A quarter of the bound is 16 MiB. Later loans get less, but no loan is tiny.
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
