//! The threads of one device, for where io_uring is refused.
//!
//! Made at first use and ended with the device. A device that hangs blocks its own threads and no others.
//!
//! Limits: 16 threads; the caller says how many jobs may wait.
//! Not known here: what a job does.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

/// Enough to keep a disk's queue busy from two cores. Each thread costs a stack.
const THREADS: usize = 16;
const NO_PANIC: &str = "the queue's lock is never held across a job";

/// A job for a thread.
pub(crate) type Job = Box<dyn FnOnce() + Send>;

/// The threads; they end when it is dropped.
pub(crate) struct Pool(Arc<Queue>);

#[derive(Default)]
struct Queue {
    jobs: Mutex<Jobs>,
    filled: Condvar,
}

#[derive(Default)]
struct Jobs {
    waiting: VecDeque<Job>,
    is_closed: bool,
}

impl Pool {
    /// Starts the threads. Fails if the first one cannot be started.
    pub(crate) fn start() -> io::Result<Arc<Self>> {
        let pool = Self(Arc::default());
        for number in 0..THREADS {
            let queue = Arc::clone(&pool.0);
            match thread::Builder::new()
                .name(format!("disk-{number}"))
                .spawn(move || queue.serve())
            {
                Ok(_) => {}
                Err(error) if number == 0 => return Err(error),
                Err(error) => {
                    tracing::warn!(%error, threads = number, "fewer disk threads than wanted");
                    break;
                }
            }
        }
        Ok(Arc::new(pool))
    }

    /// Queues a job. False: `waiting_max` jobs wait already.
    pub(crate) fn submit(&self, job: Job, waiting_max: usize) -> bool {
        {
            let mut jobs = self.0.jobs.lock().expect(NO_PANIC);
            if jobs.waiting.len() >= waiting_max {
                return false;
            }
            jobs.waiting.push_back(job);
        }
        self.0.filled.notify_one();
        true
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.0.jobs.lock().expect(NO_PANIC).is_closed = true;
        self.0.filled.notify_all();
    }
}

impl Queue {
    /// Runs jobs on this thread until the pool is closed.
    fn serve(&self) {
        loop {
            let job = {
                let mut jobs = self.jobs.lock().expect(NO_PANIC);
                loop {
                    match jobs.waiting.pop_front() {
                        Some(job) => break job,
                        None if jobs.is_closed => return,
                        None => jobs = self.filled.wait(jobs).expect(NO_PANIC),
                    }
                }
            };
            job();
        }
    }
}
