//! Limits a proxy's page cache, as if the machine had no more memory.
//!
//! A proxy that keeps objects in files uses the kernel's page cache. On a machine with much memory the page cache would hold the
//! whole cache, and no disk would be read. So the proxy runs in a memory group whose limit follows its own memory plus the
//! allowance: its own memory may grow, but file pages may not exceed the allowance. The limit is updated every [`EVERY`].
//! A proxy with O_DIRECT has no pages to lose. A full group makes the proxy wait, so that the kernel does not kill it for data
//! that it has yet to write.
//!
//! Not known here: what a proxy does with its memory.   Limits: memory controller of cgroup v1; memory a proxy had before
//! [`PageLimit::adopt`] is not in the group and not limited.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::failure::{During, Result, fail};
use crate::memory_group::MemoryGroup;
use crate::size::Bytes;

const EVERY: Duration = Duration::from_millis(100);
/// A proxy may allocate this much between two updates of the limit without being held up.
const SLACK_BYTES: u64 = 2 << 20;
/// The value for no limit.
const UNLIMITED: &str = "-1";

/// Holds a family of processes to its allowance until dropped; drop the processes first.
#[derive(Debug)]
pub struct PageLimit {
    group: MemoryGroup,
    files: Files,
    allowance: Bytes,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// The files of the group that are read and written.
#[derive(Debug, Clone)]
struct Files {
    usage: PathBuf,
    stat: PathBuf,
    limit: PathBuf,
}

impl PageLimit {
    /// A group without a limit yet.
    pub fn new(name: &str, allowance: Bytes) -> Result<Self> {
        let group = MemoryGroup::new(name)?;
        let files = Files {
            usage: group.dir().join("memory.usage_in_bytes"),
            stat: group.dir().join("memory.stat"),
            limit: group.dir().join("memory.limit_in_bytes"),
        };
        if !files.limit.exists() {
            fail!(
                "{} is missing: limiting the page cache needs the memory controller of cgroup v1; --page-cache unlimited does without",
                files.limit.display()
            );
        }
        let killer = group.dir().join("memory.oom_control");
        std::fs::write(&killer, "1").during(|| format!("writing {}", killer.display()))?;
        Ok(Self {
            group,
            files,
            allowance,
            stop: Arc::new(AtomicBool::new(false)),
            thread: None,
        })
    }

    /// Takes in these processes and their descendants, and begins to limit them.
    pub fn adopt(&mut self, roots: &[u32]) -> Result<()> {
        self.group.adopt(roots)?;
        self.files.tighten(self.allowance)?;
        let (files, allowance, stop) = (self.files.clone(), self.allowance, Arc::clone(&self.stop));
        self.thread = Some(std::thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                // Busy pages may keep the kernel from setting a limit that low now; the next update tries again.
                let _ = files.tighten(allowance);
                std::thread::sleep(EVERY);
            }
        }));
        Ok(())
    }

    /// Removes the limit, so that no process waits for memory in order to end.
    pub fn lift(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // The thread returns nothing.
            let _ = thread.join();
        }
        if let Err(e) = std::fs::write(&self.files.limit, UNLIMITED) {
            eprintln!("{}: {e}", self.files.limit.display());
        }
    }

    /// Bytes of file pages now.
    pub fn file_bytes(&self) -> Result<u64> {
        self.files.file_bytes()
    }
}

impl Drop for PageLimit {
    fn drop(&mut self) {
        self.lift();
    }
}

impl Files {
    fn file_bytes(&self) -> Result<u64> {
        let text = std::fs::read_to_string(&self.stat)
            .during(|| format!("reading {}", self.stat.display()))?;
        Ok(file_bytes_in(&text))
    }

    fn tighten(&self, allowance: Bytes) -> Result<()> {
        let usage = std::fs::read_to_string(&self.usage)
            .during(|| format!("reading {}", self.usage.display()))?;
        let usage: u64 = usage
            .trim()
            .parse()
            .during(|| format!("{}", self.usage.display()))?;
        let limit = usage.saturating_sub(self.file_bytes()?) + allowance.0 + SLACK_BYTES;
        std::fs::write(&self.limit, limit.to_string())
            .during(|| format!("writing {}", self.limit.display()))
    }
}

/// Pages of files, without shared memory, which the kernel counts as cache, too.
fn file_bytes_in(stat: &str) -> u64 {
    let field = |name: &str| {
        stat.lines()
            .find_map(|line| {
                line.strip_prefix(name)?
                    .strip_prefix(' ')?
                    .parse::<u64>()
                    .ok()
            })
            .unwrap_or(0)
    };
    field("cache").saturating_sub(field("shmem"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_memory_is_the_proxys_own() {
        let stat = "cache 9000\nrss 5\nshmem 4000\ntotal_cache 77\n";
        assert_eq!(file_bytes_in(stat), 5000);
        assert_eq!(file_bytes_in(""), 0);
    }

    #[test]
    fn the_limit_follows_what_is_not_a_file_page() {
        let dir = tempfile::tempdir().unwrap();
        let files = Files {
            usage: dir.path().join("usage"),
            stat: dir.path().join("stat"),
            limit: dir.path().join("limit"),
        };
        std::fs::write(&files.usage, "50000000\n").unwrap();
        std::fs::write(&files.stat, "cache 30000000\nshmem 0\n").unwrap();
        files.tighten(Bytes(1_000_000)).unwrap();
        let limit: u64 = std::fs::read_to_string(&files.limit)
            .unwrap()
            .parse()
            .unwrap();
        assert_eq!(limit, 20_000_000 + 1_000_000 + SLACK_BYTES);
    }
}
