//! A member's own disk: a loop device with ext4 for its store and its journal, which can be made to hang.
//!
//! The device hangs, below the file system, as with a bad cable of a real disk: reads, writes and flushes that
//! have begun do not end, neither with success nor with an error.
//!
//! Not known here: members.   Limits: needs root, `losetup`, and the block controller of cgroup v1.

use std::fs;
use std::path::{Path, PathBuf};

use crate::block::{self, Limited, Loop, Mounted};
use crate::failure::{During, Result};
use crate::size::Bytes;

/// Space for the file system and the journal, in addition to the store.
const BESIDE: u64 = 64 << 20;
/// Ending of the file under a disk.
const IMAGE: &str = "image";
/// Ending of the directory on which a disk is mounted.
const DIR: &str = "disk";

/// A mounted disk; dropping it unmounts and removes it.
#[derive(Debug)]
pub struct Disk {
    // In this order: unmount before the device is detached.
    _mounted: Mounted,
    device: Loop,
}

impl Disk {
    /// Where the disk of a member of this name is mounted.
    pub fn dir(home: &Path, name: &str) -> PathBuf {
        home.join(format!("{name}.{DIR}"))
    }

    /// Makes a disk with room for a store of this size.
    pub fn make(home: &Path, name: &str, store: Bytes) -> Result<Self> {
        let image = home.join(format!("{name}.{IMAGE}"));
        let device = Loop::attach(&image, Bytes(store.0 + BESIDE))?;
        let mounted = Mounted::fresh(&device.device, &Self::dir(home, name))?;
        Ok(Self {
            _mounted: mounted,
            device,
        })
    }

    /// Stops all answers until the guard is dropped; then all waiting operations are answered.
    pub fn hang(&self) -> Result<Limited> {
        self.device.hang()
    }

    /// Removes disks below `home` that were left behind by a process that has ended.
    pub fn forget(home: &Path) -> Result<()> {
        let files = fs::read_dir(home).during(|| format!("looking into {}", home.display()))?;
        let files: Vec<PathBuf> = files.flatten().map(|file| file.path()).collect();
        let is_of = |file: &&PathBuf, end: &str| file.extension().is_some_and(|it| it == end);
        // A hanging device cannot be unmounted, so first remove its limit. A detached device goes away when it is unmounted.
        for image in files.iter().filter(|file| is_of(file, IMAGE)) {
            block::detach_all(image)?;
        }
        for dir in files.iter().filter(|file| is_of(file, DIR)) {
            // The disk may not be mounted.
            let _ = block::unmount(dir);
        }
        Ok(())
    }
}
