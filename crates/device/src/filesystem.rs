//! The file systems that accept a submission without carrying out the transfer in the submitting call.
//!
//! io_uring first tries a transfer within `io_uring_enter`, where the file system has promised not to block. FUSE and
//! some network file systems break that promise, and the kernel does not say which. So this is a list of file systems
//! known to keep it. All others use threads of the kernel, which costs a few microseconds a transfer.

use std::fs::File;
use std::os::unix::fs::FileTypeExt;

/// `statfs` names of file systems that do not block (linux/magic.h).
const PROMPT: &[u32] = &[
    0xef53,      // ext2, ext3, ext4
    0x5846_5342, // xfs
    0x9123_683e, // btrfs
    0xf2f5_2010, // f2fs
    0xca45_1a4e, // bcachefs
    0x0102_1994, // tmpfs
    0x794c_7630, // overlayfs: behaves as the file system under it, mostly one of these
];

/// Is the file system known to accept a submission without blocking?
pub(crate) fn is_prompt(file: &File) -> bool {
    let is_disk = file
        .metadata()
        .is_ok_and(|found| found.file_type().is_block_device());
    // The type of the number differs between machines; the values fit 32 bits.
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
