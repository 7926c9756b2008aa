//! Does a device answer, and how does it take what is asked of it?
//!
//! A read counts from its submission until the system is done with it, also when nobody waits for it any more: until then
//! its memory belongs to the system. A device that has reads to do and has ended none of them for a while is *silent*.
//! What is done about that is decided elsewhere; here it is only said, and remembered for all threads that use the device
//! ([`set_aside`](Health::set_aside)).
//!
//! Some file systems carry a transfer out within the call that submits it (FUSE, some network file systems), so a
//! thread that submits hangs when they do. Those that are known not to are submitted to directly; for all others, and
//! where a call was once found to take long, the system is told to use threads of its own ([`submits_aside`](Health::submits_aside)).
//!
//! Not known here: writes and flushes. A device that writes may be silent to readers for as long as it takes.
//!
//! Limits: times are milliseconds since the device was opened.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use tokio::time::Instant;

/// A call that submits and takes so long has carried out what it should only have submitted. More than a loaded machine
/// keeps a thread from running; less than the first time-out of anybody.
const SUBMIT_MAX: Duration = Duration::from_secs(1);

/// What is known of a device's answers; shared by all who use it.
#[derive(Debug)]
pub struct Health {
    opened: Instant,
    /// Reads the system has not ended, and their bytes.
    reads: AtomicU64,
    bytes: AtomicU64,
    /// The bytes of those that somebody waits for.
    waited: AtomicU64,
    /// When a read was ended last, or the first one came after there was none.
    moved_ms: AtomicU64,
    is_aside: AtomicBool,
    submits_aside: AtomicBool,
}

impl Health {
    /// Of a device opened now. `submits_aside`: it is not known to take submissions without carrying them out.
    pub(crate) fn new(submits_aside: bool) -> Self {
        Self {
            opened: Instant::now(),
            reads: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            waited: AtomicU64::new(0),
            moved_ms: AtomicU64::new(0),
            is_aside: AtomicBool::new(false),
            submits_aside: AtomicBool::new(submits_aside),
        }
    }

    /// For how long there have been reads to do and none has ended; zero while there are none.
    pub fn silent_for(&self) -> Duration {
        if self.reads.load(Relaxed) == 0 {
            return Duration::ZERO;
        }
        Duration::from_millis(self.now_ms().saturating_sub(self.moved_ms.load(Relaxed)))
    }

    /// When it last gave an answer, well or badly, in milliseconds since it was opened: another number, another answer. For
    /// a device that has been silent, and so has reads to do.
    pub fn answered_ms(&self) -> u64 {
        self.moved_ms.load(Relaxed)
    }

    /// Bytes of reads that nobody waits for and the system has not ended.
    pub fn abandoned_bytes(&self) -> u64 {
        // The two are counted one after the other, so the difference may be less than nothing for a moment.
        let held = self.bytes.load(Relaxed);
        held.saturating_sub(self.waited.load(Relaxed))
    }

    /// Is it set aside?
    pub fn is_aside(&self) -> bool {
        self.is_aside.load(Relaxed)
    }

    /// Tells everybody not to ask it, or to ask it again.
    pub fn set_aside(&self, aside: bool) {
        self.is_aside.store(aside, Relaxed);
    }

    /// Is what is submitted to be carried out by the system's own threads?
    pub fn submits_aside(&self) -> bool {
        self.submits_aside.load(Relaxed)
    }

    /// From now on the system's own threads carry out what is submitted.
    pub fn submit_aside(&self) {
        self.submits_aside.store(true, Relaxed);
    }

    /// It has given some answer.
    pub(crate) fn answered(&self) {
        self.moved_ms.store(self.now_ms(), Relaxed);
    }

    /// A call that submits has taken so long. True: from now on others carry out what is submitted.
    pub(crate) fn submitted_in(&self, took: Duration) -> bool {
        took >= SUBMIT_MAX && !self.submits_aside.swap(true, Relaxed)
    }

    /// A read of so many bytes begins.
    pub(crate) fn begin_read(&self, bytes: u64) {
        if self.reads.fetch_add(1, Relaxed) == 0 {
            self.answered();
        }
        self.bytes.fetch_add(bytes, Relaxed);
    }

    /// It has ended.
    pub(crate) fn end_read(&self, bytes: u64) {
        self.answered();
        self.bytes.fetch_sub(bytes, Relaxed);
        self.reads.fetch_sub(1, Relaxed);
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.opened.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

/// Somebody who waits for a read.
pub(crate) struct Waiting<'a> {
    health: &'a Health,
    bytes: u64,
}

impl<'a> Waiting<'a> {
    pub(crate) fn new(health: &'a Health, bytes: usize) -> Self {
        let bytes = bytes as u64;
        health.waited.fetch_add(bytes, Relaxed);
        Self { health, bytes }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.health.waited.fetch_sub(self.bytes, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_call_that_takes_long_changes_the_way() {
        let health = Health::new(false);
        assert!(!health.submitted_in(SUBMIT_MAX - Duration::from_millis(1)));
        assert!(!health.submits_aside());
        assert!(health.submitted_in(SUBMIT_MAX));
        assert!(!health.submitted_in(SUBMIT_MAX), "said once");
        assert!(health.submits_aside());
    }
}
