//! A ring whose sweep reads the stretch it clears, and writes the best objects again.
//!
//! Objects lie in the order in which they were written. To make room, the hand clears the stretch before it, a 64th of the ring: the
//! most valuable objects in it are written again at the front, up to a share of the stretch. The others are evicted.
//!
//! ```text
//!   leaves or is written again <-- stretch | oldest ...                    newest <-- writes
//!
//!   worth = (1 + hits) / (size x age)         age: bytes written since the last use; hits: up to 15, which fit four bits
//! ```
//!
//! A hit on disk is a use, and so is the first write. A read never writes the object again: a hit costs no write, wherever the hand is.
//! The sweep reads whole stretches.
//!
//! Only bytes of objects count; headers, padding and the room kept empty are left out.
//!
//! Memory: 16 bytes for each object written and 24 for each object number.

use std::collections::VecDeque;

use super::disk::{Disk, NextUse};
use super::rule::Held;
use crate::Access;

/// In `at`: the object is not held.
const ABSENT: u64 = u64::MAX;
/// A stretch is this share of the ring.
const STRETCH_SHARE: u64 = 64;
const HITS_MAX: u8 = 15;

/// One write of an object.
#[derive(Debug, Clone, Copy)]
struct Copy {
    /// Bytes written before it.
    at: u64,
    object: u32,
}

/// The index entry of an object.
#[derive(Debug, Clone, Copy)]
struct Entry {
    /// Where its latest copy begins.
    at: u64,
    /// Sum of the bytes written before its last use.
    used: u64,
    size_bytes: u32,
    hits: u8,
}

const NOWHERE: Entry = Entry {
    at: ABSENT,
    used: 0,
    size_bytes: 0,
    hits: 0,
};

/// See the head of this file.
pub struct Sweep {
    bytes_max: u64,
    /// At most this percentage of the swept bytes is written again.
    percent: u8,
    /// Sum of all bytes ever written, and the hand: copies that begin before it are gone.
    written: u64,
    hand: u64,
    /// By place; the oldest first.
    copies: VecDeque<Copy>,
    /// Entries by object.
    entries: Vec<Entry>,
    objects: u64,
    object_bytes: u64,
    renewals: (u64, u64),
    swept_bytes: u64,
}

impl Sweep {
    /// An empty ring; `percent` of the swept bytes may be written again.
    pub fn new(bytes_max: u64, percent: u8) -> Self {
        Sweep {
            bytes_max,
            percent,
            written: 0,
            hand: 0,
            copies: VecDeque::new(),
            entries: Vec::new(),
            objects: 0,
            object_bytes: 0,
            renewals: (0, 0),
            swept_bytes: 0,
        }
    }

    fn latest(&self, object: u32) -> Option<&Entry> {
        let entry = self.entries.get(object as usize);
        entry.filter(|entry| entry.at != ABSENT)
    }

    fn same(&self, access: &Access) -> bool {
        let latest = self.latest(access.object);
        latest.is_some_and(|entry| entry.size_bytes == access.size_bytes)
    }

    fn forget(&mut self, object: u32) {
        if let Some(&entry) = self.latest(object) {
            self.entries[object as usize] = NOWHERE;
            self.objects -= 1;
            self.object_bytes -= u64::from(entry.size_bytes);
        }
    }

    /// Writes an object at the front, with this entry.
    fn write(&mut self, object: u32, entry: Entry) {
        if self.entries.len() <= object as usize {
            self.entries.resize(object as usize + 1, NOWHERE);
        }
        self.forget(object);
        let at = self.written;
        self.copies.push_back(Copy { at, object });
        self.entries[object as usize] = Entry { at, ..entry };
        self.objects += 1;
        self.object_bytes += u64::from(entry.size_bytes);
        // No two copies may have the same place, so an empty object takes one byte.
        self.written += u64::from(entry.size_bytes).max(1);
    }

    fn worth(&self, entry: &Entry) -> f64 {
        let age = (self.written - entry.used).max(1);
        (1.0 + f64::from(entry.hits)) / (f64::from(entry.size_bytes.max(1)) * age as f64)
    }

    /// Clears the stretch before the hand.
    fn sweep(&mut self) {
        let stretch = (self.bytes_max / STRETCH_SHARE).max(1);
        let end = (self.hand + stretch).min(self.written);
        let mut live = Vec::new();
        while let Some(&copy) = self.copies.front().filter(|copy| copy.at < end) {
            self.copies.pop_front();
            let latest = self.latest(copy.object).copied();
            if let Some(entry) = latest.filter(|entry| entry.at == copy.at) {
                live.push((self.worth(&entry), copy.object, entry));
            }
        }
        // An object that begins in the stretch may end beyond it.
        let next = self.copies.front().map_or(self.written, |copy| copy.at);
        let swept = next - self.hand;
        self.swept_bytes += swept;
        self.hand = next;
        live.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.2.at.cmp(&b.2.at)));
        // A share of the swept bytes, not of a whole stretch: else the last few objects would be written again for ever.
        let mut room =
            u64::try_from(u128::from(swept) * u128::from(self.percent) / 100).unwrap_or(0);
        for (_, object, entry) in live {
            // An empty object counts as one byte, or it would be kept for ever.
            let bytes = u64::from(entry.size_bytes).max(1);
            if bytes <= room {
                room -= bytes;
                self.write(object, entry);
                self.renewals.0 += 1;
                self.renewals.1 += u64::from(entry.size_bytes);
            } else {
                self.forget(object);
            }
        }
    }
}

impl Disk for Sweep {
    fn ask(&mut self, access: &Access, _next: NextUse) -> bool {
        let is_here = self.same(access);
        if !is_here {
            self.forget(access.object);
            return false;
        }
        let entry = &mut self.entries[access.object as usize];
        entry.used = self.written;
        entry.hits = (entry.hits + 1).min(HITS_MAX);
        true
    }

    fn passed(&mut self, access: &Access, _next: NextUse) -> bool {
        self.same(access)
    }

    fn insert(&mut self, access: &Access, _next: NextUse) -> Option<u64> {
        let bytes = u64::from(access.size_bytes);
        if bytes.max(1) > self.bytes_max {
            return None;
        }
        while self.is_full(access.size_bytes) {
            self.sweep();
        }
        let entry = Entry {
            used: self.written,
            size_bytes: access.size_bytes,
            ..NOWHERE
        };
        self.write(access.object, entry);
        Some(bytes)
    }

    fn held(&self) -> Held {
        Held {
            objects: self.objects,
            bytes: self.object_bytes,
            bytes_max: self.bytes_max,
        }
    }

    fn is_full(&self, size_bytes: u32) -> bool {
        self.written - self.hand + u64::from(size_bytes).max(1) > self.bytes_max
    }

    fn renewed(&mut self) -> (u64, u64) {
        std::mem::take(&mut self.renewals)
    }

    fn swept(&mut self) -> u64 {
        std::mem::take(&mut self.swept_bytes)
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

    fn get(sweep: &mut Sweep, object: u32, size_bytes: u32) -> bool {
        let access = access(object, size_bytes);
        let hit = sweep.ask(&access, NEVER);
        if !hit {
            sweep.insert(&access, NEVER);
        }
        hit
    }

    /// A full ring in which ten objects of 64 bytes are a stretch.
    fn full() -> Sweep {
        let mut sweep = Sweep::new(64 * 640, 30);
        (0..640).for_each(|object| assert!(!get(&mut sweep, object, 64)));
        assert_eq!((sweep.swept(), sweep.renewed()), (0, (0, 0)));
        sweep
    }

    #[test]
    fn the_best_of_a_stretch_is_written_again_and_the_rest_leaves() {
        let mut sweep = full();
        for object in [3, 4, 4, 5, 5, 5, 6, 12] {
            assert!(get(&mut sweep, object, 64));
        }
        get(&mut sweep, 1000, 64);
        assert_eq!((sweep.swept(), sweep.renewed()), (640, (3, 192)));
        let left = (0..20).filter(|&object| !sweep.same(&access(object, 64)));
        // Objects 3 and 6 are equal; 3 is older.
        assert!(left.eq([0, 1, 2, 6, 7, 8, 9]));
        let held = sweep.held();
        assert_eq!((held.objects, held.bytes), (634, 634 * 64));
        // Six newcomers more need no sweep.
        (1001..1007).for_each(|object| assert!(!get(&mut sweep, object, 64)));
        assert_eq!(sweep.swept(), 0);
        get(&mut sweep, 1007, 64);
        assert_eq!(sweep.swept(), 640);
    }

    #[test]
    fn what_is_small_is_worth_more_and_what_was_used_long_ago_less() {
        let sweep = {
            let mut sweep = full();
            sweep.written += 640;
            sweep
        };
        let entry = |used, size_bytes, hits| Entry {
            at: 0,
            used,
            size_bytes,
            hits,
        };
        let worth = |used, size, hits| sweep.worth(&entry(used, size, hits));
        assert!(worth(0, 10, 0) > worth(0, 11, 0));
        assert!(worth(0, 10, 1) > worth(0, 19, 0));
        assert!(worth(100, 10, 0) > worth(0, 10, 0));
        assert!(worth(sweep.written / 2, 10, 0) == worth(0, 10, 1));
    }

    #[test]
    fn nothing_is_too_short_or_too_long_for_a_sweep_to_end() {
        for percent in [0, 30, 75] {
            let mut sweep = Sweep::new(1000, percent);
            (0..3000).for_each(|object| _ = get(&mut sweep, object, 0));
            assert!(sweep.objects <= 1000 && !get(&mut sweep, 5000, 1001));
            assert!(!get(&mut sweep, 5001, 1000) && get(&mut sweep, 5001, 1000));
            assert_eq!((sweep.objects, sweep.object_bytes), (1, 1000));
            assert!(!get(&mut sweep, 5001, 999) && sweep.objects == 1);
        }
        assert_eq!(Sweep::new(0, 30).insert(&access(1, 0), NEVER), None);
    }

    #[test]
    fn hits_are_four_bits_and_a_new_version_has_none() {
        let mut sweep = full();
        (0..100).for_each(|_| assert!(get(&mut sweep, 7, 64)));
        assert_eq!(sweep.entries[7].hits, 15);
        assert!(!get(&mut sweep, 7, 60) && sweep.entries[7].hits == 0);
        assert_eq!(sweep.objects, 634);
    }
}
