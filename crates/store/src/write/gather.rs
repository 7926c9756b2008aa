//! Locality buffers gather the records of one origin server in memory, and put them into the open cluster together.
//!
//! ```text
//!   insert --> buffer of its server --(full, victim, overdue, flush)--> open cluster --> one write
//!         \--(no server, or longer than a buffer)-------------------->/
//! ```
//!
//! A waiting record has no place on the disk and no entry in the index: its shard has it under its whole hash, with a
//! header that says *nowhere*. It is found, served and killed there like any record. When its buffer is emptied, the
//! remaining records get a place, a new sequence and an entry, one after the other, so that they lie side by side as
//! far as the cluster has room. They are then compared with predicates and invalidations once more, because a
//! predicate may be dropped as soon as everything that has a *place* was compared with it (`prune_predicates`); older
//! waiting records are dropped then.
//!
//! Not known here: regions, writes under way; what a server is.
//! Limits: of memory see `locality`. While the device is behind nothing is gathered, and while no room is ready a
//! full buffer refuses. A record waits for one deadline here and, with the cluster, for another at most.
//! Source: paper 002 section 3.6 (locality buffers). The paper does not say which buffer is the victim; we take the
//! least recently used.

use crate::index::entry::Entry;
use crate::index::key::KeyHash;
use crate::index::usage::Usage;
use crate::record::{HEADER_BYTES, Head, Header, NewRecord, Placed};
use crate::shard::Shard;
use crate::store::Store;
use crate::write::cluster::Writes;
use crate::write::insert::{Incoming, Outcome, Placement};
use crate::write::locality::Gathered;
use crate::write::waiting::Waiting;
use crate::write::writer::Writer;
use bytes::{Bytes, BytesMut};
use extent::{Chunk, Chunks, Extent};
use std::sync::MutexGuard;
use std::sync::atomic::Ordering;

/// The place in the header of a waiting record: none.
const NOWHERE: Chunk = Chunk(u32::MAX);

impl Store {
    /// Is a record of that server and length gathered?
    pub(crate) fn is_gathered(&self, server: u64, len: Chunks) -> bool {
        self.limits.locality_buffers > 0
            && server != 0
            && len.0 <= self.limits.locality_buffer_chunks
    }

    /// Puts a record into its server's buffer.
    pub(crate) fn insert_gathered(&self, incoming: Incoming<'_>, writes: &mut Writes) -> Placement {
        let record = incoming.record;
        let (bytes, header) = self.without_place(record, &incoming);
        let mut guard = self.writer();
        let writer = &mut *guard;
        if self.is_closed_to_inserts() {
            return Err(Outcome::Paused);
        }
        if self.is_behind() {
            return Err(Outcome::Behind);
        }
        while let Some(at) = writer.buffers.in_the_way(record.server, bytes.len()) {
            self.empty_buffer(writer, at, incoming.now_ms, false, writes)?;
        }
        let gathered = Gathered {
            hash: record.hash,
            handle: writer.buffers.next_handle(),
            bytes: bytes.len(),
        };
        let waiting = Waiting {
            handle: gathered.handle,
            bytes,
            header,
            record_bytes: record.record_bytes(incoming.marker),
            uses: 0,
        };
        {
            let Some(mut shard) = self.admitting_shard(incoming) else {
                return Err(Outcome::Invalidated);
            };
            let (replaced, freed) = shard.kill(record.hash);
            self.queue_freed(freed);
            shard.waiting.insert(record.hash.0, waiting);
            // It waits under its whole hash, so another key with the same index bits is no longer found.
            if replaced {
                self.has_left(record.hash);
            }
            self.counters.replaced.add(u64::from(replaced));
        }
        let full = writer.buffers.add(record.server, gathered, incoming.now_ms);
        if let Some(at) = full {
            // If that fails, the buffer stays as it is, and the next record of its server tries again.
            let _ = self.empty_buffer(writer, at, incoming.now_ms, false, writes);
        }
        self.count_gathered(writer);
        Ok(None)
    }

    /// The whole record, and a header that verifies but names no place.
    fn without_place(&self, record: &NewRecord<'_>, incoming: &Incoming<'_>) -> (Bytes, Header) {
        let extent = Extent {
            first: NOWHERE,
            len: incoming.len,
        };
        let placed = Placed {
            epoch: self.epoch,
            extent,
            sequence: self.next_sequence(),
            stored_unix_ms: incoming.now_ms,
            checksum: incoming.sums.checksum,
        };
        let header = record.header(incoming.marker, placed);
        let mut bytes = BytesMut::zeroed(incoming.len.0 as usize * self.chunk_bytes());
        record.write_parts(incoming.marker, &incoming.sums.table, &mut bytes);
        bytes[..HEADER_BYTES].copy_from_slice(&header.encode(&self.secret));
        (bytes.freeze(), header)
    }

    /// Empties a buffer into the open cluster, and into the next one when that is full. Records that find no place stay in the
    /// buffer, and the reason is returned. With `at_once`, works also while the device is behind.
    fn empty_buffer(
        &self,
        writer: &mut Writer,
        at: usize,
        now_ms: u64,
        at_once: bool,
        writes: &mut Writes,
    ) -> Result<(), Outcome> {
        if self.is_closed_to_inserts() {
            return Err(Outcome::Paused);
        }
        let buffer = writer.buffers.take(at);
        let mut outcome = Ok(());
        let mut placed = 0;
        for &record in &buffer.records {
            outcome = self.place(writer, record, now_ms, at_once, writes);
            if outcome.is_err() {
                break;
            }
            placed += 1;
        }
        if outcome.is_err() {
            writer.buffers.put_back(buffer, placed);
        }
        self.count_gathered(writer);
        outcome
    }

    /// Gives a waiting record its place in the open cluster, if it was not killed.
    fn place(
        &self,
        writer: &mut Writer,
        record: Gathered,
        now_ms: u64,
        at_once: bool,
        writes: &mut Writes,
    ) -> Result<(), Outcome> {
        let number = self.shard_of(record.hash);
        let waits = |shard: &Shard| {
            let waiting = shard.waiting.get(&record.hash.0);
            waiting
                .filter(|waiting| waiting.handle == record.handle)
                .map(|waiting| waiting.header)
        };
        let Some(header) = waits(&self.shard(number)) else {
            return Ok(()); // killed or replaced
        };
        // Looking up the marker is a use of it, so that it stays as long as the record; see `evict/aging`.
        let has_marker = !header.has_marker || self.marker(header.primary).is_some();
        let len = header.extent.len;
        self.make_room(writer, len);
        self.open_for(writer, len, now_ms, at_once, writes)?;
        let open = writer
            .open
            .as_mut()
            .expect("a cluster with room was found or opened above");
        let extent = open.next(len);
        let Some(waiting) = self.publish_waiting(record, extent, has_marker) else {
            return Ok(());
        };
        let place = open.append(record.hash, extent, self.chunk_bytes());
        place[HEADER_BYTES..].copy_from_slice(&waiting.bytes[HEADER_BYTES..]);
        let header = Header {
            extent,
            sequence: self.next_sequence(),
            ..waiting.header
        };
        place[..HEADER_BYTES].copy_from_slice(&header.encode(&self.secret));
        self.close_if_full(writer, writes);
        Ok(())
    }

    /// Enters a waiting record into the index, with its place. `None` if it was killed, or had to be killed now.
    fn publish_waiting(
        &self,
        record: Gathered,
        extent: Extent,
        has_marker: bool,
    ) -> Option<Waiting> {
        let number = self.shard_of(record.hash);
        let mut shard = self.shard(number);
        let waiting = shard.waiting.remove(&record.hash.0)?;
        if waiting.handle != record.handle {
            shard.waiting.insert(record.hash.0, waiting);
            return None;
        }
        let Header { primary, began, .. } = waiting.header;
        let Head { key, meta, .. } = waiting.head();
        // The primary of a variant or fragment may be in another shard. If it was invalidated, its marker or head is gone: see `publish`.
        let mut stays = has_marker && self.admits(&shard, number, (primary, began), key, meta);
        if stays {
            let (may_come, drops) = shard.clear_marker(record.hash, primary);
            stays = may_come;
            if drops {
                self.has_left(record.hash);
            }
        }
        // Kill what the index takes for the same key, or what a scan has found meanwhile.
        let (_, freed) = shard.kill(record.hash);
        self.queue_freed(freed);
        if !stays {
            self.counters.invalidated.add(1);
            self.has_left(record.hash);
            return None;
        }
        let stamp = || self.clock.fetch_add(1, Ordering::Relaxed);
        let entry = Entry::new(extent, true);
        shard.publish(record.hash, entry, waiting.record_bytes, stamp());
        for _ in 0..waiting.uses.min(Usage::HITS_MAX) {
            if let Some(spot) = shard.find(record.hash) {
                shard.touch(spot, stamp());
            }
        }
        Some(waiting)
    }

    /// Empties the buffers that have waited for their deadline, while the device keeps up.
    pub(crate) fn empty_overdue(&self, writer: &mut Writer, now_ms: u64, writes: &mut Writes) {
        let deadline_ms = self.limits.cluster_deadline_ms;
        while let Some(at) = writer.buffers.overdue(now_ms, deadline_ms) {
            if self
                .empty_buffer(writer, at, now_ms, false, writes)
                .is_err()
            {
                break;
            }
        }
    }

    /// Empties all buffers, as far as there is room.
    pub(crate) fn empty_all(&self, writer: &mut Writer, writes: &mut Writes) {
        // The cluster is closed right after, so when it was opened does not matter.
        while !writer.buffers.is_empty() {
            if self.empty_buffer(writer, 0, 0, true, writes).is_err() {
                break;
            }
        }
    }

    /// Do the buffers and the shards agree? For [`Self::audit`].
    pub(crate) fn audit_gathered(
        writer: &Writer,
        shards: &[MutexGuard<'_, Shard>],
    ) -> Result<(), String> {
        let waiting = shards.iter().flat_map(|shard| shard.waiting.iter());
        writer
            .buffers
            .audit(waiting.map(|(&hash, waiting)| Gathered {
                hash: KeyHash(hash),
                handle: waiting.handle,
                bytes: waiting.bytes.len(),
            }))
    }

    fn count_gathered(&self, writer: &Writer) {
        self.gathered_bytes
            .store(writer.buffers.bytes(), Ordering::Relaxed);
    }
}
