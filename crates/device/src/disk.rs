//! The seam to the disk of a simulation, which keeps a device's bytes.

use std::io;

use bytes::Bytes;
use tokio::sync::oneshot;

/// What a disk is asked for.
#[derive(Clone, Debug)]
pub enum Asked {
    /// Bring so many bytes.
    Read {
        /// From where.
        at: u64,
        /// How many.
        len: usize,
    },
    /// Take these bytes.
    Write {
        /// To where.
        at: u64,
        /// Which.
        data: Bytes,
    },
    /// Make durable what was written.
    Flush,
}

/// Keeps a device's bytes.
pub trait Disk: Send + Sync {
    /// Begins an operation and answers it later, or never.
    fn begin(&self, asked: Asked, answer: oneshot::Sender<io::Result<Bytes>>);

    /// The same at once: for the blocking transfers of start and stop.
    ///
    /// # Errors
    /// As the disk likes.
    fn at_once(&self, asked: Asked) -> io::Result<Bytes>;
}
