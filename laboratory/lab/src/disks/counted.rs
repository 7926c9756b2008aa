//! The kernel's counters of a real device: requests after merging, from all processes.
//!
//! Not known here: the process that asks. Other work on the same device is counted too.   Limits: no counters without a device (tmpfs).

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

/// The kernel's counters of a device (Documentation/block/stat.rst).
#[derive(Debug, Clone, Copy)]
pub struct DeviceStat {
    /// Requests that read.
    pub reads: u64,
    /// Requests that wrote.
    pub writes: u64,
    /// Sectors of 512 bytes that these wrote.
    pub write_sectors: u64,
}

impl DeviceStat {
    /// The counters of the device at `path`, or of the one that holds `path`. `None` without a device.
    pub fn of(path: &Path) -> Option<DeviceStat> {
        let stat = rustix::fs::stat(path).ok()?;
        let is_device =
            rustix::fs::FileType::from_raw_mode(stat.st_mode) == rustix::fs::FileType::BlockDevice;
        let device = if is_device { stat.st_rdev } else { stat.st_dev };
        let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
        let mut text = String::new();
        File::open(format!("/sys/dev/block/{major}:{minor}/stat"))
            .ok()?
            .read_to_string(&mut text)
            .ok()?;
        let n: Vec<u64> = text
            .split_whitespace()
            .filter_map(|w| w.parse().ok())
            .collect();
        Some(DeviceStat {
            reads: *n.first()?,
            writes: *n.get(4)?,
            write_sectors: *n.get(6)?,
        })
    }
}
