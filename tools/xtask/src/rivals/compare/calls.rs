//! System calls about the cache's files, as strace sees them: opens, closes, unlinks, reads, writes.
//!
//! Every process of the proxy and every thread is watched, sockets are left out by the path strace shows for each
//! descriptor, and each call carries its time, so that a phase can be cut out. Being watched slows a proxy, so these runs are not
//! measured otherwise. io_uring is not seen by strace: who uses it must be told not to (`loligo serve --io-engine threads`), or
//! only the block layer's counts say anything.
//!
//! Not known here: the load.   Limits: calls about other files (logs) are not counted; a mapped file has no calls at all.
//! Source: paper 000, Tables 1 and 2.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Serialize;

use crate::failure::{During, Result, fail};
use crate::interrupt;
use crate::process::{CommandLine, Server, tail};
use crate::procfs;
use crate::workspace;

const OPENS: [&str; 4] = ["open", "openat", "openat2", "creat"];
const CLOSES: [&str; 1] = ["close"];
const UNLINKS: [&str; 2] = ["unlink", "unlinkat"];
const READS: [&str; 6] = ["read", "readv", "pread64", "preadv", "preadv2", "sendfile"];
const WRITES: [&str; 5] = ["write", "writev", "pwrite64", "pwritev", "pwritev2"];
const RENAMES: [&str; 3] = ["rename", "renameat", "renameat2"];
const ATTACH_MAX: Duration = Duration::from_secs(10);

/// How often each was called.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Calls {
    pub opens: u64,
    pub closes: u64,
    pub unlinks: u64,
    pub renames: u64,
    pub reads: u64,
    pub writes: u64,
}

/// A strace that watches; dropping it lets go.
#[derive(Debug)]
pub struct Watching {
    strace: Server,
    output: PathBuf,
}

impl Watching {
    /// Watches these processes and their descendants from now on. Output goes to `dir`.
    pub fn attach(roots: &[u32], dir: &Path) -> Result<Self> {
        if workspace::program("strace").is_none() {
            fail!(
                "strace is not installed; without --count-calls the block layer's counts are there all the same"
            );
        }
        let output = dir.join("calls.txt");
        let log = dir.join("strace.log");
        let names: Vec<&str> = [&OPENS[..], &CLOSES, &UNLINKS, &READS, &WRITES, &RENAMES].concat();
        let mut args: Vec<String> = ["-f", "-y", "-qq", "-ttt", "-s", "0", "-e", "signal=none"]
            .map(str::to_owned)
            .into();
        args.extend(["-e".into(), format!("trace={}", names.join(","))]);
        args.extend(["-o".into(), output.display().to_string()]);
        let pids: Vec<u32> = procfs::family(roots).iter().map(|s| s.pid).collect();
        for pid in &pids {
            args.extend(["-p".into(), pid.to_string()]);
        }
        let mut watching = Self {
            strace: CommandLine::new("strace", args).spawn(&log)?,
            output,
        };
        let strace = &mut watching.strace;
        let attached = interrupt::wait_until(ATTACH_MAX, || {
            strace.has_ended() || pids.iter().all(|pid| is_traced(*pid).unwrap_or(true))
        })?;
        if !attached || watching.strace.has_ended() {
            fail!("strace cannot attach{}", tail(&log));
        }
        Ok(watching)
    }

    /// Lets go and counts the calls about files below `place`: one count for each span of time, in seconds since 1970.
    pub fn finish(mut self, place: &Path, spans: &[(f64, f64)]) -> Result<Vec<Calls>> {
        if self.strace.has_ended() {
            fail!("strace ended before its time");
        }
        self.strace.stop()?;
        let file =
            File::open(&self.output).during(|| format!("reading {}", self.output.display()))?;
        let mut counts = vec![Calls::default(); spans.len()];
        let place = place.display().to_string();
        for line in BufReader::new(file).lines() {
            let line = line.during(|| format!("reading {}", self.output.display()))?;
            let Some((at_s, call, about)) = parsed(&line) else {
                continue;
            };
            if !about.starts_with(&place) {
                continue;
            }
            for (calls, (from_s, to_s)) in counts.iter_mut().zip(spans) {
                if (*from_s..*to_s).contains(&at_s) {
                    calls.count(call);
                }
            }
        }
        // Some megabytes a run.
        let _ = fs::remove_file(&self.output);
        Ok(counts)
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        if let Err(failure) = self.strace.stop() {
            eprintln!("stopping strace: {failure}");
        }
    }
}

impl Calls {
    fn count(&mut self, call: &str) {
        let counters = [
            (&OPENS[..], &mut self.opens),
            (&CLOSES, &mut self.closes),
            (&UNLINKS, &mut self.unlinks),
            (&RENAMES, &mut self.renames),
            (&READS, &mut self.reads),
            (&WRITES, &mut self.writes),
        ];
        for (names, counter) in counters {
            *counter += u64::from(names.contains(&call));
        }
    }
}

/// Are all its threads traced?
fn is_traced(pid: u32) -> Option<bool> {
    for task in fs::read_dir(format!("/proc/{pid}/task")).ok()? {
        let status = fs::read_to_string(task.ok()?.path().join("status")).ok()?;
        let tracer = status.lines().find_map(|l| l.strip_prefix("TracerPid:"))?;
        if tracer.trim() == "0" {
            return Some(false);
        }
    }
    Some(true)
}

/// Time, call and path of a line such as `12 1700000000.5 read(5</cache/00/a>, ""..., 4096) = 4096`. None for the second
/// half of a call, and for what is about no path.
fn parsed(line: &str) -> Option<(f64, &str, &str)> {
    let (_, rest) = line.trim_start().split_once(' ')?;
    let (time, rest) = rest.trim_start().split_once(' ')?;
    let at_s = time.parse().ok()?;
    let (call, arguments) = rest.split_once('(')?;
    let by_name = [&OPENS[..], &UNLINKS, &RENAMES]
        .iter()
        .any(|names| names.contains(&call));
    let about = if by_name {
        arguments.split('"').nth(1)?
    } else {
        // What goes into a socket by sendfile comes out of the second descriptor.
        let nth = if call == "sendfile" { 2 } else { 1 };
        let path = arguments.split('<').nth(nth)?;
        path.split(['>', '<']).next()?
    };
    Some((at_s, call, about))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_told_apart() {
        let line = "12 1700000000.500000 read(5</cache/00/a>, \"\"..., 4096) = 4096";
        assert_eq!(parsed(line), Some((1_700_000_000.5, "read", "/cache/00/a")));
        let line = "7  1700000001.000000 openat(AT_FDCWD</>, \"/cache/b\", O_RDONLY) = 5</cache/b>";
        assert_eq!(parsed(line).unwrap().2, "/cache/b");
        let line = "7 1.0 sendfile(9<TCP:[1]>, 5</cache/c>, NULL, 10) = 10";
        assert_eq!(parsed(line).unwrap().2, "/cache/c");
        let line = "7 1.0 close(5</cache/c>) = 0";
        assert_eq!(parsed(line).unwrap().1, "close");
        let line = "7 1.0 write(4<socket:[77]>, \"\"..., 10) = 10";
        assert_eq!(parsed(line).unwrap().2, "socket:[77]");
        for line in [
            "7 1.0 <... read resumed>\"\"..., 10) = 10",
            "7 +++ exited",
            "",
        ] {
            assert_eq!(parsed(line), None, "{line}");
        }
    }

    #[test]
    fn calls_go_to_their_counters() {
        let mut calls = Calls::default();
        for call in [
            "openat", "creat", "close", "unlink", "pread64", "writev", "rename", "poll",
        ] {
            calls.count(call);
        }
        let want = Calls {
            opens: 2,
            closes: 1,
            unlinks: 1,
            renames: 1,
            reads: 1,
            writes: 1,
        };
        assert_eq!(calls, want);
    }
}
