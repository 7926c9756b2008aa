//! The length of the fragments into which bodies are cut. A body no longer than a fragment is one record, with its head.
//!
//! ```text
//!   one record:  | header | key | metadata, with the head | body                     | padding |
//!   a fragment:  | header | key | table | body                                                 |
//! ```
//!
//! A fragment's record fills a length that the index can express. A body as long that lies beside its head needs the next length. So a
//! fragment's record must be shorter than the longest record, which is half of a region, by the length of a head.
//!
//! The length is chosen when a store is made, and is in its superblock: with another one, fragments on the disk would mean other bytes.
//!
//! Not known here: the cutting.

use crate::blocks::{BLOCK_BYTES, ENTRY_BYTES};
use crate::geometry::Geometry;
use crate::index::entry::encodable_chunks;
use crate::layout::PAGE_BYTES;
use crate::record::HEADER_BYTES;

/// Room beside a body that is as long as a fragment: the longest head of a response by default.
const BESIDE_BYTES: u64 = 64 << 10;

/// A lower bound for the longest record of a fragment.
const RECORD_BYTES_MIN: u64 = 4 * PAGE_BYTES;

/// The least room for a fragment's key.
const KEY_BYTES: u64 = 256;

/// The room for the key of a large fragment, as a share. A record with a longer key takes the next length that the index can express.
const KEY_SHARE: u64 = 1024;

/// The longest record of a fragment in stores of format version 5.
const WANTED_BEFORE_6: u64 = 1 << 20;

/// The body length of the fragments of a new store: the shortest that is not below `wanted`, else the longest there is.
pub(crate) fn fragment_bytes(wanted: u32, geometry: &Geometry) -> u32 {
    let (region_bytes, chunk_bytes) = (geometry.region_bytes(), geometry.chunk_bytes);
    let longest_whole = records(region_bytes / 2, chunk_bytes).last().unwrap_or(0);
    let beside_a_head = longest_whole.saturating_sub(BESIDE_BYTES);
    let bodies = bodies(beside_a_head.max(region_bytes / 4), chunk_bytes);
    let enough = bodies.clone().find(|&bytes| bytes >= u64::from(wanted));
    enough.or_else(|| bodies.last()).unwrap_or(1) as u32
}

/// The body length of fragments in a store of format version 5, which does not tell it: the record was the longest that is not above 1 MiB
/// or a quarter of a region.
pub(crate) fn fragment_bytes_before_6(geometry: &Geometry) -> u32 {
    let longest = WANTED_BEFORE_6.min(geometry.region_bytes() / 4);
    let bodies = bodies(longest, geometry.chunk_bytes);
    bodies.last().unwrap_or(1) as u32
}

/// Is it the length of a fragment that fits a region?
pub(crate) fn is_sound(fragment_bytes: u32, geometry: &Geometry) -> bool {
    fragment_bytes > 0 && u64::from(fragment_bytes) <= geometry.region_bytes()
}

/// The bodies of fragments whose records exactly fill a length that the index can express, up to `longest`; ascending.
fn bodies(longest: u64, chunk_bytes: u32) -> impl Iterator<Item = u64> + Clone {
    records(longest.max(RECORD_BYTES_MIN), chunk_bytes).map(body_bytes)
}

/// The lengths that the index can express, up to `longest` or one chunk.
fn records(longest: u64, chunk_bytes: u32) -> impl Iterator<Item = u64> + Clone {
    let chunk_bytes = u64::from(chunk_bytes);
    let chunks = (longest / chunk_bytes) as u32;
    (1..=chunks.max(1))
        .filter(|&chunks| encodable_chunks(chunks) == Some(chunks))
        .map(move |chunks| u64::from(chunks) * chunk_bytes)
}

/// The body length of a fragment whose record has that length.
fn body_bytes(record: u64) -> u64 {
    let key = KEY_BYTES.max(record / KEY_SHARE);
    let table = record.div_ceil(BLOCK_BYTES) * ENTRY_BYTES;
    record - (HEADER_BYTES as u64 + key + table).min(record / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: u64 = 1 << 10;
    const MIB: u64 = 1 << 20;

    fn plan(mib: u64, chunk_bytes: u32) -> Geometry {
        Geometry::plan(mib * MIB, chunk_bytes).unwrap()
    }

    #[test]
    fn one_mebibyte_is_one_record_from_64_mib_on() {
        for mib in (64..700).chain([2048, 100_000]) {
            for chunk_bytes in [512, 4096, 65536] {
                let geometry = plan(mib, chunk_bytes);
                let bytes = u64::from(fragment_bytes(MIB as u32, &geometry));
                assert!(bytes >= MIB, "{bytes} of {geometry}");
                assert!(bytes < MIB + 64 * KIB, "{bytes} of {geometry}");
            }
        }
    }

    #[test]
    fn smaller_stores_have_shorter_records() {
        let of = |mib| u64::from(fragment_bytes(MIB as u32, &plan(mib, 512))) / KIB;
        let expected = [63, 223, 287, 334, 574];
        assert_eq!([4, 8, 10, 20, 32].map(of), expected);
        let from_10_mib = (10..700).all(|mib| of(mib) >= 256);
        assert!(from_10_mib);
    }

    #[test]
    fn a_head_of_64_kib_fits_beside_every_body() {
        for mib in 4..700 {
            for chunk_bytes in [512, 4096] {
                let geometry = plan(mib, chunk_bytes);
                let bytes = u64::from(fragment_bytes(MIB as u32, &geometry));
                let whole = (bytes + 64 * KIB).div_ceil(u64::from(chunk_bytes));
                let padded = encodable_chunks(whole as u32).unwrap();
                let most = geometry.region_chunks / 2;
                assert!(padded <= most, "{bytes} of {geometry}");
            }
        }
    }

    #[test]
    fn fragments_of_earlier_stores_are_as_they_were() {
        assert_eq!(fragment_bytes_before_6(&plan(2048, 512)), 1_045_376);
        let geometry = plan(128, 512).with_region_bytes(500 * KIB);
        assert_eq!(fragment_bytes_before_6(&geometry), 126_344);
    }

    #[test]
    fn what_a_superblock_says_is_judged() {
        let geometry = plan(4, 512);
        assert!(is_sound(fragment_bytes(1 << 20, &geometry), &geometry));
        assert!(!is_sound(0, &geometry) && !is_sound(u32::MAX, &geometry));
    }
}
