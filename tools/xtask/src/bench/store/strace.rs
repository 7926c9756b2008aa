//! File operations of a running server, as strace sees them.
//!
//! Every open, close and unlink while it watches is sorted by what it is about: sockets, pipes and the like come and go
//! with connections and are no file operation; everything else is one. io_uring can open and close as well without strace
//! seeing it; Loligo's rings are only ever given reads and writes, and the device's own counters are read beside this.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::failure::{During, Result, fail};
use crate::interrupt;
use crate::process::{CommandLine, Server};
use crate::workspace;

const CALLS: &str = "open,openat,openat2,creat,close,unlink,unlinkat,rename,renameat,renameat2";
const ATTACH_MAX: Duration = Duration::from_secs(10);

/// A strace that watches; dropping it lets go.
#[derive(Debug)]
pub struct Strace {
    strace: Server,
    output: PathBuf,
}

/// What was seen.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// calls about files: name of the call and path, how often
    pub files: BTreeMap<String, u64>,
    /// closes of sockets, pipes, event descriptors
    pub other_closes: u64,
}

impl Seen {
    /// How many calls about files.
    pub fn file_calls(&self) -> u64 {
        self.files.values().sum()
    }
}

impl Strace {
    /// Watches a process and all its threads from now on.
    pub fn attach(pid: u32, dir: &Path) -> Result<Self> {
        if workspace::program("strace").is_none() {
            fail!("strace is not installed");
        }
        let output = dir.join("strace.txt");
        let args = [
            "-f".into(),
            "-y".into(),
            "-qq".into(),
            "-e".into(),
            format!("trace={CALLS}"),
            "-e".into(),
            "signal=none".into(),
            "-o".into(),
            output.display().to_string(),
            "-p".into(),
            pid.to_string(),
        ];
        let log = dir.join("strace.log");
        let mut watching = Self {
            strace: CommandLine::new("strace", args).spawn(&log)?,
            output,
        };
        let strace = &mut watching.strace;
        let attached = interrupt::wait_until(ATTACH_MAX, || {
            strace.has_ended() || is_traced(pid).unwrap_or(false)
        })?;
        if !attached || watching.strace.has_ended() {
            fail!("strace cannot attach{}", crate::process::tail(&log));
        }
        Ok(watching)
    }

    /// Lets go and counts.
    pub fn finish(mut self) -> Result<Seen> {
        if self.strace.has_ended() {
            fail!("strace ended before its time");
        }
        self.strace.stop()?;
        let text = fs::read_to_string(&self.output)
            .during(|| format!("reading {}", self.output.display()))?;
        Ok(sort(&text))
    }
}

impl Drop for Strace {
    fn drop(&mut self) {
        if let Err(failure) = self.strace.stop() {
            eprintln!("stopping strace: {failure}");
        }
    }
}

/// Are all threads of it traced?
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

/// Lines such as `12 close(5<socket:[77]>) = 0` and `12 openat(AT_FDCWD</>, "a", O_RDONLY) = 5</a>`.
fn sort(text: &str) -> Seen {
    let mut seen = Seen::default();
    for line in text.lines() {
        // The pid, then either a call or the second half of one that was counted already.
        let call = line.trim_start_matches(|c: char| c.is_ascii_digit() || c == ' ');
        let Some((name, rest)) = call.split_once('(') else {
            continue;
        };
        if !CALLS.split(',').any(|known| known == name) {
            continue;
        }
        let about = match name {
            "close" => match rest.split_once('<') {
                Some((_, path)) => path.split('>').next().unwrap_or_default(),
                None => "?",
            },
            _ => rest.split('"').nth(1).unwrap_or("?"),
        };
        let is_file = about.starts_with('/') || about == "?" || name != "close";
        if is_file {
            *seen.files.entry(format!("{name} {about}")).or_default() += 1;
        } else {
            seen.other_closes += 1;
        }
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_are_not_files() {
        let seen = sort(
            "12 close(5<socket:[77]>) = 0\n\
             12 close(6<TCP:[127.0.0.1:1->127.0.0.1:2]>) = 0\n\
             13 close(7</cache/object> <unfinished ...>\n\
             13 <... close resumed>) = 0\n\
             12 openat(AT_FDCWD</>, \"/cache/x\", O_RDONLY) = 5</cache/x>\n\
             12 openat(AT_FDCWD</>, \"/cache/x\", O_RDONLY) = -1 ENOENT\n\
             12 unlink(\"/cache/x\") = 0\n\
             12 +++ exited with 0 +++\n",
        );
        assert_eq!(seen.other_closes, 2);
        assert_eq!(seen.file_calls(), 4);
        assert_eq!(seen.files["openat /cache/x"], 2);
        assert_eq!(seen.files["close /cache/object"], 1);
    }

    #[test]
    fn a_quiet_server_did_nothing() {
        assert_eq!(sort(""), Seen::default());
    }
}
