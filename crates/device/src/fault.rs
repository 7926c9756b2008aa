//! How one operation can fail, and what the caller should do about it.

use std::io;

/// Why a read, write or flush failed. A cache may turn each of these into a miss.
#[derive(Debug, thiserror::Error)]
pub enum IoFault {
    /// The device refused. The bytes may be fine: serve from elsewhere, count it, perhaps try again later.
    #[error("device error at byte {at}, {len} bytes: {source}")]
    Device {
        /// Where the operation began, in bytes.
        at: u64,
        /// How much it was to move, in bytes.
        len: usize,
        /// The system's error.
        source: io::Error,
    },
    /// The file was truncated: the bytes do not exist any more.
    #[error("the file ends early: {got} of {wanted} bytes at byte {at}")]
    Short {
        /// Where the operation began, in bytes.
        at: u64,
        /// Bytes asked for.
        wanted: usize,
        /// Bytes that exist.
        got: usize,
    },
    /// Too many operations are waiting. Nothing was started: shed the load.
    #[error("too many operations are waiting for the device")]
    Busy,
    /// A write beyond the end of the device: a mistake of the caller. Nothing was written.
    #[error("{len} bytes at byte {at} go beyond the device's {size} bytes")]
    PastEnd {
        /// Where the write was to begin, in bytes.
        at: u64,
        /// Its length in bytes.
        len: usize,
        /// The size of the device in bytes.
        size: u64,
    },
    /// A write to a direct device that is not whole blocks. Nothing was written.
    #[error("{len} bytes at byte {at} are not whole blocks of {block_bytes} bytes")]
    Misaligned {
        /// Where the write was to begin, in bytes.
        at: u64,
        /// Its length in bytes.
        len: usize,
        /// [`Device::logical_block_bytes`](crate::Device::logical_block_bytes).
        block_bytes: u32,
    },
    /// The engine stopped before it answered.
    #[error("the disk engine has stopped")]
    Closed,
}

impl IoFault {
    pub(crate) fn device(at: u64, len: usize, source: impl Into<io::Error>) -> Self {
        Self::Device {
            at,
            len,
            source: source.into(),
        }
    }
}
