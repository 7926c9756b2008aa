//! The seam to the disk of a simulation, which keeps a device's bytes.

use std::io;

use bytes::Bytes;
use tokio::sync::oneshot;

/// An operation asked of a disk.
#[derive(Clone, Debug)]
pub enum Asked {
    /// Read `len` bytes.
    Read {
        /// The first byte.
        at: u64,
        /// The number of bytes.
        len: usize,
    },
    /// Write these bytes.
    Write {
        /// Where the first byte goes.
        at: u64,
        /// The bytes.
        data: Bytes,
    },
    /// Make all earlier writes durable.
    Flush,
}

/// Keeps a device's bytes.
pub trait Disk: Send + Sync {
    /// Begins an operation and answers it later, or never.
    fn begin(&self, asked: Asked, answer: oneshot::Sender<io::Result<Bytes>>);

    /// Carries out an operation at once, for the blocking transfers of start and stop.
    ///
    /// # Errors
    /// Any error that the simulation injects.
    fn at_once(&self, asked: Asked) -> io::Result<Bytes>;
}
