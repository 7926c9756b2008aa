//! The other members, and how they are: what workers read of them while they route.
//!
//! A member is *trusted* while its link is up and beats. It is *avoided* for a while when requests to it fail in a row, although it
//! beats. One that is *draining* takes nothing new. All of it is atomics: the cluster's thread and the workers write, everybody reads.
//!
//! Times are milliseconds since the cluster began on this member, so that they fit into one word.
//!
//! Not known here: what a member holds, frames.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use bytes::Bytes;
use hints::Withdrawals;
use tokio::sync::{Notify, mpsc};

use super::push::message::Verdict;
use crate::plan::{ClusterMember, PeerAddress};

/// Failures in a row after which a member is avoided.
const FAILURES_MAX: u32 = 3;
/// How long it is avoided, ms.
const AVOIDED_MS: u64 = 1000;
/// A member that has come gets its whole share only after so long, ms.
const SLOW_START_MS: u64 = 10_000;
/// Frames that wait for a link; one more is refused.
const WAITING_MAX: usize = 4096;

/// The number of another member, by the order of the configuration: bit `1 << id` of a mask.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct MemberId(pub u8);

impl MemberId {
    /// Its bit in a mask of members.
    pub fn bit(self) -> u64 {
        1 << self.0
    }
}

/// One other member.
pub struct Member {
    /// Its name.
    pub name: Box<str>,
    /// Its address for members.
    pub at: PeerAddress,
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
    waiting: std::sync::Mutex<Option<mpsc::Receiver<Bytes>>>,
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
    /// Free space of its stores, MiB.
    pub free_mib: AtomicU64,
    /// Has it a store that others may use?
    pub has_store: AtomicBool,
}

/// What is counted of one member.
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

/// A request of ours that a member is answering.
pub struct InProgress<'m>(&'m Member);

impl Drop for InProgress<'_> {
    fn drop(&mut self) {
        self.0.in_progress.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Member {
    /// A member of which nothing is known yet.
    pub fn new(plan: &ClusterMember) -> Member {
        let (outgoing, waiting) = mpsc::channel(WAITING_MAX);
        Member {
            name: plan.name.as_str().into(),
            at: plan.at.clone(),
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
            waiting: std::sync::Mutex::new(Some(waiting)),
        }
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
        waiting
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .take()
    }

    /// Is its link up, and has it beaten lately?
    pub fn is_trusted(&self) -> bool {
        self.is_trusted.load(Ordering::Acquire)
    }

    /// May a request be sent to it?
    pub fn is_usable(&self, now_ms: u64) -> bool {
        self.is_trusted() && self.avoided_until_ms.load(Ordering::Relaxed) <= now_ms
    }

    /// May something be put there that it does not hold yet?
    pub fn takes_new(&self, now_ms: u64) -> bool {
        self.is_usable(now_ms) && !self.is_draining()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_fails_in_a_row_is_avoided_for_a_while() {
        let member = Member::new(&ClusterMember::default());
        assert!(!member.is_usable(0), "its link is not up");
        assert!(member.set_trusted(true, 0));
        assert!(!member.set_trusted(true, 5), "no news");
        member.failed(10);
        member.failed(10);
        member.answered();
        assert!(!member.failed(10) && !member.failed(10) && member.failed(10));
        assert!(!member.is_usable(10) && !member.is_usable(10 + AVOIDED_MS - 1));
        assert!(member.is_usable(10 + AVOIDED_MS));
        member.set_draining(true);
        assert!(member.is_usable(2000) && !member.takes_new(2000));
    }

    #[test]
    fn one_that_has_just_come_seems_busier_and_less_so_with_time() {
        let (old, new) = (
            Member::new(&ClusterMember::default()),
            Member::new(&ClusterMember::default()),
        );
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
        let member = Member::new(&ClusterMember::default());
        assert!(!member.send(Bytes::new()));
        member.set_trusted(true, 0);
        let mut waiting = member.take_waiting().unwrap();
        assert!(member.take_waiting().is_none());
        assert!(member.send(Bytes::from_static(b"a")));
        assert_eq!(waiting.try_recv().unwrap(), &b"a"[..]);
    }

    #[test]
    fn withdrawals_wait_for_a_link_and_are_lost_beyond_the_limit() {
        let member = Member::new(&ClusterMember::default());
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
