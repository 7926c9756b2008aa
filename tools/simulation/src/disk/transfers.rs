//! Completes reads and writes, and applies faults to them.
//!
//! Not known here: flushes, ends (`ends`). Of operations under way, only writes that a read may see.

use std::ops::Range;

use bytes::Bytes;

use super::{Cached, Disk, Done, OUTAGE_MS, Op, SECTOR_BYTES};
use crate::faults::Kind;

impl<T> Disk<T> {
    pub(super) fn befalls(&mut self, kind: Kind, once_in: u64) -> bool {
        let befalls = !self.calm && self.random.one_in(once_in);
        if befalls {
            self.counts.add(kind);
        }
        befalls
    }

    pub(super) fn complete_read(
        &mut self,
        tag: T,
        range: Range<u64>,
        mistakable: Option<u64>,
        nth: bool,
    ) -> Done<T> {
        let failed = nth
            || self.befalls(Kind::ReadError, self.faults.read_error)
            || self.befalls(Kind::ShortRead, self.faults.short);
        if failed {
            self.damage(&range);
            let number = self.number;
            return Done {
                tag,
                result: Err(()),
                number,
                spoiled: true,
            };
        }
        let mut bytes = self.peek(range.clone()).to_vec();
        self.show_writes_under_way(&range, &mut bytes);
        let spoiled = self.spoil_read(&range, mistakable, &mut bytes);
        Done {
            tag,
            result: Ok(Some(bytes.into())),
            number: self.number,
            spoiled,
        }
    }

    /// A write under way may have reached the medium in part.
    fn show_writes_under_way(&mut self, range: &Range<u64>, bytes: &mut [u8]) {
        let over: Vec<(u64, Bytes)> = self
            .writes_over(range)
            .filter_map(|way| match &way.op {
                Op::Write { offset, data } => Some((*offset, data.clone())),
                _ => None,
            })
            .collect();
        for (offset, data) in over {
            let shown = self.random.index(data.len() / SECTOR_BYTES + 1) * SECTOR_BYTES;
            let from = offset.max(range.start);
            let to = (offset + shown as u64).min(range.end);
            if from < to {
                bytes[(from - range.start) as usize..(to - range.start) as usize]
                    .copy_from_slice(&data[(from - offset) as usize..(to - offset) as usize]);
            }
        }
    }

    fn spoil_read(
        &mut self,
        range: &Range<u64>,
        mistakable: Option<u64>,
        bytes: &mut [u8],
    ) -> bool {
        if self.calm || bytes.is_empty() {
            return false;
        }
        let once_in = match mistakable {
            Some(_) => self.faults.misdirected_read.div_ceil(20),
            None => self.faults.misdirected_read,
        };
        if self.random.one_in(once_in) && self.areas.admit_change(range) {
            self.counts.add(Kind::MisdirectedRead);
            let elsewhere = match mistakable {
                Some(offset) => offset..offset + bytes.len() as u64,
                None => self.anywhere(bytes.len()),
            };
            bytes.copy_from_slice(self.peek(elsewhere));
            self.damage(range);
            return true;
        }
        let transient = self.random.one_in(self.faults.corrupt_read);
        let lasting = self.random.one_in(self.faults.corrupt_medium);
        if !transient && !lasting {
            return false;
        }
        let at = self.random.index(bytes.len());
        let sector = range.start + (at / SECTOR_BYTES * SECTOR_BYTES) as u64;
        let sector = sector..sector + SECTOR_BYTES as u64;
        if !self.areas.admit_change(&sector) {
            return false;
        }
        let bit = 1 << self.random.below(8);
        bytes[at] ^= bit;
        if lasting {
            self.counts.add(Kind::CorruptMedium);
            let at = range.start as usize + at;
            self.image[at] ^= bit;
            // D1: the medium itself has changed. If a write of this sector is in the cache, hardening it repairs the sector.
            self.hardened[at] ^= bit;
        } else {
            self.counts.add(Kind::CorruptRead);
        }
        self.damage(&sector);
        true
    }

    pub(super) fn complete_write(
        &mut self,
        tag: T,
        offset: u64,
        data: Bytes,
        nth: bool,
        now_ms: u64,
    ) -> Done<T> {
        self.number += 1;
        let number = self.number;
        let range = offset..offset + data.len() as u64;
        if self.befalls(Kind::WriteOutage, self.faults.outage) {
            self.outage_until_ms = now_ms + self.random.below(OUTAGE_MS);
        }
        let outage = !self.calm && now_ms < self.outage_until_ms;
        let short = self.befalls(Kind::ShortWrite, self.faults.short);
        if nth || outage || short || self.befalls(Kind::WriteError, self.faults.write_error) {
            // An unknown part of the write landed.
            let landed = self.random.index(data.len() / SECTOR_BYTES + 1) * SECTOR_BYTES;
            self.land(offset, data.slice(..landed), number);
            return Done {
                tag,
                result: Err(()),
                number,
                spoiled: true,
            };
        }
        let mut spoiled = true;
        if !self.calm && self.random.one_in(self.faults.lost_write) && self.areas.admit_loss(&range)
        {
            self.counts.add(Kind::LostWrite);
            self.damage(&range);
        } else if !self.calm && self.random.one_in(self.faults.misdirected_write) {
            let hit = self.anywhere(data.len());
            if self.areas.admit_misdirected(&range, &hit) {
                self.counts.add(Kind::MisdirectedWrite);
                self.damage(&range);
                self.damage(&hit);
                self.land(hit.start, data, number);
            } else {
                spoiled = false;
                self.land(offset, data, number);
            }
        } else {
            spoiled = false;
            self.land(offset, data, number);
        }
        Done {
            tag,
            result: Ok(None),
            number,
            spoiled,
        }
    }

    pub(super) fn land(&mut self, offset: u64, data: Bytes, number: u64) {
        if data.is_empty() {
            return;
        }
        let at = offset as usize;
        self.image[at..at + data.len()].copy_from_slice(&data);
        self.cached.push(Cached {
            number,
            offset,
            data,
            doomed: false,
        });
    }
}
