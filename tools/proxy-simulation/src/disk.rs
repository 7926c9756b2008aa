//! The store's faulty disk in the virtual time of the runtime.
//!
//! [`simulation::disk`] decides the result and the time of each operation; a task here completes it at that time.
//!
//! Not known here: records.

use std::{
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use device::simulated::{Asked, Disk as Device};
use simulation::{Random, areas::Areas, disk, disk::Op, disk::SECTOR_BYTES, faults::Faults};
use tokio::{
    sync::{Notify, oneshot},
    time::Instant,
};

/// The receiver of an operation's result, and which of the bytes it wants.
struct Waiter {
    answer: Option<oneshot::Sender<io::Result<Bytes>>>,
    skip: usize,
    len: usize,
}

/// A disk that outlives the proxies.
pub struct Disk {
    inner: Mutex<disk::Disk<Waiter>>,
    /// Notified when an operation is submitted.
    asked: Notify,
    began: Instant,
    broken: Mutex<Option<String>>,
}

impl Disk {
    /// A blank disk.
    pub fn new(bytes: u64, areas: Areas, faults: Faults, random: Random) -> Arc<Disk> {
        Arc::new(Disk {
            inner: Mutex::new(disk::Disk::new(bytes, areas, faults, random)),
            asked: Notify::new(),
            began: Instant::now(),
            broken: Mutex::new(None),
        })
    }

    /// Completes submitted operations when they are due.
    pub async fn run(self: Arc<Disk>) {
        loop {
            let now_ms = self.now_ms();
            while let Some(done) = self.lock().complete(now_ms) {
                give(done);
            }
            let due_ms = self.lock().next_due_ms();
            let asked = self.asked.notified();
            match due_ms {
                None => asked.await,
                Some(due_ms) => {
                    let due = self.began + Duration::from_millis(due_ms);
                    tokio::select! {
                        biased;
                        () = asked => {}
                        () = tokio::time::sleep_until(due) => {}
                    }
                }
            }
        }
    }

    /// Ends the process, or cuts the power.
    pub fn end(&self, power_cut: bool) {
        let mut disk = self.lock();
        match power_cut {
            true => disk.cut_power(),
            false => disk.kill(),
        }
    }

    /// See [`disk::Disk::heal`].
    pub fn heal(&self) {
        self.lock().heal();
    }

    /// While calm, the disk makes no new faults.
    pub fn set_calm(&self, calm: bool) {
        self.lock().set_calm(calm);
    }

    /// An operation that the store must not submit, if it did.
    pub fn broken(&self) -> Option<String> {
        self.broken
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn lock(&self) -> MutexGuard<'_, disk::Disk<Waiter>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now_ms(&self) -> u64 {
        self.began.elapsed().as_millis() as u64
    }

    fn submit(&self, asked: Asked, answer: oneshot::Sender<io::Result<Bytes>>) {
        let sector = SECTOR_BYTES as u64;
        let (mut skip, mut wanted) = (0, 0);
        let op = match asked {
            Asked::Flush => Op::Flush,
            Asked::Write { at, data } => Op::Write { offset: at, data },
            Asked::Read { at, len } => {
                let offset = at / sector * sector;
                let end = (at + len as u64).next_multiple_of(sector);
                (skip, wanted) = ((at - offset) as usize, len);
                Op::Read {
                    offset,
                    len: (end - offset) as usize,
                }
            }
        };
        let waiter = Waiter {
            answer: Some(answer),
            skip,
            len: wanted,
        };
        let now_ms = self.now_ms();
        if let Err(error) = self.lock().submit(waiter, op, now_ms) {
            let mut broken = self.broken.lock().unwrap_or_else(PoisonError::into_inner);
            broken.get_or_insert(error);
        }
    }
}

fn give(done: disk::Done<Waiter>) {
    let Waiter { answer, skip, len } = done.tag;
    let result = match done.result {
        Ok(Some(bytes)) => Ok(bytes.slice(skip..skip + len)),
        Ok(None) => Ok(Bytes::new()),
        Err(()) => Err(io::Error::other("the simulated disk")),
    };
    if let Some(answer) = answer {
        // The receiver may have stopped waiting.
        let _ = answer.send(result);
    }
}

impl Device for Disk {
    fn begin(&self, asked: Asked, answer: oneshot::Sender<io::Result<Bytes>>) {
        self.submit(asked, answer);
        self.asked.notify_one();
    }

    fn at_once(&self, asked: Asked) -> io::Result<Bytes> {
        let (answer, mut answered) = oneshot::channel();
        self.submit(asked, answer);
        loop {
            if let Ok(result) = answered.try_recv() {
                return result;
            }
            match self.lock().complete(u64::MAX) {
                Some(done) => give(done),
                None => return Err(io::Error::other("the simulated disk refuses")),
            }
        }
    }
}
