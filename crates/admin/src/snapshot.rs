//! The workers' counters, added up at one moment.
//!
//! The difference of two [`Snapshot`]s gives rates. [`History`] keeps those of the last minute.
//!
//! Workers go on counting while we read, so the numbers of one snapshot may differ by the requests that finished meanwhile.
//!
//! Hit ratios leave out errors, and tunnels, which cannot be cached.
//!
//! Not known here: HTTP, text formats.

use std::{
    array,
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use profile::{Class, STAGES, StageName};

use crate::{histogram::Histogram, json::rounded};
use base::clock::Instant;
use record::{
    metrics::{CAUSES, Counters, STATUS_CLASSES, STATUSES_MAX},
    protocols::ProtocolFigures,
};

/// Time between two snapshots in [`History`].
pub const HISTORY_STEP: Duration = Duration::from_secs(5);
/// Snapshots in [`History`]: the last minute.
pub const HISTORY_MAX: usize = 13;

const CLASSES: usize = Class::ALL.len();

/// A counter or gauge without labels.
#[derive(Clone, Copy, Debug)]
pub struct Simple {
    /// Its name; names of gauges end in `_open`.
    pub name: &'static str,
    /// What it counts.
    pub help: &'static str,
    /// The sum of all workers.
    pub value: u64,
}

impl Simple {
    /// Is it a gauge?
    pub fn is_gauge(&self) -> bool {
        self.name.ends_with("_open")
    }
}

/// The requests of one class.
#[derive(Clone, Debug)]
pub struct ClassFigures {
    /// Number of requests.
    pub requests: u64,
    /// Bytes sent to clients, heads included.
    pub bytes: u64,
    /// Distribution of their durations.
    pub latency: Histogram,
}

impl ClassFigures {
    fn new() -> ClassFigures {
        ClassFigures {
            requests: 0,
            bytes: 0,
            latency: Histogram::new(),
        }
    }
}

/// The workers' counters added up.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// When it was taken.
    at: Instant,
    classes: Vec<ClassFigures>,
    /// Indexed by [`StageName`].
    stages: Vec<Histogram>,
    simple: Vec<Simple>,
    /// Indexed by row: see [`record::labels`].
    rows: Vec<RowFigures>,
    /// Responses by status; 0: none was sent.
    statuses: Vec<u64>,
    causes: [u64; CAUSES.len()],
    h2_faults: [u64; http2::Fault::ALL.len()],
    protocols: Vec<ProtocolFigures>,
}

/// Responses of one listener from one origin.
#[derive(Clone, Copy, Debug, Default)]
pub struct RowFigures {
    /// Indexed by class of status: see [`STATUS_CLASSES`].
    pub answers: [u64; STATUS_CLASSES.len()],
    /// Bytes sent, heads included.
    pub bytes: u64,
}

impl Snapshot {
    /// Adds up these counters.
    pub fn of(counters: &[Arc<Counters>], at: Instant) -> Snapshot {
        let mut classes = vec![ClassFigures::new(); CLASSES];
        let mut stages = vec![Histogram::new(); STAGES];
        let mut simple: Vec<Simple> = Vec::new();
        let mut rows =
            vec![RowFigures::default(); counters.first().map_or(0, |set| set.rows.len())];
        let mut statuses = vec![0; STATUSES_MAX];
        let mut causes = [0; CAUSES.len()];
        let mut h2_faults = [0; http2::Fault::ALL.len()];
        let mut protocols = ProtocolFigures::none();
        for set in counters {
            ProtocolFigures::add(&mut protocols, &set.protocols);
            for (sum, row) in rows.iter_mut().zip(&set.rows) {
                add_all(&mut sum.answers, &row.answers);
                sum.bytes += row.bytes.load(Ordering::Relaxed);
            }
            add_all(&mut statuses, &set.statuses.0);
            add_all(&mut causes, &set.causes);
            add_all(&mut h2_faults, &set.h2_faults.0);
            for (sum, counts) in stages.iter_mut().zip(set.stages.iter()) {
                add_all(&mut sum.counts, &counts.0);
            }
            for (class, sum) in classes.iter_mut().enumerate() {
                sum.requests += set.requests[class].load(Ordering::Relaxed);
                sum.bytes += set.bytes[class].load(Ordering::Relaxed);
                sum.latency.sum_us += set.latency_us[class].load(Ordering::Relaxed);
                add_all(&mut sum.latency.counts, &set.latency[class].0);
            }
            for (at, (name, help, value)) in set.simple().enumerate() {
                match simple.get_mut(at) {
                    Some(sum) => sum.value = sum.value.wrapping_add(value),
                    None => simple.push(Simple { name, help, value }),
                }
            }
        }
        // Status 200 is not counted; it is the rest.
        let all: u64 = classes.iter().map(|class| class.requests).sum();
        statuses[200] = all.saturating_sub(statuses.iter().sum());
        Snapshot {
            at,
            classes,
            stages,
            simple,
            rows,
            statuses,
            causes,
            h2_faults,
            protocols,
        }
    }

    /// The classes with their figures, in the order of [`Class::ALL`].
    pub fn classes(&self) -> impl Iterator<Item = (Class, &ClassFigures)> + Clone {
        Class::ALL.into_iter().zip(&self.classes)
    }

    /// The stages with the times of those requests that had them, in the order of [`StageName::ALL`].
    pub fn stages(&self) -> impl Iterator<Item = (StageName, &Histogram)> {
        StageName::ALL.into_iter().zip(&self.stages)
    }

    /// Answers by listener and origin, in the order of their labels.
    pub fn rows(&self) -> &[RowFigures] {
        &self.rows
    }

    /// The number of answers of each status that occurred.
    pub fn statuses(&self) -> impl Iterator<Item = (usize, u64)> {
        let all = self.statuses.iter().copied().enumerate();
        all.filter(|(_, answers)| *answers > 0)
    }

    /// The number of answers by class of status: see [`STATUS_CLASSES`].
    pub fn status_classes(&self) -> [u64; STATUS_CLASSES.len()] {
        let mut classes = [0; STATUS_CLASSES.len()];
        for (status, answers) in self.statuses() {
            classes[status / 100] += answers;
        }
        classes
    }

    /// Failures of origins by cause, all causes.
    pub fn causes(&self) -> impl Iterator<Item = (&'static str, u64)> {
        CAUSES.into_iter().zip(self.causes)
    }

    /// Protocol faults of HTTP/2 clients, all kinds.
    pub fn h2_faults(&self) -> impl Iterator<Item = (http2::Fault, u64)> {
        http2::Fault::ALL.iter().copied().zip(self.h2_faults)
    }

    /// Requests and connections by protocol and encryption, those that occurred.
    pub fn protocols(&self) -> impl Iterator<Item = &ProtocolFigures> + Clone {
        self.protocols.iter().filter(|row| row.occurs())
    }

    /// The counters and gauges without labels, in the order of their table.
    pub fn simple(&self) -> &[Simple] {
        &self.simple
    }

    /// The counter of this name; 0 if there is none.
    pub fn value(&self, name: &str) -> u64 {
        let found = self.simple.iter().find(|s| s.name == name);
        found.map_or(0, |s| s.value)
    }

    /// Adds counters and gauges that are not a worker's: their names, help texts and values.
    pub fn append(&mut self, figures: impl IntoIterator<Item = (&'static str, &'static str, u64)>) {
        let simple = figures
            .into_iter()
            .map(|(name, help, value)| Simple { name, help, value });
        self.simple.extend(simple);
    }

    /// Adds to the counter of this name.
    pub fn add(&mut self, name: &str, n: u64) {
        if let Some(simple) = self.simple.iter_mut().find(|s| s.name == name) {
            simple.value += n;
        }
    }

    /// The number of all requests.
    pub fn requests(&self) -> u64 {
        self.classes.iter().map(|c| c.requests).sum()
    }

    /// The number of requests answered from the cache.
    pub fn hits(&self) -> u64 {
        let hits = self.classes().filter(|(class, _)| class.is_hit());
        hits.map(|(_, figures)| figures.requests).sum()
    }

    /// Bytes sent to clients.
    pub fn bytes(&self) -> u64 {
        self.classes.iter().map(|c| c.bytes).sum()
    }

    /// The latencies of all requests except tunnels, whose duration depends on the client.
    pub fn latency(&self) -> Histogram {
        let mut all = Histogram::new();
        for (class, figures) in self.classes() {
            if class != Class::Tunnel {
                all.add(&figures.latency);
            }
        }
        all
    }

    /// Hits among all requests; `None` if there were none.
    pub fn hit_ratio_documents(&self) -> Option<f64> {
        self.hit_ratio(|c| c.requests)
    }

    /// Bytes from cache among all bytes sent; `None` if there were none.
    pub fn hit_ratio_bytes(&self) -> Option<f64> {
        self.hit_ratio(|c| c.bytes)
    }

    fn hit_ratio(&self, measure: impl Fn(&ClassFigures) -> u64) -> Option<f64> {
        let (mut hits, mut all) = (0, 0);
        for (class, figures) in self.classes() {
            if matches!(class, Class::Tunnel | Class::Error) {
                continue;
            }
            all += measure(figures);
            if class.is_hit() {
                hits += measure(figures);
            }
        }
        (all > 0).then(|| hits as f64 / all as f64)
    }

    /// The counts since `earlier`; `None` if no time has passed. Gauges keep their present values.
    pub fn since(&self, earlier: &Snapshot) -> Option<Passed> {
        let seconds = self.at.duration_since(earlier.at).as_secs_f64();
        let pairs = self.classes.iter().zip(&earlier.classes);
        let classes = pairs.map(|(now, then)| ClassFigures {
            requests: now.requests.wrapping_sub(then.requests),
            bytes: now.bytes.wrapping_sub(then.bytes),
            latency: now.latency.since(&then.latency),
        });
        let pairs = self.stages.iter().zip(&earlier.stages);
        let stages = pairs.map(|(now, then)| now.since(then));
        let pairs = self.simple.iter().zip(&earlier.simple);
        let simple = pairs.map(|(now, then)| Simple {
            value: if now.is_gauge() {
                now.value
            } else {
                now.value.wrapping_sub(then.value)
            },
            ..*now
        });
        let pairs = self.rows.iter().zip(&earlier.rows);
        let rows = pairs.map(|(now, then)| RowFigures {
            answers: array::from_fn(|i| now.answers[i].wrapping_sub(then.answers[i])),
            bytes: now.bytes.wrapping_sub(then.bytes),
        });
        let pairs = self.statuses.iter().zip(&earlier.statuses);
        let counted = Snapshot {
            at: self.at,
            classes: classes.collect(),
            stages: stages.collect(),
            simple: simple.collect(),
            rows: rows.collect(),
            // Saturating, because 200 is a difference of sums that were not read at the same moment.
            statuses: pairs.map(|(now, then)| now.saturating_sub(*then)).collect(),
            causes: array::from_fn(|i| self.causes[i].wrapping_sub(earlier.causes[i])),
            h2_faults: array::from_fn(|i| self.h2_faults[i].wrapping_sub(earlier.h2_faults[i])),
            protocols: (self.protocols.iter().zip(&earlier.protocols))
                .map(|(now, then)| now.since(then))
                .collect(),
        };
        (seconds > 0.0).then_some(Passed { counted, seconds })
    }
}

/// The counts of a period.
pub struct Passed {
    /// The figures.
    pub counted: Snapshot,
    /// The length of the period, seconds; never 0.
    pub seconds: f64,
}

impl Passed {
    /// A number as a rate.
    pub fn per_s(&self, n: u64) -> f64 {
        rounded(n as f64 / self.seconds)
    }

    /// The rate of the counter of this name.
    pub fn rate(&self, counter: &str) -> f64 {
        self.per_s(self.counted.value(counter))
    }
}

fn add_all(sums: &mut [u64], counters: &[AtomicU64]) {
    for (sum, counter) in sums.iter_mut().zip(counters) {
        *sum += counter.load(Ordering::Relaxed);
    }
}

/// The snapshots of the last minute, oldest first; at most [`HISTORY_MAX`].
#[derive(Default)]
pub struct History(VecDeque<Snapshot>);

impl History {
    /// Adds a snapshot, replacing the oldest one when full.
    pub fn note(&mut self, snapshot: Snapshot) {
        if self.0.len() >= HISTORY_MAX {
            self.0.pop_front();
        }
        self.0.push_back(snapshot);
    }

    /// The counts of the last minute; `None` before the first snapshot.
    pub fn recent(&self, now: &Snapshot) -> Option<Passed> {
        now.since(self.0.front()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(at: Instant, requests: &[(Class, u64, u32)]) -> Snapshot {
        let workers = [Arc::new(Counters::default()), Arc::new(Counters::default())];
        for (n, &(class, bytes, us)) in requests.iter().enumerate() {
            workers[n % 2].finish(class, bytes, us);
        }
        Snapshot::of(&workers, at)
    }

    #[test]
    fn workers_are_added_up() {
        let s = snapshot(
            Instant::now(),
            &[
                (Class::MemoryHit, 10, 100),
                (Class::MemoryHit, 20, 200),
                (Class::Miss, 5, 1000),
            ],
        );
        assert_eq!((s.requests(), s.bytes()), (3, 35));
        let hits = &s.classes[Class::MemoryHit as usize];
        assert_eq!((hits.requests, hits.bytes), (2, 30));
        assert_eq!(hits.latency.mean_us(), Some(150.0));
    }

    #[test]
    fn hit_ratios_leave_out_tunnels_and_errors() {
        let s = snapshot(
            Instant::now(),
            &[
                (Class::MemoryHit, 100, 1),
                (Class::DiskHit, 200, 1),
                (Class::Collapsed, 100, 1),
                (Class::Miss, 600, 1),
                (Class::Tunnel, 1 << 30, 1),
                (Class::Error, 1 << 30, 1),
            ],
        );
        assert_eq!(s.hit_ratio_documents(), Some(0.5));
        assert_eq!(s.hit_ratio_bytes(), Some(0.3));
        assert_eq!(snapshot(Instant::now(), &[]).hit_ratio_documents(), None);
    }

    #[test]
    fn stages_are_counted_but_for_memory_hits() {
        let mut stages = [None; STAGES];
        stages[StageName::SwapIn as usize] = Some(profile::Stage {
            start_us: 5,
            first_us: 10,
            total_us: 1000,
        });
        let workers = [Arc::new(Counters::default())];
        let began = Snapshot::of(&workers, Instant::now());
        for class in [Class::DiskHit, Class::MemoryHit, Class::DiskHit] {
            workers[0].staged(class, &stages);
        }
        let passed = Snapshot::of(&workers, Instant::now()).since(&began);
        for (name, times) in passed.unwrap().counted.stages() {
            let expected = if name == StageName::SwapIn { 2 } else { 0 };
            assert_eq!(times.count(), expected, "{name:?}");
        }
    }

    #[test]
    fn history_tells_the_last_minute() {
        let start = Instant::now();
        let mut history = History::default();
        let mut requests = Vec::new();
        for step in 0..100 {
            requests.push((Class::Miss, 1, 10));
            history.note(snapshot(start + HISTORY_STEP * step, &requests));
        }
        assert_eq!(history.0.len(), HISTORY_MAX);
        let now = snapshot(start + HISTORY_STEP * 99, &requests);
        let passed = history.recent(&now).unwrap();
        assert_eq!((passed.counted.requests(), passed.seconds), (12, 60.0));
        assert_eq!(passed.counted.latency().count(), 12);
    }
}
