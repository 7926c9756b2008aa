//! Second chances: which records are written again when they are read near the hand. Shorter records have a wider
//! window.
//!
//! Writing a record again costs its length and brings back one hit. So a record of mean length has the configured
//! window, shorter ones up to two and a half times that, longer ones down to half of it.
//!
//! ```text
//!          hand                                                         writer
//!   -------->|<---- short: 50 % of the area ---->|                         |--->
//!            |<-- middling: 20 % -->|
//!            |<- long: 10 % ->|
//! ```
//!
//! The mean is that of the records stored since the store was opened. All records count as mean before there are enough, and while
//! records are gathered in locality buffers: otherwise a page's images would be separated from the page.
//!
//! Not known here: how often records were read.
//! Source: Cao and Irani, Cost-Aware WWW Proxy Caching Algorithms (1997), for *size matters*; the numbers by
//! measurement, see docs/decisions/0028.

use crate::evict::coming::share_min;
use crate::evict::region::Hand;
use crate::record::RecordParts;
use crate::store::Store;
use extent::{Chunk, Chunks, Extent};
use std::sync::atomic::Ordering;

/// The mean is known from this many records on.
const RECORDS_MIN: u64 = 64;
/// The window of the shortest records, in halves of the configured one.
const WIDER_HALVES_MAX: u64 = 5;
/// The widest window: a record that is read all the time is written again at most once a round, not at each read.
const PERCENT_MAX: u64 = 75;

impl Store {
    /// Must a record read at this place be written again?
    pub(crate) fn may_renew(&self, extent: Extent) -> bool {
        self.window_chunks > 0 && !self.is_scanning() && self.is_near(extent.first, extent.len)
    }

    /// The same for a part of a large object, with the window of the object. Always true for other records.
    pub(crate) fn may_renew_part(&self, first: Chunk, parts: &RecordParts) -> bool {
        let whole = parts.total.map_or(0, |total| total.bytes);
        let beside = parts.fragment.map_or(0, |_| self.fragment_bytes().into());
        let bytes = whole.max(beside);
        let len = bytes.div_ceil(u64::from(self.geometry.chunk_bytes));
        let len = u32::try_from(len).unwrap_or(u32::MAX);
        len == 0 || self.is_near(first, Chunks(len))
    }

    /// Is it left to reinsertion whether this record is written again?
    pub(crate) fn is_left_to_the_sweep(&self, parts: &RecordParts) -> bool {
        let is_whole = parts.fragment.is_none() && parts.total.is_none();
        is_whole && self.reads_stretches.load(Ordering::Relaxed) && self.has_a_share(parts)
    }

    /// Is it shorter than the least share of a stretch that is written again? In a small store the longest records are not.
    fn has_a_share(&self, parts: &RecordParts) -> bool {
        let bytes = parts.key.len() + parts.meta.len() + parts.body.len();
        let chunks = bytes.div_ceil(self.chunk_bytes());
        chunks < share_min(Chunks(self.stretch_chunks)).0 as usize
    }

    pub(crate) fn is_near(&self, first: Chunk, len: Chunks) -> bool {
        let hand = Chunk(self.hand_at.load(Ordering::Relaxed));
        let way = Hand::distance(hand, first, self.geometry.data_chunks);
        u64::from(way) < self.window(len)
    }

    /// The window of a record of that length, in chunks.
    fn window(&self, len: Chunks) -> u64 {
        let set = u64::from(self.window_chunks);
        let records = self.counters.inserts.get();
        if records < RECORDS_MIN || self.gathers.load(Ordering::Relaxed) {
            return set;
        }
        let middling = self.counters.insert_bytes.get() / records;
        let bytes = u64::from(len.0.max(1)) * u64::from(self.geometry.chunk_bytes);
        by_size(set, bytes, middling, self.geometry.data_chunks.into())
    }
}

/// The window of a record of `bytes`, where a record of `middling` bytes has `set` of `total` chunks.
fn by_size(set: u64, bytes: u64, middling: u64, total: u64) -> u64 {
    let fitted = (u128::from(set) * u128::from(middling) / u128::from(bytes.max(1))) as u64;
    let widest = (set * WIDER_HALVES_MAX / 2).min(total * PERCENT_MAX / 100);
    fitted.clamp(set / 2, widest.max(set / 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shorter_the_wider() {
        let window = |bytes| by_size(200, bytes, 10_000, 1000);
        assert_eq!(
            [100_000, 20_000, 10_000, 5_000, 4_000, 512].map(window),
            [100, 100, 200, 400, 500, 500]
        );
    }

    #[test]
    fn none_is_wider_than_three_quarters_or_than_none() {
        assert_eq!(by_size(500, 512, 10_000, 1000), 750);
        assert_eq!(by_size(750, 20_000, 10_000, 1000), 375);
        assert_eq!(by_size(0, 512, 10_000, 1000), 0);
    }
}
