//! Limits of the whole process, and counts against them.
//!
//! A count is taken back when it is dropped, so no code path can forget that.

use std::{
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use super::{Shared, Worker};
use ledger::{Holder, Task};
use plan::Plan;
use record::metrics;

/// Memory of an HTTP/2 request while it is answered: its task, its entry in the connection, the fetch that it waits for.
const TASK_BYTES: usize = 24 << 10;

/// Limits of the whole process in the current configuration.
#[derive(Default)]
pub struct Bounds {
    /// `limits.connections-max`.
    pub connections_max: AtomicUsize,
    /// `limits.streams-max`.
    pub streams_max: AtomicUsize,
}

impl Bounds {
    /// The limits of a configuration.
    pub fn of(plan: &Plan) -> Bounds {
        let bounds = Bounds::default();
        bounds.follow(plan);
        bounds
    }

    /// Adopts the limits of a configuration.
    pub fn follow(&self, plan: &Plan) {
        let limits = &plan.limits;
        (self.connections_max).store(limits.connections_max, Ordering::Relaxed);
        (self.streams_max).store(limits.streams_max, Ordering::Relaxed);
    }
}

/// Counts a client connection against the limit until it is dropped.
pub struct ConnectionCount(Arc<Shared>, Rc<Worker>);

impl ConnectionCount {
    /// `None` when the limit is reached.
    pub fn take(worker: &Rc<Worker>) -> Option<ConnectionCount> {
        let shared = Arc::clone(&worker.shared);
        let before = shared.connections.fetch_add(1, Ordering::Relaxed);
        if before >= shared.bounds.connections_max.load(Ordering::Relaxed) {
            shared.connections.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        metrics::add(&worker.counters.client_connections_open, 1);
        Some(ConnectionCount(shared, Rc::clone(worker)))
    }
}

impl Drop for ConnectionCount {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::Relaxed);
        metrics::sub(&self.1.counters.client_connections_open, 1);
    }
}

/// Counts an HTTP/2 stream with a task against the process's limit until it is dropped.
pub struct StreamCount {
    worker: Rc<Worker>,
    head_bytes: u64,
    _task: Task,
}

impl StreamCount {
    /// Counts a request with a head of `head_bytes` on this connection. `None` if there are too many streams, or too many bytes of heads
    /// (the limit is `limits.head-buffer`, as for incomplete heads), or if the ledger is full and the connection has its share of it.
    pub fn take(
        worker: &Rc<Worker>,
        holder: &Arc<Holder>,
        head_bytes: usize,
    ) -> Option<StreamCount> {
        if worker.shared.ledger.is_full_of(holder) {
            return None;
        }
        let task = holder.answers(TASK_BYTES);
        let shared = &worker.shared;
        let head_bytes = head_bytes as u64;
        let streams = shared.streams.fetch_add(1, Ordering::Relaxed);
        let bytes = (shared.stream_head_bytes).fetch_add(head_bytes, Ordering::Relaxed);
        metrics::add(&worker.counters.h2_streams_open, 1);
        // If there is no room, dropping this takes the counts back.
        let count = StreamCount {
            worker: Rc::clone(worker),
            head_bytes,
            _task: task,
        };
        let has_room = streams < shared.bounds.streams_max.load(Ordering::Relaxed)
            && bytes + head_bytes <= shared.heads.bytes_max();
        has_room.then_some(count)
    }
}

impl Drop for StreamCount {
    fn drop(&mut self) {
        let (shared, counters) = (&self.worker.shared, &self.worker.counters);
        shared.streams.fetch_sub(1, Ordering::Relaxed);
        (shared.stream_head_bytes).fetch_sub(self.head_bytes, Ordering::Relaxed);
        metrics::sub(&counters.h2_streams_open, 1);
    }
}
