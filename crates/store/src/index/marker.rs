//! Markers: for a primary key with variants, how to find them.
//!
//! A marker holds the list of request fields that select a variant (opaque here) and a salt that goes into the full
//! key of each variant. Salts are never used twice, so dropping a marker, or making a new one, puts
//! all variants stored under it out of reach at once, even those that a fill in progress has yet to
//! insert. They are evicted in their turn.
//!
//! Limits: [`MARKERS_MAX`] a shard, the oldest makes room; lists of [`LIST_BYTES_MAX`].

use crate::Sequence;
use crate::index::key::{KeyHash, NumberMap};
use crate::layout::checkpoint_marker as field;
use std::sync::Arc;

/// Markers in a shard; the oldest makes room for one more.
pub(crate) const MARKERS_MAX: usize = 16_384;

/// The longest list a marker may have; a longer one is refused.
pub const LIST_BYTES_MAX: usize = 1024;

/// How to find the variants of a primary key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Marker {
    /// Goes into the full key of each variant; never the same twice.
    pub salt: u64,
    /// The caller's own: which request fields select the variant.
    pub list: Arc<[u8]>,
}

#[derive(Debug, Default)]
pub(crate) struct Markers {
    by_primary: NumberMap<u64, Numbered>,
}

#[derive(Debug)]
struct Numbered {
    marker: Marker,
    number: u64,
    /// Variants whose fetch began before are stale; 0: none.
    doubted_at: Sequence,
}

impl Markers {
    pub(crate) fn get(&self, primary: KeyHash) -> Option<&Marker> {
        self.by_primary
            .get(&primary.0)
            .map(|numbered| &numbered.marker)
    }

    /// Sets a marker; `number` orders them by age. Whose marker had to make room for it.
    pub(crate) fn set(&mut self, primary: KeyHash, marker: Marker, number: u64) -> Option<KeyHash> {
        let mut gone = None;
        if self.by_primary.len() >= MARKERS_MAX && !self.by_primary.contains_key(&primary.0) {
            let oldest = self
                .by_primary
                .iter()
                .min_by_key(|(_, numbered)| numbered.number);
            if let Some(&oldest) = oldest.map(|(primary, _)| primary) {
                self.by_primary.remove(&oldest);
                gone = Some(KeyHash(oldest));
            }
        }
        let numbered = Numbered {
            marker,
            number,
            doubted_at: 0,
        };
        self.by_primary.insert(primary.0, numbered);
        gone
    }

    /// All variants whose fetch began before `sequence` are stale from now on. False: there is no marker.
    pub(crate) fn doubt(&mut self, primary: KeyHash, sequence: Sequence) -> bool {
        let numbered = self.by_primary.get_mut(&primary.0);
        if let Some(numbered) = numbered {
            numbered.doubted_at = numbered.doubted_at.max(sequence);
            return true;
        }
        false
    }

    /// Variants whose fetch began before are stale; 0: none.
    pub(crate) fn doubted_at(&self, primary: KeyHash) -> Sequence {
        self.by_primary
            .get(&primary.0)
            .map_or(0, |numbered| numbered.doubted_at)
    }

    /// The marker of that salt, with another list.
    pub(crate) fn resume(&mut self, primary: KeyHash, salt: u64, list: &[u8]) -> Option<&Marker> {
        let numbered = self.by_primary.get_mut(&primary.0)?;
        let marker = Some(&mut numbered.marker).filter(|marker| marker.salt == salt)?;
        if *marker.list != *list {
            marker.list = Arc::from(list);
        }
        Some(marker)
    }

    pub(crate) fn remove(&mut self, primary: KeyHash) -> bool {
        self.by_primary.remove(&primary.0).is_some()
    }

    pub(crate) fn len(&self) -> usize {
        self.by_primary.len()
    }

    /// All of them as they go into a checkpoint, oldest first. Empty if there are none.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut all: Vec<_> = self.by_primary.iter().collect();
        all.sort_unstable_by_key(|(_, numbered)| numbered.number);
        let mut bytes = Vec::new();
        for (&primary, numbered) in all {
            let marker = &numbered.marker;
            let start = bytes.len();
            bytes.resize(start + field::BYTES, 0);
            let place = &mut bytes[start..];
            field::PRIMARY.put_u64(place, primary);
            field::SALT.put_u64(place, marker.salt);
            field::DOUBTED_AT.put_u64(place, numbered.doubted_at);
            field::LIST_LEN.put_u32(place, marker.list.len() as u32);
            bytes.extend_from_slice(&marker.list);
        }
        bytes
    }

    /// Reads what [`Self::encode`] wrote; None for anything else, never a panic.
    pub(crate) fn decode(mut bytes: &[u8]) -> Option<Self> {
        let mut markers = Self::default();
        while !bytes.is_empty() {
            let (fixed, rest) = bytes.split_at_checked(field::BYTES)?;
            let list_len = field::LIST_LEN.u32(fixed) as usize;
            if list_len > LIST_BYTES_MAX {
                return None;
            }
            let (list, rest) = rest.split_at_checked(list_len)?;
            let salt = field::SALT.u64(fixed);
            let marker = Marker {
                salt,
                list: Arc::from(list),
            };
            let primary = KeyHash(field::PRIMARY.u64(fixed));
            let _ = markers.set(primary, marker, salt);
            markers.doubt(primary, field::DOUBTED_AT.u64(fixed));
            bytes = rest;
        }
        Some(markers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_makes_room() {
        let mut markers = Markers::default();
        for n in 0..=MARKERS_MAX as u64 {
            let marker = Marker {
                salt: n,
                list: Arc::from(&b"accept"[..]),
            };
            markers.set(KeyHash(n), marker, n);
        }
        assert_eq!(markers.len(), MARKERS_MAX);
        assert!(markers.get(KeyHash(0)).is_none());
        assert_eq!(markers.get(KeyHash(1)).unwrap().salt, 1);
    }

    #[test]
    fn a_list_is_replaced_only_behind_its_salt() {
        let mut markers = Markers::default();
        let marker = Marker {
            salt: 5,
            list: Arc::from(&b"accept"[..]),
        };
        markers.set(KeyHash(1), marker, 5);
        assert!(markers.resume(KeyHash(1), 4, b"other").is_none());
        assert!(markers.resume(KeyHash(2), 5, b"other").is_none());
        assert_eq!(
            &*markers.resume(KeyHash(1), 5, b"more").unwrap().list,
            b"more"
        );
        let read = Markers::decode(&markers.encode()).unwrap();
        assert_eq!(read.get(KeyHash(1)), markers.get(KeyHash(1)));
    }
}
