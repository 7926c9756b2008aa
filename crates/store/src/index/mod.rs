//! The compact index of one shard: where the record of a key lies, in little more than eight bytes a record. A resource with variants
//! has its marker in the same space.
//!
//! The index has pieces of a key's hash (`pieces`), not the key: the pieces find a record, and its full key verifies it.
//!
//! Not known here: keys, records, shards, locks; what is evicted.
//! Limits: 2^22 segments; the limits of a segment.

pub mod carried;
pub mod entry;
pub mod key;
pub mod lists;
pub mod look_up;
pub mod marker;
pub mod notes;
pub mod pieces;
pub mod reading;
mod salts;
pub mod segment;
#[cfg(test)]
mod tests;
pub mod trace;
pub(crate) mod usage;
pub mod variants;

use crate::index::entry::Entry;
use crate::index::key::KeyHash;
use crate::index::lists::Lists;
use crate::index::pieces::{SEGMENTS_MAX, Short, segment_of};
use crate::index::segment::{Place, Segment};
use crate::index::usage::UsageBits;

/// Markers that a segment may have without any record.
pub(crate) const SPARE_MARKERS: usize = 1 << 12;

/// The same where nothing is ever stored (`Store::volatile`), in each of a few segments.
pub(crate) const SPARE_MARKERS_VOLATILE: usize = 1 << 16;

/// Where an entry lies. Good until the next `insert`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Spot {
    /// Which segment.
    pub segment: usize,
    /// Where in it.
    pub place: Place,
}

/// The index of one shard. See the head of the file.
#[derive(Clone)]
pub(crate) struct Index {
    segments: Vec<Segment>,
    /// The lists of the markers.
    lists: Lists,
    /// Markers that a segment may have without any record.
    pub spare_markers: usize,
    /// The expected number of entries of a segment; 0 if it is unknown.
    expected: usize,
}

impl Index {
    /// An empty index of `segments` segments, 1 to [`SEGMENTS_MAX`] (asserted).
    pub(crate) fn new(segments: usize, bits: UsageBits) -> Self {
        assert!(
            (1..=SEGMENTS_MAX).contains(&segments),
            "{segments} segments"
        );
        Self {
            // Not `vec!`: a vector that is collected from a known length has no spare room.
            segments: (0..segments).map(|_| Segment::new(bits)).collect(),
            lists: Lists::default(),
            spare_markers: SPARE_MARKERS,
            expected: 0,
        }
    }

    /// Which segment a hash belongs to.
    pub(crate) fn segment_of(&self, hash: KeyHash) -> usize {
        segment_of(hash, self.segments.len())
    }

    /// The record that `hash` leads to: of this key, or of another that shares the `Short`.
    pub(crate) fn find(&self, hash: KeyHash) -> Option<Spot> {
        let spot = self.find_entry(hash)?;
        (!self.get(spot).is_marker()).then_some(spot)
    }

    /// The record or marker that `hash` leads to.
    fn find_entry(&self, hash: KeyHash) -> Option<Spot> {
        let segment = self.segment_of(hash);
        let place = self.segments[segment].find(Short::of(hash))?;
        Some(Spot { segment, place })
    }

    /// The entry at a spot that `find` named.
    pub(crate) fn get(&self, spot: Spot) -> Entry {
        self.segments[spot.segment].get(spot.place)
    }

    /// Replaces the entry at `spot` by another of the same key.
    pub(crate) fn set(&mut self, spot: Spot, entry: Entry) {
        self.segments[spot.segment].set(spot.place, entry);
    }

    /// The record at `spot` was read.
    pub(crate) fn touch(&mut self, spot: Spot) {
        self.segments[spot.segment].touch(spot.place);
    }

    /// Adds an entry where there is none. All spots change.
    pub(crate) fn insert(&mut self, hash: KeyHash, entry: Entry) {
        let segment = self.segment_of(hash);
        self.segments[segment].insert(Short::of(hash), entry, self.expected);
    }

    /// Takes the entry at `spot` out. The other spots stay.
    pub(crate) fn remove(&mut self, spot: Spot) -> Entry {
        self.segments[spot.segment].remove(spot.place)
    }

    /// Expects `more` entries, so that tables that must grow are made large enough at once.
    pub(crate) fn expect(&mut self, more: usize) {
        self.expected = (self.records() + self.markers() + more) / self.segments.len();
    }

    /// Ends what [`Self::expect`] began: how many entries will come is unknown.
    pub(crate) fn expect_no_more(&mut self) {
        self.expected = 0;
    }

    /// How many records; adds up the segments.
    pub(crate) fn records(&self) -> usize {
        self.segments.iter().map(Segment::records).sum()
    }

    /// Chunks of all records; adds up the segments.
    pub(crate) fn chunks(&self) -> u64 {
        self.segments.iter().map(Segment::chunks).sum()
    }

    /// How many segments.
    pub(crate) fn segments(&self) -> usize {
        self.segments.len()
    }

    /// One segment, for checkpoints.
    pub(crate) fn segment(&self, i: usize) -> &Segment {
        &self.segments[i]
    }

    /// One segment, for a sweep or a recovery.
    pub(crate) fn segment_mut(&mut self, i: usize) -> &mut Segment {
        &mut self.segments[i]
    }

    /// Bytes of memory, all counted but the allocator's rounding.
    pub(crate) fn memory_bytes(&self) -> usize {
        let unused = self.segments.capacity() - self.segments.len();
        let segments: usize = self.segments.iter().map(Segment::memory_bytes).sum();
        size_of::<Self>() + segments + unused * size_of::<Segment>() + self.lists.memory_bytes()
    }
}
