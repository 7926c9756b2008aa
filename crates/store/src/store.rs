//! The store as its callers see it, but for looking up (`look_up`) and storing (`writer`): verify, invalidate, count.
//!
//! Shared by all threads. Locks, in the order in which they may be taken:
//!
//! 1. `background`: log, journal, checkpoint. No look-up takes it.
//! 2. `scan`: what a start has yet to find. Held while a read is looked through, so nobody waits for it who holds another.
//!    `weeding`: what is read next for it; not held meanwhile.
//! 3. `writer`: allocator, open cluster, locality buffers, eviction. No hit from disk takes it.
//! 4. `shards`: each a part of the index, chosen by key hash. Held for a look-up, never two at once (but by `audit`).
//! 5. `flights`, `freed`, `bad`, `predicates`, `left`, `pool`, `scan_reads`, `moves`: short. Nothing is taken while one is held.
//!
//! An extent freed under a shard's lock alone goes to `freed` (at most one a record), from where the writer takes it, so that
//! the allocator needs no lock of its own. With the policy `second-chance` it is dead space instead, until the hand comes by.

use crate::book;
use crate::evict::grid::Grid;
use crate::evict::left::{Left, Name};
use crate::evict::need::{self, Moves};
use crate::evict::region::Hand;
use crate::evict::room::{Book, Room};
use crate::figures::{Counters, Figures};
use crate::geometry::Geometry;
use crate::index::key::{KeyHash, KeyHasher};
use crate::index::pieces::{Short, segment_of};
use crate::index::reading::Read;
use crate::jobs::Background;
use crate::lock::lock;
use crate::log::predicates::{Met, Predicates};
use crate::log::weeding::Bed;
use crate::memory::Pool;
use crate::mistakes::Mistake;
use crate::pause::Pause;
use crate::record::corrupt::Corrupt;
use crate::record::{Expected, HEADER_BYTES, RecordParts};
use crate::recover::journal::{self, Journal};
use crate::recover::picture;
use crate::recover::scan_reads::Reads;
use crate::recover::scanned::Scan;
use crate::recover::superblock::Superblock;
use crate::secret::{Pseudonyms, Secret};
use crate::sequence::Sequence;
use crate::settings::{Limits, Replacement};
use crate::shard::Shard;
use crate::write::cluster::Flight;
use crate::write::locality::Buffers;
use crate::write::writer::Writer;
use bytes::Bytes;
use extent::{Chunk, Extent, Unified};
use replacement::PolicyKind;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};

/// The object store: deterministic, without any I/O; callers carry out the [`Read`]s and [`Write`](crate::Write)s it asks for.
pub struct Store {
    pub(crate) geometry: Geometry,
    pub(crate) limits: Limits,
    pub(crate) secret: Secret,
    pub(crate) epoch: u64,
    hasher: KeyHasher,
    pub(crate) accept_from: Sequence,
    pub(crate) shards: Box<[Mutex<Shard>]>,
    /// Of each region, as durably noted: what has a lower sequence was left there by an earlier round. 0: nobody knows.
    pub(crate) opened_at: Box<[AtomicU64]>,
    /// Uses so far: the stamps of exact LRU.
    pub(crate) clock: AtomicU64,
    pub(crate) sequence: AtomicU64,
    pub(crate) background: Mutex<Background>,
    pub(crate) scan: Mutex<Option<Scan>>,
    pub(crate) scan_reads: Mutex<Option<Reads>>,
    pub(crate) writer: Mutex<Writer>,
    /// A region was ready when the writer was last let go.
    is_ready: AtomicBool,
    pub(crate) flights: Mutex<Vec<Flight>>,
    /// Bytes waiting in locality buffers.
    pub(crate) gathered_bytes: AtomicUsize,
    /// Recent records named their server and were gathered.
    pub(crate) gathers: AtomicBool,
    pub(crate) freed: Mutex<Vec<Extent>>,
    /// Extents that could not be read and are not reused.
    pub(crate) bad: Mutex<Vec<Extent>>,
    pub(crate) predicates: Mutex<Predicates>,
    /// Fills that began below may be matched by a predicate.
    pub(crate) predicates_until: AtomicU64,
    /// Fills that began below are refused, because predicates that might match them were dropped.
    pub(crate) fills_from: AtomicU64,
    /// The weeding: older records are read so that predicates can be dropped.
    pub(crate) weeding: Mutex<Bed>,
    /// Records that left the index and may be found after a crash.
    pub(crate) left: Mutex<Left>,
    /// Where the next stretch to be swept begins.
    pub(crate) hand_at: AtomicU32,
    /// Chunks ahead of the hand in which a read record of middling length is written again (`window`).
    pub(crate) window_chunks: u32,
    /// Chunks ahead of the hand in which a needed record is moved.
    pub(crate) look_ahead_chunks: u32,
    /// Chunks ahead of the hand that are swept next.
    pub(crate) stretch_chunks: u32,
    pub(crate) moves: Mutex<Moves>,
    /// The number of needs and their bytes; each shard has its own table.
    pub(crate) needs: AtomicU64,
    pub(crate) needed_bytes: AtomicU64,
    /// Chunks of what is needed and lies in the stretch that the hand comes to next, or somewhat more.
    pub(crate) due_chunks: AtomicU32,
    pub(crate) pool: Pool,
    pub(crate) pause: Pause,
    /// The writes of the opening.
    pub(crate) opening: Mutex<Vec<(u64, Bytes)>>,
    /// False while the allocator does not know the free chunks yet.
    pub(crate) open_for_records: AtomicBool,
    /// A scan may still find newer versions, so records are not written again: the copy would pass for the newest.
    pub(crate) scanning: AtomicBool,
    pub(crate) closed: AtomicBool,
    /// Another process has it: nothing is found here any more.
    pub(crate) gone: AtomicBool,
    pub(crate) counters: Counters,
}

/// Extents that can be set aside; beyond that, bad ones are used again.
pub(crate) const BAD_MAX: usize = 4096;

impl Store {
    /// `space` and `hand_at` are as found; nothing is in the index yet.
    pub(crate) fn with(
        superblock: &Superblock,
        limits: Limits,
        sequence: Sequence,
        hand_at: u32,
        background: Background,
    ) -> Self {
        let geometry = superblock.geometry.clone();
        let cluster_bytes = limits.cluster_chunks as usize * geometry.chunk_bytes as usize;
        let total = extent::Chunks(geometry.data_chunks);
        let (space, room) = match limits.replacement {
            Replacement::SecondChance { .. } => {
                // The hand has everything; it gives the allocator a region at a time.
                let all = Extent::new(Chunk(0), total);
                let space = Unified::from_used(total, std::iter::once(all))
                    .expect("the whole area is within the area");
                (space, Room::Hand(Hand::new(Grid::of(&geometry), hand_at)))
            }
            Replacement::Ordered(_) => (
                Unified::new_all_free(total),
                Room::Book(Book::new(limits.shards)),
            ),
        };
        let window_percent = match limits.replacement {
            Replacement::SecondChance { window_percent } => u64::from(window_percent),
            Replacement::Ordered(_) => 0,
        };
        let window_chunks = u64::from(geometry.data_chunks) * window_percent / 100;
        let hand_chunk = match &room {
            Room::Hand(hand) => hand.next_chunk().0,
            Room::Book(_) => 0,
        };
        let (stretch_chunks, look_ahead_chunks) = match &room {
            Room::Hand(Hand { grid, .. }) => {
                (grid.stretch_chunks(), grid.look_ahead_chunks(&geometry))
            }
            Room::Book(_) => (0, 0),
        };
        let buffers = Buffers::new(&limits, geometry.chunk_bytes);
        let predicates = Predicates::new(
            limits.manner,
            limits.words,
            picture::predicates_bytes_max(&geometry),
        );
        let shard = || Shard::new(limits.segments, limits.policy().map(book::Book::new));
        Self {
            secret: superblock.secret,
            epoch: superblock.epoch,
            hasher: KeyHasher::new(superblock.hash_seed),
            accept_from: superblock.accept_from,
            shards: (0..limits.shards).map(|_| Mutex::new(shard())).collect(),
            opened_at: (0..geometry.regions()).map(|_| AtomicU64::new(0)).collect(),
            clock: AtomicU64::new(1),
            sequence: AtomicU64::new(sequence),
            background: Mutex::new(background),
            scan: Mutex::default(),
            scan_reads: Mutex::default(),
            writer: Mutex::new(Writer::new(space, room, buffers)),
            is_ready: AtomicBool::new(false),
            flights: Mutex::default(),
            gathered_bytes: AtomicUsize::new(0),
            gathers: AtomicBool::new(false),
            freed: Mutex::default(),
            bad: Mutex::default(),
            predicates: Mutex::new(predicates),
            weeding: Mutex::default(),
            left: Mutex::default(),
            predicates_until: AtomicU64::new(0),
            fills_from: AtomicU64::new(0),
            hand_at: AtomicU32::new(hand_chunk),
            window_chunks: window_chunks as u32,
            stretch_chunks,
            look_ahead_chunks,
            moves: Mutex::default(),
            needs: AtomicU64::new(0),
            needed_bytes: AtomicU64::new(0),
            due_chunks: AtomicU32::new(0),
            pool: Pool::new(cluster_bytes),
            pause: Pause::default(),
            opening: Mutex::default(),
            open_for_records: AtomicBool::new(true),
            scanning: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            gone: AtomicBool::new(false),
            counters: Counters::default(),
            geometry,
            limits,
        }
    }

    /// Makes key hashes for this store.
    pub fn hasher(&self) -> KeyHasher {
        self.hasher
    }

    /// Makes pseudonyms, under a secret that no other proxy is told.
    pub fn pseudonyms(&self) -> Pseudonyms {
        self.secret.pseudonyms()
    }

    /// Where the parts of the store lie.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Is storing paused, because a write failed (`pause`)?
    pub fn is_paused(&self, now_ms: u64) -> bool {
        self.pause.is_on(now_ms)
    }

    /// The largest object this store takes, in bytes of body.
    pub fn object_bytes_max(&self) -> u64 {
        self.limits.object_bytes_max
    }

    /// Does the policy take a record with so many bytes of key, metadata and body? It refuses in silence.
    pub fn policy_takes(&self, record_bytes: impl FnOnce() -> u64) -> bool {
        match self.limits.policy() {
            Some(PolicyKind::LruThreshold { size_max }) => {
                HEADER_BYTES as u64 + record_bytes() <= size_max
            }
            _ => true,
        }
    }

    /// Bodies larger than this are to be cut into fragments of this size.
    pub fn fragment_bytes(&self) -> u32 {
        self.limits.fragment_bytes
    }

    /// The store's epoch: with another one it has nothing of what was stored before.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The present sequence. A fill, a promotion to memory or a revalidation notes it when it begins.
    pub fn sequence(&self) -> Sequence {
        self.sequence.load(Ordering::SeqCst)
    }

    pub(crate) fn next_sequence(&self) -> Sequence {
        self.sequence.fetch_add(1, Ordering::SeqCst) + 1
    }

    /// Was `primary` invalidated or put in doubt since `began`? Errs on the side of yes. To be asked again before anything that
    /// began then is published or served: [`Store::read_done`] knows only of the record, so a reader of
    /// a *variant* asks here as well.
    pub fn invalidated_since(&self, primary: KeyHash, began: Sequence) -> bool {
        !self.shard(self.shard_of(primary)).admits(primary, began) || self.is_handed_over()
    }

    /// Verifies a record's bytes and takes them apart. The caller compares the full key.
    ///
    /// # Errors
    /// The bytes are not a whole record of this hash in this store. Never panics, whatever they are. The caller
    /// is to [`forget`](Self::forget) the record.
    pub fn decode(&self, bytes: &Bytes, expect: KeyHash) -> Result<RecordParts, Corrupt> {
        self.verify(bytes, expect, None)
    }

    /// As [`Self::decode`], and the record must be the one of exactly this place, which also notices a misdirected
    /// read that brought an older version. To be asked before [`Self::read_done`].
    ///
    /// # Errors
    /// As [`Self::decode`].
    pub fn decode_read(&self, bytes: &Bytes, read: &Read) -> Result<RecordParts, Corrupt> {
        self.verify(bytes, read.hash, Some(read.extent))
    }

    /// As [`Self::decode`], or, with the read that brought the bytes, as [`Self::decode_read`]; but an invalidation does not count. For
    /// who has promised the record to a client while it was alive, and [needs](crate::Needs) it since.
    ///
    /// # Errors
    /// As [`Self::decode`].
    pub fn decode_needed(
        &self,
        bytes: &Bytes,
        expect: KeyHash,
        read: Option<&Read>,
    ) -> Result<RecordParts, Corrupt> {
        let parts = self.decode_whole(bytes, expect, read.map(|read| read.extent))?;
        // Bytes of an earlier epoch are not the promised record.
        match parts.sequence < self.accept_from {
            true => Err(Corrupt::Invalidated),
            false => Ok(parts),
        }
    }

    /// Verifies that a record is whole, of this store, of this key, and in its place.
    fn decode_whole(
        &self,
        bytes: &Bytes,
        hash: KeyHash,
        extent: Option<Extent>,
    ) -> Result<RecordParts, Corrupt> {
        crate::record::decode(bytes, self.expected(hash, extent))
    }

    pub(crate) fn expected(&self, hash: KeyHash, extent: Option<Extent>) -> Expected<'_> {
        Expected {
            secret: &self.secret,
            epoch: self.epoch,
            hash: Some(hash),
            extent,
            chunk_bytes: self.geometry.chunk_bytes,
            mistakes: self.limits.mistakes,
        }
    }

    pub(crate) fn verify(
        &self,
        bytes: &Bytes,
        hash: KeyHash,
        extent: Option<Extent>,
    ) -> Result<RecordParts, Corrupt> {
        let mut verified = self.decode_whole(bytes, hash, extent);
        if let Ok(parts) = &mut verified {
            let met = self.meet(parts.began, &parts.key, &parts.meta);
            let standing = self.standing_of(parts, hash, extent);
            if parts.sequence < self.accept_from
                || standing.dead
                || (met.dead && !self.limits.mistakes.make(Mistake::NoPredicateCheck))
            {
                verified = Err(Corrupt::Invalidated);
            } else {
                parts.doubted = met.stale || standing.stale;
            }
        }
        match &verified {
            Ok(_) => {}
            Err(Corrupt::Hash) => self.counters.other_keys.add(1),
            Err(Corrupt::Invalidated) => self.counters.invalidated.add(1),
            Err(_) => self.counters.corrupt.add(1),
        }
        verified
    }

    /// A lost write leaves the record of the earlier round, perhaps of the same key and purged since.
    fn is_of_earlier_round(&self, sequence: Sequence, extent: Extent) -> bool {
        let region = extent.first.0 / self.geometry.region_chunks;
        let opened_at = self.opened_at.get(region as usize);
        opened_at.is_some_and(|opened_at| sequence <= opened_at.load(Ordering::Relaxed))
            && !self.limits.mistakes.make(Mistake::NoOpenedAt)
    }

    /// The journal says when its regions were opened.
    pub(crate) fn note_openings(&self, journal: &Journal) {
        for (region, opened_at) in (0..).zip(&self.opened_at) {
            let sequence = match journal.opened_at(region) {
                journal::UNKNOWN => 0,
                sequence => sequence,
            };
            opened_at.store(sequence, Ordering::Relaxed);
        }
    }

    /// Compares a record with purges of single keys.
    fn standing_of(&self, parts: &RecordParts, hash: KeyHash, extent: Option<Extent>) -> Met {
        let number = self.shard_of(parts.primary);
        let shard = self.shard(number);
        let (primary, began) = (parts.primary, parts.began);
        // A lost write may leave a whole older record of the same key in the same place, which may have been purged.
        let mut dead = extent.is_some() && shard.invalidations.is_known_since(primary, began);
        // What waits in a locality buffer has no entry to be marked.
        let mut stale = shard.soft.since(primary, began)
            || (extent.is_none() && shard.softened.since(primary, began));
        let first = extent.map(|extent| extent.first);
        let (is_doubted, is_indexed) = match self.shard_of(hash) == number {
            true => shard.marks_of(hash, first),
            false => {
                // Never two at once.
                drop(shard);
                self.shard(self.shard_of(hash)).marks_of(hash, first)
            }
        };
        stale |= is_doubted;
        // A record that was evicted while it was read may be served, even if its region was noted meanwhile.
        dead |= is_indexed
            && extent.is_some_and(|extent| self.is_of_earlier_round(parts.sequence, extent));
        Met { dead, stale }
    }

    /// How predicates since then meet a record.
    pub(crate) fn meet(&self, began: Sequence, key: &[u8], meta: &[u8]) -> Met {
        if began >= self.predicates_until.load(Ordering::SeqCst) {
            return Met::default();
        }
        lock(&self.predicates).meet(began, key, meta)
    }

    /// Was what began then invalidated by a predicate since?
    pub(crate) fn is_matched(&self, began: Sequence, key: &[u8], meta: &[u8]) -> bool {
        self.meet(began, key, meta).dead
    }

    /// Was what began then put in doubt by a predicate since ([`crate::Manner::soft`])?
    pub fn is_doubted(&self, began: Sequence, key: &[u8], meta: &[u8]) -> bool {
        self.meet(began, key, meta).stale
    }

    /// Was the primary key put in doubt since ([`Self::doubt`])? Errs on the side of no.
    pub fn is_softened_since(&self, primary: KeyHash, began: Sequence) -> bool {
        let shard = self.shard(self.shard_of(primary));
        shard.softened.is_known_since(primary, began)
    }

    /// Percent of the room for predicates that is taken; at 100 one more is refused.
    pub fn predicates_percent(&self) -> u64 {
        lock(&self.predicates).percent_taken()
    }

    /// May a predicate match a record that began then?
    pub fn predicates_since(&self, began: Sequence) -> bool {
        began < self.predicates_until.load(Ordering::SeqCst)
    }

    /// Is there room for a record of this length, or will it be made at once? After a start, and in a small store
    /// with fast writes, it takes a moment.
    pub fn has_room_for(&self, bytes: u64) -> bool {
        let no_move_is_due = self.due_chunks.load(Ordering::Relaxed) == 0;
        if no_move_is_due && self.is_ready.load(Ordering::Relaxed) {
            return self.takes_records();
        }
        let writer = self.writer();
        let has_room = match &writer.room {
            Room::Hand(hand) => {
                let chunks = bytes.div_ceil(u64::from(self.geometry.chunk_bytes));
                let free = writer.space.largest().map_or(0, |piece| piece.len.0);
                let is_free = hand.is_ready() || u64::from(free) >= chunks;
                is_free && !self.is_kept(hand)
            }
            Room::Book(_) => true,
        };
        drop(writer);
        has_room && self.takes_records()
    }

    /// Should the background thread be woken to make room? It also looks by itself from time to time. In doubt yes.
    pub fn wants_room(&self) -> bool {
        let is_short = match &self.writer().room {
            Room::Hand(hand) => hand.is_short(),
            Room::Book(_) => true,
        };
        is_short || self.wants_moves()
    }

    /// Was anything evicted since the store was opened?
    pub fn has_evicted(&self) -> bool {
        self.counters.evictions.get() > 0
    }

    /// Was a fill that began then invalidated since, by its primary key or by a predicate? Errs on the side of yes.
    pub fn is_invalid(&self, primary: KeyHash, began: Sequence, key: &[u8], meta: &[u8]) -> bool {
        if self.limits.mistakes.make(Mistake::IgnoreBegan) {
            return false;
        }
        began < self.fills_from.load(Ordering::SeqCst)
            || self.is_handed_over()
            || self.is_matched(began, key, meta)
            || self.invalidated_since(primary, began)
    }

    /// Is there a known purge that is newer and matches? In doubt no, so a fill must use [`Self::is_invalid`].
    pub fn is_purged_since(
        &self,
        primary: KeyHash,
        began: Sequence,
        key: &[u8],
        meta: &[u8],
    ) -> bool {
        let shard = self.shard(self.shard_of(primary));
        let is_known = shard.invalidations.is_known_since(primary, began);
        drop(shard);
        is_known || self.is_matched(began, key, meta)
    }

    /// Is a record found by a scan dead because of invalidations since the start?
    pub(crate) fn is_dead(
        &self,
        primary: KeyHash,
        began: Sequence,
        key: &[u8],
        meta: &[u8],
    ) -> bool {
        let killed = || {
            let shard = self.shard(self.shard_of(primary));
            shard.invalidations.since(primary, began)
        };
        !self.limits.mistakes.make(Mistake::IgnoreBegan)
            && (self.is_matched(began, key, meta) || killed())
    }

    /// Drops a record that failed verification (but not with [`Corrupt::Hash`]). No invalidation: what is fetched next may be
    /// stored.
    pub fn forget(&self, hash: KeyHash) {
        let mut shard = self.shard(self.shard_of(hash));
        let (was_there, freed) = shard.kill(hash);
        self.queue_freed(freed);
        if was_there {
            self.has_left(hash);
        }
    }

    /// What the store is like now and what it has done.
    pub fn figures(&self) -> Figures {
        let mut figures = self.counters.read();
        let never_written;
        {
            let background = self.background();
            let mut writer = self.writer();
            let mut ahead = 0;
            match &writer.room {
                Room::Hand(hand) => ahead = hand.chunks_ahead(),
                Room::Book(_) => self.reclaim(&mut writer),
            }
            let space = &writer.space;
            let free = u64::from(space.free_chunks().0);
            never_written = match &writer.room {
                Room::Hand(hand) => hand.chunks_never_written(&background.journal, free),
                Room::Book(_) => free,
            };
            figures.total_chunks = u64::from(space.total().0);
            figures.ready_chunks = u64::from(space.free_chunks().0) + ahead;
            figures.free_pieces = space.pieces() as u64;
            figures.largest_free_chunks = space.largest().map_or(0, |piece| u64::from(piece.len.0));
            figures.space_bytes = space.memory_bytes() as u64;
        }
        figures.chunk_bytes = u64::from(self.geometry.chunk_bytes);
        figures.needed_bytes = self.needed_bytes.load(Ordering::Relaxed);
        figures.gathered_bytes = self.gathered_bytes.load(Ordering::Relaxed) as u64;
        {
            let predicates = lock(&self.predicates);
            figures.predicates = predicates.len() as u64;
            figures.predicates_percent = predicates.percent_taken();
            figures.predicates_bytes = predicates.memory_bytes() as u64;
        }
        figures.clusters_in_flight = lock(&self.flights).len() as u64;
        for number in 0..self.shards.len() {
            let shard = self.shard(number);
            figures.records += shard.len() as u64;
            figures.markers += shard.index.markers() as u64;
            figures.reads_pinned += shard.pins() as u64;
            figures.index_bytes += shard.memory_bytes() as u64;
            figures.live_bytes += shard.index.chunks();
        }
        // The figures are read one after the other while others write; saturate where they do not add up for a
        // moment.
        let chunks = [figures.live_bytes, never_written];
        let dead = chunks
            .iter()
            .fold(figures.total_chunks, |all, part| all.saturating_sub(*part));
        figures.live_bytes *= figures.chunk_bytes;
        figures.dead_bytes = dead * figures.chunk_bytes;
        figures.never_written_bytes = never_written * figures.chunk_bytes;
        figures
    }

    /// Checks every invariant in full; for tests and simulation. Stops all threads meanwhile.
    ///
    /// # Errors
    /// Which one does not hold.
    pub fn audit(&self) -> Result<(), String> {
        let writer = self.writer();
        let shards: Vec<_> = (0..self.shards.len())
            .map(|number| self.shard(number))
            .collect();
        let flights = lock(&self.flights);
        let freed = lock(&self.freed);
        writer.space.audit()?;
        Self::audit_gathered(&writer, &shards)?;
        let sums = shards.iter().map(|shard| need::sums(&shard.needed));
        self.audit_needed(sums.fold((0, 0), |(a, b), (c, d)| (a + c, b + d)))?;
        // All that is in use; no two of them may overlap.
        let mut used: Vec<Extent> = freed.clone();
        used.extend(writer.open.iter().filter_map(|open| open.tail()));
        used.extend(&writer.protected.owed);
        for shard in &shards {
            shard.audit()?;
            used.extend(shard.held_extents());
            for entry in shard.entries() {
                let extent = entry.extent();
                used.push(extent);
                let buffered = flights.iter().any(|flight| flight.extent.covers(extent))
                    || writer.open.iter().any(|open| open.covers(extent));
                if entry.is_writing() && !buffered {
                    return Err(format!("{extent} is being written, but by no cluster"));
                }
            }
        }
        let rebuilt = Unified::from_used(writer.space.total(), used.iter().copied())
            .map_err(|e| e.to_string())?;
        match &writer.room {
            // Space without records that the allocator does not have is dead, or ahead of the writer.
            Room::Hand(hand) => {
                if let Some(extent) = used.iter().find(|extent| !writer.space.is_used(**extent)) {
                    return Err(format!("{extent} is in use, and free for the allocator"));
                }
                for region in hand.empty_regions() {
                    let region = hand.grid.extent(region..region + 1);
                    let inhabitant = shards
                        .iter()
                        .flat_map(|shard| shard.entries())
                        .find(|entry| region.overlaps(entry.extent()));
                    if let Some(entry) = inhabitant {
                        return Err(format!(
                            "{} lies in the region {region}, which is to be used again",
                            entry.extent()
                        ));
                    }
                }
            }
            Room::Book(_) => {
                let bad = lock(&self.bad).clone();
                let takes = self.open_for_records.load(Ordering::SeqCst);
                if takes && bad.is_empty() && rebuilt.free_pieces() != writer.space.free_pieces() {
                    return Err("the allocator's used chunks are not those of the records".into());
                }
            }
        }
        Ok(())
    }

    /// The hash of a record's key, which selects the shard and names the record for readers.
    pub(crate) fn shard_of(&self, hash: KeyHash) -> usize {
        // The index takes the low 27 bits and the high 22.
        (hash.0 >> 32) as usize & (self.shards.len() - 1)
    }

    /// The name of a key.
    pub(crate) fn name_of(&self, hash: KeyHash) -> Name {
        let number = self.shard_of(hash);
        let segments = self.limits.segments;
        // As `Index::segment_of`, for which a shard's index is not needed.
        let segment = segment_of(hash, segments);
        Name::new(number * segments + segment, Short::of(hash))
    }

    /// A record or a marker has left the index, and its bytes, or those of variants, may be found after a crash.
    pub(crate) fn has_left(&self, hash: KeyHash) {
        self.name_has_left(self.name_of(hash));
    }

    pub(crate) fn name_has_left(&self, name: Name) {
        lock(&self.left).add(name, self.sequence());
    }

    pub(crate) fn queue_freed(&self, freed: Option<Extent>) {
        if let Some(extent) = freed
            && self.limits.policy().is_some()
        {
            lock(&self.freed).push(extent);
        }
    }

    pub(crate) fn is_closed_to_inserts(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }

    pub(crate) fn chunk_bytes(&self) -> usize {
        self.geometry.chunk_bytes as usize
    }

    pub(crate) fn shard(&self, number: usize) -> MutexGuard<'_, Shard> {
        lock(&self.shards[number])
    }

    /// Is it still looked through after an unclean stop? What is not in the index may be found yet.
    pub fn is_scanning(&self) -> bool {
        self.scanning.load(Ordering::SeqCst)
    }

    pub(crate) fn takes_records(&self) -> bool {
        self.open_for_records.load(Ordering::SeqCst)
    }

    pub(crate) fn background(&self) -> MutexGuard<'_, Background> {
        lock(&self.background)
    }

    pub(crate) fn writer(&self) -> HeldWriter<'_> {
        HeldWriter {
            writer: lock(&self.writer),
            is_ready: &self.is_ready,
        }
    }
}

/// The writer while somebody holds it. Whoever lets it go notes whether a region is ready, since every record asks that
/// before it is stored: with many workers most waits for this lock were for that question.
pub(crate) struct HeldWriter<'a> {
    writer: MutexGuard<'a, Writer>,
    is_ready: &'a AtomicBool,
}

impl Deref for HeldWriter<'_> {
    type Target = Writer;

    fn deref(&self) -> &Writer {
        &self.writer
    }
}

impl DerefMut for HeldWriter<'_> {
    fn deref_mut(&mut self) -> &mut Writer {
        &mut self.writer
    }
}

impl Drop for HeldWriter<'_> {
    fn drop(&mut self) {
        let is_ready = match &self.writer.room {
            Room::Hand(hand) => hand.is_ready(),
            Room::Book(_) => true,
        };
        self.is_ready.store(is_ready, Ordering::Relaxed);
    }
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store")
            .field("geometry", &self.geometry)
            .finish_non_exhaustive()
    }
}

const _: () = {
    const fn shared<T: Send + Sync>() {}
    shared::<Store>();
};
