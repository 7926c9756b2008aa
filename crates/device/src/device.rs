//! One opened file or block device, or memory that behaves like one.
//!
//! This file has the *blocking* transfers: for start and stop (the `*_sync` calls), and for the threads of the pool.
//! All other transfers go through an [`Engine`](crate::Engine).
//!
//! Invariants:
//!   D1  no write leaves `[0, size)`, but for `wipe_signatures`; a regular file never grows
//!   D2  on a direct file every system call moves whole blocks from and to aligned memory
//!
//! Limits: blocking transfers of any length go through bounce buffers of at most 1 MiB.

use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::{FileExt, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, RwLock};

use bytes::Bytes;
use rustix::fs::OFlags;

use crate::buffer::{ALIGN_BYTES, AlignedBuf, RawBuf};
use crate::fault::IoFault;
use crate::faults::{Begun, FaultPlan, Operation};
use crate::filesystem;
use crate::health::Health;
use crate::pool::Pool;
use crate::signature::SPAN_BYTES;
use crate::transfer::{Progress, Step, Transfer, wanted_part};

/// The bounce buffer of blocking transfers.
const BOUNCE_BYTES: usize = 1 << 20;
/// The block size that is reported if it is unknown, or if the page cache is used.
pub(crate) const BLOCK_BYTES_LEAST: u32 = 512;

/// A file or block device, open and locked for this process alone; or memory. Shared by all workers.
pub struct Device {
    backend: Backend,
    path: PathBuf,
    size: u64,
    block_bytes: u32,
    health: Health,
    /// The threads that read and write it where io_uring is refused; made at first use.
    pool: OnceLock<Arc<Pool>>,
    /// Another process has the same open file, and owns its lock (`passed`).
    pub(crate) is_lent: AtomicBool,
}

enum Backend {
    File {
        file: File,
        direct: bool,
    },
    Memory {
        bytes: RwLock<Vec<u8>>,
        faults: FaultPlan,
    },
    #[cfg(feature = "simulation")]
    Simulated(Arc<dyn crate::disk::Disk>),
}

impl Device {
    pub(crate) fn file(
        file: File,
        path: PathBuf,
        size: u64,
        direct: bool,
        block_bytes: u32,
    ) -> Arc<Self> {
        assert!(
            block_bytes.is_power_of_two() && block_bytes as usize <= ALIGN_BYTES,
            "block {block_bytes}"
        );
        let health = Health::new(!filesystem::is_prompt(&file));
        Arc::new(Self {
            backend: Backend::File { file, direct },
            path,
            size,
            block_bytes,
            health,
            pool: OnceLock::new(),
            is_lent: AtomicBool::new(false),
        })
    }

    /// `size` bytes of zeroed memory, for tests.
    pub fn memory(size: usize) -> Arc<Self> {
        Self::faulty(size, FaultPlan::new())
    }

    /// Memory that fails as `plan` says; keep a clone of the plan to change it while the device is in use.
    pub fn faulty(size: usize, plan: FaultPlan) -> Arc<Self> {
        let backend = Backend::Memory {
            bytes: RwLock::new(vec![0; size]),
            faults: plan,
        };
        Arc::new(Self {
            backend,
            path: PathBuf::from("memory"),
            size: size as u64,
            block_bytes: BLOCK_BYTES_LEAST,
            health: Health::new(false),
            pool: OnceLock::new(),
            is_lent: AtomicBool::new(false),
        })
    }

    /// A simulated device: `disk` keeps its bytes, and answers in virtual time.
    #[cfg(feature = "simulation")]
    pub fn simulated(size: u64, path: PathBuf, disk: Arc<dyn crate::disk::Disk>) -> Arc<Self> {
        Arc::new(Self {
            backend: Backend::Simulated(disk),
            path,
            size,
            block_bytes: BLOCK_BYTES_LEAST,
            health: Health::new(false),
            pool: OnceLock::new(),
            is_lent: AtomicBool::new(false),
        })
    }

    /// The disk that keeps the bytes of a simulated device.
    #[cfg(feature = "simulation")]
    pub(crate) fn disk(&self) -> Option<&Arc<dyn crate::disk::Disk>> {
        match &self.backend {
            Backend::Simulated(disk) => Some(disk),
            _ => None,
        }
    }

    /// Usable bytes. Of a file, whole 4096-byte pages: a tail of less is never used, so that the answer does not
    /// depend on how the file was opened.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The unit in which [`Engine::write`](crate::Engine::write) must write: a power of two, 512 to 4096.
    pub fn logical_block_bytes(&self) -> u32 {
        self.block_bytes
    }

    /// The path it was opened at.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Gives a regular file that belongs to root to this user and group. A block device keeps its owner.
    pub fn give_to(&self, uid: u32, gid: u32) -> Result<(), IoFault> {
        let Backend::File { file, .. } = &self.backend else {
            return Ok(());
        };
        let fault = |error| IoFault::device(0, 0, error);
        let about = file.metadata().map_err(fault)?;
        if about.is_file() && about.uid() == 0 {
            std::os::unix::fs::fchown(file, Some(uid), Some(gid)).map_err(fault)?;
        }
        Ok(())
    }

    /// Does it bypass the page cache (O_DIRECT)?
    pub fn is_direct(&self) -> bool {
        matches!(self.backend, Backend::File { direct: true, .. })
    }

    /// Does the kernel say that it is a block device with a head? A hint: virtual disks mostly say so.
    pub fn has_head(&self) -> bool {
        match &self.backend {
            Backend::File { file, .. } => crate::head::is_rotational(file),
            Backend::Memory { .. } => false,
            #[cfg(feature = "simulation")]
            Backend::Simulated(_) => false,
        }
    }

    /// Whether the device answers.
    pub fn health(&self) -> &Health {
        &self.health
    }

    /// Reads one block, blocking, to find out whether the device answers. An error is an answer too. `nth` chooses
    /// the place: each number another one, so that no cache answers for the disk.
    pub fn probe(&self, nth: u64) {
        /// 2^64 divided by the golden ratio: successive places are far from each other, whatever the size.
        const STRIDE: u64 = 0x9e37_79b9_7f4a_7c15;
        if let Some(faults) = self.faults() {
            faults.wait_blocking(Operation::Read);
        }
        let blocks = (self.size / ALIGN_BYTES as u64).max(1);
        let at = (nth.wrapping_mul(STRIDE) % blocks) * ALIGN_BYTES as u64;
        if let Ok(transfer) = self.plan(at, ALIGN_BYTES) {
            let _ = self.read_blocking(transfer);
        }
        self.health.answered();
    }

    /// Its thread pool. Fails if the first thread cannot be started.
    pub(crate) fn pool(&self) -> io::Result<Arc<Pool>> {
        if let Some(pool) = self.pool.get() {
            return Ok(Arc::clone(pool));
        }
        let pool = Pool::start()?;
        // If two callers make a pool at once, one pool is kept and the other ends.
        Ok(Arc::clone(self.pool.get_or_init(|| pool)))
    }

    /// Fills `out` from byte `at`, blocking. For start and stop; any alignment will do.
    pub fn read_exact_sync(&self, at: u64, out: &mut [u8]) -> Result<(), IoFault> {
        let mut at = at;
        for part in out.chunks_mut(BOUNCE_BYTES) {
            part.copy_from_slice(&self.read_blocking(self.plan(at, part.len())?)?);
            at += part.len() as u64;
        }
        Ok(())
    }

    /// Writes all of `data` at byte `at`, blocking. For start and stop; any alignment will do, and the rest of the
    /// first and last block keeps its content (nobody else may write there at the same time).
    pub fn write_all_sync(&self, at: u64, data: &[u8]) -> Result<(), IoFault> {
        self.check_inside(at, data.len())?;
        let mut at = at;
        for part in data.chunks(BOUNCE_BYTES) {
            let transfer = self.plan(at, part.len())?;
            let step = transfer.step();
            let mut whole = if transfer.is_whole_blocks() {
                AlignedBuf::zeroed(part.len())
            } else {
                AlignedBuf::copy_of(&self.read_blocking(self.plan(step.at, step.len)?)?)
            };
            whole.truncate(step.len);
            whole[transfer.skip()..][..part.len()].copy_from_slice(part);
            self.write_blocking(self.plan(step.at, step.len)?, &whole)?;
            at += part.len() as u64;
        }
        Ok(())
    }

    /// Waits until all earlier writes would survive a power failure, blocking.
    pub fn flush_sync(&self) -> Result<(), IoFault> {
        match &self.backend {
            Backend::File { file, .. } => file.sync_data().map_err(|e| IoFault::device(0, 0, e)),
            Backend::Memory { faults, .. } => match faults.begin(Operation::Flush) {
                Begun::Go | Begun::Lose => Ok(()),
                Begun::Fail(error) | Begun::Tear { error, .. } => Err(IoFault::device(0, 0, error)),
            },
            #[cfg(feature = "simulation")]
            Backend::Simulated(disk) => {
                let flushed = disk.at_once(crate::disk::Asked::Flush);
                flushed.map(drop).map_err(|e| IoFault::device(0, 0, e))
            }
        }
    }

    /// Overwrites the first and the last mebibyte with zeros, flushes, and makes the kernel forget the partitions.
    /// Blocking. Only for when the user has said that the content is not needed. It uses the real end of the file or
    /// disk, even if only a part is used.
    pub fn wipe_signatures(&self) -> Result<(), IoFault> {
        let Backend::File { file, .. } = &self.backend else {
            let span = (SPAN_BYTES as u64).min(self.size);
            for at in [0, self.size - span] {
                self.write_all_sync(at, &vec![0; span as usize])?;
            }
            return self.flush_sync();
        };
        let fault = |e| IoFault::device(0, 0, e);
        // Opening it again below would let a reader write.
        let flags = rustix::fs::fcntl_getfl(file).map_err(|e| IoFault::device(0, 0, e))?;
        if !flags.intersects(OFlags::WRONLY | OFlags::RDWR) {
            return Err(IoFault::device(0, 0, rustix::io::Errno::BADF));
        }
        // The end need not be a multiple of the block, which a direct file would refuse: write through another
        // handle.
        let mut buffered = File::options()
            .write(true)
            .open(format!("/proc/self/fd/{}", file.as_raw_fd()))
            .map_err(fault)?;
        let size = buffered.seek(SeekFrom::End(0)).map_err(fault)?;
        let zeros = vec![0; SPAN_BYTES.min(usize::try_from(size).unwrap_or(SPAN_BYTES))];
        for at in [0, size - zeros.len() as u64] {
            buffered
                .write_all_at(&zeros, at)
                .map_err(|e| IoFault::device(at, zeros.len(), e))?;
        }
        buffered.sync_all().map_err(fault)?;
        drop(buffered);
        if let Err(error) = forget_partitions(file) {
            tracing::debug!(%error, device = %self.path.display(), "no partitions to read again");
        }
        Ok(())
    }

    /// The file, for io_uring; `None` for memory.
    pub(crate) fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        match &self.backend {
            Backend::File { file, .. } => Some(file.as_fd()),
            Backend::Memory { .. } => None,
            #[cfg(feature = "simulation")]
            Backend::Simulated(_) => None,
        }
    }

    /// The fault plan of a memory device.
    pub(crate) fn faults(&self) -> Option<&FaultPlan> {
        match &self.backend {
            Backend::File { .. } => None,
            Backend::Memory { faults, .. } => Some(faults),
            #[cfg(feature = "simulation")]
            Backend::Simulated(_) => None,
        }
    }

    /// The block size of system calls; 1 if any range is allowed.
    fn transfer_block(&self) -> usize {
        if self.is_direct() {
            self.block_bytes as usize
        } else {
            1
        }
    }

    /// The transfer of `len` bytes from byte `at`, widened to whole blocks if the device needs that.
    pub(crate) fn plan(&self, at: u64, len: usize) -> Result<Transfer, IoFault> {
        Transfer::new(at, len, self.transfer_block()).ok_or(IoFault::Short {
            at,
            wanted: len,
            got: 0,
        })
    }

    /// The transfer and memory of a write. Checks that it lies inside the device and is whole blocks, and copies it
    /// if its memory is not aligned.
    pub(crate) fn plan_write(&self, at: u64, data: Bytes) -> Result<(Transfer, Bytes), IoFault> {
        self.check_inside(at, data.len())?;
        let transfer = self.plan(at, data.len())?;
        if !transfer.is_whole_blocks() {
            return Err(IoFault::Misaligned {
                at,
                len: data.len(),
                block_bytes: self.block_bytes,
            });
        }
        let aligned =
            !self.is_direct() || (data.as_ptr() as usize).is_multiple_of(self.block_bytes as usize);
        let data = if aligned {
            data
        } else {
            AlignedBuf::copy_of(&data).into_bytes()
        };
        Ok((transfer, data))
    }

    fn check_inside(&self, at: u64, len: usize) -> Result<(), IoFault> {
        match at.checked_add(len as u64) {
            Some(end) if end <= self.size => Ok(()),
            _ => Err(IoFault::PastEnd {
                at,
                len,
                size: self.size,
            }),
        }
    }

    /// Carries a read out on this thread.
    pub(crate) fn read_blocking(&self, mut transfer: Transfer) -> Result<Bytes, IoFault> {
        let (at, wanted) = (transfer.wanted_at(), transfer.wanted());
        if let Some(faults) = self.faults() {
            match faults.begin(Operation::Read) {
                Begun::Go | Begun::Lose => {}
                Begun::Fail(error) | Begun::Tear { error, .. } => {
                    return Err(IoFault::device(at, wanted, error));
                }
            }
        }
        let mut raw = RawBuf::new(transfer.buffer_bytes());
        loop {
            let step = transfer.step();
            let moved =
                match self.read_step(step, &mut raw.spare()[step.start..step.start + step.len]) {
                    Ok(moved) => moved,
                    Err(rustix::io::Errno::INTR) => continue,
                    Err(error) => return Err(IoFault::device(at, wanted, error)),
                };
            match transfer.advance(moved) {
                Progress::Finished => break,
                Progress::More => {}
                Progress::Ended { got } => return Err(IoFault::Short { at, wanted, got }),
            }
        }
        // SAFETY: Finished means that buffer[..skip + wanted] has been moved (T1), by `read_step` of this function.
        let buffer = unsafe { raw.assume_filled(transfer.skip() + wanted) };
        Ok(wanted_part(buffer, &transfer))
    }

    /// Carries a write out on this thread; `data` as `plan_write` left it.
    pub(crate) fn write_blocking(
        &self,
        mut transfer: Transfer,
        data: &[u8],
    ) -> Result<(), IoFault> {
        let (at, wanted) = (transfer.wanted_at(), transfer.wanted());
        self.check_inside(at, data.len())?;
        if let Some(faults) = self.faults() {
            match faults.begin(Operation::Write) {
                Begun::Go => {}
                Begun::Lose => return Ok(()),
                Begun::Fail(error) => return Err(IoFault::device(at, wanted, error)),
                Begun::Tear { keep, error } => {
                    self.write_step(at, &data[..keep.min(data.len())])
                        .map_err(|e| IoFault::device(at, wanted, e))?;
                    return Err(IoFault::device(at, wanted, error));
                }
            }
        }
        loop {
            let step = transfer.step();
            let moved = match self.write_step(step.at, &data[step.start..step.start + step.len]) {
                Ok(moved) => moved,
                Err(rustix::io::Errno::INTR) => continue,
                Err(error) => return Err(IoFault::device(at, wanted, error)),
            };
            match transfer.advance(moved) {
                Progress::Finished => return Ok(()),
                Progress::More => {}
                Progress::Ended { got } => return Err(IoFault::Short { at, wanted, got }),
            }
        }
    }

    /// One system call, or the same on memory: `Ok(n)` means that the first `n` bytes of `out` were written.
    fn read_step(&self, step: Step, out: &mut [MaybeUninit<u8>]) -> rustix::io::Result<usize> {
        match &self.backend {
            Backend::File { file, .. } => {
                rustix::io::pread(file, out, step.at).map(|(filled, _)| filled.len())
            }
            Backend::Memory { bytes, faults } => {
                let bytes = bytes
                    .read()
                    .expect("no holder of the memory device's lock panics");
                let from = bytes
                    .get(usize::try_from(step.at).unwrap_or(usize::MAX)..)
                    .unwrap_or_default();
                let moved = faults.clip_read(step.at, from.len().min(out.len()));
                for (to, from) in out.iter_mut().zip(&from[..moved]) {
                    to.write(*from);
                }
                faults.corrupt(step.at, moved, |offset, mask| {
                    out[offset].write(from[offset] ^ mask);
                });
                Ok(moved)
            }
            #[cfg(feature = "simulation")]
            Backend::Simulated(disk) => {
                let asked = crate::disk::Asked::Read {
                    at: step.at,
                    len: out.len(),
                };
                let bytes = disk.at_once(asked).map_err(|_| rustix::io::Errno::IO)?;
                for (to, from) in out.iter_mut().zip(&bytes) {
                    to.write(*from);
                }
                Ok(bytes.len().min(out.len()))
            }
        }
    }

    fn write_step(&self, at: u64, data: &[u8]) -> rustix::io::Result<usize> {
        match &self.backend {
            Backend::File { file, .. } => rustix::io::pwrite(file, data, at),
            Backend::Memory { bytes, faults } => {
                let moved = faults.clip_write(data.len());
                let mut bytes = bytes
                    .write()
                    .expect("no holder of the memory device's lock panics");
                // `check_inside` has seen the whole range.
                bytes[at as usize..][..moved].copy_from_slice(&data[..moved]);
                Ok(moved)
            }
            #[cfg(feature = "simulation")]
            Backend::Simulated(disk) => {
                let asked = crate::disk::Asked::Write {
                    at,
                    data: Bytes::copy_from_slice(data),
                };
                disk.at_once(asked).map_err(|_| rustix::io::Errno::IO)?;
                Ok(data.len())
            }
        }
    }
}

/// Makes the kernel read the partition table of a disk again. An error if it is no disk.
fn forget_partitions(file: &File) -> rustix::io::Result<()> {
    /// BLKRRPART, `_IO(0x12, 95)`.
    const READ_PARTITIONS: rustix::ioctl::Opcode = rustix::ioctl::opcode::none(0x12, 95);
    // SAFETY: this request has no argument (linux/fs.h), so the kernel touches no memory of ours.
    unsafe { rustix::ioctl::ioctl(file, rustix::ioctl::NoArg::<READ_PARTITIONS>::new()) }
}

impl Drop for Device {
    fn drop(&mut self) {
        if let Backend::File { file, .. } = &self.backend
            && !self.is_lent.load(Ordering::SeqCst)
        {
            // Unlock explicitly: the kernel may still hold the file for a ring that it is freeing.
            let _ = rustix::fs::flock(file, rustix::fs::FlockOperation::Unlock);
        }
    }
}

impl std::fmt::Debug for Device {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Device")
            .field("path", &self.path)
            .field("size", &self.size)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_reads_back_what_was_written() {
        let device = Device::memory(10_000);
        device.write_all_sync(777, b"squid").unwrap();
        let mut out = [0; 7];
        device.read_exact_sync(776, &mut out).unwrap();
        assert_eq!(&out, b"\0squid\0");
        device.flush_sync().unwrap();
    }

    #[test]
    fn the_end_is_short_for_reads_and_closed_for_writes() {
        let device = Device::memory(1000);
        let fault = device.read_exact_sync(990, &mut [0; 20]).unwrap_err();
        assert!(
            matches!(
                fault,
                IoFault::Short {
                    at: 990,
                    wanted: 20,
                    got: 10
                }
            ),
            "{fault}"
        );
        let fault = device.read_exact_sync(5000, &mut [0; 20]).unwrap_err();
        assert!(matches!(fault, IoFault::Short { got: 0, .. }), "{fault}");
        let fault = device.write_all_sync(990, &[1; 20]).unwrap_err();
        assert!(
            matches!(fault, IoFault::PastEnd { size: 1000, .. }),
            "{fault}"
        );
        let fault = device.write_all_sync(u64::MAX, &[1; 20]).unwrap_err();
        assert!(matches!(fault, IoFault::PastEnd { .. }), "{fault}");
    }
}
