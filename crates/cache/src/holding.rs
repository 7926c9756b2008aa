//! Keeping the fragments that an answer is yet to send.
//!
//! A large body is sent fragment by fragment, at the client's pace. Before the answer begins, the store notes its
//! fragments as needed ([`store::Needs`]), so that they are not evicted. A fragment is released when it was read, the rest
//! when the answer ends. If the store refuses to note a fragment because too much is needed already, it is tried again
//! after each fragment that is read.
//!
//! Fragments that are purged meanwhile are still read, because they were valid when the answer began
//! (docs/decisions/0036). A later answer does not get them.
//!
//! Not known here: the answer, and what happens if fragments are missing.

use std::{collections::VecDeque, ops::Range};

use httpcache::ByteRange;
use store::{KeyHash, KeyHasher, Needed, Needs};

use crate::{
    disk::{DiskIo, LoadedFragment, Waits},
    holes,
    object::Object,
    parts::Part,
};
use rules::key::fragment_key;

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
    /// The fetch is under way: after the first missing fragment there are none yet.
    is_growing: bool,
}

impl Holding {
    /// The fragments that these ranges of the body lie in. Empty without fragments or without a disk.
    pub async fn of(disk: Option<&DiskIo>, object: &Object, stretches: &[Range<u64>]) -> Holding {
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
        // If this future is dropped while it waits, `held` releases the noted fragments.
        while !held.note(disk) {
            tokio::task::yield_now().await;
        }
        Holding(Some(held))
    }

    /// The fragments that a request for this part of an object needs.
    pub async fn of_range(
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
                return Holding::of(disk, object, &stretches.collect::<Vec<_>>()).await;
            }
            ByteRange::Unsatisfiable => return Holding::default(),
        };
        Holding::of(disk, object, std::slice::from_ref(&stretch)).await
    }

    /// Reads a part of a fragment of a fetch under way, named by the object's primary and key and the fetch's id; `is_full`: the fragment
    /// surely has its full length. The existing fragments after it are noted as needed too. The fragment stays until [`Self::read`] is called.
    pub async fn load_of_fetch(
        &mut self,
        disk: &DiskIo,
        (primary, key, fetch_id): (KeyHash, &[u8], u64),
        part: Part,
        is_full: bool,
    ) -> Option<(LoadedFragment, Range<usize>)> {
        let number = part.number;
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
        if is_full {
            return disk.load_part(primary, key, fetch_id, part, waits).await;
        }
        let whole = disk.load_fragment(primary, key, fetch_id, number, waits);
        let whole = whole.await?;
        let end = whole.body.len().min(part.range.end as usize);
        let part = part.range.start as usize..end;
        (part.start < part.end).then_some((whole, part))
    }

    fn note(&mut self, disk: &DiskIo) {
        if let Some(held) = &mut self.0 {
            held.note(disk);
        }
    }

    /// Releases a fragment that was read, or that will not be read.
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

    /// Notes the next fragments as needed, [`holes::AT_ONCE`] at most. False: there are more.
    fn note(&mut self, disk: &DiskIo) -> bool {
        let mut left = holes::AT_ONCE;
        let is_all = loop {
            let Some(range) = self.ahead.front() else {
                break true;
            };
            if range.is_empty() {
                self.ahead.pop_front();
                continue;
            }
            if left == 0 {
                break false;
            }
            left -= 1;
            let hash = self.hash(range.start);
            match self.needs.add(hash) {
                Needed::Full => break true,
                Needed::Absent if self.is_growing => break true,
                Needed::Noted | Needed::Absent => {}
            }
            if let Some(range) = self.ahead.front_mut() {
                range.start += 1;
            }
        };
        disk.see_to_moves();
        is_all
    }
}
