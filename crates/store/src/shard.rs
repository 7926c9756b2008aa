//! One shard of the index: which records there are, where, how recently used, and who holds them.
//!
//! ```text
//!             publish                write completed               drop_record
//!   (nothing) --------> writing --------------------> live -------------------------> (free)
//!                          |                            |  pinned by a reader
//!                          | drop_record                +-----------> held -----------> (free)
//!                          +----------> held                              last reader gone
//!                                        +--------------------------------------------> (free)
//!                                              own write completed
//! ```
//!
//! A record that is dropped leaves the index at once: nobody finds it again. Its extent becomes free when its
//! own write has completed and its last reader has gone; until then it stays in `held`, by its first chunk, which
//! no other record can have meanwhile. Readers of a record that was killed (invalidated, replaced, forgotten)
//! are told so when they are done; those of a merely evicted one may serve what they read.
//!
//! Invariants, checked by `audit`:
//!   S1  table, order and slots in use agree
//!   S2  a live record's hold has no fate; every other hold has a reader or a write to wait for
//!
//! Memory: a slot (24 bytes), a table entry (4 bytes and a byte of tag at up to 7/8 load), two links of 4 bytes.
//! Limits: 2^32 - 1 records; 2^24 - 1 chunks a record.

use crate::Sequence;
use crate::invalidation::Invalidations;
use crate::key::{KeyHash, NumberMap};
use crate::marker::Markers;
use extent::{Chunk, Chunks, Extent};
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use replacement::Lru;

/// Chunks of the largest record; the eight bits above are the flags.
pub(crate) const RECORD_CHUNKS_MAX: u32 = (1 << 24) - 1;

/// What is kept of a record besides its place.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Flags(pub u8);

impl Flags {
    pub(crate) const FRAGMENT: Flags = Flags(1);
    pub(crate) const HEAD: Flags = Flags(2);
    /// Never on disk: the record is in a buffer, its write has not completed.
    pub(crate) const WRITING: Flags = Flags(4);
    /// The ones that may be on disk.
    pub(crate) const STORED: Flags = Flags(3);

    pub(crate) fn contains(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }
}

/// A record in the index.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot {
    pub hash: KeyHash,
    /// The time of the last use, in uses of the whole store.
    pub stamp: u64,
    pub first: Chunk,
    chunks_and_flags: u32,
}

const _: () = assert!(size_of::<Slot>() == 24);

impl Slot {
    pub(crate) fn new(hash: KeyHash, extent: Extent, flags: Flags, stamp: u64) -> Self {
        assert!(extent.len.0 <= RECORD_CHUNKS_MAX);
        Self {
            hash,
            stamp,
            first: extent.first,
            chunks_and_flags: u32::from(flags.0) << 24 | extent.len.0,
        }
    }

    pub(crate) fn extent(&self) -> Extent {
        Extent {
            first: self.first,
            len: Chunks(self.chunks_and_flags & RECORD_CHUNKS_MAX),
        }
    }

    pub(crate) fn flags(&self) -> Flags {
        Flags((self.chunks_and_flags >> 24) as u8)
    }

    pub(crate) fn is_writing(&self) -> bool {
        self.flags().contains(Flags::WRITING)
    }

    /// A slot that no record uses has no chunks.
    fn set_vacant(&mut self) {
        self.chunks_and_flags = 0;
    }

    fn set_written(&mut self) {
        self.chunks_and_flags &= !(u32::from(Flags::WRITING.0) << 24);
    }
}

/// Why a record left the index.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fate {
    /// To make room. Who is reading it may serve it.
    Evicted,
    /// Invalidated, replaced, corrupt. Nobody may serve it.
    Killed,
}

/// An extent that can't be freed yet.
#[derive(Clone, Copy, Debug)]
struct Hold {
    hash: KeyHash,
    extent: Extent,
    readers: u32,
    writing: bool,
    /// None while the record is in the index.
    fate: Option<Fate>,
}

/// A shard's coldest record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Coldest {
    pub stamp: u64,
    pub slot: u32,
    pub writing: bool,
}

#[derive(Default)]
pub(crate) struct Shard {
    table: HashTable<u32>,
    slots: Vec<Slot>,
    vacant: Vec<u32>,
    order: Lru,
    held: NumberMap<u32, Hold>,
    pub markers: Markers,
    pub invalidations: Invalidations,
}

impl Shard {
    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    pub(crate) fn pins(&self) -> usize {
        self.held.values().map(|hold| hold.readers as usize).sum()
    }

    pub(crate) fn find(&self, hash: KeyHash) -> Option<u32> {
        let slots = &self.slots;
        let is_it = |&slot: &u32| slots[slot as usize].hash == hash;
        self.table.find(hash.0, is_it).copied()
    }

    pub(crate) fn slot(&self, slot: u32) -> &Slot {
        &self.slots[slot as usize]
    }

    /// Marks a use. `stamp` is drawn under this shard's lock, so the order and the stamps agree.
    pub(crate) fn touch(&mut self, slot: u32, stamp: u64) {
        self.slots[slot as usize].stamp = stamp;
        self.order.touch(slot);
    }

    /// Adds a record as the most recently used. The caller has dropped an older one of that hash.
    pub(crate) fn publish(&mut self, record: Slot) {
        let number = self.vacant.pop().unwrap_or(self.slots.len() as u32);
        match self.slots.get_mut(number as usize) {
            Some(slot) => *slot = record,
            None => self.slots.push(record),
        }
        let slots = &self.slots;
        let entry = self.table.entry(
            record.hash.0,
            |&other| slots[other as usize].hash == record.hash,
            |&other| slots[other as usize].hash.0,
        );
        match entry {
            Entry::Vacant(entry) => entry.insert(number),
            Entry::Occupied(_) => unreachable!("a second record of one hash breaks S1"),
        };
        self.order.insert(number);
    }

    /// Takes a record out of the index. Its extent, if nothing holds it.
    pub(crate) fn drop_record(&mut self, slot: u32, fate: Fate) -> Option<Extent> {
        let record = self.slots[slot as usize];
        let found = self.table.find_entry(record.hash.0, |&other| other == slot);
        found
            .expect("a slot in use that the table does not know breaks S1")
            .remove();
        self.order.remove(slot);
        self.slots[slot as usize].set_vacant();
        self.vacant.push(slot);
        let extent = record.extent();
        if let Some(hold) = self.held.get_mut(&record.first.0) {
            hold.fate = Some(fate);
            return None;
        }
        if record.is_writing() {
            let hold = Hold {
                hash: record.hash,
                extent,
                readers: 0,
                writing: true,
                fate: Some(fate),
            };
            self.held.insert(record.first.0, hold);
            return None;
        }
        Some(extent)
    }

    /// Kills the record of that hash, if there is one. True if there was.
    pub(crate) fn kill(&mut self, hash: KeyHash) -> (bool, Option<Extent>) {
        // A record that was evicted while being read is out of the index, yet its readers must learn of this too.
        for hold in self.held.values_mut() {
            if hold.hash == hash && hold.fate.is_some() {
                hold.fate = Some(Fate::Killed);
            }
        }
        match self.find(hash) {
            Some(slot) => (true, self.drop_record(slot, Fate::Killed)),
            None => (false, None),
        }
    }

    /// A reader begins.
    pub(crate) fn pin(&mut self, slot: u32) -> Extent {
        let record = self.slots[slot as usize];
        debug_assert!(!record.is_writing());
        let extent = record.extent();
        let unheld = Hold {
            hash: record.hash,
            extent,
            readers: 0,
            writing: false,
            fate: None,
        };
        self.held.entry(extent.first.0).or_insert(unheld).readers += 1;
        extent
    }

    /// A reader is done. May it serve what it read? And the extent, if this was what held it.
    pub(crate) fn unpin(&mut self, first: Chunk) -> (bool, Option<Extent>) {
        let hold = self
            .held
            .get_mut(&first.0)
            .expect("a reader's hold lasts until its last reader is done");
        hold.readers -= 1;
        let Hold {
            extent,
            readers,
            writing,
            fate,
            ..
        } = *hold;
        let may_serve = fate != Some(Fate::Killed);
        if readers > 0 || writing {
            return (may_serve, None);
        }
        self.held.remove(&first.0);
        (may_serve, fate.map(|_| extent))
    }

    /// A record's own write has completed. The extent, if the record is gone and nothing else holds it.
    pub(crate) fn written(&mut self, hash: KeyHash, first: Chunk, ok: bool) -> Option<Extent> {
        if let Some(hold) = self.held.get_mut(&first.0)
            && hold.writing
        {
            hold.writing = false;
            let Hold {
                extent, readers, ..
            } = *hold;
            if readers > 0 {
                return None;
            }
            self.held.remove(&first.0);
            return Some(extent);
        }
        let slot = self.find(hash)?;
        let record = &mut self.slots[slot as usize];
        if record.first != first || !record.is_writing() {
            return None;
        }
        record.set_written();
        if ok {
            None
        } else {
            self.drop_record(slot, Fate::Killed)
        }
    }

    pub(crate) fn coldest(&self) -> Option<Coldest> {
        let slot = self.order.coldest()?;
        let record = &self.slots[slot as usize];
        Some(Coldest {
            stamp: record.stamp,
            slot,
            writing: record.is_writing(),
        })
    }

    /// The records, coldest first.
    pub(crate) fn iter_coldest_first(&self) -> impl Iterator<Item = &Slot> {
        self.order
            .iter_coldest_first()
            .map(|slot| &self.slots[slot as usize])
    }

    /// Slots of the records that begin in `range` and are not being written.
    pub(crate) fn slots_within(&self, range: Extent, found: &mut Vec<u32>) {
        let numbered = self.slots.iter().zip(0..);
        found.extend(numbered.filter_map(|(record, number)| {
            let in_use = record.extent().len > Chunks(0) && !record.is_writing();
            (in_use && range.contains(record.first)).then_some(number)
        }));
    }

    /// The extents of records that are no longer in the index but held.
    pub(crate) fn held_extents(&self) -> impl Iterator<Item = Extent> {
        self.held
            .values()
            .filter(|hold| hold.fate.is_some())
            .map(|hold| hold.extent)
    }

    /// Bytes of memory, of what was allocated.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.table.allocation_size()
            + self.slots.capacity() * (size_of::<Slot>() + 2 * size_of::<u32>())
            + self.vacant.capacity() * size_of::<u32>()
    }

    /// True if the record of that sequence may be published.
    pub(crate) fn admits(&self, primary: KeyHash, began: Sequence) -> bool {
        !self.invalidations.since(primary, began)
    }

    pub(crate) fn audit(&self) -> Result<(), String> {
        self.order.audit()?;
        if self.table.len() + self.vacant.len() != self.slots.len()
            || self.order.len() != self.table.len()
        {
            return Err(format!(
                "S1: {} in the table, {} in order, {} of {} slots vacant",
                self.table.len(),
                self.order.len(),
                self.vacant.len(),
                self.slots.len()
            ));
        }
        let mut stamp = 0;
        for slot in self.iter_coldest_first() {
            if self
                .find(slot.hash)
                .is_none_or(|found| self.slot(found).first != slot.first)
            {
                return Err(format!(
                    "S1: {:?} is in order but not in the table",
                    slot.hash
                ));
            }
            if slot.stamp < stamp {
                return Err(format!("S1: stamp {} after {stamp}", slot.stamp));
            }
            stamp = slot.stamp;
        }
        for (first, hold) in &self.held {
            if hold.extent.first.0 != *first || (hold.readers == 0 && !hold.writing) {
                return Err(format!("S2: nothing to wait for: {hold:?}"));
            }
        }
        Ok(())
    }
}
