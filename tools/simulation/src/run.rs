//! One run: the step, the pump that moves operations between store and disk, the end.
//!
//! A step lets a little time pass, completes what is due, and then does one random operation. Nothing blocks: completions of the disk are
//! delivered in the step in which they are due, and the work that needed them continues from there.
//!
//! Limits: [`PUMP_MAX`] operations a step, and [`DRAIN_MS_MAX`] of virtual time until nothing is under way. Beyond that the store counts
//! as hanging, which is a failure like any other.

use std::cell::RefCell;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};

use bytes::Bytes;
use store::{Geometry, Marker, Mistake, Move, Reinsertion, Sequence, Write, WriteId};

use crate::areas::Areas;
use crate::check::Waived;
use crate::disk::{Disk, Done, Op};
use crate::faults::Faults;
use crate::hostile::{self, Samples};
use crate::needing::InUse;
use crate::random::Random;
use crate::reading::Reading;
use crate::report::{Event, Failure, Report, Story};
use crate::simulated_store::{
    Choice, DurabilityHandle, POLICIES, REINSERTION, Settled, SimulatedStore, WorkId, WorkOp,
};
use crate::upgrade::Old;
use crate::world::{FullKey, VersionNumber, World};

const PUMP_MAX: usize = 100_000;
const DRAIN_MS_MAX: u64 = 1_000_000;
/// Steps between two audits.
const AUDIT_EVERY: u64 = 100;
/// Sizes of regions; 0 means the default.
const REGION_BYTES: [u64; 3] = [0, 128 << 10, 64 << 10];
/// Time at which a run begins, in milliseconds since 1970.
const BEGIN_MS: u64 = 1_700_000_000_000;

/// Options of a run.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Determines all random choices.
    pub seed: u64,
    /// Number of steps.
    pub steps: u64,
    /// A deliberate mistake of the store.
    pub mistake: Option<Mistake>,
    /// Rules that are known to be broken.
    pub waived: Waived,
    /// Adds all events of the full key with this number to the end of the story.
    pub watch: Option<FullKey>,
}

/// The purpose of an operation of the disk.
#[derive(Debug)]
pub(crate) enum Tag {
    Cluster {
        id: WriteId,
        records: Vec<(VersionNumber, Range<u64>)>,
    },
    Work {
        id: WorkId,
        flush: bool,
    },
    Reading(Box<Reading>),
    Move(Move, FullKey),
    Reinsertion(Reinsertion),
    Opening,
}

/// A fetch under way.
#[derive(Debug)]
pub(crate) struct Fill {
    pub key: u32,
    /// The marker, for a variant.
    pub marker: Option<Marker>,
    /// When it began, in the store's sequence.
    pub sequence: Sequence,
    /// When it began, on the world's clock.
    pub began: u64,
}

/// Parameters of a run.
#[derive(Debug)]
pub(crate) struct Habits {
    pub keys: u64,
    pub hosts: u64,
    pub mean_body: u64,
    pub crash_once_in: u64,
    pub predicates: bool,
    pub hostile: bool,
    /// Some bodies are up to this long.
    pub large_body: u64,
}

/// See the module.
pub(crate) struct Run {
    pub options: Options,
    pub step: u64,
    pub random: Random,
    pub now_ms: u64,
    pub choice: Choice,
    pub habits: Habits,
    pub geometry: Geometry,
    pub disk: Disk<Tag>,
    pub store: Option<SimulatedStore>,
    /// The previous process, until its requests have ended.
    pub old: Option<Old>,
    /// The store of a life that has just ended, if another process takes over and this one goes on reading.
    pub leaving: Option<SimulatedStore>,
    /// Random choices for upgrades.
    pub upgrade_random: Random,
    pub world: World,
    pub samples: Samples,
    pub story: Story,
    pub report: Report,
    pub fills: Vec<Fill>,
    /// Records that must not be evicted.
    pub needed: Vec<InUse>,
    pub handles: Vec<(DurabilityHandle, u32)>,
    /// Whether the superblock has ever been durable.
    pub opened_once: bool,
    /// An opening found the log unreadable and began to empty the store, but was interrupted. The next one must empty it too.
    pub starting_empty: bool,
    /// Records that the recovery under way has to find; none if that will not be checked.
    pub expected: Option<Vec<VersionNumber>>,
    /// Steps since the opening, while the run only reads.
    pub quiet_steps: Option<u64>,
    /// A recovery is under way, as far as noticed.
    pub recovering: bool,
    pub next_fetch: u64,
    /// The story up to the first recovery that missed records.
    pub first_missing: Option<Story>,
    /// Events of the watched key.
    pub watched: Vec<String>,
}

/// Runs a seed. A failure names the seed.
pub fn run(options: Options) -> (Report, Option<Failure>) {
    note_panics();
    let mut run = Run::new(options);
    let outcome = catch_unwind(AssertUnwindSafe(|| run.go()));
    let message = match outcome {
        Ok(Ok(())) => None,
        Ok(Err(message)) => Some(message),
        Err(_) => Some(PANIC.with_borrow_mut(std::mem::take)),
    };
    run.report.seeds = 1;
    run.report.steps = run.step;
    run.report.faults = run.disk.counts().clone();
    let failure = message.map(|message| run.failure(message));
    (run.report, failure)
}

thread_local! {
    static PANIC: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Stores a panic of a run as its failure, with position and message, instead of printing it.
fn note_panics() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let known = PANIC.try_with(|text| text.replace(format!("panic: {info}")));
            if known.is_err() {
                usual(info);
            }
        }));
    });
}

impl Run {
    fn new(options: Options) -> Self {
        let mut random = Random::new(options.seed);
        let total_bytes = (4 + random.below(7)) << 20;
        let usual = Geometry::plan(total_bytes, 512).expect("4 MiB are enough for a store");
        // Smaller regions, so that there are dozens, and notes of several regions.
        let geometry = match random.pick(&REGION_BYTES) {
            0 => usual,
            bytes => usual.with_region_bytes(bytes),
        };
        let faults = Faults::choose(&mut random);
        let disk_random = Random::new(random.number());
        let choice = Choice {
            cluster_bytes: 64 << 10 << random.below(2),
            cluster_deadline_ms: random.pick(&[20, 200, 1000]),
            shards: 1 << random.below(4),
            locality_buffers: random.pick(&[0, 0, 4]),
            // The default policy is chosen more often than others.
            policy: match random.one_in(2) {
                // Chosen without drawing a number, so that old seeds give the same runs.
                true if options.seed.is_multiple_of(4) => POLICIES[0],
                true => REINSERTION,
                false => random.pick(POLICIES),
            },
            mistake: options.mistake,
        };
        let habits = Habits {
            keys: 100 + random.below(500),
            hosts: 4 + random.below(20),
            mean_body: (geometry.data_bytes() / (100 + random.below(400)))
                .min(geometry.region_bytes() / 4),
            crash_once_in: random.pick(&[40, 100, 200, 400]),
            predicates: random.one_in(2),
            hostile: random.one_in(2),
            large_body: u64::from(choice.cluster_bytes) * 2,
        };
        let disk = Disk::new(total_bytes, Areas::of(&geometry), faults, disk_random);
        Self {
            options,
            step: 0,
            random,
            now_ms: BEGIN_MS,
            choice,
            habits,
            geometry,
            disk,
            store: None,
            old: None,
            leaving: None,
            upgrade_random: Random::new(!options.seed),
            world: World::default(),
            samples: Samples::default(),
            story: Story::default(),
            report: Report::default(),
            fills: Vec::new(),
            needed: Vec::new(),
            handles: Vec::new(),
            opened_once: false,
            starting_empty: false,
            expected: None,
            quiet_steps: None,
            recovering: false,
            next_fetch: 1,
            first_missing: None,
            watched: Vec::new(),
        }
    }

    fn failure(&self, message: String) -> Failure {
        let Options {
            seed,
            steps,
            mistake,
            ..
        } = self.options;
        let mistake = mistake.map_or(String::new(), |m| format!(" --mistake {}", m.name()));
        let mut story = vec![format!(
            "{}, {} keys, policy {}, clusters of {} bytes, {} shards, {} locality buffers",
            self.geometry,
            self.habits.keys,
            self.choice.policy,
            self.choice.cluster_bytes,
            self.choice.shards,
            self.choice.locality_buffers
        )];
        story.extend(self.story.lines());
        let watched = self
            .options
            .watch
            .and_then(|key| self.world.full_keys.get(key as usize));
        story.extend(watched.map(|full| format!("watched: {}", full.key.escape_ascii())));
        story.extend(self.watched.iter().cloned());
        Failure {
            seed,
            step: self.step,
            message,
            story,
            replay: format!("cargo xtask sim --seed {seed} --steps {steps}{mistake}"),
        }
    }

    fn go(&mut self) -> Result<(), String> {
        self.reopen()?;
        while self.step < self.options.steps {
            self.step += 1;
            self.now_ms += match self.random.below(64) {
                0 => self.random.below(3000),
                1..4 => self.random.below(100),
                _ => self.random.below(3),
            };
            self.pump()?;
            self.watch_recovery()?;
            if self.quiet_steps.is_some() {
                self.quiet_step()?;
            } else if self.random.one_in(self.habits.crash_once_in) {
                self.end_and_reopen()?;
            } else if self.upgrades_now() {
                self.upgrade()?;
            } else {
                self.operate()?;
            }
            if self.step.is_multiple_of(AUDIT_EVERY) {
                self.store()?.audit()?;
            }
        }
        self.end_of_run()
    }

    /// Handles a broken rule: ends the run unless the rule is waived.
    pub fn waive(&mut self, message: String) -> Result<(), String> {
        if self.options.waived.passes(&message) {
            self.report.waived += 1;
            self.say(format!("waived: {message}"));
            return Ok(());
        }
        Err(message)
    }

    /// The store. Between the end of a life and the next opening there is none.
    pub fn store(&self) -> Result<&SimulatedStore, String> {
        self.store
            .as_ref()
            .ok_or_else(|| "the simulation used a store that is not open".to_owned())
    }

    pub fn tell(&mut self, words: &'static str, a: u64, b: u64) {
        self.story.tell(self.step, Event::Of(words, a, b));
    }

    /// Records an event of a key, if that key is watched.
    pub fn about(&mut self, full_key: FullKey, words: impl FnOnce() -> String) {
        if self.options.watch == Some(full_key) {
            let (step, life) = (self.step, self.world.life);
            self.watched.push(format!(
                "key {full_key}, step {step}, life {life}: {}",
                words()
            ));
        }
    }

    pub fn say(&mut self, words: String) {
        self.story.tell(self.step, Event::Told(words));
    }

    /// Starts background work and delivers completions until there are none left.
    pub fn pump(&mut self) -> Result<(), String> {
        for _ in 0..PUMP_MAX {
            let worked = self.hand_out_work()?;
            let Some(done) = self.disk.complete(self.now_ms) else {
                if !worked {
                    return self.settle_handles();
                }
                continue;
            };
            self.deliver(done)?;
        }
        Err("there is no end to the background work".into())
    }

    fn hand_out_work(&mut self) -> Result<bool, String> {
        let mut any = false;
        for _ in 0..PUMP_MAX {
            let Some(work) = self.store()?.next_work(self.now_ms) else {
                let Some(moved) = self.store()?.next_move() else {
                    return Ok(self.begin_reinsertion()? || any);
                };
                any = true;
                self.read_to_move(moved)?;
                continue;
            };
            any = true;
            let flush = matches!(work.op, WorkOp::Flush);
            let op = match work.op {
                WorkOp::Read { offset, len } => Op::Read { offset, len },
                WorkOp::Write { offset, data } => {
                    self.tell("background write", offset, data.len() as u64);
                    Op::Write { offset, data }
                }
                WorkOp::Flush => Op::Flush,
                WorkOp::Yield => {
                    self.store()?.work_done(work.id, Ok(None), self.now_ms);
                    continue;
                }
            };
            let tag = Tag::Work { id: work.id, flush };
            self.disk.submit(tag, op, self.now_ms)?;
        }
        Err("there is no end to the background work".into())
    }

    fn deliver(&mut self, done: Done<Tag>) -> Result<(), String> {
        let ok = done.result.is_ok();
        match done.tag {
            Tag::Cluster { id, records } => {
                if done.spoiled {
                    self.tell(
                        "a cluster write went wrong",
                        records.len() as u64,
                        u64::from(ok),
                    );
                }
                for (version, range) in &records {
                    let spoiled = done.spoiled;
                    self.about(self.world.versions[*version as usize].full_key, || {
                        format!(
                            "version {version}: write to {range:?} over, ok {ok}, spoiled {spoiled}"
                        )
                    });
                    self.world.write_over(*version, range, ok, done.number);
                }
                self.store()?.write_done(id, ok, self.now_ms);
            }
            Tag::Work { id, flush } => {
                if done.spoiled {
                    self.tell(
                        "background work went wrong",
                        u64::from(flush),
                        u64::from(ok),
                    );
                }
                if flush {
                    self.world.flush_over(done.number, ok);
                }
                self.store()?.work_done(id, done.result, self.now_ms);
            }
            Tag::Reading(reading) => {
                self.end_reading(*reading, done.result, done.spoiled)?;
            }
            Tag::Move(moved, full_key) => {
                let bytes = done.result.ok().flatten();
                self.end_move(moved, full_key, bytes)?;
            }
            Tag::Reinsertion(read) => {
                let bytes = done.result.ok().flatten();
                self.end_reinsertion(read, bytes)?;
            }
            Tag::Opening => (),
        }
        Ok(())
    }

    fn settle_handles(&mut self) -> Result<(), String> {
        self.settle_old()?;
        let mut handles = std::mem::take(&mut self.handles);
        let store = self.store()?;
        let mut acknowledged = Vec::new();
        let mut failed = 0;
        handles.retain(|(handle, number)| match store.settled(*handle) {
            Settled::Pending => true,
            Settled::Durable => {
                acknowledged.push(*number);
                false
            }
            Settled::Failed => {
                failed += 1;
                false
            }
        });
        self.handles = handles;
        self.report.unacknowledged += failed;
        for number in acknowledged {
            self.report.acknowledged += 1;
            self.world.invalidations[number as usize].acknowledged = true;
            self.tell("invalidation acknowledged", u64::from(number), 0);
        }
        Ok(())
    }

    /// Submits cluster writes to the disk.
    pub fn submit_writes(&mut self, writes: impl IntoIterator<Item = Write>) -> Result<(), String> {
        for Write {
            id, offset, data, ..
        } in writes
        {
            let mut records = Vec::new();
            for (at, bytes) in hostile::records_of(&data, &self.geometry) {
                let claimed = hostile::meta_of(&bytes).and_then(|meta| self.world.claimed(meta));
                let Some(version) = claimed else {
                    return Err(format!(
                        "a record nobody stored is written at {offset}+{at}"
                    ));
                };
                let begin = offset + at as u64;
                let range = begin..begin + bytes.len() as u64;
                self.world.writing(version, range.clone());
                self.offer_sample(bytes);
                records.push((version, range));
            }
            if records.is_empty() {
                return Err(format!("a cluster without records is written at {offset}"));
            }
            self.tell("cluster write", offset, data.len() as u64);
            let tag = Tag::Cluster { id, records };
            self.disk
                .submit(tag, Op::Write { offset, data }, self.now_ms)?;
        }
        Ok(())
    }

    fn offer_sample(&mut self, record: Bytes) {
        if self.habits.hostile {
            self.samples.offer(record, &mut self.random);
        }
    }

    /// Lets time pass until nothing is under way, nothing waits and no recovery is left.
    pub fn drain(&mut self) -> Result<(), String> {
        let begun_ms = self.now_ms;
        let mut idle = 0;
        while self.now_ms < begun_ms + DRAIN_MS_MAX {
            self.pump()?;
            if let Some(due_ms) = self.disk.next_due_ms() {
                self.now_ms = self.now_ms.max(due_ms);
                idle = 0;
                continue;
            }
            if idle >= 2 && self.handles.is_empty() && self.store()?.recovery().is_none() {
                return Ok(());
            }
            self.now_ms += 100;
            let writes = self.store()?.tick(self.now_ms);
            idle = if writes.is_empty() { idle + 1 } else { 0 };
            self.submit_writes(writes)?;
        }
        Err(format!(
            "no rest after {DRAIN_MS_MAX} ms: {} invalidations pending, recovery {:?}",
            self.handles.len(),
            self.store()?.recovery()
        ))
    }

    /// The name of a primary key.
    pub fn name(&self, key: u32) -> Vec<u8> {
        let host = u64::from(key) % self.habits.hosts;
        format!("http://h{host}.example/{key}").into_bytes()
    }

    /// The full key of a primary key.
    pub fn plain(&mut self, key: u32) -> FullKey {
        let name = self.name(key);
        self.world.full_key(&name, key, true)
    }

    /// A random primary key: in half of the cases one of a few.
    pub fn any_key(&mut self) -> u32 {
        let keys = if self.random.one_in(2) {
            self.habits.keys
        } else {
            self.habits.keys / 10
        };
        self.random.below(keys) as u32
    }
}
