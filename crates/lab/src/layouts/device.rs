//! A device in memory that says how long a real one would have taken: a seeking disk, and flash.
//!
//! Both are simple on purpose: they are to tell layouts apart, not to foretell a product. One operation after the other.
//!
//! | | seeking | flash |
//! |---|---|---|
//! | before a transfer that does not continue the last one | seek 1 ms + 14 ms x sqrt(distance / size), half a turn at 7,200/min (4.17 ms) | 80 µs for a read, 20 µs for a write |
//! | transfer | 150 MB/s | 500 MB/s |
//! | flush | a turn (8.33 ms) | 100 µs |
//!
//! A seek to a random place is 8.5 ms by that curve (the mean of sqrt(distance) is 8 / 15), what data sheets of such disks say.
//! A write to flash is a write to its buffer.
//!
//! Not known here: what is stored.

use bytes::Bytes;
use serde::Serialize;

const SEEK_S_MIN: f64 = 0.001;
const SEEK_S_SPAN: f64 = 0.014;
const TURN_S: f64 = 60.0 / 7_200.0;
const DISK_BYTES_PER_S: f64 = 150e6;
const FLASH_READ_S: f64 = 80e-6;
const FLASH_WRITE_S: f64 = 20e-6;
const FLASH_FLUSH_S: f64 = 100e-6;
const FLASH_BYTES_PER_S: f64 = 500e6;

/// What a device did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Deeds {
    /// Operations that read.
    pub reads: u64,
    /// Bytes of those.
    pub read_bytes: u64,
    /// Operations that wrote.
    pub writes: u64,
    /// Bytes of those.
    pub write_bytes: u64,
    /// Flushes.
    pub flushes: u64,
    /// What a seeking disk would have been busy.
    pub seeking_s: f64,
    /// What flash would have been busy.
    pub flash_s: f64,
}

impl Deeds {
    /// Since then.
    pub fn since(&self, then: &Deeds) -> Deeds {
        Deeds {
            reads: self.reads - then.reads,
            read_bytes: self.read_bytes - then.read_bytes,
            writes: self.writes - then.writes,
            write_bytes: self.write_bytes - then.write_bytes,
            flushes: self.flushes - then.flushes,
            seeking_s: self.seeking_s - then.seeking_s,
            flash_s: self.flash_s - then.flash_s,
        }
    }
}

/// Bytes in memory, and the time it would have taken.
#[derive(Debug)]
pub struct Device {
    bytes: Vec<u8>,
    head: u64,
    deeds: Deeds,
}

impl Device {
    /// Full of zeros.
    pub fn new(bytes: u64) -> Device {
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        Device {
            bytes: vec![0; bytes],
            head: 0,
            deeds: Deeds::default(),
        }
    }

    /// So far.
    pub fn deeds(&self) -> &Deeds {
        &self.deeds
    }

    /// The bytes there. They must lie within the device (asserted), as in [`Device::write`].
    pub fn read(&mut self, offset: u64, len: usize) -> Bytes {
        let from = offset as usize;
        assert!(
            from + len <= self.bytes.len(),
            "a read beyond the end, at {offset}"
        );
        self.deeds.reads += 1;
        self.deeds.read_bytes += len as u64;
        self.deeds.flash_s += FLASH_READ_S;
        self.moved(offset, len);
        Bytes::copy_from_slice(&self.bytes[from..from + len])
    }

    /// Writes.
    pub fn write(&mut self, offset: u64, data: &[u8]) {
        let from = offset as usize;
        assert!(
            from + data.len() <= self.bytes.len(),
            "a write beyond the end, at {offset}"
        );
        self.deeds.writes += 1;
        self.deeds.write_bytes += data.len() as u64;
        self.deeds.flash_s += FLASH_WRITE_S;
        self.moved(offset, data.len());
        self.bytes[from..from + data.len()].copy_from_slice(data);
    }

    /// Makes durable.
    pub fn flush(&mut self) {
        self.deeds.flushes += 1;
        self.deeds.seeking_s += TURN_S;
        self.deeds.flash_s += FLASH_FLUSH_S;
    }

    fn moved(&mut self, offset: u64, len: usize) {
        if offset != self.head {
            let way = self.head.abs_diff(offset) as f64 / self.bytes.len() as f64;
            self.deeds.seeking_s += SEEK_S_MIN + SEEK_S_SPAN * way.sqrt() + TURN_S / 2.0;
        }
        self.head = offset + len as u64;
        self.deeds.seeking_s += len as f64 / DISK_BYTES_PER_S;
        self.deeds.flash_s += len as f64 / FLASH_BYTES_PER_S;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let mut device = Device::new(100);
        device.write(10, b"abc");
        assert_eq!(&device.read(9, 5)[..], b"\0abc\0");
        let deeds = device.deeds();
        assert_eq!(
            (
                deeds.reads,
                deeds.read_bytes,
                deeds.writes,
                deeds.write_bytes
            ),
            (1, 5, 1, 3)
        );
    }

    #[test]
    fn going_on_costs_no_seek_and_far_costs_more_than_near() {
        let time = |from: u64, to: u64| {
            let mut device = Device::new(1 << 20);
            device.write(from, b"x");
            let before = *device.deeds();
            device.write(to, b"x");
            device.deeds().since(&before).seeking_s
        };
        assert!(time(0, 1) < 1e-6);
        assert!(time(0, 1000) > 0.005 && time(0, 1 << 19) > 2.0 * time(0, 1000));
    }
}
