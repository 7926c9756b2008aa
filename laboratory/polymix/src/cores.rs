//! CPU time of a thread: how long it ran, and how long it was ready to run but waited for a core.
//!
//! A load generator that runs all the time is at its own limit. If it waits for a core, something else uses the machine, often the
//! proxy it measures.
//!
//! The kernel's file is opened once a thread, so that a load generator that has run out of descriptors can still read it.
//!
//! Limits: Linux with scheduler statistics; elsewhere all is 0.

use std::fs::File;
use std::ops::Sub;
use std::os::unix::fs::FileExt as _;
use std::time::Duration;

thread_local! {
    static STATISTICS: Option<File> = File::open("/proc/thread-self/schedstat").ok();
}

/// Room for three numbers of 20 digits.
const TEXT_BYTES_MAX: usize = 64;

/// Times of a thread, since it began or between two readings.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cores {
    /// The thread ran.
    pub cpu: Duration,
    /// The thread was ready to run, but other threads ran.
    pub wait: Duration,
}

impl Cores {
    /// Times of this thread, since it began.
    #[must_use]
    pub fn of_this_thread() -> Self {
        STATISTICS.with(|file| {
            let mut text = [0; TEXT_BYTES_MAX];
            let len = file.as_ref().and_then(|f| f.read_at(&mut text, 0).ok());
            let text = &text[..len.unwrap_or(0)];
            read(std::str::from_utf8(text).unwrap_or_default())
        })
    }
}

impl Sub for Cores {
    type Output = Self;

    fn sub(self, then: Self) -> Self {
        Self {
            cpu: self.cpu.saturating_sub(then.cpu),
            wait: self.wait.saturating_sub(then.wait),
        }
    }
}

/// Parses two numbers of nanoseconds; ignores the rest.
fn read(text: &str) -> Cores {
    let mut numbers = text.split_whitespace().map(str::parse::<u64>);
    let mut next = || Duration::from_nanos(numbers.next().and_then(Result::ok).unwrap_or(0));
    Cores {
        cpu: next(),
        wait: next(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_tells_two_times() {
        let cores = read("2500000 1000000 77\n");
        assert_eq!(cores.cpu, Duration::from_micros(2_500));
        assert_eq!(cores.wait, Duration::from_millis(1));
        assert_eq!(read(""), Cores::default());
    }

    #[test]
    fn work_takes_time() {
        let before = Cores::of_this_thread();
        let mut n = 0_u64;
        while (Cores::of_this_thread() - before).cpu < Duration::from_millis(3) {
            n = std::hint::black_box(n + 1);
            assert!(n < 10_000_000, "no scheduler statistics here");
        }
    }
}
