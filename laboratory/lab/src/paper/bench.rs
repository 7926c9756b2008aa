//! The bench for experiments: makes each workload once and each run once, in parallel, and reports progress.
//!
//! Not known here: which experiments there are.
//! Limits: workloads are kept as in `requests`; as many runs at a time as there are processors.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use super::experiment::{Job, Model, Outcome, each};
use super::keep::Keep;
use super::printed;
pub use super::source::Until;
use super::source::{Caches, Source, StreamKey};
use super::workload::{Counts, Workload};
use crate::generate::DecLike;

/// Part of each kept run's key; raise it when a change of a model or manager changes results.
const MODELS_VERSION: u32 = 4;

/// The requests of an experiment. Sizes are the paper's; a bench's scale reduces them, and a trace replaces them by its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Load {
    /// The disk cache.
    pub disk_bytes: u64,
    /// The memory cache.
    pub memory_bytes: u64,
    /// Where the requests end.
    pub until: Until,
    /// The stream.
    pub stream: StreamKey,
}

impl Load {
    /// A load with the paper's memory of 512 MB.
    pub fn paper(disk_bytes: u64, until: Until) -> Load {
        Load {
            disk_bytes,
            memory_bytes: printed::MEMORY_BYTES,
            until,
            stream: StreamKey::Fitted(1),
        }
    }
}

/// Receives progress. Calls come from several threads.
pub trait Watch: Sync {
    /// Work begins, of this many disk requests in all.
    fn begin(&self, what: &str, requests: u64);
    /// This many further requests are done. `false`: stop.
    fn more(&self, requests: u64) -> bool;
    /// The work is over.
    fn end(&self);
}

/// Ignores all progress.
pub struct Nobody;

impl Watch for Nobody {
    fn begin(&self, _: &str, _: u64) {}
    fn more(&self, _: u64) -> bool {
        true
    }
    fn end(&self) {}
}

/// The bench.
pub struct Bench<'a> {
    /// 1 for the paper's sizes or the whole of a trace, less for a quick look: requests and caches shrink in proportion.
    pub scale: f64,
    /// The stream.
    pub source: Source,
    /// The disk.
    pub model: Model,
    /// The finished runs.
    pub keep: Arc<Keep>,
    /// Receives progress.
    pub watch: &'a dyn Watch,
    loads: Mutex<BTreeMap<Load, Arc<Workload>>>,
}

impl<'a> Bench<'a> {
    /// A bench for the fitted stream, without runs.
    pub fn new(
        scale: f64,
        seed: u64,
        model: Model,
        keep: impl Into<Arc<Keep>>,
        watch: &'a dyn Watch,
    ) -> Self {
        Bench::on(Source::Fitted { seed }, scale, model, keep, watch)
    }

    /// A bench for any stream, without runs.
    pub fn on(
        source: Source,
        scale: f64,
        model: Model,
        keep: impl Into<Arc<Keep>>,
        watch: &'a dyn Watch,
    ) -> Self {
        Bench {
            scale,
            source,
            model,
            keep: keep.into(),
            watch,
            loads: Mutex::default(),
        }
    }

    /// The caches of the paper's main experiment, adapted to this bench's stream and scale.
    pub fn caches(&self) -> Caches {
        let load = self.scaled(Load::paper(printed::DISK_BYTES, Until::Gets(0)));
        Caches {
            memory_bytes: load.memory_bytes,
            disk_bytes: load.disk_bytes,
        }
    }

    /// Adapts a load of the paper to this bench's stream and scale. On a trace sizes and lengths keep their proportion: sizes relative to the
    /// trace's own caches, lengths relative to the million requests of the paper's main experiment.
    pub fn scaled(&self, load: Load) -> Load {
        // Factors for disk, memory, disk requests and gets; the whole trace if the paper's load is no shorter.
        let (disk, memory, requests, gets) = match &self.source {
            Source::Fitted { .. } => (1.0, 1.0, 1.0, 1.0),
            Source::Trace(trace) => (
                trace.caches.disk_bytes as f64 / printed::DISK_BYTES as f64,
                trace.caches.memory_bytes as f64 / printed::MEMORY_BYTES as f64,
                trace.disk_requests as f64 / printed::REQUESTS as f64,
                trace.gets as f64 / printed::GETS as f64,
            ),
        };
        let less = |n: u64, share: f64| ((n as f64 * share * self.scale) as u64).max(1);
        Load {
            disk_bytes: less(load.disk_bytes, disk),
            memory_bytes: less(load.memory_bytes, memory),
            until: match load.until {
                Until::Requests(n) => Until::Requests(less(n as u64, requests) as usize),
                Until::Gets(n) => Until::Gets(less(n, gets)),
            },
            stream: self.source.key(),
        }
    }

    /// The requests of a load, at this bench's scale.
    pub fn load(&self, load: Load) -> io::Result<Arc<Workload>> {
        self.exactly(self.scaled(load))
    }

    /// The counts of a load at this bench's scale; the requests are not kept.
    pub fn counts(&self, load: Load) -> io::Result<Counts> {
        Ok(self.make_load(self.scaled(load), false)?.counts)
    }

    fn make_load(&self, load: Load, keep: bool) -> io::Result<Workload> {
        let caches = Caches {
            memory_bytes: load.memory_bytes,
            disk_bytes: load.disk_bytes,
        };
        let seed = match load.stream {
            StreamKey::Fitted(seed) => seed,
            StreamKey::Trace(_) => 0,
        };
        self.source.workload(caches, load.until, seed, keep)
    }

    /// The requests of a load, without scaling.
    pub fn exactly(&self, load: Load) -> io::Result<Arc<Workload>> {
        let find = |loads: &BTreeMap<Load, Arc<Workload>>| loads.get(&load).cloned();
        if let Some(made) = find(&self.loads.lock().unwrap_or_else(PoisonError::into_inner)) {
            return Ok(made);
        }
        let made = Arc::new(self.make_load(load, true)?);
        let mut loads = self.loads.lock().unwrap_or_else(PoisonError::into_inner);
        loads.insert(load, Arc::clone(&made));
        Ok(made)
    }

    /// Runs jobs over a load at this bench's scale; a finished run is not repeated.
    pub fn run(&self, what: &str, load: Load, jobs: &[Job]) -> io::Result<Vec<Outcome>> {
        let load = self.scaled(load);
        let jobs: Vec<(Load, Job)> = jobs.iter().map(|job| (load, job.clone())).collect();
        self.run_all(what, &jobs)
    }

    /// Runs jobs, each over its load without scaling.
    pub fn run_all(&self, what: &str, jobs: &[(Load, Job)]) -> io::Result<Vec<Outcome>> {
        // The key has the defaults of the fitted stream: other defaults make another stream.
        let fitted = DecLike::default();
        let key = |(load, job): &(Load, Job)| match load.stream {
            StreamKey::Fitted(_) => format!("{MODELS_VERSION} {fitted:?} {load:?} {job:?}"),
            StreamKey::Trace(_) => format!("{MODELS_VERSION} {load:?} {job:?}"),
        };
        let todo: Vec<&(Load, Job)> = jobs
            .iter()
            .filter(|job| self.keep.find(&key(job)).is_none())
            .collect();
        if !todo.is_empty() {
            self.watch.begin(what, 0);
            let mut requests = 0;
            for (load, _) in &todo {
                requests += self.exactly(*load)?.requests.len() as u64;
            }
            self.watch.begin(what, requests);
            let results = each(&todo, |&job| {
                let (load, what) = job;
                let load = self.exactly(*load)?;
                let outcome = what.run(&load, |n| self.watch.more(n as u64))?;
                self.keep.add(&key(job), &outcome)?;
                Ok::<Outcome, io::Error>(outcome)
            });
            self.watch.end();
            results.into_iter().collect::<io::Result<Vec<_>>>()?;
        }
        let found = |job| {
            let outcome = self.keep.find(&key(job));
            outcome.ok_or_else(|| io::Error::other("a run that was just made is not found"))
        };
        jobs.iter().map(found).collect()
    }
}
