//! Does the kernel say that a block device has a head to move?
//!
//! A hint for the time before anything was measured. Virtual disks mostly say yes, whatever they are. For files there
//! is no hint.
//!
//! Source: Linux, Documentation/ABI/stable/sysfs-block (`queue/rotational`).

use std::fs::{self, File};
use std::os::unix::fs::{FileTypeExt, MetadataExt};

use rustix::fs::{major, minor};

/// Is it a block device with a head, as far as the kernel says? False if unknown.
pub(crate) fn is_rotational(file: &File) -> bool {
    let Ok(about) = file.metadata() else {
        return false;
    };
    if !about.file_type().is_block_device() {
        return false;
    }
    let device = format!(
        "/sys/dev/block/{}:{}",
        major(about.rdev()),
        minor(about.rdev())
    );
    // A partition has no queue of its own: its disk has.
    let places = ["queue", "../queue"].map(|queue| format!("{device}/{queue}/rotational"));
    let said = places.iter().find_map(|path| fs::read_to_string(path).ok());
    said.is_some_and(|said| said.trim() == "1")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_what_is_no_block_device_nothing_is_said() {
        assert!(!is_rotational(&tempfile::tempfile().unwrap()));
        assert!(!is_rotational(&File::open("/dev/null").unwrap()));
    }
}
