//! Who gets a second chance: what is read while its place comes near, the sooner the shorter it is.
//!
//! To write a record again costs as much room as it is long, and brings back a hit however long it is. So the window, in which a
//! read makes a record be written again, is as wide as was set for a record of middling length, up to two and a half times that for
//! shorter ones, and down to half of it for longer ones.
//!
//! ```text
//!          hand                                                         writer
//!   -------->|<---- short: 50 % of the area ---->|                         |--->
//!            |<-- middling: 20 % -->|
//!            |<- long: 10 % ->|
//! ```
//!
//! Middling is the mean of what was stored since the store was opened; until there is some of it, all are middling. While records are
//! gathered in locality buffers all are: the images would leave their page, with which one read is to bring them.
//!
//! Not known here: what was read how often.
//! Source: Cao and Irani, Cost-Aware WWW Proxy Caching Algorithms (1997), for *size matters*; the numbers by measurement, see
//! docs/decisions/0028.

use crate::evict::region::Hand;
use crate::record::RecordParts;
use crate::store::Store;
use extent::{Chunk, Chunks, Extent};
use std::sync::atomic::Ordering;

/// So many records make a mean.
const RECORDS_MIN: u64 = 64;
/// The window of the shortest records, in halves of the one that was set.
const WIDER_HALVES_MAX: u64 = 5;
/// No window is wider than this: who is read all the time is written again once a round at most, not at each read.
const PERCENT_MAX: u64 = 75;

impl Store {
    /// Is what is read there to be written again?
    pub(crate) fn may_renew(&self, extent: Extent) -> bool {
        self.window_chunks > 0 && !self.is_scanning() && self.is_near(extent.first, extent.len)
    }

    /// And if it is a part of an object that has several, is that to be?
    pub(crate) fn may_renew_part(&self, first: Chunk, parts: &RecordParts) -> bool {
        let whole = parts.total.map_or(0, |total| total.bytes);
        let beside = parts.fragment.map_or(0, |_| self.fragment_bytes().into());
        let bytes = whole.max(beside);
        let len = bytes.div_ceil(u64::from(self.geometry.chunk_bytes));
        let len = u32::try_from(len).unwrap_or(u32::MAX);
        len == 0 || self.is_near(first, Chunks(len))
    }

    fn is_near(&self, first: Chunk, len: Chunks) -> bool {
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

/// The window of a record of `bytes`, where one of `middling` bytes has `set` of `total` chunks.
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
