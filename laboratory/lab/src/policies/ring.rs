//! A small model of the store's default: a ring that is written round and round, with second chances.
//!
//! Objects lie in the order in which they were written; the hand evicts the oldest. With a window, an object that is read
//! while the hand is near is written again at the front:
//!
//! ```text
//!   leaves <-- oldest | ... window ... |                          newest <-- writes
//!                         read here: a copy goes to the front, the old place is dead until the hand comes by
//! ```
//!
//! The configured window is for an object of mean length; shorter objects have up to two and a half times that, longer ones down
//! to half (`store/src/evict/window`). A window of 0 is FIFO.
//!
//! [`Ring::new`] counts bytes alone, to be compared with other policies. [`Ring::of_store`] subtracts the areas beside the data and the
//! room kept empty ahead of the hand, and adds a header, key and metadata to each object, and padding to chunks. Both leave out: the
//! unused ends of regions, fragments, records read along with others (companions), records spared because answers need them, overload.
//!
//! Memory: 16 bytes for each object written and 8 for each object number.

use std::collections::VecDeque;

use store::{Geometry, HEADER_BYTES};

use super::disk::{Disk, NextUse};
use super::rule::Held;
use crate::Access;

/// In `places`: the object is not held.
const ABSENT: u64 = u64::MAX;
/// Bytes of key and metadata, about as in the proxy (`layouts`).
const KEY_AND_META_BYTES: u64 = 260;
/// From `store/src/evict/grid`: share and bytes of a stretch, and the share of it that is kept ahead.
const STRETCH_SHARE: u64 = 64;
const SMALL_STRETCH_SHARE: u64 = 16;
const SMALL_STRETCH_BYTES: u64 = 4 << 20;
/// From `store/src/evict/window`.
const RECORDS_MIN: u64 = 64;
const WIDER_HALVES_MAX: u64 = 5;
const PERCENT_MAX: u64 = 75;

/// One write of an object.
#[derive(Debug, Clone, Copy)]
struct Copy {
    /// Bytes written before it.
    at: u64,
    object: u32,
    size_bytes: u32,
}

/// See the head of this file.
pub struct Ring {
    bytes_max: u64,
    /// Whether objects are records, with a header and padding.
    has_records: bool,
    window_bytes: u64,
    /// Sum of all bytes ever written.
    written: u64,
    /// Number of all objects ever written.
    writes: u64,
    /// By place, the oldest first.
    copies: VecDeque<Copy>,
    /// The place of the latest copy, by object.
    places: Vec<u64>,
    /// Objects held, and the room they take.
    objects: u64,
    object_bytes: u64,
    renewals: (u64, u64),
}

impl Ring {
    /// An empty ring; the window is in percent of its bytes.
    pub fn new(bytes_max: u64, window_percent: u8) -> Self {
        let window = u128::from(bytes_max) * u128::from(window_percent) / 100;
        Ring {
            bytes_max,
            has_records: false,
            window_bytes: window as u64,
            written: 0,
            writes: 0,
            copies: VecDeque::new(),
            places: Vec::new(),
            objects: 0,
            object_bytes: 0,
            renewals: (0, 0),
        }
    }

    /// The data area of a store of this size, less the room kept empty. If the size is too small for a store, nothing fits.
    pub fn of_store(store_bytes: u64, window_percent: u8) -> Self {
        let planned = Geometry::plan(store_bytes, Geometry::CHUNK_BYTES_DEFAULT);
        let area = planned.map_or(0, |geometry| geometry.data_bytes());
        let usual = area / STRETCH_SHARE;
        let stretch = usual.max(SMALL_STRETCH_BYTES.min(area / SMALL_STRETCH_SHARE));
        // A sweep begins when only the lead is left, and clears a stretch; half of a stretch is empty on average.
        let kept_empty = usual.max(stretch / 2) + stretch / 2;
        let ring = Ring::new(area - kept_empty, window_percent);
        Ring {
            has_records: true,
            ..ring
        }
    }

    /// The room that an object takes.
    fn room(&self, size_bytes: u32) -> u64 {
        let bytes = u64::from(size_bytes);
        match self.has_records {
            true => (bytes + HEADER_BYTES as u64 + KEY_AND_META_BYTES)
                .next_multiple_of(Geometry::CHUNK_BYTES_DEFAULT.into()),
            // No two copies may have the same place, so an empty object takes one byte.
            false => bytes.max(1),
        }
    }

    /// The latest copy, of any version.
    fn latest(&self, object: u32) -> Option<Copy> {
        let at = *self.places.get(object as usize)?;
        let found = self.copies.binary_search_by_key(&at, |copy| copy.at);
        self.copies.get(found.ok()?).copied()
    }

    /// The latest copy, if it has this version.
    fn same(&self, access: &Access) -> Option<Copy> {
        let latest = self.latest(access.object);
        latest.filter(|copy| copy.size_bytes == access.size_bytes)
    }

    /// Forgets the place of the latest copy: the object is no longer held.
    fn forget(&mut self, copy: Copy) {
        self.places[copy.object as usize] = ABSENT;
        self.objects -= 1;
        self.object_bytes -= self.room(copy.size_bytes);
    }

    /// The hand, in bytes written: copies that begin before it are gone.
    fn hand(&self) -> u64 {
        self.written.saturating_sub(self.bytes_max)
    }

    fn window(&self, room: u64) -> u64 {
        let set = self.window_bytes;
        if self.writes < RECORDS_MIN {
            return set;
        }
        let mean = self.written / self.writes;
        let fitted = u128::from(set) * u128::from(mean) / u128::from(room.max(1));
        let widest = u128::from(set * WIDER_HALVES_MAX / 2)
            .min(u128::from(self.bytes_max) * u128::from(PERCENT_MAX) / 100);
        let least = u128::from(set / 2);
        fitted.clamp(least, widest.max(least)) as u64
    }

    fn write(&mut self, access: &Access) -> u64 {
        let object = access.object as usize;
        if self.places.len() <= object {
            self.places.resize(object + 1, ABSENT);
        }
        if let Some(before) = self.latest(access.object) {
            self.forget(before);
        }
        let room = self.room(access.size_bytes);
        self.objects += 1;
        self.object_bytes += room;
        self.places[object] = self.written;
        self.copies.push_back(Copy {
            at: self.written,
            object: access.object,
            size_bytes: access.size_bytes,
        });
        self.written += room;
        self.writes += 1;
        let hand = self.hand();
        while let Some(&copy) = self.copies.front().filter(|copy| copy.at < hand) {
            if self.places[copy.object as usize] == copy.at {
                self.forget(copy);
            }
            self.copies.pop_front();
        }
        match self.has_records {
            true => room,
            false => access.size_bytes.into(),
        }
    }
}

impl Disk for Ring {
    fn ask(&mut self, access: &Access, _next: NextUse) -> bool {
        let Some(Copy { at, .. }) = self.same(access) else {
            if let Some(before) = self.latest(access.object) {
                self.forget(before);
            }
            return false;
        };
        // Until the ring is full only empty space is ahead of the hand.
        let way = self.bytes_max.saturating_sub(self.written - at);
        if way < self.window(self.room(access.size_bytes)) {
            self.renewals.0 += 1;
            self.renewals.1 += self.write(access);
        }
        true
    }

    fn passed(&mut self, access: &Access, _next: NextUse) -> bool {
        self.same(access).is_some()
    }

    fn insert(&mut self, access: &Access, _next: NextUse) -> Option<u64> {
        let fits = self.room(access.size_bytes) <= self.bytes_max;
        fits.then(|| self.write(access))
    }

    fn held(&self) -> Held {
        Held {
            objects: self.objects,
            bytes: self.object_bytes,
            bytes_max: self.bytes_max,
        }
    }

    fn is_full(&self, size_bytes: u32) -> bool {
        self.written + self.room(size_bytes) > self.bytes_max
    }

    fn renewed(&mut self) -> (u64, u64) {
        std::mem::take(&mut self.renewals)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policies::disk::NEVER;

    fn access(object: u32, size_bytes: u32) -> Access {
        Access {
            at_ms: 0,
            object,
            server: 0,
            size_bytes,
        }
    }

    fn get(ring: &mut Ring, object: u32, size_bytes: u32) -> bool {
        let access = access(object, size_bytes);
        let hit = ring.ask(&access, NEVER);
        if !hit {
            ring.insert(&access, NEVER);
        }
        hit
    }

    #[test]
    fn without_a_window_the_oldest_leaves_whatever_was_read() {
        let mut ring = Ring::new(30, 0);
        for object in [1, 2, 3] {
            assert!(!get(&mut ring, object, 10));
        }
        assert!(get(&mut ring, 1, 10));
        assert!(!get(&mut ring, 4, 10));
        assert!(!ring.passed(&access(1, 10), NEVER) && ring.passed(&access(2, 10), NEVER));
        assert_eq!(ring.renewed(), (0, 0));
    }

    #[test]
    fn what_is_read_near_the_hand_is_written_again() {
        let mut ring = Ring::new(100, 20);
        (0..10).for_each(|object| assert!(!get(&mut ring, object, 10)));
        // Objects 0 and 1 lie within 20 bytes of the hand, 2 does not.
        assert!(get(&mut ring, 2, 10));
        assert_eq!(ring.renewed(), (0, 0));
        assert!(get(&mut ring, 0, 10));
        assert_eq!(ring.renewed(), (1, 10));
        // Now 1 is the oldest, then 2; 0 is the newest.
        get(&mut ring, 20, 10);
        get(&mut ring, 21, 10);
        let here = |object| ring.places[object] != ABSENT;
        assert!(here(0) && !here(1) && !here(2) && here(3));
    }

    #[test]
    fn a_new_version_leaves_its_place_dead() {
        let mut ring = Ring::new(40, 0);
        assert!(!get(&mut ring, 1, 10) && !get(&mut ring, 2, 10) && !get(&mut ring, 1, 20));
        assert!(get(&mut ring, 1, 20) && get(&mut ring, 2, 10));
        assert!(!get(&mut ring, 3, 10));
        assert!(get(&mut ring, 2, 10), "the dead place went first");
        let held = ring.held();
        assert_eq!((held.objects, held.bytes), (3, 40));
    }

    #[test]
    fn a_store_has_less_room() {
        let mut ring = Ring::of_store(64 << 20, 20);
        // Header, key and metadata are 388 bytes.
        assert_eq!(
            [0, 124, 125, 10_000].map(|size| ring.room(size)),
            [512, 512, 1024, 10_752]
        );
        assert_eq!(ring.insert(&access(1, 10_000), NEVER), Some(10_752));
        let share = ring.bytes_max as f64 / f64::from(64 << 20);
        assert!((0.80..0.93).contains(&share), "{share}");
        let share = Ring::of_store(64 << 30, 20).bytes_max as f64 / (64u64 << 30) as f64;
        assert!((0.94..0.98).contains(&share), "{share}");
        let mut none = Ring::of_store(1 << 20, 20);
        assert_eq!(none.insert(&access(1, 1), NEVER), None);
    }

    #[test]
    fn the_window_is_the_stores() {
        let mut ring = Ring::new(1000 * 512, 20);
        (ring.written, ring.writes) = (640_000, 64);
        let chunks = |bytes| ring.window(bytes) / 512;
        assert_eq!(
            [100_000, 20_000, 10_000, 5_000, 4_000, 512].map(chunks),
            [100, 100, 200, 400, 500, 500]
        );
    }
}
