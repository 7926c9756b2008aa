//! Opening: from a path to a locked, preallocated device of known alignment.
//!
//! The order matters. A file is created, then locked, and only then preallocated, so that of two processes that
//! start together one is told to stay away. Space is claimed with `fallocate` at every opening, so that a file once
//! made sparse, by a copy say, cannot run out of room while the proxy serves. The page cache is bypassed last, by a
//! flag on the open file, and tried with one read: file systems differ in what they refuse, and when.
//!
//! A process that has just been killed holds its files until the kernel has ended its disk operations, so a lock is
//! asked for during a second before it counts as refused.
//!
//! Not here: what the bytes mean. An existing file keeps its content, whoever wrote it.
//!
//! Limits: no resizing; a file's size is fixed when it is created.

use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use rustix::fs::{AtFlags, FallocateFlags, FlockOperation, OFlags, StatxFlags};
use rustix::io::Errno;

use crate::buffer::{ALIGN_BYTES, AlignedBuf};
use crate::device::{BLOCK_BYTES_LEAST, Device};

/// The blocks of zeros written where `fallocate` is not known.
const ZEROS_BYTES: usize = 1 << 20;

/// How often, and at what distance, a lock is asked for.
const LOCK_TRIES: u32 = 50;
const LOCK_PAUSE: Duration = Duration::from_millis(20);

/// How to open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenOptions {
    /// The size in bytes: required for a new file, else `None` or what it is. Of a block device a part may be used.
    pub size_bytes: Option<u64>,
    /// Create the file if it is not there.
    pub create: bool,
    /// Bypass the page cache (O_DIRECT) where the file system can.
    pub direct: bool,
}

/// What was opened, and what the log should say about it.
#[derive(Debug)]
pub struct Opened {
    /// The device.
    pub device: Arc<Device>,
    /// It is new: all zeros.
    pub created: bool,
    /// `direct` was asked for and this is why it could not be had.
    pub buffered_because: Option<io::Error>,
}

/// Why a device could not be opened, and what to do about it.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum OpenError {
    #[error("cannot open {}: {source}", path.display())]
    Open { path: PathBuf, source: io::Error },
    #[error("{} does not exist: create it, or allow it to be created", path.display())]
    Missing { path: PathBuf },
    #[error("{} is in use by another process: stop that one first, or give each its own store", path.display())]
    InUse { path: PathBuf },
    #[error("{} is neither a regular file nor a block device", path.display())]
    WrongKind { path: PathBuf },
    #[error("{} is new: say how large it shall be, at least {ALIGN_BYTES} bytes", path.display())]
    SizeNeeded { path: PathBuf },
    #[error(
        "{} has {found} bytes and cannot be resized to {asked}: leave the size out, or remove the file to start anew",
        path.display()
    )]
    SizeDiffers {
        path: PathBuf,
        found: u64,
        asked: u64,
    },
    #[error("{} has only {found} bytes, not {asked}: ask for less, or leave the size out", path.display())]
    BeyondDevice {
        path: PathBuf,
        found: u64,
        asked: u64,
    },
    #[error(
        "no room for {asked} bytes at {}: its file system has {free} free; ask for less, or make room",
        path.display()
    )]
    NoSpace {
        path: PathBuf,
        asked: u64,
        free: u64,
    },
}

impl Device {
    /// Opens, and where asked creates, a regular file, or opens a block device; locks it for this process.
    ///
    /// Blocking, up to a second if another process holds it; where the file system has no `fallocate`, a new file is written full of zeros, which takes long.
    pub fn open(path: &Path, options: OpenOptions) -> Result<Opened, OpenError> {
        let fail = |source: io::Error| OpenError::Open {
            path: path.to_owned(),
            source,
        };
        let (file, created) = open_file(path, options.create)?;
        lock(&file, path)?;
        let kind = file.metadata().map_err(fail)?.file_type();
        let (size, fresh) = if kind.is_block_device() {
            (block_device_size(&file, path, options.size_bytes)?, false)
        } else if kind.is_file() {
            file_size(&file, path, options.size_bytes, created).inspect_err(|_| {
                // A file that could not be given its size is of no use, and would be taken for a store next time.
                if created {
                    let _ = std::fs::remove_file(path);
                }
            })?
        } else {
            return Err(OpenError::WrongKind {
                path: path.to_owned(),
            });
        };
        let size = size - size % ALIGN_BYTES as u64;
        if size == 0 {
            return Err(OpenError::SizeNeeded {
                path: path.to_owned(),
            });
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

/// The open file, and whether it was created here.
fn open_file(path: &Path, create: bool) -> Result<(File, bool), OpenError> {
    let fail = |source: io::Error| OpenError::Open {
        path: path.to_owned(),
        source,
    };
    let mut options = File::options();
    options.read(true).write(true);
    if create {
        // The content of a cache is nobody else's business.
        match options.clone().create_new(true).mode(0o600).open(path) {
            Ok(file) => return Ok((file, true)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(fail(error)),
        }
    }
    // On a block device O_EXCL means "not while it is mounted or otherwise claimed"; on a file it would mean nothing.
    let is_block = std::fs::metadata(path).is_ok_and(|m| m.file_type().is_block_device());
    if is_block {
        options.custom_flags(OFlags::EXCL.bits() as i32);
    }
    let opened = patiently(
        || options.open(path),
        |error| is_block && error.kind() == io::ErrorKind::ResourceBusy,
    );
    match opened {
        Ok(file) => Ok((file, false)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(OpenError::Missing {
            path: path.to_owned(),
        }),
        Err(error) if is_block && error.kind() == io::ErrorKind::ResourceBusy => {
            Err(OpenError::InUse {
                path: path.to_owned(),
            })
        }
        Err(error) => Err(fail(error)),
    }
}

fn lock(file: &File, path: &Path) -> Result<(), OpenError> {
    let attempt = || rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive);
    patiently(attempt, |error| *error == Errno::WOULDBLOCK).map_err(|error| match error {
        Errno::WOULDBLOCK => OpenError::InUse {
            path: path.to_owned(),
        },
        other => OpenError::Open {
            path: path.to_owned(),
            source: other.into(),
        },
    })
}

/// Tries again while the error says that another holds it, within bounds.
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

/// The size of a regular file, preallocated; and whether it is new. An empty file counts as new: its creation was
/// interrupted, or somebody made it for us.
fn file_size(
    file: &File,
    path: &Path,
    asked: Option<u64>,
    created: bool,
) -> Result<(u64, bool), OpenError> {
    let fail = |source: io::Error| OpenError::Open {
        path: path.to_owned(),
        source,
    };
    let found = file.metadata().map_err(fail)?.len();
    let fresh = created || found == 0;
    let size = match (fresh, asked) {
        (true, Some(asked)) if asked >= ALIGN_BYTES as u64 => asked,
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
    preallocate(file, size, fresh).map_err(|error| match Errno::from_io_error(&error) {
        Some(Errno::NOSPC | Errno::DQUOT | Errno::FBIG) => {
            // What a failed attempt took is given back; then what is free is what another attempt could have.
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

/// Sets O_DIRECT and finds the block that works: what the system says, else the usual two, each tried with a read.
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

/// The alignment the system states for direct transfers, if it is one we can keep to.
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
