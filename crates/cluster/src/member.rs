//! The other members, and how they are: what workers read of them while they route.
//!
//! A [`Member`] is a place for one, with a number. Members of the configuration keep theirs; those that are discovered come and go, and a place is
//! taken by another one later. Whoever holds a number for longer than a moment may find another member there, and has to bear that.
//!
//! A member is *trusted* while its link is up and beats. It is *avoided* for a while when requests to it fail in a row, although it
//! beats. One that is *draining* takes nothing new. All of it is atomics: the cluster's thread and the workers write, everybody reads.
//!
//! Times are milliseconds since the cluster began on this member, so that they fit into one word.
//!
//! Not known here: what a member holds, frames.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
};

use bytes::Bytes;
use hints::Withdrawals;
use tokio::sync::{Notify, mpsc, watch};
use twox_hash::XxHash3_64;

use super::push::message::Verdict;
use plan::PeerAddress;

/// Failures in a row after which a member is avoided.
const FAILURES_MAX: u32 = 3;
/// How long it is avoided, ms.
const AVOIDED_MS: u64 = 1000;
/// A member that has come gets its whole share only after so long, ms.
const SLOW_START_MS: u64 = 10_000;
/// Frames that wait for a link; one more is refused.
const WAITING_MAX: usize = 4096;

/// Who a member is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Who {
    /// Its name; its address, until it has said its name.
    pub name: Arc<str>,
    /// Has it said its name, or does the configuration?
    pub is_named: bool,
    /// Its address for members.
    pub at: PeerAddress,
    /// Does anything say that it is there? If not, it is only waited for.
    pub is_called: bool,
    /// Was it discovered? Else the configuration names it.
    pub is_discovered: bool,
    /// Another number is another member.
    pub occupant: u64,
    /// Another number is another member, or another address: the link to it begins anew.
    pub turn: u64,
}

/// A place for one other member.
pub struct Member {
    /// Who has it; `None`: it is free.
    who: watch::Sender<Option<Arc<Who>>>,
    /// Is it taken? The same without the lock of `who`: each request that is routed asks this of all places.
    is_taken: AtomicBool,
    /// Of its name, for hashing.
    name_hash: AtomicU64,
    /// What was counted before it came.
    counted_before: Mutex<MemberCounters>,
    /// Is its link up, and has it beaten lately?
    is_trusted: AtomicBool,
    /// Does it say that it ends?
    is_draining: AtomicBool,
    /// When its trust began, or was lost.
    since_ms: AtomicU64,
    /// Failures of requests in a row.
    failures: AtomicU32,
    /// Until when it is avoided.
    avoided_until_ms: AtomicU64,
    /// Requests of ours that it is answering.
    in_progress: AtomicU32,
    /// What it says of its load.
    pub load: Load,
    /// What is counted.
    pub counters: MemberCounters,
    /// Ends the pause before the next attempt to open our link to it: it has just opened its own to us.
    pub(super) knocked: Notify,
    /// Pushes to it that were withdrawn.
    pub(super) withdrawals: Withdrawals,
    /// What is to be sent over the link that we have opened to it.
    outgoing: mpsc::Sender<Bytes>,
    waiting: Mutex<Option<mpsc::Receiver<Bytes>>>,
}

/// What a member says of itself in each beat.
#[derive(Default, Debug)]
pub struct Load {
    /// Requests that it is asked, a second.
    pub requests: AtomicU64,
    /// Reads of its disks, a second.
    pub reads: AtomicU64,
    /// How long a read waits for its disk, ms.
    pub queue_ms: AtomicU64,
    /// Does no disk of it answer? Then what it holds comes from the origin.
    pub hangs: AtomicBool,
    /// Free space of its stores, MiB.
    pub free_mib: AtomicU64,
    /// The longest body that it takes when that is pushed.
    pub push_max_bytes: AtomicU64,
    /// Has it a store that others may use?
    pub has_store: AtomicBool,
}

impl Load {
    /// Nothing was said yet.
    fn clear(&self) {
        let numbers = [
            &self.requests,
            &self.reads,
            &self.queue_ms,
            &self.free_mib,
            &self.push_max_bytes,
        ];
        for number in numbers {
            number.store(0, Ordering::Relaxed);
        }
        for word in [&self.has_store, &self.hangs] {
            word.store(false, Ordering::Relaxed);
        }
    }
}

/// What is counted of one member, and of those that had its place before.
#[derive(Default, Debug)]
pub struct MemberCounters {
    /// Requests sent to it that were answered from its cache.
    pub hits_true: AtomicU64,
    /// Requests sent to it because of a hint that was wrong.
    pub hits_false: AtomicU64,
    /// Requests sent to it whose object it had to validate.
    pub hits_stale: AtomicU64,
    /// Requests that it failed to answer.
    pub failures: AtomicU64,
    /// How often trust in it was lost, but by its end in order.
    pub distrusted: AtomicU64,
    /// Pushes to it by its verdict, in the order of [`Verdict::ALL`].
    pub pushes: [AtomicU64; Verdict::ALL.len()],
    /// Pushes to it without a verdict: it did not answer.
    pub pushes_lost: AtomicU64,
    /// Objects that we fetched and pushed to it, which it had already and no hint told of.
    pub false_misses: AtomicU64,
}

impl MemberCounters {
    fn each(&self) -> impl Iterator<Item = &AtomicU64> {
        let single = [
            &self.hits_true,
            &self.hits_false,
            &self.hits_stale,
            &self.failures,
            &self.distrusted,
            &self.pushes_lost,
            &self.false_misses,
        ];
        single.into_iter().chain(&self.pushes)
    }

    /// What was counted since these were copied.
    fn since(&self, before: &MemberCounters) -> MemberCounters {
        let since = MemberCounters::default();
        let now = self.each().zip(before.each());
        for (since, (now, before)) in since.each().zip(now) {
            let before = before.load(Ordering::Relaxed);
            let counted = now.load(Ordering::Relaxed).saturating_sub(before);
            since.store(counted, Ordering::Relaxed);
        }
        since
    }
}

/// A request of ours that a member is answering.
pub struct InProgress<'m>(&'m Member);

impl Drop for InProgress<'_> {
    fn drop(&mut self) {
        self.0.in_progress.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Member {
    /// A place that nobody has yet.
    pub fn free() -> Member {
        let (outgoing, waiting) = mpsc::channel(WAITING_MAX);
        Member {
            who: watch::Sender::new(None),
            is_taken: AtomicBool::new(false),
            name_hash: AtomicU64::new(0),
            counted_before: Mutex::default(),
            is_trusted: AtomicBool::new(false),
            is_draining: AtomicBool::new(false),
            since_ms: AtomicU64::new(0),
            failures: AtomicU32::new(0),
            avoided_until_ms: AtomicU64::new(0),
            in_progress: AtomicU32::new(0),
            load: Load::default(),
            counters: MemberCounters::default(),
            knocked: Notify::new(),
            withdrawals: Withdrawals::default(),
            outgoing,
            waiting: Mutex::new(Some(waiting)),
        }
    }

    /// Somebody takes the place, nobody has it any more, or more is known of the one that has it.
    pub(super) fn set_who(&self, who: Option<Who>, now_ms: u64) {
        let relaxed = Ordering::Relaxed;
        let occupant = |who: Option<&Who>| who.map(|who| who.occupant);
        if occupant(self.who.borrow().as_deref()) != occupant(who.as_ref()) {
            self.set_trusted(false, now_ms);
            self.since_ms.store(now_ms, relaxed);
            self.failures.store(0, relaxed);
            self.avoided_until_ms.store(0, relaxed);
            self.is_draining.store(false, relaxed);
            self.load.clear();
            let mut before = self.counted_before.lock();
            **before.as_mut().unwrap_or_else(PoisonError::get_mut) =
                self.counters.since(&MemberCounters::default());
        }
        let name = who.as_ref().map_or("", |who| &who.name);
        self.name_hash.store(hash(name.as_bytes()), relaxed);
        let is_taken = who.is_some();
        self.who.send_replace(who.map(Arc::new));
        self.is_taken.store(is_taken, Ordering::Release);
    }

    /// Who has the place.
    pub fn who(&self) -> Option<Arc<Who>> {
        self.who.borrow().clone()
    }

    /// Says when somebody else has it, or more is known of the one that has it.
    pub(super) fn watch(&self) -> watch::Receiver<Option<Arc<Who>>> {
        self.who.subscribe()
    }

    /// Has anybody the place?
    pub fn is_there(&self) -> bool {
        self.is_taken.load(Ordering::Acquire)
    }

    /// The name of the member; of a free place a word for people.
    pub fn name(&self) -> Arc<str> {
        match &*self.who.borrow() {
            Some(who) => Arc::clone(&who.name),
            None => "(forgotten)".into(),
        }
    }

    /// The hash of its name.
    pub fn name_hash(&self) -> u64 {
        self.name_hash.load(Ordering::Relaxed)
    }

    /// What was counted of the member that has the place now.
    pub fn counted(&self) -> MemberCounters {
        let before = self.counted_before.lock();
        let before = before.unwrap_or_else(PoisonError::into_inner);
        self.counters.since(&before)
    }

    /// Sends an encoded frame over the link that we have opened to it. False: the link is down, or too many frames wait.
    pub fn send(&self, frame: Bytes) -> bool {
        self.is_trusted() && self.outgoing.try_send(frame).is_ok()
    }

    /// Tells it that a push of ours is not to count, by an encoded frame. While its link is down, the frame waits for the next one.
    pub fn withdraw(&self, frame: Bytes) {
        self.withdrawals
            .send(|| self.outgoing.try_send(frame).is_ok());
    }

    /// Where frames for its link come out; once.
    pub(super) fn take_waiting(&self) -> Option<mpsc::Receiver<Bytes>> {
        let waiting = self.waiting.lock();
        waiting.unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Is its link up, and has it beaten lately?
    pub fn is_trusted(&self) -> bool {
        self.is_trusted.load(Ordering::Acquire)
    }

    /// May a request be sent to it? Not while its disks hang: it would have to fetch what it holds, and could not store it.
    pub fn is_usable(&self, now_ms: u64) -> bool {
        let is_avoided = self.avoided_until_ms.load(Ordering::Relaxed) > now_ms;
        self.is_trusted() && !is_avoided && !self.load.hangs.load(Ordering::Relaxed)
    }

    /// May something be put there that it does not hold yet?
    pub fn takes_new(&self, now_ms: u64) -> bool {
        self.is_usable(now_ms) && !self.is_draining()
    }

    /// May a body of so many bytes be pushed to it, as far as it has told?
    pub fn takes_body_of(&self, bytes: u64) -> bool {
        bytes <= self.load.push_max_bytes.load(Ordering::Relaxed)
    }

    /// Requests of ours that it is answering.
    pub fn in_progress(&self) -> u64 {
        self.in_progress.load(Ordering::Relaxed).into()
    }

    /// Does it say that it ends?
    pub fn is_draining(&self) -> bool {
        self.is_draining.load(Ordering::Relaxed)
    }

    /// When its trust began, or was lost.
    pub fn since_ms(&self) -> u64 {
        self.since_ms.load(Ordering::Relaxed)
    }

    /// How much it has to do, to compare members: ours in progress, what it says itself, and more for one that has just come.
    pub fn busyness(&self, now_ms: u64) -> u64 {
        let relaxed = Ordering::Relaxed;
        let in_progress = u64::from(self.in_progress.load(relaxed));
        let queue_ms = self.load.queue_ms.load(relaxed);
        let young_ms = SLOW_START_MS.saturating_sub(now_ms.saturating_sub(self.since_ms()));
        let own = 1 + in_progress + queue_ms;
        // Ten times as busy at first.
        own + own * 9 * young_ms / SLOW_START_MS
    }

    /// A request is sent to it.
    pub fn begin(&self) -> InProgress<'_> {
        self.in_progress.fetch_add(1, Ordering::Relaxed);
        InProgress(self)
    }

    /// A request to it ended before its answer began. True: from now on it is avoided.
    pub fn failed(&self, now_ms: u64) -> bool {
        let relaxed = Ordering::Relaxed;
        self.counters.failures.fetch_add(1, relaxed);
        if self.failures.fetch_add(1, relaxed) + 1 < FAILURES_MAX {
            return false;
        }
        self.failures.store(0, relaxed);
        self.avoided_until_ms.store(now_ms + AVOIDED_MS, relaxed);
        true
    }

    /// It has answered.
    pub fn answered(&self) {
        if self.failures.load(Ordering::Relaxed) != 0 {
            self.failures.store(0, Ordering::Relaxed);
        }
    }

    /// Its link beats again, or not any more. True: that is news.
    pub(super) fn set_trusted(&self, is_trusted: bool, now_ms: u64) -> bool {
        if self.is_trusted.swap(is_trusted, Ordering::AcqRel) == is_trusted {
            return false;
        }
        self.since_ms.store(now_ms, Ordering::Relaxed);
        if !is_trusted && !self.is_draining() {
            self.counters.distrusted.fetch_add(1, Ordering::Relaxed);
        }
        true
    }

    /// It says that it ends, or that it does not.
    pub(super) fn set_draining(&self, is_draining: bool) {
        self.is_draining.store(is_draining, Ordering::Relaxed);
    }
}

/// The same at all members, whatever they are.
pub(super) fn hash(text: &[u8]) -> u64 {
    XxHash3_64::oneshot(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_fails_in_a_row_is_avoided_for_a_while() {
        let member = Member::free();
        assert!(!member.is_usable(0), "its link is not up");
        assert!(member.set_trusted(true, 0));
        assert!(!member.set_trusted(true, 5), "no news");
        member.failed(10);
        member.failed(10);
        member.answered();
        assert!(!member.failed(10) && !member.failed(10) && member.failed(10));
        assert!(!member.is_usable(10) && !member.is_usable(10 + AVOIDED_MS - 1));
        assert!(member.is_usable(10 + AVOIDED_MS));
        member.load.hangs.store(true, Ordering::Relaxed);
        assert!(!member.is_usable(2000), "its disks do not answer");
        member.load.clear();
        member.set_draining(true);
        assert!(member.is_usable(2000) && !member.takes_new(2000));
    }

    #[test]
    fn one_that_has_just_come_seems_busier_and_less_so_with_time() {
        let (old, new) = (Member::free(), Member::free());
        old.set_trusted(true, 0);
        new.set_trusted(true, 50_000);
        let _five: Vec<_> = (0..5).map(|_| old.begin()).collect();
        assert!(new.busyness(50_000) > old.busyness(50_000));
        assert!(new.busyness(59_000) < old.busyness(59_000));
        drop(_five);
        assert_eq!(old.busyness(60_000), 1);
    }

    #[test]
    fn frames_for_a_member_without_a_link_are_refused() {
        let member = Member::free();
        assert!(!member.send(Bytes::new()));
        member.set_trusted(true, 0);
        let mut waiting = member.take_waiting().unwrap();
        assert!(member.take_waiting().is_none());
        assert!(member.send(Bytes::from_static(b"a")));
        assert_eq!(waiting.try_recv().unwrap(), &b"a"[..]);
    }

    #[test]
    fn withdrawals_wait_for_a_link_and_are_lost_beyond_the_limit() {
        let member = Member::free();
        let mut waiting = member.take_waiting().unwrap();
        for _ in 0..WAITING_MAX {
            member.withdraw(Bytes::from_static(b"a"));
        }
        assert!(!member.withdrawals.are_lost());
        assert_eq!(waiting.try_recv().unwrap(), &b"a"[..]);
        member.withdraw(Bytes::new());
        member.withdraw(Bytes::new());
        assert!(member.withdrawals.are_lost());
    }
}
