//! Which files may be submitted to directly: those whose transfers are not carried out within the call that submits them.
//!
//! io_uring first tries a transfer within `io_uring_enter`, on the promise that this does not wait. FUSE and some
//! network file systems do not keep it, and nothing tells which. So it is a list of those that are known to; all others
//! get threads of the kernel, at a few microseconds a transfer.

use std::fs::File;
use std::os::unix::fs::FileTypeExt;

/// `statfs` names of file systems that do not wait (linux/magic.h).
const PROMPT: &[u32] = &[
    0xef53,      // ext2, ext3, ext4
    0x5846_5342, // xfs
    0x9123_683e, // btrfs
    0xf2f5_2010, // f2fs
    0xca45_1a4e, // bcachefs
    0x0102_1994, // tmpfs
    0x794c_7630, // overlayfs: as what lies under it, mostly one of these
];

/// Does it take a submission at once, as far as is known?
pub(crate) fn is_prompt(file: &File) -> bool {
    let is_disk = file
        .metadata()
        .is_ok_and(|found| found.file_type().is_block_device());
    // The width of the number differs between machines; the names fit 32 bits.
    is_disk || rustix::fs::fstatfs(file).is_ok_and(|fs| PROMPT.contains(&(fs.f_type as u32)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_known_to_be_prompt_is_not() {
        assert!(!is_prompt(&File::open("/proc/self/status").unwrap()));
    }
}
