//! Making room.
//!
//! *By the hand* (`second-chance`, `reinsertion`; see `region`): a sweep removes the records that begin in the next stretch from the
//! index, some segments at each write, and the regions of the stretch are used one after the other.
//!
//! *By the book* (a policy that orders records). For exact LRU each shard keeps its own order of use; the stamps, drawn
//! from one counter, make the order of the whole store exact. A heap holds for each shard a lower bound of its coldest
//! stamp. Bounds only rise, since a use moves a record to the warm end and new records begin there. So look at the shard with the lowest
//! bound and correct that bound; if it is still the lowest, this shard has the coldest record of all. Other policies
//! choose within a shard, and the shards take turns. Victims lie scattered, and freeing them leaves small holes: when a record finds
//! no run after [`EVICTIONS_MAX`] victims, or if [`SCATTERED_PERCENT_MAX`] of the store lie in such holes already, everything in a
//! stretch of the area is evicted, by a hand that goes round. Without the second condition every large record would evict that many
//! records in vain, until most of the store consists of holes (62 % with GDSF on the Boston University traces).
//!
//! Not evicted by the book: records that are being written, since their space could not be used yet; and needed
//! records (`needed`), which go to the warm end when their turn comes. After [`SPARED_MAX`] of those in a row one is
//! evicted.

use crate::evict::left::Name;
use crate::evict::need;
use crate::evict::region::Hand;
use crate::evict::room::{Book, Room};
use crate::lock::lock;
use crate::mistakes::Mistake;
use crate::sequence::Sequence;
use crate::shard::Fate;
use crate::store::Store;
use crate::write::cluster::Writes;
use crate::write::writer::Writer;
use extent::{Chunk, Chunks, Extent};
use std::cmp::Reverse;
use std::sync::atomic::Ordering;

/// Evictions that one insert does to bring the store below its watermark, and again to find a run.
const EVICTIONS_MAX: usize = 64;

/// Percent of the store that may be free beyond the low watermark: more victims of the policy would hardly make a run.
const SCATTERED_PERCENT_MAX: u64 = 10;

/// Needed records that one eviction sends to the warm end.
const SPARED_MAX: usize = 256;

/// Stretches that one insert clears to find a run.
const STRETCHES_MAX: usize = 2;

impl Store {
    /// Before each insert.
    pub(crate) fn make_room(&self, writer: &mut Writer, _len: Chunks) {
        if let Room::Book(_) = writer.room {
            self.reclaim(writer);
            self.shed(writer);
        }
    }

    /// Takes a run of `at_least` to `want` chunks, and makes room for it if necessary.
    pub(crate) fn cut(
        &self,
        writer: &mut Writer,
        at_least: Chunks,
        want: u32,
        writes: &mut Writes,
    ) -> Option<Extent> {
        let want = Chunks(want.max(at_least.0));
        match writer.room {
            Room::Hand(_) => self.cut_by_hand(writer, at_least, want, writes),
            Room::Book(_) => self.cut_by_book(writer, at_least, want),
        }
    }

    fn cut_by_hand(
        &self,
        writer: &mut Writer,
        at_least: Chunks,
        want: Chunks,
        writes: &mut Writes,
    ) -> Option<Extent> {
        loop {
            if let Some(run) = writer.space.cut_largest(at_least, want) {
                return Some(run);
            }
            // A record that is a write of its own may find room in the open cluster's tail.
            if writer.open.is_some() {
                writes.push(self.close_cluster(writer));
                if let Some(run) = writer.space.cut_largest(at_least, want) {
                    return Some(run);
                }
            }
            // The rest of this region is lost until the hand comes back.
            while let Some(piece) = writer.space.largest() {
                let reserved = writer.space.reserve(piece);
                debug_assert!(reserved);
            }
            let Room::Hand(hand) = &mut writer.room else {
                return None;
            };
            let region = hand.advance()?;
            writer.space.free(region);
            for bad in lock(&self.bad).iter() {
                if region.covers(*bad) {
                    writer.space.reserve(*bad);
                }
            }
            self.leave_to_readers(writer, region);
            for place in writer.protected.within(region) {
                writer.space.reserve(place);
            }
        }
    }

    /// Goes on with the sweep in step with the writes: `written` chunks are about to be written.
    pub(crate) fn sweep_some(&self, writer: &mut Writer, written: Chunks) {
        let is_full = !writer.has_some_room();
        let Room::Hand(hand) = &mut writer.room else {
            return;
        };
        let segments = self.shards.len() * self.limits.segments;
        let lead = hand.grid.lead_chunks() as usize;
        // Sweep twice as fast as the lead fills, so that half of the lead is left for the note to become durable.
        let mut steps = (segments * written.0 as usize * 2).div_ceil(lead);
        while steps > 0 && hand.sweep_or_begin(self.is_kept(hand)).is_some() {
            steps = self.sweep_steps(hand, steps, is_full);
        }
    }

    /// Sweeps at most `steps` segments. Returns the steps left over when the sweep has ended; 0 if it waits for moves.
    /// `is_full`: nothing is left of the region that is being filled.
    pub(crate) fn sweep_steps(&self, hand: &mut Hand, mut steps: usize, is_full: bool) -> usize {
        let segments = self.limits.segments;
        let all = self.shards.len() * segments;
        let spares = !self.is_scanning();
        while let Some(sweep) = &mut hand.sweep {
            let stretch = hand.grid.extent(sweep.regions.clone());
            let at = sweep.next_segment;
            if steps == 0 && at < all {
                break;
            }
            if at == all {
                let is_stuck = is_full && hand.ahead() == 0;
                if self.sweep_waits(hand, is_stuck) {
                    return 0;
                }
                hand.end_sweep();
                hand.aging.sweep_ends(self.sequence());
                self.coming_listed(hand.listing.sweep_ends());
                self.hand_at.store(hand.next_chunk().0, Ordering::Relaxed);
                self.look_ahead();
                break;
            }
            if at == 0 {
                let sweeps = hand.grid.regions.div_ceil(hand.grid.stretch_regions);
                hand.aging.sweep_begins(self.all_opened_after(), sweeps);
                if self.limits.replacement.reinserted_percent().is_some() {
                    let next = hand.grid.stretch_at(sweep.regions.end % hand.grid.regions);
                    let passes = self.limits.usage_bits.passes_a_round();
                    let next = hand.grid.extent(next);
                    hand.listing.sweep_begins(next, sweeps, passes);
                }
            }
            let mut shard = self.shard(at / segments);
            let mut left = lock(&self.left);
            let leaves = |short| left.add_swept(Name::new(at, short));
            let spared = &mut sweep.spared;
            let swept = shard.sweep_segment(at % segments, stretch, spares, spared, leaves);
            drop(left);
            if hand.aging.is_passing() {
                shard.index.age_markers(at % segments, usize::MAX, |_| ());
            }
            hand.listing.pass(shard.index.segment_mut(at % segments));
            drop(shard);
            self.counters.evictions.add(swept.records);
            self.counters.evicted_chunks.add(swept.chunks);
            sweep.next_segment += 1;
            steps -= 1;
        }
        steps
    }

    /// The lowest `opened_at`. Records that are not younger lie in regions that were opened since.
    fn all_opened_after(&self) -> Sequence {
        let opened = self.opened_at.iter().map(|at| at.load(Ordering::Relaxed));
        opened.min().unwrap_or(0)
    }

    /// Is no write to that region under way? Readers there do not matter: see [`Self::leave_to_readers`].
    pub(crate) fn region_is_quiet(&self, region: Extent) -> bool {
        if self.limits.mistakes.make(Mistake::FreeWhileRead) {
            return true;
        }
        let flying = lock(&self.flights)
            .iter()
            .any(|flight| flight.extent.overlaps(region));
        !flying && (0..self.shards.len()).all(|number| !self.shard(number).writes_within(region))
    }

    /// Chunks of a region that are still being read are not given to the allocator until the hand comes back. With a
    /// long queue of reads most regions have one, and waiting for each would leave no room. No new read can begin
    /// there, since the sweep has removed the records from the index.
    fn leave_to_readers(&self, writer: &mut Writer, region: Extent) {
        if self.limits.mistakes.make(Mistake::FreeWhileRead) {
            return;
        }
        let mut left = Vec::new();
        for number in 0..self.shards.len() {
            left.extend(self.shard(number).read_within(region));
        }
        for pinned in left {
            // A record stored with an earlier policy may reach over the region's border.
            let first = Chunk(pinned.first.0.max(region.first.0));
            let end = Chunk(pinned.end().0.min(region.end().0));
            writer.space.reserve(Extent::between(first, end));
        }
    }

    fn cut_by_book(&self, writer: &mut Writer, at_least: Chunks, want: Chunks) -> Option<Extent> {
        for _ in 0..EVICTIONS_MAX {
            if let Some(run) = writer.space.cut_largest(at_least, want) {
                return Some(run);
            }
            if self.is_scattered(writer) || !self.evict_one(writer) {
                break;
            }
        }
        for _ in 0..STRETCHES_MAX {
            self.clear_stretch(writer, at_least);
            if let Some(run) = writer.space.cut_largest(at_least, want) {
                return Some(run);
            }
        }
        None
    }

    /// Is much space free, but not in one run?
    fn is_scattered(&self, writer: &Writer) -> bool {
        let total = u64::from(writer.space.total().0);
        let free = u64::from(writer.space.free_chunks().0);
        let beside = 100 - u64::from(self.limits.watermarks.low_percent.min(100));
        free * 100 > total * (beside + SCATTERED_PERCENT_MAX)
    }

    /// Takes back the extents that readers and invalidations have freed.
    pub(crate) fn reclaim(&self, writer: &mut Writer) {
        if !self.takes_records() {
            return; // the allocator does not know the used chunks yet
        }
        let freed = std::mem::take(&mut *lock(&self.freed));
        freed
            .into_iter()
            .for_each(|extent| writer.give_back(extent));
    }

    /// Evicts down to the low watermark once the high one is reached, some records at a time.
    fn shed(&self, writer: &mut Writer) {
        let total = u64::from(writer.space.total().0);
        let used = |writer: &Writer| total - u64::from(writer.space.free_chunks().0);
        let now = used(writer);
        let Room::Book(book) = &mut writer.room else {
            return;
        };
        if book.shed_to.is_none() {
            let excess = self.limits.watermarks.excess(now, total);
            book.shed_to = excess.map(|excess| now - excess.min(now));
        }
        let Some(target) = book.shed_to else { return };
        for _ in 0..EVICTIONS_MAX {
            if used(writer) <= target {
                if let Room::Book(book) = &mut writer.room {
                    book.shed_to = None;
                }
                return;
            }
            if !self.evict_one(writer) {
                return;
            }
        }
    }

    /// Evicts the record whose turn it is. False if there is none that can be evicted now.
    fn evict_one(&self, writer: &mut Writer) -> bool {
        let exact = self
            .shard(0)
            .book
            .as_ref()
            .is_some_and(|book| book.is_order_of_use());
        let Room::Book(book) = &mut writer.room else {
            return false;
        };
        let evicted = if exact {
            self.evict_coldest(book)
        } else {
            self.evict_in_turn(book)
        };
        let Some((chunks, freed)) = evicted else {
            return false;
        };
        freed
            .into_iter()
            .for_each(|extent| writer.give_back(extent));
        self.counters.evictions.add(1);
        self.counters.evicted_chunks.add(u64::from(chunks.0));
        true
    }

    /// The coldest record of the store: its chunks, and its extent if nothing holds it.
    fn evict_coldest(&self, book: &mut Book) -> Option<(Chunks, Option<Extent>)> {
        let mut set_aside = Vec::new();
        let mut evicted = None;
        let mut spared = 0;
        while let Some(Reverse((bound, number))) = book.bounds.pop() {
            let mut shard = self.shard(number);
            // Records that enter this shard later get this stamp or a higher one.
            let now = self.clock.load(Ordering::Relaxed);
            let coldest = shard.book.as_ref().and_then(crate::book::Book::coldest);
            let Some((hash, stamp)) = coldest else {
                set_aside.push(Reverse((now, number)));
                continue;
            };
            let spot = shard
                .find(hash)
                .expect("a record in the book that the index does not know breaks S1");
            let entry = shard.entry(spot);
            if stamp > bound {
                book.bounds.push(Reverse((stamp, number)));
            } else if entry.is_writing() {
                set_aside.push(Reverse((bound, number)));
            } else if spared < SPARED_MAX && need::is_needed(&shard.needed, hash) {
                spared += 1;
                shard.touch(spot, self.clock.fetch_add(1, Ordering::Relaxed));
                book.bounds.push(Reverse((bound, number)));
            } else {
                let freed = shard.drop_record(spot, hash, Fate::Evicted);
                let next = shard.book.as_ref().and_then(crate::book::Book::coldest);
                book.bounds
                    .push(Reverse((next.map_or(now, |(_, stamp)| stamp), number)));
                evicted = Some((entry.extent().len, freed));
                break;
            }
        }
        book.bounds.extend(set_aside);
        evicted
    }

    /// The next shard's victim.
    fn evict_in_turn(&self, book: &mut Book) -> Option<(Chunks, Option<Extent>)> {
        for tried in 0..self.shards.len() + SPARED_MAX {
            let number = book.next_shard % self.shards.len();
            book.next_shard = number + 1;
            let mut shard = self.shard(number);
            let victim = shard.book.as_mut().and_then(crate::book::Book::victim);
            let Some((hash, _)) = victim else { continue };
            let spot = shard
                .find(hash)
                .expect("a record in the book that the index does not know breaks S1");
            let extent = shard.entry(spot).extent();
            let len = extent.len;
            if tried < SPARED_MAX && need::is_needed(&shard.needed, hash) {
                // The policy has removed it, so add it again.
                let bytes = u64::from(len.0) * self.chunk_bytes() as u64;
                let stamp = self.clock.fetch_add(1, Ordering::Relaxed);
                if let Some(book) = &mut shard.book {
                    book.insert(hash, extent, bytes, stamp);
                }
                continue;
            }
            return Some((len, shard.drop_record(spot, hash, Fate::Evicted)));
        }
        None
    }

    /// Evicts the records that begin in the next stretch, so that `needed` chunks in a row become free, if nobody reads there.
    fn clear_stretch(&self, writer: &mut Writer, needed: Chunks) {
        let Room::Book(book) = &mut writer.room else {
            return;
        };
        let stretch = book.next_stretch(needed, &self.geometry);
        let mut freed = Vec::new();
        for number in 0..self.shards.len() {
            let swept = self.shard(number).clear(stretch, &mut freed);
            self.counters.stretch_evictions.add(swept.records);
            self.counters.evicted_chunks.add(swept.chunks);
        }
        freed
            .into_iter()
            .for_each(|extent| writer.give_back(extent));
    }
}
