//! The index as bytes: what a clean stop writes and a clean start reads.
//!
//! ```text
//! header | markers, newest first | entries, hottest first | zeros up to a page
//! ```
//!
//! Each part has its own checksum. If the area is too small for everything, the coldest entries are left out
//! (their objects become misses), and the oldest markers if those alone would take more than half.
//!
//! [`decode`] is given foreign bytes: it answers with [`LoadError`], never with a panic.

use crate::Sequence;
use crate::geometry::{Geometry, PAGE_BYTES};
use crate::key::KeyHash;
use crate::layout::{image_entry as entry, image_header as header, image_marker as marker};
use crate::marker::{LIST_BYTES_MAX, Marker};
use crate::shard::{Flags, RECORD_CHUNKS_MAX, Slot};
use bytes::{Bytes, BytesMut};
use extent::{Chunk, Chunks, Extent};
use std::sync::Arc;
use twox_hash::XxHash3_64;

const MAGIC: [u8; 8] = *b"LgIndex\n";
const VERSION: u32 = 1;

/// Why an index image can't be used; the store then starts empty.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum LoadError {
    /// The store was not stopped in order.
    #[error("the store was not stopped in order")]
    NotClean,
    /// Not an index, or not the one the superblock speaks of.
    #[error("the index is not the one the superblock speaks of ({0})")]
    Mismatch(&'static str),
    /// Changed since it was written.
    #[error("the index is damaged ({0})")]
    Damaged(&'static str),
    /// Two records claim the same chunks or the same hash, or one lies outside the store.
    #[error("the index contradicts itself: {0}")]
    Contradiction(String),
}

/// What an image says besides its markers and entries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct About {
    pub generation: u64,
    pub epoch: u64,
    pub sequence: Sequence,
}

/// An image, read.
#[derive(Debug)]
pub(crate) struct Image {
    pub sequence: Sequence,
    /// Newest first.
    pub markers: Vec<(KeyHash, Marker)>,
    /// Hottest first; every extent lies within the data area.
    pub entries: Vec<(KeyHash, Extent, Flags)>,
}

/// Writes an image of at most `bytes_max`. `markers` newest first, `entries` hottest first.
pub(crate) fn encode(
    about: About,
    markers: &[(KeyHash, Marker)],
    entries: &[Slot],
    bytes_max: u64,
) -> Bytes {
    let room = bytes_max as usize - header::BYTES;
    let width = |marker: &Marker| marker::BYTES + marker.list.len();
    let mut marker_bytes = 0;
    let fitting = markers.iter().take_while(|(_, marker)| {
        marker_bytes += width(marker);
        marker_bytes <= room / 2
    });
    let markers = &markers[..fitting.count()];
    let marker_bytes: usize = markers.iter().map(|(_, marker)| width(marker)).sum();
    let entries = &entries[..entries.len().min((room - marker_bytes) / entry::BYTES)];

    let used = header::BYTES + marker_bytes + entries.len() * entry::BYTES;
    let mut image = crate::buffer::aligned(used.next_multiple_of(PAGE_BYTES as usize));
    let (head, rest) = image.split_at_mut(header::BYTES);
    let (marker_part, rest) = rest.split_at_mut(marker_bytes);
    let entry_part = &mut rest[..entries.len() * entry::BYTES];

    let mut at = 0;
    for (primary, marker) in markers {
        let place = &mut marker_part[at..at + width(marker)];
        marker::PRIMARY.put_u64(place, primary.0);
        marker::SALT.put_u64(place, marker.salt);
        marker::LIST_LEN.put_u32(place, marker.list.len() as u32);
        place[marker::BYTES..].copy_from_slice(&marker.list);
        at += width(marker);
    }
    for (place, slot) in entry_part.chunks_exact_mut(entry::BYTES).zip(entries) {
        let extent = slot.extent();
        let flags = slot.flags().0 & Flags::STORED.0;
        entry::HASH.put_u64(place, slot.hash.0);
        entry::FIRST.put_u32(place, extent.first.0);
        entry::CHUNKS_AND_FLAGS.put_u32(place, u32::from(flags) << 24 | extent.len.0);
    }
    header::MAGIC.put(head, &MAGIC);
    header::VERSION.put_u32(head, VERSION);
    header::MARKERS.put_u32(head, markers.len() as u32);
    header::GENERATION.put_u64(head, about.generation);
    header::EPOCH.put_u64(head, about.epoch);
    header::SEQUENCE.put_u64(head, about.sequence);
    header::ENTRIES.put_u64(head, entries.len() as u64);
    header::MARKER_BYTES.put_u64(head, marker_bytes as u64);
    header::MARKER_CHECKSUM.put_u64(head, XxHash3_64::oneshot(marker_part));
    header::ENTRY_CHECKSUM.put_u64(head, XxHash3_64::oneshot(entry_part));
    let checksum = XxHash3_64::oneshot(&head[..header::CHECKSUM.at]);
    header::CHECKSUM.put_u64(head, checksum);
    BytesMut::freeze(image)
}

/// Reads an image of this generation and epoch.
pub(crate) fn decode(
    bytes: &[u8],
    generation: u64,
    epoch: u64,
    geometry: &Geometry,
) -> Result<Image, LoadError> {
    let (head, rest) = bytes
        .split_at_checked(header::BYTES)
        .ok_or(LoadError::Mismatch("length"))?;
    if header::MAGIC.of(head) != MAGIC || header::VERSION.u32(head) != VERSION {
        return Err(LoadError::Mismatch("magic or version"));
    }
    if header::CHECKSUM.u64(head) != XxHash3_64::oneshot(&head[..header::CHECKSUM.at]) {
        return Err(LoadError::Damaged("header"));
    }
    if header::GENERATION.u64(head) != generation || header::EPOCH.u64(head) != epoch {
        return Err(LoadError::Mismatch("generation or epoch"));
    }
    let length = || LoadError::Mismatch("length");
    let marker_bytes = usize::try_from(header::MARKER_BYTES.u64(head)).map_err(|_| length())?;
    let (marker_part, rest) = rest.split_at_checked(marker_bytes).ok_or_else(length)?;
    let entry_bytes = usize::try_from(header::ENTRIES.u64(head)).ok();
    let entry_bytes = entry_bytes
        .and_then(|n| n.checked_mul(entry::BYTES))
        .ok_or_else(length)?;
    let entry_part = rest.get(..entry_bytes).ok_or_else(length)?;
    if header::MARKER_CHECKSUM.u64(head) != XxHash3_64::oneshot(marker_part) {
        return Err(LoadError::Damaged("markers"));
    }
    if header::ENTRY_CHECKSUM.u64(head) != XxHash3_64::oneshot(entry_part) {
        return Err(LoadError::Damaged("entries"));
    }
    Ok(Image {
        sequence: header::SEQUENCE.u64(head),
        markers: decode_markers(marker_part, header::MARKERS.u32(head))?,
        entries: entry_part
            .chunks_exact(entry::BYTES)
            .map(|bytes| decode_entry(bytes, geometry))
            .collect::<Result<_, _>>()?,
    })
}

fn decode_markers(mut bytes: &[u8], count: u32) -> Result<Vec<(KeyHash, Marker)>, LoadError> {
    let mut markers = Vec::new();
    for _ in 0..count {
        let damaged = || LoadError::Damaged("marker");
        let (fixed, rest) = bytes.split_at_checked(marker::BYTES).ok_or_else(damaged)?;
        let list_len = marker::LIST_LEN.u32(fixed) as usize;
        if list_len > LIST_BYTES_MAX {
            return Err(damaged());
        }
        let (list, rest) = rest.split_at_checked(list_len).ok_or_else(damaged)?;
        let salt = marker::SALT.u64(fixed);
        let primary = KeyHash(marker::PRIMARY.u64(fixed));
        markers.push((
            primary,
            Marker {
                salt,
                list: Arc::from(list),
            },
        ));
        bytes = rest;
    }
    if bytes.is_empty() {
        Ok(markers)
    } else {
        Err(LoadError::Damaged("marker"))
    }
}

fn decode_entry(bytes: &[u8], geometry: &Geometry) -> Result<(KeyHash, Extent, Flags), LoadError> {
    let chunks_and_flags = entry::CHUNKS_AND_FLAGS.u32(bytes);
    let first = entry::FIRST.u32(bytes);
    let len = chunks_and_flags & RECORD_CHUNKS_MAX;
    let flags = Flags((chunks_and_flags >> 24) as u8);
    let inside = first
        .checked_add(len)
        .is_some_and(|end| end <= geometry.data_chunks);
    if len == 0 || !inside || !Flags::STORED.contains(flags) {
        let what = format!("{len} chunks from {first}, flags {}", flags.0);
        return Err(LoadError::Contradiction(what));
    }
    let extent = Extent {
        first: Chunk(first),
        len: Chunks(len),
    };
    Ok((KeyHash(entry::HASH.u64(bytes)), extent, flags))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ABOUT: About = About {
        generation: 4,
        epoch: 2,
        sequence: 99,
    };

    fn geometry() -> Geometry {
        Geometry::plan(8 << 20, 512).unwrap()
    }

    fn example() -> Bytes {
        let list = Arc::from(&b"accept-encoding"[..]);
        let markers = [(KeyHash(1), Marker { salt: 8, list })];
        let slot = |n: u32, flags| {
            let extent = Extent {
                first: Chunk(n * 10),
                len: Chunks(3),
            };
            Slot::new(KeyHash(u64::from(n)), extent, flags, 0)
        };
        let entries = [
            slot(5, Flags::HEAD),
            slot(6, Flags::WRITING),
            slot(7, Flags(0)),
        ];
        encode(ABOUT, &markers, &entries, 8192)
    }

    #[test]
    fn what_was_written_is_read() {
        let image = decode(&example(), 4, 2, &geometry()).unwrap();
        assert_eq!(image.sequence, 99);
        assert_eq!(image.markers[0].1.salt, 8);
        let entries: Vec<_> = image
            .entries
            .iter()
            .map(|(h, e, f)| (h.0, e.first.0, f.0))
            .collect();
        assert_eq!(entries, [(5, 50, Flags::HEAD.0), (6, 60, 0), (7, 70, 0)]);
    }

    #[test]
    fn another_generation_or_epoch_is_refused() {
        let mismatch = LoadError::Mismatch("generation or epoch");
        assert_eq!(decode(&example(), 5, 2, &geometry()).unwrap_err(), mismatch);
        assert_eq!(decode(&example(), 4, 3, &geometry()).unwrap_err(), mismatch);
    }

    #[test]
    fn every_damaged_byte_is_noticed_up_to_the_padding() {
        let whole = example();
        let used = header::BYTES + marker::BYTES + 15 + 3 * entry::BYTES;
        for at in 0..used {
            let mut bytes = whole.to_vec();
            bytes[at] ^= 0x11;
            assert!(decode(&bytes, 4, 2, &geometry()).is_err(), "byte {at}");
            assert!(
                decode(&whole[..at], 4, 2, &geometry()).is_err(),
                "cut at {at}"
            );
        }
    }

    #[test]
    fn what_does_not_fit_is_left_out_coldest_first() {
        let slot = |n: u32| {
            let extent = Extent {
                first: Chunk(n),
                len: Chunks(1),
            };
            Slot::new(KeyHash(u64::from(n)), extent, Flags(0), 0)
        };
        let entries: Vec<Slot> = (0..1000).map(slot).collect();
        let bytes = encode(ABOUT, &[], &entries, 4096);
        assert_eq!(bytes.len(), 4096);
        let image = decode(&bytes, 4, 2, &geometry()).unwrap();
        assert_eq!(image.entries.len(), (4096 - header::BYTES) / entry::BYTES);
        assert_eq!(image.entries[0].0, KeyHash(0));
    }
}
