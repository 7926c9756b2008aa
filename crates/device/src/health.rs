//! Does a device answer, and may operations be submitted to it directly?
//!
//! A read counts from its submission until the kernel has finished it, even if its waiter has gone, because until
//! then the kernel owns its memory. A device that has reads to do and has finished none for a while is *silent*.
//! Another module decides what to do about that; this one measures it, and remembers for all threads whether the
//! device is [`set_aside`](Health::set_aside).
//!
//! Some file systems (FUSE, some network file systems) carry out a transfer within the submitting call, so the
//! submitting thread hangs if they hang. Only file systems that are known not to do this get direct submissions. For
//! all others, and after a submission that took long, the kernel must use threads of its own
//! ([`submits_aside`](Health::submits_aside)).
//!
//! Not known here: writes and flushes. A device that is busy writing may be silent to readers meanwhile.
//!
//! Limits: times are milliseconds since the device was opened.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use tokio::time::Instant;

/// A submitting call that takes this long has carried out the transfer itself. The limit is longer than a loaded
/// machine suspends a thread, and shorter than any time-out.
const SUBMIT_MAX: Duration = Duration::from_secs(1);

/// The state of a device's answers, shared by all threads that use it.
#[derive(Debug)]
pub struct Health {
    opened: Instant,
    /// Reads that the kernel has not finished, and their bytes.
    reads: AtomicU64,
    bytes: AtomicU64,
    /// The bytes of those reads that still have a waiter.
    waited: AtomicU64,
    /// When a read last finished, or when the first read began after a pause.
    moved_ms: AtomicU64,
    is_aside: AtomicBool,
    submits_aside: AtomicBool,
}

impl Health {
    /// For a device opened now. `submits_aside`: direct submissions may block.
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

    /// How long there have been reads to do without any of them finishing; zero while there are none.
    pub fn silent_for(&self) -> Duration {
        if self.reads.load(Relaxed) == 0 {
            return Duration::ZERO;
        }
        Duration::from_millis(self.now_ms().saturating_sub(self.moved_ms.load(Relaxed)))
    }

    /// When the device last finished a read, with or without success, in milliseconds since it was opened. A new
    /// number means a new answer. Only meaningful while there are reads to do.
    pub fn answered_ms(&self) -> u64 {
        self.moved_ms.load(Relaxed)
    }

    /// Bytes of unfinished reads that have no waiter.
    pub fn abandoned_bytes(&self) -> u64 {
        // The two counters change one after the other, so the difference may be negative for a moment.
        let held = self.bytes.load(Relaxed);
        held.saturating_sub(self.waited.load(Relaxed))
    }

    /// Is it set aside?
    pub fn is_aside(&self) -> bool {
        self.is_aside.load(Relaxed)
    }

    /// Tells all threads to stop using the device, or to use it again.
    pub fn set_aside(&self, aside: bool) {
        self.is_aside.store(aside, Relaxed);
    }

    /// Must the kernel's own threads carry out submissions?
    pub fn submits_aside(&self) -> bool {
        self.submits_aside.load(Relaxed)
    }

    /// From now on the kernel's own threads carry out submissions.
    pub fn submit_aside(&self) {
        self.submits_aside.store(true, Relaxed);
    }

    /// The device has finished a read.
    pub(crate) fn answered(&self) {
        self.moved_ms.store(self.now_ms(), Relaxed);
    }

    /// Notes how long a submitting call took. True if this changes `submits_aside`.
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

    /// A read of `bytes` bytes has ended.
    pub(crate) fn end_read(&self, bytes: u64) {
        self.answered();
        self.bytes.fetch_sub(bytes, Relaxed);
        self.reads.fetch_sub(1, Relaxed);
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.opened.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

/// A waiter of a read.
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
