//! A member's own disk: a loop device with ext4 for its store and its journal, which can be made to answer nothing.
//!
//! What hangs is the device, below the file system, as when a cable of a real disk is bad: reads, writes and flushes that
//! have begun do not end, neither well nor with an error.
//!
//! Not known here: members.   Limits: needs root, `losetup`, and the block controller of cgroup v1.

use std::fs;
use std::path::{Path, PathBuf};

use crate::block::{self, Limited, Loop, Mounted};
use crate::failure::{During, Result};
use crate::size::Bytes;

/// For the file system and the journal, beside the store.
const BESIDE: u64 = 64 << 20;
/// How the file under a disk is called, beside its directory.
const IMAGE: &str = "image";
/// And its directory.
const DIR: &str = "disk";

/// One, mounted; dropping it unmounts and removes it.
#[derive(Debug)]
pub struct Disk {
    // In this order.
    _mounted: Mounted,
    device: Loop,
}

impl Disk {
    /// Where the disk of a member of this name is mounted.
    pub fn dir(home: &Path, name: &str) -> PathBuf {
        home.join(format!("{name}.{DIR}"))
    }

    /// A new one with room for a store of this size.
    pub fn make(home: &Path, name: &str, store: Bytes) -> Result<Self> {
        let image = home.join(format!("{name}.{IMAGE}"));
        let device = Loop::attach(&image, Bytes(store.0 + BESIDE))?;
        let mounted = Mounted::fresh(&device.device, &Self::dir(home, name))?;
        Ok(Self {
            _mounted: mounted,
            device,
        })
    }

    /// From now on it answers nothing, until the guard is dropped; then it answers all that waited.
    pub fn hang(&self) -> Result<Limited> {
        self.device.hang()
    }

    /// Removes the disks below `home` that a process left behind which is no more.
    pub fn forget(home: &Path) -> Result<()> {
        let files = fs::read_dir(home).during(|| format!("looking into {}", home.display()))?;
        let files: Vec<PathBuf> = files.flatten().map(|file| file.path()).collect();
        let is_of = |file: &&PathBuf, end: &str| file.extension().is_some_and(|it| it == end);
        // A device that hangs would not let go, so all are let run and detached; the kernel does that when they are unmounted.
        for image in files.iter().filter(|file| is_of(file, IMAGE)) {
            block::detach_all(image)?;
        }
        for dir in files.iter().filter(|file| is_of(file, DIR)) {
            // It may not be mounted.
            let _ = block::unmount(dir);
        }
        Ok(())
    }
}
