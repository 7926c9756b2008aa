//! The one writer: space, packetizer, room.
//!
//! All of it behind one lock that no hit from disk takes. An insert does outside the lock what it can (checksum; for
//! a large record the copy as well), and under it: take back freed extents, evict if the store is too full, take
//! an extent, publish, copy, seal the header with the MAC.
//!
//! A record is published before its bytes are in the buffer; who finds it at that moment waits for the lock.
//! That way an insert that comes too late, because its key was invalidated meanwhile, has used nothing.
//!
//! Limits: [`EVICTIONS_MAX`] evictions an insert, and [`STRETCHES_MAX`] stretches when a large record needs them;
//! [`CLUSTERS_IN_FLIGHT_MAX`] clusters in flight, beyond which the device is behind and nothing is stored.

use crate::cluster::{Flight, OpenCluster, Records, Write, WriteId, Writes};
use crate::evict::{Bounds, Hand};
use crate::record::{HEADER_BYTES, KEY_BYTES_MAX, META_BYTES_MAX, NewRecord, Placed};
use crate::settings::CLUSTERS_IN_FLIGHT_MAX;
use crate::shard::{Flags, Slot};
use crate::store::Store;
use bytes::Bytes;
use extent::{Chunks, Extent, SpaceManager, Unified};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Evictions that one insert does to bring the store below its watermark, and again to find a run.
const EVICTIONS_MAX: usize = 64;

/// Stretches that one insert clears to find a run.
const STRETCHES_MAX: usize = 2;

/// What became of a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// It can be looked up from now on.
    Stored,
    /// No run of free chunks that long could be made.
    NoSpace,
    /// Larger than this store takes: the record, its key or metadata, or the whole object.
    TooLarge,
    /// Its primary key was invalidated since the fill began.
    Invalidated,
    /// Writes failed lately, or the device is behind with writing, or the store is closed.
    Paused,
}

/// What an insert came to.
#[derive(Debug)]
#[must_use = "the writes are to be carried out"]
pub struct Inserted {
    /// What became of the record.
    pub outcome: Outcome,
    /// Writes to carry out, whatever the outcome.
    pub writes: Writes,
}

/// What only one thread at a time may touch.
pub(crate) struct Writer {
    pub space: Unified,
    pub open: Option<OpenCluster>,
    pub bounds: Bounds,
    pub hand: Hand,
    shed_to: Option<u64>,
    next_write: u64,
}

impl Writer {
    pub(crate) fn new(space: Unified, shards: usize) -> Self {
        Self {
            space,
            open: None,
            bounds: Bounds::new(shards),
            hand: Hand::default(),
            shed_to: None,
            next_write: 0,
        }
    }
}

/// A record on its way in.
#[derive(Clone, Copy)]
struct Incoming<'a> {
    record: &'a NewRecord<'a>,
    len: Chunks,
    checksum: u64,
    now_ms: u64,
}

impl Store {
    /// Stores one record: it goes to the cluster buffer and can be looked up at once. An older record of the same
    /// hash is replaced, and who is reading that one may not serve it any more.
    ///
    /// `now_ms` is the time in milliseconds since 1970. The writes are to be carried out whatever the outcome.
    pub fn insert(&self, record: &NewRecord<'_>, now_ms: u64) -> Inserted {
        let mut writes = Writes::default();
        let outcome = self.try_insert(record, now_ms, &mut writes);
        match outcome {
            Outcome::Stored => {
                self.counters.inserts.add(1);
                self.counters.insert_bytes.add(record.record_bytes());
            }
            Outcome::NoSpace => self.counters.refused_no_space.add(1),
            Outcome::TooLarge => self.counters.refused_too_large.add(1),
            Outcome::Invalidated => self.counters.refused_invalidated.add(1),
            Outcome::Paused => self.counters.refused_paused.add(1),
        }
        Inserted { outcome, writes }
    }

    fn try_insert(&self, record: &NewRecord<'_>, now_ms: u64, writes: &mut Writes) -> Outcome {
        let Some(len) = self.chunks_of(record) else {
            return Outcome::TooLarge;
        };
        if self.pause.is_on(now_ms) {
            return Outcome::Paused;
        }
        if self.invalidated_since(record.primary, record.began) {
            return Outcome::Invalidated;
        }
        let checksum = record.checksum();
        let incoming = Incoming {
            record,
            len,
            checksum,
            now_ms,
        };
        if len.0 > self.limits.cluster_chunks {
            self.insert_alone(incoming, writes)
        } else {
            self.insert_in_cluster(incoming, writes)
        }
    }

    fn chunks_of(&self, record: &NewRecord<'_>) -> Option<Chunks> {
        let chunks = record
            .record_bytes()
            .div_ceil(u64::from(self.geometry.chunk_bytes));
        let fits = record.key.len() <= KEY_BYTES_MAX
            && record.meta.len() <= META_BYTES_MAX
            && chunks <= u64::from(self.limits.record_chunks_max)
            && record
                .total
                .is_none_or(|total| total.bytes <= self.limits.object_bytes_max);
        fits.then_some(Chunks(chunks as u32))
    }

    /// The usual way: behind the record before it.
    fn insert_in_cluster(&self, incoming: Incoming<'_>, writes: &mut Writes) -> Outcome {
        let mut guard = self.writer();
        let writer = &mut *guard;
        if self.is_closed() {
            return Outcome::Paused;
        }
        self.reclaim(writer);
        self.shed(writer);
        if !self.open_has_room(writer, incoming.len) {
            if self.is_behind() {
                return self.refuse_behind();
            }
            // Its tail is free again before the next run is cut, so a run can go on where it ended.
            writes.push(self.close_cluster(writer));
            let Some(run) = self.cut(writer, incoming.len, self.limits.cluster_chunks) else {
                return Outcome::NoSpace;
            };
            writer.open = Some(OpenCluster::new(self.pool.take(), run, incoming.now_ms));
        }
        let open = writer
            .open
            .as_mut()
            .expect("a cluster with room was found or opened above");
        let extent = open.next(incoming.len);
        if !self.publish(incoming.record, extent) {
            return Outcome::Invalidated;
        }
        let place = open.append(incoming.record.hash, extent, self.chunk_bytes());
        incoming.record.write_parts(place);
        place[..HEADER_BYTES].copy_from_slice(&self.seal(incoming, extent));
        if open.is_full(self.limits.cluster_chunks) {
            writes.push(self.close_cluster(writer));
        }
        Outcome::Stored
    }

    /// A record larger than a cluster is a write of its own.
    fn insert_alone(&self, incoming: Incoming<'_>, writes: &mut Writes) -> Outcome {
        let mut buffer = crate::buffer::aligned(incoming.len.0 as usize * self.chunk_bytes());
        incoming.record.write_parts(&mut buffer);
        let mut guard = self.writer();
        let writer = &mut *guard;
        if self.is_closed() {
            return Outcome::Paused;
        }
        self.reclaim(writer);
        self.shed(writer);
        if self.is_behind() {
            return self.refuse_behind();
        }
        let Some(extent) = self.cut(writer, incoming.len, incoming.len.0) else {
            return Outcome::NoSpace;
        };
        if !self.publish(incoming.record, extent) {
            writer.space.free(extent);
            return Outcome::Invalidated;
        }
        buffer[..HEADER_BYTES].copy_from_slice(&self.seal(incoming, extent));
        let records = vec![(incoming.record.hash, extent.first)];
        writes.push(Some(self.hand_out(
            writer,
            extent,
            buffer.freeze(),
            records,
        )));
        Outcome::Stored
    }

    /// Puts the record into the index, unless its fill began before an invalidation of its primary key.
    ///
    /// The check and the publication are one step under the lock that `invalidate` takes, if the record is
    /// the primary one. A variant or fragment may lie in another shard, and an invalidation may come
    /// between; that is harmless, because it is only reached through the marker or the head record, which are gone by
    /// then, and a new marker has another salt, a new head another fetch.
    fn publish(&self, record: &NewRecord<'_>, extent: Extent) -> bool {
        let number = self.shard_of(record.hash);
        let primary = self.shard_of(record.primary);
        if primary != number && !self.shard(primary).admits(record.primary, record.began) {
            return false;
        }
        let mut shard = self.shard(number);
        if primary == number && !shard.admits(record.primary, record.began) {
            return false;
        }
        let (replaced, freed) = shard.kill(record.hash);
        self.queue_freed(freed);
        let fragment = record.fragment.map_or(0, |_| Flags::FRAGMENT.0);
        let head = record.total.map_or(0, |_| Flags::HEAD.0);
        let flags = Flags(Flags::WRITING.0 | fragment | head);
        let stamp = self.clock.fetch_add(1, Ordering::Relaxed);
        shard.publish(Slot::new(record.hash, extent, flags, stamp));
        drop(shard);
        self.counters.replaced.add(u64::from(replaced));
        true
    }

    fn seal(&self, incoming: Incoming<'_>, extent: Extent) -> [u8; HEADER_BYTES] {
        let placed = Placed {
            epoch: self.epoch,
            extent,
            sequence: self.next_sequence(),
            stored_unix_ms: incoming.now_ms,
            checksum: incoming.checksum,
        };
        incoming.record.header(placed).encode(&self.secret)
    }

    /// Is there room for `len` chunks in the open cluster, if need be by growing into free chunks behind it?
    fn open_has_room(&self, writer: &mut Writer, len: Chunks) -> bool {
        let Some(open) = &mut writer.open else {
            return false;
        };
        if open.left() >= len {
            return true;
        }
        match open.wanted_behind(len, self.limits.cluster_chunks) {
            Some(behind) if writer.space.reserve(behind) => {
                open.grow(behind.len);
                true
            }
            _ => false,
        }
    }

    /// A run of `at_least` to `want` chunks, making room for it if there is none.
    fn cut(&self, writer: &mut Writer, at_least: Chunks, want: u32) -> Option<Extent> {
        for _ in 0..EVICTIONS_MAX {
            if let Some(run) = writer.space.cut_largest(at_least, Chunks(want)) {
                return Some(run);
            }
            if !self.evict_coldest(writer) {
                break;
            }
        }
        for _ in 0..STRETCHES_MAX {
            self.clear_stretch(writer, at_least);
            if let Some(run) = writer.space.cut_largest(at_least, Chunks(want)) {
                return Some(run);
            }
        }
        None
    }

    /// Takes back the extents that readers and invalidations have freed.
    pub(crate) fn reclaim(&self, writer: &mut Writer) {
        let freed = std::mem::take(&mut *crate::lock(&self.freed));
        freed
            .into_iter()
            .for_each(|extent| writer.space.free(extent));
    }

    /// Evicts down to the low watermark once the high one is reached, some records at a time.
    fn shed(&self, writer: &mut Writer) {
        let total = u64::from(writer.space.total().0);
        let used = |writer: &Writer| total - u64::from(writer.space.free_chunks().0);
        if writer.shed_to.is_none() {
            let now = used(writer);
            writer.shed_to = self
                .limits
                .watermarks
                .excess(now, total)
                .map(|excess| now - excess.min(now));
        }
        let Some(target) = writer.shed_to else { return };
        for _ in 0..EVICTIONS_MAX {
            if used(writer) <= target {
                writer.shed_to = None;
                return;
            }
            if !self.evict_coldest(writer) {
                return;
            }
        }
    }

    /// Freezes the open cluster into a write and gives back what is left of its run.
    pub(crate) fn close_cluster(&self, writer: &mut Writer) -> Option<Write> {
        let open = writer.open.take()?;
        open.tail()
            .into_iter()
            .for_each(|tail| writer.space.free(tail));
        match open.close(self.chunk_bytes()) {
            Ok((extent, data, records)) => Some(self.hand_out(writer, extent, data, records)),
            Err(buffer) => {
                self.pool.give_back_mut(buffer);
                None
            }
        }
    }

    fn hand_out(
        &self,
        writer: &mut Writer,
        extent: Extent,
        data: Bytes,
        records: Records,
    ) -> Write {
        let id = WriteId(writer.next_write);
        writer.next_write += 1;
        self.counters.writes.add(1);
        self.counters.write_bytes.add(data.len() as u64);
        let offset = self.geometry.offset_of(extent.first.0);
        let records = Some(Arc::new(records));
        crate::lock(&self.flights).push(Flight {
            id,
            extent,
            data: data.clone(),
            records,
        });
        Write { id, offset, data }
    }

    fn is_behind(&self) -> bool {
        crate::lock(&self.flights).len() >= CLUSTERS_IN_FLIGHT_MAX
    }

    fn refuse_behind(&self) -> Outcome {
        self.counters.refused_behind.add(1);
        Outcome::Paused
    }

    /// Closes the open cluster if it has waited for its deadline. Call every tenth of a second or so.
    pub fn tick(&self, now_ms: u64) -> Option<Write> {
        let mut writer = self.writer();
        let open = writer.open.as_mut()?;
        // A clock that was set back starts the wait again.
        open.opened_ms = open.opened_ms.min(now_ms);
        let due = now_ms - open.opened_ms >= self.limits.cluster_deadline_ms;
        if due && !self.is_behind() {
            self.close_cluster(&mut writer)
        } else {
            None
        }
    }

    /// Closes the open cluster now, full or not.
    pub fn flush(&self) -> Option<Write> {
        self.close_cluster(&mut self.writer())
    }
}
