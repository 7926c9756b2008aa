//! What a front has to push, and what was pushed to us: what all threads share.
//!
//! Not known here: members, how a push is sent.
//! Limits: bytes of what waits and is on its way ([`QUEUE_PART`], [`QUEUE_BYTES_MIN`]).

use std::sync::{
    Mutex, MutexGuard, PoisonError,
    atomic::{AtomicU64, Ordering},
};

use bytes::Bytes;
use httpcache::UnixMillis;
use store::KeyHash;

use crate::hot::Hot;
use origin::OriginWaits;
use plan::Plan;

use super::{
    began::{Began, Moments},
    large::Large,
    message,
    queue::{self, Queue},
};

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
    pub(super) moments: Moments,
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
