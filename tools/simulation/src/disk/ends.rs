//! Sudden ends: what remains of writes under way and in the cache.
//!
//! A kill keeps everything that was reported done. A power cut keeps what was hardened, and of all else, sector by sector, any part. If
//! two writes to one sector were in the cache, either or neither may remain. A write of metadata that already has a silent fault
//! remains whole or not at all (A3 of [`Areas`](crate::areas)).

use bytes::Bytes;

use super::{Cached, Disk, Op, SECTOR_BYTES};
use crate::faults::Kind;

impl<T> Disk<T> {
    /// Kills the process: each write under way remains whole, in part, or not at all.
    pub fn kill(&mut self) {
        for (offset, data) in self.take_writes() {
            self.number += 1;
            let number = self.number;
            let landed = self.torn(offset, &data);
            let mut n = 0;
            while n < landed.len() {
                let len = landed[n..]
                    .iter()
                    .take_while(|there| **there == landed[n])
                    .count();
                if landed[n] {
                    let piece = data.slice(n * SECTOR_BYTES..(n + len) * SECTOR_BYTES);
                    self.land(offset + (n * SECTOR_BYTES) as u64, piece, number);
                }
                n += len;
            }
        }
    }

    /// Cuts the power: of everything that is not hardened, any part remains.
    pub fn cut_power(&mut self) {
        let mut cached = std::mem::take(&mut self.cached);
        for (offset, data) in self.take_writes() {
            self.number += 1;
            let number = self.number;
            cached.push(Cached {
                number,
                offset,
                data,
                doomed: false,
            });
        }
        for write in &cached {
            let landed = self.torn(write.offset, &write.data);
            self.harden(write, |n| landed[n]);
        }
        for write in &cached {
            let range = write.offset as usize..write.offset as usize + write.data.len();
            self.image[range.clone()].copy_from_slice(&self.hardened[range]);
        }
    }

    /// Takes the writes under way, in random order; drops all other operations.
    fn take_writes(&mut self) -> Vec<(u64, Bytes)> {
        let mut writes: Vec<_> = std::mem::take(&mut self.under_way)
            .into_iter()
            .filter_map(|way| match way.op {
                Op::Write { offset, data } => Some((offset, data)),
                _ => None,
            })
            .collect();
        for n in (1..writes.len()).rev() {
            writes.swap(n, self.random.index(n + 1));
        }
        writes
    }

    /// Which sectors of a write remain.
    fn torn(&mut self, offset: u64, data: &Bytes) -> Vec<bool> {
        let sectors = data.len() / SECTOR_BYTES;
        let whole_only = self.areas.is_wounded(&(offset..offset + data.len() as u64));
        match self.random.below(if whole_only { 6 } else { 10 }) {
            0..3 => vec![true; sectors],
            3..6 => vec![false; sectors],
            6..8 => {
                self.counts.add(Kind::TornWrite);
                let prefix = self.random.index(sectors + 1);
                (0..sectors).map(|n| n < prefix).collect()
            }
            _ => {
                self.counts.add(Kind::TornWrite);
                (0..sectors).map(|_| self.random.one_in(2)).collect()
            }
        }
    }
}
