//! Upgrades: another process takes the store over while this one serves, or begins to do so.
//!
//! The old process freezes its store and goes on serving; the disk may fail meanwhile, and both processes may end. Then the new process
//! reads the disk. Sometimes it ends, and the old one thaws its store. Otherwise it is told what the old one still reads, marks the
//! store as in use, and becomes the store of the run. The old process remains for a while: it invalidates, looks up keys (and must
//! find none), and reads the records that it needs, which must be unchanged.
//!
//! Every other seed has upgrades. Their random numbers are separate, so that runs without upgrades stay the same.
//!
//! Not known here: sockets, and how processes communicate.

use std::ops::Range;

use bytes::Bytes;
use store::{Heard, HeldChunks, Identity, Lookup, Superblock, Told};

use crate::disk::Op;
use crate::run::{Run, Tag};
use crate::simulated_store::{DurabilityHandle, Found, OpenPlan, Settled, SimulatedStore};
use crate::world::{Target, damaged};

/// Steps in which the disk must take the last checkpoint; otherwise the store is thawed.
const FREEZE_STEPS_MAX: u64 = 4000;

/// The previous process, whose requests have not ended.
pub(crate) struct Old {
    store: SimulatedStore,
    /// Its invalidations that are not acknowledged yet.
    handles: Vec<(DurabilityHandle, u32)>,
    /// Invalidations that it told the new process, which must make them durable.
    telling: Vec<DurabilityHandle>,
    /// Ranges that it still reads, with their bytes.
    reads: Vec<(Range<u64>, Bytes)>,
}

impl Run {
    /// Whether this run has upgrades, and it is time for a step of one.
    pub fn upgrades_now(&mut self) -> bool {
        let has_upgrades = !self.options.seed.is_multiple_of(2);
        has_upgrades
            && match self.old {
                None => self.upgrade_random.one_in(150),
                Some(_) => self.upgrade_random.one_in(4),
            }
    }

    /// A step of an upgrade.
    pub fn upgrade(&mut self) -> Result<(), String> {
        match self.old {
            None => self.begin_upgrade(),
            Some(_) => self.old_goes_on(),
        }
    }

    fn begin_upgrade(&mut self) -> Result<(), String> {
        let Ok(writes) = self.store()?.freeze() else {
            return Ok(());
        };
        self.tell("freezing", 0, 0);
        self.submit_writes(writes)?;
        let (life, patience) = match self.upgrade_random.below(6) {
            0 => (self.world.life, self.upgrade_random.below(100)),
            _ => (self.world.life, FREEZE_STEPS_MAX),
        };
        for _ in 0..patience {
            self.now_ms += self.upgrade_random.below(3);
            self.pump()?;
            if self.store()?.is_frozen() && self.disk.pending() == 0 {
                return self.frozen();
            }
            if self.upgrade_random.one_in(400) {
                return self.end_and_reopen();
            }
            if self.upgrade_random.one_in(3) {
                self.operate_frozen()?;
            }
            if self.world.life != life {
                return Ok(());
            }
        }
        self.tell("thawed before it was frozen", 0, 0);
        self.store()?.thaw();
        self.report.thawed += 1;
        Ok(())
    }

    /// A random operation while the store is frozen.
    fn operate_frozen(&mut self) -> Result<(), String> {
        let key = self.upgrade_random.below(self.habits.keys) as u32;
        match self.upgrade_random.below(8) {
            0 => self.invalidate(key),
            1 => self.doubt(),
            _ => {
                let full_key = self.plain(key);
                self.look_up(full_key)
            }
        }
    }

    /// The store is frozen: the new process reads the disk.
    fn frozen(&mut self) -> Result<(), String> {
        self.store()?.audit()?;
        let Some(new) = self.as_it_lies_there()? else {
            self.store()?.thaw();
            self.report.thawed += 1;
            return Ok(());
        };
        if self.upgrade_random.one_in(3) {
            self.tell("the new process ends", 0, 0);
            self.store()?.thaw();
            self.report.thawed += 1;
            // Sometimes the old process ends soon afterwards, too.
            if self.upgrade_random.one_in(3) {
                for _ in 0..self.upgrade_random.below(60) {
                    self.now_ms += self.upgrade_random.below(3);
                    self.pump()?;
                    self.operate()?;
                }
                return self.end_and_reopen();
            }
            return Ok(());
        }
        let store = self.store()?;
        let mut reads = Vec::new();
        for full_key in self.needed_keys() {
            let hash = self.hash_of(full_key)?;
            if let Lookup::OnDisk(read) = store.look_up_needed(hash) {
                let range = read.offset..read.offset + read.len as u64;
                reads.push((range.clone(), Bytes::copy_from_slice(self.disk.peek(range))));
                let _ = store.read_done(read);
            }
        }
        let held = store.hand_over();
        self.tell("handed over", held.len() as u64, reads.len() as u64);
        self.report.handed_over += 1;
        let handles = std::mem::take(&mut self.handles);
        let old = self.hand_life_over()?;
        self.begin_handed_over(new, &held)?;
        if self.store.is_none() {
            // The new process ended while it marked the store, and the old one has ended its requests. Start from the disk.
            return self.reopen();
        }
        self.old = Some(Old {
            store: old,
            handles,
            telling: Vec::new(),
            reads,
        });
        self.tell_new()
    }

    /// The store as another process finds it on the disk; none if a fault has spoiled it.
    fn as_it_lies_there(&mut self) -> Result<Option<SimulatedStore>, String> {
        let read = |run: &Run, offset: u64, len: u64| run.disk.peek(offset..offset + len).to_vec();
        let start = read(self, 0, Superblock::BYTES as u64);
        let plan = OpenPlan::of(&start, &self.geometry);
        let OpenPlan::Recover {
            superblock,
            checkpoint,
        } = plan
        else {
            return Ok(None);
        };
        let g = self.geometry.clone();
        let found = Found {
            log: Some(read(self, g.invalidation_log_at, g.invalidation_log_bytes).into()),
            journal: Some(read(self, g.region_journal_at, g.region_journal_bytes).into()),
            checkpoint: checkpoint.map(|at| read(self, at.offset, at.bytes).into()),
        };
        let identity = Identity::new(self.upgrade_random.bytes());
        let (store, recovery) = SimulatedStore::recover(superblock, &found, &self.choice, identity);
        Ok((!recovery.empty).then_some(store))
    }

    fn begin_handed_over(
        &mut self,
        new: SimulatedStore,
        held: &[HeldChunks],
    ) -> Result<(), String> {
        new.protect(held);
        for (offset, data) in new.opening() {
            for op in [Op::Write { offset, data }, Op::Flush] {
                let is_flush = matches!(op, Op::Flush);
                self.disk.submit(Tag::Opening, op, self.now_ms)?;
                if self.upgrade_random.one_in(30) {
                    self.cut_everything();
                    return Ok(());
                }
                let due_ms = self.disk.next_due_ms().unwrap_or(self.now_ms);
                self.now_ms = self.now_ms.max(due_ms);
                let done = self.disk.complete(self.now_ms);
                let done = done.ok_or("the disk loses an operation")?;
                if is_flush {
                    self.world.flush_over(done.number, done.result.is_ok());
                }
                if done.result.is_err() {
                    // The proxy gives up too if it cannot write the superblock.
                    self.cut_everything();
                    return Ok(());
                }
            }
        }
        self.begin_life(new);
        // Otherwise the run would only read while the old process is there.
        if self.upgrade_random.one_in(2) {
            self.quiet_steps = None;
            self.expected = None;
        }
        Ok(())
    }

    /// A step of the old process while it ends its requests.
    fn old_goes_on(&mut self) -> Result<(), String> {
        match self.upgrade_random.below(40) {
            0 => self.old_ends(),
            1..6 => self.invalidate_in_old(),
            6..16 => {
                let key = self.upgrade_random.below(self.habits.keys) as u32;
                let name = self.name(key);
                let Some(old) = &self.old else { return Ok(()) };
                match old.store.look_up(old.store.hash(&name)) {
                    Lookup::Absent => Ok(()),
                    Lookup::Buffered(_) | Lookup::OnDisk(_) => Err(
                        "H: a store that was handed over serves what may have been purged since"
                            .to_owned(),
                    ),
                }
            }
            _ => self.read_in_old(),
        }
    }

    fn read_in_old(&mut self) -> Result<(), String> {
        let Some(old) = &self.old else { return Ok(()) };
        for (range, bytes) in &old.reads {
            let is_spoiled = damaged(range, 0, self.disk.damages());
            if self.disk.peek(range.clone()) != bytes && !is_spoiled {
                return Err(format!(
                    "H3: {range:?} was overwritten, which the process before still reads"
                ));
            }
        }
        Ok(())
    }

    /// Not while other invalidations are being told: the new process would apply this one only after them.
    fn invalidate_in_old(&mut self) -> Result<(), String> {
        let key = self.upgrade_random.below(self.habits.keys) as u32;
        let name = self.name(key);
        if self.old.as_ref().is_none_or(|old| !old.telling.is_empty()) {
            return Ok(());
        }
        let number = self.world.invalidate(Target::Primary(key));
        self.report.invalidations += 1;
        self.tell(
            "invalidation by the old process",
            u64::from(number),
            u64::from(key),
        );
        if let Some(old) = &mut self.old {
            let hash = old.store.hash(&name);
            old.handles
                .push((old.store.invalidate_stored(hash), number));
        }
        self.tell_new()
    }

    /// Applies the old process's invalidations in the new one.
    fn tell_new(&mut self) -> Result<(), String> {
        let Some(old) = &mut self.old else {
            return Ok(());
        };
        let store = self.store.as_ref().ok_or("there is no store")?;
        let told = old.store.next_told();
        let mut all = true;
        for told in told {
            let handle = match told {
                Told::Key(hash) => Some(store.invalidate(hash)),
                Told::Doubt(hash) => Some(store.doubt(hash)),
                Told::Matching { kind, pattern } => store.invalidate_matching(kind, &pattern),
            };
            all &= handle.is_some();
            old.telling.extend(handle);
        }
        if !all {
            old.telling.clear();
            old.store.told_done(Heard::NotDurable);
        }
        for (_, number) in &old.handles {
            self.world.invalidations[*number as usize].life = self.world.life;
        }
        Ok(())
    }

    /// Acknowledges invalidations of the old process that the new one has made durable.
    pub fn settle_old(&mut self) -> Result<(), String> {
        let (Some(old), Some(store)) = (&mut self.old, &self.store) else {
            return Ok(());
        };
        if !old.telling.is_empty() {
            let settled: Vec<_> = old.telling.iter().map(|&it| store.settled(it)).collect();
            if settled.contains(&Settled::Pending) {
                return Ok(());
            }
            old.telling.clear();
            let all = settled.iter().all(|settled| *settled == Settled::Durable);
            old.store.told_done(match all {
                true => Heard::Durable,
                false => Heard::NotDurable,
            });
        }
        let mut acknowledged = Vec::new();
        old.handles.retain(|(handle, number)| {
            let settled = old.store.settled(*handle);
            if settled == Settled::Durable {
                acknowledged.push(*number);
            }
            settled == Settled::Pending
        });
        for number in acknowledged {
            self.report.acknowledged += 1;
            self.world.invalidations[number as usize].acknowledged = true;
            self.tell(
                "invalidation of the old process acknowledged",
                u64::from(number),
                0,
            );
        }
        if self.old.as_ref().is_some_and(|old| old.telling.is_empty()) {
            self.tell_new()?;
        }
        Ok(())
    }

    fn old_ends(&mut self) -> Result<(), String> {
        self.read_in_old()?;
        self.old = None;
        self.store()?.unprotect();
        self.tell("the old process has ended", 0, 0);
        Ok(())
    }
}
