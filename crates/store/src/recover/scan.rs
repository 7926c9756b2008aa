//! Finding records on the disk again, region by region.
//!
//! Each chunk is tried as the begin of a record. If the MAC, the place and the checksum prove a record whole, the scan goes on behind
//! it, otherwise at the very next chunk. Whether a record *counts* is decided in [`Store::worth`]: it must be younger than its region's
//! opening and than the horizon, not be invalidated, and be the newest of its key.
//!
//! Meanwhile the store serves. A region not yet scanned is not swept; with an ordered policy nothing is stored before all is
//! scanned, because only then is it known what is free.
//!
//! So that a disk is scanned about as fast as it reads:
//! * bytes are searched when the next reads are under way ([`WorkOp::Yield`](crate::WorkOp::Yield)), and a shell may do it on a thread of its own:
//!   the reads ([`Reads`]) have a lock apart, held for moments. Some disks, virtual ones above all, answer reads that came together
//!   all at once; with a search in between, the disk and the processor would take turns;
//! * a record is verified where it was read to, and copied only if it lies across two reads;
//! * records found are entered some thousands at a time, shard by shard, which costs a lock a shard and lets the memory that the tables
//!   are in be fetched for all at once;
//! * tables that must grow are told how many records to expect.
//!
//! The scan has locks of its own, for which purges do not wait. That of the reads (`scan_reads`) is taken last, also while `scan` is held.
//!
//! Memory: sixteen reads of a megabyte (`scan_reads`), one record, and 16 bytes or so for each record found, until the scan ends.
//! Source: paper 000, section 4.5.

use crate::evict::room::Room;
use crate::index::entry::Entry;
use crate::index::key::{KeyHash, NumberMap};
use crate::index::marker::lasting::Fresh;
use crate::index::pieces::Short;
use crate::lock::lock;
use crate::mistakes::Mistake;
use crate::record::{self, Expected, Head, Header};
use crate::recover::journal::{self};
use crate::recover::scan_reads::{Reading, Reads, ScanStep};
use crate::recover::scanned::{BATCH, Candidate, Scan};
use crate::sequence::Sequence;
use crate::shard::{Fate, Shard};
use crate::store::Store;
use bytes::{Buf, Bytes};
use extent::{Chunk, Chunks, Extent, Unified};
use std::sync::atomic::Ordering;

/// Reads searched in one step, half a millisecond or so: the thread may have other work.
const LOOK_READS: usize = 2;

/// The most room made for keys to come, for each key seen so far.
const SEEN_GROWTH_MAX: usize = 7;

impl Store {
    /// Records of these keys leave the index and may be the newest. Older ones that a scan has yet to find must not take their place.
    /// Called before they leave, with no lock held.
    pub(crate) fn outdate_what_is_found(&self, keys: impl IntoIterator<Item = KeyHash>) {
        let mut guard = lock(&self.scan);
        let Some(scan) = guard.as_mut() else { return };
        if self.limits.mistakes.make(Mistake::LostComesBack) {
            return;
        }
        let newest = self.sequence();
        for hash in keys {
            scan.seen[self.shard_of(hash)].insert(hash.0, newest);
        }
    }

    /// The next step of the scan.
    pub(crate) fn next_scan_step(&self) -> Option<ScanStep> {
        lock(&self.scan_reads).as_mut()?.next_step(&self.geometry)
    }

    /// Is there a finished read to look through?
    pub(crate) fn is_something_to_look_through(&self) -> bool {
        lock(&self.scan_reads)
            .as_ref()
            .is_some_and(Reads::is_something_to_look_through)
    }

    /// A read of the scan is done. `None` if the device refused; its bytes are skipped.
    pub(crate) fn scan_read_done(&self, number: u64, bytes: Option<Bytes>) {
        let mut reads = lock(&self.scan_reads);
        let reading = reads
            .as_mut()
            .and_then(|reads| reads.reads.iter_mut().find(|r| r.number == number));
        if let Some(reading) = reading {
            reading.bytes = Some(bytes);
        }
    }

    /// Searches some of the finished reads, in order, whatever the order in which they came.
    pub(crate) fn look_on(&self) {
        let mut guard = lock(&self.scan);
        let Some(scan) = guard.as_mut() else {
            return;
        };
        for _ in 0..LOOK_READS {
            // In a statement of its own: the lock of the reads is not held while this one is looked through.
            let next = lock(&self.scan_reads).as_mut().and_then(Reads::pop_done);
            let Some(reading) = next else { break };
            let done_bytes = self.take_read(scan, reading);
            if let Some(reads) = lock(&self.scan_reads).as_mut() {
                reads.progress.done_bytes += done_bytes;
                reads.progress.records = scan.records;
            }
        }
        let mut reads_guard = lock(&self.scan_reads);
        let Some(reads) = reads_guard.as_mut() else {
            return;
        };
        reads.looking = false;
        if reads.is_over() {
            drop(reads_guard);
            *guard = None;
            self.end_scan();
            *lock(&self.scan_reads) = None;
        }
    }

    /// Searches one read. Returns how many bytes it had.
    fn take_read(&self, scan: &mut Scan, reading: Reading) -> u64 {
        let mut done_bytes = 0;
        let chunk_bytes = self.geometry.chunk_bytes;
        let first = reading.region * self.geometry.region_chunks
            + (reading.from / u64::from(chunk_bytes)) as u32;
        let end = scan.window_at + (scan.window.len() / chunk_bytes as usize) as u32;
        // With an ordered policy a record may lie across the border of two regions.
        let goes_on = scan.window_region.is_some() && end == first;
        if !goes_on {
            self.end_window(scan);
            scan.window_at = first;
        }
        match reading.bytes.flatten() {
            Some(bytes) => {
                done_bytes = bytes.len() as u64;
                scan.window_region = Some(reading.region);
                self.take_bytes(scan, &bytes);
            }
            None => {
                self.counters.read_failures.add(1);
                self.end_window(scan);
                scan.window_region = None;
                scan.region_is_empty = false;
            }
        }
        if !reading.last_of_region {
            return done_bytes;
        }
        let by_hand = self.limits.policy().is_none();
        if by_hand {
            self.end_window(scan);
            scan.window_region = None;
        }
        // Enter the records before the hand may sweep this region.
        self.enter_batch(scan);
        self.expect_records(scan, done_bytes);
        if let Room::Hand(hand) = &mut self.writer().room {
            // In a region that was not noted, new records would not count after the next crash.
            let opened_at = scan.opened_at[reading.region as usize];
            let noted = opened_at > 0 && opened_at != journal::UNKNOWN;
            hand.scanned(reading.region, scan.region_is_empty && noted);
            if self.limits.mistakes.make(Mistake::EmptyAtOnce) {
                hand.use_at_once();
            }
        }
        scan.region_is_empty = true;
        done_bytes
    }

    /// Finds the records in the bytes of the next read.
    fn take_bytes(&self, scan: &mut Scan, mut bytes: &[u8]) {
        // A record that began in the read before.
        while !scan.window.is_empty() && !bytes.is_empty() {
            let (more, rest) = bytes.split_at(scan.wanted.min(bytes.len()));
            scan.window.extend_from_slice(more);
            bytes = rest;
            self.look_through_window(scan, false);
        }
        if scan.window.is_empty() {
            let first = scan.window_at;
            let done = self.look_through(scan, bytes, first, false);
            scan.window.extend_from_slice(&bytes[done..]);
            scan.window_at += (done / self.chunk_bytes()) as u32;
        }
    }

    /// Ends the window: a record that is incomplete now will stay so.
    fn end_window(&self, scan: &mut Scan) {
        self.look_through_window(scan, true);
        scan.window.clear();
    }

    fn look_through_window(&self, scan: &mut Scan, to_the_end: bool) {
        let mut window = std::mem::take(&mut scan.window);
        let done = self.look_through(scan, &window, scan.window_at, to_the_end);
        window.advance(done);
        scan.window_at += (done / self.chunk_bytes()) as u32;
        scan.window = window;
    }

    /// Finds the records in `bytes`, which lie at chunk `first`. Returns how many bytes were searched: the rest is the beginning of a
    /// record, of which `wanted` more bytes are to come. `to_the_end`: none are.
    fn look_through(&self, scan: &mut Scan, bytes: &[u8], first: u32, to_the_end: bool) -> usize {
        let chunk_bytes = self.chunk_bytes();
        let mut at = 0;
        while bytes.len() - at >= chunk_bytes {
            let here = &bytes[at..];
            let mut step = Chunks(1);
            match self.record_at(here, Chunk(first + (at / chunk_bytes) as u32)) {
                At::Nothing => {}
                At::Incomplete(_) if to_the_end => {}
                At::Incomplete(wanted) => {
                    scan.wanted = wanted;
                    return at;
                }
                At::Record(header, head) => {
                    step = header.extent.len;
                    let worth = self.worth(scan, &header, &head);
                    scan.records += u64::from(worth == Worth::Alive);
                    // A dead record is needed, too: it proves that the record it replaced is dead.
                    scan.region_is_empty &= worth == Worth::Gone;
                    if matches!(worth, Worth::Alive | Worth::Dead) {
                        scan.batch.push(Candidate {
                            hash: header.hash,
                            primary: header.primary,
                            sequence: header.sequence,
                            began: header.began,
                            extent: header.extent,
                            alive: worth == Worth::Alive,
                            doubted: self.was_doubted(scan, &header),
                        });
                        if scan.batch.len() == BATCH {
                            self.enter_batch(scan);
                        }
                    }
                }
            }
            at += step.0 as usize * chunk_bytes;
        }
        at
    }

    /// Is there a whole record at the start of these bytes, which lie at chunk `first`?
    fn record_at<'a>(&self, bytes: &'a [u8], first: Chunk) -> At<'a> {
        if !record::begins(bytes) {
            return At::Nothing;
        }
        let Ok(header) = Header::decode(bytes, &self.secret, self.limits.mistakes) else {
            return At::Nothing;
        };
        let total = Chunks(self.geometry.data_chunks);
        let here = header.extent.first == first && header.extent.fits_in(total);
        let fits = header.extent.len.0 <= self.limits.record_chunks_max;
        if !(here || self.limits.mistakes.make(Mistake::NoPlaceCheck)) || !fits {
            return At::Nothing;
        }
        let len = header.extent.len.0 as usize * self.chunk_bytes();
        let Some(bytes) = bytes.get(..len) else {
            return At::Incomplete(len - bytes.len());
        };
        let expected = Expected {
            secret: &self.secret,
            epoch: self.epoch,
            hash: None,
            extent: Some(Extent::new(first, header.extent.len)),
            chunk_bytes: self.geometry.chunk_bytes,
            mistakes: self.limits.mistakes,
        };
        match record::verify(&header, bytes, expected) {
            Ok(head) => At::Record(header, head),
            Err(_) => At::Nothing,
        }
    }

    /// Does a record that was found count?
    fn worth(&self, scan: &mut Scan, header: &Header, head: &Head<'_>) -> Worth {
        let mistakes = self.limits.mistakes;
        let region = header.extent.first.0 / self.geometry.region_chunks;
        let opened_at = match scan.opened_at[region as usize] {
            // With an ordered policy regions are never noted again, so a journal that was lost once would hide everything for ever.
            journal::UNKNOWN if self.limits.policy().is_some() => 0,
            sequence => sequence,
        };
        // Records of an earlier round are gone, though their bytes are there.
        if header.sequence <= opened_at && !mistakes.make(Mistake::NoOpenedAt) {
            return Worth::Gone;
        }
        // A record stored before the checkpoint was begun is named by it, or was dropped.
        let is_covered = scan.covers.is_some_and(|covers| header.sequence <= covers);
        let name = (Short::of(header.hash), header.extent.len);
        let named = scan.named.get(&header.extent.first.0);
        if is_covered && named.is_none_or(|&(short, len, _)| (short, len) != name) {
            return Worth::Dropped;
        }
        // The horizon does not concern records that the checkpoint covers: the log reaches back to it.
        let is_too_old = header.began < scan.horizon && !is_covered;
        if header.sequence < self.accept_from
            || (is_too_old && !mistakes.make(Mistake::NoHorizon))
            || scan.is_killed(header)
            || self.is_dead(header.primary, header.began, head.key, head.meta)
        {
            return Worth::Dead;
        }
        // The checkpoint has the markers of its records: a marker that is missing was dropped.
        if let Some(marker) = head.marker.as_ref().filter(|_| !is_covered) {
            let primary = header.primary;
            let seen = &scan.seen[self.shard_of(primary)];
            // A record without variants that is newer was stored after the marker had left.
            let is_outlived = seen.get(&primary.0).is_some_and(|&it| it > header.sequence);
            let than_found = scan.variants.get(&primary.0);
            let age = than_found.map(|newest| header.sequence.cmp(newest));
            if is_outlived {
                return Worth::Dead;
            }
            // One salt with two lists: it was given again after a start that could not read the older variant.
            let root = *(scan.roots)
                .entry((primary.0, marker.salt))
                .or_insert(marker.root);
            if root != marker.root {
                self.give_up_salt(primary, marker.salt);
                return Worth::Dead;
            }
            if !self.variant_found(primary, header.began, marker, age) {
                return Worth::Dead;
            }
            let newest = scan.variants.entry(primary.0).or_default();
            *newest = header.sequence.max(*newest);
        }
        Worth::Alive
    }

    /// Was the record soft purged, by its key or by a predicate that is no longer known?
    fn was_doubted(&self, scan: &Scan, header: &Header) -> bool {
        if header.fragment.is_some() && header.total.is_none() {
            return false; // a fragment is reached through its head
        }
        let is_covered = scan.covers.is_some_and(|covers| header.sequence <= covers);
        let named = scan
            .named
            .get(&header.extent.first.0)
            .filter(|_| is_covered);
        let doubted_at = scan.doubts.get(&header.primary.0);
        named.is_some_and(|&(.., doubted)| doubted)
            || doubted_at.is_some_and(|&sequence| sequence > header.began)
            || self
                .shard(self.shard_of(header.primary))
                .softened
                .since(header.primary, header.began)
    }

    /// Enters the records found into the index.
    fn enter_batch(&self, scan: &mut Scan) {
        let mut batch = std::mem::take(&mut scan.batch);
        let shard_of = |record: &Candidate| self.shard_of(record.hash);
        // Stable: of one key's records, those that were found first are entered first.
        batch.sort_by_key(shard_of);
        for group in batch.chunk_by(|a, b| shard_of(a) == shard_of(b)) {
            let number = shard_of(&group[0]);
            let seen = &mut scan.seen[number];
            let writer = self.writer();
            let is_new = |first: Chunk| match &writer.room {
                Room::Hand(hand) => hand.is_new(hand.grid.region_of(first)),
                // Nothing is stored before the end of the scan.
                Room::Book(_) => false,
            };
            let mut shard = self.shard(number);
            // Only look-ups first: they do not depend on each other, so the memory for all of them is fetched at once.
            let known = group
                .iter()
                .filter(|record| {
                    seen.contains_key(&record.hash.0) || shard.find(record.hash).is_some()
                })
                .count();
            std::hint::black_box(known);
            for record in group {
                if record.hash == record.primary && record.alive {
                    let variant = scan.variants.get(&record.primary.0).copied();
                    let is_covered = scan.covers.is_some_and(|it| record.sequence <= it);
                    self.outlive_variants(&mut shard, record, variant, is_covered);
                }
                let entered = self.found(&mut shard, seen, record, is_new);
                self.counters.recovered.add(u64::from(entered));
            }
        }
        batch.clear();
        scan.batch = batch;
    }

    /// A record without variants was stored when its place had no marker. So a marker that was found with older variants, or that the
    /// checkpoint had, is out of date, unless it was set since the start.
    fn outlive_variants(
        &self,
        shard: &mut Shard,
        record: &Candidate,
        variant: Option<Sequence>,
        is_covered: bool,
    ) {
        let is_newer = variant.is_none_or(|variant| variant < record.sequence) && !is_covered;
        if is_newer
            && !shard.fresh.has(self.name_of(record.primary))
            && shard.index.drop_marker(record.primary, false)
        {
            self.has_left(record.primary);
        }
    }

    /// Enters a record into the index if it is alive, unless a newer one of its key is there. A dead record also replaces older ones,
    /// since a predicate may match only the newer of two versions of a key.
    fn found(
        &self,
        shard: &mut Shard,
        seen: &mut NumberMap<u64, Sequence>,
        record: &Candidate,
        is_new: impl Fn(Chunk) -> bool,
    ) -> bool {
        let Candidate {
            hash,
            sequence,
            extent,
            ..
        } = *record;
        let careless = self.limits.mistakes.make(Mistake::ReplacedComesBack);
        if seen
            .get(&hash.0)
            .is_some_and(|&newest| newest > sequence || careless)
        {
            return false;
        }
        let mut alive = record.alive;
        if record.primary == hash && shard.invalidations.since(hash, record.began) {
            alive = false; // invalidated just now
        }
        seen.insert(hash.0, sequence);
        if shard.waiting.contains_key(&hash.0) {
            return false; // stored since the start
        }
        if let Some(spot) = shard.find(hash) {
            let there = shard.entry(spot);
            // In the first case the entry is this record's own.
            if (there.first() == extent.first && alive) || is_new(there.first()) {
                return false;
            }
        }
        // A record of the checkpoint lies in a region that was full when the checkpoint was begun, so it is older. Its readers are told, also if
        // it was swept meanwhile. Its space is dead until the hand comes by, or not yet given to the allocator.
        let _ = shard.kill(hash);
        if !alive {
            return false;
        }
        let (may_come, drops) = shard.clear_marker(hash, record.primary);
        if drops {
            self.has_left(hash);
        }
        if !may_come {
            return false;
        }
        let bytes = u64::from(extent.len.0) * u64::from(self.geometry.chunk_bytes);
        let stamp = self.clock.fetch_add(1, Ordering::Relaxed);
        let entry = Entry::new(extent, false);
        let is_soft = record.primary == hash && shard.softened.since(hash, record.began);
        let entry = match record.doubted || is_soft {
            true => entry.with_doubt(),
            false => entry,
        };
        shard.publish(hash, entry, bytes, stamp);
        true
    }

    /// Tells the tables how many records to expect, estimated from those found so far: a table that grows by an eighth each
    /// time moves each of its entries eight times.
    fn expect_records(&self, scan: &mut Scan, last_bytes: u64) {
        let Some(progress) = self.recovery() else {
            return;
        };
        let done_bytes = progress.done_bytes + last_bytes;
        let left = progress.total_bytes.saturating_sub(done_bytes);
        let a_byte = scan.records as f64 / done_bytes.max(1) as f64;
        let more = (a_byte * left as f64) as usize / self.shards.len();
        for number in 0..self.shards.len() {
            self.shard(number).index.expect(more);
            // The table is dropped when the scan ends, so it may grow at once. The limit is for the beginning, when the estimate is poor.
            let seen = &mut scan.seen[number];
            seen.reserve(more.min(SEEN_GROWTH_MAX * seen.len()));
        }
    }

    /// Ends the scan: all regions have been searched.
    fn end_scan(&self) {
        for number in 0..self.shards.len() {
            self.shard(number).index.expect_no_more();
        }
        if self.limits.policy().is_some() {
            self.rebuild_space();
        } else if let Room::Hand(hand) = &mut self.writer().room {
            hand.end_scan();
        }
        self.scanning.store(false, Ordering::SeqCst);
        for number in 0..self.shards.len() {
            self.shard(number).fresh = Fresh::default();
        }
    }

    /// With an ordered policy: rebuilds the free space, which is all that the records leave.
    //= paper 000 section 4.5   the bit vector is recovered first; heap and tables are rebuilt from it
    pub(crate) fn rebuild_space(&self) {
        let total = Chunks(self.geometry.data_chunks);
        let mut writer = self.writer();
        let mut space = Unified::new_all_free(total);
        // Lock all shards at once: an extent that is freed meanwhile must be either in `freed` or in use here, not both.
        let mut shards: Vec<_> = (0..self.shards.len())
            .map(|number| self.shard(number))
            .collect();
        for shard in &mut shards {
            let mut overlapping = Vec::new();
            for entry in shard.entries() {
                let extent = entry.extent();
                if !(extent.fits_in(total) && space.reserve(extent)) {
                    overlapping.push(entry);
                }
            }
            for entry in overlapping {
                let hash = shard.book.as_ref().and_then(|b| b.hash_of(entry.first()));
                let found = hash.and_then(|hash| Some((hash, shard.find(hash)?)));
                if let Some((hash, spot)) = found {
                    let _ = shard.drop_record(spot, hash, Fate::Killed);
                }
            }
        }
        // Extents of records killed since the start, and still being read.
        for extent in shards.iter().flat_map(|shard| shard.held_extents()) {
            space.reserve(extent);
        }
        if !self.limits.mistakes.make(Mistake::ProtectionOfBefore) {
            writer.protected.take_anew(&mut space);
        }
        writer.space = space;
        lock(&self.freed).clear();
        self.open_for_records.store(true, Ordering::SeqCst);
    }
}

/// How a record that was found counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Worth {
    /// Its space was used again, so it tells nothing about other records.
    Gone,
    /// It was replaced, invalidated or evicted before the checkpoint, and so was the record that it had replaced.
    Dropped,
    /// Invalidated, or perhaps invalidated. The record that it replaced is dead too.
    Dead,
    Alive,
}

/// The result of looking for a record at a chunk.
enum At<'a> {
    Nothing,
    /// A header without the whole record yet: this many bytes are missing.
    Incomplete(usize),
    /// A record's header, and the parts before its body.
    Record(Header, Head<'a>),
}
