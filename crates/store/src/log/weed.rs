//! Weeding: older records are read and compared with the predicates, so that the predicates can be dropped.
//!
//! ```text
//!   predicates   1 .. 40,000 | 40,001 ..          those up to `upto` are dropped at the end, those that came later stay
//!   records      [ batch of places, in order ][ next batch ] ...
//!                  read, verified, compared: dead ones leave the index, stale ones are marked in it
//! ```
//!
//! A weeding begins when predicates take a good part of their room (`predicates`). It goes through the index in batches of
//! places, reads what lies there in the order of the disk, and compares each record that is older than `upto`, the newest
//! predicate when it began. If the record that the index means is not found there, its entry leaves the index too: a later read might
//! succeed. At the end every record that a predicate up to `upto` matches has left the index or is marked as stale.
//! Records stored meanwhile are compared when they are published; fills that began before `upto` are refused from the end on.
//!
//! A dead record's bytes stay on the disk, but no crash brings them back: a checkpoint that was begun before the end of the weeding has
//! the predicates, and a later one does not have the record. Without a checkpoint the log's horizon counts. A stale
//! record's mark is part of its entry, and so of every later checkpoint.
//!
//! A read that the device refuses is tried again after one, ten and a hundred seconds; then its records leave the index.
//!
//! A region that was opened after `upto` holds nothing older and is not read. The weeding waits for records that are being written.
//!
//! Limits: one read under way, of [`READ_BYTES`] or one record; a pause of at least [`PAUSE_TIMES`] its duration, and at most
//! [`BYTES_A_MS`]; when half of the room is taken, four times as fast. In memory [`BATCH`] places, 16 bytes each, four times as
//! many if they lie unevenly.
//! Not known here: what a predicate means.
//! Source: docs/decisions/0029.

use crate::evict::left::Name;
use crate::jobs::Background;
use crate::lock::lock;
use crate::log::weeding::{Bed, Place, Stage, WeedStep, Weeding};
use crate::record::{self, Expected, Head, Header};
use crate::recover::journal;
use crate::sequence::Sequence;
use crate::shard::Fate;
use crate::store::Store;
use bytes::Bytes;
use extent::Chunk;

/// Bytes read at once; one record may be longer.
const READ_BYTES: u64 = 1 << 20;

/// A gap of up to this length between two records is read along.
const GAP_BYTES: u64 = 64 << 10;

/// Places gathered in one pass through the index.
const BATCH: usize = 1 << 17;

/// A read is followed by a pause of this many times its duration.
const PAUSE_TIMES: u64 = 3;

/// The pause is also long enough that no more than this is read: 32 MiB a second.
const BYTES_A_MS: u64 = (32 << 20) / 1000;

/// The longest pause.
const PAUSE_MS_MAX: u64 = 100_000;

/// A read that failed is tried again this many times; the first time after a second, then each time after ten times as long.
const TRIES: u32 = 3;

/// If at least this percentage of the predicates' room is taken, pauses are shorter by [`HURRY_TIMES`].
const HURRY_PERCENT: u64 = 50;
const HURRY_TIMES: u64 = 4;

impl Store {
    /// The next step, if one is due.
    pub(crate) fn next_weed_step(&self, background: &Background, now_ms: u64) -> Option<WeedStep> {
        if Self::is_idle(background) || self.is_scanning() || !self.takes_records() {
            return None;
        }
        let mut bed = lock(&self.weeding);
        if let Bed::Idle = *bed {
            let upto = {
                let predicates = lock(&self.predicates);
                predicates.wants_weeding().then(|| predicates.newest())?
            };
            *bed = Bed::Here(Box::new(self.new_weeding(upto)));
        }
        let Bed::Here(weeding) = &mut *bed else {
            return None;
        };
        if weeding.handed_out {
            return None;
        }
        let step = match weeding.stage {
            Stage::Read => self.next_weed_read(weeding, background, now_ms)?,
            Stage::Gather | Stage::Look | Stage::End => WeedStep::Look,
        };
        weeding.handed_out = true;
        Some(step)
    }

    /// In how many milliseconds [`Self::next_work`] may have something without a wake-up; at most `longest`.
    pub fn next_work_in_ms(&self, now_ms: u64, longest: u64) -> u64 {
        match &*lock(&self.weeding) {
            Bed::Here(weeding) if !weeding.handed_out => weeding
                .not_before_ms
                .saturating_sub(now_ms)
                .clamp(1, longest),
            _ => longest,
        }
    }

    fn new_weeding(&self, upto: Sequence) -> Weeding {
        let records: usize = (0..self.shards.len()).map(|n| self.shard(n).len()).sum();
        let chunks = u64::from(self.geometry.data_chunks);
        Weeding {
            upto,
            stage: Stage::Gather,
            handed_out: false,
            next_chunk: 0,
            window_chunks: (chunks * BATCH as u64 / records.max(BATCH) as u64).max(1) as u32,
            places: Vec::new(),
            at: 0,
            span: 0..0,
            bytes: None,
            failed_reads: 0,
            read_began_ms: 0,
            not_before_ms: 0,
        }
    }

    /// Is everything in the region newer than `upto`?
    fn is_opened_since(&self, background: &Background, first: u32, upto: Sequence) -> bool {
        let opened_at = background
            .journal
            .opened_at(first / self.geometry.region_chunks);
        self.limits.policy().is_none() && opened_at != journal::UNKNOWN && opened_at >= upto
    }

    fn next_weed_read(
        &self,
        weeding: &mut Weeding,
        background: &Background,
        now_ms: u64,
    ) -> Option<WeedStep> {
        // A clock that was set back ends the pause.
        weeding.not_before_ms = weeding.not_before_ms.min(now_ms + PAUSE_MS_MAX);
        if now_ms < weeding.not_before_ms {
            return None;
        }
        while let Some(place) = weeding.places.get(weeding.at)
            && self.is_opened_since(background, place.first, weeding.upto)
        {
            weeding.at += 1;
        }
        let rest = &weeding.places[weeding.at..];
        let Some(&begin) = rest.first() else {
            weeding.stage = match weeding.next_chunk < self.geometry.data_chunks {
                true => Stage::Gather,
                false => Stage::End,
            };
            return Some(WeedStep::Look);
        };
        let chunk_bytes = u64::from(self.geometry.chunk_bytes);
        let (mut end, mut count) = (begin.first, 0);
        for place in rest {
            let reaches = u64::from(place.first - begin.first + place.chunks) * chunk_bytes;
            let gap = u64::from(place.first.saturating_sub(end)) * chunk_bytes;
            if count > 0 && (reaches > READ_BYTES || gap > GAP_BYTES) {
                break;
            }
            if place.was_writing && self.is_being_written(*place) {
                break;
            }
            end = end.max(place.first + place.chunks);
            count += 1;
        }
        if count == 0 {
            return None; // it will be written before long
        }
        weeding.span = weeding.at..weeding.at + count;
        weeding.read_began_ms = now_ms;
        Some(WeedStep::Read {
            offset: self.geometry.offset_of(begin.first),
            len: (end - begin.first) as usize * self.chunk_bytes(),
        })
    }

    fn is_being_written(&self, place: Place) -> bool {
        let (shard, segment) = self.segment_of_place(place);
        self.shard(shard).is_writing_at(segment, Chunk(place.first))
    }

    fn segment_of_place(&self, place: Place) -> (usize, usize) {
        let segments = self.limits.segments;
        (
            place.segment as usize / segments,
            place.segment as usize % segments,
        )
    }

    /// A step that was handed out is carried out; `bytes` are those of a read that succeeded.
    pub(crate) fn weed_on(&self, bytes: Option<Bytes>, now_ms: u64) {
        let taken = std::mem::replace(&mut *lock(&self.weeding), Bed::Busy);
        let Bed::Here(mut weeding) = taken else {
            *lock(&self.weeding) = taken;
            return;
        };
        weeding.handed_out = false;
        match weeding.stage {
            Stage::Gather => {
                self.gather_places(&mut weeding);
                weeding.stage = Stage::Read;
            }
            Stage::Read if bytes.is_none() && weeding.failed_reads < TRIES => {
                weeding.not_before_ms = now_ms + 1000 * 10u64.pow(weeding.failed_reads);
                weeding.failed_reads += 1;
                self.counters.read_failures.add(1);
            }
            Stage::Read => {
                self.pause_weeding(&mut weeding, now_ms);
                weeding.failed_reads = 0;
                weeding.bytes = bytes;
                weeding.stage = Stage::Look;
            }
            Stage::Look => {
                self.weed_span(&mut weeding);
                weeding.at = weeding.span.end;
                weeding.stage = Stage::Read;
            }
            Stage::End => {
                self.drop_predicates(weeding.upto);
                self.counters.weedings.add(1);
                *lock(&self.weeding) = Bed::Idle;
                return;
            }
        }
        *lock(&self.weeding) = Bed::Here(weeding);
    }

    fn pause_weeding(&self, weeding: &mut Weeding, now_ms: u64) {
        let span = &weeding.places[weeding.span.clone()];
        let chunks: u64 = span.iter().map(|place| u64::from(place.chunks)).sum();
        let bytes = chunks * u64::from(self.geometry.chunk_bytes);
        self.counters.weeding_bytes.add(bytes);
        let took_ms = now_ms.saturating_sub(weeding.read_began_ms);
        let mut pause_ms = (took_ms * PAUSE_TIMES).max(bytes / BYTES_A_MS);
        if lock(&self.predicates).percent_taken() >= HURRY_PERCENT {
            pause_ms /= HURRY_TIMES;
        }
        weeding.not_before_ms = now_ms + pause_ms;
    }

    /// Gathers the next batch of records in the index, in the order of places.
    fn gather_places(&self, weeding: &mut Weeding) {
        let (begin, data_chunks) = (weeding.next_chunk, self.geometry.data_chunks);
        loop {
            let end = begin.saturating_add(weeding.window_chunks).min(data_chunks);
            weeding.places.clear();
            for number in 0..self.shards.len() * self.limits.segments {
                let shard = self.shard(number / self.limits.segments);
                let entries = shard.index.segment(number % self.limits.segments).iter();
                let within = entries.filter(|(_, e)| (begin..end).contains(&e.first().0));
                weeding.places.extend(within.map(|(_, entry)| Place {
                    first: entry.first().0,
                    chunks: entry.extent().len.0,
                    segment: number as u32,
                    was_writing: entry.is_writing(),
                }));
            }
            if weeding.places.len() <= 4 * BATCH || weeding.window_chunks == 1 {
                weeding.next_chunk = end;
                break;
            }
            weeding.window_chunks /= 2;
        }
        weeding.places.sort_unstable_by_key(|place| place.first);
        weeding.at = 0;
    }

    /// Compares the records of the last read.
    fn weed_span(&self, weeding: &mut Weeding) {
        let places = &weeding.places[weeding.span.clone()];
        let Some(begin) = places.first().map(|place| place.first) else {
            return;
        };
        let bytes = weeding.bytes.take();
        let upto = weeding.upto;
        // In a region that was opened again meanwhile nothing is left to be compared.
        let is_new: Vec<bool> = {
            let background = self.background();
            let is_new = |p: &Place| self.is_opened_since(&background, p.first, upto);
            places.iter().map(is_new).collect()
        };
        for (&place, is_new) in places.iter().zip(is_new) {
            let at = (place.first - begin) as usize * self.chunk_bytes();
            let len = place.chunks as usize * self.chunk_bytes();
            let record = bytes.as_ref().and_then(|bytes| bytes.get(at..at + len));
            if is_new || record.is_some_and(|record| self.is_weeded(place, record, upto)) {
                continue;
            }
            let (number, segment) = self.segment_of_place(place);
            let mut shard = self.shard(number);
            let (found, freed) = shard.kill_at(segment, Chunk(place.first));
            if let Some(short) = found {
                // Under the lock: a thread that finds the record gone must find its name.
                let name = Name::new(place.segment as usize, short);
                lock(&self.left).add(name, self.sequence());
                self.counters.weeded.add(1);
            }
            drop(shard);
            self.queue_freed(freed);
        }
    }

    /// Compares one record. False if it is not the one that the index means.
    fn is_weeded(&self, place: Place, bytes: &[u8], upto: Sequence) -> bool {
        let Ok(header) = Header::decode(bytes, &self.secret, self.limits.mistakes) else {
            return false;
        };
        let expected = Expected {
            secret: &self.secret,
            epoch: self.epoch,
            hash: None,
            extent: Some(place.extent()),
            chunk_bytes: self.geometry.chunk_bytes,
            mistakes: self.limits.mistakes,
        };
        let Ok(Head { key, meta, .. }) = record::verify(&header, bytes, expected) else {
            return false;
        };
        let number = self.shard_of(header.hash);
        let is_its =
            |shard: usize, segment: usize| (shard, segment) == self.segment_of_place(place);
        let met = self.meet(header.began, key, meta);
        let mut shard = self.shard(number);
        let spot = shard
            .find(header.hash)
            .filter(|spot| is_its(number, spot.segment))
            .filter(|&spot| shard.entry(spot).first().0 == place.first);
        let Some(spot) = spot else { return false };
        if header.began >= upto {
            return true;
        }
        if met.dead {
            let freed = shard.drop_record(spot, header.hash, Fate::Killed);
            let freed = shard.keep_if_needed(header.hash, place.extent(), freed);
            // The record that this one had replaced was not purged, and may be found after a crash if this one's bytes are not.
            self.has_left(header.hash);
            drop(shard);
            self.queue_freed(freed);
            self.counters.weeded.add(1);
        } else if met.stale && (header.fragment.is_none() || header.total.is_some()) {
            // A fragment is reached through its head, so the mark of the head is enough.
            shard.doubt(spot);
        }
        true
    }
}
