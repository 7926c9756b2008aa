//! Emptying the page cache of one server, mapped pages included.
//!
//! Dropping the page cache keeps pages that a process has mapped, and Varnish keeps its whole file storage mapped, so that
//! its disk hits would come from memory. In a memory control group of its own the kernel can be asked to reclaim them too.
//! Both versions of the interface are supported; without either, [`MemoryGroup::new`] fails and the bench marks
//! its figures.

use std::fs;
use std::path::{Path, PathBuf};

use crate::failure::{During, Result, fail};
use crate::procfs;

const V1: &str = "/sys/fs/cgroup/memory";
const V2: &str = "/sys/fs/cgroup";

/// A control group that counts one server's memory; dropping it removes it.
#[derive(Debug)]
pub struct MemoryGroup {
    dir: PathBuf,
    /// the file that takes the order to reclaim, and the order
    reclaim: (PathBuf, &'static str),
}

impl MemoryGroup {
    /// A new group. The name says its purpose; another process may use the same name.
    pub fn new(name: &str) -> Result<Self> {
        let orders = [
            (V1, "memory.force_empty", "0"),
            // More than there is: the kernel reclaims what it can and returns EAGAIN.
            (V2, "memory.reclaim", "1T swappiness=0"),
        ];
        for (parent, file, order) in orders {
            let dir = Path::new(parent).join(format!("xtask-{name}-{}", std::process::id()));
            if fs::create_dir_all(&dir).is_err() {
                continue;
            }
            let group = Self {
                reclaim: (dir.join(file), order),
                dir,
            };
            if group.reclaim.0.exists() {
                return Ok(group);
            }
        }
        fail!("no memory control group can be made here")
    }

    /// The directory of the group's files.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Moves these processes and their descendants into the group. Memory they touch from now on is counted here.
    pub fn adopt(&self, roots: &[u32]) -> Result<()> {
        let procs = self.dir.join("cgroup.procs");
        for stat in procfs::family(roots) {
            fs::write(&procs, stat.pid.to_string()).during(|| format!("{}", procs.display()))?;
        }
        Ok(())
    }

    /// Reclaims all file pages, mapped or not. Without swap, anonymous memory stays.
    pub fn reclaim(&self) {
        rustix::fs::sync();
        // The kernel reports an error when some pages remain, and some always do.
        let _ = fs::write(&self.reclaim.0, self.reclaim.1);
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        // A process that is still ending keeps the group busy for a moment; an empty group left over does no harm.
        for _ in 0..50 {
            if fs::remove_dir(&self.dir).is_ok() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }
}
