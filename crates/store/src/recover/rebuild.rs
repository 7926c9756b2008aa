//! From what was read of a store to a store that serves.
//!
//! 1. The log. Without it nobody knows what was invalidated, so a store whose log is damaged starts empty.
//! 2. The checkpoint: segments with records and markers, predicates, soft purges. Entries that lie in *touched* regions (opened since the checkpoint began, or
//!    open then) are dropped: the scan finds what is there now. What the log has that is younger than the checkpoint is
//!    killed.
//! 3. The scan of the touched regions, or of all of them when there is no usable checkpoint, begins; see `scan`.
//!
//! A store that was closed in order has no touched regions, so it is complete after step 2.
//!
//! With an ordered policy regions are not noted: closed in order, the checkpoint has everything, books included; else
//! everything is scanned.

use crate::evict::grid::Grid;
use crate::evict::left::Left;
use crate::evict::room::Room;
use crate::index::Index;
use crate::index::key::{KeyHash, NumberMap};
use crate::jobs::Background;
use crate::lock::lock;
use crate::log::entry::Entry;
use crate::log::predicates::Predicates;
use crate::log::replay::Replay;
use crate::log::soft::SoftPurges;
use crate::mistakes::Mistake;
use crate::recover::checkpoint::read as checkpoint;
use crate::recover::journal::{self, Journal};
use crate::recover::open::{Found, Identity};
use crate::recover::picture::kind;
use crate::recover::scan_reads::Reads;
use crate::recover::scanned::{Named, Scan};
use crate::recover::superblock::{State, Superblock};
use crate::sequence::Sequence;
use crate::set::Moves;
use crate::settings::{Limits, Settings};
use crate::store::Store;
use crate::write::frontier::Frontier;
use extent::{Chunk, Extent};
use std::sync::atomic::Ordering;

/// After an unclean stop each generation of the superblock has so many numbers of its own. The highest seen is no
/// measure: records that are yet to be found may have been given higher ones, and a start that left no other trace as well.
const SEQUENCES_OF_GENERATION: u64 = 1 << 32;

/// What came of it, to be shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recovered {
    /// In words.
    pub words: String,
    /// Records known at once.
    pub records: u64,
    /// Bytes that are still to be scanned.
    pub scan_bytes: u64,
    /// Nothing could be kept.
    pub empty: bool,
}

/// What the log said.
struct Logged {
    kills: NumberMap<u64, Sequence>,
    doubts: NumberMap<u64, Sequence>,
    replaced: NumberMap<u64, Sequence>,
    predicates: Vec<(Sequence, u8, Box<[u8]>)>,
    horizon: Sequence,
    highest: Sequence,
}

/// What a checkpoint said.
struct Loaded {
    covers: Sequence,
    sequence: Sequence,
    indexes: Vec<Index>,
    soft: Vec<u8>,
    books: Vec<Vec<(u64, KeyHash, Chunk)>>,
    predicates: Vec<u8>,
    open_regions: Vec<u32>,
    frontier: Option<Frontier>,
    /// What had left the index; None: anything may have.
    left: Option<Vec<u8>>,
}

impl Store {
    /// The store as it was left, as far as `found` tells. `identity` is used if it must start empty.
    ///
    /// The next steps are the shell's: write [`Self::opening`], then carry out [`Self::next_work`].
    pub fn recover(
        superblock: Superblock,
        found: &Found,
        settings: &Settings,
        identity: Identity,
    ) -> (Self, Recovered) {
        let geometry = superblock.geometry.clone();
        let placed = (identity.placement, identity.weight, identity.moves);
        let empty = |why: String| {
            let store = Self::create(geometry, settings, identity.after(&superblock));
            let words = format!("starts empty: {why}");
            let recovered = Recovered {
                words,
                records: 0,
                scan_bytes: 0,
                empty: true,
            };
            (store, recovered)
        };
        let Some(area) = &found.log else {
            return empty("the invalidation log cannot be read".into());
        };
        let replay = match Replay::of(area, superblock.epoch, superblock.secret) {
            Ok(replay) => replay,
            Err(damaged) => return empty(damaged.to_string()),
        };
        Self::go_on(superblock, replay, found, settings, placed)
    }

    fn go_on(
        superblock: Superblock,
        replay: Replay<'_>,
        found: &Found,
        settings: &Settings,
        (placement, weight, moves): (u64, u32, Moves),
    ) -> (Self, Recovered) {
        let geometry = superblock.geometry.clone();
        let limits = Limits::fit(settings, &geometry);
        let logged = Logged::of(&replay);
        let journal = Journal::read(
            found.journal.as_deref().unwrap_or_default(),
            geometry.regions(),
            geometry.region_journal_bytes,
            journal::Start {
                epoch: superblock.epoch,
                generation: superblock.generation.wrapping_add(1),
                secret: superblock.secret,
            },
        );
        let clean = superblock.state == State::Clean;
        let by_hand = limits.policy().is_none();
        let was_by_hand = superblock.policy == 0;
        let loaded = Loaded::of(&superblock, found, &limits).and_then(|loaded| {
            if loaded.covers < logged.horizon {
                Err("the log does not reach back to the checkpoint".to_owned())
            } else if !(clean || by_hand && was_by_hand) {
                Err("with an ordered policy everything is scanned".to_owned())
            } else if clean && !by_hand && was_by_hand {
                Err("the policy was changed".to_owned())
            } else {
                Ok(loaded)
            }
        });

        let regions = 0..geometry.regions();
        let opened = |region: u32| match journal.opened_at(region) {
            journal::UNKNOWN => 0,
            sequence => sequence,
        };
        let newest = regions.clone().max_by_key(|&r| (opened(r), r)).unwrap_or(0);
        let hand_at = if opened(newest) == 0 { 0 } else { newest + 1 };
        let mut sequence = logged.highest.max(superblock.accept_from);
        sequence = regions.clone().map(opened).fold(sequence, Sequence::max);
        let mut touched: Vec<u32> = Vec::new();
        match &loaded {
            Ok(loaded) => {
                sequence = sequence.max(loaded.sequence);
                let open_then = |r: &u32| !clean && loaded.open_regions.contains(r);
                touched.extend(
                    regions
                        .clone()
                        .filter(|&r| journal.opened_at(r) > loaded.covers || open_then(&r)),
                );
            }
            // With regions in turn, what was never opened holds nothing.
            Err(_) => {
                let never = |r: &u32| was_by_hand && journal.opened_at(*r) == 0;
                touched.extend(regions.clone().filter(|r| !never(r)));
            }
        }
        // After a clean stop the checkpoint knows it; if that can't be read, nothing does.
        if !clean || loaded.is_err() {
            let first = superblock
                .generation
                .saturating_add(1)
                .saturating_mul(SEQUENCES_OF_GENERATION);
            sequence = if sequence < first {
                first
            } else {
                sequence + SEQUENCES_OF_GENERATION
            };
        }
        if by_hand {
            in_order_of_need(&mut touched, opened, hand_at, &Grid::of(&geometry));
        }

        // What left this store by an earlier change may come back by this one, and has missed what was purged elsewhere.
        let accept_from = match moves.may_come {
            true => superblock.keys_left_at.max(superblock.accept_from),
            false => superblock.accept_from,
        };
        let keys_left_at = match moves.may_leave {
            // One above: what has this number may be the last record of the run before.
            true => sequence + 1,
            false => superblock.keys_left_at,
        };
        let opened_superblock = Superblock {
            accept_from,
            placement,
            keys_left_at,
            weight,
            state: State::Open,
            generation: superblock.generation.wrapping_add(1),
            policy: u32::from(!by_hand),
            ..superblock
        };
        let mut background = Background::new(opened_superblock.clone(), replay.log, journal);
        background.covers = loaded.as_ref().ok().map(|loaded| loaded.covers);
        if loaded.is_err() {
            // It must not be taken for a checkpoint of what comes now.
            background.superblock.index = None;
            background.superblock.checkpoint_generation = 0;
        }
        let log = background.opening_of_log();
        let store = Self::with(
            &background.superblock.clone(),
            limits,
            sequence,
            hand_at,
            background,
        );
        store.note_openings(&store.background().journal);
        store.set_opening(&store.background().superblock, log);
        let outcome = match loaded {
            Ok(mut loaded) => {
                let left = loaded.left.take().filter(|_| clean && touched.is_empty());
                let known = left.map(|left| Left::decode(&left, sequence));
                *lock(&store.left) = known.unwrap_or_else(|| Left::all(sequence));
                let frontier = loaded
                    .frontier
                    .take()
                    .filter(|_| clean && was_by_hand && touched.is_empty());
                let (named, filled_to) = store.take_over(loaded, &logged, &touched);
                let grid = Grid::of(&store.geometry);
                let is_right =
                    |f: &Frontier| f.is_right(&grid, &filled_to, &store.background().journal);
                if let Some(frontier) = frontier.filter(is_right) {
                    store.go_on_at(frontier);
                }
                Ok(named)
            }
            Err(why) => {
                *lock(&store.left) = Left::all(sequence);
                Err(why)
            }
        };
        let covers = store.background().covers;
        store.take_log_over(&logged, covers);
        let (named, why) = match outcome {
            Ok(named) => (named, None),
            Err(why) => (Named::default(), Some(why)),
        };
        store.begin_scan(touched, named, &logged);
        let recovered = store.describe(clean, why.as_deref());
        (store, recovered)
    }

    /// Puts in what the checkpoint has. Gives what it names in touched regions, and for each region where its last record ends.
    fn take_over(&self, loaded: Loaded, logged: &Logged, touched: &[u32]) -> (Named, Vec<u32>) {
        let region_chunks = self.geometry.region_chunks;
        let by_hand = self.limits.policy().is_none();
        let mut named = Named::default();
        let mut filled_to = vec![0; self.geometry.regions() as usize];
        let mut is_touched = vec![false; self.geometry.regions() as usize];
        touched.iter().for_each(|&r| is_touched[r as usize] = true);
        let data_chunks = extent::Chunks(self.geometry.data_chunks);
        for (number, index) in loaded.indexes.into_iter().enumerate() {
            let mut shard = self.shard(number);
            shard.index = index;
            for segment in 0..shard.index.segments() {
                shard.index.segment_mut(segment).retain(|short, entry| {
                    let extent = entry.extent();
                    if !extent.fits_in(data_chunks) {
                        return false;
                    }
                    let region = extent.first.0 / region_chunks;
                    // An ordered policy may have stored something across a border. If its second region is used again and its first
                    // is not, it would come back with each start until the next checkpoint.
                    if by_hand && extent.last().0 / region_chunks != region {
                        return false;
                    }
                    let filled_to = &mut filled_to[region as usize];
                    *filled_to = extent.end().0.max(*filled_to);
                    if is_touched[region as usize] {
                        named.insert(extent.first.0, (short, extent.len, entry.is_doubted()));
                        return false;
                    }
                    !entry.is_writing()
                });
            }
        }
        for (number, book) in loaded.books.into_iter().enumerate() {
            let mut guard = self.shard(number);
            let shard = &mut *guard;
            let Some(into) = &mut shard.book else {
                continue;
            };
            for (stamp, hash, first) in book {
                let entry = shard.index.find(hash).map(|spot| shard.index.get(spot));
                let Some(entry) = entry.filter(|entry| entry.first() == first) else {
                    continue;
                };
                let bytes = u64::from(entry.extent().len.0) * u64::from(self.geometry.chunk_bytes);
                // The old stamps: they order the records of all shards.
                self.clock
                    .fetch_max(stamp.saturating_add(1), Ordering::Relaxed);
                if into.hash_of(first).is_none() {
                    into.insert(hash, entry.extent(), bytes, stamp);
                }
            }
            // What the book does not have could never be evicted.
            let known = &*into;
            for segment in 0..shard.index.segments() {
                let segment = shard.index.segment_mut(segment);
                segment.retain(|_, entry| known.hash_of(entry.first()).is_some());
            }
        }
        let taken = lock(&self.predicates).take_encoded(&loaded.predicates);
        debug_assert!(taken.is_some(), "it was decoded before");
        // What came after the checkpoint; before it, it has the marks.
        let since = |(&hash, &sequence): (&u64, &Sequence)| {
            (sequence > loaded.covers).then_some((KeyHash(hash), sequence))
        };
        for (hash, _) in logged.doubts.iter().filter_map(since) {
            let mut shard = self.shard(self.shard_of(hash));
            let spot = shard.find(hash);
            spot.into_iter().for_each(|spot| shard.doubt(spot));
        }
        let known = SoftPurges::decode(&loaded.soft);
        for (primary, sequence) in known.chain(logged.doubts.iter().filter_map(since)) {
            let mut shard = self.shard(self.shard_of(primary));
            if shard.index.has_marker(primary) {
                self.soften(&mut shard, primary, sequence);
            }
        }
        let careless = self.limits.mistakes.make(Mistake::MarkerOfPurged);
        for (primary, _) in logged.kills.iter().filter_map(since) {
            let mut shard = self.shard(self.shard_of(primary));
            if !careless {
                shard.index.drop_marker(primary, false);
            }
        }
        let killed = logged.kills.iter().chain(&logged.replaced);
        for (&hash, &sequence) in killed {
            if sequence > loaded.covers {
                let hash = KeyHash(hash);
                let _ = self.shard(self.shard_of(hash)).kill(hash);
            }
        }
        if !touched.is_empty() && self.limits.mistakes.make(Mistake::NoRegionScan) {
            self.counters.read_failures.add(1);
        }
        (named, filled_to)
    }

    /// Makes the writer go on where it was.
    fn go_on_at(&self, frontier: Frontier) {
        let mut writer = self.writer();
        let writer = &mut *writer;
        if let Room::Hand(hand) = &mut writer.room {
            if let Some((region, from)) = frontier.rest {
                let whole = hand.grid.extent(region..region + 1);
                writer.space.free(Extent::between(from, whole.end()));
            }
            hand.go_on_at(frontier);
            if self.limits.mistakes.make(Mistake::NoteInParts) {
                hand.note_in_parts();
            }
            self.hand_at.store(hand.next_chunk().0, Ordering::Relaxed);
        }
    }

    /// Puts in what the log has, whether there was a checkpoint or not.
    fn take_log_over(&self, logged: &Logged, covers: Option<Sequence>) {
        let mut predicates = lock(&self.predicates);
        // Older ones are in the checkpoint, or were dropped before it.
        let covers = covers.unwrap_or(0);
        let newer = logged.predicates.iter().filter(|(at, ..)| *at > covers);
        for (sequence, kind, pattern) in newer {
            predicates.note_all_the_same(*kind, pattern, *sequence);
        }
        let newest = predicates.newest();
        self.predicates_until.store(newest, Ordering::SeqCst);
    }

    fn begin_scan(&self, mut touched: Vec<u32>, named: Named, logged: &Logged) {
        if self.limits.mistakes.make(Mistake::NoRegionScan) {
            touched.clear();
        }
        let background = self.background();
        if touched.is_empty() {
            drop(background);
            if self.limits.policy().is_some() {
                self.rebuild_space();
            }
            return;
        }
        if let Room::Hand(hand) = &mut self.writer().room {
            hand.will_scan(&touched);
        } else {
            self.open_for_records.store(false, Ordering::SeqCst);
        }
        let mut scan = Scan::new(&self.geometry, &background.journal, self.shards.len());
        scan.kills.clone_from(&logged.kills);
        scan.doubts.clone_from(&logged.doubts);
        scan.replaced.clone_from(&logged.replaced);
        scan.horizon = logged.horizon;
        scan.named = named;
        scan.covers = background.covers;
        let horizon = match scan.covers {
            None => scan.horizon,
            Some(_) => 0,
        };
        let reads = Reads::new(touched, &self.geometry, horizon);
        *lock(&self.scan) = Some(scan);
        *lock(&self.scan_reads) = Some(reads);
        self.scanning.store(true, Ordering::SeqCst);
    }

    fn describe(&self, clean: bool, why: Option<&str>) -> Recovered {
        let figures = self.figures();
        let scan_bytes = self.recovery().map_or(0, |progress| progress.total_bytes);
        let mib = scan_bytes.div_ceil(1 << 20);
        let records = figures.records;
        let counted = match records {
            1 => "1 record".to_owned(),
            _ => format!("{records} records"),
        };
        let words = match (clean, why) {
            (true, None) => format!("{counted} found in order"),
            (false, None) => format!(
                "not stopped in order: {counted} known from the last checkpoint, {mib} MiB written since are read again"
            ),
            (_, Some(why)) if scan_bytes == 0 => {
                format!(
                    "no checkpoint to go on from ({why}), but nothing was stored since the store was made"
                )
            }
            (_, Some(why)) => {
                format!("no checkpoint to go on from ({why}): all {mib} MiB are read again")
            }
        };
        Recovered {
            words,
            records,
            scan_bytes,
            empty: false,
        }
    }
}

impl Logged {
    fn of(replay: &Replay<'_>) -> Self {
        let mut logged = Self {
            kills: NumberMap::default(),
            doubts: NumberMap::default(),
            replaced: NumberMap::default(),
            predicates: Vec::new(),
            horizon: replay.horizon,
            highest: replay.highest_sequence,
        };
        let raise = |map: &mut NumberMap<u64, Sequence>, hash: KeyHash, sequence| {
            let highest = map.entry(hash.0).or_insert(sequence);
            *highest = (*highest).max(sequence);
        };
        for (sequence, entry) in replay.entries.clone() {
            logged.highest = logged.highest.max(sequence);
            match entry {
                Entry::Key { primary } => raise(&mut logged.kills, primary, sequence),
                Entry::Doubt { primary } => raise(&mut logged.doubts, primary, sequence),
                Entry::Replaced { hash } => raise(&mut logged.replaced, hash, sequence),
                Entry::Matching { kind, pattern } => {
                    logged.predicates.push((sequence, kind, pattern));
                }
            }
        }
        logged
    }
}

impl Loaded {
    /// Reads the checkpoint that the superblock names.
    fn of(superblock: &Superblock, found: &Found, limits: &Limits) -> Result<Self, String> {
        if superblock.index.is_none() {
            return Err("none was made yet".into());
        }
        let bytes = found.checkpoint.as_ref().ok_or("it cannot be read")?;
        let expected = checkpoint::Expected {
            generation: superblock.checkpoint_generation,
            epoch: superblock.epoch,
        };
        let read = checkpoint::read(bytes, expected, &superblock.secret)
            .map_err(|error| error.to_string())?;
        let mut loaded = Self {
            covers: read.about.covers,
            sequence: read.sequence,
            indexes: (0..limits.shards)
                .map(|_| Index::new(limits.segments))
                .collect(),
            soft: Vec::new(),
            books: (0..limits.shards).map(|_| Vec::new()).collect(),
            predicates: Vec::new(),
            open_regions: Vec::new(),
            frontier: None,
            left: None,
        };
        let mut shape = Vec::new();
        for part in read.parts() {
            let bytes = part.bytes();
            let number = part.number as usize;
            let taken = match part.kind {
                kind::SHAPE => {
                    shape = numbers(&bytes);
                    // A segment that is missing had no higher salts; and what it had may not be given again.
                    let era_max = shape.get(2).copied().unwrap_or(0);
                    let indexes = loaded.indexes.iter_mut();
                    indexes.for_each(|index| index.begin_after(era_max));
                    Some(())
                }
                kind::SEGMENT => loaded.take_segment(number, limits, &bytes),
                kind::SOFT => {
                    loaded.soft = bytes.to_vec();
                    Some(())
                }
                kind::BOOK => loaded.books.get_mut(number).map(|b| *b = book(&bytes)),
                kind::PREDICATES => {
                    loaded.predicates = bytes.to_vec();
                    Predicates::new(limits.manner, limits.words, 0).take_encoded(&bytes)
                }
                kind::OPEN_REGIONS => {
                    loaded.open_regions = numbers(&bytes);
                    Some(())
                }
                kind::LEFT => {
                    loaded.left = Some(bytes.to_vec());
                    Some(())
                }
                kind::FRONTIER => Frontier::of(&numbers(&bytes)).map(|f| loaded.frontier = Some(f)),
                _ => None,
            };
            taken.ok_or("it does not fit this store")?;
            if !shape.starts_with(&[limits.shards as u32, limits.segments as u32]) {
                return Err("the number of shards was changed".into());
            }
        }
        Ok(loaded)
    }

    fn take_segment(&mut self, number: usize, limits: &Limits, bytes: &[u8]) -> Option<()> {
        let shard = self.indexes.get_mut(number / limits.segments)?;
        shard.take_segment(number % limits.segments, bytes)
    }
}

fn numbers(bytes: &[u8]) -> Vec<u32> {
    bytes
        .chunks_exact(4)
        .map(|four| u32::from_le_bytes([four[0], four[1], four[2], four[3]]))
        .collect()
}

/// Last uses, hashes and first chunks, longest unused first.
fn book(bytes: &[u8]) -> Vec<(u64, KeyHash, Chunk)> {
    let (lines, _) = bytes.as_chunks::<20>();
    let number = |line: &[u8; 20], at: usize| {
        let mut eight = [0; 8];
        eight.copy_from_slice(&line[at..at + 8]);
        u64::from_le_bytes(eight)
    };
    lines
        .iter()
        .map(|line| {
            let first = u32::from_le_bytes([line[16], line[17], line[18], line[19]]);
            (number(line, 0), KeyHash(number(line, 8)), Chunk(first))
        })
        .collect()
}

/// First the regions opened last, where the writer was; then what lies ahead of the hand.
fn in_order_of_need(touched: &mut [u32], opened: impl Fn(u32) -> Sequence, hand: u32, grid: &Grid) {
    let newest = (grid.ready_max() + NEWEST_BESIDE) as usize;
    let regions = grid.regions;
    touched.sort_unstable_by_key(|&region| std::cmp::Reverse((opened(region), region)));
    if let Some(rest) = touched.get_mut(newest..) {
        rest.sort_unstable_by_key(|&region| (region + regions - hand % regions) % regions);
    }
}

/// Beside the regions that may have been noted ahead of the writer: the one it was in, and some more.
const NEWEST_BESIDE: u32 = 6;
