//! Moves: needed records are written again before the hand comes.
//!
//! ```text
//!            the stretch that is swept     look-ahead                      the hand goes this way -->
//! region  | s | s | s | s | s | s | s | s | a | a | a | a | a | a | a | a |   |   |   |
//!           due: room is kept, the sweep    moved as long as there is more
//!           waits                           room than that
//! ```
//!
//! Such a record must be read before it can be written again. That is a [`Move`]: the shell reads
//! ([`Store::next_move`]), passes the bytes ([`Store::move_done`]) and carries out the writes. A sweep *spares* the
//! needed records that are still there. It ends, and its regions are reused, only when each of them was moved, is no
//! longer needed, or was given up. So a slow client never stops the hand; only the disk does, while it reads the
//! records of one stretch.
//!
//! When the hand has advanced by a stretch, that stretch is empty, and the records that are *due* in the next one fit
//! into it. This room is kept for them: when no more is left, nothing else is stored before they were moved. A record
//! that becomes needed when less is left may find no room. It is then given up and evicted like any other.
//!
//! A move is a renewal, and a renewal checks whether the record was killed since it was read. Purged, replaced and
//! forgotten records are therefore not written again.
//!
//! Limits: [`MOVES_MAX`] moves under way. Nothing is spared during a scan, since nothing is renewed then.
//!
//! Not known here: the answers that need the records.

use crate::evict::need::{Moving, NEEDS_MAX};
use crate::evict::region::Hand;
use crate::evict::room::Room;
use crate::index::key::KeyHash;
use crate::index::reading::{Read, Renewal};
use crate::lock::lock;
use crate::record::corrupt::Corrupt;
use crate::shard::Fate;
use crate::store::Store;
use crate::write::cluster::Writes;
use crate::write::insert::{Again, Outcome};
use crate::write::writer::Writer;
use bytes::Bytes;
use extent::{Chunk, Chunks, Extent};
use std::sync::atomic::Ordering;

/// The most moves under way. If reads wait in a long queue, one after the other would take too long.
pub const MOVES_MAX: usize = 16;

/// Moved records leave the ends of clusters and regions empty. This many percent, and a region, are kept for that.
const WASTE_PERCENT: u64 = 10;

/// A record to be written again before the hand comes: carry out the read and pass the bytes to [`Store::move_done`].
#[derive(Debug)]
#[must_use = "a move pins its extent until move_done"]
pub struct Move(Read);

impl Move {
    /// Where to read, in bytes from the start of the store.
    pub fn offset(&self) -> u64 {
        self.0.offset
    }

    /// The hash of its key.
    pub fn hash(&self) -> KeyHash {
        self.0.hash
    }

    /// How many bytes to read.
    pub fn bytes(&self) -> usize {
        self.0.len
    }
}

/// Where a needed record could be written to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum RoomToMove {
    /// Nowhere.
    None,
    /// In the room kept for due records.
    Kept,
    Plenty,
}

impl Store {
    /// Does a record wait for a move that is possible now? Then call [`Self::next_move`].
    pub fn wants_moves(&self) -> bool {
        let moves = lock(&self.moves);
        !moves.queue.is_empty() && moves.under_way < MOVES_MAX
    }

    /// The next record to read in order to write it again. Call it together with [`Self::next_work`].
    pub fn next_move(&self) -> Option<Move> {
        while self.wants_moves() && !self.is_scanning() && !self.is_closed_to_inserts() {
            let room = self.room_to_move();
            let hash = {
                let mut moves = lock(&self.moves);
                let hash = moves.queue.pop_front()?;
                moves.under_way += 1;
                hash
            };
            let read = self.begin_move(hash, room);
            if read.is_some() {
                return read.map(Move);
            }
            lock(&self.moves).under_way -= 1;
        }
        None
    }

    /// Pins the record if it must be moved now. If not, the hand meets it again later, at the latest in the sweep.
    fn begin_move(&self, hash: KeyHash, room: RoomToMove) -> Option<Read> {
        let mut shard = self.shard(self.shard_of(hash));
        let spot = shard.find(hash);
        let need = shard.needed.get_mut(&hash.0)?;
        if need.moving == Moving::UnderWay {
            return None;
        }
        need.moving = Moving::No;
        let spot = spot.filter(|_| !need.given_up)?;
        let entry = shard.entry(spot);
        let extent = entry.extent();
        let has_room = match self.is_due(extent.first) {
            true => room >= RoomToMove::Kept,
            false => room == RoomToMove::Plenty,
        };
        if entry.is_writing() || !self.is_to_be_moved(extent.first) || !has_room {
            return None;
        }
        if let Some(need) = shard.needed.get_mut(&hash.0) {
            need.moving = Moving::UnderWay;
        }
        shard.pin(spot, hash);
        Some(Read {
            offset: self.geometry.offset_of(extent.first.0),
            len: extent.len.0 as usize * self.chunk_bytes(),
            hash,
            extent,
            began: self.sequence(),
            renew: true,
        })
    }

    /// Takes the bytes of a move, or `None` if they could not be read. Carry out the returned writes. `now_ms` as for
    /// [`Self::insert`].
    pub fn move_done(&self, moved: Move, bytes: Option<Bytes>, now_ms: u64) -> Writes {
        let Move(read) = moved;
        let hash = read.hash;
        let renewal = Renewal {
            hash,
            first: read.extent.first,
            began: read.began,
        };
        let decoded = bytes.map(|bytes| self.decode_read(&bytes, &read));
        let is_alive = self.read_done(read);
        let mut writes = Writes::default();
        let is_given_up = match decoded {
            Some(Ok(parts)) if is_alive && self.is_needed(hash) => {
                let is_due = self.is_due(renewal.first);
                let inserted =
                    self.write_again(renewal, &parts, Again::of(renewal, is_due), now_ms);
                writes = inserted.writes;
                match inserted.outcome {
                    Outcome::Stored => self.counters.moved.add(1),
                    Outcome::Invalidated => self.leave_to_needs(hash, renewal.first),
                    _ => {}
                }
                // Try again while the sweep waits. A killed or replaced record needs no move.
                !matches!(
                    inserted.outcome,
                    Outcome::Stored | Outcome::NoSpace | Outcome::Behind | Outcome::Invalidated
                )
            }
            Some(Ok(_)) => false,
            // The bytes are another key's record.
            Some(Err(Corrupt::Hash)) | None => true,
            Some(Err(_)) => {
                self.forget(hash);
                false
            }
        };
        let mut shard = self.shard(self.shard_of(hash));
        if let Some(need) = shard.needed.get_mut(&hash.0) {
            need.moving = Moving::No;
            need.given_up |= is_given_up;
        }
        drop(shard);
        self.counters.moves_failed.add(u64::from(is_given_up));
        lock(&self.moves).under_way -= 1;
        writes
    }

    /// A record that a soft purge has met must not be written again, because the copy would not be stale. It leaves
    /// the index and stays in place for the answers that need it. A killed or replaced record has left already.
    fn leave_to_needs(&self, hash: KeyHash, first: Chunk) {
        let mut shard = self.shard(self.shard_of(hash));
        let spot = shard.find(hash);
        let Some(spot) = spot.filter(|&spot| shard.entry(spot).first() == first) else {
            return;
        };
        let extent = shard.entry(spot).extent();
        let freed = shard.drop_record(spot, hash, Fate::Evicted);
        // The hand frees its space.
        let _ = shard.keep_if_needed(hash, extent, freed);
        self.has_left(hash);
        self.counters.evictions.add(1);
        self.counters.evicted_chunks.add(u64::from(extent.len.0));
    }

    /// Is this place within the look-ahead?
    pub(crate) fn is_to_be_moved(&self, first: Chunk) -> bool {
        let hand = Chunk(self.hand_at.load(Ordering::Relaxed));
        Hand::distance(hand, first, self.geometry.data_chunks) < self.look_ahead_chunks
    }

    /// Is this place in the stretch that is swept now or next?
    pub(crate) fn is_due(&self, first: Chunk) -> bool {
        let hand = Chunk(self.hand_at.load(Ordering::Relaxed));
        let ahead = Hand::distance(hand, first, self.geometry.data_chunks);
        ahead < self.stretch_chunks
    }

    pub(crate) fn no_longer_due(&self, chunks: u32) {
        let relaxed = Ordering::Relaxed;
        let less = |due: u32| Some(due.saturating_sub(chunks));
        let _ = self.due_chunks.fetch_update(relaxed, relaxed, less);
    }

    /// Is all room kept for due records?
    pub(crate) fn keeps_room(&self, writer: &Writer) -> bool {
        matches!(&writer.room, Room::Hand(hand) if self.is_kept(hand))
    }

    /// As [`Self::keeps_room`].
    pub(crate) fn is_kept(&self, hand: &Hand) -> bool {
        let due = u64::from(self.due_chunks.load(Ordering::Relaxed));
        let chunks = due + due * WASTE_PERCENT / 100;
        let regions = chunks.div_ceil(u64::from(hand.grid.region_chunks)) + 1;
        due > 0 && hand.ahead() as u64 <= regions
    }

    pub(crate) fn enqueue(&self, hash: KeyHash) -> bool {
        let mut moves = lock(&self.moves);
        let has_room = moves.queue.len() < NEEDS_MAX;
        if has_room {
            moves.queue.push_back(hash);
        }
        has_room
    }

    fn room_to_move(&self) -> RoomToMove {
        let writer = self.writer();
        match &writer.room {
            Room::Hand(hand) if hand.is_ready() && !self.is_kept(hand) => RoomToMove::Plenty,
            Room::Hand(hand) if hand.is_ready() || writer.has_some_room() => RoomToMove::Kept,
            _ => RoomToMove::None,
        }
    }

    /// The hand has advanced: the needed records in front of it now must be moved.
    pub(crate) fn look_ahead(&self) {
        self.due_chunks.store(0, Ordering::Relaxed);
        if self.needs.load(Ordering::Relaxed) == 0 || self.is_scanning() {
            return;
        }
        for number in 0..self.shards.len() {
            let mut shard = self.shard(number);
            let all: Vec<u64> = shard.needed.keys().copied().collect();
            for hash in all.into_iter().map(KeyHash) {
                let Some(spot) = shard.find(hash) else {
                    continue;
                };
                let Extent { first, len } = shard.entry(spot).extent();
                if !self.is_to_be_moved(first) {
                    continue;
                }
                if let Some(need) = shard.needed.get_mut(&hash.0)
                    && !need.given_up
                {
                    if self.is_due(first) {
                        self.due_chunks.fetch_add(len.0, Ordering::Relaxed);
                    }
                    if need.moving == Moving::No {
                        need.moving = Moving::queued(self.enqueue(hash));
                    }
                }
            }
        }
    }

    /// Must a sweep that has been through the whole index wait for moves? Removes spared records that are no longer
    /// needed, and all of them if there is no room to move them to (`is_stuck`).
    pub(crate) fn sweep_waits(&self, hand: &mut Hand, is_stuck: bool) -> bool {
        let grid = hand.grid;
        let Some(sweep) = &mut hand.sweep else {
            return false;
        };
        let stretch = grid.extent(sweep.regions.clone());
        let mut due = Chunks(0);
        sweep.spared.retain(|&hash| {
            let mut shard = self.shard(self.shard_of(hash));
            let spot = shard.find(hash);
            let there = spot.filter(|&spot| stretch.overlaps(shard.entry(spot).extent()));
            let Some(spot) = there else {
                return false; // moved or killed
            };
            let len = shard.entry(spot).extent().len;
            if let Some(need) = shard.needed.get_mut(&hash.0) {
                let is_under_way = need.moving == Moving::UnderWay;
                let stays = !need.given_up && (!is_stuck || is_under_way) && !self.is_scanning();
                if stays {
                    if need.moving == Moving::No {
                        need.moving = Moving::queued(self.enqueue(hash));
                    }
                    due += len;
                    return true;
                }
                self.counters.moves_failed.add(u64::from(!need.given_up));
            }
            let extent = shard.entry(spot).extent();
            let freed = shard.drop_record(spot, hash, Fate::Evicted);
            lock(&self.left).add_swept(self.name_of(hash));
            // A record that can be read but not written again stays in place for the answers that need it.
            let _ = shard.keep_if_needed(hash, extent, freed);
            self.counters.evictions.add(1);
            self.counters.evicted_chunks.add(u64::from(len.0));
            false
        });
        self.due_chunks.store(due.0, Ordering::Relaxed);
        !sweep.spared.is_empty()
    }
}
