//! The store: its state and its locks. Its methods are in the files that use this one (see `lib`).
//!
//! Shared by all threads. Locks, in the order in which they may be taken:
//!
//! 1. `background`: log, journal, checkpoint. No look-up takes it.
//! 2. `scan`: what recovery has yet to find. Held while a read is searched for records, so a thread that holds another lock does not wait
//!    for it. `weeding`: the records that the weeding reads next; not held during the read.
//! 3. `writer`: allocator, open cluster, locality buffers, eviction. No hit from disk takes it.
//! 4. `shards`: each is a part of the index, chosen by key hash. Held for a look-up. Only `audit` holds two at once.
//! 5. `flights`, `freed`, `bad`, `predicates`, `left`, `pool`, `scan_reads`, `moves`,
//!    `coming`: short. Nothing is taken while one is held.
//!
//! An extent freed under a shard's lock alone goes to `freed` (at most one a record), and the writer takes it from there, so that
//! the allocator needs no lock of its own. With `second-chance` and `reinsertion` it is dead space until the hand comes by.

use crate::book;
use crate::evict::coming::Coming;
use crate::evict::left::{Left, Name};
use crate::evict::need::Moves;
use crate::evict::room::Room;
use crate::figures::Counters;
use crate::geometry::Geometry;
use crate::index::key::{KeyHash, KeyHasher};
use crate::index::pieces::{Short, segment_of};
use crate::jobs::Background;
use crate::lock::lock;
use crate::log::predicates::Predicates;
use crate::log::weeding::Bed;
use crate::memory::Pool;
use crate::pause::Pause;
use crate::record::HEADER_BYTES;
use crate::recover::journal::{self, Journal};
use crate::recover::picture;
use crate::recover::scan_reads::Reads;
use crate::recover::scanned::Scan;
use crate::recover::superblock::Superblock;
use crate::secret::{Pseudonyms, Secret};
use crate::sequence::Sequence;
use crate::settings::Limits;
use crate::shard::Shard;
use crate::write::cluster::Flight;
use crate::write::locality::Buffers;
use crate::write::writer::Writer;
use bytes::Bytes;
use extent::{Chunks, Extent};
use replacement::PolicyKind;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};

/// The object store: deterministic, without any I/O; callers carry out the [`Read`](crate::Read)s and [`Write`](crate::Write)s it asks for.
pub struct Store {
    pub(crate) geometry: Geometry,
    pub(crate) limits: Limits,
    pub(crate) secret: Secret,
    pub(crate) epoch: u64,
    hasher: KeyHasher,
    pub(crate) accept_from: Sequence,
    pub(crate) shards: Box<[Mutex<Shard>]>,
    /// For each region, the sequence of its last durable note: older records there are left from an earlier round. 0: unknown.
    pub(crate) opened_at: Box<[AtomicU64]>,
    /// The number of uses so far, from which exact LRU takes its stamps.
    pub(crate) clock: AtomicU64,
    pub(crate) sequence: AtomicU64,
    pub(crate) background: Mutex<Background>,
    pub(crate) scan: Mutex<Option<Scan>>,
    pub(crate) scan_reads: Mutex<Option<Reads>>,
    pub(crate) writer: Mutex<Writer>,
    /// Whether a region was ready when the writer's lock was last released.
    is_ready: AtomicBool,
    pub(crate) flights: Mutex<Vec<Flight>>,
    /// Bytes waiting in locality buffers.
    pub(crate) gathered_bytes: AtomicUsize,
    /// Whether the latest new record was gathered in a locality buffer.
    pub(crate) gathers: AtomicBool,
    pub(crate) freed: Mutex<Vec<Extent>>,
    /// Extents that could not be read and are not reused.
    pub(crate) bad: Mutex<Vec<Extent>>,
    pub(crate) predicates: Mutex<Predicates>,
    /// Fills that began before this sequence may be matched by a predicate.
    pub(crate) predicates_until: AtomicU64,
    /// Fills that began before this sequence are refused, because predicates that might match them were dropped.
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
    /// Records of the next stretch to be swept that are to be written again.
    pub(crate) coming: Mutex<Coming>,
    /// Whether these records are read before their stretch is swept.
    pub(crate) reads_stretches: AtomicBool,
    /// Sweeps that have ended since the start; changes with the writer locked.
    pub(crate) sweeps: AtomicU64,
    /// The number of needs and their bytes; each shard has its own table.
    pub(crate) needs: AtomicU64,
    pub(crate) needed_bytes: AtomicU64,
    /// Chunks of needed records in the stretch that is swept now or next. May be somewhat too high.
    pub(crate) due_chunks: AtomicU32,
    pub(crate) pool: Pool,
    pub(crate) pause: Pause,
    /// The writes with which the store is opened.
    pub(crate) opening: Mutex<Vec<(u64, Bytes)>>,
    /// False while the allocator does not know the free chunks yet.
    pub(crate) open_for_records: AtomicBool,
    /// A scan may still find newer versions, so no record is written again: the copy would count as the newest.
    pub(crate) scanning: AtomicBool,
    pub(crate) closed: AtomicBool,
    /// Another process has the store, so look-ups here find nothing.
    pub(crate) gone: AtomicBool,
    pub(crate) counters: Counters,
}

impl Store {
    /// A store with an empty index, whose hand begins at region `hand_at`.
    pub(crate) fn with(
        superblock: &Superblock,
        limits: Limits,
        sequence: Sequence,
        hand_at: u32,
        background: Background,
    ) -> Self {
        let geometry = superblock.geometry.clone();
        let cluster_bytes = limits.cluster_chunks as usize * geometry.chunk_bytes as usize;
        let (space, room) = Room::of(&limits, &geometry, hand_at);
        let window_percent = u64::from(limits.replacement.window_percent().unwrap_or(0));
        let window_chunks = u64::from(geometry.data_chunks) * window_percent / 100;
        let (hand_chunk, stretch_chunks, look_ahead_chunks) = match &room {
            Room::Hand(hand) => (
                hand.next_chunk().0,
                hand.grid.stretch_chunks(),
                hand.grid.look_ahead_chunks(&geometry),
            ),
            Room::Book(_) => (0, 0, 0),
        };
        let buffers = Buffers::new(&limits, geometry.chunk_bytes);
        let predicates = Predicates::new(
            limits.manner,
            limits.words,
            picture::predicates_bytes_max(&geometry),
        );
        let book = || limits.policy().map(book::Book::new);
        let shard = || Shard::new(limits.segments, limits.usage_bits, book());
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
            coming: Mutex::new(Coming::new(
                limits.replacement.reinserted_percent().unwrap_or(0),
                Chunks(stretch_chunks),
            )),
            reads_stretches: AtomicBool::new(false),
            sweeps: AtomicU64::new(0),
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

    /// Makes pseudonyms, with a secret that no other proxy knows.
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

    /// Does the policy take a record with this many bytes of key, metadata and body? [`Self::insert`] reports a refusal as `Invalidated`.
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

    /// The store's epoch. When it changes, nothing that was stored before is found any more.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The current sequence. A fill, a promotion to memory or a revalidation notes it when it begins.
    pub fn sequence(&self) -> Sequence {
        self.sequence.load(Ordering::SeqCst)
    }

    pub(crate) fn next_sequence(&self) -> Sequence {
        self.sequence.fetch_add(1, Ordering::SeqCst) + 1
    }

    /// Copies from the journal when each region was opened.
    pub(crate) fn note_openings(&self, journal: &Journal) {
        for (region, opened_at) in (0..).zip(&self.opened_at) {
            let sequence = match journal.opened_at(region) {
                journal::UNKNOWN => 0,
                sequence => sequence,
            };
            opened_at.store(sequence, Ordering::Relaxed);
        }
    }

    /// Percent of the room for predicates that is taken; at 100 one more is refused.
    pub fn predicates_percent(&self) -> u64 {
        lock(&self.predicates).percent_taken()
    }

    /// Is there room for a record of this length, or will it be made at once? Making room takes a moment after a start, and in a
    /// small store with fast writes.
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

    /// Should the background thread be woken to make room? It also looks by itself from time to time. May be true without need.
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

    /// Drops a record that failed verification, except with [`Corrupt::Hash`](crate::Corrupt::Hash), which means another key's record.
    /// This is no invalidation: fetches of the key may be stored.
    pub fn forget(&self, hash: KeyHash) {
        self.outdate_what_is_found([hash]);
        let mut shard = self.shard(self.shard_of(hash));
        let (was_there, freed) = shard.kill(hash);
        self.queue_freed(freed);
        if was_there {
            self.has_left(hash);
        }
    }

    /// The number of the shard that has this key hash.
    pub(crate) fn shard_of(&self, hash: KeyHash) -> usize {
        // The index uses the low 27 bits and the high 22, so the shard is chosen by bits between them.
        (hash.0 >> 32) as usize & (self.shards.len() - 1)
    }

    /// The name of a key.
    pub(crate) fn name_of(&self, hash: KeyHash) -> Name {
        let number = self.shard_of(hash);
        let segments = self.limits.segments;
        // The same as `Index::segment_of`, but needs no shard's lock.
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

    /// Is a scan under way after an unclean stop? It may still find records that are not in the index.
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

/// The locked writer. When the lock is released, it notes whether a region is ready, since every record asks that before it is
/// stored: with many workers most waits for this lock were for that question.
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
