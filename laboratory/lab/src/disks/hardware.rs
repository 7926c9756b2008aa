//! A device as its driver sees it: a request and the time of its completion.
//!
//! Not known here: files, caches, who asks.   Limits: requests enter one at a time; the device decides which of them overlap.

/// Bytes of a sector, the unit of all addresses here.
pub const SECTOR_BYTES: u64 = 512;

/// Adjacent sectors, to be read or written as one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// The first sector.
    pub first: u64,
    /// The number of sectors; not 0.
    pub sectors: u32,
}

impl Span {
    /// The sector behind the last one.
    pub fn end(self) -> u64 {
        self.first + u64::from(self.sectors)
    }
}

/// The direction of a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// From the device.
    Read,
    /// To the device.
    Write,
}

/// The times at which a request is done. Microseconds since the device was made.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Served {
    /// When the data has arrived, or is durable.
    pub done_us: f64,
    /// When the next request may enter.
    pub free_us: f64,
}

/// A modelled device: the same requests at the same times give the same answers.
pub trait Hardware: Send {
    /// Serves a request that enters at `start_us`, which must not be before the last `free_us`.
    fn serve(&mut self, start_us: f64, way: Way, span: Span) -> Served;

    /// The number of sectors.
    fn sectors(&self) -> u64;

    /// Bytes physically written for each byte requested; 1 for devices that move no data.
    fn write_amplification(&self) -> f64 {
        1.0
    }

    /// Other counts, such as seeks and rotations, by name.
    fn figures(&self) -> Vec<(&'static str, f64)> {
        Vec::new()
    }
}
