//! Opening a path as a locked, preallocated device of known alignment.
//!
//! The order matters. A file is created, then locked, then inspected, and only then preallocated. Of two processes
//! that start together one is refused, and foreign data stays untouched. Every opening claims the space with
//! `fallocate`, because a file may have become sparse, by a copy for example, and would run out of space while the
//! proxy serves. Last, a flag on the open file bypasses the page cache, and one read tests it: file systems refuse
//! that flag at different points.
//!
//! A killed process keeps its locks until the kernel has finished its disk operations. A lock is therefore tried for
//! about five seconds before it counts as refused.
//!
//! A disk is also claimed (O_EXCL). The kernel then refuses to mount it, and refuses us if the disk or one of its
//! partitions is mounted or part of an array. The lock keeps away our own readers, and udev, which would otherwise
//! probe the disk each time it is closed. A disk with unused partitions, or with a foreign signature (`signature`),
//! is refused too unless forced.
//!
//! Not known here: our own format. An existing file without a foreign signature is opened with its content.
//!
//! Limits: no resizing; a file's size is fixed when it is created. A reader does not claim a disk, so it can open one
//! that is mounted or open under another name.
//!
//! Sources: open(2) on O_EXCL of block devices; systemd's "Locking Block Device Access".

use std::fs::{File, Permissions};
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use rustix::fs::{AtFlags, FallocateFlags, FlockOperation, OFlags, StatxFlags};
use rustix::io::Errno;

use crate::buffer::{ALIGN_BYTES, AlignedBuf};
use crate::device::{BLOCK_BYTES_LEAST, Device};
use crate::holders::{self, Holder, Number};
use crate::open_error::OpenError;
use crate::signature::{self, SPAN_BYTES};

/// The blocks of zeros that are written where `fallocate` is not supported.
const ZEROS_BYTES: usize = 1 << 20;

/// How often, and at what interval, a lock is tried. A killed process holds its lock until its disk operations are
/// done.
const LOCK_TRIES: u32 = 250;
const LOCK_PAUSE: Duration = Duration::from_millis(20);

/// How to open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenOptions {
    /// The size in bytes. Required for a new file; else `None` or the actual size. A block device may be used in
    /// part.
    pub size_bytes: Option<u64>,
    /// Create the file if it does not exist. Only for writing.
    pub create: bool,
    /// Bypass the page cache (O_DIRECT) where the file system can.
    pub direct: bool,
    /// Open it in spite of foreign signatures or partitions. A device that is in use is refused in any case.
    pub force: bool,
    /// For reading and writing, or for reading only.
    pub access: Access,
}

/// How the device will be used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Access {
    /// This process alone reads and writes.
    #[default]
    Exclusive,
    /// Reading, together with other readers. Refused while a writer has the device; every write fails.
    ReadOnly,
}

/// The opened device, and what the log should say about it.
#[derive(Debug)]
pub struct Opened {
    /// The device.
    pub device: Arc<Device>,
    /// It is new: all zeros.
    pub created: bool,
    /// Why the page cache could not be bypassed, if that was asked for.
    pub buffered_because: Option<io::Error>,
}

impl Device {
    /// Opens a regular file (and creates it if asked to) or a block device, and locks it for this process.
    ///
    /// Blocking: up to about five seconds if another process holds it. Without `fallocate` a new file is written full of
    /// zeros, which takes long.
    pub fn open(path: &Path, options: OpenOptions) -> Result<Opened, OpenError> {
        let fail = |source: io::Error| OpenError::Open {
            path: path.to_owned(),
            source,
        };
        let (file, created) = open_file(path, &options)?;
        lock(&file, path, options.access)?;
        let kind = file.metadata().map_err(fail)?.file_type();
        if !options.force && (kind.is_block_device() || kind.is_file()) {
            refuse_what_is_not_ours(&file, path)?;
        }
        let (size, fresh) = if kind.is_block_device() {
            (block_device_size(&file, path, options.size_bytes)?, false)
        } else if kind.is_file() {
            file_size(&file, path, &options, created).inspect_err(|_| {
                // Remove a new file whose space could not be allocated, or the next start would take it for a store.
                if created {
                    let _ = std::fs::remove_file(path);
                }
            })?
        } else {
            return Err(OpenError::WrongKind {
                path: path.to_owned(),
            });
        };
        let found = size;
        let size = size - size % ALIGN_BYTES as u64;
        if size == 0 {
            return Err(OpenError::TooShort {
                path: path.to_owned(),
                found,
            });
        }
        if kind.is_file() && options.access == Access::Exclusive {
            keep_private(&file, path, fresh);
        }
        let direct = if options.direct {
            Some(go_direct(&file))
        } else {
            None
        };
        let (block_bytes, direct, buffered_because) = match direct {
            Some(Ok(block_bytes)) => (block_bytes, true, None),
            Some(Err(error)) => (BLOCK_BYTES_LEAST, false, Some(error)),
            None => (BLOCK_BYTES_LEAST, false, None),
        };
        let device = Device::file(file, path.to_owned(), size, direct, block_bytes);
        Ok(Opened {
            device,
            created: fresh,
            buffered_because,
        })
    }
}

/// A cache holds private data. An empty file made in advance gets the same permissions as a file created here. The
/// permissions of a file with content are its owner's choice, so they are only reported.
fn keep_private(file: &File, path: &Path, fresh: bool) {
    let mode = |file: &File| file.metadata().map(|metadata| metadata.mode() & 0o777);
    let others_may = |mode: u32| mode & 0o077 != 0;
    if !mode(file).is_ok_and(others_may) {
        return;
    }
    let made = match fresh {
        true => file.set_permissions(Permissions::from_mode(PRIVATE)),
        false => Err(io::Error::other("it was so before")),
    };
    if let (Err(why), Ok(mode)) = (made, mode(file)) {
        tracing::warn!(
            store = %path.display(),
            mode = format_args!("{mode:04o}"),
            %why,
            "other users of this machine may open the store: chmod 600 unless that is meant"
        );
    }
}

/// The permissions of a store: its owner alone.
const PRIVATE: u32 = 0o600;

/// The open file, and whether this call created it.
fn open_file(path: &Path, options: &OpenOptions) -> Result<(File, bool), OpenError> {
    let path_owned = || path.to_owned();
    let fail = |source: io::Error| OpenError::Open {
        path: path_owned(),
        source,
    };
    let exclusive = options.access == Access::Exclusive;
    let mut how = File::options();
    how.read(true).write(exclusive);
    if options.create && exclusive && !is_among_devices(path) {
        match how.clone().create_new(true).mode(PRIVATE).open(path) {
            Ok(file) => return Ok((file, true)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(fail(error)),
        }
    }
    // On a block device O_EXCL means "not while it is mounted or otherwise claimed"; on a file it would mean nothing.
    let number = Number::of_path(path).filter(|_| exclusive);
    if number.is_some() {
        how.custom_flags(OFlags::EXCL.bits() as i32);
    }
    let is_busy =
        |error: &io::Error| number.is_some() && error.kind() == io::ErrorKind::ResourceBusy;
    let holder = || number.and_then(Number::holder);
    // Unlike a lock of a dying process, a mount stays: refuse at once.
    match patiently(
        || how.open(path),
        |error| is_busy(error) && holder().is_none(),
    ) {
        Ok(file) => Ok((file, false)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let path = path_owned();
            Err(if options.create && is_among_devices(&path) {
                OpenError::NoDevice { path }
            } else {
                OpenError::Missing { path }
            })
        }
        Err(error) if is_busy(&error) => {
            let path = path_owned();
            Err(match holder() {
                Some(Holder::Mount(mounted_on)) => OpenError::Mounted { path, mounted_on },
                Some(Holder::Other(by)) => OpenError::Held { path, by },
                None => {
                    let metadata = std::fs::metadata(&path).ok();
                    let by = metadata.and_then(|metadata| holders::locked_by(&metadata));
                    OpenError::InUse { path, by }
                }
            })
        }
        Err(error) => Err(fail(error)),
    }
}

/// A new file under `/dev` would be in memory, and is most likely a mistyped disk. `/dev/shm` is meant for memory.
fn is_among_devices(path: &Path) -> bool {
    path.starts_with("/dev") && !path.starts_with("/dev/shm")
}

fn lock(file: &File, path: &Path, access: Access) -> Result<(), OpenError> {
    let operation = match access {
        Access::Exclusive => FlockOperation::NonBlockingLockExclusive,
        Access::ReadOnly => FlockOperation::NonBlockingLockShared,
    };
    let attempt = || rustix::fs::flock(file, operation);
    patiently(attempt, |error| *error == Errno::WOULDBLOCK).map_err(|error| match error {
        Errno::WOULDBLOCK => OpenError::InUse {
            path: path.to_owned(),
            by: file.metadata().ok().and_then(|m| holders::locked_by(&m)),
        },
        other => OpenError::Open {
            path: path.to_owned(),
            source: other.into(),
        },
    })
}

/// Inspects the partitions and both ends of the whole device, even if only a part will be used.
fn refuse_what_is_not_ours(file: &File, path: &Path) -> Result<(), OpenError> {
    let fail = |source: io::Error| OpenError::Open {
        path: path.to_owned(),
        source,
    };
    let mut ends = file;
    let size = ends.seek(SeekFrom::End(0)).map_err(fail)?;
    let span = size.min(SPAN_BYTES as u64);
    let mut both = [vec![0; span as usize], vec![0; span as usize]];
    for (part, at) in both.iter_mut().zip([0, size - span]) {
        file.read_exact_at(part, at).map_err(fail)?;
    }
    if let Some(found) = signature::foreign(&both[0], &both[1], size) {
        return Err(OpenError::Signature {
            path: path.to_owned(),
            name: found.name,
            at: found.at,
        });
    }
    let partitions = Number::of_path(path).map_or_else(Vec::new, Number::partitions);
    if !partitions.is_empty() {
        let names: Vec<_> = partitions.into_iter().map(|(name, _)| name).collect();
        return Err(OpenError::Partitioned {
            path: path.to_owned(),
            names: names.join(", "),
        });
    }
    Ok(())
}

/// Tries at most [`LOCK_TRIES`] times, as long as `held` says that the error is due to another process.
fn patiently<T, E>(attempt: impl Fn() -> Result<T, E>, held: impl Fn(&E) -> bool) -> Result<T, E> {
    for _ in 1..LOCK_TRIES {
        match attempt() {
            Err(error) if held(&error) => thread::sleep(LOCK_PAUSE),
            outcome => return outcome,
        }
    }
    attempt()
}

fn block_device_size(file: &File, path: &Path, asked: Option<u64>) -> Result<u64, OpenError> {
    let mut file = file;
    let found = file
        .seek(SeekFrom::End(0))
        .map_err(|source| OpenError::Open {
            path: path.to_owned(),
            source,
        })?;
    match asked {
        Some(asked) if asked > found => Err(OpenError::BeyondDevice {
            path: path.to_owned(),
            found,
            asked,
        }),
        Some(asked) => Ok(asked),
        None => Ok(found),
    }
}

/// The size of a regular file after preallocation, and whether it is new. An empty file counts as new: its creation
/// was interrupted, or it was made in advance.
fn file_size(
    file: &File,
    path: &Path,
    options: &OpenOptions,
    created: bool,
) -> Result<(u64, bool), OpenError> {
    let fail = |source: io::Error| OpenError::Open {
        path: path.to_owned(),
        source,
    };
    let found = file.metadata().map_err(fail)?.len();
    let reads_only = options.access == Access::ReadOnly;
    let fresh = created || found == 0;
    let size = match (fresh, options.size_bytes) {
        (true, Some(asked)) if asked >= ALIGN_BYTES as u64 && !reads_only => asked,
        (true, _) => {
            return Err(OpenError::SizeNeeded {
                path: path.to_owned(),
            });
        }
        (false, Some(asked)) if asked != found => {
            return Err(OpenError::SizeDiffers {
                path: path.to_owned(),
                found,
                asked,
            });
        }
        (false, _) => found,
    };
    if reads_only {
        return Ok((size, false));
    }
    preallocate(file, size, fresh).map_err(|error| match Errno::from_io_error(&error) {
        Some(Errno::NOSPC | Errno::DQUOT | Errno::FBIG) => {
            // Release what the failed attempt took. Then the free space is what another attempt could get.
            if fresh {
                let _ = file.set_len(0);
            }
            let free =
                rustix::fs::fstatvfs(file).map_or(0, |fs| fs.f_bavail.saturating_mul(fs.f_frsize));
            OpenError::NoSpace {
                path: path.to_owned(),
                asked: size,
                free,
            }
        }
        _ => fail(error),
    })?;
    Ok((size, fresh))
}

fn preallocate(file: &File, size: u64, fresh: bool) -> io::Result<()> {
    loop {
        match rustix::fs::fallocate(file, FallocateFlags::empty(), 0, size) {
            Ok(()) => break,
            Err(Errno::INTR) => {}
            Err(Errno::OPNOTSUPP | Errno::NOSYS) if fresh => {
                fill_with_zeros(file, size)?;
                break;
            }
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
    if fresh { file.sync_all() } else { Ok(()) }
}

fn fill_with_zeros(file: &File, size: u64) -> io::Result<()> {
    let zeros = vec![0; ZEROS_BYTES];
    let mut at = 0;
    while at < size {
        let len = (size - at).min(ZEROS_BYTES as u64);
        file.write_all_at(&zeros[..len as usize], at)?;
        at += len;
    }
    Ok(())
}

/// Sets O_DIRECT and finds the block size: the one the system states, else 512 or 4096, each tried with a read.
fn go_direct(file: &File) -> io::Result<u32> {
    let flags = rustix::fs::fcntl_getfl(file)?;
    rustix::fs::fcntl_setfl(file, flags | OFlags::DIRECT)?;
    let mut page = AlignedBuf::zeroed(ALIGN_BYTES);
    let mut refused = Errno::INVAL;
    for block_bytes in [
        stated_block_bytes(file),
        Some(BLOCK_BYTES_LEAST),
        Some(ALIGN_BYTES as u32),
    ] {
        let Some(block_bytes) = block_bytes else {
            continue;
        };
        match rustix::io::pread(file, &mut page[..block_bytes as usize], 0) {
            Ok(_) => return Ok(block_bytes),
            Err(error) => refused = error,
        }
    }
    rustix::fs::fcntl_setfl(file, flags)?;
    Err(refused.into())
}

/// The alignment that the system states for direct transfers, if we can satisfy it.
fn stated_block_bytes(file: &File) -> Option<u32> {
    let stated = rustix::fs::statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN)
        .ok()
        .filter(|stat| stat.stx_mask & StatxFlags::DIOALIGN.bits() != 0)
        .map(|stat| stat.stx_dio_offset_align.max(stat.stx_dio_mem_align))
        .filter(|align| *align != 0)
        .or_else(|| rustix::fs::ioctl_blksszget(file).ok())?;
    let block_bytes = stated.max(BLOCK_BYTES_LEAST);
    (block_bytes.is_power_of_two() && block_bytes as usize <= ALIGN_BYTES).then_some(block_bytes)
}
