//! The thread that applies slow changes. A purge by pattern looks at some objects in memory; where too many such purges wait, it looks at
//! all of them.
//!
//! The cluster's thread does not wait for this one, so its beats go on. Changes are applied one after the other.
//!
//! Not known here: which member sent a change, and who hears of its end.
//! Limits: as many changes wait as entries do (`following`).

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread::{self, JoinHandle},
};

use tokio::sync::oneshot;

use super::applying::Applied;
use purging::change::Change;

/// The pending result of a change. It fails if the process ends first.
pub type Applying = oneshot::Receiver<Applied>;

/// A handle to the thread.
#[derive(Debug)]
pub struct Sweeping {
    changes: Option<mpsc::Sender<(Change, oneshot::Sender<Applied>)>>,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Sweeping {
    /// Starts the thread. `apply`: how a change is applied.
    ///
    /// # Errors
    /// The system refuses a thread.
    pub fn start(apply: impl Fn(&Change) -> Applied + Send + 'static) -> io::Result<Sweeping> {
        let (changes, waiting) = mpsc::channel::<(Change, oneshot::Sender<Applied>)>();
        let is_over = Arc::new(AtomicBool::new(false));
        let is_at_its_end = Arc::clone(&is_over);
        let thread = thread::Builder::new()
            .name("sweeping".into())
            .spawn(move || {
                for (change, answer) in waiting {
                    if is_at_its_end.load(Ordering::Relaxed) {
                        return;
                    }
                    // The receiver may be gone.
                    let _ = answer.send(apply(&change));
                }
            })?;
        Ok(Sweeping {
            changes: Some(changes),
            is_over,
            thread: Some(thread),
        })
    }

    /// Applies a change after those that wait already.
    pub fn apply(&self, change: &Change) -> Applying {
        let (answer, applying) = oneshot::channel();
        if let Some(changes) = &self.changes {
            // The thread ends before us only by a panic, which ends the process.
            let _ = changes.send((change.clone(), answer));
        }
        applying
    }
}

impl Drop for Sweeping {
    /// Waits for the change that is being applied. It works in memory, so this does not hang.
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.changes = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_one_who_gives_does_not_wait_and_what_waits_at_the_end_is_left() {
        let (go, gone) = mpsc::channel::<()>();
        let sweeping = Sweeping::start(move |change| {
            let _ = gone.recv();
            Applied {
                found: !change.names.is_empty(),
                ..Applied::default()
            }
        });
        let sweeping = sweeping.unwrap();
        let mut first = sweeping.apply(&Change::everything());
        let second = sweeping.apply(&Change::of_unsafe_method(vec![Vec::new()]));
        let mut third = sweeping.apply(&Change::everything());
        assert!(first.try_recv().is_err());
        go.send(()).unwrap();
        assert!(!first.blocking_recv().unwrap().found);
        go.send(()).unwrap();
        assert!(second.blocking_recv().unwrap().found);
        drop(go);
        drop(sweeping);
        let _ = third.try_recv();
    }
}
