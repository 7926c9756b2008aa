//! Recovery: from the parts read of a store to a store that serves.
//!
//! 1. The log. Without it the invalidations are unknown, so a store whose log is damaged starts empty.
//! 2. The checkpoint: segments with records and markers, predicates, soft purges. Entries that lie in *touched* regions (opened since the
//!    checkpoint began, or open then) are dropped: the scan finds the records that are there now. Records that the log invalidates
//!    after the checkpoint are killed.
//! 3. The scan of the touched regions, or of all of them when there is no usable checkpoint, begins; see `scan`.
//!
//! A store that was closed in order has no touched regions, so it is complete after step 2.
//!
//! With an ordered policy regions are not noted: closed in order, the checkpoint has everything, books included; else
//! everything is scanned.

use crate::evict::grid::Grid;
use crate::evict::left::Left;
use crate::evict::room::Room;
use crate::fragments::fragment_bytes;
use crate::geometry::Geometry;
use crate::index::Index;
use crate::index::key::KeyHash;
use crate::jobs::Background;
use crate::joining::Moves;
use crate::lock::lock;
use crate::log::replay::Replay;
use crate::log::soft::SoftPurges;
use crate::mistakes::Mistake;
use crate::recover::journal::{self, Journal};
use crate::recover::loaded::Loaded;
use crate::recover::logged::Logged;
use crate::recover::open::{Found, Identity};
use crate::recover::resumption::Resumption;
use crate::recover::scan_reads::Reads;
use crate::recover::scanned::{Named, Scan};
use crate::recover::superblock::{FORMAT_VERSION, State, Superblock};
use crate::sequence::Sequence;
use crate::settings::{Limits, Settings};
use crate::store::Store;
use crate::write::frontier::Frontier;
use extent::{Chunk, Extent};
use std::sync::atomic::Ordering;

/// The outcome of a recovery, to be shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recovered {
    /// The outcome in words.
    pub words: String,
    /// Records known at once.
    pub records: u64,
    /// Bytes that are still to be scanned.
    pub scan_bytes: u64,
    /// Whether nothing could be kept.
    pub empty: bool,
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
        placed: (u64, u32, Moves),
    ) -> (Self, Recovered) {
        let limits = Limits::fit(settings, &superblock.geometry, superblock.fragment_bytes);
        let logged = Logged::of(&replay);
        let journal = Journal::read(
            found.journal.as_deref().unwrap_or_default(),
            superblock.geometry.regions(),
            superblock.geometry.region_journal_bytes,
            journal::Start {
                epoch: superblock.epoch,
                generation: superblock.generation.wrapping_add(1),
                secret: superblock.secret,
            },
        );
        let clean = superblock.state == State::Clean;
        let loaded = Loaded::to_go_on_from(&superblock, found, &limits, logged.horizon);
        let by_hand = limits.policy().is_none();
        let Resumption {
            sequence,
            hand_at,
            touched,
        } = Resumption::of(
            &superblock,
            &journal,
            &logged,
            loaded.as_ref().ok(),
            by_hand,
        );
        let opened = opened(superblock, sequence, by_hand, placed);
        let mut background = Background::new(opened, replay.log, journal);
        background.covers = loaded.as_ref().ok().map(|loaded| loaded.covers);
        if loaded.is_err() {
            // The unusable checkpoint must not be taken for one of the new state.
            background.superblock.index = None;
            background.superblock.checkpoint_generation = 0;
        }
        let log = background.opening_of_log();
        let superblock = background.superblock.clone();
        let store = Self::with(&superblock, limits, sequence, hand_at, background);
        store.note_openings(&store.background().journal);
        store.set_opening(&superblock, log);
        *lock(&store.left) = Left::all(sequence);
        let (named, why) = match loaded {
            Ok(loaded) => (store.take_over(loaded, &logged, &touched), None),
            Err(why) => (Named::default(), Some(why)),
        };
        let covers = store.background().covers;
        store.take_log_over(&logged, covers);
        store.begin_scan(touched, named, &logged);
        let mut recovered = store.describe(clean, why.as_deref());
        recovered.words += &store.shorter_than_new(settings);
        (store, recovered)
    }

    /// The message for a store whose fragments are much shorter than those of a new one.
    fn shorter_than_new(&self, settings: &Settings) -> String {
        let here = self.fragment_bytes();
        let new = Geometry::plan(self.geometry.total_bytes, self.geometry.chunk_bytes)
            .map_or(here, |new| fragment_bytes(settings.fragment_bytes, &new));
        match here >= new / 2 {
            true => String::new(),
            false => format!(
                "; an earlier version made it: an object of more than {here} bytes takes several reads, in a new store (loligo store init \
                 --force) one of more than {new}"
            ),
        }
    }

    /// Takes over the content of the checkpoint. Returns the records that it names in touched regions.
    fn take_over(&self, loaded: Loaded, logged: &Logged, touched: &[u32]) -> Named {
        if let Some(left) = loaded.left.filter(|_| touched.is_empty()) {
            *lock(&self.left) = Left::decode(&left, self.sequence());
        }
        let (named, filled_to) = self.take_records(loaded.indexes, touched);
        self.take_books(loaded.books);
        let taken = lock(&self.predicates).take_encoded(&loaded.predicates);
        debug_assert!(taken.is_some(), "it was decoded before");
        self.take_purges(&loaded.soft, loaded.covers, logged);
        if !touched.is_empty() && self.limits.mistakes.make(Mistake::NoRegionScan) {
            self.counters.read_failures.add(1);
        }
        let grid = Grid::of(&self.geometry);
        let is_right = |f: &Frontier| {
            touched.is_empty() && f.is_right(&grid, &filled_to, &self.background().journal)
        };
        if let Some(frontier) = loaded.frontier.filter(is_right) {
            self.go_on_at(frontier);
        }
        named
    }

    /// Takes over records and markers. Returns the records in touched regions, and for each region where its last record ends.
    fn take_records(&self, indexes: Vec<Index>, touched: &[u32]) -> (Named, Vec<u32>) {
        let region_chunks = self.geometry.region_chunks;
        let by_hand = self.limits.policy().is_none();
        let mut named = Named::default();
        let mut filled_to = vec![0; self.geometry.regions() as usize];
        let mut is_touched = vec![false; self.geometry.regions() as usize];
        touched.iter().for_each(|&r| is_touched[r as usize] = true);
        let data_chunks = extent::Chunks(self.geometry.data_chunks);
        for (number, index) in indexes.into_iter().enumerate() {
            let mut shard = self.shard(number);
            shard.index = index;
            for segment in 0..shard.index.segments() {
                shard.index.segment_mut(segment).retain(|short, entry| {
                    let extent = entry.extent();
                    if !extent.fits_in(data_chunks) {
                        return false;
                    }
                    let region = extent.first.0 / region_chunks;
                    // An ordered policy may have stored a record across a border. If its second region is used again and its first is not, the
                    // record would come back with each start until the next checkpoint.
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
        (named, filled_to)
    }

    /// Takes over the order of the records, with an ordered policy.
    fn take_books(&self, books: Vec<Vec<(u64, KeyHash, Chunk)>>) {
        for (number, book) in books.into_iter().enumerate() {
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
            // A record that is not in the book could never be evicted.
            let known = &*into;
            for segment in 0..shard.index.segments() {
                let segment = shard.index.segment_mut(segment);
                segment.retain(|_, entry| known.hash_of(entry.first()).is_some());
            }
        }
    }

    /// Takes over the soft purges of the checkpoint, and the log's purges of single keys since.
    fn take_purges(&self, soft: &[u8], covers: Sequence, logged: &Logged) {
        // Only entries after the checkpoint: it has the effect of earlier ones.
        let since = |(&hash, &sequence): (&u64, &Sequence)| {
            (sequence > covers).then_some((KeyHash(hash), sequence))
        };
        for (hash, _) in logged.doubts.iter().filter_map(since) {
            let mut shard = self.shard(self.shard_of(hash));
            let spot = shard.find(hash);
            spot.into_iter().for_each(|spot| shard.doubt(spot));
        }
        let known = SoftPurges::decode(soft);
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
            if sequence > covers {
                let hash = KeyHash(hash);
                let _ = self.shard(self.shard_of(hash)).kill(hash);
            }
        }
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

    /// Takes over the predicates of the log, whether there was a checkpoint or not.
    fn take_log_over(&self, logged: &Logged, covers: Option<Sequence>) {
        let mut predicates = lock(&self.predicates);
        // Older predicates are in the checkpoint, or were dropped before it.
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

/// The superblock, open, of a store that goes on from `superblock` as it was left.
fn opened(
    superblock: Superblock,
    sequence: Sequence,
    by_hand: bool,
    (placement, weight, moves): (u64, u32, Moves),
) -> Superblock {
    // Keys that left this store by an earlier change may come back by this one. Their records have missed purges made elsewhere.
    let accept_from = match moves.may_come {
        true => superblock.keys_left_at.max(superblock.accept_from),
        false => superblock.accept_from,
    };
    let keys_left_at = match moves.may_leave {
        // One above, since the last record of the previous run may have this number.
        true => sequence + 1,
        false => superblock.keys_left_at,
    };
    Superblock {
        version: FORMAT_VERSION,
        accept_from,
        placement,
        keys_left_at,
        weight,
        state: State::Open,
        generation: superblock.generation.wrapping_add(1),
        policy: u32::from(!by_hand),
        ..superblock
    }
}
