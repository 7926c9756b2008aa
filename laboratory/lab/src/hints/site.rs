//! A front and a node over a stream: the outcome of each request, and the cost of hints.
//!
//! ```text
//! request --> the front's cache --> hint? --yes--> the node --> has it: true hit      (a share is copied to the front)
//!              hit                    |                     +-> an older version: stale, fetched by the node
//!                                     |                     '-> has it not: false hit, fetched by the node
//!                                     '-no--> the front fetches it, keeps it, and pushes it when it leaves the front,
//!                                             at once if it is not kept
//! ```
//!
//! A request that is not sent to the node although the node has the object is a *false miss*. Another size is another version. Pushes
//! and updates arrive at once, in order, so hints are delayed by the update period alone. (The simulation in `hints` tests races on
//! the way.)
//!
//! Not known here: how hints are kept (`hinting`), which runs there are.
//! Source: paper 003, sections 2 and 4.

use hints::name::Name;
use polymix::random::{mix, unit};

use super::cache::Cache;
use super::hinting::{Family, Hinting, Kind, Names};
use super::stream::Stream;
use crate::Access;

/// The settings of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Settings {
    /// The node's cache, less its counters of hints if their memory is taken from it.
    pub node_bytes: u64,
    /// The front's cache, less its hints if their memory is taken from it.
    pub front_bytes: u64,
    /// Most objects that a newcomer may evict from the front's cache; `None`: no bound.
    pub burst_max: Option<u32>,
    /// The representation of hints.
    pub kind: Kind,
    /// The front registers the objects it pushes, and the node does not announce them to it.
    pub is_eager: bool,
    /// Time between updates, in the stream's time.
    pub period_ms: u64,
    /// Share of the node's hits that are copied to the front's cache.
    pub copied: f64,
}

/// The counts of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Counts {
    /// Requests.
    pub requests: u64,
    /// Answered by the front's cache.
    pub front_hits: u64,
    /// Sent to the node, which had the object.
    pub true_hits: u64,
    /// Sent to the node, which did not have the object.
    pub false_hits: u64,
    /// Sent to the node, which had another version.
    pub stale: u64,
    /// Not sent to the node, although it had this version.
    pub false_misses: u64,
    /// Fetched by the front, false misses included.
    pub own_fetches: u64,
    /// Objects pushed to the node.
    pub pushes: u64,
    /// Hits of the node copied to the front.
    pub copies: u64,
    /// Updates that were not empty.
    pub messages: u64,
    /// Entries in all updates.
    pub entries: u64,
    /// Entries in the largest update.
    pub entries_max: u64,
    /// Bytes of all entries, as the paper counts them.
    pub entry_bytes: u64,
    /// Newcomers that evicted objects from the node's cache.
    pub node_bursts: u64,
    /// Objects that these evicted.
    pub node_victims: u64,
    /// Most objects that one of these evicted.
    pub node_burst_max: u64,
    /// As `node_bursts`, for the front's cache.
    pub front_bursts: u64,
    /// As `node_victims`, for the front's cache.
    pub front_victims: u64,
    /// As `node_burst_max`, for the front's cache.
    pub front_burst_max: u64,
    /// Objects that the front did not keep because they would have evicted too many.
    pub front_refused: u64,
    /// Bytes of the front's hints at the end.
    pub front_hint_bytes: u64,
    /// Bytes of the node's hints at the end.
    pub node_hint_bytes: u64,
    /// Objects in the node's cache at the end.
    pub node_objects: u64,
}

impl Counts {
    /// Percent of all requests.
    pub(super) fn percent(&self, part: u64) -> f64 {
        100.0 * part as f64 / self.requests.max(1) as f64
    }

    /// Requests sent to the node.
    pub(super) fn sent(&self) -> u64 {
        self.true_hits + self.false_hits + self.stale
    }

    /// Requests answered from either cache.
    pub(super) fn hits(&self) -> u64 {
        self.front_hits + self.true_hits
    }
}

/// A front and a node in the middle of a stream.
#[derive(Debug)]
struct Site<'a, N> {
    front: Cache,
    /// By object in the front's cache: the front still has to push it to the node.
    is_owed: Vec<bool>,
    node: Cache,
    hints: Hinting<'a, N>,
    copied: f64,
    counts: Counts,
}

/// Runs a stream. `step` is called with the number of requests done since its last call; if it returns `false`, the run ends with the
/// counts so far. `names` must include the family of the settings.
pub(super) fn run(
    settings: &Settings,
    stream: &Stream,
    names: &Names,
    step: impl FnMut(u64) -> bool,
) -> Counts {
    match settings.kind.family() {
        Family::Paper => run_named(settings, stream, &names.studied, step),
        Family::Implementation => run_named(settings, stream, &names.implemented, step),
        Family::Ours => run_named(settings, stream, &names.ours, step),
    }
}

fn run_named<N: Name + Copy>(
    settings: &Settings,
    stream: &Stream,
    names: &[N],
    mut step: impl FnMut(u64) -> bool,
) -> Counts {
    let objects = stream.objects_end;
    let mut site = Site {
        front: Cache::new(settings.front_bytes, settings.burst_max, objects),
        is_owed: vec![false; objects],
        node: Cache::new(settings.node_bytes, None, objects),
        hints: Hinting::new(settings.kind, settings.is_eager, names),
        copied: settings.copied,
        counts: Counts::default(),
    };
    let period_ms = settings.period_ms.max(1);
    let mut due_ms = period_ms;
    for part in stream.accesses.chunks(STEP) {
        for access in part {
            if access.at_ms >= due_ms {
                site.update();
                // A period without requests sends no update either.
                due_ms = (access.at_ms / period_ms + 1) * period_ms;
            }
            site.ask(access);
        }
        if !step(part.len() as u64) {
            break;
        }
    }
    let mut counts = site.counts();
    counts.entry_bytes = counts.entries * settings.kind.entry_bytes();
    counts
}

/// Requests between two calls of `step`.
const STEP: usize = 1 << 14;

impl<N: Name + Copy> Site<'_, N> {
    fn ask(&mut self, access: &Access) {
        let Access {
            object, size_bytes, ..
        } = *access;
        self.counts.requests += 1;
        match self.front.held(object) {
            Some(size) if size == size_bytes => {
                self.front.touch(object);
                self.counts.front_hits += 1;
                return;
            }
            // An older version: it is no longer worth a push.
            Some(_) => {
                self.front.remove(object);
                self.is_owed[object as usize] = false;
            }
            None => {}
        }
        if self.hints.front_has(object) {
            self.ask_node(object, size_bytes);
            return;
        }
        self.counts.own_fetches += 1;
        self.counts.false_misses += u64::from(self.node.held(object) == Some(size_bytes));
        self.keep_in_front(object, size_bytes, true);
    }

    fn ask_node(&mut self, object: u32, size_bytes: u32) {
        match self.node.held(object) {
            Some(size) if size == size_bytes => {
                self.node.touch(object);
                self.counts.true_hits += 1;
                // Decided by the request's number, so that all runs copy at the same requests.
                if unit(mix(self.counts.requests)) < self.copied {
                    self.counts.copies += 1;
                    self.keep_in_front(object, size_bytes, false);
                }
            }
            Some(_) => {
                self.counts.stale += 1;
                self.replace_in_node(object, size_bytes);
            }
            None => {
                self.counts.false_hits += 1;
                if self.insert_in_node(object, size_bytes) {
                    self.hints.fetched(object);
                }
            }
        }
    }

    /// Inserts an object into the front's cache, which does not hold it. An object that is *owed* to the node is pushed when it is evicted,
    /// or at once if it is not kept.
    fn keep_in_front(&mut self, object: u32, size_bytes: u32, is_owed: bool) {
        let Some(victims) = self.front.insert(object, size_bytes) else {
            self.counts.front_refused += 1;
            if is_owed {
                self.push(object, size_bytes);
            }
            return;
        };
        self.is_owed[object as usize] = is_owed;
        let victims = victims.to_vec();
        let burst = victims.len() as u64;
        self.counts.front_bursts += u64::from(burst > 0);
        self.counts.front_victims += burst;
        self.counts.front_burst_max = self.counts.front_burst_max.max(burst);
        for (victim, size_bytes) in victims {
            if std::mem::take(&mut self.is_owed[victim as usize]) {
                self.push(victim, size_bytes);
            }
        }
    }

    /// Pushes an object to the node.
    fn push(&mut self, object: u32, size_bytes: u32) {
        self.counts.pushes += 1;
        if self.node.held(object).is_some() {
            self.hints.pushed_again(object);
            self.replace_in_node(object, size_bytes);
        } else if self.insert_in_node(object, size_bytes) {
            self.hints.pushed(object);
        } else {
            self.hints.push_refused(object);
        }
    }

    /// Replaces the older version by the newer one, without an update.
    fn replace_in_node(&mut self, object: u32, size_bytes: u32) {
        self.node.remove(object);
        if !self.insert_in_node(object, size_bytes) {
            self.hints.removed(object);
        }
    }

    /// Inserts an object into the node's cache, which does not hold it; returns whether it is kept.
    fn insert_in_node(&mut self, object: u32, size_bytes: u32) -> bool {
        let Some(victims) = self.node.insert(object, size_bytes) else {
            return false;
        };
        let burst = victims.len() as u64;
        self.counts.node_bursts += u64::from(burst > 0);
        self.counts.node_victims += burst;
        self.counts.node_burst_max = self.counts.node_burst_max.max(burst);
        for &(victim, _) in victims {
            self.hints.removed(victim);
        }
        true
    }

    /// Ends the period.
    fn update(&mut self) {
        let entries = self.hints.update();
        self.counts.messages += u64::from(entries > 0);
        self.counts.entries += entries;
        self.counts.entries_max = self.counts.entries_max.max(entries);
    }

    fn counts(mut self) -> Counts {
        self.update();
        let (front, node) = self.hints.memory_bytes();
        Counts {
            front_hint_bytes: front,
            node_hint_bytes: node,
            node_objects: self.node.objects(),
            ..self.counts
        }
    }
}
