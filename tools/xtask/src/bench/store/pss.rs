//! Memory of a family of processes, each page counted once.
//!
//! Servers that fork share pages, and a sum of resident sizes counts these again for each process. The kernel's
//! *proportional* size divides a page by the number of processes that have it, so that the sum over a family is the family's memory
//! (`/proc/<pid>/smaps_rollup`, Documentation/filesystems/proc.rst). Three kinds are kept apart:
//!
//! * *anonymous*: the heap and stacks; the kernel cannot reclaim them without swap.
//! * *shared*: shared anonymous memory and files under `/dev/shm`: the zone of nginx, Squid's maps; cannot be reclaimed without swap either.
//! * *mapped*: pages of files: programs, libraries and Varnish's storage. The kernel may drop them at any time.
//!
//! Not known here: the kernel's own memory for the files of a cache (inodes, names), and the page cache.

use std::fs;

use serde::Serialize;

use crate::failure::{Result, fail};
use crate::procfs;

/// Bytes of each kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub(super) struct Memory {
    pub anonymous: u64,
    pub shared: u64,
    pub mapped: u64,
}

impl Memory {
    /// The memory of these processes and all their descendants. A process that ends meanwhile is left out.
    pub fn of(roots: &[u32]) -> Result<Self> {
        let mut sum = Self::default();
        let mut seen = 0;
        for stat in procfs::family(roots) {
            let Ok(text) = fs::read_to_string(format!("/proc/{}/smaps_rollup", stat.pid)) else {
                continue;
            };
            // A kernel thread or a process that has just ended has none of the lines.
            let Some(one) = Self::parse(&text) else {
                continue;
            };
            seen += 1;
            sum.anonymous += one.anonymous;
            sum.shared += one.shared;
            sum.mapped += one.mapped;
        }
        if seen == 0 {
            fail!("no /proc/<pid>/smaps_rollup with kinds of memory can be read");
        }
        Ok(sum)
    }

    fn parse(text: &str) -> Option<Self> {
        let field = |name: &str| {
            let line = text.lines().find_map(|l| l.strip_prefix(name))?;
            let kib = line.trim().strip_suffix(" kB")?.trim();
            Some(kib.parse::<u64>().ok()? << 10)
        };
        Some(Self {
            anonymous: field("Pss_Anon:")?,
            shared: field("Pss_Shmem:")?,
            mapped: field("Pss_File:")?,
        })
    }

    /// The bytes that the kernel cannot reclaim.
    pub fn held(&self) -> u64 {
        self.anonymous + self.shared
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_read_and_kept_apart() {
        let text = "5581-7ffc ---p 00000000 00:00 0    [rollup]\nRss:    1740 kB\nPss:     253 kB\n\
                    Pss_Dirty:    112 kB\nPss_Anon:     112 kB\nPss_File:     141 kB\nPss_Shmem:      3 kB\n";
        let memory = Memory::parse(text).unwrap();
        assert_eq!(
            memory,
            Memory {
                anonymous: 112 << 10,
                shared: 3 << 10,
                mapped: 141 << 10
            }
        );
        assert_eq!(memory.held(), 115 << 10);
        assert_eq!(Memory::parse("Rss: 4 kB\n"), None, "an old kernel");
    }

    #[test]
    fn our_own_is_found() {
        assert!(Memory::of(&[std::process::id()]).unwrap().anonymous > 0);
        assert!(Memory::of(&[]).is_err());
    }
}
