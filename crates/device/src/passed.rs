//! Passing an open device from one process to another.
//!
//! The lock of a file and the claim of a disk belong to the open file, not to the process. So both stay in force while the descriptor
//! is passed on, and a third process can never take the device. For the same reason only one of the two processes may unlock the device:
//! the one that uses it last ([`Device::give_away`], [`Device::take_over`]).
//!
//! Not known here: how a descriptor is passed, which process may write when.

use std::fs::File;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use rustix::fs::OFlags;

use crate::buffer::ALIGN_BYTES;
use crate::device::{BLOCK_BYTES_LEAST, Device};
use crate::open_error::OpenError;

/// The facts about a device that its descriptor does not tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Passport {
    /// The path it was opened at.
    pub path: PathBuf,
    /// Usable bytes.
    pub size_bytes: u64,
    /// The unit of writes.
    pub block_bytes: u32,
}

impl Device {
    /// The descriptor and the passport of the device. `None` for a memory device, which cannot be passed on.
    pub fn to_pass_on(&self) -> Option<(BorrowedFd<'_>, Passport)> {
        let fd = self.as_fd()?;
        let passport = Passport {
            path: self.path().to_owned(),
            size_bytes: self.size(),
            block_bytes: self.logical_block_bytes(),
        };
        Some((fd, passport))
    }

    /// A device that another process has opened and locked. The other process unlocks it, unless [`Self::take_over`] is called.
    ///
    /// # Errors
    /// It is neither a file nor a block device, is smaller than the passport says, or the passport's sizes are invalid.
    pub fn passed_on(fd: OwnedFd, passport: Passport) -> Result<Arc<Device>, OpenError> {
        let Passport {
            path,
            size_bytes,
            block_bytes,
        } = passport;
        let file = File::from(fd);
        let fail = |source| OpenError::Open {
            path: path.clone(),
            source,
        };
        let about = file.metadata().map_err(fail)?;
        let kind = about.file_type();
        if !kind.is_file() && !kind.is_block_device() {
            return Err(OpenError::WrongKind { path });
        }
        if kind.is_file() && about.len() < size_bytes {
            let (found, asked) = (about.len(), size_bytes);
            return Err(OpenError::SizeDiffers { path, found, asked });
        }
        let is_aligned = block_bytes.is_power_of_two()
            && (BLOCK_BYTES_LEAST..=ALIGN_BYTES as u32).contains(&block_bytes)
            && size_bytes.is_multiple_of(ALIGN_BYTES as u64);
        if !is_aligned || size_bytes == 0 {
            return Err(OpenError::TooShort {
                path,
                found: size_bytes,
            });
        }
        let flags = rustix::fs::fcntl_getfl(&file).map_err(|error| fail(error.into()))?;
        let direct = flags.contains(OFlags::DIRECT);
        let device = Device::file(file, path, size_bytes, direct, block_bytes);
        device.give_away();
        Ok(device)
    }

    /// From now on another process unlocks it.
    pub fn give_away(&self) {
        self.is_lent.store(true, Ordering::SeqCst);
    }

    /// From now on this process unlocks it.
    pub fn take_over(&self) {
        self.is_lent.store(false, Ordering::SeqCst);
    }

    /// Was it opened at this path?
    pub fn is_at(&self, path: &Path) -> bool {
        self.path() == path
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Access, OpenOptions};

    fn open(path: &Path) -> Result<Arc<Device>, OpenError> {
        let options = OpenOptions {
            size_bytes: Some(1 << 20),
            create: true,
            access: Access::Exclusive,
            ..OpenOptions::default()
        };
        Device::open(path, options).map(|opened| opened.device)
    }

    fn is_locked(path: &Path) -> bool {
        let file = File::open(path).unwrap();
        let lock = rustix::fs::FlockOperation::NonBlockingLockExclusive;
        rustix::fs::flock(&file, lock).is_err()
    }

    fn passed(device: &Device) -> Arc<Device> {
        let (fd, passport) = device.to_pass_on().unwrap();
        Device::passed_on(fd.try_clone_to_owned().unwrap(), passport).unwrap()
    }

    #[test]
    fn the_lock_stays_with_whoever_has_the_device() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("store");
        let old = open(&path).unwrap();
        old.write_all_sync(4096, b"squid").unwrap();
        // One that has not taken it over leaves it locked.
        drop(passed(&old));
        assert!(is_locked(&path), "it is still the first one's");
        let new = passed(&old);
        old.give_away();
        new.take_over();
        drop(old);
        assert!(is_locked(&path), "it is the second one's");
        let mut bytes = [0; 5];
        new.read_exact_sync(4096, &mut bytes).unwrap();
        assert_eq!(&bytes, b"squid");
        assert_eq!((new.size(), new.path()), (1 << 20, &*path));
        drop(new);
        assert!(!is_locked(&path));
    }

    #[test]
    fn what_is_not_the_device_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let device = open(&dir.path().join("store")).unwrap();
        let refused = |fd: OwnedFd, change: &dyn Fn(&mut Passport)| {
            let (_, mut passport) = device.to_pass_on().unwrap();
            change(&mut passport);
            Device::passed_on(fd, passport).unwrap_err()
        };
        let own = || device.to_pass_on().unwrap().0.try_clone_to_owned().unwrap();
        let null = OwnedFd::from(File::open("/dev/null").unwrap());
        assert!(matches!(
            refused(null, &|_| ()),
            OpenError::WrongKind { .. }
        ));
        let longer = refused(own(), &|passport| passport.size_bytes *= 2);
        assert!(matches!(longer, OpenError::SizeDiffers { .. }));
        let odd = refused(own(), &|passport| passport.block_bytes = 513);
        assert!(matches!(odd, OpenError::TooShort { .. }));
    }
}
