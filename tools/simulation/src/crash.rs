//! Ends and beginnings of a life: closing, killing, power cuts; opening, recovery, and records that must be found again.
//!
//! An opening works as in the proxy: read both copies of the superblock, plan, read log, journal and checkpoint, make the store, and
//! write its opening superblock, copy after copy, each flushed. It may be interrupted at each of these operations; the next attempt
//! then finds what that one left.
//!
//! After an opening a run either continues at once, with recovery under way (then only served records are checked), or only reads until
//! the recovery is complete. After that, every record that was certainly there must be found (R5). This phase may be interrupted
//! too.
//!
//! Limits: [`OPENINGS_MAX`] attempts, the later ones without interruptions; [`QUIET_STEPS_MAX`] steps of recovery.

use bytes::Bytes;
use store::{Identity, Superblock};

use crate::check;
use crate::disk::Op;
use crate::run::{Run, Tag};
use crate::simulated_store::{Found, OpenPlan, SimulatedStore};
use crate::world::VersionNumber;

const OPENINGS_MAX: u32 = 12;
/// From this attempt on, there are no interruptions and no faults.
const UNDISTURBED_FROM: u32 = 6;
const QUIET_STEPS_MAX: u64 = 20_000;
/// From this step on, the disk makes no faults.
const CALM_FROM: u64 = 300;
/// Attempts to read the superblock.
const SUPERBLOCK_READS: u32 = 3;

/// How a life ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum End {
    Closed,
    Killed,
    PowerCut,
    /// Another process has taken the store over.
    HandedOver,
}

/// An opening was interrupted, or one of its operations failed.
struct CutShort;

type Opening<T> = Result<Result<T, CutShort>, String>;

impl Run {
    /// Ends the life in one of several ways, and begins the next.
    pub fn end_and_reopen(&mut self) -> Result<(), String> {
        let end = match self.random.below(10) {
            0..2 => self.close()?,
            2..5 => End::Killed,
            _ => End::PowerCut,
        };
        self.end_life(end)?;
        self.reopen()
    }

    /// Closes the store. In half of the cases the run does not wait until it is closed.
    fn close(&mut self) -> Result<End, String> {
        self.tell("closing", 0, 0);
        self.fills.clear();
        self.release_all()?;
        let write = self.store()?.flush();
        self.submit_writes(write)?;
        let patience = if self.random.one_in(2) {
            self.random.below(60)
        } else {
            u64::MAX
        };
        self.disk.set_calm(patience == u64::MAX);
        // Clusters must be written first.
        let mut begun = false;
        for n in 0..QUIET_STEPS_MAX {
            self.pump()?;
            let clusters_left = self
                .disk
                .any_pending(|tag| !matches!(tag, Tag::Work { .. }));
            if !begun && !clusters_left {
                // A read that ended meanwhile may have given its record a second chance, which has to be written.
                let writes = self.store()?.flush();
                if !writes.is_empty() {
                    self.submit_writes(writes)?;
                    continue;
                }
                self.store()?.begin_close();
                begun = true;
                continue;
            }
            if begun && self.store()?.is_closed() {
                self.disk.set_calm(false);
                self.tell("closed", n, 0);
                return Ok(End::Closed);
            }
            if n >= patience {
                self.disk.set_calm(false);
                return Ok(if self.random.one_in(2) {
                    End::Killed
                } else {
                    End::PowerCut
                });
            }
            let next_ms = self.disk.next_due_ms().unwrap_or(0);
            self.now_ms = next_ms.max(self.now_ms + 1);
        }
        Err(format!(
            "the store does not close: closing begun {begun}, recovery {:?}, {} operations under way, {} \
             invalidations pending",
            self.store()?.recovery(),
            self.disk.pending(),
            self.handles.len()
        ))
    }

    /// Ends the life; the next one is another process's. Returns this process's store, which goes on reading.
    pub fn hand_life_over(&mut self) -> Result<SimulatedStore, String> {
        self.end_life(End::HandedOver)?;
        self.leaving
            .take()
            .ok_or_else(|| "there was no store to hand over".to_owned())
    }

    /// Kills both processes or cuts the power while the new one marks the store.
    pub fn cut_everything(&mut self) {
        let end = match self.upgrade_random.one_in(2) {
            true => End::Killed,
            false => End::PowerCut,
        };
        self.crash(end);
    }

    fn end_life(&mut self, end: End) -> Result<(), String> {
        let deeds = self.store()?.deeds();
        self.report.count_deeds(deeds);
        let store = self.store()?;
        let mut candidates = Vec::new();
        // A newer marker may lie in a part that is not scanned yet. The variants that are reachable now then no longer are.
        let are_variants_sure = store.recovery().is_none();
        for (number, full) in (0..).zip(&self.world.full_keys) {
            let is_candidate = full.plain || (full.salt.is_some() && are_variants_sure);
            if !is_candidate || !self.is_in_reach(number)? {
                continue;
            }
            let newest = full.versions.last();
            let place = store.place_of(store.hash(&full.key));
            // Leave out a version that was written again and is still in an open cluster: its old place may have been reused.
            candidates.extend(newest.filter(|&&newest| {
                let latest = self.world.versions[newest as usize].copies.last();
                place.is_some() && latest.map(|copy| copy.range.start) == place
            }));
        }
        // Records that the last recovery had not found yet must be found by the next one.
        candidates.extend(self.expected.take().into_iter().flatten());
        candidates.sort_unstable();
        candidates.dedup();
        self.leaving = self.store.take().filter(|_| end == End::HandedOver);
        self.crash(end);
        let world = &self.world;
        let damages = self.disk.damages();
        candidates.retain(|&number| check::must_survive(world, damages, number));
        self.tell("must be found again", candidates.len() as u64, 0);
        if let Some(watch) = self.options.watch {
            let sure = candidates
                .iter()
                .any(|&number| self.world.versions[number as usize].full_key == watch);
            self.about(watch, || format!("{end:?}; must be found again: {sure}"));
        }
        self.expected = Some(candidates);
        Ok(())
    }

    /// Applies the end to the disk and to everything under way.
    fn crash(&mut self, end: End) {
        self.say(format!("{end:?} at {} ms", self.now_ms));
        match end {
            End::Closed => self.report.closes += 1,
            End::Killed => self.report.kills += 1,
            End::PowerCut => self.report.power_cuts += 1,
            End::HandedOver => {}
        }
        if end == End::PowerCut {
            self.disk.cut_power();
        } else {
            self.disk.kill();
        }
        self.world.end_life(end == End::PowerCut);
        self.fills.clear();
        self.needed.clear();
        self.handles.clear();
        self.old = None;
        self.quiet_steps = None;
    }

    /// Opens the store, in several attempts if needed.
    pub fn reopen(&mut self) -> Result<(), String> {
        for attempt in 0..OPENINGS_MAX {
            let disturbed = attempt < UNDISTURBED_FROM && self.random.one_in(3);
            self.disk.set_calm(attempt >= UNDISTURBED_FROM);
            match self.open(disturbed)? {
                Ok(()) => {
                    self.disk.set_calm(false);
                    return Ok(());
                }
                Err(CutShort) => self.report.openings_cut_short += 1,
            }
        }
        Err("the store does not open".into())
    }

    fn open(&mut self, disturbed: bool) -> Opening<()> {
        let Ok(start) = self.read_superblock(disturbed)? else {
            return Ok(Err(CutShort));
        };
        let identity = Identity::new(self.random.bytes());
        let store = match OpenPlan::of(&start, &self.geometry) {
            OpenPlan::Refused { .. } if !self.opened_once => {
                // The very first superblock was torn, and looks like that of another program.
                self.disk.wipe();
                return Ok(Err(CutShort));
            }
            OpenPlan::Refused { message } => return Err(format!("refused: {message}")),
            OpenPlan::Fresh { reason, previous } => {
                if self.opened_once {
                    return Err(format!("the store starts empty: {reason}"));
                }
                self.say(format!("fresh: {reason}"));
                self.expected = None;
                let geometry = self.geometry.clone();
                SimulatedStore::create(geometry, &self.choice, identity, previous.as_ref())
            }
            OpenPlan::Recover {
                superblock,
                checkpoint,
            } => {
                let place = checkpoint.map(|place| (place.offset, place.bytes));
                let Ok(found) = self.read_metadata(place, disturbed)? else {
                    return Ok(Err(CutShort));
                };
                let (store, recovery) =
                    SimulatedStore::recover(superblock, &found, &self.choice, identity);
                self.report.recoveries += 1;
                self.say(format!("found: {}", recovery.words));
                if recovery.empty && found.log.is_some() && self.opened_once && !self.starting_empty
                {
                    return Err(recovery.words);
                }
                self.starting_empty |= recovery.empty;
                store
            }
        };
        for (offset, data) in store.opening() {
            for op in [Op::Write { offset, data }, Op::Flush] {
                match self.carry_out(op, disturbed)? {
                    // The proxy gives up too if it cannot write the superblock.
                    Ok(Err(())) | Err(CutShort) => return Ok(Err(CutShort)),
                    Ok(Ok(_)) => (),
                }
            }
        }
        self.begin_life(store);
        Ok(Ok(()))
    }

    pub fn begin_life(&mut self, store: SimulatedStore) {
        let horizon = store.recovery().map_or(0, |progress| progress.horizon);
        let versions = &self.world.versions;
        if let Some(expected) = &mut self.expected {
            expected.retain(|&number| versions[number as usize].sequence >= horizon);
        }
        self.world.life += 1;
        self.opened_once = true;
        self.starting_empty = false;
        self.recovering = true;
        let world = &mut self.world;
        let damages = self.disk.damages();
        for &number in self.expected.iter().flatten() {
            if check::must_survive(world, damages, number) {
                world.versions[number as usize].present_in = world.life;
            }
        }
        self.store = Some(store);
        let total = self.store.as_ref().and_then(SimulatedStore::recovery);
        self.tell(
            "open, bytes to scan",
            u64::from(self.world.life),
            total.map_or(0, |progress| progress.total_bytes),
        );
        if self.random.one_in(2) {
            self.quiet_steps = Some(0);
        } else {
            // Records stored meanwhile may evict any of the expected ones.
            self.expected = None;
        }
    }

    fn read_superblock(&mut self, disturbed: bool) -> Opening<Bytes> {
        for _ in 0..SUPERBLOCK_READS {
            match self.read(0, Superblock::BYTES as u64, disturbed)? {
                Ok(Some(bytes)) => return Ok(Ok(bytes)),
                Ok(None) => (),
                Err(CutShort) => return Ok(Err(CutShort)),
            }
        }
        Ok(Err(CutShort))
    }

    fn read_metadata(&mut self, checkpoint: Option<(u64, u64)>, disturbed: bool) -> Opening<Found> {
        let g = &self.geometry;
        let log = (g.invalidation_log_at, g.invalidation_log_bytes);
        let journal = (g.region_journal_at, g.region_journal_bytes);
        let mut found = Found::default();
        for (place, into) in [
            (Some(log), &mut found.log),
            (Some(journal), &mut found.journal),
            (checkpoint, &mut found.checkpoint),
        ] {
            let Some((offset, len)) = place else { continue };
            match self.read(offset, len, disturbed)? {
                Ok(bytes) => *into = bytes,
                Err(CutShort) => return Ok(Err(CutShort)),
            }
        }
        if found.log.is_none() || found.journal.is_none() || self.disk.is_log_wounded() {
            // R5 does not apply then; R2 still does.
            self.say("log or journal can't be read, or the log bears a fault".into());
            self.expected = None;
        }
        Ok(Ok(found))
    }

    /// Reads from the disk; none if the device failed.
    fn read(&mut self, offset: u64, len: u64, disturbed: bool) -> Opening<Option<Bytes>> {
        let len = len as usize;
        let done = self.carry_out(Op::Read { offset, len }, disturbed)?;
        Ok(done.map(|result| result.ok().flatten()))
    }

    /// Carries out one operation of an opening.
    fn carry_out(&mut self, op: Op, disturbed: bool) -> Opening<Result<Option<Bytes>, ()>> {
        let flush = matches!(op, Op::Flush);
        self.disk.submit(Tag::Opening, op, self.now_ms)?;
        if disturbed && self.random.one_in(8) {
            let end = if self.random.one_in(2) {
                End::Killed
            } else {
                End::PowerCut
            };
            self.crash(end);
            return Ok(Err(CutShort));
        }
        let due_ms = self.disk.next_due_ms().unwrap_or(self.now_ms);
        self.now_ms = self.now_ms.max(due_ms);
        let Some(done) = self.disk.complete(self.now_ms) else {
            return Err("the disk loses an operation".into());
        };
        if flush {
            self.world.flush_over(done.number, done.result.is_ok());
        }
        Ok(Ok(done.result))
    }

    /// A step of a recovery that nothing else disturbs: only reads, and sometimes an end of the life.
    pub fn quiet_step(&mut self) -> Result<(), String> {
        let steps = self.quiet_steps.map_or(0, |steps| steps + 1);
        self.quiet_steps = Some(steps);
        self.disk.set_calm(steps > CALM_FROM);
        if self.store()?.recovery().is_none() {
            return self.end_quiet();
        }
        if steps > QUIET_STEPS_MAX {
            return Err(format!(
                "no end of recovery: {:?}",
                self.store()?.recovery()
            ));
        }
        match self.random.below(100) {
            0..40 => {
                let key = self.any_key();
                let full_key = self.plain(key);
                self.look_up(full_key)
            }
            40 => self.end_and_reopen(),
            41..50 => {
                self.now_ms += 100;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn end_quiet(&mut self) -> Result<(), String> {
        self.disk.set_calm(true);
        self.drain()?;
        self.store()?.audit()?;
        let expected = self.expected.take().unwrap_or_default();
        self.find_all(&expected)?;
        self.disk.set_calm(false);
        self.quiet_steps = None;
        Ok(())
    }

    /// Checks that all records that were certainly there are found (R5).
    fn find_all(&mut self, expected: &[VersionNumber]) -> Result<(), String> {
        let (mut asked, mut missing) = (0, Vec::new());
        for &number in expected {
            // A fault during the recovery may have spoiled it.
            if !check::must_survive(&self.world, self.disk.damages(), number) {
                continue;
            }
            asked += 1;
            let full_key = self.world.versions[number as usize].full_key;
            let hash = self.hash_of(full_key)?;
            let is_in_reach = self.is_in_reach(full_key)?;
            let found = self.store()?.contains(hash) && is_in_reach;
            if self.random.one_in(4) && is_in_reach {
                // Also checks the record that is served. A head whose fragments are gone is present, but not served.
                self.ask_by_marker(full_key)?;
                self.look_up_now(full_key)?;
            }
            if !found {
                missing.push(number);
            }
        }
        // Room is made ahead of time, so some records are evicted in any life. The store does not tell which.
        let [evicted, ..] = self.store()?.deeds();
        let lost = (missing.len() as u64).saturating_sub(evicted);
        self.report.expected += asked;
        self.report.found += asked - lost;
        if lost > 0 {
            self.report_missing(asked, &missing);
        }
        Ok(())
    }

    fn report_missing(&mut self, asked: u64, missing: &[VersionNumber]) {
        let places: Vec<_> = missing
            .iter()
            .take(4)
            .map(|&number| {
                let version = &self.world.versions[number as usize];
                (number, version.full_key, &version.list, &version.copies)
            })
            .collect();
        let text = format!(
            "{} of {asked} are missing after recovery: {places:?}",
            missing.len()
        );
        self.say(text);
        self.first_missing.get_or_insert_with(|| self.story.clone());
    }

    /// Notices the end of a recovery that the run does not wait for.
    pub fn watch_recovery(&mut self) -> Result<(), String> {
        if self.recovering && self.store()?.recovery().is_none() {
            self.recovering = false;
            self.tell("recovery is complete", 0, 0);
            self.store()?.audit()?;
            self.disk.heal();
        }
        Ok(())
    }

    /// Lets everything finish, reads everything once more, and applies R5 to the sum of the run.
    pub fn end_of_run(&mut self) -> Result<(), String> {
        self.disk.set_calm(true);
        self.drain()?;
        self.store()?.audit()?;
        for full_key in 0..self.world.full_keys.len() as u32 {
            if self.world.full_keys[full_key as usize].plain {
                self.look_up_now(full_key)?;
            }
        }
        let deeds = self.store()?.deeds();
        self.report.count_deeds(deeds);
        let (expected, missing) = (
            self.report.expected,
            self.report.expected - self.report.found,
        );
        if check::too_many_missing(missing, expected) {
            // The report is about the first recovery that missed records, not about the end of the run.
            self.story = self.first_missing.take().unwrap_or_default();
            return self.waive(format!(
                "R5: of {expected} records that had to survive {missing} did not; the story of the first follows"
            ));
        }
        Ok(())
    }
}
