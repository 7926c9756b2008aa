//! Inspecting a store: its parts, and every record in the order of places.
//!
//! An [`Inspection`] recovers the store in memory, as a start would, but never writes: it begins no log commits,
//! notes, sweeps or checkpoints, so no byte changes. Regions that a start would scan must be scanned here too before
//! all records are known: [`Inspection::next_read`].
//!
//! The index knows only a part of each key's hash, so only the record itself tells its key: [`Inspection::peek`]
//! reads it from the first bytes (the MAC covers the header), [`Inspection::decode`] verifies the whole record.
//!
//! Memory: the index, and eight bytes for each record while the places are listed.
//! Not known here: what keys and metadata mean, devices.

use crate::figures::Figures;
use crate::geometry::Geometry;
use crate::index::entry::Entry;
use crate::index::key::{KeyHash, KeyHasher};
use crate::index::marker::Marker;
use crate::log::entry;
use crate::log::replay::Replay;
use crate::record::corrupt::Corrupt;
use crate::record::{self, Expected, Fragment, HEADER_BYTES, Header, ObjectTotal, RecordParts};
use crate::recover::checkpoint::read as checkpoint;
use crate::recover::journal::{self, Journal};
use crate::recover::open::{Found, Identity};
use crate::recover::rebuild::Recovered;
use crate::recover::scan_reads::Progress;
use crate::recover::scan_reads::ScanStep;
use crate::recover::superblock::Superblock;
use crate::sequence::Sequence;
use crate::settings::{Replacement, Settings};
use crate::store::Store;
use bytes::Bytes;
use extent::{Chunk, Chunks, Extent};
use replacement::PolicyKind;
use std::collections::BTreeMap;

/// A store open for reading only.
#[derive(Debug)]
pub struct Inspection {
    store: Store,
    superblock: Superblock,
    recovered: Recovered,
}

/// Where a record lies. Ordered by place.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Place {
    first: u32,
    chunks: u32,
}

/// A read that the scan needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use = "the scan waits for it"]
pub struct ScanRead {
    /// Bytes from the start of the store.
    pub offset: u64,
    /// How many bytes.
    pub len: usize,
    number: u64,
}

/// The content of the first bytes of a record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Peek {
    /// Header, key and metadata.
    Head(RecordHead),
    /// Key and metadata reach further: this many bytes of the record are needed.
    Needs(usize),
}

/// A record without its body. The header is certain, key and metadata are not: their checksum covers the body as well.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct RecordHead {
    /// The hash of the key.
    pub hash: KeyHash,
    /// The hash that purges name.
    pub primary: KeyHash,
    /// The full key.
    pub key: Bytes,
    /// The metadata.
    pub meta: Bytes,
    /// Length of the body.
    pub body_bytes: u64,
    /// Set if the record is a fragment.
    pub fragment: Option<Fragment>,
    /// Set if the record is the head of a fragmented object.
    pub total: Option<ObjectTotal>,
    /// Its place in the order of all records and invalidations.
    pub sequence: Sequence,
    /// When it was stored, in milliseconds since 1970.
    pub stored_unix_ms: u64,
}

/// The parts of a store, each read by itself.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Summary {
    /// The invalidation log, or why it is of no use.
    pub log: Result<LogSummary, String>,
    /// The region journal.
    pub journal: JournalSummary,
    /// The checkpoint that the superblock names, or why it is of no use; None if it names none.
    pub checkpoint: Option<Result<CheckpointSummary, String>>,
}

/// The invalidation log.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct LogSummary {
    /// Pages that count.
    pub pages: u64,
    /// Every acknowledged entry above this sequence is there.
    pub horizon: Sequence,
    /// Whether no page is missing.
    pub whole: bool,
    /// Invalidations of one primary key.
    pub keys: u64,
    /// Soft purges of a primary key.
    pub doubts: u64,
    /// Invalidations by a predicate, by its kind.
    pub matching: BTreeMap<u8, u64>,
    /// Replacements, with an ordered policy.
    pub replaced: u64,
}

/// The region journal.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct JournalSummary {
    /// All regions.
    pub regions: u32,
    /// Regions opened at least once.
    pub opened: u32,
    /// Regions unknown because a page of the journal is damaged.
    pub unknown: u32,
    /// The region whose content is oldest, and the sequence of its opening.
    pub oldest: Option<(u32, Sequence)>,
    /// The region opened last, and when.
    pub newest: Option<(u32, Sequence)>,
}

/// A checkpoint that is whole.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct CheckpointSummary {
    /// Rises from one checkpoint to the next.
    pub generation: u64,
    /// The sequence at which it was begun.
    pub covers: Sequence,
    /// The sequence when it was ended.
    pub ended: Sequence,
    /// Parts that found no room in the area; their content is read again at a start after a crash.
    pub left_out: u32,
}

impl Settings {
    /// These settings, with a replacement that fits the store as it was left, so that nothing is scanned or lost only because a tool
    /// does not know the policy.
    #[must_use]
    pub fn as_left(&self, superblock: &Superblock) -> Self {
        let replacement = match superblock.policy {
            0 => Replacement::default(),
            _ => Replacement::Ordered(PolicyKind::Lru),
        };
        Self {
            replacement,
            ..self.clone()
        }
    }
}

impl Inspection {
    /// The store as a start would find it. Of `settings`, only `matches` and `shards` must be those of the program
    /// that uses the store.
    pub fn of(superblock: Superblock, found: &Found, settings: &Settings) -> Self {
        let settings = settings.as_left(&superblock);
        // Used if the store must start empty; it is written nowhere.
        let nobody = Identity::new([0; Identity::RANDOM_BYTES]).placed_as(&superblock);
        let (store, recovered) = Store::recover(superblock.clone(), found, &settings, nobody);
        Self {
            store,
            superblock,
            recovered,
        }
    }

    /// The outcome of a start.
    pub fn recovered(&self) -> &Recovered {
        &self.recovered
    }

    /// The superblock as it lies on the disk.
    pub fn superblock(&self) -> &Superblock {
        &self.superblock
    }

    /// Where the parts of the store lie.
    pub fn geometry(&self) -> &Geometry {
        self.store.geometry()
    }

    /// Makes key hashes for this store.
    pub fn hasher(&self) -> KeyHasher {
        self.store.hasher()
    }

    /// The figures; records count as far as they were found.
    pub fn figures(&self) -> Figures {
        self.store.figures()
    }

    /// Do the records lie within the store, none over another?
    ///
    /// # Errors
    /// The condition that does not hold.
    pub fn audit(&self) -> Result<(), String> {
        self.store.audit()
    }

    /// The next read of the scan; answer each with [`Self::read_done`]. `None` if the most reads are under way, or there are no more.
    pub fn next_read(&self) -> Option<ScanRead> {
        // Reads are searched when they are reported done, so all steps here are reads.
        match self.store.next_scan_step()? {
            ScanStep::Read {
                number,
                offset,
                len,
            } => Some(ScanRead {
                offset,
                len,
                number,
            }),
            ScanStep::Look => None,
        }
    }

    /// A read of the scan is done. `None` if the device refused; its bytes are skipped.
    pub fn read_done(&self, read: ScanRead, bytes: Option<Bytes>) {
        self.store.scan_read_done(read.number, bytes);
        // Reads that finished earlier may have been waiting for this one.
        while self.store.is_something_to_look_through() {
            self.store.look_on();
        }
    }

    /// The progress of the scan; `None` once all records are known.
    pub fn recovery(&self) -> Option<Progress> {
        self.store.recovery()
    }

    /// All records known, in the order of their places.
    pub fn places(&self) -> Vec<Place> {
        let mut places = Vec::with_capacity(self.figures().records as usize);
        for number in 0..self.store.shards.len() {
            places.extend(self.store.shard(number).entries().map(Place::of));
        }
        places.sort_unstable();
        places
    }

    /// The place of the record that the index has for this key, or for another key that it cannot tell apart.
    pub fn find(&self, hash: KeyHash) -> Option<Place> {
        let shard = self.store.shard(self.store.shard_of(hash));
        shard.find(hash).map(|spot| Place::of(shard.entry(spot)))
    }

    /// How to find the variants of a primary key, if it has any.
    pub fn marker(&self, primary: KeyHash) -> Option<Marker> {
        self.store.marker(primary)
    }

    /// Bytes from the start of the store.
    pub fn offset(&self, place: Place) -> u64 {
        self.store.geometry.offset_of(place.first)
    }

    /// Bytes of the record, its padding included.
    pub fn len(&self, place: Place) -> usize {
        place.chunks as usize * self.store.chunk_bytes()
    }

    /// The record at a place. `bytes` are its first bytes, at least [`HEADER_BYTES`].
    ///
    /// # Errors
    /// No record of this store, or that of another place, or one that was invalidated.
    pub fn peek(&self, place: Place, bytes: &Bytes) -> Result<Peek, Corrupt> {
        let header = Header::decode(bytes, &self.store.secret, self.store.limits.mistakes)?;
        if header.epoch != self.store.epoch {
            return Err(Corrupt::Epoch);
        }
        if header.extent != place.extent() {
            return Err(Corrupt::Place);
        }
        let meta_end = HEADER_BYTES + header.key_len as usize + header.meta_len as usize;
        let fits = (meta_end as u64)
            .checked_add(header.body_len)
            .is_some_and(|end| end <= self.len(place) as u64);
        if !fits {
            return Err(Corrupt::Length);
        }
        if bytes.len() < meta_end {
            return Ok(Peek::Needs(meta_end));
        }
        let head = header.head(bytes)?;
        let (key, meta) = (bytes.slice_ref(head.key), bytes.slice_ref(head.meta));
        self.check_alive(&header, &key, &meta)?;
        Ok(Peek::Head(RecordHead {
            hash: header.hash,
            primary: header.primary,
            key,
            meta,
            body_bytes: header.body_len,
            fragment: header.fragment,
            total: header.total,
            sequence: header.sequence,
            stored_unix_ms: header.stored_unix_ms,
        }))
    }

    /// Verifies a whole record, of whatever key: MAC, epoch, place, lengths, checksum, padding, and that the index leads to it. The
    /// caller checks that the key has this hash, since only the caller knows which part of a key is hashed.
    ///
    /// # Errors
    /// The fault of the bytes. [`Corrupt::Invalidated`] is no damage.
    pub fn decode(&self, place: Place, bytes: &Bytes) -> Result<(KeyHash, RecordParts), Corrupt> {
        let expected = Expected {
            secret: &self.store.secret,
            epoch: self.store.epoch,
            hash: None,
            extent: Some(place.extent()),
            chunk_bytes: self.store.geometry.chunk_bytes,
            mistakes: self.store.limits.mistakes,
        };
        let parts = record::decode(bytes, expected)?;
        let header = Header::decode(bytes, &self.store.secret, self.store.limits.mistakes)?;
        if self.find(header.hash) != Some(place) {
            return Err(Corrupt::Hash);
        }
        self.check_alive(&header, &parts.key, &parts.meta)?;
        Ok((header.hash, parts))
    }

    fn check_alive(&self, header: &Header, key: &[u8], meta: &[u8]) -> Result<(), Corrupt> {
        let dead = header.sequence < self.store.accept_from
            || self.store.is_matched(header.began, key, meta);
        if dead {
            Err(Corrupt::Invalidated)
        } else {
            Ok(())
        }
    }
}

impl Place {
    fn of(entry: Entry) -> Self {
        let extent = entry.extent();
        Self {
            first: extent.first.0,
            chunks: extent.len.0,
        }
    }

    fn extent(self) -> Extent {
        Extent {
            first: Chunk(self.first),
            len: Chunks(self.chunks),
        }
    }
}

impl Summary {
    /// Reads each part by itself, so that damage to one does not affect the others.
    pub fn of(superblock: &Superblock, found: &Found) -> Self {
        Self {
            log: LogSummary::of(superblock, found),
            journal: JournalSummary::of(superblock, found),
            checkpoint: superblock
                .index
                .map(|_| CheckpointSummary::of(superblock, found)),
        }
    }
}

impl LogSummary {
    fn of(superblock: &Superblock, found: &Found) -> Result<Self, String> {
        let area = found.log.as_deref().ok_or("it cannot be read")?;
        let replay = Replay::of(area, superblock.epoch, superblock.secret)
            .map_err(|damaged| damaged.to_string())?;
        let mut summary = Self {
            pages: replay.pages,
            horizon: replay.horizon,
            whole: replay.whole,
            ..Self::default()
        };
        for (_, entry) in replay.entries {
            match entry {
                entry::Entry::Key { .. } => summary.keys += 1,
                entry::Entry::Matching { kind, .. } => {
                    *summary.matching.entry(kind).or_default() += 1
                }
                entry::Entry::Replaced { .. } => summary.replaced += 1,
                entry::Entry::Doubt { .. } => summary.doubts += 1,
            }
        }
        Ok(summary)
    }
}

impl JournalSummary {
    fn of(superblock: &Superblock, found: &Found) -> Self {
        let geometry = &superblock.geometry;
        let area = found.journal.as_deref().unwrap_or_default();
        let start = journal::Start {
            epoch: superblock.epoch,
            generation: superblock.generation,
            secret: superblock.secret,
        };
        let journal = Journal::read(
            area,
            geometry.regions(),
            geometry.region_journal_bytes,
            start,
        );
        let mut summary = Self {
            regions: geometry.regions(),
            ..Self::default()
        };
        for region in 0..geometry.regions() {
            let opened_at = journal.opened_at(region);
            match opened_at {
                0 => continue,
                journal::UNKNOWN => {
                    summary.unknown += 1;
                    continue;
                }
                _ => summary.opened += 1,
            }
            let this = Some((region, opened_at));
            let is = |beyond: fn(Sequence, Sequence) -> bool, other: Option<(u32, Sequence)>| {
                other.is_none_or(|(_, sequence)| beyond(opened_at, sequence))
            };
            if is(|a, b| a < b, summary.oldest) {
                summary.oldest = this;
            }
            if is(|a, b| a >= b, summary.newest) {
                summary.newest = this;
            }
        }
        summary
    }
}

impl CheckpointSummary {
    fn of(superblock: &Superblock, found: &Found) -> Result<Self, String> {
        let bytes = found.checkpoint.as_deref().ok_or("it cannot be read")?;
        let expected = checkpoint::Expected {
            generation: superblock.checkpoint_generation,
            epoch: superblock.epoch,
        };
        let read = checkpoint::read(bytes, expected, &superblock.secret)
            .map_err(|error| error.to_string())?;
        Ok(Self {
            generation: read.about.generation,
            covers: read.about.covers,
            ended: read.sequence,
            left_out: read.left_out,
        })
    }
}
