//! The state of a scan (`scan`): the records found, and the facts that decide whether they count.

use crate::geometry::Geometry;
use crate::index::key::{KeyHash, NumberMap};
use crate::index::pieces::Short;
use crate::record::Header;
use crate::recover::journal::Journal;
use crate::sequence::Sequence;
use bytes::BytesMut;
use extent::{Chunks, Extent};
use std::collections::HashMap;

/// Records entered into the index in one go, at most; and at the end of each region.
pub(super) const BATCH: usize = 4096;

/// Records by their first chunk: what the index knows of their keys, their lengths, and whether they were in doubt.
pub(crate) type Named = NumberMap<u32, (Short, Chunks, bool)>;

/// The state of a scan under way.
#[derive(Debug)]
pub(crate) struct Scan {
    /// The part read so far of a record, from chunk `window_at`. Often empty; then `window_at` is where the next read may go on.
    pub(super) window: BytesMut,
    pub(super) window_at: u32,
    /// Bytes that the record in the window lacks.
    pub(super) wanted: usize,
    /// The region that the window ends in.
    pub(super) window_region: Option<u32>,
    /// Records found and not yet entered.
    pub(super) batch: Vec<Candidate>,
    /// The newest sequence found of each key, for each shard.
    pub(super) seen: Vec<NumberMap<u64, Sequence>>,
    /// The newest variant found of each primary key.
    pub(super) variants: NumberMap<u64, Sequence>,
    /// The root of the list of the variants found, for each primary key and salt.
    pub(super) roots: HashMap<(u64, u64), u64>,
    /// For each region, its `opened_at` when the scan began. Regions that are noted meanwhile have been scanned.
    pub(super) opened_at: Vec<Sequence>,
    /// From the log: the last invalidation of each primary key.
    pub kills: NumberMap<u64, Sequence>,
    /// The last soft purge of each primary key.
    pub doubts: NumberMap<u64, Sequence>,
    /// The last replacement of each key, with an ordered policy.
    pub replaced: NumberMap<u64, Sequence>,
    /// Fills that began before this may have been invalidated without the log knowing it any more.
    pub horizon: Sequence,
    /// The sequence at which the checkpoint was begun, if there was one.
    pub covers: Option<Sequence>,
    /// The records that the checkpoint had in the regions to scan.
    pub named: Named,
    /// Whether nothing that counts was found yet in the present region.
    pub(super) region_is_empty: bool,
    /// Records found so far that are whole and alive.
    pub(super) records: u64,
}

/// A record that was found: it counts, or is dead but has replaced what is older.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    pub(super) hash: KeyHash,
    pub(super) primary: KeyHash,
    pub(super) sequence: Sequence,
    pub(super) began: Sequence,
    pub(super) extent: Extent,
    pub(super) alive: bool,
    pub(super) doubted: bool,
}

impl Scan {
    /// The state before the scan, for an index of `shards` shards.
    pub(crate) fn new(geometry: &Geometry, journal: &Journal, shards: usize) -> Self {
        Self {
            window: BytesMut::new(),
            window_at: 0,
            wanted: 0,
            window_region: None,
            batch: Vec::with_capacity(BATCH),
            seen: vec![NumberMap::default(); shards],
            variants: NumberMap::default(),
            roots: HashMap::new(),
            opened_at: (0..geometry.regions())
                .map(|region| journal.opened_at(region))
                .collect(),
            kills: NumberMap::default(),
            doubts: NumberMap::default(),
            replaced: NumberMap::default(),
            horizon: 0,
            covers: None,
            named: Named::default(),
            region_is_empty: true,
            records: 0,
        }
    }

    /// Is a record dead by what the log knows?
    pub(super) fn is_killed(&self, header: &Header) -> bool {
        let above = |map: &NumberMap<u64, Sequence>, hash: KeyHash, than| {
            map.get(&hash.0).is_some_and(|&sequence| sequence > than)
        };
        above(&self.kills, header.primary, header.began)
            || above(&self.replaced, header.hash, header.sequence)
    }
}
