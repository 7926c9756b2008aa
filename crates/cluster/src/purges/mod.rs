//! Purges of the whole cluster: carries out what `purging` decides, on the cluster's thread and two threads of its own.
//!
//! | file | story |
//! |---|---|
//! | `applying` | applies a purge in this process |
//! | `following` | purges of other members |
//! | `keeper` | the thread that writes and reads the journal |
//! | `sweeping` | the thread that applies slow purges |
//! | `window` | recently purged names, which are not copied from other members |
//! | `run` | the task on the cluster's thread that drives all this |
//!
//! Not known here: requests of clients, sockets.
//! Limits: [`ORDERS_MAX`] purges wait for the task, and those of the other files.

pub mod applying;
pub mod following;
pub mod keeper;
pub mod run;
pub mod sweeping;
pub mod window;

use std::{
    io,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use hints::frames::{Frame, LENGTH_BYTES, PURGING};
use store::KeyHash;
use tokio::sync::{mpsc, oneshot};

use base::member::MemberId;
use base::{chance, clock};
use cache::Cache;
use purging::{
    change::Change,
    gate::{Gate, Served},
    journal::{AGE_MAX_S, Journal, Limits, Opening},
    medium::{Files, Medium},
    message::Message,
    stamp::Origin,
    telling::{Outcome, all},
};
use store::KeyHasher;
use window::Window;

/// Purges that wait for the task. A further one waits for room up to its own time limit; then no member is told, and the answer says so.
/// A purge by an unsafe method cannot be refused like that: all members are then told to purge everything.
const ORDERS_MAX: usize = 4096;
/// Messages that wait for the task; beyond that, links are not read.
const HEARD_MAX: usize = 256;
/// Messages that wait for a link that a member has opened; a further one ends the link.
const REPLIES_MAX: usize = 16 << 10;
/// The task answers within the time limit of a purge. A caller waits this much longer, then takes the task for dead.
const GRACE: Duration = Duration::from_secs(2);
/// How long to wait for a store before an entry is applied again, and the pause before each attempt.
const SETTLED_WITHIN: Duration = Duration::from_secs(1);

/// The state of purging that all threads share.
#[derive(Debug)]
pub struct Purging {
    /// Number of other members.
    members: usize,
    orders: mpsc::Sender<Order>,
    heard: mpsc::Sender<(MemberId, Message)>,
    /// For each member, the sender of messages over the link that it has opened.
    replies: Box<[Mutex<Option<mpsc::Sender<Bytes>>>]>,
    gate: Gate,
    window: Window,
    /// Members that have heard all our purges, a bit each.
    current: AtomicU64,
    /// A purge by an unsafe method could not be told to any member.
    is_untold: AtomicBool,
    inbox: Mutex<Option<Inbox>>,
    journal: Mutex<Option<(Journal, Opening)>>,
    /// Counters.
    pub figures: Figures,
}

/// Counters of purges in the cluster.
#[derive(Debug, Default)]
pub struct Figures {
    /// Ours, told to others.
    pub told: AtomicU64,
    /// Purges of other members that were applied here.
    pub heard: AtomicU64,
    /// Ours that a linked member did not confirm in time.
    pub missing: AtomicU64,
    /// Ours that were acknowledged while a member was away.
    pub away: AtomicU64,
    /// Invalidations by unsafe methods whose answer went out before all members had them.
    pub not_waited_for: AtomicU64,
    /// How often all stored objects were dropped, because missed purges could no longer be told.
    pub lost: AtomicU64,
    /// How often this process was found to have been suspended for a while.
    pub stopped: AtomicU64,
    /// Purges that the journal did not take, because its disk hangs.
    pub unkept: AtomicU64,
    /// How often stored objects are served again although no member could tell what was purged meanwhile.
    pub untold: AtomicU64,
    /// Ours that wait for other members.
    pub pending: AtomicU64,
    /// 1 while stored objects are withheld, all or some.
    pub is_rejoining: AtomicU64,
}

impl Figures {
    /// Name, meaning and value of each, for the metrics.
    pub fn all(&self) -> [(&'static str, &'static str, u64); 11] {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        [
            (
                "cluster_purges_told",
                "Purges of this member told to others",
                of(&self.told),
            ),
            (
                "cluster_purges_heard",
                "Purges of other members applied here",
                of(&self.heard),
            ),
            (
                "cluster_purges_missing",
                "Purges that a linked member did not have in time (503)",
                of(&self.missing),
            ),
            (
                "cluster_purges_away",
                "Purges acknowledged while a member was away, which is told when it is back",
                of(&self.away),
            ),
            (
                "cluster_purges_not_waited_for",
                "Invalidations by unsafe methods whose answer went out before all members had them",
                of(&self.not_waited_for),
            ),
            (
                "cluster_purges_lost",
                "Times that everything stored was dropped, because what was purged meanwhile could not be told",
                of(&self.lost),
            ),
            (
                "cluster_purges_stopped",
                "Times that this process was found to have been stopped for a while",
                of(&self.stopped),
            ),
            (
                "cluster_purges_unkept",
                "Purges that the journal has not taken because its disk hangs: members that are away then drop what they have stored",
                of(&self.unkept),
            ),
            (
                "cluster_purges_untold",
                "Times that what was stored is served again though nobody could say what was purged meanwhile",
                of(&self.untold),
            ),
            (
                "cluster_purges_pending_open",
                "Purges of this member that wait for others",
                of(&self.pending),
            ),
            (
                "cluster_purges_rejoining_open",
                "1 while what is stored is not served, or not all of it, until the others have told what was purged",
                of(&self.is_rejoining),
            ),
        ]
    }
}

/// The receiving ends for the task.
#[derive(Debug)]
struct Inbox {
    orders: mpsc::Receiver<Order>,
    heard: mpsc::Receiver<(MemberId, Message)>,
}

/// The journal of a plan, opened, and the state in which it was found.
pub struct Opened {
    journal: Journal,
    opening: Opening,
}

impl Opened {
    /// Opens it.
    ///
    /// # Errors
    /// It cannot be read or written, another process has it, or the system provides no random number.
    pub fn open(plan: &plan::Cluster) -> io::Result<Opened> {
        let medium = match &plan.state {
            Some(directory) => Medium::Files(Files::open(directory)?),
            None => Medium::Memory(std::collections::BTreeMap::new()),
        };
        let limits = Limits {
            bytes_max: plan.journal_max_bytes,
            age_max_s: AGE_MAX_S,
        };
        let fresh = Origin(chance::u64().map_err(|error| io::Error::other(error.to_string()))?);
        let (journal, opening) = Journal::open(medium, limits, fresh, clock::unix_ms() / 1000)?;
        Ok(Opened { journal, opening })
    }

    /// Is nothing known of earlier purges? Then no object stored before may be served.
    pub fn is_fresh(&self) -> bool {
        self.opening == Opening::Fresh
    }
}

/// A purge of ours, on its way to the task.
#[derive(Debug)]
struct Order {
    change: Vec<u8>,
    /// Where to send the outcome, how long to wait for members, and how long for our own journal.
    waits: Option<(oneshot::Sender<Outcome>, Duration, Duration)>,
}

impl Purging {
    /// The state for so many other members.
    pub fn new(members: usize) -> Purging {
        let (orders, orders_out) = mpsc::channel(ORDERS_MAX);
        let (heard, heard_out) = mpsc::channel(HEARD_MAX);
        Purging {
            members,
            orders,
            heard,
            replies: (0..members).map(|_| Mutex::default()).collect(),
            gate: Gate::of_start(),
            window: Window::default(),
            current: AtomicU64::new(0),
            is_untold: AtomicBool::new(false),
            inbox: Mutex::new(Some(Inbox {
                orders: orders_out,
                heard: heard_out,
            })),
            journal: Mutex::default(),
            figures: Figures::default(),
        }
    }

    /// Sets the journal. Until then the task cannot run, so no purge is told.
    pub fn set_journal(&self, opened: Opened) {
        let mut journal = self.journal.lock().unwrap_or_else(PoisonError::into_inner);
        *journal = Some((opened.journal, opened.opening));
    }

    /// Tells all members of a change that was applied here, and waits until they have applied it.
    pub async fn tell(&self, change: &Change, longest: Duration) -> Outcome {
        let told = self.order_and_wait(change, longest).await;
        told.unwrap_or_else(|| Outcome {
            missing: all(self.members),
            ..Outcome::default()
        })
    }

    /// `None`: no member was told.
    async fn order_and_wait(&self, change: &Change, longest: Duration) -> Option<Outcome> {
        let (answer, answered) = oneshot::channel();
        let order = Order {
            change: change.encode()?,
            waits: Some((
                answer,
                longest,
                match change.is_of_unsafe_method {
                    true => longest.min(SETTLED_WITHIN),
                    false => longest,
                },
            )),
        };
        let ordered = tokio::time::timeout(longest, self.orders.send(order)).await;
        ordered.ok()?.ok()?;
        let answered = tokio::time::timeout(longest + GRACE, answered).await;
        Some(answered.ok().and_then(Result::ok).unwrap_or(Outcome {
            missing: all(self.members),
            ..Outcome::default()
        }))
    }

    /// Tells all members of a change by an unsafe method that was applied here. Waits until they have applied it, and counts if they have not.
    pub async fn tell_unsafe(&self, change: &Change, longest: Duration) {
        let outcome = self.order_and_wait(change, longest).await;
        if outcome.is_none() {
            self.is_untold.store(true, Ordering::Release);
        }
        if outcome.is_none_or(|outcome| outcome.missing != 0 || outcome.is_unkept) {
            self.figures.not_waited_for.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Tells all members of a change that was applied here, without waiting. If that is not possible now it is only counted, because such a change
    /// is about an outdated response, not a purge.
    pub fn tell_later(&self, change: &Change) {
        let order = change.encode().map(|change| Order {
            change,
            waits: None,
        });
        if order.is_none_or(|order| self.orders.try_send(order).is_err()) {
            self.figures.not_waited_for.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// To be called before a change is applied here: for a while no copies of its objects are taken from other members.
    pub fn note(&self, hasher: KeyHasher, change: &Change, now_ms: u64) {
        let names = change.names.iter().map(|name| hasher.hash(name));
        self.window.note(names, !change.patterns.is_empty(), now_ms);
    }

    /// Which stored objects may be served now.
    #[inline]
    pub fn served(&self, cache: &Cache, now_ms: u64) -> Served {
        let (served, was_stopped) = self.gate.look(now_ms);
        if was_stopped {
            // No request may join a fetch that began before the stop.
            cache.fetches.forget_all(&|_| true);
        }
        served
    }

    /// Has this member heard all our purges? Only then may it be asked for stored objects.
    pub fn is_current(&self, member: MemberId) -> bool {
        self.current.load(Ordering::Acquire) & member.bit() != 0
    }

    /// May another member's response for this name be stored, or shared with later requests? Must be asked before the request is sent.
    pub fn may_copy(&self, primary: KeyHash, now_ms: u64) -> bool {
        !self.window.has(primary, now_ms)
    }

    /// A member has opened a link: messages from the receiver are to be sent over it.
    pub fn linked(&self, member: MemberId) -> mpsc::Receiver<Bytes> {
        let (replies, out) = mpsc::channel(REPLIES_MAX);
        *self.reply_slot(member) = Some(replies);
        out
    }

    /// Takes a frame from a member, over either link, if it is about purges. False: it is not.
    ///
    /// # Errors
    /// It is about purges but malformed (`InvalidData`).
    pub async fn hear(&self, member: MemberId, frame: &[u8]) -> io::Result<bool> {
        if frame.get(LENGTH_BYTES) != Some(&PURGING) {
            return Ok(false);
        }
        let message = match Frame::decode(frame) {
            Ok(Some((Frame::Purging(message), _))) => Message::decode(&message),
            _ => None,
        };
        let message = message.ok_or(io::ErrorKind::InvalidData)?;
        let sent = self.heard.send((member, message)).await;
        sent.map(|()| true)
            .map_err(|_| io::ErrorKind::BrokenPipe.into())
    }

    fn reply_slot(
        &self,
        member: MemberId,
    ) -> std::sync::MutexGuard<'_, Option<mpsc::Sender<Bytes>>> {
        let slot = self.replies[usize::from(member.0)].lock();
        slot.unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends over the link that the member has opened. If too many messages wait, the link is ended; the member will ask again.
    fn reply(&self, member: MemberId, frame: Bytes) {
        let mut slot = self.reply_slot(member);
        if slot
            .as_ref()
            .is_some_and(|replies| replies.try_send(frame).is_err())
        {
            *slot = None;
        }
    }

    /// Takes what the task needs; succeeds once, and only with a journal.
    fn take_inbox(&self) -> Option<(Inbox, Journal, Opening)> {
        let journal = self.journal.lock();
        let (journal, opening) = journal.unwrap_or_else(PoisonError::into_inner).take()?;
        let inbox = self.inbox.lock();
        let inbox = inbox.unwrap_or_else(PoisonError::into_inner).take()?;
        Some((inbox, journal, opening))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A `Purging` whose task takes no orders, with the queue of orders full.
    fn full() -> (Purging, Inbox, Change) {
        let purging = Purging::new(1);
        let inbox = purging.inbox.lock().unwrap().take().unwrap();
        let change = Change::of_unsafe_method(vec![b"GET http://a/".to_vec()]);
        for _ in 0..ORDERS_MAX {
            purging.tell_later(&change);
        }
        assert_eq!(purging.figures.not_waited_for.load(Ordering::Relaxed), 0);
        (purging, inbox, change)
    }

    #[tokio::test]
    async fn an_order_too_many_waits_for_room() {
        let (purging, mut inbox, change) = full();
        let task = async {
            for _ in 0..ORDERS_MAX {
                assert!(inbox.orders.recv().await.unwrap().waits.is_none());
            }
            let (answer, ..) = inbox.orders.recv().await.unwrap().waits.unwrap();
            answer.send(Outcome::default()).unwrap();
        };
        let told = purging.tell_unsafe(&change, Duration::from_secs(60));
        // The order matters: `told` finds no room at first.
        tokio::join!(biased; told, task);
        assert!(!purging.is_untold.load(Ordering::Relaxed));
        assert_eq!(purging.figures.not_waited_for.load(Ordering::Relaxed), 0);
    }

    #[tokio::test]
    async fn one_that_finds_no_room_in_time_is_not_forgotten() {
        let (purging, _inbox, change) = full();
        let longest = Duration::from_millis(1);
        let outcome = purging.tell(&change, longest).await;
        assert_eq!(outcome.missing, 1, "it was told to nobody");
        assert!(!purging.is_untold.load(Ordering::Relaxed), "it is said");
        purging.tell_unsafe(&change, longest).await;
        assert!(purging.is_untold.load(Ordering::Relaxed));
        assert_eq!(purging.figures.not_waited_for.load(Ordering::Relaxed), 1);
    }
}
