//! The locality buffers: how much waits for each server, and which buffer must be emptied.
//!
//! A record that is killed while it waits counts until its buffer is emptied, so the count is never too low.
//!
//! Not known here: shards, places, the device. `gather` carries out the decisions.
//! Limits: the configured number of buffers of [`LOCALITY_BUFFER_BYTES`](crate::settings::LOCALITY_BUFFER_BYTES), in
//! all at most half of what may be in flight. Beyond that the least recently used buffer is emptied.
//! Source: paper 002 section 3.6 (locality buffers). The paper does not say which buffer is the victim; we take the
//! least recently used.

use crate::index::key::KeyHash;
use crate::settings::Limits;
use std::collections::HashMap;

/// A buffer's entry for a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Gathered {
    pub hash: KeyHash,
    /// Distinguishes it from another record of its key.
    pub handle: u64,
    pub bytes: usize,
}

/// The records of one server, in the order of arrival.
#[derive(Debug)]
pub(crate) struct Buffer {
    server: u64,
    pub records: Vec<Gathered>,
    bytes: usize,
    opened_ms: u64,
    /// When the last record came, as a number of [`Buffers::uses`].
    used: u64,
}

/// All non-empty buffers. Decides which must be emptied.
#[derive(Debug)]
pub(crate) struct Buffers {
    most: usize,
    bytes_each_max: usize,
    bytes_max: usize,
    buffers: Vec<Buffer>,
    bytes: usize,
    uses: u64,
    handles: u64,
}

impl Buffers {
    pub(crate) fn new(limits: &Limits, chunk_bytes: u32) -> Self {
        let bytes_each_max = limits.locality_buffer_chunks as usize * chunk_bytes as usize;
        Self {
            most: limits.locality_buffers,
            bytes_each_max,
            bytes_max: (limits.in_flight_bytes_max / 2).max(bytes_each_max),
            buffers: Vec::new(),
            bytes: 0,
            uses: 0,
            handles: 0,
        }
    }

    fn of(&self, server: u64) -> Option<usize> {
        self.buffers
            .iter()
            .position(|buffer| buffer.server == server)
    }

    fn victim(&self) -> Option<usize> {
        (0..self.buffers.len()).min_by_key(|&at| self.buffers[at].used)
    }

    /// The buffer to empty before a record of that server and length fits.
    pub(crate) fn in_the_way(&self, server: u64, bytes: usize) -> Option<usize> {
        match self.of(server) {
            Some(at) if self.buffers[at].bytes + bytes > self.bytes_each_max => Some(at),
            None if self.buffers.len() >= self.most => self.victim(),
            _ if self.bytes + bytes > self.bytes_max => self.victim(),
            _ => None,
        }
    }

    /// Adds a record. Returns its buffer if that is full now.
    pub(crate) fn add(&mut self, server: u64, record: Gathered, now_ms: u64) -> Option<usize> {
        let at = self.of(server).unwrap_or_else(|| {
            self.buffers.push(Buffer {
                server,
                records: Vec::new(),
                bytes: 0,
                opened_ms: now_ms,
                used: 0,
            });
            self.buffers.len() - 1
        });
        self.uses += 1;
        self.bytes += record.bytes;
        let buffer = &mut self.buffers[at];
        buffer.used = self.uses;
        buffer.bytes += record.bytes;
        buffer.records.push(record);
        (buffer.bytes >= self.bytes_each_max).then_some(at)
    }

    /// A buffer whose deadline has passed. If the clock was set back, the wait starts again.
    pub(crate) fn overdue(&mut self, now_ms: u64, deadline_ms: u64) -> Option<usize> {
        self.buffers.iter_mut().position(|buffer| {
            buffer.opened_ms = buffer.opened_ms.min(now_ms);
            now_ms - buffer.opened_ms >= deadline_ms
        })
    }

    /// Takes out a buffer to be emptied.
    pub(crate) fn take(&mut self, at: usize) -> Buffer {
        let buffer = self.buffers.remove(at);
        self.bytes -= buffer.bytes;
        buffer
    }

    /// Puts back the records of a taken buffer that found no place.
    pub(crate) fn put_back(&mut self, mut buffer: Buffer, placed: usize) {
        buffer.records.drain(..placed);
        buffer.bytes = buffer.records.iter().map(|record| record.bytes).sum();
        self.bytes += buffer.bytes;
        self.buffers.push(buffer);
    }

    pub(crate) fn next_handle(&mut self) -> u64 {
        self.handles += 1;
        self.handles
    }

    /// Bytes of all waiting records, including those killed meanwhile.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Are all buffers empty?
    pub(crate) fn is_empty(&self) -> bool {
        self.buffers.is_empty()
    }

    /// Checks that the shards' waiting records are in a buffer, and that counts and limits hold.
    pub(crate) fn audit(&self, waiting: impl Iterator<Item = Gathered>) -> Result<(), String> {
        let gathered: HashMap<u64, Gathered> = self
            .buffers
            .iter()
            .flat_map(|buffer| &buffer.records)
            .map(|record| (record.handle, *record))
            .collect();
        for record in waiting {
            if gathered.get(&record.handle) != Some(&record) {
                return Err(format!("a record waits in no locality buffer: {record:?}"));
            }
        }
        let mut bytes = 0;
        for buffer in &self.buffers {
            let sum: usize = buffer.records.iter().map(|record| record.bytes).sum();
            if sum != buffer.bytes || sum > self.bytes_each_max || sum == 0 {
                return Err(format!(
                    "{} bytes in a locality buffer, {sum}",
                    buffer.bytes
                ));
            }
            bytes += sum;
        }
        if bytes != self.bytes || bytes > self.bytes_max || self.buffers.len() > self.most {
            return Err(format!(
                "{bytes} bytes wait in {} locality buffers, {} of {} in {} were counted",
                self.buffers.len(),
                self.bytes,
                self.bytes_max,
                self.most
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geometry::Geometry;
    use crate::settings::Settings;

    fn buffers(locality_buffers: usize) -> Buffers {
        let geometry = Geometry::plan(64 << 20, 512).unwrap();
        let settings = Settings {
            locality_buffers,
            ..Settings::default()
        };
        Buffers::new(&Limits::fit(&settings, &geometry, 1 << 20), 512)
    }

    fn add(buffers: &mut Buffers, server: u64, kib: usize) -> Option<usize> {
        assert_eq!(buffers.in_the_way(server, kib << 10), None);
        let handle = buffers.next_handle();
        let record = Gathered {
            hash: KeyHash(handle),
            handle,
            bytes: kib << 10,
        };
        buffers.add(server, record, 1000)
    }

    #[test]
    fn a_new_servers_victim_is_the_one_unused_for_longest() {
        let mut buffers = buffers(2);
        add(&mut buffers, 10, 1);
        add(&mut buffers, 20, 1);
        add(&mut buffers, 10, 1);
        assert_eq!(buffers.in_the_way(30, 512), buffers.of(20));
        assert_eq!(buffers.in_the_way(20, 512), None, "it has one");
        let at = buffers.of(20).unwrap();
        assert_eq!(buffers.take(at).records.len(), 1);
        add(&mut buffers, 30, 1);
        assert_eq!(buffers.in_the_way(40, 512), buffers.of(10));
        buffers.audit(std::iter::empty()).unwrap();
    }

    #[test]
    fn a_buffer_is_full_at_64_kib_and_makes_way_for_what_would_be_too_much() {
        let mut buffers = buffers(8);
        assert_eq!(add(&mut buffers, 1, 40), None);
        assert_eq!(buffers.in_the_way(1, 25 << 10), Some(0));
        assert_eq!(add(&mut buffers, 1, 24), Some(0), "just full");
        assert_eq!(buffers.take(0).bytes, 64 << 10);
        assert_eq!(buffers.bytes(), 0);
    }

    #[test]
    fn all_buffers_together_hold_no_more_than_half_of_what_may_be_in_flight() {
        let mut buffers = buffers(128);
        let most = buffers.bytes_max;
        assert!(most < 128 * (64 << 10), "else this shows nothing: {most}");
        let mut servers = 0;
        while buffers.in_the_way(servers + 1, 63 << 10).is_none() {
            servers += 1;
            add(&mut buffers, servers, 63);
        }
        assert!(buffers.bytes() <= most && buffers.bytes() + (63 << 10) > most);
        assert_eq!(buffers.in_the_way(1000, 63 << 10), buffers.of(1));
    }

    #[test]
    fn what_found_no_place_waits_on_in_its_order() {
        let mut buffers = buffers(2);
        for kib in [1, 2, 3] {
            add(&mut buffers, 7, kib);
        }
        let taken = buffers.take(0);
        buffers.put_back(taken, 1);
        assert_eq!(buffers.bytes(), 5 << 10);
        let left: Vec<u64> = buffers.buffers[0]
            .records
            .iter()
            .map(|r| r.handle)
            .collect();
        assert_eq!(left, [2, 3]);
        buffers.audit(std::iter::empty()).unwrap();
    }

    #[test]
    fn a_clock_that_is_set_back_starts_the_wait_again() {
        let mut buffers = buffers(2);
        add(&mut buffers, 7, 1);
        assert_eq!(buffers.overdue(1999, 1000), None);
        assert_eq!(buffers.overdue(500, 1000), None);
        assert_eq!(buffers.overdue(1500, 1000), Some(0));
    }
}
