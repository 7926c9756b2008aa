//! Identity, state and load of each other member, as workers read them while routing.
//!
//! A [`Member`] is a numbered place for one member. A configured member keeps its place. A discovered member gives its place up when it is
//! forgotten, and another may take it. Code that keeps a number for longer than a moment must therefore expect another member there.
//!
//! A member is *trusted* while its link is up and beats. It is *avoided* for a while after several requests to it failed in a row, even if it
//! still beats. A *draining* member takes nothing new. All of these are atomics: the cluster's thread and the workers write, all threads read.
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

/// Consecutive failures after which a member is avoided.
const FAILURES_MAX: u32 = 3;
/// How long a failing member is avoided, ms.
const AVOIDED_MS: u64 = 1000;
/// A member whose link has just come up gets its full share of requests only after this time, ms.
const SLOW_START_MS: u64 = 10_000;
/// Frames that may wait for a link; a further one is refused.
const WAITING_MAX: usize = 4096;

/// The identity of a member.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Who {
    /// Its name; its address until the handshake has told the name.
    pub name: Arc<str>,
    /// Is the name known, from the handshake or from the configuration?
    pub is_named: bool,
    /// Its address for members.
    pub at: PeerAddress,
    /// Is an address known to connect to? If not, we wait until the member connects to us.
    pub is_called: bool,
    /// Was it discovered? Otherwise it is in the configuration.
    pub is_discovered: bool,
    /// Changes when the place goes to another member.
    pub occupant: u64,
    /// Changes when the place goes to another member or its member gets another address; the link is then opened anew.
    pub turn: u64,
}

/// A place for one other member.
pub struct Member {
    /// The member in this place; `None`: the place is free.
    who: watch::Sender<Option<Arc<Who>>>,
    /// Is the place taken? Readable without the lock of `who`: routing asks this of all places for each request.
    is_taken: AtomicBool,
    /// Hash of the member's name.
    name_hash: AtomicU64,
    /// Values of `counters` when the present member took the place.
    counted_before: Mutex<MemberCounters>,
    /// Is its link up, and has it beaten lately?
    is_trusted: AtomicBool,
    /// Has it announced that it is shutting down?
    is_draining: AtomicBool,
    /// When trust in it last began or ended.
    since_ms: AtomicU64,
    /// Failures of requests in a row.
    failures: AtomicU32,
    /// Until when it is avoided.
    avoided_until_ms: AtomicU64,
    /// Requests of ours that it is answering now.
    in_progress: AtomicU32,
    /// Its load, as its beats report it.
    pub load: Load,
    /// Counters of this place, over all members that have had it.
    pub counters: MemberCounters,
    /// Wakes the task that waits before it opens our link again: the member has just opened its own link to us.
    pub(super) knocked: Notify,
    /// Pushes to it that were withdrawn.
    pub(super) withdrawals: Withdrawals,
    /// Frames to send over the link that we have opened to it.
    outgoing: mpsc::Sender<Bytes>,
    waiting: Mutex<Option<mpsc::Receiver<Bytes>>>,
}

/// What a member reports of itself in each beat.
#[derive(Default, Debug)]
pub struct Load {
    /// Requests it receives a second.
    pub requests: AtomicU64,
    /// Reads of its disks, a second.
    pub reads: AtomicU64,
    /// Time that a read waits for its disk, ms.
    pub queue_ms: AtomicU64,
    /// Do all its disks hang? Then it has to fetch even stored objects from the origin.
    pub hangs: AtomicBool,
    /// Free space in its stores, MiB.
    pub free_mib: AtomicU64,
    /// The longest body that it accepts in a push.
    pub push_max_bytes: AtomicU64,
    /// Has it a store that other members may use?
    pub has_store: AtomicBool,
}

impl Load {
    /// Forgets what the last member of the place has reported.
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

/// Counters of one member and of the members that had its place before.
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
    /// How often trust in it was lost, orderly shutdowns excepted.
    pub distrusted: AtomicU64,
    /// Pushes to it by its verdict, in the order of [`Verdict::ALL`].
    pub pushes: [AtomicU64; Verdict::ALL.len()],
    /// Pushes to it without a verdict: it did not answer.
    pub pushes_lost: AtomicU64,
    /// Objects that we fetched and pushed to it although it had them: no hint had told us.
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

    /// What was counted since the copy `before` was made.
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
    /// A free place.
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

    /// Gives the place to another member, frees it, or updates what is known of its member.
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

    /// The member in this place.
    pub fn who(&self) -> Option<Arc<Who>> {
        self.who.borrow().clone()
    }

    /// Reports each change of [`Self::who`].
    pub(super) fn watch(&self) -> watch::Receiver<Option<Arc<Who>>> {
        self.who.subscribe()
    }

    /// Is the place taken?
    pub fn is_there(&self) -> bool {
        self.is_taken.load(Ordering::Acquire)
    }

    /// The name of the member; of a free place a text for people.
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

    /// Queues an encoded frame for the link that we have opened to it. False: the link is down, or too many frames wait.
    pub fn send(&self, frame: Bytes) -> bool {
        self.is_trusted() && self.outgoing.try_send(frame).is_ok()
    }

    /// Withdraws a push, by an encoded frame. While the link is down, the frame waits for the next link.
    pub fn withdraw(&self, frame: Bytes) {
        self.withdrawals
            .send(|| self.outgoing.try_send(frame).is_ok());
    }

    /// The receiving end of the frames for its link; `None` after the first call.
    pub(super) fn take_waiting(&self) -> Option<mpsc::Receiver<Bytes>> {
        let waiting = self.waiting.lock();
        waiting.unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Is its link up, and has it beaten lately?
    pub fn is_trusted(&self) -> bool {
        self.is_trusted.load(Ordering::Acquire)
    }

    /// May a request be sent to it? Not while its disks hang: it could neither read the objects it holds nor store new ones.
    pub fn is_usable(&self, now_ms: u64) -> bool {
        let is_avoided = self.avoided_until_ms.load(Ordering::Relaxed) > now_ms;
        self.is_trusted() && !is_avoided && !self.load.hangs.load(Ordering::Relaxed)
    }

    /// May it be sent objects that it does not hold yet?
    pub fn takes_new(&self, now_ms: u64) -> bool {
        self.is_usable(now_ms) && !self.is_draining()
    }

    /// May a body of so many bytes be pushed to it, by the limit it has reported?
    pub fn takes_body_of(&self, bytes: u64) -> bool {
        bytes <= self.load.push_max_bytes.load(Ordering::Relaxed)
    }

    /// Requests of ours that it is answering.
    pub fn in_progress(&self) -> u64 {
        self.in_progress.load(Ordering::Relaxed).into()
    }

    /// Has it announced that it is shutting down?
    pub fn is_draining(&self) -> bool {
        self.is_draining.load(Ordering::Relaxed)
    }

    /// When trust in it last began or ended.
    pub fn since_ms(&self) -> u64 {
        self.since_ms.load(Ordering::Relaxed)
    }

    /// Its load as one number, to compare members: our requests in progress, the disk queue it reports, and a surcharge while it is new.
    pub fn busyness(&self, now_ms: u64) -> u64 {
        let relaxed = Ordering::Relaxed;
        let in_progress = u64::from(self.in_progress.load(relaxed));
        let queue_ms = self.load.queue_ms.load(relaxed);
        let young_ms = SLOW_START_MS.saturating_sub(now_ms.saturating_sub(self.since_ms()));
        let own = 1 + in_progress + queue_ms;
        // A member whose link has just come up counts as ten times as busy.
        own + own * 9 * young_ms / SLOW_START_MS
    }

    /// A request is sent to it.
    pub fn begin(&self) -> InProgress<'_> {
        self.in_progress.fetch_add(1, Ordering::Relaxed);
        InProgress(self)
    }

    /// A request to it failed before an answer began. True: from now on it is avoided.
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

    /// It has answered a request, so the count of consecutive failures begins anew.
    pub fn answered(&self) {
        if self.failures.load(Ordering::Relaxed) != 0 {
            self.failures.store(0, Ordering::Relaxed);
        }
    }

    /// Sets whether it is trusted. True: this is a change.
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

    /// Sets whether it has announced its shutdown.
    pub(super) fn set_draining(&self, is_draining: bool) {
        self.is_draining.store(is_draining, Ordering::Relaxed);
    }
}

/// A hash that is the same on all members, whatever their hardware and build.
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
