//! The bench that experiments are made on: workloads made once, runs made once, side by side, with somebody watching.
//!
//! Not known here: which experiments there are.
//! Limits: workloads stay where `requests` keeps them; as many runs at a time as there are processors.

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

/// Written with each kept run; to be raised when a model or a manager changes what comes out.
const MODELS_VERSION: u32 = 4;

/// Which requests. Sizes are the paper's; a bench's scale makes them smaller, and a trace makes them its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Load {
    /// The disk cache.
    pub disk_bytes: u64,
    /// The memory cache.
    pub memory_bytes: u64,
    /// How far it goes.
    pub until: Until,
    /// Of which stream.
    pub stream: StreamKey,
}

impl Load {
    /// The paper's: memory of 512 MB.
    pub fn paper(disk_bytes: u64, until: Until) -> Load {
        Load {
            disk_bytes,
            memory_bytes: printed::MEMORY_BYTES,
            until,
            stream: StreamKey::Fitted(1),
        }
    }
}

/// Somebody who watches. Calls come from several threads.
pub trait Watch: Sync {
    /// Something begins, of so many disk requests altogether.
    fn begin(&self, what: &str, requests: u64);
    /// So many more are done. `false`: stop.
    fn more(&self, requests: u64) -> bool;
    /// It is over.
    fn end(&self);
}

/// Nobody.
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
    /// 1 for the paper's sizes or the whole of a trace, less for a quick look: requests and caches shrink alike.
    pub scale: f64,
    /// The stream.
    pub source: Source,
    /// The disk.
    pub model: Model,
    /// Runs that are done.
    pub keep: Arc<Keep>,
    /// Who watches.
    pub watch: &'a dyn Watch,
    loads: Mutex<BTreeMap<Load, Arc<Workload>>>,
}

impl<'a> Bench<'a> {
    /// A bench for the fitted stream, with nothing done.
    pub fn new(
        scale: f64,
        seed: u64,
        model: Model,
        keep: impl Into<Arc<Keep>>,
        watch: &'a dyn Watch,
    ) -> Self {
        Bench::on(Source::Fitted { seed }, scale, model, keep, watch)
    }

    /// A bench for any stream, with nothing done.
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

    /// Caches of the paper's main experiment, as they are for this bench's stream, at its scale.
    pub fn caches(&self) -> Caches {
        let load = self.scaled(Load::paper(printed::DISK_BYTES, Until::Gets(0)));
        Caches {
            memory_bytes: load.memory_bytes,
            disk_bytes: load.disk_bytes,
        }
    }

    /// A load of the paper as it is for this bench's stream, at its scale. On a trace sizes and lengths keep their proportion: of the
    /// caches to the trace's own, of requests to the million that the paper's main experiment has.
    pub fn scaled(&self, load: Load) -> Load {
        // Of disk, memory, disk requests, gets; as long as the trace is, if the paper's is no shorter.
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

    /// The requests of a load, as it says.
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

    /// Runs jobs over a load of this bench's scale; what was done before is not done again.
    pub fn run(&self, what: &str, load: Load, jobs: &[Job]) -> io::Result<Vec<Outcome>> {
        let load = self.scaled(load);
        let jobs: Vec<(Load, Job)> = jobs.iter().map(|job| (load, job.clone())).collect();
        self.run_all(what, &jobs)
    }

    /// Runs jobs, each over its load as it is.
    pub fn run_all(&self, what: &str, jobs: &[(Load, Job)]) -> io::Result<Vec<Outcome>> {
        // Another default of the fitted stream is another stream.
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
