//! A device in memory that computes how long a real one would have taken: a seeking disk, and flash.
//!
//! Both models compare layouts; they do not predict a product's times. The seeking disk is simple on purpose, and does one operation
//! after the other:
//!
//! | | seeking |
//! |---|---|
//! | before a transfer that does not continue the last one | seek 1 ms + 14 ms x sqrt(distance / size), half a turn at 7,200/min (4.17 ms) |
//! | transfer | 150 MB/s |
//! | flush | a turn (8.33 ms) |
//!
//! By this curve a seek to a random place takes 8.5 ms (the mean of sqrt(distance) is 8 / 15), as data sheets of such disks say.
//!
//! Flash is the model that the file-space managers run on ([`Flash`]: eight channels, pages of 4 KiB, erase blocks of 2 MiB, the
//! emptiest is cleaned first), with `IN_FLIGHT` operations in flight: the next one enters as soon as one is done. A flush waits
//! for all of them. The device is as large as the store, the store uses all of it, and nothing is trimmed, so the pages that flash
//! has to move depend on the layout alone.
//!
//! Not known here: what is stored.

use std::collections::VecDeque;

use bytes::Bytes;
use serde::Serialize;

use crate::disks::flash::Flash;
use crate::disks::hardware::{Hardware as _, SECTOR_BYTES, Span, Way};

const SEEK_S_MIN: f64 = 0.001;
const SEEK_S_SPAN: f64 = 0.014;
const TURN_S: f64 = 60.0 / 7_200.0;
const DISK_BYTES_PER_S: f64 = 150e6;
/// Most flash operations in flight: the depth of a SATA queue.
const IN_FLIGHT: usize = 32;
const FLASH_FLUSH_US: f64 = 100.0;

/// Counts of a device's operations, and their time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Deeds {
    /// Operations that read.
    pub reads: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Operations that wrote.
    pub writes: u64,
    /// Bytes written.
    pub write_bytes: u64,
    /// Flushes.
    pub flushes: u64,
    /// Busy time of a seeking disk.
    pub seeking_s: f64,
    /// Busy time of flash.
    pub flash_s: f64,
    /// Bytes that flash programmed: whole pages, including those it moved out of erase blocks.
    pub flash_programmed_bytes: u64,
}

impl Deeds {
    /// The difference to an earlier state.
    pub fn since(&self, then: &Deeds) -> Deeds {
        Deeds {
            reads: self.reads - then.reads,
            read_bytes: self.read_bytes - then.read_bytes,
            writes: self.writes - then.writes,
            write_bytes: self.write_bytes - then.write_bytes,
            flushes: self.flushes - then.flushes,
            seeking_s: self.seeking_s - then.seeking_s,
            flash_s: self.flash_s - then.flash_s,
            flash_programmed_bytes: self.flash_programmed_bytes - then.flash_programmed_bytes,
        }
    }
}

/// Flash with a queue of operations.
#[derive(Debug)]
struct Queued {
    flash: Flash,
    /// When each operation in flight will be done; in no order.
    in_flight: VecDeque<f64>,
    /// The earliest time at which the next operation may enter.
    free_us: f64,
    /// When all operations so far will be done.
    done_us: f64,
}

impl Queued {
    fn new(bytes: u64) -> Queued {
        Queued {
            flash: Flash::new(bytes),
            in_flight: VecDeque::with_capacity(IN_FLIGHT),
            free_us: 0.0,
            done_us: 0.0,
        }
    }

    fn serve(&mut self, way: Way, offset: u64, len: usize) {
        if len == 0 {
            return;
        }
        if self.in_flight.len() == IN_FLIGHT {
            let first = |best: usize, at: usize| {
                if self.in_flight[at] < self.in_flight[best] {
                    at
                } else {
                    best
                }
            };
            let first = (1..IN_FLIGHT).fold(0, first);
            let done_us = self.in_flight.swap_remove_back(first);
            self.free_us = self.free_us.max(done_us.unwrap_or(0.0));
        }
        let first = offset / SECTOR_BYTES;
        let sectors = (offset + len as u64).div_ceil(SECTOR_BYTES) - first;
        let span = Span {
            first,
            sectors: sectors as u32,
        };
        let served = self.flash.serve(self.free_us, way, span);
        self.free_us = served.free_us;
        self.done_us = self.done_us.max(served.done_us);
        self.in_flight.push_back(served.done_us);
    }

    fn flush(&mut self) {
        self.in_flight.clear();
        self.done_us = self.done_us.max(self.free_us) + FLASH_FLUSH_US;
        self.free_us = self.done_us;
    }
}

/// Bytes in memory, and the time that real devices would take.
#[derive(Debug)]
pub struct Device {
    bytes: Vec<u8>,
    head: u64,
    flash: Queued,
    deeds: Deeds,
}

impl Device {
    /// A device full of zeros.
    pub fn new(bytes: u64) -> Device {
        let size = usize::try_from(bytes).unwrap_or(usize::MAX);
        Device {
            bytes: vec![0; size],
            head: 0,
            flash: Queued::new(bytes),
            deeds: Deeds::default(),
        }
    }

    /// The counts so far.
    pub fn deeds(&self) -> &Deeds {
        &self.deeds
    }

    /// The bytes at `offset`. They must lie within the device (asserted), as in [`Device::write`].
    pub fn read(&mut self, offset: u64, len: usize) -> Bytes {
        let from = offset as usize;
        assert!(
            from + len <= self.bytes.len(),
            "a read beyond the end, at {offset}"
        );
        self.deeds.reads += 1;
        self.deeds.read_bytes += len as u64;
        self.moved(Way::Read, offset, len);
        Bytes::copy_from_slice(&self.bytes[from..from + len])
    }

    /// Writes at `offset`.
    pub fn write(&mut self, offset: u64, data: &[u8]) {
        let from = offset as usize;
        assert!(
            from + data.len() <= self.bytes.len(),
            "a write beyond the end, at {offset}"
        );
        self.deeds.writes += 1;
        self.deeds.write_bytes += data.len() as u64;
        self.moved(Way::Write, offset, data.len());
        self.bytes[from..from + data.len()].copy_from_slice(data);
    }

    /// Counts a flush.
    pub fn flush(&mut self) {
        self.deeds.flushes += 1;
        self.deeds.seeking_s += TURN_S;
        self.flash.flush();
        self.deeds.flash_s = self.flash.done_us / 1e6;
    }

    fn moved(&mut self, way: Way, offset: u64, len: usize) {
        if offset != self.head {
            let way = self.head.abs_diff(offset) as f64 / self.bytes.len() as f64;
            self.deeds.seeking_s += SEEK_S_MIN + SEEK_S_SPAN * way.sqrt() + TURN_S / 2.0;
        }
        self.head = offset + len as u64;
        self.deeds.seeking_s += len as f64 / DISK_BYTES_PER_S;
        self.flash.serve(way, offset, len);
        self.deeds.flash_s = self.flash.done_us / 1e6;
        self.deeds.flash_programmed_bytes = self.flash.flash.programmed_bytes();
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

    #[test]
    fn flash_reads_side_by_side_but_after_a_flush() {
        const PAGE: u64 = 4096;
        let time = |flushed: bool| {
            let mut device = Device::new(16 << 20);
            device.write(0, &vec![1; 8 * PAGE as usize]);
            device.flush();
            let before = *device.deeds();
            for page in 0..8 {
                device.read(page * PAGE, PAGE as usize);
                if flushed {
                    device.flush();
                }
            }
            device.deeds().since(&before).flash_s
        };
        assert!(
            time(true) > 6.0 * time(false),
            "{} {}",
            time(true),
            time(false)
        );
    }

    #[test]
    fn no_more_operations_are_in_flight_than_fit() {
        let mut device = Device::new(16 << 20);
        device.write(0, &[1; 4096]);
        device.flush();
        let before = *device.deeds();
        // All reads are on one channel: the queue is full after 32, and each further read waits for the first to finish.
        for _ in 0..40 {
            device.read(0, 4096);
        }
        let busy_s = device.deeds().since(&before).flash_s;
        assert!((busy_s - 40.0 * 65e-6).abs() < 20e-6, "{busy_s}");
        assert_eq!(device.flash.in_flight.len(), IN_FLIGHT);
    }

    #[test]
    fn small_writes_and_writes_all_over_are_amplified() {
        const SIZE: u64 = 64 << 20;
        let amplification = |len: usize, place: &dyn Fn(u64) -> u64| {
            let mut device = Device::new(SIZE);
            let data = vec![1; len];
            for n in 0..4 * SIZE / len as u64 {
                device.write(place(n) % (SIZE / len as u64) * len as u64, &data);
            }
            let deeds = device.deeds();
            deeds.flash_programmed_bytes as f64 / deeds.write_bytes as f64
        };
        assert!((amplification(1 << 20, &|n| n) - 1.0).abs() < 0.05);
        assert!(amplification(512, &|n| n) > 7.9);
        let scattered = amplification(4096, &|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40);
        assert!(scattered > 1.5, "{scattered}");
    }
}
