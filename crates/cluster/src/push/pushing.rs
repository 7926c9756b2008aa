//! The shared state of pushes: those that a front sends, and those sent to us.
//!
//! Not known here: members, how a push is sent.
//! Limits: bytes of pushes that wait or are being sent ([`QUEUE_PART`], [`QUEUE_BYTES_MIN`]).

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

/// The queue may take the size of the memory for objects divided by this, in addition to that memory.
const QUEUE_PART: u64 = 8;
/// The least size of the queue, bytes.
const QUEUE_BYTES_MIN: u64 = 8 << 20;

/// The pushes of a front.
pub struct Pushing {
    /// Whether fetched objects are pushed at all.
    pub is_on: bool,
    /// Which keys are requested often.
    pub hot: Hot,
    /// Resources that are too long to be pushed.
    pub large: Large,
    /// Counters.
    pub counters: PushCounters,
    queue: Mutex<Queue<Push>>,
    /// The state of purges in the last seconds.
    pub(super) moments: Moments,
}

/// Counters of pushes, except verdicts, which are counted for each member ([`crate::member::MemberCounters`]).
#[derive(Default)]
pub struct PushCounters {
    /// Pushes that no member accepted.
    pub given_up: AtomicU64,
    /// Pushes not begun, because no member had told its sequences when the fetch began.
    pub untold: AtomicU64,
    /// Bodies longer than `push-max`.
    pub too_long: AtomicU64,
    /// Objects purged before they were sent.
    pub purged: AtomicU64,
}

/// An object on its way to a member.
pub struct Push {
    /// The head of the client's request, as the member will read it.
    pub request: Bytes,
    /// The head of the response.
    pub response: Bytes,
    /// Its body, in pieces.
    pub body: Vec<Bytes>,
    /// The sum of their lengths.
    pub body_bytes: u64,
    /// The hash of its key.
    pub primary: KeyHash,
    /// The name that hints are made from.
    pub name: Box<[u8]>,
    /// The number of our listener.
    pub listener: usize,
    /// When the request was sent to the origin.
    pub asked: UnixMillis,
    /// When the response's head came.
    pub received: UnixMillis,
    /// The state of purges when the fetch began.
    pub began: Began,
    /// Time limits of sending it.
    pub waits: OriginWaits,
    /// Members that have refused it or hold it.
    pub not_to: u64,
    /// It is a copy of an object that a member holds, not a fetched one.
    pub is_copy: bool,
}

impl Pushing {
    /// The state at the start, with an empty queue.
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

    /// Bytes being collected, waiting or being sent; the number of waiting pushes; counts of dropped ones.
    pub fn figures(&self) -> (u64, usize, queue::Counts) {
        let queue = self.queue();
        (queue.bytes(), queue.waiting(), queue.counts())
    }

    /// Notes that the resource of this key is too long to be pushed.
    pub fn too_long(&self, primary: KeyHash) {
        self.large.note(primary);
        self.counters.too_long.fetch_add(1, Ordering::Relaxed);
    }

    /// The queue of pushes.
    pub fn queue(&self) -> MutexGuard<'_, Queue<Push>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Pushes to us.
#[derive(Default)]
pub struct Receiving {
    /// Counts by verdict, in the order of [`message::Verdict::ALL`].
    pub verdicts: [AtomicU64; message::Verdict::ALL.len()],
}
