//! Bytes that processes exchanged with block devices, as counted in `/proc/PID/io`.
//!
//! A write counts when a page becomes dirty, or when a direct write is submitted. `cancelled` counts dirty pages that were dropped
//! before they were written. A read counts if the page cache did not have the data. File systems in memory count nothing.
//!
//! Limits: a process that ended between two readings is not counted, nor one that is no longer a descendant.   Source: proc(5).

use std::fs;

use serde::{Deserialize, Serialize};

/// Bytes so far, or between two readings.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceBytes {
    /// Bytes read from devices.
    pub read: u64,
    /// Bytes written to devices, without cancelled ones.
    pub written: u64,
}

impl DeviceBytes {
    /// The counts of these processes and all their descendants.
    ///
    /// # Errors
    /// If one of the given processes does not exist, or may not be read.
    pub fn of(roots: &[u32]) -> Result<Self, String> {
        let mut sum = Self::default();
        for pid in family(roots) {
            match Self::of_one(pid) {
                Ok(one) => {
                    sum.read += one.read;
                    sum.written += one.written;
                }
                Err(why) if roots.contains(&pid) => return Err(why),
                // A descendant may have ended just now.
                Err(_) => {}
            }
        }
        Ok(sum)
    }

    fn of_one(pid: u32) -> Result<Self, String> {
        let path = format!("/proc/{pid}/io");
        let text = fs::read_to_string(&path).map_err(|e| match e.kind() {
            std::io::ErrorKind::NotFound => format!("--pid {pid}: there is no such process"),
            _ => format!("{path}: {e}; only root and the user of the process may read it"),
        })?;
        Self::parse(&text).ok_or_else(|| format!("{path} has an unknown form"))
    }

    fn parse(text: &str) -> Option<Self> {
        let field = |name: &str| {
            let mut lines = text.lines().filter_map(|line| line.strip_prefix(name));
            lines.next()?.strip_prefix(": ")?.trim().parse::<u64>().ok()
        };
        let written = field("write_bytes")?.saturating_sub(field("cancelled_write_bytes")?);
        Some(Self {
            read: field("read_bytes")?,
            written,
        })
    }

    /// The bytes since `then`; 0 if the counts fell because a process ended.
    pub fn since(&self, then: &Self) -> Self {
        Self {
            read: self.read.saturating_sub(then.read),
            written: self.written.saturating_sub(then.written),
        }
    }
}

/// These processes and all their descendants.
fn family(roots: &[u32]) -> Vec<u32> {
    let pids = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let all: Vec<(u32, u32)> = pids.filter_map(|pid| Some((pid, parent(pid)?))).collect();
    let mut found = roots.to_vec();
    let mut next = 0;
    while next < found.len() {
        let children = all.iter().filter(|(_, parent)| *parent == found[next]);
        let new: Vec<u32> = children
            .map(|(pid, _)| *pid)
            .filter(|pid| !found.contains(pid))
            .collect();
        found.extend(new);
        next += 1;
    }
    found
}

/// The command may hold spaces and parentheses, so fields are counted from the last ')'.
fn parent(pid: u32) -> Option<u32> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    text.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_cancelled_was_not_written() {
        let text = "rchar: 1\nwchar: 2\nsyscr: 3\nsyscw: 4\nread_bytes: 4096\nwrite_bytes: 8192\ncancelled_write_bytes: 4096\n";
        let expected = DeviceBytes {
            read: 4096,
            written: 4096,
        };
        assert_eq!(DeviceBytes::parse(text), Some(expected));
        assert_eq!(DeviceBytes::parse("rchar: 1\n"), None);
    }

    #[test]
    fn a_family_has_its_children_and_nobody_is_an_error() {
        let sleep = std::process::Command::new("sleep").arg("60").spawn();
        let mut child = sleep.unwrap();
        let family = family(&[std::process::id()]);
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(family.contains(&child.id()));
        let why = DeviceBytes::of(&[child.id()]).unwrap_err();
        assert!(why.contains("no such process"), "{why}");
    }
}
