//! Resources whose parts could not be stored recently: the range pass list.
//!
//! A request for a range that is not stored is widened to whole fragments, so that these can be stored. If nothing may be stored, that
//! would fetch up to two fragments too much for each request; and an origin that sends other parts than requested would be asked twice
//! each time. So such resources are remembered, and requests for their ranges are passed through unchanged.
//!
//!
//! Limits: a small table for each worker. An entry expires after a minute; if the resource is noted again, after twice the time, up to
//! an hour. An entry that another one replaces costs one more request to the origin, nothing else.

use std::cell::Cell;

use httpcache::UnixMillis;
use store::KeyHash;

/// Entries; a power of two.
const RANGE_PASS_MAX: usize = 1024;
/// The first lifetime of an entry.
const RANGE_PASS_MS: u64 = 60_000;
/// The longest lifetime of an entry.
const RANGE_PASS_MS_MAX: u64 = 3_600_000;

/// The table.
pub struct RangePassList(Box<[Cell<Entry>]>);

#[derive(Clone, Copy)]
struct Entry {
    primary: KeyHash,
    until_ms: u64,
    length_ms: u64,
}

impl RangePassList {
    /// An empty table.
    pub fn new() -> RangePassList {
        RangePassList(
            (0..RANGE_PASS_MAX)
                .map(|_| {
                    Cell::new(Entry {
                        primary: KeyHash(0),
                        until_ms: 0,
                        length_ms: 0,
                    })
                })
                .collect(),
        )
    }

    fn slot(&self, primary: KeyHash) -> &Cell<Entry> {
        &self.0[primary.0 as usize & (RANGE_PASS_MAX - 1)]
    }

    /// Notes that no part of the resource could be stored.
    pub fn note(&self, primary: KeyHash, now: UnixMillis) {
        let slot = self.slot(primary);
        let entry = slot.get();
        let length_ms = match entry.primary == primary {
            // Two requests in progress at once count as one.
            true if now.0 < entry.until_ms => entry.length_ms,
            true => (entry.length_ms * 2).clamp(RANGE_PASS_MS, RANGE_PASS_MS_MAX),
            false => RANGE_PASS_MS,
        };
        slot.set(Entry {
            primary,
            until_ms: now.0 + length_ms,
            length_ms,
        });
    }

    /// Is the resource in the list?
    pub fn contains(&self, primary: KeyHash, now: UnixMillis) -> bool {
        let entry = self.slot(primary).get();
        entry.primary == primary && now.0 < entry.until_ms
    }
}

impl Default for RangePassList {
    fn default() -> Self {
        RangePassList::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_forgets_after_a_minute() {
        let range_pass_list = RangePassList::new();
        assert!(!range_pass_list.contains(KeyHash(7), UnixMillis(0)));
        range_pass_list.note(KeyHash(7), UnixMillis(5));
        assert!(range_pass_list.contains(KeyHash(7), UnixMillis(60_004)));
        assert!(!range_pass_list.contains(KeyHash(7), UnixMillis(60_005)));
        assert!(!range_pass_list.contains(KeyHash(8), UnixMillis(6)));
    }

    #[test]
    fn what_is_noted_again_is_tried_less_often() {
        let range_pass_list = RangePassList::new();
        let mut now = 0;
        let mut lengths = Vec::new();
        for _ in 0..8 {
            range_pass_list.note(KeyHash(7), UnixMillis(now));
            range_pass_list.note(KeyHash(7), UnixMillis(now));
            let mut minutes = 0;
            while range_pass_list.contains(KeyHash(7), UnixMillis(now)) {
                now += 60_000;
                minutes += 1;
            }
            lengths.push(minutes);
        }
        assert_eq!(lengths, [1, 2, 4, 8, 16, 32, 60, 60]);
        // A new entry in its place starts with the first lifetime.
        range_pass_list.note(KeyHash(7 + RANGE_PASS_MAX as u64), UnixMillis(now));
        assert!(!range_pass_list.contains(KeyHash(7), UnixMillis(now)));
        range_pass_list.note(KeyHash(7), UnixMillis(now));
        assert!(!range_pass_list.contains(KeyHash(7), UnixMillis(now + 60_000)));
    }
}
