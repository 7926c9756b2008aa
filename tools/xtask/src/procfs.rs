//! The kernel's figures for processes: family, CPU time, memory, bytes to and from devices.
//!
//! CPU time is taken from `/proc/<pid>/stat` over a process and all its descendants: user and system time of the living,
//! and of the children they have waited for. It counts every thread, however a server splits its work.
//!
//! Limits: a tick is 10 ms, so a measurement of a few seconds is accurate to well under a percent. A process that
//! has double-forked away from its family is not seen; none of the servers here does that when run in the foreground.

use std::fs;
use std::time::Duration;

use crate::failure::{During, Failure, Result};

/// The fields of `/proc/<pid>/stat` this crate uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    pub pid: u32,
    pub parent: u32,
    pub state: char,
    /// user and system time, own and of waited-for children, in clock ticks
    pub cpu_ticks: u64,
    /// when the process began, in clock ticks since boot: with the pid, its identity
    pub start_ticks: u64,
}

impl Stat {
    /// The process with this pid, if there is one.
    pub fn of(pid: u32) -> Option<Self> {
        let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        Self::parse(&text)
    }

    /// The command may contain spaces and parentheses, so fields are counted from the last ')'.
    fn parse(text: &str) -> Option<Self> {
        let pid = text.split_once(' ')?.0.parse().ok()?;
        let rest: Vec<&str> = text.rsplit_once(") ")?.1.split_whitespace().collect();
        let number = |field: usize| rest.get(field - 3)?.parse::<u64>().ok();
        Some(Self {
            pid,
            parent: u32::try_from(number(4)?).ok()?,
            state: rest.first()?.chars().next()?,
            cpu_ticks: number(14)? + number(15)? + number(16)? + number(17)?,
            start_ticks: number(22)?,
        })
    }

    /// Whether the process has ended and its parent has not read the exit status yet.
    pub fn is_dead(&self) -> bool {
        matches!(self.state, 'Z' | 'X')
    }
}

/// These processes and all their descendants.
pub fn family(roots: &[u32]) -> Vec<Stat> {
    let mut all: Vec<Stat> = Vec::new();
    if let Ok(entries) = fs::read_dir("/proc") {
        all.extend(
            entries
                .flatten()
                .filter_map(|e| e.file_name().to_str()?.parse().ok())
                .filter_map(Stat::of),
        );
    }
    let mut found: Vec<Stat> = all
        .iter()
        .filter(|s| roots.contains(&s.pid))
        .copied()
        .collect();
    let mut next = 0;
    while next < found.len() {
        let parent = found[next].pid;
        let children = all.iter().filter(|s| s.parent == parent);
        let new: Vec<Stat> = children
            .filter(|s| !found.iter().any(|f| f.pid == s.pid))
            .copied()
            .collect();
        found.extend(new);
        next += 1;
    }
    found
}

/// CPU time of these processes and all their descendants so far.
pub fn cpu(roots: &[u32]) -> Duration {
    let ticks: u64 = family(roots).iter().map(|s| s.cpu_ticks).sum();
    Duration::from_secs_f64(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}

/// CPU time of the threads of this name, in these processes and their descendants, in nanoseconds.
pub fn cpu_of_threads(roots: &[u32], name: &str) -> Duration {
    let ran_ns = |task: fs::DirEntry| {
        let read = |file: &str| fs::read_to_string(task.path().join(file)).ok();
        let ran = read("schedstat").filter(|_| read("comm").is_some_and(|it| it.trim() == name))?;
        ran.split(' ').next()?.parse::<u64>().ok()
    };
    let all = family(roots).into_iter();
    let tasks = all.filter_map(|it| fs::read_dir(format!("/proc/{}/task", it.pid)).ok());
    Duration::from_nanos(tasks.flatten().flatten().filter_map(ran_ns).sum())
}

/// Resident bytes of these processes and all their descendants; shared pages are counted once for each.
pub fn resident_bytes(roots: &[u32]) -> u64 {
    family(roots)
        .iter()
        .filter_map(|s| {
            let text = fs::read_to_string(format!("/proc/{}/statm", s.pid)).ok()?;
            text.split_whitespace().nth(1)?.parse::<u64>().ok()
        })
        .sum::<u64>()
        * rustix::param::page_size() as u64
}

/// Whether one of these processes, or of their descendants, listens on this TCP port.
pub fn listens(roots: &[u32], port: u16) -> bool {
    let sockets: Vec<String> = ["/proc/net/tcp", "/proc/net/tcp6"]
        .iter()
        .filter_map(|table| fs::read_to_string(table).ok())
        .flat_map(|text| listening(&text, port))
        .collect();
    family(roots).iter().any(|process| {
        let files = fs::read_dir(format!("/proc/{}/fd", process.pid));
        let mut links = files.into_iter().flatten().flatten();
        links.any(|file| {
            let link = fs::read_link(file.path()).unwrap_or_default();
            sockets
                .iter()
                .any(|socket| link.as_os_str() == socket.as_str())
        })
    })
}

/// The listening sockets for a port in a table like `/proc/net/tcp`, as the links of descriptors name them.
fn listening(table: &str, port: u16) -> Vec<String> {
    const LISTEN: &str = "0A";
    let port = format!(":{port:04X}");
    let socket = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let is_it = words.get(1)?.ends_with(&port) && *words.get(3)? == LISTEN;
        is_it.then(|| words.get(9).map(|inode| format!("socket:[{inode}]")))?
    };
    table.lines().skip(1).filter_map(socket).collect()
}

/// Counters of `/proc/<pid>/io`: bytes to and from devices, and system calls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Io {
    pub read_bytes: u64,
    pub write_bytes: u64,
    pub write_calls: u64,
}

impl Io {
    /// The counters of one process with all its threads.
    pub fn of(pid: u32) -> Result<Self> {
        let path = format!("/proc/{pid}/io");
        let text = fs::read_to_string(&path).during(|| format!("reading {path}"))?;
        Self::parse(&text).ok_or_else(|| Failure::new(format!("{path} has an unknown form")))
    }

    fn parse(text: &str) -> Option<Self> {
        let field = |name: &str| {
            let line = text.lines().find_map(|l| l.strip_prefix(name))?;
            line.strip_prefix(": ")?.trim().parse::<u64>().ok()
        };
        Some(Self {
            read_bytes: field("read_bytes")?,
            write_bytes: field("write_bytes")?,
            write_calls: field("syscw")?,
        })
    }

    /// The difference to `before`.
    pub fn since(&self, before: &Self) -> Self {
        Self {
            read_bytes: self.read_bytes - before.read_bytes,
            write_bytes: self.write_bytes - before.write_bytes,
            write_calls: self.write_calls - before.write_calls,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_with_parentheses_does_not_shift_the_fields() {
        let line = "42 (a (b) c) S 7 42 42 0 -1 4194304 1 2 3 4 10 20 30 40 20 0 5 0 999 1 2";
        let stat = Stat::parse(line).unwrap();
        assert_eq!(stat.parent, 7);
        assert_eq!(stat.cpu_ticks, 100);
        assert_eq!(stat.start_ticks, 999);
        assert!(!stat.is_dead());
        assert_eq!(Stat::parse("garbage"), None);
    }

    #[test]
    fn a_family_includes_its_children() {
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        let found = family(&[std::process::id()]);
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(found.iter().any(|s| s.pid == child.id()));
        assert!(found.iter().any(|s| s.pid == std::process::id()));
    }

    #[test]
    fn threads_are_told_apart_by_their_names() {
        let (go, gone) = (std::sync::mpsc::channel::<()>(), std::sync::mpsc::channel());
        let works = move || {
            gone.0
                .send((0..1_000_000).map(std::hint::black_box).sum::<u64>())
                .unwrap();
            let _ = go.1.recv();
        };
        let name = std::thread::Builder::new().name("procfs-busy".into());
        let busy = name.spawn(works).unwrap();
        gone.1.recv().unwrap();
        let own = [std::process::id()];
        assert!(cpu_of_threads(&own, "procfs-busy") > Duration::ZERO);
        assert_eq!(cpu_of_threads(&own, "procfs-none"), Duration::ZERO);
        drop(go.0);
        busy.join().unwrap();
    }

    #[test]
    fn our_own_counters_can_be_read() {
        assert!(resident_bytes(&[std::process::id()]) > 0);
        let io = Io::of(std::process::id()).unwrap();
        assert_eq!(io.since(&io), Io::default());
    }

    #[test]
    fn who_listens_is_known() {
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let me = [std::process::id()];
        assert!(listens(&me, port));
        // A process without sockets.
        let mut other = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        let is_its = listens(&[other.id()], port);
        other.kill().unwrap();
        other.wait().unwrap();
        assert!(!is_its);
        drop(listener);
        assert!(!listens(&me, port));
    }
}
