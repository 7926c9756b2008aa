//! One run: a manager, a disk, and the requests of a workload; the result is a time.
//!
//! Not known here: tables.   Limits: as many runs at a time as asked for.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use super::workload::Workload;
use crate::DiskRequest;
use crate::disks::drive::Drive;
use crate::disks::flash::Flash;
use crate::disks::machine::Machine;
use crate::disks::ufs::Ufs;
use crate::disks::{Calls, Disk};
use crate::managers::{Kind, Manager, Settings, make};
use crate::requests::Requests;

/// A modelled disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Model {
    /// The paper's machine and disk.
    Disk1999,
    /// The same file system over flash, on a machine of today.
    Flash,
}

impl Model {
    /// A new disk of this model.
    pub fn make(self) -> Box<dyn Disk> {
        match self {
            Model::Disk1999 => Box::new(Ufs::new(Machine::ultra_1(), Box::new(Drive::of_1999()))),
            Model::Flash => Box::new(Ufs::new(
                Machine::of_today(),
                Box::new(Flash::new(Drive::of_1999().bytes())),
            )),
        }
    }
}

/// The result of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// Time from the first request until all data is on the device.
    pub seconds: f64,
    /// Disk requests a second. The last four rows of the paper's Table 2 count these.
    pub requests_per_s: f64,
    /// Requests of clients a second, as the paper says.
    pub gets_per_s: f64,
    /// System calls.
    pub calls: CallCounts,
    /// Other counts of disk and manager, by name.
    pub figures: BTreeMap<String, f64>,
}

/// A copy of [`Calls`] that can be serialized.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallCounts {
    /// Directories made.
    pub dirs: u64,
    /// Files made.
    pub creates: u64,
    /// Files opened.
    pub opens: u64,
    /// Writes.
    pub writes: u64,
    /// Reads.
    pub reads: u64,
    /// Files removed.
    pub deletes: u64,
}

impl From<Calls> for CallCounts {
    fn from(calls: Calls) -> CallCounts {
        CallCounts {
            dirs: calls.dirs,
            creates: calls.creates,
            opens: calls.opens,
            writes: calls.writes,
            reads: calls.reads,
            deletes: calls.deletes,
        }
    }
}

/// Runs requests through a manager. `step` is called now and then with the number of requests done since its last call; if it returns
/// `false`, the run ends with an error of kind `Interrupted`.
pub fn run(
    manager: &mut dyn Manager,
    disk: &mut dyn Disk,
    requests: &Requests<DiskRequest>,
    gets: u64,
    mut step: impl FnMut(usize) -> bool,
) -> io::Result<Outcome> {
    manager.prepare(disk)?;
    disk.start()?;
    let mut at = 0;
    requests.each(|request| {
        disk.begin();
        manager.handle(request, disk)?;
        at += 1;
        if at % 1024 == 0 && !step(1024) {
            return Err(io::ErrorKind::Interrupted.into());
        }
        Ok(())
    })?;
    step(requests.len() % 1024);
    manager.finish(disk)?;
    disk.finish()?;
    let seconds = disk.now_us() as f64 / 1e6;
    let mut figures: BTreeMap<String, f64> = disk.figures().into_iter().collect();
    for (name, value) in manager.figures() {
        figures.insert(name.to_owned(), value);
    }
    Ok(Outcome {
        seconds,
        requests_per_s: requests.len() as f64 / seconds,
        gets_per_s: gets as f64 / seconds,
        calls: disk.calls().into(),
        figures,
    })
}

/// The description of a run on a modelled disk.
#[derive(Debug, Clone)]
pub struct Job {
    /// The kind of manager.
    pub kind: Kind,
    /// The manager's settings; the size of the file comes from the workload and the utilisation.
    pub settings: Settings,
    /// The largest share of the file in use at any time.
    pub utilisation: f64,
    /// The disk.
    pub model: Model,
}

impl Job {
    /// Makes the run.
    pub fn run(&self, load: &Workload, step: impl FnMut(usize) -> bool) -> io::Result<Outcome> {
        let settings = Settings {
            file_bytes: load.file_bytes(self.utilisation),
            ..self.settings.clone()
        };
        let mut manager = make(self.kind, &settings);
        let mut disk = self.model.make();
        run(
            manager.as_mut(),
            disk.as_mut(),
            &load.requests,
            load.counts.gets,
            step,
        )
    }
}

/// Calls `work` for each item, on as many threads as there are processors; the results are in the items' order.
pub fn each<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let next = AtomicUsize::new(0);
    let results: Mutex<Vec<Option<R>>> = Mutex::new(items.iter().map(|_| None).collect());
    std::thread::scope(|scope| {
        for _ in 0..threads.min(items.len()) {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(item) = items.get(at) else { break };
                    let result = work(item);
                    let mut results = results.lock().unwrap_or_else(PoisonError::into_inner);
                    results[at] = Some(result);
                }
            });
        }
    });
    let results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    results.into_iter().flatten().collect()
}
