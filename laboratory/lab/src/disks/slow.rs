//! A slow disk of today: a loop device over a file, limited to a number of operations a second, with or without a file system.
//!
//! Needs root, `losetup`, `mkfs.ext4`, and the block controller of cgroup v1. Dropping it unmounts the file system, removes
//! the limit, detaches the device and removes the file.
//!
//! Not known here: what is measured.   Limits: the throttle counts requests, not seeks: near and far ones cost the same.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

const THROTTLES: [&str; 2] = [
    "/sys/fs/cgroup/blkio/blkio.throttle.read_iops_device",
    "/sys/fs/cgroup/blkio/blkio.throttle.write_iops_device",
];

/// The device, and the steps that `drop` has to undo.
#[derive(Debug)]
pub struct Slow {
    /// The loop device.
    pub device: PathBuf,
    /// Where its file system is mounted.
    pub mounted: Option<PathBuf>,
    file: PathBuf,
    number: Option<String>,
}

fn tool(program: &str, args: &[&str]) -> io::Result<String> {
    let output = Command::new(program).args(args).output().map_err(|e| {
        io::Error::new(
            e.kind(),
            format!("{program}: {e}; is it installed, and are you root?"),
        )
    })?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(io::Error::other(format!(
            "{program} {}: {}",
            args.join(" "),
            said.trim()
        )));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

impl Slow {
    /// Makes a file of this size in `dir` and a device over it, if wanted with a mounted ext4, and limits it to
    /// `iops` reads and as many writes a second from then on; 0: no limit.
    pub fn make(dir: &Path, bytes: u64, iops: u32, file_system: bool) -> io::Result<Slow> {
        let file = dir.join(format!("loligo-lab-{}.disk", std::process::id()));
        let made = fs::File::create_new(&file)?;
        let mut slow = Slow {
            device: PathBuf::new(),
            mounted: None,
            file,
            number: None,
        };
        rustix::fs::fallocate(&made, rustix::fs::FallocateFlags::empty(), 0, bytes)?;
        let path = slow.file.to_string_lossy().into_owned();
        let device = tool("losetup", &["--find", "--show", "--direct-io=on", &path])?;
        slow.device = PathBuf::from(&device);
        if file_system {
            tool(
                "mkfs.ext4",
                &["-q", "-F", "-E", "lazy_itable_init=0", &device],
            )?;
            let at = slow.file.with_extension("mount");
            fs::create_dir(&at)?;
            tool("mount", &["-o", "noatime", &device, &at.to_string_lossy()])?;
            slow.mounted = Some(at);
        }
        if iops > 0 {
            let number = fs::metadata(&slow.device)?.rdev();
            let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
            slow.number = Some(format!("{major}:{minor}"));
            slow.throttle(iops)?;
        }
        Ok(slow)
    }

    fn throttle(&self, iops: u32) -> io::Result<()> {
        let Some(number) = &self.number else {
            return Ok(());
        };
        for path in THROTTLES {
            fs::write(path, format!("{number} {iops}")).map_err(|e| {
                let message = format!("{path}: {e}; the throttle needs cgroup v1 and root");
                io::Error::new(e.kind(), message)
            })?;
        }
        Ok(())
    }
}

impl Drop for Slow {
    fn drop(&mut self) {
        let complain = |what: io::Result<String>| {
            if let Err(e) = what {
                eprintln!("loligo: {e}");
            }
        };
        let _ = self.throttle(0);
        if let Some(at) = &self.mounted {
            complain(tool("umount", &[&at.to_string_lossy()]));
            let _ = fs::remove_dir(at);
        }
        if self.device != PathBuf::new() {
            complain(tool(
                "losetup",
                &["--detach", &self.device.to_string_lossy()],
            ));
        }
        let _ = fs::remove_file(&self.file);
    }
}
