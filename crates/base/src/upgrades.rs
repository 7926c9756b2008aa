//! The state of an upgrade that all threads see: whether one may be asked for, and how it goes.
//!
//! Not known here: how an upgrade is carried out (`successor`).   Limits: [`END_MAX`].

use std::{
    io,
    os::unix::net::UnixStream,
    process::Child,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    time::Duration,
};

/// How long the end of this process waits for the upgrade's thread.
const END_MAX: Duration = Duration::from_secs(20);

/// Starts the new process, with the other end of the link. `None`: it runs in this process (tests).
pub type Launch = Box<dyn FnMut(UnixStream) -> io::Result<Option<Child>> + Send>;

/// The outcome of an upgrade, in words for people.
pub type Outcome = Result<String, String>;

/// How an upgrade is asked for, and its state.
#[derive(Default)]
pub struct Upgrades {
    /// `None`: this process cannot start another one.
    pub launch: Option<Mutex<Launch>>,
    /// Is an upgrade under way?
    pub is_under_way: AtomicBool,
    /// The previous process still drains.
    pub has_predecessor: AtomicBool,
    /// The new process ended before it served.
    pub has_failed: AtomicBool,
    /// All requests of this process have ended.
    pub is_drained: AtomicBool,
    /// Receives when the upgrade's thread ends.
    pub thread: Mutex<Option<mpsc::Receiver<()>>>,
}

impl Upgrades {
    /// For a process that can start another one.
    pub fn by(launch: Launch) -> Upgrades {
        Upgrades {
            launch: Some(Mutex::new(launch)),
            ..Upgrades::default()
        }
    }

    /// Is an upgrade under way? While it is, nothing else may change.
    pub fn are_under_way(&self) -> bool {
        self.is_under_way.load(Ordering::SeqCst)
    }

    /// Notes that all requests of this process have ended, and waits until the new process has been told everything.
    ///
    /// # Errors
    /// The new process ended before it served, so no process serves any more.
    pub fn end(&self) -> Result<(), &'static str> {
        self.is_drained.store(true, Ordering::SeqCst);
        if let Some(ended) = lock(&self.thread).take() {
            let _ = ended.recv_timeout(END_MAX);
        }
        match self.has_failed.load(Ordering::SeqCst) {
            true => Err("the process that was to take over has ended before it served"),
            false => Ok(()),
        }
    }
}

/// Locks, even if a thread has panicked while holding the lock.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
