//! Read-ahead: a read also fetches the bytes behind it, so that a request for those soon after needs no read.
//!
//! The store does not read ahead; this measures what it would gain if its caller did. The gain depends on locality: the bytes
//! behind a record came from the same server (with locality buffers), or arrived next.
//!
//! Not known here: records, hits.
//! Limits: [`WINDOWS_MAX`] reads are kept; the oldest is dropped first.
//! Source: paper 002 measures its locality buffers on a file system that reads ahead by itself.

use std::collections::VecDeque;

use bytes::Bytes;

use super::device::Device;

/// Most reads kept: 4 MiB with 64 KiB each.
pub const WINDOWS_MAX: usize = 64;

/// The last reads, with the bytes behind them.
#[derive(Debug)]
pub struct Ahead {
    bytes: usize,
    end: u64,
    windows: VecDeque<(u64, Bytes)>,
}

impl Ahead {
    /// Each read fetches at least `bytes`, but none at or beyond `end`. 0: only the bytes requested, and nothing is kept.
    pub fn new(bytes: usize, end: u64) -> Ahead {
        Ahead {
            bytes,
            end,
            windows: VecDeque::new(),
        }
    }

    /// The bytes at `offset`, from the device if no kept read covers them.
    pub fn read(&mut self, device: &mut Device, offset: u64, len: usize) -> Bytes {
        let covers = |(at, bytes): &&(u64, Bytes)| {
            *at <= offset && offset + len as u64 <= at + bytes.len() as u64
        };
        if let Some((at, bytes)) = self.windows.iter().find(covers) {
            let from = (offset - at) as usize;
            return bytes.slice(from..from + len);
        }
        let to_end = usize::try_from(self.end.saturating_sub(offset)).unwrap_or(usize::MAX);
        let bytes = device.read(offset, self.bytes.min(to_end).max(len));
        if self.bytes > 0 {
            self.windows.push_back((offset, bytes.clone()));
            if self.windows.len() > WINDOWS_MAX {
                self.windows.pop_front();
            }
        }
        bytes.slice(..len)
    }

    /// Drops kept reads that overlap a write.
    pub fn written(&mut self, offset: u64, len: usize) {
        let end = offset + len as u64;
        self.windows
            .retain(|(at, bytes)| end <= *at || at + bytes.len() as u64 <= offset);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_behind_a_read_needs_no_other() {
        let mut device = Device::new(1000);
        device.write(0, &[7; 1000]);
        let mut ahead = Ahead::new(100, 950);
        assert_eq!(ahead.read(&mut device, 200, 10), [7; 10].as_slice());
        assert_eq!(ahead.read(&mut device, 290, 10), [7; 10].as_slice());
        assert_eq!(device.deeds().reads, 1);
        assert_eq!(ahead.read(&mut device, 291, 10).len(), 10);
        assert_eq!((device.deeds().reads, device.deeds().read_bytes), (2, 200));
        assert_eq!(ahead.read(&mut device, 940, 10).len(), 10);
        assert_eq!(device.deeds().read_bytes, 210, "not beyond the end");
    }

    #[test]
    fn what_was_written_since_is_read_again() {
        let mut device = Device::new(1000);
        let mut ahead = Ahead::new(100, 1000);
        ahead.read(&mut device, 200, 10);
        device.write(250, &[9; 10]);
        ahead.written(250, 10);
        assert_eq!(ahead.read(&mut device, 250, 10), [9; 10].as_slice());
    }

    #[test]
    fn without_it_every_read_is_one() {
        let mut device = Device::new(1000);
        let mut ahead = Ahead::new(0, 1000);
        for _ in 0..3 {
            assert_eq!(ahead.read(&mut device, 200, 10).len(), 10);
        }
        assert_eq!((device.deeds().reads, device.deeds().read_bytes), (3, 30));
    }
}
