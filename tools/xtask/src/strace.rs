//! System calls of running servers, recorded by strace.
//!
//! All processes and threads are traced. Each call is recorded with its time and its path, so that a phase
//! or a directory can be selected. Tracing slows a server down. strace does not see io_uring: its reads and writes are
//! counted at the block device.
//!
//! Not known here: the calls and their meaning.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::failure::{During, Result, fail};
use crate::interrupt;
use crate::process::{CommandLine, Server, tail};
use crate::procfs;
use crate::workspace;

pub const OPENS: [&str; 4] = ["open", "openat", "openat2", "creat"];
pub const CLOSES: [&str; 1] = ["close"];
pub const UNLINKS: [&str; 2] = ["unlink", "unlinkat"];
pub const RENAMES: [&str; 3] = ["rename", "renameat", "renameat2"];
const ATTACH_MAX: Duration = Duration::from_secs(10);

/// A running strace; dropping it detaches.
#[derive(Debug)]
pub struct Strace {
    strace: Server,
    output: PathBuf,
}

impl Strace {
    /// Traces these calls of these processes and their descendants from now on. Output goes to `dir`.
    pub fn attach(roots: &[u32], calls: &[&str], dir: &Path) -> Result<Self> {
        if workspace::program("strace").is_none() {
            fail!("strace is not installed; it can be measured without");
        }
        let output = dir.join("calls.txt");
        let log = dir.join("strace.log");
        let mut args: Vec<String> = ["-f", "-y", "-qq", "-ttt", "-s", "0", "-e", "signal=none"]
            .map(str::to_owned)
            .into();
        args.extend(["-e".into(), format!("trace={}", calls.join(","))]);
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

    /// Detaches, and passes each call to `take`: seconds since 1970, its name, its path.
    pub fn finish(mut self, mut take: impl FnMut(f64, &str, &str)) -> Result<()> {
        if self.strace.has_ended() {
            fail!("strace ended before its time");
        }
        self.strace.stop()?;
        let reading = || format!("reading {}", self.output.display());
        let file = File::open(&self.output).during(reading)?;
        for line in BufReader::new(file).lines() {
            if let Some((at_s, call, about)) = parsed(&line.during(reading)?) {
                take(at_s, call, about);
            }
        }
        // The output has some megabytes a run.
        let _ = fs::remove_file(&self.output);
        Ok(())
    }
}

impl Drop for Strace {
    fn drop(&mut self) {
        if let Err(failure) = self.strace.stop() {
            eprintln!("stopping strace: {failure}");
        }
    }
}

/// Whether all threads of the process are traced; `None` if it cannot be read.
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

/// Time, call and path of a line such as `12 1700000000.5 read(5</cache/00/a>, ""..., 4096) = 4096`. `None` for the second
/// half of a call; the path is `?` if the line has none.
fn parsed(line: &str) -> Option<(f64, &str, &str)> {
    let (_, rest) = line.trim_start().split_once(' ')?;
    let (time, rest) = rest.trim_start().split_once(' ')?;
    let at_s = time.parse().ok()?;
    let (call, arguments) = rest.split_once('(')?;
    let by_name = [&OPENS[..], &UNLINKS, &RENAMES]
        .iter()
        .any(|names| names.contains(&call));
    let about = if by_name {
        arguments.split('"').nth(1).unwrap_or("?")
    } else {
        // sendfile reads the file behind the second descriptor.
        let nth = if call == "sendfile" { 2 } else { 1 };
        let path = arguments.split('<').nth(nth).unwrap_or("?");
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
}
