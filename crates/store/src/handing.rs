//! Handing the store over to another process, without a moment in which it serves nothing.
//!
//! ```text
//!  serves, stores ──freeze──> serves ──is_frozen──> the disk is as after a clean stop ──hand_over──> serves what is under way
//!        ^                      │                       │                                            tells its invalidations
//!        └───────── thaw ───────┴───────────────────────┘
//! ```
//!
//! *Freeze*: nothing is stored any more; the open cluster is written, then a checkpoint as at a clean stop. The index stays in memory, and
//! reads go on. Invalidations hold at once as ever, but once the log is settled they wait in memory: nothing is written behind the
//! checkpoint, so the other process may recover the store meanwhile.
//!
//! *Thaw*: the other process has not taken the store, and has written nothing. The superblock must say that the store is open before
//! anything else is written; else a crash would bring the checkpoint back as if nothing had come after it, its sequences included. Then all
//! goes on, and the waiting invalidations are committed.
//!
//! *Hand over*: from here on the store belongs to the other process, and this process writes nothing. Look-ups find nothing, except for
//! answers that began before ([`Store::look_up_needed`]); no fill that began earlier may be published. Places that are still being read, or
//! are needed, must not be overwritten: the other process gets their list, and [protects](Store::protect) them until this process has ended.
//! Invalidations of this process are [told](Store::next_told) to the other, and are durable when they are durable there. If its disk fails
//! they still hold there, as an invalidation of its own would, and so do later ones.
//!
//! Invariants:
//!   H1  from `is_frozen` to `thaw`, and from `hand_over` on, no work and no write is handed out, and none is under way
//!   H2  an entry of the log that is not in a page waits in memory until it is committed after a thaw, or told
//!   H3  a place that is protected is not given to the allocator
//!
//! Not known here: the other process, the protocol between the two.

use crate::handover::{Handing, Thawing};
use crate::index::key::KeyHash;
use crate::jobs::{Background, Owner, Work};
use crate::lock::lock;
use crate::log::Position;
use crate::log::entry::Entry;
use crate::mistakes::Mistake;
use crate::recover::superblock::{State, Superblock};
use crate::script::{Script, Stage, Step};
use crate::store::Store;
use crate::write::cluster::Writes;
use crate::write::protected::Protected;
use extent::{Chunk, Chunks, Extent};
use std::sync::atomic::Ordering;

/// The most invalidations that are told at once.
const TOLD_MAX: usize = 256;

/// The result of invalidations that were [told](Store::next_told).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Heard {
    /// They hold in the other process, durably.
    Durable,
    /// They hold there as far as possible, but not durably. Later invalidations are told all the same.
    NotDurable,
    /// The other process does not listen any more. Later invalidations are not durable either.
    NoMore,
}

/// Why a store cannot be frozen now.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NotFrozen {
    /// A crash came before this start, and the scan is still under way.
    #[error("what a crash left is still being looked through")]
    Scanning,
    /// The patterns that were purged take more room than a checkpoint has.
    #[error("purges by pattern are still being worked off")]
    Predicates,
    /// The store is being closed, frozen, or thawed.
    #[error("it is being closed, or handed over already")]
    Busy,
}

/// Chunks of the data area that must not be overwritten yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HeldChunks {
    /// The first.
    pub first: u32,
    /// How many; 0 stands for none.
    pub len: u32,
}

/// An invalidation, as another process needs it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Told {
    /// [`Store::invalidate`].
    Key(KeyHash),
    /// [`Store::doubt`].
    Doubt(KeyHash),
    /// [`Store::invalidate_matching`].
    Matching {
        /// The kind of the pattern.
        kind: u8,
        /// The pattern.
        pattern: Box<[u8]>,
    },
}

impl Store {
    /// Stops storing, and begins to leave the disk as a clean stop would. Reads go on. Carry the writes out, and [`Self::next_work`],
    /// until [`Self::is_frozen`]; give up with [`Self::thaw`].
    ///
    /// # Errors
    /// It is not possible now, and nothing has changed.
    pub fn freeze(&self) -> Result<Writes, NotFrozen> {
        let mut background = self.background();
        if background.handing != Handing::No || background.closing {
            return Err(NotFrozen::Busy);
        }
        if background.volatile {
            background.handing = Handing::Freezing;
            return Ok(Writes::default());
        }
        if self.is_scanning() {
            return Err(NotFrozen::Scanning);
        }
        if lock(&self.predicates).exceed_checkpoint() {
            return Err(NotFrozen::Predicates);
        }
        let mut writer = self.writer();
        let mut writes = Writes::default();
        self.empty_all(&mut writer, &mut writes);
        writes.push(self.close_cluster(&mut writer));
        // Inserts that wait for the writer's lock see this when they get it.
        self.closed.store(true, Ordering::SeqCst);
        drop(writer);
        background.handing = Handing::Freezing;
        background.closing = true;
        background.retry_snapshot = Default::default();
        Ok(writes)
    }

    /// May the last checkpoint begin? Anything that is written after this check would be lost.
    pub(crate) fn may_end_freezing(&self, background: &Background) -> bool {
        background.log.is_settled() && background.commit.is_none() && lock(&self.flights).is_empty()
    }

    /// Is the disk as after a clean stop, and is nothing under way that would change it (H1)?
    pub fn is_frozen(&self) -> bool {
        Self::has_frozen(&self.background())
    }

    fn has_frozen(background: &Background) -> bool {
        background.handing == Handing::Freezing
            && (background.volatile || (background.closed && background.is_at_rest()))
    }

    /// The store goes on in this process. It stores again when the superblock says that it is open, which [`Self::next_work`] does first.
    pub fn thaw(&self) {
        let mut background = self.background();
        if background.handing != Handing::Freezing {
            return;
        }
        if background.volatile {
            background.handing = Handing::No;
            return;
        }
        background.handing = Handing::Thaw;
        background.closing = false;
        background.closed = false;
        background.retry_snapshot = Default::default();
        if self.limits.mistakes.make(Mistake::ThawInSilence) {
            background.handing = Handing::No;
            self.closed.store(false, Ordering::SeqCst);
        }
    }

    pub(crate) fn next_thaw_step(&self, background: &mut Background, now_ms: u64) -> Option<Work> {
        if background.handing == Handing::Thaw {
            if !background.retry_snapshot.is_due(now_ms) {
                return None;
            }
            let superblock = Superblock {
                state: State::Open,
                generation: background.superblock.generation + 1,
                ..background.superblock.clone()
            };
            let copy = superblock.encode();
            let copies = Superblock::copies_in_order(background.suspect_copy);
            let stages = copies.into_iter().flat_map(|offset| {
                let copy = (offset, copy.clone());
                [Stage::Writes([copy].into()), Stage::Flush]
            });
            background.handing = Handing::Thawing(Box::new(Thawing {
                script: Script::new(stages),
                superblock,
                copy_begun: copies[0],
            }));
        }
        let Handing::Thawing(thawing) = &mut background.handing else {
            return None;
        };
        let step = thawing.script.next()?;
        if let Step::Write(offset, _) = &step {
            thawing.copy_begun = *offset;
        }
        background.step(Owner::Thaw, step)
    }

    pub(crate) fn thaw_step_done(&self, background: &mut Background, ok: bool, now_ms: u64) {
        let Handing::Thawing(thawing) = &mut background.handing else {
            return;
        };
        let Some(ok) = thawing.script.done(ok) else {
            return;
        };
        let copy_begun = thawing.copy_begun;
        let superblock = thawing.superblock.clone();
        background.retry_snapshot.ended(ok, now_ms);
        if !ok {
            background.suspect_copy = copy_begun;
            // Either generation may be on the disk now, so the next superblock must be newer than both.
            background.superblock.generation = superblock.generation;
            background.handing = Handing::Thaw;
            return;
        }
        background.superblock = superblock;
        background.handing = Handing::No;
        if !background.closing {
            self.closed.store(false, Ordering::SeqCst);
        }
    }

    /// Gives the store away, frozen as it is. Returns the places that this process still reads: the other must [protect](Self::protect) them.
    ///
    /// Tell the other process only afterwards that the store is its own.
    pub fn hand_over(&self) -> Vec<HeldChunks> {
        let mut background = self.background();
        assert!(Self::has_frozen(&background), "it is handed over frozen");
        background.handing = Handing::Over(0);
        self.gone.store(true, Ordering::SeqCst);
        let mut held = Vec::new();
        // Under each shard's lock: a thread that has not pinned or noted its record by now finds that the store is gone.
        for number in 0..self.shards.len() {
            held.extend(self.shard(number).in_use());
        }
        let chunks = |extent: Extent| HeldChunks {
            first: extent.first.0,
            len: extent.len.0,
        };
        held.into_iter().map(chunks).collect()
    }

    /// The other process has ended before it could hear that the store is its own: the store is frozen as before [`Self::hand_over`].
    pub fn take_back(&self) {
        let mut background = self.background();
        if let Handing::Over(_) = background.handing {
            background.handing = Handing::Freezing;
            self.gone.store(false, Ordering::SeqCst);
        }
    }

    /// Was the store handed over to another process?
    pub fn is_handed_over(&self) -> bool {
        self.gone.load(Ordering::SeqCst)
    }

    /// Invalidations that the other process must be told, if none are on their way to it. Report the result to [`Self::told_done`].
    pub fn next_told(&self) -> Vec<Told> {
        let mut background = self.background();
        let Handing::Over(0) = background.handing else {
            return Vec::new();
        };
        let of = |entry: &Entry| match entry {
            Entry::Key { primary } => Told::Key(*primary),
            Entry::Doubt { primary } => Told::Doubt(*primary),
            // An entry of an earlier format. A record that was replaced is as good as purged.
            Entry::Replaced { hash } => Told::Key(*hash),
            Entry::Matching { kind, pattern } => Told::Matching {
                kind: *kind,
                pattern: pattern.clone(),
            },
        };
        if self.limits.mistakes.make(Mistake::ForgetToTell) {
            let all = background.log.waiting(usize::MAX).count();
            background.log.told(all);
        }
        let told: Vec<Told> = background.log.waiting(TOLD_MAX).map(of).collect();
        background.handing = Handing::Over(told.len());
        told
    }

    /// Reports the result of the invalidations that [`Self::next_told`] returned. [`Heard::NoMore`] may be reported at any time.
    pub fn told_done(&self, heard: Heard) {
        let mut background = self.background();
        let Handing::Over(entries) = background.handing else {
            return;
        };
        let is_careless = self.limits.mistakes.make(Mistake::TellNoMore);
        if heard == Heard::NoMore || (heard == Heard::NotDurable && is_careless) {
            background.failed_until = Position(u64::MAX);
            return;
        }
        let first = background.log.durable().0;
        if heard == Heard::NotDurable {
            // Not told again: they hold in the other process, and its log has them. A second time they would purge newer records.
            (background.told_in_vain).note(first..first + entries as u64);
        }
        background.handing = Handing::Over(0);
        background.log.told(entries);
    }

    /// Must an invalidation be logged though there is no device, or though nothing of it was ever stored? The other process may have it.
    pub(crate) fn must_tell(&self, background: &Background) -> bool {
        matches!(background.handing, Handing::Over(_))
    }

    /// Keeps the allocator from places that another process still reads. Call it before anything is stored. Places outside the data
    /// area are left out.
    pub fn protect(&self, held: &[HeldChunks]) {
        if self.limits.mistakes.make(Mistake::NoProtection) {
            return;
        }
        let data = Extent {
            first: Chunk(0),
            len: Chunks(self.geometry.data_chunks),
        };
        let is_inside = |held: &&HeldChunks| {
            held.len > 0
                && held
                    .first
                    .checked_add(held.len)
                    .is_some_and(|end| end <= data.len.0)
        };
        // With an ordered policy the allocator is made anew at the end of a scan, and nothing is stored before.
        let is_careless = self.limits.mistakes.make(Mistake::ProtectionOfBefore);
        let is_made_later = self.limits.policy().is_some() && self.is_scanning() && !is_careless;
        let mut writer = self.writer();
        let writer = &mut *writer;
        for held in held.iter().filter(is_inside) {
            let place = Extent::new(Chunk(held.first), Chunks(held.len));
            if !is_made_later {
                writer.protected.take_free(place, &mut writer.space);
            }
            writer.protected.places.push(place);
        }
    }

    /// Ends the protection, because the other process has ended.
    pub fn unprotect(&self) {
        let mut writer = self.writer();
        let Protected { owed, .. } = std::mem::take(&mut writer.protected);
        // With a hand, the places are dead space until it comes by.
        if self.limits.policy().is_some() {
            owed.into_iter()
                .for_each(|extent| writer.space.free(extent));
        }
    }
}
