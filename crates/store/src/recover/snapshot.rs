//! A checkpoint of the index, taken while the store goes on.
//!
//! Segment by segment the index is copied under its shard's lock, a few dozen microseconds each, so the picture is not of one
//! moment. That does no harm: `covers`, the sequence at which the picture was begun, tells recovery from where on it must read the log
//! for invalidations, and the regions opened since (or open then) for records. An entry beyond `covers` is either still true or corrected by
//! those two. A record published up to `covers` that is not in the picture was dropped: of such records in the regions open then, a scan
//! takes only those that the picture names, entries being written included.
//!
//! Parts: the shape of the index, its segments, predicates, soft purges, the regions open at the beginning, at a clean stop the state of
//! the writer (`frontier`), and books if there are any. A part that finds no room is left out; its records are misses after a restart.
//!
//! When: after [`BYTES_PER_BYTE`] bytes written for each byte of the last checkpoint, so that checkpoints add at most one
//! percent; at the latest after half of the area; and before the log must forget entries that came after the last checkpoint.

use crate::evict::room::Room;
use crate::index::usage::UsageBits;
use crate::jobs::Background;
use crate::lock::lock;
use crate::recover::checkpoint::write::CheckpointWriter;
use crate::recover::picture::{Snapshot, kind};
use crate::recover::superblock::{IndexPlace, State, Superblock};
use crate::script::{Script, Stage, Step};
use crate::store::Store;
use bytes::Bytes;
use std::collections::VecDeque;

/// Bytes written between two checkpoints, for each byte of one.
const BYTES_PER_BYTE: u64 = 100;

/// But this many at least, as long as they are no more than this share of the area: a checkpoint of a small index is little to
/// write, but its flushes hold up the other writes.
const LEAST_BYTES: u64 = 256 << 20;
const LEAST_SHARE: u64 = 16;

/// Pages that the log must have left before it forgets entries that came after the last checkpoint.
const LOG_PAGES_MIN: u64 = 4;

/// And this share of all pages of the log.
const LOG_PAGES_SHARE: u64 = 4;

/// Blocks under way.
const BLOCKS_MAX: usize = 2;

impl Snapshot {
    /// The next block to write, or a step of the end.
    pub(crate) fn next_step(&mut self, store: &Store) -> Option<Step> {
        if self.failed {
            return None;
        }
        if self.ending.is_some() {
            return self.next_of_ending();
        }
        if self.outstanding >= BLOCKS_MAX {
            return None;
        }
        let all = store.shards.len() * store.limits.segments;
        loop {
            let writer = self.writer.as_mut()?;
            if let Some((offset, block)) = writer.take_block() {
                self.outstanding += 1;
                return Some(Step::Write(self.area_at + offset, block));
            }
            if self.next_segment == all {
                break;
            }
            let (shard, segment) = (
                self.next_segment / store.limits.segments,
                self.next_segment % store.limits.segments,
            );
            self.scratch.clear();
            let shard = store.shard(shard);
            shard.index.encode_segment(segment, &mut self.scratch);
            drop(shard);
            writer.push(kind::SEGMENT, self.next_segment as u32, &self.scratch);
            self.next_segment += 1;
        }
        if self.outstanding > 0 {
            return None;
        }
        self.end(store);
        self.next_of_ending()
    }

    /// Adds the parts that remain after all segments.
    fn end(&mut self, store: &Store) {
        let Some(mut writer) = self.writer.take() else {
            return;
        };
        for number in 0..store.shards.len() {
            let shard = store.shard(number);
            let mut book = Vec::new();
            for (stamp, hash, first) in shard.book.iter().flat_map(|book| book.in_order_of_use()) {
                book.extend(stamp.to_le_bytes());
                book.extend(hash.0.to_le_bytes());
                book.extend(first.0.to_le_bytes());
            }
            drop(shard);
            if !book.is_empty() {
                writer.push(kind::BOOK, number as u32, &book);
            }
        }
        // Without this part the next start takes every key for one that has left the index. It must do so if a segment was left out:
        // the index then lacks records that the disk still has.
        let is_known = self.is_clean()
            && self.is_all_written
            && writer.is_whole()
            && store.limits.policy().is_none();
        if let Some(left) = lock(&store.left).encode().filter(|_| is_known) {
            writer.push(kind::LEFT, 0, &left);
        }
        let mut blocks: VecDeque<(u64, Bytes)> = VecDeque::new();
        while let Some(block) = writer.take_block() {
            blocks.push_back(block);
        }
        let finished = writer.finish(store.sequence());
        blocks.extend(finished.writes);
        blocks
            .iter_mut()
            .for_each(|(offset, _)| *offset += self.area_at);
        self.bytes = finished.bytes;
        self.superblock.index = Some(IndexPlace {
            offset: self.area_at,
            bytes: self.bytes,
        });
        let copy = self.superblock.encode();
        let mut stages = vec![Stage::Writes(blocks), Stage::Flush];
        for offset in self.copies {
            stages.push(Stage::Writes([(offset, copy.clone())].into()));
            stages.push(Stage::Flush);
        }
        self.ending = Some(Script::new(stages));
    }
}

impl Store {
    pub(crate) fn snapshot_is_due(&self, background: &Background) -> bool {
        let covers = background.covers.unwrap_or(0);
        let written = self.writer().bytes_since_checkpoint;
        // Also when nothing was written since: else purges alone would make the last checkpoint worthless.
        let pages_min = LOG_PAGES_MIN.max(background.log.ring_pages() / LOG_PAGES_SHARE);
        if background.log.pages_left_before(covers) < pages_min {
            return true;
        }
        if lock(&self.predicates).wants_checkpoint() {
            return true;
        }
        let last = background.superblock.index.map_or(0, |place| place.bytes);
        // The index has grown since, perhaps from nothing.
        let records = self
            .counters
            .inserts
            .get()
            .min(u64::from(self.geometry.data_chunks) / 2);
        let estimate = last.max(records * size_of::<u64>() as u64 / 2);
        let data_bytes = self.geometry.data_bytes();
        let least = LEAST_BYTES
            .min(data_bytes / LEAST_SHARE)
            .max(self.geometry.region_bytes());
        let due = (estimate * BYTES_PER_BYTE).clamp(least, data_bytes / 2);
        written >= due
    }

    pub(crate) fn begin_snapshot(&self, background: &Background) -> Snapshot {
        // Nothing is published and no region begun between `covers` and the list of open regions.
        let mut space = self.writer();
        let about = self.about(background);
        let clean = self.is_closed_to_inserts();
        let published = background.superblock.index.map(|place| place.offset);
        let areas = self.geometry.checkpoint_areas();
        let area_at = areas
            .into_iter()
            .find(|&at| published != Some(at))
            .unwrap_or(areas[0]);
        let mut writer = CheckpointWriter::new(self.geometry.checkpoint_bytes, about, self.secret);
        let (mut era_max, mut soft) = (0, Vec::new());
        for number in 0..self.shards.len() {
            let shard = self.shard(number);
            era_max = shard.index.era_max().max(era_max);
            shard.soft.encode(&mut soft);
        }
        let shape = [
            self.shards.len() as u32,
            self.limits.segments as u32,
            era_max,
        ];
        writer.push(kind::SHAPE, 0, &numbers(shape));
        // A program that does not know this part must refuse the checkpoint: it would take these bits for places.
        if self.limits.usage_bits != UsageBits::NONE {
            writer.push(kind::USAGE, 0, &numbers([self.limits.usage_bits.spare()]));
        }
        // Before all parts that may be left out: without the predicates, purged records would come back. Later ones are in the log.
        let predicates = {
            let mut predicates = lock(&self.predicates);
            predicates.checkpoint_begins();
            predicates.encode()
        };
        let fits = writer.push(kind::PREDICATES, 0, &predicates);
        let fits = fits && (soft.is_empty() || writer.push(kind::SOFT, 0, &soft));
        assert!(
            fits,
            "a fourth and an eighth of an empty area are room enough"
        );
        space.bytes_since_checkpoint = 0;
        if let Room::Hand(hand) = &space.room {
            let mut open: Vec<u32> = hand.open_regions().collect();
            // A record in flight counts only when it is written, which may be too late for its segment.
            let flights = lock(&self.flights);
            open.extend(flights.iter().map(|f| hand.grid.region_of(f.extent.first)));
            open.sort_unstable();
            open.dedup();
            writer.push(kind::OPEN_REGIONS, 0, &numbers(open));
        }
        if let Some(frontier) = space.frontier().filter(|_| clean) {
            writer.push(kind::FRONTIER, 0, &numbers(frontier.numbers()));
        }
        // The next start drops records that are still being written, whose bytes may reach the disk all the same.
        let is_all_written = space.open.is_none() && lock(&self.flights).is_empty();
        drop(space);
        let superblock = Superblock {
            state: if clean { State::Clean } else { State::Open },
            generation: about.generation,
            checkpoint_generation: about.generation,
            policy: u32::from(self.limits.policy().is_some()),
            ..background.superblock.clone()
        };
        Snapshot {
            writer: Some(writer),
            covers: about.covers,
            is_all_written,
            area_at,
            next_segment: 0,
            outstanding: 0,
            failed: false,
            ending: None,
            superblock,
            copies: Superblock::copies_in_order(background.suspect_copy),
            copy_begun: None,
            bytes: 0,
            scratch: Vec::new(),
        }
    }
}

/// Numbers as bytes.
fn numbers(numbers: impl IntoIterator<Item = u32>) -> Vec<u8> {
    numbers.into_iter().flat_map(u32::to_le_bytes).collect()
}
