//! Keeping the fragments that an answer is yet to send.
//!
//! A large body is sent fragment by fragment, at the client's pace. Before anything of it is promised the fragments are noted
//! with the store as needed ([`store::Needs`]), so that room is not made where they lie; each is let go when it was read, and
//! the rest with the answer, however that ends. What the store does not note, since too much is needed already, is asked for
//! again with each fragment that is read.
//!
//! What is purged meanwhile is read all the same: it was right when the answer began
//! (docs/decisions/0036). An answer that begins afterwards gets nothing of it.
//!
//! Not known here: what the fragments are needed for, what becomes of those that are missing.

use std::{collections::VecDeque, ops::Range};

use bytes::Bytes;
use httpcache::ByteRange;
use store::{KeyHash, KeyHasher, Needed, Needs};

use crate::{
    cache::disk::{DiskIo, Waits},
    cache::object::Object,
    request::key::fragment_key,
};

/// The fragments of one fetch that an answer needs, in the order in which it sends them.
#[derive(Default)]
pub struct Holding(Option<Held>);

struct Held {
    needs: Needs,
    hasher: KeyHasher,
    key: Vec<u8>,
    fetch_id: u64,
    /// Not noted yet.
    ahead: VecDeque<Range<u32>>,
    /// They come one by one: behind the first that is missing there is none yet.
    is_growing: bool,
}

impl Holding {
    /// Those of an object that these stretches of its body lie in. Nothing if it has none, or there is no disk.
    pub fn of(disk: Option<&DiskIo>, object: &Object, stretches: &[Range<u64>]) -> Holding {
        let (Some(disk), Some(large)) = (disk, &object.large) else {
            return Holding::default();
        };
        let store = disk.store_of(object.primary);
        let size = u64::from(store.fragment_bytes());
        let numbers = |bytes: &Range<u64>| {
            let last = bytes.end.min(large.bytes).div_ceil(size);
            (bytes.start / size) as u32..last as u32
        };
        let mut held = Held {
            needs: Needs::new(store),
            hasher: store.hasher(),
            key: object.key.to_vec(),
            fetch_id: large.fetch_id,
            ahead: stretches.iter().map(numbers).collect(),
            is_growing: false,
        };
        held.note(disk);
        Holding(Some(held))
    }

    /// Those that a request for this part of an object needs.
    pub fn of_range(
        disk: Option<&DiskIo>,
        object: &Object,
        range: &ByteRange,
        head_only: bool,
    ) -> Holding {
        let stretch = match range {
            _ if head_only => return Holding::default(),
            ByteRange::Whole => 0..object.body_bytes(),
            ByteRange::One { first, last } => *first..*last + 1,
            ByteRange::Several(parts) => {
                let stretches = parts.iter().map(|part| part.first..part.last + 1);
                return Holding::of(disk, object, &stretches.collect::<Vec<_>>());
            }
            ByteRange::Unsatisfiable => return Holding::default(),
        };
        Holding::of(disk, object, std::slice::from_ref(&stretch))
    }

    /// Reads a fragment of a fetch under way, named by the object's primary and key and its own id. Those behind it will be read
    /// too, as far as they are there. It stays until [`Self::read`] says that it was sent.
    pub async fn load_of_fetch(
        &mut self,
        disk: &DiskIo,
        (primary, key, fetch_id): (KeyHash, &[u8], u64),
        number: u32,
    ) -> Option<Bytes> {
        if self.0.is_none() {
            let store = disk.store_of(primary);
            self.0 = Some(Held {
                needs: Needs::new(store),
                hasher: store.hasher(),
                key: key.to_vec(),
                fetch_id,
                ahead: std::iter::once(number..u32::MAX).collect(),
                is_growing: true,
            });
            self.note(disk);
        }
        let waits = Waits::for_answer(true);
        disk.load_fragment(primary, key, fetch_id, number, waits)
            .await
    }

    fn note(&mut self, disk: &DiskIo) {
        if let Some(held) = &mut self.0 {
            held.note(disk);
        }
    }

    /// This fragment was read, or will not be.
    pub fn read(&mut self, disk: Option<&DiskIo>, number: u32) {
        if let (Some(held), Some(disk)) = (&mut self.0, disk) {
            let hash = held.hash(number);
            held.needs.release(hash);
            held.note(disk);
        }
    }
}

impl Held {
    fn hash(&self, number: u32) -> KeyHash {
        let key = fragment_key(&self.key, self.fetch_id, number);
        self.hasher.hash(&key)
    }

    fn note(&mut self, disk: &DiskIo) {
        while let Some(range) = self.ahead.front() {
            if range.is_empty() {
                self.ahead.pop_front();
                continue;
            }
            let hash = self.hash(range.start);
            match self.needs.add(hash) {
                Needed::Full => break,
                Needed::Absent if self.is_growing => break,
                Needed::Noted | Needed::Absent => {}
            }
            if let Some(range) = self.ahead.front_mut() {
                range.start += 1;
            }
        }
        disk.see_to_moves();
    }
}
