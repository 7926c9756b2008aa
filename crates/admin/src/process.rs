//! Processor time, memory and open files of this process, from `/proc`.
//!
//! A value that cannot be read is missing, not 0.

use std::{
    fs,
    sync::OnceLock,
    time::{SystemTime, UNIX_EPOCH},
};

use serde::Serialize;

/// Units of processor time a second in `/proc`: USER_HZ, 100 on all platforms that we support.
const TICKS_A_SECOND: f64 = 100.0;
/// Positions of user time, system time and start time in `/proc/self/stat`, counted after the name.
const USER_TIME: usize = 11;
const SYSTEM_TIME: usize = 12;
const START_TIME: usize = 19;

/// The state of the process.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Process {
    /// Processor time so far, of all threads, user and system; seconds.
    pub cpu_s: Option<f64>,
    /// Memory in RAM.
    pub resident_bytes: Option<u64>,
    /// Open files, sockets among them.
    pub open_fds: Option<u64>,
    /// The limit of open files.
    pub max_fds: Option<u64>,
    /// When it started, seconds since 1970.
    #[serde(skip)]
    pub started_unix_s: Option<f64>,
}

impl Process {
    /// Reads the state.
    pub fn now() -> Process {
        Process {
            // One of them is the directory that is being read.
            open_fds: fs::read_dir("/proc/self/fd")
                .ok()
                .map(|files| (files.count() as u64).saturating_sub(1)),
            max_fds: max_fds(&fs::read_to_string("/proc/self/limits").unwrap_or_default()),
            ..Process::in_brief()
        }
    }

    /// Reads the state without the number of open files, because counting many files takes long.
    pub fn in_brief() -> Process {
        let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
        let field = |at| ticks(&stat, at);
        Process {
            cpu_s: field(USER_TIME)
                .zip(field(SYSTEM_TIME))
                .map(|(user, system)| user + system),
            resident_bytes: resident(),
            open_fds: None,
            max_fds: None,
            started_unix_s: started(&stat),
        }
    }
}

/// A time in `/proc/self/stat`, in seconds. The name before the fields may contain anything, also blanks and brackets.
fn ticks(stat: &str, at: usize) -> Option<f64> {
    let fields = stat.rsplit_once(") ")?.1;
    let ticks: u64 = fields.split(' ').nth(at)?.parse().ok()?;
    Some(ticks as f64 / TICKS_A_SECOND)
}

fn resident() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|l| l.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kib << 10)
}

/// The soft limit; `None` also if there is none.
fn max_fds(limits: &str) -> Option<u64> {
    let line = limits
        .lines()
        .find_map(|l| l.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Computed once, because it would change when the clock is set.
fn started(stat: &str) -> Option<f64> {
    static STARTED: OnceLock<Option<f64>> = OnceLock::new();
    *STARTED.get_or_init(|| {
        let up = fs::read_to_string("/proc/uptime").ok()?;
        let up: f64 = up.split(' ').next()?.parse().ok()?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
        Some(now.as_secs_f64() - up + ticks(stat, START_TIME)?)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_sees_itself() {
        let process = Process::now();
        assert!(process.cpu_s.is_some());
        assert!(process.resident_bytes > Some(1 << 20), "{process:?}");
        assert!(process.open_fds >= Some(3) && process.open_fds < process.max_fds);
        let age = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap()
            .as_secs_f64()
            - process.started_unix_s.unwrap();
        assert!((-1.0..3600.0).contains(&age), "{age} s old");
    }

    #[test]
    fn a_name_with_brackets_moves_no_field() {
        let stat = "7 (a) b (c) R 1 1 1 0 -1 4194304 101 0 0 0 250 50 0 0 20 0 1 0 195312 3133440";
        assert_eq!(ticks(stat, USER_TIME), Some(2.5));
        assert_eq!(ticks(stat, SYSTEM_TIME), Some(0.5));
        assert_eq!(ticks(stat, START_TIME), Some(1953.12));
        assert_eq!(ticks("", 0), None);
        assert_eq!(
            max_fds("Max open files            unlimited  unlimited  files\n"),
            None
        );
    }
}
