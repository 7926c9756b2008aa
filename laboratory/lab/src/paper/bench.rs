//! The bench that experiments are made on: workloads made once, runs made once, side by side, with somebody watching.
//!
//! Not known here: which experiments there are.
//! Limits: workloads stay in memory, 16 bytes a request; as many runs at a time as there are processors.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use super::experiment::{Job, Model, Outcome, each};
use super::keep::Keep;
use super::workload::{Counts, Workload};
use super::{printed, source};

/// Written with each kept run; to be raised when a model or a manager changes what comes out.
const MODELS_VERSION: u32 = 3;

/// Which requests. Sizes are the paper's; the bench's scale makes them smaller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Load {
    /// The disk cache.
    pub disk_bytes: u64,
    /// The memory cache.
    pub memory_bytes: u64,
    /// How far it goes.
    pub until: Until,
    /// Another one gives another stream.
    pub seed: u64,
}

/// Where a stream of requests ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Until {
    /// After so many requests to the disk.
    Requests(usize),
    /// After so many requests of clients.
    Gets(u64),
}

impl Load {
    /// The paper's: memory of 512 MB.
    pub fn paper(disk_bytes: u64, until: Until) -> Load {
        Load {
            disk_bytes,
            memory_bytes: printed::MEMORY_BYTES,
            until,
            seed: 1,
        }
    }
}

fn make_load(load: Load) -> Workload {
    let Load {
        seed,
        disk_bytes,
        memory_bytes,
        ..
    } = load;
    match load.until {
        Until::Requests(n) => source::requests(seed, disk_bytes, memory_bytes, n),
        Until::Gets(n) => source::gets(seed, disk_bytes, memory_bytes, n),
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
    /// 1 for the paper's sizes, less for a quick look: requests and caches shrink alike.
    pub scale: f64,
    /// The stream.
    pub seed: u64,
    /// The disk.
    pub model: Model,
    /// Runs that are done.
    pub keep: Keep,
    /// Who watches.
    pub watch: &'a dyn Watch,
    loads: Mutex<BTreeMap<Load, Arc<Workload>>>,
}

impl<'a> Bench<'a> {
    /// A bench with nothing done.
    pub fn new(scale: f64, seed: u64, model: Model, keep: Keep, watch: &'a dyn Watch) -> Self {
        Bench {
            scale,
            seed,
            model,
            keep,
            watch,
            loads: Mutex::default(),
        }
    }

    /// A load as it is at this bench's scale.
    pub fn scaled(&self, load: Load) -> Load {
        let less = |n: u64| ((n as f64 * self.scale) as u64).max(1);
        Load {
            disk_bytes: less(load.disk_bytes),
            memory_bytes: less(load.memory_bytes),
            until: match load.until {
                Until::Requests(n) => Until::Requests(less(n as u64) as usize),
                Until::Gets(n) => Until::Gets(less(n)),
            },
            seed: self.seed,
        }
    }

    /// The requests of a load, at this bench's scale.
    pub fn load(&self, load: Load) -> Arc<Workload> {
        self.exactly(self.scaled(load))
    }

    /// The counts of a load at this bench's scale; the requests are not kept.
    pub fn counts(&self, load: Load) -> Counts {
        make_load(self.scaled(load)).counts
    }

    /// The requests of a load, as it says.
    pub fn exactly(&self, load: Load) -> Arc<Workload> {
        let find = |loads: &BTreeMap<Load, Arc<Workload>>| loads.get(&load).cloned();
        if let Some(made) = find(&self.loads.lock().unwrap_or_else(PoisonError::into_inner)) {
            return made;
        }
        let made = Arc::new(make_load(load));
        let mut loads = self.loads.lock().unwrap_or_else(PoisonError::into_inner);
        loads.insert(load, Arc::clone(&made));
        made
    }

    /// Runs jobs over a load of this bench's scale; what was done before is not done again.
    pub fn run(&self, what: &str, load: Load, jobs: &[Job]) -> io::Result<Vec<Outcome>> {
        let load = self.scaled(load);
        let jobs: Vec<(Load, Job)> = jobs.iter().map(|job| (load, job.clone())).collect();
        self.run_all(what, &jobs)
    }

    /// Runs jobs, each over its load as it is.
    pub fn run_all(&self, what: &str, jobs: &[(Load, Job)]) -> io::Result<Vec<Outcome>> {
        let key = |(load, job): &(Load, Job)| format!("{MODELS_VERSION} {load:?} {job:?}");
        let todo: Vec<&(Load, Job)> = jobs
            .iter()
            .filter(|job| self.keep.find(&key(job)).is_none())
            .collect();
        if !todo.is_empty() {
            self.watch.begin(what, 0);
            let mut requests = 0;
            for (load, _) in &todo {
                requests += self.exactly(*load).requests.len() as u64;
            }
            self.watch.begin(what, requests);
            let results = each(&todo, |&job| {
                let (load, what) = job;
                let load = self.exactly(*load);
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
