//! Background work: commits of the log, notes in the journal, checkpoints, the scan after a crash, weeding.
//!
//! The shell asks [`Store::next_work`] until there is none, carries each [`Work`] out on any of its threads, in any
//! order, and reports [`Store::work_done`]. Everything that must be durable before something else is a step here, so
//! this file and the ones it calls keep the order, not the shell.
//!
//! | job | steps | at most |
//! |---|---|---|
//! | log commit | both copies of a page (and a full one to the ring), flush | one |
//! | note | both copies of a page, flush; the first after a start: page, flush, second copy, flush | one |
//! | checkpoint (`snapshot`) | blocks, header, flush, superblock, flush, second copy, flush | one, two blocks under way |
//! | scan (`scan`) | reads, yields to look them through | eight reads under way |
//! | weeding (`weed`) | reads, yields to look them through | one read under way |
//!
//! A job that fails is tried again, after a pause that doubles each time (`jobs`).
//!
//! Not known here: what the jobs mean, see `log`, `journal`, `checkpoint`, `scan`.

use crate::evict::room::Room;
use crate::handover::Handing;
use crate::jobs::{Background, Owner, Retry, Work, WorkId, WorkOp};
use crate::lock::lock;
use crate::log::entry::Entry;
use crate::log::predicates::Predicates;
use crate::log::weeding::WeedStep;
use crate::mistakes::Mistake;
use crate::recover::checkpoint::About;
use crate::recover::scan_reads::{Progress, ScanStep};
use crate::script::{Script, Step};
use crate::sequence::Sequence;
use crate::store::Store;
use bytes::Bytes;
use std::ops::Range;
use std::sync::atomic::Ordering;

impl Store {
    /// The next piece of work in the background. Call it until it returns `None`: after an insert that caused writes, after an
    /// invalidation, after each [`Self::work_done`], and every tenth of a second. `now_ms` as for [`Self::insert`].
    pub fn next_work(&self, now_ms: u64) -> Option<Work> {
        let mut guard = self.background();
        let background = &mut *guard;
        if background.volatile || background.closed {
            return None;
        }
        if background.handing.is_thawing() {
            return match background.snapshot {
                // This checkpoint may still say that the store is clean, so it is finished first.
                Some(_) => self.next_snapshot_step(background, now_ms),
                None => self.next_thaw_step(background, now_ms),
            };
        }
        if let Some(work) = self.next_commit_step(background, now_ms) {
            return Some(work);
        }
        if let Some(work) = self.next_note_step(background, now_ms) {
            return Some(work);
        }
        let scan_step = if background.closing {
            None
        } else {
            self.next_scan_step()
        };
        match scan_step {
            Some(ScanStep::Read {
                number,
                offset,
                len,
            }) => {
                return background.work(Owner::Scan(number), WorkOp::Read { offset, len });
            }
            Some(ScanStep::Look) => return background.work(Owner::Look, WorkOp::Yield),
            None => {}
        }
        if let Some(work) = self.next_snapshot_step(background, now_ms) {
            return Some(work);
        }
        match self.next_weed_step(background, now_ms)? {
            WeedStep::Read { offset, len } => {
                background.work(Owner::Weed, WorkOp::Read { offset, len })
            }
            WeedStep::Look => background.work(Owner::Weed, WorkOp::Yield),
        }
    }

    /// Is the store closing, or without a device?
    pub(crate) fn is_idle(background: &Background) -> bool {
        background.closing || background.closed || background.volatile
    }

    /// Would the next commit overwrite log entries that a start needs beside the last checkpoint, and is a new
    /// checkpoint being made? Then the commit waits, and purges with it. Otherwise the checkpoint would be useless.
    fn commit_waits(&self, background: &Background) -> bool {
        let is_being_made = background.snapshot.is_some()
            || (!self.is_scanning() && !background.retry_snapshot.has_failed());
        let covers = background.covers.filter(|_| is_being_made);
        !background.closing && covers.is_some_and(|covers| background.log.would_forget(covers))
    }

    fn next_commit_step(&self, background: &mut Background, now_ms: u64) -> Option<Work> {
        if background.commit.is_none()
            && background.retry_log.is_due(now_ms)
            && !self.commit_waits(background)
            && !background.handing.keeps_entries(&background.log)
        {
            let at = self.geometry.invalidation_log_at;
            let mut commit = background.log.begin_commit()?;
            if self.limits.mistakes.make(Mistake::SingleLogCopy) {
                commit.writes.truncate(1);
            }
            let writes = commit
                .writes
                .into_iter()
                .map(|(offset, data)| (at + offset, data));
            self.counters.log_commits.add(1);
            background.commit = Some((Script::write_and_flush(writes), commit.reaches));
        }
        let step = background.commit.as_mut()?.0.next()?;
        background.step(Owner::Log, step)
    }

    fn next_note_step(&self, background: &mut Background, now_ms: u64) -> Option<Work> {
        if !background.closing {
            let mut writer = self.writer();
            let is_full = !writer.has_some_room();
            if let Room::Hand(hand) = &mut writer.room {
                let is_kept = self.is_kept(hand);
                // While a note is late, sweep the regions that the next note will cover.
                let is_idle = background.journal.is_idle();
                if (is_idle && is_kept) || hand.needs_sweep() {
                    // Sweeps usually go on with writes. Without any, an empty or a full store would wait forever.
                    hand.sweep_or_begin(is_kept);
                    self.sweep_steps(hand, IDLE_SWEEP_SEGMENTS, is_full);
                    let waits_for_moves = hand.has_seen(self.shards.len() * self.limits.segments);
                    if hand.waits_for_sweep() && !waits_for_moves && !background.sweeping {
                        // Sweep at once, but in parts, since other threads need the locks.
                        background.sweeping = true;
                        return background.work(Owner::Sweep, WorkOp::Yield);
                    }
                }
                let grid = hand.grid;
                let quiet = |region| self.region_is_quiet(grid.extent(region..region + 1));
                let may_note = is_idle && background.retry_note.is_due(now_ms);
                let noted = may_note.then(|| hand.begin_note(quiet)).flatten();
                if let Some(regions) = noted {
                    if self.limits.mistakes.make(Mistake::EarlyReuse) {
                        hand.end_note(true);
                    } else {
                        self.begin_note(background, regions);
                    }
                }
            }
        }
        let at = self.geometry.region_journal_at;
        let step = match background.journal.next_step()? {
            Step::Write(offset, data) => Step::Write(at + offset, data),
            Step::Flush => Step::Flush,
        };
        background.step(Owner::Note, step)
    }

    fn begin_note(&self, background: &mut Background, mut regions: Range<u32>) {
        if self.limits.mistakes.make(Mistake::NoteOfFirst) {
            regions.end = regions.start + 1;
        }
        self.counters.notes.add(1);
        self.counters.noted_regions.add(regions.len() as u64);
        background.journal.begin_note(regions, self.next_sequence());
    }

    fn next_snapshot_step(&self, background: &mut Background, now_ms: u64) -> Option<Work> {
        let is_freezing = background.handing == Handing::Freezing;
        let quiet = match is_freezing {
            true => self.may_end_freezing(background),
            false => background.log.durable() == background.log.end(),
        };
        let Background {
            snapshot,
            retry_snapshot,
            ..
        } = background;
        if snapshot.is_none() {
            if background.closing && !quiet {
                return None;
            }
            let has_room = !lock(&self.predicates).exceed_checkpoint();
            if is_freezing && !has_room {
                return None;
            }
            if background.closing && (self.is_scanning() || !has_room) {
                // The next start goes on from the last checkpoint, as after a crash.
                background.closed = true;
                return None;
            }
            if !retry_snapshot.is_due(now_ms) {
                return None;
            }
            let is_due = has_room && !self.is_scanning() && self.snapshot_is_due(background);
            if !background.closing && !is_due {
                return None;
            }
            background.snapshot = Some(self.begin_snapshot(background));
        }
        let snapshot = background.snapshot.as_mut()?;
        let step = snapshot.next_step(self)?;
        background.step(Owner::Snapshot, step)
    }

    /// A piece of work was carried out: `Ok` with the bytes if it was a read, `Err` if the device failed.
    pub fn work_done(&self, id: WorkId, result: Result<Option<Bytes>, ()>, now_ms: u64) {
        let mut guard = self.background();
        let background = &mut *guard;
        let Some(owner) = background.reported(id) else {
            return;
        };
        let ok = result.is_ok();
        match owner {
            Owner::Thaw => self.thaw_step_done(background, ok, now_ms),
            Owner::Log => {
                let Some((script, reaches)) = &mut background.commit else {
                    return;
                };
                let Some(ok) = script.done(ok) else { return };
                if !ok {
                    background.failed_until = background.failed_until.max(*reaches);
                    self.counters.log_failures.add(1);
                }
                background.commit = None;
                background.log.end_commit(ok);
                background.retry_log.ended(ok, now_ms);
            }
            Owner::Note => {
                let Some(noted) = background.journal.step_done(ok) else {
                    return;
                };
                background.retry_note.ended(noted.durable, now_ms);
                let mut writer = self.writer();
                if let Room::Hand(hand) = &mut writer.room {
                    hand.end_note(noted.durable);
                    if !hand.has_unnoted() {
                        lock(&self.left).swept_is_noted();
                    }
                }
                drop(writer);
                if noted.durable {
                    self.note_openings(&background.journal);
                }
                self.prune_predicates(background);
            }
            Owner::Scan(number) => {
                let bytes = result.ok().flatten();
                drop(guard);
                self.scan_read_done(number, bytes);
            }
            Owner::Weed => {
                drop(guard);
                self.weed_on(result.ok().flatten(), now_ms);
            }
            // The sweep goes on when the next work is asked for.
            Owner::Sweep => background.sweeping = false,
            Owner::Look => {
                // Under the scan's own lock.
                drop(guard);
                self.look_on();
            }
            Owner::Snapshot => {
                let Some(snapshot) = &mut background.snapshot else {
                    return;
                };
                let Some(ok) = snapshot.step_done(ok) else {
                    return;
                };
                self.end_snapshot(background, ok, now_ms);
            }
        }
    }

    fn end_snapshot(&self, background: &mut Background, ok: bool, now_ms: u64) {
        let Some(snapshot) = background.snapshot.take() else {
            return;
        };
        background.retry_snapshot.ended(ok, now_ms);
        lock(&self.predicates).checkpoint_ends(ok);
        let was_last = snapshot.is_clean();
        if ok {
            self.counters.checkpoints.add(1);
            self.counters.checkpoint_bytes.add(snapshot.bytes());
            background.covers = Some(snapshot.covers());
            background.superblock = snapshot.into_superblock();
        } else {
            self.counters.checkpoint_failures.add(1);
            if let Some(copy) = snapshot.copy_begun() {
                background.suspect_copy = copy;
            }
            // Either generation may be on the disk now, so the next superblock must be newer than both.
            background.superblock.generation = snapshot.into_superblock().generation;
        }
        // A checkpoint that was begun before the closing is not yet the clean stop. A failed one is tried again.
        if background.closing && was_last && ok {
            background.closed = true;
        }
    }

    /// Drops predicates that are older than everything in the store. A record takes its extent, in an open region,
    /// before it is compared with the predicates, so every record of a region opened after a predicate was compared
    /// with it. Fills that began before are refused from now on, and records that began before and still wait in a
    /// locality buffer are dropped.
    fn prune_predicates(&self, background: &Background) {
        if self.is_scanning() {
            return;
        }
        let regions = 0..self.geometry.regions();
        let oldest = regions
            .map(|region| background.journal.opened_at(region))
            .min()
            .unwrap_or(0);
        lock(&self.left).all_opened_since(oldest);
        for number in 0..self.shards.len() {
            self.shard(number).soft.prune(oldest);
        }
        let has_older = |predicates: &Predicates| {
            let first = predicates.oldest();
            first.is_some_and(|sequence| sequence <= oldest)
        };
        if has_older(&lock(&self.predicates)) {
            self.drop_predicates(oldest);
        }
    }

    /// Drops the predicates up to `upto`, with which every record that has a place was compared.
    pub(crate) fn drop_predicates(&self, upto: Sequence) {
        self.fills_from.fetch_max(upto, Ordering::SeqCst);
        // Readers whose record has left the index are no longer covered once the predicates are dropped, so kill those records first, and
        // older waiting records. `fills_from` is raised before that, so that no older record begins to wait afterwards, see `admits`.
        for number in 0..self.shards.len() {
            let mut shard = self.shard(number);
            let killed = shard.kill_outlived(upto);
            killed.iter().for_each(|&hash| self.has_left(hash));
            self.counters.invalidated.add(killed.len() as u64);
        }
        lock(&self.predicates).prune(upto);
    }

    /// Without a device there are only fills under way: if those that began before are refused, no predicate is needed. Nothing is
    /// read, so a soft purge need not be remembered either.
    pub(crate) fn prune_without_records(&self, entry: &Entry) {
        if let Entry::Doubt { primary } = *entry {
            self.shard(self.shard_of(primary)).soft.forget(primary);
        }
        let mut predicates = lock(&self.predicates);
        if predicates.wants_weeding() {
            let newest = predicates.newest();
            self.fills_from.fetch_max(newest, Ordering::SeqCst);
            predicates.clear();
        }
    }

    /// Closes the store: nothing is stored from here on. All requests must have ended, and all clusters must have
    /// been [flushed](Self::flush) and reported written. Then carry out [`Self::next_work`] until [`Self::is_closed`]
    /// says so; if a device fails permanently, give up after a while; the next start is then one after a crash.
    pub fn begin_close(&self) {
        let mut background = self.background();
        let _writer = self.writer();
        // Inserts that wait for the writer's lock see this when they get it.
        self.closed.store(true, Ordering::SeqCst);
        background.closing = true;
        // Try at once, even if the checkpoint before has failed.
        background.retry_snapshot = Retry::default();
        if background.volatile {
            background.closed = true;
        }
    }

    /// Is the store closed?
    pub fn is_closed(&self) -> bool {
        self.background().closed
    }

    /// The progress of the scan after an unclean stop; `None` if none is left.
    pub fn recovery(&self) -> Option<Progress> {
        lock(&self.scan_reads).as_ref().map(|reads| reads.progress)
    }

    /// The parameters of a checkpoint now.
    pub(crate) fn about(&self, background: &Background) -> About {
        About {
            generation: background.superblock.generation + 1,
            epoch: self.epoch,
            covers: self.sequence(),
        }
    }
}

/// Segments that a sweep goes through at each call, when nothing is written.
const IDLE_SWEEP_SEGMENTS: usize = 64;
