//! One shard of the index: its records, their places, and their holders.
//!
//! ```text
//!             publish                write completed               dropped
//!   (nothing) --------> writing --------------------> live -------------------------> (gone)
//!                          |                            |  pinned by a reader
//!                          | dropped                    +-----------> held -----------> (gone)
//!                          +----------> held                              last reader gone
//!                                        +--------------------------------------------> (gone)
//!                                              own write completed
//! ```
//!
//! A dropped record leaves the index at once and is not found again. Its extent may be reused when its own write has
//! completed and its last reader has gone. Until then it stays in `held`, by its first chunk, which no other record
//! can have meanwhile. Readers of a killed record (invalidated, replaced, forgotten) are told so when they finish;
//! readers of an evicted one may serve it.
//!
//! With locality buffers there is a state before the first (`gather`): *waiting*, in memory, without a place, known by its whole hash.
//! It ends with `publish`, or with the record.
//!
//! The index knows only a part of each hash. Two keys that agree in that part are taken for one: the later one drops
//! the earlier (a miss), and a look-up of one may lead to the other, which the full key in the record shows.
//!
//! Invariants, checked by `audit`:
//!   S1  index and book (if there is one) hold the same records
//!   S2  a live record's hold has no fate; every other hold has a reader or a write to wait for

use crate::book::Book;
use crate::evict::need::{self, NeedMap};
use crate::index::entry::Entry;
use crate::index::key::{KeyHash, NumberMap};
use crate::index::marker::lasting::Fresh;
use crate::index::pieces::Short;
use crate::index::usage::{Usage, UsageBits};
use crate::index::{Index, Spot};
use crate::log::invalidation::Invalidations;
use crate::log::soft::SoftPurges;
use crate::sequence::Sequence;
use crate::write::waiting::Waiting;
use extent::{Chunk, Extent};

/// Why a record left the index.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fate {
    /// Evicted. Its readers may serve it.
    Evicted,
    /// Invalidated, replaced, corrupt. Nobody may serve it.
    Killed,
}

/// An extent that cannot be reused yet.
#[derive(Clone, Copy, Debug)]
struct Hold {
    /// The hash that the readers asked for.
    hash: KeyHash,
    extent: Extent,
    readers: u32,
    writing: bool,
    /// A soft purge has met the record: its readers serve it as stale.
    doubted: bool,
    /// None while the record is in the index.
    fate: Option<Fate>,
}

/// The result of a sweep of one segment.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Swept {
    pub records: u64,
    pub chunks: u64,
}

pub(crate) struct Shard {
    pub index: Index,
    pub book: Option<Book>,
    /// Records waiting in locality buffers, by whole hash.
    pub waiting: NumberMap<u64, Waiting>,
    held: NumberMap<u32, Hold>,
    /// Needed records, by whole hash.
    pub needed: NeedMap,
    /// Places whose content is newer than what a scan finds there; empty without a scan.
    pub fresh: Fresh,
    /// Soft purges of resources with variants.
    pub soft: SoftPurges,
    pub invalidations: Invalidations,
    /// Recent soft purges of single keys: fills that began before are not published as fresh.
    pub softened: Invalidations,
}

impl Shard {
    pub(crate) fn new(segments: usize, bits: UsageBits, book: Option<Book>) -> Self {
        Self {
            index: Index::new(segments, bits),
            book,
            waiting: NumberMap::default(),
            held: NumberMap::default(),
            needed: NeedMap::default(),
            fresh: Fresh::default(),
            soft: SoftPurges::default(),
            invalidations: Invalidations::default(),
            softened: Invalidations::default(),
        }
    }

    /// Records that can be looked up.
    pub(crate) fn len(&self) -> usize {
        self.index.records() + self.waiting.len()
    }

    /// Is there a record of that hash?
    pub(crate) fn has(&self, hash: KeyHash) -> bool {
        self.waiting.contains_key(&hash.0) || self.find(hash).is_some()
    }

    pub(crate) fn pins(&self) -> usize {
        self.held.values().map(|hold| hold.readers as usize).sum()
    }

    pub(crate) fn find(&self, hash: KeyHash) -> Option<Spot> {
        self.index.find(hash)
    }

    pub(crate) fn entry(&self, spot: Spot) -> Entry {
        self.index.get(spot)
    }

    /// The usage of the record of that hash; none if there is no such record.
    pub(crate) fn usage_of(&self, hash: KeyHash) -> Usage {
        let spot = self.find(hash);
        spot.map_or_else(Usage::default, |spot| self.entry(spot).usage())
    }

    /// Marks a use. `stamp` is drawn under this shard's lock, so the order and the stamps agree.
    pub(crate) fn touch(&mut self, spot: Spot, stamp: u64) {
        self.index.touch(spot);
        if let Some(book) = &mut self.book {
            book.touch(self.index.get(spot).first(), stamp);
        }
    }

    /// May a record come to its place in the index, as far as markers matter? The record of a primary with a marker may not: no look-up would
    /// find it. For a record of another key than its primary, a marker in its place leaves with its variants; the second value tells that.
    pub(crate) fn clear_marker(&mut self, hash: KeyHash, primary: KeyHash) -> (bool, bool) {
        match hash == primary {
            true => (!self.index.has_marker(hash), false),
            false => (true, self.index.drop_marker(hash, false)),
        }
    }

    /// Adds a record. The caller has dropped an older one of that hash, and a marker.
    pub(crate) fn publish(&mut self, hash: KeyHash, entry: Entry, bytes: u64, stamp: u64) {
        self.index.insert(hash, entry);
        if let Some(book) = &mut self.book {
            book.insert(hash, entry.extent(), bytes, stamp);
        }
    }

    /// Removes a record from the index. Returns its extent if nothing holds it.
    pub(crate) fn drop_record(&mut self, spot: Spot, hash: KeyHash, fate: Fate) -> Option<Extent> {
        let entry = self.index.remove(spot);
        if let Some(book) = &mut self.book {
            book.remove(entry.first());
        }
        hold_or_free(&mut self.held, entry, hash, fate)
    }

    /// Kills the record of that hash, in the index or waiting. Returns whether there was one, and its extent if nothing holds it.
    pub(crate) fn kill(&mut self, hash: KeyHash) -> (bool, Option<Extent>) {
        let waited = self.waiting.remove(&hash.0).is_some();
        // A record that was evicted while being read is no longer in the index, but its readers must learn of this
        // too.
        for hold in self.held.values_mut() {
            if hold.hash == hash && hold.fate.is_some() {
                hold.fate = Some(Fate::Killed);
            }
        }
        match self.find(hash) {
            Some(spot) => {
                let extent = self.entry(spot).extent();
                let freed = self.drop_record(spot, hash, Fate::Killed);
                (true, self.keep_if_needed(hash, extent, freed))
            }
            None => (waited, None),
        }
    }

    /// A record has left the index. If answers need it, its place is kept until they release it; returns the extent
    /// if it is free.
    pub(crate) fn keep_if_needed(
        &mut self,
        hash: KeyHash,
        extent: Extent,
        freed: Option<Extent>,
    ) -> Option<Extent> {
        let need = self.needed.get_mut(&hash.0);
        let Some(need) = need.filter(|need| !need.given_up && need.kept.is_none()) else {
            return freed;
        };
        need.kept = Some(extent);
        let unheld = Hold {
            hash,
            extent,
            readers: 0,
            writing: false,
            doubted: false,
            fate: Some(Fate::Killed),
        };
        self.held.entry(extent.first.0).or_insert(unheld).readers += 1;
        None
    }

    /// Is the held record there still being written?
    pub(crate) fn is_held_for_writing(&self, first: Chunk) -> bool {
        self.held.get(&first.0).is_some_and(|hold| hold.writing)
    }

    /// Adds a reader to a hold.
    pub(crate) fn pin_again(&mut self, first: Chunk) {
        if let Some(hold) = self.held.get_mut(&first.0) {
            hold.readers += 1;
        }
    }

    /// Makes room in the index for a copy of the record of that hash. Readers of the previous copy may still serve
    /// it: both copies hold the same bytes.
    pub(crate) fn make_way(&mut self, hash: KeyHash) -> Option<Extent> {
        let spot = self.find(hash)?;
        self.drop_record(spot, hash, Fate::Evicted)
    }

    /// Bytes of the record in a locality buffer.
    pub(crate) fn waiting_bytes(&self, hash: KeyHash) -> Option<u64> {
        self.waiting.get(&hash.0).map(Waiting::len_bytes)
    }

    /// The first chunks of needed records, of one segment or of all. Almost always empty.
    fn needed_places(&self, segment: Option<usize>) -> Vec<(Chunk, KeyHash)> {
        let hashes = self.needed.keys().map(|&hash| KeyHash(hash));
        hashes
            .filter(|&hash| segment.is_none_or(|wanted| self.index.segment_of(hash) == wanted))
            .filter(|&hash| need::is_needed(&self.needed, hash))
            .filter_map(|hash| Some((self.entry(self.find(hash)?).first(), hash)))
            .collect()
    }

    /// Adds a reader.
    pub(crate) fn pin(&mut self, spot: Spot, hash: KeyHash) -> Extent {
        let entry = self.index.get(spot);
        debug_assert!(!entry.is_writing());
        let extent = entry.extent();
        let unheld = Hold {
            hash,
            extent,
            readers: 0,
            writing: false,
            doubted: entry.is_doubted(),
            fate: None,
        };
        self.held.entry(extent.first.0).or_insert(unheld).readers += 1;
        extent
    }

    /// Forbids serving records that have left the index and are still being read. Drops and returns waiting records that
    /// began before `oldest`. (Their buffers count them until they are emptied.)
    pub(crate) fn kill_outlived(&mut self, oldest: Sequence) -> Vec<KeyHash> {
        let outlived = self
            .waiting
            .extract_if(|_, waiting| waiting.began() < oldest);
        let outlived = outlived.map(|(hash, _)| KeyHash(hash)).collect();
        for hold in self.held.values_mut() {
            if hold.fate.is_some() {
                hold.fate = Some(Fate::Killed);
            }
        }
        outlived
    }

    /// Removes a reader. Returns whether it may serve the record, and the extent if nothing holds it any more.
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

    /// A record's own write has completed. Returns the extent if the record is gone and nothing else holds it.
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
        let spot = self.find(hash)?;
        let entry = self.index.get(spot);
        if entry.first() != first || !entry.is_writing() {
            return None;
        }
        self.index.set(spot, entry.with_writing(false));
        if ok {
            None
        } else {
            self.drop_record(spot, hash, Fate::Killed)
        }
    }

    /// Removes the records of a segment that overlap `stretch`, and calls `leaves` for each. With `spares`, needed ones stay, listed in `spared`.
    pub(crate) fn sweep_segment(
        &mut self,
        segment: usize,
        stretch: Extent,
        spares: bool,
        spared: &mut Vec<KeyHash>,
        mut leaves: impl FnMut(Short),
    ) -> Swept {
        debug_assert!(self.book.is_none());
        let mut swept = Swept::default();
        let needed = match spares && !self.needed.is_empty() {
            true => self.needed_places(Some(segment)),
            false => Vec::new(),
        };
        let held = &mut self.held;
        self.index.segment_mut(segment).retain(|short, entry| {
            // A record stored with an earlier policy may reach into the stretch from the region before it.
            if !stretch.overlaps(entry.extent()) {
                return true;
            }
            if let Some((_, hash)) = needed.iter().find(|(first, _)| *first == entry.first()) {
                spared.push(*hash);
                return true;
            }
            leaves(short);
            swept.records += 1;
            swept.chunks += u64::from(entry.extent().len.0);
            // A reader that pinned the record under another key's hash does not need to know its fate.
            let _ = hold_or_free(held, entry, KeyHash(0), Fate::Evicted);
            false
        });
        swept
    }

    /// Removes the records that begin in `stretch` and are neither being written nor needed. Adds the extents that are free now
    /// to `freed`.
    pub(crate) fn clear(&mut self, stretch: Extent, freed: &mut Vec<Extent>) -> Swept {
        let mut swept = Swept::default();
        let needed = match self.needed.is_empty() {
            true => Vec::new(),
            false => self.needed_places(None),
        };
        let Self {
            index, held, book, ..
        } = self;
        for number in 0..index.segments() {
            index.segment_mut(number).retain(|_, entry| {
                if !stretch.contains(entry.first())
                    || entry.is_writing()
                    || needed.iter().any(|(first, _)| *first == entry.first())
                {
                    return true;
                }
                if let Some(book) = book {
                    book.remove(entry.first());
                }
                swept.records += 1;
                swept.chunks += u64::from(entry.extent().len.0);
                freed.extend(hold_or_free(held, entry, KeyHash(0), Fate::Evicted));
                false
            });
        }
        swept
    }

    /// Is a write to that extent under way?
    pub(crate) fn writes_within(&self, extent: Extent) -> bool {
        let mut holds = self.held.values();
        holds.any(|hold| hold.writing && extent.overlaps(hold.extent))
    }

    /// The extents that are still being read within that extent.
    pub(crate) fn read_within(&self, extent: Extent) -> impl Iterator<Item = Extent> {
        let holds = self.held.values().map(|hold| hold.extent);
        holds.filter(move |held| extent.overlaps(*held))
    }

    /// The places that are being read or are needed.
    pub(crate) fn in_use(&self) -> impl Iterator<Item = Extent> {
        let held = self.held.values().map(|hold| hold.extent);
        let needed = self.needed.keys().filter_map(|&hash| {
            let spot = self.find(KeyHash(hash))?;
            Some(self.entry(spot).extent())
        });
        held.chain(needed)
    }

    /// The extents of records that are no longer in the index but held.
    pub(crate) fn held_extents(&self) -> impl Iterator<Item = Extent> {
        self.held
            .values()
            .filter(|hold| hold.fate.is_some())
            .map(|hold| hold.extent)
    }

    /// The entries of all records in the index.
    pub(crate) fn entries(&self) -> impl Iterator<Item = Entry> {
        (0..self.index.segments())
            .flat_map(|number| self.index.segment(number).iter().map(|(_, entry)| entry))
    }

    /// Bytes of allocated memory.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.index.memory_bytes() + self.book.as_ref().map_or(0, Book::memory_bytes)
    }

    /// May a record that began at `began` be published, as far as its primary's invalidations matter?
    pub(crate) fn admits(&self, primary: KeyHash, began: Sequence) -> bool {
        !self.invalidations.since(primary, began) && !self.softened.since(primary, began)
    }

    /// Marks the record at that spot as stale, also for its present readers.
    pub(crate) fn doubt(&mut self, spot: Spot) {
        let entry = self.index.get(spot).with_doubt();
        self.index.set(spot, entry);
        if let Some(hold) = self.held.get_mut(&entry.first().0) {
            hold.doubted = true;
        }
    }

    /// Whether the record of that hash is marked as stale, and whether it is in the index. `first` is the place where it was read,
    /// if it was.
    pub(crate) fn marks_of(&self, hash: KeyHash, first: Option<Chunk>) -> (bool, bool) {
        if let Some(hold) = first.and_then(|first| self.held.get(&first.0)) {
            return (hold.doubted, hold.fate.is_none());
        }
        let spot = self.find(hash);
        let is_doubted = spot.is_some_and(|spot| self.entry(spot).is_doubted());
        (is_doubted, true)
    }

    /// Drops the record of that segment that begins there, unless it is being written.
    pub(crate) fn kill_at(
        &mut self,
        segment: usize,
        first: Chunk,
    ) -> (Option<Short>, Option<Extent>) {
        let Self {
            index, held, book, ..
        } = self;
        let (mut found, mut freed) = (None, None);
        index.segment_mut(segment).retain(|short, entry| {
            if entry.first() != first || entry.is_writing() {
                return true;
            }
            if let Some(book) = book {
                book.remove(first);
            }
            found = Some(short);
            freed = hold_or_free(held, entry, KeyHash(0), Fate::Killed);
            false
        });
        (found, freed)
    }

    /// Is the record of that segment that begins there still being written?
    pub(crate) fn is_writing_at(&self, segment: usize, first: Chunk) -> bool {
        let mut entries = self.index.segment(segment).iter();
        entries.any(|(_, entry)| entry.first() == first && entry.is_writing())
    }

    pub(crate) fn audit(&self) -> Result<(), String> {
        self.index.audit_markers()?;
        if let Some(book) = &self.book {
            book.audit()?;
            if book.len() != self.index.records() {
                return Err(format!(
                    "S1: {} in the book, {} in the index",
                    book.len(),
                    self.index.records()
                ));
            }
            for entry in self.entries() {
                let hash = book.hash_of(entry.first());
                let spot = hash.and_then(|hash| self.find(hash));
                if spot.is_none_or(|spot| self.entry(spot).first() != entry.first()) {
                    return Err(format!("S1: {} is not in the book", entry.extent()));
                }
            }
        }
        for (first, hold) in &self.held {
            if hold.extent.first.0 != *first || (hold.readers == 0 && !hold.writing) {
                return Err(format!("S2: nothing to wait for: {hold:?}"));
            }
        }
        Ok(())
    }
}

/// A record has left the index: returns its extent if nothing holds it, else notes its fate in the hold.
fn hold_or_free(
    held: &mut NumberMap<u32, Hold>,
    entry: Entry,
    hash: KeyHash,
    fate: Fate,
) -> Option<Extent> {
    let extent = entry.extent();
    if let Some(hold) = held.get_mut(&extent.first.0) {
        hold.fate = Some(fate);
        return None;
    }
    if entry.is_writing() {
        let hold = Hold {
            hash,
            extent,
            readers: 0,
            writing: true,
            doubted: entry.is_doubted(),
            fate: Some(fate),
        };
        held.insert(extent.first.0, hold);
        return None;
    }
    Some(extent)
}
