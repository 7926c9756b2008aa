//! Results of runs: numbers that can be added, and the story of a run that failed.

use std::collections::VecDeque;
use std::fmt;

use crate::faults::Counts;

/// Most events in a story.
const STORY_MAX: usize = 40;

/// Numbers of one run or many.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Number of runs.
    pub seeds: u64,
    /// Steps of all runs.
    pub steps: u64,
    /// Kills of the process.
    pub kills: u64,
    /// Power cuts.
    pub power_cuts: u64,
    /// Clean closes.
    pub closes: u64,
    /// Stores handed over to another process.
    pub handed_over: u64,
    /// Stores that were frozen for a handover and thawed.
    pub thawed: u64,
    /// Openings that found a store.
    pub recoveries: u64,
    /// Openings interrupted by a crash or a fault.
    pub openings_cut_short: u64,
    /// Records accepted by the store.
    pub stored: u64,
    /// Bytes of their bodies.
    pub stored_bytes: u64,
    /// Records evicted.
    pub evictions: u64,
    /// Checkpoints that were published.
    pub checkpoints: u64,
    /// Records renewed because they were in use.
    pub second_chances: u64,
    /// Records moved because an answer needed them.
    pub moved: u64,
    /// Records that the sweep reinserted.
    pub reinserted: u64,
    /// Weedings: times that older records were compared with predicates.
    pub weedings: u64,
    /// Records removed by weedings.
    pub weeded: u64,
    /// Regions noted before they were filled.
    pub noted_regions: u64,
    /// Notes; each is of one or more regions.
    pub notes: u64,
    /// Records refused because there was no room.
    pub no_space: u64,
    /// Served records compared with the truth.
    pub compared: u64,
    /// Companions among them.
    pub came_along: u64,
    /// Fragments that were also read by their parts.
    pub by_parts: u64,
    /// Reads of needed records.
    pub read_needed: u64,
    /// Reads of killed records among them: other answers would not get these records.
    pub read_after_kill: u64,
    /// Look-ups that found nothing.
    pub misses: u64,
    /// Records that did not verify.
    pub unverified: u64,
    /// Invalidations called, predicates among them.
    pub invalidations: u64,
    /// Predicates called.
    pub predicates: u64,
    /// Invalidations acknowledged.
    pub acknowledged: u64,
    /// Invalidations that could not be made durable.
    pub unacknowledged: u64,
    /// Records that recoveries had to find.
    pub expected: u64,
    /// Those among them that were found.
    pub found: u64,
    /// Broken rules that were waived.
    pub waived: u64,
    /// Faults of the disk.
    pub faults: Counts,
}

impl Report {
    /// Adds the numbers of other runs.
    pub fn merge(&mut self, other: &Self) {
        let Self {
            seeds,
            steps,
            kills,
            power_cuts,
            closes,
            handed_over,
            thawed,
            recoveries,
            openings_cut_short,
            stored,
            stored_bytes,
            evictions,
            checkpoints,
            second_chances,
            moved,
            reinserted,
            weedings,
            weeded,
            noted_regions,
            notes,
            no_space,
            compared,
            came_along,
            by_parts,
            read_needed,
            read_after_kill,
            misses,
            unverified,
            invalidations,
            predicates,
            acknowledged,
            unacknowledged,
            expected,
            found,
            waived,
            faults,
        } = other;
        self.seeds += seeds;
        self.steps += steps;
        self.kills += kills;
        self.power_cuts += power_cuts;
        self.closes += closes;
        self.handed_over += handed_over;
        self.thawed += thawed;
        self.recoveries += recoveries;
        self.openings_cut_short += openings_cut_short;
        self.stored += stored;
        self.stored_bytes += stored_bytes;
        self.evictions += evictions;
        self.checkpoints += checkpoints;
        self.second_chances += second_chances;
        self.moved += moved;
        self.reinserted += reinserted;
        self.weedings += weedings;
        self.weeded += weeded;
        self.noted_regions += noted_regions;
        self.notes += notes;
        self.no_space += no_space;
        self.compared += compared;
        self.came_along += came_along;
        self.by_parts += by_parts;
        self.read_needed += read_needed;
        self.read_after_kill += read_after_kill;
        self.misses += misses;
        self.unverified += unverified;
        self.invalidations += invalidations;
        self.predicates += predicates;
        self.acknowledged += acknowledged;
        self.unacknowledged += unacknowledged;
        self.expected += expected;
        self.found += found;
        self.waived += waived;
        self.faults.merge(faults);
    }

    /// Adds counts of a store's life: evictions, checkpoints, second chances, moves, reinsertions, weedings, records weeded, regions noted, notes.
    pub fn count_deeds(&mut self, deeds: [u64; 9]) {
        let [
            evictions,
            checkpoints,
            second_chances,
            moved,
            reinserted,
            weedings,
            weeded,
            noted_regions,
            notes,
        ] = deeds;
        self.evictions += evictions;
        self.checkpoints += checkpoints;
        self.second_chances += second_chances;
        self.moved += moved;
        self.reinserted += reinserted;
        self.weedings += weedings;
        self.weeded += weeded;
        self.noted_regions += noted_regions;
        self.notes += notes;
    }

    /// All numbers except the faults, with names.
    pub fn numbers(&self) -> [(&'static str, u64); 35] {
        [
            ("seeds", self.seeds),
            ("steps", self.steps),
            ("kills", self.kills),
            ("power cuts", self.power_cuts),
            ("closes", self.closes),
            ("handed over", self.handed_over),
            ("thawed", self.thawed),
            ("recoveries", self.recoveries),
            ("openings cut short", self.openings_cut_short),
            ("records stored", self.stored),
            ("bytes stored", self.stored_bytes),
            ("records evicted", self.evictions),
            ("checkpoints", self.checkpoints),
            ("second chances", self.second_chances),
            ("records moved", self.moved),
            ("records reinserted", self.reinserted),
            ("weedings", self.weedings),
            ("records weeded", self.weeded),
            ("regions noted", self.noted_regions),
            ("notes", self.notes),
            ("refused for want of room", self.no_space),
            ("answers compared", self.compared),
            ("of them came along", self.came_along),
            ("fragments read by parts as well", self.by_parts),
            ("read by who needed them", self.read_needed),
            ("of them killed before", self.read_after_kill),
            ("misses", self.misses),
            ("records not verified", self.unverified),
            ("invalidations", self.invalidations),
            ("predicates", self.predicates),
            ("acknowledged", self.acknowledged),
            ("not acknowledged", self.unacknowledged),
            ("expected after recovery", self.expected),
            ("found after recovery", self.found),
            ("waived", self.waived),
        ]
    }

    /// Found records in percent of those that had to be found; none if there were none.
    pub fn found_percent(&self) -> Option<f64> {
        (self.expected > 0).then(|| self.found as f64 * 100.0 / self.expected as f64)
    }
}

/// The last events of a run. They are formatted only when the story is printed.
#[derive(Clone, Debug, Default)]
pub struct Story(VecDeque<(u64, Event)>);

/// An event: words, and numbers that belong to them.
#[derive(Clone, Debug)]
pub enum Event {
    /// Words and two numbers.
    Of(&'static str, u64, u64),
    /// Formatted words.
    Told(String),
}

impl Story {
    /// Adds an event.
    pub fn tell(&mut self, step: u64, event: Event) {
        if self.0.len() == STORY_MAX {
            self.0.pop_front();
        }
        self.0.push_back((step, event));
    }

    /// The events as lines.
    pub fn lines(&self) -> Vec<String> {
        let line = |(step, event): &(u64, Event)| match event {
            Event::Of(words, a, b) => format!("step {step}: {words} ({a}, {b})"),
            Event::Told(words) => format!("step {step}: {words}"),
        };
        self.0.iter().map(line).collect()
    }
}

/// A run that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The seed of the run.
    pub seed: u64,
    /// The step in which it failed.
    pub step: u64,
    /// The fault.
    pub message: String,
    /// The last events before it.
    pub story: Vec<String>,
    /// The command that repeats the run.
    pub replay: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "seed {}, step {}: {}",
            self.seed, self.step, self.message
        )?;
        for line in &self.story {
            writeln!(f, "  {line}")?;
        }
        write!(f, "again: {}", self.replay)
    }
}
