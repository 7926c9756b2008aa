//! What a device driver sees: a request goes in, the time of its completion comes out.
//!
//! Not known here: files, caches, who asks.   Limits: one request at a time goes in; what overlaps is the device's affair.

/// Bytes of a sector, the unit of all addresses here.
pub const SECTOR_BYTES: u64 = 512;

/// Neighbouring sectors, to be read or written as one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// The first one.
    pub first: u64,
    /// How many; not 0.
    pub sectors: u32,
}

impl Span {
    /// The sector behind the last one.
    pub fn end(self) -> u64 {
        self.first + u64::from(self.sectors)
    }
}

/// Which way the bytes go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// From the device.
    Read,
    /// To the device.
    Write,
}

/// When a request was, or will be, over. Microseconds since the device was made.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Served {
    /// The data is there, or durable.
    pub done_us: f64,
    /// The next request may go in.
    pub free_us: f64,
}

/// A modelled device: the same requests at the same times give the same answers.
pub trait Hardware: Send {
    /// Serves a request that goes in at `start_us`, which must not be before the last `free_us`.
    fn serve(&mut self, start_us: f64, way: Way, span: Span) -> Served;

    /// How many sectors there are.
    fn sectors(&self) -> u64;

    /// Bytes physically written for each byte asked for; 1 where nothing is moved.
    fn write_amplification(&self) -> f64 {
        1.0
    }

    /// Seeks, rotations and whatever else was counted, by name.
    fn figures(&self) -> Vec<(&'static str, f64)> {
        Vec::new()
    }
}
