//! What all threads know of an upgrade: whether one may be asked for, and how it goes.
//!
//! Not known here: how one is carried out (`successor`).   Limits: [`END_MAX`].

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

/// How long the end of this process waits for its thread.
const END_MAX: Duration = Duration::from_secs(20);

/// Starts the new process, with the other end of the link. `None`: it is no process of its own (tests).
pub type Launch = Box<dyn FnMut(UnixStream) -> io::Result<Option<Child>> + Send>;

/// What came of an upgrade: what to tell people.
pub type Outcome = Result<String, String>;

/// How an upgrade is asked for, and how it goes.
#[derive(Default)]
pub struct Upgrades {
    /// `None`: this process cannot start another one.
    pub launch: Option<Mutex<Launch>>,
    /// Is one under way?
    pub is_under_way: AtomicBool,
    /// The process before this one still drains.
    pub has_predecessor: AtomicBool,
    /// The new process has ended before it served.
    pub has_failed: AtomicBool,
    /// All requests of this process have ended.
    pub is_drained: AtomicBool,
    /// Hears when the thread ends.
    pub thread: Mutex<Option<mpsc::Receiver<()>>>,
}

impl Upgrades {
    /// Of a process that can start another one.
    pub fn by(launch: Launch) -> Upgrades {
        Upgrades {
            launch: Some(Mutex::new(launch)),
            ..Upgrades::default()
        }
    }

    /// Is one under way? Then nothing else may change.
    pub fn are_under_way(&self) -> bool {
        self.is_under_way.load(Ordering::SeqCst)
    }

    /// All requests of this process have ended. Waits until the new one was told everything.
    ///
    /// # Errors
    /// The new process has not come to serve: there is none any more.
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

/// The lock, whoever has panicked with it.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
