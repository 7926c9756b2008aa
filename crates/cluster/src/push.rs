//! A front that pushes what it fetched: each object to one member that keeps it.
//!
//! ```text
//! fetch ── pieces ──> Collecting ── complete ──> queue ── a worker ──> member ── verdict
//!    └──── pieces ──> clients
//! ```
//!
//! Clients and push share the pieces of a body, so a client never waits for a push, nor a push for a client. A push that finds no room
//! is dropped and counted; the object is then fetched once more when it is asked for again.
//!
//! Only what may be stored for everybody is pushed, and nothing that was asked for with Authorization. A purge that comes
//! between fetch and push wins: here, where the front has heard it, and at the member in any case (`fetch/receiving`).
//!
//! Hints are registered when a push begins (*eager*): requests go to the member from then on, whose answer waits for nothing.
//!
//! | file | story |
//! |---|---|
//! | `message` | what a push looks like, and the verdicts |
//! | `began` | how purges stood when a fetch began |
//! | `queue` | what waits, and what is on its way |
//! | `sending` | carrying it to members |
//! | `eager` | hints of what is pushed |
//! | `target` | to which member a push goes |
//! | `large` | what is too long to be pushed |
//! | `copied` | what is hot, and so kept here and given to further members |
//!
//! Not known here: what the member does with it.
//! Limits: `queue`; a push is given up after `sending::PUSH_MAX`; a member that does not take one is followed by another, each tried once.

pub mod began;
pub mod copied;
pub mod eager;
pub mod large;
pub mod message;
pub mod queue;
pub mod sending;
pub mod target;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicU64, Ordering},
};

use bytes::Bytes;
use hints::view::{Groups, Reader};
use httpcache::UnixMillis;
use store::KeyHash;

use crate::{Cluster, hot::Hot};
use base::{
    access::Destinations,
    clock::{Clock, Instant},
    deadline::Deadlines,
};
use cache::Cache;
use origin::{OriginContext, OriginWaits};
use plan::Plan;

pub use began::Began;
pub use copied::Copied;

use began::Moments;
use large::Large;
use queue::Queue;

/// The queue may take this share of the size of the memory for objects. It is taken in addition to that memory.
const QUEUE_PART: u64 = 8;
/// The queue may take so much at least, bytes.
const QUEUE_BYTES_MIN: u64 = 8 << 20;

/// What a front has to push.
pub struct Pushing {
    /// Whether what is fetched is pushed at all.
    pub is_on: bool,
    /// Which keys are asked for often.
    pub hot: Hot,
    /// What is too long to be pushed.
    pub large: Large,
    /// What is counted.
    pub counters: PushCounters,
    queue: Mutex<Queue<Push>>,
    /// How purges stood in the last seconds.
    moments: Moments,
}

/// What is counted of pushes, but for what each member made of them ([`crate::member::MemberCounters`]).
#[derive(Default)]
pub struct PushCounters {
    /// Pushes that no member took.
    pub given_up: AtomicU64,
    /// Not begun: no member had told its sequences when the fetch began.
    pub untold: AtomicU64,
    /// Bodies that were longer than `push-max`.
    pub too_long: AtomicU64,
    /// Purged before they were sent.
    pub purged: AtomicU64,
}

/// An object on its way to a member.
pub struct Push {
    /// What the client asked.
    pub request: Bytes,
    /// The head of what came.
    pub response: Bytes,
    /// Its body, in pieces.
    pub body: Vec<Bytes>,
    /// The bytes of these.
    pub body_bytes: u64,
    /// The hash of its key.
    pub primary: KeyHash,
    /// The name that its hint is made of.
    pub name: Box<[u8]>,
    /// Our listener.
    pub listener: usize,
    /// When the origin was asked.
    pub asked: UnixMillis,
    /// When its answer came.
    pub received: UnixMillis,
    /// How purges stood then.
    pub began: Began,
    /// The bounds of carrying it.
    pub waits: OriginWaits,
    /// Members that have refused it, or have it.
    pub not_to: u64,
    /// Of what a member holds, not of a fetch.
    pub is_copy: bool,
}

impl Pushing {
    /// Nothing to push yet.
    pub fn new(plan: &Plan, cluster: &plan::Cluster) -> Pushing {
        let bytes_max = (plan.memory_bytes / QUEUE_PART).max(QUEUE_BYTES_MIN);
        Pushing {
            is_on: cluster.front && plan.stores.is_empty() && cluster.push_max_bytes > 0,
            hot: Hot::new(if cluster.front { cluster.hot_rate } else { 0 }),
            large: Large::default(),
            counters: PushCounters::default(),
            queue: Mutex::new(Queue::new(bytes_max)),
            moments: Moments::default(),
        }
    }

    /// Bytes of what is collected, waits and is on its way; pushes that wait; what was dropped.
    pub fn figures(&self) -> (u64, usize, queue::Counts) {
        let queue = self.queue();
        (queue.bytes(), queue.waiting(), queue.counts())
    }

    /// What is asked for under this key is too long to be pushed.
    pub fn too_long(&self, primary: KeyHash) {
        self.large.note(primary);
        self.counters.too_long.fetch_add(1, Ordering::Relaxed);
    }

    /// What waits, and what is on its way.
    pub fn queue(&self) -> MutexGuard<'_, Queue<Push>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Pushes to us.
#[derive(Default)]
pub struct Receiving {
    /// By verdict, in the order of [`message::Verdict::ALL`].
    pub verdicts: [AtomicU64; message::Verdict::ALL.len()],
}

/// What pushing needs of the thread that it runs on, if this is a front.
pub struct PushContext {
    /// Our cluster.
    pub cluster: Arc<Cluster>,
    /// What members hold.
    pub hints: RefCell<Reader>,
    /// What is stored here.
    pub cache: Arc<Cache>,
    /// What members are asked with.
    pub origin: Rc<OriginContext>,
    /// Where members may be.
    pub rules: Destinations,
    /// Time-outs.
    pub deadlines: Deadlines,
    /// Wall time.
    pub clock: Clock,
}

impl PushContext {
    /// What members hold.
    pub fn groups(&self) -> Arc<Groups> {
        Arc::clone(self.hints.borrow_mut().groups())
    }

    /// A second has passed: hot keys fade, and what has waited for a member goes if there is one now. One worker does so for all.
    pub fn every_second(self: &Rc<Self>, now: Instant) {
        let pushing = &self.cluster.pushing;
        pushing.hot.fade();
        let own = self.cache.store.stores().map(|store| store.sequence());
        pushing.moments.note(now, own.collect(), &self.groups());
        sending::start(self);
    }
}
