//! Storing: a record gets its place, goes into the index, and is copied to where it will be written from.
//!
//! One lock protects the state of the writer (`writer`). An insert computes the checksum (and for a large
//! record makes the copy) outside the lock. Under the lock it makes room, takes an extent, publishes, copies, and
//! seals the header with the MAC.
//!
//! A record is published before its bytes are in the buffer; a look-up at that moment waits for the lock. So an
//! insert that comes too late, because its key was invalidated meanwhile, has used no space.
//!
//! There is one open cluster, closed when the writer goes on to the next region, so that regions remain in the order of time. With
//! locality buffers (`gather`) records of one server wait together before they come to it.
//!
//! Limits: see `evict` for the work of making room; [`IN_FLIGHT_BYTES_MAX`](crate::settings::IN_FLIGHT_BYTES_MAX) in flight, beyond which the device is
//! behind and nothing is stored.

use crate::index::entry::Entry;
use crate::index::key::KeyHash;
use crate::index::reading::Renewal;
use crate::index::usage::{Usage, UsageBits};
use crate::lock::lock;
use crate::mistakes::Mistake;
use crate::record::{
    self, HEADER_BYTES, KEY_BYTES_MAX, META_BYTES_MAX, NewRecord, Placed, RecordParts, Sums,
};
use crate::sequence::Sequence;
use crate::settings::CLUSTERS_IN_FLIGHT_MIN;
use crate::shard::Shard;
use crate::store::Store;
use crate::write::cluster::{Flight, OpenCluster, Records, Write, WriteId, Writes};
use crate::write::writer::Writer;
use bytes::{Bytes, BytesMut};
use extent::{Chunk, Chunks, Extent};
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard};

/// The result of storing a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// It can be looked up from now on.
    Stored,
    /// No run of free chunks that long could be made.
    NoSpace,
    /// Larger than this store takes: the record, its key or metadata, or the whole object.
    TooLarge,
    /// Its primary key was invalidated since the fill began; the policy refuses it; or, for a renewal, the record has changed.
    Invalidated,
    /// Writes failed lately, or the store is closed or not yet recovered.
    Paused,
    /// The device is behind with writing.
    Behind,
}

/// The result of an insert.
#[derive(Debug)]
#[must_use = "the writes are to be carried out"]
pub struct Inserted {
    /// The result for the record.
    pub outcome: Outcome,
    /// The write that holds the record. `None` if it was not stored, or waits in a locality buffer and has no place yet.
    pub cluster: Option<WriteId>,
    /// Writes to carry out, whatever the outcome.
    pub writes: Writes,
}

/// The write that holds a record, `None` if it has no place yet; or why it was not stored.
pub(crate) type Placement = Result<Option<WriteId>, Outcome>;

/// Memory in which a record's body lies where it will be on the disk: behind [`BodyLayout::before`] bytes, see [`Store::layout_of`].
pub trait InPlace {
    /// The bytes before the body, and those behind it.
    fn around(&mut self) -> (&mut [u8], &mut [u8]);
    /// The whole record, in memory aligned to 4096 bytes. Nothing changes it from here on.
    fn share(&mut self) -> Bytes;
}

/// Where in its record a body lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BodyLayout {
    /// Bytes before it.
    pub before: usize,
    /// Bytes of the record with its padding.
    pub record: usize,
}

/// A record on its way in.
#[derive(Clone, Copy)]
pub(crate) struct Incoming<'a> {
    pub record: &'a NewRecord<'a>,
    /// For a variant, its primary's marker as the record carries it; otherwise empty.
    pub marker: &'a [u8],
    pub len: Chunks,
    pub sums: &'a Sums,
    pub now_ms: u64,
    pub again: Option<Again>,
}

impl Incoming<'_> {
    fn at_once(&self) -> bool {
        self.again.is_some_and(|again| again.at_once)
    }
}

/// How a record is written again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Again {
    /// The place of the original.
    pub copy_of: Chunk,
    /// Write it even while the device is behind, and into the room kept for moves.
    pub at_once: bool,
    /// Write it only if this many sweeps have ended: as many as when the original was listed, so that it is not swept yet.
    pub sweeps: Option<u64>,
}

impl Again {
    pub(crate) fn of(renewal: Renewal, at_once: bool) -> Self {
        Again {
            copy_of: renewal.first,
            at_once,
            sweeps: None,
        }
    }
}

/// A record that is copied whole: all of its buffer counts as before the body.
struct Copied(BytesMut);

impl InPlace for Copied {
    fn around(&mut self) -> (&mut [u8], &mut [u8]) {
        (&mut self.0, &mut [])
    }

    fn share(&mut self) -> Bytes {
        std::mem::take(&mut self.0).freeze()
    }
}

impl Store {
    /// Stores one record: it goes to the cluster buffer and can be looked up at once. An older record of the same
    /// hash is replaced, and its readers may not serve it any more.
    ///
    /// `now_ms` is the time in milliseconds since 1970. The writes are to be carried out whatever the outcome.
    pub fn insert(&self, record: &NewRecord<'_>, now_ms: u64) -> Inserted {
        self.insert_as(record, None, None, now_ms)
    }

    /// As [`Self::insert`], but if the body lies at the right offset in `laid`, it is not copied, and the record is a write of its own.
    /// Otherwise `laid` is left unchanged.
    pub fn insert_laid(
        &self,
        record: &NewRecord<'_>,
        laid: &mut dyn InPlace,
        now_ms: u64,
    ) -> Inserted {
        self.insert_as(record, Some(laid), None, now_ms)
    }

    /// Where a body of `body_len` bytes will lie in the record. A marker set later may change that. The body in `record` is ignored.
    /// `None` if the record would not be stored.
    pub fn layout_of(&self, record: &NewRecord<'_>, body_len: u64) -> Option<BodyLayout> {
        let marker = match record.is_variant() {
            true => self.carried(record.primary)?,
            false => Vec::new(),
        };
        let (before, end) = record.layout(&marker, body_len);
        let chunks = record::chunks_for(end, self.geometry.chunk_bytes)?;
        Some(BodyLayout {
            before: usize::try_from(before).ok()?,
            record: chunks as usize * self.chunk_bytes(),
        })
    }

    /// Gives a record that was read a second chance: writes it again, so that it is not swept with its stretch.
    pub fn renew(&self, renewal: Renewal, parts: &RecordParts, now_ms: u64) -> Inserted {
        // A part of a large object has the object's window, so that all parts stay or leave together.
        if !self.may_renew_part(renewal.first, parts) || self.is_left_to_the_sweep(parts) {
            return Inserted {
                outcome: Outcome::Invalidated,
                cluster: None,
                writes: Writes::default(),
            };
        }
        let inserted = self.write_again(renewal, parts, Again::of(renewal, false), now_ms);
        if inserted.outcome == Outcome::Stored {
            self.counters.second_chances.add(1);
        }
        inserted
    }

    /// Writes a record again, without the checks of [`Self::renew`].
    pub(crate) fn write_again(
        &self,
        renewal: Renewal,
        parts: &RecordParts,
        again: Again,
        now_ms: u64,
    ) -> Inserted {
        // The copy would begin at the read, after the soft purge, and so be out of doubt. (A fragment's doubt is that of its head.)
        if parts.doubted && parts.fragment.is_none() {
            return Inserted {
                outcome: Outcome::Invalidated,
                cluster: None,
                writes: Writes::default(),
            };
        }
        let record = NewRecord {
            hash: renewal.hash,
            primary: parts.primary,
            key: &parts.key,
            meta: &parts.meta,
            body: &[&parts.body],
            fragment: parts.fragment,
            total: parts.total,
            began: renewal.began,
            server: 0,
        };
        let was_due = self.is_due(renewal.first);
        let inserted = self.insert_as(&record, None, Some(again), now_ms);
        if inserted.outcome == Outcome::Stored
            && was_due
            && self.is_needed(renewal.hash)
            && let Some(chunks) = self.chunks_of(&record, &[])
        {
            self.no_longer_due(chunks.0);
        }
        inserted
    }

    fn insert_as(
        &self,
        record: &NewRecord<'_>,
        laid: Option<&mut dyn InPlace>,
        again: Option<Again>,
        now_ms: u64,
    ) -> Inserted {
        let mut writes = Writes::default();
        let inserted = self.try_insert(record, laid, again, now_ms, &mut writes);
        let (outcome, cluster) = match inserted {
            Ok(cluster) => (Outcome::Stored, cluster),
            Err(why_not) => (why_not, None),
        };
        match outcome {
            Outcome::Stored if again.is_some() => {}
            Outcome::Stored => {
                self.counters.inserts.add(1);
                self.counters.insert_bytes.add(record.record_bytes(&[]));
            }
            Outcome::NoSpace => self.counters.refused_no_space.add(1),
            Outcome::TooLarge => self.counters.refused_too_large.add(1),
            Outcome::Invalidated => self.counters.refused_invalidated.add(1),
            Outcome::Paused => self.counters.refused_paused.add(1),
            Outcome::Behind => self.counters.refused_behind.add(1),
        }
        Inserted {
            outcome,
            cluster,
            writes,
        }
    }

    fn try_insert(
        &self,
        record: &NewRecord<'_>,
        laid: Option<&mut dyn InPlace>,
        again: Option<Again>,
        now_ms: u64,
        writes: &mut Writes,
    ) -> Placement {
        let marker = match record.is_variant() {
            true => self.carried(record.primary),
            false => Some(Vec::new()),
        };
        let Some(marker) = marker else {
            return Err(Outcome::Invalidated);
        };
        let Some(len) = self.chunks_of(record, &marker) else {
            return Err(Outcome::TooLarge);
        };
        if self.pause.is_on(now_ms) || !self.takes_records() {
            return Err(Outcome::Paused);
        }
        // A record in doubt may stay where it is, but is not stored anew: its predicate is dropped some day (`prune_predicates`).
        if self.is_invalid(record.primary, record.began, record.key, record.meta)
            || self.is_doubted(record.began, record.key, record.meta)
        {
            return Err(Outcome::Invalidated);
        }
        let sums = record.sums(&marker);
        let incoming = Incoming {
            record,
            marker: &marker,
            len,
            sums: &sums,
            now_ms,
            again,
        };
        let is_gathered = self.is_gathered(record.server, len);
        if again.is_none() && is_gathered != self.gathers.load(Ordering::Relaxed) {
            self.gathers.store(is_gathered, Ordering::Relaxed);
        }
        let laid = laid.and_then(|laid| {
            let (before, end) = record.layout(&marker, record.body_len());
            let all = u64::from(len.0) * self.chunk_bytes() as u64;
            let around = laid.around();
            let fits = around.0.len() as u64 == before && around.1.len() as u64 == all - end;
            fits.then_some(laid)
        });
        if laid.is_some() || len.0 > self.limits.cluster_chunks {
            self.insert_alone(incoming, laid, writes)
        } else if is_gathered {
            self.insert_gathered(incoming, writes)
        } else {
            self.insert_in_cluster(incoming, writes)
        }
    }

    fn chunks_of(&self, record: &NewRecord<'_>, marker: &[u8]) -> Option<Chunks> {
        let chunks = record::chunks_for(record.record_bytes(marker), self.geometry.chunk_bytes)?;
        let fits = record.key.len() <= KEY_BYTES_MAX
            && record.meta.len() <= META_BYTES_MAX
            && chunks <= self.limits.record_chunks_max
            && record
                .total
                .is_none_or(|total| total.bytes <= self.limits.object_bytes_max);
        fits.then_some(Chunks(chunks))
    }

    /// The usual case: the record goes into the open cluster, behind the previous one.
    fn insert_in_cluster(&self, incoming: Incoming<'_>, writes: &mut Writes) -> Placement {
        let mut guard = self.writer();
        let writer = &mut *guard;
        if self.is_closed_to_inserts() {
            return Err(Outcome::Paused);
        }
        self.make_room(writer, incoming.len);
        let Incoming { len, now_ms, .. } = incoming;
        self.open_for(writer, len, now_ms, incoming.at_once(), writes)?;
        let open = writer
            .open
            .as_mut()
            .expect("a cluster with room was found or opened above");
        let extent = open.next(incoming.len);
        if !self.publish(incoming, extent) {
            return Err(Outcome::Invalidated);
        }
        let place = open.append(incoming.record.hash, extent, self.chunk_bytes());
        (incoming.record).write_parts(incoming.marker, &incoming.sums.table, place);
        place[..HEADER_BYTES].copy_from_slice(&self.seal(incoming, extent));
        let id = open.id();
        self.close_if_full(writer, writes);
        Ok(Some(id))
    }

    /// Makes sure that there is an open cluster with room for `len` chunks. With `at_once` one is opened even while
    /// the device is behind, and in the room kept for moves.
    pub(crate) fn open_for(
        &self,
        writer: &mut Writer,
        len: Chunks,
        now_ms: u64,
        at_once: bool,
        writes: &mut Writes,
    ) -> Result<(), Outcome> {
        if !at_once && self.keeps_room(writer) {
            return Err(Outcome::NoSpace);
        }
        if self.has_room(writer, len) {
            return Ok(());
        }
        if !at_once && self.is_behind() {
            return Err(Outcome::Behind);
        }
        // Closing frees the cluster's tail before the next run is cut, so the next run can begin where the cluster ends.
        writes.push(self.close_cluster(writer));
        let Some(run) = self.cut(writer, len, self.limits.cluster_chunks, writes) else {
            return Err(Outcome::NoSpace);
        };
        let id = writer.next_write();
        writer.open = Some(OpenCluster::new(id, self.pool.take(), run, now_ms));
        Ok(())
    }

    pub(crate) fn close_if_full(&self, writer: &mut Writer, writes: &mut Writes) {
        let open = writer.open.as_ref();
        if open.is_some_and(|open| open.is_full(self.limits.full_chunks)) {
            writes.push(self.close_cluster(writer));
        }
    }

    /// Stores a record as a write of its own: it is larger than a cluster, or its body lies in place already.
    fn insert_alone(
        &self,
        incoming: Incoming<'_>,
        laid: Option<&mut dyn InPlace>,
        writes: &mut Writes,
    ) -> Placement {
        let mut copied;
        let memory = match laid {
            Some(laid) => {
                let (before, behind) = laid.around();
                (incoming.record).write_front(incoming.marker, &incoming.sums.table, before);
                behind.fill(0);
                laid
            }
            None => {
                let bytes = incoming.len.0 as usize * self.chunk_bytes();
                copied = Copied(crate::memory::aligned(bytes));
                (incoming.record).write_parts(incoming.marker, &incoming.sums.table, &mut copied.0);
                &mut copied
            }
        };
        let mut guard = self.writer();
        let writer = &mut *guard;
        if self.is_closed_to_inserts() {
            return Err(Outcome::Paused);
        }
        self.make_room(writer, incoming.len);
        if !incoming.at_once() && self.is_behind() {
            return Err(Outcome::Behind);
        }
        if !incoming.at_once() && self.keeps_room(writer) {
            return Err(Outcome::NoSpace);
        }
        let Some(extent) = self.cut(writer, incoming.len, incoming.len.0, writes) else {
            return Err(Outcome::NoSpace);
        };
        if !self.publish(incoming, extent) {
            writer.space.free(extent);
            return Err(Outcome::Invalidated);
        }
        memory.around().0[..HEADER_BYTES].copy_from_slice(&self.seal(incoming, extent));
        let records = vec![(incoming.record.hash, extent.first)];
        let id = writer.next_write();
        let write = self.hand_out(writer, id, extent, memory.share(), records);
        writes.push(Some(write));
        Ok(Some(id))
    }

    /// Puts the record into the index, unless its fill began before an invalidation of its primary key.
    ///
    /// If the record is the primary one, the check and the publication are one step under the lock that `invalidate` takes.
    /// A variant or fragment may lie in another shard, so that an invalidation may come between. That is harmless: the
    /// record is reached only through its marker or head record, which are gone by then. The next marker has another salt,
    /// and a new head names another fetch.
    fn publish(&self, incoming: Incoming<'_>, extent: Extent) -> bool {
        let record = incoming.record;
        let Some(mut shard) = self.admitting_shard(incoming) else {
            return false;
        };
        // A newer version keeps the usage of the previous one, since it is asked for as often.
        let usage = match self.limits.usage_bits {
            UsageBits::NONE => Usage::default(),
            _ => shard.usage_of(record.hash),
        };
        let (replaced, freed) = match incoming.again {
            None => shard.kill(record.hash),
            Some(_) => (true, shard.make_way(record.hash)),
        };
        self.queue_freed(freed);
        let stamp = self.clock.fetch_add(1, Ordering::Relaxed);
        let entry = Entry::new(extent, true).with_usage(match incoming.again {
            Some(_) => usage,
            None => Usage { age: 0, ..usage },
        });
        shard.publish(
            record.hash,
            entry,
            record.record_bytes(incoming.marker),
            stamp,
        );
        drop(shard);
        if incoming.again.is_none() {
            self.counters.replaced.add(u64::from(replaced));
        }
        true
    }

    /// The record's shard, locked, if the record may be published there, see [`Self::publish`].
    pub(crate) fn admitting_shard(&self, incoming: Incoming<'_>) -> Option<MutexGuard<'_, Shard>> {
        let record = incoming.record;
        let number = self.shard_of(record.hash);
        let primary = self.shard_of(record.primary);
        let careless = self.limits.mistakes.make(Mistake::IgnoreBegan);
        if primary != number || !incoming.marker.is_empty() {
            let mut shard = self.shard(primary);
            if !shard.admits(record.primary, record.began) && !careless {
                return None;
            }
            // The look-up is also a use, so that a marker stays as long as anything stored under it, see `evict/aging`.
            if !incoming.marker.is_empty() && shard.index.marker(record.primary).is_none() {
                return None;
            }
        }
        let mut shard = self.shard(number);
        // Check again after the extent was taken: see `prune_predicates`.
        let life = (record.primary, record.began);
        if !self.admits(&shard, number, life, record.key, record.meta) {
            return None;
        }
        if let Some(Again {
            copy_of, sweeps, ..
        }) = incoming.again
            && !self.is_careless_again(sweeps)
        {
            let now = shard.find(record.hash).map(|spot| shard.entry(spot));
            // Refuse if the record was replaced or removed, or if a soft purge has met it, since the copy would not be stale.
            let is_other = |entry: Entry| entry.first() != copy_of || entry.is_writing();
            let is_swept = sweeps.is_some_and(|n| n != self.sweeps.load(Ordering::Relaxed));
            if is_swept || now.is_none_or(|entry| is_other(entry) || entry.is_doubted()) {
                return None;
            }
        }
        if let Some(book) = &shard.book
            && !book.admits(record.record_bytes(incoming.marker))
        {
            return None;
        }
        let (may_come, drops) = shard.clear_marker(record.hash, record.primary);
        if drops {
            self.has_left(record.hash);
        }
        // Also for a record that is no variant: the scan may find a variant, which would set a marker in this place.
        if may_come && self.is_scanning() {
            shard.fresh.add(self.name_of(record.hash));
        }
        may_come.then_some(shard)
    }

    fn is_careless_again(&self, sweeps: Option<u64>) -> bool {
        sweeps.is_some() && self.limits.mistakes.make(Mistake::ReinsertTheDead)
    }

    /// Do the predicates admit a record whose fill began at `began`, and does the primary key, if it is of this shard?
    pub(crate) fn admits(
        &self,
        shard: &Shard,
        number: usize,
        (primary, began): (KeyHash, Sequence),
        key: &[u8],
        meta: &[u8],
    ) -> bool {
        let careless = self.limits.mistakes.make(Mistake::IgnoreBegan);
        if self.is_matched(began, key, meta) && !careless {
            return false;
        }
        if self.is_doubted(began, key, meta) {
            return false;
        }
        // Read after the predicates: if one was dropped before it was asked, `fills_from` is raised already.
        if began < self.fills_from.load(Ordering::SeqCst) && !careless {
            return false;
        }
        self.shard_of(primary) != number || shard.admits(primary, began) || careless
    }

    fn seal(&self, incoming: Incoming<'_>, extent: Extent) -> [u8; HEADER_BYTES] {
        let placed = Placed {
            epoch: self.epoch,
            extent,
            sequence: self.next_sequence(),
            stored_unix_ms: incoming.now_ms,
            checksum: incoming.sums.checksum,
        };
        let header = incoming.record.header(incoming.marker, placed);
        header.encode(&self.secret)
    }

    /// Is there room for `len` chunks in the open cluster, if need be by growing into free chunks behind it?
    fn has_room(&self, writer: &mut Writer, len: Chunks) -> bool {
        let Some(open) = &mut writer.open else {
            return false;
        };
        if open.left() >= len {
            return true;
        }
        match open.wanted_behind(len, self.limits.cluster_chunks) {
            // With the hand, these are in the same region: the allocator has no free chunks elsewhere.
            Some(behind) if writer.space.reserve(behind) => {
                open.grow(behind.len);
                true
            }
            _ => false,
        }
    }

    /// Freezes the open cluster, if there is one, into a write and gives back what is left of its run.
    pub(crate) fn close_cluster(&self, writer: &mut Writer) -> Option<Write> {
        let open = writer.open.take()?;
        open.tail()
            .into_iter()
            .for_each(|tail| writer.space.free(tail));
        let id = open.id();
        match open.close(self.chunk_bytes()) {
            Ok((extent, data, records)) => Some(self.hand_out(writer, id, extent, data, records)),
            Err(buffer) => {
                self.pool.give_back_mut(buffer);
                None
            }
        }
    }

    fn hand_out(
        &self,
        writer: &mut Writer,
        id: WriteId,
        extent: Extent,
        data: Bytes,
        records: Records,
    ) -> Write {
        writer.bytes_since_checkpoint += data.len() as u64;
        self.sweep_some(writer, extent.len);
        self.counters.writes.add(1);
        self.counters.write_bytes.add(data.len() as u64);
        let offset = self.geometry.offset_of(extent.first.0);
        let count = u32::try_from(records.len()).unwrap_or(u32::MAX);
        lock(&self.flights).push(Flight {
            id,
            extent,
            data: data.clone(),
            records: Some(Arc::new(records)),
        });
        Write {
            id,
            offset,
            data,
            records: count,
        }
    }

    /// Is so much being written that the device gets no more now? Records that wait in locality buffers count too.
    pub fn is_behind(&self) -> bool {
        let gathered = self.gathered_bytes.load(Ordering::Relaxed);
        let flights = lock(&self.flights);
        flights.len() >= CLUSTERS_IN_FLIGHT_MIN
            && gathered + flights.iter().map(Flight::bytes).sum::<usize>()
                >= self.limits.in_flight_bytes_max
    }

    /// Empties the locality buffers and closes the open cluster whose deadlines have passed. Call it about every
    /// tenth of a second.
    pub fn tick(&self, now_ms: u64) -> Writes {
        let mut guard = self.writer();
        let writer = &mut *guard;
        let mut writes = Writes::default();
        self.empty_overdue(writer, now_ms, &mut writes);
        if let Some(open) = &mut writer.open
            && !self.is_behind()
        {
            // If the clock was set back, the wait starts again.
            open.opened_ms = open.opened_ms.min(now_ms);
            if now_ms - open.opened_ms >= self.limits.cluster_deadline_ms {
                writes.push(self.close_cluster(writer));
            }
        }
        writes
    }

    /// Empties the locality buffers, as far as there is room, and closes the open cluster, full or not.
    pub fn flush(&self) -> Writes {
        let mut writes = Writes::default();
        let mut writer = self.writer();
        self.empty_all(&mut writer, &mut writes);
        writes.push(self.close_cluster(&mut writer));
        writes
    }

    /// A write has been carried out (`ok`) or has failed. A failure drops the records of that cluster and pauses
    /// storing, at first for a second, then longer. An unknown `id` is ignored.
    pub fn write_done(&self, id: WriteId, ok: bool, now_ms: u64) {
        let records = {
            let mut flights = lock(&self.flights);
            let flight = flights.iter_mut().find(|flight| flight.id == id);
            flight.and_then(|flight| flight.records.take())
        };
        let Some(records) = records else { return };
        if !ok {
            self.outdate_what_is_found(records.iter().map(|&(hash, _)| hash));
        }
        for &(hash, first) in records.iter() {
            let mut shard = self.shard(self.shard_of(hash));
            // The record's place may be reused at once. Look-ups make sure that the flight's buffer is not taken for the new
            // record.
            let freed = shard.written(hash, first, ok);
            self.queue_freed(freed);
            if !ok {
                self.has_left(hash);
            }
        }
        let mut flights = lock(&self.flights);
        let at = flights.iter().position(|flight| flight.id == id);
        let flight = flights.swap_remove(at.expect("only who took its records removes a flight"));
        drop(flights);
        self.pool.give_back(flight.data);
        if ok {
            self.pause.succeeded();
        } else {
            self.pause.failed(now_ms);
            self.counters.write_failures.add(1);
        }
    }
}
