//! Block devices: the kernel's counters of them, and a device made from a file for a bench.
//!
//! `/sys/dev/block/<major>:<minor>/stat` counts requests as the device sees them, after merging, from any system call or
//! io_uring operation. A [`Loop`] is a device of our own, so that requests of other programs are not counted.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::failure::{During, Failure, Result, fail};
use crate::size::Bytes;

/// The kernel's counters have this unit, for devices of any sector size (Documentation/block/stat.rst).
const SECTOR_BYTES: u64 = 512;

/// Requests and bytes so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DeviceStat {
    pub reads: u64,
    pub read_bytes: u64,
    pub writes: u64,
    pub write_bytes: u64,
}

impl DeviceStat {
    /// The device that holds a file, or the device itself if the path is one. `None` without a device (tmpfs, overlayfs).
    pub fn of(path: &Path) -> Option<Self> {
        let meta = fs::metadata(path).ok()?;
        let device = if meta.file_type().is_block_device() {
            meta.rdev()
        } else {
            meta.dev()
        };
        let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
        let text = fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/stat")).ok()?;
        Self::parse(&text)
    }

    fn parse(text: &str) -> Option<Self> {
        let n: Vec<u64> = text
            .split_whitespace()
            .map(|word| word.parse().ok())
            .collect::<Option<_>>()?;
        Some(Self {
            reads: *n.first()?,
            read_bytes: *n.get(2)? * SECTOR_BYTES,
            writes: *n.get(4)?,
            write_bytes: *n.get(6)? * SECTOR_BYTES,
        })
    }

    /// The difference to `before`.
    pub fn since(&self, before: &Self) -> Self {
        Self {
            reads: self.reads.saturating_sub(before.reads),
            read_bytes: self.read_bytes.saturating_sub(before.read_bytes),
            writes: self.writes.saturating_sub(before.writes),
            write_bytes: self.write_bytes.saturating_sub(before.write_bytes),
        }
    }
}

/// Writes back and drops all cached pages. False if that is not allowed; the caller then prints the reason.
pub fn drop_page_cache() -> bool {
    rustix::fs::sync();
    fs::write("/proc/sys/vm/drop_caches", "3").is_ok()
}

/// Writes back everything, so that the device's counters are complete.
pub fn sync_all() {
    rustix::fs::sync();
}

/// Runs a system tool; its error output is part of the error.
pub fn tool(program: &str, args: &[&str]) -> Result<String> {
    let path = crate::workspace::program(program)
        .ok_or_else(|| Failure::new(format!("{program} is not installed")))?;
    let output = Command::new(path)
        .args(args)
        .output()
        .during(|| format!("running {program}"))?;
    if !output.status.success() {
        let complaint = String::from_utf8_lossy(&output.stderr);
        fail!("{program} {}: {}", args.join(" "), complaint.trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// The root group of the block I/O controller (cgroup v1), which takes limits. Write-back runs in the root group, and so do direct
/// transfers of programs that are in no other group.
const LIMITS: &str = "/sys/fs/cgroup/blkio";
/// Limits operations: the device crawls.
const CRAWL: Limit = Limit {
    files: [
        "blkio.throttle.read_iops_device",
        "blkio.throttle.write_iops_device",
    ],
    value: 1,
};
/// Limits bytes: the device hangs, since the first operation would take an hour.
const HANG: Limit = Limit {
    files: [
        "blkio.throttle.read_bps_device",
        "blkio.throttle.write_bps_device",
    ],
    value: 1,
};

/// A limit: the controller's files, and the value for them.
#[derive(Debug, Clone, Copy)]
struct Limit {
    files: [&'static str; 2],
    value: u32,
}

/// A device that crawls or hangs; dropping this removes the limit.
#[derive(Debug)]
pub struct Limited {
    /// The kernel's name of the device: "7:3".
    number: String,
    files: [&'static str; 2],
}

impl Limited {
    fn by(device: &Path, limit: Limit) -> Result<Self> {
        let meta = fs::metadata(device).during(|| format!("looking at {}", device.display()))?;
        let (major, minor) = (
            rustix::fs::major(meta.rdev()),
            rustix::fs::minor(meta.rdev()),
        );
        let limited = Self {
            number: format!("{major}:{minor}"),
            files: limit.files,
        };
        limited.set(limit.value)?;
        Ok(limited)
    }

    fn set(&self, value: u32) -> Result<()> {
        for file in self.files {
            let path = Path::new(LIMITS).join(file);
            fs::write(&path, format!("{} {value}", self.number))
                .during(|| format!("{}", path.display()))?;
        }
        Ok(())
    }
}

impl Drop for Limited {
    fn drop(&mut self) {
        // 0 means no limit.
        if let Err(failure) = self.set(0) {
            eprintln!("{failure}");
        }
    }
}

/// A loop device over a file of its own; dropping it detaches the device and removes the file.
#[derive(Debug)]
pub struct Loop {
    pub device: PathBuf,
    file: PathBuf,
}

impl Loop {
    /// Makes `file` (it must not exist) and a device over it, with direct I/O to it.
    pub fn attach(file: &Path, size: Bytes) -> Result<Self> {
        let made = fs::File::create_new(file).during(|| format!("making {}", file.display()))?;
        let sized = made
            .set_len(size.0)
            .during(|| format!("sizing {}", file.display()))
            // Allocate now: otherwise the file system below would allocate during the store's writes.
            .and_then(|()| {
                rustix::fs::fallocate(&made, rustix::fs::FallocateFlags::empty(), 0, size.0)
                    .during(|| format!("allocating {}", file.display()))
            });
        let path = file.to_string_lossy();
        let device =
            sized.and_then(|()| tool("losetup", &["--find", "--show", "--direct-io=on", &path]));
        match device {
            Ok(device) => Ok(Self {
                device: PathBuf::from(device),
                file: file.to_path_buf(),
            }),
            Err(failure) => {
                let _ = fs::remove_file(file);
                Err(failure)
            }
        }
    }

    /// Whether devices can be made and limited here; the error says why not.
    pub fn can_be_limited() -> Result<()> {
        if !rustix::process::geteuid().is_root() {
            fail!("a loop device needs root");
        }
        if crate::workspace::program("losetup").is_none() {
            fail!("losetup is not installed");
        }
        match Path::new(LIMITS).join(HANG.files[0]).exists() {
            true => Ok(()),
            false => fail!("the block I/O controller (cgroup v1) is not at {LIMITS}"),
        }
    }

    /// Limits the device to one operation a second, until the guard is dropped.
    pub fn crawl(&self) -> Result<Limited> {
        Limited::by(&self.device, CRAWL)
    }

    /// Stops all answers of the device until the guard is dropped; then it answers all waiting operations.
    pub fn hang(&self) -> Result<Limited> {
        Limited::by(&self.device, HANG)
    }
}

/// Detaches the devices over a file, left behind by a process that has ended, and removes their limits.
pub fn detach_all(file: &Path) -> Result<()> {
    let listed = tool(
        "losetup",
        &[
            "--noheadings",
            "--output",
            "NAME",
            "--associated",
            &file.to_string_lossy(),
        ],
    )?;
    for device in listed.lines().map(str::trim).filter(|it| !it.is_empty()) {
        for limit in [CRAWL, HANG] {
            // Dropping the guard removes the limit.
            drop(Limited::by(Path::new(device), limit));
        }
        tool("losetup", &["--detach", device])?;
    }
    Ok(())
}

impl Drop for Loop {
    fn drop(&mut self) {
        if let Err(failure) = tool("losetup", &["--detach", &self.device.to_string_lossy()]) {
            eprintln!("{failure}");
        }
        if let Err(e) = fs::remove_file(&self.file) {
            eprintln!("removing {}: {e}", self.file.display());
        }
    }
}

/// A freshly made ext4 on a device, mounted; dropping it unmounts.
#[derive(Debug)]
pub struct Mounted {
    pub dir: PathBuf,
}

impl Mounted {
    /// Formats the device (its contents are lost) and mounts it on `dir`.
    pub fn fresh(device: &Path, dir: &Path) -> Result<Self> {
        Self::made(device, dir, &[])
    }

    /// As [`Mounted::fresh`], without a journal.
    pub fn without_journal(device: &Path, dir: &Path) -> Result<Self> {
        Self::made(device, dir, &["-O", "^has_journal"])
    }

    fn made(device: &Path, dir: &Path, options: &[&str]) -> Result<Self> {
        let device = device.to_string_lossy();
        let always = ["-q", "-F", "-E", "lazy_itable_init=0"];
        let args: Vec<&str> = always
            .into_iter()
            .chain(options.iter().copied())
            .chain([&*device])
            .collect();
        tool("mkfs.ext4", &args)?;
        fs::create_dir_all(dir).during(|| format!("making {}", dir.display()))?;
        tool("mount", &["-o", "noatime", &device, &dir.to_string_lossy()])?;
        Ok(Self {
            dir: dir.to_path_buf(),
        })
    }

    /// Leaves the device mounted after the drop; [`unmount`] undoes it later.
    pub fn keep(self) -> PathBuf {
        let dir = self.dir.clone();
        std::mem::forget(self);
        dir
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if let Err(failure) = unmount(&self.dir) {
            eprintln!("{failure}");
        }
    }
}

/// Unmounts a directory.
pub fn unmount(dir: &Path) -> Result<()> {
    tool("umount", &[&dir.to_string_lossy()]).map(|_| ())
}

/// Refuses a path that is not a block device, is in use, or is not empty (unless `overwrite`).
pub fn check_expendable(device: &Path, overwrite: bool) -> Result<()> {
    let shown = device.display();
    let meta = fs::metadata(device).during(|| format!("looking at {shown}"))?;
    if !meta.file_type().is_block_device() {
        fail!("{shown} is not a block device");
    }
    let real = device
        .canonicalize()
        .during(|| format!("looking at {shown}"))?;
    let mounts = fs::read_to_string("/proc/self/mounts").during(|| "reading mounts".into())?;
    if mounts
        .lines()
        .any(|line| line.split(' ').next() == Some(&real.to_string_lossy()))
    {
        fail!("{shown} is mounted");
    }
    let signature = tool("blkid", &["-p", &real.to_string_lossy()]).unwrap_or_default();
    if !signature.is_empty() && !overwrite {
        fail!("{shown} holds something ({signature}); --overwrite uses it all the same");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_sectors_are_512_bytes() {
        let stat = DeviceStat::parse(" 10 0 16 1 20 3 40 5 0 0 0\n").unwrap();
        assert_eq!(
            stat,
            DeviceStat {
                reads: 10,
                read_bytes: 8192,
                writes: 20,
                write_bytes: 20_480
            }
        );
        assert_eq!(stat.since(&stat), DeviceStat::default());
        assert_eq!(DeviceStat::parse("1 2"), None);
    }

    #[test]
    fn a_file_is_not_expendable() {
        let file = tempfile::NamedTempFile::new().unwrap();
        assert!(check_expendable(file.path(), true).is_err());
    }
}
