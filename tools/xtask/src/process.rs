//! Servers as process families: started in the foreground, identified by pid and start time, stopped by pid.
//!
//! A pid alone is not an identity: the kernel reuses it. So a process is remembered with its start time in ticks,
//! and a signal is sent only if both match. Stopping asks the root politely (SIGTERM), waits, and then
//! kills the remaining processes of the family as it was before.

use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};

use crate::failure::{During, Failure, Result};
use crate::procfs::{self, Stat};

/// Longest time for a server to end after SIGTERM.
const GRACE: Duration = Duration::from_secs(10);
/// Longest time for its descendants to outlive it.
const ORPHAN_GRACE: Duration = Duration::from_secs(1);
/// Longest time for the kernel to end a killed process.
const KILL_WAIT: Duration = Duration::from_secs(5);
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// A process, distinct from later ones with the same pid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    pub pid: u32,
    pub start_ticks: u64,
}

impl Identity {
    /// The identity of the process that has this pid now.
    pub fn of(pid: u32) -> Option<Self> {
        Stat::of(pid).map(|s| Self {
            pid,
            start_ticks: s.start_ticks,
        })
    }

    /// Whether the process still runs.
    pub fn is_alive(&self) -> bool {
        Stat::of(self.pid).is_some_and(|s| s.start_ticks == self.start_ticks && !s.is_dead())
    }

    /// Sends a signal, if the process still runs.
    pub fn signal(&self, signal: Signal) {
        if !self.is_alive() {
            return;
        }
        if let Some(pid) = i32::try_from(self.pid).ok().and_then(Pid::from_raw) {
            // The process may have ended since the check, which is fine.
            let _ = kill_process(pid, signal);
        }
    }
}

/// A command line to run as a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandLine {
    pub program: String,
    pub args: Vec<String>,
    pub env: Vec<(String, String)>,
}

impl CommandLine {
    /// A program with its arguments.
    pub fn new<A: Into<String>>(program: &str, args: impl IntoIterator<Item = A>) -> Self {
        Self {
            program: program.to_owned(),
            args: args.into_iter().map(Into::into).collect(),
            env: Vec::new(),
        }
    }

    /// Adds a variable to the environment.
    pub fn with_env(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }

    fn command(&self, output: &Path) -> Result<Command> {
        let program = crate::workspace::program(&self.program)
            .unwrap_or_else(|| Path::new(&self.program).to_path_buf());
        let log = File::options()
            .create(true)
            .append(true)
            .open(output)
            .during(|| format!("opening {}", output.display()))?;
        let log_too = log.try_clone().during(|| "a second handle".into())?;
        let mut command = Command::new(program);
        command
            .args(&self.args)
            .envs(self.env.iter().map(|(n, v)| (n, v)))
            .stdin(Stdio::null())
            .stdout(log)
            .stderr(log_too);
        Ok(command)
    }

    /// Runs the command to its end; its output goes to `output`.
    pub fn run(&self, output: &Path) -> Result<()> {
        let status = self
            .command(output)?
            .status()
            .during(|| format!("running {}", self.program))?;
        if !status.success() {
            return Err(Failure::new(format!(
                "{} {}: {status}{}",
                self.program,
                self.args.join(" "),
                tail(output)
            )));
        }
        Ok(())
    }

    /// Starts the command in a process group of its own, so that Ctrl-C reaches this process and not the server.
    pub fn spawn(&self, output: &Path) -> Result<Server> {
        use std::os::unix::process::CommandExt;
        let child = self
            .command(output)?
            .process_group(0)
            .spawn()
            .during(|| format!("starting {}", self.program))?;
        let identity = Identity::of(child.id())
            .ok_or_else(|| Failure::new(format!("{} ended at once", self.program)))?;
        Ok(Server {
            identity,
            child: Some(child),
        })
    }
}

/// A server this process has started. It goes on running until [`Server::stop`] is called.
#[derive(Debug)]
pub struct Server {
    identity: Identity,
    child: Option<Child>,
}

impl Server {
    /// A server that another process has started.
    pub fn adopted(identity: Identity) -> Self {
        Self {
            identity,
            child: None,
        }
    }

    /// Its process id and start time.
    pub fn identity(&self) -> Identity {
        self.identity
    }

    /// Whether the server has ended. Also collects its exit status, so that it does not stay a zombie.
    pub fn has_ended(&mut self) -> bool {
        match &mut self.child {
            Some(child) => !matches!(child.try_wait(), Ok(None)),
            None => !self.identity.is_alive(),
        }
    }

    /// Stops the server and its descendants.
    pub fn stop(&mut self) -> Result<()> {
        stop(self.identity, &mut || {
            if let Some(child) = &mut self.child {
                // This only collects the exit status; /proc says whether the process is alive.
                let _ = child.try_wait();
            }
        })
    }
}

/// Stops a process started by an earlier command, and its descendants.
pub fn stop_recorded(identity: Identity) -> Result<()> {
    stop(identity, &mut || {})
}

fn stop(root: Identity, collect: &mut dyn FnMut()) -> Result<()> {
    let alive = |all: &[Identity]| all.iter().any(Identity::is_alive);
    let all: Vec<Identity> = if root.is_alive() {
        procfs::family(&[root.pid])
            .iter()
            .map(|s| Identity {
                pid: s.pid,
                start_ticks: s.start_ticks,
            })
            .collect()
    } else {
        Vec::new()
    };
    root.signal(Signal::TERM);
    let mut wait = |which: &[Identity], limit: Duration| {
        let end = Instant::now() + limit;
        while alive(which) && Instant::now() < end {
            std::thread::sleep(LOOK_EVERY);
            collect();
        }
    };
    wait(&[root], GRACE);
    wait(&all, ORPHAN_GRACE);
    for process in &all {
        process.signal(Signal::KILL);
    }
    wait(&all, KILL_WAIT);
    collect();
    if alive(&all) {
        return Err(Failure::new(format!(
            "process {} or one of its descendants does not end",
            root.pid
        )));
    }
    Ok(())
}

/// The last lines of a log, for an error message.
pub fn tail(log: &Path) -> String {
    const LINES: usize = 20;
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    if lines.is_empty() {
        return String::new();
    }
    let last = &lines[lines.len().saturating_sub(LINES)..];
    format!("\n  {}:\n    {}", log.display(), last.join("\n    "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> CommandLine {
        CommandLine::new("sh", ["-c", script])
    }

    #[test]
    fn a_whole_family_is_stopped() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("out");
        let mut server = shell("sleep 61 & sleep 62 & wait").spawn(&log).unwrap();
        let pid = server.identity().pid;
        crate::interrupt::wait_until(Duration::from_secs(5), || procfs::family(&[pid]).len() == 3)
            .unwrap();
        let all = procfs::family(&[pid]);
        assert_eq!(all.len(), 3);
        server.stop().unwrap();
        assert!(server.has_ended());
        for stat in all {
            assert!(Identity::of(stat.pid).is_none_or(|i| !i.is_alive()));
        }
    }

    #[test]
    fn a_pid_handed_out_again_is_left_alone() {
        let me = Identity::of(std::process::id()).unwrap();
        let stranger = Identity {
            start_ticks: me.start_ticks + 1,
            ..me
        };
        assert!(!stranger.is_alive());
        stop_recorded(stranger).unwrap();
    }

    #[test]
    fn a_failing_command_shows_its_last_lines() {
        let dir = tempfile::tempdir().unwrap();
        let failure = shell("echo why it failed; exit 3")
            .run(&dir.path().join("out"))
            .unwrap_err();
        assert!(failure.to_string().contains("why it failed"));
    }
}
